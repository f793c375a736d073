//! Lookups in one opening of the file: two buckets, read under the seqlock of the live area.
//!
//! The invariant (`format-spec/README.md`, section 7): a lookup answers "absent" only if nothing was applied around its
//! reads: the apply epoch, or the region's own sequence, was even, and the same before and after the reads. "Present"
//! needs no check.

use super::patience::Patience;
use super::view::View;
use crate::cuckoo::{
    Bucket, BucketId, Buckets, KeyHash, Place, RegionId, Slot, Width, region, with_any_width,
};
use crate::error::{Error, Result};
use crate::file::{LiveHead, LiveRead, Pages};
use crate::format::{BUCKETS_PER_PAGE, Identity, PageId};
use crate::options::OnDamage;

/// A region whose pages are verified as they are touched.
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

/// Both buckets of a key. They are consistent if nothing was applied while they were loaded.
struct Glance<W> {
    first: Bucket<W>,
    second: Bucket<W>,
    query: Slot<W>,
    consistent: bool,
}

impl<W: Width> Glance<W> {
    fn contains(self) -> Option<bool> {
        let Self { first, second, query, consistent } = self;
        // While something is being applied, "present" is certain and "absent" is not.
        let found = first.either_matches(second, query);
        (found | consistent).then_some(found)
    }

    fn count(self) -> Option<u32> {
        let Self { first, second, query, consistent } = self;
        let count = first.copies_in_either(second, query)?;
        consistent.then_some(count)
    }
}

/// Lookups in one opening of the file.
impl View {
    pub(super) fn verify_all(&self) -> Result<()> {
        (0..self.superblock.identity.geometry.pages()).map(PageId).try_for_each(|id| {
            if id.in_region() == 0 {
                self.comes_to(id.region());
            }
            // `None` says that the file must be opened anew. The lookup that touches the page then verifies it.
            self.read_consistent(id.region(), || self.contents().verify(id), Result::is_ok).unwrap_or(Ok(()))
        })
    }

    /// Repeats `look` until its outcome is `certain`, or nothing was applied to the region during it. `None` if the
    /// file must be opened anew: the wait was so long that the writer may have died, the writer gave up, or the file
    /// has changed since it was replayed privately.
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
        self.pages.map.read_consistent(region, look, certain, || patience.wait())
    }

    /// Whether the key is present. `None` if the lookup needs more than two buckets of verified pages, or if the view
    /// does not belong to `reader`.
    pub(super) fn contains_quickly(&self, reader: u64, hash: KeyHash) -> Option<bool> {
        if self.reader != reader {
            return None;
        }
        with_any_width!(self.superblock.identity.geometry.width, W => self.glance::<W>(hash)?.contains())
    }

    /// Like [`contains_quickly`](Self::contains_quickly): the copies of the entries that match.
    pub(super) fn count_quickly(&self, reader: u64, hash: KeyHash) -> Option<u32> {
        if self.reader != reader {
            return None;
        }
        let count =
            with_any_width!(self.superblock.identity.geometry.width, W => self.glance::<W>(hash)?.count())?;
        Some(self.superblock.identity.kind.capped(count))
    }

    /// Looks at both buckets. `None` if a page must be verified first, while a flag is set, if the name leads to
    /// another file, or for a key of another shard. Must not be called on a private replay.
    fn glance<W: Width>(&self, hash: KeyHash) -> Option<Glance<W>> {
        let (region, rem) = self.pages.map.span().region_or_beyond(hash);
        let place = Place::<W>::new(hash.local(), rem);
        let page = |bucket: BucketId| PageId::new(region, u32::from(bucket.0) / BUCKETS_PER_PAGE);
        if !(self.pages.is_intact(page(place.first)) && self.pages.is_intact(page(place.second()))) {
            return None;
        }
        let (head, buckets) = (self.pages.map.live_head(), self.pages.map.region(region)?);
        let load = |id: BucketId| Bucket::new(buckets.word(id.0.into()));
        let look = || ((load(place.first), load(place.second())), self.now::<W>(), self.is_left());
        let (((first, second), now, left), epoch) = head.glance(look)?;
        if left {
            return None;
        }
        if let Some(epoch) = epoch {
            self.note_epoch(epoch);
        }
        Some(Glance { first, second, query: place.at(now?).fingerprint, consistent: epoch.is_some() })
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
        Some(match found {
            Err(Error::Damaged { .. }) if on_damage == OnDamage::Present => Ok(true),
            outcome => outcome,
        })
    }

    /// The epochs that a forgetting filter keeps the key, from its own epoch on; 0 if it is not there, `u32::MAX` if a
    /// quarantined bucket answers for it.
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
        Some(match left {
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
            let count = self.read_consistent(region, look, |_| false)?;
            Some(count.map(|count| kind.capped(count.unwrap_or(geometry.slots().highest_count()))))
        })
    }
}

#[cfg(test)]
mod tests;
