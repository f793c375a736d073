//! Real processes that commit at the same time, and are killed.
//!
//! Invariants checked:
//!
//! 1. A commit by one of many processes is in all later versions, or was reported as a conflict. The numbers of the
//!    versions have no gap, and each version is whole.
//! 2. After SIGKILL at any moment, the newest version is whole and has every acknowledged commit.
//! 3. A repeated token is committed once.
//! 4. A vacuum then leaves exactly what the newest version names.
//! 6. A store whose commits vacuum it keeps what it must keep, and every acknowledged commit, even if processes die.
//! 5. In overlapping batches, exactly one commit calls each key new, whichever processes are killed. No process starts a
//!    batch over because of a conflict: it judges the keys again that others have inserted.
//!
//! 5 processes make 4 commits each, 30 are killed, and 2, 4 and 8 insert 12 overlapping batches each. With
//! `GOWK_THOROUGH=1`, 20 processes make 10 commits, 500 are killed, and there are 100 batches.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gowk::store::{Committed, Error, Store, Token, Vacuum};
use gowk::{Batches, Lookup, Options};

use crate::images::{Random, is_tidy};
use crate::thorough;

const SHARDS: u32 = 8;
/// How many keys a commit has.
const KEYS: u64 = 20;

fn options() -> Options {
    Options::new().capacity(1000).seed(3).false_positive_rate(1e-8)
}

/// The keys of one commit of one process, in one or two random shards.
fn keys(store: &Store, process: u64, number: u64) -> Vec<[u8; 16]> {
    let mut random = Random(process << 32 | number);
    let shards = [random.below(SHARDS as usize) as u32, random.below(SHARDS as usize) as u32];
    let key = |count: u64| {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&(process << 32 | number).to_le_bytes());
        key[8..].copy_from_slice(&count.to_le_bytes());
        key
    };
    let is_chosen = |key: &[u8; 16]| shards.contains(&store.description().shard_of(store.hash(key).unwrap()));
    (0..).map(key).filter(is_chosen).take(KEYS as usize).collect()
}

const ROLE: &str = "GOWK_TEST_ROLE";

/// Starts a process of this test binary that plays one of the roles below.
fn start(role: &str, store: &Path, process: u64, numbers: std::ops::Range<u64>) -> Child {
    let asked = format!("{role}:{process}:{}:{}:{}", numbers.start, numbers.end, store.display());
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::what_the_processes_do", "--nocapture"])
        .env(ROLE, asked)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The child process's part. Does nothing without a role, as the test harness also runs it by itself.
#[test]
fn what_the_processes_do() {
    let asked = std::env::var(ROLE).unwrap_or_else(|_| "commit:0:0:0:.".to_owned());
    let mut parts = asked.splitn(5, ':');
    let role = parts.next().unwrap();
    let mut number = || parts.next().unwrap().parse::<u64>().unwrap();
    let (process, numbers) = (number(), number()..number());
    let path = Path::new(parts.next().unwrap());
    for number in numbers {
        let store = Store::open_with(path, &options()).unwrap();
        match role {
            "commit" => commit(&store, process, number),
            "commit at last" => {
                tell(&format!("{number} version {}", commit_at_last(&store, process, number)))
            }
            "claim" => claim(&store, process, number),
            _ => work(&store, process, number),
        }
    }
}

fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n@{line}").and_then(|()| out.flush()).unwrap();
}

fn commit(store: &Store, process: u64, number: u64) {
    let mut update = store.update().unwrap();
    assert!(update.insert_batch(&keys(store, process, number)).unwrap().refused().is_empty());
    match update.commit("insert", None) {
        Ok(Committed::New(version)) => tell(&format!("{number} version {}", version.number)),
        Err(error @ Error::Conflict { .. }) => tell(&format!("{number} conflict: {error}")),
        outcome => panic!("{outcome:?}"),
    }
}

/// Commits, however often others commit first or a vacuum removes files that the update needs. Returns the version's
/// number.
fn commit_at_last(store: &Store, process: u64, number: u64) -> u64 {
    let attempt = || {
        let mut update = store.update()?;
        assert!(update.insert_batch(&keys(store, process, number))?.refused().is_empty());
        update.commit("insert", None)
    };
    loop {
        match attempt() {
            Ok(Committed::New(version)) => return version.number,
            Err(Error::Conflict { .. } | Error::Expired { .. } | Error::Vacuumed { .. }) => {}
            outcome => panic!("{outcome:?}"),
        }
    }
}

/// The keys of batch `number` in every process; half of them are also in the previous batch.
fn overlapping(number: u64) -> Vec<[u8; 8]> {
    (number * 30..number * 30 + 60).map(u64::to_le_bytes).collect()
}

/// Prints which keys of a batch are new, once they are committed as new. Also prints keys that were committed but not
/// printed before.
fn claim(store: &Store, process: u64, number: u64) {
    let (application, batch) = (format!("claim {process}"), overlapping(number));
    loop {
        let base = store.before(&application, number).unwrap();
        let mut update = store.update_of(base);
        let new = match update.insert_batch(&batch) {
            Ok(inserted) => inserted.mask(),
            Err(Error::Vacuumed { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        let token = Token::new(&*application, number);
        match update.commit_rebased("dedup", Some(token), &|_, _| {}) {
            Ok((Committed::New(_) | Committed::Already(_), again)) => {
                let is_new = |key: &[u8; 8], new: bool| new && !again.has(store.hash(key).unwrap());
                let new = batch.iter().zip(new).filter(|(key, new)| is_new(key, *new));
                let new: Vec<String> = new.map(|(key, _)| u64::from_le_bytes(*key).to_string()).collect();
                return tell(&format!("{number} new {} {}", again.known(), new.join(",")));
            }
            // The vacuum of this test gives up versions older than 200 ms.
            Err(Error::Expired { .. }) => {}
            outcome => panic!("{outcome:?}"),
        }
    }
}

/// Overlapping batches of several processes, killed and started again, beside vacuums and folds.
#[test]
fn each_key_is_new_to_exactly_one_of_many_processes() {
    let batches = thorough::size("batches of each", 12, 100);
    for processes in [2, 4, 8] {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(crate::place(&dir), SHARDS, &options()).unwrap();
        let (all, known) = claimed(&store, processes, batches);
        println!("{processes} processes: {known} keys judged again");
        assert_eq!(all, (30..30 * batches + 60).collect::<Vec<_>>(), "{processes} processes");
        let reader = store.read().unwrap();
        assert!(all.iter().all(|key| reader.contains(key.to_le_bytes()).unwrap()));
    }
}

/// All keys that this many processes call new, and how many of them each had first wrongly called new.
fn claimed(store: &Store, processes: u64, batches: u64) -> (Vec<u64>, u64) {
    let known = std::sync::atomic::AtomicU64::new(0);
    let work = &|process: u64| {
        let (mut told, mut random, mut kills) = (BTreeMap::new(), Random(thorough::seed(process)), 0);
        while (told.len() as u64) < batches {
            let mut child = start("claim", store.path(), process, 1 + told.len() as u64..1 + batches);
            let out = child.stdout.take().unwrap();
            let (patience, mut is_killed) = (random.below(6) + 1, false);
            // Reads all lines, even after the kill. Otherwise the next process would use a token below the last one,
            // which is refused.
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let Some((number, new)) = line.strip_prefix('@').and_then(|line| line.split_once(" new "))
                else {
                    continue;
                };
                let (again, new) = new.split_once(' ').unwrap();
                known.fetch_add(again.parse().unwrap(), std::sync::atomic::Ordering::Relaxed);
                let new: Vec<u64> = new.split(',').filter_map(|key| key.parse().ok()).collect();
                told.insert(number.parse::<u64>().unwrap(), new);
                if !is_killed && told.len() % patience == 0 && kills < batches / 2 {
                    // The process may be anywhere in its next batch.
                    std::thread::sleep(Duration::from_micros(random.below(20_000) as u64));
                    child.kill().unwrap();
                    (is_killed, kills) = (true, kills + 1);
                }
            }
            assert!(child.wait().unwrap().success() || is_killed, "process {process} failed");
        }
        told
    };
    let done = std::sync::atomic::AtomicBool::new(false);
    let claims: Vec<_> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                store.compact(true, &|_, _| {}).unwrap();
                store.vacuum(&Vacuum::default().keep(3).grace(Duration::from_millis(200))).unwrap();
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let workers: Vec<_> = (1..=processes).map(|process| scope.spawn(move || work(process))).collect();
        let claims = workers.into_iter().map(|worker| worker.join()).collect::<Vec<_>>();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        claims.into_iter().map(Result::unwrap).collect()
    });
    let mut all: Vec<u64> = claims.into_iter().flat_map(|told| told.into_values().flatten()).collect();
    all.sort_unstable();
    (all, known.into_inner())
}

/// Inserts, seals, commits and vacuums, until the process is killed.
fn work(store: &Store, process: u64, number: u64) {
    let mut update = store.update().unwrap();
    assert!(update.insert_batch(&keys(store, process, number)).unwrap().refused().is_empty());
    if number % 5 == 3 {
        // These files are never committed, and remain for the vacuum.
        drop(update.seal().unwrap());
        update = store.update().unwrap();
        update.insert_batch(&keys(store, process, number)).unwrap().complete().unwrap();
    }
    update.commit("insert", Some(Token::new("work", number))).unwrap();
    tell(&format!("{number} version"));
    if number % 3 == 2 {
        store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
    }
}

#[test]
fn of_many_committers_each_succeeds_or_is_told_of_a_conflict() {
    let processes = thorough::size("processes that commit", 5, 20);
    let each = thorough::size("commits of each", 4, 10);
    let dir = tempfile::tempdir().unwrap();
    let path = crate::place(&dir);
    let store = Store::create(&path, SHARDS, &options()).unwrap();
    let children: Vec<Child> =
        (1..=processes).map(|process| start("commit", &path, process, 0..each)).collect();
    let mut committed: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut conflicts = 0;
    for (process, mut child) in (1..).zip(children) {
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let Some(told) = line.strip_prefix('@') else { continue };
            let (number, how) = told.split_once(' ').unwrap();
            match how.strip_prefix("version ") {
                Some(version) => {
                    let before =
                        committed.insert(version.parse().unwrap(), (process, number.parse().unwrap()));
                    assert_eq!(before, None, "two commits report version {version}");
                }
                None => conflicts += 1,
            }
        }
        assert!(child.wait().unwrap().success());
    }
    println!("{} commits, {conflicts} conflicts", committed.len());
    assert_eq!(committed.len() as u64 + conflicts, processes * each);
    // All other versions merged runs.
    for version in store.log().unwrap().into_iter().skip(1) {
        let is_known = committed.contains_key(&version.number);
        assert_eq!(version.operation, if is_known { "insert" } else { "merge" }, "{}", version.number);
        assert!(version.runs.len() <= 9 + processes as usize);
    }
    let mut expected = Vec::new();
    for (version, (process, number)) in committed {
        expected.extend(keys(&store, process, number));
        let reader = store.read_version(store.version(version).unwrap());
        for (shard, report) in reader.verify(&|_, _| {}).unwrap() {
            assert!(report.unwrap().is_clean(), "version {version}, shard {shard:?}");
        }
        let found = reader.contains_batch(&expected).unwrap();
        assert!(found.iter().all(|found| *found), "version {version}");
        assert_eq!(reader.version().entries(), expected.len() as u64, "version {version}");
    }
}

#[test]
fn killed_processes_leave_a_whole_store() {
    let kills = thorough::size("kills", 30, 500);
    let dir = tempfile::tempdir().unwrap();
    let path = crate::place(&dir);
    let store = Store::create(&path, SHARDS, &options()).unwrap();
    let mut random = Random(thorough::seed(1));
    let (mut next, mut told, mut repeated) = (1, 0, 0);
    for _ in 0..kills {
        let mut child = start("work", &path, 1, next..next + 1000);
        // Some are killed after commits, some right after their start.
        let patience = Duration::from_micros(random.below(60_000) as u64);
        std::thread::sleep(patience);
        child.kill().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        for line in lines.filter(|line| line.ends_with(" version")) {
            let Some(number) = line.strip_prefix('@').and_then(|line| line.split(' ').next()) else {
                continue;
            };
            told = number.parse::<u64>().unwrap();
        }
        child.wait().unwrap();
        next = told.max(next - 1) + 1;
        // The token can be repeated, whether its commit was made or not.
        let mut update = store.update().unwrap();
        update.insert_batch(&keys(&store, 1, next)).unwrap().complete().unwrap();
        match update.commit("insert", Some(Token::new("work", next))).unwrap() {
            Committed::New(_) => {}
            Committed::Already(done) => {
                assert_eq!(done.number, next);
                repeated += 1;
            }
            Committed::Unchanged => panic!("unchanged"),
        }
        next += 1;
        let reader = store.read().unwrap();
        for (shard, report) in reader.verify(&|_, _| {}).unwrap() {
            assert!(report.unwrap().is_clean(), "shard {shard:?}");
        }
        let expected: Vec<_> = (1..next).flat_map(|number| keys(&store, 1, number)).collect();
        let found = reader.contains_batch(&expected).unwrap();
        assert!(found.iter().all(|found| *found), "{next}");
        let mut entries = reader.version().entries();
        if entries != expected.len() as u64 {
            // Records that only some shards have folded count twice.
            store.compact(true, &|_, _| {}).unwrap();
            entries = store.newest().unwrap().entries();
        }
        assert_eq!(entries, expected.len() as u64, "a token was committed twice");
        if random.below(4) == 0 {
            store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
            is_tidy(&store).unwrap();
        }
    }
    println!("{} tokens, {repeated} of them committed and not reported", next - 1);
    store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
    is_tidy(&store).unwrap();
}

/// A store whose commits vacuum it stays small by itself, whatever dies in between, and loses no commit.
#[test]
fn commits_vacuum_a_store_that_was_created_for_it() {
    const KEEP: u64 = 3;
    let dir = tempfile::tempdir().unwrap();
    let path = crate::place(&dir);
    let store = Store::create(&path, SHARDS, &options().auto_vacuum(KEEP, Duration::from_secs(1))).unwrap();
    assert_eq!(Store::open(&path).unwrap().description().auto_vacuum, store.description().auto_vacuum);
    let mut kept = Vec::new();
    for (round, kills) in [(0, false), (1, true), (2, false)] {
        let numbers = round * 20..(round + 1) * 20;
        let mut children: Vec<Child> =
            (1..=4).map(|process| start("commit at last", &path, process, numbers.clone())).collect();
        for (process, child) in (1..).zip(&mut children) {
            let mut commits = 0;
            for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
                let told = line.strip_prefix('@').and_then(|line| line.split_once(" version "));
                kept.extend(told.map(|(number, _)| (process, number.parse::<u64>().unwrap())));
                commits += u64::from(told.is_some());
                if kills && commits == 5 {
                    child.kill().unwrap();
                }
            }
        }
        let ended = children.iter_mut().map(|child| child.wait().unwrap().success());
        assert!(ended.map(|is_well| u64::from(is_well || kills)).sum::<u64>() == 4);
    }
    // All commits of two rounds, and at least five of each process of the other.
    assert!(kept.len() >= 180, "{} commits", kept.len());
    // Commits continue until the last ones are older than the grace.
    let start = std::time::Instant::now();
    for number in 100_u64.. {
        commit_at_last(&store, 9, number);
        kept.push((9, number));
        if store.newest().unwrap().first > kept.len() as u64 / 2 {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(100), "no commit vacuums");
        std::thread::sleep(Duration::from_millis(20));
    }
    let log = store.log().unwrap();
    assert!(log.iter().any(|version| version.operation == "vacuum") && log.len() as u64 >= KEEP);
    let expected: Vec<_> =
        kept.iter().flat_map(|(process, number)| keys(&store, *process, *number)).collect();
    let found = store.read().unwrap().contains_batch(&expected).unwrap();
    assert!(found.iter().all(|found| *found));
    // A vacuum removes exactly what it said it would remove.
    for vacuum in [Vacuum::default().keep(KEEP), Vacuum::default().grace(Duration::ZERO)] {
        let would = store.would_vacuum(&vacuum).unwrap();
        let before = store.log().unwrap();
        assert_eq!(store.would_vacuum(&vacuum).unwrap(), would);
        let removed = store.vacuum(&vacuum).unwrap();
        let counts = |of: gowk::store::Vacuumed| [of.versions, of.files, of.bytes, of.foreign];
        assert_eq!(counts(removed), counts(would), "{} versions before", before.len());
    }
    assert!(store.log().unwrap().len() == 1);
    is_tidy(&store).unwrap();
}
