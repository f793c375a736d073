//! Invariants checked, for the six real widths and for tiny ones whose slots can all be tried:
//!
//! 1. A fresh slot holds the top bits of both halves of the hash; an entry of any age has the tail length that
//!    it was built with, and every other slot has none.
//! 2. Each whole-bucket operation agrees with its plain definition for each lane alone, for any contents of the
//!    neighbouring lanes and of the bits outside every lane.
//! 3. A split decides each lane by its first tail bit. A key matches the same entries in its new bucket as before.
//! 4. The OFFSET tables have the shares of near and far tags in the specification, and connect all parts of a region.

use super::*;
use crate::cuckoo::offset::{OFFSET_T6, OFFSET_T10};
use crate::cuckoo::widths::{Five, Four, Seven, Six, Three, Two};

mod unmarked;

macro_rules! tiny_widths {
    ($($name:ident: $slots:literal of $bits:literal bits, tag $tag:literal, $offsets:expr;)*) => {
        $(
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            struct $name;
            impl Width for $name {
                const VALUE: Self = Self;
                const SLOTS: u32 = $slots;
                const TAG_BITS: u32 = $tag;
                const BITS: u32 = $bits;
                type Marked = Self;
                const INDEX_BITS: u32 = 3;
                const OFFSETS: &'static [u16] = $offsets;
            }
            const _: () = assert!($name::OFFSETS.len() == 1 << $tag && $name::TAIL_BITS >= 1);
        )*
    };
}

tiny_widths! {
    // One bit of tail: the shortest that a fresh slot can have.
    Crumb: 2 of 4 bits, tag 2, &[1, 2, 3, 5];
    Small: 4 of 6 bits, tag 2, &[1, 2, 3, 5];
    // The lanes fill the word to the last bit.
    Brimful: 8 of 8 bits, tag 4, &[1, 2, 3, 4, 5, 6, 7, 7, 1, 2, 3, 4, 5, 6, 7, 7];
}

/// One test function a line. Each runs its check for every width.
macro_rules! every_width {
    ($($test:ident: $check:ident;)*) => {
        $(
            #[test]
            fn $test() {
                $check::<Two>();
                $check::<Three>();
                $check::<Four>();
                $check::<Five>();
                $check::<Six>();
                $check::<Seven>();
                $check::<Crumb>();
                $check::<Small>();
                $check::<Brimful>();
            }
        )*
    };
}

every_width! {
    a_fresh_slot_holds_the_top_bits_of_both_halves: check_fresh;
    tails_have_the_length_they_were_built_with: check_tail_length;
    the_other_bucket_of_the_other_bucket_is_the_first: check_other;
    one_lane_is_read_and_replaced_without_its_neighbours: check_single_lanes;
    only_bits_outside_every_lane_are_stray: check_stray_bits;
    lanes_are_listed_in_order_and_counted: check_lanes;
    empty_and_universal_lanes_are_those_that_hold_them: check_special_lanes;
    a_lane_matches_if_all_above_its_lowest_set_bit_agrees: check_matches;
    two_buckets_at_once_match_if_either_does: check_either_matches;
    two_buckets_at_once_answer_as_their_lanes_do: check_both_at_once;
    every_slot_answers_every_query_of_a_narrow_width_as_defined: check_matches_exhaustively;
    universal_matches_and_empty_does_not_whatever_the_query: check_universal_and_empty_answers;
    each_lane_goes_where_its_first_tail_bit_says: check_split;
    every_slot_of_a_narrow_width_splits_as_defined: check_split_exhaustively;
    a_split_leaves_each_key_the_matches_it_had: check_split_keeps_matches;
}

/// How many random buckets, slots or queries each check tries.
const ROUNDS: u32 = 20_000;

/// The meaning of a slot, read bit by bit as the format describes it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Meaning {
    Empty,
    /// No tail, not even an empty one, and the top bit set: universal, or malformed.
    NoTail(u32),
    /// No tail, and the top bit clear.
    Digit(u32),
    Entry {
        tag: u32,
        length: u32,
        tail: u32,
    },
}

impl Meaning {
    fn of<W: Width>(slot: u32) -> Self {
        if slot == 0 {
            return Self::Empty;
        }
        let mut end = 0;
        while slot >> end & 1 == 0 {
            end += 1;
        }
        if end > W::TAIL_BITS {
            let tag = slot >> (W::BITS - W::TAG_BITS);
            return if tag < 1 << (W::TAG_BITS - 1) { Self::Digit(tag) } else { Self::NoTail(slot) };
        }
        let length = W::TAIL_BITS - end;
        let above = slot >> end >> 1;
        Self::Entry { tag: above >> length, length, tail: above % (1 << length) }
    }

    fn slot<W: Width>(self) -> u32 {
        match self {
            Self::Empty => 0,
            Self::NoTail(slot) => slot,
            Self::Digit(value) => value << (W::BITS - W::TAG_BITS),
            Self::Entry { tag, length, tail } => ((tag << length | tail) << 1 | 1) << (W::TAIL_BITS - length),
        }
    }

    /// The first bit of the tail: whether a split puts the entry into the right child.
    fn side(self) -> Option<bool> {
        match self {
            Self::Entry { length, tail, .. } if length > 0 => Some(tail >> (length - 1) == 1),
            _ => None,
        }
    }

    /// The slot without the first bit of its tail. A slot without a tail stays as it is.
    fn aged(self) -> Self {
        match self {
            Self::Entry { tag, length, tail } if length > 0 => {
                Self::Entry { tag, length: length - 1, tail: tail % (1 << (length - 1)) }
            }
            same => same,
        }
    }
}

/// The slots of the left and the right child for each lane: a digit goes where the lane below it goes.
fn split_plainly<W: Width>(slots: &[u32]) -> Vec<(Meaning, Meaning)> {
    let mut below = None;
    let each = slots.iter().map(|slot| {
        let meaning = Meaning::of::<W>(*slot);
        below = if matches!(meaning, Meaning::Digit(_)) { below } else { meaning.side() };
        match below {
            None => (meaning, meaning),
            Some(false) => (meaning.aged(), Meaning::Empty),
            Some(true) => (Meaning::Empty, meaning.aged()),
        }
    });
    each.collect()
}

/// The definition of a match: all bits above the lowest set bit of an entry agree. A slot that is not an entry matches
/// if it has the top bit; empty slots and digits do not match.
fn agrees<W: Width>(slot: u32, query: u32) -> bool {
    match Meaning::of::<W>(slot) {
        Meaning::Empty | Meaning::Digit(_) => false,
        Meaning::NoTail(_) => true,
        Meaning::Entry { .. } => {
            let end = slot.trailing_zeros();
            slot >> end >> 1 == query >> end >> 1
        }
    }
}

fn slot_mask<W: Width>() -> u32 {
    ((1u64 << W::BITS) - 1) as u32
}

/// Random numbers from a seed: the SplitMix64 generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u32) -> u32 {
        (self.next() % u64::from(end)) as u32
    }

    fn flip(&mut self) -> bool {
        self.below(2) == 1
    }

    /// An entry of any age: a fresh fingerprint that has lost some of its bits.
    fn entry<W: Width>(&mut self) -> u32 {
        let (tag, length) = (self.below(1 << W::TAG_BITS), self.below(W::TAIL_BITS + 1));
        Meaning::Entry { tag, length, tail: self.below(1 << length) }.slot::<W>()
    }

    /// Any slot, with many special ones.
    fn slot<W: Width>(&mut self) -> u32 {
        match self.below(10) {
            0 | 1 => 0,
            2 => 1 << (W::BITS - 1),
            3 => self.below(1 << W::TAG_BITS) << (W::BITS - W::TAG_BITS),
            4 => slot_mask::<W>(),
            5 => self.next() as u32 & slot_mask::<W>(),
            _ => self.entry::<W>(),
        }
    }

    /// A bucket and its lanes. Some buckets have stray bits.
    fn bucket<W: Width>(&mut self) -> (Bucket<W>, Vec<u32>) {
        let slots: Vec<u32> = (0..W::SLOTS).map(|_| self.slot::<W>()).collect();
        let used = W::SLOTS * W::BITS;
        let stray = if used < 64 && self.flip() { self.next() << used } else { 0 };
        (Bucket::new(word::<W>(&slots) | stray), slots)
    }

    /// A query that often agrees, or nearly agrees, with one of the slots.
    fn query<W: Width>(&mut self, slots: &[u32]) -> Slot<W> {
        let near = slots[self.below(W::SLOTS) as usize];
        let query = match self.below(4) {
            0 => self.next() as u32,
            1 => near ^ 1 << self.below(W::BITS),
            2 => near ^ self.next() as u32 & (near & near.wrapping_neg()).wrapping_sub(1),
            _ => near,
        };
        Slot::new((query | 1) & slot_mask::<W>())
    }
}

fn list<W: Width>(lanes: Lanes<W>) -> Vec<u32> {
    lanes.collect()
}

fn word<W: Width>(slots: &[u32]) -> u64 {
    slots.iter().rev().fold(0, |word, slot| word << W::BITS | u64::from(*slot))
}

/// The numbers of the lanes whose slot satisfies `rule`.
fn which(slots: &[u32], rule: impl Fn(u32) -> bool) -> Vec<u32> {
    (0..).zip(slots).filter(|(_, slot)| rule(**slot)).map(|(lane, _)| lane).collect()
}

fn check_fresh<W: Width>() {
    let mut random = Random(1);
    for _ in 0..ROUNDS {
        let (local, rem) = (random.next(), random.next());
        let slot = Slot::<W>::fresh(local, rem);
        let tag = (local >> (64 - W::TAG_BITS)) as u32;
        let tail = (rem >> (64 - W::TAIL_BITS)) as u32;
        assert_eq!(Meaning::of::<W>(slot.0), Meaning::Entry { tag, length: W::TAIL_BITS, tail });
        assert_eq!(slot.tag(), tag);
        assert!(!slot.is_empty() && !slot.is_universal());
    }
}

fn check_tail_length<W: Width>() {
    let mut random = Random(2);
    for length in 0..=W::TAIL_BITS {
        for _ in 0..ROUNDS / 20 {
            let tag = random.below(1 << W::TAG_BITS);
            let tail = random.below(1 << length);
            let slot = Slot::<W>::new(Meaning::Entry { tag, length, tail }.slot::<W>());
            assert_eq!((slot.tail_length(), slot.tag()), (Some(length), tag), "{slot:?}");
            assert!(!slot.is_empty() && !slot.is_universal(), "{slot:?}");
        }
    }
    // A tag with zeros after it: empty, universal, a digit, or malformed.
    for tag in 0..1 << W::TAG_BITS {
        let slot = Slot::<W>::new(tag << (W::BITS - W::TAG_BITS));
        assert_eq!(slot.tail_length(), None, "{slot:?}");
        let is_digit = tag > 0 && tag < 1 << (W::TAG_BITS - 1);
        assert_eq!(slot.digit(), is_digit.then_some(tag), "{slot:?}");
        assert_eq!(slot.is_empty(), tag == 0);
        assert_eq!(slot.is_universal(), tag == 1 << (W::TAG_BITS - 1));
    }
    assert!(Slot::<W>::UNIVERSAL.is_universal());
}

fn check_other<W: Width>() {
    for tag in 0..1 << W::TAG_BITS {
        let slot = Slot::<W>::new(Meaning::Entry { tag, length: 0, tail: 0 }.slot::<W>());
        for id in (0..1 << W::INDEX_BITS).step_by(if W::TAG_BITS == 10 { 97 } else { 1 }) {
            let other = slot.other(BucketId(id));
            assert_eq!(other.0 ^ id, W::OFFSETS[tag as usize]);
            assert!(other.0 != id && other.0 >> W::INDEX_BITS == 0, "{other:?}");
            assert_eq!(slot.other(other), BucketId(id));
        }
    }
}

fn check_single_lanes<W: Width>() {
    let mut random = Random(3);
    for _ in 0..ROUNDS {
        let (bucket, mut slots) = random.bucket::<W>();
        let stray = bucket.0 ^ word::<W>(&slots);
        let read: Vec<u32> = (0..W::SLOTS).map(|lane| bucket.slot(lane).0).collect();
        assert_eq!(read, slots);
        let (lane, slot) = (random.below(W::SLOTS), random.slot::<W>());
        slots[lane as usize] = slot;
        assert_eq!(bucket.with(lane, Slot::new(slot)).0, word::<W>(&slots) | stray);
    }
}

fn check_stray_bits<W: Width>() {
    let used = W::SLOTS * W::BITS;
    for bit in 0..64 {
        assert_eq!(Bucket::<W>::new(1 << bit).has_stray_bits(), bit >= used, "bit {bit}");
    }
    assert!(!Bucket::<W>::new(u64::MAX >> (64 - used)).has_stray_bits());
}

fn check_lanes<W: Width>() {
    for set in 0u32..1 << W::SLOTS {
        let expected: Vec<u32> = (0..W::SLOTS).filter(|lane| set >> lane & 1 == 1).collect();
        let full = Slot::<W>::new(slot_mask::<W>());
        let bucket = expected.iter().fold(Bucket::<W>::new(0), |bucket, lane| bucket.with(*lane, full));
        let lanes = bucket.matches(full);
        assert_eq!(lanes.any(), set != 0);
        assert_eq!(lanes.count(), set.count_ones());
        assert_eq!(lanes.first(), expected.first().copied());
        assert_eq!(list(lanes), expected);
    }
}

fn check_special_lanes<W: Width>() {
    let mut random = Random(4);
    for _ in 0..ROUNDS {
        let (bucket, slots) = random.bucket::<W>();
        assert_eq!(list(bucket.empty_lanes()), which(&slots, |slot| slot == 0), "{bucket:x?}");
        let digits = which(&slots, |slot| matches!(Meaning::of::<W>(slot), Meaning::Digit(_)));
        assert_eq!(list(bucket.digit_lanes()), digits, "{bucket:x?}");
        assert_eq!(bucket.has_universal(), slots.contains(&(1 << (W::BITS - 1))), "{bucket:x?}");
    }
    let quarantined = Bucket::<W>::QUARANTINED;
    assert!((0..W::SLOTS).all(|lane| quarantined.slot(lane).is_universal()) && !quarantined.has_stray_bits());
}

fn check_matches<W: Width>() {
    let mut random = Random(5);
    for _ in 0..10 * ROUNDS {
        let (bucket, slots) = random.bucket::<W>();
        let query = random.query::<W>(&slots);
        let expected = which(&slots, |slot| agrees::<W>(slot, query.0));
        assert_eq!(list(bucket.matches(query)), expected, "{bucket:x?} {query:x?}");
    }
}

fn check_either_matches<W: Width>() {
    let mut random = Random(6);
    let mut answers = [0; 2];
    for _ in 0..10 * ROUNDS {
        let ((one, in_one), (other, in_other)) = (random.bucket::<W>(), random.bucket::<W>());
        let of = if random.below(2) == 0 { &in_one } else { &in_other };
        let query = random.query::<W>(of);
        if query.0 == 0 {
            continue;
        }
        let expected = in_one.iter().chain(&in_other).any(|slot| agrees::<W>(*slot, query.0));
        assert_eq!(one.either_matches(other, query), expected, "{one:x?} {other:x?} {query:x?}");
        answers[usize::from(expected)] += 1;
    }
    assert!(answers.iter().all(|answers| *answers > 1000), "{answers:?}");
}

fn check_both_at_once<W: Width>() {
    let mut random = Random(16);
    let (mut free, mut only, mut plain) = ([0; 3], [0; 3], [0; 2]);
    for _ in 0..10 * ROUNDS {
        let ((one, mut slots), (other, in_other)) = (random.bucket::<W>(), random.bucket::<W>());
        let of = if random.below(2) == 0 { &slots } else { &in_other };
        let query = random.query::<W>(of);
        // A fresh slot has its lowest bit set.
        let query = Slot::<W>::new(query.0 | 1);
        slots.extend(in_other);
        let place = |lane: usize| (lane >= W::SLOTS as usize, lane as u32 % W::SLOTS);
        let answer = |found: Option<(bool, u32)>| found.map_or(2, |(in_other, _)| usize::from(in_other));

        let expected = slots.iter().position(|slot| *slot == 0).map(place);
        assert_eq!(one.first_free(other), expected, "{one:x?} {other:x?}");
        free[answer(expected)] += 1;

        let is_digit = |lane: usize| matches!(Meaning::of::<W>(slots[lane]), Meaning::Digit(_));
        let matching: Vec<usize> =
            (0..slots.len()).filter(|lane| agrees::<W>(slots[*lane], query.0)).collect();
        let counted = |lane: usize| !(lane + 1).is_multiple_of(W::SLOTS as usize) && is_digit(lane + 1);
        let expected = match matching[..] {
            [lane] if !counted(lane) => Some(place(lane)),
            _ => None,
        };
        let without = expected.map(|(in_other, lane)| match in_other {
            false => [one.without(lane), other],
            true => [one, other.without(lane)],
        });
        assert_eq!(one.without_match(other, query), without, "{one:x?} {other:x?} {query:x?}");
        only[answer(expected)] += 1;

        let is_plain = (0..slots.len()).all(|lane| !is_digit(lane))
            && slots.iter().all(|slot| !Slot::<W>::new(*slot).is_universal());
        let counted = one.matches_of_plain(other, query);
        if is_plain {
            // `count` may refuse malformed slots.
            assert!(counted.is_none_or(|count| count as usize == matching.len()), "{one:x?} {other:x?}");
        } else {
            assert_eq!(counted, None, "{one:x?} {other:x?}");
        }
        plain[usize::from(counted.is_some())] += 1;
    }
    for answers in [&free[..], &only, &plain] {
        assert!(answers.iter().all(|answers| *answers > 1000), "{answers:?}");
    }
}

/// Buckets to put one slot into: their neighbouring lanes produce every carry and borrow.
fn surroundings<W: Width>() -> [Bucket<W>; 4] {
    let each = |slot| Bucket::new(word::<W>(&vec![slot; W::SLOTS as usize]));
    [each(0), each(slot_mask::<W>()), each(1), Bucket::QUARANTINED]
}

fn check_matches_exhaustively<W: Width>() {
    if W::BITS > 10 {
        return;
    }
    for around in surroundings::<W>() {
        let fill = around.slot(0).0;
        for entry in 0..=slot_mask::<W>() {
            let lane = entry % W::SLOTS;
            let bucket = around.with(lane, Slot::new(entry));
            for query in (1..=slot_mask::<W>()).step_by(2) {
                let lanes = bucket.matches(Slot::new(query));
                let beside = if agrees::<W>(fill, query) { W::SLOTS - 1 } else { 0 };
                let expected = agrees::<W>(entry, query);
                assert_eq!(lanes.count(), beside + u32::from(expected), "{bucket:x?} {query:#x}");
                assert_eq!(list(lanes).contains(&lane), expected, "{bucket:x?} {query:#x}");
            }
        }
    }
}

fn check_universal_and_empty_answers<W: Width>() {
    let mut random = Random(6);
    for _ in 0..ROUNDS {
        let query = Slot::<W>::fresh(random.next(), random.next());
        assert_eq!(Bucket::<W>::QUARANTINED.matches(query).count(), W::SLOTS);
        assert!(!Bucket::<W>::new(0).matches(query).any());
    }
}

/// Compares a split with the plain definition for each slot.
fn assert_split<W: Width>(bucket: Bucket<W>, slots: &[u32]) {
    let (left, right) = bucket.split();
    for (lane, (on_left, on_right)) in (0..).zip(split_plainly::<W>(slots)) {
        assert_eq!(Meaning::of::<W>(left.slot(lane).0), on_left, "lane {lane} of {bucket:x?}");
        assert_eq!(Meaning::of::<W>(right.slot(lane).0), on_right, "lane {lane} of {bucket:x?}");
    }
}

fn check_split<W: Width<Marked = W>>() {
    let mut random = Random(7);
    for _ in 0..10 * ROUNDS {
        let (bucket, slots) = random.bucket::<W>();
        assert_split(bucket, &slots);
        if !bucket.has_stray_bits() {
            let (left, right) = bucket.split();
            assert!(!left.has_stray_bits() && !right.has_stray_bits(), "{bucket:x?}");
        }
    }
    let quarantined = Bucket::<W>::QUARANTINED;
    assert_eq!(quarantined.split(), (quarantined, quarantined));
}

fn check_split_exhaustively<W: Width>() {
    if W::BITS > 16 {
        return;
    }
    for around in surroundings::<W>() {
        let mut slots = vec![around.slot(0).0; W::SLOTS as usize];
        for slot in 0..=slot_mask::<W>() {
            let lane = slot % W::SLOTS;
            slots[lane as usize] = slot;
            assert_split(around.with(lane, Slot::new(slot)), &slots);
            slots[lane as usize] = around.slot(0).0;
        }
    }
}

fn check_split_keeps_matches<W: Width<Marked = W>>() {
    let mut random = Random(8);
    for round in 0..10 * ROUNDS {
        let (local, rem) = (random.next(), random.next());
        let query = Slot::<W>::fresh(local, rem);
        // The key's own entry, stored `age` doublings ago, among others.
        let (age, lane) = (round % (W::TAIL_BITS + 1), random.below(W::SLOTS));
        let Meaning::Entry { tag, length, tail } = Meaning::of::<W>(query.0) else { panic!("{query:?}") };
        let aged = Meaning::Entry { tag, length: length - age, tail: tail >> age }.slot::<W>();
        let bucket = random.bucket::<W>().0.with(lane, Slot::new(aged));

        let (left, right) = bucket.split();
        let child = if rem >> 63 == 0 { left } else { right };
        let next = Slot::<W>::fresh(local, rem << 1);
        assert!(list(child.matches(next)).contains(&lane), "{bucket:x?} {query:x?}");
        assert_eq!(child.matches(next), bucket.matches(query), "{bucket:x?} {query:x?}");
    }
}

/// The number of independent values among `values`, as vectors of bits under exclusive or.
fn rank(values: impl Iterator<Item = u16>) -> usize {
    let mut basis: Vec<u16> = Vec::new();
    for value in values {
        let rest = basis.iter().fold(value, |rest, member| rest.min(rest ^ member));
        if rest != 0 {
            basis.push(rest);
        }
    }
    basis.len()
}

/// Buckets in a 64-byte line, in a page, in a region.
const LINE: u16 = 8;
const PAGE: u16 = 512;
const REGION: u16 = 8192;

fn in_range(offsets: &[u16], from: u16, to: u16) -> Vec<u16> {
    offsets.iter().copied().filter(|offset| (from..to).contains(offset)).collect()
}

#[test]
fn six_bit_tags_have_the_promised_shares_of_near_and_far_offsets() {
    let offsets = &OFFSET_T6[..];
    assert_eq!(in_range(offsets, 1, LINE).len(), 12);
    assert_eq!(in_range(offsets, LINE, PAGE).len(), 44);
    assert_eq!(in_range(offsets, PAGE, REGION).len(), 8);
}

#[test]
fn ten_bit_tags_use_every_offset_within_a_page_outside_the_line() {
    let offsets = &OFFSET_T10[..];
    assert_eq!(in_range(offsets, 0, LINE).len(), 0);
    assert_eq!(in_range(offsets, LINE, PAGE).len(), 896);
    assert_eq!(in_range(offsets, PAGE, REGION).len(), 128);
    assert!((LINE..PAGE).all(|offset| offsets.contains(&offset)));
}

#[test]
fn offsets_lead_from_any_bucket_to_every_bucket() {
    for offsets in [&OFFSET_T6[..], &OFFSET_T10[..]] {
        assert_eq!(rank(offsets.iter().copied()), 13);
        let far = in_range(offsets, PAGE, REGION);
        assert_eq!(rank(far.iter().map(|offset| offset / PAGE)), 4, "pages reached by crossing tags alone");
        let near = in_range(offsets, 1, PAGE);
        assert_eq!(rank(near.iter().copied()), 9, "buckets of a page reached without leaving it");
    }
}

#[test]
fn real_widths_are_those_of_the_format() {
    fn shape<W: Width>() -> (u32, u32, u32, u32, u32) {
        (W::SLOTS, W::BITS, W::TAG_BITS, W::TAIL_BITS, W::INDEX_BITS)
    }
    assert_eq!(shape::<Two>(), (2, 32, 10, 21, 13));
    assert_eq!(shape::<Three>(), (3, 21, 10, 10, 13));
    assert_eq!(shape::<Four>(), (4, 16, 6, 9, 13));
    assert_eq!(shape::<Five>(), (5, 12, 6, 5, 13));
    assert_eq!(shape::<Six>(), (6, 10, 6, 3, 13));
    assert_eq!(shape::<Seven>(), (7, 9, 6, 2, 13));
}

/// Checks the tables in the comments of `bucket.rs`, for n = 4.
#[test]
fn worked_values() {
    type Slot4 = Slot<Four>;
    type Bucket4 = Bucket<Four>;

    assert_eq!((select(0xa, 0xb, false), select(0xa, 0xb, true)), (0xa, 0xb));
    assert_eq!(Slot4::fresh(0x7433_ea64_0a60_93df, 0x3e44_6882_a63e_c518).0, 0x74f9);
    assert_eq!((0x3e44_6882_a63e_c518_u64 >> (64 - 9), 29 << 10 | 0x7c << 1 | 1), (0x7c, 0x74f9));
    let lengths =
        [0x74f9, 0x75f2, 0x7600, 0x8000, 0x7400, 0x8400, 0].map(|bits| Slot4::new(bits).tail_length());
    assert_eq!(lengths, [Some(9), Some(8), Some(0), None, None, None, None]);
    let digits = [0x7400, 0x7c00, 0x8400, 0x8000, 0x7600, 0].map(|bits| Slot4::new(bits).digit());
    assert_eq!(digits, [Some(29), Some(31), None, None, None, None]);
    let (slot, one, two) = (Slot4::new(0x74f9), BucketId(0x13df), BucketId(0x1331));
    assert_eq!((slot.tag(), Four::OFFSETS[29], slot.other(one), slot.other(two)), (29, 0x00ee, two, one));

    let lane = |mask: u64| mask & 0xffff;
    let of = Four::NUMBERS;
    let masks = [of.ones, of.high(), of.body(), of.tail_top(), of.tail_body(), of.entry()];
    assert_eq!(masks.map(lane), [0x0001, 0x8000, 0x7fff, 0x0200, 0x01ff, 0x83ff]);

    let bucket = Bucket4::new(0x0000_8000_0001_abc8);
    assert_eq!((bucket.0 & of.body()) + of.body(), 0x7fff_7fff_8000_abc7);
    assert_eq!(bucket.empty_lanes().0, 0x8000_0000_0000_0000);

    let query = Slot4::new(0xabcf);
    let bucket = Bucket4::new(0x0000_8000_2800_abc8);
    let agrees = bucket.0 ^ !0xabcf_abcf_abcf_abcf_u64;
    assert_eq!(agrees >> 1 & of.body(), 0x2a18_6a18_3e18_7ffc);
    assert_eq!(0x2a18_6a18_3e18_7ffc_u64 + 0x0000_8000_0000_0008, 0x2a18_ea18_3e18_8004);
    assert_eq!(bucket.matches(query).0, 0x0000_8000_0000_8000);
    for (entry, ignored, differs) in [
        (0u16, 0, 0xabcf),
        (0x2800, 0, 0x83cf),
        (0x8000, 0xffff, 0),
        (0x0001, 0x0001, 0xabce),
        (0xabc8, 0x000f, 0),
    ] {
        let masked = entry & 0x83ff;
        assert_eq!(masked ^ masked.saturating_sub(1), ignored);
        assert_eq!((entry ^ 0xabcf) & !ignored, differs);
        let (bucket, empty) = (Bucket4::new(entry.into()), Bucket4::new(0));
        assert_eq!(bucket.either_matches(empty, query), differs == 0, "{entry:#x}");
    }

    let (left, right) = Bucket4::new(0x7600_2800_77e4_74f9).split();
    assert_eq!((left.0, right.0), (0x7600_0000_0000_75f2, 0x7600_2800_77c8_0000));
    assert_eq!(bucket.whole_lanes(0x0000_0000_0001_0001), 0x0000_0000_ffff_ffff);
}
