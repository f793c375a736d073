//! The superblock: from raw bytes to one that can be trusted, and back.

use std::io;
use std::path::Path;

use zerocopy::little_endian::{F64, U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::layout::{
    Geometry, KNOWN_FEATURES, LIVE, LIVE_COUNTERS, LIVE_METADATA_LENGTH, MAGIC, MAX_NUMBER, METADATA_AT,
    METADATA_LIMIT, SLOT_BYTES, SLOT_CRC_AT, SUPERBLOCK, VERSION,
};
use super::metadata::Metadata;
use crate::cuckoo::{Counts, HashKind, KeyHasher, MAX_REGIONS, SlotsPerBucket, TAIL_LENGTHS};
use crate::error::{Error, Expected, Result};

/// Whether a filter may double itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Growth {
    /// Never: an insert that finds no room fails with [`Error::Full`].
    Never,
    /// When an insert finds no room and the load is high enough.
    #[default]
    Auto,
}

/// What is fixed when a filter is created, and changes at most by doubling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    pub(crate) uuid: [u8; 16],
    pub(crate) hasher: KeyHasher,
    pub(crate) geometry: Geometry,
}

/// What the filter was asked to be, kept through doublings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Policy {
    pub(crate) growth: Growth,
    /// Bytes; 0 is no limit.
    pub(crate) max_file_size: u64,
    /// The rate asked for at creation; 0 if slots were.
    pub(crate) requested_rate: f64,
    /// The expected rate that the filter may have when doubled and full again; 0 is no limit.
    pub(crate) max_rate: f64,
    /// Keys asked for at creation.
    pub(crate) capacity: u64,
}

/// A superblock, every field checked.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Superblock {
    /// Higher in the newer of the two slots.
    pub(crate) id: u64,
    pub(crate) identity: Identity,
    pub(crate) policy: Policy,
    /// The last commit that the data holds for certain.
    pub(crate) commit: u64,
    /// The salt of the journal that continues from there.
    pub(crate) salt: u64,
    pub(crate) counts: Counts,
    pub(crate) metadata: Metadata,
}

/// The counters as stored, in a superblock and in a COMMIT frame alike.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(crate) struct RawCounts {
    inserted: U64,
    removed: U64,
    unrecorded: U64,
    universal: U64,
    by_tail: [U64; TAIL_LENGTHS],
}
const _: () = assert!(size_of::<RawCounts>() == 288);

impl From<Counts> for RawCounts {
    fn from(counts: Counts) -> Self {
        Self {
            inserted: counts.inserted.into(),
            removed: counts.removed.into(),
            unrecorded: counts.unrecorded.into(),
            universal: counts.universal.into(),
            by_tail: counts.by_tail.map(U64::from),
        }
    }
}

impl From<RawCounts> for Counts {
    fn from(raw: RawCounts) -> Self {
        Self {
            inserted: raw.inserted.get(),
            removed: raw.removed.get(),
            unrecorded: raw.unrecorded.get(),
            universal: raw.universal.get(),
            by_tail: raw.by_tail.map(U64::get),
        }
    }
}

/// The first 512 bytes of a superblock slot.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct RawSuperblock {
    pub(super) magic: [u8; 8],
    pub(super) major: U16,
    pub(super) minor: U16,
    reserved_0: U32,
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
    reserved_1: [u8; 16],
    pub(super) commit: U64,
    pub(super) salt: U64,
    pub(super) counts: RawCounts,
    pub(super) metadata_length: U32,
    reserved_2: [u8; 12],
}
const _: () = {
    assert!(size_of::<RawSuperblock>() == 512);
    assert!(std::mem::offset_of!(RawSuperblock, id) == 40);
    assert!(std::mem::offset_of!(RawSuperblock, canary) == 80);
    assert!(std::mem::offset_of!(RawSuperblock, live) == 112);
    assert!(std::mem::offset_of!(RawSuperblock, capacity) == 168);
    assert!(std::mem::offset_of!(RawSuperblock, commit) == 192);
    assert!(std::mem::offset_of!(RawSuperblock, counts) == 208);
    assert!(std::mem::offset_of!(RawSuperblock, metadata_length) == 496);
    assert!(METADATA_AT + METADATA_LIMIT <= SLOT_CRC_AT);
    assert!(LIVE_COUNTERS + 8 + size_of::<RawCounts>() as u64 == LIVE_METADATA_LENGTH);
};

/// The two slots of a file as read, not yet believed.
pub(crate) struct RawSuperblocks {
    slots: [Vec<u8>; 2],
    file_length: u64,
    /// Why a slot could not be read.
    unreadable: Option<io::Error>,
}

/// What a file's superblocks say.
#[derive(Debug)]
pub(crate) struct Superblocks {
    /// The newest valid one.
    pub(crate) newest: Superblock,
    /// Which slot that is, 0 or 1.
    pub(crate) slot: usize,
    /// The other slot is not valid.
    pub(crate) other_damaged: bool,
    /// A feature is in use that readers may ignore and writers may not.
    pub(crate) read_only_features: u64,
}

impl RawSuperblocks {
    /// From a file of that length. The slots are read apart: one that cannot be read is damaged, and the other serves.
    pub(crate) fn read(file_length: u64, read: impl Fn(&mut [u8], u64) -> io::Result<()>) -> Self {
        let mut raw = Self { slots: Default::default(), file_length, unreadable: None };
        for (offset, slot) in (0..).step_by(SLOT_BYTES).zip(&mut raw.slots) {
            slot.resize(file_length.saturating_sub(offset).min(SUPERBLOCK) as usize, 0);
            if let Err(error) = read(slot, offset) {
                slot.clear();
                raw.unreadable = Some(error);
            }
        }
        raw
    }

    /// Consumes the raw bytes: nothing of them is used unless everything holds.
    pub(crate) fn check(mut self, path: &Path) -> Result<Superblocks> {
        let unreadable = self.unreadable.take();
        let [a, b] = [Sealed::new(&self.slots[0]), Sealed::new(&self.slots[1])];
        let (slot, newest, other) = match (&a, &b) {
            (Some(a), Some(b)) if a.raw.id.get() >= b.raw.id.get() => (0, a, Some(b)),
            (Some(a), None) => (0, a, None),
            (_, Some(b)) => (1, b, a.as_ref()),
            (None, None) => {
                return Err(match unreadable {
                    Some(source) => Error::Io { path: path.to_owned(), op: "read", source },
                    None => self.neither(path),
                });
            }
        };
        let read_only_features = newest.check_version(path)?;
        let checked = newest.check(path)?;
        if let Some(other) = other {
            other.check_version(path)?;
            other.check(path)?;
            newest.check_agreement(other, path)?;
        }
        let expected = checked.identity.geometry.file_length();
        if self.file_length != expected {
            return Err(Error::Length { path: path.to_owned(), expected, found: self.file_length });
        }
        Ok(Superblocks { newest: checked, slot, other_damaged: other.is_none(), read_only_features })
    }

    /// Why there is no valid slot.
    fn neither(&self, path: &Path) -> Error {
        let path = path.to_owned();
        let mut claims = self.slots.iter().filter(|slot| slot.starts_with(&MAGIC)).peekable();
        if claims.peek().is_none() {
            return Error::NotGowk { path };
        }
        if self.file_length < 2 * SUPERBLOCK {
            return Error::Length { path, expected: 2 * SUPERBLOCK, found: self.file_length };
        }
        let claims: Vec<RawSuperblock> =
            claims.filter_map(|slot| Some(RawSuperblock::read_from_prefix(slot).ok()?.0)).collect();
        match claims.first() {
            // A later version may seal its superblocks otherwise; without a valid seal, all must agree.
            Some(raw)
                if raw.major.get() > VERSION.0 && claims.iter().all(|other| other.major == raw.major) =>
            {
                Error::Version { path, found: (raw.major.get(), raw.minor.get()), supported: VERSION }
            }
            _ => Error::Superblocks { path },
        }
    }
}

/// A slot whose magic and CRC are right.
struct Sealed<'a> {
    raw: RawSuperblock,
    bytes: &'a [u8],
}

impl<'a> Sealed<'a> {
    fn new(bytes: &'a [u8]) -> Option<Self> {
        let (body, crc) = bytes.split_at_checked(SLOT_CRC_AT)?;
        let sealed = U32::read_from_bytes(crc).ok()? == crc32fast::hash(body);
        let raw = RawSuperblock::read_from_prefix(bytes).ok()?.0;
        (sealed && raw.magic == MAGIC).then_some(Self { raw, bytes })
    }

    /// The unknown features that forbid writing.
    fn check_version(&self, path: &Path) -> Result<u64> {
        let found = (self.raw.major.get(), self.raw.minor.get());
        if found.0 != VERSION.0 {
            return Err(Error::Version { path: path.to_owned(), found, supported: VERSION });
        }
        let bits = self.raw.incompatible.get() & !KNOWN_FEATURES;
        if bits != 0 {
            return Err(Error::Features { path: path.to_owned(), bits, access: "reading" });
        }
        Ok(self.raw.read_only_compatible.get() & !KNOWN_FEATURES)
    }

    /// What the two slots of one file have in common, and what they must not.
    fn check_agreement(&self, other: &Self, path: &Path) -> Result<()> {
        let (ours, theirs) = (&self.raw, &other.raw);
        // Of the long number its first half is shown.
        let uuid = u128::from_le_bytes(ours.uuid) as u64;
        let common = [
            ("uuid", ours.uuid == theirs.uuid, uuid),
            ("seed", ours.seed == theirs.seed, ours.seed.get()),
            ("hash id", ours.hash_id == theirs.hash_id, ours.hash_id.get().into()),
            ("n", ours.slots == theirs.slots, ours.slots.get().into()),
            ("g", ours.generation == theirs.generation, ours.generation.get().into()),
            ("n0", ours.base_regions == theirs.base_regions, ours.base_regions.get()),
        ];
        for (name, agrees, found) in common {
            if !agrees {
                return Err(field(path, name, found, Expected::Words("the same in both superblocks")));
            }
        }
        if ours.id == theirs.id {
            let expected = Expected::Words("another in each superblock");
            return Err(field(path, "id", ours.id.get(), expected));
        }
        Ok(())
    }

    fn check(&self, path: &Path) -> Result<Superblock> {
        let raw = &self.raw;
        let geometry = self.check_geometry(path)?;
        for (name, found) in [("id", raw.id), ("commit", raw.commit)] {
            if found.get() > MAX_NUMBER {
                return Err(field(path, name, found.get(), Expected::Between(0, MAX_NUMBER)));
            }
        }
        let kind = match raw.hash_id.get() {
            0 => HashKind::Caller,
            1 => HashKind::Xxh3,
            found => return Err(field(path, "hash id", found.into(), Expected::Between(0, 1))),
        };
        let hasher = KeyHasher::new(kind, raw.seed.get());
        if hasher.canary() != raw.canary.get() {
            return Err(Error::HashMismatch { path: path.to_owned() });
        }
        let growth = match raw.growth.get() {
            0 => Growth::Never,
            1 => Growth::Auto,
            found => return Err(field(path, "growth", found.into(), Expected::Between(0, 1))),
        };
        for (name, rate) in [("requested rate", raw.requested_rate), ("maximal rate", raw.max_rate)] {
            if !(0.0..=1.0).contains(&rate.get()) {
                return Err(field(path, name, rate.get().to_bits(), Expected::Words("a number from 0 to 1")));
            }
        }
        let counts = Counts::from(raw.counts);
        check_counts(path, &counts, geometry)?;
        let metadata = self.check_rest(path)?;
        Ok(Superblock {
            id: raw.id.get(),
            identity: Identity { uuid: raw.uuid, hasher, geometry },
            policy: Policy {
                growth,
                max_file_size: raw.max_file_size.get(),
                requested_rate: raw.requested_rate.get(),
                max_rate: raw.max_rate.get(),
                capacity: raw.capacity.get(),
            },
            commit: raw.commit.get(),
            salt: raw.salt.get(),
            counts,
            metadata,
        })
    }

    fn check_geometry(&self, path: &Path) -> Result<Geometry> {
        let raw = &self.raw;
        let slots = SlotsPerBucket::new(raw.slots.get())
            .ok_or_else(|| field(path, "n", raw.slots.get().into(), Expected::Between(2, 7)))?;
        let (base_regions, generation) = (raw.base_regions.get(), raw.generation.get());
        if base_regions == 0 || base_regions > MAX_REGIONS {
            return Err(field(path, "n0", base_regions, Expected::Between(1, MAX_REGIONS)));
        }
        let most = (MAX_REGIONS / base_regions).ilog2();
        if generation > most {
            return Err(field(path, "g", generation.into(), Expected::Between(0, most.into())));
        }
        let geometry = Geometry { slots, base_regions, generation };
        for (name, found, expected) in [
            ("live", raw.live, LIVE),
            ("sums", raw.sums, geometry.sums()),
            ("data", raw.data, geometry.data()),
            ("file length", raw.file_length, geometry.file_length()),
        ] {
            if found != expected {
                return Err(field(path, name, found.get(), Expected::Exactly(expected)));
            }
        }
        Ok(geometry)
    }

    /// The metadata; and the reserved bytes, unless a later minor version may have given them a meaning.
    fn check_rest(&self, path: &Path) -> Result<Metadata> {
        let length = self.raw.metadata_length.get() as usize;
        if length > METADATA_LIMIT {
            let expected = Expected::Between(0, METADATA_LIMIT as u64);
            return Err(field(path, "metadata length", length as u64, expected));
        }
        let end = METADATA_AT + length;
        let metadata = Metadata::decode(path, self.bytes.get(METADATA_AT..end).unwrap_or_default())?;
        if self.raw.minor.get() <= VERSION.1 {
            let raw = &self.raw;
            let heads: [&[u8]; 3] = [raw.reserved_0.as_bytes(), &raw.reserved_1, &raw.reserved_2];
            let tails = [size_of::<RawSuperblock>()..METADATA_AT, end..SLOT_CRC_AT];
            let tails = tails.map(|range| self.bytes.get(range).unwrap_or_default());
            // All bytes at once, which is many times faster than one by one: each opening comes here twice.
            let any = |bytes: &&&[u8]| bytes.iter().fold(0, |any, byte| any | byte) != 0;
            let wrong = heads.iter().chain(&tails).filter(any);
            if let Some(found) = wrong.flat_map(|bytes| *bytes).find(|byte| **byte != 0) {
                return Err(field(path, "reserved", u64::from(*found), Expected::Exactly(0)));
            }
        }
        Ok(metadata)
    }
}

/// Counters must fit the slots there are: an entry or universal slot fills one.
pub(crate) fn check_counts(path: &Path, counts: &Counts, geometry: Geometry) -> Result<()> {
    let longest = geometry.slots.fresh_tail_bits() as usize;
    if let Some(found) = counts.by_tail.iter().skip(longest + 1).find(|count| **count != 0) {
        return Err(field(path, "entries by tail length", *found, Expected::Exactly(0)));
    }
    let filled = counts.entries().saturating_add(counts.universal);
    let slots = geometry.slots_in_all();
    if filled > slots {
        return Err(field(path, "entries", filled, Expected::Between(0, slots)));
    }
    Ok(())
}

fn field(path: &Path, field: &'static str, found: u64, expected: Expected) -> Error {
    Error::Field { path: path.to_owned(), field, found, expected }
}

impl Superblock {
    /// The bytes of a whole slot, sealed.
    pub(crate) fn encode(&self, path: &Path) -> Result<Vec<u8>> {
        let Identity { uuid, hasher, geometry } = self.identity;
        let metadata = self.metadata.encode(path)?;
        let raw = RawSuperblock {
            magic: MAGIC,
            major: VERSION.0.into(),
            minor: VERSION.1.into(),
            reserved_0: U32::ZERO,
            incompatible: U64::ZERO,
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
            slots: geometry.slots.get().into(),
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
            reserved_1: [0; 16],
            commit: self.commit.into(),
            salt: self.salt.into(),
            counts: self.counts.into(),
            metadata_length: (metadata.len() as u32).into(),
            reserved_2: [0; 12],
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
