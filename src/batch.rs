//! Many lookups at once: while one is answered, the cache lines of the next are on their way.
//!
//! A lookup touches two cache lines at random places, and waiting for memory is nearly all it costs. The ring
//! keeps [`IN_FLIGHT`] lookups between prefetch and answer at all times; fixed blocks, prefetched and then
//! answered, would run dry at each end, and reach 1.4 times less.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::bucket::{Bucket, Slot, Width, with_width};
use crate::error::Result;
use crate::format::{BUCKETS_PER_PAGE, PageId};
use crate::hash::KeyHash;
use crate::live::LiveHead;
use crate::memory;
use crate::region::Place;
use crate::view::View;

/// Lookups between prefetch and answer. Processors follow some ten to fifty misses at once.
const IN_FLIGHT: usize = 32;
/// Lookups under one look at the apply epoch.
pub(crate) const BLOCK: usize = 4096;

/// A block that takes longer than this a lookup had to wait for pages: some tens of times what memory takes, and a
/// fraction of what any disk does.
const WAITED: Duration = Duration::from_micros(2);

/// Whether blocks ask for their pages before they look into them, so that a disk reads many at once.
///
/// Asking costs two system calls a lookup. Files larger than memory may still be in memory where they are looked
/// into, so each block asks if the one before had to wait.
#[derive(Debug)]
pub(crate) struct Paging {
    pub(crate) larger_than_memory: bool,
    waited: AtomicBool,
}

impl Paging {
    pub(crate) fn new(length: u64) -> Self {
        let larger_than_memory = memory::is_exceeded_by(length);
        Self { larger_than_memory, waited: AtomicBool::new(larger_than_memory) }
    }

    /// For what cannot be paged.
    pub(crate) const fn none() -> Self {
        Self { larger_than_memory: false, waited: AtomicBool::new(false) }
    }
}

/// A lookup whose cache lines are on their way.
#[derive(Clone, Copy)]
struct Pending<W> {
    /// The words of both buckets in the map.
    words: [usize; 2],
    query: Slot<W>,
}

impl View {
    /// Looks up the keys of `items`, each hashed by `hash`, and returns the indices of those whose answer is not
    /// certain and which must be looked up one by one: absent while something was being applied, or on a
    /// damaged page.
    pub(crate) fn contains_block<T>(
        &self,
        items: &[T],
        hash: impl Fn(&T) -> Result<KeyHash>,
        found: &mut [bool],
    ) -> Result<Vec<usize>> {
        let start = self.paging.larger_than_memory.then(Instant::now);
        let epoch = self.map.epoch();
        let mut uncertain = Vec::new();
        with_width!(self.superblock.identity.geometry.slots, W => {
            if self.paging.waited.load(Ordering::Relaxed) {
                self.ask::<W, T>(items, &hash)?;
            }
            self.ring::<W, T>(items, hash, found, &mut uncertain)?;
        });
        if let Some(start) = start {
            self.paging.waited.store(start.elapsed() > WAITED * items.len() as u32, Ordering::Relaxed);
        }
        if !self.was_settled(epoch) {
            let absent = found.iter().enumerate().filter(|(_, found)| !**found);
            uncertain = absent.map(|(index, _)| index).collect();
        }
        Ok(uncertain)
    }

    /// Has the pages of all lookups read in, without waiting for them.
    fn ask<W: Width, T>(&self, items: &[T], hash: impl Fn(&T) -> Result<KeyHash>) -> Result<()> {
        for item in items {
            let Pending { words: [first, second], .. } = self.locate::<W>(hash(item)?);
            self.map.read_ahead(first, 1);
            if first / BUCKETS_PER_PAGE as usize != second / BUCKETS_PER_PAGE as usize {
                self.map.read_ahead(second, 1);
            }
        }
        Ok(())
    }

    fn ring<W: Width, T>(
        &self,
        items: &[T],
        hash: impl Fn(&T) -> Result<KeyHash>,
        found: &mut [bool],
        uncertain: &mut Vec<usize>,
    ) -> Result<()> {
        let mut ring = [Pending::<W> { words: [0; 2], query: Slot::new(0) }; IN_FLIGHT];
        let mut coming = items.iter();
        for (place, item) in ring.iter_mut().zip(coming.by_ref()) {
            *place = self.start(hash(item)?);
        }
        for (index, found) in found.iter_mut().enumerate() {
            let place = &mut ring[index % IN_FLIGHT];
            let pending = *place;
            if let Some(item) = coming.next() {
                *place = self.start(hash(item)?);
            }
            match self.finish(pending) {
                Some(answer) => *found = answer,
                None => uncertain.push(index),
            }
        }
        Ok(())
    }

    #[inline]
    fn start<W: Width>(&self, hash: KeyHash) -> Pending<W> {
        let pending = self.locate(hash);
        pending.words.into_iter().for_each(|word| self.prefetch(word));
        pending
    }

    #[inline]
    fn locate<W: Width>(&self, hash: KeyHash) -> Pending<W> {
        let (region, rem) = hash.region(self.regions);
        let place = Place::<W>::new(hash.local(), rem);
        let base = self.word_of(PageId::new(region, 0));
        let words = [place.first, place.second()].map(|bucket| base + usize::from(bucket.0));
        Pending { words, query: place.fingerprint }
    }

    /// `None` if a page is damaged.
    #[inline]
    fn finish<W: Width>(&self, pending: Pending<W>) -> Option<bool> {
        if !self.touched.is_complete() {
            for word in pending.words {
                let page = (word - self.word_of(PageId(0))) / BUCKETS_PER_PAGE as usize;
                self.verify(PageId(page as u64)).ok()?;
            }
        }
        let [first, second] =
            pending.words.map(|word| Bucket::<W>::new(self.word(word)).matches(pending.query));
        Some(first.any() | second.any())
    }
}

#[cfg(test)]
mod tests;
