//! `gowk.Writer`, as Python sees it.
//!
//! All methods of a class are in one block. PyO3 can divide them, but then also keeps the code of all classes of the
//! Arrow crates, which doubles the size of the module.

mod opened;

use std::path::{Path, PathBuf};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::key::{bytes_of, fs_path, with_key};
use crate::options::{Creation, Forgetting, Span};
use crate::owned::{Owned, insert, insert_silently, remove};
use crate::process::Calling;
use crate::reader::Reader;
use crate::{array_of, failure, info, options, times};

/// A filter open for changes: by one writer at a time, over all processes.
///
/// All changes belong to a transaction. This writer sees them at once, and nobody else before :meth:`commit`. As a
/// context manager it commits and closes at the end of the block; an exception rolls back instead. If that commit
/// fails, the writer stays open, so that the commit may be tried again. A writer that is dropped without :meth:`close`
/// rolls back, with a :class:`ResourceWarning` if there were changes.
///
/// The kind of a filter is fixed when it is created; :attr:`Info.kind` shows it. A **set** stores a key unless it is
/// found. A **counting** filter stores each copy, and :meth:`remove` takes one. A **forgetting** one keeps each key for some
/// time. On all of them, :meth:`insert` returns whether the key was not there before.
///
/// Keys are ``bytes``-like, or ``str``, which stands for its UTF-8. Everything else is a :class:`TypeError`.
///
/// A writer belongs to the process that opened it, and cannot be pickled. Threads may share it.
///
/// Args:
///     path: the filter file; ``FILE-journal`` and ``FILE-lock`` lie beside it.
///     mode: ``"a"`` opens or creates the filter, ``"r+"`` opens an existing filter, ``"x"`` creates a new one, and
///         ``"w"`` creates one, replacing an existing filter.
///     counting: at creation: the filter counts copies of keys, which can be removed; otherwise it is a set. True
///         refuses an existing set; False accepts an existing filter of any kind.
///     forget_after: at creation: the filter forgets each key: it keeps the key at least this long after it was first
///         seen; a :class:`datetime.timedelta`, or seconds. An existing filter that forgets in another way is refused.
///     forget_within: at creation: it forgets each key at most this much later, as long as its time goes on; half of
///         ``forget_after`` unless given. The shorter, the more room a key takes.
///     refresh: at creation: the time counts from when a key was last seen.
///     keep_newest: at creation, instead of a time and a capacity: the filter keeps at least this many of the newest
///         keys, and never grows. An existing filter with another setting is refused.
///     capacity: at creation: distinct keys that the filter takes before it has to double; a million unless given.
///     false_positive_rate: at creation: the chance that a key never inserted is found, at full load and before any
///         doubling; 0.001 unless given. Chooses the slots. An existing filter of a higher rate is refused.
///     slots_per_bucket: at creation: 2 to 7, instead of a rate.
///     seed: at creation: the seed of the hash; random unless given.
///     growth: at creation: whether the filter doubles itself when it is full, ``"auto"`` (unless given) or ``"never"``.
///     max_file_size: at creation: the most bytes that the file may have.
///     max_false_positive_rate: at creation: the highest expected rate that a doubled filter may have.
///     threads: threads that share the work of a batch, at least 1.
///     wait: seconds to wait for another writer to finish.
///     verify: when pages are compared with their checksums; see :class:`Reader`.
///     max_kicks: the most entries that one search for a free slot examines.
///     void_growth: whether the filter may double although most of its entries would be copied to both sides.
///     like: at creation: a reader of another filter, whose settings this one gets, so that the two can be merged. Give
///         no ``capacity``, rate, slots or seed beside it.
///     shard: at creation: ``(number, of)``: the filter holds shard ``number``, from 0, of ``of``. A key of another
///         shard is refused with :class:`Invalid`.
///     clock_is_right: believe the clock, even if a forgetting filter would then forget all keys at once, or if the
///         filter's time is later than the clock.
///
/// Raises:
///     Locked: another writer has the filter.
///     WrongKind: the filter is a set, and a counting one was asked for.
///     Invalid: an option is outside its range, or the filter exists and has a higher rate than asked for. It is a
///         :class:`ValueError` too.
///     Error: something is wrong with the file; the subclasses say what.
///
/// >>> import gowk
/// >>> with gowk.Writer("seen.gowk", capacity=100_000, false_positive_rate=1e-4) as seen:
/// ...     seen.insert("https://example.org/"), seen.insert("https://example.org/")
/// (True, False)
#[pyclass(frozen, module = "gowk", name = "Writer", weakref)]
pub(crate) struct Writer {
    path: PathBuf,
    threads: usize,
    owned: Owned<gowk::Writer>,
}

#[pymethods]
impl Writer {
    #[new]
    #[pyo3(signature = (path, *, mode="a", counting=false, forget_after=None, forget_within=None, refresh=false, keep_newest=None, capacity=None, false_positive_rate=None,
        slots_per_bucket=None, seed=None, growth=None, max_file_size=None, max_false_positive_rate=None, threads=1, wait=0.0,
        verify="first_touch", max_kicks=2000, void_growth=false, like=None, shard=None, clock_is_right=false))]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = fs_path)] path: PathBuf,
        mode: &str,
        counting: bool,
        forget_after: Option<Span>,
        forget_within: Option<Span>,
        refresh: bool,
        keep_newest: Option<u64>,
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
        clock_is_right: bool,
    ) -> PyResult<Self> {
        let creation = Creation {
            counting,
            forgetting: Forgetting::new(forget_after, forget_within, refresh)?,
            keep_newest,
            capacity,
            false_positive_rate,
            slots_per_bucket,
            seed,
            growth,
            max_file_size,
            max_false_positive_rate,
            vacuum: None,
        };
        let like = like.as_ref().map(|other| other.reader(py)).transpose()?;
        let options = options::common(options::like(py, like)?, threads, wait, verify)?
            .max_kicks(max_kicks)
            .void_growth(void_growth)
            .clock_is_right(clock_is_right);
        let options =
            shard.into_iter().fold(creation.add_to(options)?, |options, (n, of)| options.shard(n, of));
        Self::opened(py, path, mode, threads, options)
    }

    /// Makes the transaction's keys and metadata durable and visible, all or nothing. Without changes it does nothing.
    ///
    /// Raises:
    ///     Unknown: whether the commit is durable is unknown until the filter is opened again.
    ///     AfterCommit: the commit is durable, but was not applied.
    ///     Error: after any other error the commit is not there, and may be tried again or rolled back.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.owned.slowly(py, gowk::Writer::commit)
    }

    /// Forgets all changes since the last commit.
    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        self.owned.slowly(py, gowk::Writer::rollback)
    }

    /// Closes the filter, so that other writers can open it. Closing again does nothing.
    ///
    /// Raises:
    ///     Uncommitted: there were changes since the last commit. They are lost, and the filter is closed: call
    ///         :meth:`commit` or :meth:`rollback` before.
    ///     AfterCommit: closing failed; all commits are durable.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let writer = self.owned.take(py)?;
        failure::done(py, py.detach(|| writer.map_or(Ok(()), gowk::Writer::close)))
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
        self.owned.is_closed(py)
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
        if kind.is_none() {
            if !self.owned.is_closed(py)? {
                self.commit(py)?;
            }
            return self.close(py);
        }
        let given_up = |mut writer: gowk::Writer| {
            // If it fails, closing does nothing, and the next opening recovers the file.
            let _ = writer.rollback();
            writer.close()
        };
        let writer = self.owned.take(py)?;
        failure::done(py, py.detach(|| writer.map_or(Ok(()), given_up)))
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
        let path = self.path.as_os_str().into_pyobject(py)?.repr()?.to_string();
        // In a child of a fork the writer is as good as closed.
        if self.owned.is_closed(py).unwrap_or(true) {
            return Ok(format!("<closed gowk.Writer({path})>"));
        }
        Ok(format!("gowk.Writer({path}{threads})"))
    }

    /// Whether the key is present, with the changes of the open transaction; see :meth:`Reader.__contains__`.
    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        with_key(key, |bytes| self.owned.quickly(key.py(), |writer| writer.contains(bytes)))
    }

    /// Looks up many keys: a NumPy array of bool, one a key, in their order. See :meth:`Reader.contains_many`; a reader
    /// is faster.
    fn contains_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let found = self.owned.look_up(keys, |writer, keys, found: &mut Vec<bool>| {
            for key in keys {
                found.push(writer.contains(key)?);
            }
            Ok(())
        })?;
        Ok(array_of(keys.py(), found))
    }

    /// How many copies of the key are stored; in a set, at most 1. Copies of other keys that match it are counted too,
    /// so the answer is never too low.
    fn count(&self, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        with_key(key, |bytes| self.owned.quickly(key.py(), |writer| writer.count(bytes))).map(u64::from)
    }

    /// Like :meth:`count`, for many keys: a NumPy array of uint64. A null has 0.
    fn count_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let counts = self.owned.look_up(keys, |writer, keys, counts: &mut Vec<u64>| {
            for key in keys {
                counts.push(writer.count(key)?.into());
            }
            Ok(())
        })?;
        Ok(array_of(keys.py(), counts))
    }

    /// Stores the key; returns whether it is **new**, which means that it was not there before.
    ///
    /// A set stores it unless it is found. A counting filter always stores one more copy.
    ///
    /// Raises:
    ///     TypeError: the key is neither ``str`` nor ``bytes``-like.
    ///     NoRoom: the filter has no room for the key, and growth is off or forbidden by a limit.
    ///
    /// >>> import gowk
    /// >>> with gowk.Writer("seen.gowk") as seen:
    /// ...     seen.insert("a"), seen.insert(b"a")
    /// (True, False)
    fn insert(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        with_key(key, |bytes| self.owned.quickly(key.py(), |writer| writer.insert(bytes)))
    }

    /// Stores many keys, several times as fast as one by one; returns which are **new**: a NumPy array of bool, one a key,
    /// in their order. The GIL is released.
    ///
    /// Of equal keys, only the first can be new. Nulls are skipped, and have False.
    ///
    /// An iterable is read in chunks of about a million keys, or 16 MiB of them; only the answers take more memory. If
    /// the iterable raises, if one of its items is not a key, or at Ctrl-C, the keys before that stay in the open
    /// transaction: the exception's attribute ``taken`` has their number, ``mask`` their answers, and a note says so.
    /// :meth:`commit` keeps them, and :meth:`rollback` undoes them.
    ///
    /// Args:
    ///     keys: any iterable of keys, a NumPy array, or Arrow data; see :meth:`Reader.contains_many`.
    ///
    /// Raises:
    ///     TypeError: one of the keys is neither ``str`` nor ``bytes``-like; the message names it by its index.
    ///     NoRoom: some keys found no room; the others of their chunk were taken. The exception's attribute ``refused``
    ///         has the number of refused keys, and ``index`` the index of the first. ``mask`` says that they are new,
    ///         unless copies of them were there.
    ///
    /// >>> import gowk
    /// >>> with gowk.Writer("seen.gowk") as seen:
    /// ...     seen.insert_many(["a", "b", "a"])
    /// array([ True,  True, False])
    fn insert_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Ok(array_of(keys.py(), self.owned.change(keys, insert)?))
    }

    /// Stores many keys that were seen at these times in a forgetting filter; see :meth:`insert_many`.
    ///
    /// This moves the filter's time to the time of the latest key; the other methods move it to the time of the clock. It
    /// never goes back. A key whose time is so old that it would be forgotten already is *late*; a key more than five
    /// minutes ahead of the clock is *early*. Neither is stored.
    ///
    /// Args:
    ///     keys: as for :meth:`insert_many`. Nulls are skipped.
    ///     times: one for each key: a NumPy array of ``datetime64`` (UTC), Arrow timestamps, a column of pandas, or an
    ///         iterable of :class:`datetime.datetime` with a time zone. Numbers below 10**11 are seconds since 1970, and
    ///         others milliseconds.
    ///
    /// Returns:
    ///     an :class:`InsertedAt`, which says which keys are new, late and early.
    ///
    /// Raises:
    ///     WrongKind: the filter does not forget.
    ///     WrongClock: the times are so far ahead that every key would be forgotten at once; see ``clock_is_right``.
    ///     ValueError: there are not as many times as keys, or one is missing.
    ///     NoRoom: see :meth:`insert_many`.
    ///
    /// >>> import gowk
    /// >>> with gowk.Writer("recent.gowk", forget_after=30 * 86400) as seen:
    /// ...     told = seen.insert_many_at(["a", "b", "a"], [1784000000, 1784000060, 1784000120])
    /// ...     told.new, seen.info().forget_after
    /// (array([ True,  True, False]), datetime.timedelta(days=30))
    fn insert_many_at<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        times: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        times::insert_at(&self.owned, keys, times)
    }

    /// Stores the key in a forgetting filter, and keeps it for this lifetime from now on, a ``timedelta`` or seconds;
    /// returns whether it is **new**. See :meth:`insert_many_for`.
    fn insert_for(&self, key: &Bound<'_, PyAny>, lifetime: Span) -> PyResult<bool> {
        let lifetime = lifetime.of("lifetime")?;
        with_key(key, |bytes| self.owned.quickly(key.py(), |writer| writer.insert_for(bytes, lifetime)))
    }

    /// Stores many keys in a forgetting filter, each for a lifetime of its own from now on; returns which are **new**, as
    /// :meth:`insert_many` does. A key that is there already keeps the later of its two expiry times.
    ///
    /// Args:
    ///     keys: as for :meth:`insert_many`. Nulls are skipped.
    ///     lifetimes: one for each key: a NumPy array of ``timedelta64``, Arrow durations, a column of pandas, or an
    ///         iterable of :class:`datetime.timedelta` or seconds; or a single one for all keys. At most the
    ///         ``forget_after`` of the filter.
    ///
    /// Raises:
    ///     WrongKind: the filter does not forget.
    ///     ValueError: a lifetime is missing, negative or too long, or there are not as many as keys. Nothing is stored.
    ///     NoRoom: see :meth:`insert_many`.
    ///
    /// >>> import gowk
    /// >>> with gowk.Writer("cached.gowk", forget_after=30 * 86400) as seen:
    /// ...     seen.insert_many_for(["a", "b", "a"], [3600, 60, 86400]), seen.insert_for("b", 7200)
    /// (array([ True,  True, False]), False)
    fn insert_many_for<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        lifetimes: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        times::insert_for(&self.owned, keys, lifetimes)
    }

    /// Moves a forgetting filter to the time of the clock, and frees the slots of expired keys. Returns how many entries it
    /// freed. Only a filter that gets no keys needs it; see ``docs/forgetting.md``.
    ///
    /// Raises:
    ///     WrongKind: the filter does not forget.
    ///     WrongClock: every key would be forgotten at once, or the clock is behind the filter's time; see
    ///         ``clock_is_right``.
    fn sweep(&self, py: Python<'_>) -> PyResult<u64> {
        self.owned.slowly(py, gowk::Writer::sweep)
    }

    /// Like :meth:`insert`, without an answer.
    fn add(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.insert(key).map(drop)
    }

    /// Like :meth:`insert_many`, without answers, and so in constant memory.
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
    /// >>> seen.rollback()
    fn update(&self, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        self.owned.change(keys, insert_silently).map(drop)
    }

    /// Removes one copy of the key from a counting filter; returns whether there was one.
    ///
    /// Remove only keys that were inserted: removing any other key can take an entry that a stored key needs, and that
    /// key is lost.
    ///
    /// Raises:
    ///     WrongKind: the filter is a set.
    fn remove(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        with_key(key, |bytes| self.owned.quickly(key.py(), |writer| writer.remove(bytes)))
    }

    /// Removes one copy of each key; returns where there was one: a NumPy array of bool, one a key, in their order.
    ///
    /// Everything else is as for :meth:`remove` and :meth:`insert_many`.
    fn remove_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Ok(array_of(keys.py(), self.owned.change(keys, remove)?))
    }

    /// Makes all commits part of the file itself, and empties the journal. Closing does this, and so does a commit once
    /// the journal exceeds 64 MiB.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        self.owned.slowly(py, gowk::Writer::checkpoint)
    }

    /// Doubles the filter now, as part of the open transaction.
    ///
    /// Args:
    ///     progress: called with the number of regions done, and of all regions. If it raises, the doubling ends.
    ///
    /// Raises:
    ///     NoRoom: a limit forbids it.
    #[pyo3(signature = (progress=None))]
    fn grow(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<()> {
        self.telling(py, progress, |writer, tell| writer.grow_with(tell))
    }

    /// Halves the filter now, as part of the open transaction: undoes one doubling, keeping every key.
    /// :attr:`Info.shrunk` describes the filter after it.
    ///
    /// Args:
    ///     progress: called with the number of regions done, and of all regions. If it raises, the halving ends.
    ///
    /// Raises:
    ///     Invalid: the filter has not doubled, or its entries do not fit into half of the slots.
    #[pyo3(signature = (progress=None))]
    fn shrink(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<()> {
        self.telling(py, progress, |writer, tell| writer.shrink_with(tell))
    }

    /// Stores all entries of another filter, as part of the open transaction, without the original keys. The result is the
    /// union of two sets, or the sum of two counting filters.
    ///
    /// Both need the same kind, seed, slots and shard: create one of them with ``like=other``. The merge takes as long as a
    /// doubling, however few keys the other filter holds. The other's metadata is not taken over.
    ///
    /// Args:
    ///     other: a reader of the other filter.
    ///     progress: called with the number of regions done, and of all regions; it starts again if the filter has to
    ///         double. If it raises, the merge ends.
    ///
    /// Raises:
    ///     Invalid: the filters differ in a property that must be equal; the message names it.
    ///     NoRoom: there is no room, and growth is off or forbidden by a limit.
    ///
    /// >>> import gowk
    /// >>> with gowk.Writer("monday.gowk") as monday:
    /// ...     monday.update(["a", "b"])
    /// >>> with gowk.Writer("tuesday.gowk", like=gowk.Reader("monday.gowk")) as tuesday:
    /// ...     tuesday.update(["b", "c"])
    /// ...     tuesday.merge(gowk.Reader("monday.gowk"))
    /// >>> gowk.Reader("tuesday.gowk").contains_many(["a", "b", "c", "d"])
    /// array([ True,  True,  True, False])
    #[pyo3(signature = (other, *, progress=None))]
    fn merge(&self, py: Python<'_>, other: PyRef<'_, Reader>, progress: Option<Py<PyAny>>) -> PyResult<()> {
        let other = other.reader(py)?.clone();
        self.telling(py, progress, |writer, tell| writer.merge_with(&other, tell))
    }

    /// How far the filter may grow.
    #[getter]
    fn limits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        info::limits(py, &self.owned.quickly(py, |writer| writer.limits())?)
    }

    /// Changes how far the filter may grow. This takes effect at once, and a rollback does not undo it.
    ///
    /// Args:
    ///     limits: the new limits. :func:`dataclasses.replace` makes them from :attr:`limits`.
    ///
    /// Raises:
    ///     Invalid: a limit is out of range, or below what the file has already.
    ///
    /// >>> import dataclasses, gowk
    /// >>> with gowk.Writer("seen.gowk") as seen:
    /// ...     seen.set_limits(dataclasses.replace(seen.limits, max_file_size=8 << 30))
    /// >>> gowk.Reader("seen.gowk").info().max_file_size
    /// 8589934592
    fn set_limits(&self, limits: &Bound<'_, PyAny>) -> PyResult<()> {
        let new = options::limits(limits)?;
        self.owned.slowly(limits.py(), |writer| writer.set_limits(new))
    }

    /// Gives up damaged pages, so that the filter can be used again: their slots match every key from now on. Rolls the
    /// open transaction back, and commits.
    ///
    /// Args:
    ///     progress: called with the number of pages read, and of all pages. If it raises, the repair ends.
    #[pyo3(signature = (progress=None))]
    fn repair<'py>(&self, py: Python<'py>, progress: Option<Py<PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let repair = self.telling(py, progress, |writer, tell| writer.repair(tell))?;
        info::repair(py, &repair)
    }

    /// The stored copies, with the changes of the open transaction: keys inserted minus keys removed. In a set, the keys
    /// that were new.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let info = self.owned.quickly(py, |writer| writer.info())?;
        Ok(info.copies as usize)
    }

    /// The filter as the open transaction has it.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        info::info(py, &self.owned.quickly(py, |writer| writer.info())?)
    }

    /// The chance that a key never inserted is found now, 0 to 1.
    #[getter]
    fn expected_false_positive_rate(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.owned.quickly(py, |writer| writer.info())?.expected_false_positive_rate)
    }

    /// Names and bytes that the filter carries: a mutable mapping of ``str`` to ``bytes``, committed and rolled back
    /// with the keys. At most 49,152 bytes in all: names, values, and 8 bytes for each entry.
    ///
    /// >>> import gowk
    /// >>> with gowk.Writer("seen.gowk") as seen:
    /// ...     seen.metadata["crawl"] = b"page 17"
    /// >>> gowk.Reader("seen.gowk").metadata["crawl"]
    /// b'page 17'
    #[getter]
    fn metadata<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let _calling = Calling::begin(slf.py());
        slf.py().import("gowk._metadata")?.getattr("Metadata")?.call1((slf,))
    }

    #[pyo3(name = "_entries")]
    fn entries<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        info::metadata(py, &self.owned.quickly(py, |writer| writer.metadata().cloned())?)
    }

    #[pyo3(name = "_set_entry")]
    fn set_entry(&self, py: Python<'_>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = bytes_of(value).map_err(|no_key| no_key.raised(py, "the value"))?.into_owned();
        self.owned.quickly(py, |writer| -> gowk::Result<()> {
            writer.metadata_mut()?.set(name, value);
            Ok(())
        })
    }

    /// Removes an entry; returns whether there was one.
    #[pyo3(name = "_remove_entry")]
    fn remove_entry(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.owned
            .quickly(py, |writer| -> gowk::Result<bool> { Ok(writer.metadata_mut()?.remove(name).is_some()) })
    }
}
