//! `gowk dedup`

use std::path::PathBuf;

use clap::Args;
use gowk::Options;
use gowk_ingest::Deed;

use super::arguments::{ClockArgs, ThreadArgs};
use super::creation::{DEDUP_RATE, FORGETTING_RATE, Shape, refused};
use super::failure::Failure;
use super::intake::{InsertArgs, IntakeArgs, Verb};
use super::outcome::Outcome;
use super::paths::{is_same, output};
use super::quantity;
use super::window::Window;

/// Print keys seen for the first time, and remember them
///
/// Keys are printed in the order of the input. A new key that looks the same to the filter as an earlier key is not
/// printed; that happens at the false-positive rate, and --stats says how many such keys to expect. So a filter that is
/// created here has a low rate unless you give one: 1e-5, or 1e-4 if it forgets. A set stores each key once. A counting
/// filter stores every occurrence, but still prints each key once. A forgetting filter (--forget-after, --keep-newest)
/// prints a key again once it has forgotten it; it forgets only when a run uses it, by the clock of that run.
///
/// The filter is created if it does not exist. For an existing filter, options of creation are ignored, with a note; but
/// --counting on a set, another --forget-after than the filter's, or a lower false-positive rate than the filter's, is an
/// error.
///
/// Keys are committed after they are printed: a crash can repeat a line (not with --output), but never loses one. SIGINT,
/// SIGTERM and SIGHUP commit the printed keys. If the output is closed early, keys that were not committed yet are
/// forgotten. To remember keys without printing them, use `gowk insert`.
///
/// With a store, keys are printed at the end, except keys that other processes have committed during the run. With
/// --token, keys are printed after the commit, and again by each later run of the same command: exactly one of many
/// processes prints a key. Without --token, keys are printed before the commit: if another process commits some of them
/// in between, both processes print these keys, and a note says how many.
///
/// With --filter, a key is new if neither FILE nor any of the others has it. It goes into FILE in any case, so that
/// next month's run, which looks into this month's filter, prints nothing that came this month. The others must be
/// there; FILE is created if it is not. A repeated --token prints what the first run printed only if the others have
/// not changed since.
///
/// With --output, each new line is in the file exactly once, whatever kills the process: run the same command again
/// with the same input. One run at a time writes to a file. The filter remembers with each commit how long the file is,
/// and the next run first cuts off what was written after the last commit. Into a store, that holds for what is
/// committed once: a run that dies while it prints leaves lines that the next run prints again.
///
/// A key that the filter has no room for is named on standard error, and printed as new each time that it comes. The
/// exit code is 2 then, at the end.
#[derive(Args)]
#[command(after_help = "\
Examples:
  zcat urls.gz | gowk dedup seen.gowk > new.txt
  tail -f access.log | gowk dedup seen.gowk --capacity 100_000_000 --false-positive-rate 1e-5
  gowk dedup seen.gowk --csv url --input pages.csv > new.csv       rows whose url is new, and the header
  gowk dedup seen.gowk --json-field id < events.jsonl > new.jsonl
  find . -type f -print0 | gowk dedup files.gowk -0 | xargs -0 process
  gowk dedup 2026-05.gowk --filter 2026-04.gowk < urls.txt         what came in neither month
  gowk dedup seen.gowk --forget-after 30d < events.txt             what did not come in the last 30 days
  gowk dedup reports.gowk --counting < reports.txt                 `gowk count` tells how often each came

Without --trim a CR before the newline belongs to its key, and so does a byte order mark, but for CSV and JSON.")]
pub(super) struct Dedup {
    /// Filter or store to remember keys in
    file: PathBuf,

    /// Print no key that this filter or store has. It is only read; all keys go into FILE. May be repeated
    #[arg(long, value_name = "FILE")]
    filter: Vec<PathBuf>,

    /// Append the new keys to this file instead of printing them, each exactly once; compressed if it ends in .zst
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,

    #[command(flatten)]
    threads: ThreadArgs,

    #[command(flatten)]
    clock: ClockArgs,

    #[command(flatten)]
    intake: IntakeArgs,

    #[command(flatten)]
    insert: InsertArgs,

    /// Distinct keys that the filter takes before it has to double [default: 1_000_000]
    #[arg(long, value_name = "KEYS", value_parser = quantity::count, conflicts_with = "keep_newest")]
    #[arg(help_heading = CREATION)]
    capacity: Option<u64>,

    #[command(flatten, next_help_heading = CREATION)]
    shape: Shape,
}

const CREATION: &str = "Options for a filter that is not there yet";

impl Dedup {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        if let Some(file) = self.filter.iter().find(|file| is_same(file, &self.file)) {
            return Err(Failure::WindowOfItself { file: file.clone() });
        }
        let output = output(self.output.as_ref());
        let bar = self.intake.bar(true, output.is_none());
        let window = Window::open(&self.filter, &self.intake.options(&bar))?;
        let (file, shape) = (&self.file, &self.shape);
        let filter = |options: Options| {
            // For an existing filter, a request for a lower rate than its own is an error.
            let rate = if shape.forgets() { FORGETTING_RATE } else { DEDUP_RATE };
            let rate = rate.filter(|_| !file.exists());
            let options = shape.apply(options, self.capacity.unwrap_or(1_000_000), rate);
            let writer = self
                .clock
                .apply(self.threads.apply(options))
                .open(file)
                .map_err(|error| refused(file, error))?;
            shape.note_ignored(self.capacity, file, &writer.info()?);
            Ok(writer)
        };
        let of_store = |options| {
            shape.check_for_store(file)?;
            shape.note_ignored_by_store(self.capacity, file)?;
            Ok(shape.of_kind(self.clock.apply(self.threads.apply(options))))
        };
        let verb = Verb {
            prints: true,
            output,
            window,
            insert: Some(&self.insert),
            bar: Some(bar),
            ..Verb::new(file, "dedup", Deed::Insert)
        };
        self.intake.run(&verb, &filter, &of_store)
    }
}
