//! Lookups in one version of a store.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::Store;
use super::error::{Error, Result};
use super::files;
use super::partition::divided;
use super::run::Run;
use super::sieve::Sieving;
use super::text::hex;
use super::version::{RunFile, ShardFile, Version};
use crate::error::{Error as FilterError, Result as FilterResult};
use crate::{Key, Lookup, OnDamage, Options, Reader, Report, events};

/// For fewer keys, starting a thread costs more than it saves.
const KEYS_WORTH_A_THREAD: usize = 32_768;
/// How many objects are fetched at the same time.
const FETCHES: usize = 8;
/// How often a file is fetched again because other processes removed it from the cache before it was open.
const REMOVALS: u32 = 100;
/// How many keys a thread divides by shard at a time.
const BLOCK: usize = 1 << 18;

/// A store open for lookups: a snapshot of one version. Clones share its maps; all methods may be called from any thread.
///
/// The file of a shard is opened and mapped at the first lookup in it, after a comparison with the version's description.
/// An open file is read even after a vacuum removes it. Later versions are seen after [`reload`](Self::reload).
///
/// After many lookups in a version with runs, the reader takes 2 to 4 bytes of memory for each record of the runs.
#[derive(Clone)]
pub struct StoreReader {
    pub(super) store: Store,
    pub(super) snapshot: Arc<OpenVersion>,
    /// The epoch by which a forgetting store is judged: the version's, or an update's; 0 in other stores.
    pub(super) now: u64,
}

impl fmt::Debug for StoreReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, version) = (self.store.path(), self.version().number);
        f.debug_struct("StoreReader").field("path", &path).field("version", &version).finish_non_exhaustive()
    }
}

pub(super) struct OpenVersion {
    pub(super) version: Version,
    /// One for each shard.
    filters: Vec<Opened>,
    /// One for each run of the version.
    pub(super) runs: Vec<Arc<OnceLock<Run>>>,
    /// One for each shard, if the version has runs.
    pub(super) sieves: Vec<Sieving>,
    pub(super) opening: Mutex<()>,
}

impl OpenVersion {
    fn new(version: Version, shards: u32) -> Self {
        let filters = (0..shards).map(|_| Opened::default()).collect();
        let runs = version.runs.iter().map(|_| Arc::default()).collect();
        let sieved = if version.runs.is_empty() { 0 } else { shards };
        let sieves = (0..sieved).map(|_| Sieving::default()).collect();
        Self { version, filters, runs, sieves, opening: Mutex::new(()) }
    }
}

/// The files that the last committed update of a store and its clones has opened, for the next update: opening, mapping
/// and verifying them again would be most of the work of a small commit. An update that fails leaves none, so that the
/// next update sees files that the user has repaired.
#[derive(Clone, Default)]
pub(super) struct LeftOpen(Arc<Mutex<Option<Arc<OpenVersion>>>>);

impl LeftOpen {
    pub(super) fn keep(&self, reader: &StoreReader) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&reader.snapshot));
    }

    /// Closes the files, unless another reader still uses them.
    pub(super) fn take(&self) -> Option<Arc<OpenVersion>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The filter of a shard, after it was opened.
#[derive(Clone, Default)]
struct Opened {
    /// The store's own file. It takes precedence over a copy: it is opened once the copy has failed.
    own: OnceLock<Reader>,
    copy: OnceLock<Reader>,
}

/// A file that is not open yet, and the place for the open file.
enum Closed<'a> {
    Shard(u32, &'a ShardFile, &'a Opened),
    Run(&'a RunFile, &'a OnceLock<Run>),
}

impl Opened {
    fn get(&self) -> Option<&Reader> {
        self.own.get().or_else(|| self.copy.get())
    }
}

/// Whether a local copy, or its folder, no longer exists.
fn is_gone(error: &Error) -> bool {
    match error {
        Error::Filter(FilterError::NotFound { .. }) => true,
        // A folder that is removed while it is being made is reported to exist.
        Error::Filter(FilterError::Io { source, .. }) => {
            matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists)
        }
        _ => false,
    }
}

impl Store {
    /// Opens the newest version for lookups.
    pub fn read(&self) -> Result<StoreReader> {
        Ok(self.read_version(self.newest()?))
    }

    /// Opens a version for lookups, for example the version [before](Self::before) a token.
    pub fn read_version(&self, version: Version) -> StoreReader {
        let now = version.epoch;
        let snapshot = Arc::new(OpenVersion::new(version, self.description.shards));
        StoreReader { store: self.clone(), snapshot, now }
    }

    /// Opens a version for changes, folds and merges: damage is an error. If damage were answered by "present", keys
    /// would not be stored.
    pub(super) fn read_strictly(&self, version: Version) -> StoreReader {
        let options = self.options.clone().on_damage(OnDamage::Error);
        Self { options, ..self.clone() }.read_version(version)
    }

    /// Like `read_strictly`, with the files that the last update has left open.
    pub(super) fn read_for_update(&self, version: Version) -> StoreReader {
        let reader = self.read_strictly(version);
        match self.left_open.take() {
            Some(snapshot) => StoreReader { snapshot, ..reader.clone() }.moved_to(reader.version().clone()),
            None => reader,
        }
    }

    /// Opens the copy of a shard's file, after comparing it with the version's description; `None` if there is no copy,
    /// or if it fails.
    pub(super) fn open_copy(&self, shard: u32, file: &ShardFile) -> Option<Reader> {
        let path = self.copies.as_ref()?.folder.join(file.file_name());
        // Damage in a copy is no damage in the store: it must not answer "present".
        let options = self.sealed_options().on_damage(OnDamage::Error);
        let copy = match options.read(&path) {
            Err(FilterError::NotFound { .. }) => return None,
            outcome => outcome.map_err(Error::from),
        };
        let copy = copy.and_then(|copy| self.check_filter(&path, &copy, shard, file).map(|()| copy));
        copy.inspect_err(|error| self.refuse_copy(&path, error)).ok()
    }

    /// Records that a copy failed.
    pub(super) fn refuse_copy(&self, path: &Path, error: &Error) {
        events::copy_refused(path, error);
        if let Some(copies) = &self.copies {
            let mut refused = copies.refused.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(place) = refused.binary_search_by(|other| other.as_path().cmp(path)) {
                refused.insert(place, path.to_owned());
            }
        }
    }

    fn sealed_options(&self) -> Options {
        let mut options = self.options.clone().sealed(true).threads(1);
        // A file that later takes the name was not compared with the version.
        options.follow = false;
        options
    }

    /// Opens the file that a version names for a shard, after comparing it with the version's description.
    pub(super) fn open_shard(&self, version: &Version, shard: u32, file: &ShardFile) -> Result<Reader> {
        let name = files::shard(shard, &file.name);
        self.opened(&name, version, |path| {
            let mut options = self.sealed_options();
            if self.storage.is_object_store() {
                // Damage in a copy is no damage in the store: it must not answer "present".
                options = options.on_damage(OnDamage::Error);
            }
            let reader = options.read(path)?;
            self.check_filter(path, &reader, shard, file)?;
            Ok(reader)
        })
    }

    /// Opens the local file of an object that a version names. A copy that fails is fetched once more.
    pub(super) fn opened<T>(
        &self,
        name: &str,
        version: &Version,
        open: impl Fn(&Path) -> Result<T>,
    ) -> Result<T> {
        let is_copy = self.storage.is_object_store();
        let (mut removals, mut is_fresh) = (0, false);
        let opened = loop {
            let opened = match self.storage.local(name).map_err(Error::from) {
                Ok(path) => open(&path),
                Err(error @ Error::Filter(FilterError::Io { .. })) if is_gone(&error) => Err(error),
                Err(error) => break Err(error),
            };
            match opened {
                Err(error) if is_copy && removals < REMOVALS && is_gone(&error) => removals += 1,
                Err(_) if is_copy && !is_fresh => {
                    self.storage.forget(name);
                    is_fresh = true;
                }
                outcome => break outcome,
            }
        };
        match opened {
            Err(Error::Filter(FilterError::NotFound { .. })) => {
                Err(self.missing(self.path_of(name), version)?)
            }
            outcome => outcome,
        }
    }

    /// The error for a file that is missing although a version names it.
    pub(super) fn missing(&self, path: PathBuf, version: &Version) -> Result<Error> {
        let version = version.number;
        let is_vacuumed = !self.newest()?.keeps(version);
        Ok(if is_vacuumed { Error::Vacuumed { path, version } } else { Error::MissingFile { path, version } })
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
            ("retention", format!("{:?}", info.retention), format!("{:?}", own.retention)),
            ("epoch", own.epoch_of(&info).to_string(), file.epoch.to_string()),
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
    /// The version that this reader looks into.
    pub fn version(&self) -> &Version {
        &self.snapshot.version
    }

    /// The store.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Moves to the newest version. Returns true if that is another one. Files that both versions name stay open. If this
    /// fails, the reader keeps its version.
    pub fn reload(&mut self) -> Result<bool> {
        let newest = self.store.newest()?;
        if newest.number == self.version().number {
            return Ok(false);
        }
        *self = self.moved_to(newest);
        Ok(true)
    }

    /// A reader of the same version that judges by this epoch, or by its own epoch if that is later.
    pub(super) fn at(&self, epoch: u64) -> Self {
        Self { now: self.now.max(epoch), ..self.clone() }
    }

    /// A reader of another version. Files that both versions name stay open.
    pub(super) fn moved_to(&self, newest: Version) -> Self {
        let old = &self.snapshot;
        let mut next = OpenVersion::new(newest, self.store.description.shards);
        for (shard, file) in &next.version.shards {
            let (at, same) =
                (*shard as usize, old.version.shards.get(shard).is_some_and(|old| old.name == file.name));
            if let (true, Some(opened), Some(place)) = (same, old.filters.get(at), next.filters.get_mut(at)) {
                *place = opened.clone();
            }
        }
        for (file, place) in next.version.runs.iter().zip(&mut next.runs) {
            let known = old.version.runs.iter().zip(&old.runs).find(|(known, _)| known.name == file.name);
            known.into_iter().for_each(|(_, opened)| *place = opened.clone());
        }
        let now = next.version.epoch;
        Self { store: self.store.clone(), snapshot: Arc::new(next), now }
    }

    /// The filter of a shard, for lookups without this reader; `None` if the shard is empty. Errors as for lookups, and
    /// [`Error::Pending`] if runs have records of the shard, which no reader of its file would find.
    pub fn shard(&self, shard: u32) -> Result<Option<&Reader>> {
        if self.count_pending(shard)? > 0 {
            return Err(Error::Pending { path: self.store.path().to_owned(), shard });
        }
        self.file_of(shard)
    }

    /// The filter in the file of a shard; `None` if the shard has no file, or does not exist. Its pending records are not
    /// in the file: to look up keys, use this reader. If there is a [copy](Store::copies), the filter is the copy, until
    /// one of this reader's lookups in it fails.
    pub fn file_of(&self, shard: u32) -> Result<Option<&Reader>> {
        let OpenVersion { version, filters, opening, .. } = &*self.snapshot;
        let (Some(file), Some(place)) = (version.shards.get(&shard), filters.get(shard as usize)) else {
            return Ok(None);
        };
        if let Some(filter) = place.get() {
            return Ok(Some(filter));
        }
        let _one_at_a_time = opening.lock().unwrap_or_else(PoisonError::into_inner);
        if place.get().is_none() {
            self.open_file(shard, file, place)?;
        }
        Ok(place.get())
    }

    /// Opens a copy of a shard's file or, without one, the file. The caller holds the lock for opening.
    fn open_file(&self, shard: u32, file: &ShardFile, place: &Opened) -> Result<()> {
        let _ = match self.store.open_copy(shard, file) {
            Some(copy) => place.copy.set(copy),
            None => {
                let filter = self.store.open_shard(self.version(), shard, file)?;
                let is_copy = self.store.storage.is_object_store();
                if is_copy { place.copy.set(filter) } else { place.own.set(filter) }
            }
        };
        Ok(())
    }

    /// Opens the files of these shards and the runs, if they are objects. Fetches them in parallel.
    pub(super) fn fetch(&self, shards: impl IntoIterator<Item = u32>) -> Result<()> {
        if !self.store.storage.is_object_store() {
            return Ok(());
        }
        let OpenVersion { version, filters, runs, opening, .. } = &*self.snapshot;
        let _one_at_a_time = opening.lock().unwrap_or_else(PoisonError::into_inner);
        let files = shards.into_iter().filter_map(|shard| {
            Some(Closed::Shard(shard, version.shards.get(&shard)?, filters.get(shard as usize)?))
        });
        let files = files.filter(|file| matches!(file, Closed::Shard(.., place) if place.get().is_none()));
        let runs = version.runs.iter().zip(runs).filter(|(_, place)| place.get().is_none());
        let closed = files.chain(runs.map(|(file, place)| Closed::Run(file, place))).collect();
        // If a file cannot be opened, the lookup that needs it will fail.
        divided(closed, FETCHES, |file| {
            match file {
                Closed::Shard(shard, file, place) => drop(self.open_file(shard, file, place)),
                Closed::Run(file, place) => {
                    if let Ok(run) = self.store.open_run(version, file) {
                        let _ = place.set(run);
                    }
                }
            }
            Ok(())
        })
        .map(drop)
    }

    /// Looks into the filter of a shard. If the filter is a copy and fails, looks into the store's own file, now and in
    /// later lookups.
    pub(super) fn look<T>(
        &self,
        shard: u32,
        mut look: impl FnMut(&Reader) -> FilterResult<T>,
    ) -> Result<Option<T>> {
        let Some(filter) = self.file_of(shard)? else { return Ok(None) };
        match look(filter) {
            Ok(found) => Ok(Some(found)),
            Err(error) => match self.after_copy(shard, filter, error)? {
                Some(own) => Ok(Some(look(own)?)),
                None => Ok(None),
            },
        }
    }

    /// The store's own file, after a lookup in a filter failed. Returns the error if that filter was the store's own
    /// file.
    #[cold]
    fn after_copy(&self, shard: u32, failed: &Reader, error: FilterError) -> Result<Option<&Reader>> {
        let OpenVersion { version, filters, opening, .. } = &*self.snapshot;
        let (Some(file), Some(place)) = (version.shards.get(&shard), filters.get(shard as usize)) else {
            return Err(error.into());
        };
        if !place.copy.get().is_some_and(|copy| std::ptr::eq(copy, failed)) {
            return Err(error.into());
        }
        self.store.refuse_copy(failed.path(), &error.into());
        self.store.storage.forget(&files::shard(shard, &file.name));
        let _one_at_a_time = opening.lock().unwrap_or_else(PoisonError::into_inner);
        if place.own.get().is_none() {
            let _ = place.own.set(self.store.open_shard(version, shard, file)?);
        }
        Ok(place.own.get())
    }

    /// The store's own file of a shard, never a copy.
    pub(super) fn own_shard(&self, shard: u32) -> Result<Option<Reader>> {
        match self.version().shards.get(&shard) {
            Some(file) if self.store.copies.is_some() || self.store.storage.is_object_store() => {
                self.store.open_shard(self.version(), shard, file).map(Some)
            }
            _ => Ok(self.file_of(shard)?.cloned()),
        }
    }

    /// Reads every page of every file that the version names, as [`Reader::verify`] does, on [`Options::threads`]
    /// threads. Returns a result for each file: first shards, by number, then runs, which have no shard, the oldest
    /// first.
    ///
    /// The result is an error for a file that cannot be opened or differs from the version's description, and for a run
    /// with damaged pages ([`Error::DamagedRun`] names them all). `progress` receives the number of files read, and of
    /// all. Does not read [copies](Store::copies).
    pub fn verify(&self, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Vec<(Option<u32>, Result<Report>)>> {
        let version = self.version();
        let files = version.shards.keys().map(|shard| (Some(*shard), 0));
        let files: Vec<_> = files.chain((0..version.runs.len()).map(|place| (None, place))).collect();
        let (all, done) = (files.len() as u64, Mutex::new(0));
        divided(files, self.store.options.threads, |(shard, place)| {
            // Verifies the object itself, not the local copy.
            match (
                shard.and_then(|shard| Some((shard, version.shards.get(&shard)?))),
                version.runs.get(place),
            ) {
                (Some((shard, file)), _) => self.store.storage.forget(&files::shard(shard, &file.name)),
                (None, Some(run)) => self.store.storage.forget(&files::run(&run.name)),
                (None, None) => {}
            }
            let report = match shard {
                Some(shard) => self.own_shard(shard).and_then(|filter| {
                    Ok(filter.map(|filter| filter.verify(&|_, _| {})).transpose()?.unwrap_or_default())
                }),
                None => self.verify_run(place),
            };
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            *done += 1;
            progress(*done, all);
            Ok((shard, report))
        })
    }
}

/// The first lookup in a shard's file opens the file, and compares it with the version's description.
impl Lookup for StoreReader {
    type Error = Error;

    #[inline]
    fn contains<K: Key>(&self, key: K) -> Result<bool> {
        let hash = self.store.hash(key)?;
        self.contains_in(self.store.description.shard_of(hash), hash)
    }

    #[inline]
    fn count<K: Key>(&self, key: K) -> Result<u32> {
        let hash = self.store.hash(key)?;
        self.count_in(self.store.description.shard_of(hash), hash)
    }

    fn contains_batch<K: Key + Sync>(&self, keys: &[K]) -> Result<Vec<bool>> {
        let mut found = vec![false; keys.len()];
        let threads = self.store.options.threads.min(keys.len() / KEYS_WORTH_A_THREAD).max(1);
        let part = keys.len().div_ceil(threads).clamp(1, BLOCK);
        let parts: Vec<_> = keys.chunks(part).zip(found.chunks_mut(part)).collect();
        divided(parts, threads, |(keys, found)| {
            let partition = self.store.partition(keys)?;
            self.fetch(partition.shards.iter().map(|(shard, _)| *shard))?;
            for (shard, _) in &partition.shards {
                let answers = self.contains_batch_in(*shard, partition.hashes_of(*shard))?;
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::Batches as _;
    use crate::store::interrupted::Shared;
    use crate::store::storage::Storage;
    use crate::store::version::FIRST;

    /// The outcome of opening a local file.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Opening {
        Opens,
        Gone,
        Fails,
    }

    /// Opens an object: each attempt has the next of these outcomes, and after the last, the last again. Returns whether
    /// it was opened, how many attempts there were, and how many of these had to fetch the file again.
    fn opened(shared: &Shared, outcomes: &[Opening]) -> (bool, usize, usize) {
        let (name, version) = (files::shard(0, &files::Name { base: 1, uuid: [1; 16] }), FIRST);
        shared.memory.put(&name, b"of the server");
        let (openings, fetched) = (Cell::new(0), Cell::new(0));
        let outcome = shared.store.opened(&name, &shared.store.version(version).unwrap(), |path| {
            assert!(openings.get() < 1000, "it is opened again and again");
            if std::fs::read(path).unwrap() == b"of the server" {
                fetched.set(fetched.get() + 1);
                std::fs::write(path, b"fetched").unwrap();
            }
            let outcome = outcomes.get(openings.get()).or(outcomes.last()).unwrap();
            openings.set(openings.get() + 1);
            match outcome {
                Opening::Opens => Ok(()),
                Opening::Gone => Err(FilterError::NotFound { path: path.to_owned() }.into()),
                Opening::Fails => Err(FilterError::NotGowk { path: path.to_owned() }.into()),
            }
        });
        shared.store.storage.forget(&name);
        (outcome.is_ok(), openings.get(), fetched.get())
    }

    #[test]
    fn a_copy_that_is_gone_is_sought_again_and_one_that_fails_is_fetched_once_more() {
        use Opening::{Fails, Gone, Opens};
        let shared = Shared::of_files();
        let most = REMOVALS as usize;
        let gone = |times: usize, then| [vec![Gone; times], vec![then]].concat();
        for (outcomes, expected) in [
            (vec![Opens], (true, 1, 1)),
            (vec![Gone, Opens], (true, 2, 1)),
            (vec![Fails, Opens], (true, 2, 2)),
            (vec![Fails], (false, 2, 2)),
            (gone(most, Opens), (true, most + 1, 1)),
            (gone(most + 1, Opens), (true, most + 2, 2)),
            (vec![Gone], (false, most + 2, 2)),
            (gone(3, Fails), (false, 5, 2)),
        ] {
            assert_eq!(opened(&shared, &outcomes), expected, "{outcomes:?}");
        }
    }

    /// Commits these keys, as records.
    fn insert(store: &Store, keys: std::ops::Range<u32>) {
        let mut update = store.update().unwrap();
        let keys: Vec<[u8; 4]> = keys.map(u32::to_le_bytes).collect();
        update.insert_batch(&keys).unwrap().complete().unwrap();
        update.commit("insert", None).unwrap();
    }

    /// Verification reads neither the fetched copy nor the open file.
    #[test]
    fn the_object_itself_is_verified() {
        for of_run in [true, false] {
            let shared = Shared::of_files();
            insert(&shared.store, 0..100);
            if !of_run {
                shared.store.compact(true, &|_, _| {}).unwrap();
            }
            let reader = shared.store.read().unwrap();
            let all: Vec<[u8; 4]> = (0..100_u32).map(u32::to_le_bytes).collect();
            assert!(reader.contains_batch(&all).unwrap().iter().all(|found| *found));
            let damaged = || {
                let reports = reader.verify(&|_, _| {}).unwrap();
                let is_damaged = |report: &Result<Report>| {
                    report.as_ref().map_or(true, |report| !report.damaged.is_empty())
                };
                reports.iter().filter(|(_, report)| is_damaged(report)).count()
            };
            assert_eq!(damaged(), 0);
            let folder = if of_run { "runs/" } else { "shards/" };
            let names = shared.memory.names();
            let name = names.iter().find(|name| name.starts_with(folder)).unwrap();
            let mut bytes = shared.memory.get(name).unwrap().unwrap();
            let at = bytes.iter().rposition(|byte| *byte != 0).unwrap();
            bytes[at] ^= 1;
            shared.memory.replace(name, &bytes);
            assert_eq!(damaged(), 1, "{name}");
            assert!(reader.contains_batch(&all).unwrap().iter().all(|found| *found));
        }
    }

    #[test]
    fn a_fold_fetches_a_copy_again_that_has_rotted() {
        let shared = Shared::of_files();
        insert(&shared.store, 0..100);
        shared.store.compact(true, &|_, _| {}).unwrap();
        insert(&shared.store, 100..200);
        for name in shared.memory.names().iter().filter(|name| name.starts_with("shards/")) {
            let path = shared.store.storage.local(name).unwrap();
            let mut bytes = std::fs::read(&path).unwrap();
            let view = shared.store.sealed_options().read(&path).unwrap().view().unwrap();
            let geometry = view.superblock.identity.geometry;
            bytes[geometry.data() as usize..geometry.file_length() as usize].fill(0x55);
            std::fs::write(&path, bytes).unwrap();
        }
        assert_eq!(shared.store.compact(true, &|_, _| {}).unwrap().folded, 2);
        let reader = shared.store.read().unwrap();
        assert!(reader.version().runs.is_empty());
        let all: Vec<[u8; 4]> = (0..200_u32).map(u32::to_le_bytes).collect();
        assert!(reader.contains_batch(&all).unwrap().iter().all(|found| *found));
    }

    #[test]
    fn a_store_tells_the_requests_of_its_storage() {
        assert_eq!(Shared::new().store.requests(), None);
        let shared = Shared::of_objects();
        assert_eq!(shared.store.requests().unwrap().put, shared.memory.names().len() as u64);
    }

    #[test]
    fn a_copy_that_was_removed_with_its_folder_is_gone_and_one_that_is_no_filter_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let there = dir.path().join("there");
        std::fs::write(&there, [1; 8192]).unwrap();
        let options = Options::new();
        for (path, gone) in [(dir.path().join("f"), true), (dir.path().join("none/f"), true), (there, false)]
        {
            let filter: Error = options.clone().sealed(true).read(&path).unwrap_err().into();
            let run = Run::open(&path, &options.disk).unwrap_err();
            assert_eq!([is_gone(&filter), is_gone(&run)], [gone; 2], "{filter} {run}");
        }
    }
}
