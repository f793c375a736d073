//! Forgetting filters that are divided and joined, at times that the test sets.
//!
//! Invariants checked:
//!
//! 1. A shard keeps the filter's time, and keeps each key as long as the filter would have.
//! 2. Shards of different times are joined at the newest time. Entries that have expired by then are gone, and their
//!    codes never mean a later epoch. Every other key is present until its expiry, even through further epochs.
//! 3. Shards that forget after another time are refused.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gowk::{Difference, Error, Lookup, Options, Reader, Seen};

const DAY: u64 = 86_400;
const FIRST: u64 = 20_003;

fn on(day: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(day * DAY + 12_345)
}

fn options(days: u64, within: u64) -> Options {
    Options::new()
        .seed(1)
        .capacity(40_000)
        // Without refresh, a key that looks like another one expires with that one.
        .refresh(true)
        .forget_after(Duration::from_secs(days * DAY))
        .forget_within(Duration::from_secs(within * DAY))
        .with_clock(|| on(FIRST + 1000))
        .clock_is_right(true)
}

/// 500 keys a day.
fn keys(day: u64) -> impl Iterator<Item = [u8; 8]> {
    (500 * day..500 * day + 500).map(u64::to_le_bytes)
}

/// Checks every day's keys in a filter that has reached the day `now`. Returns how many days' keys must be present.
fn check(filter: &Reader, days: std::ops::Range<u64>, now: u64, [after, within]: [u64; 2]) -> u64 {
    let mut there = 0;
    for day in days {
        let found = keys(day).filter(|key| filter.contains(key).unwrap()).count();
        let age = now - day;
        if age < after {
            assert_eq!(found, 500, "keys of day {day}, on day {now}");
            there += 1;
        } else if age > after + within {
            assert!(found < 10, "{found} keys of day {day} are there on day {now}");
        }
    }
    there
}

fn come_to(path: &Path, day: u64, key: u64) {
    let options = Options::new().with_clock(|| on(FIRST + 1000)).clock_is_right(true);
    let mut writer = options.open_existing(path).unwrap();
    // One of these keys belongs to the shard.
    let mut tried = (key..).map(|key| writer.insert_at(key.to_le_bytes(), on(day)));
    assert!(tried.any(|seen| matches!(seen, Ok(Seen::New | Seen::Known))));
    writer.commit().unwrap();
    writer.close().unwrap();
}

#[test]
fn shards_keep_their_time_and_are_joined_at_the_newest() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for (rate, within) in [(2e-3, 5), (1e-4, 3)] {
        let mut writer = options(30, within).false_positive_rate(rate).create(path("f")).unwrap();
        let days = FIRST..FIRST + 40;
        for day in days.clone() {
            let (keys, times): (Vec<_>, Vec<_>) = keys(day).map(|key| (key, on(day))).unzip();
            writer.insert_batch_at(&keys, &times).unwrap().inserted.complete().unwrap();
        }
        writer.commit().unwrap();
        writer.close().unwrap();
        let filter = Reader::open(path("f")).unwrap();
        let last = days.end - 1;
        let names = ["a", "b", "c", "d"].map(path);
        filter.divide_to(&names, &|_, _| {}).unwrap();
        for name in &names {
            let (info, whole) = (Reader::open(name).unwrap().info().unwrap(), filter.info().unwrap());
            assert_eq!((info.time, info.retention), (whole.time, whole.retention));
        }
        let join = |name: &str| {
            let parts = [0, 1, 2, 3].map(|part: usize| Reader::open(&names[part]).unwrap());
            Reader::join_to(&parts, path(name), &|_, _| {})?;
            Reader::open(path(name))
        };
        let bounds = [30, within];
        let joined = join("joined").unwrap();
        assert!(
            check(&joined, days.clone(), last, bounds) == 30
                && joined.info().unwrap().time == filter.info().unwrap().time
        );
        // Shards of four times: the first stays, the others advance by less than a window, and by most of it.
        let mut now = last;
        for (shard, later) in [(1, 4), (2, 11), (3, 22)] {
            now = last + later;
            come_to(&names[shard], now, 500 * 100_000);
        }
        let joined = join("later").unwrap();
        assert_eq!(check(&joined, days.clone(), now, bounds), 8);
        let verified = joined.verify(&|_, _| {}).unwrap();
        assert!(verified.is_clean(), "{verified:?}");
        drop(joined);
        // No code of a past epoch is mistaken for a later one.
        for later in [30, 45, 60, 75] {
            come_to(&path("later"), last + later, 500 * 200_000 + later);
            check(&Reader::open(path("later")).unwrap(), days.clone(), last + later, bounds);
        }
        for name in ["f", "a", "b", "c", "d", "joined", "later"] {
            std::fs::remove_file(path(name)).unwrap();
        }
    }
}

#[test]
fn shards_that_forget_after_another_time_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for (name, days) in [("f", 30), ("g", 20)] {
        let mut writer = options(days, 5).false_positive_rate(2e-3).create(path(name)).unwrap();
        writer.commit().unwrap();
        let parts = [0, 1].map(|part| path(&format!("{name}{part}")));
        Reader::open(path(name)).unwrap().divide_to(&parts, &|_, _| {}).unwrap();
    }
    let parts = ["f0", "g1"].map(|name| Reader::open(path(name)).unwrap());
    let error = Reader::join_to(&parts, path("joined"), &|_, _| {}).unwrap_err();
    assert!(matches!(error, Error::Unlike { difference: Difference::Retention, .. }), "{error}");
    assert!(!path("joined").exists());
}
