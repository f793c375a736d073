use super::*;
use crate::cuckoo::bucket::BUCKETS_PER_REGION;
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

/// A counting region of which the tests use only the pair of buckets of one tag, and the answers there.
struct Pair {
    words: Vec<u64>,
    both: [BucketId; 2],
}

/// The tag of all entries below.
const TAG: u32 = 5;

/// An entry of the tag with a tail of these bits, the highest first, of the length.
fn entry(tail: u32, length: u32) -> Slot<Four> {
    Slot::new(TAG << 10 | ((tail << 1 | 1) << (Four::TAIL_BITS - length)))
}

impl Pair {
    /// Puts groups into the first bucket, and those without room there into the second; `None` if they do not fit there
    /// either.
    fn of(groups: &[Group<Four>]) -> Option<Self> {
        let first = BucketId(17);
        let mut pair =
            Self { words: vec![0; BUCKETS_PER_REGION as usize], both: [first, entry(0, 9).other(first)] };
        for group in groups {
            let fits = |id: &BucketId| Some((*id, pair.groups(*id).and(*group).pack()?));
            let (id, bucket) = pair.both.iter().find_map(fits)?;
            pair.words[usize::from(id.0)] = bucket.0;
        }
        Some(pair)
    }

    fn groups(&self, id: BucketId) -> Groups<Four> {
        Groups::of(Bucket::new(self.words[usize::from(id.0)]))
    }

    fn copies(&self, query: Slot<Four>) -> Option<u32> {
        let [first, second] = self.both.map(|id| Bucket::<Four>::new(self.words[usize::from(id.0)]));
        first.copies_in_either(second, query)
    }

    /// The number of copies; `None` if a group is saturated, and may stand for more.
    fn all_copies(&self) -> Option<u32> {
        let groups = self.both.map(|id| self.groups(id));
        let mut groups = groups.iter().flat_map(|groups| groups.iter());
        groups.try_fold(0, |sum, group| (group.copies < Four::MOST_COPIES).then_some(sum + group.copies))
    }

    /// Adds the groups of the other pair, and returns how many copies it added.
    fn add(&mut self, other: &Self) -> Result<u64, NoRoom> {
        self.add_within(other, 2000)
    }

    fn add_within(&mut self, other: &Self, max_kicks: u32) -> Result<u64, NoRoom> {
        let (mut search, mut stored) = (Search::new(), 0);
        let taking = Taking { kind: Kind::Counting, now: 0, max_kicks };
        take_region::<Four>(&other.words, &mut self.words, taking, &mut search, &mut stored)?;
        Ok(stored)
    }
}

fn group(entry: Slot<Four>, copies: u32) -> Group<Four> {
    Group { entry, copies }
}

/// Whatever two regions hold of one pair of buckets, each query finds in the sum at least the copies of both.
#[test]
fn no_copy_is_lost_in_a_sum_of_two_crowded_pairs_of_buckets() {
    let (mut random, mut sums, mut refused) = (1_u64, 0, 0);
    let mut below = |limit: u32| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (random >> 33) as u32 % limit
    };
    let of_copies = [1, 1, 1, 2, 3, 32, 33, 993, 994, Four::MOST_COPIES - 1, Four::MOST_COPIES];
    let mut some = || {
        let number = below(8);
        let groups: Vec<_> = (0..number)
            .map(|_| {
                let length = 1 + below(9);
                // Few beginnings of tails, so that many entries cover one another.
                let tail = (below(4) << 7 | below(2)) >> (9 - length);
                group(entry(tail, length), of_copies[below(of_copies.len() as u32) as usize])
            })
            .collect();
        Pair::of(&groups)
    };
    for _ in 0..4000 {
        let (Some(from), Some(mut into)) = (some(), some()) else { continue };
        let queries: Vec<_> = (0..1 << 9).map(|tail| entry(tail, 9)).collect();
        let before: Vec<_> = queries.iter().map(|query| (from.copies(*query), into.copies(*query))).collect();
        let (added, held) = (from.all_copies(), into.all_copies());
        let Ok(stored) = into.add(&from) else {
            refused += 1;
            continue;
        };
        sums += 1;
        // A group that becomes saturated also answers for further copies, which are then not stored.
        if let (Some(added), Some(held), Some(now)) = (added, held, into.all_copies()) {
            assert_eq!((now, stored), (held + added, u64::from(added)));
        }
        for (query, before) in queries.iter().zip(before) {
            let now = into.copies(*query);
            let enough = match before {
                (Some(from), Some(into)) => now.is_none_or(|now| now >= from + into),
                _ => now.is_none(),
            };
            assert!(enough, "{query:?}: {before:?}, now {now:?}");
        }
    }
    assert!(sums > 500 && refused > 50, "{sums} sums, {refused} refused");
}

#[test]
fn copies_of_one_key_are_counted_by_one_group_as_long_as_it_can() {
    let key = entry(0, 9);
    let sum = |one, other| {
        let mut into = Pair::of(&[group(key, one)]).unwrap();
        assert_eq!(into.add(&Pair::of(&[group(key, other)]).unwrap()).unwrap(), u64::from(other));
        assert_eq!(into.copies(key), Some(one + other));
        into.both.map(|id| into.groups(id).iter().len())
    };
    assert_eq!(sum(2, 1), [1, 0]);
    assert_eq!(sum(Four::MOST_COPIES - 3, 2), [1, 0]);
    // One group of all copies would be saturated.
    assert_eq!(sum(Four::MOST_COPIES - 2, 2), [1, 1]);
    // One group would take as many lanes as two: they stay apart.
    assert_eq!(sum(1, 1), [2, 0]);
}

#[test]
fn a_sum_finds_room_by_sharing_and_by_saturating() {
    // The keys need nine or ten lanes, and there are eight: two keys must share an entry.
    let keys = [0, 1, 2, 3].map(|tail| group(entry(tail, 9), 2));
    for copies in [1, 2] {
        let mut into = Pair::of(&keys).unwrap();
        let last = group(entry(4, 9), copies);
        assert_eq!(into.add(&Pair::of(&[last]).unwrap()).unwrap(), u64::from(copies));
        assert!(into.copies(last.entry).is_some_and(|now| now >= copies));
        assert!(keys.iter().all(|key| into.copies(key.entry).is_some_and(|now| now >= 2)));
    }
    // Seven entries leave one lane free, and two are needed. The search meets no group.
    let alone = [0, 1, 2, 3, 4, 5, 6].map(|tail| group(entry(tail, 9), 1));
    for max_kicks in [0, 2000] {
        let mut into = Pair::of(&alone).unwrap();
        let last = group(entry(7, 9), 2);
        assert_eq!(into.add_within(&Pair::of(&[last]).unwrap(), max_kicks).unwrap(), 2);
        assert!(into.copies(last.entry).is_some_and(|now| now >= 2));
    }
    // One key with as many copies as both buckets can count, and one more. One of the tails may be shorter.
    for [here, there] in [[9, 9], [8, 9], [9, 8]] {
        let all = group(entry(0, here), Four::MOST_COPIES - 1);
        let mut into = Pair::of(&[all, all]).unwrap();
        assert_eq!(into.add(&Pair::of(&[group(entry(0, there), 1)]).unwrap()).unwrap(), 1);
        assert_eq!(into.copies(entry(0, 9)), None);
    }
    // A saturated group stands for further copies: nothing changes. It also stands for the copies of a longer entry.
    for copies in [1, 5, Four::MOST_COPIES] {
        let mut into = Pair::of(&[group(entry(1, 1), Four::MOST_COPIES)]).unwrap();
        let before = into.words.clone();
        assert_eq!(into.add(&Pair::of(&[group(entry(0x100, 9), copies)]).unwrap()).unwrap(), 0);
        assert!(into.words == before);
    }
}

/// Both buckets are full of groups. One of these could move to a bucket whose only entry can leave.
#[test]
fn a_sum_moves_groups_to_make_room_for_an_entry() {
    let one = group(entry(0, 9), 1);
    let filling = group(entry(0x100, 9), 994);
    let mut into = Pair::of(&[filling, filling]).unwrap();
    let [first, _] = into.both;
    // The tag leads to another bucket.
    let moving = Group { entry: Slot::<Four>::new(entry(3, 9).0 ^ 4 << 10), copies: 994 };
    let there = moving.entry.other(first);
    let leaving = Group { entry: Slot::<Four>::new(entry(3, 9).0 ^ 8 << 10), copies: 1 };
    assert!(!into.both.contains(&there) && leaving.entry.other(there) != first);
    let alone = |group| Groups::none().and(group).pack().unwrap().0;
    into.words[usize::from(first.0)] = alone(moving);
    into.words[usize::from(there.0)] = alone(leaving);
    assert_eq!(into.add(&Pair::of(&[one]).unwrap()).unwrap(), 1);
    assert_eq!(into.copies(one.entry), Some(1));
    assert_eq!(into.words[usize::from(there.0)], alone(moving));
}

/// A sum without room fails, and does not count the copies that it could not store.
#[test]
fn a_sum_without_room_is_refused() {
    // Entries without copies, in a region full of such entries: no two share an entry.
    let mut into = Pair::of(&[]).unwrap();
    let full = (0..4).fold(Bucket::<Four>::new(0), |bucket, lane| bucket.with(lane, entry(lane, 9)));
    into.words.fill(full.0);
    let one = Pair::of(&[group(entry(0x1f0, 9), 1)]).unwrap();
    assert!(into.add(&one).is_err());
    // Groups that fill both buckets, and match no other.
    let filling = [0, 0x100].map(|tail| group(entry(tail, 9), Four::MOST_COPIES - 1));
    let mut into = Pair::of(&filling).unwrap();
    assert!(into.add(&Pair::of(&[group(entry(0xff, 9), Four::MOST_COPIES - 1)]).unwrap()).is_err());
}

/// No writer stores a digit in a set, but a damaged file may have one.
#[test]
fn a_set_takes_entries_alone() {
    let from = Pair::of(&[group(entry(3, 9), 5)]).unwrap();
    let mut into = Pair::of(&[]).unwrap();
    let taking = Taking { kind: Kind::Set, now: 0, max_kicks: 2000 };
    let mut stored = 0;
    take_region::<Four>(&from.words, &mut into.words, taking, &mut Search::new(), &mut stored).unwrap();
    assert_eq!(stored, 1);
    assert_eq!(into.groups(into.both[0]).iter().copied().collect::<Vec<_>>(), [group(entry(3, 9), 1)]);
}

/// Queries for universal slots are answered "present" already. A malformed bucket may answer anything, so it becomes
/// quarantined.
#[test]
fn a_pair_with_a_quarantined_bucket_takes_nothing_and_its_bucket_is_quarantined_in_the_sum() {
    let quarantined = Bucket::<Four>::QUARANTINED.0;
    let malformed = Bucket::<Four>::new(0).with(0, Slot::of_digit(3)).with(1, entry(5, 9)).0;
    let held = Pair::of(&[group(entry(1, 9), 2)]).unwrap();
    let [first, second] = held.both.map(|id| usize::from(id.0));
    for (in_from, in_into) in [(quarantined, 0), (malformed, 0), (0, quarantined)] {
        let (mut from, mut into) = (Pair::of(&[group(entry(1, 9), 2)]).unwrap(), Pair::of(&[]).unwrap());
        (from.words[second], into.words[second]) = (in_from, in_into);
        assert_eq!(into.add(&from).unwrap(), 0);
        assert_eq!((into.words[first], into.words[second]), (0, quarantined));
    }
}
