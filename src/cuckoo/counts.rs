//! Counters that are stored with every commit, so that load and expected rate are known without reading the buckets.

use super::widths::SlotsPerBucket;

/// Room for counts by tail length; the longest tail of format 1.0 has 21 bits.
pub(crate) const TAIL_LENGTHS: usize = 32;

/// The counters of a filter, exact as of the commit they belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    /// Entries ever stored by inserts.
    pub(crate) inserted: u64,
    /// Entries removed.
    pub(crate) removed: u64,
    /// Inserts that stored nothing: unique inserts of a key that was found, and copies beyond the limit.
    pub(crate) unrecorded: u64,
    /// Universal slots.
    pub(crate) universal: u64,
    /// Entries by the length of their tail.
    pub(crate) by_tail: [u64; TAIL_LENGTHS],
}

impl Counts {
    /// Entries there are now; universal slots are not among them. May exceed `inserted - removed`, as a doubling copies
    /// void entries.
    pub(crate) fn entries(&self) -> u64 {
        self.by_tail.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Entries without a tail.
    pub(crate) fn void(&self) -> u64 {
        self.by_tail[0]
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
    /// This is exact: a split moves each entry that has a tail to one side, and copies all others to both.
    pub(crate) fn doubled(&self) -> Self {
        let mut by_tail = [0; TAIL_LENGTHS];
        for (shorter, longer) in by_tail.iter_mut().zip(self.by_tail.iter().skip(1)) {
            *shorter = *longer;
        }
        by_tail[0] += 2 * self.void();
        Self { by_tail, universal: 2 * self.universal, ..*self }
    }

    /// The counters after one doubling, when inserts have filled the new filter up to its headroom. `slots` are the
    /// slots it has then, twice as many as now.
    pub(crate) fn doubled_and_full(&self, width: SlotsPerBucket, slots: u64) -> Self {
        let mut next = self.doubled();
        let room = (slots as f64 * width.headroom()) as u64;
        let fresh = room.saturating_sub(next.entries().saturating_add(next.universal));
        next.by_tail[width.fresh_tail_bits() as usize] += fresh;
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn universal_slots_make_every_query_match() {
        let counts = Counts { universal: 1000, ..Counts::default() };
        assert!(counts.expected_false_positive_rate(SlotsPerBucket::Four, 1000) > 0.999);
    }
}
