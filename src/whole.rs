//! Operations on whole filters, which need none of their keys: copying, dividing and joining, merging, shrinking, sealing.
//!
//! Uses [`read`](crate::read) for a filter as of one commit ([`Snapshot`](crate::read::Snapshot)), and
//! [`write`](crate::write) for the transaction or the new filter that the outcome belongs to. They are methods of
//! [`Reader`](crate::Reader), where the outcome is a new file, and of [`Writer`](crate::Writer), where it belongs to the
//! open transaction.
//!
//! Invariants (`format-spec/README.md`, section 8):
//!
//! 1. Everything read from a filter belongs to one commit; otherwise it is given up and read again.
//! 2. The outcome stays in an unpublished file until it is whole; then a commit gives that file its name.

mod copy;
mod divide;
mod join;
mod merge;
#[cfg(feature = "store")]
mod seal;
mod shrink;
