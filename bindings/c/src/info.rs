//! Descriptions of filters.

use core::{Info, Kind};

use crate::error::{Failure, Outcome};

/// A filter as of its last commit; of a writer, with its open transaction.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct gowk_info {
    /// GOWK_SET, GOWK_COUNTING or GOWK_FORGETTING.
    pub kind: u32,
    /// How often it has doubled.
    pub generation: u32,
    /// Keys that it was created for.
    pub capacity: u64,
    /// Copies of all keys: inserted minus removed. In a set, the stored keys.
    pub copies: u64,
    /// Slots that hold an entry: one for each distinct key, or more.
    pub entries: u64,
    /// Slots of all buckets.
    pub slots: u64,
    /// Buckets that a repair has filled with slots that match everything.
    pub quarantined_buckets: u64,
    /// Bytes of the file.
    pub file_length: u64,
    /// Bytes of commits in the journal.
    pub journal_length: u64,
    /// The number of the last commit.
    pub commit: u64,
    /// Slots in use, divided by all slots: 0 to 1.
    pub load: f64,
    /// The chance that a key never inserted is found now.
    pub false_positive_rate: f64,
    /// A random number given at creation, which identifies the filter.
    pub uuid: [u8; 16],
    /// Zeros. Later versions may use them.
    pub reserved: [u64; 8],
}

/// A filter that keeps each key once, for good.
pub const GOWK_SET: u32 = 0;
/// A filter that counts copies of keys, and can remove them.
pub const GOWK_COUNTING: u32 = 1;
/// A filter that keeps each key for some time.
pub const GOWK_FORGETTING: u32 = 2;

/// Writes a filter's description.
///
/// # Safety
///
/// Unless it is NULL, there is room at `into`.
pub(crate) unsafe fn put(into: *mut gowk_info, info: &Info) -> Outcome {
    if into.is_null() {
        return Err(Failure::invalid("the place for the description is NULL"));
    }
    let kind = match info.kind {
        Kind::Set => GOWK_SET,
        Kind::Counting => GOWK_COUNTING,
        Kind::Forgetting => GOWK_FORGETTING,
        other => return Err(Failure::invalid(format!("a {other} is of no kind that this interface knows"))),
    };
    let found = gowk_info {
        kind,
        generation: info.generation,
        capacity: info.capacity,
        copies: info.copies,
        entries: info.entries,
        slots: info.slots,
        quarantined_buckets: info.quarantined_buckets,
        file_length: info.file_length,
        journal_length: info.journal_length,
        commit: info.commit,
        load: info.load,
        false_positive_rate: info.expected_false_positive_rate,
        uuid: info.uuid,
        reserved: [0; 8],
    };
    // SAFETY: promised by the caller.
    unsafe { into.write(found) };
    Ok(0)
}
