//! Filters without markers, and what marks them.
//!
//! Invariants checked:
//!
//! 1. Keys of the fingerprints 0 and 1, which are one entry, stay present through the doubling that marks the filter and
//!    two more, in each width. Lookups of a key of the fingerprint 2 do not find them before the second doubling.
//! 2. A repair of an unmarked filter marks it once, keeps every key, and exactly doubles the rate of its entries. If the
//!    repair ends before its last page, the filter is unchanged.
//! 3. A merge or a join of unmarked filters of equally many regions is unmarked. If any of them doubles or was marked,
//!    the outcome is marked. No key of any of them is lost.

use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use gowk::{Batches, HashKind, Info, KeyHash, Lookup, Options, Reader, SlotsPerBucket, Writer};

/// The bits of a tag.
const fn tag_bits(slots: u32) -> u32 {
    if slots >= 4 { 6 } else { 10 }
}

/// The key of an unmarked filter of one region with the tag 0 and this tail, in this bucket. `further` holds the hash
/// bits after the tail.
fn key(slots: u32, expiry_bits: u32, tail: u64, further: u64, bucket: u16) -> KeyHash {
    let tail_bits = 64 / slots - tag_bits(slots) - expiry_bits;
    let position = tail << (64 - tail_bits) | further >> tail_bits;
    KeyHash::new(u128::from(position) << 64 | u128::from(bucket))
}

fn is_marked(info: &Info) -> bool {
    let fresh = 64 / info.slots_per_bucket.get() - tag_bits(info.slots_per_bucket.get());
    let length = info.entries_by_tail.len() as u32;
    assert!(length == fresh || length == fresh + 1);
    length == fresh
}

fn assert_sound(path: &Path) {
    let report = Reader::open(path).unwrap().verify(&|_, _| {}).unwrap();
    assert!(report.damaged.is_empty() && report.malformed.is_empty(), "{report:?}");
    assert!(!report.counts_differ, "{report:?}");
}

#[test]
fn the_fingerprint_0_and_its_neighbour_are_found_through_three_doublings() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let widths =
        SlotsPerBucket::ALL.map(|slots| (slots.get(), 0)).into_iter().chain([(4, 2), (4, 3), (3, 4), (2, 4)]);
    for (slots, expiry_bits) in widths {
        for first in [0, 1] {
            let options = Options::new().capacity(1).hash(HashKind::Caller).force(true).void_growth(true);
            let options = options.slots_per_bucket(SlotsPerBucket::new(slots).unwrap());
            let days = |number: u64| Duration::from_secs(number * 86_400);
            let options = match expiry_bits {
                0 => options,
                2 => options.forget_after(days(30)).forget_within(days(15)),
                3 => options.forget_after(days(30)).forget_within(days(5)),
                _ => options.forget_after(days(30)).forget_within(days(3)),
            };
            let mut writer = options.create(&path).unwrap();
            let of = |tail, further, bucket| key(slots, expiry_bits, tail, further, bucket);
            // Each bucket has keys with different bits after the tail.
            let furthers: [u64; 6] = [0, u64::MAX, 1 << 63, 1 << 62, 3 << 61, 0x5555_5555_5555_5555];
            let each = || (0..).map(|number| 100 * number).zip(furthers);
            for (bucket, further) in each() {
                assert!(writer.insert(of(first, further, bucket)).unwrap());
                assert!(!writer.insert(of(1 - first, further, bucket)).unwrap());
                assert!(!writer.contains(of(2, further, bucket)).unwrap());
            }
            writer.commit().unwrap();
            assert_eq!(writer.info().unwrap().entries, 6);
            for doubling in 0..4 {
                if doubling > 0 {
                    writer.grow().unwrap();
                    writer.commit().unwrap();
                }
                let reader = Reader::open(&path).unwrap();
                for (bucket, further) in each() {
                    for tail in [0, 1] {
                        assert!(
                            reader.contains(of(tail, further, bucket)).unwrap(),
                            "{slots} {tail} {doubling}"
                        );
                        assert!(reader.contains_batch(&[of(tail, further, bucket)]).unwrap()[0]);
                        assert!(writer.contains(of(tail, further, bucket)).unwrap());
                    }
                    assert!(doubling > 1 || !reader.contains(of(2, further, bucket)).unwrap());
                }
                let info = writer.info().unwrap();
                let longest = info.entries_by_tail.len() as u64 - 1;
                // Full length before the first doubling, and two bits shorter after it.
                let length = if doubling == 0 { longest } else { longest.saturating_sub(doubling) };
                assert_eq!(
                    info.entries_by_tail[length as usize], info.entries,
                    "{slots} {doubling} {info:?}"
                );
                assert_sound(&path);
            }
            writer.close().unwrap();
        }
    }
}

/// Flips a bit of the 4096 bytes of a page of the only region.
fn damage(path: &Path, page: u64) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let at = file.metadata().unwrap().len() - 65_536 + 4096 * page + 1000;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

fn keys(numbers: std::ops::Range<u64>) -> Vec<[u8; 8]> {
    numbers.map(u64::to_le_bytes).collect()
}

fn all_found(path: &Path, keys: &[[u8; 8]]) -> bool {
    Reader::open(path).unwrap().contains_batch(keys).unwrap().into_iter().all(|found| found)
}

fn options(slots: SlotsPerBucket) -> Options {
    Options::new().capacity(10_000).slots_per_bucket(slots).seed(5).void_growth(true)
}

#[test]
fn a_repair_marks_an_unmarked_filter_once() {
    for slots in SlotsPerBucket::ALL {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut writer = options(slots).create(&path).unwrap();
        let (some, more) = (keys(0..9000), keys(9000..10_000));
        writer.insert_batch(&some).unwrap().complete().unwrap();
        writer.commit().unwrap();
        writer.close().unwrap();
        damage(&path, 3);
        let before = std::fs::read(&path).unwrap();
        let mut writer = Options::new().open_existing(&path).unwrap();
        // Stopped in the second pass, which marks.
        let pages = writer.info().unwrap().regions * 16;
        let calls = AtomicU64::new(0);
        let stopped = catch_unwind(AssertUnwindSafe(|| {
            writer.repair(&|_, _| {
                assert!(calls.fetch_add(1, Relaxed) < pages, "stopped");
            })
        }));
        assert!(stopped.is_err());
        drop(writer);
        let after = std::fs::read(&path).unwrap();
        let data = after.len() - 65_536;
        assert_eq!((before.len(), &before[data..]), (after.len(), &after[data..]));
        assert!(std::fs::read_dir(dir.path()).unwrap().count() <= 3);

        let mut writer = Options::new().open_existing(&path).unwrap();
        let old = writer.info().unwrap();
        assert!(!is_marked(&old));
        let reader = Reader::open(&path).unwrap();
        let repair = writer.repair(&|_, _| {}).unwrap();
        assert!(repair.marked && repair.quarantined.len() == 1 && !repair.is_empty());
        let info = writer.info().unwrap();
        assert!(is_marked(&info) && info.quarantined_buckets == 512, "{info:?}");
        assert_eq!((info.generation, info.regions, info.uuid), (0, old.regions, old.uuid));
        assert_eq!(info.entries_by_tail.last(), Some(&info.entries));
        // The reader that was opened before follows.
        assert!(some.iter().all(|key| reader.contains(key).unwrap()));
        writer.insert_batch(&more).unwrap().complete().unwrap();
        writer.commit().unwrap();
        let again = writer.repair(&|_, _| {}).unwrap();
        assert!(again.is_empty(), "{again:?}");
        writer.close().unwrap();
        let all = keys(0..10_000);
        assert!(all_found(&path, &all));
        assert_sound(&path);
        damage(&path, 5);
        let mut writer = Options::new().open_existing(&path).unwrap();
        let repair = writer.repair(&|_, _| {}).unwrap();
        assert!(!repair.marked && repair.quarantined.len() == 1);
        for _ in 0..2 {
            writer.grow().unwrap();
            writer.commit().unwrap();
        }
        writer.close().unwrap();
        assert!(all_found(&path, &all));
        assert_sound(&path);
    }
}

#[test]
fn what_is_merged_or_joined_is_marked_if_any_of_it_is_or_is_split() {
    for slots in SlotsPerBucket::ALL {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let filled =
            |name: &str, options: &Options, keys: &[[u8; 8]], doublings: u32, halvings: u32| -> Writer {
                let mut writer = options.clone().force(true).create(path(name)).unwrap();
                writer.insert_batch(keys).unwrap().complete().unwrap();
                (0..doublings).for_each(|_| writer.grow().unwrap());
                writer.commit().unwrap();
                (0..halvings).for_each(|_| writer.shrink().unwrap());
                writer.commit().unwrap();
                writer
            };
        let (one, other) = (keys(0..4000), keys(3000..7000));
        let both = keys(0..7000);
        // How often each filter has doubled, and then been halved; and whether the outcome is marked.
        for (ours, theirs, marked) in [
            ((0, 0), (0, 0), false),
            ((0, 0), (1, 0), true),
            ((1, 0), (0, 0), true),
            ((0, 0), (1, 1), true),
            ((1, 1), (0, 0), true),
            ((2, 0), (0, 0), true),
            ((1, 0), (1, 0), true),
        ] {
            let options = options(slots);
            let mut writer = filled("ours", &options, &one, ours.0, ours.1);
            filled("theirs", &options, &other, theirs.0, theirs.1).close().unwrap();
            writer.merge(&Reader::open(path("theirs")).unwrap()).unwrap();
            writer.commit().unwrap();
            assert_eq!(is_marked(&writer.info().unwrap()), marked, "{slots:?} {ours:?} {theirs:?}");
            writer.close().unwrap();
            assert!(all_found(&path("ours"), &both), "{slots:?} {ours:?} {theirs:?}");
            assert_sound(&path("ours"));

            let half = |number: u64, all: &[[u8; 8]]| -> Vec<[u8; 8]> {
                let hasher = &Options::new().capacity(1).seed(5).force(true).create(path("hasher")).unwrap();
                let here = |key: &&[u8; 8]| hasher.hash(key).unwrap().shard(2) == number;
                all.iter().filter(here).copied().collect()
            };
            let of_shard = |number| options.clone().shard(number, 2);
            filled("0", &of_shard(0), &half(0, &both), ours.0, ours.1).close().unwrap();
            filled("1", &of_shard(1), &half(1, &both), theirs.0, theirs.1).close().unwrap();
            let shards = ["0", "1"].map(|name| Reader::open(path(name)).unwrap());
            let _ = std::fs::remove_file(path("joined"));
            let _ = std::fs::remove_file(path("joined-journal"));
            Reader::join_to(&shards, path("joined"), &|_, _| {}).unwrap();
            let info = Reader::open(path("joined")).unwrap().info().unwrap();
            assert_eq!(is_marked(&info), marked, "{slots:?} {ours:?} {theirs:?}");
            assert!(all_found(&path("joined"), &both));
            assert_sound(&path("joined"));

            // Parts of a whole number of regions are copied; others are split.
            let whole = Reader::open(path("joined")).unwrap();
            let parts = whole.info().unwrap().regions;
            for (parts, split) in [(parts, false), (2 * parts, true)] {
                let names: Vec<_> = (0..parts).map(|part| path(&format!("part-{part}"))).collect();
                whole.divide_to(&names, &|_, _| {}).unwrap();
                for name in names {
                    let part = Reader::open(&name).unwrap();
                    assert_eq!(is_marked(&part.info().unwrap()), marked || split);
                    let info = part.info().unwrap();
                    let own =
                        both.iter().filter(|key| part.hash(key).unwrap().shard(info.shards) == info.shard);
                    assert!(own.into_iter().all(|key| part.contains(key).unwrap()));
                    assert_sound(&name);
                    std::fs::remove_file(&name).unwrap();
                    let _ = std::fs::remove_file(name.with_extension("-journal"));
                    let journal = format!("{}-journal", name.display());
                    let _ = std::fs::remove_file(journal);
                }
            }
        }
    }
}

/// The rates of a filter that fills up after each doubling, by the formula of section 8.3.
#[test]
fn the_rate_grows_by_half_of_a_marked_one_with_each_doubling() {
    for slots in [SlotsPerBucket::Four, SlotsPerBucket::Three, SlotsPerBucket::Two] {
        let info = {
            let dir = tempfile::tempdir().unwrap();
            let mut writer = options(slots).create(dir.path().join("f")).unwrap();
            let number = (writer.info().unwrap().slots as f64 * slots.headroom()) as u64;
            writer.insert_batch(&keys(0..number)).unwrap().complete().unwrap();
            writer.info().unwrap()
        };
        let marked = 2.0 * slots.false_positive_rate() * slots.headroom();
        let near = |rate: f64, expected: f64| (rate / expected - 1.0).abs() < 0.02;
        assert!(near(info.expected_false_positive_rate, marked / 2.0), "{slots:?}");
        for (generation, forecast) in (1..).zip(&info.forecast) {
            let expected = marked * (1.0 + f64::from(generation - 1) / 2.0);
            assert!(near(forecast.expected_false_positive_rate, expected), "{slots:?} {generation}");
        }
        assert!(info.forecast.len() >= 3);
    }
}
