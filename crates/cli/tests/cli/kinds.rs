//! Invariants checked, on filters and on stores:
//!
//! 1. A set stores a key once, and removes none. A counting filter stores each copy, and removes one at a time. `dedup`
//!    prints each new key once on both.
//! 2. The kind is fixed at creation, and shown.
//! 3. A call that needs the other kind changes nothing. It exits with code 2, and its message names the file, its kind,
//!    and `--counting`.

use serde_json::Value;

use crate::run::{Folder, lines};

/// The options that request each kind, and the kind's name.
const KINDS: [(&[&str], &str); 2] = [(&[], "set"), (&["--counting"], "counting")];
/// With these options, no test in this file meets a false positive.
const EXACT: [&str; 4] = ["--slots-per-bucket", "2", "--seed", "7"];

/// A folder with a filter and a store of each kind: `set`, `counting`, `store-set`, `store-counting`.
fn of_all_kinds() -> Folder {
    let folder = Folder::new();
    for (options, name) in KINDS {
        folder.run(&[&["create", name, "--capacity", "1000"], &EXACT[..], options].concat(), "").done();
        let store = &format!("store-{name}");
        let create = ["store", "create", store, "--shards", "3", "--capacity", "1000"];
        folder.run(&[&create, &EXACT[..], options].concat(), "").done();
    }
    folder
}

/// Checks for exit code 2 and these words, and that nothing is printed or changed.
#[track_caller]
fn refused(folder: &Folder, args: &[&str], input: &str, words: &[&str]) {
    let before = folder.snapshot();
    let ended = folder.run(args, input);
    ended.refused(words);
    assert_eq!(ended.text(), "", "{args:?}");
    assert!(folder.snapshot() == before, "{args:?} changed the folder");
}

#[test]
fn a_removal_from_the_highest_count_is_told() {
    let folder = Folder::with_filter(&["--capacity", "1000", "--counting"]);
    folder.run(&["store", "create", "s", "--shards", "2", "--capacity", "1000", "--counting"], "").done();
    for file in ["f", "s"] {
        folder.run(&["insert", file], "k\n".repeat(70_000)).done();
        folder.run(&["insert", file, "a", "b"], "").done();
        let ended = folder.run(&["remove", file, "k", "a"], "");
        assert_eq!((ended.code, ended.err.lines().count()), (Some(1), 1), "{ended:?}");
        assert!(ended.err.contains("1 of 2 keys keep the highest count"), "{ended:?}");
        assert_eq!(folder.run(&["count", file, "a"], "").done(), "0\ta\n");
        folder.run(&["remove", file, "b"], "").done();
    }
}

#[test]
fn dedup_prints_each_key_once_and_a_counting_filter_counts_every_occurrence() {
    let folder = of_all_kinds();
    let input = "a\nb\na\na\nc\n";
    for (name, counts) in [("set", [1, 1, 1, 0]), ("counting", [3, 1, 1, 0])] {
        for file in [name.to_owned(), format!("store-{name}")] {
            assert_eq!(folder.run(&["dedup", &file], input).done(), "a\nb\nc\n", "{file}");
            let counted = folder.run(&["count", &file, "a", "b", "c", "d"], "").done();
            let [a, b, c, d] = counts;
            assert_eq!(counted, format!("{a}\ta\n{b}\tb\n{c}\tc\n{d}\td\n"), "{file}");
            // `insert` counts the same keys again, and prints nothing.
            assert_eq!(folder.run(&["dedup", &file], "a\nd\n").done(), "d\n", "{file}");
            folder.run(&["insert", &file], "a\nd\nd\n").done();
            let [a, d] = if name == "set" { [1, 1] } else { [5, 3] };
            assert_eq!(folder.run(&["count", &file, "a", "d"], "").done(), format!("{a}\ta\n{d}\td\n"));
            assert_eq!(folder.run(&["check", &file], "a\ne\nd\n").done(), "a\nd\n");
        }
    }
}

/// The sizes of batches and the number of threads do not matter.
#[test]
fn long_inputs_are_counted_as_short_ones_are() {
    let folder = of_all_kinds();
    let input = [lines(0..60_000), lines(20_000..60_000), lines(0..1)].concat();
    for (name, copies) in [("set", 60_000), ("counting", 100_001)] {
        let dedup = ["dedup", name, "--threads", "2", "--commit-every", "7_000"];
        assert!(folder.run(&dedup, &input).done() == lines(0..60_000), "{name}");
        assert_eq!(folder.info(name)["copies"], copies);
        let store = &format!("store-{name}");
        assert!(
            folder.run(&["dedup", store, "--threads", "2"], &input).done() == lines(0..60_000),
            "{store}"
        );
        let counted = folder.run(&["count", store], lines(0..60_000)).done();
        let sum: u32 =
            counted.lines().map(|line| line.split('\t').next().unwrap().parse::<u32>().unwrap()).sum();
        // A count is never too low. A few are too high, because of another key's entry.
        assert!((copies..copies + 100).contains(&sum), "{store}: {sum}");
    }
}

#[test]
fn dedup_creates_the_kind_asked_for_and_accepts_the_kind_of_an_existing_filter() {
    let folder = Folder::new();
    for (options, name) in KINDS {
        folder.run(&[&["dedup", name], options].concat(), "a\na\n").done();
        assert_eq!(folder.info(name)["kind"], name);
        // For an existing filter, the kind may be given, but need not be.
        assert_eq!(folder.run(&["dedup", name], "a\nb\n").done(), "b\n");
        assert_eq!(folder.run(&[&["dedup", name], options].concat(), "b\nc\n").done(), "c\n");
    }
    assert_eq!(folder.run(&["count", "counting", "a", "b", "c"], "").done(), "3\ta\n2\tb\n1\tc\n");
    assert_eq!(folder.run(&["count", "set", "a", "b", "c"], "").done(), "1\ta\n1\tb\n1\tc\n");
}

#[test]
fn counting_is_refused_by_sets() {
    let folder = of_all_kinds();
    for file in ["set", "store-set"] {
        folder.run(&["insert", file, "a"], "").done();
        let words = [&format!("/{file}: is a set, "), "a counting filter", "`--counting`"];
        refused(&folder, &["dedup", file, "--counting"], "a\nb\n", &words);
        refused(&folder, &["dedup", file, "--counting", "--capacity", "5", "--json"], "a\nb\n", &words);
        // Refused even without any key.
        refused(&folder, &["dedup", file, "--counting"], "", &words);
    }
}

#[test]
fn removal_is_refused_by_sets_and_takes_one_copy_elsewhere() {
    let folder = of_all_kinds();
    for file in ["set", "store-set"] {
        folder.run(&["insert", file, "a"], "").done();
        let words =
            [&format!("/{file}: is a set, but removing keys needs a counting filter"), "`--counting`"];
        refused(&folder, &["remove", file, "a"], "", &words);
        refused(&folder, &["remove", file], "absent\n", &words);
        // Refused even without any key, or with very many.
        refused(&folder, &["remove", file], "", &words);
        refused(&folder, &["remove", file, "--json"], &lines(0..50_000), &words);
        folder.assert_holds(file, "a\n");
    }
    for file in ["counting", "store-counting"] {
        folder.run(&["insert", file], "a\na\nb\n").done();
        folder.run(&["remove", file, "a"], "").done();
        folder.assert_holds(file, "a\nb\n");
        folder.run(&["remove", file], "a\n").done();
        folder.assert_lacks(file, "a\n");
        let ended = folder.run(&["remove", file, "a", "b"], "");
        let told = format!("gowk: {file}: 1 of 2 keys were absent\n");
        assert_eq!((ended.code, ended.err), (Some(1), told));
    }
}

#[test]
fn filters_of_unlike_kinds_do_not_merge() {
    let folder = Folder::with_filter(&["--capacity", "1000", "--seed", "7"]);
    folder.run(&["create", "c", "--capacity", "1000", "--seed", "7", "--counting"], "").done();
    for file in ["f", "c"] {
        folder.run(&["insert", file], lines(0..100)).done();
    }
    for (into, other) in [("f", "c"), ("c", "f")] {
        let words = ["one is a ", "a set", "a counting filter", "(`gowk create --like`)"];
        refused(&folder, &["merge", into, other], "", &words);
    }
    let ended = folder.run(&["merge", "new", "f", "c"], "");
    ended.refused(&["one is a ", "a set", "a counting filter"]);
    assert!(!folder.path("new").exists());
}

#[test]
fn a_store_made_of_a_filter_and_a_copy_of_it_keep_the_kind() {
    let folder = of_all_kinds();
    for (_, name) in KINDS {
        folder.run(&["insert", name], "a\na\nb\n").done();
        folder.run(&["store", "create", &format!("of-{name}"), "--shards", "2", "--from", name], "").done();
        folder.run(&["copy", &format!("of-{name}"), &format!("again-{name}")], "").done();
        folder.run(&["copy", name, &format!("copy-{name}")], "").done();
        for of in ["of", "again", "copy"] {
            let file = &format!("{of}-{name}");
            assert_eq!(folder.info(file)["kind"], name, "{file}");
            let copies = if name == "set" { 1 } else { 2 };
            assert_eq!(folder.run(&["count", file, "a", "b"], "").done(), format!("{copies}\ta\n1\tb\n"));
        }
    }
    let both = folder.run(&["store", "create", "x", "--shards", "2", "--from", "set", "--counting"], "");
    assert!(both.code == Some(2) && both.err.contains("cannot be used with"), "{both:?}");
}

#[test]
fn the_kind_is_shown() {
    let folder = of_all_kinds();
    for (options, name) in KINDS {
        let words = if name == "set" { "a set for 5,000 keys" } else { "a counting filter for 5,000 keys" };
        let create = [&["create", "new", "--capacity", "5000"], options].concat();
        let would = folder.run(&[&create[..], &["--dry-run"]].concat(), "").done();
        assert!(would.starts_with(&format!("new: would be created, {words}: ")), "{would}");
        let told = folder.run(&[&create[..], &["--json", "--force"]].concat(), "").json();
        assert_eq!(told["kind"], name);
        let like = folder.run(&["create", "like", "--like", "new", "--force"], "").done();
        assert!(like.starts_with(&format!("like: created, {words}: ")), "{like}");

        for file in [name.to_owned(), format!("store-{name}")] {
            folder.run(&["insert", &file, "a"], "").done();
            let info: Value = folder.info(&file);
            assert_eq!(info["kind"], name, "{file}");
            let text = folder.run(&["info", &file], "").done();
            let kind = text.lines().find_map(|line| line.strip_prefix("kind                    "));
            assert!(kind.is_some_and(|kind| kind.starts_with(&format!("{name}: "))), "{text}");
            let metrics = folder.run(&["info", &file, "--prometheus"], "").done();
            let sample = format!("gowk_filter_info{{file=\"{file}\",kind=\"{name}\"}} 1\n");
            assert!(metrics.contains(&sample), "{metrics}");
            let page = folder.run(&["report", &file], "").done();
            assert!(page.contains(&format!("<dt>kind</dt><dd>{name}</dd>")), "{file}: {page}");
            assert_eq!(page.contains("which count their copies"), name == "counting", "{file}: {page}");
        }
    }
}

/// The help of each verb explains `--counting`, and names no option that was removed.
#[test]
fn help_speaks_of_kinds() {
    let folder = Folder::new();
    let page = |verb: &[&str]| {
        let text = folder.run(&[verb, &["--help"]].concat(), "").done();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for verb in [&["create"][..], &["dedup"], &["store", "create"]] {
        assert!(page(verb).contains("--counting "), "{verb:?}");
    }
    assert!(page(&["ingest"]).contains("# kind = \"counting\""));
    for verb in [
        "create", "insert", "remove", "check", "count", "dedup", "info", "merge", "ingest", "store", "report",
    ] {
        let text = page(&[verb]);
        for gone in ["--copies", "--sum", "--unsafe", "--transaction", "unrecorded", "unique"] {
            assert!(!text.contains(gone), "{verb}: {gone}");
        }
    }
    for (verb, option) in
        [("insert", "--copies"), ("remove", "--unsafe"), ("merge", "--sum"), ("dedup", "--transaction=a:1")]
    {
        let ended = folder.run(&[verb, "f", option, "x"], "");
        assert!(ended.code == Some(2) && ended.err.contains("unexpected argument"), "{ended:?}");
    }
    assert!(folder.snapshot().is_empty());
}
