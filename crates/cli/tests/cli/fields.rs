//! Invariants checked: the key is the field, or the trimmed, case-folded line. The tool prints whole records. Two records
//! have the same key if these parts are equal.

use gowk::{Lookup, Reader};

use crate::run::Folder;

const CSV: &str = "id,url,note\n\
                   1,http://a,\"first, with a comma\"\n\
                   2,http://b,\"on\ntwo lines\"\r\n\
                   \n\
                   3,http://a,again\n\
                   4,\"http://\"\"c\"\"\",quotes\n\
                   5\n\
                   6,\"http://b\",last";

#[test]
fn a_column_is_the_key_and_whole_records_are_printed() {
    let folder = Folder::new();
    let ended = folder.run(&["dedup", "f", "--csv", "url"], CSV);
    let new = "id,url,note\n1,http://a,\"first, with a comma\"\n2,http://b,\"on\ntwo lines\"\r\n4,\"http://\"\"c\"\"\",quotes\n";
    assert_eq!((ended.code, ended.text().as_str()), (Some(0), new));
    assert_eq!(
        ended.err,
        "gowk: standard input: 1 records were skipped that lack the field, or hold an empty or no single value in it\n"
    );
    folder.assert_holds("f", "http://a\nhttp://b\nhttp://\"c\"\n");
    folder.assert_lacks("f", "url\n1\n");
    // With a column given by number, there is no header. Other separators work.
    let tabs = "url\tx\nhttp://a\ty\nurl\tz\r\n";
    let ended = folder.run(&["dedup", "g", "--csv", "1", "--delimiter", "\\t"], tabs);
    assert_eq!((ended.text().as_str(), ended.err.as_str()), ("url\tx\nhttp://a\ty\n", ""));
    let ended = folder.run(&["dedup", "g", "--csv=2", "--delimiter=;"], "a;b\r\nc;b\r\n");
    assert_eq!(ended.text(), "a;b\r\n");
    // In a table with tabs a quote is an ordinary character, so that no row is lost in a field with a quote.
    let titles = "id\ttitle\n1\t\"Heroes\n2\tNew\n3\tThe \"Best\"\n4\tlast\n";
    let ended = folder.run(&["dedup", "t", "--csv", "id", "--delimiter", "\\t"], titles);
    assert_eq!((ended.text().as_str(), ended.err.as_str()), (titles, ""));
    let quoted = ["dedup", "q", "--csv", "title", "--delimiter", "\\t", "--quotes"];
    assert_eq!(folder.run(&quoted, "title\n\"a\tb\"\n").done(), "title\n\"a\tb\"\n");
    folder.assert_holds("q", "a\tb\n");
    let plain = ["dedup", "p", "--csv", "1", "--no-quotes"];
    assert_eq!(folder.run(&plain, "\"a,1\n\"b,2\n").done(), "\"a,1\n\"b,2\n");
    folder.assert_holds("p", "\"a\n\"b\n");
    // Other verbs find the same keys.
    let found = folder.run(&["check", "f", "--csv", "url", "-v"], "url,b\nhttp://new,1\nhttp://a,2\n");
    assert_eq!(found.text(), "url,b\nhttp://new,1\n");
    folder.run(&["create", "h", "--capacity", "1000", "--counting"], "").done();
    folder.run(&["insert", "h", "--csv", "b"], "a,b\n1,k\n2,k\n").done();
    assert_eq!(folder.run(&["count", "h", "k"], "").done(), "2\tk\n");
    folder.run(&["remove", "h", "--csv", "2"], "x,k\n").done();
    assert_eq!(folder.run(&["count", "h", "k"], "").done(), "1\tk\n");
}

#[test]
fn a_field_of_json_is_the_key_and_whole_lines_are_printed() {
    let folder = Folder::new();
    let input = "\u{feff}{\"url\": \"http://a\", \"n\": 1}\n{\"n\": 2, \"url\":\"http:\\/\\/a\"}\n{\"url\":17}\n\
                 {\"url\":null}\n{\"other\":1}\n{\"url\":[1]}\n{\"url\":true,\"x\":{}}\n\n";
    let ended = folder.run(&["dedup", "f", "--json-field", "url"], input);
    let new = "{\"url\": \"http://a\", \"n\": 1}\n{\"url\":17}\n{\"url\":true,\"x\":{}}\n";
    assert_eq!((ended.code, ended.text().as_str()), (Some(0), new));
    assert!(ended.err.contains("standard input: 3 records were skipped"), "{ended:?}");
    folder.assert_holds("f", "http://a\n17\ntrue\n");
    let ended = folder.run(&["dedup", "f", "--json-field", "url"], "{\"url\":\"b\"}\n{\"url\":\n");
    ended.refused(&["standard input: invalid JSON on line 2, column 7: ", "correct the line", "--rejects"]);
}

#[test]
fn white_space_and_case_can_be_left_out_of_keys() {
    let folder = Folder::new();
    let input = "Key\n  key \r\nKEY\n\u{c4}pfel\n\u{e4}PFEL\n";
    assert_eq!(folder.run(&["dedup", "f", "--trim"], input).done(), input);
    assert_eq!(folder.run(&["dedup", "g", "--trim", "-i"], input).done(), "Key\n\u{c4}pfel\n\u{e4}PFEL\n");
    assert_eq!(folder.run(&["dedup", "h", "--trim", "-i=unicode"], input).done(), "Key\n\u{c4}pfel\n");
    assert_eq!(folder.run(&["check", "h", "KeY", "other"], "").done(), "KeY\n");
    let reader = Reader::open(folder.path("h")).unwrap();
    assert!(reader.contains("key").unwrap() && reader.contains("\u{e4}pfel").unwrap());
    assert!(!reader.contains("Key").unwrap());
    assert_eq!(folder.run(&["dedup", "i", "-i", "--csv", "1"], "A,1\na,2\n").done(), "A,1\n");
}

/// A key that was inserted is found by every run that is not refused, in a filter and in a store.
#[test]
fn runs_with_different_key_rules_cannot_give_a_wrong_no() {
    let all: [&[&str]; 6] =
        [&[], &["--trim"], &["-i"], &["-i=unicode"], &["--trim", "-i"], &["--trim", "-i=unicode"]];
    for (number, made_with) in all.into_iter().enumerate() {
        let folder = Folder::new();
        folder.run(&[&["create", "f", "--capacity", "1000"], made_with].concat(), "").done();
        let store = ["store", "create", "s", "--shards", "2", "--capacity", "1000"];
        folder.run(&[&store, made_with].concat(), "").done();
        for file in ["f", "s"] {
            folder.run(&["insert", file], " K\u{c4}y\n").done();
            for (other, asked) in all.into_iter().enumerate() {
                // Without options, the rules of the filter apply.
                let agrees = asked.is_empty() || other == number;
                for verb in ["check", "count", "insert", "dedup"] {
                    let before = folder.snapshot();
                    let ended = folder.run(&[&[verb, file], asked].concat(), " K\u{c4}y\n");
                    let expected = match verb {
                        _ if !agrees => "",
                        "check" => " K\u{c4}y\n",
                        "count" => "1\t K\u{c4}y\n",
                        _ => "",
                    };
                    assert_eq!(
                        (ended.code, &*ended.out),
                        (Some(if agrees { 0 } else { 2 }), expected.as_bytes())
                    );
                    assert!(agrees || folder.snapshot() == before, "{verb} {file} {asked:?}");
                }
            }
        }
    }
}

#[test]
fn what_is_wrong_with_records_is_named() {
    let folder = Folder::new();
    folder
        .run(&["dedup", "f", "--csv", "link"], CSV)
        .refused(&["standard input: has no column \"link\"; its first record is: id, url, note"]);
    folder.run(&["dedup", "f", "--csv", "0"], CSV).refused(&["has no column \"0\""]);
    let ended = folder.run(&["dedup", "f", "--csv", "a"], "a,b\n1,2\n3,\"open\n5,6\n");
    ended.refused(&[
        "standard input: the record that begins on line 3 is not whole: a quoted field does not end",
        "the first 1 are committed",
    ]);
    for options in [
        &["--csv", "a", "-0"][..],
        &["--csv", "a", "--json-field", "a"],
        &["--delimiter", ";"],
        &["--csv", "a", "key"],
    ] {
        assert_eq!(folder.run(&[&["dedup", "f"], options].concat(), "").code, Some(2), "{options:?}");
    }
}
