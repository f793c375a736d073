//! A job's options for creating its filter if it does not exist.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use gowk::{Growth, Kind, Options, Seed, SlotsPerBucket};

#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Creation {
    pub(super) path: PathBuf,
    /// The kind, if given. An existing filter must be of this kind.
    pub(super) kind: Option<Kind>,
    /// How long a forgetting filter keeps a key, as in `30d`. An existing filter must keep keys equally long.
    pub(super) forget_after: Option<String>,
    pub(super) forget_within: Option<String>,
    pub(super) refresh: Option<bool>,
    /// How many of the newest keys to keep. An existing filter must keep as many.
    pub(super) keep_newest: Option<u64>,
    pub(super) capacity: Option<u64>,
    false_positive_rate: Option<f64>,
    pub(super) slots_per_bucket: Option<u32>,
    seed: Option<Seed>,
    #[serde(default)]
    growth: Growth,
    max_file_size: Option<u64>,
    max_false_positive_rate: Option<f64>,
}

/// A span of time: a whole number, and `d`, `h`, `m` or `s`.
pub(super) fn span(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "d" => 86_400,
        "h" => 3600,
        "m" => 60,
        "s" => 1,
        _ => return None,
    };
    let number = number.bytes().all(|digit| digit.is_ascii_digit()).then(|| number.parse::<u64>().ok());
    number.flatten()?.checked_mul(seconds).map(Duration::from_secs)
}

impl Creation {
    /// Adds the options that an existing filter or store must agree with: its kind, and how long it keeps keys.
    pub(super) fn ask(&self, options: Options) -> Options {
        let of = |text: &Option<String>| text.as_deref().and_then(span);
        let options = self.kind.into_iter().fold(options, Options::kind);
        let options = of(&self.forget_after).into_iter().fold(options, Options::forget_after);
        let options = of(&self.forget_within).into_iter().fold(options, Options::forget_within);
        let options = self.refresh.into_iter().fold(options, Options::refresh);
        self.keep_newest.into_iter().fold(options, Options::keep_newest)
    }

    /// Adds the options for creating the filter to the options for opening it.
    pub(super) fn apply(&self, options: Options) -> Options {
        let options = options.growth(self.growth);
        let options = self.capacity.into_iter().fold(options, Options::capacity);
        let options = self.false_positive_rate.into_iter().fold(options, Options::false_positive_rate);
        let slots = self.slots_per_bucket.and_then(SlotsPerBucket::new);
        let options = slots.into_iter().fold(options, Options::slots_per_bucket);
        let options = self.seed.map(Seed::get).into_iter().fold(options, Options::seed);
        let options = self.max_file_size.into_iter().fold(options, Options::max_file_size);
        self.max_false_positive_rate.into_iter().fold(options, Options::max_false_positive_rate)
    }
}
