//! The open transaction's changes, as they come: buckets changed one by one in a table of their own, so that a change
//! costs one look into memory, and those changed in bulk by region and page.
//!
//! Finding the page of a bucket takes three looks, each of which waits for the one before, and its first change makes
//! the page. Sorted at the end, the pages are made and filled in order, each while it is in the cache.

use rustc_hash::FxHashMap;

use crate::bucket::BucketId;
use crate::format::{BUCKETS_PER_PAGE, BUCKETS_PER_REGION};
use crate::hash::RegionId;
use crate::overlay::Overlay;

#[derive(Debug, Default)]
pub(crate) struct Pending {
    overlay: Overlay,
    /// The words of buckets changed since, by the bucket's number in the file; they count, and not those of the
    /// overlay.
    single: FxHashMap<u64, u64>,
}

const fn number(region: RegionId, bucket: BucketId) -> u64 {
    region.0 as u64 * BUCKETS_PER_REGION as u64 + bucket.0 as u64
}

impl Pending {
    /// A bucket's word, if it is changed.
    #[inline]
    pub(crate) fn get(&self, region: RegionId, bucket: BucketId) -> Option<u64> {
        if let Some(word) = self.single.get(&number(region, bucket)) {
            return Some(*word);
        }
        if self.overlay.is_new() { None } else { self.overlay.get(region, bucket) }
    }

    #[inline]
    pub(crate) fn set(&mut self, region: RegionId, bucket: BucketId, word: u64) {
        self.single.insert(number(region, bucket), word);
    }

    /// All changes, by region and page.
    pub(crate) fn sorted(&mut self) -> &mut Overlay {
        if self.single.is_empty() {
            return &mut self.overlay;
        }
        let mut single: Vec<_> = self.single.iter().map(|(number, word)| (*number, *word)).collect();
        self.empty_table();
        single.sort_unstable_by_key(|(number, _)| *number);
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

    pub(crate) fn is_empty(&self) -> bool {
        self.single.is_empty() && self.overlay.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.overlay = Overlay::default();
        if !self.single.is_empty() {
            self.empty_table();
        }
    }

    /// Keeps the table's memory for what comes, as making it anew costs a third of a removal, unless it was made for
    /// much more than it held.
    fn empty_table(&mut self) {
        let used = self.single.len();
        self.single.clear();
        if used < self.single.capacity() / 8 {
            self.single.shrink_to(2 * used);
        }
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
