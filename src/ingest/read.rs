//! The reading thread, which makes batches of keys of the inputs.
//!
//! Invariant: where a batch ends depends on the job's inputs and options alone, not on how the system cuts what
//! is read into pieces, nor on where an earlier run was killed.

use std::sync::Arc;

use super::content::{Content, Position};
use super::cursor::Finished;
use super::error::{Error, InputProblem};
use super::fingerprint::Fingerprint;
use super::job::Job;
use super::lines::{Found, Skip};
use super::plan::{State, Task};
use super::records::Records;
use super::summary::Tally;
use crate::keys::{Batch, Sender, Stopped};

/// The most keys in a batch: enough that many are in the same region, and few enough that a run stops soon.
const BATCH_KEYS: u64 = 1 << 18;
/// Bytes of an input after which a batch ends in any case.
const BATCH_BYTES: u64 = 8 << 20;

/// What the reading thread says.
pub(super) enum Message {
    /// The task of this index begins.
    Begin(usize),
    /// Keys, and their records if these are written; how many records between them were skipped; how far the input is read with them, and how many bytes
    /// of its file are, which may be more; and whether to commit.
    Keys { batch: Batch, records: Option<Batch>, skipped: Tally, read: Position, raw: u64, commit: bool },
    /// The input was read to its end.
    End(Finished),
}

pub(super) struct Reading {
    pub(super) job: Job,
    pub(super) tasks: Arc<[Task]>,
    /// Keys that the job has taken, in all its runs.
    pub(super) taken: u64,
}

enum End {
    Stopped,
    Failed(Error),
}

impl From<Stopped> for End {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Reading {
    /// Reads all inputs to their ends, or until nobody listens.
    pub(super) fn run(mut self, to: &Sender<Message, Error>) -> Result<(), Error> {
        let tasks = self.tasks.clone();
        for (index, task) in tasks.iter().enumerate().filter(|(_, task)| task.state != State::Finished) {
            match self.task(index, task, to) {
                Ok(()) => {}
                Err(End::Stopped) => break,
                Err(End::Failed(error)) => return Err(error),
            }
        }
        Ok(())
    }

    fn task(&mut self, index: usize, task: &Task, to: &Sender<Message, Error>) -> Result<(), End> {
        let mut content = Content::open(&task.input.path, task.from.base)?;
        if !content.repeat(task.from, || to.is_stopped())? {
            return Err(End::Stopped);
        }
        let mut records = Records::new(&self.job.rules, &mut content, task.from)?;
        to.send(Message::Begin(index))?;
        let (mut batch, mut skipped, mut begun) = (Batch::default(), Tally::default(), content.offset());
        let mut kept = self.job.records.then(Batch::default);
        // After an error the keys since the last batch are dropped: the next run finds them again, in a batch
        // that ends where it would have ended.
        loop {
            let found = records.next(&mut content)?;
            let (is_key, is_end) = (matches!(found, Some(Found::Key { .. })), found.is_none());
            match found {
                Some(Found::Key { key, record }) => {
                    batch.push(&self.job.rules.key.normal(key));
                    kept.iter_mut().for_each(|kept| kept.push(record));
                }
                Some(Found::Skipped(Skip::Empty)) => skipped.empty += 1,
                Some(Found::Skipped(Skip::TooLong)) => skipped.too_long += 1,
                Some(Found::Skipped(Skip::NoField)) => skipped.no_field += 1,
                None => {}
            }
            self.taken += u64::from(is_key);
            let commit = is_key && self.taken.is_multiple_of(self.job.every_keys.get());
            let full = is_key && self.taken.is_multiple_of(BATCH_KEYS);
            let last = is_end && !(batch.is_empty() && skipped == Tally::default());
            if commit || full || last || !is_end && content.offset() - begun >= BATCH_BYTES {
                begun = content.offset();
                let (batch, skipped) = (std::mem::take(&mut batch), std::mem::take(&mut skipped));
                let (raw, read) = (content.raw(), content.position(records.lines()));
                let records = kept.as_mut().map(std::mem::take);
                to.send(Message::Keys { batch, records, skipped, read, raw, commit })?;
            }
            if is_end {
                break;
            }
        }
        let finished = finished(&content, records.ended_within(&content))?;
        to.send(Message::End(finished))?;
        Ok(())
    }
}

fn finished(content: &Content, within_record: bool) -> Result<Finished, Error> {
    let length = content.raw();
    let fingerprint = Fingerprint::of(content.file(), length)
        .map_err(|source| Error::input(content.path(), InputProblem::Io { op: "read", source }))?;
    Ok(Finished { length, fingerprint, within_record })
}
