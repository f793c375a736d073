//! A version of a store in numbers.

use super::Store;
use super::error::Result;
use super::reader::StoreReader;
use super::version::Version;
use crate::cuckoo::{Counts, FIRST_EPOCH};
use crate::info::Facts;
use crate::{Info, Reader, Retention};

impl StoreReader {
    /// The version in numbers. No file of a shard is opened for it, and a run only if some shards have folded it. Such a
    /// run that cannot be read counts whole; [`verify`](Self::verify) tells why.
    pub fn info(&self) -> StoreInfo {
        let version = self.version();
        let pending = (0..).zip(&version.runs);
        let pending = pending.map(|(place, run)| self.count_unfolded(place).unwrap_or(run.records));
        StoreInfo::of(&self.store, version, pending.fold(0, u64::saturating_add))
    }

    /// All shards together, as one filter describes itself; every file is opened. Regions and generation are those of
    /// a shard at its creation, and nothing is forecast.
    pub fn filter_info(&self) -> Result<Info> {
        let own = &self.store.description;
        let (identity, policy) = own.options(0).design(self.store.path())?;
        let facts = Facts {
            identity,
            policy,
            counts: Counts { epoch: self.version().epoch, ..Counts::default() },
            commit: 0,
            journal_length: 0,
            key_rules: Some(own.key_rules),
        };
        let mut all = Info { slots: 0, forecast: Vec::new(), ..Info::from(facts) };
        for shard in self.version().shards.keys() {
            let Some(info) = self.look(*shard, Reader::info)? else { continue };
            all.slots += info.slots;
            all.entries += info.entries;
            all.digits += info.digits;
            all.saturated += info.saturated;
            all.copies += info.copies;
            all.inserted += info.inserted;
            all.removed += info.removed;
            all.quarantined_buckets += info.quarantined_buckets;
            all.entries_by_tail.iter_mut().zip(&info.entries_by_tail).for_each(|(all, of)| *all += of);
        }
        let quarantined = all.quarantined_buckets * u64::from(own.slots_per_bucket.get());
        all.load = (all.entries + all.digits + quarantined) as f64 / all.slots.max(1) as f64;
        let StoreInfo { version, pending, bytes, bits_per_key, expected_false_positive_rate, .. } =
            self.info();
        // The load is that of the files.
        all.entries += pending;
        all.inserted += pending;
        all.uuid = own.uuid;
        (all.shards, all.capacity) = (1, own.capacity);
        (all.commit, all.file_length, all.bits_per_key) = (version, bytes, bits_per_key);
        all.expected_false_positive_rate = expected_false_positive_rate;
        Ok(all)
    }
}

/// A version of a store in numbers.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct StoreInfo {
    /// The number of the version.
    pub version: u64,
    /// Shards that have a file; the others have nothing but what is pending for them.
    pub files: u64,
    /// Runs that are not folded into all shards.
    pub runs: u64,
    /// Records in the runs that are not in the files of their shards yet.
    pub pending: u64,
    /// Bytes of all runs.
    pub run_bytes: u64,
    /// Entries in the files of all shards, and `pending`. In a set that is what the files will have once all is folded;
    /// in a counting store it is the most that they can have, as a record may bring a further copy of a key, or take one.
    pub entries: u64,
    /// Bytes of all files of shards, and of all runs.
    pub bytes: u64,
    /// Bits of the files per entry; `None` while there are no entries.
    pub bits_per_key: Option<f64>,
    /// The chance that a key never inserted is found: the mean of the shards' rates, as such a key belongs to each shard
    /// with the same chance.
    pub expected_false_positive_rate: f64,
    /// The highest rate of a shard.
    pub highest_false_positive_rate: f64,
    /// The time that a forgetting store has come to: the begin of its epoch, in milliseconds since 1970. `None` before its
    /// first key, and in other stores.
    pub store_time: Option<u64>,
}

impl StoreInfo {
    fn of(store: &Store, version: &Version, pending: u64) -> Self {
        let of_files = version.shards.values().map(|file| file.entries);
        let (entries, bytes) = (of_files.fold(pending, u64::saturating_add), version.bytes());
        let rates = || version.shards.values().map(|file| file.expected_false_positive_rate);
        Self {
            version: version.number,
            files: version.shards.len() as u64,
            runs: version.runs.len() as u64,
            pending,
            run_bytes: version.runs.iter().map(|run| run.bytes).fold(0, u64::saturating_add),
            entries,
            bytes,
            bits_per_key: (entries != 0).then(|| bytes as f64 * 8.0 / entries as f64),
            expected_false_positive_rate: rates().fold(0.0, |sum, rate| sum + rate)
                / f64::from(store.description.shards),
            highest_false_positive_rate: rates().fold(0.0, f64::max),
            store_time: store.description.retention.filter(|_| version.epoch > FIRST_EPOCH).map(|of| {
                let Retention { forget_within, .. } = of;
                version.epoch.saturating_mul(forget_within)
            }),
        }
    }
}
