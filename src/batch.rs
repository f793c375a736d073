//! Many lookups at once: while one is answered, the cache lines of the next are on their way.
//!
//! A lookup touches two cache lines at random places, and waiting for memory is nearly all it costs. The ring
//! keeps [`IN_FLIGHT`] lookups between prefetch and answer at all times; fixed blocks, prefetched and then
//! answered, would run dry at each end, and reach 1.4 times less.

use crate::bucket::{Bucket, Slot, Width, with_width};
use crate::error::Result;
use crate::format::{BUCKETS_PER_PAGE, PageId};
use crate::hash::KeyHash;
use crate::live::LiveHead;
use crate::region::Place;
use crate::view::View;

/// Lookups between prefetch and answer. Processors follow some ten to fifty misses at once.
const IN_FLIGHT: usize = 32;
/// Lookups under one look at the apply epoch.
pub(crate) const BLOCK: usize = 4096;

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
        let epoch = self.map.epoch();
        let mut uncertain = Vec::new();
        with_width!(self.superblock.identity.geometry.slots, W => {
            self.ring::<W, T>(items, hash, found, &mut uncertain)?;
        });
        if !self.was_settled(epoch) {
            let absent = found.iter().enumerate().filter(|(_, found)| !**found);
            uncertain = absent.map(|(index, _)| index).collect();
        }
        Ok(uncertain)
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
        let (region, rem) = hash.region(self.regions);
        let place = Place::<W>::new(hash.local(), rem);
        let base = self.word_of(PageId::new(region, 0));
        let words = [place.first, place.second()].map(|bucket| base + usize::from(bucket.0));
        words.into_iter().for_each(|word| self.prefetch(word));
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
