//! Both buckets of a key, compared at once.
//!
//! On x86-64, lanes of 16 bits lie in one vector register. Such a processor has few integer registers; with vectors, it
//! can work on more lookups at once. Other processors, and other widths, compare each bucket as an integer. Both ways
//! give the same answers, and a test compares them.

use super::bucket::{Bucket, Slot};
use super::widths::Width;
#[cfg(target_arch = "x86_64")]
use vector::Pair;

impl<W: Width> Bucket<W> {
    /// Whether any entry of either bucket matches `query`, which must be a fresh slot.
    #[inline]
    pub(crate) fn either_matches(self, other: Self, query: Slot<W>) -> bool {
        #[cfg(target_arch = "x86_64")]
        if W::BITS == 16 {
            return Pair::of(self, other).matches(query);
        }
        self.matches(query).any() | other.matches(query).any()
    }

    /// The first free lane of this bucket, else of the other one. The flag is true for a lane of the other bucket.
    ///
    /// Choosing the bucket takes no branch: once many buckets are full, the processor could not predict it, and each
    /// wrong prediction would discard work on later keys.
    #[inline]
    pub(super) fn first_free(self, other: Self) -> Option<(bool, u32)> {
        #[cfg(target_arch = "x86_64")]
        if W::BITS == 16 {
            return Pair::of(self, other).first_free();
        }
        let in_other = !self.empty_lanes().any();
        let lane = self.empty_lanes().or(other.empty_lanes(), in_other).first()?;
        Some((in_other, lane))
    }

    /// Both buckets without the slot that matches `query`, a fresh slot, if exactly one slot of the two matches and it
    /// has no digits. Else `None`. Takes no branch, like `first_free`.
    #[inline(always)]
    pub(super) fn without_match(self, other: Self, query: Slot<W>) -> Option<[Self; 2]> {
        #[cfg(target_arch = "x86_64")]
        if W::BITS == 16 {
            return Pair::of(self, other).without_match(query);
        }
        let (here, there) = (self.matches(query), other.matches(query));
        let digits =
            self.digit_lanes().and(here.above()).any() | other.digit_lanes().and(there.above()).any();
        let is_one = here.is_one_beside(there) & !digits;
        is_one.then(|| [self.without_lanes(here), other.without_lanes(there)])
    }

    /// How many entries of both buckets match `query`, which must be a fresh slot; `None` if a bucket has a digit or a
    /// universal slot. Takes no branch, like `first_free`.
    #[inline]
    pub(super) fn matches_of_plain(self, other: Self, query: Slot<W>) -> Option<u32> {
        #[cfg(target_arch = "x86_64")]
        if W::BITS == 16 {
            return Pair::of(self, other).matches_of_plain(query);
        }
        let is_plain = self.oddities() | other.oddities() == 0;
        is_plain.then(|| self.matches(query).count() + other.matches(query).count())
    }
}

#[cfg(target_arch = "x86_64")]
mod vector {
    use std::marker::PhantomData;

    use safe_arch::{
        bitandnot_m128i, cmp_eq_mask_i16_m128i, m128i, move_mask_i8_m128i, pack_i16_to_i8_m128i,
        set_splat_i16_m128i, shl_imm_u64_m128i, sub_saturating_u16_m128i,
    };

    use crate::cuckoo::Width;
    use crate::cuckoo::bucket::{Bucket, Slot};

    /// Two buckets in one vector: lanes 0 to 3 are the first bucket, lanes 4 to 7 the second.
    ///
    /// The table has the values that `matching` computes for five slots, in a marked filter that does not forget. A slot
    /// matches the query if the last row is 0.
    ///
    /// | query `abcf` | empty | digit | universal | | |
    /// |---|---|---|---|---|---|
    /// | slot | `0000` | `2800` | `8000` | `0001` | `abc8` |
    /// | `entries` | `0000` | `0000` | `8000` | `0001` | `83c8` |
    /// | `ignored` | `0000` | `0000` | `ffff` | `0001` | `000f` |
    /// | `unlike & !ignored` | `abcf` | `83cf` | `0000` | `abce` | `0000` |
    pub(in crate::cuckoo) struct Pair<W>(m128i, PhantomData<W>);

    /// For each of the eight lanes, all bits or none. The bit masks below change no answer; without them, the compiler
    /// makes other code, and a count took a tenth more time.
    #[derive(Clone, Copy)]
    struct Mask(m128i);

    impl Mask {
        #[inline(always)]
        fn any(self) -> bool {
            move_mask_i8_m128i(self.0) & 0xaaaa != 0
        }

        /// One bit for each lane.
        #[inline(always)]
        fn bits(self) -> u32 {
            move_mask_i8_m128i(pack_i16_to_i8_m128i(self.0, self.0)) as u32 & 0xff
        }
    }

    /// The low 16 bits in each lane.
    #[inline(always)]
    fn splat(bits: u64) -> m128i {
        set_splat_i16_m128i(bits as i16)
    }

    #[inline(always)]
    fn equal(a: m128i, b: m128i) -> Mask {
        Mask(cmp_eq_mask_i16_m128i(a, b))
    }

    /// The lowest of these lanes. The flag is true for a lane of the second bucket.
    #[inline(always)]
    fn first(lanes: u32) -> Option<(bool, u32)> {
        let lane = lanes.trailing_zeros();
        if lanes == 0 { None } else { Some((lane >= 4, lane % 4)) }
    }

    impl<W: Width> Pair<W> {
        #[inline(always)]
        pub(in crate::cuckoo) fn of(first: Bucket<W>, second: Bucket<W>) -> Self {
            Self(m128i::from([first.0, second.0]), PhantomData)
        }

        #[inline(always)]
        fn entries(&self) -> m128i {
            self.0 & splat(W::NUMBERS.entry())
        }

        /// The lanes whose entries match `query`: nothing differs above the entry's lowest set bit.
        #[inline(always)]
        fn matching(&self, query: Slot<W>) -> Mask {
            if !W::IS_MARKED {
                let unlike = self.0 ^ splat(query.0.into());
                let matching = equal(unlike & splat(W::NUMBERS.entry()), splat(0));
                if W::EXPIRY_BITS == 0 {
                    return matching;
                }
                let expired = equal(unlike & splat(W::NUMBERS.expiry().into()), splat(0));
                return Mask(bitandnot_m128i(expired.0, matching.0));
            }
            // The subtraction saturates at 0: empty slots and digits ignore no bit, and never equal a fresh slot.
            let ignored = self.entries() ^ sub_saturating_u16_m128i(self.entries(), splat(1));
            let unlike = self.0 ^ splat(query.0.into());
            let matching = equal(bitandnot_m128i(ignored, unlike), splat(0));
            if W::EXPIRY_BITS == 0 {
                return matching;
            }
            let expired = equal(unlike & splat(W::NUMBERS.expiry().into()), splat(0));
            Mask(bitandnot_m128i(bitandnot_m128i(self.universal().0, expired.0), matching.0))
        }

        #[inline(always)]
        fn free(&self) -> Mask {
            equal(self.0, splat(0))
        }

        #[inline(always)]
        fn digits(&self) -> Mask {
            if !W::IS_MARKED {
                return Mask(splat(0));
            }
            Mask(bitandnot_m128i(self.free().0, equal(self.entries(), splat(0)).0))
        }

        #[inline(always)]
        fn universal(&self) -> Mask {
            if !W::IS_MARKED {
                return Mask(splat(0));
            }
            equal(self.0, splat(Slot::<W>::UNIVERSAL.0.into()))
        }

        #[inline(always)]
        pub(in crate::cuckoo) fn matches(&self, query: Slot<W>) -> bool {
            self.matching(query).any()
        }

        #[inline(always)]
        pub(in crate::cuckoo) fn first_free(&self) -> Option<(bool, u32)> {
            first(self.free().bits())
        }

        #[inline(always)]
        pub(in crate::cuckoo) fn without_match(&self, query: Slot<W>) -> Option<[Bucket<W>; 2]> {
            let matching = self.matching(query).0;
            // The lanes directly above. The highest lane of each bucket has none above it.
            let above = shl_imm_u64_m128i::<16>(matching);
            // One bit for each lane that matches, then one for each digit above such a lane: a digit makes a second bit.
            let bits = move_mask_i8_m128i(pack_i16_to_i8_m128i(matching, self.digits().0 & above)) as u32;
            let [first, second] = bitandnot_m128i(matching, self.0).into();
            bits.is_power_of_two().then(|| [Bucket::new(first), Bucket::new(second)])
        }

        #[inline(always)]
        pub(in crate::cuckoo) fn matches_of_plain(&self, query: Slot<W>) -> Option<u32> {
            let is_plain = !Mask(self.digits().0 | self.universal().0).any();
            is_plain.then(|| self.matching(query).bits().count_ones())
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::cuckoo::bucket::Lanes;
    use crate::cuckoo::{Four, Four2, Four3};

    /// Slots of all kinds that a writer stores. Some resemble `query`.
    fn slot<W: Width>(query: Slot<W>, random: u64) -> Slot<W> {
        let noise = (random >> 16) as u32 & 0xffff;
        let slot = match random % 16 {
            0 => Slot::new(0),
            1 => Slot::UNIVERSAL,
            2 => Slot::of_digit(noise % W::HIGHEST_DIGIT + 1),
            3 => query,
            // A tail that ends earlier.
            ends @ 4..7 => Slot::new(query.0 & !(0xff >> ends) | 0x80 >> ends),
            _ => Slot::new(noise),
        };
        if slot.is_empty() || slot.is_universal() || slot.digit().is_some() {
            return slot;
        }
        let entry = slot.with_expiry((random >> 40) as u32);
        if entry.tail_length().is_some() { entry } else { query }
    }

    fn answers_as_each_bucket_does<W: Width>() {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 8 ^ state >> 40
        };
        let mut counted = [0_u32; 4];
        for _ in 0..200_000 {
            let query = Slot::<W>::fresh(next() << 40, next() << 40).with_expiry(next() as u32);
            let [first, second] = [(); 2].map(|()| {
                (0..4).fold(Bucket::<W>::new(0), |bucket, lane| bucket.with(lane, slot(query, next())))
            });
            let (pair, both) = (Pair::of(first, second), [first, second]);
            let bits = |lanes: Lanes<W>| lanes.fold(0_u32, |bits, lane| bits | 1 << lane);
            let all = |of: &dyn Fn(Bucket<W>) -> u32| of(first) | of(second) << 4;
            let matching = all(&|bucket| bits(bucket.matches(query)));
            let (empty, digits) =
                (all(&|bucket| bits(bucket.empty_lanes())), all(&|bucket| bits(bucket.digit_lanes())));
            let at = |lane: u32| (lane >= 4, lane % 4);
            assert_eq!(pair.matches(query), matching != 0, "{both:x?} {query:x?}");
            assert_eq!(pair.first_free(), (empty != 0).then(|| at(empty.trailing_zeros())), "{both:x?}");
            let has_digit = matching.trailing_zeros() % 4 != 3 && digits & matching << 1 != 0;
            let only = (matching.is_power_of_two() && !has_digit).then(|| at(matching.trailing_zeros()));
            let without = only.map(|(in_second, lane)| match in_second {
                false => [first.without(lane), second],
                true => [first, second.without(lane)],
            });
            assert_eq!(pair.without_match(query), without, "{both:x?} {query:x?}");
            let plain = digits == 0 && !both.iter().any(|bucket| bucket.has_universal());
            assert_eq!(
                pair.matches_of_plain(query),
                plain.then(|| matching.count_ones()),
                "{both:x?} {query:x?}"
            );
            let seen = [matching != 0, empty != 0, only.is_some(), plain];
            counted.iter_mut().zip(seen).for_each(|(count, seen)| *count += u32::from(seen));
        }
        assert!(counted.iter().all(|count| (1000..199_000).contains(count)), "{counted:?}");
    }

    #[test]
    fn a_pair_answers_as_its_buckets_do() {
        answers_as_each_bucket_does::<Four>();
        answers_as_each_bucket_does::<Four2>();
        answers_as_each_bucket_does::<Four3>();
    }
}
