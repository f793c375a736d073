//! Displacement: a group takes the place of others, which take the place of others in their other buckets, until all
//! have one.
//!
//! A chain (`search.rs`) moves one lane at a time, and a bucket whose lanes are taken by groups can lie in no chain.
//! Here a group is put into a bucket first, and those that must leave it for that are put into their other buckets in
//! the same way. Which leave is tried in all ways, the fewest lanes first. What was put somewhere stays there, so each
//! attempt ends: a group is moved once or not at all. Attempts displace deeper and deeper, so that one that moves few
//! groups is found first.

use super::bucket::{Bucket, BucketId};
use super::buckets::{Buckets, BucketsMut};
use super::group::{Group, Groups, MOST};
use super::search::{Kept, Search};
use super::widths::Width;

/// How often, at most, a group that is displaced displaces others.
pub(super) const DEPTH: u32 = 12;
/// The entries that each chain may examine, of those that the whole displacement may. A chain that is found at all is
/// nearly always short.
const CHAIN: u32 = 24;

/// How many entries the displacements of one insert may examine, for each that a chain may.
const EFFORT: u32 = 8;

/// The entries that the displacements of one insert may examine, where each chain may examine `max_kicks`.
pub(super) const fn effort(max_kicks: u32) -> u32 {
    max_kicks.saturating_mul(EFFORT)
}

/// Puts a group into one of the buckets `ids`, those of its pair or one of them. Before that, the buckets `given` are
/// stored. Each entry examined takes one of `kicks`. If there is no room, or a load fails, nothing is stored.
#[cold]
pub(super) fn displace<W: Width, B: BucketsMut<W>>(
    buckets: &mut B,
    search: &mut Search,
    given: &[(BucketId, Bucket<W>)],
    ids: &[BucketId],
    group: Group<W>,
    kicks: &mut u32,
) -> Result<bool, B::Error> {
    displace_any(&mut AnyBuckets(buckets), search, given, ids, group, kicks)
}

/// The same for buckets that lie anywhere. It is compiled once for each width, and not once more for each place where
/// buckets lie; what it loads through a table of functions is little beside what it does with it.
fn displace_any<W: Width, E>(
    buckets: &mut AnyBuckets<'_, W, E>,
    search: &mut Search,
    given: &[(BucketId, Bucket<W>)],
    ids: &[BucketId],
    group: Group<W>,
    kicks: &mut u32,
) -> Result<bool, E> {
    let staged = Staged { buckets, stored: given.to_vec() };
    let mut displacement = Displacement { search, staged, put: Vec::new(), kicks, cut: false };
    for depth in 0..=DEPTH {
        displacement.cut = false;
        for id in ids {
            if displacement.put(*id, group, depth)? {
                let Staged { buckets, stored } = displacement.staged;
                stored.into_iter().for_each(|(id, bucket)| buckets.store(id, bucket));
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
    /// What was put where: it is not moved again.
    put: Vec<Kept<W>>,
    /// Entries that may still be examined.
    kicks: &'a mut u32,
    /// Whether anything was left out because the depth ended there.
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

    /// Into free lanes, or those that chains free.
    fn put_by_chains(&mut self, id: BucketId, group: Group<W>) -> Result<bool, B::Error> {
        let mut bucket = self.staged.load(id)?;
        loop {
            if let Some(with_group) = Groups::of(bucket).and(group).pack() {
                self.staged.store(id, with_group);
                return Ok(true);
            }
            let mut kicks = CHAIN.min(*self.kicks);
            *self.kicks -= kicks;
            let room = self.search.free_lane(&mut self.staged, &[(id, bucket)], &self.put, &mut kicks)?;
            *self.kicks += kicks;
            let Some((_, left)) = room else { return Ok(false) };
            self.staged.store(id, left);
            bucket = left;
        }
    }

    /// In the place of other groups, which are put into their other buckets.
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

    /// The sets of groups to try, as bits.
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

/// The sets of groups that leave `needed` lanes when they go, and not without each of them, as bits; those of the
/// fewest lanes first. `lanes` are those of each group, and `staying` the set of groups that do not leave.
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

/// Buckets, wherever they lie.
struct AnyBuckets<'a, W, E>(&'a mut dyn BucketsMut<W, Error = E>);

impl<W: Width, E> Buckets<W> for AnyBuckets<'_, W, E> {
    type Error = E;

    fn load(&mut self, id: BucketId) -> Result<Bucket<W>, E> {
        self.0.load(id)
    }
}

impl<W: Width, E> BucketsMut<W> for AnyBuckets<'_, W, E> {
    fn store(&mut self, id: BucketId, bucket: Bucket<W>) {
        self.0.store(id, bucket);
    }
}

/// Buckets with changes that are kept back until all of them are known to succeed.
pub(super) struct Staged<'a, W, B> {
    pub(super) buckets: &'a mut B,
    pub(super) stored: Vec<(BucketId, Bucket<W>)>,
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
