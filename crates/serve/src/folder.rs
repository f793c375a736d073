//! The served folder: which filters are in it, and which of them are open.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gowk::{Commits, Error, ErrorKind, Options};

use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard};

use crate::blocking;
use crate::failure;
use crate::filter::Filter;
use crate::names;
use crate::reply::Reply;

/// How many locks there are. Keys that share a lock wait for each other's opening.
const LOCKS: usize = 64;

type Open = HashMap<Vec<u8>, Arc<Filter>>;

/// The filters of one folder.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    commits: Commits,
    /// How many bytes a new filter's file may have at most.
    most_bytes: Option<u64>,
    open: Mutex<Open>,
    /// Held while a filter is created or first opened, so that all others who ask for it wait. Many keys share one.
    opening: [AsyncMutex<()>; LOCKS],
    /// Seconds since the server started; the sweep counts them.
    second: AtomicU64,
}

impl Folder {
    /// The folder at this path, which must exist.
    pub fn new(path: &Path, commits: Commits, most_bytes: Option<u64>) -> std::io::Result<Self> {
        let path = path.canonicalize()?;
        fs::read_dir(&path)?;
        Ok(Self {
            path,
            commits,
            most_bytes,
            open: Mutex::default(),
            opening: std::array::from_fn(|_| AsyncMutex::default()),
            second: AtomicU64::new(0),
        })
    }

    /// Whether answers come before the commit.
    pub fn is_early(&self) -> bool {
        self.commits != Commits::Always
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn seconds(&self) -> u64 {
        self.second.load(Ordering::Relaxed)
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All filters that are open.
    pub fn all_open(&self) -> Vec<Arc<Filter>> {
        self.open().values().cloned().collect()
    }

    fn path_of(&self, key: &[u8]) -> Result<PathBuf, Reply> {
        let file = names::file_of(key).map_err(|error| Reply::error(error.to_string()))?;
        Ok(self.path.join(file))
    }

    /// Whether this key has a file.
    pub fn has(&self, key: &[u8]) -> Result<bool, Reply> {
        Ok(fs::metadata(self.path_of(key)?).is_ok())
    }

    fn find_open(&self, key: &[u8]) -> Option<Arc<Filter>> {
        let filter = self.open().get(key).filter(|filter| !filter.is_gone())?.clone();
        filter.note_use(self.seconds());
        Some(filter)
    }

    async fn lock(&self, key: &[u8]) -> Option<AsyncMutexGuard<'_, ()>> {
        match self.opening.get(place(key) as usize % LOCKS) {
            Some(lock) => Some(lock.lock().await),
            None => None,
        }
    }

    /// The filter of a key. Opens it if necessary.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Arc<Filter>>, Reply> {
        if let Some(filter) = self.find_open(key) {
            return Ok(Some(filter));
        }
        let _others_wait = self.lock(key).await;
        if let Some(filter) = self.find_open(key) {
            return Ok(Some(filter));
        }
        if !self.has(key)? {
            return Ok(None);
        }
        let (owned, path, commits) = (key.to_owned(), self.path_of(key)?, self.commits);
        match blocking(move || Filter::open(&owned, &path, commits)).await? {
            Ok(filter) => Ok(Some(self.add(filter))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failure::reply(&error)),
        }
    }

    /// Adds an opened filter. The caller holds the lock of its key.
    fn add(&self, filter: Filter) -> Arc<Filter> {
        filter.note_use(self.seconds());
        let filter = Arc::new(filter);
        self.open().insert(filter.key.clone(), filter.clone());
        filter
    }

    /// Creates the filter of a key; `None` if it already exists.
    pub async fn create(&self, key: &[u8], options: Options) -> Result<Option<Arc<Filter>>, Reply> {
        let (owned, path, commits) = (key.to_owned(), self.path_of(key)?, self.commits);
        let options = match self.most_bytes {
            Some(bytes) => options.max_file_size(bytes),
            None => options,
        };
        let _others_wait = self.lock(key).await;
        if self.has(key)? {
            return Ok(None);
        }
        let create = move || {
            let writer = options.create(&path)?.into_shared_with(commits)?;
            Ok((Filter::open(&owned, &path, commits)?, writer))
        };
        match blocking(create).await? {
            Ok((filter, writer)) => {
                let filter = self.add(filter);
                filter.adopt(writer);
                Ok(Some(filter))
            }
            Err(Error::Exists { .. }) => Ok(None),
            Err(error) => Err(failure::reply(&error)),
        }
    }

    /// Removes the filter of a key. Returns whether there was one.
    pub async fn delete(&self, key: &[u8]) -> Result<bool, Reply> {
        let Some(filter) = self.get(key).await? else { return Ok(false) };
        let deleted = filter.delete().await;
        self.forget(&filter);
        deleted.map(|()| true)
    }

    fn forget(&self, filter: &Arc<Filter>) {
        let mut open = self.open();
        if open.get(&filter.key).is_some_and(|found| Arc::ptr_eq(found, filter)) {
            open.remove(&filter.key);
        }
    }

    /// The keys of all filters, in the order of [`place`].
    pub async fn keys(&self) -> Result<Vec<Vec<u8>>, Reply> {
        let path = self.path.clone();
        let list = move || -> std::io::Result<Vec<Vec<u8>>> {
            let mut keys = Vec::new();
            for entry in fs::read_dir(path)? {
                let name = entry?.file_name();
                keys.extend(names::key_of(Path::new::<OsStr>(&name)));
            }
            keys.sort_by_cached_key(|key| place(key));
            Ok(keys)
        };
        let failed = |error| Reply::error(format!("{}: cannot list: {error}", self.path.display()));
        blocking(list).await?.map_err(failed)
    }

    /// Runs once a second: follows files that were replaced or removed, and closes filters without a request for `idle`
    /// seconds.
    pub async fn sweep(&self, idle: u64) {
        let now = self.second.fetch_add(1, Ordering::Relaxed) + 1;
        for filter in self.all_open() {
            let looked = filter.clone();
            let is_there = blocking(move || {
                let followed = looked.reader.reload();
                looked.path.exists() && followed.is_ok_and(|moved| !moved || is_alike(&looked))
            });
            let is_there = is_there.await.unwrap_or(true);
            if filter.is_gone() || is_there && now.saturating_sub(filter.last_used()) <= idle {
                continue;
            }
            if !is_there {
                eprintln!("gowk-serve: {}: the file is gone, or another one", filter.path.display());
            }
            if let Err(error) = filter.retire().await {
                eprintln!("gowk-serve: {error}");
            }
            self.forget(&filter);
        }
    }

    /// Commits and closes all filters. Returns the failures.
    pub async fn close(&self) -> Vec<Arc<Error>> {
        let mut failures = Vec::new();
        for filter in self.all_open() {
            failures.extend(filter.retire().await.err());
            self.forget(&filter);
        }
        failures
    }
}

/// Whether the file that has replaced the filter's is of the same kind.
fn is_alike(filter: &Filter) -> bool {
    filter.reader.info().is_ok_and(|info| info.kind == filter.kind)
}

/// The place of a key in a scan. It never changes, so that a scan can continue after any key. Below 2^48 and above 0.
pub(crate) fn place(key: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    (hasher.finish() >> 16).max(1)
}
