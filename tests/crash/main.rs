//! Filters under failures: no committed key is lost, and damage is found. `tests/store/crash.rs` cuts the power under
//! stores, and `crates/cli/tests/cli/kills.rs` kills the tool.
//!
//! - `damage`: flipped bytes in data pages and superblocks, and repair.
//! - `flips`: every byte of a small filter and its journal, flipped.
//! - `panics`: callers' code that panics inside a call.
//! - `power`: power cuts, deaths and failing disks, after every operation of a script.
//! - `stopped`: a writer stopped or killed while it applies a commit.
//! - `unreadable`: blocks that the medium cannot read.

mod damage;
mod flips;
mod panics;
mod power;
mod stopped;
#[path = "../thorough/mod.rs"]
mod thorough;
mod unreadable;
