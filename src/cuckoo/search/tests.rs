//! Invariants checked, in eight buckets that lead only to one another:
//!
//! 1. A chain changes other groups only by moving them, and does not move the entries that must stay. A search that fails
//!    stores nothing.
//! 2. After each search, no bucket counts as visited.
//! 3. If loads wait for memory, the search prefetches the buckets that a root leads to before its first load. Otherwise
//!    it prefetches none.

use std::cell::RefCell;
use std::convert::Infallible;

use super::*;
use crate::cuckoo::Four;
use crate::cuckoo::bucket::AnyBuckets;
use crate::cuckoo::displacement::tests::{FIRST, Line, Random, World, entry};

#[test]
fn a_chain_frees_a_lane_and_keeps_all_groups() {
    let (mut random, mut search) = (Random(2), Search::new());
    let (mut freed, mut moved_groups, mut refused) = (0, 0, 0);
    for _ in 0..20_000 {
        let mut world = World::crowded(&mut random);
        let before = world.clone();
        let id = BucketId(FIRST + random.below(8) as u16);
        let other = World::some_entry(&mut random).other(id);
        let roots = [id, other].map(|id| (id, before.at(id)));
        let roots = if random.below(2) == 0 { &roots[..1] } else { &roots };
        let kept = roots.iter().map(|(id, bucket)| (*id, bucket.slot(random.below(4) as u32)));
        let kept: Vec<_> = kept.filter(|(_, slot)| slot.tail_length().is_some()).collect();
        let may = random.one_of(&[0, 3, 2000]);
        let mut kicks = may;
        let Ok(room) = search.free_lane(&mut world, roots, &kept, &mut kicks);
        assert!(kicks <= may && search.visited.iter().all(|word| *word == 0));
        let Some((at, bucket)) = room else {
            refused += 1;
            assert_eq!(world.stored, 0);
            continue;
        };
        freed += 1;
        let was = before.at(at);
        assert!(roots.iter().any(|(id, _)| *id == at));
        assert!(bucket.empty_lanes().count() > was.empty_lanes().count());
        moved_groups += u32::from(bucket.digit_lanes().count() < was.digit_lanes().count());
        world.store(at, bucket);
        assert_eq!(world.groups(), before.groups(), "{at:?} of {:x?}", before.buckets);
        for (id, entry) in kept {
            let here = |world: &World| -> Vec<_> {
                let all = Groups::of(world.at(id)).iter().copied().collect::<Vec<_>>();
                all.into_iter().filter(|group| group.entry == entry).collect()
            };
            let (mut now, mut then) = (here(&world), here(&before));
            now.sort_unstable_by_key(|group| group.copies);
            then.sort_unstable_by_key(|group| group.copies);
            assert_eq!(now, then);
        }
    }
    assert!(freed > 2000 && moved_groups > 200 && refused > 2000, "{freed} {moved_groups} {refused}");
}

/// The first bucket has a free lane already. If a chain from it moved an entry into it, that entry would be lost.
#[test]
fn no_chain_leads_back_to_where_it_starts() {
    let [first, second] = [FIRST, FIRST + 1].map(BucketId);
    let alone = |tail| Group { entry: entry(0, tail, 9), copies: 1 };
    let mut world = World::empty();
    world.put(first, &[alone(1), alone(2), alone(3)]);
    world.put(second, &[alone(4), alone(5), alone(6), alone(7)]);
    let roots = [(first, world.at(first))];
    let mut search = Search::new();
    assert_eq!(search.free_lane(&mut world, &roots, &[], &mut 2000), Ok(None));
    // A group that would have room there is not drawn in either.
    let two = |tail| Group { entry: entry(0, tail, 9), copies: 2 };
    world.put(first, &[alone(1), alone(2)]);
    world.put(second, &[two(4), alone(5), alone(6)]);
    let roots = [(first, world.at(first))];
    assert_eq!(search.free_lane(&mut world, &roots, &[], &mut 2000), Ok(None));
    assert_eq!(world.stored, 0);
}

#[test]
fn a_chain_ends_with_a_group_whose_other_bucket_has_room() {
    let [first, second, third] = [FIRST, FIRST + 1, FIRST + 3].map(BucketId);
    // Moves from the first to the second bucket, and from there to the third.
    let leaving = |tail| Group { entry: entry(0, tail, 9), copies: 1 };
    let group = Group { entry: entry(1, 9, 9), copies: 33 };
    let mut world = World::empty();
    world.put(first, &[1, 2, 3, 4].map(leaving));
    world.put(second, &[leaving(5), group]);
    let there = Group { entry: entry(5, 1, 9), copies: 1 };
    world.put(third, &[there]);
    let before = world.groups();
    let roots = [(first, world.at(first))];
    let mut search = Search::new();
    let Ok(Some((at, bucket))) = search.free_lane(&mut world, &roots, &[], &mut 2000) else { panic!() };
    assert_eq!((at, bucket.empty_lanes().count(), search.met_groups), (first, 1, true));
    world.store(at, bucket);
    assert_eq!(world.groups(), before);
    assert_eq!(Groups::of(world.at(third)).iter().copied().collect::<Vec<_>>(), [there, group]);
}

#[test]
fn a_chain_of_groups_places_a_group_and_keeps_all_others() {
    let (mut random, mut search) = (Random(3), Search::new());
    let (mut placed, mut in_chains, mut refused) = (0, 0, 0);
    for _ in 0..20_000 {
        let (mut world, group, ids) = World::with_a_group_to_put(&mut random);
        let before = world.clone();
        let may = random.one_of(&[0, 1, 3, 1000]);
        let mut kicks = may;
        let Ok(done) = search.place(&mut world, &ids, group, &mut kicks);
        assert!(kicks <= may && search.visited.iter().all(|word| *word == 0));
        assert!(!done || world.stored <= 2 + (may - kicks) as usize);
        world.check_put(&before, done.then_some((ids[0], group)));
        if !done {
            refused += 1;
            continue;
        }
        placed += 1;
        in_chains += u32::from(world.stored > 2);
    }
    assert!(placed > 2000 && in_chains > 100 && refused > 2000, "{placed} {in_chains} {refused}");
}

/// Displacements are tried only if the search met groups.
#[test]
fn a_search_tells_whether_it_met_groups_anywhere() {
    let [first, second] = [FIRST, FIRST + 1].map(BucketId);
    let of = |tails: &[u32], copies| -> Vec<_> {
        tails.iter().map(|tail| Group { entry: entry(0, *tail, 9), copies }).collect()
    };
    let mut search = Search::new();
    for (met, groups) in [(true, of(&[1, 2], 2)), (false, of(&[1, 2, 3, 4], 1))] {
        let mut world = World::empty();
        world.put(first, &groups);
        world.put(second, &of(&[5, 6, 7, 8], 1));
        let roots = [first, second].map(|id| (id, world.at(id)));
        assert_eq!(search.free_lane(&mut world, &roots, &[], &mut 2000), Ok(None));
        assert_eq!(search.met_groups, met);
    }
}

/// Its bits of the visited buckets lie in different words.
#[test]
fn a_chain_of_groups_through_distant_buckets_leaves_none_visited() {
    let group = |tag| Group { entry: entry(tag, 1, 9), copies: 994 };
    let full = |tag| Groups::none().and(group(tag)).pack().unwrap();
    let start = BucketId(FIRST);
    let (on, last) = (group(12), group(13));
    let next = on.entry.other(start);
    let end = last.entry.other(next);
    let words: Vec<_> = [start, next, end].map(|id| id.0 / 64).into();
    assert!(words[0] != words[1] && words[1] != words[2]);
    let mut line = Line(vec![(start, full(12)), (next, full(13))]);
    let mut search = Search::new();
    assert_eq!(search.place(&mut line, &[start], group(14), &mut 1000), Ok(true));
    assert!(search.visited.iter().all(|word| *word == 0));
    assert_eq!([start, next, end].map(|id| line.load(id)), [full(14), full(12), full(13)].map(Ok));
}

/// Buckets that record which buckets were prefetched, and which of them before the first load.
struct Noting {
    world: World,
    are_far: bool,
    asked: RefCell<Vec<BucketId>>,
    before_load: Option<usize>,
}

impl Buckets<Four> for Noting {
    type Error = Infallible;

    fn load(&mut self, id: BucketId) -> Result<Bucket<Four>, Infallible> {
        self.before_load.get_or_insert(self.asked.borrow().len());
        self.world.load(id)
    }

    fn are_far(&self) -> bool {
        self.are_far
    }

    fn prefetch(&self, id: BucketId) {
        self.asked.borrow_mut().push(id);
    }
}

impl BucketsMut<Four> for Noting {
    fn store(&mut self, id: BucketId, bucket: Bucket<Four>) {
        self.world.store(id, bucket);
    }
}

#[test]
fn buckets_that_are_far_are_asked_for_ahead() {
    let (mut random, mut search) = (Random(3), Search::new());
    let mut loaded = 0;
    for round in 0..1000 {
        let world = World::crowded(&mut random);
        let id = BucketId(FIRST + random.below(8) as u16);
        let roots = [id, World::some_entry(&mut random).other(id)].map(|id| (id, world.at(id)));
        let others = roots.iter().flat_map(|(id, bucket)| (0..4).map(|lane| bucket.slot(lane).other(*id)));
        let others: Vec<_> = others.collect();
        let are_far = round % 2 == 0;
        let mut noting = Noting { world, are_far, asked: RefCell::default(), before_load: None };
        // Behind dynamic dispatch, like in every caller.
        let Ok(_) = search.free_lane(&mut AnyBuckets(&mut noting), &roots, &[], &mut 2000);
        let expected = if are_far { others } else { Vec::new() };
        assert_eq!(*noting.asked.borrow(), expected);
        loaded += usize::from(noting.before_load.is_some());
        assert!(noting.before_load.is_none_or(|asked| asked == expected.len()));
    }
    assert!(loaded > 500, "{loaded}");
}
