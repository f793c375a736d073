//! The cuckoo table of one region: lookup, insert, remove and count over its buckets.
//!
//! No I/O: implementors of [`Buckets`] decide where the buckets lie and how reading one can fail. The rules stand in
//! `format-spec/README.md`, section 4.
//!
//! # Where a counting filter puts a copy
//!
//! The format leaves this to the writer (section 4.4). *Its group* is the group that matches the key; of several, the one
//! with the longest tail. The first step that applies is taken. Only steps 11 and 12 saturate a group:
//!
//! 1. If a saturated group matches, nothing changes: it stands for this copy too.
//! 2. Its group counts the copy without another digit, in i1 or else in i2.
//! 3. Several matching groups of one bucket become one group, which also counts the copy, in i1 or else in i2.
//! 4. Like 2, with another digit, in a free lane of the same bucket. The groups of a bucket may change their lanes.
//! 5. Like 4, after the search has freed a lane of that bucket, or after the group, with its new digit, was put into
//!    either of its buckets.
//! 6. A new entry takes the lowest empty lane of i1; else of i2.
//! 7. If either bucket is quarantined, nothing is stored. (Step 5 is also skipped then.)
//! 8. A new entry takes a lane that the search (`search.rs`) frees in i1 or i2, or displaces groups (`displacement.rs`).
//! 9. The matching groups of i1 and i2 become one, which also counts the copy and is put into either bucket.
//! 10. If step 8 met groups of several lanes: two groups share an entry (`sharing.rs`), which makes room for the copy.
//! 11. This copy saturates a matching group that fills its bucket; of two, the one with the shorter tail, as removals
//!     take from the other first.
//! 12. If step 8 met groups of several lanes: two groups of one entry, with more copies than a group counts, become a
//!     saturated group, which makes room for the copy.
//! 13. There is no room. Nothing has changed.
//!
//! # Why removal is safe
//!
//! The groups *cover* the keys if every copy that was inserted, and not removed, can be assigned a copy of its own in a
//! group whose entry matches its key. Let a copy of K be removed, and let the longest match e lose a copy that was assigned
//! to another key L. K was assigned a copy of an entry f, which matches K and whose tail is no longer than e's. L agrees with
//! K on all of e's tail, so on all of f's: f matches L, and K's copy of f can be assigned to L. A shorter match may be the
//! only entry of a key that differs from K in the longer tail.
//!
//! This holds also where repair has quarantined a bucket of K, and entries were lost. An entry e that matches both K and L
//! has the tag of both and lies in a bucket of both. So they have one pair of buckets, and the quarantined one answers
//! "present" for L.

use std::convert::Infallible;

use super::bucket::{AnyBuckets, Bucket, BucketId, Buckets, BucketsMut, Erased, Place, Slot, erased};
use super::displacement::{displace, effort};
use super::group::{Both, Group, Groups, Stored};
use super::search::Search;
use super::sharing::{Shared, Union, share};
use super::widths::{AnyLayout, Layout, Width};

/// The outcome of an insert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inserted<W> {
    /// An entry with a fresh tail was stored.
    Stored,
    /// A group counts the copy, and has `digits` more digits. `saturates`: the copy has saturated it.
    Counted { digits: u32, saturates: bool },
    /// The key has a saturated group, which stands for any number of copies. Nothing was stored.
    Absorbed,
    /// Groups became one. `before`: these groups, in up to three buckets. `after`: the groups that now count them and the
    /// copy.
    Regrouped { before: [Bucket<W>; 3], after: [Bucket<W>; 2] },
    /// Nothing was stored, as a bucket of the key is quarantined: every query there is answered "present".
    Quarantined,
    /// Nothing was stored: the search examined as many entries as it may, and found no room.
    NoPath,
}

/// The outcome of a removal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Removed {
    /// Took an entry whose tail had `tail` bits.
    Entry { tail: u32 },
    /// Took one copy of a group, which now has `digits` fewer digits.
    Copy { digits: u32 },
    /// Took nothing: the group is saturated, and may stand for more copies than it can count.
    Nothing,
}

/// Whether any entry matches.
#[inline]
pub(crate) fn contains<W: Width, B: Buckets<W>>(buckets: &mut B, place: Place<W>) -> Result<bool, B::Error> {
    // Loads both buckets before examining either, so that two cache misses take the time of one.
    let [(_, first), (_, second)] = place.load(buckets)?;
    Ok(first.either_matches(second, place.fingerprint))
}

/// The copies that the matching groups stand for. `None` if one of them is saturated or a bucket is quarantined: there
/// may then be more copies, and a count must never be too low.
pub(crate) fn count<W: Width, B: Buckets<W>>(
    buckets: &mut B,
    place: Place<W>,
) -> Result<Option<u32>, B::Error> {
    let [(_, first), (_, second)] = place.load(buckets)?;
    Ok(first.copies_in_either(second, place.fingerprint))
}

/// What an insert must do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Insertion<W> {
    /// Store this bucket, with an entry of a fresh tail.
    Store { id: BucketId, bucket: Bucket<W> },
    /// An entry matches.
    Matches,
    /// No entry matches, but both buckets are full.
    Crowded,
}

/// If nothing matches, an entry goes into the first free lane of the first bucket that has one. Nearly every insert into
/// a filter is of this kind.
#[inline(always)]
pub(crate) fn find_insertion<W: Width, B: Buckets<W>>(
    buckets: &mut B,
    place: Place<W>,
) -> Result<Insertion<W>, B::Error> {
    let [(first_id, first), (second_id, second)] = place.load(buckets)?;
    if first.either_matches(second, place.fingerprint) {
        return Ok(Insertion::Matches);
    }
    let Some((other, lane)) = first.first_free(second) else { return Ok(Insertion::Crowded) };
    let (id, bucket) = (first_id.or(second_id, other), first.or(second, other));
    Ok(Insertion::Store { id, bucket: bucket.with(lane, place.fingerprint) })
}

/// Stores one more copy of a fingerprint. Changes nothing if it returns [`Inserted::NoPath`].
#[inline]
pub(crate) fn insert<W: Width, B: BucketsMut<W>>(
    buckets: &mut B,
    place: Place<W>,
    max_kicks: u32,
    search: &mut Search,
) -> Result<Inserted<W>, B::Error> {
    match find_insertion(buckets, place)? {
        Insertion::Store { id, bucket } => {
            buckets.store(id, bucket);
            Ok(Inserted::Stored)
        }
        Insertion::Matches | Insertion::Crowded => insert_untried(buckets, place, max_kicks, search),
    }
}

/// Like [`insert`], after [`find_insertion`] found nothing to store.
#[inline(never)]
pub(crate) fn insert_untried<W: Width, B: BucketsMut<W>>(
    buckets: &mut B,
    place: Place<W>,
    max_kicks: u32,
    search: &mut Search,
) -> Result<Inserted<W>, B::Error> {
    let both = place.load(buckets)?;
    let [(_, first), (_, second)] = both;
    // Only counting filters, which are marked, store a second copy of a key.
    let matches = W::IS_MARKED && first.either_matches(second, place.fingerprint);
    if matches {
        if is_absorbed(both, place.fingerprint) {
            return Ok(Inserted::Absorbed);
        }
        if let Some((id, bucket, counted)) = count_copy(both, place.fingerprint) {
            buckets.store(id, bucket);
            return Ok(counted);
        }
    } else if let Some(inserted) = insert_by_chain(buckets, both, place.fingerprint, max_kicks, search)? {
        return Ok(inserted);
    }
    let inserted = erased_at(buckets, both, place.fingerprint, |buckets, both, fingerprint| {
        if matches {
            insert_copy(buckets, both, fingerprint, max_kicks, search)
        } else {
            insert_among_groups(buckets, both, fingerprint, max_kicks, &mut effort(max_kicks), search)
        }
    })?;
    Ok(inserted.in_width())
}

/// Runs `work` on buckets, with buckets and a fingerprint of hidden width and errors.
fn erased_at<W: Width, B: BucketsMut<W>, T>(
    buckets: &mut B,
    both: Both<W>,
    fingerprint: Slot<W>,
    work: impl FnOnce(&mut Erased<'_>, Both<AnyLayout>, Slot<AnyLayout>) -> Result<T, Infallible>,
) -> Result<T, B::Error> {
    let [(one, first), (other, second)] = both;
    let both = [(one, first.erased()), (other, second.erased())];
    let Ok(done) = erased(buckets, |buckets| work(buckets, both, fingerprint.erased()))?;
    Ok(done)
}

impl Inserted<AnyLayout> {
    /// The same outcome for the width that it was erased from.
    fn in_width<W: Width>(self) -> Inserted<W> {
        match self {
            Self::Stored => Inserted::Stored,
            Self::Counted { digits, saturates } => Inserted::Counted { digits, saturates },
            Self::Absorbed => Inserted::Absorbed,
            Self::Regrouped { before, after } => {
                let (before, after) =
                    (before.map(|one| Bucket::new(one.0)), after.map(|one| Bucket::new(one.0)));
                Inserted::Regrouped { before, after }
            }
            Self::Quarantined => Inserted::Quarantined,
            Self::NoPath => Inserted::NoPath,
        }
    }
}

/// Like `map` of an array, without the dozen functions that `map` would compile for each width and each kind of buckets.
fn of_each<T, U>([one, other]: [T; 2], mut of: impl FnMut(T) -> U) -> [U; 2] {
    [of(one), of(other)]
}

/// Like `find_map` of an iterator.
fn first_of<T, U>([one, other]: [T; 2], mut of: impl FnMut(T) -> Option<U>) -> Option<U> {
    match of(one) {
        None => of(other),
        found => found,
    }
}

const fn ids<W: Layout>([(one, _), (other, _)]: Both<W>) -> [BucketId; 2] {
    [one, other]
}

/// Stores an entry in the first free lane of either bucket.
fn store_alone<W: Layout, E>(
    buckets: &mut AnyBuckets<'_, W, E>,
    both: Both<W>,
    fingerprint: Slot<W>,
) -> Option<Inserted<W>> {
    let (id, bucket, lane) =
        first_of(both, |(id, bucket)| Some((id, bucket, bucket.empty_lanes().first()?)))?;
    buckets.store(id, bucket.with(lane, fingerprint));
    Some(Inserted::Stored)
}

fn is_quarantined<W: Layout>(both: Both<W>) -> bool {
    both.iter().any(|(_, bucket)| bucket.has_universal())
}

/// Whether a saturated group matches.
fn is_absorbed<W: Layout>(both: Both<W>, fingerprint: Slot<W>) -> bool {
    both.iter().any(|(_, bucket)| bucket.is_saturated() && bucket.matches(fingerprint).any())
}

/// A bucket with a copy of the key, and what became of that copy.
type Counted<W> = (BucketId, Bucket<W>, Inserted<W>);

/// Counts a copy in a group that matches, without moving another group: in the group's lanes, in the lanes of several
/// groups of the key, which become one, or with one more free lane.
#[inline(never)]
fn count_copy<W: Layout>(both: Both<W>, fingerprint: Slot<W>) -> Option<Counted<W>> {
    first_of(both, |(id, bucket)| count_in(id, bucket, fingerprint, 0))
        .or_else(|| first_of(both, |(id, bucket)| merge(id, bucket, fingerprint)))
        .or_else(|| first_of(both, |(id, bucket)| count_in(id, bucket, fingerprint, 1)))
}

/// Inserts a copy of a key that a group matches, after [`count_copy`] failed; if possible as one more copy of that group.
/// A second entry would take as many lanes now and more for further copies, and would match as many keys as the group.
fn insert_copy<W: Layout, E>(
    buckets: &mut AnyBuckets<'_, W, E>,
    both: Both<W>,
    fingerprint: Slot<W>,
    max_kicks: u32,
    search: &mut Search,
) -> Result<Inserted<W>, E> {
    let mut kicks = effort(max_kicks);
    if !is_quarantined(both) {
        for (id, bucket) in both {
            let counted = count_with_room(buckets, (id, bucket), fingerprint, max_kicks, &mut kicks, search)?;
            if let Some(counted) = counted {
                return Ok(counted);
            }
        }
    }
    match store_alone(buckets, both, fingerprint) {
        Some(stored) => Ok(stored),
        None => match insert_by_chain(buckets, both, fingerprint, max_kicks, search)? {
            Some(inserted) => Ok(inserted),
            None => insert_among_groups(buckets, both, fingerprint, max_kicks, &mut kicks, search),
        },
    }
}

/// Makes room in a bucket for one more digit of a group that matches, and counts a copy with it.
fn count_with_room<W: Layout, E>(
    buckets: &mut AnyBuckets<'_, W, E>,
    (id, bucket): (BucketId, Bucket<W>),
    fingerprint: Slot<W>,
    max_kicks: u32,
    kicks: &mut u32,
    search: &mut Search,
) -> Result<Option<Inserted<W>>, E> {
    let groups = Groups::of(bucket);
    let Some((index, group)) = groups.longest_match(fingerprint) else { return Ok(None) };
    let Some(grown) = group.grown() else { return Ok(None) };
    let kept = [(id, group.entry)];
    if let Some((id, room)) = search.free_lane(buckets, &[(id, bucket)], &kept, &mut { max_kicks })?
        && let Some((id, bucket, counted)) = count_in(id, room, fingerprint, 1)
    {
        buckets.store(id, bucket);
        return Ok(Some(counted));
    }
    let Some(left) = groups.without(index).pack() else { return Ok(None) };
    let ids = [id, group.entry.other(id)];
    let done = search.met_groups && displace(buckets, search, &[(id, left)], &ids, grown, kicks)?;
    Ok(done.then_some(Inserted::Counted { digits: 1, saturates: false }))
}

/// Counts a copy in a matching group of a bucket that needs exactly `digits` more digits for it; of several, the one with
/// the longest tail.
fn count_in<W: Layout>(
    id: BucketId,
    bucket: Bucket<W>,
    fingerprint: Slot<W>,
    digits: u32,
) -> Option<Counted<W>> {
    // Taking a bucket apart into groups costs far more than these looks at its lanes, which nearly always decide.
    let has_room = if digits == 0 { bucket.digit_lanes() } else { bucket.empty_lanes() }.any();
    if !has_room || !bucket.matches(fingerprint).any() {
        return None;
    }
    let mut groups = Groups::of(bucket);
    let grown = |group: Group<W>| {
        let grown = group.grown()?;
        (grown.lanes()? == group.lanes()? + digits).then_some(grown)
    };
    let counting = groups.matching(fingerprint).filter_map(|(index, group)| Some((index, grown(group)?)));
    let (index, grown) = counting.min_by_key(|(_, group)| group.order())?;
    groups.set(index, grown);
    Some((id, groups.pack()?, Inserted::Counted { digits, saturates: false }))
}

/// Inserts an entry of its own in a lane that a chain frees. Both buckets are full, and no matching group has room for a
/// copy or is saturated. `None` if groups of several lanes are in the way.
#[inline(never)]
fn insert_by_chain<W: Layout, B: BucketsMut<W>>(
    buckets: &mut B,
    both: Both<W>,
    fingerprint: Slot<W>,
    max_kicks: u32,
    search: &mut Search,
) -> Result<Option<Inserted<W>>, B::Error> {
    if is_quarantined(both) {
        return Ok(Some(Inserted::Quarantined));
    }
    if let Some((id, room)) = search.free_lane(buckets, &both, &[], &mut { max_kicks })? {
        let lane = room.empty_lanes().first().unwrap_or(0);
        buckets.store(id, room.with(lane, fingerprint));
        return Ok(Some(Inserted::Stored));
    }
    Ok(if search.met_groups { None } else { Some(Inserted::NoPath) })
}

/// Inserts after no chain freed a lane because groups of several lanes are in the way.
#[cold]
fn insert_among_groups<W: Layout, E>(
    buckets: &mut AnyBuckets<'_, W, E>,
    both: Both<W>,
    fingerprint: Slot<W>,
    max_kicks: u32,
    kicks: &mut u32,
    search: &mut Search,
) -> Result<Inserted<W>, E> {
    let alone = Group { entry: fingerprint, copies: 1 };
    if displace(buckets, search, &[], &ids(both), alone, kicks)? {
        return Ok(Inserted::Stored);
    }
    if both.iter().all(|(_, bucket)| bucket.matches(fingerprint).any())
        && let Some(united) = unite_all(both, fingerprint)
        && displace(buckets, search, &united.others, &ids(both), united.group, kicks)?
    {
        return Ok(united.regrouped());
    }
    let own = own_with_copy(both, fingerprint);
    let mut share = |buckets: &mut _, wanted| -> Result<Option<Inserted<W>>, E> {
        let Some(own) = own else { return Ok(None) };
        let shared = share(buckets, both, own, wanted, &mut effort(max_kicks), search)?;
        Ok(shared.map(|Shared { before, after }| Inserted::Regrouped { before, after }))
    };
    if let Some(shared) = share(buckets, Union::Counted)? {
        return Ok(shared);
    }
    if let Some(saturated) = saturate(buckets, both, fingerprint) {
        return Ok(saturated);
    }
    Ok(share(buckets, Union::Saturated)?.unwrap_or(Inserted::NoPath))
}

/// The key's group with the inserted copy, and its bucket and index; of several groups, the one with the longest tail. A
/// single entry if no group matches; `None` if the copy would saturate the group.
fn own_with_copy<W: Layout>(both: Both<W>, fingerprint: Slot<W>) -> Option<(Group<W>, Option<Stored>)> {
    let longest = both.into_iter().filter_map(|(id, bucket)| {
        let (index, group) = Groups::of(bucket).longest_match(fingerprint)?;
        Some((group, (id, index)))
    });
    match longest.min_by_key(|(group, _)| group.order()) {
        Some((group, place)) => Some((group.grown()?, Some(place))),
        None => Some((Group { entry: fingerprint, copies: 1 }, None)),
    }
}

/// Saturates a matching group that fills its bucket; of two, the one with the shorter tail, as removals take from the
/// other first.
fn saturate<W: Layout, E>(
    buckets: &mut AnyBuckets<'_, W, E>,
    both: Both<W>,
    fingerprint: Slot<W>,
) -> Option<Inserted<W>> {
    let filling = both.into_iter().filter_map(|(id, bucket)| {
        let (_, group) = Groups::of(bucket).longest_match(fingerprint)?;
        (group.lanes() == Some(bucket.numbers().slots)).then_some((id, group))
    });
    let (id, group) = filling.max_by_key(|(_, group)| group.order())?;
    let group = Group { copies: group.copies + 1, ..group };
    buckets.store(id, group.alone());
    Some(Inserted::Counted { digits: 0, saturates: true })
}

/// Unites the groups of a bucket that match `fingerprint`, if there are several, and adds the inserted copy.
fn merge<W: Layout>(id: BucketId, bucket: Bucket<W>, fingerprint: Slot<W>) -> Option<Counted<W>> {
    // Takes a bucket apart only if several of its lanes match. A single match may be universal, and is no group.
    if bucket.matches(fingerprint).count() < 2 {
        return None;
    }
    let groups = Groups::of(bucket);
    if groups.matching(fingerprint).count() < 2 {
        return None;
    }
    let union = groups.union(fingerprint)?.and(Group { entry: fingerprint, copies: 1 });
    let none = bucket.like(0);
    let regrouped = Inserted::Regrouped {
        before: [matching(bucket, fingerprint)?, none, none],
        after: [union.alone(), none],
    };
    Some((id, groups.others(fingerprint).and(union).pack()?, regrouped))
}

/// The matching groups of both buckets, united with the inserted copy.
struct United<W> {
    /// The united group.
    group: Group<W>,
    /// The two buckets before,
    before: [Bucket<W>; 2],
    /// and the two buckets without the matching groups.
    others: [(BucketId, Bucket<W>); 2],
}

/// `None` if the copies are more than one group counts.
fn unite_all<W: Layout>(both: Both<W>, fingerprint: Slot<W>) -> Option<United<W>> {
    let [first, second] = of_each(both, |(_, bucket)| Groups::of(bucket).union(fingerprint));
    let group =
        [first, second].into_iter().flatten().fold(Group { entry: fingerprint, copies: 1 }, Group::and);
    if group.copies >= group.width().numbers().most_copies {
        return None;
    }
    let [one, other] =
        of_each(both, |(id, bucket)| Some((id, Groups::of(bucket).others(fingerprint).pack()?)));
    let [first, second] = of_each(both, |(_, bucket)| matching(bucket, fingerprint));
    Some(United { group, before: [first?, second?], others: [one?, other?] })
}

/// The groups of a bucket that match.
fn matching<W: Layout>(bucket: Bucket<W>, fingerprint: Slot<W>) -> Option<Bucket<W>> {
    let groups = Groups::of(bucket);
    groups.filtered(|index| groups.matching(fingerprint).any(|(matching, _)| matching == index)).pack()
}

impl<W: Layout> United<W> {
    fn regrouped(&self) -> Inserted<W> {
        let (none, [first, second]) = (self.before[0].like(0), self.before);
        Inserted::Regrouped { before: [first, second, none], after: [self.group.alone(), none] }
    }
}

/// The removal of one matching slot.
pub(crate) struct Removal<W> {
    id: BucketId,
    /// The bucket without the slot.
    left: Bucket<W>,
    /// The slot, in its lane.
    taken: Bucket<W>,
}

impl<W: Width> Removal<W> {
    /// The length of its tail; `None` if it is universal.
    #[inline(always)]
    pub(crate) fn tail(&self) -> Option<u32> {
        self.taken.only_tail_length()
    }

    #[inline(always)]
    pub(crate) fn store<B: BucketsMut<W>>(self, buckets: &mut B) {
        buckets.store(self.id, self.left);
    }
}

/// The removal of the slot that matches, if exactly one matches and it has no digits.
#[inline(always)]
pub(crate) fn find_removal<W: Width, B: Buckets<W>>(
    buckets: &mut B,
    place: Place<W>,
) -> Result<Option<Removal<W>>, B::Error> {
    let [(first_id, first), (second_id, second)] = place.load(buckets)?;
    Ok(first.without_match(second, place.fingerprint).map(|[first_left, second_left]| {
        let in_second = first == first_left;
        Removal {
            id: first_id.or(second_id, in_second),
            left: first_left.or(second_left, in_second),
            taken: first.taken(first_left, second, second_left),
        }
    }))
}

/// Takes one copy from the matching entry with the longest tail, in either bucket; `None` if only universal slots match,
/// or nothing.
///
/// Only the longest match is safe. Let L be another key that needs the removed copy. L agrees with the removed key on all
/// of that tail, so L also matches the entry that counts the removed key's own copy, whose tail is no longer. A shorter
/// match could be the only entry of a key that does not match the longer one (`format-spec/README.md`, section 4.7).
#[inline]
pub(crate) fn remove<W: Width, B: BucketsMut<W>>(
    buckets: &mut B,
    place: Place<W>,
) -> Result<Option<Removed>, B::Error> {
    if let Some(removal) = find_removal(buckets, place)?
        && let Some(tail) = removal.tail()
    {
        removal.store(buckets);
        return Ok(Some(Removed::Entry { tail }));
    }
    let both = place.load(buckets)?;
    let Some((changed, removed)) = remove_copy(both, place.fingerprint) else { return Ok(None) };
    if let Some((id, bucket)) = changed {
        buckets.store(id, bucket);
    }
    Ok(Some(removed))
}

/// What a removal takes, and the changed bucket, if one changes.
type Taken<W> = (Option<(BucketId, Bucket<W>)>, Removed);

/// Like [`remove`], if several entries match, or one with digits, or none.
#[inline(never)]
fn remove_copy<W: Layout>(both: Both<W>, fingerprint: Slot<W>) -> Option<Taken<W>> {
    let longest = of_each(both, |(id, bucket)| {
        let (index, group) = Groups::of(bucket).longest_match(fingerprint)?;
        Some((id, bucket, index, group))
    });
    let (id, bucket, index, group) = match longest {
        [Some(first), Some(second)] if second.3.order() < first.3.order() => second,
        [Some(first), _] => first,
        [None, second] => second?,
    };
    if bucket.is_saturated() {
        return Some((None, Removed::Nothing));
    }
    let groups = Groups::of(bucket);
    let (left, removed) = match group.copies - 1 {
        0 => (groups.without(index), Removed::Entry { tail: group.entry.tail_length()? }),
        copies => {
            let left = Group { copies, ..group };
            (groups.with(index, left), Removed::Copy { digits: group.lanes()? - left.lanes()? })
        }
    };
    Some((Some((id, left.pack()?)), removed))
}

#[cfg(test)]
pub(super) mod tests;
