//! The bytes of the journal: its header, its frames and their checksums.
//!
//! `format-spec/README.md`, section 6, specifies this layout.

use std::path::Path;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::layout::{BUCKETS_PER_PAGE, PageId, VERSION};
use super::superblock::RawCounts;
use crate::cuckoo::Counts;
use crate::error::{Error, JournalDefect, Result};

pub(crate) const HEADER_MAGIC: [u8; 8] = *b"gowkjrnl";
pub(crate) const FRAME_MAGIC: [u8; 8] = *b"gowkfram";
/// Bytes in the journal's header; frames start after it.
pub(crate) const HEADER: u64 = 512;
pub(crate) const HEADER_CRC_AT: usize = 508;
/// Frames start at multiples of this number, so that a torn sector never holds bytes of two frames.
pub(crate) const FRAME_ALIGN: u64 = 512;
pub(crate) const FRAME_HEADER: usize = 64;
pub(crate) const FRAME_CRC_AT: usize = 60;
pub(crate) const MAX_PAYLOAD: usize = 16 << 20;
/// The flag of a transaction's last frame.
pub(super) const COMMIT: u32 = 1;

/// The header of a journal: the file and the checkpoint that it continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) uuid: [u8; 16],
    pub(crate) generation: u32,
    /// Random and new at each checkpoint, so that frames from before the checkpoint do not count.
    pub(crate) salt: u64,
    /// The commit of the checkpoint. The first transaction has the next number.
    pub(crate) base: u64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 8],
    major: U16,
    minor: U16,
    generation: U32,
    uuid: [u8; 16],
    salt: U64,
    base: U64,
}
const _: () = assert!(size_of::<RawHeader>() == 48);

/// The fields of a frame's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameHead {
    pub(crate) salt: u64,
    /// The number of the frame's transaction.
    pub(crate) commit: u64,
    /// The frame's number in its transaction, from 0.
    pub(crate) order: u32,
    /// Whether the frame is its transaction's last.
    pub(crate) is_commit: bool,
    /// How many page records the payload has, one for each changed page.
    pub(crate) records: u32,
    /// The CRC of the frame before, or of the journal's header.
    pub(crate) previous: u32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(crate) struct RawFrame {
    magic: [u8; 8],
    salt: U64,
    commit: U64,
    order: U32,
    flags: U32,
    payload: U32,
    records: U32,
    previous: U32,
    reserved: [u8; 16],
    crc: U32,
}
const _: () = {
    assert!(size_of::<RawFrame>() == FRAME_HEADER);
    assert!(std::mem::offset_of!(RawFrame, crc) == FRAME_CRC_AT);
};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(crate) struct RawRecord {
    page: U64,
    crc: U32,
    count: U32,
}
const _: () = assert!(size_of::<RawRecord>() == 16);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(crate) struct RawCommit {
    counts: RawCounts,
    has_metadata: U32,
    metadata_length: U32,
}
const _: () = assert!(size_of::<RawCommit>() == 304);

impl RawRecord {
    /// The changes of a page: `count` words follow; `crc` is the checksum of the changed page.
    pub(crate) fn new(page: PageId, crc: u32, count: usize) -> Self {
        Self { page: page.0.into(), crc: crc.into(), count: (count as u32).into() }
    }

    pub(crate) const fn page(&self) -> PageId {
        PageId(self.page.get())
    }

    pub(crate) const fn crc(&self) -> u32 {
        self.crc.get()
    }

    /// How many words follow; `None` unless 1 to 512.
    pub(crate) fn count(&self) -> Option<usize> {
        let count = self.count.get();
        (1..=BUCKETS_PER_PAGE).contains(&count).then_some(count as usize)
    }
}

impl RawCommit {
    /// The counts as of the commit, and the metadata that follows if it changed.
    pub(crate) fn new(counts: Counts, metadata: Option<&[u8]>) -> Self {
        Self {
            counts: counts.into(),
            has_metadata: u32::from(metadata.is_some()).into(),
            metadata_length: (metadata.map_or(0, <[u8]>::len) as u32).into(),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts.into()
    }

    /// The length of the metadata that follows, if it changed. The outer `None`: the fields contradict each other.
    pub(crate) fn metadata_length(&self) -> Option<Option<usize>> {
        match (self.has_metadata.get(), self.metadata_length.get()) {
            (0, 0) => Some(None),
            (1, length) => Some(Some(length as usize)),
            _ => None,
        }
    }
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER as usize] {
        let raw = RawHeader {
            magic: HEADER_MAGIC,
            major: VERSION.0.into(),
            minor: VERSION.1.into(),
            generation: self.generation.into(),
            uuid: self.uuid,
            salt: self.salt.into(),
            base: self.base.into(),
        };
        let mut bytes = [0; HEADER as usize];
        bytes[..size_of::<RawHeader>()].copy_from_slice(raw.as_bytes());
        let crc = crc32fast::hash(&bytes[..HEADER_CRC_AT]);
        bytes[HEADER_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The header and its CRC; `None` if the bytes are no valid header.
    pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<Option<(Self, u32)>> {
        let Some((body, rest)) = bytes.split_at_checked(HEADER_CRC_AT) else { return Ok(None) };
        let (Ok((crc, _)), Ok((raw, _))) = (U32::read_from_prefix(rest), RawHeader::read_from_prefix(body))
        else {
            return Ok(None);
        };
        if raw.magic != HEADER_MAGIC || crc.get() != crc32fast::hash(body) {
            return Ok(None);
        }
        if raw.major.get() != VERSION.0 {
            let defect = JournalDefect::Version(raw.major.get(), raw.minor.get());
            return Err(Error::Journal { path: path.to_owned(), defect });
        }
        let header = Self {
            uuid: raw.uuid,
            generation: raw.generation.get(),
            salt: raw.salt.get(),
            base: raw.base.get(),
        };
        Ok(Some((header, crc.get())))
    }
}

impl RawFrame {
    /// The header of a frame with this payload.
    pub(crate) fn sealed(head: FrameHead, payload: &[u8]) -> Self {
        let raw = Self {
            magic: FRAME_MAGIC,
            salt: head.salt.into(),
            commit: head.commit.into(),
            order: head.order.into(),
            flags: if head.is_commit { COMMIT } else { 0 }.into(),
            payload: (payload.len() as u32).into(),
            records: head.records.into(),
            previous: head.previous.into(),
            reserved: [0; 16],
            crc: U32::ZERO,
        };
        Self { crc: raw.crc_with(payload).into(), ..raw }
    }

    /// `None` if the frame has flags that no writer sets.
    pub(crate) fn head(&self) -> Option<FrameHead> {
        let is_commit = match self.flags.get() {
            0 => false,
            COMMIT => true,
            _ => return None,
        };
        Some(FrameHead {
            salt: self.salt.get(),
            commit: self.commit(),
            order: self.order.get(),
            is_commit,
            records: self.records.get(),
            previous: self.previous.get(),
        })
    }

    pub(crate) const fn commit(&self) -> u64 {
        self.commit.get()
    }

    /// How many bytes the payload has. It follows the header.
    pub(crate) const fn payload(&self) -> usize {
        self.payload.get() as usize
    }

    pub(crate) const fn crc(&self) -> u32 {
        self.crc.get()
    }

    /// The CRC of the header up to its CRC field: the first part of the frame's CRC.
    pub(crate) fn crc_of_head(&self) -> u32 {
        crc32fast::hash(self.sealed_bytes())
    }

    fn sealed_bytes(&self) -> &[u8] {
        self.as_bytes().get(..FRAME_CRC_AT).unwrap_or_default()
    }

    fn crc_with(&self, payload: &[u8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(self.sealed_bytes());
        hasher.update(payload);
        hasher.finalize()
    }

    /// Whether the frame has this payload, and its CRC is right.
    pub(crate) fn is_intact(&self, payload: &[u8]) -> bool {
        payload.len() == self.payload() && self.crc_with(payload) == self.crc()
    }

    /// The length of the frame with its padding, if its magic and its salt are right, and it fits into `room` bytes. Does
    /// not check the CRC.
    pub(crate) fn length(&self, salt: u64, room: u64) -> Option<u64> {
        let length = (FRAME_HEADER as u64 + self.payload() as u64).next_multiple_of(FRAME_ALIGN);
        let right = self.magic == FRAME_MAGIC
            && self.salt == salt
            && self.reserved == [0; 16]
            && self.payload() <= MAX_PAYLOAD
            && length <= room;
        right.then_some(length)
    }
}

/// How many bytes the indices of `count` changed words take, padded.
pub(crate) const fn indices_size(count: usize) -> usize {
    (2 * count).next_multiple_of(8)
}
