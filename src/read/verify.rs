//! Reading a whole file and saying what is wrong with it.

use crate::bucket::{Bucket, Width, with_width};
use crate::counts::Counts;
use crate::error::{Error, Result};
use crate::format::{BUCKETS_PER_PAGE, PageId};
use crate::page::Page;
use crate::reader::Reader;

/// What [`Reader::verify`] found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Data pages read.
    pub pages: u64,
    /// Those that do not match their checksum, ascending.
    pub damaged: Vec<DamagedPage>,
    /// Those that match their checksum but hold what no writer stores, ascending.
    pub malformed: Vec<DamagedPage>,
    /// One of the two superblocks is damaged; the other serves.
    pub superblock_damaged: bool,
    /// Entries found are not those that the filter counts, although every page is intact.
    pub counts_differ: bool,
}

/// A page of the data section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DamagedPage {
    /// Its number, counted from the first region in pages of 4096 bytes.
    pub page: u64,
    /// The region it belongs to.
    pub region: u64,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        let Self { pages: _, damaged, malformed, superblock_damaged, counts_differ } = self;
        damaged.is_empty() && malformed.is_empty() && !superblock_damaged && !counts_differ
    }
}

impl Reader {
    /// Reads every page and compares it with its checksum, and the entries found with the counters.
    ///
    /// `progress` is told the pages read, and all there are. Beside a busy writer each page is judged at a
    /// moment when nothing is being applied to it; the counters are compared only if no commit came between.
    /// Fails only where the file cannot be read at all, or with [`Error::Busy`].
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Report> {
        let view = self.view()?;
        let geometry = view.superblock.identity.geometry;
        let before = view.published();
        let mut report = Report { superblock_damaged: view.other_superblock_damaged, ..Report::default() };
        let mut found = Counts::default();
        let mut page = [0; BUCKETS_PER_PAGE as usize];
        for id in (0..geometry.pages()).map(PageId) {
            if id.in_region() == 0 {
                view.comes_to(id.region());
            }
            let place = DamagedPage { page: id.0, region: id.region().0.into() };
            match view.settled_page(id, &mut page) {
                None => return Err(Error::Busy { path: self.path().to_owned(), op: "verified" }),
                Some(Err(_)) => report.damaged.push(place),
                Some(Ok(())) => {
                    let well_formed = with_width!(geometry.slots, W => tally::<W>(&page, &mut found));
                    if !well_formed {
                        report.malformed.push(place);
                    }
                }
            }
            report.pages += 1;
            progress(report.pages, geometry.pages());
        }
        if let (Some(Ok((before, _))), Some(Ok((after, _)))) = (before, view.published())
            && before.commit == after.commit
            && report.damaged.is_empty()
        {
            report.counts_differ =
                (found.by_tail, found.universal) != (after.counts.by_tail, after.counts.universal);
        }
        Ok(report)
    }
}

/// Counts the entries of a page; false if a slot or a bucket is not as writers leave them.
pub(crate) fn tally<W: Width>(page: &Page, counts: &mut Counts) -> bool {
    let mut well_formed = true;
    for word in page {
        let bucket = Bucket::<W>::new(*word);
        well_formed &= !bucket.has_stray_bits();
        let mut universal = 0;
        for slot in (0..W::SLOTS).map(|lane| bucket.slot(lane)) {
            match slot.tail_length() {
                Some(length) => counts.by_tail[length as usize] += 1,
                None if slot.is_universal() => universal += 1,
                None => well_formed &= slot.is_empty(),
            }
        }
        // Buckets are quarantined whole.
        well_formed &= universal == 0 || universal == W::SLOTS;
        counts.universal += u64::from(universal);
    }
    well_formed
}
