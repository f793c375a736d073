//! A writer's filter, opened or created.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::Writer;
use crate::failure;
use crate::owned::{Owned, breathe, warn_of_lost};
use crate::progress::with_progress;
use crate::store::check_filter;

/// What a caller can do with the keys taken before an exception; part of a note on the exception.
const AFTERWARDS: &str = "commit() keeps what was taken, and rollback() undoes it";

impl Drop for Writer {
    fn drop(&mut self) {
        let Some(writer) = self.owned.left() else { return };
        if let Err(gowk::Error::Uncommitted { .. }) = writer.close() {
            warn_of_lost(&format!(
                "{}: dropped with uncommitted changes, which are lost; call commit() or rollback() before, or use `with`",
                self.path.display()
            ));
        }
    }
}

impl Writer {
    pub(super) fn opened(
        py: Python<'_>,
        path: PathBuf,
        mode: &str,
        threads: usize,
        options: gowk::Options,
    ) -> PyResult<Self> {
        check_filter(&path)?;
        let path = std::path::absolute(path)?;
        let options = options.growth_progress(|_, _| breathe());
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

    /// Runs an operation that reports its progress.
    pub(super) fn telling<T: Send>(
        &self,
        py: Python<'_>,
        progress: Option<Py<PyAny>>,
        work: impl FnOnce(&mut gowk::Writer, &(dyn Fn(u64, u64) + Sync)) -> gowk::Result<T> + Send,
    ) -> PyResult<T> {
        self.owned.check()?;
        let outcome =
            with_progress(py, progress, |tell| self.owned.without_the_gil(|writer| work(writer, tell)))?;
        failure::done(py, outcome?)
    }
}
