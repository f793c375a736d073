//! Giving up damaged pages without giving wrong answers.
//!
//! The contents of a damaged page are lost, and nothing shows which keys it held. So each of its slots becomes universal:
//! it matches every query. Lookups that touch the page answer "present". So there are still no false negatives, at the
//! price of a higher false-positive rate. `format-spec/README.md`, section 9.

use crate::cuckoo::{
    BUCKETS_PER_REGION, Bucket, BucketId, Counts, RegionId, SlotsPerBucket, mark, with_any_width, with_width,
};
use crate::error::{IoContext, Result};
use crate::file::{Flush, Overlay, PublishedFile, UnpublishedFile};
use crate::format::{BUCKETS_PER_PAGE, DamagedPage, Identity, PAGES_PER_REGION, PageId, tally};
use crate::system::Rights;

/// The changes made by [`Writer::repair`](crate::Writer::repair).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Repair {
    /// The pages whose slots now match every key, ascending.
    pub quarantined: Vec<DamagedPage>,
    /// Whether the repair marked the filter, as universal slots need markers: it wrote the file anew, and the
    /// false-positive rate of the filter's entries has doubled. A set or a forgetting filter is marked once, by a repair
    /// or by its first doubling.
    pub marked: bool,
    /// Whether a damaged superblock was written anew from the other one.
    pub superblock: bool,
    /// Whether the live area was written anew: either no writer had the file and the live area named another commit than
    /// the superblock, or the live area could not be read.
    pub live: bool,
    /// Whether the counters were wrong and were replaced by those of a scan.
    pub recounted: bool,
}

impl Repair {
    /// Whether nothing needed repair.
    pub fn is_empty(&self) -> bool {
        let Self { quarantined, marked, superblock, live, recounted } = self;
        quarantined.is_empty() && !marked && !superblock && !live && !recounted
    }
}

/// Finds damaged and malformed pages, and counts the slots of the file as after the quarantine of these pages. Copies the
/// totals that no scan can find from `counts`. Overwrites pages that cannot be read.
pub(super) fn find_damage(
    published: &PublishedFile,
    counts: &Counts,
    progress: &(dyn Fn(u64, u64) + Sync),
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

/// Streams an unmarked file into a new marked file, in which every slot of these pages is universal. The source is not
/// changed.
pub(super) fn marked(
    published: &PublishedFile,
    quarantined: &[DamagedPage],
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<UnpublishedFile> {
    let (files, identity) = (&published.files, published.checkpoint.identity);
    let Identity { geometry, .. } = identity;
    let universal = with_width!(geometry.slots(), W => Bucket::<W>::QUARANTINED.0);
    let model = Rights::of(&published.file).at(&files.data, "look at")?;
    let identity = Identity { geometry: geometry.marked(true), ..identity };
    let (disk, flush) = (&published.disk, Flush::Meanwhile);
    UnpublishedFile::fill(files, disk, identity, Some(&model), flush, &mut |write| {
        let mut given_up = quarantined.iter().peekable();
        let mut words = [0; BUCKETS_PER_REGION as usize];
        for region in (0..geometry.regions()).map(|region| RegionId(region as u32)) {
            let (pages, _) = words.as_chunks_mut::<{ BUCKETS_PER_PAGE as usize }>();
            for (id, page) in (0..).map(|number| PageId::new(region, number)).zip(pages) {
                if given_up.next_if(|damaged| damaged.page == id.0).is_some() {
                    page.fill(universal);
                } else {
                    published.pages.read_verified(id, page)?;
                    with_any_width!(geometry.width, W => mark::<W>(page));
                }
            }
            write(region, &words)?;
            progress(PageId::new(region, PAGES_PER_REGION).0, geometry.pages());
        }
        Ok(())
    })
}

/// In `overlay`, replaces these pages by pages whose slots are all universal.
pub(super) fn quarantine(pages: &[DamagedPage], slots: SlotsPerBucket, overlay: &mut Overlay) {
    let universal = with_width!(slots, W => Bucket::<W>::QUARANTINED.0);
    for id in pages.iter().map(|page| PageId(page.page)) {
        let (change, first) = (overlay.region_mut(id.region()), id.in_region() * BUCKETS_PER_PAGE);
        let buckets = first..first + BUCKETS_PER_PAGE;
        buckets.for_each(|bucket| change.set(BucketId(bucket as u16), universal));
    }
}
