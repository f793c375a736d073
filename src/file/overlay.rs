//! The open transaction's changes: buckets that differ from the data file, by region and page.
//!
//! Only changed buckets are kept. A page is a bitmap and the changed words in order, so that one changed
//! bucket in a page of a huge filter costs some hundred bytes, and a page changed throughout 4 KiB.

use rustc_hash::FxHashMap;

use crate::cuckoo::{BucketId, RegionId};
use crate::format::{BUCKETS_PER_PAGE, PAGES_PER_REGION, Page, PageId};

/// The words of a bitmap with one bit for each bucket of a page.
pub(crate) const CHANGED: usize = BUCKETS_PER_PAGE as usize / 64;

/// All changes, by region.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    regions: FxHashMap<RegionId, Box<RegionChange>>,
}

/// The changes in one region.
#[derive(Debug, Default)]
pub(crate) struct RegionChange {
    pages: [Option<Box<PageChange>>; PAGES_PER_REGION as usize],
}

/// The changes in one page.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageChange {
    /// One bit a bucket: whether it is changed.
    changed: [u64; CHANGED],
    /// The changed buckets, ascending.
    words: Vec<u64>,
    /// The checksum of the page with the changes in it, once sealed or replayed.
    pub(crate) crc: u32,
}

/// A bucket's page in its region, and its index there.
const fn in_page(bucket: BucketId) -> (u32, u32) {
    (bucket.0 as u32 / BUCKETS_PER_PAGE, bucket.0 as u32 % BUCKETS_PER_PAGE)
}

impl Overlay {
    pub(crate) fn is_empty(&self) -> bool {
        self.regions.values().all(|region| region.is_empty())
    }

    /// A bucket's word, if it is changed.
    pub(crate) fn get(&self, region: RegionId, bucket: BucketId) -> Option<u64> {
        self.region(region)?.get(bucket)
    }

    pub(crate) fn region(&self, id: RegionId) -> Option<&RegionChange> {
        self.regions.get(&id).map(Box::as_ref)
    }

    pub(crate) fn region_mut(&mut self, id: RegionId) -> &mut RegionChange {
        self.regions.entry(id).or_default()
    }

    /// Moves the changes into `parts` overlays, those of a region into the one that `part_of` returns.
    pub(crate) fn divide(&mut self, parts: usize, part_of: impl Fn(RegionId) -> usize) -> Vec<Self> {
        let mut divided: Vec<_> = (0..parts).map(|_| Self::default()).collect();
        for (id, change) in self.regions.drain() {
            divided[part_of(id)].regions.insert(id, change);
        }
        divided
    }

    /// Takes over the changes of another part.
    pub(crate) fn append(&mut self, part: Self) {
        self.regions.extend(part.regions);
    }

    /// All changed pages, ascending.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (PageId, &PageChange)> {
        let changes = self.ascending().into_iter().filter_map(|id| Some((id, self.region(id)?)));
        changes.flat_map(|(id, region)| region.pages(id))
    }

    /// The regions with changes, ascending.
    pub(super) fn ascending(&self) -> Vec<RegionId> {
        let changed = self.regions.iter().filter(|(_, region)| !region.is_empty());
        let mut ids: Vec<_> = changed.map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }
}

impl RegionChange {
    fn is_empty(&self) -> bool {
        self.pages.iter().all(Option::is_none)
    }

    /// A bucket's word, if it is changed.
    pub(crate) fn get(&self, bucket: BucketId) -> Option<u64> {
        let (page, index) = in_page(bucket);
        self.page(page)?.get(index)
    }

    pub(crate) fn set(&mut self, bucket: BucketId, word: u64) {
        let (page, index) = in_page(bucket);
        self.page_mut(page).set(index, word);
    }

    pub(crate) fn page(&self, page: u32) -> Option<&PageChange> {
        self.pages[page as usize].as_deref()
    }

    pub(crate) fn page_mut(&mut self, page: u32) -> &mut PageChange {
        self.pages[page as usize].get_or_insert_default()
    }

    /// The changed pages of region `id`, ascending.
    pub(super) fn pages(&self, id: RegionId) -> impl Iterator<Item = (PageId, &PageChange)> {
        let numbered = (0u32..).zip(&self.pages);
        numbered.filter_map(move |(page, change)| Some((PageId::new(id, page), change.as_deref()?)))
    }

    pub(super) fn pages_mut(&mut self, id: RegionId) -> impl Iterator<Item = (PageId, &mut PageChange)> {
        let numbered = (0u32..).zip(&mut self.pages);
        numbered.filter_map(move |(page, change)| Some((PageId::new(id, page), change.as_deref_mut()?)))
    }
}

impl PageChange {
    /// The position in `words` of the word of `index`, or the one at which it would have to be inserted.
    fn rank(&self, index: u32) -> usize {
        let (word, bit) = (index as usize / 64, index % 64);
        let before: u32 = self.changed[..word].iter().map(|bits| bits.count_ones()).sum();
        (before + (self.changed[word] & ((1 << bit) - 1)).count_ones()) as usize
    }

    fn is_changed(&self, index: u32) -> bool {
        self.changed[index as usize / 64] >> (index % 64) & 1 != 0
    }

    pub(super) fn get(&self, index: u32) -> Option<u64> {
        if self.is_changed(index) { self.words.get(self.rank(index)).copied() } else { None }
    }

    pub(crate) fn set(&mut self, index: u32, word: u64) {
        let rank = self.rank(index);
        if self.is_changed(index) {
            self.words[rank] = word;
        } else {
            self.changed[index as usize / 64] |= 1 << (index % 64);
            self.words.insert(rank, word);
        }
    }

    /// Buckets changed.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// One bit a bucket: whether it is changed.
    pub(crate) const fn changed(&self) -> &[u64; CHANGED] {
        &self.changed
    }

    /// Takes the buckets with these bits from `page`, and drops all others.
    pub(crate) fn replace(&mut self, changed: &[u64; CHANGED], page: &Page) {
        self.changed = *changed;
        self.words.clear();
        let count: u32 = changed.iter().map(|bits| bits.count_ones()).sum();
        self.words.reserve(count as usize);
        self.words.extend(indices(changed).map(|index| page[index as usize]));
    }

    /// The changed buckets, ascending, with their index in the page.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        indices(&self.changed).zip(self.words.iter().copied())
    }

    pub(crate) fn apply_to(&self, page: &mut Page) {
        for (index, word) in self.iter() {
            page[index as usize] = word;
        }
    }
}

/// The numbers of the bits that are set, ascending.
fn indices(changed: &[u64; CHANGED]) -> impl Iterator<Item = u32> {
    (0..).step_by(64).zip(changed).flat_map(|(base, bits)| {
        let rest = |bits: &u64| Some(bits & (bits - 1)).filter(|rest| *rest != 0);
        let words = std::iter::successors(Some(*bits).filter(|bits| *bits != 0), rest);
        words.map(move |bits| base + bits.trailing_zeros())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_gives_back_what_was_last_set() {
        let mut change = PageChange::default();
        let mut model = [None; BUCKETS_PER_PAGE as usize];
        let mut state = 1u64;
        for step in 0..3000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let index = (state >> 33) as u32 % BUCKETS_PER_PAGE;
            change.set(index, step);
            model[index as usize] = Some(step);
        }
        let mut page = [u64::MAX; BUCKETS_PER_PAGE as usize];
        change.apply_to(&mut page);
        for (index, expected) in (0..).zip(model) {
            assert_eq!(change.get(index), expected);
            assert_eq!(page[index as usize], expected.unwrap_or(u64::MAX));
        }
        assert_eq!(change.len(), model.iter().flatten().count());
        assert!(change.iter().map(|(index, word)| (index, Some(word))).all(|(i, w)| model[i as usize] == w));
    }

    #[test]
    fn regions_come_in_order_and_untouched_ones_not_at_all() {
        let mut overlay = Overlay::default();
        for id in [9, 2, 5].map(RegionId) {
            overlay.region_mut(id).page_mut(3).set(1, 1);
        }
        overlay.region_mut(RegionId(7));
        assert_eq!(overlay.ascending(), [2, 5, 9].map(RegionId));
        assert!(!overlay.is_empty() && Overlay::default().is_empty());
    }
}
