//! `gowk merge`

use std::path::PathBuf;

use clap::Args;
use gowk::{Error, Options, Reader, Writer};

use super::arguments::{LockArgs, ReadArgs};
use super::bar;
use super::failure::Failure;
use super::paths::is_same;

/// Store all keys of other filters in a filter; the keys themselves are not needed
///
/// Sets give their union. In counting filters the copies of each key add up.
///
/// FILE itself must not be among the OTHERs, as in `all.gowk *.gowk`, and no OTHER may come twice: copies would count
/// twice.
///
/// All of them must have the same kind, seed, slots per bucket and shard, and numbers of regions whose quotients are
/// powers of two: create each with `gowk create --like` another. If FILE does not exist, it is created like the first
/// OTHER. It doubles when it is full. One commit at the end publishes all keys, or none.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gowk merge all.gowk monday.gowk tuesday.gowk         keys of any of them
  gowk merge spam.gowk reports.gowk                    counting filters: copies add up")]
pub(super) struct MergeFilters {
    /// Filter to store the keys in
    file: PathBuf,

    /// Filters whose keys are stored; they are only read
    #[arg(required = true, value_name = "OTHER")]
    others: Vec<PathBuf>,

    #[command(flatten)]
    read: ReadArgs,

    #[command(flatten)]
    lock: LockArgs,
}

impl MergeFilters {
    pub(super) fn run(self) -> Result<(), Failure> {
        if let Some(other) = self.others.iter().find(|other| is_same(other, &self.file)) {
            return Err(Failure::MergeOfItself { file: other.clone() });
        }
        let twice = self.others.iter().enumerate().find_map(|(index, other)| {
            self.others.iter().take(index).find(|before| is_same(before, other)).map(|_| other)
        });
        if let Some(other) = twice {
            return Err(Failure::MergedTwice { file: other.clone() });
        }
        let read = self.read.apply(Options::new());
        let others: Vec<Reader> =
            self.others.iter().map(|other| read.read(other)).collect::<Result<_, _>>()?;
        let mut writer = self.open(&others)?;
        for other in &others {
            writer.merge_with(other, &bar::of("merging"))?;
        }
        writer.commit()?;
        Ok(writer.close()?)
    }

    fn open(&self, others: &[Reader]) -> Result<Writer, Failure> {
        match (self.lock.apply(Options::new()).open_existing(&self.file), others.first()) {
            (Err(Error::NotFound { .. }), Some(first)) => {
                Ok(self.lock.apply(Options::like(first)?).create(&self.file)?)
            }
            (outcome, _) => Ok(outcome?),
        }
    }
}
