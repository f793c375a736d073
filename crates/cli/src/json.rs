//! The objects that `--json` prints: each on one line.

use std::borrow::Cow;

use gowk::store::Requests;
use gowk::{Info, Report};
use serde::Serialize;

use super::output;

/// An event of a run, as reported on standard error.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event<'a> {
    /// A commit. This run has taken `keys` from the input.
    Commit { number: u64, keys: u64 },
    /// A commit that may be durable or not.
    Unknown { number: u64, keys: u64 },
    /// A key without room in the filter. The input is the file, `standard input`, or `arguments`; `number` is the key's
    /// number in it, counted from 1. Invalid UTF-8 in the key is replaced.
    Refused { input: &'a str, number: u64, key: &'a str, reason: String },
    /// The number of keys without room in a run that another failure ended.
    RefusedTotal { keys: u64 },
    /// The requests of a run to servers of stores in buckets.
    Requests(Requests),
    /// The counts of a run, at its end.
    Summary {
        /// How many keys were taken from the input.
        read: u64,
        /// How many keys were absent before, including keys without room.
        new: u64,
        seen: u64,
        refused: u64,
        /// Records that lack the field, or whose field holds no single value.
        no_field: u64,
        malformed: u64,
        /// Records that have a key, but no valid time or lifetime.
        no_time: u64,
        /// Keys that were seen so long ago that the filter has forgotten that time.
        late: u64,
        /// Keys that were seen in the future.
        early: u64,
        /// The expected number of new keys that looked like others to the filter, and were not printed.
        #[serde(skip_serializing_if = "Option::is_none")]
        expected_lost: Option<f64>,
        seconds: f64,
        /// How long all commits took together.
        commit_seconds: f64,
        /// How many bytes this process had written to disks, including outputs, if the system counts them.
        #[serde(skip_serializing_if = "Option::is_none")]
        bytes_written: Option<u64>,
    },
}

impl Event<'_> {
    pub(super) fn tell(&self) {
        output::event(line(self));
    }
}

#[derive(Serialize)]
pub(super) struct Checked {
    pub(super) keys: u64,
    pub(super) present: u64,
    pub(super) absent: u64,
    pub(super) selected: u64,
    /// Records without a key.
    pub(super) skipped: u64,
    /// The requests that this run has made to servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) requests: Option<Requests>,
}

#[derive(Serialize)]
pub(super) struct Verified<'a> {
    pub(super) file: Cow<'a, str>,
    pub(super) clean: bool,
    #[serde(flatten)]
    pub(super) report: &'a Report,
}

/// All fields of [`Info`], by their names, and the times of the file.
#[derive(Serialize)]
pub(super) struct Description {
    pub(super) file: String,
    /// In UTC, in the form of RFC 3339.
    pub(super) file_made: Option<String>,
    pub(super) last_written: Option<String>,
    /// A string of decimal digits, because some readers of JSON round large numbers. Only on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seed: Option<String>,
    #[serde(flatten)]
    pub(super) info: Info,
}

/// Hexadecimal digits in groups of 8, 4, 4, 4 and 12, as RFC 9562 writes them.
pub(super) fn uuid(uuid: [u8; 16]) -> String {
    let digits = format!("{:032x}", u128::from_be_bytes(uuid));
    [0..8, 8..12, 12..16, 16..20, 20..32].map(|group| &digits[group]).join("-")
}

/// One line of JSON.
pub(super) fn line(object: &impl Serialize) -> String {
    // Serialization fails only for a map whose keys are no strings; there is no such map.
    serde_json::to_string(object).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_uuid_is_written_with_hyphens() {
        let uuid = std::array::from_fn(|i| 0x11 * i as u8);
        assert_eq!(super::uuid(uuid), "00112233-4455-6677-8899-aabbccddeeff");
    }
}
