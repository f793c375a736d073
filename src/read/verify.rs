//! Reads a whole file and reports the damage in it; verifies all pages ahead of many lookups.

use super::reader::Reader;
use super::view::{Source, View};
use crate::cuckoo::{BUCKETS_PER_REGION, Counts, Expiries, Expiry, RegionId, with_any_width};
use crate::error::{Error, Result};
use crate::file::{LiveCopy, LiveHead, LiveRead, Medium, OfPages, Region, read_superblocks};
use crate::format::{
    BUCKETS_PER_PAGE, DamagedPage, Identity, PAGES_PER_REGION, Page, PageId, Superblock, tally,
};
use crate::system::on_threads;

/// The findings of [`Reader::verify`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Report {
    /// How many data pages were read.
    pub pages: u64,
    /// The pages that do not match their checksum, ascending.
    pub damaged: Vec<DamagedPage>,
    /// The pages that match their checksum but hold slots that no writer stores, ascending.
    pub malformed: Vec<DamagedPage>,
    /// Whether one of the two superblocks is damaged; the other is used.
    pub superblock_damaged: bool,
    /// Whether the counters differ from the entries found, although every page is intact.
    pub counts_differ: bool,
    /// Whether the live area is wrong. Either no writer has the file, but the live area names another commit than the
    /// superblock, which shows a lost write; or a block of the live area cannot be read. Readers use the superblock.
    pub live_differs: bool,
    /// The slots in use in each region, except in damaged pages.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub used_slots: Vec<u32>,
    /// When the entries of a forgetting filter expire, and how many, by time, except in damaged pages. If the first time
    /// has passed, its entries have expired, but no sweep has emptied them yet. Empty for other kinds, and if a writer
    /// reached another epoch during the verification.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub expiries: Vec<Expiry>,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        let Self { damaged, malformed, superblock_damaged, counts_differ, live_differs, .. } = self;
        let sound = damaged.is_empty() && malformed.is_empty();
        sound && !superblock_damaged && !counts_differ && !live_differs
    }
}

impl Reader {
    /// Reads every page and compares it with its checksum, and the entries found with the counters. A page is also
    /// damaged if the medium cannot read the page or its checksum.
    ///
    /// `progress` receives the number of pages read, and the number of all pages. Beside a busy writer, each page is
    /// checked at a moment when no commit is being applied to it; the counters are compared only if no commit came in
    /// during the call. Fails only if the file cannot be read at all, or with [`Error::Busy`].
    pub fn verify(&self, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Report> {
        let view = self.view()?;
        let Identity { geometry, kind, forgetting, .. } = view.superblock.identity;
        let before = view.await_live_copy();
        let now = before.as_ref().and_then(|copy| Some(copy.as_ref().ok()?.0.counts.epoch));
        let mut report = Report { superblock_damaged: view.other_superblock_damaged, ..Report::default() };
        let (mut found, mut expiries) = (Counts::default(), Expiries::default());
        let mut words = [0; BUCKETS_PER_REGION as usize];
        for region in (0..geometry.regions()).map(|region| RegionId(region as u32)) {
            view.comes_to(region);
            let Some(outcomes) = view.consistent_region(region, &mut words) else {
                return Err(Error::Busy { path: self.path().to_owned(), op: "verified" });
            };
            let (pages, _) = words.as_chunks::<{ BUCKETS_PER_PAGE as usize }>();
            let used = found.used();
            for (page, outcome) in pages.iter().zip(outcomes) {
                let place = DamagedPage { page: report.pages, region: region.0.into() };
                if outcome.is_err() {
                    report.damaged.push(place);
                } else if !with_any_width!(geometry.width, W => tally::<W>(page, kind, &mut found)) {
                    report.malformed.push(place);
                } else if let (Some(now), Some(_)) = (now, forgetting) {
                    with_any_width!(geometry.width, W => expiries.tally::<W>(page, now));
                }
                report.pages += 1;
                progress(report.pages, geometry.pages());
            }
            report.used_slots.push((found.used() - used) as u32);
        }
        report.live_differs = view.outdated().is_some_and(|(_, newest)| view.has_other_commit(&newest))
            || view.source().is_some_and(|source| !view.medium(source).reads_live());
        if let (Some(Ok((before, _))), Some(Ok((after, _)))) = (before, view.live_copy()) {
            if before.commit == after.commit && report.damaged.is_empty() {
                report.counts_differ = !found.is_as_found(&after.counts);
            }
            if let Some(forgetting) = forgetting.filter(|_| before.counts.epoch == after.counts.epoch) {
                report.expiries = expiries.by_time(&forgetting, after.counts.epoch);
            }
        }
        Ok(report)
    }
}

impl View {
    /// Reads the pages of a region by system calls, each at a moment when no commit was being applied to it. Returns for
    /// each page its checksum or an error; a page that the medium cannot read is damaged. `None` if the file must be
    /// opened anew first.
    pub(super) fn consistent_region(
        &self,
        region: RegionId,
        into: &mut Region,
    ) -> Option<OfPages<Result<u32>>> {
        let first = self.read_region(region, into);
        let mut outcomes = [const { Ok(0) }; PAGES_PER_REGION as usize];
        let (pages, _) = into.as_chunks_mut();
        for (((number, page), outcome), sum) in (0..).zip(pages).zip(&mut outcomes).zip(first) {
            let id = PageId::new(region, number);
            // A page that matches its checksum is right, even during a commit.
            *outcome = match sum.filter(|sum| self.pages.sealer.crc(id, page) == *sum) {
                Some(sum) => Ok(sum),
                None => self.read_consistent(region, || self.read_from_medium(id, page), Result::is_ok)?,
            };
        }
        Some(outcomes)
    }

    fn read_region(&self, region: RegionId, into: &mut Region) -> OfPages<Option<u32>> {
        let ids = (0..PAGES_PER_REGION).map(|number| PageId::new(region, number));
        let (Some(source), false) = (self.source(), ids.clone().any(|id| self.is_replaced(id))) else {
            let (pages, _) = into.as_chunks_mut::<{ BUCKETS_PER_PAGE as usize }>();
            let mut sums = [None; PAGES_PER_REGION as usize];
            for ((id, page), sum) in ids.zip(pages).zip(&mut sums) {
                *sum = self.read_page(id, page);
            }
            return sums;
        };
        self.medium(source).region(region, into)
    }

    fn medium<'a>(&self, Source { file, disk }: &'a Source) -> Medium<'a> {
        Medium { file, disk: &**disk, geometry: self.superblock.identity.geometry }
    }

    /// A page and its checksum; `None` if they cannot be read. Pages that a private replay has changed come from
    /// memory.
    fn read_page(&self, id: PageId, into: &mut Page) -> Option<u32> {
        match self.source() {
            Some(source) if !self.is_replaced(id) => self.medium(source).page(id, into),
            _ => Some(self.contents().read_with_sum(id, into)),
        }
    }

    fn read_from_medium(&self, id: PageId, into: &mut Page) -> Result<u32> {
        let sum = self.read_page(id, into).filter(|sum| self.pages.sealer.crc(id, into) == *sum);
        sum.ok_or_else(|| self.pages.damaged(id))
    }

    /// Whether the live area of an idle file names another commit or epoch than `superblock`.
    pub(super) fn differs_from(&self, superblock: &Superblock) -> bool {
        let epoch = superblock.identity.forgetting.map(|_| superblock.counts.epoch as u32);
        let has_other_epoch = epoch.is_some_and(|epoch| self.pages.map.now() != Some(epoch));
        !self.is_replayed()
            && self.pages.map.is_idle()
            && (has_other_epoch || self.has_other_commit(superblock))
    }

    /// Whether the live area names another commit than `superblock`, which in an idle file shows a lost write. Another
    /// epoch shows none: opening the file for writing stores into the epoch's sector, and a power cut may tear that
    /// store.
    fn has_other_commit(&self, superblock: &Superblock) -> bool {
        let differs = |copy: LiveCopy| copy.commit != superblock.commit;
        LiveRead::live_copy(&self.pages.map).is_some_and(differs)
    }

    /// The epoch and the newest superblock of an idle file, if its live area differs from that superblock; else `None`.
    pub(super) fn outdated(&self) -> Option<(u64, Superblock)> {
        let source = self.source()?;
        // A process that writes a newer superblock changes the epoch first.
        let epoch = self.pages.map.epoch();
        let newest = read_superblocks(&source.file, self.pages.path())
            .and_then(|raw| raw.check(self.pages.path()))
            .ok()?
            .newest;
        (self.differs_from(&newest) && self.pages.map.is_consistent(epoch)).then_some((epoch, newest))
    }

    /// Verifies all pages in order, if lookups of `keys` keys would otherwise verify most of them one by one: reading in
    /// order is faster, from the disk and from memory. Leaves a page that does not match its checksum to the lookups: it
    /// may be damaged, or a writer may be changing it.
    ///
    /// Runs once after the opening, on at least two threads: one thread does not use the full rate of memory.
    pub(super) fn verify_ahead(&self, keys: usize, threads: usize) {
        let pages = self.superblock.identity.geometry.pages();
        let contents = self.contents();
        // Once most pages are verified, the others may be damaged. They are not tried again.
        let left = contents.unverified();
        if left <= pages / 2 || (keys as u64) < left || contents.paging.larger_than_memory {
            return;
        }
        let part = pages.div_ceil(threads.max(2) as u64).max(1);
        let parts = (0..pages).step_by(part as usize).map(|from| from..pages.min(from + part)).collect();
        on_threads(parts, |part: std::ops::Range<u64>| {
            for id in part.map(PageId) {
                contents.prefetch_page(PageId(id.0 + 1));
                let _ = contents.verify(id);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::PAGE;
    use crate::options::Options;
    use crate::system::Files;
    use std::os::unix::fs::FileExt;

    #[test]
    fn all_pages_are_verified_for_many_keys_and_none_for_few_and_damage_is_left_to_lookups() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut writer = Options::new().capacity(500_000).open(&path).unwrap();
        writer.commit().unwrap();
        writer.close().unwrap();
        let view = || View::open(&Files::new(&path).unwrap(), &Options::new()).unwrap();
        let geometry = view().superblock.identity.geometry;
        let pages = geometry.pages();
        for threads in 1..=5 {
            let view = view();
            view.verify_ahead(pages as usize - 1, threads);
            assert_eq!(view.contents().unverified(), pages);
            view.verify_ahead(pages as usize, threads);
            assert_eq!(view.contents().unverified(), 0);
        }
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(b"damage", geometry.data() + 7 * PAGE).unwrap();
        let view = view();
        view.verify_ahead(pages as usize, 2);
        assert_eq!(view.contents().unverified(), 1);
        assert!(!view.contents().is_intact(PageId(7)));
    }
}
