//! Every byte that gowk stores: where it lies, what it means, and how it is checked before use.
//! `format-spec/README.md` specifies the bytes; tests compare the numbers here with its tables.
//!
//! Uses [`cuckoo`](crate::cuckoo), and touches no file.
//!
//! Invariants:
//!
//! 1. Bytes as read and values that were checked have different types. Checking consumes the bytes, so that no byte of a
//!    file is used unchecked.
//! 2. No bytes make this code panic, not even an attacker's.
//! 3. Only this wing has numeric offsets and lengths of the format; anywhere else they are a defect.

mod checks;
pub(crate) mod frame;
mod layout;
mod metadata;
mod page;
mod superblock;

pub(crate) use checks::{RawSuperblocks, Superblocks, check_counts};
pub(crate) use layout::{
    BUCKETS_PER_PAGE, Geometry, LIVE, LIVE_COPY, LIVE_COUNTERS, LIVE_EPOCH, LIVE_FLAGS, LIVE_METADATA,
    LIVE_METADATA_LENGTH, LIVE_NOW, LIVE_SEQUENCES, LIVE_STATE, MAGIC, METADATA_LIMIT, PAGE,
    PAGES_PER_REGION, PageId, REGION, STATE_IDLE, STATE_IN_USE, SUPERBLOCK, VERSION,
};
pub use metadata::Metadata;
pub use page::DamagedPage;
pub(crate) use page::{Page, Sealer, tally};
pub use superblock::Growth;
pub(crate) use superblock::{GENERATION_AT, Identity, Policy, RawCounts, Superblock, UUID_AT, kind_code};

#[cfg(test)]
pub(crate) mod tests;
