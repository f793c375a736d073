//! Keys without room in the filter: names them on standard error, writes them to a file if one is given, and counts them.
//!
//! Invariant: the record written for a key is synced before the next commit, as printed keys are.

use std::path::{Path, PathBuf};

use gowk::Error;

use super::failure::{Failure, with_remedy};
use super::json;
use super::outcome::Outcome;
use super::output::{self, Output};
use super::source::Place;

/// How many keys are named one by one; further keys are only counted.
const NAMED: u64 = 10;
/// How many characters of a key a message shows at most.
const SHOWN: usize = 200;

pub(super) struct Refusals {
    /// The filter or store.
    file: PathBuf,
    is_store: bool,
    json: bool,
    /// The file for these keys, if one is given.
    pub(super) output: Option<Output>,
    named: u64,
    count: u64,
    /// Why there was no room for the first of the keys, and the remedy.
    first: Option<String>,
}

impl Refusals {
    /// For the keys of this filter or store. Without an output, refused keys are only named and counted.
    pub(super) fn new(file: &Path, is_store: bool, json: bool, output: Option<Output>) -> Self {
        Self { file: file.to_owned(), is_store, json, output, named: 0, count: 0, first: None }
    }

    /// Writes the header of the records.
    pub(super) fn header(&mut self, header: &[u8]) -> Result<(), Failure> {
        self.output.as_mut().map_or(Ok(()), |output| output.header(header))
    }

    /// Writes and reports a key without room; `place` is its place in the input.
    pub(super) fn take(&mut self, key: &[u8], place: &Place, cause: &Error) -> Result<(), Failure> {
        self.output.as_mut().map_or(Ok(()), |output| output.key(key))?;
        self.tell(key, place, cause);
        Ok(())
    }

    /// Like [`take`](Self::take), but leaves writing the key to the caller.
    pub(super) fn tell(&mut self, key: &[u8], place: &Place, cause: &Error) {
        if self.first.is_none() {
            let remedy = if matches!(cause, Error::Full { .. }) {
                "; create a larger store, or one that may grow"
            } else {
                ""
            };
            self.first = Some(match self.in_store(cause) {
                Some(reason) => format!("{reason}{remedy}"),
                None => with_remedy(cause),
            });
        }
        self.count += 1;
        if self.named == NAMED {
            return;
        }
        self.named += 1;
        let text = String::from_utf8_lossy(key);
        if self.json {
            let reason = self.in_store(cause).unwrap_or_else(|| cause.to_string());
            let input = &*place.input;
            return json::Event::Refused { input, number: place.number, key: &text, reason }.tell();
        }
        let short: String = text.chars().take(SHOWN).collect();
        let cut = if short.len() < text.len() { "..." } else { "" };
        output::note(format_args!("{}: no room for {place}: {short}{cut}", self.file.display()));
        if self.named == NAMED {
            output::note(format_args!("{}: further keys without room are counted only", self.file.display()));
        }
    }

    /// Why a shard of a store has no room. Names the store: the library's message names the shard's working copy, whose
    /// path means nothing to the user.
    fn in_store(&self, cause: &Error) -> Option<String> {
        let store = self.file.display();
        match cause {
            Error::Full { load, .. } if self.is_store => {
                Some(format!("{store}: no room in a shard at load {load:.3}, and growth is off"))
            }
            Error::Growth { reason, .. } if self.is_store => {
                Some(format!("{store}: no room in a shard, which may not double: {reason}"))
            }
            _ => None,
        }
    }

    /// The outcome of a run that took `keys` keys and committed all except the refused ones. If these were not written to
    /// the output here, `written` is the file that has them. After a signal, lack of room is only noted.
    pub(super) fn outcome(
        mut self,
        keys: u64,
        written: Option<PathBuf>,
        signal: Option<i32>,
    ) -> Result<Outcome, Failure> {
        if let Some(cause) = self.first.take() {
            let written = self.output.as_ref().and_then(Output::path).map(Path::to_owned).or(written);
            let place = if self.is_store { "store" } else { "filter" };
            let failure = Failure::NoRoom { cause, refused: self.count, keys, place, written };
            if signal.is_none() {
                return Err(failure);
            }
            output::note(failure);
        }
        Ok(signal.map_or(Outcome::Done, Outcome::Stopped))
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Reports how many keys had no room, if another failure ends the run.
    pub(super) fn tell_total(&self) {
        if self.count == 0 {
            return;
        }
        if self.json {
            json::Event::RefusedTotal { keys: self.count }.tell();
        } else {
            output::note(format_args!("{}: {} keys found no room", self.file.display(), self.count));
        }
    }
}
