//! The state of a job, in the entry `ingest/NAME` of the filter's metadata or as the state of a store's token: what the job
//! has read of its inputs, and how long its outputs are. It is committed together with the keys read until then.
//!
//! The parts follow one after the other, without padding. Counts, lengths and offsets are below 2^60. Paths are relative
//! to the folder of the job file if the file lies in that folder or below it. All hashes are XXH3-64 with seed 0.
//!
//! First, in every cursor:
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 1 | version | u8, 1 |
//! | 1 | 1 | flags | u8, bits: 1 all inputs were read to their ends, 2 there are inputs that were read in part, 4 there is an output of new keys, 8 one of refused keys, 16 one of records without a key; the others are 0 |
//! | 2 | 80 | counts | u64[10], of all runs of the job, as below |
//! | 82 | 8 | options | u64, hash of the options below, by which inputs were read |
//!
//! | counts: offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 8 | keys | u64, keys taken |
//! | 8 | 8 | new | u64, those of them that were not seen before |
//! | 16 | 8 | refused | u64, those of the new keys that the filter had no room for |
//! | 24 | 8 | empty | u64, records skipped because their key is empty |
//! | 32 | 8 | too_long | u64, records skipped because their key is too long |
//! | 40 | 8 | no_field | u64, records that lack the field, or hold no single value in it |
//! | 48 | 8 | malformed | u64, records skipped because they are malformed |
//! | 56 | 8 | no_time | u64, records that have a key and no valid time or lifetime |
//! | 64 | 8 | late | u64, those of the keys that were late |
//! | 72 | 8 | early | u64, those of the keys that were early |
//!
//! `refused` is at most `new`, and `new`, `late` and `early` together are at most `keys`.
//!
//! A job does not read a finished input again. If its settings changed, the keys of that input would stay what they were
//! under the old ones. So a run whose settings have another hash is refused, unless nothing was read yet.
//!
//! Then the outputs that there are, in the order of their flags; for each:
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 8 | path | u64, hash of its path as the job file has it |
//! | 8 | 8 | length | u64, bytes |
//! | 16 | 8 | tail | u64, hash of its last 4096 bytes, or of all if it is shorter |
//!
//! Then, if there are any, the inputs that were read in part: the one that is being read, and others that could not be
//! read to their ends. Their number, u16; and for each, where N is the length of its path:
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 2 | path_length | u16, N |
//! | 2 | N | path | bytes |
//! | N + 2 | 8 | base | u64, the byte of the file at which reading began |
//! | N + 10 | 8 | offset | u64, bytes read since then, after decompression |
//! | N + 18 | 8 | content | u64, hash of these bytes |
//! | N + 26 | 8 | lines | u64, lines that ended among these bytes |
//! | N + 34 | 80 | counts | u64[10], of this input, as above |
//!
//! `base` is 0, except for an input that has grown after it was finished: there it is the place where the data ended then.
//! In a compressed file another member or frame begins there. Before a job reads on, it reads the `offset` bytes after
//! `base` again, and compares them with `content`.
//!
//! Then the finished inputs, to the end of the value, in strictly ascending order of `path`; for each:
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 8 | path | u64, hash of its path |
//! | 8 | 8 | length | u64, bytes of the file; 2^63 more if it ended within a record |
//! | 16 | 8 | signature | u64, hash of the length as u64, of the first 65536 bytes of the file, and of the last 65536 of the rest |
//!
//! The signature is computed from the file as it is on the disk, not decompressed. It shows in constant time that another
//! file has taken the place of this one; it does not show a change in the middle of the file.
//!
//! `options` is the hash of the settings in the `[input]` table of the job file that say what a key is:
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 1 | trim | u8, 0 or 1 |
//! | 1 | 1 | skip_empty | u8, 0 or 1 |
//! | 2 | 8 | max_key_length | u64, bytes |
//! | 10 | 1 | format | u8: 0 lines or NUL, 1 CSV, 2 JSON Lines |
//! | 11 | rest | record | lines or NUL: the byte that ends a record. CSV: `delimiter`, 1 byte; then a byte, 1 if there is a header, plus 2 if a quote is a character like any other; then for each column of the key 0 and its number, from 0, as u64, or 1 and its name. JSON Lines: the names that lead to the field. Before each name stands its length as u64. If records have times: CSV: the column of the time like one of the key, with 2 in place of 0 and 3 in place of 1. JSON Lines: u64 2^64 - 1, and the names that lead to the time. If records have lifetimes: the same with 4 and 5, and 2^64 - 2 |

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::content::Position;
use super::inputs::InputId;
use super::signature::Signature;
use super::summary::Tally;
use gowk::Metadata;

const PREFIX: &str = "ingest/";
const VERSION: u8 = 1;
const ALL_READ: u8 = 1;
const HAS_PARTLY: u8 = 2;
/// For each kind of output, whether there is one.
const HAS_OUTPUT: [u8; 3] = [4, 8, 16];
const KNOWN: u8 = 31;
/// How many inputs are remembered as read in part at most. Once this many are damaged, the next damaged input ends the
/// run.
pub(super) const MOST_PARTLY: usize = 4;
/// How many bytes each finished input takes.
pub(super) const PER_INPUT: usize = 24;
/// Counts, lengths and offsets are below this. Real ones never come near it, and a sum of a few does not overflow.
const MOST: u64 = 1 << 60;
/// Added to the length of a finished input that ended within a record.
const WITHIN: u64 = 1 << 63;

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Cursor {
    pub(super) all_read: bool,
    pub(super) total: Tally,
    /// The hash of the options for reading inputs.
    pub(super) options: u64,
    /// The output of each [`OutputKind`](super::job::OutputKind).
    pub(super) outputs: [Option<Written>; 3],
    /// The inputs that were read in part: the current input, and others that could not be read to their ends.
    pub(super) partly: Vec<Partly>,
    /// Sorted by id.
    pub(super) finished: Vec<(InputId, Finished)>,
}

/// The committed part of an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Written {
    pub(super) path: InputId,
    pub(super) length: u64,
    /// The hash of the output's last bytes.
    pub(super) tail: u64,
}

/// An input read in part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Partly {
    pub(super) name: PathBuf,
    pub(super) read: Position,
    pub(super) tally: Tally,
}

/// An input read to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Finished {
    /// The length of the file.
    pub(super) length: u64,
    pub(super) signature: Signature,
    pub(super) within_record: bool,
}

/// The name of the job's metadata entry.
pub(super) fn entry(job: &str) -> String {
    format!("{PREFIX}{job}")
}

/// The job whose metadata entry this is.
pub(super) fn job_of(entry: &str) -> Option<&str> {
    entry.strip_prefix(PREFIX)
}

/// The jobs that the filter remembers, with the number of bytes that each takes.
pub(super) fn jobs(metadata: &Metadata) -> Vec<(String, usize)> {
    let job = |(entry, value): (&str, &[u8])| Some((job_of(entry)?.to_owned(), value.len()));
    metadata.iter().filter_map(job).collect()
}

impl Partly {
    pub(super) fn id(&self) -> InputId {
        InputId::of(&self.name)
    }
}

impl Cursor {
    /// The input of this id, if it was read to the end.
    pub(super) fn finished(&self, id: InputId) -> Option<&Finished> {
        let place = self.place(id).ok()?;
        self.finished.get(place).map(|(_, finished)| finished)
    }

    /// The input of this id, if it was read in part.
    pub(super) fn partly(&self, id: InputId) -> Option<&Partly> {
        self.partly.iter().find(|input| input.id() == id)
    }

    /// Records how far an input is read.
    pub(super) fn read(&mut self, input: Partly) {
        self.partly.retain(|other| other.id() != input.id());
        self.partly.push(input);
    }

    /// Forgets an input, so that it will be read from the start.
    pub(super) fn restart(&mut self, id: InputId) {
        self.partly.retain(|input| input.id() != id);
        self.finished.retain(|(other, _)| *other != id);
    }

    /// Records that an input was read to the end.
    pub(super) fn finish(&mut self, id: InputId, finished: Finished) {
        self.partly.retain(|input| input.id() != id);
        match self.place(id) {
            Ok(place) => self.finished[place].1 = finished,
            Err(place) => self.finished.insert(place, (id, finished)),
        }
    }

    fn place(&self, id: InputId) -> Result<usize, usize> {
        self.finished.binary_search_by_key(&id, |(other, _)| *other)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let outputs = self.outputs.iter().zip(HAS_OUTPUT);
        let flags = flag(self.all_read, ALL_READ)
            | flag(!self.partly.is_empty(), HAS_PARTLY)
            | outputs.map(|(output, has)| flag(output.is_some(), has)).sum::<u8>();
        let mut bytes = vec![VERSION, flags];
        put(&mut bytes, &numbers(&self.total));
        put(&mut bytes, &[self.options]);
        for Written { path, length, tail } in self.outputs.iter().flatten() {
            put(&mut bytes, &[path.0, *length, *tail]);
        }
        if !self.partly.is_empty() {
            bytes.extend((self.partly.len() as u16).to_le_bytes());
        }
        for Partly { name, read, tally } in &self.partly {
            let name = name.as_os_str().as_bytes();
            // Linux has no paths longer than 4096 bytes.
            bytes.extend((name.len() as u16).to_le_bytes());
            bytes.extend(name);
            put(&mut bytes, &[read.base, read.offset, read.digest, read.lines]);
            put(&mut bytes, &numbers(tally));
        }
        for (id, Finished { length, signature, within_record }) in &self.finished {
            let length = length | if *within_record { WITHIN } else { 0 };
            put(&mut bytes, &[id.0, length, signature.0]);
        }
        bytes
    }

    /// `None` if the bytes are not a cursor of this version.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = Rest(bytes);
        let [version, flags] = *rest.take(2)? else { return None };
        if version != VERSION || flags & !KNOWN != 0 {
            return None;
        }
        let (all_read, total, options) = (flags & ALL_READ != 0, rest.tally()?, rest.number()?);
        let mut cursor = Self { all_read, total, options, ..Self::default() };
        for (output, has) in cursor.outputs.iter_mut().zip(HAS_OUTPUT) {
            if flags & has != 0 {
                *output = Some(rest.written()?);
            }
        }
        if flags & HAS_PARTLY != 0 {
            let [low, high] = *rest.take(2)? else { return None };
            for _ in 0..u16::from_le_bytes([low, high]) {
                cursor.partly.push(rest.partly()?);
            }
        }
        while !rest.0.is_empty() {
            let (id, length, hash) = (InputId(rest.number()?), rest.number()?, rest.number()?);
            if cursor.finished.last().is_some_and(|(last, _)| *last >= id) {
                return None;
            }
            let (length, within_record) = (amount(length & !WITHIN)?, length & WITHIN != 0);
            cursor.finished.push((id, Finished { length, signature: Signature(hash), within_record }));
        }
        Some(cursor)
    }

    /// How many bytes the cursor can take at most while these inputs are read: all of them finished, and up to
    /// [`MOST_PARTLY`] with the longest names read in part.
    pub(super) fn length_with<'a>(&self, inputs: impl Iterator<Item = (InputId, &'a Path)>) -> usize {
        let (mut more, mut names) = (0, Vec::new());
        for (id, name) in inputs {
            more += usize::from(self.finished(id).is_none()) * PER_INPUT;
            names.push(name.as_os_str().len());
        }
        names.sort_unstable_by(|one, other| other.cmp(one));
        const PARTLY: usize = 2 + 112;
        let partly: usize = names.iter().take(MOST_PARTLY).map(|name| PARTLY + name).sum();
        self.encode().len() + more + 2 + partly
    }
}

fn put(bytes: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
}

const fn numbers(tally: &Tally) -> [u64; 10] {
    let Tally { keys, new, refused, empty, too_long, no_field, malformed, no_time, late, early } = *tally;
    [keys, new, refused, empty, too_long, no_field, malformed, no_time, late, early]
}

fn amount(number: u64) -> Option<u64> {
    (number < MOST).then_some(number)
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn amount(&mut self) -> Option<u64> {
        self.number().and_then(amount)
    }

    fn written(&mut self) -> Option<Written> {
        Some(Written { path: InputId(self.number()?), length: self.amount()?, tail: self.number()? })
    }

    fn tally(&mut self) -> Option<Tally> {
        let (keys, new, refused) = (self.amount()?, self.amount()?, self.amount()?);
        let (empty, too_long) = (self.amount()?, self.amount()?);
        let (no_field, malformed, no_time) = (self.amount()?, self.amount()?, self.amount()?);
        let (late, early) = (self.amount()?, self.amount()?);
        let tally = Tally { keys, new, refused, empty, too_long, no_field, malformed, no_time, late, early };
        (refused <= new && new + late + early <= keys).then_some(tally)
    }

    fn partly(&mut self) -> Option<Partly> {
        let [low, high] = *self.take(2)? else { return None };
        let name = PathBuf::from(OsStr::from_bytes(self.take(u16::from_le_bytes([low, high]).into())?));
        let (base, offset) = (self.amount()?, self.amount()?);
        let (digest, lines) = (self.number()?, self.amount()?);
        let read = Position { base, offset, digest, lines };
        Some(Partly { name, read, tally: self.tally()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Cursor {
        let (keys, new, refused, late, early) = (9, 4, 2, 3, 1);
        let (empty, too_long, no_field, malformed, no_time) = (3, 2, 1, 6, 7);
        let tally = Tally { keys, new, refused, empty, too_long, no_field, malformed, no_time, late, early };
        let read = Position { base: 1, offset: 2, digest: 3, lines: 4 };
        let finished = |n: u64| Finished {
            length: n << 40,
            signature: Signature(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            within_record: n % 2 == 1,
        };
        Cursor {
            all_read: true,
            total: tally,
            options: 10,
            outputs: [7, 17, 27].map(|n| Some(Written { path: InputId(n), length: n + 1, tail: n + 2 })),
            partly: ["urls/a.gz", "urls/b"].map(|name| Partly { name: name.into(), read, tally }).into(),
            finished: (0..3).map(|n| (InputId(n), finished(n))).collect(),
        }
    }

    #[test]
    fn what_is_encoded_is_decoded_and_has_the_documented_length() {
        let full = full();
        assert_eq!(Cursor::decode(&full.encode()), Some(full.clone()));
        assert_eq!(
            full.encode().len(),
            2 + 88 + 3 * 24 + 2 + 2 * (2 + 112) + "urls/a.gzurls/b".len() + 3 * 24
        );
        let empty = Cursor::default();
        assert_eq!(Cursor::decode(&empty.encode()), Some(empty.clone()));
        assert_eq!(empty.encode().len(), 90);
    }

    #[test]
    fn every_cut_and_what_is_unknown_is_rejected() {
        let bytes = full().encode();
        let whole = bytes.len() - 3 * PER_INPUT;
        for cut in (0..bytes.len()).filter(|cut| *cut < whole || !(cut - whole).is_multiple_of(PER_INPUT)) {
            assert_eq!(Cursor::decode(&bytes[..cut]), None, "{cut}");
        }
        for (at, value) in [(0, 2), (1, 63), (2, 3), (10, 1), (18, 5), (66, 5)] {
            let mut changed = bytes.clone();
            changed[at] = value;
            assert_eq!(Cursor::decode(&changed), None, "{at}");
        }
        let (rest, last) = bytes.split_at(bytes.len() - PER_INPUT);
        assert_eq!(Cursor::decode(&[rest, last, last].concat()), None);
    }

    /// Found by fuzzing: sums of counts overflowed.
    #[test]
    fn counts_and_lengths_that_nothing_can_have_are_rejected() {
        for number in [u64::MAX, MOST] {
            let tally =
                Tally { keys: number, empty: number, too_long: number, malformed: number, ..full().total };
            let read = Position { base: number, offset: number, digest: number, lines: number };
            let changes: [fn(&mut Cursor, Tally, Position); 9] = [
                |cursor, tally, _| cursor.total.keys = tally.keys,
                |cursor, tally, _| cursor.total.malformed = tally.malformed,
                |cursor, tally, _| cursor.outputs[0].as_mut().unwrap().length = tally.keys,
                |cursor, tally, _| cursor.outputs[2].as_mut().unwrap().length = tally.keys,
                |cursor, tally, _| cursor.partly[1].tally.empty = tally.empty,
                |cursor, tally, _| cursor.partly[1].tally.too_long = tally.too_long,
                |cursor, _, read| cursor.partly[1].read.base = read.base,
                |cursor, _, read| cursor.partly[1].read.offset = read.offset,
                |cursor, _, read| cursor.partly[1].read.lines = read.lines,
            ];
            for (which, change) in changes.iter().enumerate() {
                let mut cursor = full();
                change(&mut cursor, tally, read);
                assert_eq!(Cursor::decode(&cursor.encode()), None, "{which}");
            }
            let mut cursor = full();
            let finished = &mut cursor.finished[0].1;
            (finished.length, finished.within_record) = (number & !WITHIN, true);
            assert_eq!(Cursor::decode(&cursor.encode()), None);
        }
    }

    #[test]
    fn finishing_an_input_never_needs_more_than_was_foreseen() {
        let mut cursor = full();
        let name = Path::new("urls/a.gz");
        let foreseen = cursor.length_with(std::iter::once((InputId::of(name), name)));
        assert!(cursor.encode().len() <= foreseen);
        let finished = *cursor.finished(InputId(0)).unwrap();
        cursor.finish(InputId::of(name), finished);
        assert!(cursor.encode().len() <= foreseen);
    }
}
