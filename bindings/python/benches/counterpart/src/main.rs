//! `counterpart fill FILE KEYS`: a filter for that many keys, and the keys.
//!
//! `counterpart time FILE KEYS ROUNDS`: for each line on standard input, times the library's batches over the keys
//! `https://example.org/page/N`, for N from 0, which are not in it, and prints millions of keys a second: lookups,
//! inserts.

use std::io::{Write, stdin, stdout};
use std::time::Instant;

use gowk::{Batches, Lookup, Options, Reader};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [verb, file, keys] = arguments.as_slice() else {
        return Err("counterpart fill|time FILE KEYS".into());
    };
    let keys: u64 = keys.parse()?;
    match verb.as_str() {
        "fill" => fill(file, keys),
        _ => time(file, keys),
    }
}

fn fill(file: &str, keys: u64) -> Result<(), Box<dyn std::error::Error>> {
    let mut writer = Options::new().capacity(keys).threads(2).create(file)?;
    let block = 4 << 20;
    for start in (0..keys).step_by(block) {
        let numbers: Vec<[u8; 8]> = (start..keys.min(start + block as u64)).map(u64::to_be_bytes).collect();
        writer.insert_batch(&numbers)?.complete()?;
    }
    writer.commit()?;
    println!("{} bytes, load {:.3}", writer.info()?.file_length, writer.info()?.load);
    Ok(writer.close()?)
}

fn time(file: &str, keys: u64) -> Result<(), Box<dyn std::error::Error>> {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for number in 0..keys {
        write!(bytes, "https://example.org/page/{number}")?;
        ends.push(bytes.len());
    }
    let mut start = 0;
    let slices: Vec<&[u8]> =
        ends.iter().map(|&end| &bytes[std::mem::replace(&mut start, end)..end]).collect();
    let reader = Reader::open(file)?;
    let rate = |since: Instant| keys as f64 / since.elapsed().as_secs_f64() / 1e6;
    for line in stdin().lines() {
        let speed = match line?.as_str() {
            "contains" => {
                let start = Instant::now();
                let found = reader.contains_batch(&slices)?;
                let speed = rate(start);
                assert_eq!(found.len() as u64, keys);
                speed
            }
            "single" => {
                let start = Instant::now();
                let mut found = 0;
                for key in &slices {
                    found += u64::from(reader.contains(key)?);
                }
                assert!(found < keys);
                rate(start)
            }
            _ => {
                let mut writer = Options::new().open_existing(file)?;
                let start = Instant::now();
                let inserted = writer.insert_batch(&slices)?;
                let speed = rate(start);
                inserted.complete()?;
                writer.rollback()?;
                writer.close()?;
                speed
            }
        };
        println!("{speed}");
        stdout().flush()?;
    }
    Ok(())
}
