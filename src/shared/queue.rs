//! The changes that wait, and the thread that owns the writer.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread;
use std::time::Instant;

use super::pending::{Answer, Failure, Pending, closed};
use super::{Changes, Commits, MOST_KEYS};
use crate::error::{Error, IoContext, Result};
use crate::write::Writer;

/// The queue of one writer.
pub(super) struct Queue {
    pub(super) path: PathBuf,
    state: Mutex<QueueState>,
    /// Notified when there is work for the thread.
    work: Condvar,
}

#[derive(Default)]
struct QueueState {
    jobs: Vec<Job>,
    /// The number of keys in all jobs.
    keys: usize,
    /// Tasks that wait for room.
    crowded: Vec<Waker>,
    /// No further job is accepted: the thread ends after the queued jobs.
    ending: bool,
    /// Calls of `close`, which receive the outcome of closing.
    closing: Vec<Arc<Answer<()>>>,
}

/// A waiting change.
pub(super) struct Job {
    keys: usize,
    /// Whether it must be answered only after a commit, whatever [`Commits`] says.
    durable: bool,
    step: Box<dyn QueuedStep>,
}

trait QueuedStep: Send {
    fn make(&mut self, changes: &mut Changes<'_>);
    /// Answers with the outcome of the change, or with the failure of its commit.
    fn answer(&mut self, commit: Result<(), Failure>);
}

/// A change, its outcome once it is made, and the place for the answer.
struct QueuedChange<F, T> {
    change: Option<F>,
    outcome: Option<Result<T>>,
    answer: Arc<Answer<T>>,
    queue: Arc<Queue>,
}

impl<F, T> QueuedStep for QueuedChange<F, T>
where
    F: FnOnce(&mut Changes<'_>) -> Result<T> + Send,
    T: Send,
{
    fn make(&mut self, changes: &mut Changes<'_>) {
        self.outcome = self.change.take().map(|change| change(changes));
    }

    fn answer(&mut self, commit: Result<(), Failure>) {
        let Some(outcome) = self.outcome.take() else { return };
        // The change's own error says more than the commit's.
        self.answer.set(outcome.map_err(Arc::new).and_then(|outcome| commit.map(|()| outcome)));
    }
}

/// A change that is dropped without an answer was not made durable.
impl<F, T> Drop for QueuedChange<F, T> {
    fn drop(&mut self) {
        self.answer.set(Err(closed(&self.queue.path)));
    }
}

impl Queue {
    pub(super) fn start(writer: Writer, commits: Commits) -> Result<Arc<Self>> {
        let path = writer.path().to_owned();
        let (state, work) = (Mutex::default(), Condvar::new());
        let queue = Arc::new(Self { path, state, work });
        let owner = Owner { queue: queue.clone(), commits, failed: None, due: None };
        let thread = thread::Builder::new().name("gowk-writer".into()).spawn(move || owner.run(writer));
        thread.at(&queue.path, "start a thread for")?;
        Ok(queue)
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn submit<T: Send + 'static>(
        queue: &Arc<Self>,
        keys: usize,
        durable: bool,
        change: impl FnOnce(&mut Changes<'_>) -> Result<T> + Send + 'static,
    ) -> Pending<T> {
        let answer = Answer::new();
        let step = QueuedChange {
            change: Some(change),
            outcome: None,
            answer: answer.clone(),
            queue: queue.clone(),
        };
        match queue.push(Job { keys, durable, step: Box::new(step) }, None) {
            Ok(()) => Pending::queued(answer),
            Err(job) => Pending::unqueued(answer, queue.clone(), job),
        }
    }

    /// Queues the job, or returns it if the queue is full; `waker` is then woken once there may be room. If the queue is
    /// closed, drops the job, which answers it.
    pub(super) fn push(&self, job: Job, waker: Option<&Waker>) -> Result<(), Job> {
        let mut state = self.state();
        if state.ending {
            drop(state);
            return Ok(());
        }
        if state.keys > 0 && state.keys.saturating_add(job.keys) > MOST_KEYS {
            state.crowded.extend(waker.cloned());
            return Err(job);
        }
        state.keys = state.keys.saturating_add(job.keys);
        state.jobs.push(job);
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    /// Ends the thread after the queued jobs.
    pub(super) fn end(&self) {
        self.ended(None);
    }

    pub(super) fn close(queue: &Arc<Self>) -> Pending<()> {
        let answer = Answer::new();
        queue.ended(Some(answer.clone()));
        Pending::queued(answer)
    }

    fn ended(&self, answer: Option<Arc<Answer<()>>>) {
        let mut state = self.state();
        // The thread has ended, so nothing would answer the job.
        if state.ending
            && state.closing.is_empty()
            && let Some(answer) = &answer
        {
            answer.set(Err(closed(&self.path)));
        }
        state.ending = true;
        state.closing.extend(answer);
        let crowded = std::mem::take(&mut state.crowded);
        drop(state);
        self.work.notify_one();
        crowded.into_iter().for_each(Waker::wake);
    }

    /// Waits until there are jobs, or until `until`, and takes all of them. `None` if no more will come.
    fn take(&self, until: Option<Instant>) -> Option<Vec<Job>> {
        let mut state = self.state();
        while state.jobs.is_empty() && !state.ending {
            let Some(until) = until else {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.work.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.jobs.is_empty() && state.ending {
            return None;
        }
        state.keys = 0;
        let (jobs, crowded) = (std::mem::take(&mut state.jobs), std::mem::take(&mut state.crowded));
        drop(state);
        crowded.into_iter().for_each(Waker::wake);
        Some(jobs)
    }
}

/// The thread that owns the writer.
struct Owner {
    queue: Arc<Queue>,
    commits: Commits,
    /// The failure of the last attempt to commit changes that were answered before their commit.
    failed: Option<Failure>,
    /// When the changes that were already answered must be committed.
    due: Option<Instant>,
}

impl Owner {
    fn run(mut self, mut writer: Writer) {
        while let Some(jobs) = self.queue.take(self.due) {
            self.serve(&mut writer, jobs);
        }
        let last = self.due.map_or(Ok(()), |_| self.commit(&mut writer));
        let closed = writer.close().map_err(Arc::new);
        self.queue.settle(last.and(closed));
    }

    fn serve(&mut self, writer: &mut Writer, mut jobs: Vec<Job>) {
        let before = self.failed.clone();
        for job in &mut jobs {
            job.step.make(&mut Changes { writer });
        }
        let Commits::Every(time) = self.commits else {
            let outcome = commit_or_roll_back(writer);
            jobs.iter_mut().for_each(|job| job.step.answer(outcome.clone()));
            return;
        };
        let early = before.map_or(Ok(()), Err);
        jobs.iter_mut().filter(|job| !job.durable).for_each(|job| job.step.answer(early.clone()));
        let due = *self.due.get_or_insert_with(|| Instant::now() + time);
        if jobs.iter().any(|job| job.durable) || due <= Instant::now() {
            let outcome = self.commit(writer);
            jobs.iter_mut().for_each(|job| job.step.answer(outcome.clone()));
            self.due = self.failed.is_some().then(|| Instant::now() + time);
        }
    }

    /// Commits changes that were already answered, and records a failure for later changes.
    fn commit(&mut self, writer: &mut Writer) -> Result<(), Failure> {
        let outcome = writer.commit().map_err(Arc::new);
        self.failed = outcome.clone().err();
        outcome
    }
}

/// Commits changes before any of them is answered. If the commit fails, they must not become part of the next one.
fn commit_or_roll_back(writer: &mut Writer) -> Result<(), Failure> {
    let outcome = writer.commit();
    if let Err(error) = &outcome
        && !matches!(error, Error::Unknown { .. } | Error::AfterCommit { .. } | Error::Poisoned { .. })
    {
        // If this fails too, the writer is closed, and refuses later changes.
        let _ = writer.rollback();
    }
    outcome.map_err(Arc::new)
}

impl Queue {
    /// Answers all calls of `close`.
    fn settle(&self, outcome: Result<(), Failure>) {
        let mut state = self.state();
        state.ending = true;
        let (jobs, closing) = (std::mem::take(&mut state.jobs), std::mem::take(&mut state.closing));
        let crowded = std::mem::take(&mut state.crowded);
        drop(state);
        // They are answered with the error for a closed filter.
        drop(jobs);
        closing.iter().for_each(|answer| answer.set(outcome.clone()));
        crowded.into_iter().for_each(Waker::wake);
    }
}

/// Ensures that no caller waits for ever, even if a change panics.
impl Drop for Owner {
    fn drop(&mut self) {
        self.queue.settle(Err(closed(&self.queue.path)));
    }
}
