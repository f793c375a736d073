//! Operations on whole filters that need no keys: copying, dividing and joining, merging, shrinking, sealing.
//!
//! Uses [`read`](crate::read) for a filter as of one commit ([`Snapshot`](crate::read::Snapshot)), and
//! [`write`](crate::write) for the transaction or the new filter with the outcome. An operation is a method of
//! [`Reader`](crate::Reader) if its outcome is a new file, and of [`Writer`](crate::Writer) if its outcome belongs to the
//! open transaction.
//!
//! Invariants (`format-spec/README.md`, section 8):
//!
//! 1. All data read from a filter belongs to one commit; otherwise it is discarded and read again.
//! 2. The outcome stays in an unpublished file until it is whole; then a commit gives that file its name.

mod copy;
mod divide;
mod join;
mod merge;
#[cfg(feature = "store")]
mod seal;
mod shrink;
