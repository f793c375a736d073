//! A copy in memory of all buckets of a published file, with the changes of the open transaction in it.
//!
//! For a transaction that changes many buckets, this is the cheapest place: a change brings only the bucket itself into
//! the cache, as in an unpublished file.

use std::convert::Infallible;

use crate::cuckoo::{BUCKETS_PER_REGION, Bucket, BucketId, Buckets, BucketsMut, RegionId, Width};
use crate::file::{Overlay, PublishedFile, Region, RegionBits};
use crate::format::REGION;
use crate::system::{RegionsMut, WordsMut};

/// With more changed buckets for each page of the file, a copy is cheaper. A page costs some five microseconds to be copied
/// and later compared. A change beside the file costs no more than a change in a copy, until many buckets are changed: then
/// the processor cannot guess whether a bucket is.
///
/// Removals from 100 million keys with their commit, in seconds, with a copy from 24, 40 and 64 on: 1.5 million (28 a page)
/// 0.69, 0.45, 0.41; 2 million (37) 0.70, 0.49, 0.51; 6 million (112) 1.25, 1.48, 1.34.
pub(super) const CHANGES_A_PAGE: usize = 40;

#[derive(Debug)]
pub(crate) struct Shadow(RegionsMut);

/// A bucket's index among all buckets of the file.
const fn index(region: RegionId, bucket: BucketId) -> usize {
    region.0 as usize * BUCKETS_PER_REGION as usize + bucket.0 as usize
}

/// One region of a shadow.
pub(super) struct ShadowRegion<'a>(WordsMut<'a, { BUCKETS_PER_REGION as usize }>);

impl Shadow {
    /// From how many changed buckets on a copy of the file is cheaper.
    pub(super) const fn worth_from(published: &PublishedFile) -> usize {
        published.checkpoint.identity.geometry.pages() as usize * CHANGES_A_PAGE
    }

    /// The bytes of memory of a copy.
    pub(super) const fn length(published: &PublishedFile) -> u64 {
        published.checkpoint.identity.geometry.regions() * REGION
    }

    /// A copy of the file with these changes in it; `None` for lack of memory, or if a page is damaged: the operation that
    /// needs that page reports it.
    pub(super) fn of(published: &PublishedFile, changes: &Overlay) -> Option<Self> {
        let regions = published.checkpoint.identity.geometry.regions();
        let memory = RegionsMut::in_memory(regions)?;
        let mut words = [0; BUCKETS_PER_REGION as usize];
        for region in (0..regions).map(|region| RegionId(region as u32)) {
            published.read_region(region, changes.region(region), &mut words).ok()?;
            memory.map().set_words(index(region, BucketId(0)), &words);
        }
        Some(Self(memory))
    }

    /// `None` beyond the last region.
    #[inline]
    pub(super) fn region(&self, region: RegionId) -> Option<ShadowRegion<'_>> {
        self.0.region(region).map(ShadowRegion)
    }

    pub(super) fn read(&self, region: RegionId, into: &mut Region) {
        self.0.map().copy(index(region, BucketId(0)), into);
    }

    #[inline]
    pub(super) fn word(&self, region: RegionId, bucket: BucketId) -> u64 {
        self.0.map().word(index(region, bucket))
    }

    #[inline]
    pub(super) fn set_word(&self, region: RegionId, bucket: BucketId, word: u64) {
        self.0.map().set_word(index(region, bucket), word);
    }

    /// Asks for the cache line of a bucket.
    #[inline]
    pub(super) fn prefetch(&self, region: RegionId, bucket: BucketId) {
        self.0.map().prefetch(index(region, bucket));
    }

    /// The differences from the file. The copy is given back to the system bit by bit, so that both together take no more
    /// memory than the copy did.
    pub(super) fn into_changes(mut self, published: &PublishedFile) -> Overlay {
        /// Regions that are given back together: a huge page.
        const TOGETHER: u64 = 32;
        let mut overlay = Overlay::default();
        let (mut here, mut there): (Region, Region) = ([0; _], [0; _]);
        for number in 0..published.checkpoint.identity.geometry.regions() {
            if number > 0 && number.is_multiple_of(TOGETHER) {
                self.0.release(number - TOGETHER..number);
            }
            let region = RegionId(number as u32);
            self.read(region, &mut here);
            published.pages.read_region(region, &mut there);
            let mut changed: RegionBits = [0; _];
            let (ours, _) = here.as_chunks::<64>();
            let (theirs, _) = there.as_chunks::<64>();
            for ((bits, ours), theirs) in changed.iter_mut().zip(ours).zip(theirs) {
                let differ = ours.iter().zip(theirs).map(|(ours, theirs)| u64::from(ours != theirs));
                *bits = (0..).zip(differ).fold(0, |bits, (index, differs)| bits | differs << index);
            }
            if changed != [0; _] {
                overlay.region_mut(region).replace(&changed, &here);
            }
        }
        overlay
    }
}

impl<W: Width> Buckets<W> for ShadowRegion<'_> {
    type Error = Infallible;

    #[inline]
    fn load(&mut self, id: BucketId) -> Result<Bucket<W>, Infallible> {
        Ok(Bucket::new(self.0.word(id.0.into())))
    }
}

impl<W: Width> BucketsMut<W> for ShadowRegion<'_> {
    #[inline]
    fn store(&mut self, id: BucketId, bucket: Bucket<W>) {
        self.0.set_word(id.0.into(), bucket.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::write::Batches;
    use crate::write::work::Work;

    #[test]
    fn a_copy_reads_as_the_file_with_its_changes_and_knows_them_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Options::new().capacity(2_000_000).create(dir.path().join("f")).unwrap();
        writer.insert_all((0..50_000_u64).map(u64::to_le_bytes)).unwrap().complete().unwrap();
        writer.commit().unwrap();
        let Work::Published(published, pending) = &mut writer.state_mut().unwrap().transaction.work else {
            panic!("a published file")
        };
        let changes = pending.sorted(published);
        for (region, bucket) in [(0, 5), (1, 0), (1, 8191)] {
            changes.region_mut(RegionId(region)).set(BucketId(bucket), 0x1234 + u64::from(bucket));
        }
        let shadow = Shadow::of(published, changes).unwrap();
        let regions = published.checkpoint.identity.geometry.regions();
        // Some are given back before the last one is compared.
        assert!(regions > 33);
        let mut found = [0; 8192];
        let expected = (0..regions as u32).map(RegionId).map(|region| {
            let mut expected = [1; 8192];
            published.read_region(region, changes.region(region), &mut expected).unwrap();
            shadow.read(region, &mut found);
            assert!(found == expected && found.iter().any(|word| *word != 0), "{region:?}");
            expected
        });
        let expected: Vec<_> = expected.collect();
        let again = shadow.into_changes(published);
        for (region, expected) in (0..).map(RegionId).zip(expected) {
            published.read_region(region, again.region(region), &mut found).unwrap();
            assert!(found == expected, "{region:?}");
        }
    }
}
