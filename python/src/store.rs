//! `gowk.Store`: one version of a store, and its lookups. What is done with a store as a whole is in `whole.rs`.

mod described;
mod distinct;
pub(crate) mod opened;
mod sealed;
mod update;
mod whole;

use std::path::{Path, PathBuf};

use arc_swap::ArcSwapOption;
use gowk::store::StoreReader;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::feed::{Operation, Stopped, feed};
use crate::key::with_key;
use crate::reader::Reader;
use crate::{array_of, failure};
pub(crate) use distinct::Distinct;
use opened::{Asked, Opened};
pub(crate) use sealed::Sealed;
pub(crate) use update::Update;

/// Keys that are looked up at a time, for each thread.
const ROWS: usize = 1 << 17;

/// A folder of filters under versions: a set past one file or one machine, on any file system, without locks.
///
/// The filters are *shards* that divide all keys among themselves. Their files never change: an update writes new ones,
/// and its commit publishes a *version* that names a file for each shard. Any number of processes on any number of
/// machines read and change a store at the same time.
///
/// A store object looks into one version, the newest unless one is named, until :meth:`refresh` or a commit of its own
/// moves it to a newer one. What it costs to open does not depend on the size: the file of a shard is opened, and compared
/// with what the version says of it, when a key of that shard is first looked up.
///
/// It may be pickled: it travels as its path, its version and its options, and is opened where it is first used. After
/// :func:`os.fork`, too, each process opens it for itself. There is nothing to close.
///
/// Args:
///     path: the folder.
///     version: the number of a version to look into, instead of the newest.
///     copies: a folder with copies of files of shards, under their own names. A file that is there is read instead of
///         the store's own, after the same comparison; see :attr:`files`.
///     threads: threads that batches are divided over, at least 1.
///     on_damage: see :class:`Reader`.
///     verify: see :class:`Reader`.
///
/// Raises:
///     NotAStore: there is no store. It is a :class:`FileNotFoundError` too.
///     NoSuchVersion: the version was vacuumed, or never made.
///     StoreError: something is wrong with one of the store's own files; the subclasses say what.
///
/// >>> import gowk
/// >>> store = gowk.Store.create("crawl.store", shards=4, capacity=100_000)
/// >>> store.update_new(["https://example.org/", "https://example.com/"], transaction=("crawl", 118))
/// array([ True,  True])
/// >>> store.update_new(["https://example.org/", "https://example.com/"], transaction=("crawl", 118))   # tried again
/// array([ True,  True])
/// >>> store.update_new(["https://example.org/", "https://example.net/"], transaction=("crawl", 119))
/// array([False,  True])
/// >>> "https://example.net/" in gowk.Store("crawl.store")
/// True
#[pyclass(frozen, module = "gowk", name = "Store", weakref)]
pub(crate) struct Store {
    path: PathBuf,
    asked: Asked,
    /// The number of the version that it looked into first.
    version: u64,
    /// Never locked, so that a fork finds no lock that another thread has.
    opened: ArcSwapOption<Opened>,
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (path, *, version=None, copies=None, threads=1, on_damage="error", verify="first_touch"))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        version: Option<u64>,
        copies: Option<PathBuf>,
        threads: usize,
        on_damage: &str,
        verify: &str,
    ) -> PyResult<Self> {
        let path = std::path::absolute(path)?;
        let copies = copies.map(std::path::absolute).transpose()?;
        let (on_damage, verify) = (on_damage.to_owned(), verify.to_owned());
        let asked = Asked { copies, threads, on_damage, verify };
        let reader = asked.read(py, &path, version)?;
        Ok(Self::of(path, asked, reader))
    }

    /// A store that is opened when it is first used.
    #[staticmethod]
    #[pyo3(name = "_unopened")]
    fn unopened(
        path: PathBuf,
        version: u64,
        copies: Option<PathBuf>,
        threads: usize,
        on_damage: String,
        verify: String,
    ) -> Self {
        let asked = Asked { copies, threads, on_damage, verify };
        Self { path, asked, version, opened: ArcSwapOption::empty() }
    }

    /// The folder, as a :class:`pathlib.Path` without links followed.
    #[getter]
    fn path(&self) -> &Path {
        &self.path
    }

    /// The number of the version that is looked into.
    #[getter]
    #[pyo3(name = "version")]
    fn looked_into(&self) -> u64 {
        self.number()
    }

    /// How many shards there are.
    #[getter]
    fn shards(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.opened(py)?.reader.store().description().shards)
    }

    /// Moves to the newest version; returns whether that is another one. Files that it has not changed stay open.
    fn refresh(&self, py: Python<'_>) -> PyResult<bool> {
        self.moved(py)
    }

    /// The store as it is in another version, with the same options.
    ///
    /// Raises:
    ///     NoSuchVersion: the version was vacuumed, or never made.
    fn at(&self, py: Python<'_>, version: u64) -> PyResult<Self> {
        let opened = self.opened(py)?;
        let store = opened.reader.store();
        let version = failure::done(py, py.detach(|| store.version(version)))?;
        Ok(Self::of(self.path.clone(), self.asked.clone(), store.read_version(version)))
    }

    /// The store as it was before a transaction: in the version on which the transaction of this application and number
    /// was based if it was committed, else in the newest.
    ///
    /// Whoever repeats a transaction, and judges by this version, judges as the first time.
    ///
    /// Raises:
    ///     NoSuchVersion: the version was vacuumed.
    ///
    /// >>> import gowk
    /// >>> store = gowk.Store.create("crawl.store", shards=4)
    /// >>> for _ in range(2):
    /// ...     before = store.before("crawl", 118)
    /// ...     with store.update(base=before, transaction=("crawl", 118)) as update:
    /// ...         update.update(["a"])
    /// ...     print(before.version, "a" in before, update.committed.outcome)
    /// 1 False new
    /// 1 False already
    fn before(&self, py: Python<'_>, application: &str, number: u64) -> PyResult<Self> {
        let opened = self.opened(py)?;
        let store = opened.reader.store();
        let version = failure::done(py, py.detach(|| store.before(application, number)))?;
        Ok(Self::of(self.path.clone(), self.asked.clone(), store.read_version(version)))
    }

    /// Whether the key is present in this version.
    ///
    /// False only if it was never inserted, or was removed.
    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = key.py();
        let opened = self.opened(py)?;
        failure::done(py, with_key(key, |key| opened.reader.contains(key))?)
    }

    /// Looks up many keys: a NumPy array of bool, one a key, in their order. A null is never present. The GIL is
    /// released.
    ///
    /// Args:
    ///     keys: any iterable of keys, a NumPy array, or Arrow data; see :meth:`Reader.contains_many`.
    ///
    /// Raises:
    ///     TypeError: one of the keys is none, which the message names by its index.
    ///     Vacuumed: the version was removed by a vacuum before the file of a shard was opened; :meth:`refresh`.
    ///     MissingFile: the file of a shard is missing.
    ///     WrongFile: the file of a shard is not the one that the version names.
    fn contains_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let opened = self.opened(keys.py())?;
        let (reader, rows) = (&opened.reader, ROWS * self.asked.threads);
        let take = |keys: &[&[u8]], found: &mut Vec<bool>| Ok(reader.contains_batch(keys, found)?);
        Ok(array_of(keys.py(), feed(keys, Lookups { rows, take, answer: std::marker::PhantomData })?))
    }

    /// How many copies of the key are stored. Other keys that match it count too, so this is never too low.
    fn count(&self, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        let py = key.py();
        let opened = self.opened(py)?;
        failure::done(py, with_key(key, |key| opened.reader.count(key))?).map(u64::from)
    }

    /// As :meth:`count`, for many keys: a NumPy array of uint64. A null has none.
    fn count_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let opened = self.opened(keys.py())?;
        let reader: &StoreReader = &opened.reader;
        let take = |keys: &[&[u8]], counts: &mut Vec<u64>| {
            for key in keys {
                counts.push(reader.count(key)?.into());
            }
            Ok(())
        };
        let operation = Lookups { rows: ROWS, take, answer: std::marker::PhantomData };
        Ok(array_of(keys.py(), feed(keys, operation)?))
    }

    /// The shard that each key belongs to: a NumPy array of int32, one a key, in their order. A null has -1.
    ///
    /// No file of a shard is opened for it. The GIL is released.
    ///
    /// >>> import gowk
    /// >>> gowk.Store.create("crawl.store", shards=4, seed=1).shards_of(["a", "b", "c"])
    /// array([3, 2, 1], dtype=int32)
    fn shards_of<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let opened = self.opened(keys.py())?;
        let store = opened.reader.store();
        let take = |keys: &[&[u8]], shards: &mut Vec<ShardNumber>| {
            for key in keys {
                let shard = store.description().shard_of(store.hash(key)?);
                // There are 65536 at most.
                shards.push(ShardNumber(shard as i32));
            }
            Ok(())
        };
        let operation = Lookups { rows: ROWS, take, answer: std::marker::PhantomData };
        let shards: Vec<i32> = feed(keys, operation)?.into_iter().map(|ShardNumber(shard)| shard).collect();
        Ok(array_of(keys.py(), shards))
    }

    /// A reader of one shard alone, after its file was compared with what the version says of it; None if the shard is
    /// empty.
    ///
    /// A key of another shard is refused with :class:`OtherShard`. The file is the copy in ``copies`` if there is one.
    ///
    /// Raises:
    ///     IndexError: there is no such shard.
    ///     WrongFile: the file is not the one that the version names.
    fn shard(&self, py: Python<'_>, number: u32) -> PyResult<Option<Reader>> {
        let opened = self.opened(py)?;
        let reader = &opened.reader;
        let shards = reader.store().description().shards;
        if number >= shards {
            return Err(PyIndexError::new_err(format!("no shard {number}: there are {shards}, from 0")));
        }
        let filter = failure::done(py, py.detach(|| reader.shard(number)))?;
        let of = (self.path.clone(), self.asked.copies.clone(), reader.version().number, number);
        Ok(filter.map(|filter| Reader::of_shard(filter, of, &self.asked)))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let own = slf.get();
        let Asked { copies, threads, on_damage, verify } = &own.asked;
        let copies = copies.as_ref().map(|folder| folder.as_os_str());
        let arguments = (own.path.as_os_str(), own.number(), copies, *threads, on_damage, verify);
        (slf.get_type().getattr("_unopened")?, arguments.into_pyobject(py)?).into_pyobject(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let path = self.path.as_os_str().into_pyobject(py)?.repr()?.to_string();
        Ok(format!("gowk.Store({path}, version={})", self.number()))
    }
}

/// The shard of a key; a null has none.
#[derive(Clone, Copy)]
struct ShardNumber(i32);

impl Default for ShardNumber {
    fn default() -> Self {
        Self(-1)
    }
}

/// Lookups of many keys, so many at a time.
struct Lookups<A, F> {
    rows: usize,
    take: F,
    answer: std::marker::PhantomData<fn() -> A>,
}

impl<A, F> Operation for Lookups<A, F>
where
    A: Copy + Default + Send + 'static,
    F: FnMut(&[&[u8]], &mut Vec<A>) -> Result<(), Stopped> + Send,
{
    type Answer = A;

    fn rows(&self) -> usize {
        self.rows
    }

    fn take(&mut self, keys: &[&[u8]], answers: &mut Vec<A>) -> Result<(), Stopped> {
        (self.take)(keys, answers)
    }
}
