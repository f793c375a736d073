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
    /// Bytes of the file.
    pub bytes: u64,
    /// Entries in the filter.
    pub entries: u64,
    /// The chance that a key of this shard is found that was never inserted.
    pub expected_false_positive_rate: f64,
    /// The number of the version in which the file came into the store.
    pub since: u64,
    /// The file has what all runs up to this version hold for the shard.
    pub folded: u64,
    /// The epoch of the filter, in a forgetting store; 0 in others.
    pub(super) epoch: u64,
}

/// A run, as a version names it: records of keys of any shards that commits have changed.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct RunFile {
    pub(super) name: Name,
    /// The lowest number of a version whose commit brought a record of it.
    pub from: u64,
    /// The highest such number.
    pub to: u64,
    /// Records in it.
    pub records: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// The number of the version in which the file came into the store.
    pub since: u64,
    /// The epoch of a forgetting store when it was written; 0 in others.
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
    /// The number of the version that its commit was based on: the store before it.
    pub base: u64,
    /// What the application keeps with it.
    pub state: String,
    /// The epoch of its update, in a forgetting store; 0 in others.
    pub(super) epoch: u64,
}

/// A version of a store: which file each shard has, and which tokens are in it.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Version {
    /// Its number. Each version follows the one with the number below.
    pub number: u64,
    pub(super) id: [u8; 16],
    /// When it was made, to a millisecond, by the clock of the process that made it.
    pub time: SystemTime,
    /// What made it, in a word: `create`, `insert`, `vacuum`.
    pub operation: String,
    /// The number of the version that the changes were made on.
    pub base: u64,
    /// All versions from this number on are there, and the base of each token.
    pub first: u64,
    /// Updates that are based on versions below this cannot be committed any more.
    pub fence: u64,
    /// The epoch of a forgetting store; 0 in others.
    pub(super) epoch: u64,
    /// An update that repeats a commit judges at most by this epoch, the epoch of that commit.
    pub(super) until: Option<u64>,
    /// The last token of each application.
    pub tokens: BTreeMap<String, Done>,
    /// The file of each shard; a shard that is not here has none.
    pub shards: BTreeMap<u32, ShardFile>,
    /// The runs, the oldest first.
    pub runs: Vec<RunFile>,
}

impl Version {
    /// The versions that the last token of each application is based on. They stay for as long as this is the newest.
    pub(super) fn bases(&self) -> impl Iterator<Item = u64> {
        self.tokens.values().map(|done| done.base)
    }

    /// Whether a version of a lower number stays while this is the newest.
    pub(super) fn keeps(&self, number: u64) -> bool {
        number >= self.first || self.bases().any(|base| base == number)
    }

    /// Whether the last token of the same application in this version is `token` or a later one.
    pub(super) fn has_reached(&self, token: &Token) -> bool {
        self.tokens.get(&token.application).is_some_and(|done| done.number >= token.number)
    }

    /// Entries in the files of all shards, and records in all runs: an upper bound of the entries. A record that was
    /// folded into a shard counts twice until its run is merged or dropped, and a record of a removal counts too.
    /// [`StoreInfo::entries`](super::StoreInfo::entries) is nearer.
    pub fn entries(&self) -> u64 {
        let of_shards = self.shards.values().map(|shard| shard.entries);
        of_shards.chain(self.runs.iter().map(|run| run.records)).fold(0, u64::saturating_add)
    }

    /// Bytes of all files of shards and of all runs.
    pub fn bytes(&self) -> u64 {
        let of_shards = self.shards.values().map(|shard| shard.bytes);
        of_shards.chain(self.runs.iter().map(|run| run.bytes)).fold(0, u64::saturating_add)
    }

    /// A shard's file has the records of runs up to this number; 0 without a file.
    pub(super) fn folded(&self, shard: u32) -> u64 {
        self.shards.get(&shard).map_or(0, |file| file.folded)
    }

    /// Whether it names a file that came into the store with another version.
    pub(super) fn has_file_of(&self, other: &Self) -> bool {
        let is_new = |since: u64| since == other.number;
        let has_shard = |(shard, file): (&u32, &ShardFile)| {
            is_new(file.since) && self.shards.get(shard).is_some_and(|own| own.name == file.name)
        };
        other.shards.iter().any(has_shard)
            || other.runs.iter().any(|run| is_new(run.since) && self.names_run(run.name))
    }

    /// Whether it keeps the records of an earlier version's run apart from later records: it names the run, or a merged run
    /// without records after that version.
    pub(super) fn keeps_apart(&self, run: &RunFile, before: u64) -> bool {
        self.runs.iter().any(|own| own.from <= run.from && run.to <= own.to && own.to <= before)
    }

    /// Whether it names this run.
    pub(super) fn names_run(&self, name: Name) -> bool {
        self.runs.iter().any(|run| run.name == name)
    }
}

/// The number of the version that a store begins with. It does not name the store: of several processes that create
/// the store at once, one writes the version, and another may write `store.toml`.
pub(super) const FIRST: u64 = 1;
/// The operation of that version.
pub(super) const CREATE: &str = "create";

impl Version {
    /// The version that every store begins with, without anything.
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
