//! `gowk create`

use std::borrow::Cow;
use std::path::PathBuf;

use clap::Args;
use gowk::{Error, Options, Plan, Reader, SlotsPerBucket};
use serde::Serialize;

use super::arguments::LockArgs;
use super::creation::{Shape, refused};
use super::failure::Failure;
use super::field::RuleArgs;
use super::json;
use super::output::{self, Output};
use super::quantity;

/// `create` suggests a smaller filter if its rate is at most this many times the requested one.
const NEAR: f64 = 10.0;
/// Such a filter must save at least this part of the bytes.
const SAVED: f64 = 0.25;

/// Create an empty filter, and say how large it is
///
/// A filter is a set, which stores each key once, for good. With --counting it stores copies of keys, which can be
/// counted and removed; with --forget-after it stores each key for some time; with --keep-newest it stores the newest
/// keys. The kind cannot be changed later.
///
/// Prints the size of the file, the slots per bucket and the false-positive rate that they give. The rate is lower than
/// requested, as slots come in whole numbers.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gowk create seen.gowk --capacity 50M
  gowk create seen.gowk --capacity 50M --false-positive-rate 0.1% --dry-run
  gowk create seen.gowk --capacity 1_000_000 --false-positive-rate 1e-6 --max-file-size 8G
  gowk create sessions.gowk --capacity 1M --counting
  gowk create seen.gowk --capacity 50M --forget-after 30d --forget-within 3d --dry-run
  gowk create recent.gowk --keep-newest 100M --dry-run
  gowk create today.gowk --like seen.gowk

A bucket has 64 bits. False positives when full, and bytes a key in a filter for 50 million keys:
  7 slots  2.7 %  1.2 B     5 slots   0.24 %  1.7 B     3 slots   2.9e-6  3.0 B
  6 slots  1.2 %  1.4 B     4 slots  0.012 %  2.2 B     2 slots  9.3e-10  5.0 B
A counting filter has twice these rates.")]
pub(super) struct Create {
    /// Filter to create
    file: PathBuf,

    /// Distinct keys that the filter takes before it has to double, as in 50_000_000, 50M or 5e7
    #[arg(long, value_name = "KEYS", value_parser = quantity::count)]
    #[arg(required_unless_present_any = ["like", "keep_newest"], conflicts_with = "keep_newest")]
    capacity: Option<u64>,

    /// Make it like this filter, so that the two can be merged: same kind, seed, slots, regions at creation and limits
    #[arg(long, value_name = "FILE", conflicts_with_all = Shape::arguments())]
    #[arg(conflicts_with_all = ["capacity", "trim", "ignore_case"])]
    like: Option<PathBuf>,

    #[command(flatten)]
    shape: Shape,

    #[command(flatten)]
    rules: RuleArgs,

    /// Replace an existing filter, and forget its keys
    #[arg(long)]
    force: bool,

    /// Only say what would be created
    #[arg(long)]
    dry_run: bool,

    /// Say it as one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    lock: LockArgs,
}

#[derive(Serialize)]
struct Created<'a> {
    file: Cow<'a, str>,
    created: bool,
    #[serde(flatten)]
    plan: &'a Plan,
    /// A smaller filter whose rate is near the requested one.
    near: Option<Near>,
}

#[derive(Serialize)]
struct Near {
    false_positive_rate: f64,
    bytes_per_key: f64,
}

impl Create {
    pub(super) fn run(self) -> Result<(), Failure> {
        let options = match &self.like {
            Some(other) => Options::like(&Reader::open(other)?)?,
            None => self.rules.apply(self.shape.options(self.capacity.unwrap_or_default())),
        };
        let options = self.lock.apply(options).force(self.force);
        let plan = options.plan().map_err(|error| refused(&self.file, error))?;
        output::print(|output| {
            if !self.dry_run {
                self.create(&options)?;
            }
            self.tell(&plan, self.near(&plan), output)
        })
    }

    fn create(&self, options: &Options) -> Result<(), Failure> {
        let mut writer = options.create(&self.file).map_err(|error| match error {
            error @ Error::Exists { .. } => Failure::InTheWay(error),
            error => refused(&self.file, error),
        })?;
        writer.commit()?;
        Ok(writer.close()?)
    }

    /// The filter with one more slot per bucket, if its rate is near the requested one.
    fn near(&self, plan: &Plan) -> Option<Near> {
        // The widths of forgetting filters are few, and the next one also differs in other ways.
        let asked = self.shape.rate().filter(|_| !self.shape.forgets())?;
        let slots = SlotsPerBucket::new(plan.slots_per_bucket.get() + 1)?;
        let near = Options::new().kind(plan.kind).capacity(plan.capacity).slots_per_bucket(slots);
        let near = near.plan().ok()?;
        let Plan { false_positive_rate, bytes_per_key, .. } = near;
        let is_near =
            false_positive_rate <= NEAR * asked && bytes_per_key <= (1.0 - SAVED) * plan.bytes_per_key;
        is_near.then_some(Near { false_positive_rate, bytes_per_key })
    }

    fn tell(&self, plan: &Plan, near: Option<Near>, output: &mut Output) -> Result<(), Failure> {
        if self.json {
            let (file, created) = (self.file.to_string_lossy(), !self.dry_run);
            return output.line(json::line(&Created { file, created, plan, near }));
        }
        let (file, kind, keys) = (self.file.display(), plan.kind, quantity::grouped(plan.capacity));
        let (bytes_per_key, slots) = (plan.bytes_per_key, plan.slots_per_bucket.get());
        let would = if self.dry_run { "would be created" } else { "created" };
        output.line(format_args!(
            "{file}: {would}, a {kind} for {keys} keys: {} ({bytes_per_key:.2} bytes a key), {slots} slots per bucket, \
             false-positive rate when full {}",
            quantity::bytes(plan.file_length),
            quantity::chance(plan.false_positive_rate)
        ))?;
        if let Some(retention) = plan.retention {
            output.line(format_args!("{file}: {retention}"))?;
        }
        if let Some(newest) = plan.keep_newest {
            output.line(format_args!("{file}: {}", quantity::newest(newest)))?;
        }
        let Some(Near { false_positive_rate, bytes_per_key }) = near else { return Ok(()) };
        output.line(format_args!(
            "{file}: with a false-positive rate of {} it would take {bytes_per_key:.2} bytes a key: \
             --slots-per-bucket {}",
            quantity::chance(false_positive_rate),
            slots + 1
        ))
    }
}
