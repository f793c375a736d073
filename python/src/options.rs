//! The options of the library, as keyword arguments.

use std::time::Duration;

use gowk::{Growth, OnDamage, Options, SlotsPerBucket, Verify};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// One of a few words.
fn word<T: Copy>(option: &str, given: &str, words: &[(&str, T)]) -> PyResult<T> {
    let found = words.iter().find(|(word, _)| *word == given);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        PyValueError::new_err(format!("{option} is {given:?}, but must be {}", words.join(" or ")))
    })
}

pub(crate) fn verify(given: &str) -> PyResult<Verify> {
    let words = [("first_touch", Verify::FirstTouch), ("eager", Verify::Eager), ("never", Verify::Never)];
    word("verify", given, &words)
}

pub(crate) fn on_damage(given: &str) -> PyResult<OnDamage> {
    word("on_damage", given, &[("error", OnDamage::Error), ("present", OnDamage::Present)])
}

pub(crate) fn growth(given: &str) -> PyResult<Growth> {
    word("growth", given, &[("auto", Growth::Auto), ("never", Growth::Never)])
}

pub(crate) fn slots(given: u32) -> PyResult<SlotsPerBucket> {
    SlotsPerBucket::new(given)
        .ok_or_else(|| PyValueError::new_err(format!("slots_per_bucket is {given}, but must be 2 to 7")))
}

pub(crate) fn wait(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        PyValueError::new_err(format!("wait is {seconds} seconds, but must be a finite number, 0 or more"))
    })
}

/// What readers and writers share.
pub(crate) fn common(
    options: Options,
    threads: usize,
    wait_for: f64,
    verify_when: &str,
) -> PyResult<Options> {
    if threads == 0 {
        return Err(PyValueError::new_err("threads is 0, but must be at least 1"));
    }
    Ok(options.threads(threads).wait(wait(wait_for)?).verify(verify(verify_when)?))
}
