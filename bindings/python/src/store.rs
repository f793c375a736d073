//! `gowk.Store`, as Python sees it.

mod changes;
mod described;
mod distinct;
mod lookups;
mod opened;
mod sealed;
mod update;

use std::path::PathBuf;

use arc_swap::ArcSwapOption;
use gowk::Lookup;
use gowk::store::Vacuum;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::asked::Asked;
use crate::key::{fs_path, with_key};
use crate::options::{Creation, Forgetting, Span, vacuum_of};
use crate::progress::with_progress;
use crate::reader::Reader;
use crate::times::time_of;
use crate::{array_of, failure, info, options};
use changes::Marked;
pub(crate) use described::place;
pub(crate) use distinct::Distinct;
pub(crate) use opened::check_filter;
use opened::{Base, Opened, placed};
pub(crate) use sealed::Sealed;
pub(crate) use update::Update;

/// A folder of filters under versions: for sets that outgrow one file or one machine, on any file system, without
/// locks.
///
/// The filters are *shards* that divide all keys among themselves. Their files never change: an update writes a *run*, one
/// file with a record for each new key of any shard, or new files for the shards that get many keys. Its commit
/// publishes a *version* that names the runs and a file for each shard. Any number of processes on any number of machines
/// read and change a store at the same time.
///
/// A store object looks into one version, the newest unless one is given, until :meth:`reload` or a commit of its own
/// moves it to a newer one. Opening takes the same time at any size: the file of a shard is opened, and compared with
/// its row in the version, when a key of that shard is first looked up.
///
/// It may be pickled: the pickle holds its path, version and options, and the store is opened where it is first used.
/// After :func:`os.fork`, too, each process opens it for itself. There is nothing to close.
///
/// Args:
///     path: the folder; or a bucket, as the text ``"s3://bucket/prefix"``, ``"gs://bucket/prefix"`` or
///         ``"az://container/prefix"``. Credentials, region and endpoint come from the environment (``AWS_ACCESS_KEY_ID`` and
///         so on); see ``docs/operating.md``.
///     version: the number of a version to look into, instead of the newest.
///     copies: a folder with copies of files of shards, under their own names. A copy is read instead of the store's
///         own file; see :attr:`files`. Copies are a cache: if a copy fails, the store's own file is read. A copy fails
///         if its length, uuid, commit or number of entries differs from the version's, if it cannot be read, or if a
///         page that ``verify`` compares does not match its checksum.
///     threads: threads that share the work of a batch, at least 1.
///     on_damage: see :class:`Reader`.
///     verify: see :class:`Reader`.
///     clock_is_right: for a forgetting store; see :class:`Writer`.
///
/// Raises:
///     NotFound: there is no such folder, or the version was vacuumed or never made. It is a :class:`FileNotFoundError` too.
///     Foreign: the folder is not a store.
///     Error: something is wrong with one of the store's own files; the subclasses say what.
///
/// >>> import gowk
/// >>> store = gowk.Store.create("crawl.store", shards=4, capacity=100_000)
/// >>> store.insert_many(["https://example.org/", "https://example.com/"], token=("crawl", 118))
/// array([ True,  True])
/// >>> store.insert_many(["https://example.org/", "https://example.com/"], token=("crawl", 118))   # tried again
/// array([ True,  True])
/// >>> store.insert_many(["https://example.org/", "https://example.net/"], token=("crawl", 119))
/// array([False,  True])
/// >>> "https://example.net/" in gowk.Store("crawl.store")
/// True
#[pyclass(frozen, module = "gowk", name = "Store", weakref)]
pub(crate) struct Store {
    path: PathBuf,
    asked: Asked,
    /// The number of the version into which the object first looked.
    version: u64,
    /// Never locked, so that a fork does not find a lock held by another thread.
    opened: ArcSwapOption<Opened>,
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (path, *, version=None, copies=None, threads=1, on_damage="error", verify="first_touch", clock_is_right=false))]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = fs_path)] path: PathBuf,
        version: Option<u64>,
        copies: Option<PathBuf>,
        threads: usize,
        on_damage: &str,
        verify: &str,
        clock_is_right: bool,
    ) -> PyResult<Self> {
        let path = placed(path)?;
        let copies = copies.map(std::path::absolute).transpose()?;
        let (on_damage, verify) = (on_damage.to_owned(), verify.to_owned());
        let asked = Asked { copies, threads, on_damage, verify, clock_is_right };
        let reader = asked.read(py, &path, version)?;
        Ok(Self::of(path, asked, reader))
    }

    /// A store that is opened when it is first used.
    #[staticmethod]
    #[pyo3(name = "_unopened")]
    fn unopened(
        #[pyo3(from_py_with = fs_path)] path: PathBuf,
        version: u64,
        copies: Option<PathBuf>,
        threads: usize,
        on_damage: String,
        verify: String,
        clock_is_right: bool,
    ) -> Self {
        let asked = Asked { copies, threads, on_damage, verify, clock_is_right };
        Self { path, asked, version, opened: ArcSwapOption::empty() }
    }

    /// The folder, as a :class:`pathlib.Path` without links followed; or the address in a bucket, as text.
    #[getter]
    fn path<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        described::place(py, &self.path)
    }

    /// The number of the version that this object looks into.
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

    /// The requests to the server of a bucket that this object has made since it was opened, including requests of store
    /// objects that its ``at`` and ``before`` returned; None for a store in a folder.
    #[getter]
    fn requests<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let requests = self.opened(py)?.reader.store().requests();
        requests.map(|counts| info::requests(py, &counts)).transpose()
    }

    /// Moves to the newest version; returns whether that is another one. Files that both versions name stay open.
    fn reload(&self, py: Python<'_>) -> PyResult<bool> {
        self.moved(py)
    }

    /// A store object for another version, with the same options.
    ///
    /// Raises:
    ///     NotFound: the version was vacuumed, or never made.
    fn at(&self, py: Python<'_>, version: u64) -> PyResult<Self> {
        let opened = self.opened(py)?;
        let store = opened.reader.store();
        let version = failure::done(py, py.detach(|| store.version(version)))?;
        Ok(self.at_version(store.read_version(version)))
    }

    /// The store as it was before the commit with a token. If the token of this application and number was committed,
    /// this is the version that its commit was based on; else it is the newest.
    ///
    /// A retry that reads this version gets the first attempt's answers.
    ///
    /// Raises:
    ///     NotFound: the version was vacuumed.
    ///
    /// >>> import gowk
    /// >>> store = gowk.Store.create("crawl.store", shards=4)
    /// >>> for _ in range(2):
    /// ...     before = store.before("crawl", 118)
    /// ...     with store.update(base=before, token=("crawl", 118)) as update:
    /// ...         update.update(["a"])
    /// ...     print(before.version, "a" in before, update.committed.outcome)
    /// 1 False new
    /// 1 False already
    fn before(&self, py: Python<'_>, application: &str, number: u64) -> PyResult<Self> {
        let opened = self.opened(py)?;
        let store = opened.reader.store();
        let version = failure::done(py, py.detach(|| store.before(application, number)))?;
        Ok(self.at_version(store.read_version(version)))
    }

    /// Whether the key is present in this version.
    ///
    /// False only if it was never inserted, or was removed.
    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = key.py();
        let opened = self.opened(py)?;
        with_key(key, |key| failure::done(py, opened.reader.contains(key)))
    }

    /// Looks up many keys: a NumPy array of bool, one a key, in their order. A null is never present. The GIL is
    /// released.
    ///
    /// Args:
    ///     keys: any iterable of keys, a NumPy array, or Arrow data; see :meth:`Reader.contains_many`.
    ///     at: for a forgetting store: judge by this time, if it is later than the version's time; see :meth:`update_time`.
    ///
    /// Raises:
    ///     TypeError: one of the keys is neither ``str`` nor ``bytes``-like; the message names it by its index.
    ///     NotFound: the version was removed by a vacuum before the file of a shard was opened; :meth:`reload`.
    ///     Damaged: the file of a shard is missing, or is not the file that the version names.
    #[pyo3(signature = (keys, *, at=None))]
    fn contains_many<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        at: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let reader = &self.opened(keys.py())?.reader;
        let later = at.map(|time| Ok::<_, PyErr>(reader.at_time(time_of(&time)?))).transpose()?;
        let reader = later.as_ref().unwrap_or(reader);
        Ok(array_of(keys.py(), lookups::contains(reader, keys, self.asked.threads)?))
    }

    /// The time that an update of this version uses to judge which keys have expired: now, by the clock. If :meth:`before`
    /// returned this store for a token that was committed, it is the time of that commit. None unless the store forgets.
    ///
    /// A program that divides a batch among processes should call this once, and pass the time to ``contains_many`` (``at``)
    /// and ``insert_many_at``. If each process read its own clock, a key that expires during the batch could be present for
    /// one process and gone for another.
    ///
    /// Raises:
    ///     WrongClock: the clock would make the store forget every key at once, or is behind the store's time.
    fn update_time<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let opened = self.opened(py)?;
        let reader = &opened.reader;
        let time = failure::done(py, py.detach(|| reader.store().update_time(reader.version())))?;
        time.into_bound_py_any(py)
    }

    /// How many copies of the key are stored; in a set, at most 1. Copies of other keys that match it are counted too,
    /// so the answer is never too low.
    fn count(&self, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        let py = key.py();
        let opened = self.opened(py)?;
        with_key(key, |key| failure::done(py, opened.reader.count(key))).map(u64::from)
    }

    /// Like :meth:`count`, for many keys: a NumPy array of uint64. A null has 0.
    fn count_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Ok(array_of(keys.py(), lookups::count(&self.opened(keys.py())?.reader, keys)?))
    }

    /// The shard that each key belongs to: a NumPy array of int32, one a key, in their order. A null has -1.
    ///
    /// This opens no file of a shard. The GIL is released.
    ///
    /// >>> import gowk
    /// >>> gowk.Store.create("crawl.store", shards=4, seed=1).shards_of(["a", "b", "c"])
    /// array([3, 2, 1], dtype=int32)
    fn shards_of<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Ok(array_of(keys.py(), lookups::shards(self.opened(keys.py())?.reader.store(), keys)?))
    }

    /// A reader of one shard alone, whose file matches its row in the version; None if the shard is empty.
    ///
    /// A key of another shard is refused with :class:`Invalid`. The reader opens the copy in ``copies`` unless that has
    /// failed before. If the copy fails later, this reader raises, and the store reads its own file.
    ///
    /// Raises:
    ///     IndexError: there is no such shard.
    ///     Damaged: the file is not the file that the version names.
    fn shard(&self, py: Python<'_>, number: u32) -> PyResult<Option<Reader>> {
        let opened = self.opened(py)?;
        let reader = &opened.reader;
        check_shard(reader.store(), number)?;
        let filter = failure::done(py, py.detach(|| reader.shard(number)))?;
        let of = (self.path.clone(), self.asked.copies.clone(), reader.version().number, number);
        Ok(filter.map(|filter| Reader::of_shard(filter, of, &self.asked)))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let own = slf.get();
        let Asked { copies, threads, on_damage, verify, clock_is_right } = &own.asked;
        let copies = copies.as_ref().map(|folder| folder.as_os_str());
        let arguments =
            (own.path.as_os_str(), own.number(), copies, *threads, on_damage, verify, *clock_is_right);
        (slf.get_type().getattr("_unopened")?, arguments.into_pyobject(py)?).into_pyobject(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let path = self.path.as_os_str().into_pyobject(py)?.repr()?.to_string();
        Ok(format!("gowk.Store({path}, version={})", self.number()))
    }

    /// Creates a store in a folder that does not exist or is empty, and opens it.
    ///
    /// Args:
    ///     path: the folder.
    ///     shards: the number of filters that divide all keys, 1 to 65536. A good size for the file of a shard is 1 to
    ///         4 GiB.
    ///     counting: the store counts copies of keys, which can be removed; otherwise it is a set. See :class:`Writer`.
    ///     forget_after: the store forgets each key after this time; see :class:`Writer`. Lookups in a version judge by the
    ///         version's own time: the clock's, or the latest key's, when it was committed.
    ///     forget_within: see :class:`Writer`.
    ///     refresh: see :class:`Writer`.
    ///     capacity: distinct keys that all shards together take before they have to double; a million unless given.
    ///     false_positive_rate: see :class:`Writer`.
    ///     slots_per_bucket: see :class:`Writer`.
    ///     seed: see :class:`Writer`.
    ///     growth: whether shards double themselves when they are full; see :class:`Writer`.
    ///     max_file_size: the most bytes that the file of a shard may have.
    ///     max_false_positive_rate: the highest expected rate that a doubled shard may have.
    ///     keep: commits vacuum too, and leave this many versions at any age; see :meth:`vacuum`. Off unless this or ``grace`` is
    ///         given; 1 if only ``grace`` is.
    ///     grace: the time that a version stays after the next one was made, when commits vacuum: a ``timedelta`` or seconds; a day
    ///         if only ``keep`` is given.
    ///     threads: see :class:`Store`.
    ///     filter: a filter to divide among the shards. The store then gives the same answers, wrong ones included. Give
    ///         none of the options from ``counting`` to ``max_false_positive_rate`` beside it.
    ///     progress: called with the number of regions of ``filter`` that are divided, and of all its regions. If it
    ///         raises, the call ends.
    ///
    /// Raises:
    ///     Exists: the folder exists and is not empty, or a file has its name. It is a :class:`FileExistsError` too.
    ///     Invalid: an option is outside its range, or ``filter`` cannot be divided into so many shards. It is a
    ///         :class:`ValueError` too.
    #[staticmethod]
    #[pyo3(signature = (path, *, shards, counting=false, forget_after=None, forget_within=None, refresh=false, capacity=None, false_positive_rate=None,
        slots_per_bucket=None, seed=None, growth=None, max_file_size=None, max_false_positive_rate=None, keep=None, grace=None,
        threads=1, filter=None, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
    fn create(
        py: Python<'_>,
        #[pyo3(from_py_with = fs_path)] path: PathBuf,
        shards: u32,
        counting: bool,
        forget_after: Option<Span>,
        forget_within: Option<Span>,
        refresh: bool,
        capacity: Option<u64>,
        false_positive_rate: Option<f64>,
        slots_per_bucket: Option<u32>,
        seed: Option<u64>,
        growth: Option<&str>,
        max_file_size: Option<u64>,
        max_false_positive_rate: Option<f64>,
        keep: Option<u64>,
        grace: Option<Span>,
        threads: usize,
        filter: Option<PyRef<'_, Reader>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let creation = Creation {
            counting,
            forgetting: Forgetting::new(forget_after, forget_within, refresh)?,
            keep_newest: None,
            capacity,
            false_positive_rate,
            slots_per_bucket,
            seed,
            growth,
            max_file_size,
            max_false_positive_rate,
            vacuum: vacuum_of(keep, grace)?,
        };
        Self::created(py, path, shards, &creation, threads, filter, progress)
    }

    /// Whether a folder is a store, judged by the names of its files.
    #[staticmethod]
    fn is_at(path: PathBuf) -> bool {
        gowk::store::Store::is_at(path)
    }

    /// The file of each shard that has one, by the shard's number from 0. A shard without a file has only records in runs.
    /// Runs are not among these files.
    ///
    /// A file never changes, and no two files have the same name. So a copy under that name on a local disk stays good for
    /// any time, and ``Store(path, version=..., copies=folder)`` reads it. Copy to another name first and then rename, so
    /// that nobody finds half a copy.
    #[getter]
    fn files<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let opened = self.opened(py)?;
        described::files(py, opened.reader.store(), opened.reader.version())
    }

    /// The copies in ``copies`` that failed since the last call. This object no longer reads them: remove them.
    fn take_refused_copies(&self, py: Python<'_>) -> PyResult<Vec<PathBuf>> {
        Ok(self.opened(py)?.reader.store().take_refused_copies())
    }

    /// The last token of each application, by its name.
    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        described::tokens(py, &self.opened(py)?.reader.version().tokens)
    }

    /// The store's fixed properties, and the version in numbers. This opens no file of a shard.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        described::info(py, &self.opened(py)?.reader)
    }

    /// All versions that exist, the oldest first.
    fn log<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let opened = self.opened(py)?;
        let all = failure::done(py, py.detach(|| opened.reader.store().log()))?;
        all.iter().map(|version| described::version(py, version)).collect()
    }

    /// Begins an update, which nobody sees before its commit.
    ///
    /// Args:
    ///     base: the version that the update is made on: its number, or a store object that looks into it. Unless
    ///         given, the version :meth:`before` the token; without a token, the newest.
    ///     token: an application, a number, and perhaps a state that the application keeps. A commit with a token
    ///         happens once, however often it is tried. Numbers of an application ascend.
    ///     operation: a word for the log that says what the commit does.
    ///     scratch: a folder for working copies and runs instead of the store's own, for example on a fast local disk. They
    ///         move into the store when they are sealed. A killed process leaves its files there: remove them when no update
    ///         uses the folder.
    ///     rewriting: rewrite each shard that gets any keys, so that no run is written.
    ///
    /// >>> import gowk
    /// >>> store = gowk.Store.create("crawl.store", shards=4)
    /// >>> with store.update() as update:     # commits at the end, or gives up at an exception
    /// ...     update.update(["a", "b"])
    /// >>> "a" in store, store.version
    /// (True, 2)
    #[pyo3(signature = (*, base=None, token=None, operation="update", scratch=None, rewriting=false))]
    fn update(
        slf: Bound<'_, Self>,
        base: Option<Base<'_>>,
        token: Option<Marked>,
        operation: &str,
        scratch: Option<PathBuf>,
        rewriting: bool,
    ) -> PyResult<Update> {
        Self::begun(slf, base, token, operation, scratch, rewriting, update::AFTERWARDS)
    }

    /// Stores all keys in one commit, as :meth:`Writer.insert_many` does; returns which are **new**: a NumPy array of bool,
    /// one a key, in their order.
    ///
    /// Of equal keys, only the first can be new. A null has False. A retry with the same token changes nothing, and
    /// gets the first attempt's answers. Keys that other commits bring at the same time are judged again, so that one commit
    /// calls each key new.
    ///
    /// Args:
    ///     keys: any iterable of keys, a NumPy array, or Arrow data; see :meth:`Reader.contains_many`.
    ///     token: see :meth:`update`.
    ///     operation: a word for the log that says what the commit does.
    ///     scratch: see :meth:`update`.
    ///     return_commit: return a pair instead: the array, and the outcome of the commit, such as ``"already"``.
    ///
    /// Raises:
    ///     Invalid: the application has committed a higher token than this.
    ///     Conflict: another commit has changed a shard that this one rewrites, and the keys come from an iterator, which
    ///         cannot be read again. Nothing was committed.
    ///     Error: nothing was committed, except perhaps after :class:`Unknown`.
    ///
    /// >>> import gowk
    /// >>> store = gowk.Store.create("crawl.store", shards=4)
    /// >>> for _ in range(2):
    /// ...     new, commit = store.insert_many(["a", "b"], token=("crawl", 118), return_commit=True)
    /// ...     print(new, commit.outcome)
    /// [ True  True] new
    /// [ True  True] already
    #[pyo3(signature = (keys, *, token=None, operation="insert", scratch=None, return_commit=false))]
    fn insert_many<'py>(
        slf: Bound<'py, Self>,
        keys: &Bound<'py, PyAny>,
        token: Option<Marked>,
        operation: &str,
        scratch: Option<PathBuf>,
        return_commit: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        loop {
            let (own, token, scratch) = (slf.clone(), token.clone(), scratch.clone());
            let update = Self::begun(own, None, token, operation, scratch, false, "nothing was committed")?;
            let (new, commit) = match update.inserted_and_committed(keys) {
                // Another commit has changed a shard that this one rewrites.
                Err(error) if failure::is_conflict(py, &error) && can_be_read_again(keys)? => continue,
                outcome => outcome?,
            };
            let new = array_of(py, new);
            return if return_commit { (new, commit).into_bound_py_any(py) } else { Ok(new) };
        }
    }

    /// Publishes a version with sealed files, which other processes may have made: all or nothing.
    ///
    /// Commits made since the base stay: the changes are put on top of them. Several runs are merged into one first. At the
    /// end this store object moves to the newest version.
    ///
    /// Args:
    ///     sealed: the files that :meth:`Update.seal` returned: runs, and at most one file for each shard.
    ///     base: the version that the updates were made on; unless given, the base of ``sealed``.
    ///     token: see :meth:`update`. If this token was committed before, nothing is changed.
    ///     operation: a word for the log that says what the commit does.
    ///     folds: after the commit, also fold the shards that are due, in this process. See :meth:`compact`.
    ///
    /// Raises:
    ///     Conflict: since the base, another commit has brought one of the keys, or has changed a shard that this one
    ///         rewrites; the attribute ``version`` is that commit's version. Or a vacuum has ruled out updates with a base
    ///         as old as this.
    ///     Invalid: a sealed file belongs to another store or base, is a fold, or two files belong to one shard; or the
    ///         application has committed a higher token than this.
    ///     Unknown: whether the version is durable is unknown; commit again with the same token.
    ///
    /// >>> import gowk
    /// >>> store = gowk.Store.create("crawl.store", shards=4)
    /// >>> update = store.update()
    /// >>> update.update(["a", "b"])
    /// >>> sealed = [piece.to_json() for piece in update.seal()]     # sent to another process
    /// >>> store.commit(map(gowk.Sealed.from_json, sealed), token=("crawl", 118)).outcome
    /// 'new'
    #[pyo3(signature = (sealed, *, base=None, token=None, operation="update", folds=true))]
    fn commit<'py>(
        &self,
        sealed: &Bound<'py, PyAny>,
        base: Option<Base<'_>>,
        token: Option<Marked>,
        operation: &str,
        folds: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.committed(sealed, base, token, operation, folds)
    }

    /// A set of keys that is thrown away, for finding equal keys within a batch.
    ///
    /// It takes keys of all shards. It gets the store's false-positive rate of the moment when it is created. The same keys
    /// in the same order get the same answers each time.
    ///
    /// Args:
    ///     capacity: distinct keys that it takes before it has to double.
    ///     folder: the folder for its file, of some two bytes a key; the system's folder for temporary files unless
    ///         given.
    #[pyo3(signature = (capacity, *, folder=None))]
    fn distinct(&self, py: Python<'_>, capacity: u64, folder: Option<PathBuf>) -> PyResult<Distinct> {
        Distinct::new(py, self.opened(py)?.reader.store().description(), capacity, folder.as_deref())
    }

    /// Folds the records of runs into the files of the shards. Commits fold shards as they become due.
    ///
    /// It may run beside any other use of the store. If another process rewrites a shard during the call, that file is kept
    /// instead of the folded one. If the call is interrupted, the store stays as it was. Old files stay until a vacuum. At
    /// the end this store object moves to the newest version.
    ///
    /// Args:
    ///     all: fold every shard that has a record in a run, not only shards that are due.
    ///     progress: called with the number of shards folded, and of all shards to fold. If it raises, the call ends.
    ///
    /// >>> import gowk
    /// >>> store = gowk.Store.create("crawl.store", shards=4)
    /// >>> store.compact(all=True).folded
    /// 0
    #[pyo3(signature = (*, all=false, progress=None))]
    fn compact<'py>(
        &self,
        py: Python<'py>,
        all: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let opened = self.opened(py)?;
        let store = opened.reader.store();
        let told = with_progress(py, progress, |tell| store.compact(all, tell))?;
        let told = failure::done(py, told)?;
        // The work is done. If moving to the new version fails, the next reload raises the error.
        let _ = self.moved(py);
        described::compacted(py, &told)
    }

    /// The shards of this version that should be folded, for :meth:`fold`, perhaps in many processes.
    ///
    /// Args:
    ///     all: every shard that has a record in a run, not only shards that are due.
    #[pyo3(signature = (*, all=false))]
    fn to_fold(&self, py: Python<'_>, all: bool) -> PyResult<Vec<u32>> {
        let opened = self.opened(py)?;
        failure::done(py, py.detach(|| opened.reader.store().to_fold(opened.reader.version(), all)))
    }

    /// Writes a new file of a shard that includes its records in the runs of this version. :meth:`commit_folds` publishes
    /// it, here or in another process. Returns None if the shard has no room and must not grow: its records stay in the
    /// runs.
    ///
    /// Args:
    ///     shard: its number, from 0.
    ///     scratch: a folder for the working copy, instead of the store's own.
    ///
    /// Raises:
    ///     IndexError: there is no such shard.
    ///     Conflict: a vacuum has ruled out updates with a base as old as this.
    #[pyo3(signature = (shard, *, scratch=None))]
    fn fold(&self, py: Python<'_>, shard: u32, scratch: Option<PathBuf>) -> PyResult<Option<Sealed>> {
        let opened = self.opened(py)?;
        let (store, version) = (opened.reader.store(), opened.reader.version());
        check_shard(store, shard)?;
        let scratch = scratch.map(std::path::absolute).transpose()?;
        let folded = failure::done(py, py.detach(|| store.fold_shard(version, shard, scratch.as_deref())))?;
        Ok(folded.map(Sealed))
    }

    /// Publishes a version with the files that :meth:`fold` has made of one version's shards. If another process has
    /// rewritten a shard since that version, the folded file of that shard is left out. At the end this store object moves
    /// to the newest version.
    ///
    /// Raises:
    ///     Invalid: a file belongs to another store or version, is not a fold, or two files belong to one shard.
    ///
    /// >>> import gowk
    /// >>> store = gowk.Store.create("crawl.store", shards=4)
    /// >>> new = store.insert_many(["a", "b", "c"])
    /// >>> folds = [store.fold(shard) for shard in store.to_fold(all=True)]
    /// >>> store.commit_folds(folds).folded == len(folds)
    /// True
    fn commit_folds<'py>(&self, folds: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = folds.py();
        let sealed = sealed::all(folds)?;
        let opened = self.opened(py)?;
        let told = failure::done(py, py.detach(|| opened.reader.store().commit_folds(&sealed)))?;
        // The work is done. If moving to the new version fails, the next reload raises the error.
        let _ = self.moved(py);
        described::compacted(py, &told)
    }

    /// Removes old versions, files that only they name, and files of updates that can no longer be committed. Nothing else
    /// removes a file of the store, unless it was created so that its commits vacuum (``keep`` of :meth:`create`).
    ///
    /// Args:
    ///     keep: the number of versions that stay at any age, the newest included.
    ///     grace: the seconds that a version stays after the next one was made, so that readers and updates that began
    ///         with it can finish.
    ///
    /// >>> import gowk
    /// >>> gowk.Store.create("crawl.store", shards=4).vacuum().versions
    /// 0
    #[pyo3(signature = (*, keep=1, grace=86400.0))]
    fn vacuum<'py>(&self, py: Python<'py>, keep: u64, grace: f64) -> PyResult<Bound<'py, PyAny>> {
        let opened = self.opened(py)?;
        let vacuum = Vacuum::default().keep(keep).grace(options::seconds("grace", grace)?);
        let told = failure::done(py, py.detach(|| opened.reader.store().vacuum(&vacuum)))?;
        described::vacuumed(py, &told)
    }

    /// Reads every page of every file that the version names, and compares it with its checksum and with the counters.
    ///
    /// Returns a report for each file. The key is the number of the shard, or the name of the run. If a file cannot be
    /// opened or is not the file that the version names, or if a run is damaged, the value is the exception instead. Only
    /// the store's own files are read, not the copies in ``copies``.
    ///
    /// Args:
    ///     progress: called with the number of files read, and of all files. If it raises, the call ends.
    #[pyo3(signature = (progress=None))]
    fn verify<'py>(&self, py: Python<'py>, progress: Option<Py<PyAny>>) -> PyResult<Bound<'py, PyDict>> {
        let opened = self.opened(py)?;
        let reports = with_progress(py, progress, |tell| opened.reader.verify(tell))?;
        let (all, mut runs) = (PyDict::new(py), opened.reader.version().runs.iter());
        for (shard, found) in failure::done(py, reports)? {
            let found = match found {
                Ok(report) => info::report(py, &report)?,
                Err(error) => failure::raised(py, &error).into_value(py).into_bound(py).into_any(),
            };
            match shard {
                Some(shard) => all.set_item(shard, found)?,
                None => all.set_item(runs.next().map(gowk::store::RunFile::file_name), found)?,
            }
        }
        Ok(all)
    }

    /// Joins all shards of this version into one filter at ``destination``, where no file may exist. It answers as the
    /// store does, wrong answers included.
    ///
    /// Args:
    ///     destination: the file.
    ///     progress: called with the number of regions written, and of all regions. If it raises, the call ends.
    #[pyo3(signature = (destination, progress=None))]
    fn join_to(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = fs_path)] destination: PathBuf,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let opened = self.opened(py)?;
        let outcome = with_progress(py, progress, |tell| opened.reader.join_to(&destination, tell))?;
        failure::done(py, outcome)
    }
}

/// Whether these keys can be read a second time.
fn can_be_read_again(keys: &Bound<'_, PyAny>) -> PyResult<bool> {
    // Iterators and Arrow readers can be read only once.
    Ok(!keys.hasattr("__next__")? && !keys.hasattr("read_next_batch")?)
}

/// Refuses the number of a shard that does not exist.
fn check_shard(store: &gowk::store::Store, number: u32) -> PyResult<()> {
    let shards = store.description().shards;
    if number < shards {
        return Ok(());
    }
    Err(PyIndexError::new_err(format!("no shard {number}: there are {shards}, from 0")))
}
