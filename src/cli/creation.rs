//! The options that shape a new filter.

use std::path::Path;

use clap::{Args, ValueEnum};
use gowk::{Error, Options, SlotsPerBucket};

use super::failure::Failure;
use super::quantity;

#[derive(Args)]
pub(super) struct Shape {
    /// Chance that a key is found that was never inserted, in a filter that is full and has not doubled yet; above
    /// 0, below 1 [default: 0.001]
    #[arg(long, value_name = "P")]
    false_positive_rate: Option<f64>,

    /// Slots per bucket, 2 to 7, in place of a rate: the fewer they are, the more bits each has to tell keys apart
    #[arg(long, value_name = "N", conflicts_with = "false_positive_rate", value_parser = slots)]
    slots_per_bucket: Option<SlotsPerBucket>,

    /// Seed of the hash [default: random, which is best if others choose the keys]
    #[arg(long, value_name = "S", value_parser = quantity::count)]
    seed: Option<u64>,

    /// Whether the filter doubles itself when it is full
    #[arg(long, value_enum, default_value_t)]
    growth: Growth,

    /// Bytes that the file may grow to; K, M, G and T mean powers of 1024 [default: no limit]
    #[arg(long, value_name = "BYTES", value_parser = quantity::size)]
    max_file_size: Option<u64>,

    /// Expected false-positive rate that the filter may grow to; above 0, below 1 [default: no limit]
    #[arg(long, value_name = "P")]
    max_false_positive_rate: Option<f64>,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Growth {
    #[default]
    Auto,
    Never,
}

fn slots(text: &str) -> Result<SlotsPerBucket, String> {
    let slots = text.parse().ok().and_then(SlotsPerBucket::new);
    slots.ok_or_else(|| "must be a whole number from 2 to 7".to_owned())
}

impl Shape {
    /// The names of all of them.
    pub(super) const ARGUMENTS: [&str; 6] = [
        "false_positive_rate",
        "slots_per_bucket",
        "seed",
        "growth",
        "max_file_size",
        "max_false_positive_rate",
    ];

    pub(super) fn options(&self, capacity: u64) -> Options {
        let growth = match self.growth {
            Growth::Auto => gowk::Growth::Auto,
            Growth::Never => gowk::Growth::Never,
        };
        let mut options = Options::new().capacity(capacity).growth(growth);
        if let Some(rate) = self.false_positive_rate {
            options = options.false_positive_rate(rate);
        }
        if let Some(slots) = self.slots_per_bucket {
            options = options.slots_per_bucket(slots);
        }
        if let Some(seed) = self.seed {
            options = options.seed(seed);
        }
        if let Some(bytes) = self.max_file_size {
            options = options.max_file_size(bytes);
        }
        if let Some(rate) = self.max_false_positive_rate {
            options = options.max_false_positive_rate(rate);
        }
        options
    }
}

/// The failure to open or create the filter, with its name where the options were refused.
pub(super) fn refused(file: &Path, error: Error) -> Failure {
    match error {
        error @ Error::Option { .. } => Failure::Creation { file: file.to_owned(), error },
        error => error.into(),
    }
}
