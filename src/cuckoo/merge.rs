//! Moves entries from one region into another of the same shape, without keys: for merging filters, and for halving one.
//!
//! No I/O. The rules stand in `format-spec/README.md`, sections 8.5 and 8.7. An entry belongs to a pair of buckets: the
//! one in which it lies, and the other one by its tag. Its pair is the same in both regions. In a sum, copies are added
//! to an existing group if that saves a lane, or if there is no room.

use std::convert::Infallible;

use super::bucket::{Bucket, BucketId, Buckets, BucketsMut, Erased, Slot, erased};
use super::counts::Counts;
use super::displacement::{displace, effort};
use super::group::{Both, Group, Groups};
use super::kind::Kind;
use super::search::Search;
use super::sharing::{Union, share};
use super::widths::{AnyLayout, Layout, Width};

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

/// The rule for storing entries of one filter in another.
#[derive(Clone, Copy)]
pub(crate) struct Taking {
    pub(crate) kind: Kind,
    /// The current epoch of both filters, if they forget. Neither may still hold an entry that expires in it.
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
    each_group(from, into, &mut |buckets, id, group: Group<W>| {
        // Sets hold no digits, but a damaged file may.
        let (copies, room) = match kind {
            Kind::Set | Kind::Forgetting if covered_or_shortens(buckets, id, group.entry, now) => {
                return Ok(());
            }
            Kind::Set | Kind::Forgetting => {
                (1, store_group(buckets, id, Group { copies: 1, ..group }, max_kicks, search))
            }
            Kind::Counting => {
                let Some(added) = add(buckets, id, group, max_kicks, search) else { return Ok(()) };
                (group.copies, added)
            }
        };
        *stored += u64::from(copies);
        if room { Ok(()) } else { Err(NoRoom) }
    })
}

/// Whether an entry here answers for `entry` now: it covers `entry`, or `entry` covered it and replaced it. The remaining
/// entry matches every query that matched either entry, for at least as long: of two equal entries of a forgetting
/// filter, the later expiry remains.
fn covered_or_shortens<W: Width>(buckets: &mut Words<'_>, id: BucketId, entry: Slot<W>, now: u32) -> bool {
    let both = pair_of(buckets, id, entry);
    let answers =
        |one: Slot<W>, other: Slot<W>| one.covers(other) && one.epochs_left(now) >= other.epochs_left(now);
    for (_, bucket) in both {
        let is_answered = match W::EXPIRY_BITS {
            // Compares all lanes at once.
            0 => bucket.covers(entry),
            _ => (0..W::SLOTS).any(|lane| answers(bucket.slot(lane), entry)),
        };
        if is_answered {
            return true;
        }
    }
    for (id, bucket) in both {
        for lane in 0..W::SLOTS {
            if answers(entry, bucket.slot(lane)) {
                buckets.store(id, bucket.with(lane, entry));
                return true;
            }
        }
    }
    false
}

/// What to do with a group of a region.
type Take<'a, W> = &'a mut dyn FnMut(&mut Words<'_>, BucketId, Group<W>) -> Result<(), NoRoom>;

/// Calls `take` for each group of one region that must be stored in the other, with the other region and the group's
/// bucket.
pub(super) fn each_group<W: Width>(from: &[u64], into: &mut [u64], take: Take<'_, W>) -> Result<(), NoRoom> {
    // Quarantined buckets first: this makes room, and shows which entries need not be stored.
    for (word, into) in from.iter().zip(into.iter_mut()).filter(|(word, _)| **word != 0) {
        let bucket = Bucket::<W>::new(*word);
        // Slots that no writer stores may match anything. Every query that they answer "present" must remain present.
        if W::IS_MARKED && !bucket.is_plain() && (bucket.has_universal() || !Counts::default().tally(bucket))
        {
            *into = Bucket::<W>::QUARANTINED.0;
        }
    }
    let mut buckets = Words(into);
    let mut take = |id: BucketId, group: Group<W>| {
        let [(_, one), (_, other)] = pair_of(&mut buckets, id, group.entry);
        if one.has_universal() || other.has_universal() { Ok(()) } else { take(&mut buckets, id, group) }
    };
    for (id, word) in (0..).zip(from) {
        let (id, bucket) = (BucketId(id), Bucket::<W>::new(*word));
        if *word == 0 {
            continue;
        }
        if bucket.digit_lanes().any() {
            for group in Groups::of(bucket.erased()).iter() {
                take(id, Group { entry: Slot::new(group.entry.0), copies: group.copies })?;
            }
            continue;
        }
        for lane in 0..W::SLOTS {
            let entry = bucket.slot(lane);
            if entry.tail_length().is_some() {
                take(id, Group { entry, copies: 1 })?;
            }
        }
    }
    Ok(())
}

/// The buckets of an entry of bucket `id`.
fn pair_of<W: Layout, B: Buckets<W, Error = Infallible>>(
    buckets: &mut B,
    id: BucketId,
    entry: Slot<W>,
) -> Both<W> {
    let other = entry.other(id);
    let (Ok(here), Ok(there)) = (buckets.load(id), buckets.load(other));
    [(id, here), (other, there)]
}

/// Adds a group of a counting filter; false without room. `None` if a saturated group here stands for all its copies.
///
/// The steps that most groups need know the width: with the width as a value, a merge took 1.3 to 1.7 times as long.
fn add<W: Width>(
    buckets: &mut Words<'_>,
    id: BucketId,
    group: Group<W>,
    max_kicks: u32,
    search: &mut Search,
) -> Option<bool> {
    let both = pair_of(buckets, id, group.entry);
    if both.iter().any(|(_, bucket)| bucket.is_saturated() && bucket.covers(group.entry)) {
        return None;
    }
    if add_to_another(buckets, both, group, group.lanes()) {
        return Some(true);
    }
    let alone = store_alone(buckets, id, group, max_kicks, search);
    if alone == Some(true) {
        return Some(true);
    }
    let (both, group) = (both.map(|(id, bucket)| (id, bucket.erased())), group.erased());
    let Ok(added) = erased::<W, _, _>(buckets, |buckets| {
        alone.unwrap_or_else(|| store_among_groups(buckets, id, group, max_kicks, search))
            || add_to_another(buckets, both, group, None)
            || unite(buckets, both, group, max_kicks, search)
            || share_entry(buckets, both, group, max_kicks, search)
    });
    Some(added)
}

/// The one of two entries that covers the other; `None` if neither covers the other.
fn related<W: Layout>(one: Slot<W>, other: Slot<W>) -> Option<Slot<W>> {
    if one.covers(other) {
        Some(one)
    } else if other.covers(one) {
        Some(other)
    } else {
        None
    }
}

/// Adds the copies of a group to a group here, if the entry of one covers the entry of the other. The shorter entry
/// stays, and matches every query that matched either entry; so removal finds a copy for each. False if no such group has
/// room, or if it would need at least as many more lanes as the added group takes by itself (`apart`).
///
/// A saturated group may stand for more copies than its count, so it is not added, and nothing is added to it.
fn add_to_another<W: Layout, B: BucketsMut<W, Error = Infallible>>(
    buckets: &mut B,
    both: Both<W>,
    group: Group<W>,
    apart: Option<u32>,
) -> bool {
    let most = group.width().numbers().most_copies;
    for (id, bucket) in both {
        let groups = Groups::of(bucket);
        for (index, here) in groups.iter().enumerate() {
            let Some(entry) = related(here.entry, group.entry) else { continue };
            let Some(copies) = here.copies.checked_add(group.copies).filter(|copies| *copies < most) else {
                continue;
            };
            let added = Group { entry, copies };
            if apart.is_some_and(|apart| added.lanes() >= here.lanes().map(|lanes| lanes + apart)) {
                continue;
            }
            if let Some(bucket) = groups.with(index, added).pack() {
                buckets.store(id, bucket);
                return true;
            }
        }
    }
    false
}

/// Unites a group with all groups here whose entries cover its entry or are covered by it. The result is saturated if it
/// cannot count all copies: each of several filters can hold enough copies of one key to fill its buckets.
fn unite(
    buckets: &mut Erased<'_>,
    both: Both<AnyLayout>,
    group: Group<AnyLayout>,
    max_kicks: u32,
    search: &mut Search,
) -> bool {
    let mut union = group;
    let mut given = Vec::new();
    for (id, bucket) in both {
        let groups = Groups::of(bucket);
        let is_related = |here: &Group<_>| related(here.entry, group.entry).is_some();
        let united: Vec<bool> = groups.iter().map(is_related).collect();
        groups.iter().filter(|here| is_related(here)).for_each(|here| union = union.and(*here));
        let others = groups.filtered(|index| united.get(index) != Some(&true));
        if united.contains(&true)
            && let Some(bucket) = others.pack()
        {
            given.push((id, bucket));
        }
    }
    if given.is_empty() {
        return false;
    }
    let Ok(done) = displace(buckets, search, &given, &both.map(|(id, _)| id), union, &mut effort(max_kicks));
    done
}

/// Makes room for this group by letting two groups share an entry.
fn share_entry(
    buckets: &mut Erased<'_>,
    both: Both<AnyLayout>,
    group: Group<AnyLayout>,
    max_kicks: u32,
    search: &mut Search,
) -> bool {
    // Two entries without digits would take as many lanes if they shared one.
    if group.copies == 1 && !search.met_groups {
        return false;
    }
    let Ok(shared) = share(buckets, both, (group, None), Union::Counted, &mut effort(max_kicks), search);
    shared.is_some()
}

/// Stores a group without uniting it with others, in bucket `id` or in its other one. False without room.
pub(super) fn store_group<W: Width>(
    buckets: &mut Words<'_>,
    id: BucketId,
    group: Group<W>,
    max_kicks: u32,
    search: &mut Search,
) -> bool {
    store_alone(buckets, id, group, max_kicks, search).unwrap_or_else(|| {
        let Ok(done) = erased::<W, _, _>(buckets, |buckets| {
            store_among_groups(buckets, id, group.erased(), max_kicks, search)
        });
        done
    })
}

/// Stores an entry without digits in a free lane, or in a lane that a chain frees. `None` if the group has digits, or if
/// groups with digits are in the way.
fn store_alone<W: Layout, B: BucketsMut<W, Error = Infallible>>(
    buckets: &mut B,
    id: BucketId,
    group: Group<W>,
    max_kicks: u32,
    search: &mut Search,
) -> Option<bool> {
    if group.copies != 1 {
        return None;
    }
    let both = pair_of(buckets, id, group.entry);
    for (id, bucket) in both {
        if let Some(lane) = bucket.empty_lanes().first() {
            buckets.store(id, bucket.with(lane, group.entry));
            return Some(true);
        }
    }
    let Ok(room) = search.free_lane(buckets, &both, &[], &mut { max_kicks });
    if let Some((id, room)) = room {
        let lane = room.empty_lanes().first().unwrap_or(0);
        buckets.store(id, room.with(lane, group.entry));
        return Some(true);
    }
    if search.met_groups { None } else { Some(false) }
}

/// Stores a group in free lanes, or by displacement.
fn store_among_groups(
    buckets: &mut Erased<'_>,
    id: BucketId,
    group: Group<AnyLayout>,
    max_kicks: u32,
    search: &mut Search,
) -> bool {
    if group.lanes().is_none() {
        return false;
    }
    let both = pair_of(buckets, id, group.entry);
    for (id, bucket) in both {
        if let Some(with_group) = Groups::of(bucket).and(group).pack() {
            buckets.store(id, with_group);
            return true;
        }
    }
    let ids = both.map(|(id, _)| id);
    let Ok(done) = displace(buckets, search, &[], &ids, group, &mut effort(max_kicks));
    done
}

#[cfg(test)]
mod tests;
