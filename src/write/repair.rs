//! Giving up damaged pages without giving a wrong answer.
//!
//! The contents of a damaged page are lost, and nothing shows which keys it held. So each of its slots becomes
//! universal: it matches every query. Lookups that touch the page answer "present", so there are still no false
//! negatives, at the price of a higher false-positive rate. `format-spec/README.md`, section 9.

use crate::cuckoo::{Bucket, BucketId, Counts, SlotsPerBucket, with_any_width, with_width};
use crate::error::Result;
use crate::file::{Overlay, PublishedFile};
use crate::format::{BUCKETS_PER_PAGE, DamagedPage, Identity, PageId, tally};

/// The changes made by [`Writer::repair`](crate::Writer::repair).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Repair {
    /// The pages whose slots match every key now, ascending.
    pub quarantined: Vec<DamagedPage>,
    /// Whether a damaged superblock was written anew from the other one.
    pub superblock: bool,
    /// Whether the live area was written anew: no writer had the file, and the live area named another commit than the
    /// superblock, or could not be read.
    pub live: bool,
    /// Whether the counters were wrong and were replaced by those of a scan.
    pub recounted: bool,
}

impl Repair {
    /// Whether nothing needed repair.
    pub fn is_empty(&self) -> bool {
        let Self { quarantined, superblock, live, recounted } = self;
        quarantined.is_empty() && !superblock && !live && !recounted
    }
}

/// Finds the pages that are damaged or malformed, and counts the slots of the file once these pages are quarantined.
/// Takes the totals that no scan can find from `counts`. Overwrites pages that cannot be read.
pub(super) fn find_damage(
    published: &PublishedFile,
    counts: &Counts,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Vec<DamagedPage>, Counts)> {
    let Identity { geometry, kind, .. } = published.checkpoint.identity;
    let mut quarantined = Vec::new();
    let mut found = counts.totals();
    let mut page = [0; BUCKETS_PER_PAGE as usize];
    for id in (0..geometry.pages()).map(PageId) {
        let intact = published.read_or_mend(id, &mut page)?;
        let mut on_page = Counts::default();
        let sound = with_any_width!(geometry.width, W => tally::<W>(&page, kind, &mut on_page));
        if !sound || !intact {
            quarantined.push(DamagedPage { page: id.0, region: id.region().0.into() });
            on_page = Counts::default();
            on_page.universal = u64::from(BUCKETS_PER_PAGE * geometry.slots().get());
        }
        found.add_found(&on_page);
        progress(id.0 + 1, geometry.pages());
    }
    Ok((quarantined, found))
}

/// Replaces these pages, in `overlay`, by pages whose slots are all universal.
pub(super) fn quarantine(pages: &[DamagedPage], slots: SlotsPerBucket, overlay: &mut Overlay) {
    let universal = with_width!(slots, W => Bucket::<W>::QUARANTINED.0);
    for id in pages.iter().map(|page| PageId(page.page)) {
        let (change, first) = (overlay.region_mut(id.region()), id.in_region() * BUCKETS_PER_PAGE);
        let buckets = first..first + BUCKETS_PER_PAGE;
        buckets.for_each(|bucket| change.set(BucketId(bucket as u16), universal));
    }
}
