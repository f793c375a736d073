//! Updates with so many records of a shard that the commit would fold it at once (`format-spec/STORE.md`, section 8).
//!
//! Invariants checked:
//!
//! 1. The commit writes the shard's file, and the records of other shards as a run, in one version. It writes only runs
//!    if the store does not fold, or if others have committed since the base.
//! 2. This causes no conflict: if others commit other keys of the shard in between, the records become a run.
//! 3. If the file cannot be written, for lack of room in it or on the disk, the records become a run.
//! 4. No file remains that no version names. Copies, removals and times are those of the records.
//!
//! `killed` dies during such a commit.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use gowk::disk::{Disk, SystemDisk};
use gowk::store::{Committed, Store, Update, Version};
use gowk::{Batches, Growth, Kind, Lookup};

use crate::{Key, files_of, keys, needs_a_folder, options, quiet, store, update};

/// With this many records a shard is folded, whatever number its file draws. An update keeps as many.
const MANY: usize = 8192;

/// This many keys of the first of two shards, and of the second, all at or above `from`.
fn of_shards(store: &Store, from: u64, counts: [usize; 2]) -> Vec<Key> {
    let is_of = |key: &Key, shard| store.description().shard_of(store.hash(key).unwrap()) == shard;
    let of = |shard, count| {
        let all = (from..).map(u64::to_le_bytes);
        all.filter(move |key| is_of(key, shard)).take(count).collect::<Vec<Key>>()
    };
    [of(0, counts[0]), of(1, counts[1])].concat()
}

fn many(store: &Store) -> Vec<Key> {
    of_shards(store, 1 << 20, [MANY, 10])
}

fn new(committed: Committed) -> Version {
    let Committed::New(version) = committed else { panic!("{committed:?}") };
    version
}

/// A way to commit.
type Commit = fn(Update, &(dyn Fn(u64, u64) + Sync)) -> Version;

const COMMITS: [Commit; 2] = [
    |update, progress| new(update.commit_with("insert", None, progress).unwrap()),
    |update, progress| new(update.commit_rebased("insert", None, progress).unwrap().0),
];

/// The shards whose files came with a version, and the number of records in the run that came with it.
fn came(version: &Version) -> (Vec<u32>, u64) {
    let files = version.shards.iter().filter(|(_, file)| file.since == version.number);
    let run = version.runs.last().filter(|run| run.since == version.number);
    (files.map(|(shard, _)| *shard).collect(), run.map_or(0, |run| run.records))
}

fn holds(store: &Store, keys: &[Key]) {
    assert!(store.read().unwrap().contains_batch(keys).unwrap().iter().all(|found| *found));
}

/// Checks that a version names every file of shards and runs.
fn has_no_other_files(store: &Store) {
    let mut named = BTreeSet::new();
    for version in store.log().unwrap() {
        named.extend(version.shards.values().map(|file| file.file_name()));
        named.extend(version.runs.iter().map(|run| run.file_name()));
    }
    let others = files_of(store).into_iter().filter(|file| {
        let name = file.file_name().unwrap().to_str().unwrap();
        !name.ends_with(".toml") && !named.contains(name)
    });
    assert_eq!(others.collect::<Vec<_>>(), <[std::path::PathBuf; 0]>::default());
}

#[test]
fn the_file_comes_with_the_version_and_the_other_records_as_a_run() {
    for commit in COMMITS {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir, 2, &options());
        let all = many(&store);
        let told = Mutex::new(Vec::new());
        let version = commit(update(&store, &all), &|done, of| told.lock().unwrap().push((done, of)));
        assert_eq!((version.number, came(&version)), (2, (vec![0], 10)));
        assert_eq!(store.newest().unwrap().number, 2, "nothing was left to fold");
        assert_eq!(version.shards[&0].entries, MANY as u64);
        assert_eq!(told.into_inner().unwrap(), [(1, 2), (2, 2)]);
        holds(&store, &all);
        // The shard's pending records also go into the file, and the second shard is written because of its own.
        let (few, more) = (of_shards(&store, 0, [5, 0]), of_shards(&store, 1 << 30, [MANY, MANY]));
        assert_eq!(came(&commit(update(&store, &few), &quiet)), (vec![], 5));
        let version = commit(update(&store, &more), &quiet);
        assert_eq!(came(&version), (vec![0, 1], 0));
        assert_eq!(store.newest().unwrap().number, version.number);
        let entries = |shard: u32| version.shards[&shard].entries;
        assert_eq!((entries(0), entries(1)), (2 * MANY as u64 + 5, MANY as u64 + 10));
        [all, few, more].iter().for_each(|keys| holds(&store, keys));
        has_no_other_files(&store);
    }
}

#[test]
fn a_store_that_does_not_fold_and_an_update_on_an_older_version_write_a_run() {
    for commit in COMMITS {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir, 2, &options());
        let all = many(&store);
        let unfolding = store.clone().folding(false);
        assert_eq!(came(&commit(update(&unfolding, &all), &quiet)), (vec![], MANY as u64 + 10));
        // A sealed update may be committed at any later time, so its records become a run.
        assert_eq!(update(&store, &of_shards(&store, 1 << 30, [MANY, 0])).seal().unwrap().len(), 1);
    }
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 2, &options());
    let (all, first) = (many(&store), update(&store, &many(&store)));
    let other = of_shards(&store, 0, [10, 0]);
    update(&store, &other).commit("insert", None).unwrap();
    let told = Mutex::new(Vec::new());
    let version = COMMITS[0](first, &|done, of| told.lock().unwrap().push((done, of)));
    assert_eq!((version.number, came(&version)), (3, (vec![], MANY as u64 + 10)));
    assert_eq!(told.into_inner().unwrap(), [(1, 1)], "it is not tried");
    assert_eq!(store.newest().unwrap().number, 4, "folded after the commit");
    [all, other].iter().for_each(|keys| holds(&store, keys));
}

/// Writing the file takes long, and is wasted if others commit in between: it is not written for the few keys that exceed
/// the limit.
#[test]
fn few_records_beside_many_that_are_pending_become_a_run() {
    for commit in COMMITS {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir, 2, &options());
        let unfolding = store.clone().folding(false);
        let (all, few) = (of_shards(&store, 1 << 20, [MANY, 0]), of_shards(&store, 0, [2000, 0]));
        commit(update(&unfolding, &all), &quiet);
        let version = commit(update(&store, &few), &quiet);
        assert_eq!((version.number, came(&version)), (3, (vec![], 2000)));
        assert_eq!(came(&store.newest().unwrap()), (vec![0], 0), "folded after the commit");
        [all, few].iter().for_each(|keys| holds(&store, keys));
    }
}

/// With equally many pending records, half as many new records suffice.
#[test]
fn what_is_pending_counts_too() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 2, &options());
    let all = of_shards(&store, 1 << 20, [MANY + 2, 0]);
    let (first, second) = all.split_at(MANY / 2 + 1);
    update(&store.clone().folding(false), first).commit("insert", None).unwrap();
    let version = new(update(&store, second).commit("insert", None).unwrap());
    assert_eq!((came(&version), version.shards[&0].entries), ((vec![0], 0), MANY as u64 + 2));
    holds(&store, &all);
}

/// Others insert other keys of the shard between its file and the version.
#[test]
fn what_would_be_a_conflict_for_the_file_is_none_for_the_records() {
    for commit in COMMITS {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir, 2, &options());
        let (all, other) = (many(&store), of_shards(&store, 0, [10, 0]));
        let has_committed = AtomicBool::new(false);
        let version = commit(update(&store, &all), &|_, _| {
            if !has_committed.swap(true, Ordering::Relaxed) {
                update(&store, &other).commit("insert", None).unwrap();
            }
        });
        assert_eq!((version.number, came(&version)), (3, (vec![], MANY as u64 + 10)));
        [all, other].iter().for_each(|keys| holds(&store, keys));
        has_no_other_files(&store);
    }
}

/// Inserting the same key, however, is a conflict.
#[test]
fn the_same_key_is_in_conflict_or_judged_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 2, &options());
    let all = many(&store);
    let meanwhile = |_: u64, _: u64| {
        let mut update = store.update().unwrap();
        update.insert_batch(&all[..3]).unwrap().complete().unwrap();
        update.commit("insert", None).unwrap();
    };
    let outcome = update(&store, &all).commit_with("insert", None, &meanwhile);
    assert!(matches!(&outcome, Err(gowk::store::Error::Conflict { keys: 3, .. })), "{outcome:?}");
    has_no_other_files(&store);
    let more = of_shards(&store, 1 << 30, [MANY, 10]);
    let has_committed = AtomicBool::new(false);
    let (committed, again) = update(&store, &more)
        .commit_rebased("insert", None, &|_, _| {
            if !has_committed.swap(true, Ordering::Relaxed) {
                update(&store, &more[..7]).commit("insert", None).unwrap();
            }
        })
        .unwrap();
    assert_eq!((again.known(), came(&new(committed))), (7, (vec![], MANY as u64 + 3)));
    holds(&store, &more);
    has_no_other_files(&store);
}

#[test]
fn where_the_shard_has_no_room_the_records_become_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 2, &options().growth(Growth::Never));
    // One region of two slots a bucket takes some 15,000 keys.
    let all = of_shards(&store, 0, [2 * MANY, 10]);
    let (first, second) = all.split_at(MANY);
    assert_eq!(came(&new(update(&store, first).commit("insert", None).unwrap())), (vec![0], 0));
    assert_eq!(
        came(&new(update(&store, second).commit("insert", None).unwrap())),
        (vec![], MANY as u64 + 10)
    );
    holds(&store, &all);
    has_no_other_files(&store);
}

#[test]
fn copies_removals_and_times_are_those_of_the_records() {
    let dir = tempfile::tempdir().unwrap();
    let counting = store(&dir, 2, &options().counting());
    let all = of_shards(&counting, 0, [MANY, 0]);
    let mut update = counting.update().unwrap();
    update.insert_batch(&all[..10]).unwrap().complete().unwrap();
    update.commit("insert", None).unwrap();
    // Ten keys lose their only copy, and ten have two.
    let mut update = counting.update().unwrap();
    assert!(update.remove_batch(&all[..10]).unwrap().iter().all(|removed| *removed));
    update.insert_batch(&all[10..]).unwrap().complete().unwrap();
    update.insert_batch(&all[10..20]).unwrap().complete().unwrap();
    assert_eq!(came(&new(update.commit("insert", None).unwrap())), (vec![0], 0));
    let reader = counting.read().unwrap();
    for (at, key) in all.iter().enumerate() {
        assert_eq!(reader.count(key).unwrap(), if at < 10 { 0 } else { 1 + u32::from(at < 20) }, "{at}");
    }

    let dir = tempfile::tempdir().unwrap();
    let hour = Duration::from_secs(3600);
    let now = Arc::new(AtomicUsize::new(0));
    let clock = now.clone();
    let forgetting = options()
        .forget_after(10 * hour)
        .with_clock(move || UNIX_EPOCH + (500_000 + clock.load(Ordering::Relaxed) as u32) * hour);
    let forgetting = store(&dir, 2, &forgetting);
    assert_eq!(forgetting.description().kind, Kind::Forgetting);
    let all = of_shards(&forgetting, 0, [MANY, 0]);
    let mut update = forgetting.update().unwrap();
    update.insert_batch(&all).unwrap().complete().unwrap();
    assert_eq!(came(&new(update.commit("insert", None).unwrap())), (vec![0], 0));
    now.store(9, Ordering::Relaxed);
    let later = keys(1 << 40..(1 << 40) + 1);
    let update = crate::update(&forgetting, &later);
    update.commit("insert", None).unwrap();
    holds(&forgetting, &all);
    now.store(14, Ordering::Relaxed);
    crate::update(&forgetting, &keys(1 << 41..(1 << 41) + 1)).commit("insert", None).unwrap();
    assert!(forgetting.read().unwrap().contains_batch(&all).unwrap().iter().all(|found| !found));
}

/// A disk without room for the files of shards, or for the first run.
#[derive(Debug, Default)]
struct Full {
    for_shards: AtomicBool,
    for_runs: AtomicUsize,
}

impl Disk for Full {
    fn allocate(&self, file: &File, length: u64) -> io::Result<()> {
        if self.for_shards.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        SystemDisk.allocate(file, length)
    }

    fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        let is_run = path.extension().is_some_and(|extension| extension == "run");
        let left = |left: usize| left.checked_sub(1);
        if is_run && self.for_runs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        SystemDisk.create(path, mode)
    }
}

#[test]
fn where_the_disk_has_no_room_for_the_file_the_records_become_a_run() {
    if needs_a_folder("fails calls to the disk") {
        return;
    }
    for commit in COMMITS {
        for is_run in [false, true] {
            let (dir, disk) = (tempfile::tempdir().unwrap(), Arc::new(Full::default()));
            let store = store(&dir, 2, &options().disk(disk.clone()));
            let all = many(&store);
            let update = update(&store, &all);
            if is_run {
                disk.for_runs.store(1, Ordering::Relaxed);
            } else {
                disk.for_shards.store(true, Ordering::Relaxed);
            }
            assert_eq!(came(&commit(update, &quiet)), (vec![], MANY as u64 + 10), "{is_run}");
            assert_eq!(disk.for_runs.load(Ordering::Relaxed), 0);
            holds(&store, &all);
            has_no_other_files(&store);
        }
    }
}
