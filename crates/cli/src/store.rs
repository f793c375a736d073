//! `gowk store`, and the parts of other verbs for stores.

mod compact;
mod create;
mod info;
mod log;
mod reader;
mod vacuum;
mod verify;

use clap::{Args, Subcommand};

use super::failure::Failure;

pub(super) use info::print as print_info;
pub(super) use reader::AnyReader;
pub(super) use verify::Verified;

/// Create stores, list their versions, compact and vacuum them
///
/// A store is a folder of filters, the shards, under versions. check, count, dedup, insert, remove, sweep, info, report,
/// verify and copy take a store where they take a filter, and so does a job. They commit their changes at the end, as one version; any number of processes
/// may do so at the same time.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gowk store create crawl.store --shards 64 --capacity 10_000_000_000
  zcat urls.gz | gowk dedup crawl.store --threads 8 > new.txt
  gowk store log crawl.store
  gowk store vacuum crawl.store")]
pub(super) struct Store {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Compact(compact::Compact),
    Create(create::Create),
    Log(log::Log),
    Vacuum(vacuum::Vacuum),
}

impl Store {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self.verb {
            Verb::Compact(verb) => verb.run(),
            Verb::Create(verb) => verb.run(),
            Verb::Log(verb) => verb.run(),
            Verb::Vacuum(verb) => verb.run(),
        }
    }
}
