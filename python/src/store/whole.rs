//! A store as a whole: creating, describing, updating, committing, vacuuming, verifying and joining.

use std::path::PathBuf;
use std::time::Duration;

use gowk::store::{self, Change, Transaction, Vacuum};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::opened::{Asked, Base};
use super::{Distinct, Sealed, Store, Update, described};
use crate::options::Creation;
use crate::progress::{with_progress, with_progress_of_threads};
use crate::reader::Reader;
use crate::{array_of, failure, info};

/// An application, a number, and perhaps a state.
#[derive(FromPyObject)]
enum Marked {
    Number(String, u64),
    State(String, u64, String),
}

impl Marked {
    fn transaction(self) -> Transaction {
        match self {
            Self::Number(application, number) => Transaction::new(application, number),
            Self::State(application, number, state) => Transaction { application, number, state },
        }
    }
}

#[pymethods]
impl Store {
    /// Creates a store in a folder that is not there or empty, and opens it.
    ///
    /// Args:
    ///     path: the folder.
    ///     shards: how many filters divide all keys, 1 to 65536. A file of 1 to 4 GiB a shard is a good size.
    ///     capacity: distinct keys that all shards together take before they have to double; a million unless given.
    ///     false_positive_rate: see :class:`Writer`.
    ///     slots_per_bucket: see :class:`Writer`.
    ///     seed: see :class:`Writer`.
    ///     growth: whether shards double themselves when they are full; see :class:`Writer`.
    ///     max_file_size: the most bytes that the file of a shard may have.
    ///     max_false_positive_rate: the highest expected rate that a doubled shard may have.
    ///     threads: see :class:`Store`.
    ///     filter: a filter whose keys the store begins with: it is divided, and the store answers as it does, wrong
    ///         answers included. Give none of the options from ``capacity`` on beside it.
    ///     progress: called with the regions of ``filter`` that are divided, and all there are. An exception of it ends the
    ///         call.
    ///
    /// Raises:
    ///     Exists: something is in the way. It is a :class:`FileExistsError` too.
    ///     Option: an option is outside its range. It is a :class:`ValueError` too.
    ///     Indivisible: ``filter`` cannot be divided into so many shards.
    #[staticmethod]
    #[pyo3(signature = (path, *, shards, capacity=None, false_positive_rate=None, slots_per_bucket=None, seed=None,
        growth=None, max_file_size=None, max_false_positive_rate=None, threads=1, filter=None, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
    fn create(
        py: Python<'_>,
        path: PathBuf,
        shards: u32,
        capacity: Option<u64>,
        false_positive_rate: Option<f64>,
        slots_per_bucket: Option<u32>,
        seed: Option<u64>,
        growth: Option<&str>,
        max_file_size: Option<u64>,
        max_false_positive_rate: Option<f64>,
        threads: usize,
        filter: Option<PyRef<'_, Reader>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let path = std::path::absolute(path)?;
        let asked =
            Asked { copies: None, threads, on_damage: "error".to_owned(), verify: "first_touch".to_owned() };
        let creation = Creation {
            capacity,
            false_positive_rate,
            slots_per_bucket,
            seed,
            growth,
            max_file_size,
            max_false_positive_rate,
        };
        if filter.is_some() && creation.is_any_given() {
            let message = "filter says what the store is; give no capacity, rate, slots, seed, growth or limits beside it";
            return Err(PyValueError::new_err(message));
        }
        let options = creation.add_to(asked.options()?)?;
        let store = match filter {
            None => py.detach(|| store::Store::create(&path, shards, &options)),
            Some(filter) => {
                let filter = filter.reader(py)?;
                with_progress(py, progress, |tell| {
                    store::Store::create_from(&path, shards, filter, &options, tell)
                })?
            }
        };
        let reader = failure::done(py, store.and_then(|store| store.read()))?;
        Ok(Self::of(path, asked, reader))
    }

    /// Whether a folder is a store, as far as its names tell.
    #[staticmethod]
    fn is_at(path: PathBuf) -> bool {
        store::Store::is_at(path)
    }

    /// The file of each shard that has one, by the shard's number from 0. A shard without a file is empty.
    ///
    /// A file never changes, and no two have the same name: a copy may be kept on a local disk under the name for as long
    /// as it is wanted, and be read by ``Store(path, version=..., copies=folder)``. Copy under another name first and
    /// rename then, so that nobody finds half a copy.
    #[getter]
    fn files<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let opened = self.opened(py)?;
        described::files(py, opened.reader.store(), opened.reader.version())
    }

    /// The last transaction of each application, by its name.
    #[getter]
    fn transactions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        described::transactions(py, &self.opened(py)?.reader.version().transactions)
    }

    /// What the store is, and the version in numbers. No file of a shard is opened for it.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        described::info(py, &self.opened(py)?.reader)
    }

    /// All versions that there are, the oldest first.
    fn log<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let opened = self.opened(py)?;
        let all = failure::done(py, py.detach(|| opened.reader.store().log()))?;
        all.iter().map(|version| described::version(py, version)).collect()
    }

    /// Begins an update, which nobody sees before its commit.
    ///
    /// Args:
    ///     base: the version that it is made on, by its number or as a store object that looks into it. Unless given,
    ///         the version :meth:`before` the transaction; without a transaction, the newest.
    ///     transaction: an application, a number, and perhaps a state that the application keeps: what makes the commit
    ///         happen once, however often it is tried. Numbers of an application ascend.
    ///     operation: what it is, in a word, for the log.
    ///     scratch: a folder for working copies, as on a fast local disk, instead of the store's own. They move into the
    ///         store when they are sealed.
    ///
    /// >>> import gowk
    /// >>> store = gowk.Store.create("crawl.store", shards=4)
    /// >>> with store.update() as update:     # commits at the end, or gives up at an exception
    /// ...     update.update(["a", "b"])
    /// >>> "a" in store, store.version
    /// (True, 2)
    #[pyo3(signature = (*, base=None, transaction=None, operation="update", scratch=None))]
    fn update(
        slf: Bound<'_, Self>,
        base: Option<Base<'_>>,
        transaction: Option<Marked>,
        operation: &str,
        scratch: Option<PathBuf>,
    ) -> PyResult<Update> {
        let py = slf.py();
        let own = slf.get();
        let transaction = transaction.map(Marked::transaction);
        let opened = own.opened(py)?;
        let store = opened.reader.store();
        let base = match (own.base(py, base)?, &transaction) {
            (Some(base), _) => base,
            (None, Some(Transaction { application, number, .. })) => {
                failure::done(py, py.detach(|| store.before(application, *number)))?
            }
            (None, None) => failure::done(py, py.detach(|| store.newest()))?,
        };
        let update = store.update_of(base);
        let update = match scratch {
            Some(folder) => update.scratch(std::path::absolute(folder)?),
            None => update,
        };
        Ok(Update::new(slf, update, operation.to_owned(), transaction))
    }

    /// Stores all keys that are not found already, in one commit; returns which were **new**: a NumPy array of bool, one a
    /// key, in their order.
    ///
    /// Of equal keys, the first counts. A null has False. A transaction that was committed before changes nothing, and
    /// has the same answers as the first time.
    ///
    /// Raises:
    ///     Conflict: another commit has changed one of the shards meanwhile. Nothing was committed.
    ///     Error: after any other error but :class:`StoreUnknown` nothing was committed, too.
    #[pyo3(signature = (keys, *, transaction=None, operation="update", scratch=None))]
    fn update_new<'py>(
        slf: Bound<'py, Self>,
        keys: &Bound<'py, PyAny>,
        transaction: Option<Marked>,
        operation: &str,
        scratch: Option<PathBuf>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let update = Self::update(slf, None, transaction, operation, scratch)?;
        let outcome = update.unique(keys).and_then(|stored| update.commit(py).map(|_| stored));
        match outcome {
            Ok(stored) => Ok(array_of(py, stored)),
            Err(error) => {
                update.close(py)?;
                Err(error)
            }
        }
    }

    /// Publishes a version with sealed shards, which other processes may have made: all or nothing.
    ///
    /// Versions that came since the base stay: the changes are put on top of them. This store object moves to the newest
    /// version then.
    ///
    /// Args:
    ///     sealed: what :meth:`Update.seal` returned, one or none for each shard.
    ///     base: the version that the updates were made on; unless given, that of ``sealed``.
    ///     transaction: see :meth:`update`. If it was committed before, or a later one of the application was, nothing is
    ///         changed.
    ///     operation: what it is, in a word, for the log.
    ///
    /// Raises:
    ///     Conflict: another commit has changed one of the shards since the base; its attribute ``version`` says which.
    ///     Expired: a vacuum has given up updates of a base as old as this.
    ///     Misfit: a sealed shard is of another store or base, or there are two of one shard.
    ///     StoreUnknown: whether the version is durable is unknown; commit again with the same transaction.
    ///
    /// >>> import gowk
    /// >>> store = gowk.Store.create("crawl.store", shards=4)
    /// >>> update = store.update()
    /// >>> update.update(["a", "b"])
    /// >>> sealed = [piece.to_json() for piece in update.seal()]     # sent to another process
    /// >>> store.commit(map(gowk.Sealed.from_json, sealed), transaction=("crawl", 118)).outcome
    /// 'new'
    #[pyo3(signature = (sealed, *, base=None, transaction=None, operation="update"))]
    fn commit<'py>(
        &self,
        sealed: &Bound<'py, PyAny>,
        base: Option<Base<'_>>,
        transaction: Option<Marked>,
        operation: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = sealed.py();
        let all: PyResult<Vec<store::Sealed>> =
            sealed.try_iter()?.map(|one| Ok(one?.cast::<Sealed>()?.get().0.clone())).collect();
        let sealed = all?;
        let transaction = transaction.map(Marked::transaction);
        let application = transaction.as_ref().map(|transaction| transaction.application.clone());
        let opened = self.opened(py)?;
        let store = opened.reader.store();
        let base = match (base, sealed.first(), &transaction) {
            (Some(Base::Number(number)), _, _) => number,
            (Some(base), _, _) => self.base(py, Some(base))?.map_or(0, |version| version.number),
            (None, Some(first), _) => first.base(),
            (None, None, Some(Transaction { application, number, .. })) => {
                failure::done(py, py.detach(|| store.before(application, *number)))?.number
            }
            (None, None, None) => return described::commit(py, &store::Committed::Unchanged, None),
        };
        let change = Change { base, operation: operation.to_owned(), transaction, sealed };
        let outcome = failure::done(py, py.detach(|| store.commit(&change)))?;
        // If it cannot, the next refresh will tell why. The commit is done.
        let _ = self.moved(py);
        described::commit(py, &outcome, application.as_deref())
    }

    /// A set of keys that is thrown away, for finding equal keys within a batch.
    ///
    /// It takes keys of all shards, wrongly takes a new key for a seen one as seldom as the store does when it is created,
    /// and answers the same way each time it is given the same keys in the same order.
    ///
    /// Args:
    ///     capacity: distinct keys that it takes before it has to double.
    ///     folder: where its file is, of some two bytes a key; the system's folder for temporary files unless given.
    #[pyo3(signature = (capacity, *, folder=None))]
    fn distinct(&self, py: Python<'_>, capacity: u64, folder: Option<PathBuf>) -> PyResult<Distinct> {
        Distinct::new(py, self.opened(py)?.reader.store().description(), capacity, folder.as_deref())
    }

    /// Removes versions that are not to be kept, files that only they name, and what updates have left that can no
    /// longer be committed. Nothing else ever removes anything.
    ///
    /// Args:
    ///     keep: versions that stay whatever their age, the newest included.
    ///     grace: seconds for which a version stays after the next one was made, so that readers and updates that began
    ///         with it can come to their ends.
    ///
    /// >>> import gowk
    /// >>> gowk.Store.create("crawl.store", shards=4).vacuum().versions
    /// 0
    #[pyo3(signature = (*, keep=1, grace=86400.0))]
    fn vacuum<'py>(&self, py: Python<'py>, keep: u64, grace: f64) -> PyResult<Bound<'py, PyAny>> {
        let grace = Duration::try_from_secs_f64(grace).map_err(|_| {
            PyValueError::new_err(format!("grace is {grace} seconds, but must be a finite number, 0 or more"))
        })?;
        let opened = self.opened(py)?;
        let vacuum = Vacuum::default().keep(keep).grace(grace);
        let told = failure::done(py, py.detach(|| opened.reader.store().vacuum(&vacuum)))?;
        described::vacuumed(py, &told)
    }

    /// Reads every page of every file that the version names, and compares it with its checksum and with the counters.
    ///
    /// Returns what was found of each shard that has a file: a report, or the exception for a file that cannot be opened
    /// or is not the one that the version names.
    ///
    /// Args:
    ///     progress: called with the files read, and all there are. An exception of it ends the call.
    #[pyo3(signature = (progress=None))]
    fn verify<'py>(&self, py: Python<'py>, progress: Option<Py<PyAny>>) -> PyResult<Bound<'py, PyDict>> {
        let opened = self.opened(py)?;
        let reports = with_progress_of_threads(py, progress, |tell| opened.reader.verify(tell))?;
        let all = PyDict::new(py);
        for (shard, found) in failure::done(py, reports)? {
            match found {
                Ok(report) => all.set_item(shard, info::report(py, &report)?)?,
                Err(error) => all.set_item(shard, failure::raised(py, &error))?,
            }
        }
        Ok(all)
    }

    /// Joins all shards of this version into one filter at ``destination``, where there must be none. It answers as the
    /// store does, wrong answers included.
    ///
    /// Args:
    ///     destination: the file.
    ///     progress: called with the regions written, and all there are. An exception of it ends the call.
    #[pyo3(signature = (destination, progress=None))]
    fn join_to(&self, py: Python<'_>, destination: PathBuf, progress: Option<Py<PyAny>>) -> PyResult<()> {
        let opened = self.opened(py)?;
        let outcome = with_progress(py, progress, |tell| opened.reader.join_to(&destination, tell))?;
        failure::done(py, outcome)
    }
}
