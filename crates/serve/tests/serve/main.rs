//! `gowk-serve` as a process, and its connections against models. The clients that others wrote are in `tests/clients`.
//!
//! - `answers`: commands, options, answers and errors, in both protocols.
//! - `beside`: other processes and the server's own end: readers, writers, damage, disks that take no more, signals.
//! - `bounds`: clients that send too much, too little, nothing, or do not read.
//! - `early`: answers before the commit.
//! - `kills`: the server is killed under load.
//! - `model`: any bytes, and sequences of commands against a model.
//! - `recipes`: what the recipes of `docs/serving.md` promise.
//! - `client`: the server as a process, and a client of it.

mod answers;
mod beside;
mod bounds;
mod client;
mod early;
mod kills;
mod model;
mod recipes;
