//! Time: code that a filter's writer and an update of a store share, for keys that expire. `format-spec/README.md`,
//! section 4.10.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::inserted::{Inserted, by_index};
use crate::cuckoo::{EpochClock, Forgetting, Key, forgetting};
use crate::error::Error;
use crate::options::Options;

/// How far a key's time may run ahead of the clock, or the epoch ahead of the clock, in milliseconds.
const AHEAD: u64 = 5 * 60 * 1000;

/// A clock counts as wrong if it leaps by more than this, and by more than the time that keys are kept. A filter that is
/// rarely used may see a shorter leap. In milliseconds.
const YEAR: u64 = 365 * 24 * 60 * 60 * 1000;

/// How many keys of a batch have their times or lifetimes checked before the first of them is inserted.
const BLOCK: usize = 1 << 20;

/// The outcome of inserting a key with the time at which it was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// The key was absent, and was stored.
    New,
    /// The key was present.
    Known,
    /// The key was seen so long ago that the filter has forgotten that time. It was neither looked up nor stored.
    Late,
    /// The key was seen more than five minutes in the future, by this computer's clock. It was neither looked up nor
    /// stored: if the filter trusted this time, it would forget all older keys.
    Early,
}

/// The outcome of inserting keys with the times at which they were seen.
#[derive(Debug, Default)]
#[must_use = "some keys may have been refused for want of room, or may be late or early"]
pub struct InsertedAt {
    /// Which keys are new, and which found no room. Late and early keys are not new.
    pub inserted: Inserted,
    /// The indices of the keys that were [late](Seen::Late), ascending.
    pub late: Vec<usize>,
    /// The indices of the keys that were [early](Seen::Early), ascending.
    pub early: Vec<usize>,
}

/// How a filter or store forgets, and its current time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    pub(crate) forgetting: Forgetting,
    pub(crate) expiry_bits: u32,
    pub(crate) epoch: u64,
    /// How many keys were new; a filter of the newest keys counts its epochs in them.
    pub(crate) inserted: u64,
    /// Whether the filter holds nothing that could be forgotten.
    pub(crate) is_empty: bool,
}

impl Time {
    /// When the current epoch began, in milliseconds since 1970.
    pub(super) const fn begin(&self) -> u64 {
        self.epoch * self.forgetting.epoch
    }

    /// The expiry epoch of a key inserted at `now`, in milliseconds since 1970, with this lifetime.
    ///
    /// In epochs of 5 days: a key inserted on day 13 (epoch 2) for 4 days expires in epoch 4, which begins on day 20.
    fn expiry_of(&self, now: u64, lifetime: Duration) -> u64 {
        let lifetime = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
        let end = now.max(self.begin()).saturating_add(lifetime);
        end.div_ceil(self.forgetting.epoch).max(self.epoch + 1)
    }

    /// How many more new keys the current epoch may take, at least 1.
    pub(crate) fn left(&self) -> usize {
        match self.forgetting.clock {
            EpochClock::Time => usize::MAX,
            EpochClock::Keys => {
                let end = self.epoch.saturating_mul(self.forgetting.epoch);
                usize::try_from(end.saturating_sub(self.inserted)).unwrap_or(usize::MAX).max(1)
            }
        }
    }
}

/// Milliseconds since 1970; 0 before.
pub(crate) fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// All keys of a block, the indices of the keys to insert, and every key's expiry epoch.
pub(crate) type Until<'a, K> = (&'a [K], Vec<u32>, &'a [u64]);

/// A filter or update that forgets keys, and advances to later epochs.
pub(crate) trait InTime {
    type Error: From<Error>;

    /// Fails with [`Error::Kind`] if the filter or store does not forget.
    fn time(&self) -> Result<Time, Self::Error>;

    /// Advances to a later epoch, however many keys are forgotten.
    fn go_to(&mut self, epoch: u64) -> Result<(), Self::Error>;

    /// Inserts keys of a block, which all expire after the current epoch. With `refresh`, a key that is present is kept
    /// until the later of the two expiries.
    fn insert_until<K: Key + Sync>(
        &mut self,
        keys: Until<'_, K>,
        refresh: bool,
        new: impl FnMut(usize),
        refuse: impl FnMut(usize, Error),
    ) -> Result<(), Self::Error>;

    /// Like [`time`](Self::time); fails with [`Error::Newest`] if the filter or store keeps a number of newest keys
    /// instead.
    fn time_of_keys(&self) -> Result<Time, Self::Error> {
        let time = self.time()?;
        if time.forgetting.clock == EpochClock::Keys {
            let path = self.own_path().to_owned();
            return Err(Error::Newest { path, op: "a time of a key" }.into());
        }
        Ok(time)
    }

    /// The last epoch to which it follows the clock.
    fn last_epoch(&self) -> u64 {
        u64::MAX
    }

    fn own_path(&self) -> &Path;

    fn own_options(&self) -> &Options;

    /// Advances to a later epoch; does nothing for an earlier one.
    fn come_to(&mut self, epoch: u64) -> Result<(), Self::Error> {
        let time = self.time()?;
        if epoch <= time.epoch {
            return Ok(());
        }
        let epochs = epoch - time.epoch;
        let leaps = epochs > forgetting::most_epochs(time.expiry_bits)
            && epochs.saturating_mul(time.forgetting.epoch) > YEAR;
        if leaps && !self.own_options().clock_is_right && !time.is_empty {
            return Err(self.wrong_clock(epoch * time.forgetting.epoch, &time));
        }
        self.go_to(epoch)
    }

    /// Advances to the time of the clock, or of earlier keys; returns the expiry epoch of a key seen now.
    fn expiry_now(&mut self) -> Result<u64, Self::Error> {
        let time = self.time()?;
        if time.forgetting.clock == EpochClock::Keys {
            let epoch = time.forgetting.epoch_of_keys(time.inserted).max(time.epoch);
            if epoch > time.epoch {
                self.go_to(epoch)?;
            }
            return Ok(epoch + time.forgetting.lives());
        }
        let clock = millis(self.own_options().clock());
        if clock.saturating_add(AHEAD) < time.begin() && !self.own_options().clock_is_right {
            return Err(self.wrong_clock(clock, &time));
        }
        self.come_to(time.forgetting.epoch_of(clock).min(self.last_epoch()))?;
        Ok(time.forgetting.expiry(clock.max(self.time()?.begin())))
    }

    #[cold]
    fn wrong_clock(&self, clock: u64, time: &Time) -> Self::Error {
        Error::Clock { path: self.own_path().to_owned(), clock, filter: time.begin() }.into()
    }

    /// Whether a key of this time is too far ahead of the clock.
    fn is_early(&self, time: SystemTime) -> bool {
        millis(time) > self.latest()
    }

    /// The latest time that a key may have and be trusted.
    fn latest(&self) -> u64 {
        millis(self.own_options().clock()).saturating_add(AHEAD)
    }

    /// Advances to the epoch of a key that was seen at this time. Returns the key's expiry epoch; `None` if the key is
    /// late.
    fn expiry_at(&mut self, time: SystemTime) -> Result<Option<u64>, Self::Error> {
        let (forgetting, time) = (self.time_of_keys()?.forgetting, millis(time));
        self.come_to(forgetting.epoch_of(time))?;
        let (expiry, now) = (forgetting.expiry(time), self.time()?.epoch);
        Ok((expiry > now).then_some(expiry))
    }

    /// Inserts keys that were seen at these times, one after the other, and calls `told` with the index of each key that
    /// is new, late or early. Returns the keys without room, in ascending order.
    fn insert_in_time<K: Key + Sync>(
        &mut self,
        keys: &[K],
        times: &[SystemTime],
        mut told: impl FnMut(usize, Seen),
    ) -> Result<Vec<(usize, Error)>, Self::Error> {
        let forgetting = self.time_of_keys()?.forgetting;
        if keys.len() != times.len() {
            let found = format!("{} for {} keys", times.len(), keys.len());
            return Err(Error::Option { option: "times", found, expected: "one for each key" }.into());
        }
        let most = self.latest();
        let (mut indices, mut refused) = (Vec::new(), Vec::new());
        for (base, (keys, times)) in (0..).step_by(BLOCK).zip(keys.chunks(BLOCK).zip(times.chunks(BLOCK))) {
            // One for each key, also for keys that are not inserted.
            let expiries: Vec<u64> = times.iter().map(|time| forgetting.expiry(millis(*time))).collect();
            for (index, (time, expiry)) in times.iter().map(|time| millis(*time)).zip(&expiries).enumerate() {
                if time > most {
                    told(base + index, Seen::Early);
                    continue;
                }
                let epoch = forgetting.epoch_of(time);
                if epoch > self.time()?.epoch {
                    let before = (keys, std::mem::take(&mut indices), &*expiries);
                    let new = |index| told(base + index, Seen::New);
                    self.insert_until(before, forgetting.refresh, new, |index, error| {
                        refused.push((base + index, error))
                    })?;
                    self.come_to(epoch)?;
                }
                if *expiry <= self.time()?.epoch {
                    told(base + index, Seen::Late);
                } else {
                    indices.push(index as u32);
                }
            }
            let rest = (keys, std::mem::take(&mut indices), &*expiries);
            let new = |index| told(base + index, Seen::New);
            self.insert_until(rest, forgetting.refresh, new, |index, error| {
                refused.push((base + index, error))
            })?;
        }
        Ok(by_index(refused))
    }

    /// Inserts keys that are kept for these lifetimes from now on, and calls `new` with the index of each new key.
    /// Returns the keys without room, in ascending order. If a lifetime is too long, inserts nothing.
    fn insert_for_lifetimes<K: Key + Sync>(
        &mut self,
        keys: &[K],
        lifetimes: &[Duration],
        mut new: impl FnMut(usize),
    ) -> Result<Vec<(usize, Error)>, Self::Error> {
        let most = self.time_of_keys()?.forgetting.after;
        if keys.len() != lifetimes.len() {
            let found = format!("{} for {} keys", lifetimes.len(), keys.len());
            return Err(Error::Option { option: "lifetimes", found, expected: "one for each key" }.into());
        }
        if let Some(longest) = lifetimes.iter().find(|lifetime| lifetime.as_millis() > u128::from(most)) {
            let found = format!("{longest:?}, but keys are kept for {:?}", Duration::from_millis(most));
            return Err(Error::Option { option: "lifetime", found, expected: "at most as long" }.into());
        }
        self.expiry_now()?;
        let (now, mut refused) = (millis(self.own_options().clock()), Vec::new());
        for (base, (keys, lifetimes)) in
            (0..).step_by(BLOCK).zip(keys.chunks(BLOCK).zip(lifetimes.chunks(BLOCK)))
        {
            let time = self.time()?;
            let expiries: Vec<u64> =
                lifetimes.iter().map(|lifetime| time.expiry_of(now, *lifetime)).collect();
            let block = (keys, (0..keys.len() as u32).collect(), &*expiries);
            let refuse = |index, error| refused.push((base + index, error));
            self.insert_until(block, true, |index| new(base + index), refuse)?;
        }
        Ok(by_index(refused))
    }

    /// Like `insert_for_lifetimes`, returning the outcome for each key.
    fn outcome_for_lifetimes<K: Key + Sync>(
        &mut self,
        keys: &[K],
        lifetimes: &[Duration],
    ) -> Result<Inserted, Self::Error> {
        let mut inserted = Inserted::of(keys.len());
        let refused = self.insert_for_lifetimes(keys, lifetimes, |index| inserted.set_new(index))?;
        Ok(inserted.with_refused(refused))
    }

    /// Like [`insert_in_time`](Self::insert_in_time), returning the outcome for each key.
    fn outcome_in_time<K: Key + Sync>(
        &mut self,
        keys: &[K],
        times: &[SystemTime],
    ) -> Result<InsertedAt, Self::Error> {
        let mut outcome = InsertedAt { inserted: Inserted::of(keys.len()), ..InsertedAt::default() };
        let InsertedAt { inserted, late, early } = &mut outcome;
        let refused = self.insert_in_time(keys, times, |index, seen| match seen {
            Seen::New => inserted.set_new(index),
            Seen::Late => late.push(index),
            Seen::Early => early.push(index),
            Seen::Known => {}
        })?;
        outcome.inserted = outcome.inserted.with_refused(refused);
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::format::Growth;
    use crate::write::batches::tests::filled;
    use crate::write::{Batches, Writer};

    const DAY: u64 = 86_400_000;
    const MINUTE: u64 = 60_000;

    fn at(millis: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(millis)
    }

    /// A filter that forgets after 30 days and does not grow, and the clock that it reads.
    fn forgetting(path: &Path) -> (Writer, Arc<AtomicU64>) {
        let clock = Arc::new(AtomicU64::new(20_003 * DAY + 12_345_678));
        let own = clock.clone();
        let options = Options::new().capacity(1).seed(1).growth(Growth::Never).max_kicks(20);
        let options = options.forget_after(Duration::from_millis(30 * DAY));
        let options = options.with_clock(move || at(own.load(Ordering::Relaxed)));
        (options.create(path).unwrap(), clock)
    }

    #[test]
    fn a_key_may_be_five_minutes_ahead_of_the_clock_and_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, clock) = forgetting(&dir.path().join("f"));
        let latest = clock.load(Ordering::Relaxed) + 5 * MINUTE;
        assert_eq!(writer.insert_at("a", at(latest)).unwrap(), Seen::New);
        assert_eq!(writer.insert_at("a", at(latest)).unwrap(), Seen::Known);
        assert_eq!(writer.insert_at("b", at(latest + 1)).unwrap(), Seen::Early);
        let times = [latest, latest + 1, latest, latest].map(at);
        let found = writer.insert_batch_at(&["c", "d", "c", "a"], &times).unwrap();
        assert_eq!((found.early, found.late), (vec![1], vec![]));
        assert_eq!(found.inserted.mask(), [true, false, false, false]);
        assert!(!writer.contains("d").unwrap());
        assert_eq!(writer.insert_batch(&["c", "e", "e"]).unwrap().mask(), [false, true, false]);
    }

    #[test]
    fn the_clock_may_be_five_minutes_behind_the_filter_and_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, clock) = forgetting(&dir.path().join("f"));
        assert!(writer.insert("a").unwrap());
        let begin = writer.info().unwrap().time.unwrap();
        clock.store(begin - 5 * MINUTE, Ordering::Relaxed);
        assert!(writer.insert("b").unwrap());
        clock.store(begin - 5 * MINUTE - 1, Ordering::Relaxed);
        assert!(matches!(writer.insert("c"), Err(Error::Clock { .. })));
        assert!(!writer.contains("c").unwrap());
    }

    #[test]
    fn a_filter_that_was_idle_longer_than_its_window_takes_keys_and_a_leap_of_a_year_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, clock) = forgetting(&dir.path().join("f"));
        let first = clock.load(Ordering::Relaxed);
        assert!(writer.insert("a").unwrap());
        // Twelve windows later. Epochs are some days long, so the epoch 365 days later is not reached yet.
        clock.store(first + 360 * DAY, Ordering::Relaxed);
        assert!(writer.insert("a").unwrap() && !writer.insert("a").unwrap());
        clock.store(first + 720 * DAY, Ordering::Relaxed);
        assert_eq!(writer.sweep().unwrap(), 1);
        assert!(writer.insert("a").unwrap());
        clock.store(first + 1200 * DAY, Ordering::Relaxed);
        assert!(matches!(writer.sweep(), Err(Error::Clock { .. })));
        assert!(matches!(writer.insert("a"), Err(Error::Clock { .. })));
        assert!(writer.contains("a").unwrap());
    }

    #[test]
    fn a_leap_of_a_year_within_the_window_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(AtomicU64::new(20_003 * DAY));
        let own = clock.clone();
        let options = Options::new().capacity(1000).forget_after(Duration::from_millis(1000 * DAY));
        let mut writer =
            options.with_clock(move || at(own.load(Ordering::Relaxed))).create(dir.path().join("f")).unwrap();
        assert!(writer.insert("a").unwrap());
        clock.fetch_add(900 * DAY, Ordering::Relaxed);
        assert!(!writer.insert("a").unwrap());
        clock.fetch_add(2000 * DAY, Ordering::Relaxed);
        assert!(matches!(writer.insert("a"), Err(Error::Clock { .. })));
    }

    #[test]
    fn keys_behind_a_block_are_told_by_their_own_indices() {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, clock) = forgetting(&dir.path().join("f"));
        let now = clock.load(Ordering::Relaxed);
        let [a, b, ..] = filled(&mut writer)[..] else { panic!("all keys are there") };
        let known = 0_u32.to_le_bytes();
        let next = now + writer.info().unwrap().retention.unwrap().forget_within;
        clock.store(next, Ordering::Relaxed);
        // All keys of the first block are early. The last keys come in the next epoch, after the others were inserted.
        let (mut keys, mut times) = (vec![known; BLOCK], vec![at(next + DAY); BLOCK]);
        let behind =
            [(b, next + DAY), (known, now - 100 * DAY), (a, now), (known, now), (b, next), (known, next)];
        keys.extend(behind.map(|(key, _)| key));
        times.extend(behind.map(|(_, time)| at(time)));
        let mut told = Vec::new();
        let refused = writer.insert_each_at(&keys, &times, |index, seen| told.push((index, seen))).unwrap();
        let refused: Vec<usize> = refused.iter().map(|(index, _)| *index).collect();
        assert_eq!(refused, [BLOCK + 2, BLOCK + 4]);
        assert!(told[..BLOCK].iter().enumerate().all(|(index, told)| *told == (index, Seen::Early)));
        let seen = [Seen::Early, Seen::Late, Seen::New, Seen::New];
        let expected: Vec<_> = [0, 1, 2, 4].map(|index| BLOCK + index).into_iter().zip(seen).collect();
        assert_eq!(told[BLOCK..], expected);
    }
}
