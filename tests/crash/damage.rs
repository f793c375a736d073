//! Bit rot.
//!
//! Invariants checked:
//!
//! 1. `verify` finds a flipped byte in any data page, and names page and region. So does the first lookup that touches
//!    the page. Lookups in other pages still work.
//! 2. No commit and no doubling hides the damage.
//! 3. After `repair`, no key is reported absent, through commits, doublings and reopenings.
//! 4. One damaged superblock loses no key.
//! 5. A digit in a set, which holds no counts, is found by `verify` and removed by `repair`. No file made from such a set
//!    is refused.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use gowk::{Error, Kind, Lookup, OnDamage, Options, Reader, SlotsPerBucket};

const KEYS: u64 = 40_000;
const PAGE: u64 = 4096;

fn key(i: u64) -> [u8; 8] {
    i.to_le_bytes()
}

/// A closed filter of two regions.
fn filter(dir: &tempfile::TempDir, slots: SlotsPerBucket) -> PathBuf {
    // The kinds alternate with the widths.
    let kind = if slots.get().is_multiple_of(2) { Kind::Counting } else { Kind::Set };
    let path = dir.path().join("f.gowk");
    let capacity = match slots {
        SlotsPerBucket::Two => 2 * 13_000,
        _ => 2 * 30_000,
    };
    let mut writer =
        Options::new().kind(kind).capacity(capacity).slots_per_bucket(slots).create(&path).unwrap();
    for i in 0..KEYS.min(capacity - 1000) {
        writer.insert(&key(i)).unwrap();
    }
    writer.commit().unwrap();
    writer.close().unwrap();
    path
}

fn flip(path: &Path, offset: u64, mask: u8) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ mask], offset).unwrap();
}

/// Where the data pages start: the file's length minus its regions.
fn data(path: &Path) -> u64 {
    let regions = Reader::open(path).unwrap().info().unwrap().regions;
    path.metadata().unwrap().len() - 65_536 * regions
}

#[test]
fn a_flipped_byte_in_any_page_is_found_by_verify_and_by_the_lookups_that_touch_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = filter(&dir, SlotsPerBucket::Four);
    let data = data(&path);
    for page in 0..32 {
        let offset = data + page * PAGE + 97 * page % PAGE;
        flip(&path, offset, 1 << (page % 8));
        let reader = Reader::open(&path).unwrap();
        let report = reader.verify(&|_, _| {}).unwrap();
        assert_eq!(report.damaged.len(), 1);
        assert_eq!((report.damaged[0].page, report.damaged[0].region), (page, page / 16));
        let reader = Reader::open(&path).unwrap();
        let mut refused = 0;
        for i in 0..KEYS {
            match reader.contains(&key(i)) {
                Ok(found) => assert!(found),
                Err(error @ Error::Damaged { .. }) => {
                    assert!(error.to_string().contains(&format!("page {page} (region {})", page / 16)));
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        // Each of the 32 pages has the first bucket of a 32nd of the keys, and the second bucket of some others.
        assert!((KEYS / 32 / 2..KEYS / 32 * 2).contains(&refused), "{refused}");
        let lenient = Options::new().on_damage(OnDamage::Present).read(&path).unwrap();
        assert!((0..KEYS).all(|i| lenient.contains(&key(i)).unwrap()));
        flip(&path, offset, 1 << (page % 8));
        assert!(Reader::open(&path).unwrap().verify(&|_, _| {}).unwrap().is_clean());
    }
}

#[test]
fn a_flipped_checksum_is_found_as_a_damaged_page() {
    let dir = tempfile::tempdir().unwrap();
    let path = filter(&dir, SlotsPerBucket::Four);
    // Two regions have 32 checksums, in the page before the padding to the data.
    let sums = 131_072 + (53_248_u64 + 8).next_multiple_of(PAGE);
    flip(&path, sums + 4 * 7, 0x10);
    let report = Reader::open(&path).unwrap().verify(&|_, _| {}).unwrap();
    assert_eq!(report.damaged.iter().map(|page| page.page).collect::<Vec<_>>(), [7]);
}

#[test]
fn damage_is_not_laundered_by_a_commit_or_a_doubling() {
    let dir = tempfile::tempdir().unwrap();
    let path = filter(&dir, SlotsPerBucket::Four);
    flip(&path, data(&path) + 5 * PAGE, 1);
    let mut writer = Options::new().open_existing(&path).unwrap();
    let mut refused = 0;
    for i in KEYS..KEYS + 1000 {
        match writer.insert(&key(i)) {
            Ok(_) => {}
            Err(Error::Damaged { page: 5, .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 0);
    assert!(matches!(writer.grow(), Err(Error::Damaged { page: 5, .. })));
    writer.commit().unwrap();
    writer.close().unwrap();
    let report = Reader::open(&path).unwrap().verify(&|_, _| {}).unwrap();
    assert_eq!(report.damaged.iter().map(|page| page.page).collect::<Vec<_>>(), [5]);
}

#[test]
fn repaired_pages_answer_present_through_commits_doublings_and_reopenings() {
    for slots in SlotsPerBucket::ALL {
        let dir = tempfile::tempdir().unwrap();
        let path = filter(&dir, slots);
        let data = data(&path);
        for page in [3, 4, 29] {
            flip(&path, data + page * PAGE + 100, 0x40);
        }
        let mut writer = Options::new().void_growth(true).open_existing(&path).unwrap();
        let keys = writer.info().unwrap().inserted;
        let repair = writer.repair(&|_, _| {}).unwrap();
        assert_eq!(repair.quarantined.iter().map(|page| page.page).collect::<Vec<_>>(), [3, 4, 29]);
        assert!(writer.repair(&|_, _| {}).unwrap().is_empty());
        assert_eq!(writer.info().unwrap().quarantined_buckets, 3 * 512);
        let mut present = keys;
        for _ in 0..3 {
            assert!((0..present).all(|i| writer.contains(&key(i)).unwrap()), "{slots:?}");
            for i in present..present + 1000 {
                writer.insert(&key(i)).unwrap();
            }
            present += 1000;
            writer.commit().unwrap();
            writer.grow().unwrap();
            writer.commit().unwrap();
            writer.close().unwrap();
            let reader = Reader::open(&path).unwrap();
            assert!((0..present).all(|i| reader.contains(&key(i)).unwrap()), "{slots:?}");
            let report = reader.verify(&|_, _| {}).unwrap();
            assert!(report.is_clean(), "{report:?}");
            writer = Options::new().void_growth(true).open_existing(&path).unwrap();
        }
        // The false-positive rate after the repair is the one that the filter expects.
        let absent = 1 << 40;
        let found = (absent..absent + 200_000).filter(|i| writer.contains(&key(*i)).unwrap()).count();
        let (rate, expected) =
            (found as f64 / 200_000.0, writer.info().unwrap().expected_false_positive_rate);
        assert!((rate / expected - 1.0).abs() < 0.15, "{slots:?}: {rate} for {expected}");
    }
}

/// Puts a digit above an entry of a page, and stores the right checksum. Slots have 16 bits here, and 0x0400 is the
/// digit 1.
fn put_a_digit(path: &Path, page: u64) {
    let info = Reader::open(path).unwrap().info().unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    let from = (data(path) + page * PAGE) as usize;
    let crc = |content: &[u8]| {
        let prefix = [&info.uuid[..], &info.generation.to_le_bytes(), &page.to_le_bytes()].concat();
        crc32fast::hash(&[&prefix, content].concat()).to_le_bytes()
    };
    let before = crc(&bytes[from..from + PAGE as usize]);
    // The page's checksum is somewhere before the pages, and does not occur elsewhere by chance.
    let places: Vec<usize> =
        (0..data(path) as usize).step_by(4).filter(|at| bytes[*at..at + 4] == before).collect();
    assert_eq!(places.len(), 1, "{places:?}");
    let words = bytes[from..from + PAGE as usize].chunks_exact_mut(8);
    let word = words.into_iter().find(|word| word[..2] != [0, 0] && word[2..] == [0; 6]).unwrap();
    word[2..4].copy_from_slice(&0x0400_u16.to_le_bytes());
    let after = crc(&bytes[from..from + PAGE as usize]);
    bytes[places[0]..places[0] + 4].copy_from_slice(&after);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_digit_in_a_set_is_told_and_mended() {
    const FEW: u64 = 15_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let whole = Options::new().capacity(60_000).slots_per_bucket(SlotsPerBucket::Four);
    let mut writer = whole.create(&path).unwrap();
    (0..FEW).for_each(|i| assert!(writer.insert(&key(i)).is_ok()));
    // The filter is marked: without markers, a slot with these bits is an entry.
    writer.grow().unwrap();
    writer.commit().unwrap();
    writer.shrink().unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    put_a_digit(&path, 17);
    let has_all = |path: &Path| {
        let reader = Reader::open(path).unwrap();
        assert!((0..FEW).all(|i| reader.contains(&key(i)).unwrap()), "{}", path.display());
        reader
    };
    let reader = has_all(&path);
    let report = reader.verify(&|_, _| {}).unwrap();
    assert!(report.damaged.is_empty() && !report.is_clean());
    assert_eq!(report.malformed.iter().map(|page| (page.page, page.region)).collect::<Vec<_>>(), [(17, 1)]);

    // No file made from the set is refused because of the digit.
    let parts = [0, 1, 2, 3].map(|part| dir.path().join(format!("part {part}")));
    reader.divide_to(&parts, &|_, _| {}).unwrap();
    let parts = parts.map(|part| Reader::open(part).unwrap());
    let joined = dir.path().join("joined");
    Reader::join_to(&parts, &joined, &|_, _| {}).unwrap();
    has_all(&joined);
    let (grown, merged) = (dir.path().join("grown"), dir.path().join("merged"));
    reader.copy_to(&grown, &|_, _| {}).unwrap();
    let mut writer = Options::new().open_existing(&grown).unwrap();
    writer.grow().unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    has_all(&grown);
    Options::new().open_existing(&grown).unwrap();
    let mut writer = Options::like(&reader).unwrap().create(&merged).unwrap();
    writer.merge(&reader).unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    has_all(&merged);

    let mut writer = Options::new().open_existing(&path).unwrap();
    let repair = writer.repair(&|_, _| {}).unwrap();
    assert_eq!(repair.quarantined, report.malformed);
    writer.close().unwrap();
    let reader = has_all(&path);
    assert!(reader.verify(&|_, _| {}).unwrap().is_clean());
    let info = reader.info().unwrap();
    assert_eq!((info.digits, info.quarantined_buckets), (0, 512));
    // The page's keys are lost, so lookups of all keys in it answer "present".
    let present = (FEW..10 * FEW).filter(|i| reader.contains(&key(*i)).unwrap()).count() as u64;
    assert!((9 * FEW / 32..9 * FEW / 8).contains(&present), "{present}");
    assert!(Options::new().open_existing(&path).unwrap().repair(&|_, _| {}).unwrap().is_empty());
}

#[test]
fn one_damaged_superblock_is_reported_and_repaired() {
    for slot in 0..2 {
        let dir = tempfile::tempdir().unwrap();
        let path = filter(&dir, SlotsPerBucket::Four);
        flip(&path, slot * 65_536 + 208, 1);
        let reader = Reader::open(&path).unwrap();
        assert!((0..KEYS).all(|i| reader.contains(&key(i)).unwrap()));
        let report = reader.verify(&|_, _| {}).unwrap();
        assert!(report.superblock_damaged && !report.is_clean());
        let mut writer = Options::new().open_existing(&path).unwrap();
        assert!(writer.repair(&|_, _| {}).unwrap().superblock);
        drop(writer);
        let reader = Reader::open(&path).unwrap();
        assert!(reader.verify(&|_, _| {}).unwrap().is_clean());
        assert!((0..KEYS).all(|i| reader.contains(&key(i)).unwrap()));
    }
}

#[test]
fn a_commit_that_was_given_up_does_not_come_back_from_a_stale_frame() {
    let dir = tempfile::tempdir().unwrap();
    let (path, journal) = (dir.path().join("f"), dir.path().join("f-journal"));
    let mut writer = Options::new().capacity(1000).create(&path).unwrap();
    writer.insert(b"kept").unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    let before = std::fs::read(&path).unwrap();
    let mut writer = Options::new().open_existing(&path).unwrap();
    writer.insert(b"given up").unwrap();
    writer.commit().unwrap();
    let frames = std::fs::read(&journal).unwrap();
    assert!(frames.len() > 512);
    drop(writer);
    // As if the power failed during the append: recovery finds a part of the frame, and empties the journal.
    std::fs::write(&path, &before).unwrap();
    std::fs::write(&journal, &frames[..512 + 64]).unwrap();
    let check = || {
        let reader = Reader::open(&path).unwrap();
        assert_eq!([&b"kept"[..], b"given up"].map(|key| reader.contains(key).unwrap()), [true, false]);
        assert!(reader.verify(&|_, _| {}).unwrap().is_clean());
    };
    check();
    assert_eq!(std::fs::read(&journal).unwrap().len(), 512);
    // A bad medium restores the frame behind the new header.
    let file = std::fs::OpenOptions::new().write(true).open(&journal).unwrap();
    file.write_all_at(&frames[512..], 512).unwrap();
    check();
}

/// Writes over the live area of an idle file.
fn write_live(path: &Path, offset: u64, bytes: &[u8]) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, 131_072 + offset).unwrap();
}

#[test]
fn a_stale_live_area_is_reported_once_and_mended_by_one_repair() {
    let dir = tempfile::tempdir().unwrap();
    let path = filter(&dir, SlotsPerBucket::Four);
    let mut old = vec![0; 53_248];
    std::fs::File::open(&path).unwrap().read_exact_at(&mut old, 131_072).unwrap();
    let mut writer = Options::new().open_existing(&path).unwrap();
    (KEYS..KEYS + 1000).for_each(|i| _ = writer.insert(&key(i)).unwrap());
    writer.metadata_mut().unwrap().set("crawl", "page 17");
    let inserted = writer.len().unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    let image = std::fs::read(&path).unwrap();
    // The whole live area of the previous commit, or only an impossible commit number.
    for (offset, bytes) in [(0, old.as_slice()), (1024, &9999_u64.to_le_bytes())] {
        std::fs::write(&path, &image).unwrap();
        write_live(&path, offset, bytes);
        let reader = Reader::open(&path).unwrap();
        // Readers use the superblock, which has a checksum.
        assert_eq!(reader.info().unwrap().inserted, inserted);
        assert_eq!(reader.metadata().unwrap().get("crawl"), Some(b"page 17".as_slice()));
        let report = reader.verify(&|_, _| {}).unwrap();
        assert!(report.live_differs && !report.is_clean(), "{report:?}");
        assert!(report.damaged.is_empty() && !report.counts_differ, "{report:?}");
        let mut writer = Options::new().open_existing(&path).unwrap();
        let repair = writer.repair(&|_, _| {}).unwrap();
        assert!(repair.live && !repair.recounted && !repair.is_empty(), "{repair:?}");
        assert!(writer.repair(&|_, _| {}).unwrap().is_empty());
        // A reader that was opened before sees the next commit.
        writer.insert(&key(KEYS + 1000)).unwrap();
        writer.commit().unwrap();
        assert_eq!(reader.info().unwrap().inserted, inserted + 1);
        assert!(writer.remove(&key(KEYS + 1000)).unwrap());
        writer.commit().unwrap();
        writer.close().unwrap();
        for reader in [reader, Reader::open(&path).unwrap()] {
            let report = reader.verify(&|_, _| {}).unwrap();
            assert!(report.is_clean(), "{report:?}");
            assert_eq!(reader.info().unwrap().removed, reader.info().unwrap().inserted - inserted);
        }
        let mut writer = Options::new().open_existing(&path).unwrap();
        assert!(writer.repair(&|_, _| {}).unwrap().is_empty());
        writer.close().unwrap();
    }
}
