//! Keys with the times at which they were seen, into a forgetting filter or store.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gowk::{KeyHash, Seen, store};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::feed::Stopped;
use crate::owned::Owned;
use crate::process::Calling;
use crate::{array_of, failure, info};

/// What keeps keys for a time.
pub(crate) trait InTime:
    gowk::Batches<Error: Into<Stopped> + Into<store::Error> + Send> + Send
{
    fn insert_each_at(
        &mut self,
        keys: &[KeyHash],
        times: &[SystemTime],
        told: &mut dyn FnMut(usize, Seen),
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
}

/// The times that a caller gives, as `gowk._times` understands them.
fn times_of(times: &Bound<'_, PyAny>) -> PyResult<Vec<SystemTime>> {
    let py = times.py();
    let _calling = Calling::begin(py);
    let bytes = py.import("gowk._times")?.getattr("milliseconds")?.call1((times,))?;
    let (all, _) = bytes.cast::<PyBytes>()?.as_bytes().as_chunks::<8>();
    // A time before 1970 counts as 1970.
    let time = |bytes: &[u8; 8]| UNIX_EPOCH + Duration::from_millis(i64::from_le_bytes(*bytes).max(0) as u64);
    Ok(all.iter().map(time).collect())
}

/// One time that a caller gives.
pub(crate) fn time_of(time: &Bound<'_, PyAny>) -> PyResult<SystemTime> {
    let times = times_of(PyList::new(time.py(), [time])?.as_any())?;
    Ok(times.first().copied().unwrap_or(UNIX_EPOCH))
}

/// Inserts keys that were seen at these times; an object of `gowk.InsertedAt`.
pub(crate) fn insert_at<'py, T: InTime>(
    owned: &Owned<T>,
    keys: &Bound<'py, PyAny>,
    times: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = keys.py();
    let times = times_of(times)?;
    let hashes: Vec<Option<KeyHash>> = owned.look_up(keys, |to, keys, hashes| {
        for key in keys {
            hashes.push(Some(to.hash(*key).map_err(Into::<Stopped>::into)?));
        }
        Ok(())
    })?;
    if hashes.len() != times.len() {
        let message = format!("{} keys, but {} times; give one time for each key", hashes.len(), times.len());
        return Err(PyValueError::new_err(message));
    }
    let rows = hashes.iter().zip(times).enumerate();
    let given = rows.filter_map(|(row, (hash, time))| Some((row, (*hash)?, time)));
    let (rows, (all, times)): (Vec<usize>, (Vec<KeyHash>, Vec<SystemTime>)) =
        given.map(|(row, hash, time)| (row, (hash, time))).unzip();
    let (mut new, mut late, mut early) = (vec![false; hashes.len()], Vec::new(), Vec::new());
    let refused = owned.slowly(py, |to| {
        to.insert_each_at(&all, &times, &mut |at, seen| match (seen, rows.get(at)) {
            (Seen::New, Some(row)) => new[*row] = true,
            (Seen::Late, Some(row)) => late.push(*row as i64),
            (Seen::Early, Some(row)) => early.push(*row as i64),
            _ => {}
        })
    })?;
    let number = refused.len();
    if let Some((at, cause)) = refused.into_iter().next() {
        let raised = failure::raised(py, &cause.into());
        let value = raised.value(py);
        value.setattr("taken", hashes.len())?;
        value.setattr("index", rows.get(at))?;
        value.setattr("refused", number)?;
        value.setattr("mask", array_of(py, new))?;
        return Err(raised);
    }
    let fields = PyDict::new(py);
    fields.set_item("new", array_of(py, new))?;
    fields.set_item("late", array_of(py, late))?;
    fields.set_item("early", array_of(py, early))?;
    info::made(py, "InsertedAt", &fields)
}
