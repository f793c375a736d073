//! A run: one sealed file of sorted records, with a commit's changes in all shards (`format-spec/STORE.md`, section
//! 12.1).
//!
//! Invariants:
//!
//! 1. Records ascend by key. The records of a shard are one slice, in the order in which a fold inserts them.
//! 2. A page is compared with its checksum, by a system call, before it is used through the map. So a block that the
//!    medium cannot read is an error.
//! 3. The numbers in a head are used only after a comparison with the file's length.

use std::path::Path;

use super::error::{Error, Result};
use crate::{KeyHash, Kind};

mod read;
mod records;
#[cfg(test)]
mod tests;
mod write;

pub(super) use read::Run;
pub(super) use records::{MergedRecords, Records};
pub(super) use write::RunWriter;

pub(super) const PAGE: usize = 4096;
/// How many bytes of a page precede its checksum.
const BODY: usize = PAGE - 4;
/// How many records a page has.
pub(super) const RECORDS: u64 = 341;
/// The offset of the records' words in a page; their positions come first.
const WORDS: usize = 8 * RECORDS as usize;
/// How many index entries a page has.
const ENTRIES: u64 = 1023;
/// For how many records an index entry stands at most, if they are evenly distributed.
const RECORDS_AN_ENTRY: u64 = 8;
const MAX_INDEX_BITS: u32 = 29;
/// How many records a run has at most.
pub(super) const MAX_RECORDS: u64 = u32::MAX as u64;
/// The highest epoch of any store. Such a store has epochs of one millisecond.
const MAX_EPOCHS: u64 = 1 << 53;
const MAGIC: [u8; 8] = *b"gowkruns";
const FORMAT: u32 = 1;

const _: () = assert!(WORDS + 4 * RECORDS as usize == BODY && 4 * ENTRIES as usize == BODY);

/// How many low bits of `loc` a record stores.
const LOW: u32 = 13;
/// How many high bits of `loc` a record stores.
const HIGH: u32 = 10;
const KEY_BITS: u32 = LOW + HIGH;

/// A key's hash, as far as any filter uses it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(super) struct RecordKey {
    pub(super) position: u64,
    local: u32,
}

impl RecordKey {
    /// `loc` = `0x7433ea640a6093df`: low bits `0x13df`, high bits `0x1d0`, so `0x1d0 << 13 | 0x13df` = `0x3a13df`.
    #[inline]
    pub(super) const fn of(hash: KeyHash) -> Self {
        let (high, low) = (hash.local() >> (64 - HIGH), hash.local() & ((1 << LOW) - 1));
        Self { position: hash.position(), local: (high << LOW | low) as u32 }
    }

    /// A hash that no filter can distinguish from the key's.
    pub(super) const fn hash(self) -> KeyHash {
        let (high, low) = (self.local as u64 >> LOW, self.local as u64 & ((1 << LOW) - 1));
        KeyHash::new((self.position as u128) << 64 | (high << (64 - HIGH) | low) as u128)
    }
}

/// A key and the value of its record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) key: RecordKey,
    /// In a set 1. In a counting store how many copies were inserted, or removed if negative: -256 to 255, and not 0. In
    /// a forgetting store the expiry epoch.
    pub(super) value: i64,
}

/// The most copies that one record can add.
const MOST: i64 = 255;
/// The most copies that one record can remove, as a negative number.
const LEAST: i64 = -256;

/// The most epochs from a run's epoch to the expiry of one of its records.
const MOST_EPOCHS: i64 = 15;

impl Record {
    /// The word of the record in a run of this epoch; the epoch is 0 if the store does not forget.
    const fn word(self, epoch: u64) -> u32 {
        ((self.value - epoch as i64) as u32) << KEY_BITS | self.key.local
    }

    const fn of_word(position: u64, word: u32, epoch: u64) -> Self {
        let key = RecordKey { position, local: word & ((1 << KEY_BITS) - 1) };
        Self { key, value: epoch as i64 + (word as i32 >> KEY_BITS) as i64 }
    }

    const fn fits(self, head: &Head) -> bool {
        match head.kind {
            Kind::Set => self.value == 1,
            Kind::Counting => self.value != 0,
            Kind::Forgetting => {
                let later = self.value - head.epoch as i64;
                later >= 1 && later <= MOST_EPOCHS
            }
        }
    }

    /// The records for inserted copies of a key, or for removed ones if the number is negative.
    pub(super) fn all_of(key: RecordKey, copies: i64) -> impl Iterator<Item = Self> {
        let mut left = copies;
        std::iter::from_fn(move || {
            let copies = left.clamp(LEAST, MOST);
            left -= copies;
            (copies != 0).then_some(Self { key, value: copies })
        })
    }

    /// How many records [`all_of`](Self::all_of) returns.
    pub(super) const fn needed(copies: i64) -> u64 {
        let most = if copies < 0 { -LEAST } else { MOST };
        copies.unsigned_abs().div_ceil(most as u64)
    }
}

/// The head of a run, checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) store: [u8; 16],
    pub(super) uuid: [u8; 16],
    pub(super) records: u64,
    pub(super) kind: Kind,
    /// The epoch of a forgetting store when the run was written; 0 in others.
    pub(super) epoch: u64,
    bits: u32,
}

impl Head {
    /// The fewest bits at which an entry stands for at most [`RECORDS_AN_ENTRY`] records on average, up to
    /// [`MAX_INDEX_BITS`].
    fn index_bits(records: u64) -> u32 {
        let entries = records.div_ceil(RECORDS_AN_ENTRY).next_power_of_two();
        entries.trailing_zeros().min(MAX_INDEX_BITS)
    }

    const fn record_pages(&self) -> u64 {
        self.records.div_ceil(RECORDS)
    }

    const fn entries(&self) -> u64 {
        1 << self.bits
    }

    const fn pages(&self) -> u64 {
        1 + self.record_pages() + self.entries().div_ceil(ENTRIES)
    }

    pub(super) const fn length(&self) -> u64 {
        self.pages() * PAGE as u64
    }

    fn encode(&self) -> [u8; PAGE] {
        let mut page = [0; PAGE];
        let kind: u32 = match self.kind {
            Kind::Set => 0,
            Kind::Counting => 1,
            Kind::Forgetting => 2,
        };
        put(&mut page, 0, &MAGIC);
        put(&mut page, 8, &FORMAT.to_le_bytes());
        put(&mut page, 12, &self.bits.to_le_bytes());
        put(&mut page, 16, &self.store);
        put(&mut page, 32, &self.uuid);
        put(&mut page, 48, &self.records.to_le_bytes());
        put(&mut page, 56, &kind.to_le_bytes());
        put(&mut page, 60, &self.epoch.to_le_bytes());
        seal(&mut page, self.uuid, 0);
        page
    }

    fn decode(path: &Path, page: &[u8; PAGE]) -> Result<Self> {
        let damaged = || Error::Damaged { path: path.to_owned() };
        let wrong = |what, found: String, expected: &str| Error::WrongFile {
            path: path.to_owned(),
            what,
            found,
            expected: expected.to_owned(),
        };
        if get::<8>(page, 0) != MAGIC {
            return Err(damaged());
        }
        let number = |at| u32::from_le_bytes(get(page, at));
        if number(8) != FORMAT {
            let (found, supported) = (number(8).into(), FORMAT.into());
            return Err(Error::Format { path: path.to_owned(), found, supported });
        }
        let uuid = get(page, 32);
        if !is_sealed(page, uuid, 0) {
            return Err(damaged());
        }
        let kind = match number(56) {
            0 => Kind::Set,
            1 => Kind::Counting,
            2 => Kind::Forgetting,
            other => return Err(wrong("kind", other.to_string(), "0 to 2")),
        };
        let epoch = u64::from_le_bytes(get(page, 60));
        if (epoch == 0) == (kind == Kind::Forgetting) || epoch > MAX_EPOCHS {
            return Err(wrong("epoch", epoch.to_string(), "1 to 2^53 in a forgetting store, 0 in others"));
        }
        let (bits, records) = (number(12), u64::from_le_bytes(get(page, 48)));
        if bits > MAX_INDEX_BITS {
            return Err(wrong("number of index bits", bits.to_string(), "0 to 29"));
        }
        if records == 0 || records > MAX_RECORDS {
            return Err(wrong("number of records", records.to_string(), "1 to 2^32 - 1"));
        }
        if page.get(68..BODY).is_none_or(|rest| rest.iter().any(|byte| *byte != 0)) {
            return Err(wrong("head", "another".to_owned(), "zeros from byte 68 on"));
        }
        Ok(Self { store: get(page, 16), uuid, records, kind, epoch, bits })
    }
}

/// Puts bytes into a page, as far as the page has room.
fn put(page: &mut [u8], at: usize, bytes: &[u8]) {
    page.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
}

/// Bytes of a page; zeros past its end.
fn get<const N: usize>(page: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.iter_mut().zip(page.iter().skip(at)).for_each(|(to, from)| *to = *from);
    bytes
}

fn crc(page: &[u8], uuid: [u8; 16], number: u64) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&uuid);
    hasher.update(&number.to_le_bytes());
    hasher.update(page.get(..BODY).unwrap_or_default());
    hasher.finalize()
}

fn seal(page: &mut [u8], uuid: [u8; 16], number: u64) {
    let crc = crc(page, uuid, number);
    put(page, BODY, &crc.to_le_bytes());
}

fn is_sealed(page: &[u8], uuid: [u8; 16], number: u64) -> bool {
    crc(page, uuid, number) == u32::from_le_bytes(get(page, BODY))
}
