//! The reader of a filter, for any number of processes and threads, beside a writer or without one. Every lookup uses a
//! current view of the file. `seqlock.rs` reads a view.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use super::lookup::Lookup;
use super::ring::BLOCK;
use super::view::View;
use crate::cuckoo::{Key, KeyHash, KeyHasher};
use crate::error::{Error, IoContext, Result};
use crate::events;
#[cfg(feature = "store")]
use crate::format::Identity;
use crate::format::frame::HEADER;
use crate::format::{Metadata, Superblock};
use crate::info::{Facts, Info};
use crate::options::Options;
use crate::system::{Files, on_threads};

/// For fewer keys, starting a thread costs more than it saves.
const KEYS_WORTH_A_THREAD: usize = 32_768;
/// How long a call waits for a moment at which no commit is being applied.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// A filter open for reading. Clones share one mapping; all methods may be called from any thread.
///
/// It sees each commit when that commit returns, and follows the filter when it doubles. When another file takes the
/// filter's name, batches follow at once; single lookups follow after [`reload`](Self::reload), or through
/// [`lookups`](Self::lookups). Opening a reader is cheap: it starts no thread, verifies the superblocks, and verifies the
/// checksum of a page when it first touches that page ([`Verify`](crate::Verify)).
///
/// For single lookups at the full rate, each thread takes a handle from [`lookups`](Self::lookups). The reader's own
/// lookups go through a pointer that all threads share.
///
/// The file stays mapped and open until the last clone is dropped. After the filter has doubled, the old generation stays
/// so until the next call.
#[derive(Clone)]
pub struct Reader {
    shared: Arc<Shared>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("path", &self.path()).finish_non_exhaustive()
    }
}

struct Shared {
    files: Files,
    options: Options,
    /// The hash function when the reader was opened; callers may hold hashes made by it.
    hasher: KeyHasher,
    view: ArcSwap<View>,
    reopening: Mutex<()>,
}

impl Reader {
    /// Opens a filter for reading, with the default options.
    ///
    /// Recovers the file first if its last writer died, which needs permission to write. A process without permission
    /// replays the journal into its own memory. Fails with [`Error::NotFound`] without a file, and with the error of a
    /// file that cannot be used.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().read(path)
    }

    pub(super) fn open_with(path: &Path, options: &Options) -> Result<Self> {
        let files = if options.sealed { Files::of_sealed(path)? } else { Files::new(path)? };
        let view = View::open(&files, options)?;
        Self::of_view(files, options, view)
    }

    /// A reader that looks into `view`, if the filter is what the options ask for.
    pub(super) fn of_view(files: Files, options: &Options, view: View) -> Result<Self> {
        options.check_kind(&files.data, view.superblock.identity.kind)?;
        events::opened(&files.data, "read");
        options.check_key_rules(&files.data, view.superblock.metadata.key_rules())?;
        let hasher = view.hasher();
        let (view, reopening) = (ArcSwap::from_pointee(view), Mutex::new(()));
        let options = options.clone();
        Ok(Self { shared: Arc::new(Shared { files, options, hasher, view, reopening }) })
    }

    /// A reader of the same filter that looks into `view`.
    pub(super) fn moved_to(&self, view: View) -> Self {
        let Shared { files, options, hasher, .. } = &*self.shared;
        let (view, reopening) = (ArcSwap::from_pointee(view), Mutex::new(()));
        let (files, options, hasher) = (files.clone(), options.clone(), *hasher);
        Self { shared: Arc::new(Shared { files, options, hasher, view, reopening }) }
    }

    /// The hash of a key under the seed of the filter, as it was when this reader was opened.
    #[inline]
    pub fn hash(&self, key: impl Key) -> Result<KeyHash> {
        key.hash(self.shared.hasher).ok_or_else(|| self.caller_hashes())
    }

    fn caller_hashes(&self) -> Error {
        Error::CallerHashes { path: self.shared.files.data.clone() }
    }

    /// The hash of a key in a view. Fails with [`Error::Replaced`] for a hash of another seed, and with
    /// [`Error::CallerHashes`] for bytes where the caller hashes.
    #[inline]
    fn hash_in<K: Key>(&self, view: &View, key: &K) -> Result<KeyHash> {
        if K::HASHED && view.hasher() != self.shared.hasher {
            return Err(Error::Replaced { path: self.shared.files.data.clone() });
        }
        key.hash(view.hasher()).ok_or_else(|| self.caller_hashes())
    }

    /// Like `contains`, in any view and at any time. Generic, so that the hash stays in registers: passed through memory,
    /// it would cost a lookup 35 ns more.
    #[inline(never)]
    pub(super) fn contains_slow<K: Key>(&self, view: &mut Arc<View>, key: &K) -> Result<bool> {
        let on_damage = self.shared.options.on_damage;
        self.look_from(view, |view| match self.hash_in(view, key) {
            Ok(hash) => view.contains(hash, on_damage),
            Err(error) => Some(Err(error)),
        })
    }

    /// Like `count`, in any view and at any time.
    #[inline(never)]
    pub(super) fn count_slow<K: Key>(&self, view: &mut Arc<View>, key: &K) -> Result<u32> {
        self.look_from(view, |view| match self.hash_in(view, key) {
            Ok(hash) => view.count(hash),
            Err(error) => Some(Err(error)),
        })
    }

    /// For how many epochs a forgetting filter still keeps the key of this hash; 0 if the key is absent, `u32::MAX` if
    /// that cannot be known because a bucket is quarantined.
    #[cfg(feature = "store")]
    pub(crate) fn epochs_left(&self, hash: KeyHash) -> Result<u32> {
        let on_damage = self.shared.options.on_damage;
        self.look(|view| view.epochs_left(hash, on_damage))
    }

    /// The filter as of its last commit.
    pub fn info(&self) -> Result<Info> {
        let journal = &self.shared.files.journal;
        let journal_length = match (self.view()?.is_in_memory(), journal.metadata()) {
            (true, _) => 0,
            (_, Err(error)) if error.kind() == std::io::ErrorKind::NotFound => 0,
            (_, outcome) => outcome.at(journal, "look at")?.len().saturating_sub(HEADER),
        };
        self.look(|view| {
            let copy = view.last_live_copy()?;
            Some(copy.map(|(copy, metadata)| {
                Info::from(Facts {
                    identity: view.superblock.identity,
                    policy: view.superblock.policy,
                    counts: copy.counts,
                    commit: copy.commit,
                    journal_length,
                    key_rules: metadata.key_rules(),
                })
            }))
        })
    }

    /// The number of copies of all keys as of the last commit: inserted copies minus removed ones. In a set these are the
    /// stored keys; a key that was already found, perhaps as a false positive, is not counted.
    pub fn len(&self) -> Result<u64> {
        self.look(|view| Some(view.last_live_copy()?.map(|(copy, _)| copy.counts.copies())))
    }

    /// Whether [`len`](Self::len) is 0.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The metadata as of the last commit.
    pub fn metadata(&self) -> Result<Metadata> {
        self.look(|view| Some(view.last_live_copy()?.map(|(_, metadata)| metadata)))
    }

    /// The current view of the file.
    pub(crate) fn view(&self) -> Result<Arc<View>> {
        let mut view = self.last_view();
        self.renew(&mut view, Instant::now())?;
        Ok(view)
    }

    /// The view of the last opening. It may be outdated.
    pub(super) fn last_view(&self) -> Arc<View> {
        self.shared.view.load_full()
    }

    /// The filter's identity now.
    #[cfg(feature = "store")]
    pub(crate) fn identity(&self) -> Result<Identity> {
        Ok(self.view()?.superblock.identity)
    }

    /// The filter's path: absolute, with all symbolic links resolved when it was opened.
    pub fn path(&self) -> &Path {
        &self.shared.files.data
    }

    /// Moves to another file if the filter's name now leads to it, as after `mv new.gowk live.gowk`. Returns whether it
    /// moved. If the name leads to no file, the reader keeps its file. Does nothing for a copy in memory.
    ///
    /// Every batch calls it first, and [`lookups`](Self::lookups) call it twice a second. Other single lookups use the
    /// same file until the program calls it. Commits, doublings and copies over the filter
    /// ([`copy_over`](Self::copy_over)) are always seen at once.
    ///
    /// Fails with the error of the other file, if that file cannot be opened. Lookups then fail in the same way until the
    /// name leads to a good file.
    pub fn reload(&self) -> Result<bool> {
        let view = self.last_view();
        if !self.shared.options.follow || !view.is_elsewhere(&self.shared.files)? {
            return Ok(false);
        }
        view.leave();
        self.reopen(&view)?;
        Ok(true)
    }

    /// The answer from a current view. Opens the file anew until there is an answer, for at most [`DEADLINE`].
    fn look<T>(&self, answer: impl FnMut(&View) -> Option<Result<T>>) -> Result<T> {
        self.look_from(&mut self.last_view(), answer)
    }

    /// Like `look`, beginning with `view`. `view` becomes the view that gave the answer.
    fn look_from<T>(
        &self,
        view: &mut Arc<View>,
        mut answer: impl FnMut(&View) -> Option<Result<T>>,
    ) -> Result<T> {
        let mut start = None;
        loop {
            if !view.is_current(&self.shared.files)? {
                self.renew(view, *start.get_or_insert_with(Instant::now))?;
            }
            if let Some(answer) = answer(view) {
                view.open_shortcut(self.shared.hasher);
                return answer;
            }
            self.reopen(view)?;
            if start.get_or_insert_with(Instant::now).elapsed() > DEADLINE {
                return Err(self.busy("read"));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Makes `view` the current one.
    fn renew(&self, view: &mut Arc<View>, start: Instant) -> Result<()> {
        while !view.is_current(&self.shared.files)? {
            self.reopen(view)?;
            *view = self.last_view();
            if start.elapsed() > DEADLINE {
                return Err(self.busy("read"));
            }
        }
        Ok(())
    }

    pub(super) fn busy(&self, op: &'static str) -> Error {
        Error::Busy { path: self.shared.files.data.clone(), op }
    }

    /// Opens the file anew, unless another thread has done so since this one got `seen`.
    pub(super) fn reopen(&self, seen: &Arc<View>) -> Result<()> {
        let _one_at_a_time = self.shared.reopening.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(seen, &self.shared.view.load()) {
            let view = View::open(&self.shared.files, &self.shared.options)?;
            let uuid = |view: &View| view.superblock.identity.uuid;
            if !self.shared.options.follow && uuid(&view) != uuid(seen) {
                return Err(Error::Replaced { path: self.path().to_owned() });
            }
            self.shared.view.store(Arc::new(view));
            // Sends the threads that hold the old view to a new one.
            seen.leave();
        }
        Ok(())
    }
}

impl Lookup for Reader {
    type Error = Error;

    #[inline]
    fn contains<K: Key>(&self, key: K) -> Result<bool> {
        match self.shared.view.load().contains_fast(&key) {
            Some(found) => Ok(found),
            None => self.contains_slow(&mut self.last_view(), &key),
        }
    }

    #[inline]
    fn count<K: Key>(&self, key: K) -> Result<u32> {
        match self.shared.view.load().count_fast(&key) {
            Some(count) => Ok(count),
            None => self.count_slow(&mut self.last_view(), &key),
        }
    }

    fn contains_batch<K: Key + Sync>(&self, keys: &[K]) -> Result<Vec<bool>> {
        let mut found = vec![false; keys.len()];
        self.reload()?;
        let threads = self.shared.options.threads.min(keys.len() / KEYS_WORTH_A_THREAD).max(1);
        self.look(|view| {
            view.verify_ahead(keys.len(), threads);
            Some(Ok(()))
        })?;
        let part = keys.len().div_ceil(threads).max(1);
        let parts = keys.chunks(part).zip(found.chunks_mut(part)).collect();
        let look_up = |(keys, found): (&[K], &mut [bool])| -> Result<()> {
            for (keys, found) in keys.chunks(BLOCK).zip(found.chunks_mut(BLOCK)) {
                let uncertain =
                    self.look(|view| Some(view.contains_block(keys, |key| self.hash_in(view, key), found)))?;
                for index in uncertain {
                    found[index] = self.contains_slow(&mut self.last_view(), &keys[index])?;
                }
            }
            Ok(())
        };
        on_threads(parts, look_up).into_iter().collect::<Result<()>>()?;
        Ok(found)
    }
}

impl Options {
    /// Options for a new filter that can be merged with another: with the same kind, seed and hash, slots, shard, regions
    /// at creation, limits and rule of growth. They do not repeat the other filter's doublings.
    ///
    /// Fails with the error of a file that has replaced the other filter, if that file cannot be opened.
    pub fn like(other: &Reader) -> Result<Self> {
        let view = other.view()?;
        let Superblock { identity, policy, metadata, .. } = &view.superblock;
        Ok(Self::new().designed_as(identity, policy, metadata.key_rules()))
    }

    /// Opens the filter for reading. Fails as [`Reader::open`] does, and with [`Error::Kind`] if the filter is not of the
    /// kind that these options ask for.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Reader> {
        Reader::open_with(path.as_ref(), self)
    }
}
