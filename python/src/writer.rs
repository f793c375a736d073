//! `gowk.Writer`.
//!
//! One thread at a time has the filter, and while it has, it never waits for the GIL but in functions of the caller. A
//! thread that would have to wait lets go of the GIL first. So nobody waits for both.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::feed::{Operation, Stopped, feed};
use crate::key::with_key;
use crate::process::generation;
use crate::progress::with_progress;
use crate::reader::Reader;
use crate::{array_of, failure, info, options};

/// Keys that are inserted or removed at a time. Fewer would cost speed, as each region that a chunk touches is worked on
/// once for it.
const ROWS: usize = 1 << 20;
/// Keys that are looked up at a time.
const ROWS_LOOKED_UP: usize = 1 << 14;
/// How long a doubling under a single insert keeps the GIL at a time.
const BREATH: Duration = Duration::from_millis(5);

/// A filter open for changes: by one writer at a time, over all processes.
///
/// All changes belong to a transaction. This writer sees them at once, and nobody else before :meth:`commit`. As a
/// context manager it commits and closes at the end of the block; an exception rolls back instead. If that commit
/// fails, the writer stays open, so that it may be tried again.
///
/// As a **set**: :meth:`add`, :meth:`add_new`, :meth:`update` and :meth:`update_new` store a key only if it is not found.
/// As a **multiset**: :meth:`insert` and :meth:`insert_many` store each copy, and :meth:`remove` takes one. Mixing them
/// loses keys, so removal is refused once a key was skipped because it was found.
///
/// Keys are ``bytes``-like, or ``str``, which stands for its UTF-8. Everything else is a :class:`TypeError`.
///
/// A writer belongs to the process that opened it, and cannot be pickled. Threads may share it.
///
/// Args:
///     path: the filter file; ``FILE-journal`` and ``FILE-lock`` lie beside it.
///     mode: ``"a"`` opens the filter or creates it, ``"r+"`` opens one that must be there, ``"x"`` creates one that must
///         not be there, and ``"w"`` creates one in the place of what is there.
///     capacity: at creation: distinct keys that the filter takes before it has to double; a million unless given.
///     false_positive_rate: at creation: the chance that a key never inserted is found, at full load and before any
///         doubling; 0.001 unless given. Chooses the slots. An existing filter of a higher rate is refused.
///     slots_per_bucket: at creation: 2 to 7, instead of a rate.
///     seed: at creation: of the hash; random unless given.
///     growth: at creation: whether the filter doubles itself when it is full, ``"auto"`` (unless given) or ``"never"``.
///     max_file_size: at creation: the most bytes that the file may have.
///     max_false_positive_rate: at creation: the highest expected rate that a doubled filter may have.
///     threads: threads that batches are divided over, at least 1.
///     wait: seconds to wait for another writer to finish.
///     verify: when pages are compared with their checksums; see :class:`Reader`.
///     max_kicks: entries that an insert examines at most in search of a free slot.
///     void_growth: whether the filter may double although most of its entries would be copied to both sides.
///     like: at creation: a reader of another filter, as which this one is created, so that the two can be merged. Give
///         no ``capacity``, rate, slots or seed beside it.
///     shard: at creation: ``(number, of)``: the filter holds shard ``number``, from 0, of ``of``. A key of another
///         shard is refused with :class:`OtherShard`.
///
/// Raises:
///     Locked: another writer has the filter.
///     Rate: the filter is there, and not as selective as asked.
///     Option: an option is outside its range. It is a :class:`ValueError` too.
///     Error: something is wrong with the file; the subclasses say what.
///
/// >>> import gowk
/// >>> with gowk.Writer("seen.gowk", capacity=100_000, false_positive_rate=1e-4) as seen:
/// ...     seen.add_new("https://example.org/"), seen.add_new("https://example.org/")
/// (True, False)
#[pyclass(frozen, module = "gowk", name = "Writer", weakref)]
pub(crate) struct Writer {
    path: PathBuf,
    threads: usize,
    generation: u32,
    process: u32,
    /// `None` once closed.
    writer: Mutex<Option<gowk::Writer>>,
    /// The thread that has it, or 0.
    owner: AtomicUsize,
}

thread_local! {
    /// Its address is the number of the thread.
    static THREAD: u8 = const { 0 };
    /// Since when the thread has worked on a filter with the GIL.
    static WITH_THE_GIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

fn this_thread() -> usize {
    THREAD.with(|here| std::ptr::from_ref(here).addr())
}

/// Lets other threads have the GIL for a moment, if this one has had it for long.
fn breathe() {
    if WITH_THE_GIL.get().is_some_and(|since| since.elapsed() > BREATH) {
        Python::attach(|py| py.detach(|| thread::sleep(Duration::from_micros(50))));
        WITH_THE_GIL.set(Some(Instant::now()));
    }
}

/// The writer, as long as this thread has it.
struct Held<'a> {
    writer: MutexGuard<'a, Option<gowk::Writer>>,
    owner: &'a AtomicUsize,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.owner.store(0, Ordering::Relaxed);
    }
}

impl Writer {
    /// Fails where waiting for the writer would never end, and in a child of the process that opened it.
    fn check(&self) -> PyResult<()> {
        if self.generation != generation() {
            return Err(failure::of_other_process(&self.path));
        }
        if self.owner.load(Ordering::Relaxed) == this_thread() {
            let message = format!("{}: used by a function that this Writer has called", self.path.display());
            return Err(PyRuntimeError::new_err(message));
        }
        Ok(())
    }

    fn held<'a>(&'a self, writer: MutexGuard<'a, Option<gowk::Writer>>) -> Held<'a> {
        self.owner.store(this_thread(), Ordering::Relaxed);
        Held { writer, owner: &self.owner }
    }

    /// The writer, once no other thread has it.
    fn wait(&self) -> Held<'_> {
        // A panic in the middle of a change has poisoned the writer itself.
        self.held(self.writer.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn closed(&self) -> PyErr {
        PyValueError::new_err(format!("{}: this Writer is closed", self.path.display()))
    }

    fn on<T>(&self, mut held: Held<'_>, work: impl FnOnce(&mut gowk::Writer) -> T) -> PyResult<T> {
        held.writer.as_mut().map(work).ok_or_else(|| self.closed())
    }

    /// Does something that takes a moment: with the GIL, unless the writer has to be waited for.
    #[inline]
    fn quickly<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut gowk::Writer) -> gowk::Result<T> + Send,
    ) -> PyResult<T> {
        self.check()?;
        let held = match self.writer.try_lock() {
            Ok(writer) => Some(self.held(writer)),
            Err(TryLockError::Poisoned(writer)) => Some(self.held(writer.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        };
        let outcome = match held {
            Some(held) => {
                WITH_THE_GIL.set(Some(Instant::now()));
                let outcome = self.on(held, work);
                WITH_THE_GIL.set(None);
                outcome
            }
            None => py.detach(|| self.on(self.wait(), work)),
        };
        outcome?.map_err(|error| failure::raised(py, &error))
    }

    /// Does something that may take long, without the GIL.
    fn slowly<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut gowk::Writer) -> gowk::Result<T> + Send,
    ) -> PyResult<T> {
        self.check()?;
        py.detach(|| self.on(self.wait(), work))?.map_err(|error| failure::raised(py, &error))
    }

    /// Does something that tells how far it is.
    fn telling<T: Send>(
        &self,
        py: Python<'_>,
        progress: Option<Py<PyAny>>,
        work: impl FnOnce(&mut gowk::Writer, &mut dyn FnMut(u64, u64)) -> gowk::Result<T> + Send,
    ) -> PyResult<T> {
        self.check()?;
        let outcome = with_progress(py, progress, |tell| self.on(self.wait(), |writer| work(writer, tell)))?;
        outcome?.map_err(|error| failure::raised(py, &error))
    }

    /// Gives all keys to `take`, which is called without the GIL, and returns its answers. It `changes` the filter, or
    /// looks them up.
    fn many<A: Copy + Default + Send + 'static>(
        &self,
        keys: &Bound<'_, PyAny>,
        changes: bool,
        take: impl FnMut(&mut gowk::Writer, &[&[u8]], &mut Vec<A>) -> Result<(), Stopped> + Send,
    ) -> PyResult<Vec<A>> {
        self.check()?;
        feed(keys, Change { writer: self, changes, take, answer: std::marker::PhantomData })
    }

    fn unique(&self, keys: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
        self.many(keys, true, |writer, keys, stored| refusals(writer.insert_unique_batch(keys, stored)))
    }
}

/// Some keys into a writer.
struct Change<'a, A, F> {
    writer: &'a Writer,
    changes: bool,
    take: F,
    answer: std::marker::PhantomData<fn() -> A>,
}

impl<A, F> Operation for Change<'_, A, F>
where
    A: Copy + Default + Send + 'static,
    F: FnMut(&mut gowk::Writer, &[&[u8]], &mut Vec<A>) -> Result<(), Stopped> + Send,
{
    type Answer = A;

    fn changes(&self) -> bool {
        self.changes
    }

    fn rows(&self) -> usize {
        if self.changes { ROWS } else { ROWS_LOOKED_UP }
    }

    fn take(&mut self, keys: &[&[u8]], answers: &mut Vec<A>) -> Result<(), Stopped> {
        // Reading the keys may have forked, or closed the writer.
        self.writer.check().map_err(Stopped::Raised)?;
        let take = |writer: &mut gowk::Writer| (self.take)(writer, keys, answers);
        self.writer.on(self.writer.wait(), take).map_err(Stopped::Raised)?
    }
}

/// Keys that had no room, of a batch.
fn refusals(outcome: gowk::Result<Vec<(usize, gowk::Error)>>) -> Result<(), Stopped> {
    let all = outcome.map_err(Stopped::Failed)?;
    let refused = all.len();
    match all.into_iter().next() {
        None => Ok(()),
        Some((first, cause)) => Err(Stopped::Refused { first, refused, cause }),
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Closing the filter in a child would tell everybody that the parent has closed it.
        if self.process != std::process::id() {
            let writer = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(writer.take());
        }
    }
}

#[pymethods]
impl Writer {
    #[new]
    #[pyo3(signature = (path, *, mode="a", capacity=None, false_positive_rate=None, slots_per_bucket=None,
        seed=None, growth=None, max_file_size=None, max_false_positive_rate=None, threads=1, wait=0.0,
        verify="first_touch", max_kicks=2000, void_growth=false, like=None, shard=None))]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        mode: &str,
        capacity: Option<u64>,
        false_positive_rate: Option<f64>,
        slots_per_bucket: Option<u32>,
        seed: Option<u64>,
        growth: Option<&str>,
        max_file_size: Option<u64>,
        max_false_positive_rate: Option<f64>,
        threads: usize,
        wait: f64,
        verify: &str,
        max_kicks: u32,
        void_growth: bool,
        like: Option<PyRef<'_, Reader>>,
        shard: Option<(u64, u64)>,
    ) -> PyResult<Self> {
        let path = std::path::absolute(path)?;
        let options = match like {
            Some(other) => {
                gowk::Options::like(other.reader(py)?).map_err(|error| failure::raised(py, &error))?
            }
            None => gowk::Options::new(),
        };
        let mut options = options::common(options, threads, wait, verify)?
            .max_kicks(max_kicks)
            .void_growth(void_growth)
            .growth_progress(|_, _| breathe());
        if let Some(keys) = capacity {
            options = options.capacity(keys);
        }
        if let Some(growth) = growth {
            options = options.growth(options::growth(growth)?);
        }
        if let Some((number, of)) = shard {
            options = options.shard(number, of);
        }
        if let Some(rate) = false_positive_rate {
            options = options.false_positive_rate(rate);
        }
        if let Some(slots) = slots_per_bucket {
            options = options.slots_per_bucket(options::slots(slots)?);
        }
        if let Some(seed) = seed {
            options = options.seed(seed);
        }
        if let Some(bytes) = max_file_size {
            options = options.max_file_size(bytes);
        }
        if let Some(rate) = max_false_positive_rate {
            options = options.max_false_positive_rate(rate);
        }
        let writer = py.detach(|| match mode {
            "a" => Ok(options.open(&path)),
            "r+" => Ok(options.open_existing(&path)),
            "x" => Ok(options.create(&path)),
            "w" => Ok(options.force(true).create(&path)),
            _ => Err(PyValueError::new_err(format!(
                "mode is {mode:?}, but must be \"a\", \"r+\", \"x\" or \"w\""
            ))),
        });
        let writer = writer?.map_err(|error| failure::raised(py, &error))?;
        let (writer, owner) = (Mutex::new(Some(writer)), AtomicUsize::new(0));
        Ok(Self { path, threads, generation: generation(), process: std::process::id(), writer, owner })
    }

    /// Whether the key is present, with the changes of the open transaction; see :meth:`Reader.__contains__`.
    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        with_key(key, |bytes| self.quickly(key.py(), |writer| writer.contains(bytes)))?
    }

    /// Looks up many keys: a NumPy array of bool, one a key, in their order. See :meth:`Reader.contains_many`; a reader
    /// is faster.
    fn contains_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let found = self.many(keys, false, |writer, keys, found: &mut Vec<bool>| {
            for key in keys {
                found.push(writer.contains(key).map_err(Stopped::Failed)?);
            }
            Ok(())
        })?;
        Ok(array_of(keys.py(), found))
    }

    /// How many copies of the key are stored. Other keys that match it count too, so this is never too low.
    fn count(&self, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        with_key(key, |bytes| self.quickly(key.py(), |writer| writer.count(bytes)))?.map(u64::from)
    }

    /// As :meth:`count`, for many keys: a NumPy array of uint64. A null has none.
    fn count_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let counts = self.many(keys, false, |writer, keys, counts: &mut Vec<u64>| {
            for key in keys {
                counts.push(writer.count(key).map_err(Stopped::Failed)?.into());
            }
            Ok(())
        })?;
        Ok(array_of(keys.py(), counts))
    }

    /// Stores the key unless it is found already.
    ///
    /// Raises:
    ///     TypeError: the key is neither ``str`` nor ``bytes``-like.
    ///     Full: the filter has no room, and must not grow.
    ///     Growth: the filter has no room, and growing would not be right.
    fn add(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.add_new(key).map(drop)
    }

    /// Stores the key unless it is found already; returns whether it was **new**, and so was stored.
    ///
    /// Errors as for :meth:`add`.
    ///
    /// >>> import gowk
    /// >>> with gowk.Writer("seen.gowk") as seen:
    /// ...     seen.add_new("a"), seen.add_new(b"a")
    /// (True, False)
    fn add_new(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        with_key(key, |bytes| self.quickly(key.py(), |writer| writer.insert_unique(bytes)))?
    }

    /// Stores all keys that are not found already. Nulls are skipped. The GIL is released.
    ///
    /// An iterable is read in chunks, in constant memory: about a million keys, or 16 MiB of them. If it raises, if one
    /// of its keys is none, or at Ctrl-C, the keys before that stay in the open transaction: the exception's attribute
    /// ``taken`` has their number, and a note says so. :meth:`commit` keeps them, and :meth:`rollback` undoes them.
    ///
    /// Args:
    ///     keys: any iterable of keys, a NumPy array, or Arrow data; see :meth:`Reader.contains_many`.
    ///
    /// Raises:
    ///     TypeError: one of the keys is none, which the message names by its index.
    ///     Full: some keys found no room, and the filter must not grow. The others of their chunk were taken.
    ///     Growth: some keys found no room, and growing would not be right.
    ///
    /// >>> import gowk
    /// >>> seen = gowk.Writer("seen.gowk")
    /// >>> try:
    /// ...     seen.update(["a", "b", 3, "d"])
    /// ... except TypeError as error:
    /// ...     print(error, error.taken)
    /// keys[2] is int, but a key is str or bytes-like 2
    /// >>> "b" in seen, "d" in seen
    /// (True, False)
    /// >>> seen.close()
    fn update(&self, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut stored = Vec::new();
        let take = |writer: &mut gowk::Writer, keys: &[&[u8]], _: &mut Vec<()>| {
            refusals(writer.insert_unique_batch(keys, &mut stored))
        };
        self.many(keys, true, take).map(drop)
    }

    /// As :meth:`update`; returns which keys were **new**: a NumPy array of bool, one a key, in their order.
    ///
    /// Of equal keys, the first counts. A null has False. If an exception ends the call, its attribute ``mask`` has the
    /// answers of the keys that were taken.
    ///
    /// >>> import gowk
    /// >>> with gowk.Writer("seen.gowk") as seen:
    /// ...     seen.update_new(["a", "b", "a"])
    /// array([ True,  True, False])
    fn update_new<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Ok(array_of(keys.py(), self.unique(keys)?))
    }

    /// Stores one more copy of the key, as removal needs it: one removal takes one copy. Errors as for :meth:`add`.
    fn insert(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        with_key(key, |bytes| self.quickly(key.py(), |writer| writer.insert(bytes)))?
    }

    /// Stores one more copy of each key. Otherwise as :meth:`update`.
    fn insert_many(&self, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        let take =
            |writer: &mut gowk::Writer, keys: &[&[u8]], _: &mut Vec<()>| refusals(writer.insert_batch(keys));
        self.many(keys, true, take).map(drop)
    }

    /// Removes one copy of the key; returns whether there was one.
    ///
    /// Remove only what was inserted: removing another key can take an entry that a key needs, which is then lost.
    ///
    /// Raises:
    ///     UnsafeRemove: some inserts stored no entry of their own, because :meth:`add` or :meth:`update` found the key.
    fn remove(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        with_key(key, |bytes| self.quickly(key.py(), |writer| writer.remove(bytes)))?
    }

    /// As :meth:`remove`, even if inserts were skipped. Skipped keys that rely on the removed entry are lost with it.
    fn remove_unchecked(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        with_key(key, |bytes| self.quickly(key.py(), |writer| writer.remove_unchecked(bytes)))?
    }

    /// Removes one copy of each key; returns where there was one: a NumPy array of bool, one a key, in their order.
    ///
    /// Otherwise as :meth:`remove` and :meth:`update_new`.
    fn remove_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let removed = self.many(keys, true, |writer, keys, removed| {
            writer.remove_batch(keys, removed).map_err(Stopped::Failed)
        })?;
        Ok(array_of(keys.py(), removed))
    }

    /// Makes the transaction's keys and metadata durable and visible, all or nothing. Without changes it does nothing.
    ///
    /// Raises:
    ///     Unknown: whether the commit is durable is unknown until the filter is opened again.
    ///     AfterCommit: the commit is durable, but was not applied.
    ///     Error: after any other error the commit is not there, and may be tried again or rolled back.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.slowly(py, gowk::Writer::commit)
    }

    /// Forgets all changes since the last commit.
    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        self.slowly(py, gowk::Writer::rollback)
    }

    /// Rolls the open transaction back, and lets other writers have the filter. Closing again does nothing.
    ///
    /// Raises:
    ///     AfterCommit: something failed; what was committed is durable.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.check()?;
        let outcome = py.detach(|| self.wait().writer.take().map_or(Ok(()), gowk::Writer::close));
        outcome.map_err(|error| failure::raised(py, &error))
    }

    /// Makes all commits part of the file itself, and empties the journal: what closing does, and every 64 MiB of
    /// journal.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        self.slowly(py, gowk::Writer::checkpoint)
    }

    /// Doubles the filter now, as part of the open transaction.
    ///
    /// Args:
    ///     progress: called with the regions done, and all there are. An exception of it ends the doubling.
    ///
    /// Raises:
    ///     Growth: a limit forbids it.
    #[pyo3(signature = (progress=None))]
    fn grow(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<()> {
        self.telling(py, progress, |writer, tell| writer.grow_with(tell))
    }

    /// Gives up damaged pages, so that the filter can be used again: their slots match every key from now on. Rolls the
    /// open transaction back, and commits.
    ///
    /// Args:
    ///     progress: called with the pages read, and all there are. An exception of it ends the repair.
    #[pyo3(signature = (progress=None))]
    fn repair<'py>(&self, py: Python<'py>, progress: Option<Py<PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let repair = self.telling(py, progress, |writer, tell| writer.repair(tell))?;
        info::repair(py, &repair)
    }

    /// The copies that are stored, with the changes of the open transaction: keys inserted, less those removed. Keys that
    /// :meth:`add` or :meth:`update` found present do not count.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let info = self.quickly(py, |writer| writer.info())?;
        Ok(info.copies as usize)
    }

    /// The filter as the open transaction has it.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        info::info(py, &self.quickly(py, |writer| writer.info())?)
    }

    /// The chance that a key never inserted is found now, 0 to 1.
    #[getter]
    fn expected_false_positive_rate(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.quickly(py, |writer| writer.info())?.expected_false_positive_rate)
    }

    /// Names and bytes that the filter carries: a mutable mapping of ``str`` to ``bytes``, committed and rolled back with
    /// the keys. At most 49,152 bytes in all, with 8 for each entry.
    ///
    /// >>> import gowk
    /// >>> with gowk.Writer("seen.gowk") as seen:
    /// ...     seen.metadata["crawl"] = b"page 17"
    /// >>> gowk.Reader("seen.gowk").metadata["crawl"]
    /// b'page 17'
    #[getter]
    fn metadata<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("gowk._metadata")?.getattr("Metadata")?.call1((slf,))
    }

    #[pyo3(name = "_entries")]
    fn entries<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let metadata = self.quickly(py, |writer| writer.metadata().cloned())?;
        let entries = PyDict::new(py);
        for (name, value) in metadata.iter() {
            entries.set_item(name, PyBytes::new(py, value))?;
        }
        Ok(entries)
    }

    #[pyo3(name = "_set_entry")]
    fn set_entry(&self, py: Python<'_>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if value.is_instance_of::<pyo3::types::PyString>() {
            return Err(PyTypeError::new_err("the value is str, but metadata holds bytes; encode it"));
        }
        let value =
            crate::key::bytes_of(value).map_err(|no_key| no_key.raised(py, "the value"))?.into_owned();
        self.quickly(py, |writer| {
            writer.metadata_mut()?.set(name, value);
            Ok(())
        })
    }

    /// Removes an entry; returns whether there was one.
    #[pyo3(name = "_remove_entry")]
    fn remove_entry(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.quickly(py, |writer| Ok(writer.metadata_mut()?.remove(name).is_some()))
    }

    /// The filter file, as a :class:`pathlib.Path` without links followed.
    #[getter]
    fn path(&self) -> &Path {
        &self.path
    }

    /// Whether :meth:`close` was called.
    #[getter]
    #[pyo3(name = "closed")]
    fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        self.check()?;
        Ok(py.detach(|| self.wait().writer.is_none()))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (kind, value, traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let _ = (value, traceback);
        self.check()?;
        let is_closed = py.detach(|| self.wait().writer.is_none());
        if kind.is_none() && !is_closed {
            self.commit(py)?;
        }
        self.close(py)
    }

    fn __reduce__(&self) -> PyResult<()> {
        let message = format!(
            "{}: a Writer cannot be pickled, as only one process writes; send a gowk.Reader, or the path",
            self.path.display()
        );
        Err(PyTypeError::new_err(message))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let threads = if self.threads == 1 { String::new() } else { format!(", threads={}", self.threads) };
        Ok(format!("gowk.Writer({}{threads})", self.path.as_os_str().into_pyobject(py)?.repr()?))
    }
}
