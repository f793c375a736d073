//! The traits through which the cuckoo table loads and stores the buckets of a region, wherever they lie.

use super::bucket::{Bucket, BucketId};

/// Buckets of a region; a power of two, whose logarithm is [`Width::INDEX_BITS`].
pub(crate) const BUCKETS_PER_REGION: u32 = 8192;

/// The buckets of one region, to read.
pub(crate) trait Buckets<W> {
    type Error;

    fn load(&mut self, id: BucketId) -> Result<Bucket<W>, Self::Error>;
}

/// The buckets of one region, to change.
pub(crate) trait BucketsMut<W>: Buckets<W> {
    /// Replaces a bucket that was loaded before.
    fn store(&mut self, id: BucketId, bucket: Bucket<W>);
}
