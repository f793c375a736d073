//! A thread that reads, and a bounded queue of the messages that it sends.
//!
//! Invariants:
//!
//! 1. The thread's last event says how its reading ended, even after a panic. So a receiver never waits for ever,
//!    although wakers keep the queue open.
//! 2. Messages are received in the order of sending, and the end comes after all of them.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// A thread that reads, and the queue of its messages `M`, usually one [`Batch`](super::Batch) each. The queue ends with
/// the end of the reading or with an error `E`.
///
/// After the feed is dropped, the thread's next send fails. Dropping does not wait for the thread, because it may be
/// reading a terminal. [`stop`](Self::stop) waits.
#[derive(Debug)]
pub struct Feed<M, E> {
    events: Receiver<Event<M, E>>,
    /// Events that were taken from the queue but not handed out yet.
    ready: VecDeque<Event<M, E>>,
    waker: SyncSender<Event<M, E>>,
    stopped: Arc<AtomicBool>,
    /// `None` if the feed has no thread, and after the end.
    thread: Option<JoinHandle<()>>,
}

/// The next event for the receiver of a [`Feed`].
#[derive(Debug)]
pub enum Next<M> {
    /// A message of the reading thread.
    Message(M),
    /// The given time has come, or a waker was called.
    Woken,
    /// The end: no more messages will come.
    End,
}

/// The reading thread's side of a [`Feed`].
#[derive(Debug)]
pub struct Sender<M, E> {
    to: SyncSender<Event<M, E>>,
    stopped: Arc<AtomicBool>,
}

/// The error of a sender whose feed receives no more messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped;

#[derive(Debug)]
enum Event<M, E> {
    Next(Next<M>),
    Failed(E),
    Panicked,
}

impl<M, E> Sender<M, E> {
    /// Waits until there is room for the message.
    pub fn send(&self, message: M) -> Result<(), Stopped> {
        self.to.send(Event::Next(Next::Message(message))).map_err(|_| Stopped)
    }

    /// Whether the feed receives no more messages. Check this before long work that sends nothing.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

impl<M: Send + 'static, E: Send + 'static> Feed<M, E> {
    /// Starts a thread called `name` that reads and sends, at most `ahead` messages ahead of the receiver.
    ///
    /// `read` returns at its end, with an error, or when a send fails with [`Stopped`]. Fails if the system cannot
    /// start a thread.
    pub fn start(
        name: &str,
        ahead: usize,
        read: impl FnOnce(&Sender<M, E>) -> Result<(), E> + Send + 'static,
    ) -> io::Result<Self> {
        let mut feed = Self::new(ahead);
        let sender = Sender { to: feed.waker.clone(), stopped: feed.stopped.clone() };
        let run = move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| read(&sender)));
            // The receiver may be gone.
            let _ = match outcome {
                Ok(Ok(())) => sender.to.send(Event::Next(Next::End)),
                Ok(Err(error)) => sender.to.send(Event::Failed(error)),
                Err(panic) => {
                    let _ = sender.to.send(Event::Panicked);
                    resume_unwind(panic)
                }
            };
        };
        feed.thread = Some(thread::Builder::new().name(name.to_owned()).spawn(run)?);
        Ok(feed)
    }

    /// A feed of these messages. It has no thread.
    pub fn of(messages: impl IntoIterator<Item = M>) -> Self {
        let mut feed = Self::new(1);
        feed.ready.extend(messages.into_iter().map(Next::Message).chain([Next::End]).map(Event::Next));
        feed
    }

    /// A function that ends a wait in [`next`](Self::next). Any thread may call it.
    pub fn waker(&self) -> impl Fn() + Clone + Send + Sync + 'static {
        let waker = self.waker.clone();
        move || {
            // If the queue is full, the receiver has messages to take and does not wait.
            let _ = waker.try_send(Event::Next(Next::Woken));
        }
    }
}

impl<M, E> Feed<M, E> {
    fn new(ahead: usize) -> Self {
        let (waker, events) = sync_channel(ahead);
        let stopped = Arc::new(AtomicBool::new(false));
        Self { events, ready: VecDeque::new(), waker, stopped, thread: None }
    }

    /// The next event; `None` if there is none yet.
    ///
    /// Fails with the error of the reading thread, after all messages before it. Panics if that thread has panicked.
    pub fn try_next(&mut self) -> Result<Option<Next<M>>, E> {
        match self.ready.pop_front().map_or_else(|| self.events.try_recv(), Ok) {
            Ok(event) => self.told(event).map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Ok(Some(Next::End)),
        }
    }

    /// Waits for the next event. Returns [`Next::Woken`] if there is none by the time `until`. Fails as
    /// [`try_next`](Self::try_next) does.
    pub fn next(&mut self, until: Option<Instant>) -> Result<Next<M>, E> {
        if let Some(next) = self.try_next()? {
            return Ok(next);
        }
        let event = match until {
            None => self.events.recv().unwrap_or(Event::Next(Next::End)),
            Some(until) => {
                let timeout = until.saturating_duration_since(Instant::now());
                self.events.recv_timeout(timeout).unwrap_or_else(|error| match error {
                    RecvTimeoutError::Timeout => Event::Next(Next::Woken),
                    RecvTimeoutError::Disconnected => Event::Next(Next::End),
                })
            }
        };
        self.told(event)
    }

    /// Further messages that are already in the queue, at most `most`. The more keys a filter takes at a time, the more
    /// of them share a region, and the more of its threads have work.
    pub fn ready(&mut self, most: usize) -> Vec<M> {
        let mut messages = Vec::new();
        while messages.len() < most {
            match self.ready.pop_front().map_or_else(|| self.events.try_recv(), Ok) {
                Ok(Event::Next(Next::Message(message))) => messages.push(message),
                Ok(other) => {
                    self.ready.push_front(other);
                    break;
                }
                Err(_) => break,
            }
        }
        messages
    }

    /// Receives no more messages, and waits until the thread has ended. Panics if that thread has panicked.
    pub fn stop(mut self) {
        let thread = self.thread.take();
        drop(self);
        join(thread);
    }

    fn told(&mut self, event: Event<M, E>) -> Result<Next<M>, E> {
        let failed = match event {
            Event::Next(Next::End) => None,
            Event::Next(next) => return Ok(next),
            Event::Failed(error) => Some(error),
            Event::Panicked => {
                join(self.thread.take());
                None
            }
        };
        // A later call gets the end again.
        self.ready.push_front(Event::Next(Next::End));
        failed.map_or(Ok(Next::End), Err)
    }
}

impl<M, E> Drop for Feed<M, E> {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

fn join(thread: Option<JoinHandle<()>>) {
    if let Some(Err(panic)) = thread.map(JoinHandle::join) {
        resume_unwind(panic);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// All messages, and how they ended.
    fn all(mut feed: Feed<u32, &'static str>) -> (Vec<u32>, Result<(), &'static str>) {
        let mut messages = Vec::new();
        let outcome = loop {
            match feed.next(None) {
                Ok(Next::Message(message)) => messages.push(message),
                Ok(Next::Woken) => {}
                Ok(Next::End) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        assert!(matches!(feed.next(None), Ok(Next::End)));
        (messages, outcome)
    }

    #[test]
    fn messages_come_in_order_and_the_end_or_the_error_behind_them() {
        let send = |to: &Sender<u32, &'static str>| (0..100).for_each(|n| to.send(n).unwrap());
        let ended = Feed::start("test", 3, move |to| {
            send(to);
            Ok(())
        });
        assert_eq!(all(ended.unwrap()), ((0..100).collect(), Ok(())));
        let failed = Feed::start("test", 3, move |to| {
            send(to);
            Err("no more")
        });
        assert_eq!(all(failed.unwrap()), ((0..100).collect(), Err("no more")));
        assert_eq!(all(Feed::of(0..5)), ((0..5).collect(), Ok(())));
    }

    #[test]
    fn messages_that_are_there_are_taken_together_up_to_the_end() {
        let mut feed = Feed::<u32, ()>::of(0..5);
        assert_eq!(feed.ready(2), [0, 1]);
        assert_eq!(feed.ready(9), [2, 3, 4]);
        assert!(feed.ready(9).is_empty());
        assert!(matches!(feed.next(None), Ok(Next::End)));
    }

    #[test]
    fn waiting_ends_when_it_is_time_and_when_somebody_wakes() {
        let (hold, held) = sync_channel::<()>(0);
        let mut feed = Feed::<u32, ()>::start("test", 1, move |_| {
            let _ = held.recv();
            Ok(())
        })
        .unwrap();
        assert!(matches!(feed.try_next(), Ok(None)));
        assert!(matches!(feed.next(Some(Instant::now() + Duration::from_millis(1))), Ok(Next::Woken)));
        let wake = feed.waker();
        thread::spawn(wake).join().unwrap();
        assert!(matches!(feed.next(None), Ok(Next::Woken)));
        drop(hold);
        assert!(matches!(feed.next(None), Ok(Next::End)));
    }

    #[test]
    fn a_reader_that_nobody_listens_to_is_told_and_waited_for() {
        let (told, tells) = sync_channel(1);
        let feed = Feed::<u32, ()>::start("test", 1, move |to| {
            while to.send(7).is_ok() {}
            told.send(to.is_stopped()).unwrap();
            Ok(())
        });
        feed.unwrap().stop();
        assert_eq!(tells.try_recv(), Ok(true));
    }

    /// Wakers keep the queue open: without a last event, the receiver would wait for ever.
    #[test]
    fn a_panic_of_the_reader_is_one_of_whoever_waits() {
        let feed = || {
            Feed::<u32, ()>::start("test", 1, |to| {
                to.send(1).unwrap();
                panic!("on purpose")
            })
            .unwrap()
        };
        let mut waiting = feed();
        assert!(matches!(waiting.next(None), Ok(Next::Message(1))));
        let panic = catch_unwind(AssertUnwindSafe(|| waiting.next(None).is_ok())).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
        let mut stopping = feed();
        assert!(matches!(stopping.next(None), Ok(Next::Message(1))));
        assert!(catch_unwind(AssertUnwindSafe(|| stopping.stop())).is_err());
    }
}
