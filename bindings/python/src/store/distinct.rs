//! `gowk.Distinct`: a set that is thrown away.

use std::path::Path;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use tempfile::TempDir;

use crate::array_of;
use crate::failure;
use crate::key::with_key;
use crate::owned::{Owned, insert};

/// The exclusive or of this number and the store's seed is the set's seed. With the store's own seed, the keys of one
/// shard would all go to one part of the set.
const OTHER_SEED: u64 = 0x6469_7374_696e_6374;

/// A set of keys that is thrown away with its last reference or at the end of a ``with`` block; see
/// :meth:`Store.distinct`.
///
/// >>> import gowk
/// >>> store = gowk.Store.create("crawl.store", shards=4)
/// >>> with store.distinct(1000) as batch:
/// ...     batch.insert_many(["a", "b", "a"]), batch.insert_many(["b", "c"])
/// (array([ True,  True, False]), array([False,  True]))
#[pyclass(frozen, module = "gowk", name = "Distinct", weakref)]
pub(crate) struct Distinct(Owned<Thrown>);

/// A filter that is never committed, and the folder that it is in. The filter is dropped first.
struct Thrown {
    writer: gowk::Writer,
    _folder: TempDir,
}

impl Distinct {
    pub(super) fn new(
        py: Python<'_>,
        store: &gowk::store::Description,
        capacity: u64,
        folder: Option<&Path>,
    ) -> PyResult<Self> {
        let made = match folder {
            Some(folder) => tempfile::Builder::new().prefix("gowk-distinct-").tempdir_in(folder),
            None => tempfile::Builder::new().prefix("gowk-distinct-").tempdir(),
        };
        let folder = made?;
        let path = folder.path().join("distinct.gowk");
        let options = gowk::Options::new()
            .capacity(capacity)
            .slots_per_bucket(store.slots_per_bucket)
            .seed(store.seed.get() ^ OTHER_SEED);
        let writer = failure::done(py, py.detach(|| options.create(&path)))?;
        let afterwards = "they stay in this Distinct";
        Ok(Self(Owned::new(path, "Distinct", afterwards, Thrown { writer, _folder: folder })))
    }
}

#[pymethods]
impl Distinct {
    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        with_key(key, |bytes| self.0.quickly(key.py(), |thrown| thrown.writer.contains(bytes)))
    }

    /// Looks up many keys: a NumPy array of bool, one a key, in their order.
    fn contains_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let found = self.0.look_up(keys, |thrown, keys, found: &mut Vec<bool>| {
            for key in keys {
                found.push(thrown.writer.contains(key)?);
            }
            Ok(())
        })?;
        Ok(array_of(keys.py(), found))
    }

    /// Stores all keys that are not found; returns which were **new**: a NumPy array of bool, one a key, in their order. Of
    /// equal keys, only the first can be new. A null has False.
    fn insert_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let new = self.0.change(keys, |thrown, keys, new| insert(&mut thrown.writer, keys, new))?;
        Ok(array_of(keys.py(), new))
    }

    /// Throws the set away. Closing again does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let thrown = self.0.take(py)?;
        py.detach(|| drop(thrown));
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (kind, value, traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let _ = (kind, value, traceback);
        self.close(py)
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err("a Distinct cannot be pickled, as it belongs to one process"))
    }
}
