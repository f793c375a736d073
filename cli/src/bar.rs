//! Progress bars: on standard error, and only if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar that disappears when it is dropped.
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// `what` names the work, as in "copying".
    pub(super) fn new(what: &'static str) -> Self {
        let bar = ProgressBar::new(0).with_message(what);
        match ProgressStyle::with_template("{msg} {wide_bar} {percent:>3} %, {eta} left") {
            Ok(style) => Self(bar.with_style(style)),
            Err(_) => Self(bar),
        }
    }

    pub(super) fn tell(&self, done: u64, all: u64) {
        self.0.set_length(all);
        self.0.set_position(done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A function for progress that shows a bar from the first part of the work to the last, each time that the work is
/// done.
pub(super) fn each(what: &'static str) -> impl Fn(u64, u64) + Send + Sync + 'static {
    let bar = Bar::new(what);
    move |done, all| {
        if done <= 1 {
            bar.0.reset();
        }
        bar.tell(done, all);
        if done == all {
            bar.0.finish_and_clear();
        }
    }
}
