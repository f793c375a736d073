//! Every golden file of `format-spec/vectors`, in every way in which it can be opened.
//!
//! Invariants checked:
//!
//! 1. The files are those that the README there describes, to the bit; none is missing in either place.
//! 2. An accepted file says of itself what its row says, finds every key, and no other absent ones than when it
//!    was made; verification finds nothing; a writer can go on with it, and readers follow.
//! 3. A rejected file is refused with the error of its row, by readers and writers alike; file and journal are
//!    left as they were.
//! 4. Refusing a file takes no more memory than the file has bytes, whatever it claims; what is mapped of an
//!    accepted one is the file and no more.

// A counting allocator is unsafe to write; it hands everything on to the system's.
#![allow(unsafe_code)]

mod vectors;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::path::Path;

use gowk::{Error, HashKind, OnDamage, Options, Reader, Report, Verify, Writer};
use vectors::{ABSENT, Accepted, accepted, caller_hash, key, rejected, unpack};

thread_local! {
    /// Bytes that this thread has allocated and not freed, and the most there were since the last reset.
    static HELD: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

struct Counting;

fn count(allocated: usize, freed: usize) {
    // Allocations while a thread ends are not counted.
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        let now = (now + allocated).saturating_sub(freed);
        held.set((now, most.max(now)));
    });
}

// SAFETY: every call goes to the system's allocator with the arguments that the caller gave.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes that a call holds at once, and what it returns.
fn most_held<T>(call: impl FnOnce() -> T) -> (usize, T) {
    let before = HELD.with(|held| {
        let (now, _) = held.get();
        held.set((now, now));
        now
    });
    let outcome = call();
    (HELD.with(|held| held.get().1) - before, outcome)
}

/// What a superblock slot, twice, takes to be read: no file that claims to be a filter is shorter than this
/// and looked at further.
const TWO_SLOTS: usize = 131_072;

fn verify(reader: &Reader) -> Report {
    reader.verify(&mut |_, _| {}).unwrap()
}

/// The keys of a filter, by their numbers.
struct Keys<'a>(&'a Reader, HashKind);

impl<'a> Keys<'a> {
    fn of(reader: &'a Reader) -> Self {
        Self(reader, reader.info().unwrap().hash)
    }

    fn contain(&self, number: u64) -> bool {
        match self.1 {
            HashKind::Caller => self.0.contains_hash(caller_hash(number)).unwrap(),
            HashKind::Xxh3 => self.0.contains(key(number).as_bytes()).unwrap(),
        }
    }

    fn assert_present(&self, row: &Accepted) {
        for number in row.present.iter().cloned().flatten() {
            assert!(self.contain(number), "{} lost key {number}", row.name);
        }
    }
}

/// Compares a filter with its row.
fn assert_as_described(reader: &Reader, row: &Accepted) {
    let name = &row.name;
    let info = reader.info().unwrap();
    assert_eq!(info.slots_per_bucket.get(), row.slots_per_bucket, "{name}");
    assert_eq!((info.base_regions, info.generation), (row.base_regions, row.generation), "{name}");
    assert_eq!(info.regions, row.base_regions << row.generation, "{name}");
    assert_eq!((info.commit, info.inserted, info.removed), (row.commit, row.inserted, row.removed), "{name}");
    assert_eq!((info.unrecorded, &info.entries_by_tail), (row.unrecorded, &row.entries_by_tail), "{name}");
    assert_eq!(info.quarantined_buckets, row.quarantined_buckets, "{name}");
    assert_eq!(info.entries, row.entries_by_tail.iter().sum::<u64>(), "{name}");
    let metadata = reader.metadata().unwrap();
    let metadata = metadata
        .iter()
        .map(|(name, value)| format!("{name:?}:{}:{:08x}", value.len(), crc32fast::hash(value)));
    assert_eq!(metadata.collect::<Vec<_>>(), row.metadata, "{name}");
    let keys = Keys::of(reader);
    keys.assert_present(row);
    for (number, copies) in &row.copies {
        assert_eq!(reader.count(key(*number).as_bytes()).unwrap(), *copies, "{name}: key {number}");
    }
    let found = ABSENT.filter(|number| keys.contain(*number)).count();
    assert_eq!(found as u64, row.found, "{name}: absent keys found");
}

#[test]
fn the_files_are_those_that_are_described_to_the_bit() {
    let rows: Vec<String> = accepted().into_iter().map(|row| row.name).collect();
    let mut sorted = rows.clone();
    sorted.sort();
    assert_eq!(vectors::names("accept"), sorted);
    let rejected: Vec<String> = rejected().into_iter().map(|row| row.name).collect();
    let mut sorted = rejected.clone();
    sorted.sort();
    assert_eq!(vectors::names("reject"), sorted);
    let all = rows.iter().map(|name| ("accept", name)).chain(rejected.iter().map(|name| ("reject", name)));
    for (kind, name) in all {
        let (data, journal) = vectors::read(kind, name);
        let hash = |bytes: &[u8]| format!("{:016x}", xxhash_rust::xxh3::xxh3_64(bytes));
        let found = [hash(&data), journal.as_deref().map_or("-".to_owned(), hash)];
        assert_eq!(found, vectors::hashes(kind, name), "{name} has changed");
    }
}

#[test]
fn every_accepted_file_is_read_as_described() {
    for row in accepted() {
        for options in [Options::new(), Options::new().verify(Verify::Eager)] {
            let dir = tempfile::tempdir().unwrap();
            let path = unpack("accept", &row.name, dir.path());
            let one_slot = row.name.starts_with("slot-");
            let reader = options.read(&path).unwrap();
            let report = verify(&reader);
            assert_eq!(report.superblock_damaged, one_slot, "{}", row.name);
            assert!(report.is_clean() || one_slot, "{}: {report:?}", row.name);
            assert_as_described(&reader, &row);
            assert_mapped(&path);
        }
    }
}

/// This process has mapped no more of a file than the file and, once more, its live area.
#[cfg(target_os = "linux")]
fn assert_mapped(path: &Path) {
    let path = path.canonicalize().unwrap();
    let length = path.metadata().unwrap().len();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = maps.lines().filter(|line| line.ends_with(path.to_str().unwrap())).map(|line| {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        number(end) - number(start)
    });
    assert_eq!(mapped.sum::<u64>(), length);
}

#[cfg(not(target_os = "linux"))]
fn assert_mapped(_: &Path) {}

#[test]
fn a_writer_goes_on_with_every_accepted_file() {
    for row in accepted().into_iter().filter(|row| row.writable) {
        let dir = tempfile::tempdir().unwrap();
        let path = unpack("accept", &row.name, dir.path());
        let mut writer = Options::new().void_growth(true).open_existing(&path).unwrap();
        let reader = Reader::open(&path).unwrap();
        assert_as_described(&reader, &row);
        let caller = reader.info().unwrap().hash == HashKind::Caller;
        let grows = row.name != "policy";
        let insert = |writer: &mut Writer, numbers: std::ops::Range<u64>| {
            for number in numbers {
                let inserted = if caller {
                    writer.insert_hash(caller_hash(number))
                } else {
                    writer.insert(key(number).as_bytes())
                };
                inserted.unwrap();
            }
        };
        insert(&mut writer, 5_000_000..5_000_050);
        writer.commit().unwrap();
        if grows {
            writer.grow().unwrap();
        }
        insert(&mut writer, 5_000_050..5_000_100);
        writer.commit().unwrap();
        let followed = Keys::of(&reader);
        writer.close().unwrap();
        let reader = Reader::open(&path).unwrap();
        for keys in [followed, Keys::of(&reader)] {
            keys.assert_present(&row);
            assert!((5_000_000..5_000_100).all(|number| keys.contain(number)), "{}", row.name);
        }
        let report = verify(&reader);
        // A damaged slot is made whole by the first checkpoint.
        assert!(report.is_clean(), "{}: {report:?}", row.name);
        let metadata: Vec<u8> = reader.metadata().unwrap().iter().flat_map(|(_, v)| v.to_vec()).collect();
        assert_eq!(metadata.is_empty(), row.metadata.is_empty(), "{}", row.name);
    }
}

#[test]
fn what_only_readers_may_ignore_is_refused_to_writers() {
    for row in accepted().into_iter().filter(|row| !row.writable) {
        let dir = tempfile::tempdir().unwrap();
        let path = unpack("accept", &row.name, dir.path());
        let outcome = Options::new().open_existing(&path);
        assert!(matches!(outcome, Err(Error::Features { access: "writing", .. })), "{outcome:?}");
    }
}

/// The variant's name and the message.
fn describe<T>(outcome: Result<T, Error>, name: &str) -> (String, String) {
    let error = outcome.err().unwrap_or_else(|| panic!("{name} was accepted"));
    let variant = format!("{error:?}");
    let end = variant.find(|c: char| !c.is_alphanumeric()).unwrap_or(variant.len());
    (variant[..end].to_owned(), error.to_string())
}

#[test]
fn every_rejected_file_is_refused_with_its_own_error_and_left_alone() {
    for row in rejected() {
        let name = &row.name;
        let dir = tempfile::tempdir().unwrap();
        let path = unpack("reject", name, dir.path());
        let length = path.metadata().unwrap().len() as usize;
        let eager = Options::new().verify(Verify::Eager);
        type Opening<'a> = &'a dyn Fn() -> Result<(), Error>;
        let openings: [(&str, Opening<'_>); 4] = [
            ("reading", &|| Reader::open(&path).map(drop)),
            ("reading all", &|| eager.read(&path).map(drop)),
            ("writing", &|| Options::new().open_existing(&path).map(drop)),
            ("creating", &|| Options::new().open(&path).map(drop)),
        ];
        let refused: &[usize] = match row.refused.as_str() {
            "open" => &[0, 1, 2, 3],
            "write" => &[2, 3],
            "damaged" => &[1],
            "malformed" | "counts" => &[],
            other => panic!("{name}: an unknown step: {other}"),
        };
        for number in refused {
            let (way, open) = openings[*number];
            let (held, outcome) = most_held(open);
            let (error, message) = describe(outcome, name);
            assert_eq!(error, row.error, "{name}, {way}: {message}");
            assert!(message.contains(&row.message), "{name}, {way}: {message}");
            assert!(message.contains(name.as_str()), "{name}, {way}: {message} names no file");
            // A short file is not worth a limit of its own.
            assert!(held <= length.max(2 * TWO_SLOTS), "{name}, {way}: {held} bytes for a file of {length}");
        }
        match row.refused.as_str() {
            "open" => {}
            "write" => assert!(verify(&Reader::open(&path).unwrap()).is_clean()),
            step => assert_found(&path, &row, step),
        }
        let (data, journal) = vectors::read("reject", name);
        assert!(fs::read(&path).unwrap() == data, "{name} was changed");
        let found = fs::read(dir.path().join(format!("{name}-journal"))).ok();
        assert!(found == journal, "the journal of {name} was changed");
    }
}

/// What is not looked for at opening is found by verification, and no lookup answers "absent" there.
fn assert_found(path: &Path, row: &vectors::Rejected, step: &str) {
    let reader = Reader::open(path).unwrap();
    let report = verify(&reader);
    let found = match step {
        "damaged" => !report.damaged.is_empty(),
        "malformed" => report.malformed.len() == 1 && report.damaged.is_empty(),
        _ => report.counts_differ && report.malformed.is_empty() && report.damaged.is_empty(),
    };
    assert!(found && !report.is_clean(), "{}: {report:?}", row.name);
    if step != "damaged" {
        return;
    }
    let present = Options::new().on_damage(OnDamage::Present).read(path).unwrap();
    let mut met = 0;
    for number in (0..20).chain(ABSENT) {
        match reader.contains(key(number).as_bytes()) {
            Ok(true) => {}
            Ok(false) => assert!(number >= 20, "{} lost key {number}", row.name),
            Err(Error::Damaged { page, .. }) => {
                assert!(report.damaged.iter().any(|damaged| damaged.page == page), "{}", row.name);
                assert!(present.contains(key(number).as_bytes()).unwrap(), "{}", row.name);
                met += 1;
            }
            Err(error) => panic!("{}: {error}", row.name),
        }
    }
    assert!(met > 100, "{}: {met} keys met the damage", row.name);
}

/// Found by fuzzing: counts in the live area, which has no checksum, overflowed in sums.
#[test]
fn counts_of_the_live_area_that_cannot_be_are_an_error_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let path = unpack("accept", "width-4", dir.path());
    let mut data = fs::read(&path).unwrap();
    let counters = TWO_SLOTS + 1024;
    // Another commit than the superblock's, whose own counts would be believed.
    data[counters] = 9;
    data[counters + 8..counters + 8 + 288].fill(0xff);
    fs::write(&path, &data).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert!(matches!(reader.info(), Err(Error::Field { field: "entries by tail length", .. })));
    assert!(reader.metadata().is_err());
    assert!((0..300).all(|number| reader.contains(key(number).as_bytes()).unwrap()));
    assert!(verify(&reader).damaged.is_empty());
    // A writer does not look at it, and writes it anew.
    let mut writer = Options::new().open_existing(&path).unwrap();
    writer.insert(b"one more").unwrap();
    writer.commit().unwrap();
    assert_eq!(reader.info().unwrap().entries, 301);
}

/// Found by fuzzing: counts that say too little or too much, under a right CRC, ended in a file that does not open.
#[test]
fn a_commit_that_no_file_may_hold_is_refused_and_repair_mends_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = unpack("accept", "width-4", dir.path());
    let mut data = fs::read(&path).unwrap();
    for slot in data[..TWO_SLOTS].chunks_mut(TWO_SLOTS / 2) {
        // Every slot taken, while 300 are.
        slot[240 + 72..240 + 80].copy_from_slice(&(4 * 8192u64).to_le_bytes());
        let (body, crc) = slot.split_at_mut(TWO_SLOTS / 2 - 4);
        crc.copy_from_slice(&crc32fast::hash(body).to_le_bytes());
    }
    fs::write(&path, &data).unwrap();
    assert!(verify(&Reader::open(&path).unwrap()).counts_differ);
    let mut writer = Options::new().open_existing(&path).unwrap();
    writer.insert(b"one more").unwrap();
    assert!(matches!(writer.commit(), Err(Error::Field { field: "entries", .. })));
    assert!(writer.repair(&mut |_, _| {}).unwrap().recounted);
    writer.insert(b"one more").unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    let reader = Reader::open(&path).unwrap();
    assert!(verify(&reader).is_clean());
    assert_eq!(reader.info().unwrap().entries, 301);
}
