//! The cuckoo table of one region: lookup, insert, remove and count over its buckets.
//!
//! No I/O: an implementor of [`Buckets`] says where the buckets lie and how reading one can fail. The rules are those
//! of `format-spec/README.md`, section 4.

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

/// The first bucket of a key in its region, and the fingerprint that is stored there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place<W> {
    pub(crate) first: BucketId,
    pub(crate) fingerprint: Slot<W>,
}

impl<W: Width> Place<W> {
    /// From the low half of a hash and the fraction that [`KeyHash::region`](super::KeyHash) gives beside the region.
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
    /// Nothing was stored, as a bucket of the key is quarantined: every query there is answered "present".
    Quarantined,
    /// Nothing was stored, as every slot of both buckets matches the key.
    DuplicateLimit,
    /// Nothing was stored, as the search examined as many entries as it may and found no room.
    NoPath,
}

/// Whether any entry matches.
#[inline]
pub(crate) fn contains<W: Width, B: Buckets<W>>(buckets: &mut B, place: Place<W>) -> Result<bool, B::Error> {
    // Both buckets are loaded before either is examined, so that two cache misses take the time of one.
    let [(_, first), (_, second)] = place.load(buckets)?;
    Ok(first.either_matches(second, place.fingerprint))
}

/// The number of matching entries, at most 2n. Where a bucket is quarantined it is 2n: copies may have been inserted
/// there without being stored, and a count must never be too low.
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
/// Only the longest is safe. Let L be another key that needs the removed entry. L agrees with the removed key on all of
/// that tail, so L also matches the entry that the removed key's own insert stored, which is no longer. A shorter match
/// could be the only entry of a key that does not match the longer one (`format-spec/README.md`, section 4.7).
pub(crate) fn remove<W: Width, B: BucketsMut<W>>(
    buckets: &mut B,
    place: Place<W>,
) -> Result<Option<u32>, B::Error> {
    let [(first_id, first), (second_id, second)] = place.load(buckets)?;
    let (in_first, in_second) = (first.matches(place.fingerprint), second.matches(place.fingerprint));
    // The processor cannot predict which of the two buckets has the match, and a wrong prediction would throw away the
    // work on later keys. So the bucket is chosen without a branch.
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
/// The whole chain is found before the first entry moves, so a search that fails changes nothing. The value is kept
/// between inserts only to reuse its memory.
#[derive(Debug)]
pub(crate) struct Search {
    steps: Vec<Step>,
    /// One bit for each bucket: whether it is among `steps`. Each bucket is visited once, so no chain meets itself.
    ///
    /// Bucket 4913 is bit 49 of word 76.
    visited: Vec<u64>,
}

/// A bucket that the search reached: the other bucket of the entry in `lane` of the bucket of step `parent`.
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

    /// Adds a step, unless its bucket was visited before; true if it was added.
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

    /// Searches from two full buckets for a step whose bucket has room, and examines at most `max_kicks` entries.
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

    /// Moves the entries of the chain that ends at step `last`, the last one first, and stores the new fingerprint in
    /// the slot that the first one leaves.
    fn follow<W: Width, B: BucketsMut<W>>(&self, buckets: &mut B, last: usize, fingerprint: Slot<W>) {
        let mut step = self.steps[last];
        // There is an empty lane: the search ends only at a bucket that has one.
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
