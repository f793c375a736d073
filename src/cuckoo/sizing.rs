//! How large a filter must be: slots per bucket for a false-positive rate, regions for a capacity.
//!
//! Pure arithmetic. The tables are those of `format-spec/README.md`, section 3.3.

use crate::bucket::{Width, with_width};
use crate::format::{BUCKETS_PER_REGION, MAX_REGIONS};

/// Slots in a 64-bit bucket: fewer slots are wider, so that fewer keys are taken for another.
///
/// The rate is the chance that a key never inserted is found, at full load in a filter that has not grown:
/// `2n * 2^-(T + t)`, for 2n slots compared and T + t bits of tag and tail in each. Bytes a key are those of a
/// filter created for 50 million keys and full.
///
/// | slots | bits a slot | false positives | bytes a key |
/// |---|---|---|---|
/// | 2 | 32 | 1.9e-9 | 5.01 |
/// | 3 | 21 | 5.7e-6 | 2.97 |
/// | 4 | 16 | 0.024 % | 2.16 |
/// | 5 | 12 | 0.49 % | 1.70 |
/// | 6 | 10 | 2.3 % | 1.40 |
/// | 7 | 9 | 5.5 % | 1.20 |
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SlotsPerBucket {
    /// 32 bits each.
    Two = 2,
    /// 21 bits each.
    Three = 3,
    /// 16 bits each: the default.
    Four = 4,
    /// 12 bits each.
    Five = 5,
    /// 10 bits each.
    Six = 6,
    /// 9 bits each.
    Seven = 7,
}

impl SlotsPerBucket {
    /// All of them, the widest slots first.
    pub const ALL: [Self; 6] = [Self::Two, Self::Three, Self::Four, Self::Five, Self::Six, Self::Seven];

    /// The number, 2 to 7.
    pub const fn get(self) -> u32 {
        self as u32
    }

    /// The value for a number of slots; `None` unless it is 2 to 7.
    pub fn new(slots: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|candidate| candidate.get() == slots)
    }

    /// The most slots a bucket may have for a false-positive rate of `rate` at full load before any growth;
    /// `None` if no width reaches it.
    pub fn for_rate(rate: f64) -> Option<Self> {
        Self::ALL.into_iter().rev().find(|slots| slots.false_positive_rate() <= rate)
    }

    /// The expected false-positive rate at full load before any growth, 0 to 1: `2n * 2^-(T + t)`.
    pub fn false_positive_rate(self) -> f64 {
        f64::from(2 * self.get()) * (-f64::from(self.tag_bits() + self.fresh_tail_bits())).exp2()
    }

    /// T: the bits of a slot that choose the second bucket and never change.
    pub(crate) const fn tag_bits(self) -> u32 {
        with_width!(self, W => W::TAG_BITS)
    }

    /// W - T - 1: the bits of the tail of an entry just stored.
    pub(crate) const fn fresh_tail_bits(self) -> u32 {
        with_width!(self, W => W::TAIL_BITS)
    }

    /// rho: the part of all slots that a filter of any size takes before some region has no room.
    ///
    /// A region fails first at a mean load of 0.889, 0.951, 0.971, 0.982, 0.987, 0.990 for n = 2..7 (4000
    /// regions each, standard deviation 0.004 to 0.002), at least six deviations of the fill of a region away
    /// from rho. What is left is that more than 2n keys meet in one pair of buckets: at 50 million keys the
    /// chance of that is 5e-4 for n = 2, 2e-4 for n = 4, and below 1e-6 for the others. The filter then doubles
    /// early, or refuses if it must not.
    pub(crate) const fn headroom(self) -> f64 {
        match self {
            Self::Two => 0.80,
            Self::Three => 0.90,
            Self::Four => 0.93,
            Self::Five => 0.945,
            Self::Six => 0.955,
            Self::Seven => 0.96,
        }
    }

    /// The regions that take `capacity` keys, at least 1; `None` where the format has not so many.
    pub(crate) fn regions_for(self, capacity: u64) -> Option<u64> {
        let keys_per_region = f64::from(BUCKETS_PER_REGION * self.get()) * self.headroom();
        let regions = (capacity as f64 / keys_per_region).ceil().max(1.0) as u64;
        (regions <= MAX_REGIONS).then_some(regions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_served_by_the_smallest_file_that_keeps_it() {
        for (rate, slots) in [
            (0.9, Some(SlotsPerBucket::Seven)),
            (0.05, Some(SlotsPerBucket::Six)),
            (0.01, Some(SlotsPerBucket::Five)),
            (0.001, Some(SlotsPerBucket::Four)),
            (2e-4, Some(SlotsPerBucket::Three)),
            (5e-6, Some(SlotsPerBucket::Two)),
            (1e-9, None),
            (0.0, None),
        ] {
            assert_eq!(SlotsPerBucket::for_rate(rate), slots, "{rate}");
        }
    }

    #[test]
    fn fifty_million_keys_take_the_bytes_that_the_table_promises() {
        let bytes_a_key = [5.01, 2.97, 2.16, 1.70, 1.40, 1.20];
        for (slots, expected) in SlotsPerBucket::ALL.into_iter().zip(bytes_a_key) {
            let regions = slots.regions_for(50_000_000).unwrap_or(0);
            let bytes = crate::format::Geometry { slots, base_regions: regions, generation: 0 }.file_length();
            let actual = bytes as f64 / 50e6;
            assert!((actual / expected - 1.0).abs() < 0.005, "{slots:?}: {actual}");
        }
    }

    #[test]
    fn the_largest_capacity_is_a_number_of_regions_that_the_format_has() {
        for slots in SlotsPerBucket::ALL {
            assert_eq!(slots.regions_for(0), Some(1));
            assert_eq!(slots.regions_for(1), Some(1));
            assert_eq!(slots.regions_for(u64::MAX), None);
        }
    }
}
