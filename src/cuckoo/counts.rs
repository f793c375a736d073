//! Counters stored with every commit. They give load and expected rate without reading the buckets.

use super::bucket::Bucket;
use super::kind::Kind;
use super::region::{Inserted, Removed};
use super::widths::{AnyWidth, SlotsPerBucket, TAIL_LENGTHS, Width};

/// The epoch of a new forgetting filter, until its first key.
pub(crate) const FIRST_EPOCH: u64 = 1;

/// Buckets whose bits are counted in parallel.
const COLUMNS: usize = 4;
/// Binary digits of each counter.
const PLANES: usize = 12;

/// Adds one to the counter of each bit that is set, for eight words of each column. `planes` has the digits of the
/// counters, the lowest first.
#[inline(always)]
fn add(planes: &mut [[u64; COLUMNS]; PLANES], words: &[[u64; COLUMNS]; 8]) {
    // Three digits of one weight make one digit of that weight, left in `sum`, and one of twice the weight.
    let mut carry = [0; COLUMNS];
    for column in 0..COLUMNS {
        let full = |sum: &mut u64, a: u64, b: u64| {
            let (either, c) = (a ^ b, *sum);
            *sum = either ^ c;
            a & b | either & c
        };
        let [ones, twos, fours, ..] = planes;
        let word = |number: usize| words[number][column];
        let mut of_two = [0; 4];
        for (pair, two) in of_two.iter_mut().enumerate() {
            *two = full(&mut ones[column], word(2 * pair), word(2 * pair + 1));
        }
        let of_four = [(0, 1), (2, 3)].map(|(a, b)| full(&mut twos[column], of_two[a], of_two[b]));
        carry[column] = full(&mut fours[column], of_four[0], of_four[1]);
    }
    // The carry out of eight words ripples through the higher digits.
    for plane in &mut planes[3..] {
        for (digit, carry) in plane.iter_mut().zip(&mut carry) {
            (*digit, *carry) = (*digit ^ *carry, *digit & *carry);
        }
    }
}

/// The counters of a filter, exact as of the commit they belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    /// Copies ever inserted, without copies that a saturated group absorbed.
    pub(crate) inserted: u64,
    /// Copies removed, without removals that a saturated group answered.
    pub(crate) removed: u64,
    /// Universal slots.
    pub(crate) universal: u64,
    /// Digits.
    pub(crate) digits: u64,
    /// Groups at their highest count.
    pub(crate) saturated: u64,
    /// Entries by the length of their tail.
    pub(crate) by_tail: [u64; TAIL_LENGTHS],
    /// The epoch of a forgetting filter; 0 in others.
    pub(crate) epoch: u64,
    /// How many regions, from the first on, hold no entry that expires in the epoch; 0 in other filters.
    pub(crate) swept: u64,
    /// The bitwise or of the bytes after the counters in a file; not 0 only in a damaged file.
    pub(crate) beyond: u64,
}

impl Counts {
    /// The counters of a new filter.
    pub(crate) fn new(kind: Kind) -> Self {
        let epoch = if kind == Kind::Forgetting { FIRST_EPOCH } else { 0 };
        Self { epoch, ..Self::default() }
    }

    /// The entries now, without universal slots and digits. They may exceed `inserted - removed`: a doubling copies void
    /// entries, and saturated groups stay.
    pub(crate) fn entries(&self) -> u64 {
        self.by_tail.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Slots in use.
    pub(crate) fn used(&self) -> u64 {
        self.entries().saturating_add(self.universal).saturating_add(self.digits)
    }

    /// Copies inserted and not removed; a saturated group counts as its highest count.
    ///
    /// A part of a divided filter has only a share of both totals, so `removed` may exceed `inserted`. The result is then
    /// the number of entries with a tail, so that no filter with keys counts as empty.
    pub(crate) fn copies(&self) -> u64 {
        match self.inserted.saturating_sub(self.removed) {
            0 => self.entries().saturating_sub(self.void()),
            copies => copies,
        }
    }

    /// Entries without a tail.
    pub(crate) fn void(&self) -> u64 {
        self.by_tail[0]
    }

    /// Only the counters that no scan can find: `inserted`, `removed` and the epoch. The other counters are 0, and no
    /// region counts as swept.
    pub(crate) fn totals(&self) -> Self {
        let Self { inserted, removed, epoch, .. } = *self;
        Self { inserted, removed, epoch, ..Self::default() }
    }

    /// Whether the counters that a scan can find are equal to `other`'s.
    pub(crate) fn is_as_found(&self, other: &Self) -> bool {
        let found = |counts: &Self| (counts.universal, counts.digits, counts.saturated, counts.by_tail);
        found(self) == found(other)
    }

    /// Adds the counters that a scan found elsewhere, and its swept regions.
    pub(crate) fn add_found(&mut self, other: &Self) {
        self.swept += other.swept;
        self.universal += other.universal;
        self.digits += other.digits;
        self.saturated += other.saturated;
        for (all, here) in self.by_tail.iter_mut().zip(other.by_tail) {
            *all += here;
        }
    }

    /// What a scan counts in a filter of this kind. In a set, digits are not counted: no writer stores one, and readers
    /// would refuse the file for a superblock that counts one.
    pub(crate) const fn in_a(self, kind: Kind) -> Self {
        match kind {
            Kind::Set | Kind::Forgetting => Self { digits: 0, saturated: 0, ..self },
            Kind::Counting => self,
        }
    }

    /// Counts the slots of a bucket. False if the bucket holds a slot, or a mix of slots, that no writer stores.
    pub(crate) fn tally<W: Width>(&mut self, bucket: Bucket<W>) -> bool {
        let mut well_formed = !bucket.has_stray_bits();
        let (mut universal, mut in_group) = (0, false);
        for slot in (0..W::SLOTS).map(|lane| bucket.slot(lane)) {
            let length = slot.tail_length();
            match length {
                Some(length) => self.by_tail[length as usize] += 1,
                None if slot.is_universal() => universal += 1,
                None if slot.digit().is_some() => {
                    // A digit counts copies of the entry below it, so there must be an entry.
                    well_formed &= in_group;
                    self.digits += 1;
                }
                None => well_formed &= slot.is_empty(),
            }
            in_group = length.is_some() || in_group && slot.digit().is_some();
        }
        self.saturated += u64::from(bucket.is_saturated());
        self.universal += u64::from(universal);
        // Repair quarantines whole buckets.
        well_formed && (universal == 0 || universal == W::SLOTS)
    }

    /// Counts the slots of many buckets, like `tally`.
    pub(crate) fn tally_all<W: Width>(&mut self, words: &[u64]) {
        // The chunks are small enough that no counter of a bit overflows.
        for words in words.chunks(8 * COLUMNS * ((1 << (PLANES - 3)) - 1)) {
            self.tally_some::<W>(words);
        }
    }

    /// Like `tally_all`, for few enough words. Counts the bits that end the tails of all slots: each of the 64 bit
    /// positions has a counter, and one word of `planes` holds one binary digit of all 64 counters.
    fn tally_some<W: Width>(&mut self, words: &[u64]) {
        let mut planes = [[0; COLUMNS]; PLANES];
        let (blocks, rest) = words.as_chunks::<{ 8 * COLUMNS }>();
        for block in blocks {
            let mut ends = [[0; COLUMNS]; 8];
            let mut odd = 0;
            for (word, ends) in block.iter().zip(ends.as_flattened_mut()) {
                let bucket = Bucket::<W>::new(*word);
                odd |= bucket.oddities();
                *ends = bucket.ends();
            }
            if odd == 0 {
                add(&mut planes, &ends);
            } else {
                block.iter().for_each(|word| _ = self.tally(Bucket::<W>::new(*word)));
            }
        }
        rest.iter().for_each(|word| _ = self.tally(Bucket::<W>::new(*word)));
        for (tail, count) in (0..=W::TAIL_BITS).zip(&mut self.by_tail) {
            let ended_here = W::NUMBERS.end_of(tail);
            for (digit, plane) in planes.iter().enumerate() {
                let ones: u32 = plane.iter().map(|word| (word & ended_here).count_ones()).sum();
                *count += u64::from(ones) << digit;
            }
        }
    }

    /// The counters with the changes of `delta` applied. Counters from a hostile file must not overflow.
    pub(crate) fn with(&self, delta: &Delta) -> Self {
        let mut by_tail = self.by_tail;
        for (count, change) in by_tail.iter_mut().zip(delta.by_tail) {
            *count = count.saturating_add_signed(change);
        }
        Self {
            inserted: self.inserted.saturating_add(delta.inserted),
            removed: self.removed.saturating_add(delta.removed),
            digits: self.digits.saturating_add_signed(delta.digits),
            saturated: self.saturated.saturating_add_signed(delta.saturated),
            by_tail,
            ..*self
        }
    }

    /// The chance that a key never inserted is found: `1 - (1 - q)(1 - q/8) exp(-x)` (`format-spec/README.md`, section
    /// 4.9).
    ///
    /// `x = (sum of count[t] * 2^-(T + t)) * 2n / slots` is the mean number of entries that match such a key. q is the
    /// share of quarantined buckets. Whole pages are quarantined, and one tag in eight leads out of the page of the first
    /// bucket; so the second bucket adds an eighth of the first one's chance.
    pub(crate) fn expected_false_positive_rate(&self, width: SlotsPerBucket, slots: u64) -> f64 {
        let weight: f64 = (0i32..)
            .zip(self.by_tail)
            .map(|(tail, count)| count as f64 * (-f64::from(width.tag_bits() as i32 + tail)).exp2())
            .sum();
        let matches = weight * f64::from(2 * width.get()) / slots as f64;
        let quarantined = self.universal as f64 / slots as f64;
        let kept = (1.0 - quarantined) * (1.0 - quarantined / 8.0);
        (1.0 - kept) - kept * (-matches).exp_m1()
    }

    /// The counters after one doubling: tails become one bit shorter, and void entries and universal slots double.
    ///
    /// A split moves each entry with a tail to one side, and copies all others to both. It also copies digits and
    /// saturated groups of void entries, and the fingerprint 1 of an unmarked filter loses a second bit. This function
    /// counts neither: the doubling itself does.
    pub(crate) fn doubled(&self) -> Self {
        let mut by_tail = [0; TAIL_LENGTHS];
        for (shorter, longer) in by_tail.iter_mut().zip(self.by_tail.iter().skip(1)) {
            *shorter = *longer;
        }
        by_tail[0] += 2 * self.void();
        Self { by_tail, universal: 2 * self.universal, swept: 2 * self.swept, ..*self }
    }

    /// The counters of an unmarked filter after all its slots were marked.
    pub(crate) fn marked(&self) -> Self {
        let by_tail = self.doubled().by_tail;
        Self { by_tail, ..*self }
    }

    /// The counters after one halving, which undoes a doubling: tails become one bit longer, up to the longest. The
    /// number of quarantined buckets may fall by up to half, and the number of digits may change a little.
    pub(crate) fn halved(&self, width: AnyWidth) -> Self {
        let longest = width.fresh_tail_bits() as usize;
        let mut by_tail = [0; TAIL_LENGTHS];
        for (tail, count) in self.by_tail.iter().enumerate().take(longest + 1) {
            by_tail[(tail + 1).min(longest)] += count;
        }
        Self { by_tail, ..*self }
    }

    /// The counters after one doubling, once inserts have filled the new filter up to its headroom. `slots` is the number
    /// of slots after the doubling, twice as many as now.
    pub(crate) fn doubled_and_full(&self, width: AnyWidth, slots: u64) -> Self {
        let (mut next, width) = (self.doubled(), width.marked());
        let room = (slots as f64 * width.slots().headroom()) as u64;
        let fresh = room.saturating_sub(next.used());
        next.by_tail[width.fresh_tail_bits() as usize] += fresh;
        next
    }
}

/// Changes of the counters by inserts and removals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Delta {
    inserted: u64,
    removed: u64,
    digits: i64,
    saturated: i64,
    by_tail: [i64; TAIL_LENGTHS],
}

impl Delta {
    /// An entry with a fresh tail was stored for a copy.
    #[inline]
    pub(crate) const fn stored<W: Width>(&mut self) {
        self.by_tail[W::TAIL_BITS as usize] += 1;
        self.inserted += 1;
    }

    #[inline]
    pub(crate) fn inserted<W: Width>(&mut self, inserted: &Inserted<W>) {
        match inserted {
            Inserted::Stored => return self.stored::<W>(),
            Inserted::Counted { digits, saturates } => {
                self.digits += i64::from(*digits);
                self.saturated += i64::from(*saturates);
            }
            Inserted::Regrouped { before, after } => {
                before.iter().for_each(|bucket| self.holds(*bucket, -1));
                after.iter().for_each(|bucket| self.holds(*bucket, 1));
            }
            // Saturated groups stand for any number of copies: inserts and removals in them are not counted.
            Inserted::Absorbed | Inserted::Quarantined | Inserted::NoPath => return,
        }
        self.inserted += 1;
    }

    #[inline]
    pub(crate) fn removed(&mut self, removed: Removed) {
        match removed {
            Removed::Entry { tail } => self.by_tail[tail as usize] -= 1,
            Removed::Copy { digits } => self.digits -= i64::from(digits),
            Removed::Nothing => return,
        }
        self.removed += 1;
    }

    /// Adds the counters of a bucket `times` times.
    fn holds<W: Width>(&mut self, bucket: Bucket<W>, times: i64) {
        let mut held = Counts::default();
        held.tally(bucket);
        self.digits += times * held.digits as i64;
        self.saturated += times * held.saturated as i64;
        for (change, count) in self.by_tail.iter_mut().zip(held.by_tail) {
            *change += times * count as i64;
        }
    }

    /// Copies removed, or entries forgotten.
    pub(crate) const fn removed_in_all(&self) -> u64 {
        self.removed
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.inserted += other.inserted;
        self.removed += other.removed;
        self.digits += other.digits;
        self.saturated += other.saturated;
        for (change, other) in self.by_tail.iter_mut().zip(other.by_tail) {
            *change += other;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuckoo::Slot;
    use crate::cuckoo::widths::{Five, Four};

    #[test]
    fn a_full_fresh_filter_has_the_rate_of_its_width() {
        for width in SlotsPerBucket::ALL {
            let mut counts = Counts::default();
            let set = AnyWidth::of_new(width, Kind::Set);
            counts.by_tail[set.fresh_tail_bits() as usize] = 1 << 20;
            let rate = counts.expected_false_positive_rate(width, 1 << 20);
            let linear = width.false_positive_rate();
            assert!((rate - (1.0 - (-linear).exp())).abs() < 1e-12, "{width:?}: {rate}");
        }
    }

    #[test]
    fn doubling_ages_every_tail_and_copies_what_is_void() {
        let mut counts = Counts { universal: 7, inserted: 60, ..Counts::default() };
        counts.by_tail[..4].copy_from_slice(&[10, 20, 30, 40]);
        let doubled = counts.doubled();
        assert_eq!(doubled.by_tail[..4], [40, 30, 40, 0]);
        assert_eq!((doubled.universal, doubled.inserted, doubled.entries()), (14, 60, 110));
    }

    /// Checks every width, with buckets of entries alone and with mixed buckets.
    #[test]
    fn buckets_are_counted_together_as_they_are_one_by_one() {
        fn check<W: Width>() {
            let mut state = 1_u64;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state >> 32
            };
            let mut word = |in_use: u64, odd: u64| {
                (0..W::SLOTS).fold(Bucket::<W>::new(0), |bucket, lane| {
                    let low = 1 << (next() as u32 % (W::TAIL_BITS + 1));
                    let slot = (next() as u32 >> (32 - W::BITS)) & !(low - 1) | low;
                    let slot = if next() % 1000 < odd { Slot::<W>::of_digit(1).0 } else { slot };
                    bucket.with(lane, Slot::new(if next() % 100 < in_use { slot } else { 0 }))
                })
            };
            for (in_use, odd, number) in
                [(90, 0, 8192), (30, 2, 8192), (100, 0, 70_000), (60, 300, 77), (0, 0, 5)]
            {
                let words: Vec<u64> = (0..number).map(|_| word(in_use, odd).0).collect();
                let (mut one_by_one, mut together) = (Counts::default(), Counts::default());
                words.iter().for_each(|word| _ = one_by_one.tally(Bucket::<W>::new(*word)));
                together.tally_all::<W>(&words);
                assert_eq!(one_by_one, together, "{in_use} {odd} {number}");
            }
            // Each word adds to the same counters.
            let (same, mut together) = (word(100, 0), Counts::default());
            together.tally_all::<W>(&[same.0; 70_000]);
            let mut once = Counts::default();
            assert!(once.tally(same));
            assert_eq!(together.by_tail, once.by_tail.map(|count| 70_000 * count));
        }
        for slots in SlotsPerBucket::ALL {
            crate::cuckoo::with_width!(slots, W => check::<W>());
        }
    }

    #[test]
    fn universal_slots_make_every_query_match() {
        let counts = Counts { universal: 1000, ..Counts::default() };
        assert!(counts.expected_false_positive_rate(SlotsPerBucket::Four, 1000) > 0.999);
    }

    /// Counters of which no two are equal.
    fn some() -> Counts {
        let mut counts =
            Counts { inserted: 50, removed: 6, universal: 7, digits: 8, saturated: 9, ..Counts::default() };
        (counts.epoch, counts.swept) = (10, 11);
        counts.by_tail[..4].copy_from_slice(&[12, 13, 14, 15]);
        counts
    }

    #[test]
    fn what_a_scan_finds_is_added_and_compared_without_the_rest() {
        let (found, mut all) = (some(), some());
        all.add_found(&found);
        let by_tail = found.by_tail.map(|count| 2 * count);
        let sums = Counts { universal: 14, digits: 16, saturated: 18, swept: 22, by_tail, ..found };
        assert_eq!(all, sums);
        assert_eq!(found.totals(), Counts { inserted: 50, removed: 6, epoch: 10, ..Counts::default() });
        let without_copies = Counts { digits: 0, saturated: 0, ..found };
        assert_eq!(
            [Kind::Set, Kind::Forgetting, Kind::Counting].map(|kind| found.in_a(kind)),
            [without_copies, without_copies, found]
        );
        assert!(found.is_as_found(&Counts { inserted: 1, removed: 1, epoch: 1, swept: 1, ..found }));
        let mut tail = found;
        tail.by_tail[3] += 1;
        for other in [
            tail,
            Counts { universal: 1, ..found },
            Counts { digits: 1, ..found },
            Counts { saturated: 1, ..found },
        ] {
            assert!(!found.is_as_found(&other), "{other:?}");
        }
    }

    #[test]
    fn halving_lengthens_every_tail_but_the_longest_and_a_doubled_filter_fills_up_to_its_headroom() {
        let width = AnyWidth::from(SlotsPerBucket::Four);
        let longest = width.fresh_tail_bits() as usize;
        let mut counts = some();
        (counts.by_tail[longest - 1], counts.by_tail[longest]) = (30, 40);
        let mut halved = counts;
        halved.by_tail[..5].copy_from_slice(&[0, 12, 13, 14, 15]);
        (halved.by_tail[longest - 1], halved.by_tail[longest]) = (0, 70);
        assert_eq!(counts.halved(width), halved);
        assert_eq!(counts.doubled().swept, 22);
        // 12 * 2 + 13 + 14 + 15 + 30 + 40 entries, 14 universal slots and 8 digits, of 930 slots.
        let full = counts.doubled_and_full(width, 1000);
        assert_eq!((full.used(), full.by_tail[longest]), (930, 930 - 158));
        assert_eq!(counts.doubled_and_full(width, 100), counts.doubled());
    }

    #[test]
    fn a_quarantined_bucket_counts_wholly_and_the_buckets_that_lead_to_it_by_an_eighth() {
        let mut counts = Counts { universal: 500, ..Counts::default() };
        let rate = |counts: Counts| counts.expected_false_positive_rate(SlotsPerBucket::Four, 1000);
        let kept = 0.5 * (1.0 - 0.5 / 8.0);
        assert!((rate(counts) - (1.0 - kept)).abs() < 1e-12);
        counts.by_tail[9] = 1000;
        let matches = f64::from(2 * 4) / f64::from(1 << (6 + 9));
        assert!((rate(counts) - (1.0 - kept * (-matches).exp())).abs() < 1e-12);
    }

    #[test]
    fn what_inserts_and_removals_change_adds_up() {
        let (tail, entry, none) = (Four::TAIL_BITS as usize, Slot::<Four>::fresh(1, 2), Bucket::new(0));
        let alone = none.with(0, entry);
        let counted = alone.with(1, Slot::of_digit(2));
        let highest = Slot::of_digit(Four::HIGHEST_DIGIT);
        let saturated = (1..4).fold(alone, |bucket, lane| bucket.with(lane, highest));
        let mut delta = Delta::default();
        delta.stored::<Four>();
        (0..2).for_each(|_| delta.inserted::<Four>(&Inserted::Stored));
        assert_eq!((delta.inserted, delta.by_tail[tail]), (3, 3));
        for digits in [2, 0] {
            delta.inserted::<Four>(&Inserted::Counted { digits, saturates: true });
        }
        assert_eq!((delta.inserted, delta.digits, delta.saturated), (5, 2, 2));
        delta.inserted(&Inserted::Regrouped { before: [alone, counted, counted], after: [saturated, none] });
        assert_eq!((delta.inserted, delta.by_tail[tail], delta.digits, delta.saturated), (6, 1, 3, 3));
        for nothing in [Inserted::<Four>::Absorbed, Inserted::Quarantined, Inserted::NoPath] {
            delta.inserted(&nothing);
        }
        (0..2).for_each(|_| delta.removed(Removed::Entry { tail: 3 }));
        delta.removed(Removed::Copy { digits: 5 });
        delta.removed(Removed::Nothing);
        assert_eq!((delta.inserted, delta.removed_in_all(), delta.digits), (6, 3, -2));
        assert_eq!(delta.by_tail[3], -2);
        let mut twice = delta;
        twice.add(&delta);
        let by_tail = delta.by_tail.map(|count| 2 * count);
        assert_eq!(twice, Delta { inserted: 12, removed: 6, digits: -4, saturated: 6, by_tail });
        let mut expected = Counts { inserted: 62, removed: 12, digits: 4, saturated: 15, ..some() };
        (expected.by_tail[3], expected.by_tail[tail]) = (11, 2);
        assert_eq!(some().with(&twice), expected);
    }

    #[test]
    fn buckets_are_counted_with_what_is_wrong_in_them() {
        let (entry, digit) = (Slot::<Four>::fresh(1, 2), Slot::<Four>::of_digit(Four::HIGHEST_DIGIT));
        let with = |slots: [Slot<Four>; 4]| {
            (0..).zip(slots).fold(Bucket::new(0), |bucket, (lane, slot)| bucket.with(lane, slot))
        };
        let (empty, mut counts) = (Slot::new(0), Counts::default());
        for _ in 0..2 {
            assert!(counts.tally(Bucket::<Four>::QUARANTINED));
            assert!(counts.tally(with([entry, digit, digit, digit])));
        }
        assert_eq!((counts.universal, counts.saturated, counts.digits), (8, 2, 6));
        for wrong in [
            with([digit, entry, empty, empty]),
            with([entry, empty, digit, empty]),
            with([Slot::UNIVERSAL, entry, empty, empty]),
        ] {
            assert!(!Counts::default().tally(wrong), "{wrong:?}");
        }
        // A bit outside all lanes, and a well-formed group.
        let group = Bucket::<Five>::new(1 << 63).with(0, Slot::fresh(1, 2)).with(1, Slot::of_digit(1));
        assert!(!Counts::default().tally(group));
    }
}
