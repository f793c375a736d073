//! Creates a filter of every width for the given number of keys, and fills it. Checks that the keys fit without growth and
//! are all found, and measures the bytes a key and the false-positive rate.
//!
//! `cargo run --release --example fill -- 50000000`

use std::process::ExitCode;

use gowk::{Growth, Lookup, Options, SlotsPerBucket};

const LOOKUPS: u64 = 5_000_000;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let keys: u64 = std::env::args().nth(1).unwrap_or("1000000".into()).replace('_', "").parse()?;
    let dir = tempfile::tempdir_in(".")?;
    println!("slots  load    bytes a key  false positives  expected   lost keys");
    let mut failed = false;
    for slots in SlotsPerBucket::ALL {
        let path = dir.path().join("fill.gowk");
        let options = Options::new().capacity(keys).slots_per_bucket(slots).growth(Growth::Never);
        let mut writer = options.force(true).create(&path)?;
        for key in 0..keys {
            writer.insert(&key.to_le_bytes())?;
        }
        writer.commit()?;
        let info = writer.info()?;
        writer.close()?;
        let reader = gowk::Reader::open(&path)?;
        let mut lost = 0;
        for key in 0..keys {
            lost += u64::from(!reader.contains(&key.to_le_bytes())?);
        }
        let mut found = 0;
        for key in keys..keys + LOOKUPS {
            found += u64::from(reader.contains(&key.to_le_bytes())?);
        }
        println!(
            "{:5}  {:.4}  {:11.3}  {:15.3e}  {:9.3e}  {lost:9}",
            slots.get(),
            info.load,
            std::fs::metadata(&path)?.len() as f64 / keys as f64,
            found as f64 / LOOKUPS as f64,
            info.expected_false_positive_rate,
        );
        failed |= lost > 0;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
