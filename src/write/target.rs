//! The target of changes: a published file with changes beside it, a copy of such a file in memory, or an unpublished
//! file. The last two are changed in place.

use std::convert::Infallible;
use std::sync::Arc;

use super::pending::Pending;
use super::shadow::Shadow;
use crate::cuckoo::{Bucket, BucketId, Buckets, BucketsMut, RegionId, Width};
use crate::error::{Error, IoContext, Result};
use crate::file::{Overlay, PublishedFile, Region, RegionChange, UnpublishedFile, UnpublishedRegion};
use crate::format::Identity;
use crate::system::{Disk, Files, Rights};

/// A file and its changes. `C` holds the changes of a published file; it is `()` if they do not matter.
#[derive(Clone, Copy)]
pub(crate) enum Target<'a, C> {
    Published(&'a PublishedFile, C),
    Copied(&'a PublishedFile, &'a Shadow),
    Unpublished(&'a UnpublishedFile),
}

impl<'a, C> Target<'a, C> {
    #[inline]
    pub(crate) const fn identity(&self) -> &'a Identity {
        match self {
            Self::Published(published, _) | Self::Copied(published, _) => &published.checkpoint.identity,
            Self::Unpublished(file) => &file.identity,
        }
    }

    /// The same file, with its changes in another form.
    #[inline]
    pub(super) fn with<D>(self, hold: impl FnOnce(C, &PublishedFile) -> D) -> Target<'a, D> {
        match self {
            Self::Published(published, changes) => Target::Published(published, hold(changes, published)),
            Self::Copied(published, shadow) => Target::Copied(published, shadow),
            Self::Unpublished(file) => Target::Unpublished(file),
        }
    }

    /// One region of the target.
    #[inline]
    pub(super) const fn region(self, region: RegionId) -> TargetRegion<'a, C> {
        TargetRegion { target: self, region }
    }

    /// The filter's files, and the disk through which they are written.
    pub(crate) const fn surroundings(&self) -> (&'a Files, &'a Arc<dyn Disk>) {
        match self {
            Self::Published(published, _) | Self::Copied(published, _) => (&published.files, &published.disk),
            Self::Unpublished(file) => file.surroundings(),
        }
    }

    /// The permissions and the owner for a file that replaces this one.
    pub(crate) fn rights(&self) -> Result<Rights> {
        match self {
            Self::Published(published, _) | Self::Copied(published, _) => {
                Rights::of(&published.file).at(&published.files.data, "look at")
            }
            Self::Unpublished(file) => file.rights(),
        }
    }

    /// Whether the target is a new file whose regions are in memory.
    pub(super) const fn is_in_memory(&self) -> bool {
        matches!(self, Self::Unpublished(file) if file.is_in_memory())
    }

    /// Prefetches the cache line of a bucket.
    #[inline]
    pub(super) fn prefetch(&self, region: RegionId, bucket: BucketId) {
        match self {
            Self::Published(published, _) => published.pages.prefetch(region, bucket.0),
            Self::Copied(_, shadow) => shadow.prefetch(region, bucket),
            Self::Unpublished(file) => file.prefetch(region, bucket.0),
        }
    }

    /// Asks the system to read in a region that will be needed soon, without waiting.
    pub(crate) fn read_ahead(&self, region: RegionId) {
        if let Self::Published(published, _) = self {
            published.pages.read_ahead(region);
        }
    }
}

impl Target<'_, &Overlay> {
    /// One region including the changes, its pages verified.
    pub(crate) fn read_region(&self, region: RegionId, into: &mut Region) -> Result<()> {
        match self {
            Self::Published(published, overlay) => {
                published.read_region(region, overlay.region(region), into)
            }
            Self::Copied(_, shadow) => {
                shadow.read(region, into);
                Ok(())
            }
            Self::Unpublished(file) => {
                file.read(region, into);
                Ok(())
            }
        }
    }
}

impl<'a> Target<'a, &mut Overlay> {
    /// The same target for a shorter lifetime.
    pub(super) const fn reborrow(&mut self) -> Target<'_, &mut Overlay> {
        match self {
            Self::Published(published, overlay) => Target::Published(published, overlay),
            Self::Copied(published, shadow) => Target::Copied(published, shadow),
            Self::Unpublished(file) => Target::Unpublished(file),
        }
    }

    /// The file without its changes.
    pub(super) const fn file(&self) -> Target<'a, ()> {
        match self {
            Self::Published(published, _) => Target::Published(published, ()),
            Self::Copied(published, shadow) => Target::Copied(published, shadow),
            Self::Unpublished(file) => Target::Unpublished(file),
        }
    }

    /// Calls `work` with a target for each of `parts`. No two targets have a region in common.
    pub(super) fn divide(
        self,
        parts: usize,
        part_of: impl Fn(RegionId) -> usize,
        work: impl FnOnce(Vec<Target<'_, &mut Overlay>>),
    ) {
        match self {
            Self::Published(published, overlay) if parts > 1 => {
                let mut divided = overlay.divide(parts, part_of);
                work(divided.iter_mut().map(|overlay| Target::Published(published, overlay)).collect());
                divided.into_iter().for_each(|part| overlay.append(part));
            }
            Self::Copied(published, shadow) => {
                work((0..parts).map(|_| Target::Copied(published, shadow)).collect());
            }
            Self::Unpublished(file) => work((0..parts).map(|_| Target::Unpublished(file)).collect()),
            target @ Self::Published(..) => work(vec![target]),
        }
    }
}

/// Changed buckets, which take precedence over the buckets of a published file.
pub(super) trait Changes {
    fn get(&self, region: RegionId, bucket: BucketId) -> Option<u64>;
}

/// Changes that accept further changes.
pub(super) trait ChangesMut: Changes {
    fn set(&mut self, region: RegionId, bucket: BucketId, word: u64);
}

impl Changes for &Pending {
    #[inline]
    fn get(&self, region: RegionId, bucket: BucketId) -> Option<u64> {
        Pending::get(self, region, bucket)
    }
}

impl Changes for &mut Pending {
    #[inline]
    fn get(&self, region: RegionId, bucket: BucketId) -> Option<u64> {
        Pending::get(self, region, bucket)
    }
}

impl ChangesMut for &mut Pending {
    #[inline]
    fn set(&mut self, region: RegionId, bucket: BucketId, word: u64) {
        Pending::set(self, region, bucket, word);
    }
}

/// The changes of only the region that is read.
impl Changes for &mut RegionChange {
    fn get(&self, _: RegionId, bucket: BucketId) -> Option<u64> {
        RegionChange::get(self, bucket)
    }
}

impl ChangesMut for &mut RegionChange {
    fn set(&mut self, _: RegionId, bucket: BucketId, word: u64) {
        RegionChange::set(self, bucket, word);
    }
}

/// One region as the transaction sees it; it may be changed if `C` may.
pub(super) struct TargetRegion<'a, C> {
    target: Target<'a, C>,
    region: RegionId,
}

impl<W: Width, C: Changes> Buckets<W> for TargetRegion<'_, C> {
    type Error = Error;

    #[inline]
    fn load(&mut self, bucket: BucketId) -> Result<Bucket<W>> {
        Ok(Bucket::new(match &self.target {
            Target::Published(published, changes) => match changes.get(self.region, bucket) {
                Some(word) => word,
                None => published.pages.bucket(self.region, bucket.0)?,
            },
            Target::Copied(_, shadow) => shadow.word(self.region, bucket),
            Target::Unpublished(file) => file.bucket(self.region, bucket.0),
        }))
    }

    fn are_far(&self) -> bool {
        true
    }

    fn prefetch(&self, bucket: BucketId) {
        self.target.prefetch(self.region, bucket);
    }
}

impl<W: Width, C: ChangesMut> BucketsMut<W> for TargetRegion<'_, C> {
    #[inline]
    fn store(&mut self, id: BucketId, bucket: Bucket<W>) {
        match &mut self.target {
            Target::Published(_, changes) => changes.set(self.region, id, bucket.0),
            Target::Copied(_, shadow) => shadow.set_word(self.region, id, bucket.0),
            Target::Unpublished(file) => file.set_bucket(self.region, id.0, bucket.0),
        }
    }
}

impl<W: Width> Buckets<W> for UnpublishedRegion<'_> {
    type Error = Infallible;

    #[inline]
    fn load(&mut self, id: BucketId) -> Result<Bucket<W>, Infallible> {
        Ok(Bucket::new(self.bucket(id.0)))
    }
}

impl<W: Width> BucketsMut<W> for UnpublishedRegion<'_> {
    #[inline]
    fn store(&mut self, id: BucketId, bucket: Bucket<W>) {
        self.set_bucket(id.0, bucket.0);
    }
}
