//! Forgetting filters, with a clock that the test controls.
//!
//! Invariants checked:
//!
//! 1. A key that an insert stored is present for the whole time for which the filter was created; with refresh, from its
//!    last insert on. At the latest one epoch after that, it is absent, except for false positives.
//! 2. That holds through commits, rollbacks, reopenings, doublings, sweeps and jumps of time, key by key and in batches,
//!    for keys in order of time and for late ones, for readers, copies in memory and copies.
//! 3. A reader sees a new epoch together with its commit, and not earlier.
//! 4. Late and early keys, and clocks that leap or go back, are reported and change nothing.
//! 5. Operations that a forgetting filter does not support are refused, and so are operations that only it supports, on
//!    others.
//! 6. The room of forgotten entries is used again: the file of a stream stops growing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gowk::{Batches, Error, ErrorKind, Kind, Lookup, Options, Reader, Seen, Writer};

use crate::thorough;

const DAY: u64 = 86_400;

/// A clock in seconds since 1970.
#[derive(Clone)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    /// A day on which epochs of 15, 5 and 30/14 days do not begin.
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(20_003 * DAY + 12_345)))
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn time(&self) -> SystemTime {
        at(self.now())
    }

    fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::Relaxed);
    }

    fn options(&self) -> Options {
        let clock = self.clone();
        Options::new()
            .seed(1)
            .capacity(50_000)
            .forget_after(Duration::from_secs(30 * DAY))
            .with_clock(move || clock.time())
    }
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// One filter of each width: the rate, and the days within which it forgets keys.
const OFFERS: [(f64, u64); 4] = [(1e-3, 15), (2e-3, 5), (1e-4, 3), (3e-8, 3)];

/// The model's facts about a key: until when it must be present, and after which time it must be absent.
#[derive(Clone, Copy, Debug)]
struct Promise {
    until: u64,
    gone: u64,
}

struct Model {
    keys: BTreeMap<u64, Promise>,
    within: u64,
    refresh: bool,
}

impl Model {
    /// Records an insert of a key that was seen at `time`.
    fn seen(&mut self, number: u64, time: u64, new: bool) {
        if !new && !self.refresh {
            return;
        }
        let promise = Promise { until: time + 30 * DAY, gone: time + (30 + self.within) * DAY };
        let known = self.keys.entry(number).or_insert(promise);
        known.until = if new { promise.until } else { known.until.max(promise.until) };
        known.gone = if new { promise.gone } else { known.gone.max(promise.gone) };
    }

    /// Compares the answers for all keys with the model. Returns how many expired keys were found, and how many expired
    /// keys there are.
    fn check(&self, now: u64, mut contains: impl FnMut(&[[u8; 8]]) -> Vec<bool>) -> (u64, u64) {
        let numbers: Vec<u64> = self.keys.keys().copied().collect();
        let found = contains(&numbers.iter().map(|number| key(*number)).collect::<Vec<_>>());
        let (mut wrong, mut gone) = (0, 0);
        for (number, found) in numbers.iter().zip(found) {
            let promise = self.keys[number];
            assert!(found || promise.until <= now, "key {number}, {promise:?}, is absent at {now}");
            if promise.gone <= now {
                gone += 1;
                wrong += u64::from(found);
            }
        }
        (wrong, gone)
    }
}

/// Returns how many inserts and lookups there were.
fn run(rate: f64, within: u64, refresh: bool, steps: u64) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let clock = Clock::new();
    let options =
        clock.options().false_positive_rate(rate).forget_within(Duration::from_secs(within * DAY)).threads(2);
    let options = options.refresh(refresh).clock_is_right(true);
    let mut writer = options.create(&path).unwrap();
    let epoch = writer.info().unwrap().retention.unwrap().forget_within.div_ceil(1000);
    let mut model = Model { keys: BTreeMap::new(), within: within.max(epoch.div_ceil(DAY)), refresh };
    let mut committed = (BTreeMap::new(), clock.now());
    let (mut random, mut next) = (Random(thorough::seed(within << 8 | u64::from(refresh))), 0);
    let (mut wrong, mut gone, mut most_wrong, mut operations) = (0, 0, 0.0, 0);
    for step in 0..steps {
        let recent =
            |random: &mut Random, next: u64| next.saturating_sub(1 + random.below(30_000.min(next.max(1))));
        match random.below(12) {
            0..3 => {
                // At the time of the clock, in one batch; and one single key.
                let numbers: Vec<u64> = (0..2000)
                    .map(|_| {
                        next += 1;
                        if random.below(3) == 0 { recent(&mut random, next) } else { next }
                    })
                    .collect();
                let keys: Vec<_> = numbers.iter().map(|number| key(*number)).collect();
                let inserted = writer.insert_batch(&keys).unwrap();
                for (index, number) in numbers.iter().enumerate() {
                    model.seen(*number, clock.now(), inserted.is_new(index));
                }
                next += 1;
                model.seen(next, clock.now(), writer.insert(key(next)).unwrap());
                // A key that was just inserted is now known.
                assert!(!writer.insert(key(next)).unwrap());
                operations += 2002;
            }
            3..6 => {
                // At their own times, some late, in any order.
                let filter = writer.info().unwrap().time.unwrap_or(0) / 1000;
                let seen: Vec<(u64, u64)> = (0..2000)
                    .map(|_| {
                        next += 1;
                        (next, (clock.now() - random.below(40 * DAY) * random.below(2)).max(1))
                    })
                    .collect();
                let keys: Vec<_> = seen.iter().map(|(number, _)| key(*number)).collect();
                let times: Vec<_> = seen.iter().map(|(_, time)| at(*time)).collect();
                let inserted = writer.insert_batch_at(&keys, &times).unwrap();
                operations += 2000;
                assert!(inserted.early.is_empty());
                for (index, (number, time)) in seen.iter().enumerate() {
                    let late = inserted.late.binary_search(&index).is_ok();
                    // Only keys that would already be forgotten are late.
                    assert!(!late || time + 30 * DAY <= clock.now(), "{time} at {}", clock.now());
                    assert!(!late || !inserted.inserted.is_new(index));
                    if !late {
                        model.seen(*number, *time, inserted.inserted.is_new(index));
                    }
                }
                assert!(writer.info().unwrap().time.unwrap() / 1000 >= filter);
            }
            6..8 => clock.set(clock.now() + random.below(4 * DAY)),
            8 => {
                writer.commit().unwrap();
                committed = (model.keys.clone(), clock.now());
            }
            9 if step % 3 == 0 => {
                writer.commit().unwrap();
                writer.close().unwrap();
                writer = options.open(&path).unwrap();
                committed = (model.keys.clone(), clock.now());
                clock.set(clock.now() + random.below(2) * random.below(model.within + 20) * DAY);
            }
            9 => {
                writer.rollback().unwrap();
                model.keys = committed.0.clone();
            }
            10 => _ = writer.sweep().unwrap(),
            _ if step % 10 == 0 && writer.info().unwrap().generation < 3 => writer.grow().unwrap(),
            _ => {
                let forgotten = writer.sweep().unwrap();
                let info = writer.info().unwrap();
                assert!(forgotten <= info.removed && info.copies <= info.entries, "{info:?}");
                let now = clock.now();
                let mut single = Vec::new();
                let found = model.check(now, |keys| {
                    single = keys.iter().map(|key| writer.contains(key).unwrap()).collect();
                    single.clone()
                });
                writer.commit().unwrap();
                committed = (model.keys.clone(), now);
                let reader = Reader::open(&path).unwrap();
                let batch = model.check(now, |keys| {
                    let batch = reader.contains_batch(keys).unwrap();
                    assert_eq!(batch, single);
                    for (key, found) in keys.iter().zip(&batch).step_by(7) {
                        assert_eq!(reader.contains(key).unwrap(), *found);
                        assert_eq!(reader.count(key).unwrap(), u32::from(*found));
                    }
                    batch
                });
                assert_eq!(found, batch);
                let report = reader.verify(&|_, _| {}).unwrap();
                assert!(report.is_clean(), "{report:?}");
                let copy = Reader::open_in_memory(&path).unwrap();
                assert_eq!(model.check(now, |keys| copy.contains_batch(keys).unwrap()), found);
                // By the writer, a reader and a copy in memory.
                operations += 3 * model.keys.len() as u64;
                (wrong, gone) = (wrong + found.0, gone + found.1);
                most_wrong += found.1 as f64 * info.expected_false_positive_rate;
                // Long expired keys would only slow the test down.
                model.keys.retain(|number, promise| promise.gone > now || number % 8 == 0);
            }
        }
    }
    assert!(gone > 10 * steps, "only {gone} keys were gone");
    // Twice the expected number, plus a margin for chance.
    assert!(
        (wrong as f64) < 2.0 * most_wrong + 12.0,
        "{wrong} of {gone} found after their time, expected {most_wrong}"
    );
    operations
}

#[test]
fn a_key_is_kept_as_long_as_promised_and_not_much_longer() {
    let steps = thorough::size("steps of forgetting", 250, 4_000);
    let mut operations = 0;
    for (rate, within) in OFFERS {
        for refresh in [false, true] {
            operations += run(rate, within, refresh, steps);
        }
    }
    eprintln!("inserts and lookups: {operations}");
    assert!(!thorough::is_asked_for() || operations > 100_000_000, "{operations}");
}

fn seen(writer: &mut Writer, number: u64, seconds: u64) -> Seen {
    writer.insert_at(key(number), at(seconds)).unwrap()
}

/// The entries that verification found, by the time in milliseconds at which they expire.
fn expiries(reader: &Reader) -> BTreeMap<u64, u64> {
    let report = reader.verify(&|_, _| {}).unwrap();
    assert!(report.is_clean(), "{report:?}");
    report.expiries.iter().map(|of| (of.at, of.entries)).collect()
}

#[test]
fn verification_tells_how_many_entries_expire_when() {
    let dir = tempfile::tempdir().unwrap();
    for (rate, days) in OFFERS {
        let (path, clock) = (dir.path().join(days.to_string() + &rate.to_string()), Clock::new());
        let mut writer = clock.options().false_positive_rate(rate).create(&path).unwrap();
        let epoch = writer.info().unwrap().retention.unwrap().forget_within;
        writer.commit().unwrap();
        let reader = Reader::open(&path).unwrap();
        assert_eq!(expiries(&reader), BTreeMap::new());
        let mut expected = BTreeMap::new();
        for day in 0..45 {
            for number in 0..100 + day {
                let seen = writer.insert_at(key(1000 * day + number), clock.time()).unwrap();
                if seen == Seen::New {
                    let at = (clock.now() * 1000 + 30 * DAY * 1000).div_ceil(epoch) * epoch;
                    *expected.entry(at).or_insert(0) += 1;
                }
            }
            writer.commit().unwrap();
            let info = reader.info().unwrap();
            let found = expiries(&reader);
            assert_eq!(found.values().sum::<u64>(), info.entries);
            let time = info.time.unwrap();
            let living = |of: &BTreeMap<u64, u64>| of.clone().split_off(&(time + 1));
            assert_eq!(living(&found), living(&expected), "rate {rate}, day {day}");
            // Entries that have expired now and were not swept yet.
            assert!(found.keys().all(|at| *at >= time), "{found:?} at {time}");
            clock.set(clock.now() + DAY);
        }
        assert!(expected.len() > 2);
        // A set has no expiries.
        let set = dir.path().join("set");
        let mut writer = Options::new().capacity(1000).open(&set).unwrap();
        writer.insert(b"key").unwrap();
        writer.commit().unwrap();
        assert_eq!(expiries(&Reader::open(&set).unwrap()), BTreeMap::new());
    }
}

#[test]
fn late_and_early_keys_are_told_and_leaps_and_clocks_that_go_back_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::new();
    let path = dir.path().join("f");
    let mut writer = clock.options().create(&path).unwrap();
    let now = clock.now();
    // Five minutes ahead is allowed. The filter has no time yet, so a key may be of any age.
    assert_eq!(seen(&mut writer, 1, now - 3000 * DAY), Seen::New);
    assert_eq!(seen(&mut writer, 2, now + 301), Seen::Early);
    assert!(!writer.contains(key(2)).unwrap());
    let leap = writer.insert_at(key(3), at(now)).unwrap_err();
    assert!(
        matches!(leap, Error::Clock { clock, filter, .. } if clock > filter)
            && leap.kind() == ErrorKind::Clock
    );
    let by_clock = writer.insert(key(3)).unwrap_err();
    assert!(matches!(by_clock, Error::Clock { .. }), "{by_clock}");
    assert!(writer.contains(key(1)).unwrap() && !writer.contains(key(3)).unwrap());
    let text = leap.to_string();
    assert!(
        text.contains("all keys would be forgotten") && text.contains("2024-") && text.contains("2016-"),
        "{text}"
    );
    writer.commit().unwrap();
    writer.close().unwrap();
    let mut writer = clock.options().clock_is_right(true).open(&path).unwrap();
    assert!(writer.insert(key(3)).unwrap());
    assert!(!writer.contains(key(1)).unwrap() && writer.contains(key(3)).unwrap());
    // The leap removed all entries.
    let info = writer.info().unwrap();
    assert_eq!((info.entries, info.removed, info.copies), (1, 1, 1));
    assert_eq!(seen(&mut writer, 4, now - 29 * DAY), Seen::New);
    assert_eq!(seen(&mut writer, 4, now - 29 * DAY), Seen::Known);
    assert_eq!(seen(&mut writer, 5, now - 46 * DAY), Seen::Late);
    assert_eq!(seen(&mut writer, 6, now + 299), Seen::New);
    writer.commit().unwrap();
    writer.close().unwrap();
    let mut writer = clock.options().open(&path).unwrap();
    // Going back some minutes is no error, going back a month is one, and the epoch does not change.
    let before = writer.info().unwrap().time;
    clock.set(now - 60);
    assert!(writer.insert(key(7)).unwrap());
    clock.set(now - 40 * DAY);
    let back = writer.insert_batch(&[key(8)]).unwrap_err();
    assert!(matches!(back, Error::Clock { clock, filter, .. } if clock < filter), "{back}");
    assert!(back.to_string().contains("never goes back"), "{back}");
    assert!(matches!(writer.sweep(), Err(Error::Clock { .. })));
    assert_eq!((writer.info().unwrap().time, writer.contains(key(8)).unwrap()), (before, false));
    writer.rollback().unwrap();
    drop(writer);
    let mut writer = clock.options().clock_is_right(true).open(&path).unwrap();
    assert!(writer.insert(key(8)).unwrap());
    assert_eq!(writer.info().unwrap().time, before);
    // A key stored under a clock that is behind lives from the filter's own time on.
    clock.set(before.unwrap() / 1000 + 30 * DAY - 1);
    assert!(!writer.insert(key(8)).unwrap());
    let times = writer.insert_batch_at(&[key(1)], &[]).unwrap_err();
    assert_eq!(times.kind(), ErrorKind::Invalid);
}

#[test]
fn a_reader_sees_an_epoch_with_its_commit_and_an_idle_filter_forgets_when_it_is_swept() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::new();
    let path = dir.path().join("f");
    let mut writer = clock.options().create(&path).unwrap();
    writer.insert_all((0..20_000).map(key)).unwrap().complete().unwrap();
    writer.commit().unwrap();
    let reader = Reader::open(&path).unwrap();
    let all: Vec<_> = (0..20_000).map(key).collect();
    let present =
        |reader: &Reader| reader.contains_batch(&all).unwrap().iter().filter(|found| **found).count();
    clock.set(clock.now() + 44 * DAY);
    writer.insert(key(20_000)).unwrap();
    assert!(!writer.contains(key(7)).unwrap());
    assert!(reader.contains(key(7)).unwrap() && !reader.contains(key(20_000)).unwrap());
    assert_eq!(present(&reader), 20_000);
    writer.commit().unwrap();
    assert!(!reader.contains(key(7)).unwrap() && reader.contains(key(20_000)).unwrap());
    assert!(present(&reader) < 100, "{}", present(&reader));
    // Nobody writes for two months; then a process sweeps.
    clock.set(clock.now() + 40 * DAY);
    assert!(reader.contains(key(20_000)).unwrap());
    assert_eq!(writer.sweep().unwrap(), 1);
    writer.commit().unwrap();
    assert!(!reader.contains(key(20_000)).unwrap());
    let info = reader.info().unwrap();
    assert_eq!((info.entries, info.copies, info.kind), (0, 0, Kind::Forgetting));
    assert_eq!(info.retention.unwrap().to_string(), "forgets keys 30 to 45 days after they were first seen");
    // Without changes, `commit` makes no commit.
    writer.commit().unwrap();
    assert_eq!(reader.info().unwrap().commit, info.commit);
    writer.close().unwrap();
    let sealed = Options::new().sealed(true).read(&path).unwrap();
    assert!(!sealed.contains(key(20_000)).unwrap());
}

#[test]
fn a_stream_that_forgets_as_fast_as_it_learns_keeps_its_size() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::new();
    let path = dir.path().join("f");
    let mut writer = clock.options().capacity(120_000).create(&path).unwrap();
    let mut sizes = Vec::new();
    for day in 0..150 {
        clock.set(clock.now() + DAY);
        writer.insert_all((day * 2000..(day + 1) * 2000).map(key)).unwrap().complete().unwrap();
        writer.commit().unwrap();
        sizes.push(path.metadata().unwrap().len());
        let info = writer.info().unwrap();
        assert!(info.copies <= 2000 * 62 && info.load < 0.95, "day {day}: {info}");
    }
    assert_eq!(sizes.iter().min(), sizes.iter().max());
    assert_eq!(writer.info().unwrap().inserted - writer.info().unwrap().removed, writer.len().unwrap());
}

#[test]
fn what_a_forgetting_filter_cannot_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::new();
    let path = |name: &str| dir.path().join(name);
    let mut writer = clock.options().create(path("f")).unwrap();
    writer.insert(key(1)).unwrap();
    writer.grow().unwrap();
    writer.commit().unwrap();
    let reader = Reader::open(path("f")).unwrap();
    let refused = |outcome: gowk::Result<()>, op: &str| {
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Kind { found: Kind::Forgetting, .. }), "{op}: {error}");
        assert!(error.to_string().contains(op), "{error}");
    };
    refused(writer.remove(key(1)).map(drop), "removing keys");
    refused(writer.remove_batch(&[key(1)]).map(drop), "removing keys");
    let mut set = Options::new().create(path("set")).unwrap();
    assert!(matches!(set.merge(&reader), Err(Error::Unlike { .. })));
    let at_a_time = set.insert_at(key(1), clock.time()).unwrap_err();
    assert!(matches!(at_a_time, Error::Kind { wanted: Kind::Forgetting, .. }), "{at_a_time}");
    assert!(matches!(set.sweep(), Err(Error::Kind { .. })));
    // Copies equal the filter.
    reader.copy_to(path("copy"), &|_, _| {}).unwrap();
    assert!(Reader::open(path("copy")).unwrap().contains(key(1)).unwrap());
    assert_eq!(Reader::open(path("copy")).unwrap().info().unwrap().time, reader.info().unwrap().time);
    writer.commit().unwrap();
    assert!(writer.contains(key(1)).unwrap() && writer.info().unwrap().generation == 1);
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let month = Duration::from_secs(30 * DAY);
    let path = dir.path().join("f");
    let options = || Options::new().forget_after(month).forget_within(month / 6).false_positive_rate(0.002);
    let plan = options().plan().unwrap();
    assert_eq!(plan.retention.unwrap().to_string(), "forgets keys 30 to 35 days after they were first seen");
    assert_eq!((plan.slots_per_bucket.get(), plan.kind), (4, Kind::Forgetting));
    let plan = options().forget_within(month / 13).refresh(true).plan().unwrap();
    assert_eq!(plan.retention.unwrap().to_string(), "forgets keys 30 to 32.2 days after they were last seen");
    assert_eq!(plan.slots_per_bucket.get(), 3);
    let refused = |options: Options, told: &str| {
        let error = options.create(dir.path().join("no")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().starts_with(told), "{error}");
    };
    refused(options().forget_within(month / 15), "forget within is 172800 s");
    refused(options().forget_after(Duration::ZERO), "forget after is 0 ms");
    refused(options().forget_after(Duration::MAX), "forget");
    refused(options().false_positive_rate(1e-8), "false-positive rate is 0.00000001");
    let five = Options::new().slots_per_bucket(gowk::SlotsPerBucket::Five);
    refused(five.forget_after(month), "slots per bucket is 5");
    refused(options().counting(), "forget after is given for a counting");
    refused(Options::new().counting().forget_after(month), "forget after is given for a counting");
    refused(Options::new().kind(Kind::Forgetting), "kind is forgetting");
    refused(Options::new().forget_within(month), "forget within is 2592000s");
    refused(Options::new().refresh(true), "refresh is true");
    let mut writer = options().create(&path).unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    for fits in [Options::new(), options(), options().forget_within(month), options().refresh(false)] {
        fits.open(&path).unwrap();
    }
    for (other, kind) in [
        (options().forget_after(month * 2), ErrorKind::Invalid),
        (options().forget_within(month / 13), ErrorKind::Invalid),
        (options().refresh(true), ErrorKind::Invalid),
        (Options::new().counting(), ErrorKind::Kind),
        (Options::new().kind(Kind::Set), ErrorKind::Kind),
    ] {
        let error = other.open(&path).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    assert!(Options::new().open(dir.path().join("set")).unwrap().commit().is_ok());
    assert_eq!(options().open(dir.path().join("set")).unwrap_err().kind(), ErrorKind::Kind);
    let like = Options::like(&Reader::open(&path).unwrap()).unwrap();
    let like = like.create(dir.path().join("like")).unwrap().info().unwrap();
    let info = Reader::open(&path).unwrap().info().unwrap();
    assert_eq!((like.retention, like.slots, like.entries_by_tail.len()), (info.retention, info.slots, 8));
}

/// A byte of the epoch by which lookups judge is flipped in the live area: no key becomes absent.
#[test]
fn a_damaged_epoch_in_the_live_area_hides_no_key() {
    use std::os::unix::fs::FileExt;
    const NOW: u64 = 131_072 + 32;
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::new();
    let path = dir.path().join("f");
    let mut writer = clock.options().create(&path).unwrap();
    writer.insert_all((0..1000).map(key)).unwrap().complete().unwrap();
    writer.commit().unwrap();
    let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let mut word = [0; 8];
    file.read_exact_at(&mut word, NOW).unwrap();
    let epoch = u32::from_le_bytes(word[..4].try_into().unwrap());
    assert_eq!(u32::from_le_bytes(word[4..].try_into().unwrap()), !epoch);
    let all_present = |path: &Path| {
        let reader = Reader::open(path).unwrap();
        let keys: Vec<_> = (0..1000).map(key).collect();
        assert!(reader.contains_batch(&keys).unwrap().iter().all(|found| *found));
        assert!(keys.iter().all(|key| reader.contains(key).unwrap()));
    };
    // While a writer has the file: an error, and never "absent".
    let reader = Reader::open(&path).unwrap();
    for at in 0..8 {
        let mut damaged = word;
        damaged[at] ^= 2;
        file.write_all_at(&damaged, NOW).unwrap();
        assert!(matches!(reader.contains(key(5)), Err(Error::Field { .. })));
        assert!(reader.contains_batch(&[key(5)]).is_err());
    }
    file.write_all_at(&word, NOW).unwrap();
    assert!(reader.contains(key(5)).unwrap());
    drop(reader);
    writer.close().unwrap();
    // In a closed file: also with a valid complement, so that only the superblock contradicts.
    let other = epoch.wrapping_add(3);
    for damaged in [u64::from(other) | u64::from(!other) << 32, 0, u64::from(epoch)] {
        file.write_all_at(&damaged.to_le_bytes(), NOW).unwrap();
        all_present(&path);
        // A power cut can leave this state, and nothing is lost.
        assert!(Reader::open(&path).unwrap().verify(&|_, _| {}).unwrap().is_clean());
    }
    Writer::open(&path).unwrap().close().unwrap();
    file.read_exact_at(&mut word, NOW).unwrap();
    assert_eq!(u32::from_le_bytes(word[..4].try_into().unwrap()), epoch);
    assert!(Reader::open(&path).unwrap().verify(&|_, _| {}).unwrap().is_clean());
    all_present(&path);
}

/// A sweep meets damage: commits continue, the next epoch cannot come before a repair, and after it no key is missing.
#[test]
fn a_damaged_page_stops_the_sweep_and_is_repaired() {
    use std::os::unix::fs::FileExt;
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::new();
    let path = dir.path().join("f");
    let mut writer = clock.options().create(&path).unwrap();
    writer.insert_all((0..40_000).map(key)).unwrap().complete().unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    let length = path.metadata().unwrap().len();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[0x55; 64], length - 4096 * 3).unwrap();
    clock.set(clock.now() + 10 * DAY);
    let mut writer = clock.options().open(&path).unwrap();
    let inserted = (40_000..41_000).filter(|number| writer.insert(key(*number)).is_ok()).count();
    assert!((800..=1000).contains(&inserted), "{inserted}");
    writer.commit().unwrap();
    clock.set(clock.now() + 20 * DAY);
    let error = (41_000..41_100).find_map(|number| writer.insert(key(number)).err()).unwrap();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    assert_eq!(writer.repair(&|_, _| {}).unwrap().quarantined.len(), 1);
    // 30 days after the first keys, within the additional half for which they may stay.
    clock.set(clock.now() + DAY);
    writer.insert_all((41_000..41_100).map(key)).unwrap().complete().unwrap();
    writer.commit().unwrap();
    let reader = Reader::open(&path).unwrap();
    assert!(reader.verify(&|_, _| {}).unwrap().is_clean());
    assert!((41_000..41_100).all(|number| reader.contains(key(number)).unwrap()));
    clock.set(clock.now() + 60 * DAY);
    let mut right = {
        drop(writer);
        clock.options().clock_is_right(true).open(&path).unwrap()
    };
    right.sweep().unwrap();
    assert!(right.info().unwrap().quarantined_buckets == 512 && right.info().unwrap().entries == 0);
}
