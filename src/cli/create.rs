//! `gowk create`

use std::path::PathBuf;

use clap::Args;
use gowk::{Error, Options, Reader};

use super::arguments::LockArgs;
use super::creation::{Shape, refused};
use super::failure::Failure;
use super::outcome::Outcome;
use super::quantity;

/// Create an empty filter
#[derive(Args)]
#[command(after_help = "\
Examples:
  gowk create seen.gowk --capacity 50_000_000
  gowk create seen.gowk --capacity 1_000_000 --false-positive-rate 1e-6 --max-file-size 8G
  gowk create today.gowk --like seen.gowk

A bucket has 64 bits. False positives when full, and bytes a key in a filter for 50 million keys:
  7 slots  5.5 %  1.2 B     5 slots   0.49 %  1.7 B     3 slots  5.7e-6  3.0 B
  6 slots  2.3 %  1.4 B     4 slots  0.024 %  2.2 B     2 slots  1.9e-9  5.0 B")]
pub(super) struct Create {
    /// Filter to create
    file: PathBuf,

    /// Distinct keys that the filter takes before it has to double
    #[arg(long, value_name = "KEYS", value_parser = quantity::count, required_unless_present = "like")]
    capacity: Option<u64>,

    /// Make it like this filter, so that the two can be merged: same seed, slots, regions at creation and limits
    #[arg(long, value_name = "FILE", conflicts_with_all = Shape::ARGUMENTS, conflicts_with = "capacity")]
    like: Option<PathBuf>,

    #[command(flatten)]
    shape: Shape,

    /// Replace an existing filter, and forget its keys
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    lock: LockArgs,
}

impl Create {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let options = match &self.like {
            Some(other) => Options::like(&Reader::open(other)?)?,
            None => self.shape.options(self.capacity.unwrap_or_default()),
        };
        let options = self.lock.apply(options).force(self.force);
        let mut writer = options.create(&self.file).map_err(|error| match error {
            error @ Error::Exists { .. } => Failure::InTheWay(error),
            error => refused(&self.file, error),
        })?;
        writer.commit()?;
        writer.close()?;
        Ok(Outcome::Done)
    }
}
