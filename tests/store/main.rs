//! Stores, as callers of the library see them. `cli/tests/cli/stores.rs` tests the tool on them,
//! `cli/tests/ingest/stores.rs` jobs.
//!
//! - `answers`: a store answers as one filter with the same keys.
//! - `crash`: power cuts and failing disks, with `images` and `record`.
//! - `decoded`: golden stores, and stores with runs as `decode.py` reads them.
//! - `divided`: a store made out of a filter.
//! - `errors`: files of a store that are damaged, missing or foreign.
//! - `killed`: a process that dies before each of its calls to the disk.
//! - `folds`: folds that other processes make than the one that publishes them.
//! - `processes`: processes that commit at the same time, and are killed.
//! - `rebased`: updates that judge keys again which others have brought meanwhile.
//! - `readers`: readers, copies and updates while versions come and go.
//! - `runs`: stores whose commits write runs.

#[path = "../thorough/mod.rs"]
mod thorough;

mod answers;
mod crash;
mod decoded;
mod divided;
mod errors;
mod folds;
mod images;
mod killed;
mod processes;
mod readers;
mod rebased;
mod record;
mod runs;
