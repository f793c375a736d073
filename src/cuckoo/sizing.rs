//! How large a filter must be: slots per bucket for a false-positive rate, regions for a capacity.
//!
//! The tables stand in `format-spec/README.md`, section 3.3.

use super::bucket::BUCKETS_PER_REGION;
use super::hash::MAX_REGIONS;
use super::kind::Kind;
use super::widths::{AnyWidth, SlotsPerBucket};

impl SlotsPerBucket {
    /// The most slots per bucket whose false-positive rate is at most `rate`, in a set at full load before any growth.
    /// `None` if no width reaches that rate.
    pub fn for_rate(rate: f64) -> Option<Self> {
        Self::for_rate_of(rate, Kind::Set)
    }

    /// Like `for_rate`, for a filter of this kind: a counting filter has twice the rate of a set.
    pub(crate) fn for_rate_of(rate: f64, kind: Kind) -> Option<Self> {
        let rate_of = |slots: &Self| AnyWidth::of_new(*slots, kind).false_positive_rate();
        Self::ALL.into_iter().rev().find(|slots| rate_of(slots) <= rate)
    }

    /// The expected false-positive rate of a set at full load before any growth, 0 to 1: `2n * 2^-W`. A counting filter has
    /// twice that rate.
    pub fn false_positive_rate(self) -> f64 {
        AnyWidth::of_new(self, Kind::Set).false_positive_rate()
    }

    /// rho: the highest load, as a share of all slots, that leaves room in every region of a filter.
    ///
    /// The first insert that finds no room in a region comes at a mean load of 0.889, 0.951, 0.971, 0.982, 0.987,
    /// 0.990 for n = 2 to 7 (measured over 4000 regions each; standard deviation 0.004 to 0.002). The keys spread
    /// unevenly over the regions, and rho keeps at least six standard deviations of that spread below these loads.
    ///
    /// An insert can fail earlier if more than 2n keys meet in one pair of buckets: at 50 million keys the chance of that
    /// is 5e-4 for n = 2, 2e-4 for n = 4, and below 1e-6 for the others. The filter then doubles early, or the insert
    /// fails if growth is off.
    pub const fn headroom(self) -> f64 {
        match self {
            Self::Two => 0.80,
            Self::Three => 0.90,
            Self::Four => 0.93,
            Self::Five => 0.945,
            Self::Six => 0.955,
            Self::Seven => 0.96,
        }
    }

    /// How many regions `capacity` keys need, at least 1; `None` if more than 2^32.
    pub(crate) fn regions_for(self, capacity: u64) -> Option<u64> {
        let keys_per_region = f64::from(BUCKETS_PER_REGION * self.get()) * self.headroom();
        let regions = (capacity as f64 / keys_per_region).ceil().max(1.0) as u64;
        (regions <= MAX_REGIONS).then_some(regions)
    }
}

impl AnyWidth {
    /// The rate at full load before any growth, 0 to 1: `2n * 2^-(T + t)`, for t bits of tail. For a forgetting filter it
    /// is an upper bound: it counts expired entries, which match nothing.
    pub(crate) fn false_positive_rate(self) -> f64 {
        let compared = self.slots().tag_bits() + self.fresh_tail_bits();
        f64::from(2 * self.slots().get()) * (-f64::from(compared)).exp2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_served_by_the_smallest_file_that_keeps_it() {
        for (rate, slots) in [
            (0.9, Some(SlotsPerBucket::Seven)),
            (0.05, Some(SlotsPerBucket::Seven)),
            (0.02, Some(SlotsPerBucket::Six)),
            (0.01, Some(SlotsPerBucket::Five)),
            (0.001, Some(SlotsPerBucket::Four)),
            (2e-4, Some(SlotsPerBucket::Four)),
            (1e-4, Some(SlotsPerBucket::Three)),
            (2.8e-6, Some(SlotsPerBucket::Two)),
            (9e-10, None),
            (0.0, None),
        ] {
            assert_eq!(SlotsPerBucket::for_rate(rate), slots, "{rate}");
            // A counting filter has twice the rate.
            assert_eq!(SlotsPerBucket::for_rate_of(2.0 * rate, Kind::Counting), slots, "{rate}");
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
