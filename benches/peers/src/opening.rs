//! Opening a large filter; commits of one key; two processes at once.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use gowk::{Growth, Lookup, Options, Reader};

use crate::keys::{absent, key};
use crate::measure::median;
use crate::{Outcome, filters};

const COMMITS: u64 = 500;
const LOOKUPS: usize = 4 << 20;
const ROUNDS: usize = 16;

/// The work of a child process of that name.
pub fn child(name: &str) -> Option<fn(&Path) -> Outcome<()>> {
    match name {
        "child-first-lookup" => Some(first_lookup),
        "child-lookups" => Some(lookups),
        "child-paging" => Some(crate::paging::child),
        _ => None,
    }
}

pub fn run(mebibytes: u64) -> Outcome<()> {
    let dir = tempfile::tempdir_in(".")?;
    let large = dir.path().join("large");
    let capacity = (mebibytes << 19) as f64 * 0.929;
    let mut writer = Options::new().capacity(capacity as u64).growth(Growth::Never).create(&large)?;
    writer.insert(b"key")?;
    writer.commit()?;
    writer.close()?;
    println!("opening a filter of {mebibytes} MiB and the first lookup, in a process of its own:");
    for _ in 0..3 {
        print!("{}", run_child("child-first-lookup", &large)?);
    }
    std::fs::remove_file(&large)?;
    commits(&dir.path().join("commits"))?;
    let path = dir.path().join("filter");
    filters::create(&path, 1024, 0.9)?;
    for _ in 0..3 {
        let one: f64 = run_child("child-lookups", &path)?.trim().parse()?;
        let (a, b) = (spawn("child-lookups", &path)?, spawn("child-lookups", &path)?);
        let mut two = 0.0;
        for child in [a, b] {
            two += String::from_utf8(child.wait_with_output()?.stdout)?.trim().parse::<f64>()?;
        }
        println!(
            "contains_batch: one process {one:.1} M/s, two at once {two:.1} M/s, ratio {:.2}",
            two / one
        );
    }
    Ok(())
}

fn spawn(work: &str, path: &Path) -> Outcome<std::process::Child> {
    let program = std::env::current_exe()?;
    Ok(Command::new(program).arg(work).arg(path).stdout(Stdio::piped()).spawn()?)
}

fn run_child(work: &str, path: &Path) -> Outcome<String> {
    Ok(String::from_utf8(spawn(work, path)?.wait_with_output()?.stdout)?)
}

fn first_lookup(path: &Path) -> Outcome<()> {
    let start = Instant::now();
    let found = Reader::open(path)?.contains(b"key")?;
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let resident = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
    println!("  {milliseconds:.2} ms, found: {found}; {resident}");
    Ok(())
}

fn lookups(path: &Path) -> Outcome<()> {
    let reader = Reader::open(path)?;
    let keys = absent(LOOKUPS);
    std::hint::black_box(reader.contains_batch(&keys)?);
    let start = Instant::now();
    for _ in 0..ROUNDS {
        std::hint::black_box(reader.contains_batch(&keys)?);
    }
    println!("{}", (ROUNDS * LOOKUPS) as f64 / start.elapsed().as_secs_f64() / 1e6);
    Ok(())
}

/// Commits of one key each, in turns with appends of as many bytes as such a commit writes.
fn commits(path: &Path) -> Outcome<()> {
    let mut writer = Options::new().capacity(1_000_000).create(path)?;
    writer.insert(b"key")?;
    writer.commit()?;
    let before = writer.info()?.journal_length;
    writer.insert(b"another key")?;
    writer.commit()?;
    let size = writer.info()?.journal_length - before;
    let mut log = OpenOptions::new().create(true).append(true).open(path.with_extension("log"))?;
    let bytes = vec![1; size as usize];
    let (mut of_commits, mut of_appends) = (Vec::new(), Vec::new());
    for number in 0..COMMITS {
        let start = Instant::now();
        writer.insert(key(number))?;
        writer.commit()?;
        of_commits.push(start.elapsed().as_secs_f64() * 1e6);
        let start = Instant::now();
        log.write_all(&bytes)?;
        log.sync_data()?;
        of_appends.push(start.elapsed().as_secs_f64() * 1e6);
    }
    let (commit, append) = (median(&of_commits), median(&of_appends));
    println!(
        "a commit of one key {commit:.0} us, an append of its {size} bytes with fdatasync {append:.0} us, ratio {:.2}",
        commit / append
    );
    Ok(())
}
