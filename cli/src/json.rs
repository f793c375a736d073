//! The objects that `--json` prints: each on one line.

use std::path::Path;

use gowk::{DamagedPage, Growth, Info, Report};
use serde::Serialize;

/// A commit, as it is reported on standard error. `event` is `commit`, or `unknown` if it may be durable or not.
#[derive(Serialize)]
pub(super) struct Committed {
    pub(super) event: &'static str,
    pub(super) number: u64,
    /// Taken from the input so far in this run.
    pub(super) keys: u64,
}

/// A key that the filter has no room for, as it is reported on standard error. `event` is `refused`.
#[derive(Serialize)]
pub(super) struct Refused<'a> {
    pub(super) event: &'static str,
    /// The file, `standard input`, or `arguments`.
    pub(super) input: &'a str,
    /// Of the key in the input, from 1.
    pub(super) number: u64,
    /// What is no UTF-8 in it is replaced.
    pub(super) key: &'a str,
    pub(super) reason: String,
}

/// How many keys a run had no room for that another failure has ended. `event` is `refused_total`.
#[derive(Serialize)]
pub(super) struct RefusedTotal {
    pub(super) event: &'static str,
    pub(super) keys: u64,
}

/// What a run has inserted, at its end. `event` is `summary`.
#[derive(Serialize)]
pub(super) struct Inserted {
    pub(super) event: &'static str,
    /// Keys taken from the input.
    pub(super) read: u64,
    /// Those of them that were not there before, also where they had no room.
    pub(super) new: u64,
    pub(super) seen: u64,
    pub(super) refused: u64,
    /// Records that lack the field, or hold no single value in it.
    pub(super) no_field: u64,
    /// Records that are not what the format says.
    pub(super) malformed: u64,
    /// New keys that look like others to the filter, as far as is to be expected, and were not printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expected_lost: Option<f64>,
    pub(super) seconds: f64,
}

#[derive(Serialize)]
pub(super) struct Checked {
    pub(super) keys: u64,
    pub(super) present: u64,
    pub(super) absent: u64,
    pub(super) selected: u64,
    /// Records without a key.
    pub(super) skipped: u64,
}

#[derive(Serialize)]
pub(super) struct Verified {
    file: String,
    clean: bool,
    pages: u64,
    damaged: Vec<Place>,
    malformed: Vec<Place>,
    superblock_damaged: bool,
    counts_differ: bool,
    live_differs: bool,
}

#[derive(Serialize)]
struct Place {
    page: u64,
    region: u64,
}

fn places(pages: &[DamagedPage]) -> Vec<Place> {
    pages.iter().map(|DamagedPage { page, region }| Place { page: *page, region: *region }).collect()
}

impl Verified {
    pub(super) fn new(file: &Path, report: &Report) -> Self {
        Self {
            file: file.to_string_lossy().into_owned(),
            clean: report.is_clean(),
            pages: report.pages,
            damaged: places(&report.damaged),
            malformed: places(&report.malformed),
            superblock_damaged: report.superblock_damaged,
            counts_differ: report.counts_differ,
            live_differs: report.live_differs,
        }
    }
}

/// All of [`Info`], by the names of its fields, with what else is known of the file.
#[derive(Serialize)]
pub(super) struct Description {
    pub(super) file: String,
    /// UTC, as RFC 3339 writes it.
    pub(super) file_made: Option<String>,
    pub(super) last_written: Option<String>,
    /// A decimal number, as some readers of JSON round large numbers; only if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seed: Option<String>,
    #[serde(flatten)]
    pub(super) info: Info,
}

pub(super) fn version((major, minor): (u16, u16)) -> String {
    format!("{major}.{minor}")
}

/// Hexadecimal digits in groups of 8, 4, 4, 4 and 12, as RFC 9562 writes them.
pub(super) fn uuid(uuid: [u8; 16]) -> String {
    let digits = format!("{:032x}", u128::from_be_bytes(uuid));
    [0..8, 8..12, 12..16, 16..20, 20..32].map(|group| &digits[group]).join("-")
}

pub(super) fn growth(growth: Growth) -> &'static str {
    match growth {
        Growth::Auto => "auto",
        Growth::Never => "never",
    }
}

/// One line of JSON.
pub(super) fn line(object: &impl Serialize) -> String {
    // It would fail for a map whose keys are no strings; there is none.
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
