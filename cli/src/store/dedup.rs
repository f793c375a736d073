//! `gowk dedup` into a store.

use gowk::keys;

use super::super::failure::Failure;
use super::super::outcome::Outcome;
use super::intake::{Given, Intake, Taken};

/// Prints keys that were not in the store, and commits them. A run with a token that was committed before prints what
/// the first one printed.
pub(in super::super) fn dedup(given: Given<'_>) -> Result<Outcome, Failure> {
    let mut new = Vec::new();
    Intake::open(given)?.run(|update, keys, output| {
        let refused = update.insert_unique_batch_into(keys, &mut new)?;
        keys::count_refused(&refused, &mut new);
        keys::selected(keys, &new).try_for_each(|key| output.key(key.record))?;
        Ok(Taken::of(&new, refused))
    })
}
