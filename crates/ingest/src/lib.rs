//! Ingest jobs: files into a filter, each key exactly once, whatever kills the process.
//!
//! A [`Job`] is a TOML file that names a filter, inputs, and perhaps output files: one for the keys seen for the first
//! time, one for the keys that found no room in the filter, one for records without a key. [`Ingest::run`] reads what was added to the inputs since the
//! job's last commit. After a stop, a kill or a power failure, the next run continues as if nothing had happened.
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
//! use gowk_ingest::{Event, Ingest, Job};
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
//! The interface of this crate is not stable: it exists for gowk's tool and Python package.
//!
//! # Records of any format
//!
//! Jobs are made of parts that other programs can use, as the command-line tool does. [`Input`] recognizes how a stream
//! is compressed, and [`Records`] finds its records and their keys. [`Pump`] moves [`Piece`]s of them into a
//! [`Destination`], a filter or a store, and commits; [`Work`] writes the new keys.
//!
//! ```
//! use gowk_ingest::{Format, Found, Input, Rules, Unpack};
//!
//! let stream: &[u8] = b"id,url\n1,https://example.org/\n2,https://example.com/\n";
//! let input = Input::new("pages.csv", stream, Unpack::Usual, Default::default())?;
//! let mut records = input.records(&Rules::new(Format::csv("url", b',')))?;
//! let mut keys = Vec::new();
//! while let Some(found) = records.next()? {
//!     if let Found::Key { key, .. } = found {
//!         keys.push(key.to_vec());
//!     }
//! }
//! assert_eq!(keys, [b"https://example.org/", b"https://example.com/"]);
//! # Ok::<(), gowk_ingest::Error>(())
//! ```
//!
//! # Invariants
//!
//! 1. The job's *cursor* (how far it has read its inputs, and the length of its output) is part of the filter's
//!    metadata and is committed in the same transaction as the keys read until then. So the filter holds exactly the
//!    job's keys before the cursor.
//! 2. The output is written and synced before the commit whose cursor has its length. So it is never shorter than the
//!    cursor says; a run cuts off bytes beyond that length before it writes anything.
//! 3. Nothing is written to an output before a committed cursor claims it, so a file that the job did not write is never
//!    cut.
//! 4. Keys are inserted in batches whose bounds depend only on the inputs, and commits fall between batches. With
//!    `every_seconds = 0` the commits also depend only on the inputs. So a run that was killed and continued leaves the
//!    same entries in the same places as one that was not killed.
//! 5. A key without room does not end a run. It counts as new and as refused, and goes to both outputs. The cursor passes
//!    it like any other key, so no later run tries it again: it remains in the output of refused keys. By 4, a run that
//!    was killed and continued refuses the same keys.
//! 6. Before a run continues an input, it checks that the part read before has not changed.
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
//! If the job's filter is a [store](gowk::store), a run makes one version at its end, and the cursor is the state of the
//! job's last token.
//!
//! `cursor.rs` specifies the bytes of the cursor.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod claim;
mod content;
mod creation;
mod csv;
mod cursor;
mod decode;
mod destination;
mod engine;
mod error;
mod held;
mod inputs;
mod job;
mod jsonl;
pub mod keys;
mod lines;
mod output;
mod ownership;
#[cfg(feature = "parquet")]
mod parquet;
mod plan;
mod pump;
mod read;
mod records;
mod rules;
mod run;
mod signature;
mod summary;
mod time;

pub use claim::{Claim, Owner};
pub use csv::CommonHeader;
pub use decode::Unpack;
pub use destination::Destination;
pub use error::{Error, InputProblem, JobProblem, OutputProblem};
pub use job::Job;
pub use lines::{Found, Malformed, Skip};
pub use ownership::of_any_filter;
pub use plan::{Plan, PlannedInput, State};
pub use pump::{Deed, Item, Piece, Pump, Work};
pub use records::{Input, Records};
pub use rules::{Column, Format, JOINT, Rules, TimeField};
pub use run::Ingest;
pub use summary::{Event, InputSummary, Progress, Summary, Tally};
pub use time::{KeyTime, TimeKind};
