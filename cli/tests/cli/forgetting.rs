//! Invariants checked, of the tool and forgetting filters:
//!
//! 1. `create` and its dry run say the real range of time, and make the filter that they announce. `info` shows it.
//! 2. `dedup` prints a key once, and again once it is forgotten; the options of another kind or time are refused.
//! 3. What does not know forgetting filters refuses them with exit code 2, and names file and remedy.

use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::run::Folder;

#[test]
fn the_plan_is_what_is_made_and_shown() {
    let folder = Folder::new();
    let range = "forgets keys 30 to 32.2 days after they were first seen";
    let options = [
        "--capacity",
        "1M",
        "--forget-after",
        "30d",
        "--forget-within",
        "3d",
        "--false-positive-rate",
        "1e-4",
    ];
    let create = [&["create", "f"], &options[..]].concat();
    let planned = folder.run(&[&create[..], &["--dry-run"]].concat(), "").done();
    assert!(planned.contains(range) && planned.contains("3 slots per bucket"), "{planned}");
    let json: Value =
        serde_json::from_str(&folder.run(&[&create[..], &["--json"]].concat(), "").done()).unwrap();
    assert_eq!(json["kind"], "forgetting");
    let day = 86_400_000_u64;
    let retention = &json["retention"];
    assert_eq!(retention["forget_after"], 30 * day);
    assert_eq!(retention["forget_within"], (30 * day).div_ceil(14));
    let info = folder.run(&["info", "f"], "").done();
    assert!(info.contains("forgetting: each key for some time") && info.contains(range), "{info}");
    let json: Value = serde_json::from_str(&folder.run(&["info", "f", "--json"], "").done()).unwrap();
    assert_eq!((&json["kind"], &json["retention"]["refresh"]), (&"forgetting".into(), &false.into()));
    folder.run(&["verify", "f"], "").done();
}

/// Times of a second, so that keys are forgotten while the test waits: it takes as long as it takes, at least as long.
#[test]
fn dedup_prints_a_key_again_once_it_is_forgotten() {
    let folder = Folder::new();
    let dedup = ["dedup", "f", "--forget-after", "1s", "--slots-per-bucket", "2"];
    assert_eq!(folder.run(&dedup, "a\nb\na\n").done(), "a\nb\n");
    // 1 s, at most a fourteenth more, and not so long that the clock seems to leap.
    sleep(Duration::from_millis(1100));
    assert_eq!(folder.run(&[&dedup[..], &["--clock-is-right"]].concat(), "a\nc\nc\n").done(), "a\nc\n");
    sleep(Duration::from_millis(1100));
    assert_eq!(folder.run(&["check", "f", "c"], "").done(), "c\n");
    let swept = folder.run(&["sweep", "f", "--clock-is-right"], "").done();
    assert!(swept.starts_with("f: ") && swept.ends_with(" entries forgotten\n"), "{swept}");
    assert_eq!(folder.run(&["check", "f", "a", "c"], "").code, Some(1));
}

#[test]
fn a_filter_that_forgets_in_another_way_and_operations_that_cannot_are_refused() {
    let folder = Folder::new();
    let create = |name: &str| {
        folder
            .run(&["create", name, "--capacity", "1000", "--forget-after", "30d", "--seed", "1"], "")
            .done();
    };
    create("f");
    folder.run(&["create", "set", "--capacity", "1000"], "").done();
    for (args, words) in [
        (&["dedup", "f", "--forget-after", "7d"][..], &["f: ", "2592000s"][..]),
        (&["dedup", "f", "--counting"], &["f: is a forgetting filter", "with `--counting`"]),
        (&["dedup", "set", "--forget-after", "7d"], &["set: is a set", "with `--forget-after`"]),
        (&["remove", "f", "key"], &["f: is a forgetting filter", "removing keys"]),
        (&["sweep", "set"], &["set: is a set"]),
        (
            &["store", "create", "s", "--shards", "2", "--capacity", "1000", "--forget-after", "7d"],
            &["s: is a forgetting filter"],
        ),
    ] {
        folder.run(args, "").refused(words);
    }
}
