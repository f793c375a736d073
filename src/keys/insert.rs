//! Keys into a filter, some of which it may refuse.

use crate::{Error, Result, Writer};

/// Inserts keys that are not there yet, as [`Writer::insert_unique_batch`] does, and returns those for which there was
/// no room, by their index and with the reason.
///
/// `new` gets one answer a key: whether it is new, which is to say not found before. A key without room is new each
/// time that it comes, as nothing remembers it. All other keys are in the filter now.
///
/// Fails where the filter as a whole does. The answers then say which keys were stored before that; the others are
/// false, and their keys may be given again.
pub fn insert_unique<K: AsRef<[u8]> + Sync>(
    writer: &mut Writer,
    keys: &[K],
    new: &mut Vec<bool>,
) -> Result<Vec<(usize, Error)>> {
    let refused = writer.insert_unique_batch(keys, new)?;
    for (index, _) in &refused {
        if let Some(new) = new.get_mut(*index) {
            *new = true;
        }
    }
    Ok(refused)
}

/// The keys that [`insert_unique`] has found new, in their order.
pub fn selected<'a, K>(keys: &'a [K], new: &'a [bool]) -> impl Iterator<Item = &'a K> {
    keys.iter().zip(new).filter(|(_, new)| **new).map(|(key, _)| key)
}
