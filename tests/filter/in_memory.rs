//! Invariants checked:
//!
//! 1. A copy in memory gives the answers of the file as of one commit, whatever happens to the file later.
//! 2. Bytes are accepted and refused like a sealed file with these bytes, at any alignment, and give the same answers.
//! 3. The bytes of a copy are a file that writers can open. Bytes of a file that a writer has open are refused.

use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use std::time::Duration;

use gowk::{Batches, Error, ErrorKind, Kind, Lookup, Options, Reader, SlotsPerBucket, Verify};

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
        assert!(memory.verify(&|_, _| {}).unwrap().is_clean());
        let copy = dir.path().join("copy");
        // Copying needs the permissions of the file, which was removed.
        assert!(matches!(memory.copy_to(&copy, &|_, _| {}), Err(Error::Io { .. })));
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
            assert!(memory.verify(&|_, _| {}).unwrap().is_clean());
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

fn kinds() -> Vec<Options> {
    let new = || Options::new().capacity(5_000).seed(1);
    let sets = SlotsPerBucket::ALL.into_iter().map(|slots| new().slots_per_bucket(slots));
    let counting = SlotsPerBucket::ALL.into_iter().map(|slots| new().slots_per_bucket(slots).counting());
    sets.chain(counting)
        .chain([new().forget_after(Duration::from_secs(60)), Options::new().keep_newest(5_000)])
        .collect()
}

#[test]
fn bytes_of_any_filter_give_its_answers_and_are_a_file() {
    for options in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut writer = options.create(&path).unwrap();
        writer.insert_batch(&keys(0..4_000)).unwrap().complete().unwrap();
        writer.metadata_mut().unwrap().set("crawl", "page 17");
        writer.commit().unwrap();
        let _ = writer.insert(key(1)).unwrap();
        writer.commit().unwrap();
        // A writer has the file open, and the last commit is in the journal.
        let file = Reader::open(&path).unwrap();
        let bytes = file.copy_to_bytes().unwrap();
        let info = file.info().unwrap();
        assert_eq!(bytes.len() as u64, info.file_length);
        for shift in [0, 3, 8] {
            let moved: Vec<u8> = std::iter::repeat_n(7, shift).chain(bytes.iter().copied()).collect();
            let read = Reader::from_bytes(&moved[shift..]).unwrap();
            drop(moved);
            let asked = keys(0..10_000);
            assert_eq!(read.contains_batch(&asked).unwrap(), file.contains_batch(&asked).unwrap());
            assert!(asked[..4_000].iter().all(|key| read.contains(key).unwrap()));
            assert!(asked.iter().step_by(17).all(|key| read.count(key).unwrap() == file.count(key).unwrap()));
            assert_eq!(read.metadata().unwrap().get("crawl"), Some(&b"page 17"[..]));
            assert!(read.verify(&|_, _| {}).unwrap().is_clean());
            assert!(!read.reload().unwrap());
            let now = read.info().unwrap();
            assert_eq!((now.copies, now.kind, now.journal_length), (info.copies, info.kind, 0));
            assert_ne!(now.uuid, info.uuid);
        }
        // From bytes to file, to bytes and to file again.
        let (sent, copy) = (dir.path().join("sent"), dir.path().join("copy"));
        std::fs::write(&sent, &bytes).unwrap();
        let mut writer = Options::new().open_existing(&sent).unwrap();
        assert!(writer.contains(key(0)).unwrap());
        let _ = writer.insert(key(1 << 40)).unwrap();
        writer.commit().unwrap();
        writer.close().unwrap();
        let closed = Reader::from_bytes(std::fs::read(&sent).unwrap()).unwrap();
        assert!(closed.contains(key(1 << 40)).unwrap());
        closed.copy_to(&copy, &|_, _| {}).unwrap();
        assert!(Reader::open(&copy).unwrap().contains(key(1 << 40)).unwrap());
        let of_memory = Reader::open_in_memory(&copy).unwrap().copy_to_bytes().unwrap();
        assert!(Reader::from_bytes(of_memory).unwrap().contains(key(1 << 40)).unwrap());
    }
}

#[test]
fn bytes_that_are_no_whole_closed_filter_are_refused_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let mut writer = Options::new().capacity(50_000).create(&path).unwrap();
    writer.insert_batch(&keys(0..40_000)).unwrap().complete().unwrap();
    writer.commit().unwrap();
    let error = Reader::from_bytes(std::fs::read(&path).unwrap()).unwrap_err();
    assert!(matches!(error, Error::Unclosed { .. }) && error.kind() == ErrorKind::Invalid, "{error}");
    let text = error.to_string();
    assert!(text.contains("<bytes>") && text.contains("copy_to_bytes"), "{text}");
    writer.close().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert!(Reader::from_bytes(&bytes).is_ok());
    let refused = |bytes: &[u8]| Reader::from_bytes(bytes).unwrap_err().kind();
    assert_eq!(refused(b""), ErrorKind::Foreign);
    assert_eq!(refused(b"a\nb\n"), ErrorKind::Foreign);
    assert_eq!(refused(&bytes[..bytes.len() - 1]), ErrorKind::Damaged);
    assert_eq!(refused(&bytes[..200]), ErrorKind::Damaged);
    assert_eq!(refused(&[&bytes[..], &[0]].concat()), ErrorKind::Damaged);
    let counting = Options::new().kind(Kind::Counting).read_bytes(&bytes);
    assert!(matches!(counting, Err(Error::Kind { .. })));
    let mut damaged = bytes;
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let reader = Reader::from_bytes(&damaged).unwrap();
    assert!(keys(0..40_000).iter().any(|key| matches!(reader.contains(key), Err(Error::Damaged { .. }))));
    assert_eq!(reader.verify(&|_, _| {}).unwrap().damaged.len(), 1);
    assert!(matches!(reader.copy_to_bytes(), Err(Error::Damaged { .. })));
    let eager = Options::new().verify(Verify::Eager).read_bytes(&damaged);
    assert!(matches!(eager, Err(Error::Damaged { .. })));
}

/// Also tests files that have a journal: the bytes alone equal a sealed file without a journal.
#[test]
fn bytes_of_every_vector_are_accepted_and_refused_as_the_sealed_file() {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("format-spec/vectors");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let (mut accepted, mut refused) = (0, 0);
    for folder in ["accept", "reject"] {
        for entry in std::fs::read_dir(vectors.join(folder)).unwrap() {
            let vector = entry.unwrap().path();
            let mut bytes = Vec::new();
            flate2::read::GzDecoder::new(std::fs::File::open(&vector).unwrap())
                .read_to_end(&mut bytes)
                .unwrap();
            std::fs::write(&path, &bytes).unwrap();
            let file = Options::new().sealed(true).read(&path);
            match (Reader::from_bytes(&bytes), file) {
                (Ok(read), Ok(file)) => {
                    accepted += 1;
                    let answers = |reader: &Reader| {
                        let keys = (0..2000).map(|number| format!("key-{number}"));
                        let counts = keys.map(|key| reader.count(key).map_err(|error| error.kind()));
                        (counts.collect::<Vec<_>>(), reader.verify(&|_, _| {}).unwrap().damaged)
                    };
                    assert_eq!(answers(&read), answers(&file), "{}", vector.display());
                }
                (Err(Error::Unclosed { .. }), Err(Error::NotSealed { .. })) => refused += 1,
                (Err(of_bytes), Err(of_file)) => {
                    refused += 1;
                    let text = of_file.to_string().replace(path.to_str().unwrap(), "<bytes>");
                    assert_eq!(of_bytes.to_string(), text, "{}", vector.display());
                }
                (of_bytes, of_file) => panic!("{}: {of_bytes:?}, {of_file:?}", vector.display()),
            }
        }
    }
    assert!(accepted > 40 && refused > 60, "{accepted} accepted, {refused} refused");
}
