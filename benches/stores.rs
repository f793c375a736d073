//! A store of many shards against one file: the longest pause while the contents double, inserts, lookups, opening.
//!
//! `cargo bench --bench stores -- 100` (millions of keys; needs about ten bytes of disk a key). Store and file take turns;
//! medians and their ratios are printed. Both work on two threads.
//!
//! `cargo bench --bench stores -- commits 1 10 100`: stores of so many million keys, and 100 commits each of 1,000, 10,000
//! and 100,000 new keys. The bytes are the lengths of all files that the commits leave, versions and folds included.
//! Beside them, ten commits that rewrite each shard that they touch.
//!
//! `cargo bench --bench stores -- pending 100`: batch lookups in a store of so many million keys with 8 runs that hold a
//! sixteenth more keys, and in the same store compacted, in turns.

use std::path::Path;
use std::time::Instant;

use gowk::store::{Committed, Store, StoreReader};
use gowk::{Batches, Lookup, Options, Reader, SlotsPerBucket};

const SHARDS: u32 = 64;
const THREADS: usize = 2;
const ROUNDS: usize = 3;
/// Keys of a batch.
const BATCH: u64 = 4 << 20;
/// The capacity of a filter of one GiB.
const GIBIBYTE: u64 = 483_000_000;
const LOOKUPS: u64 = 40_000_000;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "commits") {
        let millions = arguments.iter().filter_map(|argument| argument.parse::<u64>().ok());
        println!(
            "| | bytes written a key | median ms | mean | longest | its syncs alone |\n|---|---|---|---|---|---|"
        );
        return millions.map(|millions| millions * 1_000_000).try_for_each(commits);
    }
    let millions = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let count = millions.unwrap_or(10_u64) * 1_000_000;
    if arguments.iter().any(|argument| argument == "pending") {
        return pending(count);
    }
    let dir = tempfile::tempdir_in(".")?;
    // First, and without removing anything: ext4 passes over the numbers of files removed within the last seconds, which
    // makes new files dearer.
    pauses(dir.path(), count / 10)?;
    inserts(dir.path(), count)?;
    lookups(dir.path())?;
    opening(dir.path())
}

fn options(capacity: u64) -> Options {
    let four = SlotsPerBucket::new(4).unwrap_or(SlotsPerBucket::Four);
    Options::new().capacity(capacity).slots_per_bucket(four).seed(1).threads(THREADS)
}

fn keys(from: u64, count: u64) -> Vec<[u8; 8]> {
    (from..from + count).map(u64::to_le_bytes).collect()
}

fn store(path: &Path, shards: u32, options: &Options) -> Outcome<Store> {
    Store::create(path, shards, options)?;
    Ok(Store::open_with(path, options)?)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn compare(what: &str, unit: &str, of_store: Vec<f64>, of_file: Vec<f64>) {
    let (store, file) = (median(of_store), median(of_file));
    println!("{what}: store {store:.2} {unit}, file {file:.2} {unit}, ratio {:.2}", store / file);
}

fn inserts(dir: &Path, count: u64) -> Outcome<()> {
    let (mut of_store, mut of_file) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (path, file) = (dir.join("s"), dir.join("f"));
        let store = store(&path, SHARDS, &options(count))?;
        let mut update = store.update()?.rewriting();
        let mut seconds = 0.0;
        for from in (0..count).step_by(BATCH as usize) {
            let keys = keys(from, BATCH.min(count - from));
            let start = Instant::now();
            update.insert_batch(&keys)?.complete()?;
            seconds += start.elapsed().as_secs_f64();
        }
        let start = Instant::now();
        update.commit("insert", None)?;
        let commit = start.elapsed().as_secs_f64();
        of_store.push(count as f64 / (seconds + commit) / 1e6);
        println!("round {round}: store {seconds:.2} s and {commit:.2} s for the commit");
        let mut writer = options(count).create(&file)?;
        let mut seconds = 0.0;
        for from in (0..count).step_by(BATCH as usize) {
            let keys = keys(from, BATCH.min(count - from));
            let start = Instant::now();
            writer.insert_batch(&keys)?.complete()?;
            seconds += start.elapsed().as_secs_f64();
        }
        let start = Instant::now();
        writer.commit()?;
        writer.close()?;
        let commit = start.elapsed().as_secs_f64();
        of_file.push(count as f64 / (seconds + commit) / 1e6);
        println!("round {round}: file {seconds:.2} s and {commit:.2} s for the commit");
        std::fs::remove_dir_all(path)?;
        std::fs::remove_file(file)?;
    }
    compare(&format!("{count} keys into {SHARDS} shards"), "M/s", of_store, of_file);
    Ok(())
}

/// Bytes of all files of a store.
fn bytes_of(folder: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in folder.read_dir()? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() { bytes_of(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}

/// Milliseconds of the syncs of a commit alone: of a run, a draft, and the folders `runs` and `versions`, the latter before
/// and after.
fn syncs(folder: &Path, bytes: usize) -> Outcome<f64> {
    let sync = |path: &Path| -> Outcome<()> { Ok(std::fs::File::open(path)?.sync_all()?) };
    let write = |name: &str, bytes: usize| -> Outcome<std::path::PathBuf> {
        let path = folder.join(name);
        std::fs::write(&path, vec![1; bytes])?;
        Ok(path)
    };
    let start = Instant::now();
    sync(folder)?;
    sync(&write("run", bytes)?)?;
    std::fs::rename(folder.join("run"), folder.join("renamed"))?;
    sync(folder)?;
    let draft = write("draft", 16 << 10)?;
    sync(&draft)?;
    std::fs::rename(draft, folder.join("version"))?;
    sync(folder)?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

/// What commits of few keys cost in a store of many.
fn commits(count: u64) -> Outcome<()> {
    for (batch, rewriting) in [(1000, false), (10_000, false), (100_000, false), (10_000, true)] {
        let dir = tempfile::tempdir_in(".")?;
        let path = dir.path().join("s");
        let store = store(&path, SHARDS, &options(count))?;
        let mut update = store.update()?.rewriting();
        for from in (0..count).step_by(BATCH as usize) {
            update.insert_batch(&keys(from, BATCH.min(count - from)))?.complete()?;
        }
        update.commit("insert", None)?;
        let rounds = if rewriting { 10 } else { 100 };
        let (mut times, mut alone, before) = (Vec::new(), Vec::new(), bytes_of(&path)?);
        for round in 0..rounds {
            let keys = keys(count + round * batch, batch);
            let start = Instant::now();
            let update = store.update()?;
            let mut update = if rewriting { update.rewriting() } else { update };
            update.insert_batch(&keys)?.complete()?;
            update.commit("insert", None)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            alone.push(syncs(dir.path(), 13 * batch as usize)?);
        }
        let written = (bytes_of(&path)? - before) as f64 / (rounds * batch) as f64;
        let all: f64 = times.iter().sum::<f64>() / times.len() as f64;
        let longest = times.iter().copied().fold(0.0, f64::max);
        let how = if rewriting { ", shards rewritten" } else { "" };
        println!(
            "| {count} keys, commits of {batch}{how} | {written:.0} | {:.1} | {all:.1} | {longest:.1} | {:.1} |",
            median(times),
            median(alone)
        );
    }
    Ok(())
}

/// What lookups cost while runs are pending.
fn pending(count: u64) -> Outcome<()> {
    const RUNS: u64 = 8;
    let dir = tempfile::tempdir_in(".")?;
    let more = count / 16;
    let store = store(&dir.path().join("s"), SHARDS, &options(count + more))?;
    let mut update = store.update()?.rewriting();
    for from in (0..count).step_by(BATCH as usize) {
        update.insert_batch(&keys(from, BATCH.min(count - from)))?.complete()?;
    }
    update.commit("insert", None)?;
    // The last run brings half of the keys. So no shard is folded before it, and this version is read.
    let mut with_runs = None;
    for run in 0..RUNS {
        let of_run = if run + 1 < RUNS { more / 2 / (RUNS - 1) } else { more - more / 2 / (RUNS - 1) * run };
        let mut update = store.update()?;
        update.insert_batch(&keys(count + more / 2 / (RUNS - 1) * run, of_run))?.complete()?;
        match update.commit("insert", None)? {
            Committed::New(version) => with_runs = Some(version),
            other => return Err(format!("{other:?}").into()),
        }
    }
    let with_runs = with_runs.ok_or("no version")?;
    let records: u64 = with_runs.runs.iter().map(|run| run.records).sum();
    println!("{count} keys in shards, {records} in {} runs", with_runs.runs.len());
    store.compact(true, &|_, _| {})?;
    let (with_runs, compacted) = (store.read_version(with_runs), store.read()?);
    let all = count + more;
    let present: Vec<[u8; 8]> = (0..LOOKUPS / 4)
        .map(|number| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % all).to_le_bytes())
        .collect();
    let absent = keys(2 * all, LOOKUPS / 4);
    for (what, asked) in [("present", &present), ("absent", &absent)] {
        let (mut pending, mut folded) = (Vec::new(), Vec::new());
        for _ in 0..=ROUNDS {
            let time = |reader: &StoreReader| -> Outcome<f64> {
                let start = Instant::now();
                for keys in asked.chunks(BATCH as usize) {
                    std::hint::black_box(reader.contains_batch(keys)?);
                }
                Ok(asked.len() as f64 / start.elapsed().as_secs_f64() / 1e6)
            };
            pending.push(time(&with_runs)?);
            folded.push(time(&compacted)?);
        }
        // The first round verifies pages.
        let (pending, folded) = (median(pending.split_off(1)), median(folded.split_off(1)));
        println!(
            "batch lookups of {what} keys: runs {pending:.2} M/s, compacted {folded:.2} M/s, ratio {:.2}",
            pending / folded
        );
    }
    Ok(())
}

type Look<'a> = dyn Fn(&[[u8; 8]]) -> Outcome<Vec<bool>> + 'a;

/// Lookups of absent and present keys, in 1 GiB in all.
fn lookups(dir: &Path) -> Outcome<()> {
    let (path, file) = (dir.join("s"), dir.join("f"));
    let store = store(&path, SHARDS, &options(GIBIBYTE))?;
    let present = keys(0, LOOKUPS / 2);
    let mut update = store.update()?;
    update.insert_batch(&present)?.complete()?;
    update.commit("insert", None)?;
    let mut writer = options(GIBIBYTE).create(&file)?;
    writer.insert_batch(&present)?.complete()?;
    writer.commit()?;
    writer.close()?;
    let (of_store, of_file) = (store.read()?, options(1).read(&file)?);
    println!("{} bytes in {SHARDS} shards", of_store.info().bytes);
    // In random order.
    let asked: Vec<[u8; 8]> = (0..LOOKUPS)
        .map(|number| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % LOOKUPS).to_le_bytes())
        .collect();
    let (mut stores, mut files) = (Vec::new(), Vec::new());
    for _ in 0..=ROUNDS {
        let time = |look: &Look| -> Outcome<f64> {
            let start = Instant::now();
            for keys in asked.chunks(BATCH as usize) {
                std::hint::black_box(look(keys)?);
            }
            Ok(LOOKUPS as f64 / start.elapsed().as_secs_f64() / 1e6)
        };
        stores.push(time(&|keys| Ok(of_store.contains_batch(keys)?))?);
        files.push(time(&|keys| Ok(of_file.contains_batch(keys)?))?);
    }
    // The first round verifies pages.
    compare("batch lookups, 1 GiB", "M/s", stores.split_off(1), files.split_off(1));
    drop((of_store, of_file));
    std::fs::remove_dir_all(path)?;
    Ok(std::fs::remove_file(file)?)
}

fn opening(dir: &Path) -> Outcome<()> {
    let path = dir.join("s");
    let shards = 1024;
    let made = store(&path, shards, &options(1_000_000))?;
    let mut update = made.update()?.rewriting();
    update.insert_batch(&keys(0, 1_000_000))?.complete()?;
    println!("{} of {shards} shards have a file", update.touched());
    update.commit("insert", None)?;
    let mut times = Vec::new();
    for number in 0..20_u64 {
        let start = Instant::now();
        assert!(Store::open(&path)?.read()?.contains(&number.to_le_bytes())?);
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    println!("opening {shards} shards and one lookup: {:.2} ms", median(times));
    Ok(std::fs::remove_dir_all(path)?)
}

/// The longest call while the contents double, and the commit after it.
fn pauses(dir: &Path, count: u64) -> Outcome<()> {
    const SMALL: u64 = 50_000;
    let capacity = count / 2;
    let [mut store_calls, mut store_commits, mut file_calls, mut file_commits] = [const { Vec::new() }; 4];
    for round in 0..ROUNDS {
        let (path, file) = (dir.join(format!("s{round}")), dir.join(format!("f{round}")));
        let store = store(&path, SHARDS, &options(capacity))?;
        let mut update = store.update()?;
        update.insert_batch(&keys(0, capacity))?.complete()?;
        update.commit("insert", None)?;
        let mut update = store.update()?;
        store_calls.push(longest(capacity, SMALL, |keys| {
            update.insert_batch(keys)?.complete()?;
            Ok(())
        })?);
        let start = Instant::now();
        update.commit("insert", None)?;
        store_commits.push(start.elapsed().as_secs_f64() * 1e3);
        let mut writer = options(capacity).create(&file)?;
        writer.insert_batch(&keys(0, capacity))?.complete()?;
        writer.commit()?;
        file_calls.push(longest(capacity, SMALL, |keys| {
            writer.insert_batch(keys)?.complete()?;
            Ok(())
        })?);
        let start = Instant::now();
        writer.commit()?;
        file_commits.push(start.elapsed().as_secs_f64() * 1e3);
        assert!(Reader::open(&file)?.contains(&keys(0, 1)[0])?);
    }
    compare(&format!("longest call while {capacity} keys double"), "ms", store_calls, file_calls);
    compare("the commit of that", "ms", store_commits, file_commits);
    Ok(())
}

/// Milliseconds of the longest call that inserts so many keys, while as many as are there come in.
fn longest(there: u64, at_once: u64, mut insert: impl FnMut(&[[u8; 8]]) -> Outcome<()>) -> Outcome<f64> {
    let mut longest: f64 = 0.0;
    for from in (there..2 * there).step_by(at_once as usize) {
        let keys = keys(from, at_once);
        let start = Instant::now();
        insert(&keys)?;
        longest = longest.max(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(longest)
}
