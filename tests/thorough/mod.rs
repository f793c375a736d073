//! How large a test is. `GOWK_THOROUGH=1` runs the same tests with larger numbers, as continuous integration does with
//! those of stores.

// Each test binary compiles this file, and uses a part of it.
#![allow(dead_code)]

use std::fmt::Display;
use std::io::Write as _;

pub(crate) fn is_asked_for() -> bool {
    std::env::var("GOWK_THOROUGH").is_ok_and(|value| !value.is_empty() && value != "0")
}

/// Returns one of the two sizes, and prints which.
pub(crate) fn size<T: Display>(what: &str, short: T, thorough: T) -> T {
    let (size, note) = if is_asked_for() {
        (thorough, "thorough".to_owned())
    } else {
        let note = format!("short; {thorough} with GOWK_THOROUGH=1");
        (short, note)
    };
    // Not by `println!`, which the test harness captures.
    let _ = writeln!(std::io::stderr(), "{what}: {size} ({note})");
    size
}
