//! Keys one after the other.

/// Keys one after the other, in two allocations for any number of keys.
///
/// ```
/// let mut batch = gowk_ingest::keys::Batch::default();
/// batch.push(b"one");
/// batch.push(b"");
/// assert_eq!(batch.iter().collect::<Vec<_>>(), [b"one".as_slice(), b""]);
/// ```
#[derive(Clone, Default, Debug)]
pub struct Batch {
    /// The keys, with one byte between each two: the separator of their stream.
    pub(super) bytes: Vec<u8>,
    /// The end of each key in `bytes`.
    pub(super) ends: Vec<usize>,
}

impl Batch {
    /// An empty batch with as much room as `other`.
    pub(crate) fn with_room_of(other: &Self) -> Self {
        Self { bytes: Vec::with_capacity(other.bytes.len()), ends: Vec::with_capacity(other.ends.len()) }
    }

    /// Adds a key after the others.
    pub fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        self.bytes.push(b'\n');
    }

    /// Adds keys of `other`, from index `from` on, until this batch has `keys` of them, or until their bytes, plus one
    /// for each key, are at least `bytes`. Returns the index in `other` of the next key.
    ///
    /// ```
    /// use gowk_ingest::keys::Batch;
    /// let (mut some, mut more) = (Batch::default(), Batch::default());
    /// ["a", "b", "c", "d"].iter().for_each(|key| more.push(key.as_bytes()));
    /// assert_eq!(some.fill(&more, 0, 3, 100), 3);
    /// assert_eq!(some.fill(&more, 3, 100, 7), 4);
    /// assert_eq!(some.iter().collect::<Vec<_>>(), [b"a", b"b", b"c", b"d"]);
    /// ```
    pub fn fill(&mut self, other: &Self, from: usize, keys: usize, bytes: usize) -> usize {
        // The last key of a stream may have no separator after it.
        self.bytes.resize(self.ends.last().map_or(0, |end| end + 1), b'\n');
        let base = self.bytes.len();
        let most = if base < bytes { keys.saturating_sub(self.len()) } else { 0 };
        let begin = from.checked_sub(1).and_then(|last| other.ends.get(last)).map_or(0, |end| end + 1);
        let ends = other.ends.get(from..).unwrap_or_default();
        let below = ends.partition_point(|end| base + end + 1 - begin < bytes);
        let taken = ends.get(..most.min(below + 1)).unwrap_or(ends);
        let Some(end) = taken.last() else { return from };
        self.bytes.extend_from_slice(&other.bytes[begin..*end]);
        self.ends.extend(taken.iter().map(|end| base + end - begin));
        from + taken.len()
    }

    /// The keys in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let key = &self.bytes[start..end];
            start = end + 1;
            key
        })
    }

    /// The number of keys.
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no key.
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use crate::keys::Lines;

    use super::*;

    /// Cuts a stream that arrives in pieces of one length into batches of limited keys and bytes.
    fn cut(stream: &[u8], piece: usize, keys: usize, bytes: usize) -> Vec<Vec<Vec<u8>>> {
        let (mut all, mut full) = (Vec::new(), Batch::default());
        let mut send = |batch: &mut Batch| {
            let batch = std::mem::take(batch);
            all.push(batch.iter().map(<[u8]>::to_vec).collect::<Vec<_>>());
        };
        let parts: Vec<Batch> =
            stream.chunks(piece).map(|part| Lines::new(part, b'\n').next().unwrap().unwrap()).collect();
        for part in &parts {
            let mut taken = 0;
            while taken < part.len() {
                let before = full.len();
                taken = full.fill(part, taken, keys, bytes);
                if taken < part.len() || full.len() == before {
                    send(&mut full);
                }
            }
        }
        send(&mut full);
        all
    }

    #[test]
    fn where_a_batch_is_full_depends_on_its_keys_alone() {
        let stream = "\na\n\nbb\nccc\n".repeat(50);
        for (keys, bytes) in [(1, 100), (3, 100), (7, 1), (100, 9), (13, 30), (1000, 1000)] {
            // Parts end after whole repetitions, which have 11 bytes.
            let whole = cut(stream.as_bytes(), stream.len(), keys, bytes);
            assert_eq!(
                whole.concat(),
                stream.lines().map(|line| line.as_bytes().to_vec()).collect::<Vec<_>>()
            );
            for (index, batch) in whole.iter().enumerate() {
                let length: usize = batch.iter().map(|key| key.len() + 1).sum();
                let last = batch.last().map_or(0, |key| key.len() + 1);
                assert!(batch.len() <= keys && length - last < bytes, "{keys} {bytes}");
                let is_last = index + 1 == whole.len();
                assert!(batch.len() == keys || length >= bytes || is_last, "{keys} {bytes}");
            }
            for piece in [11, 22, 55, 110, 440] {
                assert_eq!(cut(stream.as_bytes(), piece, keys, bytes), whole, "{piece} {keys} {bytes}");
            }
        }
    }
}
