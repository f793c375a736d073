//! Makes golden files: filters as every later version must read them, or refuse them.
//!
//! ```text
//! cargo run --release --example golden -- format-spec/vectors
//! ```
//!
//! makes those that are not there yet, and prints their rows for `format-spec/vectors/README.md`. What is there is
//! never made anew: uuids and salts are random, and golden files are kept, byte for byte, for all later versions.

mod accepted;
mod filter;
mod forgetting;
mod rejected;

use std::fs;
use std::path::PathBuf;

use accepted::{ACCEPTED, Made, key, lattice};
use filter::{store, with_suffix};
use gowk::{Error, HashKind, Lookup, Reader};
use rejected::{Base, rejected};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let target = PathBuf::from(std::env::args().nth(1).ok_or("which folder? format-spec/vectors")?);
    fs::create_dir_all(target.join("accept"))?;
    fs::create_dir_all(target.join("reject"))?;
    for (name, what, make) in ACCEPTED.iter().chain(forgetting::ACCEPTED) {
        let file = target.join("accept").join(name);
        if !with_suffix(&file, ".gz").exists() {
            let scratch = tempfile::tempdir()?;
            let made = make(scratch.path())?;
            store(&file, &made.filter)?;
            println!("{}", accepted_row(name, what, &made)?);
            forgetting::row(name, &made)?.into_iter().for_each(|row| println!("{row}"));
        }
    }
    let base = Base::new()?;
    for (name, what, refused, error, message, make) in rejected().into_iter().chain(forgetting::rejected()) {
        let file = target.join("reject").join(name);
        if !with_suffix(&file, ".gz").exists() {
            let filter = make(&base);
            store(&file, &filter)?;
            let (hash, journal_hash) = filter.hashes();
            println!("| {name} | {refused} | {error} | {message} | {what} | {hash} | {journal_hash} |");
        }
    }
    Ok(())
}

fn accepted_row(name: &str, what: &str, made: &Made) -> Outcome<String> {
    let scratch = tempfile::tempdir()?;
    let path = scratch.path().join("f");
    made.filter.write(&path)?;
    let reader = Reader::open(&path)?;
    let info = reader.info()?;
    let mut found = 0;
    for number in 1_000_000..1_010_000 {
        let present = match info.hash {
            HashKind::Caller => reader.contains(lattice(number)),
            HashKind::Xxh3 => reader.contains(key(number).as_bytes()),
        };
        found += match present {
            Err(Error::OtherShard { .. }) => 0,
            present => u64::from(present?),
        };
    }
    let metadata: Vec<String> = (reader.metadata()?.iter())
        .map(|(name, value)| format!("{name:?}:{}:{:08x}", value.len(), crc32fast::hash(value)))
        .collect();
    let by_tail: Vec<String> = info.entries_by_tail.iter().map(u64::to_string).collect();
    let (hash, journal_hash) = made.filter.hashes();
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    Ok(format!(
        "| {name} | {what} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {found} | {} | {hash} | \
         {journal_hash} |",
        info.kind.name(),
        info.slots_per_bucket.get(),
        info.base_regions,
        info.generation,
        info.commit,
        info.inserted,
        info.removed,
        by_tail.join(" "),
        info.digits,
        info.saturated,
        info.quarantined_buckets,
        or_dash(metadata.join(" ")),
        or_dash(made.present.clone()),
        or_dash(made.copies.clone()),
        if made.writable { "yes" } else { "no" },
    ))
}
