//! Giving up damaged pages without giving a wrong answer.
//!
//! What a damaged page held is lost, and its keys cannot be told from any others. So each of its slots becomes
//! universal: it matches every query. Lookups that touch the page answer "present", so there are still no false
//! negatives; the price is in the expected false-positive rate. `format-spec/README.md`, section 9.

use crate::cuckoo::{Bucket, Counts, SlotsPerBucket, with_width};
use crate::error::Result;
use crate::file::{Overlay, PublishedFile};
use crate::format::{BUCKETS_PER_PAGE, DamagedPage, Identity, PageId, tally};

/// What [`Writer::repair`](crate::Writer::repair) did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Repair {
    /// The pages whose slots now match everything, ascending.
    pub quarantined: Vec<DamagedPage>,
    /// A damaged superblock was written anew from the other one.
    pub superblock: bool,
    /// The live area of a file that no writer had was of another commit than its superblock, or could not be read, and was written
    /// anew.
    pub live: bool,
    /// The counters were wrong, and are now those of a scan.
    pub recounted: bool,
}

impl Repair {
    /// Whether nothing needed repair.
    pub fn is_empty(&self) -> bool {
        let Self { quarantined, superblock, live, recounted } = self;
        quarantined.is_empty() && !superblock && !live && !recounted
    }
}

/// Finds the pages that are damaged or malformed, and counts what the file holds once they are quarantined. Totals
/// that no scan can see are taken from `counts`. Pages that cannot be read are overwritten.
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
        let sound = with_width!(geometry.slots, W => tally::<W>(&page, kind, &mut on_page));
        if !sound || !intact {
            quarantined.push(DamagedPage { page: id.0, region: id.region().0.into() });
            on_page = Counts::default();
            on_page.universal = u64::from(BUCKETS_PER_PAGE * geometry.slots.get());
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
        let change = overlay.region_mut(id.region()).page_mut(id.in_region());
        (0..BUCKETS_PER_PAGE).for_each(|index| change.set(index, universal));
    }
}
