//! Every byte that gowk stores: where it lies, what it means, and the way from bytes to something that can be
//! trusted. `format-spec/README.md` is its home; tests compare the numbers here with its tables.
//!
//! Uses [`cuckoo`](crate::cuckoo), and touches no file.
//!
//! Invariants:
//!
//! 1. Raw structures are what the bytes say. What is left once every field was checked is another type, and checking
//!    consumes the raw one: no byte of a file is used before.
//! 2. No bytes, however made, make this code panic.
//! 3. A numeric offset or length of the format outside of this wing is a defect.

pub(crate) mod frame;
mod layout;
mod metadata;
mod page;
mod superblock;

pub(crate) use layout::{
    BUCKETS_PER_PAGE, Geometry, LIVE, LIVE_COPY, LIVE_COUNTERS, LIVE_EPOCH, LIVE_FLAGS, LIVE_METADATA,
    LIVE_METADATA_LENGTH, LIVE_SEQUENCES, LIVE_STATE, MAGIC, METADATA_LIMIT, PAGE, PAGES_PER_REGION, PageId,
    REGION, STATE_IDLE, STATE_IN_USE, SUPERBLOCK, VERSION,
};
pub use metadata::Metadata;
pub use page::DamagedPage;
pub(crate) use page::{Page, Sealer, tally};
pub use superblock::Growth;
pub(crate) use superblock::{
    Identity, Policy, RawCounts, RawSuperblocks, Superblock, Superblocks, check_counts,
};

#[cfg(test)]
pub(crate) mod tests;
