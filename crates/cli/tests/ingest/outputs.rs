//! Invariants checked:
//!
//! 1. The output has each new key once, in the order of the inputs. Whole records are as in the inputs, under one header.
//! 2. A job never cuts or overwrites bytes that it did not write, nor writes to a file of any filter or store.
//! 3. Keys without room go to both outputs, even if the job is killed in between.
//! 4. A record without a key is counted. As the job says, it is also written, or ends the run. A field that no record has
//!    is an error.

use crate::run::{Folder, lines};
use crate::sample::{gzip, unzstd};

fn prepared() -> Folder {
    let folder = Folder::new();
    folder.write("a", "1\n2\n3\n");
    folder.job("paths = ['a']", 2);
    folder
}

#[test]
fn a_file_that_the_job_did_not_write_is_left_alone() {
    let folder = prepared();
    folder.write("new", "precious");
    folder.run(&["ingest", "job.toml"], "").refused(&["new: exists already", "move it away"]);
    assert_eq!(folder.text("new"), "precious");
    assert!(!folder.path("f").exists());
    folder.write("new", "");
    folder.ingest();
    assert_eq!(folder.text("new"), "1\n2\n3\n");
}

#[test]
fn an_output_is_cut_to_its_committed_length_and_must_not_be_shorter() {
    let folder = prepared();
    folder.ingest();
    folder.append("new", "4 of a run that was killed\n");
    folder.append("a", "5\n");
    folder.ingest();
    assert_eq!(folder.text("new"), "1\n2\n3\n5\n");
    folder.append("a", "6\n");
    folder.write("new", "1\n2\n");
    folder.run(&["ingest", "job.toml"], "").refused(&["new: 8 bytes were written, but 4", "--new-output"]);
    folder.write("new", "1\n2\n3\n4\nlonger");
    folder.run(&["ingest", "job.toml"], "").refused(&["new: its first 8 bytes are not what this job wrote"]);
    assert_eq!(folder.text("new"), "1\n2\n3\n4\nlonger");
    std::fs::remove_file(folder.path("new")).unwrap();
    // The output is removed after all inputs were read.
    folder.ingest();
    assert_eq!(folder.text("new"), "6\n");
    folder.append("a", "7\n");
    folder.write("new", "");
    folder.ingest();
    assert_eq!(folder.text("new"), "7\n");
}

#[test]
fn a_new_output_is_begun_when_asked_for_or_between_runs() {
    let folder = prepared();
    folder.ingest();
    folder.append("a", "4\n");
    let job = folder.text("job.toml");
    folder.write("job.toml", job.replace("\"new\"", "\"second.zst\""));
    folder.ingest();
    assert_eq!(unzstd(&folder.read("second.zst")), b"4\n");
    folder.append("a", "5\n6\n7\n");
    folder.ingest();
    assert_eq!(unzstd(&folder.read("second.zst")), b"4\n5\n6\n7\n");
    folder.append("a", "8\n");
    std::fs::rename(folder.path("second.zst"), folder.path("taken")).unwrap();
    folder.run(&["ingest", "job.toml", "--new-output"], "").done();
    assert_eq!(unzstd(&folder.read("second.zst")), b"8\n");
    assert_eq!(folder.text("new"), "1\n2\n3\n");
}

/// Otherwise the second run would read the output of the first, and fail.
#[test]
fn patterns_pass_over_the_files_of_the_job_itself() {
    let folder = Folder::new();
    folder.write("a.txt", "1\n2\n");
    folder.job("paths = ['*.txt', '*']", 1);
    let job = folder.text("job.toml").replace("\"new\"", "\"new.txt\"");
    folder.write("job.toml", &job);
    for (added, new) in [("", "1\n2\n"), ("3\n", "1\n2\n3\n"), ("", "1\n2\n3\n")] {
        folder.append("a.txt", added);
        folder.ingest();
        assert_eq!(folder.text("new.txt"), new);
    }
    for own in ["new.txt", "f", "f-journal", "f-lock", "job.toml"] {
        folder.write("job.toml", job.replace("'*'", &format!("'{own}'")));
        folder.run(&["ingest", "job.toml"], "").refused(&[own, "belongs to the job itself"]);
    }
}

#[test]
fn keys_of_nul_inputs_end_with_nul() {
    let folder = Folder::new();
    folder.write("a", "1\n1\x002\x00");
    folder.job("paths = ['a']\nformat = 'nul'", 2);
    folder.ingest();
    assert_eq!(folder.text("new"), "1\n1\x002\x00");
}

#[test]
fn whole_records_are_written_under_the_header_of_the_inputs() {
    let folder = Folder::new();
    folder.write("a", "\u{feff}id,url\r\n1,x\r\n2,\"y\n\"\"z\"\r\n3,x\r\n4\r\n");
    folder.write("b.gz", gzip(b"id,url\n\n5,\"x\"\n6,new\n"));
    folder.job("paths = ['a', 'b.gz']\nformat = 'csv'\nfield = 'url'", 1);
    let job = folder.text("job.toml") + "records = true\n";
    folder.write("job.toml", &job);
    folder.ingest();
    let expected = "id,url\n1,x\n2,\"y\n\"\"z\"\n6,new\n";
    assert_eq!(folder.text("new"), expected);

    // Later runs write no header.
    folder.write("c", "id,url\n7,x\n8,newer");
    folder.write("job.toml", job.replace("'a', 'b.gz'", "'a', 'b.gz', 'c'"));
    folder.ingest();
    assert_eq!(folder.text("new"), format!("{expected}8,newer\n"));
    folder.write("d", "url,id\nlast,9\n");
    let with_d = job.replace("'a', 'b.gz'", "'a', 'b.gz', 'c', 'd'");
    folder.write("job.toml", &with_d);
    folder
        .run(&["ingest", "job.toml"], "")
        .refused(&["new: does not begin with the header of the inputs, url,id"]);
    folder.write("e", "id,url\n10,e\n");
    folder.write("job.toml", with_d.replace("'d'", "'e', 'd'"));
    folder.run(&["ingest", "job.toml", "--new-output"], "").refused(&["new: exists already"]);
    std::fs::rename(folder.path("new"), folder.path("taken")).unwrap();
    folder
        .run(&["ingest", "job.toml"], "")
        .refused(&["e: has another header than d: id,url", "read it by itself"]);
    assert!(!folder.path("new").exists());
    folder.write("job.toml", job.replace("'a', 'b.gz'", "'e'").replace("\"new\"", "\"new.zst\""));
    folder.ingest();
    assert_eq!(unzstd(&folder.read("new.zst")), b"id,url\n10,e\n");
}

#[test]
fn whole_lines_are_written_for_json_and_for_trimmed_lines() {
    let folder = Folder::new();
    folder.write("a", "{\"n\": 1, \"url\":\"x\\n\"}\n{\"url\":\"y\"}\r\n\n{\"url\":\"x\\u000a\"}\n");
    folder.job("paths = ['a']\nformat = 'jsonl'\nfield = 'url'", 1);
    folder.write("job.toml", folder.text("job.toml") + "records = true\n");
    folder.ingest();
    assert_eq!(folder.text("new"), "{\"n\": 1, \"url\":\"x\\n\"}\n{\"url\":\"y\"}\r\n");
    let folder = Folder::new();
    folder.write("a", " 1 \n1\n\t2");
    folder.job("paths = ['a']\ntrim = true", 1);
    folder.write("job.toml", folder.text("job.toml") + "records = true\n");
    folder.ingest();
    assert_eq!(folder.text("new"), " 1 \n\t2\n");
}

/// A filter of one region that does not grow, and more keys than it has room for.
fn overfull(folder: &Folder) {
    folder.write("a", lines(0..18_000));
    folder.write("b.gz", gzip(lines(12_000..25_000).as_bytes()));
    folder.job("paths = ['a', 'b.gz']", 1_000);
    let job = folder.text("job.toml");
    let job = job.replace("seed = 7", "seed = 7\ngrowth = 'never'") + "refused = \"refused\"\n";
    folder.write("job.toml", job);
}

#[test]
fn keys_without_room_go_to_both_outputs_and_are_skipped() {
    let folder = Folder::new();
    overfull(&folder);
    let ended = folder.run(&["ingest", "job.toml", "--json"], "");
    assert_eq!(ended.code, Some(2));
    let summary: serde_json::Value = serde_json::from_slice(&ended.out).unwrap();
    let refused = folder.text("refused");
    let count = refused.lines().count();
    let held = folder.run(&["check", "f"], lines(0..25_000)).done();
    let lost = |key: &&str| !held.contains(&format!("{key}\n")) && !refused.contains(&format!("{key}\n"));
    assert_eq!(lines(0..25_000).lines().filter(lost).count(), 0);
    // A key without room is new each time it comes. All others are new once.
    assert_eq!(folder.text("new").lines().count(), held.lines().count() + count);
    let run = &summary["run"];
    assert_eq!((&run["refused"], &summary["total"]["refused"]), (&count.into(), &count.into()));
    assert_eq!((&run["keys"], &run["new"]), (&31_000.into(), &folder.text("new").lines().count().into()));
    let told: Vec<_> = ended.err.lines().collect();
    let first: serde_json::Value = told
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .find(|event: &serde_json::Value| event["event"] == "refused")
        .unwrap();
    let number = first["number"].as_u64().unwrap();
    assert_eq!((&first["input"], &first["key"]), (&"a".into(), &format!("key {}", number - 1).into()));
    let last = told.last().unwrap();
    for words in [&format!("{count} of this run's 31000 keys found no room"), "but in refused", "`gowk grow`"]
    {
        assert!(last.contains(words), "no {words:?} in {last}");
    }

    // The next run has nothing to read: refused keys are not tried again.
    let again = folder.ingest();
    assert_eq!((&again["run"]["keys"], &again["total"]["refused"]), (&0.into(), &count.into()));
    folder.run(&["grow", "f"], "").done();
    folder.run(&["insert", "f", "--input", "refused"], "").done();
    assert_eq!(folder.run(&["check", "f"], lines(0..25_000)).done(), lines(0..25_000));
}

#[test]
fn a_job_with_keys_without_room_that_is_killed_leaves_what_an_uninterrupted_one_leaves() {
    let whole = Folder::new();
    overfull(&whole);
    let start = std::time::Instant::now();
    assert_eq!(whole.run(&["ingest", "job.toml"], "").code, Some(2));
    let takes = start.elapsed();
    let folder = Folder::new();
    overfull(&folder);
    let mut kills = 0;
    for part in 1..=12 {
        let mut job = folder.start(&["ingest", "job.toml"]);
        // The first eight kills come within nine tenths of the time that the whole job takes.
        std::thread::sleep(takes * part / 40);
        kills += u32::from(job.has_ended().is_none());
        job.kill();
    }
    assert!(kills > 2, "{kills}");
    folder.run(&["ingest", "job.toml"], "");
    whole.left("new").assert_same(&folder.left("new"));
    assert!(whole.text("refused") == folder.text("refused"), "the refused keys differ");
}

#[test]
fn one_file_for_new_and_for_refused_keys_is_refused() {
    let folder = prepared();
    let job = folder.text("job.toml");
    for refused in ["new", "./new", "link"] {
        let _ = std::os::unix::fs::symlink("new", folder.path("link"));
        folder.write("job.toml", format!("{job}refused = '{refused}'\n"));
        folder.run(&["ingest", "job.toml"], "").refused(&[refused, "`new_keys` and as `refused`"]);
    }
    folder.write("job.toml", format!("{job}refused = 'f-journal'\n"));
    folder.run(&["ingest", "job.toml"], "").refused(&["f-journal: belongs to the filter itself"]);
    folder.write("job.toml", job.replace("new_keys = \"new\"", "refused = 'r'"));
    folder.ingest();
    assert_eq!(folder.text("r"), "");
    assert!(!folder.path("new").exists());
}

const EVENTS: &str = "{\"id\":1}\n{\"user\":7}\n{\"id\":2}\n{\"id\n{\"id\":[]}\n\n{\"id\":1}\n{\"id\":3}\n";

fn events(rest: &str) -> Folder {
    let folder = Folder::new();
    folder.write("a", EVENTS);
    folder.job("paths = ['a*']\nformat = 'jsonl'\nfield = 'id'", 1);
    folder.write("job.toml", folder.text("job.toml") + rest);
    folder
}

#[test]
fn records_without_a_key_are_counted_and_written_and_end_no_run() {
    let folder = events("rejects = \"rejects\"\n");
    let summary = folder.ingest();
    let run = &summary["run"];
    assert_eq!((&run["keys"], &run["new"], &run["read"]), (&4.into(), &3.into(), &8.into()));
    let skipped = ["skipped", "skipped_no_field", "skipped_malformed", "skipped_empty"];
    assert_eq!(skipped.map(|name| run[name].as_u64().unwrap()), [4, 2, 1, 1], "{run}");
    assert_eq!(folder.text("new"), "1\n2\n3\n");
    assert_eq!(folder.text("rejects"), "{\"user\":7}\n{\"id\n{\"id\":[]}\n");
    // Nothing is written twice, and the bytes of a killed run are cut off.
    folder.append("rejects", "of a run that was killed");
    folder.append("a", "{\"id\":4}\n{}\n");
    let ended = folder.run(&["ingest", "job.toml"], "");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for words in ["a: 1 records were skipped that lack the field", "all runs"] {
        assert!(ended.err.contains(words) || ended.text().contains(words), "{ended:?}");
    }
    assert_eq!(folder.text("rejects"), "{\"user\":7}\n{\"id\n{\"id\":[]}\n{}\n");
    let total = &folder.ingest()["total"];
    assert_eq!((&total["skipped_no_field"], &total["skipped_malformed"]), (&3.into(), &1.into()));
    // Two outputs must be two files.
    folder.write("job.toml", folder.text("job.toml").replace("\"rejects\"\n", "\"./new\"\n"));
    folder.run(&["ingest", "job.toml"], "").refused(&["new: "]);
}

#[test]
fn the_rejects_of_csv_begin_with_its_header() {
    let folder = Folder::new();
    folder.write("a", "id,url\r\n1,x\r\n2\r\n3,y\r\n4\r\n");
    folder.job("paths = ['a']\nformat = 'csv'\nfield = 'url'", 1);
    folder.write("job.toml", folder.text("job.toml") + "rejects = \"rejects\"\n");
    folder.ingest();
    assert_eq!((folder.text("new"), folder.text("rejects")), ("x\ny\n".into(), "id,url\n2\n4\n".into()));
}

#[test]
fn a_record_without_the_field_is_kept_or_ends_the_run_as_the_job_says() {
    let folder = events("rejects = \"rejects\"\n");
    let job = folder.text("job.toml");
    let missing =
        |how: &str, job: &str| job.replace("field = 'id'", &format!("field = 'id'\nmissing = '{how}'"));
    folder.write("job.toml", missing("keep", &job));
    folder
        .run(&["ingest", "job.toml"], "")
        .refused(&["job.toml, line 11: `missing` must be", "`records` is true"]);
    folder.write("job.toml", missing("keep", &job) + "records = true\n");
    let run = &folder.ingest()["run"];
    assert_eq!((&run["keys"], &run["new"], &run["skipped_no_field"]), (&4.into(), &3.into(), &2.into()));
    assert_eq!(folder.text("new"), "{\"id\":1}\n{\"user\":7}\n{\"id\":2}\n{\"id\":[]}\n{\"id\":3}\n");
    assert_eq!(folder.text("rejects"), "{\"id\n");
    folder.assert_lacks("f", "\n[]\n{\"user\":7}\n");

    let folder = events("");
    folder.write("job.toml", missing("fail", &job));
    let ended = folder.run(&["ingest", "job.toml"], "");
    ended.refused(&[
        "a: the record on line 2 has no single value in \"id\"",
        "the first 1 are committed",
        "[input]",
    ]);
    folder.write("a", EVENTS.replace("\"user\"", "\"id\"").replace("[]", "5"));
    folder.ingest();
    assert_eq!(folder.text("new"), "1\n7\n2\n5\n3\n");
}

#[test]
fn a_field_that_no_record_has_ends_the_job_until_it_is_corrected() {
    let folder = events("rejects = \"rejects\"\n");
    let job = folder.text("job.toml");
    folder.write("job.toml", job.replace("field = 'id'", "field = 'idd'"));
    for _ in 0..2 {
        let ended = folder.run(&["ingest", "job.toml"], "");
        ended.refused(&["a: has no \"idd\" in any of its 6 records", "check the name of the field"]);
    }
    // Nothing was read under that name, so the right one is not refused.
    folder.write("job.toml", job);
    assert_eq!(folder.ingest()["total"]["new"], 3);
    assert_eq!(folder.text("rejects"), "{\"user\":7}\n{\"id\n{\"id\":[]}\n");
}

#[test]
fn what_another_run_has_appended_is_not_cut_off() {
    let folder = prepared();
    folder.ingest();
    folder.append("a", "4\n");
    folder.run(&["dedup", "g", "-o", "new", "theirs"], "").done();
    if !folder.has_marks() {
        return;
    }
    for _ in 0..2 {
        folder
            .run(&["ingest", "job.toml"], "")
            .refused(&["new: another run has written behind the 6 bytes", "--new-output"]);
    }
    assert_eq!(folder.text("new"), "1\n2\n3\ntheirs\n");
    std::fs::rename(folder.path("new"), folder.path("moved")).unwrap();
    folder.run(&["ingest", "job.toml", "--new-output"], "").done();
    assert_eq!(folder.text("new"), "4\n");
}

#[test]
fn a_file_of_any_filter_or_store_is_no_output() {
    let folder = prepared();
    folder.run(&["create", "g", "--capacity", "1000"], "").done();
    folder.run(&["store", "create", "s", "--shards", "2", "--capacity", "1000"], "").done();
    let (job, before) = (folder.text("job.toml"), folder.read("g"));
    // The lock file is empty, like a new output.
    for (own, is) in
        [("g", "is a filter"), ("g-lock", "is a file of the filter"), ("s/new", "s, the folder of a store")]
    {
        folder.write("job.toml", job.replace("\"new\"", &format!("\"{own}\"")));
        folder.run(&["ingest", "job.toml"], "").refused(&[is, "choose another name"]);
    }
    assert!(folder.read("g") == before && folder.read("g-lock").is_empty() && !folder.path("s/new").exists());
}
