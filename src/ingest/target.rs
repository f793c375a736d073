//! Where the keys of a job go: into a filter, with commits on the way, or into a store, with one version a run.
//!
//! A store remembers the cursor of a job as the state of its last transaction. So a run that dies anywhere starts again
//! from the last version, and of two runs at the same time one commits.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use super::cursor::{self, Cursor};
use super::error::{Error, OutputProblem};
use super::job::Job;
use crate::keys;
use crate::store::{Committed, Store, Transaction, Update, Version};
use crate::{Info, Metadata, Options, Writer};

pub(super) enum Target {
    Filter(Box<Writer>),
    Store(Box<InStore>),
}

/// A store, and the update that a run makes.
pub(super) struct InStore {
    path: PathBuf,
    store: Store,
    /// `None` after it was committed for good.
    update: Option<Update>,
}

/// What a store remembers of jobs, in the form in which a filter does.
fn metadata_of(version: &Version) -> Metadata {
    let mut metadata = Metadata::default();
    for (application, done) in &version.transactions {
        if cursor::job_of(application).is_some() && !done.state.is_empty() {
            metadata.set(application, decoded(&done.state).unwrap_or_default());
        }
    }
    metadata
}

fn encoded(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
    pairs.collect()
}

/// What the filter or store of a job remembers of jobs; `None` where there is neither.
pub(super) fn metadata(job: &Job, options: &Options) -> Result<Option<Metadata>, Error> {
    if Store::is_at(&job.filter) {
        return Ok(Some(metadata_of(&Store::open_with(&job.filter, options)?.newest()?)));
    }
    match options.read(&job.filter) {
        Ok(reader) => Ok(Some(reader.metadata()?)),
        Err(crate::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Target {
    /// Opens the filter or the store, or creates a filter where there is neither.
    pub(super) fn open(job: &Job, options: &Options) -> Result<Self, Error> {
        if Store::is_at(&job.filter) {
            let store = Store::open_with(&job.filter, options)?;
            let update = Some(store.update()?);
            return Ok(Self::Store(Box::new(InStore { path: job.filter.clone(), store, update })));
        }
        let writer = job.creation.apply(options.clone()).open(&job.filter)?;
        Ok(Self::Filter(Box::new(writer)))
    }

    /// Makes sure, for as long as the outcome is kept, that no other run of the job writes to its outputs, which are about
    /// to be cut to what `entry` says. A filter is locked anyway; a store is not.
    pub(super) fn claim<'a>(
        &self,
        entry: &str,
        outputs: impl Iterator<Item = &'a Path>,
    ) -> Result<Vec<File>, Error> {
        let Self::Store(target) = self else { return Ok(Vec::new()) };
        let mut claimed = Vec::new();
        for path in outputs.filter(|path| !path.exists() || path.is_file()) {
            let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
            let failed = |source| Error::output(path, OutputProblem::Io { op: "open", source });
            let file = opened.map_err(failed)?;
            // Where there are no locks, it is the word of whoever runs the job that it runs once.
            if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
                return Err(target.overtaken());
            }
            claimed.push(file);
        }
        self.check_not_overtaken(entry)?;
        Ok(claimed)
    }

    /// That no other run of the job has committed since this one began.
    pub(super) fn check_not_overtaken(&self, entry: &str) -> Result<(), Error> {
        let Self::Store(target) = self else { return Ok(()) };
        let number = |version: &Version| version.transactions.get(entry).map(|done| done.number);
        let is_last = number(&target.store.newest()?) == number(target.update()?.base());
        if is_last { Ok(()) } else { Err(target.overtaken()) }
    }

    /// Whether keys are committed only when a run ends.
    pub(super) const fn commits_at_the_end(&self) -> bool {
        matches!(self, Self::Store(_))
    }

    /// What it remembers of jobs.
    pub(super) fn metadata(&self) -> Result<Metadata, Error> {
        match self {
            Self::Filter(writer) => Ok(writer.metadata()?.clone()),
            Self::Store(target) => Ok(metadata_of(target.update()?.base())),
        }
    }

    /// As [`keys::insert_unique`].
    pub(super) fn insert_unique(
        &mut self,
        keys: &[&[u8]],
        new: &mut Vec<bool>,
    ) -> Result<Vec<(usize, crate::Error)>, Error> {
        match self {
            Self::Filter(writer) => Ok(keys::insert_unique(writer, keys, new)?),
            Self::Store(target) => {
                let refused = target.update_mut()?.insert_unique_batch_into(keys, new)?;
                keys::count_refused(&refused, new);
                Ok(refused)
            }
        }
    }

    /// Commits the keys with the cursor of a job, and gives the number of the commit or version. In a store a commit that
    /// would change nothing makes no version.
    pub(super) fn commit(&mut self, entry: &str, cursor: &Cursor) -> Result<u64, Error> {
        match self {
            Self::Filter(writer) => {
                writer.metadata_mut()?.set(entry, cursor.encode());
                writer.commit()?;
                Ok(writer.info()?.commit)
            }
            Self::Store(target) => target.commit(entry, cursor),
        }
    }

    /// The filter, or all shards together.
    pub(super) fn info(&self) -> Result<Info, Error> {
        match self {
            Self::Filter(writer) => Ok(writer.info()?),
            Self::Store(target) => target.info(),
        }
    }

    pub(super) fn close(self) -> Result<(), Error> {
        match self {
            Self::Filter(writer) => Ok(writer.close()?),
            Self::Store(_) => Ok(()),
        }
    }
}

impl InStore {
    fn gone(&self) -> crate::Error {
        crate::Error::Poisoned { path: self.path.clone() }
    }

    fn overtaken(&self) -> Error {
        Error::Overtaken { store: self.path.clone() }
    }

    fn update(&self) -> Result<&Update, crate::Error> {
        self.update.as_ref().ok_or_else(|| self.gone())
    }

    fn update_mut(&mut self) -> Result<&mut Update, crate::Error> {
        let gone = self.gone();
        self.update.as_mut().ok_or(gone)
    }

    fn commit(&mut self, entry: &str, cursor: &Cursor) -> Result<u64, Error> {
        let state = encoded(&cursor.encode());
        let done = self.update()?.base().transactions.get(entry);
        let is_remembered = done.is_some_and(|done| done.state == state);
        if is_remembered && self.update()?.touched() == 0 {
            return Ok(self.update()?.base().number);
        }
        let last = done.map_or(0, |done| done.number);
        let gone = self.gone();
        let update = self.update.take().ok_or(gone)?;
        let transaction = Transaction { state, ..Transaction::new(entry, last + 1) };
        match update.commit("ingest", Some(transaction))? {
            Committed::New(version) => {
                let number = version.number;
                self.update = Some(self.store.update_of(version));
                Ok(number)
            }
            Committed::Already(_) | Committed::Unchanged => Err(self.overtaken()),
        }
    }

    fn info(&self) -> Result<Info, Error> {
        Ok(self.store.read_version(self.update()?.base().clone()).filter_info()?)
    }
}

/// Makes the store, or the filter, of a job forget one; [`Error::NoSuchJob`] if it remembers none of this name.
pub(super) fn forget(job: &Job, options: &Options, name: &str) -> Result<(), Error> {
    let entry = cursor::entry(name);
    let unknown = |metadata: &Metadata| {
        let jobs = cursor::jobs(metadata);
        Error::NoSuchJob { filter: job.filter.clone(), job: name.to_owned(), jobs }
    };
    if !Store::is_at(&job.filter) {
        let mut writer = options.open_existing(&job.filter)?;
        if writer.metadata_mut()?.remove(&entry).is_none() {
            return Err(unknown(writer.metadata()?));
        }
        writer.commit()?;
        return Ok(writer.close()?);
    }
    let store = Store::open_with(&job.filter, options)?;
    let newest = store.newest()?;
    match newest.transactions.get(&entry).filter(|done| !done.state.is_empty()) {
        None => Err(unknown(&metadata_of(&newest))),
        Some(done) => {
            let transaction = Transaction::new(entry, done.number + 1);
            store.update_of(newest).commit("forget", Some(transaction)).map(drop).map_err(Error::from)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_in_hexadecimal_digits_is_read_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decoded(&encoded(&all)), Some(all));
        assert_eq!(decoded(""), Some(Vec::new()));
        for wrong in ["x", "0g", "\u{e9}"] {
            assert_eq!(decoded(wrong), None, "{wrong}");
        }
    }
}
