//! Shards: filters that divide all keys among themselves, each key belonging to one of them.
//!
//! No I/O. The rules stand in `format-spec/README.md`, section 3.5.

use super::hash::{KeyHash, MAX_REGIONS, RegionId};

/// The part of all keys that a filter holds. Shards divide the line of positions as regions do: S shards of R regions
/// each hold what one filter of S * R regions would hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shard {
    /// How many shards there are; 1 for a filter that takes every key.
    pub(crate) of: u64,
    /// The number of this shard, from 0.
    pub(crate) number: u64,
}

impl Shard {
    /// A filter that takes every key.
    pub(crate) const WHOLE: Self = Self { of: 1, number: 0 };

    pub(crate) const fn is_whole(self) -> bool {
        self.of == 1
    }

    /// The most regions that a shard may have: all shards together may have [`MAX_REGIONS`].
    pub(crate) const fn most_regions(self) -> u64 {
        MAX_REGIONS / self.of
    }
}

/// The regions of one shard among all shards' regions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    /// The number of regions of all shards, at most [`MAX_REGIONS`].
    all: u64,
    /// The shard's first region.
    first: u32,
    /// How many regions the shard has.
    own: u64,
}

impl Span {
    /// `regions` counts the regions of one shard, at most [`Shard::most_regions`].
    pub(crate) const fn new(shard: Shard, regions: u64) -> Self {
        Self { all: shard.of * regions, first: (shard.number * regions) as u32, own: regions }
    }

    /// The region of a key, and the fraction that remains; `None` for a key of another shard.
    #[inline]
    pub(crate) const fn region(self, hash: KeyHash) -> Option<(RegionId, u64)> {
        let (region, rem) = self.region_or_beyond(hash);
        if (region.0 as u64) < self.own { Some((region, rem)) } else { None }
    }

    /// Like `region`, for callers that compare the region with the number of regions themselves: a key of another shard
    /// gets a region at or above that number.
    ///
    /// Region 2 of 4 shards with 3 regions each is region 2 of the first shard. Counted from 6, where the third shard
    /// begins, it is 2^32 - 4.
    #[inline]
    pub(crate) const fn region_or_beyond(self, hash: KeyHash) -> (RegionId, u64) {
        let (region, rem) = hash.region(self.all);
        (RegionId(region.0.wrapping_sub(self.first)), rem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes() -> impl Iterator<Item = KeyHash> {
        let mut state = 1_u128;
        let next = move || {
            state = state.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(0x5851_f42d);
            KeyHash::new(state ^ state >> 67)
        };
        let edges = [0, u128::MAX, 1 << 127, (1 << 127) - 1, u64::MAX.into()].map(KeyHash::new);
        edges.into_iter().chain(std::iter::repeat_with(next))
    }

    /// Computes it as the specification says: first the shard, and then the region from the remainder.
    #[test]
    fn shards_of_regions_are_the_regions_of_one_filter() {
        for (of, regions) in
            [(1, 1), (1, MAX_REGIONS), (2, 1), (3, 5), (8, 1 << 20), (1 << 16, 1 << 16), (MAX_REGIONS, 1)]
        {
            for hash in hashes().take(20_000) {
                let product = u128::from(hash.position()) * u128::from(of);
                let (number, position) = ((product >> 64) as u64, product as u64);
                assert_eq!(hash.shard(of), number);
                let product = u128::from(position) * u128::from(regions);
                let (region, rem) = (RegionId((product >> 64) as u32), product as u64);
                assert_eq!(Span::new(Shard { of, number }, regions).region(hash), Some((region, rem)));
                let of_all = RegionId((number * regions) as u32 + region.0);
                assert_eq!(hash.region(of * regions), (of_all, rem));
                for other in
                    [0, 1, of / 2, of - 1].into_iter().filter(|other| *other < of && *other != number)
                {
                    let span = Span::new(Shard { of, number: other }, regions);
                    assert_eq!(span.region(hash), None);
                    assert!(u64::from(span.region_or_beyond(hash).0.0) >= regions);
                }
            }
        }
    }

    #[test]
    fn worked_values() {
        let span = Span::new(Shard { of: 4, number: 2 }, 3);
        // 2.5 of 12 regions.
        let hash = KeyHash::new(((1_u128 << 64) * 5 / 24) << 64);
        assert_eq!(span.region_or_beyond(hash).0.0, 0_u32.wrapping_sub(4));
        assert_eq!(hash.shard(4), 0);
        // 3.5 of 12 regions: the first region of the second shard, right after the first shard.
        let hash = KeyHash::new(((1_u128 << 64) * 7 / 24) << 64);
        let [first, second] = [0, 1].map(|number| Span::new(Shard { of: 4, number }, 3));
        assert_eq!((first.region(hash), first.region_or_beyond(hash).0), (None, RegionId(3)));
        assert_eq!(second.region(hash).unwrap().0, RegionId(0));
        assert!(Shard::WHOLE.is_whole() && !Shard { of: 4, number: 0 }.is_whole());
    }
}
