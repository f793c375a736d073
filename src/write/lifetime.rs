//! Keys with a lifetime of their own, in a forgetting filter. The slot holds the epoch in which its entry expires, so a
//! shorter lifetime costs nothing more. `format-spec/README.md`, section 4.10.

use std::time::Duration;

use super::inserted::Inserted;
use super::time::{InTime, Time, millis};
use super::writer::Writer;
use crate::cuckoo::Key;
use crate::error::{Error, Result};

/// Keys of a batch whose expiry is computed before the first of them is inserted.
const BLOCK: usize = 1 << 20;

impl Writer {
    /// Inserts a key that a forgetting filter keeps for this lifetime from now on, at most as long as the filter keeps
    /// others ([`Options::forget_after`](crate::Options::forget_after)). Returns whether it is new. A key that is there is kept
    /// until the later of both expiries, so a shorter lifetime never shortens its stay.
    ///
    /// The key is there for `lifetime`, and expires at most `forget_within` later, as all keys do.
    ///
    /// Fails with [`Error::Option`] if the lifetime is longer than the filter keeps keys, with [`Error::Newest`] if it keeps a
    /// number of newest keys, with [`Error::Kind`] on a filter of another kind, and otherwise as [`insert`](Self::insert).
    pub fn insert_for(&mut self, key: impl Key, lifetime: Duration) -> Result<bool> {
        let hash = self.hash(key)?;
        Ok(self.insert_batch_for(&[hash], &[lifetime])?.complete()? > 0)
    }

    /// Inserts keys with a lifetime each, as [`insert_for`](Self::insert_for) does one after the other, in the way of
    /// [`insert_batch`](crate::Batches::insert_batch). Errors as for both; [`Error::Option`] if there are not as many
    /// lifetimes as keys, or if one is too long. Nothing is inserted then.
    pub fn insert_batch_for<K: Key + Sync>(
        &mut self,
        keys: &[K],
        lifetimes: &[Duration],
    ) -> Result<Inserted> {
        let most = self.time_of_keys()?.forgetting.after;
        if keys.len() != lifetimes.len() {
            let found = format!("{} for {} keys", lifetimes.len(), keys.len());
            return Err(Error::Option { option: "lifetimes", found, expected: "one for each key" });
        }
        if let Some(longest) = lifetimes.iter().find(|lifetime| lifetime.as_millis() > u128::from(most)) {
            let found =
                format!("{longest:?}, where the filter keeps keys for {:?}", Duration::from_millis(most));
            return Err(Error::Option { option: "lifetime", found, expected: "at most as long" });
        }
        self.expiry_now()?;
        let now = millis(self.options.clock());
        let mut inserted = Inserted::of(keys.len());
        let mut refused = Vec::new();
        for (first, (keys, lifetimes)) in
            (0..).step_by(BLOCK).zip(keys.chunks(BLOCK).zip(lifetimes.chunks(BLOCK)))
        {
            let time = self.time()?;
            let expiries: Vec<u64> = lifetimes.iter().map(|lifetime| expiry(&time, now, *lifetime)).collect();
            let indices = (0..keys.len() as u32).collect();
            let new = |index| inserted.set_new(first + index);
            let refuse = |index, error| refused.push((first + index, error));
            self.insert_refreshing((keys, indices, &expiries), true, new, refuse)?;
        }
        Ok(inserted.with_refused(super::inserted::by_index(refused)))
    }
}

/// The epoch in which a key expires that is inserted now, in milliseconds since 1970, for this lifetime.
///
/// In epochs of 5 days: a key inserted on day 13 (epoch 2) for 4 days expires in epoch 4, which begins on day 20.
fn expiry(time: &Time, now: u64, lifetime: Duration) -> u64 {
    let lifetime = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
    let end = now.max(time.begin()).saturating_add(lifetime);
    end.div_ceil(time.forgetting.epoch).max(time.epoch + 1)
}
