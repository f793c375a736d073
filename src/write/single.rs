//! The shortcut of single inserts and removals: the few instructions that most of them need.
//!
//! While an insert waits for memory, the processor works on several others, if each has few instructions and no
//! unpredictable branch. So:
//!
//! - `transaction.rs` does the inserts that need a search or the verification of a page, or that fail.
//! - Each width has its own functions, chosen once for all keys.
//! - Changes to a published file that has no copy in memory have their own functions: code that may allocate takes
//!   registers.

use std::convert::Infallible;

use super::pending::Pending;
use super::work::{Traits, Work};
use crate::cuckoo::region::{Insertion, Removal, Removed, find_insertion, find_removal};
use crate::cuckoo::{
    AnyWidth, BucketsMut, Delta, KeyHash, Kind, Place, RegionId, Width, with_any_width, with_width,
};
use crate::file::PublishedFile;

/// The functions for a width and a kind. They return `None` if a change needs more than the shortcut, and have then
/// changed nothing. They cannot panic between counting a change and storing it. So the writer need not be poisoned while
/// they run, as it is during longer changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shortcut {
    insert: fn(&mut Work, &mut Delta, &Traits, KeyHash) -> Option<bool>,
    remove: fn(&mut Work, &mut Delta, &Traits, KeyHash) -> Option<()>,
}

impl Shortcut {
    /// For filters whose changes never take the shortcut, such as forgetting filters.
    const NONE: Self = Self { insert: |_, _, _, _| None, remove: |_, _, _, _| None };

    /// `fresh`: nearly all entries have fresh tails.
    pub(super) fn of(width: AnyWidth, kind: Kind, fresh: bool) -> Self {
        match kind {
            Kind::Set => {
                with_any_width!(plain width, W => Self { insert: insert::<W>, ..Self::NONE }, Self::NONE)
            }
            Kind::Counting if fresh => with_width!(width.slots(), W => {
                Self { insert: insert::<W>, remove: remove::<W, true> }
            }),
            Kind::Counting => with_width!(width.slots(), W => {
                Self { insert: insert::<W>, remove: remove::<W, false> }
            }),
            Kind::Forgetting => Self::NONE,
        }
    }

    #[inline]
    pub(super) fn insert(
        &self,
        work: &mut Work,
        delta: &mut Delta,
        traits: &Traits,
        hash: KeyHash,
    ) -> Option<bool> {
        (self.insert)(work, delta, traits, hash)
    }

    #[inline]
    pub(super) fn remove(
        &self,
        work: &mut Work,
        delta: &mut Delta,
        traits: &Traits,
        hash: KeyHash,
    ) -> Option<()> {
        (self.remove)(work, delta, traits, hash)
    }
}

/// The region and the place of a key. A key of another shard gets the number of a region that does not exist.
#[inline(always)]
fn place<W: Width>(traits: &Traits, hash: KeyHash) -> (RegionId, Place<W>) {
    let (region, rem) = traits.span.region_or_beyond(hash);
    (region, Place::new(hash.local(), rem))
}

fn insert<W: Width>(work: &mut Work, delta: &mut Delta, traits: &Traits, hash: KeyHash) -> Option<bool> {
    let (region, place) = place::<W>(traits, hash);
    match work {
        Work::Unpublished(file, _) => insert_into(file.region(region)?, place, delta, traits),
        Work::Published(published, pending) => match pending.copied(region) {
            Some(region) => insert_into(region, place, delta, traits),
            None => insert_beside(published, pending, region, place, delta, traits),
        },
    }
}

#[inline(never)]
fn insert_beside<W: Width>(
    published: &PublishedFile,
    pending: &mut Pending,
    region: RegionId,
    place: Place<W>,
    delta: &mut Delta,
    traits: &Traits,
) -> Option<bool> {
    insert_into(pending.beside(published, region)?, place, delta, traits)
}

#[inline(always)]
fn insert_into<W: Width>(
    mut region: impl BucketsMut<W, Error = Infallible>,
    place: Place<W>,
    delta: &mut Delta,
    traits: &Traits,
) -> Option<bool> {
    let Ok(insertion) = find_insertion(&mut region, place);
    match insertion {
        Insertion::Store { id, bucket } => {
            delta.stored::<W>();
            // The last step: a store beside a file may have to allocate, and then no other work must follow.
            region.store(id, bucket);
            Some(true)
        }
        Insertion::Matches if traits.kind == Kind::Set => Some(false),
        Insertion::Matches | Insertion::Crowded => None,
    }
}

/// With `FRESH`, leaves entries with shorter tails to the long way. So the processor can predict which counter changes,
/// without waiting for the buckets.
fn remove<W: Width, const FRESH: bool>(
    work: &mut Work,
    delta: &mut Delta,
    traits: &Traits,
    hash: KeyHash,
) -> Option<()> {
    let (region, place) = place::<W>(traits, hash);
    match work {
        Work::Unpublished(file, _) => remove_from::<W, FRESH>(file.region(region)?, place, delta),
        Work::Published(published, pending) => match pending.copied(region) {
            Some(region) => remove_from::<W, FRESH>(region, place, delta),
            None => remove_beside(published, pending, region, place, delta),
        },
    }
}

#[inline(never)]
fn remove_beside<W: Width>(
    published: &PublishedFile,
    pending: &mut Pending,
    region: RegionId,
    place: Place<W>,
    delta: &mut Delta,
) -> Option<()> {
    let mut region = pending.beside(published, region)?;
    take::<W, false>(&mut region, place, delta)?.store(&mut region);
    Some(())
}

/// Removes from buckets that nobody else sees: stores both.
#[inline(always)]
fn remove_from<W: Width, const FRESH: bool>(
    mut region: impl BucketsMut<W, Error = Infallible>,
    place: Place<W>,
    delta: &mut Delta,
) -> Option<()> {
    take::<W, FRESH>(&mut region, place, delta)?.store_both(&mut region);
    Some(())
}

/// Counts a removal that the caller is about to store.
#[inline(always)]
fn take<W: Width, const FRESH: bool>(
    region: &mut impl BucketsMut<W, Error = Infallible>,
    place: Place<W>,
    delta: &mut Delta,
) -> Option<Removal<W>> {
    let Ok(removal) = find_removal(region, place);
    let removal = removal?;
    let tail = match FRESH {
        true if removal.is_of_fresh_tail() => W::TAIL_BITS,
        true => return None,
        false => removal.tail()?,
    };
    delta.removed(Removed::Entry { tail });
    Some(removal)
}
