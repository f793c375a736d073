//! From the descriptions of the library to the dataclasses of `gowk._info`.

use std::time::{Duration, UNIX_EPOCH};

use gowk::store::Requests;
use gowk::{
    Case, DamagedPage, Expiry, Forecast, Growth, HashKind, Info, KeyRules, Limits, Metadata, Repair, Report,
    Retention,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::process::Calling;

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("gowk._info")?.getattr(name)
}

/// An object of a dataclass, with these fields.
pub(crate) fn made<'py>(
    py: Python<'py>,
    name: &str,
    fields: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let _calling = Calling::begin(py);
    class(py, name)?.call((), Some(fields))
}

pub(crate) const fn growth(growth: Growth) -> &'static str {
    match growth {
        Growth::Never => "never",
        Growth::Auto => "auto",
    }
}

/// A read-only mapping.
pub(crate) fn fixed<'py>(entries: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    entries.py().import("types")?.getattr("MappingProxyType")?.call1((entries,))
}

pub(crate) fn metadata<'py>(py: Python<'py>, metadata: &Metadata) -> PyResult<Bound<'py, PyDict>> {
    let entries = PyDict::new(py);
    for (name, value) in metadata.iter() {
        entries.set_item(name, PyBytes::new(py, value))?;
    }
    Ok(entries)
}

pub(crate) fn requests<'py>(py: Python<'py>, requests: &Requests) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("put", requests.put)?;
    fields.set_item("get", requests.get)?;
    fields.set_item("head", requests.head)?;
    fields.set_item("list", requests.list)?;
    fields.set_item("delete", requests.delete)?;
    fields.set_item("post", requests.post)?;
    fields.set_item("failed", requests.failed)?;
    made(py, "Requests", &fields)
}

pub(crate) fn hash(hash: HashKind) -> &'static str {
    if hash == HashKind::Xxh3 { "xxh3" } else { "caller" }
}

/// The form in the file: `trim ignore-case=ascii`; empty if keys are not changed.
pub(crate) fn key_rules(rules: KeyRules) -> String {
    let trim = rules.trim.then_some("trim");
    let case = rules.ignore_case.map(|case| match case {
        Case::Ascii => "ignore-case=ascii",
        Case::Unicode => "ignore-case=unicode",
    });
    trim.into_iter().chain(case).collect::<Vec<_>>().join(" ")
}

pub(crate) fn uuid<'py>(py: Python<'py>, bytes: &[u8; 16]) -> PyResult<Bound<'py, PyAny>> {
    let _calling = Calling::begin(py);
    py.import("uuid")?.getattr("UUID")?.call1((py.None(), PyBytes::new(py, bytes)))
}

pub(crate) fn limits<'py>(py: Python<'py>, limits: &Limits) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("growth", growth(limits.growth))?;
    fields.set_item("max_file_size", limits.max_file_size)?;
    fields.set_item("max_false_positive_rate", limits.max_false_positive_rate)?;
    made(py, "Limits", &fields)
}

/// How a filter or store forgets, and its current time, in milliseconds.
pub(crate) fn forgetting(
    fields: &Bound<'_, PyDict>,
    retention: Option<Retention>,
    time: Option<u64>,
) -> PyResult<()> {
    fields.set_item("forget_after", retention.map(|of| Duration::from_millis(of.forget_after)))?;
    fields.set_item("forget_within", retention.map(|of| Duration::from_millis(of.forget_within)))?;
    fields.set_item("refresh", retention.is_some_and(|of| of.refresh))?;
    fields.set_item("time", time.map(|time| UNIX_EPOCH + Duration::from_millis(time)))
}

pub(crate) fn info<'py>(py: Python<'py>, info: &Info) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("format", info.format)?;
    fields.set_item("uuid", uuid(py, &info.uuid)?)?;
    fields.set_item("kind", info.kind.name())?;
    forgetting(&fields, info.retention, info.time)?;
    fields.set_item("keep_newest", info.keep_newest.map(|newest| (newest.at_least, newest.at_most)))?;
    fields.set_item("key_rules", info.key_rules.map(key_rules))?;
    fields.set_item("hash", hash(info.hash))?;
    fields.set_item("seed", info.seed.get())?;
    fields.set_item("slots_per_bucket", info.slots_per_bucket.get())?;
    fields.set_item("shards", info.shards)?;
    fields.set_item("shard", info.shard)?;
    fields.set_item("base_regions", info.base_regions)?;
    fields.set_item("generation", info.generation)?;
    fields.set_item("regions", info.regions)?;
    fields.set_item("capacity", info.capacity)?;
    fields.set_item("requested_false_positive_rate", info.requested_false_positive_rate)?;
    fields.set_item("growth", growth(info.growth))?;
    fields.set_item("max_file_size", info.max_file_size)?;
    fields.set_item("max_false_positive_rate", info.max_false_positive_rate)?;
    fields.set_item("slots", info.slots)?;
    fields.set_item("entries", info.entries)?;
    fields.set_item("digits", info.digits)?;
    fields.set_item("saturated", info.saturated)?;
    fields.set_item("copies", info.copies)?;
    fields.set_item("inserted", info.inserted)?;
    fields.set_item("removed", info.removed)?;
    fields.set_item("entries_by_tail", PyTuple::new(py, &info.entries_by_tail)?)?;
    fields.set_item("quarantined_buckets", info.quarantined_buckets)?;
    fields.set_item("load", info.load)?;
    fields.set_item("bits_per_key", info.bits_per_key)?;
    fields.set_item("expected_false_positive_rate", info.expected_false_positive_rate)?;
    let forecast: PyResult<Vec<_>> = info.forecast.iter().map(|one| self::forecast(py, one)).collect();
    fields.set_item("forecast", PyTuple::new(py, forecast?)?)?;
    let shrunk = info.shrunk.as_ref().map(|one| self::forecast(py, one)).transpose()?;
    fields.set_item("shrunk", shrunk)?;
    fields.set_item("commit", info.commit)?;
    fields.set_item("file_length", info.file_length)?;
    fields.set_item("journal_length", info.journal_length)?;
    made(py, "Info", &fields)
}

fn forecast<'py>(py: Python<'py>, forecast: &Forecast) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("generation", forecast.generation)?;
    fields.set_item("entries", forecast.entries)?;
    fields.set_item("expected_false_positive_rate", forecast.expected_false_positive_rate)?;
    fields.set_item("bits_per_key", forecast.bits_per_key)?;
    fields.set_item("void_entries", forecast.void_entries)?;
    fields.set_item("file_length", forecast.file_length)?;
    made(py, "Forecast", &fields)
}

fn pages<'py>(py: Python<'py>, pages: &[DamagedPage]) -> PyResult<Bound<'py, PyTuple>> {
    let pages: PyResult<Vec<_>> = pages
        .iter()
        .map(|page| {
            let fields = PyDict::new(py);
            fields.set_item("page", page.page)?;
            fields.set_item("region", page.region)?;
            made(py, "DamagedPage", &fields)
        })
        .collect();
    PyTuple::new(py, pages?)
}

fn expiry<'py>(py: Python<'py>, expiry: &Expiry) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("at", expiry.at)?;
    fields.set_item("entries", expiry.entries)?;
    made(py, "Expiry", &fields)
}

pub(crate) fn report<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("is_clean", report.is_clean())?;
    fields.set_item("pages", report.pages)?;
    fields.set_item("damaged", pages(py, &report.damaged)?)?;
    fields.set_item("malformed", pages(py, &report.malformed)?)?;
    fields.set_item("superblock_damaged", report.superblock_damaged)?;
    fields.set_item("counts_differ", report.counts_differ)?;
    fields.set_item("live_differs", report.live_differs)?;
    let expiries: PyResult<Vec<_>> = report.expiries.iter().map(|of| expiry(py, of)).collect();
    fields.set_item("expiries", PyTuple::new(py, expiries?)?)?;
    made(py, "Report", &fields)
}

pub(crate) fn repair<'py>(py: Python<'py>, repair: &Repair) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("is_empty", repair.is_empty())?;
    fields.set_item("quarantined", pages(py, &repair.quarantined)?)?;
    fields.set_item("marked", repair.marked)?;
    fields.set_item("superblock", repair.superblock)?;
    fields.set_item("live", repair.live)?;
    fields.set_item("recounted", repair.recounted)?;
    made(py, "Repair", &fields)
}
