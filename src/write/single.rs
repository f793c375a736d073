//! The shortcut of single inserts and removals: the few instructions that most of them need.
//!
//! An insert waits for memory. Meanwhile the processor works at several others, if each has few instructions and no
//! branch that it would have to guess. So inserts that need a search, the verification of a page or an error are left
//! to `transaction.rs`; each width has a function of its own, as values of the others would take registers; and changes
//! of a published file that are not made in a copy have another one, as what may allocate takes registers too.

use super::transaction::{Transaction, Work};
use crate::cuckoo::region::{Removed, Tried, try_insert, try_remove};
use crate::cuckoo::{KeyHash, Kind, Place, RegionId, Width, with_any_width};

/// Evaluates `$change` with the buckets of a region that can be changed in place as `$buckets`; `$beside` for a published
/// file whose changes are kept beside it.
macro_rules! in_place {
    ($work:expr, $region:expr, $buckets:ident => $change:expr, $beside:expr) => {
        match $work {
            Work::Unpublished(file, _) => file.region($region).map(|mut region| {
                let $buckets = &mut region;
                let Ok(outcome) = $change;
                outcome
            }),
            Work::Published(_, pending) => match pending.copied($region) {
                Some(mut region) => {
                    let $buckets = &mut region;
                    let Ok(outcome) = $change;
                    Some(outcome)
                }
                None => return $beside,
            },
        }
    };
}

/// The same beside a published file. `None` if its pages may not be intact, or a copy was just made.
macro_rules! beside {
    ($work:expr, $region:expr, $buckets:ident => $change:expr) => {
        match $work {
            Work::Published(published, pending) => pending.beside(published, $region).map(|mut region| {
                let $buckets = &mut region;
                let Ok(outcome) = $change;
                outcome
            }),
            Work::Unpublished(..) => None,
        }
    };
}

impl Transaction {
    /// Inserts a key, and returns whether it is new. `None` if the insert needs more than the shortcut, as it does in a
    /// forgetting filter; nothing is changed then.
    #[inline(never)]
    pub(super) fn insert_quickly(&mut self, hash: KeyHash) -> Option<bool> {
        with_any_width!(plain self.traits.width, W => self.insert_in_place::<W>(hash), None)
    }

    /// Removes one copy. `None` if the removal needs more than the shortcut; nothing is changed then.
    #[inline(never)]
    pub(super) fn remove_quickly(&mut self, hash: KeyHash) -> Option<()> {
        with_any_width!(plain self.traits.width, W => self.remove_in_place::<W>(hash), None)
    }

    #[inline(never)]
    fn insert_in_place<W: Width>(&mut self, hash: KeyHash) -> Option<bool> {
        let (region, rem) = self.traits.span.region(hash)?;
        let place = Place::<W>::new(hash.local(), rem);
        let tried = in_place!(
            &mut self.work, region, buckets => try_insert(buckets, place), self.insert_beside(region, place)
        );
        self.inserted::<W>(tried?)
    }

    #[inline(never)]
    fn insert_beside<W: Width>(&mut self, region: RegionId, place: Place<W>) -> Option<bool> {
        let tried = beside!(&mut self.work, region, buckets => try_insert(buckets, place));
        self.inserted::<W>(tried?)
    }

    #[inline(always)]
    fn inserted<W: Width>(&mut self, tried: Tried) -> Option<bool> {
        match tried {
            Tried::Stored => {
                self.delta.stored::<W>();
                Some(true)
            }
            Tried::Matches if self.kind() == Kind::Set => Some(false),
            Tried::Matches | Tried::Crowded => None,
        }
    }

    #[inline(never)]
    fn remove_in_place<W: Width>(&mut self, hash: KeyHash) -> Option<()> {
        if self.kind() != Kind::Counting {
            return None;
        }
        let (region, rem) = self.traits.span.region(hash)?;
        let place = Place::<W>::new(hash.local(), rem);
        let removed = in_place!(
            &mut self.work, region, buckets => try_remove(buckets, place), self.remove_beside(region, place)
        );
        self.removed(removed??)
    }

    #[inline(never)]
    fn remove_beside<W: Width>(&mut self, region: RegionId, place: Place<W>) -> Option<()> {
        let removed = beside!(&mut self.work, region, buckets => try_remove(buckets, place));
        self.removed(removed??)
    }

    #[inline(always)]
    fn removed(&mut self, tail: u32) -> Option<()> {
        self.delta.removed(Removed::Entry { tail });
        Some(())
    }
}
