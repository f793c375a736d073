//! `gowk verify` of a store.

use std::path::Path;

use gowk::Report;
use gowk::store::{Error, StoreReader};
use serde::Serialize;

use super::super::bar;
use super::super::failure::Failure;
use super::super::json;
use super::super::output::Output;
use super::super::prometheus::Found;

/// The findings in a store.
#[derive(Serialize)]
pub(in super::super) struct Verified {
    file: String,
    clean: bool,
    version: u64,
    files: u64,
    pages: u64,
    damaged: Vec<Damaged>,
}

#[derive(Serialize)]
struct Damaged {
    /// `None` for a run.
    shard: Option<u32>,
    /// The number of damaged pages; `None` if the file cannot be opened, or differs from the version's description.
    pages: Option<u64>,
    /// The damaged pages of a run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged_pages: Vec<u64>,
    problem: String,
}

impl Verified {
    /// Reads every file that the newest version names.
    pub(in super::super) fn of(path: &Path, reader: &StoreReader) -> Result<Self, Failure> {
        let reports = reader.verify(&bar::of("verifying"))?;
        let files = reports.len() as u64;
        let pages =
            reports.iter().filter_map(|(_, report)| report.as_ref().ok()).map(|report| report.pages).sum();
        let damage = |(shard, report): (Option<u32>, Result<Report, Error>)| match report {
            Ok(report) if report.is_clean() => None,
            Ok(report) => {
                let pages = (report.damaged.len() + report.malformed.len()) as u64;
                let of_all = format!("{pages} of {} pages are damaged, or its head is", report.pages);
                let problem = format!("{of_all}; restore the file from a copy of the store");
                Some(Damaged { shard, pages: Some(pages), damaged_pages: Vec::new(), problem })
            }
            Err(error) => {
                let problem = error.to_string();
                let damaged_pages = match error {
                    Error::DamagedRun { pages, .. } => pages,
                    _ => Vec::new(),
                };
                let pages = (!damaged_pages.is_empty()).then_some(damaged_pages.len() as u64);
                Some(Damaged { shard, pages, damaged_pages, problem })
            }
        };
        let damaged: Vec<Damaged> = reports.into_iter().filter_map(damage).collect();
        let version = reader.version().number;
        let clean = damaged.is_empty();
        Ok(Self { file: path.to_string_lossy().into_owned(), clean, version, files, pages, damaged })
    }

    /// The findings, as metrics.
    pub(in super::super) fn found(&self) -> Found {
        let damaged_pages = self.damaged.iter().filter_map(|damaged| damaged.pages).sum();
        let damaged_files = self.damaged.len() as u64;
        Found { clean: self.clean, pages: self.pages, damaged_pages, damaged_files }
    }

    pub(in super::super) fn print(
        &self,
        path: &Path,
        as_json: bool,
        output: &mut Output,
    ) -> Result<(), Failure> {
        if as_json {
            return output.line(json::line(self));
        }
        let store = path.display();
        for Damaged { shard, problem, .. } in &self.damaged {
            let whose = shard.map_or_else(|| "run".to_owned(), |shard| format!("shard {shard}"));
            output.line(format_args!("{store}: {whose}: {problem}"))?;
        }
        if self.clean {
            let Self { version, files, .. } = self;
            output.line(format_args!("{store}: version {version}, {files} files read, no damage found"))?;
        }
        Ok(())
    }
}
