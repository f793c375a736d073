//! Many lookups at once: while one is answered, the cache lines of the next are being loaded.
//!
//! A lookup touches two cache lines at random places, and spends nearly all its time waiting for memory. A ring of
//! [`STEP`]s keeps [`IN_FLIGHT`] lookups between prefetch and answer at all times. If whole blocks were prefetched and
//! then answered, no lookup would be in flight at the end of each block, and lookups would take 1.4 times as long.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::view::View;
use crate::cuckoo::{Bucket, BucketId, KeyHash, Place, RegionId, Slot, Width, with_any_width};
use crate::error::Result;
use crate::file::LiveHead;
use crate::format::{BUCKETS_PER_PAGE, PageId};

/// Lookups between prefetch and answer. Processors track some ten to fifty misses at once.
const IN_FLIGHT: usize = 32;
/// Lookups whose prefetches are issued together. A prefetch whose address is not in the TLB delays the instructions after
/// it. If hashing comes between prefetches, few of them overlap with this delay: prefetched one by one, lookups in a
/// mapped file take up to 1.6 times as long. With much larger steps, too few lookups are in flight at times.
const STEP: usize = 8;
/// How many lookups share one check of the apply epoch.
pub(super) const BLOCK: usize = 4096;

/// A block that takes longer than this for each lookup had to wait for pages. A lookup in memory takes a few hundredths
/// of this time, and a read from a disk takes many times as long.
const WAITED: Duration = Duration::from_micros(2);

/// A lookup whose cache lines are being loaded.
#[derive(Clone, Copy)]
struct Underway<W> {
    region: RegionId,
    first: BucketId,
    second: BucketId,
    query: Slot<W>,
}

impl<W: Width> Underway<W> {
    /// Fills the place of a lookup that has not begun.
    const NOTHING: Self =
        Self { region: RegionId(0), first: BucketId(0), second: BucketId(0), query: Slot::UNIVERSAL };
}

impl<W> Underway<W> {
    fn pages(&self) -> [PageId; 2] {
        let page = |id: BucketId| PageId::new(self.region, u32::from(id.0) / BUCKETS_PER_PAGE);
        [page(self.first), page(self.second)]
    }
}

impl View {
    /// Looks up the keys of `items`, each hashed by `hash`. Returns the indices of the keys that must be looked up one by
    /// one: they were absent while a commit was being applied, lie on a damaged page, or belong to another shard.
    pub(super) fn contains_block<T>(
        &self,
        items: &[T],
        hash: impl Fn(&T) -> Result<KeyHash>,
        found: &mut [bool],
    ) -> Result<Vec<usize>> {
        let start = self.pages.paging.larger_than_memory.then(Instant::now);
        let epoch = self.pages.map.epoch();
        let mut uncertain = Vec::new();
        with_any_width!(self.superblock.identity.geometry.width, W => {
            let Some(now) = self.now::<W>() else { return Ok((0..items.len()).collect()) };
            if self.pages.paging.waited.load(Ordering::Relaxed) {
                self.ask::<W, T>(items, &hash)?;
            }
            self.ring::<W, T>(items, now, hash, found, &mut uncertain)?;
        });
        if let Some(start) = start {
            self.pages.paging.waited.store(start.elapsed() > WAITED * items.len() as u32, Ordering::Relaxed);
        }
        if !(self.is_consistent(epoch) && self.is_own()) {
            let absent = found.iter().enumerate().filter(|(_, found)| !**found);
            uncertain = absent.map(|(index, _)| index).collect();
        }
        Ok(uncertain)
    }

    /// Asks the system to read in the pages of all lookups, without waiting.
    fn ask<W: Width, T>(&self, items: &[T], hash: impl Fn(&T) -> Result<KeyHash>) -> Result<()> {
        let addresses = self.pages.addresses;
        for item in items {
            let underway = self.locate::<W>(hash(item)?, 0);
            if self.pages.map.region(underway.region).is_none() {
                continue;
            }
            let [first, second] = underway.pages();
            self.pages.map.read_ahead(addresses.word_of(first), 1);
            if first != second {
                self.pages.map.read_ahead(addresses.word_of(second), 1);
            }
        }
        Ok(())
    }

    fn ring<W: Width, T>(
        &self,
        items: &[T],
        now: u32,
        hash: impl Fn(&T) -> Result<KeyHash>,
        found: &mut [bool],
        uncertain: &mut Vec<usize>,
    ) -> Result<()> {
        let contents = self.contents();
        let mut ring = [[Underway::<W>::NOTHING; STEP]; IN_FLIGHT / STEP];
        let mut coming = items.chunks(STEP);
        for place in &mut ring {
            self.start(coming.next().unwrap_or_default(), now, &hash, place)?;
        }
        for (number, found) in found.chunks_mut(STEP).enumerate() {
            let place = &mut ring[number % (IN_FLIGHT / STEP)];
            let step = *place;
            self.start(coming.next().unwrap_or_default(), now, &hash, place)?;
            let whole = contents.are_intact();
            for (index, (underway, found)) in (number * STEP..).zip(step.iter().zip(found)) {
                let buckets = contents.map.region(underway.region);
                if let Some(buckets) = buckets.filter(|_| whole || self.are_intact(underway)) {
                    let bucket = |id: BucketId| Bucket::new(buckets.word(id.0.into()));
                    *found = bucket(underway.first).either_matches(bucket(underway.second), underway.query);
                } else {
                    uncertain.push(index);
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn start<W: Width, T>(
        &self,
        items: &[T],
        now: u32,
        hash: &impl Fn(&T) -> Result<KeyHash>,
        step: &mut [Underway<W>; STEP],
    ) -> Result<()> {
        for (underway, item) in step.iter_mut().zip(items) {
            *underway = self.locate(hash(item)?, now);
        }
        let contents = self.contents();
        for underway in step.iter().take(items.len()) {
            contents.prefetch(underway.region, underway.first.0);
            contents.prefetch(underway.region, underway.second.0);
        }
        Ok(())
    }

    #[inline]
    fn locate<W: Width>(&self, hash: KeyHash, now: u32) -> Underway<W> {
        // A key of another shard gets a region number that does not exist; the lookup of that key alone reports it.
        let (region, rem) = self.pages.map.span().region_or_beyond(hash);
        let place = Place::<W>::new(hash.local(), rem).at(now);
        Underway { region, first: place.first, second: place.second(), query: place.fingerprint }
    }

    /// Whether the pages of a lookup match their checksums.
    #[inline]
    fn are_intact<W>(&self, underway: &Underway<W>) -> bool {
        underway.pages().into_iter().all(|page| self.contents().verify(page).is_ok())
    }
}

#[cfg(test)]
mod tests;
