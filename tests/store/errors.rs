//! Invariants checked: a call that meets a damaged, missing or foreign file of a store fails with one line that names the
//! file and the fault. Calls on the other shards work. No lookup answers "absent" from a file other than the one that the
//! version names.

use std::fs::{remove_file, write};
use std::path::{Path, PathBuf};

use gowk::store::{Error, Result, Store};
use gowk::{Batches, Growth, HashKind, KeyHash, Kind, Lookup, Options};

use crate::{bytes_of, files_of, place_in, put, remove, with_damaged_region};

fn options() -> Options {
    Options::new().capacity(1000).seed(5).false_positive_rate(1e-8)
}

fn keys(range: std::ops::Range<u64>) -> Vec<[u8; 8]> {
    range.map(u64::to_le_bytes).collect()
}

/// A store of two versions with keys in files of shards, in a folder of this name.
fn store(dir: &Path, name: &str, options: &Options) -> Store {
    let store = Store::create(place_in(dir, name), 2, options).unwrap();
    for round in 0..2 {
        let mut update = store.update().unwrap().rewriting();
        update.insert_batch(&keys(round * 50..round * 50 + 50)).unwrap().complete().unwrap();
        update.commit("insert", None).unwrap();
    }
    store
}

/// The file of a shard in a version.
fn file(store: &Store, version: u64, shard: u32) -> PathBuf {
    let version = store.version(version).unwrap();
    store.path().join(format!("shards/{shard:04}/{}", version.shards[&shard].file_name()))
}

/// Looks up stored keys. Returns the error if that fails; the answer is never "absent".
fn look(store: &Store) -> Result<()> {
    let reader = store.read()?;
    let mut outcome = Ok(());
    for key in keys(0..100) {
        match reader.contains(&key) {
            Ok(found) => assert!(found, "a key is absent"),
            Err(error) => outcome = Err(error),
        }
    }
    outcome
}

/// Checks that the error is one line that names the file and contains these words.
fn is_clear(error: &Error, file: &Path, words: &[&str]) {
    let message = error.to_string();
    println!("{message}");
    assert!(!message.contains('\n') && message.len() < 400, "{message}");
    let file = file.file_name().unwrap().to_string_lossy().into_owned();
    for word in words.iter().copied().chain([&*file]) {
        assert!(message.contains(word), "{message}: lacks {word}");
    }
}

#[test]
fn the_file_of_a_shard_must_be_the_one_that_the_version_names() {
    let dir = tempfile::tempdir().unwrap();
    let own = store(dir.path(), "own", &options());
    let path = file(&own, 3, 1);
    let good = bytes_of(&path);
    let spoilt = |words: &[&str], spoil: &dyn Fn(&Path)| {
        spoil(&path);
        let error = look(&own).unwrap_err();
        is_clear(&error, &path, words);
        // An update of this shard fails, and one of the other shard works.
        let mut update = own.update().unwrap();
        let error = update.insert_batch(&keys(0..100)).unwrap_err();
        is_clear(&error, &path, words);
        let reports = own.read().unwrap().verify(&|_, _| {}).unwrap();
        assert!(reports[0].1.as_ref().unwrap().is_clean());
        assert!(reports[1].1.as_ref().map_or(true, |report| !report.is_clean()));
        put(&path, &good);
        look(&own).unwrap();
    };
    let replaced = |with: PathBuf| move |path: &Path| put(path, &bytes_of(&with));
    let other = store(dir.path(), "other", &options());
    spoilt(&["uuid"], &replaced(file(&other, 3, 1)));
    let seed = store(dir.path(), "seed", &options().seed(6));
    spoilt(&["its seed is another"], &replaced(file(&seed, 3, 1)));
    spoilt(&["shard is 0, not 1"], &replaced(file(&own, 3, 0)));
    spoilt(&["uuid"], &replaced(file(&own, 2, 1)));
    let whole = dir.path().join("whole.gowk");
    options().create(&whole).unwrap().commit().unwrap();
    spoilt(&["number of shards is 1, not 2"], &replaced(whole));
    spoilt(&["missing", "version 3"], &remove);
    spoilt(&["bytes long"], &|path| put(path, &good[..good.len() - 4096]));
    spoilt(&["not a gowk filter"], &|path| put(path, b""));
    spoilt(&["damaged"], &|path| put(path, &with_damaged_region(&good)));
}

#[test]
fn what_is_wrong_with_a_run_is_a_row_beside_those_of_the_shards() {
    let dir = tempfile::tempdir().unwrap();
    let with_run = |name: &str| {
        let store = store(dir.path(), name, &options());
        let mut update = store.update().unwrap();
        update.insert_batch(&keys(100..1100)).unwrap().complete().unwrap();
        update.commit("insert", None).unwrap();
        let run = store.newest().unwrap().runs[0].file_name();
        let run = store.path().join("runs").join(run);
        (store, run)
    };
    let ((own, path), (_, other)) = (with_run("own"), with_run("other"));
    let (good, other) = (bytes_of(&path), bytes_of(&other));
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        Some(bytes)
    };
    let all_records = {
        let mut bytes = good.clone();
        [1, 2, 3].into_iter().for_each(|page| bytes[4096 * page + 9] ^= 1);
        Some(bytes)
    };
    let cases: [(Option<Vec<u8>>, &[&'static str]); 7] = [
        (all_records, &["pages 1, 2, 3 are damaged", "restore"]),
        (flipped(4096 + 9), &["page 1 is damaged", "restore"]),
        (flipped(good.len() - 1), &["page 4 is damaged", "restore"]),
        (flipped(20), &["checksum", "restore"]),
        (Some(good[..good.len() - 4096].to_vec()), &["length", "restore"]),
        (Some(other), &["store", "restore"]),
        (None, &["missing", "version 4", "restore"]),
    ];
    for (bytes, words) in cases {
        remove(&path);
        bytes.iter().for_each(|bytes| put(&path, bytes));
        let reports = own.read().unwrap().verify(&|_, _| {}).unwrap();
        assert_eq!(reports.iter().map(|(shard, _)| *shard).collect::<Vec<_>>(), [Some(0), Some(1), None]);
        assert!(reports[..2].iter().all(|(_, report)| report.as_ref().unwrap().is_clean()));
        is_clear(reports[2].1.as_ref().unwrap_err(), &path, words);
        // Keys in files are found; no key that is only in the run is absent.
        look(&own).unwrap();
        let reader = own.read().unwrap();
        let found: Vec<_> = keys(100..1100).iter().map(|key| reader.contains(key)).collect();
        assert!(found.iter().all(|found| *found.as_ref().unwrap_or(&true)), "{words:?}");
        assert!(found.iter().any(Result::is_err), "{words:?}");
        // A fold names the first page that it needs. Of an object, all pages are read to see whether the object itself is
        // damaged.
        let all_are_named = crate::is_in_a_bucket();
        let first = |word: &&'static str| {
            if word.starts_with("pages") && !all_are_named { "page 1 is" } else { *word }
        };
        let words: Vec<&str> = words.iter().map(first).collect();
        is_clear(&own.compact(true, &|_, _| {}).unwrap_err(), &path, &words);
        put(&path, &good);
        let reports = own.read().unwrap().verify(&|_, _| {}).unwrap();
        assert!(reports.iter().all(|(_, report)| report.as_ref().unwrap().is_clean()));
        assert_eq!(reports[2].1.as_ref().unwrap().pages, 5);
    }
}

#[test]
fn the_texts_of_a_store_must_be_whole() {
    let dir = tempfile::tempdir().unwrap();
    let own = store(dir.path(), "s", &options());
    for path in [own.path().join("store.toml"), own.path().join("versions/000000000003.toml")] {
        let good = bytes_of(&path);
        let opened = || Store::open(own.path()).and_then(|store| look(&store));
        let fails = |bytes: &[u8], words: &[&str]| {
            put(&path, bytes);
            is_clear(&opened().unwrap_err(), &path, words);
            put(&path, &good);
            opened().unwrap();
        };
        fails(&good[..good.len() - 1], &["checksum"]);
        fails(&[], &["checksum"]);
        let mut flipped = good.clone();
        flipped[40] ^= 1;
        fails(&flipped, &["checksum"]);
        let sealed = |text: &str| format!("{text}# crc32 = {:08x}\n", crc32fast::hash(text.as_bytes()));
        let text = std::str::from_utf8(&good).unwrap().rsplit_once("# crc32").unwrap().0;
        fails(sealed(&text.replace("format = 1", "format = 2")).as_bytes(), &["format 2", "newer gowk"]);
        fails(sealed(&text.replacen('\n', "\nwindows = 3\n", 1)).as_bytes(), &["windows"]);
        fails(sealed("format = 1\n").as_bytes(), &["missing field"]);
        fails(sealed("").as_bytes(), &["format"]);
        fails(sealed("format = 1\nuuid = \u{7}[[[").as_bytes(), &[]);
        remove(&path);
        match Store::open(own.path()) {
            Err(Error::NotAStore { path }) => assert!(path.ends_with("s")),
            // A version that was removed by hand looks like one that never existed.
            outcome => assert_eq!(outcome.unwrap().newest().unwrap().number, 2),
        }
        put(&path, &good);
    }
    // A vacuum cannot know which files a damaged version names.
    let old = own.path().join("versions/000000000002.toml");
    put(&old, b"");
    let day = gowk::store::Vacuum::default();
    is_clear(&own.vacuum(&day.keep(3).grace(std::time::Duration::ZERO)).unwrap_err(), &old, &["checksum"]);
    look(&own).unwrap();
}

#[test]
fn wrong_calls_are_refused() {
    if crate::needs_a_folder("says what is wrong with folders") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    assert!(matches!(Store::open(&path), Err(Error::NotFound { .. })));
    for shards in [0, 65_537] {
        let error = Store::create(&path, shards, &options()).unwrap_err();
        assert!(error.to_string().contains("number of shards"), "{error}");
        assert!(!path.exists());
    }
    std::fs::create_dir(&path).unwrap();
    write(path.join("x"), "").unwrap();
    assert!(matches!(Store::create(&path, 2, &options()), Err(Error::Exists { .. })));
    remove_file(path.join("x")).unwrap();
    let own = Store::create(&path, 2, &options()).unwrap();
    assert!(matches!(Store::create(&path, 2, &options()), Err(Error::Exists { .. })));
    assert!(Store::is_at(&path) && !Store::is_at(dir.path()));
    assert!(matches!(own.version(2), Err(Error::NoSuchVersion { number: 2, newest: 1, .. })));
    assert!(!own.read().unwrap().contains(b"x").unwrap());
    // A file is no store, and neither is a store without a version.
    let file = dir.path().join("f.gowk");
    options().create(&file).unwrap().commit().unwrap();
    assert!(matches!(Store::open(&file), Err(Error::NotAStore { .. })));
    remove_file(path.join("versions/000000000001.toml")).unwrap();
    let error = own.read().unwrap_err();
    assert!(matches!(error, Error::NoVersions { .. }), "{error:?}");
}

/// Sealed files of another store or base, or one file twice.
#[test]
fn sealed_files_that_do_not_belong_together_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let [one, two] = ["one", "two"].map(|name| store(dir.path(), name, &options()));
    let seal = |store: &Store| {
        let mut update = store.update().unwrap().rewriting();
        update.insert_batch(&keys(200..220)).unwrap().complete().unwrap();
        update.seal().unwrap()
    };
    let change = |base, sealed| gowk::store::Change { base, operation: "x".to_owned(), token: None, sealed };
    let sealed = seal(&one);
    let refused = |change: &gowk::store::Change, words: &str| {
        let error = one.commit(change).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    refused(&change(3, seal(&two)), "sealed file has store");
    refused(&change(2, sealed.clone()), "sealed file has base 3");
    refused(&change(3, [sealed.clone(), sealed[..1].to_vec()].concat()), "each file once");
    refused(&change(9, Vec::new()), "no version 9");
    one.commit(&change(3, sealed)).unwrap();
}

#[test]
fn stores_keep_to_what_they_were_created_for() {
    let dir = tempfile::tempdir().unwrap();
    let own = Store::create(place_in(dir.path(), "h"), 3, &options().hash(HashKind::Caller)).unwrap();
    let bytes = [b"x", b"y"];
    for error in [
        own.hash(b"x").unwrap_err(),
        own.read().unwrap().contains_batch(&bytes).unwrap_err(),
        own.update().unwrap().insert_batch(&bytes).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Filter(gowk::Error::CallerHashes { .. })), "{error:?}");
    }
    let hashes: Vec<KeyHash> = (0..500_u128)
        .map(|number| KeyHash::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834)))
        .collect();
    let mut update = own.update().unwrap();
    assert!(update.insert_batch(&hashes).unwrap().refused().is_empty());
    update.commit("insert", None).unwrap();
    let reader = own.read().unwrap();
    let found = reader.contains_batch(&hashes).unwrap();
    assert!(found.iter().all(|found| *found));
    assert!(hashes.iter().all(|hash| reader.count(*hash).unwrap() == 1));

    // A shard that must not grow refuses single keys and stores the others.
    let own = Store::create(place_in(dir.path(), "g"), 2, &options().growth(Growth::Never)).unwrap();
    let all = keys(0..60_000);
    let mut update = own.update().unwrap();
    let refused = update.insert_batch(&all).unwrap().into_refused();
    assert!(refused.len() > 1000 && refused.is_sorted_by_key(|(index, _)| *index));
    assert!(matches!(refused[0].1, gowk::Error::Full { .. }), "{:?}", refused[0].1);
    update.commit("insert", None).unwrap();
    let reader = own.read().unwrap();
    assert_eq!(reader.version().entries(), 60_000 - refused.len() as u64);
    let found = reader.contains_batch(&all).unwrap();
    let absent = found.iter().filter(|found| !**found).count();
    assert!(absent <= refused.len());

    // Working copies in another folder.
    let scratch = dir.path().join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let mut update = own.update().unwrap().rewriting().scratch(&scratch);
    assert_eq!(
        update.insert_batch(&keys(0..10)).unwrap().complete().unwrap(),
        0,
        "keys that are stored are told to be new"
    );
    // A store of sets cannot remove.
    for refused in [update.remove_batch(&keys(0..10)).map(drop), update.remove_all(keys(0..10)).map(drop)] {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::Filter(gowk::Error::Kind { found: Kind::Set, .. })), "{error:?}");
    }
    assert_eq!(
        update.insert_batch(&keys(0..10)).unwrap().complete().unwrap(),
        0,
        "the refused removal has removed keys"
    );
    assert_eq!(update.touched(), 2);
    assert!(scratch.read_dir().unwrap().count() >= 2);
    drop(update);
    assert_eq!(scratch.read_dir().unwrap().count(), 0);
    assert!(!files_of(&own).iter().any(|file| file.starts_with("incoming")));
}

/// If an update trusted the answer "present", its keys would not be stored.
#[test]
fn an_update_takes_damage_for_an_error_whatever_readers_answer() {
    let dir = tempfile::tempdir().unwrap();
    let made = store(dir.path(), "s", &options());
    let newest = made.newest().unwrap();
    for (shard, file) in &newest.shards {
        let path = made.file_path(*shard, file);
        put(&path, &with_damaged_region(&bytes_of(&path)));
    }
    let store = Store::open_with(made.path(), &Options::new().on_damage(gowk::OnDamage::Present)).unwrap();
    let found = store.read().unwrap().contains_batch(&keys(500..600));
    if crate::is_in_a_bucket() {
        // What is read is a copy of the file, and the damage may be the copy's own.
        assert!(matches!(found, Err(Error::Filter(gowk::Error::Damaged { .. }))), "{found:?}");
    } else {
        assert!(found.unwrap().contains(&true));
    }
    let mut update = store.update().unwrap();
    assert!(update.insert_batch(&keys(500..600)).is_err());
}

#[test]
fn a_store_tells_where_it_lies_and_an_error_which_path_it_is_about() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("none");
    let error = Store::open(&missing).unwrap_err();
    assert_eq!(error.path(), Some(&*missing));
    let addresses = ["s3://bucket/prefix", "gs://bucket/prefix", "az://container/prefix", "s3://", "gs:/b/x"];
    assert_eq!(addresses.map(Store::is_address), [true; 5]);
    assert_eq!(["s3", "az", "az:x", "/s3:/x", "bucket/s3://x"].map(Store::is_address), [false; 5]);
    let store = store(dir.path(), "s", &options());
    assert_eq!(store.requests().is_some(), crate::is_in_a_bucket());
}
