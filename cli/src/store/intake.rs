//! Keys from the input into a store: one version at the end, or nothing.
//!
//! Invariants:
//!
//! 1. What is printed for keys is written out, and synced if it goes to a file, before they are committed. So a crash or
//!    a failure can repeat lines, and never loses one.
//!    The same holds of what is written of keys without room.
//! 2. Keys are taken in portions that their number and length alone decide. So the same input gives the same answers
//!    each time.

use std::path::{Path, PathBuf};

use clap::Args;
use gowk::keys::Next;
use gowk::store::{Change, Committed, Store, Token, Update, Version};
use gowk::{Batches, Error, Inserted, KeyRules, Options};
use indicatif::ProgressBar;

use super::super::arguments::{self, Key, KeyArgs, KeyFeed, Piece};
use super::super::bar::Bar;
use super::super::failure::Failure;
use super::super::intake::pace::{self, Pace};
use super::super::intake::{InsertArgs, output, sum_up};
use super::super::json;
use super::super::outcome::Outcome;
use super::super::output::{self, Output};
use super::super::refused::Refusals;
use super::super::stop::Stop;

/// Keys, and bytes of them, that are taken at a time.
const KEYS: usize = 1 << 20;
const BYTES: usize = 64 << 20;

#[derive(Args)]
pub(in super::super) struct StoreArgs {
    /// Make the working copies of a store's shards in this folder, as on a fast local disk
    #[arg(long, value_name = "DIR", help_heading = STORES)]
    scratch: Option<PathBuf>,
}

#[derive(Args)]
pub(in super::super) struct TokenArgs {
    /// Commit to a store once, however often the command is run: with the idempotency token N, a whole number that
    /// rises from one commit to the next, of an application of this name
    #[arg(long, value_name = "APP:N", help_heading = STORES, value_parser = token)]
    token: Option<Token>,
}

const STORES: &str = "Options for stores";

fn token(text: &str) -> Result<Token, String> {
    let parts = text.rsplit_once(':').filter(|(application, _)| !application.is_empty());
    let (application, number) =
        parts.ok_or_else(|| "write a name, a colon and a number, as in crawl:118".to_owned())?;
    Ok(Token::new(application, super::super::quantity::count(number)?))
}

impl StoreArgs {
    /// Fails if options for stores are given for a filter.
    pub(in super::super) fn check_absent(&self, file: &Path) -> Result<(), Failure> {
        let given = self.scratch.is_some().then_some("--scratch");
        given.map_or(Ok(()), |option| Err(Failure::ForStores { file: file.to_owned(), option }))
    }
}

impl TokenArgs {
    /// As [`StoreArgs::check_absent`].
    pub(in super::super) fn check_absent(&self, file: &Path) -> Result<(), Failure> {
        let given = self.token.is_some().then_some("--token");
        given.map_or(Ok(()), |option| Err(Failure::ForStores { file: file.to_owned(), option }))
    }
}

/// What all verbs that write to a store have.
pub(in super::super) struct Given<'a> {
    pub(in super::super) store: &'a Path,
    pub(in super::super) keys: &'a KeyArgs,
    /// Whether the commit is reported on standard error.
    pub(in super::super) json: bool,
    pub(in super::super) options: Options,
    pub(in super::super) args: &'a StoreArgs,
    pub(in super::super) operation: &'static str,
    pub(in super::super) token: Option<&'a TokenArgs>,
    /// `None` for a verb that does not insert.
    pub(in super::super) insert: Option<&'a InsertArgs>,
}

/// Whether a commit with a token is still to be made.
enum Place {
    /// Based on this version.
    Due(Version),
    /// It was made; this is the version before it.
    Done(Version),
}

pub(super) struct Intake<'a> {
    given: Given<'a>,
    store: Store,
    update: Update,
    /// `None` if there is nothing to commit, as it was committed before.
    token: Option<Option<Token>>,
    output: Output,
    refusals: Refusals,
    bar: ProgressBar,
    /// Keys that were taken, and those that were new.
    taken: u64,
    new: u64,
}

/// What became of a portion of keys.
#[derive(Default)]
pub(super) struct Taken {
    new: u64,
    /// Those of the new ones that found no room, by their index.
    refused: Vec<(usize, Error)>,
}

impl Taken {
    /// So many of the new keys are known elsewhere.
    pub(super) fn without(self, known: u64) -> Self {
        Self { new: self.new.saturating_sub(known), ..self }
    }

    pub(super) fn of(inserted: Inserted) -> Self {
        Self { new: inserted.new_keys() as u64, refused: inserted.into_refused() }
    }
}

/// Keys that are read and not taken yet.
#[derive(Default)]
struct Portion {
    pieces: Vec<Piece>,
    /// Keys of the pieces that were taken before.
    skip: usize,
    keys: usize,
    bytes: usize,
}

impl Portion {
    /// Lets go of all pieces but the last, whose keys were all taken.
    fn keep_last(&mut self) {
        let taken = self.pieces.len().saturating_sub(1);
        self.skip -= self.pieces.drain(..taken).map(|piece| piece.len()).sum::<usize>();
    }
}

impl<'a> Intake<'a> {
    pub(super) fn open(given: Given<'a>) -> Result<Self, Failure> {
        given.keys.check()?;
        let output = output(given.insert, given.keys, given.store)?;
        let prints = given.insert.is_some_and(|insert| insert.prints && insert.output.is_none());
        let bar = pace::bar(given.insert.is_some() && !given.json && given.keys.is_stream(), prints);
        let options = given.keys.rules.apply(given.options.clone()).growth_progress(pace::of_growth(&bar));
        let store = Store::open_with(given.store, &options)?;
        let token = given.token.and_then(|given| given.token.clone());
        let (base, token) = match place(&store, token.as_ref())? {
            Place::Due(base) => (base, Some(token)),
            Place::Done(before) => (before, None),
        };
        let update = store.update_of(base);
        let update = match &given.args.scratch {
            Some(folder) => update.scratch(folder),
            None => update,
        };
        let refused = given.insert.and_then(|insert| insert.refused.as_deref());
        let refusals = Refusals::open(refused, given.keys, given.store, given.json)?;
        Ok(Self { given, store, update, token, output, refusals, bar, taken: 0, new: 0 })
    }

    /// What a key is there.
    pub(super) fn key_rules(&self) -> KeyRules {
        self.store.description().key_rules
    }

    /// Hands all keys to `take`, a portion at a time, and commits them; nothing if a signal comes first. Keys without
    /// room do not end a run, and are told of as those of a filter are.
    pub(super) fn run(
        mut self,
        mut take: impl FnMut(&mut Update, &[Key<'_>], &mut Output) -> Result<Taken, Failure>,
    ) -> Result<Outcome, Failure> {
        let source = self.given.keys.start(self.store.description().key_rules)?;
        let mut pace = Pace::new(self.bar.clone(), &source);
        let mut feed = source.feed;
        let stop = Stop::listen(feed.waker())?;
        let outcome = self.take_all(&mut feed, &stop, &mut pace, &mut take);
        match outcome {
            Ok(Outcome::Done) => self.commit(&pace),
            Ok(stopped) => {
                pace.clear();
                self.refusals.tell_total();
                output::note("stopped by a signal; nothing was committed");
                Ok(stopped)
            }
            Err(failure) => {
                pace.clear();
                self.refusals.tell_total();
                Err(failure)
            }
        }
    }

    fn take_all(
        &mut self,
        feed: &mut KeyFeed,
        stop: &Stop,
        pace: &mut Pace,
        take: &mut impl FnMut(&mut Update, &[Key<'_>], &mut Output) -> Result<Taken, Failure>,
    ) -> Result<Outcome, Failure> {
        let mut portion = Portion::default();
        loop {
            let next = feed.next(None)?;
            if let Some(signal) = stop.signal() {
                return Ok(Outcome::Stopped(signal));
            }
            match next {
                Next::Message(piece) => {
                    let mut keys = Vec::new();
                    piece.add_to(&mut keys);
                    let lengths: Vec<usize> = keys.iter().map(|key| key.key.len()).collect();
                    portion.pieces.push(piece);
                    let before = self.taken;
                    for length in lengths {
                        portion.keys += 1;
                        portion.bytes += length;
                        if portion.keys == KEYS || portion.bytes >= BYTES {
                            self.take(&mut portion, pace, take)?;
                        }
                    }
                    if self.taken > before {
                        portion.keep_last();
                    }
                    pace.tell(self.taken + portion.keys as u64, || None);
                }
                Next::Woken => {}
                Next::End => {
                    self.take(&mut portion, pace, take)?;
                    return Ok(Outcome::Done);
                }
            }
        }
    }

    fn take(
        &mut self,
        portion: &mut Portion,
        pace: &Pace,
        take: &mut impl FnMut(&mut Update, &[Key<'_>], &mut Output) -> Result<Taken, Failure>,
    ) -> Result<(), Failure> {
        let mut all = Vec::new();
        portion.pieces.iter().for_each(|piece| piece.add_to(&mut all));
        let keys = all.get(portion.skip..portion.skip + portion.keys).unwrap_or_default();
        let taken = take(&mut self.update, keys, &mut self.output)?;
        for (index, cause) in &taken.refused {
            if let (Some(key), Some(place)) =
                (keys.get(*index), arguments::place(&portion.pieces, portion.skip + index))
            {
                pace.aside(|| self.refusals.take(key.record, &place, cause))?;
            }
        }
        self.taken += keys.len() as u64;
        self.new += taken.new;
        portion.skip += portion.keys;
        (portion.keys, portion.bytes) = (0, 0);
        Ok(())
    }

    fn commit(self, pace: &Pace) -> Result<Outcome, Failure> {
        pace.clear();
        let Self { given, store, update, token, mut output, mut refusals, taken, new, .. } = self;
        let synced = output.sync().and_then(|()| refusals.sync());
        if let Err(failure) = synced.and_then(|()| publish(&given, &store, update, token, taken)) {
            refusals.tell_total();
            return Err(failure);
        }
        if given.insert.is_some_and(|insert| given.json || insert.stats || pace.is_shown()) {
            sum_up(given.store, given.json, [taken, new, refusals.count()], pace);
        }
        refusals.failure(taken, None).map_or(Ok(Outcome::Done), Err)
    }
}

/// Makes a version of an update, if there is anything to commit.
fn publish(
    given: &Given<'_>,
    store: &Store,
    update: Update,
    token: Option<Option<Token>>,
    keys: u64,
) -> Result<(), Failure> {
    let Some(token) = token else {
        let name = given.store.display();
        output::note(format_args!("{name}: a commit with this token was made before; nothing was changed"));
        return Ok(());
    };
    if update.touched() == 0 && token.is_none() {
        return Ok(());
    }
    let base = update.base().number;
    let bar = Bar::new("sealing");
    let sealed = update.seal_with(&|done, all| bar.tell(done, all))?;
    drop(bar);
    let operation = given.operation.to_owned();
    match store.commit(&Change { base, operation, token, sealed })? {
        Committed::New(version) if given.json => {
            let number = version.number;
            output::event(json::line(&json::Committed { event: "commit", number, keys }));
        }
        Committed::Already(done) if done.base != base => {
            return Err(Failure::Overtaken { store: given.store.to_owned(), version: done.version });
        }
        _ => {}
    }
    Ok(())
}

/// Finds out what the commit with a token is based on.
fn place(store: &Store, token: Option<&Token>) -> Result<Place, Failure> {
    let newest = store.newest()?;
    let Some(Token { application, number, .. }) = token else { return Ok(Place::Due(newest)) };
    match newest.tokens.get(application) {
        Some(done) if done.number > *number => Err(Failure::TokenBelow {
            store: store.path().to_owned(),
            application: application.clone(),
            number: *number,
            last: done.number,
        }),
        Some(done) if done.number == *number => Ok(Place::Done(store.before(application, *number)?)),
        _ => Ok(Place::Due(newest)),
    }
}

/// `gowk insert` into a store.
pub(in super::super) fn insert(given: Given<'_>) -> Result<Outcome, Failure> {
    Intake::open(given)?.run(|update, keys, _| Ok(Taken::of(update.insert_batch(keys)?)))
}

/// `gowk remove` from a store.
pub(in super::super) fn remove(given: Given<'_>) -> Result<Outcome, Failure> {
    let name = given.store.display().to_string();
    let (mut all, mut absent) = (0, 0);
    let mut intake = Intake::open(given)?;
    // A set refuses before a key comes.
    intake.update.remove_batch::<&[u8]>(&[])?;
    let outcome = intake.run(|update, keys, _| {
        all += keys.len();
        absent += update.remove_batch(keys)?.iter().filter(|removed| !**removed).count();
        Ok(Taken::default())
    });
    match outcome? {
        Outcome::Done if absent > 0 => {
            output::note(format_args!("{name}: {absent} of {all} keys were absent"));
            Ok(Outcome::NotFound)
        }
        outcome => Ok(outcome),
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
