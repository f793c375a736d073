//! Invariants checked:
//!
//! 1. In every width of forgetting filters, operations on all lanes at once do what the rules say of each slot.
//! 2. A key that was stored is present until its expiry, whatever is inserted after it. Refreshing never shortens that
//!    time and never lengthens a tail. Expired entries give up their lanes. The counters are those of a scan.

use std::collections::BTreeMap;
use std::convert::Infallible;

use super::*;
use crate::cuckoo::counts::Counts;
use crate::cuckoo::widths::{Four2, Four3, Three4, Two4, Unmarked};
use crate::cuckoo::{KeyHash, Kind, region, with_any_width};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 ^ self.0 >> 29).wrapping_mul(0x9FB2_1C65_1E98_DF25) >> 7
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// A slot at random: empty, or an entry with any tail and expiry; often like `query`.
fn slot<W: Width>(random: &mut Random, query: Slot<W>) -> Slot<W> {
    let expiry = random.next() as u32;
    match random.below(10) {
        0 => Slot::new(0),
        1 => Slot::UNIVERSAL,
        kind => {
            let bits = if kind < 8 { query.0 } else { random.next() as u32 & (u32::MAX >> (32 - W::BITS)) };
            let end = W::EXPIRY_BITS + random.below(u64::from(W::TAIL_BITS) + 1) as u32;
            let flipped =
                if random.below(3) == 0 { 1 << (end + random.below(3) as u32).min(W::BITS - 1) } else { 0 };
            Slot::new(((bits ^ flipped) >> end | 1) << end).with_expiry(expiry)
        }
    }
}

fn is_live<W: Width>(slot: Slot<W>, now: u32) -> bool {
    slot.is_universal() || slot.expiry() != now % (1 << W::EXPIRY_BITS)
}

/// Whether they match, by the specification, 4.3 and 4.10.
fn matches<W: Width>(slot: Slot<W>, query: Slot<W>) -> bool {
    if slot.is_universal() {
        return true;
    }
    let entry = slot.0 >> W::EXPIRY_BITS << W::EXPIRY_BITS;
    entry != 0 && is_live(slot, query.0) && (entry ^ query.0) >> entry.trailing_zeros() >> 1 == 0
}

/// A key lives for the rest of its own epoch, and for as many whole epochs as `after` keys take.
#[test]
fn the_newest_keys_are_told_as_they_live() {
    let rule = |after| Forgetting { after, epoch: 50, refresh: false, clock: EpochClock::Keys };
    for (after, lives, at_most) in [(1, 2, 100), (100, 3, 150), (101, 4, 200)] {
        assert_eq!(rule(after).lives(), lives);
        assert_eq!(rule(after).newest(), Some(Newest { at_least: after, at_most }));
        assert_eq!(rule(after).retention(), None);
    }
    assert_eq!([0, 49, 50, 100].map(|inserted| rule(100).epoch_of_keys(inserted)), [1, 1, 2, 3]);
    let by_time = Forgetting { clock: EpochClock::Time, ..rule(100) };
    assert_eq!(by_time.newest(), None);
    assert_eq!([1, 3].map(|epoch| rule(100).begin(epoch)), [0, 100]);
    assert_eq!([1, 3].map(|epoch| by_time.begin(epoch)), [50, 150]);
    let retention = Retention { forget_after: 100, forget_within: 50, refresh: false };
    assert_eq!(by_time.retention(), Some(retention));
}

#[test]
fn lanes_together_are_lanes_one_by_one() {
    fn check<W: Width<Marked = W>>() {
        let mut random = Random(crate::thorough::seed(W::SLOTS.into()));
        for _ in 0..20_000 {
            let now = random.next() as u32;
            let query = Place::<W>::new(random.next() << 8, random.next() << 8).at(now).fingerprint;
            let [one, other] = [0; 2].map(|_| {
                (0..W::SLOTS)
                    .fold(Bucket::<W>::new(0), |bucket, lane| bucket.with(lane, slot(&mut random, query)))
            });
            let slots = |bucket: Bucket<W>| (0..W::SLOTS).map(move |lane| bucket.slot(lane));
            let found: Vec<bool> = (0..W::SLOTS).map(|lane| one.matches(query).has(lane)).collect();
            let expected: Vec<bool> = slots(one).map(|slot| matches(slot, query)).collect();
            assert_eq!(found, expected, "{one:x?} {query:x?}");
            let either = slots(one).chain(slots(other)).any(|slot| matches(slot, query));
            assert_eq!(one.either_matches(other, query), either, "{one:x?} {other:x?} {query:x?}");
            let living: Vec<_> =
                slots(one).map(|slot| if is_live(slot, now) { slot } else { Slot::new(0) }).collect();
            assert_eq!(slots(one.without_expired(now)).collect::<Vec<_>>(), living, "{one:x?} {now}");
            // A doubling keeps the expiry, and each entry that has a tail goes to one side.
            let (left, right) = one.split();
            for (parent, (left, right)) in slots(one).zip(slots(left).zip(slots(right))) {
                let children =
                    [left, right].into_iter().filter(|child| !child.is_empty()).collect::<Vec<_>>();
                match parent.tail_length() {
                    Some(tail @ 1..) => {
                        let [child] = children[..] else { panic!("{one:x?}") };
                        let found = (child.tail_length(), child.expiry(), child.tag());
                        assert_eq!(found, (Some(tail - 1), parent.expiry(), parent.tag()));
                    }
                    Some(0) => assert_eq!(children, [parent; 2]),
                    None => assert_eq!([left, right], [parent; 2]),
                }
            }
            // Counting buckets together gives the same as counting them one by one.
            let (mut all, mut each) = (Counts::default(), Counts::default());
            let words = [one.0; 40];
            all.tally_all::<W>(&words);
            words.iter().for_each(|word| _ = each.tally(Bucket::<W>::new(*word)));
            assert_eq!(all, each);
        }
    }
    for width in AnyWidth::FORGETTING {
        with_any_width!(marked width, W => check::<W>());
    }
    assert_eq!(Bucket::<Four3>::new(0x8000_0000_74fd_74fc).without_expired(13).0, 0x8000_0000_0000_74fc);
    assert_eq!(Slot::<Four3>::new(0x74f8).with_expiry(13).0, 0x74fd);
    assert!(
        !Counts::default().tally(Bucket::<Four2>::new(0x0003))
            && !Counts::default().tally(Bucket::<Two4>::new(0xf))
    );
}

/// A region of so few buckets that it is soon full.
#[derive(Clone)]
struct Memory<W>(Vec<Bucket<W>>);

impl<W: Width> Buckets<W> for Memory<W> {
    type Error = Infallible;

    fn load(&mut self, id: BucketId) -> Result<Bucket<W>, Infallible> {
        Ok(self.0[usize::from(id.0)])
    }
}

impl<W: Width> BucketsMut<W> for Memory<W> {
    fn store(&mut self, id: BucketId, bucket: Bucket<W>) {
        self.0[usize::from(id.0)] = bucket;
    }
}

/// A history of one region.
struct Story {
    random: Random,
    refresh: bool,
    search: Search,
    counts: Counts,
    regions: u64,
    region: u32,
    epoch: u64,
    keys: BTreeMap<KeyHash, u64>,
    step: u64,
    refused: u64,
    prolonged: u64,
}

impl Story {
    const STEPS: u64 = 200_000;

    /// Random keys, repeats and epochs until a doubling or the end. Returns the buckets after it.
    fn go_on<W: Width>(&mut self, memory: &mut Memory<W>) -> Option<Vec<u64>> {
        let most = most_epochs(W::EXPIRY_BITS);
        while self.step < Self::STEPS {
            self.insert(memory);
            self.step += 1;
            if self.step.is_multiple_of(20_000) {
                let doubled = self.random.below(2) == 0;
                let words = if doubled { Some(self.double(memory)) } else { None };
                if words.is_some() {
                    return words;
                }
                let skipped = 1 + self.random.below(3).min(most - 1) as u32;
                let mut delta = Delta::default();
                for bucket in &mut memory.0 {
                    let epochs = (0..skipped).map(|later| self.epoch as u32 + later);
                    *bucket = sweep(*bucket, epochs, &mut delta);
                }
                self.counts = self.counts.with(&delta);
                self.epoch += u64::from(skipped);
                self.check(memory);
            }
        }
        None
    }

    fn insert<W: Width>(&mut self, memory: &mut Memory<W>) {
        let Self { random, keys, epoch, refresh, .. } = self;
        let (epoch, refresh) = (*epoch, *refresh);
        let known = keys.range(KeyHash::new(u128::from(random.next()) << 70)..).next().map(|(hash, _)| *hash);
        let hash = known.filter(|_| random.below(3) == 0);
        let hash = hash.unwrap_or_else(|| {
            let hash = u128::from(random.next()) << 70 | u128::from(random.next()) << 7;
            // Some have the fingerprint 0 or 1, or a similar one.
            let few = u128::from(random.below(4)) << (128 - W::Marked::TAIL_BITS - 1);
            KeyHash::new(if random.below(50) == 0 { few | hash & 0xffff } else { hash })
        });
        let (own, rem) = hash.region(self.regions);
        if own.0 != self.region {
            return;
        }
        let place = Place::<W>::new(hash.local(), rem).at(epoch as u32);
        let expiry = epoch + 1 + random.below(most_epochs(W::EXPIRY_BITS));
        // Copying the region at each step would take most of the test's time.
        let before = self.step.is_multiple_of(64).then(|| memory.clone());
        let is_as_before = |memory: &Memory<W>| before.as_ref().is_none_or(|before| before.0 == memory.0);
        let present = region::contains(memory, place).unwrap();
        let mut delta = Delta::default();
        let until = (expiry as u32, refresh);
        let kept = insert(memory, place, until, 200, &mut self.search, &mut delta).unwrap();
        self.counts = self.counts.with(&delta);
        let promised = keys.get(&hash).copied().unwrap_or(0);
        match kept {
            Kept::New => _ = keys.insert(hash, expiry),
            Kept::Known if refresh => _ = keys.insert(hash, promised.max(expiry)),
            Kept::Known => assert!(is_as_before(memory)),
            Kept::NoRoom => {
                self.refused += 1;
                assert!(is_as_before(memory));
            }
        }
        self.prolonged += u64::from(kept == Kept::Known && !is_as_before(memory));
        assert_eq!(present, kept == Kept::Known);
        assert!(promised <= epoch || present, "{hash:?} until {promised} is absent in {epoch}");
    }

    fn double<W: Width>(&mut self, memory: &Memory<W>) -> Vec<u64> {
        let (lefts, rights): (Vec<_>, Vec<_>) = memory.0.iter().map(|bucket| bucket.split()).unzip();
        let right = self.random.below(2) == 1;
        let child = Memory(if right { rights } else { lefts });
        (self.regions, self.region) = (2 * self.regions, 2 * self.region + u32::from(right));
        let (regions, region) = (self.regions, self.region);
        self.keys.retain(|hash, _| hash.region(regions).0.0 == region);
        self.check::<W::Marked>(&child);
        child.0.iter().map(|bucket| bucket.0).collect()
    }

    fn check<W: Width>(&mut self, memory: &Memory<W>) {
        let (mut memory, mut found) = (memory.clone(), Counts::default());
        assert!(memory.0.iter().all(|bucket| found.tally(*bucket)));
        if self.regions == 1 {
            assert!(found.is_as_found(&self.counts), "{found:?} {:?}", self.counts);
        }
        for (hash, _) in self.keys.iter().filter(|(_, expiry)| **expiry > self.epoch) {
            let place = Place::<W>::new(hash.local(), hash.region(self.regions).1).at(self.epoch as u32);
            assert!(region::contains(&mut memory, place).unwrap(), "{hash:?} in {}", self.epoch);
        }
    }
}

/// Random keys, repeats, epochs and doublings in one region.
fn keeps_its_promise<W: Width>(refresh: bool) {
    let mut story = Story {
        random: Random(crate::thorough::seed(u64::from(W::SLOTS) << 8 | u64::from(refresh))),
        refresh,
        search: Search::new(),
        counts: Counts::new(Kind::Forgetting),
        regions: 1,
        region: 0,
        epoch: 1000,
        keys: BTreeMap::new(),
        step: 0,
        refused: 0,
        prolonged: 0,
    };
    let doubled = |words: Vec<u64>| Memory(words.into_iter().map(Bucket::<W::Marked>::new).collect());
    let mut first = Memory::<W>(vec![Bucket::new(0); 8192]);
    let mut last = doubled(story.go_on(&mut first).unwrap());
    while let Some(words) = story.go_on(&mut last) {
        last = doubled(words);
    }
    let Story { refused, prolonged, regions, epoch, .. } = story;
    assert!(
        refused > 0 && (prolonged > 0) == refresh && regions > 1 && epoch > 1000,
        "{refused} {prolonged}"
    );
    // Once everything has expired, nothing is found, and every lane is free.
    let most = most_epochs(W::EXPIRY_BITS);
    let later = epoch + most;
    let mut delta = Delta::default();
    last.0.iter_mut().for_each(|bucket| {
        *bucket = sweep(*bucket, (0..=most as u32).map(|later| epoch as u32 + later), &mut delta);
    });
    assert!(last.0.iter().all(|bucket| bucket.0 == 0), "{later}");
}

#[test]
fn keys_stay_until_their_expiry() {
    keeps_its_promise::<Four2>(false);
    keeps_its_promise::<Unmarked<Four2>>(false);
    keeps_its_promise::<Four3>(false);
    keeps_its_promise::<Unmarked<Four3>>(false);
    keeps_its_promise::<Three4>(false);
    keeps_its_promise::<Unmarked<Three4>>(false);
    keeps_its_promise::<Two4>(false);
    keeps_its_promise::<Unmarked<Two4>>(false);
}

#[test]
fn refreshed_keys_stay_until_their_last_expiry() {
    keeps_its_promise::<Four2>(true);
    keeps_its_promise::<Unmarked<Four2>>(true);
    keeps_its_promise::<Four3>(true);
    keeps_its_promise::<Unmarked<Four3>>(true);
    keeps_its_promise::<Three4>(true);
    keeps_its_promise::<Unmarked<Three4>>(true);
    keeps_its_promise::<Two4>(true);
    keeps_its_promise::<Unmarked<Two4>>(true);
}

#[test]
fn a_refresh_sets_the_expiry_of_a_full_tail_and_stores_a_fresh_entry_beside_a_short_one() {
    type W = Four3;
    let place = Place::<W>::new(29 << 58 | 5, 0x7c << 55).at(8);
    let (first, fresh) = (usize::from(place.first.0), place.fingerprint);
    let with = |slots: &[Slot<W>], expiry: u32| {
        let mut memory = Memory::<W>(vec![Bucket::new(0); 8192]);
        memory.0[first] =
            (0..).zip(slots).fold(Bucket::new(0), |bucket, (lane, slot)| bucket.with(lane, *slot));
        let (mut search, mut delta) = (Search::new(), Delta::default());
        let kept = insert(&mut memory, place, (expiry, true), 200, &mut search, &mut delta).unwrap();
        assert_eq!(kept, Kept::Known);
        (0..W::SLOTS).map(|lane| memory.0[first].slot(lane)).collect::<Vec<_>>()
    };
    // The tail of `fresh` without its last two bits.
    let short = Slot::<W>::new(fresh.0 >> 6 << 6 | 1 << 5);
    assert_eq!((short.tail_length(), fresh.tail_length()), (Some(4), Some(6)));
    let empty = Slot::new(0);
    assert_eq!(with(&[fresh.with_expiry(10)], 13), [fresh.with_expiry(13), empty, empty, empty]);
    assert_eq!(with(&[fresh.with_expiry(13)], 10), [fresh.with_expiry(13), empty, empty, empty]);
    assert_eq!(with(&[short.with_expiry(13)], 10), [short.with_expiry(13), empty, empty, empty]);
    let both = [short.with_expiry(10), fresh.with_expiry(13), empty, empty];
    assert_eq!(with(&[short.with_expiry(10)], 13), both);
    // Of several entries, the one with the longest tail is prolonged, in whichever lane it lies.
    let (short, full) = (short.with_expiry(10), fresh.with_expiry(10));
    assert_eq!(with(&[short, full], 13), [short, fresh.with_expiry(13), empty, empty]);
    assert_eq!(with(&[full, short], 13), [fresh.with_expiry(13), short, empty, empty]);
    // Expired entries make room for the fresh one; the live short one stays as it is.
    let expired = Slot::<W>::new(0x1008).with_expiry(8);
    let found = with(&[short.with_expiry(10), expired, expired, expired], 13);
    assert_eq!(found, both);
}

#[test]
fn a_region_is_brought_to_a_later_epoch_and_left_alone_in_its_own() {
    type W = Four3;
    let fresh = Place::<W>::new(29 << 58, 0x7c << 55).fingerprint;
    let mut words = Box::new([0; BUCKETS_PER_REGION as usize]);
    // Entries that have 0 to 3 epochs left at epoch 10.
    words[5] =
        (0..4).fold(Bucket::<W>::new(0), |bucket, lane| bucket.with(lane, fresh.with_expiry(10 + lane))).0;
    let mut delta = Delta::default();
    assert_eq!(brought::<W>(&words, 10..10, &mut delta), None);
    assert_eq!(brought::<crate::cuckoo::Four>(&words, 10..12, &mut delta), None);
    assert_eq!(delta.removed_in_all(), 0);
    let now = brought::<W>(&words, 10..12, &mut delta).unwrap();
    assert_eq!(Bucket::<W>::new(now[5]).slot(3), fresh.with_expiry(13));
    assert_eq!((delta.removed_in_all(), now[5] >> 48 << 48), (3, now[5]));
}
