//! Ingesting a file of short keys, against `insert_batch` of the same keys from memory.
//!
//! `cargo bench --bench ingest -- 100000000 3` (keys, rounds; needs about 15 bytes of disk and of memory a key). Both
//! ways begin with an empty filter that was created for the keys, and commit after every million. They take turns; the
//! benchmark prints medians and their ratio. Memory is what the process holds beyond mapped files (`RssAnon`) while it
//! ingests, sampled at least every 200 ms.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use gowk::{Batches, Options};
use gowk_ingest::{Ingest, Job};

const ROUNDS: u32 = 3;
const COMMIT_EVERY: usize = 1_000_000;
/// Digits of a key.
const DIGITS: usize = 9;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let (keys, rounds) = (numbers.next().unwrap_or(100_000_000), numbers.next().unwrap_or(ROUNDS));
    let dir = tempfile::tempdir_in(".")?;
    let input = dir.path().join("keys.txt");
    write_keys(&input, keys)?;
    let (mut ingested, mut inserted, mut peak) = (Vec::new(), Vec::new(), 0);
    for round in 0..rounds as usize {
        let (seconds, memory) = ingest(dir.path(), keys)?;
        ingested.push(seconds);
        peak = peak.max(memory);
        inserted.push(insert(dir.path(), keys)?);
        println!("round {round}: ingest {seconds:.2} s, insert_batch {:.2} s", inserted[round]);
    }
    let (ingested, inserted) = (median(&mut ingested), median(&mut inserted));
    let rate = |seconds: f64| f64::from(keys) / seconds / 1e6;
    println!("{keys} keys: ingest {:.2} M/s, insert_batch {:.2} M/s", rate(ingested), rate(inserted));
    println!("ratio {:.2}; peak memory beyond mapped files {} KiB", inserted / ingested, peak);
    Ok(())
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// The number, mixed so that neighbouring keys have different digits.
fn key(number: u32) -> [u8; DIGITS] {
    let mut rest = u64::from(number) * 387_420_489 % 1_000_000_000;
    std::array::from_fn(|_| {
        let digit = rest % 10;
        rest /= 10;
        b'0' + digit as u8
    })
}

fn write_keys(path: &Path, keys: u32) -> Outcome<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for number in 0..keys {
        file.write_all(&key(number))?;
        file.write_all(b"\n")?;
    }
    Ok(file.into_inner()?.sync_all()?)
}

/// A new and empty filter for this many keys.
fn create(path: &Path, keys: u32) -> Outcome<()> {
    for suffix in ["", "-journal", "-lock"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
    }
    let mut writer = Options::new().capacity(keys.into()).seed(1).create(path)?;
    writer.commit()?;
    Ok(writer.close()?)
}

/// The seconds that it took, and the peak of memory in KiB.
fn ingest(dir: &Path, keys: u32) -> Outcome<(f64, u64)> {
    create(&dir.join("ingested"), keys)?;
    let text = format!(
        "[filter]\npath = 'ingested'\n[input]\npaths = ['keys.txt']\n\
         [commit]\nevery_keys = {COMMIT_EVERY}\nevery_seconds = 0\n"
    );
    let job = Job::parse(&text, dir.join("job.toml"))?;
    let mut peak = anonymous_memory()?;
    let mut sampled = Instant::now();
    let start = Instant::now();
    let summary = Ingest::new(&job).run(&mut |_| {
        if sampled.elapsed().as_millis() >= 50 {
            peak = peak.max(anonymous_memory().unwrap_or(u64::MAX));
            sampled = Instant::now();
        }
        ControlFlow::Continue(())
    })?;
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(summary.run.keys, u64::from(keys));
    Ok((seconds, peak))
}

fn insert(dir: &Path, keys: u32) -> Outcome<f64> {
    let path = dir.join("inserted");
    create(&path, keys)?;
    let keys: Vec<_> = (0..keys).map(key).collect();
    let start = Instant::now();
    let mut writer = Options::new().open_existing(&path)?;
    for batch in keys.chunks(COMMIT_EVERY) {
        assert!(writer.insert_batch(batch)?.refused().is_empty());
        writer.commit()?;
    }
    writer.close()?;
    Ok(start.elapsed().as_secs_f64())
}

/// In KiB.
fn anonymous_memory() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kibibytes = line.and_then(|rest| rest.split_whitespace().next());
    Ok(kibibytes.ok_or("no RssAnon in /proc/self/status")?.parse()?)
}
