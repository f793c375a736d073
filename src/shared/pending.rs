//! The answer to one change, which a thread or a task waits for.

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use super::queue::{Job, Queue};
use crate::error::{Error, Result};

/// A failure, shared by all who wait for one commit.
pub(super) type Failure = Arc<Error>;

/// The answer to a change of a [`SharedWriter`](super::SharedWriter): a future for any executor, and
/// [`wait`](Self::wait) for threads.
///
/// The change is queued when the call returns, unless the queue is full. Then it is queued when the caller first waits
/// for the answer. A queued change is made and committed even if its `Pending` is dropped.
///
/// All changes of one commit share its error.
#[must_use = "a change may fail, and is durable only once its answer has come"]
pub struct Pending<T> {
    answer: Arc<Answer<T>>,
    /// A change that found the queue full.
    unqueued: Option<(Arc<Queue>, Job)>,
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("queued", &self.unqueued.is_none()).finish_non_exhaustive()
    }
}

/// Where the writer's thread leaves an answer.
pub(super) struct Answer<T>(Mutex<AnswerState<T>>);

enum AnswerState<T> {
    Open(Option<Waker>),
    Answered(Result<T, Failure>),
    Taken,
}

impl<T> Answer<T> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(AnswerState::Open(None))))
    }

    /// Stores the answer, and wakes the caller. Does nothing after an earlier answer.
    pub(super) fn set(&self, answer: Result<T, Failure>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let AnswerState::Open(waker) = &mut *state else { return };
        let waker = waker.take();
        *state = AnswerState::Answered(answer);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll(&self, waker: &Waker) -> Poll<Result<T, Failure>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, AnswerState::Taken) {
            AnswerState::Open(_) => {
                *state = AnswerState::Open(Some(waker.clone()));
                Poll::Pending
            }
            AnswerState::Answered(answer) => Poll::Ready(answer),
            // Polled again after the answer; no executor does that.
            AnswerState::Taken => Poll::Pending,
        }
    }
}

impl<T> Pending<T> {
    pub(super) fn queued(answer: Arc<Answer<T>>) -> Self {
        Self { answer, unqueued: None }
    }

    pub(super) fn unqueued(answer: Arc<Answer<T>>, queue: Arc<Queue>, job: Job) -> Self {
        Self { answer, unqueued: Some((queue, job)) }
    }

    pub(super) fn failed(error: Error) -> Self {
        let answer = Answer::new();
        answer.set(Err(Arc::new(error)));
        Self::queued(answer)
    }

    /// Blocks the thread until the answer arrives.
    pub fn wait(mut self) -> Result<T, Arc<Error>> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            match Pin::new(&mut self).poll(&mut context) {
                Poll::Ready(answer) => return answer,
                Poll::Pending => thread::park(),
            }
        }
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, Arc<Error>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some((queue, job)) = self.unqueued.take()
            && let Err(job) = queue.push(job, Some(context.waker()))
        {
            self.unqueued = Some((queue, job));
            return Poll::Pending;
        }
        self.answer.poll(context.waker())
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// [`Error::Closed`], shared.
pub(super) fn closed(path: &Path) -> Failure {
    Arc::new(Error::Closed { path: path.to_owned() })
}
