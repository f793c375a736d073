//! `gowk.Sealed`: describes a new file; the process that made the file sends it to the process that commits.

use gowk::store;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// A new file of a shard, or a run, in its place in the store, that no version names yet. This object is only a
/// description: the process that made the file sends it, by pickle or as text, to the process that commits.
///
/// If it is never committed, a later vacuum removes the file.
#[pyclass(frozen, eq, module = "gowk", name = "Sealed")]
#[derive(Clone, PartialEq)]
pub(crate) struct Sealed(pub(super) store::Sealed);

/// The sealed files that callers passed for a commit.
pub(super) fn all(sealed: &Bound<'_, PyAny>) -> PyResult<Vec<store::Sealed>> {
    sealed.try_iter()?.map(|one| Ok(one?.cast::<Sealed>()?.get().0.clone())).collect()
}

#[pymethods]
impl Sealed {
    /// The number of the shard that was rewritten, from 0; ``None`` for a run, which may have records of any shards.
    #[getter]
    fn shard(&self) -> Option<u32> {
        self.0.shard()
    }

    /// The number of the version that the file is based on.
    #[getter]
    fn base(&self) -> u64 {
        self.0.base()
    }

    /// Bytes of the file.
    #[getter]
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Entries in the filter, or records in the run.
    #[getter]
    fn entries(&self) -> u64 {
        self.0.entries()
    }

    /// The value as text, which :meth:`from_json` reads.
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.0).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// The value from text that :meth:`to_json` made.
    ///
    /// Raises:
    ///     ValueError: the text was not made by :meth:`to_json`.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        let sealed = serde_json::from_str(text);
        sealed.map(Self).map_err(|error| PyValueError::new_err(format!("no sealed file of gowk: {error}")))
    }

    fn __hash__(&self) -> u64 {
        self.0.base() ^ (self.0.shard().map_or(u64::MAX, u64::from) << 32) ^ self.0.bytes().rotate_left(17)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        (slf.get_type().getattr("from_json")?, (slf.get().to_json()?,)).into_pyobject(slf.py())
    }

    fn __repr__(&self) -> String {
        let of = self.0.shard().map_or_else(|| "of a run".to_owned(), |shard| format!("of shard {shard}"));
        format!("<gowk.Sealed {of}, based on version {}>", self.0.base())
    }
}
