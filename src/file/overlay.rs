//! The open transaction's changes: buckets that differ from the data file, by region.
//!
//! Only changed buckets are stored, in the order of their first change: a change costs a bit in a bitmap, and a word at
//! the end of a list. For a few thousand regions, all these list ends are in the cache. A region with few changes has no
//! bitmap, so each region of a huge filter takes some hundred bytes.

use super::pages::Region;
use crate::cuckoo::{BUCKETS_PER_REGION, BucketId, RegionId};
use crate::format::{BUCKETS_PER_PAGE, PAGES_PER_REGION, PageId};

/// One bit for each bucket of a page.
pub(crate) type PageBits = [u64; BUCKETS_PER_PAGE as usize / 64];

/// One bit for each bucket of a region.
pub(crate) type RegionBits = [u64; BUCKETS_PER_REGION as usize / 64];

/// A region with more changed buckets than this has a bitmap.
const FEW: usize = 16;

/// A region with more changed buckets than this stores a word for every bucket.
const LISTED: usize = BUCKETS_PER_REGION as usize / 2;

/// Regions whose places are allocated together.
const TOGETHER: usize = 64;

/// Places for the changes of consecutive regions.
type Places = [Option<Box<RegionChange>>; TOGETHER];

/// All changes. The place of a region is found by its number, in fewer steps than in a hash table.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    places: Vec<Option<Box<Places>>>,
}

/// The changes in one region.
#[derive(Debug, Default)]
pub(crate) struct RegionChange {
    /// One bit for each bucket: whether it is changed. `None` only while at most [`FEW`] buckets are changed.
    bits: Option<Box<RegionBits>>,
    /// The changed buckets, in the order of their first change, and then room for more. Empty if more than [`LISTED`]
    /// buckets are changed.
    buckets: Vec<u16>,
    /// The words of these buckets, with as much room. A word for each bucket if more than [`LISTED`] buckets are changed.
    words: Vec<u64>,
    /// How many buckets are listed.
    listed: usize,
    /// The place after the bucket that was last changed again. A journal often changes the same buckets again, in order.
    next: usize,
    /// The checksums of the changed pages, once sealed or replayed.
    sums: Option<Box<[u32; PAGES_PER_REGION as usize]>>,
}

impl Overlay {
    pub(crate) fn is_empty(&self) -> bool {
        self.ascending().next().is_none()
    }

    /// A bucket's word, if the bucket is changed.
    pub(crate) fn get(&self, region: RegionId, bucket: BucketId) -> Option<u64> {
        self.region(region)?.get(bucket)
    }

    #[inline]
    pub(crate) fn region(&self, id: RegionId) -> Option<&RegionChange> {
        let places = self.places.get(id.0 as usize / TOGETHER)?.as_deref()?;
        places[id.0 as usize % TOGETHER].as_deref()
    }

    #[inline]
    pub(crate) fn region_mut(&mut self, id: RegionId) -> &mut RegionChange {
        self.place_mut(id).get_or_insert_default()
    }

    /// The changes in a region that already has a place.
    #[inline]
    pub(crate) fn known_mut(&mut self, id: RegionId) -> Option<&mut RegionChange> {
        let places = self.places.get_mut(id.0 as usize / TOGETHER)?.as_deref_mut()?;
        places[id.0 as usize % TOGETHER].as_deref_mut()
    }

    #[inline]
    fn place_mut(&mut self, id: RegionId) -> &mut Option<Box<RegionChange>> {
        let (index, place) = (id.0 as usize / TOGETHER, id.0 as usize % TOGETHER);
        if index >= self.places.len() {
            self.lengthen(index + 1);
        }
        &mut self.places[index].get_or_insert_with(|| Box::new([const { None }; _]))[place]
    }

    #[cold]
    fn lengthen(&mut self, length: usize) {
        self.places.resize_with(length, || None);
    }

    /// Moves the changes into `parts` overlays; `part_of` returns the overlay for a region.
    pub(crate) fn divide(&mut self, parts: usize, part_of: impl Fn(RegionId) -> usize) -> Vec<Self> {
        let mut divided: Vec<_> = (0..parts).map(|_| Self::default()).collect();
        for (id, change) in std::mem::take(self).into_changes() {
            *divided[part_of(id)].place_mut(id) = Some(change);
        }
        divided
    }

    /// Takes over the changes of another overlay.
    pub(crate) fn append(&mut self, part: Self) {
        part.into_changes().for_each(|(id, change)| *self.place_mut(id) = Some(change));
    }

    fn into_changes(self) -> impl Iterator<Item = (RegionId, Box<RegionChange>)> {
        self.places.into_iter().enumerate().flat_map(|(index, places)| {
            let all = places.into_iter().flat_map(|places| *places).enumerate();
            all.filter_map(move |(place, change)| Some((number(index, place), change?)))
        })
    }

    /// The changes by region, ascending.
    pub(crate) fn ascending(&self) -> impl Iterator<Item = (RegionId, &RegionChange)> {
        let changes = self.places.iter().enumerate().flat_map(|(index, places)| {
            let all = places.iter().flat_map(|places| places.iter()).enumerate();
            all.filter_map(move |(place, change)| Some((number(index, place), change.as_deref()?)))
        });
        changes.filter(|(_, change)| !change.is_empty())
    }

    /// Like `ascending`, for sealing.
    pub(super) fn ascending_mut(&mut self) -> impl Iterator<Item = (RegionId, &mut RegionChange)> {
        let changes = self.places.iter_mut().enumerate().flat_map(|(index, places)| {
            let all = places.iter_mut().flat_map(|places| places.iter_mut()).enumerate();
            all.filter_map(move |(place, change)| Some((number(index, place), change.as_deref_mut()?)))
        });
        changes.filter(|(_, change)| !change.is_empty())
    }
}

/// The region whose place this is.
const fn number(index: usize, place: usize) -> RegionId {
    RegionId((index * TOGETHER + place) as u32)
}

impl RegionChange {
    const fn is_empty(&self) -> bool {
        self.listed == 0 && !self.is_spread()
    }

    /// The listed buckets.
    fn list(&self) -> &[u16] {
        self.buckets.get(..self.listed).unwrap_or_default()
    }

    /// Whether every bucket has a word.
    const fn is_spread(&self) -> bool {
        self.words.len() == BUCKETS_PER_REGION as usize
    }

    #[inline]
    fn is_changed(&self, bucket: BucketId) -> bool {
        match &self.bits {
            Some(bits) => has(bits, bucket),
            None => self.is_among_few(bucket),
        }
    }

    #[cold]
    #[inline(never)]
    fn is_among_few(&self, bucket: BucketId) -> bool {
        is_among(self.list(), bucket)
    }

    /// A bucket's word, if the bucket is changed.
    #[inline]
    pub(crate) fn get(&self, bucket: BucketId) -> Option<u64> {
        if self.is_changed(bucket) { self.words.get(self.place(bucket)?).copied() } else { None }
    }

    /// Where the word of a changed bucket is.
    #[cold]
    #[inline(never)]
    fn place(&self, bucket: BucketId) -> Option<usize> {
        /// Places that are compared together.
        const COMPARED: usize = 32;
        if self.is_spread() {
            return Some(bucket.0.into());
        }
        let (chunks, _) = self.list().as_chunks::<COMPARED>();
        let chunk = chunks.iter().position(|chunk| is_among(chunk, bucket)).unwrap_or(chunks.len());
        let place = self.list().get(chunk * COMPARED..)?.iter().position(|other| *other == bucket.0)?;
        Some(chunk * COMPARED + place)
    }

    #[inline]
    pub(crate) fn set(&mut self, bucket: BucketId, word: u64) {
        if let Some(bits) = &mut self.bits
            && !has(bits, bucket)
            && let Some(listed) = self.buckets.get_mut(self.listed)
            && let Some(its_word) = self.words.get_mut(self.listed)
        {
            mark(bits, bucket);
            (*listed, *its_word) = (bucket.0, word);
            self.listed += 1;
        } else {
            self.set_otherwise(bucket, word);
        }
    }

    /// Changes a bucket that was changed before, that is one of few changed buckets, or for which the list has no room.
    #[inline(never)]
    fn set_otherwise(&mut self, bucket: BucketId, word: u64) {
        if self.is_changed(bucket) {
            let next = Some(self.next).filter(|next| self.list().get(*next) == Some(&bucket.0));
            let Some(place) = next.or_else(|| self.place(bucket)) else { return };
            if let Some(old) = self.words.get_mut(place) {
                *old = word;
            }
            self.next = place + 1;
            return;
        }
        if self.bits.is_none() && self.listed == FEW {
            self.bits = Some(Box::new(self.changed()));
        }
        if self.listed == self.buckets.len() && !self.is_spread() {
            self.make_room();
        }
        if let Some(bits) = &mut self.bits {
            mark(bits, bucket);
        }
        if self.is_spread() {
            self.words[usize::from(bucket.0)] = word;
        } else {
            (self.buckets[self.listed], self.words[self.listed]) = (bucket.0, word);
            self.listed += 1;
        }
    }

    /// Makes room for at least one more bucket.
    fn make_room(&mut self) {
        if self.listed >= LISTED {
            return self.spread();
        }
        let length = (2 * self.listed).clamp(4, LISTED);
        self.buckets.reserve_exact(length - self.buckets.len());
        self.buckets.resize(length, 0);
        self.words.reserve_exact(length - self.words.len());
        self.words.resize(length, 0);
    }

    /// Makes room for a word for each bucket.
    #[cold]
    fn spread(&mut self) {
        let mut words = vec![0; BUCKETS_PER_REGION as usize];
        self.words().for_each(|(bucket, word)| words[usize::from(bucket.0)] = word);
        (self.buckets, self.words, self.listed) = (Vec::new(), words, 0);
    }

    /// One bit for each bucket: whether it is changed.
    pub(crate) fn changed(&self) -> RegionBits {
        if let Some(bits) = &self.bits {
            return **bits;
        }
        let mut bits = [0; _];
        self.list().iter().for_each(|bucket| mark(&mut bits, BucketId(*bucket)));
        bits
    }

    /// The checksum of a changed page.
    pub(crate) fn sum(&self, page: u32) -> u32 {
        self.sums.as_ref().map_or(0, |sums| sums[page as usize])
    }

    pub(super) fn set_sum(&mut self, page: u32, sum: u32) {
        self.sums.get_or_insert_default()[page as usize] = sum;
    }

    /// Takes the buckets with these bits from `region`, and drops all others.
    pub(crate) fn replace(&mut self, changed: &RegionBits, region: &Region) {
        self.bits = Some(Box::new(*changed));
        self.buckets.clear();
        self.words.clear();
        let count = changed.iter().map(|bits| bits.count_ones() as usize).sum();
        self.listed = if count > LISTED { 0 } else { count };
        if count > LISTED {
            self.words.extend_from_slice(region);
            return;
        }
        self.buckets.reserve(count);
        self.words.reserve(count);
        for index in indices(changed) {
            self.buckets.push(index as u16);
            self.words.push(region[index as usize]);
        }
    }

    /// The changed buckets with their words, in any order.
    pub(crate) fn words(&self) -> impl Iterator<Item = (BucketId, u64)> {
        let bits: &[u64] = match &self.bits {
            Some(bits) if self.is_spread() => &**bits,
            _ => &[],
        };
        let spread = indices(bits).filter_map(|index| Some((index as u16, *self.words.get(index as usize)?)));
        let listed = self.list().iter().copied().zip(self.words.iter().copied());
        listed.chain(spread).map(|(bucket, word)| (BucketId(bucket), word))
    }

    pub(crate) fn apply_to(&self, region: &mut Region) {
        self.words().for_each(|(bucket, word)| region[usize::from(bucket.0)] = word);
    }
}

/// Compares with all buckets, without a branch for each.
fn is_among(buckets: &[u16], bucket: BucketId) -> bool {
    buckets.iter().fold(0, |any, other| any | u16::from(*other == bucket.0)) != 0
}

fn has(bits: &RegionBits, bucket: BucketId) -> bool {
    let word = bits.get(usize::from(bucket.0) / 64);
    word.is_some_and(|word| word >> (bucket.0 % 64) & 1 != 0)
}

fn mark(bits: &mut RegionBits, bucket: BucketId) {
    if let Some(word) = bits.get_mut(usize::from(bucket.0) / 64) {
        *word |= 1 << (bucket.0 % 64);
    }
}

/// The pages of region `id` with a bit that is set, ascending.
pub(crate) fn changed_pages(id: RegionId, changed: &RegionBits) -> Vec<PageId> {
    let (pages, _) = changed.as_chunks();
    let numbered = (0..PAGES_PER_REGION).zip(pages);
    numbered
        .filter(|(_, bits)| **bits != PageBits::default())
        .map(|(page, _)| PageId::new(id, page))
        .collect()
}

/// The numbers of the bits that are set, ascending.
pub(super) fn indices(changed: &[u64]) -> impl Iterator<Item = u32> {
    (0..).step_by(64).zip(changed).flat_map(|(base, bits)| {
        let rest = |bits: &u64| Some(bits & (bits - 1)).filter(|rest| *rest != 0);
        let words = std::iter::successors(Some(*bits).filter(|bits| *bits != 0), rest);
        words.map(move |bits| base + bits.trailing_zeros())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares a change with a model of the last words set.
    fn check(change: &RegionChange, model: &[Option<u64>; BUCKETS_PER_REGION as usize]) {
        let mut region = [u64::MAX; BUCKETS_PER_REGION as usize];
        change.apply_to(&mut region);
        for (bucket, expected) in (0..).zip(model) {
            assert_eq!(change.get(BucketId(bucket)), *expected);
            assert_eq!(region[usize::from(bucket)], expected.unwrap_or(u64::MAX));
        }
        let changed = (0..).zip(model).filter_map(|(bucket, word)| word.map(|_| bucket));
        assert!(indices(&change.changed()).eq(changed));
        let pages = (0..PAGES_PER_REGION).filter(|page| {
            let first = (page * BUCKETS_PER_PAGE) as usize;
            model[first..first + BUCKETS_PER_PAGE as usize].iter().any(Option::is_some)
        });
        let pages = pages.map(|page| PageId::new(RegionId(3), page));
        assert!(changed_pages(RegionId(3), &change.changed()).into_iter().eq(pages));
    }

    #[test]
    fn a_region_gives_back_what_was_last_set() {
        let mut change = RegionChange::default();
        let mut model = [None; BUCKETS_PER_REGION as usize];
        let mut state = 1u64;
        let mut checks = [0; 3];
        for step in 0..30_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // At first in a few pages, later everywhere, at last in order, as in a replayed journal.
            let bucket = match step {
                0..5_000 => (state >> 33) % 3_000 + 1_000,
                5_000..20_000 => (state >> 33) % u64::from(BUCKETS_PER_REGION),
                _ => step % u64::from(BUCKETS_PER_REGION),
            };
            change.set(BucketId(bucket as u16), step);
            model[bucket as usize] = Some(step);
            if step < 50 || step % 1_000 == 0 {
                check(&change, &model);
                checks[usize::from(change.bits.is_some()) + usize::from(change.is_spread())] += 1;
            }
        }
        assert!(checks.into_iter().all(|count| count > 5), "{checks:?}");
        check(&change, &model);
    }

    #[test]
    fn the_changes_of_a_batch_replace_all_others() {
        let batches = [(2, true), (3, false), (8191, false)];
        for (before, (each, spread)) in
            [10, 100, 5_000].map(|before| batches.map(|batch| (before, batch))).concat()
        {
            let mut change = RegionChange::default();
            (0..before).for_each(|bucket| change.set(BucketId(bucket), 1));
            let mut model = [None; BUCKETS_PER_REGION as usize];
            let (mut bits, mut region) = ([0; _], [7; BUCKETS_PER_REGION as usize]);
            for bucket in (0..BUCKETS_PER_REGION as usize).step_by(each).chain([8_191]) {
                let word = 100 + bucket as u64;
                bits[bucket / 64] |= 1 << (bucket % 64);
                (region[bucket], model[bucket]) = (word, Some(word));
            }
            change.replace(&bits, &region);
            assert_eq!(change.is_spread(), spread);
            check(&change, &model);
            for bucket in [8_191, 4, 3, 5, 4] {
                change.set(BucketId(bucket), 9);
                model[usize::from(bucket)] = Some(9);
            }
            check(&change, &model);
        }
    }

    #[test]
    fn regions_come_in_order_and_untouched_ones_not_at_all() {
        let mut overlay = Overlay::default();
        for id in [9, 2, 4_711, 64, 63].map(RegionId) {
            overlay.region_mut(id).set(BucketId(1), 1);
        }
        overlay.region_mut(RegionId(7));
        let words = overlay.ascending().flat_map(|(id, change)| change.words().map(move |word| (id.0, word)));
        assert!(words.eq([2, 9, 63, 64, 4_711].map(|id| (id, (BucketId(1), 1)))));
        let sealed: Vec<_> = overlay.ascending_mut().map(|(id, _)| id.0).collect();
        assert_eq!(sealed, [2, 9, 63, 64, 4_711]);
        let parts = overlay.divide(3, |id| id.0 as usize % 3);
        assert!(overlay.is_empty());
        for (number, part) in parts.iter().enumerate() {
            assert!(part.ascending().all(|(id, _)| id.0 as usize % 3 == number));
        }
        parts.into_iter().for_each(|part| overlay.append(part));
        assert!(overlay.ascending().map(|(id, _)| id.0).eq(sealed));
        assert!(!overlay.is_empty() && Overlay::default().is_empty());
    }
}
