//! Group commit: one filter that many threads and tasks change, with one commit for all that they bring.
//!
//! Uses [`read`](crate::read) and [`write`](crate::write). `queue.rs` has the waiting changes, and the thread that owns
//! the writer; `pending.rs` has the answer that a caller waits for.
//!
//! Invariants:
//!
//! 1. With [`Commits::Always`], a change is answered only after the commit that holds it has returned.
//! 2. Each change is made once, in the order of the queue, and is answered once: with its outcome, with the error of its
//!    commit, or with [`Error::Closed`].
//! 3. If a commit fails, none of its changes stays in the open transaction, except changes that were answered before the
//!    commit.
//! 4. The queue holds at most [`MOST_KEYS`] keys, or one batch that has more by itself.

mod pending;
mod queue;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::cuckoo::{Key, KeyHash, KeyHasher};
use crate::error::{Error, Result};
use crate::format::Metadata;
use crate::info::Info;
use crate::read::{Lookup, Reader};
use crate::write::{Batches, Inserted, Writer};

pub use pending::Pending;
use queue::Queue;

/// How many keys may wait in the queue; each takes 16 bytes.
const MOST_KEYS: usize = 1 << 20;

/// When a [`SharedWriter`] commits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Commits {
    /// Before it answers: each answer means that the change is durable and visible to readers. Changes that arrive while
    /// one commit syncs all go into the next commit.
    #[default]
    Always,
    /// At the latest this long after a change. A change is answered as soon as it is made: a crash loses the changes
    /// answered since the last commit, and [`SharedWriter::contains`] does not see them yet ([`SharedWriter::change`]
    /// does). After a failed commit, changes fail with its error until a later commit succeeds.
    Every(Duration),
}

/// A filter that many threads and tasks change, with one commit for all that they bring: group commit.
///
/// [`Writer::into_shared`] returns it. Clones are cheap, and all methods may be called from any thread. One thread owns
/// the writer: it takes all waiting changes, commits them together, and answers. The methods return a [`Pending`] answer
/// at once: wait for it with [`Pending::wait`], or `.await` it on any executor.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("seen.gowk");
/// let seen = gowk::Options::new().open(&path)?.into_shared()?;
/// std::thread::scope(|scope| {
///     for worker in 0..4 {
///         let seen = seen.clone();
///         scope.spawn(move || seen.insert(format!("key {worker}")).wait());
///     }
/// });
/// assert!(seen.contains("key 3")?);
/// seen.close().wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`contains`](Self::contains) reads the map on the calling thread, as a [`Reader`] does. It takes less than a
/// microsecond if the page is in memory, so async code may call it inline for filters that fit into memory. It blocks the
/// calling thread while a page comes from a disk, and while a commit is being applied to the page. For larger filters,
/// call it on threads that may block.
///
/// At most 1,048,576 keys wait (16 MiB). Further changes wait for room, which blocks only callers that wait for their
/// answers. After an error that leaves the writer unusable ([`Error::Unknown`], [`Error::AfterCommit`]), every later
/// change fails with [`Error::Poisoned`]: drop the handles and open the filter again.
///
/// When the last handle is dropped, the thread commits the waiting changes and closes the filter. [`close`](Self::close)
/// also reports errors.
#[derive(Clone)]
pub struct SharedWriter {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Arc<Queue>,
    hasher: KeyHasher,
    reader: Reader,
}

impl fmt::Debug for SharedWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedWriter").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// The open transaction of a [`SharedWriter`], for one [`change`](SharedWriter::change).
///
/// It has the methods of [`Writer`] that change keys and metadata, and none that commits or rolls back.
#[derive(Debug)]
pub struct Changes<'a> {
    writer: &'a mut Writer,
}

impl Writer {
    /// Shares the writer among threads and tasks, with one commit for all their changes. First commits the open
    /// transaction.
    ///
    /// Fails as [`commit`](Self::commit) and [`Reader::open`] do, and with [`Error::Io`] if no thread can be started.
    /// After a failure the writer is closed.
    pub fn into_shared(self) -> Result<SharedWriter> {
        self.into_shared_with(Commits::Always)
    }

    /// Like [`into_shared`](Self::into_shared); `commits` says when the shared writer commits.
    pub fn into_shared_with(mut self, commits: Commits) -> Result<SharedWriter> {
        self.commit()?;
        let (hasher, reader) = (self.hasher()?, Reader::open(self.path())?);
        let queue = Queue::start(self, commits)?;
        Ok(SharedWriter { shared: Arc::new(Shared { queue, hasher, reader }) })
    }
}

impl SharedWriter {
    /// The filter's path: absolute, with all symbolic links resolved when it was opened.
    pub fn path(&self) -> &Path {
        &self.shared.queue.path
    }

    /// A reader of the filter as of its last commit.
    pub fn reader(&self) -> &Reader {
        &self.shared.reader
    }

    /// The hash of a key under this filter's seed.
    pub fn hash(&self, key: impl Key) -> Result<KeyHash> {
        self.hash_of(&key)
    }

    fn hash_of(&self, key: &impl Key) -> Result<KeyHash> {
        let hash = key.hash(self.shared.hasher);
        hash.ok_or_else(|| Error::CallerHashes { path: self.path().to_owned() })
    }

    /// Whether the key was present at the last commit. Errors as for [`Lookup::contains`].
    pub fn contains(&self, key: impl Key) -> Result<bool> {
        self.shared.reader.contains(self.hash(key)?)
    }

    /// Inserts the key as [`Writer::insert`] does. The answer is whether the key was absent before.
    pub fn insert(&self, key: impl Key) -> Pending<bool> {
        self.change_key(key, |changes, hash| changes.insert(hash))
    }

    /// Inserts all keys as [`Batches::insert_batch`] does.
    pub fn insert_batch<K: Key>(&self, keys: &[K]) -> Pending<Inserted> {
        let hashes: Result<Vec<KeyHash>> = keys.iter().map(|key| self.hash_of(key)).collect();
        match hashes {
            Ok(hashes) => self.change(hashes.len(), move |changes| changes.insert_batch(&hashes)),
            Err(error) => Pending::failed(error),
        }
    }

    /// Removes one copy of the key as [`Writer::remove`] does. The answer is whether there was a copy.
    pub fn remove(&self, key: impl Key) -> Pending<bool> {
        self.change_key(key, |changes, hash| changes.remove(hash))
    }

    fn change_key(
        &self,
        key: impl Key,
        change: impl FnOnce(&mut Changes<'_>, KeyHash) -> Result<bool> + Send + 'static,
    ) -> Pending<bool> {
        match self.hash(key) {
            Ok(hash) => self.change(1, move |changes| change(changes, hash)),
            Err(error) => Pending::failed(error),
        }
    }

    /// Makes several changes that one commit makes durable together, which may include metadata. `keys` is the number of
    /// keys that the call holds; it counts against the bound on waiting keys.
    ///
    /// The writer's thread calls `change` once; all other changes wait until it returns. If it returns an error, the
    /// changes that it made stay in the transaction. If it panics, its commit fails, and the filter is
    /// closed.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("seen.gowk");
    /// let seen = gowk::Options::new().open(&path)?.into_shared()?;
    /// let new = seen.change(1, |changes| {
    ///     changes.metadata_mut()?.set("position", "line 17");
    ///     changes.insert("key")
    /// });
    /// assert!(new.wait()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn change<T: Send + 'static>(
        &self,
        keys: usize,
        change: impl FnOnce(&mut Changes<'_>) -> Result<T> + Send + 'static,
    ) -> Pending<T> {
        Queue::submit(&self.shared.queue, keys, false, change)
    }

    /// Waits until all earlier changes are durable, also with [`Commits::Every`]. A failure is the error of that commit.
    pub fn commit(&self) -> Pending<()> {
        Queue::submit(&self.shared.queue, 0, true, |_| Ok(()))
    }

    /// Commits all waiting changes, and closes the filter, as [`Writer::close`] does. Later changes, also by clones, fail
    /// with [`Error::Closed`].
    pub fn close(self) -> Pending<()> {
        Queue::close(&self.shared.queue)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.queue.end();
    }
}

impl Changes<'_> {
    /// Like [`Writer::insert`].
    pub fn insert(&mut self, key: impl Key) -> Result<bool> {
        self.writer.insert(key)
    }

    /// Like [`Batches::insert_batch`].
    pub fn insert_batch<K: Key + Sync>(&mut self, keys: &[K]) -> Result<Inserted> {
        self.writer.insert_batch(keys)
    }

    /// Like [`Writer::remove`].
    pub fn remove(&mut self, key: impl Key) -> Result<bool> {
        self.writer.remove(key)
    }

    /// Whether the key is present, including the transaction's changes.
    pub fn contains(&self, key: impl Key) -> Result<bool> {
        self.writer.contains(key)
    }

    /// How many copies of the key the filter holds, as [`Writer::count`] does.
    pub fn count(&self, key: impl Key) -> Result<u32> {
        self.writer.count(key)
    }

    /// The metadata, to change.
    pub fn metadata_mut(&mut self) -> Result<&mut Metadata> {
        self.writer.metadata_mut()
    }

    /// The filter including the transaction's changes.
    pub fn info(&self) -> Result<Info> {
        self.writer.info()
    }

    /// The number of copies of all keys, as [`Writer::len`] says.
    pub fn len(&self) -> Result<u64> {
        self.writer.len()
    }

    /// Whether [`len`](Self::len) is 0.
    pub fn is_empty(&self) -> Result<bool> {
        self.writer.is_empty()
    }
}
