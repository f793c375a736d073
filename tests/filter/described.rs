//! Invariants checked: `Debug` of handles and options is one line. `Display` and `Serialize` of `Info` have its fields.
//! None of them shows the seed.
#![cfg(feature = "store")]

use gowk::store::Store;
use gowk::{Batches, Growth, Lookup, Options, Reader, SlotsPerBucket};

const SEED: u64 = 1_234_567_890_123;

#[test]
fn handles_and_options_are_described_in_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("f");
    let options = Options::new().capacity(5000).seed(SEED).false_positive_rate(0.01).growth(Growth::Never);
    let mut writer = options.create(&path).unwrap();
    writer.insert("a").unwrap();
    writer.commit().unwrap();
    let expected = "Options { capacity: 5000, false_positive_rate: 0.01, growth: Never, .. }";
    assert_eq!(format!("{options:?}"), expected);
    let plain = Options::new().counting().slots_per_bucket(SlotsPerBucket::Six).threads(4).sealed(true);
    let expected =
        "Options { capacity: 1000000, kind: Counting, slots_per_bucket: Six, threads: 4, sealed: true, .. }";
    assert_eq!(format!("{plain:?}"), expected);
    assert_eq!(format!("{writer:?}"), format!("Writer {{ path: {path:?}, commit: 1, .. }}"));
    let reader = Reader::open(&path).unwrap();
    assert_eq!(format!("{reader:?}"), format!("Reader {{ path: {path:?}, .. }}"));

    let path = path.with_file_name("s");
    let store = Store::create(&path, 4, &Options::new().capacity(5000).seed(SEED)).unwrap();
    assert_eq!(format!("{store:?}"), format!("Store {{ path: {path:?}, shards: 4, .. }}"));
    let mut update = store.update().unwrap();
    assert!(update.insert_all(["a"]).unwrap().refused().is_empty());
    let expected = format!("Update {{ path: {path:?}, base: 1, touched: 1, .. }}");
    assert_eq!(format!("{update:?}"), expected);
    let reader = store.read().unwrap();
    assert_eq!(format!("{reader:?}"), format!("StoreReader {{ path: {path:?}, version: 1, .. }}"));
}

#[test]
fn a_store_takes_the_keys_of_iterators() {
    let dir = tempfile::tempdir().unwrap();
    // With this seed and width there are few false positives, and always the same ones.
    let options = Options::new().counting().capacity(50_000).slots_per_bucket(SlotsPerBucket::Two).seed(SEED);
    let store = Store::create(dir.path().join("s"), 4, &options).unwrap();
    let keys = || (0..20_000u32).map(u32::to_le_bytes);
    let mut update = store.update().unwrap();
    let inserted = update.insert_all(keys()).unwrap();
    assert_eq!((inserted.keys(), inserted.complete().unwrap()), (20_000, 20_000));
    assert_eq!(update.remove_all(keys().take(5000)).unwrap(), 5000);
    let inserted = update.insert_all(keys().chain(keys())).unwrap();
    assert_eq!((inserted.keys(), inserted.complete().unwrap()), (40_000, 5000));
    update.commit("insert", None).unwrap();
    let found = store.read().unwrap().contains_batch(&keys().collect::<Vec<_>>()).unwrap();
    assert!(found.into_iter().all(|found| found));
}

#[test]
fn info_is_a_line_of_text() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let mut writer = Options::new().counting().capacity(5000).seed(SEED).create(&path).unwrap();
    assert!(writer.insert_all(["a", "a", "b"]).unwrap().refused().is_empty());
    writer.commit().unwrap();
    let info = Reader::open(&path).unwrap().info().unwrap();
    let (rate, bytes) = (info.expected_false_positive_rate, info.file_length);
    assert_eq!(
        info.to_string(),
        format!(
            "3 copies of keys in 2 entries, load 0.000, 4 slots per bucket, false-positive rate {rate:.2e}, \
             generation 0, {bytes} bytes, commit 1"
        )
    );
}

#[cfg(feature = "serde")]
#[test]
fn info_is_serialized_under_the_names_of_its_fields() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer =
        Options::new().counting().capacity(5000).seed(SEED).create(dir.path().join("f")).unwrap();
    assert!(writer.insert_all(["a", "a", "b"]).unwrap().refused().is_empty());
    let info = writer.info().unwrap();
    let json = serde_json::to_value(&info).unwrap();
    let uuid: String = info.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(json["uuid"].as_str().unwrap().replace('-', ""), uuid);
    assert_eq!(json["uuid"].as_str().unwrap().split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    assert_eq!((&json["format"], &json["hash"]), (&"1.0".into(), &"xxh3-128".into()));
    assert_eq!(json["kind"], "counting");
    assert_eq!((&json["growth"], &json["slots_per_bucket"]), (&"auto".into(), &4.into()));
    assert_eq!((&json["copies"], &json["entries"]), (&3.into(), &2.into()));
    assert_eq!(json["forecast"][0]["generation"], 1);
    assert!(json.get("seed").is_none() && !json.to_string().contains(&SEED.to_string()));
}
