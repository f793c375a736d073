//! The options that shape a new filter.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use clap::{Args, ValueEnum};
use gowk::store::Store;
use gowk::{Error, Info, Options, SlotsPerBucket};

use super::failure::Failure;
use super::output;
use super::quantity;

/// The false-positive rate of a filter that `dedup` creates. A false positive loses a new row; one more byte a key
/// costs less.
pub(super) const DEDUP_RATE: Option<f64> = Some(1e-5);
/// The same for a forgetting filter, in which 1e-5 would take two more bytes a key.
pub(super) const FORGETTING_RATE: Option<f64> = Some(1e-4);

#[derive(Args)]
pub(super) struct Shape {
    /// Store every copy of a key, so that copies can be counted and removed [default: a set, which stores each key once,
    /// for good]
    #[arg(long)]
    counting: bool,

    /// Forget each key: keep it at least this long after it was first seen, as in 30d or 12h [default: for good]
    #[arg(long, value_name = "TIME", value_parser = quantity::duration, conflicts_with = "counting")]
    forget_after: Option<Duration>,

    /// Keep no key this much longer than that; the shorter, the more room a key takes [default: half of it]
    #[arg(long, value_name = "TIME", value_parser = quantity::duration, requires = "forget_after")]
    forget_within: Option<Duration>,

    /// Keep a key that long after it was last seen, and not after it was first seen
    #[arg(long, requires = "forget_after")]
    refresh: bool,

    /// Keep so many of the newest keys, however fast they come, and forget older ones; the file never grows [default:
    /// all keys]
    #[arg(long, value_name = "KEYS", value_parser = quantity::count)]
    #[arg(conflicts_with_all = ["counting", "forget_after", "forget_within", "refresh"])]
    keep_newest: Option<u64>,

    /// Chance that a key is found that was never inserted, in a filter that is full and has not doubled yet; above
    /// 0, below 1, as in 1e-3 or 0.1% [default: 0.001; where `dedup` creates the filter 1e-5, or 1e-4 if it forgets]
    #[arg(long, value_name = "P", value_parser = quantity::rate)]
    false_positive_rate: Option<f64>,

    /// Slots per bucket, 2 to 7, in place of a rate: the fewer they are, the more bits each has to tell keys apart
    #[arg(long, value_name = "N", conflicts_with = "false_positive_rate", value_parser = slots)]
    slots_per_bucket: Option<SlotsPerBucket>,

    /// Seed of the hash [default: random, which is best if others choose the keys]
    #[arg(long, value_name = "S", value_parser = quantity::number)]
    seed: Option<u64>,

    /// Whether the filter doubles itself when it is full [default: auto]
    #[arg(long, value_enum)]
    growth: Option<Growth>,

    /// Bytes that the file may grow to; K, M, G and T mean powers of 1024 [default: no limit]
    #[arg(long, value_name = "BYTES", value_parser = quantity::size)]
    max_file_size: Option<u64>,

    /// Expected false-positive rate that the filter may grow to; above 0, below 1 [default: no limit]
    #[arg(long, value_name = "P", value_parser = quantity::rate)]
    max_false_positive_rate: Option<f64>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Growth {
    Auto,
    Never,
}

/// The options with which an existing filter or store was created.
struct Existing {
    capacity: u64,
    requested_false_positive_rate: Option<f64>,
    slots_per_bucket: SlotsPerBucket,
    seed: u64,
    growth: gowk::Growth,
    max_file_size: Option<u64>,
    max_false_positive_rate: Option<f64>,
}

macro_rules! existing {
    ($from:expr) => {
        Existing {
            capacity: $from.capacity,
            requested_false_positive_rate: $from.requested_false_positive_rate,
            slots_per_bucket: $from.slots_per_bucket,
            seed: $from.seed.get(),
            growth: $from.growth,
            max_file_size: $from.max_file_size,
            max_false_positive_rate: $from.max_false_positive_rate,
        }
    };
}

impl From<Growth> for gowk::Growth {
    fn from(growth: Growth) -> Self {
        match growth {
            Growth::Auto => Self::Auto,
            Growth::Never => Self::Never,
        }
    }
}

fn slots(text: &str) -> Result<SlotsPerBucket, String> {
    let slots = text.parse().ok().and_then(SlotsPerBucket::new);
    slots.ok_or_else(|| "must be a whole number from 2 to 7".to_owned())
}

/// A limit, in words.
fn limit<T: Display>(limit: Option<T>) -> String {
    limit.map_or_else(|| "without limit".to_owned(), |limit| limit.to_string())
}

impl Shape {
    /// The names of all these arguments.
    pub(super) const ARGUMENTS: [&str; 11] = [
        "counting",
        "forget_after",
        "forget_within",
        "refresh",
        "keep_newest",
        "false_positive_rate",
        "slots_per_bucket",
        "seed",
        "growth",
        "max_file_size",
        "max_false_positive_rate",
    ];

    /// Notes which of these options have no effect, because the filter exists and was created with others.
    pub(super) fn note_ignored(&self, capacity: Option<u64>, file: &Path, filter: &Info) {
        self.note(capacity, file, &existing!(filter), "; `gowk set` changes growth and limits");
    }

    /// The same for a store. Fails if the store is not of the kind asked for.
    pub(super) fn note_ignored_by_store(&self, capacity: Option<u64>, store: &Path) -> Result<(), Failure> {
        let opened = Store::open_with(store, &self.of_kind(Options::new()))?;
        self.note(capacity, store, &existing!(opened.description()), "");
        Ok(())
    }

    fn note(&self, capacity: Option<u64>, file: &Path, filter: &Existing, remedy: &str) {
        let mut ignored = Vec::new();
        let mut compare = |option: &str, agrees: Option<bool>, is: &dyn Fn() -> String| {
            if agrees == Some(false) {
                ignored.push(format!("--{option} is {}", is()));
            }
        };
        let rate = filter.requested_false_positive_rate;
        let growth = self.growth.map(|growth| gowk::Growth::from(growth) == filter.growth);
        let (bytes, max_rate) = (filter.max_file_size, filter.max_false_positive_rate);
        let slots = filter.slots_per_bucket;
        compare("capacity", capacity.map(|keys| keys == filter.capacity), &|| filter.capacity.to_string());
        compare("false-positive-rate", self.false_positive_rate.map(|asked| Some(asked) == rate), &|| {
            rate.unwrap_or_else(|| slots.false_positive_rate()).to_string()
        });
        compare("slots-per-bucket", self.slots_per_bucket.map(|asked| asked == slots), &|| {
            slots.get().to_string()
        });
        compare("seed", self.seed.map(|seed| seed == filter.seed), &|| "another".to_owned());
        compare("growth", growth, &|| {
            if filter.growth == gowk::Growth::Auto { "auto" } else { "never" }.to_owned()
        });
        compare("max-file-size", self.max_file_size.map(|asked| Some(asked) == bytes), &|| limit(bytes));
        let asked = self.max_false_positive_rate;
        compare("max-false-positive-rate", asked.map(|asked| Some(asked) == max_rate), &|| limit(max_rate));
        if !ignored.is_empty() {
            let (file, ignored) = (file.display(), ignored.join(", "));
            output::note(format_args!(
                "{file}: exists already, and these options have no effect on it: {ignored} there{remedy}"
            ));
        }
    }

    /// The false-positive rate that was asked for.
    pub(super) fn rate(&self) -> Option<f64> {
        self.false_positive_rate
    }

    /// Whether a forgetting filter is asked for.
    pub(super) fn forgets(&self) -> bool {
        self.forget_after.is_some() || self.keep_newest.is_some()
    }

    /// [`Error::Newest`] if the newest keys are to be kept, which no store does.
    pub(super) fn check_for_store(&self, store: &Path) -> Result<(), Failure> {
        match self.keep_newest {
            Some(_) => Err(Error::Newest { path: store.to_owned(), op: "a store" }.into()),
            None => Ok(()),
        }
    }

    /// With --counting, --forget-after or --keep-newest, asks for a filter or store of that kind, whether it exists or is created.
    pub(super) fn of_kind(&self, options: Options) -> Options {
        let mut options = if self.counting { options.counting() } else { options };
        if let Some(time) = self.forget_after {
            options = options.forget_after(time).refresh(self.refresh);
        }
        if let Some(time) = self.forget_within {
            options = options.forget_within(time);
        }
        self.keep_newest.into_iter().fold(options, Options::keep_newest)
    }

    pub(super) fn options(&self, capacity: u64) -> Options {
        self.apply(Options::new(), capacity, None)
    }

    /// Asks for a filter of this shape; `rate` is the false-positive rate if none is given.
    pub(super) fn apply(&self, options: Options, capacity: u64, rate: Option<f64>) -> Options {
        let growth = self.growth.unwrap_or(Growth::Auto).into();
        let capacity = Some(capacity).filter(|_| self.keep_newest.is_none());
        let options = self.of_kind(options).growth(growth);
        let options = capacity.into_iter().fold(options, Options::capacity);
        let rate = self.false_positive_rate.or(rate.filter(|_| self.slots_per_bucket.is_none()));
        let options = rate.into_iter().fold(options, Options::false_positive_rate);
        let options = self.slots_per_bucket.into_iter().fold(options, Options::slots_per_bucket);
        let options = self.seed.into_iter().fold(options, Options::seed);
        let options = self.max_file_size.into_iter().fold(options, Options::max_file_size);
        self.max_false_positive_rate.into_iter().fold(options, Options::max_false_positive_rate)
    }
}

/// The failure to open or create a filter or store. An error about options gets the name of the file.
pub(super) fn refused(file: &Path, error: impl Into<Failure>) -> Failure {
    match error.into() {
        Failure::Filter(error @ Error::Option { .. }) => Failure::Creation { file: file.to_owned(), error },
        failure => failure,
    }
}
