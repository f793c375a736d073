//! A file that an update has sealed, described by a small value that a task can send to the committing process.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Store;
use super::error::Result;
use super::files::{self, Name};
use super::run::{Record, RecordKey, Run, RunWriter};
use super::text;
use super::version::{RunFile, ShardFile, Version};
use crate::system::new_uuid;
use crate::{Info, Kind};

/// A new file of a shard, or a run, synced and under its name. No version names it yet.
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
    /// Whether it is a [fold](super::Store::fold_shard), which changes no answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) fold: bool,
    /// Its epoch, in a forgetting store; 0 in others.
    #[serde(default, skip_serializing_if = "text::is_zero")]
    pub(super) epoch: u64,
}

impl Sealed {
    /// The shard that was rewritten; `None` for a run, which may have records of any shards.
    pub const fn shard(&self) -> Option<u32> {
        self.shard
    }

    /// The number of the version on which it is based.
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

    /// The file of a shard in the version of this number. Records pending in its base were folded into it.
    pub(super) const fn shard_file(&self, since: u64) -> ShardFile {
        ShardFile {
            name: self.name(),
            commit: self.commit,
            bytes: self.bytes,
            entries: self.entries,
            expected_false_positive_rate: self.rate,
            since,
            folded: self.base,
            epoch: self.epoch,
        }
    }

    /// The run in the version of this number, with records of the commits that made these versions.
    pub(super) const fn run_file(&self, from: u64, to: u64, since: u64) -> RunFile {
        let (name, epoch) = (self.name(), self.epoch);
        RunFile { name, from, to, records: self.entries, bytes: self.bytes, since, epoch }
    }

    /// The file's name in the store.
    pub(super) fn file(&self) -> String {
        match self.shard {
            Some(shard) => files::shard(shard, &self.name()),
            None => files::run(&self.name()),
        }
    }
}

impl Store {
    /// Moves a finished file to its place in the store, and describes it for a commit.
    pub(super) fn sealed(&self, shard: u32, name: Name, path: &Path, info: &Info) -> Result<Sealed> {
        self.storage.put_file(&files::shard(shard, &name), path)?;
        Ok(Sealed {
            store: self.description.uuid,
            shard: Some(shard),
            base: name.base,
            uuid: name.uuid,
            commit: info.commit,
            bytes: info.file_length,
            entries: info.entries,
            rate: info.expected_false_positive_rate,
            fold: false,
            epoch: self.description.epoch_of(info),
        })
    }

    /// Writes a run of these keys, which ascend, and puts it into its place; `None` if no record is left. In a forgetting
    /// store, leaves out keys that have expired in this epoch.
    pub(super) fn write_run(
        &self,
        (base, epoch): (u64, u64),
        scratch: Option<&Path>,
        at_most: u64,
        keys: impl IntoIterator<Item = Result<(RecordKey, i64)>>,
    ) -> Result<Option<Sealed>> {
        let name = Name { base, uuid: new_uuid(&self.root)? };
        let path = self.work_path(scratch, &name.run())?;
        let own = &self.description;
        let (uuids, disk, rights) = ((own.uuid, name.uuid), &self.options.disk, self.storage.rights());
        let writer = RunWriter::create(&path, disk, rights.as_ref(), uuids, (own.kind, epoch), at_most)?;
        let written = fill(writer, (own.kind, epoch), keys);
        if !matches!(written, Ok(Some(_))) {
            let _ = self.options.disk.remove(&path);
        }
        let Some((records, bytes)) = written? else { return Ok(None) };
        self.storage.put_file(&files::run(&name), &path)?;
        let store = self.description.uuid;
        let (uuid, entries) = (name.uuid, records);
        let (shard, commit, rate, fold) = (None, 0, 0.0, false);
        Ok(Some(Sealed { store, shard, base, uuid, commit, bytes, entries, rate, fold, epoch }))
    }

    /// Removes files that this process has sealed and that no version will ever name, for example after a conflict. A
    /// vacuum removes any that this call cannot remove.
    pub(super) fn discard<'a>(&self, sealed: impl IntoIterator<Item = &'a Sealed>) {
        for sealed in sealed {
            let _ = self.storage.delete(&sealed.file());
        }
    }

    /// Opens a sealed run, committed or not.
    pub(super) fn open_sealed(&self, base: &Version, sealed: &Sealed) -> Result<Run> {
        self.open_run(base, &sealed.run_file(base.number, base.number, base.number))
            .map_err(|error| self.given_up(base.number, error))
    }
}

/// Puts keys into a run, and seals it.
fn fill(
    mut writer: RunWriter<'_>,
    (kind, epoch): (Kind, u64),
    keys: impl IntoIterator<Item = Result<(RecordKey, i64)>>,
) -> Result<Option<(u64, u64)>> {
    for next in keys {
        let (key, value) = next?;
        match kind {
            // Two runs of a set with the same key have equal records.
            Kind::Set => writer.push(Record { key, value: value.min(1) })?,
            Kind::Counting => Record::all_of(key, value).try_for_each(|record| writer.push(record))?,
            Kind::Forgetting if value > epoch as i64 => writer.push(Record { key, value })?,
            Kind::Forgetting => {}
        }
    }
    Ok(writer.seal()?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{HashKind, Options};

    /// A record stores the number of epochs from its run's epoch to the key's expiry, so it cannot hold an expired key.
    #[test]
    fn a_run_of_a_forgetting_store_leaves_out_what_has_expired() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new().capacity(1000).forget_after(Duration::from_secs(3600));
        let store = Store::create(dir.path().join("s"), 1, &options).unwrap();
        let hasher = crate::cuckoo::KeyHasher::new(HashKind::Xxh3, 1);
        let key = |number: u64| RecordKey::of(hasher.hash(&number.to_le_bytes()).unwrap());
        let epoch = 1000;
        let mut keys: Vec<_> = (0..5).map(|number| (key(number), epoch + number as i64 - 2)).collect();
        keys.sort_unstable();
        let living: Vec<_> = keys.iter().filter(|(_, expiry)| *expiry > epoch).copied().collect();
        let run = store.write_run((1, epoch as u64), None, 5, keys.into_iter().map(Ok)).unwrap().unwrap();
        assert_eq!((run.entries(), living.len()), (2, 2));
        let opened = Run::open(&store.path().join(run.file()), &store.options.disk).unwrap();
        opened.verify().unwrap();
        let records = opened.all().map(|record| record.map(|record| (record.key, record.value)));
        assert_eq!(records.collect::<Result<Vec<_>>>().unwrap(), living);
    }
}
