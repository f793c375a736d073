//! The pictures of a store: its shards, its versions, and the entries of all shards.

use std::path::Path;

use gowk::Expiry;
use gowk::store::{Store, StoreReader, Version};

use super::super::bar;
use super::super::failure::Failure;
use super::super::info::bits_per_key_of_store;
use super::super::quantity::{self, bytes, chance, grouped};
use super::filter::{ages, expiries, next, room};
use super::html::Page;
use super::svg::{self, Bar, Cell, Point, Scale};
use super::{foot, made, name, percent};

/// How many shards get a bar each at most; more shards are drawn as a map.
const BARS: usize = 32;
/// How many versions are drawn at most; only the newest are.
const VERSIONS: usize = 60;

/// The shards whose files are wrong, each with the reason; `None` for a run.
type Wrong = Vec<(Option<u32>, String)>;

pub(super) fn page(path: &Path, reader: &StoreReader) -> Result<String, Failure> {
    let store = reader.store();
    let reports = reader.verify(&bar::of("reading"))?;
    let expiring: Vec<Expiry> = reports
        .iter()
        .filter_map(|(_, report)| report.as_ref().ok())
        .flat_map(|report| report.expiries.iter().copied())
        .collect();
    let wrong: Wrong = reports
        .into_iter()
        .filter_map(|(shard, report)| match report {
            Ok(report) if report.is_clean() => None,
            Ok(report) => {
                let pages = report.damaged.len() + report.malformed.len();
                Some((shard, format!("{pages} of {} pages are damaged, or its head is", report.pages)))
            }
            Err(error) => Some((shard, error.to_string())),
        })
        .collect();
    let mut page = Page::new(&name(path), &made(path));
    let lines: Vec<String> = match wrong.is_empty() {
        true => vec![format!("None: all files of version {} are whole.", reader.version().number)],
        false => wrong
            .iter()
            .map(|(shard, problem)| {
                let whose = shard.map_or_else(|| "Run".to_owned(), |shard| format!("Shard {shard}"));
                format!("{whose}: {problem}.")
            })
            .collect(),
    };
    page.words("Damage", &lines, !wrong.is_empty());
    // Opens each file, and fails if one is missing or wrong.
    let entries = reader.filter_info();
    let then = "then its shards double, each when it is full, as far as their limits allow";
    entries.iter().for_each(|info| next(&mut page, info, then));
    page.facts(&facts(store, reader));
    shards(&mut page, store, reader.version(), &wrong);
    versions(&mut page, &store.log()?);
    match entries {
        Ok(info) => {
            room(&mut page, &info, then);
            expiries(&mut page, &info, expiring);
            ages(&mut page, &info);
        }
        Err(error) => page.words("Entries", &[format!("They cannot be described: {error}.")], true),
    }
    Ok(page.end(&foot()))
}

fn facts(store: &Store, reader: &StoreReader) -> Vec<(&'static str, String)> {
    let (info, version) = (reader.info(), reader.version());
    let bits = bits_per_key_of_store(&info, store.description().slots_per_bucket);
    let runs = match info.runs {
        0 => "none".to_owned(),
        runs => format!("{runs}, {} records, {}", grouped(info.pending), bytes(info.run_bytes)),
    };
    vec![
        ("kind", store.description().kind.name().to_owned()),
        ("version", format!("{}, {}", version.number, quantity::time(version.time))),
        ("shards", format!("{}, {} with a file", store.description().shards, info.files)),
        ("runs", runs),
        ("entries", grouped(info.entries)),
        ("false-positive rate", chance(info.expected_false_positive_rate)),
        ("files", bytes(info.bytes)),
        ("bits a key", bits),
        ("slots per bucket", store.description().slots_per_bucket.get().to_string()),
        ("applications", version.tokens.len().to_string()),
    ]
}

fn shards(page: &mut Page, store: &Store, version: &Version, wrong: &Wrong) {
    let entries = |shard: u32| version.shards.get(&shard).map_or(0, |file| file.entries);
    let all: Vec<(u32, u64)> = (0..store.description().shards).map(|shard| (shard, entries(shard))).collect();
    let most = all.iter().map(|(_, entries)| *entries).max().unwrap_or(0).max(1);
    let least = all.iter().map(|(_, entries)| *entries).min().unwrap_or(0);
    let is_wrong = |shard: u32| wrong.iter().any(|(other, _)| *other == Some(shard));
    let part = |entries: u64| entries as f64 / most as f64;
    let words = format!(
        "Each shard has the keys that hash to it. The largest has {} entries, the smallest {}. Shards of very different \
         sizes would be a sign of keys that were made to collide, or of an update that changed only some.",
        grouped(most),
        grouped(least)
    );
    let picture = if all.len() <= BARS {
        let bars = all.iter().map(|(shard, entries)| Bar {
            name: format!("shard {shard}"),
            length: part(*entries),
            value: grouped(*entries),
            wrong: is_wrong(*shard),
        });
        svg::bars("Entries by shard", &bars.collect::<Vec<_>>())
    } else {
        let each = all.len().div_ceil(768);
        let cells = all.chunks(each).filter_map(|shards| {
            let ((first, _), (last, _)) = (*shards.first()?, *shards.last()?);
            let mean = shards.iter().map(|(_, entries)| part(*entries)).sum::<f64>() / shards.len() as f64;
            Some(Cell {
                full: mean,
                wrong: shards.iter().any(|(shard, _)| is_wrong(*shard)),
                words: format!("shards {first} to {last}: {} of the largest shard's entries", percent(mean)),
            })
        });
        svg::map("Entries by shard", &cells.collect::<Vec<_>>())
    };
    page.picture("Shards", &words, &picture);
}

fn versions(page: &mut Page, log: &[Version]) {
    let shown = log.get(log.len().saturating_sub(VERSIONS)..).unwrap_or(log);
    let (Some(first), Some(last)) = (shown.first(), shown.last()) else { return };
    let points: Vec<Point> = shown
        .iter()
        .map(|version| Point {
            name: version.number.to_string(),
            value: version.entries() as f64,
            words: grouped(version.entries()),
        })
        .collect();
    let words = format!(
        "Entries in each version, from {} of {} to {} of {}; {} are kept in all. The last one was made by `{}`.",
        first.number,
        quantity::time(first.time),
        last.number,
        quantity::time(last.time),
        grouped(log.len() as u64),
        last.operation
    );
    page.picture("Versions", &words, &svg::line("Entries by version", Scale::Linear, &points, None));
}
