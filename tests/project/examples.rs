//! Invariants checked, for the examples as a user runs them:
//!
//! 1. The crawler finds each distinct link new once, apart from false positives. Run again, it finds none.
//! 2. The service answers `new` once for a key, and `seen` from then on, to every client, and after a kill.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Cargo puts examples beside the folder of test binaries.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap().parent().unwrap().join("examples").join(name);
    assert!(built.exists(), "{} is not built; add --examples to `cargo test`", built.display());
    Command::new(built)
}

fn sample() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/urls.txt.gz")
}

#[test]
fn the_crawler_finds_each_link_new_once() {
    let folder = tempfile::tempdir().unwrap();
    let run = || {
        let output = example("crawler").arg(folder.path().join("seen.gowk")).arg(sample()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let (new, rest) = text.split_once(' ').unwrap();
        assert_eq!(rest, "of 20000 links are new\n");
        new.parse::<u32>().unwrap()
    };
    // 12,428 links are distinct. At a rate of at most 1e-4, about one of them is a false positive.
    let new = run();
    assert!((12_418..=12_428).contains(&new), "{new}");
    assert_eq!(run(), 0);
}

/// The service as a process, which dropping it kills.
struct Service {
    child: Child,
    address: String,
}

impl Service {
    fn start(filter: &std::path::Path) -> Self {
        let mut child =
            example("service").arg(filter).arg("127.0.0.1:0").stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening on ").unwrap().to_owned();
        Self { child, address }
    }

    fn ask(&self, keys: &[&str]) -> Vec<String> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all((keys.join("\n") + "\n").as_bytes()).unwrap();
        let lines = BufReader::new(stream).lines();
        lines.take(keys.len()).map(Result::unwrap).collect()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn the_service_remembers_over_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let filter = folder.path().join("seen.gowk");
    let service = Service::start(&filter);
    assert_eq!(service.ask(&["a", "b", "a"]), ["new", "new", "seen"]);
    assert_eq!(service.ask(&["b", "c"]), ["seen", "new"]);
    drop(service);
    assert_eq!(Service::start(&filter).ask(&["a", "b", "c", "d"]), ["seen", "seen", "seen", "new"]);
}
