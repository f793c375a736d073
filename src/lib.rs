//! A persistent, crash-safe, on-disk cuckoo filter.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod bucket;
mod commit;
mod copy;
mod counts;
#[doc(hidden)]
pub mod disk;
mod error;
mod files;
mod format;
mod grow;
mod hash;
mod info;
mod journal;
mod live;
mod lock;
mod map;
mod metadata;
mod offset;
mod open;
mod options;
mod overlay;
mod page;
mod reader;
mod recover;
mod region;
mod repair;
mod sizing;
mod store;
mod transaction;
mod unpublished;
mod verify;
mod view;
mod writer;

pub use error::{Error, Expected, GrowthRefusal, JournalDefect, Result};
pub use format::Growth;
pub use hash::{HashKind, KeyHash};
pub use info::{Forecast, Info};
pub use metadata::Metadata;
pub use options::{OnDamage, Options};
pub use page::Verify;
pub use reader::Reader;
pub use repair::Repair;
pub use sizing::SlotsPerBucket;
pub use verify::{DamagedPage, Report};
pub use writer::Writer;
