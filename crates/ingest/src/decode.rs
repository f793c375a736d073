//! The content of streams: plain, gzip or zstd, recognized by their first bytes.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::GzDecoder;

use super::error::InputProblem;
use crate::keys::Foreign;

/// How many bytes of a compressed stream are read at a time.
const CHUNK: usize = 128 * 1024;

/// How a stream is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Packing {
    Plain,
    Gzip,
    Zstd,
    /// In a format that gowk does not read.
    Foreign(Foreign),
}

/// Whether streams that begin like compressed data are decompressed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Unpack {
    /// They are read unchanged.
    Never,
    /// gzip, and zstd with windows up to 128 MiB.
    #[default]
    Usual,
    /// Also zstd with longer windows, up to 2 GiB. A window takes its length in memory.
    Long,
}

/// The logarithms of the longest windows of zstd.
const WINDOW: u32 = 27;
const LONG_WINDOW: u32 = 31;

/// The magic number of gzip, and its only method of compression.
const GZIP: [u8; 3] = [0x1f, 0x8b, 8];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// A skippable frame of zstd. The first byte is 0x50 to 0x5f.
const SKIPPABLE: [u8; 4] = [0x50, 0x2a, 0x4d, 0x18];

impl Packing {
    /// The packing that the first bytes of a stream show; `None` if further bytes could show another packing.
    fn of(begin: &[u8]) -> Option<Self> {
        let is_same =
            |(byte, magic): (&u8, &u8)| byte == magic || *magic == SKIPPABLE[0] && byte & 0xf0 == *magic;
        let magics: [(&[u8], Self); 3] = [(&GZIP, Self::Gzip), (&ZSTD, Self::Zstd), (&SKIPPABLE, Self::Zstd)];
        match magics.into_iter().find(|(magic, _)| begin.iter().zip(*magic).all(is_same)) {
            Some((magic, packing)) => (begin.len() >= magic.len()).then_some(packing),
            None if Foreign::is_open(begin) => None,
            None => Some(Foreign::of(begin).map_or(Self::Plain, Self::Foreign)),
        }
    }

    /// The packing of a file, by its first bytes. Does not move the file's read position.
    pub(super) fn of_file(file: &File) -> io::Result<Self> {
        let (mut first, mut read) = ([0; Foreign::BYTES], 0);
        while read < first.len() {
            match file.read_at(first.get_mut(read..).unwrap_or_default(), read as u64)? {
                0 => break,
                more => read += more,
            }
        }
        Ok(Self::of(first.get(..read).unwrap_or_default()).unwrap_or(Self::Plain))
    }

    const fn name(self) -> Option<&'static str> {
        match self {
            Self::Plain | Self::Foreign(_) => None,
            Self::Gzip => Some("gzip"),
            Self::Zstd => Some("zstd"),
        }
    }
}

/// A stream that counts the bytes read from it.
struct Counted {
    stream: Box<dyn Read + Send>,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(into)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// The first bytes of a stream, which were already read, and the rest of it.
type Begun = Chain<Cursor<Vec<u8>>, Counted>;

/// The decompressed bytes of a stream.
pub(super) struct Decoder {
    packing: Packing,
    stream: Box<dyn Read + Send>,
    read: Arc<AtomicU64>,
}

impl Decoder {
    /// Waits until the first bytes show the packing, usually for one read. `read` counts the bytes of the stream.
    pub(super) fn new(
        stream: impl Read + Send + 'static,
        unpack: Unpack,
        read: Arc<AtomicU64>,
    ) -> Result<Self, InputProblem> {
        let mut counted = Counted { stream: Box::new(stream), read: read.clone() };
        if unpack == Unpack::Never {
            return Self::packed(Packing::Plain, unpack, Cursor::new(Vec::new()).chain(counted), read);
        }
        let (mut begin, mut length) = (vec![0; CHUNK], 0);
        let packing = loop {
            if let Some(packing) = Packing::of(begin.get(..length).unwrap_or_default()) {
                break packing;
            }
            match counted.read(begin.get_mut(length..).unwrap_or_default()) {
                Ok(0) => break Packing::Plain,
                Ok(more) => length += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unreadable(error)),
            }
        };
        begin.truncate(length);
        Self::packed(packing, unpack, Cursor::new(begin).chain(counted), read)
    }

    /// Begins at the byte `base` of a file; in a compressed file a member or frame begins there. A plain file ends at
    /// `end`, if given.
    pub(super) fn within(
        mut file: File,
        base: u64,
        end: Option<u64>,
        unpack: Unpack,
    ) -> Result<Self, InputProblem> {
        let packing = Packing::of_file(&file).map_err(unreadable)?;
        file.seek(SeekFrom::Start(base)).map_err(unreadable)?;
        let read = Arc::new(AtomicU64::new(base));
        let stream: Box<dyn Read + Send> = match end.filter(|_| packing == Packing::Plain) {
            Some(end) => Box::new(file.take(end.saturating_sub(base))),
            None => Box::new(file),
        };
        let counted = Counted { stream, read: read.clone() };
        Self::packed(packing, unpack, Cursor::new(Vec::new()).chain(counted), read)
    }

    fn packed(
        packing: Packing,
        unpack: Unpack,
        all: Begun,
        read: Arc<AtomicU64>,
    ) -> Result<Self, InputProblem> {
        let buffered = |all| BufReader::with_capacity(CHUNK, all);
        let stream: Box<dyn Read + Send> = match packing {
            Packing::Foreign(format) => return Err(InputProblem::Foreign { format }),
            Packing::Plain => Box::new(all),
            Packing::Gzip => Box::new(Members::Between(Some(buffered(all)))),
            Packing::Zstd => {
                let mut decoder = zstd::Decoder::with_buffer(buffered(all)).map_err(unreadable)?;
                let window = if unpack == Unpack::Long { LONG_WINDOW } else { WINDOW };
                decoder.window_log_max(window).map_err(unreadable)?;
                Box::new(decoder)
            }
        };
        Ok(Self { packing, stream, read })
    }

    /// How many bytes were read from the stream; all of them once its content has ended.
    pub(super) fn raw(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Fills `into` from the start. Returns how many bytes it filled, 0 at the end.
    pub(super) fn fill(&mut self, into: &mut [u8]) -> Result<usize, InputProblem> {
        loop {
            match self.read(into) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(problem(self.packing, self.raw(), source)),
                Ok(read) => return Ok(read),
            }
        }
    }

    /// A function that turns an error of a read into a problem of the input.
    pub(super) fn problems(&self) -> impl Fn(io::Error) -> InputProblem + use<> {
        let (packing, read) = (self.packing, self.read.clone());
        move |source| problem(packing, read.load(Ordering::Relaxed), source)
    }
}

const fn unreadable(source: io::Error) -> InputProblem {
    InputProblem::Io { op: "read", source }
}

fn problem(packing: Packing, at: u64, source: io::Error) -> InputProblem {
    match packing.name() {
        // An error with a system error number does not come from the decompressor.
        Some(format) if source.raw_os_error().is_none() => {
            if source.kind() == io::ErrorKind::UnexpectedEof {
                InputProblem::Truncated { format, at }
            } else if source.get_ref().is_some_and(|inner| inner.is::<Trailing>()) {
                InputProblem::Trailing { format, at }
            } else if packing == Packing::Zstd && source.to_string() == LONG_WINDOW_ERROR {
                InputProblem::LongWindow
            } else {
                InputProblem::Corrupt { format, at, source }
            }
        }
        _ => unreadable(source),
    }
}

/// libzstd's message for a longer window than allowed. The crate does not expose the error codes.
const LONG_WINDOW_ERROR: &str = "Frame requires too much memory for decoding";

/// A member of gzip is followed by something other than a member or padding.
#[derive(Debug, thiserror::Error)]
#[error("something else follows")]
struct Trailing;

/// The members of a gzip stream. Zeros after a member are padding, which tapes and block devices leave.
enum Members<R> {
    Within(Option<Box<GzDecoder<R>>>),
    Between(Option<R>),
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self {
                Self::Within(member) => {
                    let read = member.as_mut().map_or(Ok(0), |member| member.read(into))?;
                    if read > 0 || into.is_empty() {
                        return Ok(read);
                    }
                    *self = Self::Between(member.take().map(|member| member.into_inner()));
                }
                Self::Between(stream) => {
                    if !stream.as_mut().map_or(Ok(false), begins_a_member)? {
                        return Ok(0);
                    }
                    *self = Self::Within(stream.take().map(|stream| Box::new(GzDecoder::new(stream))));
                }
            }
        }
    }
}

/// Skips zeros. Returns true if another member begins, false at the end of the stream. Fails with [`Trailing`] at any
/// other byte.
fn begins_a_member(stream: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let waiting = stream.fill_buf()?;
        match waiting.iter().position(|byte| *byte != 0) {
            Some(first) => {
                let is_member = waiting.get(first) == GZIP.first();
                stream.consume(first);
                return if is_member { Ok(true) } else { Err(io::Error::other(Trailing)) };
            }
            None if waiting.is_empty() => return Ok(false),
            None => {
                let zeros = waiting.len();
                stream.consume(zeros);
            }
        }
    }
}

impl Read for Decoder {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // At its end, each keeps returning 0.
        self.stream.read(into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one byte at a time, and counts them.
    struct Slow(&'static [u8]);

    impl Read for Slow {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.0.read(&mut into[..1])
        }
    }

    #[test]
    fn only_whole_magic_numbers_count_however_they_come() {
        let cases: [(&[u8], Packing); 9] = [
            (b"", Packing::Plain),
            (b"\x1f\x8b", Packing::Plain),
            (b"\x1f\x8b\x08", Packing::Gzip),
            (b"\x1f\x8b\x09", Packing::Plain),
            (b"\x28\xb5\x2f", Packing::Plain),
            (b"\x28\xb5\x2f\xfd", Packing::Zstd),
            (b"\x5a\x2a\x4d\x18", Packing::Zstd),
            (b"\x5a\x2a\x4d", Packing::Plain),
            (b"\x6a\x2a\x4d\x18", Packing::Plain),
        ];
        for (bytes, packing) in cases {
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(bytes, 0).unwrap();
            assert_eq!(Packing::of_file(&file).unwrap(), packing, "{bytes:?}");
            for slow in [true, false] {
                let read = Arc::new(AtomicU64::new(0));
                let decoder = if slow {
                    Decoder::new(Slow(bytes), Unpack::Usual, read.clone())
                } else {
                    Decoder::new(bytes, Unpack::Usual, read.clone())
                };
                let mut decoder = decoder.unwrap();
                assert_eq!(decoder.packing, packing, "{bytes:?}");
                if packing == Packing::Plain {
                    let mut all = Vec::new();
                    decoder.read_to_end(&mut all).unwrap();
                    assert_eq!((all.as_slice(), decoder.raw()), (bytes, bytes.len() as u64));
                }
            }
            let mut plain = Decoder::new(bytes, Unpack::Never, Arc::default()).unwrap();
            let mut all = Vec::new();
            plain.read_to_end(&mut all).unwrap();
            assert_eq!(all, bytes);
        }
    }

    #[test]
    fn no_more_is_waited_for_than_is_needed() {
        let read = Arc::new(AtomicU64::new(0));
        let decoder = Decoder::new(Slow(b"a\nb\n"), Unpack::Usual, read.clone()).unwrap();
        assert_eq!((decoder.raw(), read.load(Ordering::Relaxed)), (1, 1));
        assert_eq!(Decoder::new(Slow(b"a\nb\n"), Unpack::Never, Arc::default()).unwrap().raw(), 0);
    }

    /// All content, and the problem that ended it.
    fn content(bytes: &[u8], unpack: Unpack) -> (Vec<u8>, Option<InputProblem>) {
        let mut decoder = Decoder::new(Cursor::new(bytes.to_vec()), unpack, Arc::default()).unwrap();
        let (mut all, mut piece) = (Vec::new(), [0; 1000]);
        loop {
            match decoder.fill(&mut piece) {
                Ok(0) => return (all, None),
                Ok(read) => all.extend(&piece[..read]),
                Err(problem) => return (all, Some(problem)),
            }
        }
    }

    #[test]
    fn zeros_behind_a_member_of_gzip_are_padding_and_anything_else_is_named() {
        use std::io::Write as _;
        let gzip = |text: &str| {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packed.write_all(text.as_bytes()).unwrap();
            packed.finish().unwrap()
        };
        for zeros in [0, 1, 511, 3 * CHUNK] {
            let padded = [gzip("a\n"), vec![0; zeros], gzip("b\n"), gzip(""), vec![0; zeros]].concat();
            let (all, problem) = content(&padded, Unpack::Usual);
            assert!(problem.is_none() && all == b"a\nb\n", "{zeros}: {problem:?}");
            for garbage in ["x", "not gzip at all\n"] {
                let (all, problem) = content(&[&padded, garbage.as_bytes()].concat(), Unpack::Usual);
                let is_named = matches!(problem, Some(InputProblem::Trailing { format: "gzip", .. }));
                assert!(is_named && all == b"a\nb\n", "{zeros}, {garbage}: {problem:?}");
            }
        }
        let whole = gzip("a\n");
        for cut in 4..whole.len() {
            let (_, problem) = content(&[&whole, &whole[..cut]].concat(), Unpack::Usual);
            assert!(matches!(problem, Some(InputProblem::Truncated { .. })), "{cut}: {problem:?}");
        }
    }

    #[test]
    fn a_long_window_of_zstd_is_read_only_if_that_is_allowed() {
        use std::io::Write as _;
        for (log, unpack, is_read) in [
            (27, Unpack::Usual, true),
            (28, Unpack::Usual, false),
            (28, Unpack::Long, true),
            (31, Unpack::Long, true),
        ] {
            let mut packed = zstd::Encoder::new(Vec::new(), 1).unwrap();
            packed.window_log(log).unwrap();
            // A frame of unknown length keeps the requested window.
            packed.write_all(b"a\n").unwrap();
            packed.flush().unwrap();
            packed.write_all(b"b\n").unwrap();
            let (all, problem) = content(&packed.finish().unwrap(), unpack);
            match problem {
                None => assert!(is_read && all == b"a\nb\n", "{log}"),
                Some(problem) => {
                    assert!(!is_read && matches!(problem, InputProblem::LongWindow), "{log}: {problem}");
                }
            }
        }
    }
}
