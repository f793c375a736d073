//! Invariants checked, for unmarked slots of the real widths, with and without expiry, and of tiny ones whose slots can all
//! be tried:
//!
//! 1. A fresh slot holds the top bits of both halves of the hash, and is never empty: 0 becomes 1.
//! 2. A lane matches if it equals the query, its expiry left out, and has not expired.
//! 3. The doubling that marks slots changes the matches of no key. Keys of the fingerprints 0 and 1 are one entry.
//! 4. Marking without a doubling adds matches only where fingerprints differ in the last bit, and takes none away.
//! 5. In a region, keys that were stored only if absent stay present through any history of inserts, doublings, marking,
//!    quarantined buckets and merges, and the counters are those of a scan.

use super::*;
use crate::cuckoo::kind::Kind;
use crate::cuckoo::merge::{Taking, Words, take_region};
use crate::cuckoo::region::{Insertion, contains, find_insertion, insert};
use crate::cuckoo::widths::{Four2, Four3, Three4, Two4, Unmarked};
use crate::cuckoo::{Counts, Delta, Inserted, Search};

macro_rules! every_unmarked_width {
    ($($test:ident: $check:ident, $($name:ident)*;)*) => {
        $(
            #[test]
            fn $test() {
                $($check::<Unmarked<$name>>();)*
            }
        )*
    };
}

every_unmarked_width! {
    a_fresh_slot_is_the_top_bits_and_never_empty: check_fresh_slot,
        Two Three Four Five Six Seven Four2 Four3 Three4 Two4 Crumb Small Brimful;
    lanes_that_equal_the_query_match: check_lanes_match,
        Two Three Four Five Six Seven Four2 Four3 Three4 Two4 Crumb Small Brimful;
    a_first_doubling_leaves_each_key_the_matches_it_had: check_first_doubling,
        Two Three Four Five Six Seven Four2 Four3 Three4 Two4 Crumb Small Brimful;
    marking_leaves_each_key_the_matches_it_had: check_marking,
        Two Three Four Five Six Seven Four2 Four3 Three4 Two4 Crumb Small Brimful;
    every_slot_of_a_narrow_width_is_marked_as_defined: check_exhaustively,
        Five Six Seven Four2 Four3 Crumb Small Brimful;
    slots_are_counted_together_as_one_by_one: check_tally,
        Two Three Four Five Six Seven Four2 Four3 Three4 Two4 Crumb Small;
    keys_stored_only_if_absent_are_found_through_every_history: check_history, Crumb Small Brimful Seven;
}

/// Bits in a fingerprint.
fn bits<W: Width>() -> u32 {
    W::BITS - W::EXPIRY_BITS
}

/// The halves of a hash, of a key with this fingerprint and these further bits.
fn key<W: Width>(fingerprint: u32, further: u64, bucket: u16) -> (u64, u64) {
    let tail_bits = W::TAIL_BITS;
    let tag = u64::from(fingerprint >> tail_bits);
    let tail = u64::from(fingerprint) << (64 - tail_bits);
    (tag << (64 - W::TAG_BITS) | u64::from(bucket), tail | further >> tail_bits)
}

/// What a slot stores for a fingerprint: 1 for 0.
const fn stored(fingerprint: u32) -> u32 {
    if fingerprint == 0 { 1 } else { fingerprint }
}

/// A fingerprint of few values: often 0, often 1, often equal or nearly equal to another one.
fn fingerprint<W: Width>(random: &mut Random) -> u32 {
    let top = 1 << (W::TAIL_BITS - 1);
    match random.below(8) {
        0..3 => random.below(4),
        3 => top | random.below(4),
        4 => 1 << W::TAIL_BITS | random.below(2),
        _ => random.next() as u32 & (u32::MAX >> (32 - bits::<W>())),
    }
}

fn check_fresh_slot<W: Width>() {
    let mut random = Random(31);
    for _ in 0..ROUNDS {
        let fingerprint = fingerprint::<W>(&mut random);
        let (local, rem) = key::<W>(fingerprint, random.next(), 5);
        let slot = Slot::<W>::fresh(local, rem);
        assert_eq!(slot.0, stored(fingerprint) << W::EXPIRY_BITS, "{fingerprint:x}");
        assert_eq!(slot.marked(), Slot::<W::Marked>::fresh(local, rem));
        assert_eq!((slot.tail_length(), slot.digit()), (Some(W::TAIL_BITS), None));
        assert!(!slot.is_empty() && !slot.is_universal());
    }
    assert_eq!(Slot::<W>::new(0).tail_length(), None);
    assert!(!Slot::<W>::new(1 << (W::BITS - 1)).is_universal());
}

/// A bucket, and its slots: their fingerprints often equal `near`.
fn bucket_near<W: Width>(random: &mut Random, near: u32) -> (Bucket<W>, Vec<u32>) {
    let slots: Vec<u32> = (0..W::SLOTS)
        .map(|_| {
            let fingerprint = match random.below(6) {
                0 => return 0,
                1 => fingerprint::<W>(random),
                2 => near ^ 1 << random.below(bits::<W>()),
                _ => near,
            };
            let expiry = random.next() as u32 & W::NUMBERS.expiry();
            stored(fingerprint) << W::EXPIRY_BITS | expiry
        })
        .collect();
    (Bucket::new(word::<W>(&slots)), slots)
}

fn check_lanes_match<W: Width>() {
    let mut random = Random(32);
    for _ in 0..ROUNDS {
        let near = fingerprint::<W>(&mut random);
        let (local, rem) = key::<W>(near, random.next(), 5);
        let query = Slot::<W>::fresh(local, rem).with_expiry(random.next() as u32);
        let ((one, slots), (other, others)) =
            (bucket_near::<W>(&mut random, near), bucket_near::<W>(&mut random, near));
        let expiry = W::NUMBERS.expiry();
        let rule = |slot: u32| {
            let is_live = expiry == 0 || slot & expiry != query.0 & expiry;
            slot != 0 && (slot ^ query.0) & !expiry == 0 && is_live
        };
        let (here, there) = (which(&slots, rule), which(&others, rule));
        assert_eq!(list(one.matches(query)), here, "{one:x?} {query:x?}");
        assert_eq!(
            one.either_matches(other, query),
            !here.is_empty() || !there.is_empty(),
            "{one:x?} {query:x?}"
        );
        let copies = (here.len() + there.len()) as u32;
        assert_eq!(one.copies_in_either(other, query), Some(copies));
        assert!(!one.has_universal() && !one.is_saturated() && one.is_plain());
        assert!(!one.digit_lanes().any());
        let living = slots.iter().map(|slot| if slot & expiry == query.0 & expiry { 0 } else { *slot });
        if expiry != 0 {
            assert_eq!(one.without_expired(query.0).0, word::<W>(&living.collect::<Vec<_>>()));
        }
    }
}

fn check_first_doubling<W: Width>() {
    let mut random = Random(33);
    for _ in 0..4 * ROUNDS {
        let near = fingerprint::<W>(&mut random);
        let (local, rem) = key::<W>(near, random.next(), 5);
        let query = Slot::<W>::fresh(local, rem);
        let (bucket, slots) = bucket_near::<W>(&mut random, near);
        let (left, right) = bucket.split();
        let child = if rem >> 63 == 0 { left } else { right };
        let next = Slot::<W::Marked>::fresh(local, rem << 1);
        // No expiry hides a match in this test.
        let plain = |bucket: Bucket<W>| {
            list(bucket.like(bucket.0 | (W::NUMBERS.ones * u64::from(W::NUMBERS.expiry()))).matches(query))
        };
        let marked = child.like(child.0 | (W::NUMBERS.ones * u64::from(W::NUMBERS.expiry())));
        let (empty, full) = (list(bucket.empty_lanes()), |lanes: Vec<u32>, empty: &[u32]| {
            lanes.into_iter().filter(|lane| !empty.contains(lane)).collect::<Vec<_>>()
        });
        let before = full(plain(bucket), &empty);
        let after = full(list(marked.matches(next)), &list(child.empty_lanes()));
        assert_eq!(after, before, "{bucket:x?} {child:x?} {query:x?} {next:x?}");
        for (lane, slot) in (0..).zip(slots) {
            let children = [left.slot(lane), right.slot(lane)];
            let [Some(child)] = children.map(|child| (!child.is_empty()).then_some(child))[..] else {
                let number = children.iter().filter(|child| !child.is_empty()).count();
                assert_eq!(number, usize::from(slot != 0), "{bucket:x?}");
                continue;
            };
            assert_eq!(
                (child.tag(), child.expiry()),
                (slot >> (W::BITS - W::TAG_BITS), slot & W::NUMBERS.expiry())
            );
        }
    }
}

fn check_marking<W: Width>() {
    let mut random = Random(34);
    for _ in 0..4 * ROUNDS {
        let near = fingerprint::<W>(&mut random);
        let (local, rem) = key::<W>(near, random.next(), 5);
        let query = Slot::<W>::fresh(local, rem).marked();
        let (bucket, slots) = bucket_near::<W>(&mut random, near);
        let marked = bucket.marked();
        let at_expiry = query.with_expiry(random.next() as u32);
        let (lowest, expiry) = (1 << W::EXPIRY_BITS, W::NUMBERS.expiry());
        let expected = which(&slots, |slot| {
            let is_live = expiry == 0 || slot & expiry != at_expiry.0 & expiry;
            slot != 0 && (slot ^ query.0) & !expiry & !lowest == 0 && is_live
        });
        assert_eq!(list(marked.matches(at_expiry)), expected, "{bucket:x?} {query:x?}");
        assert_eq!(list(marked.empty_lanes()), list(bucket.empty_lanes()));
        for (lane, slot) in (0..).zip(slots).filter(|(_, slot)| *slot != 0) {
            let now = marked.slot(lane);
            assert_eq!((now.tail_length(), now.expiry()), (Some(W::TAIL_BITS - 1), slot & expiry));
        }
        assert_eq!(marked.marked(), Bucket::new(marked.0));
    }
}

/// Tries every stored fingerprint with every query.
fn check_exhaustively<W: Width>() {
    let some = |fingerprint: &u32| bits::<W>() < 10 || *fingerprint < 70 || fingerprint.is_multiple_of(97);
    for one in (0..1_u32 << bits::<W>()).filter(some) {
        let (local, rem) = key::<W>(one, 0, 0);
        let lane = one % W::SLOTS;
        let bucket = Bucket::<W>::new(0).with(lane, Slot::<W>::fresh(local, rem).with_expiry(1));
        let (left, right) = bucket.split();
        for other in 0..1_u32 << bits::<W>() {
            let same = stored(one) == stored(other);
            for further in [0, u64::MAX] {
                let (local, rem) = key::<W>(other, further, 0);
                assert_eq!(bucket.matches(Slot::fresh(local, rem)).any(), same, "{one:x} {other:x}");
                let child = if rem >> 63 == 0 { left } else { right };
                let next = Slot::fresh(local, rem << 1);
                assert_eq!(child.matches(next).any(), same, "{one:x} {other:x}");
                let marked = bucket.marked().matches(Slot::fresh(local, rem)).any();
                assert_eq!(marked, one >> 1 == other >> 1, "{one:x} {other:x}");
            }
        }
    }
}

fn check_tally<W: Width>() {
    let mut random = Random(35);
    for _ in 0..20 {
        let words: Vec<u64> = (0..700).map(|_| bucket_near::<W>(&mut random, 0).0.0).collect();
        let (mut each, mut all) = (Counts::default(), Counts::default());
        assert!(words.iter().all(|word| each.tally(Bucket::<W>::new(*word))));
        all.tally_all::<W>(&words);
        assert_eq!(each, all);
        let number: u64 = words
            .iter()
            .map(|word| u64::from(W::SLOTS - Bucket::<W>::new(*word).empty_lanes().count()))
            .sum();
        assert_eq!((each.by_tail[W::TAIL_BITS as usize], each.entries()), (number, number));
    }
}

/// A region of a set.
struct Region {
    words: Vec<u64>,
    is_marked: bool,
    keys: Vec<(u64, u64)>,
    counts: Counts,
}

impl Region {
    fn new<W: Width>() -> Self {
        let words = vec![0; 1 << W::INDEX_BITS];
        Self { words, is_marked: false, keys: Vec::new(), counts: Counts::default() }
    }

    /// Inserts a key if it is absent. Returns whether the key is present afterwards.
    fn insert<W: Width>(&mut self, (local, rem): (u64, u64)) -> bool {
        let place = Place::<W>::new(local, rem);
        let (mut buckets, mut delta) = (Words(&mut self.words), Delta::default());
        let Ok(insertion) = find_insertion(&mut buckets, place);
        if insertion != Insertion::Matches {
            let Ok(inserted) = insert(&mut buckets, place, 200, &mut Search::new());
            delta.inserted(&inserted);
            if inserted == Inserted::NoPath {
                return false;
            }
        }
        self.counts = self.counts.with(&delta);
        self.keys.push((local, rem));
        true
    }

    fn split<W: Width>(&mut self, right: bool) {
        let buckets = || self.words.iter().map(|word| Bucket::<W>::new(*word));
        self.words =
            buckets().map(|bucket| if right { bucket.split().1.0 } else { bucket.split().0.0 }).collect();
        self.keys.retain(|(_, rem)| (rem >> 63 == 1) == right);
        self.keys.iter_mut().for_each(|(_, rem)| *rem <<= 1);
        self.is_marked = true;
        self.recount::<W::Marked>();
    }

    fn mark<W: Width>(&mut self) {
        let before = self.counts;
        self.words.iter_mut().for_each(|word| *word = Bucket::<W>::new(*word).marked().0);
        self.recount::<W::Marked>();
        if !self.is_marked {
            assert!(self.counts.is_as_found(&before.marked()));
        }
        self.is_marked = true;
    }

    fn recount<W: Width>(&mut self) {
        self.counts = self.counts.totals();
        self.counts.tally_all::<W>(&self.words);
    }

    fn check<W: Width>(&mut self) {
        let mut found = Counts::default();
        assert!(self.words.iter().all(|word| found.tally(Bucket::<W>::new(*word))));
        assert!(found.is_as_found(&self.counts), "{found:?} {:?}", self.counts);
        for (local, rem) in &self.keys {
            let place = Place::<W>::new(*local, *rem);
            let Ok(present) = contains(&mut Words(&mut self.words), place);
            assert!(present, "{local:x} {rem:x} is lost");
        }
    }

    fn take<W: Width>(&mut self, other: &Self) {
        let rule = Taking { kind: Kind::Set, now: 0, max_kicks: 200 };
        let (mut words, mut stored) = (self.words.clone(), 0);
        // Without room, the test drops the merged file.
        if take_region::<W>(&other.words, &mut words, rule, &mut Search::new(), &mut stored).is_ok() {
            self.words = words;
            self.keys.extend(&other.keys);
            self.recount::<W>();
        }
    }
}

fn check_history<U: Width>() {
    let mut random = Random(36);
    let mut after = [0; 4];
    for round in 0..if U::INDEX_BITS > 3 { 3 } else { 300 } {
        let mut region = Region::new::<U>();
        let steps = if U::INDEX_BITS > 3 { 40 } else { 200 };
        for _ in 0..steps {
            let some = if U::INDEX_BITS > 3 { 200 } else { 1 };
            let mut keys = |number: u32| -> Vec<(u64, u64)> {
                let key = |_| {
                    let fingerprint = fingerprint::<U>(&mut random);
                    key::<U>(fingerprint, random.next(), random.next() as u16 & 0x1fff)
                };
                (0..number).map(key).collect()
            };
            let (few, other) = (keys(some), keys(3));
            let step = random.below(40);
            let right = random.flip();
            match (step, region.is_marked) {
                (0, false) => region.split::<U>(right),
                (0, true) => region.split::<U::Marked>(right),
                (1, false) => region.mark::<U>(),
                (2, true) => {
                    let word = random.below(1 << U::INDEX_BITS) as usize;
                    region.words[word] = Bucket::<U::Marked>::QUARANTINED.0;
                    region.recount::<U::Marked>();
                }
                (3..6, is_marked) => {
                    let mut from = Region::new::<U>();
                    other.into_iter().for_each(|key| _ = from.insert::<U>(key));
                    if is_marked {
                        from.mark::<U>();
                        region.take::<U::Marked>(&from);
                    } else {
                        region.take::<U>(&from);
                    }
                }
                (_, false) => few.into_iter().for_each(|key| _ = region.insert::<U>(key)),
                (_, true) => few.into_iter().for_each(|key| _ = region.insert::<U::Marked>(key)),
            }
            after[usize::from(region.is_marked)] += 1;
            after[2] += usize::from(region.counts.universal > 0);
            after[3] += usize::from(region.keys.iter().any(|(local, rem)| {
                round >= 0 && local >> (64 - U::TAG_BITS) == 0 && rem >> (64 - U::TAIL_BITS) == 0
            }));
            if region.is_marked {
                region.check::<U::Marked>();
            } else {
                region.check::<U>();
            }
        }
    }
    assert!(after.iter().all(|number| *number > 0), "{after:?}");
}
