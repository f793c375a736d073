//! Invariants checked, for updates that move to a newer version:
//!
//! 1. Exactly the keys that others have inserted since are no longer new. After the commit, a retry with its token that
//!    is judged by its base gets the same answers.
//! 2. Changes that cannot be judged again stay on their base, and their commit is in conflict: rewritten shards,
//!    removals, and keys whose last copy others have removed.
//! 3. An update whose base was given up, or whose token was committed, does not move.

use std::time::Duration;

use gowk::store::{Committed, Error, Store, Token, Vacuum};
use gowk::{Batches, Lookup};

use crate::{Key, keys, options, quiet, store, update};

fn insert(store: &Store, keys: &[Key]) {
    update(store, keys).commit("insert", None).unwrap();
}

/// What others do after they have committed some of the same keys.
type Afterwards = fn(&Store);

const AFTERWARDS: [(&str, Afterwards); 4] = [
    ("nothing", |_| {}),
    ("a fold", |store| {
        store.compact(true, &quiet).unwrap();
    }),
    ("a merge", |store| (0..12).for_each(|round| insert(store, &keys(9000 + 9 * round..9009 + 9 * round)))),
    ("rewritten shards", |store| {
        let mut update = store.update().unwrap().rewriting();
        update.insert_batch(&keys(8000..8100)).unwrap().complete().unwrap();
        update.commit("insert", None).unwrap();
    }),
];

#[test]
fn a_rebased_commit_calls_those_keys_new_that_nobody_else_has_brought() {
    for options in [options(), options().counting()] {
        for (what, afterwards) in AFTERWARDS {
            let dir = tempfile::tempdir().unwrap();
            let store = store(&dir, 4, &options);
            insert(&store, &keys(0..100));
            let mut mine = store.update().unwrap();
            let batch = keys(50..300);
            let first = mine.insert_batch(&batch).unwrap().mask();
            assert_eq!(first.iter().filter(|new| **new).count(), 200);
            insert(&store, &keys(250..400));
            afterwards(&store);
            let newest = store.newest().unwrap();
            let token = Some(Token::new("crawl", 7));
            let (committed, again) = mine.commit_rebased("dedup", token, &quiet).unwrap();
            let Committed::New(version) = committed else { panic!("{what}: {committed:?}") };
            assert_eq!((version.base, again.base(), again.known()), (newest.number, newest.number, 50));
            let is_new = |key: &Key, new: bool| new && !again.has(store.hash(key).unwrap());
            let mask: Vec<bool> = batch.iter().zip(first).map(|(key, new)| is_new(key, new)).collect();
            assert!((0..250).all(|at| mask[at] == (50..200).contains(&at)), "{what}: {mask:?}");
            // All keys are present, each once, or as often as it came.
            let reader = store.read().unwrap();
            for (number, key) in (0..).zip(keys(0..400)) {
                let came =
                    [0..100, 50..300, 250..400].iter().filter(|range| range.contains(&number)).count() as u32;
                let is_set = store.description().kind == gowk::Kind::Set;
                let expected = if is_set { came.min(1) } else { came };
                assert_eq!(reader.count(key).unwrap(), expected, "{what}, key {number}");
            }
            // A retry gets the same answers.
            afterwards(&store);
            store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
            let mut retry = store.update_of(store.before("crawl", 7).unwrap());
            assert_eq!(retry.insert_batch(&batch).unwrap().mask(), mask, "{what}");
            let (committed, again) =
                retry.commit_rebased("dedup", Some(Token::new("crawl", 7)), &quiet).unwrap();
            assert!(
                matches!(&committed, Committed::Already(done) if done.base == again.base()),
                "{what}: {committed:?}"
            );
            assert_eq!(again.known(), 0);
        }
    }
}

/// The caller can check before it commits, and can commit without new keys.
#[test]
fn an_update_moves_by_itself_too() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 4, &options());
    let mut mine = update(&store, &keys(0..100));
    assert_eq!((mine.rebase().unwrap().known(), mine.base().number), (0, 1));
    insert(&store, &keys(90..100));
    let again = mine.rebase().unwrap();
    assert_eq!((again.known(), again.base(), mine.base().number), (10, 2, 2));
    insert(&store, &keys(0..90));
    assert_eq!(mine.rebase().unwrap().known(), 90);
    assert_eq!(mine.touched(), 0);
    assert_eq!(mine.insert_batch(&keys(0..101)).unwrap().new_keys(), 1);
    let (committed, again) = mine.commit_rebased("insert", None, &quiet).unwrap();
    assert!(matches!(committed, Committed::New(_)) && again.known() == 0);
    let mut mine = update(&store, &keys(200..201));
    insert(&store, &keys(200..201));
    assert_eq!(mine.rebase().unwrap().known(), 1);
    assert_eq!(mine.commit("insert", None).unwrap(), Committed::Unchanged);
}

#[test]
fn what_cannot_be_judged_again_stays_on_its_base() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 4, &options().counting());
    insert(&store, &keys(0..100));
    let mut rewritten = store.update().unwrap().rewriting();
    rewritten.insert_batch(&keys(100..110)).unwrap().complete().unwrap();
    let mut removed = store.update().unwrap();
    assert!(removed.remove_batch(&keys(0..10)).unwrap().iter().all(|removed| *removed));
    let mut of_gone = update(&store, &keys(20..30));
    insert(&store, &keys(0..110));
    let mut last = store.update().unwrap();
    for _ in 0..2 {
        assert_eq!(last.remove_batch(&keys(25..27)).unwrap(), [true, true]);
    }
    last.commit("remove", None).unwrap();
    for update in [&mut rewritten, &mut removed] {
        assert_eq!((update.rebase().unwrap().known(), update.base().number), (0, 2));
    }
    let error = of_gone.rebase().unwrap_err();
    assert!(matches!(error, Error::Conflict { keys: 2, base: 2, version: 4, .. }), "{error:?}");
    assert_eq!(of_gone.base().number, 2);
    for update in [rewritten, removed, of_gone] {
        let error = update.commit_rebased("test", None, &quiet).unwrap_err();
        assert!(matches!(error, Error::Conflict { base: 2, .. }), "{error:?}");
    }
    assert_eq!(store.newest().unwrap().number, 4);
}

#[test]
fn an_update_that_was_given_up_or_committed_before_moves_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 4, &options());
    let token = || Some(Token::new("crawl", 1));
    let mut mine = update(&store, &keys(0..10));
    let same = update(&store, &keys(0..10));
    same.commit("insert", token()).unwrap();
    let (committed, again) = update(&store, &keys(5..15)).commit_rebased("insert", token(), &quiet).unwrap();
    assert!(
        matches!(&committed, Committed::Already(done) if done.base == 1) && again.base() == 2,
        "{committed:?}"
    );
    store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
    let error = mine.rebase().unwrap_err();
    assert!(matches!(error, Error::Expired { base: 1, .. }), "{error:?}");
    let error = mine.commit_rebased("insert", None, &quiet).unwrap_err();
    assert!(matches!(error, Error::Expired { base: 1, .. }), "{error:?}");
}

#[test]
fn an_update_of_the_oldest_version_that_a_vacuum_has_left_can_move() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir, 2, &options());
    insert(&store, &keys(0..10));
    store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
    let newest = store.newest().unwrap();
    assert_eq!(newest.fence, newest.number);
    let mut mine = update(&store, &keys(10..20));
    insert(&store, &keys(15..30));
    let again = mine.rebase().unwrap();
    assert_eq!((again.base(), again.known()), (newest.number + 1, 5));
}
