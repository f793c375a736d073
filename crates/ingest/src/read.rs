//! The reading thread, which cuts the inputs into batches of keys.
//!
//! Invariant: where a batch ends depends on the job's inputs and options alone, not on how many bytes each read
//! returns, nor on where an earlier run was killed.

use std::sync::Arc;

use super::content::{Content, Position};
use super::cursor::Finished;
use super::error::Error;
use super::job::{Job, Missing};
use super::lines::{Found, Skip};
use super::plan::{State, Task};
use super::pump::Piece;
use super::records::StreamRecords;
use super::signature::Signature;
use crate::keys::{Batch, Sender};

/// The most keys in a batch: enough that many share a region, and few enough that a run stops soon.
const BATCH_KEYS: u64 = 1 << 18;
/// A batch ends at the latest after this many bytes of an input.
const BATCH_BYTES: u64 = 8 << 20;

/// Where a piece comes from.
pub(super) struct Read {
    /// The index of the task.
    pub(super) task: usize,
    /// How far the input is read at the end of the piece.
    pub(super) position: Position,
    /// Bytes of the file read so far; the reader may be ahead of the piece.
    pub(super) raw: u64,
    /// What the cursor keeps of the input, if the piece ends it.
    pub(super) finished: Option<Finished>,
}

pub(super) struct Reading {
    pub(super) job: Job,
    pub(super) tasks: Arc<[Task]>,
    /// Keys that the job has taken, in all its runs.
    pub(super) taken: u64,
}

impl Reading {
    /// Reads all inputs to their ends, or until the receiver is gone.
    pub(super) fn run(mut self, to: &Sender<Piece<Read>, Error>) -> Result<(), Error> {
        let tasks = self.tasks.clone();
        for (index, task) in tasks.iter().enumerate().filter(|(_, task)| task.state != State::Finished) {
            if self.task(index, task, to)?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Reads an input to its end; `None` if the receiver is gone.
    fn task(
        &mut self,
        index: usize,
        task: &Task,
        to: &Sender<Piece<Read>, Error>,
    ) -> Result<Option<()>, Error> {
        let mut content = Content::open(&task.input.path, task.from.base)?;
        if !content.repeat(task.from, || to.is_stopped())? {
            return Ok(None);
        }
        let mut records = StreamRecords::new(&self.job.rules, content, task.from)?;
        let mut begun = records.offset();
        let new = |last: &Batch| {
            let place = Read { task: index, position: task.from, raw: 0, finished: None };
            // Most batches are as long as the last.
            let mut piece = Piece::new(Batch::with_room_of(last), place);
            piece.records = self.job.records.then(Batch::default);
            piece.rejects = self.job.has_rejects().then(Batch::default);
            piece
        };
        let mut piece = new(&Batch::default());
        // After an error the keys since the last batch are dropped: the next run finds them again, in a batch
        // that ends where it would have ended.
        loop {
            let found = records.next()?;
            let (is_key, is_end) = (matches!(found, Some(Found::Key { .. })), found.is_none());
            let keeps = self.job.missing == Missing::Keep;
            if let Some(skip) = found.and_then(|found| piece.add(found, &self.job.rules, keeps)) {
                self.check(skip, &records)?;
            }
            self.taken += u64::from(is_key);
            piece.commit =
                is_key && self.job.every_keys.is_some_and(|keys| self.taken.is_multiple_of(keys.get()));
            let is_full = is_key && self.taken.is_multiple_of(BATCH_KEYS);
            if is_end || piece.commit || is_full || records.offset() - begun >= BATCH_BYTES {
                begun = records.offset();
                let finished =
                    if is_end { Some(finished(records.content(), records.ended_within())?) } else { None };
                let (raw, position) = (records.content().raw(), records.position());
                piece.place = Read { task: index, position, raw, finished };
                let next = new(&piece.keys);
                if to.send(std::mem::replace(&mut piece, next)).is_err() {
                    return Ok(None);
                }
            }
            if is_end {
                return Ok(Some(()));
            }
        }
    }

    /// Fails if a record like this ends the run.
    fn check(&self, skip: Skip, records: &StreamRecords) -> Result<(), Error> {
        match skip {
            Skip::Malformed(malformed) if !self.job.has_rejects() => Err(records.malformed(*malformed)),
            skip if self.job.missing == Missing::Fail => {
                let problem = self.job.rules.missing(&skip, records.content().place(records.line()));
                problem.map_or(Ok(()), |problem| Err(Error::input(records.content().path(), problem)))
            }
            _ => Ok(()),
        }
    }
}

fn finished(content: &Content, within_record: bool) -> Result<Finished, Error> {
    let length = content.raw();
    let signature = content
        .file()
        .map_or_else(|| Err(std::io::ErrorKind::Unsupported.into()), |file| Signature::of(file, length));
    let signature = signature.map_err(Error::of_input(content.path(), "read"))?;
    Ok(Finished { length, signature, within_record })
}
