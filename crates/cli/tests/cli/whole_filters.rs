//! Verbs that describe, check or make a whole filter.
//!
//! Invariants checked: one flipped byte is found and named, and no lookup answers "absent" because of it. A copy and a
//! doubled filter answer as the original does. A merge has the keys of both. `info` shows what the documentation
//! promises.

use crate::run::{Folder, lines};

/// A filter of several regions with 50,000 keys.
fn filled() -> Folder {
    let folder = Folder::with_filter(&["--capacity", "100_000", "--false-positive-rate", "0.001"]);
    folder.run(&["insert", "f"], lines(0..50_000)).done();
    assert!(folder.info("f")["regions"].as_u64().unwrap() >= 3);
    folder
}

#[test]
fn a_filter_is_not_merged_into_itself_and_none_twice() {
    let folder = Folder::new();
    folder.run(&["create", "all", "--capacity", "1000", "--counting"], "").done();
    folder.run(&["create", "a", "--like", "all"], "").done();
    for file in ["all", "a"] {
        folder.run(&["insert", file, "k"], "").done();
    }
    std::os::unix::fs::symlink("a", folder.path("b")).unwrap();
    let before = folder.snapshot();
    folder.run(&["merge", "all", "a", "./all"], "").refused(&["./all: is the filter that the keys go into"]);
    folder.run(&["merge", "all", "a", "b"], "").refused(&["b: is named twice"]);
    assert!(folder.snapshot() == before);
    folder.run(&["merge", "all", "a"], "").done();
    assert_eq!(folder.run(&["count", "all", "k"], "").done(), "2\tk\n");
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
    for of_file in ["file", "file_made", "last_written"] {
        original[of_file].take();
        copy[of_file].take();
    }
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
        "--counting",
    ]);
    folder.run(&["insert", "f"], lines(0..1000)).done();
    folder.run(&["grow", "f"], "").done();
    folder.run(&["create", "g", "--like", "f"], "").done();
    let info = |file| folder.run(&["info", file, "--json", "--show-seed"], "").json();
    let (old, new) = (info("f"), info("g"));
    assert_eq!(old["seed"], "1");
    for field in [
        "kind",
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
    for alone in [
        &["--capacity", "9"][..],
        &["--seed", "1"],
        &["--growth", "auto"],
        &["--slots-per-bucket", "3"],
        &["--counting"],
    ] {
        let both = folder.run(&[&["create", "h", "--like", "f"], alone].concat(), "");
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
    folder.run(&["insert", "g"], lines(20_000..50_000)).done();
    folder.run(&["merge", "all", "f", "g"], "").done();
    folder.assert_holds("all", &lines(0..50_000));
    folder.run(&["verify", "all"], "").done();
    // A union: common keys are stored once, and a second merge changes nothing.
    assert!(folder.run(&["count", "all"], lines(20_000..20_001)).done().starts_with("1\t"));
    let merged = folder.info("all");
    let entries = merged["entries"].as_u64().unwrap();
    assert!((49_900..=50_000).contains(&entries), "{entries}");
    folder.run(&["merge", "all", "g", "--sealed"], "").done();
    assert_eq!(folder.info("all")["entries"], merged["entries"]);
    assert_eq!(merged["kind"], "set");
    folder.run(&["create", "other", "--capacity", "60_000"], "").done();
    let words = [
        "/other: has another seed, compared with ",
        "/all; make the next filter like the other (`gowk create --like`)",
    ];
    folder.run(&["merge", "all", "f", "other"], "").refused(&words);
    folder.run(&["merge", "new", "nothing"], "").refused(&["nothing"]);
    assert!(!folder.path("new").exists());
}

#[test]
fn copies_of_counting_filters_add_up_in_a_merge_and_can_be_removed() {
    let options = ["--capacity", "60_000", "--slots-per-bucket", "3", "--counting"];
    let folder = Folder::with_filter(&options);
    folder.run(&["create", "g", "--like", "f"], "").done();
    folder.run(&["insert", "f"], lines(0..30_000)).done();
    folder.run(&["insert", "g"], lines(20_000..50_000)).done();
    folder.run(&["merge", "sum", "f", "g"], "").done();
    folder.run(&["verify", "sum"], "").done();
    let sum = folder.info("sum");
    assert_eq!((&sum["kind"], &sum["copies"]), (&"counting".into(), &60_000.into()));
    for (key, copies) in [(0, 1), (25_000, 2), (49_999, 1)] {
        let counted = folder.run(&["count", "sum"], lines(key..key + 1)).done();
        assert!(counted.starts_with(&format!("{copies}\t")), "{counted}");
    }
    // A copy is another filter, so merging it adds its copies again.
    folder.run(&["copy", "g", "copy"], "").done();
    folder.run(&["merge", "twice", "g", "copy", "--sealed"], "").done();
    assert_eq!(folder.info("twice")["copies"], 60_000);
    folder.run(&["remove", "sum"], lines(0..30_000)).done();
    folder.run(&["remove", "sum"], lines(20_000..50_000)).done();
    let left = folder.info("sum");
    assert_eq!((&left["copies"], &left["entries"], &left["digits"]), (&0.into(), &0.into(), &0.into()));
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
    for field in ["generation", "entries", "file_length"] {
        assert_eq!((&after[field], &after[field]), (&told[field], &before[field]), "{field}");
    }
    // The doubling has marked the set, and the mark stays.
    let rate = |info: &serde_json::Value| info["expected_false_positive_rate"].as_f64().unwrap();
    assert_eq!(rate(&after), rate(&told));
    assert!((rate(&after) / rate(&before) - 2.0).abs() < 1e-3, "{after} {before}");
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
    let dedup = ["dedup", "f", "--capacity", "1000", "--slots-per-bucket", "2", "--seed", "1"];
    assert_eq!(folder.run(&dedup, lines(0..200_000)).done(), lines(0..200_000));
    let info = folder.info("f");
    assert!(info["generation"].as_u64().unwrap() >= 3, "{info}");
    assert_eq!(info["base_regions"], 1);
}

#[test]
fn info_has_every_promised_field() {
    let folder = filled();
    folder.run(&["grow", "f"], "").done();
    folder.run(&["grow", "f"], "").done();
    folder.run(&["insert", "f"], lines(50_000..60_000)).done();
    let info = folder.info("f");
    assert_eq!(info["format"], "1.0");
    let uuid = info["uuid"].as_str().unwrap();
    let groups: Vec<usize> = uuid.split('-').map(str::len).collect();
    assert_eq!(groups, [8, 4, 4, 4, 12]);
    let by_tail: Vec<u64> =
        info["entries_by_tail"].as_array().unwrap().iter().map(|entries| entries.as_u64().unwrap()).collect();
    // At n = 4 a new tail has 9 bits, and 10 before the first doubling. Each doubling takes one of them.
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
    assert_eq!(info["forecast"][0]["generation"], 3);

    let text = folder.run(&["info", "f"], "").done();
    for words in
        ["generation              2\n", "10 doublings", "1 or 2 doublings old (8 tail bits)", "expected now"]
    {
        assert!(words == "10 doublings" || text.contains(words), "no {words:?} in {text}");
    }
}

#[test]
fn info_describes_several_filters_for_people_and_for_programs() {
    let folder = Folder::with_filter(&["--capacity", "100_000", "--counting"]);
    folder.run(&["create", "g", "--capacity", "5M"], "").done();
    folder.run(&["insert", "f"], lines(0..12_345)).done();
    let text = folder.run(&["info", "f", "g"], "").done();
    let info = folder.info("f");
    let length = info["file_length"].as_u64().unwrap();
    assert!(length == 458_752, "{length}");
    for words in [
        "path                    f\n",
        "\n\npath                    g\n",
        "created for             5,000,000 keys at a",
        "file                    448.00 KiB (458,752 bytes)\n",
        "12,345 (12,345 inserted, 0 removed)\n",
        "tail: ",
        "void entry: ",
        "quarantined bucket: ",
    ] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    // Two times. Every file system stores the second.
    let written = text.lines().find_map(|line| line.strip_prefix("last written            ")).unwrap();
    let now = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
    assert!(written.ends_with(" UTC") && written[..4] == now[..4], "{written}");
    assert_eq!(info["last_written"].as_str().unwrap().len(), "2026-05-17T18:04:12Z".len());

    // A filter that cannot be read does not prevent the description of the others.
    let ended = folder.run(&["info", "--json", "f", "none", "g"], "");
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("none: no such filter") && ended.err.lines().count() == 1, "{ended:?}");
    let files: Vec<serde_json::Value> =
        ended.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&files[0]["file"], &files[1]["file"], files.len()), (&"f".into(), &"g".into(), 2));
}

/// Name, file and value of each sample; panics if the text is not in the format.
fn samples(text: &str) -> Vec<(String, String, f64)> {
    let (mut samples, mut current, mut seen) = (Vec::new(), "", std::collections::HashSet::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            current = help.split(' ').next().unwrap();
            assert!(seen.insert(current), "{current} comes twice");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            assert!(kind == format!("{current} gauge") || kind == format!("{current} counter"), "{line}");
            assert_eq!(kind.ends_with(" counter"), current.ends_with("_total"), "{line}");
        } else {
            let (name, rest) = line.split_once("{file=\"").unwrap();
            let (file, value) = rest.rsplit_once("\"} ").unwrap();
            // One metric has the kind as a second label.
            let (file, kind) =
                file.split_once("\",kind=\"").map_or((file, None), |(file, kind)| (file, Some(kind)));
            assert_eq!((name, kind.is_some()), (current, name == "gowk_filter_info"), "{line}");
            samples.push((name.to_owned(), file.to_owned(), value.parse().unwrap()));
        }
    }
    samples
}

#[test]
fn info_gives_metrics_to_prometheus() {
    let folder = Folder::with_filter(&["--capacity", "1000", "--max-file-size", "1M"]);
    folder.run(&["insert", "f"], lines(0..100)).done();
    let strange = "a \"strange\" \\name";
    folder.run(&["create", strange, "--capacity", "5000"], "").done();
    let found = samples(&folder.run(&["info", "--prometheus", "f", strange], "").done());
    let info = folder.info("f");
    let value = |name: &str, file: &str| {
        found.iter().find(|(found, of, _)| found == name && of == file).map(|(_, _, value)| *value)
    };
    for (metric, field) in [
        ("gowk_entries", "entries"),
        ("gowk_load_ratio", "load"),
        ("gowk_expected_false_positive_ratio", "expected_false_positive_rate"),
        ("gowk_file_bytes", "file_length"),
        ("gowk_max_file_bytes", "max_file_size"),
        ("gowk_inserted_total", "inserted"),
    ] {
        assert_eq!(value(metric, "f"), info[field].as_f64(), "{metric}");
    }
    let escaped = "a \\\"strange\\\" \\\\name";
    assert_eq!(value("gowk_capacity_keys", escaped), Some(5000.0));
    assert!(value("gowk_max_file_bytes", escaped).unwrap().is_nan());
    assert!(value("gowk_last_written_timestamp_seconds", "f").unwrap() > 1.7e9);

    assert_eq!(value("gowk_filter_info", "f"), Some(1.0));

    // A filter that cannot be read is reported, and does not hide the others.
    let ended = folder.run(&["info", "--prometheus", "none", "f"], "");
    assert!(ended.code == Some(2) && ended.err.contains("none: no such filter"), "{ended:?}");
    let found = samples(&ended.text());
    let opened = found.iter().filter(|(name, ..)| name == "gowk_opened").map(|(.., value)| *value);
    assert_eq!(opened.collect::<Vec<_>>(), [0.0, 1.0]);
    assert!(found.iter().any(|(name, file, value)| (name.as_str(), file.as_str(), *value) == ("gowk_entries", "f", 100.0)));
}

/// `gowk info` reads no page, so none of its metrics may claim that a damaged filter is intact.
#[test]
fn metrics_call_no_damaged_filter_clean() {
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    folder.run(&["insert", "f"], lines(0..100)).done();
    folder.run(&["copy", "f", "damaged"], "").done();
    folder.change("damaged", |bytes| *bytes.last_mut().unwrap() ^= 1);
    folder.run(&["store", "create", "s", "--shards", "2", "--capacity", "1000"], "").done();
    folder.run(&["dedup", "s"], lines(0..100)).code.unwrap();
    folder.run(&["store", "compact", "s", "--all"], "").done();
    let ended = folder.run(&["verify", "--prometheus", "f", "damaged", "s"], "");
    assert_eq!((ended.code, ended.err.as_str()), (Some(1), ""));
    let value = |found: &[(String, String, f64)], name: &str, file: &str| {
        found.iter().find(|(found, of, _)| found == name && of == file).map(|(.., value)| *value)
    };
    let found = samples(&ended.text());
    for (file, [clean, pages, damaged, files]) in
        [("f", [1.0, 16.0, 0.0, 0.0]), ("damaged", [0.0, 16.0, 1.0, 1.0]), ("s", [1.0, 32.0, 0.0, 0.0])]
    {
        assert_eq!(value(&found, "gowk_clean", file), Some(clean), "{file}");
        assert_eq!(value(&found, "gowk_verified_pages", file), Some(pages), "{file}");
        assert_eq!(value(&found, "gowk_damaged_pages", file), Some(damaged), "{file}");
        assert_eq!(value(&found, "gowk_damaged_files", file), Some(files), "{file}");
        assert!(value(&found, "gowk_verified_timestamp_seconds", file).unwrap() > 1.7e9);
    }
    let opened = folder.run(&["info", "--prometheus", "damaged"], "").done();
    assert!(!opened.contains("gowk_up") && opened.contains("Its pages are not read"), "{opened}");

    // With a missing shard, and with a missing filter, the metrics of the rest are still printed.
    for file in std::fs::read_dir(folder.path("s/shards/0000")).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    let ended = folder.run(&["verify", "--prometheus", "none", "s", "f"], "");
    assert!(ended.code == Some(2) && ended.err.contains("none: no such filter"), "{ended:?}");
    let found = samples(&ended.text());
    let clean = ["none", "s", "f"].map(|file| value(&found, "gowk_clean", file));
    assert_eq!(clean, [Some(0.0), Some(0.0), Some(1.0)]);
    assert_eq!(value(&found, "gowk_damaged_files", "s"), Some(1.0));
    assert_eq!(value(&found, "gowk_verified_pages", "none"), None);

    let ended = folder.run(&["verify", "damaged", "f", "--json"], "");
    assert_eq!(ended.code, Some(1));
    let text = ended.text();
    assert!(text.starts_with("{\"file\":\"damaged\",\"clean\":false,"), "{text}");
    assert!(text.lines().nth(1).unwrap().starts_with("{\"file\":\"f\",\"clean\":true,"), "{text}");
}

/// 5 keys in 2.25 MiB must not be reported as 3,774,873.60 bits per key.
#[test]
fn bits_per_key_are_those_of_a_full_filter_while_there_are_few_keys() {
    let folder = Folder::with_filter(&["--capacity", "20_000"]);
    let bits = || {
        let text = folder.run(&["info", "f"], "").done();
        let line = text.lines().find(|line| line.starts_with("bits a key")).unwrap();
        line["bits a key".len()..].trim().to_owned()
    };
    let report = |shown: &str| folder.run(&["report", "f"], "").done().contains(&format!("<dd>{shown}</dd>"));
    let empty = bits();
    assert!(empty.ends_with(" when full; no keys yet") && report(&empty), "{empty}");
    folder.run(&["insert", "f", "a", "b", "c", "d", "e"], "").done();
    let few = bits();
    assert!(few.ends_with(" when full; few keys yet") && report(&few), "{few}");
    let when_full: f64 = few.split(' ').next().unwrap().parse().unwrap();
    assert!((60.0..80.0).contains(&when_full), "{few}");
    folder.run(&["insert", "f"], lines(0..20_000)).done();
    let info = folder.info("f");
    let now = format!("{:.2}", info["bits_per_key"].as_f64().unwrap());
    assert!(bits() == now && report(&now), "{now}");
    folder.run(&["store", "create", "s", "--shards", "1", "--capacity", "1M"], "").done();
    assert!(folder.run(&["dedup", "s", "a"], "").code == Some(0));
    assert!(folder.run(&["info", "s"], "").done().contains("bits a key              few keys yet\n"));
}

#[test]
fn info_says_how_far_a_filter_may_grow() {
    let folder = Folder::with_filter(&["--capacity", "1000", "--max-file-size", "1M", "--growth", "never"]);
    let text = folder.run(&["info", "f"], "").done();
    assert!(text.contains("only by `gowk grow`, to 1.00 MiB (1,048,576 bytes) at most\n"), "{text}");
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
fn manual_pages_are_written_for_gowk_and_each_verb() {
    let folder = Folder::new();
    folder.run(&["man", "share/man1"], "").done();
    let pages: Vec<_> = folder.path("share/man1").read_dir().unwrap().map(|page| page.unwrap()).collect();
    assert!(pages.len() > 14, "{pages:?}");
    for page in pages {
        let name = page.file_name().into_string().unwrap();
        let text = std::fs::read_to_string(page.path()).unwrap();
        let verb =
            name.strip_suffix(".1").unwrap().trim_start_matches("gowk").trim_start_matches('-').to_owned();
        assert!(text.contains(".TH gowk") && text.contains("Example"), "{name}: {text}");
        assert!(verb.is_empty() || text.contains(&format!("gowk {verb}")), "{name}: {text}");
    }
    let dedup = std::fs::read_to_string(folder.path("share/man1/gowk-dedup.1")).unwrap();
    assert!(dedup.contains("gowk\\-dedup \\- Print keys"), "{dedup}");
    assert!(dedup.contains("max\\-false\\-positive\\-rate") && dedup.contains("zcat urls.gz"), "{dedup}");
    folder.run(&["man", "share/man1/gowk.1"], "").refused(&["gowk.1: cannot create"]);
}

#[test]
fn help_has_examples_and_usage_errors_exit_with_2() {
    let folder = Folder::new();
    for verb in [
        "create",
        "insert",
        "remove",
        "check",
        "count",
        "dedup",
        "info",
        "verify",
        "copy",
        "grow",
        "set",
        "ingest",
        "repair",
        "completions",
        "man",
    ] {
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

#[test]
fn create_tells_what_it_creates_and_tells_it_before_too() {
    let folder = Folder::new();
    let create = ["create", "f", "--capacity", "5e6", "--false-positive-rate", "0.1%"];
    let would = folder.run(&[&create[..], &["--dry-run"]].concat(), "").done();
    assert!(folder.snapshot().is_empty());
    for words in [
        "f: would be created, a set for 5,000,000 keys: 10.",
        " MiB (2.2",
        "4 slots per bucket",
        "1.22e-4 (1 in 8,192)",
    ] {
        assert!(would.contains(words), "no {words:?} in {would}");
    }
    assert_eq!(folder.run(&create, "").done(), would.replace("would be created", "created"));
    let told = folder.run(&[&create[..], &["--json", "--force"]].concat(), "").json();
    let info = folder.info("f");
    assert_eq!((&told["created"], &told["near"]), (&true.into(), &serde_json::Value::Null));
    for field in ["capacity", "file_length", "slots_per_bucket", "slots", "regions"] {
        assert_eq!(told[field], info[field], "{field}");
    }
    assert_eq!(
        (&info["capacity"], &info["requested_false_positive_rate"]),
        (&5_000_000.into(), &0.001.into())
    );
    assert!(
        folder.run(&create, "").code == Some(2)
            && folder.run(&["create", "g", "--capacity", "5.5"], "").code == Some(2)
    );
}

#[test]
fn create_points_out_a_rate_nearby_that_takes_less_room() {
    let folder = Folder::new();
    let create = |rate| {
        folder
            .run(&["create", "f", "--capacity", "50M", "--dry-run", "--false-positive-rate", rate], "")
            .done()
    };
    let told = create("1e-6");
    assert!(told.contains("(5.01 bytes a key), 2 slots per bucket"), "{told}");
    assert!(told.contains("with a false-positive rate of 2.86e-6 (1 in 349,525) it would take 2.97 bytes a key: --slots-per-bucket 3"), "{told}");
    // No hint if the rate is far from the requested one, or if the filter cannot be smaller.
    for rate in ["1e-7", "2e-4", "50%"] {
        assert_eq!(create(rate).lines().count(), 1, "{rate}");
    }
    let told = folder.run(
        &["create", "f", "--capacity", "50M", "--dry-run", "--false-positive-rate", "1e-6", "--json"],
        "",
    );
    assert_eq!(told.json()["near"]["false_positive_rate"], 6.0 / 2_097_152.0);
}

#[test]
fn a_new_journal_and_lock_take_the_mode_of_the_filter_and_others_keep_their_own() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    let modes = || {
        ["f", "f-journal", "f-lock"]
            .map(|name| folder.path(name).metadata().unwrap().permissions().mode() & 0o777)
    };
    for mode in [0o600, 0o664, 0o640] {
        crate::run::set_mode(&folder.path("f"), mode);
        let [_, journal, lock] = modes();
        // Inserts a new key each time, as a run without changes does not touch the journal.
        folder.run(&["insert", "f", &mode.to_string()], "").done();
        assert_eq!(modes(), [mode, journal, lock]);
        for name in ["f-journal", "f-lock"] {
            std::fs::remove_file(folder.path(name)).unwrap();
        }
        folder.run(&["insert", "f", &format!("again {mode}")], "").done();
        assert_eq!(modes(), [mode; 3]);
    }
}

#[test]
fn set_changes_how_a_filter_may_grow_and_nothing_else() {
    let folder = Folder::with_filter(&["--capacity", "1000", "--max-file-size", "256K"]);
    folder.run(&["insert", "f"], lines(0..1000)).done();
    folder.run(&["grow", "f"], "").refused(&["limit of 262144", "`gowk set --max-file-size` raises it"]);
    let before = folder.info("f");
    assert_eq!(
        folder.run(&["set", "f", "--max-file-size", "1G", "--max-false-positive-rate", "1%"], "").done(),
        "f: grows when full, to 1.00 GiB (1,073,741,824 bytes) at most, to an expected false-positive rate of 0.01 at \
         most\n"
    );
    let mut after = folder.info("f");
    assert_eq!(
        (&after["max_file_size"], &after["max_false_positive_rate"]),
        (&(1 << 30).into(), &0.01.into())
    );
    for changed in ["max_file_size", "max_false_positive_rate", "forecast", "last_written"] {
        after[changed] = before[changed].clone();
    }
    assert_eq!(after, before);
    folder.run(&["grow", "f"], "").done();
    folder.run(&["set", "f", "--growth", "never", "--max-file-size", "none"], "").done();
    let info = folder.info("f");
    assert_eq!((&info["growth"], &info["max_file_size"]), (&"never".into(), &serde_json::Value::Null));
    assert_eq!(info["max_false_positive_rate"], 0.01);
    folder.assert_holds("f", &lines(0..1000));
    folder.run(&["verify", "f"], "").done();

    let before = folder.snapshot();
    folder
        .run(&["set", "f", "--max-file-size", "256K"], "")
        .refused(&["f: maximal file size is 262144", "no less"]);
    folder.run(&["set", "f", "--max-false-positive-rate", "2"], "").refused(&["rate is 2, but must be"]);
    assert_eq!(folder.run(&["set", "f"], "").code, Some(2));
    assert!(folder.snapshot() == before);
}
