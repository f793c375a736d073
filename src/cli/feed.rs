//! From the input into a writer, with commits on the way.
//!
//! Invariants:
//!
//! 1. What a key made us print is written, and synced where it goes to a file, before that key is committed:
//!    a crash can repeat a line, never lose one.
//! 2. Where printing failed, the keys since the last commit are rolled back.
//! 3. Any other failure commits the keys taken before it, and says how many there are; where a commit may be
//!    durable or not, which keys are in doubt, and how to find out.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use gowk::{Error, Options, Writer};

use super::Outcome;
use super::failure::{self, Failure};
use super::keys::{KeyArgs, Keys, Next};
use super::output::{self, Output};
use super::split::Batch;
use super::stop::Stop;
use super::{json, progress, quantity};

/// Time after which keys are committed in any case.
const COMMIT_AFTER: Duration = Duration::from_secs(10);

#[derive(Args)]
pub(super) struct FeedArgs {
    /// Commit whenever so many keys were taken, and after 10 seconds in any case
    #[arg(long, value_name = "KEYS", default_value = "1_000_000", value_parser = quantity::positive)]
    commit_every: NonZeroU64,

    /// Report each commit on standard error, as {"event":"commit","number":12,"keys":1200000}: its number,
    /// and the keys taken so far in this run. "unknown" in the place of "commit" says that a failure left open
    /// whether that commit is durable
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    lock: LockArgs,

    #[command(flatten)]
    keys: KeyArgs,
}

#[derive(Args)]
pub(super) struct LockArgs {
    /// Wait for another writer to finish, for so many seconds or, without a number, as long as it takes
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = quantity::FOREVER, value_parser = quantity::wait)]
    wait: Option<Duration>,
}

impl LockArgs {
    pub(super) fn apply(&self, options: Options) -> Options {
        options.wait(self.wait.unwrap_or_default())
    }
}

impl FeedArgs {
    /// Opens the filter, and hands `take` keys, some at a time, until the input ends or a signal comes. `take` says
    /// how many it took, and why not the others.
    pub(super) fn run(
        &self,
        file: &Path,
        options: Options,
        open: impl FnOnce(Options) -> Result<Writer, Failure>,
        take: impl FnMut(&mut Writer, &[&[u8]], &mut Output) -> (usize, Result<(), Failure>),
    ) -> Result<Outcome, Failure> {
        self.keys.check()?;
        let output = Output::standard(self.keys.separator())?;
        output.check_beside(file)?;
        let writer = open(self.lock.apply(options).growth_progress(progress::of_growth()))?;
        let keys = self.keys.start()?;
        // Not earlier: until here a signal is to end the process, as when it waits for a lock.
        let waker = keys.waker();
        let stop = Stop::listen(move || waker.wake())?;
        let taken = Taken { keys: 0, committed: 0, last_commit: Instant::now(), commit_failed: false };
        let file = file.to_owned();
        let mut feed = Feed { args: self, file, writer, output, taken, in_doubt: None };
        let outcome = feed.take_all(&keys, &stop, take).and_then(|outcome| {
            feed.commit()?;
            Ok(outcome)
        });
        match outcome {
            Ok(outcome) => feed.finish(outcome),
            Err(failure) => Err(feed.give_up(failure)),
        }
    }
}

/// Takes keys one after the other.
pub(super) fn each(
    keys: &[&[u8]],
    take: impl FnMut(&&[u8]) -> Result<(), Failure>,
) -> (usize, Result<(), Failure>) {
    let mut taken = 0;
    let outcome = keys.iter().map(take).try_for_each(|outcome| outcome.map(|()| taken += 1));
    (taken, outcome)
}

/// Inserts keys that are not there yet, and hands those to `new`, in their order.
///
/// Where one is refused, those behind it may have been inserted already: they were handed to `new` then, and
/// are found when they come again.
pub(super) fn insert_unique(
    writer: &mut Writer,
    keys: &[&[u8]],
    stored: &mut Vec<bool>,
    mut new: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> (usize, Result<(), Failure>) {
    let inserted = writer.insert_unique_batch(keys, stored);
    for (key, _) in keys.iter().zip(stored).filter(|(_, stored)| **stored) {
        if let Err(failure) = new(key) {
            return (0, Err(failure));
        }
    }
    match inserted.map(|refused| refused.into_iter().next()) {
        Ok(None) => (keys.len(), Ok(())),
        Ok(Some((index, error))) => (index, Err(error.into())),
        Err(error) => (0, Err(error.into())),
    }
}

/// How far the input was taken.
struct Taken {
    keys: u64,
    committed: u64,
    last_commit: Instant,
    commit_failed: bool,
}

impl Taken {
    const fn uncommitted(&self) -> u64 {
        self.keys - self.committed
    }
}

struct Feed<'a> {
    args: &'a FeedArgs,
    file: PathBuf,
    writer: Writer,
    output: Output,
    taken: Taken,
    /// The number of a commit that may be durable or not.
    in_doubt: Option<u64>,
}

impl Feed<'_> {
    fn take_all(
        &mut self,
        keys: &Keys,
        stop: &Stop,
        mut take: impl FnMut(&mut Writer, &[&[u8]], &mut Output) -> (usize, Result<(), Failure>),
    ) -> Result<Outcome, Failure> {
        loop {
            let due = (self.taken.uncommitted() > 0).then_some(self.taken.last_commit + COMMIT_AFTER);
            let next = keys.next(due, || self.output.flush())?;
            if let Next::Keys(batches) = &next {
                let keys: Vec<&[u8]> = batches.iter().flat_map(Batch::iter).collect();
                let mut keys = keys.as_slice();
                while !keys.is_empty() {
                    if let Some(signal) = stop.signal() {
                        return Ok(Outcome::Stopped(signal));
                    }
                    let until_commit = self.args.commit_every.get() - self.taken.uncommitted();
                    let (now, later) =
                        keys.split_at(keys.len().min(usize::try_from(until_commit).unwrap_or(keys.len())));
                    let (taken, outcome) = take(&mut self.writer, now, &mut self.output);
                    self.taken.keys += taken as u64;
                    outcome?;
                    if self.taken.uncommitted() == self.args.commit_every.get() {
                        self.commit()?;
                    }
                    keys = later;
                }
            }
            match (stop.signal(), next) {
                (Some(signal), _) => return Ok(Outcome::Stopped(signal)),
                (None, Next::End) => return Ok(Outcome::Done),
                (None, Next::Keys(_) | Next::Woken) => {}
            }
            if self.taken.uncommitted() > 0 && self.taken.last_commit.elapsed() >= COMMIT_AFTER {
                self.commit()?;
            }
        }
    }

    fn commit(&mut self) -> Result<(), Failure> {
        self.output.sync()?;
        let outcome = self.writer.commit();
        self.taken.commit_failed = outcome.is_err();
        match outcome {
            Err(Error::Unknown { commit, source, .. }) if self.taken.uncommitted() > 0 => {
                self.in_doubt = Some(commit);
                self.report("unknown", commit);
                return Err((*source).into());
            }
            Err(error @ Error::AfterCommit { commit, .. }) => {
                self.taken.committed = self.taken.keys;
                self.report("commit", commit);
                return Err(error.into());
            }
            outcome => outcome?,
        }
        let new = self.taken.uncommitted() > 0;
        self.taken.committed = self.taken.keys;
        self.taken.last_commit = Instant::now();
        if self.args.json && new {
            self.report("commit", self.writer.info()?.commit);
        }
        Ok(())
    }

    fn report(&self, event: &'static str, number: u64) {
        if self.args.json {
            output::event(json::line(&json::Event { event, number, keys: self.taken.keys }));
        }
    }

    fn finish(self, outcome: Outcome) -> Result<Outcome, Failure> {
        let committed = self.taken.committed;
        self.writer.close().map_err(|error| Failure::Partly { cause: Box::new(error.into()), committed })?;
        if matches!(outcome, Outcome::Stopped(_)) && !self.args.json {
            output::note(format_args!(
                "stopped by a signal; the {committed} keys taken until then are committed"
            ));
        }
        Ok(outcome)
    }

    fn give_up(mut self, mut cause: Failure) -> Failure {
        if self.taken.keys == 0 {
            return cause;
        }
        // A commit that failed is not tried again: it would most likely fail again.
        if self.taken.uncommitted() > 0
            && !cause.is_output()
            && !self.taken.commit_failed
            && let Err(then) = self.commit()
        {
            cause = Failure::Twice { cause: Box::new(cause), then: Box::new(then) };
        }
        let Taken { keys: taken, committed, .. } = self.taken;
        match self.in_doubt {
            Some(number) => cause.in_doubt(number, committed, taken, failure::Next::Look(self.file)),
            None => Failure::Partly { cause: Box::new(cause), committed },
        }
    }
}
