//! Keys into a filter, some of which it may refuse.

use crate::{Error, Result, Writer};

/// Inserts keys that are not there yet, as [`Writer::insert_unique_batch_into`] does, and returns those for which there was
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
    let refused = writer.insert_unique_batch_into(keys, new)?;
    count_refused(&refused, new);
    Ok(refused)
}

/// Counts keys without room as new, in the answers of a batch that told which keys were stored. [`insert_unique`] has
/// done so; a batch into a store has not.
pub fn count_refused(refused: &[(usize, Error)], new: &mut [bool]) {
    for (index, _) in refused {
        if let Some(new) = new.get_mut(*index) {
            *new = true;
        }
    }
}

/// The keys that [`insert_unique`] has found new, in their order.
pub fn selected<'a, K>(keys: &'a [K], new: &'a [bool]) -> impl Iterator<Item = &'a K> {
    keys.iter().zip(new).filter(|(_, new)| **new).map(|(key, _)| key)
}
