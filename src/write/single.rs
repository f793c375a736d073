//! The shortcut of single inserts and removals: the few instructions that most of them need.
//!
//! An insert waits for memory. Meanwhile the processor works at several others, if each has few instructions and no
//! branch that it would have to guess. So inserts that need a search, the verification of a page or an error are left
//! to `transaction.rs`; and each width has a function of its own, as values of the others would take registers.

use super::pending::Direct;
use super::transaction::{Transaction, Work};
use crate::cuckoo::region::{Removed, Tried, try_insert, try_remove};
use crate::cuckoo::{KeyHash, Kind, Place, RegionId, Width, with_any_width};

/// Evaluates `$change` with the buckets of a region as `$buckets`; `$none` if their pages may not be intact.
macro_rules! in_region {
    ($work:expr, $region:expr, $buckets:ident => $change:expr, $none:expr) => {
        match $work {
            Work::Unpublished(file, _) => match file.region($region) {
                Some(mut region) => {
                    let $buckets = &mut region;
                    let Ok(outcome) = $change;
                    outcome
                }
                None => $none,
            },
            Work::Published(published, pending) => match pending.direct(published, $region) {
                Some(Direct::InTable(mut region)) => {
                    let $buckets = &mut region;
                    let Ok(outcome) = $change;
                    outcome
                }
                Some(Direct::InShadow(mut region)) => {
                    let $buckets = &mut region;
                    let Ok(outcome) = $change;
                    outcome
                }
                None => $none,
            },
        }
    };
}

impl Transaction {
    /// Inserts a key, and returns whether it is new. `None` if the insert needs more than the shortcut, as it does in a
    /// forgetting filter; nothing is changed then.
    #[inline]
    pub(super) fn insert_quickly(&mut self, hash: KeyHash) -> Option<bool> {
        match self.try_insert(hash) {
            Tried::Stored => Some(true),
            Tried::Matches if self.kind() == Kind::Set => Some(false),
            Tried::Matches | Tried::Crowded => None,
        }
    }

    /// Removes one copy. False if the removal needs more than the shortcut; nothing is changed then.
    #[inline]
    pub(super) fn remove_quickly(&mut self, hash: KeyHash) -> bool {
        let geometry = self.work.identity().geometry;
        let Some((region, rem)) = geometry.span().region(hash) else { return false };
        with_any_width!(
            plain geometry.width,
            W => self.remove_from(region, Place::<W>::new(hash.local(), rem)),
            false
        )
    }

    #[inline]
    fn try_insert(&mut self, hash: KeyHash) -> Tried {
        let geometry = self.work.identity().geometry;
        let Some((region, rem)) = geometry.span().region(hash) else { return Tried::Crowded };
        with_any_width!(
            plain geometry.width,
            W => self.insert_into(region, Place::<W>::new(hash.local(), rem)),
            Tried::Crowded
        )
    }

    #[inline(never)]
    fn insert_into<W: Width>(&mut self, region: RegionId, place: Place<W>) -> Tried {
        let tried = in_region!(&mut self.work, region, buckets => try_insert(buckets, place), Tried::Crowded);
        if tried == Tried::Stored {
            self.delta.stored::<W>();
        }
        tried
    }

    #[inline(never)]
    fn remove_from<W: Width>(&mut self, region: RegionId, place: Place<W>) -> bool {
        let removed = in_region!(&mut self.work, region, buckets => try_remove(buckets, place), None);
        if let Some(tail) = removed {
            self.delta.removed(Removed::Entry { tail });
        }
        removed.is_some()
    }
}
