//! Random walk: the last search for room, in a region that has plenty.
//!
//! A displacement (`displacement.rs`) moves no group twice and divides one at most; few arrangements need more than that,
//! and they are far too many to try one after the other. Here a group takes the place of others in one of its buckets;
//! each of these takes the place of others in turn; and so on, until none is left without a place. Groups are moved as
//! often as it takes, and divided wherever it helps. Of all ways to make room, the walk takes one after which the groups
//! that leave lack the fewest lanes where they go, by chance among equals; and every other time, on average, it takes any
//! way by chance, or it would go around in circles.

use super::bucket::{AnyBuckets, Bucket, BucketId, Buckets, BucketsMut};
use super::displacement::all_ways;
use super::group::{Group, Groups};
use super::widths::{Layout, Numbers, TAIL_LENGTHS};

/// The fewest slots of a bucket. With fewer, one popular key can fill a bucket, and a region of such keys is full long
/// before its lanes are: a walk would still find room for some more copies, each in the time of thousands of inserts.
const FEWEST_SLOTS: u32 = 4;
/// Likewise, a region is full if less than this part of its lanes is free.
const PLENTY: u32 = 8;

/// How many digits and entries a region has more after a walk. It has at most 57,344 slots, so no number here is greater.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Change {
    pub(super) digits: i32,
    pub(super) by_tail: [i32; TAIL_LENGTHS],
}

impl Change {
    /// Adds the digits and entries of a bucket `times` times.
    fn add<W: Layout>(&mut self, bucket: Bucket<W>, times: i32) {
        for group in Groups::of(bucket).iter() {
            if let (Some(length), Some(lanes)) = (group.entry.tail_length(), group.lanes()) {
                self.by_tail[length as usize] += times;
                self.digits += times * (lanes as i32 - 1);
            }
        }
    }
}

/// Puts a group into a bucket of its pair, of which `id` is one, in at most so many moves. The buckets `given` are stored
/// first, if it succeeds. If there is no room, or less than an eighth of the region is free, or a bucket has fewer than
/// four slots, or a load fails, nothing is stored.
#[cold]
pub(super) fn walk<W: Layout, E>(
    buckets: &mut AnyBuckets<'_, W, E>,
    given: &[(BucketId, Bucket<W>)],
    id: BucketId,
    group: Group<W>,
    moves: u32,
) -> Result<Option<Change>, E> {
    let Numbers { slots, index_bits, .. } = *group.width().numbers();
    if moves == 0 || slots < FEWEST_SLOTS {
        return Ok(None);
    }
    let ids = || (0..1 << index_bits).map(BucketId);
    let before: Vec<Bucket<W>> = ids().map(|id| buckets.load(id)).collect::<Result<_, E>>()?;
    let free: u32 = before.iter().map(|bucket| bucket.empty_lanes().count()).sum();
    if free < (slots << index_bits) / PLENTY {
        return Ok(None);
    }
    let beyond = Bucket::in_width(group.width(), group.width().numbers().high());
    let mut walk =
        Walk { buckets: before.clone(), beyond, waiting: vec![(id, group)], random: seed(id, group) };
    given.iter().for_each(|(id, bucket)| walk.store(*id, *bucket));
    let mut moves = 0..moves;
    while let Some((id, group)) = walk.waiting.pop() {
        if moves.next().is_none() || !walk.put(id, group) {
            return Ok(None);
        }
    }
    let mut change = Change { digits: 0, by_tail: [0; TAIL_LENGTHS] };
    for ((id, before), after) in ids().zip(before).zip(walk.buckets) {
        if before != after {
            change.add(before, -1);
            change.add(after, 1);
            buckets.store(id, after);
        }
    }
    Ok(Some(change))
}

/// Inserts of one key into one region walk in one way, so that a filter does not depend on how its keys were grouped.
fn seed<W: Layout>(id: BucketId, group: Group<W>) -> u64 {
    u64::from(id.0) << 32 | u64::from(group.entry.0)
}

struct Walk<W> {
    /// A copy of the region,
    buckets: Vec<Bucket<W>>,
    /// and what lies beyond it: a bucket that takes nothing.
    beyond: Bucket<W>,
    /// Groups without a place, and the bucket that each goes to if it does not go back.
    waiting: Vec<(BucketId, Group<W>)>,
    random: u64,
}

/// A way for a group.
struct Choice<W> {
    id: BucketId,
    with_group: Bucket<W>,
    leave: Groups<W>,
}

impl<W: Layout> Walk<W> {
    fn load(&self, id: BucketId) -> Bucket<W> {
        self.buckets.get(usize::from(id.0)).copied().unwrap_or(self.beyond)
    }

    fn store(&mut self, id: BucketId, bucket: Bucket<W>) {
        if let Some(place) = self.buckets.get_mut(usize::from(id.0)) {
            *place = bucket;
        }
    }

    /// The next number of a linear congruential generator with Knuth's multiplier.
    fn chance(&mut self) -> u32 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 32) as u32
    }

    /// Puts a group into one of its buckets. Groups that leave for it wait. Returns whether there was a way.
    fn put(&mut self, id: BucketId, group: Group<W>) -> bool {
        let is_blind = self.chance() >> 31 == 1;
        let mut best: Option<((u32, u32), Choice<W>)> = None;
        for (id, goes_back) in [(id, false), (group.entry.other(id), true)] {
            let (here, group) = with_equal(Groups::of(self.load(id)), group);
            for way in all_ways(&here, |_| true, group, true) {
                let Some(with_group) = way.stay.and(group).pack() else { continue };
                if way.leave.iter().len() == 0 {
                    self.store(id, with_group);
                    return true;
                }
                let lacking: u32 = way.leave.iter().map(|leaving| self.lacking(id, *leaving)).sum();
                let price = (if is_blind { 0 } else { lacking + u32::from(goes_back) }, self.chance());
                if best.as_ref().is_none_or(|(least, _)| price < *least) {
                    best = Some((price, Choice { id, with_group, leave: way.leave }));
                }
            }
        }
        let Some((_, Choice { id, with_group, leave })) = best else { return false };
        self.store(id, with_group);
        self.waiting.extend(leave.iter().map(|group| (group.entry.other(id), *group)));
        true
    }

    /// The lanes that the other bucket of a group lacks for it.
    fn lacking(&self, id: BucketId, group: Group<W>) -> u32 {
        let free = self.load(group.entry.other(id)).empty_lanes().count();
        group.lanes().unwrap_or(group.width().numbers().slots).saturating_sub(free)
    }
}

/// Takes a group of the same entry out of those of a bucket, and unites it with a group: parts that were divided. They
/// stay apart where together they would have more copies than a group counts.
fn with_equal<W: Layout>(here: Groups<W>, group: Group<W>) -> (Groups<W>, Group<W>) {
    match here.find(group.entry) {
        Some((index, equal)) if equal.copies + group.copies < group.width().numbers().most_copies => {
            (here.without(index), equal.and(group))
        }
        _ => (here, group),
    }
}

#[cfg(test)]
mod tests;
