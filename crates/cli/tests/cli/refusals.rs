//! Invariants checked: an error is one line on standard error that names file and remedy, with exit code 2. Names and
//! bytes in the folder do not change. Keys inserted before an error are committed, and their reported number is right.

use crate::run::{Folder, Unprivileged, lines, set_mode};

/// Every verb that opens an existing filter.
const VERBS: [&[&str]; 10] = [
    &["check", "f", "a"],
    &["count", "f", "a"],
    &["info", "f"],
    &["verify", "f"],
    &["copy", "f", "copy"],
    &["insert", "f", "a"],
    &["remove", "f", "a"],
    &["dedup", "f", "a"],
    &["grow", "f"],
    &["set", "f", "--growth", "never"],
];
/// How many of these verbs only read.
const READING: usize = 5;

/// Bytes in a superblock slot; slot B follows slot A.
const SLOT: usize = 65_536;

#[track_caller]
fn all_refuse(folder: &Folder, verbs: &[&[&str]], words: &[&str]) {
    let before = folder.snapshot();
    for verb in verbs {
        let ended = folder.run(verb, "");
        ended.refused(words);
        assert_eq!(ended.text(), "", "{verb:?}");
        assert!(folder.snapshot() == before, "{verb:?} changed the folder");
    }
}

/// A filter with both superblock slots changed and sealed again.
fn resealed(change: impl Fn(&mut [u8])) -> Folder {
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    folder.run(&["insert", "f", "a"], "").done();
    folder.change("f", |bytes| {
        for slot in bytes[..2 * SLOT].chunks_exact_mut(SLOT) {
            change(slot);
            let (sealed, seal) = slot.split_at_mut(SLOT - 4);
            seal.copy_from_slice(&crc32fast::hash(sealed).to_le_bytes());
        }
    });
    folder
}

#[test]
fn resealing_itself_does_no_harm() {
    resealed(|_| {}).assert_holds("f", "a\n");
}

#[test]
fn files_that_are_no_filters() {
    for content in [b"".as_slice(), b"x", &[0; 70_000], &b"not a filter\n".repeat(30_000)] {
        let folder = Folder::new();
        std::fs::write(folder.path("f"), content).unwrap();
        all_refuse(&folder, &VERBS, &["/f: not a gowk filter", "check the path"]);
        all_refuse(&folder, &[&["create", "f", "--capacity", "1", "--force"]], &["/f: not a gowk filter"]);
    }
}

/// An empty file, as `mktemp` makes it.
#[test]
fn an_empty_file() {
    let folder = Folder::new();
    std::fs::write(folder.path("f"), "").unwrap();
    all_refuse(&folder, &VERBS, &["/f: not a gowk filter: the file is empty; remove it", "`gowk dedup`"]);
}

#[test]
fn a_missing_file() {
    let folder = Folder::new();
    let creates = VERBS.len() - 3;
    let verbs = [&VERBS[..creates], &VERBS[creates + 1..]].concat();
    all_refuse(&folder, &verbs, &["/f: no such filter", "gowk create"]);
}

#[test]
fn a_missing_folder() {
    let folder = Folder::new();
    let verbs: [&[&str]; 3] =
        [&["dedup", "d/f", "a"], &["create", "d/f", "--capacity", "1"], &["check", "d/f", "a"]];
    all_refuse(&folder, &verbs, &["d: ", "create the folder"]);
}

#[test]
fn a_folder_in_the_place_of_the_file() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("f")).unwrap();
    all_refuse(&folder, &VERBS, &["/f: ", "directory", "give the path of a filter file"]);
}

#[test]
fn truncated_files() {
    let whole = Folder::with_filter(&["--capacity", "1000"]);
    let bytes = std::fs::read(whole.path("f")).unwrap();
    for length in [SLOT, 2 * SLOT, bytes.len() - SLOT, bytes.len() - 1] {
        let folder = Folder::new();
        std::fs::write(folder.path("f"), &bytes[..length]).unwrap();
        all_refuse(&folder, &VERBS, &["/f: ", "restore"]);
    }
}

#[test]
fn a_newer_major_version() {
    let folder = resealed(|slot| slot[8..10].copy_from_slice(&2_u16.to_le_bytes()));
    all_refuse(&folder, &VERBS, &["/f: format version 2.0", "use a newer gowk"]);
}

#[test]
fn unknown_features() {
    let folder = resealed(|slot| slot[16] |= 8);
    all_refuse(&folder, &VERBS, &["/f: ", "0x8", "use a newer gowk"]);
    let folder = resealed(|slot| slot[24] = 8);
    all_refuse(&folder, &VERBS[READING..], &["/f: ", "0x8", "writing", "use a newer gowk"]);
    folder.assert_holds("f", "a\n");
}

#[test]
fn both_superblock_slots_damaged() {
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    folder.change("f", |bytes| {
        bytes[300] ^= 1;
        bytes[SLOT + 300] ^= 1;
    });
    all_refuse(&folder, &VERBS, &["/f: both superblocks are damaged", "restore"]);
}

#[test]
fn options_out_of_range() {
    let cases: [(&[&str], &str); 9] = [
        (&["--capacity", "0"], "capacity is 0, but must be at least 1"),
        (&["--capacity", "1_000_000_000_000_000"], "capacity is 1000000000000000, but must be"),
        (&["--capacity", "9", "--false-positive-rate", "0"], "rate is 0, but must be above 0 and below 1"),
        (&["--capacity", "9", "--false-positive-rate", "1"], "rate is 1, but must be above 0 and below 1"),
        (&["--capacity", "9", "--false-positive-rate", "2"], "rate is 2, but must be above 0 and below 1"),
        (&["--capacity", "9", "--false-positive-rate", "NaN"], "rate is NaN, but must be"),
        (&["--capacity", "9", "--false-positive-rate", "1e-10"], "must be at least 9.4e-10"),
        (&["--capacity", "9", "--max-false-positive-rate", "1"], "must be above 0 and below 1"),
        (&["--capacity", "9", "--max-file-size", "4K"], "size is 4096, but must be"),
    ];
    let folder = Folder::new();
    for (options, words) in cases {
        all_refuse(&folder, &[&[&["create", "f"], options].concat()], &["gowk: f: ", words]);
        all_refuse(&folder, &[&[&["dedup", "f"], options].concat()], &["gowk: f: ", words]);
    }
}

#[test]
fn a_capacity_past_the_disk() {
    let folder = Folder::new();
    let create = ["create", "f", "--capacity", "70_000_000_000_000", "--slots-per-bucket", "7"];
    all_refuse(&folder, &[&create], &["/f: needs ", "free some"]);
}

#[test]
fn creation_over_a_filter_unless_forced() {
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    folder.run(&["insert", "f", "a"], "").done();
    all_refuse(&folder, &[&["create", "f", "--capacity", "9"]], &["/f: exists already", "--force"]);
    all_refuse(&folder, &[&["copy", "f", "f"]], &["/f: exists already; choose another name"]);
    folder.run(&["create", "f", "--capacity", "9", "--force"], "").done();
    folder.assert_lacks("f", "a\n");
    assert_eq!(folder.info("f")["capacity"], 9);
}

#[test]
fn growth_past_a_limit() {
    let folder = Folder::with_filter(&["--capacity", "1000", "--max-file-size", "256K"]);
    all_refuse(&folder, &[&["grow", "f"]], &["/f: will not double", "limit of 262144", "gowk set"]);
}

#[test]
fn inputs_that_cannot_be_read_or_hold_too_long_a_key() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("d")).unwrap();
    let verbs: [&[&str]; 2] =
        [&["dedup", "f", "--input", "-", "--input", "none"], &["dedup", "f", "--input", "d"]];
    all_refuse(&folder, &verbs[..1], &["none: cannot read", "--input"]);
    all_refuse(&folder, &verbs[1..], &["d: cannot read", "directory", "--input"]);

    let longest = "x".repeat(16 << 20);
    let ended = folder.run(&["dedup", "f", "-0"], format!("a\0{longest}\0{longest}y\0b\0"));
    ended.refused(&["standard input: key 3 is longer", "the first 2 are committed"]);
    assert_eq!(ended.out.len(), 2 + longest.len() + 1);
    folder.assert_holds("f", "a\n");
    folder.assert_holds("f", &format!("{longest}\n"));
    folder.assert_lacks("f", "b\n");
    folder.run(&["check", "f"], format!("a\n{longest}y\n")).refused(&["standard input: line 2 is longer"]);
}

#[test]
fn keys_before_an_error_are_committed_and_their_number_is_named() {
    let folder = Folder::with_filter(&["--capacity", "200_000", "--seed", "7"]);
    folder.run(&["insert", "f"], lines(0..1000)).done();
    // One of more than a hundred pages is damaged.
    let page = folder.data_offset("f") + 5 * 4096;
    folder.change("f", |bytes| bytes[page + 100] ^= 1);
    let keys = lines(1000..60_000);
    let ended = folder.run(&["dedup", "f", "--commit-every", "10"], &keys);
    ended.refused(&["/f: page 5 (region 0) is damaged", "gowk verify"]);
    let words = ended.err.trim().strip_suffix(" are committed").unwrap();
    let taken: usize = words.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(taken > 0 && taken < 59_000, "{taken}");
    // Keys are inserted in batches. Some keys of the batch that met the page may be stored; these were printed.
    folder.run(&["repair", "f"], "");
    let before: String = keys.split_inclusive('\n').take(taken).collect();
    folder.assert_holds("f", &before);
    folder.assert_holds("f", &ended.text());
    let again = folder.run(&["dedup", "f"], &keys);
    let printed: std::collections::HashSet<String> = ended.text().lines().map(str::to_owned).collect();
    assert!(again.text().lines().all(|key| !printed.contains(key)), "a key was printed twice");
}

#[test]
fn missing_permissions() {
    let Some(unprivileged) = Unprivileged::new() else {
        eprintln!("SKIPPED: missing_permissions: this is root, and setpriv does not work");
        return;
    };
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    folder.run(&["insert", "f", "a"], "").done();
    let before = folder.snapshot();

    // A filter with only read permission answers, in a folder with only read permission.
    set_mode(&folder.path(""), 0o555);
    set_mode(&folder.path("f"), 0o444);
    assert_eq!(unprivileged.run(&folder, &["check", "f", "a"]).done(), "a\n");
    for verb in VERBS[READING..].iter().chain([&["create", "new", "--capacity", "1"][..]].iter()) {
        unprivileged.run(&folder, verb).refused(&["ermission denied", "check the permissions"]);
    }
    // A filter without read permission is an error.
    set_mode(&folder.path("f"), 0o000);
    for verb in &VERBS {
        unprivileged.run(&folder, verb).refused(&["ermission denied", "check the permissions"]);
    }
    set_mode(&folder.path("f"), 0o644);
    set_mode(&folder.path(""), 0o755);
    assert!(folder.snapshot() == before);
}
