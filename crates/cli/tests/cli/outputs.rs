//! Invariants checked, for files given with `--output`:
//!
//! 1. `dedup` appends to its file, and syncs it before it commits. After `kill -9` the same command cuts off the
//!    uncommitted lines and continues, so that the file has each new line once.
//! 2. The file of `check` and `count` appears at the end, whole. Until then, and after a failure or a kill, an older file
//!    is unchanged.
//! 3. No output replaces a file that the command reads or writes, nor a file of any filter or store.
//! 4. One run at a time writes to a file, and none cuts off what another run has appended.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::thread;
use std::time::{Duration, Instant};

use crate::run::{DEADLINE, Folder, in_a_shell, lines, run, set_mode};

fn read(folder: &Folder, name: &str) -> String {
    fs::read_to_string(folder.path(name)).unwrap()
}

/// Waits until the condition holds.
#[track_caller]
fn wait_until(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "it does not come to hold");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn dedup_appends_new_keys_to_its_file() {
    let folder = Folder::new();
    folder.run(&["store", "create", "s", "--shards", "2", "--capacity", "1000"], "").done();
    for (place, file) in [("f", "of f"), ("s", "of s")] {
        assert_eq!(folder.run(&["dedup", place, "-o", file], "a\nb\na\n").done(), "");
        assert_eq!(read(&folder, file), "a\nb\n");
        assert_eq!(folder.run(&["dedup", place, "--output", file, "b", "c"], "").done(), "");
        assert_eq!(read(&folder, file), "a\nb\nc\n");
    }
    folder.run(&["dedup", "g", "-0", "-o", "null"], "a\0b\nc\0").done();
    assert_eq!(read(&folder, "null"), "a\0b\nc\0");
    // With an output, standard output is not needed.
    let ended = std::process::Command::new("sh")
        .args(["-c", "exec \"$0\" dedup f -o 'of f' d >&-", env!("CARGO_BIN_EXE_gowk")])
        .current_dir(folder.path(""))
        .output()
        .unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(read(&folder, "of f"), "a\nb\nc\nd\n");
}

#[test]
fn a_line_that_a_crash_has_cut_is_ended_and_told() {
    let folder = Folder::new();
    fs::write(folder.path("new"), "a\nhal").unwrap();
    let ended = folder.run(&["dedup", "f", "-o", "new"], "a\nhalf\n");
    assert_eq!((ended.code, ended.err.lines().count()), (Some(0), 1), "{ended:?}");
    assert!(ended.err.starts_with("gowk: new: did not end with a newline"), "{ended:?}");
    assert_eq!(read(&folder, "new"), "a\nhal\na\nhalf\n");
    folder.run(&["dedup", "f", "-o", "new", "b"], "").done();
    folder.run(&["dedup", "g", "-o", "empty"], "").done();
    folder.run(&["dedup", "g", "-o", "empty", "b"], "").done();
    assert_eq!(read(&folder, "empty"), "b\n");
}

#[test]
fn dedup_goes_on_with_its_file_after_a_kill() {
    let folder = Folder::new();
    let keys = lines(0..300_000);
    let dedup = ["dedup", "f", "-o", "new", "--commit-every", "20_000", "--slots-per-bucket", "2"];
    for part in 1..4 {
        let mut running = folder.start(&dedup);
        let all = keys.clone();
        let stdin = running.stdin.take().unwrap();
        let feeding = thread::spawn(move || {
            use std::io::Write;
            let mut stdin = stdin;
            // The write fails when the process is killed.
            let _ = stdin.write_all(all.as_bytes());
            stdin
        });
        wait_until(|| fs::metadata(folder.path("new")).is_ok_and(|new| new.len() > part * 200_000));
        running.kill();
        drop(feeding.join().unwrap());
    }
    assert_eq!(folder.run(&dedup, &keys).code, Some(0));
    let new = read(&folder, "new");
    let found: BTreeSet<&str> = new.lines().collect();
    let absent: Vec<&str> = keys.lines().filter(|key| !found.contains(key)).collect();
    // A few of these keys look the same to the filter as an earlier one.
    assert!(absent.len() < 20, "{} keys are in no line: {:?}", absent.len(), absent.first());
    folder.assert_holds("f", &keys);
}

#[test]
fn the_file_of_a_lookup_appears_whole_at_the_end() {
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    folder.run(&["insert", "f", "a", "b"], "").done();
    fs::write(folder.path("out"), "old").unwrap();
    set_mode(&folder.path("out"), 0o640);
    std::os::unix::fs::symlink("out", folder.path("link")).unwrap();
    let inode = |name: &str| fs::metadata(folder.path(name)).unwrap().ino();
    let files = || fs::read_dir(folder.path("")).unwrap().count();
    let before = (inode("out"), files());
    for verb in ["check", "count"] {
        // The answers are written before the command waits for more input, but the file is still the old one.
        let mut running = folder.start(&[verb, "f", "-o", "link"]);
        running.give("a\nc\n");
        wait_until(|| {
            let open =
                fs::read_dir(format!("/proc/{}/fd", running.id())).unwrap().map(|file| file.unwrap().path());
            let mut nameless = open.filter(|file| {
                file.read_link().is_ok_and(|file| file.to_string_lossy().ends_with(" (deleted)"))
            });
            nameless.any(|file| file.metadata().is_ok_and(|file| file.len() > 0))
        });
        assert_eq!(read(&folder, "out"), "old");
        // A killed command leaves nothing.
        running.kill();
        assert_eq!((read(&folder, "out").as_str(), inode("out"), files()), ("old", before.0, before.1));
        // A failed command leaves nothing, either.
        let longest = "x".repeat((16 << 20) + 1);
        folder.run(&[verb, "f", "-o", "out"], format!("a\n{longest}\n")).refused(&["line 2 is longer"]);
        assert_eq!((read(&folder, "out").as_str(), inode("out"), files()), ("old", before.0, before.1));
    }
    assert_eq!(folder.run(&["check", "f", "-o", "link"], "a\nc\nb\n").done(), "");
    assert_eq!(read(&folder, "out"), "a\nb\n");
    assert_eq!(fs::metadata(folder.path("out")).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(fs::symlink_metadata(folder.path("link")).unwrap().is_symlink());
    folder.run(&["count", "f", "-o", "out", "b", "c"], "").done();
    assert_eq!(read(&folder, "out"), "1\tb\n0\tc\n");
    let none = folder.run(&["check", "f", "-o", "out", "c"], "");
    assert_eq!((none.code, read(&folder, "out").as_str()), (Some(1), ""));
    folder.run(&["check", "f", "--json", "-o", "new", "a"], "").done();
    assert!(read(&folder, "new").starts_with("{\"keys\":1,"));
    // A device is written to directly, and an input may be replaced: it was read before.
    assert_eq!(folder.run(&["check", "f", "-o", "/dev/stdout", "a"], "").done(), "a\n");
    fs::write(folder.path("keys"), "b\nx\n").unwrap();
    folder.run(&["check", "f", "-v", "--input", "keys", "-o", "keys"], "").done();
    assert_eq!(read(&folder, "keys"), "x\n");
    assert_eq!(files(), before.1 + 2);
}

#[test]
fn dedup_writes_each_new_line_to_its_file_exactly_once_whatever_kills_it() {
    let folder = Folder::new();
    let keys = lines(0..99_999);
    for (filter, file) in [("f", "new"), ("g", "new.zst")] {
        let dedup = [
            "dedup",
            filter,
            "-o",
            file,
            "--commit-every",
            "7_000",
            "--false-positive-rate",
            "1e-8",
            "--seed",
            "1",
        ];
        for part in 1..4 {
            let mut running = folder.start(&dedup);
            running.give(&keys[..keys.len() / 4 * part]);
            let least = if file == "new" { part as u64 * 200_000 } else { 1000 };
            wait_until(|| fs::metadata(folder.path(file)).is_ok_and(|new| new.len() > least));
            running.kill();
            // The state after a crash: half a line after the last commit.
            let mut bytes = fs::read(folder.path(file)).unwrap();
            bytes.extend(b"key 99");
            fs::write(folder.path(file), bytes).unwrap();
        }
        let ended = folder.run(&dedup, &keys);
        assert!(ended.code == Some(0) && ended.err.contains("bytes were cut off"), "{ended:?}");
        let bytes = fs::read(folder.path(file)).unwrap();
        let new = if file == "new" { bytes } else { zstd::decode_all(&bytes[..]).unwrap() };
        assert!(String::from_utf8(new).unwrap() == keys, "{file}: other lines than those given, or twice");
        // Lines that others append after a run has ended remain.
        let mut more = fs::OpenOptions::new().append(true).open(folder.path(file)).unwrap();
        std::io::Write::write_all(&mut more, b"mine\n").unwrap();
        assert_eq!(folder.run(&dedup, &keys).done(), "");
        assert!(fs::read(folder.path(file)).unwrap().ends_with(b"mine\n"), "{file}");
    }
}

#[test]
fn what_a_killed_run_has_left_is_cut_off_by_its_own_filter_alone() {
    let folder = Folder::new();
    let mut running = folder.start(&["dedup", "f", "-o", "new"]);
    running.give("a\n");
    wait_until(|| fs::metadata(folder.path("new")).is_ok_and(|new| new.len() == 2));
    running.kill();
    // With a copy, with another filter, and for a changed file: nothing is cut off.
    folder.run(&["copy", "f", "copy"], "").done();
    for (filter, key) in [("copy", "b"), ("other", "c")] {
        folder.run(&["dedup", filter, "-o", "new", key], "").done();
    }
    assert_eq!(read(&folder, "new"), "a\nb\nc\n");
    fs::rename(folder.path("new"), folder.path("rotated")).unwrap();
    folder.run(&["dedup", "f", "-o", "new", "b"], "").done();
    assert_eq!(read(&folder, "new"), "b\n");
}

#[test]
fn other_filters_and_files_of_stores_are_no_outputs() {
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    folder.run(&["create", "other", "--capacity", "1000"], "").done();
    folder.run(&["insert", "other", "x"], "").done();
    folder.run(&["store", "create", "s", "--shards", "2", "--capacity", "1000"], "").done();
    let page = folder.path("s/store.toml");
    assert!(page.is_file());
    std::os::unix::fs::symlink("other", folder.path("link")).unwrap();
    let before = folder.snapshot();
    let rows = ["--csv", "1"];
    for own in ["other", "link", "./other-lock", "s/store.toml", "s/shards/new"] {
        for args in [
            &["report", "f", "-o", own][..],
            &["dedup", "f", "-o", own],
            &["dedup", "f", "--refused", own],
            &["check", "f", "-o", own],
            &["count", "f", "-o", own],
        ] {
            folder.run(args, "a\n").refused(&[own, "; give another file with"]);
        }
        for verb in ["dedup", "insert", "check"] {
            folder.run(&[&[verb, "f", "--rejects", own], &rows[..]].concat(), "a\n").refused(&["--rejects"]);
        }
        for verb in ["dedup", "check", "info"] {
            let line = format!("exec \"$@\" >> {own}");
            let ended = run(&mut in_a_shell(&folder, &line, &[verb, "f"]), b"a\n");
            ended.refused(&["standard output: is ", "redirect it to another file"]);
        }
        if own == "s/shards/new" {
            // The shell created the file.
            assert_eq!(read(&folder, own), "");
            fs::remove_file(folder.path(own)).unwrap();
        }
        assert!(folder.snapshot() == before, "{own}");
    }
}

#[test]
fn standard_output_is_not_an_input() {
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    folder.run(&["insert", "f", "a"], "").done();
    fs::write(folder.path("io"), "a\nb\n").unwrap();
    for line in [
        "exec \"$@\" --input io >> io",
        "exec \"$@\" --input ./io >> io",
        "exec \"$@\" < io >> io",
        "exec \"$@\" --input - < io >> io",
    ] {
        for verb in ["check", "dedup", "count"] {
            let ended = run(&mut in_a_shell(&folder, line, &[verb, "f"]), b"");
            ended.refused(&["standard output: is ", "redirect it to another file"]);
            assert_eq!(read(&folder, "io"), "a\nb\n", "{verb}: {line}");
        }
    }
    // Two outputs must be two files.
    let twice = "exec \"$@\" --csv 1 --rejects out >> out";
    run(&mut in_a_shell(&folder, twice, &["dedup", "f"]), b"a\n").refused(&["--rejects"]);
    // A terminal or a pipe may be both outputs.
    assert_eq!(folder.run(&["check", "f", "-o", "-", "a"], "").done(), "a\n");
    assert_eq!(folder.run(&["dedup", "f", "-o", "-", "c"], "").done(), "c\n");
    folder.run(&["dedup", "f", "--csv", "1", "--rejects", "-"], "d\n").refused(&["--rejects"]);
    assert!(!folder.path("-").exists());
}

#[test]
fn records_that_are_not_new_go_to_a_file_of_their_own() {
    let folder = Folder::new();
    folder.run(&["store", "create", "s", "--shards", "2", "--capacity", "1000"], "").done();
    folder.run(&["dedup", "month", "x"], "").done();
    let rows = "id,n\na,1\nb,2\na,3\nx,4\n";
    for (file, others) in [("f", &["--filter", "month"][..]), ("s", &["--filter", "month"])] {
        let seen = format!("seen of {file}");
        let args = [&["dedup", file, "--csv", "id", "--seen", &seen], others].concat();
        assert_eq!(folder.run(&args, rows).done(), "id,n\na,1\nb,2\n");
        assert_eq!(read(&folder, &seen), "id,n\na,3\nx,4\n");
        assert_eq!(folder.run(&args, "id,n\nb,5\nc,6\n").done(), "id,n\nc,6\n");
        assert_eq!(read(&folder, &seen), "id,n\na,3\nx,4\nb,5\n");
    }
    // A late key is neither new nor seen.
    let times =
        ["dedup", "t", "--forget-after", "30d", "--csv", "1", "--time-column", "2", "--seen", "seen of t"];
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let ended = folder.run(&times, format!("a,{now}\nold,1000000000\na,{now}\n"));
    assert_eq!((ended.code, read(&folder, "seen of t")), (Some(0), format!("a,{now}\n")), "{ended:?}");
}

#[test]
fn what_a_failed_run_leaves_is_not_cut_off_later() {
    let folder = Folder::new();
    folder.run(&["dedup", "f", "-o", "new", "--json-field", "id"], "not json\n").refused(&["invalid JSON"]);
    fs::write(folder.path("new"), "mine\n").unwrap();
    folder.run(&["dedup", "f", "-o", "new", "a"], "").done();
    assert_eq!(read(&folder, "new"), "mine\na\n");
}

#[test]
fn an_output_is_compressed_if_its_name_says_so_and_may_be_a_link_to_nothing() {
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    folder.run(&["dedup", "f", "-o", "new.zst", "a", "b"], "").done();
    folder.run(&["dedup", "f", "-o", "new.zst", "c"], "").done();
    folder.run(&["check", "f", "-o", "found.zst", "a", "c", "x"], "").done();
    let text =
        |name: &str| String::from_utf8(zstd::decode_all(&*fs::read(folder.path(name)).unwrap()).unwrap());
    assert_eq!(text("new.zst").unwrap(), "a\nb\nc\n");
    assert_eq!(text("found.zst").unwrap(), "a\nc\n");
    fs::create_dir(folder.path("there")).unwrap();
    for verb in ["dedup", "check", "count", "report"] {
        std::os::unix::fs::symlink(format!("there/{verb}"), folder.path(verb)).unwrap();
        let keys: &[&str] = if verb == "report" { &[] } else { &["a"] };
        folder.run(&[&[verb, "f", "-o", verb], keys].concat(), "").done();
        assert!(folder.path(verb).is_symlink() && folder.path("there").join(verb).is_file(), "{verb}");
    }
}

#[test]
fn a_file_begins_with_the_header_of_its_records() {
    let folder = Folder::new();
    for (rows, all) in [("id,url\n1,a\n", "id,url\n1,a\n"), ("id,url\n2,b\n", "id,url\n1,a\n2,b\n")] {
        folder.run(&["dedup", "f", "--csv", "url", "-o", "new"], rows).done();
        assert_eq!(read(&folder, "new"), all);
    }
    let check = ["check", "f", "--csv", "url", "-o"];
    for _ in 0..2 {
        folder.run(&[&check[..], &["found"]].concat(), "url,id\na,9\nc,8\n").done();
        assert_eq!(read(&folder, "found"), "url,id\na,9\n");
    }
    // A device may be both, too.
    let ended = folder.run(&[&check[..], &["/dev/stdout"]].concat(), "url,id\na,9\nc,8\n");
    assert_eq!(ended.done(), "url,id\na,9\n");
}

#[test]
fn no_file_of_the_command_is_an_output() {
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    folder.run(&["store", "create", "s", "--shards", "2", "--capacity", "1000"], "").done();
    fs::write(folder.path("keys"), "a\n").unwrap();
    folder.run(&["create", "keys.gowk", "--capacity", "1000"], "").done();
    let before = folder.snapshot();
    for verb in ["dedup", "check", "count"] {
        for output in ["f", "./f-journal", "f-lock"] {
            folder
                .run(&[verb, "f", "-o", output], "a\n")
                .refused(&["a file of the filter itself", "--output"]);
        }
        folder.run(&[verb, "s", "-o", "s/new"], "a\n").refused(&["the folder of the store", "--output"]);
        folder.run(&[verb, "f", "-o", "none/new"], "a\n").refused(&["gowk: none/new: cannot "]);
    }
    folder.run(&["check", "f", "--filter", "s", "-o", "s/new"], "a\n").refused(&["--output"]);
    folder
        .run(&["dedup", "f", "--input", "keys", "-o", "keys"], "")
        .refused(&["is the input keys", "--output"]);
    folder.run(&["dedup", "f", "-o", "x", "--refused", "./x"], "a\n").refused(&["--refused"]);
    let rows = ["--csv", "1", "--rejects"];
    for others in [&["-o", "x"][..], &["--refused", "x"], &["--filter", "x"]] {
        let ended = folder.run(&[&["dedup", "f"], &rows[..], &["./x"], others].concat(), "a\n");
        assert_eq!(ended.code, Some(2), "{others:?}: {ended:?}");
    }
    // A further filter, which is only read, cannot be an output, either.
    for (verb, output) in [("dedup", "--output"), ("dedup", "--refused"), ("check", "--output")] {
        folder.run(&[verb, "f", "--filter", "keys.gowk", output, "keys.gowk"], "a\n").refused(&[
            "gowk: keys.gowk: is ",
            "a file of the filter itself",
            output,
        ]);
    }
    for verb in ["dedup", "check"] {
        folder
            .run(&[&[verb, "f", "--filter", "keys.gowk"], &rows[..], &["keys.gowk"]].concat(), "a\n")
            .refused(&["gowk: keys.gowk: is ", "a file of the filter itself", "--rejects"]);
    }
    for verb in ["check", "count"] {
        folder
            .run(&[&[verb, "f", "-o", "x"], &rows[..], &["x"]].concat(), "a\n")
            .refused(&["x: is the file given with --output", "--rejects"]);
    }
    assert!(folder.snapshot() == before);
    // A device is not a file.
    let null =
        ["dedup", "f", "--csv", "1", "-o", "/dev/null", "--refused", "/dev/null", "--rejects", "/dev/null"];
    folder.run(&null, "a\n").done();
}

#[test]
fn what_a_run_into_another_filter_has_appended_is_not_cut_off() {
    let folder = Folder::new();
    folder.run(&["store", "create", "s", "--shards", "2", "--capacity", "1000"], "").done();
    if !folder.has_marks() {
        return;
    }
    for other in ["g", "s"] {
        let new = format!("new of {other}");
        let mut running = folder.start(&["dedup", "f", "-o", &new]);
        running.give(&format!("{other}1\n"));
        wait_until(|| fs::metadata(folder.path(&new)).is_ok_and(|new| new.len() == 3));
        running.kill();
        folder.run(&["dedup", other, "-o", &new, "theirs"], "").done();
        folder.run(&["dedup", "f", "-o", &new, &format!("{other}1")], "").done();
        // A line may then occur twice, but none is lost.
        assert_eq!(read(&folder, &new), format!("{other}1\ntheirs\n{other}1\n"));
    }
}

#[test]
fn a_file_is_the_output_of_one_run_at_a_time() {
    let folder = Folder::new();
    folder.run(&["create", "g", "--capacity", "1000"], "").done();
    folder.run(&["store", "create", "s", "--shards", "2", "--capacity", "1000"], "").done();
    let job = "[filter]\npath = \"j\"\n[input]\npaths = [\"keys\"]\n[output]\nnew_keys = \"new\"\n";
    fs::write(folder.path("job.toml"), job).unwrap();
    fs::write(folder.path("keys"), "a\n").unwrap();
    let mut running = folder.start(&["dedup", "f", "-o", "new"]);
    running.give("a\n");
    wait_until(|| fs::metadata(folder.path("new")).is_ok_and(|new| new.len() == 2));
    for (verb, other, option) in
        [("dedup", "g", "-o"), ("dedup", "s", "-o"), ("insert", "g", "--refused"), ("dedup", "g", "--seen")]
    {
        folder.run(&[verb, other, option, "new"], "b\n").refused(&["gowk: new: another run writes to it"]);
    }
    for verb in ["check", "insert"] {
        let rejects = [verb, "g", "--csv", "1", "--rejects", "new"];
        folder.run(&rejects, "b\n").refused(&["gowk: new: another run writes to it"]);
    }
    running.kill();
    assert_eq!(read(&folder, "new"), "a\n");
    folder.run(&["dedup", "g", "-o", "new", "b"], "").done();
    // A job does not write to a file of another run, either.
    fs::rename(folder.path("new"), folder.path("old")).unwrap();
    let mut running = folder.start(&["dedup", "f", "-o", "new"]);
    // Whoever tries the lock to find out has it for a moment, in which the run would be refused.
    let is_locked = || {
        let Ok(new) = fs::metadata(folder.path("new")) else { return false };
        let (inode, locks) = (format!(":{} ", new.ino()), fs::read_to_string("/proc/locks").unwrap());
        locks.lines().any(|lock| lock.contains(" WRITE ") && lock.contains(&inode))
    };
    wait_until(is_locked);
    folder
        .run(&["ingest", "job.toml"], "")
        .refused(&["new: another run writes to it; run the job again when"]);
    running.kill();
    folder.run(&["ingest", "job.toml"], "").done();
    assert_eq!(read(&folder, "new"), "a\n");
}

#[test]
fn a_page_or_manual_takes_the_place_of_the_old_one_whole() {
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    fs::write(folder.path("report.html"), "old").unwrap();
    fs::hard_link(folder.path("report.html"), folder.path("kept")).unwrap();
    folder.run(&["report", "f", "-o", "report.html"], "").done();
    assert!(read(&folder, "report.html").ends_with("</html>\n"));
    assert_eq!(read(&folder, "kept"), "old");
    fs::create_dir(folder.path("man1")).unwrap();
    fs::write(folder.path("man1/gowk.1"), "old").unwrap();
    fs::hard_link(folder.path("man1/gowk.1"), folder.path("kept too")).unwrap();
    folder.run(&["man", "man1"], "").done();
    assert!(read(&folder, "man1/gowk.1").contains(".TH gowk 1"));
    assert_eq!(read(&folder, "kept too"), "old");
    // A filter's file in the place of a page is not replaced.
    fs::remove_file(folder.path("man1/gowk-dedup.1")).unwrap();
    folder.run(&["copy", "f", "man1/gowk-dedup.1"], "").done();
    folder.run(&["man", "man1"], "").refused(&["gowk-dedup.1: is a filter"]);
}
