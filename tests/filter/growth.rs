//! Doubling.
//!
//! Invariants checked:
//!
//! 1. No key is lost by any number of doublings, with inserts and removals in between.
//! 2. The false-positive rate is the expected one, and rises no faster than promised.
//! 3. The counters by tail length equal a full scan.
//! 4. Colliding keys never make a filter double.
//! 5. Each limit causes its own error, and leaves the transaction whole.
//!
//! `GOWK_THOROUGH=1` doubles more often, with more keys.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use gowk::{Error, Growth, GrowthRefusal, Lookup, Options, Reader, SlotsPerBucket, Writer};

use crate::thorough;

fn path(dir: &tempfile::TempDir) -> PathBuf {
    dir.path().join("f.gowk")
}

fn key(i: u64) -> [u8; 8] {
    i.to_le_bytes()
}

/// Commits, and checks the counters against a scan of the whole file.
fn commit_and_verify(writer: &mut Writer, path: &PathBuf) {
    writer.commit().unwrap();
    let reader = Reader::open(path).unwrap();
    let report = reader.verify(&|_, _| {}).unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(reader.info().unwrap().entries_by_tail, writer.info().unwrap().entries_by_tail);
}

fn measured_rate(writer: &Writer, absent: std::ops::Range<u64>) -> f64 {
    let lookups = absent.end - absent.start;
    absent.filter(|i| writer.contains(&key(*i)).unwrap()).count() as f64 / lookups as f64
}

#[test]
fn doublings_lose_no_key_and_keep_the_rate() {
    // Seven doublings, or ten.
    let keys = thorough::size("keys through many doublings", 2_500_000, 20_000_000);
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Options::new().capacity(1000).open(path(&dir)).unwrap();
    for i in 0..keys {
        writer.insert(&key(i)).unwrap();
    }
    commit_and_verify(&mut writer, &path(&dir));
    assert!((0..keys).all(|i| writer.contains(&key(i)).unwrap()));
    let info = writer.info().unwrap();
    let enough = keys.ilog2() - 15;
    assert!(info.generation >= enough, "{}, not {enough}", info.generation);
    let rate = measured_rate(&writer, keys..keys + 5_000_000);
    let expected = info.expected_false_positive_rate;
    assert!((rate / expected - 1.0).abs() < 0.15, "{rate} for {expected}");
    // The rate of a marked filter is twice that of a new set.
    let marked = 2.0 * SlotsPerBucket::Four.false_positive_rate();
    let promised = marked * (1.0 + f64::from(info.generation - 1) / 2.0);
    assert!(rate < promised * 1.15, "{rate} of {promised}");
}

#[test]
fn every_width_doubles_without_losing_a_key() {
    let dir = tempfile::tempdir().unwrap();
    // With few slots, fewer keys cause as many doublings.
    let unit = thorough::size("keys for each width", 1_000_000, 2_000_000);
    for (slots, keys) in [
        (SlotsPerBucket::Two, unit),
        (SlotsPerBucket::Three, unit),
        (SlotsPerBucket::Five, unit),
        (SlotsPerBucket::Six, 2 * unit),
        (SlotsPerBucket::Seven, 2_000_000),
    ] {
        let path = dir.path().join(format!("{}.gowk", slots.get()));
        let options = Options::new().capacity(1000).slots_per_bucket(slots).void_growth(true).seed(5);
        let mut writer = options.open(&path).unwrap();
        for i in 0..keys {
            writer.insert(&key(i)).unwrap();
        }
        commit_and_verify(&mut writer, &path);
        assert!((0..keys).all(|i| writer.contains(&key(i)).unwrap()), "{slots:?} lost a key");
        let info = writer.info().unwrap();
        assert!(info.generation >= 5, "{slots:?}: {}", info.generation);
        let void = info.entries_by_tail[0] as f64 / info.entries as f64;
        assert_eq!(void > 0.5, slots >= SlotsPerBucket::Seven, "{slots:?}: {void} void");
        let bits = info.file_length as f64 * 8.0 / info.entries as f64;
        assert!((info.bits_per_key.unwrap() / bits - 1.0).abs() < 1e-9);
        let rate = measured_rate(&writer, keys..keys + 5_000_000);
        let expected = info.expected_false_positive_rate;
        if expected > 1e-4 {
            assert!((rate / expected - 1.0).abs() < 0.15, "{slots:?}: {rate} for {expected}");
        } else {
            assert!(rate < 1.15 * expected + 2e-6, "{slots:?}: {rate} for {expected}");
        }
    }
}

#[test]
fn filters_are_nearly_full_before_they_double() {
    let filters = thorough::size("filters filled until they double", 6, 20);
    let dir = tempfile::tempdir().unwrap();
    let mut sum = 0.0;
    for seed in 0..filters {
        let path = dir.path().join(format!("{seed}.gowk"));
        let capacity = (64.0 * 8192.0 * 4.0 * 0.93) as u64;
        let mut writer = Options::new().capacity(capacity).seed(seed).open(&path).unwrap();
        assert_eq!(writer.info().unwrap().regions, 64);
        let mut inserted = 0;
        while writer.info().unwrap().generation == 0 {
            for _ in 0..256 {
                writer.insert(&key(inserted)).unwrap();
                inserted += 1;
            }
        }
        // The doubling came within the last 256 inserts.
        sum += (inserted - 256) as f64 / (64.0 * 8192.0 * 4.0);
    }
    let mean = sum / filters as f64;
    println!("mean load at the first doubling: {mean:.4}");
    assert!(mean >= 0.945, "{mean}");
}

#[test]
fn inserts_and_removals_across_doublings_agree_with_a_model() {
    let operations = thorough::size("inserts and removals", 1_500_000, 5_000_000);
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Options::new().counting().capacity(1000).seed(5).open(path(&dir)).unwrap();
    let mut model: HashMap<u64, u32> = HashMap::new();
    let mut crowded = 0;
    let mut state = thorough::seed(1);
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 20
    };
    for step in 0..operations {
        let i = random() % (operations / 10 * 7);
        if random() % 10 < 7 {
            if model.get(&i).is_none_or(|copies| *copies < 3) {
                match writer.insert(&key(i)) {
                    Ok(_) => *model.entry(i).or_default() += 1,
                    // Copies of a few keys can crowd one pair of buckets. They must not double the filter.
                    Err(Error::Growth { reason: GrowthRefusal::Crowded { .. }, .. }) => crowded += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        } else if let Some(copies) = model.get_mut(&i) {
            assert!(writer.remove(&key(i)).unwrap(), "a stored key is missing");
            *copies -= 1;
            if *copies == 0 {
                model.remove(&i);
            }
        }
        if step % 500_000 == 0 {
            writer.commit().unwrap();
            assert!(model.iter().all(|(i, copies)| writer.count(&key(*i)).unwrap() >= *copies));
        }
    }
    assert!(writer.info().unwrap().generation >= operations.ilog2() - 16);
    commit_and_verify(&mut writer, &path(&dir));
    assert!(model.iter().all(|(i, copies)| writer.count(&key(*i)).unwrap() >= *copies));
    assert!(crowded < 100, "{crowded}");
    let copies: u64 = model.values().map(|copies| u64::from(*copies)).sum();
    assert_eq!(writer.info().unwrap().inserted - writer.info().unwrap().removed, copies);
}

#[test]
fn one_key_over_and_over_never_doubles_a_filter() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Options::new().counting().capacity(1000).open(path(&dir)).unwrap();
    for _ in 0..10_000 {
        writer.insert(b"the same").unwrap();
    }
    assert_eq!(writer.count(b"the same").unwrap(), 10_000);
    assert_eq!(writer.info().unwrap().generation, 0);
}

#[test]
fn keys_crafted_into_one_pair_of_buckets_never_double_a_filter() {
    // One key in half a million belongs to the pair.
    let crafted_keys = thorough::size("crafted keys", 800, 10_000);
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Options::new().counting().capacity(1000).seed(99).open(path(&dir)).unwrap();
    // With one region, equal low 13 bits and equal high 6 bits of the low half mean one pair of buckets.
    let pair = |writer: &Writer, i: u64| {
        let local = writer.hash(&key(i)).unwrap().get() as u64;
        (local & 0x1fff, local >> 58)
    };
    let target = pair(&writer, 0);
    let mut crafted: Vec<u64> = std::thread::scope(|scope| {
        let workers = (0..2).map(|worker| {
            let writer = &writer;
            scope.spawn(move || {
                let mine = (0..).map(|i| 2 * i + worker);
                mine.filter(|i| pair(writer, *i) == target).take(crafted_keys / 2).collect::<Vec<_>>()
            })
        });
        workers.collect::<Vec<_>>().into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    crafted.sort_unstable();
    let mut stored = 0;
    for i in &crafted {
        match writer.insert(&key(*i)) {
            Ok(_) => stored += 1,
            Err(error @ Error::Growth { reason: GrowthRefusal::Crowded { region: 0, .. }, .. }) => {
                assert!(error.to_string().contains("region 0 has no room"), "{error}");
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(crafted.len(), crafted_keys);
    assert_eq!(stored, 8, "a pair of buckets has eight slots");
    assert_eq!(writer.info().unwrap().generation, 0);
    writer.commit().unwrap();
}

/// Inserts until the filter refuses.
fn fill(writer: &mut Writer) -> (u64, Error) {
    for i in 0.. {
        if let Err(error) = writer.insert(&key(i)) {
            return (i, error);
        }
    }
    unreachable!("every filter here is limited")
}

#[test]
fn every_limit_refuses_with_its_own_error_and_leaves_the_transaction_whole() {
    let dir = tempfile::tempdir().unwrap();
    let one_doubling = 512 << 10;
    let rate = SlotsPerBucket::Four.false_positive_rate() * 2.2;
    type Expected = fn(&Error) -> bool;
    let cases: [(&str, Options, Expected); 4] = [
        ("never", Options::new().growth(Growth::Never), |error| matches!(error, Error::Full { .. })),
        (
            "size",
            Options::new().max_file_size(one_doubling),
            |error| matches!(error, Error::Growth { reason: GrowthRefusal::FileSize { limit, .. }, .. } if *limit == 512 << 10),
        ),
        ("rate", Options::new().max_false_positive_rate(rate), |error| {
            matches!(error, Error::Growth { reason: GrowthRefusal::Rate { .. }, .. })
        }),
        ("void", Options::new().slots_per_bucket(SlotsPerBucket::Seven), |error| {
            matches!(error, Error::Growth { reason: GrowthRefusal::Void { .. }, .. })
        }),
    ];
    for (name, options, expected) in cases {
        let path = dir.path().join(name);
        let mut writer = options.capacity(1000).open(&path).unwrap();
        let (inserted, error) = fill(&mut writer);
        assert!(expected(&error), "{name}: {error}");
        commit_and_verify(&mut writer, &path);
        assert!((0..inserted).all(|i| writer.contains(&key(i)).unwrap()), "{name}");
        let info = writer.info().unwrap();
        assert_eq!(info.generation > 0, name != "never", "{name}");
        if name == "rate" {
            assert!(info.expected_false_positive_rate <= rate);
        }
        assert!(writer.insert(&key(inserted)).is_err() || writer.info().unwrap().copies > inserted);
    }
}

#[test]
fn a_doubling_on_demand_belongs_to_the_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Options::new().counting().capacity(1000).open(path(&dir)).unwrap();
    writer.insert(&key(1)).unwrap();
    writer.commit().unwrap();
    writer.insert(&key(2)).unwrap();
    writer.grow().unwrap();
    writer.grow().unwrap();
    assert!(writer.contains(&key(1)).unwrap() && writer.contains(&key(2)).unwrap());
    writer.rollback().unwrap();
    assert_eq!(writer.info().unwrap().generation, 0);
    assert!(writer.contains(&key(1)).unwrap() && !writer.contains(&key(2)).unwrap());
    writer.grow().unwrap();
    drop(writer);
    assert_eq!(Reader::open(path(&dir)).unwrap().info().unwrap().generation, 0);
    let mut writer = Options::new().open_existing(path(&dir)).unwrap();
    writer.grow().unwrap();
    writer.insert(&key(3)).unwrap();
    commit_and_verify(&mut writer, &path(&dir));
    assert_eq!(writer.info().unwrap().generation, 1);
    let left: Vec<_> = dir.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "not only the filter, its journal and its lock: {left:?}");
}

#[test]
fn a_reader_is_right_before_during_and_after_doublings() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Options::new().counting().capacity(1000).open(path(&dir)).unwrap();
    for i in 0..10_000 {
        writer.insert(&key(i)).unwrap();
    }
    writer.commit().unwrap();
    let reader = Reader::open(path(&dir)).unwrap();
    let done = AtomicBool::new(false);
    let committed = std::sync::atomic::AtomicU64::new(10_000);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let keys = committed.load(Ordering::Acquire);
                    for i in (0..keys).rev().step_by(97) {
                        assert!(reader.contains(&key(i)).unwrap(), "key {i} of {keys}");
                    }
                }
            });
        }
        for i in 10_000..1_000_000 {
            writer.insert(&key(i)).unwrap();
            if i % 20_000 == 0 {
                writer.commit().unwrap();
                committed.store(i + 1, Ordering::Release);
            }
        }
        writer.commit().unwrap();
        done.store(true, Ordering::Relaxed);
    });
    assert!((0..1_000_000).all(|i| reader.contains(&key(i)).unwrap()));
    assert!(reader.info().unwrap().generation >= 5);
}

/// The system's disk, but with less free room reported.
#[derive(Debug)]
struct Crowded;

impl gowk::disk::Disk for Crowded {
    fn available(&self, _: &std::path::Path) -> std::io::Result<u64> {
        Ok(300_000)
    }
    fn create(&self, path: &std::path::Path, mode: u32) -> std::io::Result<std::fs::File> {
        gowk::disk::SystemDisk.create(path, mode)
    }
    fn write_at(&self, file: &std::fs::File, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        gowk::disk::SystemDisk.write_at(file, bytes, offset)
    }
    fn set_len(&self, file: &std::fs::File, length: u64) -> std::io::Result<()> {
        gowk::disk::SystemDisk.set_len(file, length)
    }
    fn allocate(&self, file: &std::fs::File, length: u64) -> std::io::Result<()> {
        gowk::disk::SystemDisk.allocate(file, length)
    }
    fn sync(&self, file: &std::fs::File) -> std::io::Result<()> {
        gowk::disk::SystemDisk.sync(file)
    }
    fn rename(&self, from: &std::path::Path, to: &std::path::Path, replace: bool) -> std::io::Result<()> {
        gowk::disk::SystemDisk.rename(from, to, replace)
    }
    fn remove(&self, path: &std::path::Path) -> std::io::Result<()> {
        gowk::disk::SystemDisk.remove(path)
    }
    fn sync_dir(&self, dir: &std::path::Path) -> std::io::Result<()> {
        gowk::disk::SystemDisk.sync_dir(dir)
    }
}

#[test]
fn too_little_room_on_the_disk_is_an_error_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer =
        Options::new().counting().capacity(1000).disk(std::sync::Arc::new(Crowded)).open(path(&dir)).unwrap();
    writer.commit().unwrap();
    let (inserted, error) = fill(&mut writer);
    // The file grows from 256 to 320 KiB: the regions double, but the head does not.
    assert!(matches!(error, Error::NoSpace { needed: 327_680, available: 300_000, .. }), "{error}");
    let left: Vec<_> = dir.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "not only the filter, its journal and its lock: {left:?}");
    commit_and_verify(&mut writer, &path(&dir));
    assert!((0..inserted).all(|i| writer.contains(&key(i)).unwrap()));
    assert_eq!(writer.info().unwrap().copies, inserted);
}

/// Limits belong to no transaction, and survive the writer's death.
#[test]
fn limits_change_at_once_beside_commits_and_an_open_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Options::new().counting().capacity(1000).seed(5).open(path(&dir)).unwrap();
    let limits = gowk::Limits { max_file_size: Some(1 << 20), ..writer.limits().unwrap() };
    // Limits set before the first commit are written with that commit.
    writer.set_limits(limits).unwrap();
    writer.insert(b"committed").unwrap();
    writer.commit().unwrap();
    assert_eq!(writer.limits().unwrap(), limits);
    writer.insert(b"journaled").unwrap();
    writer.commit().unwrap();
    writer.insert(b"open").unwrap();
    let limits = gowk::Limits { growth: Growth::Never, max_false_positive_rate: Some(0.25), ..limits };
    writer.set_limits(limits).unwrap();
    assert_eq!(Reader::open(path(&dir)).unwrap().info().unwrap().max_false_positive_rate, Some(0.25));
    // The file without its journal, as after the writer's death. It has all commits: setting limits makes a checkpoint.
    let copy = dir.path().join("copy");
    std::fs::copy(path(&dir), &copy).unwrap();
    drop(writer);
    for (path, keys) in [(path(&dir), 2), (copy, 2)] {
        let mut writer = Options::new().open_existing(path).unwrap();
        assert_eq!(writer.limits().unwrap(), limits);
        assert_eq!(writer.info().unwrap().copies, keys);
        assert!(writer.contains(b"journaled").unwrap() && !writer.contains(b"open").unwrap());
        let small = gowk::Limits { max_file_size: Some(1000), ..limits };
        assert!(matches!(writer.set_limits(small), Err(Error::Option { option: "maximal file size", .. })));
        let wrong = gowk::Limits { max_false_positive_rate: Some(0.0), ..limits };
        assert!(matches!(writer.set_limits(wrong), Err(Error::Option { .. })));
        assert_eq!(writer.limits().unwrap(), limits);
    }
}
