//! Arguments that several verbs share: keys, threads, how to read a filter, and waiting for the lock.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use gowk::Options;
use gowk::keys::{self, Batch, Feed, Lines, Next, Sender};

use super::failure::Failure;
use super::output::Output;
use super::quantity;

/// Batches that are read ahead, and that are taken together.
pub(super) const AHEAD: usize = 16;

/// Keys on their way from the command's input.
pub(super) type KeyFeed = Feed<Batch, Failure>;

#[derive(Args)]
pub(super) struct KeyArgs {
    /// Keys, byte for byte; put `--` before keys that begin with `-`
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
    /// Threads that look up or insert keys, whenever some ten thousand or more come at a time
    #[arg(long, value_name = "N", default_value = "1", value_parser = quantity::positive)]
    threads: NonZeroU64,
}

impl ThreadArgs {
    pub(super) fn apply(&self, options: Options) -> Options {
        options.threads(usize::try_from(self.threads.get()).unwrap_or(usize::MAX))
    }
}

#[derive(Args)]
pub(super) struct ReadArgs {
    /// Take the filter for one that was closed and that nobody will change: no lock is needed, and nothing is written
    #[arg(long)]
    sealed: bool,
}

impl ReadArgs {
    pub(super) fn apply(&self, options: Options) -> Options {
        options.sealed(self.sealed)
    }
}

#[derive(Args)]
pub(super) struct LockArgs {
    /// Wait until another writer has finished, at most so many seconds; without a number, as long as it takes
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = quantity::FOREVER, value_parser = quantity::wait)]
    wait: Option<Duration>,
}

impl LockArgs {
    pub(super) fn apply(&self, options: Options) -> Options {
        options.wait(self.wait.unwrap_or_default())
    }
}

impl KeyArgs {
    pub(super) const fn separator(&self) -> u8 {
        if self.null { 0 } else { b'\n' }
    }

    /// Fails if an input is a folder or is not there, before anything else is done.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.input.iter().filter(|path| path.as_os_str() != "-").try_for_each(|path| {
            let is_dir = path.metadata().map(|metadata| metadata.is_dir());
            let outcome = is_dir
                .and_then(|is_dir| if is_dir { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(()) });
            outcome.map_err(|source| Failure::Input { input: path.display().to_string(), op: "read", source })
        })
    }

    /// Starts to read the keys.
    pub(super) fn start(&self) -> Result<KeyFeed, Failure> {
        if !self.keys.is_empty() {
            let mut batch = Batch::default();
            self.keys.iter().for_each(|key| batch.push(key.as_bytes()));
            return Ok(Feed::of([batch]));
        }
        let separator = self.separator();
        let standard = || PathBuf::from("-");
        let inputs = if self.input.is_empty() { vec![standard()] } else { self.input.clone() };
        Feed::start("input", AHEAD, move |to| inputs.iter().try_for_each(|input| read(input, separator, to)))
            .map_err(|source| Failure::System { op: "start the reading thread", source })
    }

    /// Hands all keys to `take`, some at a time, until it wants no more. What it has written is flushed whenever there
    /// are no keys yet, and at the end.
    pub(super) fn each_batch(
        &self,
        output: &mut Output,
        mut take: impl FnMut(&mut Output, &[&[u8]]) -> Result<ControlFlow<()>, Failure>,
    ) -> Result<(), Failure> {
        let mut feed = self.start()?;
        loop {
            let next = match feed.try_next()? {
                Some(next) => next,
                None => {
                    output.flush()?;
                    feed.next(None)?
                }
            };
            match next {
                Next::Message(batch) => {
                    let more = feed.ready(AHEAD - 1);
                    let keys: Vec<&[u8]> = batch.iter().chain(more.iter().flat_map(Batch::iter)).collect();
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

/// Reads one input to its end, or until nobody takes keys any more.
fn read(path: &PathBuf, separator: u8, to: &Sender<Batch, Failure>) -> Result<(), Failure> {
    let standard = path.as_os_str() == "-";
    let input = || if standard { "standard input".to_owned() } else { path.display().to_string() };
    let unreadable = |source| Failure::Input { input: input(), op: "read", source };
    let opened =
        if standard { io::stdin().as_fd().try_clone_to_owned().map(File::from) } else { File::open(path) };
    for batch in Lines::new(opened.map_err(unreadable)?, separator) {
        let batch = batch.map_err(|error| match error {
            keys::Error::Read(source) => unreadable(source),
            keys::Error::TooLong { number } => {
                let unit = if separator == 0 { "key" } else { "line" };
                Failure::TooLong { input: input(), unit, number }
            }
        })?;
        if to.send(batch).is_err() {
            break;
        }
    }
    Ok(())
}
