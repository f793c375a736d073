//! The events, the progress and the summary of a job.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::lines::Skip;
use gowk::store::Requests;
use gowk::{Error, Info};

/// Counts of records, by outcome. In JSON, the names of counts of records without a key begin with `skipped_`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct Tally {
    /// Keys taken.
    pub keys: u64,
    /// Keys that were not seen before.
    pub new: u64,
    /// New keys that found no room in the filter. They are in the outputs, and not in the filter.
    pub refused: u64,
    /// Records skipped because their key is empty.
    #[serde(rename = "skipped_empty")]
    pub empty: u64,
    /// Records skipped because their key is too long.
    #[serde(rename = "skipped_too_long")]
    pub too_long: u64,
    /// Records that lack the field, or whose field does not hold a single value. They are skipped, unless the job keeps
    /// them.
    #[serde(rename = "skipped_no_field")]
    pub no_field: u64,
    /// Records skipped because they are malformed. Only a job with an output of rejects skips them.
    #[serde(rename = "skipped_malformed")]
    pub malformed: u64,
    /// Records that have a key, but no valid time or lifetime. Like records without the field, they are skipped, unless the
    /// job keeps them.
    #[serde(rename = "skipped_no_time")]
    pub no_time: u64,
    /// Keys that were seen so long ago that the filter has forgotten that time. They are neither in the outputs nor in the
    /// filter.
    pub late: u64,
    /// Keys that were seen more than five minutes in the future, by the clock. They are neither in the outputs nor in the
    /// filter.
    pub early: u64,
}

impl Tally {
    /// Keys that were seen before.
    pub const fn seen(&self) -> u64 {
        self.keys - self.new - self.late - self.early
    }

    /// Records without a key, for any reason.
    pub const fn skipped(&self) -> u64 {
        self.empty + self.too_long + self.no_field + self.malformed + self.no_time
    }

    /// All records read.
    pub const fn read(&self) -> u64 {
        self.keys + self.skipped()
    }

    /// Counts a record without a key.
    pub const fn skip(&mut self, skip: &Skip) {
        match skip {
            Skip::Blank | Skip::Empty => self.empty += 1,
            Skip::TooLong => self.too_long += 1,
            Skip::NoField => self.no_field += 1,
            Skip::Malformed(_) => self.malformed += 1,
            Skip::NoTime => self.no_time += 1,
        }
    }

    /// Adds the counts of further records.
    pub fn add(&mut self, more: &Self) {
        self.keys += more.keys;
        self.new += more.new;
        self.refused += more.refused;
        self.empty += more.empty;
        self.too_long += more.too_long;
        self.no_field += more.no_field;
        self.malformed += more.malformed;
        self.no_time += more.no_time;
        self.late += more.late;
        self.early += more.early;
    }
}

/// An event of a running job.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The run took keys, or waited a fifth of a second for them.
    Progress(Progress<'a>),
    /// All keys until now are durable and visible.
    Commit {
        /// The number of the commit.
        number: u64,
        /// Keys that this run has taken from the inputs.
        keys: u64,
    },
    /// An input is not read to the end. The run continues with the next one, and ends with [`crate::Error::Inputs`].
    Failed {
        /// The reason.
        error: &'a crate::Error,
    },
    /// The filter has no room for a key. The run continues with the next key; no run tries this key again.
    Refused {
        /// The input.
        input: &'a Path,
        /// The key's number in the input, counted from 1. If the input has grown, only the added keys are counted.
        number: u64,
        /// The key.
        key: &'a [u8],
        /// Why there is no room.
        cause: &'a Error,
    },
}

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// The input being read; `None` before the first.
    pub input: Option<&'a Path>,
    /// How many bytes of the inputs, as on the disk, this run has read.
    pub bytes: u64,
    /// How many bytes the run must read, by the lengths of the inputs at its start.
    pub of_bytes: u64,
    /// The records found by this run.
    pub tally: Tally,
}

/// An input that a run has read from.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct InputSummary {
    /// The input.
    pub path: PathBuf,
    /// The records found in the input, also by earlier runs that stopped within it.
    pub tally: Tally,
    /// Whether the input was read to the end.
    pub finished: bool,
    /// How many bytes a last record without an end has. It is left for a later run.
    pub unfinished: u64,
    /// Whether the input was replaced or cut, so that this run read it from the start.
    pub restarted: bool,
}

/// The result of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Summary {
    /// The inputs that the run has read from.
    pub inputs: Vec<InputSummary>,
    /// How many inputs earlier runs had read to the end, and have not grown since.
    pub finished_before: u64,
    /// The records that this run has found.
    pub run: Tally,
    /// The records that all runs of the job have found.
    pub total: Tally,
    /// Whether all inputs are read to the end; false if the run was stopped.
    pub finished: bool,
    /// How long the run took.
    pub duration: Duration,
    /// How long all commits of the run took together.
    pub committing: Duration,
    /// The filter after the run.
    pub filter: Info,
    /// How many bytes a key was allowed to have.
    pub max_key_length: usize,
    /// How many requests the run has made to the server of a store in a bucket; `None` for others.
    pub requests: Option<Requests>,
}
