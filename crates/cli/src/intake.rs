//! Moves keys from the input into a filter or store. The verbs that write share this.
//!
//! Invariants, besides the [pump's](gowk_ingest::Pump):
//!
//! 1. If printing fails, the keys since the last commit are rolled back.
//! 2. After any other failure the keys that a filter has taken are committed, and the message says how many. If a commit
//!    may be durable or not, the message says which keys are in doubt, and how to find out.
//! 3. A store gets one version, or none: a failure before its commit, or a signal, leaves it unchanged. Keys that other
//!    processes have committed first are not printed, and not counted as new.

mod loss;
mod outputs;

use std::iter;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use gowk::store::{Rejudged, Requests, Store, Token, Version};
use gowk::{Options, Writer};
use gowk_ingest::keys::CommitClock;
use gowk_ingest::{Deed, Destination, Item, Piece, Pump, Tally, Work};
use indicatif::ProgressBar;

use super::arguments::{KeyArgs, LockArgs};
use super::bar;
use super::failure::{Failure, HowToGoOn};
use super::field::TimeArgs;
use super::json;
use super::outcome::Outcome;
use super::output::{self, Output};
use super::pace::{self, Pace};
use super::paths::{self, Sink, check_outputs};
use super::quantity;
use super::refused::Refusals;
use super::scratch::Scratch;
use super::source::{self, AHEAD, Aside, Read, Source};
use super::stop::Stop;
use super::window::Window;
use loss::Loss;
use outputs::Outputs;

/// The time from one commit to the next, unless the last one took long or `--commit-every-seconds` is given. Keys count
/// only with `--commit-every`: a commit writes each changed page, and a million keys change most pages of a large filter.
const COMMIT_AFTER: Duration = Duration::from_secs(10);
const STORES: &str = "Options for stores";

#[derive(Args)]
pub(super) struct IntakeArgs {
    /// Commit also after every KEYS keys. A filter is committed at the end, and every 10 seconds, or after ten times as
    /// long as the last commit took, at most every 5 minutes. A store is committed once, at the end
    #[arg(long, value_name = "KEYS", value_parser = quantity::positive)]
    commit_every: Option<NonZeroU64>,

    /// Commit every SECONDS seconds, however long a commit takes
    #[arg(long, value_name = "SECONDS", value_parser = quantity::positive)]
    commit_every_seconds: Option<NonZeroU64>,

    /// Commit also when changes take this much memory; K, M, G and T mean powers of 1024. Not for a store
    /// [default: a quarter of the memory]
    #[arg(long, value_name = "BYTES", value_parser = quantity::size)]
    memory: Option<u64>,

    /// Report each commit on standard error, as {"event":"commit","number":12,"keys":1200000}: its number,
    /// and the keys that this run has taken. The event is "unknown" if a failure leaves open whether that
    /// commit is durable
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    lock: LockArgs,

    #[command(flatten)]
    keys: KeyArgs,

    /// Make the working copies of a store's shards in this folder, as on a fast local disk. What killed runs have left
    /// there is removed
    #[arg(long, value_name = "DIR", help_heading = STORES)]
    scratch: Option<PathBuf>,
}

/// The arguments that the inserting verbs share.
#[derive(Args)]
pub(super) struct InsertArgs {
    /// Append keys without room to this file, ended like keys of the output: the filter or store is full, and may not
    /// grow
    #[arg(long, value_name = "PATH")]
    refused: Option<PathBuf>,

    /// Append the keys that are not new to this file, or their records, as new ones are printed
    #[arg(long, value_name = "PATH")]
    seen: Option<PathBuf>,

    /// Report counts on standard error at the end: how many keys were read, new, seen before and refused, how many records
    /// had no key, and how long it took; on a terminal this is the default
    #[arg(long)]
    stats: bool,

    /// Commit to a store once, however often the command is run: with the idempotency token N, a whole number that
    /// rises from one commit to the next, of an application of this name
    #[arg(long, value_name = "APP:N", help_heading = STORES, value_parser = token)]
    token: Option<Token>,

    #[command(flatten)]
    time: TimeArgs,
}

fn token(text: &str) -> Result<Token, String> {
    let parts = text.rsplit_once(':').filter(|(application, _)| !application.is_empty());
    let (application, number) =
        parts.ok_or_else(|| "write a name, a colon and a number, as in crawl:118".to_owned())?;
    Ok(Token::new(application, quantity::count(number)?))
}

/// How a verb uses keys.
pub(super) struct Verb<'a> {
    /// The filter or store.
    pub(super) file: &'a Path,
    pub(super) name: &'static str,
    pub(super) deed: Deed,
    /// Whether new keys are printed.
    pub(super) prints: bool,
    /// The file for new keys, in place of standard output.
    pub(super) output: Option<&'a Path>,
    /// Further filters and stores: their keys also count as known.
    pub(super) window: Window,
    /// `None` for a verb that does not insert.
    pub(super) insert: Option<&'a InsertArgs>,
    /// The bar, if there already is one.
    pub(super) bar: Option<ProgressBar>,
}

impl<'a> Verb<'a> {
    /// A verb that looks only into `file`, and prints nothing.
    pub(super) fn new(file: &'a Path, name: &'static str, deed: Deed) -> Self {
        Self {
            file,
            name,
            deed,
            prints: false,
            output: None,
            window: Window::default(),
            insert: None,
            bar: None,
        }
    }
}

/// The destination of the keys, and whether an earlier commit had the same token.
type Opened = (Destination, bool);

impl IntakeArgs {
    /// Takes all keys, until the input ends or a signal comes. `filter` opens a filter; `of_store` makes the options for
    /// opening a store.
    pub(super) fn run(
        &self,
        verb: &Verb<'_>,
        filter: &dyn Fn(Options) -> Result<Writer, Failure>,
        of_store: &dyn Fn(Options) -> Result<Options, Failure>,
    ) -> Result<Outcome, Failure> {
        self.keys.check()?;
        let refused = verb.insert.and_then(|insert| insert.refused.as_deref());
        let output = verb.output.map_or(Sink::standard(), |path| Sink::file("--output", path));
        let refused_to = refused.map(|path| Sink::file("--refused", path));
        let seen = verb.insert.and_then(|insert| insert.seen.as_deref());
        let seen_to = seen.map(|path| Sink::file("--seen", path));
        let outputs: Vec<Sink<'_>> =
            [output].into_iter().chain(refused_to).chain(seen_to).chain(self.keys.rejects()).collect();
        check_outputs(&outputs, self.keys.inputs(), iter::once(verb.file).chain(verb.window.files()))?;
        let mut output = self.output(verb)?;
        let prints = verb.prints && verb.output.is_none();
        let bar = verb.bar.clone().unwrap_or_else(|| self.bar(verb.insert.is_some(), prints));
        let options = self.options(&bar);
        let is_store = paths::is_store(verb.file);
        // Kept alive until the working copies in it are sealed or dropped.
        let scratch = self.scratch.as_deref().filter(|_| is_store).map(Scratch::open).transpose()?;
        let (mut destination, is_done) = if is_store {
            self.store(verb, &of_store(options)?, scratch.as_ref())?
        } else {
            self.filter(verb, filter(self.lock.apply(options)))?
        };
        // Fails before any key comes.
        if verb.deed == Deed::Remove {
            destination.check_removals()?;
        }
        let time = verb.insert.map(|insert| insert.time.of(&mut destination)).transpose()?.flatten();
        let rules = destination.key_rules()?;
        verb.window.check_rules(rules, verb.file)?;
        let writes = verb.prints || refused.is_some() || seen.is_some();
        let appending = |path| Output::appending(path, self.keys.separator());
        let (mut refused, mut seen) = (refused.map(appending).transpose()?, seen.map(appending).transpose()?);
        let mut aside = self.keys.aside(verb.prints)?;
        let source = self.keys.start((rules, time), verb.file, writes, destination.is_store())?;
        let all = iter::once(&mut output).chain(&mut refused).chain(&mut seen).chain(&mut aside.rejects);
        let remembered = Outputs::claim(&mut destination, all)?;
        let refusals = Refusals::new(verb.file, destination.is_store(), self.json, refused);
        let pace = Pace::new(bar, source.bytes.is_some(), false);
        let is_told = verb.insert.is_some_and(|insert| self.json || insert.stats || pace.is_shown());
        let Source { mut feed, read, bytes } = source;
        // Signals are caught only from here on: until the filter is open, a signal ends the process, for example while it
        // waits for the lock.
        let stop = Stop::listen(feed.waker())?;
        let loss = Loss::new(is_told && verb.prints, &destination)?;
        let (json, tally) = (self.json, Tally::default());
        let mut intake = Intake {
            verb,
            json,
            is_told,
            output,
            refusals,
            seen,
            aside,
            remembered,
            is_end: false,
            pace,
            read,
            bytes,
            stop,
            loss,
            tally,
            printed_elsewhere: 0,
        };
        let clock = self.clock(destination.is_store());
        let mut pump = Pump::new(destination, verb.deed, clock, AHEAD).rebasing(verb.prints);
        let ended = pump.run(&mut intake, &mut feed).and_then(|ended| {
            intake.is_end = true;
            // An update of a store is committed only after the whole input.
            if ended && !is_done || !pump.destination().is_store() {
                pump.commit(&mut intake)?;
            } else {
                if ended {
                    pump.write_held(&mut intake, &Rejudged::default())?;
                }
                intake.idle()?;
            }
            Ok(ended)
        });
        let signal = intake.stop.signal();
        match ended {
            Ok(ended) => intake.finish(pump, signal.filter(|_| !ended), is_done),
            Err(failure) => Err(intake.give_up(pump, failure)),
        }
    }

    /// The bar of a verb that wants one; `prints` says whether the verb prints keys to standard output.
    pub(super) fn bar(&self, wanted: bool, prints: bool) -> ProgressBar {
        pace::bar(wanted && !self.json && self.keys.is_stream(), prints)
    }

    /// The options for filters and stores that are opened while this bar is shown.
    pub(super) fn options(&self, bar: &ProgressBar) -> Options {
        let options = self.memory.into_iter().fold(Options::new(), Options::memory);
        pace::of_options(bar, self.keys.rules.apply(options))
    }

    /// When to commit.
    fn clock(&self, is_store: bool) -> CommitClock {
        let keys = self.commit_every.filter(|_| !is_store);
        match self.commit_every_seconds {
            Some(seconds) => CommitClock::new(keys, Some(Duration::from_secs(seconds.get()))),
            None => CommitClock::new(keys, Some(COMMIT_AFTER)).amortized(),
        }
    }

    fn output(&self, verb: &Verb<'_>) -> Result<Output, Failure> {
        match verb.output {
            Some(path) => Output::appending(path, self.keys.separator()),
            None => Output::standard(self.keys.separator()),
        }
    }

    fn filter(&self, verb: &Verb<'_>, writer: Result<Writer, Failure>) -> Result<Opened, Failure> {
        let token = verb.insert.is_some_and(|insert| insert.token.is_some());
        let options = [(self.scratch.is_some(), "--scratch"), (token, "--token")];
        match options.into_iter().find(|(is_given, _)| *is_given) {
            Some((_, option)) => Err(Failure::ForStores { file: verb.file.to_owned(), option }),
            None => Ok((writer?.into(), false)),
        }
    }

    fn store(
        &self,
        verb: &Verb<'_>,
        options: &Options,
        scratch: Option<&Scratch>,
    ) -> Result<Opened, Failure> {
        self.lock.note_ignored_by_store(verb.file);
        let given = [
            (self.commit_every.is_some(), "--commit-every"),
            (self.commit_every_seconds.is_some(), "--commit-every-seconds"),
            (self.memory.is_some(), "--memory"),
        ];
        for (_, option) in given.into_iter().filter(|(is_given, _)| *is_given) {
            let store = verb.file.display();
            output::note(format_args!(
                "{store}: is a store, which is committed once, at the end: {option} has no effect"
            ));
        }
        let store = Store::open_with(verb.file, options)?;
        let token = verb.insert.and_then(|insert| insert.token.clone());
        let (base, is_done) = base(&store, token.as_ref())?;
        let update = store.update_of(base);
        let update = match scratch {
            Some(scratch) => update.scratch(scratch.folder()),
            None => update,
        };
        let destination = Destination::store(store, update, verb.name, token).sealing(bar::of("sealing"));
        Ok((destination, is_done))
    }
}

/// The version on which a commit with this token builds, and whether that commit was already made.
fn base(store: &Store, token: Option<&Token>) -> Result<(Version, bool), Failure> {
    let newest = store.newest()?;
    let Some(Token { application, number, .. }) = token else { return Ok((newest, false)) };
    match newest.tokens.get(application) {
        Some(done) if done.number > *number => Err(Failure::TokenBelow {
            store: store.path().to_owned(),
            application: application.clone(),
            number: *number,
            last: done.number,
        }),
        Some(done) if done.number == *number => Ok((store.before(application, *number)?, true)),
        _ => Ok((newest, false)),
    }
}

/// A run of a verb.
struct Intake<'a> {
    verb: &'a Verb<'a>,
    json: bool,
    /// Whether to print counts at the end.
    is_told: bool,
    output: Output,
    refusals: Refusals,
    seen: Option<Output>,
    aside: Aside,
    remembered: Outputs,
    /// Whether the next commit is the last one.
    is_end: bool,
    pace: Pace,
    /// How many bytes were read from the inputs, and how many there are, if that is known.
    read: Arc<AtomicU64>,
    bytes: Option<u64>,
    stop: Stop,
    loss: Loss,
    /// The keys taken; removed keys count as new.
    tally: Tally,
    /// How many printed keys another process has also printed.
    printed_elsewhere: u64,
}

impl Work for Intake<'_> {
    type Place = Read;
    type Error = Failure;

    fn idle(&mut self) -> Result<(), Failure> {
        self.outputs().try_for_each(Output::flush)
    }

    fn until(&self) -> Option<Instant> {
        None
    }

    fn read(&mut self, pieces: &[Piece<Read>]) -> Result<(), Failure> {
        let Some(header) = self.aside.take(pieces.iter(), &mut self.output)? else { return Ok(()) };
        self.refusals.header(header)?;
        self.seen.as_mut().map_or(Ok(()), |seen| seen.header(header))
    }

    fn is_stopped(&mut self, destination: &Destination, taken: u64) -> bool {
        self.loss.look(destination, self.tally.new);
        let load = || Some(destination.info().ok()?.load).filter(|_| !destination.is_store());
        self.pace.tell(taken, self.read.load(Ordering::Relaxed), self.bytes, load);
        self.stop.signal().is_some()
    }

    fn seen_elsewhere(&mut self, items: &[Item<'_>]) -> Result<Vec<bool>, Failure> {
        self.verb.window.known(items)
    }

    fn write(&mut self, item: Item<'_>) -> Result<(), Failure> {
        if self.verb.prints { self.output.key(item.record) } else { Ok(()) }
    }

    fn seen(&mut self, item: Item<'_>) -> Result<(), Failure> {
        self.seen.as_mut().map_or(Ok(()), |seen| seen.key(item.record))
    }

    fn refuse(
        &mut self,
        item: Item<'_>,
        pieces: &[Piece<Read>],
        index: usize,
        cause: &gowk::Error,
    ) -> Result<(), Failure> {
        let Some(place) = source::place(pieces, index) else { return Ok(()) };
        self.pace.aside(|| self.refusals.take(item.record, &place, cause))
    }

    fn took(&mut self, _: &[Piece<Read>], tally: Tally) -> Result<(), Failure> {
        self.tally.add(&tally);
        Ok(())
    }

    fn sync(&mut self, destination: &mut Destination) -> Result<(), Failure> {
        self.outputs().try_for_each(Output::sync)?;
        let Self { output, aside, refusals, seen, remembered, .. } = self;
        let all = iter::once(output).chain(&mut aside.rejects).chain(&mut refusals.output).chain(seen);
        remembered.remember(destination, all, self.is_end).map(drop)
    }

    fn committed(&mut self, number: u64, keys: u64, is_certain: bool) {
        if self.json {
            let event = if is_certain {
                json::Event::Commit { number, keys }
            } else {
                json::Event::Unknown { number, keys }
            };
            event.tell();
        }
    }

    fn known(&mut self, keys: u64) {
        self.tally.new = self.tally.new.saturating_sub(keys);
    }

    fn written_elsewhere(&mut self, keys: u64) {
        self.printed_elsewhere = keys;
    }
}

impl Intake<'_> {
    /// All outputs: for new keys, and the files for other records and keys.
    fn outputs(&mut self) -> impl Iterator<Item = &mut Output> {
        let others = [&mut self.aside.rejects, &mut self.refusals.output, &mut self.seen];
        iter::once(&mut self.output).chain(others.into_iter().flatten())
    }

    /// Closes the filter after the last commit, and reports the run; `signal` is the signal that ended it, if any.
    fn finish(mut self, pump: Pump, signal: Option<i32>, is_done: bool) -> Result<Outcome, Failure> {
        self.pace.clear();
        let (taken, is_store) = (pump.taken(), pump.destination().is_store());
        let saturated = pump.saturated();
        let file = self.verb.file.display();
        if let (Some(signal), true) = (signal, is_store) {
            self.refusals.tell_total();
            output::note("stopped by a signal; nothing was committed");
            return Ok(Outcome::Stopped(signal));
        }
        if is_done {
            output::note(format_args!(
                "{file}: a commit with this token was made before; nothing was changed"
            ));
        }
        if self.printed_elsewhere > 0 {
            let keys = quantity::grouped(self.printed_elsewhere);
            output::note(format_args!(
                "{file}: {keys} of the printed keys were printed by another process too; --token prints each key once"
            ));
        }
        self.loss.end(pump.destination(), self.tally.new);
        self.note_times();
        let requests = [pump.destination().requests(), self.verb.window.requests()];
        let requests = requests.into_iter().flatten().reduce(|one, other| one + other);
        let committing = pump.committing();
        let closed = pump.into_destination().close().map_err(Failure::from);
        closed.map_err(|failure| failure.partly(taken, None))?;
        if self.is_told {
            self.sum_up(taken, committing);
        }
        if let Some(requests) = requests.filter(|_| self.is_told || self.json) {
            self.tell_requests(requests);
        }
        if signal.is_some() && !self.json {
            output::note(format_args!(
                "stopped by a signal; the {taken} keys taken until then are committed"
            ));
        }
        let outcome = self.refusals.outcome(taken, None, signal)?;
        if taken > 0 && self.tally.late + self.tally.early == taken {
            return Err(Failure::AllUntimely { file: self.verb.file.to_owned(), keys: taken });
        }
        if saturated > 0 {
            output::note(format_args!(
                "{file}: {saturated} of {taken} keys keep the highest count: it stands for any number of copies, so that \
                 nothing can be removed from it"
            ));
        }
        let absent = taken.saturating_sub(self.tally.new);
        if self.verb.deed == Deed::Remove && signal.is_none() && absent > 0 {
            output::note(format_args!("{file}: {absent} of {taken} keys were absent"));
            return Ok(Outcome::NotFound);
        }
        if saturated > 0 && signal.is_none() {
            return Ok(Outcome::NotFound);
        }
        Ok(outcome)
    }

    /// Prints how many keys were read, new and refused, as an event or as a line for people.
    fn sum_up(&self, read: u64, committing: Duration) {
        let Tally { new, late, early, .. } = self.tally;
        let (refused, skipped) = (self.refusals.count(), self.aside.skipped);
        let seen = read.saturating_sub(new + late + early);
        let (seconds, expected_lost) = (self.pace.elapsed().as_secs_f64(), self.loss.expected());
        if self.json {
            let Tally { no_field, malformed, no_time, .. } = skipped;
            return json::Event::Summary {
                read,
                new,
                seen,
                refused,
                no_field,
                malformed,
                no_time,
                late,
                early,
                expected_lost,
                seconds,
                commit_seconds: committing.as_secs_f64(),
                bytes_written: pace::bytes_written(),
            }
            .tell();
        }
        let (file, rate) = (self.verb.file.display(), self.pace.rate(read));
        let [read, new, seen, refused] = [read, new, seen, refused].map(quantity::grouped);
        let mut counts = format!("read {read}, new {new}, seen {seen}, refused {refused}");
        if skipped.no_field + skipped.malformed > 0 {
            let [no_field, malformed] = [skipped.no_field, skipped.malformed].map(quantity::grouped);
            counts += &format!(", without a key {no_field}, malformed {malformed}");
        }
        if skipped.no_time + late + early > 0 {
            let [no_time, late, early] = [skipped.no_time, late, early].map(quantity::grouped);
            counts += &match self.verb.insert.is_some_and(|insert| insert.time.is_lifetime()) {
                true => format!(", without a lifetime {no_time}"),
                false => format!(", without a time {no_time}, late {late}, early {early}"),
            };
        }
        let share = 100.0 * committing.as_secs_f64() / seconds.max(0.001);
        let written = pace::bytes_written().map_or_else(String::new, |bytes| {
            format!(", {:.1} bytes written a key", bytes as f64 / self.tally.keys.max(1) as f64)
        });
        output::note(format_args!(
            "{file}: {counts}, in {seconds:.1} s ({rate} keys a second), {share:.0} % in commits{written}"
        ));
        if let Some(lost) = expected_lost.filter(|lost| *lost >= 0.05) {
            output::note(format_args!(
                "{file}: of the keys seen, about {} are new ones that look like others to the filter, and were not printed",
                quantity::about(lost)
            ));
        }
    }

    /// Prints the requests made to servers, as an event or as a line for people.
    fn tell_requests(&self, requests: Requests) {
        if self.json {
            return json::Event::Requests(requests).tell();
        }
        output::note(format_args!("{}: {}", self.verb.file.display(), quantity::requests(&requests)));
    }

    /// Notes how many keys were late or early.
    fn note_times(&self) {
        let not = if self.verb.prints { "neither printed nor stored" } else { "not stored" };
        source::note_untimely(self.verb.file, &self.tally, not, quantity::grouped);
    }

    fn give_up(mut self, mut pump: Pump, mut cause: Failure) -> Failure {
        self.pace.clear();
        self.note_times();
        if pump.destination().is_store() {
            self.refusals.tell_total();
            return match pump.in_doubt() {
                Some(number) => {
                    let next = HowToGoOn::Log(self.verb.file.to_owned());
                    cause.in_doubt(number, 0, pump.taken(), next)
                }
                // New keys are printed after the commit if it has a token, and before it otherwise.
                None if pump.committed() > 0 => Failure::Unprinted { cause: Box::new(cause) },
                None if self.verb.prints && cause.is_conflict() => Failure::Void { cause: Box::new(cause) },
                None => cause,
            };
        }
        let within = pump.within().filter(|[there, _]| *there > 0);
        if pump.taken() == 0 && within.is_none() && (self.remembered.is_empty() || cause.is_output()) {
            return cause;
        }
        self.is_end = true;
        // Commits even if no key was taken since the last commit: some keys of the failed batch may be stored, and
        // printed. Does not repeat a failed commit: it would most likely fail again.
        if !cause.is_output()
            && !pump.commit_failed()
            && let Err(then) = pump.commit(&mut self)
            && then.to_string() != cause.to_string()
        {
            cause = Failure::Twice { cause: Box::new(cause), then: Box::new(then) };
        }
        self.refusals.tell_total();
        let (taken, committed) = (pump.taken(), pump.committed());
        if taken == 0 && within.is_none() {
            return cause;
        }
        match pump.in_doubt() {
            Some(number) => {
                cause.in_doubt(number, committed, taken, HowToGoOn::Look(self.verb.file.to_owned()))
            }
            None if pump.commit_failed() || cause.is_output() => cause.partly(committed, None),
            None => cause.partly(committed, within),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_as_documented() {
        assert_eq!(token("crawl:118"), Ok(Token::new("crawl", 118)));
        assert_eq!(token("a:b:1_000"), Ok(Token::new("a:b", 1000)));
        for wrong in ["", "crawl", "crawl:", ":1", "crawl:x", "crawl:-1"] {
            assert!(token(wrong).is_err(), "{wrong}");
        }
    }
}
