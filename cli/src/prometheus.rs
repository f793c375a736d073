//! Descriptions of filters in the text format of Prometheus, version 0.0.4.

use std::path::Path;
use std::time::SystemTime;

use gowk::Info;
use gowk::store::StoreInfo;

use super::failure::Failure;
use super::output::Output;

/// The findings of the verification of a filter or store.
pub(super) struct Verified<'a> {
    pub(super) file: &'a Path,
    /// `None` if the filter or store cannot be opened.
    pub(super) found: Option<Found>,
}

/// The pages read, and the damage among them.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) clean: bool,
    /// Pages read of a filter, or of all shards of a store that can be opened.
    pub(super) pages: u64,
    pub(super) damaged_pages: u64,
    /// Files of a store that are damaged, missing, or not the store's; for a filter, 1 or 0.
    pub(super) damaged_files: u64,
}

/// A filter to describe.
pub(super) struct Told<'a> {
    pub(super) file: &'a Path,
    /// `None` if the filter cannot be read.
    pub(super) info: Option<Info>,
    /// Of a store, its newest version.
    pub(super) store: Option<StoreInfo>,
    pub(super) last_written: Option<SystemTime>,
}

struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: fn(&Info) -> f64,
}

const fn gauge(name: &'static str, help: &'static str, value: fn(&Info) -> f64) -> Metric {
    Metric { name, kind: "gauge", help, value }
}

const fn counter(name: &'static str, help: &'static str, value: fn(&Info) -> f64) -> Metric {
    Metric { name, kind: "counter", help, value }
}

const METRICS: [Metric; 14] = [
    gauge("gowk_entries", "Slots that hold an entry.", |info| info.entries as f64),
    gauge("gowk_slots", "Slots of all buckets.", |info| info.slots as f64),
    gauge("gowk_load_ratio", "Slots in use, divided by all slots.", |info| info.load),
    gauge("gowk_capacity_keys", "Keys asked for at creation.", |info| info.capacity as f64),
    gauge(
        "gowk_expected_false_positive_ratio",
        "Chance that a key is found that was never inserted.",
        |info| info.expected_false_positive_rate,
    ),
    gauge(
        "gowk_max_false_positive_ratio",
        "Expected rate beyond which the filter does not double; NaN for no limit.",
        |info| info.max_false_positive_rate.unwrap_or(f64::NAN),
    ),
    gauge("gowk_file_bytes", "Length of the filter file.", |info| info.file_length as f64),
    gauge("gowk_max_file_bytes", "Length to which the file may grow; NaN for no limit.", |info| {
        info.max_file_size.map_or(f64::NAN, |bytes| bytes as f64)
    }),
    gauge("gowk_journal_bytes", "Bytes of commits in the journal.", |info| info.journal_length as f64),
    gauge("gowk_doublings", "How often the filter has doubled.", |info| f64::from(info.generation)),
    gauge("gowk_doublings_left", "Doublings left within the limits; 8 stands for 8 or more.", |info| {
        info.forecast.len() as f64
    }),
    gauge("gowk_quarantined_buckets", "Buckets given up by repair.", |info| info.quarantined_buckets as f64),
    counter("gowk_inserted_total", "Copies ever stored by inserts; in a set, keys.", |info| {
        info.inserted as f64
    }),
    counter("gowk_removed_total", "Copies removed.", |info| info.removed as f64),
];

/// Prints all metrics of all filters, grouped by name as the format demands.
pub(super) fn tell(filters: &[Told<'_>], output: &mut Output) -> Result<(), Failure> {
    let help = "Whether the filter can be opened. Its pages are not read for this: gowk verify reads them.";
    head("gowk_opened", "gauge", help, output)?;
    for Told { file, info, .. } in filters {
        sample("gowk_opened", file, "", f64::from(u8::from(info.is_some())), output)?;
    }
    head(
        "gowk_filter_info",
        "gauge",
        "Always 1; its label says whether the filter is a set or counting.",
        output,
    )?;
    for Told { file, info, .. } in filters {
        let kind = info.as_ref().map(|info| format!(",kind=\"{}\"", info.kind.name()));
        kind.map_or(Ok(()), |kind| sample("gowk_filter_info", file, &kind, 1.0, output))?;
    }
    for Metric { name, kind, help, value } in METRICS {
        head(name, kind, help, output)?;
        for Told { file, info, .. } in filters {
            info.as_ref().map_or(Ok(()), |info| sample(name, file, "", value(info), output))?;
        }
    }
    type OfStore = (&'static str, &'static str, fn(&StoreInfo) -> u64);
    let metrics: [OfStore; 3] = [
        ("gowk_runs", "Runs of a store that are not folded into all shards.", |store| store.runs),
        ("gowk_run_records", "Records in these runs.", |store| store.pending),
        ("gowk_run_bytes", "Bytes of these runs.", |store| store.run_bytes),
    ];
    for (name, help, value) in metrics {
        head(name, "gauge", help, output)?;
        for Told { file, store, .. } in filters {
            store.as_ref().map_or(Ok(()), |store| sample(name, file, "", value(store) as f64, output))?;
        }
    }
    let name = "gowk_last_written_timestamp_seconds";
    head(name, "gauge", "When the filter was last written to.", output)?;
    for Told { file, last_written, .. } in filters {
        let since = last_written.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        since.map_or(Ok(()), |since| sample(name, file, "", since.as_secs_f64().floor(), output))?;
    }
    Ok(())
}

/// Prints the metrics of verification. A filter or store that cannot be opened is not clean, and has no other metric.
pub(super) fn tell_verified(
    verified: &[Verified<'_>],
    now: SystemTime,
    output: &mut Output,
) -> Result<(), Failure> {
    head(
        "gowk_clean",
        "gauge",
        "Whether all of the filter was read and is whole; 0 if it cannot be opened.",
        output,
    )?;
    for Verified { file, found } in verified {
        let clean = found.is_some_and(|found| found.clean);
        sample("gowk_clean", file, "", f64::from(u8::from(clean)), output)?;
    }
    /// A metric: its name, its help, and its value.
    type Metric = (&'static str, &'static str, fn(Found) -> u64);
    let metrics: [Metric; 3] = [
        ("gowk_verified_pages", "Pages compared with their checksums.", |found| found.pages),
        (
            "gowk_damaged_pages",
            "Pages that do not match their checksums, or hold what gowk never writes.",
            |found| found.damaged_pages,
        ),
        ("gowk_damaged_files", "Files that are damaged, missing, or not of this filter or store.", |found| {
            found.damaged_files
        }),
    ];
    for (name, help, value) in metrics {
        head(name, "gauge", help, output)?;
        for Verified { file, found } in verified {
            found.map_or(Ok(()), |found| sample(name, file, "", value(found) as f64, output))?;
        }
    }
    let name = "gowk_verified_timestamp_seconds";
    head(name, "gauge", "When the filter was verified.", output)?;
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64().floor();
    verified.iter().try_for_each(|Verified { file, .. }| sample(name, file, "", since, output))
}

fn head(name: &str, kind: &str, help: &str, output: &mut Output) -> Result<(), Failure> {
    output.line(format_args!("# HELP {name} {help}"))?;
    output.line(format_args!("# TYPE {name} {kind}"))
}

/// Prints one sample. `labels` follow the label of the file, each with a comma before it.
fn sample(name: &str, file: &Path, labels: &str, value: f64, output: &mut Output) -> Result<(), Failure> {
    let file = file.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    output.line(format_args!("{name}{{file=\"{file}\"{labels}}} {value}"))
}
