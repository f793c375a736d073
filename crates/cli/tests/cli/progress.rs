//! Invariants checked: a run reports its work on standard error, on a terminal or on request. Standard output has only
//! keys. `script`, from util-linux, provides the terminal.

use std::process::{Command, Stdio};

use crate::run::{Folder, lines, run};

#[test]
fn the_summary_says_what_became_of_the_keys() {
    let folder = Folder::with_filter(&["--capacity", "1000", "--slots-per-bucket", "2"]);
    let ended = folder.run(&["dedup", "f", "--stats"], [lines(0..1500), lines(0..500)].concat());
    assert_eq!((ended.code, ended.text()), (Some(0), lines(0..1500)));
    assert!(ended.err.starts_with("gowk: f: read 2,000, new 1,500, seen 500, refused 0, in "), "{ended:?}");
    assert!(
        ended.err.contains(" keys a second), ")
            && ended.err.contains(" % in commits")
            && ended.err.lines().count() == 1,
        "{ended:?}"
    );
    // A counting filter stores all copies. The first one is new.
    folder.run(&["create", "c", "--capacity", "1000", "--counting"], "").done();
    for file in ["f", "c"] {
        let ended = folder.run(&["insert", file, "--stats", "a", "a"], "");
        let told = format!("gowk: {file}: read 2, new 1, seen 1, refused 0, in ");
        assert!(ended.err.starts_with(&told), "{ended:?}");
    }
    // Without the option there is no summary.
    folder.run(&["dedup", "f"], lines(0..10)).done();
    folder.run(&["insert", "f"], lines(0..10)).done();

    let ended = folder.run(&["insert", "f", "--json"], lines(1000..1600));
    let summary: serde_json::Value = serde_json::from_str(ended.err.lines().last().unwrap()).unwrap();
    assert_eq!(ended.err.lines().count(), 2, "{ended:?}");
    assert_eq!((&summary["event"], &summary["read"]), (&"summary".into(), &600.into()));
    assert_eq!(
        (&summary["new"], &summary["seen"], &summary["refused"]),
        (&100.into(), &500.into(), &0.into())
    );
    assert!(summary["seconds"].is_f64());
}

#[test]
fn keys_without_room_are_counted_in_the_summary() {
    let folder = Folder::with_filter(&["--capacity", "1000", "--slots-per-bucket", "2", "--growth", "never"]);
    let ended = folder.run(&["dedup", "f", "--stats"], lines(0..20_000));
    let summary = ended.err.lines().find(|line| line.contains("f: read 20,000, new 20,000, seen 0")).unwrap();
    let refused = 20_000 - folder.info("f")["entries"].as_u64().unwrap();
    let refused = format!("refused {},{:03}, in ", refused / 1000, refused % 1000);
    assert!(summary.contains(&refused), "{summary}");
}

/// What a terminal shows during a shell command that runs the tool; `None` without `script`.
pub(crate) fn on_a_terminal(folder: &Folder, line: &str) -> Option<String> {
    if Command::new("script").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("SKIPPED: there is no `script` to make a terminal with");
        return None;
    }
    let mut script = Command::new("script");
    script.args(["-qec", &format!("stty cols 120; {}", line.replace("gowk", env!("CARGO_BIN_EXE_gowk")))]);
    // If the caller has no terminal, TERM may be unset, and then there are no bars.
    script.arg("/dev/null").current_dir(folder.path("")).env("TERM", "xterm");
    script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ended = run(&mut script, b"");
    Some(ended.text())
}

#[test]
fn a_terminal_shows_how_far_it_is_and_standard_output_has_only_keys() {
    let folder = Folder::new();
    std::fs::write(folder.path("keys"), lines(0..300_000)).unwrap();
    for (input, words) in
        [("--input keys", " % of 3.04 MiB, "), ("< keys", " % of 3.04 MiB, "), ("< <(cat keys)", "iB, ")]
    {
        let line = format!("bash -c 'gowk dedup f --false-positive-rate 2e-9 --seed 1 {input} > new'");
        let Some(screen) = on_a_terminal(&folder, &line) else { return };
        for words in [words, " keys, ", " a second, load 0."] {
            assert!(screen.contains(words), "no {words:?} in {screen:?}");
        }
        let last = screen.trim_end().rsplit(['\r', '\n']).next().unwrap();
        assert!(
            last.contains("gowk: f: read 300,000, new ") && last.contains(", refused 0, in "),
            "{screen:?}"
        );
        assert!(
            std::fs::read_to_string(folder.path("new")).unwrap()
                == if input == "--input keys" { lines(0..300_000) } else { String::new() }
        );
    }
    // A bar never tears apart keys on the same terminal. For few keys there is no bar.
    let screen = on_a_terminal(&folder, "echo one more | gowk dedup f; gowk insert f another").unwrap();
    assert_eq!(screen.trim_end(), "one more");
    // There is no bar for programs either.
    let screen = on_a_terminal(&folder, "gowk insert f --json --input keys").unwrap();
    assert_eq!(screen.lines().filter(|line| !line.starts_with('{')).count(), 0, "{screen:?}");
}
