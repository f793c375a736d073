//! `gowk shrink`

use std::path::PathBuf;

use clap::Args;
use gowk::Options;

use super::arguments::LockArgs;
use super::bar::Bar;
use super::failure::Failure;
use super::outcome::Outcome;

/// Halve a filter that has doubled, without losing a key
///
/// Undoes one doubling, for filters that grew too far or were emptied by removals. `gowk info` says what it brings. The
/// disk needs room for the new file beside the old one.
#[derive(Args)]
#[command(after_help = "\
Example:
  gowk info seen.gowk && gowk shrink seen.gowk")]
pub(super) struct Shrink {
    /// Filter to halve
    file: PathBuf,

    #[command(flatten)]
    lock: LockArgs,
}

impl Shrink {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let mut writer = self.lock.apply(Options::new()).open_existing(&self.file)?;
        let bar = Bar::new("shrinking");
        writer.shrink_with(&mut |done, all| bar.tell(done, all))?;
        writer.commit()?;
        writer.close()?;
        Ok(Outcome::Done)
    }
}
