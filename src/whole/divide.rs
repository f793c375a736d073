//! Dividing a filter into shards, by cutting its regions apart. No key is needed: S shards of R regions hold exactly what
//! one filter of S * R regions holds. `format-spec/README.md`, sections 3.5 and 8.6.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::cuckoo::{Counts, MAX_REGIONS, RegionId, Shard, each_descendant, with_any_width};
use crate::error::{Error, GrowthRefusal, IoContext, Result};
use crate::file::{Flush, Region, UnpublishedFile};
use crate::format::{Geometry, Identity, Policy};
use crate::options::Options;
use crate::read::{Reader, Snapshot};
use crate::system::{Disk, Files, Rights, new_uuid};
use crate::write::Writer;

/// How to cut a filter apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cut {
    parts: u64,
    /// How often each region is first split.
    doublings: u32,
    /// Regions of each part.
    regions: u64,
    /// The generation of each part: the doublings of the filter plus `doublings`, but at most as often as the part's
    /// regions can be halved.
    generation: u32,
}

impl Cut {
    /// How to cut the filter at `path`. Fails if no number of doublings makes equal parts, or if there would be too many
    /// regions.
    fn of(path: &Path, geometry: Geometry, parts: u64) -> Result<Self> {
        let regions = geometry.regions();
        let cut = Self::new(geometry, parts).ok_or_else(|| Error::Indivisible {
            path: path.to_owned(),
            regions,
            parts,
        })?;
        if cut.regions * parts > geometry.shard.most_regions() {
            let reason = GrowthRefusal::Regions(MAX_REGIONS);
            return Err(Error::Growth { path: path.to_owned(), reason });
        }
        Ok(cut)
    }

    /// `None` if no number of doublings makes equal parts.
    fn new(geometry: Geometry, parts: u64) -> Option<Self> {
        let regions = geometry.regions();
        // The format has no room for more doublings. A further doubling could shift all bits out, and 0 regions would be
        // divisible by any number.
        let most = (MAX_REGIONS / regions).checked_ilog2()?;
        let doublings = (0..=most).find(|doublings| (regions << doublings).is_multiple_of(parts))?;
        let regions = (regions << doublings) / parts;
        let generation = (geometry.generation + doublings).min(regions.trailing_zeros());
        Some(Self { parts, doublings, regions, generation })
    }

    /// The geometry of part `part`; `None` beyond the last.
    fn geometry(self, of: Geometry, part: u64) -> Option<Geometry> {
        let number = of.shard.number.checked_mul(self.parts)?.checked_add(part)?;
        let shard = Shard { of: of.shard.of.checked_mul(self.parts)?, number };
        let geometry =
            Geometry::new(of.width, self.regions >> self.generation, self.generation, shard).ok()?;
        Some(geometry.marked(self.doublings > 0))
    }
}

impl Reader {
    /// Fails as [`divide_to`](Self::divide_to) would, if the filter cannot be divided into `parts` parts.
    #[cfg(feature = "store")]
    pub(crate) fn check_divisible(&self, parts: u64) -> Result<()> {
        let identity = self.identity()?;
        identity.keeps_no_newest(self.path(), "a division")?;
        Cut::of(self.path(), identity.geometry, parts).map(drop)
    }

    /// Divides the filter, as of one commit, into as many shards as there are destinations, whose files must not exist.
    ///
    /// With k destinations, the first gets shard 0 of k if the filter takes every key. If the filter is shard s of S, the
    /// first gets shard `s * k` of `S * k`. Together the shards answer as the filter does, false positives included. The
    /// filter's number of regions must be divisible by k, or become divisible after some doublings; the shards are then
    /// doubled as often. The shards have the filter's seed, limits and metadata; capacity and size limit are divided by
    /// k. Entries are counted anew for each shard, and shards of a forgetting filter have its time. The counters of
    /// inserts and removals are divided in proportion to the entries.
    ///
    /// `progress` receives the number of regions written, and of all regions. The call first checks that the disk has
    /// room for all shards. The shards get their names one after the other, once all are written. Fails with
    /// [`Error::Indivisible`], and as [`copy_to`](Self::copy_to) does.
    pub fn divide_to<P: AsRef<Path>>(
        &self,
        destinations: &[P],
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<()> {
        let writers = self.at_one_commit("copied", |snapshot| divided(snapshot, destinations, progress))?;
        writers.into_iter().try_for_each(|mut writer| {
            writer.commit()?;
            writer.close()
        })
    }
}

/// The writers of the parts, which have no names yet.
fn divided<P: AsRef<Path>>(
    snapshot: &Snapshot<'_>,
    destinations: &[P],
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Vec<Writer>> {
    let (path, geometry) = (snapshot.reader().path(), snapshot.identity().geometry);
    snapshot.identity().keeps_no_newest(path, "a division")?;
    let parts = destinations.len() as u64;
    let cut = Cut::of(path, geometry, parts)?;
    let geometries: Option<Vec<Geometry>> = (0..parts).map(|part| cut.geometry(geometry, part)).collect();
    let indivisible = || Error::Indivisible { path: path.to_owned(), regions: geometry.regions(), parts };
    let geometries = geometries.ok_or_else(indivisible)?;
    let options = Options::new();
    let files: Vec<Files> =
        destinations.iter().map(|path| Files::new(path.as_ref())).collect::<Result<_>>()?;
    check_room(files.iter().zip(&geometries), &*options.disk)?;
    let model = File::open(path).and_then(|file| Rights::of(&file)).at(path, "look at")?;
    let mut totals = Totals::new(snapshot.counts());
    let policy = divided_policy(snapshot.policy(), parts);
    let write_each = |((part, files), geometry): ((u64, Files), Geometry)| {
        let identity = Identity { uuid: new_uuid(&files.data)?, geometry, ..*snapshot.identity() };
        let all = cut.regions * parts;
        let progress = &|done| progress(part * cut.regions + done, all);
        let fill = |files: &Files| {
            let (file, found) =
                write_part(snapshot, files, &options, identity, &model, (cut, part), progress)?;
            Ok((file, totals.of_part(found)))
        };
        let metadata = snapshot.metadata().clone();
        Writer::create_filled(files, &options, policy, metadata, Some(&model), fill)
    };
    (0..).zip(files).zip(geometries).map(write_each).collect()
}

/// Fills the file of one part. Returns it, with its entries counted.
fn write_part(
    snapshot: &Snapshot<'_>,
    files: &Files,
    options: &Options,
    identity: Identity,
    model: &Rights,
    (cut, part): (Cut, u64),
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(UnpublishedFile, Counts)> {
    let mut counts = Counts::default();
    let geometry = identity.geometry;
    // If a part ends within a region of the filter, the next part reads this region again.
    let (first, end) = (part * cut.regions, (part + 1) * cut.regions);
    let parents = first >> cut.doublings..end.div_ceil(1 << cut.doublings);
    let disk = &options.disk;
    // A thread syncs the end of this part while the next part is written.
    let file = UnpublishedFile::fill(files, disk, identity, Some(model), Flush::AndGoOn, &mut |write| {
        let mut next = parents.start << cut.doublings;
        let each = &mut |words: &Region| {
            if (first..end).contains(&next) {
                with_any_width!(geometry.width, W => counts.tally_all::<W>(words));
                write(RegionId((next - first) as u32), words)?;
                progress(next - first + 1);
            }
            next += 1;
            Ok(())
        };
        let (width, is_marked) = (snapshot.identity().geometry.width, geometry.width.is_marked);
        snapshot.regions(parents.clone(), &mut |_, words, _| {
            with_any_width!(width, W => each_descendant::<W, _>(words, cut.doublings, is_marked, each))
        })
    })?;
    Ok((file, counts.in_a(identity.kind)))
}

/// Fails if the file system of a destination lacks room for the files.
fn check_room<'a>(files: impl Iterator<Item = (&'a Files, &'a Geometry)>, disk: &dyn Disk) -> Result<()> {
    let mut by_device: Vec<(u64, &Files, u64)> = Vec::new();
    for (files, geometry) in files {
        let device = files.dir.metadata().at(&files.dir, "look at")?.dev();
        match by_device.iter_mut().find(|(other, ..)| *other == device) {
            Some((.., needed)) => *needed += geometry.file_length(),
            None => by_device.push((device, files, geometry.file_length())),
        }
    }
    for (_, files, needed) in by_device {
        let available = disk.available(&files.dir).at(&files.dir, "ask for the free space of")?;
        if available < needed {
            return Err(Error::NoSpace { path: files.data.clone(), needed, available });
        }
    }
    Ok(())
}

/// The policy of each part: capacity and size limit are divided by the number of parts.
const fn divided_policy(policy: Policy, parts: u64) -> Policy {
    let Policy { capacity, max_file_size, .. } = policy;
    Policy { capacity: capacity.div_ceil(parts), max_file_size: max_file_size.div_ceil(parts), ..policy }
}

/// The counters that no scan can find. Each part gets a share in proportion to its entries, and the shares add up.
struct Totals {
    all: Counts,
    /// How many entries the finished parts have.
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
        let Counts { inserted, removed, epoch, .. } = self.all;
        Counts { inserted: share(inserted), removed: share(removed), epoch, ..found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuckoo::SlotsPerBucket;

    /// Geometries of this many regions, one for each generation that the number allows.
    fn of(regions: u64, shard: Shard) -> impl Iterator<Item = Geometry> {
        (0..=regions.trailing_zeros()).map(move |generation| {
            Geometry::new(SlotsPerBucket::Four, regions >> generation, generation, shard).unwrap()
        })
    }

    /// How often the regions must double until `parts` divides them, computed with wide numbers. `None` if the odd factor
    /// of `parts` does not divide them.
    fn doublings(regions: u64, parts: u64) -> Option<u32> {
        let missing = parts.trailing_zeros().saturating_sub(regions.trailing_zeros());
        let odd = parts >> parts.trailing_zeros();
        let fits = u128::from(regions) << missing <= u128::from(MAX_REGIONS);
        (regions.is_multiple_of(odd) && fits).then_some(missing)
    }

    fn check(geometry: Geometry, parts: u64, numbers: impl Iterator<Item = u64>) {
        let regions = geometry.regions();
        let cut = Cut::new(geometry, parts);
        assert_eq!(cut.map(|cut| cut.doublings), doublings(regions, parts), "{regions} into {parts}");
        let Some(cut) = cut else { return };
        assert_eq!(u128::from(cut.regions) * u128::from(parts), u128::from(regions) << cut.doublings);
        if cut.regions * parts > geometry.shard.most_regions() {
            assert!(Cut::of(Path::new("f"), geometry, parts).is_err());
            return;
        }
        for part in numbers {
            let found = cut.geometry(geometry, part).unwrap();
            assert_eq!(found.regions(), cut.regions);
            assert!(found.generation <= geometry.generation + cut.doublings);
            let Shard { of, number } = geometry.shard;
            assert_eq!(found.shard, Shard { of: of * parts, number: number * parts + part });
        }
        assert_eq!(cut.geometry(geometry, parts * (geometry.shard.of - geometry.shard.number)), None);
    }

    #[test]
    fn regions_are_cut_into_equal_parts_or_not_at_all() {
        for regions in 1..=64 {
            for parts in 1..=64 {
                for shard in [Shard::WHOLE, Shard { of: 3, number: 2 }] {
                    of(regions, shard).for_each(|geometry| check(geometry, parts, 0..parts));
                }
            }
            of(regions, Shard::WHOLE).for_each(|geometry| assert_eq!(Cut::new(geometry, 0), None));
        }
    }

    #[test]
    fn no_more_regions_are_asked_for_than_the_format_has() {
        let most = MAX_REGIONS;
        for regions in [most, most - 1, most / 2, most / 2 + 1, most / 2 - 1, most / 3, (1 << 31) - (1 << 16)]
        {
            for parts in [1, 2, 3, 5, 64, 65_535, 65_536, most / 2, most - 1, most] {
                of(regions, Shard::WHOLE)
                    .for_each(|geometry| check(geometry, parts, [0, parts - 1].into_iter()));
            }
        }
        let half = of(most / 2, Shard { of: 2, number: 1 }).next().unwrap();
        assert!(Cut::of(Path::new("f"), half, 2).is_ok());
        assert!(matches!(Cut::of(Path::new("f"), half, most), Err(Error::Growth { .. })));
    }
}
