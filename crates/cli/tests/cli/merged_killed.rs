//! Merges that grow, and shrinks, in processes that are killed.
//!
//! Invariants checked: after a kill at any moment, the filter is the old one, or, once the new file has the name, the new
//! one. It is whole. The next writer removes the files that the dead one left.
//!
//! Both kinds are tested. 40 times (100 times with `GOWK_THOROUGH=1`) a process is killed before a given call that
//! changes the disk, including every call of the publication. 25 times (or 100 times) the tool is killed at a random
//! moment.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gowk::disk::{Disk, SystemDisk};
use gowk::{Batches, HashKind, KeyHash, Kind, Lookup, Options, Reader, SlotsPerBucket};

use crate::thorough;

const KINDS: [Kind; 2] = [Kind::Set, Kind::Counting];
const VERB: &str = "GOWK_TEST_VERB";
const STOP_AT: &str = "GOWK_TEST_STOP_AT";
const DIR: &str = "GOWK_TEST_DIR";
/// Keys that the transaction inserts before and after the merge.
const ALONG: [u64; 2] = [1 << 40, 1 << 41];

/// The hash of key `number`, the same in every run.
fn hash(number: u64) -> KeyHash {
    let mixed = |x: u64| {
        let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    };
    let high = mixed(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    KeyHash::new(u128::from(high) << 64 | u128::from(mixed(high ^ number)))
}

fn hashes(keys: std::ops::Range<u64>) -> Vec<KeyHash> {
    keys.map(hash).collect()
}

/// A closed filter of 12 regions with these keys, after `generations` doublings.
fn filled(path: &Path, kind: Kind, doublings: u32, keys: &[KeyHash]) {
    let capacity = 12 * 8192 * 4 * 93 / 100;
    let options = Options::new().slots_per_bucket(SlotsPerBucket::Four).capacity(capacity).seed(5);
    let mut writer = options.kind(kind).hash(HashKind::Caller).create(path).unwrap();
    (0..doublings).for_each(|_| writer.grow().unwrap());
    assert!(writer.insert_batch(keys).unwrap().refused().is_empty());
    writer.commit().unwrap();
    writer.close().unwrap();
}

fn assert_whole(reader: &Reader, keys: &[KeyHash]) {
    let report = reader.verify(&|_, _| {}).unwrap();
    assert!(report.is_clean(), "{report:?}");
    let found = reader.contains_batch(keys).unwrap();
    assert!(found.iter().all(|found| *found), "a key is lost");
}

/// A disk that stops before one of the calls that change it.
#[derive(Debug)]
struct Stopping {
    stop_at: usize,
    steps: AtomicUsize,
    /// The step that gives the new file the name.
    renamed: AtomicUsize,
}

impl Stopping {
    fn step(&self) -> usize {
        let step = self.steps.fetch_add(1, Ordering::Relaxed);
        if step == self.stop_at {
            say("stopped");
            io::stdin().read_line(&mut String::new()).unwrap();
        }
        step
    }
}

impl Disk for Stopping {
    fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        self.step();
        SystemDisk.create(path, mode)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.step();
        SystemDisk.write_at(file, bytes, offset)
    }

    fn set_len(&self, file: &File, length: u64) -> io::Result<()> {
        self.step();
        SystemDisk.set_len(file, length)
    }

    fn allocate(&self, file: &File, length: u64) -> io::Result<()> {
        self.step();
        SystemDisk.allocate(file, length)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.step();
        SystemDisk.sync(file)
    }

    fn rename(&self, from: &Path, to: &Path, replace: bool) -> io::Result<()> {
        let step = self.step();
        self.renamed.store(step, Ordering::Relaxed);
        SystemDisk.rename(from, to, replace)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step();
        SystemDisk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.step();
        SystemDisk.sync_dir(dir)
    }
}

/// Sends a line to the parent. The test harness prints to the same pipe, so the line is marked.
fn say(message: &str) {
    println!("\n:: {message}");
    io::stdout().flush().unwrap();
}

/// Merges or shrinks, if this process is a child.
fn is_a_child() -> bool {
    let Ok(verb) = std::env::var(VERB) else { return false };
    let dir = std::env::var(DIR).unwrap();
    let [path, other] = ["f", "other"].map(|name| Path::new(&dir).join(name));
    let stop_at = std::env::var(STOP_AT).unwrap().parse().unwrap();
    let (steps, renamed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let disk = Arc::new(Stopping { stop_at, steps, renamed });
    let mut writer = Options::new().disk(disk.clone()).open_existing(&path).unwrap();
    if verb == "merge" {
        writer.insert(hash(ALONG[0])).unwrap();
        writer.merge(&Reader::open(&other).unwrap()).unwrap();
        writer.insert(hash(ALONG[1])).unwrap();
    } else {
        writer.shrink().unwrap();
    }
    writer.commit().unwrap();
    writer.close().unwrap();
    let count = |steps: &AtomicUsize| steps.load(Ordering::Relaxed);
    say(&format!("{} {}", count(&disk.steps), count(&disk.renamed)));
    true
}

/// Runs `test` in a child up to this step, kills the child, and returns the line that it sent.
fn child_stopped_at(test: &str, verb: &str, dir: &Path, stop_at: usize) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&format!("merged_killed::{test}"), "--exact", "--nocapture"]).env(VERB, verb).env(DIR, dir);
    command.env(STOP_AT, stop_at.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let word = said.find_map(|line| line.strip_prefix(":: ").map(str::to_owned)).expect("the child failed");
    child.kill().unwrap();
    child.wait().unwrap();
    word
}

/// A filter, and the states in which a kill may leave it.
struct Scene {
    dir: tempfile::TempDir,
    /// Whether a filter is the old one. Panics if it is neither the old nor the new one.
    is_old: Box<dyn Fn(&Path) -> bool>,
}

impl Scene {
    /// Two filters that share 10,000 keys.
    fn merge(kind: Kind) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (in_a, in_b) = (hashes(0..350_000), hashes(340_000..700_000));
        filled(&dir.path().join("f"), kind, 0, &in_a);
        filled(&dir.path().join("other"), kind, 0, &in_b);
        let is_old = move |path: &Path| {
            let reader = Reader::open(path).unwrap();
            assert_whole(&reader, &in_a);
            let info = reader.info().unwrap();
            let is_old = info.regions == 12;
            assert_eq!(is_old, info.generation == 0);
            if !is_old {
                assert_whole(&reader, &in_b);
            }
            let along = ALONG.map(|key| reader.contains(hash(key)).unwrap());
            if kind == Kind::Counting {
                // When the tool merges, it inserts no other keys.
                let along = along.iter().filter(|found| **found).count() as u64;
                let kept: u64 = if is_old { 350_000 } else { 710_000 + along };
                assert_eq!(info.copies, kept);
                let of_both = reader.count(hash(345_000)).unwrap();
                assert!(is_old || of_both >= 2, "{of_both} copies");
            } else {
                // A set does not store false positives: fewer than one key in a thousand.
                let all: u64 = if is_old { 350_000 } else { 700_002 };
                assert!(info.copies <= all && info.copies >= all - all / 1000, "{} of {all}", info.copies);
            }
            is_old
        };
        Self { dir, is_old: Box::new(is_old) }
    }

    fn shrink(kind: Kind) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let keys = hashes(0..200_000);
        filled(&dir.path().join("f"), kind, 1, &keys);
        let is_old = move |path: &Path| {
            let reader = Reader::open(path).unwrap();
            assert_whole(&reader, &keys);
            reader.info().unwrap().regions == 24
        };
        Self { dir, is_old: Box::new(is_old) }
    }

    /// Restores the first filter, without a journal.
    fn restore(&self) {
        let [path, kept, journal] = ["f", "kept", "f-journal"].map(|name| self.dir.path().join(name));
        if kept.exists() {
            fs::copy(&kept, &path).unwrap();
        } else {
            fs::copy(&path, &kept).unwrap();
        }
        let _ = fs::remove_file(journal);
    }

    /// Whether the filter is the old one after a kill. Checks that the next writer removes the files left.
    fn is_old(&self) -> bool {
        let path = self.dir.path().join("f");
        let is_old = (self.is_old)(&path);
        Options::new().open_existing(&path).unwrap().close().unwrap();
        let left = fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = left.filter(|name| name.to_string_lossy().contains("gowk-new")).collect();
        assert!(left.is_empty(), "{left:?}");
        is_old
    }

    fn killed_at_steps(&self, test: &str, verb: &str) {
        self.restore();
        let whole = child_stopped_at(test, verb, self.dir.path(), usize::MAX);
        assert!(!self.is_old());
        let (steps, renamed) = whole.split_once(' ').unwrap();
        let (steps, renamed): (usize, usize) = (steps.parse().unwrap(), renamed.parse().unwrap());
        let kills = thorough::size("kills at steps of a merge or a shrink", 40, 100);
        // Each step from the sealing of the new file on, twice. The other kills are spread evenly over the earlier steps.
        let late = renamed.saturating_sub(10)..steps;
        let early = kills - 2 * late.len();
        let early = (0..early).map(|number| number * late.start / early);
        let (mut old, mut new) = (0, 0);
        for stop_at in early.chain(late.clone()).chain(late.clone()) {
            self.restore();
            assert_eq!(child_stopped_at(test, verb, self.dir.path(), stop_at), "stopped");
            let is_old = self.is_old();
            assert_eq!(
                is_old,
                stop_at <= renamed,
                "killed before step {stop_at} of {steps}, the name changes at {renamed}"
            );
            (old, new) = (old + usize::from(is_old), new + usize::from(!is_old));
        }
        let _ = writeln!(
            io::stderr(),
            "{verb}: {kills} kills at steps; of {steps} steps {} are from the sealing on, and step {renamed} publishes: \
             {old} left the old filter, {new} the new one",
            late.len()
        );
        assert!(old + new == kills && old >= 10 && new >= 10);
    }

    fn killed_at_moments(&self, verb: &[&str]) {
        let tool = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_gowk"));
            command
                .current_dir(self.dir.path())
                .args(verb)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command
        };
        let run = || {
            self.restore();
            let start = Instant::now();
            assert!(tool().status().unwrap().success());
            start.elapsed()
        };
        // The first run is slower than later ones.
        let whole = (0..4).map(|_| run()).min().unwrap_or_default();
        let kills = thorough::size("kills at moments of a merge or a shrink", 25, 100);
        let (mut runs, mut deaths, mut old) = (0, 0, 0);
        // If the machine has become busier, all kills come early. Then tries later moments, too.
        for slower in [1.1, 2.2, 4.4, 8.8] {
            for number in 0..kills {
                self.restore();
                let mut child = tool().spawn().unwrap();
                let moment = whole.mul_f64(f64::from(number) * slower / f64::from(kills));
                std::thread::sleep(moment.max(Duration::from_micros(1)));
                child.kill().unwrap();
                let status = child.wait().unwrap();
                assert!(status.success() || status.code().is_none(), "{status}");
                deaths += u32::from(!status.success());
                old += u32::from(self.is_old());
                runs += 1;
            }
            if old < runs {
                break;
            }
        }
        let _ = writeln!(
            io::stderr(),
            "{}: {deaths} of {runs} killed at some moment, {old} left the old filter",
            verb[0]
        );
        assert!(deaths > 0 && old > 0 && old < runs);
    }
}

#[test]
fn a_merge_that_grows_killed_at_each_step_leaves_the_old_filter_or_the_new_one() {
    const TEST: &str = "a_merge_that_grows_killed_at_each_step_leaves_the_old_filter_or_the_new_one";
    if !is_a_child() {
        KINDS.into_iter().for_each(|kind| Scene::merge(kind).killed_at_steps(TEST, "merge"));
    }
}

#[test]
fn a_merge_that_grows_killed_at_any_moment_leaves_the_old_filter_or_the_new_one() {
    KINDS.into_iter().for_each(|kind| Scene::merge(kind).killed_at_moments(&["merge", "f", "other"]));
}

#[test]
fn a_shrink_killed_at_each_step_leaves_the_old_filter_or_the_new_one() {
    const TEST: &str = "a_shrink_killed_at_each_step_leaves_the_old_filter_or_the_new_one";
    if !is_a_child() {
        KINDS.into_iter().for_each(|kind| Scene::shrink(kind).killed_at_steps(TEST, "shrink"));
    }
}

#[test]
fn a_shrink_killed_at_any_moment_leaves_the_old_filter_or_the_new_one() {
    KINDS.into_iter().for_each(|kind| Scene::shrink(kind).killed_at_moments(&["shrink", "f"]));
}
