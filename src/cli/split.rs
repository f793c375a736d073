//! From a stream of bytes to keys.
//!
//! A key ends at the separator, a newline unless NUL was asked for; the last one may also end with the stream.
//! Everything else belongs to the key, a CR before the newline too. Two separators in a row have an empty key
//! between them.

use std::io::{self, Read};

use memchr::{memchr_iter, memrchr};

/// Bytes that a key may have at most.
pub(super) const LONGEST_KEY: usize = 16 << 20;
/// Bytes asked of the stream at a time: what a pipe holds.
const CHUNK: usize = 64 * 1024;

/// Whole keys, with one byte between each two.
#[derive(Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Batch {
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let key = &self.bytes[start..end];
            start = end + 1;
            key
        })
    }

    pub(super) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        self.bytes.push(b'\n');
    }
}

/// What ended the splitting of a stream too early.
#[derive(Debug)]
pub(super) enum SplitError {
    Read(io::Error),
    /// The key of this number, counted from 1.
    TooLong(u64),
}

/// Cuts `stream` into keys, and hands them out as soon as they are whole, until `take` wants no more.
pub(super) fn split(
    mut stream: impl Read,
    separator: u8,
    mut take: impl FnMut(Batch) -> bool,
) -> Result<(), SplitError> {
    let mut taken = 0;
    let mut pending = Vec::new();
    loop {
        let fresh = pending.len();
        let ended = read_more(&mut stream, &mut pending).map_err(SplitError::Read)? == 0;
        let whole = match memrchr(separator, &pending[fresh..]) {
            _ if ended => pending.len(),
            Some(last) => fresh + last + 1,
            // What waits stays where it is: copied at each piece, a long key would take quadratic time.
            None if pending.len() <= LONGEST_KEY => continue,
            None => return Err(SplitError::TooLong(taken + 1)),
        };
        let rest = pending.split_off(whole);
        let mut batch = Batch { bytes: std::mem::replace(&mut pending, rest), ends: Vec::new() };
        batch.ends.extend(memchr_iter(separator, &batch.bytes));
        if ended && !batch.bytes.is_empty() {
            batch.ends.push(batch.bytes.len());
        }
        // Only the first key can have begun in an earlier chunk.
        if batch.ends.first().is_some_and(|end| *end > LONGEST_KEY) {
            return Err(SplitError::TooLong(taken + 1));
        }
        taken += batch.ends.len() as u64;
        if !batch.ends.is_empty() && !take(batch) || ended {
            return Ok(());
        }
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

    /// Gives its bytes in pieces of the length chosen.
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

    fn keys(stream: &[u8], piece: usize, separator: u8) -> Result<Vec<Vec<u8>>, SplitError> {
        let mut keys = Vec::new();
        split(Pieces(stream, piece), separator, |batch| {
            keys.extend(batch.iter().map(<[u8]>::to_vec));
            true
        })?;
        Ok(keys)
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
                assert_eq!(keys(stream, piece, b'\n').unwrap(), expected, "{stream:?} in pieces of {piece}");
            }
        }
        assert_eq!(keys(b"a\nb\0\0c", 2, 0).unwrap(), [b"a\nb".as_slice(), b"", b"c"]);
    }

    #[test]
    fn the_longest_key_passes_and_a_longer_one_is_named_after_those_before_it() {
        let mut stream = b"a\nb\n".to_vec();
        stream.resize(4 + LONGEST_KEY, b'x');
        for end in [b"".as_slice(), b"\n", b"\nc\n"] {
            let stream = [&stream, end].concat();
            let found = keys(&stream, CHUNK, b'\n').unwrap();
            assert_eq!(found[2].len(), LONGEST_KEY);
        }
        stream.push(b'x');
        for end in [b"".as_slice(), b"\n", b"\nc\n", &[b'x'; 3 * CHUNK]] {
            let stream = [&stream, end].concat();
            let mut before = Vec::new();
            let outcome = split(Pieces(&stream, CHUNK), b'\n', |batch| {
                before.extend(batch.iter().map(<[u8]>::to_vec));
                true
            });
            assert!(matches!(outcome, Err(SplitError::TooLong(3))), "{outcome:?}");
            assert_eq!(before, [b"a", b"b"]);
        }
    }

    /// Notes how much had to be moved for the stream's buffer to be where it is.
    struct Watched<'a> {
        pieces: Pieces<'a>,
        /// Where the bytes that wait begin, and how many they are.
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
        let stream = vec![b'x'; LONGEST_KEY];
        let mut moved = 0;
        let watched = Watched { pieces: Pieces(&stream, CHUNK), waiting: (0, 0), moved: &mut moved };
        split(watched, b'\n', |_| true).unwrap();
        assert!(moved <= 4 * LONGEST_KEY, "{moved} bytes were moved for a key of {LONGEST_KEY}");
    }

    #[test]
    fn nothing_is_read_for_a_taker_that_wants_no_more() {
        let stream = b"a\nb\nc\n";
        let mut taken = 0;
        split(Pieces(stream, 2), b'\n', |_| {
            taken += 1;
            false
        })
        .unwrap();
        assert_eq!(taken, 1);
    }
}
