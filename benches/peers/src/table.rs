//! The same work done by gowk and by other crates, in memory or in a file as each of them does.

use std::time::Instant;

use gowk::{Growth, Options};

use crate::keys::keys;
use crate::{Outcome, filters};

pub fn run(_count: u64) -> Outcome<()> {
    Err("not yet".into())
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
        let mut writer = Options::new().capacity(count).growth(Growth::Never).threads(threads).create(&path)?;
        let created = start.elapsed().as_secs_f64();
        let refused = writer.insert_batch(&all)?;
        assert!(refused.is_empty());
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
    println!("cuckoofilter add: {:.2} M/s (the first {sample})", sample as f64 / start.elapsed().as_secs_f64() / 1e6);
    Ok(())
}
