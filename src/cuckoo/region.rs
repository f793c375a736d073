//! The cuckoo table of one region: lookup, insert, remove and count over its buckets.
//!
//! Pure: where the buckets lie, and what reading one may fail with, is the [`Buckets`] implementor's matter.
//! The rules are those of `format-spec/README.md`, section 4.

use super::bucket::{Bucket, BucketId, Slot};
use super::widths::Width;

/// Buckets of a region; a power of two, whose logarithm is [`Width::INDEX_BITS`].
pub(crate) const BUCKETS_PER_REGION: u32 = 8192;

/// The buckets of one region, to read.
pub(crate) trait Buckets<W> {
    type Error;

    fn load(&mut self, id: BucketId) -> Result<Bucket<W>, Self::Error>;
}

/// The buckets of one region, to change.
pub(crate) trait BucketsMut<W>: Buckets<W> {
    /// Replaces a bucket that was loaded before.
    fn store(&mut self, id: BucketId, bucket: Bucket<W>);
}

/// Where a key belongs in its region, and what is stored of it there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place<W> {
    pub(crate) first: BucketId,
    pub(crate) fingerprint: Slot<W>,
}

impl<W: Width> Place<W> {
    /// From the low half of a hash and the fraction that its region left over.
    #[inline]
    pub(crate) const fn new(local: u64, rem: u64) -> Self {
        let first = BucketId(local as u16 & ((1 << W::INDEX_BITS) - 1) as u16);
        Self { first, fingerprint: Slot::fresh(local, rem) }
    }

    #[inline]
    pub(crate) fn second(self) -> BucketId {
        self.fingerprint.other(self.first)
    }

    /// Both buckets, loaded.
    #[inline]
    fn load<B: Buckets<W>>(self, buckets: &mut B) -> Result<[(BucketId, Bucket<W>); 2], B::Error> {
        let second = self.second();
        Ok([(self.first, buckets.load(self.first)?), (second, buckets.load(second)?)])
    }
}

/// What became of an insert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inserted {
    Stored,
    /// A bucket of the key is quarantined: every query there is answered "present", and nothing was stored.
    Quarantined,
    /// Both buckets hold nothing but entries that match the key.
    DuplicateLimit,
    /// The search looked at all the entries it may, and found no room.
    NoPath,
}

/// Whether any entry matches.
#[inline]
pub(crate) fn contains<W: Width, B: Buckets<W>>(buckets: &mut B, place: Place<W>) -> Result<bool, B::Error> {
    // Both are asked for before either is looked at: two misses then take the time of one.
    let [(_, first), (_, second)] = place.load(buckets)?;
    Ok(first.either_matches(second, place.fingerprint))
}

/// The number of matching entries, at most 2n; 2n where a bucket is quarantined, as copies may have been
/// answered there without being stored.
pub(crate) fn count<W: Width, B: Buckets<W>>(buckets: &mut B, place: Place<W>) -> Result<u32, B::Error> {
    let both = place.load(buckets)?;
    if both.iter().any(|(_, bucket)| bucket.has_universal()) {
        return Ok(2 * W::SLOTS);
    }
    Ok(both.iter().map(|(_, bucket)| bucket.matches(place.fingerprint).count()).sum())
}

/// Stores one more copy of a fingerprint. Nothing changes unless it returns [`Inserted::Stored`].
pub(crate) fn insert<W: Width, B: BucketsMut<W>>(
    buckets: &mut B,
    place: Place<W>,
    max_kicks: u32,
    search: &mut Search,
) -> Result<Inserted, B::Error> {
    let both = place.load(buckets)?;
    for (id, bucket) in both {
        if let Some(lane) = bucket.empty_lanes().first() {
            buckets.store(id, bucket.with(lane, place.fingerprint));
            return Ok(Inserted::Stored);
        }
    }
    if both.iter().any(|(_, bucket)| bucket.has_universal()) {
        return Ok(Inserted::Quarantined);
    }
    if both.iter().all(|(_, bucket)| bucket.matches(place.fingerprint).count() == W::SLOTS) {
        return Ok(Inserted::DuplicateLimit);
    }
    let found = search.find_room(buckets, both, max_kicks);
    if let Ok(Some(last)) = found {
        search.follow(buckets, last, place.fingerprint);
    }
    search.clear();
    Ok(found?.map_or(Inserted::NoPath, |_| Inserted::Stored))
}

/// Removes the matching entry with the longest tail, over both buckets, and returns the length of that tail;
/// `None` if nothing but universal slots matches.
///
/// The longest is the only safe choice: any other key that may have relied on the removed entry agrees with
/// the remover on the whole of that tail, and so also matches what the remover's own insert stored. A shorter
/// match could be the only entry of a key that does not match the longer one.
pub(crate) fn remove<W: Width, B: BucketsMut<W>>(
    buckets: &mut B,
    place: Place<W>,
) -> Result<Option<u32>, B::Error> {
    let [(first_id, first), (second_id, second)] = place.load(buckets)?;
    let (in_first, in_second) = (first.matches(place.fingerprint), second.matches(place.fingerprint));
    // Which bucket it is cannot be foretold: so there is no branch, which would have to wait for the bucket, and all
    // that comes behind it for the branch.
    let other = !in_first.any();
    let either = in_first.or(in_second, other);
    let (id, bucket, lane) = if either.is_one() && (other | !in_second.any()) {
        (first_id.or(second_id, other), first.or(second, other), either.first())
    } else {
        let mut longest: Option<(Option<u32>, BucketId, Bucket<W>, u32)> = None;
        for (id, bucket, lanes) in [(first_id, first, in_first), (second_id, second, in_second)] {
            for lane in lanes {
                let length = bucket.slot(lane).tail_length();
                if length.is_some() && longest.is_none_or(|(best, ..)| length > best) {
                    longest = Some((length, id, bucket, lane));
                }
            }
        }
        let Some((_, id, bucket, lane)) = longest else { return Ok(None) };
        (id, bucket, Some(lane))
    };
    let Some(lane) = lane else { return Ok(None) };
    let length = bucket.slot(lane).tail_length();
    if length.is_some() {
        buckets.store(id, bucket.with(lane, Slot::new(0)));
    }
    Ok(length)
}

/// Breadth-first search for the shortest chain of kicks that ends in a free slot.
///
/// The whole chain is found before the first entry moves, so a search that fails has changed nothing. Kept
/// between inserts only to reuse its memory.
#[derive(Debug)]
pub(crate) struct Search {
    steps: Vec<Step>,
    /// One bit a bucket: it is among `steps`. Each bucket is visited once, so no chain meets itself.
    visited: Vec<u64>,
}

/// A bucket that the search reached, by kicking the entry in `lane` of the bucket of step `parent`.
#[derive(Clone, Copy, Debug)]
struct Step {
    id: BucketId,
    word: u64,
    parent: usize,
    lane: u32,
}

/// The parent of the two buckets that the search starts from.
const ROOT: usize = usize::MAX;

impl Search {
    pub(crate) fn new() -> Self {
        Self { steps: Vec::new(), visited: vec![0; 8192 / 64] }
    }

    /// Adds a step unless its bucket is among them already; true if it was added.
    fn reach(&mut self, id: BucketId, parent: usize, lane: u32) -> bool {
        let (word, bit) = (usize::from(id.0) / 64, 1 << (id.0 % 64));
        let new = self.visited[word] & bit == 0;
        if new {
            self.visited[word] |= bit;
            self.steps.push(Step { id, word: 0, parent, lane });
        }
        new
    }

    fn clear(&mut self) {
        for step in self.steps.drain(..) {
            self.visited[usize::from(step.id.0) / 64] = 0;
        }
    }

    /// The step whose bucket has room, starting from two full buckets; at most `max_kicks` entries are
    /// examined.
    fn find_room<W: Width, B: Buckets<W>>(
        &mut self,
        buckets: &mut B,
        full: [(BucketId, Bucket<W>); 2],
        max_kicks: u32,
    ) -> Result<Option<usize>, B::Error> {
        for (index, (id, bucket)) in full.into_iter().enumerate() {
            self.reach(id, ROOT, 0);
            self.steps[index].word = bucket.0;
        }
        let mut examined = 0;
        let mut parent = 0;
        while let Some(&Step { id, word, .. }) = self.steps.get(parent) {
            for lane in 0..W::SLOTS {
                let slot = Bucket::<W>::new(word).slot(lane);
                if slot.is_universal() {
                    continue;
                }
                if examined == max_kicks {
                    return Ok(None);
                }
                examined += 1;
                let other = slot.other(id);
                if self.reach(other, parent, lane) {
                    let bucket = buckets.load(other)?;
                    let last = self.steps.len() - 1;
                    self.steps[last].word = bucket.0;
                    if bucket.empty_lanes().any() {
                        return Ok(Some(last));
                    }
                }
            }
            parent += 1;
        }
        Ok(None)
    }

    /// Moves each entry of the chain that ends at step `last`, from its end backwards, and stores the new
    /// fingerprint in the room left at its beginning.
    fn follow<W: Width, B: BucketsMut<W>>(&self, buckets: &mut B, last: usize, fingerprint: Slot<W>) {
        let mut step = self.steps[last];
        // The end of the chain has room: that is why the search ended there.
        let mut lane = Bucket::<W>::new(step.word).empty_lanes().first().unwrap_or(0);
        while step.parent != ROOT {
            let parent = self.steps[step.parent];
            let kicked = Bucket::<W>::new(parent.word).slot(step.lane);
            buckets.store(step.id, Bucket::new(step.word).with(lane, kicked));
            (lane, step) = (step.lane, parent);
        }
        buckets.store(step.id, Bucket::new(step.word).with(lane, fingerprint));
    }
}

#[cfg(test)]
mod tests;
