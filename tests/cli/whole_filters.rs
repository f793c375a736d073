//! Invariants checked: one flipped byte is found, named and never turned into "absent"; a copy and a doubled
//! filter answer as the original does; `info` holds what the documentation promises.

use crate::run::{Folder, lines};

/// A filter of several regions with 50,000 keys.
fn filled() -> Folder {
    let folder = Folder::with_filter(&["--capacity", "100_000", "--false-positive-rate", "0.001"]);
    folder.run(&["insert", "f"], lines(0..50_000)).done();
    assert!(folder.info("f")["regions"].as_u64().unwrap() >= 3);
    folder
}

#[test]
fn a_flipped_byte_is_named_by_verify_and_found_by_lookups() {
    let folder = filled();
    assert_eq!(folder.run(&["verify", "f"], "").done(), "f: 64 pages read, no damage found\n");
    let data = folder.data_offset("f");
    folder.change("f", |bytes| bytes[data + 37 * 4096 + 1234] ^= 0x40);

    let verified = folder.run(&["verify", "f"], "");
    assert_eq!(verified.code, Some(1));
    assert!(verified.text().contains("f: page 37 (region 2) does not match its checksum\n"), "{verified:?}");
    assert!(verified.text().contains("Next: restore a copy, or run `gowk repair`"), "{verified:?}");
    let verified = folder.run(&["verify", "f", "--json"], "");
    assert_eq!(verified.code, Some(1));
    let report = verified.json();
    assert_eq!(report["damaged"], serde_json::json!([{ "page": 37, "region": 2 }]));
    assert_eq!((&report["clean"], &report["pages"]), (&false.into(), &64.into()));

    let words = ["/f: page 37 (region 2) is damaged", "gowk verify"];
    folder.run(&["check", "f"], lines(0..50_000)).refused(&words);
    folder.run(&["count", "f"], lines(0..50_000)).refused(&words);
    folder.run(&["copy", "f", "g"], "").refused(&words);
    folder.run(&["grow", "f"], "").refused(&words);
    assert!(!folder.path("g").exists());
    let present = folder.run(&["check", "f", "--on-damage=present"], lines(0..50_000)).done();
    assert_eq!(present, lines(0..50_000));
}

#[test]
fn one_damaged_superblock_slot_is_reported_and_written_anew_by_the_next_insert() {
    for slot in 0..2 {
        let folder = filled();
        folder.change("f", |bytes| bytes[slot * 65_536 + 250] ^= 1);
        folder.assert_holds("f", &lines(0..50_000));
        let verified = folder.run(&["verify", "f"], "");
        assert_eq!(verified.code, Some(1));
        assert!(verified.text().starts_with("f: one of the two superblocks is damaged"), "{verified:?}");
        assert_eq!(folder.run(&["verify", "f", "--json"], "").json()["superblock_damaged"], true);
        folder.run(&["insert", "f", "another"], "").done();
        folder.run(&["verify", "f"], "").done();
        folder.assert_holds("f", &lines(0..50_000));
    }
}

#[test]
fn a_copy_has_its_own_uuid_and_the_same_answers() {
    let folder = filled();
    folder.run(&["copy", "f", "g"], "").done();
    let (mut original, mut copy) = (folder.info("f"), folder.info("g"));
    assert_ne!(original["uuid"].take(), copy["uuid"].take());
    assert_ne!(original["commit"].take(), serde_json::Value::Null);
    assert_ne!(copy["commit"].take(), serde_json::Value::Null);
    assert_eq!(original, copy);
    let questions = lines(0..300_000);
    assert_eq!(
        folder.run(&["check", "f"], &questions).done(),
        folder.run(&["check", "g"], &questions).done()
    );
    folder.run(&["verify", "g"], "").done();
}

#[test]
fn a_forced_copy_takes_the_place_of_a_filter_and_needs_a_filter_there() {
    let folder = filled();
    folder.run(&["create", "live", "--capacity", "1000", "--slots-per-bucket", "2"], "").done();
    folder.run(&["insert", "live", "an old key"], "").done();
    folder.run(&["copy", "f", "live"], "").refused(&["/live: exists already", "--force"]);
    folder.assert_holds("live", "an old key\n");
    folder.run(&["copy", "--force", "f", "live"], "").done();
    folder.assert_holds("live", &lines(0..50_000));
    folder.assert_lacks("live", "an old key\n");
    folder.run(&["verify", "live"], "").done();
    std::fs::write(folder.path("text"), "no filter").unwrap();
    folder.run(&["copy", "--force", "f", "text"], "").refused(&["/text: not a gowk filter"]);
    folder.run(&["copy", "--force", "f", "new"], "").done();
    folder.assert_holds("new", &lines(0..50_000));
}

#[test]
fn a_filter_like_another_has_its_seed_shape_and_limits() {
    let folder = Folder::with_filter(&[
        "--capacity",
        "200_000",
        "--false-positive-rate",
        "1e-6",
        "--max-file-size",
        "1G",
        "--max-false-positive-rate",
        "1e-4",
        "--growth",
        "never",
    ]);
    folder.run(&["insert", "f"], lines(0..1000)).done();
    folder.run(&["grow", "f"], "").done();
    folder.run(&["create", "g", "--like", "f"], "").done();
    let (old, new) = (folder.info("f"), folder.info("g"));
    for field in [
        "seed",
        "hash",
        "slots_per_bucket",
        "base_regions",
        "capacity",
        "requested_false_positive_rate",
        "growth",
        "max_file_size",
        "max_false_positive_rate",
        "shards",
        "shard",
    ] {
        assert_eq!(old[field], new[field], "{field}");
    }
    assert_ne!(old["uuid"], new["uuid"]);
    assert_eq!((&new["generation"], &new["entries"]), (&0.into(), &0.into()));
    for alone in [["--capacity", "9"], ["--seed", "1"], ["--growth", "auto"], ["--slots-per-bucket", "3"]] {
        let both = folder.run(&[&["create", "h", "--like", "f"], &alone[..]].concat(), "");
        assert_eq!(both.code, Some(2));
        assert!(both.err.contains("cannot be used with"), "{both:?}");
    }
    folder.run(&["create", "h", "--like", "nothing"], "").refused(&["nothing"]);
    assert!(!folder.path("h").exists());
}

#[test]
fn filters_merge_into_one_that_is_made_if_it_is_not_there() {
    let folder = Folder::with_filter(&["--capacity", "60_000"]);
    folder.run(&["create", "g", "--like", "f"], "").done();
    folder.run(&["insert", "f"], lines(0..30_000)).done();
    folder.run(&["insert", "--copies", "g"], lines(20_000..50_000)).done();
    folder.run(&["merge", "all", "f", "g"], "").done();
    folder.assert_holds("all", &lines(0..50_000));
    folder.run(&["verify", "all"], "").done();
    folder.run(&["remove", "all"], lines(0..1)).refused(&["inserts stored nothing"]);
    assert_eq!(folder.info("all")["seed"], folder.info("f")["seed"]);
    // Copies add up: those of keys that both have, and those of one that is merged twice.
    folder.run(&["merge", "--sum", "sum", "g", "g", "--sealed"], "").done();
    assert!(folder.run(&["count", "sum"], lines(20_000..20_001)).done().starts_with("2\t"));
    folder.run(&["create", "other", "--capacity", "60_000"], "").done();
    let words =
        ["/other: has the seed ", "compared with ", "/all; make the next filter with `gowk create --like`"];
    folder.run(&["merge", "all", "f", "other"], "").refused(&words);
    folder.run(&["merge", "new", "nothing"], "").refused(&["nothing"]);
    assert!(!folder.path("new").exists());
}

#[test]
fn shrink_undoes_a_doubling_as_info_tells() {
    let folder = filled();
    let before = folder.info("f");
    folder.run(&["shrink", "f"], "").refused(&["/f: will not shrink: it has not doubled"]);
    folder.run(&["grow", "f"], "").done();
    let told = folder.info("f")["shrunk"].clone();
    assert!(folder.run(&["info", "f"], "").done().contains("when shrunk"));
    folder.run(&["shrink", "f"], "").done();
    let after = folder.info("f");
    for field in ["generation", "entries", "file_length", "expected_false_positive_rate"] {
        assert_eq!((&after[field], &after[field]), (&told[field], &before[field]), "{field}");
    }
    folder.assert_holds("f", &lines(0..50_000));
    folder.run(&["verify", "f"], "").done();
}

#[test]
fn grow_doubles_a_filter_and_keeps_its_keys() {
    let folder = filled();
    let before = folder.info("f");
    folder.run(&["grow", "f"], "").done();
    let after = folder.info("f");
    assert_eq!(after["generation"], 1);
    assert_eq!(after["base_regions"], before["regions"]);
    assert_eq!(after["regions"].as_u64(), before["regions"].as_u64().map(|regions| 2 * regions));
    assert_eq!(after["entries"], before["entries"]);
    folder.assert_holds("f", &lines(0..50_000));
    folder.run(&["verify", "f"], "").done();
}

#[test]
fn filters_double_by_themselves_unless_told_otherwise() {
    let folder = Folder::new();
    let out = folder
        .run(&["dedup", "f", "--capacity", "1000", "--slots-per-bucket", "2"], lines(0..200_000))
        .done();
    assert_eq!(out, lines(0..200_000));
    let info = folder.info("f");
    assert!(info["generation"].as_u64().unwrap() >= 3, "{info}");
    assert_eq!(info["base_regions"], 1);
}

#[test]
fn info_has_every_promised_field() {
    let folder = filled();
    folder.run(&["grow", "f"], "").done();
    folder.run(&["insert", "f"], lines(50_000..60_000)).done();
    let info = folder.info("f");
    assert_eq!(info["format"], "1.0");
    let uuid = info["uuid"].as_str().unwrap();
    let groups: Vec<usize> = uuid.split('-').map(str::len).collect();
    assert_eq!(groups, [8, 4, 4, 4, 12]);
    let by_tail: Vec<u64> =
        info["entries_by_tail"].as_array().unwrap().iter().map(|entries| entries.as_u64().unwrap()).collect();
    // n = 4: tails of 9 bits when fresh; each doubling takes one.
    assert_eq!(by_tail.len(), 10);
    assert_eq!(by_tail[8] + by_tail[9], info["entries"].as_u64().unwrap());
    assert!(by_tail[8] > 49_900 && by_tail[9] > 9_900, "{by_tail:?}");
    let load = info["entries"].as_f64().unwrap() / info["slots"].as_f64().unwrap();
    assert!((info["load"].as_f64().unwrap() - load).abs() < 1e-12);
    let bits = info["file_length"].as_f64().unwrap() * 8.0 / info["entries"].as_f64().unwrap();
    assert!((info["bits_per_key"].as_f64().unwrap() - bits).abs() < 1e-9);
    assert_eq!(info["file_length"].as_u64().unwrap(), std::fs::metadata(folder.path("f")).unwrap().len());
    for field in ["slots_per_bucket", "base_regions", "generation", "regions", "commit", "journal_length"] {
        assert!(info[field].is_u64(), "{field}");
    }
    assert_eq!(info["quarantined_buckets"], 0);
    assert!(info["expected_false_positive_rate"].as_f64().unwrap() > 0.0);
    assert_eq!(info["forecast"][0]["generation"], 2);

    let text = folder.run(&["info", "f"], "").done();
    for words in
        ["generation              1\n", "10 doublings", "1 doubling old (8 tail bits)", "expected now"]
    {
        assert!(words == "10 doublings" || text.contains(words), "no {words:?} in {text}");
    }
}

#[test]
fn info_says_how_far_a_filter_may_grow() {
    let folder = Folder::with_filter(&["--capacity", "1000", "--max-file-size", "1M", "--growth", "never"]);
    let text = folder.run(&["info", "f"], "").done();
    assert!(text.contains("only by `gowk grow`, to 1048576 bytes at most\n"), "{text}");
    let doublings = folder.info("f")["forecast"].as_array().unwrap().len();
    assert!(text.contains(&format!("doublings               {doublings} left within its limits")), "{text}");
    for _ in 0..doublings {
        folder.run(&["grow", "f"], "").done();
    }
    assert!(folder.run(&["info", "f"], "").done().contains("none left within its limits\n"));
    folder.run(&["grow", "f"], "").refused(&["/f: will not double"]);
}

#[test]
fn completions_name_the_verbs() {
    let folder = Folder::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = folder.run(&["completions", shell], "").done();
        assert!(script.contains("dedup") && script.contains("commit-every"), "{shell}");
    }
}

#[test]
fn help_has_examples_and_usage_errors_exit_with_2() {
    let folder = Folder::new();
    for verb in ["create", "insert", "remove", "check", "count", "dedup", "info", "verify", "copy", "grow"] {
        let help = folder.run(&[verb, "--help"], "").done();
        assert!(help.contains("Example") && help.contains(&format!("gowk {verb}")), "{help}");
    }
    assert_eq!(folder.run(&["--version"], "").done(), format!("gowk {}\n", env!("CARGO_PKG_VERSION")));
    for args in [&["dedup"][..], &["create", "f"], &["peruse", "f"], &["insert", "f", "--commit-every", "0"]]
    {
        assert_eq!(folder.run(args, "").code, Some(2), "{args:?}");
    }
    assert!(folder.snapshot().is_empty());
}

#[test]
fn a_repaired_filter_verifies_and_still_knows_its_keys() {
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    let keys: String = (0..1000).map(|i| format!("{i}\n")).collect();
    folder.run(&["insert", "f"], &keys).done();
    let mut bytes = std::fs::read(folder.path("f")).unwrap();
    let last_page = bytes.len() - 4096;
    bytes[last_page] ^= 1;
    std::fs::write(folder.path("f"), bytes).unwrap();
    assert_eq!(folder.run(&["verify", "f"], "").code, Some(1));
    let repair = || String::from_utf8(folder.run(&["repair", "f"], "").out).unwrap();
    assert!(repair().contains("page 15 (region 0) matches every key"));
    folder.run(&["verify", "f"], "").done();
    assert_eq!(folder.run(&["check", "f"], &keys).out, keys.as_bytes());
    assert_eq!(folder.info("f")["quarantined_buckets"], 512);
    assert!(repair().contains("nothing to repair"));
}
