//! Invariants checked, for processes that bring overlapping keys to one store at the same time:
//!
//! 1. `dedup` with a token prints each key in exactly one run that ends well, whichever processes are killed and run
//!    again. No run fails because of the others.
//! 2. `dedup` prints no key, and `insert` counts no key as new, that another process has committed during the run.
//! 3. Without a token, a run fails if others committed its keys after it printed them. It says that its output is void.
//! 4. If committed keys cannot be printed, the message says how to get them, and that way works.

use std::fs::{self, File};
use std::process::Stdio;
use std::time::Duration;

use crate::run::{Folder, lines};
use crate::thorough;

fn folder() -> Folder {
    let folder = Folder::new();
    let args = ["store", "create", "s", "--shards", "4", "--capacity", "1000", "--slots-per-bucket", "2"];
    folder.run(&args, "").done();
    folder
}

/// Runs all batches of one process in order, each until it ends well. Returns everything that these runs printed.
fn claim(folder: &Folder, process: u32, batches: u32) -> Vec<String> {
    let mut random = thorough::seed(u64::from(process));
    let mut below = |limit: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % limit
    };
    let mut printed = Vec::new();
    let (input, output) = (format!("in-{process}"), format!("out-{process}"));
    for batch in 1..=batches {
        fs::write(folder.path(&input), lines(batch * 30..batch * 30 + 60)).unwrap();
        let token = format!("p{process}:{batch}");
        loop {
            let out = File::create(folder.path(&output)).unwrap();
            let mut command = folder.command(&["dedup", "s", "--token", &token, "--input", &input]);
            let mut child = command.stdin(Stdio::null()).stdout(out).spawn().unwrap();
            if below(3) == 0 {
                std::thread::sleep(Duration::from_micros(below(40_000)));
                // The process may have ended.
                let _ = child.kill();
            }
            let ended = child.wait_with_output().unwrap();
            if ended.status.success() {
                break;
            }
            let told = String::from_utf8_lossy(&ended.stderr);
            // A killed run may have committed, which the next one says. That one may be killed as well.
            let is_known = |line: &str| line.contains("a commit with this token was made before");
            assert!(ended.status.code().is_none() && told.lines().all(is_known), "{told}");
        }
        printed.extend(fs::read_to_string(folder.path(&output)).unwrap().lines().map(str::to_owned));
    }
    printed
}

#[test]
fn each_key_is_printed_by_exactly_one_run_of_many_processes() {
    let batches = thorough::size("batches of each process", 6, 40) as u32;
    for processes in [2, 4, 8] {
        let folder = &folder();
        let mut all: Vec<String> = std::thread::scope(|scope| {
            let each = (1..=processes).map(|process| scope.spawn(move || claim(folder, process, batches)));
            each.collect::<Vec<_>>().into_iter().flat_map(|one| one.join().unwrap()).collect()
        });
        all.sort_by_key(|line| line["key ".len()..].parse::<u32>().unwrap());
        let expected = lines(30..batches * 30 + 60);
        assert_eq!(all, expected.lines().collect::<Vec<_>>(), "{processes} processes");
        folder.assert_holds("s", &expected);
    }
}

#[test]
fn keys_that_others_have_committed_meanwhile_are_not_new() {
    for args in [
        &["dedup", "s", "--stats"][..],
        &["dedup", "s", "--stats", "--token", "a:1"],
        &["insert", "s", "--stats"],
    ] {
        let folder = folder();
        let mut first = folder.start(args);
        let (out, err) = (first.out_lines(), first.err_lines());
        first.give(&lines(0..10));
        // The first process has chosen its base before it reads input: the store is open.
        first.reads();
        assert_eq!(folder.run(&["dedup", "s"], lines(5..15)).done(), lines(5..15));
        folder.run(&["store", "compact", "s", "--all"], "").done();
        first.give(&lines(8..20));
        drop(first.stdin.take());
        assert!(first.wait().success(), "{args:?}");
        let expected: Vec<String> = (0..5).chain(15..20).map(|key| format!("key {key}")).collect();
        let printed = out.rest();
        assert_eq!(printed, if args[0] == "dedup" { expected } else { Vec::new() }, "{args:?}");
        let told = err.rest().join("\n");
        assert!(told.contains("read 22, new 10, seen 12"), "{told}");
        folder.assert_holds("s", &lines(0..20));
    }
}

#[test]
fn what_could_not_be_printed_is_printed_by_the_same_command() {
    let folder = folder();
    let args = ["dedup", "s", "--token", "a:1"];
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let mut command = folder.command(&args);
    let mut child = command.stdout(full()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), lines(0..10).as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{told}");
    assert!(told.contains("the commit was made") && told.contains("same token"), "{told}");
    folder.run(&["insert", "s"], lines(5..20)).done();
    let again = folder.run(&args, lines(0..10));
    assert_eq!((again.code, again.text()), (Some(0), lines(0..10)));
    // Without a token, no key is committed that could not be printed.
    let mut command = folder.command(&["dedup", "s"]);
    let mut child = command.stdout(full()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), lines(50..60).as_bytes()).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(2));
    folder.assert_lacks("s", &lines(50..60));
}

#[test]
fn without_a_token_keys_that_another_process_brings_meanwhile_are_told_and_fail_nothing() {
    let folder = folder();
    let mut command = folder.command(&["dedup", "s"]);
    let mut child = command.spawn().unwrap();
    // More than fits into a pipe: the run blocks while it prints.
    let keys = lines(0..20_000);
    let mut input = child.stdin.take().unwrap();
    let given = keys.clone();
    let giver = std::thread::spawn(move || std::io::Write::write_all(&mut input, given.as_bytes()).unwrap());
    let mut out = child.stdout.take().unwrap();
    let mut first = [0];
    std::io::Read::read_exact(&mut out, &mut first).unwrap();
    giver.join().unwrap();
    folder.run(&["insert", "s"], lines(5..6)).done();
    std::io::copy(&mut out, &mut std::io::sink()).unwrap();
    let ended = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{told}");
    assert!(told.contains("1 of the printed keys were printed by another process too"), "{told}");
    assert_eq!(folder.run(&["dedup", "s"], &keys).done(), "");
}
