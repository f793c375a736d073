//! `gowk ingest`

mod report;

use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use gowk::Options;
use gowk_ingest::{Event, Job, Tally};

use super::arguments::LockArgs;
use super::creation::refused;
use super::failure::{Failure, HowToGoOn, by_option};
use super::json;
use super::outcome::Outcome;
use super::output;
use super::pace::{self, Pace};
use super::paths;
use super::refused::Refusals;
use super::source::Place;
use super::stop::Stop;

/// Run a job: new keys of many files into a filter, each exactly once
///
/// JOB.toml names the filter, the inputs, and perhaps a file for the keys seen for the first time. The filter is
/// created if it is not there. Inputs are plain, gzip or zstd files, recognized by their first bytes. A run
/// reads what is new since the last one: files that were not read yet, and what was added to the end of others. After
/// a crash, `kill -9` or a signal, run the same command again: it goes on exactly where the last commit was.
#[derive(Args)]
#[command(after_help = "\
A job file:
  name = \"nightly\"              # under which the filter remembers it [default: the file's name]
  [filter]
  path = \"seen.gowk\"            # paths are relative to the job file
  capacity = 3_000_000          # these only matter if it is not there yet; as for `gowk create`
  false_positive_rate = 0.001
  # kind = \"counting\"           # every occurrence is stored; [default: a set]. A filter of another kind is refused
  # forget_after = \"30d\"        # keys are forgotten; forget_within = \"5d\" and refresh = true beside it
  # keep_newest = 100_000_000   # the newest keys are kept; no capacity beside it
  [input]
  paths = [\"urls/*.gz\"]         # files and patterns, read in the order of their names
  format = \"lines\"              # lines | nul | csv | jsonl
  # field = \"url\"               # csv: column name or number, or several in [ ]; jsonl: field, or user.name
  # time = \"ts\"                 # for a filter that forgets: the field or column that says when the key was seen
  # ttl = \"cache.ttl\"           # for a filter that forgets: the field or column that says how long the key is kept
  # header = true               # csv with a column number; delimiter = \";\"
  # trim = true                 # white space around keys; ignore_case = \"ascii\" beside it
  # skip_empty = true
  # max_key_length = 4096       # bytes; longer keys are counted and skipped
  # quotes = false              # csv: a quote is a character like any other, as it is with delimiter = \"\\t\"
  # long = 31                   # zstd files with windows of up to 2 GiB
  # settle = \"0s\"               # a last line without an end is left while its file is younger than this [default: 1m]
  # rotated = \"restart\"         # a file that was cut or replaced is read from its start; [default: error]
  # missing = \"fail\"            # a record without the field ends the run; [default: drop]; keep needs records = true
  [commit]
  # every_keys = 1_000_000      # commits also after so many keys
  # every_seconds = 10          # exactly; 0: only by keys; [default: 10, or ten times what the last commit took, up to 300]
  [output]
  new_keys = \"new.txt\"          # keys seen for the first time; compressed if it ends in .zst
  # records = true              # whole lines and rows rather than keys; CSV with its header, which inputs must share
  refused = \"refused.txt\"       # keys that the filter had no room for
  # rejects = \"rejects.txt\"     # records that lack the field, malformed ones (which otherwise end the run), long ones

A key without room does not stop a job. It is new, and refused; the exit code is 2 then. Later runs do not try it again:
once the filter is larger, `gowk insert seen.gowk --input refused.txt` does.

Examples:
  gowk ingest nightly.toml
  gowk ingest nightly.toml --dry-run
  gowk ingest nightly.toml --restart logs/app.log       after it was rotated

A damaged input keeps the others from nothing: they are read, and the exit code is 2.")]
pub(super) struct Ingest {
    /// Job file
    job: PathBuf,

    /// Check the job and say what a run would read, but read nothing
    #[arg(long)]
    dry_run: bool,

    /// Report each commit on standard error, as {"event":"commit","number":12,"keys":1200000}, and print the
    /// summary as one JSON object. The event is "unknown" if a failure leaves open whether that commit is durable
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    lock: LockArgs,

    /// Read this input from its start again; may be repeated
    #[arg(long, value_name = "INPUT")]
    restart: Vec<PathBuf>,

    /// Forget finished inputs that are gone, to make room in the filter's metadata
    #[arg(long)]
    forget_missing: bool,

    /// Begin new outputs; move the old ones away first
    #[arg(long)]
    new_output: bool,

    /// Only forget what the filter remembers of this job, so that it begins anew; its keys stay
    #[arg(long, value_name = "JOB")]
    #[arg(conflicts_with_all = ["dry_run", "restart", "forget_missing", "new_output", "json"])]
    forget: Option<String>,
}

impl Ingest {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let job = Job::read(&self.job).map_err(|error| self.failed(error))?;
        let is_store = paths::is_store(job.filter());
        if is_store {
            self.lock.note_ignored_by_store(job.filter());
        }
        let bar = pace::bar(true, false);
        let options = pace::of_options(&bar, self.lock.apply(Options::new()));
        // With --json, standard error reports the commits.
        let pace = Pace::new(bar, true, !self.json);
        let mut ingest = gowk_ingest::Ingest::new(&job)
            .options(options)
            .forget_missing(self.forget_missing)
            .new_output(self.new_output);
        for input in &self.restart {
            ingest = ingest.restart(input);
        }
        if let Some(name) = &self.forget {
            ingest.forget(name).map_err(|error| self.failed(error))?;
            return Ok(Outcome::Done);
        }
        if self.dry_run {
            let plan = ingest.plan().map_err(|error| self.failed(error))?;
            output::print(|output| report::plan(&job, &plan, self.json, output))?;
            return Ok(Outcome::Done);
        }
        self.ingest(&job, is_store, &ingest, pace)
    }

    fn ingest(
        &self,
        job: &Job,
        is_store: bool,
        ingest: &gowk_ingest::Ingest<'_>,
        mut pace: Pace,
    ) -> Result<Outcome, Failure> {
        let mut stop = None;
        let mut refusals = Refusals::new(job.filter(), is_store, self.json, None);
        let summary = ingest.run(&mut |event| {
            // Signals are caught only from here on: while the job waits for the filter, a signal ends the process.
            let stop = stop.get_or_insert_with(|| Stop::listen(|| ()));
            match event {
                Event::Progress(now) => pace.tell(now.tally.keys, now.bytes, Some(now.of_bytes), || None),
                Event::Commit { number, keys } if self.json => {
                    json::Event::Commit { number, keys }.tell();
                }
                Event::Failed { error } => {
                    // The error's parts cannot be borrowed.
                    let text = format!("{error}{}", by_option(error));
                    pace.aside(|| output::note(text));
                }
                Event::Refused { input, number, key, cause } => {
                    let input = input.display().to_string().into();
                    pace.aside(|| refusals.tell(key, &Place { input, unit: "key", number }, cause));
                }
                _ => {}
            }
            match stop {
                Ok(stop) if stop.signal().is_none() => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        });
        pace.clear();
        let (summary, failed) = match summary {
            Err(gowk_ingest::Error::Inputs { failed, of, summary: Some(summary) }) => {
                (*summary, Some(Failure::Inputs { failed: failed.len() as u64, of }))
            }
            summary => {
                let failed = |error| {
                    refusals.tell_total();
                    self.failed(error)
                };
                (summary.map_err(failed)?, None)
            }
        };
        let signal = stop.transpose()?.and_then(|stop| stop.signal()).filter(|_| !summary.finished);
        output::print(|output| report::summary(job, &summary, signal, self.json, output))?;
        let outcome = refusals.outcome(summary.run.keys, job.refused(), signal)?;
        let Tally { keys, late, early, .. } = summary.run;
        match failed {
            Some(failed) if signal.is_none() => Err(failed),
            _ if keys > 0 && late + early == keys => {
                Err(Failure::AllUntimely { file: job.filter().to_owned(), keys })
            }
            _ => Ok(outcome),
        }
    }

    fn failed(&self, error: gowk_ingest::Error) -> Failure {
        match error {
            gowk_ingest::Error::Partly { cause, committed } => self.failed(*cause).partly(committed, None),
            gowk_ingest::Error::InDoubt { cause, number, committed, taken } => {
                if self.json {
                    json::Event::Unknown { number, keys: taken }.tell();
                }
                self.failed(*cause).in_doubt(number, committed, taken, HowToGoOn::Again)
            }
            // Keeps the library's message, which is written for jobs.
            error @ gowk_ingest::Error::Input { .. } => Failure::Ingest(error),
            error => refused(&self.job, error),
        }
    }
}
