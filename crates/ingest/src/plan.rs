//! The work of a run: compares the inputs with the cursor.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use memchr::memrchr;

use super::content::{Content, Position};
use super::csv;
use super::cursor::{Cursor, Finished, Partly};
use super::decode::Packing;
use super::error::{Error, InputProblem, JobProblem};
use super::inputs::Input;
use super::job::{Job, Rotated};
use super::rules::Format;
use super::signature::Signature;
use crate::keys::LONGEST;

/// What a run would do.
#[derive(Debug)]
#[non_exhaustive]
pub struct Plan {
    /// The inputs in the order of reading.
    pub inputs: Vec<PlannedInput>,
    /// Why other inputs cannot be read.
    pub failed: Vec<Error>,
    /// Whether the filter exists; if not, the run would create it.
    pub filter_exists: bool,
    /// The file for new keys, if the job has one, and its committed length: the run writes after that.
    pub output: Option<(PathBuf, u64)>,
    /// The file for refused keys, if the job has one, and its committed length.
    pub refused: Option<(PathBuf, u64)>,
    /// The file for records without a key, if the job has one, and its committed length.
    pub rejects: Option<(PathBuf, u64)>,
}

/// One input, and how much of it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PlannedInput {
    /// The input.
    pub path: PathBuf,
    /// How many bytes the file has.
    pub length: u64,
    /// How much of it was read.
    pub state: State,
}

/// How much of an input earlier runs have read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum State {
    /// Nothing.
    New,
    /// All of it.
    Finished,
    /// All that the file held then; it has grown since.
    Grown {
        /// The byte of the file where the run will read on.
        from: u64,
    },
    /// Nothing of the current file: it was replaced or cut, and the job says to read such a file from the start.
    Rotated,
    /// A part of it, in a run that was stopped.
    HalfRead {
        /// The byte of the file at which that run began to read.
        base: u64,
        /// Bytes read since then, after decompression.
        offset: u64,
    },
}

/// An input to read.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) input: Input,
    pub(super) from: Position,
    pub(super) state: State,
}

/// The inputs of a run.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// All readable inputs, even if nothing is left to read. Inputs that were read in part come first.
    pub(super) tasks: Vec<Task>,
    /// Why other inputs cannot be read.
    pub(super) failed: Vec<Error>,
}

pub(super) fn tasks(job: &Job, cursor: &Cursor, inputs: Vec<Input>) -> Result<Tasks, Error> {
    let mut all = Tasks::default();
    for gone in cursor.partly.iter().filter(|partly| !inputs.iter().any(|input| input.id() == partly.id())) {
        let read = gone.read.base + gone.read.offset;
        all.failed.push(Error::input(&job.base.join(&gone.name), InputProblem::Gone { read }));
    }
    check_options(job, cursor)?;
    let mut begun = 0;
    for input in inputs {
        match task(job, cursor, input) {
            Ok(task) if matches!(task.state, State::HalfRead { .. }) => {
                all.tasks.insert(begun, task);
                begun += 1;
            }
            Ok(task) => all.tasks.push(task),
            Err(error) if error.is_of_one_input() => all.failed.push(error),
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

fn task(job: &Job, cursor: &Cursor, input: Input) -> Result<Task, Error> {
    let (state, from) = look_at(job, cursor, &input)?;
    if state != State::Finished
        && let Format::Csv { columns, .. } = &job.rules.format
        && let Some(dialect) = job.dialect()
    {
        let wanted = csv::wanted(columns, &job.rules);
        csv::found(&mut Content::open(&input.path, 0, job.unpack)?, dialect, &wanted)?;
    }
    Ok(Task { input, from, state })
}

/// Fails if an input was read under other options than the job's: a run would not read that part again.
fn check_options(job: &Job, cursor: &Cursor) -> Result<(), Error> {
    if cursor.options == job.rules.hash() {
        return Ok(());
    }
    if let Some(Partly { name, read, .. }) = cursor.partly.first() {
        let read = read.base + read.offset;
        return Err(Error::input(&job.base.join(name), InputProblem::OtherOptions { read }));
    }
    if cursor.finished.is_empty() {
        return Ok(());
    }
    let problem = JobProblem::OtherOptions { inputs: cursor.finished.len() as u64 };
    Err(Error::Job { path: job.path.clone(), line: None, problem })
}

/// The header that outputs of whole records begin with: all inputs left to read share it. `None` without such outputs,
/// without a header, or if nothing is left to read.
pub(super) fn header(job: &Job, tasks: &[Task]) -> Result<Option<Vec<u8>>, Error> {
    let Some(dialect) = job.header_dialect() else { return Ok(None) };
    let mut common = csv::CommonHeader::default();
    for task in tasks.iter().filter(|task| task.state != State::Finished) {
        let header = csv::header(&mut Content::open(&task.input.path, 0, job.unpack)?, dialect)?;
        // An empty file has no header.
        if !header.is_empty() {
            common.admit(&task.input.path, &header)?;
        }
    }
    Ok(common.into_header())
}

fn look_at(job: &Job, cursor: &Cursor, input: &Input) -> Result<(State, Position), Error> {
    let finished = cursor.finished(input.id());
    if let Some(finished) = finished {
        match check(input, finished) {
            Err(error) if job.rotated == Rotated::Restart && error.is_rotation() => {
                return Ok((State::Rotated, Position::default()));
            }
            outcome => outcome?,
        }
    }
    if let Some(Partly { read, .. }) = cursor.partly(input.id()) {
        return Ok((State::HalfRead { base: read.base, offset: read.offset }, *read));
    }
    match finished {
        None => Ok((State::New, Position::default())),
        Some(finished) if input.length == finished.length => Ok((State::Finished, Position::default())),
        Some(finished) => {
            let base = goes_on_at(job, input, finished)?;
            Ok((State::Grown { from: base }, Position { base, ..Position::default() }))
        }
    }
}

/// Fails if the input no longer holds the bytes that were read.
fn check(input: &Input, finished: &Finished) -> Result<(), Error> {
    let (read, found) = (finished.length, input.length);
    if found < read {
        return Err(Error::input(&input.path, InputProblem::Shrunken { read, found }));
    }
    let file = File::open(&input.path).map_err(Error::of_input(&input.path, "open"))?;
    let signature = Signature::of(&file, read).map_err(Error::of_input(&input.path, "read"))?;
    if signature != finished.signature {
        return Err(Error::input(&input.path, InputProblem::Changed { read }));
    }
    Ok(())
}

/// The byte of a grown input where reading continues: the start of the first record that was incomplete before.
fn goes_on_at(job: &Job, input: &Input, finished: &Finished) -> Result<u64, Error> {
    let end = finished.length;
    if !finished.within_record {
        return Ok(end);
    }
    let within = || Error::input(&input.path, InputProblem::GrownWithinRecord);
    let file = File::open(&input.path).map_err(Error::of_input(&input.path, "open"))?;
    if Packing::of_file(&file).map_err(Error::of_input(&input.path, "read"))? != Packing::Plain {
        return Err(within());
    }
    let mut next = [0];
    file.read_exact_at(&mut next, end).map_err(Error::of_input(&input.path, "read"))?;
    let separator = job.rules.format.separator();
    if next == [separator] {
        // The last record lacked only its end of line.
        return Ok(end + 1);
    }
    match job.rules.format {
        Format::Csv { .. } if next == [b'\r'] => return Ok(end),
        // A quoted field may hold any byte, so no byte marks the start of a record.
        Format::Csv { .. } => return Err(within()),
        Format::Lines(_) | Format::Jsonl { .. } | Format::Parquet { .. } => {}
    }
    let length = end.min(LONGEST as u64 + 1);
    let mut last = vec![0; length as usize];
    file.read_exact_at(&mut last, end - length).map_err(Error::of_input(&input.path, "read"))?;
    match memrchr(separator, &last) {
        Some(found) => Ok(end - length + found as u64 + 1),
        None if length == end => Ok(0),
        None => Err(within()),
    }
}
