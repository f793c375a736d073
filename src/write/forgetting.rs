//! Forgetting: the epoch of a transaction, inserts of keys seen at a time, and the sweep of expired entries.
//! `format-spec/README.md`, section 4.10.
//!
//! Invariant: no slot holds the code of an epoch that has passed. So before the epoch goes on, all entries are emptied
//! whose code would come round again.

use std::time::{SystemTime, UNIX_EPOCH};

use super::batches::{BLOCK, hashes_of};
use super::inserted::Inserted;
use super::partition::{Mode, Told, Until};
use super::transaction::{Transaction, Work};
use super::writer::Writer;
use crate::cuckoo::{
    BUCKETS_PER_REGION, BucketId, Buckets, BucketsMut, Forgetting, Kept, Key, KeyHash, Kind, Place, RegionId,
    forgetting, with_any_width,
};
use crate::error::{Error, Result};
#[cfg(doc)]
use crate::options::Options;

/// How far the time of a key may run ahead of the clock, and the clock behind the epoch, in milliseconds.
const AHEAD: u64 = 5 * 60 * 1000;

/// A commit sweeps this part of all regions, and at least [`LEAST`]: a round takes as many commits at most.
const PARTS: u64 = 64;
const LEAST: u64 = 16;

/// Regions swept between two looks at whether a copy of the file is worth its memory.
const TOGETHER: u64 = 16;

/// What became of a key that was inserted with the time at which it was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// It was not there, and was stored.
    New,
    /// It was there.
    Known,
    /// It was seen so long ago that the filter has forgotten that time. It was neither looked up nor stored.
    Late,
    /// It was seen more than five minutes in the future, by the clock of this computer. It was neither looked up nor
    /// stored: if its time were believed, all older keys would be forgotten.
    Early,
}

/// The outcome of inserting keys with the times at which they were seen.
#[derive(Debug, Default)]
#[must_use = "some keys may have been refused for want of room, or may be late or early"]
pub struct InsertedAt {
    /// Which keys are new, and which found no room. A late or early key is not new.
    pub inserted: Inserted,
    /// The indices of the keys that were [late](Seen::Late), ascending.
    pub late: Vec<usize>,
    /// The indices of the keys that were [early](Seen::Early), ascending.
    pub early: Vec<usize>,
}

impl Transaction {
    /// Inserts a key into a forgetting filter; returns whether it is new, or the region if it has no room.
    fn insert_until(
        &mut self,
        hash: KeyHash,
        expiry: (u32, bool),
        max_kicks: u32,
    ) -> Result<Result<bool, RegionId>> {
        let (id, rem) = self.region_of(hash)?;
        let epoch = self.counts.epoch as u32;
        let (delta, search) = (&mut self.delta, &mut self.search);
        let kept = with_any_width!(forgetting self.work.identity().geometry.width, W => {
            let place = Place::<W>::new(hash.local(), rem).at(epoch);
            forgetting::insert(&mut self.work.target_mut().region(id), place, expiry, max_kicks, search, delta)?
        }, Kept::NoRoom);
        Ok(match kept {
            Kept::New => Ok(true),
            Kept::Known => Ok(false),
            Kept::NoRoom => Err(id),
        })
    }

    /// Comes to a later epoch. Until then it sweeps what has expired, as far as that must be.
    fn come_to(&mut self, epoch: u64) -> Result<()> {
        let regions = self.work.identity().geometry.regions();
        let empty = self.counts().entries() == 0;
        if epoch == self.counts.epoch + 1 {
            if !empty {
                self.sweep_to(regions)?;
            }
            self.counts.swept = 0;
        } else {
            // Whatever expires until the new epoch goes now, also what expires in it.
            if !empty {
                self.sweep(0..regions, epoch - self.counts.epoch)?;
            }
            self.counts.swept = regions;
        }
        self.counts.epoch = epoch;
        Ok(())
    }

    /// Sweeps the regions up to this one of what expires in the epoch now.
    fn sweep_to(&mut self, region: u64) -> Result<()> {
        while self.counts.swept < region {
            let until = region.min(self.counts.swept + TOGETHER);
            self.sweep(self.counts.swept..until, 0)?;
            self.counts.swept = until;
        }
        Ok(())
    }

    /// Sweeps the next regions, as a part of a commit. A damaged page ends that: lookups and repair report it.
    pub(super) fn sweep_some(&mut self) {
        let (kind, regions) = (self.kind(), self.work.identity().geometry.regions());
        if kind == Kind::Forgetting && self.counts.swept < regions {
            let piece = LEAST.max(regions.div_ceil(PARTS));
            let _ = self.sweep_to(regions.min(self.counts.swept + piece));
        }
    }

    /// Empties the entries of these regions that expire in the epoch now, or in one of so many `later` ones.
    fn sweep(&mut self, regions: std::ops::Range<u64>, later: u64) -> Result<()> {
        let width = self.work.identity().geometry.width;
        let now = self.counts.epoch as u32;
        let codes = later.min(forgetting::most_epochs(width.expiry_bits())) as u32;
        for first in regions.clone().step_by(TOGETHER as usize) {
            let mut changes = 0;
            let mut target = self.work.target_for_batch();
            for id in (first..regions.end.min(first + TOGETHER)).map(|id| RegionId(id as u32)) {
                let target = target.reborrow().with(|overlay, _| overlay.region_mut(id));
                let delta = &mut self.delta;
                let swept = with_any_width!(forgetting width, W => {
                    let buckets = &mut target.region(id);
                    let mut sweep = |bucket| {
                        let held = Buckets::<W>::load(buckets, bucket)?;
                        let epochs = (0..=codes).map(|later| now.wrapping_add(later));
                        let swept = forgetting::sweep(held, epochs, delta);
                        if swept != held {
                            buckets.store(bucket, swept);
                            changes += 1;
                        }
                        Ok(())
                    };
                    (0..BUCKETS_PER_REGION as u16).map(BucketId).try_for_each(&mut sweep)
                }, Ok(()));
                swept?;
            }
            if let Work::Published(_, pending) = &mut self.work {
                pending.batched(changes);
            }
        }
        Ok(())
    }
}

/// Milliseconds since 1970; 0 before.
fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

impl Writer {
    /// Inserts a key that was seen at this time into a forgetting filter. It is kept for the time that
    /// [`Options::forget_after`] gave, from `time` on.
    ///
    /// The filter's own time is that of the latest key, by its time or, in [`insert`](Self::insert), by the clock. It never
    /// goes back. A key older than that is stored for the time it has left.
    ///
    /// Fails with [`Error::Clock`] if its time, or the clock in `insert`, would leap so far ahead that every key is
    /// forgotten at once; and in `insert` if the clock is more than five minutes behind the filter's time.
    /// [`Options::clock_is_right`] allows both. Fails with [`Error::Kind`] on a filter of another kind.
    pub fn insert_at(&mut self, key: impl Key, time: SystemTime) -> Result<Seen> {
        let hash = self.hash(key)?;
        let forgetting = self.forgetting()?;
        let time = millis(time);
        if time > millis(self.options.clock()) + AHEAD {
            return Ok(Seen::Early);
        }
        self.come_to(forgetting.epoch_of(time))?;
        let expiry = forgetting.expiry(time);
        if expiry <= self.epoch()? {
            return Ok(Seen::Late);
        }
        Ok(if self.insert_until(hash, expiry)? { Seen::New } else { Seen::Known })
    }

    /// Inserts keys that were seen at these times into a forgetting filter, as [`insert_at`](Self::insert_at) does one
    /// after the other, in the way of [`insert_batch`](crate::Batches::insert_batch). Errors as for both;
    /// [`Error::Option`] if there are not as many times as keys.
    pub fn insert_batch_at<K: Key + Sync>(&mut self, keys: &[K], times: &[SystemTime]) -> Result<InsertedAt> {
        let mut outcome = InsertedAt { inserted: Inserted::of(keys.len()), ..InsertedAt::default() };
        let InsertedAt { inserted, late, early } = &mut outcome;
        let refused = self.insert_each_at(keys, times, |index, seen| match seen {
            Seen::New => inserted.set_new(index),
            Seen::Late => late.push(index),
            Seen::Early => early.push(index),
            Seen::Known => {}
        })?;
        outcome.inserted = outcome.inserted.with_refused(refused);
        Ok(outcome)
    }

    /// Like [`insert_batch_at`](Self::insert_batch_at), but tells `told` the index of each key that is new, late or early,
    /// also of those before an error. Returns the indices of keys without room, each with its error, in ascending order;
    /// a key without room that is not there is new, too. The indices of late keys ascend, and so do those of early ones.
    pub fn insert_each_at<K: Key + Sync>(
        &mut self,
        keys: &[K],
        times: &[SystemTime],
        mut told: impl FnMut(usize, Seen),
    ) -> Result<Vec<(usize, Error)>> {
        let forgetting = self.forgetting()?;
        if keys.len() != times.len() {
            let found = format!("{} for {} keys", times.len(), keys.len());
            return Err(Error::Option { option: "times", found, expected: "one for each key" });
        }
        let most = millis(self.options.clock()) + AHEAD;
        let (mut indices, mut refused) = (Vec::new(), Vec::new());
        for (base, (keys, times)) in (0..).step_by(BLOCK).zip(keys.chunks(BLOCK).zip(times.chunks(BLOCK))) {
            // One a key, also for those that are not inserted.
            let mut expiries = Vec::with_capacity(keys.len());
            for (index, time) in times.iter().map(|time| millis(*time)).enumerate() {
                let expiry = forgetting.expiry(time);
                expiries.push(expiry as u32);
                if time > most {
                    told(base + index, Seen::Early);
                    continue;
                }
                let epoch = forgetting.epoch_of(time);
                if epoch > self.epoch()? {
                    let before = std::mem::take(&mut indices);
                    let new = |index| told(base + index, Seen::New);
                    self.take_until(keys, before, &expiries, new, |index, error| {
                        refused.push((base + index, error))
                    })?;
                    self.come_to(epoch)?;
                }
                if expiry <= self.epoch()? {
                    told(base + index, Seen::Late);
                } else {
                    indices.push(index as u32);
                }
            }
            let rest = std::mem::take(&mut indices);
            let new = |index| told(base + index, Seen::New);
            self.take_until(keys, rest, &expiries, new, |index, error| refused.push((base + index, error)))?;
        }
        refused.sort_by_key(|(index, _)| *index);
        Ok(refused)
    }

    /// Comes to the time of the clock, and empties every entry that has expired. Returns how many there were.
    ///
    /// Lookups find no expired entry in any case, inserts use the room of expired entries, and each commit sweeps some
    /// regions; so nobody needs to call this. It is for filters that get no keys for a long time, of which readers would
    /// otherwise find the old keys: a filter's time goes on with its writer. Belongs to the transaction, as an insert does.
    /// Fails as `insert` does, and with [`Error::Damaged`] at the first damaged page.
    pub fn sweep(&mut self) -> Result<u64> {
        let before = self.state()?.transaction.counts().removed;
        self.expiry_now()?;
        self.change(|transaction| {
            let regions = transaction.work.identity().geometry.regions();
            transaction.sweep_to(regions)
        })??;
        Ok(self.state()?.transaction.counts().removed - before)
    }

    fn forgetting(&self) -> Result<Forgetting> {
        let identity = self.state()?.transaction.work.identity();
        identity.forgetting.ok_or_else(|| Error::Kind {
            path: self.files.data.clone(),
            found: identity.kind,
            wanted: Kind::Forgetting,
            op: "inserting keys at a time",
        })
    }

    fn epoch(&self) -> Result<u64> {
        Ok(self.state()?.transaction.counts.epoch)
    }

    /// Comes to the time of the clock; the epoch in which a key seen now expires.
    pub(super) fn expiry_now(&mut self) -> Result<u64> {
        let forgetting = self.forgetting()?;
        let clock = millis(self.options.clock());
        if clock.saturating_add(AHEAD) < self.epoch()? * forgetting.epoch && !self.options.clock_is_right {
            return Err(self.wrong_clock(clock, forgetting)?);
        }
        self.come_to(forgetting.epoch_of(clock))?;
        Ok(forgetting.expiry(clock.max(self.epoch()? * forgetting.epoch)))
    }

    /// As [`expiry_now`](Self::expiry_now), for a batch; `None` unless the filter forgets.
    pub(super) fn until_now(&mut self) -> Result<Option<Until<'static>>> {
        let Some(Forgetting { refresh, .. }) = self.state()?.transaction.work.identity().forgetting else {
            return Ok(None);
        };
        let expiry = self.expiry_now()? as u32;
        Ok(Some(Until { now: self.epoch()? as u32, refresh, each: &[], expiry }))
    }

    /// Comes to a later epoch; does nothing at an earlier one.
    fn come_to(&mut self, epoch: u64) -> Result<()> {
        let transaction = &self.state()?.transaction;
        let (now, identity) = (transaction.counts.epoch, transaction.work.identity());
        if epoch <= now {
            return Ok(());
        }
        let leaps = epoch - now > forgetting::most_epochs(identity.geometry.width.expiry_bits());
        if leaps && !self.options.clock_is_right && transaction.counts().entries() > 0 {
            let forgetting = self.forgetting()?;
            return Err(self.wrong_clock(epoch * forgetting.epoch, forgetting)?);
        }
        self.change(|transaction| transaction.come_to(epoch))?
    }

    #[cold]
    fn wrong_clock(&self, clock: u64, forgetting: Forgetting) -> Result<Error> {
        let filter = self.epoch()? * forgetting.epoch;
        Ok(Error::Clock { path: self.files.data.clone(), clock, filter })
    }

    /// Inserts a key that expires in this epoch, which must be a later one than now.
    pub(super) fn insert_until(&mut self, hash: KeyHash, expiry: u64) -> Result<bool> {
        let (max_kicks, refresh) = (self.options.max_kicks, self.forgetting()?.refresh);
        loop {
            let expiry = (expiry as u32, refresh);
            match self.change(|transaction| transaction.insert_until(hash, expiry, max_kicks))?? {
                Ok(new) => return Ok(new),
                Err(region) => self.make_room(region)?,
            }
        }
    }

    /// Inserts those keys of a block that have these indices.
    fn take_until<K: Key + Sync>(
        &mut self,
        keys: &[K],
        indices: Vec<u32>,
        each: &[u32],
        mut new: impl FnMut(usize),
        mut refuse: impl FnMut(usize, Error),
    ) -> Result<()> {
        let identity = *self.state()?.transaction.work.identity();
        let path = self.files.data.clone();
        let refresh = self.forgetting()?.refresh;
        let until = Until { now: self.epoch()? as u32, refresh, each, expiry: 0 };
        let hash = hashes_of(identity.hasher, &path, keys);
        let mut buffers = std::mem::take(&mut self.buffers);
        let mode = (Mode::Insert(Kind::Forgetting, Told::New), Some(until));
        let new = |index: u32| new(index as usize);
        let refuse = |index: u32, error| refuse(index as usize, error);
        self.take_block(indices, &hash, mode, &mut buffers, new, refuse)?;
        self.buffers = buffers.kept();
        Ok(())
    }
}
