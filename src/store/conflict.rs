//! Whether other commits have changed the answers by which a commit judged (`format-spec/STORE.md`, section 7.2).
//!
//! A key whose shard has the same file in both versions is looked up only in runs that the base does not name. In a
//! counting store this works only while the newest version keeps all pending runs of the base apart: a merge may have
//! cancelled a record. A compaction between the two versions can make an absent key look present, at the filter's rate.
//! That conflict is needless and harmless.

use super::Store;
use super::commit::Change;
use super::error::{Error, Result};
use super::reader::StoreReader;
use super::run::{MergedRecords, RecordKey};
use super::sealed::Sealed;
use super::version::Version;
use crate::Kind;

impl Store {
    /// Fails if the newest version judges a changed key differently from the base.
    pub(super) fn check_judged(&self, change: &Change, newest: &Version) -> Result<()> {
        let Some(base) = self.load(change.base)? else {
            return Err(self.given_up(change.base, self.no_such_version(change.base)?));
        };
        let (before, now) = (self.read_strictly(base), self.read_strictly(newest.clone()));
        for shard in change.sealed.iter().filter_map(Sealed::shard) {
            self.check_rewritten(shard, &before, &now)?;
        }
        change.runs().try_for_each(|sealed| self.check_run(sealed, &before, &now))
    }

    /// Fails if a commit since the base has changed a shard that this commit has rewritten.
    fn check_rewritten(&self, shard: u32, before: &StoreReader, now: &StoreReader) -> Result<()> {
        let (base, newest) = (before.version(), now.version());
        let conflict = |version| {
            let (path, base) = (self.root.clone(), base.number);
            Err(Error::Conflict { path, shard, keys: 0, base, version })
        };
        for (place, file) in newest.runs.iter().enumerate() {
            if file.to <= base.number || base.names_run(file.name) {
                continue;
            }
            let Some(run) = now.run(place)? else { continue };
            if !run.slice(shard, self.description.shards)?.is_empty() {
                return conflict(file.to);
            }
        }
        if before.is_merged_in(newest, shard)? { conflict(newest.number) } else { Ok(()) }
    }

    /// Fails if a key of a run has another number of copies than in the base.
    fn check_run(&self, sealed: &Sealed, before: &StoreReader, now: &StoreReader) -> Result<()> {
        let (base, newest) = (before.version(), now.version());
        let run = self.open_sealed(base, sealed)?;
        let (before, now) = (&before.at(sealed.epoch), &now.at(sealed.epoch));
        let again = Again { before, now };
        let (mut keys, mut first) = (0, None);
        for next in MergedRecords::new([run.all()]) {
            let (key, _) = next?;
            let shard = self.description.shard_of(key.hash());
            if again.changed(key, shard)?.is_some() {
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
}

/// The version that judged keys, and a later version.
pub(super) struct Again<'a> {
    pub(super) before: &'a StoreReader,
    pub(super) now: &'a StoreReader,
}

impl Again<'_> {
    /// `Some((was present, is present))` if the number of copies of a key differs between the two versions.
    ///
    /// In a set, the key must have been absent before. In a forgetting store, a key that was present before counts as
    /// unchanged.
    pub(super) fn changed(&self, key: RecordKey, shard: u32) -> Result<Option<(bool, bool)>> {
        let Self { before, now } = *self;
        let name = |version: &Version| version.shards.get(&shard).map(|file| file.name);
        let kind = now.store().description().kind;
        let is_same = name(before.version()) == name(now.version());
        if is_same && !self.may_be_cancelled(kind, shard) && !self.is_in_new_runs(key, shard)? {
            return Ok(None);
        }
        let hash = key.hash();
        let was = match kind {
            Kind::Set => Some(0),
            Kind::Counting | Kind::Forgetting => before.copies_in(shard, hash)?,
        };
        let is = now.copies_in(shard, hash)?;
        let is_there = |copies: Option<i64>| copies.is_none_or(|copies| copies > 0);
        // A key that was present and has expired was known when it came.
        let is_forgotten = kind == Kind::Forgetting && is_there(was);
        Ok((was != is && !is_forgotten).then(|| (is_there(was), is_there(is))))
    }

    /// Whether a record of the shard may be gone because a later one removed the copy again: then no new run has its key.
    fn may_be_cancelled(&self, kind: Kind, shard: u32) -> bool {
        let (base, newest) = (self.before.version(), self.now.version());
        let mut pending = base.runs.iter().filter(|run| run.to > base.folded(shard));
        kind == Kind::Counting && pending.any(|run| !newest.keeps_apart(run, base.number))
    }

    /// Whether a run that only the later version names has the key and is pending for its shard.
    fn is_in_new_runs(&self, key: RecordKey, shard: u32) -> Result<bool> {
        let (base, newest) = (self.before.version(), self.now.version());
        let folded = newest.folded(shard);
        for (place, file) in newest.runs.iter().enumerate() {
            if file.to <= folded || base.names_run(file.name) {
                continue;
            }
            if let Some(run) = self.now.run(place)?
                && run.value(key)?.is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
