//! How a version of a store is opened, in full or for one of its shards.

use std::path::{Path, PathBuf};

use gowk::store::{self, StoreReader};
use pyo3::prelude::*;

use crate::{failure, options};

/// The options of a store object, which are part of its pickle.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) copies: Option<PathBuf>,
    pub(crate) threads: usize,
    pub(crate) on_damage: String,
    pub(crate) verify: String,
    pub(crate) clock_is_right: bool,
}

impl Asked {
    pub(crate) fn options(&self) -> PyResult<gowk::Options> {
        let options = options::common(gowk::Options::new(), self.threads, 0.0, &self.verify)?;
        Ok(options.on_damage(options::on_damage(&self.on_damage)?).clock_is_right(self.clock_is_right))
    }

    /// Opens the store at this version, or at the newest.
    pub(crate) fn read(&self, py: Python<'_>, path: &Path, version: Option<u64>) -> PyResult<StoreReader> {
        let options = self.options()?;
        let open = || {
            let store = self.near(store::Store::open_with(path, &options)?);
            match version {
                Some(number) => Ok::<_, store::Error>(store.read_version(store.version(number)?)),
                None => store.read(),
            }
        };
        failure::done(py, py.detach(open))
    }

    /// The store, with the folder of copies that replace its own files.
    fn near(&self, store: store::Store) -> store::Store {
        match &self.copies {
            Some(folder) => store.copies(folder),
            None => store,
        }
    }
}
