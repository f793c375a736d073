//! Invariants checked: for a Parquet file, the values of the column are printed. A null is a record that lacks the field.
//! A filter and a store get the same keys. A file that cannot be read is one line on standard error that names the file
//! and the place, and no key after the damage is taken. Without the feature `parquet` such files are refused by name.

use std::path::PathBuf;

use crate::run::Folder;

fn file(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/parquet", name].iter().collect()
}

fn folder() -> Folder {
    let folder = Folder::new();
    for name in ["arrow-groups", "arrow-v1", "duckdb-zstd", "duckdb-brotli", "duckdb-lz4"] {
        std::fs::copy(file(&format!("{name}.parquet")), folder.path(&format!("{name}.parquet"))).unwrap();
    }
    folder
}

const INPUT: [&str; 2] = ["--input", "arrow-groups.parquet"];

#[cfg(not(feature = "parquet"))]
#[test]
fn without_the_feature_the_refusal_names_it() {
    let folder = folder();
    let before = folder.snapshot();
    for verb in ["dedup", "insert", "check", "count", "remove"] {
        let by_column = folder.run(&[&[verb, "f", "--column", "url"], &INPUT[..]].concat(), "");
        by_column.refused(&["--column: this gowk does not read Parquet", "--features parquet", "duckdb"]);
        let as_lines = folder.run(&[&[verb, "f"], &INPUT[..]].concat(), "");
        as_lines.refused(&["arrow-groups.parquet: is Parquet data", "the feature `parquet`", "duckdb"]);
    }
    assert!(folder.snapshot() == before);
}

#[cfg(feature = "parquet")]
mod read {
    use super::*;

    fn column(name: &str) -> String {
        std::fs::read_to_string(file(&format!("{name}.txt"))).unwrap()
    }

    #[test]
    fn the_values_of_the_column_are_printed_and_stored() {
        let folder = folder();
        folder.run(&["store", "create", "store", "--shards", "2", "--capacity", "1000"], "").done();
        for name in ["url", "user.name", "id", "uuid", "even"] {
            for to in [name, "store"] {
                let ended = folder.run(&[&["dedup", to, "--column", name], &INPUT[..]].concat(), "");
                assert_eq!((ended.code, ended.text()), (Some(0), column(name)), "{ended:?}");
                folder.assert_holds(to, &column(name));
            }
        }
        let again = folder.run(&[&["dedup", "store", "--column", "url"], &INPUT[..]].concat(), "");
        assert_eq!(again.text(), "");
        let checked = folder.run(&[&["check", "url", "-v", "--column", "bytes"], &INPUT[..]].concat(), "");
        assert_eq!(checked.text().lines().count(), 40);
        folder.run(&["create", "counting", "--capacity", "1000", "--counting"], "").done();
        folder.run(&[&["insert", "counting", "--column", "even"], &INPUT[..]].concat(), "");
        assert_eq!(folder.run(&["count", "counting", "true"], "").done(), "13\ttrue\n");
        // Several files, with any row groups and codecs, are one input. Values may end with NUL.
        let both = ["--input", "duckdb-zstd.parquet", "--input", "arrow-v1.parquet", "-0", "--stats"];
        let ended = folder.run(&[&["dedup", "both", "--column", "url"], &both[..]].concat(), "");
        assert_eq!(ended.text(), column("url").replace('\n', "\0"));
        assert!(ended.err.contains("read 68, new 20, seen 48, refused 0, without a key 12"), "{ended:?}");
        // Case and white space are ignored in keys, but printed.
        let ended =
            folder.run(&[&["dedup", "case", "--trim", "-i", "--column", "url"], &INPUT[..]].concat(), "");
        assert_eq!(ended.text(), column("url"));
    }

    #[test]
    fn a_null_is_a_record_that_lacks_the_field() {
        let folder = folder();
        let run = |missing: &str| {
            folder
                .run(&[&["dedup", missing, "--column", "url", "--missing", missing], &INPUT[..]].concat(), "")
        };
        let dropped = run("drop");
        let note = "gowk: arrow-groups.parquet: 6 records were skipped that lack the field, or hold an empty or no single value in it\n";
        assert_eq!((dropped.text(), dropped.err.as_str()), (column("url"), note));
        assert_eq!(run("keep").text().lines().filter(|line| line.is_empty()).count(), 6);
        let fails = ["dedup", "fail", "--column", "even", "--missing", "fail"];
        let ended = folder.run(&[&fails[..], &INPUT[..]].concat(), "");
        assert_eq!(ended.text(), column("even"));
        ended.refused(&["arrow-groups.parquet: the record on row 3 has no single value in \"even\""]);
    }

    #[test]
    fn keys_are_forgotten_by_the_times_in_another_column() {
        // The row of day n, from 10 to 49, has the key k and n % 6: each key recurs after 6 days.
        let folder = folder();
        let timed = ["--column", "bytes", "--time-column", "at"];
        let ended = folder.run(
            &[&["dedup", "f", "--forget-after", "20d", "--forget-within", "2d"], &timed[..], &INPUT[..]]
                .concat(),
            "",
        );
        // After 18 days it is known, and after 24 it is new.
        let expected = (10..16).chain(34..40).map(|day| format!("k{}\n", day % 6));
        assert_eq!(ended.done(), expected.collect::<String>());
        folder.run(
            &["store", "create", "s", "--shards", "2", "--capacity", "1000", "--forget-after", "20d"],
            "",
        );
        let ended = folder.run(&[&["insert", "s", "--stats"], &timed[..], &INPUT[..]].concat(), "");
        assert!(ended.code == Some(0) && ended.err.contains("read 40, new 12, seen 28"), "{ended:?}");
        // Rows without a time are records without a key.
        let text = ["dedup", "g", "--forget-after", "20d", "--column", "id", "--time-column", "url"];
        let ended = folder.run(&[&text[..], &INPUT[..]].concat(), "");
        let words = "gowk: arrow-groups.parquet: has no valid time in \"url\" of any of its 40 records; ";
        assert!(ended.code == Some(2) && ended.err.lines().last().unwrap().starts_with(words), "{ended:?}");
        let ended = folder.run(&[&text[..], &["--missing", "keep"], &INPUT[..]].concat(), "");
        assert_eq!(ended.text(), column("id"));
        // The ids are numbers below a window of a day, in seconds.
        let lasting = ["dedup", "l", "--forget-after", "1d", "--column", "bytes", "--ttl-field"];
        let ended = folder.run(&[&lasting[..], &["id"], &INPUT[..]].concat(), "");
        assert_eq!(ended.done().lines().count(), 6);
        folder.run(&[&lasting[..], &["at"], &INPUT[..]].concat(), "").refused(&[
            "arrow-groups.parquet: its column at has values of the type TIMESTAMP, which are no lifetimes",
        ]);
        for (name, words) in
            [("even", "of the type BOOLEAN, which are no times"), ("when", "no column \"when\"")]
        {
            let timed = ["dedup", "f", "--column", "id", "--time-column", name];
            folder.run(&[&timed[..], &INPUT[..]].concat(), "").refused(&["arrow-groups.parquet: ", words]);
        }
    }

    #[test]
    fn standard_input_is_read_if_it_is_a_file() {
        let folder = folder();
        let mut command = folder.command(&["dedup", "f", "--column", "url"]);
        let input = std::fs::File::open(folder.path("arrow-v1.parquet")).unwrap();
        let output = command.stdin(input).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), column("url"));
        let bytes = std::fs::read(folder.path("arrow-v1.parquet")).unwrap();
        let piped = folder.run(&["dedup", "f", "--column", "url"], bytes);
        piped.refused(&["standard input: is no regular file", "(--input)"]);
    }

    #[test]
    fn what_cannot_be_read_is_named_in_one_line() {
        let folder = folder();
        std::fs::write(folder.path("text"), "a\nb\n").unwrap();
        let whole = std::fs::read(folder.path("arrow-v1.parquet")).unwrap();
        std::fs::write(folder.path("cut"), &whole[..whole.len() - 9]).unwrap();
        // This damage makes the decoder itself panic.
        let mut panics = whole;
        panics[445] ^= 2;
        std::fs::write(folder.path("panics"), panics).unwrap();
        for (input, name, words) in [
            ("text", "url", &["text: is no Parquet file", "--csv or --json-field"][..]),
            ("cut", "url", &["cut: damaged Parquet data, its footer: ", "get the file anew"]),
            ("arrow-v1.parquet", "link", &["has no column \"link\"; its columns are: id, url, user.name"]),
            ("arrow-v1.parquet", "at", &["its column at has values of the type TIMESTAMP"]),
        ] {
            folder.run(&["dedup", "f", "--input", input, "--column", name], "").refused(words);
        }
        let ended = folder.run(&["dedup", "f", "--input", "panics", "--column", "url"], "");
        ended.refused(&["panics: damaged Parquet data, rows 1 to 40: it cannot be decoded"]);
    }

    #[test]
    fn no_other_verb_or_option_takes_them_for_lines() {
        let folder = folder();
        let as_lines = folder.run(&[&["dedup", "f"], &INPUT[..]].concat(), "");
        as_lines.refused(&["arrow-groups.parquet: is Parquet data", "name that column (--column COLUMN)"]);
        for options in [&["--csv", "1"][..], &["--json-field", "a"], &["--rejects", "r"], &["--plain"]] {
            let ended = folder.run(&[&["dedup", "f", "--column", "url"], options, &INPUT[..]].concat(), "");
            assert_eq!((ended.code, ended.text().as_str()), (Some(2), ""), "{options:?}");
        }
        let job = "name = \"keys\"\n[filter]\npath = \"f\"\n[input]\npaths = [\"arrow-v1.parquet\"]\n";
        std::fs::write(folder.path("job.toml"), format!("{job}format = \"parquet\"\nfield = \"url\"\n"))
            .unwrap();
        let ended = folder.run(&["ingest", "job.toml"], "");
        ended.refused(&["job.toml, line 6: `format` must be", "a job does not read Parquet", "as CSV"]);
    }
}
