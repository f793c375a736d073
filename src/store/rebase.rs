//! Moving an update to a newer version: keys that others have changed meanwhile are judged again, and no others
//! (`format-spec/STORE.md`, section 7.3).
//!
//! Invariants:
//!
//! 1. Afterwards each key has the answer that the new base gives. So at most one commit calls a key new, and a retry
//!    that is judged by the base of the commit gets the answers of the commit.
//! 2. If moving fails, the update stays on its old base with all its keys.

use rustc_hash::FxHashSet;

use super::commit::{Committed, Token};
use super::conflict::Again;
use super::error::{Error, Result};
use super::partition::divided;
use super::run::RecordKey;
use super::seal::Telling;
use super::taken::Held;
use super::update::Update;
use super::version::{Done, Version};
use crate::{KeyHash, Kind};

/// The keys of an update whose answer changed when the update moved to a newer version: the update had called them new,
/// and another commit has brought them since.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Rejudged {
    base: u64,
    known: FxHashSet<RecordKey>,
}

impl Rejudged {
    /// The number of the version that judges all keys of the update now.
    pub const fn base(&self) -> u64 {
        self.base
    }

    /// How many keys are not new any more.
    pub fn known(&self) -> u64 {
        self.known.len() as u64
    }

    /// Whether the key of this hash is one of them.
    pub fn has(&self, hash: KeyHash) -> bool {
        self.known.contains(&RecordKey::of(hash))
    }
}

impl Update {
    /// Moves the update to the newest version, and judges again those keys that others have changed since the base.
    /// Returns the keys that the update had called new, and that are known now.
    ///
    /// An update that rewrites a shard, or has removed keys, stays on its base; if others have changed the same, its
    /// commit fails with [`Error::Conflict`]. This fails with it if another commit has removed the last copy of a key
    /// that was known, and with [`Error::Expired`] if a vacuum has given up the base.
    pub fn rebase(&mut self) -> Result<Rejudged> {
        self.judge_again(None).map(|(rejudged, _)| rejudged)
    }

    /// Like [`commit`](Self::commit), but does not fail if others have brought some of the same keys: it
    /// [rebases](Self::rebase) the update until the commit is made. Returns the keys that are not new after all; do not
    /// tell users before which keys are. `progress` is told the files sealed, and all there are to seal.
    ///
    /// After [`Committed::Already`], the answers are those of the commit that was made only if [`Rejudged::base`] is its
    /// base. Otherwise judge all keys again by the version [before](super::Store::before) the token.
    pub fn commit_rebased(
        mut self,
        operation: &str,
        token: Option<Token>,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<(Committed, Rejudged)> {
        let (mut all, mut has_met_others) = (Rejudged::default(), false);
        loop {
            let (more, done) = self.judge_again(token.as_ref())?;
            all.known.extend(more.known);
            all.base = more.base;
            if let Some(done) = done {
                return Ok((Committed::Already(done), all));
            }
            if !self.has_inserts_alone() {
                return Ok((self.commit_with(operation, token, progress)?, all));
            }
            if self.touched() == 0 && token.is_none() {
                self.store.left_open.keep(&self.base);
                return Ok((Committed::Unchanged, all));
            }
            let mut change = self.change(operation, token.clone(), self.base())?;
            let many = if has_met_others { Vec::new() } else { self.with_many(self.base()) };
            let telling = Telling::new(self.files_to_seal(&many), progress);
            change.sealed = self.seal_records(&many, &telling)?;
            match self.store.commit(&change) {
                // Others have committed since the update was rebased. They may do so again.
                Err(Error::Conflict { .. }) => {
                    self.store.discard(&change.sealed);
                    has_met_others = true;
                }
                outcome => {
                    let committed = outcome?;
                    self.store.left_open.keep(&self.base);
                    return Ok((committed, all));
                }
            }
        }
    }

    /// Whether it has only records of inserts. A working copy does not keep the keys that it took, and a removal does not
    /// keep the keys that it did not find.
    fn has_inserts_alone(&self) -> bool {
        self.shards.iter().all(|held| match held {
            Held::Records(taken) => !taken.removes(),
            Held::Rewritten(_) => false,
        })
    }

    /// Moves to the newest version, unless that has the token.
    fn judge_again(&mut self, token: Option<&Token>) -> Result<(Rejudged, Option<Done>)> {
        loop {
            let (newest, base) = (self.store.newest()?, self.base().number);
            let done = token.and_then(|token| token.done_in(&newest));
            if done.is_some() || newest.number <= base || !self.has_inserts_alone() {
                return Ok((Rejudged { base, ..Rejudged::default() }, done));
            }
            if newest.fence > base {
                let (path, fence) = (self.store.path().to_owned(), newest.fence);
                return Err(Error::Expired { path, base, fence });
            }
            let number = newest.number;
            match self.move_to(newest) {
                // A vacuum has removed a file of that version, or of the base. The next round tells which.
                Err(Error::Vacuumed { .. }) if self.store.newest()?.number > number => {}
                outcome => return Ok((outcome?, None)),
            }
        }
    }

    fn move_to(&mut self, newest: Version) -> Result<Rejudged> {
        let now = self.base.moved_to(newest).at(self.base.now);
        let (base, version) = (self.base().number, now.version().number);
        let again = Again { before: &self.base, now: &now };
        let shards = (0..).zip(&self.shards).filter(|(_, held)| held.is_touched()).collect();
        let changed = divided(shards, self.store.options.threads, |(shard, held)| match held {
            Held::Records(taken) => Ok((shard, taken.changed(&again, shard)?)),
            Held::Rewritten(_) => Ok((shard, Vec::new())),
        })?;
        // A key that was known and is gone would be new, but the caller has not kept it.
        let gone = |all: &[(RecordKey, bool)]| all.iter().filter(|(_, was_there)| *was_there).count() as u64;
        if let Some((shard, _)) = changed.iter().find(|(_, all)| gone(all) > 0) {
            let (path, shard) = (self.store.path().to_owned(), *shard);
            let keys = changed.iter().map(|(_, all)| gone(all)).sum();
            return Err(Error::Conflict { path, shard, keys, base, version });
        }
        let mut rejudged = Rejudged { base: version, ..Rejudged::default() };
        let own = &self.store.description;
        // A copy came all the same, and so did a later time.
        let stays = own.kind == Kind::Counting || own.retention.is_some_and(|retention| retention.refresh);
        for (shard, all) in changed {
            let held = self.shards.get_mut(shard as usize);
            if let (false, Some(Held::Records(taken))) = (stays, held) {
                all.iter().for_each(|(key, _)| taken.forget(*key));
            }
            rejudged.known.extend(all.into_iter().map(|(key, _)| key));
        }
        self.base = now;
        Ok(rejudged)
    }
}
