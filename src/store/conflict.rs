//! Whether other commits have changed what one judged (`format-spec/STORE.md`, section 7.2).

use std::path::Path;

use super::Store;
use super::commit::Change;
use super::error::{Error, Result};
use super::files::{self, Name};
use super::reader::StoreReader;
use super::run::{Merged, Record, RecordKey, Run, RunWriter};
use super::sealed::Sealed;
use super::version::Version;
use crate::system::new_uuid;
use crate::{Kind, OnDamage};

/// Runs that are open at the same time, at most, while several become one: a process may have 1024 files open.
const OPEN_RUNS: usize = 256;

impl Store {
    /// The same store, in which damage is an error. If damage were answered by "present", keys would not be stored.
    pub(super) fn strict(&self) -> Self {
        Self { options: self.options.clone().on_damage(OnDamage::Error), ..self.clone() }
    }

    /// Fails if the newest version judges a key that was changed otherwise than the base does.
    pub(super) fn check_judged(&self, change: &Change, newest: &Version) -> Result<()> {
        let Some(base) = self.load(change.base)? else {
            return Err(self.given_up(change.base, self.no_such_version(change.base)?));
        };
        let strict = self.strict();
        let (before, now) = (strict.read_version(base), strict.read_version(newest.clone()));
        for shard in change.sealed.iter().filter_map(Sealed::shard) {
            self.check_rewritten(shard, &before, &now)?;
        }
        change.runs().try_for_each(|sealed| self.check_run(sealed, &before, &now))
    }

    /// Fails if a commit since the base has changed a shard that this one has rewritten.
    fn check_rewritten(&self, shard: u32, before: &StoreReader, now: &StoreReader) -> Result<()> {
        let (base, newest) = (before.version(), now.version());
        for (place, file) in newest.runs.iter().enumerate() {
            if file.to <= base.number || base.names_run(file.name) {
                continue;
            }
            let Some(run) = now.run(place)? else { continue };
            if !run.slice(shard, self.description.shards)?.is_empty() {
                let (path, base, version) = (self.root.clone(), base.number, file.to);
                return Err(Error::Conflict { path, shard, keys: 0, base, version });
            }
        }
        Ok(())
    }

    /// Fails if a key of a run has another number of copies than in the base.
    fn check_run(&self, sealed: &Sealed, before: &StoreReader, now: &StoreReader) -> Result<()> {
        let (base, newest) = (before.version(), now.version());
        let run = self.open_sealed(base, sealed)?;
        let again = Again { before, now };
        let (mut keys, mut first) = (0, None);
        for next in Merged::new([run.all()]) {
            let (key, _) = next?;
            let shard = self.description.shard_of(key.hash());
            if again.copies(key, shard)?.is_some() {
                keys += 1;
                first.get_or_insert(shard);
            }
        }
        match first {
            None => Ok(()),
            Some(shard) => {
                let (path, base, version) = (self.root.clone(), base.number, newest.number);
                Err(Error::Conflict { path, shard, keys, base, version })
            }
        }
    }

    /// Opens a run that was sealed and may not be committed yet.
    fn open_sealed(&self, base: &Version, sealed: &Sealed) -> Result<Run> {
        self.open_run(base, &sealed.run_file(base.number, base.number, base.number))
            .map_err(|error| self.given_up(base.number, error))
    }

    /// The change with one run in place of its several.
    pub(super) fn with_one_run(&self, change: &Change) -> Result<Change> {
        let base = Version { number: change.base, ..Version::first([0; 16]) };
        let mut sealed: Vec<Sealed> = change.runs().cloned().collect();
        while sealed.len() > 1 {
            let mut fewer = Vec::new();
            for part in sealed.chunks(OPEN_RUNS) {
                fewer.extend(self.one_run_of(&base, part)?);
            }
            sealed = fewer;
        }
        let shards = change.sealed.iter().filter(|sealed| sealed.shard.is_some()).cloned();
        Ok(Change { sealed: shards.chain(sealed).collect(), ..change.clone() })
    }

    /// One run with the records of several; `None` if nothing is left of them.
    fn one_run_of(&self, base: &Version, sealed: &[Sealed]) -> Result<Option<Sealed>> {
        if let [one] = sealed {
            return Ok(Some(one.clone()));
        }
        let runs = sealed.iter().map(|sealed| self.open_sealed(base, sealed)).collect::<Result<Vec<_>>>()?;
        let at_most = runs.iter().map(Run::records).sum();
        let merged = Merged::new(runs.iter().map(Run::all));
        self.write_run(base.number, None, at_most, merged)
    }

    /// Writes a run of these keys, which ascend, and puts it into its place; `None` if nothing comes or goes.
    pub(super) fn write_run(
        &self,
        base: u64,
        scratch: Option<&Path>,
        at_most: u64,
        keys: impl IntoIterator<Item = Result<(RecordKey, i64)>>,
    ) -> Result<Option<Sealed>> {
        let name = Name { base, uuid: new_uuid(&self.root)? };
        let path = match scratch {
            Some(folder) => folder.join(name.run()),
            None => self.path_of(&files::incoming(&name.run())),
        };
        let own = &self.description;
        let uuids = (own.uuid, name.uuid);
        let writer = RunWriter::create(&path, &self.options.disk, uuids, own.kind, at_most)?;
        let written = fill(writer, own.kind, keys);
        if !matches!(written, Ok(Some(_))) {
            let _ = self.options.disk.remove(&path);
        }
        let Some((records, bytes)) = written? else { return Ok(None) };
        self.storage.put_file(&files::run(&name), &path)?;
        let store = self.description.uuid;
        let (uuid, entries) = (name.uuid, records);
        let (shard, commit, rate, fold) = (None, 0, 0.0, false);
        Ok(Some(Sealed { store, shard, base, uuid, commit, bytes, entries, rate, fold }))
    }
}

/// Puts keys into a run, and seals it.
fn fill(
    mut writer: RunWriter<'_>,
    kind: Kind,
    keys: impl IntoIterator<Item = Result<(RecordKey, i64)>>,
) -> Result<Option<(u64, u64)>> {
    for next in keys {
        let (key, copies) = next?;
        // Records of two runs that hold one key of a set say the same.
        let copies = if kind == Kind::Set { copies.min(1) } else { copies };
        Record::all_of(key, copies).try_for_each(|record| writer.push(record))?;
    }
    Ok(writer.seal()?)
}

/// A version that has judged keys, and a later one.
pub(super) struct Again<'a> {
    pub(super) before: &'a StoreReader,
    pub(super) now: &'a StoreReader,
}

impl Again<'_> {
    /// The copies of a key in both versions, if these differ. In a set, the key was absent before.
    pub(super) fn copies(&self, key: RecordKey, shard: u32) -> Result<Option<(u32, u32)>> {
        let Self { before, now } = *self;
        let name = |version: &Version| version.shards.get(&shard).map(|file| file.name);
        if name(before.version()) == name(now.version()) && !self.is_in_new_runs(key, shard)? {
            return Ok(None);
        }
        let hash = key.hash();
        let found_before = match now.store().description().kind {
            Kind::Set => 0,
            Kind::Counting => before.count_in(shard, hash)?,
        };
        let found_now = now.count_in(shard, hash)?;
        Ok((found_before != found_now).then_some((found_before, found_now)))
    }

    /// Whether a run that only the later version names has the key, and is pending for its shard.
    fn is_in_new_runs(&self, key: RecordKey, shard: u32) -> Result<bool> {
        let (base, newest) = (self.before.version(), self.now.version());
        let folded = newest.folded(shard);
        for (place, file) in newest.runs.iter().enumerate() {
            if file.to <= folded || base.names_run(file.name) {
                continue;
            }
            if let Some(run) = self.now.run(place)?
                && run.copies(key)?.is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
