//! `gowk store create`

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use gowk::store::{Store, Vacuum};
use gowk::{Options, Reader};

use super::super::bar;
use super::super::creation::{Shape, refused};
use super::super::failure::Failure;
use super::super::field::RuleArgs;
use super::super::quantity;

/// Create a store: empty, or out of a filter
///
/// Its shards are sets, or with --counting they count copies of keys, which can be removed, or with --forget-after they
/// forget keys after a time. A store made out of a filter is of the filter's kind.
#[derive(Args)]
#[command(mut_arg("keep_newest", |argument| argument.hide(true)))]
#[command(after_help = "\
Examples:
  gowk store create crawl.store --shards 64 --capacity 10_000_000_000
  gowk store create crawl.store --shards 16 --from seen.gowk      with all keys of the filter

Shards of 1 to 4 GiB are a good size. A commit of few keys writes one small file for all of them; one that brings a shard
more than 8,192 keys, and a sixteenth to a tenth of its entries, rewrites the shard.")]
pub(super) struct Create {
    /// Folder to create; may exist if it is empty
    store: PathBuf,

    /// Shards that divide all keys, 1 to 65536
    #[arg(long, value_name = "S", value_parser = quantity::count)]
    shards: u64,

    /// Distinct keys that the store takes before its shards have to double
    #[arg(long, value_name = "KEYS", value_parser = quantity::count)]
    #[arg(required_unless_present_any = ["from", "keep_newest"])]
    capacity: Option<u64>,

    /// Divide this filter into the shards; the store answers as the filter does. It has the filter's
    /// kind, seed and limits
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["capacity", "counting", "false_positive_rate", "slots_per_bucket", "seed", "growth"])]
    #[arg(conflicts_with_all = ["max_file_size", "max_false_positive_rate", "trim", "ignore_case"])]
    from: Option<PathBuf>,

    /// Let commits vacuum the store: at least the newest N versions stay. A commit vacuums once N versions can go, or 16
    /// if N is smaller. Without --keep and --grace, only `gowk store vacuum` removes anything
    #[arg(long, value_name = "N", value_parser = quantity::positive)]
    keep: Option<NonZeroU64>,

    /// The same: a version stays this long after the next one was made, for its readers and updates, at least a second; 1d
    /// if only --keep is given
    #[arg(long, value_name = "TIME", value_parser = super::vacuum::duration)]
    grace: Option<Duration>,

    #[command(flatten)]
    shape: Shape,

    #[command(flatten)]
    rules: RuleArgs,
}

impl Create {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.shape.check_for_store(&self.store)?;
        let shards = u32::try_from(self.shards).unwrap_or(u32::MAX);
        if let Some(from) = &self.from {
            let (filter, progress) = (Reader::open(from)?, &bar::of("dividing"));
            Store::create_from(&self.store, shards, &filter, &self.vacuumed(Options::new()), progress)?;
        } else {
            let options = self.rules.apply(self.shape.options(self.capacity.unwrap_or_default()));
            let options = self.vacuumed(options);
            Store::create(&self.store, shards, &options).map_err(|error| refused(&self.store, error))?;
        }
        Ok(())
    }

    /// The options, with the limits for vacuums by commits, if any.
    fn vacuumed(&self, options: Options) -> Options {
        if self.keep.is_none() && self.grace.is_none() {
            return options;
        }
        let Vacuum { keep, grace, .. } = Vacuum::default();
        options.auto_vacuum(self.keep.map_or(keep, NonZeroU64::get), self.grace.unwrap_or(grace))
    }
}
