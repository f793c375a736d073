//! gowk against `format-spec/decode.py`, which was written only from the specification.
//!
//! Invariants checked, if there is a `python3`:
//!
//! 1. For every accepted golden file, and for new filters, both give the same statistics and the same answers, false
//!    positives included.
//! 2. Both refuse every rejected golden file.
//!
//! The answers are compared on 30,000 present and 30,000 absent keys for each width and for two grown filters, or on
//! 100,000 with `GOWK_THOROUGH=1`. `cargo test --release --test format decoder -- --nocapture` shows how many were false
//! positives.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use gowk::{Batches, Error, HashKind, Info, Kind, Lookup, Options, Reader, SlotsPerBucket};

use crate::thorough;
use crate::vectors::{self, ABSENT, accepted, key, rejected, unpack};

/// Runs the decoder. Without Python, prints a note and returns `None`.
fn decode(arguments: &[&str], input: String) -> Option<Output> {
    let decoder = concat!(env!("CARGO_MANIFEST_DIR"), "/format-spec/decode.py");
    let mut command = Command::new(thorough::python());
    // The decoder needs only the standard library: without `site`, Python starts faster.
    command
        .args(["-S", decoder])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("SKIPPED: there is no python3 to run decode.py with");
            return None;
        }
        outcome => outcome.unwrap(),
    };
    let mut stdin = child.stdin.take().unwrap();
    let writing = std::thread::spawn(move || {
        // A decoder that refuses the file does not read the keys.
        let _ = stdin.write_all(input.as_bytes());
    });
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!errors.contains("Traceback"), "{arguments:?}: {errors}");
    Some(output)
}

/// The value of a field in one flat JSON object.
fn field<'a>(json: &'a str, name: &str) -> &'a str {
    let (_, rest) =
        json.split_once(&format!("\"{name}\": ")).unwrap_or_else(|| panic!("no {name} in {json}"));
    let end =
        if rest.starts_with('[') { rest.find(']').unwrap() + 1 } else { rest.find([',', '}']).unwrap() };
    &rest[..end]
}

fn assert_same_statistics(json: &str, info: &Info, journal_length: u64) {
    let uuid: String = field(json, "uuid").chars().filter(char::is_ascii_hexdigit).collect();
    let ours = info.uuid.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    });
    assert_eq!(uuid, ours);
    for (name, ours) in [
        ("kind", format!("{:?}", info.kind.name())),
        ("slots_per_bucket", info.slots_per_bucket.get().to_string()),
        ("base_regions", info.base_regions.to_string()),
        ("generation", info.generation.to_string()),
        ("regions", info.regions.to_string()),
        ("shards", info.shards.to_string()),
        ("shard", info.shard.to_string()),
        ("entries", info.entries.to_string()),
        ("entries_by_tail", format!("{:?}", info.entries_by_tail)),
        ("digits", info.digits.to_string()),
        ("saturated", info.saturated.to_string()),
        ("copies", info.copies.to_string()),
        ("commit", info.commit.to_string()),
        ("file_length", info.file_length.to_string()),
        ("journal_length", journal_length.to_string()),
        ("quarantined_buckets", info.quarantined_buckets.to_string()),
    ] {
        assert_eq!(field(json, name), ours, "{name}");
    }
    for (name, ours) in [
        ("load", Some(info.load)),
        ("bits_per_key", info.bits_per_key),
        ("expected_false_positive_rate", Some(info.expected_false_positive_rate)),
    ] {
        let theirs = field(json, name).parse::<f64>().ok();
        let same = match (theirs, ours) {
            (Some(theirs), Some(ours)) => (theirs - ours).abs() <= 1e-12 * ours.abs(),
            (theirs, ours) => theirs == ours,
        };
        assert!(same, "{name}: {theirs:?}, not {ours:?}");
    }
}

/// Compares the answers for some keys, given as lines.
fn assert_same_answers(path: &Path, reader: &Reader, keys: String) -> Option<()> {
    let present = keys.lines().filter(|key| reader.contains(key.as_bytes()).unwrap());
    let ours: Vec<String> = present.map(str::to_owned).collect();
    let output = decode(&[path.to_str().unwrap(), "--check"], keys)?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs = String::from_utf8(output.stdout).unwrap();
    assert!(theirs.lines().eq(ours.iter().map(String::as_str)), "{path:?}: answers differ");
    Some(())
}

/// Compares the counts of some keys, given as lines.
fn assert_same_counts(path: &Path, reader: &Reader, keys: String) -> Option<()> {
    let counted = keys.lines().map(|key| format!("{}\t{key}", reader.count(key.as_bytes()).unwrap()));
    let ours: Vec<String> = counted.collect();
    let output = decode(&[path.to_str().unwrap(), "--count"], keys)?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs = String::from_utf8(output.stdout).unwrap();
    assert!(theirs.lines().eq(ours.iter().map(String::as_str)), "{path:?}: counts differ");
    Some(())
}

fn lines(numbers: impl Iterator<Item = u64>) -> String {
    numbers.fold(String::new(), |mut text, number| {
        text.push_str(&key(number));
        text.push('\n');
        text
    })
}

#[test]
fn the_decoder_passes_its_own_checks() {
    let Some(output) = decode(&["--self-test"], String::new()) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn accepted_files_have_the_same_statistics_and_answers() {
    for row in accepted() {
        let dir = tempfile::tempdir().unwrap();
        let path = unpack("accept", &row.name, dir.path());
        let journal = dir.path().join(format!("{}-journal", row.name));
        let journal_length = journal.metadata().map_or(0, |found| found.len().saturating_sub(512));
        // The decoder comes first: it changes nothing, while gowk may recover the file.
        let Some(output) = decode(&[path.to_str().unwrap()], String::new()) else { return };
        assert!(output.status.success(), "{}: {}", row.name, String::from_utf8_lossy(&output.stderr));
        let elsewhere = tempfile::tempdir().unwrap();
        let other = Reader::open(unpack("accept", &row.name, elsewhere.path())).unwrap();
        let of_shard =
            |number: &u64| !matches!(other.contains(key(*number).as_bytes()), Err(Error::OtherShard { .. }));
        let asked = row.present.iter().cloned().flatten().chain(ABSENT.take(2000));
        let keys = lines(asked.clone().filter(of_shard));
        let before = decode(&[path.to_str().unwrap(), "--check"], keys.clone()).unwrap();
        let reader = Reader::open(&path).unwrap();
        let info = reader.info().unwrap();
        assert_same_statistics(&String::from_utf8(output.stdout).unwrap(), &info, journal_length);
        if info.hash == HashKind::Caller {
            assert_eq!(before.status.code(), Some(2), "{}", row.name);
            continue;
        }
        let ours = keys.lines().filter(|key| reader.contains(key.as_bytes()).unwrap());
        let theirs = String::from_utf8(before.stdout).unwrap();
        assert!(ours.eq(theirs.lines()), "{}: answers differ", row.name);
        if let Some(number) = asked.clone().find(|number| !of_shard(number)) {
            let refused = decode(&[path.to_str().unwrap(), "--check"], lines([number].into_iter())).unwrap();
            assert_eq!((refused.status.code(), info.shards > 1), (Some(2), true), "{}", row.name);
        }
    }
}

#[test]
fn rejected_files_are_refused_by_the_decoder_too() {
    for row in rejected() {
        let dir = tempfile::tempdir().unwrap();
        let path = unpack("reject", &row.name, dir.path());
        let Some(output) = decode(&[path.to_str().unwrap()], String::new()) else { return };
        let expected = match row.refused.as_str() {
            // Only writers refuse this file.
            "write" => 0,
            "damaged" | "malformed" => 1,
            _ => 2,
        };
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(expected), "{}: {errors}", row.name);
        let (data, journal) = vectors::read("reject", &row.name);
        assert!(std::fs::read(&path).unwrap() == data, "{} was changed", row.name);
        let found = std::fs::read(dir.path().join(format!("{}-journal", row.name))).ok();
        assert!(found == journal, "the journal of {} was changed", row.name);
    }
}

/// How many copies a key has: one, 2 to 40, or 2000.
const fn copies(number: u64) -> u64 {
    match number {
        7 => 2000,
        _ if number.is_multiple_of(31) => number % 41,
        _ => 1,
    }
}

/// Compares statistics and answers for a new filter that doubled `generations` times, each time after an equal part of
/// the inserts.
fn compare_fresh(kind: Kind, slots: SlotsPerBucket, generations: u32) {
    let keys = thorough::size("present keys, and as many absent ones", 10_000, 100_000);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    // At two slots a bucket, each key with copies takes a whole bucket.
    let capacity = if generations == 0 { 2 * keys } else { 1 };
    let mut writer =
        Options::new().kind(kind).capacity(capacity).slots_per_bucket(slots).seed(3).open(&path).unwrap();
    let steps = u64::from(generations) + 1;
    for step in 0..steps {
        if step > 0 && writer.info().unwrap().generation < step as u32 {
            writer.grow().unwrap();
        }
        for number in keys * step / steps..keys * (step + 1) / steps {
            // Few keys have many copies.
            for _ in 0..copies(number) {
                writer.insert(key(number).as_bytes()).unwrap();
            }
        }
        writer.commit().unwrap();
    }
    writer.close().unwrap();
    let reader = Reader::open(&path).unwrap();
    let info = reader.info().unwrap();
    assert_eq!(info.generation, generations);
    let Some(output) = decode(&[path.to_str().unwrap()], String::new()) else { return };
    assert_same_statistics(&String::from_utf8(output.stdout).unwrap(), &info, 0);
    let all = lines((0..keys).chain(ABSENT.start..ABSENT.start + keys));
    let Some(()) = assert_same_answers(&path, &reader, all.clone()) else { return };
    let some: Vec<&str> = all.lines().step_by(7).collect();
    let Some(()) = assert_same_counts(&path, &reader, some.join("\n")) else { return };
    let found = (ABSENT.start..ABSENT.start + keys)
        .filter(|number| reader.contains(key(*number).as_bytes()).unwrap())
        .count();
    println!("{kind}, n = {}, g = {generations}: all of {keys} found, {found} absent ones too", slots.get());
}

#[test]
fn fresh_filters_of_each_width_have_the_same_statistics_and_answers() {
    for slots in SlotsPerBucket::ALL {
        for kind in [Kind::Set, Kind::Counting] {
            compare_fresh(kind, slots, 0);
        }
    }
}

/// Tests keys of several ages, some of them forgotten; a swept filter, a grown one, and one with commits in the journal.
#[test]
fn forgetting_filters_have_the_same_statistics_and_answers() {
    const DAY: Duration = Duration::from_secs(86_400);
    for (rate, within) in [(1e-3, 15), (2e-3, 5), (1e-4, 3), (3e-8, 3)] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let options = Options::new().capacity(20_000).false_positive_rate(rate).refresh(rate < 1e-3);
        let options = options.forget_after(30 * DAY).forget_within(within * DAY).seed(3);
        let mut writer = options.open(&path).unwrap();
        let start = SystemTime::now() - 100 * DAY;
        for day in 0..90 {
            let keys: Vec<String> = (0..300).map(|number| key(u64::from(day) * 270 + number)).collect();
            let times = vec![start + day * DAY; keys.len()];
            writer.insert_batch_at(&keys, &times).unwrap().inserted.complete().unwrap();
            match day {
                20 | 50 => writer.grow().unwrap(),
                _ => writer.commit().unwrap(),
            }
        }
        writer.close().unwrap();
        let reader = Reader::open(&path).unwrap();
        let info = reader.info().unwrap();
        assert!(info.generation == 2 && info.removed > 9_000, "{info:?}");
        let Some(output) = decode(&[path.to_str().unwrap()], String::new()) else { return };
        assert_same_statistics(&String::from_utf8(output.stdout).unwrap(), &info, 0);
        let all = lines((0..27_000).chain(ABSENT));
        let Some(()) = assert_same_answers(&path, &reader, all.clone()) else { return };
        let some: Vec<&str> = all.lines().step_by(17).collect();
        let Some(()) = assert_same_counts(&path, &reader, some.join("\n")) else { return };
    }
}

/// Inserts more keys than the filter keeps.
#[test]
fn filters_of_the_newest_keys_have_the_same_statistics_and_answers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let mut writer =
        Options::new().keep_newest(20_000).false_positive_rate(2e-3).seed(3).open(&path).unwrap();
    for part in 0..9 {
        let keys: Vec<String> = (part * 10_000..(part + 1) * 10_000).map(key).collect();
        writer.insert_batch(&keys).unwrap().complete().unwrap();
        writer.commit().unwrap();
    }
    writer.close().unwrap();
    let reader = Reader::open(&path).unwrap();
    let info = reader.info().unwrap();
    assert!(info.removed > 60_000 && info.generation == 0, "{info:?}");
    let Some(output) = decode(&[path.to_str().unwrap()], String::new()) else { return };
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("\"clock\": 1"), "{told}");
    assert_same_statistics(&told, &info, 0);
    let Some(()) = assert_same_answers(&path, &reader, lines((0..90_000).chain(ABSENT))) else { return };
}

#[test]
fn grown_filters_have_the_same_statistics_and_answers() {
    for generations in [3, 6] {
        for kind in [Kind::Set, Kind::Counting] {
            compare_fresh(kind, SlotsPerBucket::Four, generations);
        }
    }
}
