//! A file that an update has sealed: a small value that a task can send to the process that commits.

use serde::{Deserialize, Serialize};

use super::files::{self, Name};
use super::version::{RunFile, ShardFile};

/// A new file of a shard, or a run, synced and under its name, that no version names yet.
///
/// It can be serialized, sent to another process, and committed there. A vacuum removes the file if it is never
/// committed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sealed {
    pub(super) store: [u8; 16],
    /// `None` for a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) shard: Option<u32>,
    pub(super) base: u64,
    pub(super) uuid: [u8; 16],
    pub(super) commit: u64,
    pub(super) bytes: u64,
    pub(super) entries: u64,
    pub(super) rate: f64,
    /// Whether it is a [fold](super::Store::fold_shard), which brings no change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) fold: bool,
}

impl Sealed {
    /// The shard that was rewritten; `None` for a run, which may have records of any shards.
    pub const fn shard(&self) -> Option<u32> {
        self.shard
    }

    /// The number of the version that it is based on.
    pub const fn base(&self) -> u64 {
        self.base
    }

    /// Bytes of the file.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Entries in the filter, or records in the run.
    pub const fn entries(&self) -> u64 {
        self.entries
    }

    pub(super) const fn name(&self) -> Name {
        Name { base: self.base, uuid: self.uuid }
    }

    /// The file of a shard in the version of this number. What is pending in its base was folded into it.
    pub(super) const fn shard_file(&self, since: u64) -> ShardFile {
        ShardFile {
            name: self.name(),
            commit: self.commit,
            bytes: self.bytes,
            entries: self.entries,
            expected_false_positive_rate: self.rate,
            since,
            folded: self.base,
        }
    }

    /// The run in the version of this number, with records of the commits that made these versions.
    pub(super) const fn run_file(&self, from: u64, to: u64, since: u64) -> RunFile {
        RunFile { name: self.name(), from, to, records: self.entries, bytes: self.bytes, since }
    }

    /// The file's name in the store.
    pub(super) fn file(&self) -> String {
        match self.shard {
            Some(shard) => files::shard(shard, &self.name()),
            None => files::run(&self.name()),
        }
    }
}
