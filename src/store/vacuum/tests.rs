//! Invariants checked: a vacuum keeps a version for its grace, even if one clock is wrong. If a version that should stay
//! is missing, a vacuum ends before it removes anything. The base of an application's last token stays.

use super::super::interrupted::{Operation, Shared};
use super::*;
use crate::store::storage::Storage;
use crate::store::{Committed, Token};

const HOUR: i64 = 3600;

/// A store whose versions were made this many seconds ago.
fn aged(ages: &[i64]) -> Shared {
    let shared = Shared::new();
    let made = |age: i64| {
        let (now, seconds) = (SystemTime::now(), Duration::from_secs(age.unsigned_abs()));
        if age < 0 { now + seconds } else { now.checked_sub(seconds).unwrap() }
    };
    for (number, age) in (FIRST..).zip(ages) {
        if number == FIRST {
            let first = Version { time: made(*age), ..shared.store.newest().unwrap() };
            let text = shared.store.text_of(&first).unwrap();
            shared.memory.replace(&files::version(FIRST), text.as_bytes());
            continue;
        }
        let newest = shared.store.newest().unwrap();
        let next = Version {
            number,
            id: [number as u8; 16],
            time: made(*age),
            operation: "insert".to_owned(),
            base: newest.number,
            ..newest
        };
        assert!(shared.store.try_publish(next, number - 1).unwrap().is_some());
    }
    shared
}

#[test]
fn a_wrong_clock_makes_no_version_old_before_its_grace() {
    let (past, future) = (50 * 365 * 24 * HOUR, -9999 * HOUR);
    for (ages, fence) in [
        (&[5 * HOUR, 4 * HOUR, 3 * HOUR, 0][..], 3),
        (&[5 * HOUR, 4 * HOUR, 3 * HOUR, 2 * HOUR], 4),
        // The clock of the last version but one was wrong: it would make all earlier versions look old.
        (&[0, 0, 0, past, 0], 1),
        (&[past, 0, 0], 1),
        // The version before it was superseded at an unknown time, but not after the next version was made.
        (&[5 * HOUR, 4 * HOUR, past, 60, 0], 2),
        (&[5 * HOUR, 4 * HOUR, past, 2 * HOUR, 0], 4),
        (&[5 * HOUR, 4 * HOUR, future, 3 * HOUR, 0], 4),
        (&[5 * HOUR, future, future, 0], 1),
        (&[future, future], 1),
    ] {
        let shared = aged(ages);
        let vacuum = Vacuum::default().grace(Duration::from_secs(HOUR as u64));
        let limits = shared.store.limits(&shared.store.newest().unwrap(), &vacuum);
        assert_eq!(limits.fence, fence, "{ages:?}");
        shared.store.vacuum(&vacuum).unwrap();
        shared.check().unwrap();
        assert_eq!(shared.store.listed(FIRST).unwrap()[0], fence, "{ages:?}");
        let none = shared.store.limits(&shared.store.newest().unwrap(), &vacuum.grace(Duration::ZERO));
        assert_eq!(none.fence, shared.store.newest().unwrap().number + 1);
    }
}

#[test]
fn a_version_that_should_stay_and_is_not_there_ends_a_vacuum() {
    for (keep, missing) in [(10, 3), (10, 5), (1, 2)] {
        let shared = Shared::new();
        shared.intrude(Operation::Commit(0, None));
        shared.intrude(Operation::Commit(1, Some(1)));
        (0..4).for_each(|_| shared.intrude(Operation::Commit(0, None)));
        shared.memory.delete(&files::version(missing)).unwrap();
        let before = shared.memory.names();
        let outcome = shared.store.vacuum(&Vacuum::default().keep(keep).grace(Duration::ZERO));
        match outcome {
            Err(error @ Error::MissingVersion { newest: 7, .. }) => {
                assert!(error.to_string().contains(&files::version(missing)), "{error}");
            }
            outcome => panic!("{missing}: {outcome:?}"),
        }
        assert_eq!(shared.memory.names(), before);
    }
}

#[test]
fn the_base_of_an_applications_last_token_stays_until_its_next_one() {
    let shared = Shared::new();
    let vacuum = || {
        let told = shared.store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
        shared.check().unwrap();
        told
    };
    shared.intrude(Operation::Commit(0, None));
    let base = shared.store.newest().unwrap();
    let change = shared.change(base.number, 1, Some(Token::new("a", 7)));
    shared.store.commit(&change).unwrap();
    (0..5).for_each(|_| shared.intrude(Operation::Commit(0, None)));
    assert!(vacuum().version.is_some());
    // Repeated vacuums make no version of their own.
    (0..3).for_each(|_| assert_eq!(vacuum().version, None));
    assert_eq!(shared.store.listed(FIRST).unwrap(), [base.number, 9]);
    assert_eq!(shared.store.before("a", 7).unwrap(), base);
    match shared.store.commit(&change).unwrap() {
        Committed::Already(done) => assert_eq!(done.base, base.number),
        outcome => panic!("{outcome:?}"),
    }
    // The next token releases the version and its file.
    let files =
        |shared: &Shared| shared.memory.names().iter().filter(|name| name.starts_with("shards")).count();
    assert_eq!(files(&shared), 3);
    shared.store.update().unwrap().commit("nothing", Some(Token::new("a", 8))).unwrap();
    vacuum();
    assert_eq!(files(&shared), 2);
    assert_eq!(shared.store.listed(FIRST).unwrap(), [9, 11]);
    assert_eq!(shared.store.before("a", 8).unwrap().number, 9);
}

/// Foreign files in each folder are counted, and stay; leftovers of an update beside them are removed.
#[test]
fn files_of_others_are_counted_and_stay() {
    let shared = aged(&[5 * HOUR, 4 * HOUR, 3 * HOUR, 0]);
    let folders = [(files::shard_folder(0), 1), (files::shard_folder(1), 2), (files::RUNS.to_owned(), 4)];
    let folders = folders.into_iter().chain([(files::INCOMING.to_owned(), 8)]);
    let foreign = folders.flat_map(|(folder, count)| (0..count).map(move |n| format!("{folder}/{n}.txt")));
    let mut foreign: Vec<String> = foreign.collect();
    foreign.iter().for_each(|name| shared.memory.put(name, b"of others"));
    let left = &shared.change(1, 0, None).sealed[0];
    let told = shared.store.vacuum(&Vacuum::default().grace(Duration::from_secs(HOUR as u64))).unwrap();
    assert_eq!((told.foreign, told.files, told.bytes > 4), (15, 1, true), "{told:?}");
    let names = shared.memory.names();
    assert!(!names.contains(&files::shard(0, &left.name())));
    foreign.retain(|name| !names.contains(name));
    assert_eq!(foreign, [""; 0]);
}

/// A vacuum judges the age of versions by their times. Two committers on one version have separate drafts.
#[test]
fn each_version_says_when_it_was_made_and_on_what() {
    let (hour, years) = (Duration::from_secs(HOUR as u64), 20 * 365 * 24 * HOUR);
    let shared = aged(&[years]);
    let change = shared.change(1, 0, None);
    shared.intrude(Operation::Commit(1, None));
    assert!(matches!(shared.store.commit(&change).unwrap(), Committed::New(_)));
    shared.store.publish_upkeep(1, "merge", |newest| Ok(Some(newest.clone()))).unwrap().unwrap();
    let mut versions: Vec<Version> = (2..=4).map(|number| shared.store.version(number).unwrap()).collect();
    shared.store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
    versions.push(shared.store.newest().unwrap());
    let told: Vec<_> = versions.iter().map(|version| (version.operation.as_str(), version.base)).collect();
    assert_eq!(told, [("insert", 1), ("insert", 1), ("merge", 1), (VACUUM, 4)]);
    let now = SystemTime::now();
    for version in &versions {
        assert!(now.duration_since(version.time).is_ok_and(|age| age < hour), "{version:?}");
    }
    assert_eq!(versions.iter().map(|version| version.id).collect::<BTreeSet<_>>().len(), 4);
}

/// Their time and base are not those of the version below, which may be old.
#[test]
fn upkeep_and_a_vacuum_have_a_time_and_a_base_of_their_own() {
    let (hour, years) = (Duration::from_secs(HOUR as u64), 20 * 365 * 24 * HOUR);
    let is_young = |version: &Version| version.time.elapsed().is_ok_and(|age| age < hour);
    let shared = aged(&[years; 3]);
    assert!(!is_young(&shared.store.newest().unwrap()));
    let merged = shared.store.publish_upkeep(1, "merge", |newest| Ok(Some(newest.clone()))).unwrap().unwrap();
    assert!(is_young(&merged));
    assert_eq!((merged.number, merged.base), (4, 1));
    let shared = aged(&[years; 3]);
    shared.store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
    let vacuumed = shared.store.newest().unwrap();
    assert!(is_young(&vacuumed));
    assert_eq!((vacuumed.operation.as_str(), vacuumed.number, vacuumed.base), (VACUUM, 4, 3));
}

#[test]
fn files_of_updates_that_can_still_be_committed_stay() {
    let shared = aged(&[5 * HOUR, 4 * HOUR, 3 * HOUR, 0]);
    let all = |base| {
        let name = |byte| Name { base, uuid: [byte; 16] };
        let (working, draft) = (files::incoming(&name(3).filter()), files::incoming(&name(4).draft()));
        [files::shard(1, &name(1)), files::run(&name(2)), working, draft]
    };
    let (expired, living) = (all(2), all(3));
    expired.iter().chain(&living).for_each(|name| shared.memory.put(name, b"keys"));
    let told = shared.store.vacuum(&Vacuum::default().grace(Duration::from_secs(HOUR as u64))).unwrap();
    assert_eq!(shared.store.newest().unwrap().fence, 3);
    assert_eq!((told.files, told.versions, told.foreign), (4, 2, 0), "{told:?}");
    let names = shared.memory.names();
    expired.iter().for_each(|name| assert!(!names.contains(name), "{name}"));
    living.iter().for_each(|name| assert!(names.contains(name), "{name}"));
}

#[test]
fn what_is_based_on_versions_below_the_fence_is_given_up_and_nothing_else() {
    let shared = aged(&[0, 0, 0]);
    shared.intrude(Operation::Vacuum);
    let fence = shared.store.newest().unwrap().fence;
    assert_eq!(fence, 4);
    let upkeep =
        |base| shared.store.publish_upkeep(base, "merge", |newest| Ok(Some(newest.clone()))).unwrap();
    assert_eq!([fence - 1, fence].map(|base| upkeep(base).is_some()), [false, true]);
    let given_up = |base| shared.store.given_up(base, Error::Busy { path: "x".into() });
    assert!(matches!(given_up(fence - 1), Error::Expired { base: 3, fence: 4, .. }));
    assert!(matches!(given_up(fence), Error::Busy { .. }));
    let upload = |name: String| Upload { name, id: String::new() };
    let limits = Cutoffs { first: 1, fence };
    for (base, left) in [(fence - 1, true), (fence, false), (fence + 1, false)] {
        let name = Name { base, uuid: [1; 16] };
        for name in [files::shard(0, &name), files::run(&name)] {
            assert_eq!(is_left(&upload(name), limits), left);
        }
    }
    assert!(!is_left(&upload("runs/of-others".to_owned()), limits));
}

/// As after restoring a backup, or in an object store that used a number again.
#[test]
fn a_text_under_the_number_of_a_vacuumed_version_is_no_version() {
    let shared = aged(&[0, 0, 0]);
    let text = shared.memory.get(&files::version(2)).unwrap().unwrap();
    shared.intrude(Operation::Vacuum);
    shared.memory.put(&files::version(2), &text);
    let outcome = shared.store.version(2);
    assert!(matches!(outcome, Err(Error::NoSuchVersion { number: 2, newest: 4, .. })), "{outcome:?}");
}

#[test]
fn uploads_that_can_no_longer_be_committed_are_given_up_and_counted() {
    let shared = aged(&[0, 0, 0]);
    let fence = 4;
    let upload = |base, id: &str| {
        let name = files::shard(0, &Name { base, uuid: [1; 16] });
        Upload { name, id: id.to_owned() }
    };
    let (living, left) = (upload(fence, "living"), ["one", "two"].map(|id| upload(1, id)));
    *shared.memory.uploads.lock().unwrap() = [&left[..], std::slice::from_ref(&living)].concat();
    let told = shared.store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
    assert_eq!(shared.store.newest().unwrap().fence, fence);
    assert_eq!((told.uploads, told.uploads_hidden), (2, false));
    assert_eq!(*shared.memory.uploads.lock().unwrap(), [living]);
}

/// Other versions come between the token's base and the version of the token.
#[test]
fn a_version_that_nobody_needs_for_it_may_be_gone_where_one_before_a_token_is_sought() {
    let shared = Shared::new();
    let base = shared.store.newest().unwrap();
    let change = shared.change(base.number, 1, Some(Token::new("a", 7)));
    shared.intrude(Operation::Commit(0, None));
    shared.store.commit(&change).unwrap();
    shared.intrude(Operation::Commit(0, None));
    shared.intrude(Operation::Vacuum);
    assert_eq!(shared.store.listed(FIRST).unwrap(), [base.number, 5]);
    assert_eq!(shared.store.before("a", 7).unwrap(), base);
}

/// The commit's operation is not checked, as nothing is published.
#[test]
fn a_commit_that_was_made_before_is_told_whatever_its_operation_is() {
    let (shared, long) = (Shared::new(), "long".repeat(1000));
    let commit = |operation: &str, number| {
        shared.store.update().unwrap().commit(operation, Some(Token::new("a", number)))
    };
    assert!(matches!(commit("insert", 7), Ok(Committed::New(_))));
    assert!(matches!(commit(&long, 7), Ok(Committed::Already(_))));
    assert!(matches!(commit(&long, 8), Err(Error::Invalid { .. })));
}
