//! From the descriptions of stores and versions to the dataclasses of `gowk._info`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::UNIX_EPOCH;

use gowk::store::{Committed, Compacted, Done, Store, StoreReader, Vacuumed, Version};
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::info::{fixed, forgetting, growth, hash, key_rules, made, uuid};

/// A :class:`pathlib.Path`; or an address in a bucket as text, since a path would lose one of its slashes.
pub(crate) fn place<'py>(py: Python<'py>, path: &Path) -> PyResult<Bound<'py, PyAny>> {
    if Store::is_address(path) { path.as_os_str().into_bound_py_any(py) } else { path.into_bound_py_any(py) }
}

pub(super) fn files<'py>(py: Python<'py>, store: &Store, version: &Version) -> PyResult<Bound<'py, PyAny>> {
    let all = PyDict::new(py);
    for (shard, file) in &version.shards {
        let fields = PyDict::new(py);
        fields.set_item("shard", shard)?;
        fields.set_item("name", file.file_name())?;
        fields.set_item("path", place(py, &store.file_path(*shard, file))?)?;
        fields.set_item("bytes", file.bytes)?;
        fields.set_item("uuid", uuid(py, &file.uuid())?)?;
        fields.set_item("commit", file.commit)?;
        fields.set_item("entries", file.entries)?;
        fields.set_item("expected_false_positive_rate", file.expected_false_positive_rate)?;
        fields.set_item("since", file.since)?;
        all.set_item(shard, made(py, "ShardFile", &fields)?)?;
    }
    fixed(&all)
}

fn token<'py>(py: Python<'py>, application: &str, done: &Done) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("application", application)?;
    fields.set_item("number", done.number)?;
    fields.set_item("version", done.version)?;
    fields.set_item("base", done.base)?;
    fields.set_item("state", &done.state)?;
    made(py, "StoreToken", &fields)
}

pub(super) fn tokens<'py>(py: Python<'py>, all: &BTreeMap<String, Done>) -> PyResult<Bound<'py, PyAny>> {
    let described = PyDict::new(py);
    for (application, done) in all {
        described.set_item(application, token(py, application, done)?)?;
    }
    fixed(&described)
}

pub(super) fn version<'py>(py: Python<'py>, version: &Version) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("number", version.number)?;
    let datetime = py.import("datetime")?;
    let (utc, since) = (datetime.getattr("timezone")?.getattr("utc")?, PyDict::new(py));
    let milliseconds = version.time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    since.set_item("milliseconds", milliseconds)?;
    let since = datetime.getattr("timedelta")?.call((), Some(&since))?;
    let epoch = datetime.getattr("datetime")?.call1((1970, 1, 1, 0, 0, 0, 0, utc))?;
    fields.set_item("time", epoch.add(since)?)?;
    fields.set_item("operation", &version.operation)?;
    fields.set_item("base", version.base)?;
    fields.set_item("first", version.first)?;
    fields.set_item("fence", version.fence)?;
    fields.set_item("files", version.shards.len())?;
    fields.set_item("entries", version.entries())?;
    fields.set_item("bytes", version.bytes())?;
    fields.set_item("tokens", tokens(py, &version.tokens)?)?;
    made(py, "StoreVersion", &fields)
}

pub(super) fn info<'py>(py: Python<'py>, reader: &StoreReader) -> PyResult<Bound<'py, PyAny>> {
    let (own, info) = (reader.store().description(), reader.info());
    let fields = PyDict::new(py);
    fields.set_item("uuid", uuid(py, &own.uuid)?)?;
    fields.set_item("shards", own.shards)?;
    fields.set_item("kind", own.kind.name())?;
    forgetting(&fields, own.retention, info.store_time)?;
    fields.set_item("key_rules", key_rules(own.key_rules))?;
    fields.set_item("hash", hash(own.hash))?;
    fields.set_item("seed", own.seed.get())?;
    fields.set_item("slots_per_bucket", own.slots_per_bucket.get())?;
    fields.set_item("requested_false_positive_rate", own.requested_false_positive_rate)?;
    fields.set_item("capacity", own.capacity)?;
    fields.set_item("growth", growth(own.growth))?;
    fields.set_item("max_file_size", own.max_file_size)?;
    fields.set_item("max_false_positive_rate", own.max_false_positive_rate)?;
    fields.set_item("version", info.version)?;
    fields.set_item("files", info.files)?;
    fields.set_item("runs", info.runs)?;
    fields.set_item("pending", info.pending)?;
    fields.set_item("run_bytes", info.run_bytes)?;
    fields.set_item("entries", info.entries)?;
    fields.set_item("bytes", info.bytes)?;
    fields.set_item("bits_per_key", info.bits_per_key)?;
    fields.set_item("expected_false_positive_rate", info.expected_false_positive_rate)?;
    fields.set_item("highest_false_positive_rate", info.highest_false_positive_rate)?;
    made(py, "StoreInfo", &fields)
}

/// The outcome of a commit: `application` is that of its token, and `rejudged` keys were judged again.
pub(super) fn commit<'py>(
    py: Python<'py>,
    committed: &Committed,
    application: Option<&str>,
    rejudged: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    let (outcome, version, done) = match committed {
        Committed::New(version) => ("new", Some(version.number), None),
        Committed::Already(done) => ("already", Some(done.version), Some(done)),
        Committed::Unchanged => ("unchanged", None, None),
    };
    fields.set_item("outcome", outcome)?;
    fields.set_item("rejudged", rejudged)?;
    fields.set_item("version", version)?;
    let done = done.map(|done| token(py, application.unwrap_or_default(), done)).transpose()?;
    fields.set_item("token", done)?;
    made(py, "StoreCommit", &fields)
}

pub(super) fn compacted<'py>(py: Python<'py>, told: &Compacted) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("version", told.version)?;
    fields.set_item("folded", told.folded)?;
    fields.set_item("full", told.full)?;
    fields.set_item("bytes", told.bytes)?;
    made(py, "CompactReport", &fields)
}

pub(super) fn vacuumed<'py>(py: Python<'py>, told: &Vacuumed) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("version", told.version)?;
    fields.set_item("versions", told.versions)?;
    fields.set_item("files", told.files)?;
    fields.set_item("bytes", told.bytes)?;
    fields.set_item("foreign", told.foreign)?;
    fields.set_item("uploads", told.uploads)?;
    fields.set_item("uploads_hidden", told.uploads_hidden)?;
    made(py, "VacuumReport", &fields)
}
