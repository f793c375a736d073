//! The shared file: a writer changes it while any number of processes read it. And the protocols that keep it whole.
//!
//! Uses [`cuckoo`](crate::cuckoo), [`format`](crate::format) and [`system`](crate::system).
//!
//! Invariants (`format-spec/README.md`, sections 6 to 8):
//!
//! 1. A transaction is in the journal, and the journal synced, before any part of it reaches a published file.
//! 2. A page is verified before it is first used or changed: damage is never sealed under a fresh checksum.
//! 3. The live area tells readers whether a commit was applied around their reads.
//! 4. Nobody sees an unpublished file before it is synced and has the filter's name.
//! 5. A file that is not known to hold all its commits is recovered before it is used.

pub(crate) mod journal;
pub(crate) mod live;
mod medium;
mod open;
mod overlay;
mod pages;
mod published;
mod recover;
mod sealed;
mod unpublished;

pub(crate) use journal::Journal;
pub(crate) use live::{LiveCopy, LiveHead, LiveRead};
pub(crate) use medium::{Medium, OfPages, Sums};
pub(crate) use open::{OpenedToRead, OpenedToWrite, lock_absent, needs_no_sync, open_reader, open_writer};
pub(crate) use overlay::{Overlay, RegionBits, RegionChange, changed_pages};
pub(crate) use pages::{Pages, Region, is_file_of};
pub(crate) use published::{Found, PublishedFile, read_superblocks};
pub(crate) use recover::{Decision, Redo, judge};
pub(crate) use sealed::check_image;
pub(crate) use unpublished::{Flush, UnpublishedFile, UnpublishedRegion, check_room, image_of};
