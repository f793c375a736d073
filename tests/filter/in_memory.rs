//! Invariant checked: a copy in memory gives the answers of the file as of one commit, whatever happens to the file.

use std::sync::atomic::{AtomicBool, Ordering};

use gowk::{Batches, Error, Lookup, Options, Reader, SlotsPerBucket};

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

fn keys(numbers: std::ops::Range<u64>) -> Vec<[u8; 8]> {
    numbers.map(key).collect()
}

#[test]
fn a_copy_in_memory_answers_as_the_file_did_after_the_file_changed_or_was_removed() {
    const KEYS: u64 = 100_000;
    for slots in SlotsPerBucket::ALL {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let options = Options::new().counting().capacity(KEYS).slots_per_bucket(slots).threads(2);
        let mut writer = options.create(&path).unwrap();
        writer.insert_batch(&keys(0..KEYS / 2)).unwrap().complete().unwrap();
        writer.insert(&key(0)).unwrap();
        writer.metadata_mut().unwrap().set("crawl", "page 17");
        writer.commit().unwrap();
        // The last commit is in the journal, and the writer still has the file open.
        let memory = options.read_in_memory(&path).unwrap();
        let file = Reader::open(&path).unwrap();
        let asked = keys(0..KEYS);
        let of_file = file.contains_batch(&asked).unwrap();
        let counts: Vec<u32> = asked.iter().map(|key| file.count(key).unwrap()).collect();
        let info = file.info().unwrap();
        writer.insert_batch(&keys(KEYS / 2..4 * KEYS)).unwrap().complete().unwrap();
        writer.commit().unwrap();
        writer.close().unwrap();
        for name in ["f", "f-journal", "f-lock"] {
            std::fs::remove_file(dir.path().join(name)).unwrap();
        }
        let of_memory = memory.contains_batch(&asked).unwrap();
        assert_eq!(of_memory, of_file);
        assert!(of_file[..KEYS as usize / 2].iter().all(|found| *found));
        for (key, (found, count)) in asked.iter().zip(of_file.iter().zip(&counts)) {
            assert_eq!((memory.contains(key).unwrap(), memory.count(key).unwrap()), (*found, *count));
            let hash = memory.hash(key).unwrap();
            assert_eq!((memory.contains(hash).unwrap(), memory.count(hash).unwrap()), (*found, *count));
        }
        assert_eq!(memory.count(&key(0)).unwrap(), counts[0]);
        assert!(counts[0] >= 2);
        let mut now = memory.info().unwrap();
        assert_eq!((now.copies, now.commit, now.uuid), (info.copies, info.commit, info.uuid));
        now.journal_length = info.journal_length;
        assert_eq!(format!("{now:?}"), format!("{info:?}"));
        assert_eq!(memory.metadata().unwrap().get("crawl"), Some(b"page 17".as_slice()));
        assert!(memory.verify(&mut |_, _| {}).unwrap().is_clean());
        let copy = dir.path().join("copy");
        // A copy needs the permissions of the file, which was removed.
        assert!(matches!(memory.copy_to(&copy, &mut |_, _| {}), Err(Error::Io { .. })));
    }
}

#[test]
fn a_copy_made_beside_a_busy_writer_holds_whole_commits() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let mut writer = Options::new().counting().capacity(2_000_000).create(&path).unwrap();
    writer.commit().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let done = &done;
        scope.spawn(move || {
            // Commit n has the keys below 1000 n, spread over all regions.
            for commit in 0..400 {
                writer.insert_batch(&keys(1000 * commit..1000 * (commit + 1))).unwrap().complete().unwrap();
                writer.commit().unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        let (mut copies, mut last) = (0, 0);
        while !done.load(Ordering::Relaxed) {
            let memory = match Reader::open_in_memory(&path) {
                Err(Error::Busy { .. }) => continue,
                outcome => outcome.unwrap(),
            };
            let info = memory.info().unwrap();
            assert!(info.copies.is_multiple_of(1000) && info.copies >= last);
            assert!((0..info.copies).all(|number| memory.contains(&key(number)).unwrap()));
            assert!(memory.verify(&mut |_, _| {}).unwrap().is_clean());
            last = info.copies;
            copies += 1;
        }
        assert!(copies > 0);
    });
}

#[test]
fn a_damaged_page_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let mut writer = Options::new().capacity(100_000).create(&path).unwrap();
    writer.insert_batch(&keys(0..100_000)).unwrap().complete().unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert!(matches!(Reader::open_in_memory(&path), Err(Error::Damaged { .. })));
    assert!(matches!(Reader::open_in_memory(dir.path().join("none")), Err(Error::NotFound { .. })));
}
