//! Processes that are killed while they upload or commit, and uploads whose answers are lost.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use gowk::store::{Committed, Store, Token, Vacuum};
use gowk::{Batches as _, Options};

use super::proxy::{self, Fault};
use super::{AT_ONCE, has_s3, insert, is_at, is_there, keys, options, place};

/// A shard's file has more than one part of 16 MiB.
fn large() -> Options {
    options().capacity(5_000_000)
}

fn rewrite(store: &Store, numbers: std::ops::Range<u32>, token: Option<Token>) -> Committed {
    let mut update = store.update().unwrap().rewriting();
    update.insert_batch(&keys(numbers)).unwrap().complete().unwrap();
    update.commit("insert", token).unwrap()
}

/// The files of shards of the newest version have so many bytes.
fn bytes(store: &Store) -> u64 {
    store.newest().unwrap().shards.values().map(|file| file.bytes).sum()
}

/// What the first lines of the requests have that begin an upload in parts, move a part and end it, and how many with the same
/// come before the last. Azure has none that begins one.
fn upload_requests() -> [(&'static str, usize); 3] {
    if is_at("az") {
        [("", 0), ("comp=block&", 0), ("comp=blocklist", 0)]
    } else {
        [("POST", 0), ("partNumber", 0), ("POST", 1)]
    }
}

/// Each request of an upload in parts fails once.
#[test]
fn an_upload_in_parts_makes_up_for_a_request_that_fails() {
    let (prefix, address) = place();
    let store = Store::create(&address, 1, &large()).unwrap();
    let store = Store::open_with(store.path(), &large()).unwrap();
    let mut number = 0;
    let [begin, part, end] = upload_requests();
    for (fault, (like, from), more) in [
        (Fault::Told(404), end, 0),
        (Fault::Lost, end, 0),
        (Fault::Told(500), end, 0),
        (Fault::Lost, begin, 0),
        (Fault::Reset, part, 0),
        (Fault::Told(503), part, 1),
        (Fault::Lost, part, 1),
    ] {
        let from = from + more;
        proxy::plan(&prefix, fault, from, 1, like);
        let outcome = rewrite(&store, 10 * number..10 * (number + 1), None);
        let seen = proxy::relent(&prefix);
        assert!(matches!(outcome, Committed::New(_)), "{fault:?} {like} {from}: {outcome:?} {seen:#?}");
        assert!(seen.len() > from, "{fault:?} {like} {from}: {seen:#?}");
        number += 1;
        assert!(is_there(&store, 0..10 * number));
    }
    assert!(bytes(&store) > 16 << 20, "{}", bytes(&store));
}

/// Commits in a process of its own, which is killed once it has made a request.
fn killed_at(prefix: &str, address: &Path, test: &str, (like, from): (&str, usize), first: u32) -> bool {
    proxy::plan(prefix, Fault::Held, from, usize::MAX, like);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("GOWK_TEST_ADDRESS", address)
        .env("GOWK_TEST_FIRST", first.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let is_held = proxy::await_requests(prefix, from + 1, || child.try_wait().unwrap().is_some());
    let _ = child.kill();
    let status = child.wait().unwrap();
    // What the server gets of the dead process now is what was under way.
    proxy::relent(prefix);
    assert_eq!(is_held, status.signal() == Some(9), "{status}");
    is_held
}

/// The commit of a process that will be killed.
fn commit_as_told(options: &Options, is_large: bool) -> bool {
    let Some(address) = std::env::var_os("GOWK_TEST_ADDRESS") else { return false };
    let first: u32 = super::of_script("GOWK_TEST_FIRST").parse().unwrap();
    let store = Store::open_with(Path::new(&address), options).unwrap();
    let (numbers, token) = (10 * first..10 * (first + 1), Some(Token::new("a", u64::from(first))));
    if is_large {
        rewrite(&store, numbers, token);
    } else {
        insert(&store, numbers, token);
    }
    true
}

/// After the kill: the version before is whole, and the same commit succeeds.
fn goes_on(store: &Store, first: u32, is_large: bool) {
    assert!(is_there(store, 0..10 * first));
    let token = Some(Token::new("a", u64::from(first)));
    let mut update = store.update_of(store.before("a", u64::from(first)).unwrap());
    update = if is_large { update.rewriting() } else { update };
    let new = update.insert_batch(&keys(10 * first..10 * (first + 1))).unwrap();
    assert_eq!(new.mask(), [true; 10]);
    new.complete().unwrap();
    assert!(!matches!(update.commit("insert", token).unwrap(), Committed::Unchanged));
    assert!(is_there(store, 0..10 * (first + 1)));
}

#[test]
fn a_committer_that_is_killed_at_any_request_leaves_the_store_whole() {
    if commit_as_told(&options(), false) {
        return;
    }
    let (prefix, address) = place();
    let store = Store::create(&address, 1, &options()).unwrap();
    insert(&store, 0..10, None);
    let own = "killed::a_committer_that_is_killed_at_any_request_leaves_the_store_whole";
    let mut first = 1;
    // All requests of the process, until it has made all and lives.
    while killed_at(&prefix, &address, own, ("", first as usize - 1), first) {
        goes_on(&store, first, false);
        first += 1;
    }
    goes_on(&store, first, false);
    assert!(first > 6, "{first} requests");
    store.vacuum(&Vacuum::default().grace(AT_ONCE)).unwrap();
    assert!(is_there(&store, 0..10 * (first + 1)));
}

#[test]
fn an_upload_that_is_killed_leaves_the_store_whole() {
    if commit_as_told(&large(), true) {
        return;
    }
    let (prefix, address) = place();
    Store::create(&address, 1, &large()).unwrap();
    let store = Store::open_with(&address, &large()).unwrap();
    rewrite(&store, 0..10, None);
    let own = "killed::an_upload_that_is_killed_leaves_the_store_whole";
    let [begin, part, end] = upload_requests();
    let killed: Vec<_> =
        [begin, part, (part.0, 1), end].into_iter().filter(|(like, _)| !like.is_empty()).collect();
    let (number, kills) = (killed.len(), killed.len() as u64);
    for (first, at) in (1..).zip(killed) {
        assert!(killed_at(&prefix, &address, own, at, first), "{at:?}");
        goes_on(&store, first, true);
    }
    let told = store.vacuum(&Vacuum::default().grace(AT_ONCE)).unwrap();
    // The files of versions before, and the one whose upload was complete.
    assert_eq!(told.files, kills, "{told:?}");
    // Those that were killed as they began, and at a part. A second vacuum finds none.
    let uploads = if has_s3("uploads of killed processes, which a vacuum gives up") { 3 } else { 0 };
    assert_eq!((told.uploads, told.uploads_hidden), (uploads, is_at("gs")), "{told:?}");
    assert_eq!(store.vacuum(&Vacuum::default().grace(AT_ONCE)).unwrap().uploads, 0);
    assert!(is_there(&store, 0..10 * (number as u32 + 1)));
}
