//! Invariants checked: no record is lost silently. A field that no record has is an error. Records without a key, and
//! malformed ones, are counted, and kept on request. CSV has its header once, and files with other columns do not mix.
//! The tool reports how many new rows the filter probably mistakes for old ones. Its report of a full disk is true.

use std::process::{Command, Stdio};

use crate::run::{Ended, Folder, in_a_shell, lines, run};

const EVENTS: &str = "{\"id\":1,\"user\":{\"name\":\"a\"}}\n{\"user\":{\"name\":\"b\"}}\n{\"id\":null}\n{\"id\":2}\n{\"id\":1}\n";

fn text(folder: &Folder, name: &str) -> String {
    std::fs::read_to_string(folder.path(name)).unwrap()
}

#[test]
fn a_field_that_no_record_has_is_an_error() {
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    let words = ["standard input: has no \"idd\" in any of its 5 records", "check the name of the field"];
    for missing in ["drop", "keep"] {
        for verb in ["dedup", "insert", "check"] {
            let ended = folder.run(&[verb, "f", "--json-field", "idd", "--missing", missing], EVENTS);
            assert!(ended.code == Some(2), "{ended:?}");
            let last = ended.err.lines().last().unwrap();
            assert!(words.iter().all(|words| last.contains(words)), "{ended:?}");
        }
    }
    assert_eq!(folder.run(&["dedup", "f", "--csv", "9"], "a,b\nc,d\n").code, Some(2));
    assert_eq!(folder.info("f")["entries"], 0);
    // Without records, no record can have the field.
    folder.run(&["dedup", "f", "--json-field", "idd"], "").done();
    folder.run(&["dedup", "f", "--csv", "idd"], "").done();
}

#[test]
fn records_without_the_field_are_counted_and_written_and_kept_where_that_is_asked_for() {
    let (first, second) = ("{\"id\":1,\"user\":{\"name\":\"a\"}}\n", "{\"id\":2}\n");
    let lacking = "{\"user\":{\"name\":\"b\"}}\n{\"id\":null}\n";
    for file in ["f", "s"] {
        let folder = Folder::with_filter(&["--capacity", "1000"]);
        folder.run(&["store", "create", "s", "--shards", "2", "--capacity", "1000"], "").done();
        let args = ["dedup", file, "--json-field", "id", "--stats", "--rejects", "r"];
        let ended = folder.run(&args, EVENTS);
        assert_eq!((ended.code, ended.text()), (Some(0), format!("{first}{second}")), "{ended:?}");
        assert!(
            ended.err.contains("read 3, new 2, seen 1, refused 0, without a key 2, malformed 0"),
            "{ended:?}"
        );
        assert_eq!(text(&folder, "r"), lacking);
        let ended = folder.run(&["insert", file, "--json-field", "id", "--json"], EVENTS);
        let summary: serde_json::Value = serde_json::from_str(ended.err.lines().last().unwrap()).unwrap();
        assert_eq!((&summary["no_field"], &summary["malformed"]), (&2.into(), &0.into()), "{ended:?}");
        // Kept in their places in the output, but not in the filter.
        let kept = folder.run(&["dedup", file, "--json-field", "id", "--missing", "keep"], EVENTS);
        assert_eq!((kept.code, kept.text()), (Some(0), lacking.to_owned()));
        let input = format!("{second}{lacking}{{\"id\":3}}\n");
        let kept = folder.run(&["check", file, "--json-field", "id", "--missing", "keep"], &input);
        assert_eq!(kept.text(), format!("{second}{lacking}"));
        folder.assert_lacks(file, "\nnull\n");
        let failed = folder.run(&["dedup", file, "--json-field", "id", "--missing", "fail"], EVENTS);
        assert_eq!(failed.code, Some(2));
        assert!(
            failed.err.contains("standard input: the record on line 2 has no single value in \"id\""),
            "{failed:?}"
        );
        let found = folder.run(&["check", file, "--json-field", "id", "--json"], EVENTS);
        assert!(found.text().ends_with("\"selected\":3,\"skipped\":2}\n"), "{found:?}");
    }
}

#[test]
fn a_malformed_line_ends_no_run_whose_rejects_are_kept() {
    let folder = Folder::new();
    let input = "{\"id\":1}\n{\"id\":\n{\"id\":2}\nnot json\n";
    let failed = folder.run(&["dedup", "f", "--json-field", "id"], input);
    let words = [
        "standard input: invalid JSON on line 2, column 6: ",
        "(--rejects FILE)",
        "the first 1 are committed",
    ];
    failed.refused(&words);
    assert!(!failed.err.contains("line 1"), "{failed:?}");
    let ended = folder.run(&["dedup", "f", "--json-field", "id", "--rejects", "r", "--stats"], input);
    assert_eq!((ended.code, ended.text().as_str()), (Some(0), "{\"id\":2}\n"));
    assert!(ended.err.contains("gowk: standard input: 2 malformed records, for r\n"), "{ended:?}");
    assert!(ended.err.contains("without a key 0, malformed 2"), "{ended:?}");
    assert_eq!(text(&folder, "r"), "{\"id\":\nnot json\n");
    let found = folder.run(&["check", "f", "--json-field", "id", "--rejects", "r2", "-c"], input);
    assert_eq!((found.text().as_str(), text(&folder, "r2")), ("2\n", text(&folder, "r")));
    folder.run(&["dedup", "f", "--rejects", "r"], "").code.filter(|code| *code == 2).unwrap();
    for own in ["f", "f-journal"] {
        let ended = folder.run(&["dedup", "f", "--json-field", "id", "--rejects", own], input);
        ended.refused(&["a file of the filter itself; give another file with --rejects"]);
    }
}

#[test]
fn an_empty_field_is_a_missing_one() {
    for (format, input, kept) in [
        (["--csv", "2"], "1,a\n2,\n3,b\n", "2,\n"),
        (["--json-field", "id"], "{\"id\":\"a\"}\n{\"id\":\"\"}\n{\"id\":\"b\"}\n", "{\"id\":\"\"}\n"),
    ] {
        let folder = Folder::new();
        let ended = folder.run(&[&["dedup", "f", "--rejects", "r"], &format[..]].concat(), input);
        assert_eq!((ended.code, ended.text().lines().count()), (Some(0), 2), "{ended:?}");
        assert!(ended.err.contains("1 records were skipped that lack the field"), "{ended:?}");
        assert_eq!(text(&folder, "r"), kept);
        let ended = folder.run(&[&["dedup", "f", "--missing", "keep"], &format[..]].concat(), input);
        assert_eq!(ended.text(), kept);
        let ended = folder.run(&[&["dedup", "f", "--missing", "fail"], &format[..]].concat(), input);
        assert!(ended.code == Some(2) && ended.err.contains("the record on line 2"), "{ended:?}");
        folder.assert_lacks("f", "\n");
        let none = input.split_inclusive('\n').nth(1).unwrap();
        folder.run(&[&["dedup", "f"], &format[..]].concat(), none);
    }
}

#[test]
fn nothing_but_rejects_is_an_error_with_a_remedy() {
    let folder = Folder::new();
    let pretty = "[\n  {\n    \"id\": 1\n  },\n  {\n    \"id\": 2\n  }\n]\n";
    for verb in ["dedup", "check"] {
        if verb == "check" {
            folder.run(&["create", "f", "--capacity", "1000"], "");
        }
        let ended = folder.run(&[verb, "f", "--json-field", "id", "--rejects", "r"], pretty);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        let last = ended.err.lines().last().unwrap();
        assert!(last.contains("all of its 8 lines are malformed") && last.contains("jq -c ."), "{ended:?}");
    }
}

#[test]
fn a_record_may_be_longer_than_a_key() {
    let folder = Folder::new();
    let long = format!("{{\"id\":1,\"text\":\"{}\"}}\n{{\"id\":2}}\n", "x".repeat(17 << 20));
    let ended = folder.run(&["dedup", "f", "--json-field", "id"], &long);
    assert!(ended.code == Some(0) && ended.text() == long, "{:?}", ended.err);
    let csv = format!("1,{}\n2,b\n", "x".repeat(17 << 20));
    let ended = folder.run(&["dedup", "g", "--csv", "1"], &csv);
    assert!(ended.code == Some(0) && ended.text() == csv, "{:?}", ended.err);
    let key = format!("{{\"id\":\"{}\"}}\n", "x".repeat(17 << 20));
    let ended = folder.run(&["dedup", "f", "--json-field", "id"], &key);
    ended.refused(&["the key on line 1 is longer than 16777216 bytes, the most that a key may have"]);
}

#[test]
fn a_damaged_input_stops_no_other() {
    use std::io::Write as _;
    let gzip = |text: &str| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(text.as_bytes()).unwrap();
        packed.finish().unwrap()
    };
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    let write = |name: &str, bytes: Vec<u8>| std::fs::write(folder.path(name), bytes).unwrap();
    write("padded", [gzip("a\n"), vec![0; 700]].concat());
    write("cut", gzip(&lines(0..1000))[..500].to_vec());
    write("good", b"z\n".to_vec());
    let inputs = ["--input", "padded", "--input", "cut", "--input", "good"];
    let ended = folder.run(&[&["dedup", "f"][..], &inputs].concat(), "");
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.text().starts_with("a\n") && ended.text().ends_with("z\n"), "{ended:?}");
    assert!(ended.err.contains("gowk: cut: truncated gzip data"), "{ended:?}");
    assert!(
        ended.err.contains("1 of 3 inputs could not be read to their ends; all others were"),
        "{ended:?}"
    );
    folder.assert_holds("f", "a\nz\n");
    let found = folder.run(&[&["check", "f"][..], &inputs].concat(), "");
    assert!(found.code == Some(2) && found.text().ends_with("z\n"), "{found:?}");
    // A store gets all keys or none.
    folder.run(&["store", "create", "s", "--shards", "2", "--capacity", "1000"], "").done();
    let ended = folder.run(&[&["dedup", "s"][..], &inputs].concat(), "");
    assert_eq!((ended.code, ended.text().as_str()), (Some(2), ""), "{ended:?}");
    folder.assert_lacks("s", "a\nz\n");
}

#[test]
fn csv_has_its_header_once_and_other_columns_do_not_mix() {
    let folder = Folder::new();
    let rows = "id,url\n1,a\n2,b\n3\n";
    std::fs::write(folder.path("one.csv"), rows).unwrap();
    std::fs::write(folder.path("two.csv"), "id,url\r\n4,c\r\n").unwrap();
    std::fs::write(folder.path("other.csv"), "url,id\nd,5\n").unwrap();
    folder.run(&["dedup", "seen", "--csv", "url"], "url\na\n").done();
    // A chain of commands, with the column by name.
    let chain = "\"$1\" check seen -v --csv url --input one.csv --input two.csv | \"$1\" dedup f --csv url --rejects r";
    let ended = run(&mut in_a_shell(&folder, chain, &[]), b"");
    assert_eq!(ended.text(), "id,url\n2,b\n4,c\r\n");
    let again = folder.run(&["dedup", "f", "--csv", "url", "--input", "two.csv"], "");
    assert_eq!(again.text(), "id,url\r\n");
    // A file to which rows are appended also has the header once.
    for _ in 0..2 {
        let args = ["insert", "f", "--csv", "url", "--rejects", "rows", "--input", "one.csv"];
        assert_eq!(folder.run(&args, "").code, Some(0));
    }
    assert_eq!(text(&folder, "rows"), "id,url\n3\n3\n");
    // With a column by number, no header is recognized.
    assert_eq!(folder.run(&["dedup", "g", "--csv", "2"], "id,url\n1,a\n").done(), "id,url\n1,a\n");

    let inputs = ["--csv", "url", "--input", "one.csv", "--input", "other.csv"];
    for verb in ["dedup", "check"] {
        let before = folder.snapshot();
        let ended = folder.run(&[&[verb, "f"][..], &inputs].concat(), "");
        ended.refused(&["other.csv: has another header than one.csv: url,id"]);
        assert!(folder.snapshot() == before && ended.out.is_empty(), "{ended:?}");
    }
    // Streams are checked when they are read.
    let piped = "\"$1\" dedup f --csv url --input one.csv --input - < <(cat other.csv)";
    let ended = run(&mut in_a_shell(&folder, piped, &[]), b"");
    assert!(ended.err.contains("standard input: has another header than one.csv"), "{ended:?}");
    // If no record is written, columns are found in each file separately.
    assert_eq!(folder.run(&[&["insert", "f"][..], &inputs].concat(), "").code, Some(0));
    folder.assert_holds("f", "a\nb\nc\nd\n");
}

/// At the rate of seven slots thousands of rows are lost, so that chance plays no part. Between two readings of the rate
/// there are at most the keys of one run, however fast they are read.
#[test]
fn the_number_of_new_rows_lost_is_told() {
    let folder = Folder::new();
    let args = ["dedup", "f", "--slots-per-bucket", "7", "--capacity", "150K", "--seed", "1"];
    let (mut lost, mut expected) = (0, 0.0);
    for start in (0..400_000).step_by(50_000) {
        let ended = folder.run(&[&args[..], &["--json"]].concat(), lines(start..start + 50_000));
        lost += 50_000 - ended.text().lines().count();
        let summary: serde_json::Value = serde_json::from_str(ended.err.lines().last().unwrap()).unwrap();
        expected += summary["expected_lost"].as_f64().unwrap();
    }
    assert!((expected / lost as f64 - 1.0).abs() < 0.1, "{expected} expected, {lost} lost");
    let ended = folder.run(&[&args[..], &["--stats"]].concat(), lines(400_000..500_000));
    let lost = 100_000 - ended.text().lines().count();
    let told = ended.err.split("of the keys seen, about ").nth(1).unwrap();
    let told: f64 = told.split(' ').next().unwrap().replace(',', "").parse().unwrap();
    assert!((told / lost as f64 - 1.0).abs() < 0.1, "{told} told, {lost} lost");
    // `insert` loses nothing: such keys are still found.
    assert!(!folder.run(&["insert", "f", "--stats"], "a\n").err.contains("about"));
}

#[test]
fn a_filter_that_dedup_makes_has_a_low_rate_and_takes_any_that_is_there() {
    let folder = Folder::with_filter(&["--capacity", "1000"]);
    folder.run(&["dedup", "new"], "a\n").done();
    assert_eq!(folder.info("new")["requested_false_positive_rate"], 1e-5);
    assert_eq!(folder.run(&["dedup", "f"], "a\n").done(), "a\n");
    folder.run(&["dedup", "chosen", "--false-positive-rate", "0.01"], "a\n").done();
    assert_eq!(folder.info("chosen")["requested_false_positive_rate"], 0.01);
    folder.run(&["dedup", "slots", "--slots-per-bucket", "6"], "a\n").done();
    assert_eq!(folder.info("slots")["slots_per_bucket"], 6);
}

/// A limit on file lengths stops a doubling, as a full disk does.
#[test]
fn what_is_committed_of_a_run_that_fills_the_disk_is_told() {
    for verb in ["dedup", "insert"] {
        let folder = Folder::with_filter(&["--capacity", "200K", "--slots-per-bucket", "2"]);
        let limit = folder.path("f").metadata().unwrap().len() * 3 / 1024;
        let mut shell = Command::new("bash");
        let line = format!("trap '' XFSZ; ulimit -f {limit}; \"$1\" {verb} f");
        shell.args(["-c", &line, "bash", env!("CARGO_BIN_EXE_gowk")]).current_dir(folder.path("."));
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let input = lines(0..1_000_000);
        let ended = run(&mut shell, input.as_bytes());
        assert_eq!(ended.code, Some(2), "{ended:?}");
        let told = committed(&ended);
        let held: u64 = folder.run(&["check", "f", "-c"], &input).text().trim().parse().unwrap();
        assert!(told > 200_000, "{}", ended.err);
        assert_eq!((told, held), (held, folder.info("f")["entries"].as_u64().unwrap()), "{}", ended.err);
        if verb == "dedup" {
            assert_eq!(ended.text().lines().count() as u64, held);
            // Nothing is lost, and nothing occurs twice.
            let rest = folder.run(&["dedup", "f"], &input).done();
            assert_eq!(rest.lines().count() as u64 + held, 1_000_000);
        }
    }
}

/// How many keys a failed run reports as committed: the first ones, and some of those after them.
fn committed(ended: &Ended) -> u64 {
    let number = |text: &str| text.split(' ').next().unwrap().trim().parse::<u64>().unwrap();
    let told = ended.err.split("of this run's keys, the first ").nth(1).unwrap();
    number(told) + told.split(" are committed, and ").nth(1).map_or(0, number)
}

/// The keys that Python's `csv` and `json` find, independently of gowk.
const SELECTED: &str = r#"
import csv, json, sys
key, seen = sys.argv[1], set()
if key == "csv":
    rows = [(row, (row["url"], row["id"])) for row in csv.DictReader(open("rows.csv", newline=""))]
else:
    rows = []
    for line in open("events.jsonl"):
        value = json.loads(line).get("user")
        value = value.get("name") if isinstance(value, dict) else None
        if isinstance(value, str):
            rows.append((line, value))
for row, key in rows:
    if key not in seen:
        seen.add(key)
        print(json.dumps(row))
"#;

#[test]
fn nested_fields_and_several_columns_select_what_python_does() {
    let folder = Folder::new();
    let (mut rows, mut events) = ("id,url,n\n".to_owned(), String::new());
    for n in 0..3000_u32 {
        let (id, url, user) = (n % 7, n.wrapping_mul(2_654_435_761) >> 24, n % 97);
        rows += &format!("{id},\"http://{url}/\n, \"\"{url}\"\"\",{n}\n");
        events += &match n % 5 {
            0 => format!("{{\"user\":\"{user}\",\"n\":{n}}}\n"),
            1 => format!("{{\"name\":\"{user}\",\"user\":{{\"x\":{{\"name\":\"no\"}}}}}}\n"),
            _ => format!("{{\"n\":{n},\"user\":{{\"id\":[{n}],\"n\\u0061me\":\"u\\n\\\"{user}\"}}}}\n"),
        };
    }
    std::fs::write(folder.path("rows.csv"), rows).unwrap();
    std::fs::write(folder.path("events.jsonl"), events).unwrap();
    let python = |args: &[&str]| {
        let output =
            Command::new("python3").args(["-c"]).args(args).current_dir(folder.path(".")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let ended = folder.run(&["dedup", "f", "--seed", "1", "--csv", "url,id", "--input", "rows.csv"], "");
    std::fs::write(folder.path("new.csv"), ended.done()).unwrap();
    let read =
        "import csv, json\nfor row in csv.DictReader(open('new.csv', newline='')): print(json.dumps(row))";
    assert!(python(&[SELECTED, "csv"]) == python(&[read]));
    let dedup = ["dedup", "g", "--seed", "1", "--json-field", "user.name", "--input", "events.jsonl"];
    let ended = folder.run(&dedup, "");
    std::fs::write(folder.path("new.jsonl"), ended.out).unwrap();
    let read = "import json\nfor line in open('new.jsonl'): print(json.dumps(line))";
    assert!(python(&[SELECTED, "json"]) == python(&[read]));
    // The key consists of the fields with the byte 0x1f between them.
    assert_eq!(folder.run(&["dedup", "h", "--csv", "url,id"], "id,url\n1,a\n").done(), "id,url\n1,a\n");
    folder.assert_holds("h", "a\u{1f}1\n");
}
