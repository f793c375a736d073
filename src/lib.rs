//! A persistent, crash-safe, on-disk cuckoo filter: has this key been seen?
//!
//! For sets too large to keep whole, in about two bytes a key. The answer "no" is always right; the answer
//! "yes" is wrong at a rate that is known, and chosen at creation. Unlike a Bloom filter it deletes, counts, and
//! grows without the original keys. It lives in one file that any number of processes read through mmap while
//! one locked writer adds to it, and it survives `kill -9` and power loss.
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
//! # Two kinds of filters
//!
//! What a filter is, its [`Kind`], is fixed when it is created:
//!
//! * A **set**, unless asked for otherwise: [`Writer::insert`] stores a key only if it is not found, and nothing is
//!   removed.
//! * A **counting** filter ([`Options::counting`]): [`Writer::insert`] stores one more copy, and [`Writer::remove`] takes
//!   one. Remove only what was inserted. A key with more copies than can be counted, tens of thousands with four slots per
//!   bucket ([`SlotsPerBucket::highest_count`]), stays for good.
//!
//! On both, an insert returns whether the key was not there before. Batches and iterators of keys: [`Change`]. Lookups in
//! filters and stores: [`Lookup`].
//!
//! # Words
//!
//! | word | meaning |
//! |---|---|
//! | key | the user's bytes, of any length, none too |
//! | slot | W bits that hold one fingerprint; 0 is empty |
//! | bucket | 64 bits, n slots; a key's fingerprint is in one of two |
//! | page | 4 KiB, 512 buckets: the unit of checksums |
//! | region | 64 KiB, 16 pages: the unit of addressing, of applying commits, and of doubling |
//! | tag | the high bits of a fingerprint, which choose the second bucket and never change |
//! | tail | the rest of it, which loses one bit with each doubling |
//! | void | an entry without a tail; universal: a slot that matches everything, left by repair |
//! | generation | how often the filter has doubled |
//! | journal | the write-ahead log beside the file, `FILE-journal` |
//! | checkpoint | the file holds all commits, and the journal none |
//!
//! Further words, after which the files of the source are named (`ARCHITECTURE.md` says how they lie):
//!
//! | word | meaning |
//! |---|---|
//! | hash | 128 bits of a key: the region and the tail come from the high half, the bucket and the tag from the low one |
//! | kind | what a filter is, from its creation on: a set, or a counting filter |
//! | width | how a bucket is divided: its slots, and the bits of each and of its tag |
//! | offset | what a tag adds, by exclusive or, to the index of one bucket of an entry to give the other |
//! | shard | one of several filters that divide all keys among themselves; each key belongs to one of them |
//! | sizing | the slots per bucket for a rate, the regions for a capacity |
//! | group | an entry and the *digits* in the slots above it, which count its copies |
//! | search | for moves of entries and groups to their other buckets, until there is room |
//! | counts | counters kept with each commit: entries by the length of their tail, inserts, removals |
//! | error | why a call failed: file, place and remedy |
//! | layout | where in the file everything lies |
//! | superblock | what the file is and which commit its data holds; written twice, so that one is always whole |
//! | checks | what must hold of a superblock before any of it is believed |
//! | metadata | names and bytes that users keep in the filter |
//! | frame | a piece of the journal, with a checksum; a *scan* finds those that count |
//! | disk | the operations that change a disk, behind one trait |
//! | files | the data file, the journal and the lock file, by canonical paths |
//! | rights | a file's mode, owner, group and access control list |
//! | temporary | of a file: made beside the filter, and not published yet |
//! | random | numbers from the operating system, for seeds, salts and uuids |
//! | lock | the gate and the turn, held while opening; the writer lock and the presence, held by a writer |
//! | memory | how much of it the process may use, and whether a file fits into it |
//! | threads | work that is divided over several of them |
//! | map | a file, or part of it, as memory |
//! | pages | of a file under a map: each is compared with its checksum before it is first used |
//! | medium | the file read by system calls, which fail where reading a map would kill the process |
//! | live area | what a writer tells readers while it works: the apply epoch, a sequence for each region, counts |
//! | overlay | changes to pages that are not in the file yet |
//! | later | of a frame: with a commit higher than the one that is due |
//! | sealed | of a file: at a checkpoint, closed, and not changed any more; it is read without locks |
//! | open | who takes which lock in which order, and who recovers |
//! | published | with the filter's name, for all to see; an *unpublished* file is one being filled, or doubled into |
//! | recovery | redoing what the journal holds after its writer died |
//! | lookup | the question whether a key is present, or how often |
//! | reader | a filter open for lookups; a *writer* is one open for changes |
//! | view | one opening of the file for reading; the *recent* one is that which a thread looked into last |
//! | watch | to look from time to time whether a name leads to another file by now |
//! | snapshot | what a reader sees at one commit |
//! | in memory | of a copy of the file that no disk is needed for |
//! | patience | how long a reader waits for a moment at which nothing changes |
//! | verify | to read all and compare it with its checksums |
//! | calm | an epoch that is even, and at which no flag was set |
//! | settled | read while nothing was applied |
//! | ring | lookups of a batch, dozens of which are under way at once |
//! | transaction | all changes since the last commit; those *pending* are not sorted by page yet |
//! | commit | a transaction made durable, and its number |
//! | copy | a new file with the same keys, as of one commit |
//! | target | where changes go: a published file under an overlay, or an unpublished one |
//! | divide | to cut the regions of a filter apart, into shards; to *join* is to put those of shards together |
//! | create | to make a new filter, which has its name from its first commit on |
//! | insert | to store a key, or one more copy of it; *batches* of keys are inserted, removed and looked up together |
//! | inserted | of a batch: which of its keys are new, and which found no room |
//! | partition | the keys of a batch, divided by region; a *scratch* is one region unpacked for many of them |
//! | policy | whether a filter doubles itself, and to what limits |
//! | doubling | streaming a file into one of twice as many regions; growth is refused where it would gain little |
//! | shrink | to undo a doubling: two regions become one |
//! | merge | to store what another filter holds, without its keys |
//! | repair | giving up damaged pages, so that what is left never answers "absent" wrongly |
//! | store | a folder of sealed filters, one for each shard, under *versions*; its *description* says what was fixed when it was created |
//! | version | which file each shard of a store has, at one moment; all of them are its *history* |
//! | update | changes to shards of a store, in working copies that one commit publishes |
//! | vacuum | removing versions of a store that nobody needs any more, and what updates have left |
//! | feed | a thread that reads keys ahead, each *batch* cut out of *lines*; a *clock* says when to commit them |
//! | job | a file that says which *inputs* to ingest into which filter, in which *format* (CSV, JSON Lines); its filter, *output* and job file are its *own*; its *text* has *known* keys, one table of them for the *creation* of a filter |
//! | plan, run, summary | what a new filter, or a run of a job, would be; the run, by its *engine*; what it has done |
//! | content | the bytes of an input, *decode*d; it is divided into *records*, by *rules*; a *fingerprint* tells whether it is still the same |
//! | cursor | what a filter remembers of a job: how far its inputs are read, and how long its output is |
//! | verb | one of the tool's commands, with its *arguments*; it ends with an *outcome* or a *failure*; a *bar* or the *pace* shows how far it is; a *report* says what a job did |
//! | quantity | a number, size or time as people write it |
//! | intake | keys from the tool's arguments or input into a writer, until the end or a signal to *stop* |
//!
//! # Stores
//!
//! For sets past one file or one machine, the module `store` (feature `store`) keeps many filters in a folder, under
//! versions: any number of processes read and change it, on any file system, without locks.
//!
//! # Files
//!
//! A filter is `FILE`, with `FILE-journal` (empty but for a header after a clean close) and `FILE-lock` (always
//! empty) beside it. To copy a filter, use [`Reader::copy_to`]; copying the file alone is right only while no
//! writer has it and the last one closed it. The format is specified byte by byte in `format-spec/`.
//!
//! # Limits
//!
//! Unix only. Memory maps and `flock` must work: a local file system. No other process may cut the file short
//! while it is mapped: accesses behind the cut raise SIGBUS. A filter opened by a process and by its fork is
//! one filter to the kernel's locks: open it after forking.

// Documentation shows which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

#[cfg(not(unix))]
compile_error!("gowk needs flock, mmap and Unix file semantics");

/// The tool names what users call as they do.
#[cfg(feature = "cli")]
extern crate self as gowk;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
mod cuckoo;
mod error;
mod events;
mod file;
mod format;
mod growth;
mod info;
#[cfg(feature = "ingest")]
pub mod ingest;
#[cfg(feature = "keys")]
pub mod keys;
mod options;
mod read;
#[cfg(feature = "store")]
pub mod store;
mod system;
mod write;

pub use cuckoo::{HashKind, Key, KeyHash, Kind, Seed, SlotsPerBucket};
pub use error::{Difference, Error, Expected, GrowthRefusal, JournalDefect, Result, ShrinkRefusal, Unsealed};
pub use format::{DamagedPage, Growth, Metadata};
pub use info::{Forecast, Info};
pub use options::{OnDamage, Options, Plan, Verify};
pub use read::{Lookup, Reader, Report};
#[doc(hidden)]
pub use system::disk;
pub use write::{Change, Inserted, Limits, Repair, Writer};

/// The README's example is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
