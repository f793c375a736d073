//! Invariant checked: neither `Debug` of any public type nor an error message shows a filter's seed, since programs log
//! both. Anybody who knows the seed can craft keys that collide.

use std::fmt::Debug;

use gowk::{Growth, Lookup, Options, Reader};

const SEED: u64 = 0xfedc_ba98_1234_5671;

/// The seed, and what XXH3 derives from it for keys of eight bytes, in all forms in which `Debug` writes numbers.
fn traces() -> Vec<String> {
    let flip = (0xDB97_9083_E96D_D4DE_u64 ^ 0x1F67_B3B7_A4A4_4072)
        .wrapping_add(SEED ^ u64::from((SEED as u32).swap_bytes()) << 32);
    let numbers = [SEED, flip].into_iter().flat_map(|n| [n.to_string(), format!("{n:x}"), format!("{n:X}")]);
    let bytes = [SEED.to_le_bytes(), SEED.to_be_bytes()];
    numbers.chain(bytes.map(|bytes| format!("{bytes:?}").trim_matches(['[', ']']).to_owned())).collect()
}

#[track_caller]
fn assert_hides(value: &dyn Debug) {
    for text in [format!("{value:?}"), format!("{value:#x?}"), format!("{value:#?}").replace(['\n', ' '], "")]
    {
        assert!(text.len() > 5);
        for trace in traces() {
            assert!(!text.contains(&trace) && !text.contains(&trace.replace(' ', "")), "{trace} in {text}");
        }
    }
}

#[test]
fn debug_shows_no_seed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let options = Options::new().capacity(1000).seed(SEED);
    assert_hides(&options);
    let mut writer = options.create(&path).unwrap();
    writer.insert(b"eight by").unwrap();
    assert_hides(&writer);
    assert_hides(&writer.info().unwrap());
    assert_eq!(writer.info().unwrap().seed.get(), SEED);
    writer.commit().unwrap();
    writer.insert(b"key").unwrap();
    assert_hides(&writer);
    let reader = Reader::open(&path).unwrap();
    assert!(reader.contains(b"eight by").unwrap());
    assert_hides(&reader);
    assert_hides(&reader.info().unwrap());
    assert_hides(&reader.verify(&|_, _| {}).unwrap());
    assert_hides(&Options::new().read_in_memory(&path).unwrap());
    writer.grow().unwrap();
    assert_hides(&writer);
    writer.commit().unwrap();
    assert!(!reader.contains(b"absent").unwrap());
    assert_hides(&reader);
    writer.close().unwrap();

    // Two superblocks with different seeds: the error names the field, and shows neither seed.
    let other = dir.path().join("other");
    Options::new().capacity(1000).seed(7).growth(Growth::Never).create(&other).unwrap().commit().unwrap();
    let (mut bytes, theirs) = (std::fs::read(&path).unwrap(), std::fs::read(&other).unwrap());
    let slots = 65_536;
    let newer = usize::from(bytes[40..48] < bytes[slots + 40..slots + 48]);
    let slot = &mut bytes[(1 - newer) * slots..][..slots];
    slot[64..72].copy_from_slice(&theirs[64..72]);
    slot[80..96].copy_from_slice(&theirs[80..96]);
    let (sealed, seal) = slot.split_at_mut(slots - 4);
    seal.copy_from_slice(&crc32fast::hash(sealed).to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let error = Reader::open(&path).unwrap_err();
    assert!(error.to_string().contains("field `seed` is"), "{error}");
    assert_hides(&error);
    assert_hides(&error.to_string());
}

#[test]
fn an_error_about_different_seeds_shows_neither() {
    let dir = tempfile::tempdir().unwrap();
    let make = |name: &str, seed: u64| {
        let path = dir.path().join(name);
        Options::new().capacity(1000).seed(seed).create(&path).unwrap().commit().unwrap();
        Reader::open(path).unwrap()
    };
    let (one, other) = (make("one", SEED), make("other", 7));
    let mut writer = Options::new().open_existing(dir.path().join("one")).unwrap();
    let unlike = [
        writer.merge(&other).unwrap_err(),
        Reader::join_to(&[one, other], dir.path().join("joined"), &|_, _| {}).unwrap_err(),
    ];
    for error in unlike {
        assert!(error.to_string().contains("has another seed"), "{error}");
        assert_hides(&error);
        assert_hides(&error.to_string());
    }
}

#[cfg(feature = "store")]
#[test]
fn a_store_shows_no_seed() {
    use gowk::Batches;
    use gowk::store::Store;

    let dir = tempfile::tempdir().unwrap();
    let make = |name: &str, seed: u64| {
        let store =
            Store::create(dir.path().join(name), 1, &Options::new().capacity(1000).seed(seed)).unwrap();
        let mut update = store.update().unwrap().rewriting();
        update.insert_batch(&["a"]).unwrap().complete().unwrap();
        assert_hides(&update);
        update.commit("insert", None).unwrap();
        store
    };
    let (store, other) = (make("one", SEED), make("other", 7));
    assert_eq!(store.description().seed.get(), SEED);
    assert_hides(&store);
    assert_hides(store.description());
    assert_hides(&store.read().unwrap());
    // A file of another store takes the place of one of its files.
    let file = |store: &Store| {
        let entries = store.path().join("shards/0000").read_dir().unwrap();
        entries
            .map(|entry| entry.unwrap().path())
            .find(|path| path.extension().is_some_and(|end| end == "gowk"))
            .unwrap()
    };
    std::fs::copy(file(&other), file(&store)).unwrap();
    let error = store.read().unwrap().contains(b"a").unwrap_err();
    assert!(error.to_string().contains("its seed is another, not that of the store"), "{error}");
    assert_hides(&error);
    assert_hides(&error.to_string());
}
