//! Growth from a million keys on, key by key and in batches, with the longest pause.

use std::path::Path;
use std::time::Instant;

use gowk::{Batches, Options};

use crate::Outcome;
use crate::keys::keys;
use crate::measure::median;

const FIRST: u64 = 1_000_000;
/// Keys of a batch. A caller that inserts in batches waits for one batch at a time.
const BATCH: u64 = 100_000;

pub fn run(count: u64) -> Outcome<()> {
    let dir = tempfile::tempdir_in(".")?;
    let names = ["gowk insert_batch of 100,000", "gowk insert", "qfilter insert"];
    let mut figures = names.map(|_| (Vec::new(), Vec::new()));
    for _ in 0..3 {
        let round = [
            gowk(&dir.path().join("batches"), count, true)?,
            gowk(&dir.path().join("single"), count, false)?,
            qfilter(count)?,
        ];
        for ((seconds, pause), (rates, pauses)) in round.into_iter().zip(&mut figures) {
            rates.push(count as f64 / seconds / 1e6);
            pauses.push(pause);
        }
    }
    println!("{FIRST} keys grown to {count}, commit and close included; medians of 3 rounds:");
    println!("| | millions a second | longest pause, s |\n|---|---|---|");
    for (name, (rates, pauses)) in names.iter().zip(&figures) {
        println!("| {name} | {:.2} | {:.3} |", median(rates), median(pauses));
    }
    Ok(())
}

fn gowk(path: &Path, count: u64, batches: bool) -> Outcome<(f64, f64)> {
    let _ = std::fs::remove_file(path);
    let mut writer = Options::new().capacity(FIRST).create(path)?;
    let (mut seconds, mut pause) = (0.0, 0.0f64);
    for from in (0..count).step_by(BATCH as usize) {
        let keys = keys(from..count.min(from + BATCH));
        let start = Instant::now();
        if batches {
            writer.insert_batch(&keys)?.complete()?;
            pause = pause.max(start.elapsed().as_secs_f64());
        } else {
            let mut before = start;
            for keys in keys.chunks(100) {
                keys.iter().try_for_each(|key| writer.insert(key).map(drop))?;
                let now = Instant::now();
                pause = pause.max((now - before).as_secs_f64());
                before = now;
            }
        }
        seconds += start.elapsed().as_secs_f64();
    }
    let start = Instant::now();
    writer.commit()?;
    writer.close()?;
    Ok((seconds + start.elapsed().as_secs_f64(), pause))
}

fn qfilter(count: u64) -> Outcome<(f64, f64)> {
    let error = |error| format!("qfilter: {error:?}");
    let mut filter = qfilter::Filter::new_resizeable(FIRST, count, 1e-3).map_err(error)?;
    let (mut seconds, mut pause) = (0.0, 0.0f64);
    for from in (0..count).step_by(BATCH as usize) {
        let keys = keys(from..count.min(from + BATCH));
        let start = Instant::now();
        let mut before = start;
        for keys in keys.chunks(100) {
            for key in keys {
                filter.insert(key).map_err(error)?;
            }
            let now = Instant::now();
            pause = pause.max((now - before).as_secs_f64());
            before = now;
        }
        seconds += start.elapsed().as_secs_f64();
    }
    Ok((seconds, pause))
}
