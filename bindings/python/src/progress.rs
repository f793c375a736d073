//! Callers' progress functions. An exception from one ends the operation.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::process::attached;

/// The time between two checks for a signal.
const SIGNALS: Duration = Duration::from_millis(50);

/// The payload that unwinds through the library after the function has raised.
struct Raised(PyErr);

/// The function to call, and the time of the last check for a signal.
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
            // `resume_unwind` and not `panic!`, so that no message is printed.
            resume_unwind(Box::new(Raised(error)));
        }
    }
}

/// Does `work` without the GIL. Calls `progress` with the amount done and the whole amount. If `progress` raises, or at a
/// signal such as Ctrl-C, the work ends: the library allows progress functions to panic.
pub(crate) fn with_progress<T: Send>(
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
