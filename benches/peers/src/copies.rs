//! Multisets: the lines of a file with their real numbers of copies, repeated under other names until a filter is full.

use std::path::Path;
use std::time::Instant;

use gowk::{Batches, Error, Growth, Options, SlotsPerBucket};
use qfilter::Filter;

use crate::Outcome;
use crate::measure::median;

/// Regions of the filters that are filled.
const REGIONS: u64 = 64;

/// The load that filters are made for, by their slots a bucket, of section 3.3 of the format's description.
const LOADS: [f64; 6] = [0.80, 0.90, 0.93, 0.945, 0.955, 0.96];

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
    for (slots, rho) in SlotsPerBucket::ALL.into_iter().zip(LOADS) {
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

/// The regions of the filters that [`multisets`] fills, which some 100,000 lines fill with their copies.
const FEW: u64 = 4;

/// The load below which no multiset may find its filter full.
const PROMISED: f64 = 0.85;

/// Fills filters with the distinct lines of a file, each of which comes as often as a random number says: `c` times or more
/// with a chance of `c^-tail`, their copies mixed. Prints at which load the first copy found no room, over so many seeds.
pub fn multisets(file: &str, seeds: u64) -> Outcome<()> {
    let text = std::fs::read(file)?;
    let mut lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    lines.dedup();
    let lines = &lines;
    let dir = tempfile::tempdir_in(".")?;
    let threads = std::thread::available_parallelism()?.get() as u64;
    println!("{} distinct lines, {FEW} regions, {seeds} seeds: load at the first refusal", lines.len());
    println!("| tail | slots | mean | lowest | below {PROMISED} |");
    println!("|---|---|---|---|---|");
    for tail in [1.37, 1.1, 1.0] {
        for (slots, rho) in SlotsPerBucket::ALL.into_iter().zip(LOADS) {
            let capacity = (FEW * 8192 * u64::from(slots.get())) as f64 * rho;
            let options = Options::new()
                .counting()
                .capacity(capacity as u64)
                .slots_per_bucket(slots)
                .growth(Growth::Never);
            let options = &options;
            let of_thread = &|thread: u64| -> Result<Vec<f64>, Error> {
                let path = dir.path().join(thread.to_string());
                (thread..seeds)
                    .step_by(threads as usize)
                    .map(|seed| filled(lines, options.clone().seed(seed), seed, tail, &path))
                    .collect()
            };
            let loads = std::thread::scope(|scope| {
                let running: Vec<_> =
                    (0..threads).map(|thread| scope.spawn(move || of_thread(thread))).collect();
                running
                    .into_iter()
                    .map(|running| running.join().map_err(|_| "a thread panicked"))
                    .collect::<Result<Vec<_>, _>>()
            })?;
            let loads: Vec<f64> = loads.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
            let mean = loads.iter().sum::<f64>() / seeds as f64;
            let lowest = loads.iter().copied().fold(1.0, f64::min);
            let below = loads.iter().filter(|load| **load < PROMISED).count();
            println!("| {tail} | {} | {mean:.3} | {lowest:.3} | {below} |", slots.get());
        }
    }
    Ok(())
}

/// The load of a filter of [`FEW`] regions when a copy first finds no room.
fn filled(lines: &[&[u8]], options: Options, seed: u64, tail: f64, path: &Path) -> Result<f64, Error> {
    let mut writer = options.force(true).create(path)?;
    let info = writer.info()?;
    assert_eq!(info.regions, FEW);
    let mut random = seed << 32;
    let mut below = |limit: u64| {
        random += 1;
        u64::from_le_bytes(crate::keys::key(random)) % limit
    };
    let most = u64::from(info.slots_per_bucket.highest_count()) - 1;
    // With other names, too, where the lines alone do not fill it.
    for pass in 0_u64.. {
        let mut order = Vec::new();
        for line in 0..lines.len() as u32 {
            let uniform = (below(1 << 53) as f64 + 1.0) / (1_u64 << 53) as f64;
            let copies = (uniform.powf(-1.0 / tail) as u64).clamp(1, most);
            order.extend(std::iter::repeat_n(line, copies as usize));
        }
        for last in (1..order.len()).rev() {
            order.swap(last, below(last as u64 + 1) as usize);
        }
        let hashes: Vec<_> = lines
            .iter()
            .map(|line| writer.hash([line, &pass.to_le_bytes()[..]].concat()))
            .collect::<Result<_, _>>()?;
        for line in order {
            match writer.insert(hashes[line as usize]) {
                Ok(_) => {}
                Err(Error::Full { .. }) => return Ok(writer.info()?.load),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(1.0)
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
