//! The start of a run: finds the job's inputs, opens its filter, and reads the cursor in the filter.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cursor::{self, Cursor};
use super::destination::{self, Destination};
use super::engine::{Engine, Watch};
use super::error::{Error, InputProblem};
use super::inputs::{self, Input};
use super::job::{Job, OutputKind};
use super::output::{Begin, Output};
use super::ownership;
use super::plan::{self, Plan, PlannedInput, State, Task, Tasks};
use super::rules::Rules;
use super::summary::Summary;
use super::time::TimeKind;
use gowk::store::Store;
use gowk::{Metadata, Options};

/// How to run a job.
///
/// ```no_run
/// # use std::{ops::ControlFlow, time::Duration};
/// use gowk_ingest::{Ingest, Job};
///
/// let job = Job::read("nightly.toml")?;
/// let summary = Ingest::new(&job)
///     .options(gowk::Options::new().wait(Duration::from_secs(60)))
///     .run(&mut |_| ControlFlow::Continue(()))?;
/// println!("{} of {} keys are new", summary.run.new, summary.run.keys);
/// # Ok::<(), gowk_ingest::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ingest<'a> {
    job: &'a Job,
    options: Options,
    restart: Vec<PathBuf>,
    forget_missing: bool,
    new_output: bool,
}

impl<'a> Ingest<'a> {
    /// Runs `job` unchanged.
    pub fn new(job: &'a Job) -> Self {
        let (options, restart) = (Options::new(), Vec::new());
        Self { job, options, restart, forget_missing: false, new_output: false }
    }

    /// Options for opening the filter. The job file's options for creating it take precedence.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Reads this input from the start again. Its keys stay in the filter.
    pub fn restart(mut self, input: impl Into<PathBuf>) -> Self {
        self.restart.push(input.into());
        self
    }

    /// Forgets inputs that were read to the end and no longer exist, to make room in the metadata. If such an input
    /// reappears, it is read again.
    pub fn forget_missing(mut self, forget: bool) -> Self {
        self.forget_missing = forget;
        self
    }

    /// Begins new outputs, and forgets what was written to the old ones. A run fails if an output file is not empty.
    pub fn new_output(mut self, anew: bool) -> Self {
        self.new_output = anew;
        self
    }

    /// What [`run`](Self::run) would do. Changes nothing, except that it recovers a filter whose writer died.
    pub fn plan(&self) -> Result<Plan, Error> {
        ownership::check_outputs(self.job)?;
        let found = destination::metadata(self.job, &self.options)?;
        let filter_exists = found.is_some();
        let (metadata, rules) = found.unwrap_or((Metadata::default(), self.job.rules.key));
        let inputs = inputs::all(self.job)?;
        let (cursor, _) = self.cursor(&metadata, &inputs)?;
        let outputs = self.outputs(&cursor)?;
        let Tasks { tasks, failed } = plan::tasks(&self.job.following(rules), &cursor, inputs)?;
        self.check_header(&tasks, &outputs)?;
        let [output, refused, rejects] =
            outputs.map(|begin| begin.map(|begin| (begin.path().to_owned(), begin.length())));
        let planned = |task: Task| {
            let Input { path, length, .. } = task.input;
            PlannedInput { path, length, state: task.state }
        };
        let inputs = tasks.into_iter().map(planned).collect();
        Ok(Plan { inputs, failed, filter_exists, output, refused, rejects })
    }

    /// Reads everything new in the inputs, until the end or until `watch` breaks, and commits it.
    ///
    /// After an error the earlier commits remain, and the next run continues from the last one. An error after a commit
    /// is [`Error::Partly`]. If it is unknown whether a commit is durable, the error is [`Error::InDoubt`].
    pub fn run(&self, watch: &mut Watch<'_>) -> Result<Summary, Error> {
        // Finds most mistakes before waiting for the filter or creating one.
        ownership::check_outputs(self.job)?;
        let inputs = inputs::all(self.job)?;
        // Only opening it shows whether there is a store in a bucket.
        if !Store::is_at(&self.job.filter) && !self.job.filter.exists() {
            self.outputs(&Cursor::default())?;
            plan::header(self.job, &plan::tasks(self.job, &Cursor::default(), inputs)?.tasks)?;
        }
        let mut target = Destination::open(self.job, &self.options)?;
        let rules = destination::known(self.job, target.key_rules()?)?;
        let mut job = self.job.following(rules);
        // Fails before anything is written if the filter does not forget.
        match &mut job.rules {
            Rules { time: None, .. } => {}
            Rules { time_kind: TimeKind::Lifetime(most), .. } => *most = target.longest_lifetime()?,
            Rules { .. } => target.check_times()?,
        }
        let (metadata, job) = (target.metadata()?, &job);
        // Another run may have ended while this one waited for the filter.
        let inputs = inputs::all(self.job)?;
        let (mut cursor, is_known) = self.cursor(&metadata, &inputs)?;
        let entry = cursor::entry(&self.job.name);
        let begins = match self.outputs(&cursor) {
            Ok(begins) => begins,
            Err(error) => {
                // Another run of the job may have written to the outputs since this run opened the store.
                target.check_not_overtaken(&entry)?;
                return Err(error);
            }
        };
        let Tasks { tasks, failed } = plan::tasks(job, &cursor, inputs)?;
        let tasks: Arc<[Task]> = tasks.into();
        let header = self.check_header(&tasks, &begins)?;
        let has_work = tasks.iter().any(|task| task.state != State::Finished);
        // A run without work writes nothing, so the cursor need not follow an output that the user took away.
        let is_writing = has_work || self.new_output;
        let before = (cursor.outputs, cursor.options);
        cursor.options = job.rules.hash();
        if is_writing {
            for (output, begin) in cursor.outputs.iter_mut().zip(&begins) {
                *output = begin.as_ref().map(Begin::written).or(*output);
            }
        }
        check_room(self.job, &metadata, &cursor, &tasks)?;
        let _kept_from_others = target.claim(&entry, begins.iter().flatten())?;
        // Creates the outputs at once, so that they exist after every run.
        let mut outputs = [None, None, None];
        for ((output, begin), kind) in outputs.iter_mut().zip(begins).zip(OutputKind::ALL) {
            let header = header.clone().filter(|_| job.has_records(kind));
            *output = begin.map(|begin| Output::open(begin, header)).transpose()?.filter(|_| is_writing);
        }
        let is_claimed = is_known && before == (cursor.outputs, cursor.options);
        let mut pump = Engine::pump(job, target);
        let mut engine = Engine::new(job, cursor, outputs, (tasks, failed), watch);
        // Reports the first progress as soon as this run has the filter.
        let _ = engine.tell();
        engine.tell_failed(0);
        if !is_claimed {
            engine.cursor.all_read = false;
            pump.commit(&mut engine)?;
        }
        engine.cursor.all_read = !has_work;
        engine.run(pump)
    }

    /// The header that outputs of whole records must begin with, if any. Fails if one begins with another record.
    fn check_header(&self, tasks: &[Task], outputs: &[Option<Begin>; 3]) -> Result<Option<Vec<u8>>, Error> {
        let header = plan::header(self.job, tasks)?;
        if let (Some(header), Some(dialect)) = (&header, self.job.header_dialect()) {
            for (output, _) in
                outputs.iter().zip(OutputKind::ALL).filter(|(_, kind)| self.job.has_records(*kind))
            {
                output.as_ref().map_or(Ok(()), |output| output.check_header(header, dialect))?;
            }
        }
        Ok(header)
    }

    /// Where the run begins to write its outputs.
    fn outputs(&self, cursor: &Cursor) -> Result<[Option<Begin>; 3], Error> {
        let find = |kind| Begin::find(self.job, kind, cursor, self.new_output);
        let [new, refused, rejects] = OutputKind::ALL.map(find);
        Ok([new?, refused?, rejects?])
    }

    /// The cursor at the start of the run, and whether the filter has one.
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
            cursor.finished.retain(|(id, _)| inputs.iter().any(|input| input.id() == *id));
        }
        Ok((cursor, stored.is_some()))
    }

    /// Makes the filter forget a job, this one or another, so that the job's next run begins anew. The keys stay in the
    /// filter.
    pub fn forget(&self, job: &str) -> Result<(), Error> {
        destination::forget(self.job, &self.options, job)
    }
}

fn restart(job: &Job, cursor: &mut Cursor, inputs: &[Input], path: &Path) -> Result<(), Error> {
    let real = path.canonicalize().ok();
    let is_it = |name: &Path| {
        let own = job.base.join(name);
        path == name
            || path == own
            || real.as_ref().is_some_and(|real| own.canonicalize().ok().as_ref() == Some(real))
    };
    let before = cursor.partly.len();
    cursor.partly.retain(|partly| !is_it(&partly.name));
    let was_begun = cursor.partly.len() < before;
    let known = inputs.iter().find(|input| is_it(&input.name));
    if let Some(input) = known {
        cursor.finished.retain(|(id, _)| *id != input.id());
    }
    if was_begun || known.is_some() {
        return Ok(());
    }
    Err(Error::input(path, InputProblem::Unknown))
}

/// Fails if the metadata has too little room for a cursor with all inputs finished.
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
    let (filter, jobs) = (job.filter.clone(), cursor::jobs(metadata));
    Err(Error::CursorFull { filter, job: job.name.clone(), needed, limit: Metadata::LIMIT, jobs })
}
