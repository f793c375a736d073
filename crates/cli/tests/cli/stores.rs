//! The tool on stores.
//!
//! Invariants checked:
//!
//! 1. A verb for filters also works on stores, with the same output and exit codes. A verb that writes makes at most one
//!    version.
//! 2. A repeated token prints the same keys, and commits nothing.
//! 3. The decoder, which was written only from the specification, reads the same store and refuses what gowk refuses.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn run(program: &str, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let feed = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let output = child.wait_with_output().unwrap();
    feed.join().unwrap();
    output
}

/// Standard output, standard error and exit status.
fn gowk(arguments: &[&str], input: &str) -> (String, String, i32) {
    let output = run(env!("CARGO_BIN_EXE_gowk"), arguments, input);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code().unwrap())
}

fn done(arguments: &[&str], input: &str) -> String {
    let (out, err, status) = gowk(arguments, input);
    assert_eq!(status, 0, "{arguments:?}: {out}{err}");
    out
}

fn lines(range: std::ops::Range<u32>) -> String {
    range.map(|number| format!("key-{number}\n")).collect()
}

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().unwrap().to_owned()
}

#[test]
fn verbs_take_a_store_where_they_take_a_filter() {
    let dir = tempfile::tempdir().unwrap();
    let store = &path(dir.path(), "s");
    done(
        &[
            "store",
            "create",
            store,
            "--shards",
            "4",
            "--capacity",
            "10_000",
            "--false-positive-rate",
            "1e-8",
            "--counting",
        ],
        "",
    );
    assert_eq!(done(&["dedup", store], &(lines(0..500) + &lines(250..750))), lines(0..750));
    assert_eq!(done(&["dedup", store], &lines(700..800)), lines(750..800));
    let err = gowk(&["insert", store, "--json", "--threads", "2"], &lines(800..900)).1;
    let told: Vec<&str> = err.lines().collect();
    assert_eq!(told[0], "{\"event\":\"commit\",\"number\":4,\"keys\":100}");
    let summary = "{\"event\":\"summary\",\"read\":100,\"new\":100,\"seen\":0,\"refused\":0,";
    assert!(told.len() == 2 && told[1].starts_with(summary), "{err}");
    assert_eq!(done(&["check", store], &lines(890..910)), lines(890..900));
    assert_eq!(gowk(&["check", store, "-q", "nothing"], "").2, 1);
    assert_eq!(done(&["count", store, "key-7", "nothing"], ""), "1\tkey-7\n0\tnothing\n");
    assert_eq!(done(&["count", store, "key-300"], ""), "2\tkey-300\n");
    assert_eq!(done(&["remove", store, "key-7"], ""), "");
    assert_eq!(done(&["count", store, "key-7"], ""), "0\tkey-7\n");
    let (_, err, status) = gowk(&["remove", store, "key-8", "nothing"], "");
    assert!(status == 1 && err.contains("1 of 2 keys were absent"), "{err}");
    // Each commit has written one run, with a record for each key that it changed.
    let info = done(&["info", store, "--json"], "");
    assert!(info.contains("\"version\":6,") && info.contains("\"files\":0,"), "{info}");
    assert!(info.contains("\"runs\":5,") && info.contains("\"pending\":952,"), "{info}");
    done(&["verify", store], "");
    let told = done(&["store", "compact", store, "--all", "--threads", "2"], "");
    assert!(told.starts_with("4 shards folded, ") && told.ends_with(" bytes written, version 7\n"), "{told}");
    let info = done(&["info", store], "");
    assert!(
        info.contains("entries                 898\n") && info.contains("4, 4 of them with a file"),
        "{info}"
    );
    let info = done(&["info", store, "--json"], "");
    assert!(info.contains("\"version\":7,") && info.contains("\"entries\":898,"), "{info}");
    assert!(done(&["verify", store], "").contains("version 7, 4 files read, no damage found"));
    let log = done(&["store", "log", store], "");
    let words: Vec<&str> = log.lines().map(|line| line.split_whitespace().nth(2).unwrap()).collect();
    assert_eq!(words, ["fold", "remove", "remove", "insert", "dedup", "dedup", "create"], "{log}");
    let files: Vec<&str> = log.lines().map(|line| line.split_whitespace().nth(3).unwrap()).collect();
    assert_eq!(files, ["4", "1", "1", "1", "1", "1", "0"], "{log}");
    let told = done(&["store", "vacuum", store], "");
    assert!(told.starts_with("0 versions and 0 files removed"), "{told}");
    assert!(told.contains("\nwhat was replaced less than 1day ago stays (--grace)"), "{told}");
    let told = done(&["store", "vacuum", store, "--grace", "0", "--keep", "2"], "");
    assert!(told.starts_with("6 versions and "), "{told}");
    assert_eq!(done(&["store", "log", store, "--json"], "").lines().count(), 2);

    // The store becomes a filter, and the filter a store again.
    let (file, again) = (&path(dir.path(), "joined.gowk"), &path(dir.path(), "again"));
    done(&["copy", store, file], "");
    done(&["store", "create", again, "--shards", "2", "--from", file], "");
    for other in [file, again] {
        assert_eq!(done(&["check", other, "-c"], &lines(0..2000)), "898\n");
    }
    assert_eq!(
        done(&["dedup", again, "--scratch", dir.path().to_str().unwrap()], &lines(895..905)),
        lines(900..905)
    );

    // A damaged file.
    let newest = done(&["info", store, "--json"], "");
    assert!(newest.contains("\"version\":8,"), "{newest}");
    let version = std::fs::read_to_string(dir.path().join("s/versions/000000000008.toml")).unwrap();
    let name = version.lines().find_map(|line| line.strip_prefix("file = ")).unwrap().trim_matches('"');
    let damaged = dir.path().join("s/shards/0000").join(name);
    let good = std::fs::read(&damaged).unwrap();
    let mut bytes = good.clone();
    let last = bytes.len() - 100;
    bytes[last] ^= 1;
    std::fs::write(&damaged, bytes).unwrap();
    let (out, _, status) = gowk(&["verify", store], "");
    assert!(status == 1 && out.contains("shard 0: 1 of 16 pages"), "{out}");
    std::fs::write(&damaged, good).unwrap();
    done(&["verify", store], "");
}

#[test]
fn a_token_prints_the_same_keys_each_time_and_commits_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = &path(dir.path(), "s");
    done(
        &["store", "create", store, "--shards", "3", "--capacity", "1000", "--false-positive-rate", "1e-8"],
        "",
    );
    let dedup = |token: &str, input: &str| gowk(&["dedup", store, "--token", token], input);
    let version = || {
        let info = done(&["info", store, "--json"], "");
        info.split("\"version\":").nth(1).unwrap().split(',').next().unwrap().parse::<u32>().unwrap()
    };
    assert_eq!(dedup("crawl:1", &lines(0..100)), (lines(0..100), String::new(), 0));
    done(&["insert", store], &lines(100..150));
    assert_eq!(dedup("crawl:7", &lines(50..200)).0, lines(150..200));
    done(&["insert", store], &lines(200..210));
    assert_eq!(version(), 5);
    // The same token again, after other commits, with more input.
    let (out, err, status) = dedup("crawl:7", &lines(50..205));
    assert_eq!((out, status), (lines(150..205), 0));
    assert!(err.contains("was made before"), "{err}");
    let (out, err, status) = dedup("crawl:3", &lines(0..10));
    assert!(
        out.is_empty() && status == 2 && err.contains("token 3 of `crawl` is below its last one, 7"),
        "{err}"
    );
    let (_, err, status) = gowk(&["insert", store, "--token", "crawl:7", "other"], "");
    assert!(status == 0 && err.contains("was made before"), "{err}");
    assert_eq!(version(), 5);
    assert_eq!(gowk(&["check", store, "-q", "other"], "").2, 1);
    // A token without new keys still makes a version.
    assert_eq!(dedup("crawl:8", "").2, 0);
    assert_eq!(version(), 6);
    assert_eq!(done(&["dedup", store], ""), "");
    assert_eq!(version(), 6);
    assert!(done(&["info", store], "").contains("crawl:8 in version 6"));
    // A filter takes no tokens.
    let file = &path(dir.path(), "f.gowk");
    for option in [["--token", "a:1"], ["--scratch", "/tmp"]] {
        let (_, err, status) = gowk(&["dedup", file, option[0], option[1]], "x\n");
        assert!(status == 2 && err.contains(option[0]) && !Path::new(file).exists(), "{err}");
    }
}

/// A retry may come any time later.
#[test]
fn a_retry_after_a_vacuum_prints_the_same_and_is_already_done() {
    let dir = tempfile::tempdir().unwrap();
    let store = &path(dir.path(), "s");
    done(&["store", "create", store, "--shards", "2", "--capacity", "1000"], "");
    let vacuum = || done(&["store", "vacuum", store, "--grace", "0"], "");
    done(&["insert", store], &lines(0..50));
    done(&["insert", store, "--token", "t:1"], &lines(0..100));
    let (printed, err, status) = gowk(&["dedup", store, "--token", "u:1"], &lines(90..120));
    assert!(status == 0 && printed == lines(100..120), "{err}");
    done(&["insert", store], &lines(200..300));
    for _ in 0..2 {
        vacuum();
        let (_, err, status) = gowk(&["insert", store, "--token", "t:1"], &lines(0..100));
        assert!(status == 0 && err.contains("was made before"), "{err}");
        let (again, err, status) = gowk(&["dedup", store, "--token", "u:1"], &lines(90..120));
        assert!(status == 0 && again == printed, "{err}");
    }
}

/// Keys that do not fit are reported; all others are committed.
#[test]
fn keys_without_room_are_reported_and_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let (store, refused) = (&path(dir.path(), "s"), &path(dir.path(), "refused"));
    let options = ["--shards", "3", "--capacity", "300", "--slots-per-bucket", "2", "--seed", "7"];
    done(&[&["store", "create", store], &options[..]].concat(), "");
    let (full, input) = (&path(dir.path(), "full"), lines(0..60_000));
    done(&[&["store", "create", full], &options[..], &["--growth", "never"]].concat(), "");
    let first = ["dedup", full, "--refused", refused, "--token", "a:1", "--stats"];
    let (out, err, status) = gowk(&first, &input);
    assert!(status == 2 && out == input, "{status} {err}");
    let unfit = std::fs::read_to_string(refused).unwrap();
    let fit = done(&["check", full], &input);
    let mut all: Vec<&str> = fit.lines().chain(unfit.lines()).collect();
    all.sort_unstable();
    let mut keys: Vec<&str> = input.lines().collect();
    keys.sort_unstable();
    assert!(all == keys, "{} and {} of 60000", fit.lines().count(), unfit.lines().count());
    let told: Vec<&str> = err.lines().collect();
    assert_eq!(told.len(), 13, "{err}");
    let line = 1 + input.lines().position(|key| Some(key) == unfit.lines().next()).unwrap();
    let words = format!("no room for line {line} of standard input: {}", unfit.lines().next().unwrap());
    assert!(told[0].contains(&words), "{words}: {err}");
    let number = unfit.lines().count();
    let grouped = format!("{},{:03}", number / 1000, number % 1000);
    assert!(told[11].contains(&format!("read 60,000, new 60,000, seen 0, refused {grouped}, in")), "{err}");
    let words = format!("{number} of this run's 60000 keys found no room and are not in the store, but in ");
    assert!(told[12].contains(&words) && !told[12].contains("incoming"), "{err}");
    // The same run again reports the same, and commits nothing.
    std::fs::remove_file(refused).unwrap();
    let (out, err, status) = gowk(&first, &input);
    assert!(status == 2 && out == input && err.contains("was made before"), "{err}");
    assert!(std::fs::read_to_string(refused).unwrap() == unfit);
    // Without a token, the same command stores the keys for which runs have room, and prints exactly the keys that were
    // refused before.
    let (out, err, status) = gowk(&["dedup", full], &input);
    assert!(status == 0 && out == unfit, "{err}");
    assert!(done(&["check", full], &input) == input);
    // Eventually runs are full, too. From then on each command refuses the same keys.
    let mut unfit = lines(60_000..120_000);
    for round in 0.. {
        std::fs::remove_file(refused).unwrap();
        let (out, err, status) = gowk(&["dedup", full, "--refused", refused], &unfit);
        assert!(status == 2 && out == unfit && round < 4, "{err}");
        let before = std::mem::replace(&mut unfit, std::fs::read_to_string(refused).unwrap());
        if unfit == before {
            break;
        }
    }
    std::fs::remove_file(refused).unwrap();
    let (_, err, status) = gowk(&["insert", full, "--refused", refused], &unfit);
    assert!(status == 2 && std::fs::read_to_string(refused).unwrap() == unfit, "{err}");
    let told = done(&["store", "compact", full, "--all"], "");
    assert!(told.contains("3 shards are full and must not grow: their keys stay in runs"), "{told}");
    let inside = &path(dir.path(), "full/shards/r");
    let (_, err, status) = gowk(&["insert", full, "--refused", inside, "x"], "");
    assert!(status == 2 && err.contains("the folder of the store") && !Path::new(inside).exists(), "{err}");
    // A store that may grow takes all keys.
    assert!(done(&["dedup", store, "--refused", refused], &input) == input);
}

#[test]
fn records_several_files_and_metrics_are_as_for_filters() {
    let dir = tempfile::tempdir().unwrap();
    let (store, file) = (&path(dir.path(), "s"), &path(dir.path(), "f.gowk"));
    done(&["store", "create", store, "--shards", "2", "--capacity", "1000", "--seed", "7"], "");
    let rows = "id,url\n1,a\n2,b\n3,a\n";
    assert_eq!(done(&["dedup", store, "--csv", "url"], rows), "id,url\n1,a\n2,b\n");
    assert_eq!(
        done(&["dedup", store, "--json-field", "u"], "{\"u\":\"b\"}\n{\"u\":\"c\"}\n"),
        "{\"u\":\"c\"}\n"
    );
    assert_eq!(done(&["dedup", file], "x\n"), "x\n");
    for (first, second) in [(store, file), (file, store)] {
        assert_eq!(done(&["check", first, "--filter", second], "a\nx\ny\n"), "a\nx\n");
    }
    let info = done(&["info", store, file, "--json"], "");
    assert!(info.lines().count() == 2 && !info.contains("\"seed\""), "{info}");
    assert!(info.starts_with(&format!("{{\"file\":\"{store}\"")), "{info}");
    assert!(done(&["info", store, "--json", "--show-seed"], "").contains("\"seed\":\"7\""));
    let metrics = done(&["info", store, file, "--prometheus"], "");
    for (name, entries) in [(store, 3), (file, 1)] {
        assert!(metrics.contains(&format!("gowk_entries{{file=\"{name}\"}} {entries}\n")), "{metrics}");
    }
    let (out, err, status) = gowk(&["info", &path(dir.path(), "none"), store], "");
    assert!(status == 2 && out.contains("entries                 3\n") && err.contains("none"), "{out}{err}");
    let (_, err, status) = gowk(&["dedup", store, "--capacity", "5", "a"], "");
    assert!(status == 0 && err.contains("--capacity is 1000 there"), "{err}");
}

#[test]
fn refusals_are_one_line_and_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = &path(dir.path(), "s");
    let refused = |arguments: &[&str], words: &str| {
        let (out, err, status) = gowk(arguments, "x\n");
        assert_eq!((status, out.as_str(), err.lines().count()), (2, "", 1), "{arguments:?}: {out}{err}");
        assert!(err.contains(words), "{arguments:?}: {err}");
    };
    refused(&["store", "log", store], "s: no such folder; check the path");
    refused(&["store", "create", store, "--shards", "0", "--capacity", "10"], "number of shards");
    done(&["store", "create", store, "--shards", "2", "--capacity", "10"], "");
    refused(&["store", "create", store, "--shards", "2", "--capacity", "10"], "not empty");
    refused(&["insert", store, "--scratch", "/no/such/folder"], "/no/such/folder");
    refused(&["copy", "--force", store, &path(dir.path(), "x.gowk")], "s: ");
    refused(&["grow", store], "s: ");
    let toml = dir.path().join("s/store.toml");
    let text = std::fs::read_to_string(&toml).unwrap();
    std::fs::write(&toml, text.replace("shards = 2", "shards = 3")).unwrap();
    refused(&["check", store], "store.toml: its checksum does not match");
    std::fs::write(&toml, text).unwrap();
    assert_eq!(gowk(&["check", store, "x"], "").2, 1);
}

#[test]
fn the_decoder_reads_what_gowk_writes() {
    let decoder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../format-spec/decode.py");
    let has_toml = Command::new("python3").args(["-c", "import tomllib"]).output();
    if !has_toml.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: there is no python3 that reads TOML");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let store = &path(dir.path(), "s");
    let create = ["store", "create", store, "--shards", "5", "--capacity", "1000", "--slots-per-bucket", "5"];
    done(&[&create[..], &["--seed", "7"]].concat(), "");
    for (number, part) in [(1, 0..3000), (2, 2000..6000), (9, 6000..6001)] {
        done(&["dedup", store, "--token", &format!("a\"\n\u{e9}:{number}")], &lines(part));
    }
    let decoded = |arguments: &[&str], input: &str| {
        let output = run(crate::thorough::python(), &[&[decoder], arguments].concat(), input);
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(!err.contains("Traceback"), "{err}");
        (String::from_utf8(output.stdout).unwrap(), err, output.status.code().unwrap())
    };
    let asked = lines(5000..80_000);
    // Runs have no false positives. The files of shards have some: about ten are expected.
    for (versions, least) in [("[1, 2, 3, 4]", 1001), ("[1, 2, 3, 4, 5]", 1002)] {
        let (out, err, status) = decoded(&[store], "");
        assert_eq!(status, 0, "{err}");
        let info = done(&["info", store, "--json"], "");
        let entries = info.split("\"entries\":").nth(1).unwrap().split(',').next().unwrap();
        assert!(out.contains(&format!("\"entries\": {entries},")), "{out}\n{info}");
        assert!(out.contains(&format!("\"versions\": {versions}")) && out.contains("\": 9}"), "{out}");
        let (found, _, status) = decoded(&[store, "--check"], &asked);
        assert_eq!(status, 0);
        assert!(found.lines().count() >= least, "{}", found.lines().count());
        assert!(found == done(&["check", store], &asked));
        done(&["store", "compact", store, "--all"], "");
    }
    // Both refuse changed texts and changed files.
    let newest = dir.path().join("s/versions/000000000005.toml");
    let text = std::fs::read_to_string(&newest).unwrap();
    let file =
        text.lines().find_map(|line| line.strip_prefix("file = ")).unwrap().trim_matches('"').to_owned();
    let file = dir.path().join("s/shards/0000").join(file);
    for path in [newest, dir.path().join("s/store.toml"), file] {
        let good = std::fs::read(&path).unwrap();
        // Some bytes of a filter have no meaning, but none of its last page.
        let half = if good.len() > 100_000 { good.len() - 4000 } else { good.len() / 2 };
        for at in [half, good.len() - 30] {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            assert_ne!(decoded(&[store], "").2, 0, "{path:?}");
            assert_ne!(gowk(&["verify", store], "").2, 0, "{path:?}");
        }
        std::fs::write(&path, good).unwrap();
    }
    assert_eq!(decoded(&[store], "").2, 0);
}

#[test]
fn what_killed_runs_have_left_in_the_folder_for_working_copies_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (store, scratch) = (&path(dir.path(), "s"), &path(dir.path(), "work"));
    std::fs::create_dir(scratch).unwrap();
    std::fs::write(dir.path().join("work/gowk-scratch-notes"), "mine").unwrap();
    std::fs::create_dir(dir.path().join("work/mine")).unwrap();
    done(&["store", "create", store, "--shards", "2", "--capacity", "10000"], "");
    let names = || {
        let mut names: Vec<_> = std::fs::read_dir(scratch)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let mine = ["gowk-scratch-notes".to_owned(), "mine".to_owned()];
    let start = || {
        let before = names();
        let mut child = Command::new(env!("CARGO_BIN_EXE_gowk"))
            .args(["insert", store, "--scratch", scratch])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let begun = std::time::Instant::now();
        while names().iter().all(|name| before.contains(name)) || names().len() > 3 {
            assert!(
                begun.elapsed() < std::time::Duration::from_secs(60) && child.try_wait().unwrap().is_none()
            );
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        (child, stdin)
    };
    let (mut killed, _stdin) = start();
    let left = names();
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(left.len() == 3 && names() == left, "{left:?}");
    // A run that still runs keeps its folder.
    let (mut running, stdin) = start();
    let own = names();
    assert!(own.len() == 3 && own != left, "{own:?}");
    let (_, err, status) = gowk(&["insert", store, "--scratch", scratch], &lines(0..30_000));
    assert_eq!((status, err.as_str()), (0, ""));
    assert_eq!(names(), own);
    drop(stdin);
    assert!(running.wait().unwrap().success());
    assert_eq!(names(), mine);
    assert_eq!(done(&["check", store, "-c"], &lines(0..30_000)), "30000\n");
}
