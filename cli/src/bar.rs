//! Progress bars: on standard error, and only if that is a terminal.

use gowk::Options;
use indicatif::{ProgressBar, ProgressStyle};

/// A bar that disappears when it is dropped.
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// `what` names the work, as in "copying".
    pub(super) fn new(what: &'static str) -> Self {
        Self::of(what, "{msg} {wide_bar} {percent:>3} %, {eta} left")
    }

    fn of(what: &'static str, style: &str) -> Self {
        let bar = ProgressBar::new(0).with_message(what);
        match ProgressStyle::with_template(style) {
            Ok(style) => Self(bar.with_style(style)),
            Err(_) => Self(bar),
        }
    }

    pub(super) fn tell(&self, done: u64, all: u64) {
        self.0.set_length(all);
        self.0.set_position(done);
    }

    /// Shows the bar from the first part of the work to the last.
    fn tell_until(&self, done: u64, all: u64) {
        let begins = self.0.is_finished() || self.0.length() == Some(0);
        self.0.set_length(all);
        if begins {
            self.0.reset();
        }
        self.0.set_position(done);
        if done == all {
            self.0.finish_and_clear();
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Shows a bar while files of a store are fetched from a bucket.
pub(super) fn fetching(options: Options) -> Options {
    let style = "{msg} {wide_bar} {binary_bytes} of {binary_total_bytes}, {eta} left";
    let bar = Bar::of("fetching", style);
    options.fetch_progress(move |done, all| bar.tell_until(done, all))
}

/// A function for progress that shows a bar from the first part of the work to the last, each time that the work is
/// done.
pub(super) fn each(what: &'static str) -> impl Fn(u64, u64) + Send + Sync + 'static {
    let bar = Bar::new(what);
    move |done, all| bar.tell_until(done, all)
}
