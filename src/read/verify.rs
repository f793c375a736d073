//! Reading a whole file and saying what is wrong with it.

use super::reader::Reader;
use crate::cuckoo::{Counts, with_width};
use crate::error::{Error, Result};
use crate::format::{BUCKETS_PER_PAGE, DamagedPage, PageId, tally};

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
