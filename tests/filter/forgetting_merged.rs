//! Forgetting filters that are merged and shrunk, at times that the test sets.
//!
//! Invariants checked:
//!
//! 1. A key of either filter is present as long as that filter would have kept it, and a key of both as long as the
//!    filter that keeps it longer.
//! 2. Every key disappears in time, even through further epochs: no code of a past epoch is reused while entries have it.
//! 3. Expired entries take no room in the new file, and displace no other key.
//! 4. Filters that forget differently are refused, and nothing changes. A rollback undoes a merge, including its time.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gowk::{Difference, Error, Lookup, Options, Reader, Writer};

const DAY: u64 = 86_400;
const FIRST: u64 = 20_003;
const AFTER: u64 = 30;
/// Files of four slots and two bits of expiry: 15; three bits: 5; three slots: 3.
const SHAPES: [(f64, u64); 3] = [(2e-3, 15), (2e-3, 5), (1e-4, 3)];

fn on(day: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(day * DAY + 12_345)
}

fn options(rate: f64, within: u64) -> Options {
    Options::new()
        .seed(1)
        .false_positive_rate(rate)
        // Without refresh, a key that looks like another one expires with that one.
        .refresh(true)
        .forget_after(Duration::from_secs(AFTER * DAY))
        .forget_within(Duration::from_secs(within * DAY))
        .with_clock(|| on(FIRST + 10_000))
        .clock_is_right(true)
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// When each key was last seen.
type Seen = HashMap<u64, u64>;

/// Inserts keys of a day, some of which were seen before, and records when.
fn insert(writer: &mut Writer, day: u64, keys: impl Iterator<Item = u64>, seen: &mut Seen) {
    let numbers: Vec<u64> = keys.collect();
    let (keys, times): (Vec<_>, Vec<_>) = numbers.iter().map(|number| (key(*number), on(day))).unzip();
    writer.insert_batch_at(&keys, &times).unwrap().inserted.complete().unwrap();
    for number in numbers {
        let last = seen.entry(number).or_default();
        *last = day.max(*last);
    }
}

/// Checks every key in a filter that has reached the day `now`. Returns how many keys must be present.
fn check(contains: impl Fn([u8; 8]) -> bool, seen: &Seen, now: u64, within: u64) -> usize {
    let (mut there, mut left) = (0, 0);
    for (number, last) in seen {
        let (found, age) = (contains(key(*number)), now - last);
        if age < AFTER {
            assert!(found, "key {number} of day {last}, on day {now}");
            there += 1;
        } else if age > AFTER + within {
            left += usize::from(found);
        }
    }
    // These are false positives.
    assert!(left * 20 < seen.len().max(400), "{left} of {} keys are there on day {now}", seen.len());
    there
}

fn of(reader: &Reader) -> impl Fn([u8; 8]) -> bool {
    |key| reader.contains(key).unwrap()
}

/// Advances a filter's time until all of its keys are forgotten.
fn live_on(path: &Path, seen: &Seen, from: u64, within: u64) {
    let options = Options::new().with_clock(|| on(FIRST + 10_000)).clock_is_right(true);
    let mut writer = options.open_existing(path).unwrap();
    for day in (from..from + 3 * AFTER).step_by(7) {
        writer.insert_at(key(u64::MAX - day), on(day)).unwrap();
        writer.commit().unwrap();
        check(of(&Reader::open(path).unwrap()), seen, day, within);
    }
    writer.sweep().unwrap();
    writer.commit().unwrap();
    let verified = Reader::open(path).unwrap().verify(&|_, _| {}).unwrap();
    assert!(verified.is_clean(), "{verified:?}");
}

#[test]
fn a_key_of_both_filters_is_kept_as_long_as_the_one_that_keeps_it_longer() {
    let dir = tempfile::tempdir().unwrap();
    // Our filter is behind, ahead, far behind and far ahead of theirs, in days; ours or theirs is larger.
    for (round, (rate, within)) in SHAPES.into_iter().enumerate() {
        for (case, (ours, theirs)) in
            [(40, 47), (47, 40), (40, 75), (75, 40), (40, 140)].into_iter().enumerate()
        {
            let path = |name: &str| dir.path().join(format!("{name}{round}{case}"));
            let mut seen = Seen::new();
            for (name, until, from) in [("ours", ours, 0), ("theirs", theirs, 150)] {
                let capacity = if (name == "ours") == (case % 2 == 0) { 4_000 } else { 40_000 };
                let mut writer = options(rate, within).capacity(capacity).create(path(name)).unwrap();
                let mut own = Seen::new();
                for day in (0..=until).rev().take(40).collect::<Vec<_>>().into_iter().rev() {
                    // A third of each day's keys occur in both filters; some recur after days.
                    let keys = (0..300).map(|key| (day / 9 * 5) * 1000 + from + key);
                    insert(&mut writer, FIRST + day, keys, &mut own);
                }
                writer.commit().unwrap();
                writer.close().unwrap();
                for (number, last) in own {
                    let of_both = seen.entry(number).or_insert(0);
                    *of_both = last.max(*of_both);
                }
            }
            let now = FIRST + ours.max(theirs);
            let mut writer = options(rate, within).open_existing(path("ours")).unwrap();
            let (before, reader) = (writer.info().unwrap(), Reader::open(path("theirs")).unwrap());
            writer.merge(&reader).unwrap();
            check(|key| writer.contains(key).unwrap(), &seen, now, within);
            // A rollback undoes all of it.
            writer.rollback().unwrap();
            assert_eq!(writer.info().unwrap(), before);
            writer.merge(&reader).unwrap();
            writer.commit().unwrap();
            let info = writer.info().unwrap();
            assert_eq!(info.time, before.time.max(reader.info().unwrap().time));
            assert_eq!(info.copies, info.entries);
            writer.close().unwrap();
            let merged = Reader::open(path("ours")).unwrap();
            assert!(check(of(&merged), &seen, now, within) > 500);
            live_on(&path("ours"), &seen, now, within);
        }
    }
}

#[test]
fn shrinking_keeps_every_key_for_its_time_and_drops_what_has_expired() {
    let dir = tempfile::tempdir().unwrap();
    for (round, (rate, within)) in SHAPES.into_iter().enumerate() {
        let path = dir.path().join(format!("f{round}"));
        let (mut seen, mut writer) =
            (Seen::new(), options(rate, within).capacity(20_000).create(&path).unwrap());
        // At first many keys cause two doublings; later there are few.
        for day in 0..80 {
            let count = if day < 10 { 6_000 } else { 100 };
            insert(&mut writer, FIRST + day, (0..count).map(|key| day * 10_000 + key), &mut seen);
        }
        writer.commit().unwrap();
        let (before, now) = (writer.info().unwrap(), FIRST + 79);
        assert!(before.generation > 0, "{before}");
        let there = check(|key| writer.contains(key).unwrap(), &seen, now, within);
        for _ in 0..before.generation {
            writer.shrink().unwrap();
            assert_eq!(check(|key| writer.contains(key).unwrap(), &seen, now, within), there);
        }
        writer.commit().unwrap();
        let info = writer.info().unwrap();
        assert_eq!((info.generation, info.time), (0, before.time));
        assert_eq!(info.copies, info.entries);
        assert!(info.entries < 100 * (AFTER + within + 2), "{info}");
        writer.close().unwrap();
        live_on(&path, &seen, now, within);
    }
}

#[test]
fn filters_that_forget_in_another_way_are_not_merged() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let mut writer = options(2e-3, 5).create(path("f")).unwrap();
    writer.insert_at(key(1), on(FIRST)).unwrap();
    writer.commit().unwrap();
    let before = writer.info().unwrap();
    let others = [
        options(2e-3, 15),
        options(2e-3, 5).refresh(false),
        options(2e-3, 5).forget_after(Duration::from_secs(20 * DAY)),
    ];
    for (number, other) in others.into_iter().enumerate() {
        let name = path(&number.to_string());
        let mut theirs = other.create(&name).unwrap();
        theirs.commit().unwrap();
        let error = writer.merge(&Reader::open(&name).unwrap()).unwrap_err();
        assert!(matches!(error, Error::Unlike { difference: Difference::Retention, .. }), "{error}");
        assert_eq!(writer.info().unwrap(), before);
    }
}
