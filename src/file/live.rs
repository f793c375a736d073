//! The live area, where a writer shows readers what it is doing. It is volatile and has no checksum: after a crash,
//! recovery writes it anew from the superblock and the journal.
//!
//! It is a set of *seqlocks*. The **apply epoch** is odd while a commit is being applied anywhere, each region's
//! **sequence** is odd while that region is changed, and the **copy sequence** is odd while counters and metadata are
//! stored. None ever goes back. So a reader that finds the same even number before and after its reads knows that nothing
//! was stored in between. `format-spec/README.md`, sections 5.4 and 7.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use zerocopy::{FromZeros, IntoBytes};

use crate::cuckoo::{Counts, RegionId};
use crate::error::{IoContext, Result};
use crate::format::{
    Geometry, LIVE, LIVE_COPY, LIVE_COUNTERS, LIVE_EPOCH, LIVE_FLAGS, LIVE_METADATA, LIVE_METADATA_LENGTH,
    LIVE_NOW, LIVE_SEQUENCES, LIVE_STATE, METADATA_LIMIT, PAGE, RawCounts, STATE_IDLE,
};
use crate::system::{HEAD_WORDS, Map, MapMut, SharedMemory, Words};

/// Each flag is one half of the word, and is set if that half is not 0 (`format-spec/README.md`, section 5.4).
const SUPERSEDED: u64 = u32::MAX as u64;
const POISONED: u64 = SUPERSEDED << 32;

const fn word(offset: u64) -> usize {
    (offset / 8) as usize
}

const fn half(offset: u64) -> usize {
    (offset / 4) as usize
}

/// The commit number, counts and metadata in the live area, as of one commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LiveCopy {
    pub(crate) commit: u64,
    pub(crate) counts: Counts,
    /// Encoded metadata.
    pub(crate) metadata: Vec<u8>,
}

/// The writer's side.
///
/// Each store through the map needs a reservation before it: on a full disk with a copy-on-write file system, a store
/// without one would raise SIGBUS. A write needs none, as it fails instead.
#[derive(Debug)]
pub(crate) struct Live<M = MapMut> {
    memory: M,
    /// A failed reservation finds its reason by reading this file; `None` for memory without a file.
    file: Option<File>,
    path: PathBuf,
}

impl Live {
    pub(crate) fn map(file: &File, path: &Path, geometry: Geometry) -> Result<Self> {
        let memory = MapMut::shared(file, LIVE, geometry.sums() - LIVE).at(path, "map")?;
        let file = Some(file.try_clone().at(path, "map")?);
        Ok(Self { memory, file, path: path.to_owned() })
    }

    /// Sets or clears the flag that makes readers look at the path before they answer.
    pub(crate) fn set_superseded(&self, file: &File, superseded: bool) -> io::Result<()> {
        self.set_flag(SUPERSEDED, superseded, |at, word| write_word(file, at, word))
    }

    /// Sets the flag of a writer that gave up in the middle of a commit: readers must open the file anew.
    pub(crate) fn set_poisoned(&self, file: &File) -> io::Result<()> {
        self.set_flag(POISONED, true, |at, word| write_word(file, at, word))
    }
}

/// Stores a word of the live area by a write. On a full disk with a copy-on-write file system, a write fails, while a
/// store through a map would raise SIGBUS.
fn write_word(file: &File, at: u64, word: u64) -> io::Result<()> {
    file.write_all_at(&word.to_le_bytes(), LIVE + at)
}

impl<M: SharedMemory> Live<M> {
    fn set_flag(&self, flag: u64, set: bool, store: impl Fn(u64, u64) -> io::Result<()>) -> io::Result<()> {
        let flags = self.memory.word(word(LIVE_FLAGS));
        store(LIVE_FLAGS, if set { flags | flag } else { flags & !flag })?;
        M::fence(Ordering::SeqCst);
        // Some readers look at the flags only after the epoch has changed.
        let stepped = store(LIVE_EPOCH, self.memory.word(word(LIVE_EPOCH)).wrapping_add(2));
        M::fence(Ordering::SeqCst);
        stepped
    }

    /// Reserves the live-area space for a commit to these regions, ascending; fails on a full disk. The reserved space
    /// may still be lost before it is used.
    pub(crate) fn reserve(&self, regions: impl IntoIterator<Item = RegionId>, copy: &LiveCopy) -> Result<()> {
        self.reserve_bytes(LIVE_EPOCH..LIVE_EPOCH + 8)?;
        self.reserve_copy(copy)?;
        let mut reserved = 0;
        for at in regions.into_iter().map(sequence_at) {
            if at >= reserved {
                self.reserve_bytes(at..at + 4)?;
                reserved = (at / PAGE + 1) * PAGE;
            }
        }
        Ok(())
    }

    /// Applies a commit: calls `write` for each region. Readers see all changes of a region in one step.
    pub(crate) fn apply(
        &self,
        regions: impl IntoIterator<Item = RegionId>,
        copy: &LiveCopy,
        mut write: impl FnMut(RegionId) -> Result<()>,
    ) -> Result<()> {
        self.step(LIVE_EPOCH, next_odd)?;
        // Stored before the regions: an entry of the new epoch would look expired in the old epoch.
        self.store_now(copy)?;
        for region in regions {
            self.step_sequence(region, next_odd)?;
            write(region)?;
            self.step_sequence(region, next_even)?;
        }
        self.store_copy(copy)?;
        self.step(LIVE_EPOCH, next_even)
    }

    /// Runs `redo`, which may change any region. Until it returns, the epoch and all sequences are odd, whatever values a
    /// dead writer or a power cut left there. Afterwards they are even, and higher than any reader can have seen.
    pub(crate) fn recover(
        &self,
        regions: u64,
        copy: &LiveCopy,
        redo: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.step(LIVE_EPOCH, next_odd)?;
        self.step_sequences(regions, next_odd)?;
        self.store_now(copy)?;
        redo()?;
        self.step_sequences(regions, next_even)?;
        self.reserve_bytes(LIVE_FLAGS..LIVE_FLAGS + 8)?;
        self.memory.set_word(word(LIVE_FLAGS), 0);
        self.store_copy(copy)?;
        self.step(LIVE_EPOCH, next_even)
    }

    fn step(&self, at: u64, step: fn(u64) -> u64) -> Result<()> {
        self.reserve_bytes(at..at + 8)?;
        M::fence(Ordering::SeqCst);
        let number = self.memory.word(word(at));
        self.memory.set_word(word(at), step(number));
        M::fence(Ordering::SeqCst);
        Ok(())
    }

    fn step_sequence(&self, region: RegionId, step: fn(u64) -> u64) -> Result<()> {
        let at = sequence_at(region);
        self.reserve_bytes(at..at + 4)?;
        self.step_reserved(at, step);
        Ok(())
    }

    /// Steps the sequences of all regions; reserves the live area a page at a time.
    fn step_sequences(&self, regions: u64, step: fn(u64) -> u64) -> Result<()> {
        const EACH: usize = (PAGE / 4) as usize;
        for first in (0..regions).step_by(EACH) {
            let page = LIVE_SEQUENCES + 4 * first..LIVE_SEQUENCES + 4 * regions.min(first + EACH as u64);
            self.reserve_bytes(page.clone())?;
            page.step_by(4).for_each(|at| self.step_reserved(at, step));
        }
        Ok(())
    }

    fn step_reserved(&self, at: u64, step: fn(u64) -> u64) {
        M::fence(Ordering::SeqCst);
        // Keeps only the low half: a sequence wraps after 2^31 commits to one region.
        self.memory.set_half(half(at), step(self.memory.half(half(at)).into()) as u32);
        M::fence(Ordering::SeqCst);
    }

    fn store_now(&self, copy: &LiveCopy) -> Result<()> {
        self.reserve_bytes(LIVE_NOW..LIVE_NOW + 8)?;
        self.memory.set_word(word(LIVE_NOW), now_word(copy.counts.epoch));
        Ok(())
    }

    /// Stores the commit number, counts and metadata.
    pub(super) fn store_copy(&self, copy: &LiveCopy) -> Result<()> {
        self.store_now(copy)?;
        self.step(LIVE_COPY, next_odd)?;
        self.reserve_copy(copy)?;
        self.memory.set_word(word(LIVE_COUNTERS), copy.commit);
        let counts = RawCounts::from(copy.counts);
        for (index, bytes) in (word(LIVE_COUNTERS) + 1..).zip(counts.as_bytes().chunks_exact(8)) {
            self.memory.set_word(index, from_bytes(bytes));
        }
        self.memory.set_word(word(LIVE_METADATA_LENGTH), copy.metadata.len() as u64);
        for (index, bytes) in (word(LIVE_METADATA)..word(LIVE_SEQUENCES)).zip(copy.metadata.chunks(8)) {
            self.memory.set_word(index, from_bytes(bytes));
        }
        self.step(LIVE_COPY, next_even)
    }

    /// Reserves only the bytes that are stored: a reserved page counts as changed, and is written to the medium.
    fn reserve_copy(&self, copy: &LiveCopy) -> Result<()> {
        self.reserve_bytes(LIVE_COPY..LIVE_METADATA + copy.metadata.len().next_multiple_of(8) as u64)
    }

    fn reserve_bytes(&self, bytes: Range<u64>) -> Result<()> {
        let reserve = || self.memory.reserve(bytes.start as usize..bytes.end as usize);
        let Err(error) = reserve() else { return Ok(()) };
        let Some(file) = &self.file else { return Err(error).at(&self.path, "write") };
        // The system gives the same error for a full medium and for an unreadable block, perhaps a neighbour that it
        // reads together with these bytes. A read of only these bytes shows which it is.
        let mut read = vec![0; (bytes.end - bytes.start) as usize];
        file.read_exact_at(&mut read, LIVE + bytes.start).at(&self.path, "read")?;
        reserve().at(&self.path, "write")
    }
}

const fn sequence_at(region: RegionId) -> u64 {
    LIVE_SEQUENCES + 4 * region.0 as u64
}

/// The first bytes of the live area of a new file; all others are zeros.
///
/// The epoch begins at a random number: if another file is written over this one in place (`cp other live`), readers see
/// another epoch at once. `salt` is random, and new in every file.
pub(crate) fn of_new_file(copy: &LiveCopy, state: [u8; 8], salt: u64) -> Vec<u8> {
    let mut bytes = vec![0; LIVE_METADATA as usize];
    let counts = RawCounts::from(copy.counts);
    let mut put = |at: u64, value: &[u8]| bytes[at as usize..][..value.len()].copy_from_slice(value);
    put(LIVE_STATE, &state);
    put(LIVE_EPOCH, &first_epoch(salt).to_le_bytes());
    put(LIVE_NOW, &now_word(copy.counts.epoch).to_le_bytes());
    put(LIVE_COPY, &next_even(0).to_le_bytes());
    put(LIVE_COUNTERS, &copy.commit.to_le_bytes());
    put(LIVE_COUNTERS + 8, counts.as_bytes());
    put(LIVE_METADATA_LENGTH, &(copy.metadata.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&copy.metadata);
    bytes
}

/// An even epoch, so low that it never wraps to 0.
pub(super) const fn first_epoch(random: u64) -> u64 {
    random >> 2 << 1
}

/// Turns the zeroed live area of a copy in memory into that of an idle file at `commit`.
pub(crate) fn set_idle(memory: &MapMut, commit: u64, epoch: u64) {
    set_now(memory, epoch);
    memory.set_word(word(LIVE + LIVE_STATE), u64::from_le_bytes(STATE_IDLE));
    memory.set_word(word(LIVE + LIVE_COUNTERS), commit);
}

/// Sets the epoch of a forgetting filter in a copy of its file in memory.
pub(crate) fn set_now(memory: &MapMut, epoch: u64) {
    memory.set_word(word(LIVE + LIVE_NOW), now_word(epoch));
}

/// The low half of an epoch, and above it the complement: the live area has no checksum, and a wrong epoch would hide
/// keys. 0 if the epoch is 0, in a filter that does not forget.
///
/// Epoch 3,970 is `0xffff_f07d_0000_0f82`.
const fn now_word(epoch: u64) -> u64 {
    let low = epoch as u32;
    if epoch == 0 { 0 } else { (!low as u64) << 32 | low as u64 }
}

/// The next odd number. After an odd number, which a dead writer left, it is two higher.
const fn next_odd(number: u64) -> u64 {
    number.wrapping_add(1) | 1
}

/// The next even number.
const fn next_even(number: u64) -> u64 {
    (number | 1).wrapping_add(1)
}

/// Up to eight bytes as a little-endian word.
fn from_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// The reader's side of the live area: its first words, which every lookup reads.
pub(crate) trait LiveHead {
    fn live_word(&self, offset: u64) -> u64;
    fn fence(ordering: Ordering);

    /// Whether no writer has the file open, and the regions hold every commit.
    fn is_idle(&self) -> bool {
        self.live_word(LIVE_STATE) == u64::from_le_bytes(STATE_IDLE)
    }

    /// Whether any flag is set that keeps readers from answering at once.
    #[inline]
    fn flagged(&self) -> bool {
        self.live_word(LIVE_FLAGS) != 0
    }

    fn superseded(&self) -> bool {
        self.live_word(LIVE_FLAGS) & SUPERSEDED != 0
    }

    fn poisoned(&self) -> bool {
        self.live_word(LIVE_FLAGS) & POISONED != 0
    }

    /// Whether the live area shows that the file must be recovered before use: a writer died with it or gave up, or it
    /// holds bits that no writer leaves.
    fn needs_recovery(&self) -> bool {
        let is_even = |sequence: u64| sequence.is_multiple_of(2);
        !(self.is_idle() && !self.poisoned() && is_even(self.epoch()) && is_even(self.live_word(LIVE_COPY)))
    }

    /// The low half of a forgetting filter's epoch, which lookups use to judge expiry; `None` if it is damaged.
    #[inline]
    fn now(&self) -> Option<u32> {
        let word = self.live_word(LIVE_NOW);
        let (low, high) = (word as u32, (word >> 32) as u32);
        (low == !high).then_some(low)
    }

    /// Loads the epoch. Loads that follow in program order happen after this one.
    #[inline]
    fn epoch(&self) -> u64 {
        let epoch = self.live_word(LIVE_EPOCH);
        Self::fence(Ordering::Acquire);
        epoch
    }

    /// Whether the epoch is unchanged. It is loaded after all loads that precede it in program order.
    #[inline]
    fn is_still(&self, epoch: u64) -> bool {
        Self::fence(Ordering::Acquire);
        self.epoch() == epoch
    }

    /// The epoch, if no commit is being applied and no flag is set.
    fn quiet_epoch(&self) -> Option<u64> {
        let epoch = self.epoch();
        (!self.flagged() && self.is_consistent(epoch)).then_some(epoch)
    }

    /// Whether no commit was being applied since `epoch` was loaded.
    #[inline]
    fn is_consistent(&self, epoch: u64) -> bool {
        epoch.is_multiple_of(2) && self.is_still(epoch)
    }
}

/// The reader's side of the whole live area, in a map of the file.
pub(crate) trait LiveRead: LiveHead {
    fn live_half(&self, offset: u64) -> u32;

    /// Like `epoch`, for the sequence of one region.
    #[inline]
    fn sequence(&self, region: RegionId) -> u32 {
        let sequence = self.live_half(LIVE_SEQUENCES + 4 * u64::from(region.0));
        Self::fence(Ordering::Acquire);
        sequence
    }

    /// Repeats `look` until its outcome is `certain`, or until no commit was applied to the region during it. Calls
    /// `wait` between two tries. `None` if the writer gave up, or once `wait` returns false.
    #[inline]
    fn read_consistent<T>(
        &self,
        region: RegionId,
        mut look: impl FnMut() -> T,
        certain: impl Fn(&T) -> bool,
        wait: impl FnMut() -> bool,
    ) -> Option<T> {
        let epoch = self.epoch();
        let outcome = look();
        if certain(&outcome) || self.is_consistent(epoch) {
            return Some(outcome);
        }
        self.read_by_sequence(region, look, certain, wait)
    }

    #[cold]
    fn read_by_sequence<T>(
        &self,
        region: RegionId,
        mut look: impl FnMut() -> T,
        certain: impl Fn(&T) -> bool,
        mut wait: impl FnMut() -> bool,
    ) -> Option<T> {
        loop {
            let sequence = self.sequence(region);
            if sequence.is_multiple_of(2) {
                let outcome = look();
                Self::fence(Ordering::Acquire);
                if certain(&outcome) || self.sequence(region) == sequence {
                    return Some(outcome);
                }
            }
            if self.poisoned() || !wait() {
                return None;
            }
        }
    }

    /// The copy as of the last commit; `None` while a commit is being applied.
    fn live_copy(&self) -> Option<LiveCopy> {
        let epoch = self.epoch();
        self.last_live_copy().filter(|_| self.is_consistent(epoch))
    }

    /// The copy as of the last commit, even while the next commit is being applied; `None` while the copy itself is being
    /// stored.
    fn last_live_copy(&self) -> Option<LiveCopy> {
        let copy = self.live_word(LIVE_COPY);
        Self::fence(Ordering::Acquire);
        let mut counts = RawCounts::new_zeroed();
        for (offset, bytes) in (LIVE_COUNTERS + 8..).step_by(8).zip(counts.as_mut_bytes().chunks_exact_mut(8))
        {
            bytes.copy_from_slice(&self.live_word(offset).to_le_bytes());
        }
        let commit = self.live_word(LIVE_COUNTERS);
        let length = (self.live_word(LIVE_METADATA_LENGTH) as usize).min(METADATA_LIMIT);
        let words = (LIVE_METADATA..).step_by(8).take(length.div_ceil(8));
        let mut metadata: Vec<u8> = words.flat_map(|offset| self.live_word(offset).to_le_bytes()).collect();
        metadata.truncate(length);
        Self::fence(Ordering::Acquire);
        let is_whole = copy.is_multiple_of(2) && self.live_word(LIVE_COPY) == copy;
        is_whole.then(|| LiveCopy { commit, counts: counts.into(), metadata })
    }
}

/// The first words of a map's live area.
type Head<'a> = Words<'a, HEAD_WORDS>;

const _: () = assert!(word(LIVE_NOW) < HEAD_WORDS);

impl LiveHead for Head<'_> {
    #[inline]
    fn live_word(&self, offset: u64) -> u64 {
        Words::word(*self, word(offset))
    }

    #[inline]
    fn fence(ordering: Ordering) {
        std::sync::atomic::fence(ordering);
    }
}

impl LiveHead for Map {
    #[inline]
    fn live_word(&self, offset: u64) -> u64 {
        self.word(word(LIVE + offset))
    }

    #[inline]
    fn fence(ordering: Ordering) {
        std::sync::atomic::fence(ordering);
    }
}

impl LiveRead for Map {
    #[inline]
    fn live_half(&self, offset: u64) -> u32 {
        self.half(half(LIVE + offset))
    }
}

#[cfg(test)]
mod tests;
