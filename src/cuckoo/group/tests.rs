//! Invariants checked, for every width:
//!
//! 1. Each count has one group. It takes the number of lanes in the format, and reads back as that count.
//! 2. Taking a bucket apart and putting it together again keeps its groups, for any contents of its lanes.
//! 3. A removal takes a copy from the matching group with the longest tail, and from a saturated group last.

use super::*;
use crate::cuckoo::widths::{Five, Four, Seven, Six, Three, Two};

fn every_width(check: [fn(); 6]) {
    check.into_iter().for_each(|check| check());
}

/// An entry whose tail has lost `age` bits.
fn aged<W: Width>(age: u32) -> Slot<W> {
    let fresh = Slot::<W>::fresh(0xb5ad_4ece_da1c_e2a9, 0x9e37_79b9_7f4a_7c15);
    Slot::new((fresh.0 >> age | 1) << age & (u32::MAX >> (32 - W::BITS)))
}

/// One copy more than a group can count would saturate it.
#[test]
fn a_group_grows_until_one_more_copy_would_saturate_it() {
    fn check<W: Width>() {
        let group = |copies| Group { entry: aged::<W>(0), copies };
        for copies in [1, 2, W::MOST_COPIES - 2] {
            assert_eq!(group(copies).grown(), Some(group(copies + 1)));
        }
        assert_eq!(group(W::MOST_COPIES - 1).grown(), None);
        assert_eq!(group(W::MOST_COPIES).grown(), None);
    }
    every_width([check::<Two>, check::<Three>, check::<Four>, check::<Five>, check::<Six>, check::<Seven>]);
}

fn check_counts<W: Width>() {
    // The highest count of a group of each number of lanes: 1, 1 + D, 1 + D + D^2 and so on.
    let mut most = vec![1_u64];
    let mut weight = 1_u64;
    while most.len() < W::SLOTS as usize {
        weight *= u64::from(W::HIGHEST_DIGIT);
        most.push(most[most.len() - 1] + weight);
    }
    assert_eq!(most.last(), Some(&W::MOST_COPIES.into()));
    let around = most.iter().flat_map(|most| most.saturating_sub(3)..most + 3);
    let spread = (0..1000).map(|part| part * u64::from(W::MOST_COPIES) / 1000);
    for copies in (1..5000).chain(around).chain(spread) {
        let Ok(copies) = u32::try_from(copies) else { continue };
        let group = Group { entry: aged::<W>(0), copies: copies.max(1) };
        let lanes =
            most.iter().position(|most| u64::from(group.copies) <= *most).map(|place| place as u32 + 1);
        assert_eq!(group.lanes(), lanes, "{copies}");
        let packed = Groups::none().and(group).pack();
        assert_eq!(packed.is_some(), lanes.is_some());
        let Some(bucket) = packed else { continue };
        assert_eq!(Some(W::SLOTS - bucket.empty_lanes().count()), lanes);
        assert_eq!(Groups::of(bucket).iter().copied().collect::<Vec<_>>(), [group]);
        assert_eq!(bucket.is_saturated(), group.copies == W::MOST_COPIES, "{copies}");
        let copies = (group.copies < W::MOST_COPIES).then_some(group.copies);
        assert_eq!(bucket.copies(group.entry), copies);
    }
}

#[test]
fn each_count_has_one_form() {
    every_width([
        check_counts::<Two>,
        check_counts::<Three>,
        check_counts::<Four>,
        check_counts::<Five>,
        check_counts::<Six>,
        check_counts::<Seven>,
    ]);
}

fn check_any_bucket<W: Width>() {
    let mut random = 1_u64;
    for _ in 0..200_000 {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        // Lanes of all kinds, with many digits and empty ones.
        let bucket = (0..W::SLOTS).fold(Bucket::<W>::new(0), |bucket, lane| {
            let choice = random >> (8 * lane);
            let slot = match choice % 8 {
                0..3 => Slot::of_digit((choice / 8) as u32 % W::HIGHEST_DIGIT + 1),
                3 | 4 => Slot::new(0),
                5 => Slot::new((choice / 8) as u32 & (u32::MAX >> (32 - W::BITS))),
                _ => aged((choice / 8) as u32 % (W::TAIL_BITS + 1)),
            };
            bucket.with(lane, slot)
        });
        let groups = Groups::of(bucket);
        let packed = groups.pack().unwrap();
        assert_eq!(packed.empty_lanes().count(), bucket.empty_lanes().count(), "{bucket:x?}");
        let sorted = |groups: Groups<W>| {
            let mut all: Vec<_> = groups.iter().map(|group| (group.entry.0, group.copies)).collect();
            all.sort_unstable();
            all
        };
        assert_eq!(sorted(Groups::of(packed)), sorted(groups), "{bucket:x?}");
    }
}

#[test]
fn a_bucket_taken_apart_keeps_its_groups() {
    every_width([
        check_any_bucket::<Two>,
        check_any_bucket::<Three>,
        check_any_bucket::<Four>,
        check_any_bucket::<Five>,
        check_any_bucket::<Six>,
        check_any_bucket::<Seven>,
    ]);
}

#[test]
fn a_removal_takes_from_the_longest_and_from_a_saturated_group_last() {
    let query = aged::<Four>(0);
    let group = |age, copies| Group { entry: aged::<Four>(age), copies };
    let groups = Groups::none().and(group(1, 1)).and(group(0, 5)).and(group(2, 1));
    assert_eq!(groups.longest_match(query), Some((1, group(0, 5))));
    assert_eq!(groups.without(1).longest_match(query), Some((0, group(1, 1))));
    assert!(group(0, 30_783).order() < group(0, 30_784).order());
    assert!(group(0, 30_784).order() < group(1, 1).order());
}

#[test]
fn worked_values() {
    let lanes = [1, 2, 32, 33, 993, 994, 30_784, 30_785]
        .map(|copies| Group { entry: aged::<Four>(0), copies }.lanes());
    assert_eq!(lanes, [Some(1), Some(2), Some(2), Some(3), Some(3), Some(4), Some(4), None]);
    let most = [Two::MOST_COPIES, Three::MOST_COPIES, Four::MOST_COPIES, Five::MOST_COPIES];
    assert_eq!(most, [512, 261_633, 30_784, 954_305]);
    // 1 + 29 + 3 * 31 = 123.
    let bucket = Bucket::<Four>::new(0x0000_0c00_7400_74f9);
    assert_eq!(bucket.copies(Slot::new(0x74f9)), Some(123));
}
