//! `gowk dedup` into a store.

use gowk::Batches;

use super::super::failure::Failure;
use super::super::outcome::Outcome;
use super::super::window::Window;
use super::intake::{Given, Intake, Taken};

/// Prints keys that were not in the store, and commits them. A run with a token that was committed before prints what
/// the first one printed.
pub(in super::super) fn dedup(given: Given<'_>, window: &Window) -> Result<Outcome, Failure> {
    let path = given.store;
    let intake = Intake::open(given)?;
    window.check_rules(intake.key_rules(), path)?;
    intake.run(|update, keys, output| {
        let known = window.known(keys)?;
        let inserted = update.insert_batch(keys)?;
        let new = keys.iter().enumerate().filter(|(index, _)| inserted.is_new(*index));
        let (known, new): (Vec<_>, Vec<_>) = new.partition(|(index, _)| known.get(*index) == Some(&true));
        new.iter().try_for_each(|(_, key)| output.key(key.record))?;
        Ok(Taken::of(inserted).without(known.len() as u64))
    })
}
