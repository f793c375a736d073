//! The same work done by gowk and by other crates, in memory or in a file as each of them does.

use std::time::Instant;

use gowk::{Batches, Growth, Options};

use crate::keys::{absent, keys, sample};
use crate::measure::median;
use crate::peers::PEERS;
use crate::{Outcome, filters};

const LOOKUPS: usize = 4 << 20;

#[derive(Default)]
struct Row {
    insert: Vec<f64>,
    present: Vec<f64>,
    absent: Vec<f64>,
    remove: Vec<f64>,
    bytes_a_key: f64,
    false_positives: f64,
}

/// Runs all candidates, or those whose names contain `only`.
pub fn run(count: u64, rounds: u64, only: &str) -> Outcome<()> {
    let peers: Vec<_> = PEERS.iter().filter(|(name, _)| name.contains(only)).collect();
    let dir = tempfile::tempdir_in(".")?;
    let (all, present, absent) = (keys(0..count), sample(count, LOOKUPS), absent(LOOKUPS));
    let removed = &all[..all.len().min(LOOKUPS / 4)];
    let mut rows: Vec<Row> = peers.iter().map(|_| Row::default()).collect();
    for _ in 0..rounds {
        for ((name, make), row) in peers.iter().zip(&mut rows) {
            let start = Instant::now();
            let mut peer = make(dir.path(), count)?;
            peer.insert(&all)?;
            row.insert.push(count as f64 / start.elapsed().as_secs_f64() / 1e6);
            let start = Instant::now();
            if peer.find(&present)? != LOOKUPS {
                return Err(format!("{name} has lost a key").into());
            }
            row.present.push(LOOKUPS as f64 / start.elapsed().as_secs_f64() / 1e6);
            let start = Instant::now();
            let found = peer.find(&absent)?;
            row.absent.push(LOOKUPS as f64 / start.elapsed().as_secs_f64() / 1e6);
            row.false_positives = found as f64 / LOOKUPS as f64;
            row.bytes_a_key = peer.bytes()? as f64 / count as f64;
            let start = Instant::now();
            if peer.remove(removed)?.is_some() {
                row.remove.push(removed.len() as f64 / start.elapsed().as_secs_f64() / 1e6);
            }
        }
    }
    println!("{count} keys, one thread; millions a second, medians of {rounds} rounds:");
    println!("| | insert | present | absent | remove | bytes a key | false positives |");
    println!("|---|---|---|---|---|---|---|");
    for ((name, _), row) in peers.iter().zip(&rows) {
        let remove = if row.remove.is_empty() { "-".into() } else { format!("{:.1}", median(&row.remove)) };
        println!(
            "| {name} | {:.1} | {:.1} | {:.1} | {remove} | {:.2} | {:.1e} |",
            median(&row.insert),
            median(&row.present),
            median(&row.absent),
            row.bytes_a_key,
            row.false_positives
        );
    }
    Ok(())
}

/// Bulk loading of a new filter.
pub fn loading(count: u64) -> Outcome<()> {
    let dir = tempfile::tempdir_in(".")?;
    let path = dir.path().join("filter");
    let all = keys(0..count);
    for round in 0..6 {
        let threads = 1 + round % 2;
        let _ = std::fs::remove_file(&path);
        let start = Instant::now();
        let mut writer =
            Options::new().capacity(count).growth(Growth::Never).threads(threads).create(&path)?;
        let created = start.elapsed().as_secs_f64();
        writer.insert_batch(&all)?.complete()?;
        let inserted = start.elapsed().as_secs_f64();
        writer.commit()?;
        let committed = start.elapsed().as_secs_f64();
        println!(
            "round {round}, {threads} threads: create {created:.2} s, insert_batch {:.2} s ({:.2} M/s), commit {:.2} s ({:.2} M/s in all), load {:.4}",
            inserted - created,
            count as f64 / (inserted - created) / 1e6,
            committed - inserted,
            count as f64 / committed / 1e6,
            writer.info()?.load
        );
        writer.close()?;
    }
    let sample = count.min(20_000_000);
    let mut filter = filters::Cuckoo::with_capacity(count as usize);
    let start = Instant::now();
    for key in &all[..sample as usize] {
        filters::insert_cuckoo(&mut filter, key)?;
    }
    println!(
        "cuckoofilter add: {:.2} M/s (the first {sample})",
        sample as f64 / start.elapsed().as_secs_f64() / 1e6
    );
    Ok(())
}
