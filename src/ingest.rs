//! Ingest jobs: files into a filter, each key exactly once, whatever kills the process.
//!
//! A [`Job`] is a TOML file that names a filter, inputs, and perhaps files for the keys seen for the first
//! time, and for those that the filter had no room for. [`Ingest::run`] reads what is new in the inputs since the job last committed. Running it again after
//! it was stopped, killed, or the power failed, goes on as if nothing had happened.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # std::fs::write(dir.path().join("urls.txt"), "https://example.org/\nhttps://example.com/\n")?;
//! # let path = dir.path().join("nightly.toml");
//! # std::fs::write(&path, r#"
//! # [filter]
//! # path = "seen.gowk"
//! # [input]
//! # paths = ["*.txt"]
//! # [output]
//! # new_keys = "new.keys"
//! # "#)?;
//! use std::ops::ControlFlow;
//! use gowk::ingest::{Event, Ingest, Job};
//!
//! let job = Job::read(&path)?;
//! let summary = Ingest::new(&job).run(&mut |event| {
//!     if let Event::Commit { keys, .. } = event {
//!         println!("{keys} keys are safe");
//!     }
//!     ControlFlow::Continue(()) // Break commits and stops
//! })?;
//! assert_eq!(summary.run.new, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//!
//! 1. The job's *cursor* (what it has read, and the length of its output) is part of the filter's metadata and
//!    is committed in the same transaction as the keys read until then. So the keys in the filter are exactly
//!    those before the cursor.
//! 2. The output is written out and synced before the commit whose cursor gives its length, so it is never
//!    shorter than the cursor says; what is beyond that length is cut off before anything is written.
//! 3. Nothing is written to an output before a committed cursor claims it: a file that the job did not write is
//!    never cut.
//! 4. Keys are inserted in batches whose bounds depend on the inputs alone, and a commit falls between two
//!    batches. With `every_seconds = 0` commits too depend on the inputs alone. So a run that was killed and
//!    one that was not leave the same entries in the same places.
//! 5. A key without room does not end a run. It counts as new and as refused, and goes to both outputs. It is behind
//!    the cursor like any other key, so no later run tries it again: that is what the output of refused keys is for.
//!    By 4, a run that was killed refuses the same keys when it goes on.
//! 6. Before reading goes on in an input, what was read of it is compared with what is there now.
//!
//! # What a crash leaves
//!
//! | the process dies | the filter holds | the next run |
//! |---|---|---|
//! | before the first commit | nothing; there is none if it was new | begins |
//! | reading or inserting | the last commit | goes on from its cursor, and cuts the output to its length |
//! | writing or syncing the output | the last commit | the same |
//! | while the filter commits or doubles | the last commit or this one, whole | goes on from either, likewise |
//! | after the commit | this commit | goes on from its cursor |
//!
//! Where the job's filter is a [store](crate::store), a run makes one version at its end, and the cursor is the state of
//! the job's last transaction.
//!
//! The bytes of the cursor are specified in `format-spec/`, section 5.3.1.

mod content;
mod creation;
mod csv;
mod cursor;
mod decode;
mod destination;
mod engine;
mod error;
mod fingerprint;
mod inputs;
mod job;
mod jsonl;
mod lines;
mod output;
mod own;
mod plan;
mod pump;
mod read;
mod records;
mod rules;
mod run;
mod summary;

pub use destination::Destination;
pub use error::{Error, InputProblem, JobProblem, OutputProblem};
pub use job::Job;
pub use lines::{Found, Malformed, Skip};
pub use plan::{Plan, PlannedInput, State};
pub use pump::{Deed, Item, Piece, Pump, Work};
pub use records::{Input, Records};
pub use rules::{Column, Format, JOINT, Rules};
pub use run::Ingest;
pub use summary::{Event, InputSummary, Progress, Summary, Tally};
