//! `gowk.Reader`: opening and lookups. What it does with the filter as a whole is in `whole.rs`.

mod opened;
pub(crate) mod whole;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::feed::{Operation, Stopped, feed};
use crate::key::with_key;
use crate::{array_of, failure};
pub(crate) use opened::ShardOf;
use opened::{Opened, Settings};

/// Keys that are looked up at a time, for each thread.
const ROWS: usize = 1 << 14;
/// The same where there are several threads, none of which is started for fewer than 32,768.
const ROWS_OF_THREADS: usize = 1 << 17;

/// A filter open for lookups, from any number of processes and threads, beside a writer or without one.
///
/// It sees each commit when that commit returns, and follows the filter when it doubles. Opening one costs less than a
/// millisecond, whatever the size: pages are verified against their checksums as they are first touched. There is
/// nothing to close: the file is let go with the last reference.
///
/// Keys are ``bytes``-like, or ``str``, which stands for its UTF-8. Everything else is a :class:`TypeError`.
///
/// A reader may be pickled: it travels as its path and options, and is opened where it is first used. After
/// :func:`os.fork`, too, each process opens the file for itself.
///
/// Args:
///     path: the filter file.
///     threads: threads that batches are divided over, at least 1. Batches of fewer than some thirty thousand keys a
///         thread use fewer.
///     in_memory: copy the filter into memory, as of its last commit, for lookups that never wait for a disk. Later
///         commits are not seen then.
///     sealed: the filter's last writer has closed it, and nobody will change it any more. It is then read without locks and
///         journal, on file systems without locks or write permission, as from an image or a network share.
///     on_damage: what a lookup does that touches a damaged page: raise :class:`Damaged` (``"error"``), or answer that
///         the key is there (``"present"``).
///     verify: when pages are compared with their checksums: when they are first touched (``"first_touch"``), all of
///         them now (``"eager"``), or ``"never"``.
///     wait: seconds to wait for another process that is just opening or recovering the filter, a minute at least.
///
/// Raises:
///     NotFound: there is no such filter. It is a :class:`FileNotFoundError` too.
///     Error: something is wrong with the file; the subclasses say what.
///
/// >>> import gowk
/// >>> with gowk.Writer("seen.gowk", capacity=1000) as seen:
/// ...     seen.update(["https://example.org/", b"https://example.com/"])
/// >>> reader = gowk.Reader("seen.gowk")
/// >>> "https://example.com/" in reader
/// True
/// >>> reader.contains_many(["https://example.org/", "https://example.net/"])
/// array([ True, False])
#[pyclass(frozen, module = "gowk", name = "Reader", weakref)]
pub(crate) struct Reader {
    path: PathBuf,
    settings: Settings,
    opened: OnceLock<Opened>,
}

#[pymethods]
impl Reader {
    #[new]
    #[pyo3(signature = (path, *, threads=1, in_memory=false, sealed=false, on_damage="error", verify="first_touch", wait=0.0))]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        threads: usize,
        in_memory: bool,
        sealed: bool,
        on_damage: &str,
        verify: &str,
        wait: f64,
    ) -> PyResult<Self> {
        let reader = Self::unopened(path, threads, in_memory, sealed, on_damage, verify, wait, None)?;
        reader.reader(py)?;
        Ok(reader)
    }

    /// A reader that opens the file when it is first used.
    #[staticmethod]
    #[pyo3(name = "_unopened")]
    #[expect(clippy::too_many_arguments, reason = "they are what a reader is pickled as")]
    fn unopened(
        path: PathBuf,
        threads: usize,
        in_memory: bool,
        sealed: bool,
        on_damage: &str,
        verify: &str,
        wait: f64,
        shard: Option<ShardOf>,
    ) -> PyResult<Self> {
        let path = std::path::absolute(path)?;
        let settings = Settings {
            shard,
            threads,
            in_memory,
            sealed,
            on_damage: on_damage.to_owned(),
            verify: verify.to_owned(),
            wait,
        };
        Ok(Self { path, settings, opened: OnceLock::new() })
    }

    /// Whether the key is present, as of the last commit.
    ///
    /// False only if it was never inserted, or was removed. An absent key is found present at the rate of
    /// :attr:`expected_false_positive_rate`.
    ///
    /// Raises:
    ///     TypeError: the key is neither ``str`` nor ``bytes``-like, or it is a ``str`` with a lone surrogate.
    ///     Damaged: the lookup touches a damaged page.
    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = key.py();
        let reader = self.reader(py)?;
        match with_key(key, |key| reader.contains(key))? {
            Ok(found) => Ok(found),
            Err(error) => failure::done(py, Err(error)),
        }
    }

    /// Looks up many keys, several times as fast as one by one: a NumPy array of bool, one a key, in their order.
    ///
    /// Each answer is right as of some moment during the call. A null is never present. The GIL is released.
    ///
    /// Args:
    ///     keys: any iterable of keys; a NumPy array of dtype ``S``, ``U`` or ``object``; or whatever offers Arrow data
    ///         of strings or binary values (pyarrow, polars, DuckDB, pandas), which are not copied.
    ///
    /// Raises:
    ///     TypeError: one of the keys is none, which the message names by its index; or ``keys`` holds none at all.
    ///
    /// >>> import gowk, numpy
    /// >>> with gowk.Writer("seen.gowk") as seen:
    /// ...     seen.update(["a", "b"])
    /// >>> gowk.Reader("seen.gowk").contains_many(numpy.array(["b", "c", "a"]))
    /// array([ True, False,  True])
    fn contains_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = keys.py();
        let operation = Contains { reader: self.reader(py)?, threads: self.settings.threads };
        Ok(array_of(py, feed(keys, operation)?))
    }

    /// How many copies of the key are stored. Other keys that match it count too, so this is never too low.
    ///
    /// >>> import gowk
    /// >>> with gowk.Writer("copies.gowk") as copies:
    /// ...     copies.insert_many(["a", "b", "a"])
    /// >>> gowk.Reader("copies.gowk").count("a")
    /// 2
    fn count(&self, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        let py = key.py();
        let reader = self.reader(py)?;
        failure::done(py, with_key(key, |key| reader.count(key))?).map(u64::from)
    }

    /// As :meth:`count`, for many keys: a NumPy array of uint64. A null has none.
    fn count_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = keys.py();
        Ok(array_of(py, feed(keys, Counts(self.reader(py)?))?))
    }

    /// The filter file, as a :class:`pathlib.Path` without links followed.
    #[getter]
    fn path(&self) -> &Path {
        &self.path
    }

    /// Looks whether the filter's name leads to another file by now, as after ``mv new.gowk live.gowk``, and goes on with
    /// that one; returns whether it did.
    ///
    /// Every batch begins so, and single lookups follow within a second without it. Commits and doublings are seen at
    /// once in any case.
    fn refresh(&self, py: Python<'_>) -> PyResult<bool> {
        let reader = self.reader(py)?;
        failure::done(py, py.detach(|| reader.refresh()))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let Self { path, settings, .. } = slf.get();
        let Settings { shard, threads, in_memory, sealed, on_damage, verify, wait } = settings;
        let arguments = (path.as_os_str(), *threads, *in_memory, *sealed, on_damage, verify, *wait, shard);
        let arguments = arguments.into_pyobject(py)?;
        (slf.get_type().getattr("_unopened")?, arguments).into_pyobject(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("gowk.Reader({})", self.path.as_os_str().into_pyobject(py)?.repr()?))
    }
}

struct Contains<'a> {
    reader: &'a gowk::Reader,
    threads: usize,
}

impl Operation for Contains<'_> {
    type Answer = bool;

    fn rows(&self) -> usize {
        if self.threads == 1 { ROWS } else { self.threads * ROWS_OF_THREADS }
    }

    fn take(&mut self, keys: &[&[u8]], found: &mut Vec<bool>) -> Result<(), Stopped> {
        Ok(self.reader.contains_batch(keys, found)?)
    }
}

struct Counts<'a>(&'a gowk::Reader);

impl Operation for Counts<'_> {
    type Answer = u64;

    fn rows(&self) -> usize {
        ROWS
    }

    fn take(&mut self, keys: &[&[u8]], counts: &mut Vec<u64>) -> Result<(), Stopped> {
        for key in keys {
            counts.push(self.0.count(key)?.into());
        }
        Ok(())
    }
}
