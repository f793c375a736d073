//! How far the input is read, and how fast: a bar on a terminal.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use crate::bar;
use crate::source::Source;

/// The time between two looks at the filter.
const EVERY: Duration = Duration::from_millis(200);

pub(crate) struct Pace {
    /// Hidden if standard error is no terminal.
    bar: ProgressBar,
    /// Bytes of the inputs read so far.
    read: Arc<AtomicU64>,
    started: Instant,
    told: Option<Instant>,
}

/// A bar on standard error, if that is a terminal and the bar is `wanted`. Hidden if keys are printed to a terminal
/// too: they would tear the bar apart.
pub(crate) fn bar(wanted: bool, prints: bool) -> ProgressBar {
    let shows = wanted && io::stderr().is_terminal() && !(prints && io::stdout().is_terminal());
    if shows { ProgressBar::no_length().with_message("0 keys") } else { ProgressBar::hidden() }
}

/// A function that shows doublings in this bar, or, if it is hidden, in a bar of their own.
pub(crate) fn of_growth(bar: &ProgressBar) -> Box<dyn Fn(u64, u64) + Send + Sync> {
    if bar.is_hidden() {
        return Box::new(bar::each("doubling"));
    }
    let bar = bar.clone();
    Box::new(move |done, all| bar.set_message(format!("doubling the filter, region {done} of {all}")))
}

impl Pace {
    pub(crate) fn new(bar: ProgressBar, source: &Source) -> Self {
        let template = match source.bytes {
            Some(_) => "{wide_bar} {percent:>3} % of {binary_total_bytes}, {msg}, {eta} left",
            None => "{spinner} {binary_bytes}, {msg}",
        };
        // The style comes before the length: setting the length draws the bar.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        source.bytes.into_iter().for_each(|bytes| bar.set_length(bytes));
        Self { bar, read: source.read.clone(), started: Instant::now(), told: None }
    }

    pub(crate) fn is_shown(&self) -> bool {
        !self.bar.is_hidden()
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Shows the progress, if that is due; `load` gives how full the filter is.
    pub(crate) fn tell(&mut self, keys: u64, load: impl FnOnce() -> Option<f64>) {
        if self.bar.is_hidden() || self.told.is_some_and(|told| told.elapsed() < EVERY) {
            return;
        }
        self.told = Some(Instant::now());
        let mut message = format!("{} keys, {} a second", HumanCount(keys), self.rate(keys));
        if let Some(load) = load() {
            // Writing to a string does not fail.
            let _ = write!(message, ", load {load:.3}");
        }
        self.bar.set_message(message);
        self.bar.set_position(self.read.load(Ordering::Relaxed));
        self.bar.tick();
    }

    /// Keys a second.
    pub(crate) fn rate(&self, keys: u64) -> HumanCount {
        HumanCount((keys as f64 / self.elapsed().as_secs_f64().max(0.001)) as u64)
    }

    /// Lets `write` write to standard error while the bar is hidden.
    pub(crate) fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
