//! Random operations on one filter that forgets, against a model with a clock.
//!
//! Invariants checked, after any operations, times and crashes:
//!
//! 1. A key that an insert stored is present until it expires, for the writer and, once committed, for readers. So is,
//!    with refresh, each key that was inserted.
//! 2. The filter's time is that of the latest key or of the clock. It goes back with a rollback or a crash alone, and then
//!    to that of the last commit.
//! 3. A key is late exactly if it would expire at the filter's time, and early exactly if it is ahead of the clock. A
//!    clock that leaps or goes back is refused and changes nothing, unless it is told to be right.
//! 4. Verification finds nothing, and tells an expiry for every entry. No more expire in an epoch than were stored for it:
//!    what has expired is gone before its code stands for a later epoch.
//!
//! Input: three bytes of options, then operations, one byte each with their operands.

#![no_main]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gowk::{
    Error, GrowthRefusal, HashKind, KeyHash, Lookup, Options, Reader, Retention, Seen, SlotsPerBucket, Writer,
};
use gowk_fuzz::{Input, folder};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

const MOST_GENERATIONS: u32 = 3;
const MOST_INSERTS: usize = 12_000;
/// Milliseconds since 1970 at which the clock begins.
const START: u64 = 1_800_000_000_000;
/// How far a key may be ahead of the clock, and the clock behind the filter.
const TOLERANCE: u64 = 300_000;

/// What a filter must hold.
#[derive(Clone, Default)]
struct Model {
    /// Until which epoch each key must be present.
    keys: BTreeMap<u32, u64>,
    /// How many entries may have been stored that expire in each epoch.
    stored: BTreeMap<u64, u64>,
    /// The epoch that the filter has come to.
    now: u64,
    generation: u32,
}

struct Run {
    dir: TempDir,
    options: Options,
    clock: Arc<AtomicU64>,
    clock_is_right: bool,
    hash: HashKind,
    retention: Retention,
    /// The epochs that an entry lives at most: a clock that goes on by more leaps.
    lives: u64,
    writer: Option<Writer>,
    reader: Option<Reader>,
    committed: Option<Model>,
    open: Model,
    inserts_left: usize,
}

fn at(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

impl Run {
    fn new(input: &mut Input<'_>) -> Self {
        let shape = input.u8();
        // K - 1 of each width that forgets.
        let (slots, whole) = [
            (SlotsPerBucket::Four, 2),
            (SlotsPerBucket::Four, 6),
            (SlotsPerBucket::Three, 14),
            (SlotsPerBucket::Two, 14),
        ][usize::from(shape) % 4];
        let hash = if (shape / 4).is_multiple_of(2) { HashKind::Xxh3 } else { HashKind::Caller };
        let after = [1, 7, 1000, 86_400_000][usize::from(input.u8()) % 4];
        let flags = input.u8();
        let (refresh, clock_is_right) = (flags & 1 == 1, flags & 2 == 2);
        let clock = Arc::new(AtomicU64::new(START));
        let shown = clock.clone();
        let within = Duration::from_millis(u64::div_ceil(after, whole));
        let options = Options::new()
            .capacity(1)
            .slots_per_bucket(slots)
            .seed(shape.into())
            .hash(hash)
            .forget_after(Duration::from_millis(after))
            .forget_within(within)
            .refresh(refresh)
            .clock_is_right(clock_is_right)
            .void_growth(true)
            .with_clock(move || at(shown.load(Ordering::Relaxed)));
        let writer = options.open(folder().path().join("f")).expect("a new filter");
        let info = writer.info().expect("open");
        let retention = info.retention.expect("it forgets");
        // A short time is kept well enough with fewer expiry bits. In four slots, each bit is one less of the tail.
        let lives = match slots {
            SlotsPerBucket::Four if info.entries_by_tail.len() == 9 => 3,
            _ => whole + 1,
        };
        let mut run = Self {
            dir: folder(),
            options,
            clock,
            clock_is_right,
            hash,
            retention,
            lives,
            writer: None,
            reader: None,
            committed: None,
            open: Model { now: 1, ..Model::default() },
            inserts_left: MOST_INSERTS,
        };
        run.open_writer();
        run
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("f")
    }

    fn clock(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    fn open_writer(&mut self) {
        self.open = self.committed.clone().unwrap_or(Model { now: 1, ..Model::default() });
        self.writer = Some(self.options.open(self.path()).expect("a filter of ours"));
        self.check_writer();
    }

    fn writer(&mut self) -> &mut Writer {
        self.writer.as_mut().expect("no writer between operations")
    }

    fn hash(&self, key: u32) -> KeyHash {
        match (self.hash, &self.writer) {
            (HashKind::Xxh3, Some(writer)) => writer.hash(&key.to_le_bytes()).expect("a filter that hashes"),
            _ => caller_hash(key),
        }
    }

    fn epoch_of(&self, time: u64) -> u64 {
        time / self.retention.forget_within
    }

    fn expiry(&self, time: u64) -> u64 {
        (time + self.retention.forget_after).div_ceil(self.retention.forget_within)
    }

    /// Takes note of what became of a key that came with its time.
    fn noted_at(&mut self, key: u32, time: u64, seen: Seen) {
        let is_early = time > self.clock() + TOLERANCE;
        assert_eq!(seen == Seen::Early, is_early, "{time} at {}", self.clock());
        if !is_early {
            self.noted(key, time, seen);
        }
    }

    /// Takes note of what became of a key that was seen at a time.
    fn noted(&mut self, key: u32, time: u64, seen: Seen) {
        let expiry = self.expiry(time);
        self.open.now = self.open.now.max(self.epoch_of(time));
        assert_eq!(seen == Seen::Late, expiry <= self.open.now, "{key} of {time} in {}", self.open.now);
        let must = self.open.keys.get(&key).is_some_and(|until| *until > self.open.now);
        match seen {
            Seen::New => {
                assert!(!must, "key {key} is stored, and told to be new");
                self.open.keys.insert(key, expiry);
                *self.open.stored.entry(expiry).or_default() += 1;
            }
            // With refresh it is kept as long as it would be if it were new.
            Seen::Known if self.retention.refresh => {
                let until = self.open.keys.entry(key).or_default();
                *until = expiry.max(*until);
                *self.open.stored.entry(expiry).or_default() += 1;
            }
            _ => {}
        }
    }

    /// Whether the filter refuses a key of a time, as the clock would have leapt.
    fn leaps(&mut self, time: u64) -> bool {
        let is_empty = self.writer().info().expect("open").entries == 0;
        let epochs = self.epoch_of(time).saturating_sub(self.open.now);
        let is_long = epochs > self.lives && epochs * self.retention.forget_within > 365 * 86_400_000;
        !self.clock_is_right && !is_empty && is_long
    }

    fn insert_at(&mut self, key: u32, time: u64) {
        let (hash, leaps) = (self.hash(key), self.leaps(time));
        match self.writer().insert_at(hash, at(time)) {
            Ok(seen) => {
                assert!(!leaps || seen == Seen::Early, "a leap to {time}");
                self.noted_at(key, time, seen);
            }
            Err(Error::Growth { reason: GrowthRefusal::Crowded { .. }, .. }) => self.come_on(time),
            Err(Error::Clock { .. }) => assert!(leaps, "{time} in epoch {}", self.open.now),
            Err(error) => panic!("{error}"),
        }
    }

    /// A key of this time has come, whatever became of it.
    fn come_on(&mut self, time: u64) {
        self.open.now = self.open.now.max(self.epoch_of(time));
    }

    fn takes_more(&mut self) -> bool {
        let info = self.writer().info().expect("open");
        info.generation < MOST_GENERATIONS || info.load < 0.7
    }

    fn insert_all_at(&mut self, keys: impl Iterator<Item = (u32, u64)>) {
        if self.takes_more() {
            for (key, time) in keys.take(self.inserts_left) {
                self.insert_at(key, time);
                self.inserts_left -= 1;
            }
            self.note_generation();
        }
    }

    fn insert_batch_at(&mut self, keys: impl Iterator<Item = (u32, u64)>) {
        if !self.takes_more() {
            return;
        }
        let keys: Vec<(u32, u64)> = keys.take(self.inserts_left).collect();
        self.inserts_left -= keys.len();
        let hashes: Vec<KeyHash> = keys.iter().map(|(key, _)| self.hash(*key)).collect();
        let times: Vec<SystemTime> = keys.iter().map(|(_, time)| at(*time)).collect();
        let mut told = BTreeMap::new();
        let outcome = self.writer().insert_each_at(&hashes, &times, |index, seen| {
            assert!(told.insert(index, seen).is_none(), "key {index} is told twice");
        });
        let (refused, all) = match outcome {
            Ok(refused) => (refused.into_iter().map(|(index, _)| index).collect::<Vec<_>>(), true),
            // Those before the leap were taken, and told unless they were known.
            Err(Error::Clock { .. }) => {
                assert!(!self.clock_is_right);
                (Vec::new(), false)
            }
            Err(error) => panic!("{error}"),
        };
        for (index, (key, time)) in keys.iter().enumerate() {
            match told.get(&index) {
                _ if refused.contains(&index) => self.come_on(*time),
                Some(seen) => self.noted_at(*key, *time, *seen),
                None if all => self.noted_at(*key, *time, Seen::Known),
                // Perhaps refreshed, perhaps never reached.
                None => *self.open.stored.entry(self.expiry(*time)).or_default() += 1,
            }
        }
        if !all {
            self.open.now = self.now_of_writer();
        }
        self.note_generation();
    }

    /// Inserts a key at the time of the clock.
    fn insert_now(&mut self, key: u32) {
        let (hash, time) = (self.hash(key), self.clock());
        let leaps = self.leaps(time);
        let begin = self.open.now * self.retention.forget_within;
        let is_behind = !self.clock_is_right && self.open.now > 1 && time + TOLERANCE < begin;
        match self.writer().insert(hash) {
            Ok(new) => {
                assert!(!leaps && !is_behind, "clock {time} in epoch {}", self.open.now);
                // A clock that is behind, but not too far, does not make a key late.
                let time = time.max(self.open.now * self.retention.forget_within);
                self.noted(key, time, if new { Seen::New } else { Seen::Known });
            }
            Err(Error::Growth { reason: GrowthRefusal::Crowded { .. }, .. }) => self.come_on(time),
            Err(Error::Clock { .. }) => {
                assert!(leaps || is_behind, "clock {time} in epoch {}", self.open.now)
            }
            Err(error) => panic!("{error}"),
        }
        self.note_generation();
    }

    fn sweep(&mut self) {
        let time = self.clock();
        match self.writer().sweep() {
            Ok(_) => self.come_on(time),
            Err(Error::Clock { .. }) => assert!(!self.clock_is_right),
            Err(error) => panic!("{error}"),
        }
    }

    fn now_of_writer(&mut self) -> u64 {
        let info = self.writer().info().expect("open");
        info.time.map_or(1, |time| time / self.retention.forget_within)
    }

    fn note_generation(&mut self) {
        self.open.generation = self.writer().info().expect("open").generation;
    }

    fn grow(&mut self) {
        if self.open.generation < MOST_GENERATIONS {
            self.writer().grow().expect("no limit is set");
            self.open.generation += 1;
        }
    }

    fn commit(&mut self) {
        self.writer().commit().expect("room for a commit");
        self.committed = Some(self.open.clone());
    }

    fn rollback(&mut self) {
        self.writer().rollback().expect("nothing fails");
        self.open = self.committed.clone().unwrap_or(Model { now: 1, ..Model::default() });
        self.check_writer();
    }

    fn reopen(&mut self) {
        self.writer = None;
        self.check_readers();
        self.open_writer();
    }

    /// Goes on with a copy of all files, as a killed process leaves them.
    fn crash(&mut self, read_first: bool) {
        let copy = folder();
        for entry in fs::read_dir(self.dir.path()).expect("our folder") {
            let entry = entry.expect("our folder");
            fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("room for a copy");
        }
        self.writer = None;
        self.reader = None;
        self.dir = copy;
        if read_first {
            self.check_readers();
        }
        self.open_writer();
    }

    fn check_writer(&mut self) {
        let model = self.open.clone();
        assert_eq!(self.now_of_writer(), model.now);
        assert_eq!(self.writer().info().expect("open").generation, model.generation);
        for (key, _) in model.keys.iter().filter(|(_, until)| **until > model.now) {
            let hash = self.hash(*key);
            assert!(self.writer().contains(hash).expect("intact"), "the writer lost {key}");
        }
    }

    fn check_readers(&mut self) {
        let Some(model) = self.committed.clone() else {
            assert!(matches!(Reader::open(self.path()), Err(Error::NotFound { .. })));
            return;
        };
        let fresh = Reader::open(self.path()).expect("a filter of ours");
        for reader in [self.reader.get_or_insert_with(|| fresh.clone()), &fresh] {
            let info = reader.info().expect("intact");
            assert_eq!(info.time.map_or(1, |time| time / self.retention.forget_within), model.now);
            for (key, _) in model.keys.iter().filter(|(_, until)| **until > model.now) {
                let hash = match self.hash {
                    HashKind::Xxh3 => reader.hash(&key.to_le_bytes()).expect("a filter that hashes"),
                    HashKind::Caller => caller_hash(*key),
                };
                assert!(reader.contains(hash).expect("intact"), "a reader lost {key}");
            }
        }
        let report = fresh.verify(&|_, _| {}).expect("intact");
        assert!(report.is_clean(), "{report:?}");
        let entries = fresh.info().expect("intact").entries;
        assert_eq!(report.expiries.iter().map(|expiry| expiry.entries).sum::<u64>(), entries);
        for expiry in report.expiries {
            let stored = model.stored.get(&(expiry.at / self.retention.forget_within)).copied().unwrap_or(0);
            assert!(expiry.entries <= stored, "{expiry:?}, of {stored} that were stored");
        }
    }
}

/// A hash whose region and tail come from the key's high bytes, and bucket and tag from few of its low bits.
fn caller_hash(key: u32) -> KeyHash {
    let [a, b, c, d] = key.to_le_bytes().map(u64::from);
    let position = d << 56 | c << 48 | (c ^ d).wrapping_mul(0x0101_0101_0101);
    let local = (b & 0x3f) << 58 | (a & 0x3) << 11 | a >> 2 & 0x7;
    KeyHash::new(u128::from(position) << 64 | u128::from(local))
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let mut run = Run::new(&mut input);
    let mut checks = 0;
    for _ in 0..200 {
        if input.is_empty() {
            break;
        }
        let epoch = run.retention.forget_within;
        // Half epochs before or after the clock, at most some 60.
        let around = |clock: u64, way: i8| clock.saturating_add_signed(i64::from(way) * epoch as i64 / 2);
        match input.u8() % 16 {
            0 | 1 => {
                let (key, way) = (input.u32(), input.u8() as i8);
                let time = around(run.clock(), way);
                run.insert_all_at([(key, time)].into_iter());
            }
            2 => {
                let key = input.u32();
                run.insert_now(key);
            }
            // Many keys of times that go up, down or to and fro.
            which @ 3..=6 => {
                let (first, step, count) = (input.u32(), u32::from(input.u8()), u32::from(input.u8()));
                let (from, slope) = (around(run.clock(), input.u8() as i8), i64::from(input.u8() as i8));
                let time =
                    move |i: u32| from.saturating_add_signed(i64::from(i % 300) * slope * epoch as i64 / 64);
                let keys =
                    (0..4 * count).map(|i| (first.wrapping_add((i % 500).wrapping_mul(step)), time(i)));
                if which < 5 { run.insert_batch_at(keys) } else { run.insert_all_at(keys) }
            }
            // Time goes on, or the clock leaps and goes back.
            7 | 8 => {
                let half_epochs = i64::from(input.u8() % 8);
                run.clock.store(
                    run.clock().saturating_add_signed(half_epochs * epoch as i64 / 2),
                    Ordering::Relaxed,
                );
            }
            9 => {
                let time = around(run.clock(), input.u8() as i8).max(START);
                run.clock.store(time, Ordering::Relaxed);
            }
            10 => run.sweep(),
            11 => run.grow(),
            12 => run.commit(),
            13 => run.rollback(),
            14 => {
                if input.u8().is_multiple_of(2) {
                    run.reopen();
                } else {
                    let read_first = input.u8().is_multiple_of(2);
                    run.crash(read_first);
                }
            }
            // Everything is checked at the end too.
            _ => {
                checks += 1;
                if checks <= 6 {
                    run.check_writer();
                    run.check_readers();
                }
            }
        }
    }
    run.check_writer();
    run.commit();
    run.check_readers();
    run.crash(true);
    run.check_readers();
});
