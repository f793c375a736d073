use super::*;
use crate::cuckoo::{Four, Seven};

#[test]
fn worked_values() {
    let covers = |a: u64, b| Bucket::<Four>::new(a).covers(Slot::new(b));
    assert!(covers(0xabc8, 0xabc8) && covers(0xabc8, 0xabcc) && !covers(0xabcc, 0xabc8));
    assert!(!covers(0, 0xabc8) && !covers(0x7400, 0x7600));
}

/// For any two entries: every query that matches the second matches the first, if and only if the first covers it.
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
