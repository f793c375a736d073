//! Invariants checked: the golden stores of `format-spec/vectors/stores`, which no code of gowk has written, are read as
//! their README says. In stores with runs, `decode.py`, which shares no code with gowk, finds the same as gowk.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use gowk::store::Store;
use gowk::{Batches, Kind, Lookup, Options};

fn spec() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("format-spec")
}

fn keys(range: std::ops::Range<u64>) -> Vec<String> {
    range.map(|number| format!("key {number}")).collect()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in from.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let place = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &place);
        } else {
            std::fs::copy(&path, &place).unwrap();
        }
    }
}

/// A golden store, with the empty folders that a repository cannot hold.
fn golden(name: &str, dir: &Path) -> Store {
    let path = dir.join(name);
    copy(&spec().join("vectors/stores").join(name), &path);
    if crate::is_in_a_bucket() {
        // Copied object by object.
        let place = crate::place_in(dir, name);
        crate::files_at(&path)
            .iter()
            .for_each(|file| crate::put(&place.join(file), &crate::bytes_of(&path.join(file))));
        return Store::open(place).unwrap();
    }
    for folder in ["incoming", "shards/0000", "shards/0001", "shards/0002", "shards/0003"] {
        std::fs::create_dir_all(path.join(folder)).unwrap();
    }
    Store::open(path).unwrap()
}

#[test]
fn golden_stores_are_read_and_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let first = |number: u64| if number == 7 { 600 } else { number as u32 % 5 + 1 };
    for (name, kind) in [("set", Kind::Set), ("counting", Kind::Counting)] {
        let store = golden(name, dir.path());
        assert_eq!(store.description().kind, kind);
        for folded in [false, true] {
            let newest = store.newest().unwrap();
            for version in [store.version(2).unwrap(), store.version(3).unwrap(), newest] {
                let reader = store.read_version(version);
                for (_, report) in reader.verify(&|_, _| {}).unwrap() {
                    assert!(report.unwrap().is_clean());
                }
                for (number, key) in (0..).zip(keys(0..600)) {
                    let is_later = reader.version().number > 2;
                    let expected = match (kind, number) {
                        (_, 450..) => 0,
                        (_, 400..450) => u32::from(is_later),
                        (Kind::Set, _) => 1,
                        (_, 0..10) => first(number) - u32::from(is_later),
                        _ => first(number),
                    };
                    assert_eq!(reader.count(&key).unwrap(), expected, "{name}, {key}");
                    assert_eq!(reader.contains(&key).unwrap(), expected > 0, "{name}, {key}");
                }
            }
            if !folded {
                assert_eq!(store.compact(true, &|_, _| {}).unwrap().folded, 4);
            }
        }
    }
}

/// The keys among these that `decode.py` finds with `--check`, or the counts of all with `--count`; or its refusal.
fn decoded(store: &Path, option: &str, keys: &[String]) -> Result<Vec<String>, String> {
    let mut child = Command::new(crate::thorough::python())
        .args([&*spec().join("decode.py").to_string_lossy(), &*store.to_string_lossy(), option])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines: String = keys.iter().map(|key| format!("{key}\n")).collect();
    let writer = std::thread::spawn(move || drop(input.write_all(lines.as_bytes())));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!told.contains("Traceback"), "{told}");
    if !output.status.success() {
        return Err(told);
    }
    Ok(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

#[test]
fn the_decoder_finds_what_gowk_finds_in_runs_and_files() {
    if crate::needs_a_folder("has the decoder read files") {
        return;
    }
    let has_toml = Command::new("python3").args(["-c", "import tomllib"]).output();
    if !has_toml.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: there is no python3 that reads TOML");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let day = Duration::from_secs(86_400);
    let forgetting = Options::new().forget_after(30 * day).forget_within(3 * day).clock_is_right(true);
    for (name, options) in [("s", Options::new()), ("c", Options::new().counting()), ("f", forgetting)] {
        let forgets = name == "f";
        let store = Store::create(dir.path().join(name), 5, &options.capacity(1000).seed(4)).unwrap();
        let insert = |range: std::ops::Range<u64>| {
            let mut update = store.update().unwrap();
            if forgets {
                // One key each hour, from May 2026 on.
                let on = |hour| UNIX_EPOCH + 20_574 * day + Duration::from_secs(hour * 3600);
                let times: Vec<_> = range.clone().map(on).collect();
                update.insert_batch_at(&keys(range), &times).unwrap().inserted.complete().unwrap();
            } else {
                update.insert_batch(&keys(range)).unwrap().complete().unwrap();
            }
            update.commit("insert", None).unwrap();
        };
        let agrees = || {
            let asked = keys(0..3000);
            let reader = store.read().unwrap();
            let count = |key: &String| format!("{}\t{key}", reader.count(key).unwrap());
            let counts: Vec<String> = asked.iter().map(count).collect();
            assert_eq!(decoded(store.path(), "--count", &asked).unwrap(), counts);
            let found = reader.contains_batch(&asked).unwrap();
            let found: Vec<String> =
                asked.iter().zip(found).filter(|(_, found)| *found).map(|(key, _)| key.clone()).collect();
            assert_eq!(decoded(store.path(), "--check", &asked).unwrap(), found);
            found.len()
        };
        insert(0..400);
        assert_eq!(agrees(), 400);
        let newest = store.newest().unwrap();
        let fold = |shard| store.fold_shard(&newest, shard, None).unwrap();
        let folded: Vec<_> = (0..5).filter_map(fold).collect();
        assert_eq!(store.commit_folds(&folded).unwrap().folded, 5);
        insert(400..900);
        if name == "c" {
            let mut update = store.update().unwrap();
            assert!(update.remove_batch(&keys(300..500)).unwrap().iter().all(|removed| *removed));
            update.commit("remove", None).unwrap();
        }
        // Most of the forgotten keys are in files of an earlier epoch.
        let kept = match name {
            "c" => 700,
            "f" => 30 * 24,
            _ => 900,
        };
        let found = agrees();
        assert!(found >= kept && found < kept + 90, "{found}");
        // Both detect each changed byte of a run.
        let run = store.newest().unwrap().runs[0].file_name();
        let run = store.path().join("runs").join(run);
        let good = std::fs::read(&run).unwrap();
        for at in [3, 12, 50, 4093, 4096, 6830, good.len() - 4096, good.len() - 1] {
            let mut changed = good.clone();
            changed[at] ^= 4;
            std::fs::write(&run, changed).unwrap();
            assert!(decoded(store.path(), "--check", &[]).is_err(), "byte {at}");
            let found = store.read().unwrap().verify(&|_, _| {}).unwrap();
            let wrong: Vec<_> = found.iter().filter(|(_, report)| report.is_err()).collect();
            assert!(matches!(wrong[..], [(None, Err(_))]), "byte {at}: {found:?}");
        }
        std::fs::write(&run, good).unwrap();
    }
}
