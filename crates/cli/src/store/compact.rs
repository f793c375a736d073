//! `gowk store compact`

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use gowk::Options;
use gowk::store::{Compacted, Store};

use super::super::arguments::ClockArgs;
use super::super::bar;
use super::super::failure::Failure;
use super::super::output;

/// Fold the records of small commits into the files of the shards
///
/// A commit of few keys writes one run, a file that serves all shards; lookups read the runs beside the shards' files.
/// Commits fold shards and merge runs when that is due, so this is needed only to get rid of all runs, for example before
/// much reading. It may run beside commits, readers and vacuums, and skips a shard that another process rewrites first.
/// If it is killed, the store stays as it was. A vacuum removes the old files.
///
/// A forgetting store also moves to the time of the clock, and shards whose keys have all expired are written anew.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gowk store compact crawl.store                       the shards for which it is due
  gowk store compact crawl.store --all --threads 8     every shard for which a run has anything

The exit status is 0, also if there was nothing to do, and 2 after an error.")]
pub(super) struct Compact {
    /// Store to compact
    store: PathBuf,

    /// Fold every shard with a pending record, and in a forgetting store every shard with an expired key
    #[arg(long)]
    all: bool,

    /// Shards that are folded at the same time; as many as there are processors by default
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    #[command(flatten)]
    clock: ClockArgs,
}

impl Compact {
    pub(super) fn run(self) -> Result<(), Failure> {
        let threads = self.threads.or_else(|| std::thread::available_parallelism().ok());
        let options =
            self.clock.apply(bar::fetching(Options::new())).threads(threads.map_or(1, NonZeroUsize::get));
        let store = Store::open_with(&self.store, &options)?;
        let Compacted { version, folded, full, bytes, .. } = store.compact(self.all, &bar::of("folding"))?;
        output::print(|output| {
            match version {
                Some(version) => output
                    .line(format_args!("{folded} shards folded, {bytes} bytes written, version {version}"))?,
                None if full == 0 => output.line("nothing to do")?,
                None => {}
            }
            if full > 0 {
                output.line(format_args!(
                    "{full} shards are full and must not grow: their keys stay in runs"
                ))?;
            }
            Ok(())
        })
    }
}
