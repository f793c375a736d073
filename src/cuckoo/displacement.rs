//! Displacement: a group takes the place of others; these take the place of others in their other buckets, until every
//! group has a place.
//!
//! A chain of entries (`search.rs`) cannot pass a bucket whose lanes all belong to groups, and a chain of groups needs a
//! group of as many lanes in each bucket that it passes. Here a group is first put into a bucket, and the groups that
//! must leave are then put into their other buckets in the same way. Every minimal set of leaving groups is tried, the
//! fewest lanes first. A group that was put stays in its bucket, so each attempt ends. Each attempt goes deeper than the
//! one before, so that an attempt with few moves is found first.

use super::bucket::{AnyBuckets, Bucket, BucketId, Buckets, BucketsMut};
use super::group::{Group, Groups};
use super::search::{Kept, Search};
use super::widths::Layout;

/// The greatest depth: how many displaced groups may displace one another in a row.
pub(super) const DEPTH: u32 = 12;
/// How many entries the search for each chain may examine, out of the entries for the whole displacement. The chains that
/// exist are nearly always short.
const CHAIN: u32 = 24;
/// How many groups the search for a chain of groups may examine.
const CHAIN_OF_GROUPS: u32 = 1000;

/// The displacements of one insert together may examine this many times as many entries as one search.
const EFFORT: u32 = 8;

/// How many entries the displacements of one insert may examine, if one search may examine `max_kicks`.
pub(super) const fn effort(max_kicks: u32) -> u32 {
    max_kicks.saturating_mul(EFFORT)
}

/// Puts a group into one of the buckets `ids`, both buckets of its pair or one of them, by a chain of groups or by
/// displacement. On success, the buckets `given` are stored first. Each examined entry takes one from `kicks`. Without
/// room, or if a load fails, nothing is stored.
#[cold]
pub(super) fn displace<W: Layout, E>(
    buckets: &mut AnyBuckets<'_, W, E>,
    search: &mut Search,
    given: &[(BucketId, Bucket<W>)],
    ids: &[BucketId],
    group: Group<W>,
    kicks: &mut u32,
) -> Result<bool, E> {
    let mut staged = Staged { buckets, stored: given.to_vec() };
    let mut in_chain = CHAIN_OF_GROUPS.min(*kicks);
    *kicks -= in_chain;
    let placed = search.place(&mut staged, ids, group, &mut in_chain)?;
    *kicks += in_chain;
    if placed {
        staged.commit();
        return Ok(true);
    }
    let mut displacement = Displacement::new(search, staged, kicks);
    let done = displacement.put_deeper_and_deeper(ids, group)?;
    if done {
        displacement.staged.commit();
    }
    Ok(done)
}

struct Displacement<'a, W, B> {
    search: &'a mut Search,
    staged: Staged<'a, W, B>,
    /// The groups that were put, with their buckets. They are not moved again.
    put: Vec<Kept<W>>,
    /// Entries that may still be examined.
    kicks: &'a mut u32,
    /// Whether the depth limit left anything untried.
    cut: bool,
}

/// A way to make room in a bucket.
struct Way<W> {
    /// The groups that stay.
    stay: Groups<W>,
    /// The groups that leave for their other buckets.
    leave: Groups<W>,
}

/// The state that a failed attempt returns to: how many buckets were staged, and how many groups put.
#[derive(Clone, Copy)]
struct Mark {
    stored: usize,
    put: usize,
}

impl<'a, W: Layout, B: BucketsMut<W>> Displacement<'a, W, B> {
    fn new(search: &'a mut Search, staged: Staged<'a, W, B>, kicks: &'a mut u32) -> Self {
        Self { search, staged, put: Vec::new(), kicks, cut: false }
    }

    fn mark(&self) -> Mark {
        Mark { stored: self.staged.stored.len(), put: self.put.len() }
    }

    fn undo(&mut self, to: Mark) {
        self.staged.stored.truncate(to.stored);
        self.put.truncate(to.put);
    }

    /// Puts a group into one of the buckets `ids`. If that fails, nothing is staged.
    fn put_deeper_and_deeper(&mut self, ids: &[BucketId], group: Group<W>) -> Result<bool, B::Error> {
        for depth in 0..=DEPTH {
            self.cut = false;
            for id in ids {
                if self.put(*id, group, depth)? {
                    return Ok(true);
                }
            }
            if !self.cut || *self.kicks == 0 {
                break;
            }
        }
        Ok(false)
    }

    /// Puts a group into a bucket. If that fails, nothing is staged.
    fn put(&mut self, id: BucketId, group: Group<W>, depth: u32) -> Result<bool, B::Error> {
        let before = self.mark();
        self.put.push((id, group.entry));
        let done = self.put_by_chains(id, group)? || self.put_for_others(id, group, depth)?;
        if !done {
            self.undo(before);
        }
        Ok(done)
    }

    /// Puts a group into free lanes, or lanes that chains free.
    fn put_by_chains(&mut self, id: BucketId, group: Group<W>) -> Result<bool, B::Error> {
        let mut bucket = self.staged.load(id)?;
        loop {
            if let Some(with_group) = Groups::of(bucket).and(group).pack() {
                self.staged.store(id, with_group);
                return Ok(true);
            }
            let mut kicks = CHAIN.min(*self.kicks);
            *self.kicks -= kicks;
            let staged = &mut AnyBuckets(&mut self.staged);
            let room = self.search.free_lane(staged, &[(id, bucket)], &self.put, &mut kicks)?;
            *self.kicks += kicks;
            let Some((_, left)) = room else { return Ok(false) };
            self.staged.store(id, left);
            bucket = left;
        }
    }

    /// Puts a group into the lanes of other groups, and puts these groups into their other buckets.
    fn put_for_others(&mut self, id: BucketId, group: Group<W>, depth: u32) -> Result<bool, B::Error> {
        let here = Groups::of(self.staged.load(id)?);
        let before = self.mark();
        for Way { stay, leave } in self.ways_for(id, &here, group) {
            if depth == 0 {
                self.cut = true;
                break;
            }
            let Some(kicks) = self.kicks.checked_sub(leave.iter().len() as u32) else { break };
            *self.kicks = kicks;
            let Some(with_group) = stay.and(group).pack() else { continue };
            self.staged.store(id, with_group);
            let mut all = true;
            for other in leave.iter() {
                all = all && self.put(other.entry.other(id), *other, depth - 1)?;
            }
            if all {
                return Ok(true);
            }
            self.undo(before);
        }
        Ok(false)
    }

    /// The ways for other groups to make room for a group in a bucket, the fewest slots first. Universal slots stay, and
    /// so do groups that were put into the bucket.
    fn ways_for(&self, id: BucketId, here: &Groups<W>, group: Group<W>) -> Vec<Way<W>> {
        let slots = group.width().numbers().slots;
        let stays = |one: &Group<W>| one.entry.tail_length().is_none() || self.put.contains(&(id, one.entry));
        let staying = here.iter().enumerate().map(|(index, one)| u32::from(stays(one)) << index).sum();
        let of_each: Vec<u32> = here.iter().map(|one| one.lanes().unwrap_or(slots)).collect();
        let needed = here.and(group).lanes().saturating_sub(slots);
        let way = |leaving: u32| {
            let leaves = |index: usize| leaving >> index & 1 == 1;
            Way { stay: here.filtered(|index| !leaves(index)), leave: here.filtered(leaves) }
        };
        ways(&of_each, staying, needed).into_iter().map(way).collect()
    }
}

/// The minimal sets of groups that free `needed` lanes, as bits, the fewest lanes first. *Minimal*: without any one of
/// its groups, the set would free too few lanes. `lanes` has the lanes of each group, `staying` the groups that must not
/// leave.
fn ways(lanes: &[u32], staying: u32, needed: u32) -> Vec<u32> {
    let of = |set: u32| -> u32 {
        lanes.iter().enumerate().filter(|(index, _)| set >> index & 1 == 1).map(|(_, lanes)| lanes).sum()
    };
    let mut ways: Vec<u32> = (0..1 << lanes.len())
        .filter(|set| set & staying == 0 && of(*set) >= needed)
        .filter(|set| (0..8).all(|index| set >> index & 1 == 0 || of(set & !(1 << index)) < needed))
        .collect();
    ways.sort_by_key(|set| of(*set));
    ways
}

/// Buckets with changes that are not stored until all of them are known to succeed.
pub(super) struct Staged<'a, W, B> {
    pub(super) buckets: &'a mut B,
    pub(super) stored: Vec<(BucketId, Bucket<W>)>,
}

impl<W: Layout, B: BucketsMut<W>> Staged<'_, W, B> {
    fn commit(self) {
        self.stored.into_iter().for_each(|(id, bucket)| self.buckets.store(id, bucket));
    }
}

impl<W: Layout, B: Buckets<W>> Buckets<W> for Staged<'_, W, B> {
    type Error = B::Error;

    fn load(&mut self, id: BucketId) -> Result<Bucket<W>, B::Error> {
        match self.stored.iter().rev().find(|(stored, _)| *stored == id) {
            Some((_, bucket)) => Ok(*bucket),
            None => self.buckets.load(id),
        }
    }
}

impl<W: Layout, B: BucketsMut<W>> BucketsMut<W> for Staged<'_, W, B> {
    fn store(&mut self, id: BucketId, bucket: Bucket<W>) {
        self.stored.push((id, bucket));
    }
}

#[cfg(test)]
pub(super) mod tests;
