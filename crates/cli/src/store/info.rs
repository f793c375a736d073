//! `gowk info` of a store.

use std::borrow::Cow;
use std::path::Path;

use gowk::Kind;
use gowk::store::{Description, Requests, StoreInfo, StoreReader, Vacuum, Vacuumed};
use serde::Serialize;

use super::super::failure::Failure;
use super::super::info as filter;
use super::super::json;
use super::super::output::Output;
use super::super::quantity::{self, grouped};

#[derive(Serialize)]
struct Facts<'a> {
    file: Cow<'a, str>,
    #[serde(flatten)]
    description: &'a Description,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<String>,
    #[serde(flatten)]
    info: &'a StoreInfo,
    time: String,
    operation: &'a str,
    first: u64,
    tokens: Vec<Last<'a>>,
    /// What a vacuum would remove; `None` in an object store, where finding that out would list all names.
    #[serde(skip_serializing_if = "Option::is_none")]
    vacuum: Option<Freed>,
    /// The requests that this run has made to a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<Requests>,
}

#[derive(Serialize)]
struct Freed {
    versions: u64,
    files: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Last<'a> {
    application: &'a str,
    number: u64,
    version: u64,
}

/// Describes a store by its newest version, without opening a shard's file.
pub(in super::super) fn print(
    path: &Path,
    reader: &StoreReader,
    as_json: bool,
    show_seed: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let store = reader.store();
    let (description, info, version) = (store.description(), &reader.info(), reader.version());
    let (file, time) = (path.to_string_lossy(), quantity::utc(version.time));
    let seed = show_seed.then(|| description.seed.get().to_string());
    let last = version.tokens.iter();
    let tokens =
        last.map(|(application, done)| Last { application, number: done.number, version: done.version });
    let tokens: Vec<Last<'_>> = tokens.collect();
    let vacuum = description.auto_vacuum.unwrap_or_default();
    let freed = if store.requests().is_none() { Some(store.would_vacuum(&vacuum)?) } else { None };
    let freed = freed.map(|Vacuumed { versions, files, bytes, .. }| Freed { versions, files, bytes });
    if as_json {
        let (operation, first, requests) = (&version.operation, version.first, store.requests());
        let facts =
            Facts { file, description, seed, info, time, operation, first, tokens, vacuum: freed, requests };
        output.line(json::line(&facts))?;
    } else {
        let made_for = filter::made_for(description.capacity, description.requested_false_positive_rate);
        let bits = filter::bits_per_key_of_store(info, description.slots_per_bucket);
        let [now, worst] =
            [info.expected_false_positive_rate, info.highest_false_positive_rate].map(quantity::chance);
        let rate = format!("{now} expected now, {worst} in the worst shard");
        let made = format!("{}, by {}, {time}", info.version, version.operation.escape_debug());
        let shards = format!("{}, {} of them with a file", description.shards, info.files);
        let runs = match info.runs {
            0 => "none".to_owned(),
            runs => {
                format!("{runs}, with {} records, {}", grouped(info.pending), quantity::bytes(info.run_bytes))
            }
        };
        let seed = seed.map(|seed| ("seed", seed));
        // In a set, each record inserts a key.
        let entries = match (info.pending, description.kind) {
            (0, _) | (_, Kind::Set) => grouped(info.entries),
            _ => format!(
                "at most {}: pending removals, and records of keys that are there already, count too",
                grouped(info.entries)
            ),
        };
        let words = [
            ("store", file.into_owned()),
            ("uuid", json::uuid(description.uuid)),
            ("kind", filter::kind(description.kind).to_owned()),
            ("created for", made_for),
            ("slots per bucket", description.slots_per_bucket.get().to_string()),
            ("shards", shards),
            ("runs", runs),
            ("version", made),
            ("entries", entries),
            ("bits a key", bits),
            ("false-positive rate", rate),
            ("files", filter::sized(info.bytes)),
        ];
        let retention = description.retention.map(|retention| {
            let time = info.store_time.map_or_else(|| "none yet".to_owned(), quantity::time_of);
            [("retention", retention.to_string()), ("store's time", time)]
        });
        let Vacuum { keep, grace, .. } = vacuum;
        let kept = format!("{keep} versions kept, and {} of grace", humantime::format_duration(grace));
        let by_commits = description.auto_vacuum.map(|_| ("commits vacuum", kept));
        let freed = freed.map(|Freed { versions, files, bytes }| {
            let freed = quantity::bytes(bytes);
            ("a vacuum would free", format!("{freed}: {versions} versions and {files} files"))
        });
        let words = words.into_iter().chain(retention.into_iter().flatten()).chain(by_commits).chain(freed);
        for (name, value) in words.chain(seed) {
            output.line(format_args!("{name:<24}{value}"))?;
        }
        for Last { application, number, version } in &tokens {
            let application = application.escape_debug();
            output.line(format_args!("{:<24}{application}:{number} in version {version}", "last token"))?;
        }
    }
    Ok(())
}
