//! Filters that keep the newest keys.
//!
//! Invariants checked:
//!
//! 1. A key is present until as many newer keys were stored as the filter keeps, and absent once the filter would exceed
//!    its stated maximum: exactly at the epochs of `format-spec/README.md`, section 4.10. Single keys, batches of all
//!    sizes and iterators agree, through commits, rollbacks and reopenings.
//! 2. The file never grows, and has the planned length.
//! 3. Operations that need a time, or that would mix several sequences of keys, are refused.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime};

use gowk::{Batches, Error, ErrorKind, Kind, Options, Reader, Writer};

use crate::thorough;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// The rules of section 4.10, with a map in place of slots.
#[derive(Clone)]
struct Model {
    /// N, L, and how many epochs a key lives.
    newest: u64,
    epoch: u64,
    lives: u64,
    inserted: u64,
    now: u64,
    /// The epoch in which each key expires.
    expiries: HashMap<u64, u64>,
}

impl Model {
    /// `whole` is K - 1 of the width.
    fn new(newest: u64, whole: u64) -> Self {
        let epoch = newest.div_ceil(whole);
        let lives = 1 + newest.div_ceil(epoch);
        Self { newest, epoch, lives, inserted: 0, now: 1, expiries: HashMap::new() }
    }

    fn contains(&self, key: u64) -> bool {
        self.expiries.get(&key).is_some_and(|expiry| *expiry > self.now)
    }

    fn come_on(&mut self) {
        self.now = self.now.max(1 + self.inserted / self.epoch);
    }

    fn insert(&mut self, key: u64) -> bool {
        self.come_on();
        if self.contains(key) {
            return false;
        }
        self.expiries.insert(key, self.now + self.lives);
        self.inserted += 1;
        true
    }

    /// The present keys, by how many keys will have been stored when they go.
    fn by_count(&self) -> BTreeMap<u64, u64> {
        let mut by_count = BTreeMap::new();
        for expiry in self.expiries.values().filter(|expiry| **expiry > self.now) {
            *by_count.entry((expiry - 1) * self.epoch).or_default() += 1;
        }
        by_count
    }

    fn living(&self) -> u64 {
        self.expiries.values().filter(|expiry| **expiry > self.now).count() as u64
    }
}

fn bytes(keys: &[u64]) -> Vec<[u8; 8]> {
    keys.iter().map(|key| key.to_le_bytes()).collect()
}

fn all(writer: &Writer, keys: &[u64]) -> Vec<bool> {
    bytes(keys).iter().map(|key| writer.contains(key).unwrap()).collect()
}

/// The entries that expire after the epoch beginning at `begin`, as verification reports them.
fn living(reader: &Reader, begin: u64) -> BTreeMap<u64, u64> {
    let (report, info) = (reader.verify(&|_, _| {}).unwrap(), reader.info().unwrap());
    assert!(report.is_clean());
    assert_eq!(report.expiries.iter().map(|of| of.entries).sum::<u64>(), info.entries);
    let expiries = report.expiries.iter().map(|of| (of.at, of.entries));
    expiries.filter(|(at, _)| *at > begin).collect()
}

/// Compares all keys up to `limit`, and the filter's description of itself.
fn check(writer: &Writer, model: &Model, limit: u64) {
    let keys: Vec<u64> = (0..limit).collect();
    let found = all(writer, &keys);
    let expected: Vec<bool> = keys.iter().map(|key| model.contains(*key)).collect();
    let differ: Vec<_> =
        keys.iter().filter(|key| found[**key as usize] != expected[**key as usize]).collect();
    assert!(differ.is_empty(), "{differ:?} of {limit} now {} inserted {} ", model.now, model.inserted);
    let newest = writer.info().unwrap().keep_newest.unwrap();
    assert_eq!(newest.at_least, model.newest);
    assert_eq!(newest.at_most, model.epoch * model.lives);
    let (living, inserted) = (model.living(), model.inserted);
    assert!(living <= newest.at_most && living >= newest.at_least.min(inserted), "{living} of {inserted}");
}

#[test]
fn the_newest_keys_stay_and_all_others_go() {
    let dir = tempfile::tempdir().unwrap();
    // Rates at which these few keys have no false positive; and K - 1 of the width.
    for (number, (newest, rate, whole)) in
        [(700, 3e-8, 14), (1, 3e-8, 14), (5, 3e-8, 14), (40_009, 3e-8, 14), (3000, 1e-4, 14)]
            .into_iter()
            .enumerate()
    {
        let path = dir.path().join(number.to_string());
        let options = Options::new().seed(7).keep_newest(newest).false_positive_rate(rate);
        let plan = options.plan().unwrap();
        let mut writer = options.create(&path).unwrap();
        let mut model = Model::new(newest, whole);
        let mut committed = model.clone();
        let (mut random, limit) = (Random(thorough::seed(number as u64)), newest * 4 + 10);
        // At a rate that would show false positives, this many keys in all, none of which recurs.
        let mut next = 0;
        let is_exact = rate < 1e-6;
        let mut some = |count: u64, random: &mut Random| -> Vec<u64> {
            (0..count)
                .map(|_| {
                    next += 1;
                    // Every other key is one of the last keys, or recurs.
                    if is_exact && random.below(2) == 0 { random.below(limit) } else { next % limit }
                })
                .collect()
        };
        for _ in 0..thorough::size("steps of each filter of the newest keys", 60, 1000) {
            let size = [1, 2, 17, newest / 3 + 1, newest + 1, 3 * newest][random.below(6) as usize];
            let keys = some(size, &mut random);
            let expected: Vec<bool> = keys.iter().map(|key| model.insert(*key)).collect();
            let found = match random.below(3) {
                0 => writer.insert_batch(&bytes(&keys)).unwrap().mask(),
                1 => writer.insert_all(bytes(&keys)).unwrap().mask(),
                _ => bytes(&keys).iter().map(|key| writer.insert(key).unwrap()).collect(),
            };
            if !is_exact {
                let differ = found.iter().zip(&expected).filter(|(a, b)| a != b).count();
                assert!(differ <= 3, "{differ}");
                break;
            }
            assert!(found == expected);
            match random.below(8) {
                0 => {
                    writer.rollback().unwrap();
                    model = committed.clone();
                }
                1 => {
                    writer.commit().unwrap();
                    committed = model.clone();
                    writer.close().unwrap();
                    writer = options.open(&path).unwrap();
                }
                2 => {
                    writer.sweep().unwrap();
                    model.come_on();
                }
                3..6 => {
                    writer.commit().unwrap();
                    committed = model.clone();
                    let reader = Reader::open(&path).unwrap();
                    assert_eq!(living(&reader, (model.now - 1) * model.epoch), model.by_count());
                }
                _ => {}
            }
            check(&writer, &model, limit);
        }
        writer.commit().unwrap();
        let info = writer.info().unwrap();
        assert_eq!((info.regions, info.capacity), (plan.regions, plan.capacity));
        assert_eq!((info.kind, info.time, info.retention), (Kind::Forgetting, None, None));
        assert_eq!(info.keep_newest, plan.keep_newest);
        assert_eq!(path.metadata().unwrap().len(), plan.file_length);
    }
}

#[test]
fn a_filter_of_the_newest_keys_never_grows() {
    let dir = tempfile::tempdir().unwrap();
    // One filter of each offered width.
    for (number, (newest, rate)) in [(60_000, 1e-3), (130_000, 2e-3), (50_000, 3e-8)].into_iter().enumerate()
    {
        let path = dir.path().join(number.to_string());
        let options = Options::new().seed(3).keep_newest(newest).false_positive_rate(rate);
        let mut writer = options.create(&path).unwrap();
        let plan = options.plan().unwrap();
        let kept = plan.keep_newest.unwrap();
        assert!(kept.at_least == newest && plan.capacity == kept.at_most, "{plan:?}");
        let (mut key, mut most) = (0_u64, 0);
        for _ in 0..thorough::size("fifths of the newest keys", 100, 1000) {
            let keys: Vec<u64> = (key..key + newest / 5).collect();
            key += newest / 5;
            assert!(writer.insert_batch(&bytes(&keys)).unwrap().refused().is_empty());
            writer.commit().unwrap();
            // All of the newest keys, except those that matched another key's entry when they came, which expired
            // earlier.
            let last: Vec<u64> = (key.saturating_sub(newest)..key).collect();
            let lost = all(&writer, &last).iter().filter(|found| !**found).count();
            assert!(lost as f64 <= 2.0 * rate * last.len() as f64 + 3.0, "{lost} of {}", last.len());
            most = most.max(writer.info().unwrap().entries);
        }
        let info = writer.info().unwrap();
        assert_eq!((info.regions, path.metadata().unwrap().len()), (plan.regions, plan.file_length));
        // No older key is present, except for false positives.
        let old: Vec<u64> = (0..key - kept.at_most).collect();
        let found = all(&writer, &old).iter().filter(|found| **found).count();
        assert!(found as f64 <= 3.0 * rate * old.len() as f64 + 5.0, "{found} of {}", old.len());
        // Expired entries wait for the sweep for at most one epoch.
        assert!(most <= kept.at_most + newest / 2, "{most}");
        let copy = dir.path().join("copy");
        Reader::open(&path).unwrap().copy_to(&copy, &|_, _| {}).unwrap();
        assert_eq!(Reader::open(&copy).unwrap().info().unwrap().keep_newest, Some(kept));
        std::fs::remove_file(copy).unwrap();
    }
}

#[test]
fn what_is_not_for_the_newest_keys_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let hour = Duration::from_secs(3600);
    let newest = || Options::new().keep_newest(1000);
    for (options, named) in [
        (newest().capacity(5), "capacity"),
        (newest().forget_after(hour), "forget after"),
        (newest().forget_within(hour), "forget after"),
        (newest().refresh(true), "refresh"),
        (newest().counting(), "keep newest"),
        (Options::new().counting().keep_newest(1000), "keep newest"),
        (Options::new().keep_newest(0), "keep newest"),
        (Options::new().keep_newest(u64::MAX), "keep newest"),
        (Options::new().keep_newest(1 << 50), "capacity"),
        (newest().false_positive_rate(1e-9), "false-positive rate"),
    ] {
        let error = options.create(&path).unwrap_err();
        assert!(matches!(&error, Error::Option { option, .. } if *option == named), "{error}");
        assert!(options.plan().is_err() && !path.exists());
    }
    let mut writer = newest().create(&path).unwrap();
    for time in [SystemTime::now(), SystemTime::now() + 24 * hour] {
        let error = writer.insert_at("a", time).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    let error = writer.insert_batch_at(&["a"], &[SystemTime::now()]).unwrap_err();
    assert!(error.to_string().contains("keeps the newest keys, and a time of a key"), "{error}");
    writer.insert("a").unwrap();
    writer.commit().unwrap();
    let other = dir.path().join("other");
    Reader::open(&path).unwrap().copy_to(&other, &|_, _| {}).unwrap();
    let reader = Reader::open(&other).unwrap();
    let refusals = [
        writer.merge(&reader).unwrap_err(),
        reader.divide_to(&[dir.path().join("1"), dir.path().join("2")], &|_, _| {}).unwrap_err(),
        Reader::join_to(&[reader], dir.path().join("joined"), &|_, _| {}).unwrap_err(),
    ];
    for (error, op) in refusals.iter().zip(["a merge", "a division", "a join"]) {
        assert!(matches!(error, Error::Newest { op: found, .. } if *found == op), "{error}");
    }
    writer.close().unwrap();
    for options in [
        Options::new().keep_newest(999),
        Options::new().forget_after(hour),
        Options::new().kind(Kind::Forgetting).refresh(true),
    ] {
        let error = options.open(&path).unwrap_err();
        assert!(matches!(error, Error::Retention { .. }), "{error}");
        assert!(error.to_string().contains("keeps the newest 1000 to 1169 keys"), "{error}");
    }
    for options in [newest(), Options::new(), Options::new().kind(Kind::Forgetting)] {
        let mut writer = options.open(&path).unwrap();
        assert!(!writer.insert("a").unwrap());
        writer.close().unwrap();
    }
    let timed = dir.path().join("timed");
    Options::new().forget_after(hour).create(&timed).unwrap().commit().unwrap();
    let error = newest().open(&timed).unwrap_err();
    assert!(error.to_string().contains("forgets keys 1 to 1.5 hours"), "{error}");
    #[cfg(feature = "store")]
    {
        let error = gowk::store::Store::create(dir.path().join("s"), 2, &newest()).unwrap_err();
        assert!(error.to_string().contains("a store is not for such filters"), "{error}");
        let reader = Reader::open(&path).unwrap();
        let place = dir.path().join("s");
        let error =
            gowk::store::Store::create_from(&place, 2, &reader, &Options::new(), &|_, _| {}).unwrap_err();
        assert!(error.to_string().contains("a division is not for such filters"), "{error}");
        assert!(!place.exists());
    }
}
