//! Memory maps, and the only unsafe code of the crate.
//!
//! Two invariants make it sound:
//!
//! 1. Mapped memory is accessed only through atomics. Another process may change a mapped file at any time; a `&[u8]` or
//!    `&[u64]` over it would let the compiler assume that it does not change.
//! 2. The file behind a map is at least as long as the map for as long as the map lives. gowk never shortens a published
//!    file. If another program shortens it, the next access past the new end raises SIGBUS. No check here could prevent
//!    that; the specification says so (section 10).
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use memmap2::{Advice, MmapOptions, MmapRaw, UncheckedAdvice};
#[cfg(target_os = "linux")]
use rustix::io::Errno;

use crate::cuckoo::{BUCKETS_PER_REGION, KeyHash, RegionId, Span};
use crate::format::{Geometry, LIVE, PAGE, REGION};

#[cfg(not(target_pointer_width = "64"))]
compile_error!(
    "gowk reads files through maps that are read-only, in loads of 8 bytes: 32-bit targets may not"
);

const PAGE_BYTES: usize = PAGE as usize;
/// How many words a region has.
const REGION_WORDS: usize = BUCKETS_PER_REGION as usize;
/// How many words the live area's head has. Every lookup reads them.
pub(crate) const HEAD_WORDS: usize = 5;

const _: () = assert!(REGION == 8 * REGION_WORDS as u64 && LIVE.is_multiple_of(8));

/// A read-only map of a filter's whole file.
///
/// Invariant: the head of its live area lies within it.
#[derive(Debug)]
pub(crate) struct Map {
    raw: MmapRaw,
    regions: Regions,
    span: Span,
}

/// Where the regions of a mapping lie, computed once for all lookups and changes.
///
/// Invariant: `count` regions from `first` on lie within the mapping stored with this value, each at a multiple of the
/// page size.
#[derive(Debug)]
struct Regions {
    first: *const [AtomicU64; REGION_WORDS],
    count: u64,
}

// SAFETY: it points into the mapping stored with it, which any thread may access through atomics.
unsafe impl Send for Regions {}
// SAFETY: as above.
unsafe impl Sync for Regions {}

impl Regions {
    /// `count` regions from byte `data` on. Fails if they do not lie within the mapping.
    fn of(raw: &MmapRaw, data: u64, count: u64) -> io::Result<Self> {
        let end = count.checked_mul(REGION).and_then(|length| length.checked_add(data));
        if end.is_none_or(|end| end > raw.len() as u64) || !data.is_multiple_of(PAGE) {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        Ok(Self { first: raw.as_ptr().wrapping_add(data as usize).cast(), count })
    }

    /// The region's words; `None` beyond the last region.
    ///
    /// # Safety
    ///
    /// The mapping must live for `'a`.
    #[inline]
    unsafe fn get<'a>(&self, region: RegionId) -> Option<Words<'a, REGION_WORDS>> {
        if u64::from(region.0) >= self.count {
            return None;
        }
        // SAFETY: as for `words`; by the invariant of the type the region lies within the mapping.
        Some(Words(unsafe { &*self.first.add(region.0 as usize) }))
    }
}

impl Map {
    /// A map of a file. It shows every change by any process.
    pub(crate) fn shared(file: &File, geometry: Geometry) -> io::Result<Self> {
        Self::new(options(geometry.file_length())?.map_raw_read_only(file)?, geometry)
    }

    /// Memory that holds the bytes of such a file, and does not change any more.
    pub(crate) fn of_memory(map: MapMut, geometry: Geometry) -> io::Result<Self> {
        Self::new(map.0, geometry)
    }

    fn new(raw: MmapRaw, geometry: Geometry) -> io::Result<Self> {
        let regions = Regions::of(&raw, geometry.data(), geometry.regions())?;
        if LIVE + 8 * HEAD_WORDS as u64 > geometry.data() {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        Ok(Self { raw, regions, span: geometry.span() })
    }

    pub(crate) const fn regions(&self) -> u64 {
        self.regions.count
    }

    /// The filter's regions among all shards' regions.
    #[inline]
    pub(crate) const fn span(&self) -> Span {
        self.span
    }

    /// The 64-bit word number `index`, relaxed; stored little-endian.
    #[inline]
    pub(crate) fn word(&self, index: usize) -> u64 {
        u64::from_le(words(&self.raw)[index].load(Ordering::Relaxed))
    }

    /// The 32-bit half word number `index`, relaxed; stored little-endian.
    #[inline]
    pub(crate) fn half(&self, index: usize) -> u32 {
        u32::from_le(halves(&self.raw)[index].load(Ordering::Relaxed))
    }

    /// The first words of the live area.
    #[inline]
    pub(crate) fn live_head(&self) -> Words<'_, HEAD_WORDS> {
        // SAFETY: as for `words`; by the invariant of the type these lie within the mapping, at a multiple of 8.
        Words(unsafe { &*self.raw.as_ptr().add(LIVE as usize).cast() })
    }

    /// The buckets of a region, readable without comparing each index with the map's length; `None` beyond the last region.
    #[inline]
    pub(crate) fn region(&self, region: RegionId) -> Option<Words<'_, REGION_WORDS>> {
        // SAFETY: the mapping lives as long as the borrow of `self`.
        unsafe { self.regions.get(region) }
    }

    /// The region of a key, as `region` returns it, and the fraction that remains. The map's filter takes every key.
    #[inline]
    pub(crate) fn region_of(&self, hash: KeyHash) -> (Words<'_, REGION_WORDS>, u64) {
        let product = u128::from(hash.position()) * u128::from(self.regions.count);
        // SAFETY: as for `region`: `position` is below 2^64, so the product's high half is below the number of regions.
        (Words(unsafe { &*self.regions.first.add((product >> 64) as usize) }), product as u64)
    }

    /// Copies consecutive words. Each is read atomically; the whole is not.
    pub(crate) fn copy(&self, index: usize, into: &mut [u64]) {
        copy(&self.raw, index, into);
    }

    /// Prefetches the cache line of a word.
    #[inline]
    pub(crate) fn prefetch(&self, index: usize) {
        prefetch(&self.raw, index);
    }

    /// Advises the system that pages will be read in random order, so that it does not read ahead and evict others.
    pub(crate) fn expect_random_reads(&self) {
        // Only advice: if the call fails, reads still give the same bytes.
        let _ = self.raw.advise(Advice::Random);
    }

    /// Asks the system to read the pages that hold the words from `index` on, and does not wait for them.
    pub(crate) fn read_ahead(&self, index: usize, words: usize) {
        let first = index * 8 / PAGE_BYTES * PAGE_BYTES;
        // Only advice: if the call fails, as past the end of the map, the pages are read when needed.
        let _ = self.raw.advise_range(Advice::WillNeed, first, (index + words) * 8 - first);
    }
}

/// A read-only map of the first bytes of a file other than a filter.
#[cfg(feature = "store")]
#[derive(Debug)]
pub(crate) struct PlainMap(MmapRaw);

#[cfg(feature = "store")]
impl PlainMap {
    /// The first `length` bytes of a file, which must have at least that many.
    pub(crate) fn shared(file: &File, length: u64) -> io::Result<Self> {
        options(length)?.map_raw_read_only(file).map(Self)
    }

    /// The 64-bit word number `index`, relaxed; stored little-endian. `None` past the last word.
    #[inline]
    pub(crate) fn word(&self, index: usize) -> Option<u64> {
        words(&self.0).get(index).map(|word| u64::from_le(word.load(Ordering::Relaxed)))
    }

    /// Like [`Map::prefetch`].
    #[inline]
    pub(crate) fn prefetch(&self, index: usize) {
        prefetch(&self.0, index);
    }
}

/// Consecutive words of a [`Map`].
#[derive(Clone, Copy)]
pub(crate) struct Words<'a, const N: usize>(&'a [AtomicU64; N]);

impl<const N: usize> Words<'_, N> {
    /// Like [`Map::word`], counted from the first of these words, modulo their number.
    #[inline]
    pub(crate) fn word(self, index: usize) -> u64 {
        u64::from_le(self.0[index % N].load(Ordering::Relaxed))
    }
}

/// Consecutive words of a [`MapMut`].
#[derive(Clone, Copy)]
pub(crate) struct WordsMut<'a, const N: usize>(Words<'a, N>);

impl<const N: usize> WordsMut<'_, N> {
    /// Like [`Words::word`].
    #[inline]
    pub(crate) fn word(self, index: usize) -> u64 {
        self.0.word(index)
    }

    #[inline]
    pub(crate) fn set_word(self, index: usize, value: u64) {
        self.0.0[index % N].store(value.to_le(), Ordering::Relaxed);
    }
}

/// A mapping that is read and written.
#[derive(Debug)]
pub(crate) struct MapMut(MmapRaw);

impl MapMut {
    /// `length` bytes of a file from `offset` on (a multiple of the page size). Stores reach the file.
    pub(crate) fn shared(file: &File, offset: u64, length: u64) -> io::Result<Self> {
        options(length)?.offset(offset).map_raw(file).map(Self)
    }

    /// The first `length` bytes of a file. Stores change only this mapping.
    pub(crate) fn private(file: &File, length: u64) -> io::Result<Self> {
        // SAFETY: `map_copy` is unsafe because the file may change under a `&[u8]`; the result is turned into
        // a raw mapping before any reference to its memory exists, and read through atomics only.
        // Nothing is reserved for the copies: a journal changes few pages, and the file may exceed the memory.
        let map = unsafe { options(length)?.no_reserve_swap().map_copy(file)? };
        Ok(Self(MmapRaw::from(map)))
    }

    /// Memory without a file, all zeros.
    pub(crate) fn anonymous(length: u64) -> io::Result<Self> {
        options(length)?.map_anon().map(|map| Self(MmapRaw::from(map)))
    }

    /// Like `anonymous`, in huge pages if the system has them, so that the processor's address cache (TLB) covers more of
    /// the memory. A random change is cheaper by 10 to 20 ns.
    pub(crate) fn anonymous_huge(length: u64) -> io::Result<Self> {
        let map = Self::anonymous(length)?;
        #[cfg(target_os = "linux")]
        let _ = map.0.advise(Advice::HugePage);
        Ok(map)
    }

    /// Like [`Map::word`].
    #[inline]
    pub(crate) fn word(&self, index: usize) -> u64 {
        u64::from_le(words(&self.0)[index].load(Ordering::Relaxed))
    }

    /// Like [`Map::half`].
    #[inline]
    fn half(&self, index: usize) -> u32 {
        u32::from_le(halves(&self.0)[index].load(Ordering::Relaxed))
    }

    /// Like [`Map::copy`].
    pub(crate) fn copy(&self, index: usize, into: &mut [u64]) {
        copy(&self.0, index, into);
    }

    /// Like [`Map::prefetch`].
    #[inline]
    pub(crate) fn prefetch(&self, index: usize) {
        prefetch(&self.0, index);
    }

    #[inline]
    pub(crate) fn set_word(&self, index: usize, value: u64) {
        words(&self.0)[index].store(value.to_le(), Ordering::Relaxed);
    }

    /// Stores consecutive words.
    pub(crate) fn set_words(&self, index: usize, values: &[u64]) {
        for (word, value) in words(&self.0)[index..index + values.len()].iter().zip(values) {
            word.store(value.to_le(), Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn set_half(&self, index: usize, value: u32) {
        halves(&self.0)[index].store(value.to_le(), Ordering::Relaxed);
    }

    /// Asks the system to make the pages of these bytes writable. Fails if a store would raise SIGBUS, as on a full disk
    /// whose file system copies on write. Succeeds on systems without such a call, as before Linux 5.14.
    fn reserve(&self, bytes: Range<usize>) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if let Err(error) = self.0.advise_range(Advice::PopulateWrite, bytes.start, bytes.len()) {
            // The system reports every failure of the file system as EFAULT.
            if Errno::from_io_error(&error) == Some(Errno::FAULT) {
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        let _ = bytes;
        Ok(())
    }
}

/// A mapping that is read and written, and has the regions of a filter.
#[derive(Debug)]
pub(crate) struct RegionsMut {
    map: MapMut,
    regions: Regions,
}

impl RegionsMut {
    /// Memory without a file for `count` empty regions; `None` if the system has no memory.
    pub(crate) fn in_memory(count: u64) -> Option<Self> {
        /// Up to this many bytes lie in huge pages. On a virtual machine, getting 108 huge pages that had not been used
        /// recently took 0.35 to 0.5 s. Small pages for as much memory took 0.07 s.
        const HUGE: u64 = 64 << 20;
        const HUGE_PAGE: u64 = 2 << 20;
        let length = count.checked_mul(REGION)?;
        let map = if length <= HUGE { MapMut::anonymous_huge(length) } else { MapMut::anonymous(length) };
        let map = map.ok()?;
        if length < HUGE_PAGE {
            // A page that is read before its first write would be mapped twice.
            let _ = map.reserve(0..usize::try_from(length).ok()?);
        }
        Self::new(map, 0, count).ok()
    }

    /// `count` regions from byte `data` on. Fails if they do not lie within the mapping.
    pub(crate) fn new(map: MapMut, data: u64, count: u64) -> io::Result<Self> {
        let regions = Regions::of(&map.0, data, count)?;
        Ok(Self { map, regions })
    }

    pub(crate) const fn map(&self) -> &MapMut {
        &self.map
    }

    /// Returns the memory of these regions to the system. They are empty afterwards. Only for memory without a file.
    pub(crate) fn release(&mut self, regions: Range<u64>) {
        if regions.start > regions.end || regions.end > self.regions.count {
            return;
        }
        let first = self.regions.first as usize - self.map.0.as_ptr() as usize;
        let from = first + (regions.start * REGION) as usize;
        let length = ((regions.end - regions.start) * REGION) as usize;
        // If this fails, the memory is returned when the map is dropped.
        // SAFETY: the range lies within the mapping, as the regions do. Its words are accessed only through atomics, so
        // they may change at any time.
        let _ = unsafe { self.map.0.unchecked_advise_range(UncheckedAdvice::DontNeed, from, length) };
    }

    /// The buckets of a region, like [`Map::region`].
    #[inline]
    pub(crate) fn region(&self, region: RegionId) -> Option<WordsMut<'_, REGION_WORDS>> {
        // SAFETY: the mapping lives as long as the borrow of `self`.
        unsafe { self.regions.get(region) }.map(WordsMut)
    }
}

/// The operations on shared memory that the writer's side of the live area needs. A test replaces it by a model of
/// memory.
pub(crate) trait SharedMemory {
    fn word(&self, index: usize) -> u64;
    fn half(&self, index: usize) -> u32;
    fn set_word(&self, index: usize, value: u64);
    fn set_half(&self, index: usize, value: u32);
    /// Ensures that these bytes can be stored to now.
    fn reserve(&self, bytes: Range<usize>) -> io::Result<()>;
    fn fence(ordering: Ordering);
}

impl SharedMemory for MapMut {
    fn word(&self, index: usize) -> u64 {
        Self::word(self, index)
    }

    fn half(&self, index: usize) -> u32 {
        Self::half(self, index)
    }

    fn set_word(&self, index: usize, value: u64) {
        Self::set_word(self, index, value);
    }

    fn set_half(&self, index: usize, value: u32) {
        Self::set_half(self, index, value);
    }

    fn reserve(&self, bytes: Range<usize>) -> io::Result<()> {
        Self::reserve(self, bytes)
    }

    fn fence(ordering: Ordering) {
        std::sync::atomic::fence(ordering);
    }
}

fn options(length: u64) -> io::Result<MmapOptions> {
    let length = usize::try_from(length).map_err(io::Error::other)?;
    let mut options = MmapOptions::new();
    options.len(length);
    Ok(options)
}

fn words(map: &MmapRaw) -> &[AtomicU64] {
    // SAFETY: the mapping is readable, `len` bytes long, page-aligned (so aligned for 8 bytes), and lives as
    // long as the borrow of `map`. Every access through the slice is atomic; stores are offered by `MapMut`
    // alone, whose mappings are writable. Relaxed loads of 8 bytes are allowed on read-only memory, on targets
    // of 64 bits.
    unsafe { std::slice::from_raw_parts(map.as_ptr().cast(), map.len() / 8) }
}

fn halves(map: &MmapRaw) -> &[AtomicU32] {
    // SAFETY: as for `words`. No address is accessed both as part of a word and as a half word by code that could race:
    // the sequences and the checksum table are half words, and everything else, including the flags, is words.
    unsafe { std::slice::from_raw_parts(map.as_ptr().cast(), map.len() / 4) }
}

#[inline]
fn prefetch(map: &MmapRaw, index: usize) {
    let word = map.as_ptr().wrapping_add(index.wrapping_mul(8));
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address, mapped or not, has no effect that a program can see; SSE is part of
    // every x86-64 processor.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(word.cast());
    }
    // On other targets the standard library has no stable prefetch. Lookups are right without it.
    #[cfg(not(target_arch = "x86_64"))]
    let _ = word;
}

fn copy(map: &MmapRaw, index: usize, into: &mut [u64]) {
    let length = into.len();
    for (to, from) in into.iter_mut().zip(&words(map)[index..index + length]) {
        *to = u64::from_le(from.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests;
