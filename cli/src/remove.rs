//! `gowk remove`

use std::path::PathBuf;

use clap::Args;
use gowk::{Batches, Options};

use super::failure::Failure;
use super::intake::{IntakeArgs, remove};
use super::outcome::Outcome;
use super::output;
use super::store::{self, StoreArgs};

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

    #[command(flatten)]
    store: StoreArgs,
}

impl Remove {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        if store::is_store(&self.file) {
            let given = self.intake.given(&self.file, Options::new(), &self.store, "remove");
            return store::remove(given);
        }
        self.store.check_absent(&self.file)?;
        let (mut keys, mut absent) = (0_u64, 0_u64);
        let open = |options: Options| {
            let mut writer = options.open_existing(&self.file)?;
            // A set refuses before a key comes.
            writer.remove_batch::<&[u8]>(&[])?;
            Ok(writer)
        };
        let outcome = self.intake.run(&self.file, Options::new(), None, open, |writer, some, _| {
            keys += some.len() as u64;
            remove(writer, some, &mut absent)
        });
        match outcome? {
            Outcome::Done if absent > 0 => {
                output::note(format_args!("{}: {absent} of {keys} keys were absent", self.file.display()));
                Ok(Outcome::NotFound)
            }
            outcome => Ok(outcome),
        }
    }
}
