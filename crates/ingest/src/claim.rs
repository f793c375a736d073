//! One run at a time writes to an output. A later run cuts off only bytes that a run with the same owner wrote.
//!
//! Invariants:
//!
//! 1. A run locks each of its output files until the run ends, however it ends.
//! 2. A run marks its output files with its own name before it writes to them, in the extended attribute `user.gowk`. So
//!    after a kill, the next run sees whether another run has appended since. On a file system without such attributes,
//!    it cannot see that.

use std::fs::File;

use rustix::fs::{FlockOperation, XattrFlags, fgetxattr, flock, fsetxattr};
use rustix::io::Errno;
use xxhash_rust::xxh3::xxh3_128;

const MARK: &str = "user.gowk";

/// The name that runs of one verb or job, into one filter, mark their outputs with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner([u8; 16]);

impl Owner {
    /// The runs of the verb or job `name` into the filter or store with this uuid.
    pub fn new(uuid: [u8; 16], name: &str) -> Self {
        Self(xxh3_128(&[&uuid[..], name.as_bytes()].concat()).to_le_bytes())
    }

    /// Locks an output until its file is closed, and finds out which run wrote to it last.
    pub fn claim(self, output: &File) -> Claim {
        // On a file system without locks, the user must not let two runs write to it at once.
        if flock(output, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Claim::Busy;
        }
        let mut mark = [0; 16];
        match fgetxattr(output, MARK, &mut mark) {
            Ok(length) if (length, mark) == (mark.len(), self.0) => Claim::Own,
            Ok(_) | Err(Errno::RANGE) => Claim::Others,
            // There is no mark, or the file system stores none.
            Err(_) => Claim::Own,
        }
    }

    /// Marks an output that this run is about to write to. Does nothing if the file system stores no marks.
    pub fn mark(self, output: &File) {
        let _ = fsetxattr(output, MARK, &self.0, XattrFlags::empty());
    }
}

/// The state of an output as a run found it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// The last run that wrote to the file had the same owner, or the file has no mark.
    Own,
    /// The last run that wrote to the file had another owner.
    Others,
    /// Another run writes to the file.
    Busy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_claimed_by_one_run_at_a_time_and_shows_whose_the_last_one_was() {
        let dir = tempfile::tempdir().unwrap();
        let open = || File::options().append(true).create(true).open(dir.path().join("out")).unwrap();
        let [one, other] = ["one", "other"].map(|name| Owner::new([7; 16], name));
        let first = open();
        assert_eq!((one.claim(&first), one.claim(&open())), (Claim::Own, Claim::Busy));
        one.mark(&first);
        drop(first);
        if fgetxattr(open(), MARK, &mut [0; 16]).is_err() {
            println!("not run: this file system has no extended attributes");
            return;
        }
        // Each lock ends when its file is closed.
        let claims = || [one, other].map(|owner| owner.claim(&open()));
        assert_eq!(claims(), [Claim::Own, Claim::Others]);
        other.mark(&open());
        assert_eq!(claims(), [Claim::Others, Claim::Own]);
    }
}
