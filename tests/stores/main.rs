//! Stores: many filters under versions, as their users see them.

#![cfg(feature = "store")]

#[path = "../thorough/mod.rs"]
mod thorough;

mod answers;
mod crash;
mod errors;
mod images;
mod processes;
mod readers;
mod record;
#[cfg(feature = "cli")]
mod tool;
