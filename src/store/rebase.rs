//! Commits an update, and moves it to a newer version: only keys that others have changed since are judged again
//! (`format-spec/STORE.md`, section 7.3).
//!
//! Invariants:
//!
//! 1. Afterwards each key has the answer of the new base. So at most one commit calls a key new, and a retry that is
//!    judged by the base of the commit gets the answers of the commit.
//! 2. If moving fails, the update stays on its old base with all its keys.

use rustc_hash::FxHashSet;

use super::buffer::ShardChanges;
use super::commit::{Committed, Token};
use super::conflict::Again;
use super::error::{Error, Result};
use super::partition::divided;
use super::run::RecordKey;
use super::seal::SealProgress;
use super::update::Update;
use super::version::Version;
use crate::{KeyHash, Kind};

/// The keys of an update whose answer changed when the update moved to a newer version: the update had called them new,
/// and another commit has inserted them since. If the update refreshes keys, also known keys that it refreshed, that
/// would have expired by the latest of its times, and that another commit has refreshed too.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Rejudged {
    base: u64,
    known: FxHashSet<RecordKey>,
}

impl Rejudged {
    /// The number of the version that now judges all keys of the update.
    pub const fn base(&self) -> u64 {
        self.base
    }

    /// How many keys are no longer new.
    pub fn known(&self) -> u64 {
        self.known.len() as u64
    }

    /// Whether the key of this hash is among them.
    pub fn has(&self, hash: KeyHash) -> bool {
        self.known.contains(&RecordKey::of(hash))
    }
}

impl Update {
    /// Moves the update to the newest version, and judges keys again that other commits have changed since the base.
    /// Returns the keys that the update had called new, and that are now known.
    ///
    /// An update that rewrites a shard, or has removed keys, stays on its base, and its commit may fail with
    /// [`Error::Conflict`]. This call fails with [`Error::Conflict`] if another commit has removed the last copy of a
    /// known key, and with [`Error::Expired`] if a vacuum has passed the base.
    pub fn rebase(&mut self) -> Result<Rejudged> {
        let mut rejudged = Rejudged::default();
        self.judge_again(None, &mut rejudged)?;
        Ok(rejudged)
    }

    /// Seals the changes, and publishes a version with them, as [`Store::commit`](super::Store::commit) does. Publishes
    /// nothing without changed keys and without a token. Seals nothing if an earlier commit had the token.
    ///
    /// Fails with [`Error::Conflict`] if others have changed some of the same keys since the base;
    /// [`commit_rebased`](Self::commit_rebased) judges these keys again instead.
    pub fn commit(self, operation: &str, token: Option<Token>) -> Result<Committed> {
        self.commit_with(operation, token, &|_, _| {})
    }

    /// Like [`commit`](Self::commit). `progress` receives the number of files sealed, and of all files to seal.
    pub fn commit_with(
        self,
        operation: &str,
        token: Option<Token>,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Committed> {
        self.committed(operation, token, false, progress).map(|(committed, _)| committed)
    }

    /// Like [`commit`](Self::commit), but does not fail if others have inserted some of the same keys: it
    /// [rebases](Self::rebase) the update until the commit succeeds. Returns the keys that are not new after all; report
    /// new keys to users only then. `progress` receives the number of files sealed, and of all files to seal.
    ///
    /// After [`Committed::Already`], the answers agree with the commit only if [`Rejudged::base`] is its base. Otherwise
    /// judge all keys again by the version [before](super::Store::before) the token.
    pub fn commit_rebased(
        self,
        operation: &str,
        token: Option<Token>,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<(Committed, Rejudged)> {
        self.committed(operation, token, true, progress)
    }

    /// Each round judges by the newest version, if `rebases` is set, and then seals and commits the records. Only the
    /// first round seals files of shards: in later rounds another commit has just changed a shard, and would conflict
    /// with such a file.
    fn committed(
        mut self,
        operation: &str,
        token: Option<Token>,
        rebases: bool,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<(Committed, Rejudged)> {
        let rebases = rebases && self.has_inserts_alone();
        let mut all = Rejudged { base: self.base().number, ..Rejudged::default() };
        let (mut copies, mut is_first) = (Vec::new(), true);
        loop {
            let newest =
                if rebases { self.judge_again(token.as_ref(), &mut all)? } else { self.store.newest()? };
            if let Some(done) = token.as_ref().map_or(Ok(None), |token| self.store.done_in(token, &newest))? {
                return Ok((Committed::Already(done), all));
            }
            // Others may have inserted all of its keys.
            if self.touched() == 0 && copies.is_empty() && token.is_none() {
                self.store.left_open.keep(&self.base);
                return Ok((Committed::Unchanged, all));
            }
            let mut change = self.change(operation, token.clone(), &newest)?;
            let many = if is_first { self.with_many(&newest) } else { Vec::new() };
            let sealing = SealProgress::new(self.files_to_seal(&many), progress);
            if is_first {
                copies = self.seal_copies(&sealing)?;
            }
            let records = self.seal_records(&many, &sealing)?;
            change.sealed = copies.iter().chain(&records).cloned().collect();
            match self.store.commit(&change) {
                Err(Error::Conflict { .. }) if rebases || !many.is_empty() => self.store.discard(&records),
                Err(error) => {
                    if let Error::Conflict { .. } = error {
                        self.store.discard(&change.sealed);
                    }
                    return Err(error);
                }
                Ok(committed) => {
                    self.store.left_open.keep(&self.base);
                    return Ok((committed, all));
                }
            }
            is_first = false;
        }
    }

    /// Whether the update has only records of inserts. A working copy does not know which keys were inserted into it, and
    /// a removal does not record the keys that it did not find.
    fn has_inserts_alone(&self) -> bool {
        self.shards.iter().all(|held| match held {
            ShardChanges::Records(taken) => !taken.removes(),
            ShardChanges::Rewritten(_) => false,
        })
    }

    /// Moves to the newest version, and returns it. Stays if the update has not only inserts, or if that version has the
    /// token. Adds the keys that are no longer new to `all`.
    fn judge_again(&mut self, token: Option<&Token>, all: &mut Rejudged) -> Result<Version> {
        loop {
            let (newest, base) = (self.store.newest()?, self.base().number);
            all.base = base;
            let is_done = token.is_some_and(|token| newest.has_reached(token));
            if is_done || newest.number <= base || !self.has_inserts_alone() {
                return Ok(newest);
            }
            if newest.fence > base {
                let (path, fence) = (self.store.path().to_owned(), newest.fence);
                return Err(Error::Expired { path, base, fence });
            }
            match self.move_to(newest.clone()) {
                // A vacuum has removed a file of that version, or of the base. The next round finds out which.
                Err(Error::Vacuumed { .. }) if self.store.newest()?.number > newest.number => {}
                outcome => {
                    all.known.extend(outcome?);
                    all.base = newest.number;
                    return Ok(newest);
                }
            }
        }
    }

    /// Moves to this version. Returns the keys that are no longer new.
    fn move_to(&mut self, newest: Version) -> Result<Vec<RecordKey>> {
        let now = self.base.moved_to(newest).at(self.base.now);
        let (base, version) = (self.base().number, now.version().number);
        let again = Again { before: &self.base, now: &now };
        let shards = (0..).zip(&self.shards).filter(|(_, held)| held.is_touched()).collect();
        let changed = divided(shards, self.store.options.threads, |(shard, held)| match held {
            ShardChanges::Records(taken) => Ok((shard, taken.changed(&again, shard)?)),
            ShardChanges::Rewritten(_) => Ok((shard, Vec::new())),
        })?;
        // A key that was known and is gone would be new, but the update did not keep it.
        let gone = |all: &[(RecordKey, bool)]| all.iter().filter(|(_, was_there)| *was_there).count() as u64;
        if let Some((shard, _)) = changed.iter().find(|(_, all)| gone(all) > 0) {
            let (path, shard) = (self.store.path().to_owned(), *shard);
            let keys = changed.iter().map(|(_, all)| gone(all)).sum();
            return Err(Error::Conflict { path, shard, keys, base, version });
        }
        let mut known = Vec::new();
        let own = &self.store.description;
        // A copy still came, and so did a later time.
        let refreshes = own.retention.is_some_and(|retention| retention.refresh);
        let stays = own.kind == Kind::Counting || refreshes || self.prolongs;
        for (shard, all) in changed {
            let held = self.shards.get_mut(shard as usize);
            if let (false, Some(ShardChanges::Records(taken))) = (stays, held) {
                all.iter().for_each(|(key, _)| taken.forget(*key));
            }
            known.extend(all.into_iter().map(|(key, _)| key));
        }
        self.base = now;
        Ok(known)
    }
}
