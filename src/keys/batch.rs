//! Keys one after the other.

/// Keys one after the other, in two allocations for any number of keys.
///
/// ```
/// let mut batch = gowk::keys::Batch::default();
/// batch.push(b"one");
/// batch.push(b"");
/// assert_eq!(batch.iter().collect::<Vec<_>>(), [b"one".as_slice(), b""]);
/// ```
#[derive(Clone, Default, Debug)]
pub struct Batch {
    /// The keys, with one byte between each two: the separator of the stream that they were cut out of.
    pub(super) bytes: Vec<u8>,
    /// The end of each key in `bytes`.
    pub(super) ends: Vec<usize>,
}

impl Batch {
    /// Adds a key behind the others.
    pub fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        self.bytes.push(b'\n');
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
