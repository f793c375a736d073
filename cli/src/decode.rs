//! Inputs as streams of what they hold: plain, gzip or zstd, told apart by their first bytes.
//!
//! Other than the inputs of a job, these need not be files: nothing is read twice.

use std::io::{self, BufReader, Chain, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use gowk::keys::Foreign;

/// Bytes read at a time.
const CHUNK: usize = 64 * 1024;

/// What a stream begins with, and all of it.
type Begun<R> = BufReader<Chain<Cursor<Vec<u8>>, R>>;

pub(super) enum Decoder<R: Read> {
    Plain(Chain<Cursor<Vec<u8>>, R>),
    Gzip(Box<MultiGzDecoder<Begun<R>>>),
    Zstd(Box<zstd::Decoder<'static, Begun<R>>>),
}

impl<R: Read> Decoder<R> {
    /// Waits for as many bytes as it takes to know what they are: most often for one read.
    pub(super) fn new(mut stream: R) -> io::Result<Self> {
        let mut begin = vec![0; CHUNK];
        let mut read = 0;
        while read == 0 || may_become_packed(&begin[..read]) || Foreign::is_open(&begin[..read]) {
            match stream.read(&mut begin[read..]) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        begin.truncate(read);
        let (is_gzip, is_zstd) = (is_gzip(&begin), is_zstd(&begin));
        let all = Self::plain(begin, stream);
        if is_gzip {
            return Ok(Self::Gzip(Box::new(MultiGzDecoder::new(BufReader::with_capacity(CHUNK, all)))));
        }
        if is_zstd {
            let all = BufReader::with_capacity(CHUNK, all);
            return Ok(Self::Zstd(Box::new(zstd::Decoder::with_buffer(all)?)));
        }
        Ok(Self::Plain(all))
    }

    /// The stream as it is.
    pub(super) fn as_it_is(stream: R) -> Self {
        Self::Plain(Self::plain(Vec::new(), stream))
    }

    /// The format of what is read as it is, where gowk does not read such files.
    pub(super) fn foreign(&self) -> Option<Foreign> {
        match self {
            Self::Plain(stream) => Foreign::of(stream.get_ref().0.get_ref()),
            _ => None,
        }
    }

    fn plain(begin: Vec<u8>, stream: R) -> Chain<Cursor<Vec<u8>>, R> {
        Cursor::new(begin).chain(stream)
    }

    /// How it is compressed.
    pub(super) const fn format(&self) -> Option<&'static str> {
        match self {
            Self::Plain(_) => None,
            Self::Gzip(_) => Some("gzip"),
            Self::Zstd(_) => Some("zstd"),
        }
    }
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(into),
            Self::Gzip(stream) => stream.read(into),
            Self::Zstd(stream) => stream.read(into),
        }
    }
}

/// The magic number, and the one method of compression there is.
const GZIP: [u8; 3] = [0x1f, 0x8b, 8];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The last three bytes of a skippable zstd frame's magic number; the first is 0x50 to 0x5f.
const SKIPPABLE: [u8; 3] = [0x2a, 0x4d, 0x18];

fn is_gzip(begin: &[u8]) -> bool {
    begin.starts_with(&GZIP)
}

fn is_zstd(begin: &[u8]) -> bool {
    begin.starts_with(&ZSTD)
        || begin
            .split_first()
            .is_some_and(|(first, rest)| first & 0xf0 == 0x50 && rest.starts_with(&SKIPPABLE))
}

/// Whether more bytes could make it one of them.
fn may_become_packed(begin: &[u8]) -> bool {
    let begins = |magic: &[u8]| begin.len() < magic.len() && magic.starts_with(begin);
    let skippable = begin.split_first().is_some_and(|(first, rest)| {
        first & 0xf0 == 0x50 && rest.len() < SKIPPABLE.len() && SKIPPABLE.starts_with(rest)
    });
    begins(&GZIP) || begins(&ZSTD) || skippable
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.0.read(&mut into[..1])
        }
    }

    #[test]
    fn only_whole_magic_numbers_count_however_they_come() {
        let cases: [(&[u8], Option<&str>); 9] = [
            (b"", None),
            (b"\x1f\x8b", None),
            (b"\x1f\x8b\x08", Some("gzip")),
            (b"\x1f\x8b\x09", None),
            (b"\x28\xb5\x2f", None),
            (b"\x28\xb5\x2f\xfd", Some("zstd")),
            (b"\x5a\x2a\x4d\x18", Some("zstd")),
            (b"\x5a\x2a\x4d", None),
            (b"\x6a\x2a\x4d\x18", None),
        ];
        for (bytes, format) in cases {
            for decoder in
                [Decoder::new(Slow(bytes)).unwrap().format(), Decoder::new(bytes).unwrap().format()]
            {
                assert_eq!(decoder, format, "{bytes:?}");
            }
            if format.is_none() {
                let mut all = Vec::new();
                Decoder::new(Slow(bytes)).unwrap().read_to_end(&mut all).unwrap();
                assert_eq!(all, bytes);
            }
        }
    }

    #[test]
    fn no_more_is_waited_for_than_is_needed() {
        let mut stream = Slow(b"a\nb\n");
        Decoder::new(&mut stream).unwrap();
        assert_eq!(stream.0, b"\nb\n");
    }
}
