//! Keys with the times at which they were seen, or with lifetimes, for a forgetting filter or store.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gowk::{KeyHash, Seen, store};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::feed::Stopped;
use crate::owned::Owned;
use crate::process::Calling;
use crate::{array_of, failure, info};

/// A filter or update that keeps keys for a time.
pub(crate) trait InTime:
    gowk::Batches<Error: Into<Stopped> + Into<store::Error> + Send> + Send
{
    fn insert_each_at(
        &mut self,
        keys: &[KeyHash],
        times: &[SystemTime],
        told: &mut dyn FnMut(usize, Seen),
    ) -> Result<Vec<(usize, gowk::Error)>, Self::Error>;

    fn insert_each_for(
        &mut self,
        keys: &[KeyHash],
        lifetimes: &[Duration],
        new: &mut dyn FnMut(usize),
    ) -> Result<Vec<(usize, gowk::Error)>, Self::Error>;
}

impl InTime for gowk::Writer {
    fn insert_each_at(
        &mut self,
        keys: &[KeyHash],
        times: &[SystemTime],
        told: &mut dyn FnMut(usize, Seen),
    ) -> gowk::Result<Vec<(usize, gowk::Error)>> {
        gowk::Writer::insert_each_at(self, keys, times, told)
    }

    fn insert_each_for(
        &mut self,
        keys: &[KeyHash],
        lifetimes: &[Duration],
        new: &mut dyn FnMut(usize),
    ) -> gowk::Result<Vec<(usize, gowk::Error)>> {
        gowk::Writer::insert_each_for(self, keys, lifetimes, new)
    }
}

impl InTime for store::Update {
    fn insert_each_at(
        &mut self,
        keys: &[KeyHash],
        times: &[SystemTime],
        told: &mut dyn FnMut(usize, Seen),
    ) -> store::Result<Vec<(usize, gowk::Error)>> {
        store::Update::insert_each_at(self, keys, times, told)
    }

    fn insert_each_for(
        &mut self,
        keys: &[KeyHash],
        lifetimes: &[Duration],
        new: &mut dyn FnMut(usize),
    ) -> store::Result<Vec<(usize, gowk::Error)>> {
        store::Update::insert_each_for(self, keys, lifetimes, new)
    }
}

/// The times that a caller passes, as `gowk._times` understands them.
fn times_of(times: &Bound<'_, PyAny>) -> PyResult<Vec<SystemTime>> {
    let py = times.py();
    let _calling = Calling::begin(py);
    let bytes = py.import("gowk._times")?.getattr("milliseconds")?.call1((times,))?;
    let (all, _) = bytes.cast::<PyBytes>()?.as_bytes().as_chunks::<8>();
    // A time before 1970 counts as 1970.
    let time = |bytes: &[u8; 8]| UNIX_EPOCH + Duration::from_millis(i64::from_le_bytes(*bytes).max(0) as u64);
    Ok(all.iter().map(time).collect())
}

/// One time that a caller passes.
pub(crate) fn time_of(time: &Bound<'_, PyAny>) -> PyResult<SystemTime> {
    let times = times_of(PyList::new(time.py(), [time])?.as_any())?;
    Ok(times.first().copied().unwrap_or(UNIX_EPOCH))
}

/// The lifetimes that a caller passes, one for each key, or one for all.
fn lifetimes_of(lifetimes: &Bound<'_, PyAny>, keys: usize) -> PyResult<Vec<Duration>> {
    let py = lifetimes.py();
    let _calling = Calling::begin(py);
    let bytes = py.import("gowk._times")?.getattr("lifetimes")?.call1((lifetimes, keys))?;
    let (all, _) = bytes.cast::<PyBytes>()?.as_bytes().as_chunks::<8>();
    Ok(all.iter().map(|bytes| Duration::from_millis(u64::from_le_bytes(*bytes))).collect())
}

/// The keys that are not null, each with its time.
struct Given<T> {
    /// The row of each key.
    rows: Vec<usize>,
    keys: Vec<KeyHash>,
    times: Vec<T>,
    /// How many rows there are.
    count: usize,
}

fn hashes<T: InTime>(owned: &Owned<T>, keys: &Bound<'_, PyAny>) -> PyResult<Vec<Option<KeyHash>>> {
    owned.look_up(keys, |to, keys, hashes| {
        for key in keys {
            hashes.push(Some(to.hash(*key).map_err(Into::<Stopped>::into)?));
        }
        Ok(())
    })
}

/// The keys of these hashes, each with its time; `what` is the word for a time in messages.
fn given<V>(hashes: Vec<Option<KeyHash>>, times: Vec<V>, what: &str) -> PyResult<Given<V>> {
    let count = hashes.len();
    if count != times.len() {
        let message = format!("{count} keys, but {} {what}s; give one {what} for each key", times.len());
        return Err(PyValueError::new_err(message));
    }
    let rows = hashes.into_iter().zip(times).enumerate();
    let given = rows.filter_map(|(row, (hash, time))| Some((row, (hash?, time))));
    let (rows, (keys, times)) = given.unzip();
    Ok(Given { rows, keys, times, count })
}

/// An array that says which keys are new. Raises if some were refused.
fn complete<'py>(
    py: Python<'py>,
    refused: Vec<(usize, gowk::Error)>,
    rows: &[usize],
    new: Vec<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    let (number, keys) = (refused.len(), new.len());
    let Some((at, cause)) = refused.into_iter().next() else { return Ok(array_of(py, new)) };
    let raised = failure::raised(py, &cause.into());
    let value = raised.value(py);
    value.setattr("taken", keys)?;
    value.setattr("index", rows.get(at))?;
    value.setattr("refused", number)?;
    value.setattr("mask", array_of(py, new))?;
    Err(raised)
}

/// Inserts keys that are kept for these lifetimes. Returns an array that says which are new.
pub(crate) fn insert_for<'py, T: InTime>(
    owned: &Owned<T>,
    keys: &Bound<'py, PyAny>,
    lifetimes: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = keys.py();
    let hashes = hashes(owned, keys)?;
    let lifetimes = lifetimes_of(lifetimes, hashes.len())?;
    let Given { rows, keys: all, times, count } = given(hashes, lifetimes, "lifetime")?;
    let mut new = vec![false; count];
    let refused = owned.slowly(py, |to| {
        to.insert_each_for(&all, &times, &mut |at| rows.get(at).into_iter().for_each(|row| new[*row] = true))
    })?;
    complete(py, refused, &rows, new)
}

/// Inserts keys that were seen at these times. Returns a `gowk.InsertedAt`.
pub(crate) fn insert_at<'py, T: InTime>(
    owned: &Owned<T>,
    keys: &Bound<'py, PyAny>,
    times: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = keys.py();
    let Given { rows, keys: all, times, count } = given(hashes(owned, keys)?, times_of(times)?, "time")?;
    let (mut new, mut late, mut early) = (vec![false; count], Vec::new(), Vec::new());
    let refused = owned.slowly(py, |to| {
        to.insert_each_at(&all, &times, &mut |at, seen| match (seen, rows.get(at)) {
            (Seen::New, Some(row)) => new[*row] = true,
            (Seen::Late, Some(row)) => late.push(*row as i64),
            (Seen::Early, Some(row)) => early.push(*row as i64),
            _ => {}
        })
    })?;
    let new = complete(py, refused, &rows, new)?;
    let fields = PyDict::new(py);
    fields.set_item("new", new)?;
    fields.set_item("late", array_of(py, late))?;
    fields.set_item("early", array_of(py, early))?;
    info::made(py, "InsertedAt", &fields)
}
