//! Invariants checked:
//!
//! 1. Header, frames, records and COMMIT data lie as the tables of `format-spec/README.md` 6.2 and 6.3 say.
//! 2. A scan finds appended transactions again, word for word, for any division into frames.
//! 3. Damage never changes a transaction. After any flipped bit, any cut, any mixture of old and new frames, the
//!    transactions that count are the first of those written, unchanged. If later ones lie after the damage, the scan
//!    reports a broken journal and says which commits are lost.
//! 4. The search for later commits finds the same as trying each place in turn, but reads a number of bytes that is
//!    linear in the journal's length.

use std::os::unix::fs::FileExt;
use std::path::Path;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::scan::{Broken, Commit, scan_source};
use super::*;
use crate::cuckoo::MAX_REGIONS;
use crate::error::{Error, JournalDefect};
use crate::format::PAGES_PER_REGION;
use crate::format::VERSION;
use crate::format::frame::{FRAME_CRC_AT, HEADER_MAGIC, MAX_PAYLOAD};
use crate::format::tests::{assert_parts, counts, counts_by_table, parts, says};
use crate::system::SystemDisk;

const HEADER_OF_TESTS: Header = Header { uuid: *b"sixteen bytes...", generation: 3, salt: 0x5a17, base: 40 };

/// A frame's header with fields that can be set to anything.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Forged {
    magic: [u8; 8],
    salt: U64,
    commit: U64,
    order: U32,
    flags: U32,
    payload: U32,
    records: U32,
    previous: U32,
    reserved: [u8; 16],
    crc: U32,
}

impl Forged {
    fn crc_with(&self, payload: &[u8]) -> u32 {
        crc32fast::hash(&[&self.as_bytes()[..FRAME_CRC_AT], payload].concat())
    }

    /// Section 6.3: the length of the frame with its padding, if all but its CRC is right.
    fn length(&self, salt: u64, room: u64) -> Option<u64> {
        let payload = self.payload.get() as usize;
        let length = (FRAME_HEADER + payload).next_multiple_of(FRAME_ALIGN as usize) as u64;
        let right = self.magic == FRAME_MAGIC && self.salt == salt && self.reserved == [0; 16];
        (right && payload <= MAX_PAYLOAD && length <= room).then_some(length)
    }
}

/// Changed words of a page, with their index in it.
type Words = Vec<(u32, u64)>;

/// The changes of a transaction: pages, each with its words, divided into frames; and its metadata.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Transaction {
    frames: Vec<Vec<(u64, Words)>>,
    metadata: Option<Vec<u8>>,
}

/// A transaction that a scan found: the words of each page, its counters and metadata.
type Found = (Vec<(u64, u32, Words)>, Counts, Option<Vec<u8>>);

struct Written {
    _dir: tempfile::TempDir,
    files: Files,
    journal: Journal,
}

fn crc_of(page: u64) -> u32 {
    0xc0de_0000 ^ page as u32
}

fn counts_of(commit: u64) -> Counts {
    Counts { inserted: commit * 1000, ..counts() }
}

impl Written {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::new(&dir.path().join("f")).unwrap();
        let model = Rights::of(&File::open(dir.path()).unwrap()).unwrap();
        let journal = Journal::create(&files, &SystemDisk, &model, HEADER_OF_TESTS).unwrap();
        Self { _dir: dir, files, journal }
    }

    /// Appends a transaction. Each of its lists of pages becomes a frame of its own.
    fn append(&mut self, commit: u64, transaction: &Transaction) {
        self.append_to(&SystemDisk, commit, transaction);
    }

    fn append_to(&mut self, disk: &dyn Disk, commit: u64, transaction: &Transaction) {
        let mut append = self.journal.begin(&self.files, disk, commit);
        for (number, frame) in transaction.frames.iter().enumerate() {
            if number > 0 {
                append.write(false).unwrap();
            }
            for (page, words) in frame {
                let mut changed = PageBits::default();
                let mut whole = [0; BUCKETS_PER_PAGE as usize];
                for (index, word) in words {
                    changed[*index as usize / 64] |= 1 << (index % 64);
                    whole[*index as usize] = *word;
                }
                append.page(PageId(*page), &changed, crc_of(*page), &whole).unwrap();
            }
        }
        append.finish(&counts_of(commit), transaction.metadata.as_deref()).unwrap();
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.files.journal).unwrap()
    }
}

/// A file to change and to scan.
struct Scanned(File);

impl Scanned {
    fn new(bytes: &[u8]) -> Self {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        Self(file)
    }

    fn scan(&self) -> Result<Scan> {
        scan(&self.0, Path::new("f-journal"), HEADER_OF_TESTS.salt, HEADER_OF_TESTS.base)
    }

    /// The transactions that count, and the break, if any.
    fn transactions(&self) -> (Vec<Found>, Option<Broken>) {
        let scan = self.scan().unwrap();
        let mut transactions = Vec::new();
        let mut pages = Vec::new();
        for at in &scan.frames {
            let bytes = read_frame(&self.0, *at).unwrap();
            let content = Content::of_counted(&bytes, *at).unwrap();
            pages.extend(content.records.iter().map(|r| (r.page.0, r.crc, r.words().collect())));
            if let Some(Commit { counts, metadata }) = content.commit {
                let metadata = metadata.map(<[u8]>::to_vec);
                transactions.push((std::mem::take(&mut pages), counts, metadata));
            }
        }
        assert!(pages.is_empty(), "frames of a transaction that does not count");
        assert_eq!(scan.last, transactions.len().checked_sub(1).map(|n| HEADER_OF_TESTS.base + 1 + n as u64));
        (transactions, scan.broken)
    }
}

fn found_of(commit: u64, transaction: &Transaction) -> Found {
    let pages = transaction.frames.iter().flatten();
    let pages = pages.map(|(page, words)| (*page, crc_of(*page), words.clone())).collect();
    (pages, counts_of(commit), transaction.metadata.clone())
}

fn some_words(count: u32, seed: u64) -> Words {
    let step = (BUCKETS_PER_PAGE / count.max(1)).max(1);
    (0..count).map(|k| (k * step, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(k))).collect()
}

/// Four transactions, of one to three frames, with few and many words, with and without metadata.
fn transactions() -> [Transaction; 4] {
    [
        Transaction { frames: vec![vec![(0, some_words(1, 1)), (7, some_words(3, 2))]], metadata: None },
        Transaction {
            frames: vec![
                vec![(1, some_words(2, 3))],
                vec![(2, some_words(5, 4))],
                vec![(9, some_words(4, 5))],
            ],
            metadata: Some(b"\x01\0\0\0\x02\0\0\0kvv".to_vec()),
        },
        Transaction { frames: vec![vec![(3, some_words(70, 6))], vec![]], metadata: Some(Vec::new()) },
        Transaction { frames: vec![vec![]], metadata: None },
    ]
}

/// The journal of `transactions()`, and where each of them ends.
fn written(transactions: &[Transaction]) -> (Vec<u8>, Vec<usize>) {
    let mut written = Written::new();
    let ends = (HEADER_OF_TESTS.base + 1..).zip(transactions).map(|(commit, transaction)| {
        written.append(commit, transaction);
        (HEADER + written.journal.length()) as usize
    });
    let ends = ends.collect();
    (written.bytes(), ends)
}

fn all_found(transactions: &[Transaction]) -> Vec<Found> {
    (HEADER_OF_TESTS.base + 1..).zip(transactions).map(|(commit, t)| found_of(commit, t)).collect()
}

#[test]
fn the_header_lies_as_the_table_says() {
    let bytes = HEADER_OF_TESTS.encode();
    assert_parts(&bytes, &parts("6.2", 0, &[]), |field| match field {
        "magic" => HEADER_MAGIC.to_vec(),
        "major" => VERSION.0.to_le_bytes().to_vec(),
        "minor" => VERSION.1.to_le_bytes().to_vec(),
        "generation" => vec![3],
        "uuid" => b"sixteen bytes...".to_vec(),
        "salt" => vec![0x17, 0x5a],
        "base" => vec![40],
        "crc" => crc32fast::hash(&bytes[..HEADER_CRC_AT]).to_le_bytes().to_vec(),
        unused if unused.starts_with("unused") => vec![],
        other => panic!("the table has a new field: {other}"),
    });
    let (header, crc) = Header::decode(Path::new("f"), &bytes).unwrap().unwrap();
    assert_eq!((header, crc.to_le_bytes().as_slice()), (HEADER_OF_TESTS, &bytes[HEADER_CRC_AT..]));
}

#[test]
fn frames_lie_as_the_tables_say() {
    let words = some_words(3, 9);
    let metadata = b"\x01\0\0\0\x02\0\0\0kvv".to_vec();
    let transaction = Transaction {
        frames: vec![vec![(5, words.clone())], vec![(6, words.clone())]],
        metadata: Some(metadata.clone()),
    };
    let (bytes, _) = written(&[transaction]);
    let mut previous = bytes[HEADER_CRC_AT..HEADER as usize].to_vec();
    let mut at = HEADER as usize;
    for (order, page) in [(0, 5u8), (1, 6)] {
        let frame = &bytes[at..];
        let last = order == 1;
        let rows = parts("6.3", 1, &[("count", 3)]);
        let record: usize = rows.iter().map(|row| row.size).sum();
        let end = if last { 304 + 16 } else { 0 };
        let payload = record + end;
        let crc = frame[60..64].to_vec();
        assert_parts(&frame[..FRAME_HEADER], &parts("6.3", 0, &[]), |field| match field {
            "magic" => FRAME_MAGIC.to_vec(),
            "salt" => vec![0x17, 0x5a],
            "commit" => vec![41],
            "order" => vec![order],
            "flags" => vec![u8::from(last)],
            "payload" => (payload as u32).to_le_bytes().to_vec(),
            "records" => vec![1],
            "previous" => previous.clone(),
            "reserved" => vec![],
            "crc" => crc.clone(),
            other => panic!("the table has a new field: {other}"),
        });
        let sealed = [&frame[..FRAME_CRC_AT], &frame[FRAME_HEADER..FRAME_HEADER + payload]].concat();
        assert_eq!(crc32fast::hash(&sealed).to_le_bytes().as_slice(), crc);
        assert_parts(&frame[FRAME_HEADER..FRAME_HEADER + record], &rows, |field| match field {
            "page" => vec![page],
            "crc" => crc_of(page.into()).to_le_bytes().to_vec(),
            "count" => vec![3],
            "indices" => words.iter().flat_map(|(index, _)| (*index as u16).to_le_bytes()).collect(),
            "words" => words.iter().flat_map(|(_, word)| word.to_le_bytes()).collect(),
            other => panic!("the table has a new field: {other}"),
        });
        if last {
            let names = [("metadata_length", metadata.len() as u64)];
            let rows = parts("6.3", 2, &names);
            assert_parts(&frame[FRAME_HEADER + record..FRAME_HEADER + payload], &rows, |field| match field {
                "counts" => counts_by_table(&counts_of(41)),
                "has_metadata" => vec![1],
                "metadata_length" => vec![metadata.len() as u8],
                "metadata" => metadata.clone(),
                other => panic!("the table has a new field: {other}"),
            });
        }
        let length = (FRAME_HEADER + payload).next_multiple_of(FRAME_ALIGN as usize);
        assert!(frame[FRAME_HEADER + payload..length].iter().all(|byte| *byte == 0));
        (previous, at) = (crc, at + length);
    }
    assert_eq!(at, bytes.len());
}

#[test]
fn a_page_is_written_whole_where_that_is_shorter() {
    assert!(says(&format!("gowk does so from {} on, where that is shorter", MOST_PAIRS + 1)));
    let whole = size_of::<RawRecord>() + 8 * BUCKETS_PER_PAGE as usize;
    let pairs = |count| size_of::<RawRecord>() + indices_size(count) + 8 * count;
    assert!(pairs(MOST_PAIRS) <= whole && pairs(MOST_PAIRS + 1) > whole);
    for count in [1, 2, 3, 4, 5, MOST_PAIRS, MOST_PAIRS + 1, 511, 512] {
        let words: Words = (0..count as u32).map(|i| (i, u64::from(i) * 3 + 1)).collect();
        let transaction = Transaction { frames: vec![vec![(4, words.clone())]], metadata: None };
        let (bytes, _) = written(&[transaction]);
        let (found, broken) = Scanned::new(&bytes).transactions();
        let [(pages, ..)] = found.as_slice() else { panic!("{found:?}") };
        let [(4, _, found_words)] = pages.as_slice() else { panic!("{pages:?}") };
        assert_eq!(found_words[..count], words);
        assert_eq!(found_words.len(), if count > MOST_PAIRS { 512 } else { count });
        assert_eq!(broken, None);
    }
}

#[test]
fn what_is_appended_is_found_again() {
    let transactions = transactions();
    let (bytes, ends) = written(&transactions);
    assert_eq!(Scanned::new(&bytes).transactions(), (all_found(&transactions), None));
    assert_eq!(ends.last(), Some(&bytes.len()));
}

#[test]
fn a_large_transaction_is_divided_into_frames_of_the_limit() {
    let words: Words = (0..BUCKETS_PER_PAGE).map(|i| (i, u64::from(i) << 40)).collect();
    let pages = MAX_PAYLOAD as u64 / 4112 + 3;
    let mut transaction =
        Transaction { frames: vec![(0..pages).map(|page| (page, words.clone())).collect()], metadata: None };
    let written = |transaction: &Transaction| {
        let mut written = Written::new();
        written.append_to(&Limited(MAX_PAYLOAD), HEADER_OF_TESTS.base + 1, transaction);
        written.bytes()
    };
    let bytes = written(&transaction);
    let scanned = Scanned::new(&bytes);
    assert_eq!(scanned.transactions(), (all_found(std::slice::from_ref(&transaction)), None));
    let payloads: Vec<usize> = scanned.scan().unwrap().frames.iter().map(|frame| frame.payload).collect();
    assert_eq!(payloads.len(), 2);
    assert!(payloads[0] <= MAX_PAYLOAD && payloads[0] + 4112 > MAX_PAYLOAD, "{payloads:?}");
    // If only the end of the COMMIT frame does not fit, it moves into a frame of its own.
    let full = MAX_PAYLOAD as u64 / 4112;
    transaction.frames[0].truncate(full as usize);
    let rest = (MAX_PAYLOAD as u64 - full * 4112 - 16) / 10;
    transaction.frames[0].push((full, some_words(rest as u32 / 4 * 4, 1)));
    let bytes = written(&transaction);
    let scanned = Scanned::new(&bytes);
    assert_eq!(scanned.transactions(), (all_found(std::slice::from_ref(&transaction)), None));
    assert_eq!(scanned.scan().unwrap().frames.len(), 2);
}

/// A disk on which frames get another length.
#[derive(Debug)]
struct Limited(usize);

impl Disk for Limited {
    fn frame_limit(&self) -> usize {
        self.0
    }
}

/// A reader would refuse a longer frame, and with it the commit.
#[test]
fn no_frame_is_longer_than_the_limit_whatever_its_records_are() {
    let pages = (0..40).zip([1, 2, 3, 5, 9, 17, 30].into_iter().cycle());
    let pages: Vec<_> = pages.map(|(page, count)| (page, some_words(count, page + 1))).collect();
    for limit in (640..1200).step_by(8) {
        let mut written = Written::new();
        let metadata = [None, Some(Vec::new()), Some(vec![1; 100]), Some(vec![1; 300])];
        let transactions = metadata.map(|metadata| Transaction { frames: vec![pages.clone()], metadata });
        for (commit, transaction) in (HEADER_OF_TESTS.base + 1..).zip(&transactions) {
            written.append_to(&Limited(limit), commit, transaction);
        }
        let scanned = Scanned::new(&written.bytes());
        assert_eq!(scanned.transactions(), (all_found(&transactions), None), "{limit}");
        let longest = scanned.scan().unwrap().frames.iter().map(|frame| frame.payload).max();
        assert!(longest.is_some_and(|longest| longest <= limit), "{longest:?} of {limit}");
    }
}

/// Every other read is interrupted; the others return three bytes.
struct Interrupted(std::cell::Cell<usize>);

impl FileExt for Interrupted {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.set(self.0.get() + 1);
        if self.0.get() % 2 == 1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let count = 3.min(into.len()).min(10 - offset as usize);
        into[..count].fill(7);
        Ok(count)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Every read fails.
struct Unreadable(std::cell::Cell<u32>);

impl FileExt for Unreadable {
    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        self.0.set(self.0.get() + 1);
        assert!(self.0.get() < 10, "it is read again and again");
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[test]
fn a_read_that_is_interrupted_goes_on_and_one_that_fails_does_not() {
    let mut bytes = [0; 16];
    assert_eq!(read_up_to(&Interrupted(Default::default()), &mut bytes, 0).unwrap(), 10);
    assert_eq!(bytes[..11], [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0]);
    let failed = read_up_to(&Unreadable(Default::default()), &mut bytes, 0).unwrap_err();
    assert_eq!(failed.kind(), io::ErrorKind::PermissionDenied);
}

/// Otherwise the journal's commits would be lost.
#[test]
fn a_journal_that_cannot_be_opened_is_not_taken_for_none() {
    let written = Written::new();
    std::fs::remove_file(&written.files.journal).unwrap();
    assert!(open(&written.files, false).unwrap().is_none());
    assert!(!holds_anything(&written.files).unwrap());
    std::os::unix::fs::symlink(&written.files.journal, &written.files.journal).unwrap();
    assert!(matches!(open(&written.files, false), Err(Error::Untrusted { .. })));
    assert!(matches!(holds_anything(&written.files), Err(Error::Untrusted { .. })));
}

#[test]
fn no_flipped_bit_changes_a_transaction() {
    let transactions = transactions();
    let (bytes, ends) = written(&transactions);
    let all = all_found(&transactions);
    let scanned = Scanned::new(&bytes);
    for bit in 0..8 * bytes.len() {
        let at = bit / 8;
        scanned.0.write_all_at(&[bytes[at] ^ 1 << (bit % 8)], at as u64).unwrap();
        let (found, broken) = scanned.transactions();
        assert_eq!(found, all[..found.len()], "bit {bit}");
        if at < HEADER as usize {
            // Without its header, frames that continue the superblock still count.
            assert_eq!((found.len(), broken), (all.len(), None), "bit {bit}");
            assert!(scanned.scan().unwrap().header.is_none());
        } else {
            let hit = ends.iter().position(|end| at < *end).unwrap();
            assert!(found.len() == hit || found.len() == all.len() && is_padding(&bytes, at), "bit {bit}");
            let lost = found.len() < all.len() - 1;
            let first = HEADER_OF_TESTS.base + 1 + found.len() as u64;
            let last = HEADER_OF_TESTS.base + all.len() as u64;
            assert_eq!(
                broken.map(|broken| (broken.first, broken.last)),
                lost.then_some((first, last)),
                "bit {bit}"
            );
        }
        scanned.0.write_all_at(&bytes[at..=at], at as u64).unwrap();
    }
}

/// Whether a byte of the journal lies after a frame's payload.
fn is_padding(bytes: &[u8], at: usize) -> bool {
    let frames = Scanned::new(bytes).scan().unwrap().frames;
    let frame = frames.iter().rfind(|frame| frame.offset as usize <= at).unwrap();
    at >= frame.offset as usize + FRAME_HEADER + frame.payload
}

#[test]
fn a_journal_cut_anywhere_holds_the_transactions_that_are_whole() {
    let transactions = transactions();
    let (bytes, ends) = written(&transactions);
    let all = all_found(&transactions);
    for cut in 0..bytes.len() {
        let scanned = Scanned::new(&bytes[..cut]);
        let whole = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(scanned.transactions(), (all[..whole].to_vec(), None), "cut at {cut}");
        assert_eq!(scanned.scan().unwrap().header.is_some(), cut >= HEADER as usize);
    }
}

#[test]
fn a_journal_with_any_sector_lost_is_cut_or_broken_there() {
    let transactions = transactions();
    let (bytes, ends) = written(&transactions);
    let all = all_found(&transactions);
    for fill in [0, 0xff] {
        for at in (HEADER as usize..bytes.len()).step_by(512) {
            let mut bytes = bytes.clone();
            bytes[at..at + 512].fill(fill);
            let hit = ends.iter().position(|end| at < *end).unwrap();
            let (found, broken) = Scanned::new(&bytes).transactions();
            assert_eq!(found, all[..hit], "sector at {at}");
            assert_eq!(broken.is_some(), hit + 1 < all.len(), "sector at {at}");
        }
    }
}

#[test]
fn frames_of_two_attempts_at_one_commit_never_mix() {
    let attempt = |seed| Transaction {
        frames: vec![
            vec![(1, some_words(20, seed))],
            vec![(5, some_words(20, seed + 1))],
            vec![(9, some_words(20, seed + 2))],
        ],
        metadata: None,
    };
    let first = Transaction { frames: vec![vec![(0, some_words(1, 1))]], metadata: None };
    let (one, ends) = written(&[first.clone(), attempt(2)]);
    let (two, _) = written(&[first.clone(), attempt(7)]);
    let frames = Scanned::new(&one).scan().unwrap().frames;
    assert_eq!(frames.len(), 4);
    let kept = all_found(std::slice::from_ref(&first));
    // A crash can leave any sectors of the second attempt over the first attempt.
    for mixture in 0..8 {
        let mut bytes = one.clone();
        for (number, frame) in frames[1..].iter().enumerate().filter(|(number, _)| mixture >> number & 1 == 1)
        {
            let range = frame.offset as usize..(frame.offset + frame.length) as usize;
            bytes[range.clone()].copy_from_slice(&two[range]);
            assert!(number < 3);
        }
        let (found, broken) = Scanned::new(&bytes).transactions();
        let expected = match mixture {
            0 => all_found(&[first.clone(), attempt(2)]),
            7 => all_found(&[first.clone(), attempt(7)]),
            _ => kept.clone(),
        };
        assert_eq!((found, broken), (expected, None), "mixture {mixture:#b}");
    }
    // A shorter second attempt, followed by the rest of the first.
    let short = Transaction { frames: vec![vec![(1, some_words(20, 30))]], metadata: None };
    let (three, _) = written(&[first.clone(), short.clone()]);
    let mut bytes = one.clone();
    bytes[ends[0]..three.len()].copy_from_slice(&three[ends[0]..]);
    assert_eq!(Scanned::new(&bytes).transactions(), (all_found(&[first, short]), None));
}

#[test]
fn frames_from_before_a_reset_do_not_count() {
    let transactions = transactions();
    let mut written = Written::new();
    for (commit, transaction) in (41..).zip(&transactions) {
        written.append(commit, transaction);
    }
    let old = written.bytes();
    let header = Header { salt: HEADER_OF_TESTS.salt + 1, base: 44, ..HEADER_OF_TESTS };
    written.journal.reset(&written.files, &SystemDisk, header).unwrap();
    assert_eq!(written.bytes(), header.encode());
    let scan_all = |bytes: &[u8]| {
        scan(&Scanned::new(bytes).0, Path::new("f-journal"), header.salt, header.base).unwrap()
    };
    // The power failed before the cut reached the medium.
    let mut bytes = old.clone();
    bytes[..HEADER as usize].copy_from_slice(&header.encode());
    let scan = scan_all(&bytes);
    assert_eq!((scan.header, scan.frames.len(), scan.broken), (Some(header), 0, None));
    // Or the power failed during the write of the header.
    bytes[..HEADER as usize / 2].copy_from_slice(&old[..HEADER as usize / 2]);
    let scan = scan_all(&bytes);
    assert_eq!((scan.header, scan.frames.len(), scan.broken), (None, 0, None));
    // A commit appended after the reset counts, and old frames after it do not.
    written.append(45, &transactions[0]);
    let mut bytes = written.bytes();
    bytes.extend_from_slice(&old[bytes.len()..]);
    let scan = scan_all(&bytes);
    assert_eq!((scan.frames.len(), scan.last, scan.broken), (1, Some(45), None));
}

/// Scans a journal with one transaction and, at its end, the frame with its fields changed and sealed again.
fn scan_changed(change: impl Fn(&mut Forged, &mut Vec<u8>)) -> (Vec<Found>, Option<Broken>) {
    let first = Transaction { frames: vec![vec![(2, some_words(3, 1))]], metadata: None };
    let second = Transaction { frames: vec![vec![(5, some_words(3, 1))]], metadata: Some(b"abc".to_vec()) };
    let (mut bytes, ends) = written(&[first, second]);
    let frame = bytes.split_off(ends[0]);
    let (mut raw, payload) = Forged::read_from_prefix(&frame).unwrap();
    let mut payload = payload[..raw.payload.get() as usize].to_vec();
    change(&mut raw, &mut payload);
    raw.crc = raw.crc_with(&payload).into();
    bytes.extend_from_slice(raw.as_bytes());
    bytes.extend_from_slice(&payload);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    Scanned::new(&bytes).transactions()
}

#[test]
fn a_frame_that_breaks_any_single_rule_does_not_count() {
    type Change = fn(&mut Forged, &mut Vec<u8>);
    assert_eq!(scan_changed(|_, _| {}).0.len(), 2);
    let changes: [(&str, Change); 27] = [
        ("magic", |raw, _| raw.magic[0] ^= 1),
        ("salt", |raw, _| raw.salt += 1),
        ("reserved", |raw, _| raw.reserved[15] = 1),
        ("an earlier commit", |raw, _| raw.commit -= 1),
        ("order", |raw, _| raw.order += 1),
        ("flags", |raw, _| raw.flags = 3.into()),
        ("not a COMMIT", |raw, _| raw.flags = 0.into()),
        ("previous", |raw, _| raw.previous ^= U32::new(1)),
        ("payload beyond the end", |raw, _| raw.payload += 512),
        ("payload beyond the limit", |raw, _| raw.payload = (MAX_PAYLOAD as u32 + 8).into()),
        ("a record too few", |raw, _| raw.records = 0.into()),
        ("a record too many", |raw, _| raw.records = 2.into()),
        ("records without number", |raw, _| raw.records = u32::MAX.into()),
        ("an empty record", |_, payload| payload[12] = 0),
        ("too many words", |_, payload| payload[13] = 2),
        ("an index twice", |_, payload| payload[18] = payload[16]),
        ("indices out of order", |_, payload| payload.swap(16, 18)),
        ("an index beyond the page", |_, payload| payload[20..22].copy_from_slice(&512_u16.to_le_bytes())),
        ("padding of indices", |_, payload| payload[23] = 1),
        ("metadata without a flag", |_, payload| payload[16 + 8 + 24 + 296] = 0),
        ("an unknown flag of metadata", |_, payload| payload[16 + 8 + 24 + 296] = 2),
        ("metadata beyond the end", |_, payload| payload[16 + 8 + 24 + 300] = 9),
        ("metadata without end", |_, payload| payload[16 + 8 + 24 + 308..][..4].fill(0xff)),
        ("less metadata", |_, payload| payload[16 + 8 + 24 + 300] = 2),
        ("padding of metadata", |_, payload| *payload.last_mut().unwrap() = 1),
        ("bytes left over", |raw, payload| {
            payload.extend_from_slice(&[0; 8]);
            raw.payload += 8;
        }),
        ("a payload cut short", |raw, payload| {
            payload.truncate(40);
            raw.payload = 40.into();
        }),
    ];
    for (rule, change) in changes {
        let (found, broken) = scan_changed(change);
        assert_eq!((found.len(), broken), (1, None), "{rule}");
    }
    // A later commit cannot come from a crash.
    let (found, broken) = scan_changed(|raw, _| raw.commit += 7);
    assert_eq!((found.len(), broken.map(|b| (b.first, b.last))), (1, Some((42, 49))));
}

#[test]
fn pages_ascend_over_all_frames_of_a_transaction() {
    let in_order = |pages: [u64; 3]| {
        let frames = vec![
            vec![(pages[0], some_words(1, 1)), (pages[1], some_words(1, 1))],
            vec![(pages[2], some_words(1, 1))],
        ];
        let (bytes, _) = written(&[Transaction { frames, metadata: None }]);
        Scanned::new(&bytes).transactions().0.len()
    };
    let most = MAX_REGIONS * u64::from(PAGES_PER_REGION) - 1;
    for (pages, counts) in
        [([0, 1, 2], 1), ([0, 1, most], 1), ([1, 1, 2], 0), ([2, 1, 3], 0), ([0, 2, 2], 0), ([0, 2, 1], 0)]
    {
        assert_eq!(in_order(pages), counts, "{pages:?}");
    }
}

#[test]
fn a_header_of_another_version_is_named() {
    let mut bytes = HEADER_OF_TESTS.encode();
    for (major, minor, refused) in [(0u8, 0u8, true), (2, 7, true), (1, 9, false)] {
        (bytes[8], bytes[10]) = (major, minor);
        let crc = crc32fast::hash(&bytes[..HEADER_CRC_AT]);
        bytes[HEADER_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        match Scanned::new(&bytes).scan() {
            Err(Error::Journal { defect: JournalDefect::Version(found, 7 | 0), .. }) => {
                assert!(refused && found == u16::from(major));
            }
            Ok(scan) => assert!(!refused && scan.header == Some(HEADER_OF_TESTS)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn commits_at_the_end_of_all_numbers_do_not_overflow() {
    let header = Header { base: u64::MAX, ..HEADER_OF_TESTS };
    let scan = scan(&Scanned::new(&header.encode()).0, Path::new("f-journal"), 0, u64::MAX).unwrap();
    assert_eq!((scan.frames.len(), scan.last, scan.broken), (0, None, None));
}

/// Bytes that count how often they are read.
struct Counted<'a> {
    bytes: &'a [u8],
    read: std::cell::Cell<u64>,
}

impl<'a> Counted<'a> {
    const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, read: std::cell::Cell::new(0) }
    }
}

impl FileExt for Counted<'_> {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = self.bytes.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.read.set(self.read.get() + count.max(1) as u64);
        assert!(self.read.get() < 100 * self.bytes.len() as u64, "it is read again and again");
        Ok(count)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}

/// The rule of the specification, word for word: tries each place in turn, and reads its payload.
fn highest_by_trying(source: &impl FileExt, mut offset: u64, end: u64, salt: u64) -> Option<u64> {
    let mut highest = None;
    while offset < end {
        let mut head = [0; FRAME_HEADER];
        let whole = read_up_to(source, &mut head, offset).unwrap() == FRAME_HEADER;
        let raw = Forged::read_from_bytes(&head).unwrap();
        let right = raw.length(salt, end - offset).filter(|_| whole).filter(|_| {
            let mut payload = vec![0; raw.payload.get() as usize];
            let read = read_up_to(source, &mut payload, offset + FRAME_HEADER as u64).unwrap();
            read == payload.len() && raw.crc_with(&payload) == raw.crc.get()
        });
        if right.is_some() {
            highest = highest.max(Some(raw.commit.get()));
        }
        offset += right.unwrap_or(FRAME_ALIGN);
    }
    highest
}

/// Puts a frame of this commit in this place; it is intact if it is sealed.
fn put_frame(bytes: &mut [u8], at: usize, payload: u32, commit: u64, sealed: bool) {
    let mut raw = Forged::read_from_bytes(&[0; FRAME_HEADER]).unwrap();
    (raw.magic, raw.salt) = (FRAME_MAGIC, HEADER_OF_TESTS.salt.into());
    (raw.commit, raw.payload) = (commit.into(), payload.into());
    let end = at + FRAME_HEADER + payload as usize;
    let content = bytes.get(at + FRAME_HEADER..end).unwrap_or_default();
    raw.crc = (raw.crc_with(content) ^ u32::from(!sealed)).into();
    if let Some(place) = bytes.get_mut(at..at + FRAME_HEADER) {
        place.copy_from_slice(raw.as_bytes());
    }
}

fn scan_counted(source: &Counted<'_>) -> Scan {
    let Header { salt, base, .. } = HEADER_OF_TESTS;
    scan_source(source, source.bytes.len() as u64, Path::new("f-journal"), salt, base).unwrap()
}

#[test]
fn a_journal_made_to_be_read_over_and_over_is_read_twice() {
    // A header that looks like a frame's in each place. Each frame is as long as the rest of the journal allows.
    let mut bytes = vec![0x5a; 4 << 20];
    bytes[..HEADER as usize].copy_from_slice(&HEADER_OF_TESTS.encode());
    for at in (HEADER as usize..bytes.len()).step_by(FRAME_ALIGN as usize) {
        let payload = (bytes.len() - at - FRAME_HEADER) as u32;
        put_frame(&mut bytes, at, payload, 99, false);
    }
    let source = Counted::new(&bytes);
    let scan = scan_counted(&source);
    assert_eq!((scan.last, scan.broken), (None, None));
    let (read, length) = (source.read.get(), bytes.len() as u64);
    assert!(read <= 3 * length, "{read} bytes of {length} read, {} times", read / length);
}

#[test]
fn a_journal_is_broken_where_trying_each_place_in_turn_finds_it_so() {
    let mut state = crate::thorough::seed(7);
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let (mut broken, mut nested) = (0, 0);
    for round in 0..3000 {
        // Up to 60 sectors, and not always whole ones.
        let length = HEADER as usize + random(60 * 512) as usize;
        let mut bytes: Vec<u8> = (0..length).map(|_| random(256) as u8).collect();
        let header = HEADER_OF_TESTS.encode();
        bytes[..HEADER as usize].copy_from_slice(&header);
        // From the last place to the first, so that sealed frames contain those after them. Some are past the end, not
        // aligned, or longer than a frame may be.
        for place in (1..length / 512 + 1).rev() {
            let payload = match random(12) {
                0 => 0,
                1 => u32::MAX - random(70) as u32,
                2 => MAX_PAYLOAD as u32 + 8,
                3..6 => random(length as u64) as u32,
                _ => random(1200) as u32,
            };
            let at = place * 512 + usize::from(random(20) == 0);
            let wanted = if round % 7 == 0 { 1 } else { 4 };
            if at + FRAME_HEADER <= length && random(6) < wanted {
                put_frame(&mut bytes, at, payload, 38 + random(9), random(2) == 0);
            }
        }
        let source = Counted::new(&bytes);
        let scan = scan_counted(&source);
        // No frame counts: the first one does not name the header's CRC.
        assert_eq!(scan.last, None);
        let (first, end) = (HEADER_OF_TESTS.base + 1, bytes.len() as u64);
        let highest = highest_by_trying(&source, HEADER, end, HEADER_OF_TESTS.salt);
        let expected =
            highest.filter(|last| *last > first).map(|last| Broken { offset: HEADER, first, last });
        assert_eq!(scan.broken, expected, "round {round}");
        broken += usize::from(expected.is_some());
        nested += usize::from(highest.is_some() && expected.is_none());
    }
    assert!(broken > 500 && nested > 50, "{broken} broken, {nested} not");
}

#[test]
fn frames_behind_the_end_are_found_past_many_chunks_and_long_payloads() {
    for (payload, sealed) in [(MAX_PAYLOAD as u32, true), (MAX_PAYLOAD as u32, false), (1 << 20, true)] {
        let mut bytes = vec![3; 40 << 20];
        bytes[..HEADER as usize].copy_from_slice(&HEADER_OF_TESTS.encode());
        // One frame after the long one, and one inside it, which counts only if the long one does not.
        put_frame(&mut bytes, 30 << 20, 777, 50, true);
        put_frame(&mut bytes, (5 << 20) + 512 * 9, 1 << 14, 60, true);
        put_frame(&mut bytes, 5 << 20, payload, 45, sealed);
        let source = Counted::new(&bytes);
        let scan = scan_counted(&source);
        let last = if sealed { 50 } else { 60 };
        assert_eq!(scan.broken, Some(Broken { offset: HEADER, first: 41, last }));
        assert_eq!(highest_by_trying(&source, HEADER, bytes.len() as u64, HEADER_OF_TESTS.salt), Some(last));
    }
}

/// As if another process cut the journal during the scan.
#[test]
fn a_journal_that_ends_before_its_length_is_searched_up_to_its_end() {
    let mut bytes = vec![3; 1 << 17];
    bytes[..HEADER as usize].copy_from_slice(&HEADER_OF_TESTS.encode());
    // The first frame's payload would end past the last byte.
    put_frame(&mut bytes, HEADER as usize, 1 << 20, 45, false);
    put_frame(&mut bytes, 1 << 16, 777, 50, true);
    let Header { salt, base, .. } = HEADER_OF_TESTS;
    let scan = scan_source(&Counted::new(&bytes), 4 << 20, Path::new("f-journal"), salt, base).unwrap();
    assert_eq!(scan.broken, Some(Broken { offset: HEADER, first: 41, last: 50 }));
}
