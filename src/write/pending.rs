//! The open transaction's changes. Buckets changed one by one are kept in a hash table, so that a change costs one
//! access to memory. Those changed by batches are kept by region and page.
//!
//! Changes made one by one are put into pages only when they are needed there, in order, so that each page is
//! filled while it is in the cache. Finding the page for each change at once would take three accesses, each of
//! which waits for the one before.

use std::convert::Infallible;
use std::hint::select_unpredictable;

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

/// A hash table from bucket numbers to words. A change after a lookup of the same bucket meets the same cache line.
///
/// Where a number lies in its line is found without a branch, as the processor could not predict one: a wrong prediction
/// would throw away the work on later keys.
#[derive(Debug, Default)]
struct Table {
    /// There are none or a power of two. A number lies in the line that its hash gives, or where that is full, in the
    /// next one that is not.
    lines: Vec<Line>,
    used: usize,
}

/// Places for four numbers and their words, in one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Line {
    /// Bucket numbers plus 1, from the first place on; 0 is free.
    keys: [u64; PLACES],
    words: [u64; PLACES],
}

const PLACES: usize = 4;

/// How many lines are made first.
const FIRST_LINES: usize = 16;

impl Line {
    /// The first place with this key, or with 0 if that comes before it; `PLACES` if there is neither.
    #[inline]
    fn place_for(&self, key: u64) -> usize {
        (0..PLACES).rev().fold(PLACES, |later, place| {
            let here = self.keys[place];
            select_unpredictable((here == 0) | (here == key), place, later)
        })
    }

    fn get(&self, key: u64) -> Option<u64> {
        let place = self.keys.iter().position(|here| *here == key)?;
        self.words.get(place).copied()
    }

    const fn is_full(&self) -> bool {
        self.keys[PLACES - 1] != 0
    }
}

impl Table {
    #[inline]
    fn line_of(&self, number: u64) -> usize {
        // Fibonacci hashing: the multiplier is 2^64 over the golden ratio. The lowest bits of the product depend on
        // few bits of the number, and are left out.
        (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 24) as usize & (self.lines.len() - 1)
    }

    /// The word of a number, or else the one given.
    #[inline]
    fn get_or(&self, number: u64, mut word: u64) -> u64 {
        if self.used == 0 {
            return word;
        }
        let mut index = self.line_of(number);
        loop {
            let line = &self.lines[index];
            for place in 0..PLACES {
                word = select_unpredictable(line.keys[place] == number + 1, line.words[place], word);
            }
            // A line that is full is met seldom. Then the number may lie further on, unless it was here.
            if !line.is_full() || line.get(number + 1).is_some() {
                return word;
            }
            index = (index + 1) & (self.lines.len() - 1);
        }
    }

    fn get(&self, number: u64) -> Option<u64> {
        let mut index = if self.used == 0 { return None } else { self.line_of(number) };
        loop {
            let line = &self.lines[index];
            let word = line.get(number + 1);
            if word.is_some() || !line.is_full() {
                return word;
            }
            index = (index + 1) & (self.lines.len() - 1);
        }
    }

    #[inline]
    fn insert(&mut self, number: u64, word: u64) {
        // Of the lines that are 3/8 full on average, 1 in 15 is full.
        if self.used * 8 >= self.lines.len() * PLACES * 3 {
            self.enlarge();
        }
        let mut index = self.line_of(number);
        loop {
            let line = &mut self.lines[index];
            let place = line.place_for(number + 1);
            if let (Some(key), Some(place)) = (line.keys.get_mut(place), line.words.get_mut(place)) {
                self.used += usize::from(*key == 0);
                (*key, *place) = (number + 1, word);
                return;
            }
            index = (index + 1) & (self.lines.len() - 1);
        }
    }

    #[cold]
    #[inline(never)]
    fn enlarge(&mut self) {
        let lines = vec![Line::default(); (self.lines.len() * 2).max(FIRST_LINES)];
        let before = std::mem::replace(self, Self { lines, used: 0 });
        before.all().for_each(|(number, word)| self.insert(number, word));
    }

    /// Empties the table. Its memory is kept for the next changes, unless less than a sixteenth of it was used.
    fn empty(&mut self) {
        if self.used * 16 < self.lines.len() * PLACES {
            self.lines = Vec::new();
        } else {
            self.lines.fill(Line::default());
        }
        self.used = 0;
    }

    const fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// All numbers and words.
    fn all(&self) -> impl Iterator<Item = (u64, u64)> {
        let pairs = self.lines.iter().flat_map(|line| line.keys.into_iter().zip(line.words));
        pairs.filter(|(key, _)| *key != 0).map(|(key, word)| (key - 1, word))
    }

    /// The same, ascending.
    fn sorted(&self) -> Vec<(u64, u64)> {
        let mut all: Vec<_> = self.all().collect();
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
        // The file's word is loaded in any case: it comes at the same time as the table's.
        let word = self.words.word(id.0.into());
        Ok(Bucket::new(self.changes.get_or(number(self.region, id), word)))
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
    fn a_table_finds_what_lies_in_its_line_and_behind_full_ones() {
        let mut table = Table::default();
        let mut model = BTreeMap::new();
        // Numbers in a row spread over the lines; every fourth power of two less 1 makes many meet.
        let numbers = (0..5_000).chain((0..44).map(|bits| (1 << bits) - 1)).chain((0..300).map(|n| n << 40));
        for (word, number) in (1_u64..).zip(numbers.clone().chain(numbers.clone().step_by(3))) {
            assert_eq!(table.get(number), model.get(&number).copied());
            table.insert(number, word);
            model.insert(number, word);
            assert_eq!(table.used, model.len());
        }
        let full = table.lines.iter().filter(|line| line.is_full()).count();
        assert!(full > 20, "{full} of {} lines are full", table.lines.len());
        for number in numbers.flat_map(|number| [number, number + (1 << 44)]) {
            let expected = model.get(&number).copied();
            assert_eq!(table.get(number), expected);
            assert_eq!(table.get_or(number, 0), expected.unwrap_or(0));
        }
        assert!(table.sorted().into_iter().eq(model));
    }

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
