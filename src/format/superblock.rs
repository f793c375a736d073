//! The superblock: its bytes, what they mean, and how they are written. [`checks`](super::checks) turns bytes as read
//! into a superblock.

use std::path::Path;

use zerocopy::little_endian::{F64, U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::layout::{
    FORGETTING, Geometry, LIVE, LIVE_COUNTERS, LIVE_METADATA_LENGTH, MAGIC, METADATA_AT, METADATA_LIMIT,
    SLOT_BYTES, SLOT_CRC_AT, UNMARKED, VERSION,
};
use super::metadata::Metadata;
use crate::cuckoo::{Counts, EpochClock, Forgetting, HashKind, KeyHasher, Kind, TAIL_LENGTHS};
use crate::error::{Error, Result};

/// Whether a filter may double itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Growth {
    /// Never: an insert that finds no room fails with [`Error::Full`](crate::Error::Full).
    ///
    /// A full counting filter searches long for room: an insert that failed took 1.3 to 7 ms on average, and 10 ms at
    /// most (2 to 7 slots, a Xeon at 2.1 GHz, default `max_kicks`). So stop at the first such error if many keys may
    /// follow.
    Never,
    /// When an insert finds no room and the load is high enough.
    #[default]
    Auto,
}

/// The fields that are fixed when a filter is created; only doubling and halving change them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    pub(crate) uuid: [u8; 16],
    pub(crate) kind: Kind,
    pub(crate) hasher: KeyHasher,
    pub(crate) geometry: Geometry,
    /// `None` in filters that do not forget.
    pub(crate) forgetting: Option<Forgetting>,
}

impl Identity {
    /// [`Error::Newest`] if the filter keeps the newest keys.
    pub(crate) fn keeps_no_newest(&self, path: &Path, op: &'static str) -> Result<()> {
        match self.forgetting {
            Some(Forgetting { clock: EpochClock::Keys, .. }) => {
                Err(Error::Newest { path: path.to_owned(), op })
            }
            _ => Ok(()),
        }
    }
}

/// The limits and targets set at creation. Doublings keep them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Policy {
    pub(crate) growth: Growth,
    /// Bytes; 0 is no limit.
    pub(crate) max_file_size: u64,
    /// The rate requested at creation; 0 if slots per bucket were given instead.
    pub(crate) requested_rate: f64,
    /// The highest expected rate that the filter may have once doubled and full again; 0 is no limit.
    pub(crate) max_rate: f64,
    /// The number of keys requested at creation.
    pub(crate) capacity: u64,
}

/// A superblock with every field checked.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Superblock {
    /// Higher in the newer of the two slots.
    pub(crate) id: u64,
    pub(crate) identity: Identity,
    pub(crate) policy: Policy,
    /// The last commit that the regions certainly hold.
    pub(crate) commit: u64,
    /// The salt of the journal that continues from this commit.
    pub(crate) salt: u64,
    pub(crate) counts: Counts,
    pub(crate) metadata: Metadata,
}

/// The counters as stored, both in a superblock and in a COMMIT frame.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(crate) struct RawCounts {
    inserted: U64,
    removed: U64,
    universal: U64,
    digits: U64,
    saturated: U64,
    by_tail: [U64; TAIL_LENGTHS],
    epoch: U64,
    swept: U64,
    reserved: [U64; 7],
}
const _: () = assert!(size_of::<RawCounts>() == 296);

impl From<Counts> for RawCounts {
    fn from(counts: Counts) -> Self {
        Self {
            inserted: counts.inserted.into(),
            removed: counts.removed.into(),
            universal: counts.universal.into(),
            digits: counts.digits.into(),
            saturated: counts.saturated.into(),
            by_tail: counts.by_tail.map(U64::from),
            epoch: counts.epoch.into(),
            swept: counts.swept.into(),
            reserved: [U64::ZERO; 7],
        }
    }
}

impl From<RawCounts> for Counts {
    fn from(raw: RawCounts) -> Self {
        Self {
            inserted: raw.inserted.get(),
            removed: raw.removed.get(),
            universal: raw.universal.get(),
            digits: raw.digits.get(),
            saturated: raw.saturated.get(),
            by_tail: raw.by_tail.map(U64::get),
            epoch: raw.epoch.get(),
            swept: raw.swept.get(),
            beyond: raw.reserved.iter().fold(0, |all, word| all | word.get()),
        }
    }
}

/// The first 544 bytes of a superblock slot, as they are on the disk.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct RawSuperblock {
    pub(super) magic: [u8; 8],
    pub(super) major: U16,
    pub(super) minor: U16,
    pub(super) kind: U32,
    pub(super) incompatible: U64,
    pub(super) read_only_compatible: U64,
    pub(super) compatible: U64,
    pub(super) id: U64,
    pub(super) uuid: [u8; 16],
    pub(super) seed: U64,
    pub(super) hash_id: U32,
    pub(super) slots: U32,
    pub(super) canary: U128,
    pub(super) base_regions: U64,
    pub(super) generation: U32,
    pub(super) growth: U32,
    pub(super) live: U64,
    pub(super) sums: U64,
    pub(super) data: U64,
    pub(super) file_length: U64,
    pub(super) max_file_size: U64,
    pub(super) requested_rate: F64,
    pub(super) max_rate: F64,
    pub(super) capacity: U64,
    pub(super) shards: U64,
    pub(super) shard: U64,
    pub(super) commit: U64,
    pub(super) salt: U64,
    pub(super) counts: RawCounts,
    pub(super) metadata_length: U32,
    pub(super) reserved_0: [u8; 4],
    pub(super) forget_after: U64,
    pub(super) epoch_length: U64,
    pub(super) expiry_bits: U32,
    pub(super) refresh: U32,
    pub(super) clock: U32,
    pub(super) reserved_1: [u8; 4],
}
/// The offset of the numbers in a slot that distinguish a file from another that was written over it.
pub(crate) const UUID_AT: u64 = std::mem::offset_of!(RawSuperblock, uuid) as u64;
pub(crate) const GENERATION_AT: u64 = std::mem::offset_of!(RawSuperblock, generation) as u64;

const _: () = {
    assert!(size_of::<RawSuperblock>() == 544);
    assert!(std::mem::offset_of!(RawSuperblock, id) == 40);
    assert!(std::mem::offset_of!(RawSuperblock, canary) == 80);
    assert!(std::mem::offset_of!(RawSuperblock, live) == 112);
    assert!(std::mem::offset_of!(RawSuperblock, capacity) == 168);
    assert!(std::mem::offset_of!(RawSuperblock, commit) == 192);
    assert!(std::mem::offset_of!(RawSuperblock, counts) == 208);
    assert!(std::mem::offset_of!(RawSuperblock, metadata_length) == 504);
    assert!(METADATA_AT + METADATA_LIMIT <= SLOT_CRC_AT);
    assert!(LIVE_COUNTERS + 8 + size_of::<RawCounts>() as u64 == LIVE_METADATA_LENGTH);
};

/// The number of a kind in a superblock.
pub(crate) const fn kind_code(kind: Kind) -> u32 {
    match kind {
        Kind::Set => 0,
        Kind::Counting => 1,
        Kind::Forgetting => 2,
    }
}

impl Superblock {
    /// The bytes of a whole slot, sealed.
    pub(crate) fn encode(&self, path: &Path) -> Result<Vec<u8>> {
        let Identity { uuid, kind, hasher, geometry, forgetting } = self.identity;
        let metadata = self.metadata.encode(path)?;
        let raw = RawSuperblock {
            magic: MAGIC,
            major: VERSION.0.into(),
            minor: VERSION.1.into(),
            kind: kind_code(kind).into(),
            incompatible: (if forgetting.is_some() { FORGETTING } else { 0 }
                | if geometry.width.is_marked { 0 } else { UNMARKED })
            .into(),
            read_only_compatible: U64::ZERO,
            compatible: U64::ZERO,
            id: self.id.into(),
            uuid,
            seed: hasher.seed.into(),
            hash_id: match hasher.kind {
                HashKind::Caller => 0,
                HashKind::Xxh3 => 1,
            }
            .into(),
            slots: geometry.slots().get().into(),
            canary: hasher.canary().into(),
            base_regions: geometry.base_regions.into(),
            generation: geometry.generation.into(),
            growth: match self.policy.growth {
                Growth::Never => 0,
                Growth::Auto => 1,
            }
            .into(),
            live: LIVE.into(),
            sums: geometry.sums().into(),
            data: geometry.data().into(),
            file_length: geometry.file_length().into(),
            max_file_size: self.policy.max_file_size.into(),
            requested_rate: self.policy.requested_rate.into(),
            max_rate: self.policy.max_rate.into(),
            capacity: self.policy.capacity.into(),
            shards: geometry.shard.of.into(),
            shard: geometry.shard.number.into(),
            commit: self.commit.into(),
            salt: self.salt.into(),
            counts: self.counts.into(),
            metadata_length: (metadata.len() as u32).into(),
            reserved_0: [0; 4],
            forget_after: forgetting.map_or(0, |forgetting| forgetting.after).into(),
            epoch_length: forgetting.map_or(0, |forgetting| forgetting.epoch).into(),
            expiry_bits: geometry.width.expiry_bits().into(),
            refresh: u32::from(forgetting.is_some_and(|forgetting| forgetting.refresh)).into(),
            clock: u32::from(forgetting.is_some_and(|forgetting| forgetting.clock == EpochClock::Keys))
                .into(),
            reserved_1: [0; 4],
        };
        let mut bytes = Vec::with_capacity(SLOT_BYTES);
        bytes.extend_from_slice(raw.as_bytes());
        bytes.resize(METADATA_AT, 0);
        bytes.extend_from_slice(&metadata);
        bytes.resize(SLOT_CRC_AT, 0);
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        Ok(bytes)
    }
}
