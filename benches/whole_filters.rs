//! Merging, dividing, joining and shrinking filters, with their syncs, each against a unit from the same run.
//!
//! `cargo bench --bench whole_filters -- 1024` (MiB of each filter; needs about four times that on the disk). A further
//! word, `merge`, `divide` or `shrink`, measures that alone; joining goes with dividing.
//!
//! * `merge` is compared with `insert_batch` of as many hashed keys as the other filter has, into the same filter and into
//!   a new one, with the commits. Its rate is that of those keys.
//! * `divide`, `join` and `shrink` are compared with `cp` of the result, with a sync.
//!
//! All work is on one thread, shrinking also on two. The two of a pair take turns, after a warm-up round; medians and their
//! ratios are printed. Before each measurement, a file as large as the result is written and removed: a virtual machine
//! hands out memory that it has not used lately up to ten times more slowly than memory that was just freed, in pieces of
//! the same size.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use gowk::{Batches, HashKind, KeyHash, Options, Reader, SlotsPerBucket, Writer};

const WARM_UP: usize = 1;
const ROUNDS: usize = 5;
/// Keys of a batch.
const BATCH: u64 = 4 << 20;
/// Shards that a filter is divided into.
const PARTS: usize = 8;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let size = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let mebibytes: u64 = size.unwrap_or(64);
    let dir = tempfile::tempdir_in(".")?;
    let verbs = ["merge", "divide", "shrink"];
    let asked = std::env::args().skip(1).find(|argument| verbs.contains(&argument.as_str()));
    let is_asked_for = |verb: &str| asked.as_ref().is_none_or(|asked| asked == verb);
    println!("{mebibytes} MiB a filter, four slots per bucket; medians of {ROUNDS} rounds");
    // The loads of each filter: together they fit, or the filter that takes the other has to double.
    for load in [0.45, 0.85].into_iter().filter(|_| is_asked_for("merge")) {
        merge(dir.path(), mebibytes, load)?;
    }
    if is_asked_for("divide") {
        divide_and_join(dir.path(), mebibytes)?;
    }
    // The loads before: nearly the highest that fits, half of that, and the load after three doublings too many.
    for load in [0.44, 0.25, 0.12].into_iter().filter(|_| is_asked_for("shrink")) {
        for threads in [1, 2] {
            shrink(dir.path(), mebibytes, load, threads)?;
        }
    }
    Ok(())
}

/// The hash of key `number`, pseudorandom.
fn hash(number: u64) -> KeyHash {
    let mixed = |number: u64| {
        let x = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    };
    let high = mixed(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1));
    KeyHash::new(u128::from(high) << 64 | u128::from(mixed(high ^ number)))
}

const fn slots(mebibytes: u64) -> u64 {
    mebibytes * 16 * 8192 * 4
}

fn options(mebibytes: u64) -> Options {
    let four = SlotsPerBucket::new(4).unwrap_or(SlotsPerBucket::Four);
    let capacity = slots(mebibytes) * 93 / 100;
    Options::new()
        .capacity(capacity)
        .slots_per_bucket(four)
        .seed(1)
        .hash(HashKind::Caller)
        .counting()
        .threads(1)
}

/// Inserts keys. Returns the seconds without hashing.
fn insert(writer: &mut Writer, keys: std::ops::Range<u64>) -> Outcome<f64> {
    let mut seconds = 0.0;
    for from in keys.clone().step_by(BATCH as usize) {
        let hashes: Vec<KeyHash> = (from..keys.end.min(from + BATCH)).map(hash).collect();
        let start = Instant::now();
        let inserted = writer.insert_batch(&hashes)?;
        seconds += start.elapsed().as_secs_f64();
        inserted.complete()?;
    }
    let start = Instant::now();
    writer.commit()?;
    Ok(seconds + start.elapsed().as_secs_f64())
}

fn create(path: &Path, options: &Options, doublings: u32, keys: std::ops::Range<u64>) -> Outcome<()> {
    let mut writer = options.create(path)?;
    (0..doublings).try_for_each(|_| writer.grow())?;
    insert(&mut writer, keys)?;
    Ok(writer.close()?)
}

/// Frees `bytes` of memory, in pieces as large as those that the library writes.
fn give_back_memory(dir: &Path, bytes: u64) -> Outcome<()> {
    const PIECE: u64 = 64 << 10;
    let path = dir.join("memory");
    let mut file = File::create(&path)?;
    for _ in 0..bytes.div_ceil(PIECE) {
        file.write_all(&[1; PIECE as usize])?;
    }
    file.sync_all()?;
    Ok(std::fs::remove_file(path)?)
}

fn length(path: &Path) -> Outcome<u64> {
    Ok(path.metadata()?.len())
}

/// Seconds for `cp` of a file and a sync of the copy, which is removed.
fn copy(dir: &Path, from: &Path) -> Outcome<f64> {
    let to = dir.join("copy");
    cp(from, &to)?;
    std::fs::remove_file(&to)?;
    let start = Instant::now();
    cp(from, &to)?;
    let seconds = start.elapsed().as_secs_f64();
    std::fs::remove_file(to)?;
    Ok(seconds)
}

fn cp(from: &Path, to: &Path) -> Outcome<()> {
    let status = Command::new("cp").arg("--reflink=never").args([from, to]).status()?;
    if !status.success() {
        return Err("cp failed".into());
    }
    Ok(File::open(to)?.sync_all()?)
}

fn median(figures: &[f64]) -> f64 {
    let mut figures = figures[WARM_UP..].to_vec();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// How long an operation took, and how long copies of its result took.
#[derive(Default)]
struct Turns {
    measured: Vec<f64>,
    copied: Vec<f64>,
}

impl Turns {
    fn print(&self, what: &str) {
        for (measured, copied) in self.measured.iter().zip(&self.copied) {
            println!("  {measured:.3} s, cp and sync {copied:.3} s");
        }
        let (measured, copied) = (median(&self.measured), median(&self.copied));
        println!(
            "{what}: {measured:.3} s; cp of the result and sync {copied:.3} s; ratio {:.2}",
            measured / copied
        );
    }
}

fn merge(dir: &Path, mebibytes: u64, load: f64) -> Outcome<()> {
    let [model, other, path] = ["model", "other", "merged"].map(|name| dir.join(name));
    let keys = (slots(mebibytes) as f64 * load) as u64;
    create(&model, &options(mebibytes), 0, 0..keys)?;
    create(&other, &options(mebibytes), 0, keys..2 * keys)?;
    let (mut merged, mut same, mut new, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), length(&model)?);
    for _ in 0..WARM_UP + ROUNDS {
        cp(&model, &path)?;
        give_back_memory(dir, bytes)?;
        let start = Instant::now();
        let mut writer = Options::new().open_existing(&path)?;
        writer.merge(&Reader::open(&other)?)?;
        writer.commit()?;
        merged.push(start.elapsed().as_secs_f64());
        writer.close()?;
        bytes = length(&path)?;
        cp(&model, &path)?;
        give_back_memory(dir, bytes)?;
        let mut writer = Options::new().open_existing(&path)?;
        same.push(insert(&mut writer, keys..2 * keys)?);
        writer.close()?;
        std::fs::remove_file(&path)?;
        give_back_memory(dir, bytes)?;
        let start = Instant::now();
        let mut writer = options(mebibytes).create(&path)?;
        let created = start.elapsed().as_secs_f64();
        new.push(created + insert(&mut writer, keys..2 * keys)?);
        writer.close()?;
        std::fs::remove_file(&path)?;
    }
    let rate = |seconds: &[f64]| keys as f64 / median(seconds) / 1e6;
    let (merged, same, new) = (rate(&merged), rate(&same), rate(&new));
    println!(
        "merge of two filters with {load} of their slots in use: {merged:.1} M keys/s; insert_batch of as many \
         {same:.1} M/s, ratio {:.2}; into a new filter {new:.1} M/s, ratio {:.2}",
        merged / same,
        merged / new,
    );
    [model, other].iter().try_for_each(std::fs::remove_file)?;
    Ok(())
}

fn divide_and_join(dir: &Path, mebibytes: u64) -> Outcome<()> {
    let [whole, joined] = ["whole", "joined"].map(|name| dir.join(name));
    create(&whole, &options(mebibytes), 0, 0..slots(mebibytes) * 9 / 10)?;
    let parts: Vec<PathBuf> = (0..PARTS).map(|part| dir.join(format!("part-{part}"))).collect();
    let (mut divided, mut put_together) = (Turns::default(), Turns::default());
    for _ in 0..WARM_UP + ROUNDS {
        give_back_memory(dir, length(&whole)?)?;
        let start = Instant::now();
        Reader::open(&whole)?.divide_to(&parts, &|_, _| {})?;
        divided.measured.push(start.elapsed().as_secs_f64());
        divided.copied.push(copy(dir, &whole)?);
        give_back_memory(dir, length(&whole)?)?;
        let start = Instant::now();
        let shards: Vec<Reader> = parts.iter().map(Reader::open).collect::<Result<_, _>>()?;
        Reader::join_to(&shards, &joined, &|_, _| {})?;
        put_together.measured.push(start.elapsed().as_secs_f64());
        put_together.copied.push(copy(dir, &joined)?);
        drop(shards);
        parts.iter().chain([&joined]).try_for_each(std::fs::remove_file)?;
    }
    divided.print(&format!("divide into {PARTS}"));
    put_together.print(&format!("join of {PARTS}"));
    Ok(std::fs::remove_file(whole)?)
}

fn shrink(dir: &Path, mebibytes: u64, load: f64, threads: usize) -> Outcome<()> {
    let [model, path] = ["model", "shrunk"].map(|name| dir.join(name));
    create(&model, &options(mebibytes / 2), 1, 0..(slots(mebibytes) as f64 * load) as u64)?;
    let mut turns = Turns::default();
    for _ in 0..WARM_UP + ROUNDS {
        cp(&model, &path)?;
        give_back_memory(dir, length(&model)? / 2)?;
        let start = Instant::now();
        let mut writer = Options::new().threads(threads).open_existing(&path)?;
        writer.shrink()?;
        writer.commit()?;
        turns.measured.push(start.elapsed().as_secs_f64());
        writer.close()?;
        turns.copied.push(copy(dir, &path)?);
        std::fs::remove_file(&path)?;
    }
    turns.print(&format!("shrink of a filter with {load} of its slots in use, {threads} threads"));
    Ok(std::fs::remove_file(model)?)
}
