//! `gowk insert`

use std::path::PathBuf;

use clap::Args;
use gowk::Options;
use gowk_ingest::Deed;

use super::arguments::{ClockArgs, ThreadArgs};
use super::failure::Failure;
use super::intake::{InsertArgs, IntakeArgs, Verb};
use super::outcome::Outcome;

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
    clock: ClockArgs,

    #[command(flatten)]
    intake: IntakeArgs,

    #[command(flatten)]
    insert: InsertArgs,
}

impl Insert {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let file = &self.file;
        let filter =
            |options: Options| Ok(self.clock.apply(self.threads.apply(options)).open_existing(file)?);
        let of_store = |options| Ok(self.clock.apply(self.threads.apply(options)));
        let verb = Verb { insert: Some(&self.insert), ..Verb::new(file, "insert", Deed::Insert) };
        self.intake.run(&verb, &filter, &of_store)
    }
}
