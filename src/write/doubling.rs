//! Doubling: streaming an old file, with the open transaction's changes, into a new one twice its size.
//!
//! No key is needed: the first bit of an entry's tail says which of the two child regions it belongs to, at the
//! same bucket index. No entry is moved to its other bucket, and no bucket can overflow. `format-spec/README.md`,
//! section 8.

use super::target::Target;
use crate::cuckoo::{BUCKETS_PER_REGION, Bucket, Counts, MAX_REGIONS, RegionId, Width, with_width};
use crate::error::{Error, GrowthRefusal, Result};
use crate::file::{Overlay, Region, UnpublishedFile};
use crate::format::Identity;
use crate::system::REGIONS_AHEAD;

/// Streams `source`, which holds what `counts` says, into a new file of twice as many regions, and returns what that
/// holds. The source is not changed.
pub(super) fn double(
    source: Target<'_, &Overlay>,
    counts: &Counts,
    progress: &mut dyn FnMut(u64, u64),
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
    let file = UnpublishedFile::fill(files, disk, identity, Some(&model), true, |write| {
        let mut parent = [0; BUCKETS_PER_REGION as usize];
        let mut children = [[0; BUCKETS_PER_REGION as usize]; 2];
        for region in 0..regions {
            source.read_ahead(RegionId((region as u32).saturating_add(REGIONS_AHEAD)));
            source.read_region(RegionId(region as u32), &mut parent)?;
            with_width!(geometry.slots, W => split_region::<W>(&parent, &mut children, &mut doubled));
            for (child, words) in (2 * region..).zip(&children) {
                write(RegionId(child as u32), words)?;
            }
            progress(region + 1, regions);
        }
        Ok(())
    })?;
    Ok((file, doubled))
}

/// Splits each bucket, and adds to `counts` the digits and the saturated groups that void entries have taken to both
/// sides.
fn split_region<W: Width>(parent: &Region, children: &mut [Region; 2], counts: &mut Counts) {
    let [left, right] = children;
    for ((word, left), right) in parent.iter().zip(left).zip(right) {
        let bucket = Bucket::<W>::new(*word);
        let (a, b) = bucket.split();
        (*left, *right) = (a.0, b.0);
        let digits = bucket.digit_lanes().count();
        if digits > 0 {
            let more = (a.digit_lanes().count() + b.digit_lanes().count()).saturating_sub(digits);
            counts.digits = counts.digits.saturating_add(more.into());
            counts.saturated += u64::from(bucket.is_saturated() && a.is_saturated() && b.is_saturated());
        }
    }
}
