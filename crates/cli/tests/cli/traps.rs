//! Arguments and inputs that are easily mistaken for something else.
//!
//! Invariants checked: the name of a file is a key after `--` alone; a number after `--wait` is no key; compressed inputs
//! are decompressed, or refused by the name of their format; tips suggest the right verb; options without effect are named.

use crate::run::{Folder, lines, run};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn the_name_of_a_file_is_a_key_behind_hyphens_alone() {
    let folder = Folder::with_filter(&["--capacity", "1000", "--counting"]);
    folder.run(&["store", "create", "s", "--shards", "2", "--capacity", "1000", "--counting"], "").done();
    for name in ["urls", "more urls"] {
        std::fs::write(folder.path(name), "a\nb\n").unwrap();
    }
    folder.run(&["create", "g", "--capacity", "1000"], "").done();
    let before = folder.snapshot();
    for verb in ["dedup", "insert", "check", "count", "remove"] {
        for place in ["f", "s"] {
            for keys in [&["urls"][..], &["urls", "x"], &["x", "urls"], &["x", "urls", "--", "y"]] {
                let ended = folder.run(&[&[verb, place], keys].concat(), "");
                ended.refused(&["gowk: urls: is a file, and not a key", "--input urls", "`-- urls`"]);
                assert_eq!(ended.text(), "", "{verb} {keys:?}");
            }
            folder.run(&[verb, place, "more urls"], "").refused(&["--input more urls"]);
            // A filter or a store is no key either: a further one is looked into by an option.
            folder.run(&[verb, place, "g"], "").refused(&["gowk: g: is a file", "--filter g"]);
            folder.run(&[verb, place, "s"], "").refused(&["gowk: s: is a file", "--filter s"]);
        }
    }
    // A missing file is not created, either.
    folder.run(&["dedup", "new", "urls"], "").refused(&["--input urls"]);
    assert!(folder.snapshot() == before);
    // A pipe, as a shell's `<(...)` makes it.
    folder.run(&["dedup", "f", "/dev/fd/0"], "a\n").refused(&["--input /dev/fd/0"]);
    // Accepted if the user says so, or if it is no file.
    assert_eq!(folder.run(&["dedup", "f", "--", "urls", "g"], "").done(), "urls\ng\n");
    assert_eq!(folder.run(&["dedup", "f", "no file", ".", "--", "s"], "").done(), "no file\n.\ns\n");
    assert_eq!(folder.run(&["dedup", "--", "s", "urls"], "").done(), "urls\n");
    assert_eq!(folder.run(&["check", "f", "--", "urls"], "").done(), "urls\n");
    folder.run(&["remove", "f", "--", "urls", "g", "s"], "").done();
}

/// The output of these programs for `a`, a newline, `b` and a newline; and the beginning of a Parquet file.
const FOREIGN: [(&str, &str, &[u8]); 6] = [
    ("bzip2", "bzip2 -dc", b"BZh91AY&SY\xa0\x1c\x01\x4c\0\0\0\x41\0\0\x10\x20"),
    ("xz", "xz -dc", b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46\x02\0\x21\x01\x16\0\0\0a\nb\n"),
    ("lz4", "lz4 -dc", b"\x04\x22\x4d\x18\x64\x40\xa7\x04\0\0\x80a\nb\n\0\0\0\0"),
    ("zip", "unzip -p", b"PK\x03\x04\x0a\0\0\0\0\0a\nb\n"),
    ("7z", "7z x -so", b"7z\xbc\xaf\x27\x1c\0\x04\xb3\xa8\x97\xed\x08\0\0\0\0\0\0\0a\nb\n"),
    ("Parquet", "duckdb", b"PAR1\x15\x04\x15\x20\x15\x24\x4c\x15\x02\x15\0\x12\0\0a\nb\n"),
];

const JOB: &str = "name = \"keys\"\n[filter]\npath = \"of the job\"\n[input]\npaths = [\"in\"]\n";

#[test]
fn formats_that_are_not_read_are_refused_by_name() {
    let folder = Folder::with_filter(&["--capacity", "1000", "--counting"]);
    for (format, remedy, bytes) in FOREIGN {
        std::fs::write(folder.path("in"), bytes).unwrap();
        let before = folder.snapshot();
        for verb in
            [&["dedup", "f"][..], &["dedup", "new"], &["insert", "f"], &["check", "f"], &["count", "f"]]
        {
            let is = format!("gowk: in: is {format} data");
            folder.run(&[verb, &["--input", "in"]].concat(), "").refused(&[&is, remedy, "--plain"]);
        }
        assert!(folder.snapshot() == before, "{format}");
        for verb in ["dedup", "insert", "remove", "check", "count"] {
            let is = format!("gowk: standard input: is {format} data");
            folder.run(&[verb, "f"], bytes).refused(&[&is, remedy, "--plain"]);
        }
        assert_eq!(folder.info("f")["entries"], 0, "{format}");
        // Unchanged on request; and input that only begins like the format.
        let plain = folder.run(&["dedup", &format!("plain {format}"), "-0", "--plain", "--input", "in"], "");
        assert_eq!((plain.code, plain.out.first()), (Some(0), bytes.first()), "{plain:?}");
        let cut = folder.run(&["dedup", &format!("cut {format}"), "-0"], &bytes[..3]);
        assert_eq!((cut.code, cut.out), (Some(0), [&bytes[..3], b"\0"].concat()), "{format}");
        // A job refuses it, too.
        std::fs::write(folder.path("job.toml"), JOB).unwrap();
        let is = format!("gowk: in: is {format} data, which is not read");
        folder.run(&["ingest", "job.toml"], "").refused(&[&is, remedy, "> NEW`"]);
    }
}

#[test]
fn a_hyphen_alone_is_standard_input() {
    let folder = Folder::new();
    assert_eq!(folder.run(&["dedup", "f", "-"], "a\nb\n").done(), "a\nb\n");
    assert_eq!(folder.run(&["check", "f", "-"], "b\nc\n").done(), "b\n");
    assert_eq!(folder.run(&["dedup", "f", "--", "-"], "c\n").done(), "-\n");
    assert_eq!(folder.run(&["dedup", "f", "x", "-"], "d\n").done(), "x\n");
    folder.assert_lacks("f", "c\nd\n");
}

#[test]
fn a_number_behind_wait_is_refused_unless_it_is_clear_what_it_is() {
    let folder = Folder::new();
    for (wait, both) in [
        (&["--wait", "100", "105"][..], ["`--wait=100`", "`--wait -- 100`"]),
        (&["--wait", "0.5"], ["`--wait=0.5`", "`--wait -- 0.5`"]),
        (&["--wait", "60s", "b"], ["`--wait=60s`", "`--wait -- 60s`"]),
    ] {
        folder.run(&[&["dedup", "f"], wait].concat(), "a\n").refused(&both);
    }
    assert!(folder.snapshot().is_empty());
    assert_eq!(folder.run(&["dedup", "f", "--wait=0.5", "b"], "").done(), "b\n");
    assert_eq!(folder.run(&["dedup", "--wait", "f", "c"], "").done(), "c\n");
    assert_eq!(folder.run(&["dedup", "f", "d", "--wait"], "").done(), "d\n");
    assert_eq!(folder.run(&["dedup", "f", "--wait", "--", "100", "105"], "").done(), "100\n105\n");
    assert_eq!(folder.run(&["dedup", "f", "--", "--wait", "3"], "").done(), "--wait\n3\n");
    assert_eq!(folder.run(&["dedup", "f", "--wait", "-1", "e"], "").code, Some(2));
}

#[test]
fn options_without_effect_on_a_store_are_named() {
    const JOB: &str =
        "name = \"keys\"\n[filter]\npath = \"s\"\n[input]\npaths = [\"keys\"]\nformat = \"lines\"\n";
    let folder = Folder::new();
    folder.run(&["store", "create", "s", "--shards", "2", "--capacity", "1000", "--counting"], "").done();
    let said = |words: &[&str]| {
        let ended = folder.run(words, "a\n");
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.err
    };
    for verb in ["dedup", "insert", "remove"] {
        let file = [verb, "s"];
        assert_eq!(said(&file), "");
        let both = said(&[&file[..], &["--wait=2", "--commit-every", "5"]].concat());
        assert_eq!(both.matches("no effect").count(), 2, "{both}");
        assert!(both.contains("--wait has no effect") && both.contains("--commit-every has no effect"));
    }
    // With a filter, these options have an effect.
    assert_eq!(said(&["dedup", "f", "--wait=2", "--commit-every", "5"]), "");
    std::fs::write(folder.path("keys"), "b\n").unwrap();
    std::fs::write(folder.path("job.toml"), JOB).unwrap();
    assert!(said(&["ingest", "job.toml", "--wait"]).contains("--wait has no effect"));
    assert!(!said(&["ingest", "job.toml"]).contains("no effect"));
}

#[test]
fn compressed_inputs_are_recognised_by_their_content() {
    let folder = Folder::new();
    let keys = lines(0..50_000);
    let (first, second) = keys.split_at(keys.len() / 2 + 1);
    let members = [gzip(first.as_bytes()), gzip(second.as_bytes())].concat();
    let frames = [first, second].map(|part| zstd::stream::encode_all(part.as_bytes(), 1).unwrap()).concat();
    std::fs::write(folder.path("gz"), &members).unwrap();
    std::fs::write(folder.path("zst"), &frames).unwrap();
    let dedup = ["dedup", "f", "--slots-per-bucket", "2", "--input"];
    assert!(folder.run(&[&dedup[..], &["gz"]].concat(), "").done() == keys);
    assert!(folder.run(&[&dedup[..], &["zst"]].concat(), "").done().is_empty());
    assert!(folder.run(&["check", "f"], &members).done() == keys);
    assert!(folder.run(&["check", "f", "-v", "--input", "-", "--input", "zst"], &frames).text().is_empty());
    assert_eq!(folder.run(&["count", "f", "--input", "gz"], "").done().lines().count(), 50_000);
    folder.run(&["create", "g", "--capacity", "100_000", "--counting"], "").done();
    folder.run(&["insert", "g", "--input", "zst"], "").done();
    folder.run(&["remove", "g", "--input", "gz"], "").done();
    assert_eq!(folder.info("g")["entries"], 0);

    // Input is not decompressed on request, or if it only begins like a compressed file.
    let plain = folder.run(&["dedup", "h", "--plain", "-0"], &members);
    assert!(plain.out.len() > members.len() / 2 && plain.code == Some(0));
    for key in ["\x1f", "\x1f\n", "(", "(\n\n", "P*", "x"] {
        assert_eq!(folder.run(&["dedup", "i", key], "").done(), format!("{key}\n"));
        assert_eq!(folder.run(&["check", "i", "-0"], key).done(), format!("{key}\0"));
    }
}

#[test]
fn compressed_inputs_that_are_cut_or_damaged_are_named_and_keys_before_that_are_kept() {
    let folder = Folder::new();
    let keys = lines(0..200_000);
    let whole =
        [("gzip", gzip(keys.as_bytes())), ("zstd", zstd::stream::encode_all(keys.as_bytes(), 1).unwrap())];
    for (format, bytes) in whole {
        // Garbage in place of another member or frame.
        let damaged = [&bytes[..], &[0xff; 99]].concat();
        for (bytes, words) in [(&bytes[..bytes.len() / 2], "truncated"), (&damaged[..], "damaged")] {
            let _ = std::fs::remove_file(folder.path("f"));
            std::fs::write(folder.path("in"), bytes).unwrap();
            let dedup = ["dedup", "f", "--slots-per-bucket", "2", "--seed", "7", "--input", "in"];
            let ended = folder.run(&dedup, "");
            let words = match (format, words) {
                ("gzip", "damaged") => "something else follows the gzip data".to_owned(),
                _ => format!("{words} {format} data"),
            };
            ended.refused(&["in: ", &words, " are committed"]);
            assert!(keys.starts_with(&ended.text()) && ended.out.len() > 10_000, "{format} {words}");
            folder.assert_holds("f", &ended.text());
        }
    }
}

#[test]
fn tips_do_not_lead_astray_and_other_names_of_verbs_work() {
    let folder = Folder::with_filter(&["--capacity", "1000", "--counting"]);
    let ended = folder.run(&["dedup", "f", "--cvs"], "");
    assert_eq!(ended.code, Some(2));
    assert!(!ended.err.contains("-- --cvs"), "{ended:?}");
    let ended = folder.run(&["dedup", "f", "-key"], "");
    assert!(ended.err.contains("-- -key"), "{ended:?}");
    for verb in ["list", "open"] {
        let ended = folder.run(&[verb, "f"], "");
        assert!(ended.code == Some(2) && !ended.err.contains("similar"), "{ended:?}");
    }
    let tips: [(&[&str], &str); 10] = [
        (&["create", "z", "--capacity", "10", "--fpr", "0.1"], "it is `--false-positive-rate` here"),
        (&["dedup", "f", "--error-rate=0.1"], "it is `--false-positive-rate` here"),
        (&["store", "create", "z", "--size", "10"], "it is `--capacity` here"),
        (&["has", "f", "a"], "'check'"),
        (&["delete", "f", "a"], "'remove'"),
        (&["uniq", "f"], "'dedup'"),
        (&["-v", "check", "f", "a"], "options stand behind the verb, as in `gowk check -v ...`"),
        (&["--json", "info", "f"], "options stand behind the verb, as in `gowk info --json ...`"),
        (&["-v"], "`gowk -V` prints the version"),
        (&["check", "f", "-x"], "to take '-x' for a key, say '-- -x'"),
    ];
    for (words, tip) in tips {
        let ended = folder.run(words, "");
        assert!(ended.code == Some(2) && ended.err.contains(tip), "{words:?}: {ended:?}");
        assert_eq!(ended.err.matches("tip: ").count(), 1, "{words:?}: {ended:?}");
    }
    // No tip names an option that the verb does not have, or suggests a key for a verb without keys.
    for words in [&["check", "f", "--fpr", "0.1"][..], &["info", "f", "-x"], &["-v", "info", "f", "-x"]] {
        let ended = folder.run(words, "");
        assert!(!ended.err.contains("it is `") && !ended.err.contains("for a key"), "{words:?}: {ended:?}");
    }
    let ended = folder.run(&["chek", "f", "a"], "");
    assert!(ended.err.contains("'check'"), "{ended:?}");
    folder.run(&["add", "f", "a", "b"], "").done();
    assert_eq!(folder.run(&["contains", "f", "a"], "").done(), "a\n");
    folder.run(&["rm", "f", "a"], "").done();
    assert!(folder.run(&["stats", "f", "--json"], "").json()["entries"] == 1);
}

#[test]
fn options_without_effect_on_an_existing_filter_are_named() {
    let folder =
        Folder::with_filter(&["--capacity", "1000", "--false-positive-rate", "0.001", "--seed", "7"]);
    let same = ["--capacity", "1000", "--false-positive-rate", "0.001", "--seed", "7", "--growth", "auto"];
    assert_eq!(folder.run(&[&["dedup", "f"], &same[..]].concat(), "a\n").done(), "a\n");
    let cases: [(&[&str], &[&str]); 6] = [
        (&["--max-file-size", "1G"], &["--max-file-size is without limit"]),
        (&["--max-false-positive-rate", "0.1"], &["--max-false-positive-rate is without limit"]),
        (&["--capacity", "2000"], &["--capacity is 1000"]),
        (&["--false-positive-rate", "0.01", "--growth", "never"], &["rate is 0.001", "--growth is auto"]),
        (&["--slots-per-bucket", "5"], &["--slots-per-bucket is 4"]),
        (&["--seed", "8"], &["--seed is another"]),
    ];
    for (options, words) in cases {
        let ended = folder.run(&[&["dedup", "f"], options].concat(), "a\n");
        assert_eq!(
            (ended.code, ended.text().as_str(), ended.err.lines().count()),
            (Some(0), "", 1),
            "{ended:?}"
        );
        assert!(ended.err.starts_with("gowk: f: exists already"), "{ended:?}");
        for words in words {
            assert!(ended.err.contains(words), "no {words:?} in {}", ended.err);
        }
    }
    // No note for a new filter, or without such options.
    let new = [&["dedup", "new", "--max-file-size", "1G", "--capacity", "5000"], &same[2..]].concat();
    folder.run(&new, "a\n").done();
    folder.run(&["dedup", "new"], "a\n").done();
}

#[test]
fn an_output_named_after_the_filter_and_a_date_stays() {
    for (name, before) in [
        ("urls-new-20241121", ""),
        ("urls-new-abcd1234", ""),
        ("urls-gowk-new-20241121", ""),
        ("urls-gowk-new-0123456789abcdef", "of yesterday\n"),
    ] {
        let folder = Folder::new();
        std::fs::write(folder.path(name), before).unwrap();
        let output = std::fs::File::options().append(true).open(folder.path(name)).unwrap();
        let mut dedup = folder.command(&["dedup", "urls", "--commit-every", "1"]);
        run(dedup.stdout(output), format!("{name}\nb\n").as_bytes()).done();
        let printed = std::fs::read_to_string(folder.path(name)).unwrap();
        assert_eq!(printed, format!("{before}{name}\nb\n"));
        // The next writer does not remove it either.
        folder.run(&["insert", "urls", "--", name], "").done();
        assert_eq!(std::fs::read_to_string(folder.path(name)).unwrap(), printed);
    }
}
