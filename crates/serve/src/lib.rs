//! `gowk-serve`: the Redis protocol over gowk filters on disk.
//!
//! A library for the program and its tests, without a stable interface.
//!
//! - `request` finds the requests in a client's bytes, `reply` encodes the answers.
//! - `connection` takes requests in rounds; `session` has one client's settings and the changes of its round.
//! - `command` has the commands: `bloom`, `cuckoo`, `reserve` (their options), `general`, `keys`, `info`.
//! - `folder` has the filters, `filter` one of them, `steps` a round's changes and lookups in one; `names` maps keys to
//!   files.
//! - `options` are the program's arguments, `server` runs it; `failure` words errors.
#![allow(missing_docs)]
#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod command;
mod connection;
mod failure;
mod filter;
mod folder;
mod names;
pub mod options;
mod reply;
mod request;
pub mod server;
mod session;
mod steps;

use reply::Reply;

/// Runs a call that may wait for the disk on a thread for blocking calls.
async fn blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Result<T, Reply> {
    tokio::task::spawn_blocking(call)
        .await
        .map_err(|_| Reply::error("the call has failed; see the server's messages"))
}
