//! Processes of the tool, killed with SIGKILL.
//!
//! Invariants checked, alternately on sets and counting filters:
//!
//! 1. After a kill at any moment, the filter opens, is whole, and has every key of every reported commit.
//! 2. No temporary file is left. A clean close leaves an empty journal.
//! 3. A reader beside a writer never reports a committed key absent, whether the writer inserts, doubles the file, or is
//!    killed.
//!
//! 30 kills, or 100 with `GOWK_THOROUGH=1`. `GOWK_KILLS=2000 cargo test --release --test cli kills -- --nocapture` makes
//! 2000 in all. `GOWK_HAMMER=60` looks keys up for a minute beside a live writer, and prints the longest lookup.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gowk::{Kind, Lookup, Options, Reader};

use crate::thorough;

/// How many kills a test makes: `share` tenths of all kills.
fn kills(share: u64) -> u64 {
    let all = std::env::var("GOWK_KILLS").ok().and_then(|kills| kills.parse().ok());
    let all = all.unwrap_or_else(|| thorough::size("kills", 30, 100));
    let kills = all * share / 10;
    // Avoids `println!`, which the test harness captures.
    let _ = writeln!(std::io::stderr(), "{kills} of {all} kills");
    kills
}

/// Random points in time.
struct Random(u64);

impl Random {
    fn new() -> Self {
        Self(thorough::seed(1))
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn key(i: u64) -> String {
    format!("key-{i}")
}

fn write_keys(path: &Path, keys: u64) {
    let mut file = BufWriter::new(File::create(path).unwrap());
    for i in 0..keys {
        writeln!(file, "{}", key(i)).unwrap();
    }
    file.flush().unwrap();
}

fn start_insert(filter: &Path, keys: &Path, commit_every: u64) -> Child {
    Command::new(env!("CARGO_BIN_EXE_gowk"))
        .args(["insert", "--json", "--wait", "--commit-every", &commit_every.to_string(), "--input"])
        .args([keys, filter])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The keys that a line of `--json` reports as committed.
fn reported(line: &str) -> Option<u64> {
    if line.starts_with(r#"{"event":"summary""#) {
        return None;
    }
    assert!(line.starts_with(r#"{"event":"commit","number":"#), "{line}");
    Some(line.rsplit(':').next().unwrap().trim_end_matches('}').parse().unwrap())
}

/// Kills an insert some time after its n-th reported commit. Returns the keys reported until then.
fn kill_after(mut child: Child, commits: u64, more: Duration) -> u64 {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut committed = 0;
    for _ in 0..commits {
        let line = lines.next().expect("the insert ended by itself");
        committed = reported(&line.unwrap()).expect("the insert ended by itself");
    }
    std::thread::sleep(more);
    child.kill().unwrap();
    child.wait().unwrap();
    // Keys reported between the last line read and the kill are also committed.
    for line in lines.map_while(Result::ok).filter(|line| line.ends_with('}')) {
        committed = reported(&line).unwrap_or(committed);
    }
    committed
}

fn check_whole(filter: &Path, committed: u64) {
    let reader = Reader::open(filter).unwrap();
    for i in 0..committed {
        assert!(reader.contains(key(i).as_bytes()).unwrap(), "key {i} of {committed} is lost");
    }
    let report = reader.verify(&|_, _| {}).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

const KINDS: [Kind; 2] = [Kind::Set, Kind::Counting];

/// The two kinds alternate.
fn kind_of(round: u64) -> Kind {
    KINDS[round as usize % KINDS.len()]
}

fn create(filter: &Path, kind: Kind, capacity: u64) {
    Options::new().kind(kind).capacity(capacity).seed(1).create(filter).unwrap().commit().unwrap();
}

#[test]
fn killed_inserts_lose_no_reported_commit() {
    let all_keys = thorough::size("keys that killed inserts insert", 1_500_000, 5_000_000);
    let every = all_keys / 50;
    let dir = tempfile::tempdir().unwrap();
    let (filter, keys) = (dir.path().join("f.gowk"), dir.path().join("keys"));
    write_keys(&keys, all_keys);
    let mut random = Random::new();
    for round in 0..kills(2) {
        let kind = kind_of(round);
        create(&filter, kind, all_keys);
        let child = start_insert(&filter, &keys, every);
        let commits = random.below(all_keys / every);
        let committed = kill_after(child, commits, Duration::from_micros(random.below(40_000)));
        // Most commits have this many keys. A commit by time, after ten seconds, has fewer.
        assert!(commits == 0 || committed > 0);
        check_whole(&filter, committed);
        let mut writer = Options::new().open_existing(&filter).unwrap();
        let info = writer.info().unwrap();
        // A set does not store false positives: at this filter's rate, fewer than one key in a thousand.
        let unstored = if kind == Kind::Set { committed / 1000 } else { 0 };
        assert!(info.kind == kind && info.copies >= committed - unstored, "round {round}: {info:?}");
        writer.insert(b"one more").unwrap();
        writer.commit().unwrap();
        assert!(Reader::open(&filter).unwrap().info().unwrap().journal_length > 0);
        writer.close().unwrap();
        assert_eq!(Reader::open(&filter).unwrap().info().unwrap().journal_length, 0);
        std::fs::remove_file(&filter).unwrap();
    }
}

#[test]
fn killed_doublings_leave_the_old_file_or_the_new_one() {
    const KEYS: u64 = 400_000;
    const EVERY: u64 = 10_000;
    let dir = tempfile::tempdir().unwrap();
    let (filter, keys) = (dir.path().join("f.gowk"), dir.path().join("keys"));
    write_keys(&keys, KEYS);
    let mut random = Random::new();
    let mut generations = Vec::new();
    for round in 0..kills(5) {
        create(&filter, kind_of(round), 1000);
        let child = start_insert(&filter, &keys, EVERY);
        let commits = random.below(KEYS / EVERY);
        let committed = kill_after(child, commits, Duration::from_micros(random.below(8000)));
        check_whole(&filter, committed);
        let writer = Options::new().kind(kind_of(round)).open_existing(&filter).unwrap();
        generations.push(writer.info().unwrap().generation);
        drop(writer);
        let mut left: Vec<_> =
            dir.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["f.gowk", "f.gowk-journal", "f.gowk-lock", "keys"]);
        check_whole(&filter, committed);
        std::fs::remove_file(&filter).unwrap();
    }
    generations.sort_unstable();
    generations.dedup();
    assert!(generations.len() > 1, "all kills hit one generation: {generations:?}");
}

#[test]
fn readers_beside_killed_writers_never_miss_a_committed_key() {
    for kind in KINDS {
        readers_beside_killed_writers(kind, kills(3).div_ceil(KINDS.len() as u64));
    }
}

fn readers_beside_killed_writers(kind: Kind, kills: u64) {
    const EVERY: u64 = 5_000;
    let all_keys = thorough::size("keys inserted beside readers", 100_000, 300_000);
    let dir = tempfile::tempdir().unwrap();
    let (filter, keys) = (dir.path().join("f.gowk"), dir.path().join("keys"));
    write_keys(&keys, all_keys);
    let mut random = Random::new();
    create(&filter, kind, 20_000);
    // Each run inserts all keys and is killed. A committed key remains committed.
    let (committed, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let lookups = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let reader = Reader::open(&filter).unwrap();
                    let mut lookups = 0u64;
                    while !done.load(Ordering::Relaxed) {
                        let keys = committed.load(Ordering::Acquire);
                        for i in (0..keys).rev().step_by(61) {
                            assert!(reader.contains(key(i).as_bytes()).unwrap(), "key {i} of {keys}");
                            lookups += 1;
                        }
                    }
                    lookups
                })
            })
            .collect();
        for _ in 0..kills {
            let child = start_insert(&filter, &keys, EVERY);
            let commits = random.below(all_keys / EVERY);
            let reported = kill_after(child, commits, Duration::from_micros(random.below(8000)));
            committed.fetch_max(reported, Ordering::Release);
        }
        done.store(true, Ordering::Relaxed);
        readers.into_iter().map(|reader| reader.join().unwrap()).sum::<u64>()
    });
    println!("{lookups} lookups beside killed writers of a {kind}");
    assert!(lookups > 0);
    check_whole(&filter, committed.into_inner());
}

/// The results of the lookups beside a live writer.
#[derive(Default)]
struct Hammered {
    commits: u64,
    doublings: u64,
    lookups: u64,
    longest: Duration,
}

/// Looks up committed keys until `done`, mostly the newest ones.
fn hammer(filter: &Path, committed: &AtomicU64, done: &AtomicBool, newest: u64) -> (u64, Duration) {
    let reader = Reader::open(filter).unwrap();
    let (mut lookups, mut longest) = (0, Duration::ZERO);
    while !done.load(Ordering::Relaxed) {
        let keys = committed.load(Ordering::Acquire);
        // The newest keys, whose regions are being written, and some older keys.
        for i in (keys.saturating_sub(newest)..keys).chain((0..keys).step_by(997)) {
            let start = Instant::now();
            assert!(reader.contains(key(i).as_bytes()).unwrap(), "key {i} of {keys}");
            longest = longest.max(start.elapsed());
            lookups += 1;
        }
    }
    (lookups, longest)
}

/// Fills small filters one after the other, each through at least four doublings, so that doublings never stop.
/// `GOWK_HAMMER=60` does so for a minute.
#[test]
fn checks_beside_a_live_writer_never_miss_a_committed_key() {
    const KEYS: u64 = 500_000;
    const EVERY: u64 = 2_000;
    let seconds = std::env::var("GOWK_HAMMER").ok().and_then(|s| s.parse().ok());
    let seconds = seconds.unwrap_or_else(|| thorough::size("seconds of lookups beside a writer", 2, 5));
    let dir = tempfile::tempdir().unwrap();
    let keys = dir.path().join("keys");
    write_keys(&keys, KEYS);
    let start = Instant::now();
    let mut all = Hammered::default();
    for round in 0.. {
        if start.elapsed() > Duration::from_secs(seconds) {
            break;
        }
        let filter = dir.path().join(format!("{round}.gowk"));
        create(&filter, kind_of(round), 1000);
        let mut child = start_insert(&filter, &keys, EVERY);
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (committed, done) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let checkers: Vec<_> =
                (0..2).map(|_| scope.spawn(|| hammer(&filter, &committed, &done, 3 * EVERY))).collect();
            for line in lines {
                let Some(keys) = reported(&line.unwrap()) else { break };
                committed.store(keys, Ordering::Release);
                all.commits += 1;
                // Each filter has doubled by then.
                let is_over = start.elapsed() > Duration::from_secs(seconds) && keys >= KEYS / 5;
                if is_over || checkers.iter().any(|c| c.is_finished()) {
                    break;
                }
            }
            done.store(true, Ordering::Relaxed);
            child.kill().unwrap();
            child.wait().unwrap();
            for checker in checkers {
                let (lookups, longest) = checker.join().unwrap();
                all.lookups += lookups;
                all.longest = all.longest.max(longest);
            }
        });
        check_whole(&filter, committed.into_inner());
        all.doublings += u64::from(Reader::open(&filter).unwrap().info().unwrap().generation);
        std::fs::remove_file(&filter).unwrap();
    }
    let Hammered { commits, doublings, lookups, longest } = all;
    let _ = writeln!(
        std::io::stderr(),
        "{lookups} lookups in {seconds} s beside {commits} commits and {doublings} doublings: \
         the longest took {longest:?}"
    );
    assert!(lookups > 0 && doublings > 0);
}
