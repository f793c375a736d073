//! Seals an update: its working copies become files of their shards, and its records become one run, or files of the
//! shards that get many (`format-spec/STORE.md`, section 8).
//!
//! Crash cases: until the commit, there are files that no version names. A vacuum removes them.

use std::sync::{Mutex, PoisonError};

use super::buffer::{RecordBuffer, ShardChanges};
use super::commit::{Change, Token};
use super::error::{Error, Result};
use super::partition::{divided, to_seal};
use super::sealed::Sealed;
use super::update::Update;
use super::version::Version;
use crate::events;

/// Reports how many files are sealed.
pub(super) struct SealProgress<'a> {
    progress: &'a (dyn Fn(u64, u64) + Sync),
    all: u64,
    done: Mutex<u64>,
}

impl<'a> SealProgress<'a> {
    pub(super) fn new(all: u64, progress: &'a (dyn Fn(u64, u64) + Sync)) -> Self {
        Self { progress, all, done: Mutex::new(0) }
    }

    /// Counts one more file, up to the expected number.
    fn one(&self) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        if *done < self.all {
            *done += 1;
            (self.progress)(*done, self.all);
        }
    }
}

impl Update {
    /// Seals each working copy as a file of its shard, and all records as one run; syncs them and moves them into the
    /// store. No version names them yet: commit a [`Change`] with them, here or in another process.
    ///
    /// If this fails, the update is lost, and the store is unchanged.
    pub fn seal(self) -> Result<Vec<Sealed>> {
        self.seal_with(&|_, _| {})
    }

    /// Like [`seal`](Self::seal). `progress` receives the number of files sealed, and of all files to seal.
    pub fn seal_with(mut self, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Vec<Sealed>> {
        let sealing = SealProgress::new(self.files_to_seal(&[]), progress);
        let mut sealed = self.seal_copies(&sealing)?;
        sealed.extend(self.seal_records(&[], &sealing)?);
        Ok(sealed)
    }

    /// How many files sealing makes, if these shards get files for their records.
    pub(super) fn files_to_seal(&self, many: &[u32]) -> u64 {
        let copies = self.shards.iter().filter(|held| matches!(held, ShardChanges::Rewritten(_))).count();
        (copies + many.len()) as u64 + u64::from(self.records_but(many).next().is_some())
    }

    /// Seals the working copies, and removes them from the update.
    pub(super) fn seal_copies(&mut self, sealing: &SealProgress<'_>) -> Result<Vec<Sealed>> {
        let Self { store, base, shards, .. } = self;
        let kind = store.description.kind;
        let copies = (0..).zip(shards).filter_map(|(shard, held)| match held {
            ShardChanges::Rewritten(_) => match std::mem::replace(held, ShardChanges::new(kind)) {
                ShardChanges::Rewritten(copy) => Some((shard, copy)),
                ShardChanges::Records(_) => None,
            },
            ShardChanges::Records(_) => None,
        });
        divided(copies.collect(), to_seal(store.options.threads), |(shard, copy)| {
            let sealed = copy.seal(base, shard);
            let sealed = sealed.map_err(|error| store.given_up(base.version().number, error))?;
            sealing.one();
            Ok(sealed)
        })
    }

    /// The shards that this commit would make due for a fold, mostly by this update's records. Sealing them as files
    /// saves the fold. Returns none if the base is no longer the newest version: records may still commit where files
    /// would be in conflict.
    pub(super) fn with_many(&self, newest: &Version) -> Vec<u32> {
        let (store, base) = (&self.store, &self.base);
        if !store.folds || newest.number != self.base().number {
            return Vec::new();
        }
        let has_many = |shard: u32, own: u64| {
            let is_due = |pending| store.is_due(base.version(), shard, pending + own);
            2 * own > store.due_at(base.version(), shard) && base.count_pending(shard).is_ok_and(is_due)
        };
        let held = (0..).zip(&self.shards);
        let many = held.filter(
            |(shard, held)| matches!(held, ShardChanges::Records(taken) if has_many(*shard, taken.records())),
        );
        many.map(|(shard, _)| shard).collect()
    }

    /// Seals all records: one file for each of the shards `many`, and one run for all other shards.
    pub(super) fn seal_records(&self, many: &[u32], sealing: &SealProgress<'_>) -> Result<Vec<Sealed>> {
        let mut sealed = self.seal_files(many, sealing)?;
        let run = match self.seal_run(&sealed) {
            // The files may have filled the disk. They are removed, and one run gets all records.
            Err(_) if !sealed.is_empty() => {
                self.store.discard(&sealed);
                sealed.clear();
                self.seal_run(&[])?
            }
            outcome => outcome?,
        };
        run.iter().for_each(|_| sealing.one());
        sealed.extend(run);
        Ok(sealed)
    }

    /// For each of these shards, seals a file with its records. If that fails for a shard, its records go into the run.
    fn seal_files(&self, many: &[u32], sealing: &SealProgress<'_>) -> Result<Vec<Sealed>> {
        let Self { store, base, scratch, shards, .. } = self;
        let sealed = divided(many.to_vec(), to_seal(store.options.threads), |shard| {
            let Some(ShardChanges::Records(taken)) = shards.get(shard as usize) else { return Ok(None) };
            let copy = taken.rewritten(base, scratch.as_deref(), shard, false);
            match copy.and_then(|copy| copy.seal(base, shard)) {
                Ok(sealed) => {
                    sealing.one();
                    Ok(Some(sealed))
                }
                Err(Error::Filter(error)) if error.refuses_one_key() => Ok(None),
                Err(error) => {
                    events::store_not_compacted(store.path(), &error);
                    Ok(None)
                }
            }
        })?;
        Ok(sealed.into_iter().flatten().collect())
    }

    /// Seals one run with the records of all shards that have no file among `files`. `None` without records.
    fn seal_run(&self, files: &[Sealed]) -> Result<Option<Sealed>> {
        let shards: Vec<u32> = files.iter().filter_map(Sealed::shard).collect();
        let (number, at_most) =
            (self.base().number, self.records_but(&shards).map(RecordBuffer::records).sum());
        if at_most == 0 {
            return Ok(None);
        }
        // The positions of one shard's keys all precede those of the next shard.
        let keys = self.records_but(&shards).flat_map(|taken| taken.sorted().into_iter().map(Ok));
        let run = self.store.write_run((number, self.base.now), self.scratch.as_deref(), at_most, keys);
        run.map_err(|error| self.store.given_up(number, error))
    }

    /// The records of all shards that are neither rewritten nor in this ascending list.
    fn records_but(&self, shards: &[u32]) -> impl Iterator<Item = &RecordBuffer> {
        let held = (0..).zip(&self.shards).filter(|(shard, _)| shards.binary_search(shard).is_err());
        held.filter_map(|(_, held)| match held {
            ShardChanges::Records(taken) => Some(taken).filter(|taken| taken.records() > 0),
            ShardChanges::Rewritten(_) => None,
        })
    }

    /// The change, still without files. Fails if its token or operation cannot be published on `newest`.
    pub(super) fn change(&self, operation: &str, token: Option<Token>, newest: &Version) -> Result<Change> {
        let base = self.base().number;
        let change = Change { base, operation: operation.to_owned(), token, sealed: Vec::new() };
        if base <= newest.number {
            self.store.text_of(&change.on(newest, newest.id))?;
        }
        Ok(change)
    }
}
