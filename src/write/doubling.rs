//! Doubling: streaming an old file, with the open transaction's changes, into a new one twice its size.
//!
//! No key is needed: the first bit of an entry's tail says which of the two child regions it belongs to, at the
//! same bucket index. No entry is moved to its other bucket, and no bucket can overflow. `format-spec/README.md`,
//! section 8.

use super::target::Target;
use crate::cuckoo::{BUCKETS_PER_REGION, Bucket, Counts, MAX_REGIONS, RegionId, Width, with_width};
use crate::error::{Error, GrowthRefusal, Result};
use crate::file::{Flush, Overlay, Region, UnpublishedFile};
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
    let file = UnpublishedFile::fill(files, disk, identity, Some(&model), Flush::Meanwhile, |write| {
        let mut parent = [0; BUCKETS_PER_REGION as usize];
        let mut children = [[0; BUCKETS_PER_REGION as usize]; 2];
        for region in 0..regions {
            source.read_ahead(RegionId((region as u32).saturating_add(REGIONS_AHEAD)));
            source.read_region(RegionId(region as u32), &mut parent)?;
            with_width!(geometry.slots, W => {
                split_region::<W>(&parent, &mut children);
                count_copied::<W>(&parent, &children, &mut doubled);
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

/// Hands on the regions that one becomes by so many doublings, in order.
pub(super) fn each_descendant<W: Width>(
    region: &Region,
    doublings: u32,
    each: &mut dyn FnMut(&Region) -> Result<()>,
) -> Result<()> {
    if doublings == 0 {
        return each(region);
    }
    let mut children = Box::new([[0; BUCKETS_PER_REGION as usize]; 2]);
    split_region::<W>(region, &mut children);
    children.iter().try_for_each(|child| each_descendant::<W>(child, doublings - 1, each))
}

/// The two regions that one becomes by a doubling.
pub(super) fn split<W: Width>(region: &Region) -> [Option<Box<Region>>; 2] {
    let mut children = Box::new([[0; BUCKETS_PER_REGION as usize]; 2]);
    split_region::<W>(region, &mut children);
    children.map(|child| Some(Box::new(child)))
}

/// Adds what a region holds to `counts`.
pub(super) fn count_region<W: Width>(region: &Region, counts: &mut Counts) {
    // What no writer stores is counted for nothing, as by every scan. Verification names it.
    counts.tally_all::<W>(region);
}

fn split_region<W: Width>(parent: &Region, children: &mut [Region; 2]) {
    let [left, right] = children;
    for ((word, left), right) in parent.iter().zip(left).zip(right) {
        let (a, b) = Bucket::<W>::new(*word).split();
        (*left, *right) = (a.0, b.0);
    }
}

/// Adds to `counts` the digits and the saturated groups that void entries have taken to both children.
fn count_copied<W: Width>(parent: &Region, [left, right]: &[Region; 2], counts: &mut Counts) {
    for ((word, left), right) in parent.iter().zip(left).zip(right) {
        let parent = Bucket::<W>::new(*word);
        let digits = parent.digit_lanes().count();
        if digits > 0 {
            let (left, right) = (Bucket::<W>::new(*left), Bucket::<W>::new(*right));
            let copied = (left.digit_lanes().count() + right.digit_lanes().count()).saturating_sub(digits);
            counts.digits = counts.digits.saturating_add(copied.into());
            counts.saturated += u64::from(left.is_saturated() && right.is_saturated());
        }
    }
}
