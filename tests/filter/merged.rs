//! Filters merged into others, and filters that shrink.
//!
//! Invariants checked:
//!
//! 1. A merged filter finds every key of both, at every width, whether both have doubled equally often or one more often,
//!    and whether they share all keys, some or none. Its counters equal a scan. Its false-positive rate is within 15 % of
//!    the rate in `info`.
//! 2. Counting filters add up: no count is too low, and counts without other matches are exact. All copies of both can be
//!    removed in any order, without losing another key; then the filter is empty.
//! 3. A merge of sets is their union, and adds no entry if both are equal. A merge of counting filters is their sum.
//! 4. A merge belongs to the transaction: a rollback undoes it, other changes are committed with it, and no reader sees
//!    it before the commit.
//! 5. Filters that do not fit together are refused with the difference, and nothing changes.
//! 6. Saturated groups, quarantined buckets and void entries keep their meaning.
//! 7. A filter that grew too far and was emptied shrinks to the forecast size, and finds every key. If it does not fit,
//!    it is refused with the reason and does not change.
//!
//! `crates/cli/tests/cli/merged_killed.rs` kills processes that merge.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use gowk::{
    Batches, Difference, Error, Growth, HashKind, Info, KeyHash, Kind, Lookup, Options, Reader,
    ShrinkRefusal, SlotsPerBucket, Writer,
};

use crate::numbers::Numbers;
use crate::thorough;

const SEED: u64 = 5;
const REGION: usize = 65_536;

/// The hash of key `number` under `SEED`.
fn hash(number: u64) -> KeyHash {
    let mut numbers = Numbers(number.wrapping_mul(0x1234_5678_9abc_def1));
    KeyHash::new(u128::from(numbers.next()) << 64 | u128::from(numbers.next()))
}

fn hashes(keys: impl IntoIterator<Item = u64>) -> Vec<KeyHash> {
    keys.into_iter().map(hash).collect()
}

fn options(slots: SlotsPerBucket, regions: u64) -> Options {
    let rho = [0.80, 0.90, 0.93, 0.945, 0.955, 0.96][slots.get() as usize - 2];
    let keys = (regions * 8192 * u64::from(slots.get())) as f64 * rho;
    Options::new()
        .slots_per_bucket(slots)
        .capacity(keys as u64)
        .seed(SEED)
        .hash(HashKind::Caller)
        .void_growth(true)
}

/// The options of a counting filter.
fn counting(slots: SlotsPerBucket, regions: u64) -> Options {
    options(slots, regions).counting()
}

/// A closed filter with these copies. Some were stored before each doubling, the rest after the last.
fn filled(path: &Path, options: &Options, generations: u32, copies: &[KeyHash]) {
    let mut writer = options.create(path).unwrap();
    let mut rest = copies;
    for step in 0..=generations {
        if step > 0 {
            writer.grow().unwrap();
        }
        let (these, others) =
            rest.split_at(rest.len() + (copies.len() >> (generations - step)) - copies.len());
        writer.insert_batch(these).unwrap().complete().unwrap();
        rest = others;
    }
    writer.commit().unwrap();
    assert_eq!(writer.info().unwrap().generation, generations);
    writer.close().unwrap();
}

fn assert_clean(reader: &Reader) {
    let report = reader.verify(&|_, _| {}).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

fn all_found(reader: &Reader, hashes: &[KeyHash]) -> bool {
    let found = reader.contains_batch(hashes).unwrap();
    found.iter().all(|found| *found)
}

/// Compares the measured false-positive rate with that of `info`, if there are enough false positives.
fn assert_rate(reader: &Reader, lookups: u64) {
    let expected = reader.info().unwrap().expected_false_positive_rate;
    if expected * (lookups as f64) < 2000.0 {
        return;
    }
    let mut found = 0;
    for block in 0..lookups / 100_000 {
        let absent: Vec<KeyHash> =
            hashes((block * 100_000..(block + 1) * 100_000).map(|number| 1 << 60 | number));
        let answers = reader.contains_batch(&absent).unwrap();
        found += answers.iter().filter(|found| **found).count();
    }
    let measured = found as f64 / lookups as f64;
    assert!((measured / expected - 1.0).abs() < 0.15, "found {measured:e}, expected {expected:e}");
}

/// The regions and doublings of two filters: both doubled equally often, or one of them more often.
const SHAPES: [[(u64, u32); 2]; 6] = [
    [(2, 0), (2, 0)],
    [(1, 2), (1, 2)],
    [(3, 0), (3, 1)],
    [(1, 0), (1, 3)],
    [(3, 1), (3, 0)],
    [(1, 3), (1, 1)],
];

#[test]
fn pairs_of_filters_merge_to_one_that_finds_all_keys_at_the_rate_that_is_told() {
    let (mut pairs, lookups) =
        (0, thorough::size("lookups of absent keys for each pair", 400_000, 4_000_000));
    for slots in SlotsPerBucket::ALL {
        for [ours, theirs] in SHAPES {
            for overlap in [0.0, 0.4, 1.0] {
                let dir = tempfile::tempdir().unwrap();
                let [a, b] = ["a", "b"].map(|name| dir.path().join(name));
                let room =
                    |(base, generation): (u64, u32)| (base << generation) * 8192 * u64::from(slots.get());
                // Each fills a third of the smaller filter's slots: together they may or may not fit.
                let keys = room(ours).min(room(theirs)) / 3;
                let first = ((1.0 - overlap) * keys as f64) as u64;
                let (in_a, in_b) = (hashes(0..keys), hashes(first..first + keys));
                filled(&a, &options(slots, ours.0), ours.1, &in_a);
                filled(&b, &options(slots, theirs.0), theirs.1, &in_b);
                let other = Reader::open(&b).unwrap();
                let mut writer = Options::new().void_growth(true).open_existing(&a).unwrap();
                let before = writer.info().unwrap();
                writer.merge(&other).unwrap();
                let info = writer.info().unwrap();
                assert!(info.inserted - before.inserted <= other.len().unwrap());
                assert!(overlap > 0.0 || slots.get() > 4 || info.inserted + keys / 100 > 2 * keys);
                writer.commit().unwrap();
                writer.close().unwrap();
                let merged = Reader::open(&a).unwrap();
                let name = format!("{slots:?}, {ours:?} and {theirs:?}, {overlap}");
                assert!(all_found(&merged, &in_a) && all_found(&merged, &in_b), "{name}: a key is lost");
                assert_clean(&merged);
                assert_rate(&merged, lookups);
                let info = merged.info().unwrap();
                if overlap == 1.0 && (ours.0 << ours.1) >= (theirs.0 << theirs.1) && slots.get() < 6 {
                    // Two keys may share an entry in one filter, and have one each in the other.
                    let more = info.entries - before.entries;
                    assert!(
                        more <= before.entries / 500 && info.regions == before.regions,
                        "{name}: {more} more"
                    );
                }
                // Each entry belongs to an inserted key, except the twins of void entries.
                assert_eq!(
                    (info.kind, info.digits, info.removed, info.saturated),
                    (Kind::Set, 0, 0, 0),
                    "{name}"
                );
                let mut writer = Options::new().open_existing(&a).unwrap();
                assert!(matches!(writer.remove(in_a[0]), Err(Error::Kind { found: Kind::Set, .. })));
                assert_eq!(writer.count(in_b[0]).unwrap(), 1);
                pairs += 1;
            }
        }
    }
    println!("{pairs} pairs");
}

/// Keys with their copies: most have few, some have many.
fn multiset(keys: std::ops::Range<u64>, most: u64, numbers: &mut Numbers) -> HashMap<u64, u32> {
    keys.map(|key| {
        let copies = match numbers.below(100) {
            0..3 if most > 0 => 1 + numbers.below(most),
            3..9 if most > 0 => 2,
            _ => 1,
        };
        (key, copies as u32)
    })
    .collect()
}

/// All copies, with the keys in random order. The copies of a key stay together: spread over several generations they
/// would need a group each, which fills the key's buckets.
fn copies_of(all: &HashMap<u64, u32>, numbers: &mut Numbers) -> Vec<KeyHash> {
    let mut keys: Vec<(u64, u32)> = all.iter().map(|(key, copies)| (*key, *copies)).collect();
    keys.sort_unstable();
    for at in (1..keys.len()).rev() {
        keys.swap(at, numbers.below(at as u64 + 1) as usize);
    }
    keys.into_iter().flat_map(|(key, copies)| std::iter::repeat_n(hash(key), copies as usize)).collect()
}

#[test]
fn sums_add_up_and_all_copies_can_be_removed_again() {
    let mut numbers = Numbers(1);
    for slots in SlotsPerBucket::ALL {
        for [ours, theirs] in SHAPES {
            let dir = tempfile::tempdir().unwrap();
            let [a, b] = ["a", "b"].map(|name| dir.path().join(name));
            let room = |(base, generation): (u64, u32)| (base << generation) * 8192 * u64::from(slots.get());
            // With two or three slots, copies from two generations fill most of a key's buckets.
            let few = slots.get() < 4;
            let keys = room(ours).min(room(theirs)) / if few { 30 } else { 6 };
            let most = |most| if few { 0 } else { most };
            let in_a = multiset(0..keys, most(60), &mut numbers);
            let in_b = multiset(keys / 2..keys * 3 / 2, most(300), &mut numbers);
            let [copies_a, copies_b] = [&in_a, &in_b].map(|all| copies_of(all, &mut numbers));
            filled(&a, &counting(slots, ours.0), ours.1, &copies_a);
            filled(&b, &counting(slots, theirs.0), theirs.1, &copies_b);
            let other = Reader::open(&b).unwrap();
            let mut writer = Options::new().void_growth(true).open_existing(&a).unwrap();
            writer.merge(&other).unwrap();
            writer.commit().unwrap();
            let name = format!("{slots:?}, {ours:?} and {theirs:?}");
            let merged = Reader::open(&a).unwrap();
            assert_clean(&merged);
            let mut all = in_a.clone();
            in_b.iter().for_each(|(key, copies)| *all.entry(*key).or_default() += copies);
            let mut exact = 0;
            for (key, copies) in &all {
                let count = merged.count(hash(*key)).unwrap();
                assert!(count >= *copies, "{name}: {count} of {copies} copies");
                exact += u64::from(count == *copies);
            }
            // With two or three slots a bucket, the widest slots, hardly any key matches another.
            let least = [1.0, 0.99, 0.9, 0.0, 0.0, 0.0][slots.get() as usize - 2];
            assert!(exact as f64 >= least * all.len() as f64, "{name}: {exact} of {} exact", all.len());
            // The twins of void entries remain. Without them the filter is empty.
            let has_void =
                other.info().unwrap().entries_by_tail[0] > 0 || merged.info().unwrap().entries_by_tail[0] > 0;
            let mut left = all.clone();
            let order = copies_of(&all, &mut numbers);
            for chunk in order.chunks(order.len() / 4 + 1) {
                let removed = writer.remove_batch(chunk).unwrap();
                assert!(removed.iter().all(|removed| *removed), "{name}: a copy is missing");
                let mut gone: HashMap<KeyHash, u32> = HashMap::new();
                chunk.iter().for_each(|hash| *gone.entry(*hash).or_default() += 1);
                left.iter_mut()
                    .for_each(|(key, copies)| *copies -= gone.get(&hash(*key)).copied().unwrap_or(0));
                left.retain(|_, copies| *copies > 0);
                assert!(left.keys().all(|key| writer.contains(hash(*key)).unwrap()), "{name}: a key is lost");
            }
            assert!(left.is_empty());
            let info = writer.info().unwrap();
            assert!(has_void || info.entries == 0, "{name}: {} entries left", info.entries);
        }
    }
}

#[test]
fn a_merge_is_part_of_the_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| dir.path().join(name));
    let four = SlotsPerBucket::Four;
    filled(&a, &counting(four, 2), 0, &hashes(0..20_000));
    filled(&b, &counting(four, 2), 1, &hashes(20_000..90_000));
    let (reader, other) = (Reader::open(&a).unwrap(), Reader::open(&b).unwrap());
    let mut writer = Options::new().open_existing(&a).unwrap();
    writer.insert(hash(1 << 40)).unwrap();
    let reported = Mutex::new(Vec::new());
    writer.merge_with(&other, &|done, all| reported.lock().unwrap().push((done, all))).unwrap();
    assert_eq!(reported.into_inner().unwrap().last(), Some(&(4, 4)));
    writer.insert(hash(2 << 40)).unwrap();
    assert!([20_000, 1 << 40, 2 << 40].into_iter().all(|key| writer.contains(hash(key)).unwrap()));
    assert!(!reader.contains(hash(1 << 40)).unwrap());
    assert!((20_000..20_100).any(|key| !reader.contains(hash(key)).unwrap()));
    writer.rollback().unwrap();
    assert!(!writer.contains(hash(1 << 40)).unwrap());
    assert_eq!(writer.info().unwrap().regions, 2);
    assert!(all_found(&reader, &hashes(0..20_000)));
    // The merge is done twice, also into a filter without a commit; and a filter is merged with itself.
    let mut new = Options::like(&reader).unwrap().create(dir.path().join("new")).unwrap();
    new.merge(&reader).unwrap();
    new.merge(&other).unwrap();
    writer.merge(&reader).unwrap();
    writer.insert(hash(3 << 40)).unwrap();
    for writer in [&mut writer, &mut new] {
        writer.commit().unwrap();
    }
    assert!((0..20_000).all(|key| reader.count(hash(key)).unwrap() >= 2));
    assert!(reader.contains(hash(3 << 40)).unwrap());
    assert_clean(&reader);
    let new = Reader::open(dir.path().join("new")).unwrap();
    assert!(all_found(&new, &hashes(0..90_000)));
    assert_clean(&new);
}

#[test]
fn filters_that_differ_are_refused_by_their_difference_and_nothing_changes() {
    let dir = tempfile::tempdir().unwrap();
    let make = |name: &str, options: Options| {
        let path = dir.path().join(name);
        filled(&path, &options, 0, &[]);
        Reader::open(&path).unwrap()
    };
    let four = SlotsPerBucket::Four;
    let hashed = |regions| options(four, regions).hash(HashKind::Xxh3);
    make("f", hashed(3).shard(1, 5));
    let mut writer = Options::new().open_existing(dir.path().join("f")).unwrap();
    let before = fs::read(dir.path().join("f")).unwrap();
    let mut differs = |other: Reader, expected: Difference| match writer.merge(&other) {
        Err(error @ Error::Unlike { .. }) => {
            let text = error.to_string();
            let paths = [other.path(), &dir.path().join("f").canonicalize().unwrap()];
            assert!(paths.iter().all(|path| text.contains(path.to_str().unwrap())), "{text}");
            assert!(matches!(error, Error::Unlike { difference, .. } if difference == expected), "{text}");
        }
        outcome => panic!("{outcome:?}, not {expected:?}"),
    };
    differs(make("seed", hashed(3).shard(1, 5).seed(6)), Difference::Seed);
    differs(make("kind", hashed(3).shard(1, 5).counting()), Difference::Kind(Kind::Counting, Kind::Set));
    differs(make("hash", options(four, 3).shard(1, 5)), Difference::Hash);
    let five = options(SlotsPerBucket::Five, 3).hash(HashKind::Xxh3).shard(1, 5);
    differs(make("slots", five), Difference::Slots(5, 4));
    differs(make("shards", hashed(3).shard(1, 4)), Difference::Shards(4, 5));
    differs(make("shard", hashed(3).shard(2, 5)), Difference::Shard(2, 1));
    differs(make("regions", hashed(5).shard(1, 5)), Difference::Regions(5, 3));
    differs(make("factor", hashed(9).shard(1, 5)), Difference::Regions(9, 3));
    assert_eq!(writer.info().unwrap().regions, 3);
    drop(writer);
    assert!(fs::read(dir.path().join("f")).unwrap()[131_072..] == before[131_072..] || !before.is_empty());

    // A merge that needs a doubling is refused if the filter may not grow, or not that far.
    let full = 2 * 8192 * 4 * 9 / 10;
    let other = dir.path().join("other");
    filled(&other, &options(four, 2), 0, &hashes(0..full));
    let other = Reader::open(&other).unwrap();
    for (name, options) in [
        ("never", options(four, 2).growth(Growth::Never)),
        ("limited", options(four, 2).max_file_size(400_000)),
    ] {
        let path = dir.path().join(name);
        filled(&path, &options, 0, &hashes(full..2 * full));
        let mut writer = Options::new().open_existing(&path).unwrap();
        let before = writer.info().unwrap();
        let refused = writer.merge(&other).unwrap_err();
        assert!(matches!(refused, Error::Full { .. } | Error::Growth { .. }), "{refused}");
        assert_eq!(writer.info().unwrap(), before);
        writer.commit().unwrap();
        writer.close().unwrap();
        let reader = Reader::open(&path).unwrap();
        assert!(all_found(&reader, &hashes(full..2 * full)));
        let left = fs::read_dir(dir.path())
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains("gowk-new"));
        assert_eq!(left.count(), 0);
    }
}

/// Saturated groups, universal slots and void entries stand for more keys or copies than they count, even after a merge.
#[test]
fn what_cannot_be_counted_stays_uncountable_in_merges() {
    {
        let dir = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| dir.path().join(name));
        // At n = 2, two groups of 512 copies fill both buckets of a key.
        let two = SlotsPerBucket::Two;
        let often: Vec<KeyHash> = std::iter::repeat_n(hash(7), 1500).collect();
        filled(&a, &counting(two, 1), 0, &hashes(1000..3000));
        filled(&b, &counting(two, 1), 0, &[often, hashes(0..500)].concat());
        let other = Reader::open(&b).unwrap();
        let highest = other.count(hash(7)).unwrap();
        assert_eq!(highest, two.highest_count());
        let mut writer = Options::new().open_existing(&a).unwrap();
        writer.merge(&other).unwrap();
        writer.commit().unwrap();
        assert_eq!(writer.count(hash(7)).unwrap(), highest);
        writer.close().unwrap();
        let merged = Reader::open(&a).unwrap();
        assert_clean(&merged);
        assert!(all_found(&merged, &hashes((0..500).chain(1000..3000))));
        // No number of removals makes the key absent, as it may have more copies.
        let mut writer = Options::new().open_existing(&a).unwrap();
        (0..2 * highest).for_each(|_| assert!(writer.remove(hash(7)).unwrap()));
        assert_eq!(writer.count(hash(7)).unwrap(), highest);
    }
    for slots in SlotsPerBucket::ALL {
        for [ours, theirs] in SHAPES {
            for kind in [Kind::Set, Kind::Counting] {
                let dir = tempfile::tempdir().unwrap();
                let [a, b] = ["a", "b"].map(|name| dir.path().join(name));
                filled(&a, &options(slots, ours.0).kind(kind), ours.1, &hashes(0..3000));
                filled(&b, &options(slots, theirs.0).kind(kind), theirs.1, &hashes(3000..8000));
                // A repaired page of the other filter: lookups of its keys then answer "present".
                let mut bytes = fs::read(&b).unwrap();
                let at = bytes.len() - REGION + 4096 * 3;
                bytes[at + 77] ^= 0x10;
                fs::write(&b, bytes).unwrap();
                let mut other = Options::new().open_existing(&b).unwrap();
                assert_eq!(other.repair(&|_, _| {}).unwrap().quarantined.len(), 1);
                other.close().unwrap();
                let mut writer = Options::new().void_growth(true).open_existing(&a).unwrap();
                writer.merge(&Reader::open(&b).unwrap()).unwrap();
                writer.commit().unwrap();
                writer.close().unwrap();
                let merged = Reader::open(&a).unwrap();
                assert_clean(&merged);
                assert!(
                    all_found(&merged, &hashes(0..8000)),
                    "{slots:?}, {ours:?}, {theirs:?}: a key is lost"
                );
                assert!(merged.info().unwrap().quarantined_buckets >= 512);
            }
        }
    }
}

#[test]
fn a_filter_grown_too_far_and_emptied_shrinks_to_the_forecast_size() {
    for slots in SlotsPerBucket::ALL {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let base = 3;
        let all = hashes(0..base * 8192 * u64::from(slots.get()) * 2);
        // Three doublings more than the keys need that remain after the removals.
        filled(&path, &counting(slots, base), 3, &all);
        let mut writer = Options::new().void_growth(true).open_existing(&path).unwrap();
        let (gone, kept) = all.split_at(all.len() * 4 / 5);
        assert!(writer.remove_batch(gone).unwrap().iter().all(|removed| *removed), "{slots:?}");
        writer.commit().unwrap();
        for generation in (0..3).rev() {
            let told = writer.info().unwrap().shrunk.unwrap();
            let before = writer.info().unwrap();
            let reported = Mutex::new(Vec::new());
            writer.shrink_with(&|done, all| reported.lock().unwrap().push((done, all))).unwrap();
            assert_eq!(
                reported.into_inner().unwrap().last(),
                Some(&(base << generation, base << generation))
            );
            writer.commit().unwrap();
            let now = writer.info().unwrap();
            assert_eq!((now.generation, now.regions), (generation, base << generation));
            assert_eq!(
                (told.generation, told.entries, told.file_length),
                (now.generation, now.entries, now.file_length)
            );
            assert_eq!(told.expected_false_positive_rate, now.expected_false_positive_rate);
            assert_eq!(
                (now.inserted, now.removed, now.copies),
                (before.inserted, before.removed, before.copies)
            );
            let reader = Reader::open(&path).unwrap();
            assert!(all_found(&reader, kept), "{slots:?}, {generation}: a key is lost");
            assert_clean(&reader);
            assert_rate(&reader, 400_000);
            assert_eq!(fs::metadata(&path).unwrap().len(), told.file_length);
        }
        assert!(writer.info().unwrap().shrunk.is_none());
        let refused = writer.shrink().unwrap_err();
        assert!(matches!(refused, Error::Shrink { reason: ShrinkRefusal::NeverDoubled, .. }), "{refused}");
        // The filter remains usable: its keys can be removed, and it can grow again.
        writer.grow().unwrap();
        assert!(kept.iter().all(|hash| writer.contains(*hash).unwrap()));
        let removed = writer.remove_batch(kept).unwrap();
        assert!(removed.iter().all(|removed| *removed), "{slots:?}");
        writer.commit().unwrap();
    }
}

#[test]
fn threads_shrink_a_filter_to_the_same_file() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    // More regions than two threads make at a time, and no multiple of that number.
    let all = hashes(0..700_000);
    filled(&model, &options(SlotsPerBucket::Four, 75), 1, &all);
    let shrunk = |threads: usize| {
        let path = dir.path().join(format!("f{threads}"));
        fs::copy(&model, &path).unwrap();
        let reported = Mutex::new(Vec::new());
        let mut writer = Options::new().threads(threads).open_existing(&path).unwrap();
        writer.shrink_with(&|done, all| reported.lock().unwrap().push((done, all))).unwrap();
        writer.commit().unwrap();
        writer.close().unwrap();
        assert_eq!(reported.into_inner().unwrap(), (1..=75).map(|done| (done, 75)).collect::<Vec<_>>());
        let reader = Reader::open(&path).unwrap();
        assert!(all_found(&reader, &all));
        assert_clean(&reader);
        // Only the regions, at the end of the file, are compared. The rest has times of commits.
        let file = fs::read(&path).unwrap();
        file[file.len() - 75 * 65_536..].to_vec()
    };
    let one = shrunk(1);
    for threads in [2, 3, usize::MAX] {
        assert!(shrunk(threads) == one, "{threads} threads");
    }
}

#[test]
fn a_filter_that_does_not_fit_into_half_is_refused_with_the_reason_and_stays_as_it_is() {
    for (slots, load) in
        [(SlotsPerBucket::Four, 0.7), (SlotsPerBucket::Four, 0.497), (SlotsPerBucket::Two, 0.48)]
    {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let keys = hashes(0..(4.0 * 8192.0 * f64::from(slots.get()) * load) as u64);
        let mut writer = options(slots, 2).create(&path).unwrap();
        writer.grow().unwrap();
        assert!(writer.insert_batch(&keys).unwrap().refused().is_empty());
        writer.commit().unwrap();
        writer.insert(hash(1 << 50)).unwrap();
        let before = writer.info().unwrap();
        let refused = writer.shrink().unwrap_err();
        match &refused {
            Error::Shrink { reason: ShrinkRefusal::Load { .. }, .. } => assert!(load > 0.5, "{refused}"),
            Error::Shrink { reason: ShrinkRefusal::Region { .. }, .. } => assert!(load < 0.5, "{refused}"),
            _ => panic!("{refused}"),
        }
        assert!(refused.to_string().contains("remove keys first"), "{refused}");
        assert_eq!(before.shrunk.is_some(), load < 0.5);
        // A checkpoint has no number of its own. The transaction continues.
        let without_journal = |mut info: Info| {
            info.journal_length = 0;
            info
        };
        assert_eq!(without_journal(writer.info().unwrap()), without_journal(before));
        writer.commit().unwrap();
        writer.close().unwrap();
        let reader = Reader::open(&path).unwrap();
        assert!(all_found(&reader, &keys) && reader.contains(hash(1 << 50)).unwrap());
        assert_clean(&reader);
    }
}

/// The writer has commits in the journal when it shrinks the filter, and dies right after shrinking.
#[test]
fn a_journal_with_commits_does_not_stand_in_the_way_of_a_shrink() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let mut writer: Writer = options(SlotsPerBucket::Four, 2).create(&path).unwrap();
    writer.grow().unwrap();
    writer.commit().unwrap();
    for key in 0..100 {
        writer.insert(hash(key)).unwrap();
        writer.commit().unwrap();
    }
    let journal = dir.path().join("f-journal");
    assert!(fs::metadata(&journal).unwrap().len() > 512);
    writer.insert(hash(100)).unwrap();
    writer.shrink().unwrap();
    // The files after a crash between the rename and the reset of the journal.
    let before = fs::read(&journal).unwrap();
    writer.commit().unwrap();
    let crashed = tempfile::tempdir().unwrap();
    fs::copy(&path, crashed.path().join("f")).unwrap();
    fs::write(crashed.path().join("f-journal"), before).unwrap();
    let reader = Reader::open(crashed.path().join("f")).unwrap();
    assert!(all_found(&reader, &hashes(0..101)));
    assert_eq!(reader.info().unwrap().generation, 0);
    writer.close().unwrap();
}
