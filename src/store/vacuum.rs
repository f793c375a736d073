//! Removes files that no reader and no update needs any more (`format-spec/STORE.md`, section 9).
//!
//! Invariants:
//!
//! 1. Nothing is removed before a version says so: its `first` is the lowest number of a version that stays, and its
//!    `fence` the lowest on which updates may be based. The bases of its tokens also stay, so that retries find them.
//! 2. Drafts are removed before versions: see `commit.rs`.
//! 3. A file is removed only if no remaining version names it, and if the update that made it can no longer be committed.
//!
//! Crash cases: the next vacuum removes what this one did not. If a power cut undoes the removal of a version, that
//! version is below `first` of the newest version, so readers know that its files may be gone.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use super::Store;
#[cfg(doc)]
use super::Token;
use super::error::{Error, Result};
use super::files::{self, INCOMING, Name, RUNS};
use super::storage::{Storage, Upload};
use super::version::{FIRST, Version};
use crate::events;
use crate::system::new_uuid;

/// The operation of a version that a vacuum makes.
const VACUUM: &str = "vacuum";
/// A commit vacuums only if at least this many versions can go: a vacuum also makes a version, and lists every folder.
const WORTH: u64 = 16;

/// What a vacuum keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Vacuum {
    /// How many of the newest versions stay at any age: at least 1; 0 means 1.
    pub keep: u64,
    /// A version stays for this long after the next one was made, so that readers and updates that began with it can
    /// finish. Files of updates that are based on it stay equally long.
    #[cfg_attr(feature = "serde", serde(serialize_with = "millis"))]
    pub grace: Duration,
}

#[cfg(feature = "serde")]
fn millis<S: serde::Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

impl Default for Vacuum {
    /// Keeps the newest version, and every version that was the newest within the last day.
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

/// What a vacuum removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Vacuumed {
    /// The version that the vacuum made; `None` if none was needed.
    pub version: Option<u64>,
    /// Versions removed.
    pub versions: u64,
    /// Files of shards and runs removed, and leftovers of updates and commits.
    pub files: u64,
    /// How many bytes these files had.
    pub bytes: u64,
    /// Files and folders that do not belong to a store. They are not removed.
    pub foreign: u64,
    /// Multipart uploads that can no longer become part of the store, and were aborted. `bytes` does not count them: the
    /// server does not tell their sizes.
    pub uploads: u64,
    /// Whether the server refused to list such uploads, so that they remain.
    pub uploads_hidden: bool,
}

/// The numbers below which a vacuum removes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cutoffs {
    /// The lowest number of a version that stays for its age or its number.
    first: u64,
    /// The lowest number of a version on which updates may be based.
    fence: u64,
}

/// What a vacuum does.
struct VacuumPlan {
    limits: Cutoffs,
    staying: Staying,
    /// Whether a new version must publish the limits before anything is removed.
    is_new: bool,
}

/// The versions and files that stay.
struct Staying {
    /// Versions that the last tokens of applications are based on, ascending.
    bases: Vec<u64>,
    /// The files of shards that these versions name, or any version from `Cutoffs::first` on.
    files: BTreeSet<(u32, Name)>,
    /// The runs that the same versions name.
    runs: BTreeSet<Name>,
}

impl Store {
    /// Removes versions that need not be kept, files that only they name, and files of updates that can no longer be
    /// committed.
    ///
    /// Readers of a removed version get [`Error::Vacuumed`] at the next shard that they have not opened yet. Updates
    /// based on a removed version get [`Error::Expired`]. Nothing is removed if a version that stays cannot be read.
    ///
    /// The version on which each application's last commit with a [`Token`] was based stays, whatever its age, so that a
    /// retry is judged as the first attempt was. A commit with a higher token, even without changes, releases it.
    pub fn vacuum(&self, vacuum: &Vacuum) -> Result<Vacuumed> {
        self.left_open.take();
        let mut vacuumed = Vacuumed::default();
        let plan = loop {
            let newest = self.newest()?;
            let Some(plan) = self.plan(&newest, vacuum)? else { continue };
            if !plan.is_new {
                break plan;
            }
            let next = Version {
                number: newest.number + 1,
                id: new_uuid(&self.root)?,
                time: SystemTime::now(),
                operation: VACUUM.to_owned(),
                base: newest.number,
                first: plan.limits.first,
                fence: plan.limits.fence,
                ..newest.clone()
            };
            if let Some(next) = self.try_publish(next, newest.number)? {
                vacuumed.version = Some(next.number);
                break plan;
            }
        };
        self.sweep(plan.limits, &plan.staying, &mut vacuumed)?;
        events::store_vacuumed(&self.root, vacuumed.versions, vacuumed.files, vacuumed.bytes);
        Ok(vacuumed)
    }

    /// What a vacuum would remove now. Removes nothing and makes no version, but lists all folders and measures each file
    /// that would be removed.
    pub fn would_vacuum(&self, vacuum: &Vacuum) -> Result<Vacuumed> {
        let plan = loop {
            if let Some(plan) = self.plan(&self.newest()?, vacuum)? {
                break plan;
            }
        };
        let (storage, mut vacuumed) = (&*self.storage, Vacuumed::default());
        for number in self.removable(plan.limits, &plan.staying)? {
            vacuumed.versions += 1;
            vacuumed.bytes += storage.length(&files::version(number))?.unwrap_or_default();
        }
        let (mut files, mut bytes) = (0, 0);
        vacuumed.foreign = self.each_leftover(plan.limits, &plan.staying, &mut |name| {
            files += 1;
            bytes += storage.length(name)?.unwrap_or_default();
            Ok(())
        })?;
        (vacuumed.files, vacuumed.bytes) = (files, vacuumed.bytes + bytes);
        let uploads = storage.uploads()?;
        vacuumed.uploads_hidden = uploads.is_none();
        let left = uploads.into_iter().flatten().filter(|upload| is_left(upload, plan.limits));
        vacuumed.uploads = left.count() as u64;
        Ok(vacuumed)
    }

    /// Vacuums after the commit of a version, if the store's description says so and enough can be removed. A failure of
    /// the vacuum does not fail the commit: the next commit tries again.
    pub(super) fn vacuum_after(&self, version: &Version) {
        let Some(vacuum) = self.description.auto_vacuum else { return };
        let outcome = self
            .is_worth_a_vacuum(version, &vacuum)
            .and_then(|is_worth| if is_worth { self.vacuum(&vacuum).map(drop) } else { Ok(()) });
        if let Err(error) = outcome {
            events::store_not_vacuumed(&self.root, &error);
        }
    }

    /// Whether at least as many versions can be removed as are kept, and at least [`WORTH`]. Reads at most one version.
    fn is_worth_a_vacuum(&self, newest: &Version, vacuum: &Vacuum) -> Result<bool> {
        // The lowest version that would stay.
        let stays = newest.first.saturating_add(vacuum.keep.max(WORTH));
        if newest.number < stays.saturating_add(vacuum.keep - 1) {
            return Ok(false);
        }
        let Some(Version { time, .. }) = self.load(stays)? else { return Ok(false) };
        Ok(SystemTime::now().duration_since(time).is_ok_and(|age| age >= vacuum.grace))
    }

    /// The plan of a vacuum for which this version is the newest; `None` if another vacuum has removed a version since.
    fn plan(&self, newest: &Version, vacuum: &Vacuum) -> Result<Option<VacuumPlan>> {
        let known = Cutoffs { first: newest.first, fence: newest.fence };
        let limits = self.limits(newest, vacuum);
        let Some(staying) = self.staying(limits, newest)? else { return Ok(None) };
        // An earlier vacuum has published these limits; finishing its work needs no further version.
        if limits == known {
            return Ok(Some(VacuumPlan { limits, staying, is_new: false }));
        }
        if self.would_remove(newest, limits, &staying)? {
            return Ok(Some(VacuumPlan { limits, staying, is_new: true }));
        }
        let staying = self.staying(known, newest)?;
        Ok(staying.map(|staying| VacuumPlan { limits: known, staying, is_new: false }))
    }

    /// Which versions and updates stay, by number and age. Neither number is lower than in `newest`.
    fn limits(&self, newest: &Version, vacuum: &Vacuum) -> Cutoffs {
        // The vacuum's own version will be the newest, and will supersede the one before it.
        let own = newest.number + 1;
        let fence = if vacuum.grace.is_zero() { own } else { self.lowest_not_old(newest, vacuum.grace) };
        let kept = own.saturating_sub(vacuum.keep.max(1)) + 1;
        Cutoffs { first: fence.min(kept).max(newest.first), fence: fence.max(newest.fence) }
    }

    /// The lowest number of a version that was the newest within the last grace. Times of versions ascend; a time below
    /// an earlier one, or in the future, comes from a wrong clock and is ignored.
    fn lowest_not_old(&self, newest: &Version, grace: Duration) -> u64 {
        let now = SystemTime::now();
        let (mut lowest, mut latest) = (newest.first, SystemTime::UNIX_EPOCH);
        for number in newest.first..=newest.number {
            // If a version that stays cannot be read, `staying` fails.
            let Ok(Some(Version { time, .. })) = self.load(number) else { continue };
            let Some(age) = now.duration_since(time).ok().filter(|_| time >= latest) else { continue };
            if age < grace {
                break;
            }
            (lowest, latest) = (number, time);
        }
        lowest
    }

    /// The versions that stay, and the files that they name; `None` if another vacuum has removed a version.
    fn staying(&self, limits: Cutoffs, newest: &Version) -> Result<Option<Staying>> {
        let mut bases: Vec<u64> = newest.bases().collect();
        bases.sort_unstable();
        bases.dedup();
        let (mut files, mut runs) = (BTreeSet::new(), BTreeSet::new());
        // The version that this vacuum makes names the same files as the newest one.
        let first = limits.first.min(newest.number);
        for number in bases.iter().copied().filter(|base| *base < first).chain(first..=newest.number) {
            // Not read again: after another vacuum, an object store may have another text under its number.
            let loaded = if number == newest.number { Some(newest.clone()) } else { self.load(number)? };
            let Some(version) = loaded else {
                let is_newest = self.newest_number(newest.number)? == Some(newest.number);
                let (path, newest) = (self.path_of(&files::version(number)), newest.number);
                return if is_newest { Err(Error::MissingVersion { path, newest }) } else { Ok(None) };
            };
            files.extend(version.shards.iter().map(|(shard, file)| (*shard, file.name)));
            runs.extend(version.runs.iter().map(|run| run.name));
        }
        Ok(Some(Staying { bases, files, runs }))
    }

    /// The versions that a listing shows and that may be removed, ascending.
    fn removable(&self, limits: Cutoffs, staying: &Staying) -> Result<Vec<u64>> {
        let mut numbers = self.listed(FIRST)?;
        numbers.retain(|number| *number < limits.first && staying.bases.binary_search(number).is_err());
        Ok(numbers)
    }

    /// Whether anything would be removed. If only the version before the last vacuum's own version is left to remove,
    /// that is not worth a further version.
    fn would_remove(&self, newest: &Version, limits: Cutoffs, staying: &Staying) -> Result<bool> {
        let mut removes = self.removable(limits, staying)?.len() > usize::from(newest.operation == VACUUM);
        self.each_leftover(limits, staying, &mut |_| {
            removes = true;
            Ok(())
        })?;
        let uploads = self.storage.uploads()?.unwrap_or_default();
        Ok(removes || uploads.iter().any(|upload| is_left(upload, limits)))
    }

    /// Calls `found` for each file that may be removed; returns how many files do not belong to a store.
    fn each_leftover(
        &self,
        limits: Cutoffs,
        staying: &Staying,
        found: &mut dyn FnMut(&str) -> Result<()>,
    ) -> Result<u64> {
        let mut foreign = 0;
        for shard in 0..self.description.shards {
            let folder = files::shard_folder(shard);
            for file in self.storage.list(&folder, "")? {
                match Name::of_filter(&file) {
                    Some(name) if name.base < limits.fence && !staying.files.contains(&(shard, name)) => {
                        found(&format!("{folder}/{file}"))?;
                    }
                    Some(_) => {}
                    None => foreign += 1,
                }
            }
        }
        for file in self.storage.list(RUNS, "")? {
            match Name::of_run(&file) {
                Some(name) if name.base < limits.fence && !staying.runs.contains(&name) => {
                    found(&format!("{RUNS}/{file}"))?;
                }
                Some(_) => {}
                None => foreign += 1,
            }
        }
        for file in self.storage.list(INCOMING, "")? {
            match Name::begin_of(&file) {
                Some((name, _)) if name.base < limits.fence => found(&files::incoming(&file))?,
                Some(_) => {}
                None => foreign += 1,
            }
        }
        Ok(foreign)
    }

    /// Removes the files that may go by the newest version.
    fn sweep(&self, limits: Cutoffs, staying: &Staying, vacuumed: &mut Vacuumed) -> Result<()> {
        let storage = &*self.storage;
        for file in storage.list(INCOMING, "")? {
            let draft = Name::begin_of(&file).filter(|(_, rest)| *rest == ".toml");
            if draft.is_some_and(|(name, _)| name.base < limits.fence) {
                remove(storage, &files::incoming(&file), vacuumed)?;
                vacuumed.files += 1;
            }
        }
        // Protects: the numbers of versions. A draft that came back could be linked to a removed number.
        storage.settle(INCOMING)?;
        // Ascending, so that every listing ends with the newest version.
        for number in self.removable(limits, staying)? {
            remove(storage, &files::version(number), vacuumed)?;
            vacuumed.versions += 1;
        }
        let mut files = 0;
        vacuumed.foreign = self.each_leftover(limits, staying, &mut |name| {
            files += 1;
            remove(storage, name, vacuumed)
        })?;
        vacuumed.files += files;
        let uploads = self.storage.uploads()?;
        vacuumed.uploads_hidden = uploads.is_none();
        for upload in uploads.into_iter().flatten().filter(|upload| is_left(upload, limits)) {
            storage.give_up(&upload)?;
            vacuumed.uploads += 1;
        }
        Ok(())
    }
}

/// Whether an upload is of a sealed file that can no longer be committed. No version names a file whose upload is
/// unfinished.
fn is_left(upload: &Upload, limits: Cutoffs) -> bool {
    let file = upload.name.rsplit('/').next().unwrap_or_default();
    let name = Name::of_filter(file).or_else(|| Name::of_run(file));
    name.is_some_and(|name| name.base < limits.fence)
}

/// Removes a file, unless another vacuum has already removed it.
fn remove(storage: &dyn Storage, name: &str, vacuumed: &mut Vacuumed) -> Result<()> {
    vacuumed.bytes += storage.delete(name)?.unwrap_or_default();
    Ok(())
}

#[cfg(test)]
mod tests;
