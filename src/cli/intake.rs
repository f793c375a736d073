//! Keys from the input into a writer, with commits on the way: what the verbs that write share.
//!
//! Invariants:
//!
//! 1. What is printed for a key is written out before that key is committed, and synced if it goes to a file. So a
//!    crash can repeat a line, and never loses one.
//! 2. If printing fails, the keys since the last commit are rolled back.
//! 3. After any other failure the keys taken before it are committed, and the message says how many they are. Where
//!    a commit may be durable or not, the message says which keys are in doubt, and how to find out.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use gowk::keys::{self, Batch, CommitClock, Next, Refused};
use gowk::{Error, Options, Writer};

use super::arguments::{AHEAD, KeyArgs, KeyFeed, LockArgs};
use super::bar;
use super::failure::{Failure, HowToGoOn};
use super::json;
use super::outcome::Outcome;
use super::output::{self, Output};
use super::quantity;
use super::stop::Stop;
use super::store::{Given, StoreArgs, TransactionArgs};

/// The longest that a key waits for its commit.
const COMMIT_AFTER: Duration = Duration::from_secs(10);

#[derive(Args)]
pub(super) struct IntakeArgs {
    /// Commit whenever so many keys were taken, and after 10 seconds in any case
    #[arg(long, value_name = "KEYS", default_value = "1_000_000", value_parser = quantity::positive)]
    commit_every: NonZeroU64,

    /// Report each commit on standard error, as {"event":"commit","number":12,"keys":1200000}: its number,
    /// and the keys taken so far in this run. The event is "unknown" if a failure leaves open whether that
    /// commit is durable
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    lock: LockArgs,

    #[command(flatten)]
    keys: KeyArgs,
}

impl IntakeArgs {
    /// The same for a store.
    pub(super) const fn given<'a>(
        &'a self,
        store: &'a Path,
        options: Options,
        args: &'a StoreArgs,
        transaction: Option<&'a TransactionArgs>,
        operation: &'static str,
    ) -> Given<'a> {
        Given { store, keys: &self.keys, json: self.json, options, args, transaction, operation }
    }

    /// Opens the filter, and hands keys to `take`, some at a time, until the input ends or a signal comes.
    pub(super) fn run(
        &self,
        file: &Path,
        options: Options,
        open: impl FnOnce(Options) -> Result<Writer, Failure>,
        take: impl FnMut(&mut Writer, &[&[u8]], &mut Output) -> Result<(), Refused<Failure>>,
    ) -> Result<Outcome, Failure> {
        self.keys.check()?;
        let output = Output::standard(self.keys.separator())?;
        output.check_beside(file)?;
        let writer = open(self.lock.apply(options).growth_progress(bar::of_growth()))?;
        let mut feed = self.keys.start()?;
        // Not earlier: until the filter is open, a signal ends the process, as while it waits for the lock.
        let stop = Stop::listen(feed.waker())?;
        let clock = CommitClock::new(Some(self.commit_every), Some(COMMIT_AFTER));
        let file = file.to_owned();
        let mut intake =
            Intake { json: self.json, file, writer, output, clock, commit_failed: false, in_doubt: None };
        let outcome = intake.take_all(&mut feed, &stop, take).and_then(|outcome| {
            intake.commit()?;
            Ok(outcome)
        });
        match outcome {
            Ok(outcome) => intake.finish(outcome),
            Err(failure) => Err(intake.give_up(failure)),
        }
    }
}

/// Takes keys one by one, up to the first failure.
pub(super) fn each(
    keys: &[&[u8]],
    mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Refused<Failure>> {
    keys.iter().enumerate().try_for_each(|(taken, key)| take(key).map_err(|cause| Refused { taken, cause }))
}

/// Inserts keys that are not there yet, and hands those to `new`, in their order. Where a key is refused, `new` also
/// gets those behind it that were inserted.
pub(super) fn insert_unique(
    writer: &mut Writer,
    keys: &[&[u8]],
    stored: &mut Vec<bool>,
    new: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Refused<Failure>> {
    let inserted = keys::insert_unique(writer, keys, stored);
    keys::stored(keys, stored).try_for_each(new).map_err(|cause| Refused { taken: 0, cause })?;
    inserted.map_err(Refused::into)
}

struct Intake {
    json: bool,
    file: PathBuf,
    writer: Writer,
    output: Output,
    clock: CommitClock,
    commit_failed: bool,
    /// The number of a commit that may be durable or not.
    in_doubt: Option<u64>,
}

impl Intake {
    /// Takes keys until the input ends or a signal comes.
    fn take_all(
        &mut self,
        feed: &mut KeyFeed,
        stop: &Stop,
        mut take: impl FnMut(&mut Writer, &[&[u8]], &mut Output) -> Result<(), Refused<Failure>>,
    ) -> Result<Outcome, Failure> {
        loop {
            let next = match feed.try_next()? {
                Some(next) => next,
                None => {
                    self.output.flush()?;
                    feed.next(self.clock.deadline())?
                }
            };
            let ended = matches!(next, Next::End);
            if let Next::Message(batch) = next {
                let more = feed.ready(AHEAD - 1);
                let keys: Vec<&[u8]> = batch.iter().chain(more.iter().flat_map(Batch::iter)).collect();
                let mut keys = keys.as_slice();
                while !keys.is_empty() && stop.signal().is_none() {
                    let most = usize::try_from(self.clock.keys_left()).unwrap_or(usize::MAX);
                    let (now, later) = keys.split_at(keys.len().min(most));
                    let outcome = take(&mut self.writer, now, &mut self.output);
                    let taken = outcome.as_ref().map_or_else(|refused| refused.taken, |()| now.len());
                    self.clock.take(taken as u64);
                    outcome.map_err(|refused| refused.cause)?;
                    if self.clock.keys_left() == 0 {
                        self.commit()?;
                    }
                    keys = later;
                }
            }
            match stop.signal() {
                Some(signal) => return Ok(Outcome::Stopped(signal)),
                None if ended => return Ok(Outcome::Done),
                None => {}
            }
            if self.clock.is_due() {
                self.commit()?;
            }
        }
    }

    fn commit(&mut self) -> Result<(), Failure> {
        self.output.sync()?;
        let outcome = self.writer.commit();
        self.commit_failed = outcome.is_err();
        let has_new = self.clock.uncommitted() > 0;
        match outcome {
            Err(Error::Unknown { commit, source, .. }) if has_new => {
                self.in_doubt = Some(commit);
                self.report("unknown", commit);
                return Err((*source).into());
            }
            Err(error @ Error::AfterCommit { commit, .. }) => {
                self.clock.commit();
                self.report("commit", commit);
                return Err(error.into());
            }
            outcome => outcome?,
        }
        self.clock.commit();
        if self.json && has_new {
            self.report("commit", self.writer.info()?.commit);
        }
        Ok(())
    }

    fn report(&self, event: &'static str, number: u64) {
        if self.json {
            output::event(json::line(&json::Committed { event, number, keys: self.clock.taken() }));
        }
    }

    fn finish(self, outcome: Outcome) -> Result<Outcome, Failure> {
        let committed = self.clock.committed();
        self.writer.close().map_err(|error| Failure::Partly { cause: Box::new(error.into()), committed })?;
        if matches!(outcome, Outcome::Stopped(_)) && !self.json {
            output::note(format_args!(
                "stopped by a signal; the {committed} keys taken until then are committed"
            ));
        }
        Ok(outcome)
    }

    fn give_up(mut self, mut cause: Failure) -> Failure {
        if self.clock.taken() == 0 {
            return cause;
        }
        // A commit that failed is not tried again: it would most likely fail again.
        if self.clock.uncommitted() > 0
            && !cause.is_output()
            && !self.commit_failed
            && let Err(then) = self.commit()
        {
            cause = Failure::Twice { cause: Box::new(cause), then: Box::new(then) };
        }
        let (taken, committed) = (self.clock.taken(), self.clock.committed());
        match self.in_doubt {
            Some(number) => cause.in_doubt(number, committed, taken, HowToGoOn::Look(self.file)),
            None => Failure::Partly { cause: Box::new(cause), committed },
        }
    }
}
