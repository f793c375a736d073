//! Keys from the input into a store: one version at the end, or nothing.
//!
//! Invariants:
//!
//! 1. What is printed for keys is written out, and synced if it goes to a file, before they are committed. So a crash or
//!    a failure can repeat lines, and never loses one.
//! 2. Keys are taken in portions that their number and length alone decide. So the same input gives the same answers
//!    each time.

use std::path::{Path, PathBuf};

use clap::Args;
use gowk::keys::{Batch, Next};
use gowk::store::{Change, Committed, Store, Transaction, Update, Version};
use gowk::{Error, Options};

use super::super::arguments::KeyArgs;
use super::super::bar::{self, Bar};
use super::super::failure::Failure;
use super::super::json;
use super::super::outcome::Outcome;
use super::super::output::{self, Output};
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
pub(in super::super) struct TransactionArgs {
    /// Commit to a store once, however often it is tried: as transaction N, a whole number that rises from one to the
    /// next, of an application of this name
    #[arg(long, value_name = "APP:N", help_heading = STORES, value_parser = transaction)]
    transaction: Option<Transaction>,
}

const STORES: &str = "Options for stores";

fn transaction(text: &str) -> Result<Transaction, String> {
    let parts = text.rsplit_once(':').filter(|(application, _)| !application.is_empty());
    let (application, number) =
        parts.ok_or_else(|| "write a name, a colon and a number, as in crawl:118".to_owned())?;
    Ok(Transaction::new(application, super::super::quantity::count(number)?))
}

impl StoreArgs {
    /// Fails if options for stores are given for a filter.
    pub(in super::super) fn check_absent(&self, file: &Path) -> Result<(), Failure> {
        let given = self.scratch.is_some().then_some("--scratch");
        given.map_or(Ok(()), |option| Err(Failure::ForStores { file: file.to_owned(), option }))
    }
}

impl TransactionArgs {
    /// As [`StoreArgs::check_absent`].
    pub(in super::super) fn check_absent(&self, file: &Path) -> Result<(), Failure> {
        let given = self.transaction.is_some().then_some("--transaction");
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
    pub(in super::super) transaction: Option<&'a TransactionArgs>,
    pub(in super::super) operation: &'static str,
}

/// Whether a transaction is still to be committed.
enum Place {
    /// Based on this version.
    Due(Version),
    /// It was committed; this is the version before it.
    Done(Version),
}

pub(super) struct Intake<'a> {
    given: Given<'a>,
    store: Store,
    update: Update,
    /// `None` if there is nothing to commit, as it was committed before.
    transaction: Option<Option<Transaction>>,
    pub(super) output: Output,
    taken: u64,
}

impl<'a> Intake<'a> {
    pub(super) fn open(given: Given<'a>) -> Result<Self, Failure> {
        given.keys.check()?;
        let output = Output::standard(given.keys.separator())?;
        let store = Store::open_with(given.store, &given.options.clone().growth_progress(bar::of_growth()))?;
        let transaction = given.transaction.and_then(|given| given.transaction.clone());
        let (base, transaction) = match place(&store, transaction.as_ref())? {
            Place::Due(base) => (base, Some(transaction)),
            Place::Done(before) => (before, None),
        };
        let update = store.update_of(base);
        let update = match &given.args.scratch {
            Some(folder) => update.scratch(folder),
            None => update,
        };
        Ok(Self { given, store, update, transaction, output, taken: 0 })
    }

    /// Hands all keys to `take`, a portion at a time, and commits them; nothing if a signal comes first.
    pub(super) fn run(
        mut self,
        mut take: impl FnMut(&mut Update, &[&[u8]], &mut Output) -> Result<(), Failure>,
    ) -> Result<Outcome, Failure> {
        let mut feed = self.given.keys.start()?;
        let stop = Stop::listen(feed.waker())?;
        let (mut portion, mut bytes) = (Batch::default(), 0);
        loop {
            let next = feed.next(None)?;
            if let Some(signal) = stop.signal() {
                output::note("stopped by a signal; nothing was committed");
                return Ok(Outcome::Stopped(signal));
            }
            let ended = matches!(next, Next::End);
            let batch = if let Next::Message(batch) = next { batch } else { Batch::default() };
            for key in batch.iter() {
                portion.push(key);
                bytes += key.len();
                if portion.len() == KEYS || bytes >= BYTES {
                    self.take(&mut take, &portion)?;
                    (portion, bytes) = (Batch::default(), 0);
                }
            }
            if ended {
                self.take(&mut take, &portion)?;
                break;
            }
        }
        self.commit()
    }

    fn take(
        &mut self,
        take: &mut impl FnMut(&mut Update, &[&[u8]], &mut Output) -> Result<(), Failure>,
        portion: &Batch,
    ) -> Result<(), Failure> {
        let keys: Vec<&[u8]> = portion.iter().collect();
        self.taken += keys.len() as u64;
        take(&mut self.update, &keys, &mut self.output)
    }

    fn commit(mut self) -> Result<Outcome, Failure> {
        self.output.sync()?;
        let name = self.given.store.display();
        let Some(transaction) = self.transaction else {
            output::note(format_args!("{name}: this transaction was committed before; nothing was changed"));
            return Ok(Outcome::Done);
        };
        if self.update.touched() == 0 && transaction.is_none() {
            return Ok(Outcome::Done);
        }
        let base = self.update.base().number;
        let bar = Bar::new("sealing");
        let sealed = self.update.seal_with(&|done, all| bar.tell(done, all))?;
        drop(bar);
        let operation = self.given.operation.to_owned();
        match self.store.commit(&Change { base, operation, transaction, sealed })? {
            Committed::New(version) if self.given.json => {
                let (number, keys) = (version.number, self.taken);
                output::event(json::line(&json::Committed { event: "commit", number, keys }));
            }
            Committed::Already(done) if done.base != base => {
                return Err(Failure::Overtaken { store: self.given.store.to_owned(), version: done.version });
            }
            _ => {}
        }
        Ok(Outcome::Done)
    }
}

/// Finds out what a transaction is based on.
fn place(store: &Store, transaction: Option<&Transaction>) -> Result<Place, Failure> {
    let newest = store.newest()?;
    let Some(Transaction { application, number, .. }) = transaction else { return Ok(Place::Due(newest)) };
    match newest.transactions.get(application) {
        Some(done) if done.number > *number => Err(Failure::TransactionBelow {
            store: store.path().to_owned(),
            application: application.clone(),
            number: *number,
            last: done.number,
        }),
        Some(done) if done.number == *number => Ok(Place::Done(store.before(application, *number)?)),
        _ => Ok(Place::Due(newest)),
    }
}

/// The first key that was refused for another reason than its copies, as an error; counts the others.
fn check_refused(refused: Vec<(usize, Error)>, copies: &mut u64) -> Result<(), Failure> {
    for (_, error) in refused {
        match error {
            Error::DuplicateLimit { .. } => *copies += 1,
            error => return Err(error.into()),
        }
    }
    Ok(())
}

/// `gowk insert` into a store.
pub(in super::super) fn insert(given: Given<'_>, copies: bool) -> Result<Outcome, Failure> {
    let name = given.store.display().to_string();
    let (mut beyond, mut stored) = (0, Vec::new());
    let outcome = Intake::open(given)?.run(|update, keys, _| {
        let refused = if copies {
            update.insert_batch(keys)?
        } else {
            update.insert_unique_batch(keys, &mut stored)?
        };
        check_refused(refused, &mut beyond)
    });
    if beyond > 0 {
        output::note(format_args!(
            "{name}: {beyond} copies were beyond the limit of copies of a key and not stored; their keys are present"
        ));
    }
    outcome
}

/// `gowk remove` from a store.
pub(in super::super) fn remove(given: Given<'_>, unchecked: bool) -> Result<Outcome, Failure> {
    let name = given.store.display().to_string();
    let (mut all, mut absent, mut removed) = (0, 0, Vec::new());
    let outcome = Intake::open(given)?.run(|update, keys, _| {
        if unchecked {
            update.remove_unchecked_batch(keys, &mut removed)?;
        } else {
            update.remove_batch(keys, &mut removed)?;
        }
        all += keys.len();
        absent += removed.iter().filter(|removed| !**removed).count();
        Ok(())
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
    fn transactions_are_read_as_documented() {
        assert_eq!(transaction("crawl:118"), Ok(Transaction::new("crawl", 118)));
        assert_eq!(transaction("a:b:1_000"), Ok(Transaction::new("a:b", 1000)));
        for wrong in ["", "crawl", "crawl:", ":1", "crawl:x", "crawl:-1"] {
            assert!(transaction(wrong).is_err(), "{wrong}");
        }
    }
}
