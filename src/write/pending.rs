//! The open transaction's changes. Buckets changed one by one are kept in a hash table, so that a change costs one
//! access to memory. Those changed by batches are kept by region and page.
//!
//! Changes made one by one are put into pages only when they are needed there, in order, so that each page is
//! filled while it is in the cache. Finding the page for each change at once would take three accesses, each of
//! which waits for the one before.

use std::convert::Infallible;

use crate::cuckoo::{BUCKETS_PER_REGION, Bucket, BucketId, Buckets, BucketsMut, RegionId, Width};
use crate::file::{Overlay, PublishedFile};
use crate::format::BUCKETS_PER_PAGE;
use crate::system::Words;

#[derive(Debug, Default)]
pub(super) struct Pending {
    overlay: Overlay,
    /// The words of buckets changed since, by the bucket's number in the file. Where the overlay has a word for the
    /// same bucket, it is out of date.
    single: Table,
}

/// An open hash table from bucket numbers to words. A change after a lookup of the same bucket meets the same cache
/// line.
#[derive(Debug, Default)]
struct Table {
    /// Pairs of a bucket's number plus 1 and its word; `[0, 0]` is free. There are none or a power of two, and at
    /// most half are used.
    places: Vec<[u64; 2]>,
    used: usize,
}

/// How many places are made first.
const FIRST_PLACES: usize = 64;

impl Table {
    /// The place of a number, or the free one where it would be put. The table must not be empty of places.
    #[inline]
    fn place(&self, number: u64) -> usize {
        // Fibonacci hashing: the multiplier is 2^64 over the golden ratio. The lowest bits of the product depend on
        // few bits of the number, and are left out.
        let mask = self.places.len() - 1;
        let mut place = (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 24) as usize & mask;
        while self.places[place][0] != 0 && self.places[place][0] != number + 1 {
            place = (place + 1) & mask;
        }
        place
    }

    #[inline]
    fn get(&self, number: u64) -> Option<u64> {
        if self.used == 0 {
            return None;
        }
        let [key, word] = self.places[self.place(number)];
        if key == 0 { None } else { Some(word) }
    }

    #[inline]
    fn insert(&mut self, number: u64, word: u64) {
        if self.used * 2 >= self.places.len() {
            self.enlarge();
        }
        let place = self.place(number);
        self.used += usize::from(self.places[place][0] == 0);
        self.places[place] = [number + 1, word];
    }

    #[cold]
    #[inline(never)]
    fn enlarge(&mut self) {
        let places = vec![[0; 2]; (self.places.len() * 2).max(FIRST_PLACES)];
        let before = std::mem::replace(&mut self.places, places);
        for [key, word] in before {
            if key != 0 {
                let place = self.place(key - 1);
                self.places[place] = [key, word];
            }
        }
    }

    /// Empties the table. Its memory is kept for the next changes, unless less than a sixteenth of it was used.
    fn empty(&mut self) {
        if self.used * 16 < self.places.len() {
            self.places = Vec::new();
        } else {
            self.places.fill([0; 2]);
        }
        self.used = 0;
    }

    const fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// All numbers and words, ascending.
    fn sorted(&self) -> Vec<(u64, u64)> {
        let used = self.places.iter().filter(|[key, _]| *key != 0);
        let mut all: Vec<_> = used.map(|[key, word]| (key - 1, *word)).collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        all
    }
}

/// A region as the transaction sees it, if all pages were verified and all changes are in the table: then nothing
/// can fail.
pub(super) struct Direct<'a> {
    words: Words<'a, { BUCKETS_PER_REGION as usize }>,
    region: RegionId,
    changes: &'a mut Table,
}

impl<W: Width> Buckets<W> for Direct<'_> {
    type Error = Infallible;

    #[inline]
    fn load(&mut self, id: BucketId) -> Result<Bucket<W>, Infallible> {
        let word = self.changes.get(number(self.region, id));
        Ok(Bucket::new(word.unwrap_or_else(|| self.words.word(id.0.into()))))
    }
}

impl<W: Width> BucketsMut<W> for Direct<'_> {
    #[inline]
    fn store(&mut self, id: BucketId, bucket: Bucket<W>) {
        self.changes.insert(number(self.region, id), bucket.0);
    }
}

const fn number(region: RegionId, bucket: BucketId) -> u64 {
    region.0 as u64 * BUCKETS_PER_REGION as u64 + bucket.0 as u64
}

impl Pending {
    /// A bucket's word, if it is changed.
    #[inline]
    pub(super) fn get(&self, region: RegionId, bucket: BucketId) -> Option<u64> {
        if let Some(word) = self.single.get(number(region, bucket)) {
            return Some(word);
        }
        if self.overlay.is_new() { None } else { self.overlay.get(region, bucket) }
    }

    #[inline]
    pub(super) fn set(&mut self, region: RegionId, bucket: BucketId, word: u64) {
        self.single.insert(number(region, bucket), word);
    }

    /// All changes, by region and page.
    pub(super) fn sorted(&mut self) -> &mut Overlay {
        if self.single.is_empty() {
            return &mut self.overlay;
        }
        let single = self.single.sorted();
        self.single.empty();
        for changes in
            single.chunk_by(|(a, _), (b, _)| a / BUCKETS_PER_PAGE as u64 == b / BUCKETS_PER_PAGE as u64)
        {
            let Some((first, _)) = changes.first() else { continue };
            let region = RegionId((first / u64::from(BUCKETS_PER_REGION)) as u32);
            let page = (first % u64::from(BUCKETS_PER_REGION)) as u32 / BUCKETS_PER_PAGE;
            let page = self.overlay.region_mut(region).page_mut(page);
            for (number, word) in changes {
                page.set((number % u64::from(BUCKETS_PER_PAGE)) as u32, *word);
            }
        }
        &mut self.overlay
    }

    pub(super) fn is_empty(&self) -> bool {
        self.single.is_empty() && self.overlay.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.overlay = Overlay::default();
        self.single.empty();
    }

    /// The region to be changed directly, if all changes so far are in the table and every page was verified.
    #[inline]
    pub(super) fn direct<'a>(
        &'a mut self,
        published: &'a PublishedFile,
        region: RegionId,
    ) -> Option<Direct<'a>> {
        if !self.overlay.is_new() || !published.pages.are_intact() {
            return None;
        }
        Some(Direct { words: published.pages.map.region(region)?, region, changes: &mut self.single })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn buckets_keep_what_was_last_set_before_and_after_they_are_sorted() {
        let mut pending = Pending::default();
        let mut model = BTreeMap::new();
        let mut state = 1u64;
        assert!(pending.is_empty());
        for step in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (region, bucket) =
                (RegionId((state >> 60) as u32 * 7), BucketId((state >> 33) as u16 % 8192));
            if step % 1000 == 999 {
                pending.sorted();
            }
            pending.set(region, bucket, step);
            model.insert(number(region, bucket), step);
            assert!(!pending.is_empty());
        }
        let regions = (0..16).map(|region| RegionId(region * 7));
        let all = || regions.clone().flat_map(|region| (0..8192).map(move |id| (region, BucketId(id))));
        let check = |pending: &Pending| {
            for (region, bucket) in all() {
                assert_eq!(pending.get(region, bucket), model.get(&number(region, bucket)).copied());
            }
        };
        check(&pending);
        let pages = pending.sorted().pages().map(|(_, page)| page.len()).sum::<usize>();
        assert_eq!(pages, model.len());
        check(&pending);
        pending.clear();
        assert!(pending.is_empty() && all().all(|(region, bucket)| pending.get(region, bucket).is_none()));
    }
}
