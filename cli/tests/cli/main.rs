//! The `gowk` tool as its users see it: real processes, their output, and their exit codes.
//!
//! - `docs`: the pages that users read, and the commands in them.
//! - `doubt`: after a failed commit, which keys are committed, and which are in doubt.
//! - `fields`: keys that are fields of records, or lines without what does not matter in them.
//! - `kinds`: what a set and a counting filter each do, and refuse.
//! - `keys`: what is a key, where keys come from, which ones each verb selects and prints.
//! - `kills`: `kill -9` at any moment, and readers beside writers.
//! - `merged_killed`: merges and shrinks that are killed.
//! - `refusals`: whatever is refused gives one line on standard error that names file and remedy, exit code 2,
//!   and changes nothing: the same names and the same bytes in the folder as before.
//! - `progress`: what is told of a run, on a terminal and elsewhere.
//! - `refused`: a key that finds no room stops nothing, and is told of.
//! - `processes`: beside other processes, under signals, with slow inputs and broken outputs, after `kill -9`.
//! - `report`: the page of `gowk report`.
//! - `stores`: the verbs on stores.
//! - `told`: what is told of a filter, and its secret seed only on demand.
//! - `traps`: what looks like one thing and is another is told, or taken for what was meant.
//! - `whole_filters`: verbs that look at or make a whole filter.

mod docs;
mod doubt;
mod fields;
mod keys;
mod kills;
mod kinds;
mod merged_killed;
mod processes;
mod progress;
mod refusals;
mod refused;
mod report;
mod run;
mod stores;
#[path = "../../../tests/thorough/mod.rs"]
mod thorough;
mod told;
mod traps;
mod whole_filters;
