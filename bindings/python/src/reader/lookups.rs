//! Lookups of many keys.

use gowk::Lookup;

use crate::feed::{Operation, Stopped};

/// How many keys are looked up at a time, for each thread.
const ROWS: usize = 1 << 14;
/// Like `ROWS`, with several threads. No thread is started for fewer than 32,768 keys.
const ROWS_OF_THREADS: usize = 1 << 17;

pub(super) struct Contains<'a> {
    pub(super) reader: &'a gowk::Reader,
    pub(super) threads: usize,
}

impl Operation for Contains<'_> {
    type Answer = bool;

    fn rows(&self) -> usize {
        if self.threads == 1 { ROWS } else { self.threads.saturating_mul(ROWS_OF_THREADS) }
    }

    fn take(&mut self, keys: &[&[u8]], found: &mut Vec<bool>) -> Result<(), Stopped> {
        *found = self.reader.contains_batch(keys)?;
        Ok(())
    }
}

pub(super) struct Counts<'a>(pub(super) &'a gowk::Reader);

impl Operation for Counts<'_> {
    type Answer = u64;

    fn rows(&self) -> usize {
        ROWS
    }

    fn take(&mut self, keys: &[&[u8]], counts: &mut Vec<u64>) -> Result<(), Stopped> {
        for key in keys {
            counts.push(self.0.count(key)?.into());
        }
        Ok(())
    }
}
