//! Fewer runs: merges runs into one, and rewrites shards with their pending records (`format-spec/STORE.md`, sections
//! 12.3 and 12.4).
//!
//! Invariants:
//!
//! 1. The published version changes no answer, except for false positives of the filters.
//! 2. A fold or a merge is not published if another process has changed its shard or its runs since.
//!
//! Crash cases: as for any commit. Before the link, there are files that no version names; from then on the whole change
//! exists.

use std::ops::Range;
use std::path::Path;
use std::time::SystemTime;

use super::Store;
use super::commit::Change;
use super::error::{Error, Result};
use super::fold::{WorkingCopy, drawn, rewritten_at, worth_rewriting};
use super::partition::{divided, to_seal};
use super::reader::StoreReader;
use super::run::{MAX_RECORDS, MergedRecords};
use super::sealed::Sealed;
use super::version::Version;
use crate::system::new_uuid;
use crate::{Growth, events};

/// How many runs a commit leaves: each costs every lookup of an absent key a cache line or two.
const MOST_RUNS: usize = 8;

/// The name of folds in the log.
const FOLD: &str = "fold";

/// Which shards to fold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    All,
    /// Shards with enough pending records.
    Asked,
    /// Like `Asked`, without shards that already failed to fold for lack of room.
    AfterCommit,
}

/// The outcome of a compaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Compacted {
    /// The number of the last version that the compaction made; `None` if there was nothing to do.
    pub version: Option<u64>,
    /// Shards rewritten.
    pub folded: u64,
    /// Shards that have no room for their pending records, and must not grow.
    pub full: u64,
    /// How many bytes the new files have.
    pub bytes: u64,
}

impl Store {
    /// Folds pending records into the shards that are due, or with `all` into every shard with pending records. Then
    /// merges runs if the version has too many. Every commit does the same.
    ///
    /// A forgetting store first advances to the time of the clock. Then a shard is also rewritten if all its keys have
    /// expired, or with `all` if any key has. Fails with [`Clock`](crate::Error::Clock) if the clock looks wrong, as
    /// inserts do.
    ///
    /// Other processes may work on the store at the same time. If one rewrites a shard first, this call leaves the shard
    /// alone. `progress` receives the number of shards folded, and of all to fold.
    pub fn compact(&self, all: bool, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Compacted> {
        let (newest, is_new) = self.come_to_clock()?;
        let mut compacted = Compacted { version: is_new.then_some(newest.number), ..Compacted::default() };
        let done = self.compact_from(&newest, all, &mut compacted, progress);
        self.or_give_way(&newest, done)?;
        Ok(compacted)
    }

    fn compact_from(
        &self,
        version: &Version,
        all: bool,
        compacted: &mut Compacted,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Option<Version>> {
        let reader = self.read_strictly(version.clone());
        let shards = self.due(&reader, if all { Due::All } else { Due::Asked })?;
        let folded = self.fold(&reader, shards, compacted, progress)?;
        let newest = folded.map_or_else(|| self.newest(), Ok)?;
        let merged = self.or_give_way(&newest, self.merge(&newest, compacted))?;
        if let Some(merged) = &merged {
            compacted.version = Some(merged.number);
        }
        Ok(merged)
    }

    /// Turns an error into `Ok(None)` if a vacuum has given up the version `base`, and so may have removed files that the
    /// work needed.
    fn or_give_way(&self, base: &Version, done: Result<Option<Version>>) -> Result<Option<Version>> {
        match done.map_err(|error| self.given_up(base.number, error)) {
            Err(Error::Expired { .. } | Error::Overtaken { .. }) => Ok(None),
            done => done,
        }
    }

    /// Merges runs and folds shards that are due after a commit. If this fails, the commit stays, and the next commit
    /// tries again.
    pub(super) fn keep_up(&self, version: &Version) {
        if let Err(error) = self.try_keep_up(version) {
            events::store_not_compacted(&self.root, &error);
        }
    }

    fn try_keep_up(&self, version: &Version) -> Result<()> {
        let mut compacted = Compacted::default();
        let merged = self.or_give_way(version, self.merge(version, &mut compacted))?;
        let version = merged.as_ref().unwrap_or(version);
        if !self.folds || no_shard_is_due(version) {
            return Ok(());
        }
        let reader = self.read_strictly(version.clone());
        let shards = self.due(&reader, Due::AfterCommit)?;
        let folded = self.fold(&reader, shards, &mut compacted, &|_, _| {});
        self.or_give_way(version, folded).map(drop)
    }

    /// The shards of a version that a commit would fold, or with `all` every shard with pending records: for
    /// [`fold_shard`](Self::fold_shard), perhaps in many processes.
    pub fn to_fold(&self, version: &Version, all: bool) -> Result<Vec<u32>> {
        let reader = self.read_strictly(version.clone());
        self.due(&reader, if all { Due::All } else { Due::AfterCommit })
    }

    fn due(&self, reader: &StoreReader, which: Due) -> Result<Vec<u32>> {
        let version = reader.version();
        if which != Due::All && no_shard_is_due(version) && self.description.retention.is_none() {
            return Ok(Vec::new());
        }
        let mut shards = Vec::new();
        for shard in 0..self.description.shards {
            let pending = reader.count_pending(shard)?;
            let is_due = match which {
                Due::All => pending > 0 || reader.has_expired(shard, true),
                Due::Asked => pending > self.due_at(version, shard) || reader.has_expired(shard, false),
                Due::AfterCommit => self.is_due(version, shard, pending),
            };
            if is_due {
                shards.push(shard);
            }
        }
        Ok(shards)
    }

    /// Rewrites a shard with its pending records in a version. [`commit_folds`](Self::commit_folds) publishes the file,
    /// here or in another process. `None` if the shard has no room and must not grow.
    ///
    /// The working copy is made in the folder `scratch`, if given, or in the store's own.
    pub fn fold_shard(
        &self,
        version: &Version,
        shard: u32,
        scratch: Option<&Path>,
    ) -> Result<Option<Sealed>> {
        let reader = self.read_strictly(version.clone());
        self.folded(&reader, shard, scratch).map_err(|error| self.given_up(version.number, error))
    }

    fn folded(&self, base: &StoreReader, shard: u32, scratch: Option<&Path>) -> Result<Option<Sealed>> {
        match WorkingCopy::open(base, scratch, shard, false) {
            Err(Error::Filter(error)) if error.refuses_one_key() => Ok(None),
            outcome => Ok(Some(Sealed { fold: true, ..outcome?.seal(base, shard)? })),
        }
    }

    /// Publishes a version with folds of one version's shards, and then merges runs if the version has too many. Leaves
    /// out shards that another process has rewritten.
    pub fn commit_folds(&self, sealed: &[Sealed]) -> Result<Compacted> {
        let mut compacted = Compacted::default();
        let Some(base) = self.check_folds(sealed)? else { return Ok(compacted) };
        let folded = self.publish_folds(&self.read_strictly(base.clone()), sealed, &mut compacted);
        let folded = self.or_give_way(&base, folded)?;
        let newest = folded.map_or_else(|| self.newest(), Ok)?;
        let merged = self.merge(&newest, &mut compacted);
        if let Some(merged) = self.or_give_way(&newest, merged)? {
            compacted.version = Some(merged.number);
        }
        Ok(compacted)
    }

    /// The version on which the folds are based, if it still exists. Checks that they are folds of this store's shards,
    /// and that their files are whole.
    fn check_folds(&self, sealed: &[Sealed]) -> Result<Option<Version>> {
        let Some(first) = sealed.first() else { return Ok(None) };
        if sealed.iter().any(|one| !one.fold || one.shard.is_none()) {
            let (found, expected) = ("update".to_owned(), "folds".to_owned());
            let path = self.root.clone();
            return Err(Error::Misfit { path, what: "kind", found, expected });
        }
        let plain = sealed.iter().map(|one| Sealed { fold: false, ..one.clone() });
        let (base, operation) = (first.base, FOLD.to_owned());
        let change = Change { base, operation, token: None, sealed: plain.collect() };
        self.check_sealed(&change)?;
        match self.check_files(&change) {
            Err(Error::Expired { .. }) => Ok(None),
            outcome => outcome.and_then(|()| self.load(base)),
        }
    }

    /// Whether a commit folds a shard with this many pending records.
    pub(super) fn is_due(&self, version: &Version, shard: u32, pending: u64) -> bool {
        let may_refuse = self.description.growth == Growth::Never
            || self.description.max_file_size.is_some()
            || self.description.max_false_positive_rate.is_some();
        // More records than an update leaves: the shard was full, and every commit would find that out again.
        let was_full = may_refuse && pending > rewritten_at(self, version, shard);
        pending > self.due_at(version, shard) && !was_full
    }

    /// A shard with more pending records than this is folded: 0.5 to 1 times [`worth_rewriting`], drawn for each shard.
    pub(super) fn due_at(&self, version: &Version, shard: u32) -> u64 {
        let half = worth_rewriting(version, shard) / 2;
        half + drawn(self, version, shard, half)
    }

    /// Rewrites shards with their pending records, and publishes a version with those shards that no other process has
    /// changed.
    fn fold(
        &self,
        base: &StoreReader,
        shards: Vec<u32>,
        compacted: &mut Compacted,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Option<Version>> {
        if shards.is_empty() {
            let mut needed = base.version().clone();
            base.drop_folded(&mut needed)?;
            // Looking for the newest version costs requests.
            if needed.runs.len() == base.version().runs.len() {
                return Ok(None);
            }
        }
        let (all, done) = (shards.len() as u64, std::sync::Mutex::new(0));
        let sealed = divided(shards, to_seal(self.options.threads), |shard| {
            let folded = self.folded(base, shard, None)?;
            let mut done = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *done += 1;
            progress(*done, all);
            Ok(folded)
        })?;
        compacted.full += sealed.iter().filter(|sealed| sealed.is_none()).count() as u64;
        let sealed: Vec<Sealed> = sealed.into_iter().flatten().collect();
        let published = self.publish_folds(base, &sealed, compacted)?;
        let is_named = |one: &Sealed| {
            let version = published.as_ref()?;
            one.shard.and_then(|shard| version.shards.get(&shard)).filter(|file| file.name == one.name())
        };
        self.discard(sealed.iter().filter(|one| is_named(one).is_none()));
        Ok(published)
    }

    /// Publishes a version with the folds whose shards no other process has changed.
    fn publish_folds(
        &self,
        base: &StoreReader,
        sealed: &[Sealed],
        compacted: &mut Compacted,
    ) -> Result<Option<Version>> {
        let number = base.version().number;
        let name = |version: &Version, shard| version.shards.get(&shard).map(|file| file.name);
        let mut counted = (0, 0);
        let published = self.publish_upkeep(number, FOLD, |newest| {
            let mut next = newest.clone();
            counted = (0, 0);
            for one in sealed {
                let is_same = |shard: &u32| name(base.version(), *shard) == name(newest, *shard);
                let Some(shard) = one.shard.filter(is_same) else { continue };
                // A later run may hold the folded records, merged with newer ones: they would count both there and in
                // this file. Or a newer removal has cancelled them, and this file would bring them back.
                if base.is_merged_in(newest, shard)? {
                    continue;
                }
                next.shards.insert(shard, one.shard_file(newest.number + 1));
                counted = (counted.0 + 1, counted.1 + one.bytes);
            }
            // Rewritten shards may also leave runs that are pending for no shard.
            base.drop_folded(&mut next)?;
            Ok((counted.0 > 0 || next.runs.len() < newest.runs.len()).then_some(next))
        })?;
        if let Some(version) = &published {
            (compacted.folded, compacted.bytes) = (compacted.folded + counted.0, compacted.bytes + counted.1);
            compacted.version = Some(version.number);
        }
        Ok(published)
    }

    /// Merges the newest runs of a version, if it has too many.
    fn merge(&self, version: &Version, compacted: &mut Compacted) -> Result<Option<Version>> {
        let Some(places) = too_many(version) else { return Ok(None) };
        let reader = self.read_strictly(version.clone());
        let runs = version.runs.get(places.clone()).unwrap_or_default();
        let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return Ok(None) };
        let (from, to) = (first.from, last.to);
        let at_most = runs.iter().map(|run| run.records).sum();
        let records = places.map(|place| reader.unfolded(place)).collect::<Result<Vec<_>>>()?;
        let merged = MergedRecords::new(records.into_iter().flatten());
        let one = self.write_run((version.number, version.epoch), None, at_most, merged)?;
        let published = self.publish_upkeep(version.number, "merge", |newest| {
            let start = newest.runs.iter().position(|run| run.name == first.name).unwrap_or_default();
            let place = start..start + runs.len();
            let is_there = newest.runs.get(place.clone()) == Some(runs);
            // Otherwise the run would have records that their shard's file already has.
            let is_folded = newest.shards.iter().any(|(shard, file)| {
                file.folded != version.folded(*shard) && (from..to).contains(&file.folded)
            });
            if !is_there || is_folded {
                return Ok(None);
            }
            let mut next = newest.clone();
            next.runs.splice(place, one.as_ref().map(|one| one.run_file(from, to, newest.number + 1)));
            Ok(Some(next))
        })?;
        match (&published, &one) {
            (Some(_), Some(one)) => compacted.bytes += one.bytes,
            (None, Some(one)) => self.discard([one]),
            (_, None) => {}
        }
        Ok(published)
    }

    /// Publishes the version that `next` makes from the newest one. Publishes nothing if `next` returns `None`, or if a
    /// vacuum has given up the base.
    pub(super) fn publish_upkeep(
        &self,
        base: u64,
        operation: &str,
        mut next: impl FnMut(&Version) -> Result<Option<Version>>,
    ) -> Result<Option<Version>> {
        loop {
            let newest = self.newest()?;
            if newest.fence > base {
                return Ok(None);
            }
            let Some(next) = next(&newest)? else { return Ok(None) };
            let next = Version {
                number: newest.number + 1,
                id: new_uuid(&self.root)?,
                time: SystemTime::now(),
                operation: operation.to_owned(),
                base,
                ..next
            };
            // If a vacuum has passed the number, the call fails. The version may still count, so its files must remain.
            if let Some(version) = self.put_version(next, newest.number)? {
                events::store_compacted(&self.root, operation, version.number);
                return Ok(Some(version));
            }
        }
    }
}

/// Whether a version has too few records in all for any shard to be due. Opens no file.
fn no_shard_is_due(version: &Version) -> bool {
    let records: u64 = version.runs.iter().map(|run| run.records).sum();
    records < worth_rewriting(&Version::first([0; 16], 0), 0) / 2
}

/// The runs to merge, if the version has too many: enough of the newest runs to leave `MOST_RUNS`, and then older runs as
/// long as each has at most as many records as all newer runs together.
fn too_many(version: &Version) -> Option<Range<usize>> {
    let runs = &version.runs;
    if runs.len() <= MOST_RUNS {
        return None;
    }
    let least = (runs.len() - MOST_RUNS + 1).max(2);
    let (mut start, mut records) = (runs.len(), 0_u64);
    for run in runs.iter().rev() {
        let taken = runs.len() - start;
        if taken >= least && run.records > records || records + run.records > MAX_RECORDS {
            break;
        }
        records += run.records;
        start -= 1;
    }
    (runs.len() - start >= 2).then_some(start..runs.len())
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
