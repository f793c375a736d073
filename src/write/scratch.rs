//! One region of a published file, unpacked, with the open transaction's changes: for inserting many keys.

use std::convert::Infallible;

use crate::cuckoo::{BUCKETS_PER_REGION, Bucket, BucketId, Buckets, BucketsMut, RegionId, Width};
use crate::error::Result;
use crate::file::{PublishedFile, RegionBits, RegionChange};

pub(super) struct Scratch {
    words: Box<[u64; BUCKETS_PER_REGION as usize]>,
    /// One bit for each bucket: whether it differs from the file.
    changed: RegionBits,
}

impl Scratch {
    pub(super) fn new() -> Self {
        Self { words: Box::new([0; _]), changed: [0; _] }
    }

    /// Reads a region and adds the changes. Fails if a page of the region is damaged.
    pub(super) fn unpack(
        &mut self,
        published: &PublishedFile,
        region: RegionId,
        change: &RegionChange,
    ) -> Result<()> {
        published.read_region(region, Some(change), &mut self.words)?;
        self.changed = change.changed();
        Ok(())
    }

    /// Writes the changes back into `change`.
    pub(super) fn pack(&self, change: &mut RegionChange) {
        change.replace(&self.changed, &self.words);
    }
}

impl<W: Width> Buckets<W> for Scratch {
    type Error = Infallible;

    #[inline]
    fn load(&mut self, id: BucketId) -> Result<Bucket<W>, Infallible> {
        Ok(Bucket::new(self.words[usize::from(id.0)]))
    }
}

impl<W: Width> BucketsMut<W> for Scratch {
    #[inline]
    fn store(&mut self, id: BucketId, bucket: Bucket<W>) {
        self.words[usize::from(id.0)] = bucket.0;
        self.changed[usize::from(id.0) / 64] |= 1 << (id.0 % 64);
    }
}
