//! A writer that is stopped or killed while it applies a commit, and readers without the right to write.
//!
//! The writer is a child process, which stops before a given write to the data file until the test continues it. Readers
//! are threads of this process, and a child process without the right to write.
//!
//! Invariants checked:
//!
//! 1. While a writer is stopped between any two writes, readers find every committed key, or wait.
//! 2. Readers continue when the writer does. If it is killed, they recover, and find its commit, which was durable.
//! 3. A copy, to a file or into memory, waits until the commit is applied.
//! 4. A reader without the right to write syncs the folder and the journal, and answers from a private replay, for all
//!    keys, including those in the region where the writer died. Once another process has recovered the file, the reader
//!    follows.

use std::fs::{File, Permissions};
use std::io::{self, BufRead, BufReader, Lines, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use gowk::disk::{Disk, SystemDisk};
use gowk::{Lookup, Options, Reader, SlotsPerBucket};

/// Two regions, full enough that new keys move many old ones from page to page.
const CAPACITY: u64 = 2 * 30_000;
const COMMITTED: u64 = 50_000;
/// How many keys the commit has during which the writer is stopped.
const UNDER_WAY: u64 = 8000;
/// How many keys are committed after a recovery.
const LATER: u64 = 500;
const NEVER: usize = usize::MAX;
const NOBODY: u32 = 65_534;

const ROLE: &str = "GOWK_TEST_ROLE";
const FILTER: &str = "GOWK_TEST_FILTER";
const STOP_AT: &str = "GOWK_TEST_STOP_AT";

fn key(i: u64) -> [u8; 8] {
    i.to_le_bytes()
}

fn never_inserted() -> impl Iterator<Item = [u8; 8]> {
    (1 << 40..(1 << 40) + 2000).map(key)
}

fn filter(dir: &Path) -> PathBuf {
    let path = dir.join("f.gowk");
    let options = Options::new().capacity(CAPACITY).slots_per_bucket(SlotsPerBucket::Four).seed(1);
    let mut writer = options.create(&path).unwrap();
    (0..COMMITTED).for_each(|i| _ = writer.insert(&key(i)).unwrap());
    writer.commit().unwrap();
    writer.close().unwrap();
    path
}

/// Sends a line to the parent. The test harness prints to the same pipe, so the line is marked.
fn say(message: &str) {
    println!("\n:: {message}");
    io::stdout().flush().unwrap();
}

fn wait_for_word() {
    io::stdin().read_line(&mut String::new()).unwrap();
}

/// Records every call with the file's name, and stops before one of the writes to the data file.
#[derive(Debug)]
struct Watched {
    path: PathBuf,
    stop_at: usize,
    /// Writes to the data file since the child set this to 0. Before that, the number is too high for a stop.
    writes: AtomicUsize,
    calls: Mutex<Vec<String>>,
}

impl Watched {
    fn new(path: &Path, stop_at: usize) -> Arc<Self> {
        let (writes, calls) = (AtomicUsize::new(usize::MAX / 2), Mutex::default());
        Arc::new(Self { path: path.to_owned(), stop_at, writes, calls })
    }

    fn note(&self, call: &str, name: &Path) {
        self.calls.lock().unwrap().push(format!("{call} {}", name.file_name().unwrap().display()));
    }

    fn name_of(&self, file: &File) -> PathBuf {
        let inode = file.metadata().unwrap().ino();
        let mut entries = self.path.parent().unwrap().read_dir().unwrap().map(|entry| entry.unwrap().path());
        entries.find(|path| path.metadata().unwrap().ino() == inode).unwrap()
    }
}

impl Disk for Watched {
    fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        self.note("create", path);
        SystemDisk.create(path, mode)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let name = self.name_of(file);
        if name == self.path && self.writes.fetch_add(1, Ordering::Relaxed) == self.stop_at {
            say("stopped");
            wait_for_word();
        }
        self.note("write", &name);
        SystemDisk.write_at(file, bytes, offset)
    }

    fn set_len(&self, file: &File, length: u64) -> io::Result<()> {
        self.note("cut", &self.name_of(file));
        SystemDisk.set_len(file, length)
    }

    fn allocate(&self, file: &File, length: u64) -> io::Result<()> {
        self.note("allocate", &self.name_of(file));
        SystemDisk.allocate(file, length)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.note("sync", &self.name_of(file));
        SystemDisk.sync(file)
    }

    fn rename(&self, from: &Path, to: &Path, replace: bool) -> io::Result<()> {
        self.note("rename", from);
        SystemDisk.rename(from, to, replace)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.note("remove", path);
        SystemDisk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.note("sync", Path::new("folder"));
        SystemDisk.sync_dir(dir)
    }
}

/// Inserts and commits. The writer's disk stops it during the commit.
fn be_writer(path: &Path) {
    let stop_at = std::env::var(STOP_AT).unwrap().parse().unwrap();
    let disk = Watched::new(path, stop_at);
    let mut writer = Options::new().disk(disk.clone()).open_existing(path).unwrap();
    (COMMITTED..COMMITTED + UNDER_WAY).for_each(|i| _ = writer.insert(&key(i)).unwrap());
    disk.writes.store(0, Ordering::Relaxed);
    writer.commit().unwrap();
    say("committed");
    wait_for_word();
}

/// Looks all keys up and reports the numbers, once and then on each request.
fn be_reader(path: &Path) {
    assert!(File::options().write(true).open(path).is_err(), "this process may write");
    let disk = Watched::new(path, NEVER);
    let reader = Options::new().disk(disk.clone()).read(path).unwrap();
    say(&format!("opened: {}", disk.calls.lock().unwrap().join(", ")));
    let (keys, absent): (Vec<_>, Vec<_>) =
        ((0..COMMITTED + UNDER_WAY + LATER).map(key).collect(), never_inserted().collect());
    loop {
        let one_by_one = keys.iter().filter(|key| reader.contains(*key).unwrap()).count();
        let found = reader.contains_batch(&keys).unwrap();
        let found_absent = reader.contains_batch(&absent).unwrap();
        let count = |found: &[bool]| found.iter().filter(|found| **found).count();
        assert_eq!(count(&found), one_by_one);
        assert_eq!(absent.iter().filter(|key| reader.contains(*key).unwrap()).count(), count(&found_absent));
        let commit = reader.info().unwrap().commit;
        say(&format!("commit {commit}: {one_by_one} present, {} by mistake", count(&found_absent)));
        wait_for_word();
    }
}

/// A child process, as writer or as reader.
struct Process {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
    told: ChildStdin,
}

impl Process {
    fn start(test: &str, mut command: Command, role: &str, filter: &Path, stop_at: usize) -> Self {
        command
            .args([&format!("stopped::{test}"), "--exact", "--nocapture"])
            .env(ROLE, role)
            .env(FILTER, filter);
        command.env(STOP_AT, stop_at.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        let told = child.stdin.take().unwrap();
        Self { child, said, told }
    }

    fn writer(test: &str, filter: &Path, stop_at: usize) -> Self {
        Self::start(test, Command::new(std::env::current_exe().unwrap()), "writer", filter, stop_at)
    }

    fn hear(&mut self) -> String {
        let mut lines = self.said.by_ref().map(|line| line.unwrap());
        lines.find_map(|line| line.strip_prefix(":: ").map(str::to_owned)).expect("the process died")
    }

    fn tell(&mut self) {
        self.told.write_all(b"go on\n").unwrap();
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Plays this process's part, if it is a child.
fn plays_a_part() -> bool {
    let Ok(role) = std::env::var(ROLE) else { return false };
    let filter = PathBuf::from(std::env::var_os(FILTER).unwrap());
    if role == "writer" {
        be_writer(&filter)
    } else {
        be_reader(&filter)
    }
    true
}

/// Looks up all keys in four threads beside a stopped writer. During that, `then` continues or kills the writer.
fn look_beside(filter: &Path, then: impl FnOnce()) {
    const THREADS: u64 = 4;
    let before = Reader::open(filter).unwrap();
    let started = Barrier::new(THREADS as usize + 1);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (before, started) = (before.clone(), &started);
            scope.spawn(move || {
                // Two threads share a reader that was opened before; the others open their own.
                let reader = if thread % 2 == 0 { before } else { Reader::open(filter).unwrap() };
                started.wait();
                for i in (thread..COMMITTED).step_by(THREADS as usize) {
                    assert!(reader.contains(&key(i)).unwrap(), "key {i} is absent");
                }
                let keys: Vec<_> = (0..COMMITTED).map(key).collect();
                let found = reader.contains_batch(&keys).unwrap();
                assert!(found.iter().all(|found| *found), "a key is absent");
            });
        }
        started.wait();
        // Readers lose patience within this time, and open the file again.
        std::thread::sleep(Duration::from_millis(300));
        then();
    });
}

fn check(filter: &Path, keys: u64) {
    let reader = Reader::open(filter).unwrap();
    assert!((0..keys).all(|i| reader.contains(&key(i)).unwrap()));
    let report = reader.verify(&|_, _| {}).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

/// Applying a commit takes at least two writes for each region: pages and checksums.
const WRITES: usize = 4;

#[test]
fn readers_wait_for_a_writer_that_is_stopped_while_applying() {
    if plays_a_part() {
        return;
    }
    for stop_at in 0..WRITES {
        let dir = tempfile::tempdir().unwrap();
        let filter = filter(dir.path());
        let mut writer =
            Process::writer("readers_wait_for_a_writer_that_is_stopped_while_applying", &filter, stop_at);
        assert_eq!(writer.hear(), "stopped");
        look_beside(&filter, || writer.tell());
        assert_eq!(writer.hear(), "committed");
        let reader = Reader::open(&filter).unwrap();
        assert!((0..COMMITTED + UNDER_WAY).all(|i| reader.contains(&key(i)).unwrap()));
        writer.kill();
        check(&filter, COMMITTED + UNDER_WAY);
    }
}

#[test]
fn readers_recover_from_a_writer_that_is_killed_while_applying() {
    if plays_a_part() {
        return;
    }
    for stop_at in 0..WRITES {
        let dir = tempfile::tempdir().unwrap();
        let filter = filter(dir.path());
        let mut writer =
            Process::writer("readers_recover_from_a_writer_that_is_killed_while_applying", &filter, stop_at);
        assert_eq!(writer.hear(), "stopped");
        look_beside(&filter, || writer.kill());
        check(&filter, COMMITTED + UNDER_WAY);
    }
}

#[test]
fn copies_wait_for_a_writer_that_is_stopped_while_applying() {
    const NAME: &str = "copies_wait_for_a_writer_that_is_stopped_while_applying";
    if plays_a_part() {
        return;
    }
    for (stop_at, dies) in [(0, false), (2, false), (1, true)] {
        let dir = tempfile::tempdir().unwrap();
        let filter = filter(dir.path());
        let copy = dir.path().join("copy.gowk");
        let before = Reader::open(&filter).unwrap();
        let mut writer = Process::writer(NAME, &filter, stop_at);
        assert_eq!(writer.hear(), "stopped");
        std::thread::scope(|scope| {
            let copied = scope.spawn(|| before.copy_to(&copy, &|_, _| {}));
            let in_memory = scope.spawn(|| Reader::open_in_memory(&filter));
            std::thread::sleep(Duration::from_millis(300));
            if dies {
                writer.kill();
            } else {
                writer.tell();
                assert_eq!(writer.hear(), "committed");
                writer.kill();
            }
            copied.join().unwrap().unwrap();
            let in_memory = in_memory.join().unwrap().unwrap();
            assert!((0..COMMITTED + UNDER_WAY).all(|i| in_memory.contains(&key(i)).unwrap()));
        });
        check(&copy, COMMITTED + UNDER_WAY);
    }
}

#[test]
fn readers_who_may_not_write_answer_from_a_private_replay_and_follow() {
    const NAME: &str = "readers_who_may_not_write_answer_from_a_private_replay_and_follow";
    if plays_a_part() {
        return;
    }
    let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    for stop_at in 0..WRITES {
        let dir = tempfile::tempdir().unwrap();
        let filter = filter(dir.path());
        let mut writer = Process::writer(NAME, &filter, stop_at);
        assert_eq!(writer.hear(), "stopped");
        writer.kill();
        // A copy of this program that another user can execute.
        let program = dir.path().join("reader");
        crate::thorough::copy_program(&std::env::current_exe().unwrap(), &program);
        let allow = |write: bool| {
            let mode = if write { 0o755 } else { 0o555 };
            std::fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
            for name in ["f.gowk", "f.gowk-journal", "f.gowk-lock"] {
                let mode = if write { 0o644 } else { 0o444 };
                std::fs::set_permissions(dir.path().join(name), Permissions::from_mode(mode)).unwrap();
            }
        };
        allow(root);
        let mut command = Command::new(&program);
        if root {
            command.uid(NOBODY).gid(NOBODY);
        }
        let image = std::fs::read(&filter).unwrap();
        let mut reader = Process::start(NAME, command, "reader", &filter, NEVER);
        // The reader syncs the folder before and after it finds that it may not recover.
        assert_eq!(reader.hear(), "opened: sync folder, sync folder, sync f.gowk-journal");
        let found = reader.hear();
        let answers = |found: &str, commit: u64| {
            let (present, absent) = found.split_once(" present, ").unwrap();
            let (number, present) = present.split_once(": ").unwrap();
            assert_eq!(number, format!("commit {commit}"));
            let absent: usize = absent.strip_suffix(" by mistake").unwrap().parse().unwrap();
            assert!(absent < 20, "{found}");
            present.parse::<u64>().unwrap()
        };
        let present = answers(&found, 2);
        // All keys of the transaction are found, and some of the later keys as false positives.
        assert!((COMMITTED + UNDER_WAY..COMMITTED + UNDER_WAY + LATER / 10).contains(&present), "{found}");
        assert!(std::fs::read(&filter).unwrap() == image, "the reader changed the file");
        allow(true);
        let mut writer = Options::new().open_existing(&filter).unwrap();
        let last = COMMITTED + UNDER_WAY..COMMITTED + UNDER_WAY + LATER;
        last.for_each(|i| _ = writer.insert(&key(i)).unwrap());
        writer.commit().unwrap();
        reader.tell();
        assert_eq!(answers(&reader.hear(), 3), COMMITTED + UNDER_WAY + LATER);
        writer.close().unwrap();
        reader.tell();
        assert_eq!(answers(&reader.hear(), 3), COMMITTED + UNDER_WAY + LATER);
        reader.kill();
    }
}
