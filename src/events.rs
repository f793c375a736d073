//! Events of filters and stores, for subscribers of the crate `tracing` (feature `tracing`). Without the feature these
//! functions do nothing.
//!
//! All events have the target `gowk`; the field `path` names the filter or store. Events are rare compared with keys:
//! each belongs to a call that reads or writes files. The exception is `refused`, once for each key without room.
//!
//! | event | level | fields beside `path` |
//! |---|---|---|
//! | `opened` | debug | `mode`: `read` or `write` |
//! | `created` | info | `regions` |
//! | `recovered` | info | `checkpoint`: the last commit in the file before; `commit`: the last one after the journal was replayed |
//! | `committed` | debug | `commit`, `entries` |
//! | `checkpointed` | debug | `commit` |
//! | `doubled` | info | `regions`, `entries`; a commit publishes it |
//! | `repaired` | warn | `pages`: how many were given up |
//! | `refused` | debug | `reason` |
//! | `poisoned` | error | `reason` |
//! | `store committed` | info | `version`, `base` |
//! | `store rebased` | info | `base`; `version`, which another commit has published since |
//! | `copy refused` | warn | `reason`. The store's own file is read instead of a local copy |
//! | `store compacted` | info | `operation`: `fold` or `merge`, `version` |
//! | `store not compacted` | warn | `reason`; the next commit tries again |
//! | `store vacuumed` | info | `versions`, `files`, `bytes` |
//! | `store not vacuumed` | warn | `reason`; a commit was to do it, and the next one tries again |
#![cfg_attr(not(feature = "tracing"), allow(unused_variables))]

use std::fmt::Display;
use std::path::Path;

/// One event; nothing without the feature.
macro_rules! event {
    ($level:ident, $path:ident, $what:literal $(, $field:ident = $value:expr)*) => {
        #[cfg(feature = "tracing")]
        tracing::$level!(target: "gowk", path = %$path.display() $(, $field = $value)*, $what)
    };
}

pub(crate) fn opened(path: &Path, mode: &str) {
    event!(debug, path, "opened", mode = mode);
}

pub(crate) fn created(path: &Path, regions: u64) {
    event!(info, path, "created", regions = regions);
}

pub(crate) fn recovered(path: &Path, checkpoint: u64, commit: u64) {
    event!(info, path, "recovered", checkpoint = checkpoint, commit = commit);
}

pub(crate) fn committed(path: &Path, commit: u64, entries: u64) {
    event!(debug, path, "committed", commit = commit, entries = entries);
}

pub(crate) fn checkpointed(path: &Path, commit: u64) {
    event!(debug, path, "checkpointed", commit = commit);
}

pub(crate) fn doubled(path: &Path, regions: u64, entries: u64) {
    event!(info, path, "doubled", regions = regions, entries = entries);
}

pub(crate) fn repaired(path: &Path, pages: usize) {
    event!(warn, path, "repaired", pages = pages);
}

pub(crate) fn refused(path: &Path, reason: &dyn Display) {
    event!(debug, path, "refused", reason = tracing::field::display(reason));
}

pub(crate) fn poisoned(path: &Path, reason: &dyn Display) {
    event!(error, path, "poisoned", reason = tracing::field::display(reason));
}

#[cfg(feature = "store")]
pub(crate) fn store_committed(path: &Path, version: u64, base: u64) {
    event!(info, path, "store committed", version = version, base = base);
}

#[cfg(feature = "store")]
pub(crate) fn store_rebased(path: &Path, base: u64, version: u64) {
    event!(info, path, "store rebased", base = base, version = version);
}

#[cfg(feature = "store")]
pub(crate) fn copy_refused(path: &Path, reason: &dyn Display) {
    event!(warn, path, "copy refused", reason = tracing::field::display(reason));
}

#[cfg(feature = "store")]
pub(crate) fn store_compacted(path: &Path, operation: &str, version: u64) {
    event!(info, path, "store compacted", operation = operation, version = version);
}

#[cfg(feature = "store")]
pub(crate) fn store_not_compacted(path: &Path, reason: &dyn Display) {
    event!(warn, path, "store not compacted", reason = tracing::field::display(reason));
}

#[cfg(feature = "store")]
pub(crate) fn store_not_vacuumed(path: &Path, reason: &dyn Display) {
    event!(warn, path, "store not vacuumed", reason = tracing::field::display(reason));
}

#[cfg(feature = "store")]
pub(crate) fn store_vacuumed(path: &Path, versions: u64, files: u64, bytes: u64) {
    event!(info, path, "store vacuumed", versions = versions, files = files, bytes = bytes);
}
