//! Invariants checked, of folds that are made by other processes than the one that publishes them:
//!
//! 1. A commit of a store that does not fold leaves its shards due. Folds of them, sent as text, are published together,
//!    and the store answers as before.
//! 2. A fold of a shard that others have rewritten or folded meanwhile is left out; the other shards' folds count.
//! 3. A fold is not taken for an update's file, nor the other way round; nothing is published then.
//! 4. Runs of more tasks than a process may open files become one run.

use std::process::Command;
use std::time::Duration;

use gowk::store::{Change, Committed, Error, Sealed, Store, Vacuum};
use gowk::{Batches, Lookup};

use crate::{keys, options, store};

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

/// As a task sends it to the driver.
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
    // Once more, it changes nothing.
    assert_eq!(store.commit_folds(&folds).unwrap().version, None);
    assert_eq!(store.commit_folds(&[]).unwrap().version, None);
    // The same commits by a store that folds leave nothing due.
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
    // A vacuum has given up what a fold is based on.
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

/// In a process that may open 300 files.
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
