//! The layout of the file: the numbers that fix where everything lies.
//!
//! `format-spec/README.md`, section 5, specifies the layout; a test compares the numbers here with its tables.

use std::path::Path;

use crate::cuckoo::{
    AnyWidth, BUCKETS_PER_REGION, KeyHash, MAX_REGIONS, RegionId, Shard, SlotsPerBucket, Span,
};
use crate::error::{Error, Expected, Result};

/// The first bytes of every filter file.
pub(crate) const MAGIC: [u8; 8] = *b"\x89gowk\r\n\x1a";
/// The version that this build writes.
pub(crate) const VERSION: (u16, u16) = (1, 0);
/// The incompatible feature of forgetting filters, and of no other: their slots and superblocks are different.
pub(super) const FORGETTING: u64 = 2;
/// The incompatible feature of unmarked filters: their slots are different.
pub(super) const UNMARKED: u64 = 4;
/// The features that this build knows in the mask *incompatible*. It knows none in the other two masks.
pub(super) const KNOWN_FEATURES: u64 = FORGETTING | UNMARKED;

pub(crate) const PAGE: u64 = 4096;
pub(crate) const BUCKETS_PER_PAGE: u32 = 512;
pub(crate) const PAGES_PER_REGION: u32 = 16;
pub(crate) const REGION: u64 = PAGE * PAGES_PER_REGION as u64;
const _: () = assert!(BUCKETS_PER_PAGE * PAGES_PER_REGION == BUCKETS_PER_REGION);
/// The highest id and commit number of a superblock. Both rise by one, so no real file comes near this limit.
pub(super) const MAX_NUMBER: u64 = (1 << 63) - 1;

/// Bytes in each superblock slot; slot A lies at 0, slot B after it.
pub(crate) const SUPERBLOCK: u64 = 65_536;
pub(super) const SLOT_BYTES: usize = SUPERBLOCK as usize;
/// The offset of the metadata in a slot.
pub(super) const METADATA_AT: usize = 4096;
/// The most bytes of metadata.
pub(crate) const METADATA_LIMIT: usize = 49_152;
/// Where a slot's own CRC-32 lies: in its last four bytes.
pub(super) const SLOT_CRC_AT: usize = SLOT_BYTES - 4;

/// Where the live area starts.
pub(crate) const LIVE: u64 = 2 * SUPERBLOCK;
/// The state. Its offset and those of the other fields of the live area count from [`LIVE`].
pub(crate) const LIVE_STATE: u64 = 0;
/// Two flags in one word, so that one load reads both: superseded in the low half, poisoned in the high half.
pub(crate) const LIVE_FLAGS: u64 = 8;
pub(crate) const LIVE_EPOCH: u64 = 16;
/// The sequence of the copy of commit, counts and metadata.
pub(crate) const LIVE_COPY: u64 = 24;
/// The epoch of a forgetting filter, which lookups use to judge expiry.
pub(crate) const LIVE_NOW: u64 = 32;
pub(crate) const LIVE_COUNTERS: u64 = 1024;
pub(crate) const LIVE_METADATA_LENGTH: u64 = 1328;
pub(crate) const LIVE_METADATA: u64 = 4096;
pub(crate) const LIVE_SEQUENCES: u64 = LIVE_METADATA + METADATA_LIMIT as u64;
/// `LIVE_STATE` of a file that no writer has open and whose regions hold every commit. Any other value: a writer may have
/// the file.
pub(crate) const STATE_IDLE: [u8; 8] = *b"gowkidle";
/// `LIVE_STATE` of a file that a writer has open, or had open when it died.
pub(crate) const STATE_IN_USE: [u8; 8] = *b"gowkbusy";

const fn align(value: u64, to: u64) -> u64 {
    value.div_ceil(to) * to
}

/// The numbers that fix where everything lies in a file, and which keys belong in it. Only [`new`](Self::new) makes a
/// geometry, so its numbers are always within their bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Geometry {
    pub(crate) width: AnyWidth,
    /// n0, at least 1; `n0 << generation` is at most 2^32, divided by the number of shards.
    pub(crate) base_regions: u64,
    pub(crate) generation: u32,
    pub(crate) shard: Shard,
    checked: (),
}

/// The error for a field whose value no geometry can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OutOfBounds {
    /// The field's name in the specification.
    pub(crate) field: &'static str,
    pub(crate) found: u64,
    pub(crate) expected: Expected,
}

impl Geometry {
    /// Checks the numbers in the order of `format-spec/README.md`, section 5.6. No number is shifted before a check has
    /// shown that the shift loses no bit.
    pub(crate) fn new(
        width: impl Into<AnyWidth>,
        base_regions: u64,
        generation: u32,
        shard: Shard,
    ) -> std::result::Result<Self, OutOfBounds> {
        let within = |field, found: u64, (low, high): (u64, u64)| {
            let expected = Expected::Between(low, high);
            if (low..=high).contains(&found) { Ok(()) } else { Err(OutOfBounds { field, found, expected }) }
        };
        within("n0", base_regions, (1, MAX_REGIONS))?;
        within("g", generation.into(), (0, (MAX_REGIONS / base_regions).ilog2().into()))?;
        within("shards", shard.of, (1, MAX_REGIONS / (base_regions << generation)))?;
        within("shard", shard.number, (0, shard.of - 1))?;
        Ok(Self { width: width.into(), base_regions, generation, shard, checked: () })
    }

    pub(crate) const fn slots(self) -> SlotsPerBucket {
        self.width.slots()
    }

    pub(crate) const fn regions(self) -> u64 {
        self.base_regions << self.generation
    }

    /// The regions of this file among all shards' regions.
    pub(crate) const fn span(self) -> Span {
        Span::new(self.shard, self.regions())
    }

    /// The region of a key, and the fraction that remains; [`Error::OtherShard`] for a key of another shard.
    #[inline]
    pub(crate) fn region_of(self, hash: KeyHash, path: &Path) -> Result<(RegionId, u64)> {
        self.span().region(hash).ok_or_else(|| self.other_shard(hash, path))
    }

    #[cold]
    #[inline(never)]
    fn other_shard(self, hash: KeyHash, path: &Path) -> Error {
        let Shard { of, number } = self.shard;
        Error::OtherShard { path: path.to_owned(), shard: number, shards: of, belongs: hash.shard(of) }
    }

    pub(crate) const fn pages(self) -> u64 {
        self.regions() * PAGES_PER_REGION as u64
    }

    /// All slots of all buckets.
    pub(crate) const fn slots_in_all(self) -> u64 {
        self.regions() * (BUCKETS_PER_REGION * self.slots().get()) as u64
    }

    /// Where the checksum table starts.
    pub(crate) const fn sums(self) -> u64 {
        LIVE + align(LIVE_SEQUENCES + 4 * self.regions(), PAGE)
    }

    /// Where the regions start.
    pub(crate) const fn data(self) -> u64 {
        align(self.sums() + align(4 * self.pages(), PAGE), REGION)
    }

    pub(crate) const fn file_length(self) -> u64 {
        self.data() + self.regions() * REGION
    }

    pub(crate) const fn region_at(self, region: RegionId) -> u64 {
        self.data() + region.0 as u64 * REGION
    }

    /// The geometry before the last doubling; `None` if there was none.
    pub(crate) fn halved(self) -> Option<Self> {
        Some(Self { generation: self.generation.checked_sub(1)?, ..self })
    }

    /// The same geometry, marked if `is_marked`.
    pub(crate) const fn marked(self, is_marked: bool) -> Self {
        if is_marked { Self { width: self.width.marked(), ..self } } else { self }
    }

    /// The geometry after one doubling, which marks the filter; `None` if all shards together would have more than 2^32
    /// regions.
    pub(crate) fn doubled(self) -> Option<Self> {
        let doubled = Self { generation: self.generation + 1, ..self.marked(true) };
        (self.regions() * 2 <= self.shard.most_regions()).then_some(doubled)
    }
}

/// A data page's number, counted from the first region.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct PageId(pub(crate) u64);

impl PageId {
    pub(crate) const fn new(region: RegionId, page: u32) -> Self {
        Self(region.0 as u64 * PAGES_PER_REGION as u64 + page as u64)
    }

    pub(crate) const fn region(self) -> RegionId {
        RegionId((self.0 / PAGES_PER_REGION as u64) as u32)
    }

    /// The page's number in its region.
    pub(crate) const fn in_region(self) -> u32 {
        (self.0 % PAGES_PER_REGION as u64) as u32
    }
}
