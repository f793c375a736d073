//! `gowk dedup` into a store.

use gowk::keys;

use super::super::failure::Failure;
use super::super::outcome::Outcome;
use super::intake::{Given, Intake};

/// Prints keys that were not in the store, and commits them. A transaction that was committed before prints what it
/// printed then.
pub(in super::super) fn dedup(given: Given<'_>) -> Result<Outcome, Failure> {
    let mut stored = Vec::new();
    Intake::open(given)?.run(|update, keys, output| {
        let refused = update.insert_unique_batch(keys, &mut stored)?;
        if let Some((_, error)) = refused.into_iter().next() {
            return Err(error.into());
        }
        keys::stored(keys, &stored).try_for_each(|key| output.key(key))
    })
}
