//! Lookups of many keys in a store.

use gowk::Lookup;
use gowk::store::{Rejudged, Store, StoreReader};
use pyo3::prelude::*;

use crate::feed::{Operation, Stopped, feed};

/// How many keys are looked up at a time, for each thread.
const ROWS: usize = 1 << 17;

pub(super) fn contains(reader: &StoreReader, keys: &Bound<'_, PyAny>, threads: usize) -> PyResult<Vec<bool>> {
    let take = |keys: &[&[u8]], found: &mut Vec<bool>| {
        *found = reader.contains_batch(keys)?;
        Ok(())
    };
    feed(keys, Lookups { rows: ROWS.saturating_mul(threads), take, answer: std::marker::PhantomData })
}

/// Which of the keys were judged again, and are not new.
pub(super) fn rejudged(
    store: &Store,
    rejudged: Option<&Rejudged>,
    keys: &Bound<'_, PyAny>,
) -> PyResult<Vec<bool>> {
    let take = |keys: &[&[u8]], found: &mut Vec<bool>| {
        for key in keys {
            let hash = store.hash(key)?;
            found.push(rejudged.is_some_and(|rejudged| rejudged.has(hash)));
        }
        Ok(())
    };
    feed(keys, Lookups { rows: ROWS, take, answer: std::marker::PhantomData })
}

pub(super) fn count(reader: &StoreReader, keys: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    let take = |keys: &[&[u8]], counts: &mut Vec<u64>| {
        for key in keys {
            counts.push(reader.count(key)?.into());
        }
        Ok(())
    };
    feed(keys, Lookups { rows: ROWS, take, answer: std::marker::PhantomData })
}

pub(super) fn shards(store: &Store, keys: &Bound<'_, PyAny>) -> PyResult<Vec<i32>> {
    let take = |keys: &[&[u8]], shards: &mut Vec<Shard>| {
        for key in keys {
            // This fits: there are at most 65536 shards.
            shards.push(Shard(store.description().shard_of(store.hash(key)?) as i32));
        }
        Ok(())
    };
    let shards = feed(keys, Lookups { rows: ROWS, take, answer: std::marker::PhantomData })?;
    Ok(shards.into_iter().map(|Shard(shard)| shard).collect())
}

/// The shard of a key; a null has -1.
#[derive(Clone, Copy)]
struct Shard(i32);

impl Default for Shard {
    fn default() -> Self {
        Self(-1)
    }
}

/// Lookups of many keys, in chunks.
struct Lookups<A, F> {
    rows: usize,
    take: F,
    answer: std::marker::PhantomData<fn() -> A>,
}

impl<A, F> Operation for Lookups<A, F>
where
    A: Copy + Default + Send + 'static,
    F: FnMut(&[&[u8]], &mut Vec<A>) -> Result<(), Stopped> + Send,
{
    type Answer = A;

    fn rows(&self) -> usize {
        self.rows
    }

    fn take(&mut self, keys: &[&[u8]], answers: &mut Vec<A>) -> Result<(), Stopped> {
        (self.take)(keys, answers)
    }
}
