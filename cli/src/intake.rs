//! Keys from the input into a writer, with commits on the way: what the verbs that write share.
//!
//! Invariants:
//!
//! 1. What is printed for a key is written out before that key is committed, and synced if it goes to a file. So a
//!    crash can repeat a line, and never loses one. The same holds of what is written of keys without room.
//! 2. If printing fails, the keys since the last commit are rolled back.
//! 3. After any other failure the keys taken before it are committed, and the message says how many they are. Where
//!    a commit may be durable or not, the message says which keys are in doubt, and how to find out.
//! 4. A key without room does not end a run. It counts as taken, and as refused.

pub(super) mod pace;

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use gowk::keys::{CommitClock, Next};
use gowk::{Batches, Error, Options, Writer};

use super::arguments::{AHEAD, Key, KeyArgs, KeyFeed, LockArgs, place};
use super::failure::{Failure, HowToGoOn};
use super::json;
use super::outcome::Outcome;
use super::output::{self, Output};
use super::quantity;
use super::refused::{self, Refusals, is_same};
use super::stop::Stop;
use super::store::{self, Given, StoreArgs};
use pace::Pace;

/// The longest that a key waits for its commit. There is no number of keys unless one is given: a commit writes each page
/// that was changed, and a million keys change most pages of a large filter.
const COMMIT_AFTER: Duration = Duration::from_secs(10);

#[derive(Args)]
pub(super) struct IntakeArgs {
    /// Commit also whenever so many keys were taken; keys are committed every 10 seconds and at the end in any case. A
    /// store is committed once, at the end
    #[arg(long, value_name = "KEYS", value_parser = quantity::positive)]
    commit_every: Option<NonZeroU64>,

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

/// What the verbs share that insert.
#[derive(Args)]
pub(super) struct InsertArgs {
    /// Append keys that the filter or store has no room for to this file, ended as those of the output are
    #[arg(long, value_name = "PATH")]
    pub(super) refused: Option<PathBuf>,

    /// At the end, say on standard error how many keys were read, new, seen before and refused, and how long it took;
    /// on a terminal this is said in any case
    #[arg(long)]
    pub(super) stats: bool,

    /// Whether the new keys are printed.
    #[arg(skip)]
    pub(super) prints: bool,

    /// Where they go, in the place of standard output.
    #[arg(skip)]
    pub(super) output: Option<PathBuf>,
}

/// Where a verb prints that writes to this filter or store.
pub(super) fn output(insert: Option<&InsertArgs>, keys: &KeyArgs, file: &Path) -> Result<Output, Failure> {
    let Some((path, insert)) = insert.and_then(|insert| Some((insert.output.as_deref()?, insert))) else {
        let output = Output::standard(keys.separator())?;
        return output.check_beside(file).map(|()| output);
    };
    if insert.refused.as_deref().is_some_and(|refused| is_same(refused, path)) {
        let is = "the file for the new keys".to_owned();
        return Err(Failure::RefusedOutput { path: path.to_owned(), is, option: "--refused" });
    }
    refused::open(path, keys, file, "--output")
}

impl IntakeArgs {
    /// Options for filters that are only looked into.
    pub(super) fn window_options(&self) -> Options {
        self.keys.rules.apply(Options::new())
    }

    /// The same for a store. Says which options have no effect on one.
    pub(super) fn given<'a>(
        &'a self,
        store: &'a Path,
        options: Options,
        args: &'a StoreArgs,
        operation: &'static str,
    ) -> Given<'a> {
        self.lock.note_ignored_by_store(store);
        if self.commit_every.is_some() {
            let store = store.display();
            output::note(format_args!(
                "{store}: is a store, which is committed once, at the end: --commit-every has no effect"
            ));
        }
        let (keys, json) = (&self.keys, self.json);
        Given { store, keys, json, options, args, operation, token: None, insert: None }
    }

    /// Opens the filter, and hands keys to `take`, some at a time, until the input ends or a signal comes.
    pub(super) fn run(
        &self,
        file: &Path,
        options: Options,
        insert: Option<&InsertArgs>,
        open: impl FnOnce(Options) -> Result<Writer, Failure>,
        take: impl FnMut(&mut Writer, &[Key<'_>], &mut Output) -> Taken,
    ) -> Result<Outcome, Failure> {
        self.keys.check()?;
        let output = output(insert, &self.keys, file)?;
        let prints = insert.is_some_and(|insert| insert.prints && insert.output.is_none());
        let bar = pace::bar(insert.is_some() && !self.json && self.keys.is_stream(), prints);
        let options = self.keys.rules.apply(options);
        let writer = open(self.lock.apply(options).growth_progress(pace::of_growth(&bar)))?;
        let refused = insert.and_then(|insert| insert.refused.as_deref());
        let refusals = Refusals::open(refused, &self.keys, file, self.json)?;
        let source = self.keys.start(store::known(writer.info()?.key_rules, file)?)?;
        let pace = Pace::new(bar, &source);
        let stats = insert.is_some_and(|insert| insert.stats || pace.is_shown());
        let mut feed = source.feed;
        // Not earlier: until the filter is open, a signal ends the process, as while it waits for the lock.
        let stop = Stop::listen(feed.waker())?;
        let clock = CommitClock::new(self.commit_every, Some(COMMIT_AFTER));
        let file = file.to_owned();
        let mut intake = Intake {
            json: self.json,
            summary: insert.is_some() && self.json,
            stats,
            file,
            writer,
            output,
            refusals,
            clock,
            pace,
            new: 0,
            commit_failed: false,
            in_doubt: None,
        };
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

/// What became of some keys.
pub(super) struct Taken {
    /// Keys taken, from the first on.
    keys: usize,
    /// Those of them that were new.
    new: u64,
    /// Those of the new ones that found no room, by their index.
    refused: Vec<(usize, Error)>,
    /// Why the others were not taken.
    outcome: Result<(), Failure>,
}

/// Inserts keys, and hands the new ones to `tell`, in their order, without those that are `known` elsewhere. Where the filter fails,
/// `tell` also gets those that were stored before. If it is not known what is known, nothing is inserted.
pub(super) fn insert(
    writer: &mut Writer,
    keys: &[Key<'_>],
    known: Result<Vec<bool>, Failure>,
    mut tell: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Taken {
    let known = match known {
        Ok(known) => known,
        Err(failure) => return Taken { keys: 0, new: 0, refused: Vec::new(), outcome: Err(failure) },
    };
    let mut mask = vec![false; keys.len()];
    let inserted =
        writer.insert_each(keys, |index| mask.get_mut(index).into_iter().for_each(|new| *new = true));
    let (mut told, mut new) = (Ok(()), 0);
    let is_known = |index| known.get(index) == Some(&true);
    for (_, (key, _)) in
        keys.iter().zip(mask).enumerate().filter(|(index, (_, is_new))| *is_new && !is_known(*index))
    {
        new += 1;
        told = told.and_then(|()| tell(key.record));
    }
    match told.and_then(|()| Ok(inserted?)) {
        Ok(refused) => Taken { keys: keys.len(), new, refused, outcome: Ok(()) },
        Err(failure) => Taken { keys: 0, new: 0, refused: Vec::new(), outcome: Err(failure) },
    }
}

/// Removes one copy of each key, and adds those that had none to `absent`.
pub(super) fn remove(writer: &mut Writer, keys: &[Key<'_>], absent: &mut u64) -> Taken {
    let mut removed = 0;
    match writer.remove_each(keys, |_| removed += 1) {
        Ok(()) => {
            *absent += keys.len() as u64 - removed;
            Taken { keys: keys.len(), new: 0, refused: Vec::new(), outcome: Ok(()) }
        }
        Err(error) => Taken { keys: 0, new: 0, refused: Vec::new(), outcome: Err(error.into()) },
    }
}

/// Tells at the end of a run how many keys were read, new and refused, as an event or as a line for people.
pub(super) fn sum_up(file: &Path, as_json: bool, [read, new, refused]: [u64; 3], pace: &Pace) {
    let (seen, seconds) = (read.saturating_sub(new), pace.elapsed().as_secs_f64());
    if as_json {
        let summary = json::Inserted { event: "summary", read, new, seen, refused, seconds };
        return output::event(json::line(&summary));
    }
    let (file, rate) = (file.display(), pace.rate(read));
    let [read, new, seen, refused] = [read, new, seen, refused].map(quantity::grouped);
    output::note(format_args!(
        "{file}: read {read}, new {new}, seen {seen}, refused {refused}, in {seconds:.1} s ({rate} keys a second)"
    ));
}

struct Intake {
    json: bool,
    /// Whether to tell programs at the end what was inserted, and whether to tell people.
    summary: bool,
    stats: bool,
    file: PathBuf,
    writer: Writer,
    output: Output,
    refusals: Refusals,
    clock: CommitClock,
    pace: Pace,
    /// Keys that were new.
    new: u64,
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
        mut take: impl FnMut(&mut Writer, &[Key<'_>], &mut Output) -> Taken,
    ) -> Result<Outcome, Failure> {
        loop {
            let next = match feed.try_next()? {
                Some(next) => next,
                None => {
                    self.output.flush()?;
                    self.refusals.flush()?;
                    feed.next(self.clock.deadline())?
                }
            };
            let ended = matches!(next, Next::End);
            if let Next::Message(piece) = next {
                let mut pieces = vec![piece];
                pieces.append(&mut feed.ready(AHEAD - 1));
                let mut all = Vec::new();
                pieces.iter().for_each(|piece| piece.add_to(&mut all));
                let mut keys = all.as_slice();
                while !keys.is_empty() && stop.signal().is_none() {
                    let most = usize::try_from(self.clock.keys_left()).unwrap_or(usize::MAX);
                    let (now, later) = keys.split_at(keys.len().min(most));
                    let taken = take(&mut self.writer, now, &mut self.output);
                    let before = all.len() - keys.len();
                    for (index, cause) in taken.refused {
                        if let (Some(key), Some(place)) = (now.get(index), place(&pieces, before + index)) {
                            self.pace.aside(|| self.refusals.take(key.record, &place, &cause))?;
                        }
                    }
                    self.clock.take(taken.keys as u64);
                    self.new += taken.new;
                    taken.outcome?;
                    self.pace.tell(self.clock.taken(), || Some(self.writer.info().ok()?.load));
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
        self.refusals.sync()?;
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
        let Self { json, summary, stats, file, writer, refusals, clock, pace, new, .. } = self;
        let read = clock.committed();
        writer.close().map_err(|error| Failure::Partly { cause: Box::new(error.into()), committed: read })?;
        pace.clear();
        if summary || stats {
            sum_up(&file, summary, [read, new, refusals.count()], &pace);
        }
        if matches!(outcome, Outcome::Stopped(_)) && !json {
            output::note(format_args!("stopped by a signal; the {read} keys taken until then are committed"));
        }
        match (refusals.failure(read, None), &outcome) {
            (Some(failure), Outcome::Done) => return Err(failure),
            (Some(failure), _) => output::note(failure),
            (None, _) => {}
        }
        Ok(outcome)
    }

    fn give_up(mut self, mut cause: Failure) -> Failure {
        self.pace.clear();
        if self.clock.taken() == 0 {
            return cause;
        }
        // Also where no key counts as taken since the last commit: of those with the one that failed, some may be stored,
        // and printed. A commit that failed is not tried again: it would most likely fail again.
        if !cause.is_output()
            && !self.commit_failed
            && let Err(then) = self.commit()
            && then.to_string() != cause.to_string()
        {
            cause = Failure::Twice { cause: Box::new(cause), then: Box::new(then) };
        }
        let (taken, committed) = (self.clock.taken(), self.clock.committed());
        self.refusals.tell_total();
        match self.in_doubt {
            Some(number) => cause.in_doubt(number, committed, taken, HowToGoOn::Look(self.file)),
            None => Failure::Partly { cause: Box::new(cause), committed },
        }
    }
}
