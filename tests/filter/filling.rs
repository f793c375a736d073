//! Capacity, false positives, duplicates and removal at every width. `copies` has copies of keys.
//!
//! Invariants checked: a filter created for N keys has room for N distinct keys without growing. Its false-positive rate
//! is the one that it expects. No inserted key is ever reported absent.

use gowk::{Batches, Error, Growth, Kind, Lookup, Options, Reader, SlotsPerBucket, Writer};

fn new_filter(dir: &tempfile::TempDir, slots: SlotsPerBucket, capacity: u64) -> Writer {
    let path = dir.path().join(format!("{}-{capacity}.gowk", slots.get()));
    let options = Options::new().capacity(capacity).slots_per_bucket(slots).growth(Growth::Never);
    options.counting().seed(1).create(path).unwrap()
}

fn fill(writer: &mut Writer, keys: std::ops::Range<u64>) {
    for key in keys {
        writer.insert(&key.to_le_bytes()).unwrap();
    }
}

#[test]
fn a_filter_takes_the_keys_it_was_created_for_and_errs_at_the_expected_rate() {
    const KEYS: u64 = 1_000_000;
    const ABSENT: u64 = 5_000_000;
    let dir = tempfile::tempdir().unwrap();
    for slots in SlotsPerBucket::ALL {
        let mut writer = new_filter(&dir, slots, KEYS);
        fill(&mut writer, 0..KEYS);
        writer.commit().unwrap();
        assert!((0..KEYS).all(|key| writer.contains(&key.to_le_bytes()).unwrap()));
        let info = writer.info().unwrap();
        let enough = if slots == SlotsPerBucket::Two { 0.75 } else { 0.8 };
        assert!(info.load >= enough, "{slots:?}: load {}", info.load);
        let absent = KEYS..KEYS + ABSENT;
        let found = absent.filter(|key| writer.contains(&key.to_le_bytes()).unwrap()).count();
        let (rate, expected) = (found as f64 / ABSENT as f64, info.expected_false_positive_rate);
        match slots {
            SlotsPerBucket::Two => assert!(rate < 1e-6, "{rate}"),
            SlotsPerBucket::Three => assert!(rate < 2e-5, "{rate}"),
            _ => assert!((rate / expected - 1.0).abs() < 0.15, "{slots:?}: {rate} for {expected}"),
        }
    }
}

#[test]
fn small_filters_take_the_keys_they_were_created_for() {
    let dir = tempfile::tempdir().unwrap();
    for slots in SlotsPerBucket::ALL {
        // A single region cannot average its load with others.
        let one_region = (8192.0 * f64::from(slots.get()) * 0.79) as u64;
        for capacity in [1, 1000, one_region] {
            let mut writer = new_filter(&dir, slots, capacity);
            fill(&mut writer, 0..capacity);
            assert_eq!(writer.info().unwrap().copies, capacity);
            assert!((0..capacity).all(|key| writer.contains(&key.to_le_bytes()).unwrap()));
        }
    }
}

#[test]
fn removing_half_of_a_million_keys_leaves_the_other_half() {
    const KEYS: u64 = 1_000_000;
    let dir = tempfile::tempdir().unwrap();
    for slots in [SlotsPerBucket::Two, SlotsPerBucket::Four, SlotsPerBucket::Seven] {
        let mut writer = new_filter(&dir, slots, KEYS);
        fill(&mut writer, 0..KEYS);
        writer.commit().unwrap();
        for key in (0..KEYS).step_by(2) {
            assert!(writer.remove(&key.to_le_bytes()).unwrap());
        }
        writer.commit().unwrap();
        writer.close().unwrap();
        let path = dir.path().join(format!("{}-{KEYS}.gowk", slots.get()));
        let reader = Reader::open(path).unwrap();
        assert!((1..KEYS).step_by(2).all(|key| reader.contains(&key.to_le_bytes()).unwrap()));
        assert_eq!(reader.info().unwrap().copies, KEYS / 2);
        assert!(reader.verify(&|_, _| {}).unwrap().is_clean());
    }
}

#[test]
fn an_insert_tells_what_is_new_and_stores_what_the_kind_says() {
    let dir = tempfile::tempdir().unwrap();
    let mut counting = new_filter(&dir, SlotsPerBucket::Four, 1000);
    let mut set = Options::new().capacity(1000).create(dir.path().join("set")).unwrap();
    for (writer, copies) in [(&mut counting, 2), (&mut set, 1)] {
        assert!(writer.insert(b"a").unwrap());
        assert!(!writer.insert(b"a").unwrap());
        assert_eq!((writer.count(b"a").unwrap(), writer.len().unwrap()), (copies, copies.into()));
        writer.commit().unwrap();
    }
    assert!(counting.remove(b"a").unwrap() && !counting.insert(b"a").unwrap());
    assert!(counting.remove(b"a").unwrap() && counting.remove(b"a").unwrap());
    assert!(!counting.remove(b"a").unwrap() && !counting.contains(b"a").unwrap());
    assert!(counting.insert(b"a").unwrap(), "a removed key is not new");
    for key in [b"a", b"b"] {
        let refused = set.remove(key).unwrap_err();
        assert!(matches!(refused, Error::Kind { found: Kind::Set, wanted: Kind::Counting, .. }));
        let text = refused.to_string();
        assert!(
            text.contains("is a set") && text.contains("removing keys") && text.contains("counting"),
            "{text}"
        );
    }
    assert!(set.contains(b"a").unwrap() && set.len().unwrap() == 1);
}

#[test]
fn batches_answer_as_single_inserts_do() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = new_filter(&dir, SlotsPerBucket::Two, 1000);
    assert_eq!(writer.insert_batch(&["a", "b", "a", ""]).unwrap().mask(), [true, true, false, true]);
    assert_eq!(writer.insert_batch(&["a", "a", "a", "c"]).unwrap().complete().unwrap(), 1);
    assert_eq!(writer.count(b"a").unwrap(), 5);
    assert_eq!(writer.count(b"c").unwrap(), 1);
    writer.commit().unwrap();
    let reader = Reader::open(dir.path().join("2-1000.gowk")).unwrap();
    let found = reader.contains_batch(&["a", "x", "c", ""]).unwrap();
    assert_eq!(found, [true, false, true, true]);
}
