//! `gowk insert`

use std::path::PathBuf;

use clap::Args;
use gowk::Options;

use super::arguments::ThreadArgs;
use super::failure::Failure;
use super::intake::{InsertArgs, IntakeArgs, each, insert_unique};
use super::outcome::Outcome;
use super::store::{self, Given, StoreArgs, TokenArgs};

/// Insert keys into an existing filter
///
/// A key that is found already is not stored again. Nothing is printed; `gowk dedup` prints the new keys. A filter
/// whose keys are to be removed some day needs --copies from the start. A key that the filter has no room for is named
/// on standard error, and the rest is inserted; the exit code is 2 then.
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
    insert: InsertArgs,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    token: TokenArgs,
}

impl Insert {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        if store::is_store(&self.file) {
            let options = self.threads.apply(Options::new());
            let given = self.intake.given(&self.file, options, &self.store, "insert");
            let given = Given { token: Some(&self.token), insert: Some(&self.insert), ..given };
            return store::insert(given, self.copies);
        }
        self.store.check_absent(&self.file)?;
        self.token.check_absent(&self.file)?;
        let open = |options: Options| Ok(options.open_existing(&self.file)?);
        let mut new = Vec::new();
        let options = self.threads.apply(Options::new());
        self.intake.run(&self.file, options, Some(&self.insert), open, |writer, keys, _| {
            if self.copies {
                // One by one: after a failure it must be known which copies were stored.
                each(keys, |key| writer.insert(key))
            } else {
                insert_unique(writer, keys, &mut new, |_| Ok(()))
            }
        })
    }
}
