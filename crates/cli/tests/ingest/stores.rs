//! Jobs into a store.
//!
//! Invariants checked, on stores of both kinds:
//!
//! 1. A run makes one version, and an earlier one if it claims a new output. A run with nothing to read makes none.
//! 2. After any number of kills, store and output end like those of one run without a kill.
//! 3. The next run reads new input from where the last version ended. A job can be forgotten.
//! 4. Two runs at the same time leave the output of one run.
//! 5. A job that asks for the other kind changes nothing.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{OpenOptions, read_to_string, write};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gowk::store::Store;
use gowk::{Kind, Lookup, Options};

use crate::thorough;

const KINDS: [Kind; 2] = [Kind::Set, Kind::Counting];

fn store(dir: &Path, kind: Kind) -> Store {
    let options = Options::new().kind(kind).capacity(50_000).false_positive_rate(1e-8).seed(1);
    Store::create(dir.join("s"), 4, &options).unwrap()
}

/// A job whose input has every key about twice.
fn job(dir: &Path, keys: u32) -> PathBuf {
    let mut lines = String::new();
    for number in 0..keys {
        writeln!(lines, "key-{number}\nkey-{}", number / 2).unwrap();
    }
    write(dir.join("in.txt"), lines).unwrap();
    let text = "name = \"nightly\"\n[filter]\npath = \"s\"\n[input]\npaths = [\"in.txt\"]\n\
                [output]\nnew_keys = \"new.txt\"\n[commit]\nevery_keys = 1000\n";
    let path = dir.join("job.toml");
    write(&path, text).unwrap();
    path
}

fn start(job: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_gowk"))
        .args(["ingest"])
        .arg(job)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn run(job: &Path) {
    let output = start(job).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Checks that the output has each key once, in the order of the inputs.
fn is_right(dir: &Path, keys: u32) {
    let new = read_to_string(dir.join("new.txt")).unwrap();
    assert!(new.lines().eq((0..keys).map(|number| format!("key-{number}"))), "{} keys", new.lines().count());
    let store = Store::open(dir.join("s")).unwrap();
    let reader = store.read().unwrap();
    // The input has two lines for each key. In a counting store, a key may have entries in both its buckets if its copies
    // do not fit into one.
    let joined = dir.join("joined.gowk");
    reader.join_to(&joined, &|_, _| {}).unwrap();
    let info = gowk::Reader::open(&joined).unwrap().info().unwrap();
    std::fs::remove_file(joined).unwrap();
    match store.description().kind {
        Kind::Counting => assert_eq!(info.copies, 2 * u64::from(keys)),
        _ => assert_eq!([info.copies, info.entries], [u64::from(keys); 2]),
    }
    let found = reader.contains_batch(&new.lines().collect::<Vec<_>>()).unwrap();
    assert!(found.iter().all(|found| *found));
    // `key-0` and the other keys of the lower half come three times, the keys of the upper half once.
    let highest = keys - 1;
    let copies = if store.description().kind == Kind::Counting { [3, 1] } else { [1, 1] };
    assert_eq!([0, highest].map(|number| reader.count(format!("key-{number}")).unwrap()), copies);
}

#[test]
fn a_run_makes_one_version_and_the_next_goes_on_from_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path(), Kind::Set);
    let job = job(dir.path(), 5000);
    run(&job);
    is_right(dir.path(), 5000);
    // One version claims the output, one has the keys.
    assert_eq!(store.newest().unwrap().number, 3);
    // The next runs have nothing to read, with the output or without it.
    run(&job);
    assert_eq!(store.newest().unwrap().number, 3);
    let output = dir.path().join("new.txt");
    std::fs::rename(&output, dir.path().join("taken.txt")).unwrap();
    run(&job);
    assert_eq!((store.newest().unwrap().number, read_to_string(&output).unwrap().len()), (3, 0));
    std::fs::rename(dir.path().join("taken.txt"), &output).unwrap();
    let mut input = OpenOptions::new().append(true).open(dir.path().join("in.txt")).unwrap();
    (5000..6000).for_each(|number| writeln!(input, "key-{number}").unwrap());
    run(&job);
    assert_eq!(store.newest().unwrap().number, 4);
    is_right(dir.path(), 6000);
    let operations: BTreeSet<String> =
        store.log().unwrap().into_iter().map(|version| version.operation).collect();
    assert!(operations.iter().eq(["create", "ingest"]), "{operations:?}");
    let gowk = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_gowk"))
            .arg("ingest")
            .arg(&job)
            .args(arguments)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(gowk(&["--dry-run"]).0, Some(0));
    assert_eq!(gowk(&["--forget", "nightly"]).0, Some(0));
    let (status, told) = gowk(&["--forget", "nightly"]);
    assert!(status == Some(2) && told.contains("remembers no job `nightly`"), "{told}");
    // A job that starts anew does not know the existing output, and would overwrite it.
    assert_eq!(gowk(&[]).0, Some(2));
    // An output inside the store is refused.
    let text = read_to_string(&job).unwrap().replace("new.txt", "s/versions/000000000009.toml");
    write(&job, text).unwrap();
    let (status, told) = gowk(&[]);
    assert!(status == Some(2) && told.contains("000000000009.toml"), "{told}");
}

#[test]
fn keys_without_room_are_counted_and_written_and_the_rest_is_committed() {
    let dir = tempfile::tempdir().unwrap();
    let slots = gowk::SlotsPerBucket::new(2).unwrap();
    let options = Options::new().capacity(300).slots_per_bucket(slots).growth(gowk::Growth::Never);
    let store = Store::create(dir.path().join("s"), 4, &options).unwrap();
    let job = job(dir.path(), 100_000);
    let text = read_to_string(&job).unwrap();
    write(&job, text.replace("[commit]", "refused = \"refused.txt\"\n[commit]")).unwrap();
    let output = start(&job).wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    let refused = read_to_string(dir.path().join("refused.txt")).unwrap();
    let words = format!("{} of this run's 200000 keys found no room", refused.lines().count());
    assert!(told.contains(&words) && told.contains("refused.txt"), "{told}");
    let new = read_to_string(dir.path().join("new.txt")).unwrap();
    let found = store.read().unwrap().contains_batch(&new.lines().collect::<Vec<_>>()).unwrap();
    let refused: BTreeSet<&str> = refused.lines().collect();
    assert!(!refused.is_empty() && found.contains(&true));
    for (key, found) in new.lines().zip(found) {
        assert!(found || refused.contains(key), "{key}");
    }
    // Refused keys count as read, so the next run has nothing to do.
    run(&job);
}

#[test]
fn a_job_killed_again_and_again_ends_like_one_that_was_not() {
    let kills = thorough::size("kills of a job into a store", 12, 100);
    KINDS.into_iter().for_each(|kind| killed_again_and_again(kind, kills / KINDS.len() as u32));
}

fn killed_again_and_again(kind: Kind, kills: u32) {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path(), kind);
    let keys = 40_000;
    let job = job(dir.path(), keys);
    let mut random = thorough::seed(1);
    for _ in 0..kills {
        let mut child = start(&job);
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros((random >> 33) % 120_000));
        let _ = child.kill();
        child.wait().unwrap();
    }
    run(&job);
    is_right(dir.path(), keys);
}

#[test]
fn runs_at_the_same_time_leave_the_output_of_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path(), Kind::Counting);
    let keys = 20_000;
    let job = job(dir.path(), keys);
    let children: Vec<Child> = (0..4).map(|_| start(&job)).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() || told.contains("another run of this job"), "{told}");
    }
    run(&job);
    is_right(dir.path(), keys);
    assert!(store.newest().unwrap().number >= 3);
}

#[test]
fn a_job_that_asks_for_the_other_kind_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path(), Kind::Set);
    let job = job(dir.path(), 100);
    let text = read_to_string(&job).unwrap();
    for kind in ["counting", "set"] {
        write(&job, text.replace("path = \"s\"", &format!("path = \"s\"\nkind = \"{kind}\""))).unwrap();
        let output = start(&job).wait_with_output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        if kind == "set" {
            assert_eq!(output.status.code(), Some(0), "{told}");
            continue;
        }
        assert_eq!((output.status.code(), told.lines().count()), (Some(2), 1), "{told}");
        assert!(told.contains("s: is a set") && told.contains("counting filter"), "{told}");
        assert_eq!(store.newest().unwrap().number, 1);
        assert!(!dir.path().join("new.txt").exists());
    }
    is_right(dir.path(), 100);
}
