//! Closed filters that never change again, read without locks. `tests/systems/sealed.py` checks the system calls.
//!
//! Invariants checked:
//!
//! 1. A closed filter can be read, even beside an empty journal, and no file is created beside it.
//! 2. A filter is refused with the reason if a writer has it open, if its writer died, or if its journal has commits.
//!    Nothing changes. The remedies in the error work: an ordinary opening, or a copy.
//! 3. A writer that changes a sealed file breaks the rules; on a local file system, readers still follow it.

use std::fs;
use std::path::Path;

use gowk::{Error, Lookup, Options, Reader, Unsealed};

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

fn filled(path: &Path, keys: std::ops::Range<u64>) {
    let mut writer = Options::new().capacity(20_000).seed(1).open(path).unwrap();
    keys.for_each(|number| _ = writer.insert(&key(number)).unwrap());
    writer.commit().unwrap();
    writer.close().unwrap();
}

fn assert_holds(reader: &Reader, keys: std::ops::Range<u64>) {
    assert!(keys.clone().all(|number| reader.contains(&key(number)).unwrap()));
    assert!((1 << 40..(1 << 40) + 100).any(|number| !reader.contains(&key(number)).unwrap()));
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn assert_refused(path: &Path, expected: Unsealed) {
    let dir = path.parent().unwrap();
    let (before, bytes) = (names(dir), fs::read(path).unwrap());
    for outcome in [Options::new().sealed(true).read(path), Options::new().sealed(true).read_in_memory(path)]
    {
        match outcome {
            Err(error @ Error::NotSealed { .. }) => {
                assert!(matches!(&error, Error::NotSealed { reason, .. } if *reason == expected));
                let text = error.to_string();
                assert!(text.contains(path.to_str().unwrap()) && text.contains("open it once"), "{text}");
            }
            outcome => panic!("not refused: {outcome:?}"),
        }
    }
    assert_eq!(names(dir), before);
    assert!(fs::read(path).unwrap() == bytes);
}

#[test]
fn a_closed_filter_is_read_alone_and_nothing_is_made_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    filled(&path, 0..5000);
    let sealed = Options::new().sealed(true);
    let beside = sealed.read(&path).unwrap();
    assert_holds(&beside, 0..5000);
    let alone = tempfile::tempdir().unwrap();
    let image = alone.path().join("image");
    fs::copy(&path, &image).unwrap();
    let reader = sealed.read(&image).unwrap();
    assert_holds(&reader, 0..5000);
    assert_holds(&sealed.read_in_memory(&image).unwrap(), 0..5000);
    assert!(reader.verify(&|_, _| {}).unwrap().is_clean());
    assert_eq!(reader.info().unwrap().inserted, beside.info().unwrap().inserted);
    reader.copy_to(dir.path().join("copy"), &|_, _| {}).unwrap();
    assert_holds(&Reader::open(dir.path().join("copy")).unwrap(), 0..5000);
    // With an empty journal, and with one that was cut short.
    for journal in [Vec::new(), vec![0; 512]] {
        fs::write(alone.path().join("image-journal"), journal).unwrap();
        assert_holds(&sealed.read(&image).unwrap(), 0..5000);
        fs::remove_file(alone.path().join("image-journal")).unwrap();
    }
    assert_eq!(names(alone.path()), ["image"]);
}

#[test]
fn a_filter_not_at_a_checkpoint_is_refused_until_it_is_opened_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    filled(&path, 0..1000);
    let mut writer = Options::new().open(&path).unwrap();
    assert_refused(&path, Unsealed::InUse);
    writer.insert(&key(1000)).unwrap();
    writer.commit().unwrap();
    assert_refused(&path, Unsealed::InUse);
    // The files as after the writer's death.
    let killed = tempfile::tempdir().unwrap();
    let left = killed.path().join("f");
    fs::copy(&path, &left).unwrap();
    assert_refused(&left, Unsealed::InUse);
    fs::copy(dir.path().join("f-journal"), killed.path().join("f-journal")).unwrap();
    assert_refused(&left, Unsealed::InUse);
    assert_holds(&Reader::open(&left).unwrap(), 0..1001);
    assert_holds(&Options::new().sealed(true).read(&left).unwrap(), 0..1001);
    // A journal with commits, beside another state of the file.
    fs::copy(dir.path().join("f-journal"), killed.path().join("f-journal")).unwrap();
    assert_refused(&left, Unsealed::Journal);
    writer.close().unwrap();
    assert_holds(&Options::new().sealed(true).read(&path).unwrap(), 0..1001);
}

#[test]
fn damage_and_other_kinds_of_files_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let sealed = Options::new().sealed(true);
    assert!(matches!(sealed.read(&path), Err(Error::NotFound { .. })));
    fs::write(&path, b"no filter").unwrap();
    assert!(matches!(sealed.read(&path), Err(Error::NotGowk { .. })));
    fs::remove_file(&path).unwrap();
    filled(&path, 0..5000);
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[end - 65_536..].fill(0xa5);
    fs::write(&path, &bytes).unwrap();
    let reader = sealed.read(&path).unwrap();
    assert!((0..5000).any(|number| matches!(reader.contains(&key(number)), Err(Error::Damaged { .. }))));
    assert_eq!(reader.verify(&|_, _| {}).unwrap().damaged.len(), 16);
    fs::write(&path, &bytes[..end - 1]).unwrap();
    assert!(matches!(sealed.read(&path), Err(Error::Length { .. })));
}

#[test]
fn a_writer_that_changes_a_sealed_file_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    filled(&path, 0..1000);
    let reader = Options::new().sealed(true).read(&path).unwrap();
    assert_holds(&reader, 0..1000);
    let mut writer = Options::new().open(&path).unwrap();
    for number in 1000..1100 {
        writer.insert(&key(number)).unwrap();
        writer.commit().unwrap();
        assert!(reader.contains(&key(number)).unwrap());
    }
    writer.close().unwrap();
    assert_holds(&reader, 0..1100);
}
