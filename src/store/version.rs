//! A version: the whole of a store at one moment, as a file that is written once (`format-spec/STORE.md`, section 5).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::description::Description;
use super::error::{Error, Result};
use super::files::{MAX_VERSION, Name};
use super::run;
use super::text::{self, from_hex, hex};

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
}

impl RunFile {
    /// The name of the file in the folder of runs.
    pub fn file_name(&self) -> String {
        self.name.run()
    }

    /// Whether some of it, and not all, is of commits up to this version.
    pub(super) const fn straddles(&self, number: u64) -> bool {
        self.from <= number && number < self.to
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
}

/// A version of a store: which file each shard has, and which tokens are in it.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Version {
    /// Its number. Each version follows the one with the number below.
    pub number: u64,
    pub(super) id: [u8; 16],
    /// When it was made, by the clock of whoever made it; to a millisecond.
    pub time: SystemTime,
    /// What made it, in a word: `create`, `insert`, `vacuum`.
    pub operation: String,
    /// The number of the version that the changes were made on.
    pub base: u64,
    /// All versions from this number on are there, and the base of each token.
    pub first: u64,
    /// Updates that are based on versions below this cannot be committed any more.
    pub fence: u64,
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

    /// Whether a version of a lower number is there while this is the newest.
    pub(super) fn keeps(&self, number: u64) -> bool {
        number >= self.first || self.bases().any(|base| base == number)
    }

    /// Entries in the files of all shards, and records in all runs. A record that was folded into a shard counts twice
    /// until its run is merged or named no more.
    pub fn entries(&self) -> u64 {
        let of_shards = self.shards.values().map(|shard| shard.entries);
        of_shards.chain(self.runs.iter().map(|run| run.records)).fold(0, u64::saturating_add)
    }

    /// Bytes of all files of shards and of all runs.
    pub fn bytes(&self) -> u64 {
        let of_shards = self.shards.values().map(|shard| shard.bytes);
        of_shards.chain(self.runs.iter().map(|run| run.bytes)).fold(0, u64::saturating_add)
    }

    /// The number up to which a shard's file has what runs hold; 0 without a file.
    pub(super) fn folded(&self, shard: u32) -> u64 {
        self.shards.get(&shard).map_or(0, |file| file.folded)
    }

    /// Whether it names this run.
    pub(super) fn names_run(&self, name: Name) -> bool {
        self.runs.iter().any(|run| run.name == name)
    }
}

/// The fields as they are in the file, none of them checked.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<String>,
    number: u64,
    id: String,
    time: u64,
    operation: String,
    base: u64,
    first: u64,
    fence: u64,
    #[serde(default, rename = "token", skip_serializing_if = "Vec::is_empty")]
    tokens: Vec<RawToken>,
    #[serde(default, rename = "run", skip_serializing_if = "Vec::is_empty")]
    runs: Vec<RawRun>,
    #[serde(default, rename = "shard", skip_serializing_if = "Vec::is_empty")]
    shards: Vec<RawShard>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRun {
    file: String,
    from: u64,
    to: u64,
    records: u64,
    bytes: u64,
    since: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawToken {
    application: String,
    number: u64,
    version: u64,
    base: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    state: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawShard {
    shard: u32,
    file: String,
    commit: u64,
    bytes: u64,
    entries: u64,
    rate: f64,
    since: u64,
    folded: u64,
}

/// The number of the version that a store begins with. It is the same for whoever creates the store, and so it does
/// not name it.
pub(super) const FIRST: u64 = 1;
/// Bytes of an operation, of the name of an application, and of the state that it keeps.
const MAX_OPERATION: usize = 256;
const MAX_APPLICATION: usize = 1024;
const MAX_STATE: usize = 1 << 20;
/// Applications, and bytes of their names and states together.
const MAX_TOKENS: usize = 65_536;
const MAX_STRINGS: usize = 1 << 24;
/// Runs that a version names at most.
pub(super) const MAX_RUNS: usize = 4096;
/// The operation of that version.
pub(super) const CREATE: &str = "create";

impl Version {
    /// The version that every store begins with, without anything.
    pub(super) fn first(id: [u8; 16]) -> Self {
        Self {
            number: FIRST,
            id,
            time: SystemTime::now(),
            operation: CREATE.to_owned(),
            base: 0,
            first: FIRST,
            fence: 0,
            tokens: BTreeMap::new(),
            shards: BTreeMap::new(),
            runs: Vec::new(),
        }
    }

    pub(super) fn encode(&self, path: &Path, store: [u8; 16]) -> Result<String> {
        text::encode(path, &self.raw(store))
    }

    /// That a reader would take it.
    pub(super) fn check(&self, path: &Path, store: &Description) -> Result<()> {
        self.raw(store.uuid).check(path, self.number, store).map(drop)
    }

    fn raw(&self, store: [u8; 16]) -> Raw {
        let time = self.time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let tokens = self.tokens.iter().map(|(application, done)| RawToken {
            application: application.clone(),
            number: done.number,
            version: done.version,
            base: done.base,
            state: done.state.clone(),
        });
        let shards = self.shards.iter().map(|(shard, file)| RawShard {
            shard: *shard,
            file: file.name.filter(),
            commit: file.commit,
            bytes: file.bytes,
            entries: file.entries,
            rate: file.expected_false_positive_rate,
            since: file.since,
            folded: file.folded,
        });
        let runs = self.runs.iter().map(|run| RawRun {
            file: run.name.run(),
            from: run.from,
            to: run.to,
            records: run.records,
            bytes: run.bytes,
            since: run.since,
        });
        Raw {
            store: (self.number != FIRST).then(|| hex(&store)),
            number: self.number,
            id: hex(&self.id),
            time: u64::try_from(time.as_millis()).unwrap_or(u64::MAX).min(MAX_VERSION),
            operation: self.operation.clone(),
            base: self.base,
            first: self.first,
            fence: self.fence,
            tokens: tokens.collect(),
            runs: runs.collect(),
            shards: shards.collect(),
        }
    }

    /// The version of this number that the bytes of a file hold.
    pub(super) fn decode(path: &Path, bytes: &[u8], number: u64, store: &Description) -> Result<Self> {
        let raw = text::decode::<Raw>(path, bytes)?;
        raw.check(path, number, store)
    }
}

/// Refuses fields, by name, for one file.
struct Checker<'a>(&'a Path);

impl Checker<'_> {
    fn refuse(&self, field: &'static str, found: impl ToString, expected: impl Into<String>) -> Error {
        let (found, expected) = (found.to_string(), expected.into());
        Error::Field { path: self.0.to_owned(), field, found, expected }
    }

    /// That a string is not too long.
    fn short(&self, field: &'static str, found: &str, longest: usize) -> Result<()> {
        if found.len() <= longest {
            return Ok(());
        }
        Err(self.refuse(field, format!("{} bytes long", found.len()), format!("at most {longest} bytes")))
    }

    /// That a number lies between two others.
    fn within(&self, field: &'static str, found: u64, low: u64, high: u64) -> Result<()> {
        if (low..=high).contains(&found) {
            return Ok(());
        }
        Err(self.refuse(field, found, format!("{low} to {high}")))
    }

    /// The runs of the version of this number.
    fn runs(&self, all: Vec<RawRun>, number: u64) -> Result<Vec<RunFile>> {
        if all.len() > MAX_RUNS {
            return Err(self.refuse("run", format!("{} of them", all.len()), format!("at most {MAX_RUNS}")));
        }
        let (mut runs, mut names, mut before) = (Vec::with_capacity(all.len()), BTreeSet::new(), FIRST);
        for RawRun { file, from, to, records, bytes, since } in all {
            self.within("run.since", since, FIRST + 1, number)?;
            self.within("run.to", to, FIRST + 1, since)?;
            self.within("run.from", from, before + 1, to)?;
            self.within("run.records", records, 1, run::MAX_RECORDS)?;
            self.within("run.bytes", bytes, 1, MAX_VERSION)?;
            let name =
                Name::of_run(&file).ok_or_else(|| self.refuse("run.file", &file, "a name of a run"))?;
            if name.base >= since {
                return Err(self.refuse("run.file", &file, format!("of a version below {since}")));
            }
            if !names.insert(name) {
                return Err(self.refuse("run.file", &file, "different in each"));
            }
            before = to;
            runs.push(RunFile { name, from, to, records, bytes, since });
        }
        Ok(runs)
    }
}

impl Raw {
    fn check(self, path: &Path, number: u64, store: &Description) -> Result<Version> {
        let fields = Checker(path);
        let expected = (number != FIRST).then(|| hex(&store.uuid));
        if self.store != expected {
            let absent = || "absent".to_owned();
            let (found, expected) = (self.store.unwrap_or_else(absent), expected.unwrap_or_else(absent));
            return Err(fields.refuse("store", found, expected));
        }
        fields.within("number", self.number, number, number)?;
        fields.within("base", self.base, 0, number.saturating_sub(1))?;
        fields.within("first", self.first, 1, number)?;
        fields.within("fence", self.fence, 0, number)?;
        let digits = "32 hexadecimal digits in lower case";
        let id = from_hex(&self.id).ok_or_else(|| fields.refuse("id", &self.id, digits))?;
        let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(self.time));
        let time = time.ok_or_else(|| fields.refuse("time", self.time, "a time that this system knows"))?;
        fields.short("operation", &self.operation, MAX_OPERATION)?;
        if self.tokens.len() > MAX_TOKENS {
            let found = format!("{} of them", self.tokens.len());
            return Err(fields.refuse("token", found, format!("at most {MAX_TOKENS}")));
        }
        let strings: usize =
            self.tokens.iter().map(|token| token.application.len() + token.state.len()).sum();
        if strings > MAX_STRINGS {
            let found = format!("{strings} bytes in all, with the names of applications");
            return Err(fields.refuse("token.state", found, format!("at most {MAX_STRINGS} bytes")));
        }
        let mut tokens = BTreeMap::new();
        for RawToken { application, number: of, version, base, state } in self.tokens {
            fields.short("token.application", &application, MAX_APPLICATION)?;
            fields.short("token.state", &state, MAX_STATE)?;
            fields.within("token.number", of, 0, MAX_VERSION)?;
            fields.within("token.version", version, FIRST + 1, number)?;
            fields.within("token.base", base, FIRST, version - 1)?;
            let done = Done { number: of, version, base, state };
            if tokens.insert(application.clone(), done).is_some() {
                return Err(fields.refuse("token.application", application, "different in each token"));
            }
        }
        let runs = fields.runs(self.runs, number)?;
        let mut shards = BTreeMap::new();
        for RawShard { shard, file, commit, bytes, entries, rate, since, folded } in self.shards {
            fields.within("shard.shard", shard.into(), 0, u64::from(store.shards) - 1)?;
            fields.within("shard.since", since, FIRST + 1, number)?;
            fields.within("shard.folded", folded, FIRST, since - 1)?;
            for (field, value) in
                [("shard.commit", commit), ("shard.bytes", bytes), ("shard.entries", entries)]
            {
                fields.within(field, value, 0, MAX_VERSION)?;
            }
            let name = Name::of_filter(&file)
                .ok_or_else(|| fields.refuse("shard.file", &file, "a name of a filter"))?;
            if name.base >= since {
                return Err(fields.refuse("shard.file", &file, format!("of a version below {since}")));
            }
            if !(0.0..=1.0).contains(&rate) {
                return Err(fields.refuse("shard.rate", rate, "0 to 1"));
            }
            let expected_false_positive_rate = rate;
            let file =
                ShardFile { name, commit, bytes, entries, expected_false_positive_rate, since, folded };
            if shards.insert(shard, file).is_some() {
                return Err(fields.refuse("shard.shard", shard, "different in each"));
            }
        }
        if number == FIRST && !(tokens.is_empty() && shards.is_empty() && runs.is_empty()) {
            return Err(fields.refuse("number", number, "above 1 for a version that is not empty"));
        }
        Ok(Version {
            number,
            id,
            time,
            operation: self.operation,
            base: self.base,
            first: self.first,
            fence: self.fence,
            tokens,
            shards,
            runs,
        })
    }
}

#[cfg(test)]
mod tests;
