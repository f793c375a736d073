//! `gowk sweep`

use std::path::PathBuf;

use clap::Args;
use gowk::store::Store;
use gowk::{Kind, Options};

use super::arguments::{ClockArgs, LockArgs};
use super::failure::Failure;
use super::output::Output;
use super::quantity;

/// Make a forgetting filter forget expired keys
///
/// A forgetting filter has a time of its own, by which readers judge. Each insert moves it forward. So a filter that gets
/// no keys forgets none; this verb moves it to the time of the clock, and frees the slots of all expired keys. A filter
/// that gets keys does so gradually. In a store, it rewrites the shards that have expired keys, as `store compact --all`
/// does.
#[derive(Args)]
#[command(after_help = "\
Example:
  gowk sweep seen.gowk && gowk info seen.gowk")]
pub(super) struct Sweep {
    /// Filter or store to sweep
    file: PathBuf,

    #[command(flatten)]
    clock: ClockArgs,

    #[command(flatten)]
    lock: LockArgs,
}

impl Sweep {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut output = Output::standard(b'\n')?;
        if Store::is_at(&self.file) {
            let store =
                Store::open_with(&self.file, &self.clock.apply(Options::new().kind(Kind::Forgetting)))?;
            let folded = store.compact(true, &|_, _| ())?.folded;
            output.line(format_args!("{}: {folded} shards written anew", self.file.display()))?;
            output.flush()?;
            return Ok(());
        }
        let mut writer = self.clock.apply(self.lock.apply(Options::new())).open_existing(&self.file)?;
        let forgotten = writer.sweep()?;
        writer.commit()?;
        writer.close()?;
        let (file, forgotten) = (self.file.display(), quantity::grouped(forgotten));
        output.line(format_args!("{file}: {forgotten} entries forgotten"))?;
        output.flush()
    }
}
