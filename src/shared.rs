//! Group commit: one filter that many threads and tasks change, with one commit for all that they bring.
//!
//! Uses [`read`](crate::read) and [`write`](crate::write). `queue.rs` has what waits, and the thread that owns the writer;
//! `pending.rs` has the answer that a caller waits for.
//!
//! Invariants:
//!
//! 1. With [`Commits::Always`], a change is answered only after the commit that holds it has returned.
//! 2. Each change is made once, in the order of the queue, and is answered once: with its outcome, with the
//!    error of its commit, or with [`Error::Closed`].
//! 3. If a commit fails, no change of it stays in the open transaction, unless it was answered before the commit.
//! 4. The queue holds at most [`MOST_KEYS`] keys, or one batch that alone has more.

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

/// Keys that wait in the queue at most; each takes 16 bytes.
const MOST_KEYS: usize = 1 << 20;

/// When a [`SharedWriter`] commits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Commits {
    /// Before it answers: each answer means that the change is durable and visible to readers. What arrives while one
    /// commit syncs goes into the next commit, all together.
    #[default]
    Always,
    /// After this time at most. A change is answered as soon as it is made: a crash loses what was answered in that time,
    /// and [`SharedWriter::contains`] does not see it yet ([`SharedWriter::change`] does). After a failed commit, changes
    /// fail with its error until a later commit succeeds.
    Every(Duration),
}

/// A filter that many threads and tasks change, with one commit for all that they bring: group commit.
///
/// From [`Writer::into_shared`]. Clones are cheap, and all methods may be called from any thread. One thread owns the
/// writer: it takes all changes that wait, commits them together, and answers. The methods return a [`Pending`] answer at
/// once: wait for it with [`Pending::wait`], or `.await` it on any executor.
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
/// [`contains`](Self::contains) reads the map on the calling thread, as a [`Reader`] does. It takes less than a microsecond
/// if the page is in memory, so async code may call it inline for filters that fit into memory. A page that must come from a
/// disk, and a commit that is just being applied to the page, block the calling thread. For larger filters call it on
/// threads that may block.
///
/// At most 1,048,576 keys wait (16 MiB); then further changes wait for room, and nobody blocks who does not wait. After an
/// error that leaves the writer unusable ([`Error::Unknown`], [`Error::AfterCommit`]), every later change fails with
/// [`Error::Poisoned`]: drop the handles and open the filter again.
///
/// When the last handle is dropped, the thread commits what waits and closes the filter. [`close`](Self::close) also
/// reports errors.
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
    /// Shares the writer among threads and tasks, with one commit for all that they bring. Commits first.
    ///
    /// Fails as [`commit`](Self::commit) and [`Reader::open`] do, and with [`Error::Io`] if no thread can be started. The
    /// writer is closed then.
    pub fn into_shared(self) -> Result<SharedWriter> {
        self.into_shared_with(Commits::Always)
    }

    /// Like [`into_shared`](Self::into_shared); `commits` says when it commits.
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

    /// Whether the key was there at the last commit. Errors as for [`Lookup::contains`].
    pub fn contains(&self, key: impl Key) -> Result<bool> {
        self.shared.reader.contains(self.hash(key)?)
    }

    /// Inserts the key as [`Writer::insert`] does. The answer is whether it was not there before.
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

    /// Removes one copy of the key as [`Writer::remove`] does. The answer is whether there was one.
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

    /// Makes several changes that one commit makes durable together, metadata among them. `keys` is how many keys the call
    /// holds, for the bound on what waits.
    ///
    /// The writer's thread calls `change` once; while it runs, all others wait. If it returns an error, what it changed
    /// before that stays in the transaction. If it panics, the commit under way fails, and the filter is closed.
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

    /// Waits until all changes that were made before are durable, also with [`Commits::Every`]. A failure is the error of
    /// that commit.
    pub fn commit(&self) -> Pending<()> {
        Queue::submit(&self.shared.queue, 0, true, |_| Ok(()))
    }

    /// Commits all that waits, and closes the filter, as [`Writer::close`] does. Later changes, also by clones, fail with
    /// [`Error::Closed`].
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
    /// As [`Writer::insert`].
    pub fn insert(&mut self, key: impl Key) -> Result<bool> {
        self.writer.insert(key)
    }

    /// As [`Batches::insert_batch`].
    pub fn insert_batch<K: Key + Sync>(&mut self, keys: &[K]) -> Result<Inserted> {
        self.writer.insert_batch(keys)
    }

    /// As [`Writer::remove`].
    pub fn remove(&mut self, key: impl Key) -> Result<bool> {
        self.writer.remove(key)
    }

    /// Whether the key is there, changes before this call included.
    pub fn contains(&self, key: impl Key) -> Result<bool> {
        self.writer.contains(key)
    }

    /// How many copies there are, as [`Writer::count`] says.
    pub fn count(&self, key: impl Key) -> Result<u32> {
        self.writer.count(key)
    }

    /// The metadata to change.
    pub fn metadata_mut(&mut self) -> Result<&mut Metadata> {
        self.writer.metadata_mut()
    }

    /// The filter as the transaction has it.
    pub fn info(&self) -> Result<Info> {
        self.writer.info()
    }

    /// Copies of all keys, as [`Writer::len`] says.
    pub fn len(&self) -> Result<u64> {
        self.writer.len()
    }

    /// Whether [`len`](Self::len) is 0.
    pub fn is_empty(&self) -> Result<bool> {
        self.writer.is_empty()
    }
}
