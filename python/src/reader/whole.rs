//! A reader's filter as a whole: what it is and what it carries, verifying, copying, dividing and joining.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::Reader;
use crate::progress::with_progress;
use crate::{failure, info};

#[pymethods]
impl Reader {
    /// The copies that are stored: keys inserted, less those removed. Keys that ``add`` or ``update`` found present do not
    /// count.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let info = failure::done(py, self.reader(py)?.info())?;
        Ok(info.copies as usize)
    }

    /// The filter's shape, contents and expectations, as of its last commit.
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
        let metadata = failure::done(py, self.reader(py)?.metadata())?;
        let entries = PyDict::new(py);
        for (name, value) in metadata.iter() {
            entries.set_item(name, PyBytes::new(py, value))?;
        }
        py.import("types")?.getattr("MappingProxyType")?.call1((entries,))
    }

    /// Reads every page, and compares it with its checksum and with the counters.
    ///
    /// Args:
    ///     progress: called with the pages read, and all there are. An exception of it ends the call.
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
    ///     progress: called with the regions copied, and all there are. An exception of it ends the call.
    ///     over: whether a filter at the destination is replaced.
    ///
    /// Raises:
    ///     Exists: the destination is taken. It is a :class:`FileExistsError` too.
    ///     Damaged: a page is damaged.
    #[pyo3(signature = (destination, progress=None, *, over=false))]
    fn copy_to(
        &self,
        py: Python<'_>,
        destination: PathBuf,
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
    /// Together they answer as the filter does. :func:`join` puts them together again.
    ///
    /// Args:
    ///     destinations: the files, in the order of the shards.
    ///     progress: called with the regions written, and all there are. An exception of it ends the call.
    ///
    /// Raises:
    ///     Indivisible: the filter has a number of regions that cannot be divided so.
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
        destinations: Vec<PathBuf>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let reader = self.reader(py)?;
        let outcome = with_progress(py, progress, |tell| reader.divide_to(&destinations, tell))?;
        failure::done(py, outcome)
    }
}

/// Joins shards, given in their order, into one filter at ``destination``, where there must be none.
///
/// They need the same seed and the same slots. The outcome answers as each of them does on its keys.
///
/// Args:
///     shards: all shards there are, or some of them that one shard of fewer would hold.
///     destination: the file.
///     progress: called with the regions written, and all there are. An exception of it ends the call.
///
/// Raises:
///     Unlike: they differ in what must be equal, which the message says.
#[pyfunction]
#[pyo3(signature = (shards, destination, progress=None))]
pub(crate) fn join(
    py: Python<'_>,
    shards: Vec<PyRef<'_, Reader>>,
    destination: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<()> {
    let shards: PyResult<Vec<gowk::Reader>> = shards.iter().map(|shard| shard.reader(py).cloned()).collect();
    let shards = shards?;
    let outcome = with_progress(py, progress, |tell| gowk::Reader::join_to(&shards, &destination, tell))?;
    failure::done(py, outcome)
}
