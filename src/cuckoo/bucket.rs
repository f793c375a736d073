//! Slots and buckets: n fingerprints in one `u64`, compared all at once.
//!
//! Pure: no I/O, and vectors only through a crate that has them for every processor. One generic implementation
//! serves all widths; the rules are those of `format-spec/README.md`, sections 3 and 4.
//!
//! A slot of W bits is `tag (T bits) | tail | 1 | zeros`: the lowest set bit ends the tail, so a tail may have
//! any length from 0 to W-T-1 bits. Two slots are special: 0 is empty, and `1 << (W-1)`, which has neither
//! tag nor tail, is *universal*: the match rule makes it match every query.

use std::marker::PhantomData;

use wide::u16x8;
use zerocopy::transmute;

use super::widths::Width;

/// A bucket's index in its region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct BucketId(pub(crate) u16);

impl BucketId {
    /// `other` if so told, without a branch.
    pub(super) const fn or(self, other: Self, so: bool) -> Self {
        Self(select(self.0 as u64, other.0 as u64, so) as u16)
    }
}

/// `b` if so told, without a branch.
const fn select(a: u64, b: u64, so: bool) -> u64 {
    a ^ (a ^ b) & (so as u64).wrapping_neg()
}

/// One slot: a fingerprint, or 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot<W>(pub(crate) u32, PhantomData<W>);

impl<W: Width> Slot<W> {
    pub(crate) const UNIVERSAL: Self = Self::new(1 << (W::BITS - 1));

    pub(crate) const fn new(bits: u32) -> Self {
        Self(bits, PhantomData)
    }

    /// The fingerprint of a key just hashed: all the tail there is.
    pub(crate) const fn fresh(local: u64, rem: u64) -> Self {
        let tag = local >> (64 - W::TAG_BITS);
        let tail = rem >> (64 - W::TAIL_BITS);
        Self::new(((tag << (W::BITS - W::TAG_BITS)) + 2 * tail + 1) as u32)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn is_universal(self) -> bool {
        self.0 == Self::UNIVERSAL.0
    }

    pub(crate) const fn tag(self) -> u32 {
        self.0 >> (W::BITS - W::TAG_BITS)
    }

    /// Bits of tail, 0 (*void*) to `TAIL_BITS`; `None` for slots without one: empty, universal, or malformed
    /// (a tag with nothing behind it, which no writer stores).
    pub(crate) const fn tail_length(self) -> Option<u32> {
        W::TAIL_BITS.checked_sub(self.0.trailing_zeros())
    }

    /// The other bucket of an entry found in `bucket`; its own inverse.
    pub(super) fn other(self, bucket: BucketId) -> BucketId {
        BucketId(bucket.0 ^ W::OFFSETS[self.tag() as usize])
    }
}

/// Which lanes of a bucket an operation selected: the top bit of each such lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lanes<W>(u64, PhantomData<W>);

impl<W: Width> Lanes<W> {
    pub(crate) const fn any(self) -> bool {
        self.0 != 0
    }

    pub(super) const fn is_one(self) -> bool {
        self.0.is_power_of_two()
    }

    pub(crate) const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// As [`BucketId::or`].
    pub(super) const fn or(self, other: Self, so: bool) -> Self {
        Self(select(self.0, other.0, so), PhantomData)
    }

    pub(super) const fn first(self) -> Option<u32> {
        if self.0 == 0 { None } else { Some(self.0.trailing_zeros() / W::BITS) }
    }
}

impl<W: Width> Iterator for Lanes<W> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let lane = self.first()?;
        self.0 &= self.0 - 1;
        Some(lane)
    }
}

/// One bucket, as stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bucket<W>(pub(crate) u64, PhantomData<W>);

impl<W: Width> Bucket<W> {
    /// The lowest bit of each lane; times a slot, that slot in every lane.
    const ONES: u64 = {
        let mut ones = 0;
        let mut lane = 0;
        while lane < W::SLOTS {
            ones |= 1 << (lane * W::BITS);
            lane += 1;
        }
        ones
    };
    /// The highest bit of each lane.
    const HIGH: u64 = Self::ONES << (W::BITS - 1);
    /// All other bits of each lane.
    const BODY: u64 = Self::HIGH - Self::ONES;
    /// The highest bit below the tag of each lane, and all bits below that.
    const TAIL_TOP: u64 = Self::ONES << W::TAIL_BITS;
    const TAIL_BODY: u64 = Self::TAIL_TOP - Self::ONES;
    /// Every bit that belongs to a lane.
    const LANES: u64 = Self::HIGH | Self::BODY;
    /// A bucket that repair has given up: every slot universal.
    pub(crate) const QUARANTINED: Self = Self::new(Self::HIGH);

    pub(crate) const fn new(word: u64) -> Self {
        Self(word, PhantomData)
    }

    const fn lanes(mask: u64) -> Lanes<W> {
        Lanes(mask, PhantomData)
    }

    /// As [`BucketId::or`].
    pub(super) const fn or(self, other: Self, so: bool) -> Self {
        Self::new(select(self.0, other.0, so))
    }

    pub(crate) const fn slot(self, lane: u32) -> Slot<W> {
        Slot::new((self.0 >> (lane * W::BITS)) as u32 & (u32::MAX >> (32 - W::BITS)))
    }

    pub(crate) const fn with(self, lane: u32, slot: Slot<W>) -> Self {
        let shift = lane * W::BITS;
        let mask = (u64::MAX >> (64 - W::BITS)) << shift;
        Self::new(self.0 & !mask | (slot.0 as u64) << shift)
    }

    /// Bits set outside every lane, which no writer does.
    pub(crate) const fn has_stray_bits(self) -> bool {
        self.0 & !Self::LANES != 0
    }

    pub(super) const fn empty_lanes(self) -> Lanes<W> {
        // Adding BODY carries into the top bit of a lane exactly when a lower bit is set, never further.
        Self::lanes(!(((self.0 & Self::BODY) + Self::BODY) | self.0) & Self::HIGH)
    }

    pub(crate) const fn has_universal(self) -> bool {
        Self::new(self.0 ^ Self::HIGH).empty_lanes().any()
    }

    /// The lanes whose entries match `query`: all bits above the entry's lowest set bit agree.
    ///
    /// Per lane of W bits, with `low` the lowest set bit of the entry: the entry matches if what differs from the
    /// query lies below `2 * low`; halved, below `low`. Added to `low`, what agrees, halved, which is that
    /// much less than 2^(W-1), then reaches the top bit, and never the lane above. An empty slot has no lowest
    /// bit, and nothing is below 0. For n = 4 and an entry 0xABC8, `low` is 8, and every query from 0xABC0 to
    /// 0xABCF matches.
    #[inline]
    pub(crate) const fn matches(self, query: Slot<W>) -> Lanes<W> {
        let entries = self.0;
        // The top bit of each lane lends to the decrement, and is itself left where no other is set.
        let lowest = entries & !((entries | Self::HIGH).wrapping_sub(Self::ONES));
        let agrees = entries ^ !Self::ONES.wrapping_mul(query.0 as u64);
        Self::lanes(((agrees >> 1 & Self::BODY) + lowest) & Self::HIGH)
    }

    /// Whether any entry of either bucket matches `query`, which is not 0.
    #[inline]
    pub(crate) fn either_matches(self, other: Self, query: Slot<W>) -> bool {
        if W::BITS != 16 {
            return self.matches(query).any() | other.matches(query).any();
        }
        // In vectors: the processor's integer registers are what limits how many lookups it has under way. What is
        // ignored of an entry ends with its lowest set bit; of an empty slot, which nothing is taken from, nothing.
        let entries = u16x8::new(transmute!([self.0, other.0]));
        let ignored = entries ^ entries.saturating_sub(u16x8::ONE);
        let differs = (entries ^ u16x8::splat(query.0 as u16)) & !ignored;
        differs.simd_eq(u16x8::ZERO).any()
    }

    /// The two buckets this one becomes when the filter doubles: each entry goes left or right by the first
    /// bit of its tail, which leaves the tail; entries with no tail to decide by (void, universal) go to both.
    #[inline]
    pub(crate) const fn split(self) -> (Self, Self) {
        let entries = self.0;
        let decided = ((entries & Self::TAIL_BODY) + Self::TAIL_BODY) & Self::TAIL_TOP;
        let right = Self::whole_lanes((decided & entries) >> W::TAIL_BITS);
        let decided = Self::whole_lanes(decided >> W::TAIL_BITS);
        let both = entries & !decided;
        let tags = Self::LANES & !(Self::TAIL_TOP | Self::TAIL_BODY);
        let moved = (entries & tags) | (entries & Self::TAIL_BODY) << 1;
        (Self::new(both | moved & decided & !right), Self::new(both | moved & right))
    }

    /// From the lowest bit of some lanes to all bits of those lanes.
    const fn whole_lanes(lowest: u64) -> u64 {
        // Neighbours telescope; where lanes fill the word, the shift drops the top lane's bit 64.
        (lowest << W::BITS).wrapping_sub(lowest)
    }
}

#[cfg(test)]
mod tests;
