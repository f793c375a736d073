//! The protocol of sequences and epoch, in a model of memory.
//!
//! The code under test is the real code, above a memory that loom provides: a load may return any value that the memory
//! model allows, and loom tries every order of the threads' steps. Only the regions are a model: two buckets a region,
//! one of which holds a key. The writer's own loads bypass loom: no other thread stores, so the writer finds the value
//! that it stored last. Loom 0.7 does not try all orders of a load by one thread with a store by another that has itself
//! loaded the same word in between. `every_value_is_tried` fails if some orders are not tried.
//!
//! Invariants checked during a commit, two commits, a commit to several regions, and a recovery after a dead writer:
//!
//! 1. A key that is stored all the time is never reported absent, although the writer moves it.
//! 2. Counters are those of one commit.
//! 3. A private replay gives no answer once the file has changed.
//! 4. A lookup ends if there is no writer, or if the writer has finished.
//! 5. The shortcut (`shortcut.rs`) never reports such a key absent, and gives no answer after a flag was set.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Mutex;

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

use super::*;
use crate::format::STATE_IN_USE;

const KEY: u64 = 7;
const REGIONS: usize = 2;
const FIRST: RegionId = RegionId(0);
const SECOND: RegionId = RegionId(1);

/// A word, and the value that its only writer stored last.
struct Word(AtomicU64, std::sync::atomic::AtomicU64);

impl Word {
    fn new(value: u64) -> Self {
        Self(AtomicU64::new(value), value.into())
    }

    fn store(&self, value: u64) {
        self.1.store(value, Ordering::Relaxed);
        self.0.store(value, Ordering::Relaxed);
    }

    fn load(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn load_own(&self) -> u64 {
        self.1.load(Ordering::Relaxed)
    }
}

/// The words of the live area that matter here, and the two buckets of each region.
struct Words {
    flags: Word,
    epoch: Word,
    copy: Word,
    commit: Word,
    inserted: Word,
    sequences: [Word; REGIONS],
    buckets: [[Word; 2]; REGIONS],
}

#[derive(Clone)]
struct Memory(Arc<Words>);

impl Memory {
    /// No commit is being applied; the key lies in the first bucket of each region.
    fn new() -> Self {
        Self(Arc::new(Words {
            flags: Word::new(0),
            epoch: Word::new(4),
            copy: Word::new(2),
            commit: Word::new(1),
            inserted: Word::new(1),
            sequences: std::array::from_fn(|_| Word::new(2)),
            buckets: std::array::from_fn(|_| [Word::new(KEY), Word::new(0)]),
        }))
    }

    fn word_at(&self, index: usize) -> Option<&Word> {
        const FLAGS: usize = word(LIVE_FLAGS);
        const EPOCH: usize = word(LIVE_EPOCH);
        const COPY: usize = word(LIVE_COPY);
        const COMMIT: usize = word(LIVE_COUNTERS);
        const INSERTED: usize = word(LIVE_COUNTERS + 8);
        match index {
            FLAGS => Some(&self.0.flags),
            EPOCH => Some(&self.0.epoch),
            COPY => Some(&self.0.copy),
            COMMIT => Some(&self.0.commit),
            INSERTED => Some(&self.0.inserted),
            _ => None,
        }
    }

    fn half_at(&self, index: usize) -> &Word {
        &self.0.sequences[index - half(LIVE_SEQUENCES)]
    }

    fn bucket(&self, region: RegionId, bucket: usize) -> &Word {
        &self.0.buckets[region.0 as usize][bucket]
    }

    /// Writes a region as a commit does: bucket by bucket.
    fn write(&self, region: RegionId, buckets: [u64; 2]) {
        for (bucket, word) in buckets.into_iter().enumerate() {
            self.bucket(region, bucket).store(word);
        }
    }

    fn contains(&self, region: RegionId) -> bool {
        (0..2).any(|bucket| self.bucket(region, bucket).load() == KEY)
    }
}

impl SharedMemory for Memory {
    fn word(&self, index: usize) -> u64 {
        self.word_at(index).map_or(0, Word::load_own)
    }

    fn half(&self, index: usize) -> u32 {
        self.half_at(index).load_own() as u32
    }

    fn set_word(&self, index: usize, value: u64) {
        if let Some(word) = self.word_at(index) {
            word.store(value);
        }
    }

    fn set_half(&self, index: usize, value: u32) {
        self.half_at(index).store(value.into());
    }

    fn reserve(&self, _: Range<usize>) -> io::Result<()> {
        Ok(())
    }

    fn fence(ordering: Ordering) {
        loom::sync::atomic::fence(ordering);
    }
}

impl LiveHead for Memory {
    fn live_word(&self, offset: u64) -> u64 {
        self.word_at(word(offset)).map_or(0, Word::load)
    }

    fn fence(ordering: Ordering) {
        loom::sync::atomic::fence(ordering);
    }
}

impl LiveRead for Memory {
    fn live_half(&self, offset: u64) -> u32 {
        self.half_at(half(offset)).load() as u32
    }
}

fn live(memory: &Memory) -> Live<Memory> {
    Live { memory: memory.clone(), file: None, path: PathBuf::new() }
}

fn commit(number: u64) -> LiveCopy {
    let counts = Counts { inserted: number, ..Counts::default() };
    LiveCopy { commit: number, counts, metadata: Vec::new() }
}

/// Applies a commit that leaves these buckets in these regions.
fn apply(memory: &Memory, number: u64, regions: &[RegionId], buckets: [u64; 2]) {
    let write = |region| {
        memory.write(region, buckets);
        Ok(())
    };
    live(memory).apply(regions.iter().copied(), &commit(number), write).unwrap();
}

fn set_flag(memory: &Memory, flag: u64) {
    let store = |at, value| {
        SharedMemory::set_word(memory, word(at), value);
        Ok(())
    };
    live(memory).set_flag(flag, true, store).unwrap();
}

/// A lookup as readers make it. It retries up to `patience` times before it gives up.
fn lookup(memory: &Memory, region: RegionId, patience: u32) -> Option<bool> {
    let mut left = patience;
    let wait = || {
        thread::yield_now();
        left = left.saturating_sub(1);
        left > 0
    };
    memory.read_consistent(region, || memory.contains(region), |found| *found, wait)
}

/// A look that notes the epoch for the shortcut, if that is even and no flag is set.
fn note_epoch(memory: &Memory, noted: &AtomicU64) {
    if let Some(epoch) = memory.quiet_epoch() {
        noted.store(epoch, Ordering::Release);
    }
}

/// A lookup by the shortcut.
fn shortcut(memory: &Memory, noted: &AtomicU64) -> Option<bool> {
    let epoch = noted.load(Ordering::Acquire);
    let found = memory.contains(FIRST);
    memory.is_still(epoch).then_some(found)
}

/// Runs `reader` beside `writer` in every interleaving. If that would take long, runs only interleavings in which each
/// thread is interrupted at most a given number of times.
fn explore(
    interruptions: Option<usize>,
    memory: impl Fn() -> Memory + Send + Sync + 'static,
    writer: impl Fn(&Memory) + Send + Sync + Copy + 'static,
    reader: impl Fn(&Memory) + Send + Sync + 'static,
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = interruptions;
    model.check(move || {
        let memory = memory();
        let other = memory.clone();
        let thread = thread::spawn(move || writer(&other));
        reader(&memory);
        thread.join().unwrap();
    });
}

#[test]
fn every_value_is_tried() {
    let seen = Mutex::new(BTreeSet::new());
    let seen = std::sync::Arc::new(seen);
    let noted = seen.clone();
    explore(
        None,
        Memory::new,
        |memory| apply(memory, 2, &[FIRST], [0, KEY]),
        move |memory| {
            noted.lock().unwrap().insert((memory.epoch(), memory.sequence(FIRST)));
        },
    );
    // All combinations, except an old sequence under an epoch that was stored after the new sequence.
    let all = [(4, 2), (4, 3), (4, 4), (5, 2), (5, 3), (5, 4), (6, 4)];
    assert_eq!(*seen.lock().unwrap(), BTreeSet::from(all));
}

#[test]
fn a_key_that_a_commit_moves_is_never_absent() {
    explore(
        None,
        Memory::new,
        |memory| apply(memory, 2, &[FIRST], [0, KEY]),
        |memory| assert_ne!(lookup(memory, FIRST, 2), Some(false)),
    );
}

#[test]
fn a_key_that_two_commits_move_there_and_back_is_never_absent() {
    explore(
        Some(3),
        Memory::new,
        |memory| {
            apply(memory, 2, &[FIRST], [0, KEY]);
            apply(memory, 3, &[FIRST], [KEY, 0]);
        },
        |memory| assert_ne!(lookup(memory, FIRST, 1), Some(false)),
    );
}

#[test]
fn a_key_in_the_second_region_of_a_commit_is_never_absent() {
    explore(
        None,
        Memory::new,
        |memory| apply(memory, 2, &[FIRST, SECOND], [0, KEY]),
        |memory| assert_ne!(lookup(memory, SECOND, 1), Some(false)),
    );
}

#[test]
fn the_shortcut_never_finds_a_key_absent_that_a_commit_moves() {
    explore(
        Some(3),
        Memory::new,
        |memory| apply(memory, 2, &[FIRST], [0, KEY]),
        |memory| {
            let noted = Arc::new(AtomicU64::new(4));
            let (other, theirs) = (memory.clone(), noted.clone());
            let thread = thread::spawn(move || note_epoch(&other, &theirs));
            assert_ne!(shortcut(memory, &noted), Some(false));
            thread.join().unwrap();
        },
    );
}

#[test]
fn the_shortcut_answers_nothing_once_a_flag_is_set() {
    for flag in [SUPERSEDED, POISONED] {
        // The bucket stands for the later event: the rename, or the state word that the writer leaves.
        explore(
            None,
            Memory::new,
            move |memory| {
                set_flag(memory, flag);
                memory.bucket(SECOND, 1).store(KEY);
            },
            |memory| {
                let noted = AtomicU64::new(u64::MAX);
                note_epoch(memory, &noted);
                let is_over = memory.bucket(SECOND, 1).load() == KEY;
                loom::sync::atomic::fence(Ordering::Acquire);
                assert!(!is_over || shortcut(memory, &noted).is_none());
            },
        );
    }
}

#[test]
fn what_a_dead_writer_left_is_never_believed_before_or_while_it_is_recovered() {
    for region in [FIRST, SECOND] {
        explore(
            None,
            // The writer died in the middle of the first region; the journal moves the key in both.
            || {
                let memory = Memory::new();
                SharedMemory::set_word(&memory, word(LIVE_EPOCH), 5);
                SharedMemory::set_half(&memory, half(LIVE_SEQUENCES), 3);
                memory.bucket(FIRST, 0).store(0);
                memory
            },
            |memory| {
                let redo = || {
                    memory.write(FIRST, [0, KEY]);
                    memory.write(SECOND, [0, KEY]);
                    Ok(())
                };
                live(memory).recover(REGIONS as u64, &commit(2), redo).unwrap();
            },
            move |memory| assert_ne!(lookup(memory, region, 1), Some(false)),
        );
    }
}

#[test]
fn counters_are_those_of_one_commit() {
    let consistent = |memory: &Memory| {
        if let Some(copy) = memory.live_copy() {
            assert_eq!(copy.commit, copy.counts.inserted);
        }
    };
    explore(None, Memory::new, |memory| apply(memory, 2, &[], [0, 0]), consistent);
    explore(None, Memory::new, |memory| apply(memory, 2, &[FIRST], [0, KEY]), consistent);
}

#[test]
fn counters_of_the_last_commit_are_those_of_one_and_can_be_had_while_the_next_is_applied() {
    explore(
        None,
        Memory::new,
        |memory| apply(memory, 2, &[FIRST], [0, KEY]),
        |memory| {
            let applying = memory.sequence(FIRST) == 3;
            match memory.last_live_copy() {
                Some(copy) => assert_eq!(copy.commit, copy.counts.inserted),
                // Once the region is being applied, the copy has been stored or is being stored.
                None => assert!(!applying || memory.live_word(LIVE_COPY) != 2),
            }
        },
    );
}

#[test]
fn a_private_replay_answers_nothing_once_the_file_goes_on() {
    explore(
        None,
        || {
            let memory = Memory::new();
            // The epoch of a dead writer, so that there is something to replay.
            SharedMemory::set_word(&memory, word(LIVE_EPOCH), 5);
            memory
        },
        |memory| {
            let live = live(memory);
            live.recover(REGIONS as u64, &commit(2), || Ok(())).unwrap();
            apply(memory, 3, &[FIRST], [0, KEY]);
        },
        |memory| {
            // The second bucket was replayed and is private. The first is read from the file.
            let found = memory.bucket(FIRST, 0).load() == KEY;
            assert!(found || !memory.is_still(5));
        },
    );
}

#[test]
fn counters_are_those_of_one_commit_while_a_file_is_recovered() {
    explore(
        None,
        || {
            // The writer died while storing them; the regions are as they were.
            let memory = Memory::new();
            SharedMemory::set_word(&memory, word(LIVE_EPOCH), 5);
            SharedMemory::set_word(&memory, word(LIVE_COUNTERS), 2);
            memory
        },
        |memory| {
            let redo = || Ok(());
            live(memory).recover(REGIONS as u64, &commit(2), redo).unwrap();
        },
        |memory| {
            if let Some(copy) = memory.live_copy() {
                assert_eq!(copy.commit, copy.counts.inserted);
            }
        },
    );
}

#[test]
fn recovery_never_leaves_an_epoch_or_a_sequence_that_was_seen_before() {
    loom::model(|| {
        for (epoch, sequence) in [(4, 2), (5, 2), (5, 3)] {
            let memory = Memory::new();
            SharedMemory::set_word(&memory, word(LIVE_EPOCH), epoch);
            SharedMemory::set_half(&memory, half(LIVE_SEQUENCES), sequence);
            let redo = || {
                assert!(memory.epoch() > epoch && memory.epoch() % 2 == 1);
                assert!(memory.sequence(FIRST) > sequence && memory.sequence(FIRST) % 2 == 1);
                Ok(())
            };
            live(&memory).recover(REGIONS as u64, &commit(2), redo).unwrap();
            assert!(memory.epoch() > epoch + 1 && memory.epoch().is_multiple_of(2));
            assert!(memory.sequence(FIRST) > sequence + 1 && memory.sequence(FIRST).is_multiple_of(2));
        }
    });
}

#[test]
fn lookups_come_to_an_end() {
    loom::model(|| {
        let memory = Memory::new();
        let other = memory.clone();
        thread::spawn(move || apply(&other, 2, &[FIRST], [0, KEY])).join().unwrap();
        assert_eq!(lookup(&memory, FIRST, 0), Some(true));
        memory.write(FIRST, [0, 0]);
        assert_eq!(lookup(&memory, FIRST, 0), Some(false));
        // The writer died in the middle of another region. The sequence of this region shows that it is whole.
        SharedMemory::set_word(&memory, word(LIVE_EPOCH), 7);
        assert_eq!(lookup(&memory, FIRST, 0), Some(false));
        SharedMemory::set_half(&memory, half(LIVE_SEQUENCES), 5);
        assert_eq!(lookup(&memory, FIRST, 0), None);
        set_flag(&memory, POISONED);
        assert_eq!(lookup(&memory, FIRST, u32::MAX), None);
    });
}

/// The system reports EFAULT both for a page past the end of the file and for one that it cannot read.
#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_read_is_not_called_a_full_disk() {
    use crate::error::Error;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let file = File::create_new(&path).unwrap();
    file.set_len(LIVE + 4 * PAGE).unwrap();
    let memory = MapMut::shared(&file, LIVE, 4 * PAGE).unwrap();
    let live = Live { memory, file: Some(file.try_clone().unwrap()), path };
    assert!(live.reserve_bytes(3 * PAGE..3 * PAGE + 8).is_ok());
    file.set_len(LIVE + PAGE).unwrap();
    assert!(live.reserve_bytes(8..16).is_ok());
    match live.reserve_bytes(3 * PAGE..3 * PAGE + 8) {
        Err(Error::Io { op: "read", source, .. }) => assert_eq!(source.kind(), io::ErrorKind::UnexpectedEof),
        outcome => panic!("{outcome:?}"),
    }
}

/// A memory that records reservations, and refuses stores to anything else.
struct Reserving {
    words: Vec<Cell<u64>>,
    reserved: RefCell<Vec<Range<usize>>>,
    /// The pages that were stored to.
    stored: RefCell<BTreeSet<usize>>,
}

/// A live area of this many regions.
fn reserving(regions: u64) -> Live<Reserving> {
    let words = vec![Cell::new(0); word(LIVE_SEQUENCES + 4 * regions) + 1];
    let memory = Reserving { words, reserved: RefCell::default(), stored: RefCell::default() };
    Live { memory, file: None, path: PathBuf::new() }
}

impl Reserving {
    fn store(&self, bytes: Range<usize>) {
        let is_in = |reserved: &Range<usize>| reserved.start <= bytes.start && bytes.end <= reserved.end;
        assert!(self.reserved.borrow().iter().any(is_in), "{bytes:?} is not reserved");
        self.stored.borrow_mut().insert(bytes.start / PAGE as usize);
    }

    fn reserved_pages(&self) -> BTreeSet<usize> {
        let pages = |bytes: &Range<usize>| bytes.start / PAGE as usize..=(bytes.end - 1) / PAGE as usize;
        self.reserved.borrow().iter().flat_map(pages).collect()
    }
}

impl SharedMemory for Reserving {
    fn word(&self, index: usize) -> u64 {
        self.words[index].get()
    }

    fn half(&self, index: usize) -> u32 {
        (self.words[index / 2].get() >> (32 * (index % 2))) as u32
    }

    fn set_word(&self, index: usize, value: u64) {
        self.store(8 * index..8 * index + 8);
        self.words[index].set(value);
    }

    fn set_half(&self, index: usize, value: u32) {
        self.store(4 * index..4 * index + 4);
        let shift = 32 * (index % 2);
        let other = self.words[index / 2].get() & !(u64::from(u32::MAX) << shift);
        self.words[index / 2].set(other | u64::from(value) << shift);
    }

    fn reserve(&self, bytes: Range<usize>) -> io::Result<()> {
        assert!(bytes.start < bytes.end && bytes.end <= 8 * self.words.len(), "{bytes:?}");
        self.reserved.borrow_mut().push(bytes);
        Ok(())
    }

    fn fence(_: Ordering) {}
}

/// On a full disk, a store to an unreserved page would kill the process.
#[test]
fn nothing_is_stored_that_was_not_reserved() {
    const REGIONS: u64 = 5001;
    let regions = [0, 1, 1023, 1024, 2048, 5000].map(RegionId);
    for metadata in [0, 1, 9, 5000] {
        let copy = LiveCopy { metadata: vec![7; metadata], ..commit(1) };
        let (live, ahead) = (reserving(REGIONS), reserving(REGIONS));
        live.apply(regions, &copy, |_| Ok(())).unwrap();
        ahead.reserve(regions, &copy).unwrap();
        let (stored, reserved) = (live.memory.stored.take(), ahead.memory.reserved_pages());
        assert!(stored.is_subset(&reserved), "{stored:?} {reserved:?}");
        let sequence = |live: &Live<Reserving>, region| live.memory.half(half(sequence_at(RegionId(region))));
        assert_eq!([0, 1, 2, 1023, 1024, 1025, 5000].map(|at| sequence(&live, at)), [2, 2, 0, 2, 2, 0, 2]);

        let live = reserving(REGIONS);
        let odd = || {
            assert!((0..5001).all(|region| sequence(&live, region) == 1));
            Ok(())
        };
        live.recover(REGIONS, &copy, odd).unwrap();
        assert!((0..5001).all(|region| sequence(&live, region) == 2));
        let words = live.memory.words[word(LIVE_METADATA)..word(LIVE_SEQUENCES)].iter();
        let bytes: Vec<u8> = words.flat_map(|word| word.get().to_le_bytes()).collect();
        assert!(
            bytes[..metadata].iter().all(|byte| *byte == 7)
                && bytes[metadata..].iter().all(|byte| *byte == 0)
        );
    }
}

#[test]
fn a_flag_that_is_set_twice_stays_set_and_changes_no_other() {
    let live = reserving(1);
    let set = |flag, set| {
        let store = |at, value| {
            live.memory.words[word(at)].set(value);
            Ok(())
        };
        live.set_flag(flag, set, store).unwrap();
        live.memory.word(word(LIVE_FLAGS))
    };
    assert_eq!(set(SUPERSEDED, true), SUPERSEDED);
    assert_eq!(set(SUPERSEDED, true), SUPERSEDED);
    assert_eq!(set(POISONED, true), u64::MAX);
    assert_eq!(set(SUPERSEDED, false), POISONED);
    assert_eq!(set(SUPERSEDED, false), POISONED);
    assert_eq!(POISONED >> 32, SUPERSEDED);
}

/// A memory for which the system finds no room the first few times.
struct Full(Cell<u32>);

impl SharedMemory for Full {
    fn word(&self, _: usize) -> u64 {
        0
    }

    fn half(&self, _: usize) -> u32 {
        0
    }

    fn set_word(&self, _: usize, _: u64) {}

    fn set_half(&self, _: usize, _: u32) {}

    fn reserve(&self, _: Range<usize>) -> io::Result<()> {
        match self.0.get() {
            0 => Ok(()),
            left => {
                self.0.set(left - 1);
                Err(io::ErrorKind::StorageFull.into())
            }
        }
    }

    fn fence(_: Ordering) {}
}

#[test]
fn a_full_disk_is_called_that_where_the_bytes_can_be_read() {
    use crate::error::Error;
    let file = tempfile::tempfile().unwrap();
    file.set_len(LIVE + 4 * PAGE).unwrap();
    let reserve = |times| {
        let memory = Full(Cell::new(times));
        let live = Live { memory, file: Some(file.try_clone().unwrap()), path: PathBuf::new() };
        live.reserve_bytes(4 * PAGE - 8..4 * PAGE)
    };
    // A block beside these bytes could not be read.
    reserve(1).unwrap();
    match reserve(2) {
        Err(Error::Io { op: "write", source, .. }) => assert_eq!(source.kind(), io::ErrorKind::StorageFull),
        outcome => panic!("{outcome:?}"),
    }
}

fn geometry(regions: u64) -> Geometry {
    Geometry::new(crate::cuckoo::SlotsPerBucket::Four, regions, 0, crate::cuckoo::Shard::WHOLE).unwrap()
}

#[test]
fn a_copy_in_memory_is_that_of_an_idle_file() {
    let geometry = geometry(3);
    let memory = MapMut::anonymous(geometry.file_length()).unwrap();
    set_idle(&memory, 7, 3970);
    let map = Map::of_memory(memory, geometry).unwrap();
    assert!(map.is_idle() && !map.needs_recovery() && !map.flagged());
    assert_eq!((map.now(), map.live_copy().unwrap().commit), (Some(3970), 7));
    let before = (0..word(LIVE)).find(|index| map.word(*index) != 0);
    assert_eq!(before, None, "a word of the superblocks");
}

/// Stores the copy as a commit does, and reads it by the same functions.
#[test]
fn the_live_area_of_a_new_file_is_that_of_its_commit() {
    let geometry = geometry(3);
    for (metadata, state) in [(0, STATE_IDLE), (1, STATE_IN_USE), (9, STATE_IDLE), (5000, STATE_IN_USE)] {
        let counts = Counts { epoch: 3970, ..commit(7).counts };
        let copy = LiveCopy { metadata: vec![7; metadata], counts, ..commit(7) };
        let file = tempfile::tempfile().unwrap();
        file.set_len(geometry.file_length()).unwrap();
        let live = Live::map(&file, Path::new("f"), geometry).unwrap();
        live.store_copy(&copy).unwrap();
        file.write_all_at(&state, LIVE + LIVE_STATE).unwrap();
        let mut stored = vec![0; (geometry.sums() - LIVE) as usize];
        file.read_exact_at(&mut stored, LIVE).unwrap();
        let salt = 0x1234_5678_9abc_def1;
        file.write_all_at(&first_epoch(salt).to_le_bytes(), LIVE + LIVE_EPOCH).unwrap();
        file.read_exact_at(&mut stored, LIVE).unwrap();
        let new = of_new_file(&copy, state, salt);
        assert!(new == stored[..new.len()], "{metadata}");
        assert!(stored[new.len()..].iter().all(|byte| *byte == 0));
        let map = Map::shared(&file, geometry).unwrap();
        assert_eq!((map.is_idle(), map.now()), (state == STATE_IDLE, Some(3970)));
        assert_eq!(map.live_copy().unwrap(), copy);
        assert!(map.epoch() == 0x91a_2b3c_4d5e_6f78_u64 && first_epoch(u64::MAX) < u64::MAX / 2);
    }
}

#[test]
fn the_sequence_of_each_region_is_read_where_the_writer_stores_it() {
    let geometry = geometry(3);
    let file = tempfile::tempfile().unwrap();
    file.set_len(geometry.file_length()).unwrap();
    let live = Live::map(&file, Path::new("f"), geometry).unwrap();
    let map = Map::shared(&file, geometry).unwrap();
    let sequences = || [0, 1, 2].map(|region| map.sequence(RegionId(region)));
    let apply = |number, regions: &[RegionId]| {
        let write = |region| {
            assert_eq!(map.sequence(region) % 2, 1);
            Ok(())
        };
        live.apply(regions.iter().copied(), &commit(number), write).unwrap();
    };
    apply(1, &[RegionId(1)]);
    assert_eq!(sequences(), [0, 2, 0]);
    apply(2, &[RegionId(1), RegionId(2)]);
    assert_eq!(sequences(), [0, 4, 2]);
}
