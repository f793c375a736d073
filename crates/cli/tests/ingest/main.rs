//! Ingest jobs, through `gowk ingest` and through the library.
//!
//! - `doubt`: after a failed commit, which keys are committed, and which are in doubt.
//! - `inputs`: formats and compressions; inputs that grow, are replaced or cut.
//! - `kills`: a killed job, run again, ends like one that was not killed.
//! - `outputs`: the files for new and for refused keys.
//! - `processes`: signals, two jobs on one filter, what is printed.
//! - `refusals`: a mistake is one line that names file and remedy, with exit code 2.
//! - `stores`: jobs into a store.
//! - `timed`: records that say when their keys were seen.

mod doubt;
mod inputs;
mod kills;
mod outputs;
mod processes;
mod refusals;
#[path = "../cli/run.rs"]
#[allow(dead_code)]
mod run;
mod sample;
mod stores;
#[path = "../../../../tests/thorough/mod.rs"]
mod thorough;
mod timed;
