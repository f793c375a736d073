//! Making room: entries move to their other buckets, until a bucket has a free lane.
//!
//! A move needs no key. An entry without digits takes one lane wherever it goes, so such entries move in chains: each
//! into the lane that the next one leaves. A group takes several lanes, which are free together only at the end of a
//! chain. If no chain frees a lane, the groups of the bucket are tried, the smallest first: each lane that a group
//! needs in its other bucket is freed by a chain of its own.

use super::bucket::{Bucket, BucketId, Slot};
use super::buckets::{BUCKETS_PER_REGION, Buckets, BucketsMut};
use super::group::Groups;
use super::widths::Width;

/// Breadth-first search for the shortest chain of moves that frees a lane.
///
/// What must move is known before the first entry moves, so a search that fails changes nothing. The value is kept
/// between inserts only to reuse its memory.
#[derive(Debug)]
pub(crate) struct Search {
    steps: Vec<Step>,
    /// One bit for each bucket: whether it is among `steps`. Each bucket is visited once, so no chain meets itself.
    ///
    /// Bucket 4913 is bit 49 of word 76.
    visited: Vec<u64>,
    /// Whether the last search met a group of several lanes.
    met_groups: bool,
    /// Buckets changed while a group is being moved, in order.
    staged: Vec<(BucketId, u64)>,
}

/// A bucket that the search reached: the other bucket of the entry in `lane` of the bucket of step `parent`.
#[derive(Clone, Copy, Debug)]
struct Step {
    id: BucketId,
    word: u64,
    parent: usize,
    lane: u32,
}

/// How many groups move, at most, each to make room for the one before.
pub(super) const DEPTH: u32 = 6;

/// The parent of the buckets that the search starts from.
const ROOT: usize = usize::MAX;

/// How a chain ends.
#[derive(Clone, Copy)]
struct End<W> {
    /// The last bucket that an entry moves to,
    step: usize,
    /// and what it holds with a lane free,
    bucket: Bucket<W>,
    /// once this bucket has taken the group that leaves it; `None` if it had a free lane before.
    taker: Option<(BucketId, Bucket<W>)>,
}

/// A bucket where an entry, with its digits, must stay.
type Kept<W> = Option<(BucketId, Slot<W>)>;

/// A bucket where a lane was freed, which the caller has to store.
type Room<W> = Option<(BucketId, Bucket<W>)>;

impl Search {
    pub(crate) fn new() -> Self {
        let visited = vec![0; BUCKETS_PER_REGION as usize / 64];
        Self { steps: Vec::new(), visited, met_groups: false, staged: Vec::new() }
    }

    fn is_visited(&self, id: BucketId) -> bool {
        self.visited[usize::from(id.0) / 64] >> (id.0 % 64) & 1 == 1
    }

    /// Adds a step, unless its bucket was visited before; true if it was added.
    fn reach(&mut self, id: BucketId, word: u64, parent: usize, lane: u32) -> bool {
        let new = !self.is_visited(id);
        if new {
            self.visited[usize::from(id.0) / 64] |= 1 << (id.0 % 64);
            self.steps.push(Step { id, word, parent, lane });
        }
        new
    }

    fn clear(&mut self) {
        for step in self.steps.drain(..) {
            self.visited[usize::from(step.id.0) / 64] = 0;
        }
    }

    /// Frees a lane in one of `roots`, and returns that bucket with the lane free, which the caller must store. The
    /// entry `kept`, and its digits, stay in the bucket given with it. Chains of single entries are searched among at
    /// most `max_kicks` entries, and then, for groups, among as many again.
    ///
    /// If there is no room, or a load fails, nothing is stored.
    pub(super) fn make_room<W: Width, B: BucketsMut<W>>(
        &mut self,
        buckets: &mut B,
        roots: &[(BucketId, Bucket<W>)],
        kept: Kept<W>,
        max_kicks: u32,
    ) -> Result<Room<W>, B::Error> {
        if let Some(room) = self.free_lane(buckets, roots, kept, &mut { max_kicks })? {
            return Ok(Some(room));
        }
        if !self.met_groups {
            return Ok(None);
        }
        self.move_groups(buckets, roots, kept, max_kicks)
    }

    /// Frees a lane by one chain.
    #[inline]
    fn free_lane<W: Width, B: BucketsMut<W>>(
        &mut self,
        buckets: &mut B,
        roots: &[(BucketId, Bucket<W>)],
        kept: Kept<W>,
        kicks: &mut u32,
    ) -> Result<Room<W>, B::Error> {
        let found = self.find(buckets, roots, kept, kicks);
        let room = found.map(|end| end.map(|end| self.follow(buckets, end)));
        self.clear();
        room
    }

    /// Frees the lanes of a group in one of `roots`.
    #[cold]
    fn move_groups<W: Width, B: BucketsMut<W>>(
        &mut self,
        buckets: &mut B,
        roots: &[(BucketId, Bucket<W>)],
        kept: Kept<W>,
        max_kicks: u32,
    ) -> Result<Room<W>, B::Error> {
        let mut staged = Staged { buckets, stored: std::mem::take(&mut self.staged) };
        let mut moved = Ok(None);
        // The shortest way first.
        'found: for depth in 0..=DEPTH {
            let mut kicks = max_kicks;
            for (id, bucket) in roots {
                moved = self.free_by_groups(&mut staged, *id, *bucket, kept, depth, &mut kicks);
                if !matches!(moved, Ok(None)) {
                    break 'found;
                }
            }
        }
        let Staged { buckets, mut stored } = staged;
        if let Ok(Some(_)) = moved {
            stored.iter().for_each(|(id, word)| buckets.store(*id, Bucket::new(*word)));
        }
        stored.clear();
        self.staged = stored;
        moved
    }

    /// Moves a group out of bucket `id`, the smallest one that can be moved. If its other bucket has too few free
    /// lanes, they are freed there first, by chains or, up to `depth` times, by moving a group from there.
    fn free_by_groups<W: Width, B: BucketsMut<W>>(
        &mut self,
        staged: &mut Staged<'_, B>,
        id: BucketId,
        bucket: Bucket<W>,
        kept: Kept<W>,
        depth: u32,
        kicks: &mut u32,
    ) -> Result<Room<W>, B::Error> {
        let mark = staged.stored.len();
        for lanes in 1..=W::SLOTS {
            for group in Groups::of(bucket).iter().filter(|group| group.lanes() == Some(lanes)) {
                if group.entry.tail_length().is_none() || kept == Some((id, group.entry)) {
                    continue;
                }
                if let Some(room) = self.free_other(staged, id, group.entry, kept, depth, kicks)? {
                    return Ok(Some(room));
                }
                staged.stored.truncate(mark);
            }
        }
        Ok(None)
    }

    /// Moves the group of `entry` out of bucket `id`, once there are as many lanes in its other bucket as it takes.
    fn free_other<W: Width, B: BucketsMut<W>>(
        &mut self,
        staged: &mut Staged<'_, B>,
        id: BucketId,
        entry: Slot<W>,
        kept: Kept<W>,
        depth: u32,
        kicks: &mut u32,
    ) -> Result<Room<W>, B::Error> {
        let other = entry.other(id);
        while *kicks > 0 {
            *kicks -= 1;
            // What was moved meanwhile may have gone through this bucket.
            let from = Groups::of(staged.load(id)?);
            let Some((index, group)) = from.find(entry) else { return Ok(None) };
            let to: Bucket<W> = staged.load(other)?;
            if let (Some(taken), Some(left)) = (Groups::of(to).and(group).pack(), from.without(index).pack())
            {
                staged.store(other, taken);
                return Ok(Some((id, left)));
            }
            let room = match self.free_lane(staged, &[(other, to)], kept, kicks)? {
                None if depth > 0 => self.free_by_groups(staged, other, to, kept, depth - 1, kicks)?,
                room => room,
            };
            match room {
                Some((other, bucket)) => staged.store(other, bucket),
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Searches from `roots` for a bucket with a free lane, or with a group whose other bucket has the lanes for it.
    fn find<W: Width, B: Buckets<W>>(
        &mut self,
        buckets: &mut B,
        roots: &[(BucketId, Bucket<W>)],
        kept: Kept<W>,
        kicks: &mut u32,
    ) -> Result<Option<End<W>>, B::Error> {
        self.met_groups = false;
        for (id, bucket) in roots {
            self.reach(*id, bucket.0, ROOT, 0);
        }
        let mut parent = 0;
        while let Some(&Step { id, word, .. }) = self.steps.get(parent) {
            let bucket = Bucket::<W>::new(word);
            let digits = bucket.digit_lanes();
            self.met_groups |= digits.any();
            for lane in 0..W::SLOTS {
                let slot = bucket.slot(lane);
                let moves = !slot.is_empty() && !slot.is_universal() && !digits.has(lane);
                if !moves || kept == Some((id, slot)) {
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
                    if let Some((left, taken)) = moved(bucket, slot, there) {
                        return Ok(Some(End { step: parent, bucket: left, taker: Some((other, taken)) }));
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

    /// Moves the entries of a chain, the last one first. Returns the bucket that it starts from, without the first of
    /// them: that one the caller stores.
    fn follow<W: Width, B: BucketsMut<W>>(&self, buckets: &mut B, end: End<W>) -> (BucketId, Bucket<W>) {
        if let Some((id, bucket)) = end.taker {
            buckets.store(id, bucket);
        }
        let (mut step, mut bucket) = (self.steps[end.step], end.bucket);
        while step.parent != ROOT {
            let parent = self.steps[step.parent];
            let from = Bucket::<W>::new(parent.word);
            // There is a free lane: the search ends only at a bucket that has one, and each move leaves one.
            let lane = bucket.empty_lanes().first().unwrap_or(0);
            buckets.store(step.id, bucket.with(lane, from.slot(step.lane)));
            (step, bucket) = (parent, from.with(step.lane, Slot::new(0)));
        }
        (step.id, bucket)
    }
}

/// A bucket without the group of `entry`, and the group's other bucket with it; `None` if that has no room.
#[cold]
fn moved<W: Width>(from: Bucket<W>, entry: Slot<W>, to: Bucket<W>) -> Option<(Bucket<W>, Bucket<W>)> {
    let groups = Groups::of(from);
    let (index, group) = groups.find(entry)?;
    Some((groups.without(index).pack()?, Groups::of(to).and(group).pack()?))
}

/// Buckets with changes that are kept back until all of them are known to succeed.
struct Staged<'a, B> {
    buckets: &'a mut B,
    stored: Vec<(BucketId, u64)>,
}

impl<W: Width, B: Buckets<W>> Buckets<W> for Staged<'_, B> {
    type Error = B::Error;

    fn load(&mut self, id: BucketId) -> Result<Bucket<W>, B::Error> {
        match self.stored.iter().rev().find(|(stored, _)| *stored == id) {
            Some((_, word)) => Ok(Bucket::new(*word)),
            None => self.buckets.load(id),
        }
    }
}

impl<W: Width, B: BucketsMut<W>> BucketsMut<W> for Staged<'_, B> {
    fn store(&mut self, id: BucketId, bucket: Bucket<W>) {
        self.stored.push((id, bucket.0));
    }
}
