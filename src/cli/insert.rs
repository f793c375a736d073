//! `gowk insert`

use std::path::PathBuf;

use clap::Args;
use gowk::{Error, Options};

use super::arguments::ThreadArgs;
use super::failure::Failure;
use super::intake::{IntakeArgs, each, insert_unique};
use super::outcome::Outcome;
use super::output;
use super::store::{self, StoreArgs, TransactionArgs};

/// Insert keys into an existing filter
///
/// A key that is found already is not stored again. Nothing is printed; `gowk dedup` prints the new keys. A filter
/// whose keys are to be removed some day needs --copies from the start.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gowk insert seen.gowk https://example.org/ https://example.com/
  zcat urls.gz | gowk insert seen.gowk
  find . -type f -print0 | gowk insert files.gowk -0")]
pub(super) struct Insert {
    /// Filter or store to insert into
    file: PathBuf,

    /// Store every copy of a key; each removal takes one
    #[arg(long)]
    copies: bool,

    #[command(flatten)]
    threads: ThreadArgs,

    #[command(flatten)]
    intake: IntakeArgs,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    transaction: TransactionArgs,
}

impl Insert {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        if store::is_store(&self.file) {
            let options = self.threads.apply(Options::new());
            let given =
                self.intake.given(&self.file, options, &self.store, Some(&self.transaction), "insert");
            return store::insert(given, self.copies);
        }
        self.store.check_absent(&self.file)?;
        self.transaction.check_absent(&self.file)?;
        let mut refused = 0_u64;
        let open = |options: Options| Ok(options.open_existing(&self.file)?);
        let mut stored = Vec::new();
        let outcome =
            self.intake.run(&self.file, self.threads.apply(Options::new()), open, |writer, keys, _| {
                if !self.copies {
                    return insert_unique(writer, keys, &mut stored, |_| Ok(()));
                }
                // One by one: after a failure it must be known which copies were stored.
                each(keys, |key| {
                    match writer.insert(key) {
                        Err(Error::DuplicateLimit { .. }) => refused += 1,
                        outcome => outcome?,
                    }
                    Ok(())
                })
            });
        if refused > 0 {
            let file = self.file.display();
            output::note(format_args!(
                "{file}: {refused} copies were beyond the limit of copies of a key and not stored; \
                 their keys are present"
            ));
        }
        outcome
    }
}
