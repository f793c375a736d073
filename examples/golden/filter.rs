//! A filter's two files as bytes, which are sealed again after a change.
//!
//! Offsets are written out as in the specification, without using the library's own.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::Outcome;

pub(crate) const IDLE: &[u8; 8] = b"gowkidle";
pub(crate) const BUSY: &[u8; 8] = b"gowkbusy";
/// Where the live area begins, with the state.
pub(crate) const STATE: usize = 131_072;

/// A filter's file and its journal, if it has one.
#[derive(Clone)]
pub(crate) struct Filter {
    pub(crate) data: Vec<u8>,
    pub(crate) journal: Option<Vec<u8>>,
}

pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

impl Filter {
    /// Reads the files from the disk, even if a writer has them open.
    pub(crate) fn read(path: &Path) -> Outcome<Self> {
        Ok(Self { data: fs::read(path)?, journal: fs::read(with_suffix(path, "-journal")).ok() })
    }

    pub(crate) fn write(&self, path: &Path) -> Outcome {
        fs::write(path, &self.data)?;
        if let Some(journal) = &self.journal {
            fs::write(with_suffix(path, "-journal"), journal)?;
        }
        Ok(())
    }

    /// A digest of the file. A CRC would not see changes of bytes that are followed by their own CRC.
    pub(crate) fn hashes(&self) -> (String, String) {
        let hash = |bytes: &[u8]| format!("{:016x}", xxhash_rust::xxh3::xxh3_64(bytes));
        (hash(&self.data), self.journal.as_deref().map_or("-".to_owned(), hash))
    }
}

pub(crate) fn store(file: &Path, filter: &Filter) -> Outcome {
    let compress = |path: PathBuf, bytes: &[u8]| -> Outcome {
        let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        to.write_all(bytes)?;
        Ok(fs::write(path, to.finish()?)?)
    };
    if let Some(journal) = &filter.journal {
        compress(with_suffix(file, "-journal.gz"), journal)?;
    }
    compress(with_suffix(file, ".gz"), &filter.data)
}

impl Filter {
    pub(crate) fn journal_mut(&mut self) -> &mut Vec<u8> {
        self.journal.get_or_insert_default()
    }

    /// Changes both slots, and seals them again.
    pub(crate) fn superblocks(&mut self, change: impl Fn(&mut [u8])) {
        for slot in self.data[..131_072].chunks_mut(65_536) {
            change(slot);
            seal_slot(slot);
        }
    }

    pub(crate) fn with_state(mut self, state: &[u8; 8]) -> Self {
        self.data[STATE..STATE + 8].copy_from_slice(state);
        self
    }
}

pub(crate) fn seal_slot(slot: &mut [u8]) {
    let crc = crc32fast::hash(&slot[..65_532]);
    slot[65_532..].copy_from_slice(&crc.to_le_bytes());
}

pub(crate) fn seal_header(journal: &mut [u8]) {
    let crc = crc32fast::hash(&journal[..508]);
    journal[508..512].copy_from_slice(&crc.to_le_bytes());
}

/// The offset of each frame, and its length with padding.
pub(crate) fn frames(journal: &[u8]) -> Vec<(usize, usize)> {
    let mut frames = Vec::new();
    let mut at = 512;
    while at < journal.len() {
        let length = (64 + payload_of(journal, at)).next_multiple_of(512);
        frames.push((at, length));
        at += length;
    }
    frames
}

pub(crate) fn payload_of(journal: &[u8], frame: usize) -> usize {
    let bytes = journal[frame + 32..].first_chunk().copied().unwrap_or_default();
    u32::from_le_bytes(bytes) as usize
}

pub(crate) fn seal_frame(journal: &mut [u8], frame: usize) {
    let payload = payload_of(journal, frame);
    let mut crc = crc32fast::Hasher::new();
    crc.update(&journal[frame..frame + 60]);
    crc.update(&journal[frame + 64..frame + 64 + payload]);
    journal[frame + 60..frame + 64].copy_from_slice(&crc.finalize().to_le_bytes());
}

/// Splits the first frame after its first record, as in a transaction that is too long for one frame.
pub(crate) fn divide_first_frame(journal: &mut Vec<u8>) {
    let start = 512;
    let payload = payload_of(journal, start);
    let count = usize::from(journal[start + 64 + 12]);
    let record = 16 + (2 * count).next_multiple_of(8) + 8 * count;
    let header = journal[start..start + 64].to_vec();
    let content = journal[start + 64..start + 64 + payload].to_vec();
    let (_, length) = frames(journal)[0];
    let frame = |order: u8, flags: u8, records: u8, payload: &[u8]| {
        let mut frame = header.clone();
        (frame[24], frame[28], frame[36]) = (order, flags, records);
        frame[32..36].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        frame.extend_from_slice(payload);
        frame.resize(frame.len().next_multiple_of(512), 0);
        frame
    };
    let divided =
        [frame(0, 0, 1, &content[..record]), frame(1, 1, header[36] - 1, &content[record..])].concat();
    journal.splice(start..start + length, divided);
    seal_journal(journal);
}

/// Makes every frame refer to the one before it, and seals it.
pub(crate) fn seal_journal(journal: &mut [u8]) {
    seal_header(journal);
    let mut previous = 508;
    for (start, _) in frames(journal) {
        journal.copy_within(previous..previous + 4, start + 40);
        seal_frame(journal, start);
        previous = start + 60;
    }
}
