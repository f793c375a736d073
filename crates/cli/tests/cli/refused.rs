//! Invariants checked: a key that does not fit is reported and skipped. The tool names it or counts it, writes it to
//! `--refused`, and `dedup` prints it as new each time. All other keys are stored, and the exit code is 2.

use std::collections::HashMap;

use gowk::Options;

use crate::run::{Ended, Folder, lines};

/// How many of the crafted keys fit: all lanes of two buckets.
const FIT: usize = 8;

/// Twelve keys that share one pair of buckets in a filter of one region with four slots per bucket, with different tails.
/// The seed makes them quick to find.
fn crafted(folder: &Folder) -> Vec<String> {
    let description = folder.run(&["info", "f", "--show-seed", "--json"], "").json();
    let seed = description["seed"].as_str().unwrap().parse().unwrap();
    let hashing = Options::new().capacity(1000).seed(seed).create(folder.path("hashing")).unwrap();
    let mut groups: HashMap<u64, HashMap<u64, String>> = HashMap::new();
    for number in 0_u64.. {
        let key = format!("https://example.org/{number}");
        let hash = hashing.hash(key.as_bytes()).unwrap().get();
        // The low half of the hash has the first bucket in its lowest 13 bits, and the tag in its highest 6.
        let (local, position) = (hash as u64, (hash >> 64) as u64);
        let group = groups.entry((local >> 58) << 13 | local & 0x1fff).or_default();
        group.insert(position >> 55, key);
        if group.len() == 12 {
            let mut keys: Vec<_> = group.values().cloned().collect();
            keys.sort();
            return keys;
        }
    }
    unreachable!("there are always more keys")
}

fn joined(keys: &[String]) -> String {
    keys.iter().flat_map(|key| [key, "\n"]).collect()
}

/// A folder with a filter of one region, and with the crafted keys among 200 others.
fn prepared() -> (Folder, Vec<String>, String) {
    prepared_with(&[])
}

fn prepared_with(options: &[&str]) -> (Folder, Vec<String>, String) {
    let folder = Folder::with_filter(&[&["--capacity", "1000", "--slots-per-bucket", "4"], options].concat());
    let crafted = crafted(&folder);
    let input = [lines(0..100), joined(&crafted), lines(100..200)].concat();
    (folder, crafted, input)
}

/// Checks that the last line has the number of refused keys, and that each earlier line names one of them.
#[track_caller]
fn assert_named(ended: &Ended, refused: &[String], first_line: usize, of: usize) {
    assert_eq!(ended.code, Some(2), "{ended:?}");
    let mut told = ended.err.lines();
    for (line, key) in (first_line..).zip(refused) {
        let words = format!("gowk: f: no room for line {line} of standard input: {key}");
        assert_eq!(told.next(), Some(words.as_str()));
    }
    let last = told.next().unwrap();
    let words =
        format!("; {} of this run's {of} keys found no room and are not in the filter", refused.len());
    assert!(last.starts_with("gowk: ") && last.contains(&words), "{last}");
    assert!(last.contains("create a filter with another seed"), "{last}");
    assert_eq!(told.next(), None);
}

#[test]
fn dedup_goes_on_past_twelve_crafted_keys_and_prints_those_without_room_as_new_each_time() {
    let (folder, crafted, input) = prepared();
    let refused = &crafted[FIT..];
    let ended = folder.run(&["dedup", "f"], &input);
    assert_eq!(ended.text(), input);
    assert_named(&ended, refused, 101 + FIT, 212);
    let others = [lines(0..100), joined(&crafted[..FIT]), lines(100..200)].concat();
    folder.assert_holds("f", &others);

    let again = folder.run(&["dedup", "f"], &input);
    assert_eq!(again.text(), joined(refused));
    assert_named(&again, refused, 101 + FIT, 212);
    assert_eq!(folder.info("f")["entries"], 200 + FIT as u64);
    folder.run(&["verify", "f"], "").done();
}

/// Copies also need lanes. Copies of the stored keys do not fit, and are refused without being new.
#[test]
fn dedup_prints_no_refused_copy_of_a_key_that_is_there() {
    let (folder, crafted, input) = prepared_with(&["--counting"]);
    let refused = &crafted[FIT..];
    let ended = folder.run(&["dedup", "f"], &input);
    assert_eq!(ended.text(), input);
    assert_named(&ended, refused, 101 + FIT, 212);
    let again = folder.run(&["dedup", "f"], &input);
    assert_eq!((again.code, again.text()), (Some(2), joined(refused)));
    assert!(again.err.contains("; 12 of this run's 212 keys found no room"), "{again:?}");
    let counts = folder.run(&["count", "f"], lines(0..1) + &joined(&crafted[..1])).done();
    assert_eq!(counts, format!("2\tkey 0\n1\t{}\n", crafted[0]));
    folder.run(&["verify", "f"], "").done();
}

#[test]
fn insert_goes_on_and_writes_the_keys_without_room() {
    for kind in [&[][..], &["--counting"]] {
        let (folder, crafted, input) = prepared_with(kind);
        let refused = &crafted[FIT..];
        let args = ["insert", "f", "--refused", "r", "--commit-every", "7"];
        assert_named(&folder.run(&args, &input), refused, 101 + FIT, 212);
        assert_eq!(std::fs::read_to_string(folder.path("r")).unwrap(), joined(refused));
        assert_eq!(folder.info("f")["entries"], 200 + FIT as u64);
        folder.assert_holds("f", &[lines(0..200), joined(&crafted[..FIT])].concat());
        // The lines of the first run remain in the file.
        assert_eq!(folder.run(&[&args[..], &["-0"]].concat(), crafted[11].as_str()).code, Some(2));
        let twice = [joined(refused), crafted[11].clone(), "\0".to_owned()].concat();
        assert_eq!(std::fs::read_to_string(folder.path("r")).unwrap(), twice);
    }
}

#[test]
fn keys_without_room_are_named_by_their_input_and_by_their_number() {
    let (folder, crafted, _) = prepared();
    folder.run(&["insert", "f"], joined(&crafted[..FIT])).done();
    std::fs::write(folder.path("one"), lines(0..9)).unwrap();
    std::fs::write(folder.path("two"), format!("a\n{}\n", crafted[8])).unwrap();
    let ended = folder.run(&["insert", "f", "--input", "one", "--input", "two"], "");
    assert!(ended.err.starts_with("gowk: f: no room for line 2 of two: https://example.org/"), "{ended:?}");
    let ended = folder.run(&["insert", "f", "b", &crafted[9]], "");
    assert!(ended.err.starts_with("gowk: f: no room for argument 2: https://example.org/"), "{ended:?}");
    let ended = folder.run(&["dedup", "f", "-0", "--json"], format!("c\0{}", crafted[10]));
    assert_eq!((ended.code, ended.text()), (Some(2), format!("c\0{}\0", crafted[10])));
    let told: Vec<_> = ended.err.lines().collect();
    let event: serde_json::Value = serde_json::from_str(told[0]).unwrap();
    assert_eq!((&event["event"], &event["number"]), (&"refused".into(), &2.into()));
    assert_eq!((&event["input"], &event["key"]), (&"standard input".into(), &crafted[10].as_str().into()));
    assert!(event["reason"].as_str().unwrap().contains("will not double"), "{event}");
    assert!(told[1].starts_with("{\"event\":\"commit\""), "{ended:?}");
    assert!(
        told[2].starts_with("{\"event\":\"summary\",\"read\":2,\"new\":2,\"seen\":0,\"refused\":1,"),
        "{ended:?}"
    );
    assert!(told[3].starts_with("gowk: ") && told.len() == 4, "{ended:?}");
}

#[test]
fn of_many_keys_without_room_the_first_ten_are_named_and_all_are_written() {
    let folder = Folder::with_filter(&["--capacity", "1000", "--slots-per-bucket", "2", "--growth", "never"]);
    let input = lines(0..30_000);
    let ended = folder.run(&["dedup", "f", "--refused", "r"], &input);
    // One key in 500 million is a false positive.
    assert!(ended.text() == input);
    let refused = std::fs::read_to_string(folder.path("r")).unwrap();
    let held = folder.run(&["check", "f"], &input).done();
    assert_eq!(held.lines().count() + refused.lines().count(), 30_000);
    let mut all: Vec<_> = held.lines().chain(refused.lines()).collect();
    all.sort_unstable();
    let mut keys: Vec<_> = input.lines().collect();
    keys.sort_unstable();
    assert!(all == keys);

    let told: Vec<_> = ended.err.lines().collect();
    assert_eq!(told.len(), 12, "{told:?}");
    assert!(told[..10].iter().all(|line| line.contains("no room for line")), "{told:?}");
    assert_eq!(told[10], "gowk: f: further keys without room are counted only");
    let words = format!("{} of this run's 30000 keys found no room", refused.lines().count());
    for words in [&words, "but in r", "gowk grow", "`gowk set --growth auto`", "create a larger filter"] {
        assert!(told[11].contains(words), "no {words:?} in {}", told[11]);
    }
}

#[test]
fn a_file_for_keys_without_room_that_something_else_uses_is_refused() {
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    std::fs::write(folder.path("keys"), "a\n").unwrap();
    std::fs::hard_link(folder.path("keys"), folder.path("link")).unwrap();
    let before = folder.snapshot();
    for (path, words) in [
        ("f", "f: is "),
        ("f-journal", "a file of the filter itself"),
        ("./f-lock", "a file of the filter itself"),
        ("keys", "keys: is the input keys"),
        ("link", "link: is the input keys"),
        ("none/r", "none/r: cannot open"),
    ] {
        let insert = ["insert", "f", "--input", "keys", "--refused", path];
        folder.run(&insert, "").refused(&[words]);
        assert!(folder.snapshot() == before, "{path}");
    }
    let new = ["dedup", "g", "a", "--refused", "g-journal"];
    folder.run(&new, "").refused(&["g-journal: is ", "a file of the filter itself"]);
    assert!(!folder.path("g").exists());
}

#[test]
fn keys_whose_refusal_cannot_be_written_are_not_committed() {
    let (folder, crafted, input) = prepared();
    let ended = folder.run(&["dedup", "f", "--refused", "/dev/full"], &input);
    let last = ended.err.lines().last().unwrap();
    assert_eq!(ended.code, Some(2));
    assert!(last.contains("/dev/full: cannot write: ") && last.contains("make room there"), "{last}");
    assert_eq!(folder.info("f")["entries"], 0);
    folder.assert_lacks("f", &joined(&crafted));
}
