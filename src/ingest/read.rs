//! The reading thread: inputs to batches of keys.
//!
//! Invariant: where a batch ends depends on the job's inputs and options alone, not on how the system cuts what
//! is read into pieces, nor on where an earlier run was killed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use super::batch::{Batch, Message};
use super::cursor::Finished;
use super::error::{Error, InputProblem};
use super::fingerprint::Fingerprint;
use super::job::Job;
use super::lines::{Found, Skip};
use super::plan::{State, Task};
use super::records::Records;
use super::source::Source;

/// The most keys in a batch: enough for the filter to sort them by region, few enough to stop soon.
const BATCH_KEYS: u64 = 1 << 18;
/// Bytes of an input after which a batch ends in any case.
const BATCH_BYTES: u64 = 8 << 20;

pub(super) struct Reading<'a> {
    pub(super) job: &'a Job,
    pub(super) tasks: &'a [Task],
    /// Keys that the job has taken, in all its runs.
    pub(super) taken: u64,
    pub(super) to: SyncSender<Result<Message, Error>>,
    pub(super) stopped: &'a AtomicBool,
}

/// Nobody wants more.
struct Stopped;

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

impl Reading<'_> {
    /// Reads all inputs to their ends.
    pub(super) fn run(mut self) {
        for (index, task) in self.tasks.iter().enumerate().filter(|(_, task)| task.state != State::Finished) {
            match self.task(index, task) {
                Ok(()) => {}
                Err(End::Stopped) => return,
                Err(End::Failed(error)) => {
                    // If nobody listens, nobody wants to know.
                    let _ = self.to.send(Err(error));
                    return;
                }
            }
        }
    }

    fn send(&self, message: Message) -> Result<(), Stopped> {
        self.to.send(Ok(message)).map_err(|_| Stopped)
    }

    fn task(&mut self, index: usize, task: &Task) -> Result<(), End> {
        let mut source = Source::open(&task.input.path, task.from.base)?;
        if !source.repeat(task.from, || self.stopped.load(Ordering::Relaxed))? {
            return Err(End::Stopped);
        }
        let mut records = Records::new(&self.job.records, &mut source, task.from)?;
        self.send(Message::Begin(index))?;
        let (mut batch, mut begun) = (Batch::default(), source.offset());
        // After an error the keys since the last batch are dropped: the next run finds them again, in a batch
        // that ends where it would have ended.
        while let Some(found) = records.next(&mut source)? {
            let is_key = matches!(found, Found::Key(_));
            match found {
                Found::Key(key) => batch.push(key),
                Found::Skipped(Skip::Empty) => batch.skipped.empty += 1,
                Found::Skipped(Skip::TooLong) => batch.skipped.too_long += 1,
                Found::Skipped(Skip::NoField) => batch.skipped.no_field += 1,
            }
            self.taken += u64::from(is_key);
            let commit = is_key && self.taken.is_multiple_of(self.job.every_keys.get());
            let full = is_key && self.taken.is_multiple_of(BATCH_KEYS);
            if commit || full || source.offset() - begun >= BATCH_BYTES {
                begun = source.offset();
                self.keys(std::mem::take(&mut batch), &mut source, &records, commit)?;
            }
        }
        if !batch.is_empty() {
            self.keys(batch, &mut source, &records, false)?;
        }
        let finished = finished(&source, records.ended_within(&source))?;
        self.send(Message::End(finished))?;
        Ok(())
    }

    fn keys(
        &self,
        batch: Batch,
        source: &mut Source,
        records: &Records,
        commit: bool,
    ) -> Result<(), Stopped> {
        let (raw, read) = (source.raw(), source.position(records.lines()));
        self.send(Message::Keys { batch, read, raw, commit })
    }
}

fn finished(source: &Source, within_record: bool) -> Result<Finished, Error> {
    let length = source.raw();
    let fingerprint = Fingerprint::of(source.file(), length).map_err(|source_error| {
        Error::input(source.path(), InputProblem::Io { op: "read", source: source_error })
    })?;
    Ok(Finished { length, fingerprint, within_record })
}
