//! Blocks that the medium cannot read. The disk in this test fails to read them until they are fully overwritten. A
//! partial write also fails, as it would have to read the block first.
//!
//! Invariants checked: verification names the pages. A copy refuses them. After one repair the filter verifies clean, and
//! no key is reported absent. Opening the file rewrites an unreadable live area.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use gowk::disk::{Disk, SystemDisk};
use gowk::{Batches, Error, Lookup, Options, Reader, Report, SlotsPerBucket};

const BLOCK: u64 = 4096;
const LIVE: u64 = 131_072;
/// The checksums of these regions fill more than one block.
const REGIONS: u64 = 70;
const KEYS: u64 = 400_000;

fn keys() -> Vec<[u8; 8]> {
    (0..KEYS).map(u64::to_le_bytes).collect()
}

#[derive(Debug)]
struct BadDisk {
    inode: u64,
    bad: Mutex<BTreeSet<u64>>,
}

impl BadDisk {
    fn new(path: &Path, bad: impl IntoIterator<Item = u64>) -> Arc<Self> {
        let bad = Mutex::new(bad.into_iter().map(|offset| offset / BLOCK).collect());
        Arc::new(Self { inode: path.metadata().unwrap().ino(), bad })
    }

    fn blocks(&self, file: &File, length: usize, offset: u64) -> Vec<u64> {
        if file.metadata().unwrap().ino() != self.inode {
            return Vec::new();
        }
        let range = offset / BLOCK..(offset + length as u64).div_ceil(BLOCK);
        self.bad.lock().unwrap().range(range).copied().collect()
    }

    fn left(&self) -> usize {
        self.bad.lock().unwrap().len()
    }
}

fn unreadable() -> io::Error {
    io::Error::from_raw_os_error(5)
}

impl Disk for BadDisk {
    fn read_at(&self, file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        if !self.blocks(file, bytes.len(), offset).is_empty() {
            return Err(unreadable());
        }
        SystemDisk.read_at(file, bytes, offset)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let end = offset + bytes.len() as u64;
        for block in self.blocks(file, bytes.len(), offset) {
            if block * BLOCK < offset || (block + 1) * BLOCK > end {
                return Err(unreadable());
            }
            self.bad.lock().unwrap().remove(&block);
        }
        SystemDisk.write_at(file, bytes, offset)
    }
}

/// A closed filter, and the offsets of its checksums and its regions.
fn filter(dir: &Path) -> (PathBuf, u64, u64) {
    let path = dir.join("f.gowk");
    let options =
        Options::new().counting().capacity(30_000 * REGIONS).slots_per_bucket(SlotsPerBucket::Four).seed(1);
    let mut writer = options.create(&path).unwrap();
    assert!(writer.insert_batch(&keys()).unwrap().refused().is_empty());
    writer.metadata_mut().unwrap().set("crawl", "page 17");
    writer.commit().unwrap();
    writer.close().unwrap();
    let regions = Reader::open(&path).unwrap().info().unwrap().regions;
    assert!(regions > 64, "{regions} regions");
    let sums = LIVE + (4096 + 49_152 + 4 * regions).next_multiple_of(BLOCK);
    let data = (sums + (4 * 16 * regions).next_multiple_of(BLOCK)).next_multiple_of(65_536);
    assert_eq!(data + regions * 65_536, path.metadata().unwrap().len());
    (path, sums, data)
}

fn verify(path: &Path, disk: &Arc<BadDisk>) -> Report {
    Options::new().disk(disk.clone()).read(path).unwrap().verify(&|_, _| {}).unwrap()
}

fn all_present(path: &Path) {
    let reader = Reader::open(path).unwrap();
    let found = reader.contains_batch(&keys()).unwrap();
    assert!(found.iter().all(|found| *found));
}

#[test]
fn unreadable_pages_and_checksums_are_named_and_mended() {
    let dir = tempfile::tempdir().unwrap();
    let (path, sums, data) = filter(dir.path());
    let pages = Reader::open(&path).unwrap().info().unwrap().regions * 16;
    let page = |page: u64| data + page * BLOCK;
    let cases: [(Vec<u64>, Vec<u64>); 4] = [
        (vec![page(0)], vec![0]),
        (vec![page(5), page(6), page(500), page(pages - 1)], vec![5, 6, 500, pages - 1]),
        (vec![sums + BLOCK], (1024..pages).collect()),
        (vec![sums + BLOCK, page(3), page(1030)], [3].into_iter().chain(1024..pages).collect()),
    ];
    let image = std::fs::read(&path).unwrap();
    for (bad, expected) in cases {
        std::fs::write(&path, &image).unwrap();
        let disk = BadDisk::new(&path, bad);
        let report = verify(&path, &disk);
        let named = |pages: &[gowk::DamagedPage]| pages.iter().map(|page| page.page).collect::<Vec<_>>();
        assert_eq!(named(&report.damaged), expected);
        assert!(!report.is_clean() && report.malformed.is_empty());
        let reader = Options::new().disk(disk.clone()).read(&path).unwrap();
        let refused = reader.copy_to(dir.path().join("copy"), &|_, _| {});
        assert!(matches!(refused, Err(Error::Damaged { page, .. }) if page == expected[0]));
        let refused = Options::new().disk(disk.clone()).read_in_memory(&path);
        assert!(matches!(refused, Err(Error::Damaged { page, .. }) if page == expected[0]));
        let mut writer = Options::new().disk(disk.clone()).open_existing(&path).unwrap();
        let repair = writer.repair(&|_, _| {}).unwrap();
        assert_eq!(named(&repair.quarantined), expected);
        assert_eq!(disk.left(), 0, "some blocks are still unreadable");
        writer.close().unwrap();
        let report = verify(&path, &disk);
        assert!(report.is_clean(), "{report:?}");
        all_present(&path);
    }
}

#[test]
fn a_repair_killed_after_it_has_overwritten_a_block_leaves_the_page_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let (path, sums, data) = filter(dir.path());
    let disk = BadDisk::new(&path, [data + 7 * BLOCK, sums]);
    let mut writer = Options::new().disk(disk.clone()).open_existing(&path).unwrap();
    // These lookups verify the page.
    assert!(keys().iter().all(|key| writer.contains(key).unwrap()));
    let stop = &|done, _| assert!(done != 1000, "stopped");
    let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| writer.repair(stop)));
    assert!(stopped.is_err());
    assert_eq!(disk.left(), 0);
    // The same writer no longer counts the page as verified.
    assert!(keys().iter().all(|key| match writer.contains(key) {
        Ok(found) => found,
        Err(error) => matches!(error, Error::Damaged { .. }),
    }));
    drop(writer);
    let report = verify(&path, &disk);
    assert_eq!(
        report.damaged.iter().map(|page| page.page).collect::<Vec<_>>(),
        (0..1024).collect::<Vec<_>>()
    );
    let mut writer = Options::new().open_existing(&path).unwrap();
    assert_eq!(writer.repair(&|_, _| {}).unwrap().quarantined.len(), 1024);
    writer.close().unwrap();
    assert!(verify(&path, &disk).is_clean());
    all_present(&path);
}

#[test]
fn recovery_gets_past_a_page_that_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _, data) = filter(dir.path());
    let mut writer = Options::new().open_existing(&path).unwrap();
    let late: Vec<_> = (KEYS..2 * KEYS).map(u64::to_le_bytes).collect();
    assert!(writer.insert_batch(&late).unwrap().refused().is_empty());
    writer.commit().unwrap();
    // The files as after a crash.
    let crashed = dir.path().join("crashed");
    std::fs::copy(&path, &crashed).unwrap();
    std::fs::copy(dir.path().join("f.gowk-journal"), dir.path().join("crashed-journal")).unwrap();
    drop(writer);
    let disk = BadDisk::new(&crashed, [data + 9 * BLOCK]);
    let report = verify(&crashed, &disk);
    assert_eq!(report.damaged.iter().map(|page| page.page).collect::<Vec<_>>(), [9]);
    assert_eq!(disk.left(), 0);
    let mut writer = Options::new().open_existing(&crashed).unwrap();
    assert_eq!(writer.repair(&|_, _| {}).unwrap().quarantined.len(), 1);
    writer.close().unwrap();
    assert!(verify(&crashed, &disk).is_clean());
    all_present(&crashed);
    let reader = Reader::open(&crashed).unwrap();
    assert!(late.iter().all(|key| reader.contains(key).unwrap()));
}

#[test]
fn an_unreadable_live_area_is_rewritten() {
    let dir = tempfile::tempdir().unwrap();
    let (path, sums, _) = filter(dir.path());
    let image = std::fs::read(&path).unwrap();
    for bad in [vec![LIVE], vec![sums - BLOCK], (LIVE..sums).step_by(BLOCK as usize).collect()] {
        let head = bad[0] == LIVE;
        let count = bad.len();
        for repairs in [true, false] {
            std::fs::write(&path, &image).unwrap();
            let disk = BadDisk::new(&path, bad.clone());
            if repairs {
                let mut writer = Options::new().disk(disk.clone()).open_existing(&path).unwrap();
                let repair = writer.repair(&|_, _| {}).unwrap();
                assert!(repair.live && repair.quarantined.is_empty() && !repair.is_empty());
                assert!(writer.repair(&|_, _| {}).unwrap().is_empty());
                writer.close().unwrap();
            }
            let report = verify(&path, &disk);
            // Opening reads only the head of the live area; verification reads all of it.
            let mended = head || repairs;
            assert_eq!((report.is_clean(), report.live_differs), (mended, !mended), "{report:?}");
            assert_eq!(disk.left(), if mended { 0 } else { count });
            let reader = Reader::open(&path).unwrap();
            assert_eq!(reader.metadata().unwrap().get("crawl"), Some(b"page 17".as_slice()));
            assert_eq!(reader.info().unwrap().inserted, KEYS);
            all_present(&path);
        }
    }
}
