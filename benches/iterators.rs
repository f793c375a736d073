//! Keys from an iterator, against batches of the same keys.
//!
//! `cargo bench --bench iterators -- 20000000` (keys). `insert_batch` gets slices of four million keys: some that are in
//! memory already, and some that are collected from an iterator first. `insert_all` gets the iterators. Each fills a new
//! filter with room for all keys, and commits once at the end, for sets first and then for counting filters. All take
//! turns after a warm-up round; medians, and ratios to the batches, are printed.

use std::path::Path;
use std::time::Instant;

use gowk::{Batches, Growth, Kind, Options, Writer};

const ROUNDS: usize = 5;
/// Keys of a batch.
const BATCH: usize = 4 << 20;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;
type Work<'a> = (&'static str, &'a dyn Fn(&mut Writer) -> gowk::Result<()>);

fn key(number: u64) -> [u8; 8] {
    let x = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ x >> 31).to_le_bytes()
}

/// A key about as long as a URL.
fn url(number: u64) -> String {
    format!("https://example.org/articles/{number:012}/comments")
}

fn main() -> Outcome<()> {
    let keys: u64 = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(1_000_000);
    let dir = tempfile::tempdir_in(".")?;
    println!("{keys} keys; medians of {ROUNDS} rounds");
    let (numbers, urls): (Vec<_>, Vec<_>) = ((0..keys).map(key).collect(), (0..keys).map(url).collect());
    in_turns(
        dir.path(),
        keys,
        &[
            ("8 bytes, in memory: insert_batch", &|writer| of_slices(writer, &numbers)),
            ("8 bytes, in memory: insert_all", &|writer| writer.insert_all(&numbers)?.complete().map(drop)),
        ],
    )?;
    in_turns(
        dir.path(),
        keys,
        &[
            ("8 bytes, made on the way: collected, insert_batch", &|writer| {
                of_iterator(writer, (0..keys).map(key))
            }),
            ("8 bytes, made on the way: insert_all", &|writer| {
                writer.insert_all((0..keys).map(key))?.complete().map(drop)
            }),
        ],
    )?;
    in_turns(
        dir.path(),
        keys,
        &[
            ("50 bytes, in memory: insert_batch", &|writer| of_slices(writer, &urls)),
            ("50 bytes, in memory: insert_all", &|writer| writer.insert_all(&urls)?.complete().map(drop)),
        ],
    )
}

fn of_slices<K: AsRef<[u8]> + Sync>(writer: &mut Writer, keys: &[K]) -> gowk::Result<()> {
    keys.chunks(BATCH).try_for_each(|keys| writer.insert_batch(keys)?.complete().map(drop))
}

fn of_iterator(writer: &mut Writer, mut keys: impl Iterator<Item = [u8; 8]>) -> gowk::Result<()> {
    loop {
        let batch: Vec<_> = keys.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            return Ok(());
        }
        writer.insert_batch(&batch)?.complete()?;
    }
}

/// Compares each work with the first.
fn in_turns(dir: &Path, keys: u64, works: &[Work<'_>]) -> Outcome<()> {
    [Kind::Set, Kind::Counting].into_iter().try_for_each(|kind| in_turns_into(kind, dir, keys, works))
}

fn in_turns_into(kind: Kind, dir: &Path, keys: u64, works: &[Work<'_>]) -> Outcome<()> {
    let mut rates = vec![Vec::new(); works.len()];
    for round in 0..=ROUNDS {
        for ((_, work), rates) in works.iter().zip(&mut rates) {
            let options = Options::new().kind(kind).capacity(keys).growth(Growth::Never).force(true);
            let mut writer = options.create(dir.join("filter"))?;
            let start = Instant::now();
            work(&mut writer)?;
            writer.commit()?;
            let rate = keys as f64 / start.elapsed().as_secs_f64() / 1e6;
            writer.close()?;
            if round > 0 {
                rates.push(rate);
            }
        }
    }
    let mut medians = Vec::new();
    for ((name, _), rates) in works.iter().zip(&mut rates) {
        rates.sort_by(f64::total_cmp);
        let median = rates.get(ROUNDS / 2).copied().unwrap_or(f64::NAN);
        medians.push(median);
        let first = medians.first().copied().unwrap_or(f64::NAN);
        println!("{:<9}{name:<52} {median:>7.2} M/s {:>6.2}", kind.name(), median / first);
    }
    Ok(())
}
