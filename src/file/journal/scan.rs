//! Reading a journal: finding the frames that count, and parsing them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use zerocopy::FromBytes;
use zerocopy::little_endian::{U16, U64};

use super::orphans;
use super::read_up_to;
use crate::cuckoo::Counts;
use crate::error::{IoContext, Result};
use crate::format::frame::{
    FRAME_HEADER, FrameHead, HEADER, Header, RawCommit, RawFrame, RawRecord, indices_size,
};
use crate::format::{BUCKETS_PER_PAGE, PageId};

/// A frame of a transaction that counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameAt {
    pub(in crate::file) offset: u64,
    pub(super) payload: usize,
    /// The frame's bytes with its padding.
    pub(super) length: u64,
}

/// A frame that does not count, with later commits after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::file) struct Broken {
    pub(in crate::file) offset: u64,
    /// The commit that the frame would have belonged to.
    pub(in crate::file) first: u64,
    /// The last commit seen after it.
    pub(in crate::file) last: u64,
}

/// The contents of a journal.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// `None` if the header is damaged or missing.
    pub(in crate::file) header: Option<Header>,
    /// The frames of all transactions that count, in order.
    pub(in crate::file) frames: Vec<FrameAt>,
    /// The number of the last transaction that counts.
    pub(in crate::file) last: Option<u64>,
    pub(in crate::file) broken: Option<Broken>,
}

/// Finds the frames that count in a journal. `salt` and `base` come from the superblock, and are used if the header is
/// invalid.
pub(crate) fn scan(file: &File, path: &Path, salt: u64, base: u64) -> Result<Scan> {
    let length = file.metadata().at(path, "look at")?.len();
    scan_source(file, length, path, salt, base)
}

/// Like [`scan`], for any source of `length` bytes.
pub(super) fn scan_source<F: FileExt>(
    file: &F,
    length: u64,
    path: &Path,
    salt: u64,
    base: u64,
) -> Result<Scan> {
    let mut head = vec![0; HEADER as usize];
    let read = read_up_to(file, &mut head, 0).at(path, "read")?;
    head.truncate(read);
    let decoded = Header::decode(path, &head)?;
    let header = decoded.map(|(header, _)| header);
    let mut chain = FrameChain {
        file,
        length,
        salt: header.map_or(salt, |header| header.salt),
        offset: HEADER,
        previous: decoded.map(|(_, crc)| crc),
        commit: header.map_or(base, |header| header.base).saturating_add(1),
        order: 0,
        last_page: None,
    };
    let mut scan = Scan { header, ..Scan::default() };
    let mut open_transaction = Vec::new();
    while let Some((at, is_commit)) = chain.next_counted().at(path, "read")? {
        open_transaction.push(at);
        if is_commit {
            scan.frames.append(&mut open_transaction);
            scan.last = Some(chain.commit);
            chain.commit = chain.commit.saturating_add(1);
            (chain.order, chain.last_page) = (0, None);
        }
    }
    let FrameChain { offset, salt, commit: first, .. } = chain;
    let highest = orphans::highest_commit(file, offset, length, salt).at(path, "read")?;
    scan.broken = highest.filter(|last| *last > first).map(|last| Broken { offset, first, last });
    Ok(scan)
}

/// The values that the next frame must have, given the frames that counted before it.
struct FrameChain<'a, F> {
    file: &'a F,
    length: u64,
    salt: u64,
    offset: u64,
    /// The CRC that the next frame must name; `None` before the first frame if the header is damaged.
    previous: Option<u32>,
    commit: u64,
    order: u32,
    last_page: Option<u64>,
}

impl<F: FileExt> FrameChain<'_, F> {
    /// The next frame if it counts, and whether it is a COMMIT.
    fn next_counted(&mut self) -> io::Result<Option<(FrameAt, bool)>> {
        let Some((at, raw, payload)) = self.frame_at(self.offset)? else { return Ok(None) };
        let Some(head) = raw.head() else { return Ok(None) };
        let in_sequence = self.previous.is_none_or(|crc| crc == head.previous)
            && head.commit == self.commit
            && head.order == self.order;
        let Some(content) = Content::parse(head, &payload).filter(|_| in_sequence) else { return Ok(None) };
        let mut last = self.last_page;
        for record in &content.records {
            if last.is_some_and(|last| last >= record.page.0) {
                return Ok(None);
            }
            last = Some(record.page.0);
        }
        self.last_page = last;
        self.previous = Some(raw.crc());
        self.order = self.order.saturating_add(1);
        self.offset += at.length;
        Ok(Some((at, content.commit.is_some())))
    }

    /// A frame that is intact in itself: magic, salt, length and CRC.
    fn frame_at(&self, offset: u64) -> io::Result<Option<(FrameAt, RawFrame, Vec<u8>)>> {
        let mut head = [0; FRAME_HEADER];
        if self.length.saturating_sub(offset) < FRAME_HEADER as u64
            || read_up_to(self.file, &mut head, offset)? < FRAME_HEADER
        {
            return Ok(None);
        }
        let Ok(raw) = RawFrame::read_from_bytes(&head) else { return Ok(None) };
        let payload = raw.payload();
        let Some(length) = raw.length(self.salt, self.length - offset) else { return Ok(None) };
        let mut bytes = vec![0; payload];
        let read = read_up_to(self.file, &mut bytes, offset + FRAME_HEADER as u64)?;
        let right = read == payload && raw.is_intact(&bytes);
        Ok(right.then_some((FrameAt { offset, payload, length }, raw, bytes)))
    }
}

/// A frame's bytes, including its padding.
pub(in crate::file) fn read_frame(file: &File, at: FrameAt) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(at.length).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, at.offset)?;
    Ok(bytes)
}

/// The payload of a frame, parsed.
#[derive(Debug)]
pub(in crate::file) struct Content<'a> {
    pub(in crate::file) records: Vec<Record<'a>>,
    pub(in crate::file) commit: Option<Commit<'a>>,
}

/// The changes of one page.
#[derive(Debug)]
pub(in crate::file) struct Record<'a> {
    pub(in crate::file) page: PageId,
    /// The checksum of the changed page.
    pub(in crate::file) crc: u32,
    /// Empty if the words are the whole page.
    indices: &'a [U16],
    words: &'a [U64],
}

/// The end of a COMMIT frame's payload.
#[derive(Debug)]
pub(in crate::file) struct Commit<'a> {
    pub(in crate::file) counts: Counts,
    pub(in crate::file) metadata: Option<&'a [u8]>,
}

impl<'a> Content<'a> {
    /// Parses a frame that counts, as [`read_frame`] returned it.
    pub(in crate::file) fn of_counted(frame: &'a [u8], at: FrameAt) -> Option<Self> {
        let (raw, rest) = RawFrame::read_from_prefix(frame).ok()?;
        Self::parse(raw.head()?, rest.get(..at.payload)?)
    }

    fn parse(head: FrameHead, payload: &'a [u8]) -> Option<Self> {
        let mut rest = payload;
        let mut records = Vec::new();
        for _ in 0..head.records {
            records.push(Record::parse(&mut rest)?);
        }
        let commit = if head.is_commit { Some(Commit::parse(&mut rest)?) } else { None };
        rest.is_empty().then_some(Self { records, commit })
    }
}

impl<'a> Record<'a> {
    fn parse(rest: &mut &'a [u8]) -> Option<Self> {
        let (raw, after) = RawRecord::read_from_prefix(rest).ok()?;
        let count = raw.count()?;
        let whole = count == BUCKETS_PER_PAGE as usize;
        let (indices, after) = after.split_at_checked(if whole { 0 } else { indices_size(count) })?;
        let (words, after) = after.split_at_checked(8 * count)?;
        let (indices, padding) =
            <[U16]>::ref_from_prefix_with_elems(indices, if whole { 0 } else { count }).ok()?;
        let ascending = indices.windows(2).all(|pair| pair.first() < pair.last());
        let in_page = indices.last().is_none_or(|last| u32::from(last.get()) < BUCKETS_PER_PAGE);
        if !ascending || !in_page || padding.iter().any(|byte| *byte != 0) {
            return None;
        }
        *rest = after;
        let words = <[U64]>::ref_from_bytes(words).ok()?;
        Some(Self { page: raw.page(), crc: raw.crc(), indices, words })
    }

    /// The changed words, ascending by index in the page.
    pub(in crate::file) fn words(&self) -> impl Iterator<Item = (u32, u64)> {
        let whole = self.indices.is_empty();
        let indices = self.indices.iter().map(|index| u32::from(index.get()));
        let all = 0..if whole { BUCKETS_PER_PAGE } else { 0 };
        all.chain(indices).zip(self.words.iter().map(|word| word.get()))
    }
}

impl<'a> Commit<'a> {
    fn parse(rest: &mut &'a [u8]) -> Option<Self> {
        let (raw, after) = RawCommit::read_from_prefix(rest).ok()?;
        let metadata_length = raw.metadata_length()?;
        let length = metadata_length.unwrap_or(0);
        let (padded, after) = after.split_at_checked(length.checked_next_multiple_of(8)?)?;
        let (metadata, padding) = padded.split_at_checked(length)?;
        let metadata = metadata_length.map(|_| metadata);
        if padding.iter().any(|byte| *byte != 0) {
            return None;
        }
        *rest = after;
        Some(Self { counts: raw.counts(), metadata })
    }
}
