//! Stores: many filters under versions, as callers of the library see them. `cli/tests/cli/stores.rs` has the tool,
//! `cli/tests/ingest/stores.rs` has jobs.

#[path = "../thorough/mod.rs"]
mod thorough;

mod answers;
mod crash;
mod divided;
mod errors;
mod images;
mod processes;
mod readers;
mod record;
