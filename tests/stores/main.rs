//! Stores: many filters under versions, as callers of the library see them. `cli/tests/stores` has jobs and the tool.

#![cfg(feature = "store")]

#[path = "../thorough/mod.rs"]
mod thorough;

mod answers;
mod crash;
mod decoded;
mod divided;
mod errors;
mod images;
mod processes;
mod readers;
mod record;
mod runs;
