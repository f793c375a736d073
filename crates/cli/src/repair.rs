//! `gowk repair`

use std::path::PathBuf;

use clap::Args;
use gowk::{DamagedPage, Options};

use super::arguments::LockArgs;
use super::bar;
use super::failure::Failure;
use super::output::Output;

/// Give up the damaged pages of a filter, so that the rest can be used
///
/// Nothing shows which keys a damaged page held. From now on its buckets match every key: a key that was inserted is
/// still always found, but more keys that were never inserted are found too. `gowk info` shows the new rate. If there
/// is an undamaged copy of the filter, restore that instead.
#[derive(Args)]
#[command(after_help = "\
Example:
  gowk verify seen.gowk || gowk repair seen.gowk")]
pub(super) struct Repair {
    /// Filter to repair
    file: PathBuf,

    #[command(flatten)]
    lock: LockArgs,
}

impl Repair {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut writer = self.lock.apply(Options::new()).open_existing(&self.file)?;
        let repair = writer.repair(&bar::of("repairing"))?;
        let expected = writer.info()?.expected_false_positive_rate;
        writer.close()?;
        let mut output = Output::standard(b'\n')?;
        let file = self.file.display();
        for DamagedPage { page, region } in &repair.quarantined {
            output
                .line(format_args!("{file}: page {page} (region {region}) matches every key from now on"))?;
        }
        if repair.marked {
            output.line(format_args!(
                "{file}: written anew with markers, which slots that match every key need: the false-positive rate of its \
                 entries has doubled"
            ))?;
        }
        if repair.superblock {
            output.line(format_args!("{file}: the damaged superblock was written anew"))?;
        }
        if repair.live {
            output.line(format_args!(
                "{file}: the live area was not that of the last commit, and was written anew"
            ))?;
        }
        if repair.recounted {
            output.line(format_args!("{file}: the counters were wrong, and are those of a scan now"))?;
        }
        if repair.is_empty() {
            output.line(format_args!("{file}: nothing to repair"))?;
        } else {
            output.line(format_args!("{file}: expected false-positive rate {expected:.3e}"))?;
        }
        output.flush()
    }
}
