//! Where keys come from.
//!
//! A thread of its own reads and cuts them, so that nothing has to wait for a slow input: the taker learns at
//! once that there is nothing to take, can flush what it wrote, and can be woken by a clock or a signal.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::Instant;

use clap::Args;
use gowk::Options;

use super::failure::Failure;
use super::output::Output;
use super::quantity;
use super::split::{Batch, SplitError, split};

/// Batches read ahead.
const AHEAD: usize = 16;

#[derive(Args)]
pub(super) struct KeyArgs {
    /// Keys, each as it is; `--` before them lets them begin with `-`
    #[arg(value_name = "KEY")]
    keys: Vec<OsString>,

    /// Take the keys from the lines of this file; `-` is standard input; may be repeated
    #[arg(long, value_name = "PATH", conflicts_with = "keys")]
    input: Vec<PathBuf>,

    /// Keys end with NUL instead of a newline, in input and output
    #[arg(short = '0', long)]
    null: bool,
}

#[derive(Args)]
pub(super) struct ThreadArgs {
    /// Threads that look up or insert keys, where some ten thousand and more come at a time
    #[arg(long, value_name = "N", default_value = "1", value_parser = quantity::positive)]
    threads: NonZeroU64,
}

impl ThreadArgs {
    pub(super) fn apply(&self, options: Options) -> Options {
        options.threads(usize::try_from(self.threads.get()).unwrap_or(usize::MAX))
    }
}

impl KeyArgs {
    pub(super) const fn separator(&self) -> u8 {
        if self.null { 0 } else { b'\n' }
    }

    /// Fails for an input that cannot be read, before anything else is done.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.input.iter().filter(|path| path.as_os_str() != "-").try_for_each(|path| {
            let is_dir = path.metadata().map(|metadata| metadata.is_dir());
            let outcome = is_dir
                .and_then(|is_dir| if is_dir { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(()) });
            outcome.map_err(|source| Failure::Input { input: path.display().to_string(), op: "read", source })
        })
    }

    pub(super) fn start(&self) -> Result<Keys, Failure> {
        let (sender, events) = sync_channel(AHEAD);
        let waker = Waker(sender.clone());
        if !self.keys.is_empty() {
            let mut batch = Batch::default();
            self.keys.iter().for_each(|key| batch.push(key.as_bytes()));
            // There is room for both.
            let _ = sender.try_send(Event::Keys(batch));
            let _ = sender.try_send(Event::End);
            return Ok(Keys { events, next: Cell::new(None), waker });
        }
        let separator = self.separator();
        let standard = || PathBuf::from("-");
        let inputs = if self.input.is_empty() { vec![standard()] } else { self.input.clone() };
        let read = move || {
            let last = read(inputs, separator, &sender).map_or_else(Event::Failed, |()| Event::End);
            // The taker may be gone already.
            let _ = sender.send(last);
        };
        let spawned = thread::Builder::new().name("input".to_owned()).spawn(read);
        spawned.map_err(|source| Failure::System { op: "start the reading thread", source })?;
        Ok(Keys { events, next: Cell::new(None), waker })
    }
}

fn read(inputs: Vec<PathBuf>, separator: u8, to: &SyncSender<Event>) -> Result<(), Failure> {
    inputs.into_iter().try_for_each(|path| {
        let standard = path.as_os_str() == "-";
        let input = if standard { "standard input".to_owned() } else { path.display().to_string() };
        let opened = if standard {
            io::stdin().as_fd().try_clone_to_owned().map(File::from)
        } else {
            File::open(path)
        };
        let unit = if separator == 0 { "key" } else { "line" };
        let outcome = opened
            .map_err(SplitError::Read)
            .and_then(|file| split(file, separator, |batch| to.send(Event::Keys(batch)).is_ok()));
        outcome.map_err(|error| match error {
            SplitError::Read(source) => Failure::Input { input, op: "read", source },
            SplitError::TooLong(number) => Failure::TooLong { input, unit, number },
        })
    })
}

enum Event {
    Keys(Batch),
    End,
    Failed(Failure),
    Woken,
}

/// Ends the waiting for keys.
#[derive(Clone)]
pub(super) struct Waker(SyncSender<Event>);

impl Waker {
    pub(super) fn wake(&self) {
        // If there is no room, there is something to take, and nobody waits.
        let _ = self.0.try_send(Event::Woken);
    }
}

pub(super) struct Keys {
    events: Receiver<Event>,
    /// What came behind keys that were taken together.
    next: Cell<Option<Event>>,
    waker: Waker,
}

/// What there is to do.
pub(super) enum Next {
    Keys(Vec<Batch>),
    End,
    /// The time has come, or somebody woke us.
    Woken,
}

impl Keys {
    pub(super) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Waits for the next keys, until the time given at most; calls `idle` first if there are none yet.
    pub(super) fn next(
        &self,
        until: Option<Instant>,
        idle: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<Next, Failure> {
        let event = match self.next.take().map_or_else(|| self.events.try_recv(), Ok) {
            Ok(event) => event,
            Err(TryRecvError::Disconnected) => Event::End,
            Err(TryRecvError::Empty) => {
                idle()?;
                self.wait(until)
            }
        };
        match event {
            Event::Keys(batch) => Ok(Next::Keys(self.with_those_waiting(batch))),
            Event::End => Ok(Next::End),
            Event::Woken => Ok(Next::Woken),
            Event::Failed(failure) => Err(failure),
        }
    }

    /// The more keys at a time, the more of them are in the same region, and the more threads have work.
    fn with_those_waiting(&self, batch: Batch) -> Vec<Batch> {
        let mut batches = vec![batch];
        while batches.len() < AHEAD {
            match self.events.try_recv() {
                Ok(Event::Keys(batch)) => batches.push(batch),
                Ok(other) => {
                    self.next.set(Some(other));
                    break;
                }
                Err(_) => break,
            }
        }
        batches
    }

    fn wait(&self, until: Option<Instant>) -> Event {
        let Some(until) = until else { return self.events.recv().unwrap_or(Event::End) };
        let timeout = until.saturating_duration_since(Instant::now());
        self.events.recv_timeout(timeout).unwrap_or_else(|error| match error {
            RecvTimeoutError::Timeout => Event::Woken,
            RecvTimeoutError::Disconnected => Event::End,
        })
    }

    /// Hands out all keys, until `take` wants no more; what it has written is flushed where the input makes it
    /// wait, and at the end.
    pub(super) fn each_batch(
        &self,
        output: &mut Output,
        mut take: impl FnMut(&mut Output, &[&[u8]]) -> Result<ControlFlow<()>, Failure>,
    ) -> Result<(), Failure> {
        loop {
            match self.next(None, || output.flush())? {
                Next::Keys(batches) => {
                    let keys: Vec<&[u8]> = batches.iter().flat_map(Batch::iter).collect();
                    if take(output, &keys)?.is_break() {
                        return output.flush();
                    }
                }
                Next::End => return output.flush(),
                Next::Woken => {}
            }
        }
    }
}
