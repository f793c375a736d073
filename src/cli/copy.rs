//! `gowk copy`

use std::path::PathBuf;

use clap::Args;
use gowk::Options;

use super::arguments::ReadArgs;
use super::bar::Bar;
use super::failure::Failure;
use super::outcome::Outcome;

/// Copy a filter, as of one commit, to a new file
///
/// A writer may go on meanwhile: the copy holds what it had committed. `cp` would miss the commits that are still in
/// the journal. The copy has a uuid of its own.
#[derive(Args)]
#[command(after_help = "\
Example:
  gowk copy seen.gowk backup/seen.gowk")]
pub(super) struct Copy {
    /// Filter to copy
    file: PathBuf,

    /// File to create; must not exist
    dest: PathBuf,

    #[command(flatten)]
    read: ReadArgs,
}

impl Copy {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let bar = Bar::new("copying");
        let reader = self.read.apply(Options::new()).read(&self.file)?;
        reader.copy_to(&self.dest, &mut |done, all| bar.tell(done, all))?;
        Ok(Outcome::Done)
    }
}
