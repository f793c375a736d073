//! `gowk shrink`

use std::path::PathBuf;

use clap::Args;
use gowk::Options;

use super::arguments::{LockArgs, ThreadArgs};
use super::bar;
use super::failure::Failure;

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

    #[command(flatten)]
    threads: ThreadArgs,

    #[command(flatten)]
    lock: LockArgs,
}

impl Shrink {
    pub(super) fn run(self) -> Result<(), Failure> {
        let options = self.threads.apply(self.lock.apply(Options::new()));
        let mut writer = options.open_existing(&self.file)?;
        writer.shrink_with(&bar::of("shrinking"))?;
        writer.commit()?;
        Ok(writer.close()?)
    }
}
