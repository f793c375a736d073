//! The options of the library, as keyword arguments.

use std::time::Duration;

use gowk::store::Vacuum;
use gowk::{Growth, Limits, OnDamage, Options, Reader, SlotsPerBucket, Verify};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::failure;

/// The value of one of a few words.
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

pub(crate) fn seconds(option: &str, given: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(given).map_err(|_| {
        PyValueError::new_err(format!("{option} is {given} seconds, but must be a finite number, 0 or more"))
    })
}

/// A span of time: a `timedelta`, or seconds.
#[derive(FromPyObject)]
pub(crate) enum Span {
    Delta(Duration),
    Seconds(f64),
}

impl Span {
    pub(crate) fn of(self, option: &str) -> PyResult<Duration> {
        match self {
            Self::Delta(span) => Ok(span),
            Self::Seconds(given) => seconds(option, given),
        }
    }
}

/// The options that readers and writers share.
pub(crate) fn common(
    options: Options,
    threads: usize,
    wait_for: f64,
    verify_when: &str,
) -> PyResult<Options> {
    if threads == 0 {
        return Err(PyValueError::new_err("threads is 0, but must be at least 1"));
    }
    Ok(options.threads(threads).wait(seconds("wait", wait_for)?).verify(verify(verify_when)?))
}

/// How long keys are kept.
#[derive(Clone, Copy, Default)]
pub(crate) struct Forgetting {
    after: Option<Duration>,
    within: Option<Duration>,
    refresh: bool,
}

impl Forgetting {
    pub(crate) fn new(after: Option<Span>, within: Option<Span>, refresh: bool) -> PyResult<Self> {
        if after.is_none() && (within.is_some() || refresh) {
            let given = if refresh { "refresh" } else { "forget_within" };
            return Err(PyValueError::new_err(format!("{given} is given without forget_after")));
        }
        let after = after.map(|span| span.of("forget_after")).transpose()?;
        let within = within.map(|span| span.of("forget_within")).transpose()?;
        Ok(Self { after, within, refresh })
    }

    fn add_to(self, options: Options) -> Options {
        let refresh = self.refresh;
        let options = self
            .after
            .into_iter()
            .fold(options, |options, after| options.forget_after(after).refresh(refresh));
        self.within.into_iter().fold(options, Options::forget_within)
    }
}

/// The options that are fixed at the creation of a filter or a store.
pub(crate) struct Creation<'a> {
    pub(crate) counting: bool,
    pub(crate) forgetting: Forgetting,
    pub(crate) keep_newest: Option<u64>,
    pub(crate) capacity: Option<u64>,
    pub(crate) false_positive_rate: Option<f64>,
    pub(crate) slots_per_bucket: Option<u32>,
    pub(crate) seed: Option<u64>,
    pub(crate) growth: Option<&'a str>,
    pub(crate) max_file_size: Option<u64>,
    pub(crate) max_false_positive_rate: Option<f64>,
    /// The versions to keep and the grace, if commits to the store vacuum.
    pub(crate) vacuum: Option<(u64, Duration)>,
}

/// The value of [`Creation::vacuum`] for these arguments of a call.
pub(crate) fn vacuum_of(keep: Option<u64>, grace: Option<Span>) -> PyResult<Option<(u64, Duration)>> {
    if keep.is_none() && grace.is_none() {
        return Ok(None);
    }
    let usual = Vacuum::default();
    let grace = grace.map(|span| span.of("grace")).transpose()?;
    Ok(Some((keep.unwrap_or(usual.keep), grace.unwrap_or(usual.grace))))
}

impl Creation<'_> {
    pub(crate) fn is_any_given(&self) -> bool {
        let numbers = [self.capacity, self.keep_newest, self.seed, self.max_file_size];
        let rates = [self.false_positive_rate, self.max_false_positive_rate];
        self.counting
            || self.forgetting.after.is_some()
            || numbers.iter().any(Option::is_some)
            || rates.iter().any(Option::is_some)
            || self.slots_per_bucket.is_some()
            || self.growth.is_some()
    }

    pub(crate) fn add_to(&self, options: Options) -> PyResult<Options> {
        if self.counting && self.forgetting.after.is_some() {
            return Err(PyValueError::new_err(
                "counting and forget_after are given, but a filter has one kind",
            ));
        }
        let options = if self.counting { options.counting() } else { options };
        let options = self.forgetting.add_to(options);
        let options = self.keep_newest.into_iter().fold(options, Options::keep_newest);
        let options = self.capacity.into_iter().fold(options, Options::capacity);
        let options = self.false_positive_rate.into_iter().fold(options, Options::false_positive_rate);
        let options = match self.slots_per_bucket {
            Some(number) => options.slots_per_bucket(slots(number)?),
            None => options,
        };
        let options = self.seed.into_iter().fold(options, Options::seed);
        let options =
            self.vacuum.into_iter().fold(options, |options, (keep, grace)| options.auto_vacuum(keep, grace));
        let options = match self.growth {
            Some(word) => options.growth(growth(word)?),
            None => options,
        };
        let options = self.max_file_size.into_iter().fold(options, Options::max_file_size);
        Ok(self.max_false_positive_rate.into_iter().fold(options, Options::max_false_positive_rate))
    }
}

/// The options of another filter, if one is given.
pub(crate) fn like(py: Python<'_>, other: Option<&Reader>) -> PyResult<Options> {
    other.map_or(Ok(Options::new()), |other| failure::done(py, Options::like(other)))
}

/// All items of a sequence, such as files. Memory grows with the items, not with the length that the sequence claims:
/// `range(10**12)` also claims one.
pub(crate) fn several<'py, T>(
    name: &str,
    things: &Bound<'py, PyAny>,
    mut each: impl FnMut(Bound<'py, PyAny>) -> PyResult<T>,
) -> PyResult<Vec<T>> {
    if things.is_instance_of::<PyString>() || things.is_instance_of::<PyBytes>() {
        let kind = things.get_type().name()?;
        return Err(PyTypeError::new_err(format!("{name} is one {kind}; give several, as in [{name}]")));
    }
    let mut all = Vec::new();
    for (index, thing) in things.try_iter()?.enumerate() {
        let thing = each(thing?);
        all.push(thing.map_err(|error| match error.is_instance_of::<PyTypeError>(things.py()) {
            true => PyTypeError::new_err(format!("{name}[{index}]: {}", error.value(things.py()))),
            false => error,
        })?);
    }
    Ok(all)
}

/// From a `gowk.Limits`.
pub(crate) fn limits(given: &Bound<'_, PyAny>) -> PyResult<Limits> {
    Ok(Limits {
        growth: growth(&given.getattr("growth")?.extract::<String>()?)?,
        max_file_size: given.getattr("max_file_size")?.extract()?,
        max_false_positive_rate: given.getattr("max_false_positive_rate")?.extract()?,
    })
}
