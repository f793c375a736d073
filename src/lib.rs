//! Has this key been seen? For sets too large for memory, in about two bytes a key.
//!
//! gowk is a cuckoo filter in a file. The answer "no" is always right; the answer "yes" is wrong at a known rate,
//! chosen at creation. It grows without the original keys. A counting filter also counts and removes keys. Any number
//! of processes read the file through mmap while one locked writer adds to it, and it survives `kill -9` and power
//! loss.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("seen.gowk");
//! use gowk::{Lookup, Options, Reader};
//!
//! let mut writer = Options::new().capacity(1_000_000).false_positive_rate(1e-3).open(&path)?;
//! for url in ["https://example.org/", "https://example.com/", "https://example.org/"] {
//!     if writer.insert(url)? {
//!         println!("first seen: {url}");
//!     }
//! }
//! writer.metadata_mut()?.set("position", "line 3");
//! writer.commit()?; // durable and visible, keys and metadata together
//!
//! let reader = Reader::open(&path)?; // in any process, beside the writer
//! assert!(reader.contains("https://example.com/")?);
//! assert!(!reader.contains("https://example.net/")?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What to use
//!
//! | to | use |
//! |---|---|
//! | find what is new | a set: [`Options::open`], [`Writer::insert`] |
//! | count keys, or remove them some day | a counting filter: [`Options::counting`], [`Writer::remove`] |
//! | look keys up | [`Reader`], with the trait [`Lookup`] |
//! | take many keys at once, several times as fast | the trait [`Batches`]; [`Lookup::contains_batch`] |
//! | write from many processes, or past one file | [`store`] |
//! | run a job over files, resumable after any kill | the crate `gowk-ingest` |
//!
//! The [`Kind`] of a filter is fixed when it is created. Keys are bytes, or hashes computed before: [`Key`].
//! [`Options::plan`] says how large a filter would be.
//!
//! # The same words everywhere
//!
//! | to | one key | many keys | iterator | tool | Python |
//! |---|---|---|---|---|---|
//! | store, and say what is new | [`insert`](Writer::insert) | [`insert_batch`](Batches::insert_batch) | [`insert_all`](Batches::insert_all) | `dedup` | `insert`, `insert_many` |
//! | store, without an answer | | | | `insert` | `add`, `update` |
//! | is it there? | [`contains`](Lookup::contains) | [`contains_batch`](Lookup::contains_batch) | | `check` | `in`, `contains_many` |
//! | how many copies? | [`count`](Lookup::count) | | | `count` | `count`, `count_many` |
//! | take one copy | [`remove`](Writer::remove) | [`remove_batch`](Batches::remove_batch) | [`remove_all`](Batches::remove_all) | `remove` | `remove`, `remove_many` |
//!
//! # Threads
//!
//! A [`Reader`] is shared freely: clones are cheap, and all its calls take `&self`. A [`Writer`] takes `&mut self`.
//! Threads and tasks that each need their changes to be durable share it as a [`SharedWriter`] ([`Writer::into_shared`]),
//! with one commit for all their changes. Threads that commit seldom share it as `Arc<Mutex<Writer>>`, and should pass
//! batches to it. One call divides its work over [`Options::threads`] threads. `examples/crawler.rs` is a crawler with
//! threads.
//!
//! # Async
//!
//! Changes through a [`SharedWriter`] are futures for any executor: `examples/service.rs`. Its lookups may run inline if
//! the filter fits into memory. All other calls may wait for the disk: make them on a thread that may block, for example
//! with tokio's `spawn_blocking`.
//!
//! # Errors
//!
//! [`Error`] names the file, the place and the remedy; [`Error::kind`] is the kind of failure. After an error nothing has
//! changed unless the error says otherwise. A batch does not fail because of a key that finds no room: [`Inserted`] lists
//! such keys. Closing a writer with uncommitted changes fails with [`Error::Uncommitted`]; dropping it rolls them back.
//!
//! # Features
//!
//! | feature | on | brings |
//! |---|---|---|
//! | `store` | yes | [`store`]: many filters under versions |
//! | `s3` | no | stores in buckets, `s3://bucket/prefix`: [`store`] |
//! | `gs` | no | the same in Google Cloud Storage, `gs://bucket/prefix` |
//! | `az` | no | the same in Azure Blob Storage, `az://container/prefix` |
//! | `serde` | no | `Serialize` for [`Info`], [`Plan`], [`Report`] and descriptions of stores |
//! | `tracing` | no | events for subscribers of the crate `tracing` |
//!
//! # Words
//!
//! | word | meaning |
//! |---|---|
//! | slot | the bits that hold one fingerprint of a key |
//! | bucket | 64 bits, 2 to 7 slots; a key's fingerprint is in one of two |
//! | load | slots in use, divided by all slots: 0 to 1 |
//! | generation | how often the filter has doubled |
//! | journal | the write-ahead log beside the file, `FILE-journal` |
//! | checkpoint | the file holds all commits, and the journal none |
//! | sealed | of a file: closed, and not changed any more; it is read without locks |
//! | shard | one of several filters that divide all keys among themselves |
//!
//! # Files
//!
//! A filter is `FILE`, with `FILE-journal` (only a header after a clean close) and `FILE-lock` (always empty) beside it.
//! To copy a filter, use [`Reader::copy_to`]. Copying only the file is right only while no writer has it open and the
//! last one closed it. The format is specified byte by byte in `format-spec/`.
//!
//! # Limits
//!
//! Unix only. Memory maps and `flock` must work, as they do on a local file system. No other process may shorten the file
//! while it is mapped, as `cp shorter live` does: accesses past the new end raise SIGBUS, and so do accesses to a block
//! that the disk cannot read. SIGBUS kills the process unless it has a handler, and the access cannot be continued. The
//! library installs no handler.
//!
//! If a filter of the same length or a longer one is written over the file, gowk notices: [`Error::Replaced`]. To replace
//! a filter, rename another one over it, or use [`Reader::copy_over`]. A process and its fork share the locks of a filter
//! that was opened before the fork: open it after forking.

// Documentation shows which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

#[cfg(not(unix))]
compile_error!("gowk needs flock, mmap and Unix file semantics");

mod cuckoo;
mod error;
mod events;
#[cfg(test)]
mod explorer;
mod file;
mod format;
mod growth;
mod info;
mod options;
mod read;
mod shared;
#[cfg(feature = "store")]
pub mod store;
mod system;
#[cfg(test)]
#[path = "../tests/thorough/mod.rs"]
mod thorough;
mod whole;
mod write;

pub use cuckoo::{
    Case, Expiry, HashKind, Key, KeyHash, KeyRules, Kind, Newest, Retention, Seed, SlotsPerBucket,
};
pub use error::{
    Difference, Error, ErrorKind, Expected, GrowthRefusal, IoError, JournalDefect, Result, ShrinkRefusal,
    Unsealed, Untrusted,
};
pub use format::{DamagedPage, Growth, Metadata};
pub use info::{Forecast, Info};
pub use options::{OnDamage, Options, Plan, Verify};
pub use read::{Lookup, Lookups, Reader, Report};
pub use shared::{Changes, Commits, Pending, SharedWriter};
pub use system::Files;
/// The disk under a filter, which tests replace. Not part of the stable interface.
#[doc(hidden)]
pub use system::disk;
pub use write::{Batches, Inserted, InsertedAt, Limits, Repair, Seen, Writer};

/// The README's example is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
