//! Invariants checked, of the tool and forgetting filters:
//!
//! 1. `create` and its dry run announce the real range of time, and make the filter that they announce. `info` shows it.
//! 2. `dedup` prints a key once, and again after it is forgotten; it refuses the options of another kind or time.
//! 3. A store forgets as a filter does, also with times from records. `sweep` and `store compact` advance it to the time
//!    of the clock.
//! 4. Verbs that do not support forgetting filters refuse them with exit code 2, and name file and remedy.

use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::run::{Folder, lines};

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

#[test]
fn the_newest_keys_are_kept() {
    let folder = Folder::new();
    let range = "keeps the newest 10,000 to 11,669 keys";
    let create = ["create", "f", "--keep-newest", "10k", "--seed", "1"];
    let planned = folder.run(&[&create[..], &["--dry-run"]].concat(), "").done();
    assert!(planned.contains(range) && planned.contains("4 slots per bucket"), "{planned}");
    let json = folder.run(&[&create[..], &["--json"]].concat(), "").json();
    assert_eq!(json["keep_newest"], serde_json::json!({"at_least": 10_000, "at_most": 11_669}));
    let info = folder.run(&["info", "f"], "").done();
    assert!(info.contains("forgetting: the newest keys") && info.contains(range), "{info}");
    // One key in 3,000 is mistaken for another one.
    let count = |arguments: &[&str], keys| folder.run(arguments, lines(keys)).done().lines().count();
    let metrics = folder.run(&["info", "--prometheus", "f"], "").done();
    assert!(
        metrics.contains("\ngowk_keep_newest_keys{file=\"f\"} 10000\n") && !metrics.contains("forget_after"),
        "{metrics}"
    );
    let first = count(&["dedup", "f", "--keep-newest", "10k"], 0..60_000);
    assert!((59_970..=60_000).contains(&first), "{first}");
    let again = count(&["dedup", "f"], 50_000..60_000);
    assert!(again <= 8, "{again}");
    let old = count(&["dedup", "f"], 0..10_000);
    assert!((9_980..=10_000).contains(&old), "{old}");
    let info = folder.info("f");
    assert_eq!(
        (&info["generation"], &info["retention"], &info["time"]),
        (&0.into(), &Value::Null, &Value::Null)
    );
    folder.run(&["sweep", "f"], "").done();
}

#[test]
fn what_the_newest_keys_cannot_is_refused() {
    let folder = Folder::new();
    folder.run(&["create", "f", "--keep-newest", "10k"], "").done();
    folder.run(&["copy", "f", "f2"], "").done();
    let cases: [(&[&str], &str); 9] = [
        (&["dedup", "f", "--keep-newest", "5"], "keeps the newest 10000 to 11669 keys, and not the newest 5"),
        (&["dedup", "f", "--forget-after", "3d"], "keeps the newest 10000 to 11669 keys"),
        (
            &["dedup", "f", "--json-field", "u", "--time-field", "t"],
            "a time of a key is not for such filters",
        ),
        (&["create", "g", "--keep-newest", "5", "--capacity", "5"], "cannot be used with '--capacity"),
        (&["create", "g", "--keep-newest", "5", "--refresh"], "cannot be used with '--refresh'"),
        (&["create", "g", "--keep-newest", "0"], "keep newest"),
        (&["store", "create", "s", "--shards", "2", "--keep-newest", "5"], "a store is not for such filters"),
        (&["store", "create", "s", "--shards", "2", "--from", "f"], "a division is not for such filters"),
        (&["merge", "f", "f2"], "a merge is not for such filters"),
    ];
    for (arguments, words) in cases {
        let refused = folder.run(arguments, "{\"u\":\"a\",\"t\":1}\n");
        assert!(refused.code == Some(2) && refused.err.contains(words), "{arguments:?}: {refused:?}");
    }
    assert!(!folder.path("s").exists() && !folder.path("g").exists());
}

#[test]
fn a_job_keeps_the_newest_keys() {
    let folder = Folder::new();
    let job =
        "[filter]\npath = 'f'\nkeep_newest = 1000\nfalse_positive_rate = 1e-7\n[input]\npaths = ['in']\n";
    std::fs::write(folder.path("job.toml"), job).unwrap();
    std::fs::write(folder.path("in"), lines(0..5_000)).unwrap();
    folder.run(&["ingest", "job.toml"], "").done();
    let info = folder.run(&["info", "f"], "").done();
    assert!(info.contains("keeps the newest 1,000 to 1,080 keys"), "{info}");
    folder.assert_holds("f", &lines(4_000..5_000));
}

/// Times of a second, so that keys are forgotten while the test waits. Waiting longer does no harm.
#[test]
fn dedup_prints_a_key_again_once_it_is_forgotten() {
    let folder = Folder::new();
    let dedup = ["dedup", "f", "--forget-after", "1s", "--slots-per-bucket", "2"];
    assert_eq!(folder.run(&dedup, "a\nb\na\n").done(), "a\nb\n");
    // Longer than 1 s and a fourteenth: all keys are forgotten.
    sleep(Duration::from_millis(2200));
    assert_eq!(folder.run(&dedup, "a\nc\nc\n").done(), "a\nc\n");
    sleep(Duration::from_millis(2200));
    assert_eq!(folder.run(&["check", "f", "c"], "").done(), "c\n");
    let swept = folder.run(&["sweep", "f"], "").done();
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
    ] {
        folder.run(args, "").refused(words);
    }
}

/// A leap is refused if it is longer than the window and longer than a year. The option also works for stores.
#[test]
fn a_filter_and_a_store_leap_over_years_if_the_clock_is_right() {
    let folder = Folder::new();
    folder.run(&["create", "f", "--capacity", "1000", "--forget-after", "28d"], "").done();
    let create = ["store", "create", "s", "--shards", "2", "--capacity", "1000", "--forget-after", "28d"];
    folder.run(&create, "").done();
    let old = "{\"id\":\"a\",\"ts\":\"2020-03-01T00:00:00Z\"}\n";
    for file in ["f", "s"] {
        let insert = ["insert", file, "--json-field", "id", "--time-field", "ts"];
        folder.run(&insert, old).done();
        for verb in ["insert", "dedup"] {
            folder.run(&[verb, file], "a\n").refused(&["more than a year after", "--clock-is-right"]);
        }
    }
    for file in ["f", "s"] {
        assert_eq!(folder.run(&["dedup", file, "--clock-is-right"], "a\nb\n").done(), "a\nb\n");
        folder.run(&["insert", file, "c"], "").done();
    }
    let create = [&create[..2], &["t"], &create[3..]].concat();
    folder.run(&create, "").done();
    folder.run(&["insert", "t", "--json-field", "id", "--time-field", "ts"], old).done();
    folder.run(&["insert", "t", "--clock-is-right", "b"], "").done();
    assert_eq!(folder.run(&["check", "t", "a", "b"], "").text(), "b\n");
}

#[test]
fn a_store_forgets_as_a_filter_does() {
    let folder = Folder::new();
    let create = ["store", "create", "s", "--shards", "3", "--capacity", "1000", "--slots-per-bucket", "2"];
    folder.run(&[&create[..], &["--forget-after", "28d"]].concat(), "").done();
    folder
        .run(&["create", "f", "--capacity", "1000", "--slots-per-bucket", "2", "--forget-after", "28d"], "")
        .done();
    let line = |(name, time): &(&str, &str)| format!("{{\"id\":\"{name}\",\"ts\":\"{time}\"}}\n");
    // An epoch has two days; a key of an epoch that has passed is late.
    let batches: [&[(&str, &str)]; 3] = [
        &[("a", "2026-03-01T00:00:00Z"), ("b", "2026-03-02T00:00:00Z"), ("a", "2026-03-20T00:00:00Z")],
        &[("a", "2026-04-03T00:00:00Z"), ("late", "2026-02-01T00:00:00Z"), ("c", "2026-03-10T00:00:00Z")],
        &[("c", "2026-04-06T00:00:00Z"), ("b", "2026-04-06T00:00:00Z"), ("early", "2099-01-01T00:00:00Z")],
    ];
    for (batch, expected) in batches.iter().zip(["ab", "ac", "b"]) {
        let records: String = batch.iter().map(line).collect();
        for to in ["s", "f"] {
            let dedup = ["dedup", to, "--json-field", "id", "--time-field", "ts"];
            let ended = folder.run(&dedup, &records);
            let new: String = ended.text().lines().filter_map(|line| line.chars().nth(7)).collect();
            assert_eq!((new.as_str(), ended.code), (expected, Some(0)), "{to}: {ended:?}");
            let is_told = ended.err.contains("1 late keys") || ended.err.contains("1 early keys");
            assert_eq!(is_told, expected != "ab", "{to}: {ended:?}");
        }
    }
    let info = folder.run(&["info", "s"], "").done();
    let range = "forgets keys 28 to 30 days after they were first seen";
    assert!(info.contains(range) && info.contains("store's time            2026-04-05"), "{info}");
    let json = folder.info("s");
    assert_eq!(json["retention"]["forget_within"], 2 * 86_400_000_u64);
    assert_eq!(json["store_time"], 1_775_347_200_000_u64);
    let metrics = folder.run(&["info", "--prometheus", "s", "f"], "").done();
    for file in ["s", "f"] {
        for (name, value) in
            [("gowk_forget_after_seconds", 28 * 86_400), ("gowk_time_timestamp_seconds", 1_775_347_200)]
        {
            assert!(metrics.contains(&format!("\n{name}{{file=\"{file}\"}} {value}\n")), "{metrics}");
        }
    }
    let held = |to: &str| folder.run(&["check", to, "a", "b", "c"], "").text();
    assert_eq!((held("s"), held("f")), ("a\nb\nc\n".to_owned(), "a\nb\nc\n".to_owned()));
    // By the clock, all keys were seen too long ago. The option is for a test that runs years later.
    let told = folder.run(&["store", "compact", "s", "--clock-is-right"], "").done();
    assert_eq!(told, "0 shards folded, 0 bytes written, version 5\n");
    assert_eq!(held("s"), "");
    let swept = folder.run(&["sweep", "s", "--clock-is-right"], "").done();
    assert!(swept.starts_with("s: ") && swept.ends_with(" shards written anew\n"), "{swept}");
    assert_eq!(folder.info("s")["entries"], 0);
    for (args, words) in [
        (&["dedup", "s", "--forget-after", "7d"][..], &["s: ", "2419200s"][..]),
        (&["dedup", "s", "--counting"], &["s: ", "forgetting", "--counting"]),
        (&["remove", "s", "key"], &["s: is a forgetting", "removing keys"]),
    ] {
        folder.run(args, "").refused(words);
    }
}

/// Three months of records, mostly in order, some up to six weeks late, and a few from the future.
fn three_months() -> Vec<(u64, u64)> {
    let (start, days) = (1_772_323_200, 92);
    let mut state = 7_u64;
    let mut below = |end: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    let mut records = Vec::new();
    for hour in 0..days * 24 {
        for _ in 0..14 {
            let back = if below(10) == 0 { below(42 * 86_400) } else { below(3600) };
            let ahead = if below(2000) == 0 { 200 * 365 * 86_400 } else { 0 };
            // Four in ten keys are new; most others come from a few keys.
            let key = match below(10) {
                0..4 => 1_000_000 + records.len() as u64,
                4..8 => below(50),
                _ => below(2000),
            };
            records.push((key, start + hour * 3600 - back + ahead));
        }
    }
    records
}

/// The records that are new, late and early by the rule of the specification, with epochs of two days.
fn expected(records: &[(u64, u64)], refresh: bool) -> (Vec<usize>, usize, usize) {
    let (epoch, after) = (2 * 86_400, 28 * 86_400);
    let (mut now, mut expiries) = (0, std::collections::HashMap::new());
    let (mut new, mut late, mut early) = (Vec::new(), 0, 0);
    for (at, (key, time)) in records.iter().enumerate() {
        if *time > 2_000_000_000 {
            early += 1;
            continue;
        }
        let expiry = (time + after).div_ceil(epoch);
        now = now.max(time / epoch);
        if expiry <= now {
            late += 1;
            continue;
        }
        let last = expiries.entry(*key).or_insert(0);
        let is_new = *last <= now;
        if is_new {
            new.push(at);
        }
        if is_new || refresh {
            *last = expiry.max(*last);
        }
    }
    (new, late, early)
}

/// The bounds that `info` shows, whatever the epochs: a key is new again once the latest time is 30 days after it was
/// stored, and not before 28 days.
fn check_bounds(records: &[(u64, u64)], new: &[usize], refresh: bool) {
    let (day, mut latest, mut stored) = (86_400, 0, std::collections::HashMap::<u64, u64>::new());
    for (at, (key, time)) in records.iter().enumerate().filter(|(_, (_, time))| *time < 2_000_000_000) {
        latest = latest.max(*time);
        if time + 28 * day <= latest {
            continue;
        }
        let is_new = new.binary_search(&at).is_ok();
        if let Some(last) = stored.get(key) {
            let is_right = if is_new { last + 28 * day <= latest } else { last + 30 * day > latest };
            assert!(is_right, "{key} at {time}, stored at {last}, at {latest}");
        } else {
            assert!(is_new, "{key} at {time}");
        }
        if is_new || refresh {
            let last = stored.entry(*key).or_default();
            *last = if is_new { *time } else { *time.max(last) };
        }
    }
}

#[test]
fn three_months_of_records_are_judged_as_an_exact_program_does() {
    let records = three_months();
    let lines: Vec<String> =
        records.iter().map(|(key, time)| format!("{{\"id\":\"{key}\",\"ts\":{time}}}\n")).collect();
    for refresh in [false, true] {
        let (new, late, early) = expected(&records, refresh);
        assert!(late > 100 && early > 5 && new.len() > 13_000, "{late} {early} {}", new.len());
        check_bounds(&records, &new, refresh);
        let folder = Folder::new();
        std::fs::write(folder.path("events"), lines.concat()).unwrap();
        let options =
            ["--forget-after", "28d", "--slots-per-bucket", "2", "--capacity", "1000", "--seed", "1"];
        let options = [&options[..], if refresh { &["--refresh"] } else { &[] }].concat();
        let create = ["store", "create", "s", "--shards", "3"];
        folder.run(&[&create[..], &options].concat(), "").done();
        folder.run(&[&["create", "f"], &options[..]].concat(), "").done();
        for to in ["f", "s"] {
            let dedup =
                ["dedup", to, "--json-field", "id", "--time-field", "ts", "--input", "events", "--stats"];
            let ended = folder.run(&dedup, "");
            let expected: String = new.iter().map(|at| lines[*at].as_str()).collect();
            assert!(ended.text() == expected, "{to}, refresh {refresh}");
            assert!(ended.err.contains(&format!("late {late}, early {early}, ")), "{to}: {}", ended.err);
        }
    }
}
