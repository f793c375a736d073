//! Invariants checked, in eight buckets that lead only to one another, of a region that is otherwise empty:
//!
//! 1. A walk that succeeds adds the group: each entry has the copies that it had in its pair of buckets, and those of the
//!    group, over any number of groups. One that fails stores nothing. Quarantined buckets stay as they are.
//! 2. It finds room where no displacement does, with or without a division.
//! 3. It says by how much the counters of the region changed.
//! 4. It makes no more moves than it may, and no fewer than it could: with more of them it finds as much.
//! 5. A region with less than an eighth of its lanes free is not searched, nor are buckets of two or three slots.

use std::collections::BTreeMap;

use super::*;
use crate::cuckoo::bucket::Slot;
use crate::cuckoo::counts::{Counts, Delta};
use crate::cuckoo::displacement::displace_dividing;
use crate::cuckoo::displacement::tests::{FIRST, Random, World, entry};
use crate::cuckoo::region::Inserted;
use crate::cuckoo::region::tests::{Memory, Unreadable, held};
use crate::cuckoo::search::Search;
use crate::cuckoo::widths::{Four, Seven, Three, Two, Width};

const MOVES: u32 = 2000;

fn region(world: &World) -> Memory<Four> {
    let mut buckets = vec![Bucket::new(0); 8192];
    buckets[usize::from(FIRST)..][..8].copy_from_slice(&world.buckets);
    Memory::of(buckets)
}

fn put(
    memory: &mut Memory<Four>,
    id: BucketId,
    group: Group<Four>,
    moves: u32,
) -> Result<Option<Change>, Unreadable> {
    walk(&mut AnyBuckets(memory), &[], id, group, moves)
}

/// The copies of each entry, by the lower one of its buckets.
fn copies(memory: &Memory<Four>) -> BTreeMap<(u16, u32), u32> {
    let mut all = BTreeMap::new();
    for (id, bucket) in (0..).map(BucketId).zip(&memory.buckets) {
        for group in Groups::of(*bucket).iter().filter(|group| !group.entry.is_universal()) {
            *all.entry(home(id, group.entry)).or_default() += group.copies;
        }
    }
    all
}

fn quarantined(memory: &Memory<Four>) -> Vec<usize> {
    (0..8192).filter(|id| memory.buckets[*id] == Bucket::QUARANTINED).collect()
}

fn home(id: BucketId, entry: Slot<Four>) -> (u16, u32) {
    (id.0.min(entry.other(id).0), entry.0)
}

#[test]
fn a_walk_adds_a_group_and_keeps_the_copies_of_all_others() {
    let (mut random, mut search) = (Random(1), Search::new());
    let (mut found, mut refused, mut only, mut apart) = (0, 0, 0, 0);
    for _ in 0..3000 {
        let (mut world, group, ids) = World::with_a_group_to_put(&mut random);
        let before = region(&world);
        let mut after = before.clone();
        let Some(change) = put(&mut after, ids[0], group, MOVES).unwrap() else {
            refused += 1;
            assert!(after.buckets == before.buckets);
            continue;
        };
        found += 1;
        let mut expected = copies(&before);
        *expected.entry(home(ids[0], group.entry)).or_default() += group.copies;
        assert_eq!(copies(&after), expected);
        assert_eq!(quarantined(&after), quarantined(&before));
        let mut delta = Delta::default();
        delta.inserted(&Inserted::<Four>::Rearranged(change));
        assert_eq!(held(&before.buckets).with(&delta), Counts { inserted: 1, ..held(&after.buckets) });
        apart += u32::from(held(&after.buckets).entries() > held(&before.buckets).entries() + 1);
        let any = &mut AnyBuckets(&mut world);
        let Ok(done) = displace_dividing(any, &mut search, &[], &ids, group, &mut 16_000);
        only += u32::from(done.is_none());
    }
    assert!(found > 1500 && refused > 1000 && only > 300 && apart > 200, "{found} {refused} {only} {apart}");
}

/// What displacements find, a walk finds nearly always.
#[test]
fn a_walk_finds_what_displacements_find() {
    let (mut random, mut search) = (Random(2), Search::new());
    let (mut both, mut missed) = (0, 0);
    for _ in 0..1000 {
        let (mut world, group, ids) = World::with_a_group_to_put(&mut random);
        let mut memory = region(&world);
        let both_ids = [ids[0], group.entry.other(ids[0])];
        let any = &mut AnyBuckets(&mut world);
        let Ok(done) = displace_dividing(any, &mut search, &[], &both_ids, group, &mut 16_000);
        if done.is_some() {
            let found = put(&mut memory, ids[0], group, MOVES).unwrap().is_some();
            both += u32::from(found);
            missed += u32::from(!found);
        }
    }
    assert!(both > 400 && missed <= both / 100, "{both} {missed}");
}

#[test]
fn more_moves_find_as_much_and_none_are_made_beyond() {
    let mut random = Random(3);
    let (mut later, mut fewest_of_all) = (0, Vec::new());
    for _ in 0..300 {
        let (world, group, ids) = World::with_a_group_to_put(&mut random);
        let found = |moves: u32| {
            let mut memory = region(&world);
            let change = put(&mut memory, ids[0], group, moves).unwrap();
            assert_eq!(memory.loaded.len(), if moves == 0 { 0 } else { 8192 });
            change.map(|change| (change, memory.buckets))
        };
        let all = [0, 1, 2, 5, 20, 100, MOVES].map(found);
        let fewest = all.iter().position(Option::is_some);
        let Some(fewest) = fewest else { continue };
        assert!(all[fewest..].iter().all(|found| *found == all[fewest]));
        later += u32::from(fewest > 3);
        fewest_of_all.push(fewest);
    }
    // None without a move, some with one.
    assert!(!fewest_of_all.contains(&0) && fewest_of_all.contains(&1) && later > 20, "{later}");
}

#[test]
fn a_region_is_searched_while_an_eighth_of_it_is_free() {
    let group = Group { entry: entry(0, 1, 9), copies: 1 };
    // One lane more than the eighth is taken by `odd`.
    for (odd, is_found) in [(0, true), (1, false)] {
        let mut world = World::empty();
        world.put(BucketId(FIRST), &vec![Group { entry: entry(1, 1, 9), copies: 1 }; odd]);
        let mut memory = region(&world);
        for bucket in &mut memory.buckets[8192 / 8..] {
            *bucket = Bucket::QUARANTINED;
        }
        let before = memory.buckets.clone();
        assert_eq!(put(&mut memory, BucketId(FIRST), group, MOVES).unwrap().is_some(), is_found);
        assert_eq!(memory.buckets != before, is_found);
    }
}

/// Where an entry needs room in a full bucket, whose entries lead to free ones.
#[test]
fn buckets_of_fewer_than_four_slots_are_not_searched() {
    fn check<W: Width>() -> bool {
        struct Full<W>(Bucket<W>);
        impl<W: Width> Buckets<W> for Full<W> {
            type Error = ();

            fn load(&mut self, id: BucketId) -> Result<Bucket<W>, ()> {
                Ok(if id.0 < 2 { self.0 } else { Bucket::new(0) })
            }
        }
        impl<W: Width> BucketsMut<W> for Full<W> {
            fn store(&mut self, _: BucketId, _: Bucket<W>) {}
        }
        // Of all tags, the first leads from bucket 0 to bucket 1, and the others lead away.
        let of = |tag: u64| Slot::<W>::fresh(tag << (64 - W::TAG_BITS), 0);
        let full = (0..W::SLOTS).fold(Bucket::new(0), |bucket, lane| bucket.with(lane, of(1)));
        let group = Group { entry: of(0), copies: 1 };
        walk(&mut AnyBuckets(&mut Full(full)), &[], BucketId(0), group, MOVES).unwrap().is_some()
    }
    assert_eq!(
        [check::<Two>(), check::<Three>(), check::<Four>(), check::<Seven>()],
        [false, false, true, true]
    );
}

/// Of a thousand walks, those in which the first move puts the group into its first bucket. A group of four lanes has to
/// leave for it; that bucket's leads to one with so many `free` lanes, and the one in the second bucket likewise.
fn first_moves(free: [usize; 2]) -> usize {
    let single = Group { entry: entry(5, 1, 9), copies: 1 };
    let mut world = World::empty();
    for (id, free) in (FIRST..).zip(free) {
        let large = Group { entry: entry(1, 1, 9), copies: 5000 };
        world.put(BucketId(id), &[large]);
        world.put(large.entry.other(BucketId(id)), &vec![single; 4 - free]);
    }
    let goes_to_first = |random: &u64| {
        let mut walk = Walk {
            buckets: region(&world).buckets,
            beyond: Bucket::QUARANTINED,
            waiting: Vec::new(),
            random: *random,
        };
        let group = Group { entry: entry(0, 1, 9), copies: 1 };
        assert!(walk.put(BucketId(FIRST), group) && walk.waiting.len() == 1);
        walk.load(BucketId(FIRST)) == group.alone()
    };
    (0..1000).map(|number| number << 32).filter(goes_to_first).count()
}

#[test]
fn a_group_goes_where_least_is_lacking_every_other_time_and_anywhere_else() {
    let (mostly, rarely, equally) = (700..800, 200..300, 450..550);
    for (free, expected) in [
        ([3, 1], &mostly),
        ([1, 3], &rarely),
        // The second bucket is the one that the group comes from, which counts as a lane.
        ([2, 2], &mostly),
        ([2, 3], &equally),
    ] {
        let found = first_moves(free);
        assert!(expected.contains(&found), "{free:?}: {found}");
    }
}

#[test]
fn a_failed_load_surfaces_and_changes_nothing() {
    let mut memory = region(&World::empty());
    let group = Group { entry: entry(0, 1, 9), copies: 1 };
    for may_load in [0, 1, 8191] {
        memory.loads_left = may_load;
        assert_eq!(put(&mut memory, BucketId(FIRST), group, MOVES), Err(Unreadable));
        assert!(memory.buckets.iter().all(|bucket| bucket.0 == 0));
    }
    memory.loads_left = 8192;
    assert!(put(&mut memory, BucketId(FIRST), group, MOVES).unwrap().is_some());
}

#[test]
fn buckets_that_are_given_are_stored_only_with_the_group() {
    let id = BucketId(FIRST);
    let alone = |copies| Group { entry: entry(0, 1, 9), copies };
    for (quarantined, is_found) in [(false, true), (true, false)] {
        let mut memory = region(&World::empty());
        if quarantined {
            memory.buckets[usize::from(FIRST)..][..2].fill(Bucket::QUARANTINED);
        }
        let before = memory.buckets.clone();
        let with = [(BucketId(FIRST + 7), alone(5).alone())];
        let found = walk(&mut AnyBuckets(&mut memory), &with, id, alone(1), MOVES).unwrap();
        assert_eq!((found.is_some(), memory.buckets != before), (is_found, is_found));
        assert_eq!(memory.buckets[usize::from(FIRST) + 7] == alone(5).alone(), is_found);
    }
}

#[test]
fn walks_of_other_groups_and_from_other_buckets_go_other_ways() {
    let of = |id, tail| seed(BucketId(id), Group { entry: entry(0, tail, 9), copies: 1 });
    assert_ne!(of(FIRST, 1), of(FIRST, 2));
    assert_ne!(of(FIRST, 1), of(FIRST + 1, 1));
}

/// Parts of one group become one again where they meet, unless they are more than a group counts.
#[test]
fn parts_that_meet_are_united() {
    let of = |tail, copies| Group { entry: entry(0, tail, 9), copies };
    let most = Four::MOST_COPIES;
    let here = Groups::none().and(of(1, 7)).and(of(2, 3));
    let all = |groups: Groups<Four>| groups.iter().map(|group| group.copies).collect::<Vec<_>>();
    for (copies, rest, together) in [
        (2, vec![3], 9),
        (most - 8, vec![3], most - 1),
        (most - 7, vec![7, 3], most - 7),
        (most, vec![7, 3], most),
    ] {
        let (others, group) = with_equal(here, of(1, copies));
        assert_eq!((all(others), group), (rest, of(1, together)));
    }
    let (others, group) = with_equal(here, of(3, 1));
    assert_eq!((all(others), group), (vec![7, 3], of(3, 1)));
}
