//! The real code over a storage in memory. At each of its storage calls, other processes commit and vacuum; and each of
//! its calls fails. `model.rs` tries every order of all steps, in a small model; this test has the code itself,
//! interrupted once.
//!
//! Invariants checked:
//!
//! 1. No version number is used twice, and no two versions have one token. In an object store, numbers of vacuumed
//!    versions can be used again, by versions that do not count.
//! 2. A commit that was reported is in the newest version. A commit that was reported as failed is in no version, unless
//!    the error says that this is unknown.
//! 3. All versions that must stay exist, with the files that they name.
//! 4. After any failure, the same commit with the same token succeeds, or has already succeeded.
//!
//! That this test can fail: storages whose put does not ask before its last step, or that keep drafts, break invariant 1.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::files::{self, Name, version_number};
use super::storage::memory::Memory;
use super::storage::watched::{Verdict, Watched};
use super::storage::{Put, Storage};
use super::{Change, Committed, Description, Error, Result, Sealed, Store, Token, Vacuum, Version};
use crate::Options;
use crate::error::Result as FilterResult;
use crate::system::new_uuid;

/// A store in memory, which all processes of a test see.
pub(super) struct Shared {
    pub(super) memory: Arc<Memory>,
    pub(super) store: Store,
}

impl Shared {
    pub(super) fn new() -> Self {
        Self::in_memory(Memory::default())
    }

    pub(super) fn of_objects() -> Self {
        Self::in_memory(Memory::of_objects())
    }

    /// In an object store with real files.
    pub(super) fn of_files() -> Self {
        Self::in_memory(Memory::of_files())
    }

    fn in_memory(memory: Memory) -> Self {
        let (memory, root) = (Arc::new(memory), PathBuf::from("memory"));
        let options = Options::new();
        let description = Description::design(&root, 2, &options).unwrap();
        let store = Store::over(root, memory.clone(), description, options);
        Self { memory, store: Store::found(store).unwrap() }
    }

    /// The same store, over another storage.
    pub(super) fn over(&self, storage: Arc<dyn Storage>) -> Store {
        Store { storage, ..self.store.clone() }
    }

    /// A change of one shard, whose file is already in its place.
    pub(super) fn change(&self, base: u64, shard: u32, token: Option<Token>) -> Change {
        let uuid = new_uuid(&self.store.root).unwrap();
        self.memory.put(&files::shard(shard, &Name { base, uuid }), b"keys");
        let store = self.store.description.uuid;
        let shard = Some(shard);
        let sealed = Sealed {
            store,
            shard,
            base,
            uuid,
            commit: 1,
            bytes: 4,
            entries: 1,
            rate: 0.5,
            fold: false,
            epoch: 0,
        };
        Change { base, operation: "insert".to_owned(), token, sealed: vec![sealed] }
    }

    fn commit(&self, shard: u32, token: Option<Token>) -> Result<Committed> {
        let base = self.store.newest()?.number;
        self.store.commit(&self.change(base, shard, token))
    }

    /// Another process does this, as far as it can.
    pub(super) fn intrude(&self, deed: Operation) {
        let _ = match deed {
            Operation::Commit(shard, token) => {
                self.commit(shard, token.map(|number| Token::new("a", number))).err()
            }
            Operation::Vacuum => self.store.vacuum(&Vacuum::default().grace(Duration::ZERO)).err(),
        };
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let has_drafts = !self.memory.has_no_drafts;
        if has_drafts && !self.memory.reused().is_empty() {
            return Err(format!("given twice: {:?}", self.memory.reused()));
        }
        let newest = self.store.newest().map_err(|error| error.to_string())?;
        let mut tokens = BTreeSet::new();
        for (name, bytes) in self.memory.ever("versions/") {
            let number = version_number(&name["versions/".len()..]).unwrap();
            let version = Version::decode(&PathBuf::from(&name), &bytes, number, &self.store.description);
            let version = version.map_err(|error| error.to_string())?;
            // A stray may have another commit's token.
            if !has_drafts && !newest.keeps(number) {
                continue;
            }
            for (application, done) in version.tokens.iter().filter(|(_, done)| done.version == number) {
                if !tokens.insert((application.clone(), done.number)) {
                    return Err(format!("two versions of {application}:{}", done.number));
                }
            }
        }
        let bases = newest.tokens.values().map(|done| done.base);
        for number in (newest.first..=newest.number).chain(bases) {
            let version = self.store.load(number).map_err(|error| error.to_string())?;
            let version = version.ok_or_else(|| format!("version {number} should stay"))?;
            for (shard, file) in &version.shards {
                let name = files::shard(*shard, &file.name);
                if self.memory.length(&name).unwrap().is_none() {
                    return Err(format!("version {number} names {name}, which is gone"));
                }
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    /// A commit that changes a shard, perhaps with the token of this number.
    Commit(u32, Option<u64>),
    Vacuum,
}
use Operation::*;

/// What other processes do between two calls of the process under test.
const INTRUSIONS: [&[Operation]; 9] = [
    &[Commit(0, None)],
    &[Commit(1, None)],
    // Both shards get newer files than the process under test has.
    &[Commit(0, None), Commit(1, None)],
    &[Commit(1, Some(2))],
    &[Vacuum],
    &[Commit(1, None), Vacuum],
    &[Commit(1, None), Commit(1, None), Vacuum],
    &[Commit(0, Some(2)), Commit(1, Some(3)), Vacuum],
    &[Commit(1, None), Vacuum, Commit(1, None), Vacuum],
];

/// What the process under test does.
type Program = fn(&Store, &Change) -> Result<Option<Committed>>;

const PROGRAMS: [Program; 3] = [
    |store, change| store.commit(change).map(Some),
    |store, _| store.vacuum(&Vacuum::default().grace(Duration::ZERO)).map(|_| None),
    |store, _| store.vacuum(&Vacuum::default().keep(2).grace(Duration::ZERO)).map(|_| None),
];

/// Runs all programs over a storage that `around` makes. Each intrusion interrupts each of their calls.
fn interrupted(shared: fn() -> Shared, around: fn(Arc<Memory>) -> Arc<dyn Storage>) -> Result<usize, String> {
    let mut runs = 0;
    for (program, intrusion) in PROGRAMS.iter().flat_map(|program| INTRUSIONS.map(|deeds| (program, deeds))) {
        for at in 0.. {
            let shared = Arc::new(shared());
            for (shard, token) in [(0, None), (1, Some(1)), (0, None)] {
                shared.intrude(Commit(shard, token));
            }
            let newest = shared.store.newest().unwrap().number;
            let change = shared.change(newest, 0, Some(Token::new("a", 2)));
            let (mut calls, others) = (0, shared.clone());
            let reached = Arc::new(Mutex::new(false));
            let mark = reached.clone();
            let watched = Watched::new(around(shared.memory.clone()), move |_| {
                if calls == at {
                    *mark.lock().unwrap() = true;
                    intrusion.iter().for_each(|deed| others.intrude(*deed));
                }
                calls += 1;
                Verdict::Made
            });
            let outcome = program(&shared.over(Arc::new(watched)), &change);
            let how = |what: String| format!("{intrusion:?} before call {at}: {what}; {outcome:?}");
            shared.check().map_err(how)?;
            let done = shared.store.newest().unwrap().tokens.get("a").map_or(0, |done| done.number);
            match &outcome {
                Ok(Some(Committed::New(_) | Committed::Already(_))) if done < 2 => {
                    return Err(how("a commit is lost".to_owned()));
                }
                // Another process has committed a later token of the application.
                Err(Error::TokenBelow { last, .. }) if *last == done => {}
                Err(Error::Conflict { .. } | Error::Expired { .. }) | Ok(_) => {}
                Err(_) => return Err(how("an error".to_owned())),
            }
            runs += 1;
            if !*reached.lock().unwrap() {
                break;
            }
        }
    }
    Ok(runs)
}

#[test]
fn others_at_any_call_break_no_invariant() {
    for shared in [Shared::new, Shared::of_objects] {
        let runs = interrupted(shared, |memory| memory).unwrap();
        assert!(runs > 200, "{runs}");
    }
}

/// A storage that leaves out a part of a put.
#[derive(Debug)]
struct Careless {
    memory: Arc<Memory>,
    asks: bool,
}

impl Storage for Careless {
    fn is_object_store(&self) -> bool {
        false
    }
    fn put_if_absent(
        &self,
        name: &str,
        draft: &str,
        bytes: &[u8],
        due: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<Put> {
        if !self.asks {
            return self.memory.put_if_absent(name, draft, bytes, &mut || Ok(true));
        }
        self.memory.put_if_absent(name, draft, bytes, &mut || {
            let is_due = due();
            // Restores the draft if another process has removed it.
            self.memory.put(draft, bytes);
            is_due
        })
    }
    fn put_file(&self, name: &str, local: &std::path::Path) -> FilterResult<()> {
        self.memory.put_file(name, local)
    }
    fn local(&self, name: &str) -> FilterResult<PathBuf> {
        self.memory.local(name)
    }
    fn forget(&self, _: &str) {}
    fn workplace(&self) -> FilterResult<PathBuf> {
        self.memory.workplace()
    }
    fn get(&self, name: &str) -> FilterResult<Option<Vec<u8>>> {
        self.memory.get(name)
    }
    fn length(&self, name: &str) -> FilterResult<Option<u64>> {
        self.memory.length(name)
    }
    fn list(&self, folder: &str, after: &str) -> FilterResult<Vec<String>> {
        self.memory.list(folder, after)
    }
    fn delete(&self, name: &str) -> FilterResult<Option<u64>> {
        self.memory.delete(name)
    }
    fn settle(&self, folder: &str) -> FilterResult<()> {
        self.memory.settle(folder)
    }
}

#[test]
fn without_the_last_look_or_without_drafts_numbers_are_given_twice() {
    let without_looking: fn(Arc<Memory>) -> Arc<dyn Storage> =
        |memory| Arc::new(Careless { memory, asks: false });
    let without_drafts: fn(Arc<Memory>) -> Arc<dyn Storage> =
        |memory| Arc::new(Careless { memory, asks: true });
    for around in [without_looking, without_drafts] {
        let how = interrupted(Shared::new, around).unwrap_err();
        assert!(how.contains("given twice"), "{how}");
    }
}

#[test]
fn without_a_look_after_the_put_commits_are_lost_in_an_object_store() {
    let unseen: fn() -> Shared = || Shared::in_memory(Memory::unseen());
    let how = interrupted(unseen, |memory| memory).unwrap_err();
    assert!(how.contains("a commit is lost"), "{how}");
}

/// Without a token, a second attempt cannot recognize the first. So a commit that a vacuum has passed is not repeated,
/// and its error says that the version may exist. After any other error it does not exist.
#[test]
fn a_commit_without_a_token_that_a_vacuum_passes_is_told_and_not_made_again() {
    let mut passed = 0;
    for intrusion in INTRUSIONS {
        let (mut at, mut was_reached) = (0, true);
        while was_reached {
            let shared = Arc::new(Shared::of_objects());
            (0..3).for_each(|_| shared.intrude(Commit(1, None)));
            let change = shared.change(shared.store.newest().unwrap().number, 0, None);
            let (mut calls, others, reached) = (0, shared.clone(), Arc::new(Mutex::new(false)));
            let mark = reached.clone();
            let watched = Watched::new(shared.memory.clone(), move |_| {
                if calls == at {
                    *mark.lock().unwrap() = true;
                    intrusion.iter().for_each(|deed| others.intrude(*deed));
                }
                calls += 1;
                Verdict::Made
            });
            let outcome = shared.over(Arc::new(watched)).commit(&change);
            let how = format!("{intrusion:?} before call {at}: {outcome:?}");
            shared.check().unwrap_or_else(|what| panic!("{what}: {how}"));
            let newest = shared.store.newest().unwrap();
            let mut kept =
                (newest.first..=newest.number).map(|number| shared.store.load(number).unwrap().unwrap());
            let own = change.sealed[0].name();
            let is_there = kept.any(|version| version.shards.get(&0).is_some_and(|file| file.name == own));
            match outcome {
                // Others may have rewritten the shard since, and a vacuum may have removed the version.
                Ok(Committed::New(_)) => assert!(is_there || intrusion.len() > 2, "{how}"),
                Err(Error::Overtaken { .. }) => {
                    assert!(intrusion.iter().any(|deed| matches!(deed, Vacuum)), "{how}");
                    passed += 1;
                }
                Err(Error::Conflict { .. } | Error::Expired { .. }) => assert!(!is_there, "{how}"),
                _ => panic!("{how}"),
            }
            was_reached = *reached.lock().unwrap();
            at += 1;
        }
    }
    assert!(passed > 0);
}

/// Each storage call of a commit fails, in each way that a call can fail.
#[test]
fn a_call_that_fails_leaves_no_doubt_that_is_not_told() {
    let mut unknown = 0;
    for verdict in [Verdict::Failed, Verdict::Taken, Verdict::Reported, Verdict::Unknown] {
        // With `and_after`, all later calls also fail.
        let each = (0..30).flat_map(|at| [(at, false), (at, true)]);
        let each = each.flat_map(|how| [(how, Shared::new()), (how, Shared::of_objects())]);
        for ((at, and_after), shared) in each {
            shared.commit(1, None).unwrap();
            let change = shared.change(2, 0, Some(Token::new("a", 1)));
            let (mut calls, mut told) = (0, Vec::new());
            let log = Arc::new(Mutex::new(Vec::new()));
            let kept = log.clone();
            let watched = Watched::new(shared.memory.clone(), move |call| {
                told.push(call.to_owned());
                *kept.lock().unwrap() = told.clone();
                calls += 1;
                match (calls - 1).cmp(&at) {
                    std::cmp::Ordering::Equal => verdict,
                    std::cmp::Ordering::Greater if and_after => Verdict::Failed,
                    _ => Verdict::Made,
                }
            });
            let outcome = shared.over(Arc::new(watched)).commit(&change);
            let is_there = shared.store.newest().unwrap().tokens.contains_key("a");
            let how = format!("{verdict:?} {at} {and_after}: {outcome:?} {:?}", log.lock().unwrap());
            match &outcome {
                Ok(Committed::New(_)) => assert!(is_there, "{how}"),
                Err(Error::Unknown { version: 3, .. }) => unknown += 1,
                Err(Error::Filter(_)) => assert!(!is_there, "{how}"),
                _ => panic!("{how}"),
            }
            shared.check().unwrap_or_else(|what| panic!("{what}: {how}"));
            match shared.store.commit(&change).unwrap() {
                Committed::New(_) => assert!(!is_there, "{how}"),
                Committed::Already(done) => assert!(is_there && done.version == 3, "{how}"),
                Committed::Unchanged => panic!("{how}"),
            }
            let mut names = shared.memory.names();
            names.retain(|name| name.starts_with("incoming/"));
            assert_eq!(names, [""; 0], "{how}");
        }
    }
    assert!(unknown > 4, "{unknown}");
}

/// Another version follows the one that was put, and cannot be read: the version that was put may count.
#[test]
fn a_look_after_the_put_that_reads_nothing_leaves_a_doubt_that_is_told() {
    let shared = Arc::new(Shared::of_objects());
    shared.commit(1, None).unwrap();
    let change = shared.change(2, 0, Some(Token::new("a", 1)));
    let (others, mut is_put) = (shared.clone(), false);
    let watched = Watched::new(shared.memory.clone(), move |call| {
        if is_put && call == "list versions" {
            is_put = false;
            others.intrude(Commit(1, None));
            others.memory.replace(&files::version(4), b"not a version\n");
        }
        is_put |= call == "put version";
        Verdict::Made
    });
    let outcome = shared.over(Arc::new(watched)).commit(&change);
    assert!(matches!(outcome, Err(Error::Unknown { version: 3, .. })), "{outcome:?}");
    assert!(shared.store.load(3).unwrap().unwrap().tokens.contains_key("a"));
}

/// A change that readers would refuse is not published, and the store stays usable.
#[test]
fn what_a_reader_would_refuse_is_refused_before_it_is_published() {
    let shared = Shared::new();
    type Spoil = fn(&mut Change);
    fn sealed(change: &mut Change) -> &mut Sealed {
        &mut change.sealed[0]
    }
    fn token(change: &mut Change) -> &mut Token {
        change.token.as_mut().unwrap()
    }
    let cases: [(&str, Spoil); 9] = [
        ("shard.rate", |change| sealed(change).rate = 2.0),
        ("shard.rate", |change| sealed(change).rate = f64::NAN),
        ("shard.entries", |change| sealed(change).entries = u64::MAX),
        ("shard.commit", |change| sealed(change).commit = 1 << 63),
        ("token.number", |change| token(change).number = u64::MAX),
        ("token.state", |change| token(change).state = "x".repeat((1 << 20) + 1)),
        ("token.application", |change| token(change).application = "x".repeat(1025)),
        ("token.state", |change| token(change).state = "\0".repeat(1 << 28)),
        ("operation", |change| change.operation = "x".repeat(257)),
    ];
    for (field, spoil) in cases {
        let mut change = shared.change(1, 0, Some(Token::new("a", 1)));
        spoil(&mut change);
        match shared.store.commit(&change) {
            Err(error @ Error::Invalid { .. }) => {
                let told = error.to_string();
                assert!(told.contains(field) && told.contains("nothing was committed"), "{told}");
                assert!(told.len() < 300, "{told}");
            }
            outcome => panic!("{field}: {outcome:?}"),
        }
        assert_eq!(shared.store.newest().unwrap().number, 1);
    }
    // The longest states that are allowed: the last application finds no room for its state, and all others continue.
    for number in 0..16 {
        let token = Token { state: "x".repeat(1 << 20), ..Token::new(format!("a{number}"), 1) };
        match (shared.commit(0, Some(token)), number) {
            (Ok(_), 0..15) | (Err(Error::Invalid { field: "token.state", .. }), 15) => {}
            (outcome, _) => panic!("{outcome:?}"),
        }
    }
    shared.commit(0, Some(Token::new("a15", 1))).unwrap();
    shared.store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
    shared.check().unwrap();
}
