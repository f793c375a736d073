//! `gowk dedup`

use std::path::PathBuf;

use clap::Args;

use super::arguments::ThreadArgs;
use super::creation::{Shape, refused};
use super::failure::Failure;
use super::intake::{IntakeArgs, insert_unique};
use super::outcome::Outcome;
use super::output::Output;
use super::quantity;
use super::store::{self, StoreArgs, TransactionArgs};

/// Print keys seen for the first time, and remember them
///
/// Keys are printed in the order in which they come. A new key that looks the same to the filter as one before is not
/// printed; that happens at the false-positive rate. The filter is created if it is not there. For an existing filter
/// the options of creation are ignored, but a lower false-positive rate than the filter's is an error.
///
/// Keys are committed after they are printed: a crash can repeat a line, and never loses one. SIGINT and SIGTERM
/// commit what was printed. If the output is closed early, what was not committed until then is forgotten. An output
/// that is closed from the start is an error. To remember keys without printing them, redirect the output to
/// /dev/null.
#[derive(Args)]
#[command(after_help = "\
Examples:
  zcat urls.gz | gowk dedup seen.gowk > new.txt
  tail -f access.log | gowk dedup seen.gowk --capacity 100_000_000 --false-positive-rate 1e-5
  find . -type f -print0 | gowk dedup files.gowk -0 | xargs -0 process")]
pub(super) struct Dedup {
    /// Filter or store to remember keys in
    file: PathBuf,

    #[command(flatten)]
    threads: ThreadArgs,

    #[command(flatten)]
    intake: IntakeArgs,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    transaction: TransactionArgs,

    /// Distinct keys that the filter takes before it has to double
    #[arg(long, value_name = "KEYS", default_value = "1_000_000", value_parser = quantity::count)]
    #[arg(help_heading = CREATION)]
    capacity: u64,

    #[command(flatten, next_help_heading = CREATION)]
    shape: Shape,
}

const CREATION: &str = "Options for a filter that is not there yet";

impl Dedup {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        Output::check_kept()?;
        if store::is_store(&self.file) {
            let options = self.threads.apply(gowk::Options::new());
            let given = self.intake.given(&self.file, options, &self.store, Some(&self.transaction), "dedup");
            return store::dedup(given);
        }
        self.store.check_absent(&self.file)?;
        self.transaction.check_absent(&self.file)?;
        let open =
            |options: gowk::Options| options.open(&self.file).map_err(|error| refused(&self.file, error));
        let mut stored = Vec::new();
        let options = self.threads.apply(self.shape.options(self.capacity));
        self.intake.run(&self.file, options, open, |writer, keys, output| {
            insert_unique(writer, keys, &mut stored, |key| output.key(key))
        })
    }
}
