//! Invariants checked: a reader finds the keys of every commit, and no key of a rolled-back transaction; a reopened filter
//! is the one that was closed; a filter that doubles inside a transaction loses nothing.

use gowk::{Error, Lookup, Options, Reader, SlotsPerBucket};

fn key(i: u64) -> [u8; 8] {
    i.to_le_bytes()
}

#[test]
fn committed_keys_are_found_after_reopening_and_rolled_back_ones_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.gowk");
    let options = Options::new().counting().capacity(10_000).slots_per_bucket(SlotsPerBucket::Two).seed(1);
    let mut writer = options.open(&path).unwrap();
    assert!(!path.exists());
    for i in 0..3000 {
        writer.insert(&key(i)).unwrap();
    }
    writer.commit().unwrap();
    let reader = Reader::open(&path).unwrap();
    assert!((0..3000).all(|i| reader.contains(&key(i)).unwrap()));
    for i in 3000..6000 {
        writer.insert(&key(i)).unwrap();
    }
    assert!((0..6000).all(|i| writer.contains(&key(i)).unwrap()));
    assert!(!(3000..6000).any(|i| reader.contains(&key(i)).unwrap()));
    writer.commit().unwrap();
    assert!((0..6000).all(|i| reader.contains(&key(i)).unwrap()));
    assert_eq!(reader.info().unwrap().copies, 6000);
    for i in 6000..7000 {
        writer.insert(&key(i)).unwrap();
    }
    writer.rollback().unwrap();
    assert!(!(6000..7000).any(|i| writer.contains(&key(i)).unwrap()));
    writer.close().unwrap();
    let mut writer = options.open(&path).unwrap();
    assert!((0..6000).all(|i| writer.contains(&key(i)).unwrap()));
    assert!(matches!(options.open(&path), Err(Error::Locked { .. })));
    for i in 0..3000 {
        assert!(writer.remove(&key(i)).unwrap());
    }
    writer.commit().unwrap();
    drop(writer);
    let reader = Reader::open(&path).unwrap();
    assert!((3000..6000).all(|i| reader.contains(&key(i)).unwrap()));
    assert!(!(0..3000).any(|i| reader.contains(&key(i)).unwrap()));
    assert!(reader.verify(&|_, _| {}).unwrap().is_clean());
}

#[test]
fn a_filter_grows_inside_a_transaction_and_readers_follow() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.gowk");
    let mut writer = Options::new().counting().capacity(1000).seed(1).open(&path).unwrap();
    writer.insert(&key(0)).unwrap();
    writer.commit().unwrap();
    let reader = Reader::open(&path).unwrap();
    for i in 1..200_000 {
        writer.insert(&key(i)).unwrap();
    }
    assert_eq!(reader.info().unwrap().copies, 1);
    writer.commit().unwrap();
    assert!((0..200_000).all(|i| reader.contains(&key(i)).unwrap()));
    let info = reader.info().unwrap();
    assert_eq!(info.copies, 200_000);
    assert!(info.generation >= 3);
    writer.close().unwrap();
    let reader = Reader::open(&path).unwrap();
    assert!((0..200_000).all(|i| reader.contains(&key(i)).unwrap()));
    assert!(reader.verify(&|_, _| {}).unwrap().is_clean());
}
