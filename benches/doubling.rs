//! Doubling a filter, with its sync, against `cp` of a file as large as the result, with a sync.
//!
//! `cargo bench --bench doubling -- 1024` (MiB of the filter before; needs about eight times that on the disk). The two
//! take turns, after two warm-up rounds; medians and their ratio are printed. Memory is what the process holds beyond
//! mapped files (`RssAnon`), sampled after every region.
//!
//! A virtual machine hands out memory that it has not used lately up to ten times more slowly than memory that was just
//! freed. Therefore a file as large as the result is written and removed before each measurement.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use gowk::{Growth, Options};

const WARM_UP: usize = 2;
const ROUNDS: usize = 5;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let size = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let mebibytes: u64 = size.unwrap_or(1024);
    let dir = tempfile::tempdir_in(".")?;
    let (model, filter) = (dir.path().join("model"), dir.path().join("filter"));
    let (large, copy) = (dir.path().join("large"), dir.path().join("copy"));
    create(&model, mebibytes)?;
    let (mut doublings, mut copies, mut peak) = (Vec::new(), Vec::new(), 0);
    for round in 0..WARM_UP + ROUNDS {
        cp(&model, &filter)?;
        if round > 0 {
            give_back_memory(&large, &copy)?;
        }
        let (seconds, memory) = double(&filter)?;
        doublings.push(seconds);
        peak = peak.max(memory);
        if round == 0 {
            std::fs::rename(&filter, &large)?;
        }
        give_back_memory(&large, &copy)?;
        let start = Instant::now();
        cp(&large, &copy)?;
        copies.push(start.elapsed().as_secs_f64());
        std::fs::remove_file(&copy)?;
        println!("round {round}: doubling {:.3} s, cp and sync {:.3} s", doublings[round], copies[round]);
    }
    let (doubling, copying) = (median(&mut doublings[WARM_UP..]), median(&mut copies[WARM_UP..]));
    println!("{mebibytes} MiB doubled: {doubling:.3} s; cp of the result and sync: {copying:.3} s");
    println!("ratio {:.2}; peak memory beyond mapped files {} KiB", doubling / copying, peak);
    Ok(())
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// A filter of that size, every page of it in use.
fn create(path: &Path, mebibytes: u64) -> Outcome<()> {
    let keys = mebibytes * 16 * 8192 * 4 * 9 / 10;
    let mut writer = Options::new().capacity(keys).growth(Growth::Auto).create(path)?;
    for key in 0..keys / 4 {
        writer.insert(&key.to_le_bytes())?;
    }
    writer.commit()?;
    Ok(writer.close()?)
}

/// Writes a file and removes it, then waits until the disk seems idle.
fn give_back_memory(large: &Path, copy: &Path) -> Outcome<()> {
    cp(large, copy)?;
    std::fs::remove_file(copy)?;
    Ok(File::open(large)?.sync_all()?)
}

fn cp(from: &Path, to: &Path) -> Outcome<()> {
    let status = Command::new("cp").arg("--reflink=never").args([from, to]).status()?;
    if !status.success() {
        return Err("cp failed".into());
    }
    Ok(File::open(to)?.sync_all()?)
}

/// Seconds, and the peak of `RssAnon` in KiB.
fn double(filter: &Path) -> Outcome<(f64, u64)> {
    let mut writer = Options::new().open_existing(filter)?;
    let peak = AtomicU64::new(0);
    let start = Instant::now();
    writer.grow_with(&|done, _| {
        if done % 64 == 0 {
            peak.fetch_max(anonymous_memory().unwrap_or(0), Relaxed);
        }
    })?;
    writer.commit()?;
    let seconds = start.elapsed().as_secs_f64();
    peak.fetch_max(anonymous_memory().unwrap_or(0), Relaxed);
    writer.close()?;
    Ok((seconds, peak.into_inner()))
}

fn anonymous_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
