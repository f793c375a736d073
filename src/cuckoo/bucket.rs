//! Slots and buckets: n fingerprints in one `u64`, compared all at once.
//!
//! No I/O. One generic implementation serves all widths; the rules stand in `format-spec/README.md`, sections 3
//! and 4. Each trick with bits has a worked value for n = 4, where W = 16, T = 6, and a tail has at most 9 bits; the
//! test `worked_values` computes them.
//!
//! An entry of W bits is `tag (T bits) | tail | 1 | zeros`: the lowest set bit ends the tail, so a tail may have any
//! length from 0 to W-T-1 bits. A slot whose low W-T bits are all 0 is not an entry. 0 is empty. `1 << (W-1)` is
//! *universal*: by the match rule it matches every query. With a tag from 1 to D, below half of all tags, it is a
//! *digit*: it matches nothing, and counts copies of the entry below it (`group.rs`).
//!
//! An *unmarked* slot has no marker: an entry is `tag | tail`, with a tail of full length, and matches only the query
//! that equals it. 0 is empty, and the fingerprint 0 is stored as 1. There are no digits and no universal slots. The
//! first doubling marks all slots ([`Bucket::split`]), and so does a repair ([`Bucket::marked`]).

use std::convert::Infallible;

use super::widths::{AnyLayout, Layout, Numbers, Width};

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
    /// From the low half of a hash, and the fraction that [`KeyHash::region`](super::KeyHash) returns with the region.
    #[inline]
    pub(crate) const fn new(local: u64, rem: u64) -> Self {
        let first = BucketId(local as u16 & ((1 << W::INDEX_BITS) - 1) as u16);
        Self { first, fingerprint: Slot::fresh(local, rem) }
    }

    /// The same place in a forgetting filter at this epoch: entries that expire in it no longer match.
    #[inline(always)]
    pub(crate) fn at(self, epoch: u32) -> Self {
        if W::EXPIRY_BITS == 0 {
            return self;
        }
        Self { fingerprint: self.fingerprint.with_expiry(epoch), ..self }
    }
}

impl<W: Layout> Place<W> {
    #[inline]
    pub(crate) fn second(self) -> BucketId {
        self.fingerprint.other(self.first)
    }

    /// Loads both buckets.
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

    /// Whether a load may wait for memory, so that prefetching buckets pays.
    fn are_far(&self) -> bool {
        false
    }

    /// Prefetches the cache line of a bucket.
    fn prefetch(&self, _: BucketId) {}
}

/// The buckets of one region, to change.
pub(crate) trait BucketsMut<W>: Buckets<W> {
    /// Replaces a bucket that was loaded before.
    fn store(&mut self, id: BucketId, bucket: Bucket<W>);
}

/// Buckets behind dynamic dispatch. Code that takes much longer than a call is then compiled once for each width, and not
/// for each kind of buckets.
pub(super) struct AnyBuckets<'a, W, E>(pub(super) &'a mut dyn BucketsMut<W, Error = E>);

impl<W: Layout, E> Buckets<W> for AnyBuckets<'_, W, E> {
    type Error = E;

    fn load(&mut self, id: BucketId) -> Result<Bucket<W>, E> {
        self.0.load(id)
    }

    fn are_far(&self) -> bool {
        self.0.are_far()
    }

    fn prefetch(&self, id: BucketId) {
        self.0.prefetch(id);
    }
}

impl<W: Layout, E> BucketsMut<W> for AnyBuckets<'_, W, E> {
    fn store(&mut self, id: BucketId, bucket: Bucket<W>) {
        self.0.store(id, bucket);
    }
}

/// Buckets of any width that never fail. Code that seldom runs uses them, so that it is compiled once, and not for each
/// width and type of error.
pub(super) type Erased<'a> = AnyBuckets<'a, AnyLayout, Infallible>;

/// Hides the width and the errors of buckets.
struct Eraser<'a, W, B: Buckets<W>> {
    buckets: &'a mut B,
    /// The error of a failed load. After one, every bucket loads as quarantined, and stores do nothing.
    failed: Option<B::Error>,
}

impl<W: Width, B: BucketsMut<W>> Buckets<AnyLayout> for Eraser<'_, W, B> {
    type Error = Infallible;

    fn load(&mut self, id: BucketId) -> Result<Bucket<AnyLayout>, Infallible> {
        let loaded = match self.failed {
            None => self.buckets.load(id),
            Some(_) => Ok(Bucket::QUARANTINED),
        };
        Ok(loaded
            .unwrap_or_else(|error| {
                self.failed = Some(error);
                Bucket::QUARANTINED
            })
            .erased())
    }
}

impl<W: Width, B: BucketsMut<W>> BucketsMut<AnyLayout> for Eraser<'_, W, B> {
    fn store(&mut self, id: BucketId, bucket: Bucket<AnyLayout>) {
        if self.failed.is_none() {
            self.buckets.store(id, Bucket::new(bucket.0));
        }
    }
}

/// Runs `work` on buckets of hidden width and hidden errors. If a load fails, nothing is stored after it, and the outcome
/// is that error.
pub(super) fn erased<W: Width, B: BucketsMut<W>, T>(
    buckets: &mut B,
    work: impl FnOnce(&mut Erased<'_>) -> T,
) -> Result<T, B::Error> {
    let mut eraser = Eraser { buckets, failed: None };
    let done = work(&mut AnyBuckets(&mut eraser));
    match eraser.failed {
        None => Ok(done),
        Some(error) => Err(error),
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
pub(crate) struct Slot<W>(pub(crate) u32, W);

impl<W: Width> Slot<W> {
    pub(crate) const UNIVERSAL: Self = Self::new(1 << (W::BITS - 1));

    pub(crate) const fn new(bits: u32) -> Self {
        Self(bits, W::VALUE)
    }

    /// The fingerprint of a key that was just hashed, with a tail of full length.
    ///
    /// n = 4, `local` = `0x7433…` (tag 29), `rem` = `0x3e44…` (tail `0x7c`): `29 << 10 | 0x7c << 1 | 1` = `0x74f9`. An
    /// unmarked tail has one more bit, `0xf9`: the slot is `29 << 10 | 0xf9`, the same number.
    pub(crate) const fn fresh(local: u64, rem: u64) -> Self {
        let (tag, tail_bits) = (local >> (64 - W::TAG_BITS), W::BITS - W::EXPIRY_BITS - W::TAG_BITS);
        let tail = rem >> (64 - tail_bits);
        let slot = ((tag << (W::BITS - W::TAG_BITS)) + (tail << W::EXPIRY_BITS)) as u32;
        let lowest = 1 << W::EXPIRY_BITS;
        // The marker takes the place of the tail's last bit. Without it, 0 is empty.
        Self::new(if W::IS_MARKED || slot == 0 { slot | lowest } else { slot })
    }

    /// The same fingerprint in a marked filter.
    pub(crate) const fn marked(self) -> Slot<W::Marked> {
        Slot::new(if W::IS_MARKED { self.0 } else { self.0 | 1 << W::EXPIRY_BITS })
    }

    /// A digit of this value, 1 to D.
    #[cfg(test)]
    pub(super) fn of_digit(value: u32) -> Self {
        Self::new(0).with_digit(value)
    }
}

impl<W: Layout> Slot<W> {
    pub(super) const fn in_width(width: W, bits: u32) -> Self {
        Self(bits, width)
    }

    /// The same slot, for code that is compiled once.
    pub(super) fn erased(self) -> Slot<AnyLayout> {
        Slot(self.0, AnyLayout::of(self.1))
    }

    /// The same slot as a slot of another type of the same width.
    #[inline(always)]
    pub(super) const fn like(self, bits: u32) -> Self {
        Self(bits, self.1)
    }

    pub(super) const fn width(self) -> W {
        self.1
    }

    #[inline(always)]
    fn numbers(self) -> &'static Numbers {
        self.1.numbers()
    }

    /// The epoch code in the expiry bits, modulo 2^a: of an entry, its expiry epoch; of a query, the current epoch.
    pub(super) fn expiry(self) -> u32 {
        self.0 & self.numbers().expiry()
    }

    /// The slot with the code of this epoch in its expiry bits.
    ///
    /// n = 4, a = 3: `0x74f8` with epoch 13, which is 5 modulo 8, is `0x74fd`.
    #[inline]
    pub(crate) fn with_expiry(self, epoch: u32) -> Self {
        let expiry = self.numbers().expiry();
        self.like(self.0 & !expiry | epoch & expiry)
    }

    /// How many epochs an entry still lives at the epoch `now`; 0 in filters that do not forget.
    ///
    /// n = 4, a = 3: `0x74fd` expires in an epoch that is 5 modulo 8, so at epoch 10 it has 3 left.
    pub(super) fn epochs_left(self, now: u32) -> u32 {
        self.expiry().wrapping_sub(now) & self.numbers().expiry()
    }

    /// Whether every query that matches `entry` also matches `self`, as long as neither has expired. That holds if both
    /// have one tag and the tail of `self` begins the tail of `entry`. False if either is not an entry.
    pub(super) fn covers(self, entry: Self) -> bool {
        let (Some(tail), Some(longer)) = (self.tail_length(), entry.tail_length()) else { return false };
        tail <= longer && (self.0 ^ entry.0) >> (self.numbers().tail_top_at() + 1 - tail) == 0
    }

    #[inline(always)]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub(crate) fn is_universal(self) -> bool {
        self.numbers().is_marked && self.0 == 1 << (self.numbers().bits - 1)
    }

    #[inline]
    pub(crate) fn tag(self) -> u32 {
        self.0 >> (self.numbers().tail_top_at() + 1)
    }

    /// Bits of tail, from 0 (*void*) to `TAIL_BITS`. `None` for slots that are not entries: empty, universal, a digit,
    /// or malformed (which no writer stores).
    ///
    /// n = 4: `0x74f9` has 9, `0x75f2` has 8, `0x7600` has 0; `0x8000`, `0x7400`, `0x8400` and `0x0000` have none.
    /// Unmarked, `0x0000` has none, and the others have 10.
    #[inline]
    pub(crate) fn tail_length(self) -> Option<u32> {
        let Numbers { tail_bits, expiry_bits, is_marked, .. } = *self.numbers();
        let fingerprint = self.0 >> expiry_bits;
        if !is_marked {
            return if fingerprint == 0 { None } else { Some(tail_bits) };
        }
        tail_bits.checked_sub(fingerprint.trailing_zeros())
    }

    /// The digit of this value, 1 to D, in a bucket of the same width.
    pub(super) fn with_digit(self, value: u32) -> Self {
        self.like(value << (self.numbers().tail_top_at() + 1))
    }

    /// The value of a digit, 1 to D; `None` for all other slots.
    ///
    /// n = 4: `0x7400` has 29, `0x7c00` has 31, the highest; `0x8400`, `0x8000`, `0x7600` and `0x0000` have none.
    pub(crate) fn digit(self) -> Option<u32> {
        let value = self.tag();
        let Numbers { is_marked, highest_digit, .. } = *self.numbers();
        let is_digit = is_marked && self == self.with_digit(value) && value != 0 && value <= highest_digit;
        if is_digit { Some(value) } else { None }
    }

    /// The other bucket of an entry found in `bucket`. The function is its own inverse.
    ///
    /// n = 4: `0x74f9` has tag 29, whose offset is `0x00ee`; so `0x13df` gives `0x1331`, and that gives `0x13df`.
    #[inline]
    pub(super) fn other(self, bucket: BucketId) -> BucketId {
        BucketId(bucket.0 ^ self.numbers().offsets[self.tag() as usize])
    }
}

/// Some lanes of a bucket, as a mask: the top bit of each such lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lanes<W>(u64, W);

impl<W: Layout> Lanes<W> {
    pub(crate) const fn any(self) -> bool {
        self.0 != 0
    }

    const fn like(self, lanes: u64) -> Self {
        Self(lanes, self.1)
    }

    pub(super) const fn and(self, other: Self) -> Self {
        self.like(self.0 & other.0)
    }

    /// The lanes directly above these.
    pub(super) fn above(self) -> Self {
        self.like(self.0 << self.1.numbers().bits)
    }

    /// Adds to `lowest`, the lowest bits of some lanes, the lowest bits of the lanes of `self` that follow directly
    /// above.
    fn follow(self, mut lowest: u64) -> u64 {
        let Numbers { slots, bits, .. } = *self.1.numbers();
        for _ in 1..slots {
            lowest |= lowest << bits & self.0 >> (bits - 1);
        }
        lowest
    }

    pub(super) fn has(self, lane: u32) -> bool {
        let Numbers { slots, bits, .. } = *self.1.numbers();
        lane < slots && self.0 >> (lane * bits) >> (bits - 1) & 1 == 1
    }

    /// Whether `self` and `other` have one lane in all. `other` belongs to another bucket.
    pub(super) const fn is_one_beside(self, other: Self) -> bool {
        // The shift keeps the two apart: a lane has more than one bit.
        (self.0 | other.0 >> 1).is_power_of_two()
    }

    pub(crate) const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Like [`BucketId::or`].
    pub(super) const fn or(self, other: Self, so: bool) -> Self {
        self.like(select(self.0, other.0, so))
    }

    #[inline]
    pub(super) fn first(self) -> Option<u32> {
        if self.0 == 0 { None } else { Some(self.0.trailing_zeros() / self.1.numbers().bits) }
    }
}

impl<W: Layout> Iterator for Lanes<W> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let lane = self.first()?;
        self.0 &= self.0 - 1;
        Some(lane)
    }
}

/// One bucket, as stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bucket<W>(pub(crate) u64, W);

impl<W: Width> Bucket<W> {
    /// A bucket that repair has quarantined: every slot universal. Only a marked filter has such buckets.
    pub(crate) const QUARANTINED: Self = Self::new(W::NUMBERS.high());

    pub(crate) const fn new(word: u64) -> Self {
        Self(word, W::VALUE)
    }

    /// The two buckets that this bucket becomes when the filter doubles.
    ///
    /// An entry goes left or right by the first bit of its tail, and loses that bit. Its digits go with it, and its
    /// expiry does not change. Void entries and universal slots have no such bit and go to both sides.
    ///
    /// | n = 4 | lane 3: void | lane 2: digit | lane 1: first bit 1 | lane 0: first bit 0 |
    /// |---|---|---|---|---|
    /// | `self` | `7600` | `2800` | `77e4` | `74f9` |
    /// | left | `7600` | `0000` | `0000` | `75f2` |
    /// | right | `7600` | `2800` | `77c8` | `0000` |
    #[inline]
    pub(crate) fn split(self) -> (Bucket<W::Marked>, Bucket<W::Marked>) {
        if !W::IS_MARKED {
            return self.split_unmarked();
        }
        let numbers = W::NUMBERS;
        let (tail_top, tail_body) = (numbers.tail_top(), numbers.tail_body());
        let entries = self.0;
        // An entry has a tail if any bit of tail_body is set. Adding tail_body then carries into tail_top.
        let decided = ((entries & tail_body) + tail_body) & tail_top;
        let (mut right, mut decided) =
            ((decided & entries) >> numbers.tail_top_at(), decided >> numbers.tail_top_at());
        let digits = self.digit_lanes();
        if digits.any() {
            (right, decided) = (digits.follow(right), digits.follow(decided));
        }
        let (right, decided) = (self.whole_lanes(right), self.whole_lanes(decided));
        let both = entries & !decided;
        let tags = numbers.lanes() & !(tail_top | tail_body);
        let moved = (entries & tags) | (entries & tail_body) << 1;
        (Bucket::new(both | moved & decided & !right), Bucket::new(both | moved & right))
    }

    /// Like `split`, at the first doubling: the marker takes the place that the first bit of the tail leaves free.
    ///
    /// A fingerprint of 1 may have been 0. So its tail also loses its last bit, and then both 0 and 1 match.
    ///
    /// | n = 4 | lane 3: fingerprint 1 | lane 2 | lane 1: first bit 1 | lane 0: first bit 0 |
    /// |---|---|---|---|---|
    /// | `self` | `0001` | `0000` | `76f9` | `74f9` |
    /// | left | `0002` | `0000` | `0000` | `75f3` |
    /// | right | `0000` | `0000` | `75f3` | `0000` |
    #[inline(always)]
    fn split_unmarked(self) -> (Bucket<W::Marked>, Bucket<W::Marked>) {
        let numbers = W::NUMBERS;
        let to_lowest = |lanes: Lanes<W>| lanes.0 >> (numbers.bits - 1);
        let right = self.whole_lanes((self.0 & numbers.tail_top()) >> numbers.tail_top_at());
        let entries = to_lowest(self.lanes(numbers.high() & !self.zero_lanes(self.0 & numbers.entry()).0));
        let markers = (entries & !to_lowest(self.lanes_of_one())) << numbers.expiry_bits;
        let tags = numbers.lanes() & !(numbers.tail_top() | numbers.tail_body());
        let moved =
            (self.0 & tags | (self.0 & numbers.tail_body()) << 1 | markers) & self.whole_lanes(entries);
        (Bucket::new(moved & !right), Bucket::new(moved & right))
    }

    /// The lanes of an unmarked bucket that hold the fingerprint 1.
    #[inline(always)]
    pub(super) fn lanes_of_one(self) -> Lanes<W> {
        self.zero_lanes((self.0 ^ W::NUMBERS.lowest()) & W::NUMBERS.entry())
    }

    /// The bucket with markers, if it has none: each tail gives up its last bit for it.
    ///
    /// n = 4: `0x74f8` and `0x74f9` both become `0x74f9`, which matches both. So `0x0001` comes to match the fingerprints
    /// 0 and 1.
    #[inline(always)]
    pub(crate) fn marked(self) -> Bucket<W::Marked> {
        if W::IS_MARKED {
            return Bucket::new(self.0);
        }
        let entries = self.lanes(W::NUMBERS.high() & !self.empty_lanes().0);
        Bucket::new(self.0 | entries.0 >> (W::BITS - 1) << W::EXPIRY_BITS)
    }
}

impl<W: Layout> Bucket<W> {
    pub(super) const fn in_width(width: W, word: u64) -> Self {
        Self(word, width)
    }

    /// The same bucket, for code that is compiled once.
    pub(super) fn erased(self) -> Bucket<AnyLayout> {
        Bucket(self.0, AnyLayout::of(self.1))
    }

    /// The same bucket as a bucket of another type of the same width.
    #[inline(always)]
    pub(super) const fn like(self, word: u64) -> Self {
        Self(word, self.1)
    }

    #[inline(always)]
    pub(super) fn numbers(self) -> &'static Numbers {
        self.1.numbers()
    }

    pub(super) const fn width(self) -> W {
        self.1
    }

    const fn lanes(self, mask: u64) -> Lanes<W> {
        Lanes(mask, self.1)
    }

    /// Like [`BucketId::or`].
    pub(super) const fn or(self, other: Self, so: bool) -> Self {
        self.like(select(self.0, other.0, so))
    }

    #[inline(always)]
    pub(crate) fn slot(self, lane: u32) -> Slot<W> {
        let bits = self.numbers().bits;
        Slot((self.0 >> (lane * bits)) as u32 & (u32::MAX >> (32 - bits)), self.1)
    }

    #[inline(always)]
    pub(crate) fn with(self, lane: u32, slot: Slot<W>) -> Self {
        let bits = self.numbers().bits;
        let shift = lane * bits;
        let mask = (u64::MAX >> (64 - bits)) << shift;
        self.like(self.0 & !mask | u64::from(slot.0) << shift)
    }

    /// The bucket with this lane empty.
    pub(super) fn without(self, lane: u32) -> Self {
        self.with(lane, Slot(0, self.1))
    }

    /// The bucket with these lanes empty.
    #[inline(always)]
    pub(super) fn without_lanes(self, lanes: Lanes<W>) -> Self {
        self.like(self.0 & !self.whole_lanes(lanes.0 >> (self.numbers().bits - 1)))
    }

    /// A bucket with only the slot that was removed from this bucket or from `other`, in its lane. `left` and
    /// `left_of_other` are the buckets after the removal of that one slot.
    #[inline(always)]
    pub(super) const fn taken(self, left: Self, other: Self, left_of_other: Self) -> Self {
        self.like(self.0 ^ left.0 | other.0 ^ left_of_other.0)
    }

    /// The length of the tail of the only slot, as [`Slot::tail_length`].
    #[inline(always)]
    pub(super) fn only_tail_length(self) -> Option<u32> {
        let Numbers { tail_bits, bits, expiry_bits, .. } = self.numbers();
        tail_bits.checked_sub((self.0.trailing_zeros() % bits).wrapping_sub(*expiry_bits))
    }

    /// Whether a bit outside every lane is set. No writer sets one.
    pub(crate) fn has_stray_bits(self) -> bool {
        self.0 & !self.numbers().lanes() != 0
    }

    /// The lanes that hold 0.
    #[inline(always)]
    pub(super) fn empty_lanes(self) -> Lanes<W> {
        self.zero_lanes(self.0)
    }

    /// The lanes of `word` whose bits are all 0.
    ///
    /// Adding `body` to the lower bits of a lane sets its top bit if any of them is set, and never carries further.
    ///
    /// | n = 4 | lane 3 | lane 2 | lane 1 | lane 0 |
    /// |---|---|---|---|---|
    /// | `word` | `0000` | `8000` | `0001` | `abc8` |
    /// | `(word & body) + body` | `7fff` | `7fff` | `8000` | `abc7` |
    /// | its `or` with `word`, inverted, `& high` | `8000` | `0000` | `0000` | `0000` |
    #[inline(always)]
    fn zero_lanes(self, word: u64) -> Lanes<W> {
        let (high, body) = (self.numbers().high(), self.numbers().body());
        self.lanes(!(((word & body) + body) | word) & high)
    }

    /// The lanes that hold digits.
    #[inline(always)]
    pub(crate) fn digit_lanes(self) -> Lanes<W> {
        if !self.numbers().is_marked {
            return self.lanes(0);
        }
        self.lanes(self.zero_lanes(self.0 & self.numbers().entry()).0 & !self.empty_lanes().0)
    }

    /// Whether one group fills the bucket, at its highest count.
    pub(crate) fn is_saturated(self) -> bool {
        let numbers = self.numbers();
        let digits = numbers.ones * u64::from(self.slot(0).with_digit(numbers.highest_digit).0);
        let above = numbers.lanes() >> numbers.bits;
        let is_filled = numbers.is_marked && (self.0 >> numbers.bits ^ digits) & above == 0;
        is_filled && self.slot(0).tail_length().is_some()
    }

    #[inline(always)]
    pub(crate) fn has_universal(self) -> bool {
        self.universal_lanes().any()
    }

    #[inline(always)]
    fn universal_lanes(self) -> Lanes<W> {
        let numbers = self.numbers();
        if numbers.is_marked { self.zero_lanes(self.0 ^ numbers.high()) } else { self.lanes(0) }
    }

    /// The lanes whose entries match `query`: all bits above the entry's lowest set bit agree. In an unmarked bucket,
    /// lanes match that equal the query, which is never 0; expiry bits are not compared.
    ///
    /// In a marked bucket:
    ///
    /// In each lane, `lowest` is the lowest set bit of the entry in `entry`, and `agrees` has a 1 wherever entry and query
    /// agree.
    ///
    /// * If all bits above `lowest` agree, half of `agrees` is at least 2^(W-1) - `lowest`, and the sum of the two sets
    ///   the lane's top bit.
    /// * If one of them differs, half of `agrees` is less than 2^(W-1) - `lowest`, and the top bit stays 0.
    /// * An empty slot and a digit have a `lowest` of 0, and half of `agrees` is below 2^(W-1).
    ///
    /// No sum reaches 2^W, so no lane disturbs the next.
    ///
    /// In a forgetting filter, `query` also has the code of the current epoch. An entry with that code has expired and
    /// matches nothing. A universal slot never expires: its `lowest` is its top bit.
    ///
    /// | n = 4, query `abcf` | lane 3 | lane 2 | lane 1 | lane 0 |
    /// |---|---|---|---|---|
    /// | `self` | `0000` | `8000` | `2800` | `abc8` |
    /// | `lowest` | `0000` | `8000` | `0000` | `0008` |
    /// | `agrees >> 1 & body` | `2a18` | `6a18` | `3e18` | `7ffc` |
    /// | the sum | `2a18` | `ea18` | `3e18` | `8004` |
    /// | the answer, `& high` | `0000` | `8000` | `0000` | `8000` |
    #[inline]
    pub(crate) fn matches(self, query: Slot<W>) -> Lanes<W> {
        let numbers = self.numbers();
        if !numbers.is_marked {
            let equal =
                self.zero_lanes((self.0 ^ numbers.ones.wrapping_mul(query.0.into())) & numbers.entry());
            let expired = if numbers.expiry_bits == 0 { 0 } else { self.lanes_of(query.0).0 };
            return self.lanes(equal.0 & !expired);
        }
        let entries = self.0 & numbers.entry();
        // Setting the top bits first keeps one lane's decrement from borrowing from the next.
        let lowest = entries & !((entries | numbers.high()).wrapping_sub(numbers.ones));
        let agrees = self.0 ^ !numbers.ones.wrapping_mul(query.0.into());
        let matches = ((agrees >> 1 & numbers.body()) + lowest) & numbers.high();
        if numbers.expiry_bits == 0 {
            return self.lanes(matches);
        }
        self.lanes(matches & (!self.lanes_of(query.0).0 | lowest))
    }

    /// The lanes whose expiry bits hold the code of this epoch.
    #[inline(always)]
    fn lanes_of(self, epoch: u32) -> Lanes<W> {
        let (ones, expiry) = (self.numbers().ones, self.numbers().expiry());
        let of_each = |code: u32| ones.wrapping_mul((code & expiry).into());
        self.zero_lanes((self.0 ^ of_each(epoch)) & of_each(expiry))
    }

    /// The bucket without the entries that expire in this epoch. Universal slots remain.
    ///
    /// n = 4, a = 3, epoch 13: from `0x8000_0000_74fd_74fc`, the entry `0x74fd` is removed.
    #[inline]
    pub(super) fn without_expired(self, epoch: u32) -> Self {
        let numbers = self.numbers();
        if numbers.expiry_bits == 0 {
            return self;
        }
        let expired = self.lanes_of(epoch).0 & !self.universal_lanes().0;
        self.like(self.0 & !self.whole_lanes(expired >> (numbers.bits - 1)))
    }

    /// Whether each lane is empty or holds an entry, and no bit outside the lanes is set.
    #[inline(always)]
    pub(super) fn is_plain(self) -> bool {
        self.oddities() == 0
    }

    /// 0 if the bucket is plain. The bitwise `or` of the results for many buckets is 0 if all of them are plain.
    #[inline(always)]
    pub(super) fn oddities(self) -> u64 {
        let numbers = self.numbers();
        let tail = numbers.tail_top() | numbers.tail_body();
        let without_tail = self.zero_lanes(self.0 & if numbers.is_marked { tail } else { numbers.entry() });
        without_tail.0 & !self.empty_lanes().0 | self.0 & !numbers.lanes()
    }

    /// For a plain bucket, one bit of each entry: the lowest set bit above the expiry bits, or without markers the
    /// highest bit of the lane. The bit's place gives the length of the tail ([`Numbers::end_of`]).
    #[inline(always)]
    pub(super) fn ends(self) -> u64 {
        let numbers = self.numbers();
        if !numbers.is_marked {
            return numbers.high() & !self.empty_lanes().0;
        }
        let entries = self.0 & !(numbers.ones * u64::from(numbers.expiry()));
        // Setting the top bits first keeps one lane's decrement from borrowing from the next.
        entries & !((entries | numbers.high()).wrapping_sub(numbers.ones))
    }

    /// Whether every query that matches `entry` also matches `self`: the two agree, and the tail of `self` is not longer.
    ///
    /// `0xabc8` covers itself and `0xabcc`, whose tail is longer. `0xabcc` does not cover `0xabc8`, which also matches
    /// `0xabc1`.
    pub(super) fn covers(self, entry: Slot<W>) -> bool {
        let length = entry.tail_length();
        Iterator::any(&mut self.matches(entry), |lane| self.slot(lane).tail_length() <= length)
    }

    /// All bits of the lanes whose lowest bits are set in `lowest`. n = 4: `0x0000_0000_0001_0001` gives
    /// `0x0000_0000_ffff_ffff`.
    #[inline(always)]
    pub(super) fn whole_lanes(self, lowest: u64) -> u64 {
        // Each lane's bit, moved to the lane above, minus itself is the lane full of ones. The top lane's bit may leave
        // the word: the subtraction wraps around to the same result.
        (lowest << self.numbers().bits).wrapping_sub(lowest)
    }
}

#[cfg(test)]
mod tests;
