//! The reading thread, which cuts the inputs into batches of keys.
//!
//! Invariant: where a batch ends depends only on the job's inputs and options, and not on how many bytes each read
//! returns, or on where an earlier run was killed.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use memchr::memrchr;

use super::content::{Content, Position};
use super::cursor::Finished;
use super::decode::Packing;
use super::error::{Error, InputProblem};
use super::job::{Job, Missing, Rotated};
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
    /// How many bytes were read from the file; the reader may be ahead of the piece.
    pub(super) raw: u64,
    /// The cursor's record of the input, if the piece ends it.
    pub(super) finished: Option<Finished>,
    /// How many bytes a last record without an end has. It is left for a later run.
    pub(super) unfinished: u64,
    /// Whether the input was replaced, so that this run reads it from the start.
    pub(super) restarted: bool,
    /// Why the input is not read further. The piece is then empty: earlier pieces have all records.
    pub(super) failed: Cell<Option<Error>>,
}

pub(super) struct Reading {
    pub(super) job: Job,
    pub(super) tasks: Arc<[Task]>,
    /// How many keys the job has taken in all its runs.
    pub(super) taken: u64,
}

impl Reading {
    /// Reads all inputs to the end, or until the receiver is gone.
    pub(super) fn run(mut self, to: &Sender<Piece<Read>, Error>) -> Result<(), Error> {
        let tasks = self.tasks.clone();
        for (index, task) in tasks.iter().enumerate().filter(|(_, task)| task.state != State::Finished) {
            let mut read = self.task(index, task, task.from, to);
            if read.as_ref().is_err_and(|error| self.job.rotated == Rotated::Restart && error.is_rotation()) {
                read = self.task(index, task, Position::default(), to);
            }
            match read {
                Ok(Some(())) => {}
                Ok(None) => break,
                Err(error) if error.is_of_one_input() => {
                    let piece = Piece::new(Batch::default(), Read::of(index, task.from));
                    piece.place.failed.set(Some(error));
                    if to.send(piece).is_err() {
                        break;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads an input to the end; `None` if the receiver is gone.
    fn task(
        &mut self,
        index: usize,
        task: &Task,
        from: Position,
        to: &Sender<Piece<Read>, Error>,
    ) -> Result<Option<()>, Error> {
        let path = &task.input.path;
        let open = unfinished(&self.job, path, from.base).map_err(Error::of_input(path, "look at"))?;
        let mut content = Content::until(path, from.base, open.map(|(end, _)| end), self.job.unpack)?;
        if !content.repeat(from, || to.is_stopped())? {
            return Ok(None);
        }
        let mut records = StreamRecords::new(&self.job.rules, content, from)?;
        let (mut begun, mut last) = (records.offset(), from);
        let new = |last: &Batch| {
            let place = Read::of(index, from);
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
            let found = match records.next() {
                // The quote that ends the last record may still be written. The next run reads the records since the last
                // piece again.
                Err(Error::Input { problem: InputProblem::Unclosed { .. }, .. }) if open.is_some() => {
                    let unfinished = records.offset().saturating_sub(last.offset);
                    let place = Read { unfinished, ..Read::of(index, last) };
                    return Ok(to.send(Piece::new(Batch::default(), place)).ok());
                }
                found => found?,
            };
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
                last = position;
                let restarted = from != task.from || task.state == State::Rotated;
                let unfinished = open.filter(|_| is_end).map_or(0, |(_, bytes)| bytes);
                piece.place = Read {
                    task: index,
                    position,
                    raw,
                    finished,
                    unfinished,
                    restarted,
                    failed: Cell::default(),
                };
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

    /// Fails if such a record ends the run.
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

impl Read {
    /// The place at which an input begins.
    const fn of(task: usize, position: Position) -> Self {
        Self {
            task,
            position,
            raw: 0,
            finished: None,
            unfinished: 0,
            restarted: false,
            failed: Cell::new(None),
        }
    }
}

/// If a plain file was written to recently: where its last whole record ends, and how many bytes follow. Another program
/// may be about to write the rest.
fn unfinished(job: &Job, path: &Path, base: u64) -> io::Result<Option<(u64, u64)>> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let (now, written) = (SystemTime::now(), metadata.modified()?);
    // The clock of another computer that wrote the file may be ahead of this one.
    let age = now.duration_since(written).or_else(|_| written.duration_since(now)).unwrap_or_default();
    if age >= job.settle || Packing::of_file(&file)? != Packing::Plain {
        return Ok(None);
    }
    let (length, separator) = (metadata.len(), job.separator());
    let (mut end, mut block) = (length, vec![0; BLOCK]);
    while end > base {
        let from = end.saturating_sub(BLOCK as u64).max(base);
        let bytes = block.get_mut(..(end - from) as usize).unwrap_or_default();
        file.read_exact_at(bytes, from)?;
        if let Some(found) = memrchr(separator, bytes) {
            end = from + found as u64 + 1;
            break;
        }
        end = from;
    }
    Ok(Some((end, length - end)))
}

/// How many bytes of a file are searched at a time for the end of a record.
const BLOCK: usize = 64 * 1024;

fn finished(content: &Content, within_record: bool) -> Result<Finished, Error> {
    let length = content.raw();
    let signature = content
        .file()
        .map_or_else(|| Err(std::io::ErrorKind::Unsupported.into()), |file| Signature::of(file, length));
    let signature = signature.map_err(Error::of_input(content.path(), "read"))?;
    Ok(Finished { length, signature, within_record })
}
