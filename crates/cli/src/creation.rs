//! The options that shape a new filter.

use std::path::Path;
use std::time::Duration;

use clap::{Args, Command, Id};
use gowk::store::Store;
use gowk::{Error, Growth, Info, Kind, Options, SlotsPerBucket};

use super::failure::Failure;
use super::output;
use super::quantity;

/// The false-positive rate of a filter that `dedup` creates. Each false positive loses a new row, which is worse than the
/// one more byte a key that this rate costs.
pub(super) const DEDUP_RATE: Option<f64> = Some(1e-5);
/// Like `DEDUP_RATE`, for a forgetting filter, where 1e-5 would cost two more bytes a key.
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

    /// Keep this many of the newest keys, however fast they come, and forget older keys; the file never grows [default:
    /// all keys]
    #[arg(long, value_name = "KEYS", value_parser = quantity::count)]
    #[arg(conflicts_with_all = ["counting", "forget_after", "forget_within", "refresh"])]
    keep_newest: Option<u64>,

    /// Chance that an absent key is found, in a full filter that has never doubled; above 0, below 1, as
    /// in 1e-3 or 0.1% [default: 0.001; where `dedup` creates the filter 1e-5, or 1e-4 if it forgets]
    #[arg(long, value_name = "P", value_parser = quantity::rate)]
    false_positive_rate: Option<f64>,

    /// Slots per bucket, 2 to 7, in place of a rate: the fewer slots, the more bits each has, and the lower the rate
    #[arg(long, value_name = "N", conflicts_with = "false_positive_rate", value_parser = slots)]
    slots_per_bucket: Option<SlotsPerBucket>,

    /// Seed of the hash [default: random, which is best if others choose the keys]
    #[arg(long, value_name = "S", value_parser = quantity::number)]
    seed: Option<u64>,

    /// Whether the filter doubles itself when it is full [default: auto]
    #[arg(long, value_parser = quantity::word_of(&GROWTH))]
    growth: Option<Growth>,

    /// Bytes that the file may grow to; K, M, G and T mean powers of 1024 [default: no limit]
    #[arg(long, value_name = "BYTES", value_parser = quantity::size)]
    max_file_size: Option<u64>,

    /// Rate that the filter may grow to, as expected of its slots; above 0, below 1 [default: no limit]
    #[arg(long, value_name = "P", value_parser = quantity::rate)]
    max_false_positive_rate: Option<f64>,
}

/// The option's words for whether a filter doubles itself.
pub(super) const GROWTH: [(&str, Growth); 2] = [("auto", Growth::Auto), ("never", Growth::Never)];

/// The creation options of an existing filter or store, and their values.
macro_rules! created_with {
    ($created:expr) => {{
        let slots = $created.slots_per_bucket;
        let of_kind = if $created.kind == Kind::Counting { 2.0 } else { 1.0 };
        let full = of_kind * slots.false_positive_rate();
        let rate = $created.requested_false_positive_rate.unwrap_or(full);
        let limit = |limit: Option<String>| limit.unwrap_or_else(|| "without limit".to_owned());
        [
            ("capacity", $created.capacity.to_string()),
            ("false-positive-rate", rate.to_string()),
            ("slots-per-bucket", slots.get().to_string()),
            ("seed", $created.seed.get().to_string()),
            ("growth", name_of($created.growth)),
            ("max-file-size", limit(text($created.max_file_size))),
            ("max-false-positive-rate", limit(text($created.max_false_positive_rate))),
        ]
    }};
}

fn name_of(growth: Growth) -> String {
    GROWTH.iter().filter(|(_, known)| *known == growth).map(|(name, _)| *name).collect()
}

fn text(value: Option<impl ToString>) -> Option<String> {
    value.map(|value| value.to_string())
}

fn slots(text: &str) -> Result<SlotsPerBucket, String> {
    let slots = text.parse().ok().and_then(SlotsPerBucket::new);
    slots.ok_or_else(|| "must be a whole number from 2 to 7".to_owned())
}

impl Shape {
    /// The names of all these arguments.
    pub(super) fn arguments() -> Vec<Id> {
        let command = Self::augment_args(Command::new(""));
        command.get_arguments().map(|argument| argument.get_id().clone()).collect()
    }

    /// Notes which of these options have no effect, because the filter exists and was created with other values.
    pub(super) fn note_ignored(&self, capacity: Option<u64>, file: &Path, filter: &Info) {
        self.note(capacity, file, created_with!(filter), "; `gowk set` changes growth and limits");
    }

    /// Like `note_ignored`, for a store. Fails if the store is not of the requested kind.
    pub(super) fn note_ignored_by_store(&self, capacity: Option<u64>, store: &Path) -> Result<(), Failure> {
        let opened = Store::open_with(store, &self.of_kind(Options::new()))?;
        self.note(capacity, store, created_with!(opened.description()), "");
        Ok(())
    }

    fn note(&self, capacity: Option<u64>, file: &Path, created: [(&str, String); 7], remedy: &str) {
        let asked = [
            text(capacity),
            text(self.false_positive_rate),
            text(self.slots_per_bucket.map(SlotsPerBucket::get)),
            text(self.seed),
            self.growth.map(name_of),
            text(self.max_file_size),
            text(self.max_false_positive_rate),
        ];
        let ignored = created.iter().zip(asked).filter_map(|((option, is), asked)| {
            let shown = if *option == "seed" { "another" } else { is };
            asked.filter(|asked| asked != is).map(|_| format!("--{option} is {shown}"))
        });
        let ignored = ignored.collect::<Vec<_>>().join(", ");
        if !ignored.is_empty() {
            let file = file.display();
            output::note(format_args!(
                "{file}: exists already, and these options have no effect on it: {ignored} there{remedy}"
            ));
        }
    }

    /// The requested false-positive rate.
    pub(super) fn rate(&self) -> Option<f64> {
        self.false_positive_rate
    }

    /// Whether the options request a forgetting filter.
    pub(super) fn forgets(&self) -> bool {
        self.forget_after.is_some() || self.keep_newest.is_some()
    }

    /// [`Error::Newest`] if the options request the newest keys, which no store supports.
    pub(super) fn check_for_store(&self, store: &Path) -> Result<(), Failure> {
        match self.keep_newest {
            Some(_) => Err(Error::Newest { path: store.to_owned(), op: "a store" }.into()),
            None => Ok(()),
        }
    }

    /// With --counting, --forget-after or --keep-newest, requests a filter or store of that kind, existing or new.
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

    /// Requests a filter of this shape; `rate` is the false-positive rate if none is given.
    pub(super) fn apply(&self, options: Options, capacity: u64, rate: Option<f64>) -> Options {
        let growth = self.growth.unwrap_or_default();
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
