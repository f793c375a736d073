//! Counters that are stored with every commit, so that load and expected rate are known without reading the buckets.

use super::bucket::Bucket;
use super::kind::Kind;
use super::region::{Inserted, Removed};
use super::widths::{AnyWidth, SlotsPerBucket, Width};

/// The epoch of a new forgetting filter, until its first key.
pub(crate) const FIRST_EPOCH: u64 = 1;

/// Room for counts by tail length; the longest tail has 21 bits.
pub(crate) const TAIL_LENGTHS: usize = 22;

/// Buckets whose bits are counted side by side.
const COLUMNS: usize = 4;
/// Binary digits of those counters.
const PLANES: usize = 12;

/// Adds one to the counter of each bit that is set, for eight words of each column. `planes` has the digits of the
/// counters, the lowest first.
#[inline(always)]
fn add(planes: &mut [[u64; COLUMNS]; PLANES], words: &[[u64; COLUMNS]; 8]) {
    // Three digits of one weight make one of that weight, which stays in `sum`, and one of twice the weight.
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
    // The carry out of eight words goes up through the higher digits.
    for plane in &mut planes[3..] {
        for (digit, carry) in plane.iter_mut().zip(&mut carry) {
            (*digit, *carry) = (*digit ^ *carry, *digit & *carry);
        }
    }
}

/// The counters of a filter, exact as of the commit they belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    /// Copies ever inserted, without those that a saturated group answered for.
    pub(crate) inserted: u64,
    /// Copies removed, without those that a saturated group answered for.
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
    /// The regions, from the first on, that hold no entry which expires in this epoch; 0 in others.
    pub(crate) swept: u64,
    /// The bitwise or of what stands behind the counters in a file; not 0 only in a damaged one.
    pub(crate) beyond: u64,
}

impl Counts {
    /// The counters of a new filter.
    pub(crate) fn new(kind: Kind) -> Self {
        let epoch = if kind == Kind::Forgetting { FIRST_EPOCH } else { 0 };
        Self { epoch, ..Self::default() }
    }

    /// The entries now, without universal slots and digits. They may be more than `inserted - removed`, as a doubling
    /// copies void entries and saturated groups stay.
    pub(crate) fn entries(&self) -> u64 {
        self.by_tail.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Slots in use.
    pub(crate) fn used(&self) -> u64 {
        self.entries().saturating_add(self.universal).saturating_add(self.digits)
    }

    /// Copies inserted and not removed, where a saturated group stands for its highest count.
    ///
    /// A part of a divided filter has only a share of both totals, so `removed` may exceed `inserted`. Then this is the
    /// number of entries that have a tail, so that no filter with keys is called empty.
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

    /// Only what no scan can find: `inserted`, `removed` and the epoch. The other counters are 0, and no region counts as
    /// swept.
    pub(crate) fn totals(&self) -> Self {
        let Self { inserted, removed, epoch, .. } = *self;
        Self { inserted, removed, epoch, ..Self::default() }
    }

    /// Whether the counters that a scan can find equal those of `other`.
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

    /// What a scan of a filter of this kind counts. A digit in a set counts nothing: no writer stores one, and a superblock
    /// that told of it would be refused with the whole file.
    pub(crate) const fn in_a(self, kind: Kind) -> Self {
        match kind {
            Kind::Set | Kind::Forgetting => Self { digits: 0, saturated: 0, ..self },
            Kind::Counting => self,
        }
    }

    /// Counts what a bucket holds; false if it holds a slot, or a mix of slots, that no writer stores.
    pub(crate) fn tally<W: Width>(&mut self, bucket: Bucket<W>) -> bool {
        let mut well_formed = !bucket.has_stray_bits();
        let (mut universal, mut in_group) = (0, false);
        for slot in (0..W::SLOTS).map(|lane| bucket.slot(lane)) {
            let length = slot.tail_length();
            match length {
                Some(length) => self.by_tail[length as usize] += 1,
                None if slot.is_universal() => universal += 1,
                None if slot.digit().is_some() => {
                    // A digit counts for the entry below it, so there must be one.
                    well_formed &= in_group;
                    self.digits += 1;
                }
                None => well_formed &= slot.is_empty(),
            }
            in_group = length.is_some() || in_group && slot.digit().is_some();
        }
        self.saturated += u64::from(bucket.is_saturated());
        self.universal += u64::from(universal);
        // Buckets are quarantined whole.
        well_formed && (universal == 0 || universal == W::SLOTS)
    }

    /// Counts what buckets hold, as `tally` does.
    pub(crate) fn tally_all<W: Width>(&mut self, words: &[u64]) {
        // The chunks are so small that no counter of a bit can overflow.
        for words in words.chunks(8 * COLUMNS * ((1 << (PLANES - 3)) - 1)) {
            self.tally_some::<W>(words);
        }
    }

    /// Like `tally_all`, for few enough words. Counts the lowest set bits of all slots: each of the 64 bit positions
    /// has a counter, and one word of `planes` holds the same binary digit of all 64 counters.
    fn tally_some<W: Width>(&mut self, words: &[u64]) {
        let mut planes = [[0; COLUMNS]; PLANES];
        let (blocks, rest) = words.as_chunks::<{ 8 * COLUMNS }>();
        for block in blocks {
            let mut lowest = [[0; COLUMNS]; 8];
            let mut odd = 0;
            for (word, lowest) in block.iter().zip(lowest.as_flattened_mut()) {
                let bucket = Bucket::<W>::new(*word);
                odd |= bucket.oddities();
                *lowest = bucket.lowest_set_bits();
            }
            if odd == 0 {
                add(&mut planes, &lowest);
            } else {
                block.iter().for_each(|word| _ = self.tally(Bucket::<W>::new(*word)));
            }
        }
        rest.iter().for_each(|word| _ = self.tally(Bucket::<W>::new(*word)));
        for (tail, count) in (0..=W::TAIL_BITS).zip(&mut self.by_tail) {
            let ended_here = Bucket::<W>::ending_tails_of(tail);
            for (digit, plane) in planes.iter().enumerate() {
                let ones: u32 = plane.iter().map(|word| (word & ended_here).count_ones()).sum();
                *count += u64::from(ones) << digit;
            }
        }
    }

    /// The counters with the changes of `delta`. They may come from a hostile file, and must not overflow.
    pub(crate) fn with(&self, delta: &Delta) -> Self {
        let mut by_tail = self.by_tail;
        for (count, change) in by_tail.iter_mut().zip(delta.by_tail) {
            *count = count.saturating_add_signed(change);
        }
        Self {
            inserted: self.inserted.saturating_add(delta.inserted),
            removed: self.removed.saturating_add(delta.removed),
            universal: self.universal,
            digits: self.digits.saturating_add_signed(delta.digits),
            saturated: self.saturated.saturating_add_signed(delta.saturated),
            by_tail,
            ..*self
        }
    }

    /// The chance that a key never inserted is found: `1 - (1 - q)(1 - q/8) exp(-x)` (`format-spec/README.md`, section
    /// 4.9).
    ///
    /// `x = (sum of count[t] * 2^-(T + t)) * 2n / slots` is the number of entries that match such a key on average. q
    /// is the part of the buckets that are quarantined. Whole pages are quarantined, and one tag in eight leads out of
    /// the page of the first bucket; so the second bucket adds an eighth of the first one's chance.
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

    /// The counters after one doubling: tails are one bit shorter, and void entries and universal slots double.
    ///
    /// This is exact: a split moves each entry that has a tail to one side, and copies all others to both. Digits and
    /// saturated groups of void entries are copied too, and are not counted here: the doubling itself counts them.
    pub(crate) fn doubled(&self) -> Self {
        let mut by_tail = [0; TAIL_LENGTHS];
        for (shorter, longer) in by_tail.iter_mut().zip(self.by_tail.iter().skip(1)) {
            *shorter = *longer;
        }
        by_tail[0] += 2 * self.void();
        Self { by_tail, universal: 2 * self.universal, swept: 2 * self.swept, ..*self }
    }

    /// The counters after one halving, which undoes a doubling: tails are one bit longer, up to the longest. Quarantined
    /// buckets may become fewer, to half as many, and digits a few more or fewer.
    pub(crate) fn halved(&self, width: AnyWidth) -> Self {
        let longest = width.fresh_tail_bits() as usize;
        let mut by_tail = [0; TAIL_LENGTHS];
        for (tail, count) in self.by_tail.iter().enumerate().take(longest + 1) {
            by_tail[(tail + 1).min(longest)] += count;
        }
        Self { by_tail, ..*self }
    }

    /// The counters after one doubling, when inserts have filled the new filter up to its headroom. `slots` are the
    /// slots it has then, twice as many as now.
    pub(crate) fn doubled_and_full(&self, width: AnyWidth, slots: u64) -> Self {
        let mut next = self.doubled();
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
            Inserted::Merged { before, after } => {
                before.iter().for_each(|bucket| self.holds(*bucket, -1));
                after.iter().for_each(|bucket| self.holds(*bucket, 1));
            }
            // Saturated groups stand for any number of copies: neither inserts nor removals of theirs are counted.
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

    #[test]
    fn a_full_fresh_filter_has_the_rate_of_its_width() {
        for width in SlotsPerBucket::ALL {
            let mut counts = Counts::default();
            counts.by_tail[width.fresh_tail_bits() as usize] = 1 << 20;
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

    /// For every width, over buckets of entries alone, and with others among them.
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
}
