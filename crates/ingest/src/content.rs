//! The bytes of an input, with their place and the hash of all consumed bytes.

use std::fs::File;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use super::decode::{Decoder, Unpack};
use super::error::{Error, InputProblem};

pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// How many bytes are read at a time.
const CHUNK: usize = 256 * 1024;

/// How far an input was read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Position {
    /// The byte of the file at which reading began.
    pub(super) base: u64,
    /// Bytes consumed since then, after decompression.
    pub(super) offset: u64,
    /// The hash of these bytes.
    pub(super) digest: u64,
    /// How many lines ended among these bytes.
    pub(super) lines: u64,
}

pub(super) struct Content {
    path: PathBuf,
    decoder: Decoder,
    unpack: Unpack,
    /// `None` for a stream that can be read only once.
    file: Option<File>,
    /// Bytes up to `hashed` are hashed, bytes up to `at` are consumed, and bytes up to `end` are read but not consumed.
    buffer: Vec<u8>,
    hashed: usize,
    at: usize,
    end: usize,
    base: u64,
    /// The offset of the byte at `at`.
    offset: u64,
    hash: Xxh3,
    last: Option<u8>,
    /// How many bytes were moved within the buffer.
    #[cfg(test)]
    moved: usize,
}

impl Content {
    /// A file, from the byte `base` on.
    pub(super) fn open(path: &Path, base: u64, unpack: Unpack) -> Result<Self, Error> {
        Self::until(path, base, None, unpack)
    }

    /// Like [`open`](Self::open), but the content of an uncompressed file ends at the byte `end`, if given.
    pub(super) fn until(path: &Path, base: u64, end: Option<u64>, unpack: Unpack) -> Result<Self, Error> {
        let file = File::open(path).map_err(Error::of_input(path, "open"))?;
        let stream = file.try_clone().map_err(Error::of_input(path, "read"))?;
        let decoder =
            Decoder::within(stream, base, end, unpack).map_err(|problem| Error::input(path, problem))?;
        Ok(Self { file: Some(file), base, unpack, ..Self::of(path.to_owned(), decoder) })
    }

    /// The same file from its start.
    pub(super) fn reopened(&self) -> Result<Self, Error> {
        Self::open(&self.path, 0, self.unpack)
    }

    /// A stream with this name in messages.
    pub(super) fn of(name: PathBuf, decoder: Decoder) -> Self {
        Self {
            path: name,
            decoder,
            unpack: Unpack::Usual,
            file: None,
            buffer: Vec::new(),
            hashed: 0,
            at: 0,
            end: 0,
            base: 0,
            offset: 0,
            hash: Xxh3::new(),
            last: None,
            #[cfg(test)]
            moved: 0,
        }
    }

    /// The bytes that were read but not consumed.
    pub(super) fn waiting(&self) -> &[u8] {
        &self.buffer[self.at..self.end]
    }

    /// Reads more bytes after the waiting bytes. Returns false at the end.
    pub(super) fn fill(&mut self) -> Result<bool, Error> {
        self.hash_taken();
        // Otherwise moves nothing: moving a long record at each filling would take quadratic time.
        if self.at > 0 {
            self.buffer.copy_within(self.at..self.end, 0);
            #[cfg(test)]
            {
                self.moved += self.end - self.at;
            }
            (self.end, self.at) = (self.end - self.at, 0);
        }
        self.hashed = 0;
        if self.buffer.len() < self.end + CHUNK {
            self.buffer.resize(self.end + CHUNK, 0);
        }
        let read = self.decoder.fill(&mut self.buffer[self.end..]);
        let read = read.map_err(|problem| Error::input(&self.path, problem))?;
        self.end += read;
        Ok(read > 0)
    }

    /// Consumes the next `length` waiting bytes, or all if they are fewer.
    pub(super) fn take(&mut self, length: usize) -> &[u8] {
        let from = self.at;
        self.at = (self.at + length).min(self.end);
        self.offset += (self.at - from) as u64;
        let taken = &self.buffer[from..self.at];
        if let Some(last) = taken.last() {
            self.last = Some(*last);
        }
        taken
    }

    /// Reads the bytes of an earlier run again, and compares their hash. Calls `stopped` for each chunk, and returns
    /// false as soon as it returns true.
    pub(super) fn repeat(&mut self, read: Position, stopped: impl Fn() -> bool) -> Result<bool, Error> {
        if read.offset == 0 {
            return Ok(true);
        }
        while self.offset < read.offset {
            if stopped() {
                return Ok(false);
            }
            if self.waiting().is_empty() && !self.fill()? {
                let problem =
                    InputProblem::Shrunken { read: self.base + read.offset, found: self.base + self.offset };
                return Err(Error::input(&self.path, problem));
            }
            let left = read.offset - self.offset;
            let waiting = self.waiting().len() as u64;
            self.take(waiting.min(left) as usize);
        }
        if self.digest() != read.digest {
            let problem = InputProblem::Changed { read: self.base + read.offset };
            return Err(Error::input(&self.path, problem));
        }
        Ok(true)
    }

    fn hash_taken(&mut self) {
        self.hash.update(&self.buffer[self.hashed..self.at]);
        self.hashed = self.at;
    }

    fn digest(&mut self) -> u64 {
        self.hash_taken();
        self.hash.digest()
    }

    pub(super) fn position(&mut self, lines: u64) -> Position {
        Position { base: self.base, offset: self.offset, digest: self.digest(), lines }
    }

    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }

    /// The last byte consumed.
    pub(super) const fn last(&self) -> Option<u8> {
        self.last
    }

    /// How many bytes were read from the file.
    pub(super) fn raw(&self) -> u64 {
        self.decoder.raw()
    }

    pub(super) const fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A line's name for messages; lines are counted from 1, where reading began.
    pub(super) fn place(&self, line: u64) -> String {
        match self.base {
            0 => format!("line {line}"),
            base => format!("line {line} after byte {base}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_moved_once_however_often_more_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, vec![b'x'; 64 * CHUNK]).unwrap();
        let mut content = Content::open(&path, 0, Unpack::Usual).unwrap();
        assert!(content.fill().unwrap());
        content.take(1);
        while content.fill().unwrap() {}
        assert_eq!(content.waiting().len(), 64 * CHUNK - 1);
        assert!(content.moved < CHUNK, "{} bytes were moved", content.moved);
    }
}
