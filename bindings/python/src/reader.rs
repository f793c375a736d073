//! `gowk.Reader`, as Python sees it.

mod lookups;
mod opened;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use gowk::Lookup;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::feed::feed;
use crate::key::{fs_path, with_key};
use crate::options::several;
use crate::progress::with_progress;
use crate::store::check_filter;
use crate::{array_of, failure, info};
use lookups::{Contains, Counts};
pub(crate) use opened::ShardOf;
use opened::{Opened, Settings};

/// A filter open for lookups, from any number of processes and threads, beside a writer or without one.
///
/// It sees each commit when that commit returns, and follows the filter when it doubles. Opening one takes less than a
/// millisecond at any size: pages are compared with their checksums when they are first touched. There is nothing to
/// close: the file is released with the last reference.
///
/// Keys are ``bytes``-like, or ``str``, which stands for its UTF-8. Everything else is a :class:`TypeError`.
///
/// A reader may be pickled: the pickle holds its path and options, and the file is opened where the reader is first
/// used. After :func:`os.fork`, too, each process opens the file for itself.
///
/// Args:
///     path: the filter file.
///     threads: threads that share the work of a batch, at least 1. A batch with fewer than some thirty thousand keys a
///         thread uses fewer threads.
///     in_memory: copy the filter into memory, as of its last commit, for lookups that never wait for a disk. Later
///         commits are not seen then.
///     sealed: the filter's last writer has closed it, and nobody will change it any more. The reader then needs no
///         locks, journal or write permission: the file may lie in an image or on a network share.
///     on_damage: what a lookup does if it touches a damaged page: raise :class:`Damaged` (``"error"``), or answer that
///         the key is there (``"present"``).
///     verify: when pages are compared with their checksums: when they are first touched (``"first_touch"``), all of
///         them now (``"eager"``), or ``"never"``.
///     wait: seconds to wait for another process that is just opening or recovering the filter; at least a minute.
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
        #[pyo3(from_py_with = fs_path)] path: PathBuf,
        threads: usize,
        in_memory: bool,
        sealed: bool,
        on_damage: &str,
        verify: &str,
        wait: f64,
    ) -> PyResult<Self> {
        check_filter(&path)?;
        let reader = Self::unopened(path, threads, in_memory, sealed, on_damage, verify, wait, None)?;
        reader.reader(py)?;
        Ok(reader)
    }

    /// A reader that opens the file when it is first used.
    #[staticmethod]
    #[pyo3(name = "_unopened")]
    #[expect(clippy::too_many_arguments, reason = "they are what a reader is pickled as")]
    fn unopened(
        #[pyo3(from_py_with = fs_path)] path: PathBuf,
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
            of_bytes: false,
        };
        Ok(Self { path, settings, opened: OnceLock::new() })
    }

    /// Reads a filter from the bytes of its file: embedded in a program, received, or taken from an archive.
    ///
    /// They are checked like a file, and copied. Take them from :meth:`to_bytes`, or from a file whose last writer has
    /// closed it. A copy of a file that was open for writing may lack commits, and is refused. The reader's :attr:`path` is
    /// ``<bytes>``. Its pickle holds the whole filter.
    ///
    /// Args:
    ///     data: a ``bytes``-like object.
    ///     threads: as for :class:`Reader`.
    ///     on_damage: as for :class:`Reader`.
    ///     verify: as for :class:`Reader`.
    ///
    /// Raises:
    ///     Error: the bytes are not a filter, or are damaged; the subclasses say what.
    ///     Invalid: the bytes are a copy of a file that was open for writing.
    ///
    /// >>> import gowk
    /// >>> with gowk.Writer("seen.gowk", capacity=1000) as seen:
    /// ...     seen.add("a")
    /// >>> data = gowk.Reader("seen.gowk").to_bytes()
    /// >>> "a" in gowk.Reader.from_bytes(data)
    /// True
    #[staticmethod]
    #[pyo3(signature = (data, threads=1, on_damage="error", verify="first_touch"))]
    fn from_bytes(data: &Bound<'_, PyAny>, threads: usize, on_damage: &str, verify: &str) -> PyResult<Self> {
        Self::of_bytes(data, threads, on_damage, verify)
    }

    /// Copies the filter, as of one commit, to bytes: the same bytes that :meth:`copy_to` writes to a file.
    ///
    /// Raises:
    ///     Damaged: a page is damaged.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let reader = self.reader(py)?;
        let bytes = failure::done(py, py.detach(|| reader.copy_to_bytes()))?;
        Ok(PyBytes::new(py, &bytes))
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
        let reader = self.followed(py)?;
        with_key(key, |key| failure::done(py, reader.contains(key)))
    }

    /// Looks up many keys, several times as fast as one by one: a NumPy array of bool, one a key, in their order.
    ///
    /// Each answer is right as of some moment during the call. A null is never present. The GIL is released.
    ///
    /// Args:
    ///     keys: any iterable of keys; a NumPy array of dtype ``S``, ``U`` or ``object``; or an object that offers
    ///         Arrow data of strings or binary values (pyarrow, polars, DuckDB, pandas), which are not copied.
    ///
    /// Raises:
    ///     TypeError: one of the keys is neither ``str`` nor ``bytes``-like; the message names it by its index. Or
    ///         ``keys`` is not a collection of keys.
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

    /// How many copies of the key are stored; in a set, at most 1. Copies of other keys that match it are counted too,
    /// so the answer is never too low.
    ///
    /// >>> import gowk
    /// >>> with gowk.Writer("copies.gowk", counting=True) as copies:
    /// ...     copies.update(["a", "b", "a"])
    /// >>> gowk.Reader("copies.gowk").count("a")
    /// 2
    fn count(&self, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        let py = key.py();
        let reader = self.followed(py)?;
        with_key(key, |key| failure::done(py, reader.count(key))).map(u64::from)
    }

    /// Like :meth:`count`, for many keys: a NumPy array of uint64. A null has 0.
    fn count_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = keys.py();
        Ok(array_of(py, feed(keys, Counts(self.reader(py)?))?))
    }

    /// The filter file, as a :class:`pathlib.Path` without links followed.
    #[getter]
    fn path(&self) -> &Path {
        &self.path
    }

    /// Reopens the filter if another file has taken its name, as after ``mv new.gowk live.gowk``; returns whether it did.
    ///
    /// Every batch checks this first, and single lookups check twice a second. Commits, doublings and :meth:`copy_to` over
    /// the filter are seen at once without it.
    fn reload(&self, py: Python<'_>) -> PyResult<bool> {
        let reader = self.reader(py)?;
        failure::done(py, py.detach(|| reader.reload()))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let Self { path, settings, .. } = slf.get();
        let Settings { shard, threads, in_memory, sealed, on_damage, verify, wait, of_bytes } = settings;
        if *of_bytes {
            let bytes = slf.get().to_bytes(py)?;
            let arguments = (bytes, *threads, on_damage, verify).into_pyobject(py)?;
            return (slf.get_type().getattr("from_bytes")?, arguments).into_pyobject(py);
        }
        // As text: a path would lose a slash of an address.
        let shard = shard
            .as_ref()
            .map(|(store, copies, version, shard)| (store.as_os_str(), copies.as_ref(), *version, *shard));
        let arguments = (path.as_os_str(), *threads, *in_memory, *sealed, on_damage, verify, *wait, shard);
        let arguments = arguments.into_pyobject(py)?;
        (slf.get_type().getattr("_unopened")?, arguments).into_pyobject(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("gowk.Reader({})", self.path.as_os_str().into_pyobject(py)?.repr()?))
    }

    /// The stored copies: keys inserted minus keys removed. In a set, the keys that were new.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let info = failure::done(py, self.reader(py)?.info())?;
        Ok(info.copies as usize)
    }

    /// The filter's shape, contents and expected rates, as of its last commit.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        info::info(py, &failure::done(py, self.reader(py)?.info())?)
    }

    /// The chance that a key never inserted is found now, 0 to 1.
    #[getter]
    fn expected_false_positive_rate(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(failure::done(py, self.reader(py)?.info())?.expected_false_positive_rate)
    }

    /// Names and bytes that the filter carries, as of its last commit: a mapping of ``str`` to ``bytes`` that does not
    /// change.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        info::fixed(&info::metadata(py, &failure::done(py, self.reader(py)?.metadata())?)?)
    }

    /// Reads every page, and compares it with its checksum and with the counters.
    ///
    /// Args:
    ///     progress: called with the number of pages read, and of all pages. If it raises, the call ends.
    ///
    /// Raises:
    ///     Busy: a writer stopped in the middle of a commit and does not go on.
    ///
    /// >>> import gowk
    /// >>> with gowk.Writer("seen.gowk") as seen:
    /// ...     seen.add("a")
    /// >>> gowk.Reader("seen.gowk").verify().is_clean
    /// True
    #[pyo3(signature = (progress=None))]
    fn verify<'py>(&self, py: Python<'py>, progress: Option<Py<PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let reader = self.reader(py)?;
        let report = with_progress(py, progress, |tell| reader.verify(tell))?;
        info::report(py, &failure::done(py, report)?)
    }

    /// Copies the filter, as of one commit, to a file that must not exist, or over another filter.
    ///
    /// Seed, keys, counters and metadata are the same. The copy is durable when the call returns. Readers of a filter that
    /// is replaced go on with the copy at once.
    ///
    /// Args:
    ///     destination: the file.
    ///     progress: called with the number of regions copied, and of all regions. If it raises, the call ends.
    ///     over: whether to replace a filter at the destination.
    ///
    /// Raises:
    ///     Exists: the destination exists already. It is a :class:`FileExistsError` too.
    ///     Damaged: a page is damaged.
    #[pyo3(signature = (destination, progress=None, *, over=false))]
    fn copy_to(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = fs_path)] destination: PathBuf,
        progress: Option<Py<PyAny>>,
        over: bool,
    ) -> PyResult<()> {
        let reader = self.reader(py)?;
        let outcome = with_progress(py, progress, |tell| match over {
            false => reader.copy_to(&destination, tell),
            true => reader.copy_over(&destination, tell),
        })?;
        failure::done(py, outcome)
    }

    /// Divides the filter, as of one commit, into as many shards as there are destinations, whose files must not exist.
    ///
    /// Together the shards answer as the filter does. :func:`join` puts them together again.
    ///
    /// Args:
    ///     destinations: the files, in the order of the shards.
    ///     progress: called with the number of regions written, and of all regions. If it raises, the call ends.
    ///
    /// Raises:
    ///     Invalid: the filter's number of regions cannot be divided by the number of destinations.
    ///
    /// >>> import gowk
    /// >>> with gowk.Writer("whole.gowk", capacity=100_000, slots_per_bucket=4) as whole:
    /// ...     whole.update(["a", "b", "c"])
    /// >>> gowk.Reader("whole.gowk").divide_to(["0.gowk", "1.gowk"])
    /// >>> shards = [gowk.Reader("0.gowk"), gowk.Reader("1.gowk")]
    /// >>> gowk.join(shards, "again.gowk")
    /// >>> gowk.Reader("again.gowk").contains_many(["a", "b", "c", "d"])
    /// array([ True,  True,  True, False])
    #[pyo3(signature = (destinations, progress=None))]
    fn divide_to(
        &self,
        py: Python<'_>,
        destinations: &Bound<'_, PyAny>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let reader = self.reader(py)?;
        let destinations: Vec<PathBuf> = several("destinations", destinations, |path| path.extract())?;
        let outcome = with_progress(py, progress, |tell| reader.divide_to(&destinations, tell))?;
        failure::done(py, outcome)
    }
}

/// Joins shards, given in their order, into one filter at ``destination``, where there must be none.
///
/// All need the same seed and the same slots. The joined filter gives the same answers as the shards.
///
/// Args:
///     shards: all shards, or a group of them that makes up one shard of a coarser division.
///     destination: the file.
///     progress: called with the number of regions written, and of all regions. If it raises, the call ends.
///
/// Raises:
///     Invalid: the shards differ in a property that must be equal; the message names it.
#[pyfunction]
#[pyo3(signature = (shards, destination, progress=None))]
pub(crate) fn join(
    py: Python<'_>,
    shards: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = fs_path)] destination: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<()> {
    let shards = several("shards", shards, |shard| shard.cast::<Reader>()?.get().reader(py).cloned())?;
    let outcome = with_progress(py, progress, |tell| gowk::Reader::join_to(&shards, &destination, tell))?;
    failure::done(py, outcome)
}
