//! Dividing a filter into shards, by cutting its regions apart. No key is needed: S shards of R regions hold exactly what
//! one filter of S * R regions holds. `format-spec/README.md`, sections 3.5 and 8.6.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::doubling::{count_region, each_descendant};
use super::writer::Writer;
use crate::cuckoo::{Counts, MAX_REGIONS, RegionId, Shard, with_width};
use crate::error::{Error, GrowthRefusal, IoContext, Result};
use crate::file::{Flush, UnpublishedFile};
use crate::format::{Geometry, Identity, Policy};
use crate::options::Options;
use crate::read::{Attempts, InVain, Reader, View, copy_regions};
use crate::system::{Disk, Files, Rights, new_uuid};

/// How a filter is cut apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cut {
    parts: u64,
    /// How often each region is split before.
    doublings: u32,
    /// Regions of each part.
    regions: u64,
    /// The generation of each part: it has doubled so often, as far as its regions can be halved again.
    generation: u32,
}

impl Cut {
    /// `None` where no number of doublings makes equal parts.
    fn new(geometry: Geometry, parts: u64) -> Option<Self> {
        let regions = geometry.regions();
        let doublings = (0..=u64::BITS).find_map(|doublings| {
            let all = regions.checked_shl(doublings).filter(|all| *all <= MAX_REGIONS)?;
            all.is_multiple_of(parts).then_some((doublings, all / parts))
        });
        let (doublings, regions) = doublings?;
        let generation = (geometry.generation + doublings).min(regions.trailing_zeros());
        Some(Self { parts, doublings, regions, generation })
    }

    fn geometry(self, of: Geometry, part: u64) -> Geometry {
        let shard = Shard { of: of.shard.of * self.parts, number: of.shard.number * self.parts + part };
        let base_regions = self.regions >> self.generation;
        Geometry { base_regions, generation: self.generation, shard, ..of }
    }
}

impl Reader {
    /// Divides the filter, as of one commit, into as many shards as there are destinations, whose files must not exist.
    ///
    /// Of a whole filter, the first destination gets shard 0 of k; of shard s of S, it gets shard `s * k` of `S * k`.
    /// Together they answer as the filter does, false positives included. k must divide the filter's regions, or do so
    /// after some doublings; the shards are doubled so often then, and no more. Seed, limits and metadata are those of
    /// the filter. Entries are counted anew for each shard. Inserts and removals so far are divided in proportion to
    /// them; where inserts stored nothing, each shard has at least one of those, so that removals stay refused.
    ///
    /// `progress` is told the regions written, and all there are. The disk's room for all shards is asked for first.
    /// Nothing has its name before everything is written; then one shard after the other gets its name. Fails with
    /// [`Error::Indivisible`], and as [`copy_to`](Self::copy_to) does.
    pub fn divide_to<P: AsRef<Path>>(
        &self,
        destinations: &[P],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        let mut attempts = Attempts::first();
        loop {
            let view = self.view()?;
            let failed = match self.try_divide(&view, destinations, progress)? {
                Ok(writers) => {
                    let publish = |mut writer: Writer| {
                        writer.commit()?;
                        writer.close()
                    };
                    return writers.into_iter().try_for_each(publish);
                }
                Err(failed) => failed,
            };
            if failed == InVain::NotBegun {
                // The writer may have died. Opening the file anew recovers it.
                self.reopen(&view)?;
            }
            if !attempts.again(failed) {
                return Err(Error::Busy { path: self.path().to_owned(), op: "copied" });
            }
        }
    }

    fn try_divide<P: AsRef<Path>>(
        &self,
        view: &View,
        destinations: &[P],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Result<Vec<Writer>, InVain>> {
        let Some(copy) = view.settled_live_copy() else { return Ok(Err(InVain::NotBegun)) };
        let (before, metadata) = copy?;
        let geometry = view.superblock.identity.geometry;
        let parts = destinations.len() as u64;
        let indivisible =
            || Error::Indivisible { path: self.path().to_owned(), regions: geometry.regions(), parts };
        if parts == 0 {
            return Err(indivisible());
        }
        let cut = Cut::new(geometry, parts).ok_or_else(indivisible)?;
        if cut.regions * parts > geometry.shard.most_regions() {
            let reason = GrowthRefusal::Regions(MAX_REGIONS);
            return Err(Error::Growth { path: self.path().to_owned(), reason });
        }
        let options = Options::new();
        let files: Vec<Files> =
            destinations.iter().map(|path| Files::new(path.as_ref())).collect::<Result<_>>()?;
        check_room(&files, &*options.disk, cut.geometry(geometry, 0))?;
        let model = File::open(self.path()).and_then(|file| Rights::of(&file)).at(self.path(), "look at")?;
        let mut totals = Totals::new(&before.counts);
        let policy = divided(view.superblock.policy, parts);
        let mut writers = Vec::new();
        for (part, files) in (0..).zip(files) {
            let identity = Identity {
                uuid: new_uuid(&files.data)?,
                geometry: cut.geometry(geometry, part),
                ..view.superblock.identity
            };
            let all = cut.regions * parts;
            let progress = &mut |done, _| progress(part * cut.regions + done, all);
            let fill = |files: &Files| {
                let (file, found) =
                    write_part(view, files, &options, identity, &model, (cut, part), progress)?;
                Ok((file, totals.of_part(found)))
            };
            match Writer::create_filled(files, &options, policy, metadata.clone(), fill) {
                Ok(writer) => writers.push(writer),
                Err(Error::Busy { .. }) => return Ok(Err(InVain::Torn)),
                Err(error) => return Err(error),
            }
        }
        Ok(if self.is_still(view, &before) { Ok(writers) } else { Err(InVain::Torn) })
    }
}

/// Fills the file of one part; returns it with the entries counted.
fn write_part(
    view: &View,
    files: &Files,
    options: &Options,
    identity: Identity,
    model: &Rights,
    (cut, part): (Cut, u64),
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(UnpublishedFile, Counts)> {
    let mut counts = Counts::default();
    let geometry = identity.geometry;
    // Regions of the whole that a part ends in belong to the next one too.
    let (first, end) = (part * cut.regions, (part + 1) * cut.regions);
    let parents = first >> cut.doublings..end.div_ceil(1 << cut.doublings);
    // While the next part is written, a thread syncs the end of this one.
    let file = UnpublishedFile::fill(files, &options.disk, identity, Some(model), Flush::AndGoOn, |write| {
        let mut next = parents.start << cut.doublings;
        copy_regions(
            view,
            parents.clone(),
            &mut |_, words, _| {
                with_width!(geometry.slots, W => each_descendant::<W>(words, cut.doublings, &mut |words| {
                    if (first..end).contains(&next) {
                        count_region::<W>(words, &mut counts);
                        write(RegionId((next - first) as u32), words)?;
                        progress(next - first + 1, cut.regions);
                    }
                    next += 1;
                    Ok(())
                }))
            },
            &mut |_, _| (),
        )
    })?;
    Ok((file, counts))
}

/// Fails unless the file systems of all destinations have room for as many files of this geometry.
fn check_room(files: &[Files], disk: &dyn Disk, geometry: Geometry) -> Result<()> {
    let mut by_device: BTreeMap<u64, (&Files, u64)> = BTreeMap::new();
    for files in files {
        let device = files.dir.metadata().at(&files.dir, "look at")?.dev();
        by_device.entry(device).or_insert((files, 0)).1 += geometry.file_length();
    }
    for (files, needed) in by_device.into_values() {
        let available = disk.available(&files.dir).at(&files.dir, "ask for the free space of")?;
        if available < needed {
            return Err(Error::NoSpace { path: files.data.clone(), needed, available });
        }
    }
    Ok(())
}

/// What each part was asked to be: capacity and the limit of its file are those of all, divided.
const fn divided(policy: Policy, parts: u64) -> Policy {
    let Policy { capacity, max_file_size, .. } = policy;
    Policy { capacity: capacity.div_ceil(parts), max_file_size: max_file_size.div_ceil(parts), ..policy }
}

/// Counters of what happened, which no scan finds: each part gets its share by the entries that it has, and all shares
/// add up.
struct Totals {
    all: Counts,
    /// Entries of the parts so far.
    entries: u128,
}

impl Totals {
    const fn new(all: &Counts) -> Self {
        Self { all: *all, entries: 0 }
    }

    fn of_part(&mut self, found: Counts) -> Counts {
        let all = u128::from(self.all.entries().max(1));
        let (from, to) = (self.entries.min(all), (self.entries + u128::from(found.entries())).min(all));
        self.entries = to;
        let share = |total: u64| {
            let up_to = |entries: u128| (u128::from(total) * entries / all) as u64;
            up_to(to) - up_to(from)
        };
        let Counts { inserted, removed, .. } = self.all;
        Counts { inserted: share(inserted), removed: share(removed), ..found }
    }
}
