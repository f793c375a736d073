//! The keys of a batch, divided by shard.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::Store;
use super::error::Result;
use crate::system::on_each_index;
use crate::{Key, KeyHash};

/// Hashes sorted by shard, each with the index of its key. Within a shard they are in the order of their keys.
#[derive(Debug)]
pub(super) struct Partition {
    pub(super) hashes: Vec<KeyHash>,
    pub(super) indices: Vec<u32>,
    /// The shards with hashes, ascending, each with the range of its hashes.
    pub(super) shards: Vec<(u32, Range<usize>)>,
}

impl Partition {
    /// The range of a shard's hashes.
    fn of(&self, shard: u32) -> Range<usize> {
        let found = self.shards.binary_search_by_key(&shard, |(shard, _)| *shard);
        found.ok().and_then(|at| self.shards.get(at)).map_or(0..0, |(_, range)| range.clone())
    }

    pub(super) fn hashes_of(&self, shard: u32) -> &[KeyHash] {
        self.hashes.get(self.of(shard)).unwrap_or_default()
    }

    pub(super) fn indices_of(&self, shard: u32) -> &[u32] {
        self.indices.get(self.of(shard)).unwrap_or_default()
    }
}

impl Store {
    /// The hash of a key under the store's seed; [`CallerHashes`](crate::Error::CallerHashes) if the caller must hash.
    #[inline]
    pub fn hash(&self, key: impl Key) -> Result<KeyHash> {
        self.hash_of(&key)
    }

    #[inline]
    pub(super) fn hash_of<K: Key>(&self, key: &K) -> Result<KeyHash> {
        let hash = key.hash(self.description.hasher());
        Ok(hash.ok_or_else(|| crate::Error::CallerHashes { path: self.root.clone() })?)
    }

    /// The hashes of keys. Checks once whether the store can hash them, so that the loop only writes hashes.
    fn hash_all<K: Key>(&self, keys: &[K]) -> Result<Vec<KeyHash>> {
        // Whether the caller hashes does not depend on the key.
        keys.first().map(|first| self.hash_of(first)).transpose()?;
        let hasher = self.description.hasher();
        Ok(keys.iter().map(|key| key.xxh3(hasher)).collect())
    }

    /// Divides keys, at most 2^32 of them, by shard.
    pub(super) fn partition<K: Key>(&self, keys: &[K]) -> Result<Partition> {
        let hashed = self.hash_all(keys)?;
        let mut places = vec![0_usize; self.description.shards as usize + 1];
        let shard_of = |hash: &KeyHash| self.description.shard_of(*hash) as usize;
        hashed.iter().for_each(|hash| places[shard_of(hash) + 1] += 1);
        let mut shards = Vec::new();
        for shard in 1..places.len() {
            let (start, count) = (places[shard - 1], places[shard]);
            places[shard] = start + count;
            if count > 0 {
                shards.push(((shard - 1) as u32, start..start + count));
            }
        }
        let mut sorted = vec![KeyHash::new(0); hashed.len()];
        let mut indices = vec![0; hashed.len()];
        for (index, hash) in (0..).zip(&hashed) {
            let place = &mut places[shard_of(hash)];
            (sorted[*place], indices[*place]) = (*hash, index);
            *place += 1;
        }
        Ok(Partition { hashes: sorted, indices, shards })
    }
}

/// The number of threads that seal files, if `threads` threads do other work. Larger than `threads`, as each mostly waits
/// for the disk; but at most 8, as each may hold a file of 8 MiB in memory, or 16 MiB of an upload.
pub(super) fn to_seal(threads: usize) -> usize {
    threads.max((3 * threads).min(8))
}

/// Does `work` for each of `all` on a number of threads. A free thread takes the next item; it stops when its work fails.
/// Returns the outcomes in the order of the items, or the first error.
pub(super) fn divided<T: Send, R: Send>(
    all: Vec<T>,
    threads: usize,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let threads = threads.min(all.len()).max(1);
    let outcomes: Vec<Option<Result<R>>> = all.iter().map(|_| None).collect();
    let (waiting, outcomes) = (Mutex::new(all.into_iter().enumerate()), Mutex::new(outcomes));
    let take = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    on_each_index(threads, &|_| {
        while let Some((at, one)) = take() {
            let outcome = work(one);
            let has_failed = outcome.is_err();
            if let Some(place) = outcomes.lock().unwrap_or_else(PoisonError::into_inner).get_mut(at) {
                *place = Some(outcome);
            }
            if has_failed {
                return;
            }
        }
    });
    outcomes.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect()
}
