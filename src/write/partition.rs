//! Many inserts or removals at once, partitioned by region, so that a region is in the cache for all its keys.
//!
//! Within a region keys keep their order, and regions do not depend on each other. So, apart from doublings, the outcome
//! is the same as for one key after the other, on any number of threads. If a region has no room, its remaining keys are
//! left for later, and the keys of other regions are still inserted before the filter doubles.

use std::path::Path;

use super::scratch::Scratch;
use super::shadow::CHANGES_A_PAGE;
use super::target::Target;
use crate::cuckoo::region::Insertion;
use crate::cuckoo::{
    BucketId, BucketsMut, Delta, Inserted, Kept, KeyHash, Kind, Place, RegionId, Search, Slot, Width,
    forgetting, region, with_any_width,
};
use crate::error::Result;
use crate::file::Overlay;
use crate::format::{Geometry, PAGES_PER_REGION};
use crate::system::on_threads;

/// How many keys lie between prefetch and insert.
const AHEAD: usize = 16;
/// From this many keys for a region of a published file on, unpacking the region first is cheaper than finding each
/// changed bucket.
const KEYS_WORTH_UNPACKING: usize = 200;
/// Unpacking a region and packing it again counts as this many changes. Three batches that do so with every region count
/// as much as a copy of the file.
const UNPACKED: usize = (CHANGES_A_PAGE * PAGES_PER_REGION as usize).div_ceil(3);
/// For fewer keys, starting a thread costs more than it saves.
const KEYS_WORTH_A_THREAD: usize = 8192;
/// How many keys one call hashes.
const HASHED_TOGETHER: usize = 64;
/// How many consecutive regions go to one thread: the changed bits of their pages share a word.
const REGIONS_TOGETHER: u64 = 4;

/// A key of a batch, before it reaches its region.
#[derive(Clone, Copy, Debug)]
struct Item {
    pub(super) region: RegionId,
    /// The key's index in the batch.
    pub(super) index: u32,
    fingerprint: u32,
    first: BucketId,
}

impl Item {
    #[inline]
    pub(super) fn new<W: Width>(hash: KeyHash, (region, rem): (RegionId, u64), index: u32) -> Self {
        let Place { first, fingerprint } = Place::<W>::new(hash.local(), rem);
        Self { region, index, fingerprint: fingerprint.0, first }
    }

    #[inline]
    pub(super) const fn place<W: Width>(self) -> Place<W> {
        Place { first: self.first, fingerprint: Slot::new(self.fingerprint) }
    }
}

/// Memory for a batch. It is reused for the next batch, as allocating it each time costs more than sorting.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// For each hashing thread, the items for each thread that inserts or removes.
    hashed: Vec<Vec<Vec<Item>>>,
    parts: Vec<Part>,
}

/// Memory for one thread's keys.
#[derive(Debug, Default)]
struct Part {
    /// Two buffers to sort with.
    sorted: [Vec<Item>; 2],
    /// The indices of the keys to report.
    done: Vec<u32>,
}

/// The most bytes that are reused from batch to batch. 2^20 keys, as many as an iterator yields at a time, take 32 MiB
/// with one thread, and 48 with more.
const KEPT: usize = 64 << 20;

impl Buffers {
    /// The indices of the last batch's keys to report. Valid also after an error.
    pub(super) fn done(&self) -> impl Iterator<Item = &[u32]> {
        self.parts.iter().map(|part| &*part.done)
    }

    /// These buffers for reuse, or empty ones if they take more than [`KEPT`].
    pub(super) fn kept(self) -> Self {
        let sorted = self.parts.iter().flat_map(|part| &part.sorted);
        let items = self.hashed.iter().flatten().chain(sorted).map(Vec::capacity);
        if items.sum::<usize>() * size_of::<Item>() <= KEPT { self } else { Self::default() }
    }
}

/// Sorts by region, keeping the order within each region: a radix sort, eight bits a pass from the lowest on. `None` for
/// items that are in the second buffer. The result is in the first buffer.
fn sort_by_region(items: Option<&[&[Item]]>, regions: u64, [from, to]: &mut [Vec<Item>; 2]) {
    let bits = u64::BITS - regions.saturating_sub(1).leading_zeros();
    match items {
        Some(items) => pass(items, 0, from),
        None => pass(&[to], 0, from),
    }
    for shift in (8..bits).step_by(8) {
        pass(&[from], shift, to);
        std::mem::swap(from, to);
    }
}

/// Sorts by one digit of the region.
fn pass(items: &[&[Item]], shift: u32, to: &mut Vec<Item>) {
    const DIGITS: usize = 256;
    let digit = |item: &Item| (item.region.0 >> shift) as usize % DIGITS;
    let mut starts = [0_usize; DIGITS];
    items.iter().copied().flatten().for_each(|item| starts[digit(item)] += 1);
    let mut start = 0;
    for place in &mut starts {
        (*place, start) = (start, start + *place);
    }
    to.resize(start, Item { region: RegionId(0), index: 0, fingerprint: 0, first: BucketId(0) });
    for item in items.iter().copied().flatten() {
        let place = &mut starts[digit(item)];
        to[*place] = *item;
        *place += 1;
    }
}

/// The operation on each key of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// Insert it, as the filter's kind says.
    Insert(Kind, Told),
    /// Remove one copy of it.
    Remove,
}

/// Which keys of an insert to report, by index. Reporting an index takes some 2 ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    /// Keys that were absent before.
    New,
    /// Keys that were present before: they are few while a filter is being filled.
    Seen,
}

impl Told {
    /// Whether to report a key that is new, or one that is not.
    pub(super) fn tells(self, is_new: bool) -> bool {
        is_new == (self == Self::New)
    }
}

/// How to process the keys of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner<'a> {
    pub(crate) mode: Mode,
    /// The expiry epochs, for inserts into a forgetting filter.
    pub(super) until: Option<Until<'a>>,
    pub(super) max_kicks: u32,
    pub(super) threads: usize,
}

/// The epochs of inserts into a forgetting filter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Until<'a> {
    pub(super) now: u32,
    pub(super) refresh: bool,
    /// The expiry epoch of each key, by its index; past the end of the slice, `expiry` applies.
    pub(super) each: &'a [u64],
    pub(super) expiry: u64,
}

impl Until<'_> {
    pub(super) fn expiry(&self, index: u32) -> u64 {
        self.each.get(index as usize).copied().unwrap_or(self.expiry)
    }
}

/// The outcome of a batch; keys are identified by their indices.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    /// The changes of the counters.
    pub(super) delta: Delta,
    /// How many keys were inserted or removed bucket by bucket. Each region that was unpacked for its keys counts as
    /// [`UNPACKED`].
    pub(super) changes: usize,
    /// Keys that were not inserted because their region has no room.
    pub(super) left: Vec<u32>,
}

impl Outcomes {
    fn append(&mut self, mut other: Self) {
        self.delta.add(&other.delta);
        self.changes += other.changes;
        self.left.append(&mut other.left);
    }

    /// Inserts or removes keys of one region. Calls `ahead` once for each key.
    fn take<W: Width, B: BucketsMut<W>>(
        &mut self,
        buckets: &mut B,
        items: &[Item],
        manner: Manner<'_>,
        (search, done): (&mut Search, &mut Vec<u32>),
        mut ahead: impl FnMut(),
    ) -> Result<(), B::Error> {
        // For each width, only one of the two ways is compiled.
        if const { W::EXPIRY_BITS > 0 } {
            return self.take_until(buckets, items, manner, (search, done), ahead);
        }
        for (number, item) in items.iter().enumerate() {
            ahead();
            let place = item.place::<W>();
            let (found, told) = match manner.mode {
                Mode::Insert(kind, told) => match region::find_insertion(buckets, place)? {
                    Insertion::Store { id, bucket } => {
                        buckets.store(id, bucket);
                        self.delta.stored::<W>();
                        self.changes += 1;
                        if told == Told::New {
                            done.push(item.index);
                        }
                        continue;
                    }
                    Insertion::Matches if !W::IS_MARKED || kind == Kind::Set => {
                        if told == Told::Seen {
                            done.push(item.index);
                        }
                        continue;
                    }
                    Insertion::Matches => (true, told),
                    Insertion::Crowded => (false, told),
                },
                Mode::Remove => {
                    // Only counting filters have removals, and counting filters are marked.
                    if !W::IS_MARKED {
                        continue;
                    }
                    if let Some(removed) = region::remove(buckets, place)? {
                        self.delta.removed(removed);
                        self.changes += 1;
                        done.push(item.index);
                    }
                    continue;
                }
            };
            let inserted = region::insert_untried(buckets, place, manner.max_kicks, search)?;
            if inserted == Inserted::NoPath {
                self.left.extend(items[number..].iter().map(|item| item.index));
                return Ok(());
            }
            self.delta.inserted(&inserted);
            self.changes += 1;
            if told.tells(!found) {
                done.push(item.index);
            }
        }
        Ok(())
    }

    /// Like `take`, in a forgetting filter.
    fn take_until<W: Width, B: BucketsMut<W>>(
        &mut self,
        buckets: &mut B,
        items: &[Item],
        manner: Manner<'_>,
        (search, done): (&mut Search, &mut Vec<u32>),
        mut ahead: impl FnMut(),
    ) -> Result<(), B::Error> {
        let (Some(until), Mode::Insert(_, told)) = (manner.until, manner.mode) else { return Ok(()) };
        for (number, item) in items.iter().enumerate() {
            ahead();
            let place = item.place::<W>().at(until.now);
            let expiry = (until.expiry(item.index) as u32, until.refresh);
            match forgetting::insert(buckets, place, expiry, manner.max_kicks, search, &mut self.delta)? {
                Kept::NoRoom => {
                    self.left.extend(items[number..].iter().map(|item| item.index));
                    return Ok(());
                }
                kept if told.tells(kept == Kept::New) => done.push(item.index),
                _ => {}
            }
            self.changes += 1;
        }
        Ok(())
    }
}

/// How the keys of a batch are divided among threads: each thread has some regions to itself.
#[derive(Clone, Copy)]
struct Division {
    parts: usize,
    regions: u64,
}

impl Division {
    fn new(keys: usize, regions: u64, threads: usize) -> Self {
        let most = (keys / KEYS_WORTH_A_THREAD).min(regions.div_ceil(REGIONS_TOGETHER) as usize);
        Self { parts: threads.min(most).max(1), regions }
    }

    fn part_of(self, region: RegionId) -> usize {
        let together = self.regions.div_ceil(REGIONS_TOGETHER);
        (u64::from(region.0) / REGIONS_TOGETHER * self.parts as u64 / together) as usize
    }
}

/// Writes the hashes of the keys with these indices to the slice, which has the same length. It is called for many keys
/// at a time, so a call through a pointer is cheap enough: its callers are compiled once, and not for each type of keys.
pub(super) type Hashes<'a> = dyn Fn(&[u32], &mut [KeyHash]) -> Result<()> + Sync + 'a;

/// Hashes the keys of `indices` by `hashes` into `buffers`, on the number of threads in `manner`. Changes nothing else:
/// `hashes` calls the user's code, which may panic.
pub(super) fn hash_all(
    geometry: Geometry,
    path: &Path,
    indices: &[u32],
    hashes: &Hashes<'_>,
    manner: Manner<'_>,
    buffers: &mut Buffers,
) -> Result<()> {
    let division = Division::new(indices.len(), geometry.regions(), manner.threads);
    let parts = division.parts;
    let Buffers { hashed, parts: to } = buffers;
    hashed.resize_with(parts, Vec::new);
    to.resize_with(parts, Part::default);
    to.iter_mut().for_each(|part| part.done.clear());
    hashed.iter_mut().flatten().for_each(Vec::clear);
    let chunks = indices.chunks(indices.len().div_ceil(parts).max(1));
    let work = chunks.zip(hashed.iter_mut()).collect();
    let outcomes = on_threads(work, |(indices, hashed): (&[u32], &mut Vec<Vec<Item>>)| -> Result<()> {
        hashed.resize_with(parts, Vec::new);
        let mut of_block = [KeyHash::new(0); HASHED_TOGETHER];
        for indices in indices.chunks(HASHED_TOGETHER) {
            let of_block = &mut of_block[..indices.len()];
            hashes(indices, of_block)?;
            with_any_width!(geometry.width, W => {
                for (index, hash) in indices.iter().zip(of_block) {
                    let item = Item::new::<W>(*hash, geometry.region_of(*hash, path)?, *index);
                    hashed[division.part_of(item.region)].push(item);
                }
            });
        }
        Ok(())
    });
    outcomes.into_iter().collect()
}

/// If one thread works, exchanges its items and its second sort buffer, so that sorting takes one more buffer and not
/// two. Returns whether there is just one thread.
fn swap_if_one(hashed: &mut [Vec<Vec<Item>>], parts: &mut [Part]) -> bool {
    if let ([hashed], [part]) = (hashed, parts)
        && let [items] = &mut **hashed
    {
        std::mem::swap(items, &mut part.sorted[1]);
        return true;
    }
    false
}

/// Inserts or removes the keys that [`hash_all`] has put into `buffers`. Returns the outcome and the first error; after
/// an error, a thread skips the rest of its keys.
pub(super) fn take_hashed(
    target: Target<'_, &mut Overlay>,
    manner: Manner<'_>,
    buffers: &mut Buffers,
) -> (Outcomes, Result<()>) {
    let Buffers { hashed, parts } = buffers;
    let geometry = target.identity().geometry;
    let regions = geometry.regions();
    let division = Division { parts: parts.len(), regions };
    let (mut all, mut failed) = (Outcomes::default(), Ok(()));
    let is_one = swap_if_one(hashed, parts);
    target.divide(
        division.parts,
        |region| division.part_of(region),
        |targets| {
            let work = targets.into_iter().zip(parts.iter_mut()).enumerate().collect();
            let take = |(number, (mut target, part)): (usize, (Target<'_, &mut Overlay>, &mut Part))| {
                #[cfg(test)]
                assert!(!tests::BUG.get(), "a bug");
                // A thread without keys to hash has no items for this part.
                let of_part = || hashed.iter().filter_map(|hashed| Some(&**hashed.get(number)?)).collect();
                let of_part: Option<Vec<&[Item]>> = (!is_one).then(of_part);
                sort_by_region(of_part.as_deref(), regions, &mut part.sorted);
                let mut outcomes = Outcomes::default();
                let outcome = with_any_width!(geometry.width, W => {
                    take_part::<W>(&mut target, part, manner, &mut outcomes)
                });
                (outcomes, outcome)
            };
            for (outcomes, outcome) in on_threads(work, take) {
                all.append(outcomes);
                failed = std::mem::replace(&mut failed, Ok(())).and(outcome);
            }
        },
    );
    // Swaps back: memory into which the next keys are hashed.
    swap_if_one(hashed, parts);
    (all, failed)
}

/// Inserts or removes keys sorted by region.
fn take_part<W: Width>(
    target: &mut Target<'_, &mut Overlay>,
    Part { sorted: [items, _], done }: &mut Part,
    manner: Manner<'_>,
    outcomes: &mut Outcomes,
) -> Result<()> {
    let mut search = Search::new();
    let mut scratch = None;
    let mut coming = items.get(AHEAD..).unwrap_or_default();
    for items in items.chunk_by(|a, b| a.region == b.region) {
        let Some(Item { region, .. }) = items.first().copied() else { continue };
        let mut next = coming.iter();
        coming = coming.get(items.len()..).unwrap_or_default();
        if let Target::Published(published, overlay) = target
            && items.len() >= KEYS_WORTH_UNPACKING
        {
            let scratch = scratch.get_or_insert_with(Scratch::new);
            let change = overlay.region_mut(region);
            // If a page is damaged, the keys are processed one by one below, and only keys that touch it fail.
            if scratch.unpack(published, region, change).is_ok() {
                let before = outcomes.changes;
                let Ok(()) = outcomes.take::<W, _>(scratch, items, manner, (&mut search, &mut *done), || ());
                outcomes.changes = before + UNPACKED;
                scratch.pack(change);
                continue;
            }
        }
        let file = target.file();
        let ahead = || {
            if let Some(item) = next.next() {
                let place = item.place::<W>();
                file.prefetch(item.region, place.first);
                file.prefetch(item.region, place.second());
            }
        };
        if let Target::Copied(_, shadow) = target
            && let Some(mut region) = shadow.region(region)
        {
            let Ok(()) = outcomes.take::<W, _>(&mut region, items, manner, (&mut search, &mut *done), ahead);
            continue;
        }
        if let Target::Unpublished(file) = target
            && let Some(mut region) = file.region(region)
        {
            let Ok(()) = outcomes.take::<W, _>(&mut region, items, manner, (&mut search, &mut *done), ahead);
            continue;
        }
        let changes = target.reborrow().with(|overlay, _| overlay.region_mut(region));
        outcomes.take::<W, _>(
            &mut changes.region(region),
            items,
            manner,
            (&mut search, &mut *done),
            ahead,
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{Batches, Error, Lookup, Options, Reader};
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    thread_local! {
        /// Whether processing keys on this thread panics, as a bug would.
        pub(super) static BUG: Cell<bool> = const { Cell::new(false) };
    }

    #[test]
    fn a_commit_after_a_bug_has_lost_changes_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let keys: Vec<_> = (0..60_000_u64).map(u64::to_le_bytes).collect();
        let mut writer = Options::new().capacity(200_000).threads(2).create(&path).unwrap();
        writer.commit().unwrap();
        writer.insert_batch(&keys[..20_000]).unwrap().complete().unwrap();
        BUG.set(true);
        let outcome = catch_unwind(AssertUnwindSafe(|| writer.insert_batch(&keys[20_000..])));
        BUG.set(false);
        assert!(outcome.is_err());
        let committed = writer.commit();
        drop(writer);
        let reader = Reader::open(&path).unwrap();
        let absent = keys[..20_000].iter().filter(|key| !reader.contains(*key).unwrap()).count();
        match committed {
            Ok(()) => assert_eq!(absent, 0, "keys absent that were inserted before"),
            Err(error) => assert!(matches!(error, Error::Poisoned { .. }), "{error}"),
        }
        let report = reader.verify(&|_, _| {}).unwrap();
        assert!(report.is_clean(), "{report:?}");
        // The next writer finds all earlier commits.
        Options::new().open_existing(&path).unwrap().insert(b"next").unwrap();
    }
}
