//! Doubling: streaming an old file, with the open transaction's changes, into a new one twice its size. No key is needed.
//! `format-spec/README.md`, section 8.

use super::target::Target;
use crate::cuckoo::{
    BUCKETS_PER_REGION, Counts, MAX_REGIONS, RegionId, correct_counts, split, with_any_width,
};
use crate::error::{Error, GrowthRefusal, Result};
use crate::file::{Flush, Overlay, UnpublishedFile};
use crate::format::Identity;
use crate::system::REGIONS_AHEAD;

/// Streams `source`, whose counters are `counts`, into a new file of twice as many regions. Returns the file and its
/// counters. The source is not changed.
pub(super) fn double(
    source: Target<'_, &Overlay>,
    counts: &Counts,
    memory: u64,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<(UnpublishedFile, Counts)> {
    let identity = *source.identity();
    let regions = identity.geometry.regions();
    let (files, disk) = source.surroundings();
    let geometry = identity.geometry.doubled().ok_or_else(|| Error::Growth {
        path: files.data.clone(),
        reason: GrowthRefusal::Regions(MAX_REGIONS),
    })?;
    let model = source.rights()?;
    let identity = Identity { geometry, ..identity };
    let mut doubled = counts.doubled();
    let flush = Flush::of_doubled(source.is_in_memory(), files, geometry, memory);
    let file = UnpublishedFile::fill(files, disk, identity, Some(&model), flush, &mut |write| {
        let mut parent = [0; BUCKETS_PER_REGION as usize];
        let mut children = [[0; BUCKETS_PER_REGION as usize]; 2];
        for region in 0..regions {
            source.read_ahead(RegionId((region as u32).saturating_add(REGIONS_AHEAD)));
            source.read_region(RegionId(region as u32), &mut parent)?;
            with_any_width!(source.identity().geometry.width, W => {
                split::<W>(&parent, &mut children);
                correct_counts::<W>(&parent, &children, &mut doubled);
            });
            for (child, words) in (2 * region..).zip(&children) {
                write(RegionId(child as u32), words)?;
            }
            progress(region + 1, regions);
        }
        Ok(())
    })?;
    Ok((file, doubled.in_a(identity.kind)))
}
