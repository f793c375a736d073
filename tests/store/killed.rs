//! A process that dies before each of its calls to the disk in turn, while it adds runs, merges them, folds shards and
//! vacuums.
//!
//! Invariants checked, after each death:
//!
//! 1. The newest version is whole, and so is every version that must stay. It has all keys of every reported commit, and
//!    all keys or none of each other commit.
//! 2. The same steps can be repeated to their end, the commits with their tokens. Then each key has exactly as many
//!    copies as were inserted.
//! 3. A fold of everything leaves no run, and a vacuum exactly the newest version and its files.
//!
//! The process dies before every third call, or before each with `GOWK_THOROUGH=1`. That the test can fail: a fold that
//! does not record what it has folded, and a token that is forgotten, break invariant 2.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gowk::disk::{Disk, SystemDisk};
use gowk::store::{Committed, Error, Store, Token, Vacuum};
use gowk::{Batches, Lookup, Options, SlotsPerBucket};

use crate::images::is_tidy;
use crate::thorough;

/// The variable with the call before which the process dies, and the store.
const DIES: &str = "GOWK_TEST_DIES";
/// How many keys a commit has; every second one is also in the next commit.
const KEYS: u64 = 20;
/// Enough commits that their runs are merged.
const BEFORE: u64 = 10;
const COMMITS: u64 = 14;
/// The number of a commit with other keys, with so many of one shard that it writes the shard's file.
const MANY: u64 = 11;

#[derive(Debug, Default)]
struct Dying {
    at: usize,
    calls: AtomicUsize,
}

impl Dying {
    fn call(&self) {
        if self.calls.fetch_add(1, Ordering::Relaxed) == self.at {
            std::process::abort();
        }
    }
}

impl Disk for Dying {
    fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        self.call();
        SystemDisk.create(path, mode)
    }
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.call();
        SystemDisk.write_at(file, bytes, offset)
    }
    fn read_at(&self, file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.call();
        SystemDisk.read_at(file, bytes, offset)
    }
    fn set_len(&self, file: &File, length: u64) -> io::Result<()> {
        self.call();
        SystemDisk.set_len(file, length)
    }
    fn allocate(&self, file: &File, length: u64) -> io::Result<()> {
        self.call();
        SystemDisk.allocate(file, length)
    }
    // This test does not cut the power.
    fn sync(&self, _: &File) -> io::Result<()> {
        self.call();
        Ok(())
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        self.call();
        Ok(())
    }
    fn rename(&self, from: &Path, to: &Path, replace: bool) -> io::Result<()> {
        self.call();
        SystemDisk.rename(from, to, replace)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call();
        SystemDisk.link(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call();
        SystemDisk.remove(path)
    }
}

fn options() -> Options {
    // No false positives at these sizes. A counting store shows records that count twice.
    Options::new().counting().capacity(100).seed(3).slots_per_bucket(SlotsPerBucket::Two)
}

fn keys(store: &Store, commit: u64) -> Vec<[u8; 8]> {
    if commit == MANY {
        return many(store);
    }
    (commit * KEYS / 2..commit * KEYS / 2 + KEYS).map(u64::to_le_bytes).collect()
}

/// The fewest keys with which a commit certainly writes the file.
fn many(store: &Store) -> Vec<[u8; 8]> {
    let is_of_first = |key: &[u8; 8]| store.description().shard_of(store.hash(key).unwrap()) == 0;
    (1 << 20..).map(u64::to_le_bytes).filter(is_of_first).take(8192).collect()
}

fn copies(commits: u64, key: u64) -> u32 {
    let has = |commit: &u64| *commit != MANY && (commit * KEYS / 2..commit * KEYS / 2 + KEYS).contains(&key);
    (0..commits).filter(has).count() as u32
}

/// Performs all steps; calls `told` after each commit.
fn all_steps(store: &Store, mut told: impl FnMut(u64)) -> Result<(), Error> {
    let mut commit = |number: u64| -> Result<(), Error> {
        if store.newest()?.tokens.get("a").is_some_and(|done| done.number > number + 1) {
            return Ok(());
        }
        let mut update = store.update_of(store.before("a", number + 1)?);
        update.insert_batch(&keys(store, number))?.complete()?;
        let token = Some(Token::new("a", number + 1));
        if let (Committed::New(version), _) = update.commit_rebased("insert", token, &|_, _| {})? {
            let has_written = version.shards.values().any(|file| file.since == version.number);
            assert_eq!(has_written, number == MANY);
        }
        told(number);
        Ok(())
    };
    let vacuum = || store.vacuum(&Vacuum::default().keep(2).grace(Duration::ZERO)).map(drop);
    (0..BEFORE).try_for_each(&mut commit)?;
    store.compact(true, &|_, _| {})?;
    (BEFORE..COMMITS - 1).try_for_each(&mut commit)?;
    vacuum()?;
    store.compact(true, &|_, _| {})?;
    commit(COMMITS - 1)?;
    vacuum()
}

/// The child process's part. Does nothing without a role, as the test harness also runs it by itself.
#[test]
fn what_the_process_does() {
    let Ok(asked) = std::env::var(DIES) else { return };
    let (at, path) = asked.split_once(':').unwrap();
    let disk = Arc::new(Dying { at: at.parse().unwrap(), ..Dying::default() });
    let store = Store::open_with(path, &options().disk(disk.clone())).unwrap();
    let tell = |line: &str| {
        let mut out = io::stdout().lock();
        writeln!(out, "\n@{line}").and_then(|()| out.flush()).unwrap();
    };
    all_steps(&store, |number| tell(&format!("done {number}"))).unwrap();
    tell(&format!("calls {}", disk.calls.load(Ordering::Relaxed)));
}

/// Starts the process. Returns its reported commits, and the number of its calls if it reached its end.
fn dies_at(at: usize, path: &Path) -> (u64, Option<usize>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::what_the_process_does", "--nocapture", "--test-threads", "1"])
        .env(DIES, format!("{at}:{}", path.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut reported, mut calls) = (0, None);
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        match line.strip_prefix('@').and_then(|line| line.split_once(' ')) {
            Some(("done", number)) => reported = number.parse::<u64>().unwrap() + 1,
            Some(("calls", number)) => calls = Some(number.parse().unwrap()),
            _ => {}
        }
    }
    let ended = child.wait().unwrap();
    assert_eq!(ended.success(), calls.is_some());
    (reported, calls)
}

/// How many commits the store has. Checks that each is whole.
fn look(store: &Store) -> Result<u64, Error> {
    let newest = store.newest()?;
    let bases = newest.tokens.values().map(|done| done.base);
    for number in (newest.first..=newest.number).chain(bases) {
        for (_, report) in store.read_version(store.version(number)?).verify(&|_, _| {})? {
            assert!(report?.is_clean());
        }
    }
    let (reader, commits) = (store.read()?, newest.tokens.get("a").map_or(0, |done| done.number));
    for key in 0..KEYS * COMMITS {
        assert_eq!(reader.count(key.to_le_bytes())?, copies(commits, key), "key {key}, {commits} commits");
    }
    for key in many(store) {
        assert_eq!(reader.count(key)?, u32::from(commits > MANY), "{commits} commits");
    }
    Ok(commits)
}

#[test]
fn a_death_before_any_call_leaves_a_whole_store_that_goes_on() {
    if crate::needs_a_folder("dies before calls to the disk") {
        return;
    }
    let fresh = || {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        Store::create(dir.path().join("s"), 2, &options()).unwrap();
        dir
    };
    let dir = fresh();
    let (reported, calls) = dies_at(usize::MAX, &dir.path().join("s"));
    let calls = calls.unwrap();
    assert!(reported == COMMITS && calls > 300, "{calls}");
    let log = Store::open(dir.path().join("s")).unwrap().log().unwrap();
    assert!(log.iter().any(|version| version.operation == "vacuum"));
    let stride = thorough::size("step between the calls that the process dies before", 3, 1);
    for at in (0..calls).step_by(stride) {
        let dir = fresh();
        let (reported, end) = dies_at(at, &dir.path().join("s"));
        assert_eq!(end, None, "call {at}");
        let store = Store::open(dir.path().join("s")).unwrap();
        let found = look(&store).unwrap_or_else(|error| panic!("call {at}: {error}"));
        assert!(
            found == reported || found == reported + 1,
            "call {at}: {found} commits, {reported} reported"
        );
        all_steps(&store, |_| {}).unwrap_or_else(|error| panic!("call {at}: again: {error}"));
        assert_eq!(look(&store).unwrap(), COMMITS, "call {at}");
        store.compact(true, &|_, _| {}).unwrap();
        store.vacuum(&Vacuum::default().grace(Duration::ZERO)).unwrap();
        assert_eq!(look(&store).unwrap(), COMMITS, "call {at}");
        assert!(store.newest().unwrap().runs.is_empty());
        is_tidy(&store).unwrap();
    }
    println!("{calls} calls");
}
