//! `gowk.Writer`: opening and committing. What it does with keys is in `keys.rs`, and what it does with the filter as a
//! whole in `whole.rs`.

mod keys;
mod whole;

use std::path::{Path, PathBuf};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::options::Creation;
use crate::owned::{Owned, breathe};
use crate::reader::Reader;
use crate::{failure, options};

/// What may become of keys that were taken before an exception.
const AFTERWARDS: &str = "commit() keeps what was taken, and rollback() undoes it";

/// A filter open for changes: by one writer at a time, over all processes.
///
/// All changes belong to a transaction. This writer sees them at once, and nobody else before :meth:`commit`. As a
/// context manager it commits and closes at the end of the block; an exception rolls back instead. If that commit
/// fails, the writer stays open, so that it may be tried again.
///
/// As a **set**: :meth:`add`, :meth:`add_new`, :meth:`update` and :meth:`update_new` store a key only if it is not found.
/// As a **multiset**: :meth:`insert` and :meth:`insert_many` store each copy, and :meth:`remove` takes one. Mixing them
/// loses keys, so removal is refused once a key was skipped because it was found.
///
/// Keys are ``bytes``-like, or ``str``, which stands for its UTF-8. Everything else is a :class:`TypeError`.
///
/// A writer belongs to the process that opened it, and cannot be pickled. Threads may share it.
///
/// Args:
///     path: the filter file; ``FILE-journal`` and ``FILE-lock`` lie beside it.
///     mode: ``"a"`` opens the filter or creates it, ``"r+"`` opens one that must be there, ``"x"`` creates one that must
///         not be there, and ``"w"`` creates one in the place of what is there.
///     capacity: at creation: distinct keys that the filter takes before it has to double; a million unless given.
///     false_positive_rate: at creation: the chance that a key never inserted is found, at full load and before any
///         doubling; 0.001 unless given. Chooses the slots. An existing filter of a higher rate is refused.
///     slots_per_bucket: at creation: 2 to 7, instead of a rate.
///     seed: at creation: of the hash; random unless given.
///     growth: at creation: whether the filter doubles itself when it is full, ``"auto"`` (unless given) or ``"never"``.
///     max_file_size: at creation: the most bytes that the file may have.
///     max_false_positive_rate: at creation: the highest expected rate that a doubled filter may have.
///     threads: threads that batches are divided over, at least 1.
///     wait: seconds to wait for another writer to finish.
///     verify: when pages are compared with their checksums; see :class:`Reader`.
///     max_kicks: entries that an insert examines at most in search of a free slot.
///     void_growth: whether the filter may double although most of its entries would be copied to both sides.
///     like: at creation: a reader of another filter, as which this one is created, so that the two can be merged. Give
///         no ``capacity``, rate, slots or seed beside it.
///     shard: at creation: ``(number, of)``: the filter holds shard ``number``, from 0, of ``of``. A key of another
///         shard is refused with :class:`OtherShard`.
///
/// Raises:
///     Locked: another writer has the filter.
///     Rate: the filter is there, and not as selective as asked.
///     Option: an option is outside its range. It is a :class:`ValueError` too.
///     Error: something is wrong with the file; the subclasses say what.
///
/// >>> import gowk
/// >>> with gowk.Writer("seen.gowk", capacity=100_000, false_positive_rate=1e-4) as seen:
/// ...     seen.add_new("https://example.org/"), seen.add_new("https://example.org/")
/// (True, False)
#[pyclass(frozen, module = "gowk", name = "Writer", weakref)]
pub(crate) struct Writer {
    path: PathBuf,
    threads: usize,
    owned: Owned<gowk::Writer>,
}

#[pymethods]
impl Writer {
    #[new]
    #[pyo3(signature = (path, *, mode="a", capacity=None, false_positive_rate=None, slots_per_bucket=None,
        seed=None, growth=None, max_file_size=None, max_false_positive_rate=None, threads=1, wait=0.0,
        verify="first_touch", max_kicks=2000, void_growth=false, like=None, shard=None))]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        mode: &str,
        capacity: Option<u64>,
        false_positive_rate: Option<f64>,
        slots_per_bucket: Option<u32>,
        seed: Option<u64>,
        growth: Option<&str>,
        max_file_size: Option<u64>,
        max_false_positive_rate: Option<f64>,
        threads: usize,
        wait: f64,
        verify: &str,
        max_kicks: u32,
        void_growth: bool,
        like: Option<PyRef<'_, Reader>>,
        shard: Option<(u64, u64)>,
    ) -> PyResult<Self> {
        let path = std::path::absolute(path)?;
        let options = match like {
            Some(other) => failure::done(py, gowk::Options::like(other.reader(py)?))?,
            None => gowk::Options::new(),
        };
        let mut options = options::common(options, threads, wait, verify)?
            .max_kicks(max_kicks)
            .void_growth(void_growth)
            .growth_progress(|_, _| breathe());
        let creation = Creation {
            capacity,
            false_positive_rate,
            slots_per_bucket,
            seed,
            growth,
            max_file_size,
            max_false_positive_rate,
        };
        options = creation.add_to(options)?;
        if let Some((number, of)) = shard {
            options = options.shard(number, of);
        }
        let writer = py.detach(|| match mode {
            "a" => Ok(options.open(&path)),
            "r+" => Ok(options.open_existing(&path)),
            "x" => Ok(options.create(&path)),
            "w" => Ok(options.force(true).create(&path)),
            _ => Err(PyValueError::new_err(format!(
                "mode is {mode:?}, but must be \"a\", \"r+\", \"x\" or \"w\""
            ))),
        });
        let writer = failure::done(py, writer?)?;
        Ok(Self { owned: Owned::new(path.clone(), "Writer", AFTERWARDS, writer), path, threads })
    }

    /// Makes the transaction's keys and metadata durable and visible, all or nothing. Without changes it does nothing.
    ///
    /// Raises:
    ///     Unknown: whether the commit is durable is unknown until the filter is opened again.
    ///     AfterCommit: the commit is durable, but was not applied.
    ///     Error: after any other error the commit is not there, and may be tried again or rolled back.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.owned.slowly(py, gowk::Writer::commit)
    }

    /// Forgets all changes since the last commit.
    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        self.owned.slowly(py, gowk::Writer::rollback)
    }

    /// Rolls the open transaction back, and lets other writers have the filter. Closing again does nothing.
    ///
    /// Raises:
    ///     AfterCommit: something failed; what was committed is durable.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let writer = self.owned.take(py)?;
        failure::done(py, py.detach(|| writer.map_or(Ok(()), gowk::Writer::close)))
    }

    /// The filter file, as a :class:`pathlib.Path` without links followed.
    #[getter]
    fn path(&self) -> &Path {
        &self.path
    }

    /// Whether :meth:`close` was called.
    #[getter]
    #[pyo3(name = "closed")]
    fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        self.owned.is_closed(py)
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
        let _ = (value, traceback);
        if !self.owned.is_closed(py)? && kind.is_none() {
            self.commit(py)?;
        }
        self.close(py)
    }

    fn __reduce__(&self) -> PyResult<()> {
        let message = format!(
            "{}: a Writer cannot be pickled, as only one process writes; send a gowk.Reader, or the path",
            self.path.display()
        );
        Err(PyTypeError::new_err(message))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let threads = if self.threads == 1 { String::new() } else { format!(", threads={}", self.threads) };
        Ok(format!("gowk.Writer({}{threads})", self.path.as_os_str().into_pyobject(py)?.repr()?))
    }
}
