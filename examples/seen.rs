//! Prints the lines of standard input that were never seen before, in this run or an earlier one.
//!
//! `zcat urls.gz | cargo run --release --example seen -- seen.gowk`

use std::error::Error;
use std::io::{self, BufRead, Write};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: seen FILE < lines")?;

    // Opens the filter, or creates it for ten million keys; it doubles itself when there are more.
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

    // Nothing is remembered before this; if the process dies earlier, the next run prints the lines again.
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
