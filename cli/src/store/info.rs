//! `gowk info` of a store.

use std::path::Path;

use gowk::store::{Description, Store, StoreInfo, StoreReader, Version};
use serde::Serialize;

use super::super::failure::Failure;
use super::super::info;
use super::super::json;
use super::super::output::Output;
use super::super::quantity::{self, grouped};
use super::utc;

#[derive(Serialize)]
struct Facts {
    file: String,
    uuid: String,
    /// `set` or `counting`.
    kind: &'static str,
    shards: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<String>,
    slots_per_bucket: u32,
    capacity: u64,
    requested_false_positive_rate: Option<f64>,
    growth: &'static str,
    max_file_size: Option<u64>,
    max_false_positive_rate: Option<f64>,
    version: u64,
    time: String,
    operation: String,
    first: u64,
    files: u64,
    runs: u64,
    pending: u64,
    run_bytes: u64,
    entries: u64,
    bytes: u64,
    bits_per_key: Option<f64>,
    expected_false_positive_rate: f64,
    highest_false_positive_rate: f64,
    tokens: Vec<Last>,
}

#[derive(Serialize)]
struct Last {
    application: String,
    number: u64,
    version: u64,
}

impl Facts {
    fn new(
        file: &Path,
        seed: Option<String>,
        description: &Description,
        version: &Version,
        info: &StoreInfo,
    ) -> Self {
        let last = version.tokens.iter().map(|(application, done)| Last {
            application: application.clone(),
            number: done.number,
            version: done.version,
        });
        Self {
            file: file.to_string_lossy().into_owned(),
            uuid: json::uuid(description.uuid),
            kind: description.kind.name(),
            shards: description.shards,
            seed,
            slots_per_bucket: description.slots_per_bucket.get(),
            capacity: description.capacity,
            requested_false_positive_rate: description.requested_false_positive_rate,
            growth: json::growth(description.growth),
            max_file_size: description.max_file_size,
            max_false_positive_rate: description.max_false_positive_rate,
            version: version.number,
            time: utc(version.time),
            operation: version.operation.clone(),
            first: version.first,
            files: info.files,
            runs: info.runs,
            pending: info.pending,
            run_bytes: info.run_bytes,
            entries: info.entries,
            bytes: info.bytes,
            bits_per_key: info.bits_per_key,
            expected_false_positive_rate: info.expected_false_positive_rate,
            highest_false_positive_rate: info.highest_false_positive_rate,
            tokens: last.collect(),
        }
    }
}

/// Describes a store by its newest version, without opening a shard's file.
pub(in super::super) fn print(
    path: &Path,
    (store, reader): &(Store, StoreReader),
    as_json: bool,
    show_seed: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let description = store.description();
    let seed = show_seed.then(|| description.seed.get().to_string());
    let facts = Facts::new(path, seed, description, reader.version(), &reader.info());
    if as_json {
        output.line(json::line(&facts))?;
    } else {
        let made_for = match facts.requested_false_positive_rate {
            Some(rate) => format!("{} keys at a false-positive rate of {rate}", grouped(facts.capacity)),
            None => format!("{} keys", grouped(facts.capacity)),
        };
        let bits = info::bits_per_key_of_store(&reader.info(), description.slots_per_bucket);
        let [now, worst] =
            [facts.expected_false_positive_rate, facts.highest_false_positive_rate].map(quantity::chance);
        let rate = format!("{now} expected now, {worst} in the worst shard");
        let version = format!("{}, by {}, {}", facts.version, facts.operation.escape_debug(), facts.time);
        let shards = format!("{}, {} of them with a file", facts.shards, facts.files);
        let runs = match facts.runs {
            0 => "none".to_owned(),
            runs => format!(
                "{runs}, with {} records, {}",
                grouped(facts.pending),
                quantity::bytes(facts.run_bytes)
            ),
        };
        let seed = facts.seed.map(|seed| ("seed", seed));
        let words = [
            ("store", facts.file),
            ("uuid", facts.uuid),
            ("kind", info::kind(description.kind).to_owned()),
            ("created for", made_for),
            ("slots per bucket", facts.slots_per_bucket.to_string()),
            ("shards", shards),
            ("runs", runs),
            ("version", version),
            ("entries", grouped(facts.entries)),
            ("bits a key", bits),
            ("false-positive rate", rate),
            ("files", info::sized(facts.bytes)),
        ];
        for (name, value) in words.into_iter().chain(seed) {
            output.line(format_args!("{name:<24}{value}"))?;
        }
        for Last { application, number, version } in &facts.tokens {
            let application = application.escape_debug();
            output.line(format_args!("{:<24}{application}:{number} in version {version}", "last token"))?;
        }
    }
    Ok(())
}
