//! `gowk insert`

use std::path::PathBuf;

use clap::Args;
use gowk::Options;

use super::arguments::ThreadArgs;
use super::failure::Failure;
use super::intake::{InsertArgs, IntakeArgs, insert};
use super::outcome::Outcome;
use super::store::{self, Given, StoreArgs, TokenArgs};

/// Insert keys into an existing filter
///
/// A set stores a key unless it is found already; a counting filter (`gowk create --counting`) stores one more copy.
/// Nothing is printed; `gowk dedup` prints the new keys. A key that the filter has no room for is named on standard
/// error, and the rest is inserted; the exit code is 2 then.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gowk insert seen.gowk https://example.org/ https://example.com/
  zcat urls.gz | gowk insert seen.gowk
  find . -type f -print0 | gowk insert files.gowk -0")]
pub(super) struct Insert {
    /// Filter or store to insert into
    file: PathBuf,

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
            return store::insert(given);
        }
        self.store.check_absent(&self.file)?;
        self.token.check_absent(&self.file)?;
        let open = |options: Options| Ok(options.open_existing(&self.file)?);
        let options = self.threads.apply(Options::new());
        self.intake.run(&self.file, options, Some(&self.insert), open, |writer, keys, _| {
            insert(writer, keys, Ok(Vec::new()), |_| Ok(()))
        })
    }
}
