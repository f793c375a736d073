//! Filters that divide all keys among themselves.
//!
//! Invariants checked, for every width, with numbers of shards that are a power of two and others:
//!
//! 1. Shards hold exactly what one filter of all their regions holds: the same buckets in the same places, and the same
//!    answers, false positives included, for single keys and batches, bytes and hashes.
//! 2. Every call that takes a key refuses a key of another shard, names that shard, and changes nothing.
//! 3. Shards stay shards through commits, doublings, copies and copies in memory.

use std::fs;
use std::path::{Path, PathBuf};

use gowk::{Batches, Error, KeyHash, Lookup, Options, Reader, SlotsPerBucket, Writer};

const SEED: u64 = 7;
const REGION: usize = 65_536;
/// The load for which a new filter is sized, for 2 to 7 slots (section 3.3 of the specification).
const RHO: [f64; 6] = [0.80, 0.90, 0.93, 0.945, 0.955, 0.96];

/// The regions of a filter's file, as they are on the disk.
fn regions(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    let count = Reader::open(path).unwrap().info().unwrap().regions as usize;
    bytes[bytes.len() - count * REGION..].to_vec()
}

/// Options that give a filter this many regions.
fn options(slots: SlotsPerBucket, regions: u64) -> Options {
    let keys = (regions * 8192 * u64::from(slots.get())) as f64 * RHO[slots.get() as usize - 2];
    Options::new().slots_per_bucket(slots).capacity(keys as u64).seed(SEED)
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// The hash of each key of a range under `SEED`.
fn hashes(writer: &Writer, numbers: std::ops::Range<u64>) -> Vec<KeyHash> {
    numbers.map(|number| writer.hash(&key(number)).unwrap()).collect()
}

fn paths(dir: &Path, shards: u64) -> Vec<PathBuf> {
    (0..shards).map(|shard| dir.join(format!("shard-{shard}"))).collect()
}

#[test]
fn shards_hold_what_one_filter_of_all_their_regions_holds() {
    for slots in SlotsPerBucket::ALL {
        for (shards, of_one) in [(2, 1), (3, 2), (8, 1)] {
            let dir = tempfile::tempdir().unwrap();
            let whole = dir.path().join("whole");
            let all = options(slots, shards * of_one);
            let keys = (shards * of_one * 8192 * u64::from(slots.get())) * 3 / 5;
            let mut writer = all.create(&whole).unwrap();
            assert_eq!(writer.info().unwrap().regions, shards * of_one);
            let hashes = hashes(&writer, 0..keys);
            // Half of the keys are inserted before a doubling, so that tails have two lengths.
            let (early, late) = hashes.split_at(hashes.len() / 2);
            assert!(writer.insert_batch(early).unwrap().refused().is_empty());
            writer.grow().unwrap();
            assert!(writer.insert_batch(late).unwrap().refused().is_empty());
            writer.commit().unwrap();
            writer.close().unwrap();
            let (mut joined, mut entries) = (Vec::new(), 0);
            for (shard, path) in (0..).zip(paths(dir.path(), shards)) {
                let mut writer = options(slots, of_one).shard(shard, shards).create(&path).unwrap();
                writer.commit().unwrap();
                let of_shard = |hashes: &[KeyHash]| -> Vec<KeyHash> {
                    hashes.iter().copied().filter(|hash| hash.shard(shards) == shard).collect()
                };
                // Each shard gets its keys through a different call.
                match shard % 3 {
                    0 => assert!(writer.insert_batch(&of_shard(early)).unwrap().refused().is_empty()),
                    1 => of_shard(early).into_iter().for_each(|hash| _ = writer.insert(hash).unwrap()),
                    _ => {
                        let numbers = (0..early.len() as u64).map(key);
                        let mine: Vec<_> =
                            numbers.filter(|key| writer.hash(key).unwrap().shard(shards) == shard).collect();
                        assert!(writer.insert_batch(&mine).unwrap().refused().is_empty());
                    }
                }
                writer.grow().unwrap();
                of_shard(late).into_iter().for_each(|hash| _ = writer.insert(hash).unwrap());
                writer.commit().unwrap();
                let info = writer.info().unwrap();
                assert_eq!((info.shards, info.shard, info.regions), (shards, shard, 2 * of_one));
                entries += info.entries;
                writer.close().unwrap();
                joined.extend(regions(&path));
            }
            assert_eq!(entries, Reader::open(&whole).unwrap().info().unwrap().entries);
            assert!(joined == regions(&whole), "{slots:?}, {shards} shards: the buckets differ");
            // Other keys also get the same answers, false positives included.
            let one = Reader::open(&whole).unwrap();
            let others: Vec<KeyHash> =
                (keys..keys + 60_000).map(|number| one.hash(&key(number)).unwrap()).collect();
            let found = one.contains_batch(&others).unwrap();
            for (shard, path) in (0..).zip(paths(dir.path(), shards)) {
                let reader = Reader::open(&path).unwrap();
                let of_shard = others.iter().zip(&found).filter(|(hash, _)| hash.shard(shards) == shard);
                let (asked, expected): (Vec<KeyHash>, Vec<bool>) =
                    of_shard.map(|(hash, found)| (*hash, *found)).unzip();
                let answers = reader.contains_batch(&asked).unwrap();
                assert_eq!(answers, expected);
                for (hash, found) in asked.iter().zip(expected).take(2000) {
                    assert_eq!(reader.contains(*hash).unwrap(), found);
                    assert_eq!(reader.count(*hash).unwrap() > 0, found);
                }
            }
        }
    }
}

/// Checks that the outcome is a refusal that names shard 1 of 3, and the key's shard.
fn assert_other<T: std::fmt::Debug>(outcome: gowk::Result<T>, belongs: u64) {
    match outcome {
        Err(error @ Error::OtherShard { shard: 1, shards: 3, belongs: found, .. }) if found == belongs => {
            let text = error.to_string();
            assert!(
                text.contains("holds shard 1 of 3") && text.contains(&format!("belongs to shard {belongs}"))
            );
        }
        outcome => panic!("not refused as a key of shard {belongs}: {outcome:?}"),
    }
}

#[test]
fn keys_of_other_shards_are_refused_in_every_call_and_change_nothing() {
    for slots in SlotsPerBucket::ALL {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut writer = options(slots, 2).counting().shard(1, 3).threads(2).create(&path).unwrap();
        let all = hashes(&writer, 0..20_000);
        let (mine, others): (Vec<u64>, Vec<u64>) =
            (0..20_000).partition(|number| all[*number as usize].shard(3) == 1);
        let (mine, others): (Vec<_>, Vec<_>) =
            (mine.into_iter().map(key).collect(), others.into_iter().map(key).collect());
        assert!(writer.insert_batch(&mine).unwrap().refused().is_empty());
        writer.commit().unwrap();
        let before = writer.info().unwrap();
        let shard_of = |writer: &Writer, key: &[u8]| writer.hash(key).unwrap().shard(3);
        for key in others.iter().take(50) {
            let (hash, belongs) = (writer.hash(key).unwrap(), shard_of(&writer, key));
            assert_ne!(belongs, 1);
            assert_other(writer.insert(key), belongs);
            assert_other(writer.insert(hash), belongs);
            assert_other(writer.remove(key), belongs);
            assert_other(writer.contains(key), belongs);
            assert_other(writer.count(key), belongs);
            assert_other(writer.insert_batch(&[mine[0], *key]), belongs);
            assert_other(writer.insert_batch(&[*key]), belongs);
            assert_other(writer.remove_batch(&[hash]), belongs);
        }
        // One foreign key among many, on two threads.
        let mut mixed = mine.clone();
        mixed.extend(mine.iter().copied().cycle().take(40_000));
        mixed[31_000] = others[0];
        assert_other(writer.insert_batch(&mixed), shard_of(&writer, &others[0]));
        assert_eq!(writer.info().unwrap(), before);
        let file = Reader::open(&path).unwrap();
        for reader in [&file, &Reader::open_in_memory(&path).unwrap()] {
            // Done twice: the first lookups verify pages, later ones take the shortcut.
            for _ in 0..2 {
                for key in others.iter().take(50) {
                    let (hash, belongs) = (reader.hash(key).unwrap(), shard_of(&writer, key));
                    assert_other(reader.contains(key), belongs);
                    assert_other(reader.contains(hash), belongs);
                    assert_other(reader.count(key), belongs);
                    assert_other(reader.contains_batch(&[mine[0], *key]), belongs);
                    assert_other(reader.contains_batch(&[hash]), belongs);
                }
                let flags = reader.contains_batch(&mine).unwrap();
                assert!(flags.iter().all(|found| *found));
                assert!(
                    mine.iter().all(|key| reader.contains(key).unwrap() && reader.count(key).unwrap() > 0)
                );
            }
        }
        writer.close().unwrap();
        let copy = dir.path().join("copy");
        file.copy_to(&copy, &|_, _| {}).unwrap();
        let info = Reader::open(&copy).unwrap().info().unwrap();
        assert_eq!((info.shards, info.shard), (3, 1));
        assert_other(
            Reader::open(&copy).unwrap().contains(&others[0]),
            file.hash(&others[0]).unwrap().shard(3),
        );
    }
}

#[test]
fn impossible_shards_are_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    for (shard, shards) in [(0, 0), (1, 1), (3, 3), (u64::MAX, 5), (0, (1 << 32) + 1), (0, u64::MAX)] {
        let refused = Options::new().capacity(1).shard(shard, shards).create(&path);
        assert!(
            matches!(refused, Err(Error::Option { option: "shard" | "number of shards", .. })),
            "{refused:?}"
        );
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    // As many shards as regions: each has one region, and may not double.
    let mut writer = Options::new().capacity(1).shard((1 << 32) - 1, 1 << 32).create(&path).unwrap();
    assert!(matches!(writer.grow(), Err(Error::Growth { .. })));
    assert!(writer.info().unwrap().forecast.is_empty());
    let last = KeyHash::from(u128::MAX);
    assert_eq!((last.shard(1 << 32), u128::from(last)), ((1 << 32) - 1, u128::MAX));
    writer.insert(last).unwrap();
    assert!(writer.contains(last).unwrap());
}
