//! A filter that is replaced as a whole while readers have it open.
//!
//! Invariants checked:
//!
//! 1. After `mv new live`, readers switch to the new file without an error: a batch at once, `reload` at once, single
//!    lookups through `lookups` after a while. The test prints how long that took, as it depends on the machine. A
//!    reader's own single lookups use the old file until one of these.
//! 2. After a copy is published over the filter, every reader sees it with its next lookup.
//! 3. After one thread has refreshed a shared reader, all other threads that share it see the new file with their next
//!    lookup.
//! 4. Another kind of file under the name is an error that names it, until a filter has the name again. While no file has
//!    the name, readers keep their file.
//! 5. Opening readers and looking keys up starts no thread.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use gowk::{Batches, Error, Lookup, Options, Reader, SlotsPerBucket};

use crate::thorough;

const KEYS: u64 = 3000;
/// A limit for hangs, many times longer than any machine needs.
const HANGS: Duration = Duration::from_secs(100);

fn key(round: u64, number: u64) -> [u8; 8] {
    (round << 32 | number).to_le_bytes()
}

fn keys(round: u64) -> Vec<[u8; 8]> {
    (0..KEYS).map(|number| key(round, number)).collect()
}

/// A closed filter with the keys of round `round`.
fn filled(path: &Path, round: u64, options: &Options) {
    let mut writer = options.create(path).unwrap();
    assert!(writer.insert_batch(&keys(round)).unwrap().refused().is_empty());
    writer.commit().unwrap();
    writer.close().unwrap();
}

/// The widths alternate: single lookups take a shortcut at four slots.
fn of_round(round: u64) -> Options {
    let slots = SlotsPerBucket::ALL[if round.is_multiple_of(2) { 2 } else { round as usize % 6 }];
    Options::new().slots_per_bucket(slots).capacity(40_000).seed(round)
}

fn move_over(dir: &Path, live: &Path, round: u64, options: &Options) {
    let new = dir.join("new");
    filled(&new, round, options);
    std::fs::rename(&new, live).unwrap();
    let _ = std::fs::remove_file(dir.join("new-journal"));
    let _ = std::fs::remove_file(dir.join("new-lock"));
}

fn all_found(reader: &Reader, round: u64) -> bool {
    let found = reader.contains_batch(&keys(round)).unwrap();
    found.iter().all(|found| *found)
}

#[test]
fn readers_go_on_with_a_file_that_was_moved_over_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let live = dir.path().join("live");
    filled(&live, 0, &of_round(0));
    let rounds = thorough::size("files moved over a filter", 5, 60);
    let (round, done, longest) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
    let seen = [AtomicU64::new(0), AtomicU64::new(0)];
    thread::scope(|scope| {
        // One thread looks keys up all the time, a second one occasionally.
        for (pause, seen) in [None, Some(Duration::from_millis(30))].into_iter().zip(&seen) {
            let (live, round, done, longest) = (live.clone(), &round, &done, &longest);
            scope.spawn(move || {
                let reader = Reader::open(&live).unwrap().lookups();
                let mut since = (0, Instant::now());
                while !done.load(Ordering::SeqCst) {
                    let now = round.load(Ordering::SeqCst);
                    if since.0 != now {
                        since = (now, Instant::now());
                    }
                    if seen.load(Ordering::SeqCst) != now
                        && (0..KEYS).step_by(7).all(|number| reader.contains(&key(now, number)).unwrap())
                    {
                        assert!((0..KEYS).all(|number| reader.count(&key(now, number)).unwrap() > 0));
                        longest.fetch_max(since.1.elapsed().as_millis() as u64, Ordering::SeqCst);
                        seen.store(now, Ordering::SeqCst);
                    }
                    assert!(since.1.elapsed() < HANGS, "single lookups do not follow");
                    pause.into_iter().for_each(thread::sleep);
                }
            });
        }
        let [batches, refreshed] = [0, 1].map(|_| Reader::open(&live).unwrap());
        for next in 1..=rounds {
            assert!(all_found(&batches, next - 1) && refreshed.contains(&key(next - 1, 0)).unwrap());
            assert!(!refreshed.reload().unwrap());
            move_over(dir.path(), &live, next, &of_round(next));
            assert!((0..KEYS).all(|number| refreshed.contains(&key(next - 1, number)).unwrap()));
            round.store(next, Ordering::SeqCst);
            assert!(all_found(&batches, next));
            refreshed.reload().unwrap();
            assert!((0..KEYS).all(|number| refreshed.contains(&key(next, number)).unwrap()));
            assert!((0..KEYS).any(|number| !refreshed.contains(&key(next - 1, number)).unwrap()));
            let start = Instant::now();
            while seen.iter().any(|seen| seen.load(Ordering::SeqCst) != next) {
                assert!(start.elapsed() < HANGS);
                thread::sleep(Duration::from_millis(5));
            }
        }
        done.store(true, Ordering::SeqCst);
    });
    println!("{rounds} files; single lookups followed within {} ms", longest.load(Ordering::SeqCst));
}

/// A key that reports its first use, and then waits until the other end of `go` is dropped.
struct Waiting {
    used: Sender<()>,
    go: Mutex<Receiver<()>>,
}

impl AsRef<[u8]> for Waiting {
    fn as_ref(&self) -> &[u8] {
        let _ = self.used.send(());
        let _ = self.go.lock().unwrap().recv();
        b"key"
    }
}

/// Tests it while another thread is in the middle of a batch, which keeps the old file in use.
#[test]
fn a_refresh_takes_all_threads_of_a_reader_along() {
    let dir = tempfile::tempdir().unwrap();
    let live = dir.path().join("live");
    // Threads keep a file for their next lookup if it has the same seed as the first.
    let of_round = |round| of_round(round).seed(7);
    filled(&live, 0, &of_round(0));
    let reader = &Reader::open(&live).unwrap();
    let (begin, begun) = channel::<u64>();
    let (end, ended) = channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for round in begun {
                for key in keys(round) {
                    assert!(reader.contains(&key).unwrap(), "a key of round {round} is absent");
                    assert_eq!(reader.count(&key).unwrap(), 1, "round {round}");
                }
                end.send(()).unwrap();
            }
        });
        for round in 0..=12 {
            begin.send(round).unwrap();
            ended.recv().unwrap();
            let (go, wait) = channel();
            if round % 3 > 0 {
                let (used, is_used) = channel();
                let waiting = Waiting { used, go: Mutex::new(wait) };
                scope.spawn(move || reader.contains_batch(&[waiting]).unwrap());
                is_used.recv().unwrap();
            }
            move_over(dir.path(), &live, round + 1, &of_round(round + 1));
            assert!(reader.reload().unwrap());
            begin.send(round + 1).unwrap();
            ended.recv().unwrap();
            drop(go);
        }
        drop(begin);
    });
}

const ALONE: &str = "GOWK_TEST_ALONE";

/// How many threads this process has, by the kernel's count.
#[cfg(target_os = "linux")]
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Runs alone in a child process, as the other tests have threads.
#[cfg(target_os = "linux")]
#[test]
fn readers_start_no_thread() {
    if std::env::var_os(ALONE).is_none() {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "followed::readers_start_no_thread", "--test-threads=1"]);
        let ended = child.env(ALONE, "1").output().unwrap();
        assert!(
            ended.status.success() && ended.stdout.windows(8).any(|part| part == b"1 passed"),
            "{ended:?}"
        );
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let live = dir.path().join("live");
    filled(&live, 0, &of_round(0));
    let before = threads();
    let readers = [Reader::open(&live).unwrap(), Options::new().sealed(true).read(&live).unwrap()];
    let lookups = readers[0].lookups();
    for number in 0..KEYS {
        assert!(readers.iter().all(|reader| reader.contains(&key(0, number)).unwrap()));
        assert!(lookups.contains(&key(0, number)).unwrap());
    }
    assert_eq!(threads(), before);
}

#[test]
fn readers_go_on_at_once_with_a_copy_that_was_published_over_their_filter() {
    let dir = tempfile::tempdir().unwrap();
    let (live, new) = (dir.path().join("live"), dir.path().join("new"));
    filled(&live, 0, &of_round(0));
    let readers: Vec<Reader> = (0..3).map(|_| Reader::open(&live).unwrap()).collect();
    let rounds = thorough::size("copies published over a filter", 10, 60);
    for round in 1..=rounds {
        filled(&new, round, &of_round(round).force(true));
        Reader::open(&new).unwrap().copy_over(&live, &|_, _| {}).unwrap();
        assert!(readers[0].contains(&key(round, 1)).unwrap());
        assert!(readers[1].count(&key(round, 2)).unwrap() > 0);
        assert!(all_found(&readers[2], round));
        for reader in &readers {
            assert!((0..KEYS).all(|number| reader.contains(&key(round, number)).unwrap()));
            let (ours, theirs) = (reader.info().unwrap(), Reader::open(&new).unwrap().info().unwrap());
            assert_eq!((ours.seed.get(), ours.inserted), (round, theirs.inserted));
            assert_ne!(ours.uuid, theirs.uuid);
        }
    }
    // A writer opens the copy and continues with it.
    let mut writer = Options::new().open_existing(&live).unwrap();
    let locked = Reader::open(&new).unwrap().copy_over(&live, &|_, _| {});
    assert!(matches!(locked, Err(Error::Locked { .. })), "{locked:?}");
    writer.insert(b"more").unwrap();
    writer.commit().unwrap();
    assert!(readers.iter().all(|reader| reader.contains(b"more").unwrap()));
    writer.close().unwrap();
    // A copy may go to a name without a file, but never over a file that is no filter.
    let other = dir.path().join("other");
    readers[0].copy_over(&other, &|_, _| {}).unwrap();
    assert!(all_found(&Reader::open(&other).unwrap(), rounds));
    std::fs::write(&other, b"something else").unwrap();
    assert!(matches!(readers[0].copy_over(&other, &|_, _| {}), Err(Error::NotGowk { .. })));
    assert_eq!(std::fs::read(&other).unwrap(), b"something else");
}

#[test]
fn another_file_under_the_name_is_an_error_and_a_missing_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let (live, aside) = (dir.path().join("live"), dir.path().join("aside"));
    filled(&live, 0, &of_round(0));
    for sealed in [false, true] {
        let reader = Options::new().sealed(sealed).read(&live).unwrap();
        assert!(all_found(&reader, 0));
        std::fs::rename(&live, &aside).unwrap();
        assert!(!reader.reload().unwrap());
        assert!(all_found(&reader, 0) && reader.contains(&key(0, 0)).unwrap());
        std::fs::write(&live, b"something else").unwrap();
        for _ in 0..2 {
            let error = reader.reload().unwrap_err();
            assert!(matches!(&error, Error::NotGowk { path } if *path == reader.path()), "{error}");
            assert!(reader.contains(&key(0, 0)).is_err());
            assert!(reader.contains_batch(&keys(0)).is_err());
        }
        std::fs::rename(&aside, &live).unwrap();
        assert!(reader.contains(&key(0, 0)).unwrap() && all_found(&reader, 0));
    }
    // A copy in memory follows no name.
    let memory = Reader::open_in_memory(&live).unwrap();
    move_over(dir.path(), &live, 1, &of_round(1));
    assert!(!memory.reload().unwrap());
    assert!(all_found(&memory, 0));
    assert_eq!(memory.path(), PathBuf::from(&live).canonicalize().unwrap());
}

/// Like `cp other live`: the file keeps its inode, and gets another filter's bytes.
fn write_over(dir: &Path, live: &Path, round: u64, options: &Options) {
    let other = dir.join("other");
    filled(&other, round, options);
    std::fs::copy(&other, live).unwrap();
    for name in ["other", "other-journal", "other-lock"] {
        std::fs::remove_file(dir.join(name)).unwrap();
    }
}

#[test]
fn readers_go_on_with_a_filter_that_was_written_over_theirs_in_place() {
    // A file of the same length, and a longer one: a shorter one would remove the map's pages.
    for (slots, grows) in
        [(SlotsPerBucket::Four, false), (SlotsPerBucket::Two, false), (SlotsPerBucket::Four, true)]
    {
        let dir = tempfile::tempdir().unwrap();
        let live = dir.path().join("live");
        let of_round = |round: u64| {
            let capacity = if grows { 40_000 * (round + 1) } else { 40_000 };
            Options::new().slots_per_bucket(slots).capacity(capacity).seed(round)
        };
        filled(&live, 0, &of_round(0));
        let reader = Reader::open(&live).unwrap();
        let batches = Reader::open(&live).unwrap();
        let lookups = Reader::open(&live).unwrap().lookups();
        let hash = reader.hash(key(0, 0)).unwrap();
        assert!(all_found(&batches, 0) && reader.contains(hash).unwrap());
        for round in 0..5 {
            // Done twice, so that the second time takes the shortcut.
            for _ in 0..2 {
                assert!(keys(round).iter().all(|key| reader.contains(key).unwrap()), "{slots:?} {round}");
                assert!(keys(round).iter().all(|key| reader.count(key).unwrap() == 1), "{slots:?} {round}");
                assert!(keys(round).iter().all(|key| lookups.contains(key).unwrap()), "{slots:?} {round}");
                assert!(all_found(&batches, round), "{slots:?} {round}");
            }
            assert_eq!(reader.len().unwrap(), KEYS);
            write_over(dir.path(), &live, round + 1, &of_round(round + 1));
            assert!(matches!(reader.contains(hash), Err(Error::Replaced { .. })));
        }
    }
}

#[test]
fn a_writer_whose_file_another_filter_was_written_over_leaves_that_alone() {
    type End = fn(gowk::Writer);
    let ends: [End; 4] = [
        |mut writer| {
            let refused = writer.commit().unwrap_err();
            assert!(matches!(refused, Error::Replaced { .. }), "{refused}");
            assert!(writer.insert(b"later").is_err());
        },
        |writer| assert!(writer.close().is_err()),
        |mut writer| assert!(writer.checkpoint().is_err()),
        drop,
    ];
    for end in ends {
        let dir = tempfile::tempdir().unwrap();
        let live = dir.path().join("live");
        filled(&live, 0, &of_round(0));
        let mut writer = Options::new().open_existing(&live).unwrap();
        writer.insert_batch(&keys(7)).unwrap().complete().unwrap();
        writer.commit().unwrap();
        writer.insert(b"not committed").unwrap();
        write_over(dir.path(), &live, 1, &of_round(1));
        let before = std::fs::read(&live).unwrap();
        end(writer);
        assert!(std::fs::read(&live).unwrap() == before);
    }
}

#[test]
fn a_commit_into_a_file_that_somebody_has_removed_fails_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let (live, away) = (dir.path().join("live"), dir.path().join("away"));
    filled(&live, 0, &of_round(0));
    let mut writer = Options::new().open_existing(&live).unwrap();
    for grown in [false, true] {
        if grown {
            writer.grow().unwrap();
        }
        writer.insert(b"key").unwrap();
        std::fs::rename(&live, &away).unwrap();
        let refused = writer.commit().unwrap_err();
        assert!(matches!(refused, Error::Removed { .. }), "{refused}");
        assert!(refused.to_string().contains("copy_to") && refused.kind() == gowk::ErrorKind::NotFound);
        assert!(!live.exists());
        std::fs::rename(&away, &live).unwrap();
        writer.commit().unwrap();
    }
    writer.close().unwrap();
    assert!(Reader::open(&live).unwrap().contains(b"key").unwrap());
}
