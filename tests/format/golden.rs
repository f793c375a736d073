//! Every golden file of `format-spec/vectors`, opened in every way.
//!
//! Invariants checked:
//!
//! 1. The files are, to the bit, those that the README there describes. None is missing on either side.
//! 2. An accepted file has the statistics of its row, all its keys, and the same false positives as when it was made.
//!    Verification finds no fault. A writer can continue with it, and readers follow.
//! 3. Readers and writers refuse a rejected file with the error of its row, and leave file and journal unchanged.
//! 4. Refusing a file takes no more memory than the file has bytes, whatever the file claims. Of an accepted file,
//!    exactly the file is mapped.

// An allocator needs unsafe code. This one counts, and leaves all work to the system's.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use gowk::{Error, Expected, HashKind, Kind, Lookup, OnDamage, Options, Reader, Report, Verify, Writer};

use crate::vectors::{self, ABSENT, Accepted, accepted, caller_hash, forgetting, key, rejected, unpack};

thread_local! {
    /// How many bytes this thread has allocated and not freed, and their maximum since the last reset.
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

/// The most bytes that a call holds at once, and its result.
fn most_held<T>(call: impl FnOnce() -> T) -> (usize, T) {
    let before = HELD.with(|held| {
        let (now, _) = held.get();
        held.set((now, now));
        now
    });
    let outcome = call();
    (HELD.with(|held| held.get().1) - before, outcome)
}

/// How many bytes both superblock slots have. They are read first.
const TWO_SLOTS: usize = 131_072;

fn verify(reader: &Reader) -> Report {
    reader.verify(&|_, _| {}).unwrap()
}

/// The keys of a filter, by number.
struct Keys<'a>(&'a Reader, HashKind);

impl<'a> Keys<'a> {
    fn of(reader: &'a Reader) -> Self {
        Self(reader, reader.info().unwrap().hash)
    }

    fn contain(&self, number: u64) -> bool {
        match self.1 {
            HashKind::Caller => self.0.contains(caller_hash(number)).unwrap(),
            HashKind::Xxh3 => match self.0.contains(key(number).as_bytes()) {
                Err(Error::OtherShard { .. }) => false,
                found => found.unwrap(),
            },
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
    assert_eq!((info.kind, &info.entries_by_tail), (row.kind, &row.entries_by_tail), "{name}");
    assert_eq!(info.quarantined_buckets, row.quarantined_buckets, "{name}");
    assert_eq!((info.digits, info.saturated), (row.digits, row.saturated), "{name}");
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
    assert_eq!(found as u64, row.found, "{name}: false positives");
}

#[test]
fn the_files_are_those_of_the_readme_to_the_bit() {
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

/// Checks that this process has mapped as many bytes of a file as the file has.
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
fn accepted_files_that_forget_tell_what_they_keep_and_what_expires_when() {
    let rows = forgetting();
    let forget = accepted().into_iter().filter(|row| row.kind == Kind::Forgetting).map(|row| row.name);
    assert!(rows.len() > 10 && forget.eq(rows.iter().map(|row| row.name.clone())));
    for row in rows {
        let dir = tempfile::tempdir().unwrap();
        let reader = Reader::open(unpack("accept", &row.name, dir.path())).unwrap();
        let info = reader.info().unwrap();
        let retention = info.retention.map(|retention| retention.to_string());
        assert_eq!(retention.or(info.keep_newest.map(|newest| newest.to_string())), Some(row.keeps));
        assert_eq!(info.time, row.time, "{}", row.name);
        let expiries: Vec<_> = verify(&reader).expiries.iter().map(|of| (of.at, of.entries)).collect();
        assert_eq!(expiries, row.expiries, "{}", row.name);
    }
}

#[test]
fn a_writer_goes_on_with_every_accepted_file() {
    for row in accepted().into_iter().filter(|row| row.writable) {
        let dir = tempfile::tempdir().unwrap();
        let path = unpack("accept", &row.name, dir.path());
        // A forgetting filter continues at its own time.
        let of_file = Reader::open(&path).unwrap().info().unwrap();
        let time = UNIX_EPOCH + Duration::from_millis(of_file.time.unwrap_or(1 << 40));
        let mut options = Options::new().void_growth(true).with_clock(move || time);
        if row.kind != Kind::Forgetting {
            options = options.kind(row.kind);
        }
        let mut writer = options.open_existing(&path).unwrap();
        let reader = Reader::open(&path).unwrap();
        assert_as_described(&reader, &row);
        let caller = reader.info().unwrap().hash == HashKind::Caller;
        let grows = row.name != "policy";
        let shards = reader.info().unwrap().shards;
        let belongs = |writer: &Writer, number: &u64| {
            let hash = writer.hash(key(*number).as_bytes());
            shards == 1 || hash.is_ok_and(|hash| hash.shard(shards) == writer.info().unwrap().shard)
        };
        let new: Vec<u64> = (5_000_000..5_000_100).filter(|number| belongs(&writer, number)).collect();
        let (before, after) = new.split_at(new.len() / 2);
        let insert = |writer: &mut Writer, numbers: &[u64]| {
            for &number in numbers {
                let inserted = if caller {
                    writer.insert(caller_hash(number))
                } else {
                    writer.insert(key(number).as_bytes())
                };
                inserted.unwrap();
            }
        };
        insert(&mut writer, before);
        writer.commit().unwrap();
        if grows {
            writer.grow().unwrap();
        }
        insert(&mut writer, after);
        writer.commit().unwrap();
        let followed = Keys::of(&reader);
        writer.close().unwrap();
        let reader = Reader::open(&path).unwrap();
        for keys in [followed, Keys::of(&reader)] {
            keys.assert_present(&row);
            assert!(new.iter().all(|number| keys.contain(*number)), "{}", row.name);
        }
        let report = verify(&reader);
        // The first checkpoint rewrites a damaged slot.
        assert!(report.is_clean(), "{}: {report:?}", row.name);
        let metadata: Vec<u8> = reader.metadata().unwrap().iter().flat_map(|(_, v)| v.to_vec()).collect();
        assert_eq!(metadata.is_empty(), row.metadata.is_empty(), "{}", row.name);
    }
}

#[test]
fn writers_refuse_what_only_readers_may_ignore() {
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
            other => panic!("{name}: the step {other} is unknown"),
        };
        for number in refused {
            let (way, open) = openings[*number];
            let (held, outcome) = most_held(open);
            let (error, message) = describe(outcome, name);
            assert_eq!(error, row.error, "{name}, {way}: {message}");
            assert!(message.contains(&row.message), "{name}, {way}: {message}");
            assert!(message.contains(name.as_str()), "{name}, {way}: {message} names no file");
            // Reading both slots takes memory, even for a short file.
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

/// A superblock's fields, by their offsets in the specification.
mod field {
    pub(super) const UUID: (usize, usize) = (48, 8);
    pub(super) const N: (usize, usize) = (76, 4);
    pub(super) const BASE: (usize, usize) = (96, 8);
    pub(super) const GENERATION: (usize, usize) = (104, 4);
    pub(super) const LIVE: (usize, usize) = (112, 8);
    pub(super) const SUMS: (usize, usize) = (120, 8);
    pub(super) const DATA: (usize, usize) = (128, 8);
    pub(super) const LENGTH: (usize, usize) = (136, 8);
}

/// Puts numbers into fields of the given superblock slots, and seals them anew.
fn forge(data: &mut [u8], slots: &[usize], fields: &[((usize, usize), u64)]) {
    for slot in slots {
        let slot = &mut data[slot * TWO_SLOTS / 2..][..TWO_SLOTS / 2];
        for ((at, size), number) in fields {
            slot[*at..at + size].copy_from_slice(&number.to_le_bytes()[..*size]);
        }
        let (body, crc) = slot.split_at_mut(TWO_SLOTS / 2 - 4);
        crc.copy_from_slice(&crc32fast::hash(body).to_le_bytes());
    }
}

/// The offsets and the length of a file of this many regions (section 5.1).
fn offsets(regions: u64) -> [((usize, usize), u64); 3] {
    let sums = 131_072 + (53_248 + 4 * regions).next_multiple_of(4096);
    let data = (sums + (64 * regions).next_multiple_of(4096)).next_multiple_of(65_536);
    [(field::SUMS, sums), (field::DATA, data), (field::LENGTH, data + 65_536 * regions)]
}

/// Superblocks with impossible fields and valid checksums. Readers and writers refuse each with a specific message, and
/// never hold more memory than the file has bytes.
#[test]
fn hostile_superblocks_are_refused_each_by_its_own_message_in_less_memory_than_the_file_has() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    // The filter is marked, so that it may claim to have doubled.
    let mut writer = Options::new().capacity(1000).seed(7).counting().open(&path).unwrap();
    (0..300).for_each(|number| _ = writer.insert(key(number)).unwrap());
    writer.commit().unwrap();
    writer.close().unwrap();
    let honest = fs::read(&path).unwrap();
    let length = honest.len() as u64;
    let [(_, sums), (_, data), (_, all)] = offsets(1);
    assert_eq!(all, length);

    let (both, newer, older): (&[usize], &[usize], &[usize]) = (&[0, 1], &[1], &[0]);
    let is_newer = |slot: usize| honest[slot * TWO_SLOTS / 2 + 40];
    let (newer, older) = if is_newer(0) > is_newer(1) { (older, newer) } else { (newer, older) };
    let uuid = u64::from_le_bytes(honest[48..56].try_into().unwrap());
    let fitting = |regions: u64, n0: u64, g: u64| {
        [&offsets(regions)[..], &[(field::BASE, n0), (field::GENERATION, g)]].concat()
    };
    use field::{BASE, DATA, GENERATION, LENGTH, LIVE, N, SUMS, UUID};
    let claims: Vec<(&str, &[usize], Vec<_>, String)> = vec![
        ("2^60 regions", both, vec![(BASE, 1 << 60)], "field `n0` is 1152921504606846976, not 1 to".into()),
        ("2^64 - 1 regions", both, vec![(BASE, u64::MAX)], "field `n0` is 18446744073709551615, not".into()),
        ("no region", both, vec![(BASE, 0)], "field `n0` is 0, not 1 to 4294967296".into()),
        ("g = 64", both, vec![(GENERATION, 64)], "field `g` is 64, not 0 to 32".into()),
        (
            "2^60 by doublings",
            both,
            vec![(BASE, 1 << 28), (GENERATION, 32)],
            "field `g` is 32, not 0 to 4".into(),
        ),
        ("n = 0", both, vec![(N, 0)], "field `n` is 0, not 2 to 7".into()),
        ("n = 1", both, vec![(N, 1)], "field `n` is 1, not 2 to 7".into()),
        ("n = 8", both, vec![(N, 8)], "field `n` is 8, not 2 to 7".into()),
        ("n = 255", both, vec![(N, 255)], "field `n` is 255, not 2 to 7".into()),
        ("live over a superblock", both, vec![(LIVE, 65_536)], "field `live` is 65536, not 131072".into()),
        ("live unaligned", both, vec![(LIVE, 131_073)], "field `live` is 131073, not 131072".into()),
        ("live past the end", both, vec![(LIVE, length)], format!("field `live` is {length}, not 131072")),
        ("sums over live", both, vec![(SUMS, 131_072)], format!("field `sums` is 131072, not {sums}")),
        ("sums unaligned", both, vec![(SUMS, sums + 4)], format!("field `sums` is {}, not {sums}", sums + 4)),
        ("sums past the end", both, vec![(SUMS, length)], format!("field `sums` is {length}, not {sums}")),
        ("data over sums", both, vec![(DATA, sums)], format!("field `data` is {sums}, not {data}")),
        ("data unaligned", both, vec![(DATA, data + 1)], format!("field `data` is {}, not {data}", data + 1)),
        (
            "data past the end",
            both,
            vec![(DATA, 1 << 63)],
            format!("field `data` is {}, not {data}", 1u64 << 63),
        ),
        (
            "no end",
            both,
            vec![(LENGTH, u64::MAX)],
            format!("field `file length` is {}, not {length}", u64::MAX),
        ),
        ("2^32 regions, all fitting", both, fitting(1 << 32, 1 << 32, 0), {
            let [.., (_, claimed)] = offsets(1 << 32);
            format!("{length} bytes long, and not {claimed}")
        }),
        ("2^20 regions, all fitting", both, fitting(1 << 20, 1, 20), {
            let [.., (_, claimed)] = offsets(1 << 20);
            format!("{length} bytes long, and not {claimed}")
        }),
        ("two uuids, the newer", newer, vec![(UUID, 5)], "field `uuid` is 5, not the same in both".into()),
        (
            "two uuids",
            older,
            vec![(UUID, 5)],
            format!("field `uuid` is {uuid}, not the same in both superblocks"),
        ),
        ("nonsense in the older slot", older, vec![(N, 9)], "field `n` is 9, not 2 to 7".into()),
    ];
    let mut messages = std::collections::HashSet::new();
    for (name, slots, fields, message) in claims {
        let mut data = honest.clone();
        forge(&mut data, slots, &fields);
        fs::write(&path, &data).unwrap();
        type Open<'a> = &'a dyn Fn() -> Result<(), Error>;
        let openings: [(&str, Open<'_>); 3] = [
            ("reader", &|| Reader::open(&path).map(drop)),
            ("eager reader", &|| Options::new().verify(Verify::Eager).read(&path).map(drop)),
            ("writer", &|| Options::new().open_existing(&path).map(drop)),
        ];
        for (who, open) in openings {
            let (held, outcome) = most_held(open);
            let found = outcome.unwrap_err().to_string();
            assert!(found.contains(&message), "{name}, {who}: {found}");
            assert!(held as u64 <= length, "{name}, {who}: {held} bytes for a file of {length}");
            assert!(fs::read(&path).unwrap() == data, "{name}, {who}: the file was changed");
            if who == "reader" {
                assert!(messages.insert(found.clone()), "{name}: another file has the same message: {found}");
            }
        }
    }
    fs::write(&path, &honest).unwrap();
    assert!((0..300).all(|number| Reader::open(&path).unwrap().contains(key(number).as_bytes()).unwrap()));
}

/// Faults that opening does not detect: verification finds them, and no lookup answers "absent" because of them.
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
    assert!(met > 100, "{}: only {met} keys are in the damaged page", row.name);
}

/// Found by fuzzing: sums of counts in the live area, which has no checksum, overflowed.
#[test]
fn impossible_counts_in_the_live_area_are_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = unpack("accept", "width-4", dir.path());
    let counters = TWO_SLOTS as u64 + 1024;
    // The commit number differs from the superblock's, whose counts would otherwise be used.
    let rot = || {
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&9_u64.to_le_bytes(), counters).unwrap();
        file.write_all_at(&[0xff; 296], counters + 8).unwrap();
    };
    // Even in a file that no writer has open, a reader does not trust the counts.
    rot();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.info().unwrap().entries, 300);
    assert!(verify(&reader).live_differs && reader.metadata().is_ok());
    // A writer does not read the counts, but writes new ones.
    let mut writer = Options::new().open_existing(&path).unwrap();
    assert!(verify(&reader).is_clean());
    rot();
    let info = reader.info();
    let nothing = Expected::Exactly(0);
    assert!(
        matches!(info, Err(Error::Field { field: "entries by tail length", expected, .. }) if expected == nothing)
    );
    assert!(reader.metadata().is_err());
    assert!((0..300).all(|number| reader.contains(key(number).as_bytes()).unwrap()));
    assert!(verify(&reader).damaged.is_empty());
    writer.insert(b"one more").unwrap();
    writer.commit().unwrap();
    assert_eq!(reader.info().unwrap().entries, 301);
}

/// Found by fuzzing: with wrong counts under a right CRC, a commit made a file that could not be opened.
#[test]
fn a_commit_with_impossible_counts_is_refused_and_repair_mends_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = unpack("accept", "width-4", dir.path());
    let mut data = fs::read(&path).unwrap();
    for slot in data[..TWO_SLOTS].chunks_mut(TWO_SLOTS / 2) {
        // Counts claiming that every slot is taken, though 300 are.
        slot[248 + 80..248 + 88].copy_from_slice(&(4 * 8192u64).to_le_bytes());
        let (body, crc) = slot.split_at_mut(TWO_SLOTS / 2 - 4);
        crc.copy_from_slice(&crc32fast::hash(body).to_le_bytes());
    }
    fs::write(&path, &data).unwrap();
    assert!(verify(&Reader::open(&path).unwrap()).counts_differ);
    let mut writer = Options::new().open_existing(&path).unwrap();
    writer.insert(b"one more").unwrap();
    assert!(matches!(writer.commit(), Err(Error::Field { field: "entries", .. })));
    assert!(writer.repair(&|_, _| {}).unwrap().recounted);
    writer.insert(b"one more").unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    let reader = Reader::open(&path).unwrap();
    assert!(verify(&reader).is_clean());
    assert_eq!(reader.info().unwrap().entries, 301);
}
