//! From the errors of the library to the exceptions of `gowk._errors`.

use std::io;
use std::path::Path;

use gowk::{Error, ErrorKind, Kind, store};
use gowk_ingest::{InputProblem, JobProblem, OutputProblem};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::process::Calling;

/// The errno values for a missing file, an existing file and a full file system. They are the same on every Unix that
/// gowk supports.
const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
const ENOSPC: i32 = 28;

/// The value, or the exception for the error.
#[inline]
pub(crate) fn done<T, E: Into<store::Error>>(py: Python<'_>, outcome: Result<T, E>) -> PyResult<T> {
    match outcome {
        Ok(done) => Ok(done),
        Err(error) => Err(raised(py, &error.into())),
    }
}

/// Whether an exception is `gowk.Conflict`.
pub(crate) fn is_conflict(py: Python<'_>, error: &PyErr) -> bool {
    let class = py.import("gowk._errors").and_then(|errors| errors.getattr("Conflict"));
    class.is_ok_and(|class| error.is_instance(py, &class))
}

/// The exception for an error of a filter or of a store.
#[cold]
pub(crate) fn raised(py: Python<'_>, error: &store::Error) -> PyErr {
    of_store(py, error, error.to_string()).unwrap_or_else(|failed| failed)
}

/// The exception for an error of a filter, with another message.
fn of_filter(py: Python<'_>, error: &Error, message: String) -> PyResult<PyErr> {
    let details = PyDict::new(py);
    let mut errno = None;
    match error {
        Error::Damaged { region, page, .. } => {
            details.set_item("region", region)?;
            details.set_item("page", page)?;
        }
        Error::Unknown { commit, .. } | Error::AfterCommit { commit, .. } => {
            details.set_item("commit", commit)?;
        }
        Error::Io { source, .. } => errno = source.raw_os_error(),
        _ => {}
    }
    let message = message.replace(&error.to_string(), &in_python(error));
    let raised = of_kind(py, error.kind(), message, error.path(), errno, &details)?;
    if let Error::Unknown { source, .. } | Error::AfterCommit { source, .. } = error {
        raised.set_cause(py, Some(of_filter(py, source, source.to_string())?));
    }
    Ok(raised)
}

/// The library's message, with Python's own remedy if the library names a call of Rust.
fn in_python(error: &Error) -> String {
    match error {
        Error::Kind { path, found, wanted, op } => format!(
            "{}: is a {found}, but {op} needs a {wanted}; create another filter for that, with `{}`",
            path.display(),
            match wanted {
                Kind::Counting => "counting=True",
                Kind::Forgetting => "forget_after=...",
                _ => "counting=False",
            }
        ),
        error => error.to_string(),
    }
}

/// The exception for an error of a store, with another message.
fn of_store(py: Python<'_>, error: &store::Error, message: String) -> PyResult<PyErr> {
    if let store::Error::Filter(error) = error {
        return of_filter(py, error, message);
    }
    let details = PyDict::new(py);
    let mut errno = None;
    match error {
        store::Error::Conflict { shard, keys, base, version, .. } => {
            details.set_item("shard", shard)?;
            details.set_item("keys", keys)?;
            details.set_item("base", base)?;
            details.set_item("version", version)?;
        }
        store::Error::Expired { base, .. } => details.set_item("base", base)?,
        store::Error::Unknown { version, .. } => details.set_item("version", version)?,
        store::Error::NoLinks { source, .. } => errno = source.raw_os_error(),
        _ => {}
    }
    let raised = of_kind(py, error.kind(), message, error.path(), errno, &details)?;
    if let store::Error::Unknown { source, .. } = error {
        raised.set_cause(py, Some(of_filter(py, source, source.to_string())?));
    }
    Ok(raised)
}

/// The exception for a kind of error. An error of the operating system also has its `errno` and `filename`.
fn of_kind(
    py: Python<'_>,
    kind: ErrorKind,
    message: String,
    path: Option<&Path>,
    errno: Option<i32>,
    details: &Bound<'_, PyDict>,
) -> PyResult<PyErr> {
    let of_kind = match kind {
        ErrorKind::NotFound => Some(ENOENT),
        ErrorKind::Exists => Some(EEXIST),
        ErrorKind::NoSpace => Some(ENOSPC),
        _ => None,
    };
    details.set_item("path", path.map(Path::as_os_str))?;
    if kind == ErrorKind::Io || of_kind.is_some() {
        details.set_item("errno", errno.or(of_kind))?;
        details.set_item("filename", path.map(Path::as_os_str))?;
    }
    exception(py, class(kind), message, details)
}

/// The class of `gowk._errors` for a kind of error.
const fn class(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "NotFound",
        ErrorKind::Exists => "Exists",
        ErrorKind::Foreign => "Foreign",
        ErrorKind::Unsupported => "Unsupported",
        ErrorKind::Damaged => "Damaged",
        ErrorKind::Locked => "Locked",
        ErrorKind::Busy => "Busy",
        ErrorKind::NoRoom => "NoRoom",
        ErrorKind::NoSpace => "NoSpace",
        ErrorKind::Clock => "WrongClock",
        ErrorKind::Kind => "WrongKind",
        ErrorKind::Invalid => "Invalid",
        ErrorKind::Replaced => "Replaced",
        ErrorKind::Uncommitted => "Uncommitted",
        ErrorKind::Conflict => "Conflict",
        ErrorKind::Unknown => "Unknown",
        ErrorKind::AfterCommit => "AfterCommit",
        ErrorKind::Poisoned => "Poisoned",
        ErrorKind::Io => "Io",
        _ => "Error",
    }
}

fn exception(py: Python<'_>, class: &str, message: String, details: &Bound<'_, PyDict>) -> PyResult<PyErr> {
    let _calling = Calling::begin(py);
    let made = py.import("gowk._errors")?.getattr("_made")?;
    Ok(PyErr::from_value(made.call((class, message), Some(details))?))
}

/// The exception for an error of a job.
pub(crate) fn raised_by_job(py: Python<'_>, error: &gowk_ingest::Error) -> PyErr {
    job_described(py, error, error.to_string()).unwrap_or_else(|failed| failed)
}

fn job_described(py: Python<'_>, error: &gowk_ingest::Error, message: String) -> PyResult<PyErr> {
    let details = PyDict::new(py);
    let (kind, path, system): (_, _, Option<&io::Error>) = match error {
        gowk_ingest::Error::Filter(error) => return of_filter(py, error, message),
        gowk_ingest::Error::Store(error) => return of_store(py, error, message),
        // Raise the exception of the cause, so that callers can tell causes apart.
        gowk_ingest::Error::Partly { cause, committed } => {
            let raised = job_described(py, cause, message)?;
            raised.value(py).setattr("committed", committed)?;
            return Ok(raised);
        }
        gowk_ingest::Error::InDoubt { cause, number, committed, taken } => {
            let raised = job_described(py, cause, message)?;
            raised.value(py).setattr("committed", committed)?;
            raised.value(py).setattr("taken", taken)?;
            raised.value(py).setattr("number", number)?;
            return Ok(raised);
        }
        // Raise the first error's exception, so that callers can tell causes apart. All keys that were read are committed.
        gowk_ingest::Error::Inputs { failed, summary, .. } => {
            let Some(first) = failed.first() else { return exception(py, "JobError", message, &details) };
            let raised = job_described(py, first, message)?;
            if let Some(summary) = summary {
                raised.value(py).setattr("committed", summary.run.keys)?;
            }
            return Ok(raised);
        }
        gowk_ingest::Error::Job { path, problem, .. } => {
            let system = if let JobProblem::Read(source) = problem { Some(source) } else { None };
            ("JobError", Some(path), system)
        }
        gowk_ingest::Error::Input { path, problem } => {
            let system = if let InputProblem::Io { source, .. } = problem { Some(source) } else { None };
            ("JobInput", Some(path), system)
        }
        gowk_ingest::Error::Output { path, problem } => {
            let system = if let OutputProblem::Io { source, .. } = problem { Some(source) } else { None };
            ("JobOutput", Some(path), system)
        }
        gowk_ingest::Error::Overtaken { store } => ("JobOvertaken", Some(store), None),
        gowk_ingest::Error::Thread { source } => ("JobError", None, Some(source)),
        _ => ("JobError", None, None),
    };
    if let Some(path) = path {
        details.set_item("path", path.as_os_str())?;
    }
    let Some(source) = system else { return exception(py, kind, message, &details) };
    details.set_item("errno", source.raw_os_error())?;
    details.set_item("filename", path.map(|path| path.as_os_str()))?;
    exception(py, "JobSystem", message, &details)
}

/// A `Writer` or similar object that was opened before `os.fork` and is used after it.
pub(crate) fn of_other_process(kind: &str, path: &Path) -> PyErr {
    PyRuntimeError::new_err(format!(
        "{}: this {kind} was opened before os.fork() and belongs to the other process; open one here",
        path.display()
    ))
}
