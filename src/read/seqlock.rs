//! Lookups in one opening of the file: each reads two buckets under the seqlock of the live area.
//!
//! The invariant (`format-spec/README.md`, section 7): a lookup answers "absent" only if nothing was applied around its
//! reads: the apply epoch, or the region's own sequence, was even, and the same before and after the reads. "Present"
//! needs no check. If the sequence decides, the epoch by which a forgetting filter judges is not older than the region,
//! so no key is missed.

use super::patience::Patience;
use super::view::View;
use crate::cuckoo::{Bucket, BucketId, Buckets, KeyHash, Place, RegionId, Width, region, with_any_width};
use crate::error::{Error, Result};
use crate::file::{LiveHead, LiveRead, Pages};
use crate::format::{Identity, PageId};
use crate::options::OnDamage;

/// A region whose pages are verified when first touched.
struct VerifiedRegion<'a> {
    pages: &'a Pages,
    region: RegionId,
}

impl<W: Width> Buckets<W> for VerifiedRegion<'_> {
    type Error = Error;

    #[inline]
    fn load(&mut self, id: BucketId) -> Result<Bucket<W>> {
        self.pages.bucket(self.region, id.0).map(Bucket::new)
    }
}

/// Lookups in one opening of the file.
impl View {
    pub(super) fn verify_all(&self) -> Result<()> {
        (0..self.superblock.identity.geometry.pages()).map(PageId).try_for_each(|id| {
            if id.in_region() == 0 {
                self.comes_to(id.region());
            }
            // `None` means that the file must be opened anew. The lookup that touches the page then verifies it.
            self.read_consistent(id.region(), || self.contents().verify(id), Result::is_ok).unwrap_or(Ok(()))
        })
    }

    /// Repeats `look` until its outcome is `certain`, or until no commit was applied to the region during it. `None` if
    /// the file must be opened anew: the writer may have died or gave up, the file has changed since it was replayed
    /// privately, or another file was written over it.
    #[inline]
    pub(super) fn read_consistent<T>(
        &self,
        region: RegionId,
        mut look: impl FnMut() -> T,
        certain: impl Fn(&T) -> bool,
    ) -> Option<T> {
        if self.is_replayed() {
            let epoch = self.pages.map.epoch();
            let outcome = look();
            return (certain(&outcome) || self.is_consistent(epoch)).then_some(outcome);
        }
        let mut patience = Patience::default();
        let outcome = self.pages.map.read_consistent(region, look, &certain, || patience.wait())?;
        // Checked after the reads: another file may have been written over this one during them.
        (certain(&outcome) || self.is_own()).then_some(outcome)
    }

    /// The outcome, unless it is damage of another file that was written over this one; then `None`.
    fn of_own<T>(&self, outcome: Result<T>) -> Option<Result<T>> {
        let is_others =
            matches!(outcome, Err(Error::Damaged { .. } | Error::Field { .. })) && !self.shows_own();
        (!is_others).then_some(outcome)
    }

    pub(super) fn contains(&self, hash: KeyHash, on_damage: OnDamage) -> Option<Result<bool>> {
        let geometry = self.superblock.identity.geometry;
        let (region, rem) = match geometry.region_of(hash, self.pages.path()) {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        let found = with_any_width!(geometry.width, W => {
            let place = Place::<W>::new(hash.local(), rem);
            let look = || {
                let place = place.at(self.now::<W>().ok_or_else(|| self.no_epoch())?);
                region::contains(&mut VerifiedRegion { pages: self.contents(), region }, place)
            };
            self.read_consistent(region, look, |found| matches!(found, Ok(true)))
        })?;
        Some(match self.of_own(found)? {
            Err(Error::Damaged { .. }) if on_damage == OnDamage::Present => Ok(true),
            outcome => outcome,
        })
    }

    /// For how many epochs a forgetting filter still keeps the key; 0 if the key is absent, `u32::MAX` if a quarantined
    /// bucket answers for it.
    #[cfg(feature = "store")]
    pub(super) fn epochs_left(&self, hash: KeyHash, on_damage: OnDamage) -> Option<Result<u32>> {
        let geometry = self.superblock.identity.geometry;
        let (region, rem) = match geometry.region_of(hash, self.pages.path()) {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        let left = with_any_width!(geometry.width, W => {
            let place = Place::<W>::new(hash.local(), rem);
            let look = || {
                let place = place.at(self.now::<W>().ok_or_else(|| self.no_epoch())?);
                crate::cuckoo::forgetting::epochs_left(&mut VerifiedRegion { pages: self.contents(), region }, place)
            };
            self.read_consistent(region, look, |_| false)
        })?;
        Some(match self.of_own(left)? {
            Err(Error::Damaged { .. }) if on_damage == OnDamage::Present => Ok(u32::MAX),
            outcome => outcome,
        })
    }

    pub(super) fn count(&self, hash: KeyHash) -> Option<Result<u32>> {
        let Identity { kind, geometry, .. } = self.superblock.identity;
        let (region, rem) = match geometry.region_of(hash, self.pages.path()) {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        with_any_width!(geometry.width, W => {
            let place = Place::<W>::new(hash.local(), rem);
            let look = || {
                let place = place.at(self.now::<W>().ok_or_else(|| self.no_epoch())?);
                region::count(&mut VerifiedRegion { pages: self.contents(), region }, place)
            };
            let count = self.of_own(self.read_consistent(region, look, |_| false)?)?;
            Some(count.map(|count| kind.capped(count.unwrap_or(geometry.slots().highest_count()))))
        })
    }
}

#[cfg(test)]
mod tests;
