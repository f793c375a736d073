//! `gowk dedup` into a store.

use gowk::Batches;

use super::super::failure::Failure;
use super::super::outcome::Outcome;
use super::intake::{Given, Intake, Taken};

/// Prints keys that were not in the store, and commits them. A run with a token that was committed before prints what
/// the first one printed.
pub(in super::super) fn dedup(given: Given<'_>) -> Result<Outcome, Failure> {
    Intake::open(given)?.run(|update, keys, output| {
        let inserted = update.insert_batch(keys)?;
        let new = keys.iter().enumerate().filter(|(index, _)| inserted.is_new(*index));
        new.map(|(_, key)| key).try_for_each(|key| output.key(key.record))?;
        Ok(Taken::of(inserted))
    })
}
