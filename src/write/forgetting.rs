//! Forgetting: the epoch of a transaction, inserts of keys seen at a time, and the sweep of expired entries.
//! `format-spec/README.md`, section 4.10.
//!
//! Invariant: no slot holds the code of an epoch that has passed. So before the epoch advances, the writer removes all
//! entries whose code would then stand for a later epoch.

use std::path::Path;
use std::time::SystemTime;

use super::batches::hashes_of;
use super::partition::{Mode, Told, Until};
use super::time::{self, InTime, InsertedAt, Seen, Time};
use super::transaction::Transaction;
use super::work::Work;
use super::writer::Writer;
use crate::cuckoo::{
    BUCKETS_PER_REGION, BucketId, Buckets, BucketsMut, Forgetting, Kept, Key, KeyHash, Kind, Place, RegionId,
    forgetting, with_any_width,
};
use crate::error::{Error, Result};
use crate::options::Options;

/// A commit sweeps one of this many parts of the regions, so at most this many commits sweep all of them.
const PARTS: u64 = 64;
/// The fewest regions that a commit sweeps, unless fewer are left.
const LEAST: u64 = 16;

/// How many regions to sweep before checking again whether a copy of the file is worth its memory.
const TOGETHER: u64 = 16;

impl Transaction {
    /// Inserts a key into a forgetting filter. Returns whether the key is new, or the region if it has no room.
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

    /// Advances to a later epoch. First sweeps expired entries, as far as needed.
    fn come_to(&mut self, epoch: u64) -> Result<()> {
        let regions = self.work.identity().geometry.regions();
        let empty = self.counts().entries() == 0;
        if epoch == self.counts.epoch + 1 {
            if !empty {
                self.sweep_to(regions)?;
            }
            self.counts.swept = 0;
        } else {
            // Entries that expire before or in the new epoch are removed now.
            if !empty {
                self.sweep(0..regions, epoch - self.counts.epoch)?;
            }
            self.counts.swept = regions;
        }
        self.counts.epoch = epoch;
        Ok(())
    }

    /// Removes the entries that expire in the current epoch, in all regions below `region`.
    fn sweep_to(&mut self, region: u64) -> Result<()> {
        while self.counts.swept < region {
            let until = region.min(self.counts.swept + TOGETHER);
            self.sweep(self.counts.swept..until, 0)?;
            self.counts.swept = until;
        }
        Ok(())
    }

    /// Sweeps the next regions, as a part of a commit. Stops at a damaged page, which lookups and repair report.
    pub(super) fn sweep_some(&mut self) {
        let (kind, regions) = (self.kind(), self.work.identity().geometry.regions());
        if kind == Kind::Forgetting && self.counts.swept < regions {
            let piece = LEAST.max(regions.div_ceil(PARTS));
            let _ = self.sweep_to(regions.min(self.counts.swept + piece));
        }
    }

    /// Removes the entries of these regions that expire in the current epoch, or in one of the next `later` epochs.
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

impl Writer {
    /// Inserts a key that was seen at `time` into a forgetting filter. The filter keeps the key from `time` on for the
    /// time that [`Options::forget_after`] set.
    ///
    /// The filter's own time is the latest of all keys' times; a key of [`insert`](Self::insert) has the time of the
    /// clock. It never goes back. An older key is stored for its remaining time.
    ///
    /// Fails with [`Error::Clock`] if the time advances by more than a year, and so far that every key would be forgotten
    /// at once. The time is the key's or, in `insert`, the clock's. `insert` also fails so if the clock is more than five
    /// minutes behind the filter's time. [`Options::clock_is_right`] allows both. Fails with [`Error::Kind`] on a filter
    /// of another kind.
    pub fn insert_at(&mut self, key: impl Key, time: SystemTime) -> Result<Seen> {
        let hash = self.hash(key)?;
        self.time_of_keys()?;
        if self.is_early(time) {
            return Ok(Seen::Early);
        }
        let Some(expiry) = self.expiry_at(time)? else { return Ok(Seen::Late) };
        Ok(if self.insert_one_until(hash, expiry)? { Seen::New } else { Seen::Known })
    }

    /// Inserts keys that were seen at these times into a forgetting filter, like repeated calls of
    /// [`insert_at`](Self::insert_at) but with the threads and the outcome of
    /// [`insert_batch`](crate::Batches::insert_batch). Errors as for both; [`Error::Option`] if the number of times
    /// differs from the number of keys.
    pub fn insert_batch_at<K: Key + Sync>(&mut self, keys: &[K], times: &[SystemTime]) -> Result<InsertedAt> {
        self.outcome_in_time(keys, times)
    }

    /// Like [`insert_batch_at`](Self::insert_batch_at), but calls `told` with the index of each key that is new, late or
    /// early, also before an error. Returns the indices of keys without room, each with its error, in ascending order; an
    /// absent key without room is also new. The indices of late keys ascend, and so do the indices of early keys.
    pub fn insert_each_at<K: Key + Sync>(
        &mut self,
        keys: &[K],
        times: &[SystemTime],
        told: impl FnMut(usize, Seen),
    ) -> Result<Vec<(usize, Error)>> {
        self.insert_in_time(keys, times, told)
    }

    /// Advances to the time of the clock, and removes every entry that has expired. Returns how many it removed.
    ///
    /// Lookups never find an expired entry, inserts reuse its room, and each commit sweeps some regions. So call this
    /// only for filters that get no keys for a long time: a filter's time advances only with its writer, so readers would
    /// still find the old keys. The sweep belongs to the transaction, as an insert does. Fails as `insert` does, and with
    /// [`Error::Damaged`] at the first damaged page.
    pub fn sweep(&mut self) -> Result<u64> {
        let before = self.state()?.transaction.counts().removed;
        self.expiry_now()?;
        self.change(|transaction| {
            let regions = transaction.work.identity().geometry.regions();
            transaction.sweep_to(regions)
        })??;
        Ok(self.state()?.transaction.counts().removed - before)
    }

    /// Like [`expiry_now`](Self::expiry_now), for a batch; `None` unless the filter forgets. Also returns how many new
    /// keys still fit in the same epoch.
    pub(super) fn until_now(&mut self) -> Result<(Option<Until<'static>>, usize)> {
        let Some(Forgetting { refresh, .. }) = self.state()?.transaction.work.identity().forgetting else {
            return Ok((None, usize::MAX));
        };
        let (expiry, time) = (self.expiry_now()?, self.time()?);
        let until = Until { now: time.epoch as u32, refresh, each: &[], expiry };
        Ok((Some(until), time.left()))
    }

    /// Inserts a key that expires in the epoch `expiry`, which must be later than the current epoch.
    pub(super) fn insert_one_until(&mut self, hash: KeyHash, expiry: u64) -> Result<bool> {
        let (max_kicks, refresh) = (self.options.max_kicks, self.time()?.forgetting.refresh);
        loop {
            let expiry = (expiry as u32, refresh);
            match self.change(|transaction| transaction.insert_until(hash, expiry, max_kicks))?? {
                Ok(new) => return Ok(new),
                Err(region) => self.make_room(region)?,
            }
        }
    }

    /// Inserts keys as [`InTime::insert_until`] says. With `refresh`, each key is present at least until its expiry,
    /// whatever matches it.
    pub(crate) fn insert_refreshing<K: Key + Sync>(
        &mut self,
        (keys, indices, each): time::Until<'_, K>,
        refresh: bool,
        mut new: impl FnMut(usize),
        mut refuse: impl FnMut(usize, Error),
    ) -> Result<()> {
        let identity = *self.state()?.transaction.work.identity();
        let path = self.files.data.clone();
        let until = Until { now: self.time()?.epoch as u32, refresh, each, expiry: 0 };
        let hash = hashes_of(identity.hasher, &path, keys);
        let mut buffers = std::mem::take(&mut self.buffers);
        let mode = (Mode::Insert(Kind::Forgetting, Told::New), Some(until));
        let mut new = |indices: &[u32]| indices.iter().for_each(|index| new(*index as usize));
        let mut refuse = |index: u32, error| refuse(index as usize, error);
        self.take_block(indices, &hash, mode, &mut buffers, &mut new, &mut refuse)?;
        self.buffers = buffers.kept();
        Ok(())
    }
}

impl InTime for Writer {
    type Error = Error;

    fn time(&self) -> Result<Time> {
        let transaction = &self.state()?.transaction;
        let identity = transaction.work.identity();
        let forgetting = identity.forgetting.ok_or_else(|| Error::Kind {
            path: self.files.data.clone(),
            found: identity.kind,
            wanted: Kind::Forgetting,
            op: "inserting keys at a time",
        })?;
        let (expiry_bits, counts) = (identity.geometry.width.expiry_bits(), transaction.counts());
        let (inserted, is_empty) = (counts.inserted, counts.entries() == 0);
        Ok(Time { forgetting, expiry_bits, epoch: counts.epoch, inserted, is_empty })
    }

    fn go_to(&mut self, epoch: u64) -> Result<()> {
        self.change(|transaction| transaction.come_to(epoch))?
    }

    fn insert_until<K: Key + Sync>(
        &mut self,
        keys: time::Until<'_, K>,
        refresh: bool,
        new: impl FnMut(usize),
        refuse: impl FnMut(usize, Error),
    ) -> Result<()> {
        self.insert_refreshing(keys, refresh, new, refuse)
    }

    fn own_path(&self) -> &Path {
        &self.files.data
    }

    fn own_options(&self) -> &Options {
        &self.options
    }
}
