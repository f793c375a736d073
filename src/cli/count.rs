//! `gowk count`

use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use gowk::Options;

use super::arguments::{KeyArgs, ReadArgs};
use super::failure::Failure;
use super::outcome::Outcome;
use super::output::Output;
use super::store::AnyReader;

/// Print how many copies of each key are stored: COUNT, a tab, KEY
///
/// The number is never too low. It may be too high, because copies of keys that look the same to the filter count
/// too. It is at most twice the slots per bucket.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gowk count sessions.gowk 8c9f1d7e
  gowk count sessions.gowk < ids.txt | sort -rn | head

As a coprocess of a script: the counts of all lines that were given are there before more input is waited for.")]
pub(super) struct Count {
    /// Filter or store to look into
    file: PathBuf,

    #[command(flatten)]
    read: ReadArgs,

    #[command(flatten)]
    keys: KeyArgs,
}

impl Count {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        self.keys.check()?;
        let reader = AnyReader::open(&self.file, &self.read.apply(Options::new()))?;
        let mut output = Output::standard(self.keys.separator())?;
        output.check_beside(&self.file)?;
        self.keys.each_batch(&mut output, |output, keys| {
            keys.iter().try_for_each(|key| output.counted(reader.count(key.key)?, key.record))?;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(Outcome::Done)
    }
}
