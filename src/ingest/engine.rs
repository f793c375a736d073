//! A job while it runs: from the messages of the reading thread into the filter.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::content::Position;
use super::cursor::{self, Current, Cursor};
use super::error::Error;
use super::job::Job;
use super::output::Output;
use super::plan::{State, Task};
use super::read::{Message, Reading};
use super::summary::{Event, InputSummary, Progress, Summary, Tally};
use super::target::Target;
use crate::Error as FilterError;
use crate::keys::{Batch, CommitClock, Feed, Next};
use crate::store::Error as StoreError;

/// Messages read ahead.
const AHEAD: usize = 4;
/// How often progress is told while nothing comes.
const TELL: Duration = Duration::from_millis(200);

/// Told what happens; the answer is whether to go on.
pub(super) type Watch<'a> = dyn FnMut(Event<'_>) -> ControlFlow<()> + 'a;

fn partly(cause: Error, committed: u64) -> Error {
    if committed == 0 { cause } else { Error::Partly { cause: Box::new(cause), committed } }
}

/// A job while it runs.
pub(super) struct Engine<'a> {
    job: &'a Job,
    entry: String,
    options: u64,
    target: Target,
    /// Of new keys.
    output: Option<Output>,
    /// Of refused keys.
    refused: Option<Output>,
    pub(super) cursor: Cursor,
    tasks: Arc<[Task]>,
    inputs: Vec<InputSummary>,
    finished_before: u64,
    /// Of this run.
    tally: Tally,
    /// Says when to commit by time. The reading thread says when to commit by keys, because it ends a batch there.
    clock: CommitClock,
    /// The number of a commit that may be durable or not.
    in_doubt: Option<u64>,
    /// Bytes of finished inputs that this run read, and all it has to read.
    bytes: u64,
    of_bytes: u64,
    started: Instant,
}

/// The input that messages are about.
pub(super) struct Reached<'a> {
    task: &'a Task,
    /// Bytes of its file read in this run.
    bytes: u64,
}

impl<'a> Engine<'a> {
    pub(super) fn new(
        job: &'a Job,
        target: Target,
        cursor: Cursor,
        [output, refused]: [Option<Output>; 2],
        tasks: Arc<[Task]>,
    ) -> Self {
        let of_bytes = tasks.iter().map(Task::bytes).sum();
        let finished_before = tasks.iter().filter(|task| task.state == State::Finished).count() as u64;
        let every = Some(job.every).filter(|every| !every.is_zero());
        Self {
            job,
            entry: cursor::entry(&job.name),
            options: job.rules.hash(),
            target,
            output,
            refused,
            cursor,
            tasks,
            inputs: Vec::new(),
            finished_before,
            tally: Tally::default(),
            clock: CommitClock::new(None, every),
            in_doubt: None,
            bytes: 0,
            of_bytes,
            started: Instant::now(),
        }
    }

    /// Reads all inputs to their ends, or until `watch` wants no more, and commits what was read.
    pub(super) fn run(mut self, watch: &mut Watch<'_>) -> Result<Summary, Error> {
        if let Err(cause) = self.take_all(watch).and_then(|()| self.commit(watch)) {
            let (committed, taken) = (self.clock.committed(), self.clock.taken());
            return Err(match self.in_doubt {
                Some(number) => Error::InDoubt { cause: Box::new(cause), number, committed, taken },
                None => partly(cause, committed),
            });
        }
        let filter = self.target.info()?;
        self.target.close().map_err(|cause| partly(cause, self.clock.committed()))?;
        Ok(Summary {
            inputs: self.inputs,
            finished_before: self.finished_before,
            run: self.tally,
            total: self.cursor.total,
            finished: self.cursor.all_read,
            duration: self.started.elapsed(),
            filter,
            max_key_length: self.job.rules.max_key_length,
        })
    }

    fn take_all(&mut self, watch: &mut Watch<'_>) -> Result<(), Error> {
        let reading =
            Reading { job: self.job.clone(), tasks: self.tasks.clone(), taken: self.cursor.total.keys };
        let mut feed = Feed::start("reading", AHEAD, move |to| reading.run(to))
            .map_err(|source| Error::Thread { source })?;
        let outcome = self.take(&mut feed, watch);
        feed.stop();
        outcome
    }

    fn take(&mut self, feed: &mut Feed<Message, Error>, watch: &mut Watch<'_>) -> Result<(), Error> {
        let tasks = self.tasks.clone();
        let mut reached: Option<Reached<'_>> = None;
        loop {
            let next = match feed.next(Instant::now().checked_add(TELL)) {
                Ok(next) => next,
                Err(error) => {
                    // What came before is good. If it cannot be committed, the first error is still the one
                    // to tell of, and whether the commit is in doubt.
                    let _ = self.commit(watch);
                    return Err(error);
                }
            };
            match (next, &mut reached) {
                (Next::Woken, _) => {}
                (Next::End, _) => {
                    self.cursor.all_read = true;
                    return Ok(());
                }
                (Next::Message(Message::Begin(index)), reached) => {
                    *reached = tasks.get(index).map(|task| Reached { task, bytes: 0 });
                    if let Some(Reached { task, .. }) = reached {
                        self.begin(task);
                    }
                }
                (
                    Next::Message(Message::Keys { batch, records, skipped, read, raw, commit }),
                    Some(reached),
                ) => {
                    reached.bytes = raw.saturating_sub(reached.task.from.base);
                    self.keys(&batch, records.as_ref(), skipped, reached.task, read, watch)?;
                    if (commit || self.clock.has_rung()) && !self.target.commits_at_the_end() {
                        self.commit(watch)?;
                    }
                }
                (Next::Message(Message::End(finished)), Some(Reached { task, .. })) => {
                    self.cursor.current = None;
                    self.cursor.finished.insert(task.input.id(), finished);
                    self.bytes += finished.length.saturating_sub(task.from.base);
                    if let Some(input) = self.inputs.last_mut() {
                        input.finished = true;
                    }
                    reached = None;
                }
                // A message about no input: there is none.
                (Next::Message(Message::Keys { .. } | Message::End(_)), None) => {}
            }
            if self.tell(reached.as_ref(), watch).is_break() {
                return Ok(());
            }
        }
    }

    fn begin(&mut self, task: &Task) {
        let current = self.cursor.current.as_ref().filter(|current| current.id() == task.input.id());
        let tally = current.map_or_else(Tally::default, |current| current.tally);
        self.inputs.push(InputSummary { path: task.input.path.clone(), tally, finished: false });
    }

    fn keys(
        &mut self,
        batch: &Batch,
        records: Option<&Batch>,
        skipped: Tally,
        task: &Task,
        read: Position,
        watch: &mut Watch<'_>,
    ) -> Result<(), Error> {
        let keys: Vec<&[u8]> = batch.iter().collect();
        // An error ends the run, and the target is dropped with everything since the last commit.
        let inserted = self.target.insert(&keys)?;
        let (new, refused) = (inserted.new_keys() as u64, inserted.refused());
        let tally = Tally { keys: keys.len() as u64, new, refused: refused.len() as u64, ..skipped };
        if let Some(output) = &mut self.output {
            let records: Option<Vec<&[u8]>> = records.map(|records| records.iter().collect());
            let all = records.as_ref().unwrap_or(&keys);
            for (_, record) in all.iter().enumerate().filter(|(index, _)| inserted.is_new(*index)) {
                output.record(record)?;
            }
        }
        let before = self.inputs.last().map_or(0, |input| input.tally.keys);
        for (index, cause) in refused {
            let Some(key) = keys.get(*index) else { continue };
            if let Some(output) = &mut self.refused {
                output.record(key)?;
            }
            let number = before + *index as u64 + 1;
            // Whoever wants to stop is asked again at once.
            let _ = watch(Event::Refused { input: &task.input.path, number, key, cause });
        }
        self.clock.take(tally.keys);
        self.tally.add(&tally);
        self.cursor.total.add(&tally);
        let mut of_input = tally;
        if let Some(input) = self.inputs.last_mut() {
            input.tally.add(&tally);
            of_input = input.tally;
        }
        let name = task.input.name.clone();
        self.cursor.current = Some(Current { name, read, tally: of_input, options: self.options });
        Ok(())
    }

    pub(super) fn commit(&mut self, watch: &mut Watch<'_>) -> Result<(), Error> {
        if let Some(output) = &mut self.output {
            self.cursor.output = Some(output.commit()?);
        }
        if let Some(refused) = &mut self.refused {
            self.cursor.refused = Some(refused.commit()?);
        }
        let has_new = self.clock.uncommitted() > 0;
        let (number, outcome) = match self.target.commit(&self.entry, &self.cursor) {
            Ok(number) => (number, Ok(())),
            Err(
                Error::Filter(FilterError::Unknown { commit, source, .. })
                | Error::Store(StoreError::Unknown { version: commit, source, .. }),
            ) if has_new => {
                self.in_doubt = Some(commit);
                return Err((*source).into());
            }
            Err(Error::Filter(error @ FilterError::AfterCommit { commit, .. })) => {
                (commit, Err(error.into()))
            }
            Err(error) => return Err(error),
        };
        self.clock.commit();
        if has_new {
            // Whoever wants to stop is asked again at once.
            let _ = watch(Event::Commit { number, keys: self.clock.committed() });
        }
        outcome
    }

    pub(super) fn tell(&self, reached: Option<&Reached<'_>>, watch: &mut Watch<'_>) -> ControlFlow<()> {
        let bytes = (self.bytes + reached.map_or(0, |reached| reached.bytes)).min(self.of_bytes);
        let input = reached.map(|reached| &*reached.task.input.path);
        watch(Event::Progress(Progress { input, bytes, of_bytes: self.of_bytes, tally: self.tally }))
    }
}

impl Task {
    /// Bytes of the file to read, with those that are read again to be compared.
    const fn bytes(&self) -> u64 {
        match self.state {
            State::Finished => 0,
            State::New | State::Grown { .. } | State::HalfRead { .. } => {
                self.input.length.saturating_sub(self.from.base)
            }
        }
    }
}
