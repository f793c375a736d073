//! Removing what no reader and no update needs any more (`format-spec/STORE.md`, section 9).
//!
//! Invariants:
//!
//! 1. Nothing is removed before a version says so: its `first` and its `fence` are the lowest numbers of versions that
//!    stay, and that updates may be based on.
//! 2. Drafts are removed before versions: see `commit.rs`.
//! 3. A file is removed only if no version that stays names it, and if the update that made it cannot be committed.
//!
//! Crash cases: whatever a vacuum has not removed, the next one removes. A version whose removal a power cut undoes is
//! below what the newest one says, and so its files are known to be gone.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::Store;
use super::error::{Error, Result};
use super::files::{Name, names};
use super::version::{FIRST, Version};
use crate::disk::Disk;
use crate::error::IoContext;
use crate::events;
use crate::system::new_uuid;

/// The operation of the version that a vacuum makes.
const VACUUM: &str = "vacuum";

/// What a vacuum leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Vacuum {
    /// Versions that stay whatever their age, the newest included; at least 1, which is what 0 means too.
    pub keep: u64,
    /// A version stays for this long after the next one was made, so that readers and updates that began with it can
    /// come to their ends; so do files of updates that are based on it.
    pub grace: Duration,
}

impl Default for Vacuum {
    /// The newest version, and whatever was the newest within the last day.
    fn default() -> Self {
        Self { keep: 1, grace: Duration::from_secs(24 * 60 * 60) }
    }
}

impl Vacuum {
    /// See [`keep`](Self::keep).
    pub const fn keep(mut self, versions: u64) -> Self {
        self.keep = versions;
        self
    }

    /// See [`grace`](Self::grace).
    pub const fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }
}

/// What a vacuum has removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Vacuumed {
    /// The version that the vacuum made; `None` if none was needed.
    pub version: Option<u64>,
    /// Versions removed.
    pub versions: u64,
    /// Files of shards removed, and what updates and commits had left.
    pub files: u64,
    /// Bytes of all these.
    pub bytes: u64,
    /// Files and folders that are none of a store's. They stay.
    pub foreign: u64,
}

/// The lowest number of a version that stays, and of one that updates may be based on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Limits {
    first: u64,
    fence: u64,
}

impl Store {
    /// Removes versions that are not to be kept, files that only they name, and what updates have left that can no
    /// longer be committed.
    ///
    /// Readers of a version that was removed get [`Error::Vacuumed`] at the next shard that they have not opened yet, and
    /// updates that are based on one get [`Error::Expired`]. Nothing is removed if a version that stays cannot be read.
    pub fn vacuum(&self, vacuum: &Vacuum) -> Result<Vacuumed> {
        let mut told = Vacuumed::default();
        let (limits, kept) = loop {
            let newest = self.newest()?;
            let limits = self.limits(&newest, vacuum)?;
            let known = Limits { first: newest.first, fence: newest.fence };
            let kept = self.kept(known.first.max(limits.first), newest.number)?;
            let next = Version {
                number: newest.number + 1,
                id: new_uuid(&self.files.root)?,
                time: SystemTime::now(),
                operation: VACUUM.to_owned(),
                base: newest.number,
                first: known.first.max(limits.first),
                fence: known.fence.max(limits.fence),
                ..newest.clone()
            };
            let next_limits = Limits { first: next.first, fence: next.fence };
            // What an earlier vacuum has said and not done needs no further version.
            if next_limits == known || !self.would_remove(&newest, next_limits, &kept)? {
                break (known, self.kept(known.first, newest.number)?);
            }
            if let Some(next) = self.try_publish(next, newest.number)? {
                told.version = Some(next.number);
                break (next_limits, kept);
            }
        };
        self.sweep(limits, &kept, &mut told)?;
        events::store_vacuumed(&self.files.root, told.versions, told.files, told.bytes);
        Ok(told)
    }

    /// Which versions and updates are to stay, by their number and age.
    fn limits(&self, newest: &Version, vacuum: &Vacuum) -> Result<Limits> {
        // The vacuum's own version will be the newest, and the one before it is superseded then.
        let own = newest.number + 1;
        let now = SystemTime::now();
        // A clock that was set back makes versions of the future; they are not old.
        let is_old = |next: &Version| now.duration_since(next.time).is_ok_and(|age| age >= vacuum.grace);
        let mut fence = if vacuum.grace.is_zero() { own } else { newest.number };
        let mut next = newest.clone();
        // Versions are made one after the other, so once one was superseded long enough ago, so were those before it.
        while fence == next.number && fence > newest.first && !is_old(&next) {
            fence -= 1;
            match self.load(fence)? {
                Some(version) => next = version,
                None => break,
            }
        }
        let kept = own.saturating_sub(vacuum.keep.max(1)) + 1;
        Ok(Limits { first: fence.min(kept).max(FIRST), fence })
    }

    /// The names of all files that versions from `first` on name, as far as `newest`.
    fn kept(&self, first: u64, newest: u64) -> Result<BTreeSet<(u32, Name)>> {
        let mut kept = BTreeSet::new();
        for number in first.min(newest)..=newest {
            // One that is gone was removed by another vacuum, and its files may go too.
            let Some(version) = self.load(number)? else { continue };
            kept.extend(version.shards.iter().map(|(shard, file)| (*shard, file.name)));
        }
        Ok(kept)
    }

    /// Whether there is anything to be removed. The one version that the last vacuum had to leave is not worth another.
    fn would_remove(&self, newest: &Version, limits: Limits, kept: &BTreeSet<(u32, Name)>) -> Result<bool> {
        let below = self.files.version_numbers()?.into_iter().filter(|number| *number < limits.first).count();
        let mut removes = below > usize::from(newest.operation == VACUUM);
        self.each_leftover(limits, kept, &mut |_| {
            removes = true;
            Ok(())
        })?;
        Ok(removes)
    }

    /// Calls `found` for each file that may be removed; returns how many files are none of a store's.
    fn each_leftover(
        &self,
        limits: Limits,
        kept: &BTreeSet<(u32, Name)>,
        found: &mut dyn FnMut(&Path) -> Result<()>,
    ) -> Result<u64> {
        let mut foreign = 0;
        for shard in 0..self.description.shards {
            let folder = self.files.shard_folder(shard);
            for file in names(&folder)? {
                match file.to_str().and_then(Name::of_filter) {
                    Some(name) if name.base < limits.fence && !kept.contains(&(shard, name)) => {
                        found(&folder.join(&file))?;
                    }
                    Some(_) => {}
                    None => foreign += 1,
                }
            }
        }
        for file in names(&self.files.incoming)? {
            match file.to_str().and_then(Name::begin_of) {
                Some((name, _)) if name.base < limits.fence => found(&self.files.incoming.join(&file))?,
                Some(_) => {}
                None => foreign += 1,
            }
        }
        Ok(foreign)
    }

    /// Removes what the newest version says may go.
    fn sweep(&self, limits: Limits, kept: &BTreeSet<(u32, Name)>, told: &mut Vacuumed) -> Result<()> {
        let disk = &**self.disk();
        for file in names(&self.files.incoming)? {
            let draft = file.to_str().and_then(Name::begin_of).filter(|(_, rest)| *rest == ".toml");
            if draft.is_some_and(|(name, _)| name.base < limits.fence) {
                remove(disk, &self.files.incoming.join(&file), told)?;
                told.files += 1;
            }
        }
        // Protects: the numbers of versions. A draft that came back could be linked to a number that was removed.
        disk.sync_dir(&self.files.incoming).at(&self.files.incoming, "sync")?;
        let mut old = self.files.version_numbers()?;
        old.retain(|number| *number < limits.first);
        // Ascending: whoever lists them meanwhile, and misses one, does not take an older one for the newest.
        old.sort_unstable();
        for number in old {
            remove(disk, &self.files.version(number), told)?;
            told.versions += 1;
        }
        let mut files = 0;
        told.foreign = self.each_leftover(limits, kept, &mut |path| {
            files += 1;
            remove(disk, path, told)
        })?;
        told.files += files;
        Ok(())
    }
}

/// Removes a file; another vacuum may have done so.
fn remove(disk: &dyn Disk, path: &Path, told: &mut Vacuumed) -> Result<()> {
    let bytes = path.symlink_metadata().map_or(0, |metadata| metadata.len());
    match disk.remove(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        outcome => {
            outcome.at(path, "remove").map_err(Error::from)?;
            told.bytes += bytes;
            Ok(())
        }
    }
}
