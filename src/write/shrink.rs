//! Shrinking: streaming a file, with the open transaction's changes, into a new one of half as many regions. Each entry
//! gets the bit of its region back in front of its tail. `format-spec/README.md`, section 8.5.

use super::doubling::count_region;
use super::writer::Writer;
use crate::cuckoo::{BUCKETS_PER_REGION, Counts, RegionId, Search, halve, with_width};
use crate::error::{Error, Result, ShrinkRefusal};
use crate::file::{Flush, Region, UnpublishedFile};
use crate::format::{Geometry, Identity};
use crate::system::REGIONS_AHEAD;

impl Writer {
    /// Halves the filter now: undoes one doubling, keeping every key. What it would have then is told by
    /// [`Info::shrunk`](crate::Info::shrunk).
    ///
    /// It belongs to the transaction: a commit publishes it, a rollback undoes it. The disk needs room for the new
    /// file beside the old one. Fails with [`Error::Shrink`], which has the reason, where the filter has not doubled or
    /// its entries do not fit into half of the buckets; nothing has changed then. Commits made before are
    /// checkpointed, as a journal cannot go on through it; where that fails, as [`checkpoint`](Self::checkpoint) does.
    pub fn shrink(&mut self) -> Result<()> {
        self.shrink_with(&mut |_, _| {})
    }

    /// As [`shrink`](Self::shrink); `progress` is told the regions done, and all there are, after each.
    pub fn shrink_with(&mut self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let transaction = &self.state()?.transaction;
        let (identity, counts) = (*transaction.work.identity(), transaction.counts());
        let refused = |path: &std::path::Path, reason| Error::Shrink { path: path.to_owned(), reason };
        let Some(geometry) = identity.geometry.halved() else {
            return Err(refused(&self.files.data, ShrinkRefusal::NeverDoubled));
        };
        let load = counts.used() as f64 / geometry.slots_in_all() as f64;
        if load > 1.0 {
            return Err(refused(&self.files.data, ShrinkRefusal::Load { load }));
        }
        // To the new file, the journal would be that of a later generation, which is refused if it holds a commit.
        self.checkpoint()?;
        let (file, found, full) = self.halve(Identity { geometry, ..identity }, progress)?;
        let file = match (file, full) {
            (_, Some(region)) => {
                return Err(refused(
                    &self.files.data,
                    ShrinkRefusal::Region { region: region.0.into(), load },
                ));
            }
            (file, None) => file?,
        };
        if let Some(mut open) = self.open.take() {
            let mut counts = counts.totals();
            counts.add_found(&found);
            open.transaction = open.transaction.moved_to(file, counts);
            self.open = Some(open);
        }
        Ok(())
    }

    /// The new file, what was found in it, and the region that has no room.
    fn halve(
        &mut self,
        identity: Identity,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(Result<UnpublishedFile>, Counts, Option<RegionId>)> {
        let max_kicks = self.options.max_kicks;
        let source = self.state_mut()?.transaction.work.target_mut().with(|pending| &*pending.sorted());
        let (files, disk) = source.surroundings();
        let model = source.rights()?;
        let (mut found, mut full) = (Counts::default(), None);
        let Geometry { slots, .. } = identity.geometry;
        let regions = identity.geometry.regions();
        let file = UnpublishedFile::fill(files, disk, identity, Some(&model), Flush::Meanwhile, |write| {
            let mut search = Search::new();
            let mut pair: [Box<Region>; 2] = [(); 2].map(|()| Box::new([0; BUCKETS_PER_REGION as usize]));
            for number in 0..regions {
                for (region, words) in (2 * number..).zip(&mut pair) {
                    source.read_ahead(RegionId((region as u32).saturating_add(REGIONS_AHEAD)));
                    source.read_region(RegionId(region as u32), words)?;
                }
                let [left, right] = &mut pair;
                let region = RegionId(number as u32);
                let halved = with_width!(slots, W => {
                    let halved = halve::<W>(&mut **left, &mut **right, max_kicks, &mut search);
                    count_region::<W>(left, &mut found);
                    halved
                });
                if halved.is_err() {
                    full = Some(region);
                    // The file is given up; the caller looks at `full` first.
                    return Err(Error::Full { path: files.data.clone(), region: number, load: 1.0 });
                }
                write(region, left)?;
                progress(number + 1, regions);
            }
            Ok(())
        });
        Ok((file, found, full))
    }
}
