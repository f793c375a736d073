//! Invariants checked: the map of intact pages has a separate bit for each page; and an opening takes no memory for pages
//! that a file only claims to have.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::Command;

use super::*;
use crate::format::{LIVE, LIVE_SEQUENCES, SUPERBLOCK, Superblock};
use crate::{Lookup, Options, Reader};

#[test]
fn touched_pages_are_remembered_one_by_one_until_all_are() {
    let touched = Touched::none(130).unwrap();
    for page in (0..130).rev().map(PageId) {
        assert!(!touched.contains(page));
        touched.insert(page);
        touched.insert(page);
        assert!(touched.contains(page));
    }
    assert!(touched.contains(PageId(0)) && Touched::all().contains(PageId(1 << 40)));
    for page in [67, 5] {
        touched.forget(PageId(page));
        assert!(!touched.is_complete() && !touched.contains(PageId(page)));
        touched.forget(PageId(page));
        assert!((0..130).filter(|other| *other != page).all(|other| touched.contains(PageId(other))));
        touched.insert(PageId(page));
        assert!(touched.is_complete());
    }
}

/// A copy that counted too few pages would be trusted before all of it was verified.
#[test]
fn a_copy_in_memory_has_as_many_pages_to_verify_as_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let mut writer = Options::new().capacity(500_000).create(&path).unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    let reader = Options::new().read(&path).unwrap();
    let view = reader.view().unwrap();
    let geometry = view.superblock.identity.geometry;
    assert!(geometry.regions() > 16);
    let map = Map::shared(&File::open(&path).unwrap(), geometry).unwrap();
    let pages =
        Pages::new(map, &view.superblock.identity, Verify::FirstTouch, path.as_path().into()).unwrap();
    assert_eq!(pages.unverified(), geometry.pages());
    let map = Map::shared(&File::open(&path).unwrap(), geometry).unwrap();
    let moved = pages.moved_to(map, Verify::FirstTouch).unwrap();
    assert_eq!(moved.unverified(), geometry.pages());
}

/// Makes a file of holes that claims as many regions as the file system lets it; returns their number.
fn claiming(path: &Path, dir: &Path) -> u64 {
    let small = dir.join("small");
    let mut writer = Options::new().capacity(1).create(&small).unwrap();
    writer.insert(b"a").unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    let superblock = Reader::open(&small).unwrap().view().unwrap().superblock.clone();
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap();
    let regions = (25..=28).rev().map(|bits| 1 << bits);
    let Geometry { width, shard, .. } = superblock.identity.geometry;
    let geometries = regions.map(|regions| Geometry::new(width, regions, 0, shard).unwrap());
    let geometry = geometries.clone().find(|geometry| file.set_len(geometry.file_length()).is_ok());
    let geometry = geometry.expect("no file system for a sparse file of 2 TiB");
    let identity = Identity { geometry, ..superblock.identity };
    for (slot, id) in [(0, 1), (1, 2)] {
        let claim = Superblock { id, identity, ..superblock.clone() };
        file.write_all_at(&claim.encode(path).unwrap(), slot * SUPERBLOCK).unwrap();
    }
    let mut live = vec![0; LIVE_SEQUENCES as usize];
    File::open(&small).unwrap().read_exact_at(&mut live, LIVE).unwrap();
    file.write_all_at(&live, LIVE).unwrap();
    geometry.regions()
}

/// The peak memory of this process, in KiB.
#[cfg(target_os = "linux")]
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse().unwrap()
}

/// Runs in a process of its own, so that nothing else takes memory.
#[cfg(target_os = "linux")]
#[test]
fn a_file_of_holes_takes_no_memory_for_the_regions_that_it_claims() {
    const FILE: &str = "GOWK_CLAIMING";
    if let Some(path) = std::env::var_os(FILE) {
        let before = peak();
        let reader = Options::new().sealed(false).read(&path).unwrap();
        // Zeros do not match their checksum. Each lookup takes memory only for the pages that it reads.
        for key in 0..100_u32 {
            assert!(matches!(reader.contains(key.to_le_bytes()), Err(Error::Damaged { .. })));
        }
        println!("took {} KiB", peak() - before);
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("claiming");
    let regions = claiming(&path, dir.path());
    let name = "file::pages::tests::a_file_of_holes_takes_no_memory_for_the_regions_that_it_claims";
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.arg(name).env("RUST_TEST_NOCAPTURE", "1").env(FILE, &path).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    let took = told.split_once("took ").and_then(|(_, rest)| rest.split_once(" KiB")).unwrap().0;
    println!("{regions} regions: {took} KiB");
    assert!(took.parse::<u64>().unwrap() < 16 << 10, "{regions} regions: {took} KiB");
}
