//! A writer's filter as a whole: growing, shrinking, merging, repairing; what it is, and what it carries.

use gowk::{Limits, Merge};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::Writer;
use crate::progress::with_progress;
use crate::reader::Reader;
use crate::{failure, info, options};

impl Writer {
    /// Does something that tells how far it is.
    fn telling<T: Send>(
        &self,
        py: Python<'_>,
        progress: Option<Py<PyAny>>,
        work: impl FnOnce(&mut gowk::Writer, &mut dyn FnMut(u64, u64)) -> gowk::Result<T> + Send,
    ) -> PyResult<T> {
        self.owned.check()?;
        let outcome =
            with_progress(py, progress, |tell| self.owned.without_the_gil(|writer| work(writer, tell)))?;
        failure::done(py, outcome?)
    }
}

#[pymethods]
impl Writer {
    /// Makes all commits part of the file itself, and empties the journal: what closing does, and every 64 MiB of
    /// journal.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        self.owned.slowly(py, gowk::Writer::checkpoint)
    }

    /// Doubles the filter now, as part of the open transaction.
    ///
    /// Args:
    ///     progress: called with the regions done, and all there are. An exception of it ends the doubling.
    ///
    /// Raises:
    ///     Growth: a limit forbids it.
    #[pyo3(signature = (progress=None))]
    fn grow(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<()> {
        self.telling(py, progress, |writer, tell| writer.grow_with(tell))
    }

    /// Halves the filter now, as part of the open transaction: undoes one doubling, keeping every key. What it would have
    /// then is told by :attr:`Info.shrunk`.
    ///
    /// Args:
    ///     progress: called with the regions done, and all there are. An exception of it ends the halving.
    ///
    /// Raises:
    ///     Shrink: the filter has not doubled, or its entries do not fit into half of the slots.
    #[pyo3(signature = (progress=None))]
    fn shrink(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<()> {
        self.telling(py, progress, |writer, tell| writer.shrink_with(tell))
    }

    /// Stores all that another filter holds, as part of the open transaction, without its keys.
    ///
    /// Both need the same seed, slots and shard, which a filter that was made with ``like=other`` has. It takes the time of
    /// a doubling, however little the other one holds. Of its metadata nothing is taken.
    ///
    /// Args:
    ///     other: a reader of the other filter.
    ///     sum: whether copies add up, so that removal stays safe if it was safe in both. Otherwise what both have is stored
    ///         once, and removal is refused from then on.
    ///     progress: called with the regions done, and all there are; from the start again where the filter has to double.
    ///         An exception of it ends the merge.
    ///
    /// Raises:
    ///     Unlike: the filters differ in what must be equal, which the message says.
    ///     Full: there is no room, and the filter must not grow.
    ///     Growth: there is no room, and growing would not be right.
    ///
    /// >>> import gowk
    /// >>> with gowk.Writer("monday.gowk") as monday:
    /// ...     monday.update(["a", "b"])
    /// >>> with gowk.Writer("tuesday.gowk", like=gowk.Reader("monday.gowk")) as tuesday:
    /// ...     tuesday.update(["b", "c"])
    /// ...     tuesday.merge(gowk.Reader("monday.gowk"))
    /// >>> gowk.Reader("tuesday.gowk").contains_many(["a", "b", "c", "d"])
    /// array([ True,  True,  True, False])
    #[pyo3(signature = (other, *, sum=false, progress=None))]
    fn merge(
        &self,
        py: Python<'_>,
        other: PyRef<'_, Reader>,
        sum: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let other = other.reader(py)?.clone();
        let mode = if sum { Merge::Sum } else { Merge::Union };
        self.telling(py, progress, |writer, tell| writer.merge_with(&other, mode, tell))
    }

    /// How far the filter may grow.
    #[getter]
    fn limits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        info::limits(py, &self.owned.quickly(py, |writer| writer.limits())?)
    }

    /// Changes how far the filter may grow: at once, whatever becomes of the open transaction.
    ///
    /// Args:
    ///     limits: the new ones. :func:`dataclasses.replace` makes them of :attr:`limits`.
    ///
    /// Raises:
    ///     Option: a limit is out of range, or below what the file has already.
    ///
    /// >>> import dataclasses, gowk
    /// >>> with gowk.Writer("seen.gowk") as seen:
    /// ...     seen.set_limits(dataclasses.replace(seen.limits, max_file_size=8 << 30))
    /// >>> gowk.Reader("seen.gowk").info().max_file_size
    /// 8589934592
    fn set_limits(&self, limits: &Bound<'_, PyAny>) -> PyResult<()> {
        let growth: String = limits.getattr("growth")?.extract()?;
        let new = Limits {
            growth: options::growth(&growth)?,
            max_file_size: limits.getattr("max_file_size")?.extract()?,
            max_false_positive_rate: limits.getattr("max_false_positive_rate")?.extract()?,
        };
        self.owned.slowly(limits.py(), |writer| writer.set_limits(new))
    }

    /// Gives up damaged pages, so that the filter can be used again: their slots match every key from now on. Rolls the
    /// open transaction back, and commits.
    ///
    /// Args:
    ///     progress: called with the pages read, and all there are. An exception of it ends the repair.
    #[pyo3(signature = (progress=None))]
    fn repair<'py>(&self, py: Python<'py>, progress: Option<Py<PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let repair = self.telling(py, progress, |writer, tell| writer.repair(tell))?;
        info::repair(py, &repair)
    }

    /// The copies that are stored, with the changes of the open transaction: keys inserted, less those removed. Keys that
    /// :meth:`add` or :meth:`update` found present do not count.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let info = self.owned.quickly(py, |writer| writer.info())?;
        Ok(info.copies as usize)
    }

    /// The filter as the open transaction has it.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        info::info(py, &self.owned.quickly(py, |writer| writer.info())?)
    }

    /// The chance that a key never inserted is found now, 0 to 1.
    #[getter]
    fn expected_false_positive_rate(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.owned.quickly(py, |writer| writer.info())?.expected_false_positive_rate)
    }

    /// Names and bytes that the filter carries: a mutable mapping of ``str`` to ``bytes``, committed and rolled back with
    /// the keys. At most 49,152 bytes in all, with 8 for each entry.
    ///
    /// >>> import gowk
    /// >>> with gowk.Writer("seen.gowk") as seen:
    /// ...     seen.metadata["crawl"] = b"page 17"
    /// >>> gowk.Reader("seen.gowk").metadata["crawl"]
    /// b'page 17'
    #[getter]
    fn metadata<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("gowk._metadata")?.getattr("Metadata")?.call1((slf,))
    }

    #[pyo3(name = "_entries")]
    fn entries<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let metadata = self.owned.quickly(py, |writer| writer.metadata().cloned())?;
        let entries = PyDict::new(py);
        for (name, value) in metadata.iter() {
            entries.set_item(name, PyBytes::new(py, value))?;
        }
        Ok(entries)
    }

    #[pyo3(name = "_set_entry")]
    fn set_entry(&self, py: Python<'_>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if value.is_instance_of::<pyo3::types::PyString>() {
            return Err(PyTypeError::new_err("the value is str, but metadata holds bytes; encode it"));
        }
        let value =
            crate::key::bytes_of(value).map_err(|no_key| no_key.raised(py, "the value"))?.into_owned();
        self.owned.quickly(py, |writer| -> gowk::Result<()> {
            writer.metadata_mut()?.set(name, value);
            Ok(())
        })
    }

    /// Removes an entry; returns whether there was one.
    #[pyo3(name = "_remove_entry")]
    fn remove_entry(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.owned
            .quickly(py, |writer| -> gowk::Result<bool> { Ok(writer.metadata_mut()?.remove(name).is_some()) })
    }
}
