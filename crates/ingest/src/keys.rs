//! Keys on their way from a stream into a filter.
//!
//! The tool and the [ingest jobs](crate) feed their filters with this module. A separate thread reads, so that a slow
//! stream delays nothing else: the receiver of the keys does not block while none has come, and a clock or a signal can
//! wake it.
//!
//! * A [`Batch`] holds any number of keys one after the other, in two allocations.
//! * [`Lines`] cuts a stream into batches.
//! * A [`Feed`] is a thread that reads, and a bounded queue of the messages that it sends.
//! * [`Foreign`] recognizes, by their first bytes, formats that gowk does not read.
//! * A [`CommitClock`] says when to commit: after a number of keys, or after a time.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("seen.gowk");
//! use std::time::{Duration, Instant};
//!
//! use gowk::Batches;
//! use gowk_ingest::keys::{self, Batch, CommitClock, Feed, Lines, Next};
//!
//! let stream: &[u8] = b"https://example.org/\nhttps://example.com/\nhttps://example.org/\n";
//! let mut feed = Feed::<Batch, keys::Error>::start("reading", 16, move |to| {
//!     for batch in Lines::new(stream, b'\n') {
//!         if to.send(batch?).is_err() {
//!             break; // nobody takes any more
//!         }
//!     }
//!     Ok(())
//! })?;
//!
//! let mut writer = gowk::Options::new().open(&path)?;
//! let mut clock = CommitClock::new(None, Some(Duration::from_secs(10))).amortized();
//! let mut new = Vec::new();
//! loop {
//!     match feed.next(clock.deadline())? {
//!         Next::Message(batch) => {
//!             let keys: Vec<&[u8]> = batch.iter().collect();
//!             let inserted = writer.insert_batch(&keys)?;
//!             new.extend(keys.iter().zip(inserted.mask()).filter(|(_, new)| *new).map(|(key, _)| key.to_vec()));
//!             for (index, reason) in inserted.refused() {
//!                 eprintln!("no room for {:?}: {reason}", keys[*index]);
//!             }
//!             clock.take(keys.len() as u64);
//!         }
//!         Next::Woken => {}
//!         Next::End => break,
//!     }
//!     if clock.is_due() {
//!         let begun = Instant::now();
//!         writer.commit()?;
//!         clock.commit(begun.elapsed());
//!     }
//! }
//! writer.commit()?;
//! assert_eq!(new, [b"https://example.org/", b"https://example.com/"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod clock;
mod feed;
mod foreign;
mod lines;

pub use batch::Batch;
pub use clock::CommitClock;
pub use feed::{Feed, Next, Sender, Stopped};
pub use foreign::Foreign;
pub use lines::{Error, Lines};

/// The most bytes that a key from a stream may have: 16 MiB.
pub const LONGEST: usize = 16 << 20;
