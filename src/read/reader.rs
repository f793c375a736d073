//! The reader of a filter, for any number of processes and threads, beside a writer or without one. Every lookup is
//! made in a current view of the file. How a lookup reads a view: `seqlock.rs`.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use super::lookup::Lookup;
use super::recent;
use super::ring::BLOCK;
use super::view::{View, ViewInUse};
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

/// With fewer keys, starting a thread costs more than it saves.
const KEYS_WORTH_A_THREAD: usize = 32_768;
/// The longest time that a call waits for a moment at which nothing is being applied.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// A filter open for reading. Clones share one mapping; all methods may be called from any thread.
///
/// It sees each commit when that commit returns, and follows the filter when it doubles. When another file takes the
/// filter's name, batches follow at once; single lookups follow after [`refresh`](Self::refresh), or through
/// [`lookups`](Self::lookups). Opening a reader is cheap: it starts no thread, and verifies the superblocks at once, and
/// the checksum of a page when it first touches that page ([`Verify`](crate::Verify)).
///
/// The file stays mapped and open until the last clone is dropped, and an old generation until the first call after the
/// filter has doubled. (On systems other than Linux, a thread keeps the map that it last looked something up in until its
/// next lookup or its end.)
#[derive(Clone)]
pub struct Reader {
    number: u64,
    shared: Arc<Shared>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// The number of the next reader opened in this process; 0 is none.
static NEXT: AtomicU64 = AtomicU64::new(1);

struct Shared {
    number: u64,
    files: Files,
    options: Options,
    /// The hash function when the reader was opened; callers may hold hashes made by it.
    hasher: KeyHasher,
    view: ArcSwap<ViewInUse>,
    reopening: Mutex<()>,
}

impl Reader {
    /// Opens a filter for reading, with the default options.
    ///
    /// Recovers the file first if its last writer died, which needs permission to write; a process without it replays
    /// the journal into memory of its own. Fails with [`Error::NotFound`] if there is no filter, and with the error of
    /// a file that cannot be used.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().read(path)
    }

    pub(super) fn open_with(path: &Path, options: &Options) -> Result<Self> {
        let files = if options.sealed { Files::of_sealed(path)? } else { Files::new(path)? };
        let view = View::open(&files, options)?;
        Self::of_view(files, options, view)
    }

    /// A reader that looks into `view`, if the filter is as the options ask for.
    pub(super) fn of_view(files: Files, options: &Options, view: View) -> Result<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let view = view.of_reader(number);
        options.check_kind(&files.data, view.superblock.identity.kind)?;
        events::opened(&files.data, "read");
        options.check_key_rules(&files.data, view.superblock.metadata.key_rules())?;
        let hasher = view.hasher();
        let view = Arc::new(ViewInUse::new(view));
        let (view, reopening) = (ArcSwap::new(view), Mutex::new(()));
        let options = options.clone();
        Ok(Self { number, shared: Arc::new(Shared { number, files, options, hasher, view, reopening }) })
    }

    /// A reader of the same filter that looks into `view`.
    pub(super) fn moved_to(&self, view: View) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let Shared { files, options, hasher, .. } = &*self.shared;
        let view = ArcSwap::from_pointee(ViewInUse::new(view.of_reader(number)));
        let (files, options, hasher) = (files.clone(), options.clone(), *hasher);
        Self {
            number,
            shared: Arc::new(Shared { number, files, options, hasher, view, reopening: Mutex::new(()) }),
        }
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
        self.hash_if_known(view, key).ok_or_else(|| match K::HASHED {
            true => Error::Replaced { path: self.shared.files.data.clone() },
            false => self.caller_hashes(),
        })
    }

    /// Like `hash_in`; `None` where that fails.
    #[inline]
    fn hash_if_known<K: Key>(&self, view: &View, key: &K) -> Option<KeyHash> {
        if K::HASHED && view.hasher() != self.shared.hasher {
            return None;
        }
        key.hash(view.hasher())
    }

    // Generic down to `contains_quickly`, so that the hash stays in registers. Through a `dyn Fn` it goes through memory,
    // and a lookup takes 35 ns more until all pages are verified.
    #[inline(never)]
    fn contains_otherwise<K: Key>(&self, key: &K) -> Result<bool> {
        let quickly = |view: &View| view.contains_quickly(self.number, self.hash_if_known(view, key)?);
        match self.quick(quickly) {
            Some(found) => Ok(found),
            None => self.contains_patiently(&|view| self.hash_in(view, key)),
        }
    }

    #[inline(never)]
    fn count_otherwise<K: Key>(&self, key: &K) -> Result<u32> {
        let quickly = |view: &View| view.count_quickly(self.number, self.hash_if_known(view, key)?);
        match self.quick(quickly) {
            Some(count) => Ok(count),
            None => self.count_patiently(&|view| self.hash_in(view, key)),
        }
    }

    fn contains_patiently(&self, hash: &dyn Fn(&View) -> Result<KeyHash>) -> Result<bool> {
        let on_damage = self.shared.options.on_damage;
        self.look(|view| match hash(view) {
            Ok(hash) => view.contains(hash, on_damage),
            Err(error) => Some(Err(error)),
        })
    }

    fn count_patiently(&self, hash: &dyn Fn(&View) -> Result<KeyHash>) -> Result<u32> {
        self.look(|view| match hash(view) {
            Ok(hash) => view.count(hash),
            Err(error) => Some(Err(error)),
        })
    }

    /// The epochs that a forgetting filter keeps the key of this hash, from its own epoch on; 0 if it is not there. If that
    /// cannot be known, as a bucket is quarantined, `u32::MAX`.
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

    /// The number of copies of all keys as of the last commit: those inserted, less those removed. In a set these are
    /// the keys that were stored; a key that was found already, which may be a false positive, is not counted.
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
    pub(crate) fn view(&self) -> Result<Arc<ViewInUse>> {
        self.current(Instant::now())
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

    /// Looks whether the filter's name leads to another file by now, as after `mv new.gowk live.gowk`, and goes on with
    /// that file; returns whether it did. If the name leads to no file, the reader keeps the one that it has. Does
    /// nothing for a copy in memory.
    ///
    /// Every batch calls it first, and [`lookups`](Self::lookups) call it twice a second. Other single lookups stay with
    /// the file until somebody calls it. Commits, doublings and copies over the filter ([`copy_over`](Self::copy_over))
    /// are seen at once in any case.
    ///
    /// Fails with the error of the other file, if that cannot be opened; lookups fail in the same way until the name
    /// leads to a good file.
    pub fn refresh(&self) -> Result<bool> {
        let view = self.shared.view.load_full();
        if !self.shared.options.follow || !view.is_elsewhere(&self.shared.files)? {
            return Ok(false);
        }
        view.leave();
        self.reopen(&view)?;
        Ok(true)
    }

    /// The answer from the view that this thread keeps; `None` if it keeps none.
    fn quick<T>(&self, answer: impl FnOnce(&View) -> Option<T>) -> Option<T> {
        let view = recent::take()?;
        let answer = answer(&view);
        recent::put_back(view);
        answer
    }

    /// The answer from a current view; opens the file anew until there is an answer, for at most [`DEADLINE`].
    fn look<T>(&self, mut answer: impl FnMut(&View) -> Option<Result<T>>) -> Result<T> {
        let start = Instant::now();
        loop {
            let view = self.current(start)?;
            if let Some(answer) = answer(&view) {
                self.remember(&view);
                return answer;
            }
            self.reopen(&view)?;
            if start.elapsed() > DEADLINE {
                return Err(self.busy("read"));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Keeps the view for this thread's next lookup, unless `quick` does not check enough for it.
    fn remember(&self, view: &ViewInUse) {
        if !view.is_plain() || view.hasher() != self.shared.hasher {
            return;
        }
        recent::keep(view.to_keep());
    }

    fn current(&self, start: Instant) -> Result<Arc<ViewInUse>> {
        loop {
            let view = self.shared.view.load_full();
            if view.is_current(&self.shared.files)? {
                return Ok(view);
            }
            self.reopen(&view)?;
            if start.elapsed() > DEADLINE {
                return Err(self.busy("read"));
            }
        }
    }

    pub(super) fn busy(&self, op: &'static str) -> Error {
        Error::Busy { path: self.shared.files.data.clone(), op }
    }

    /// Opens the file anew, unless another thread has done so since `seen`.
    pub(super) fn reopen(&self, seen: &Arc<ViewInUse>) -> Result<()> {
        let _one_at_a_time = self.shared.reopening.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(seen, &self.shared.view.load()) {
            let view = View::open(&self.shared.files, &self.shared.options)?.of_reader(self.number);
            let view = Arc::new(ViewInUse::new(view));
            self.shared.view.store(view);
            // Tells threads that keep the old view.
            seen.leave();
        }
        Ok(())
    }
}

impl Lookup for Reader {
    type Error = Error;

    // Always inlined: it compiles to little code, and as a call it would make a lookup a seventh slower.
    #[inline(always)]
    fn contains<K: Key>(&self, key: K) -> Result<bool> {
        if let Some(view) = recent::take() {
            let found = view.contains_in_line(self.number, &key);
            recent::put_back(view);
            if let Some(found) = found {
                return Ok(found);
            }
        }
        self.contains_otherwise(&key)
    }

    #[inline]
    fn count<K: Key>(&self, key: K) -> Result<u32> {
        if let Some(view) = recent::take() {
            let count = view.count_in_line(self.number, &key);
            recent::put_back(view);
            if let Some(count) = count {
                return Ok(count);
            }
        }
        self.count_otherwise(&key)
    }

    fn contains_batch<K: Key + Sync>(&self, keys: &[K]) -> Result<Vec<bool>> {
        let mut found = vec![false; keys.len()];
        self.refresh()?;
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
                    found[index] = self.contains_otherwise(&keys[index])?;
                }
            }
            Ok(())
        };
        on_threads(parts, look_up).into_iter().collect::<Result<()>>()?;
        Ok(found)
    }
}

impl Options {
    /// Options for a new filter that can be merged with another: with the same kind, seed and hash, slots, shard,
    /// regions at creation, limits and rule of growth. The doublings of the other are not repeated.
    ///
    /// Fails with the error of a file that has taken the other's place, if it cannot be opened.
    pub fn like(other: &Reader) -> Result<Self> {
        let view = other.view()?;
        let Superblock { identity, policy, metadata, .. } = &view.superblock;
        Ok(Self::new().designed_as(identity, policy, metadata.key_rules()))
    }

    /// Opens the filter for reading. Fails as [`Reader::open`] does, and with [`Error::Kind`] if the filter is of
    /// another kind than these options ask for.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Reader> {
        Reader::open_with(path.as_ref(), self)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        recent::let_go(|view| view.reader == self.number);
    }
}
