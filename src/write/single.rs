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
use crate::cuckoo::region::{Insertion, Removed, find_insertion, find_removal};
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

    pub(super) fn of(width: AnyWidth, kind: Kind) -> Self {
        match kind {
            Kind::Set => {
                with_any_width!(plain width, W => Self { insert: insert::<W>, ..Self::NONE }, Self::NONE)
            }
            Kind::Counting => {
                with_width!(width.slots(), W => Self { insert: insert::<W>, remove: remove::<W> })
            }
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

fn remove<W: Width>(work: &mut Work, delta: &mut Delta, traits: &Traits, hash: KeyHash) -> Option<()> {
    let (region, place) = place::<W>(traits, hash);
    match work {
        Work::Unpublished(file, _) => remove_from(file.region(region)?, place, delta),
        Work::Published(published, pending) => match pending.copied(region) {
            Some(region) => remove_from(region, place, delta),
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
    remove_from(pending.beside(published, region)?, place, delta)
}

#[inline(always)]
fn remove_from<W: Width>(
    mut region: impl BucketsMut<W, Error = Infallible>,
    place: Place<W>,
    delta: &mut Delta,
) -> Option<()> {
    let Ok(removal) = find_removal(&mut region, place);
    let removal = removal?;
    delta.removed(Removed::Entry { tail: removal.tail()? });
    removal.store(&mut region);
    Some(())
}
