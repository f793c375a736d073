//! Filters when something breaks: no committed key is lost, and damage is found. `tests/store/crash.rs` cuts the power under
//! stores, `crates/cli/tests/cli/kills.rs` kills the tool.
//!
//! - `damage`: flipped bytes in data pages and superblocks, and repair.
//! - `flips`: every byte of a small filter and its journal, flipped.
//! - `panics`: code of the caller that panics inside a call.
//! - `power`: power cuts, deaths and failing disks, behind every operation of a script.
//! - `stopped`: a writer stopped or killed while it applies a commit.
//! - `unreadable`: blocks that the medium cannot give back.

mod damage;
mod flips;
mod panics;
mod power;
mod stopped;
#[path = "../thorough/mod.rs"]
mod thorough;
mod unreadable;
