//! The outcome of inserting a batch of keys.

use std::fmt;

use crate::error::Error;

/// Refused keys in the order of their indices.
pub(crate) fn by_index(mut refused: Vec<(usize, Error)>) -> Vec<(usize, Error)> {
    refused.sort_by_key(|(index, _)| *index);
    refused
}

/// The outcome of inserting many keys: which keys are new, and which found no room.
///
/// Takes one bit of memory a key. Inserts of slices and of iterators, into filters and into stores, return it. The
/// compiler warns if it is not used:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # fn main() {}
/// use gowk::Batches;
///
/// fn insert(writer: &mut gowk::Writer) -> gowk::Result<()> {
///     writer.insert_batch(&["a", "b"])?;
///     Ok(())
/// }
/// ```
///
/// ```
/// #![deny(unused_must_use)]
/// # fn main() {}
/// use gowk::Batches;
///
/// fn insert(writer: &mut gowk::Writer) -> gowk::Result<()> {
///     writer.insert_batch(&["a", "b"])?.complete()?;
///     Ok(())
/// }
/// ```
#[derive(Default)]
#[must_use = "some keys may have been refused for want of room: see `refused` or `complete`"]
pub struct Inserted {
    keys: usize,
    /// One bit for each key, from the lowest of each word on.
    new: Vec<u64>,
    refused: Vec<(usize, Error)>,
}

const WORD: usize = u64::BITS as usize;

impl Inserted {
    /// The outcome for `keys` keys, none of them new.
    pub(crate) fn of(keys: usize) -> Self {
        Self { keys, new: vec![0; keys.div_ceil(WORD)], refused: Vec::new() }
    }

    /// The outcome for `keys` keys, all of them new.
    pub(crate) fn all_new(keys: usize) -> Self {
        let mut new = vec![u64::MAX; keys.div_ceil(WORD)];
        if let (Some(last), 1..) = (new.last_mut(), keys % WORD) {
            *last = (1 << (keys % WORD)) - 1;
        }
        Self { keys, new, refused: Vec::new() }
    }

    #[inline]
    pub(crate) fn set_seen(&mut self, index: usize) {
        if let Some(word) = self.new.get_mut(index / WORD) {
            *word &= !(1 << (index % WORD));
        }
    }

    #[inline]
    pub(crate) fn set_new(&mut self, index: usize) {
        if let Some(word) = self.new.get_mut(index / WORD) {
            *word |= 1 << (index % WORD);
        }
    }

    /// Adds the refused keys, in the order of their indices.
    pub(crate) fn with_refused(self, refused: Vec<(usize, Error)>) -> Self {
        Self { refused, ..self }
    }

    /// Appends the outcome for the keys that come next.
    pub(crate) fn append(&mut self, next: Self) {
        let before = self.keys;
        self.keys += next.keys;
        self.new.resize(self.keys.div_ceil(WORD), 0);
        let (word, shift) = (before / WORD, before % WORD);
        for (index, bits) in (word..).zip(&next.new) {
            let parts = [Some(bits << shift), bits.checked_shr((WORD - shift) as u32)];
            for (index, part) in (index..).zip(parts) {
                if let (Some(word), Some(part)) = (self.new.get_mut(index), part) {
                    *word |= part;
                }
            }
        }
        self.refused.extend(next.refused.into_iter().map(|(index, error)| (before + index, error)));
    }

    /// How many keys were given.
    pub const fn keys(&self) -> usize {
        self.keys
    }

    /// How many keys are new, that is, absent before. A refused key counts as new each time, unless copies of it are
    /// stored.
    pub fn new_keys(&self) -> usize {
        self.new.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the key with this index in the batch is new; false for an index beyond it.
    pub fn is_new(&self, index: usize) -> bool {
        self.new.get(index / WORD).is_some_and(|word| word >> (index % WORD) & 1 == 1)
    }

    /// Whether each key is new, in the order of the keys.
    pub fn mask(&self) -> Vec<bool> {
        (0..self.keys).map(|index| self.is_new(index)).collect()
    }

    /// The keys that found no room, by ascending index, with the reason: [`Error::Full`] or [`Error::Growth`]. All other
    /// keys are in the filter.
    pub fn refused(&self) -> &[(usize, Error)] {
        &self.refused
    }

    /// The keys that found no room, as [`refused`](Self::refused) returns them.
    pub fn into_refused(self) -> Vec<(usize, Error)> {
        self.refused
    }

    /// How many keys are new, if all found room; otherwise the error of the first key without room.
    pub fn complete(self) -> Result<usize, Error> {
        let new = self.new_keys();
        self.refused.into_iter().next().map_or(Ok(new), |(_, error)| Err(error))
    }
}

impl fmt::Debug for Inserted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (new, refused) = (self.new_keys(), self.refused.len());
        f.debug_struct("Inserted")
            .field("keys", &self.keys)
            .field("new", &new)
            .field("refused", &refused)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts of every length, appended to each other, equal the outcome of one batch.
    #[test]
    fn parts_add_up() {
        let is_new = |index: usize| index.is_multiple_of(3) || index % 7 == 5;
        for lengths in [[0, 0, 0], [1, 64, 65], [63, 1, 200], [64, 64, 64], [130, 0, 7], [5, 100, 64]] {
            let (mut all, mut start) = (Inserted::default(), 0);
            for length in lengths {
                let mut part = Inserted::of(length);
                (0..length).filter(|index| is_new(start + index)).for_each(|index| part.set_new(index));
                let refused = (length > 1).then(|| (1, Error::Poisoned { path: "f".into() }));
                all.append(part.with_refused(refused.into_iter().collect()));
                start += length;
            }
            let expected: Vec<bool> = (0..start).map(is_new).collect();
            assert_eq!((all.keys(), all.mask()), (start, expected.clone()), "{lengths:?}");
            assert_eq!(all.new_keys(), expected.iter().filter(|new| **new).count());
            assert!(!all.is_new(start));
            for (index, _) in all.refused() {
                assert!([1, lengths[0] + 1, lengths[0] + lengths[1] + 1].contains(index));
            }
        }
    }

    #[test]
    fn all_keys_are_new_up_to_the_last_and_none_behind_it() {
        for keys in [0, 1, 63, 64, 65, 127, 128, 130] {
            let all = Inserted::all_new(keys);
            assert_eq!((all.keys(), all.new_keys(), all.mask()), (keys, keys, vec![true; keys]));
            assert!(!all.is_new(keys));
        }
    }

    #[test]
    fn refused_keys_are_told_with_their_reasons() {
        let error = || Error::Poisoned { path: "f".into() };
        let refused = || Inserted::all_new(9).with_refused(vec![(2, error()), (7, error())]);
        let indices =
            |refused: &[(usize, Error)]| refused.iter().map(|(index, _)| *index).collect::<Vec<_>>();
        assert_eq!(indices(refused().refused()), [2, 7]);
        assert_eq!(indices(&refused().into_refused()), [2, 7]);
        assert!(refused().complete().is_err());
        assert_eq!(Inserted::all_new(9).complete().unwrap(), 9);
    }
}
