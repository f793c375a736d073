//! Running a job: from the messages of the reading thread into the filter.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::batch::{Batch, Message};
use super::cursor::{self, Current, Cursor};
use super::error::{Error, InputProblem};
use super::inputs::{self, Input};
use super::job::Job;
use super::output::{Begin, Output};
use super::own;
use super::plan::{self, Plan, PlannedInput, State, Task};
use super::read::Reading;
use super::source::Position;
use super::summary::{Counts, Event, InputSummary, Progress, Summary};
use crate::{Metadata, Options, Writer};

/// Batches read ahead.
const AHEAD: usize = 4;
/// How often progress is told while nothing comes.
const TELL: Duration = Duration::from_millis(200);

/// How to run a job.
///
/// ```no_run
/// # use std::{ops::ControlFlow, time::Duration};
/// use gowk::ingest::{Ingest, Job};
///
/// let job = Job::read("nightly.toml")?;
/// let summary = Ingest::new(&job)
///     .options(gowk::Options::new().wait(Duration::from_secs(60)))
///     .run(&mut |_| ControlFlow::Continue(()))?;
/// println!("{} of {} keys are new", summary.run.new, summary.run.keys);
/// # Ok::<(), gowk::ingest::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ingest<'a> {
    job: &'a Job,
    options: Options,
    restart: Vec<PathBuf>,
    forget_missing: bool,
    new_output: bool,
}

/// Told what happens; the answer is whether to go on.
type Watch<'a> = dyn FnMut(Event<'_>) -> ControlFlow<()> + 'a;

impl<'a> Ingest<'a> {
    /// Runs `job` as it is.
    pub fn new(job: &'a Job) -> Self {
        let (options, restart) = (Options::new(), Vec::new());
        Self { job, options, restart, forget_missing: false, new_output: false }
    }

    /// How the filter is opened; where the job file says how to create it, that comes first.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Reads this input from its start, whatever was read of it before. Its keys stay in the filter.
    pub fn restart(mut self, input: impl Into<PathBuf>) -> Self {
        self.restart.push(input.into());
        self
    }

    /// Forgets inputs that were read to their end and are no longer there, to make room in the metadata: if
    /// they come back, they are read again.
    pub fn forget_missing(mut self, forget: bool) -> Self {
        self.forget_missing = forget;
        self
    }

    /// Begins a new output, whatever was written before.
    pub fn new_output(mut self, anew: bool) -> Self {
        self.new_output = anew;
        self
    }

    /// What [`run`](Self::run) would do. Changes nothing, but that opening a filter may recover it.
    pub fn plan(&self) -> Result<Plan, Error> {
        own::check_output(self.job)?;
        let metadata = match self.options.read(&self.job.filter) {
            Ok(reader) => Some(reader.metadata()?),
            Err(crate::Error::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let inputs = inputs::all(self.job)?;
        let cursor = match &metadata {
            Some(metadata) => self.cursor(metadata, &inputs)?.0,
            None => self.cursor(&Metadata::default(), &inputs)?.0,
        };
        let output = Begin::find(self.job, &cursor, self.new_output)?;
        let tasks = plan::tasks(self.job, &cursor, inputs)?;
        let planned = |task: Task| {
            let Input { path, length, .. } = task.input;
            PlannedInput { path, length, state: task.state }
        };
        Ok(Plan {
            inputs: tasks.into_iter().map(planned).collect(),
            filter_exists: metadata.is_some(),
            output: output.and_then(|begin| Some((self.job.output()?, begin.length()))),
        })
    }

    /// Reads all that is new in the inputs, until the end, or until `watch` breaks: then what was read is
    /// committed.
    ///
    /// After an error too what was committed stays committed, and running again goes on from there; errors
    /// that came after a commit are [`Error::Partly`], and those that leave open whether a commit is durable
    /// [`Error::InDoubt`].
    pub fn run(&self, watch: &mut Watch<'_>) -> Result<Summary, Error> {
        // Most mistakes show here, before a filter is waited for or created.
        own::check_output(self.job)?;
        let inputs = inputs::all(self.job)?;
        if !self.job.filter.exists() {
            Begin::find(self.job, &Cursor::default(), self.new_output)?;
            plan::tasks(self.job, &Cursor::default(), inputs)?;
        }
        let writer = self.job.creation.apply(self.options.clone()).open(&self.job.filter)?;
        // Another run may have ended only now.
        let inputs = inputs::all(self.job)?;
        let (mut cursor, is_known) = self.cursor(writer.metadata()?, &inputs)?;
        let begin = Begin::find(self.job, &cursor, self.new_output)?;
        let tasks = plan::tasks(self.job, &cursor, inputs)?;
        check_room(self.job, writer.metadata()?, &cursor, &tasks)?;
        let claimed = begin.as_ref().map(Begin::written);
        let output = begin.map(Output::open).transpose()?;
        let has_work = tasks.iter().any(|task| task.state != State::Finished);
        let is_claimed = is_known && (claimed.is_none() || claimed == cursor.output);
        cursor.output = claimed.or(cursor.output);
        let mut engine = Engine::new(self.job, writer, cursor, output, &tasks);
        // The first word is given as soon as the filter is ours.
        let _ = engine.tell(None, watch);
        if !is_claimed {
            engine.cursor.all_read = false;
            engine.commit(watch)?;
        }
        engine.cursor.all_read = !has_work;
        engine.run(&tasks, watch)
    }

    /// The cursor as the job is to see it, and whether there was one.
    fn cursor(&self, metadata: &Metadata, inputs: &[Input]) -> Result<(Cursor, bool), Error> {
        let stored = metadata.get(&cursor::entry(&self.job.name));
        let unreadable = || Error::Cursor { filter: self.job.filter.clone(), job: self.job.name.clone() };
        let mut cursor = match stored {
            Some(bytes) => Cursor::decode(bytes).ok_or_else(unreadable)?,
            None => Cursor::default(),
        };
        for path in &self.restart {
            restart(self.job, &mut cursor, inputs, path)?;
        }
        if self.forget_missing {
            cursor.finished.retain(|id, _| inputs.iter().any(|input| input.id() == *id));
        }
        Ok((cursor, stored.is_some()))
    }

    /// Forgets all that the filter remembers of a job, this one or another: running it begins anew then. The
    /// keys stay in the filter.
    pub fn forget(&self, job: &str) -> Result<(), Error> {
        let mut writer = self.options.open_existing(&self.job.filter)?;
        if writer.metadata_mut()?.remove(&cursor::entry(job)).is_none() {
            let jobs = jobs(writer.metadata()?);
            return Err(Error::NoSuchJob { filter: self.job.filter.clone(), job: job.to_owned(), jobs });
        }
        writer.commit()?;
        Ok(writer.close()?)
    }
}

fn partly(cause: Error, committed: u64) -> Error {
    if committed == 0 { cause } else { Error::Partly { cause: Box::new(cause), committed } }
}

/// The jobs that the filter remembers, and the bytes that each takes.
fn jobs(metadata: &Metadata) -> Vec<(String, usize)> {
    let job = |(entry, value): (&str, &[u8])| Some((cursor::job_of(entry)?.to_owned(), value.len()));
    metadata.iter().filter_map(job).collect()
}

fn restart(job: &Job, cursor: &mut Cursor, inputs: &[Input], path: &Path) -> Result<(), Error> {
    let real = path.canonicalize().ok();
    let is_it = |name: &Path| {
        let own = job.base.join(name);
        path == name
            || path == own
            || real.as_ref().is_some_and(|real| own.canonicalize().ok().as_ref() == Some(real))
    };
    let current = cursor.current.take_if(|current| is_it(&current.name));
    let known = inputs.iter().find(|input| is_it(&input.name));
    if let Some(input) = known {
        cursor.finished.remove(&input.id());
    }
    if current.is_some() || known.is_some() {
        return Ok(());
    }
    Err(Error::input(path, InputProblem::Unknown))
}

/// Fails if remembering all inputs as finished would take more room than there is.
fn check_room(job: &Job, metadata: &Metadata, cursor: &Cursor, tasks: &[Task]) -> Result<(), Error> {
    let entry = cursor::entry(&job.name);
    let mut others = metadata.clone();
    others.remove(&entry);
    others.set(entry, []);
    let unread = tasks.iter().filter(|task| task.state != State::Finished);
    let needed =
        others.encoded_length() + cursor.length_with(unread.map(|task| (task.input.id(), &*task.input.name)));
    if needed <= Metadata::LIMIT {
        return Ok(());
    }
    let (filter, jobs) = (job.filter.clone(), jobs(metadata));
    Err(Error::CursorFull { filter, job: job.name.clone(), needed, limit: Metadata::LIMIT, jobs })
}

/// A job while it runs.
struct Engine<'a> {
    job: &'a Job,
    entry: String,
    options: u64,
    writer: Writer,
    output: Option<Output>,
    cursor: Cursor,
    inputs: Vec<InputSummary>,
    finished_before: u64,
    /// Of this run.
    counts: Counts,
    /// Keys of this run that are committed.
    committed: u64,
    /// The number of a commit that may be durable or not.
    in_doubt: Option<u64>,
    /// Bytes of finished inputs that this run read, and all it has to read.
    bytes: u64,
    of_bytes: u64,
    started: Instant,
    last_commit: Instant,
    stored: Vec<bool>,
}

/// The input that messages are about.
struct Reached<'a> {
    task: &'a Task,
    /// Bytes of its file read in this run.
    bytes: u64,
}

impl<'a> Engine<'a> {
    fn new(job: &'a Job, writer: Writer, cursor: Cursor, output: Option<Output>, tasks: &[Task]) -> Self {
        let of_bytes = tasks.iter().map(Task::bytes).sum();
        let finished_before = tasks.iter().filter(|task| task.state == State::Finished).count() as u64;
        let now = Instant::now();
        Self {
            job,
            entry: cursor::entry(&job.name),
            options: job.records.hash(),
            writer,
            output,
            cursor,
            inputs: Vec::new(),
            finished_before,
            counts: Counts::default(),
            committed: 0,
            in_doubt: None,
            bytes: 0,
            of_bytes,
            started: now,
            last_commit: now,
            stored: Vec::new(),
        }
    }

    fn run(mut self, tasks: &[Task], watch: &mut Watch<'_>) -> Result<Summary, Error> {
        if let Err(cause) = self.take_all(tasks, watch).and_then(|()| self.commit(watch)) {
            let (committed, taken) = (self.committed, self.counts.keys);
            return Err(match self.in_doubt {
                Some(number) => Error::InDoubt { cause: Box::new(cause), number, committed, taken },
                None => partly(cause, committed),
            });
        }
        let filter = self.writer.info()?;
        self.writer.close().map_err(|cause| partly(cause.into(), self.committed))?;
        Ok(Summary {
            inputs: self.inputs,
            finished_before: self.finished_before,
            run: self.counts,
            total: self.cursor.total,
            finished: self.cursor.all_read,
            duration: self.started.elapsed(),
            filter,
            max_key_length: self.job.records.max_key_length,
        })
    }

    /// Until all inputs end, or `watch` wants no more.
    fn take_all(&mut self, tasks: &[Task], watch: &mut Watch<'_>) -> Result<(), Error> {
        let stopped = AtomicBool::new(false);
        thread::scope(|scope| {
            let (to, messages) = sync_channel(AHEAD);
            let taken = self.cursor.total.keys;
            let reading = Reading { job: self.job, tasks, taken, to, stopped: &stopped };
            let spawned =
                thread::Builder::new().name("reading".to_owned()).spawn_scoped(scope, || reading.run());
            let thread = spawned.map_err(|source| Error::Thread { source })?;
            let outcome = self.take(tasks, &messages, watch);
            stopped.store(true, Ordering::Relaxed);
            // The reading thread ends when nobody listens any more.
            drop(messages);
            // The scope would wait for its work alone, and not until the system has nothing left of it.
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
            outcome
        })
    }

    fn take(
        &mut self,
        tasks: &[Task],
        messages: &Receiver<Result<Message, Error>>,
        watch: &mut Watch<'_>,
    ) -> Result<(), Error> {
        let mut reached: Option<Reached<'_>> = None;
        loop {
            match (messages.recv_timeout(TELL), &mut reached) {
                (Err(RecvTimeoutError::Timeout), _) => {}
                (Err(RecvTimeoutError::Disconnected), _) => {
                    self.cursor.all_read = true;
                    return Ok(());
                }
                (Ok(Ok(Message::Begin(index))), reached) => {
                    *reached = tasks.get(index).map(|task| Reached { task, bytes: 0 });
                    if let Some(Reached { task, .. }) = reached {
                        self.begin(task);
                    }
                }
                (Ok(Ok(Message::Keys { batch, read, raw, commit })), Some(reached)) => {
                    reached.bytes = raw.saturating_sub(reached.task.from.base);
                    self.keys(&batch, reached.task, read)?;
                    let due = !self.job.every.is_zero() && self.last_commit.elapsed() >= self.job.every;
                    if commit || due {
                        self.commit(watch)?;
                    }
                }
                (Ok(Ok(Message::End(finished))), Some(Reached { task, .. })) => {
                    self.cursor.current = None;
                    self.cursor.finished.insert(task.input.id(), finished);
                    self.bytes += finished.length.saturating_sub(task.from.base);
                    if let Some(input) = self.inputs.last_mut() {
                        input.finished = true;
                    }
                    reached = None;
                }
                // A message about no input: there is none.
                (Ok(Ok(Message::Keys { .. } | Message::End(_))), None) => {}
                (Ok(Err(error)), _) => {
                    // What came before is good. If it cannot be committed, the first error is still the one
                    // to tell of, and whether the commit is in doubt.
                    let _ = self.commit(watch);
                    return Err(error);
                }
            }
            if self.tell(reached.as_ref(), watch).is_break() {
                return Ok(());
            }
        }
    }

    fn begin(&mut self, task: &Task) {
        let current = self.cursor.current.as_ref().filter(|current| current.id() == task.input.id());
        let counts = current.map_or_else(Counts::default, |current| current.counts);
        self.inputs.push(InputSummary { path: task.input.path.clone(), counts, finished: false });
    }

    fn keys(&mut self, batch: &Batch, task: &Task, read: Position) -> Result<(), Error> {
        let keys = batch.keys();
        let mut refused = self.writer.insert_unique_batch(&keys, &mut self.stored)?;
        if !refused.is_empty() {
            // Without the rest of the batch: dropping the writer forgets it.
            return Err(refused.swap_remove(0).1.into());
        }
        let mut counts = Counts { keys: keys.len() as u64, ..batch.skipped };
        for (key, _) in keys.iter().zip(&self.stored).filter(|(_, stored)| **stored) {
            counts.new += 1;
            if let Some(output) = &mut self.output {
                output.key(key)?;
            }
        }
        self.counts.add(&counts);
        self.cursor.total.add(&counts);
        let mut of_input = counts;
        if let Some(input) = self.inputs.last_mut() {
            input.counts.add(&counts);
            of_input = input.counts;
        }
        let name = task.input.name.clone();
        self.cursor.current = Some(Current { name, read, counts: of_input, options: self.options });
        Ok(())
    }

    fn commit(&mut self, watch: &mut Watch<'_>) -> Result<(), Error> {
        if let Some(output) = &mut self.output {
            self.cursor.output = Some(output.commit()?);
        }
        self.writer.metadata_mut()?.set(self.entry.clone(), self.cursor.encode());
        let (number, outcome) = match self.writer.commit() {
            Ok(()) => (self.writer.info()?.commit, Ok(())),
            Err(crate::Error::Unknown { commit, source, .. }) if self.counts.keys > self.committed => {
                self.in_doubt = Some(commit);
                return Err((*source).into());
            }
            Err(error @ crate::Error::AfterCommit { commit, .. }) => (commit, Err(error.into())),
            Err(error) => return Err(error.into()),
        };
        self.last_commit = Instant::now();
        if self.counts.keys > self.committed {
            self.committed = self.counts.keys;
            // Whoever wants to stop is asked again at once.
            let _ = watch(Event::Commit { number, keys: self.committed });
        }
        outcome
    }

    fn tell(&self, reached: Option<&Reached<'_>>, watch: &mut Watch<'_>) -> ControlFlow<()> {
        let bytes = (self.bytes + reached.map_or(0, |reached| reached.bytes)).min(self.of_bytes);
        let input = reached.map(|reached| &*reached.task.input.path);
        watch(Event::Progress(Progress { input, bytes, of_bytes: self.of_bytes, counts: self.counts }))
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
