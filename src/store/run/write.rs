//! Writing a run. Its head is written last, so an unfinished file is no run.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use super::{BODY, ENTRIES, Head, PAGE, RECORDS, Record, RecordKey, WORDS, put, seal};
use crate::Kind;
use crate::disk::Disk;
use crate::error::{IoContext, Result as FilterResult};
use crate::system::{Rights, rights};

/// How many pages are written together.
const TOGETHER: usize = 256;

/// A run that is being written. Nobody else reads the file before it is sealed and has its name.
pub(in super::super) struct RunWriter<'a> {
    path: &'a Path,
    disk: Arc<dyn Disk>,
    file: File,
    head: Head,
    /// Whole pages that are not written yet, followed by the page that is being filled.
    buffer: Vec<u8>,
    /// How many records the last page of the buffer has.
    filled: u64,
    /// How many pages were written, including the head.
    written: u64,
    /// For each entry, the number of records whose top bits are its number.
    index: Vec<u32>,
    last: Option<RecordKey>,
}

impl<'a> RunWriter<'a> {
    /// Begins a run of at most `at_most` records, in a file that must not exist and that gets these rights.
    pub(in super::super) fn create(
        path: &'a Path,
        disk: &Arc<dyn Disk>,
        rights: Option<&Rights>,
        (store, uuid): ([u8; 16], [u8; 16]),
        (kind, epoch): (Kind, u64),
        at_most: u64,
    ) -> FilterResult<Self> {
        let bits = Head::index_bits(at_most);
        let head = Head { store, uuid, records: 0, kind, epoch, bits };
        let file = rights::create(&**disk, path, rights).at(path, "create")?;
        let index = vec![0; 1 << bits];
        let (buffer, disk) = (Vec::with_capacity(TOGETHER * PAGE), disk.clone());
        Ok(Self { path, disk, file, head, buffer, filled: RECORDS, written: 1, index, last: None })
    }

    /// Adds a record. Keys ascend; a key may repeat.
    pub(in super::super) fn push(&mut self, record: Record) -> FilterResult<()> {
        debug_assert!(self.last <= Some(record.key) && record.fits(&self.head));
        if self.filled == RECORDS {
            self.end_page();
            if self.buffer.len() >= TOGETHER * PAGE {
                self.flush()?;
            }
            self.buffer.resize(self.buffer.len() + PAGE, 0);
            self.filled = 0;
        }
        let page = self.buffer.len().saturating_sub(PAGE);
        let place = self.filled as usize;
        if let Some(page) = self.buffer.get_mut(page..) {
            put(page, 8 * place, &record.key.position.to_le_bytes());
            put(page, WORDS + 4 * place, &record.word(self.head.epoch).to_le_bytes());
        }
        self.filled += 1;
        self.head.records += 1;
        self.last = Some(record.key);
        if let Some(entry) = self.index.get_mut(entry_of(record.key.position, self.head.bits)) {
            *entry += 1;
        }
        Ok(())
    }

    /// Seals the full page.
    fn end_page(&mut self) {
        let pages = (self.buffer.len() / PAGE) as u64;
        if let (Some(before), Some(at)) = (pages.checked_sub(1), self.buffer.len().checked_sub(PAGE))
            && let Some(page) = self.buffer.get_mut(at..)
        {
            seal(page, self.head.uuid, self.written + before);
        }
    }

    fn flush(&mut self) -> FilterResult<()> {
        let at = self.written * PAGE as u64;
        self.disk.write_at(&self.file, &self.buffer, at).at(self.path, "write")?;
        self.written += (self.buffer.len() / PAGE) as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the index and the head, and syncs the file. Returns the number of records and the length; `None` without
    /// records. After an error or `None`, the caller removes the file.
    pub(in super::super) fn seal(mut self) -> FilterResult<Option<(u64, u64)>> {
        if self.head.records == 0 {
            return Ok(None);
        }
        self.end_page();
        let bits = Head::index_bits(self.head.records);
        let step = 1 << (self.head.bits - bits);
        self.head.bits = bits;
        let mut before = 0_u32;
        let starts: Vec<u32> = self
            .index
            .chunks(step)
            .map(|counts| {
                let start = before;
                before = before.wrapping_add(counts.iter().fold(0, |sum, count| sum.wrapping_add(*count)));
                start
            })
            .collect();
        for entries in starts.chunks(ENTRIES as usize) {
            if self.buffer.len() >= TOGETHER * PAGE {
                self.flush()?;
            }
            let at = self.buffer.len();
            self.buffer.extend(entries.iter().flat_map(|entry| entry.to_le_bytes()));
            self.buffer.resize(at + BODY, 0);
            self.buffer.resize(at + PAGE, 0);
            self.end_page();
        }
        self.flush()?;
        let head = self.head.encode();
        self.disk.write_at(&self.file, &head, 0).at(self.path, "write")?;
        // Protects: the whole run, before its name may appear in a version.
        self.disk.sync(&self.file).at(self.path, "sync")?;
        debug_assert_eq!(self.head.length(), self.written * PAGE as u64);
        Ok(Some((self.head.records, self.head.length())))
    }
}

/// The entry of the index that stands for a position.
pub(super) const fn entry_of(position: u64, bits: u32) -> usize {
    match bits {
        0 => 0,
        _ => (position >> (64 - bits)) as usize,
    }
}
