//! Which pages were verified already.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::cuckoo::BUCKETS_PER_REGION;
use crate::format::PageId;

/// The buckets of one region.
pub(crate) type Region = [u64; BUCKETS_PER_REGION as usize];

/// Which pages this process has found intact.
#[derive(Debug)]
pub(crate) struct Touched {
    bits: Vec<AtomicU64>,
    /// Pages not yet verified; at 0 the bits are no longer looked at.
    left: AtomicU64,
}

impl Touched {
    pub(crate) fn none(pages: u64) -> Self {
        let words = usize::try_from(pages.div_ceil(64)).unwrap_or(usize::MAX);
        Self { bits: (0..words).map(|_| AtomicU64::new(0)).collect(), left: AtomicU64::new(pages) }
    }

    /// For pages that need no verification.
    pub(crate) const fn all() -> Self {
        Self { bits: Vec::new(), left: AtomicU64::new(0) }
    }

    /// Whether every page was verified.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }

    #[inline]
    pub(crate) fn contains(&self, page: PageId) -> bool {
        if self.is_complete() {
            return true;
        }
        let word = self.bits.get((page.0 / 64) as usize);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (page.0 % 64) != 0)
    }

    /// Has a page verified again at its next touch.
    pub(crate) fn forget(&self, page: PageId) {
        let bit = 1 << (page.0 % 64);
        if let Some(word) = self.bits.get((page.0 / 64) as usize)
            && word.fetch_and(!bit, Ordering::Relaxed) & bit != 0
        {
            self.left.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn insert(&self, page: PageId) {
        let bit = 1 << (page.0 % 64);
        if let Some(word) = self.bits.get((page.0 / 64) as usize)
            && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
        {
            self.left.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touched_pages_are_remembered_one_by_one_until_all_are() {
        let touched = Touched::none(130);
        for page in (0..130).rev().map(PageId) {
            assert!(!touched.contains(page));
            touched.insert(page);
            touched.insert(page);
            assert!(touched.contains(page));
        }
        assert!(touched.contains(PageId(0)) && Touched::all().contains(PageId(1 << 40)));
        touched.forget(PageId(65));
        touched.forget(PageId(65));
        assert!(!touched.is_complete() && !touched.contains(PageId(65)) && touched.contains(PageId(66)));
        touched.insert(PageId(65));
        assert!(touched.is_complete());
    }
}
