//! Random histories of counting filters, against an exact model.
//!
//! The steps are inserts, removals, commits, rollbacks, reopenings, doublings, merges, shrinks, dividing and joining, and
//! repairs.
//!
//! Invariants checked, for every width, after each step:
//!
//! 1. A key is present, its count is at least the model's, and all its copies can be removed.
//! 2. `len` is at least the number of copies of all keys. It is equal if no group was saturated, no entry was void and no
//!    page was given up. A filter with a key in it is not empty, whatever was merged, divided and removed.
//! 3. The counters equal a scan.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use gowk::{Error, Lookup, Options, Reader, SlotsPerBucket, Writer};

use crate::numbers::Numbers;
use crate::thorough;

const QUIET: fn(u64, u64) = |_, _| {};

/// The copies of each key.
type Model = BTreeMap<u64, u64>;

fn options(slots: SlotsPerBucket) -> Options {
    Options::new().capacity(20_000).slots_per_bucket(slots).counting().seed(7).void_growth(true).threads(1)
}

struct History {
    slots: SlotsPerBucket,
    path: PathBuf,
    /// None while the file is closed.
    writer: Option<Writer>,
    open: Model,
    committed: Model,
    repaired: bool,
    /// Whether there were void entries, whose copies may count in both halves of a doubling.
    aged: bool,
}

impl History {
    fn writer(&mut self) -> &mut Writer {
        self.writer.as_mut().unwrap()
    }

    fn insert(&mut self, key: u64, copies: u64) {
        for _ in 0..copies {
            self.writer().insert(&key.to_le_bytes()).unwrap();
        }
        *self.open.entry(key).or_default() += copies;
    }

    fn remove(&mut self, key: u64, copies: u64) {
        let left = self.open.get(&key).copied().unwrap_or(0);
        let copies = copies.min(left);
        for _ in 0..copies {
            // A quarantined bucket answers "present", but may have no copy to remove.
            let taken = self.writer().remove(&key.to_le_bytes()).unwrap();
            assert!(taken || self.repaired, "{:?}: a copy of {key} is lost", self.slots);
        }
        if copies == left {
            self.open.remove(&key);
        } else {
            self.open.insert(key, left - copies);
        }
    }

    fn commit(&mut self) {
        self.writer().commit().unwrap();
        self.committed.clone_from(&self.open);
    }

    fn close(&mut self) {
        self.commit();
        self.writer.take().unwrap().close().unwrap();
    }

    fn reopen(&mut self) {
        self.writer = Some(options(self.slots).open(&self.path).unwrap());
    }

    fn check(&mut self, what: &str) {
        let writer = self.writer.as_ref().unwrap();
        let info = writer.info().unwrap();
        let highest = u64::from(self.slots.highest_count());
        for (key, copies) in &self.open {
            let count = u64::from(writer.count(&key.to_le_bytes()).unwrap());
            assert!(count >= *copies || count == highest, "{:?}, {what}: {count} of {copies}", self.slots);
            assert!(writer.contains(&key.to_le_bytes()).unwrap());
        }
        let copies: u64 = self.open.values().sum();
        let len = writer.len().unwrap();
        self.aged |= info.entries_by_tail[0] > 0;
        let known = info.saturated == 0 && !self.aged && !self.repaired;
        if known {
            assert_eq!(len, copies, "{:?}, {what}: {info:?}", self.slots);
        }
        let uncounted: u64 = self.open.values().map(|copies| copies.saturating_sub(highest / 2 - 1)).sum();
        assert!(self.repaired || len + uncounted >= copies, "{:?}, {what}: {len} of {copies}", self.slots);
        assert!(self.open.is_empty() || !writer.is_empty().unwrap(), "{:?}, {what}", self.slots);
    }

    /// Fills a second filter and merges it into this one.
    fn sum(&mut self, numbers: &mut Numbers, dir: &Path) {
        let other = dir.join("other");
        let mut theirs = options(self.slots).force(true).create(&other).unwrap();
        for _ in 0..numbers.below(60) {
            let (key, copies) = random_key(numbers, self.slots);
            for _ in 0..copies {
                theirs.insert(&key.to_le_bytes()).unwrap();
            }
            *self.open.entry(key).or_default() += copies;
        }
        theirs.commit().unwrap();
        theirs.close().unwrap();
        self.writer().merge(&Reader::open(&other).unwrap()).unwrap();
    }

    /// Divides the filter into parts, checks each of them, and joins them again.
    fn divide_and_join(&mut self, parts: u64, dir: &Path) {
        self.close();
        let whole = Reader::open(&self.path).unwrap();
        let paths: Vec<PathBuf> = (0..parts).map(|part| dir.join(format!("part-{part}"))).collect();
        whole.divide_to(&paths, &QUIET).unwrap();
        let readers: Vec<Reader> = paths.iter().map(|path| Reader::open(path).unwrap()).collect();
        for key in self.open.keys() {
            let shard = whole.hash(&key.to_le_bytes()).unwrap().shard(parts);
            let part = &readers[usize::try_from(shard).unwrap()];
            assert!(part.contains(&key.to_le_bytes()).unwrap() && !part.is_empty().unwrap());
        }
        drop(whole);
        fs::remove_file(&self.path).unwrap();
        Reader::join_to(&readers, &self.path, &QUIET).unwrap();
        paths.iter().for_each(|path| fs::remove_file(path).unwrap());
        self.reopen();
    }

    /// Damages a page and repairs the filter, which gives up that page.
    fn repair(&mut self, numbers: &mut Numbers) {
        self.close();
        let mut bytes = fs::read(&self.path).unwrap();
        let regions = usize::try_from(Reader::open(&self.path).unwrap().info().unwrap().regions).unwrap();
        let page = numbers.below(16 * regions as u64) as usize;
        let start = bytes.len() - regions * 65_536 + page * 4096;
        bytes[start + 8] ^= 1;
        fs::write(&self.path, bytes).unwrap();
        self.reopen();
        let repair = self.writer().repair(&QUIET).unwrap();
        assert_eq!(repair.quarantined.len(), 1, "{repair:?}");
        self.commit();
        self.repaired = true;
    }
}

/// One of few keys, and a number of copies: mostly small, sometimes more than a bucket can count at narrow widths.
fn random_key(numbers: &mut Numbers, slots: SlotsPerBucket) -> (u64, u64) {
    let copies = match numbers.below(100) {
        0..60 => 1,
        60..90 => 1 + numbers.below(40),
        90..99 => 1 + numbers.below(1100),
        _ if slots == SlotsPerBucket::Two => 3000,
        _ if slots == SlotsPerBucket::Four => 31_000,
        _ => 2000,
    };
    (numbers.below(3000), copies)
}

#[test]
fn histories_of_counted_keys_agree_with_a_model() {
    let (histories, steps) = (thorough::size("histories of each width", 1, 12), 60);
    for slots in SlotsPerBucket::ALL {
        for seed in 0..histories {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("f");
            let writer = Some(options(slots).create(&path).unwrap());
            let (open, committed) = (Model::new(), Model::new());
            let mut history = History { slots, path, writer, open, committed, repaired: false, aged: false };
            let mut numbers = Numbers(thorough::seed(u64::from(slots.get()) << 32 | seed));
            for step in 0..steps {
                let what = match numbers.below(100) {
                    0..35 => {
                        for _ in 0..100 {
                            let (key, copies) = random_key(&mut numbers, slots);
                            history.insert(key, copies);
                        }
                        "insert"
                    }
                    35..60 => {
                        let keys: Vec<u64> = history.open.keys().copied().collect();
                        for key in keys {
                            if numbers.below(3) == 0 {
                                let copies = 1 + numbers.below(40_000);
                                history.remove(key, copies);
                            }
                        }
                        "remove"
                    }
                    60..68 => {
                        history.commit();
                        "commit"
                    }
                    68..73 => {
                        history.writer().rollback().unwrap();
                        history.open.clone_from(&history.committed);
                        "rollback"
                    }
                    73..78 => {
                        history.close();
                        history.reopen();
                        "reopen"
                    }
                    78..83 if history.writer().info().unwrap().generation < 2 => {
                        history.writer().grow().unwrap();
                        "grow"
                    }
                    83..88 => {
                        match history.writer().shrink() {
                            // A shrink makes a checkpoint of the earlier commits.
                            Ok(()) | Err(Error::Shrink { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                        "shrink"
                    }
                    88..94 => {
                        history.sum(&mut numbers, dir.path());
                        "sum"
                    }
                    94..99 => {
                        history.divide_and_join(2, dir.path());
                        "divide and join"
                    }
                    // Rarely, and late: a page that was given up weakens the checks.
                    _ if step > steps / 2 => {
                        history.repair(&mut numbers);
                        "repair"
                    }
                    _ => "nothing",
                };
                history.check(what);
            }
            history.repair(&mut numbers);
            history.check("repair at the end");
            let report = Reader::open(&history.path).unwrap().verify(&QUIET).unwrap();
            assert!(report.is_clean(), "{slots:?} {seed}: {report:?}");
            let keys: Vec<u64> = history.open.keys().copied().collect();
            keys.into_iter().for_each(|key| history.remove(key, u64::MAX));
            history.commit();
        }
    }
}

#[test]
fn a_filter_with_keys_is_not_empty_after_a_sum_with_a_saturated_group_and_its_removal() {
    let dir = tempfile::tempdir().unwrap();
    // More copies than two groups count.
    let copies = 70_000;
    let mut theirs = options(SlotsPerBucket::Four).create(dir.path().join("theirs")).unwrap();
    (0..copies).for_each(|_| _ = theirs.insert(b"popular").unwrap());
    theirs.commit().unwrap();
    theirs.close().unwrap();
    let mut ours = options(SlotsPerBucket::Four).create(dir.path().join("ours")).unwrap();
    (0..1000_u64).for_each(|key| _ = ours.insert(&key.to_le_bytes()).unwrap());
    ours.merge(&Reader::open(dir.path().join("theirs")).unwrap()).unwrap();
    (0..copies).for_each(|_| assert!(ours.remove(b"popular").unwrap()));
    ours.commit().unwrap();
    // The saturated group is never removed, and counts as its highest count.
    assert_eq!((ours.len().unwrap(), ours.is_empty().unwrap()), (1000 + 30_784, false));
    (0..1000_u64).for_each(|key| assert!(ours.remove(&key.to_le_bytes()).unwrap()));
    assert_eq!(ours.len().unwrap(), 30_784);
}

#[test]
fn a_part_with_keys_is_not_empty_after_its_popular_key_was_removed() {
    let dir = tempfile::tempdir().unwrap();
    let mut whole = options(SlotsPerBucket::Three).create(dir.path().join("whole")).unwrap();
    (0..20_000).for_each(|_| _ = whole.insert(b"popular").unwrap());
    (0..1000_u64).for_each(|key| _ = whole.insert(&key.to_le_bytes()).unwrap());
    whole.commit().unwrap();
    let popular = usize::try_from(whole.hash(b"popular").unwrap().shard(2)).unwrap();
    whole.close().unwrap();
    let parts = [dir.path().join("0"), dir.path().join("1")];
    Reader::open(dir.path().join("whole")).unwrap().divide_to(&parts, &QUIET).unwrap();
    let mut part = Options::new().open(&parts[popular]).unwrap();
    (0..20_000).for_each(|_| assert!(part.remove(b"popular").unwrap()));
    let entries = part.info().unwrap().entries;
    assert!(entries > 300);
    assert_eq!((part.len().unwrap(), part.is_empty().unwrap()), (entries, false));
}

#[test]
fn filters_with_as_many_copies_of_one_key_as_can_be_counted_add_up() {
    let dir = tempfile::tempdir().unwrap();
    for slots in [SlotsPerBucket::Two, SlotsPerBucket::Four] {
        for copies in [slots.highest_count() - 2, slots.highest_count() + 1000] {
            let theirs = dir.path().join("theirs");
            let mut writer = options(slots).force(true).create(&theirs).unwrap();
            (0..copies).for_each(|_| _ = writer.insert(b"popular").unwrap());
            writer.insert(b"theirs").unwrap();
            writer.commit().unwrap();
            writer.close().unwrap();
            let mut ours = options(slots).force(true).create(dir.path().join("ours")).unwrap();
            (0..1000_u64).for_each(|key| _ = ours.insert(&key.to_le_bytes()).unwrap());
            for _ in 0..4 {
                ours.merge(&Reader::open(&theirs).unwrap()).unwrap();
            }
            ours.commit().unwrap();
            assert_eq!(ours.count(b"popular").unwrap(), slots.highest_count(), "{slots:?}");
            assert_eq!(ours.count(b"theirs").unwrap(), 4, "{slots:?}");
            (0..4 * copies).for_each(|_| assert!(ours.remove(b"popular").unwrap()));
            assert!(ours.contains(b"popular").unwrap());
            (0..1000_u64).for_each(|key| assert!(ours.remove(&key.to_le_bytes()).unwrap()));
            assert_eq!(ours.info().unwrap().generation, 0, "{slots:?}");
        }
    }
}
