//! Displacement: a group takes the place of others; these take the place of others in their other buckets, until every
//! group has a place.
//!
//! A chain of entries (`search.rs`) cannot pass a bucket whose lanes all belong to groups, and a chain of groups needs a
//! group of as many lanes in each bucket that it passes. Here a group is put into a bucket first, and the groups that
//! must leave for it are put into their other buckets in the same way. Every minimal set of leaving groups is tried, the
//! fewest lanes first. A group that was put somewhere stays there, so each attempt ends. Attempts go deeper and deeper,
//! so that an attempt with few moves is found first.
//!
//! Where whole groups find no room, one of them may be *divided*: it becomes two groups of its entry, one in each bucket
//! of its pair, each of fewer lanes. Three groups of 3, 3 and 2 lanes fit into the eight lanes of a pair only so.

use super::bucket::{AnyBuckets, Bucket, BucketId, Buckets, BucketsMut};
use super::group::{Group, Groups};
use super::search::{Kept, Search};
use super::widths::Layout;

/// The greatest depth: the displaced groups that displace one another in a row.
pub(super) const DEPTH: u32 = 12;
/// The entries that the search for each chain may examine, out of the whole displacement's entries. A chain that is found
/// at all is nearly always short.
const CHAIN: u32 = 24;
/// The groups that the search for a chain of groups may examine.
const CHAIN_OF_GROUPS: u32 = 1000;

/// The displacements of one insert may examine this many times as many entries as one search.
const EFFORT: u32 = 8;

/// The entries that the displacements of one insert may examine, if one search may examine `max_kicks`.
pub(super) const fn effort(max_kicks: u32) -> u32 {
    max_kicks.saturating_mul(EFFORT)
}

/// A group that was divided over both of its buckets.
#[derive(Clone, Copy)]
pub(super) struct Division<W> {
    pub(super) whole: Group<W>,
    pub(super) parts: [Group<W>; 2],
}

/// Puts a group into one of the buckets `ids`, both of its pair or one of them, by a chain of groups, or by displacement.
/// The buckets `given` are stored first, if it succeeds. Each entry examined takes one of `kicks`. Without room, or if a
/// load fails, nothing is stored.
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

/// Like [`displace`], without the chain of groups, and one of the groups in the way may be divided. Returns the division
/// if one was made; `None` without room.
#[cold]
pub(super) fn displace_dividing<W: Layout, E>(
    buckets: &mut AnyBuckets<'_, W, E>,
    search: &mut Search,
    given: &[(BucketId, Bucket<W>)],
    ids: &[BucketId],
    group: Group<W>,
    kicks: &mut u32,
) -> Result<Option<Option<Division<W>>>, E> {
    let staged = Staged { buckets, stored: given.to_vec() };
    let mut displacement = Displacement { may_divide: true, ..Displacement::new(search, staged, kicks) };
    let done = displacement.put_deeper_and_deeper(ids, group)?;
    if !done {
        return Ok(None);
    }
    let divided = displacement.divided;
    displacement.staged.commit();
    Ok(Some(divided))
}

struct Displacement<'a, W, B> {
    search: &'a mut Search,
    staged: Staged<'a, W, B>,
    /// The groups that were put, and where: they are not moved again.
    put: Vec<Kept<W>>,
    /// Whether one group may be divided.
    may_divide: bool,
    divided: Option<Division<W>>,
    /// Entries that may still be examined.
    kicks: &'a mut u32,
    /// Whether the depth limit left anything untried.
    cut: bool,
}

/// A way to make room in a bucket.
struct Way<W> {
    /// The groups that stay.
    stay: Groups<W>,
    /// The groups that leave for their other buckets,
    leave: Groups<W>,
    /// and a group that does both: its first part stays, the second leaves.
    divided: Option<Division<W>>,
}

/// What an attempt starts from.
struct Mark<W> {
    stored: usize,
    put: usize,
    divided: Option<Division<W>>,
}

impl<'a, W: Layout, B: BucketsMut<W>> Displacement<'a, W, B> {
    fn new(search: &'a mut Search, staged: Staged<'a, W, B>, kicks: &'a mut u32) -> Self {
        Self { search, staged, put: Vec::new(), may_divide: false, divided: None, kicks, cut: false }
    }

    fn mark(&self) -> Mark<W> {
        Mark { stored: self.staged.stored.len(), put: self.put.len(), divided: self.divided }
    }

    fn undo(&mut self, to: &Mark<W>) {
        self.staged.stored.truncate(to.stored);
        self.put.truncate(to.put);
        self.divided = to.divided;
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
            self.undo(&before);
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
        for Way { stay, leave, divided } in self.ways_for(id, &here, group) {
            if depth == 0 {
                self.cut = true;
                break;
            }
            let Some(kicks) = self.kicks.checked_sub(leave.iter().len() as u32) else { break };
            *self.kicks = kicks;
            let Some(with_group) = stay.and(group).pack() else { continue };
            self.staged.store(id, with_group);
            self.divided = self.divided.or(divided);
            self.put.extend(divided.map(|division| (id, division.parts[0].entry)));
            let mut all = true;
            for other in leave.iter() {
                all = all && self.put(other.entry.other(id), *other, depth - 1)?;
            }
            if all {
                return Ok(true);
            }
            self.undo(&before);
        }
        Ok(false)
    }

    /// The ways to make room for a group in a bucket, in the order to try them.
    fn ways_for(&self, id: BucketId, here: &Groups<W>, group: Group<W>) -> Vec<Way<W>> {
        let may_move = |one: &Group<W>| !self.put.contains(&(id, one.entry));
        let may_divide = self.may_divide && self.divided.is_none();
        let mut all = all_ways(here, may_move, group, may_divide);
        all.sort_by_key(|way| way.leave.lanes());
        all
    }
}

/// The ways for groups to make room for `group`, if `may_move` allows: first whole groups leave, then one of them is
/// divided. Other slots stay.
fn all_ways<W: Layout>(
    here: &Groups<W>,
    may_move: impl Fn(&Group<W>) -> bool,
    group: Group<W>,
    may_divide: bool,
) -> Vec<Way<W>> {
    let stays = |one: &Group<W>| one.entry.tail_length().is_none() || !may_move(one);
    let staying = here.iter().enumerate().map(|(index, one)| u32::from(stays(one)) << index).sum();
    let mut all: Vec<Way<W>> = ways_to_leave(here, staying, group, None).collect();
    if may_divide {
        for (index, one) in here.iter().enumerate().filter(|(index, _)| staying >> index & 1 == 0) {
            for division in divisions(*one) {
                let with_part = here.with(index, division.parts[0]);
                all.extend(ways_to_leave(&with_part, staying | 1 << index, group, Some(division)));
            }
        }
    }
    all
}

/// The ways for some of these groups to leave for `group`, the fewest lanes first, while the set `staying` stays. The second
/// part of a divided group always leaves.
fn ways_to_leave<W: Layout>(
    here: &Groups<W>,
    staying: u32,
    group: Group<W>,
    divided: Option<Division<W>>,
) -> impl Iterator<Item = Way<W>> {
    let slots = group.width().numbers().slots;
    let of_each: Vec<u32> = here.iter().map(|one| one.lanes().unwrap_or(slots)).collect();
    let needed = here.and(group).lanes().saturating_sub(slots);
    ways(&of_each, staying, needed).into_iter().map(move |leaving| {
        let leaves = |index: usize| leaving >> index & 1 == 1;
        let leave = here.filtered(leaves);
        let leave = divided.map_or(leave, |division| leave.and(division.parts[1]));
        Way { stay: here.filtered(|index| !leaves(index)), leave, divided }
    })
}

/// The ways to divide a group over two buckets so that it takes fewer lanes in either than whole. One part has all the
/// copies that its lanes can count.
///
/// n = 4: 2 copies are 1 and 1, 33 are 1 and 32, 64 are 32 and 32, and 3 to 32 or 65 to 993 copies are not divided.
fn divisions<W: Layout>(whole: Group<W>) -> impl Iterator<Item = Division<W>> {
    let part = move |copies| Group { copies, ..whole };
    // A saturated group stands for more copies than it counts.
    let lanes = whole.lanes().filter(|_| whole.copies < whole.width().numbers().most_copies).unwrap_or(0);
    let mut of_first: Vec<u32> = (1..lanes)
        .map(|lanes| whole.most_in(lanes))
        .filter(|full| part(whole.copies - full).lanes() < Some(lanes))
        .flat_map(|full| [full, whole.copies - full])
        .collect();
    of_first.sort_unstable();
    of_first.dedup();
    let of_copies = move |copies| Division { whole, parts: [part(copies), part(whole.copies - copies)] };
    of_first.into_iter().map(of_copies)
}

/// The minimal sets of groups that free `needed` lanes, as bits, the fewest lanes first: without any one of its groups,
/// a set would free too few. `lanes` has the lanes of each group, `staying` the groups that must not leave.
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
