//! Invariant checked: a block that prefetches its pages gets the same answers as one that does not, even if it prefetches
//! pages past the end of the file.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::system::{Files, Paging};
use crate::{Batches, Lookup, Options, Reader};

#[test]
fn a_file_larger_than_memory_answers_as_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let keys: Vec<[u8; 8]> = (0..20_000_u64).map(u64::to_le_bytes).collect();
    let mut writer = Options::new().capacity(20_000).create(&path).unwrap();
    writer.insert_batch(&keys[..10_000]).unwrap().complete().unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    let reader = Reader::open(&path).unwrap();
    let mut view = View::open(&Files::new(&path).unwrap(), &Options::new()).unwrap();
    assert!(!view.pages.paging.larger_than_memory);
    view.pages.paging = Paging { larger_than_memory: true, waited: AtomicBool::new(true) };
    view.pages.map.expect_random_reads();
    for block in keys.chunks(BLOCK) {
        let mut found = vec![false; block.len()];
        let hash = |key: &[u8; 8]| reader.hash(key);
        assert!(view.contains_block(block, hash, &mut found).unwrap().is_empty());
        for (key, found) in block.iter().zip(found) {
            assert_eq!(found, reader.contains(key).unwrap());
        }
    }
    (0..=view.pages.map.regions() as u32).for_each(|region| view.comes_to(crate::cuckoo::RegionId(region)));
}
