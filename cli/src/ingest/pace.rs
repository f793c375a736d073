//! The progress of a job, and its rate: a bar on a terminal, else a line every ten seconds.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use gowk::ingest;
use indicatif::{BinaryBytes, HumanDuration, ProgressBar, ProgressStyle};

use crate::output;

/// The time between two lines.
const EVERY: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(super) struct Pace {
    bar: ProgressBar,
    /// Whether to print lines.
    lines: bool,
    started: Instant,
    last: Instant,
}

impl Pace {
    /// With `json` there are no lines, because standard error reports the commits.
    pub(super) fn new(json: bool) -> Self {
        let terminal = io::stderr().is_terminal();
        let bar = if terminal { ProgressBar::new(0) } else { ProgressBar::hidden() };
        let style = "{wide_bar} {percent:>3} % of {binary_total_bytes}, {msg}, {eta} left";
        let bar = match ProgressStyle::with_template(style) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        };
        let now = Instant::now();
        Self { bar, lines: !terminal && !json, started: now, last: now }
    }

    pub(super) fn tell(&mut self, now: &ingest::Progress<'_>) {
        let keys = now.tally.keys;
        let rate = keys as f64 / self.started.elapsed().as_secs_f64().max(0.001);
        if !self.bar.is_hidden() {
            self.bar.set_length(now.of_bytes);
            self.bar.set_position(now.bytes);
            self.bar.set_message(format!("{keys} keys, {rate:.0} a second"));
        }
        if self.lines && self.last.elapsed() >= EVERY {
            self.last = Instant::now();
            let of = BinaryBytes(now.of_bytes);
            let percent = (100 * now.bytes).checked_div(now.of_bytes).unwrap_or(100);
            let left =
                self.left(now).map_or_else(String::new, |left| format!(", {} left", HumanDuration(left)));
            output::note(format_args!("{percent} % of {of}, {keys} keys, {rate:.0} a second{left}"));
        }
    }

    fn left(&self, now: &ingest::Progress<'_>) -> Option<Duration> {
        let left = now.of_bytes.saturating_sub(now.bytes) as f64 / now.bytes as f64;
        Duration::try_from_secs_f64(self.started.elapsed().as_secs_f64() * left).ok()
    }

    /// Lets `write` write to standard error while the bar is hidden.
    pub(super) fn aside(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
    }

    pub(super) fn doubling(&self, done: u64, all: u64) {
        if !self.bar.is_hidden() {
            self.bar.set_message(format!("doubling the filter, region {done} of {all}"));
        }
    }

    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
