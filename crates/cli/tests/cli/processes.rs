//! Invariants checked:
//!
//! 1. There is one writer at a time, by whatever name it opened the filter.
//! 2. A reported commit survives `kill -9`, and readers see it beside the writer.
//! 3. A signal commits.
//! 4. A line is written before its key is committed. If it cannot be written, its key is not remembered.

use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::run::{DEADLINE, Folder, Running, Unprivileged, in_a_shell, lines, run, set_mode};

fn keys_of(event: &str) -> u32 {
    let event: Value = serde_json::from_str(event).unwrap();
    assert_eq!(event["event"], "commit");
    event["keys"].as_u64().unwrap() as u32
}

#[track_caller]
fn becomes_true(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "the condition did not become true in time");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_second_writer_is_refused_at_once_also_through_a_symlink_or_waits() {
    let folder = Folder::new();
    let mut first = folder.start(&["dedup", "f", "--commit-every", "1"]);
    let out = first.out_lines();
    first.give("a\nb\n");
    assert_eq!([out.next(), out.next()], ["a", "b"]);
    // The filter is created by its first commit, which may not be over yet.
    becomes_true(|| folder.path("f").exists());
    std::os::unix::fs::symlink("f", folder.path("link")).unwrap();
    for args in [["insert", "f", "c"], ["remove", "link", "a"], ["dedup", "link", "c"]] {
        folder.run(&args, "").refused(&["/f: locked", "--wait"]);
    }
    folder.run(&["grow", "link", "--wait=0.05"], "").refused(&["/f: locked"]);
    folder.run(&["create", "f", "--capacity", "9", "--force"], "").refused(&["/f: locked"]);

    let mut waiting =
        [folder.start(&["insert", "link", "c", "--wait"]), folder.start(&["insert", "f", "d", "--wait=90"])];
    // Without waiting, they would most likely have failed already.
    thread::sleep(Duration::from_millis(300));
    assert!(waiting.iter_mut().all(|second| second.has_ended().is_none()));
    drop(first.stdin.take());
    assert!(first.wait().success());
    for second in &mut waiting {
        assert!(second.wait().success());
    }
    folder.assert_holds("f", "a\nb\nc\nd\n");
}

#[test]
fn a_waiting_writer_can_be_interrupted() {
    let folder = Folder::new();
    let mut first = folder.start(&["dedup", "f"]);
    let out = first.out_lines();
    first.give("a\n");
    out.next();
    let mut second = folder.start(&["dedup", "f", "b", "--wait"]);
    // Not SIGINT, which a shell lets its background processes ignore.
    second.signal("TERM");
    assert_eq!(second.wait().signal(), Some(15));
}

#[test]
fn signals_commit_what_was_taken_although_input_is_awaited() {
    // The tool waits for input until the next commit is due, or without end if there is nothing to commit.
    for (name, code, commit_every) in
        [("INT", 130, "9"), ("TERM", 143, "9"), ("HUP", 129, "9"), ("INT", 130, "2")]
    {
        let folder = Folder::with_filter(&["--capacity", "1000"]);
        let mut dedup = folder.start_in_the_foreground(&["dedup", "f", "--commit-every", commit_every]);
        let out = dedup.out_lines();
        dedup.give("a\nb\nhalf a li");
        assert_eq!([out.next(), out.next()], ["a", "b"]);
        if commit_every == "9" {
            folder.assert_lacks("f", "a\nb\n");
        } else {
            becomes_true(|| folder.run(&["check", "f", "b"], "").code == Some(0));
        }
        dedup.signal(name);
        assert_eq!(dedup.wait().code(), Some(code), "{name}");
        let err = dedup.err_lines().rest();
        assert_eq!(err, ["gowk: stopped by a signal; the 2 keys taken until then are committed"]);
        folder.assert_holds("f", "a\nb\n");
        assert_eq!(folder.info("f")["journal_length"], 0);
    }
}

#[test]
fn check_and_count_answer_at_once_as_a_coprocess() {
    let folder = Folder::with_filter(&["--capacity", "1000", "--slots-per-bucket", "2"]);
    folder.run(&["insert", "f", "a"], "").done();
    for (args, answers) in [
        (&["check", "f", "--mask"][..], ["1", "0", "1"]),
        (&["check", "f", "--mask", "-v"], ["0", "1", "0"]),
        (&["count", "f"], ["1\ta", "0\tb", "1\ta"]),
    ] {
        let mut asked = folder.start(args);
        let out = asked.out_lines();
        for (key, answer) in ["a", "b", "a"].into_iter().zip(answers) {
            asked.give(&format!("{key}\n"));
            assert_eq!(out.next(), answer);
        }
        // The last line may lack its newline, as from a script.
        asked.give("a");
        drop(asked.stdin.take());
        assert_eq!(out.next(), answers[0]);
        assert_eq!(asked.wait().code(), Some(0));
    }
}

/// `nohup` starts the tool in this way, and so does a script for its background processes.
#[test]
fn signals_that_were_ignored_stay_ignored() {
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    let line = "trap '' HUP INT; exec \"$@\"";
    let mut dedup = Running::start(&mut in_a_shell(&folder, line, &["dedup", "f"]));
    let out = dedup.out_lines();
    for (key, signal) in [("a", "HUP"), ("b", "INT"), ("c", "TERM")] {
        dedup.give(&format!("{key}\n"));
        assert_eq!(out.next(), key);
        dedup.signal(signal);
    }
    assert_eq!(dedup.wait().code(), Some(143));
    folder.assert_holds("f", "a\nb\nc\n");
}

/// Sends SIGTERM repeatedly to a writer whose output nobody reads. Returns how the writer ends.
fn terminated_after(pause: Duration) -> ExitStatus {
    let folder = Folder::new();
    let mut dedup = folder.start(&["dedup", "f"]);
    let (mut stdin, mut stdout) = (dedup.stdin.take().unwrap(), dedup.stdout.take().unwrap());
    let feeding = thread::spawn(move || {
        // Far more than the pipes hold. The thread ends when the process does.
        let _ = stdin.write_all(lines(0..1_000_000).as_bytes());
    });
    stdout.read_exact(&mut [0]).unwrap();
    thread::sleep(pause);
    let start = Instant::now();
    let status = loop {
        if let Some(status) = dedup.has_ended() {
            break status;
        }
        assert!(start.elapsed() < DEADLINE, "the second signal does not end the process");
        dedup.signal("TERM");
        thread::sleep(Duration::from_millis(20));
    };
    feeding.join().unwrap();
    status
}

#[test]
fn a_second_signal_kills() {
    // A signal that comes before the output is stuck ends the process in the usual way. Then waits longer and tries
    // again.
    let mut tries = (0..8).map(|power| terminated_after(Duration::from_millis(1 << power)));
    let killed = tries.find(|status| {
        assert!(status.signal() == Some(15) || status.code() == Some(143), "{status}");
        status.signal().is_some()
    });
    assert!(killed.is_some());
}

/// A child that another test has just started holds all pipes of this process until it executes its own program, so that
/// a write into a closed pipe may succeed. Then the test tries again.
#[test]
fn a_closed_output_rolls_back_what_was_not_committed() {
    assert!((0..8).any(|_| ends_at_a_closed_output()));
}

/// Returns false if the process does not learn that its output is closed.
fn ends_at_a_closed_output() -> bool {
    let folder = Folder::new();
    let mut dedup = folder.start(&["dedup", "f", "--commit-every", "2", "--json"]);
    let err = dedup.err_lines();
    dedup.give("a\nb\n");
    assert_eq!(keys_of(&err.next()), 2);
    let mut four = [0; 4];
    dedup.stdout.as_mut().unwrap().read_exact(&mut four).unwrap();
    assert_eq!(four, *b"a\nb\n");
    drop(dedup.stdout.take());
    dedup.give("c\n");
    let start = Instant::now();
    let status = loop {
        match dedup.has_ended() {
            Some(status) => break status,
            None if start.elapsed() < Duration::from_secs(10) => thread::sleep(Duration::from_millis(5)),
            None => return false,
        }
    };
    assert_eq!(status.code(), Some(141));
    assert_eq!(err.rest(), Vec::<String>::new());
    folder.assert_holds("f", "a\nb\n");
    folder.assert_lacks("f", "c\n");
    folder.run(&["verify", "f"], "").done();
    true
}

#[test]
fn verbs_that_read_end_quietly_when_their_output_is_closed() {
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    for args in [
        &["check", "f", "-v"][..],
        &["count", "f"],
        &["info", "f"],
        &["verify", "f"],
        &["completions", "fish"],
    ] {
        // Unlike a pipe, a socket can be closed although a child that another test has just started has it too.
        let (reader, closed) = UnixStream::pair().unwrap();
        reader.shutdown(Shutdown::Both).unwrap();
        let ended = run(folder.command(args).stdout(OwnedFd::from(closed)), lines(0..10_000).as_bytes());
        assert_eq!((ended.code, ended.err.as_str()), (Some(141), ""), "{args:?}");
    }
}

#[test]
fn a_key_whose_line_cannot_be_written_is_not_remembered() {
    let full = || Stdio::from(File::create("/dev/full").unwrap());
    let folder = Folder::new();
    let dedup = ["dedup", "f", "--commit-every", "1"];
    let ended = run(folder.command(&dedup).stdout(full()), b"a\nb\n");
    ended.refused(&["standard output: cannot write", "the first 0 are committed"]);
    assert!(!folder.path("f").exists());
    folder.run(&["create", "f", "--capacity", "1000"], "").done();
    run(folder.command(&dedup).stdout(full()), b"a\nb\n").refused(&["standard output: cannot write"]);
    folder.assert_lacks("f", "a\nb\n");
}

/// Neither can be written, and the first failure is reported.
#[test]
fn the_output_is_written_before_the_records_that_have_no_key() {
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    folder.run(&["insert", "f", "a"], "").done();
    let check = ["check", "f", "--json-field", "id", "--rejects", "/dev/full"];
    let input = b"{\"id\":\"a\"}\nno JSON\n";
    let ended = run(folder.command(&check).stdout(File::create("/dev/full").unwrap()), input);
    // The end of the input may be reported before, but nothing else.
    let told = "gowk: standard input: 1 malformed records, for /dev/full";
    let errors: Vec<&str> = ended.err.lines().filter(|line| *line != told).collect();
    let is_the_output = |error: &str| error.starts_with("gowk: standard output: cannot write: ");
    assert!(matches!(errors[..], [error] if is_the_output(error)), "{ended:?}");
    assert_eq!(ended.code, Some(2), "{ended:?}");
}

#[test]
fn keys_are_not_printed_into_the_filter_itself() {
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    folder.run(&["insert", "f", "a"], "").done();
    std::os::unix::fs::symlink("f", folder.path("link")).unwrap();
    let before = folder.snapshot();
    for (own, name) in [("f-journal", "link"), ("./f-lock", "f"), ("f", "f"), ("link", "./f")] {
        for verb in ["dedup", "check", "count"] {
            let line = format!("exec \"$@\" >> {own}");
            let ended = run(&mut in_a_shell(&folder, &line, &[verb, name]), b"a\nb\n");
            ended.refused(&["standard output: is ", "a file of the filter itself; redirect it"]);
            assert!(folder.snapshot() == before, "{verb} {name} >> {own}");
        }
    }
}

/// Python's `subprocess.DEVNULL` opens the null device for reading and writing.
#[test]
fn keys_may_go_to_the_null_device_however_it_is_opened() {
    for nowhere in ["exec \"$@\" 1<>/dev/null", "exec \"$@\" > /dev/null"] {
        let folder = Folder::new();
        let ended = run(&mut in_a_shell(&folder, nowhere, &["dedup", "f"]), b"a\nb\n");
        ended.done();
        folder.assert_holds("f", "a\nb\n");
    }
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    folder.run(&["insert", "f", "a"], "").done();
    // Other verbs do not print the keys that they store.
    let ended = run(&mut in_a_shell(&folder, "exec \"$@\" >&-", &["insert", "f"]), b"c\n");
    ended.done();
    let ended = run(&mut in_a_shell(&folder, "exec \"$@\" >&-", &["check", "f", "-q", "c"]), b"");
    ended.done();
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_leaves_no_file() {
    let folder = Folder::new();
    // The limit hits the file of the new filter.
    let small = "ulimit -f 64; exec \"$@\"";
    run(&mut in_a_shell(&folder, small, &["dedup", "f"]), b"a\n").refused(&["/f: cannot allocate"]);
    assert_eq!(folder.snapshot().into_keys().collect::<Vec<_>>(), [""; 0]);
    // The limit hits the output.
    let longer = "ulimit -f 1024; exec \"$@\" > out";
    let dedup = ["dedup", "f", "--capacity", "1000"];
    let ended = run(&mut in_a_shell(&folder, longer, &dedup), lines(0..200_000).as_bytes());
    ended.refused(&["standard output: cannot write: File too large", "raise the limit"]);
    assert!(!folder.path("f").exists());
}

#[test]
fn a_thread_that_cannot_be_started_is_an_error() {
    let Some(unprivileged) = Unprivileged::new() else {
        eprintln!("SKIPPED: threads that cannot be started: this is root, and setpriv does not work");
        return;
    };
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    let job = "[filter]\npath = 'f'\n[input]\npaths = ['a']\n[output]\nnew_keys = 'new'\n";
    std::fs::write(folder.path("job.toml"), job).unwrap();
    std::fs::write(folder.path("a"), "a\n").unwrap();
    set_mode(&folder.path(""), 0o777);
    for name in ["f", "f-lock", "f-journal"] {
        set_mode(&folder.path(name), 0o666);
    }
    for (args, words) in [
        (&["dedup", "f"][..], "cannot start the reading thread: "),
        (&["check", "f"], "cannot start the reading thread: "),
        (&["insert", "f", "key"], "cannot listen to signals: "),
        (&["ingest", "job.toml"], "cannot start a thread: "),
    ] {
        let ended = run(&mut unprivileged.shell(&folder, "ulimit -u 1; exec \"$@\"", args), b"a\n");
        ended.refused(&[words, "try again when the system has more to give"]);
    }
    folder.assert_lacks("f", "a\nkey\n");
    folder.run(&["ingest", "job.toml"], "").done();
    folder.assert_holds("f", "a\n");
}

#[test]
fn output_is_flushed_and_keys_are_committed_while_input_is_awaited() {
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    let mut dedup = folder.start(&["dedup", "f", "--json"]);
    let (out, err) = (dedup.out_lines(), dedup.err_lines());
    dedup.give("a\nb\n");
    assert_eq!([out.next(), out.next()], ["a", "b"]);
    // The commit comes after ten seconds.
    assert_eq!(keys_of(&err.next()), 2);
    folder.assert_holds("f", "a\nb\n");
    assert_eq!(dedup.has_ended(), None);
    dedup.give("c\n");
    assert_eq!(out.next(), "c");
    drop(dedup.stdin.take());
    assert!(dedup.wait().success());
    let [last, summary] = &err.rest()[..] else { panic!("not a commit and a summary") };
    assert_eq!(keys_of(last), 3);
    assert!(summary.contains("\"event\":\"summary\",\"read\":3"), "{summary}");
}

#[test]
fn reported_commits_are_seen_beside_the_writer_and_survive_its_death() {
    const STEP: u32 = 20_000;
    let folder = Folder::new();
    for round in 0..4 {
        // The filter is small, so that it doubles during the run.
        let dedup = ["dedup", "f", "--capacity", "10_000", "--json", "--commit-every", &STEP.to_string()];
        let mut dedup = folder.start(&dedup);
        let err = dedup.err_lines();
        let drained = dedup.out_lines();
        let mut stdin = dedup.stdin.take().unwrap();
        // The thread ends when the process does.
        let feeding = thread::spawn(move || {
            let mut steps = (0..).map(|step| lines(step * STEP..(step + 1) * STEP));
            steps.find(|step| stdin.write_all(step.as_bytes()).is_err());
        });
        let mut reported = 0;
        for _ in 0..2 + 3 * round {
            reported = keys_of(&err.next());
            let missing = folder.run(&["check", "f", "-v"], lines(0..reported));
            assert_eq!((missing.text().as_str(), missing.code), ("", Some(1)));
        }
        assert!(dedup.has_ended().is_none());
        dedup.kill();
        feeding.join().unwrap();
        drop(drained);
        folder.assert_holds("f", &lines(0..reported));
        folder.run(&["verify", "f"], "").done();
        assert_eq!(folder.info("f")["journal_length"], 0);
    }
    folder.run(&["insert", "f", "a"], "").done();
    let names: Vec<_> = folder.snapshot().into_keys().collect();
    assert_eq!(names, ["f", "f-journal", "f-lock"]);
}

#[test]
fn a_copy_of_a_filter_with_a_journal_to_replay_is_whole() {
    let folder = Folder::with_filter(&["--capacity", "100_000"]);
    let mut insert = folder.start(&["insert", "f", "--json", "--commit-every", "1000"]);
    let err = insert.err_lines();
    insert.give(&lines(0..5000));
    while keys_of(&err.next()) < 5000 {}
    folder.run(&["copy", "f", "beside a writer"], "").done();
    insert.kill();
    assert_ne!(std::fs::metadata(folder.path("f-journal")).unwrap().len(), 512);
    folder.run(&["copy", "f", "after its death"], "").done();
    let mut uuids = vec![folder.info("f")["uuid"].to_string()];
    for copy in ["beside a writer", "after its death"] {
        folder.assert_holds(copy, &lines(0..5000));
        folder.run(&["verify", copy], "").done();
        uuids.push(folder.info(copy)["uuid"].to_string());
    }
    uuids.sort();
    uuids.dedup();
    assert_eq!(uuids.len(), 3);
}

#[test]
fn a_filter_that_another_one_is_copied_over_goes_on_answering() {
    let folder = Folder::new();
    let keys = |of: &str| (0..1000).map(|key| format!("{of}{key}\n")).collect::<String>();
    for name in ["live", "other"] {
        folder.run(&["dedup", name], keys(name)).done();
    }
    let mut tool = folder.start(&["check", "live"]);
    let out = tool.out_lines();
    tool.give(&keys("live"));
    (0..1000).for_each(|key| assert_eq!(out.next(), format!("live{key}")));
    std::fs::copy(folder.path("other"), folder.path("live")).unwrap();
    tool.give(&keys("other"));
    (0..1000).for_each(|key| assert_eq!(out.next(), format!("other{key}")));
    drop(tool.stdin.take());
    assert!(tool.wait().success());
}
