//! Displacement: a group takes the place of others; these take the place of others in their other buckets, until every
//! group has a place.
//!
//! A chain of entries (`search.rs`) cannot pass a bucket whose lanes all belong to groups, and a chain of groups needs a
//! group of as many lanes in each bucket that it passes. Here a group is put into a bucket first, and the groups that
//! must leave for it are put into their other buckets in the same way. Every minimal set of leaving groups is tried, the
//! fewest lanes first. A group that was put somewhere stays there, so each attempt ends. Attempts go deeper and deeper,
//! so that one that moves few groups is found first.

use super::bucket::{AnyBuckets, Bucket, BucketId, Buckets, BucketsMut};
use super::group::{Group, Groups, MOST};
use super::search::{Kept, Search};
use super::widths::Width;

/// The greatest depth: the displaced groups that displace one another in a row.
pub(super) const DEPTH: u32 = 12;
/// The entries that the search for each chain may examine, out of those for the whole displacement. A chain that is
/// found at all is nearly always short.
const CHAIN: u32 = 24;
/// The groups that the search for a chain of groups may examine.
const CHAIN_OF_GROUPS: u32 = 1000;

/// The displacements of one insert may examine this many times as many entries as one search.
const EFFORT: u32 = 8;

/// The entries that the displacements of one insert may examine, if one search may examine `max_kicks`.
pub(super) const fn effort(max_kicks: u32) -> u32 {
    max_kicks.saturating_mul(EFFORT)
}

/// Puts a group into one of the buckets `ids`, both of its pair or one of them, by a chain of groups, or by displacement.
/// The buckets `given` are stored first, if it succeeds. Each entry examined takes one of `kicks`. If there is no room, or
/// a load fails, nothing is stored.
#[cold]
pub(super) fn displace<W: Width, E>(
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
    let mut displacement = Displacement { search, staged, put: Vec::new(), kicks, cut: false };
    for depth in 0..=DEPTH {
        displacement.cut = false;
        for id in ids {
            if displacement.put(*id, group, depth)? {
                displacement.staged.commit();
                return Ok(true);
            }
        }
        if !displacement.cut || *displacement.kicks == 0 {
            break;
        }
    }
    Ok(false)
}

struct Displacement<'a, W, B> {
    search: &'a mut Search,
    staged: Staged<'a, W, B>,
    /// The groups that were put, and where: they are not moved again.
    put: Vec<Kept<W>>,
    /// Entries that may still be examined.
    kicks: &'a mut u32,
    /// Whether the depth limit left anything untried.
    cut: bool,
}

impl<W: Width, B: BucketsMut<W>> Displacement<'_, W, B> {
    /// Puts a group into a bucket. If that fails, nothing is staged.
    fn put(&mut self, id: BucketId, group: Group<W>, depth: u32) -> Result<bool, B::Error> {
        let before = (self.staged.stored.len(), self.put.len());
        self.put.push((id, group.entry));
        let done = self.put_by_chains(id, group)? || self.put_for_others(id, group, depth)?;
        if !done {
            self.staged.stored.truncate(before.0);
            self.put.truncate(before.1);
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

    /// Puts a group into the lanes of other groups, and puts those into their other buckets.
    fn put_for_others(&mut self, id: BucketId, group: Group<W>, depth: u32) -> Result<bool, B::Error> {
        let here = Groups::of(self.staged.load(id)?);
        let before = (self.staged.stored.len(), self.put.len());
        for leaving in self.ways_for(id, &here, group) {
            if depth == 0 {
                self.cut = true;
                break;
            }
            let Some(kicks) = self.kicks.checked_sub(leaving.count_ones()) else { break };
            *self.kicks = kicks;
            let leaves = |index: usize| leaving >> index & 1 == 1;
            let Some(with_group) = here.filtered(|index| !leaves(index)).and(group).pack() else { continue };
            self.staged.store(id, with_group);
            let mut all = true;
            for (_, other) in here.iter().enumerate().filter(|(index, _)| leaves(*index)) {
                all = all && self.put(other.entry.other(id), *other, depth - 1)?;
            }
            if all {
                return Ok(true);
            }
            self.staged.stored.truncate(before.0);
            self.put.truncate(before.1);
        }
        Ok(false)
    }

    /// The sets of groups to displace, in the order to try them. Bit `index` of a set is the group of that index.
    fn ways_for(&self, id: BucketId, here: &Groups<W>, group: Group<W>) -> Vec<u32> {
        let lanes = |group: &Group<W>| group.lanes().unwrap_or(W::SLOTS);
        let stays =
            |group: &Group<W>| group.entry.tail_length().is_none() || self.put.contains(&(id, group.entry));
        let (mut of_each, mut staying) = ([0; MOST], 0);
        for (index, one) in here.iter().enumerate() {
            of_each[index] = lanes(one);
            staying |= u32::from(stays(one)) << index;
        }
        let needed = (of_each.iter().sum::<u32>() + lanes(&group)).saturating_sub(W::SLOTS);
        ways(&of_each[..here.iter().len()], staying, needed)
    }
}

/// The minimal sets of groups that free `needed` lanes, as bits, the fewest lanes first: without any one of its groups,
/// a set would free too few. `lanes` has the lanes of each group, `staying` the groups that must not leave.
fn ways(lanes: &[u32], staying: u32, needed: u32) -> Vec<u32> {
    let of = |set: u32| -> u32 {
        lanes.iter().enumerate().filter(|(index, _)| set >> index & 1 == 1).map(|(_, lanes)| lanes).sum()
    };
    let mut ways: Vec<u32> = (1..1 << lanes.len())
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

impl<W: Width, B: BucketsMut<W>> Staged<'_, W, B> {
    fn commit(self) {
        self.stored.into_iter().for_each(|(id, bucket)| self.buckets.store(id, bucket));
    }
}

impl<W: Width, B: Buckets<W>> Buckets<W> for Staged<'_, W, B> {
    type Error = B::Error;

    fn load(&mut self, id: BucketId) -> Result<Bucket<W>, B::Error> {
        match self.stored.iter().rev().find(|(stored, _)| *stored == id) {
            Some((_, bucket)) => Ok(*bucket),
            None => self.buckets.load(id),
        }
    }
}

impl<W: Width, B: BucketsMut<W>> BucketsMut<W> for Staged<'_, W, B> {
    fn store(&mut self, id: BucketId, bucket: Bucket<W>) {
        self.stored.push((id, bucket));
    }
}

#[cfg(test)]
pub(super) mod tests;
