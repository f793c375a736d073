//! Requests that fail: each one of a commit, an update, a fold and a vacuum, once or for good.
//!
//! A call is made again and again with a fault at its first request, its second, and so on, until it makes fewer. So no
//! request of it is left out. After each call the store is whole, and the same call succeeds.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use gowk::Batches as _;
use gowk::store::{Committed, Error, Store, Token, Vacuum};

use super::proxy::{self, Fault};
use super::{
    AT_ONCE, cached, endpoint, events, has_credential, has_s3, insert, is_at, is_there, keys, listing,
    of_script, options, place,
};

const FAULTS: [Fault; 11] = [
    Fault::Answer(500),
    Fault::Answer(503),
    Fault::Answer(403),
    Fault::Answer(404),
    Fault::Answer(409),
    Fault::Answer(412),
    Fault::Told(500),
    Fault::Told(409),
    Fault::Reset,
    Fault::Lost,
    Fault::Garbage,
];

/// Of those that end a call soon if they last: others are repeated for a minute.
const LASTING: [Fault; 4] = [Fault::Answer(403), Fault::Answer(404), Fault::Answer(409), Fault::Answer(412)];

/// What is called while requests fail. Each begins with the opening of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    /// A commit of a run.
    Insert,
    /// An update that writes a shard anew.
    Rewrite,
    /// All runs are folded into the shard.
    Fold,
    /// A vacuum that removes versions, files and an upload.
    Vacuum,
}

impl Call {
    /// Requests that it makes at least, if none fails.
    fn least(self) -> usize {
        match self {
            Self::Insert => 7,
            Self::Rewrite => 8,
            Self::Fold => 7,
            // Three about uploads.
            Self::Vacuum => {
                if is_at("s3") {
                    23
                } else {
                    20
                }
            }
        }
    }
}

/// A store of its own for failures, and its prefix.
struct Failing {
    prefix: String,
    address: PathBuf,
    store: Store,
}

impl Failing {
    fn new() -> Self {
        let (prefix, address) = place();
        let store = Store::create(&address, 1, &options()).unwrap();
        insert(&store, 0..10, None);
        Self { prefix, address, store }
    }

    /// The bucket has each version that the newest one keeps, all files that this names, and nothing but these after a
    /// vacuum.
    fn is_whole(&self) {
        let store = Store::open_with(&self.address, &options()).unwrap();
        let log: Vec<u64> = store.log().unwrap().iter().map(|version| version.number).collect();
        let newest = store.newest().unwrap();
        assert!(log.iter().is_sorted() && log.last() == Some(&newest.number), "{log:?}");
        // What the process has put must come from the server.
        let names = newest.shards.values().map(|file| file.file_name());
        let names: Vec<_> = names.chain(newest.runs.iter().map(|run| run.file_name())).collect();
        for file in cached().iter().filter(|file| names.iter().any(|name| file.ends_with(name))) {
            std::fs::remove_file(file).unwrap();
        }
        let reports = store.read().unwrap().verify(&|_, _| {}).unwrap();
        assert!(
            reports.len() == names.len() && reports.iter().all(|(_, report)| report.is_ok()),
            "{reports:?}"
        );
        for _ in 0..2 {
            store.vacuum(&Vacuum::default().grace(AT_ONCE)).unwrap();
        }
        let told = store.vacuum(&Vacuum::default().grace(AT_ONCE)).unwrap();
        assert_eq!((told.files, told.uploads, told.foreign), (0, 0, 0), "{told:?}");
    }

    /// Begins an upload in parts that nobody finishes, of the name of a sealed file; at S3, where a vacuum removes it.
    fn begin_upload(&self) {
        if !has_s3("an upload that nobody finishes, and that a vacuum gives up") {
            return;
        }
        let newest = self.store.newest().unwrap();
        let name = newest.shards.values().next().unwrap().file_name();
        let mut server = TcpStream::connect(of_script("GOWK_TEST_SERVER")).unwrap();
        let bucket = of_script("GOWK_TEST_BUCKET").replace("s3://", "");
        write!(
            server,
            "POST /{bucket}/{}/shards/0000/{name}?uploads HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\
             Authorization: AWS gowk-test-key:x\r\nConnection: close\r\n\r\n",
            self.prefix
        )
        .unwrap();
        let mut told = String::new();
        server.read_to_string(&mut told).unwrap();
        assert!(told.contains("<UploadId>"), "{told}");
    }
}

/// Runs all cases, some side by side: each of these on a store of its own, with 1,000 keys of its own.
fn side_by_side<T: Sync>(cases: &[T], run: impl Fn(&Failing, &T, Range<u32>) + Sync) {
    let next = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..cases.len().min(6) {
            let failing = Failing::new();
            let (next, run) = (&next, &run);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(number as usize) else { break };
                    run(&failing, case, 1000 * (number + 1)..1000 * (number + 2));
                    assert!(is_there(&failing.store, 0..10));
                }
                failing.is_whole();
            });
        }
    });
}

/// What a call returns shows no credential, as text or to who debugs. The requests themselves are signed, and have the
/// name of the key in them.
fn has_no_credential<T: std::fmt::Debug>(outcome: &Result<T, Error>) {
    let text = outcome.as_ref().err().map(|error| error.to_string());
    let told = format!("{outcome:?} {text:?}");
    assert!(!has_credential(&told), "{told}");
    events::check_all();
}

type Told = BTreeMap<String, u32>;

/// Calls with a fault at one request after the other. Counts what the calls told.
fn fail_each(faults: &[Fault], calls: &[Call], count: usize) -> Told {
    let cases: Vec<_> = faults.iter().flat_map(|fault| calls.iter().map(|call| (*fault, *call))).collect();
    let (told, most) = (Mutex::new(Told::new()), Mutex::new(BTreeMap::new()));
    side_by_side(&cases, |failing, &(fault, call), own| {
        let mut keys = own.step_by(10).map(|first| first..first + 10);
        let mut from = 0;
        loop {
            let own = keys.next().unwrap();
            let (sort, seen) = match call {
                Call::Insert | Call::Rewrite => {
                    fail_commit(failing, fault, call == Call::Rewrite, (from, count), own)
                }
                Call::Fold | Call::Vacuum => fail_care(failing, fault, call, (from, count), own),
            };
            *told.lock().unwrap().entry(format!("{call:?} {fault:?} {sort}")).or_default() += 1;
            if seen <= from {
                break;
            }
            from += 1;
        }
        assert!(from >= call.least(), "{call:?} {fault:?}: {from} requests");
        let mut most = most.lock().unwrap();
        let known = most.entry(format!("{call:?}")).or_insert(0);
        *known = from.max(*known);
    });
    let told = told.into_inner().unwrap();
    println!(
        "{told:#?}\nrequests of a call that failed, one after the other: {:?}",
        most.into_inner().unwrap()
    );
    told
}

/// A commit with a fault at some request; what it told, and how many requests it made.
fn fail_commit(
    failing: &Failing,
    fault: Fault,
    rewrites: bool,
    (from, count): (usize, usize),
    own: Range<u32>,
) -> (&'static str, usize) {
    let Failing { prefix, address, store } = failing;
    let token = Token::new(format!("a{}", own.start), 1);
    proxy::plan(prefix, fault, from, count, "");
    let outcome = (|| {
        let late = Store::open(address)?;
        let update = late.update()?;
        let mut update = if rewrites { update.rewriting() } else { update };
        update.insert_batch(&keys(own.clone()))?.complete()?;
        update.commit("insert", Some(token.clone()))
    })();
    let seen = proxy::relent(prefix);
    let how = format!("{fault:?} {rewrites} {from} {count}: {outcome:?} {seen:#?}");
    has_no_credential(&outcome);
    let is_made = store.newest().unwrap().tokens.contains_key(&token.application);
    let sort = match &outcome {
        Ok(Committed::New(_) | Committed::Already(_)) => {
            assert!(is_made, "{how}");
            "made"
        }
        Err(error) => {
            is_clear(error, address, fault);
            if matches!(error, Error::Unknown { .. }) {
                "unknown"
            } else {
                assert!(!is_made, "{how}");
                "failed"
            }
        }
        Ok(Committed::Unchanged) => panic!("{how}"),
    };
    // The same commit again, from the beginning.
    let mut update = store.update_of(store.before(&token.application, 1).unwrap());
    let new = update.insert_batch(&keys(own.clone())).unwrap();
    assert_eq!(new.mask(), [true; 10], "{how}");
    new.complete().unwrap();
    match update.commit("insert", Some(token)).unwrap() {
        Committed::New(_) => assert!(!is_made, "{how}"),
        Committed::Already(_) => assert!(is_made, "{how}"),
        Committed::Unchanged => panic!("{how}"),
    }
    assert!(is_there(store, own), "{how}");
    (sort, seen.len())
}

/// A fold or a vacuum with a fault at some request; what it told, and how many requests it made.
fn fail_care(
    failing: &Failing,
    fault: Fault,
    call: Call,
    (from, count): (usize, usize),
    own: Range<u32>,
) -> (&'static str, usize) {
    let Failing { prefix, address, store } = failing;
    if call == Call::Vacuum {
        let mut update = store.update().unwrap().rewriting();
        update.insert_batch(&keys(own.clone())).unwrap().complete().unwrap();
        update.commit("insert", None).unwrap();
        failing.begin_upload();
    } else {
        insert(store, own.clone(), None);
    }
    let care = |store: &Store| match call {
        Call::Vacuum => store.vacuum(&Vacuum::default().grace(AT_ONCE)).map(drop),
        _ => store.compact(true, &|_, _| {}).map(drop),
    };
    proxy::plan(prefix, fault, from, count, "");
    let outcome = Store::open(address).and_then(|late| care(&late));
    let seen = proxy::relent(prefix);
    let how = format!("{call:?} {fault:?} {from} {count}: {outcome:?} {seen:#?}");
    has_no_credential(&outcome);
    if let Err(error) = &outcome {
        is_clear(error, address, fault);
    }
    assert!(is_there(store, own.clone()), "{how}");
    care(store).unwrap();
    assert!(is_there(store, own), "{how}");
    (if outcome.is_ok() { "made" } else { "failed" }, seen.len())
}

/// An error names the store, and what the server did or sent.
fn is_clear(error: &Error, address: &Path, fault: Fault) {
    let told = error.to_string();
    let says: &[&str] = match fault {
        // Some objects may be absent. A listing that shows a version which is absent shows a vacuum.
        Fault::Answer(404) | Fault::Told(404) => &[
            "answered 404",
            "no such object",
            "not a store",
            "not found",
            "missing, although",
            "holds no version",
            "versions keep being removed",
        ],
        Fault::Answer(status) | Fault::Told(status) => &[&format!("the server answered {status}")],
        Fault::Reset | Fault::Lost => &["the connection broke", "cannot be reached"],
        Fault::Hang => &["the server did not answer in time"],
        Fault::Garbage => {
            &["the server's answer cannot be read", "its checksum does not match", "its length is"]
        }
        Fault::Held | Fault::Unconditional => &[],
    };
    let is_named = told.contains(address.to_str().unwrap());
    assert!(is_named && says.iter().any(|says| told.contains(says)), "{fault:?}: {told}");
}

/// Each request of a commit with a run, and of one that rewrites a shard, fails once or for good.
#[test]
fn a_request_of_a_commit_that_fails_leaves_no_doubt_that_is_not_told() {
    let calls = [Call::Insert, Call::Rewrite];
    let told = fail_each(&FAULTS, &calls, 1);
    fail_each(&LASTING, &calls, usize::MAX);
    for call in calls {
        for sort in ["made", "failed"] {
            let is = |key: &String| key.starts_with(&format!("{call:?}")) && key.ends_with(sort);
            assert!(told.keys().any(is), "{call:?} {sort}: {told:?}");
        }
    }
    // Requests are repeated for long: of some only.
    let from: Vec<usize> = (0..Call::Insert.least()).step_by(2).collect();
    side_by_side(&from, |failing, from, own| {
        fail_commit(failing, Fault::Reset, false, (*from, usize::MAX), own.start..own.start + 10);
    });
}

/// Each request of a fold fails once or for good.
#[test]
fn a_request_of_a_fold_that_fails_changes_no_answer() {
    fail_each(&FAULTS, &[Call::Fold], 1);
    fail_each(&LASTING, &[Call::Fold], usize::MAX);
}

/// Each request of a vacuum fails once or for good.
#[test]
fn a_request_of_a_vacuum_that_fails_removes_nothing_that_is_needed() {
    fail_each(&FAULTS, &[Call::Vacuum], 1);
    fail_each(&LASTING, &[Call::Vacuum], usize::MAX);
}

/// Each request of all these is never answered. A process of its own waits 3 seconds for answers, and not a minute.
#[test]
fn a_server_that_hangs_leaves_no_doubt_that_is_not_told() {
    const HANGS: &str = "GOWK_TEST_HANGS";
    if std::env::var_os(HANGS).is_some() {
        fail_each(&[Fault::Hang], &[Call::Insert, Call::Rewrite, Call::Fold, Call::Vacuum], 1);
        return;
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "failures::a_server_that_hangs_leaves_no_doubt_that_is_not_told", "--nocapture"])
        .env(HANGS, "")
        .env("GOWK_TEST_PROXY", free.to_string())
        .envs([endpoint(&free.to_string())])
        .envs(["AWS_TIMEOUT", "GOOGLE_TIMEOUT", "AZURE_TIMEOUT"].map(|name| (name, "3s")))
        .status();
    assert!(status.unwrap().success());
}

/// Listings fail for good, and all other requests succeed: as without the right to list, and as of a server that is
/// unwell. The first listing of a call fails, or only later ones.
#[test]
fn listings_that_fail_for_good_are_named_and_nothing_is_lost() {
    let mut cases = Vec::new();
    for status in [403, 500] {
        cases.extend(["open", "create"].map(|what| (status, what, 0)));
        cases.extend((0..4).map(|from| (status, "commit", from)));
        // Of the six listings of objects, those of versions, drafts, shards and runs.
        cases.extend((0..6).map(|from| (status, "vacuum", from)));
    }
    if has_s3("listings of uploads that fail") {
        // With 501, as of a server that does not know this listing.
        cases.extend([403, 500, 501].map(|status| (status, "uploads", 0)));
    }
    let reached = Mutex::new(Told::new());
    side_by_side(&cases, |Failing { prefix, address, store }, &(status, what, from), own| {
        let own = own.start..own.start + 10;
        insert(store, own.start..own.start + 5, None);
        let token = Token::new(format!("a{}", own.start), 1);
        let update = |store: &Store| {
            let mut update = store.update().unwrap();
            update.insert_batch(&keys(own.start + 5..own.end)).unwrap().complete().unwrap();
            update
        };
        let ready = update(store);
        let like = if what == "uploads" { "?uploads=" } else { listing() };
        proxy::plan(prefix, Fault::Answer(status), from, usize::MAX, like);
        let outcome = match what {
            "open" => Store::open(address).and_then(|store| store.newest()).map(drop),
            "create" => Store::create(address, 1, &options()).map(drop),
            "commit" => ready.commit("insert", Some(token.clone())).map(drop),
            _ => store.vacuum(&Vacuum::default().grace(AT_ONCE)).map(|told| {
                assert!(
                    told.uploads_hidden == (what == "uploads" || is_at("gs")) && status != 500,
                    "{told:?}"
                );
            }),
        };
        let seen = proxy::relent(prefix);
        let how = format!("{status} {what} {from}: {outcome:?} {seen:#?}");
        has_no_credential(&outcome);
        let is_made = store.newest().unwrap().tokens.contains_key(&token.application);
        match &outcome {
            Ok(()) if what == "uploads" => {}
            // Who merges runs after a commit gives way.
            Ok(()) if what == "commit" => assert!(is_made && from > 1, "{how}"),
            Ok(()) => assert!(seen.len() <= from, "{how}"),
            Err(error) => {
                // What was listed, and what the server said.
                let (told, place) = (error.to_string(), address.to_str().unwrap());
                let (listed, answered) =
                    (": cannot list", format!(": the server answered {status} (Injected)"));
                assert!(
                    told.starts_with(place) && told.contains(listed) && told.contains(&answered),
                    "{told}"
                );
                assert!(seen.len() > from, "{how}");
                assert!(!is_made || matches!(error, Error::Unknown { .. }), "{how}");
            }
        }
        let sort = if outcome.is_err() { "failed" } else { "made" };
        *reached.lock().unwrap().entry(format!("{status} {what} {from} {sort}")).or_default() += 1;
        assert!(is_there(store, own.start..own.start + 5), "{how}");
        let mut again = store.update_of(store.before(&token.application, 1).unwrap());
        again.insert_batch(&keys(own.start + 5..own.end)).unwrap().complete().unwrap();
        assert!(!matches!(again.commit("insert", Some(token)).unwrap(), Committed::Unchanged), "{how}");
        store.vacuum(&Vacuum::default().grace(AT_ONCE)).unwrap();
        assert!(is_there(store, own), "{how}");
    });
    let reached = reached.into_inner().unwrap();
    println!("{reached:#?}");
    for status in [403, 500] {
        for what in ["open 0", "create 0", "commit 0", "commit 1", "vacuum 0", "vacuum 5"] {
            assert!(reached.contains_key(&format!("{status} {what} failed")), "{status} {what}: {reached:?}");
        }
    }
    for sort in ["403 uploads 0 made", "501 uploads 0 made", "500 uploads 0 failed"] {
        assert!(!is_at("s3") || reached.contains_key(sort), "{sort}: {reached:?}");
    }
}

/// A server that answers nothing but 500 is asked so often, and no more.
#[test]
fn retries_end() {
    type Call = fn(&Store, &std::path::Path) -> Result<(), Error>;
    fn commit(store: &Store) -> Result<(), Error> {
        let mut update = store.update()?;
        update.insert_batch(&keys(100..110))?.complete()?;
        update.commit("insert", None).map(drop)
    }
    // Every request is tried 9 times. After a put in doubt, the version is read.
    let cases: [(&str, usize, Call); 5] = [
        ("/store.toml", 9, |_, address| Store::open(address).map(drop)),
        (listing(), 9, |store, _| store.newest().map(drop)),
        ("/runs/", 9, |store, _| commit(store)),
        ("/versions/000000000003.toml", 9 + 9, |store, _| commit(store)),
        ("?uploads=", 9, |store, _| store.vacuum(&Vacuum::default().grace(AT_ONCE)).map(drop)),
    ];
    std::thread::scope(|scope| {
        let own = cases
            .into_iter()
            .filter(|(like, ..)| *like != "?uploads=" || has_s3("tries of a listing of uploads"));
        for (like, times, call) in own {
            scope.spawn(move || {
                let (prefix, address) = place();
                let store = Store::create(&address, 1, &options()).unwrap();
                insert(&store, 0..10, None);
                proxy::plan(&prefix, Fault::Answer(500), 0, usize::MAX, like);
                let called = std::thread::spawn(move || call(&store, &address));
                let are_more = proxy::await_requests(&prefix, times + 1, || called.is_finished());
                let seen = proxy::relent(&prefix);
                assert!(!are_more && seen.len() == times, "{like}: {} requests", seen.len());
                let outcome = called.join().unwrap();
                has_no_credential(&outcome);
                let told = outcome.unwrap_err();
                assert!(told.to_string().contains("the server answered 500 (Injected)"), "{told}");
                let is_put = like.contains("/versions/");
                assert_eq!(matches!(told, Error::Unknown { .. }), is_put, "{told}");
            });
        }
    });
}
