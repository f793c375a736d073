//! `gowk copy`

use std::path::PathBuf;

use clap::Args;
use gowk::{Error, Files, Options};

use super::arguments::ReadArgs;
use super::bar;
use super::failure::Failure;
use super::store::AnyReader;

/// Copy a filter, as of one commit, to a new file or over another filter
///
/// A writer may go on writing: the copy holds all commits made before it. `cp` would miss the commits that are still
/// in the journal. The copy has a uuid of its own.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gowk copy seen.gowk backup/seen.gowk
  gowk copy --force new.gowk live.gowk          readers of live.gowk go on with the copy")]
pub(super) struct Copy {
    /// Filter to copy, or store whose shards are joined in the copy
    file: PathBuf,

    /// File to create; must not exist, unless --force is given
    dest: PathBuf,

    /// Publish the copy over the filter at DEST; its readers go on with the copy at once
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    read: ReadArgs,
}

impl Copy {
    pub(super) fn run(self) -> Result<(), Failure> {
        let options = self.read.apply(Options::new());
        if self.force {
            options.read(&self.file)?.copy_over(&self.dest, &bar::of("copying"))?;
            return Ok(());
        }
        let in_the_way = |error| match error {
            error @ Error::Exists { .. } => Failure::InTheWay(error),
            error => error.into(),
        };
        // Checked before the library opens a lock file beside a file that is not a filter.
        if self.dest.exists() {
            return Err(in_the_way(Error::Exists { path: Files::resolved(&self.dest) }));
        }
        match AnyReader::open(&self.file, &options)? {
            AnyReader::Filter(reader) => {
                reader.copy_to(&self.dest, &bar::of("copying")).map_err(in_the_way)?;
            }
            AnyReader::Store(reader) => reader.join_to(&self.dest, &bar::of("joining"))?,
        }
        Ok(())
    }
}
