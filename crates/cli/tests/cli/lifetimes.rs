//! Invariants checked, for keys with individual lifetimes:
//!
//! 1. `dedup` and `insert` into filters and stores, from CSV and JSON, keep each key until the latest of its expiries,
//!    and have forgotten it `forget_within` later. An exact model of the coming days says which keys must be present.
//! 2. A record whose lifetime is missing, unreadable or longer than the filter keeps keys has no key. It is counted, and
//!    kept, rejected or refused as `--missing` says.
//! 3. Verbs and kinds that cannot use lifetimes refuse them before any key comes.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use gowk::store::Store;
use gowk::{Lookup, Options};

use crate::run::Folder;

const DAY: u64 = 86_400;
const WINDOW: u64 = 30 * DAY;

/// Key and lifetime of each record. Each key occurs some three times.
fn records() -> Vec<(u64, u64)> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |end| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    (0..3000).map(|_| (below(1000), below(WINDOW + 1))).collect()
}

/// The lifetime written in one of the allowed ways, rounded down if the unit is coarse; and the lifetime that the text
/// means.
fn written(index: usize, lifetime: u64) -> (String, u64) {
    match index % 4 {
        0 => (lifetime.to_string(), lifetime),
        1 => (format!("{}d", lifetime / DAY), lifetime / DAY * DAY),
        2 => (format!("{}h", lifetime / 3600), lifetime / 3600 * 3600),
        _ => (format!("{lifetime}.0"), lifetime),
    }
}

/// Which of the keys 0 to 999 will be present after this many days.
fn there(folder: &Folder, file: &str, days: u64) -> Vec<bool> {
    let later = SystemTime::now() + Duration::from_secs(days * DAY);
    let options = Options::new().with_clock(move || later);
    let keys: Vec<String> = (0..1000).map(|key| format!("key {key}")).collect();
    if Store::is_at(folder.path(file)) {
        let store = Store::open_with(folder.path(file), &options).unwrap();
        return store.read().unwrap().at_time(later).contains_batch(&keys).unwrap();
    }
    // A copy: sweeping advances the file to a time that the tool's clock would refuse.
    std::fs::copy(folder.path(file), folder.path("copy")).unwrap();
    let mut writer = options.open_existing(folder.path("copy")).unwrap();
    writer.sweep().unwrap();
    keys.iter().map(|key| writer.contains(key).unwrap()).collect()
}

#[test]
fn each_key_stays_until_the_latest_of_its_expiries_as_an_exact_model_says() {
    let folder = Folder::new();
    let asked = ["--capacity", "10k", "--forget-after", "30d", "--false-positive-rate", "1e-7"];
    folder.run(&[&["create", "f", "--seed", "1"], &asked[..]].concat(), "").done();
    folder.run(&[&["store", "create", "s", "--shards", "3"], &asked[..]].concat(), "").done();
    let (mut csv, mut json, mut expires) =
        (String::from("id,ttl\n"), String::new(), HashMap::<u64, u64>::new());
    let records = records();
    for (index, (key, lifetime)) in records.iter().enumerate() {
        let (text, stands_for) = written(index, *lifetime);
        csv += &format!("key {key},{text}\n");
        let quoted = if index % 2 == 0 { format!("\"{text}\"") } else { text };
        let quoted = if index % 4 == 1 { format!("\"{quoted}\"") } else { quoted };
        json += &format!("{{\"id\":\"key {key}\",\"cache\":{{\"ttl\":{quoted}}}}}\n");
        let last = expires.entry(*key).or_default();
        *last = stands_for.max(*last);
    }
    let before = SystemTime::now();
    // The same records in two runs, so that the second run also prolongs keys of an earlier commit.
    let half = csv.match_indices('\n').nth(1500).unwrap().0 + 1;
    let halves = [csv[..half].to_owned(), format!("id,ttl\n{}", &csv[half..])];
    let mut printed = 0;
    for part in &halves {
        let by_column = ["dedup", "f", "--csv", "id", "--ttl-field", "ttl", "--stats"];
        let ended = folder.run(&by_column, part);
        assert!(ended.code == Some(0) && ended.err.contains("read 1,500") && !ended.err.contains("lifetime"));
        printed += ended.text().lines().filter(|line| *line != "id,ttl").count();
    }
    assert_eq!(printed, expires.len());
    let half = json.match_indices('\n').nth(1500).unwrap().0 + 1;
    for part in [&json[..half], &json[half..]] {
        folder.run(&["insert", "s", "--json-field", "id", "--ttl-field", "cache.ttl"], part).done();
    }
    let took = before.elapsed().unwrap().as_secs() + 1;
    for file in ["f", "s"] {
        let within = folder.info(file)["retention"]["forget_within"].as_u64().unwrap() / 1000;
        let (mut kept, mut gone) = (0, 0);
        for days in 0..40 {
            for (key, is_there) in (0..).zip(there(&folder, file, days)) {
                match expires.get(&key) {
                    None => assert!(!is_there, "{file}: key {key} was never inserted"),
                    Some(lifetime) if *lifetime > days * DAY + took => {
                        kept += 1;
                        assert!(is_there, "{file}: key {key} of {lifetime} s is gone after {days} days");
                    }
                    Some(lifetime) if lifetime + within + took < days * DAY => {
                        gone += 1;
                        assert!(!is_there, "{file}: key {key} of {lifetime} s is there after {days} days");
                    }
                    Some(_) => {}
                }
            }
        }
        assert!(kept > 10_000 && gone > 5000, "{file}: {kept} {gone}");
    }
}

#[test]
fn a_record_without_a_valid_lifetime_is_treated_as_missing_says() {
    let folder = Folder::new();
    let rows = "url,ttl\na,30d\nb,31d\nc\nd,soon\ne,-5\nf,1e3\ng,2592000.5\nh,0\n";
    let dedup = ["dedup", "f", "--forget-after", "30d", "--csv", "url", "--ttl-field", "ttl"];
    let with = |more: &[&str]| folder.run(&[&dedup[..], more].concat(), rows);
    with(&["--missing", "fail"]).refused(&[
        "standard input: the record on line 3 has no valid lifetime in \"ttl\"",
        "90d or 12h, at most the 2592000s that the filter keeps keys",
    ]);
    let ended = with(&["--stats", "--rejects", "r"]);
    let note = "gowk: standard input: 5 records were skipped that have no valid lifetime\n";
    assert!(ended.err.contains(note), "{ended:?}");
    assert!(ended.err.contains("read 3, new 2, seen 1, refused 0, without a lifetime 5"), "{ended:?}");
    assert_eq!(ended.text(), "url,ttl\nf,1e3\nh,0\n");
    let rejects = std::fs::read_to_string(folder.path("r")).unwrap();
    assert_eq!(rejects, "url,ttl\nb,31d\nc\nd,soon\ne,-5\ng,2592000.5\n");
    assert_eq!(with(&["--missing", "keep"]).text(), "url,ttl\nb,31d\nc\nd,soon\ne,-5\ng,2592000.5\n");
    folder.assert_lacks("f", "b\nc\nd\ne\ng\n");
    folder.assert_holds("f", "a\nf\nh\n");
    let json = with(&["--json"]);
    assert!(json.err.lines().last().unwrap().contains("\"no_time\":5"), "{json:?}");
    let wrong = folder.run(&["insert", "f", "--csv", "1", "--ttl-field", "2"], "d,31d\ne,never\n");
    let words = "gowk: standard input: has no valid lifetime in 2 of any of its 2 records; ";
    assert!(wrong.code == Some(2) && wrong.err.lines().last().unwrap().starts_with(words), "{wrong:?}");
}

#[test]
fn what_has_no_use_for_lifetimes_refuses_them() {
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    folder.run(&["store", "create", "s", "--shards", "2", "--capacity", "1000"], "").done();
    folder.run(&["create", "g", "--capacity", "1000", "--forget-after", "30d"], "").done();
    folder.run(&["create", "n", "--keep-newest", "1000"], "").done();
    let line = "{\"id\":1,\"ttl\":5}\n";
    for (file, words) in [("f", "is a set"), ("s", "is a set"), ("n", "newest")] {
        let lasting = ["dedup", file, "--json-field", "id", "--ttl-field", "ttl"];
        folder.run(&lasting, line).refused(&[file, words]);
        folder.assert_lacks(file, "1\n");
    }
    for (args, words) in [
        (&["dedup", "g", "--ttl-field", "ttl"][..], "--json-field"),
        (&["dedup", "g", "--json-field", "id", "--ttl-field", "ttl", "--time-field", "ts"], "--time-field"),
        (&["check", "g", "--json-field", "id", "--ttl-field", "ttl"], "--ttl-field"),
    ] {
        let refused = folder.run(args, line);
        assert!(refused.code == Some(2) && refused.err.contains(words), "{refused:?}");
    }
}
