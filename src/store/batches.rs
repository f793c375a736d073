//! Many keys at a time into the shards of a store: what users call. How they are taken: `update.rs`.

use super::error::Result;
use super::update::{Deed, Update};
#[cfg(doc)]
use crate::Options;
#[cfg(doc)]
use crate::Writer;
use crate::{Error as FilterError, Inserted, KeyHash, Refused};

/// Keys of an iterator that are hashed, and then taken, at a time.
const CHUNK: usize = 1 << 20;

impl Update {
    /// Stores one more copy of each key, and returns those refused, by their index and with the reason, as
    /// [`Writer::insert_batch`] does. Works on as many threads as [`Options::threads`] says, each with a shard of its
    /// own. Any other error ends the batch; what was inserted before it still belongs to the update.
    pub fn insert_batch<K: AsRef<[u8]> + Sync>(&mut self, keys: &[K]) -> Result<Vec<(usize, FilterError)>> {
        let store = self.store.clone();
        self.take_all(keys, |key| store.hash(key.as_ref()), Deed::Insert, &mut Vec::new())
    }

    /// As [`insert_batch`](Self::insert_batch), for keys hashed before.
    pub fn insert_hash_batch(&mut self, hashes: &[KeyHash]) -> Result<Vec<(usize, FilterError)>> {
        self.take_all(hashes, |hash| Ok(*hash), Deed::Insert, &mut Vec::new())
    }

    /// Stores each key unless it is found already, and otherwise as [`insert_batch`](Self::insert_batch): of equal keys,
    /// the first counts. Returns one answer a key, whether it was stored, and the keys refused.
    pub fn insert_unique_batch<K: AsRef<[u8]> + Sync>(&mut self, keys: &[K]) -> Result<(Vec<bool>, Refused)> {
        let mut stored = Vec::new();
        let refused = self.insert_unique_batch_into(keys, &mut stored)?;
        Ok((stored, refused))
    }

    /// As [`insert_unique_batch`](Self::insert_unique_batch), with the answers in `stored`.
    pub fn insert_unique_batch_into<K: AsRef<[u8]> + Sync>(
        &mut self,
        keys: &[K],
        stored: &mut Vec<bool>,
    ) -> Result<Vec<(usize, FilterError)>> {
        let store = self.store.clone();
        self.take_all(keys, |key| store.hash(key), Deed::InsertUnique, stored)
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
    ) -> Result<Vec<(usize, FilterError)>> {
        self.take_all(hashes, |hash| Ok(*hash), Deed::InsertUnique, stored)
    }

    /// Removes one copy of each key, as [`Writer::remove_batch`] does. Returns one answer a key, whether a copy was
    /// removed.
    pub fn remove_batch<K: AsRef<[u8]> + Sync>(&mut self, keys: &[K]) -> Result<Vec<bool>> {
        let mut removed = Vec::new();
        self.remove_batch_into(keys, &mut removed)?;
        Ok(removed)
    }

    /// As [`remove_batch`](Self::remove_batch), with the answers in `removed`.
    pub fn remove_batch_into<K: AsRef<[u8]> + Sync>(
        &mut self,
        keys: &[K],
        removed: &mut Vec<bool>,
    ) -> Result<()> {
        let store = self.store.clone();
        self.take_all(keys, |key| store.hash(key), Deed::Remove, removed).map(drop)
    }

    /// As [`remove_batch`](Self::remove_batch), even if inserts were skipped: see [`Writer::remove_unchecked`].
    pub fn remove_unchecked_batch<K: AsRef<[u8]> + Sync>(&mut self, keys: &[K]) -> Result<Vec<bool>> {
        let mut removed = Vec::new();
        self.remove_unchecked_batch_into(keys, &mut removed)?;
        Ok(removed)
    }

    /// As [`remove_unchecked_batch`](Self::remove_unchecked_batch), with the answers in `removed`.
    pub fn remove_unchecked_batch_into<K: AsRef<[u8]> + Sync>(
        &mut self,
        keys: &[K],
        removed: &mut Vec<bool>,
    ) -> Result<()> {
        let store = self.store.clone();
        self.take_all(keys, |key| store.hash(key), Deed::RemoveUnchecked, removed).map(drop)
    }

    /// As [`remove_batch`](Self::remove_batch), for keys hashed before.
    pub fn remove_hash_batch(&mut self, hashes: &[KeyHash]) -> Result<Vec<bool>> {
        let mut removed = Vec::new();
        self.remove_hash_batch_into(hashes, &mut removed)?;
        Ok(removed)
    }

    /// As [`remove_batch_into`](Self::remove_batch_into), for keys hashed before.
    pub fn remove_hash_batch_into(&mut self, hashes: &[KeyHash], removed: &mut Vec<bool>) -> Result<()> {
        self.take_all(hashes, |hash| Ok(*hash), Deed::Remove, removed).map(drop)
    }

    /// Inserts all keys of an iterator, as [`Writer::insert_all`] does.
    pub fn insert_all<K: AsRef<[u8]>>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<Inserted> {
        let mut inserted = Inserted::default();
        self.take_iterated(keys, Deed::Insert, |done, refused| {
            inserted.add(done.len(), done.len() - refused.len(), refused);
        })?;
        Ok(inserted)
    }

    /// Stores each key of an iterator unless it is found already, as [`Writer::insert_unique_all`] does.
    pub fn insert_unique_all<K: AsRef<[u8]>>(
        &mut self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Inserted> {
        let mut inserted = Inserted::default();
        self.take_iterated(keys, Deed::InsertUnique, |done, refused| {
            inserted.add(done.len(), done.iter().filter(|stored| **stored).count(), refused);
        })?;
        Ok(inserted)
    }

    /// Removes one copy of each key of an iterator, as [`Writer::remove_all`] does; returns how many were removed.
    pub fn remove_all<K: AsRef<[u8]>>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<u64> {
        let mut removed = 0;
        self.take_iterated(keys, Deed::Remove, |done, _| {
            removed += done.iter().filter(|removed| **removed).count() as u64;
        })?;
        Ok(removed)
    }

    /// Hashes the keys and takes the hashes, many at a time; `done` gets an answer for each, and those refused.
    fn take_iterated<K: AsRef<[u8]>>(
        &mut self,
        keys: impl IntoIterator<Item = K>,
        deed: Deed,
        mut done: impl FnMut(&[bool], Vec<(usize, FilterError)>),
    ) -> Result<()> {
        let (mut keys, mut answers) = (keys.into_iter(), Vec::new());
        loop {
            let hashes = keys.by_ref().take(CHUNK).map(|key| self.store.hash(key));
            let hashes = hashes.collect::<Result<Vec<_>>>()?;
            let refused = self.take_all(&hashes, |hash| Ok(*hash), deed, &mut answers)?;
            done(&answers, refused);
            if hashes.len() < CHUNK {
                return Ok(());
            }
        }
    }
}
