//! Keys on their way from the reading thread to the filter.

use super::source::Position;
use super::summary::Counts;

/// Consecutive keys of one input.
#[derive(Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Records without a key among them.
    pub(super) skipped: Counts,
}

impl Batch {
    pub(super) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    pub(super) fn keys(&self) -> Vec<&[u8]> {
        let mut start = 0;
        let mut next = |end: &usize| {
            let key = &self.bytes[start..*end];
            start = *end;
            key
        };
        self.ends.iter().map(&mut next).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty() && self.skipped == Counts::default()
    }
}

/// What the reading thread says.
pub(super) enum Message {
    /// The task of this index begins.
    Begin(usize),
    /// Keys, how far the input was read with them, and bytes of its file read ahead of that.
    Keys { batch: Batch, read: Position, raw: u64, commit: bool },
    /// The input was read to its end.
    End(super::cursor::Finished),
}
