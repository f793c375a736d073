//! Lookups in one version of a store.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::Store;
use super::error::{Error, Result};
use super::partition::divided;
use super::text::hex;
use super::version::{ShardFile, Version};
#[cfg(doc)]
use crate::Options;
use crate::cuckoo::Counts;
use crate::error::Error as FilterError;
use crate::info::Facts;
use crate::{Info, Key, KeyHash, Lookup, Reader, Report};

/// With fewer keys, starting a thread costs more than it saves.
const KEYS_WORTH_A_THREAD: usize = 32_768;
/// Keys that a thread divides by shard at a time.
const BLOCK: usize = 1 << 18;

/// A store open for lookups: a snapshot of one version. Clones share its maps; all methods may be called from any
/// thread.
///
/// The file of a shard is opened and mapped at the first lookup in it, after it was compared with what the version
/// says of it. Once opened, it is read even if a vacuum removes it. Later versions are seen after
/// [`refresh`](Self::refresh).
#[derive(Clone)]
pub struct StoreReader {
    store: Store,
    snapshot: Arc<Snapshot>,
}

impl fmt::Debug for StoreReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, version) = (self.store.path(), self.version().number);
        f.debug_struct("StoreReader").field("path", &path).field("version", &version).finish_non_exhaustive()
    }
}

struct Snapshot {
    version: Version,
    /// Of each shard its filter, once it was opened.
    filters: Vec<OnceLock<Reader>>,
    opening: Mutex<()>,
}

impl Snapshot {
    fn new(version: Version, shards: u32) -> Self {
        let filters = (0..shards).map(|_| OnceLock::new()).collect();
        Self { version, filters, opening: Mutex::new(()) }
    }
}

impl Store {
    /// Opens the newest version for lookups.
    pub fn read(&self) -> Result<StoreReader> {
        Ok(self.read_version(self.newest()?))
    }

    /// Opens a version for lookups, such as that [before](Self::before) a token.
    pub fn read_version(&self, version: Version) -> StoreReader {
        let snapshot = Arc::new(Snapshot::new(version, self.description.shards));
        StoreReader { store: self.clone(), snapshot }
    }

    /// Opens the filter that a version names for a shard, after comparing it with what the version says.
    pub(super) fn open_shard(&self, version: &Version, shard: u32, file: &ShardFile) -> Result<Reader> {
        let mut options = self.options.clone().sealed(true).threads(1);
        // What takes the name later is not what was compared with the version.
        options.follow = false;
        if let Some(folder) = &self.copies {
            let path = folder.join(file.file_name());
            match options.read(&path) {
                Err(FilterError::NotFound { .. }) => {}
                outcome => {
                    let reader = outcome?;
                    self.check_filter(&path, &reader, shard, file)?;
                    return Ok(reader);
                }
            }
        }
        let path = self.file_path(shard, file);
        let reader = match options.read(&path) {
            Err(FilterError::NotFound { .. }) => {
                let (path, gone) = (path, version.number);
                let is_vacuumed = !self.newest()?.keeps(gone);
                let vacuumed = Error::Vacuumed { path: path.clone(), version: gone };
                return Err(if is_vacuumed { vacuumed } else { Error::MissingFile { path, version: gone } });
            }
            outcome => outcome?,
        };
        self.check_filter(&path, &reader, shard, file)?;
        Ok(reader)
    }

    fn check_filter(&self, path: &Path, reader: &Reader, shard: u32, file: &ShardFile) -> Result<()> {
        let info = reader.info()?;
        let own = &self.description;
        let is_own = |is: bool| if is { "that of the store" } else { "another" }.to_owned();
        let pairs = [
            ("number of shards", info.shards.to_string(), own.shards.to_string()),
            ("shard", info.shard.to_string(), shard.to_string()),
            ("kind", info.kind.name().to_owned(), own.kind.name().to_owned()),
            ("hash", format!("{:?}", info.hash), format!("{:?}", own.hash)),
            // No message shows a seed.
            ("seed", is_own(info.seed == own.seed), is_own(true)),
            (
                "number of slots",
                info.slots_per_bucket.get().to_string(),
                own.slots_per_bucket.get().to_string(),
            ),
            ("uuid", hex(&info.uuid), hex(&file.uuid())),
            ("commit", info.commit.to_string(), file.commit.to_string()),
            ("length", info.file_length.to_string(), file.bytes.to_string()),
            ("number of entries", info.entries.to_string(), file.entries.to_string()),
        ];
        for (what, found, expected) in pairs {
            if found != expected {
                return Err(Error::WrongFile { path: path.to_owned(), what, found, expected });
            }
        }
        Ok(())
    }
}

impl StoreReader {
    /// The version that is looked into.
    pub fn version(&self) -> &Version {
        &self.snapshot.version
    }

    /// The store.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Moves to the newest version; true if that is another one. The files of shards that it has not changed stay open.
    /// If this fails, the version stays as it was.
    pub fn refresh(&mut self) -> Result<bool> {
        let newest = self.store.newest()?;
        let old = &self.snapshot;
        if newest.number == old.version.number {
            return Ok(false);
        }
        let next = Snapshot::new(newest, self.store.description.shards);
        for (shard, file) in &next.version.shards {
            let (at, same) =
                (*shard as usize, old.version.shards.get(shard).is_some_and(|old| old.name == file.name));
            if let (true, Some(Some(filter)), Some(place)) =
                (same, old.filters.get(at).map(OnceLock::get), next.filters.get(at))
            {
                let _ = place.set(filter.clone());
            }
        }
        self.snapshot = Arc::new(next);
        Ok(true)
    }

    /// The filter of a shard; `None` if the shard is empty, or there is no such shard.
    pub fn shard(&self, shard: u32) -> Result<Option<&Reader>> {
        let Snapshot { version, filters, opening } = &*self.snapshot;
        let (Some(file), Some(place)) = (version.shards.get(&shard), filters.get(shard as usize)) else {
            return Ok(None);
        };
        if let Some(filter) = place.get() {
            return Ok(Some(filter));
        }
        let _one_at_a_time = opening.lock().unwrap_or_else(PoisonError::into_inner);
        if place.get().is_none() {
            let _ = place.set(self.store.open_shard(version, shard, file)?);
        }
        Ok(place.get())
    }

    fn filter_of(&self, hash: KeyHash) -> Result<Option<&Reader>> {
        self.shard(self.store.description.shard_of(hash))
    }

    /// The version in numbers. No file of a shard is opened for it.
    pub fn info(&self) -> StoreInfo {
        StoreInfo::of(&self.store, self.version())
    }

    /// All shards together, as one filter describes itself; every file is opened. Regions and generation are those of
    /// a shard at its creation, and nothing is forecast.
    pub fn filter_info(&self) -> Result<Info> {
        let own = &self.store.description;
        let (identity, policy) = own.options(0).design(self.store.path())?;
        let facts = Facts {
            identity,
            policy,
            counts: Counts::default(),
            commit: 0,
            journal_length: 0,
            key_rules: Some(own.key_rules),
        };
        let mut all = Info { slots: 0, forecast: Vec::new(), ..Info::from(facts) };
        for shard in self.version().shards.keys() {
            let Some(filter) = self.shard(*shard)? else { continue };
            let info = filter.info()?;
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
        let StoreInfo { version, bytes, bits_per_key, expected_false_positive_rate, .. } = self.info();
        all.uuid = own.uuid;
        (all.shards, all.capacity) = (1, own.capacity);
        (all.commit, all.file_length, all.bits_per_key) = (version, bytes, bits_per_key);
        all.expected_false_positive_rate = expected_false_positive_rate;
        Ok(all)
    }

    /// Reads every page of every file that the version names, as [`Reader::verify`] does, on as many threads as
    /// [`Options::threads`] says. Gives what was found of each shard that has a file, in order.
    ///
    /// `progress` is told the files read, and all there are. A file that cannot be opened, or is not the one that the
    /// version names, is an error in its shard's place.
    pub fn verify(&self, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Vec<(u32, Result<Report>)>> {
        let shards: Vec<u32> = self.version().shards.keys().copied().collect();
        let (all, done) = (shards.len() as u64, Mutex::new(0));
        let mut reports = divided(shards, self.store.options.threads, |shard| {
            let verified = self.shard(shard).and_then(|filter| {
                Ok(filter.map(|filter| filter.verify(&mut |_, _| {})).transpose()?.unwrap_or_default())
            });
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            *done += 1;
            progress(*done, all);
            Ok((shard, verified))
        })?;
        reports.sort_by_key(|(shard, _)| *shard);
        Ok(reports)
    }
}

/// The file of a shard is opened at its first lookup, and must be the one that the version names.
impl Lookup for StoreReader {
    type Error = Error;

    #[inline]
    fn contains<K: Key>(&self, key: K) -> Result<bool> {
        let hash = self.store.hash(key)?;
        Ok(self.filter_of(hash)?.map_or(Ok(false), |filter| filter.contains(hash))?)
    }

    #[inline]
    fn count<K: Key>(&self, key: K) -> Result<u32> {
        let hash = self.store.hash(key)?;
        Ok(self.filter_of(hash)?.map_or(Ok(0), |filter| filter.count(hash))?)
    }

    fn contains_batch<K: Key + Sync>(&self, keys: &[K]) -> Result<Vec<bool>> {
        let mut found = vec![false; keys.len()];
        let threads = self.store.options.threads.min(keys.len() / KEYS_WORTH_A_THREAD).max(1);
        let part = keys.len().div_ceil(threads).clamp(1, BLOCK);
        let parts: Vec<_> = keys.chunks(part).zip(found.chunks_mut(part)).collect();
        divided(parts, threads, |(keys, found)| {
            let partition = self.store.partition(keys)?;
            for (shard, _) in &partition.shards {
                let Some(filter) = self.shard(*shard)? else { continue };
                let answers = filter.contains_batch(partition.hashes_of(*shard))?;
                for (index, answer) in partition.indices_of(*shard).iter().zip(answers) {
                    if let Some(place) = found.get_mut(*index as usize) {
                        *place = answer;
                    }
                }
            }
            Ok(())
        })?;
        Ok(found)
    }
}

/// A version of a store in numbers.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct StoreInfo {
    /// The number of the version.
    pub version: u64,
    /// Shards that have a file; the others are empty.
    pub files: u64,
    /// Entries in all shards.
    pub entries: u64,
    /// Bytes of all files of shards.
    pub bytes: u64,
    /// Bits of the files per entry; `None` while there are no entries.
    pub bits_per_key: Option<f64>,
    /// The chance that a key never inserted is found: the mean of the shards' rates, as such a key belongs to each shard
    /// with the same chance.
    pub expected_false_positive_rate: f64,
    /// The highest rate of a shard.
    pub highest_false_positive_rate: f64,
}

impl StoreInfo {
    fn of(store: &Store, version: &Version) -> Self {
        let (entries, bytes) = (version.entries(), version.bytes());
        let rates = || version.shards.values().map(|file| file.expected_false_positive_rate);
        Self {
            version: version.number,
            files: version.shards.len() as u64,
            entries,
            bytes,
            bits_per_key: (entries != 0).then(|| bytes as f64 * 8.0 / entries as f64),
            expected_false_positive_rate: rates().sum::<f64>() / f64::from(store.description.shards),
            highest_false_positive_rate: rates().fold(0.0, f64::max),
        }
    }
}
