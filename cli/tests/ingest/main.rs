//! Ingest jobs, through `gowk ingest` and through the library.
//!
//! - `kills`: a job killed at any moment and run again leaves the filter, entry for entry, the cursor and the
//!   output, byte for byte, of a job that was not killed; also when it is killed while the filter doubles.
//! - `inputs`: what is taken from plain, gzip and zstd files, lines, NUL, CSV and JSON; what is read when an
//!   input has grown, and that one which was replaced or cut is named and nothing is lost.
//! - `outputs`: the output holds each new key once, and no file is cut that the job did not write.
//! - `doubt`: after a failed commit, which keys are committed, and which are in doubt.
//! - `refusals`: each mistake is one line on standard error that names file and remedy, with exit code 2, and
//!   what was committed stays.
//! - `stores`: jobs into a store.
//! - `processes`: signals, two jobs on one filter, what is printed.

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
#[path = "../../../tests/thorough/mod.rs"]
mod thorough;
