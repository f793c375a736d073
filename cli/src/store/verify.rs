//! `gowk verify` of a store.

use std::path::Path;

use gowk::store::Store;
use serde::Serialize;

use super::super::bar::Bar;
use super::super::failure::Failure;
use super::super::json;
use super::super::outcome::Outcome;
use super::super::output::Output;

#[derive(Serialize)]
struct Verified {
    clean: bool,
    version: u64,
    files: u64,
    damaged: Vec<Damaged>,
}

#[derive(Serialize)]
struct Damaged {
    shard: u32,
    /// Pages that are damaged; none if the file cannot be opened, or is another one.
    pages: Option<u64>,
    problem: String,
}

/// Reads every file that the newest version names; exit 1 if anything is wrong with one.
pub(in super::super) fn verify(path: &Path, as_json: bool) -> Result<Outcome, Failure> {
    let reader = Store::open(path)?.read()?;
    let bar = Bar::new("verifying");
    let reports = reader.verify(&|done, all| bar.tell(done, all))?;
    drop(bar);
    let files = reports.len() as u64;
    let damaged = reports.into_iter().filter_map(|(shard, report)| match report {
        Ok(report) if report.is_clean() => None,
        Ok(report) => {
            let pages = (report.damaged.len() + report.malformed.len()) as u64;
            let problem = format!(
                "{pages} of {} pages are damaged, or its head is; restore the file from a copy of the store",
                report.pages
            );
            Some(Damaged { shard, pages: Some(pages), problem })
        }
        Err(error) => Some(Damaged { shard, pages: None, problem: error.to_string() }),
    });
    let damaged: Vec<Damaged> = damaged.collect();
    let version = reader.version().number;
    let clean = damaged.is_empty();
    let mut output = Output::standard(b'\n')?;
    if as_json {
        output.line(json::line(&Verified { clean, version, files, damaged }))?;
    } else {
        let store = path.display();
        for Damaged { shard, problem, .. } in &damaged {
            output.line(format_args!("{store}: shard {shard}: {problem}"))?;
        }
        if clean {
            output.line(format_args!("{store}: version {version}, {files} files read, no damage found"))?;
        }
    }
    output.flush()?;
    Ok(if clean { Outcome::Done } else { Outcome::NotFound })
}
