//! Filters divided into shards, and shards joined into a filter.
//!
//! Invariants checked, 1 to 3 for every width, over filters with tails of several lengths, and with void entries in narrow
//! widths:
//!
//! 1. A shard answers its own keys as the whole filter does, false positives included. It refuses other keys with an
//!    error that names their shard. Its counters equal a scan. All shards together have the whole's totals.
//! 2. Joined shards have the whole's regions, byte for byte, also after an intermediate join into fewer shards. If
//!    regions had to be doubled first, they equal the regions of the whole after equally many doublings.
//! 3. Shards that doubled separately join to a filter with all keys, as if the whole had doubled.
//! 4. Filters that cannot be divided or joined are refused with the reason, and no file is created.
//! 5. A filter that is divided while its writer commits is divided as of one commit.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use gowk::{Batches, Difference, Error, KeyHash, Kind, Lookup, Options, Reader, SlotsPerBucket, Writer};

use crate::thorough;

const SEED: u64 = 11;
const REGION: usize = 65_536;
const QUIET: fn(u64, u64) = |_, _| {};

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

fn regions(path: &Path) -> Vec<u8> {
    let count = Reader::open(path).unwrap().info().unwrap().regions as usize;
    let bytes = fs::read(path).unwrap();
    bytes[bytes.len() - count * REGION..].to_vec()
}

/// A writer of a filter with `keys` keys. A part of them is inserted before each doubling, and one after the last.
fn grown(
    path: &Path,
    kind: Kind,
    slots: SlotsPerBucket,
    capacity: u64,
    keys: u64,
    generations: u32,
) -> (Writer, Vec<KeyHash>) {
    let options =
        Options::new().slots_per_bucket(slots).capacity(capacity).seed(SEED).void_growth(true).threads(2);
    let mut writer = options.kind(kind).create(path).unwrap();
    let hashes: Vec<KeyHash> = (0..keys).map(|number| writer.hash(&key(number)).unwrap()).collect();
    let mut rest = &hashes[..];
    for step in 0..=generations {
        if step > 0 {
            writer.grow().unwrap();
        }
        // Each part fills the filter to the same load.
        let (these, others) =
            rest.split_at(rest.len() + (hashes.len() >> (generations - step)) - hashes.len());
        assert!(writer.insert_batch(these).unwrap().refused().is_empty());
        rest = others;
    }
    writer.metadata_mut().unwrap().set("of the whole", *b"1");
    writer.commit().unwrap();
    assert_eq!(writer.info().unwrap().generation, generations);
    (writer, hashes)
}

fn destinations(dir: &Path, parts: u64) -> Vec<PathBuf> {
    (0..parts).map(|part| dir.join(format!("part-{part}"))).collect()
}

fn open_all(paths: &[PathBuf]) -> Vec<Reader> {
    paths.iter().map(|path| Reader::open(path).unwrap()).collect()
}

fn answers(reader: &Reader, hashes: &[KeyHash]) -> Vec<bool> {
    reader.contains_batch(hashes).unwrap()
}

/// Compares the shards with the whole filter.
fn assert_divided(whole: &Reader, parts: &[Reader], hashes: &[KeyHash]) {
    let all = whole.info().unwrap();
    let shards = all.shards * parts.len() as u64;
    let (mut inserted, mut removed) = (0, 0);
    for (number, part) in (all.shard * parts.len() as u64..).zip(parts) {
        let info = part.info().unwrap();
        assert_eq!((info.shards, info.shard), (shards, number));
        assert_eq!(
            (info.seed, info.slots_per_bucket, info.growth),
            (all.seed, all.slots_per_bucket, all.growth)
        );
        assert!(part.verify(&QUIET).unwrap().is_clean(), "counters differ from a scan");
        assert_eq!(part.metadata().unwrap(), whole.metadata().unwrap());
        assert_eq!(info.kind, all.kind);
        let (mine, others): (Vec<KeyHash>, Vec<KeyHash>) =
            hashes.iter().partition(|hash| hash.shard(shards) == number);
        assert_eq!(answers(part, &mine), answers(whole, &mine));
        for hash in others.iter().take(20) {
            match part.contains(*hash) {
                Err(Error::OtherShard { shard, belongs, .. }) => {
                    assert_eq!((shard, belongs), (number, hash.shard(shards)));
                }
                outcome => panic!("{outcome:?}"),
            }
        }
        inserted += info.inserted;
        removed += info.removed;
    }
    assert_eq!((inserted, removed), (all.inserted, all.removed));
}

#[test]
fn a_filter_divided_and_joined_again_is_the_same_byte_for_byte() {
    // `GOWK_DIVIDED_KEYS=5000000` takes some minutes.
    let asked = std::env::var("GOWK_DIVIDED_KEYS").ok().and_then(|keys| keys.parse().ok());
    let keys =
        asked.unwrap_or_else(|| thorough::size("keys of a filter that is divided", 100_000_u64, 400_000));
    for slots in SlotsPerBucket::ALL {
        // The short test uses every other generation of each width.
        let step = if thorough::is_asked_for() { 1 } else { 2 };
        for generations in (slots.get() % step..4).step_by(step as usize) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("whole");
            // A multiple of 24 regions divides into 2, 3 and 8 parts.
            let per_region = 8192.0 * f64::from(slots.get()) * 0.79;
            let needed = (keys as f64 / per_region / f64::from(1 << generations)).ceil() as u64;
            let base = needed.next_multiple_of(24);
            let rho = [0.80, 0.90, 0.93, 0.945, 0.955, 0.96][slots.get() as usize - 2];
            let capacity = (base as f64 * 8192.0 * f64::from(slots.get()) * rho) as u64;
            let kind = if generations < 2 { Kind::Counting } else { Kind::Set };
            let (mut writer, mut hashes) = grown(&path, kind, slots, capacity, keys, generations);
            let removed: Vec<KeyHash> = hashes.iter().copied().step_by(97).collect();
            match writer.remove_batch(&removed) {
                Ok(removed) => assert!(kind == Kind::Counting && removed.iter().all(|removed| *removed)),
                Err(error) => assert!(kind == Kind::Set && matches!(error, Error::Kind { .. }), "{error}"),
            }
            writer.commit().unwrap();
            writer.close().unwrap();
            let whole = Reader::open(&path).unwrap();
            assert!(whole.info().unwrap().regions.is_multiple_of(24));
            // Half of these keys are absent.
            hashes.extend((keys..2 * keys).map(|number| whole.hash(&key(number)).unwrap()));
            let original = regions(&path);
            for parts in [2, 3, 8] {
                let folder = dir.path().join(format!("into-{parts}"));
                fs::create_dir(&folder).unwrap();
                let paths = destinations(&folder, parts);
                let reported = Mutex::new((0, 0));
                whole.divide_to(&paths, &|done, all| *reported.lock().unwrap() = (done, all)).unwrap();
                let (done, all) = reported.into_inner().unwrap();
                assert_eq!(done, all);
                let shards = open_all(&paths);
                assert_divided(&whole, &shards, &hashes);
                let joined = folder.join("joined");
                Reader::join_to(&shards, &joined, &QUIET).unwrap();
                assert!(
                    regions(&joined) == original,
                    "{slots:?}, {generations}, {parts}: the regions differ"
                );
                let (before, mut after) =
                    (whole.info().unwrap(), Reader::open(&joined).unwrap().info().unwrap());
                assert_eq!(
                    (after.entries, after.inserted, after.removed),
                    (before.entries, before.inserted, before.removed)
                );
                assert_eq!(
                    (&after.entries_by_tail, after.regions),
                    (&before.entries_by_tail, before.regions)
                );
                assert_eq!((after.shards, after.shard), (1, 0));
                if parts == 8 {
                    // Joined in two steps: first pairs, then the pairs.
                    let pairs: Vec<PathBuf> =
                        (0..4).map(|pair| folder.join(format!("pair-{pair}"))).collect();
                    for (pair, shards) in pairs.iter().zip(shards.chunks(2)) {
                        Reader::join_to(shards, pair, &QUIET).unwrap();
                    }
                    let pairs = open_all(&pairs);
                    assert_divided(&whole, &pairs, &hashes);
                    let again = folder.join("again");
                    Reader::join_to(&pairs, &again, &QUIET).unwrap();
                    assert!(regions(&again) == original);
                    after = Reader::open(&again).unwrap().info().unwrap();
                    assert_eq!(after.inserted, before.inserted);
                }
                // A joined filter takes inserts and commits like any other.
                let mut writer = Options::new().void_growth(true).open_existing(&joined).unwrap();
                writer.insert(hashes[hashes.len() - 1]).unwrap();
                writer.grow().unwrap();
                writer.commit().unwrap();
                assert!(writer.contains(hashes[1]).unwrap());
                fs::remove_dir_all(&folder).unwrap();
            }
        }
    }
}

#[test]
fn where_regions_do_not_divide_they_are_doubled_first_and_no_more_than_needed() {
    for slots in SlotsPerBucket::ALL {
        for (base, parts, doublings) in [(1, 2, 1), (1, 8, 3), (3, 6, 1), (5, 5, 0), (3, 2, 1), (6, 4, 1)] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("whole");
            let rho = [0.80, 0.90, 0.93, 0.945, 0.955, 0.96][slots.get() as usize - 2];
            let capacity = (base as f64 * 8192.0 * f64::from(slots.get()) * rho) as u64;
            let kind = if parts % 4 == 2 { Kind::Set } else { Kind::Counting };
            // After this many doublings, narrow widths have void entries.
            let (writer, mut hashes) = grown(&path, kind, slots, capacity, capacity / 2, 2);
            writer.close().unwrap();
            let whole = Reader::open(&path).unwrap();
            let base = 4 * base;
            let doublings = doublings - doublings.min(2);
            hashes.extend((1 << 30..(1 << 30) + 20_000).map(|number: u64| whole.hash(&key(number)).unwrap()));
            let paths = destinations(dir.path(), parts);
            whole.divide_to(&paths, &QUIET).unwrap();
            let shards = open_all(&paths);
            assert_eq!(shards[0].info().unwrap().regions * parts, base << doublings);
            let joined = dir.path().join("joined");
            Reader::join_to(&shards, &joined, &QUIET).unwrap();
            let mut writer = Options::new().void_growth(true).open_existing(&path).unwrap();
            for _ in 0..doublings {
                writer.grow().unwrap();
            }
            writer.commit().unwrap();
            writer.close().unwrap();
            assert!(regions(&joined) == regions(&path));
            assert_divided(&whole, &shards, &hashes);
        }
    }
}

#[test]
fn shards_that_doubled_by_themselves_join_and_lose_no_key() {
    for slots in SlotsPerBucket::ALL {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("whole");
        let kind = if slots.get() % 2 == 0 { Kind::Set } else { Kind::Counting };
        let (writer, hashes) = grown(&path, kind, slots, 40_000, 20_000, 1);
        writer.close().unwrap();
        let paths = destinations(dir.path(), 4);
        Reader::open(&path).unwrap().divide_to(&paths, &QUIET).unwrap();
        // The second shard doubles once, the fourth twice; each gets more keys.
        let mut all = hashes.clone();
        for (shard, doublings) in [(0, 0), (1, 1), (2, 0), (3, 2)] {
            let mut writer = Options::new().void_growth(true).open_existing(&paths[shard]).unwrap();
            for round in 0..=doublings {
                let more = (0..6000).map(|number| writer.hash(&key(1 << 40 | round << 20 | number)).unwrap());
                let more: Vec<KeyHash> = more.filter(|hash| hash.shard(4) == shard as u64).collect();
                assert!(writer.insert_batch(&more).unwrap().refused().is_empty());
                all.extend(more);
                if round < doublings {
                    writer.grow().unwrap();
                }
            }
            writer.commit().unwrap();
            writer.close().unwrap();
        }
        let shards = open_all(&paths);
        let joined = dir.path().join("joined");
        Reader::join_to(&shards, &joined, &QUIET).unwrap();
        let joined = Reader::open(&joined).unwrap();
        let info = joined.info().unwrap();
        assert_eq!(info.regions, 4 * shards[3].info().unwrap().regions);
        assert!(joined.verify(&QUIET).unwrap().is_clean());
        assert!(answers(&joined, &all).iter().all(|found| *found));
        assert_eq!(info.inserted, shards.iter().map(|shard| shard.info().unwrap().inserted).sum::<u64>());
    }
}

#[test]
fn parts_that_do_not_fit_together_are_refused_by_their_difference_and_nothing_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let make = |name: &str, options: Options| {
        let path = dir.path().join(name);
        let mut writer = options.create(&path).unwrap();
        writer.commit().unwrap();
        writer.close().unwrap();
        Reader::open(&path).unwrap()
    };
    let options = |shard: u64, shards: u64| Options::new().seed(1).capacity(100_000).shard(shard, shards);
    let shards: Vec<Reader> = (0..6).map(|shard| make(&format!("s{shard}"), options(shard, 6))).collect();
    let like = make("like", Options::like(&shards[1]).unwrap());
    let none = dir.path().join("none");
    let join = |parts: &[&Reader]| {
        let parts: Vec<Reader> = parts.iter().map(|part| (*part).clone()).collect();
        let outcome = Reader::join_to(&parts, &none, &QUIET);
        assert!(!none.exists());
        outcome
    };
    let [s0, s1, s2, s3, ..] = &shards[..] else { unreachable!() };
    let differs = |outcome: gowk::Result<()>, expected: Difference| match outcome {
        Err(error @ Error::Unlike { .. }) => {
            let text = error.to_string();
            assert!(text.contains("; "), "no remedy in {text}");
            assert!(matches!(error, Error::Unlike { difference, .. } if difference == expected), "{text}");
        }
        outcome => panic!("{outcome:?}, not {expected:?}"),
    };
    differs(join(&[s0, &make("seed", options(1, 6).seed(2))]), Difference::Seed);
    differs(
        join(&[s0, &make("kind", options(1, 6).counting())]),
        Difference::Kind(Kind::Counting, Kind::Set),
    );
    differs(join(&[s0, &make("hash", options(1, 6).hash(gowk::HashKind::Caller))]), Difference::Hash);
    let slots = options(1, 6).slots_per_bucket(SlotsPerBucket::Five);
    differs(join(&[s0, &make("slots", slots)]), Difference::Slots(5, 4));
    differs(join(&[s0, &make("of", options(1, 7))]), Difference::Shards(7, 6));
    differs(join(&[s0, s2]), Difference::Shard(2, 1));
    differs(join(&[s1, s0]), Difference::Shard(0, 2));
    differs(join(&[s0, s0]), Difference::Shard(0, 1));
    differs(join(&[s0, &make("regions", options(1, 6).capacity(250_000))]), Difference::Regions(4, 9));
    for parts in [&[s0, s1, s2, s3][..], &[s1, s2], &[s2, s3, &shards[4]], &[]] {
        assert!(matches!(join(parts), Err(Error::Option { option: "number of shards", .. })));
    }
    let mut writer = Options::new().open_existing(dir.path().join("like")).unwrap();
    writer.metadata_mut().unwrap().set("name", *b"a");
    writer.commit().unwrap();
    let mut other = Options::new().open_existing(dir.path().join("s0")).unwrap();
    other.metadata_mut().unwrap().set("name", *b"b");
    other.commit().unwrap();
    differs(join(&[s0, &like]), Difference::Metadata("name".to_owned()));
    other.metadata_mut().unwrap().set("name", *b"a");
    other.commit().unwrap();
    join_two(&[s0, &like], &dir.path().join("both"));

    let seven = make("seven", Options::new().capacity(1));
    let path = |name: &str| dir.path().join(name);
    let refused = seven.divide_to(&[path("a"), path("b"), path("c")], &QUIET);
    assert!(matches!(refused, Err(Error::Indivisible { regions: 1, parts: 3, .. })), "{refused:?}");
    let even = make("even", Options::new().capacity(50_000));
    let refused = even.divide_to(&[path("a"), path("b"), path("c")], &QUIET);
    assert!(matches!(refused, Err(Error::Indivisible { regions: 2, parts: 3, .. })), "{refused:?}");
    assert!(["a", "b", "c", "a-lock"].iter().all(|name| !path(name).exists()));
    assert!(matches!(seven.divide_to::<&Path>(&[], &QUIET), Err(Error::Indivisible { parts: 0, .. })));
    // The second destination exists, so the first is not created either.
    let taken = seven.divide_to(&[path("a"), path("s0")], &QUIET);
    assert!(matches!(taken, Err(Error::Exists { .. } | Error::Locked { .. })), "{taken:?}");
    assert!(!path("a").exists() && !path("b").exists());
}

fn join_two(parts: &[&Reader; 2], destination: &Path) {
    Reader::join_to(&parts.map(Reader::clone), destination, &QUIET).unwrap();
    let joined = Reader::open(destination).unwrap();
    assert_eq!(joined.metadata().unwrap().get("name"), Some(&b"a"[..]));
    assert_eq!((joined.info().unwrap().shards, joined.info().unwrap().shard), (3, 0));
}

/// Each commit adds 64 keys to all shards. The parts must hold all 64 of them or none.
#[test]
fn a_filter_divided_beside_its_writer_is_that_of_one_commit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("whole");
    let (mut writer, _) = grown(&path, Kind::Set, SlotsPerBucket::Four, 2_000_000, 1000, 0);
    let reader = Reader::open(&path).unwrap();
    let commits = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for commit in 0..200 {
                (0..64).for_each(|number| _ = writer.insert(&key(1 << 50 | commit << 20 | number)).unwrap());
                writer.commit().unwrap();
                commits.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            writer.close().unwrap();
        });
        for round in 0..5 {
            let folder = dir.path().join(format!("round-{round}"));
            fs::create_dir(&folder).unwrap();
            let before = commits.load(std::sync::atomic::Ordering::SeqCst);
            let paths = destinations(&folder, 4);
            reader.divide_to(&paths, &QUIET).unwrap();
            let shards = open_all(&paths);
            let holds = |commit: u64| {
                let found = (0..64).map(|number| {
                    let hash = reader.hash(&key(1 << 50 | commit << 20 | number)).unwrap();
                    shards[hash.shard(4) as usize].contains(hash).unwrap()
                });
                found.filter(|found| *found).count()
            };
            let whole: Vec<u64> = (0..200).filter(|commit| holds(*commit) == 64).collect();
            assert!(whole.len() as u64 >= before);
            assert_eq!(whole, (0..whole.len() as u64).collect::<Vec<_>>());
            // Later commits are absent, apart from false positives.
            assert!((whole.len() as u64..200).all(|commit| holds(commit) < 5), "a part of a commit is there");
        }
    });
}
