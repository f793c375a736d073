//! `gowk store log`

use std::path::PathBuf;

use clap::Args;
use gowk::store::{Store, Version};
use serde::Serialize;

use super::super::failure::Failure;
use super::super::json;
use super::super::output;
use super::super::quantity;

/// List the versions of a store, the newest first
#[derive(Args)]
#[command(after_help = "\
Example:
  gowk store log crawl.store

Each line has the number of the version, when it was made (UTC), what made it, how many files of shards and runs it
brought, and the entries in all of them; then the token that it was committed with, if any. With --json, each is one object.")]
pub(super) struct Log {
    /// Store to look into
    store: PathBuf,

    /// Print one JSON object a version
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Entry<'a> {
    version: u64,
    time: String,
    operation: &'a str,
    base: u64,
    files: u64,
    entries: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    application: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<u64>,
}

impl<'a> From<&'a Version> for Entry<'a> {
    fn from(version: &'a Version) -> Self {
        let shards = version.shards.values().map(|file| file.since);
        let files = shards.chain(version.runs.iter().map(|run| run.since));
        let own = version.tokens.iter().find(|(_, done)| done.version == version.number);
        Self {
            version: version.number,
            time: quantity::utc(version.time),
            operation: &version.operation,
            base: version.base,
            files: files.filter(|since| *since == version.number).count() as u64,
            entries: version.entries(),
            bytes: version.bytes(),
            application: own.map(|(application, _)| application.as_str()),
            token: own.map(|(_, done)| done.number),
        }
    }
}

impl Log {
    pub(super) fn run(self) -> Result<(), Failure> {
        let versions = Store::open(&self.store)?.log()?;
        output::print(|output| {
            versions.iter().rev().map(Entry::from).try_for_each(|entry| {
                if self.json {
                    return output.line(json::line(&entry));
                }
                let Entry { version, time, operation, files, entries, .. } = &entry;
                let token = entry.application.zip(entry.token);
                let token = token
                    .map_or_else(String::new, |(application, number)| format!("  {application}:{number}"));
                output.line(format_args!(
                    "{version:>6}  {time}  {operation:<8}  {files:>5} files  {entries:>12} entries{}",
                    token.escape_debug()
                ))
            })
        })
    }
}
