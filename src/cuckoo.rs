//! The cuckoo filter itself, as arithmetic on numbers: from a key's bytes to a region, a bucket and a fingerprint,
//! and what a region does with them.
//!
//! Uses no other wing: it knows no files, no memory maps, and of the format only the widths of slots. Implementors of
//! [`Buckets`] decide where the buckets lie.
//!
//! Invariants (`format-spec/README.md`, sections 3 and 4):
//!
//! 1. An entry is in one of two buckets of one region. Its tag and the bucket that it is in give the other bucket.
//! 2. An insert that fails changes nothing. An insert that succeeds moves entries only between their two buckets.
//! 3. A removal takes the longest entry that matches. So every other key that was inserted stays present.

mod bucket;
mod counts;
mod displacement;
pub(crate) mod forgetting;
mod group;
mod hash;
mod key;
mod key_rules;
mod kind;
mod merge;
mod offset;
mod pair;
pub(crate) mod region;
mod search;
mod shard;
mod sharing;
mod shrink;
mod sizing;
mod split;
mod widths;

pub(crate) use bucket::{BUCKETS_PER_REGION, Bucket, BucketId, Buckets, BucketsMut, Place, Slot};
pub(crate) use counts::{Counts, Delta, FIRST_EPOCH};
pub(crate) use forgetting::{EpochClock, Expiries, Forgetting, Kept, MAX_EPOCH};
pub use forgetting::{Expiry, Newest, Retention};
#[cfg(test)]
pub(crate) use hash::CANARY_KEY;
pub use hash::{HashKind, KeyHash, Seed};
pub(crate) use hash::{KeyHasher, MAX_REGIONS, RegionId};
pub use key::Key;
pub use key_rules::{Case, KeyRules};
pub use kind::Kind;
pub(crate) use merge::{Taking, take_region};
pub(crate) use offset::OFFSET_T6;
#[cfg(test)]
pub(crate) use offset::OFFSET_T10;
pub(crate) use region::Inserted;
pub(crate) use search::Search;
pub(crate) use shard::{Shard, Span};
pub(crate) use shrink::halve;
pub(crate) use split::{correct_counts, each_descendant, mark, split};
pub use widths::SlotsPerBucket;
pub(crate) use widths::{
    AnyWidth, Five, Four, Four2, Four3, Seven, Shape, Six, TAIL_LENGTHS, Three, Three4, Two, Two4, Unmarked,
    Width, with_any_width, with_width,
};
