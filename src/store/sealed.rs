//! A shard that an update has changed and sealed: a small value that can travel from a task to whoever commits.

use serde::{Deserialize, Serialize};

use super::files::Name;

/// A new file of a shard, synced and under its name, that no version names yet.
///
/// It can be serialized, sent from the process that made it to another one, and committed there. If it never is, a
/// vacuum removes the file one day.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sealed {
    pub(super) store: [u8; 16],
    pub(super) shard: u32,
    pub(super) base: u64,
    pub(super) uuid: [u8; 16],
    pub(super) commit: u64,
    pub(super) bytes: u64,
    pub(super) entries: u64,
    pub(super) rate: f64,
}

impl Sealed {
    /// The shard.
    pub const fn shard(&self) -> u32 {
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

    /// Entries in the file.
    pub const fn entries(&self) -> u64 {
        self.entries
    }

    pub(super) const fn name(&self) -> Name {
        Name { base: self.base, uuid: self.uuid }
    }
}
