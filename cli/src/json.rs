//! The objects that `--json` prints: each on one line.

use std::path::Path;

use gowk::{DamagedPage, Growth, Info, Report};
use serde::Serialize;

/// A commit, as reported on standard error. `event` is `commit`, or `unknown` if it may be durable or not.
#[derive(Serialize)]
pub(super) struct Committed {
    pub(super) event: &'static str,
    pub(super) number: u64,
    /// Keys taken from the input so far in this run.
    pub(super) keys: u64,
}

/// A key that the filter has no room for, as reported on standard error. `event` is `refused`.
#[derive(Serialize)]
pub(super) struct Refused<'a> {
    pub(super) event: &'static str,
    /// The file, `standard input`, or `arguments`.
    pub(super) input: &'a str,
    /// The key's number in the input, counted from 1.
    pub(super) number: u64,
    /// The key; invalid UTF-8 in it is replaced.
    pub(super) key: &'a str,
    pub(super) reason: String,
}

/// The number of keys without room in a run that another failure ended. `event` is `refused_total`.
#[derive(Serialize)]
pub(super) struct RefusedTotal {
    pub(super) event: &'static str,
    pub(super) keys: u64,
}

/// The counts of a run, at its end. `event` is `summary`.
#[derive(Serialize)]
pub(super) struct Inserted {
    pub(super) event: &'static str,
    /// Keys taken from the input.
    pub(super) read: u64,
    /// The keys that were not there before, including those without room.
    pub(super) new: u64,
    pub(super) seen: u64,
    pub(super) refused: u64,
    /// Records that lack the field, or whose field holds no single value.
    pub(super) no_field: u64,
    /// Malformed records.
    pub(super) malformed: u64,
    /// The expected number of new keys that looked like others to the filter, and were not printed.
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

/// All fields of [`Info`], by their names, and the times of the file.
#[derive(Serialize)]
pub(super) struct Description {
    pub(super) file: String,
    /// UTC, as RFC 3339 writes it.
    pub(super) file_made: Option<String>,
    pub(super) last_written: Option<String>,
    /// A string of decimal digits, because some readers of JSON round large numbers; only if asked for.
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
    // Serialization fails only for a map whose keys are no strings; there is none.
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
