//! Pages read through a map: each is compared with its checksum before first use.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zerocopy::FromZeros;

use crate::cuckoo::{BUCKETS_PER_REGION, RegionId};
use crate::error::{Error, IoContext, Result};
use crate::format::{
    BUCKETS_PER_PAGE, GENERATION_AT, Geometry, Identity, PAGE, PAGES_PER_REGION, Page, PageId, SUPERBLOCK,
    Sealer, UUID_AT,
};
use crate::options::Verify;
use crate::system::{Map, Paging};

/// The buckets of one region.
pub(crate) type Region = [u64; BUCKETS_PER_REGION as usize];

/// Whether an open file is the one of this filter and generation. Another file may have been written over it in place. A
/// program that writes from the first byte on, like `cp`, writes both superblocks before the epoch, and the epoch before
/// any region.
///
/// Reads by calls: through a map, an unreadable block of a superblock would kill the process. One superblock is enough,
/// as bits of the other may have rotted. If neither can be read, nothing shows that it is another file.
pub(crate) fn is_file_of(file: &File, identity: &Identity) -> bool {
    let generation = identity.geometry.generation.to_le_bytes();
    let has = |slot: u64| {
        let (mut uuid, mut found) = ([0; 16], [0; 4]);
        let read = file.read_exact_at(&mut uuid, slot + UUID_AT);
        match read.and_then(|()| file.read_exact_at(&mut found, slot + GENERATION_AT)) {
            Ok(()) => Some((uuid, found) == (identity.uuid, generation)),
            Err(error) => (error.kind() == io::ErrorKind::UnexpectedEof).then_some(false),
        }
    };
    let slots = [0, SUPERBLOCK].map(has);
    slots.contains(&Some(true)) || slots == [None, None]
}

/// The positions of pages and checksums in a map of the whole file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    /// The first word of the regions.
    data: usize,
    /// The index of the first checksum, in 32-bit half words.
    sums: usize,
}

impl Addresses {
    /// In memory that holds only the regions. It has no checksums.
    pub(super) const OF_REGIONS: Self = Self { data: 0, sums: 0 };

    pub(crate) fn new(geometry: Geometry) -> Self {
        Self { data: (geometry.data() / 8) as usize, sums: (geometry.sums() / 4) as usize }
    }

    /// The index of a page's first word.
    #[inline]
    pub(crate) fn word_of(self, id: PageId) -> usize {
        self.data + (id.0 * PAGE / 8) as usize
    }

    /// The index of the half word that holds a page's checksum.
    pub(crate) fn sum_of(self, id: PageId) -> usize {
        self.sums + id.0 as usize
    }

    /// The index of a bucket's word.
    #[inline]
    pub(crate) fn bucket(self, region: RegionId, bucket: u16) -> usize {
        self.data + region.0 as usize * BUCKETS_PER_REGION as usize + usize::from(bucket)
    }
}

/// The pages of a file, and which of them were found intact.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) map: Map,
    pub(crate) addresses: Addresses,
    pub(crate) sealer: Sealer,
    touched: Touched,
    /// Whether lookups wait for pages to be read in.
    pub(crate) paging: Paging,
    path: Arc<Path>,
}

impl Pages {
    /// The pages of the mapped file at `path`. With [`Verify::Never`] they count as intact.
    pub(crate) fn new(map: Map, identity: &Identity, verify: Verify, path: Arc<Path>) -> Result<Self> {
        let geometry = identity.geometry;
        let paging = Paging::new(geometry.file_length());
        if paging.larger_than_memory {
            map.expect_random_reads();
        }
        let touched = Touched::none_of(geometry.pages(), verify).at(&path, "take memory for the pages of")?;
        let (addresses, sealer) = (Addresses::new(geometry), Sealer::new(identity));
        Ok(Self { map, addresses, sealer, touched, paging, path })
    }

    /// The pages of a filter that lies only in this process's memory.
    pub(crate) fn in_memory(map: Map, identity: &Identity, verify: Verify, path: Arc<Path>) -> Result<Self> {
        let touched = Touched::none_of(identity.geometry.pages(), verify);
        let touched = touched.at(&path, "take memory for the pages of")?;
        let (addresses, sealer) = (Addresses::new(identity.geometry), Sealer::new(identity));
        Ok(Self { map, addresses, sealer, touched, paging: Paging::none(), path })
    }

    /// The same pages in a copy of the file in this process's memory.
    pub(crate) fn moved_to(&self, memory: Map, verify: Verify) -> Result<Self> {
        let touched = Touched::none_of(memory.regions() * u64::from(PAGES_PER_REGION), verify);
        let touched = touched.at(&self.path, "take memory for the pages of")?;
        let (sealer, path) = (self.sealer.clone(), self.path.clone());
        Ok(Self { map: memory, addresses: self.addresses, sealer, touched, paging: Paging::none(), path })
    }

    /// The path of the file.
    pub(crate) const fn path(&self) -> &Arc<Path> {
        &self.path
    }

    /// Whether every page was found intact.
    #[inline]
    pub(crate) fn are_intact(&self) -> bool {
        self.touched.is_complete()
    }

    /// How many pages are not yet verified.
    pub(crate) fn unverified(&self) -> u64 {
        self.touched.left.load(Ordering::Relaxed)
    }

    /// Whether the page was found intact.
    #[cfg(test)]
    pub(crate) fn is_intact(&self, id: PageId) -> bool {
        self.touched.contains(id)
    }

    /// Records that a page was read by a system call and found intact.
    pub(super) fn found_intact(&self, id: PageId) {
        self.touched.insert(id);
    }

    /// Marks a page as unverified, so that its next use verifies it.
    pub(super) fn forget(&self, id: PageId) {
        self.touched.forget(id);
    }

    /// Reads a page without verifying it.
    pub(crate) fn read(&self, id: PageId, into: &mut Page) {
        self.map.copy(self.addresses.word_of(id), into);
    }

    /// Reads a region without verifying it.
    pub(crate) fn read_region(&self, region: RegionId, into: &mut Region) {
        self.map.copy(self.addresses.bucket(region, 0), into);
    }

    /// The checksum stored for a page.
    pub(super) fn sum(&self, id: PageId) -> u32 {
        self.map.half(self.addresses.sum_of(id))
    }

    /// Reads a page without verifying it, and returns its stored checksum.
    pub(crate) fn read_with_sum(&self, id: PageId, into: &mut Page) -> u32 {
        self.read(id, into);
        self.sum(id)
    }

    /// Compares a page with its checksum, unless that was done before.
    #[inline]
    pub(crate) fn verify(&self, id: PageId) -> Result<()> {
        if self.touched.contains(id) { Ok(()) } else { self.verify_page(id) }
    }

    #[cold]
    #[inline(never)]
    fn verify_page(&self, id: PageId) -> Result<()> {
        self.read_verified(id, &mut [0; BUCKETS_PER_PAGE as usize])
    }

    /// Reads a page, and compares it with its checksum unless that was done before.
    pub(crate) fn read_verified(&self, id: PageId, into: &mut Page) -> Result<()> {
        self.read(id, into);
        if self.touched.contains(id) {
            return Ok(());
        }
        if self.sealer.crc(id, into) != self.sum(id) {
            return Err(self.damaged(id));
        }
        self.touched.insert(id);
        Ok(())
    }

    /// The error for a page that does not match its checksum.
    pub(crate) fn damaged(&self, id: PageId) -> Error {
        Error::Damaged { path: self.path.to_path_buf(), region: id.region().0.into(), page: id.0 }
    }

    /// A bucket of an intact page.
    #[inline]
    pub(crate) fn bucket(&self, region: RegionId, bucket: u16) -> Result<u64> {
        self.verify(PageId::new(region, u32::from(bucket) / BUCKETS_PER_PAGE))?;
        Ok(self.map.word(self.addresses.bucket(region, bucket)))
    }

    /// Prefetches the cache line of a bucket.
    #[inline]
    pub(crate) fn prefetch(&self, region: RegionId, bucket: u16) {
        self.map.prefetch(self.addresses.bucket(region, bucket));
    }

    /// Prefetches the first cache lines of a page that will be read whole. The processor prefetches the others by itself,
    /// but does not prefetch across a page boundary.
    pub(crate) fn prefetch_page(&self, id: PageId) {
        (0..8).for_each(|line| self.map.prefetch(self.addresses.word_of(id) + 8 * line));
    }

    /// Asks the system to read in a region that will be needed soon, without waiting. Does nothing past the last region.
    ///
    /// Does nothing for a file that fits into memory; for a larger file, the system is advised not to read ahead by
    /// itself.
    pub(crate) fn read_ahead(&self, region: RegionId) {
        if self.paging.larger_than_memory {
            self.map.read_ahead(self.addresses.bucket(region, 0), BUCKETS_PER_REGION as usize);
        }
    }
}

/// Which pages this process has found intact.
#[derive(Debug)]
struct Touched {
    bits: Vec<AtomicU64>,
    /// How many pages are not yet verified; at 0 the bits are no longer read.
    left: AtomicU64,
}

impl Touched {
    /// The file states the number of pages; a file of holes may claim 2^36. So the bits lie in memory that the system
    /// provides as zeros, and that takes room only where a bit is set.
    fn none(pages: u64) -> io::Result<Self> {
        let words = usize::try_from(pages.div_ceil(64)).unwrap_or(usize::MAX);
        let bits = AtomicU64::new_vec_zeroed(words).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(Self { bits, left: AtomicU64::new(pages) })
    }

    /// No page is verified yet; with [`Verify::Never`], all count as verified.
    fn none_of(pages: u64, verify: Verify) -> io::Result<Self> {
        match verify {
            Verify::Never => Ok(Self::all()),
            Verify::FirstTouch | Verify::Eager => Self::none(pages),
        }
    }

    /// For pages that need no verification.
    const fn all() -> Self {
        Self { bits: Vec::new(), left: AtomicU64::new(0) }
    }

    /// Whether every page was verified.
    #[inline]
    fn is_complete(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }

    #[inline]
    fn contains(&self, page: PageId) -> bool {
        if self.is_complete() {
            return true;
        }
        let word = self.bits.get((page.0 / 64) as usize);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (page.0 % 64) != 0)
    }

    /// Marks a page as unverified.
    fn forget(&self, page: PageId) {
        let bit = 1 << (page.0 % 64);
        if let Some(word) = self.bits.get((page.0 / 64) as usize)
            && word.fetch_and(!bit, Ordering::Relaxed) & bit != 0
        {
            self.left.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn insert(&self, page: PageId) {
        let bit = 1 << (page.0 % 64);
        if let Some(word) = self.bits.get((page.0 / 64) as usize)
            && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
        {
            self.left.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
