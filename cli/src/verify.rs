//! `gowk verify`

use std::path::PathBuf;

use clap::Args;
use gowk::{DamagedPage, Options, Report};

use super::arguments::ReadArgs;
use super::bar::Bar;
use super::failure::Failure;
use super::json;
use super::outcome::Outcome;
use super::output::Output;
use super::store;

/// Read a whole filter and name what is damaged; exit 1 if anything is
///
/// Compares every page with its checksum, and the entries with the filter's counters. Changes nothing.
#[derive(Args)]
#[command(after_help = "\
Example:
  gowk verify seen.gowk

With --json: {\"clean\":false,\"pages\":528,\"damaged\":[{\"page\":17,\"region\":1}],\"malformed\":[],
\"superblock_damaged\":false,\"counts_differ\":false,\"live_differs\":false}, on one line")]
pub(super) struct Verify {
    /// Filter or store to verify
    file: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    read: ReadArgs,
}

impl Verify {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        if store::is_store(&self.file) {
            return store::verify(&self.file, self.json);
        }
        let reader = self.read.apply(Options::new()).read(&self.file)?;
        let bar = Bar::new("verifying");
        let report = reader.verify(&mut |done, all| bar.tell(done, all))?;
        drop(bar);
        let mut output = Output::standard(b'\n')?;
        if self.json {
            output.line(json::line(&json::Verified::from(&report)))?;
        } else {
            self.print(&report, &mut output)?;
        }
        output.flush()?;
        Ok(if report.is_clean() { Outcome::Done } else { Outcome::NotFound })
    }

    fn print(&self, report: &Report, output: &mut Output) -> Result<(), Failure> {
        let file = self.file.display();
        for DamagedPage { page, region } in &report.damaged {
            output.line(format_args!("{file}: page {page} (region {region}) does not match its checksum"))?;
        }
        for DamagedPage { page, region } in &report.malformed {
            output.line(format_args!(
                "{file}: page {page} (region {region}) matches its checksum, but holds what gowk never writes"
            ))?;
        }
        if report.superblock_damaged {
            output.line(format_args!(
                "{file}: one of the two superblocks is damaged; the other one serves. \
                 Next: `gowk repair` writes it anew"
            ))?;
        }
        if report.counts_differ {
            output.line(format_args!(
                "{file}: the entries found are not those counted; lookups are right, but `gowk info` is not. \
                 Next: `gowk repair` counts anew"
            ))?;
        }
        if report.live_differs {
            output.line(format_args!(
                "{file}: its live area cannot be read, or is not that of its last commit although no writer has the file: \
                 a write was lost, and changes of pages may be too. Next: `gowk repair` writes it anew"
            ))?;
        }
        let bad = report.damaged.len() + report.malformed.len();
        if bad > 0 {
            output.line(format_args!(
                "{file}: {bad} of {} pages are damaged. Next: restore a copy, or run `gowk repair`",
                report.pages
            ))?;
        }
        if report.is_clean() {
            output.line(format_args!("{file}: {} pages read, no damage found", report.pages))?;
        }
        Ok(())
    }
}
