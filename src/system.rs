//! Everything that gowk asks of the operating system: disks, files and their names, rights, locks, memory maps, memory,
//! random numbers and threads.
//!
//! It uses [`format`](crate::format) and [`cuckoo`](crate::cuckoo) only to make a map safe and fast: where the regions of
//! a file lie, and to which of them a key belongs.
//!
//! Invariants:
//!
//! 1. Everything that changes a disk goes through [`Disk`], where tests record calls, make them fail and cut the power.
//!    Stores through a map do not: after a crash, no process relies on them.
//! 2. The only unsafe code of the crate is in `map.rs`. It gives out atomic loads and stores, and never a slice over
//!    shared memory.
//! 3. A name that is derived from another is opened in `side.rs`, which follows no links and gives no rights away.
//! 4. The kernel holds the locks, and frees them when their process dies.

pub mod disk;
pub(crate) mod files;
mod lock;
mod map;
pub(crate) mod memory;
mod random;
pub(crate) mod rights;
mod side;
mod temporary;
mod threads;

pub(crate) use disk::{Disk, SystemDisk};
pub use files::Files;
#[cfg(feature = "store")]
pub(crate) use files::names;
pub(crate) use files::{Inode, is_layered, is_read_only};
pub(crate) use lock::{Deadline, Held, Presence, existing_lock_file, is_over, lock_file};
#[cfg(feature = "store")]
pub(crate) use map::PlainMap;
pub(crate) use map::{HEAD_WORDS, Map, MapMut, RegionsMut, SharedMemory, Words, WordsMut};
pub(crate) use memory::{Paging, REGIONS_AHEAD, quarter};
pub(crate) use random::{new_uuid, random};
pub(crate) use rights::Rights;
pub(crate) use side::{length_of_regular, open_regular};
#[cfg(feature = "store")]
pub(crate) use threads::on_each_index;
pub(crate) use threads::on_threads;
