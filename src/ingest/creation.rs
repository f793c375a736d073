//! The options with which a job creates its filter if it does not exist.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer};
use toml::Spanned;

use crate::{Growth, Kind, Options, Seed, SlotsPerBucket};

#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Creation {
    pub(super) path: PathBuf,
    /// The kind, if given; an existing filter must be of this kind.
    kind: Option<RawKind>,
    capacity: Option<u64>,
    false_positive_rate: Option<f64>,
    pub(super) slots_per_bucket: Option<Spanned<u32>>,
    #[serde(default, deserialize_with = "seed")]
    seed: Option<Seed>,
    #[serde(default)]
    growth: RawGrowth,
    max_file_size: Option<u64>,
    max_false_positive_rate: Option<f64>,
}

#[derive(Clone, Copy, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
enum RawKind {
    Set,
    Counting,
}

#[derive(Clone, Copy, Default, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
enum RawGrowth {
    #[default]
    Auto,
    Never,
}

fn seed<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Seed>, D::Error> {
    Ok(Some(Seed::new(u64::deserialize(from)?)))
}

impl Creation {
    /// The kind that the job asks for, if any.
    pub(super) fn kind(&self) -> Option<Kind> {
        self.kind.map(|kind| match kind {
            RawKind::Set => Kind::Set,
            RawKind::Counting => Kind::Counting,
        })
    }

    /// Adds the options for creating the filter to those for opening it.
    pub(super) fn apply(&self, mut options: Options) -> Options {
        options = options.growth(match self.growth {
            RawGrowth::Auto => Growth::Auto,
            RawGrowth::Never => Growth::Never,
        });
        if let Some(keys) = self.capacity {
            options = options.capacity(keys);
        }
        if let Some(rate) = self.false_positive_rate {
            options = options.false_positive_rate(rate);
        }
        if let Some(slots) =
            self.slots_per_bucket.as_ref().and_then(|slots| SlotsPerBucket::new(*slots.get_ref()))
        {
            options = options.slots_per_bucket(slots);
        }
        if let Some(seed) = self.seed {
            options = options.seed(seed.get());
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
