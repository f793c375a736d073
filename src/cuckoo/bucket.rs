//! Slots and buckets: n fingerprints in one `u64`, compared all at once.
//!
//! No I/O. One generic implementation serves all widths; the rules are those of `format-spec/README.md`, sections 3
//! and 4. Each trick with bits has a worked value for n = 4, where W = 16, T = 6, and a tail has at most 9 bits; the
//! test `worked_values` computes them.
//!
//! An entry of W bits is `tag (T bits) | tail | 1 | zeros`: the lowest set bit ends the tail, so a tail may have any
//! length from 0 to W-T-1 bits. A slot whose low W-T bits are all 0 is not an entry. 0 is empty. `1 << (W-1)` is
//! *universal*: by the match rule it matches every query. With a tag from 1 to D, below half of all tags, it is a
//! *digit*: it matches nothing, and counts copies of the entry below it (`group.rs`).

use std::marker::PhantomData;

use super::widths::Width;

/// A bucket's index in its region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct BucketId(pub(crate) u16);

/// Buckets of a region; a power of two, whose logarithm is [`Width::INDEX_BITS`].
pub(crate) const BUCKETS_PER_REGION: u32 = 8192;

/// The first bucket of a key in its region, and the fingerprint that is stored there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place<W> {
    pub(crate) first: BucketId,
    pub(crate) fingerprint: Slot<W>,
}

impl<W: Width> Place<W> {
    /// From the low half of a hash, and the fraction that [`KeyHash::region`](super::KeyHash) returns beside the
    /// region.
    #[inline]
    pub(crate) const fn new(local: u64, rem: u64) -> Self {
        let first = BucketId(local as u16 & ((1 << W::INDEX_BITS) - 1) as u16);
        Self { first, fingerprint: Slot::fresh(local, rem) }
    }

    #[inline]
    pub(crate) fn second(self) -> BucketId {
        self.fingerprint.other(self.first)
    }

    /// The same place in a forgetting filter, as of this epoch: entries that expire in it match no longer.
    #[inline(always)]
    pub(crate) const fn at(self, epoch: u32) -> Self {
        if W::EXPIRY_BITS == 0 {
            return self;
        }
        Self { fingerprint: self.fingerprint.with_expiry(epoch), ..self }
    }

    /// Both buckets, loaded.
    #[inline(always)]
    pub(super) fn load<B: Buckets<W>>(self, buckets: &mut B) -> Result<[(BucketId, Bucket<W>); 2], B::Error> {
        let second = self.second();
        Ok([(self.first, buckets.load(self.first)?), (second, buckets.load(second)?)])
    }
}

/// The buckets of one region, to read: in a map, in a file or in memory.
pub(crate) trait Buckets<W> {
    type Error;

    fn load(&mut self, id: BucketId) -> Result<Bucket<W>, Self::Error>;
}

/// The buckets of one region, to change.
pub(crate) trait BucketsMut<W>: Buckets<W> {
    /// Replaces a bucket that was loaded before.
    fn store(&mut self, id: BucketId, bucket: Bucket<W>);
}

/// Buckets behind dynamic dispatch: what takes long beside a call is compiled once for each width, and not for each kind
/// of buckets.
pub(super) struct AnyBuckets<'a, W, E>(pub(super) &'a mut dyn BucketsMut<W, Error = E>);

impl<W: Width, E> Buckets<W> for AnyBuckets<'_, W, E> {
    type Error = E;

    fn load(&mut self, id: BucketId) -> Result<Bucket<W>, E> {
        self.0.load(id)
    }
}

impl<W: Width, E> BucketsMut<W> for AnyBuckets<'_, W, E> {
    fn store(&mut self, id: BucketId, bucket: Bucket<W>) {
        self.0.store(id, bucket);
    }
}

impl BucketId {
    /// `other` if `so`, else `self`; without a branch.
    pub(super) const fn or(self, other: Self, so: bool) -> Self {
        Self(select(self.0 as u64, other.0 as u64, so) as u16)
    }
}

/// `b` if `so`, else `a`; without a branch: `so` becomes a mask of 64 ones or 64 zeros.
const fn select(a: u64, b: u64, so: bool) -> u64 {
    a ^ (a ^ b) & (so as u64).wrapping_neg()
}

/// One slot: a fingerprint, or 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot<W>(pub(crate) u32, PhantomData<W>);

impl<W: Width> Slot<W> {
    /// The expiry bits, a mask.
    const EXPIRY: u32 = (1 << W::EXPIRY_BITS) - 1;
    pub(crate) const UNIVERSAL: Self = Self::new(1 << (W::BITS - 1));

    pub(crate) const fn new(bits: u32) -> Self {
        Self(bits, PhantomData)
    }

    /// The fingerprint of a key that was just hashed, with a tail of full length.
    ///
    /// n = 4, `local` = `0x7433…` (tag 29), `rem` = `0x3e44…` (tail `0x7c`): `29 << 10 | 0x7c << 1 | 1` = `0x74f9`.
    pub(crate) const fn fresh(local: u64, rem: u64) -> Self {
        let tag = local >> (64 - W::TAG_BITS);
        let tail = rem >> (64 - W::TAIL_BITS);
        Self::new(((tag << (W::BITS - W::TAG_BITS)) + ((2 * tail + 1) << W::EXPIRY_BITS)) as u32)
    }

    /// The code in the expiry bits: of an entry, the epoch in which it expires, modulo 2^a; of a query, the epoch now.
    pub(super) const fn expiry(self) -> u32 {
        self.0 & Self::EXPIRY
    }

    /// The slot with the code of this epoch in its expiry bits.
    ///
    /// n = 4, a = 3: `0x74f8` with epoch 13, which is 5 modulo 8, is `0x74fd`.
    #[inline]
    pub(crate) const fn with_expiry(self, epoch: u32) -> Self {
        Self::new(self.0 & !Self::EXPIRY | epoch & Self::EXPIRY)
    }

    /// The epochs that an entry has left at this one; 0 in filters that do not forget.
    ///
    /// n = 4, a = 3: `0x74fd` expires in an epoch that is 5 modulo 8, so at epoch 10 it has 3 left.
    pub(super) const fn epochs_left(self, now: u32) -> u32 {
        self.expiry().wrapping_sub(now) & Self::EXPIRY
    }

    /// Whether every query that matches `entry` also matches this entry, if both live: this tail is the beginning of that
    /// one, or all of it.
    pub(super) const fn covers(self, entry: Self) -> bool {
        let (Some(tail), Some(longer)) = (self.tail_length(), entry.tail_length()) else { return false };
        tail <= longer && (self.0 ^ entry.0) >> (W::BITS - W::TAG_BITS - tail) == 0
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

    /// Bits of tail, from 0 (*void*) to `TAIL_BITS`. `None` for slots that are not entries: empty, universal, a digit,
    /// or malformed (which no writer stores).
    ///
    /// n = 4: `0x74f9` has 9, `0x75f2` has 8, `0x7600` has 0; `0x8000`, `0x7400`, `0x8400` and `0x0000` have none.
    pub(crate) const fn tail_length(self) -> Option<u32> {
        W::TAIL_BITS.checked_sub((self.0 >> W::EXPIRY_BITS).trailing_zeros())
    }

    /// The digit of this value, 1 to D.
    pub(super) const fn of_digit(value: u32) -> Self {
        Self::new(value << (W::BITS - W::TAG_BITS))
    }

    /// The value of a digit, 1 to D; `None` for all other slots.
    ///
    /// n = 4: `0x7400` has 29, `0x7c00` has 31, the highest; `0x8400`, `0x8000`, `0x7600` and `0x0000` have none.
    pub(crate) const fn digit(self) -> Option<u32> {
        let value = self.tag();
        let is_digit = self.0 == Self::of_digit(value).0 && value != 0 && value <= W::HIGHEST_DIGIT;
        if is_digit { Some(value) } else { None }
    }

    /// The other bucket of an entry found in `bucket`. It is its own inverse.
    ///
    /// n = 4: `0x74f9` has tag 29, whose offset is `0x00ee`; so `0x13df` gives `0x1331`, and that gives `0x13df`.
    pub(super) fn other(self, bucket: BucketId) -> BucketId {
        BucketId(bucket.0 ^ W::OFFSETS[self.tag() as usize])
    }
}

/// Some lanes of a bucket, as a mask: the top bit of each such lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lanes<W>(u64, PhantomData<W>);

impl<W: Width> Lanes<W> {
    pub(crate) const fn any(self) -> bool {
        self.0 != 0
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0, PhantomData)
    }

    /// The lanes directly above these.
    pub(super) const fn above(self) -> Self {
        Self(self.0 << W::BITS, PhantomData)
    }

    /// `lowest` has the lowest bits of some lanes. Adds those of the lanes of `self` that lie directly above, in a row.
    const fn follow(self, mut lowest: u64) -> u64 {
        let mut lane = 1;
        while lane < W::SLOTS {
            lowest |= lowest << W::BITS & self.0 >> (W::BITS - 1);
            lane += 1;
        }
        lowest
    }

    pub(super) const fn has(self, lane: u32) -> bool {
        lane < W::SLOTS && self.0 >> (lane * W::BITS) >> (W::BITS - 1) & 1 == 1
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
    /// The lowest bit of each lane. Multiplied by a slot, it gives that slot in every lane.
    ///
    /// Per lane of n = 4: `ONES` is `0x0001`, `HIGH` `0x8000`, `BODY` `0x7fff`, `TAIL_TOP` `0x0200`, `TAIL_BODY`
    /// `0x01ff`, `ENTRY` `0x83ff`.
    pub(super) const ONES: u64 = {
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
    /// The highest bit below the tag of each lane: the first bit of the tail, if there is one.
    pub(super) const TAIL_TOP: u64 = Self::ONES << Self::TAIL_TOP_AT;
    /// The number of that bit in its lane.
    pub(super) const TAIL_TOP_AT: u32 = W::BITS - W::TAG_BITS - 1;
    /// All bits of each lane below that one, and above the expiry bits.
    pub(super) const TAIL_BODY: u64 = Self::TAIL_TOP - (Self::ONES << W::EXPIRY_BITS);
    /// The expiry bits of each lane.
    pub(super) const EXPIRY: u64 = Self::ONES * Slot::<W>::EXPIRY as u64;
    /// Every bit that belongs to a lane.
    pub(super) const LANES: u64 = Self::HIGH | Self::BODY;
    /// The bits of each lane that are all 0 only in empty slots and in digits: all bits below the tag but the expiry bits,
    /// and the highest.
    pub(super) const ENTRY: u64 = Self::HIGH | Self::TAIL_TOP | Self::TAIL_BODY;
    /// The lanes above the lowest of a saturated group's bucket, all with the digit D, moved down by one lane.
    const HIGHEST_DIGITS: u64 =
        (Self::ONES * Slot::<W>::of_digit(W::HIGHEST_DIGIT).0 as u64) & (Self::LANES >> W::BITS);
    /// A bucket that repair has quarantined: every slot universal.
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

    /// Whether a bit outside every lane is set. No writer sets one.
    pub(crate) const fn has_stray_bits(self) -> bool {
        self.0 & !Self::LANES != 0
    }

    /// The lanes that hold 0.
    pub(super) const fn empty_lanes(self) -> Lanes<W> {
        Self::zero_lanes(self.0)
    }

    /// The lanes of `word` whose bits are all 0.
    ///
    /// Adding `BODY` to the lower bits of a lane sets its top bit if any of them is set, and never carries further.
    ///
    /// | n = 4 | lane 3 | lane 2 | lane 1 | lane 0 |
    /// |---|---|---|---|---|
    /// | `word` | `0000` | `8000` | `0001` | `abc8` |
    /// | `(word & BODY) + BODY` | `7fff` | `7fff` | `8000` | `abc7` |
    /// | its `or` with `word`, inverted, `& HIGH` | `8000` | `0000` | `0000` | `0000` |
    const fn zero_lanes(word: u64) -> Lanes<W> {
        Self::lanes(!(((word & Self::BODY) + Self::BODY) | word) & Self::HIGH)
    }

    /// The lanes that hold digits.
    pub(crate) const fn digit_lanes(self) -> Lanes<W> {
        Self::lanes(Self::zero_lanes(self.0 & Self::ENTRY).0 & !self.empty_lanes().0)
    }

    /// Whether one group fills the bucket, at its highest count.
    pub(crate) const fn is_saturated(self) -> bool {
        (self.0 & Self::LANES) >> W::BITS == Self::HIGHEST_DIGITS && self.slot(0).tail_length().is_some()
    }

    pub(crate) const fn has_universal(self) -> bool {
        Self::new(self.0 ^ Self::HIGH).empty_lanes().any()
    }

    /// The lanes whose entries match `query`: all bits above the entry's lowest set bit agree.
    ///
    /// In each lane, `lowest` is the lowest set bit of the entry among those of `ENTRY`, and `agrees` has a 1 wherever
    /// entry and query agree.
    ///
    /// * If all bits above `lowest` agree, half of `agrees` is at least 2^(W-1) - `lowest`, and the sum of the two sets
    ///   the lane's top bit.
    /// * If one of them differs, half of `agrees` is less than 2^(W-1) - `lowest`, and the top bit stays 0.
    /// * An empty slot and a digit have a `lowest` of 0, and half of `agrees` is below 2^(W-1).
    ///
    /// No sum reaches 2^W, so no lane disturbs the next.
    ///
    /// In a forgetting filter, `query` also has the code of the epoch now. An entry of that code has expired and matches
    /// nothing; a universal slot, whose `lowest` is its top bit, never expires.
    ///
    /// | n = 4, query `abcf` | lane 3 | lane 2 | lane 1 | lane 0 |
    /// |---|---|---|---|---|
    /// | `self` | `0000` | `8000` | `2800` | `abc8` |
    /// | `lowest` | `0000` | `8000` | `0000` | `0008` |
    /// | `agrees >> 1 & BODY` | `2a18` | `6a18` | `3e18` | `7ffc` |
    /// | the sum | `2a18` | `ea18` | `3e18` | `8004` |
    /// | the answer, `& HIGH` | `0000` | `8000` | `0000` | `8000` |
    #[inline]
    pub(crate) const fn matches(self, query: Slot<W>) -> Lanes<W> {
        let entries = self.0 & Self::ENTRY;
        // Setting the top bits first keeps the decrement of one lane from borrowing from the next.
        let lowest = entries & !((entries | Self::HIGH).wrapping_sub(Self::ONES));
        let agrees = self.0 ^ !Self::ONES.wrapping_mul(query.0 as u64);
        let matches = ((agrees >> 1 & Self::BODY) + lowest) & Self::HIGH;
        if W::EXPIRY_BITS == 0 {
            return Self::lanes(matches);
        }
        Self::lanes(matches & (!self.lanes_of(query.0).0 | lowest))
    }

    /// The lanes whose expiry bits hold the code of this epoch.
    const fn lanes_of(self, epoch: u32) -> Lanes<W> {
        Self::zero_lanes(
            (self.0 ^ Self::ONES.wrapping_mul((epoch & Slot::<W>::EXPIRY) as u64)) & Self::EXPIRY,
        )
    }

    /// The bucket without the entries that expire in this epoch. Universal slots stay.
    ///
    /// n = 4, a = 3, epoch 13: of `0x8000_0000_74fd_74fc`, the entry `0x74fd` goes.
    #[inline]
    pub(super) const fn without_expired(self, epoch: u32) -> Self {
        if W::EXPIRY_BITS == 0 {
            return self;
        }
        let universal = Self::zero_lanes(self.0 ^ Self::HIGH).0;
        let expired = self.lanes_of(epoch).0 & !universal;
        Self::new(self.0 & !Self::whole_lanes(expired >> (W::BITS - 1)))
    }

    /// Whether each lane is empty or holds an entry, and nothing is outside of the lanes.
    pub(super) const fn is_plain(self) -> bool {
        self.oddities() == 0
    }

    /// 0 if the bucket is plain. The bitwise `or` of the oddities of many buckets is 0 if all of them are plain.
    pub(super) const fn oddities(self) -> u64 {
        let without_tail = Self::zero_lanes(self.0 & (Self::TAIL_TOP | Self::TAIL_BODY));
        without_tail.0 & !self.empty_lanes().0 | self.0 & !Self::LANES
    }

    /// The lowest set bit of each lane above its expiry bits, for a plain bucket.
    pub(super) const fn lowest_set_bits(self) -> u64 {
        let entries = self.0 & !Self::EXPIRY;
        // Setting the top bits first keeps the decrement of one lane from borrowing from the next.
        entries & !((entries | Self::HIGH).wrapping_sub(Self::ONES))
    }

    /// The bits that end the tails of this length in all lanes.
    pub(super) const fn ending_tails_of(length: u32) -> u64 {
        Self::TAIL_TOP >> length
    }

    /// Whether every query that matches `entry` also matches this one: the two agree, and this tail is not the longer
    /// one.
    ///
    /// `0xabc8` covers itself and `0xabcc`, whose tail is longer; and `0xabcc` does not cover `0xabc8`, which matches
    /// `0xabc1` too.
    pub(super) fn covers(self, entry: Slot<W>) -> bool {
        let length = entry.tail_length();
        Iterator::any(&mut self.matches(entry), |lane| self.slot(lane).tail_length() <= length)
    }

    /// The two buckets that this one becomes when the filter doubles.
    ///
    /// An entry goes left or right by the first bit of its tail, and loses that bit; its digits go with it, and its expiry
    /// stays. Void entries and universal slots have no such bit and go to both.
    ///
    /// | n = 4 | lane 3: void | lane 2: digit | lane 1: first bit 1 | lane 0: first bit 0 |
    /// |---|---|---|---|---|
    /// | `self` | `7600` | `2800` | `77e4` | `74f9` |
    /// | left | `7600` | `0000` | `0000` | `75f2` |
    /// | right | `7600` | `2800` | `77c8` | `0000` |
    #[inline]
    pub(crate) const fn split(self) -> (Self, Self) {
        let entries = self.0;
        // An entry has a tail if any bit of TAIL_BODY is set; adding TAIL_BODY then carries into TAIL_TOP.
        let decided = ((entries & Self::TAIL_BODY) + Self::TAIL_BODY) & Self::TAIL_TOP;
        let (mut right, mut decided) =
            ((decided & entries) >> Self::TAIL_TOP_AT, decided >> Self::TAIL_TOP_AT);
        let digits = self.digit_lanes();
        if digits.any() {
            (right, decided) = (digits.follow(right), digits.follow(decided));
        }
        let (right, decided) = (Self::whole_lanes(right), Self::whole_lanes(decided));
        let both = entries & !decided;
        let tags = Self::LANES & !(Self::TAIL_TOP | Self::TAIL_BODY);
        let moved = (entries & tags) | (entries & Self::TAIL_BODY) << 1;
        (Self::new(both | moved & decided & !right), Self::new(both | moved & right))
    }

    /// All bits of the lanes whose lowest bit is given. n = 4: `0x0000_0000_0001_0001` gives `0x0000_0000_ffff_ffff`.
    pub(super) const fn whole_lanes(lowest: u64) -> u64 {
        // Each lane's bit, moved to the lane above, less itself is the lane full of ones. The top lane's bit may move
        // out of the word: the subtraction wraps around, and the result is the same.
        (lowest << W::BITS).wrapping_sub(lowest)
    }
}

#[cfg(test)]
mod tests;
