//! Changes a store: by records, and by working copies of the shards that get many, which are then sealed and committed
//! (`format-spec/STORE.md`, section 8).
//!
//! Crash cases: before its commit, an update leaves only files that no version names. A vacuum removes them.

use std::fmt;
use std::path::{Path, PathBuf};

use super::Store;
use super::buffer::{ShardChanges, TargetShard};
use super::error::{Error, Result};
use super::fold::{Operation, rewritten_at, worth_rewriting};
use super::partition::{Partition, divided};
use super::reader::StoreReader;
use super::version::Version;
#[cfg(doc)]
use crate::Options;
use crate::write::by_index;
use crate::{Error as FilterError, Key, KeyHash, Kind};

/// How many keys of a batch are divided by shard at a time.
const BLOCK: usize = 1 << 22;
/// For fewer keys, starting a thread costs more than it saves.
const KEYS_WORTH_A_THREAD: usize = 8192;

/// Changes to a store, based on one version. Nobody sees them before they are [committed](Self::commit).
///
/// Keys become records in memory, some 50 bytes each, which the commit writes to one run. A shard that gets many keys
/// gets a working copy and is rewritten instead: no shard before 8192 keys and a sixteenth of its entries, and every
/// shard at one and a half times as many. Keys go into a working copy without a journal. So the records take at most
/// about 5 bytes of memory for each entry of the store. Dropping the update removes the working copies.
///
/// If a shard has so many records that they would be folded at once, a commit writes them to the shard's file, unless
/// another commit came since the base.
///
/// Any number of updates may be made at the same time. Two updates that change the same key are in conflict; so are an
/// update that rewrites a shard and another update that changes a key of that shard. The first to commit wins. The other
/// gets [`Error::Conflict`], or judges the keys in question again: [`commit_rebased`](Self::commit_rebased).
///
/// Records fit into every shard. A store that must not grow may hold an eighth more keys than its filters have room for,
/// or 16384 a shard, before it refuses keys.
#[must_use = "an update changes the store only when it is committed"]
pub struct Update {
    pub(super) store: Store,
    pub(super) base: StoreReader,
    pub(super) scratch: Option<PathBuf>,
    rewrites: bool,
    /// Whether a key that is present may have received a later expiry.
    pub(super) prolongs: bool,
    /// For each shard, the update's records or its working copy.
    pub(super) shards: Vec<ShardChanges>,
}

impl fmt::Debug for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (base, touched) = (self.base().number, self.touched());
        let path = self.store.path();
        f.debug_struct("Update")
            .field("path", &path)
            .field("base", &base)
            .field("touched", &touched)
            .finish_non_exhaustive()
    }
}

/// The outcome for the keys of one shard. A key's place is its index among these keys.
struct Outcome {
    /// The index in the batch of each key.
    indices: Vec<u32>,
    /// The places of the keys to report.
    done: Vec<usize>,
    refused: Vec<(usize, FilterError)>,
}

impl Store {
    /// Begins an update of the newest version.
    pub fn update(&self) -> Result<Update> {
        Ok(self.update_of(self.newest()?))
    }

    /// Begins an update of a version, for example of the version in which the keys were looked up. It may be in conflict
    /// with later commits.
    pub fn update_of(&self, base: Version) -> Update {
        self.update_over(self.read_for_update(base))
    }

    pub(super) fn update_over(&self, base: StoreReader) -> Update {
        let shards = (0..self.description.shards).map(|_| ShardChanges::new(self.description.kind)).collect();
        Update { store: self.clone(), base, scratch: None, rewrites: false, prolongs: false, shards }
    }
}

impl Update {
    /// Makes working copies in this folder, for example on a fast local disk, instead of in the store. They move into the
    /// store when they are sealed. A killed process leaves its copies there, with names like `000000000017-UUID.gowk-…`:
    /// remove them when no update uses the folder.
    pub fn scratch(mut self, folder: impl Into<PathBuf>) -> Self {
        self.scratch = Some(folder.into());
        self
    }

    /// Rewrites every shard that gets keys, however few: for many keys, or to avoid a run. Call it before inserting.
    pub fn rewriting(mut self) -> Self {
        self.rewrites = true;
        self
    }

    /// The folder that [`scratch`](Self::scratch) set.
    pub fn scratch_folder(&self) -> Option<&Path> {
        self.scratch.as_deref()
    }

    /// The version on which the update is based.
    pub fn base(&self) -> &Version {
        self.base.version()
    }

    /// How many shards a commit would change.
    pub fn touched(&self) -> usize {
        self.shards.iter().filter(|held| held.is_touched()).count()
    }

    /// Processes all keys, and calls `done` with the indices that `operation` reports, in any order.
    ///
    /// In a forgetting store, `expiry` returns the expiry epoch of the key at an index.
    pub(super) fn take_all<K: Key + Sync>(
        &mut self,
        keys: &[K],
        operation: Operation,
        expiry: &(dyn Fn(usize) -> u64 + Sync),
        mut done: impl FnMut(usize),
    ) -> Result<Vec<(usize, FilterError)>> {
        let mut refused = Vec::new();
        for (start, keys) in (0..).step_by(BLOCK).zip(keys.chunks(BLOCK)) {
            let parts = self.partition(keys)?;
            for Outcome { indices, done: of_shard, refused: none_for } in
                self.take_block(start, &parts, operation, expiry)?
            {
                let index_of = |at: usize| start + indices.get(at).copied().unwrap_or_default() as usize;
                of_shard.into_iter().for_each(|at| done(index_of(at)));
                refused.extend(none_for.into_iter().map(|(at, error)| (index_of(at), error)));
            }
        }
        Ok(by_index(refused))
    }

    /// The keys, cut into one part for each thread that is worth starting. Each part has the index of its first key, and
    /// its keys sorted by shard.
    fn partition<K: Key + Sync>(&self, keys: &[K]) -> Result<Vec<(u32, Partition)>> {
        let threads = self.store.options.threads.min(keys.len() / KEYS_WORTH_A_THREAD).max(1);
        let part = keys.len().div_ceil(threads).max(1);
        let parts: Vec<_> = (0_u32..).step_by(part).zip(keys.chunks(part)).collect();
        divided(parts, threads, |(start, keys)| Ok((start, self.store.partition(keys)?)))
    }

    /// Processes the keys of a block that starts at this index, on a thread for each part.
    fn take_block(
        &mut self,
        first: usize,
        parts: &[(u32, Partition)],
        operation: Operation,
        expiry: &(dyn Fn(usize) -> u64 + Sync),
    ) -> Result<Vec<Outcome>> {
        let Self { store, base, scratch, rewrites, shards, .. } = self;
        let (base, rewrites) = (&*base, *rewrites);
        let has_keys = |shard: u32| parts.iter().any(|(_, part)| !part.hashes_of(shard).is_empty());
        let touched: Vec<_> = (0..).zip(shards.iter_mut()).filter(|(shard, _)| has_keys(*shard)).collect();
        base.fetch(touched.iter().map(|(shard, _)| *shard))?;
        divided(touched, parts.len(), |(shard, held)| {
            let (hashes, indices) = gather(parts, shard);
            let pending = base.count_pending(shard)?;
            let room = (2 * worth_rewriting(base.version(), shard)).saturating_sub(pending);
            let most = rewritten_at(store, base.version(), shard).min(room);
            let from = TargetShard { base, scratch: scratch.as_deref(), shard, most, rewrites };
            let expiries: Vec<u64> = match store.description.kind {
                Kind::Forgetting => indices.iter().map(|index| expiry(first + *index as usize)).collect(),
                Kind::Set | Kind::Counting => Vec::new(),
            };
            let (done, refused) = held.take(&from, &hashes, &expiries, operation)?;
            Ok(Outcome { indices, done, refused })
        })
    }
}

/// The hashes of a shard from all parts, in the order of their keys, and the indices of these keys.
fn gather(parts: &[(u32, Partition)], shard: u32) -> (Vec<KeyHash>, Vec<u32>) {
    let count = parts.iter().map(|(_, part)| part.hashes_of(shard).len()).sum();
    let (mut hashes, mut indices) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for (start, part) in parts {
        hashes.extend_from_slice(part.hashes_of(shard));
        indices.extend(part.indices_of(shard).iter().map(|index| start + index));
    }
    (hashes, indices)
}

impl Store {
    /// [`Error::Expired`] if a vacuum has given up updates on this base, and so may have removed their files; otherwise
    /// the original error.
    pub(super) fn given_up(&self, base: u64, error: Error) -> Error {
        match self.newest() {
            Ok(Version { fence, .. }) if fence > base => {
                Error::Expired { path: self.root.clone(), base, fence }
            }
            _ => error,
        }
    }
}
