//! Stores that forget, against a model with a clock. The slots are so wide that no false positives are expected.
//!
//! Invariants checked:
//!
//! 1. A key is present exactly until the epoch in which it expires, in every version, by single lookups and by batches,
//!    whatever was committed, rewritten, folded, merged and vacuumed, and however far the time advanced.
//! 2. A key is new exactly if it is absent at its time, even if another commit came in between.
//! 3. A fold keeps each key as long as its record says, even if it matches the entry of another key.
//! 4. A retry is judged by the time of the first attempt.
//! 5. Expired keys take no room once their shard is rewritten, and no run keeps them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gowk::store::{Committed, Error, Store, Token, Update, Vacuum, Version};
use gowk::{Batches, Error as FilterError, Lookup, Options, Reader, Seen, SlotsPerBucket, Writer};

use crate::images::{Random, is_tidy};
use crate::{Key, keys, place, quiet, store, thorough};

const DAY: u64 = 86_400;
const FIRST: u64 = 20_003;
const AFTER: u64 = 28;
/// The length of an epoch, in days: with 4 expiry bits, a fourteenth.
const EPOCH: u64 = 2;

fn on(day: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(day * DAY + 12_345)
}

/// The epoch in which a key of a day expires.
fn expiry(day: u64) -> u64 {
    (day * DAY + 12_345 + AFTER * DAY).div_ceil(EPOCH * DAY)
}

fn options(refresh: bool) -> Options {
    Options::new()
        .capacity(1000)
        .seed(3)
        .slots_per_bucket(SlotsPerBucket::Two)
        .forget_after(Duration::from_secs(AFTER * DAY))
        .refresh(refresh)
        .clock_is_right(true)
        .with_clock(|| on(FIRST + 100_000))
}

/// A clock that shows the day set by the test.
fn by(day: &Arc<AtomicU64>) -> impl Fn() -> SystemTime + Send + Sync + 'static {
    let day = day.clone();
    move || on(day.load(Ordering::Relaxed))
}

/// The epoch in which each key expires, and the epoch of the store.
#[derive(Clone, Default)]
struct Model {
    keys: HashMap<u64, u64>,
    now: u64,
}

impl Model {
    fn has(&self, key: u64) -> bool {
        self.keys.get(&key).is_some_and(|expiry| *expiry > self.now)
    }

    /// Whether a key that is seen on this day is new; `None` if it is late.
    fn insert(&mut self, key: u64, day: u64, refresh: bool) -> Option<bool> {
        self.now = self.now.max(day / EPOCH);
        if expiry(day) <= self.now {
            return None;
        }
        let is_new = !self.has(key);
        if is_new || refresh {
            let last = self.keys.entry(key).or_default();
            *last = expiry(day).max(*last);
        }
        Some(is_new)
    }

    /// The present keys, by the time at which they expire.
    fn by_time(&self) -> BTreeMap<u64, u64> {
        let mut by_time = BTreeMap::new();
        for expiry in self.keys.values().filter(|expiry| **expiry > self.now) {
            *by_time.entry(expiry * EPOCH * DAY * 1000).or_default() += 1;
        }
        by_time
    }

    fn check(&self, store: &Store, version: &Version, asked: u64) {
        let reader = store.read_version(version.clone());
        let all = keys(0..asked);
        let found = reader.contains_batch(&all).unwrap();
        for (number, (key, found)) in (0..).zip(all.iter().zip(found)) {
            let told = (number, self.keys.get(&number), self.now, version.number);
            assert_eq!(found, self.has(number), "{told:?}");
            if number % 7 == 0 {
                assert_eq!(reader.contains(key).unwrap(), self.has(number), "{told:?}");
                assert_eq!(reader.count(key).unwrap(), u32::from(self.has(number)), "{told:?}");
            }
        }
        if self.now > 1 {
            assert_eq!(reader.info().store_time, Some(self.now * EPOCH * DAY * 1000));
        }
    }
}

/// The unexpired entries and records, as verification reports them.
fn living(store: &Store) -> BTreeMap<u64, u64> {
    let reader = store.read().unwrap();
    let (now, mut living) = (reader.info().store_time.unwrap_or(0), BTreeMap::new());
    for (_, report) in reader.verify(&|_, _| {}).unwrap() {
        for of in report.unwrap().expiries.into_iter().filter(|of| of.at > now) {
            *living.entry(of.at).or_default() += of.entries;
        }
    }
    living
}

/// Inserts keys, each on its day, and compares the answers with the model's.
fn insert(update: &mut Update, model: &mut Model, seen: &[(u64, u64)], refresh: bool) {
    let all: Vec<Key> = seen.iter().map(|(key, _)| key.to_le_bytes()).collect();
    let times: Vec<SystemTime> = seen.iter().map(|(_, day)| on(*day)).collect();
    let told = update.insert_batch_at(&all, &times).unwrap();
    assert!(told.inserted.refused().is_empty() && told.early.is_empty());
    for (at, (key, day)) in seen.iter().enumerate() {
        match model.insert(*key, *day, refresh) {
            None => assert!(told.late.contains(&at), "{key} on day {day}"),
            Some(is_new) => assert_eq!(told.inserted.is_new(at), is_new, "{key} on day {day}"),
        }
    }
}

fn commit(update: Update) -> Option<Version> {
    match update.commit("insert", None).unwrap() {
        Committed::New(version) => Some(version),
        _ => None,
    }
}

fn below(random: &mut Random, end: u64) -> u64 {
    random.below(end as usize) as u64
}

/// Keys of some days up to today, most of them of the last days.
fn some(random: &mut Random, today: u64, count: u64, asked: u64) -> Vec<(u64, u64)> {
    let mut some: Vec<_> = (0..count)
        .map(|_| {
            let back = if below(random, 4) == 0 { below(random, AFTER + 4) } else { 0 };
            (below(random, asked), today - back.min(today - FIRST))
        })
        .collect();
    if random.below(2) == 0 {
        some.sort_by_key(|(_, day)| *day);
    }
    some
}

#[test]
fn a_store_answers_as_a_model_with_a_clock_does() {
    const ASKED: u64 = 30_000;
    let steps = thorough::size("steps of a forgetting store", 60, 400);
    for refresh in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(AtomicU64::new(FIRST));
        let store = store(&dir, 3, &options(refresh).with_clock(by(&clock)));
        let mut random = Random(thorough::seed(if refresh { 7 } else { 11 }));
        let (mut model, mut day) = (Model { now: 1, ..Model::default() }, FIRST);
        let mut old: Option<(Version, Model)> = None;
        for step in 0..steps {
            day += [0, 1, 1, 2, 3][random.below(5)] + if random.below(25) == 0 { 40 } else { 0 };
            clock.store(day + 4, Ordering::Relaxed);
            match random.below(8) {
                0 => drop(store.compact(random.below(2) == 0, &quiet).unwrap()),
                1 => {
                    let mut update = store.update().unwrap().rewriting();
                    insert(&mut update, &mut model, &some(&mut random, day, 2000, ASKED), refresh);
                    commit(update);
                }
                2 => {
                    // Dropped: nobody sees it.
                    let mut update = store.update().unwrap();
                    insert(&mut update, &mut model.clone(), &some(&mut random, day + 3, 500, ASKED), refresh);
                }
                3 => {
                    store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
                    is_tidy(&store).unwrap();
                    old = None;
                }
                4 => two(&store, &mut model, &mut random, (day, &clock), refresh),
                _ => {
                    let count = [10, 300, 3000, 12_000][random.below(4)];
                    let mut update = store.update().unwrap();
                    for seen in some(&mut random, day, count, ASKED).chunks(4000) {
                        insert(&mut update, &mut model, seen, refresh);
                    }
                    commit(update);
                }
            }
            let newest = store.newest().unwrap();
            // An update without new keys has not advanced the time either; a compaction advances it to the clock's.
            model.now = store.read().unwrap().info().store_time.map_or(1, |time| time / (EPOCH * DAY * 1000));
            day = day.max(model.now * EPOCH);
            model.check(&store, &newest, ASKED + 1000);
            if !refresh {
                assert_eq!(living(&store), model.by_time());
            }
            if let Some((version, model)) = &old {
                model.check(&store, version, ASKED);
            }
            if step % 6 == 0 {
                old = Some((newest, model.clone()));
            }
        }
    }
}

/// Two updates of one version, of which the second is judged again.
fn two(
    store: &Store,
    model: &mut Model,
    random: &mut Random,
    (day, clock): (u64, &AtomicU64),
    refresh: bool,
) {
    let before = model.clone();
    let [mut first, mut second] = [store.update().unwrap(), store.update().unwrap()];
    let mut late = before.clone();
    let days = [day + below(random, 3), day + below(random, 3)];
    insert(&mut first, model, &some(random, days[0], 400, 3000), refresh);
    let seen = some(random, days[1], 400, 3000);
    let all: Vec<Key> = seen.iter().map(|(key, _)| key.to_le_bytes()).collect();
    let times: Vec<SystemTime> = seen.iter().map(|(_, day)| on(*day)).collect();
    let told = second.insert_batch_at(&all, &times).unwrap();
    commit(first);
    if random.below(2) == 0 {
        clock.fetch_add(10, Ordering::Relaxed);
        store.compact(true, &quiet).unwrap();
    }
    let (_, rejudged) = second.commit_rebased("insert", None, &quiet).unwrap();
    let mut came = HashMap::new();
    for (at, (key, day)) in seen.iter().enumerate() {
        let Some(is_new) = late.insert(*key, *day, refresh) else {
            assert!(told.late.contains(&at));
            continue;
        };
        assert_eq!(told.inserted.is_new(at), is_new);
        // It may have expired since it came for the first time.
        came.entry(*key).and_modify(|(new, _)| *new |= is_new).or_insert((is_new, at));
    }
    // Both updates have advanced to the latest of the times.
    model.now = late.now.max(store.read().unwrap().info().store_time.unwrap_or(0) / (EPOCH * DAY * 1000));
    for (key, (was_new, at)) in came {
        let is_known = model.has(key);
        let is_rejudged = rejudged.has(store.hash(all[at]).unwrap());
        // Also a key that was refreshed, and would have expired by the latest of the times.
        let (old, own) = (before.keys.get(&key).copied().unwrap_or(0), late.keys[&key]);
        let was_lapsing = refresh && own > old && old <= late.now;
        assert_eq!(is_rejudged, (was_new || was_lapsing) && is_known, "{key}");
        if (was_new && !is_known) || refresh {
            let last = model.keys.entry(key).or_default();
            *last = late.keys[&key].max(*last);
        }
    }
}

/// In narrow filters, many keys of one bucket share tags: an entry of one key answers for another.
#[test]
fn a_fold_keeps_a_key_that_matches_an_entry_which_expires_before() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new()
        .capacity(1000)
        .seed(3)
        .slots_per_bucket(SlotsPerBucket::Four)
        .forget_after(Duration::from_secs(AFTER * DAY))
        .clock_is_right(true)
        .with_clock(|| on(FIRST + 100_000));
    let store = store(&dir, 2, &options);
    let mut update = store.update().unwrap().rewriting();
    let all = keys(0..30_000);
    update.insert_batch_at(&all, &vec![on(FIRST); all.len()]).unwrap().inserted.complete().unwrap();
    commit(update);
    // One commit has keys of one day; a later one has keys of another day, many of which match an entry of the first.
    let (mut new, step) = (Vec::new(), AFTER / 2 - 1);
    for round in 1..=4 {
        let more = keys(100_000 * round..100_000 * round + 7000);
        let mut update = store.update().unwrap();
        let told = update.insert_batch_at(&more, &vec![on(FIRST + round * step); more.len()]).unwrap();
        new.extend((0..more.len()).filter(|at| told.inserted.is_new(*at)).map(|at| (more[at], round)));
        commit(update);
    }
    let folding = store.clone();
    let newest = folding.newest().unwrap();
    let sealed: Vec<_> = folding
        .to_fold(&newest, true)
        .unwrap()
        .into_iter()
        .filter_map(|shard| folding.fold_shard(&newest, shard, None).unwrap())
        .collect();
    folding.commit_folds(&sealed).unwrap();
    let reader = folding.read().unwrap();
    assert_eq!(reader.info().pending, 0);
    let now = reader.info().store_time.unwrap() / 1000 / DAY;
    let mut there = 0;
    for (key, round) in new {
        if FIRST + round * step + AFTER > now {
            there += 1;
            assert!(reader.contains(key).unwrap(), "a key of round {round}");
        }
    }
    assert!(there > 10_000, "{there}");
}

#[test]
fn a_store_that_was_idle_longer_than_its_window_takes_keys_and_a_leap_of_a_year_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let day = Arc::new(AtomicU64::new(FIRST));
    let options = options(false).clock_is_right(false).with_clock(by(&day));
    let store = store(&dir, 2, &options);
    let insert = || {
        let mut update = store.update().unwrap();
        let new = update.insert_batch(&keys(0..10));
        new.map(|new| (new.mask(), commit(update).is_some()))
    };
    assert_eq!(insert().unwrap(), (vec![true; 10], true));
    day.fetch_add(10 * AFTER, Ordering::Relaxed);
    assert_eq!(insert().unwrap(), (vec![true; 10], true));
    assert_eq!(insert().unwrap(), (vec![false; 10], false));
    day.fetch_add(400, Ordering::Relaxed);
    let error = insert().unwrap_err().to_string();
    assert!(error.contains("more than a year after"), "{error}");
    let error = store.compact(true, &quiet).unwrap_err().to_string();
    assert!(error.contains("more than a year after"), "{error}");
}

#[test]
fn a_retry_is_judged_by_the_time_of_the_first_attempt() {
    let dir = tempfile::tempdir().unwrap();
    let day = Arc::new(AtomicU64::new(FIRST));
    let options = options(false).clock_is_right(false).with_clock(by(&day));
    let store = store(&dir, 2, &options);
    let insert = |number: u64, keys: &[Key]| {
        let mut update = store.update_of(store.before("a", number).unwrap());
        let told = update.insert_batch(keys).unwrap();
        (told.mask(), update.commit("insert", Some(Token::new("a", number))).unwrap())
    };
    insert(1, &keys(0..10));
    day.store(FIRST + AFTER - 5, Ordering::Relaxed);
    let (first, committed) = insert(2, &keys(5..15));
    assert!(matches!(committed, Committed::New(_)));
    assert_eq!(first, [[false; 5], [true; 5]].concat());
    day.store(FIRST + AFTER + 4, Ordering::Relaxed);
    let (again, committed) = insert(2, &keys(5..15));
    assert!(matches!(committed, Committed::Already(_)));
    assert_eq!(again, first);
    // The next attempt has its own time.
    let (next, _) = insert(3, &keys(0..15));
    assert_eq!(next, [[true; 10].as_slice(), &[false; 5]].concat());
}

/// A key that another commit inserted and that has expired by this commit's time is new, and not in conflict.
#[test]
fn a_commit_is_judged_by_its_own_time() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 2, &options(false));
    let [mut first, mut second] = [store.update().unwrap(), store.update().unwrap()];
    assert_eq!(first.insert_at(b"key", on(FIRST)).unwrap(), Seen::New);
    assert_eq!(second.insert_at(b"key", on(FIRST + AFTER + EPOCH)).unwrap(), Seen::New);
    commit(first);
    commit(second).unwrap();
    // If it has not expired, it is in conflict.
    let [mut first, mut second] = [store.update().unwrap(), store.update().unwrap()];
    assert_eq!(first.insert_at(b"other", on(FIRST + AFTER + EPOCH)).unwrap(), Seen::New);
    assert_eq!(second.insert_at(b"other", on(FIRST + 2 * AFTER)).unwrap(), Seen::New);
    commit(first);
    assert!(matches!(second.commit("insert", None), Err(Error::Conflict { keys: 1, .. })));
}

#[test]
fn a_clock_that_leaps_or_goes_back_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let day = Arc::new(AtomicU64::new(FIRST));
    let options = options(false).clock_is_right(false).with_clock(by(&day));
    let store = store(&dir, 2, &options);
    let insert = |key| store.update().unwrap().insert_batch(&keys(key..key + 1)).map(drop);
    let mut update = store.update().unwrap();
    update.insert_batch(&keys(0..1)).unwrap().complete().unwrap();
    // Nothing was published yet, but its key could already be forgotten.
    day.store(FIRST + 400, Ordering::Relaxed);
    let leapt = update.insert_batch(&keys(1..2)).map(drop);
    assert!(matches!(leapt, Err(Error::Filter(FilterError::Clock { .. }))));
    commit(update);
    for wrong in [FIRST + 400, FIRST - 3] {
        day.store(wrong, Ordering::Relaxed);
        let refused = |outcome| matches!(outcome, Err(Error::Filter(FilterError::Clock { .. })));
        assert!(refused(insert(1)), "day {wrong}");
        assert!(refused(store.compact(true, &quiet).map(drop)), "day {wrong}");
    }
    day.store(FIRST + 1, Ordering::Relaxed);
    let mut update = store.update().unwrap();
    let seen = |update: &mut Update, day| update.insert_at(b"x", on(day)).unwrap();
    assert_eq!(seen(&mut update, FIRST + 3), Seen::Early);
    assert_eq!(seen(&mut update, FIRST - AFTER - 2), Seen::Late);
    assert_eq!(seen(&mut update, FIRST - 7), Seen::New);
    assert_eq!(seen(&mut update, FIRST), Seen::Known);
    insert(1).unwrap();
    assert_eq!(store.log().unwrap().len(), 2, "nothing was published");
}

#[test]
fn a_shard_that_holds_nothing_is_not_written_anew_when_it_is_old() {
    let dir = tempfile::tempdir().unwrap();
    let day = Arc::new(AtomicU64::new(FIRST));
    let store = store(&dir, 2, &options(false).with_clock(by(&day)));
    let mut update = store.update().unwrap();
    update.insert_batch(&keys(0..100)).unwrap().complete().unwrap();
    commit(update);
    for (later, folded) in [(0, 2), (AFTER + 4, 2), (AFTER + 4, 0), (AFTER + 4, 0)] {
        day.fetch_add(later, Ordering::Relaxed);
        for all in [true, false] {
            let told = store.compact(all, &quiet).unwrap();
            assert_eq!(told.folded, if all { folded } else { 0 });
        }
    }
}

#[test]
fn a_stream_that_forgets_as_fast_as_it_learns_keeps_its_size() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 2, &options(false));
    let mut sizes = Vec::new();
    for day in 0..140 {
        let mut update = store.update().unwrap();
        let all = keys(day * 1_000..(day + 1) * 1_000);
        update.insert_batch_at(&all, &vec![on(FIRST + day); all.len()]).unwrap().inserted.complete().unwrap();
        commit(update);
        store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
        let info = store.read().unwrap().info();
        // Up to 8192 records are pending for a shard, and each of them takes 12 bytes.
        assert!(info.pending <= 3 * 8192 && info.run_bytes < 500_000, "{info:?}");
        sizes.push(info.bytes - info.run_bytes);
    }
    let most = |days: std::ops::Range<usize>| sizes[days].iter().max().copied().unwrap();
    assert_eq!(most(90..140), most(40..90), "{sizes:?}");
    let reader = store.read().unwrap();
    let there =
        reader.contains_batch(&keys(0..140_000)).unwrap().iter().filter(|found| **found).count() as u64;
    assert!((AFTER * 1000..=(AFTER + EPOCH) * 1000).contains(&there), "{there}");
    // Without keys, nothing is forgotten until the store is compacted. Then it is empty.
    assert_eq!(reader.info().store_time, Some((FIRST + 139) / EPOCH * EPOCH * DAY * 1000));
    let told = store.compact(true, &quiet).unwrap();
    assert!(told.version.is_some() && told.folded > 0, "{told:?}");
    let info = store.read().unwrap().info();
    assert_eq!((info.entries, info.runs), (0, 0), "{info:?}");
}

#[test]
fn a_forgetting_filter_becomes_a_store_and_comes_back_with_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let mut model = Model { now: 1, ..Model::default() };
    let mut writer: Writer = options(true).create(path("f")).unwrap();
    for day in 0..20_u64 {
        for key in day * 300..day * 300 + 900 {
            let seen = writer.insert_at(key.to_le_bytes(), on(FIRST + day)).unwrap();
            let is_new = model.insert(key, FIRST + day, true).unwrap();
            assert_eq!(seen, if is_new { Seen::New } else { Seen::Known });
        }
    }
    writer.commit().unwrap();
    writer.close().unwrap();
    let filter = Reader::open(path("f")).unwrap();
    let made = Store::create_from(place(&dir), 4, &filter, &options(true), &quiet).unwrap();
    assert_eq!(made.description().retention, filter.info().unwrap().retention);
    model.check(&made, &made.newest().unwrap(), 8000);
    let clock = Arc::new(AtomicU64::new(FIRST + 60));
    let store = Store::open_with(place(&dir), &options(true).with_clock(by(&clock))).unwrap();
    let joins = |model: &Model| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("joined");
        store.read().unwrap().join_to(&path, &quiet).unwrap();
        let reader = Reader::open(&path).unwrap();
        assert_eq!(reader.info().unwrap().time, Some(model.now * EPOCH * DAY * 1000));
        for (number, key) in (0..).zip(keys(0..10_000)) {
            assert_eq!(reader.contains(key).unwrap(), model.has(number), "{number} in epoch {}", model.now);
        }
    };
    for day in [25, 31, 40_u64] {
        let mut update = store.update().unwrap();
        let some: Vec<(u64, u64)> = (day * 200..day * 200 + 50).map(|key| (key, FIRST + day)).collect();
        insert(&mut update, &mut model, &some, true);
        commit(update);
        model.check(&store, &store.newest().unwrap(), 10_000);
        joins(&model);
    }
    // Nothing is pending, and the store advances beyond the time of its files.
    for (day, all, folded) in [(41, true, 4), (46, false, 0), (46, true, 4), (46, true, 0), (100, false, 4)] {
        clock.store(FIRST + day, Ordering::Relaxed);
        assert_eq!(store.compact(all, &quiet).unwrap().folded, folded, "day {day}");
        model.now = (FIRST + day) / EPOCH;
        model.check(&store, &store.newest().unwrap(), 10_000);
        joins(&model);
    }
    assert_eq!(store.read().unwrap().info().entries, 0);
    // Another way to forget is refused.
    for other in [options(false), options(true).forget_after(Duration::from_secs(DAY))] {
        let opened = Store::open_with(place(&dir), &other);
        assert!(matches!(opened, Err(Error::Filter(FilterError::Retention { .. }))), "{opened:?}");
    }
}

#[test]
fn a_batch_that_is_divided_is_judged_by_one_time() {
    let dir = tempfile::tempdir().unwrap();
    let day = Arc::new(AtomicU64::new(FIRST));
    // Without `clock_is_right`.
    let options = options(false).clock_is_right(false).with_clock(by(&day));
    let store = store(&dir, 2, &options);
    let time = |store: &Store| store.update_time(&store.newest().unwrap());
    assert_eq!(time(&store).unwrap(), Some(on(FIRST)));
    let mut update = store.update().unwrap();
    let _ = update.insert_batch(&keys(0..10)).unwrap();
    update.commit("insert", Some(Token::new("app", 1))).unwrap();
    // The version has not reached the epoch in which its keys expire, but the clock has.
    day.store(FIRST + 30, Ordering::Relaxed);
    let now = time(&store).unwrap().unwrap();
    assert_eq!(now, on(FIRST + 30));
    let reader = store.read().unwrap();
    assert!(reader.contains_batch(&keys(0..10)).unwrap().iter().all(|found| *found));
    let later = reader.at_time(now);
    assert!(!later.contains_batch(&keys(0..10)).unwrap().iter().any(|found| *found));
    assert!(reader.at_time(on(FIRST - 10)).contains(keys(3..4)[0]).unwrap(), "the time never goes back");
    let mut update = store.update().unwrap();
    assert_eq!(update.insert_batch_at(&keys(0..10), &[now; 10]).unwrap().inserted.new_keys(), 10);
    update.commit("insert", Some(Token::new("app", 2))).unwrap();
    // A retry is judged by the time of the first attempt, whatever the clock says.
    for wrong in [FIRST + 34, FIRST + 1000, FIRST - 100] {
        day.store(wrong, Ordering::Relaxed);
        let before = store.before("app", 2).unwrap();
        let then = store.update_time(&before).unwrap().unwrap();
        let (epoch, second) =
            (EPOCH * DAY, |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap().as_secs());
        assert_eq!(second(then), second(now) / epoch * epoch);
        assert!(!store.read_version(before).at_time(then).contains(keys(3..4)[0]).unwrap());
    }
    // Clocks that leap or go back.
    for wrong in [FIRST + 1000, FIRST - 1] {
        day.store(wrong, Ordering::Relaxed);
        let error = time(&store).unwrap_err();
        assert!(matches!(error, Error::Filter(FilterError::Clock { .. })), "{error}");
    }
    let set = Store::create(dir.path().join("set"), 2, &Options::new()).unwrap();
    assert_eq!(time(&set).unwrap(), None);
    assert!(!set.read().unwrap().at_time(now).contains("a").unwrap());
}

/// Each key of a batch has the expiry of its own time, by every way into a store. The next update finds pending records.
/// The store advances to the time of the latest key.
#[test]
fn keys_of_one_batch_expire_each_at_its_own_time_and_are_known_until_then() {
    for (refresh, rewrites) in [(false, false), (true, false), (false, true), (true, true)] {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir, 1, &options(refresh));
        let begin = |store: &Store| {
            let update = store.update().unwrap();
            if rewrites { update.rewriting() } else { update }
        };
        let all = keys(0..4);
        let days = |days: [u64; 4]| days.map(|day| on(FIRST + day));
        let told = |update: &mut Update, times: [SystemTime; 4]| {
            let mut told = Vec::new();
            let refused = update.insert_each_at(&all, &times, |at, seen| told.push((at, seen))).unwrap();
            assert_eq!(refused.len(), 0);
            told.into_iter().filter(|(_, seen)| *seen == Seen::New).map(|(at, _)| at).collect::<Vec<_>>()
        };
        let mut update = begin(&store);
        let mut new = told(&mut update, days([0, 2, 4, 6]));
        new.sort_unstable();
        assert_eq!(new, [0, 1, 2, 3]);
        // The same keys again, each two days later; and earlier times, which do not shorten any expiry.
        let none: &[usize] = &[];
        assert_eq!(told(&mut update, days([2, 4, 6, 8])), none);
        assert_eq!(told(&mut update, days([0, 2, 4, 6])), none);
        update.commit("insert", None).unwrap();
        let later = if refresh { 2 } else { 0 };
        let mut again = begin(&store);
        assert_eq!(told(&mut again, days([2, 4, 6, 8])), none, "{refresh} {rewrites}");
        let reader = store.read().unwrap();
        assert_eq!(reader.info().store_time, Some((FIRST + 8) / EPOCH * EPOCH * DAY * 1000));
        assert_eq!(reader.filter_info().unwrap().time, reader.info().store_time);
        for (at, key) in (0..).zip(&all) {
            let last = expiry(FIRST + 2 * at + later);
            let found = |epoch: u64| {
                let time = UNIX_EPOCH + Duration::from_secs(epoch * EPOCH * DAY);
                reader.at_time(time).contains(key).unwrap()
            };
            assert_eq!((found(last - 1), found(last)), (true, false), "{at} {refresh} {rewrites}");
        }
        // In the epoch in which it expires, a key is new again.
        let day = FIRST + later + AFTER + 2;
        let mut last = begin(&store);
        let seen = [0, 3].map(|key| last.insert_at(all[key], on(day)).unwrap());
        assert_eq!(seen, [Seen::New, Seen::Known], "{refresh} {rewrites}");
        last.commit("insert", None).unwrap();
        assert!(store.read().unwrap().contains(all[0]).unwrap());
    }
}

#[test]
fn a_compaction_tells_the_version_with_which_a_store_came_to_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let day = Arc::new(AtomicU64::new(FIRST));
    let store = store(&dir, 1, &options(false).with_clock(by(&day)));
    crate::update(&store, &keys(0..10)).commit("insert", None).unwrap();
    let newest = store.newest().unwrap().number;
    day.store(FIRST + 4, Ordering::Relaxed);
    assert_eq!(store.compact(false, &quiet).unwrap().version, Some(newest + 1));
    assert_eq!(store.compact(false, &quiet).unwrap().version, None);
}

/// Keys with individual lifetimes: each stays until the latest of its expiries, whatever the store's own time, even if
/// two updates insert the same key, and if a shard is rewritten or folded in between.
#[test]
fn keys_with_lifetimes_stay_until_the_latest_of_their_expiries() {
    let mut random = Random(5);
    for refresh in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let day = Arc::new(AtomicU64::new(FIRST));
        let options = options(refresh).with_clock(by(&day));
        let store = Store::create(place(&dir), 3, &options).unwrap();
        let mut model = Model::default();
        let end = |day: u64, lifetime: u64| (day * DAY + 12_345 + lifetime * DAY).div_ceil(EPOCH * DAY);
        for round in 0..60 {
            let today = day.fetch_add(below(&mut random, 3), Ordering::Relaxed);
            let today = day.load(Ordering::Relaxed).max(today);
            let base = store.newest().unwrap();
            let some = |random: &mut Random| -> Vec<(u64, u64)> {
                (0..60).map(|_| (below(random, 400), below(random, AFTER + 1))).collect()
            };
            // Two updates of one version: the second judges the keys of the first again.
            for other in 0..2 {
                let mut update = store.update_of(base.clone());
                if round % 5 == 4 && other == 0 {
                    update = update.rewriting();
                }
                let came = some(&mut random);
                let all: Vec<Key> = came.iter().map(|(key, _)| key.to_le_bytes()).collect();
                let lifetimes: Vec<Duration> =
                    came.iter().map(|(_, days)| Duration::from_secs(days * DAY)).collect();
                let told = update.insert_batch_for(&all, &lifetimes).unwrap();
                assert!(told.refused().is_empty());
                match update.commit_rebased("test", None, &quiet) {
                    Ok(_) => {}
                    // A shard was rewritten in between: the test inserts the keys again, as a caller would.
                    Err(Error::Conflict { .. }) => {
                        let mut update = store.update().unwrap();
                        update.insert_batch_for(&all, &lifetimes).unwrap().complete().unwrap();
                        commit(update);
                    }
                    Err(error) => panic!("{error}"),
                }
                model.now = model.now.max(today / EPOCH);
                for (key, lifetime) in came {
                    let last = model.keys.entry(key).or_default();
                    *last = end(today, lifetime).max(model.now + 1).max(*last);
                }
            }
            if round % 9 == 8 {
                store.compact(true, &quiet).unwrap();
            }
            model.check(&store, &store.newest().unwrap(), 400);
        }
        let mut update = store.update().unwrap();
        let too_long = update.insert_batch_for(&["k"], &[Duration::from_secs(AFTER * DAY + 1)]);
        assert!(matches!(too_long, Err(Error::Filter(FilterError::Option { option: "lifetime", .. }))));
        assert_eq!(update.touched(), 0);
    }
}
