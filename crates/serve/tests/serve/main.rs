//! `gowk-serve` as a process, and its connections against models. `tests/clients` has clients by other authors.
//!
//! - `answers`: commands, options, answers and errors, in both protocols.
//! - `beside`: other processes and the server's own end: readers, writers, damage, disks that take no more, signals.
//! - `bounds`: clients that send too much, too little, nothing, or do not read.
//! - `early`: answers before the commit.
//! - `kills`: the server is killed under load.
//! - `model`: any bytes, and sequences of commands against a model.
//! - `recipes`: the promises of the recipes in `docs/serving.md`.
//! - `client`: the server as a process, and a client of it.

mod answers;
mod beside;
mod bounds;
mod client;
mod early;
mod kills;
mod model;
mod recipes;
