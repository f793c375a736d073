//! Keys with individual lifetimes, in a forgetting filter. The slot holds its entry's expiry epoch, so a shorter lifetime
//! costs nothing more. `format-spec/README.md`, section 4.10.

use std::time::Duration;

use super::inserted::Inserted;
use super::time::InTime;
use super::writer::Writer;
use crate::cuckoo::Key;
use crate::error::{Error, Result};

impl Writer {
    /// Inserts a key that a forgetting filter keeps for this lifetime from now on, which may be at most the time that the
    /// filter keeps other keys ([`Options::forget_after`](crate::Options::forget_after)). Returns whether the key is new.
    /// A key that is present already is kept until the later of the two expiries, so a shorter lifetime never shortens
    /// its stay.
    ///
    /// The key is present for `lifetime`, and expires at most `forget_within` later, as all keys do.
    ///
    /// Fails with [`Error::Option`] if the lifetime is longer than the filter keeps keys, with [`Error::Newest`] if the
    /// filter keeps a number of newest keys, with [`Error::Kind`] on a filter of another kind, and otherwise as
    /// [`insert`](Self::insert).
    pub fn insert_for(&mut self, key: impl Key, lifetime: Duration) -> Result<bool> {
        let hash = self.hash(key)?;
        Ok(self.insert_batch_for(&[hash], &[lifetime])?.complete()? > 0)
    }

    /// Inserts keys with a lifetime each, like repeated calls of [`insert_for`](Self::insert_for) but with the threads
    /// and the outcome of [`insert_batch`](crate::Batches::insert_batch). Errors as for both; [`Error::Option`] if the
    /// number of lifetimes differs from the number of keys, or if a lifetime is too long. Nothing is inserted then.
    pub fn insert_batch_for<K: Key + Sync>(
        &mut self,
        keys: &[K],
        lifetimes: &[Duration],
    ) -> Result<Inserted> {
        self.outcome_for_lifetimes(keys, lifetimes)
    }

    /// Like [`insert_batch_for`](Self::insert_batch_for), but calls `new` with the index of each new key, also before an
    /// error. Returns the indices of keys without room, each with its error, in ascending order; an absent key without
    /// room is also new.
    pub fn insert_each_for<K: Key + Sync>(
        &mut self,
        keys: &[K],
        lifetimes: &[Duration],
        new: impl FnMut(usize),
    ) -> Result<Vec<(usize, Error)>> {
        self.insert_for_lifetimes(keys, lifetimes, new)
    }
}
