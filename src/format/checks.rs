//! The checks at opening: from the bytes of both superblock slots to one trusted superblock.
//!
//! The order stands in `format-spec/README.md`, section 5.6. The first failure decides. [`RawSuperblocks`] holds the
//! bytes as read. [`RawSuperblocks::check`] consumes it, so that no field is used before all of them are checked.

use std::io;
use std::mem::offset_of;
use std::path::Path;

use zerocopy::FromBytes;
use zerocopy::little_endian::U32;

use super::layout::{
    FORGETTING, Geometry, KNOWN_FEATURES, LIVE, MAGIC, MAX_NUMBER, METADATA_AT, METADATA_LIMIT, OutOfBounds,
    SLOT_BYTES, SLOT_CRC_AT, SUPERBLOCK, UNMARKED, VERSION,
};
use super::metadata::Metadata;
use super::superblock::{Growth, Identity, Policy, RawSuperblock, Superblock};
use crate::cuckoo::{
    AnyWidth, Counts, EpochClock, FIRST_EPOCH, Forgetting, HashKind, KeyHasher, Kind, MAX_EPOCH, Shard,
    SlotsPerBucket,
};
use crate::error::{Error, Expected, Result};

/// The two slots of a file as read, not yet checked.
pub(crate) struct RawSuperblocks {
    slots: [Vec<u8>; 2],
    file_length: u64,
    /// Why a slot could not be read.
    unreadable: Option<io::Error>,
}

/// The checked superblocks of a file.
#[derive(Debug)]
pub(crate) struct Superblocks {
    /// The newest valid superblock.
    pub(crate) newest: Superblock,
    /// The slot of the newest superblock, 0 or 1.
    pub(crate) slot: usize,
    /// Whether the other slot is invalid.
    pub(crate) other_damaged: bool,
    /// Unknown features that readers may ignore and writers must not.
    pub(crate) read_only_features: u64,
}

impl RawSuperblocks {
    /// Reads both slots of a file of this length, each by a call of its own: a slot that cannot be read counts as
    /// damaged, and the other is used.
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

    /// The superblocks, if all checks pass.
    pub(crate) fn check(mut self, path: &Path) -> Result<Superblocks> {
        let unreadable = self.unreadable.take();
        let [a, b] = [Sealed::new(&self.slots[0]), Sealed::new(&self.slots[1])];
        let (slot, newest, other) = match (&a, &b) {
            (Some(a), Some(b)) if a.raw.id.get() >= b.raw.id.get() => (0, a, Some(b)),
            (Some(a), None) => (0, a, None),
            (_, Some(b)) => (1, b, a.as_ref()),
            (None, None) => {
                return Err(match unreadable {
                    Some(source) => Error::io(path, "read", source),
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
            let (path, expected) = (path.to_owned(), Expected::Exactly(expected));
            return Err(Error::Length { path, expected, found: self.file_length });
        }
        Ok(Superblocks { newest: checked, slot, other_damaged: other.is_none(), read_only_features })
    }

    /// Why there is no valid slot.
    fn neither(&self, path: &Path) -> Error {
        let path = path.to_owned();
        let mut claims = self.slots.iter().filter(|slot| slot.starts_with(&MAGIC)).peekable();
        if self.file_length == 0 {
            return Error::Empty { path };
        }
        if claims.peek().is_none() {
            return Error::NotGowk { path };
        }
        if self.file_length < 2 * SUPERBLOCK {
            let expected = Expected::AtLeast(2 * SUPERBLOCK);
            return Error::Length { path, expected, found: self.file_length };
        }
        let claims: Vec<RawSuperblock> =
            claims.filter_map(|slot| Some(RawSuperblock::read_from_prefix(slot).ok()?.0)).collect();
        match claims.first() {
            // A later version may compute its checksums in another way, so no checksum need be right here. Damaged bytes
            // may also look like a later version, so all slots must name the same version.
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

    /// The unknown features that forbid writing. Fails if an unknown version or feature forbids reading.
    fn check_version(&self, path: &Path) -> Result<u64> {
        let found = (self.raw.major.get(), self.raw.minor.get());
        if found.0 != VERSION.0 {
            return Err(Error::Version { path: path.to_owned(), found, supported: VERSION });
        }
        let bits = self.raw.incompatible.get() & !KNOWN_FEATURES;
        if bits != 0 {
            return Err(Error::Features { path: path.to_owned(), bits, access: "reading" });
        }
        Ok(self.raw.read_only_compatible.get())
    }

    /// The two slots of one file describe the same filter, and have different ids.
    fn check_agreement(&self, other: &Self, path: &Path) -> Result<()> {
        let (ours, theirs) = (&self.raw, &other.raw);
        let forgets = ours.incompatible.get() & FORGETTING != 0;
        // The error shows the first half of the uuid, as a field's value has 64 bits.
        let uuid = u128::from_le_bytes(ours.uuid) as u64;
        // Compares half of the canary instead of the seed, which no message may show.
        let canary = ours.canary.get() as u64;
        let common = [
            ("uuid", ours.uuid == theirs.uuid, uuid),
            ("seed", ours.seed == theirs.seed, canary),
            ("hash id", ours.hash_id == theirs.hash_id, ours.hash_id.get().into()),
            ("kind", ours.kind == theirs.kind, ours.kind.get().into()),
            ("incompatible", ours.incompatible == theirs.incompatible, ours.incompatible.get()),
            ("n", ours.slots == theirs.slots, ours.slots.get().into()),
            (
                "expiry bits",
                !forgets || ours.expiry_bits == theirs.expiry_bits,
                ours.expiry_bits.get().into(),
            ),
            ("forget after", !forgets || ours.forget_after == theirs.forget_after, ours.forget_after.get()),
            ("epoch length", !forgets || ours.epoch_length == theirs.epoch_length, ours.epoch_length.get()),
            ("refresh", !forgets || ours.refresh == theirs.refresh, ours.refresh.get().into()),
            ("clock", !forgets || ours.clock == theirs.clock, ours.clock.get().into()),
            ("g", ours.generation == theirs.generation, ours.generation.get().into()),
            ("n0", ours.base_regions == theirs.base_regions, ours.base_regions.get()),
            ("shards", ours.shards == theirs.shards, ours.shards.get()),
            ("shard", ours.shard == theirs.shard, ours.shard.get()),
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
        let hash = match raw.hash_id.get() {
            0 => HashKind::Caller,
            1 => HashKind::Xxh3,
            found => return Err(field(path, "hash id", found.into(), Expected::Between(0, 1))),
        };
        let hasher = KeyHasher::new(hash, raw.seed.get());
        if hasher.canary() != raw.canary.get() {
            return Err(Error::HashMismatch { path: path.to_owned() });
        }
        let kind = match raw.kind.get() {
            0 => Kind::Set,
            1 => Kind::Counting,
            2 if raw.incompatible.get() & FORGETTING != 0 => Kind::Forgetting,
            found => return Err(field(path, "kind", found.into(), Expected::Between(0, 1))),
        };
        let forgetting = self.check_forgetting(kind, geometry.width, path)?;
        if !geometry.width.is_marked && (kind == Kind::Counting || geometry.generation != 0) {
            let expected =
                Expected::Words("the feature of unmarked filters in sets and forgetting filters of g 0");
            return Err(field(path, "incompatible", raw.incompatible.get(), expected));
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
        let identity = Identity { uuid: raw.uuid, kind, hasher, geometry, forgetting };
        check_counts(path, &counts, &identity)?;
        let metadata = self.check_rest(path)?;
        Ok(Superblock {
            id: raw.id.get(),
            identity,
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

    /// Only forgetting filters may have the feature; other kinds reserve the fields of forgetting.
    fn check_forgetting(&self, kind: Kind, width: AnyWidth, path: &Path) -> Result<Option<Forgetting>> {
        let raw = &self.raw;
        let forgets = kind == Kind::Forgetting;
        if (raw.incompatible.get() & FORGETTING != 0) != forgets {
            let expected = Expected::Words("the feature of forgetting filters in these alone");
            return Err(field(path, "incompatible", raw.incompatible.get(), expected));
        }
        if !forgets {
            return Ok(None);
        }
        let (after, epoch, refresh) = (raw.forget_after.get(), raw.epoch_length.get(), raw.refresh.get());
        let clock = if raw.clock.get() == 0 { EpochClock::Time } else { EpochClock::Keys };
        let forgetting = Forgetting { after, epoch, refresh: refresh == 1, clock };
        for (name, found, (low, high)) in [
            ("expiry bits", width.expiry_bits().into(), (2, 4)),
            ("clock", raw.clock.get().into(), (0, 1)),
            ("refresh", refresh.into(), (0, u64::from(clock == EpochClock::Time))),
            ("epoch length", epoch, (1, MAX_EPOCH)),
        ] {
            if !(low..=high).contains(&found) {
                return Err(field(path, name, found, Expected::Between(low, high)));
            }
        }
        if !forgetting.fits(width) {
            let expected =
                Expected::Words("from 1 on, and no more than the whole epochs that an entry lives");
            return Err(field(path, "forget after", after, expected));
        }
        Ok(Some(forgetting))
    }

    fn check_geometry(&self, path: &Path) -> Result<Geometry> {
        let raw = &self.raw;
        let slots = SlotsPerBucket::new(raw.slots.get())
            .ok_or_else(|| field(path, "n", raw.slots.get().into(), Expected::Between(2, 7)))?;
        let (base_regions, generation) = (raw.base_regions.get(), raw.generation.get());
        let shard = Shard { of: raw.shards.get(), number: raw.shard.get() };
        let forgets = raw.incompatible.get() & FORGETTING != 0;
        let width = match raw.expiry_bits.get() {
            _ if !forgets => AnyWidth::from(slots),
            0 => AnyWidth::from(slots),
            bits => AnyWidth::forgetting(slots, bits).ok_or_else(|| {
                field(
                    path,
                    "expiry bits",
                    bits.into(),
                    Expected::Words("those of a forgetting filter of this n"),
                )
            })?,
        };
        let width = AnyWidth { is_marked: raw.incompatible.get() & UNMARKED == 0, ..width };
        let geometry = Geometry::new(width, base_regions, generation, shard)
            .map_err(|OutOfBounds { field: name, found, expected }| field(path, name, found, expected))?;
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

    /// Checks the metadata, and the reserved bytes unless a later minor version may use them.
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
            let forgets = raw.incompatible.get() & FORGETTING != 0;
            let fields =
                if forgets { size_of::<RawSuperblock>() } else { offset_of!(RawSuperblock, forget_after) };
            let rests = [fields..METADATA_AT, end..SLOT_CRC_AT];
            let [before, after] = rests.map(|range| self.bytes.get(range).unwrap_or_default());
            let reserved: [&[u8]; 4] = [&raw.reserved_0, &raw.reserved_1, before, after];
            // Each opening does this twice. A block is compared by one call, which is fast in test builds, too.
            let any = |bytes: &&&[u8]| {
                let (blocks, rest) = bytes.as_chunks::<256>();
                blocks.iter().any(|block| *block != [0; 256]) || rest.iter().any(|byte| *byte != 0)
            };
            let wrong = reserved.iter().filter(any);
            if let Some(found) = wrong.flat_map(|bytes| *bytes).find(|byte| **byte != 0) {
                return Err(field(path, "reserved", u64::from(*found), Expected::Exactly(0)));
            }
        }
        Ok(metadata)
    }
}

/// Counters must fit the slots: each entry, digit and universal slot takes one.
pub(crate) fn check_counts(path: &Path, counts: &Counts, identity: &Identity) -> Result<()> {
    let Identity { kind, geometry, forgetting, .. } = *identity;
    let longest = geometry.width.fresh_tail_bits() as usize;
    let beyond = counts.by_tail.iter().skip(longest + 1).chain([&counts.beyond]);
    // All tails of an unmarked filter are of full length.
    let shorter = counts.by_tail.iter().take(if geometry.width.is_marked { 0 } else { longest });
    let beyond = beyond.chain(shorter);
    if let Some(found) = beyond.into_iter().find(|count| **count != 0) {
        return Err(field(path, "entries by tail length", *found, Expected::Exactly(0)));
    }
    let (used, slots) = (counts.used(), geometry.slots_in_all());
    if used > slots {
        return Err(field(path, "entries", used, Expected::Between(0, slots)));
    }
    if !geometry.width.is_marked && counts.universal != 0 {
        return Err(field(
            path,
            "universal slots",
            counts.universal,
            Expected::Words("0 in an unmarked filter"),
        ));
    }
    let most = counts.digits / u64::from(geometry.slots().get() - 1);
    if counts.saturated > most {
        return Err(field(path, "saturated groups", counts.saturated, Expected::Between(0, most)));
    }
    let (epochs, regions) = match forgetting {
        Some(forgetting) => ((FIRST_EPOCH, forgetting.last_epoch()), geometry.regions()),
        None => ((0, 0), 0),
    };
    for (name, found, (low, high)) in
        [("epoch", counts.epoch, epochs), ("swept regions", counts.swept, (0, regions))]
    {
        if !(low..=high).contains(&found) {
            return Err(field(path, name, found, Expected::Between(low, high)));
        }
    }
    let (zero, expected) = match kind {
        Kind::Set => ([("digits", counts.digits), ("removed", counts.removed)], "0 in a set"),
        Kind::Forgetting => ([("digits", counts.digits); 2], "0 in a forgetting filter"),
        Kind::Counting => return Ok(()),
    };
    match zero.into_iter().find(|(_, count)| *count != 0) {
        Some((name, found)) => Err(field(path, name, found, Expected::Words(expected))),
        None => Ok(()),
    }
}

fn field(path: &Path, field: &'static str, found: u64, expected: Expected) -> Error {
    Error::Field { path: path.to_owned(), field, found, expected }
}
