//! Invariant checked: a batch leaves the same filter and gives the same answers as one call for each of its keys, for
//! both kinds and on any number of threads. Where the filter refuses keys, the test goes on to 200 refusals, or 1000 with
//! `GOWK_THOROUGH=1`.

use std::path::Path;

use gowk::{Batches, Error, Growth, Inserted, Kind, Lookup, Options, Reader, SlotsPerBucket, Writer};

use crate::thorough;

/// Numbers as keys: a third of them come twice, and a few very often.
fn keys(count: u64) -> Vec<[u8; 8]> {
    let number = |index| if index % 1000 == 0 { index % 3 } else { index * 7919 % (count * 3 / 4) };
    (0..count).map(|index| number(index).to_le_bytes()).collect()
}

fn options(slots: SlotsPerBucket, capacity: u64) -> Options {
    Options::new().capacity(capacity).slots_per_bucket(slots).seed(7).growth(Growth::Never)
}

/// Inserts one key at a time, and stops after this many refusals, unless the number is 0. Returns the keys that were
/// tried, the indices of refused keys, and which keys are new.
fn one_by_one<'a>(
    writer: &mut Writer,
    keys: &'a [[u8; 8]],
    refusals: usize,
) -> (&'a [[u8; 8]], Vec<usize>, Vec<bool>) {
    let (mut refused, mut new) = (Vec::new(), Vec::new());
    for (index, key) in keys.iter().enumerate() {
        match writer.insert(key) {
            Ok(is_new) => new.push(is_new),
            Err(Error::Full { .. }) => {
                refused.push(index);
                new.push(!writer.contains(key).unwrap());
                if refused.len() == refusals {
                    break;
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
    (&keys[..new.len()], refused, new)
}

/// The bytes of the regions, and `Info` as text.
fn contents(path: &Path) -> (Vec<u8>, String) {
    let reader = Reader::open(path).unwrap();
    assert!(reader.verify(&|_, _| {}).unwrap().is_clean());
    let mut info = reader.info().unwrap();
    // Two filters of the same keys differ in these fields.
    (info.uuid, info.commit) = (Default::default(), 0);
    let regions = usize::try_from(info.regions).unwrap();
    let bytes = std::fs::read(path).unwrap();
    (bytes[bytes.len() - regions * 65_536..].to_vec(), format!("{info:?}"))
}

#[test]
fn a_batch_makes_the_filter_that_single_inserts_make() {
    // Refusals take long, so widths are tested in parallel.
    let refusals = thorough::size("keys refused by each filter", 100, 1000);
    std::thread::scope(|scope| {
        for slots in SlotsPerBucket::ALL {
            scope.spawn(move || a_batch_makes_the_same_filter_of(slots, refusals));
        }
    });
}

fn a_batch_makes_the_same_filter_of(slots: SlotsPerBucket, refusals: usize) {
    let dir = tempfile::tempdir().unwrap();
    let (single, batch) = (dir.path().join("single"), dir.path().join("batch"));
    for kind in [Kind::Counting, Kind::Set] {
        // The first capacity has room for all keys, even if copies fill whole buckets of two slots. The second is too
        // small.
        for (capacity, refusals) in [(400_000, 0), (30_000, refusals)] {
            let options = options(slots, capacity).kind(kind).force(true);
            let mut writer = options.create(&single).unwrap();
            let places = writer.info().unwrap().regions * 8192 * slots.get() as u64;
            // Three quarters of the keys are distinct: a fifth more than there are slots.
            let keys = if refusals == 0 { keys(100_000) } else { keys(places * 8 / 5) };
            // The first part goes into an unpublished file, the others through the journal.
            let (mut parts, mut left) = (Vec::new(), refusals);
            for keys in keys.chunks(keys.len() / 4 + 1) {
                let (keys, refused, new) = one_by_one(&mut writer, keys, left);
                writer.commit().unwrap();
                left -= refused.len();
                parts.push((keys, refused, new));
                if refusals > 0 && left == 0 {
                    break;
                }
            }
            writer.close().unwrap();
            assert!(parts.len() > 2 && left == 0, "{slots:?} {kind} {capacity}");
            let expected = contents(&single);
            for threads in [1, 3] {
                let mut writer = options.clone().threads(threads).create(&batch).unwrap();
                for (keys, refused, new) in &parts {
                    let inserted = writer.insert_batch(keys).unwrap();
                    let got: Vec<usize> = inserted.refused().iter().map(|(index, _)| *index).collect();
                    assert_eq!(&got, refused, "{slots:?} {kind} {capacity} {threads}");
                    assert!(inserted.mask() == *new, "{slots:?} {kind} {capacity} {threads}");
                    assert_eq!(inserted.new_keys(), new.iter().filter(|new| **new).count());
                    writer.commit().unwrap();
                }
                writer.close().unwrap();
                let got = contents(&batch);
                assert_eq!(got.1, expected.1);
                assert!(got.0 == expected.0, "{slots:?} {kind} {capacity} {threads}");
            }
        }
    }
}

#[test]
fn batches_tell_which_keys_are_new_across_doublings() {
    const KEYS: u64 = 1_000_000;
    let dir = tempfile::tempdir().unwrap();
    for threads in [1, 2] {
        let path = dir.path().join(threads.to_string());
        let options = Options::new().capacity(1000).slots_per_bucket(SlotsPerBucket::Two).threads(threads);
        let mut writer = options.create(&path).unwrap();
        let mut seen = std::collections::HashSet::new();
        let keys = keys(KEYS);
        let mut missing = 0;
        for (number, keys) in keys.chunks(300_000).enumerate() {
            let inserted = writer.insert_batch(keys).unwrap();
            assert!(inserted.refused().is_empty());
            let stored = inserted.mask();
            for (key, stored) in keys.iter().zip(&stored) {
                let new = seen.insert(key);
                assert!(new || !stored, "a key was stored twice");
                missing += u64::from(new && !stored);
            }
            if number % 2 == 0 {
                writer.commit().unwrap();
            }
        }
        writer.commit().unwrap();
        writer.close().unwrap();
        // At two slots a bucket, a lookup compares four fingerprints, each of which matches once in 2^31.
        assert!(missing <= 2, "{missing} keys are false positives");
        let reader = Reader::open(&path).unwrap();
        assert!(reader.info().unwrap().generation >= 6);
        assert!(keys.iter().all(|key| reader.contains(key).unwrap()));
        assert!(reader.verify(&|_, _| {}).unwrap().is_clean());
    }
}

#[test]
fn a_damaged_page_stops_those_keys_of_a_batch_that_need_it() {
    const KEYS: u64 = 200_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("filter");
    let mut writer = options(SlotsPerBucket::Four, 2 * KEYS).create(&path).unwrap();
    writer.insert_batch(&keys(KEYS)).unwrap().complete().unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() - 3 * 4096 - 17;
    bytes[at] ^= 4;
    std::fs::write(&path, &bytes).unwrap();
    let mut writer = options(SlotsPerBucket::Four, 2 * KEYS).open_existing(&path).unwrap();
    let more: Vec<_> = (KEYS * 10..KEYS * 11).map(u64::to_le_bytes).collect();
    assert!(matches!(writer.insert_batch(&more), Err(Error::Damaged { .. })));
    // A key that does not need the page is inserted.
    assert!(more.chunks(1).any(|key| writer.insert_batch(key).is_ok_and(|inserted| inserted.is_new(0))));
    writer.rollback().unwrap();
    writer.close().unwrap();
}

#[test]
fn a_batch_removes_what_single_removals_do() {
    const KEYS: u64 = 60_000;
    let dir = tempfile::tempdir().unwrap();
    let (single, batch) = (dir.path().join("single"), dir.path().join("batch"));
    let keys = keys(KEYS);
    // Every second key, as many keys that were never inserted, and more copies of a few keys than are stored.
    let mut gone: Vec<[u8; 8]> = keys.iter().step_by(2).copied().collect();
    gone.extend((KEYS..2 * KEYS).map(u64::to_le_bytes));
    gone.extend((0..3).cycle().take(100).map(u64::to_le_bytes));
    for slots in SlotsPerBucket::ALL {
        // Either many keys for each region, which is then unpacked, or few; in a published file or an unpublished one.
        for (capacity, published) in [(2 * KEYS, true), (200 * KEYS, true), (2 * KEYS, false)] {
            let filled = |path: &Path, threads| {
                let options = options(slots, capacity).counting().force(true);
                let mut writer = options.threads(threads).create(path).unwrap();
                // Nothing may be removed from a saturated count.
                for key in &keys {
                    if writer.count(key).unwrap() < 3 {
                        writer.insert(key).unwrap();
                    }
                }
                if published {
                    writer.commit().unwrap();
                }
                writer
            };
            let mut writer = filled(&single, 1);
            let expected: Vec<bool> = gone.iter().map(|key| writer.remove(key).unwrap()).collect();
            writer.commit().unwrap();
            writer.close().unwrap();
            assert!(expected.contains(&true) && expected.contains(&false));
            for threads in [1, 3] {
                let mut writer = filled(&batch, threads);
                if threads == 1 {
                    assert_eq!(writer.remove_batch(&gone).unwrap(), expected);
                } else {
                    let hashes: Vec<_> = gone.iter().map(|key| writer.hash(key).unwrap()).collect();
                    assert_eq!(writer.remove_batch(&hashes).unwrap(), expected);
                }
                writer.commit().unwrap();
                writer.close().unwrap();
                assert!(contents(&batch) == contents(&single), "{slots:?}, {capacity}, {threads}");
            }
        }
    }
    // A set refuses every removal, and stays unchanged.
    let mut writer = options(SlotsPerBucket::Four, KEYS).force(true).create(&single).unwrap();
    assert_eq!(writer.insert_batch(&[b"a", b"a"]).unwrap().mask(), [true, false]);
    let before = writer.info().unwrap();
    assert!(matches!(writer.remove_batch(&[b"a", b"b"]), Err(Error::Kind { found: Kind::Set, .. })));
    assert!(matches!(writer.remove_all([b"a", b"b"]), Err(Error::Kind { found: Kind::Set, .. })));
    assert!(writer.contains(b"a").unwrap() && writer.info().unwrap() == before);
}

#[test]
fn lookups_are_the_same_on_any_number_of_threads() {
    const KEYS: u64 = 200_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let mut writer = options(SlotsPerBucket::Seven, KEYS).create(&path).unwrap();
    let all: Vec<[u8; 8]> = (0..2 * KEYS).map(u64::to_le_bytes).collect();
    writer.insert_batch(&all[..KEYS as usize]).unwrap().complete().unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    let reader = Reader::open(&path).unwrap();
    let expected: Vec<bool> = all.iter().map(|key| reader.contains(key).unwrap()).collect();
    assert!(expected[..KEYS as usize].iter().all(|found| *found));
    assert!(expected.iter().any(|found| !*found));
    let hashes: Vec<_> = all.iter().map(|key| reader.hash(key).unwrap()).collect();
    for threads in [1, 2, 3, 7, 100] {
        let reader = Options::new().threads(threads).read(&path).unwrap();
        for count in [all.len(), 0, 1, 131_073] {
            let found = reader.contains_batch(&all[..count]).unwrap();
            assert_eq!(found, expected[..count], "{threads} threads, {count} keys");
            let found = reader.contains_batch(&hashes[..count]).unwrap();
            assert_eq!(found, expected[..count], "{threads} threads, {count} hashes");
        }
    }
    // An error on one of the threads is returned.
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let reader = Options::new().threads(3).read(&path).unwrap();
    assert!(matches!(reader.contains_batch(&all), Err(Error::Damaged { .. })));
}

/// There are more keys than are hashed at a time, and a few find no room.
#[test]
fn an_iterator_makes_the_filter_that_batches_make_and_numbers_the_keys_refused() {
    const KEYS: u64 = 1_100_000;
    let dir = tempfile::tempdir().unwrap();
    let (batches, iterator) = (dir.path().join("batches"), dir.path().join("iterator"));
    // The first 20,000 keys come again at the end.
    let keys: Vec<_> = (0..KEYS).map(|index| (index % (KEYS - 20_000)).to_le_bytes()).collect();
    for kind in [Kind::Counting, Kind::Set] {
        let options = options(SlotsPerBucket::Four, 1_040_000).kind(kind).max_kicks(5).force(true);
        let mut writer = options.create(&batches).unwrap();
        let of_batch = writer.insert_batch(&keys).unwrap();
        writer.commit().unwrap();
        let mut other = options.create(&iterator).unwrap();
        // Owned keys, and borrowed ones.
        let of_iterator = match kind {
            Kind::Set => other.insert_all(keys.iter().map(|key| key.to_vec())).unwrap(),
            _ => other.insert_all(&keys).unwrap(),
        };
        other.commit().unwrap();
        let numbers = |inserted: &Inserted| inserted.refused().iter().map(|(at, _)| *at).collect::<Vec<_>>();
        let refused = numbers(&of_batch);
        assert_eq!(numbers(&of_iterator), refused);
        assert!(of_iterator.mask() == of_batch.mask());
        let last = refused.last();
        assert!(last.is_some_and(|at| *at > 1 << 20), "{} refused, the last is {last:?}", refused.len());
        let expected = match kind {
            // A refused key may be new, but is not stored.
            Kind::Set => {
                of_batch.new_keys() as u64 - refused.iter().filter(|at| of_batch.is_new(**at)).count() as u64
            }
            _ => KEYS - refused.len() as u64,
        };
        assert_eq!((of_iterator.keys() as u64, other.len().unwrap()), (KEYS, expected));
        let first = of_iterator.complete().unwrap_err();
        assert!(first.refuses_one_key(), "{first}");
        drop((writer, other));
        assert!(contents(&batches) == contents(&iterator));
        assert_eq!(Reader::open(&iterator).unwrap().len().unwrap(), expected);
    }

    let mut writer =
        options(SlotsPerBucket::Four, 2 * KEYS).counting().force(true).create(&iterator).unwrap();
    assert!(writer.is_empty().unwrap());
    assert!(writer.insert_all(&keys).unwrap().refused().is_empty());
    assert_eq!(writer.remove_all(&keys).unwrap(), KEYS);
    assert!(writer.is_empty().unwrap());
    assert_eq!(writer.remove_all(std::iter::empty::<&str>()).unwrap(), 0);
    assert_eq!(writer.insert_all(std::iter::empty::<&str>()).unwrap().complete().unwrap(), 0);
    assert_eq!(writer.path(), iterator.canonicalize().unwrap());
}

/// Tests text, vectors, arrays, and references to them.
#[test]
fn keys_are_anything_that_is_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let error = Writer::open(&path).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "opening has created a file");
    Options::new().counting().capacity(1000).create(&path).unwrap().commit().unwrap();

    let mut writer = Writer::open(&path).unwrap();
    writer.insert("text").unwrap();
    writer.insert(String::from("text")).unwrap();
    writer.insert(vec![b't', b'e', b'x', b't']).unwrap();
    writer.insert(*b"text").unwrap();
    writer.insert(&"text").unwrap();
    assert_eq!(writer.count("text").unwrap(), 5);
    assert!(writer.remove("text").unwrap() && writer.remove(Box::from(*b"text")).unwrap());
    assert!(writer.insert("other").unwrap() && writer.contains("other").unwrap());
    assert_eq!(writer.remove_batch(&["text", "absent"]).unwrap(), [true, false]);
    writer.commit().unwrap();

    let reader = Reader::open(&path).unwrap();
    assert!(reader.contains("text").unwrap() && reader.contains(String::from("text")).unwrap());
    assert_eq!(reader.count("text").unwrap(), 2);
    assert_eq!(reader.contains_batch(&["text", "absent"]).unwrap(), [true, false]);
    let hashes = ["other", "absent"].map(|key| reader.hash(key).unwrap());
    assert_eq!(reader.contains_batch(&hashes).unwrap(), [true, false]);
    assert_eq!((reader.len().unwrap(), reader.is_empty().unwrap()), (3, false));
}
