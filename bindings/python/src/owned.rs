//! Objects that one process owns and one thread at a time uses: a writer, or an update.
//!
//! A thread that holds such an object waits for the GIL only within functions of the caller. A thread that must wait for
//! the object first releases the GIL. So no thread waits for one while it holds the other.

use std::cell::Cell;
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use gowk::store;
use pyo3::exceptions::{PyResourceWarning, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::failure;
use crate::feed::{Operation, Stopped, feed};
use crate::process::{attached, generation};

/// How many keys one chunk of inserts or removals has. Smaller chunks would be slower: each chunk visits every region
/// that it touches once.
const ROWS: usize = 1 << 20;
/// How many keys one chunk of lookups has.
const ROWS_LOOKED_UP: usize = 1 << 14;
/// The longest time for which a doubling during a single insert keeps the GIL before it lets other threads run.
const BREATH: Duration = Duration::from_millis(5);

thread_local! {
    /// The address of this variable identifies the thread.
    static THREAD: u8 = const { 0 };
    /// Since when the thread has worked on a filter while holding the GIL.
    static WITH_THE_GIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

fn this_thread() -> usize {
    THREAD.with(|here| std::ptr::from_ref(here).addr())
}

/// Lets other threads have the GIL for a moment, if this one has held it for [`BREATH`].
pub(crate) fn breathe() {
    if WITH_THE_GIL.get().is_some_and(|since| since.elapsed() > BREATH) {
        attached(|py| py.detach(|| thread::sleep(Duration::from_micros(50))));
        WITH_THE_GIL.set(Some(Instant::now()));
    }
}

/// A value that belongs to the process that opened it, until it is closed.
pub(crate) struct Owned<T> {
    path: PathBuf,
    /// The name of the object's class, for messages.
    kind: &'static str,
    /// What a caller can do with the keys taken before an exception.
    afterwards: &'static str,
    generation: u32,
    process: u32,
    /// `None` after closing.
    thing: Mutex<Option<T>>,
    /// The thread that holds the value, or 0.
    owner: AtomicUsize,
}

/// The object, while this thread holds it.
pub(crate) struct Held<'a, T> {
    thing: MutexGuard<'a, Option<T>>,
    owner: &'a AtomicUsize,
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.owner.store(0, Ordering::Relaxed);
    }
}

impl<T> Owned<T> {
    pub(crate) fn new(path: PathBuf, kind: &'static str, afterwards: &'static str, thing: T) -> Self {
        let (thing, owner) = (Mutex::new(Some(thing)), AtomicUsize::new(0));
        Self { path, kind, afterwards, generation: generation(), process: std::process::id(), thing, owner }
    }

    /// Fails if waiting would never end, and in a child of the process that opened the value.
    pub(crate) fn check(&self) -> PyResult<()> {
        if self.generation != generation() {
            return Err(failure::of_other_process(self.kind, &self.path));
        }
        if self.owner.load(Ordering::Relaxed) == this_thread() {
            let (path, kind) = (self.path.display(), self.kind);
            let message = format!("{path}: used by a function that this {kind} has called");
            return Err(PyRuntimeError::new_err(message));
        }
        Ok(())
    }

    fn held<'a>(&'a self, thing: MutexGuard<'a, Option<T>>) -> Held<'a, T> {
        self.owner.store(this_thread(), Ordering::Relaxed);
        Held { thing, owner: &self.owner }
    }

    /// Waits until no other thread holds the object.
    fn wait(&self) -> Held<'_, T> {
        // A poisoned mutex is no problem: a panic in the middle of a change has poisoned the filter itself.
        self.held(self.thing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn closed(&self) -> PyErr {
        PyValueError::new_err(format!("{}: this {} is closed", self.path.display(), self.kind))
    }

    fn on<R>(&self, mut held: Held<'_, T>, work: impl FnOnce(&mut T) -> R) -> PyResult<R> {
        held.thing.as_mut().map(work).ok_or_else(|| self.closed())
    }
}

impl<T: Send> Owned<T> {
    /// Does a short piece of work. Holds the GIL, unless it must wait for the object.
    #[inline]
    pub(crate) fn quickly<R: Send, E: Into<store::Error> + Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut T) -> Result<R, E> + Send,
    ) -> PyResult<R> {
        self.check()?;
        let held = match self.thing.try_lock() {
            Ok(thing) => Some(self.held(thing)),
            Err(TryLockError::Poisoned(thing)) => Some(self.held(thing.into_inner())),
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
        failure::done(py, outcome?)
    }

    /// Does work that may take long, without the GIL.
    pub(crate) fn slowly<R: Send, E: Into<store::Error> + Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut T) -> Result<R, E> + Send,
    ) -> PyResult<R> {
        self.check()?;
        failure::done(py, py.detach(|| self.on(self.wait(), work))?)
    }

    /// Does work in a thread that does not hold the GIL.
    pub(crate) fn without_the_gil<R>(&self, work: impl FnOnce(&mut T) -> R) -> PyResult<R> {
        self.on(self.wait(), work)
    }

    /// Takes the object out, so that it counts as closed; `None` if it was already closed.
    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<Option<T>> {
        self.check()?;
        Ok(py.detach(|| self.wait().thing.take()))
    }

    /// Like [`take`](Self::take), for an object that must still be open.
    pub(crate) fn take_open(&self, py: Python<'_>) -> PyResult<T> {
        self.take(py)?.ok_or_else(|| self.closed())
    }

    pub(crate) fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        self.check()?;
        Ok(py.detach(|| self.wait().thing.is_none()))
    }

    /// Feeds all keys to `take`, which changes the object without the GIL, and returns its answers.
    pub(crate) fn change<A: Copy + Default + Send + 'static>(
        &self,
        keys: &Bound<'_, PyAny>,
        take: impl FnMut(&mut T, &[&[u8]], &mut Vec<A>) -> Result<(), Stopped> + Send,
    ) -> PyResult<Vec<A>> {
        self.check()?;
        feed(keys, Batches { owned: self, changes: true, take, answer: std::marker::PhantomData })
    }

    /// Feeds all keys to `take`, which looks them up without the GIL, and returns its answers.
    pub(crate) fn look_up<A: Copy + Default + Send + 'static>(
        &self,
        keys: &Bound<'_, PyAny>,
        take: impl FnMut(&mut T, &[&[u8]], &mut Vec<A>) -> Result<(), Stopped> + Send,
    ) -> PyResult<Vec<A>> {
        self.check()?;
        feed(keys, Batches { owned: self, changes: false, take, answer: std::marker::PhantomData })
    }
}

impl<T> Owned<T> {
    /// The object, for the destructor of its class; `None` if it is closed, or belongs to another process.
    pub(crate) fn left(&mut self) -> Option<T> {
        if self.process != std::process::id() {
            return None;
        }
        self.thing.get_mut().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Warns that an object was dropped with changes, which are lost.
pub(crate) fn warn_of_lost(what: &str) {
    Python::try_attach(|py| {
        let category = py.get_type::<PyResourceWarning>();
        let warned = CString::new(what).map_or(Ok(()), |what| PyErr::warn(py, &category, &what, 1));
        // A destructor cannot raise: Python prints it.
        warned.unwrap_or_else(|error| error.write_unraisable(py, None));
    });
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // Closing a filter in a child would mark the parent's filter as closed, and remove the files that an update of
        // the parent works on.
        if self.process != std::process::id() {
            let thing = self.thing.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(thing.take());
        }
    }
}

/// A batch operation on the value of an [`Owned`].
struct Batches<'a, T, A, F> {
    owned: &'a Owned<T>,
    changes: bool,
    take: F,
    answer: std::marker::PhantomData<fn() -> A>,
}

impl<T, A, F> Operation for Batches<'_, T, A, F>
where
    T: Send,
    A: Copy + Default + Send + 'static,
    F: FnMut(&mut T, &[&[u8]], &mut Vec<A>) -> Result<(), Stopped> + Send,
{
    type Answer = A;

    fn afterwards(&self) -> Option<&'static str> {
        self.changes.then_some(self.owned.afterwards)
    }

    fn rows(&self) -> usize {
        if self.changes { ROWS } else { ROWS_LOOKED_UP }
    }

    fn take(&mut self, keys: &[&[u8]], answers: &mut Vec<A>) -> Result<(), Stopped> {
        // The caller's iterable may have forked the process, or closed the object.
        self.owned.check().map_err(Stopped::Raised)?;
        let take = |thing: &mut T| (self.take)(thing, keys, answers);
        self.owned.without_the_gil(take).map_err(Stopped::Raised)?
    }
}

/// Inserts keys. Returns which of them are new.
pub(crate) fn insert<B: gowk::Batches<Error: Into<Stopped>>>(
    to: &mut B,
    keys: &[&[u8]],
    new: &mut Vec<bool>,
) -> Result<(), Stopped> {
    new.resize(keys.len(), false);
    refusals(to.insert_each(keys, |index| new[index] = true))
}

/// Inserts keys, without answers.
pub(crate) fn insert_silently<B: gowk::Batches<Error: Into<Stopped>>>(
    to: &mut B,
    keys: &[&[u8]],
    _: &mut Vec<()>,
) -> Result<(), Stopped> {
    refusals(to.insert_each(keys, |_| {}))
}

/// Removes one copy of each key. Returns which keys had a copy.
pub(crate) fn remove<B: gowk::Batches<Error: Into<Stopped>>>(
    from: &mut B,
    keys: &[&[u8]],
    removed: &mut Vec<bool>,
) -> Result<(), Stopped> {
    removed.resize(keys.len(), false);
    from.remove_each(keys, |index| removed[index] = true).map_err(Into::into)
}

/// Turns a batch's keys without room into [`Stopped::Refused`].
fn refusals(outcome: Result<Vec<(usize, gowk::Error)>, impl Into<Stopped>>) -> Result<(), Stopped> {
    let all = outcome.map_err(Into::into)?;
    let refused = all.len();
    match all.into_iter().next() {
        None => Ok(()),
        Some((first, cause)) => Err(Stopped::Refused { first, refused, cause }),
    }
}
