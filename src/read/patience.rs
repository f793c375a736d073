//! Waiting for a writer that is applying a commit.

use std::thread;
use std::time::{Duration, Instant};

/// How long a lookup waits while a commit changes its region, before it checks whether the writer died.
const PATIENCE: Duration = Duration::from_millis(100);

/// Waits for longer and longer times, until [`PATIENCE`] has passed in all.
#[derive(Default)]
pub(super) struct Patience {
    start: Option<Instant>,
    pause: Duration,
}

impl Patience {
    /// Waits once more. Returns false once [`PATIENCE`] has passed.
    pub(super) fn wait(&mut self) -> bool {
        if self.start.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            return false;
        }
        if self.pause.is_zero() {
            thread::yield_now();
            self.pause = Duration::from_micros(1);
        } else {
            thread::sleep(self.pause);
            self.pause = (self.pause * 2).min(Duration::from_millis(5));
        }
        true
    }
}
