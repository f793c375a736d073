//! Changes: the one process that writes, its open transaction, and how a commit becomes part of the file.
//!
//! Uses [`file`](crate::file) and the wings below it. [`whole`](crate::whole), which rebuilds whole filters, uses this
//! wing.
//!
//! Invariants (`format-spec/README.md`, sections 6 and 8):
//!
//! 1. All changes belong to a transaction; only its writer sees them before it is committed.
//! 2. A commit is durable and visible as a whole when it returns.
//! 3. After a failure whose outcome is unknown, the writer is poisoned: it refuses every later call.

mod batches;
mod commit;
mod create;
mod doubling;
mod forgetting;
mod inserted;
mod lifetime;
mod lookup;
mod partition;
mod pending;
mod policy;
mod rebuild;
mod repair;
mod scratch;
mod shadow;
mod single;
mod target;
mod time;
mod transaction;
mod work;
mod writer;

pub use batches::Batches;
pub use inserted::Inserted;
#[cfg(feature = "store")]
pub(crate) use inserted::by_index;
#[cfg(feature = "store")]
pub(crate) use partition::Told;
pub use policy::Limits;
#[cfg(feature = "store")]
pub(crate) use rebuild::Contents;
pub use repair::Repair;
pub(crate) use target::Target;
#[cfg(feature = "store")]
pub(crate) use time::{InTime, Time, Until, millis};
pub use time::{InsertedAt, Seen};
pub use writer::Writer;
