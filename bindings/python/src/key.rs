//! One key: the bytes of a Python object.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};

/// The bytes of a key: a bytes-like object's, or the UTF-8 of a `str`. Of bytes-like objects, all except `bytes` are
/// copied, as other threads may change them during the call.
#[inline(always)]
pub(crate) fn bytes_of<'a>(key: &'a Bound<'_, PyAny>) -> Result<Cow<'a, [u8]>, NoKey> {
    // Nearly all keys are exactly `str` or `bytes`. Their type shows that without a call into Python, which subclasses
    // need.
    if let Ok(text) = key.cast_exact::<PyString>() {
        return of_text(text);
    }
    if let Ok(bytes) = key.cast_exact::<PyBytes>() {
        return Ok(Cow::Borrowed(bytes.as_bytes()));
    }
    of_any(key)
}

#[inline(always)]
fn of_text<'a>(text: &'a Bound<'_, PyString>) -> Result<Cow<'a, [u8]>, NoKey> {
    text.to_str().map(|text| Cow::Borrowed(text.as_bytes())).map_err(NoKey::Surrogate)
}

#[cold]
fn of_any<'a>(key: &'a Bound<'_, PyAny>) -> Result<Cow<'a, [u8]>, NoKey> {
    if let Ok(text) = key.cast::<PyString>() {
        return of_text(text);
    }
    if let Ok(bytes) = key.cast::<PyBytes>() {
        return Ok(Cow::Borrowed(bytes.as_bytes()));
    }
    copied(key).map(Cow::Owned)
}

fn copied(key: &Bound<'_, PyAny>) -> Result<Vec<u8>, NoKey> {
    if let Ok(bytes) = key.cast::<PyByteArray>() {
        return Ok(bytes.to_vec());
    }
    let not_bytes =
        || NoKey::Type(key.get_type().fully_qualified_name().map_or("?".into(), |name| name.to_string()));
    let buffer = PyUntypedBuffer::get(key).map_err(|_| not_bytes())?;
    // NumPy's numbers are buffers, too, but have no dimension.
    if buffer.dimensions() != 1 || buffer.item_size() != 1 {
        return Err(not_bytes());
    }
    let py = key.py();
    if let Ok(bytes) = buffer.as_typed::<u8>() {
        return bytes.to_vec(py).map_err(|_| not_bytes());
    }
    match buffer.as_typed::<i8>() {
        Ok(bytes) => bytes.to_vec(py).map(|bytes| bytes.into_iter().map(|byte| byte as u8).collect()),
        Err(error) => Err(error),
    }
    .map_err(|_| not_bytes())
}

/// Whether an object holds bytes, rather than objects or larger numbers.
pub(crate) fn is_of_bytes(object: &Bound<'_, PyAny>) -> bool {
    let view = PyMemoryView::from(object).and_then(|view| view.getattr("itemsize")?.extract::<usize>());
    view.is_ok_and(|item| item == 1)
}

/// Why an object is not a key.
pub(crate) enum NoKey {
    /// It has this type, which is neither `str` nor bytes-like.
    Type(String),
    /// It is a `str` that has no UTF-8.
    Surrogate(PyErr),
}

impl NoKey {
    /// The exception; `name` is the object's name in the message.
    #[cold]
    pub(crate) fn raised(self, py: Python<'_>, name: &str) -> PyErr {
        match self {
            Self::Type(kind) => {
                PyTypeError::new_err(format!("{name} is {kind}, but a key is str or bytes-like"))
            }
            Self::Surrogate(cause) => {
                let message = format!("{name} is str with a lone surrogate, which has no UTF-8");
                let error = PyTypeError::new_err(message);
                error.set_cause(py, Some(cause));
                error
            }
        }
    }
}

/// A path: `str`, `bytes` or a path-like object of either, as `open` accepts them.
pub(crate) fn fs_path(path: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let named = path.py().import("os")?.call_method1("fspath", (path,))?;
    match named.cast::<PyBytes>() {
        Ok(bytes) => Ok(OsStr::from_bytes(bytes.as_bytes()).into()),
        Err(_) => named.extract(),
    }
}

/// Calls `take` with the bytes of the argument `key`.
// Does not wrap the result of `take`: copying the result into a larger one would take a third of the time of a lookup.
#[inline]
pub(crate) fn with_key<T>(key: &Bound<'_, PyAny>, take: impl FnOnce(&[u8]) -> PyResult<T>) -> PyResult<T> {
    match bytes_of(key) {
        Ok(bytes) => take(&bytes),
        Err(no_key) => Err(no_key.raised(key.py(), "key")),
    }
}
