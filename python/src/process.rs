//! Which process this is, and which thread: filters opened before a fork are not those of the child.

use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::prelude::*;

/// How many forks lie between the process that loaded this module and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

#[inline(always)]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

#[pyfunction]
fn forked() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Has each child of `os.fork` count.
pub(crate) fn watch_forks(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let forked = wrap_pyfunction!(forked, module)?;
    let arguments = pyo3::types::PyDict::new(py);
    arguments.set_item("after_in_child", forked)?;
    py.import("os")?.call_method("register_at_fork", (), Some(&arguments))?;
    Ok(())
}
