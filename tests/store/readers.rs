//! Invariants checked:
//!
//! 1. A reader of a version gives the same answers while later versions are committed and vacuumed. After the grace it
//!    may fail and ask for a reload, but never answers "absent".
//! 2. The version before a token is the one that the first attempt saw.
//! 3. Local copies of files are checked against the version, like the files. A wrong copy changes no answer.
//! 4. An update whose files a vacuum has removed is an error that says so.
//! 5. Files that an update has opened stay open for the next one, until a vacuum, or an update that fails.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gowk::store::{Committed, Error, Store, Token, Vacuum};
use gowk::{Batches, Lookup, OnDamage, Options};

fn keys(range: std::ops::Range<u64>) -> Vec<[u8; 8]> {
    range.map(u64::to_le_bytes).collect()
}

fn store(dir: &tempfile::TempDir, shards: u32) -> Store {
    Store::create(
        crate::place(dir),
        shards,
        &Options::new().counting().capacity(1000).false_positive_rate(1e-8),
    )
    .unwrap()
}

/// Inserts keys into files of shards.
fn insert(store: &Store, keys: &[[u8; 8]]) {
    let mut update = store.update().unwrap().rewriting();
    assert!(update.insert_batch(keys).unwrap().refused().is_empty());
    update.commit("insert", None).unwrap();
}

#[test]
fn a_reader_keeps_its_version_while_others_commit_and_vacuum() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 4);
    insert(&store, &keys(0..100));
    let mut reader = store.read().unwrap();
    let slow = store.read().unwrap();
    let asked = keys(0..1000);
    let first = reader.contains_batch(&asked).unwrap();
    assert_eq!(first.iter().filter(|found| **found).count(), 100);
    for round in 0..50 {
        insert(&store, &keys(100 + round * 5..105 + round * 5));
        let told = store.vacuum(&Vacuum::default().grace(Duration::from_secs(3600))).unwrap();
        assert_eq!((told.version, told.versions, told.files), (None, 0, 0));
        for reader in [&reader, &slow] {
            let found = reader.contains_batch(&asked).unwrap();
            assert_eq!(found, first, "round {round}");
        }
    }
    // A reader of the same version that has opened no shard yet.
    let late = store.read_version(reader.version().clone());
    let half = store.read_version(reader.version().clone());
    assert!(half.contains(&asked[0]).unwrap());
    let told = store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
    assert_eq!((told.version, told.versions), (Some(53), 52));
    assert!(told.files >= 50, "{told:?}");
    // Shards that are open stay readable.
    let found = reader.contains_batch(&asked).unwrap();
    assert_eq!(found, first);
    assert!(half.contains(&asked[0]).unwrap());
    let error = late.contains_batch(&asked).unwrap_err();
    assert!(matches!(error, Error::Vacuumed { version: 2, .. }), "{error:?}");
    assert!(error.to_string().contains("reload"), "{error}");
    for key in &asked {
        match half.contains(key) {
            Ok(found) => assert_eq!(found, asked[..100].contains(key)),
            Err(error) => assert!(matches!(error, Error::Vacuumed { .. }), "{error:?}"),
        }
    }
    assert!(reader.reload().unwrap());
    assert!(!reader.reload().unwrap());
    let found = reader.contains_batch(&asked).unwrap();
    assert_eq!(found.iter().filter(|found| **found).count(), 350);
}

/// Otherwise each vacuum of an unchanged store would make a version.
#[test]
fn a_vacuum_of_a_store_that_was_vacuumed_makes_no_version() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 2);
    (0..3).for_each(|round| insert(&store, &keys(round * 10..round * 10 + 10)));
    let vacuum = || {
        std::thread::sleep(Duration::from_millis(20));
        store.vacuum(&Vacuum::default().grace(Duration::from_millis(10))).unwrap()
    };
    let told = vacuum();
    assert_eq!((told.version, told.versions), (Some(5), 3), "{told:?}");
    for _ in 0..3 {
        assert_eq!((vacuum().version, store.newest().unwrap().number), (None, 5));
    }
    insert(&store, &keys(50..60));
    assert_eq!(vacuum().version, Some(7));
}

/// A reader keeps the file that it compared with the version, whatever takes its name.
#[test]
fn a_file_that_takes_the_name_of_an_open_one_is_not_followed() {
    if crate::needs_a_folder("renames files under readers") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 1);
    insert(&store, &keys(0..10));
    let old = store.newest().unwrap().shards[&0].file_name();
    insert(&store, &keys(10..20));
    let reader = store.read().unwrap();
    let asked = keys(0..20);
    reader.contains_batch(&asked).unwrap();
    let folder = store.path().join("shards/0000");
    let new = folder.join(reader.version().shards[&0].file_name());
    std::fs::rename(folder.join(old), &new).unwrap();
    std::thread::sleep(Duration::from_millis(1200));
    let found = reader.contains_batch(&asked).unwrap();
    assert!(found.iter().all(|found| *found));
    assert!(asked.iter().all(|key| reader.contains(key).unwrap()));
    // A reader that opens it now gets an error.
    let error = store.read().unwrap().contains(&asked[19]).unwrap_err();
    assert!(matches!(error, Error::WrongFile { what: "uuid", .. }), "{error:?}");
}

/// Copies are read instead of the files, and are checked against the version.
#[test]
fn copies_are_read_instead_of_the_files() {
    if crate::needs_a_folder("reads copies in place of files") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 2);
    insert(&store, &keys(0..100));
    let near = dir.path().join("near");
    std::fs::create_dir(&near).unwrap();
    let version = store.newest().unwrap();
    let [first, second] = [0, 1].map(|shard| store.file_path(shard, &version.shards[&shard]));
    let copy = near.join(version.shards[&0].file_name());
    std::fs::copy(&first, &copy).unwrap();
    let stays = near.join("stays");
    std::fs::rename(&first, &stays).unwrap();
    let asked = keys(0..100);
    // The first shard is read from the copy, the second from the store.
    let reader = store.clone().copies(&near).read().unwrap();
    let found = reader.contains_batch(&asked).unwrap();
    assert!(found.iter().all(|found| *found));
    assert_eq!(reader.file_of(0).unwrap().unwrap().path(), copy);
    assert_eq!(reader.file_of(1).unwrap().unwrap().path(), second);
    let error = store.read().unwrap().contains_batch(&asked).unwrap_err();
    assert!(matches!(error, Error::MissingFile { version: 2, .. }), "{error:?}");
    // An update also starts from the copies.
    let mut update = store.clone().copies(&near).update().unwrap();
    let found = update.insert_batch(&keys(0..110)).unwrap().mask();
    assert_eq!(found.iter().filter(|new| **new).count(), 10);
    std::fs::rename(&stays, &first).unwrap();
}

/// The offset of one byte in each page of a filter's regions.
fn in_each_page(path: &Path) -> Vec<usize> {
    let length = std::fs::metadata(path).unwrap().len() as usize;
    let pages = Options::new().sealed(true).read(path).unwrap().verify(&|_, _| {}).unwrap().pages as usize;
    // The pages are the last bytes of the file.
    (length - pages * 4096..length).step_by(4096).map(|page| page + 17).collect()
}

/// Whatever the fault of a copy, the answers come from the store's file, and the copy is reported.
#[test]
fn the_stores_file_is_read_instead_of_a_damaged_copy() {
    if crate::needs_a_folder("reads copies in place of files") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 2);
    insert(&store, &keys(0..100));
    let near = dir.path().join("near");
    std::fs::create_dir(&near).unwrap();
    let version = store.newest().unwrap();
    let [first, second] = [0, 1].map(|shard| store.file_path(shard, &version.shards[&shard]));
    let (copy, good) = (near.join(version.shards[&0].file_name()), std::fs::read(&first).unwrap());
    let mut in_pages = good.clone();
    in_each_page(&first).into_iter().for_each(|at| in_pages[at] ^= 0x40);
    let mut in_superblocks = good.clone();
    in_superblocks[..2 * 65536].fill(0x55);
    let asked = keys(0..1000);
    let exact: Vec<bool> = asked.iter().map(|key| store.read().unwrap().contains(key).unwrap()).collect();
    let cases: [(&str, &[u8], bool); 6] = [
        ("pages", &in_pages, true),
        ("superblocks", &in_superblocks, false),
        ("cut short", &good[..good.len() - 4096], false),
        ("empty", b"", false),
        ("no filter", b"<html>not found</html>", false),
        ("another shard", &std::fs::read(&second).unwrap(), false),
    ];
    for (what, bytes, opens) in cases {
        std::fs::write(&copy, bytes).unwrap();
        for on_damage in [OnDamage::Error, OnDamage::Present] {
            let options = Options::new().on_damage(on_damage);
            let near = || Store::open_with(store.path(), &options).unwrap().copies(&near);
            let near_store = near();
            let reader = near_store.read().unwrap();
            let opened = reader.file_of(0).unwrap().unwrap().path().to_owned();
            assert_eq!(opened, if opens { copy.clone() } else { first.clone() }, "{what}");
            for _ in 0..2 {
                assert_eq!(reader.contains_batch(&asked).unwrap(), exact, "{what}");
            }
            assert_eq!(reader.file_of(0).unwrap().unwrap().path(), first, "{what}");
            assert_eq!(near_store.take_refused_copies(), std::slice::from_ref(&copy), "{what}");
            assert!(near_store.take_refused_copies().is_empty());
            // Single lookups, and counts.
            let reader = near().read().unwrap();
            assert!(asked.iter().zip(&exact).all(|(key, exact)| reader.contains(key).unwrap() == *exact));
            let reader = near().read().unwrap();
            assert!(asked.iter().zip(&exact).all(|(key, exact)| (reader.count(key).unwrap() > 0) == *exact));
            assert!(
                reader.verify(&|_, _| {}).unwrap().iter().all(|(_, told)| told.as_ref().unwrap().is_clean())
            );
            // An update also starts from the store's file.
            let near_store = near();
            let mut update = near_store.update().unwrap();
            let inserted = update.insert_batch(&asked).unwrap();
            assert!(inserted.refused().is_empty());
            assert!(inserted.mask().iter().zip(&exact).all(|(new, exact)| new != exact), "{what}");
            assert_eq!(near_store.take_refused_copies(), std::slice::from_ref(&copy), "{what}");
        }
    }
    // If the store's file is damaged too, the error names that file.
    std::fs::write(&copy, &in_pages).unwrap();
    std::fs::write(&first, &in_pages).unwrap();
    let reader = store.clone().copies(&near).read().unwrap();
    let error = reader.contains_batch(&asked).unwrap_err();
    assert!(error.to_string().contains(first.to_str().unwrap()), "{error}");
}

#[test]
fn an_update_whose_working_copies_were_vacuumed_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 2);
    let mut update = store.update().unwrap().rewriting();
    assert!(update.insert_batch(&keys(0..10)).unwrap().refused().is_empty());
    store.update().unwrap().commit("nothing", Some(Token::new("other", 1))).unwrap();
    store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
    let error = update.commit("insert", None).unwrap_err();
    assert!(matches!(error, Error::Expired { base: 1, .. }), "{error:?}");
}

#[test]
fn the_version_before_a_token_is_the_one_that_its_first_attempt_saw() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 4);
    let token = |number: u64, keys: &[[u8; 8]]| {
        let mut update = store.update_of(store.before("crawl", number).unwrap()).rewriting();
        update.insert_batch(keys).unwrap().complete().unwrap();
        update.commit("dedup", Some(Token::new("crawl", number))).unwrap()
    };
    assert_eq!(store.before("crawl", 1).unwrap().number, 1);
    assert!(matches!(token(1, &keys(0..10)), Committed::New(version) if version.number == 2));
    insert(&store, &keys(100..110));
    assert!(matches!(token(4, &keys(10..20)), Committed::New(version) if version.number == 4));
    insert(&store, &keys(110..120));
    for (number, before) in [(0, 1), (1, 1), (2, 3), (4, 3), (5, 5)] {
        assert_eq!(store.before("crawl", number).unwrap().number, before, "{number}");
    }
    assert_eq!(store.before("other", 1).unwrap().number, 5);
    // The repeated token changes nothing, and leaves no file.
    let files = || crate::files_of(&store).into_iter().filter(|file| file.starts_with("shards")).count();
    let before = files();
    match token(4, &keys(10..20)) {
        Committed::Already(done) => assert_eq!((done.number, done.version, done.base), (4, 4, 3)),
        outcome => panic!("{outcome:?}"),
    }
    assert_eq!(store.newest().unwrap().number, 5);
    assert_eq!(store.newest().unwrap().entries(), 40);
    assert!(before > 8 && files() == before);
    // A vacuum that keeps four versions keeps those that the answers need.
    store.vacuum(&Vacuum::default().keep(4).grace(Duration::ZERO)).unwrap();
    assert_eq!(store.before("crawl", 4).unwrap().number, 3);
    store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
    // A vacuum that keeps no older versions leaves only the one before the last token.
    assert_eq!(store.before("crawl", 4).unwrap().number, 3);
    assert!(matches!(store.before("crawl", 1), Err(Error::NoSuchVersion { number: 1, .. })));
    assert_eq!(store.before("crawl", 5).unwrap().number, store.newest().unwrap().number);
}

#[test]
fn commits_are_rebased_or_told_of_a_conflict() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 2);
    let of = |shard: u32| -> Vec<[u8; 8]> {
        let is_there = |key: &[u8; 8]| store.description().shard_of(store.hash(key).unwrap()) == shard;
        keys(0..100).into_iter().filter(is_there).collect()
    };
    let (one, two) = (of(0), of(1));
    let update = |keys: &[[u8; 8]]| {
        let mut update = store.update().unwrap().rewriting();
        update.insert_batch(keys).unwrap().complete().unwrap();
        update
    };
    let (first, other, same) = (update(&one[..5]), update(&two[..5]), update(&one[5..6]));
    first.commit("insert", None).unwrap();
    let Committed::New(version) = other.commit("insert", None).unwrap() else { panic!("not new") };
    assert_eq!((version.number, version.base), (3, 1));
    let error = same.commit("insert", None).unwrap_err();
    assert!(matches!(error, Error::Conflict { shard: 0, base: 1, version: 2, .. }), "{error:?}");
    let reader = store.read().unwrap();
    assert!(one[..5].iter().chain(&two[..5]).all(|key| reader.contains(key).unwrap()));
    assert!(!reader.contains(&one[5]).unwrap());
    // Tries an update with a removal, and one without changes.
    let mut update = store.update().unwrap().rewriting();
    let removed = update.remove_batch(&[one[0], one[7], two[0]]).unwrap();
    assert_eq!(removed, [true, false, true]);
    update.commit("remove", None).unwrap();
    assert_eq!(store.newest().unwrap().entries(), 8);
    assert_eq!(store.update().unwrap().commit("insert", None).unwrap(), Committed::Unchanged);
    // An update whose base was vacuumed.
    let stale = {
        let mut update = store.update().unwrap().rewriting();
        update.insert_batch(&two[7..8]).unwrap().complete().unwrap();
        update.seal().unwrap()
    };
    let base = stale[0].base();
    let text = toml::to_string(&stale[0]).unwrap();
    let stale: Vec<gowk::store::Sealed> = vec![toml::from_str(&text).unwrap()];
    insert(&store, &one[8..9]);
    store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
    let change = gowk::store::Change { base, operation: "insert".to_owned(), token: None, sealed: stale };
    let error = store.commit(&change).unwrap_err();
    assert!(matches!(error, Error::Expired { base: 4, fence: 6, .. }), "{error:?}");
}

/// How many of these files, or of their copies in the cache, this process has mapped.
fn mapped<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    files.into_iter().filter(|file| maps.contains(file.file_name().unwrap().to_str().unwrap())).count()
}

fn files_of_shards(store: &Store) -> Vec<PathBuf> {
    let version = store.newest().unwrap();
    version.shards.iter().map(|(shard, file)| store.file_path(*shard, file)).collect()
}

#[test]
fn files_of_an_update_stay_open_for_the_next_until_a_vacuum() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 4);
    insert(&store, &keys(0..100));
    let files = files_of_shards(&store);
    assert_eq!((files.len(), mapped(&files)), (4, 0));
    // For known keys, and for new ones. Of 4 shards, 100 keys miss one once in 10^12 stores.
    for keys in [keys(0..100), keys(100..200)] {
        let update = crate::update(&store, &keys);
        assert_eq!(mapped(&files), 4);
        update.commit("insert", None).unwrap();
        assert_eq!(mapped(&files), 4);
    }
    drop(crate::update(&store, &keys(200..300)));
    assert_eq!(mapped(&files), 0);
    crate::update(&store, &keys(200..300)).commit("insert", None).unwrap();
    assert_eq!(mapped(&files), 4);
    store.clone().vacuum(&Vacuum::default()).unwrap();
    assert_eq!(mapped(&files), 0);
}

#[test]
fn an_update_reads_what_was_put_right_after_one_that_failed() {
    if crate::needs_a_folder("changes bytes under a map") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let store = crate::store(&dir, 1, &crate::options().capacity(100_000));
    insert(&store, &keys(0..100_000));
    let file = files_of_shards(&store).remove(0);
    // This opens the file.
    crate::update(&store, &keys(0..1)).commit("insert", None).unwrap();
    let (good, whole) = (dir.path().join("good"), std::fs::read(&file).unwrap());
    std::fs::write(&good, &whole).unwrap();
    let mut damaged = whole;
    in_each_page(&file).into_iter().for_each(|at| damaged[at] ^= 0x40);
    std::fs::write(&file, damaged).unwrap();
    let mut failing = store.update().unwrap();
    assert!(failing.insert_batch(&keys(0..1000)).unwrap_err().to_string().contains("damaged"));
    drop(failing);
    std::fs::rename(good, &file).unwrap();
    let mut next = store.update().unwrap();
    assert_eq!(next.insert_batch(&keys(0..1000)).unwrap().complete().unwrap(), 0);
}
