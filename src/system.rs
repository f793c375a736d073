//! What the operating system gives: disks, files and their names, locks, memory maps, memory, random numbers and
//! threads.
//!
//! Uses [`format`](crate::format) and [`cuckoo`](crate::cuckoo) only for what a map must know to be safe and fast:
//! where in a file of some geometry its regions lie, and which of them is a key's.
//!
//! Invariants:
//!
//! 1. Everything that changes a disk goes through [`Disk`], at which tests record, fail and cut the power; only
//!    stores through a map do not, as no process relies on them after a crash.
//! 2. The only unsafe code of the crate is in `map.rs`, which hands out atomic loads and stores, and never a slice
//!    over shared memory.
//! 3. Locks are the kernel's, and go with the process that holds them.

pub mod disk;
pub(crate) mod files;
mod lock;
mod map;
pub(crate) mod memory;
mod random;
pub(crate) mod rights;
mod temporary;
mod threads;

pub(crate) use disk::{Disk, SystemDisk};
pub(crate) use files::{Files, Inode, is_layered};
pub(crate) use lock::{Deadline, Held, Presence, existing_lock_file, is_over, lock_file};
pub(crate) use map::{HEAD_WORDS, Map, MapMut, SharedMemory, Words};
pub(crate) use memory::{Paging, REGIONS_AHEAD};
pub(crate) use random::{new_uuid, random};
pub(crate) use rights::Rights;
#[cfg(feature = "ingest")]
pub(crate) use temporary::TEMPORARY;
pub(crate) use threads::on_threads;
