//! Sharing: two groups of one pair of buckets become one if there is no room for both.
//!
//! Both entries have one tag. The tail of the shared entry is the common beginning of both tails. So it matches every
//! query that matched either entry, and it counts the copies of both. No key is lost, and removal stays safe
//! (`format-spec/README.md`, section 4.6). The price: the count of each key includes the copies of the other, and the
//! entry matches more absent keys. So sharing is the last way to find room, and the longest common beginning is tried
//! first.

use super::bucket::{AnyBuckets, Bucket, BucketId, Buckets, BucketsMut, Slot};
use super::displacement::{Staged, displace};
use super::group::{Both, Group, Groups, Stored};
use super::search::Search;
use super::widths::Layout;

/// The most candidates that one call tries.
pub(super) const MOST_CANDIDATES: usize = 16;

/// The groups before and after two of them share an entry.
pub(super) struct Shared<W: Layout> {
    /// The groups before, in the buckets that they were in.
    pub(super) before: [Bucket<W>; 3],
    /// The groups that now count them and the copy.
    pub(super) after: [Bucket<W>; 2],
}

/// Two groups that may become one.
struct Candidate<W> {
    /// The bucket and index of each of the two that is stored.
    stored: Vec<Stored>,
    /// The group that the two become.
    union: Group<W>,
    /// Whether one of the two is the group of the key.
    with_own: bool,
}

/// What two groups become.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Union {
    /// A group that counts the copies of both.
    Counted,
    /// A saturated group, of two that have one entry and more copies than a group counts.
    Saturated,
}

/// Finds room for `own` by letting two groups share an entry: `own` and another, or two others of which one is in the
/// way. `own` counts the inserted copy; `place` is where the group is stored without that copy, if it is stored.
pub(super) fn share<W: Layout, E>(
    buckets: &mut AnyBuckets<'_, W, E>,
    both: Both<W>,
    (own, place): (Group<W>, Option<Stored>),
    wanted: Union,
    kicks: &mut u32,
    search: &mut Search,
) -> Result<Option<Shared<W>>, E> {
    let ids = both.map(|(id, _)| id);
    let none = Bucket::in_width(own.width(), 0);
    for candidate in candidates(buckets, both, (own, place), wanted)? {
        let leaving = || candidate.stored.iter().copied().chain(place.filter(|_| !candidate.with_own));
        let mut staged = Staged { buckets: &mut *buckets, stored: Vec::new() };
        let (mut before, mut given) = ([none; 3], Vec::new());
        let at = distinct(leaving().map(|(id, _)| id).collect());
        for (id, before) in at.into_iter().zip(&mut before) {
            let groups = Groups::of(staged.load(id)?);
            let leaves = |index: usize| leaving().any(|leaving| leaving == (id, index));
            let (Some(gone), Some(left)) =
                (groups.filtered(leaves).pack(), groups.filtered(|index| !leaves(index)).pack())
            else {
                continue;
            };
            *before = gone;
            given.push((id, left));
        }
        let union = candidate.union;
        let home = candidate.stored.first().map_or(ids[0], |(id, _)| *id);
        let pair = if candidate.with_own { ids } else { [home, union.entry.other(home)] };
        let any = &mut AnyBuckets(&mut staged);
        let done = displace(any, search, &given, &pair, union, kicks)?
            && (candidate.with_own || displace(any, search, &[], &ids, own, kicks)?);
        if done {
            let after = [union.alone(), if candidate.with_own { none } else { own.alone() }];
            let stored = staged.stored;
            stored.into_iter().for_each(|(id, bucket)| buckets.store(id, bucket));
            return Ok(Some(Shared { before, after }));
        }
    }
    Ok(None)
}

/// Each of the buckets once, ascending.
fn distinct(mut ids: Vec<BucketId>) -> Vec<BucketId> {
    ids.sort_unstable_by_key(|id| id.0);
    ids.dedup();
    ids
}

/// Pairs of groups that may share an entry, the pair with the longest common beginning of their tails first.
///
/// The key's own group may pair with another group in the key's buckets. Two other groups may pair if one of them lies in
/// a bucket of the key, or in a bucket to which a group of the key's buckets may move.
fn candidates<W: Layout, E>(
    buckets: &mut AnyBuckets<'_, W, E>,
    both: Both<W>,
    (own, place): (Group<W>, Option<Stored>),
    wanted: Union,
) -> Result<Vec<Candidate<W>>, E> {
    let mut near = both.to_vec();
    for (id, bucket) in both {
        for group in Groups::of(bucket).iter().filter(|group| group.entry.tail_length().is_some()) {
            let other = group.entry.other(id);
            if near.iter().all(|(near, _)| *near != other) {
                near.push((other, buckets.load(other)?));
            }
        }
    }
    let mut found: Vec<Candidate<W>> = Vec::new();
    for (number, (id, bucket)) in near.into_iter().enumerate() {
        for (index, group) in Groups::of(bucket).iter().copied().enumerate() {
            let at = (id, index);
            if group.entry.tail_length().is_none() || place == Some(at) {
                continue;
            }
            // If two entries in one of the key's buckets have the same tag, they have the same pair of buckets.
            if number < both.len()
                && let Some(union) = shared(own, group, wanted)
            {
                let stored = place.into_iter().chain([at]).collect();
                found.push(Candidate { stored, union, with_own: true });
            }
            for id_of_mate in [id, group.entry.other(id)] {
                for (index, mate) in Groups::of(buckets.load(id_of_mate)?).iter().copied().enumerate() {
                    let other = (id_of_mate, index);
                    // Each pair of groups is listed once.
                    let listed = || {
                        let two = [[at, other], [other, at]];
                        found.iter().any(|found| two.iter().any(|two| found.stored == two))
                    };
                    if at != other
                        && place != Some(other)
                        && let Some(union) = shared(group, mate, wanted)
                        && !listed()
                    {
                        found.push(Candidate { stored: vec![at, other], union, with_own: false });
                    }
                }
            }
        }
    }
    found.sort_by_key(|candidate| candidate.union.entry.0.trailing_zeros());
    found.truncate(MOST_CANDIDATES);
    Ok(found)
}

/// The group that two become, if they have one tag and a common beginning of their tails, and take fewer lanes as one
/// group. It is saturated only if `wanted` asks for that.
fn shared<W: Layout>(a: Group<W>, b: Group<W>, wanted: Union) -> Option<Group<W>> {
    let most = a.width().numbers().most_copies;
    let copies = a.copies.saturating_add(b.copies).min(most);
    let entry = match wanted {
        Union::Counted if copies < most => a.entry.common(b.entry)?,
        Union::Saturated if copies == most && a.entry == b.entry => a.entry,
        _ => return None,
    };
    let union = Group { entry, copies };
    (union.lanes()? < a.lanes()? + b.lanes()?).then_some(union)
}

impl<W: Layout> Slot<W> {
    /// The entry whose tail is the common beginning of both tails; `None` if the tags or the first bits of the tails
    /// differ.
    ///
    /// n = 4: `0x74f9` and `0x74c1` (tails `001111100` and `001100000`) give `0x74e0` (tail `0011`).
    fn common(self, other: Self) -> Option<Self> {
        self.tail_length().and(other.tail_length()).filter(|_| self.tag() == other.tag())?;
        // The bit that ends the tail: the lowest of either, or the first that differs.
        let ends = (self.0 & self.0.wrapping_neg()) | (other.0 & other.0.wrapping_neg());
        let highest = |bits: u32| bits.checked_ilog2().map_or(0, |bit| 1 << bit);
        let end = highest(ends | (self.0 ^ other.0));
        let common = self.like(self.0 & !(2 * end - 1) | end);
        common.tail_length().filter(|length| *length > 0).map(|_| common)
    }
}

#[cfg(test)]
mod tests;
