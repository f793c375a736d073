//! Invariants checked, for folds that other processes make than the one that publishes them:
//!
//! 1. A commit of a store that does not fold leaves its shards due. Folds of them, sent as text, are published together,
//!    and the store answers as before.
//! 2. A fold of a shard that others have since rewritten or folded is left out; the folds of other shards count.
//! 3. A fold is not accepted as an update's file, or the other way round; nothing is published then.
//! 4. Runs of more tasks than a process may open files become one run.

use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use gowk::store::{Change, Committed, Error, Sealed, Store, Update, Vacuum};
use gowk::{Batches, Growth, Lookup};

use crate::{Key, bytes_of, files_of, keys, options, put, store, with_damaged_region};

fn sealed(store: &Store, range: std::ops::Range<u64>, rewrites: bool) -> Vec<Sealed> {
    let update = store.update().unwrap();
    let mut update = if rewrites { update.rewriting() } else { update };
    update.insert_batch(&keys(range)).unwrap().complete().unwrap();
    update.seal().unwrap()
}

fn change(base: u64, sealed: Vec<Sealed>) -> Change {
    Change { base, operation: "insert".to_owned(), token: None, sealed }
}

fn insert(store: &Store, range: std::ops::Range<u64>) {
    let base = store.newest().unwrap().number;
    let outcome = store.commit(&change(base, sealed(store, range, false))).unwrap();
    assert!(matches!(outcome, Committed::New(_)));
}

fn holds(store: &Store, count: u64) {
    let found = store.read().unwrap().contains_batch(&keys(0..count + 1000)).unwrap();
    assert!((0..).zip(found).all(|(key, found)| found == (key < count)));
}

/// The fold as the driver gets it from a task: converted to text and back.
fn sent(sealed: &Sealed) -> Sealed {
    serde_json::from_str(&serde_json::to_string(sealed).unwrap()).unwrap()
}

#[test]
fn shards_folded_elsewhere_are_published_together() {
    let dir = tempfile::tempdir().unwrap();
    let (folding, store) = (store(&dir, 2, &options()), created_again(&dir).folding(false));
    for step in 0..2 {
        insert(&store, 12_000 * step..12_000 * (step + 1));
    }
    let base = store.newest().unwrap();
    assert!(base.shards.is_empty() && base.runs.len() == 2, "{} runs", base.runs.len());
    assert_eq!(store.to_fold(&base, false).unwrap(), [0, 1]);
    let one = |shard| sent(&store.fold_shard(&base, shard, Some(dir.path())).unwrap().unwrap());
    let folds = [one(0), one(1)];
    let told = store.commit_folds(&folds).unwrap();
    assert_eq!((told.version, told.folded), (Some(base.number + 1), 2));
    assert_eq!(told.bytes, folds.iter().map(Sealed::bytes).sum::<u64>());
    let newest = store.newest().unwrap();
    assert!(newest.runs.is_empty() && newest.shards.len() == 2);
    assert_eq!(store.to_fold(&newest, true).unwrap(), [0; 0]);
    holds(&store, 24_000);
    // A second time, it changes nothing.
    assert_eq!(store.commit_folds(&folds).unwrap().version, None);
    assert_eq!(store.commit_folds(&[]).unwrap().version, None);
    // The same commits by a store that folds leave no shard due.
    (24..50).step_by(13).for_each(|from| insert(&folding, 1000 * from..1000 * (from + 13)));
    assert_eq!(store.to_fold(&store.newest().unwrap(), false).unwrap(), [0; 0]);
    holds(&store, 50_000);
}

fn created_again(dir: &tempfile::TempDir) -> Store {
    Store::open(crate::place(dir)).unwrap()
}

#[test]
fn a_fold_that_was_overtaken_in_one_shard_counts_in_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 3, &options());
    insert(&store, 0..3000);
    let base = store.newest().unwrap();
    let fold = |shard| store.fold_shard(&base, shard, None).unwrap().unwrap();
    let (folds, other) = ([fold(0), fold(1), fold(2)], fold(1));
    assert_eq!(store.commit_folds(&[other]).unwrap().folded, 1);
    insert(&store, 3000..4000);
    assert_eq!(store.commit_folds(&folds).unwrap().folded, 2);
    holds(&store, 4000);
    let newest = store.newest().unwrap();
    assert_eq!(newest.runs.len(), 1, "that of the second commit");
    // A vacuum has given up the base of a fold.
    let late = store.fold_shard(&newest, 0, None).unwrap().unwrap();
    insert(&store, 4000..4100);
    store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
    let told = store.commit_folds(&[late]).unwrap();
    assert_eq!((told.version, told.folded), (None, 0));
    holds(&store, 4100);
}

#[test]
fn folds_and_updates_are_not_taken_for_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 2, &options());
    insert(&store, 0..1000);
    let base = store.newest().unwrap();
    let fold = store.fold_shard(&base, 0, None).unwrap().unwrap();
    let (run, rewritten) = (sealed(&store, 1000..1100, false), sealed(&store, 1000..1100, true));
    let misfit = |kind, outcome: Result<(), Error>| {
        let error = outcome.unwrap_err();
        assert!(matches!(&error, Error::Misfit { what, .. } if *what == kind), "{error}");
    };
    misfit("kind", store.commit(&change(base.number, vec![fold.clone()])).map(drop));
    misfit("kind", store.commit_folds(&run).map(drop));
    misfit("kind", store.commit_folds(&rewritten).map(drop));
    misfit("kind", store.commit_folds(&[fold.clone(), rewritten[1].clone()]).map(drop));
    misfit("file", store.commit_folds(&[fold.clone(), fold]).map(drop));
    assert_eq!(store.newest().unwrap().number, base.number);
    holds(&store, 1000);
}

const FOLDER: &str = "GOWK_FOLDER_OF_MANY_RUNS";

/// Runs in a process that may open 300 files.
#[test]
fn the_runs_of_many_tasks_become_one() {
    const TASKS: u64 = 600;
    if let Some(folder) = std::env::var_os(FOLDER) {
        let store = Store::open(folder).unwrap();
        let base = store.newest().unwrap().number;
        let runs = (0..TASKS).flat_map(|task| sealed(&store, 3 * task..3 * task + 3, false)).collect();
        assert!(matches!(store.commit(&change(base, runs)).unwrap(), Committed::New(_)));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 4, &options());
    let output = Command::new("sh")
        .args([
            "-c",
            "ulimit -n 300 && exec \"$0\" --exact folds::the_runs_of_many_tasks_become_one --nocapture",
        ])
        .arg(std::env::current_exe().unwrap())
        .env(FOLDER, store.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
    let newest = store.newest().unwrap();
    let records: Vec<u64> = newest.runs.iter().map(|run| run.records).collect();
    assert_eq!(records, [3 * TASKS]);
    holds(&store, 3 * TASKS);
}

/// Commits this many more keys, in updates that do not rewrite the shard.
fn pending(store: &Store, counts: &[u64]) {
    let mut first = 0;
    for count in counts {
        insert(store, first..first + count);
        first += count;
    }
}

/// This many keys of one shard.
fn of_shard(store: &Store, shard: u32, count: usize) -> Vec<Key> {
    let is_own = |key: &Key| store.description().shard_of(store.hash(key).unwrap()) == shard;
    keys(0..60_000).into_iter().filter(is_own).take(count).collect()
}

/// Otherwise a batch that reaches all shards would wait for the rewriting of all.
#[test]
fn shards_that_fill_at_the_same_pace_are_not_all_rewritten_by_one_batch() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 4, &options().capacity(100_000).growth(Growth::Never)).folding(false);
    let update = |count| {
        let mut update = store.update().unwrap();
        for shard in 0..4 {
            update.insert_batch(&of_shard(&store, shard, count)).unwrap().complete().unwrap();
        }
        update
    };
    // Two of four shards draw a number in the lower half of the range, and two in the upper. The records of shards that
    // are not rewritten are sealed as one run.
    let half = 8192 + 2048;
    for (count, sealed) in [(8192, 1), (half, 2 + 1), (8192 + 4096, 4)] {
        assert_eq!(update(count).seal().unwrap().len(), sealed, "{count}");
    }
    // The other two are folded after a commit, although they must not grow: no fold has failed yet.
    update(half).commit("insert", None).unwrap();
    let newest = store.newest().unwrap();
    assert_eq!((newest.shards.len(), store.to_fold(&newest, false).unwrap().len()), (2, 2));
}

/// A shard that could not be folded before, and has more records than one update leaves, is not tried again by each
/// commit: it may be full.
#[test]
fn a_shard_is_due_when_enough_is_pending_and_one_that_may_be_full_no_more_after_that() {
    let large = || options().capacity(100_000);
    let may_refuse =
        [large().growth(Growth::Never), large().max_file_size(1 << 30), large().max_false_positive_rate(0.5)];
    for (refuses, options) in
        std::iter::once((false, large())).chain(may_refuse.map(|options| (true, options)))
    {
        for (counts, due, is_tried) in
            [(&[4000][..], false, false), (&[4096, 4096], true, true), (&[7000, 7000], true, !refuses)]
        {
            let dir = tempfile::tempdir().unwrap();
            let store = store(&dir, 1, &options).folding(false);
            pending(&store, counts);
            let newest = store.newest().unwrap();
            let none: &[u32] = &[];
            assert_eq!(store.to_fold(&newest, false).unwrap(), if is_tried { &[0] } else { none });
            assert_eq!(store.to_fold(&newest, true).unwrap(), [0]);
            let told = store.compact(false, &|_, _| {}).unwrap();
            assert_eq!((told.folded, told.full), (u64::from(due), 0), "{counts:?}");
            holds(&store, counts.iter().sum());
        }
    }
}

#[test]
fn only_the_shards_are_due_of_which_enough_is_pending() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 2, &options().capacity(100_000)).folding(false);
    let of_shard = |shard, count| of_shard(&store, shard, count);
    for part in of_shard(1, 10_000).chunks(5000) {
        let mut update = store.update().unwrap();
        update.insert_batch(part).unwrap().complete().unwrap();
        update.insert_batch(&of_shard(0, 100)).unwrap().complete().unwrap();
        update.commit("insert", None).unwrap();
    }
    let newest = store.newest().unwrap();
    assert_eq!(store.to_fold(&newest, false).unwrap(), [1]);
    assert_eq!(store.to_fold(&newest, true).unwrap(), [0, 1]);
}

#[test]
fn a_shard_without_room_stays_pending_and_a_damaged_one_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let full = store(&dir, 1, &options().growth(Growth::Never)).folding(false);
    pending(&full, &[8000, 8000]);
    let newest = full.newest().unwrap();
    assert!(full.fold_shard(&newest, 0, None).unwrap().is_none());
    let told = full.compact(true, &|_, _| {}).unwrap();
    assert_eq!((told.version, told.folded, told.full), (None, 0, 1));

    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 1, &options()).folding(false);
    insert(&store, 0..100);
    store.compact(true, &|_, _| {}).unwrap();
    insert(&store, 100..200);
    let newest = store.newest().unwrap();
    let path = store.file_path(0, &newest.shards[&0]);
    put(&path, &with_damaged_region(&bytes_of(&path)));
    assert!(store.fold_shard(&newest, 0, None).is_err());
    assert!(store.compact(true, &|_, _| {}).is_err());
    assert_eq!(store.newest().unwrap().number, newest.number);
}

/// Its name has the base on which it can be committed, so that no vacuum removes it earlier.
#[test]
fn the_runs_of_several_tasks_become_one_with_the_base_in_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 1, &options());
    (0..4).for_each(|step| insert(&store, 10 * step..10 * step + 10));
    let base = store.newest().unwrap().number;
    let parts = [sealed(&store, 100..110, false), sealed(&store, 110..120, false)].concat();
    let Committed::New(version) = store.commit(&change(base, parts)).unwrap() else { panic!("not new") };
    let run = version.runs.last().unwrap();
    assert!(run.file_name().starts_with(&format!("{base:012}-")), "{}", run.file_name());
}

/// A program that reads only the file would not find the pending records.
#[test]
fn a_filter_of_a_shard_is_given_out_once_nothing_is_pending_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 1, &options());
    assert!(store.read().unwrap().shard(0).unwrap().is_none());
    insert(&store, 0..1);
    let outcome = store.read().unwrap().shard(0).map(|filter| filter.is_some());
    assert!(matches!(outcome, Err(Error::Pending { shard: 0, .. })), "{outcome:?}");
    store.compact(true, &|_, _| {}).unwrap();
    let reader = store.read().unwrap();
    assert!(reader.shard(0).unwrap().unwrap().contains(&keys(0..1)[0]).unwrap());
}

#[test]
fn progress_of_sealing_ends_with_all_files_and_a_commit_that_cannot_be_seals_none() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 2, &options());
    let told = |update: Update| {
        let told = Mutex::new(Vec::new());
        update.seal_with(&|done, all| told.lock().unwrap().push((done, all))).unwrap();
        told.into_inner().unwrap()
    };
    let of_shard = |shard, count| of_shard(&store, shard, count);
    let mut update = store.update().unwrap();
    update.insert_batch(&of_shard(0, 13_000)).unwrap().complete().unwrap();
    update.insert_batch(&of_shard(1, 10)).unwrap().complete().unwrap();
    assert_eq!(told(update), [(1, 2), (2, 2)]);
    let mut update = store.update().unwrap().rewriting();
    update.insert_batch(&of_shard(0, 10)).unwrap().complete().unwrap();
    assert_eq!(told(update), [(1, 1)]);
    let before = files_of(&store);
    let mut update = store.update().unwrap();
    update.insert_batch(&keys(0..10)).unwrap().complete().unwrap();
    let outcome = update.commit(&"o".repeat(300), None);
    assert!(matches!(outcome, Err(Error::Invalid { field: "operation", .. })), "{outcome:?}");
    assert_eq!(files_of(&store), before);
}
