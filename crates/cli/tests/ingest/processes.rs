//! Invariants checked: after a signal, the job commits and says how to continue. Two jobs on one filter take turns.
//! Standard output and standard error are as documented.

use crate::run::{Folder, Running};
use crate::sample::{numbers, urls};

/// A job with enough keys and commits that a signal reaches it while it runs.
fn long_job(folder: &Folder) {
    let urls = urls();
    let lines: String = (0..20).flat_map(|i| urls.lines().map(move |line| format!("{line}#{i}\n"))).collect();
    folder.write("a", lines);
    folder.job("paths = ['a']", 1_000);
}

fn start(folder: &Folder, args: &[&str]) -> Running {
    folder.start_in_the_foreground(&[&["ingest", "job.toml", "--json"], args].concat())
}

#[test]
fn signals_commit_and_say_how_to_go_on() {
    let whole = Folder::new();
    long_job(&whole);
    whole.ingest();
    let whole = whole.left("new");
    let folder = Folder::new();
    long_job(&folder);
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let mut job = start(&folder, &[]);
        let events = job.err_lines();
        let event = events.next();
        assert!(event.starts_with("{\"event\":\"commit\",\"number\":"), "{event}");
        job.signal(signal);
        assert_eq!(job.wait().code(), Some(code));
        let mut summary = String::new();
        std::io::Read::read_to_string(&mut job.stdout.take().unwrap(), &mut summary).unwrap();
        let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
        assert_eq!(summary["finished"], false);
        assert_eq!(summary["resume"], "gowk ingest job.toml");
        assert_eq!(folder.run(&["verify", "f"], "").code, Some(0));
        let last: serde_json::Value = serde_json::from_str(&events.rest().pop().unwrap_or(event)).unwrap();
        assert_eq!(last["keys"], summary["run"]["keys"]);
    }
    let mut job = folder.start_in_the_foreground(&["ingest", "job.toml"]);
    while !folder.path("new").exists() {}
    std::thread::sleep(std::time::Duration::from_millis(50));
    job.signal("INT");
    let lines = job.err_lines();
    if job.wait().code() == Some(130) {
        let said = lines.rest().pop().unwrap();
        assert!(
            said.starts_with("gowk: stopped by a signal; the ")
                && said.ends_with("to go on: gowk ingest job.toml"),
            "{said}"
        );
    }
    folder.ingest();
    whole.assert_same(&folder.left("new"));
}

/// The numbers of keys in the commits that a run reported.
fn commits(folder: &Folder) -> Vec<u64> {
    let ended = folder.run(&["ingest", "job.toml", "--json"], "");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let keys =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["keys"].as_u64().unwrap();
    ended.err.lines().map(keys).collect()
}

#[test]
fn commits_fall_on_multiples_of_the_keys_of_all_runs() {
    let folder = Folder::new();
    folder.write("a", numbers(0..7));
    folder.job("paths = ['a']", 10);
    assert_eq!(commits(&folder), [7]);
    folder.append("a", numbers(7..35));
    // Commits come after 10, 20, 30 and 35 keys in all.
    assert_eq!(commits(&folder), [3, 13, 23, 28]);
}

/// The job in `docs/operating.md` does what that page says.
#[test]
fn the_example_does_what_the_page_says() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let (page, example) = (read("docs/operating.md"), read("examples/ingest.toml"));
    let (_, shown) = page.split_once("```toml\n[filter]").unwrap();
    let shown =
        shown.split("```").next().unwrap().lines().map(|line| line.split(" #").next().unwrap().trim());
    for line in shown.filter(|line| !line.is_empty()) {
        assert!(example.lines().any(|one| one == line), "{line}");
    }
    let folder = Folder::new();
    folder.write("ingest.toml", example);
    std::fs::copy(crate::sample::URLS, folder.path("urls.txt.gz")).unwrap();
    let run = || folder.run(&["ingest", "ingest.toml", "--json"], "").json()["run"]["new"].as_u64().unwrap();
    // The seed is random, so a key or two may be false positives.
    assert!((12_400..=12_428).contains(&run()));
    assert_eq!(run(), 0);
}

#[test]
fn a_second_job_reports_or_waits_as_asked_and_no_key_is_lost() {
    let folder = Folder::new();
    long_job(&folder);
    folder.write("b", "only in b\n");
    let job = folder.text("job.toml");
    folder.write("second.toml", job.replace("'a'", "'b'").replace("\"new\"", "\"second\""));
    let mut first = start(&folder, &[]);
    first.err_lines().next();
    let second = folder.run(&["ingest", "second.toml"], "");
    second.refused(&["f: locked by another writer", "--wait"]);
    assert!(!folder.path("second").exists());
    let waited = folder.run(&["ingest", "second.toml", "--json", "--wait"], "");
    assert_eq!(first.wait().code(), Some(0));
    assert_eq!((waited.code, &waited.json()["run"]["new"]), (Some(0), &1.into()));
    folder.assert_holds("f", "only in b\n");
    folder.assert_holds("f", &folder.text("a"));
    assert_eq!(folder.info("f")["entries"], folder.text("new").lines().count() as u64 + 1);
}

#[test]
fn two_jobs_started_at_once_on_a_filter_that_is_not_there_both_run() {
    for _ in 0..5 {
        let folder = Folder::new();
        folder.write("a", "1\n2\n");
        folder.write("b", "2\n3\n");
        folder.job("paths = ['a']", 1);
        folder.write(
            "second.toml",
            folder.text("job.toml").replace("'a'", "'b'").replace("\"new\"", "\"second\""),
        );
        let mut both = ["job.toml", "second.toml"].map(|job| folder.start(&["ingest", job, "--wait=60"]));
        for job in &mut both {
            assert_eq!(job.wait().code(), Some(0));
        }
        folder.assert_holds("f", "1\n2\n3\n");
        assert_eq!(folder.text("new").len() + folder.text("second").len(), 6);
    }
}

#[test]
fn a_dry_run_says_what_would_be_read_and_changes_nothing() {
    let folder = Folder::new();
    folder.write("a", "1\n2\n");
    folder.job("paths = ['a']", 1);
    let before = folder.snapshot();
    let said = folder.run(&["ingest", "job.toml", "--dry-run"], "").done();
    assert_eq!(said, "job: would create f\na: would read 4 bytes\nnew: would get the new keys\n");
    assert!(folder.snapshot() == before);
    folder.ingest();
    folder.append("a", "3\n");
    let before = folder.snapshot();
    let said = folder.run(&["ingest", "job.toml", "--dry-run"], "").done();
    assert_eq!(
        said,
        "job: would open f\na: has grown; would read bytes 4 to 6\nnew: would get the new keys after byte 4\n"
    );
    let plan = folder.run(&["ingest", "job.toml", "--dry-run", "--json"], "").json();
    assert_eq!((&plan["inputs"][0]["state"], &plan["inputs"][0]["from"]), (&"grown".into(), &4.into()));
    assert!(folder.snapshot() == before);
}

#[test]
fn the_summary_has_all_that_is_documented() {
    let folder = Folder::new();
    folder.write("a", "1\n2\n1\n");
    folder.write("b", "2\n3\n");
    folder.job("paths = ['a', 'b']", 2);
    let ended = folder.run(&["ingest", "job.toml"], "");
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    let text = ended.text();
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[1], ["a", "3", "2", "1", "0"], "{text}");
    assert_eq!(words[2], ["b", "2", "1", "1", "0"], "{text}");
    assert_eq!(words[3], ["this", "run", "5", "3", "2", "0"], "{text}");
    let rate = "expected false-positive rate 1.71e-13 (1 in 5,864,062,014,806)";
    assert!(text.contains("f: 3 entries, load 0.0002, ") && text.contains(rate), "{text}");
    // Numbers are written for people.
    let folder = Folder::new();
    folder.write("a", (0..12_345).map(|key| format!("{key}\n")).collect::<String>());
    folder.job("paths = ['a']", 100_000);
    let planned = folder.run(&["ingest", "job.toml", "--dry-run"], "").text();
    assert!(planned.contains("a: would read 62,960 bytes"), "{planned}");
    let text = folder.run(&["ingest", "job.toml"], "").text();
    let words: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(words[..2], ["a", "12,345"], "{text}");
    assert!(text.lines().last().unwrap().starts_with("f: 12,34"), "{text}");
    let folder = Folder::new();
    folder.write("a", "1\n2\n1\n");
    folder.job("paths = ['a']", 2);
    let ended = folder.run(&["ingest", "job.toml", "--json"], "");
    let commits: Vec<serde_json::Value> =
        ended.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(commits.iter().map(|commit| commit["keys"].as_u64().unwrap()).collect::<Vec<_>>(), [2, 3]);
    let summary = ended.json();
    for (pointer, value) in [
        ("/run/read", 3),
        ("/run/new", 2),
        ("/run/seen", 1),
        ("/run/skipped", 0),
        ("/filter/entries", 2),
        ("/inputs/0/new", 2),
    ] {
        assert_eq!(summary.pointer(pointer).unwrap(), value, "{pointer}");
    }
    for pointer in ["/seconds", "/filter/load", "/filter/expected_false_positive_rate"] {
        assert!(summary.pointer(pointer).unwrap().as_f64().unwrap() > 0.0, "{pointer}");
    }
}
