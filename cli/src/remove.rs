//! `gowk remove`

use std::path::PathBuf;

use clap::Args;
use gowk::Options;

use super::failure::Failure;
use super::intake::{IntakeArgs, each};
use super::outcome::Outcome;
use super::output;
use super::store::{self, StoreArgs};

/// Remove one copy of each key; exit 1 if any was absent
///
/// Remove only what was inserted with `gowk insert --copies`. Removing a key that was never inserted can remove the
/// entry of another key, which is lost then.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gowk remove sessions.gowk 8c9f1d7e
  gowk remove sessions.gowk --input expired.txt")]
pub(super) struct Remove {
    /// Filter or store to remove from
    file: PathBuf,

    /// Remove although some inserts were answered "seen" and stored nothing. A few of their keys may be others than the
    /// key whose entry they share: they are lost when that one is removed. Filters filled by `gowk insert --copies`
    /// alone never need this
    #[arg(long = "unsafe")]
    unchecked: bool,

    #[command(flatten)]
    intake: IntakeArgs,

    #[command(flatten)]
    store: StoreArgs,
}

impl Remove {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        if store::is_store(&self.file) {
            let given = self.intake.given(&self.file, Options::new(), &self.store, "remove");
            return store::remove(given, self.unchecked);
        }
        self.store.check_absent(&self.file)?;
        let (mut keys, mut absent) = (0_u64, 0_u64);
        let open = |options: Options| Ok(options.open_existing(&self.file)?);
        let outcome = self.intake.run(&self.file, Options::new(), None, open, |writer, some, _| {
            each(some, |key| {
                let removed =
                    if self.unchecked { writer.remove_unchecked(key)? } else { writer.remove(key)? };
                keys += 1;
                absent += u64::from(!removed);
                Ok(())
            })
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
