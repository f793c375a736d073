//! `gowk grow`

use std::path::PathBuf;

use clap::Args;
use gowk::Options;

use super::arguments::LockArgs;
use super::bar;
use super::failure::Failure;

/// Double a filter now
///
/// Filters double themselves when they are full. This verb doubles one at a time of your choosing. The disk needs room
/// for the new file beside the old one. The filter's limits of size and rate apply.
#[derive(Args)]
#[command(after_help = "\
Example:
  gowk grow seen.gowk && gowk info seen.gowk")]
pub(super) struct Grow {
    /// Filter to double
    file: PathBuf,

    #[command(flatten)]
    lock: LockArgs,
}

impl Grow {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut writer = self.lock.apply(Options::new()).open_existing(&self.file)?;
        writer.grow_with(&bar::of("doubling"))?;
        writer.commit()?;
        Ok(writer.close()?)
    }
}
