use super::*;
use crate::cuckoo::{Four, Seven, SlotsPerBucket, Two, with_width};

#[test]
fn worked_values() {
    let lengthened = |slot, bit| lengthened(Slot::<Four>::new(slot), bit).0;
    assert_eq!((lengthened(0x75f2, 0), lengthened(0x75f2, 1)), (0x74f9, 0x76f9));
    assert_eq!(lengthened(0x74f9, 0), 0x747d);
    // Void, a digit, universal, empty.
    assert_eq!((lengthened(0x7600, 0), lengthened(0x7600, 1)), (0x7500, 0x7700));
    assert_eq!([0x7400, 0x8000, 0].map(|slot| lengthened(slot, 1)), [0x7400, 0x8000, 0]);
    let covers = |a: u64, b| Bucket::<Four>::new(a).covers(Slot::new(b));
    assert!(covers(0xabc8, 0xabc8) && covers(0xabc8, 0xabcc) && !covers(0xabcc, 0xabc8));
    assert!(!covers(0, 0xabc8) && !covers(0x7400, 0x7600));
}

/// For every entry and every query: whatever matches the second matches the first if and only if the first covers it.
#[test]
fn an_entry_covers_another_if_and_only_if_it_matches_all_that_the_other_matches() {
    fn check<W: Width>(step: usize) {
        let entries = (1..1_u32 << W::BITS).map(Slot::<W>::new).filter(|slot| slot.tail_length().is_some());
        let entries: Vec<Slot<W>> = entries.filter(|slot| slot.tag() == 3).collect();
        let queries: Vec<Slot<W>> = entries.iter().copied().filter(|slot| slot.0 % 2 == 1).collect();
        let matches = |entry: Slot<W>, query| Bucket::<W>::new(entry.0.into()).matches(query).any();
        for a in entries.iter().step_by(step) {
            for b in &entries {
                let all = queries.iter().all(|query| !matches(*b, *query) || matches(*a, *query));
                assert_eq!(Bucket::<W>::new(a.0.into()).covers(*b), all, "{a:?}, {b:?}");
            }
        }
    }
    check::<Seven>(1);
    check::<crate::cuckoo::Six>(1);
    check::<crate::cuckoo::Five>(1);
    check::<Four>(29);
}

/// A split undone by a halving is what it was, but for the last bit of fresh tails and for twins of void entries.
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
                *word = Bucket::<W>::new(0).with(0, slot).with(1, Slot::of_digit(1)).0;
            }
            let (mut left, mut right): (Vec<u64>, Vec<u64>) =
                words.iter().map(|word| Bucket::<W>::new(*word).split()).map(|(a, b)| (a.0, b.0)).unzip();
            halve::<W>(&mut left, &mut right, 2000, &mut Search::new()).unwrap();
            // What lay alone in its bucket goes back to it.
            assert!(left == words, "{slots:?}");
        });
    }
    // No room: two full buckets of one index, and nowhere to move to.
    let full = |slot: u32| {
        vec![(0..2).fold(Bucket::<Two>::new(0), |all, lane| all.with(lane, Slot::new(slot))).0; 8192]
    };
    let (mut left, mut right) = (full(0x7000_0004), full(0x7000_0004));
    assert!(halve::<Two>(&mut left, &mut right, 2000, &mut Search::new()).is_err());
}
