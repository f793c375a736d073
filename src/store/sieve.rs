//! A Bloom filter of the records that are pending for one shard, in memory. With it, most absent keys are not looked up
//! in each run.
//!
//! Invariant: it has every record that was pending when it was built.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::Result;
use super::run::{Record, RecordKey};

/// At most this many records for each word of 64 bits. With three bits a record, all in one word, less than 0.7 % of
/// absent keys look present: (3 * 4 / 64)^3.
const RECORDS_A_WORD: u64 = 4;
/// A sieve is built after lookups of as many keys as this part of the records. Reading a record costs about an eighth of
/// looking up a key in eight runs.
const WORTH: u64 = 8;

/// The sieve of a shard, built once it is worth its cost.
#[derive(Default)]
pub(super) struct Sieving {
    /// How many keys were looked up.
    asked: AtomicU64,
    /// How many records are pending.
    pending: OnceLock<u64>,
    /// `None` if a record could not be read: then each lookup finds out whether that concerns its key.
    made: OnceLock<Option<Sieve>>,
}

impl Sieving {
    /// The sieve for a lookup of this many keys. If the sieve is due, builds it: `count` counts the records, and `make`
    /// builds the sieve from them.
    #[inline]
    pub(super) fn get(
        &self,
        keys: usize,
        count: impl FnOnce() -> Result<u64>,
        make: impl FnOnce(u64) -> Result<Sieve>,
    ) -> Option<&Sieve> {
        match self.made.get() {
            Some(made) => made.as_ref(),
            None => self.when_due(keys, count, make),
        }
    }

    #[cold]
    fn when_due(
        &self,
        keys: usize,
        count: impl FnOnce() -> Result<u64>,
        make: impl FnOnce(u64) -> Result<Sieve>,
    ) -> Option<&Sieve> {
        let asked = self.asked.fetch_add(keys as u64, Ordering::Relaxed).saturating_add(keys as u64);
        let pending = *self.pending.get_or_init(|| count().unwrap_or(u64::MAX));
        if asked < pending / WORTH {
            return None;
        }
        self.made.get_or_init(|| make(pending).ok()).as_ref()
    }
}

pub(super) struct Sieve(Vec<u64>);

impl Sieve {
    /// The sieve of these records; `most` is an upper bound of their number.
    pub(super) fn of(most: u64, records: impl IntoIterator<Item = Result<Record>>) -> Result<Self> {
        let words = most.div_ceil(RECORDS_A_WORD).next_power_of_two();
        let mut sieve = Self(vec![0; usize::try_from(words).unwrap_or(usize::MAX)]);
        for record in records {
            let (at, bits) = sieve.place(record?.key);
            sieve.0.get_mut(at).into_iter().for_each(|word| *word |= bits);
        }
        Ok(sieve)
    }

    /// Whether any record may have this key.
    #[inline]
    pub(super) fn may_have(&self, key: RecordKey) -> bool {
        let (at, bits) = self.place(key);
        self.0.get(at).is_none_or(|word| word & bits == bits)
    }

    /// The word of a key, and its bits in the word. The highest bits of a position are the same in the whole shard.
    #[inline]
    const fn place(&self, key: RecordKey) -> (usize, u64) {
        let position = key.position;
        let bits = 1 << (position & 63) | 1 << (position >> 6 & 63) | 1 << (position >> 12 & 63);
        ((position >> 18) as usize & (self.0.len() - 1), bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyHash;

    fn key(number: u64) -> RecordKey {
        let hash = (u128::from(number) << 64).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        RecordKey::of(KeyHash::new(hash ^ u128::from(number)))
    }

    #[test]
    fn every_record_passes_and_few_other_keys_do() {
        for count in [1, 3, 4, 5, 1000, 4096] {
            let records = (0..count).map(|number| Ok(Record { key: key(number), value: 1 }));
            let sieve = Sieve::of(count, records).unwrap();
            assert!((0..count).all(|number| sieve.may_have(key(number))), "{count}");
            let passed = (count..count + 100_000).filter(|number| sieve.may_have(key(*number))).count();
            assert!(passed < 2_000, "{count}: {passed} of 100,000");
        }
    }

    #[test]
    fn it_is_made_once_enough_keys_were_asked_for_and_not_where_a_record_cannot_be_read() {
        let sieving = Sieving::default();
        let make = |most| Sieve::of(most, std::iter::once(Ok(Record { key: key(1), value: 1 })));
        assert!(sieving.get(99, || Ok(800), make).is_none());
        assert!(sieving.get(1, || Ok(800), make).is_some_and(|sieve| sieve.may_have(key(1))));
        let failing = Sieving::default();
        let failed = |_| Err(crate::store::Error::Damaged { path: "run".into() });
        assert!(failing.get(1, || Ok(1), failed).is_none());
        assert!(failing.get(1, || Ok(1), make).is_none());
    }
}
