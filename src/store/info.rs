//! A version of a store in numbers.

use super::Store;
use super::error::Result;
use super::reader::StoreReader;
use super::version::Version;
use crate::cuckoo::{Counts, FIRST_EPOCH};
use crate::info::Facts;
use crate::{Info, Reader, Retention};

impl StoreReader {
    /// The version in numbers. Opens no file of a shard, and a run only if some shards have folded it. A run that cannot
    /// be read counts in full; [`verify`](Self::verify) returns the reason.
    pub fn info(&self) -> StoreInfo {
        let version = self.version();
        let pending = (0..).zip(&version.runs);
        let pending = pending.map(|(place, run)| self.count_unfolded(place).unwrap_or(run.records));
        StoreInfo::of(&self.store, version, pending.fold(0, u64::saturating_add))
    }

    /// All shards together, as one filter describes itself. Opens every file. Regions and generation describe a shard at
    /// its creation, and there is no forecast. Pending records count among `entries` and `inserted`, as in
    /// [`StoreInfo::entries`]; all other numbers, the load too, are those of the files.
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
        // The load counts only the files.
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
    /// How many shards have a file; the others have at most pending records.
    pub files: u64,
    /// How many runs are not folded into all shards.
    pub runs: u64,
    /// How many records of the runs are not yet in the files of their shards.
    pub pending: u64,
    /// How many bytes all runs have.
    pub run_bytes: u64,
    /// Entries in the files of all shards, plus `pending`: the most entries that the files can have once all records are
    /// folded. There are fewer in a set if a filter cannot distinguish some of the keys. There may be fewer in other
    /// stores: a record may add a further copy of a key, remove one, or refresh a key that is present.
    pub entries: u64,
    /// How many bytes all files of shards and all runs have.
    pub bytes: u64,
    /// Bits of the files per entry; `None` without entries.
    pub bits_per_key: Option<f64>,
    /// The chance that a key never inserted is found: the mean of the shards' rates, as such a key belongs to each shard
    /// with the same chance.
    pub expected_false_positive_rate: f64,
    /// The highest rate of a shard.
    pub highest_false_positive_rate: f64,
    /// The time of a forgetting store: the beginning of its epoch, in milliseconds since 1970. `None` before its first
    /// key, and in other stores.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::store::ShardFile;
    use crate::store::files::Name;
    use crate::{Batches as _, Options};

    #[test]
    fn the_numbers_of_a_version_are_those_of_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new().capacity(1000).forget_after(Duration::from_secs(3600));
        let store = Store::create(dir.path().join("s"), 8, &options).unwrap();
        let file = |entries, bytes, rate| ShardFile {
            name: Name { base: 1, uuid: [0; 16] },
            commit: 1,
            bytes,
            entries,
            expected_false_positive_rate: rate,
            since: 2,
            folded: 1,
            epoch: 1,
        };
        let shards = BTreeMap::from([(0, file(100, 3000, 0.25)), (5, file(60, 1000, 0.5))]);
        let version = Version { shards, ..Version::first([0; 16], FIRST_EPOCH) };
        let info = StoreInfo::of(&store, &version, 40);
        assert_eq!((info.version, info.files, info.pending, info.entries, info.bytes), (1, 2, 40, 200, 4000));
        assert_eq!(info.bits_per_key, Some(160.0));
        assert_eq!((info.expected_false_positive_rate, info.highest_false_positive_rate), (0.09375, 0.5));
        assert_eq!(info.store_time, None);
        let within = store.description.retention.unwrap().forget_within;
        let later = Version { epoch: FIRST_EPOCH + 6, ..Version::first([0; 16], 0) };
        let info = StoreInfo::of(&store, &later, 0);
        assert_eq!((info.store_time, info.bits_per_key), (Some((FIRST_EPOCH + 6) * within), None));
    }

    #[test]
    fn a_store_described_as_one_filter_has_the_sums_of_its_files_and_what_is_pending() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new().capacity(1000).counting();
        let store = Store::create(dir.path().join("s"), 2, &options).unwrap();
        let keys: Vec<[u8; 8]> = (0..500_u64).map(u64::to_le_bytes).collect();
        let insert = |keys: &[[u8; 8]]| {
            let mut update = store.update().unwrap();
            update.insert_batch(keys).unwrap().complete().unwrap();
            update.commit("insert", None).unwrap();
        };
        insert(&keys);
        insert(&keys);
        store.compact(true, &|_, _| {}).unwrap();
        let mut update = store.update().unwrap();
        update.remove_batch(&keys[..100]).unwrap();
        update.commit("remove", None).unwrap();
        store.compact(true, &|_, _| {}).unwrap();
        insert(&keys[..7]);
        let reader = store.read().unwrap();
        let files: Vec<Info> =
            [0, 1].map(|shard| reader.file_of(shard).unwrap().unwrap().info().unwrap()).to_vec();
        let sum = |of: fn(&Info) -> u64| files.iter().map(of).sum::<u64>();
        let info = reader.filter_info().unwrap();
        assert_eq!(info.entries, sum(|info| info.entries) + 7);
        assert_eq!(info.inserted, sum(|info| info.inserted) + 7);
        assert_eq!((info.removed, info.copies), (sum(|info| info.removed), sum(|info| info.copies)));
        assert!(info.removed > 0 && info.digits > 0 && info.inserted > 500);
        assert_eq!((info.digits, info.slots), (sum(|info| info.digits), sum(|info| info.slots)));
        let tails =
            files[0].entries_by_tail.iter().zip(&files[1].entries_by_tail).map(|(one, other)| one + other);
        assert!(info.entries_by_tail.iter().copied().eq(tails));
        let load = (sum(|info| info.entries) + info.digits) as f64 / info.slots as f64;
        assert_eq!(info.load, load);
    }
}
