//! Many keys at a time: what users call. How they are taken: `partition.rs`.

use std::path::Path;

use super::partition::{Buffers, Manner, Mode};
use super::writer::Writer;
use crate::cuckoo::{KeyHash, KeyHasher};
use crate::error::{Error, Result};
#[cfg(doc)]
use crate::options::Options;

/// Keys of a batch partitioned at a time, which bounds the memory that takes.
const BLOCK: usize = 1 << 22;

impl Writer {
    /// Inserts all keys as [`insert`](Self::insert) does, several times as fast, and returns those refused, by
    /// their index and with the reason: no room.
    ///
    /// Equal keys are inserted in their order, others in any. If the filter doubles on the way, keys behind the one
    /// that had no room may be inserted already. Works on as many threads as [`Options::threads`] says, and takes
    /// some 32 bytes a key for up to four million keys at a time. Any other error ends the batch, as does a key of another
    /// shard ([`Error::OtherShard`]); what was inserted before it still belongs to the transaction.
    pub fn insert_batch<K: AsRef<[u8]> + Sync>(&mut self, keys: &[K]) -> Result<Vec<(usize, Error)>> {
        self.take_all(keys, Self::hash_key, Mode::Insert, |_| {})
    }

    /// As [`insert_batch`](Self::insert_batch), for keys hashed before.
    pub fn insert_hash_batch(&mut self, hashes: &[KeyHash]) -> Result<Vec<(usize, Error)>> {
        self.take_all(hashes, |_, _, hash| Ok(*hash), Mode::Insert, |_| {})
    }

    /// Inserts all keys as [`insert_unique`](Self::insert_unique) does, and otherwise as
    /// [`insert_batch`](Self::insert_batch): of equal keys in the batch, the first counts. `stored` gets one answer
    /// a key, whether it was stored, also after an error.
    pub fn insert_unique_batch<K: AsRef<[u8]> + Sync>(
        &mut self,
        keys: &[K],
        stored: &mut Vec<bool>,
    ) -> Result<Vec<(usize, Error)>> {
        stored.clear();
        stored.resize(keys.len(), false);
        self.take_all(keys, Self::hash_key, Mode::InsertUnique, |index| stored[index] = true)
    }

    /// As [`insert_unique_batch`](Self::insert_unique_batch), for keys hashed before.
    pub fn insert_unique_hash_batch(
        &mut self,
        hashes: &[KeyHash],
        stored: &mut Vec<bool>,
    ) -> Result<Vec<(usize, Error)>> {
        stored.clear();
        stored.resize(hashes.len(), false);
        self.take_all(hashes, |_, _, hash| Ok(*hash), Mode::InsertUnique, |index| stored[index] = true)
    }

    /// Removes one copy of each key as [`remove`](Self::remove) does, several times as fast; `removed` gets one
    /// answer a key, whether a copy was removed, also after an error. The keys that the error left out then have
    /// the answer false. Works on as many threads as [`Options::threads`] says. Errors as for
    /// [`remove`](Self::remove).
    pub fn remove_batch<K: AsRef<[u8]> + Sync>(&mut self, keys: &[K], removed: &mut Vec<bool>) -> Result<()> {
        self.remove_all(keys, Self::hash_key, removed)
    }

    /// As [`remove_batch`](Self::remove_batch), for keys hashed before.
    pub fn remove_hash_batch(&mut self, hashes: &[KeyHash], removed: &mut Vec<bool>) -> Result<()> {
        self.remove_all(hashes, |_, _, hash| Ok(*hash), removed)
    }

    fn remove_all<K: Sync>(
        &mut self,
        keys: &[K],
        hash: impl Fn(KeyHasher, &Path, &K) -> Result<KeyHash> + Sync,
        removed: &mut Vec<bool>,
    ) -> Result<()> {
        removed.clear();
        removed.resize(keys.len(), false);
        self.check_removals()?;
        self.take_all(keys, hash, Mode::Remove, |index| removed[index] = true).map(drop)
    }

    fn hash_key<K: AsRef<[u8]>>(hasher: KeyHasher, path: &Path, key: &K) -> Result<KeyHash> {
        hasher.hash(key.as_ref()).ok_or_else(|| Error::CallerHashes { path: path.to_owned() })
    }

    /// Takes all keys, and tells `done` the indices of those that a unique insert stored, or that were removed.
    fn take_all<K: Sync>(
        &mut self,
        keys: &[K],
        hash: impl Fn(KeyHasher, &Path, &K) -> Result<KeyHash> + Sync,
        mode: Mode,
        mut done: impl FnMut(usize),
    ) -> Result<Vec<(usize, Error)>> {
        let hasher = self.state()?.transaction.work.identity().hasher;
        let path = self.files.data.clone();
        let mut buffers = Buffers::default();
        let mut refused = Vec::new();
        for (base, keys) in (0..).step_by(BLOCK).zip(keys.chunks(BLOCK)) {
            let hash = |index: u32| hash(hasher, &path, &keys[index as usize]);
            let indices = (0..keys.len() as u32).collect();
            let done = |index: u32| done(base + index as usize);
            let refuse = |index: u32, error| refused.push((base + index as usize, error));
            self.take_block(indices, &hash, mode, &mut buffers, done, refuse)?;
        }
        refused.sort_by_key(|(index, _)| *index);
        Ok(refused)
    }

    fn take_block(
        &mut self,
        mut indices: Vec<u32>,
        hash: &(impl Fn(u32) -> Result<KeyHash> + Sync),
        mode: Mode,
        buffers: &mut Buffers,
        mut done: impl FnMut(u32),
        mut refuse: impl FnMut(u32, Error),
    ) -> Result<()> {
        let manner = Manner { mode, max_kicks: self.options.max_kicks, threads: self.options.threads };
        loop {
            self.state()?.transaction.hash_all(&indices, hash, manner, buffers)?;
            let (outcomes, outcome) = self.change(|transaction| transaction.take_hashed(manner, buffers))?;
            outcomes.done.into_iter().for_each(&mut done);
            outcome?;
            indices = outcomes.left;
            indices.sort_unstable();
            let Some(first) = indices.first() else { return Ok(()) };
            let geometry = self.state()?.transaction.work.identity().geometry;
            let (region, _) = geometry.region_of(hash(*first)?, &self.files.data)?;
            match self.make_room(region) {
                Ok(()) => {}
                Err(error) if error.refuses_one_key() => break,
                Err(error) => return Err(error),
            }
        }
        // The filter must not double, so keys that do not fit are refused one by one.
        for index in indices {
            let hash = hash(index)?;
            let outcome = match mode {
                Mode::Insert => self.insert_hash(hash).map(|()| false),
                Mode::InsertUnique => self.insert_unique_hash(hash),
                Mode::Remove => self.remove_unchecked_hash(hash),
            };
            match outcome {
                Ok(true) => done(index),
                Ok(false) => {}
                Err(error) if error.refuses_one_key() => refuse(index, error),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
