//! Keys that the filter has no room for: names them on standard error, writes them to a file if one is given, and
//! counts them.
//!
//! Invariant: the record written for a key is synced before the next commit, as printed keys are.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gowk::Error;

use super::arguments::KeyArgs;
use super::failure::{Failure, WithRemedy};
use super::json;
use super::output::{self, Output};
use super::source::Place;
use super::store;

/// The most keys named one by one; further keys are only counted.
const NAMED: u64 = 10;
/// The most characters of a key that a message shows.
const SHOWN: usize = 200;

pub(super) struct Refusals {
    /// The filter or store.
    file: PathBuf,
    is_store: bool,
    json: bool,
    output: Option<Output>,
    named: u64,
    count: u64,
    /// Why there was no room for the first of the keys, and the remedy.
    first: Option<String>,
}

impl Refusals {
    /// Opens the file for the keys, if one is given. Fails if it cannot be opened, or if the command reads or writes it
    /// otherwise.
    pub(super) fn open(
        path: Option<&Path>,
        keys: &KeyArgs,
        file: &Path,
        is_store: bool,
        json: bool,
    ) -> Result<Self, Failure> {
        let output = path.map(|path| open(path, keys, file, "--refused")).transpose()?;
        Ok(Self { output, ..Self::told(file, is_store, json) })
    }

    /// Refusals that are named and counted, and not written to a file.
    pub(super) fn told(file: &Path, is_store: bool, json: bool) -> Self {
        Self { file: file.to_owned(), is_store, json, output: None, named: 0, count: 0, first: None }
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

    /// Like [`take`](Self::take), but does not write the key: the caller does.
    pub(super) fn tell(&mut self, key: &[u8], place: &Place, cause: &Error) {
        if self.first.is_none() {
            let remedy = if matches!(cause, Error::Full { .. }) {
                "; create a larger store, or one that may grow"
            } else {
                ""
            };
            self.first = Some(match self.in_store(cause) {
                Some(reason) => format!("{reason}{remedy}"),
                None => WithRemedy(cause).to_string(),
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
            let event = json::Refused { event: "refused", input, number: place.number, key: &text, reason };
            return output::event(json::line(&event));
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

    /// Flushes and syncs the file, so that its keys survive a power cut.
    pub(super) fn sync(&mut self) -> Result<(), Failure> {
        self.output.as_mut().map_or(Ok(()), Output::sync)
    }

    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.output.as_mut().map_or(Ok(()), Output::flush)
    }

    /// The failure at the end of a run that committed its `keys` keys except those without room; `None` if there was
    /// room for all.
    pub(super) fn failure(mut self, keys: u64, written: Option<PathBuf>) -> Option<Failure> {
        let (cause, refused) = (self.first.take()?, self.count);
        let written = self.output.as_ref().and_then(Output::path).map(Path::to_owned).or(written);
        let place = if self.is_store { "store" } else { "filter" };
        Some(Failure::NoRoom { cause, refused, keys, place, written })
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
            let event = json::RefusedTotal { event: "refused_total", keys: self.count };
            output::event(json::line(&event));
        } else {
            output::note(format_args!("{}: {} keys found no room", self.file.display(), self.count));
        }
    }
}

/// Opens the file that `option` names, to append keys or records to it. Fails if the command reads or writes that file
/// otherwise.
pub(super) fn open(
    path: &Path,
    keys: &KeyArgs,
    filter: &Path,
    option: &'static str,
) -> Result<Output, Failure> {
    let refused = |is| Failure::RefusedOutput { path: path.to_owned(), is, option };
    if let Some(is) = belongs_to(path, filter) {
        return Err(refused(is));
    }
    let output = Output::appending(path, keys.separator())?;
    // Keys written to an input would be read and written again, without end.
    let id = |metadata: Metadata| metadata.is_file().then(|| (metadata.dev(), metadata.ino()));
    let own = path.metadata().ok().and_then(id);
    let of_stream = |stream: io::Result<std::os::fd::OwnedFd>| {
        stream.and_then(|stream| File::from(stream).metadata()).ok().and_then(id)
    };
    let is_own = |found: Option<_>| found.is_some() && found == own;
    for input in keys.files() {
        if is_own(input.metadata().ok().and_then(id)) {
            return Err(refused(format!("the input {}", input.display())));
        }
    }
    if keys.reads_standard_input() && is_own(of_stream(io::stdin().as_fd().try_clone_to_owned())) {
        return Err(refused("standard input".to_owned()));
    }
    if is_own(of_stream(io::stdout().as_fd().try_clone_to_owned())) {
        return Err(refused("standard output".to_owned()));
    }
    Ok(output)
}

/// The reason not to write to a file: it belongs to the filter or store. `None` if it does not. The file need not
/// exist.
pub(super) fn belongs_to(path: &Path, filter: &Path) -> Option<String> {
    if let Some(own) = output::own(filter).into_iter().find(|own| is_same(path, own)) {
        return Some(format!("{}, a file of the filter itself", own.display()));
    }
    let is_in_store = store::is_store(filter) && leads_into(path, filter);
    is_in_store.then(|| format!("in {}, the folder of the store", filter.display()))
}

/// Whether the name leads into the folder. The file need not exist.
fn leads_into(path: &Path, folder: &Path) -> bool {
    let near = path.parent().filter(|near| !near.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let real = path.canonicalize().or_else(|_| near.canonicalize());
    matches!((real, folder.canonicalize()), (Ok(real), Ok(folder)) if real.starts_with(&folder))
}

/// Whether both names lead to one file. The file need not exist.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| path.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()));
    if let Some(one) = id(one) {
        return id(other) == Some(one);
    }
    let whole = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(folder.canonicalize().ok()?.join(path.file_name()?))
    };
    whole(one).is_some() && whole(one) == whole(other)
}
