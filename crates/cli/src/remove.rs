//! `gowk remove`

use std::path::PathBuf;

use clap::Args;
use gowk::Options;
use gowk_ingest::Deed;

use super::failure::Failure;
use super::intake::{IntakeArgs, Verb};
use super::outcome::Outcome;

/// Remove one copy of each key from a counting filter; exit 1 if any was absent
///
/// Remove only what was inserted. Removing a key that was never inserted can remove the entry of another key, which is
/// lost then. Nothing can be removed from a set, the kind that `gowk create` makes without --counting: that is an error,
/// and changes nothing.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gowk create sessions.gowk --capacity 1M --counting
  gowk insert sessions.gowk 8c9f1d7e
  gowk remove sessions.gowk 8c9f1d7e
  gowk remove sessions.gowk --input expired.txt")]
pub(super) struct Remove {
    /// Filter or store to remove from
    file: PathBuf,

    #[command(flatten)]
    intake: IntakeArgs,
}

impl Remove {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let filter = |options: Options| Ok(options.open_existing(&self.file)?);
        self.intake.run(&Verb::new(&self.file, "remove", Deed::Remove), &filter, &Ok)
    }
}
