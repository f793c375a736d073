//! Telling a Python function how far something is, which may end it by an exception.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// How long nothing looks for a signal.
const SIGNALS: Duration = Duration::from_millis(50);

/// What unwinds through the library when the function has raised.
struct Raised(PyErr);

/// Does `work` without the GIL. `progress` is called with how much is done, and with all; an exception of it, or a signal
/// such as Ctrl-C, ends the work, as the library allows progress functions to panic.
pub(crate) fn with_progress<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> T + Send,
) -> PyResult<T> {
    let mut looked = Instant::now();
    let mut tell = |done: u64, all: u64| {
        if progress.is_none() && looked.elapsed() < SIGNALS {
            return;
        }
        looked = Instant::now();
        let told = Python::attach(|py| {
            py.check_signals()?;
            progress.as_ref().map_or(Ok(()), |progress| progress.call1(py, (done, all)).map(drop))
        });
        if let Err(error) = told {
            // Not a panic, so that no message is printed.
            resume_unwind(Box::new(Raised(error)));
        }
    };
    let outcome = py.detach(|| catch_unwind(AssertUnwindSafe(|| work(&mut tell))));
    outcome.map_err(|panic| match panic.downcast::<Raised>() {
        Ok(raised) => raised.0,
        Err(panic) => resume_unwind(panic),
    })
}
