//! The write-ahead log beside the file: appends frames to it; `scan` finds the frames that count.
//!
//! Invariants (`format-spec/README.md`, section 6):
//!
//! 1. A transaction is in the journal, and the journal synced, before any part of it reaches the data file.
//! 2. Frames are only appended. After a failed append the journal is cut back to the last commit.
//! 3. A frame counts if and only if its CRC, the salt, the CRC of the frame before it, the commit number and its order in
//!    the transaction are right. A transaction counts if its COMMIT frame does.
//!
//! Crash cases: a torn or missing tail fails the CRC, and ends the journal. Frames of two attempts at one commit cannot
//! be mixed, as each frame names the CRC of the one before. Frames from before a reset have another salt. A frame of a
//! *later* commit after a frame that does not count shows damage, and not a crash: a later commit begins only after the
//! earlier one is synced.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use zerocopy::IntoBytes;

use super::overlay::{PageBits, indices};
use crate::cuckoo::Counts;
use crate::error::{Error, IoContext, JournalDefect, Result};
use crate::format::frame::{
    FRAME_ALIGN, FRAME_HEADER, FRAME_MAGIC, FrameHead, HEADER, HEADER_CRC_AT, HEADER_MAGIC, Header,
    RawCommit, RawFrame, RawRecord, indices_size,
};
use crate::format::{BUCKETS_PER_PAGE, Page, PageId};
use crate::system::{Disk, Files, Rights, length_of_regular};

mod orphans;
pub(super) mod scan;

pub(crate) use scan::scan;
pub(super) use scan::{Content, FrameAt, Scan, read_frame};

/// With more changed words than this, a record of the whole page is shorter than the words with their indices.
const MOST_PAIRS: usize = 409;

/// A journal open for appending.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    /// The byte at which the next frame begins.
    end: u64,
    /// The CRC of the last frame, or of the header.
    previous: u32,
    header: Header,
}

impl Journal {
    /// Opens or creates the journal of `files`, empties it, and lets it continue from `header`.
    pub(crate) fn create(files: &Files, disk: &dyn Disk, model: &Rights, header: Header) -> Result<Self> {
        check_place(files)?;
        let file = open_or_create(files, disk, model)?;
        let mut journal = Self { file, end: HEADER, previous: 0, header };
        let mut bytes = vec![0; HEADER as usize];
        let read = read_up_to(&journal.file, &mut bytes, 0).at(&files.journal, "read")?;
        bytes.truncate(read);
        let length = journal.file.metadata().at(&files.journal, "look at")?.len();
        match Header::decode(&files.journal, &bytes)? {
            Some((found, crc)) if found == header && length == HEADER => journal.previous = crc,
            _ => journal.reset(files, disk, header)?,
        }
        Ok(journal)
    }

    /// Empties the journal: frames appended from now on continue from `header`.
    pub(crate) fn reset(&mut self, files: &Files, disk: &dyn Disk, header: Header) -> Result<()> {
        let bytes = header.encode();
        disk.write_at(&self.file, &bytes, 0).at(&files.journal, "write")?;
        disk.set_len(&self.file, HEADER).at(&files.journal, "cut")?;
        // Protects: later commits. A scan finds them only under this header's salt.
        disk.sync(&self.file).at(&files.journal, "sync")?;
        self.previous = crc32fast::hash(&bytes[..HEADER_CRC_AT]);
        self.end = HEADER;
        self.header = header;
        Ok(())
    }

    /// Opens the journal of a file just recovered, or creates it. The caller must reset it before appending.
    pub(super) fn unread(files: &Files, disk: &dyn Disk, model: &Rights) -> Result<Self> {
        let file = open_or_create(files, disk, model)?;
        let header = Header { uuid: [0; 16], generation: 0, salt: 0, base: 0 };
        Ok(Self { file, end: HEADER, previous: 0, header })
    }

    /// The length of all frames, in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.end - HEADER
    }

    /// Protects: the appended transactions, before any part of them reaches the data file.
    pub(crate) fn sync(&self, files: &Files, disk: &dyn Disk) -> Result<()> {
        disk.sync(&self.file).at(&files.journal, "sync")
    }

    /// After a failed append: cuts the journal back to the last commit.
    pub(crate) fn cut_back(&self, files: &Files, disk: &dyn Disk) -> Result<()> {
        // If nothing lies past the end, do not cut: a copy-on-write file system may have no room for a cut on a full
        // disk.
        if self.file.metadata().at(&files.journal, "look at")?.len() <= self.end {
            return Ok(());
        }
        disk.set_len(&self.file, self.end).at(&files.journal, "cut back")
    }

    /// Begins to append transaction `commit`.
    pub(crate) fn begin<'a>(&'a mut self, files: &'a Files, disk: &'a dyn Disk, commit: u64) -> Append<'a> {
        let (end, previous) = (self.end, self.previous);
        Append { journal: self, files, disk, commit, end, previous, order: 0, records: 0, frame: new_frame() }
    }
}

fn new_frame() -> Vec<u8> {
    vec![0; FRAME_HEADER]
}

/// A transaction being appended to the journal. It does not count before [`Append::finish`].
pub(crate) struct Append<'a> {
    journal: &'a mut Journal,
    files: &'a Files,
    disk: &'a dyn Disk,
    commit: u64,
    end: u64,
    previous: u32,
    order: u32,
    records: u32,
    frame: Vec<u8>,
}

impl Append<'_> {
    /// Adds a changed page. Pages come in ascending order. `page` includes the changes, and `sum` is its checksum.
    pub(crate) fn page(&mut self, id: PageId, changed: &PageBits, sum: u32, page: &Page) -> Result<()> {
        let pairs: u32 = changed.iter().map(|bits| bits.count_ones()).sum();
        let pairs = pairs as usize;
        let whole = pairs > MOST_PAIRS;
        let count = if whole { BUCKETS_PER_PAGE as usize } else { pairs };
        let size = size_of::<RawRecord>() + 8 * count + if whole { 0 } else { indices_size(count) };
        if self.frame.len() - FRAME_HEADER + size > self.disk.frame_limit() {
            self.write(false)?;
        }
        let record = RawRecord::new(id, sum, count);
        self.frame.extend_from_slice(record.as_bytes());
        if whole {
            self.frame.extend_from_slice(page.as_bytes());
        } else {
            for index in indices(changed) {
                self.frame.extend_from_slice(&(index as u16).to_le_bytes());
            }
            self.pad(8);
            for index in indices(changed) {
                self.frame.extend_from_slice(&page[index as usize].to_le_bytes());
            }
        }
        self.records += 1;
        Ok(())
    }

    /// Writes the COMMIT frame. The transaction is durable once the journal is synced.
    pub(crate) fn finish(mut self, counts: &Counts, metadata: Option<&[u8]>) -> Result<()> {
        let size = size_of::<RawCommit>() + metadata.map_or(0, |bytes| bytes.len().next_multiple_of(8));
        if self.frame.len() - FRAME_HEADER + size > self.disk.frame_limit() {
            self.write(false)?;
        }
        let commit = RawCommit::new(*counts, metadata);
        self.frame.extend_from_slice(commit.as_bytes());
        self.frame.extend_from_slice(metadata.unwrap_or_default());
        self.pad(8);
        self.write(true)?;
        (self.journal.end, self.journal.previous) = (self.end, self.previous);
        Ok(())
    }

    fn pad(&mut self, to: usize) {
        self.frame.resize(self.frame.len().next_multiple_of(to), 0);
    }

    fn write(&mut self, is_commit: bool) -> Result<()> {
        let head = FrameHead {
            salt: self.journal.header.salt,
            commit: self.commit,
            order: self.order,
            is_commit,
            records: self.records,
            previous: self.previous,
        };
        let raw = RawFrame::sealed(head, &self.frame[FRAME_HEADER..]);
        self.frame[..FRAME_HEADER].copy_from_slice(raw.as_bytes());
        self.pad(FRAME_ALIGN as usize);
        let written = self.disk.write_at(&self.journal.file, &self.frame, self.end);
        written.at(&self.files.journal, "append to")?;
        self.end += self.frame.len() as u64;
        self.previous = raw.crc();
        self.order += 1;
        self.records = 0;
        self.frame.truncate(FRAME_HEADER);
        Ok(())
    }
}

/// The journal's file; `None` if it does not exist.
pub(crate) fn open(files: &Files, write: bool) -> Result<Option<File>> {
    files.open_side(&files.journal, write)
}

fn open_or_create(files: &Files, disk: &dyn Disk, model: &Rights) -> Result<File> {
    loop {
        if let Some(file) = open(files, true)? {
            return Ok(file);
        }
        if let Some(file) = files.create_side(disk, &files.journal, Some(model))? {
            // Protects: the journal's name, before a commit relies on it.
            disk.sync_dir(&files.dir).at(&files.dir, "sync")?;
            return Ok(file);
        }
    }
}

/// Fails if the journal's name leads to a file that is not a journal: a journal would overwrite it.
///
/// A journal may have been cut short by a crash, or damaged. So a file counts as a journal if at most one byte of the
/// magic number is neither right nor 0, or if a frame follows the header.
pub(super) fn check_place(files: &Files) -> Result<()> {
    let Some(file) = open(files, true)? else { return Ok(()) };
    let mut bytes = vec![0; HEADER as usize + FRAME_MAGIC.len()];
    let read = read_up_to(&file, &mut bytes, 0).at(&files.journal, "read")?;
    bytes.truncate(read);
    let strange =
        bytes.iter().zip(HEADER_MAGIC).filter(|(found, magic)| **found != 0 && *found != magic).count();
    if strange <= 1 || bytes.get(HEADER as usize..).is_some_and(|frame| frame == FRAME_MAGIC) {
        return Ok(());
    }
    Err(Error::Journal { path: files.journal.clone(), defect: JournalDefect::NotAJournal })
}

/// Whether the journal has bytes after its header.
pub(super) fn holds_anything(files: &Files) -> Result<bool> {
    Ok(length_of_regular(&files.journal)?.is_some_and(|length| length > HEADER))
}

/// Reads until the buffer is full or the file ends. Returns how many bytes it read.
fn read_up_to(file: &impl FileExt, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut read = 0;
    while let Some(rest) = buffer.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + read as u64) {
            Ok(0) => break,
            Ok(n) => read += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests;
