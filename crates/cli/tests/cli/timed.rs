//! Invariants checked, for keys with times:
//!
//! 1. Over three months of records, `dedup` prints a key again only after `forget_after`, and always after
//!    `forget_within` more. Late and early records are counted, and neither printed nor stored. An exact program says
//!    which records must be printed, and which must not.
//! 2. A record without a valid time has no key: it is counted, kept or refused as `--missing` says.
//! 3. Verbs and kinds that cannot use times refuse them before any key comes.

use std::collections::HashMap;

use serde_json::Value;

use crate::run::{Ended, Folder};

const DAY: u64 = 86_400;
/// 2024-01-01 00:00:00 UTC.
const START: u64 = 1_704_067_200;

/// A record of the stream; times are in seconds.
struct Record {
    time: u64,
    url: usize,
}

/// xorshift: the same records in each run of the test.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Three months with 12,000 URLs, a few of them frequent: 2 % of the records come up to 60 days late, 5 % up to 20 days,
/// 0.5 % are of the year 2124.
fn stream() -> Vec<Record> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let records = 60_000_u64;
    let record = |index| {
        let now = START + 91 * DAY * index / records;
        let url = (random.below(12_000) * random.below(12_000) / 12_000) as usize;
        let time = match random.below(200) {
            0 => now + 100 * 365 * DAY,
            1..5 => now - random.below(60 * DAY),
            5..15 => now - random.below(20 * DAY),
            _ => now,
        };
        Record { time, url }
    };
    (0..records).map(record).collect()
}

/// A time of 2024's first quarter as RFC 3339.
fn rfc3339(time: u64) -> String {
    let (mut days, of_day) = ((time - START) / DAY, (time - START) % DAY);
    let mut month = 1;
    for length in [31, 29, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("2024-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", days + 1)
}

fn line(index: usize, record: &Record, url: &str) -> String {
    let Record { time, .. } = *record;
    let at = match index % 3 {
        0 if (START..START + 100 * DAY).contains(&time) => format!("\"{}\"", rfc3339(time)),
        1 => format!("{time}000"),
        _ => time.to_string(),
    };
    format!("{{\"n\":{index},\"seen\":{{\"ts\":{at}}},\"url\":\"{url}\"}}\n")
}

fn summary(ended: &Ended) -> Value {
    serde_json::from_str(ended.err.lines().last().unwrap()).unwrap()
}

#[test]
fn three_months_of_records_are_new_as_an_exact_program_says() {
    let folder = Folder::new();
    let urls = format!("{}/../../examples/urls.txt.gz", env!("CARGO_MANIFEST_DIR"));
    let urls = folder.run(&["dedup", "urls", "--input", &urls, "--slots-per-bucket", "2"], "").done();
    let urls: Vec<&str> = urls.lines().collect();
    let records = stream();
    let dedup = [
        "dedup",
        "seen",
        "--forget-after",
        "30d",
        "--json-field",
        "url",
        "--time-field",
        "seen.ts",
        "--json",
    ];
    // One run a month or so, as by cron.
    let (mut printed, mut late, mut early) = (vec![false; records.len()], 0, 0);
    for (run, part) in records.chunks(records.len() / 4).enumerate() {
        let first = run * (records.len() / 4);
        let lines = part.iter().enumerate().map(|(i, record)| line(first + i, record, urls[record.url]));
        let ended = folder.run(&dedup, lines.collect::<String>());
        let summary = summary(&ended);
        late += summary["late"].as_u64().unwrap();
        early += summary["early"].as_u64().unwrap();
        let [read, new, seen] = ["read", "new", "seen"].map(|name| summary[name].as_u64().unwrap());
        let [late, early] = ["late", "early"].map(|name| summary[name].as_u64().unwrap());
        assert_eq!((read, read - new - seen), (part.len() as u64, late + early), "{summary}");
        for (which, count) in [("late", late), ("early", early)] {
            let note = format!("seen: {count} {which} keys were neither printed nor stored: ");
            assert!(ended.err.replace(',', "").contains(&note), "{}", ended.err);
        }
        for line in ended.text().lines() {
            printed[serde_json::from_str::<Value>(line).unwrap()["n"].as_u64().unwrap() as usize] = true;
        }
    }
    let info = folder.info("seen");
    let retention = |name: &str| info["retention"][name].as_u64().unwrap().div_ceil(1000);
    let (after, most) = (retention("forget_after"), retention("forget_after") + retention("forget_within"));
    assert_eq!(after, 30 * DAY);
    let (mut now, mut seen) = (0, HashMap::<usize, u64>::new());
    let (mut surely, mut perhaps, mut future, mut again, mut false_positives) = (0, 0, 0, 0, 0);
    for (index, (Record { time, url }, is_printed)) in records.iter().zip(&printed).enumerate() {
        if *time > START + 200 * DAY {
            future += 1;
            assert!(!is_printed, "the early record {index} was printed");
            continue;
        }
        now = now.max(*time);
        let age = now - time;
        surely += u64::from(age >= most);
        perhaps += u64::from(age >= after);
        let before = seen.get(url).copied();
        if *is_printed {
            assert!(age < most, "the late record {index} was printed");
            if let Some(before) = before {
                assert!(now - before >= after, "record {index} was printed after {} s", now - before);
                again += 1;
            }
            seen.insert(*url, *time);
        } else if age < after && before.is_none_or(|before| now - before > most) {
            false_positives += 1;
        }
    }
    assert!((surely..=perhaps).contains(&late) && surely > 100, "{surely} to {perhaps} late, {late} counted");
    assert_eq!(early, future);
    assert!(future > 100 && again > 1000, "{future} early, {again} printed again");
    // At a rate of 1e-4, some 3 of 30,000 absent keys.
    assert!(false_positives < 30, "{false_positives} new keys were not printed");
}

#[test]
fn a_record_without_a_valid_time_is_treated_as_missing_says() {
    let folder = Folder::new();
    let rows = "url,seen\na,2024-01-01T00:00:00Z\nb,yesterday\nc\na,1704067200\nd,1704067200000\n";
    let dedup = ["dedup", "f", "--forget-after", "30d", "--csv", "url", "--time-column", "seen"];
    let with = |more: &[&str]| folder.run(&[&dedup[..], more].concat(), rows);
    let failed = with(&["--missing", "fail"]);
    assert_eq!(failed.code, Some(2), "{failed:?}");
    assert!(
        failed.err.contains("standard input: the record on line 3 has no valid time in \"seen\""),
        "{failed:?}"
    );
    assert!(failed.err.contains("RFC 3339"), "{failed:?}");
    let ended = with(&["--stats", "--rejects", "r"]);
    assert!(
        ended.err.contains("gowk: standard input: 2 records were skipped that have no valid time\n"),
        "{ended:?}"
    );
    assert!(ended.err.contains("read 3, new 1, seen 2"), "{ended:?}");
    assert!(ended.err.contains("without a time 2, late 0, early 0"), "{ended:?}");
    assert_eq!(ended.text(), "url,seen\nd,1704067200000\n");
    assert_eq!(std::fs::read_to_string(folder.path("r")).unwrap(), "url,seen\nb,yesterday\nc\n");
    assert_eq!(with(&["--missing", "keep"]).text(), "url,seen\nb,yesterday\nc\n");
    folder.assert_lacks("f", "b\nc\n");
    // Columns by number, without a header. A wrong field is an error, even if it is wrong in every record.
    let numbered = ["dedup", "f", "--csv", "1", "--time-column", "2"];
    assert_eq!(folder.run(&numbered, "d,1704067200\ne,1704067200\n").done(), "e,1704067200\n");
    let wrong = folder.run(&["insert", "f", "--csv", "1", "--time-column", "1"], "d,5\ne,5\n");
    let words = "gowk: standard input: has no valid time in 1 of any of its 2 records; ";
    assert!(wrong.code == Some(2) && wrong.err.lines().last().unwrap().starts_with(words), "{wrong:?}");
    folder
        .run(&["dedup", "f", "--csv", "url", "--time-column", "ts"], rows)
        .refused(&["has no column \"ts\""]);
}

#[test]
fn what_has_no_use_for_times_refuses_them() {
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    folder.run(&["store", "create", "s", "--shards", "2", "--capacity", "1000"], "").done();
    folder.run(&["create", "g", "--capacity", "1000", "--forget-after", "30d"], "").done();
    let line = "{\"id\":1,\"ts\":1704067200}\n";
    for file in ["f", "s"] {
        let timed = ["dedup", file, "--json-field", "id", "--time-field", "ts"];
        folder.run(&timed, line).refused(&[
            &format!("{file}: is a set"),
            "inserting keys at a time",
            "--forget-after",
        ]);
        folder.assert_lacks(file, "1\n");
    }
    for (args, words) in [
        (&["dedup", "g", "--time-field", "ts"][..], "--json-field"),
        (&["dedup", "g", "--csv", "1", "--time-field", "ts"], "--csv"),
        (&["dedup", "g", "--time-column", "ts"], "--column"),
        (&["insert", "g", "--json-field", "id", "--time-column", "2"], "--time-column"),
        (&["check", "g", "--json-field", "id", "--time-field", "ts"], "--time-field"),
    ] {
        let refused = folder.run(args, line);
        assert!(refused.code == Some(2) && refused.err.contains(words), "{refused:?}");
    }
}
