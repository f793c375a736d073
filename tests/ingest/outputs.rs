//! Invariants: the output holds each new key once, in the order of the inputs; what the job did not write is
//! never cut or overwritten.

use crate::run::Folder;
use crate::sample::unzstd;

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
fn what_follows_the_committed_length_is_cut_off_and_what_precedes_it_must_be_there() {
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
    // All was read when it was taken away.
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

/// The second run would read what the first has written, and fail for that.
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
