//! Keys into a filter, some of which it may refuse.

use crate::{Error, Writer};

/// Why not all of some keys were taken.
#[derive(Debug)]
pub struct Refused<E> {
    /// Keys taken, from the first on.
    pub taken: usize,
    /// Why the next one was not.
    pub cause: E,
}

impl<E> Refused<E> {
    /// The same with another kind of error, as `?` would make of it.
    pub fn into<F: From<E>>(self) -> Refused<F> {
        Refused { taken: self.taken, cause: self.cause.into() }
    }
}

/// Inserts keys that are not there yet, as [`Writer::insert_unique_batch`] does; `stored` gets one answer a key.
///
/// Fails with the first key that is refused: those before it were taken. Keys behind it may have been inserted as
/// well, as `stored` says; they are found when they come again. Where the filter as a whole failed, none counts as
/// taken.
pub fn insert_unique(
    writer: &mut Writer,
    keys: &[&[u8]],
    stored: &mut Vec<bool>,
) -> Result<(), Refused<Error>> {
    match writer.insert_unique_batch(keys, stored).map(|refused| refused.into_iter().next()) {
        Ok(None) => Ok(()),
        Ok(Some((taken, cause))) => Err(Refused { taken, cause }),
        Err(cause) => Err(Refused { taken: 0, cause }),
    }
}

/// The keys that [`insert_unique`] has stored, in their order.
pub fn stored<'a>(keys: &[&'a [u8]], stored: &[bool]) -> impl Iterator<Item = &'a [u8]> {
    keys.iter().zip(stored).filter(|(_, stored)| **stored).map(|(key, _)| *key)
}
