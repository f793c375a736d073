//! The records of one run, or of several merged, in order.

use std::ops::Range;

use super::{Record, RecordKey, Run};
use crate::Kind;
use crate::store::error::{Error, Result};

/// Records of a run. Each is checked. Ends after the first error.
pub(in super::super) struct Records<'a> {
    run: &'a Run,
    range: Range<u64>,
    /// The ranges after the current one, the next one last.
    later: Vec<Range<u64>>,
    before: Option<RecordKey>,
}

impl<'a> Records<'a> {
    /// The records with numbers in these ranges, which ascend.
    pub(super) fn new(run: &'a Run, ranges: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut later: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match later.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => later.push(range),
            }
        }
        later.reverse();
        Self { run, range: 0..0, later, before: None }
    }

    const fn kind(&self) -> Kind {
        self.run.head().kind
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = loop {
            match self.range.next() {
                Some(at) => break at,
                None => self.range = self.later.pop()?,
            }
        };
        let record = self.run.checked(at, self.before);
        match &record {
            Ok(record) => self.before = Some(record.key),
            Err(_) => {
                self.range = 0..0;
                self.later.clear();
            }
        }
        Some(record)
    }
}

/// The keys of several runs in order, each once, with the sum of its copies, possibly 0, or its latest expiry epoch. Ends
/// after the first error.
pub(in super::super) struct MergedRecords<'a> {
    /// Each run with its next record.
    runs: Vec<(Record, Records<'a>)>,
    failed: Option<Error>,
}

impl<'a> MergedRecords<'a> {
    pub(in super::super) fn new(runs: impl IntoIterator<Item = Records<'a>>) -> Self {
        let mut merged = Self { runs: Vec::new(), failed: None };
        for mut run in runs {
            match run.next() {
                None => {}
                Some(Ok(record)) => merged.runs.push((record, run)),
                Some(Err(error)) => merged.failed = Some(error),
            }
        }
        merged
    }
}

impl Iterator for MergedRecords<'_> {
    type Item = Result<(RecordKey, i64)>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            self.runs.clear();
            return Some(Err(error));
        }
        // Runs are few, so looking at each is the way to find the lowest key.
        let key = self.runs.iter().map(|(record, _)| record.key).min()?;
        let (mut value, mut at) = (0, 0);
        while let Some((record, run)) = self.runs.get_mut(at) {
            if record.key != key {
                at += 1;
                continue;
            }
            value = match run.kind() {
                Kind::Forgetting => record.value.max(value),
                Kind::Set | Kind::Counting => value + record.value,
            };
            match run.next() {
                Some(Ok(next)) => *record = next,
                None => drop(self.runs.swap_remove(at)),
                Some(Err(error)) => {
                    self.runs.clear();
                    return Some(Err(error));
                }
            }
        }
        Some(Ok((key, value)))
    }
}
