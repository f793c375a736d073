//! Telling a Python function how far something is, which may end it by an exception.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::process::attached;

/// How long nothing looks for a signal.
const SIGNALS: Duration = Duration::from_millis(50);

/// What unwinds through the library when the function has raised.
struct Raised(PyErr);

/// Whom to tell, and when something last looked for a signal.
struct Told {
    progress: Option<Py<PyAny>>,
    looked: Mutex<Instant>,
}

impl Told {
    fn new(progress: Option<Py<PyAny>>) -> Self {
        Self { progress, looked: Mutex::new(Instant::now()) }
    }

    /// Unwinds if the function raises, or at a signal.
    fn tell(&self, done: u64, all: u64) {
        {
            let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            if self.progress.is_none() && looked.elapsed() < SIGNALS {
                return;
            }
            *looked = Instant::now();
        }
        let told = attached(|py| {
            py.check_signals()?;
            self.progress.as_ref().map_or(Ok(()), |progress| progress.call1(py, (done, all)).map(drop))
        });
        if let Err(error) = told {
            // Not a panic, so that no message is printed.
            resume_unwind(Box::new(Raised(error)));
        }
    }
}

/// Does `work` without the GIL. `progress` is called with how much is done, and with all; an exception of it, or a signal
/// such as Ctrl-C, ends the work, as the library allows progress functions to panic.
pub(crate) fn with_progress<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> T + Send,
) -> PyResult<T> {
    with_progress_of_threads(py, progress, |tell| work(&mut |done, all| tell(done, all)))
}

/// As [`with_progress`], for work that several threads do.
pub(crate) fn with_progress_of_threads<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&(dyn Fn(u64, u64) + Sync)) -> T + Send,
) -> PyResult<T> {
    let told = Told::new(progress);
    let outcome = py.detach(|| catch_unwind(AssertUnwindSafe(|| work(&|done, all| told.tell(done, all)))));
    outcome.map_err(|panic| match panic.downcast::<Raised>() {
        Ok(raised) => raised.0,
        Err(panic) => resume_unwind(panic),
    })
}
