//! Prints the lines of standard input that were not seen before, in this run or an earlier one.
//!
//! `zcat urls.gz | cargo run --release --example seen -- seen.gowk`

use std::error::Error;
use std::io::{self, BufRead, Write};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: seen FILE < lines")?;

    // Opens the filter, or creates it for ten million keys. With more keys it doubles itself.
    let mut seen = gowk::Options::new().capacity(10_000_000).false_positive_rate(1e-4).open(path)?;

    let mut output = io::stdout().lock();
    let mut new = 0_u64;
    for line in io::stdin().lock().split(b'\n') {
        let line = line?;
        if seen.insert(&line)? {
            new += 1;
            output.write_all(&line)?;
            output.write_all(b"\n")?;
        }
    }

    // Only the commit makes the lines durable. If the process dies earlier, the next run prints them again.
    output.flush()?;
    seen.commit()?;

    let info = seen.info()?;
    eprintln!(
        "{new} new, {} in all; false-positive rate {:.1e}",
        info.entries, info.expected_false_positive_rate
    );
    seen.close()?;
    Ok(())
}
