//! Where inserts and removals go: a region of a published file under changes, or of an unpublished one.

use super::pending::Pending;
use crate::cuckoo::{Bucket, BucketId, Buckets, BucketsMut, RegionId, Width};
use crate::error::{Error, Result};
use crate::file::{Overlay, RegionChange, Store, Unpublished};

/// Where inserts go: all that a thread of them may change, and nothing that another may.
pub(super) enum Target<'a> {
    Published(&'a Store, &'a mut Overlay),
    Unpublished(&'a Unpublished),
}

/// What can be asked for cache lines.
#[derive(Clone, Copy)]
pub(super) enum Buffer<'a> {
    Published(&'a Store),
    Unpublished(&'a Unpublished),
}

impl<'a> Target<'a> {
    pub(super) fn view_mut(&mut self, region: RegionId) -> RegionView<'_, &mut RegionChange> {
        match self {
            Self::Published(store, overlay) => {
                RegionView::Published(store, region, overlay.region_mut(region))
            }
            Self::Unpublished(file) => RegionView::Unpublished(file, region),
        }
    }

    pub(super) const fn buffer(&self) -> Buffer<'a> {
        match self {
            Self::Published(store, _) => Buffer::Published(store),
            Self::Unpublished(file) => Buffer::Unpublished(file),
        }
    }

    /// Lets `work` have targets of its own for each of `parts`, which no other part's regions are in.
    pub(super) fn divide(
        self,
        parts: usize,
        part_of: impl Fn(RegionId) -> usize,
        work: impl FnOnce(Vec<Target<'_>>),
    ) {
        match self {
            Self::Published(store, overlay) if parts > 1 => {
                let mut divided = overlay.divide(parts, part_of);
                work(divided.iter_mut().map(|overlay| Target::Published(store, overlay)).collect());
                divided.into_iter().for_each(|part| overlay.append(part));
            }
            Self::Unpublished(file) => work((0..parts).map(|_| Target::Unpublished(file)).collect()),
            target @ Self::Published(..) => work(vec![target]),
        }
    }
}

impl Buffer<'_> {
    /// Asks for the cache line of a bucket.
    #[inline]
    pub(super) fn prefetch(self, region: RegionId, bucket: BucketId) {
        match self {
            Self::Published(store) => store.pages.prefetch(region, bucket.0),
            Self::Unpublished(file) => file.prefetch(region, bucket.0),
        }
    }
}

/// The changes that a view of a published region sees.
pub(super) trait Changes {
    fn get(&self, region: RegionId, bucket: BucketId) -> Option<u64>;
}

/// Those that it can add to.
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

/// Of the region alone that the view is of.
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

/// One region as the transaction sees it; `C` says whether it may be changed.
pub(super) enum RegionView<'a, C> {
    Published(&'a Store, RegionId, C),
    Unpublished(&'a Unpublished, RegionId),
}

impl<W: Width, C: Changes> Buckets<W> for RegionView<'_, C> {
    type Error = Error;

    #[inline]
    fn load(&mut self, bucket: BucketId) -> Result<Bucket<W>> {
        Ok(Bucket::new(match self {
            Self::Published(store, region, changes) => match changes.get(*region, bucket) {
                Some(word) => word,
                None => store.pages.bucket(*region, bucket.0)?,
            },
            Self::Unpublished(file, region) => file.bucket(*region, bucket.0),
        }))
    }
}

impl<W: Width, C: ChangesMut> BucketsMut<W> for RegionView<'_, C> {
    #[inline]
    fn store(&mut self, id: BucketId, bucket: Bucket<W>) {
        match self {
            Self::Published(_, region, changes) => changes.set(*region, id, bucket.0),
            Self::Unpublished(file, region) => file.set_bucket(*region, id.0, bucket.0),
        }
    }
}
