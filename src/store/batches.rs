//! Many keys at a time into the shards of a store: the methods for users. `update.rs` does the work.

use super::error::{Error, Result};
use super::fold::Operation;
use super::update::Update;
use crate::write::{InTime as _, Told};
use crate::{Batches, Error as FilterError, Inserted, Key, KeyHash, Kind};

/// Uses up to [`Options::threads`](crate::Options::threads) threads, each of which works on a shard of its own.
impl Batches for Update {
    type Error = Error;

    #[inline]
    fn hash<K: Key>(&self, key: K) -> Result<KeyHash> {
        self.store.hash(key)
    }

    fn insert_each<K: Key + Sync>(
        &mut self,
        keys: &[K],
        new: impl FnMut(usize),
    ) -> Result<Vec<(usize, FilterError)>> {
        self.insert_reporting(keys, Told::New, new)
    }

    fn insert_batch<K: Key + Sync>(&mut self, keys: &[K]) -> Result<Inserted> {
        let mut inserted = Inserted::all_new(keys.len());
        let refused = self.insert_reporting(keys, Told::Seen, |index| inserted.set_seen(index))?;
        Ok(inserted.with_refused(refused))
    }

    fn remove_each<K: Key + Sync>(&mut self, keys: &[K], removed: impl FnMut(usize)) -> Result<()> {
        let found = self.store.description().kind;
        if found != Kind::Counting {
            let (path, wanted) = (self.store.path().to_owned(), Kind::Counting);
            return Err(FilterError::Kind { path, found, wanted, op: "removing keys" }.into());
        }
        self.take_all(keys, Operation::Remove, &|_| 0, removed).map(drop)
    }
}

impl Update {
    /// Inserts all keys, and calls `done` with the indices that `reported` selects.
    fn insert_reporting<K: Key + Sync>(
        &mut self,
        keys: &[K],
        reported: Told,
        done: impl FnMut(usize),
    ) -> Result<Vec<(usize, FilterError)>> {
        let expiry = if self.forgets() { self.expiry_now()? } else { 0 };
        self.take_all(keys, Operation::Insert(reported), &|_| expiry, done)
    }
}
