//! Invariants checked: each key of each input is taken once, however often the job runs. No byte is read twice. An input
//! that no longer begins with the bytes that were read is an error.

use std::ops::ControlFlow;

use gowk_ingest::{Event, Ingest, Job, State};

use crate::run::Folder;
use crate::sample::{gzip, numbers, zstd};

type Pack = fn(&[u8]) -> Vec<u8>;

/// Runs `job.toml` and stops the job after its first commit.
fn stop_after_a_commit(folder: &Folder) {
    let job = Job::read(folder.path("job.toml")).unwrap();
    let mut committed = false;
    let summary = Ingest::new(&job)
        .run(&mut |event| {
            committed |= matches!(event, Event::Commit { .. });
            if committed { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    assert!(!summary.finished);
}

fn states(folder: &Folder) -> Vec<State> {
    let job = Job::read(folder.path("job.toml")).unwrap();
    Ingest::new(&job).plan().unwrap().inputs.iter().map(|input| input.state).collect()
}

#[test]
fn compression_is_recognised_by_content_and_members_and_frames_are_joined() {
    let folder = Folder::new();
    let keys = numbers(0..3000);
    let (a, rest) = keys.split_at(10_001);
    let (b, c) = rest.split_at(5);
    folder.write("1", &keys);
    folder.write("2.zst", [gzip(a.as_bytes()), gzip(b""), gzip(b.as_bytes()), gzip(c.as_bytes())].concat());
    let skippable = [0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    folder.write("3.gz", [&skippable[..], &zstd(a.as_bytes()), &zstd(rest.as_bytes())].concat());
    folder.write("4", "");
    folder.write("5", gzip(b""));
    folder.job("paths = ['[1-5]', '*.gz', '*.zst']", 1_000);
    let summary = folder.ingest();
    assert_eq!(summary["run"]["keys"], 9000);
    assert_eq!(summary["run"]["new"], 3000);
    let of_each: Vec<_> = summary["inputs"].as_array().unwrap().iter().map(|input| &input["keys"]).collect();
    assert_eq!(of_each, [3000, 3000, 3000, 0, 0]);
    assert_eq!(folder.text("new"), keys);
    assert_eq!(folder.ingest()["finished_before"], 5);
}

#[test]
fn a_damaged_input_stops_no_other_and_is_read_on_once_it_is_whole() {
    let folder = Folder::new();
    let (a, b, c) = (numbers(0..1000), numbers(1000..60_000), numbers(60_000..61_000));
    folder.write("a.gz", [gzip(a.as_bytes()), vec![0; 10_240]].concat());
    let whole = gzip(b.as_bytes());
    folder.write("b.gz", &whole[..whole.len() * 2 / 3]);
    folder.write("c.gz", gzip(c.as_bytes()));
    folder.write("d", "\"x\",1\ny,2\n");
    folder.job("paths = ['*.gz']", 10_000);
    for _ in 0..2 {
        let ended = folder.run(&["ingest", "job.toml"], "");
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.err.contains("gowk: b.gz: truncated gzip data"), "{ended:?}");
        assert!(ended.err.contains("gowk: 1 of 3 inputs could not be read to their ends"), "{ended:?}");
        let new = folder.text("new");
        assert!(new.starts_with(&a) && new.ends_with(&c) && new.len() > a.len() + c.len() + 100_000);
    }
    folder.write("b.gz", &whole);
    assert_eq!(folder.ingest()["total"]["keys"], 61_000);
    let mut all: Vec<String> = folder.text("new").lines().map(str::to_owned).collect();
    all.sort_unstable();
    let mut expected: Vec<String> = numbers(0..61_000).lines().map(str::to_owned).collect();
    expected.sort_unstable();
    assert!(all == expected, "{} lines", all.len());
}

#[test]
fn a_last_line_without_an_end_waits_until_its_file_has_settled() {
    let folder = Folder::new();
    folder.write("log", "a\nbc");
    folder.write("old", "x\nyz");
    let then = std::time::SystemTime::now() - std::time::Duration::from_secs(90);
    let old = std::fs::File::options().append(true).open(folder.path("old")).unwrap();
    old.set_modified(then).unwrap();
    folder.job("paths = ['log', 'old']\nsettle = \"1m\"", 10);
    let ended = folder.run(&["ingest", "job.toml"], "");
    assert_eq!((ended.code, folder.text("new").as_str()), (Some(0), "a\nx\nyz\n"), "{ended:?}");
    assert!(ended.err.contains("log: its last line of 2 bytes has no end yet"), "{ended:?}");
    folder.append("log", "d\nef");
    let summary = folder.ingest();
    assert_eq!((&summary["run"]["keys"], &summary["inputs"][0]["unfinished_bytes"]), (&1.into(), &2.into()));
    let log = std::fs::File::options().append(true).open(folder.path("log")).unwrap();
    log.set_modified(then).unwrap();
    folder.ingest();
    assert_eq!(folder.text("new"), "a\nx\nyz\nbcd\nef\n");
    folder.assert_lacks("f", "bc\n");
    // In CSV, a quoted newline ends no record.
    let folder = Folder::new();
    folder.write("csv", "id\n1\n\"2\n");
    folder.job("paths = ['csv']\nformat = 'csv'\nfield = 'id'\nsettle = '1m'", 10);
    let ended = folder.run(&["ingest", "job.toml"], "");
    assert!(ended.code == Some(0) && ended.err.contains("csv: its last line of 8 bytes"), "{ended:?}");
    folder.append("csv", "b\"\n");
    folder.ingest();
    assert_eq!(folder.text("new"), "1\n2\nb\n");
    folder.assert_holds("f", "1\n");
}

#[test]
fn a_rotated_input_stops_no_other_and_is_read_anew_if_the_job_says_so() {
    for how in ["cut", "renamed"] {
        let folder = Folder::new();
        folder.write("app.log", numbers(0..100));
        folder.write("z.log", "z1\n");
        folder.job("paths = ['app.log', 'z.log']", 10);
        folder.ingest();
        if how == "renamed" {
            std::fs::rename(folder.path("app.log"), folder.path("app.log.1")).unwrap();
        }
        let rotated = if how == "cut" { numbers(100..110) } else { numbers(100..300) };
        folder.write("app.log", &rotated);
        folder.append("z.log", "z2\n");
        let ended = folder.run(&["ingest", "job.toml"], "");
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.err.contains("1 of 2 inputs") && ended.err.contains("rotated"), "{ended:?}");
        assert!(folder.text("new").ends_with("z1\nz2\n"), "{how}");
        folder.job("paths = ['app.log', 'z.log']\nrotated = 'restart'", 10);
        let ended = folder.run(&["ingest", "job.toml"], "");
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.err.contains("app.log: was cut or replaced; it was read from its start"), "{ended:?}");
        assert_eq!(folder.text("new"), [&numbers(0..100), "z1\nz2\n", &rotated].concat());
        assert_eq!(folder.ingest()["run"]["read"], 0);
    }
}

#[test]
fn inputs_are_read_in_the_order_of_their_names_and_a_new_one_may_sort_earlier() {
    let folder = Folder::new();
    folder.write("b", "b1\nb2\n");
    folder.write("c", "c\n");
    folder.job("paths = ['?', 'b']", 1);
    folder.write("job.toml", folder.text("job.toml").replace("'?'", "'[a-e]'"));
    stop_after_a_commit(&folder);
    folder.write("a", "a\n");
    assert_eq!(states(&folder), [State::HalfRead { base: 0, offset: 3 }, State::New, State::New]);
    folder.ingest();
    assert_eq!(folder.text("new"), "b1\nb2\na\nc\n");
}

#[test]
fn of_an_input_that_has_grown_only_the_addition_is_read() {
    let folder = Folder::new();
    let keys = [numbers(0..10), numbers(10..15), numbers(15..20), numbers(20..30)];
    let write = |name: &str, pack: Pack, parts: &[String]| {
        folder.write(name, parts.iter().flat_map(|part| pack(part.as_bytes())).collect::<Vec<u8>>());
    };
    let kinds: [(&str, Pack); 3] = [("a", gzip), ("b", <[u8]>::to_vec), ("c", zstd)];
    folder.job("paths = ['?']", 7);
    folder.write("job.toml", folder.text("job.toml").replace("'?'", "'[a-c]'"));
    for parts in 1..=4 {
        for (name, pack) in kinds {
            write(name, pack, &keys[..parts]);
        }
        // The third addition arrives in two runs.
        if parts == 3 {
            stop_after_a_commit(&folder);
        }
        let summary = folder.ingest();
        let expected: u64 = keys[..parts].iter().map(|part| 3 * part.lines().count() as u64).sum();
        assert_eq!((&summary["total"]["keys"], &summary["finished"]), (&expected.into(), &true.into()));
    }
    assert_eq!(folder.text("new"), numbers(0..30));
}

#[test]
fn a_record_that_was_cut_when_it_was_read_is_read_whole() {
    let folder = Folder::new();
    folder.job("paths = ['log']", 100);
    for (add, new) in [
        ("a\nhttps://exam", "a\nhttps://exam\n"),
        ("ple.org/\nb", "https://example.org/\nb\n"),
        ("\nc\n", "c\n"),
        ("d\n", "d\n"),
        ("e", "e\n"),
        ("f", "ef\n"),
    ] {
        let before = if folder.path("new").exists() { folder.text("new") } else { String::new() };
        if before.is_empty() {
            folder.write("log", add)
        } else {
            folder.append("log", add)
        }
        folder.ingest();
        assert_eq!(folder.text("new"), before + new, "{add:?}");
    }
}

#[test]
fn a_csv_file_goes_on_by_its_header_and_a_record_cut_within_is_an_error() {
    let folder = Folder::new();
    folder.job("paths = ['log']\nformat = 'csv'\nfield = 'url'", 100);
    folder.write("log", "id,url\r\n1,\"a\nb\"\r\n");
    folder.ingest();
    folder.append("log", "2,c\r\n3,d");
    folder.ingest();
    folder.append("log", "\r\n4,e");
    assert_eq!(folder.ingest()["total"]["keys"], 4);
    assert_eq!(folder.text("new"), "a\nb\nc\nd\ne\n");
    folder.append("log", "e\r\n");
    folder.run(&["ingest", "job.toml"], "").refused(&["log", "ended within a record", "--restart"]);
    let summary = folder.run(&["ingest", "job.toml", "--json", "--restart", "log"], "").json();
    assert_eq!((&summary["run"]["keys"], &summary["run"]["new"]), (&4.into(), &1.into()));
}

/// The input is changed after it was read, in full or in part.
#[test]
fn a_replaced_or_cut_input_is_named_and_reading_it_anew_is_offered() {
    let text = numbers(0..100_000);
    let mut changed = text.clone().into_bytes();
    changed[9] ^= 1;
    for (pack, finished) in
        [(<[u8]>::to_vec as Pack, true), (<[u8]>::to_vec, false), (gzip, true), (gzip, false), (zstd, false)]
    {
        let folder = Folder::new();
        folder.write("log", pack(text.as_bytes()));
        folder.job("paths = ['log']", 40_000);
        if finished {
            folder.ingest();
        } else {
            stop_after_a_commit(&folder);
        }
        let before = folder.read("new");
        for (now, problem) in [
            (
                pack(&text.as_bytes()[..100_000]),
                if finished { "bytes were read, but" } else { "cut or replaced" },
            ),
            (pack(&changed), "was replaced or changed within the first"),
        ] {
            folder.write("log", now);
            let ended = folder.run(&["ingest", "job.toml"], "");
            ended.refused(&["log: ", problem, "--restart"]);
            assert!(folder.read("new") == before);
        }
        // The job continues with the old input, or reads the new one from the start.
        if finished {
            let summary = folder.run(&["ingest", "job.toml", "--json", "--restart", "./log"], "").json();
            assert_eq!((&summary["run"]["keys"], &summary["run"]["new"]), (&100_000.into(), &1.into()));
        } else {
            folder.write("log", pack(text.as_bytes()));
            assert_eq!(folder.ingest()["run"]["keys"], 60_000);
        }
        assert_eq!(states(&folder), [State::Finished]);
    }
}

#[test]
fn a_half_read_input_must_stay_and_be_read_by_the_same_options() {
    let folder = Folder::new();
    folder.write("a", numbers(0..100));
    folder.write("b", "b\n");
    folder.job("paths = ['a', 'b']", 60);
    stop_after_a_commit(&folder);
    let job = folder.text("job.toml");
    folder.write("job.toml", job.replace("'b']", "'b']\nskip_empty = true"));
    folder.run(&["ingest", "job.toml"], "").refused(&["a: ", "under other [input] options"]);
    folder.write("job.toml", job.replace("'a', ", ""));
    let gone = folder.run(&["ingest", "job.toml"], "");
    assert_eq!(gone.code, Some(2), "{gone:?}");
    assert!(gone.err.contains("a: was read up to byte") && gone.err.contains("no longer among the inputs"));
    let summary = folder.run(&["ingest", "job.toml", "--json", "--restart", "a"], "").json();
    assert_eq!((&summary["run"]["keys"], &summary["total"]["keys"]), (&0.into(), &61.into()));
    folder.write("job.toml", job);
    let summary = folder.ingest();
    assert_eq!((&summary["run"]["new"], &summary["run"]["seen"]), (&40.into(), &60.into()));
    folder.run(&["ingest", "job.toml", "--restart", "c"], "").refused(&["c: ", "not an input of this job"]);
}

#[test]
fn records_without_a_key_are_counted_and_too_long_keys_and_missing_fields_are_named() {
    let folder = Folder::new();
    folder.write("a", " a \n\n  \nlonger than that\nb\n");
    folder.job("paths = ['a']\ntrim = true\nskip_empty = true\nmax_key_length = 8", 1);
    let ended = folder.run(&["ingest", "job.toml"], "");
    assert_eq!(
        (ended.code, ended.err.as_str()),
        (Some(0), "gowk: a: 1 keys longer than 8 bytes were skipped\n")
    );
    assert_eq!(folder.text("new"), "a\nb\n");
    let total = &folder.ingest()["total"];
    assert_eq!((&total["read"], &total["skipped_empty"]), (&5.into(), &2.into()));

    let folder = Folder::new();
    folder.write("a", "{\"url\":\"x\"}\n{\"link\":\"y\"}\n{\"url\":[]}\n");
    folder.job("paths = ['a']\nformat = 'jsonl'\nfield = 'url'", 1);
    let ended = folder.run(&["ingest", "job.toml"], "");
    assert!(ended.err.contains("a: 2 records were skipped that lack the field"), "{ended:?}");
    assert_eq!(folder.text("new"), "x\n");
}

#[test]
fn jobs_share_a_filter_and_each_is_remembered_and_forgotten_by_its_name() {
    let folder = Folder::new();
    folder.write("a", "1\n2\n");
    folder.write("b", "2\n3\n");
    folder.job("paths = ['a']", 1);
    let job = folder.text("job.toml");
    folder.write("other.toml", job.replace("'a'", "'b'").replace("\"new\"", "\"other\""));
    folder.ingest();
    folder.run(&["ingest", "other.toml"], "").done();
    assert_eq!((folder.text("new"), folder.text("other")), ("1\n2\n".into(), "3\n".into()));
    assert_eq!(folder.ingest()["run"]["read"], 0);
    folder.run(&["ingest", "job.toml", "--forget", "nobody"], "").refused(&["f: ", "`job`", "`other`"]);
    folder.run(&["ingest", "job.toml", "--forget", "job"], "").done();
    folder.run(&["ingest", "job.toml"], "").refused(&["new: exists already"]);
    std::fs::remove_file(folder.path("new")).unwrap();
    let run = &folder.ingest()["run"];
    assert_eq!((&run["keys"], &run["new"]), (&2.into(), &0.into()));
    assert_eq!(folder.run(&["ingest", "other.toml", "--json"], "").json()["finished_before"], 1);
}

#[test]
fn metadata_that_would_not_fit_is_refused_before_anything_is_read() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("in")).unwrap();
    for i in 0..1000 {
        folder.write(&format!("in/{i}"), format!("{i}\n"));
    }
    folder.job("paths = ['in/*']", 100);
    let job = folder.text("job.toml");
    folder.write("other.toml", &job);
    folder.ingest();
    // The metadata has room for two jobs of 1000 inputs each, but not for 100 more inputs.
    folder.run(&["ingest", "other.toml", "--new-output"], "").refused(&["new: exists already"]);
    folder.write("other.toml", job.replace("\"new\"", "\"other\""));
    folder.run(&["ingest", "other.toml"], "").done();
    for i in 0..100 {
        std::fs::remove_file(folder.path(&format!("in/{i}"))).unwrap();
        folder.write(&format!("in/new {i}"), format!("new {i}\n"));
    }
    let before = folder.read("f");
    let full = folder.run(&["ingest", "job.toml"], "");
    full.refused(&["f: ", "49152", "`job` 24", "`other` 24", "--forget-missing", "--forget"]);
    assert!(folder.read("f")[131_072..] == before[131_072..]);
    let summary = folder.run(&["ingest", "job.toml", "--json", "--forget-missing"], "").json();
    assert_eq!((&summary["run"]["new"], &summary["finished_before"]), (&100.into(), &900.into()));
}

/// Finished inputs are not read again, so their keys would remain those of the old options.
#[test]
fn a_job_is_refused_by_other_options_than_those_by_which_inputs_were_finished() {
    let folder = Folder::new();
    folder.write("a", "id,url\n1,x\n2,y\n");
    let input = "paths = ['a', 'b*']\nformat = 'csv'\nfield = 'url'";
    folder.write("b", "id,url\n3,z\n");
    folder.job(input, 1);
    folder.ingest();
    let job = folder.text("job.toml");
    for other in ["field = 'id'", "field = ['url', 'id']", "field = 'url'\nskip_empty = true"] {
        folder.write("job.toml", job.replace("field = 'url'", other));
        let before = folder.snapshot();
        let words = ["job.toml: other [input] options", "2 inputs were read to their ends", "--forget JOB"];
        folder.run(&["ingest", "job.toml"], "").refused(&words);
        folder.run(&["ingest", "job.toml", "--dry-run"], "").refused(&words);
        assert!(folder.snapshot() == before, "{other}");
    }
    // With the same options the job continues, and after forgetting it begins anew.
    folder.write("job.toml", &job);
    folder.append("a", "4,w\n");
    assert_eq!(folder.ingest()["run"]["new"], 1);
    folder.write("job.toml", job.replace("field = 'url'", "field = ['url', 'id']"));
    folder.run(&["ingest", "job.toml", "--forget", "job"], "").done();
    std::fs::remove_file(folder.path("new")).unwrap();
    assert_eq!(folder.ingest()["run"]["new"], 4);
    folder.assert_holds("f", "x\x1f1\nw\x1f4\nz\x1f3\n");
}
