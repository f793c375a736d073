//! `gowk shrink`

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::Args;
use gowk::Options;

use super::arguments::LockArgs;
use super::bar;
use super::failure::Failure;
use super::quantity;

/// Halve a filter that has doubled, without losing a key
///
/// Undoes one doubling, for filters that grew too far or were emptied by removals. `gowk info` describes the filter
/// after it. The disk needs room for the new file beside the old one.
#[derive(Args)]
#[command(after_help = "\
Example:
  gowk info seen.gowk && gowk shrink seen.gowk")]
pub(super) struct Shrink {
    /// Filter to halve
    file: PathBuf,

    /// Threads that share the work
    #[arg(long, value_name = "N", default_value = "1", value_parser = quantity::positive)]
    threads: NonZeroU64,

    #[command(flatten)]
    lock: LockArgs,
}

impl Shrink {
    pub(super) fn run(self) -> Result<(), Failure> {
        let threads = usize::try_from(self.threads.get()).unwrap_or(usize::MAX);
        let mut writer = self.lock.apply(Options::new()).threads(threads).open_existing(&self.file)?;
        writer.shrink_with(&mut bar::of("shrinking"))?;
        writer.commit()?;
        Ok(writer.close()?)
    }
}
