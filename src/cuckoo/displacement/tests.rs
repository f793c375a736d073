//! Invariants checked, in eight buckets that lead only to one another:
//!
//! 1. A displacement that succeeds adds the group, and changes the other groups only by moving them. One that fails
//!    stores nothing. Quarantined buckets do not change.
//! 2. It examines no more entries than it may, and goes no deeper than it may.
//! 3. The groups chosen to leave are the smallest sets that suffice, the fewest lanes first.

use std::convert::Infallible;

use super::*;
use crate::cuckoo::bucket::Slot;
use crate::cuckoo::widths::{Four, Width};

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % limit
    }

    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// An entry of this tag, with the tail of these bits, the highest first, and this length.
pub(crate) fn entry(tag: u32, tail: u32, length: u32) -> Slot<Four> {
    Slot::new(tag << 10 | (tail << 1 | 1) << (Four::TAIL_BITS - length))
}

/// Eight buckets, from the first one on.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) buckets: [Bucket<Four>; 8],
    pub(crate) stored: usize,
}

/// The first of the eight buckets. Its bit among the visited buckets is not the lowest of its word.
pub(crate) const FIRST: u16 = 200;
/// Tags whose offsets, 1, 2, 4 and 6, lead from each of these buckets to another.
pub(crate) const TAGS: [u32; 4] = [0, 1, 3, 5];
/// Numbers of copies near the counts at which a group needs another lane.
pub(crate) const COPIES: [u32; 10] = [1, 1, 1, 2, 3, 32, 33, 993, 994, Four::MOST_COPIES - 1];

impl Buckets<Four> for World {
    type Error = Infallible;

    fn load(&mut self, id: BucketId) -> Result<Bucket<Four>, Infallible> {
        Ok(self.at(id))
    }
}

impl BucketsMut<Four> for World {
    fn store(&mut self, id: BucketId, bucket: Bucket<Four>) {
        self.stored += 1;
        self.buckets[usize::from(id.0 - FIRST)] = bucket;
    }
}

impl World {
    pub(crate) fn empty() -> Self {
        Self { buckets: [Bucket::new(0); 8], stored: 0 }
    }

    /// Each bucket has groups of few tags and beginnings of tails, and few free lanes. Some buckets are quarantined.
    pub(crate) fn crowded(random: &mut Random) -> Self {
        let mut world = Self::empty();
        // In some of these worlds, nearly all groups are alike; in others, most groups fill a bucket.
        let (tags, beginnings, copies, most): (&[u32], usize, &[u32], usize) = match random.below(6) {
            0 | 1 => (&TAGS[..2], 1, &[1, 1, 2], 16),
            2 => (&TAGS[..1], 1, &[1, Four::MOST_COPIES - 1], 8),
            _ => (&TAGS, 4, &COPIES, 8),
        };
        for bucket in &mut world.buckets {
            if random.below(12) == 0 {
                *bucket = Bucket::QUARANTINED;
                continue;
            }
            for _ in 0..1 + random.below(most) {
                let entry = some_entry(random, tags, beginnings);
                let group = Group { entry, copies: random.one_of(copies) };
                *bucket = Groups::of(*bucket).and(group).pack().unwrap_or(*bucket);
            }
        }
        world
    }

    pub(crate) fn some_entry(random: &mut Random) -> Slot<Four> {
        some_entry(random, &TAGS, 4)
    }

    pub(crate) fn ids() -> impl Iterator<Item = BucketId> {
        (FIRST..FIRST + 8).map(BucketId)
    }

    pub(crate) fn at(&self, id: BucketId) -> Bucket<Four> {
        self.buckets[usize::from(id.0 - FIRST)]
    }

    pub(crate) fn put(&mut self, id: BucketId, groups: &[Group<Four>]) {
        let all = groups.iter().fold(Groups::none(), |all, group| all.and(*group));
        self.buckets[usize::from(id.0 - FIRST)] = all.pack().unwrap();
    }

    /// All groups: for each, the lower one of its two buckets, its entry and its copies.
    pub(crate) fn groups(&self) -> Vec<(u16, u32, u32)> {
        let of = |id: BucketId| Groups::of(self.at(id)).iter().map(move |group| home(id, *group)).collect();
        let mut all: Vec<_> = Self::ids().flat_map(|id| -> Vec<_> { of(id) }).collect();
        all.sort_unstable();
        all
    }

    /// A crowded world, and a group with at least one of its buckets there.
    pub(crate) fn with_a_group_to_put(random: &mut Random) -> (Self, Group<Four>, Vec<BucketId>) {
        let world = Self::crowded(random);
        let group = Group { entry: Self::some_entry(random), copies: random.one_of(&COPIES) };
        let id = BucketId(FIRST + random.below(8) as u16);
        let mut ids = vec![id, group.entry.other(id)];
        if random.below(3) == 0 {
            ids.truncate(1);
        }
        (world, group, ids)
    }

    /// Fails unless the only change since `before` is the group `put`, if any, in one of its buckets.
    pub(crate) fn check_put(&self, before: &Self, put: Option<(BucketId, Group<Four>)>) {
        assert_eq!(self.quarantined(), before.quarantined());
        assert!(put.is_some() || self.stored == 0);
        let mut expected = before.groups();
        expected.extend(put.map(|(id, group)| home(id, group)));
        expected.sort_unstable();
        assert_eq!(self.groups(), expected, "{put:?} in {:x?}", before.buckets);
    }

    pub(crate) fn quarantined(&self) -> Vec<BucketId> {
        Self::ids().filter(|id| self.at(*id) == Bucket::QUARANTINED).collect()
    }
}

/// An entry with one of few tails, so that many begin alike.
fn some_entry(random: &mut Random, tags: &[u32], beginnings: usize) -> Slot<Four> {
    let length = 1 + random.below(9) as u32;
    let tail = (random.below(beginnings) << 7 | random.below(2)) as u32;
    entry(random.one_of(tags), tail >> (9 - length), length)
}

fn home(id: BucketId, group: Group<Four>) -> (u16, u32, u32) {
    // A universal slot has no other bucket.
    let other = if group.entry.is_universal() { id } else { group.entry.other(id) };
    (id.0.min(other.0), group.entry.0, group.copies)
}

/// Some buckets of a region; all others are empty.
pub(crate) struct Line(pub(crate) Vec<(BucketId, Bucket<Four>)>);

impl Buckets<Four> for Line {
    type Error = Infallible;

    fn load(&mut self, id: BucketId) -> Result<Bucket<Four>, Infallible> {
        let found = self.0.iter().find(|(at, _)| *at == id);
        Ok(found.map_or(Bucket::new(0), |(_, bucket)| *bucket))
    }
}

impl BucketsMut<Four> for Line {
    fn store(&mut self, id: BucketId, bucket: Bucket<Four>) {
        self.0.retain(|(at, _)| *at != id);
        self.0.push((id, bucket));
    }
}

#[test]
fn a_displacement_adds_a_group_and_keeps_all_others() {
    let (mut random, mut search) = (Random(1), Search::new());
    let (mut put, mut by_others, mut refused) = (0, 0, 0);
    for _ in 0..6000 {
        let (mut world, group, ids) = World::with_a_group_to_put(&mut random);
        let before = world.clone();
        // Chains of groups take all of the first thousand.
        let may = random.one_of(&[0, 5, 100, 16_000]);
        let mut kicks = may;
        let any = &mut AnyBuckets(&mut world);
        let Ok(done) = displace(any, &mut search, &[], &ids, group, &mut kicks);
        assert!(kicks <= may, "{kicks} of {may} are left");
        world.check_put(&before, done.then_some((ids[0], group)));
        if !done {
            refused += 1;
            continue;
        }
        put += 1;
        by_others += u32::from(world.stored > 1);
    }
    assert!(put > 1000 && by_others > 300 && refused > 1000, "{put} {by_others} {refused}");
}

#[test]
fn the_ways_to_make_room_come_in_order_and_leave_what_was_put() {
    type Ways = Vec<Vec<Group<Four>>>;
    let of = |tail, copies| Group { entry: entry(0, tail, 9), copies };
    let ways = |here: &[Group<Four>], put: &[Group<Four>], copies| -> Ways {
        let (mut world, mut search, mut kicks) = (World::empty(), Search::new(), 0);
        let staged = Staged { buckets: &mut world, stored: Vec::new() };
        let id = BucketId(FIRST);
        let put = put.iter().map(|group| (id, group.entry)).collect();
        let displacement = Displacement { put, ..Displacement::new(&mut search, staged, &mut kicks) };
        let here = here.iter().fold(Groups::none(), |all, group| all.and(*group));
        let ways = displacement.ways_for(id, &here, Group { entry: entry(1, 1, 9), copies });
        ways.iter().map(|way| way.leave.iter().copied().collect()).collect()
    };
    // These need two slots.
    let (a, b, c) = (of(1, 1), of(2, 2), of(3, 1));
    assert_eq!(ways(&[a, b, c], &[], 2), [vec![b], vec![a, c]]);
    // A group that was already put may not leave.
    assert_eq!(ways(&[a, b, c], &[b], 2), [vec![a, c]]);
    // One slot is needed. The fewest slots leave first.
    let two = of(1, 5);
    assert_eq!(ways(&[two, b], &[], 1), [vec![two], vec![b]]);
}

/// Every group in the way fills a bucket, or is one of two in its bucket. No chain of groups passes a bucket with two
/// groups.
#[test]
fn groups_displace_one_another_twelve_deep_and_no_deeper() {
    let displaced = |depth: u32| {
        let mut line = Line(Vec::new());
        let used = |line: &Line, id: BucketId| line.0.iter().any(|(at, _)| *at == id);
        let start = BucketId(4096);
        let mut id = start;
        for number in 0..depth {
            // Tags that lead to buckets that the line does not use yet.
            let mut ways = (0..64).map(|tag| entry(tag, 3, 9)).filter(|way| !used(&line, way.other(id)));
            let on = ways.next().unwrap();
            let aside = ways.find(|way| way.other(id) != on.other(id)).unwrap();
            let aside_id = aside.other(id);
            let groups = if number % 2 == 0 {
                // A group of four lanes displaces both: `aside` goes to an empty bucket, and `on` to the next bucket of
                // the line.
                Groups::none().and(Group { entry: aside, copies: 2 }).and(Group { entry: on, copies: 2 })
            } else {
                Groups::none().and(Group { entry: on, copies: 994 })
            };
            line.store(id, groups.pack().unwrap());
            if number % 2 == 0 {
                line.store(aside_id, Bucket::new(0));
            }
            id = on.other(id);
        }
        line.store(id, Bucket::new(0));
        let group = Group { entry: entry(63, 5, 9), copies: 994 };
        let mut kicks = 16_000;
        let any = &mut AnyBuckets(&mut line);
        displace(any, &mut Search::new(), &[], &[start], group, &mut kicks).unwrap()
    };
    let deepest = (1..40).take_while(|depth| displaced(*depth)).last();
    // The last one moves by a chain.
    assert_eq!(deepest, Some(DEPTH + 1));
}

#[test]
fn the_groups_that_leave_are_the_smallest_sets_that_suffice() {
    for number in 1..=4 {
        for all in 0..3_u32.pow(number) {
            let lanes: Vec<u32> = (0..number).map(|index| 1 + all / 3_u32.pow(index) % 3).collect();
            let of = |set: u32| -> u32 {
                (0..number).filter(|index| set & 1 << index != 0).map(|index| lanes[index as usize]).sum()
            };
            for staying in 0..1 << number {
                for needed in 1..=7 {
                    let is_enough = |set: u32| of(set) >= needed;
                    let is_part = |part: u32, set: u32| part != set && part & set == part;
                    let mut smallest: Vec<u32> = (0..1 << number)
                        .filter(|set| set & staying == 0 && is_enough(*set))
                        .filter(|set| !(0..1 << number).any(|part| is_part(part, *set) && is_enough(part)))
                        .collect();
                    let mut found = ways(&lanes, staying, needed);
                    assert!(found.is_sorted_by_key(|set| of(*set)), "{lanes:?} {staying} {needed}");
                    found.sort_unstable();
                    smallest.sort_unstable();
                    assert_eq!(found, smallest, "{lanes:?} {staying} {needed}");
                }
            }
        }
    }
}

#[test]
fn what_was_tried_in_vain_is_forgotten() {
    let [bucket, aside] = [FIRST, FIRST + 4].map(BucketId);
    // Entries that lead to one of two full buckets, which lead only to each other; and entries that lead to an empty
    // bucket.
    let stuck = |tail, copies| Group { entry: entry(0, tail, 9), copies };
    let moving = |tail, copies| Group { entry: entry(3, tail, 9), copies };
    let world = |here: &[Group<Four>]| {
        let mut world = World::empty();
        world.put(bucket, here);
        for closed in [FIRST + 1, FIRST + 3] {
            world.put(
                BucketId(closed),
                &[5, 6, 7, 8].map(|tail| Group { entry: entry(1, tail, 9), copies: 1 }),
            );
        }
        world
    };
    let coming = |copies| Group { entry: entry(1, 1, 9), copies };
    let (mut search, mut kicks) = (Search::new(), 16_000);
    let mut try_in = |world: &mut World, put: &[Kept<Four>], group, by_chains: bool| {
        let staged = Staged { buckets: world, stored: Vec::new() };
        let mut displacement =
            Displacement { put: put.to_vec(), ..Displacement::new(&mut search, staged, &mut kicks) };
        let Ok(done) = match by_chains {
            true => displacement.put_by_chains(bucket, group),
            false => displacement.put_for_others(bucket, group, 1),
        };
        let put = displacement.put.clone();
        displacement.staged.commit();
        (done, put)
    };
    // Two groups of one lane could leave, but one of them finds no place. The group of two lanes does.
    let here = [moving(1, 1), stuck(2, 1), moving(3, 2)];
    let mut first = world(&here);
    assert_eq!(try_in(&mut first, &[], coming(2), false), (true, vec![(aside, here[2].entry)]));
    assert_eq!(
        Groups::of(first.at(bucket)).iter().copied().collect::<Vec<_>>(),
        [here[0], here[1], coming(2)]
    );
    assert_eq!(Groups::of(first.at(aside)).iter().copied().collect::<Vec<_>>(), [here[2]]);
    let here = [stuck(1, 1), moving(2, 2), stuck(3, 1)];
    assert_eq!(try_in(&mut world(&here), &[], coming(2), false), (true, vec![(aside, here[1].entry)]));
    // A chain does not move a group that was already placed.
    let here = [1, 2, 3].map(|tail| stuck(tail, 1));
    let mut last = world(&[&here[..], &[moving(4, 1)]].concat());
    let put = [(bucket, moving(4, 1).entry)];
    assert_eq!(try_in(&mut last, &put, coming(1), true), (false, put.to_vec()));
    assert!(try_in(&mut last, &[], coming(1), true).0);
    // Only one of the two lanes that are needed can be freed.
    let mut world = world(&[&here[..], &[moving(4, 1)]].concat());
    let staged = Staged { buckets: &mut world, stored: Vec::new() };
    let mut displacement = Displacement::new(&mut search, staged, &mut kicks);
    assert_eq!(displacement.put(bucket, coming(2), 0), Ok(false));
    assert!(displacement.cut && displacement.staged.stored.is_empty() && displacement.put.is_empty());
}
