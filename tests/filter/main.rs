//! One filter, and filters made from others, as callers of the library see them. Tests that kill a process or fail a disk
//! are in `tests/crash`.
//!
//! - `batches`: a batch changes and answers the same as its calls one by one.
//! - `commits`: commits, rollbacks, reopening, removal, duplicates.
//! - `copies`: counted copies of keys, on real lines.
//! - `created`: a creation that fails leaves nothing behind.
//! - `described`: `Debug`, `Display` and `Serialize` are short, and never show the seed.
//! - `divided`: filters divided into shards, and shards joined.
//! - `edges`: foreign files, and other processes that do the unexpected.
//! - `filling`: capacity and false-positive rate at every width.
//! - `followed`: readers of a filter that is replaced as a whole.
//! - `forgetting`: filters that forget, with a clock.
//! - `forgetting_merged`: forgetting filters that are merged and shrunk.
//! - `forgetting_parts`: forgetting filters that are divided and joined.
//! - `growth`: doublings, and the limits that refuse them.
//! - `in_memory`: readers of a copy in memory.
//! - `kept`: which readers a thread keeps mapped.
//! - `kinds`: sets and counting filters, and what each refuses.
//! - `merged`: filters merged into others, and filters that shrink.
//! - `models`: random operations against a model, for each kind and width.
//! - `multiset`: random histories of counted keys against an exact model.
//! - `promises`: names, rights, and how long callers wait.
//! - `replaced`: a file that is replaced or removed while it is open.
//! - `sealed`: closed filters, read without locks.
//! - `secret`: no message and no `Debug` shows the seed.
//! - `shared`: a writer that threads and tasks share.
//! - `shards`: filters that divide all keys among themselves.
//! - `threads`: a process that can start no thread.
//! - `unmarked`: filters without markers, and what marks them.

mod batches;
mod commits;
mod copies;
mod created;
mod described;
mod divided;
mod edges;
mod filling;
mod followed;
mod forgetting;
mod forgetting_merged;
mod forgetting_parts;
mod growth;
mod in_memory;
mod kept;
mod kinds;
mod lifetimes;
mod merged;
mod models;
mod multiset;
mod newest;
mod numbers;
mod promises;
mod replaced;
mod sealed;
mod secret;
mod shards;
mod shared;
#[path = "../thorough/mod.rs"]
mod thorough;
mod threads;
mod unmarked;
