//! Cuts a stream of bytes into keys.

use std::io::{self, Read};

use memchr::{memchr_iter, memrchr};

use super::{Batch, LONGEST};

/// How many bytes are read from the stream at a time: the capacity of a pipe on Linux.
const CHUNK: usize = 64 * 1024;

/// The keys of a stream, handed out in batches as soon as they are whole.
///
/// A key ends at the separator; the last one may also end with the stream. All other bytes belong to the key, even a CR
/// before a newline. Between two adjacent separators there is an empty key.
///
/// Takes time in proportion to the length of the stream, however short its pieces are, and memory in proportion to its
/// longest key. After an error the iterator ends.
#[derive(Debug)]
pub struct Lines<R> {
    stream: R,
    separator: u8,
    /// The beginning of a key whose end has not arrived.
    pending: Vec<u8>,
    /// Keys handed out.
    taken: u64,
    ended: bool,
}

/// Why a stream was not cut to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The stream cannot be read.
    #[error("cannot read: {0}; check where the keys come from")]
    Read(#[source] io::Error),
    /// A key is longer than [`LONGEST`]. The keys before it were handed out.
    #[error("key {number} is longer than {LONGEST} bytes, the most that a key may have; shorten it")]
    TooLong {
        /// The key's number in the stream, counted from 1.
        number: u64,
    },
}

impl<R: Read> Lines<R> {
    /// Cuts `stream`, which need not be buffered, at each `separator`.
    pub const fn new(stream: R, separator: u8) -> Self {
        Self { stream, separator, pending: Vec::new(), taken: 0, ended: false }
    }

    /// The whole keys in the buffer, possibly none.
    fn cut(&mut self) -> Result<Batch, Error> {
        let fresh = self.pending.len();
        self.ended = read_more(&mut self.stream, &mut self.pending).map_err(Error::Read)? == 0;
        let whole = match memrchr(self.separator, &self.pending[fresh..]) {
            _ if self.ended => self.pending.len(),
            Some(last) => fresh + last + 1,
            // The pending bytes do not move: if each piece copied them, a long key would take quadratic time.
            None if self.pending.len() <= LONGEST => return Ok(Batch::default()),
            None => return Err(Error::TooLong { number: self.taken + 1 }),
        };
        let rest = self.pending.split_off(whole);
        let mut batch = Batch { bytes: std::mem::replace(&mut self.pending, rest), ends: Vec::new() };
        batch.ends.extend(memchr_iter(self.separator, &batch.bytes));
        if self.ended && !batch.bytes.is_empty() {
            batch.ends.push(batch.bytes.len());
        }
        // Only the first key can begin in an earlier chunk.
        if batch.ends.first().is_some_and(|end| *end > LONGEST) {
            return Err(Error::TooLong { number: self.taken + 1 });
        }
        self.taken += batch.len() as u64;
        Ok(batch)
    }
}

impl<R: Read> Iterator for Lines<R> {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            match self.cut() {
                Ok(batch) if batch.is_empty() => {}
                Ok(batch) => return Some(Ok(batch)),
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

fn read_more(stream: &mut impl Read, into: &mut Vec<u8>) -> io::Result<usize> {
    let start = into.len();
    into.resize(start + CHUNK, 0);
    let outcome = loop {
        match stream.read(&mut into[start..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => break outcome,
        }
    };
    into.truncate(start + outcome.as_ref().map_or(0, |read| *read));
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns its bytes in pieces of the given length.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(into.len()).min(self.0.len());
            let (piece, rest) = self.0.split_at(length);
            into[..length].copy_from_slice(piece);
            self.0 = rest;
            Ok(length)
        }
    }

    /// The keys, and the error that ended them, if any.
    fn keys(stream: &[u8], piece: usize, separator: u8) -> (Vec<Vec<u8>>, Option<Error>) {
        let (mut keys, mut error) = (Vec::new(), None);
        for batch in Lines::new(Pieces(stream, piece), separator) {
            assert!(error.is_none());
            match batch {
                Ok(batch) => keys.extend(batch.iter().map(<[u8]>::to_vec)),
                Err(found) => error = Some(found),
            }
        }
        (keys, error)
    }

    fn whole(stream: &[u8], piece: usize, separator: u8) -> Vec<Vec<u8>> {
        let (keys, error) = keys(stream, piece, separator);
        assert!(error.is_none(), "{error:?}");
        keys
    }

    #[test]
    fn keys_are_what_lies_between_separators_however_the_stream_is_cut() {
        let cases: [(&[u8], &[&[u8]]); 8] = [
            (b"", &[]),
            (b"\n", &[b""]),
            (b"\n\n", &[b"", b""]),
            (b"a", &[b"a"]),
            (b"a\n", &[b"a"]),
            (b"a\n\nbc\r\n", &[b"a", b"", b"bc\r"]),
            (b"a\0b\nc", &[b"a\0b", b"c"]),
            (b"\nlong enough to be cut", &[b"", b"long enough to be cut"]),
        ];
        for (stream, expected) in cases {
            for piece in 1..=stream.len().max(1) {
                assert_eq!(whole(stream, piece, b'\n'), expected, "{stream:?} in pieces of {piece}");
            }
        }
        assert_eq!(whole(b"a\nb\0\0c", 2, 0), [b"a\nb".as_slice(), b"", b"c"]);
    }

    #[test]
    fn the_longest_key_passes_and_a_longer_one_is_named_after_those_before_it() {
        let mut stream = b"a\nb\n".to_vec();
        stream.resize(4 + LONGEST, b'x');
        for end in [b"".as_slice(), b"\n", b"\nc\n"] {
            let stream = [&stream, end].concat();
            let found = whole(&stream, CHUNK, b'\n');
            assert_eq!(found[2].len(), LONGEST);
        }
        stream.push(b'x');
        for end in [b"".as_slice(), b"\n", b"\nc\n", &[b'x'; 3 * CHUNK]] {
            let stream = [&stream, end].concat();
            let (before, error) = keys(&stream, CHUNK, b'\n');
            assert!(matches!(error, Some(Error::TooLong { number: 3 })), "{error:?}");
            assert_eq!(before, [b"a", b"b"]);
        }
    }

    /// Counts the bytes that the cutter moved within its buffer.
    struct Watched<'a> {
        pieces: Pieces<'a>,
        /// The beginning of the pending bytes, and their number.
        waiting: (usize, usize),
        moved: &'a mut usize,
    }

    impl Read for Watched<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let (begin, length) = self.waiting;
            let now = (into.as_ptr() as usize).wrapping_sub(length);
            if now != begin {
                *self.moved += length;
            }
            let read = self.pieces.read(into)?;
            self.waiting = (now, length + read);
            Ok(read)
        }
    }

    #[test]
    fn the_bytes_of_a_long_key_are_moved_a_few_times_however_many_pieces_it_comes_in() {
        let stream = vec![b'x'; LONGEST];
        let mut moved = 0;
        let watched = Watched { pieces: Pieces(&stream, CHUNK), waiting: (0, 0), moved: &mut moved };
        assert!(Lines::new(watched, b'\n').all(|batch| batch.is_ok()));
        assert!(moved <= 4 * LONGEST, "{moved} bytes were moved for a key of {LONGEST}");
    }

    #[test]
    fn nothing_is_read_before_it_is_asked_for() {
        let mut stream = Pieces(b"a\nb\nc\n", 2);
        let mut lines = Lines::new(&mut stream, b'\n');
        assert_eq!(lines.next().unwrap().unwrap().iter().collect::<Vec<_>>(), [b"a"]);
        assert_eq!(stream.0, b"b\nc\n");
    }
}
