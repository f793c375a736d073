//! Invariant checked: after a failed commit, the tool says which keys are committed, which are not, and which are in
//! doubt. A user who follows its advice loses no key and inserts none twice.

use serde_json::Value;

use crate::run::{Folder, Unprivileged, in_a_shell, lines, run, set_mode};

/// Leaves room for the journal and the head of the filter file, but not for its pages: a commit cannot be applied.
const NOT_THE_PAGES: &str = "ulimit -f 180; exec \"$@\"";

#[test]
fn keys_of_a_commit_that_is_durable_but_not_applied_are_said_to_be_committed() {
    let folder = Folder::with_filter(&["--capacity", "1000", "--slots-per-bucket", "2", "--counting"]);
    folder.run(&["insert", "f"], "k\nk\nk\nother\n").done();
    let before = folder.info("f")["commit"].as_u64().unwrap();
    let ended = run(&mut in_a_shell(&folder, NOT_THE_PAGES, &["remove", "f", "k", "other"]), b"");
    ended.refused(&[
        "/f: cannot write: File too large",
        &format!("commit {} of ", before + 1),
        "/f is durable",
        "the first 2 are committed",
    ]);
    assert_eq!(ended.err.matches("File too large").count(), 1, "{}", ended.err);
    assert_eq!(folder.run(&["count", "f", "k", "other"], "").done(), "2\tk\n0\tother\n");
    assert_eq!(folder.info("f")["commit"], before + 1);

    let args = ["insert", "f", "--json", "x", "y", "z"];
    let ended = run(&mut in_a_shell(&folder, NOT_THE_PAGES, &args), b"");
    let (event, message) = ended.err.split_once('\n').unwrap();
    assert_eq!(event, format!("{{\"event\":\"commit\",\"number\":{},\"keys\":3}}", before + 2));
    assert!(message.contains("the first 3 are committed"), "{message}");
    assert_eq!(folder.run(&["count", "f", "x", "y", "z"], "").done(), "1\tx\n1\ty\n1\tz\n");
}

/// A folder without read permission cannot be synced. The new file of a doubling then has the filter's name, and may lose
/// it in a power cut.
#[test]
fn keys_of_a_commit_that_may_be_durable_are_said_to_be_in_doubt() {
    let Some(unprivileged) = Unprivileged::new() else {
        eprintln!("SKIPPED: keys in doubt: this is root, and setpriv does not work");
        return;
    };
    let folder = Folder::new();
    set_mode(&folder.path(""), 0o777);
    let create = ["create", "f", "--capacity", "1000", "--slots-per-bucket", "2", "--seed", "1"];
    unprivileged.run(&folder, &create).done();
    // One region has 16,384 slots: it doubles after the commit of the first 8000 of these keys.
    let args = ["dedup", "f", "--json", "--commit-every", "8000"];
    let mut dedup = unprivileged.start(&folder, &args);
    let (out, err) = (dedup.out_lines(), dedup.err_lines());
    let mut give = |keys: std::ops::Range<u32>| {
        dedup.give(&lines(keys.clone()));
        keys.for_each(|key| assert_eq!(out.next(), format!("key {key}")));
    };
    give(0..8000);
    let event: Value = serde_json::from_str(&err.next()).unwrap();
    assert_eq!((&event["event"], &event["keys"]), (&"commit".into(), &8000.into()));
    give(8000..15_990);
    set_mode(&folder.path(""), 0o333);
    drop(dedup.stdin.take());
    assert_eq!(dedup.wait().code(), Some(2));
    let said = err.rest();
    set_mode(&folder.path(""), 0o777);
    let number = event["number"].as_u64().unwrap() + 1;
    assert_eq!(said[0], format!("{{\"event\":\"unknown\",\"number\":{number},\"keys\":15990}}"));
    for words in [
        "cannot sync: Permission denied",
        "the first 8000 are committed for certain",
        &format!("whether keys 8001 to 15990 are, commit {number}, is unknown"),
        "they are if `gowk info f` shows that commit or a higher one",
    ] {
        assert!(said[1].contains(words), "no {words:?} in {:?}", said[1]);
    }
    assert_eq!((said.len(), said[1].matches("Permission denied").count()), (2, 1), "{said:?}");
    // Nothing was lost here, so the keys in doubt are in the filter.
    let info = folder.info("f");
    assert_eq!((&info["commit"], &info["generation"]), (&number.into(), &1.into()));
    folder.assert_holds("f", &lines(0..15_990));
}
