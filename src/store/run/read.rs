//! Lookups in a run, through a map of its file.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::write::entry_of;
use super::{ENTRIES, Head, PAGE, RECORDS, Record, RecordKey, Records, WORDS, get, is_sealed};
use crate::disk::Disk;
use crate::error::{Error as FilterError, IoContext};
use crate::store::error::{Error, Result};
use crate::system::{PlainMap, open_regular};

/// How many records are compared one after the other; a longer range is first halved.
const FEW: u64 = 16;

/// A sealed run, open for lookups.
#[derive(Debug)]
pub(in super::super) struct Run {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    file: File,
    map: PlainMap,
    head: Head,
    /// One bit for each page: whether it was found intact.
    intact: Vec<AtomicU64>,
}

impl Run {
    /// Opens a run, after comparing its head with its length.
    pub(in super::super) fn open(path: &Path, disk: &Arc<dyn Disk>) -> Result<Self> {
        let file = open_regular(path, false)?;
        let file = file.ok_or_else(|| FilterError::NotFound { path: path.to_owned() })?;
        let length = file.metadata().at(path, "look at")?.len();
        let wrong_length = |expected: String| Error::WrongFile {
            path: path.to_owned(),
            what: "length",
            found: length.to_string(),
            expected,
        };
        if length < PAGE as u64 {
            return Err(wrong_length(format!("at least {PAGE}")));
        }
        let mut page = [0; PAGE];
        disk.read_at(&file, &mut page, 0).at(path, "read")?;
        let head = Head::decode(path, &page)?;
        if head.length() != length {
            return Err(wrong_length(head.length().to_string()));
        }
        let map = PlainMap::shared(&file, length).at(path, "map")?;
        let intact = (0..head.pages().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { path: path.to_owned(), disk: disk.clone(), file, map, head, intact })
    }

    pub(in super::super) const fn head(&self) -> &Head {
        &self.head
    }

    pub(in super::super) const fn records(&self) -> u64 {
        self.head.records
    }

    pub(super) fn damaged(&self, page: u64) -> Error {
        Error::DamagedRun { path: self.path.clone(), pages: vec![page] }
    }

    /// Compares a page with its checksum, unless that was done before.
    #[inline]
    fn touch(&self, page: u64) -> Result<()> {
        let word = self.intact.get((page / 64) as usize);
        if word.is_some_and(|word| word.load(Ordering::Relaxed) >> (page % 64) & 1 == 1) {
            return Ok(());
        }
        self.read_page(page).map(drop)
    }

    /// A page, read by a system call, and compared with its checksum.
    #[cold]
    fn read_page(&self, page: u64) -> Result<[u8; PAGE]> {
        let mut bytes = [0; PAGE];
        self.disk.read_at(&self.file, &mut bytes, page * PAGE as u64).at(&self.path, "read")?;
        if !is_sealed(&bytes, self.head.uuid, page) {
            return Err(self.damaged(page));
        }
        if let Some(word) = self.intact.get((page / 64) as usize) {
            word.fetch_or(1 << (page % 64), Ordering::Relaxed);
        }
        Ok(bytes)
    }

    /// The page of a record, and its index there.
    const fn place(record: u64) -> (u64, usize) {
        (1 + record / RECORDS, (record % RECORDS) as usize)
    }

    /// Eight bytes of an intact page, at an offset that is a multiple of 8.
    #[inline]
    fn word(&self, page: u64, at: usize) -> Result<u64> {
        self.map.word(page as usize * (PAGE / 8) + at / 8).ok_or_else(|| self.damaged(page))
    }

    /// Four bytes of an intact page, at an offset that is a multiple of 4.
    #[inline]
    fn half(&self, page: u64, at: usize) -> Result<u32> {
        Ok((self.word(page, at)? >> (8 * (at % 8))) as u32)
    }

    #[inline]
    fn position(&self, record: u64) -> Result<u64> {
        let (page, place) = Self::place(record);
        self.touch(page)?;
        self.word(page, 8 * place)
    }

    #[inline]
    fn record(&self, record: u64) -> Result<Record> {
        let (page, place) = Self::place(record);
        self.touch(page)?;
        let (position, word) = (self.word(page, 8 * place)?, self.half(page, WORDS + 4 * place)?);
        Ok(Record::of_word(position, word, self.head.epoch))
    }

    /// Where the records of this index entry begin.
    #[inline]
    fn start(&self, entry: u64) -> Result<u64> {
        if entry >= self.head.entries() {
            return Ok(self.head.records);
        }
        let page = 1 + self.head.record_pages() + entry / ENTRIES;
        self.touch(page)?;
        Ok(self.half(page, 4 * (entry % ENTRIES) as usize)?.into())
    }

    /// The first record whose position is at least this one.
    #[inline]
    fn first_from(&self, position: u64) -> Result<u64> {
        let entry = entry_of(position, self.head.bits) as u64;
        let (mut start, mut end) = (self.start(entry)?, self.start(entry + 1)?);
        if start > end || end > self.head.records {
            return Err(self.damaged(1 + self.head.record_pages() + entry / ENTRIES));
        }
        while end - start > FEW {
            let middle = start + (end - start) / 2;
            if self.position(middle)? < position { start = middle + 1 } else { end = middle }
        }
        while start < end && self.position(start)? < position {
            start += 1;
        }
        Ok(start)
    }

    /// The sum of a key's records; `None` if the run has no record of it.
    #[inline]
    pub(in super::super) fn value(&self, key: RecordKey) -> Result<Option<i64>> {
        let mut found = None;
        for at in self.first_from(key.position)?..self.head.records {
            if self.position(at)? != key.position {
                break;
            }
            let record = self.record(at)?;
            if record.key == key {
                found = Some(found.unwrap_or(0) + record.value);
            }
        }
        Ok(found)
    }

    /// Prefetches the line of the index that a lookup of the key reads first.
    #[inline]
    pub(in super::super) fn prefetch(&self, key: RecordKey) {
        let entry = entry_of(key.position, self.head.bits) as u64;
        let page = 1 + self.head.record_pages() + entry / ENTRIES;
        self.map.prefetch(page as usize * (PAGE / 8) + (entry % ENTRIES) as usize / 2);
    }

    /// The numbers of the records of one shard of `shards`.
    pub(in super::super) fn slice(&self, shard: u32, shards: u32) -> Result<Range<u64>> {
        let from = |shard: u32| {
            let first = (u128::from(shard) << 64).div_ceil(u128::from(shards.max(1)));
            u64::try_from(first).map_or(Ok(self.head.records), |position| self.first_from(position))
        };
        let (start, end) = (from(shard)?, from(shard.saturating_add(1))?);
        if start > end { Err(self.damaged(0)) } else { Ok(start..end) }
    }

    /// All records, in order.
    pub(in super::super) fn all(&self) -> Records<'_> {
        Records::new(self, std::iter::once(0..self.head.records))
    }

    /// The records with numbers in these ranges, which ascend.
    pub(in super::super) fn records_of(&self, ranges: impl IntoIterator<Item = Range<u64>>) -> Records<'_> {
        Records::new(self, ranges)
    }

    /// Checks the record that follows another.
    pub(super) fn checked(&self, at: u64, before: Option<RecordKey>) -> Result<Record> {
        let record = self.record(at)?;
        let is_after = match self.head.kind {
            crate::Kind::Set | crate::Kind::Forgetting => before < Some(record.key),
            crate::Kind::Counting => before <= Some(record.key),
        };
        let is_right = is_after && record.fits(&self.head);
        if is_right { Ok(record) } else { Err(self.damaged(Self::place(at).0)) }
    }

    /// Reads and checks the whole file by system calls. Returns the number of its pages; the error names all damaged
    /// pages.
    pub(in super::super) fn verify(&self) -> Result<u64> {
        let mut damaged: Vec<u64> =
            (0..self.head.pages()).filter(|page| !self.is_page_intact(*page)).collect();
        // If records are lost, the index cannot be compared with them.
        let (mut is_whole, mut entry, mut before) = (damaged.is_empty(), 0, None);
        for at in 0..self.head.records {
            let Ok(record) = self.checked(at, before) else {
                let page = Self::place(at).0;
                if damaged.last() != Some(&page) {
                    damaged.push(page);
                }
                (is_whole, before) = (false, None);
                continue;
            };
            before = Some(record.key);
            while is_whole && entry <= entry_of(record.key.position, self.head.bits) as u64 {
                damaged.extend(self.wrong_start(entry, at));
                entry += 1;
            }
        }
        if is_whole {
            damaged.extend(
                (entry..self.head.entries()).filter_map(|entry| self.wrong_start(entry, self.head.records)),
            );
        }
        if damaged.is_empty() {
            return Ok(self.head.pages());
        }
        damaged.sort_unstable();
        damaged.dedup();
        Err(Error::DamagedRun { path: self.path.clone(), pages: damaged })
    }

    /// Whether a page can be read and matches its checksum, and has zeros after the last record.
    fn is_page_intact(&self, page: u64) -> bool {
        let Ok(bytes) = self.read_page(page) else { return false };
        if !(1..=self.head.record_pages()).contains(&page) {
            return true;
        }
        let used = (self.head.records - (page - 1) * RECORDS).min(RECORDS) as usize;
        let is_zero = |from: usize, size: usize| {
            (from + size * used..from + size * RECORDS as usize).all(|at| get::<1>(&bytes, at) == [0])
        };
        is_zero(0, 8) && is_zero(WORDS, 4)
    }

    /// The page of an index entry, if the entry is not as expected.
    fn wrong_start(&self, entry: u64, expected: u64) -> Option<u64> {
        let is_right = self.start(entry).is_ok_and(|start| start == expected);
        (!is_right).then(|| 1 + self.head.record_pages() + entry / ENTRIES)
    }
}
