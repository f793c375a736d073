//! `gowk store`, and what the other verbs do where they are given a store in the place of a filter.

mod create;
mod dedup;
mod info;
mod intake;
mod log;
mod reader;
mod vacuum;
mod verify;

use std::path::Path;
use std::time::SystemTime;

use clap::{Args, Subcommand};

use super::failure::Failure;
use super::outcome::Outcome;

pub(super) use dedup::dedup;
pub(super) use info::print as print_info;
pub(super) use intake::{Given, StoreArgs, TransactionArgs, insert, remove};
pub(super) use reader::{AnyReader, copy};
pub(super) use verify::verify;

/// Create stores, list their versions, and vacuum them
///
/// A store is a folder of filters, the shards, under versions. check, count, dedup, insert, remove, info, verify and copy
/// take a store where they take a filter; what they change is committed at the end, as one version, by as many
/// processes at a time as you like.
#[derive(Args)]
pub(super) struct Store {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Create(create::Create),
    Log(log::Log),
    Vacuum(vacuum::Vacuum),
}

impl Store {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        match self.verb {
            Verb::Create(verb) => verb.run(),
            Verb::Log(verb) => verb.run(),
            Verb::Vacuum(verb) => verb.run(),
        }
    }
}

/// Whether a verb was given a store.
pub(super) fn is_store(path: &Path) -> bool {
    gowk::store::Store::is_at(path)
}

/// A time as RFC 3339 writes it, in UTC.
fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March, so that a leap day is the last of its year; 400 of them have 146,097 days. The first
    // such cycle began 719,468 days before 1970.
    let day = days + 719_468;
    let (cycle, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, in_next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = 400 * cycle + year + in_next;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_written_as_the_calendar_has_them() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_763_781_645, "2025-11-22T03:20:45Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
    }
}
