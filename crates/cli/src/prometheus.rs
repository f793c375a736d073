//! Descriptions of filters in the text format of Prometheus, version 0.0.4.

use std::borrow::Borrow;
use std::path::Path;
use std::time::{Duration, SystemTime};

use gowk::Info;
use gowk::store::StoreInfo;

use super::failure::Failure;
use super::output::Output;

/// The pages read, and the damage among them.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) clean: bool,
    /// How many pages were read of a filter, or of all openable shards of a store.
    pub(super) pages: u64,
    pub(super) damaged_pages: u64,
    /// How many files of a store are damaged, missing, or not the store's; for a filter, 1 or 0.
    pub(super) damaged_files: u64,
}

/// A filter to describe.
pub(super) struct Told<'a> {
    pub(super) file: &'a Path,
    /// `None` if the filter cannot be read.
    pub(super) info: Option<Info>,
    /// For a store, its newest version.
    pub(super) store: Option<StoreInfo>,
    pub(super) last_written: Option<SystemTime>,
}

/// The metric's name, help, and value. The names of counters end with `_total`; all other metrics are gauges.
type Metric<T> = (&'static str, &'static str, fn(&T) -> f64);

const OF_FILTERS: [Metric<Info>; 14] = [
    ("gowk_entries", "Slots that hold an entry.", |info| info.entries as f64),
    ("gowk_slots", "Slots of all buckets.", |info| info.slots as f64),
    ("gowk_load_ratio", "Slots in use, divided by all slots.", |info| info.load),
    ("gowk_capacity_keys", "Keys asked for at creation.", |info| info.capacity as f64),
    ("gowk_expected_false_positive_ratio", "Chance that a key is found that was never inserted.", |info| {
        info.expected_false_positive_rate
    }),
    (
        "gowk_max_false_positive_ratio",
        "Expected rate beyond which the filter does not double; NaN for no limit.",
        |info| info.max_false_positive_rate.unwrap_or(f64::NAN),
    ),
    ("gowk_file_bytes", "Length of the filter file.", |info| info.file_length as f64),
    ("gowk_max_file_bytes", "Length to which the file may grow; NaN for no limit.", |info| {
        info.max_file_size.map_or(f64::NAN, |bytes| bytes as f64)
    }),
    ("gowk_journal_bytes", "Bytes of commits in the journal.", |info| info.journal_length as f64),
    ("gowk_doublings", "How often the filter has doubled.", |info| f64::from(info.generation)),
    ("gowk_doublings_left", "Doublings left within the limits; 8 stands for 8 or more.", |info| {
        info.forecast.len() as f64
    }),
    ("gowk_quarantined_buckets", "Buckets given up by repair.", |info| info.quarantined_buckets as f64),
    ("gowk_inserted_total", "Copies ever stored by inserts; in a set, keys.", |info| info.inserted as f64),
    ("gowk_removed_total", "Copies removed.", |info| info.removed as f64),
];

const OF_STORES: [Metric<StoreInfo>; 3] = [
    ("gowk_runs", "Runs of a store that are not folded into all shards.", |store| store.runs as f64),
    ("gowk_run_records", "Records in these runs.", |store| store.pending as f64),
    ("gowk_run_bytes", "Bytes of these runs.", |store| store.run_bytes as f64),
];

/// Metrics of filters and stores that forget.
const OF_FORGETTING: [Metric<Info>; 2] = [
    ("gowk_forget_after_seconds", "How long a key is kept at least.", |info| {
        info.retention.map_or(f64::NAN, |retention| retention.forget_after as f64 / 1000.0)
    }),
    (
        "gowk_time_timestamp_seconds",
        "The time that the filter has come to, by which it forgets; NaN before its first key.",
        |info| info.time.map_or(f64::NAN, |time| time as f64 / 1000.0),
    ),
];

/// Metrics of filters that keep the newest keys.
const OF_NEWEST: [Metric<Info>; 1] =
    [("gowk_keep_newest_keys", "How many newest keys are kept at least.", |info| {
        info.keep_newest.map_or(f64::NAN, |newest| newest.at_least as f64)
    })];

const OF_VERIFICATIONS: [Metric<Found>; 3] = [
    ("gowk_verified_pages", "Pages compared with their checksums.", |found| found.pages as f64),
    (
        "gowk_damaged_pages",
        "Pages that do not match their checksums, or hold what gowk never writes.",
        |found| found.damaged_pages as f64,
    ),
    ("gowk_damaged_files", "Files that are damaged, missing, or not of this filter or store.", |found| {
        found.damaged_files as f64
    }),
];

/// Prints all metrics of all filters, grouped by name as the format demands.
pub(super) fn tell(filters: &[Told<'_>], output: &mut Output) -> Result<(), Failure> {
    let opened: Metric<bool> = (
        "gowk_opened",
        "Whether the filter can be opened. Its pages are not read for this: gowk verify reads them.",
        |is| f64::from(u8::from(*is)),
    );
    print(&[opened], filters.iter().map(|told| (told.file, Some(told.info.is_some()))), output)?;
    let name = "gowk_filter_info";
    head(name, "Always 1; its label says whether the filter is a set, counting or forgetting.", output)?;
    for (file, info) in filters.iter().filter_map(|told| Some((told.file, told.info.as_ref()?))) {
        sample(name, file, &format!(",kind=\"{}\"", info.kind.name()), 1.0, output)?;
    }
    print(&OF_FILTERS, filters.iter().map(|told| (told.file, told.info.as_ref())), output)?;
    let of = |is: fn(&Info) -> bool| {
        let of = filters.iter().filter(move |told| told.info.as_ref().is_some_and(is));
        of.map(|told| (told.file, told.info.as_ref()))
    };
    let groups: [(&[Metric<Info>], _); 2] = [
        (&OF_FORGETTING, of(|info| info.retention.is_some())),
        (&OF_NEWEST, of(|info| info.keep_newest.is_some())),
    ];
    for (metrics, filters) in groups {
        if filters.clone().next().is_some() {
            print(metrics, filters, output)?;
        }
    }
    print(&OF_STORES, filters.iter().map(|told| (told.file, told.store.as_ref())), output)?;
    let written: Metric<Duration> =
        ("gowk_last_written_timestamp_seconds", "When the filter was last written to.", seconds);
    let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).ok();
    print(&[written], filters.iter().map(|told| (told.file, told.last_written.and_then(since))), output)
}

/// Prints the metrics of verified filters and stores. A file that cannot be opened is not clean, and has no other metric.
pub(super) fn tell_verified(
    verified: &[(&Path, Option<Found>)],
    now: SystemTime,
    output: &mut Output,
) -> Result<(), Failure> {
    let clean: Metric<bool> =
        ("gowk_clean", "Whether all of the filter was read and is whole; 0 if it cannot be opened.", |is| {
            f64::from(u8::from(*is))
        });
    let is_clean = |found: Option<Found>| found.is_some_and(|found| found.clean);
    print(&[clean], verified.iter().map(|(file, found)| (*file, Some(is_clean(*found)))), output)?;
    print(&OF_VERIFICATIONS, verified.iter().copied(), output)?;
    let when: Metric<Duration> =
        ("gowk_verified_timestamp_seconds", "When the filter was verified.", seconds);
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    print(&[when], verified.iter().map(|(file, _)| (*file, Some(since))), output)
}

fn seconds(since: &Duration) -> f64 {
    since.as_secs_f64().floor()
}

/// Prints metrics of files, each with the source of its values; `None` for a file without values.
fn print<'a, T, V: Borrow<T>>(
    metrics: &[Metric<T>],
    files: impl Iterator<Item = (&'a Path, Option<V>)> + Clone,
    output: &mut Output,
) -> Result<(), Failure> {
    for (name, help, value) in metrics {
        head(name, help, output)?;
        for (file, of) in files.clone().filter_map(|(file, of)| Some((file, of?))) {
            sample(name, file, "", value(of.borrow()), output)?;
        }
    }
    Ok(())
}

fn head(name: &str, help: &str, output: &mut Output) -> Result<(), Failure> {
    let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
    output.line(format_args!("# HELP {name} {help}"))?;
    output.line(format_args!("# TYPE {name} {kind}"))
}

/// Prints one sample. `labels` follow the label of the file, each with a comma before it.
fn sample(name: &str, file: &Path, labels: &str, value: f64, output: &mut Output) -> Result<(), Failure> {
    let file = file.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    output.line(format_args!("{name}{{file=\"{file}\"{labels}}} {value}"))
}
