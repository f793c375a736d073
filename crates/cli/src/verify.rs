//! `gowk verify`

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use gowk::{DamagedPage, Options, Report};

use super::arguments::ReadArgs;
use super::bar;
use super::failure::Failure;
use super::json;
use super::outcome::Outcome;
use super::output::{self, Output};
use super::prometheus::{self, Found};
use super::store::{self, AnyReader};

/// Read whole filters and name what is damaged; exit 1 if anything is
///
/// Compares every page with its checksum, and the entries with the filter's counters. Changes nothing.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gowk verify seen.gowk
  gowk verify *.gowk --prometheus > verified.prom.new; mv verified.prom.new /var/lib/node_exporter/verified.prom

With --json: {\"file\":\"seen.gowk\",\"clean\":false,\"pages\":528,\"damaged\":[{\"page\":17,\"region\":1}],
\"malformed\":[],\"superblock_damaged\":false,\"counts_differ\":false,\"live_differs\":false}, one line a filter")]
pub(super) struct Verify {
    /// Filters and stores to verify
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Print one JSON object for each
    #[arg(long)]
    json: bool,

    /// Print metrics as Prometheus reads them: gowk_clean is 1 where no damage was found
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,

    #[command(flatten)]
    read: ReadArgs,
}

impl Verify {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let mut output = Output::standard(b'\n')?;
        let (mut failed, mut verified) = (None::<Failure>, Vec::new());
        for file in &self.files {
            // A filter that cannot be opened does not prevent reading the others.
            let found = match self.verify(file, &mut output) {
                Ok(found) => Some(found),
                Err(failure) if failure.is_output() => return Err(failure),
                Err(failure) => {
                    output.flush()?;
                    failed.replace(failure).into_iter().for_each(output::note);
                    None
                }
            };
            verified.push((file.as_path(), found));
        }
        if self.prometheus {
            prometheus::tell_verified(&verified, SystemTime::now(), &mut output)?;
        }
        output.flush()?;
        let clean = verified.iter().all(|(_, found)| found.is_some_and(|found| found.clean));
        match failed {
            Some(failure) => Err(failure),
            None if clean => Ok(Outcome::Done),
            None => Ok(Outcome::NotFound),
        }
    }

    /// Reads one filter or store, and prints its findings unless the verb prints metrics at the end.
    fn verify(&self, file: &Path, output: &mut Output) -> Result<Found, Failure> {
        let reader = match AnyReader::open(file, &self.read.apply(Options::new()))? {
            AnyReader::Filter(reader) => reader,
            AnyReader::Store(reader) => {
                let verified = store::Verified::of(file, &reader)?;
                if !self.prometheus {
                    verified.print(file, self.json, output)?;
                }
                return Ok(verified.found());
            }
        };
        let report = reader.verify(&bar::of("verifying"))?;
        if self.json {
            let (file, clean) = (file.to_string_lossy(), report.is_clean());
            output.line(json::line(&json::Verified { file, clean, report: &report }))?;
        } else if !self.prometheus {
            print(file, &report, output)?;
        }
        let clean = report.is_clean();
        let damaged_pages = (report.damaged.len() + report.malformed.len()) as u64;
        Ok(Found { clean, pages: report.pages, damaged_pages, damaged_files: u64::from(!clean) })
    }
}

fn print(file: &Path, report: &Report, output: &mut Output) -> Result<(), Failure> {
    let file = file.display();
    let damaged = report.damaged.iter().map(|page| (page, "does not match its checksum"));
    let malformed =
        report.malformed.iter().map(|page| (page, "matches its checksum, but holds what gowk never writes"));
    for (DamagedPage { page, region }, problem) in damaged.chain(malformed) {
        output.line(format_args!("{file}: page {page} (region {region}) {problem}"))?;
    }
    let others = [
        (
            report.superblock_damaged,
            "one of the two superblocks is damaged; the other one serves. Next: `gowk repair` writes it anew",
        ),
        (
            report.counts_differ,
            "the entries found are not those counted; lookups are right, but `gowk info` is not. Next: `gowk repair` \
             counts anew",
        ),
        (
            report.live_differs,
            "its live area cannot be read, or is not that of its last commit although no writer has the file: a write was \
             lost, and changes of pages may be too. Next: `gowk repair` writes it anew",
        ),
    ];
    for (_, problem) in others.iter().filter(|(is_so, _)| *is_so) {
        output.line(format_args!("{file}: {problem}"))?;
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
