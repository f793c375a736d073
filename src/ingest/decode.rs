//! Plain, gzip and zstd files as streams of what they hold, told apart by their first bytes.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::error::{Error, InputProblem};
use crate::keys::Foreign;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The last three bytes of a skippable zstd frame's magic number; the first is 0x50 to 0x5f.
const SKIPPABLE: [u8; 3] = [0x2a, 0x4d, 0x18];
/// Compressed bytes read at a time.
const CHUNK: usize = 128 * 1024;

/// The bytes that a file holds, from some place on.
pub(super) enum Decoder {
    Plain(Counted),
    Gzip(Box<MultiGzDecoder<BufReader<Counted>>>),
    Zstd(Box<zstd::Decoder<'static, BufReader<Counted>>>),
}

/// A file that knows how far it was read.
pub(super) struct Counted {
    file: File,
    read: u64,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(into)?;
        self.read += read as u64;
        Ok(read)
    }
}

impl Decoder {
    /// Begins at the byte `base` of the file; in a compressed file a member or frame begins there.
    pub(super) fn open(path: &Path, base: u64) -> Result<Self, Error> {
        let refused = |op| move |source| Error::input(path, InputProblem::Io { op, source });
        let mut file = File::open(path).map_err(refused("open"))?;
        let (first, read) = first_bytes(&file).map_err(refused("read"))?;
        file.seek(SeekFrom::Start(base)).map_err(refused("read"))?;
        let counted = Counted { file, read: base };
        if let Some(format) = Foreign::of(&first[..read]) {
            return Err(Error::input(path, InputProblem::Foreign { format }));
        }
        if first[..2] == GZIP {
            let buffered = BufReader::with_capacity(CHUNK, counted);
            return Ok(Self::Gzip(Box::new(MultiGzDecoder::new(buffered))));
        }
        if first[..4] == ZSTD || (first[0] & 0xf0 == 0x50 && first[1..4] == SKIPPABLE) {
            let buffered = BufReader::with_capacity(CHUNK, counted);
            let decoder = zstd::Decoder::with_buffer(buffered).map_err(refused("read"))?;
            return Ok(Self::Zstd(Box::new(decoder)));
        }
        Ok(Self::Plain(counted))
    }

    fn counted(&self) -> &Counted {
        match self {
            Self::Plain(counted) => counted,
            Self::Gzip(decoder) => decoder.get_ref().get_ref(),
            Self::Zstd(decoder) => decoder.get_ref().get_ref(),
        }
    }

    /// Bytes of the file read so far; all of them once its content has ended.
    pub(super) fn raw(&self) -> u64 {
        self.counted().read
    }

    pub(super) fn file(&self) -> &File {
        &self.counted().file
    }

    pub(super) const fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    fn format(&self) -> Option<&'static str> {
        match self {
            Self::Plain(_) => None,
            Self::Gzip(_) => Some("gzip"),
            Self::Zstd(_) => Some("zstd"),
        }
    }

    /// Bytes put into `into`; 0 at the end.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize, InputProblem> {
        loop {
            let outcome = match self {
                // At its end each of them returns 0, however often it is asked.
                Self::Plain(counted) => counted.read(into),
                Self::Gzip(decoder) => decoder.read(into),
                Self::Zstd(decoder) => decoder.read(into),
            };
            match outcome {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(self.problem(source)),
                Ok(read) => return Ok(read),
            }
        }
    }

    fn problem(&self, source: io::Error) -> InputProblem {
        let at = self.raw();
        match self.format() {
            // An error with the number of a system error is not the decompressor's.
            Some(format) if source.raw_os_error().is_none() => {
                if source.kind() == io::ErrorKind::UnexpectedEof {
                    InputProblem::Truncated { format, at }
                } else {
                    InputProblem::Corrupt { format, at, source }
                }
            }
            _ => InputProblem::Io { op: "read", source },
        }
    }
}

/// The first bytes of the file, with zeros where it is shorter, and how many there are.
fn first_bytes(file: &File) -> io::Result<([u8; Foreign::BYTES], usize)> {
    let mut first = [0; Foreign::BYTES];
    let mut read = 0;
    while read < first.len() {
        match file.read_at(&mut first[read..], read as u64)? {
            0 => break,
            more => read += more,
        }
    }
    Ok((first, read))
}
