//! Forgetting: entries that expire, the epochs that time is divided into, and inserts into a forgetting filter.
//!
//! No I/O. The rules stand in `format-spec/README.md`, section 4.10. The a lowest bits of a slot hold its entry's expiry
//! epoch, modulo 2^a. An entry with the code of the current epoch has expired; all others live for 1 to 2^a - 1 more
//! epochs.

use std::fmt;
use std::ops::Range;

use super::bucket::{AnyBuckets, BUCKETS_PER_REGION, Bucket, BucketId, Buckets, BucketsMut, Place, Slot};
use super::counts::{Delta, FIRST_EPOCH};
use super::region::Removed;
use super::search::Search;
use super::widths::{AnyWidth, Width};

/// The most epochs that an entry of these expiry bits may live: K = 2^a - 1.
pub(crate) const fn most_epochs(expiry_bits: u32) -> u64 {
    (1 << expiry_bits) - 1
}

/// The latest time, in milliseconds since 1970: 2^53, some 285,000 years.
const MAX_TIME: u64 = 1 << 53;

/// The longest epoch, in milliseconds.
pub(crate) const MAX_EPOCH: u64 = MAX_TIME / 4;

/// How long a forgetting filter keeps a key: in milliseconds, or in newer keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Forgetting {
    /// A key is kept at least this long.
    pub(crate) after: u64,
    /// The length of an epoch. A filter that counts time keeps a key at most this much longer than `after`.
    ///
    /// Epoch e begins at e times this length since 1970; or, counted in keys, after (e - 1) times as many new keys.
    pub(crate) epoch: u64,
    /// Whether the time counts from when a key was last seen, rather than first seen.
    pub(crate) refresh: bool,
    /// What the epochs are counted in.
    pub(crate) clock: EpochClock,
}

/// What the epochs of a forgetting filter are counted in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EpochClock {
    /// Milliseconds since 1970.
    Time,
    /// New keys: the filter keeps the newest.
    Keys,
}

impl Forgetting {
    /// The shortest epoch for keys that live this long: an entry made at the end of an epoch still lives for K - 1 whole
    /// epochs.
    ///
    /// 30 days and a = 3: K = 7, so an epoch has 5 days.
    pub(crate) const fn epoch_for(after: u64, width: AnyWidth) -> u64 {
        after.div_ceil(most_epochs(width.expiry_bits()) - 1)
    }

    /// Whether the lengths are within their limits, and every entry of this width can live for `after`.
    pub(crate) const fn fits(&self, width: AnyWidth) -> bool {
        let whole = most_epochs(width.expiry_bits()).saturating_sub(1);
        self.after > 0
            && self.after <= MAX_TIME
            && self.epoch <= MAX_EPOCH
            && self.after <= self.epoch.saturating_mul(whole)
    }

    pub(crate) fn epoch_of(&self, time: u64) -> u64 {
        (time / self.epoch).clamp(FIRST_EPOCH, self.last_epoch())
    }

    /// When an epoch begins: in milliseconds since 1970, or in keys already stored.
    pub(crate) const fn begin(&self, epoch: u64) -> u64 {
        match self.clock {
            EpochClock::Time => epoch.saturating_mul(self.epoch),
            EpochClock::Keys => epoch.saturating_sub(FIRST_EPOCH).saturating_mul(self.epoch),
        }
    }

    pub(crate) const fn last_epoch(&self) -> u64 {
        MAX_TIME / self.epoch
    }

    /// The epoch after `inserted` new keys, in a filter that keeps the newest keys.
    ///
    /// 50 keys in an epoch: the 101st new key comes in epoch 3.
    pub(crate) const fn epoch_of_keys(&self, inserted: u64) -> u64 {
        FIRST_EPOCH + inserted / self.epoch
    }

    /// How many epochs each of the newest keys lives: the rest of its own epoch, and as many more as `after` keys take.
    pub(crate) const fn lives(&self) -> u64 {
        1 + self.after.div_ceil(self.epoch)
    }

    /// When the filter forgets a key, if it counts time.
    pub(crate) fn retention(self) -> Option<Retention> {
        let Self { after: forget_after, epoch: forget_within, refresh, clock } = self;
        (clock == EpochClock::Time).then_some(Retention { forget_after, forget_within, refresh })
    }

    /// How many of the newest keys the filter keeps, if it counts keys.
    pub(crate) fn newest(self) -> Option<Newest> {
        let most = self.epoch.saturating_mul(self.lives());
        (self.clock == EpochClock::Keys).then_some(Newest { at_least: self.after, at_most: most })
    }

    /// The expiry epoch of a key seen at this time.
    ///
    /// 30 days in epochs of 5: a key seen on day 13, in epoch 2, expires in epoch 9, which begins on day 45.
    pub(crate) const fn expiry(&self, time: u64) -> u64 {
        time.saturating_add(self.after).div_ceil(self.epoch)
    }
}

/// When a forgetting filter forgets a key.
///
/// `Display` says it in one sentence. With the feature `serde` it is `Serialize`; its times are in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Retention {
    /// A key is kept at least this long, in milliseconds.
    pub forget_after: u64,
    /// A key is kept at most this much longer, in milliseconds, as long as the filter's time advances.
    pub forget_within: u64,
    /// Whether the time counts from when the key was last inserted, rather than first inserted.
    pub refresh: bool,
}

/// How many of the newest keys a forgetting filter keeps, if it was created with
/// [`Options::keep_newest`](crate::Options::keep_newest).
///
/// `Display` says it in one sentence. With the feature `serde` it is `Serialize`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Newest {
    /// A key is kept until at least this many newer keys were stored.
    pub at_least: u64,
    /// The filter never keeps more keys than this.
    pub at_most: u64,
}

impl fmt::Display for Newest {
    /// `keeps the newest 700 to 750 keys`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "keeps the newest {} to {} keys", self.at_least, self.at_most)
    }
}

impl fmt::Display for Retention {
    /// 30 days and a = 3: `forgets keys 30 to 35 days after they were first seen`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = self.forget_after.saturating_add(self.forget_within);
        let units = [(86_400_000, "days"), (3_600_000, "hours"), (60_000, "minutes"), (1000, "seconds")];
        let fitting = units.into_iter().find(|(unit, _)| self.forget_after >= *unit);
        let (unit, name) = fitting.unwrap_or((1, "milliseconds"));
        // One decimal, never rounded to a time that the filter does not keep.
        let tenths = |tenths: u64| match (tenths / 10, tenths % 10) {
            (whole, 0) => whole.to_string(),
            (whole, tenth) => format!("{whole}.{tenth}"),
        };
        let of = |millis: u64| millis.saturating_mul(10);
        let (from, to) = (tenths(of(self.forget_after) / unit), tenths(of(most).div_ceil(unit)));
        let since = if self.refresh { "last" } else { "first" };
        write!(f, "forgets keys {from} to {to} {name} after they were {since} seen")
    }
}

/// How many entries of a forgetting filter or store expire at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Expiry {
    /// The time, in milliseconds since 1970. In a filter of the newest keys, the number of stored keys, as
    /// [`Info::inserted`](crate::Info::inserted) counts them.
    pub at: u64,
    /// The entries that expire then.
    pub entries: u64,
}

/// Entries by the epochs that they have left; element 0 counts expired entries.
#[derive(Clone, Default, Debug)]
pub(crate) struct Expiries([u64; 1 << MOST_EXPIRY_BITS]);

/// The most expiry bits of any width.
const MOST_EXPIRY_BITS: u32 = 4;

impl Expiries {
    /// Counts the entries of buckets of a filter in the epoch `now`.
    pub(crate) fn tally<W: Width>(&mut self, words: &[u64], now: u64) {
        for bucket in words.iter().map(|word| Bucket::<W>::new(*word)) {
            let slots = (0..W::SLOTS).map(|lane| bucket.slot(lane));
            for slot in slots.filter(|slot| slot.tail_length().is_some()) {
                self.count(slot.epochs_left(now as u32).into());
            }
        }
    }

    pub(crate) fn count(&mut self, epochs_left: u64) {
        self.0.get_mut(epochs_left as usize).into_iter().for_each(|entries| *entries += 1);
    }

    /// The counts by expiry time, ascending.
    pub(crate) fn by_time(&self, forgetting: &Forgetting, now: u64) -> Vec<Expiry> {
        let counted = (now..).zip(self.0).filter(|(_, entries)| *entries > 0);
        counted.map(|(epoch, entries)| Expiry { at: forgetting.begin(epoch), entries }).collect()
    }
}

/// The outcome of [`insert`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    /// No live entry matched, and one was stored.
    New,
    /// A live entry matches. With refresh, this entry or one beside it now lives long enough.
    Known,
    /// Nothing was stored, as no room was found.
    NoRoom,
}

/// Buckets, seen without the entries that expire in this epoch. Storing a bucket empties the lanes of these entries.
struct Living<'a, 'b, W, E> {
    buckets: &'a mut AnyBuckets<'b, W, E>,
    epoch: u32,
    /// The original words of loaded buckets that held such entries.
    before: Vec<(BucketId, Bucket<W>)>,
    delta: &'a mut Delta,
}

impl<W: Width, E> Buckets<W> for Living<'_, '_, W, E> {
    type Error = E;

    #[inline]
    fn load(&mut self, id: BucketId) -> Result<Bucket<W>, E> {
        let bucket = self.buckets.load(id)?;
        let living = bucket.without_expired(self.epoch);
        if living != bucket && self.before.iter().all(|(before, _)| *before != id) {
            self.before.push((id, bucket));
        }
        Ok(living)
    }
}

impl<W: Width, E> BucketsMut<W> for Living<'_, '_, W, E> {
    #[inline]
    fn store(&mut self, id: BucketId, bucket: Bucket<W>) {
        if let Some(index) = self.before.iter().position(|(before, _)| *before == id) {
            let (_, before) = self.before.swap_remove(index);
            self.delta.forgotten(before, before.without_expired(self.epoch));
        }
        self.buckets.store(id, bucket);
    }
}

/// Inserts a key that expires in the epoch `expiry`. The fingerprint in `place` holds the current epoch.
///
/// A live match makes the key known. With `refresh`, a live match of full tail is prolonged if no match lives long
/// enough. If only a shorter entry matches, a fresh entry is stored beside it, or the match is prolonged for lack of
/// room.
pub(crate) fn insert<W: Width, B: BucketsMut<W>>(
    buckets: &mut B,
    place: Place<W>,
    (expiry, refresh): (u32, bool),
    max_kicks: u32,
    search: &mut Search,
    delta: &mut Delta,
) -> Result<Kept, B::Error> {
    let (query, fresh) = (place.fingerprint, place.fingerprint.with_expiry(expiry));
    let [first, second] = place.load(buckets)?;
    let buckets = &mut AnyBuckets(buckets);
    if !first.1.either_matches(second.1, query) {
        let stored = store_fresh(buckets, place, fresh, max_kicks, search, delta)?;
        return Ok(if stored { Kept::New } else { Kept::NoRoom });
    }
    if !refresh || [first.1, second.1].iter().any(|bucket| bucket.has_universal()) {
        return Ok(Kept::Known);
    }
    prolong(buckets, place, [first, second], fresh, max_kicks, search, delta)
}

/// Makes a key that matches live as long as a fresh entry would.
fn prolong<W: Width, E>(
    buckets: &mut AnyBuckets<'_, W, E>,
    place: Place<W>,
    both: [(BucketId, Bucket<W>); 2],
    fresh: Slot<W>,
    max_kicks: u32,
    search: &mut Search,
    delta: &mut Delta,
) -> Result<Kept, E> {
    let query = place.fingerprint;
    let left = |slot: Slot<W>| slot.epochs_left(query.expiry());
    // The best match: any match that lives long enough, else the one with the longest tail.
    let mut best: Option<(Option<u32>, BucketId, Bucket<W>)> = None;
    for (id, bucket) in both {
        let matches = bucket.matches(query);
        for lane in (0..W::SLOTS).filter(|lane| matches.has(*lane)) {
            let slot = bucket.slot(lane);
            if left(slot) >= left(fresh) {
                return Ok(Kept::Known);
            }
            if best.as_ref().is_none_or(|(tail, ..)| *tail < slot.tail_length()) {
                best = Some((slot.tail_length(), id, bucket.with(lane, slot.with_expiry(fresh.expiry()))));
            }
        }
    }
    let Some((tail, id, prolonged)) = best else { return Ok(Kept::Known) };
    if tail == Some(W::TAIL_BITS) || !store_fresh(buckets, place, fresh, max_kicks, search, delta)? {
        buckets.store(id, prolonged);
    }
    Ok(Kept::Known)
}

/// Stores an entry in a lane that is empty, expired, or freed by the search. Returns false if there is no such lane.
fn store_fresh<W: Width, E>(
    buckets: &mut AnyBuckets<'_, W, E>,
    place: Place<W>,
    fresh: Slot<W>,
    max_kicks: u32,
    search: &mut Search,
    delta: &mut Delta,
) -> Result<bool, E> {
    let epoch = place.fingerprint.expiry();
    let mut living = Living { buckets, epoch, before: Vec::new(), delta };
    let both @ [(first_id, first), (second_id, second)] = place.load(&mut living)?;
    let room = match first.first_free(second) {
        Some((other, lane)) => Some((first_id.or(second_id, other), first.or(second, other), lane)),
        None if first.has_universal() || second.has_universal() => None,
        None => search
            .free_lane(&mut AnyBuckets(&mut living), &both, &[], &mut { max_kicks })?
            .and_then(|(id, room)| Some((id, room, room.empty_lanes().first()?))),
    };
    let Some((id, bucket, lane)) = room else { return Ok(false) };
    living.store(id, bucket.with(lane, fresh));
    living.delta.stored::<W>();
    Ok(true)
}

/// How many epochs the longest-lived match of a key still lives: 0 if nothing matches, `u32::MAX` if a bucket of the key
/// is quarantined. The fingerprint in `place` holds the current epoch.
#[cfg(feature = "store")]
pub(crate) fn epochs_left<W: Width, B: Buckets<W>>(
    buckets: &mut B,
    place: Place<W>,
) -> Result<u32, B::Error> {
    let query = place.fingerprint;
    let mut most = 0;
    for (_, bucket) in place.load(buckets)? {
        if bucket.has_universal() {
            return Ok(u32::MAX);
        }
        for lane in bucket.matches(query) {
            most = most.max(bucket.slot(lane).epochs_left(query.expiry()));
        }
    }
    Ok(most)
}

/// Returns the bucket without the entries that expire in one of these epochs, and counts these entries.
#[inline]
pub(crate) fn sweep<W: Width>(
    bucket: Bucket<W>,
    epochs: impl IntoIterator<Item = u32>,
    delta: &mut Delta,
) -> Bucket<W> {
    let swept = epochs.into_iter().fold(bucket, Bucket::without_expired);
    if swept != bucket {
        delta.forgotten(bucket, swept);
    }
    swept
}

/// Like [`bring`], but returns a changed copy of the words. `None` if the two epochs are the same, or the filter does not
/// forget.
pub(crate) fn brought<W: Width>(
    words: &[u64; BUCKETS_PER_REGION as usize],
    passed: Range<u64>,
    delta: &mut Delta,
) -> Option<Box<[u64; BUCKETS_PER_REGION as usize]>> {
    if W::EXPIRY_BITS == 0 || passed.is_empty() {
        return None;
    }
    let mut swept = Box::new(*words);
    bring::<W>(&mut *swept, passed, delta);
    Some(swept)
}

/// Brings a region from the epoch `passed.start` to `passed.end`: removes and counts the entries that have expired by
/// `passed.end`.
pub(crate) fn bring<W: Width>(words: &mut [u64], passed: Range<u64>, delta: &mut Delta) {
    if W::EXPIRY_BITS == 0 {
        return;
    }
    // After K epochs all entries have expired, and the codes repeat.
    let codes = passed.end.saturating_sub(passed.start).min(most_epochs(W::EXPIRY_BITS)) as u32;
    for word in words {
        let epochs = (0..=codes).map(|later| (passed.start as u32).wrapping_add(later));
        *word = sweep(Bucket::<W>::new(*word), epochs, delta).0;
    }
}

impl Delta {
    /// Counts the expired entries that were removed from a bucket.
    fn forgotten<W: Width>(&mut self, before: Bucket<W>, after: Bucket<W>) {
        for lane in 0..W::SLOTS {
            let slot = before.slot(lane);
            if slot != after.slot(lane)
                && let Some(tail) = slot.tail_length()
            {
                self.removed(Removed::Entry { tail });
            }
        }
    }
}

#[cfg(test)]
mod tests;
