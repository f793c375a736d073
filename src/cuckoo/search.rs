//! Chains: entries move to their other buckets, each into the lane that the next one leaves, until a bucket has a free
//! lane.
//!
//! A move needs no key. An entry without digits takes one lane in either bucket, so such entries move in chains. A group
//! needs several lanes at once, and only the last bucket of such a chain can have them free. If no chain frees a lane,
//! `place` looks for a chain of groups, each of which takes the lanes of the next; then `displacement.rs` takes over.

use super::bucket::{BUCKETS_PER_REGION, Bucket, BucketId, Buckets, BucketsMut, Slot};
use super::group::{Group, Groups};
use super::widths::{AnyLayout, Layout};

/// Breadth-first search for the shortest chain of moves that frees a lane.
///
/// All moves are known before the first entry moves, so a search that fails changes nothing. The value outlives an insert
/// only to reuse its memory.
#[derive(Debug)]
pub(crate) struct Search {
    steps: Vec<Step>,
    /// One bit for each bucket: whether it is among `steps`. Each bucket is visited once, so no chain meets itself.
    ///
    /// Bucket 4913 is bit 49 of word 76.
    visited: Vec<u64>,
    /// Whether the last search met a group of several lanes: only then can moving groups find more room.
    pub(super) met_groups: bool,
}

/// A bucket that the search reached: the other bucket of the entry that lies in `lane` of step `parent`'s bucket.
#[derive(Clone, Copy, Debug)]
struct Step {
    id: BucketId,
    word: u64,
    parent: usize,
    lane: u32,
}

/// The parent of the buckets that the search starts from.
const ROOT: usize = usize::MAX;

/// How a chain ends.
#[derive(Clone, Copy)]
struct End<W> {
    /// The step of the last bucket that an entry moves to.
    step: usize,
    /// The last bucket, with a lane free.
    bucket: Bucket<W>,
    /// The bucket that receives the group leaving the last bucket; `None` if the last bucket already had a free lane.
    taker: Option<(BucketId, Bucket<W>)>,
}

/// A bucket that the search for a chain of groups reached.
#[derive(Clone, Copy)]
struct Reached<W> {
    id: BucketId,
    bucket: Bucket<W>,
    /// The group that moves to this bucket.
    coming: Group<W>,
    parent: usize,
    /// The bucket of step `parent` after that group has left it and the next group has arrived.
    left: Bucket<W>,
}

impl<W: Layout> Reached<W> {
    /// The bucket with the arriving group; `None` if the group does not fit.
    fn with_group(&self) -> Option<Bucket<W>> {
        Groups::of(self.bucket).and(self.coming).pack()
    }
}

/// A bucket, and an entry that must stay there with its digits.
pub(super) type Kept<W> = (BucketId, Slot<W>);

/// Prefetches the other buckets of all entries in `roots`. Most chains end in one of these buckets. The processor then
/// loads them in parallel, rather than one after the other.
fn prefetch_others<W: Layout, B: Buckets<W>>(buckets: &B, roots: &[(BucketId, Bucket<W>)]) {
    for (id, bucket) in roots {
        (0..bucket.numbers().slots).for_each(|lane| buckets.prefetch(bucket.slot(lane).other(*id)));
    }
}

impl Search {
    pub(crate) fn new() -> Self {
        let visited = vec![0; BUCKETS_PER_REGION as usize / 64];
        Self { steps: Vec::new(), visited, met_groups: false }
    }

    fn is_visited(&self, id: BucketId) -> bool {
        self.visited[usize::from(id.0) / 64] >> (id.0 % 64) & 1 == 1
    }

    fn visit(&mut self, id: BucketId) {
        self.visited[usize::from(id.0) / 64] |= 1 << (id.0 % 64);
    }

    /// Adds a step, unless its bucket was visited before.
    fn reach(&mut self, id: BucketId, word: u64, parent: usize, lane: u32) {
        if !self.is_visited(id) {
            self.visit(id);
            self.steps.push(Step { id, word, parent, lane });
        }
    }

    /// Puts a group into one of the buckets `ids` by the shortest chain of groups: each moves to its other bucket, into
    /// the lanes that the next one leaves. Each examined group takes one from `kicks`.
    ///
    /// Without such a chain, or if a load fails, nothing is stored.
    pub(super) fn place<W: Layout, B: BucketsMut<W>>(
        &mut self,
        buckets: &mut B,
        ids: &[BucketId],
        group: Group<W>,
        kicks: &mut u32,
    ) -> Result<bool, B::Error> {
        let mut reached = Vec::new();
        let found = self.find_place(buckets, ids, group, kicks, &mut reached);
        forget(&mut self.visited, reached.iter().map(|step| step.id));
        let Some(mut bucket) = found? else { return Ok(false) };
        let mut step = reached.last();
        while let Some(Reached { id, parent, left, .. }) = step {
            buckets.store(*id, bucket);
            (bucket, step) = (*left, reached.get(*parent));
        }
        Ok(true)
    }

    /// Searches until the last bucket reached has room for the arriving group. Returns that bucket with the group.
    fn find_place<W: Layout, B: Buckets<W>>(
        &mut self,
        buckets: &mut B,
        ids: &[BucketId],
        group: Group<W>,
        kicks: &mut u32,
        reached: &mut Vec<Reached<W>>,
    ) -> Result<Option<Bucket<W>>, B::Error> {
        for id in ids.iter().copied() {
            let bucket = buckets.load(id)?;
            self.visit(id);
            let step = Reached { id, bucket, coming: group, parent: ROOT, left: bucket };
            reached.push(step);
            if let Some(room) = step.with_group() {
                return Ok(Some(room));
            }
        }
        let mut parent = 0;
        while let Some(&Reached { id, bucket, coming, .. }) = reached.get(parent) {
            let here = Groups::of(bucket);
            for (index, leaving) in here.iter().copied().enumerate() {
                if leaving.entry.tail_length().is_none() {
                    continue;
                }
                let Some(rest) = kicks.checked_sub(1) else { return Ok(None) };
                *kicks = rest;
                let other = leaving.entry.other(id);
                if self.is_visited(other) {
                    continue;
                }
                let Some(left) = here.without(index).and(coming).pack() else { continue };
                let step = Reached { id: other, bucket: buckets.load(other)?, coming: leaving, parent, left };
                self.visit(other);
                reached.push(step);
                if let Some(room) = step.with_group() {
                    return Ok(Some(room));
                }
            }
            parent += 1;
        }
        Ok(None)
    }

    fn clear(&mut self) {
        forget(&mut self.visited, self.steps.drain(..).map(|step| step.id));
    }

    /// Frees a lane in one of `roots` by one chain. Returns that bucket with the lane free; the caller must store it. The
    /// entries in `kept`, and their digits, stay. Each examined entry takes one from `kicks`; at 0, the search ends.
    ///
    /// Without room, or if a load fails, nothing is stored.
    #[inline]
    pub(super) fn free_lane<W: Layout, B: BucketsMut<W>>(
        &mut self,
        buckets: &mut B,
        roots: &[(BucketId, Bucket<W>)],
        kept: &[Kept<W>],
        kicks: &mut u32,
    ) -> Result<Option<(BucketId, Bucket<W>)>, B::Error> {
        let found = self.find(buckets, roots, kept, kicks);
        let room = found.map(|end| end.map(|end| self.follow(buckets, end)));
        self.clear();
        room
    }

    /// Searches from `roots` for a bucket with a free lane, or with a group whose other bucket has the lanes for it.
    fn find<W: Layout, B: Buckets<W>>(
        &mut self,
        buckets: &mut B,
        roots: &[(BucketId, Bucket<W>)],
        kept: &[Kept<W>],
        kicks: &mut u32,
    ) -> Result<Option<End<W>>, B::Error> {
        self.met_groups = false;
        let Some((_, root)) = roots.first() else { return Ok(None) };
        for (id, bucket) in roots {
            self.reach(*id, bucket.0, ROOT, 0);
        }
        if buckets.are_far() {
            prefetch_others(buckets, roots);
        }
        let mut parent = 0;
        while let Some(&Step { id, word, .. }) = self.steps.get(parent) {
            let bucket = root.like(word);
            let digits = bucket.digit_lanes();
            self.met_groups |= digits.any();
            for lane in 0..root.numbers().slots {
                let slot = bucket.slot(lane);
                let moves = !slot.is_empty() && !slot.is_universal() && !digits.has(lane);
                if !moves || kept.contains(&(id, slot)) {
                    continue;
                }
                let Some(left) = kicks.checked_sub(1) else { return Ok(None) };
                *kicks = left;
                let other = slot.other(id);
                if self.is_visited(other) {
                    continue;
                }
                let there = buckets.load(other)?;
                if digits.has(lane + 1) {
                    if let Some((left, taken)) = moved(bucket.erased(), slot.erased(), there.erased()) {
                        let taker = Some((other, there.like(taken.0)));
                        return Ok(Some(End { step: parent, bucket: bucket.like(left.0), taker }));
                    }
                } else {
                    self.reach(other, there.0, parent, lane);
                    if there.empty_lanes().any() {
                        return Ok(Some(End { step: self.steps.len() - 1, bucket: there, taker: None }));
                    }
                }
            }
            parent += 1;
        }
        Ok(None)
    }

    /// Moves the entries of a chain, the last one first. Returns the bucket that the chain starts from, without the
    /// entry that left it; the caller stores that bucket.
    fn follow<W: Layout, B: BucketsMut<W>>(&self, buckets: &mut B, end: End<W>) -> (BucketId, Bucket<W>) {
        if let Some((id, bucket)) = end.taker {
            buckets.store(id, bucket);
        }
        let (mut step, mut bucket) = (self.steps[end.step], end.bucket);
        while step.parent != ROOT {
            let parent = self.steps[step.parent];
            let from = bucket.like(parent.word);
            // There is a free lane: the search ends only at a bucket with one, and each move frees one.
            let lane = bucket.empty_lanes().first().unwrap_or(0);
            buckets.store(step.id, bucket.with(lane, from.slot(step.lane)));
            (step, bucket) = (parent, from.without(step.lane));
        }
        (step.id, bucket)
    }
}

/// Clears the bits of all buckets that a search visited.
fn forget(visited: &mut [u64], all: impl Iterator<Item = BucketId>) {
    all.for_each(|id| visited[usize::from(id.0) / 64] = 0);
}

/// The bucket `from` without the group of `entry`, and the bucket `to` with it; `None` if `to` has no room for the group.
#[cold]
fn moved(
    from: Bucket<AnyLayout>,
    entry: Slot<AnyLayout>,
    to: Bucket<AnyLayout>,
) -> Option<(Bucket<AnyLayout>, Bucket<AnyLayout>)> {
    let groups = Groups::of(from);
    let (index, group) = groups.find(entry)?;
    Some((groups.without(index).pack()?, Groups::of(to).and(group).pack()?))
}

#[cfg(test)]
mod tests;
