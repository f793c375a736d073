//! `gowk remove`

use std::path::PathBuf;

use clap::Args;
use gowk::Options;
use gowk::ingest::Deed;

use super::failure::Failure;
use super::intake::{IntakeArgs, Verb};
use super::outcome::Outcome;
use super::output;
use super::window::Window;

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
        let file = &self.file;
        let verb = Verb {
            file,
            name: "remove",
            deed: Deed::Remove,
            prints: false,
            output: None,
            window: Window::default(),
            insert: None,
            bar: None,
        };
        let filter = |options: Options| Ok(options.open_existing(file)?);
        let (outcome, [keys, removed]) = self.intake.run(&verb, filter, Ok)?;
        match outcome {
            Outcome::Done if removed < keys => {
                let absent = keys - removed;
                output::note(format_args!("{}: {absent} of {keys} keys were absent", file.display()));
                Ok(Outcome::NotFound)
            }
            outcome => Ok(outcome),
        }
    }
}
