//! A version: the whole of a store at one moment, as a file that is written once (`format-spec/STORE.md`, section 5).

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::commit::Token;
use super::files::Name;

mod text;

/// The file of a shard, as a version names it.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct ShardFile {
    pub(super) name: Name,
    /// The number of the filter's last commit.
    pub commit: u64,
    /// How many bytes the file has.
    pub bytes: u64,
    /// How many entries the filter has.
    pub entries: u64,
    /// The chance that a key of this shard that was never inserted is found.
    pub expected_false_positive_rate: f64,
    /// The number of the version in which the file came into the store.
    pub since: u64,
    /// The file includes the shard's records of all runs up to this version.
    pub folded: u64,
    /// The epoch of the filter, in a forgetting store; 0 in others.
    pub(super) epoch: u64,
}

/// A run, as a version names it: records of changed keys of any shards.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct RunFile {
    pub(super) name: Name,
    /// The lowest number of a version whose commit has a record in the run.
    pub from: u64,
    /// The highest such number.
    pub to: u64,
    /// How many records the run has.
    pub records: u64,
    /// How many bytes the file has.
    pub bytes: u64,
    /// The number of the version in which the file came into the store.
    pub since: u64,
    /// The epoch of a forgetting store when the run was written; 0 in others.
    pub(super) epoch: u64,
}

impl RunFile {
    /// The name of the file in the folder of runs.
    pub fn file_name(&self) -> String {
        self.name.run()
    }
}

impl ShardFile {
    /// The uuid of the filter.
    pub const fn uuid(&self) -> [u8; 16] {
        self.name.uuid
    }

    /// The name of the file in the folder of its shard.
    pub fn file_name(&self) -> String {
        self.name.filter()
    }
}

/// The last token of an application.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Done {
    /// The number of the token.
    pub number: u64,
    /// The number of the version that its commit made.
    pub version: u64,
    /// The number of the version on which its commit was based: the store before the commit.
    pub base: u64,
    /// The state that the application stored with it.
    pub state: String,
    /// The epoch of its update, in a forgetting store; 0 in others.
    pub(super) epoch: u64,
}

/// A version of a store: which file each shard has, and which tokens are in it.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Version {
    /// The version's number. Each version follows the one with the number below.
    pub number: u64,
    pub(super) id: [u8; 16],
    /// When the version was made, to a millisecond, by the clock of the process that made it.
    pub time: SystemTime,
    /// The kind of change that made it, in a word: `create`, `insert`, `vacuum`.
    pub operation: String,
    /// The number of the version on which the changes were made.
    pub base: u64,
    /// All versions from this number on exist, and so does the base of each token.
    pub first: u64,
    /// Updates based on versions below this number can no longer be committed.
    pub fence: u64,
    /// The epoch of a forgetting store; 0 in others.
    pub(super) epoch: u64,
    /// The epoch of a commit that an update repeats: the update judges by no later one.
    pub(super) until: Option<u64>,
    /// The last token of each application.
    pub tokens: BTreeMap<String, Done>,
    /// The file of each shard; a shard without an entry has no file.
    pub shards: BTreeMap<u32, ShardFile>,
    /// The runs, the oldest first.
    pub runs: Vec<RunFile>,
}

impl Version {
    /// The versions on which the applications' last tokens are based. They stay for as long as this version is the
    /// newest.
    pub(super) fn bases(&self) -> impl Iterator<Item = u64> {
        self.tokens.values().map(|done| done.base)
    }

    /// Whether the version of a lower number stays while this version is the newest.
    pub(super) fn keeps(&self, number: u64) -> bool {
        number >= self.first || self.bases().any(|base| base == number)
    }

    /// Whether this version has `token` or a later one of the same application.
    pub(super) fn has_reached(&self, token: &Token) -> bool {
        self.tokens.get(&token.application).is_some_and(|done| done.number >= token.number)
    }

    /// Entries in the files of all shards, and records in all runs: an upper bound of the entries. A record that was
    /// folded into a shard counts twice until its run is merged or dropped, and a record of a removal also counts.
    /// [`StoreInfo::entries`](super::StoreInfo::entries) is closer.
    pub fn entries(&self) -> u64 {
        let of_shards = self.shards.values().map(|shard| shard.entries);
        of_shards.chain(self.runs.iter().map(|run| run.records)).fold(0, u64::saturating_add)
    }

    /// How many bytes all files of shards and all runs have.
    pub fn bytes(&self) -> u64 {
        let of_shards = self.shards.values().map(|shard| shard.bytes);
        of_shards.chain(self.runs.iter().map(|run| run.bytes)).fold(0, u64::saturating_add)
    }

    /// A shard's file includes the records of runs up to this number; 0 without a file.
    pub(super) fn folded(&self, shard: u32) -> u64 {
        self.shards.get(&shard).map_or(0, |file| file.folded)
    }

    /// Whether it names a file that came into the store with version `other`.
    pub(super) fn has_file_of(&self, other: &Self) -> bool {
        let is_new = |since: u64| since == other.number;
        let has_shard = |(shard, file): (&u32, &ShardFile)| {
            is_new(file.since) && self.shards.get(shard).is_some_and(|own| own.name == file.name)
        };
        other.shards.iter().any(has_shard)
            || other.runs.iter().any(|run| is_new(run.since) && self.names_run(run.name))
    }

    /// Whether it keeps the records of an earlier version's run apart from later records: it names the run, or a merged
    /// run without records after that version.
    pub(super) fn keeps_apart(&self, run: &RunFile, before: u64) -> bool {
        self.runs.iter().any(|own| own.from <= run.from && run.to <= own.to && own.to <= before)
    }

    /// Whether it names this run.
    pub(super) fn names_run(&self, name: Name) -> bool {
        self.runs.iter().any(|run| run.name == name)
    }
}

/// The number of a store's first version. That version does not name the store: of several processes that create the
/// store at once, one writes the version, and another may write `store.toml`.
pub(super) const FIRST: u64 = 1;
/// The operation of the first version.
pub(super) const CREATE: &str = "create";

impl Version {
    /// The first version of every store, which is empty.
    pub(super) fn first(id: [u8; 16], epoch: u64) -> Self {
        Self {
            number: FIRST,
            id,
            time: SystemTime::now(),
            operation: CREATE.to_owned(),
            base: 0,
            first: FIRST,
            fence: 0,
            epoch,
            until: None,
            tokens: BTreeMap::new(),
            shards: BTreeMap::new(),
            runs: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
