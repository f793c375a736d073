//! `gowk.Update`: changes to shards of a store.

use std::sync::OnceLock;

use gowk::store;
use gowk::store::{Rejudged, Token};
use gowk::{Batches as _, KeyHash};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use super::sealed::Sealed;
use super::{Store, described, lookups};
use crate::owned::{Owned, insert, insert_silently, remove, warn_of_lost};
use crate::progress::with_progress;
use crate::{array_of, failure, times};

/// What a caller can do with the keys taken before an exception; part of a note on the exception.
pub(super) const AFTERWARDS: &str = "commit() keeps what was taken, and close() gives it up";

/// Changes to a store, made on one version of it. Nobody sees them before their commit.
///
/// :meth:`Store.update` begins one. It keeps the keys as records in memory, some 50 bytes each, and its commit writes
/// them to one run. A shard that gets many keys gets a working copy and is rewritten instead: no shard before 8192 keys
/// and a sixteenth of its entries, and every shard at one and a half times as many. As a context manager an update
/// commits at the end of the block; an exception gives it up. Any number of updates may be made at the same time. Two
/// updates conflict if both bring the same key, or if one brings a key of a shard that the other rewrites: the first to
/// commit wins.
///
/// An update belongs to the process that began it, and cannot be pickled; what :meth:`seal` returns may be.
#[pyclass(frozen, module = "gowk", name = "Update", weakref)]
pub(crate) struct Update {
    store: Py<Store>,
    base: u64,
    operation: String,
    token: Option<Token>,
    owned: Owned<store::Update>,
    committed: PyOnceLock<Py<PyAny>>,
    rejudged: OnceLock<Rejudged>,
}

impl Drop for Update {
    fn drop(&mut self) {
        if self.owned.left().is_some_and(|update| update.touched() > 0) {
            warn_of_lost(&format!(
                "{}: an Update was dropped with uncommitted changes, which are lost; call commit() or close() before, or use \
                 `with`",
                self.store.get().path.display()
            ));
        }
    }
}

impl Update {
    pub(super) fn new(
        store: Bound<'_, Store>,
        update: store::Update,
        operation: String,
        token: Option<Token>,
        afterwards: &'static str,
    ) -> Self {
        let (path, base) = (store.get().path.clone(), update.base().number);
        let owned = Owned::new(path, "Update", afterwards, update);
        Self {
            store: store.unbind(),
            base,
            operation,
            token,
            owned,
            committed: PyOnceLock::new(),
            rejudged: OnceLock::new(),
        }
    }

    /// Stores all keys. Returns which of them are new.
    fn inserted(&self, keys: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
        self.owned.change(keys, insert)
    }

    /// Stores all keys, and commits; or gives up all of them.
    ///
    /// If the token was already committed, the keys are still inserted, and then dropped. Lookups in the previous version
    /// would not give the same answers: whether a key is new also depends on the batch's earlier keys, and if two new
    /// keys match each other in a rewritten shard, the second gets the answer "not new". Only the same inserts give the
    /// same answers.
    ///
    /// Keys that others have inserted since are not new. Fails with a conflict if a shard that the update rewrites has
    /// changed.
    pub(super) fn inserted_and_committed<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<(Vec<bool>, Bound<'py, PyAny>)> {
        let py = keys.py();
        // The hashes of the new keys, in order.
        let mut hashes: Vec<KeyHash> = Vec::new();
        let take = |update: &mut store::Update, keys: &[&[u8]], new: &mut Vec<bool>| {
            insert(update, keys, new)?;
            for (key, _) in keys.iter().zip(&*new).filter(|(_, new)| **new) {
                hashes.push(update.hash(*key)?);
            }
            Ok(())
        };
        let outcome =
            self.owned.change(keys, take).and_then(|new| Ok((new, self.committed_rebased(py, true)?)));
        if outcome.is_err() {
            self.close(py)?;
        }
        let (mut new, commit) = outcome?;
        if let Some(rejudged) = self.rejudged.get().filter(|rejudged| rejudged.known() > 0) {
            let all = new.iter_mut().filter(|new| **new).zip(hashes);
            all.filter(|(_, hash)| rejudged.has(*hash)).for_each(|(new, _)| *new = false);
        }
        Ok((new, commit))
    }

    /// Ends the update and commits it. If it `rebases`, first moves it to the newest version.
    fn committed_rebased<'py>(&self, py: Python<'py>, rebases: bool) -> PyResult<Bound<'py, PyAny>> {
        let update = self.owned.take_open(py)?;
        let (token, operation) = (self.token.clone(), &self.operation);
        let outcome = failure::done(
            py,
            py.detach(|| {
                if !rebases {
                    return update.commit(operation, token).map(|committed| (committed, Rejudged::default()));
                }
                let (committed, rejudged) = update.commit_rebased(operation, token, &|_, _| {})?;
                match &committed {
                    // Another process has just committed the token, on another base.
                    store::Committed::Already(done) if done.base != rejudged.base() => {
                        let path = self.store.get().path.clone();
                        let (base, version) = (rejudged.base(), done.version);
                        Err(store::Error::Conflict { path, shard: 0, keys: 0, base, version })
                    }
                    _ => Ok((committed, rejudged)),
                }
            }),
        );
        let (outcome, rejudged) = outcome?;
        // The commit is done. If moving to its version fails, the next reload raises the error.
        let _ = self.store.get().moved(py);
        let application = self.token.as_ref().map(|token| token.application.as_str());
        let described = described::commit(py, &outcome, application, rejudged.known())?;
        let _ = self.rejudged.set(rejudged);
        let _ = self.committed.set(py, described.clone().unbind());
        Ok(described)
    }
}

#[pymethods]
impl Update {
    /// The number of the version that the update is made on.
    #[getter]
    fn base(&self) -> u64 {
        self.base
    }

    /// How many shards a commit would change.
    #[getter]
    fn touched(&self, py: Python<'_>) -> PyResult<usize> {
        self.owned.quickly(py, |update| Ok::<_, store::Error>(update.touched()))
    }

    /// The outcome of the commit; None before it.
    #[getter]
    fn committed(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.committed.get(py).map(|committed| committed.clone_ref(py))
    }

    /// Stores all keys in this update, as :meth:`Writer.insert_many` does in the open transaction; returns which are
    /// **new**: a NumPy array of bool, one a key, in their order.
    fn insert_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Ok(array_of(keys.py(), self.inserted(keys)?))
    }

    /// Stores keys that were seen at these times in an update of a forgetting store, as :meth:`Writer.insert_many_at` does
    /// in a filter. The commit moves the store's time to the time of the latest key.
    fn insert_many_at<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        times: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        times::insert_at(&self.owned, keys, times)
    }

    /// Stores keys in an update of a forgetting store, each for a lifetime of its own, as :meth:`Writer.insert_many_for`
    /// does in a filter.
    fn insert_many_for<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        lifetimes: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        times::insert_for(&self.owned, keys, lifetimes)
    }

    /// Like :meth:`insert_many`, without answers.
    fn update(&self, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        self.owned.change(keys, insert_silently).map(drop)
    }

    /// Removes one copy of each key from a counting store; returns where there was one: a NumPy array of bool, one a key,
    /// in their order. See :meth:`Writer.remove`.
    ///
    /// Raises:
    ///     WrongKind: the store is a set.
    fn remove_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Ok(array_of(keys.py(), self.owned.change(keys, remove)?))
    }

    /// Ends the update: makes a sealed file of each working copy, and one run of all records, synced and in their places in
    /// the store. No version names these files before :meth:`Store.commit`, here or in another process.
    ///
    /// Args:
    ///     progress: called with the number of files sealed, and of all files to seal. If it raises, the call ends.
    #[pyo3(signature = (progress=None))]
    fn seal(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Vec<Sealed>> {
        let update = self.owned.take_open(py)?;
        let sealed = with_progress(py, progress, |tell| update.seal_with(tell))?;
        Ok(failure::done(py, sealed)?.into_iter().map(Sealed).collect())
    }

    /// Ends the update: seals what was changed, and publishes a version with it.
    ///
    /// Raises the same errors as :meth:`Store.commit`. After an error the update is lost.
    ///
    /// Args:
    ///     rebase: if other commits have inserted some of the same keys since the base, commit nevertheless instead of
    ///         raising :class:`Conflict`: these keys count as not new. The outcome's ``rejudged`` counts them, and
    ///         :meth:`rejudged` names them. An update that rewrites shards or has removed keys may still conflict.
    #[pyo3(signature = (*, rebase=false))]
    fn commit<'py>(&self, py: Python<'py>, rebase: bool) -> PyResult<Bound<'py, PyAny>> {
        self.committed_rebased(py, rebase)
    }

    /// After ``commit(rebase=True)``: which of these keys another commit had inserted first, so that they were not new after
    /// all: a NumPy array of bool, one a key, in their order.
    ///
    /// >>> import gowk
    /// >>> store = gowk.Store.create("crawl.store", shards=4)
    /// >>> update = store.update()
    /// >>> update.insert_many(["a", "b"])
    /// array([ True,  True])
    /// >>> new = store.insert_many(["b", "c"])      # by another process
    /// >>> update.commit(rebase=True).rejudged
    /// 1
    /// >>> update.rejudged(["a", "b"])
    /// array([False,  True])
    fn rejudged<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let store = self.store.get().opened(keys.py())?;
        let found = lookups::rejudged(store.reader.store(), self.rejudged.get(), keys)?;
        Ok(array_of(keys.py(), found))
    }

    /// Ends the update and gives up its changes. Closing again does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let update = self.owned.take(py)?;
        py.detach(|| drop(update));
        Ok(())
    }

    /// Whether the update has ended.
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
        if kind.is_none() && !self.owned.is_closed(py)? {
            self.commit(py, false)?;
        }
        self.close(py)
    }

    fn __reduce__(&self) -> PyResult<()> {
        let message = "an Update cannot be pickled, as it belongs to one process; send what seal() returns";
        Err(PyTypeError::new_err(message))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let path = self.store.get().path.as_os_str().into_pyobject(py)?.repr()?.to_string();
        Ok(format!("<gowk.Update of {path}, based on version {}>", self.base))
    }
}
