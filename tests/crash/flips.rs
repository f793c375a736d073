//! Every byte of a small filter, flipped.
//!
//! Bit 0 and bit 7 of every byte of the file, and of a journal with commits in it, are flipped one at a time. Without
//! `GOWK_THOROUGH=1`, one byte in eight is flipped in stretches of equal bytes.
//!
//! Invariants checked, for each flip: nothing panics or hangs. No key is reported absent. `verify` finds the flip
//! wherever the specification has a checksum. For all other flips the test names the field, and why the flip is harmless.
//!
//! The filter has one region, keys from several commits, metadata, and a live area. It lies in a folder in memory if the
//! system has one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use gowk::{Error, Kind, Lookup, Options, Reader, SlotsPerBucket};

use crate::thorough;

const KEYS: u64 = 600;
/// How many keys are committed to the journal, after the checkpoint.
const JOURNALED: u64 = 12;
const PAGE: u64 = 4096;
const SLOT: u64 = 65_536;
const LIVE: u64 = 2 * SLOT;
/// Where the checksums begin. There are sixteen, for one region.
const SUMS: u64 = LIVE + 57_344;
const DATA: u64 = 196_608;
const LENGTH: u64 = DATA + 65_536;

fn key(i: u64) -> [u8; 8] {
    i.to_le_bytes()
}

/// The part of the data file at an offset, and the effect of a flip there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Part {
    /// A superblock, under its CRC: `verify` finds the flip, and readers use the other slot.
    Superblock,
    /// The state is no longer "idle": opening recovers, which leaves the filter unchanged.
    State,
    /// The "superseded" flag: readers compare the name or recover, and the next recovery clears it.
    Flags,
    /// The apply epoch and the copy sequence: an odd number causes a recovery, and a higher even number is as good.
    Epoch,
    /// The commit number differs from the superblock's: `verify` finds it, and readers use the superblock.
    Commit,
    /// Unused counts and metadata: the superblock of the same commit also has them.
    Copies,
    /// Read only while a commit is being applied.
    Sequence,
    /// Never interpreted.
    Unused,
    /// A page or its checksum: `verify` and lookups report the page as damaged.
    Checksum,
    Page,
}

fn part(offset: u64) -> Part {
    const TABLE_END: u64 = SUMS + 64;
    match offset {
        0..LIVE => Part::Superblock,
        LIVE..SUMS => match offset - LIVE {
            0..8 => Part::State,
            8..16 => Part::Flags,
            16..32 => Part::Epoch,
            1024..1032 => Part::Commit,
            1032..1328 | 4096..53_248 => Part::Copies,
            53_248..53_252 => Part::Sequence,
            _ => Part::Unused,
        },
        SUMS..TABLE_END => Part::Checksum,
        DATA.. => Part::Page,
        _ => Part::Unused,
    }
}

/// Whether the short test flips the byte. Of eight equal bytes it flips one, at a different place each time.
fn is_flipped_always(offset: u64) -> bool {
    let named = match part(offset) {
        // The superblock's fields, and its seal.
        Part::Superblock => !(512..SLOT - 4).contains(&(offset % SLOT)),
        Part::State | Part::Flags | Part::Epoch | Part::Commit | Part::Sequence | Part::Checksum => true,
        Part::Copies => (LIVE..LIVE + 4096 + 64).contains(&offset),
        Part::Unused | Part::Page => false,
    };
    named || offset % 8 == offset / 8 % 8
}

fn folder() -> tempfile::TempDir {
    let memory = tempfile::Builder::new().prefix("gowk-flips-").tempdir_in("/dev/shm");
    memory.or_else(|_| tempfile::tempdir()).unwrap()
}

fn commit(writer: &mut gowk::Writer, keys: std::ops::Range<u64>) {
    keys.for_each(|i| _ = writer.insert(&key(i)).unwrap());
    writer.metadata_mut().unwrap().set("cursor", b"somewhere");
    writer.commit().unwrap();
}

/// The file and the journal of a set that was closed, and of a counting filter whose writer died.
fn images() -> [(Vec<u8>, Vec<u8>); 2] {
    [Kind::Set, Kind::Counting].map(|kind| {
        let dir = folder();
        let (path, journal) = (dir.path().join("f"), dir.path().join("f-journal"));
        let options =
            Options::new().kind(kind).capacity(10_000).slots_per_bucket(SlotsPerBucket::Four).seed(1);
        let mut writer = options.create(&path).unwrap();
        commit(&mut writer, 0..KEYS / 2);
        commit(&mut writer, KEYS / 2..KEYS);
        writer.close().unwrap();
        let _open = (kind == Kind::Counting).then(|| {
            let mut writer = options.open_existing(&path).unwrap();
            for first in (KEYS..KEYS + JOURNALED).step_by(3) {
                commit(&mut writer, first..first + 3);
            }
            writer
        });
        (std::fs::read(&path).unwrap(), std::fs::read(&journal).unwrap())
    })
}

/// A filter in a folder of its own. It is restored from its image after each flip that made the library write.
struct Copy {
    _dir: tempfile::TempDir,
    path: PathBuf,
    image: (Vec<u8>, Vec<u8>),
}

impl Copy {
    fn new(image: (Vec<u8>, Vec<u8>)) -> Self {
        let dir = folder();
        let copy = Self { path: dir.path().join("f"), _dir: dir, image };
        copy.restore();
        copy
    }

    fn journal(&self) -> PathBuf {
        self.path.with_file_name("f-journal")
    }

    /// Overwrites the existing files, which is faster than creating new ones.
    fn restore(&self) {
        for (path, bytes) in [(&self.path, &self.image.0), (&self.journal(), &self.image.1)] {
            let file = File::options().write(true).create(true).truncate(false).open(path).unwrap();
            file.write_all_at(bytes, 0).unwrap();
            file.set_len(bytes.len() as u64).unwrap();
        }
    }

    fn put(&self, path: &Path, offset: u64, byte: u8) {
        File::options().write(true).open(path).unwrap().write_all_at(&[byte], offset).unwrap();
    }
}

/// The keys that are looked up in each page. Some keys are in two lists.
fn keys_by_page(copy: &Copy) -> BTreeMap<u64, Vec<u64>> {
    let keys_of = |page: u64| {
        let at = DATA + page * PAGE;
        copy.put(&copy.path, at, copy.image.0[at as usize] ^ 1);
        let reader = Reader::open(&copy.path).unwrap();
        let keys = (0..KEYS).filter(|i| matches!(reader.contains(&key(*i)), Err(Error::Damaged { .. })));
        let keys: Vec<_> = keys.collect();
        copy.restore();
        keys
    };
    (0..16).map(|page| (page, keys_of(page))).collect()
}

/// Checks a closed filter with a flip at `offset`.
fn check(copy: &Copy, offset: u64, keys: &BTreeMap<u64, Vec<u64>>) {
    let reader = Reader::open(&copy.path).unwrap();
    let report = reader.verify(&|_, _| {}).unwrap();
    let part = part(offset);
    let damaged = match part {
        Part::Page => Some((offset - DATA) / PAGE),
        Part::Checksum => Some((offset - SUMS) / 4),
        _ => None,
    };
    let found: Vec<u64> = report.damaged.iter().map(|page| page.page).collect();
    assert_eq!(found, Vec::from_iter(damaged), "{offset}");
    assert_eq!(report.superblock_damaged, part == Part::Superblock, "{offset}");
    assert_eq!(report.live_differs, part == Part::Commit, "{offset}");
    let sound = damaged.is_none() && !matches!(part, Part::Superblock | Part::Commit);
    assert_eq!(report.is_clean(), sound, "{offset}: {report:?}");
    match damaged {
        // The first lookup that touches the damaged page reports it. The other lookups find their keys.
        Some(page) => {
            assert!(!keys[&page].is_empty());
            for i in &keys[&page] {
                match reader.contains(&key(*i)) {
                    Err(Error::Damaged { page: named, .. }) if named == page => {}
                    // The key was found in its first bucket, before the lookup touched the damaged page.
                    Ok(true) => {}
                    other => panic!("{offset}, key {i}: {other:?}"),
                }
            }
            for i in (offset % 16..KEYS).step_by(16) {
                assert!(!matches!(reader.contains(&key(i)), Ok(false)), "{offset}, key {i}");
            }
        }
        None => {
            for i in (offset % 16..KEYS).step_by(16) {
                assert!(reader.contains(&key(i)).unwrap(), "{offset}, key {i}");
            }
            assert_eq!(reader.metadata().unwrap().get("cursor"), Some(&b"somewhere"[..]), "{offset}");
        }
    }
}

#[test]
fn every_byte_of_a_closed_filter_is_checked_or_named_as_unused_or_volatile() {
    let start = Instant::now();
    let [closed, _] = images();
    assert_eq!(closed.0.len() as u64, LENGTH);
    let keys = keys_by_page(&Copy::new(closed.clone()));
    let chosen: Vec<u64> =
        (0..LENGTH).filter(|at| thorough::is_asked_for() || is_flipped_always(*at)).collect();
    thorough::size("bytes flipped", chosen.len() as u64, LENGTH);
    // The threads take alternate offsets, for equal shares of the work.
    let halves = [0, 1].map(|first| chosen.iter().copied().skip(first).step_by(2));
    let counts: Vec<BTreeMap<Part, u64>> = std::thread::scope(|scope| {
        let sweep = |half: std::iter::StepBy<_>| {
            let copy = Copy::new(closed.clone());
            let mut counts = BTreeMap::new();
            for offset in half {
                let byte = closed.0[offset as usize];
                // The short test alternates between the lowest and the highest bit.
                let turn = [0, 7][(offset / 8 % 2) as usize];
                for bit in [0, 7].into_iter().filter(|bit| thorough::is_asked_for() || *bit == turn) {
                    copy.put(&copy.path, offset, byte ^ 1 << bit);
                    check(&copy, offset, &keys);
                    *counts.entry(part(offset)).or_default() += 1;
                    match part(offset) {
                        // Opening has recovered the filter, and written to it.
                        Part::State | Part::Flags | Part::Epoch => copy.restore(),
                        _ => copy.put(&copy.path, offset, byte),
                    }
                }
            }
            counts
        };
        let threads = halves.map(|half| scope.spawn(move || sweep(half)));
        threads.map(|thread| thread.join().unwrap()).into()
    });
    let mut all = BTreeMap::new();
    for (part, count) in counts.into_iter().flatten() {
        *all.entry(part).or_insert(0) += count;
    }
    // Avoids `println!`, which the test harness captures.
    let _ = writeln!(std::io::stderr(), "flips: {all:?} in {:.1} s", start.elapsed().as_secs_f64());
    let flips_a_byte = if thorough::is_asked_for() { 2 } else { 1 };
    assert_eq!(all.values().sum::<u64>(), flips_a_byte * chosen.len() as u64);
    assert_eq!(all.len(), 10, "a part of the file was left out");
}

/// How opening treats a dead writer's filter after a flip in its journal.
fn outcome(copy: &Copy, offset: u64) -> &'static str {
    let reader = match Reader::open(&copy.path) {
        Ok(reader) => reader,
        Err(Error::Journal { .. }) => return "refused",
        Err(error) => panic!("{offset}: {error}"),
    };
    let report = reader.verify(&|_, _| {}).unwrap();
    for i in 0..KEYS + JOURNALED {
        match reader.contains(&key(i)) {
            Ok(true) => {}
            Err(Error::Damaged { .. }) if !report.damaged.is_empty() => {}
            Ok(false) if i >= KEYS + JOURNALED - 3 && !report.is_clean() => {}
            other => panic!("{offset}, key {i}: {other:?}"),
        }
    }
    if report.is_clean() { "all there" } else { "found by verify" }
}

#[test]
fn every_byte_of_a_journal_is_checked_or_unused() {
    let [_, left] = images();
    let journal = left.1.clone();
    let copy = Copy::new(left);
    assert_eq!(outcome(&copy, 0), "all there");
    let starts: Vec<usize> =
        (512..journal.len()).step_by(512).filter(|at| journal[*at..].starts_with(b"gowkfram")).collect();
    assert_eq!(starts.len() as u64, JOURNALED / 3);
    let last = *starts.last().unwrap();
    // No CRC covers the padding after a frame's payload.
    let is_padding = |at: usize| {
        let frame = starts.iter().rev().find(|start| **start <= at).copied();
        frame.is_some_and(|start| {
            let payload = u32::from_le_bytes(journal[start + 32..start + 36].try_into().unwrap()) as usize;
            at >= start + 64 + payload
        })
    };
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for (at, byte) in journal.iter().enumerate() {
        let (part, expected) = match at {
            // Without a header, the frames that continue the superblock are valid.
            ..512 => ("header", "all there"),
            _ if is_padding(at) => ("padding", "all there"),
            // The last frame looks like a torn commit. It had been applied, so pages and superblock disagree.
            _ if at >= last => ("last frame", "found by verify"),
            _ => ("frames before", "refused"),
        };
        for bit in [0, 7] {
            copy.restore();
            copy.put(&copy.journal(), at as u64, byte ^ 1 << bit);
            assert_eq!(outcome(&copy, at as u64), expected, "byte {at}, bit {bit}, of the {part}");
            *counts.entry((part, expected)).or_default() += 1;
        }
    }
    let _ = writeln!(std::io::stderr(), "flips in the journal: {counts:?}");
}
