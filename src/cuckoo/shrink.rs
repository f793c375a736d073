//! Making one region of two, as when a filter shrinks.
//!
//! No I/O. The rules stand in `format-spec/README.md`, section 8.5. Most buckets hold nothing but entries without digits.
//! The entries of two such buckets are put together without a branch: which lanes are in use is random, so no processor
//! could predict it. Only entries without room in their bucket are handled one by one.

use super::bucket::{Bucket, BucketId, Buckets, BucketsMut, Slot};
use super::group::Group;
use super::merge::{NoRoom, Words, each_group, store_group};
use super::search::Search;
use super::widths::Width;

impl<W: Width> Bucket<W> {
    /// Puts `bit`, the low bit of the region's number, in front of the tails of all entries. Other slots do not change.
    /// Also returns the lanes that hold entries, with all their bits set.
    ///
    /// n = 4: `0x75f2` becomes `0x74f9` with 0 and `0x76f9` with 1. `0x74f9` has no room for another bit, and loses its
    /// last: it becomes `0x747d` with 0. Expiry bits do not change: with a = 3, `0x7735` (tail `0x19` of 5 bits, expiry
    /// 5) becomes `0x759d` with 0 and `0x779d` with 1.
    #[inline(always)]
    fn lengthened(self, bit: u64) -> (Self, u64) {
        let (tail_top, tail_body) = (W::NUMBERS.tail_top(), W::NUMBERS.tail_body());
        let below_tag = self.0 & (tail_top | tail_body);
        // An entry has a bit below its tag. Adding tail_body carries into tail_top unless tail_top itself is the only
        // such bit.
        let entries = (((below_tag & tail_body) + tail_body) | below_tag) & tail_top;
        let lowest = W::NUMBERS.ones << W::EXPIRY_BITS;
        let shorter = (below_tag & !lowest) >> 1 | below_tag & lowest;
        let word = self.0 ^ below_tag | shorter | entries & bit.wrapping_neg();
        (Self::new(word), self.whole_lanes(entries >> W::NUMBERS.tail_top_at()))
    }

    /// One bucket with the entries of both, as far as they fit; and the entries of `other` that did not fit, in their
    /// lanes. Both buckets hold nothing but entries, in the lanes `in_use` and `waiting`.
    ///
    /// Entries of `other` take free lanes here: first each takes its own lane, then the next lane above it, and so on
    /// around.
    ///
    /// | n = 4 | lane 3 | lane 2 | lane 1 | lane 0 |
    /// |---|---|---|---|---|
    /// | `self` | `77e4` | `0000` | `74f9` | `0000` |
    /// | `other` | `1111` | `0000` | `2223` | `3333` |
    /// | lane by lane | `77e4` | `0000` | `74f9` | `3333` |
    /// | the others one lane up | `77e4` | `2223` | `74f9` | `3333` |
    /// | no lane for `1111`: the rest | `1111` | `0000` | `0000` | `0000` |
    const fn joined(self, other: Self, [mut in_use, mut waiting]: [u64; 2]) -> (Self, Self) {
        let (mut into, mut from) = (self.0, other.0);
        let mut turn = 0;
        while turn < W::SLOTS {
            into |= from & !in_use;
            from &= in_use;
            (in_use, waiting) = (in_use | waiting, waiting & in_use);
            // After as many turns as there are lanes, each entry is in its own lane again.
            (from, waiting) = (Self::one_lane_up(from), Self::one_lane_up(waiting));
            turn += 1;
        }
        (Self::new(into), Self::new(from))
    }

    /// All lanes moved up by one, the highest to the lowest.
    const fn one_lane_up(word: u64) -> u64 {
        word << W::BITS & W::NUMBERS.lanes() | word >> ((W::SLOTS - 1) * W::BITS)
    }
}

/// How many pairs of buckets are put together at a time.
const BLOCK: usize = 32;

/// Makes one region of two, in `left`. The contents of `right` then have no meaning.
pub(crate) fn halve<W: Width>(
    left: &mut [u64],
    right: &mut [u64],
    max_kicks: u32,
    search: &mut Search,
) -> Result<(), NoRoom> {
    if !join::<W>(left, right) {
        return each_group(right, left, &mut |buckets, id, group| {
            if store_group::<W>(buckets, id, group, max_kicks, search) { Ok(()) } else { Err(NoRoom) }
        });
    }
    let buckets = &mut Words(left);
    // The buckets with entries left over after the first pass, and after the second.
    let mut waiting = vec![BucketId(0); right.len()];
    let mut number = 0;
    for (id, word) in (0..).map(BucketId).zip(&*right) {
        waiting[number] = id;
        number += usize::from(*word != 0);
    }
    waiting.truncate(number);
    waiting.retain(|id| {
        let rest = right.get_mut(usize::from(id.0));
        rest.is_some_and(|rest| {
            *rest = store_in_others(buckets, *id, Bucket::<W>::new(*rest)).0;
            *rest != 0
        })
    });
    for id in waiting {
        let rest = Bucket::<W>::new(right.get(usize::from(id.0)).copied().unwrap_or_default());
        for lane in 0..W::SLOTS {
            let entry = rest.slot(lane);
            if !entry.is_empty() && !store_group(buckets, id, Group { entry, copies: 1 }, max_kicks, search) {
                return Err(NoRoom);
            }
        }
    }
    Ok(())
}

/// Joins each pair of buckets that holds only entries without digits. `from` keeps the slots of all other pairs, which
/// must still be stored. Returns true if there are no such pairs.
fn join<W: Width>(into: &mut [u64], from: &mut [u64]) -> bool {
    let mut is_plain = true;
    for (into, from) in into.chunks_mut(BLOCK).zip(from.chunks_mut(BLOCK)) {
        let (mut odd, mut all) = (0, [(Bucket::<W>::new(0), Bucket::new(0)); BLOCK]);
        // Has no branch, so that the compiler can process several buckets at once.
        for ((into, from), joined) in into.iter_mut().zip(from.iter_mut()).zip(&mut all) {
            let (a, in_a) = Bucket::<W>::new(*into).lengthened(0);
            let (b, in_b) = Bucket::<W>::new(*from).lengthened(1);
            odd |= a.0 & !in_a | b.0 & !in_b;
            *joined = a.joined(b, [in_a, in_b]);
            (*into, *from) = (a.0, b.0);
        }
        for ((into, from), (joined, rest)) in into.iter_mut().zip(from).zip(all) {
            if odd == 0 || [*into, *from].into_iter().all(|word| Bucket::<W>::new(word).is_plain()) {
                (*into, *from) = (joined.0, rest.0);
            }
        }
        is_plain &= odd == 0;
    }
    is_plain
}

/// Stores the entries of `bucket` in their other buckets, if these have a free lane, and returns the rest. This saves
/// most entries from a search.
fn store_in_others<W: Width>(buckets: &mut Words<'_>, id: BucketId, bucket: Bucket<W>) -> Bucket<W> {
    (0..W::SLOTS).fold(bucket, |left, lane| {
        let entry: Slot<W> = left.slot(lane);
        let other = entry.other(id);
        let Ok(bucket) = Buckets::<W>::load(buckets, other);
        match bucket.empty_lanes().first() {
            Some(free) if !entry.is_empty() => {
                buckets.store(other, bucket.with(free, entry));
                left.without(lane)
            }
            _ => left,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuckoo::{Four, Four2, Four3, SlotsPerBucket, Three4, Two, Two4, with_width};

    #[test]
    fn worked_values() {
        let lengthened = |slot, bit| Bucket::<Four>::new(slot).lengthened(bit).0.0;
        assert_eq!((lengthened(0x75f2, 0), lengthened(0x75f2, 1)), (0x74f9, 0x76f9));
        assert_eq!(lengthened(0x74f9, 0), 0x747d);
        // Void, a digit, universal, empty.
        assert_eq!((lengthened(0x7600, 0), lengthened(0x7600, 1)), (0x7500, 0x7700));
        assert_eq!([0x7400, 0x8000, 0].map(|slot| lengthened(slot, 1)), [0x7400, 0x8000, 0]);
        assert_eq!(lengthened(0x7600_75f2_8000_74f9, 1), 0x7700_76f9_8000_767d);
        let with_expiry = |slot, bit| Bucket::<Four3>::new(slot).lengthened(bit).0.0;
        assert_eq!((with_expiry(0x7735, 0), with_expiry(0x7735, 1)), (0x759d, 0x779d));
        // A full tail loses its last bit.
        assert_eq!((with_expiry(0x76bd, 0), with_expiry(0x76bd, 1)), (0x755d, 0x775d));
        let joined = |a, b| {
            let in_use = [a, b].map(|word: u64| Bucket::<Four>::new(word).lengthened(0).1);
            let (joined, rest) = Bucket::<Four>::new(a).joined(Bucket::new(b), in_use);
            (joined.0, rest.0)
        };
        let rest = 0x1111_0000_0000_0000;
        assert_eq!(joined(0x77e4_0000_74f9_0000, 0x1111_0000_2223_3333), (0x77e4_2223_74f9_3333, rest));
        assert_eq!(joined(0, rest), (rest, 0));
        assert_eq!(joined(0x1111_2222_3333_4444, 0x5555_0000), (0x1111_2222_3333_4444, 0x5555_0000));
    }

    /// Slots that look random, many of them empty.
    fn slots<W: Width>(state: &mut u64) -> Vec<Slot<W>> {
        let mut next = || {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *state >> 32
        };
        let mut slot =
            || if next() % 2 == 0 { Slot::new(0) } else { Slot::new(next() as u32 >> (32 - W::BITS)) };
        (0..W::SLOTS).map(|_| slot()).collect()
    }

    fn bucket<W: Width>(slots: &[Slot<W>]) -> Bucket<W> {
        (0..).zip(slots).fold(Bucket::new(0), |bucket, (lane, slot)| bucket.with(lane, *slot))
    }

    /// Compares it with the same work done lane by lane, for every width.
    #[test]
    fn lanes_are_taken_all_at_once_as_they_are_one_by_one() {
        fn check<W: Width>() {
            let mut state = 1;
            for _ in 0..100_000 {
                let [a, b] = [(); 2].map(|()| slots::<W>(&mut state));
                let (mut into, mut from) = (a.clone(), b.clone());
                for turn in 0..W::SLOTS as usize {
                    for (lane, slot) in from.iter_mut().enumerate() {
                        let to = &mut into[(lane + turn) % W::SLOTS as usize];
                        if to.is_empty() {
                            *to = std::mem::replace(slot, Slot::new(0));
                        }
                    }
                }
                let in_use = |slots: &[Slot<W>]| {
                    let full = Slot::new(u32::MAX >> (32 - W::BITS));
                    let lane = |slot: &Slot<W>| if slot.is_empty() { *slot } else { full };
                    bucket(&slots.iter().map(lane).collect::<Vec<_>>()).0
                };
                let joined = bucket(&a).joined(bucket(&b), [in_use(&a), in_use(&b)]);
                assert_eq!(joined, (bucket(&into), bucket(&from)));
                for bit in [0, 1] {
                    let lengthened = |slot: &Slot<W>| {
                        let Some(length) = slot.tail_length() else { return *slot };
                        let marker = W::TAIL_BITS - length;
                        let bits = u64::from(slot.0) >> W::EXPIRY_BITS;
                        let tail = bits >> (marker + 1) & ((1 << length) - 1) | bit << length;
                        let (tail, length) =
                            if marker == 0 { (tail >> 1, length) } else { (tail, length + 1) };
                        let tag = u64::from(slot.tag()) << (W::TAIL_BITS + 1);
                        let bits = tag | (tail * 2 + 1) << (W::TAIL_BITS - length);
                        Slot::new((bits << W::EXPIRY_BITS) as u32).with_expiry(slot.expiry())
                    };
                    let each: Vec<Slot<W>> = a.iter().map(lengthened).collect();
                    let entries = |slot: &Slot<W>| slot.tail_length().map_or(Slot::new(0), |_| *slot);
                    let entries: Vec<Slot<W>> = a.iter().map(entries).collect();
                    assert_eq!(bucket(&a).lengthened(bit), (bucket(&each), in_use(&entries)));
                }
            }
        }
        for slots in SlotsPerBucket::ALL {
            with_width!(slots, W => check::<W>());
        }
        check::<Four2>();
        check::<Four3>();
        check::<Three4>();
        check::<Two4>();
    }

    /// Also tests a whole block in which one side holds no entries, and the other side nothing else.
    #[test]
    fn a_halving_keeps_quarantined_buckets_of_either_side() {
        fn check<W: Width>() {
            let slot = Slot::new((1 << (W::TAIL_BITS + 1) | 1) << W::EXPIRY_BITS);
            let plain = Bucket::<W>::new(0).with(0, slot).0;
            for quarantined in [0..3 * BLOCK, 7..BLOCK, 2 * BLOCK..2 * BLOCK + 1] {
                let mut damaged = vec![0; 8192];
                damaged[quarantined.clone()].fill(Bucket::<W>::QUARANTINED.0);
                let whole = vec![plain; 8192];
                for (mut left, mut right) in [(damaged.clone(), whole.clone()), (whole.clone(), damaged)] {
                    halve::<W>(&mut left, &mut right, 2000, &mut Search::new()).unwrap();
                    let found = |word: &&u64| **word == Bucket::<W>::QUARANTINED.0;
                    assert!(left[quarantined.clone()].iter().all(|word| found(&word)));
                    assert_eq!(left.iter().filter(found).count(), quarantined.len());
                }
            }
        }
        for slots in SlotsPerBucket::ALL {
            with_width!(slots, W => check::<W>());
        }
        check::<Four2>();
    }

    /// A halving undoes a split, except for the last bit of fresh tails and the twins of void entries.
    #[test]
    fn a_halving_undoes_a_split() {
        for slots in SlotsPerBucket::ALL {
            with_width!(slots, W => {
                let mut state = 7_u64;
                let mut words = vec![0; 8192];
                for word in words.iter_mut().step_by(3) {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    // Any tag, and a tail that is one bit shorter than the longest.
                    let slot = Slot::<W>::new((state >> 32) as u32 >> (32 - W::BITS) & !1 | 2);
                    let digit = if state.is_multiple_of(2) { Slot::of_digit(1) } else { Slot::new(0) };
                    *word = Bucket::<W>::new(0).with(0, slot).with(1, digit).0;
                }
                let (mut left, mut right): (Vec<u64>, Vec<u64>) =
                    words.iter().map(|word| Bucket::<W>::new(*word).split()).map(|(a, b)| (a.0, b.0)).unzip();
                halve::<W>(&mut left, &mut right, 2000, &mut Search::new()).unwrap();
                // An entry that was alone in its bucket has come back.
                assert!(left == words, "{slots:?}");
            });
        }
        // No room: two full buckets of one index, and no entry can move.
        let full = |slot: u32| {
            vec![(0..2).fold(Bucket::<Two>::new(0), |all, lane| all.with(lane, Slot::new(slot))).0; 8192]
        };
        let (mut left, mut right) = (full(0x7000_0004), full(0x7000_0004));
        assert!(halve::<Two>(&mut left, &mut right, 2000, &mut Search::new()).is_err());
    }
}
