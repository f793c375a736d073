//! Compares each part of sharing with a plain statement of its rule. As a whole, sharing loses no copy and counts none
//! twice, and every query finds as many copies as before.

use super::*;
use crate::cuckoo::displacement::effort;
use crate::cuckoo::displacement::tests::{FIRST, Random, TAGS, World, entry};
use crate::cuckoo::widths::{Five, Four, Seven, Width};

/// The tail of an entry as text; `None` for other slots.
fn tail<W: Width>(slot: Slot<W>) -> Option<String> {
    let below = format!("{:032b}", slot.0).split_off((32 + W::TAG_BITS - W::BITS) as usize);
    Some(below.rsplit_once('1')?.0.into())
}

fn common_plainly<W: Width>(a: Slot<W>, b: Slot<W>) -> Option<Slot<W>> {
    let (one, other) = (tail(a)?, tail(b)?);
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    if a.tag() != b.tag() || same == 0 {
        return None;
    }
    let below = W::BITS - W::TAG_BITS;
    let bits = format!("{:0<1$}", format!("{}1", &one[..same]), below as usize);
    Some(Slot::new(a.tag() << below | u32::from_str_radix(&bits, 2).unwrap()))
}

#[test]
fn a_shared_entry_has_the_common_beginning_of_both_tails() {
    fn check<W: Width>(tags: &[u32]) {
        let slots = (0..1_u32 << W::BITS).map(Slot::<W>::new).filter(|slot| tags.contains(&slot.tag()));
        let slots: Vec<_> = slots.collect();
        for a in &slots {
            for b in &slots {
                assert_eq!(a.common(*b), common_plainly(*a, *b), "{a:?} {b:?}");
            }
        }
    }
    check::<Seven>(&(0..64).collect::<Vec<_>>());
    check::<Five>(&[0, 3, 32, 35]);
    let common = |a, b| Slot::<Four>::new(a).common(Slot::new(b)).map(|slot| slot.0);
    assert_eq!(common(0x74f9, 0x74c1), Some(0x74e0));
    assert_eq!((common(0x74f9, 0x76f9), common(0x74f9, 0x7600), common(0x74f9, 0x7400)), (None, None, None));
}

#[test]
fn two_groups_become_one_if_it_takes_fewer_lanes_and_saturate_only_where_that_is_wanted() {
    let most = [1, 32, 993, Four::MOST_COPIES];
    let lanes = |copies| most.iter().position(|most| copies <= *most).unwrap() + 1;
    let groups = [0x74f9, 0x74c1, 0x76c1, 0x78f9].map(Slot::<Four>::new).into_iter().flat_map(|entry| {
        [1, 2, 3, 31, 32, 33, 961, 992, 993, 994, 29_791, 30_782, 30_783, 30_784]
            .map(|copies| Group { entry, copies })
    });
    for a in groups.clone() {
        for b in groups.clone() {
            let copies = a.copies + b.copies;
            let is_less = lanes(copies.min(Four::MOST_COPIES)) < lanes(a.copies) + lanes(b.copies);
            let counted = common_plainly(a.entry, b.entry)
                .filter(|_| copies < Four::MOST_COPIES && is_less)
                .map(|entry| Group { entry, copies });
            let saturated = (a.entry == b.entry && copies >= Four::MOST_COPIES)
                .then_some(Group { copies: Four::MOST_COPIES, ..a });
            assert_eq!(shared(a, b, Union::Counted), counted, "{a:?} {b:?}");
            assert_eq!(shared(a, b, Union::Saturated), saturated, "{a:?} {b:?}");
        }
    }
}

/// A crowded world, the buckets of a key there, and the key's group with one more copy and its place.
struct Case {
    world: World,
    both: Both<Four>,
    own: (Group<Four>, Option<Stored>),
}

impl Case {
    /// `None` if sharing would insert no key here.
    fn some(random: &mut Random) -> Option<Self> {
        let world = World::crowded(random);
        let id = BucketId(FIRST + random.below(8) as u16);
        let beginnings = random.one_of(&[1, 4]);
        let tail = (random.below(beginnings) << 7 | random.below(2)) as u32;
        let key = entry(random.one_of(&TAGS[..beginnings]), tail, 9);
        let both = [id, key.other(id)].map(|id| (id, world.at(id)));
        if both.iter().any(|(_, bucket)| bucket.has_universal()) {
            return None;
        }
        let matching = both.into_iter().flat_map(|(id, bucket)| {
            let matching: Vec<_> = Groups::of(bucket).matching(key).collect();
            matching.into_iter().map(move |(index, group)| (group, Some((id, index))))
        });
        let own = match matching.min_by_key(|(group, _)| group.order()) {
            Some((group, place)) => (group.grown()?, place),
            None => (Group { entry: key, copies: 1 }, None),
        };
        Some(Self { world, both, own })
    }

    /// All groups but the key's.
    fn others(&self) -> Vec<(Stored, Group<Four>)> {
        let of = |id| -> Vec<_> { Groups::of(self.world.at(id)).iter().copied().enumerate().collect() };
        let all =
            World::ids().flat_map(|id| of(id).into_iter().map(move |(index, group)| ((id, index), group)));
        let entries = all.filter(|(_, group)| group.entry.tail_length().is_some());
        entries.filter(|(at, _)| self.own.1 != Some(*at)).collect()
    }
}

type Described = (Vec<(u16, usize)>, u32, u32, bool);

fn described(stored: &[Stored], union: Group<Four>, with_own: bool) -> Described {
    let mut stored: Vec<_> = stored.iter().map(|(id, index)| (id.0, *index)).collect();
    stored.sort_unstable();
    (stored, union.entry.0, union.copies, with_own)
}

/// Every pair of groups that the rule allows, in any order.
fn candidates_plainly(case: &Case, wanted: Union) -> Vec<Described> {
    let others = case.others();
    let is_own = |id: BucketId| case.both.iter().any(|(own, _)| *own == id);
    let own_place: Vec<Stored> = case.own.1.into_iter().collect();
    let mut near: Vec<BucketId> = case.both.iter().map(|(id, _)| *id).collect();
    for ((id, _), group) in others.iter().copied().chain(case.own.1.map(|at| (at, case.own.0))) {
        if is_own(id) {
            near.push(group.entry.other(id));
        }
    }
    let mut all = Vec::new();
    for (number, (at, group)) in others.iter().enumerate() {
        if is_own(at.0)
            && let Some(union) = shared(case.own.0, *group, wanted)
        {
            all.push(described(&[&own_place[..], &[*at]].concat(), union, true));
        }
        for (other, mate) in &others[number + 1..] {
            let in_a_pair = other.0 == at.0 || other.0 == group.entry.other(at.0);
            if in_a_pair
                && (near.contains(&at.0) || near.contains(&other.0))
                && let Some(union) = shared(*group, *mate, wanted)
            {
                all.push(described(&[*at, *other], union, false));
            }
        }
    }
    all.sort_unstable();
    all
}

#[test]
fn candidates_are_all_pairs_of_groups_in_reach_and_the_longest_common_beginning_comes_first() {
    let (mut random, mut few, mut many, mut saturated) = (Random(4), 0, 0, 0);
    for number in 0..30_000 {
        let Some(mut case) = Case::some(&mut random) else { continue };
        let wanted = if number % 4 == 0 { Union::Saturated } else { Union::Counted };
        let expected = candidates_plainly(&case, wanted);
        let (both, own) = (case.both, case.own);
        let Ok(found) = candidates(&mut AnyBuckets(&mut case.world), both, own, wanted);
        assert!(found.is_sorted_by_key(|candidate| candidate.union.entry.0.trailing_zeros()));
        let mut found: Vec<_> = found
            .iter()
            .map(|candidate| described(&candidate.stored, candidate.union, candidate.with_own))
            .collect();
        found.sort_unstable();
        if expected.len() <= MOST_CANDIDATES {
            few += u32::from(!expected.is_empty());
            saturated += u32::from(!expected.is_empty() && wanted == Union::Saturated);
            assert_eq!(found, expected, "{own:x?} {:x?}", case.world.buckets);
            continue;
        }
        many += 1;
        found.dedup();
        assert_eq!(found.len(), MOST_CANDIDATES);
        assert!(found.iter().all(|found| expected.contains(found)));
        let ends = |all: &[Described]| -> Vec<u32> { all.iter().map(|one| one.1.trailing_zeros()).collect() };
        let left: Vec<_> = expected.into_iter().filter(|one| !found.contains(one)).collect();
        assert!(ends(&found).into_iter().max() <= ends(&left).into_iter().min());
    }
    assert!(few > 1000 && many > 5 && saturated > 20, "{few} {many} {saturated}");
}

#[test]
fn sharing_stores_one_copy_more_and_every_query_finds_at_least_as_many() {
    let (mut random, mut search) = (Random(5), Search::new());
    let (mut with_own, mut of_others, mut saturated, mut refused) = (0, 0, 0, 0);
    let tails = [0, 1, 0x80, 0x81, 0x100, 0x101, 0x180, 0x181];
    let queries = || TAGS.into_iter().flat_map(|tag| tails.map(|tail| entry(tag, tail, 9)));
    let found = |world: &World| -> Vec<Option<u32>> {
        let of = |query: Slot<Four>| {
            World::ids().map(move |id| world.at(id).copies_in_either(world.at(query.other(id)), query))
        };
        queries().flat_map(of).collect()
    };
    for number in 0..6000 {
        let Some(Case { mut world, both, own }) = Case::some(&mut random) else { continue };
        let before = world.clone();
        let wanted = if number % 3 == 0 { Union::Saturated } else { Union::Counted };
        let mut kicks = effort(random.one_of(&[0, 50, 2000]));
        let any = &mut AnyBuckets(&mut world);
        let Ok(shared) = share(any, both, own, wanted, &mut kicks, &mut search);
        assert_eq!(world.quarantined(), before.quarantined());
        let Some(shared) = shared else {
            refused += 1;
            assert_eq!(world.stored, 0);
            continue;
        };
        // The changes that it reports are all changes.
        let listed = |world: &World| -> Vec<_> {
            world.groups().into_iter().map(|(_, entry, copies)| (entry, copies)).collect()
        };
        let of = |buckets: &[Bucket<Four>]| -> Vec<_> {
            let groups = buckets.iter().map(|bucket| Groups::of(*bucket));
            groups
                .flat_map(|groups| groups.iter().map(|one| (one.entry.0, one.copies)).collect::<Vec<_>>())
                .collect()
        };
        let (gone, new) = (of(&shared.before), of(&shared.after));
        let mut expected = listed(&before);
        for group in &gone {
            let at = expected.iter().position(|other| other == group).expect("what is gone was there");
            expected.swap_remove(at);
        }
        expected.extend(&new);
        let mut now = listed(&world);
        now.sort_unstable();
        expected.sort_unstable();
        assert_eq!(now, expected, "{own:x?} {:x?}", before.buckets);
        // One copy is new.
        let copies = |groups: &[(u32, u32)]| groups.iter().map(|(_, copies)| copies).sum::<u32>();
        match wanted {
            Union::Counted => assert_eq!(copies(&new), copies(&gone) + 1),
            Union::Saturated => {
                saturated += 1;
                assert_eq!(new[0].1, Four::MOST_COPIES);
            }
        }
        if new.len() == 1 {
            with_own += 1
        } else {
            of_others += 1
        }
        // Every query, in each pair of buckets, and one copy more for the key.
        let is_own = |id: BucketId, query: Slot<Four>| {
            let covers = Bucket::<Four>::new(own.0.entry.0.into()).covers(query);
            covers && both.iter().any(|(own, _)| *own == id)
        };
        let more = queries().flat_map(|query| World::ids().map(move |id| u32::from(is_own(id, query))));
        for ((before, now), more) in found(&before).into_iter().zip(found(&world)).zip(more) {
            let enough = match before {
                Some(before) => now.is_none_or(|now| now >= before + more),
                None => now.is_none(),
            };
            assert!(enough, "{before:?} {now:?} {own:x?}");
        }
    }
    assert!(
        with_own > 100 && of_others > 100 && saturated > 10 && refused > 300,
        "{with_own} {of_others} {saturated} {refused}"
    );
}
