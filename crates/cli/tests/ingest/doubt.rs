//! Invariant checked: after a failed commit, the job says which keys are committed, which are not, and which are in
//! doubt. The next run continues exactly after the keys that the filter has.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gowk::Options;
use gowk::disk::{Disk, SystemDisk};
use gowk_ingest::{Error, Event, Ingest, Job};

use crate::run::{Folder, in_a_shell};
use crate::sample::numbers;

/// The system's disk, on which syncs of the journal fail after some time.
#[derive(Debug)]
struct Failing {
    journal: PathBuf,
    fails: AtomicBool,
}

impl Disk for Failing {
    fn sync(&self, file: &File) -> io::Result<()> {
        if self.fails.load(Ordering::Relaxed) && file.metadata()?.ino() == self.journal.metadata()?.ino() {
            return Err(io::Error::other("the medium is gone"));
        }
        SystemDisk.sync(file)
    }
}

#[test]
fn keys_in_doubt_are_named_and_the_next_run_goes_on_from_the_filter() {
    for fails_after in [10, 20] {
        let folder = Folder::new();
        folder.write("a", numbers(0..35));
        folder.job("paths = ['a']", 10);
        let disk = Arc::new(Failing { journal: folder.path("f-journal"), fails: AtomicBool::new(false) });
        let job = Job::read(folder.path("job.toml")).unwrap();
        let mut last = 0;
        let ended = Ingest::new(&job).options(Options::new().disk(disk.clone())).run(&mut |event| {
            if let Event::Commit { number, keys } = event {
                disk.fails.store(keys == fails_after, Ordering::Relaxed);
                last = number;
            }
            ControlFlow::Continue(())
        });
        let error = ended.unwrap_err();
        let message = error.to_string();
        let Error::InDoubt { number, committed, taken, .. } = error else { panic!("{error:?}") };
        assert_eq!((number, committed, taken), (last + 1, fails_after, fails_after + 10));
        for words in [
            "f-journal: cannot sync: the medium is gone",
            &format!("the first {committed} are committed for certain"),
            &format!("whether keys {} to {taken} are, commit {number}, is unknown", committed + 1),
            "run the job again",
        ] {
            assert_eq!(message.matches(words).count(), 1, "{words:?} in {message}");
        }
        // A child that another test has just started has this process's locks for a moment.
        let mut next = folder.run(&["ingest", "job.toml"], "");
        while next.err.contains("another run writes to it") {
            next = folder.run(&["ingest", "job.toml"], "");
        }
        next.done();
        assert_eq!(folder.text("new"), numbers(0..35));
        assert_eq!(folder.info("f")["entries"], 35);
        assert_eq!(folder.info("f")["copies"], 35);
    }
}

/// Leaves room for the journal and the head of the filter file, but not for its pages.
#[test]
fn keys_of_a_commit_that_is_durable_but_not_applied_are_said_to_be_committed() {
    let folder = Folder::new();
    folder.write("a", "");
    folder.job("paths = ['a']", 10);
    folder.ingest();
    folder.write("a", numbers(0..35));
    let line = "ulimit -f 180; exec \"$@\"";
    let ended = crate::run::run(&mut in_a_shell(&folder, line, &["ingest", "job.toml"]), b"");
    ended.refused(&["/f: cannot write: File too large", "/f is durable", "the first 10 are committed"]);
    folder.ingest();
    assert_eq!(folder.text("new"), numbers(0..35));
    assert_eq!(folder.info("f")["entries"], 35);
}
