//! How large a test is, the seed of its random numbers, and the programs that it runs. `GOWK_THOROUGH=1` runs the same
//! tests with larger numbers; `GOWK_SEED=N` runs other random histories. `.ci/thorough` does both.

// Each test binary compiles this file, and uses a part of it.
#![allow(dead_code)]

use std::fmt::Display;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

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
    // Avoids `println!`, which the test harness captures.
    let _ = writeln!(std::io::stderr(), "{what}: {size} ({note})");
    size
}

/// The seed of a random history: `own`, unless `GOWK_SEED` requests other histories.
pub(crate) fn seed(own: u64) -> u64 {
    static GIVEN: OnceLock<u64> = OnceLock::new();
    let given = GIVEN.get_or_init(|| {
        let given = std::env::var("GOWK_SEED").map_or(0, |text| text.parse().expect("GOWK_SEED is a number"));
        let _ = writeln!(std::io::stderr(), "GOWK_SEED={given}");
        given
    });
    own ^ given.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The interpreter behind the command `python3`, which may be a script that takes longer to start than Python itself.
pub(crate) fn python() -> &'static str {
    static FOUND: OnceLock<String> = OnceLock::new();
    FOUND.get_or_init(|| {
        let itself = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
        let path = itself.ok().and_then(|output| String::from_utf8(output.stdout).ok());
        path.map(|path| path.trim().to_owned()).filter(|path| !path.is_empty()).unwrap_or("python3".into())
    })
}

/// Copies a program that is then executed. Another process writes the copy: a file that is open for writing cannot be
/// executed, and a child that another test has just started has copies of all descriptors for a moment.
pub(crate) fn copy_program(from: &Path, to: &Path) {
    assert!(Command::new("cp").args([from, to]).status().unwrap().success());
}
