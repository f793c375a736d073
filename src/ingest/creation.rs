//! The options with which a job creates its filter if it does not exist.

use std::path::PathBuf;

use serde::Deserialize;
use toml::Spanned;

use crate::{Growth, Kind, Options, Seed, SlotsPerBucket};

#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Creation {
    pub(super) path: PathBuf,
    /// The kind, if given; an existing filter must be of this kind.
    pub(super) kind: Option<Kind>,
    capacity: Option<u64>,
    false_positive_rate: Option<f64>,
    pub(super) slots_per_bucket: Option<Spanned<u32>>,
    seed: Option<Seed>,
    #[serde(default)]
    growth: Growth,
    max_file_size: Option<u64>,
    max_false_positive_rate: Option<f64>,
}

impl Creation {
    /// Adds the options for creating the filter to those for opening it.
    pub(super) fn apply(&self, options: Options) -> Options {
        let options = options.growth(self.growth);
        let options = self.capacity.into_iter().fold(options, Options::capacity);
        let options = self.false_positive_rate.into_iter().fold(options, Options::false_positive_rate);
        let slots = self.slots_per_bucket.as_ref().and_then(|slots| SlotsPerBucket::new(*slots.get_ref()));
        let options = slots.into_iter().fold(options, Options::slots_per_bucket);
        let options = self.seed.map(Seed::get).into_iter().fold(options, Options::seed);
        let options = self.max_file_size.into_iter().fold(options, Options::max_file_size);
        self.max_false_positive_rate.into_iter().fold(options, Options::max_false_positive_rate)
    }
}
