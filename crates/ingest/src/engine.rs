//! A running job: writes its outputs, moves its cursor, and counts its keys and the records without keys.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cursor::{self, Cursor, MOST_PARTLY, Partly};
use super::destination::Destination;
use super::error::Error;
use super::job::Job;
use super::output::Output;
use super::plan::{State, Task};
use super::pump::{Deed, Item, Piece, Pump, Work};
use super::read::{Read, Reading};
use super::rules::Format;
use super::summary::{Event, InputSummary, Progress, Summary, Tally};
use crate::keys::{Batch, CommitClock, Feed};

/// How many pieces are read ahead.
const AHEAD: usize = 4;
/// The time from one commit to the next, if the job sets none and the last commit was short.
const EVERY: Duration = Duration::from_secs(10);
/// The time between two reports of progress while no keys come.
const TELL: Duration = Duration::from_millis(200);

/// The caller's function for events. It returns whether to continue.
pub(super) type Watch<'a> = dyn FnMut(Event<'_>) -> ControlFlow<()> + 'a;

fn partly(cause: Error, committed: u64) -> Error {
    if committed == 0 { cause } else { Error::Partly { cause: Box::new(cause), committed } }
}

/// A running job.
pub(super) struct Engine<'a, 'w> {
    job: &'a Job,
    watch: &'a mut Watch<'w>,
    entry: String,
    /// The output of each [`OutputKind`](super::job::OutputKind).
    outputs: [Option<Output>; 3],
    pub(super) cursor: Cursor,
    tasks: Arc<[Task]>,
    /// The number of all inputs.
    of: u64,
    /// Why some inputs were not read to the end.
    failed: Vec<Error>,
    /// The task whose summary is the last one of `inputs`.
    begun: Option<usize>,
    inputs: Vec<InputSummary>,
    /// The task that is being read, and how many bytes of its file this run has read.
    reached: Option<(usize, u64)>,
    /// The records of this run.
    tally: Tally,
    /// How many bytes this run has read of inputs that are now finished.
    bytes: u64,
    /// How many bytes this run must read in all.
    of_bytes: u64,
    started: Instant,
}

impl<'a, 'w> Engine<'a, 'w> {
    pub(super) fn new(
        job: &'a Job,
        cursor: Cursor,
        outputs: [Option<Output>; 3],
        (tasks, failed): (Arc<[Task]>, Vec<Error>),
        watch: &'a mut Watch<'w>,
    ) -> Self {
        let of_bytes = tasks.iter().map(Task::bytes).sum();
        Self {
            job,
            watch,
            entry: cursor::entry(&job.name),
            outputs,
            cursor,
            of: (tasks.len() + failed.len()) as u64,
            tasks,
            failed,
            begun: None,
            inputs: Vec::new(),
            reached: None,
            tally: Tally::default(),
            bytes: 0,
            of_bytes,
            started: Instant::now(),
        }
    }

    /// The pump for a job. Its clock does not count keys: where a commit by number of keys is due, the reading thread
    /// ends a piece.
    pub(super) fn pump(job: &Job, destination: Destination) -> Pump {
        let clock = match job.every {
            None => CommitClock::new(None, Some(EVERY)).amortized(),
            Some(every) => CommitClock::new(None, Some(every).filter(|every| !every.is_zero())),
        };
        Pump::new(destination, Deed::Insert, clock, 1)
    }

    /// Reads all inputs to the end, or until the watch breaks, and commits the keys.
    pub(super) fn run(mut self, mut pump: Pump) -> Result<Summary, Error> {
        let outcome = self.take_all(&mut pump).and_then(|()| pump.commit(&mut self));
        let (committed, taken) = (pump.committed(), pump.taken());
        if let Err(cause) = outcome {
            return Err(match pump.in_doubt() {
                Some(number) => Error::InDoubt { cause: Box::new(cause), number, committed, taken },
                None => partly(cause, committed),
            });
        }
        let committing = pump.committing();
        let destination = pump.into_destination();
        let (filter, requests) = (destination.info()?, destination.requests());
        destination.close().map_err(|cause| partly(cause, committed))?;
        let of = self.of;
        let mut failed = self.failed;
        let summary = Summary {
            inputs: self.inputs,
            finished_before: self.tasks.iter().filter(|task| task.state == State::Finished).count() as u64,
            run: self.tally,
            total: self.cursor.total,
            finished: self.cursor.all_read && failed.is_empty(),
            duration: self.started.elapsed(),
            committing,
            filter,
            max_key_length: self.job.rules.max_key_length,
            requests,
        };
        match (failed.pop(), of) {
            (None, _) => Ok(summary),
            (Some(error), 1) => Err(partly(error, committed)),
            (Some(error), _) => {
                failed.push(error);
                Err(Error::Inputs { failed, of, summary: Some(Box::new(summary)) })
            }
        }
    }

    fn take_all(&mut self, pump: &mut Pump) -> Result<(), Error> {
        let reading =
            Reading { job: self.job.clone(), tasks: self.tasks.clone(), taken: self.cursor.total.keys };
        let mut feed = Feed::start("reading", AHEAD, move |to| reading.run(to))
            .map_err(|source| Error::Thread { source })?;
        let outcome = pump.run(self, &mut feed);
        if outcome.is_err() && pump.reading_failed() {
            // The keys before the error are good. If they cannot be committed, report the first error anyway, and whether
            // the commit is in doubt.
            let _ = pump.commit(self);
        }
        feed.stop();
        let has_ended = outcome?;
        self.cursor.all_read = has_ended && self.failed.is_empty();
        if has_ended { self.check_field() } else { Ok(()) }
    }

    /// Fails if no record that the job has ever read has the field, or none has a time. The cursor does not move, so that
    /// the records are read again after the user corrects the name of the field.
    fn check_field(&self) -> Result<(), Error> {
        match (self.job.rules.none_found(&self.cursor.total), self.inputs.last()) {
            (Some(problem), Some(input)) => Err(Error::input(&input.path, problem)),
            _ => Ok(()),
        }
    }

    /// Begins the summary of an input, unless it already began.
    fn begin(&mut self, task: usize) {
        if self.begun == Some(task) {
            return;
        }
        if let Some(Task { input, .. }) = self.tasks.get(task) {
            let tally = self.cursor.partly(input.id()).map_or_else(Tally::default, |partly| partly.tally);
            let path = input.path.clone();
            self.inputs.push(InputSummary { path, tally, finished: false, unfinished: 0, restarted: false });
            self.begun = Some(task);
        }
    }

    /// Notes that an input was not read to the end.
    fn fail(&mut self, error: Error) -> Result<(), Error> {
        if self.cursor.partly.len() >= MOST_PARTLY {
            return Err(error);
        }
        self.reached = None;
        self.failed.push(error);
        self.tell_failed(self.failed.len() - 1);
        Ok(())
    }

    /// Reports inputs that are not read to the end, unless there is only one: then the run fails with its error.
    pub(super) fn tell_failed(&mut self, from: usize) {
        for error in self.failed.iter().skip(from).filter(|_| self.of > 1) {
            // A break is ignored here: `is_stopped` calls the watch again at once.
            let _ = (self.watch)(Event::Failed { error });
        }
    }

    pub(super) fn tell(&mut self) -> ControlFlow<()> {
        let (task, reached) = self.reached.map_or((None, 0), |(task, bytes)| (self.tasks.get(task), bytes));
        let bytes = (self.bytes + reached).min(self.of_bytes);
        let input = task.map(|task| &*task.input.path);
        (self.watch)(Event::Progress(Progress { input, bytes, of_bytes: self.of_bytes, tally: self.tally }))
    }
}

impl Work for Engine<'_, '_> {
    type Place = Read;
    type Error = Error;

    fn idle(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn until(&self) -> Option<Instant> {
        Instant::now().checked_add(TELL)
    }

    fn read(&mut self, pieces: &[Piece<Read>]) -> Result<(), Error> {
        let [_, _, Some(rejects)] = &mut self.outputs else { return Ok(()) };
        let all = pieces.iter().flat_map(|piece| &piece.rejects).flat_map(Batch::iter);
        all.map(|record| ended(self.job, record)).try_for_each(|record| rejects.record(record))
    }

    fn is_stopped(&mut self, _: &Destination, _: u64) -> bool {
        self.tell().is_break()
    }

    fn write(&mut self, item: Item<'_>) -> Result<(), Error> {
        let [new, ..] = &mut self.outputs;
        let record = if self.job.records { ended(self.job, item.record) } else { item.record };
        new.as_mut().map_or(Ok(()), |output| output.record(record))
    }

    fn refuse(
        &mut self,
        item: Item<'_>,
        pieces: &[Piece<Read>],
        index: usize,
        cause: &gowk::Error,
    ) -> Result<(), Error> {
        if let [_, Some(refused), _] = &mut self.outputs {
            refused.record(item.key)?;
        }
        let Some(piece) = pieces.first() else { return Ok(()) };
        self.begin(piece.place.task);
        let Some(input) = self.inputs.last() else { return Ok(()) };
        let keyless = piece.keyless.partition_point(|before| *before < index);
        let number = input.tally.keys + (index - keyless) as u64 + 1;
        // A break is ignored here: `is_stopped` calls the watch again at once.
        let _ = (self.watch)(Event::Refused { input: &input.path, number, key: item.key, cause });
        Ok(())
    }

    fn took(&mut self, pieces: &[Piece<Read>], mut tally: Tally) -> Result<(), Error> {
        let Some(Piece { place: read, skipped, .. }) = pieces.first() else { return Ok(()) };
        if let Some(error) = read.failed.take() {
            return self.fail(error);
        }
        tally.add(skipped);
        self.tally.add(&tally);
        self.cursor.total.add(&tally);
        self.begin(read.task);
        let tasks = self.tasks.clone();
        let (Some(task), Some(input)) = (tasks.get(read.task), self.inputs.last_mut()) else { return Ok(()) };
        input.tally.add(&tally);
        (input.unfinished, input.restarted) = (read.unfinished, read.restarted);
        match read.finished {
            None => {
                let (name, read, tally) = (task.input.name.clone(), read.position, input.tally);
                if task.state == State::Rotated {
                    self.cursor.restart(task.input.id());
                }
                self.cursor.read(Partly { name, read, tally });
            }
            Some(finished) => {
                input.finished = true;
                self.cursor.finish(task.input.id(), finished);
                self.bytes += finished.length.saturating_sub(task.from.base);
            }
        }
        let bytes = read.raw.saturating_sub(task.from.base);
        self.reached = read.finished.is_none().then_some((read.task, bytes));
        Ok(())
    }

    fn sync(&mut self, destination: &mut Destination) -> Result<(), Error> {
        for (output, written) in self.outputs.iter_mut().zip(&mut self.cursor.outputs) {
            if let Some(output) = output {
                *written = Some(output.commit()?);
            }
        }
        destination.remember(&self.entry, self.cursor.encode())
    }

    fn committed(&mut self, number: u64, keys: u64, is_certain: bool) {
        if is_certain {
            // A break is ignored here: `is_stopped` calls the watch again at once.
            let _ = (self.watch)(Event::Commit { number, keys });
        }
    }
}

/// A record as written to outputs. They end all lines of CSV alike, whether the inputs end them with CR LF or LF.
fn ended<'r>(job: &Job, record: &'r [u8]) -> &'r [u8] {
    let is_csv = matches!(job.rules.format, Format::Csv { .. });
    record.strip_suffix(b"\r").filter(|_| is_csv).unwrap_or(record)
}

impl Task {
    /// How many bytes of the file to read, including bytes that are read again for comparison.
    const fn bytes(&self) -> u64 {
        match self.state {
            State::Finished => 0,
            State::New | State::Rotated | State::Grown { .. } | State::HalfRead { .. } => {
                self.input.length.saturating_sub(self.from.base)
            }
        }
    }
}
