//! Taking entries out of one region and storing them in another of the same shape, without keys: for merging filters,
//! and for halving one.
//!
//! No I/O. The rules are those of `format-spec/README.md`, sections 8.5 and 8.7. An entry belongs to a pair of buckets:
//! the one that it lies in, and the other one by its tag. In the region that takes it the pair is the same.

use std::convert::Infallible;

use super::bucket::{Bucket, BucketId, Buckets, BucketsMut, Slot, erased};
use super::counts::Counts;
use super::displacement::{displace, effort};
use super::group::{Group, Groups};
use super::kind::Kind;
use super::search::Search;
use super::sharing::{Union, share};
use super::widths::{AnyLayout, Width};

/// All buckets of a region, in memory.
pub(super) struct Words<'a>(pub(super) &'a mut [u64]);

impl<W: Width> Buckets<W> for Words<'_> {
    type Error = Infallible;

    #[inline]
    fn load(&mut self, id: BucketId) -> Result<Bucket<W>, Infallible> {
        Ok(Bucket::new(self.0.get(usize::from(id.0)).copied().unwrap_or_default()))
    }
}

impl<W: Width> BucketsMut<W> for Words<'_> {
    #[inline]
    fn store(&mut self, id: BucketId, bucket: Bucket<W>) {
        self.0.get_mut(usize::from(id.0)).into_iter().for_each(|word| *word = bucket.0);
    }
}

/// There was no room for an entry; some of the entries have been stored in the region.
#[derive(Debug)]
pub(crate) struct NoRoom;

/// The rule by which entries of one filter are stored in another.
#[derive(Clone, Copy)]
pub(crate) struct Taking {
    pub(crate) kind: Kind,
    /// The epoch of both, if they forget. No entry of it may be left in either.
    pub(crate) now: u32,
    pub(crate) max_kicks: u32,
}

/// Stores everything that one region holds in another, by the rule of the filters' kind: a union of sets, a sum of
/// counting filters. Adds the number of copies stored to `stored`.
pub(crate) fn take_region<W: Width>(
    from: &[u64],
    into: &mut [u64],
    Taking { kind, now, max_kicks }: Taking,
    search: &mut Search,
    stored: &mut u64,
) -> Result<(), NoRoom> {
    each_group(from, into, |buckets, id, group: Group<W>| {
        let both = [id, group.entry.other(id)];
        let group = match kind {
            Kind::Counting => group,
            // Neither holds digits, but a damaged file may.
            Kind::Set | Kind::Forgetting => Group { copies: 1, ..group },
        };
        let room = match kind {
            Kind::Set | Kind::Forgetting if covered_or_shortens(buckets, id, group.entry, now) => {
                return Ok(());
            }
            Kind::Set | Kind::Forgetting => store_group(buckets, id, group, max_kicks, search),
            Kind::Counting if is_answered(buckets, both, group.entry) => return Ok(()),
            Kind::Counting => {
                add_to_another(buckets, id, group, group.lanes())
                    || store_group(buckets, id, group, max_kicks, search)
                    || add_to_another(buckets, id, group, None)
                    || unite(buckets, both, group, max_kicks, search)
                    || share_entry(buckets, both, group, max_kicks, search)
            }
        };
        *stored += u64::from(group.copies);
        if room { Ok(()) } else { Err(NoRoom) }
    })
}

/// Whether an entry here answers for `entry` now: one that covers it, or one that it covered, which it replaces. Every
/// query that matched either matches the entry that stays, and for as long: of two equal entries of a forgetting filter
/// the one stays that expires later.
fn covered_or_shortens<W: Width>(buckets: &mut Words<'_>, id: BucketId, entry: Slot<W>, now: u32) -> bool {
    let both = [id, entry.other(id)].map(|id| {
        let Ok(bucket) = Buckets::<W>::load(buckets, id);
        (id, bucket)
    });
    let answers =
        |one: Slot<W>, other: Slot<W>| one.covers(other) && one.epochs_left(now) >= other.epochs_left(now);
    let lanes = || 0..W::SLOTS;
    let is_answered = |bucket: Bucket<W>| match W::EXPIRY_BITS {
        // All lanes at once.
        0 => bucket.covers(entry),
        _ => lanes().any(|lane| answers(bucket.slot(lane), entry)),
    };
    if both.iter().any(|(_, bucket)| is_answered(*bucket)) {
        return true;
    }
    both.into_iter().any(|(id, bucket)| {
        let lane = lanes().find(|lane| answers(entry, bucket.slot(*lane)));
        lane.into_iter().for_each(|lane| buckets.store(id, bucket.with(lane, entry)));
        lane.is_some()
    })
}

/// Calls `take` for each group of one region that must be stored in the other, with the other region and the group's
/// bucket.
pub(super) fn each_group<W: Width>(
    from: &[u64],
    into: &mut [u64],
    mut take: impl FnMut(&mut Words<'_>, BucketId, Group<W>) -> Result<(), NoRoom>,
) -> Result<(), NoRoom> {
    // Quarantined buckets first: that makes room, and shows which entries need not be stored.
    for (word, into) in from.iter().zip(into.iter_mut()).filter(|(word, _)| **word != 0) {
        let bucket = Bucket::<W>::new(*word);
        // Slots that no writer stores may match anything. Every query that they answer "present" must stay present.
        if !bucket.is_plain() && (bucket.has_universal() || !Counts::default().tally(bucket)) {
            *into = Bucket::<W>::QUARANTINED.0;
        }
    }
    let mut buckets = Words(into);
    let mut take = |id: BucketId, group: Group<W>| {
        let quarantined = [id, group.entry.other(id)].map(|id| buckets.is_quarantined::<W>(id));
        if quarantined.contains(&true) { Ok(()) } else { take(&mut buckets, id, group) }
    };
    for (id, word) in (0..).zip(from) {
        let (id, bucket) = (BucketId(id), Bucket::<W>::new(*word));
        if *word == 0 {
            continue;
        }
        if bucket.digit_lanes().any() {
            Groups::of(bucket).iter().try_for_each(|group| take(id, *group))?;
            continue;
        }
        for entry in (0..W::SLOTS).map(|lane| bucket.slot(lane)).filter(|slot| !slot.is_empty()) {
            take(id, Group { entry, copies: 1 })?;
        }
    }
    Ok(())
}

impl Words<'_> {
    fn is_quarantined<W: Width>(&mut self, id: BucketId) -> bool {
        let Ok(bucket) = Buckets::<W>::load(self, id);
        bucket.has_universal()
    }
}

/// Adds the copies of a group to a group here whose entry covers its entry or is covered by it; the shorter of the two
/// entries stays. So every query that matched either entry matches the one that stays, and removal finds a copy for
/// each. False if no such group has room, or if it would need as many more lanes as the group takes by itself
/// (`apart`).
///
/// A saturated group, which may stand for more copies than its count, is not added, and nothing is added to one.
fn add_to_another<W: Width>(
    buckets: &mut Words<'_>,
    id: BucketId,
    group: Group<W>,
    apart: Option<u32>,
) -> bool {
    let one = |slot: Slot<W>| Bucket::<W>::new(slot.0.into());
    [id, group.entry.other(id)].into_iter().any(|id| {
        let Ok(bucket) = Buckets::<W>::load(buckets, id);
        let groups = Groups::of(bucket);
        let added = groups.iter().enumerate().find_map(|(index, here)| {
            let entry = if one(here.entry).covers(group.entry) {
                here.entry
            } else if one(group.entry).covers(here.entry) {
                group.entry
            } else {
                return None;
            };
            let copies = here.copies.checked_add(group.copies).filter(|copies| *copies < W::MOST_COPIES)?;
            let added = Group { entry, copies };
            let takes_as_many =
                apart.is_some_and(|apart| added.lanes() >= here.lanes().map(|lanes| lanes + apart));
            if takes_as_many { None } else { groups.with(index, added).pack() }
        });
        added.into_iter().for_each(|bucket| buckets.store(id, bucket));
        added.is_some()
    })
}

/// Whether a saturated group here covers the entry, and so stands for all its copies.
fn is_answered<W: Width>(buckets: &mut Words<'_>, both: [BucketId; 2], entry: Slot<W>) -> bool {
    both.into_iter().any(|id| {
        let Ok(bucket) = Buckets::<W>::load(buckets, id);
        bucket.is_saturated() && bucket.covers(entry)
    })
}

/// Unites a group with all groups here whose entries cover its entry or are covered by it. The result is saturated if
/// the copies are more than can be counted: several filters can each hold as many copies of one key as fill its
/// buckets.
fn unite<W: Width>(
    buckets: &mut Words<'_>,
    both: [BucketId; 2],
    group: Group<W>,
    max_kicks: u32,
    search: &mut Search,
) -> bool {
    let one = |slot: Slot<W>| Bucket::<W>::new(slot.0.into());
    let mut union = group;
    let others = both.map(|id| {
        let Ok(bucket) = Buckets::<W>::load(buckets, id);
        let groups = Groups::of(bucket);
        let related = |here: &Group<W>| {
            here.entry.tail_length().is_some()
                && (one(here.entry).covers(group.entry) || one(group.entry).covers(here.entry))
        };
        let united: u32 =
            groups.iter().enumerate().filter(|(_, here)| related(here)).map(|(at, _)| 1 << at).sum();
        groups.iter().filter(|here| related(here)).for_each(|here| union = union.and(*here));
        (united != 0).then(|| (id, groups.filtered(|index| united >> index & 1 == 0).pack()))
    });
    let given: Vec<_> = others.into_iter().flatten().filter_map(|(id, bucket)| Some((id, bucket?))).collect();
    if given.is_empty() {
        return false;
    }
    let given: Vec<_> = given.into_iter().map(|(id, bucket)| (id, bucket.erased())).collect();
    displace_in(buckets, search, &given, both, union, max_kicks)
}

/// Makes room for this group by letting two groups share an entry.
fn share_entry<W: Width>(
    buckets: &mut Words<'_>,
    both: [BucketId; 2],
    group: Group<W>,
    max_kicks: u32,
    search: &mut Search,
) -> bool {
    // Two entries without digits would take as many lanes if they shared one.
    if group.copies == 1 && !search.met_groups {
        return false;
    }
    let both = both.map(|id| {
        let Ok(bucket) = Buckets::<W>::load(buckets, id);
        (id, bucket)
    });
    let both = both.map(|(id, bucket)| (id, bucket.erased()));
    let Ok(Ok(shared)) = erased::<W, _, _>(buckets, |buckets| {
        share(buckets, both, (group.erased(), None), Union::Counted, &mut effort(max_kicks), search)
    });
    shared.is_some()
}

/// Stores a group without uniting it with others, in bucket `id` or in its other one. False if there is no room.
pub(super) fn store_group<W: Width>(
    buckets: &mut Words<'_>,
    id: BucketId,
    group: Group<W>,
    max_kicks: u32,
    search: &mut Search,
) -> bool {
    let Some(lanes) = group.lanes() else { return false };
    let both = [id, group.entry.other(id)].map(|id| {
        let Ok(bucket) = Buckets::<W>::load(buckets, id);
        (id, bucket)
    });
    let with_group = |bucket: Bucket<W>| match (lanes, bucket.empty_lanes().first()) {
        (_, None) => None,
        (1, Some(lane)) => Some(bucket.with(lane, group.entry)),
        _ => Groups::of(bucket).and(group).pack(),
    };
    for (id, bucket) in both {
        if let Some(bucket) = with_group(bucket) {
            buckets.store(id, bucket);
            return true;
        }
    }
    if lanes == 1 {
        let Ok(room) = search.free_lane(buckets, &both, &[], &mut { max_kicks });
        if let Some((id, room)) = room {
            let stored = with_group(room);
            stored.into_iter().for_each(|bucket| buckets.store(id, bucket));
            return stored.is_some();
        }
        if !search.met_groups {
            return false;
        }
    }
    displace_in(buckets, search, &[], both.map(|(id, _)| id), group, max_kicks)
}

fn displace_in<W: Width>(
    buckets: &mut Words<'_>,
    search: &mut Search,
    given: &[(BucketId, Bucket<AnyLayout>)],
    both: [BucketId; 2],
    group: Group<W>,
    max_kicks: u32,
) -> bool {
    let Ok(Ok(done)) = erased::<W, _, _>(buckets, |buckets| {
        displace(buckets, search, given, &both, group.erased(), &mut effort(max_kicks))
    });
    done
}

#[cfg(test)]
mod tests;
