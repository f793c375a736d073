//! Many keys at a time: what users call. How they are taken: `partition.rs`.

use std::path::Path;

use super::partition::{Buffers, Manner, Mode};
use super::writer::Writer;
use crate::cuckoo::{HashKind, KeyHash, KeyHasher};
use crate::error::{Error, Result};
#[cfg(doc)]
use crate::options::Options;

/// Keys of a batch partitioned at a time, which bounds the memory that takes.
const BLOCK: usize = 1 << 22;

/// Keys of an iterator that are hashed, and then taken, at a time.
const CHUNK: usize = 1 << 20;

/// Keys for which there was no room: their index among the keys that were given, and the reason.
pub type Refused = Vec<(usize, Error)>;

/// What became of the keys of an iterator.
#[derive(Default, Debug)]
#[must_use = "keys may have been refused"]
#[non_exhaustive]
pub struct Inserted {
    /// Keys that the iterator gave.
    pub keys: u64,
    /// Those of them that were stored. The others were found already, or refused.
    pub stored: u64,
    /// Keys refused, by their number in the iteration, from 0, and with the reason: no room.
    pub refused: Refused,
}

impl Inserted {
    /// Adds what became of a part of the keys.
    pub(crate) fn add(&mut self, keys: usize, stored: usize, refused: Vec<(usize, Error)>) {
        let before = self.keys as usize;
        self.keys += keys as u64;
        self.stored += stored as u64;
        self.refused.extend(refused.into_iter().map(|(index, error)| (before + index, error)));
    }
}

impl Writer {
    /// Inserts all keys of an iterator as [`insert_batch`](Self::insert_batch) does.
    ///
    /// The keys are hashed as they come, and are not kept: this takes some 50 MB, however many they are. The iterator runs
    /// on the calling thread. An error ends the iteration; what was inserted before it still belongs to the transaction,
    /// and up to a million keys that the iterator gave may be lost with it.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("seen.gowk");
    /// let mut writer = gowk::Options::new().open(&path)?;
    /// let inserted = writer.insert_all("to be or not to be".split(' '))?;
    /// assert_eq!((inserted.stored, inserted.refused.len()), (6, 0));
    /// assert_eq!(writer.count("be")?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn insert_all<K: AsRef<[u8]>>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<Inserted> {
        let mut inserted = Inserted::default();
        self.take_iterated(keys, |writer, hashes| {
            let refused = writer.insert_hash_batch(hashes)?;
            inserted.add(hashes.len(), hashes.len() - refused.len(), refused);
            Ok(())
        })?;
        Ok(inserted)
    }

    /// Inserts all keys of an iterator as [`insert_unique`](Self::insert_unique) does, and otherwise as
    /// [`insert_all`](Self::insert_all): of equal keys, the first counts.
    pub fn insert_unique_all<K: AsRef<[u8]>>(
        &mut self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Inserted> {
        let mut inserted = Inserted::default();
        self.take_iterated(keys, |writer, hashes| {
            let mut stored = 0;
            let refused =
                writer.take_all(hashes, |_, _, hash| Ok(*hash), Mode::InsertUnique, |_| stored += 1)?;
            inserted.add(hashes.len(), stored, refused);
            Ok(())
        })?;
        Ok(inserted)
    }

    /// Removes one copy of each key of an iterator as [`remove_batch`](Self::remove_batch) does, and otherwise as
    /// [`insert_all`](Self::insert_all); returns how many copies were removed.
    pub fn remove_all<K: AsRef<[u8]>>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<u64> {
        let mut removed = 0;
        self.check_removals()?;
        self.take_iterated(keys, |writer, hashes| {
            writer.take_all(hashes, |_, _, hash| Ok(*hash), Mode::Remove, |_| removed += 1).map(drop)
        })?;
        Ok(removed)
    }

    /// Hashes the keys, and hands the hashes to `take`, many at a time.
    fn take_iterated<K: AsRef<[u8]>>(
        &mut self,
        keys: impl IntoIterator<Item = K>,
        mut take: impl FnMut(&mut Self, &[KeyHash]) -> Result<()>,
    ) -> Result<()> {
        let hasher = self.state()?.transaction.work.identity().hasher;
        if hasher.kind == HashKind::Caller {
            return Err(Error::CallerHashes { path: self.files.data.clone() });
        }
        let mut keys = keys.into_iter();
        let mut hashes = Vec::new();
        loop {
            hashes.clear();
            hashes.extend(keys.by_ref().take(CHUNK).map(|key| hasher.xxh3(key.as_ref())));
            take(self, &hashes)?;
            if hashes.len() < CHUNK {
                return Ok(());
            }
        }
    }

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
    /// [`insert_batch`](Self::insert_batch): of equal keys in the batch, the first counts. Returns one answer a key, whether
    /// it was stored, and the keys refused.
    pub fn insert_unique_batch<K: AsRef<[u8]> + Sync>(&mut self, keys: &[K]) -> Result<(Vec<bool>, Refused)> {
        let mut stored = Vec::new();
        let refused = self.insert_unique_batch_into(keys, &mut stored)?;
        Ok((stored, refused))
    }

    /// As [`insert_unique_batch`](Self::insert_unique_batch), with the answers in `stored`, also after an error.
    pub fn insert_unique_batch_into<K: AsRef<[u8]> + Sync>(
        &mut self,
        keys: &[K],
        stored: &mut Vec<bool>,
    ) -> Result<Vec<(usize, Error)>> {
        stored.clear();
        stored.resize(keys.len(), false);
        self.take_all(keys, Self::hash_key, Mode::InsertUnique, |index| stored[index] = true)
    }

    /// As [`insert_unique_batch`](Self::insert_unique_batch), for keys hashed before.
    pub fn insert_unique_hash_batch(&mut self, hashes: &[KeyHash]) -> Result<(Vec<bool>, Refused)> {
        let mut stored = Vec::new();
        let refused = self.insert_unique_hash_batch_into(hashes, &mut stored)?;
        Ok((stored, refused))
    }

    /// As [`insert_unique_batch_into`](Self::insert_unique_batch_into), for keys hashed before.
    pub fn insert_unique_hash_batch_into(
        &mut self,
        hashes: &[KeyHash],
        stored: &mut Vec<bool>,
    ) -> Result<Vec<(usize, Error)>> {
        stored.clear();
        stored.resize(hashes.len(), false);
        self.take_all(hashes, |_, _, hash| Ok(*hash), Mode::InsertUnique, |index| stored[index] = true)
    }

    /// Removes one copy of each key as [`remove`](Self::remove) does, several times as fast. Returns one answer a key,
    /// whether a copy was removed. Works on as many threads as [`Options::threads`] says. Errors as for
    /// [`remove`](Self::remove).
    pub fn remove_batch<K: AsRef<[u8]> + Sync>(&mut self, keys: &[K]) -> Result<Vec<bool>> {
        let mut removed = Vec::new();
        self.remove_batch_into(keys, &mut removed)?;
        Ok(removed)
    }

    /// As [`remove_batch`](Self::remove_batch), with the answers in `removed`, also after an error. The keys that the
    /// error left out then have the answer false.
    pub fn remove_batch_into<K: AsRef<[u8]> + Sync>(
        &mut self,
        keys: &[K],
        removed: &mut Vec<bool>,
    ) -> Result<()> {
        self.remove_each(keys, Self::hash_key, removed)
    }

    /// As [`remove_batch`](Self::remove_batch), for keys hashed before.
    pub fn remove_hash_batch(&mut self, hashes: &[KeyHash]) -> Result<Vec<bool>> {
        let mut removed = Vec::new();
        self.remove_hash_batch_into(hashes, &mut removed)?;
        Ok(removed)
    }

    /// As [`remove_batch_into`](Self::remove_batch_into), for keys hashed before.
    pub fn remove_hash_batch_into(&mut self, hashes: &[KeyHash], removed: &mut Vec<bool>) -> Result<()> {
        self.remove_each(hashes, |_, _, hash| Ok(*hash), removed)
    }

    fn remove_each<K: Sync>(
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
        // Kept for the next batch, unless this one fails.
        let mut buffers = std::mem::take(&mut self.buffers);
        let mut refused = Vec::new();
        for (base, keys) in (0..).step_by(BLOCK).zip(keys.chunks(BLOCK)) {
            let hash = |index: u32| hash(hasher, &path, &keys[index as usize]);
            let indices = (0..keys.len() as u32).collect();
            let done = |index: u32| done(base + index as usize);
            let refuse = |index: u32, error| refused.push((base + index as usize, error));
            self.take_block(indices, &hash, mode, &mut buffers, done, refuse)?;
        }
        self.buffers = buffers.kept();
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
