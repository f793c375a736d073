//! Progress of the fetches in this process.

use std::sync::{Mutex, PoisonError};

use crate::Options;

/// The fetches of one store.
pub(super) struct Fetches {
    options: Options,
    now: Mutex<Now>,
}

/// Fetches under way. Once there are none, the bytes begin again at 0.
#[derive(Default)]
struct Now {
    files: u64,
    done: u64,
    all: u64,
}

/// A fetch under way, until it is dropped.
pub(super) struct Fetch<'a>(&'a Fetches);

impl Fetches {
    pub(super) fn new(options: &Options) -> Self {
        Self { options: options.clone(), now: Mutex::default() }
    }

    /// Begins the fetch of a file of so many bytes.
    pub(super) fn begin(&self, bytes: u64) -> Fetch<'_> {
        self.report(|now| {
            now.files += 1;
            now.all += bytes;
        });
        Fetch(self)
    }

    /// Reports under the lock, so that the numbers never go back.
    fn report(&self, change: impl FnOnce(&mut Now)) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut now);
        self.options.fetches.tell(now.done, now.all);
    }
}

impl Fetch<'_> {
    pub(super) fn add(&self, bytes: u64) {
        self.0.report(|now| now.done += bytes);
    }
}

impl Drop for Fetch<'_> {
    fn drop(&mut self) {
        let mut now = self.0.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.files = now.files.saturating_sub(1);
        if now.files > 0 {
            return;
        }
        // A fetch that failed leaves its bar unfinished.
        if now.done < now.all {
            self.0.options.fetches.tell(now.all, now.all);
        }
        *now = Now::default();
    }
}
