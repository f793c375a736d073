//! Multisets: the lines of a file with their real numbers of copies, repeated under other names until a filter is full.

use std::time::Instant;

use gowk::{Batches, Error, Growth, Options, SlotsPerBucket};
use qfilter::Filter;

use crate::Outcome;
use crate::measure::median;

/// Regions of the filters that are filled.
const REGIONS: u64 = 64;

/// Line number `index` of all passes over the file: the same lines under another name in each pass.
fn key(lines: &[&[u8]], index: u64) -> Option<Vec<u8>> {
    let count = lines.len() as u64;
    let line = lines.get(usize::try_from(index % count).ok()?)?;
    let mut key = line.to_vec();
    key.extend_from_slice(&(index / count).to_le_bytes());
    Some(key)
}

/// The load at which the first copy finds no room, for each width: mean, lowest and highest over so many seeds; and
/// the part of the slots in use that digits take.
pub fn loads(file: &str, seeds: u64) -> Outcome<()> {
    let text = std::fs::read(file)?;
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return Err(format!("{file} has no lines").into());
    }
    let dir = tempfile::tempdir_in(".")?;
    println!("{} lines a pass, {REGIONS} regions, {seeds} seeds: load at the first refusal", lines.len());
    println!("| slots | mean | lowest | highest | digits | distinct keys |");
    println!("|---|---|---|---|---|---|");
    // The load that filters are made for, of section 3.3 of the format's description.
    for (slots, rho) in SlotsPerBucket::ALL.into_iter().zip([0.80, 0.90, 0.93, 0.945, 0.955, 0.96]) {
        let first = |seed: u64, distinct: bool| -> Outcome<(f64, f64)> {
            let capacity = (REGIONS * 8192 * u64::from(slots.get())) as f64 * rho;
            let options =
                Options::new().counting().capacity(capacity as u64).slots_per_bucket(slots).seed(seed);
            let mut writer = options.growth(Growth::Never).force(true).create(dir.path().join("f"))?;
            if writer.info()?.regions != REGIONS {
                return Err("the filter has another size than it should".into());
            }
            for index in 0.. {
                let key = if distinct {
                    crate::keys::key(index).to_vec()
                } else {
                    key(&lines, index).unwrap_or_default()
                };
                match writer.insert(&key) {
                    Ok(_) => {}
                    Err(Error::Full { .. }) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            let info = writer.info()?;
            Ok((info.load, info.digits as f64 / (info.digits + info.entries) as f64))
        };
        let all: Vec<(f64, f64)> = (0..seeds).map(|seed| first(seed, false)).collect::<Outcome<_>>()?;
        let apart: Vec<(f64, f64)> = (0..seeds).map(|seed| first(seed, true)).collect::<Outcome<_>>()?;
        let mean = |figures: &[(f64, f64)]| figures.iter().map(|(load, _)| load).sum::<f64>() / seeds as f64;
        let lowest = all.iter().map(|(load, _)| *load).fold(1.0, f64::min);
        let highest = all.iter().map(|(load, _)| *load).fold(0.0, f64::max);
        let digits = all.iter().map(|(_, digits)| digits).sum::<f64>() / seeds as f64;
        println!(
            "| {} | {:.3} | {lowest:.3} | {highest:.3} | {digits:.3} | {:.3} |",
            slots.get(),
            mean(&all),
            mean(&apart)
        );
    }
    Ok(())
}

/// Copies inserted one by one, by gowk and by qfilter, which counts too.
pub fn rates(file: &str, copies: u64) -> Outcome<()> {
    let text = std::fs::read(file)?;
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    let keys: Vec<Vec<u8>> = (0..copies).map_while(|index| key(&lines, index)).collect();
    let distinct = keys.iter().collect::<std::collections::HashSet<_>>().len();
    let dir = tempfile::tempdir_in(".")?;
    let (mut gowk, mut batches, mut other) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bytes, mut other_bytes) = (0.0, 0.0);
    for _ in 0..3 {
        let options = Options::new().counting().capacity(distinct as u64 * 12 / 10).force(true);
        let rate = |start: Instant| keys.len() as f64 / start.elapsed().as_secs_f64() / 1e6;
        let mut writer = options.clone().create(dir.path().join("f"))?;
        let start = Instant::now();
        for key in &keys {
            writer.insert(key)?;
        }
        gowk.push(rate(start));
        bytes = writer.info()?.file_length as f64 / distinct as f64;
        // Nobody else may create the file while it has it.
        drop(writer);
        let mut writer = options.create(dir.path().join("f"))?;
        let start = Instant::now();
        let inserted = writer.insert_batch(&keys)?;
        batches.push(rate(start));
        inserted.complete()?;
        drop(writer);
        // This filter keeps each copy.
        let failed = |error| format!("qfilter: {error:?}");
        let mut filter = Filter::new(copies, 0.000_244).map_err(failed)?;
        let start = Instant::now();
        for key in &keys {
            filter.insert_duplicated(key).map_err(failed)?;
        }
        other.push(rate(start));
        other_bytes = filter.memory_usage() as f64 / distinct as f64;
    }
    println!("{copies} copies of {distinct} keys; millions a second, medians of 3 rounds:");
    println!("| | insert | bytes a key |");
    println!("|---|---|---|");
    println!("| gowk, batches | {:.1} | {bytes:.2} |", median(&batches));
    println!("| gowk | {:.1} | {bytes:.2} |", median(&gowk));
    println!("| qfilter | {:.1} | {other_bytes:.2} |", median(&other));
    Ok(())
}
