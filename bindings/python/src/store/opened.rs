//! A store. Each process opens it separately.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gowk::store::{self, StoreReader, Version};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::Store;
use crate::asked::Asked;
use crate::failure;
use crate::options::Creation;
use crate::process::generation;
use crate::progress::with_progress;
use crate::reader::Reader;

/// One version, as opened by one process.
pub(super) struct Opened {
    pub(super) reader: StoreReader,
    generation: u32,
}

/// The absolute path of a folder, which stays right if the process changes its own folder; an address unchanged.
pub(super) fn placed(path: PathBuf) -> PyResult<PathBuf> {
    if store::Store::is_address(&path) { Ok(path) } else { Ok(std::path::absolute(path)?) }
}

/// Refuses the address of a store where a filter is meant.
pub(crate) fn check_filter(path: &Path) -> PyResult<()> {
    if !store::Store::is_address(path) {
        return Ok(());
    }
    let message = format!("{}: the address of a store in a bucket; open it with gowk.Store", path.display());
    Err(PyValueError::new_err(message))
}

impl Opened {
    fn new(reader: StoreReader) -> Arc<Self> {
        Arc::new(Self { reader, generation: generation() })
    }
}

/// The version that a caller passed as the base of an update.
#[derive(FromPyObject)]
pub(super) enum Base<'py> {
    Number(u64),
    Of(PyRef<'py, Store>),
}

impl Store {
    pub(super) fn of(path: PathBuf, asked: Asked, reader: StoreReader) -> Self {
        let version = reader.version().number;
        Self { path, asked, version, opened: Some(Opened::new(reader)).into() }
    }

    /// The same store at another version.
    pub(super) fn at_version(&self, reader: StoreReader) -> Self {
        Self::of(self.path.clone(), self.asked.clone(), reader)
    }

    pub(super) fn created(
        py: Python<'_>,
        path: PathBuf,
        shards: u32,
        creation: &Creation<'_>,
        threads: usize,
        filter: Option<PyRef<'_, Reader>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let path = placed(path)?;
        let (on_damage, verify) = ("error".to_owned(), "first_touch".to_owned());
        let asked = Asked { copies: None, threads, on_damage, verify, clock_is_right: false };
        if filter.is_some() && creation.is_any_given() {
            let message = "filter says what the store is; give no kind, capacity, rate, slots, seed, growth or limits beside it";
            return Err(PyValueError::new_err(message));
        }
        let options = creation.add_to(asked.options()?)?;
        let store = match filter {
            None => py.detach(|| store::Store::create(&path, shards, &options)),
            Some(filter) => {
                let filter = filter.reader(py)?;
                with_progress(py, progress, |tell| {
                    store::Store::create_from(&path, shards, filter, &options, tell)
                })?
            }
        };
        let reader = failure::done(py, store.and_then(|store| store.read()))?;
        Ok(Self::of(path, asked, reader))
    }

    /// The version that the object looks into, as opened by this process.
    #[inline]
    pub(super) fn opened(&self, py: Python<'_>) -> PyResult<Arc<Opened>> {
        match self.opened.load_full() {
            Some(opened) if opened.generation == generation() => Ok(opened),
            opened => self.reopened(py, opened),
        }
    }

    #[cold]
    fn reopened(&self, py: Python<'_>, of_parent: Option<Arc<Opened>>) -> PyResult<Arc<Opened>> {
        let reader = match &of_parent {
            // The version's text need not be read again. Its files are opened anew: at the fork, another thread of the
            // parent may have been opening one, and in the child that opening never ends.
            Some(opened) => opened.reader.store().read_version(opened.reader.version().clone()),
            None => self.asked.read(py, &self.path, Some(self.version))?,
        };
        let opened = Opened::new(reader);
        // Another thread may have opened the store first, and moved to another version.
        let before = self.opened.compare_and_swap(&of_parent, Some(opened.clone()));
        // This leaks one value for each fork.
        std::mem::forget(of_parent);
        Ok((*before).clone().filter(|other| other.generation == generation()).unwrap_or(opened))
    }

    /// The number of the version that the object looks into.
    pub(super) fn number(&self) -> u64 {
        self.opened.load().as_ref().map_or(self.version, |opened| opened.reader.version().number)
    }

    /// Moves to the newest version. Returns true if that is another one.
    pub(super) fn moved(&self, py: Python<'_>) -> PyResult<bool> {
        let mut reader = self.opened(py)?.reader.clone();
        let moved = py.detach(|| reader.reload().map(|moved| moved.then(|| Opened::new(reader))));
        let Some(newest) = failure::done(py, moved)? else { return Ok(false) };
        self.opened.rcu(|now| {
            // Another thread may have moved further.
            let older =
                now.as_ref().filter(|now| now.reader.version().number > newest.reader.version().number);
            Some(older.unwrap_or(&newest).clone())
        });
        Ok(true)
    }

    /// The version on which an update is made, if the caller passed one.
    pub(super) fn base(&self, py: Python<'_>, base: Option<Base<'_>>) -> PyResult<Option<Version>> {
        let reader = &self.opened(py)?.reader;
        Ok(match base {
            None => None,
            Some(Base::Number(number)) => {
                Some(failure::done(py, py.detach(|| reader.store().version(number)))?)
            }
            Some(Base::Of(other)) => {
                let other = other.opened(py)?;
                if other.reader.store().description().uuid != reader.store().description().uuid {
                    return Err(PyValueError::new_err("base is another store"));
                }
                Some(other.reader.version().clone())
            }
        })
    }
}
