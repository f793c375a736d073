//! The text of a version: its fields, and their allowed values.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::{Done, FIRST, RunFile, ShardFile, Version};
use crate::cuckoo::FIRST_EPOCH;
use crate::store::description::Description;
use crate::store::error::{Error, Result};
use crate::store::files::{MAX_VERSION, Name};
use crate::store::run;
use crate::store::text::{self, from_hex, hex};

/// The most bytes of an operation.
pub(super) const MAX_OPERATION: usize = 256;
/// The most bytes of an application's name.
const MAX_APPLICATION: usize = 1024;
/// The most bytes of the state that an application stores.
const MAX_STATE: usize = 1 << 20;
/// The most applications.
const MAX_TOKENS: usize = 65_536;
/// The most bytes of the names and states of all applications together.
pub(super) const MAX_STRINGS: usize = 1 << 24;
/// The most runs that a version names.
pub(super) const MAX_RUNS: usize = 4096;

/// The fields as read from the file, unchecked.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawVersion {
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<String>,
    number: u64,
    id: String,
    time: u64,
    operation: String,
    base: u64,
    first: u64,
    fence: u64,
    #[serde(default, skip_serializing_if = "text::is_zero")]
    epoch: u64,
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
    #[serde(default, skip_serializing_if = "text::is_zero")]
    epoch: u64,
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
    #[serde(default, skip_serializing_if = "text::is_zero")]
    epoch: u64,
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
    #[serde(default, skip_serializing_if = "text::is_zero")]
    epoch: u64,
}

impl Version {
    pub(in super::super) fn encode(&self, path: &Path, store: [u8; 16]) -> Result<String> {
        text::encode(path, &self.raw(store))
    }

    /// Fails if a reader would refuse it.
    pub(in super::super) fn check(&self, path: &Path, store: &Description) -> Result<()> {
        self.raw(store.uuid).check(path, self.number, store).map(drop)
    }

    /// The version of this number, from the bytes of its file.
    pub(in super::super) fn decode(
        path: &Path,
        bytes: &[u8],
        number: u64,
        store: &Description,
    ) -> Result<Self> {
        let tables = 1 + store.shards as usize + MAX_RUNS + MAX_TOKENS;
        let raw = text::decode::<RawVersion>(path, bytes, tables * text::TOKENS_OF_TABLE)?;
        raw.check(path, number, store)
    }

    fn raw(&self, store: [u8; 16]) -> RawVersion {
        let time = self.time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let tokens = self.tokens.iter().map(|(application, done)| RawToken {
            application: application.clone(),
            number: done.number,
            version: done.version,
            base: done.base,
            state: done.state.clone(),
            epoch: done.epoch,
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
            epoch: file.epoch,
        });
        let runs = self.runs.iter().map(|run| RawRun {
            file: run.name.run(),
            from: run.from,
            to: run.to,
            records: run.records,
            bytes: run.bytes,
            since: run.since,
            epoch: run.epoch,
        });
        RawVersion {
            store: (self.number != FIRST).then(|| hex(&store)),
            number: self.number,
            id: hex(&self.id),
            time: u64::try_from(time.as_millis()).unwrap_or(u64::MAX).min(MAX_VERSION),
            operation: self.operation.clone(),
            base: self.base,
            first: self.first,
            fence: self.fence,
            epoch: if self.number == FIRST { 0 } else { self.epoch },
            tokens: tokens.collect(),
            runs: runs.collect(),
            shards: shards.collect(),
        }
    }
}

/// Checks the fields of one file. Errors name the field and the file.
struct Checker<'a>(&'a Path);

impl Checker<'_> {
    fn refuse(&self, field: &'static str, found: impl ToString, expected: impl Into<String>) -> Error {
        let (found, expected) = (found.to_string(), expected.into());
        Error::Field { path: self.0.to_owned(), field, found, expected }
    }

    /// Fails if a string is too long.
    fn short(&self, field: &'static str, found: &str, longest: usize) -> Result<()> {
        if found.len() <= longest {
            return Ok(());
        }
        Err(self.refuse(field, format!("{} bytes long", found.len()), format!("at most {longest} bytes")))
    }

    /// Fails if a number is not between two others.
    fn within(&self, field: &'static str, found: u64, low: u64, high: u64) -> Result<()> {
        if (low..=high).contains(&found) {
            return Ok(());
        }
        Err(self.refuse(field, found, format!("{low} to {high}")))
    }

    /// Fails unless an epoch is 1 to `now`, the version's epoch. In a store that does not forget, both must be 0.
    fn epoch(&self, field: &'static str, found: u64, now: u64) -> Result<()> {
        self.within(field, found, now.min(FIRST_EPOCH), now)
    }

    /// The runs of the version of this number and epoch.
    fn runs(&self, all: Vec<RawRun>, number: u64, epoch: u64) -> Result<Vec<RunFile>> {
        if all.len() > MAX_RUNS {
            return Err(self.refuse("run", format!("{} of them", all.len()), format!("at most {MAX_RUNS}")));
        }
        let (mut runs, mut names, mut before) = (Vec::with_capacity(all.len()), BTreeSet::new(), FIRST);
        for RawRun { file, from, to, records, bytes, since, epoch: of } in all {
            self.epoch("run.epoch", of, epoch)?;
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
            runs.push(RunFile { name, from, to, records, bytes, since, epoch: of });
        }
        Ok(runs)
    }
}

impl RawVersion {
    fn check(self, path: &Path, number: u64, store: &Description) -> Result<Version> {
        let fields = Checker(path);
        let expected = (number != FIRST).then(|| hex(&store.uuid));
        if self.store != expected {
            let absent = || "absent".to_owned();
            let (found, expected) = (self.store.unwrap_or_else(absent), expected.unwrap_or_else(absent));
            return Err(fields.refuse("store", found, expected));
        }
        // A version with the highest number could not be continued.
        fields.within("number", number, FIRST, MAX_VERSION - 1)?;
        fields.within("number", self.number, number, number)?;
        fields.within("base", self.base, 0, number.saturating_sub(1))?;
        fields.within("first", self.first, 1, number)?;
        fields.within("fence", self.fence, 0, number)?;
        let last = store.forgetting().map_or(0, |forgetting| forgetting.last_epoch());
        // The first version does not say to which store it belongs.
        fields.epoch("epoch", self.epoch, if number == FIRST { 0 } else { last })?;
        let epoch = if number == FIRST { store.first_epoch() } else { self.epoch };
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
        for RawToken { application, number: of, version, base, state, epoch } in self.tokens {
            fields.epoch("token.epoch", epoch, self.epoch)?;
            fields.short("token.application", &application, MAX_APPLICATION)?;
            fields.short("token.state", &state, MAX_STATE)?;
            fields.within("token.number", of, 0, MAX_VERSION)?;
            fields.within("token.version", version, FIRST + 1, number)?;
            fields.within("token.base", base, FIRST, version - 1)?;
            let done = Done { number: of, version, base, state, epoch };
            if tokens.insert(application.clone(), done).is_some() {
                return Err(fields.refuse("token.application", application, "different in each token"));
            }
        }
        let runs = fields.runs(self.runs, number, self.epoch)?;
        let mut shards = BTreeMap::new();
        for RawShard { shard, file, commit, bytes, entries, rate, since, folded, epoch } in self.shards {
            fields.epoch("shard.epoch", epoch, self.epoch)?;
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
            let file = ShardFile {
                name,
                commit,
                bytes,
                entries,
                expected_false_positive_rate,
                since,
                folded,
                epoch,
            };
            if shards.insert(shard, file).is_some() {
                return Err(fields.refuse("shard.shard", shard, "different in each"));
            }
        }
        if number == FIRST && !(tokens.is_empty() && shards.is_empty() && runs.is_empty()) {
            return Err(fields.refuse("number", number, "above 1 for a version that is not empty"));
        }
        Ok(Version {
            epoch,
            until: None,
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
