//! Forgetting stores: the epoch of an update, and keys with the times at which they were seen (`format-spec/STORE.md`,
//! section 14).
//!
//! Invariant: an update judges by one epoch, not before its base's. Its commit advances the store to this epoch.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Store;
use super::error::{Error, Result};
use super::fold::Operation;
use super::reader::StoreReader;
use super::update::Update;
use super::version::Version;
use crate::cuckoo::forgetting;
use crate::write::{InTime, Inserted, InsertedAt, Seen, Time, Told, Until, millis};
use crate::{Error as FilterError, Key, KeyHash, Kind, Options};

impl Store {
    /// How the store forgets, and the time of a version; [`Kind`](FilterError::Kind) if the store does not forget.
    fn time_of(&self, version: &Version, epoch: u64) -> Result<Time> {
        let own = &self.description;
        let forgetting = own.forgetting().ok_or_else(|| FilterError::Kind {
            path: self.root.clone(),
            found: own.kind,
            wanted: Kind::Forgetting,
            op: "inserting keys at a time",
        })?;
        let is_empty = version.entries() == 0;
        Ok(Time { forgetting, expiry_bits: own.expiry_bits, epoch, inserted: 0, is_empty })
    }

    /// Publishes a version at the time of the clock, if the newest version of a forgetting store is of an earlier epoch.
    /// Returns the newest version, and whether it was published here.
    pub(super) fn come_to_clock(&self) -> Result<(Version, bool)> {
        let newest = self.newest()?;
        if self.description.retention.is_none() {
            return Ok((newest, false));
        }
        let mut update = self.update_over(self.read_strictly(newest.clone()));
        update.expiry_now()?;
        let (epoch, number) = (update.base.now, newest.number);
        let published = self.publish_upkeep(number, "time", |newest| {
            Ok((newest.epoch < epoch).then(|| Version { epoch, ..newest.clone() }))
        })?;
        published.map_or_else(|| Ok((self.newest()?, false)), |version| Ok((version, true)))
    }
}

impl Store {
    /// The time at which an update of this version sees keys that come now: the clock's, or the version's if that is
    /// later. For a version [before](Self::before) a committed token, the time of that commit. `None` if the store does
    /// not forget. Fails with [`Error::Clock`](FilterError::Clock) as an insert does.
    ///
    /// Programs that divide a batch among processes call this once, look keys up [at that time](StoreReader::at_time),
    /// and insert them [with it](Update::insert_batch_at). If each process read its own clock, a key could have expired
    /// for one process and not for another.
    pub fn update_time(&self, version: &Version) -> Result<Option<SystemTime>> {
        let Some(forgetting) = self.description.forgetting() else { return Ok(None) };
        let begin = |epoch: u64| UNIX_EPOCH + Duration::from_millis(epoch.saturating_mul(forgetting.epoch));
        if let Some(epoch) = version.until {
            return Ok(Some(begin(epoch)));
        }
        let mut update = self.update_over(self.read_strictly(version.clone()));
        update.expiry_now()?;
        Ok(Some(begin(update.base.now).max(self.options.clock())))
    }
}

impl StoreReader {
    /// A reader of the same version that judges by this time, if it is later than the version's: keys that have expired
    /// by then are absent. The same reader if the store does not forget.
    pub fn at_time(&self, time: SystemTime) -> Self {
        let forgetting = self.store.description.forgetting();
        forgetting.map_or_else(|| self.clone(), |forgetting| self.at(forgetting.epoch_of(millis(time))))
    }

    /// Whether all entries of a shard's file have expired; with `any`, whether some may have.
    pub(super) fn has_expired(&self, shard: u32, any: bool) -> bool {
        let own = &self.store.description;
        let lives = if any { 1 } else { forgetting::most_epochs(own.expiry_bits) };
        let file = self.version().shards.get(&shard).filter(|file| file.entries > 0);
        own.retention.is_some() && file.is_some_and(|file| file.epoch + lives <= self.now)
    }
}

impl Update {
    /// Whether the store forgets keys.
    pub(super) const fn forgets(&self) -> bool {
        self.store.description.retention.is_some()
    }

    /// Inserts a key that was seen at this time into a forgetting store, like
    /// [`Writer::insert_at`](crate::Writer::insert_at) for a filter. Inserting many together is much faster.
    pub fn insert_at(&mut self, key: impl Key + Sync, time: SystemTime) -> Result<Seen> {
        let hash = self.store.hash(key)?;
        let mut outcome = Seen::Known;
        let refused = self.insert_in_time(&[hash], &[time], |_, seen| outcome = seen)?;
        refused.into_iter().next().map_or(Ok(outcome), |(_, error)| Err(error.into()))
    }

    /// Inserts keys that were seen at these times into a forgetting store, like
    /// [`Writer::insert_batch_at`](crate::Writer::insert_batch_at) for a filter. The commit advances the store to the
    /// time of the latest key.
    pub fn insert_batch_at<K: Key + Sync>(&mut self, keys: &[K], times: &[SystemTime]) -> Result<InsertedAt> {
        self.outcome_in_time(keys, times)
    }

    /// Inserts keys that a forgetting store keeps for these lifetimes from now on, like
    /// [`Writer::insert_batch_for`](crate::Writer::insert_batch_for) for a filter.
    pub fn insert_batch_for<K: Key + Sync>(
        &mut self,
        keys: &[K],
        lifetimes: &[Duration],
    ) -> Result<Inserted> {
        self.outcome_for_lifetimes(keys, lifetimes)
    }

    /// Like [`insert_batch_for`](Self::insert_batch_for), but calls `new` with the index of each new key. See
    /// [`Writer::insert_each_for`](crate::Writer::insert_each_for).
    pub fn insert_each_for<K: Key + Sync>(
        &mut self,
        keys: &[K],
        lifetimes: &[Duration],
        new: impl FnMut(usize),
    ) -> Result<Vec<(usize, FilterError)>> {
        self.insert_for_lifetimes(keys, lifetimes, new)
    }

    /// Like [`insert_batch_at`](Self::insert_batch_at), but calls `seen` with the index of each key that is new, late or
    /// early. See [`Writer::insert_each_at`](crate::Writer::insert_each_at).
    pub fn insert_each_at<K: Key + Sync>(
        &mut self,
        keys: &[K],
        times: &[SystemTime],
        seen: impl FnMut(usize, Seen),
    ) -> Result<Vec<(usize, FilterError)>> {
        self.insert_in_time(keys, times, seen)
    }
}

impl InTime for Update {
    type Error = Error;

    fn time(&self) -> Result<Time> {
        let time = self.store.time_of(self.base(), self.base.now)?;
        Ok(Time { is_empty: time.is_empty && self.touched() == 0, ..time })
    }

    fn go_to(&mut self, epoch: u64) -> Result<()> {
        self.base = self.base.at(epoch);
        self.shards.iter_mut().try_for_each(|held| held.come_to(epoch))
    }

    fn insert_until<K: Key + Sync>(
        &mut self,
        (keys, indices, expiries): Until<'_, K>,
        refresh: bool,
        mut new: impl FnMut(usize),
        mut refuse: impl FnMut(usize, FilterError),
    ) -> Result<()> {
        let at = |place: usize| indices.get(place).map_or(0, |index| *index as usize);
        let key = |index: &u32| keys.get(*index as usize).map(|key| self.store.hash_of(key));
        let hashes: Vec<KeyHash> = indices.iter().filter_map(key).collect::<Result<_>>()?;
        let expiry = |place: usize| expiries.get(at(place)).copied().unwrap_or_default();
        self.prolongs |= refresh;
        let operation = if refresh { Operation::Prolong } else { Operation::Insert(Told::New) };
        let refused = self.take_all(&hashes, operation, &expiry, |place| new(at(place)))?;
        refused.into_iter().for_each(|(place, error)| refuse(at(place), error));
        Ok(())
    }

    fn last_epoch(&self) -> u64 {
        // A repeated commit is judged as it was the first time.
        self.base().until.unwrap_or(u64::MAX)
    }

    fn own_path(&self) -> &Path {
        self.store.path()
    }

    fn own_options(&self) -> &Options {
        &self.store.options
    }
}
