//! Invariant checked: a mistake is one line on standard error that names the file, the place and the remedy, with exit
//! code 2. Nothing is created or changed. After the mistake is corrected, the job ends as if it had never been made.

use crate::run::Folder;
use crate::sample::gzip;

/// A folder with the input `a` and a `job.toml` that reads it.
fn folder(input: &str, a: impl AsRef<[u8]>) -> Folder {
    let folder = Folder::new();
    folder.write("a", a);
    folder.job(&format!("paths = ['a']\n{input}"), 10);
    folder
}

#[track_caller]
fn refused_and_unchanged(folder: &Folder, words: &[&str]) {
    let before = folder.snapshot();
    folder.run(&["ingest", "job.toml"], "").refused(words);
    folder.run(&["ingest", "job.toml", "--dry-run"], "").refused(words);
    assert!(folder.snapshot() == before);
}

#[track_caller]
fn mended(folder: &Folder, keys: u64) {
    let summary = folder.ingest();
    assert_eq!((&summary["finished"], &summary["total"]["new"]), (&true.into(), &keys.into()));
    assert_eq!(folder.text("new").lines().count() as u64, keys);
}

#[test]
fn a_misspelt_key_is_named_with_the_nearest_one() {
    let folder = folder("", "1\n");
    let job = folder.text("job.toml");
    folder.write("job.toml", job.replace("capacity", "capasity"));
    refused_and_unchanged(
        &folder,
        &["job.toml, line 3: unknown key `capasity` in [filter]; did you mean `capacity`?"],
    );
    folder.write("job.toml", job.replace("every_keys = 10", "every_keys = ten"));
    refused_and_unchanged(&folder, &["job.toml, line 11: "]);
    folder.write("job.toml", job.replace("capacity = 1000", "capacity = 0"));
    let before = folder.snapshot();
    folder.run(&["ingest", "job.toml"], "").refused(&["job.toml: capacity is 0, but must be"]);
    assert!(folder.snapshot() == before);
    folder.run(&["ingest", "none.toml"], "").refused(&["none.toml: cannot read", "check the path"]);
    folder.run(&["ingest", "."], "").refused(&[".: cannot read"]);
    folder.write("long.toml", folder.text("job.toml") + &"#".repeat(1 << 20));
    folder.run(&["ingest", "long.toml"], "").refused(&["long.toml: longer than 1048576 bytes"]);
    folder.run(&["ingest", "/dev/zero"], "").refused(&["/dev/zero: longer than 1048576 bytes"]);
}

#[test]
fn inputs_that_are_no_files_are_named() {
    let folder = folder("", "1\n");
    let job = folder.text("job.toml");
    for (input, words) in [
        ("b", "b: no such input; check the path"),
        ("*.gz", "*.gz: no input matches; check the pattern"),
        ("dir", "dir: is a directory; name its files, as in `dir/*`"),
        ("/dev/null", "/dev/null: not a regular file"),
    ] {
        if input == "dir" {
            std::fs::create_dir(folder.path("dir")).unwrap();
        }
        folder.write("job.toml", job.replace("'a'", &format!("'a', '{input}'")));
        refused_and_unchanged(&folder, &[words]);
    }
    folder.write("job.toml", job);
    mended(&folder, 1);
}

#[test]
fn an_output_that_is_a_file_of_the_filter_is_refused_by_whatever_name() {
    use std::os::unix::fs::symlink;
    let folder = folder("", "1\n2\n");
    let job = folder.text("job.toml");
    let links = Folder::new();
    let text = |path: std::path::PathBuf| path.display().to_string();
    symlink(folder.path("f-journal"), links.path("to-the-journal")).unwrap();
    symlink("to-the-journal", links.path("to-the-link")).unwrap();
    symlink(folder.path("."), links.path("to-the-folder")).unwrap();
    let absolute = text(folder.path("f-lock"));
    let (to_the_link, by_folder) =
        (text(links.path("to-the-link")), text(links.path("to-the-folder/f-lock")));
    let own =
        ["f", "f-journal", "f-lock", "./f-journal", "f-gowk-new-12", &absolute, &to_the_link, &by_folder];
    // Without a filter, and with an existing one.
    for round in 0..2 {
        for own in own {
            folder.write("job.toml", job.replace("\"new\"", &format!("\"{own}\"")));
            refused_and_unchanged(&folder, &[own, "belongs to the filter itself", "choose another name"]);
        }
        if round == 0 {
            folder.write("job.toml", &job);
            mended(&folder, 2);
            std::fs::hard_link(folder.path("f-lock"), folder.path("second-name")).unwrap();
        }
    }
    folder.write("job.toml", job.replace("\"new\"", "\"second-name\""));
    refused_and_unchanged(&folder, &["second-name: belongs to the filter itself"]);
    // A lock file with two names is itself refused.
    std::fs::remove_file(folder.path("second-name")).unwrap();
    // Another name of the filter.
    symlink("f", folder.path("link")).unwrap();
    let of_link = job.replace("\"f\"", "\"link\"");
    for own in ["f", "f-journal", "link"] {
        folder.write("job.toml", of_link.replace("\"new\"", &format!("\"{own}\"")));
        refused_and_unchanged(&folder, &["belongs to the filter itself"]);
    }
    // Other names are free.
    folder.write("job.toml", of_link.replace("\"new\"", "\"link-journal\""));
    folder.run(&["ingest", "job.toml", "--new-output"], "").done();
}

#[test]
fn a_csv_file_without_the_column_is_named_with_those_it_has() {
    let folder = folder("format = 'csv'\nfield = 'url'", "id,link\n1,x\n");
    refused_and_unchanged(&folder, &["a: has no column \"url\"; its first record is: id, link"]);
    folder.write("a", "id,url\n1,x\n");
    mended(&folder, 1);
}

#[test]
fn truncated_and_damaged_gzip_is_named_and_what_came_before_stays() {
    let lines: String = (0..100_000).map(|i| format!("key {i}\n")).collect();
    let whole = gzip(lines.as_bytes());
    let folder = folder("", &whole[..whole.len() / 2]);
    folder.write("job.toml", folder.text("job.toml").replace("every_keys = 10", "every_keys = 10_000"));
    let ended = folder.run(&["ingest", "job.toml"], "");
    let at = format!("at byte {}", whole.len() / 2);
    ended.refused(&["a: truncated gzip data", &at, "get the whole file", "are committed"]);
    folder.run(&["ingest", "job.toml"], "").refused(&["a: truncated gzip data"]);
    let mut damaged = whole.clone();
    let last = damaged.len() - 6;
    damaged[last] ^= 1;
    folder.write("a", &damaged);
    folder.run(&["ingest", "job.toml"], "").refused(&["a: damaged gzip data near byte"]);
    folder.write("a", &whole);
    mended(&folder, 100_000);
}

#[test]
fn invalid_json_is_named_with_its_line() {
    let mut lines: Vec<String> = (1..=30).map(|i| format!("{{\"url\":\"u{i}\"}}")).collect();
    lines[16] = "{\"url\":".to_owned();
    let folder = folder("format = 'jsonl'\nfield = 'url'", lines.join("\n"));
    let ended = folder.run(&["ingest", "job.toml"], "");
    ended.refused(&[
        "a: invalid JSON on line 17, column 7",
        "correct the line",
        "the first 10 are committed",
    ]);
    // The message does not suggest an option that only other verbs have.
    assert!(!ended.err.contains("--rejects"), "{ended:?}");
    // A run that continues also counts lines from the start of the file.
    folder.run(&["ingest", "job.toml"], "").refused(&["a: invalid JSON on line 17, column 7"]);
    lines[16] = "{\"url\":\"u17\"}".to_owned();
    folder.write("a", lines.join("\n"));
    mended(&folder, 30);
}

#[test]
fn an_output_on_a_full_disk_loses_nothing() {
    let folder = folder("", "1\n2\n3\n");
    let job = folder.text("job.toml");
    folder.write("job.toml", job.replace("\"new\"", "\"/dev/full\""));
    let ended = folder.run(&["ingest", "job.toml"], "");
    ended.refused(&["/dev/full: cannot write: ", "make room and run the job again"]);
    folder.assert_lacks("f", "1\n2\n3\n");
    folder.write("job.toml", &job);
    folder
        .run(&["ingest", "job.toml"], "")
        .refused(&["new: the job began with another output", "--new-output"]);
    folder.run(&["ingest", "job.toml", "--new-output"], "").done();
    mended(&folder, 3);
}

/// A limit on file lengths ends a write in the middle, as a full disk does.
#[test]
fn an_output_that_fills_the_disk_half_way_is_exact_afterwards() {
    let lines: String = (0..20_000)
        .map(|i| format!("https://example.org/a-folder-of-some-length/and-a-file-with-a-number/{i}\n"))
        .collect();
    let folder = folder("", &lines);
    let job = folder.text("job.toml").replace("every_keys = 10", "every_keys = 3000");
    // The filter needs less than the limit.
    folder.write("job.toml", job.replace("capacity = 1000\n", "capacity = 30000\ngrowth = 'never'\n"));
    let gowk = env!("CARGO_BIN_EXE_gowk");
    let command = format!("trap '' XFSZ; ulimit -f 640; exec '{gowk}' ingest job.toml");
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", &command]).current_dir(folder.path("."));
    shell.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let ended = crate::run::run(shell.stderr(std::process::Stdio::piped()), b"");
    ended.refused(&[
        "new: cannot write: ",
        "raise the limit on the size of files and run the job again",
        "the first 6000 are committed",
    ]);
    folder.write("job.toml", job);
    folder.ingest();
    assert_eq!(folder.text("new"), lines);
}

#[test]
fn a_job_that_asks_for_the_other_kind_than_the_filter_has_changes_nothing() {
    for (asked, is) in [("counting", "set"), ("set", "counting")] {
        let folder = folder("", "1\n2\n1\n");
        let job = folder.text("job.toml");
        let of_kind = |kind: &str| job.replace("capacity", &format!("kind = \"{kind}\"\ncapacity"));
        folder.write("job.toml", of_kind(is));
        mended(&folder, 2);
        assert_eq!(folder.info("f")["kind"], is);
        folder.append("a", "3\n1\n");
        folder.write("job.toml", of_kind(asked));
        refused_and_unchanged(&folder, &[&format!("/f: is a {is}"), "`--counting`"]);
        // A job that names no kind accepts the filter's.
        folder.write("job.toml", &job);
        mended(&folder, 3);
        let copies = if is == "set" { "1" } else { "3" };
        assert_eq!(folder.run(&["count", "f", "1"], "").done(), format!("{copies}\t1\n"));
    }
    let folder = folder("", "1\n");
    let job = folder.text("job.toml");
    folder.write("job.toml", job.replace("capacity", "kind = \"bag\"\ncapacity"));
    refused_and_unchanged(&folder, &["job.toml, line 3: ", "`set`", "`counting`"]);
}
