//! Which process this is, and whether it is ending.
//!
//! A child of a fork must not use filters that its parent opened.
//!
//! At the interpreter's exit, a daemon thread runs until it requests the GIL, and then ends. Before Python 3.14 it ends
//! by `pthread_exit`, which aborts the process if a function of Rust is on the stack. PyO3 halts a thread that requests
//! the GIL after [`Python::detach`]. But a thread that runs Python code called by this module, such as a generator of
//! keys, requests the GIL within that code. So:
//!
//! 1. Such code runs within a [`Calling`].
//! 2. When the interpreter begins to exit, it waits until no other thread is within a [`Calling`], for at most
//!    [`PATIENCE`]. A thread that wants to begin a new [`Calling`] waits equally long without the GIL, and normally the
//!    process ends first.
//! 3. If the process has not ended after that time, because other functions of `atexit` take long, the thread continues:
//!    such a function may be waiting for it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// How long the interpreter waits at its exit for a generator that yields nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many forks lie between the process that loaded this module and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// How many threads run Python code called by this module.
static CALLING: AtomicUsize = AtomicUsize::new(0);
/// The thread that ends the interpreter, and when it began that.
static EXIT: OnceLock<(ThreadId, Instant)> = OnceLock::new();

#[inline(always)]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

#[pyfunction]
fn forked() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    // The counted threads belong to the parent.
    CALLING.store(0, Ordering::SeqCst);
}

/// Called when the interpreter begins to exit.
#[pyfunction]
fn exiting(py: Python<'_>) {
    let (_, since) = EXIT.get_or_init(|| (thread::current().id(), Instant::now()));
    py.detach(|| {
        while CALLING.load(Ordering::SeqCst) != 0 && since.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
    });
}

/// While this value lives, its thread calls Python code.
pub(crate) struct Calling(());

impl Calling {
    #[inline]
    pub(crate) fn begin(py: Python<'_>) -> Self {
        let calling = Self::count();
        calling.pause(py);
        calling
    }

    fn count() -> Self {
        CALLING.fetch_add(1, Ordering::SeqCst);
        Self(())
    }

    /// Lets the interpreter exit, if it is about to.
    #[inline]
    pub(crate) fn pause(&self, py: Python<'_>) {
        if let Some((ending, since)) = EXIT.get() {
            halt(py, *ending, *since);
        }
    }
}

impl Drop for Calling {
    #[inline]
    fn drop(&mut self) {
        // In a child of a fork, this thread is no longer counted.
        let _ = CALLING.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |number| number.checked_sub(1));
    }
}

/// Waits without the GIL, and without being counted, until the interpreter no longer waits for this thread.
#[cold]
fn halt(py: Python<'_>, ending: ThreadId, since: Instant) {
    let left = PATIENCE.saturating_sub(since.elapsed());
    if thread::current().id() != ending && !left.is_zero() {
        drop(Calling(()));
        py.detach(|| thread::sleep(left));
        std::mem::forget(Calling::count());
    }
}

/// Calls Python code from a thread that does not hold the GIL. If the interpreter has ended, so has the thread.
pub(crate) fn attached<T>(call: impl FnOnce(Python<'_>) -> T) -> T {
    let told = Python::try_attach(|py| {
        let _calling = Calling::begin(py);
        call(py)
    });
    told.unwrap_or_else(|| {
        loop {
            thread::park();
        }
    })
}

/// Registers the functions that count forks and wait at the exit.
pub(crate) fn watch(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let arguments = PyDict::new(py);
    arguments.set_item("after_in_child", wrap_pyfunction!(forked, module)?)?;
    py.import("os")?.call_method("register_at_fork", (), Some(&arguments))?;
    py.import("atexit")?.call_method1("register", (wrap_pyfunction!(exiting, module)?,))?;
    Ok(())
}
