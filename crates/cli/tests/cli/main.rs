//! The `gowk` tool as its users see it: real processes, their output, and their exit codes.
//!
//! - `claims`: processes that bring overlapping keys to one store.
//! - `compact`: `gowk store compact`, also killed, and beside inserts.
//! - `docs`: the pages that users read, and the commands in them.
//! - `doubt`: after a failed commit, which keys are committed, and which are in doubt.
//! - `fields`: keys that are fields of records, or trimmed, case-folded lines.
//! - `forgetting`: filters that forget: what is planned, made, printed and refused.
//! - `kinds`: what a set and a counting filter each do, and refuse.
//! - `keys`: what a key is, where keys come from, and which of them each verb prints.
//! - `kills`: `kill -9` at any moment, and readers beside writers.
//! - `lifetimes`: keys that come with lifetimes of their own, for filters that forget.
//! - `merged_killed`: merges and shrinks that are killed.
//! - `refusals`: an error is one line that names file and remedy, with exit code 2, and changes no file.
//! - `progress`: summaries, and the bar on a terminal.
//! - `refused`: a key that does not fit is reported and skipped.
//! - `records`: records without a key, malformed ones, headers, and new rows that look like others.
//! - `processes`: other processes, signals, slow inputs, broken outputs, `kill -9`.
//! - `outputs`: files in the place of standard output.
//! - `report`: the page of `gowk report`.
//! - `stores`: the verbs on stores.
//! - `timed`: keys that come with their times, for filters that forget.
//! - `told`: the secret seed is shown only on request; `verify` names the next step.
//! - `traps`: arguments and inputs that are easily mistaken for something else.
//! - `whole_filters`: verbs that look at or make a whole filter.
//! - `windows`: `dedup` over several filters.

mod claims;
mod compact;
mod docs;
mod doubt;
mod fields;
mod forgetting;
mod keys;
mod kills;
mod kinds;
mod lifetimes;
mod merged_killed;
mod outputs;
mod parquet;
mod processes;
mod progress;
mod records;
mod refusals;
mod refused;
mod report;
mod run;
mod stores;
#[path = "../../../../tests/thorough/mod.rs"]
mod thorough;
mod timed;
mod told;
mod traps;
mod whole_filters;
mod windows;
