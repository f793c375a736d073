//! Stores: many filters under versions, as their users see them.

#![cfg(feature = "store")]

#[path = "../thorough/mod.rs"]
mod thorough;

mod answers;
mod crash;
mod divided;
mod errors;
mod images;
#[cfg(feature = "cli")]
mod ingest;
mod processes;
mod readers;
mod record;
#[cfg(feature = "cli")]
mod tool;
