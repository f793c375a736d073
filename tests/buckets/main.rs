//! Stores in buckets of a server: moto for addresses at `s3://` and, as the nearest to Google's that there is, at `gs://`;
//! azurite for those at `az://`. `tests/buckets/run` starts the server, and these tests.
//!
//! Invariants checked:
//!
//! 1. A store in a bucket answers as one in a folder does, also with an empty, rotten or tiny cache, and from tasks of
//!    tokio.
//! 2. Of 50 committers at the same time each gets a number of its own, and none loses a key.
//! 3. A commit of 1,000 keys takes at most 2 puts and 6 other requests.
//! 4. Whatever becomes of any request of a commit, an update, a fold or a vacuum: a commit that was told is there, one
//!    that was told to have failed is not, the store is whole, and the same call succeeds afterwards. Each error names the
//!    place and what the server did. None shows a credential. One of a listing names it (`failures`).
//!    No event of the crates below shows one either (`events`).
//! 5. A committer whose put is held until a vacuum has removed its number is told that it has committed nothing.
//! 6. A server that lets two creates of one object succeed is refused, and one that ignores the condition of a put.
//! 7. Readers that evict each other's files from the cache, or whose cache is removed, get all answers; nothing but files
//!    of gowk is removed there. A batch fetches files side by side, and tells how far it is (`cache`).
//! 8. A process that is killed at any request of a commit or of an upload leaves the store whole (`killed`).
//! 9. A request that fails each time is repeated so often as is said here, and no more (`failures`).
//! 10. Of eight writers that bring the same keys, of which some are tried again, each key is new to one.

mod cache;
mod events;
mod failures;
mod killed;
mod proxy;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use gowk::store::{Change, Committed, Error, Requests, Store, Token, Vacuum};
use gowk::{Batches, ErrorKind, Lookup, Options};
use proxy::Fault;

/// What the script has set up.
fn of_script(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: start these tests with tests/buckets/run"))
}

/// Whether stores lie at addresses of this scheme.
fn is_at(scheme: &str) -> bool {
    of_script("GOWK_TEST_BUCKET").split_once("://").unwrap().0 == scheme
}

/// Whether what only servers of S3 have can be tested. If not, says so.
fn has_s3(what: &str) -> bool {
    if !is_at("s3") {
        println!("only at s3://: {what}");
    }
    is_at("s3")
}

/// The path of the bucket at the server.
fn path_of_bucket() -> &'static str {
    if is_at("az") { "/gowktest/gowk-test" } else { "/gowk-test" }
}

/// What the first line of a listing's request has in it.
fn listing() -> &'static str {
    if is_at("az") { "comp=list" } else { "list-type" }
}

/// The variables of a process that talks to the server, or to a proxy, at this address.
fn endpoint(at: &str) -> (&'static str, String) {
    match &*of_script("GOWK_TEST_BUCKET") {
        "s3://gowk-test" => ("AWS_ENDPOINT_URL", format!("http://{at}")),
        "gs://gowk-test" => ("GOOGLE_BASE_URL", format!("http://{at}")),
        "az://gowk-test" => ("AZURE_STORAGE_ENDPOINT", format!("http://{at}/gowktest")),
        other => panic!("{other}"),
    }
}

/// The prefix of a store of its own, and its address.
fn place() -> (String, PathBuf) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    static PROXY: OnceLock<()> = OnceLock::new();
    PROXY.get_or_init(|| {
        events::subscribe();
        proxy::start(&of_script("GOWK_TEST_PROXY"), of_script("GOWK_TEST_SERVER"));
    });
    let (number, process) = (NUMBER.fetch_add(1, Ordering::Relaxed), std::process::id());
    // Only letters and digits, which no server escapes.
    let prefix = format!("store{process}x{number}end");
    let address = format!("{}/{prefix}", of_script("GOWK_TEST_BUCKET"));
    (prefix, address.into())
}

/// Whether a text shows what `tests/buckets/run` has set, a secret or who has it.
fn has_credential(text: &str) -> bool {
    of_script("GOWK_TEST_SECRETS").split_whitespace().any(|credential| text.contains(credential))
}

fn options() -> Options {
    Options::new().capacity(10_000).seed(3).false_positive_rate(1e-8)
}

fn keys(numbers: std::ops::Range<u32>) -> Vec<[u8; 4]> {
    numbers.map(u32::to_le_bytes).collect()
}

fn insert(store: &Store, numbers: std::ops::Range<u32>, token: Option<Token>) -> Committed {
    let mut update = store.update().unwrap();
    update.insert_batch(&keys(numbers)).unwrap().complete().unwrap();
    update.commit("insert", token).unwrap()
}

fn is_there(store: &Store, numbers: std::ops::Range<u32>) -> bool {
    store.read().unwrap().contains_batch(&keys(numbers)).unwrap().into_iter().all(|found| found)
}

const AT_ONCE: Duration = Duration::ZERO;

#[test]
fn a_store_in_a_bucket_answers_as_one_in_a_folder() {
    let (_, address) = place();
    let missing = Store::open(&address).unwrap_err();
    assert!(matches!(missing, Error::NotAStore { .. }), "{missing}");
    let store = Store::create(&address, 4, &options()).unwrap();
    assert!(matches!(Store::create(&address, 4, &options()), Err(Error::Exists { .. })));
    assert_eq!(store.path(), address);
    for part in 0..12 {
        insert(&store, 1000 * part..1000 * (part + 1), None);
    }
    // Every shard is written anew, and read from there.
    let mut update = store.update().unwrap().rewriting();
    update.insert_batch(&keys(12_000..40_000)).unwrap().complete().unwrap();
    update.commit("insert", None).unwrap();
    store.compact(true, &|_, _| {}).unwrap();
    let store = Store::open_with(&address, &options()).unwrap();
    assert!(is_there(&store, 0..40_000));
    let reader = store.read().unwrap();
    assert_eq!(reader.version().shards.len(), 4);
    let found = reader.contains_batch(&keys(40_000..90_000)).unwrap();
    assert_eq!(found.into_iter().filter(|found| *found).count(), 0);
    assert!(reader.verify(&|_, _| {}).unwrap().iter().all(|(_, report)| report.is_ok()));
    let told = store.vacuum(&Vacuum::default().grace(AT_ONCE)).unwrap();
    assert!(told.versions > 12 && told.files > 12 && told.foreign == 0, "{told:?}");
    assert!(is_there(&store, 0..40_000));
    let log: Vec<u64> = store.log().unwrap().iter().map(|version| version.number).collect();
    assert_eq!(log, [told.version.unwrap()]);
}

#[test]
fn a_commit_of_a_thousand_keys_takes_two_puts_and_six_other_requests() {
    let (_, address) = place();
    let store = Store::create(&address, 4, &options()).unwrap();
    insert(&store, 0..1000, None);
    let before = store.requests().unwrap();
    insert(&store, 1000..2000, None);
    let after = store.requests().unwrap();
    println!("{before:?} {after:?}");
    assert_eq!((after.put - before.put, after.post - before.post, after.delete - before.delete), (2, 0, 0));
    let others = (after.get - before.get) + (after.head - before.head) + (after.list - before.list);
    assert!(others <= 6, "{others}");
}

/// Commits of 1,000 keys, one after the other. Now and then one merges runs afterwards, which is a commit of its own.
#[test]
fn what_commits_cost_that_merge_runs_or_do_not() {
    let (_, address) = place();
    let store = Store::create(&address, 4, &options()).unwrap();
    let mut newest = store.newest().unwrap().number;
    let mut costs = [0, 0];
    for part in 0..20 {
        let before = store.requests().unwrap();
        insert(&store, 1000 * part..1000 * (part + 1), None);
        let counts = between(before, store.requests().unwrap());
        let version = store.newest().unwrap();
        let made = version.number - newest;
        newest = version.number;
        println!(
            "{made} versions, the last by {}, {} runs: {counts:?}",
            version.operation,
            version.runs.len()
        );
        let (puts, others) = (counts[0], counts[1..].iter().sum::<u64>());
        if made == 1 {
            assert!(puts == 2 && (part == 0 || others <= 6), "{counts:?}");
        } else {
            costs = [costs[0].max(puts), costs[1].max(others)];
        }
    }
    println!("at most, with merges and folds: {} PUT and {} others", costs[0], costs[1]);
}

/// The requests of each kind between two moments: PUT, GET, HEAD, LIST, DELETE and POST.
fn between(before: Requests, after: Requests) -> [u64; 6] {
    let of = |told: Requests| [told.put, told.get, told.head, told.list, told.delete, told.post];
    let mut counts = of(after);
    counts.iter_mut().zip(of(before)).for_each(|(count, before)| *count -= before);
    counts
}

/// As `docs/operating.md` tells it: PUT, GET, HEAD, LIST, DELETE and POST.
#[test]
fn what_calls_cost() {
    let (_, address) = place();
    let store = Store::create(&address, 4, &options()).unwrap();
    let spent = |store: &Store, what: &str, call: &mut dyn FnMut()| {
        let before = store.requests().unwrap();
        call();
        let counts = between(before, store.requests().unwrap());
        println!("{what}: {counts:?}");
        counts
    };
    let rewritten = spent(&store, "rewriting 4 shards", &mut || {
        let mut update = store.update().unwrap().rewriting();
        update.insert_batch(&keys(0..20_000)).unwrap().complete().unwrap();
        update.commit("insert", None).unwrap();
    });
    // A file of each shard, and the version. Each file is measured.
    assert_eq!((rewritten[0], rewritten[2]), (5, 4));
    let few = spent(&store, "1,000 keys", &mut || drop(insert(&store, 20_000..21_000, None)));
    assert!(few[0] == 2 && few[1..4].iter().sum::<u64>() <= 6 && few[4..] == [0, 0], "{few:?}");
    // One that has nothing in the cache.
    let reading = Store::open_with(&address, &options()).unwrap();
    assert_eq!(between(Requests::default(), reading.requests().unwrap()), [0, 1, 0, 0, 0, 0]);
    let version = reading.newest().unwrap();
    assert_eq!(between(Requests::default(), reading.requests().unwrap()), [0, 2, 0, 1, 0, 0]);
    let names = version.shards.values().map(|file| file.file_name());
    let names: Vec<_> = names.chain(version.runs.iter().map(|run| run.file_name())).collect();
    cached().iter().filter(|file| names.iter().any(|name| file.ends_with(name))).for_each(|file| {
        std::fs::remove_file(file).unwrap();
    });
    let reader = reading.read_version(version);
    let mut look =
        || assert!(reader.contains_batch(&keys(0..21_000)).unwrap().into_iter().all(|found| found));
    assert_eq!(spent(&reading, "lookups in five files", &mut look), [0, 5, 5, 0, 0, 0]);
    assert_eq!(spent(&reading, "the same again", &mut look), [0; 6]);
    let mut newest = || drop(reading.newest().unwrap());
    assert_eq!(spent(&reading, "looking for a newer version", &mut newest), [0, 0, 0, 1, 0, 0]);
    // Nine listings and two of each shard, and the versions 1 to 3. Uploads are listed at S3 alone, twice.
    let mut vacuum = || assert_eq!(store.vacuum(&Vacuum::default().grace(AT_ONCE)).unwrap().versions, 3);
    let listings = 9 + 2 * 4 + if is_at("s3") { 2 } else { 0 };
    assert_eq!(spent(&store, "a vacuum", &mut vacuum), [1, 1, 3, listings, 3, 0]);
}

#[test]
fn of_fifty_committers_each_gets_a_number_of_its_own() {
    let (_, address) = place();
    Store::create(&address, 4, &options()).unwrap();
    let numbers = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for own in 0..50_u32 {
            let (address, numbers) = (&address, &numbers);
            scope.spawn(move || {
                let store = Store::open_with(address, &options()).unwrap();
                match insert(&store, 100 * own..100 * (own + 1), Some(Token::new(format!("a{own}"), 1))) {
                    Committed::New(version) => numbers.lock().unwrap().push(version.number),
                    outcome => panic!("{outcome:?}"),
                }
            });
        }
    });
    let store = Store::open_with(&address, &options()).unwrap();
    let numbers: BTreeSet<u64> = numbers.into_inner().unwrap().into_iter().collect();
    assert_eq!(numbers.len(), 50);
    let log = store.log().unwrap();
    assert!(log.iter().map(|version| version.number).eq(1..=log.len() as u64));
    let made = |version: &gowk::store::Version| version.operation == "insert";
    assert!(log.iter().filter(|version| made(version)).map(|version| version.number).eq(numbers));
    assert!(is_there(&store, 0..5000));
    assert_eq!(store.newest().unwrap().tokens.len(), 50);
}

#[test]
fn a_caller_may_have_a_runtime_of_its_own() {
    let (_, address) = place();
    for runtime in [
        tokio::runtime::Builder::new_multi_thread().build().unwrap(),
        tokio::runtime::Builder::new_current_thread().build().unwrap(),
    ] {
        let address = address.clone();
        runtime.block_on(async move {
            let store = Store::open(&address).or_else(|_| Store::create(&address, 2, &options())).unwrap();
            insert(&store, 0..10, None);
            assert!(is_there(&store, 0..10));
            let there = tokio::task::spawn_blocking(move || is_there(&store, 0..10));
            assert!(there.await.unwrap());
        });
    }
}

/// The files of the cache, each with the folder of its store.
fn cached() -> Vec<PathBuf> {
    let folders = std::fs::read_dir(of_script("GOWK_CACHE")).unwrap().flatten();
    let files = folders.filter(|folder| folder.file_name() != "work");
    files
        .flat_map(|folder| std::fs::read_dir(folder.path()).unwrap().flatten())
        .map(|file| file.path())
        .collect()
}

#[test]
fn a_cache_that_is_empty_or_rots_changes_no_answer() {
    let (_, address) = place();
    let store = Store::create(&address, 2, &options()).unwrap();
    let mut update = store.update().unwrap().rewriting();
    update.insert_batch(&keys(0..20_000)).unwrap().complete().unwrap();
    update.commit("insert", None).unwrap();
    insert(&store, 20_000..21_000, None);
    let version = store.newest().unwrap();
    let mut names: Vec<String> = version.shards.values().map(|file| file.file_name()).collect();
    names.extend(version.runs.iter().map(|run| run.file_name()));
    let own = || {
        let mut files = cached();
        files.retain(|file| names.iter().any(|name| file.ends_with(name)));
        files
    };
    assert_eq!(own().len(), 3);
    type Spoil = fn(&PathBuf);
    let spoils: [Spoil; 4] = [
        |file| std::fs::remove_file(file).unwrap(),
        |file| std::fs::write(file, b"").unwrap(),
        |file| {
            let mut bytes = std::fs::read(file).unwrap();
            bytes.iter_mut().skip(4096).step_by(4096).for_each(|byte| *byte ^= 1);
            std::fs::write(file, bytes).unwrap();
        },
        |file| {
            let bytes = std::fs::read(file).unwrap();
            std::fs::write(file, vec![0; bytes.len()]).unwrap();
        },
    ];
    for spoil in spoils {
        own().iter().for_each(spoil);
        let store = Store::open_with(&address, &options()).unwrap();
        assert!(is_there(&store, 0..21_000));
        let found = store.read().unwrap().contains_batch(&keys(30_000..60_000)).unwrap();
        assert_eq!(found.into_iter().filter(|found| *found).count(), 0);
        // A working copy is made of it.
        own().iter().for_each(spoil);
        let mut update = store.update().unwrap().rewriting();
        let inserted = update.insert_batch(&keys(0..21_001)).unwrap();
        assert_eq!(inserted.mask().iter().filter(|new| **new).count(), 1);
        inserted.complete().unwrap();
        drop(update);
        assert_eq!(own().len(), 3);
    }
}

#[test]
fn a_committer_that_a_vacuum_has_passed_has_committed_nothing() {
    for token in [None, Some(Token::new("a", 1))] {
        let (prefix, address) = place();
        let store = Store::create(&address, 2, &options()).unwrap();
        insert(&store, 0..10, None);
        let late = Store::open(&address).unwrap();
        let mut update = late.update().unwrap();
        update.insert_batch(&keys(100..110)).unwrap().complete().unwrap();
        let change = Change {
            base: 2,
            operation: "insert".to_owned(),
            token: token.clone(),
            sealed: update.seal().unwrap(),
        };
        proxy::plan(&prefix, Fault::Held, 0, 1, "PUT");
        let outcome = std::thread::scope(|scope| {
            let commit = scope.spawn(|| late.commit(&change));
            proxy::await_request(&prefix);
            for part in 1..4 {
                insert(&store, 10 * part..10 * (part + 1), None);
            }
            store.vacuum(&Vacuum::default().grace(AT_ONCE)).unwrap();
            let log = store.log().unwrap();
            assert!(log[0].number > 3, "its number is free again");
            proxy::relent(&prefix);
            commit.join().unwrap()
        });
        match (&token, outcome) {
            (Some(_), Err(Error::Expired { base: 2, .. })) => {}
            (None, Err(error @ Error::Overtaken { version: 3, .. })) => {
                assert_eq!(error.kind(), ErrorKind::Unknown);
            }
            (_, outcome) => panic!("{token:?}: {outcome:?}"),
        }
        // It is in no history. The next vacuum removes what was put, with the version of the vacuum before.
        assert!(matches!(store.version(3), Err(Error::NoSuchVersion { .. })));
        assert!(store.log().unwrap().iter().all(|version| version.number > 3));
        assert!(is_there(&store, 0..40));
        assert!(!store.read().unwrap().contains(keys(100..101)[0]).unwrap());
        assert_eq!(store.vacuum(&Vacuum::default().grace(AT_ONCE)).unwrap().versions, 2);
        assert!(matches!(insert(&store, 100..110, token), Committed::New(_)));
    }
}

#[test]
fn a_bucket_that_is_missing_is_named() {
    // Starts the proxy.
    place();
    let missing = of_script("GOWK_TEST_BUCKET").replace("gowk-test", "gowk-none") + "/x";
    for outcome in [Store::open(&missing), Store::create(&missing, 2, &options())] {
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("no such bucket") && error.contains(&missing), "{error}");
    }
}

/// A server that ignores the condition of each third create.
#[test]
fn a_server_that_lets_two_creates_succeed_is_refused() {
    let (prefix, address) = place();
    // The answers of all later creates are lies.
    proxy::plan(&prefix, Fault::Told(200), 5, usize::MAX, "PUT");
    let refused = Store::create(&address, 2, &options());
    proxy::relent(&prefix);
    assert!(refused.is_err(), "{refused:?}");
}

/// A server that does not know the condition of a put.
#[test]
fn a_server_that_ignores_conditions_is_refused_and_no_store_is_left() {
    let (prefix, address) = place();
    proxy::plan(&prefix, Fault::Unconditional, 0, usize::MAX, "PUT");
    let refused = Store::create(&address, 2, &options());
    let puts = proxy::relent(&prefix).len();
    assert!(matches!(refused, Err(Error::Unsafe { winners, .. }) if winners > 1), "{puts}: {refused:?}");
    assert!(matches!(Store::open(&address), Err(Error::NotAStore { .. })));
    // The same place serves once the server does.
    Store::create(&address, 2, &options()).unwrap();
}

/// Writers whose puts of versions lose their answers now and then, and who commit each batch a second time, as if they had not
/// heard that it was made.
#[test]
fn of_eight_writers_of_the_same_keys_each_key_is_new_to_one() {
    const KEYS: u32 = 2000;
    let (prefix, address) = place();
    Store::create(&address, 2, &options()).unwrap();
    proxy::plan(&prefix, Fault::Lost, 2, 8, &format!("PUT {}/{prefix}/versions/", path_of_bucket()));
    let commit = |store: &Store, own: u32, batch: u32| -> Result<Vec<bool>, Error> {
        let (application, number) = (format!("w{own}"), u64::from(batch) + 1);
        let keys = keys(500 * batch..500 * (batch + 1));
        let mut update = store.update_of(store.before(&application, number)?);
        let first = update.insert_batch(&keys)?.mask();
        let (_, again) =
            update.commit_rebased("insert", Some(Token::new(application, number)), &|_, _| {})?;
        let is_new = |(key, new): (&[u8; 4], bool)| new && !again.has(store.hash(key).unwrap());
        Ok(keys.iter().zip(first).map(is_new).collect())
    };
    let new: Vec<u32> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|own| {
                let (address, commit) = (&address, &commit);
                scope.spawn(move || {
                    let store = Store::open_with(address, &options()).unwrap();
                    let mut new = Vec::new();
                    for batch in 0..KEYS / 500 {
                        let told = loop {
                            match commit(&store, own, batch) {
                                Err(Error::Unknown { .. }) => {}
                                outcome => break outcome.unwrap(),
                            }
                        };
                        assert_eq!(commit(&store, own, batch).unwrap(), told, "writer {own}, batch {batch}");
                        new.extend((500 * batch..).zip(told).filter(|(_, new)| *new).map(|(key, _)| key));
                    }
                    new
                })
            })
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    assert!(proxy::relent(&prefix).len() > 10);
    assert_eq!(new.len() as u32, KEYS);
    assert!(new.iter().collect::<BTreeSet<_>>().into_iter().copied().eq(0..KEYS));
    assert!(is_there(&Store::open_with(&address, &options()).unwrap(), 0..KEYS));
}
