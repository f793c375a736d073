//! Many keys at a time into the shards of a store: what users call. How they are taken: `update.rs`.

use super::error::{Error, Result};
use super::update::{Deed, Update};
use crate::write::in_chunks;
use crate::{Change, Inserted, Key, Kind};

/// Works on as many threads as [`Options::threads`](crate::Options::threads) says, each with a shard of its own.
impl Change for Update {
    type Error = Error;

    fn insert_batch<K: Key + Sync>(&mut self, keys: &[K]) -> Result<Inserted> {
        let mut inserted = Inserted::of(keys.len());
        let refused = self.take_all(keys, Deed::Insert, |index| inserted.set_new(index))?;
        Ok(inserted.with_refused(refused))
    }

    fn remove_batch<K: Key + Sync>(&mut self, keys: &[K]) -> Result<Vec<bool>> {
        self.check_removals()?;
        let mut removed = vec![false; keys.len()];
        let set = |index: usize| removed.get_mut(index).into_iter().for_each(|place| *place = true);
        self.take_all(keys, Deed::Remove, set)?;
        Ok(removed)
    }

    fn insert_all<K: Key>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<Inserted> {
        let (store, mut inserted) = (self.store.clone(), Inserted::default());
        in_chunks(
            keys,
            |key| store.hash(key),
            |hashes| {
                inserted.append(self.insert_batch(hashes)?);
                Ok(())
            },
        )?;
        Ok(inserted)
    }

    fn remove_all<K: Key>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<u64> {
        self.check_removals()?;
        let (store, mut removed) = (self.store.clone(), 0);
        let hash = |key| store.hash(key);
        in_chunks(keys, hash, |hashes| self.take_all(hashes, Deed::Remove, |_| removed += 1).map(drop))?;
        Ok(removed)
    }
}

impl Update {
    fn check_removals(&self) -> Result<()> {
        match self.store.description().kind {
            Kind::Counting => Ok(()),
            found => {
                let path = self.store.path().to_owned();
                Err(crate::Error::Kind { path, found, wanted: Kind::Counting, op: "removing keys" }.into())
            }
        }
    }
}
