//! `gowk report`

mod filter;
mod html;
mod store;
mod svg;

use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use gowk::Options;

use super::arguments::ReadArgs;
use super::failure::Failure;
use super::output::Output;
use super::paths::{self, Sink, check_outputs};
use super::quantity;
use super::store::AnyReader;

/// Draw a filter or store: how full it is and where, how old its entries are, its next doublings, and damage
///
/// Makes one HTML page that needs nothing else: no network, no scripts. Every page of the filter is read and compared with
/// its checksum. The seed is not in it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gowk report seen.gowk -o report.html
  gowk report crawl.store > report.html")]
pub(super) struct Report {
    /// Filter or store to draw
    file: PathBuf,

    /// File to write the page to, in place of standard output
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,

    #[command(flatten)]
    read: ReadArgs,
}

impl Report {
    pub(super) fn run(self) -> Result<(), Failure> {
        // Opens the output before reading a long file, so that a wrong path fails at once.
        let path = paths::output(self.output.as_ref());
        let sink = path.map_or(Sink::standard(), |path| Sink::replaced("--output", path));
        check_outputs(&[sink], iter::empty(), iter::once(self.file.as_path()))?;
        let mut output = path.map_or_else(|| Output::standard(b'\n'), |path| Output::anew(path, b'\n'))?;
        let page = match AnyReader::open(&self.file, &self.read.apply(Options::new()))? {
            AnyReader::Filter(reader) => filter::page(&self.file, &reader)?,
            AnyReader::Store(reader) => store::page(&self.file, &reader)?,
        };
        output.text(page.trim_end())?;
        output.finish()
    }
}

/// The foot of the page: when it was made, and by which version.
fn made(path: &Path) -> String {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    format!("{}, as of {}", path.display(), quantity::time(SystemTime::now()))
}

fn foot() -> String {
    format!(
        "gowk {}. All figures are computed from the file when this page was made.",
        env!("CARGO_PKG_VERSION")
    )
}

/// The name of a path, for a heading.
fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// `93.0 %`
fn percent(part: f64) -> String {
    format!("{:.1} %", 100.0 * part)
}
