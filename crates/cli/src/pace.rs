//! How far a verb has read its input, and how fast: a bar on a terminal, or perhaps lines elsewhere.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use gowk::Options;
use indicatif::{BinaryBytes, HumanCount, HumanDuration, ProgressBar, ProgressStyle};

use super::{bar, output};

/// The time between two changes of the bar. Each change reads the filter's description.
const OFTEN: Duration = Duration::from_millis(200);
/// The time between two lines.
const SELDOM: Duration = Duration::from_secs(10);

pub(super) struct Pace {
    /// Hidden if standard error is no terminal.
    bar: ProgressBar,
    /// Whether lines are printed if the bar is hidden.
    lines: bool,
    started: Instant,
    told: Option<Instant>,
}

/// A bar on standard error, if that is a terminal and the bar is `wanted`. Hidden if keys are also printed to a terminal:
/// they would tear the bar apart.
pub(super) fn bar(wanted: bool, prints: bool) -> ProgressBar {
    let shows = wanted && io::stderr().is_terminal() && !(prints && io::stdout().is_terminal());
    if shows { ProgressBar::no_length().with_message("0 keys") } else { ProgressBar::hidden() }
}

/// Shows the progress of doublings, and of fetching files of a store, in this bar. If the bar is hidden, each has a bar
/// of its own.
pub(super) fn of_options(bar: &ProgressBar, options: Options) -> Options {
    if bar.is_hidden() {
        return bar::fetching(options).growth_progress(bar::of("doubling"));
    }
    let (growing, fetching) = (bar.clone(), bar.clone());
    let options = options.growth_progress(move |done, all| {
        growing.set_message(format!("doubling the filter, region {done} of {all}"));
    });
    options.fetch_progress(move |done, all| {
        let (done, all) = (BinaryBytes(done), BinaryBytes(all));
        fetching.set_message(format!("fetching files of the store, {done} of {all}"));
    })
}

/// How many bytes this process has had written to disks, as Linux counts them in `/proc/self/io`; `None` elsewhere.
pub(super) fn bytes_written() -> Option<u64> {
    let counts = std::fs::read_to_string("/proc/self/io").ok()?;
    counts.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.parse().ok()
}

impl Pace {
    /// Shows a bar for an input whose length may be known, or prints lines.
    pub(super) fn new(bar: ProgressBar, has_length: bool, lines: bool) -> Self {
        let template = if has_length {
            "{wide_bar} {percent:>3} % of {binary_total_bytes}, {msg}, {eta} left"
        } else {
            "{spinner} {binary_bytes}, {msg}"
        };
        // The style comes before the length: setting the length draws the bar.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        let now = Instant::now();
        Self { lines: lines && bar.is_hidden(), bar, started: now, told: lines.then_some(now) }
    }

    pub(super) fn is_shown(&self) -> bool {
        !self.bar.is_hidden()
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Shows the progress, if that is due: keys taken, and bytes read of all, if their number is known. `load` returns
    /// how full the filter is.
    pub(super) fn tell(
        &mut self,
        keys: u64,
        bytes: u64,
        of: Option<u64>,
        load: impl FnOnce() -> Option<f64>,
    ) {
        let every = if self.lines { SELDOM } else { OFTEN };
        if !self.lines && !self.is_shown() || self.told.is_some_and(|told| told.elapsed() < every) {
            return;
        }
        self.told = Some(Instant::now());
        let load = load().map_or_else(String::new, |load| format!(", load {load:.3}"));
        let message = format!("{} keys, {} a second{load}", HumanCount(keys), self.rate(keys));
        if self.lines {
            let of = of.unwrap_or(bytes);
            let percent = (100 * bytes).checked_div(of).unwrap_or(100);
            let left = of.saturating_sub(bytes) as f64 / bytes as f64 * self.elapsed().as_secs_f64();
            let left =
                Duration::try_from_secs_f64(left).map(|left| format!(", {} left", HumanDuration(left)));
            let left = left.unwrap_or_default();
            return output::note(format_args!("{percent} % of {}, {message}{left}", BinaryBytes(of)));
        }
        self.bar.set_message(message);
        of.into_iter().for_each(|of| self.bar.set_length(of));
        self.bar.set_position(bytes);
        self.bar.tick();
    }

    /// Keys a second.
    pub(super) fn rate(&self, keys: u64) -> HumanCount {
        HumanCount((keys as f64 / self.elapsed().as_secs_f64().max(0.001)) as u64)
    }

    /// Lets `write` write to standard error while the bar is hidden.
    pub(super) fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
