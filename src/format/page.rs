//! Pages and their checksums: what they are computed over, and which pages were verified already.

use std::sync::atomic::{AtomicU64, Ordering};

use crc32fast::Hasher;
use zerocopy::IntoBytes;

use crate::format::{BUCKETS_PER_PAGE, Identity, PageId};

#[cfg(not(target_endian = "little"))]
compile_error!("gowk keeps pages in memory as they are on the disk, and the format is little-endian");

/// The buckets of one page.
pub(crate) type Page = [u64; BUCKETS_PER_PAGE as usize];

/// Computes page checksums for one file in one generation.
///
/// The uuid, the generation and the page's number go in before its bytes, so that a page of another file, of
/// before a doubling, or from another place does not pass.
#[derive(Clone, Debug)]
pub(crate) struct Sealer(Hasher);

impl Sealer {
    pub(crate) fn new(identity: &Identity) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(&identity.uuid);
        hasher.update(&identity.geometry.generation.to_le_bytes());
        Self(hasher)
    }

    pub(crate) fn crc(&self, id: PageId, page: &Page) -> u32 {
        let mut hasher = self.0.clone();
        hasher.update(&id.0.to_le_bytes());
        hasher.update(page.as_bytes());
        hasher.finalize()
    }
}

/// When a process verifies page checksums.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Verify {
    /// Each page the first time it is touched.
    #[default]
    FirstTouch,
    /// All pages while opening, which reads the whole file.
    Eager,
    /// Never, for measurements: a damaged page may then lose keys unnoticed.
    Never,
}

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
    }
}
