//! From the errors of the library to the exceptions of `gowk._errors`.

use std::io;
use std::path::Path;

use gowk::ingest::{self, InputProblem, JobProblem, OutputProblem};
use gowk::{Error, store};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::process::Calling;

/// The errno of a file that is not there, of one that is, and of a full file system, which are the same on every Unix
/// that gowk is for.
const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
const ENOSPC: i32 = 28;

/// The outcome, or the exception for it.
#[inline]
pub(crate) fn done<T, E: Into<store::Error>>(py: Python<'_>, outcome: Result<T, E>) -> PyResult<T> {
    match outcome {
        Ok(done) => Ok(done),
        Err(error) => Err(raised(py, &error.into())),
    }
}

/// The exception for an error of a filter or of a store.
#[cold]
pub(crate) fn raised(py: Python<'_>, error: &store::Error) -> PyErr {
    of_store(py, error, error.to_string()).unwrap_or_else(|failed| failed)
}

/// The exception, with another message.
fn described(py: Python<'_>, error: &Error, message: String) -> PyResult<PyErr> {
    let details = PyDict::new(py);
    let kind = details_of(error, &details)?;
    let raised = exception(py, kind, message, &details)?;
    if let Error::Unknown { source, .. } | Error::AfterCommit { source, .. } = error {
        raised.set_cause(py, Some(described(py, source, source.to_string())?));
    }
    Ok(raised)
}

/// The exception for an error of a store, with another message.
fn of_store(py: Python<'_>, error: &store::Error, message: String) -> PyResult<PyErr> {
    let details = PyDict::new(py);
    let (kind, path) = match error {
        store::Error::Filter(error) => return described(py, error, message),
        store::Error::NotAStore { path } => {
            details.set_item("errno", ENOENT)?;
            details.set_item("filename", path.as_os_str())?;
            ("NotAStore", path)
        }
        store::Error::Exists { path } => {
            details.set_item("errno", EEXIST)?;
            details.set_item("filename", path.as_os_str())?;
            ("Exists", path)
        }
        store::Error::NoVersions { path } => ("NoVersions", path),
        store::Error::Damaged { path } => ("StoreDamaged", path),
        store::Error::Format { path, found, supported } => {
            details.set_item("found", found)?;
            details.set_item("supported", supported)?;
            ("StoreFormat", path)
        }
        store::Error::Text { path, .. } => ("StoreText", path),
        store::Error::Field { path, field, found, expected } => {
            details.set_item("field", field)?;
            details.set_item("found", found)?;
            details.set_item("expected", expected)?;
            ("StoreField", path)
        }
        store::Error::NoSuchVersion { path, number, newest } => {
            details.set_item("number", number)?;
            details.set_item("newest", newest)?;
            ("NoSuchVersion", path)
        }
        store::Error::Conflict { path, shard, base, version } => {
            details.set_item("shard", shard)?;
            details.set_item("base", base)?;
            details.set_item("version", version)?;
            ("Conflict", path)
        }
        store::Error::Expired { path, base, fence } => {
            details.set_item("base", base)?;
            details.set_item("fence", fence)?;
            ("Expired", path)
        }
        store::Error::MissingFile { path, version } => {
            details.set_item("version", version)?;
            ("MissingFile", path)
        }
        store::Error::Vacuumed { path, version } => {
            details.set_item("version", version)?;
            ("Vacuumed", path)
        }
        store::Error::WrongFile { path, what, found, expected } => {
            details.set_item("what", what)?;
            details.set_item("found", found)?;
            details.set_item("expected", expected)?;
            ("WrongFile", path)
        }
        store::Error::Misfit { path, what, found, expected } => {
            details.set_item("what", what)?;
            details.set_item("found", found)?;
            details.set_item("expected", expected)?;
            ("Misfit", path)
        }
        store::Error::Unknown { path, version, .. } => {
            details.set_item("version", version)?;
            ("StoreUnknown", path)
        }
        store::Error::Busy { path } => ("StoreBusy", path),
        _ => return exception(py, "StoreError", message, &details),
    };
    details.set_item("path", path.as_os_str())?;
    let raised = exception(py, kind, message, &details)?;
    if let store::Error::Unknown { source, .. } = error {
        raised.set_cause(py, Some(described(py, source, source.to_string())?));
    }
    Ok(raised)
}

fn exception(py: Python<'_>, kind: &str, message: String, details: &Bound<'_, PyDict>) -> PyResult<PyErr> {
    let _calling = Calling::begin(py);
    let made = py.import("gowk._errors")?.getattr("_made")?;
    Ok(PyErr::from_value(made.call((kind, message), Some(details))?))
}

fn path_of(error: &Error) -> Option<&Path> {
    match error {
        Error::Io { path, .. }
        | Error::NotFound { path }
        | Error::Exists { path }
        | Error::NotGowk { path }
        | Error::Version { path, .. }
        | Error::Features { path, .. }
        | Error::Superblocks { path }
        | Error::Field { path, .. }
        | Error::Length { path, .. }
        | Error::HashMismatch { path }
        | Error::CallerHashes { path }
        | Error::OtherShard { path, .. }
        | Error::NotSealed { path, .. }
        | Error::Indivisible { path, .. }
        | Error::Unlike { path, .. }
        | Error::Damaged { path, .. }
        | Error::Journal { path, .. }
        | Error::Locked { path }
        | Error::MountPoint { path }
        | Error::Stalled { path }
        | Error::NameTaken { path }
        | Error::HardLinks { path, .. }
        | Error::Full { path, .. }
        | Error::Growth { path, .. }
        | Error::UnsafeRemove { path, .. }
        | Error::Poisoned { path }
        | Error::Unknown { path, .. }
        | Error::AfterCommit { path, .. }
        | Error::MetadataFull { path, .. }
        | Error::NoSpace { path, .. }
        | Error::Rate { path, .. }
        | Error::Replaced { path }
        | Error::Shrink { path, .. }
        | Error::Busy { path, .. } => Some(path),
        _ => None,
    }
}

/// Fills in an error's details, and returns the name of its class.
fn details_of(error: &Error, details: &Bound<'_, PyDict>) -> PyResult<&'static str> {
    if let Some(path) = path_of(error) {
        details.set_item("path", path.as_os_str())?;
    }
    let of_system = |errno: Option<i32>| -> PyResult<()> {
        details.set_item("errno", errno)?;
        details.set_item("filename", path_of(error).map(Path::as_os_str))
    };
    Ok(match error {
        Error::Io { op, source, .. } => {
            details.set_item("op", op)?;
            of_system(source.raw_os_error())?;
            "Io"
        }
        Error::NotFound { .. } => {
            of_system(Some(ENOENT))?;
            "NotFound"
        }
        Error::Exists { .. } => {
            of_system(Some(EEXIST))?;
            "Exists"
        }
        Error::NotGowk { .. } => "NotGowk",
        Error::Version { found, supported, .. } => {
            details.set_item("found", found)?;
            details.set_item("supported", supported)?;
            "Version"
        }
        Error::Features { bits, access, .. } => {
            details.set_item("bits", bits)?;
            details.set_item("access", access)?;
            "Features"
        }
        Error::Superblocks { .. } => "Superblocks",
        Error::Field { field, found, .. } => {
            details.set_item("field", field)?;
            details.set_item("found", found)?;
            "Field"
        }
        Error::Length { expected, found, .. } => {
            details.set_item("expected", expected)?;
            details.set_item("found", found)?;
            "Length"
        }
        Error::HashMismatch { .. } => "HashMismatch",
        Error::CallerHashes { .. } => "CallerHashes",
        Error::OtherShard { shard, shards, belongs, .. } => {
            details.set_item("shard", shard)?;
            details.set_item("shards", shards)?;
            details.set_item("belongs", belongs)?;
            "OtherShard"
        }
        Error::NotSealed { .. } => "NotSealed",
        Error::Indivisible { regions, parts, .. } => {
            details.set_item("regions", regions)?;
            details.set_item("parts", parts)?;
            "Indivisible"
        }
        Error::Unlike { other, .. } => {
            details.set_item("other", other.as_os_str())?;
            "Unlike"
        }
        Error::Damaged { region, page, .. } => {
            details.set_item("region", region)?;
            details.set_item("page", page)?;
            "Damaged"
        }
        Error::Journal { .. } => "Journal",
        Error::Locked { .. } => "Locked",
        Error::MountPoint { .. } => "MountPoint",
        Error::Stalled { .. } => "Stalled",
        Error::NameTaken { .. } => "NameTaken",
        Error::HardLinks { links, .. } => {
            details.set_item("links", links)?;
            "HardLinks"
        }
        Error::Full { region, load, .. } => {
            details.set_item("region", region)?;
            details.set_item("load", load)?;
            "Full"
        }
        Error::Growth { .. } => "Growth",
        Error::UnsafeRemove { unrecorded, other_keys, .. } => {
            details.set_item("unrecorded", unrecorded)?;
            details.set_item("other_keys", other_keys)?;
            "UnsafeRemove"
        }
        Error::Poisoned { .. } => "Poisoned",
        Error::Unknown { commit, .. } => {
            details.set_item("commit", commit)?;
            "Unknown"
        }
        Error::AfterCommit { commit, .. } => {
            details.set_item("commit", commit)?;
            "AfterCommit"
        }
        Error::MetadataFull { needed, limit, .. } => {
            details.set_item("needed", needed)?;
            details.set_item("limit", limit)?;
            "MetadataFull"
        }
        Error::NoSpace { needed, available, .. } => {
            details.set_item("needed", needed)?;
            details.set_item("available", available)?;
            of_system(Some(ENOSPC))?;
            "NoSpace"
        }
        Error::Shrink { .. } => "Shrink",
        Error::Option { option, found, expected } => {
            details.set_item("option", option)?;
            details.set_item("found", found)?;
            details.set_item("expected", expected)?;
            "Option"
        }
        Error::Rate { rate, wanted, .. } => {
            details.set_item("rate", rate)?;
            details.set_item("wanted", wanted)?;
            "Rate"
        }
        Error::Replaced { .. } => "Replaced",
        Error::Busy { op, .. } => {
            details.set_item("op", op)?;
            "Busy"
        }
        _ => "Error",
    })
}

/// The exception for an error of a job.
pub(crate) fn raised_by_job(py: Python<'_>, error: &ingest::Error) -> PyErr {
    job_described(py, error, error.to_string()).unwrap_or_else(|failed| failed)
}

fn job_described(py: Python<'_>, error: &ingest::Error, message: String) -> PyResult<PyErr> {
    let details = PyDict::new(py);
    let (kind, path, system): (_, _, Option<&io::Error>) = match error {
        ingest::Error::Filter(error) => return described(py, error, message),
        ingest::Error::Store(error) => return of_store(py, error, message),
        // The exception is that of the cause, so that callers can tell one cause from another.
        ingest::Error::Partly { cause, committed } => {
            let raised = job_described(py, cause, message)?;
            raised.value(py).setattr("committed", committed)?;
            return Ok(raised);
        }
        ingest::Error::InDoubt { cause, number, committed, taken } => {
            let raised = job_described(py, cause, message)?;
            raised.value(py).setattr("committed", committed)?;
            raised.value(py).setattr("taken", taken)?;
            raised.value(py).setattr("number", number)?;
            return Ok(raised);
        }
        ingest::Error::Job { path, problem, .. } => {
            let system = if let JobProblem::Read(source) = problem { Some(source) } else { None };
            ("JobError", Some(path), system)
        }
        ingest::Error::Input { path, problem } => {
            let system = if let InputProblem::Io { source, .. } = problem { Some(source) } else { None };
            ("JobInput", Some(path), system)
        }
        ingest::Error::Output { path, problem } => {
            let system = if let OutputProblem::Io { source, .. } = problem { Some(source) } else { None };
            ("JobOutput", Some(path), system)
        }
        ingest::Error::Overtaken { store } => ("JobOvertaken", Some(store), None),
        ingest::Error::Thread { source } => ("JobError", None, Some(source)),
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

/// A `Writer` or the like that was opened before `os.fork` and is used after it.
pub(crate) fn of_other_process(kind: &str, path: &Path) -> PyErr {
    PyRuntimeError::new_err(format!(
        "{}: this {kind} was opened before os.fork() and belongs to the other process; open one here",
        path.display()
    ))
}
