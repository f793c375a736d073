//! Invariants checked, for stores whose commits write runs:
//!
//! 1. A version answers like a map of its keys, whatever was committed, folded, merged and vacuumed, and in whatever
//!    order. An older version still gives its own answers.
//! 2. At most one commit calls a key new. Commits with different keys all succeed, whoever folds, merges or rewrites
//!    shards in between.
//! 3. A fold or merge that others have overtaken gives way, and nothing is lost or counts twice.
//! 4. A commit of few keys writes little, a version names few runs, and a store that was filled by many commits has the
//!    false positives of one that was filled at once.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use gowk::store::{Change, Committed, Error, Sealed, Store, StoreReader, Token, Update, Vacuum};
use gowk::{Batches, Growth, Lookup, Options, SlotsPerBucket};

use crate::images::{Random, is_tidy};
use crate::{Key, keys, options, quiet, store, thorough, update};

fn insert(store: &Store, keys: &[Key]) -> u64 {
    match update(store, keys).commit("insert", None).unwrap() {
        Committed::New(version) => version.number,
        outcome => panic!("{outcome:?}"),
    }
}

fn vacuum(store: &Store) {
    store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
    is_tidy(store).unwrap();
}

fn holds(store: &Store, keys: &[Key]) {
    holds_in(&store.read().unwrap(), keys);
}

fn holds_in(reader: &StoreReader, keys: &[Key]) {
    let found = reader.contains_batch(keys).unwrap();
    assert!(found.iter().all(|found| *found));
}

#[test]
fn a_small_commit_writes_one_run_and_a_fold_puts_it_into_files() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 16, &options());
    insert(&store, &keys(0..1000));
    let mut reader = store.read().unwrap();
    let info = reader.info();
    assert_eq!((info.files, info.runs, info.pending, info.entries), (0, 1, 1000, 1000));
    // Three pages of records, one of the index, and the head.
    assert_eq!((info.run_bytes, info.bytes), (5 * 4096, 5 * 4096));
    assert_eq!(reader.filter_info().unwrap().entries, 1000);
    let before = reader.clone();
    holds_in(&before, &keys(0..1000));
    let told = store.compact(false, &quiet).unwrap();
    assert_eq!((told.version, told.folded), (None, 0), "nothing is due");
    let told = store.compact(true, &quiet).unwrap();
    assert_eq!((told.version, told.folded, told.full), (Some(3), 16, 0));
    assert!(reader.reload().unwrap());
    let info = reader.info();
    assert_eq!((info.files, info.runs, info.pending, info.entries), (16, 0, 0, 1000));
    vacuum(&store);
    for reader in [&before, &reader] {
        let found = reader.contains_batch(&keys(0..3000)).unwrap();
        assert!((0..3000).all(|at| found[at] == (at < 1000)));
    }
    // All of them are known, so nothing is written.
    assert_eq!(update(&store, &keys(0..1000)).commit("insert", None).unwrap(), Committed::Unchanged);
}

/// What a store should hold.
#[derive(Clone, Default)]
struct Model(HashMap<u64, u32>);

impl Model {
    fn check(&self, store: &Store, version: &gowk::store::Version, asked: u64) {
        let reader = store.read_version(version.clone());
        let all = keys(0..asked);
        let found = reader.contains_batch(&all).unwrap();
        for (number, (key, found)) in (0..).zip(all.iter().zip(found)) {
            let copies = self.0.get(&number).copied().unwrap_or(0);
            assert_eq!(found, copies > 0, "key {number} of version {}", version.number);
            if number % 7 == version.number % 7 {
                assert_eq!(reader.contains(key).unwrap(), copies > 0);
                assert_eq!(reader.count(key).unwrap(), copies, "key {number}");
            }
        }
    }
}

fn any_order(options: &Options, seed: u64, steps: usize) {
    const KEYS: u64 = 600;
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 3, options);
    let is_counting = store.description().kind == gowk::Kind::Counting;
    let mut random = Random(seed);
    let mut model = Model::default();
    let mut old = Vec::new();
    for step in 0..steps {
        match random.below(if is_counting { 9 } else { 7 }) {
            0..=3 => {
                let mut update = store.update().unwrap();
                if random.below(6) == 0 {
                    update = update.rewriting();
                }
                for _ in 0..=random.below(2) {
                    let count = 1 + random.below(60);
                    let batch: Vec<u64> = (0..count).map(|_| random.below(KEYS as usize) as u64).collect();
                    let bytes: Vec<Key> = batch.iter().map(|number| number.to_le_bytes()).collect();
                    let new = update.insert_batch(&bytes).unwrap().mask();
                    for (number, new) in batch.iter().zip(new) {
                        let copies = model.0.entry(*number).or_default();
                        assert_eq!(new, *copies == 0, "seed {seed}, step {step}, key {number}");
                        *copies = if is_counting { *copies + 1 } else { 1 };
                    }
                }
                update.commit("insert", None).unwrap();
            }
            4 => drop(store.compact(true, &quiet).unwrap()),
            5 => {
                vacuum(&store);
                old.clear();
            }
            6 => {
                let newest = store.newest().unwrap();
                old.push((newest, model.clone()));
            }
            _ => {
                let mut update = store.update().unwrap();
                let batch: Vec<u64> = (0..80).map(|_| random.below(KEYS as usize) as u64).collect();
                let bytes: Vec<Key> = batch.iter().map(|number| number.to_le_bytes()).collect();
                let removed = update.remove_batch(&bytes).unwrap();
                for (number, removed) in batch.iter().zip(removed) {
                    let copies = model.0.entry(*number).or_default();
                    assert_eq!(removed, *copies > 0, "seed {seed}, step {step}, key {number}");
                    *copies = copies.saturating_sub(1);
                }
                update.commit("remove", None).unwrap();
            }
        }
        let newest = store.newest().unwrap();
        assert!(newest.runs.len() <= 8, "{} runs", newest.runs.len());
        if step % 4 == 0 {
            model.check(&store, &newest, KEYS + 50);
            old.iter().for_each(|(version, model)| model.check(&store, version, KEYS + 50));
        }
    }
    store.compact(true, &quiet).unwrap();
    let newest = store.newest().unwrap();
    assert!(newest.runs.is_empty());
    model.check(&store, &newest, KEYS + 50);
    let joined = dir.path().join("joined");
    store.read().unwrap().join_to(&joined, &quiet).unwrap();
}

#[test]
fn a_set_answers_as_a_map_does_in_any_order() {
    for seed in 0..thorough::size("seeds", 3, 60) {
        any_order(&options(), thorough::seed(seed), 60);
    }
}

#[test]
fn a_counting_store_answers_as_a_map_does_in_any_order() {
    for seed in 0..thorough::size("seeds", 3, 60) {
        any_order(&options().counting(), thorough::seed(seed), 60);
    }
}

#[test]
fn a_join_folds_what_is_pending_and_changes_no_store() {
    for options in [options(), options().counting()] {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir, 4, &options);
        insert(&store, &keys(0..400));
        store.compact(true, &quiet).unwrap();
        insert(&store, &keys(200..700));
        let (before, reader) = (store.newest().unwrap(), store.read().unwrap());
        let joined = dir.path().join("joined");
        reader.join_to(&joined, &quiet).unwrap();
        assert_eq!((store.newest().unwrap(), before.runs.len()), (before, 1));
        let joined = Options::new().read(&joined).unwrap();
        for key in keys(0..1000) {
            assert_eq!(joined.count(key).unwrap(), reader.count(key).unwrap());
        }
        assert!(joined.verify(&quiet).unwrap().is_clean());
    }
}

/// What others do between the judgement of a commit and the commit itself.
type Meanwhile = fn(&Store);

const MEANWHILE: [(&str, Meanwhile); 5] = [
    ("nothing", |_| {}),
    ("a run", |store| {
        insert(store, &keys(5000..5100));
    }),
    ("a fold", |store| {
        insert(store, &keys(5000..5100));
        store.compact(true, &quiet).unwrap();
    }),
    ("a merge", |store| merged(store, 6000)),
    ("rewritten shards", |store| {
        let mut update = store.update().unwrap().rewriting();
        update.insert_batch(&keys(5000..5100)).unwrap().complete().unwrap();
        update.commit("insert", None).unwrap();
    }),
];

/// Enough commits that their runs are merged with the previous one.
fn merged(store: &Store, first: u64) {
    for round in 0..12 {
        insert(store, &keys(first + 40 * round..first + 40 * round + 40));
    }
}

#[test]
fn commits_of_different_keys_rebase_and_a_key_is_new_once() {
    for options in [options(), options().counting()] {
        for (what, meanwhile) in MEANWHILE {
            let dir = tempfile::tempdir().unwrap();
            let store = store(&dir, 4, &options);
            insert(&store, &keys(0..100));
            let (first, other, same) = (
                update(&store, &keys(1000..1200)),
                update(&store, &keys(2000..2200)),
                update(&store, &keys(1190..1300)),
            );
            meanwhile(&store);
            assert!(matches!(first.commit("insert", None).unwrap(), Committed::New(_)), "{what}");
            meanwhile_again(&store, what);
            let outcome = other.commit("insert", None);
            assert!(matches!(outcome, Ok(Committed::New(_))), "{what}: {outcome:?}");
            match same.commit("insert", None) {
                Err(error @ Error::Conflict { keys: 10, base: 2, .. }) => {
                    assert!(error.to_string().contains("10 keys"), "{error}");
                }
                outcome => panic!("{what}: {outcome:?}"),
            }
            // Judged again, ten of the keys are known.
            let mut again = store.update().unwrap();
            let new = again.insert_batch(&keys(1190..1300)).unwrap().new_keys();
            assert_eq!(new, 100, "{what}");
            again.commit("insert", None).unwrap();
            let all = [keys(0..100), keys(1000..1300), keys(2000..2200)].concat();
            holds(&store, &all);
            store.compact(true, &quiet).unwrap();
            holds(&store, &all);
            vacuum(&store);
            holds(&store, &all);
        }
    }
}

/// Repeats the fold or the merge, so that it also comes between the two other steps.
fn meanwhile_again(store: &Store, what: &str) {
    match what {
        "a fold" => drop(store.compact(true, &quiet).unwrap()),
        "a merge" => merged(store, 7000),
        _ => {}
    }
}

#[test]
fn a_rewritten_shard_is_in_conflict_with_records_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 2, &options());
    let of = |shard: u32| -> Vec<Key> {
        let is_there = |key: &Key| store.description().shard_of(store.hash(key).unwrap()) == shard;
        keys(0..200).into_iter().filter(is_there).collect()
    };
    let (one, two) = (of(0), of(1));
    insert(&store, &[one[0], two[0]]);
    let rewritten = |keys: &[Key]| {
        let mut update = store.update().unwrap().rewriting();
        update.insert_batch(keys).unwrap().complete().unwrap();
        update
    };
    let (apart, same) = (rewritten(&one[10..20]), rewritten(&two[10..20]));
    insert(&store, &two[20..30]);
    assert!(matches!(apart.commit("insert", None).unwrap(), Committed::New(_)));
    let error = same.commit("insert", None).unwrap_err();
    assert!(matches!(error, Error::Conflict { shard: 1, keys: 0, base: 2, .. }), "{error:?}");
    // The records that were pending when the shard was rewritten are in its file.
    let version = store.newest().unwrap();
    assert_eq!((version.shards[&0].entries, version.shards[&0].folded), (11, 2));
    holds(&store, &[&one[..1], &one[10..20], &two[..1], &two[20..30]].concat());
}

/// Others fold, commit and rewrite after a fold has made its files, and before it publishes them.
#[test]
fn a_fold_that_was_overtaken_gives_way() {
    for options in [options(), options().counting()] {
        for (what, meanwhile) in MEANWHILE {
            let dir = tempfile::tempdir().unwrap();
            let store = store(&dir, 4, &options);
            insert(&store, &keys(0..300));
            let told = store.compact(true, &|done, all| {
                if done == all {
                    meanwhile(&store);
                }
            });
            let told = told.unwrap();
            let expected = match what {
                "nothing" | "a run" => 4,
                _ => 0,
            };
            assert_eq!(told.folded, expected, "{what}");
            let reader = store.read().unwrap();
            for key in keys(0..300) {
                assert_eq!(reader.count(key).unwrap(), 1, "{what}");
            }
            store.compact(true, &quiet).unwrap();
            let reader = store.read().unwrap();
            assert!(keys(0..300).iter().all(|key| reader.count(key).unwrap() == 1), "{what}");
            vacuum(&store);
        }
    }
}

#[test]
fn a_vacuum_keeps_the_runs_of_the_version_before_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 4, &options());
    insert(&store, &keys(0..100));
    let judge = || {
        let mut update = store.update_of(store.before("crawl", 1).unwrap());
        let mask = update.insert_batch(&keys(50..150)).unwrap().mask();
        (mask, update.commit("dedup", Some(Token::new("crawl", 1))).unwrap())
    };
    let (first, _) = judge();
    for round in 0..20 {
        insert(&store, &keys(1000 + 10 * round..1010 + 10 * round));
        if round % 3 == 0 {
            store.compact(true, &quiet).unwrap();
        }
        vacuum(&store);
        let (again, committed) = judge();
        assert_eq!(again, first, "round {round}");
        assert!(matches!(committed, Committed::Already(_)));
    }
}

/// Like tasks that share a commit: each seals its part, and one commits all.
#[test]
fn runs_of_several_tasks_become_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 4, &options());
    let base = store.newest().unwrap();
    let sealed: Vec<Sealed> = (0..5)
        .flat_map(|task| {
            let mut update = store.update_of(base.clone());
            update.insert_batch(&keys(100 * task..100 * task + 100)).unwrap().complete().unwrap();
            update.seal().unwrap()
        })
        .collect();
    assert!(sealed.len() == 5 && sealed.iter().all(|one| one.shard().is_none()));
    let change = Change { base: 1, operation: "insert".to_owned(), token: None, sealed };
    let Committed::New(version) = store.commit(&change).unwrap() else { panic!("not new") };
    assert_eq!((version.runs.len(), version.runs[0].records), (1, 500));
    holds(&store, &keys(0..500));
    vacuum(&store);
    holds(&store, &keys(0..500));
}

/// Records fit where filters are full, up to the number at which a shard would be rewritten. Nothing is lost.
#[test]
fn a_store_that_must_not_grow_refuses_keys_and_keeps_those_it_took() {
    let dir = tempfile::tempdir().unwrap();
    let options =
        Options::new().capacity(1000).seed(1).growth(Growth::Never).slots_per_bucket(SlotsPerBucket::Two);
    let store = store(&dir, 1, &options);
    let (mut taken, mut next, mut refused) = (Vec::new(), 0, 0);
    while refused < 20_000 && next < 80_000 {
        let batch = keys(next..next + 4000);
        let mut update = store.update().unwrap();
        let inserted = update.insert_batch(&batch).unwrap();
        let refusals: Vec<usize> = inserted.into_refused().into_iter().map(|(at, _)| at).collect();
        refused += refusals.len();
        taken.extend((0..batch.len()).filter(|at| refusals.binary_search(at).is_err()).map(|at| batch[at]));
        update.commit("insert", None).unwrap();
        next += 4000;
    }
    assert!(refused >= 20_000, "{refused}");
    holds(&store, &taken);
    // One region of two slots a bucket, and twice 8192 records.
    assert!((13_000..3 * 16_384).contains(&taken.len()), "{}", taken.len());
    let told = store.compact(true, &quiet).unwrap();
    assert!(told.full + told.folded <= 1);
    holds(&store, &taken);
}

#[test]
fn many_commits_have_the_false_positives_of_one() {
    let dir = tempfile::tempdir().unwrap();
    let four = Options::new().capacity(200_000).seed(5).slots_per_bucket(SlotsPerBucket::Four).threads(2);
    let store = store(&dir, 4, &four);
    let (count, commits) = (200_000, thorough::size("commits", 50, 1000));
    for commit in 0..commits {
        let part = count / commits;
        insert(&store, &keys(part * commit..part * (commit + 1)));
        assert!(store.newest().unwrap().runs.len() <= 8);
    }
    let newest = store.newest().unwrap();
    assert!(newest.shards.len() == 4, "shards are folded as commits come");
    store.compact(true, &quiet).unwrap();
    let once = Store::create(dir.path().join("once"), 4, &four).unwrap();
    let mut update = once.update().unwrap().rewriting();
    update.insert_batch(&keys(0..count)).unwrap().complete().unwrap();
    update.commit("insert", None).unwrap();
    let absent = keys(1 << 40..(1 << 40) + 2_000_000);
    let wrong = |store: &Store| {
        let found = store.read().unwrap().contains_batch(&absent).unwrap();
        found.iter().filter(|found| **found).count()
    };
    holds(&store, &keys(0..count));
    let (many, one) = (wrong(&store), wrong(&once));
    println!("{many} false positives after {commits} commits, {one} after one");
    assert!((many as f64 - one as f64).abs() < 5.0 * (one as f64).sqrt() + 5.0);
}

/// Keys of one shard.
fn of_shard(store: &Store, shard: u32, range: std::ops::Range<u64>) -> Vec<Key> {
    let is_there = |key: &Key| store.description().shard_of(store.hash(key).unwrap()) == shard;
    keys(range).into_iter().filter(is_there).collect()
}

fn removing(store: &Store, keys: &[Key]) -> Update {
    let mut update = store.update().unwrap();
    assert!(update.remove_batch(keys).unwrap().into_iter().all(|removed| removed));
    update
}

/// A merge leaves no record of a key whose copies came and went. An update that judged the key before must not mistake
/// that for no change.
#[test]
fn what_a_merge_has_cancelled_is_in_conflict_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 2, &options().counting());
    let (own, other) = (of_shard(&store, 0, 0..100), of_shard(&store, 1, 0..400));
    insert(&store, &own[..1]);
    let removed = removing(&store, &own[..1]);
    let mut rewritten = store.update().unwrap().rewriting();
    rewritten.insert_batch(&own[1..2]).unwrap().complete().unwrap();
    let fold = store.fold_shard(&store.newest().unwrap(), 0, None).unwrap().unwrap();
    removing(&store, &own[..1]).commit("remove", None).unwrap();
    other.chunks(9).take(12).for_each(|keys| {
        insert(&store, keys);
    });
    let records = |store: &Store| store.newest().unwrap().runs.iter().map(|run| run.records).sum::<u64>();
    assert_eq!(records(&store), 108, "no record of the key is left");
    for update in [removed, rewritten] {
        let outcome = update.commit("test", None);
        assert!(matches!(outcome, Err(Error::Conflict { shard: 0, .. })), "{outcome:?}");
    }
    assert_eq!(store.commit_folds(&[fold]).unwrap().folded, 0);
    assert_eq!(store.read().unwrap().count(own[0]).unwrap(), 0);
    insert(&store, &own[..1]);
    assert_eq!(store.read().unwrap().count(own[0]).unwrap(), 1);
    store.compact(true, &quiet).unwrap();
    assert_eq!(store.read().unwrap().count(own[0]).unwrap(), 1);
}

#[test]
fn a_fold_of_records_that_were_cancelled_gives_way() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 1, &options().counting());
    insert(&store, &keys(0..1));
    let fold = store.fold_shard(&store.newest().unwrap(), 0, None).unwrap().unwrap();
    for _ in 1..8 {
        insert(&store, &keys(0..1));
    }
    removing(&store, &[keys(0..1)[0]; 8]).commit("remove", None).unwrap();
    assert!(store.newest().unwrap().runs.is_empty(), "the merge has left nothing");
    assert_eq!(store.commit_folds(&[fold]).unwrap().version, None);
    assert_eq!(store.read().unwrap().count(keys(0..1)[0]).unwrap(), 0);
}

/// A key may have more copies in runs than a filter counts. All of them can be removed, and no more.
#[test]
fn copies_above_the_highest_count_are_removed_as_often_as_they_came() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 1, &options().counting());
    let (key, highest) = (keys(0..1)[0], SlotsPerBucket::Two.highest_count());
    let came = highest as usize + 500;
    insert(&store, &vec![key; came]);
    assert_eq!(store.read().unwrap().count(key).unwrap(), highest);
    // Both judge by the same base; together they would remove more copies than exist.
    let mut all = store.update().unwrap();
    let removed = all.remove_batch(&vec![key; 2 * came]).unwrap();
    assert_eq!(removed.iter().filter(|removed| **removed).count(), came);
    removing(&store, &[key; 100]).commit("remove", None).unwrap();
    assert_eq!(store.read().unwrap().count(key).unwrap(), highest);
    let outcome = all.commit("remove", None);
    assert!(matches!(outcome, Err(Error::Conflict { keys: 1, .. })), "{outcome:?}");
    removing(&store, &vec![key; came - 100]).commit("remove", None).unwrap();
    assert_eq!(store.read().unwrap().count(key).unwrap(), 0);
    insert(&store, &[key]);
    assert_eq!(store.read().unwrap().count(key).unwrap(), 1);
}

/// A run that some shards have folded counts as far as it is pending for others.
#[test]
fn the_description_counts_what_is_pending() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 3, &options());
    insert(&store, &keys(0..1000));
    let newest = store.newest().unwrap();
    let folds = [0, 2].map(|shard| store.fold_shard(&newest, shard, None).unwrap().unwrap());
    assert_eq!(store.commit_folds(&folds).unwrap().folded, 2);
    insert(&store, &keys(1000..1200));
    let (reader, of_one) = (store.read().unwrap(), of_shard(&store, 1, 0..1000).len() as u64);
    let info = reader.info();
    assert_eq!((info.pending, info.entries, info.runs), (of_one + 200, 1200, 2));
    assert_eq!(reader.version().entries(), 2200 - of_one);
}

/// The sealed files of an update in conflict are removed, and so are those of a fold that was overtaken.
#[test]
fn what_is_not_published_is_removed_by_the_process_that_made_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 2, &options());
    insert(&store, &keys(0..100));
    let files = || {
        let files = crate::files_of(&store);
        let files =
            files.iter().filter(|file| !file.starts_with("versions") && !file.ends_with("store.toml"));
        files.map(|file| file.file_name().unwrap().to_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
    };
    let rewritten = |range| {
        let mut update = store.update().unwrap().rewriting();
        update.insert_batch(&keys(range)).unwrap().complete().unwrap();
        update
    };
    let (records, shards) = (update(&store, &keys(1000..1100)), rewritten(1100..1200));
    insert(&store, &keys(1000..1100));
    for update in [records, shards] {
        let outcome = update.commit("insert", None);
        assert!(matches!(outcome, Err(Error::Conflict { .. })), "{outcome:?}");
    }
    let before = files();
    assert_eq!(before, store.newest().unwrap().runs.iter().map(|run| run.file_name()).collect());
    let told = store.compact(true, &|done, all| {
        if done == all {
            rewritten(5000..5100).commit("insert", None).unwrap();
        }
    });
    assert_eq!(told.unwrap().folded, 0);
    let newest = store.newest().unwrap();
    let others = newest.shards.values().map(|file| file.file_name());
    assert_eq!(files(), before.into_iter().chain(others).collect());
}
