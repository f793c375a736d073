//! Progress bars: on standard error, and only if it is a terminal.

use gowk::Options;
use indicatif::{ProgressBar, ProgressStyle};

/// A progress function that shows a bar from the first part of the work to the last, and again each time that the work is
/// repeated. `what` names the work, as in "copying". The bar disappears when the function is dropped.
pub(super) fn of(what: &'static str) -> impl Fn(u64, u64) + Send + Sync + 'static {
    styled(what, "{msg} {wide_bar} {percent:>3} %, {eta} left")
}

/// Shows a bar while files of a store are fetched from a bucket.
pub(super) fn fetching(options: Options) -> Options {
    let style = "{msg} {wide_bar} {binary_bytes} of {binary_total_bytes}, {eta} left";
    options.fetch_progress(styled("fetching", style))
}

fn styled(what: &'static str, style: &str) -> impl Fn(u64, u64) + Send + Sync + 'static {
    let bar = ProgressBar::new(0).with_message(what);
    ProgressStyle::with_template(style).into_iter().for_each(|style| bar.set_style(style));
    move |done, all| {
        let begins = bar.is_finished() || bar.length() == Some(0);
        bar.set_length(all);
        if begins {
            bar.reset();
        }
        bar.set_position(done);
        if done == all {
            bar.finish_and_clear();
        }
    }
}
