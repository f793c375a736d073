//! Random operations on one filter of either kind, against a model.
//!
//! Invariants checked, after any operations with any crashes between them:
//!
//! 1. No false negatives: a writer finds every key of its transaction, a reader every key of the last commit, and
//!    counts are never too low.
//! 2. A commit is whole: after a crash the filter has the last commit's counters and metadata.
//! 3. A rollback, a crash or a dropped writer leaves no trace of the open transaction.
//! 4. All copies in the model can be removed from a counting filter. A set refuses removals, and stays unchanged.
//! 5. No key of the model is ever told to be new. `inserted` and `removed` are exact, and leave out only copies that a
//!    saturated group answers for. Closing reports lost changes if and only if there are uncommitted ones.
//! 6. Verification finds nothing. Doublings keep all of this.
//!
//! A crash is a copy of all files while the writer has them open, as a killed process leaves them. The writer is dropped
//! then, and the test goes on with the copy.
//!
//! Input: two bytes of options, then operations, one byte each with their operands.

#![no_main]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use gowk::{
    Batches, Error, GrowthRefusal, HashKind, KeyHash, Kind, Lookup, Options, Reader, SlotsPerBucket, Writer,
};
use gowk_fuzz::{Input, folder};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

/// The most doublings: larger files are slow to fuzz.
const MOST_GENERATIONS: u32 = 3;

/// The most inserts in one run, enough to fill the smallest filter.
const MOST_INSERTS: usize = 12_000;

/// What a filter must hold.
#[derive(Clone, Default, PartialEq, Debug)]
struct Model {
    /// The copies of each key. In a set always 1, even if the key was found by another key's entry and not stored.
    keys: BTreeMap<u32, u32>,
    inserted: u64,
    removed: u64,
    generation: u32,
    metadata: Option<Vec<u8>>,
}

struct Run {
    dir: TempDir,
    options: Options,
    hash: HashKind,
    kind: Kind,
    writer: Option<Writer>,
    reader: Option<Reader>,
    committed: Option<Model>,
    open: Model,
    /// Whether a rollback has given the filter up before its first commit.
    given_up: bool,
    /// Filters in which refusing a key takes long.
    inserts_left: usize,
}

impl Run {
    fn new(input: &mut Input<'_>) -> Self {
        let shape = input.u8();
        let slots = SlotsPerBucket::ALL[usize::from(shape) % 6];
        let hash = if (shape / 6).is_multiple_of(2) { HashKind::Xxh3 } else { HashKind::Caller };
        let kind = if (shape / 12).is_multiple_of(2) { Kind::Counting } else { Kind::Set };
        let max_kicks = [2000, 0, 3, 50][usize::from(input.u8()) % 4];
        let options = Options::new().capacity(1).slots_per_bucket(slots).seed(shape.into()).hash(hash);
        let options = options.kind(kind).max_kicks(max_kicks).void_growth(true);
        let mut run = Self {
            dir: folder(),
            options,
            hash,
            kind,
            writer: None,
            reader: None,
            committed: None,
            open: Model::default(),
            given_up: false,
            inserts_left: MOST_INSERTS,
        };
        run.open_writer();
        run
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("f")
    }

    fn open_writer(&mut self) {
        self.given_up = false;
        self.open = self.committed.clone().unwrap_or_default();
        self.writer = Some(self.options.open(self.path()).expect("a filter of ours"));
        self.check_writer();
    }

    fn writer(&mut self) -> &mut Writer {
        self.writer.as_mut().expect("no writer between operations")
    }

    /// Hashes with few buckets and tags, so that keys collide.
    fn hash(&mut self, key: u32) -> KeyHash {
        match self.hash {
            HashKind::Xxh3 => self.writer().hash(&key.to_le_bytes()).expect("a filter that hashes"),
            HashKind::Caller => caller_hash(key),
        }
    }

    fn insert(&mut self, key: u32) {
        let hash = self.hash(key);
        match self.writer().insert(hash) {
            Ok(new) => self.inserted(key, new),
            Err(Error::Growth { reason: GrowthRefusal::Crowded { .. }, .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Takes note of an inserted key, told to be new or not.
    fn inserted(&mut self, key: u32, new: bool) {
        let copies = self.open.keys.entry(key).or_default();
        assert!(*copies == 0 || !new, "key {key} is stored, and told to be new");
        match self.kind {
            Kind::Counting => {
                *copies += 1;
                self.open.inserted += 1;
            }
            _ => {
                *copies = 1;
                self.open.inserted += u64::from(new);
            }
        }
    }

    /// Whether the filter may take more keys: it may double by itself, but not without end.
    fn takes_more(&mut self) -> bool {
        let info = self.writer().info().expect("open");
        info.generation < MOST_GENERATIONS || info.load < 0.7
    }

    fn insert_all(&mut self, keys: impl Iterator<Item = u32>) {
        if self.takes_more() {
            for key in keys.take(self.inserts_left) {
                self.insert(key);
                self.inserts_left -= 1;
            }
            self.note_counters();
        }
    }

    fn insert_batch(&mut self, keys: impl Iterator<Item = u32>) {
        if self.takes_more() {
            let keys: Vec<u32> = keys.take(self.inserts_left).collect();
            self.inserts_left -= keys.len();
            let hashes: Vec<KeyHash> = keys.iter().map(|key| self.hash(*key)).collect();
            let inserted = self.writer().insert_batch(&hashes).expect("intact");
            assert_eq!((inserted.keys(), inserted.mask().len()), (keys.len(), keys.len()));
            let mut refused = inserted.refused().iter().map(|(index, _)| *index).peekable();
            for (index, key) in keys.iter().enumerate() {
                if refused.next_if_eq(&index).is_none() {
                    self.inserted(*key, inserted.is_new(index));
                }
            }
            self.note_counters();
        }
    }

    /// Takes over the generation, and the counters: copies that a saturated group answers for are not counted, and no
    /// call tells which they are.
    fn note_counters(&mut self) {
        let info = self.writer().info().expect("open");
        let model = &mut self.open;
        if info.saturated == 0 {
            assert_eq!((info.inserted, info.removed), (model.inserted, model.removed));
        } else {
            assert!(info.inserted <= model.inserted && info.removed <= model.removed);
        }
        (model.inserted, model.removed, model.generation) = (info.inserted, info.removed, info.generation);
    }

    fn remove(&mut self, choice: u16) {
        let keys = &self.open.keys;
        let key = keys.range(u32::from(choice)..).next().or_else(|| keys.iter().next());
        let Some(key) = key.map(|(key, _)| *key) else { return };
        let hash = self.hash(key);
        match self.writer().remove(hash) {
            Ok(removed) => {
                assert!(removed && self.kind == Kind::Counting, "a stored key cannot be removed");
                self.open.removed += 1;
                let copies = self.open.keys.entry(key).or_default();
                *copies -= 1;
                if *copies == 0 {
                    self.open.keys.remove(&key);
                }
                self.note_counters();
            }
            Err(Error::Kind { .. }) => {
                assert_eq!(self.kind, Kind::Set);
                assert!(self.writer().contains(hash).expect("intact"), "a refused removal removed {key}");
            }
            Err(error) => panic!("{error}"),
        }
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
        self.given_up = self.committed.is_none();
        self.open = self.committed.clone().unwrap_or_default();
        self.check_writer();
    }

    /// Closes the writer, or drops it, and opens the filter again.
    fn reopen(&mut self, closed: bool) {
        let writer = self.writer.take().expect("no writer between operations");
        if closed {
            let changed = match &self.committed {
                Some(committed) => self.open != *committed,
                None => self.open != Model::default() || !self.given_up,
            };
            match writer.close() {
                Ok(()) => assert!(!changed, "changes are lost without an error"),
                Err(Error::Uncommitted { .. }) => assert!(changed, "an error, though no change is lost"),
                Err(error) => panic!("{error}"),
            }
        } else {
            drop(writer);
        }
        self.check_readers();
        self.open_writer();
    }

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
        let stale = fs::read_dir(self.dir.path()).expect("our folder").count();
        assert!(stale <= 4, "{stale} files: a dead writer's temporary files are left");
    }

    fn set_metadata(&mut self, input: &mut Input<'_>) {
        let length = usize::from(input.u8()) * 8;
        let value = vec![input.u8(); length];
        self.writer().metadata_mut().expect("open").set("m", value.clone());
        self.open.metadata = Some(value);
    }

    /// Checks that the writer has the open transaction.
    fn check_writer(&mut self) {
        let model = self.open.clone();
        let info = self.writer().info().expect("open");
        assert_eq!(info.generation, model.generation);
        assert_eq!((info.inserted, info.removed), (model.inserted, model.removed));
        assert_eq!(info.copies, model.inserted - model.removed);
        if self.kind == Kind::Counting && info.saturated == 0 {
            assert_eq!(info.copies, model.keys.values().map(|copies| u64::from(*copies)).sum::<u64>());
        }
        let metadata = self.writer().metadata().expect("open");
        assert_eq!(metadata.get("m"), model.metadata.as_deref());
        for (key, copies) in &model.keys {
            let hash = self.hash(*key);
            assert!(self.writer().contains(hash).expect("intact"), "the writer lost {key}");
            let least = *copies.min(&info.slots_per_bucket.highest_count());
            assert!(self.writer().count(hash).expect("intact") >= least, "copies of {key}");
        }
    }

    /// Checks that an older reader and a new one have the last commit.
    fn check_readers(&mut self) {
        let Some(model) = self.committed.clone() else {
            assert!(matches!(Reader::open(self.path()), Err(Error::NotFound { .. })));
            return;
        };
        let fresh = Reader::open(self.path()).expect("a filter of ours");
        for reader in [self.reader.get_or_insert_with(|| fresh.clone()), &fresh] {
            let info = reader.info().expect("intact");
            assert_eq!((info.generation, info.kind), (model.generation, self.kind));
            assert_eq!((info.inserted, info.removed), (model.inserted, model.removed));
            assert_eq!(reader.metadata().expect("intact").get("m"), model.metadata.as_deref());
            for (key, copies) in &model.keys {
                let hash = match self.hash {
                    HashKind::Xxh3 => reader.hash(&key.to_le_bytes()).expect("a filter that hashes"),
                    HashKind::Caller => caller_hash(*key),
                };
                assert!(reader.contains(hash).expect("intact"), "a reader lost {key}");
                let least = *copies.min(&info.slots_per_bucket.highest_count());
                assert!(reader.count(hash).expect("intact") >= least, "copies of {key}");
            }
        }
        let report = fresh.verify(&|_, _| {}).expect("intact");
        assert!(report.is_clean(), "{report:?}");
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
        match input.u8() % 16 {
            0..=2 => {
                let key = input.u32();
                run.insert_all([key].into_iter());
            }
            // Many keys at once, some of them twice.
            3 => {
                let (first, step, count) = (input.u32(), u32::from(input.u8()), u32::from(input.u8()));
                let keys = (0..4 * count).map(|i| first.wrapping_add((i % 500).wrapping_mul(step)));
                run.insert_batch(keys);
            }
            // Many keys with neighbouring numbers.
            4 => {
                let (first, step, count) = (input.u32(), u32::from(input.u8()), u32::from(input.u8()));
                let keys = (0..4 * count).map(|i| first.wrapping_add(i.wrapping_mul(step)));
                run.insert_all(keys);
            }
            // One key again and again, up to more copies than two slots a bucket can count.
            5 => {
                let (key, count) =
                    (input.u32(), [input.u16() % 20, input.u16() % 1500][usize::from(input.u8()) % 2]);
                run.insert_all((0..count).map(|_| key));
            }
            6 | 7 => {
                let choice = input.u16();
                run.remove(choice);
            }
            8 => (0..input.u8() % 64).for_each(|i| run.remove(u16::from(i) * 7)),
            9 => run.grow(),
            10 => run.commit(),
            11 => run.rollback(),
            12 => {
                let closed = input.u8().is_multiple_of(2);
                run.reopen(closed);
            }
            13 => {
                let read_first = input.u8().is_multiple_of(2);
                run.crash(read_first);
            }
            14 => run.set_metadata(&mut input),
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
