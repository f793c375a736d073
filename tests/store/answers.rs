//! Invariants checked: a store of S shards gives the answers and counts of one filter with the same seed, S times the
//! regions and the same keys, through every call that inserts or looks up, on one thread or several. Its false-positive
//! rate is that in `info`.

use gowk::store::{Committed, Store};
use gowk::{Batches, Growth, Lookup, Options, Reader, SlotsPerBucket};

use crate::thorough;

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

fn keys(range: std::ops::Range<u64>) -> Vec<[u8; 8]> {
    range.map(key).collect()
}

/// How many keys fit into one region of four slots a bucket: 8192 * 4 * 0.93.
const REGION: u64 = 30_474;

#[test]
fn a_store_answers_as_one_filter_does() {
    let dir = tempfile::tempdir().unwrap();
    let shards = 16;
    let regions = thorough::size("regions of each of 16 shards", 1, 11);
    let capacity = shards * regions * REGION;
    let slots = SlotsPerBucket::new(4).unwrap();
    let options =
        Options::new().capacity(capacity).slots_per_bucket(slots).seed(7).growth(Growth::Never).threads(2);
    Store::create(crate::place(&dir), shards as u32, &options).unwrap();
    let store = Store::open_with(crate::place(&dir), &options).unwrap();
    let mut writer = options.create(dir.path().join("f.gowk")).unwrap();
    assert_eq!(writer.info().unwrap().regions, shards * regions);
    let part = capacity / 5;
    for round in 0..4 {
        // Half of each round's keys are stored already.
        let keys = keys(round * part..(round + 1) * part + part / 2);
        let mut update = store.update().unwrap().rewriting();
        let inserted = update.insert_batch(&keys).unwrap();
        assert!(inserted.refused().is_empty());
        let found = inserted.mask();
        assert!(matches!(update.commit("insert", None).unwrap(), Committed::New(_)));
        let inserted = writer.insert_batch(&keys).unwrap();
        assert!(inserted.refused().is_empty());
        let also = inserted.mask();
        assert!(found == also, "round {round}");
    }
    writer.commit().unwrap();
    let filter = Reader::open(dir.path().join("f.gowk")).unwrap();
    let reader = store.read().unwrap();
    assert_eq!(reader.version().number, 5);
    let info = reader.info();
    assert_eq!(info.entries, filter.info().unwrap().entries);
    // The joined store answers like that filter; divided again, like the store.
    let joined = dir.path().join("joined.gowk");
    reader.join_to(&joined, &|_, _| {}).unwrap();
    let joined = Reader::open(&joined).unwrap();
    assert_eq!(joined.info().unwrap().regions, shards * regions);
    assert!(joined.verify(&|_, _| {}).unwrap().is_clean());
    let divided = Store::create_from(dir.path().join("d"), 8, &joined, &options, &|_, _| {}).unwrap();
    let again = divided.read().unwrap();
    assert_eq!((again.info().files, again.info().entries), (8, info.entries));
    let inserted = 4 * part + part / 2;
    let (absent, mut of_absent) = (capacity * 2, 0);
    for (from, to) in [(0, inserted), (1 << 40, (1 << 40) + absent)] {
        let keys = keys(from..to);
        let found = reader.contains_batch(&keys).unwrap();
        let also = filter.contains_batch(&keys).unwrap();
        assert!(found == also);
        let also = joined.contains_batch(&keys).unwrap();
        assert!(found == also);
        let also = again.contains_batch(&keys).unwrap();
        assert!(found == also);
        for (key, found) in keys.iter().zip(&found).step_by(997) {
            assert_eq!(reader.contains(key).unwrap(), *found);
            assert_eq!(reader.count(key).unwrap(), filter.count(key).unwrap());
        }
        assert!(from > 0 || found.iter().all(|found| *found));
        of_absent = found.iter().filter(|found| **found).count();
    }
    let count = of_absent as f64;
    let expected = info.expected_false_positive_rate * absent as f64;
    println!("{count} of {absent} absent keys found, {expected:.1} expected");
    assert!((count - expected).abs() < 5.0 * expected.sqrt() + 5.0);
}

#[test]
fn shards_that_doubled_on_their_own_can_be_joined() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().capacity(1000).false_positive_rate(1e-6).threads(2);
    Store::create(crate::place(&dir), 3, &options).unwrap();
    let store = Store::open_with(crate::place(&dir), &options).unwrap();
    // Shard 0 gets many keys, shard 1 a few, and shard 2 none.
    let shard_of = |key: &[u8; 8]| store.description().shard_of(store.hash(key).unwrap());
    let chosen = |key: &[u8; 8]| match shard_of(key) {
        0 => true,
        1 => u64::from_le_bytes(*key) < 1000,
        _ => false,
    };
    let all: Vec<_> = keys(0..300_000).into_iter().filter(chosen).collect();
    let mut update = store.update().unwrap().rewriting();
    assert!(update.insert_batch(&all).unwrap().refused().is_empty());
    assert_eq!(update.touched(), 2);
    update.commit("insert", None).unwrap();
    let reader = store.read().unwrap();
    let generation = |shard| reader.file_of(shard).unwrap().map(|filter| filter.info().unwrap().generation);
    assert!(generation(0) >= Some(2) && generation(1) == Some(0) && generation(2).is_none());
    let found = reader.contains_batch(&all).unwrap();
    assert!(found.iter().all(|found| *found));
    let joined = dir.path().join("joined.gowk");
    reader.join_to(&joined, &|_, _| {}).unwrap();
    let found = Reader::open(&joined).unwrap().contains_batch(&all).unwrap();
    assert!(found.iter().all(|found| *found));
    assert!(
        Store::create_from(crate::place(&dir), 3, &Reader::open(&joined).unwrap(), &options, &|_, _| {})
            .is_err()
    );
}

/// The counters of a store are the sums over its shards, digits and saturated entries included.
#[test]
fn copies_are_counted_over_all_shards() {
    let dir = tempfile::tempdir().unwrap();
    let slots = SlotsPerBucket::new(2).unwrap();
    let options = Options::new().counting().capacity(REGION).slots_per_bucket(slots).seed(7);
    let options = options.growth(Growth::Never);
    let store = Store::create(crate::place(&dir), 4, &options).unwrap();
    let mut update = store.update().unwrap().rewriting();
    for copies in 0..1200 {
        // The first key has more copies than can be counted.
        assert!(
            update
                .insert_batch(&keys(0..200_u64.saturating_sub(copies).max(1)))
                .unwrap()
                .refused()
                .is_empty()
        );
    }
    let removed = update.remove_batch(&keys(100..150)).unwrap();
    assert!(removed.iter().all(|removed| *removed));
    update.commit("insert", None).unwrap();
    let reader = store.read().unwrap();
    let all = reader.filter_info().unwrap();
    let shards: Vec<_> =
        (0..4).map(|shard| reader.file_of(shard).unwrap().unwrap().info().unwrap()).collect();
    let sum = |of: fn(&gowk::Info) -> u64| shards.iter().map(of).sum::<u64>();
    assert_eq!(all.digits, sum(|info| info.digits));
    assert_eq!(all.saturated, sum(|info| info.saturated));
    assert_eq!(all.copies, sum(|info| info.copies));
    // A saturated group counts 512 copies of the first key, and a group in its other bucket 511.
    assert_eq!(all.copies, (2..=200).map(|key| 201 - key).sum::<u64>() + 1023 - 50);
    assert!(all.digits > 0 && all.saturated > 0, "{all:?}");
    let used = |info: &gowk::Info| (info.load * info.slots as f64).round() as u64;
    assert_eq!(used(&all), shards.iter().map(used).sum::<u64>());
}

/// The same keys go into one update by `insert_batch` and into another by `insert_each`, until no key finds room.
#[test]
fn a_batch_says_of_every_key_what_insert_each_says() {
    let plain = || {
        let options = Options::new().capacity(1).slots_per_bucket(SlotsPerBucket::Two).seed(7);
        options.growth(Growth::Never).max_kicks(20).threads(2)
    };
    let forgetting = plain().forget_after(std::time::Duration::from_secs(1000)).clock_is_right(true);
    for (kind, options) in [("set", plain()), ("counting", plain().counting()), ("forgetting", forgetting)] {
        // The short test rewrites only shards of sets.
        for rewrites in
            [false, true].into_iter().filter(|all| !all || kind == "set" || thorough::is_asked_for())
        {
            let what = format!("{kind}, rewriting: {rewrites}");
            let dir = tempfile::tempdir().unwrap();
            let store = Store::create(crate::place(&dir), 2, &options).unwrap();
            let store = Store::open_with(store.path(), &options).unwrap();
            // First the store is new, then full.
            for version in 0..2 {
                let update = || store.update().unwrap();
                let [mut batch, mut each] =
                    [update(), update()].map(|update| if rewrites { update.rewriting() } else { update });
                let (mut new, mut seen, mut full) = (0, 0, 0);
                let mut taken = Vec::new();
                for start in (0..64_000).step_by(8_000) {
                    // A part was already present, and some keys come twice.
                    let mut keys = keys(start..start + 12_000);
                    keys.extend_from_within(3_000..4_000);
                    let mut mask = vec![false; keys.len()];
                    let refused = each.insert_each(&keys, |index| mask[index] = true).unwrap();
                    let inserted = batch.insert_batch(&keys).unwrap();
                    assert!(inserted.mask() == mask, "{what}, version {version}, from {start}");
                    let places = |refused: &[(usize, gowk::Error)]| -> Vec<usize> {
                        refused.iter().map(|(place, _)| *place).collect()
                    };
                    assert!(places(inserted.refused()) == places(&refused), "{what}, from {start}");
                    new += inserted.new_keys();
                    seen += keys.len() - inserted.new_keys();
                    full += refused.len();
                    let full = places(&refused);
                    taken.extend(
                        (0..keys.len()).filter(|at| full.binary_search(at).is_err()).map(|at| keys[at]),
                    );
                }
                assert!(new > 1000 && seen > 1000 && full > 1000, "{what}: {new}, {seen}, {full}");
                batch.commit("insert", None).unwrap();
                let found = store.read().unwrap().contains_batch(&taken).unwrap();
                assert!(found.iter().all(|found| *found), "{what}: a key was lost");
            }
        }
    }
}
