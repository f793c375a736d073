//! Ingest jobs: files into a filter, each key exactly once, whatever kills the process.
//!
//! A [`Job`] is a TOML file that names a filter, inputs, and perhaps a file for the keys seen for the first
//! time. [`Ingest::run`] reads what is new in the inputs since the job last committed. Running it again after
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
//! 5. Before reading goes on in an input, what was read of it is compared with what is there now.
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
//! # The cursor
//!
//! It is the metadata entry `ingest/NAME` of the job called NAME, little-endian, without padding:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version, 1 |
//! | 1 | flags: 1 if all inputs were read to their end, 2 if there is an output, 4 if there is a current input |
//! | 40 | keys taken, new ones among them, and records skipped: empty, too long, without the field; five u64 |
//! | 24 | output (absent without its flag): hash of its path, length, hash of its last 4 KiB |
//! | 2 + N | current input (this and the next line absent without its flag): u16 length of its path, the path |
//! | 88 | u64 each: base, offset, content hash, lines, hash of the `[input]` options; its own five counts, and zero |
//! | 24 each | finished inputs, ascending: hash of the path; length, and in its top bit whether it ended within a record; fingerprint |
//!
//! Counts, lengths and offsets are below 2^60.
//!
//! Paths are those relative to the job file where that is possible. Hashes are XXH3-64. A *fingerprint* is the
//! hash of the length as u64, the first 64 KiB, and the last 64 KiB of what remains, of the file as it is on the
//! disk: enough to notice another file in its place in constant time, but not a change in its middle.
//!
//! What is hashed of the `[input]` options, so that reading goes on only by the same ones:
//!
//! | bytes | what |
//! |---|---|
//! | 1, 1 | `trim` and `skip_empty`, 0 or 1 |
//! | 8 | `max_key_length` |
//! | 1 | format: 0 lines or NUL, 1 CSV, 2 JSON Lines |
//! | rest, lines or NUL | 1: the byte that ends a record |
//! | rest, CSV | 1: `delimiter`; 1: whether there is a header; 1: 0 and 8, the column's number from 0, or 1 and its name |
//! | rest, JSON Lines | the field's name |
//!
//! The current input was read from the byte `base` of the file (not 0 where it has grown since it was finished)
//! up to `offset` bytes further, counted after decompression; its content hash covers all of these, and they
//! are read again and compared before reading goes on. In a compressed file `base` is where the data ended when
//! it was finished, hence where another member or frame begins.

mod content;
mod creation;
mod csv;
mod cursor;
mod decode;
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
mod read;
mod records;
mod rules;
mod run;
mod summary;

pub use error::{Error, InputProblem, JobProblem, OutputProblem};
pub use job::Job;
pub use plan::{Plan, PlannedInput, State};
pub use run::Ingest;
pub use summary::{Counts, Event, InputSummary, Progress, Summary};
