//! `gowk count`

use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use gowk::Options;

use super::arguments::{KeyArgs, ReadArgs};
use super::failure::Failure;
use super::output;
use super::paths;
use super::store::AnyReader;

/// Print how many copies of each key are stored: COUNT, a tab, KEY
///
/// In a counting filter these are the copies that were inserted and not removed; in a set there is 1 or 0. The number
/// is never too low. It may be too high, because copies of keys that look the same to the filter count too. The highest
/// number, 61568 with four slots per bucket, stands for that many or more; a note at the end says how many keys were
/// counted so.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gowk count sessions.gowk 8c9f1d7e
  gowk count sessions.gowk < ids.txt | sort -rn | head

As a coprocess of a script: the counts of all lines that were given are there before more input is waited for.")]
pub(super) struct Count {
    /// Filter or store to look into
    file: PathBuf,

    /// Write to this file instead of standard output; it takes the place of an older one at the end, when it is whole;
    /// compressed if it ends in .zst
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,

    #[command(flatten)]
    read: ReadArgs,

    #[command(flatten)]
    keys: KeyArgs,
}

impl Count {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.keys.check()?;
        let options = self.keys.rules.apply(self.read.apply(Options::new()));
        let reader = AnyReader::open(&self.file, &options)?;
        let file = std::iter::once(self.file.as_path());
        let mut output = self.keys.output_of_lookups(paths::output(self.output.as_ref()), file)?;
        let (highest, mut at_least) = (reader.slots_per_bucket()?.highest_count(), 0_u64);
        let rules = Some(reader.key_rules(&self.file)?);
        self.keys.each_batch(rules, &self.file, false, &mut output, |output, keys| {
            keys.iter().filter(|key| key.has_key()).try_for_each(|key| {
                let copies = reader.count(key.key)?;
                at_least += u64::from(copies == highest);
                output.counted(copies, key.record)
            })?;
            Ok(ControlFlow::Continue(()))
        })?;
        output.finish()?;
        if at_least > 0 {
            let file = self.file.display();
            output::note(format_args!("{file}: {at_least} of these counts mean {highest} or more"));
        }
        Ok(())
    }
}
