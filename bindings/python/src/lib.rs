//! The compiled part of the Python package `gowk`, over the public interface of the library.
//!
//! | file | what it holds |
//! |---|---|
//! | `reader`, `writer`, `store`, `job` | the classes |
//! | `owned` | objects that one process owns and one thread at a time uses |
//! | `key` | one key: the bytes of a Python object |
//! | `feed`, `rows` | many keys, from any object that holds them |
//! | `times` | keys with the times at which they were seen |
//! | `options`, `asked`, `info`, `failure` | arguments, how a store is opened, descriptions and exceptions |
//! | `process`, `progress` | forks and the interpreter's exit; progress functions |

mod asked;
mod failure;
mod feed;
mod info;
mod job;
mod key;
mod options;
mod owned;
mod process;
mod progress;
mod reader;
mod rows;
mod store;
mod times;
mod writer;

use std::ffi::OsString;

use numpy::{Element, PyArray1};
use pyo3::prelude::*;

/// A NumPy array that takes ownership of the answers.
fn array_of<T: Element>(py: Python<'_>, answers: Vec<T>) -> Bound<'_, PyAny> {
    PyArray1::from_vec(py, answers).into_any()
}

/// Runs the command-line tool with these arguments; the first is the tool's name. Returns the exit code.
#[pyfunction]
fn command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| gowk_cli::run(arguments))
}

/// A class whose methods do nothing.
#[cfg(feature = "bench")]
#[pyclass(frozen)]
struct Nothing;

#[cfg(feature = "bench")]
#[pymethods]
impl Nothing {
    #[new]
    fn new() -> Self {
        Self
    }

    fn __contains__(&self, _key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(false)
    }
}

#[pymodule(gil_used = false)]
fn _gowk(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // The crate `numpy` loads NumPy's functions at the first array, and panics if NumPy is missing or Ctrl-C interrupts
    // its import. So NumPy is imported before that, and the first array is made here.
    numpy::get_array_module(module.py())?;
    array_of::<bool>(module.py(), Vec::new());
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<reader::Reader>()?;
    module.add_class::<writer::Writer>()?;
    module.add_class::<store::Store>()?;
    module.add_class::<store::Update>()?;
    module.add_class::<store::Sealed>()?;
    module.add_class::<store::Distinct>()?;
    module.add_class::<job::Job>()?;
    module.add_function(wrap_pyfunction!(command, module)?)?;
    module.add_function(wrap_pyfunction!(reader::join, module)?)?;
    #[cfg(feature = "bench")]
    module.add_class::<Nothing>()?;
    process::watch(module)
}
