//! Lookups, from any number of processes and threads, beside a writer or without one.
//!
//! Uses [`file`](crate::file) and the wings below it. A [`Reader`] has a current view of the file; a view is one
//! opening of it. A lookup takes the first of these ways that serves it:
//!
//! | module | serves | relies on | gives up |
//! |---|---|---|---|
//! | `shortcut` | one key, n = 4, no shard, every page verified | after the reads, the apply epoch is the one noted before: even, and no flag was set | at any other epoch |
//! | `seqlock` | one key, any filter and page | "absent" only if the epoch, or the region's own sequence, was even and the same before and after the reads; verifies the pages first | when a writer seems to have died |
//! | `ring` | many keys, dozens under way at once | the epoch around a block of them | key by key, to the ways above |
//!
//! Invariants (`format-spec/README.md`, section 7):
//!
//! 1. A lookup answers "absent" only if nothing was applied around its reads.
//! 2. Readers see only durable commits.
//! 3. While a file says that it is superseded, a reader looks at the name before every answer. Otherwise it looks before
//!    every batch, in `reload`, and twice a second in single lookups through [`Lookups`].

mod in_memory;
mod lookup;
mod patience;
mod reader;
mod ring;
mod seqlock;
mod shortcut;
mod snapshot;
mod verify;
mod view;
mod watch;

pub use lookup::Lookup;
pub use reader::Reader;
pub(crate) use snapshot::Snapshot;
pub use verify::Report;
pub use watch::Lookups;
