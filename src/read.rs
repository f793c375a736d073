//! Lookups, from any number of processes and threads, beside a writer or without one.
//!
//! Uses [`file`](crate::file) and the wings below it. A [`Reader`] has a current view of the file; a view is one
//! opening of it. The same question is answered in one of these ways, the first that serves:
//!
//! | module | serves | relies on | gives up |
//! |---|---|---|---|
//! | `calm` | one key, n = 4, no shard, every page verified | the apply epoch is one that was found calm, before and after the reads | at any other epoch |
//! | `settled`, a glance | one key, both pages verified | no flag is set; "absent" only if the epoch was even and the same before and after | at a flag, or when something was applied |
//! | `settled`, with patience | one key, any page | as above, or the region's own sequence; verifies the pages first | when a writer seems to have died |
//! | `ring` | many keys, dozens under way at once | the epoch around a block of them | key by key, to the ways above |
//!
//! Invariants (`format-spec/README.md`, section 7):
//!
//! 1. "Absent" is answered only if nothing was applied around the reads.
//! 2. What can be seen is durable.
//! 3. While a file says that it is superseded, the name is looked at before every answer. Else it is looked at before
//!    every batch, and by a thread twice a second.

mod ahead;
mod calm;
mod in_memory;
mod lookup;
mod patience;
mod reader;
mod recent;
mod ring;
mod settled;
mod snapshot;
mod verify;
mod view;
mod watch;

pub use lookup::Lookup;
pub use reader::Reader;
pub(crate) use snapshot::Snapshot;
pub use verify::Report;
