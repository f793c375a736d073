//! A file that is replaced or removed while it is open.
//!
//! Invariants checked:
//!
//! 1. After a filter with another seed has taken the name, hashes made for the first one are refused; keys still work.
//! 2. A removed file still serves processes that have it open. Nobody can create a filter of its name before its writer
//!    closes, and its writer commits nothing more.

use std::path::Path;

use gowk::{Error, Lookup, Options, Reader};

const KEYS: u64 = 2000;

fn key(i: u64) -> [u8; 8] {
    i.to_le_bytes()
}

fn fill(path: &Path, seed: u64, keys: std::ops::Range<u64>) {
    let mut writer = Options::new().capacity(10_000).seed(seed).force(true).create(path).unwrap();
    keys.for_each(|i| _ = writer.insert(&key(i)).unwrap());
    writer.commit().unwrap();
    writer.close().unwrap();
}

fn present(reader: &Reader, keys: std::ops::Range<u64>) -> usize {
    keys.filter(|i| reader.contains(&key(*i)).unwrap()).count()
}

#[test]
fn hashes_of_a_replaced_filter_are_refused_and_keys_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    fill(&path, 1, 0..KEYS);
    let reader = Reader::open(&path).unwrap();
    let hashes: Vec<_> = (0..KEYS).map(|i| reader.hash(&key(i)).unwrap()).collect();
    let all_found = |reader: &Reader| hashes.iter().all(|hash| reader.contains(*hash).unwrap());
    assert!(all_found(&reader));
    // Hashes stay valid for a filter with the same seed.
    fill(&path, 1, 0..KEYS / 2);
    assert!(hashes[..KEYS as usize / 2].iter().all(|hash| reader.contains(*hash).unwrap()));
    assert!(present(&reader, KEYS / 2..KEYS) < 20);
    fill(&path, 2, KEYS..2 * KEYS);
    for _ in 0..3 {
        for hash in &hashes {
            assert!(matches!(reader.contains(*hash), Err(Error::Replaced { .. })));
            assert!(matches!(reader.count(*hash), Err(Error::Replaced { .. })));
        }
        let batch = reader.contains_batch(&hashes);
        assert!(matches!(batch, Err(Error::Replaced { .. })));
        assert_eq!(present(&reader, KEYS..2 * KEYS), KEYS as usize);
        assert!(present(&reader, 0..KEYS) < 20);
    }
    // They are valid again once the first filter has its name back.
    fill(&path, 1, 0..KEYS);
    assert!(all_found(&reader));
}

#[test]
fn a_removed_file_serves_those_who_have_it_and_its_name_stays_taken() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let mut writer = Options::new().capacity(10_000).create(&path).unwrap();
    (0..KEYS).for_each(|i| _ = writer.insert(&key(i)).unwrap());
    writer.commit().unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(present(&reader, 0..KEYS), KEYS as usize);
    std::fs::remove_file(&path).unwrap();
    let taken = || {
        for force in [false, true] {
            let refused = Options::new().capacity(1000).force(force).create(&path);
            assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
        }
        let refused = Options::new().capacity(1000).open(&path);
        assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
        assert!(!path.exists());
    };
    taken();
    (KEYS..2 * KEYS).for_each(|i| _ = writer.insert(&key(i)).unwrap());
    let refused = writer.commit();
    assert!(matches!(refused, Err(Error::Removed { .. })), "{refused:?}");
    assert!(present(&reader, KEYS..2 * KEYS) < 20);
    assert!(writer.contains(&key(7)).unwrap());
    assert!(reader.verify(&|_, _| {}).unwrap().is_clean());
    assert!(matches!(Reader::open(&path), Err(Error::NotFound { .. })));
    taken();
    assert!(matches!(writer.close(), Err(Error::Uncommitted { .. })));
    assert_eq!(present(&reader, 0..KEYS), KEYS as usize);
    fill(&path, 3, 0..10);
    assert_eq!(present(&Reader::open(&path).unwrap(), 0..10), 10);
    assert_eq!(present(&reader, 0..KEYS), KEYS as usize);
}
