//! Promises about names, rights and waiting.
//!
//! Invariants checked:
//!
//! 1. Writers refuse a file with two names, and so do readers that would have to recover it. Other readers read it.
//! 2. Doublings keep a file's mode and, if the process may change them, its owner and group.
//! 3. A writer soon opens the filter or is refused, however many readers keep opening it.
//! 4. A process that is stopped while it opens or recovers a filter delays others no longer than they are willing to
//!    wait. After it continues, everything works as before.
//!
//! The times here are limits for hangs, many times longer than the calls take.

use std::fs::{File, Permissions};
use std::io::{self, BufRead, BufReader, Lines, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use gowk::disk::{Disk, SystemDisk};
use gowk::{Error, Lookup, Options, Reader};

use crate::thorough;

const KEYS: u64 = 1000;
/// How many keys are in the journal of a filter whose writer died.
const JOURNALED: u64 = 100;

fn key(i: u64) -> [u8; 8] {
    i.to_le_bytes()
}

fn closed_filter(dir: &Path) -> PathBuf {
    let path = dir.join("f.gowk");
    let mut writer = Options::new().capacity(KEYS).seed(1).create(&path).unwrap();
    (0..KEYS).for_each(|i| _ = writer.insert(&key(i)).unwrap());
    writer.commit().unwrap();
    writer.close().unwrap();
    path
}

/// A filter as after its writer's death: copies of a living writer's files.
fn unrecovered_filter(dir: &Path) -> PathBuf {
    let living = tempfile::tempdir().unwrap();
    let path = closed_filter(living.path());
    let mut writer = Options::new().open_existing(&path).unwrap();
    (KEYS..KEYS + JOURNALED).for_each(|i| _ = writer.insert(&key(i)).unwrap());
    writer.commit().unwrap();
    for name in ["f.gowk", "f.gowk-journal", "f.gowk-lock"] {
        std::fs::copy(living.path().join(name), dir.join(name)).unwrap();
    }
    dir.join("f.gowk")
}

fn has_all(reader: &Reader, keys: u64) -> bool {
    (0..keys).all(|i| reader.contains(&key(i)).unwrap())
}

#[test]
fn a_writer_is_refused_a_file_with_two_names_and_a_reader_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = closed_filter(dir.path());
    let other = dir.path().join("other.gowk");
    std::fs::hard_link(&path, &other).unwrap();
    for name in [&path, &other] {
        let refused = Options::new().open_existing(name).map(drop);
        assert!(matches!(refused, Err(Error::HardLinks { links: 2, .. })), "{refused:?}");
        assert!(has_all(&Reader::open(name).unwrap(), KEYS));
    }
    std::fs::remove_file(&other).unwrap();
    Options::new().open_existing(&path).unwrap().close().unwrap();
}

#[test]
fn a_reader_who_would_have_to_recover_is_refused_a_file_with_two_names() {
    let dir = tempfile::tempdir().unwrap();
    let path = unrecovered_filter(dir.path());
    let other = dir.path().join("other.gowk");
    std::fs::hard_link(&path, &other).unwrap();
    let image = std::fs::read(&path).unwrap();
    for name in [&path, &other] {
        let refused = Reader::open(name).map(drop);
        assert!(matches!(refused, Err(Error::HardLinks { links: 2, .. })), "{refused:?}");
    }
    assert!(std::fs::read(&path).unwrap() == image, "a refused reader changed the file");
    std::fs::remove_file(&other).unwrap();
    assert!(has_all(&Reader::open(&path).unwrap(), KEYS + JOURNALED));
}

#[test]
fn doublings_keep_mode_owner_and_group() {
    let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    for mode in [0o600, 0o640, 0o664, 0o666] {
        let dir = tempfile::tempdir().unwrap();
        let path = closed_filter(dir.path());
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        if root {
            std::os::unix::fs::chown(&path, Some(12_345), Some(23_456)).unwrap();
        }
        let rights = || {
            let metadata = path.metadata().unwrap();
            (metadata.mode() & 0o7777, metadata.uid(), metadata.gid())
        };
        let before = rights();
        let mut writer = Options::new().open_existing(&path).unwrap();
        for round in 1..=3 {
            writer.grow().unwrap();
            writer.commit().unwrap();
            assert_eq!(writer.info().unwrap().generation, round);
            assert_eq!(rights(), before, "{mode:o}, doubling {round}");
        }
        writer.close().unwrap();
        assert_eq!(rights(), before, "{mode:o}, closed");
    }
}

/// A disk on which a sync of the folder, or a write, takes long.
#[derive(Debug)]
enum Delay {
    /// Each sync of the folder takes this long, as on a busy disk.
    Folder(Duration),
    /// The first sync, or the first write, waits for a line from the parent.
    FirstFolder(AtomicBool),
    FirstWrite(AtomicBool),
}

impl Delay {
    fn first(at_write: bool) -> Self {
        if at_write {
            Self::FirstWrite(AtomicBool::new(false))
        } else {
            Self::FirstFolder(AtomicBool::new(false))
        }
    }

    fn wait_for_word(waited: &AtomicBool) {
        if !waited.swap(true, Ordering::Relaxed) {
            println!("\n:: stopped");
            io::stdout().flush().unwrap();
            io::stdin().read_line(&mut String::new()).unwrap();
        }
    }
}

impl Disk for Delay {
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        if let Self::FirstWrite(waited) = self {
            Self::wait_for_word(waited);
        }
        SystemDisk.write_at(file, bytes, offset)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        match self {
            Self::Folder(time) => std::thread::sleep(*time),
            Self::FirstFolder(waited) => Self::wait_for_word(waited),
            Self::FirstWrite(_) => {}
        }
        SystemDisk.sync_dir(dir)
    }
}

/// How long an opening that does not wait for a stopped process may take on a busy machine. One that does would take a
/// minute or more.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_writer_gets_in_or_is_refused_soon_although_readers_open_the_filter_all_the_time() {
    const READERS: usize = 16;
    const TRIES: usize = 3;
    let dir = tempfile::tempdir().unwrap();
    let path = closed_filter(dir.path());
    let slow = Options::new().disk(Arc::new(Delay::Folder(Duration::from_millis(20))));
    let (done, opened) = (AtomicBool::new(false), AtomicUsize::new(0));
    let outcomes = std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert!(slow.read(&path).unwrap().contains(&key(1)).unwrap());
                    opened.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while opened.load(Ordering::Relaxed) < READERS {
            std::thread::yield_now();
        }
        let mut outcomes = Vec::new();
        for _ in 0..TRIES {
            let (sender, outcome) = channel();
            let path = &path;
            scope.spawn(move || {
                let opened = Options::new().wait(Duration::ZERO).open_existing(path);
                let _ = sender.send(opened.and_then(gowk::Writer::close));
            });
            outcomes.push(outcome.recv_timeout(SOON).ok());
            if outcomes.last().is_some_and(Option::is_none) {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
        outcomes
    });
    let opened = opened.into_inner();
    for outcome in outcomes {
        match outcome {
            Some(Ok(()) | Err(Error::Locked { .. } | Error::Stalled { .. } | Error::Busy { .. })) => {}
            Some(Err(error)) => panic!("{error}"),
            None => panic!("no answer in {SOON:?}, while readers opened it {opened} times"),
        }
    }
    assert!(has_all(&Reader::open(&path).unwrap(), KEYS));
}

const ROLE: &str = "GOWK_TEST_ROLE";
const FILTER: &str = "GOWK_TEST_FILTER";

/// A process that SIGSTOP stopped while it was opening the filter.
struct Stopped {
    child: Child,
    told: ChildStdin,
    /// Kept open: the test harness of the child still writes to it.
    _said: Lines<BufReader<ChildStdout>>,
}

impl Stopped {
    /// `role`: `reader` or `writer`; followed by `at the folder`, where both sync it, or `in recovery`, at its first
    /// write.
    fn start(test: &str, filter: &Path, role: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([&format!("promises::{test}"), "--exact", "--nocapture"])
            .env(ROLE, role)
            .env(FILTER, filter);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let told = child.stdin.take().unwrap();
        assert!(said.any(|line| line.unwrap() == ":: stopped"), "{role}: the process ended too early");
        let stopped = Self { child, told, _said: said };
        stopped.signal("-STOP");
        stopped
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Continues the process, and waits for its end.
    fn go_on(mut self) {
        self.signal("-CONT");
        self.told.write_all(b"go on\n").unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // If a test fails, this ends the stopped process.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Plays this process's part, if it is a child.
fn plays_a_part() -> bool {
    let Ok(role) = std::env::var(ROLE) else { return false };
    let filter = PathBuf::from(std::env::var_os(FILTER).unwrap());
    let options = Options::new().disk(Arc::new(Delay::first(role.ends_with("in recovery"))));
    if role.starts_with("reader") {
        assert!(has_all(&options.read(&filter).unwrap(), KEYS));
    } else {
        options.open_existing(&filter).unwrap().close().unwrap();
    }
    true
}

fn filter_for(role: &str, dir: &Path) -> (PathBuf, u64) {
    if role.ends_with("in recovery") {
        (unrecovered_filter(dir), KEYS + JOURNALED)
    } else {
        (closed_filter(dir), KEYS)
    }
}

const ROLES: [&str; 4] =
    ["reader at the folder", "writer at the folder", "reader in recovery", "writer in recovery"];

#[test]
fn a_stopped_process_holds_up_a_writer_no_longer_than_it_waits() {
    const NAME: &str = "a_stopped_process_holds_up_a_writer_no_longer_than_it_waits";
    if plays_a_part() {
        return;
    }
    std::thread::scope(|scope| {
        for role in ROLES {
            scope.spawn(move || {
                let dir = tempfile::tempdir().unwrap();
                let (path, keys) = filter_for(role, dir.path());
                let stopped = Stopped::start(NAME, &path, role);
                let (sender, outcome) = channel();
                let filter = path.clone();
                std::thread::spawn(move || {
                    let opened = Options::new().wait(Duration::from_secs(1)).open_existing(&filter);
                    let _ = sender.send(opened.and_then(gowk::Writer::close));
                });
                match outcome.recv_timeout(SOON) {
                    Ok(Err(Error::Locked { .. } | Error::Stalled { .. } | Error::Busy { .. })) => {}
                    // A process that recovers nothing holds nothing yet that a writer must wait for.
                    Ok(Ok(())) if role.ends_with("at the folder") => {}
                    Ok(other) => panic!("beside a stopped {role}: {other:?}"),
                    Err(_) => {
                        panic!(
                            "beside a stopped {role}: no answer in {SOON:?} from a writer that waits for 1 s"
                        )
                    }
                }
                stopped.go_on();
                assert!(has_all(&Reader::open(&path).unwrap(), keys), "{role}");
                Options::new().open_existing(&path).unwrap().close().unwrap();
            });
        }
    });
}

/// A reader waits for up to a minute. To keep the test short, the stopped process continues after two seconds; with
/// `GOWK_THOROUGH=1` it stays stopped for longer than that minute.
#[test]
fn a_stopped_process_holds_up_a_reader_no_longer_than_a_minute() {
    const NAME: &str = "a_stopped_process_holds_up_a_reader_no_longer_than_a_minute";
    if plays_a_part() {
        return;
    }
    let patience = Duration::from_secs(thorough::size("seconds that a reader is held up", 2, 75));
    std::thread::scope(|scope| {
        for role in ROLES {
            scope.spawn(move || {
                let dir = tempfile::tempdir().unwrap();
                let (path, keys) = filter_for(role, dir.path());
                let stopped = Stopped::start(NAME, &path, role);
                let (sender, outcome) = channel();
                let filter = path.clone();
                std::thread::spawn(move || {
                    let read = Reader::open(&filter).map(|reader| has_all(&reader, keys));
                    let _ = sender.send(read);
                });
                let beside = outcome.recv_timeout(patience);
                match &beside {
                    Ok(Ok(true) | Err(Error::Busy { .. } | Error::Locked { .. } | Error::Stalled { .. })) => {
                    }
                    Ok(other) => panic!("beside a stopped {role}: {other:?}"),
                    Err(_) if !thorough::is_asked_for() => {}
                    Err(_) => panic!("beside a stopped {role}: no answer in {patience:?} from a reader"),
                }
                stopped.go_on();
                if beside.is_err() {
                    let read = outcome.recv_timeout(SOON);
                    assert!(matches!(read, Ok(Ok(true))), "after a {role} went on: {read:?}");
                }
                assert!(has_all(&Reader::open(&path).unwrap(), keys), "{role}");
            });
        }
    });
}
