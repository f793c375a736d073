//! The two locks of a filter, both `flock`: the kernel frees them when their owner dies.
//!
//! * The **gate** is on the data file itself, held only while opening (and recovering).
//! * The **writer lock** is on `FILE-lock`, which is never renamed or removed. It is only touched under the
//!   gate, and tried, never waited for. *Held exclusively* means: its owner has recovered the file and writes.
//!
//! A lock is given up explicitly: a mapping keeps its descriptor's lock alive even when the descriptor is
//! closed.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

use fs2::FileExt;

use super::disk::Disk;
use super::files;
use super::files::Files;
use crate::error::{IoContext, Result};

/// A lock on a file, given up when dropped.
#[derive(Debug)]
pub(crate) struct Held(File);

impl Held {
    /// Waits for others to give up exclusive locks.
    pub(crate) fn shared(file: &File, path: &Path) -> Result<Self> {
        Self::wait(file, path, FileExt::lock_shared)
    }

    /// Waits for others to give up all locks.
    pub(crate) fn exclusive(file: &File, path: &Path) -> Result<Self> {
        Self::wait(file, path, FileExt::lock_exclusive)
    }

    fn wait(file: &File, path: &Path, lock: impl Fn(&File) -> io::Result<()>) -> Result<Self> {
        let file = file.try_clone().at(path, "lock")?;
        uninterrupted(|| lock(&file)).at(path, "lock")?;
        Ok(Self(file))
    }

    /// A shared lock, unless somebody holds it exclusively.
    pub(crate) fn try_shared(file: File, path: &Path) -> Result<Option<Self>> {
        let free = contended(uninterrupted(|| FileExt::try_lock_shared(&file))).at(path, "lock")?;
        Ok(free.then_some(Self(file)))
    }

    /// A shared lock made exclusive, unless somebody else holds one too; it is then lost, as the conversion is
    /// not atomic.
    pub(crate) fn try_into_exclusive(self, path: &Path) -> Result<Option<Self>> {
        let free = contended(uninterrupted(|| FileExt::try_lock_exclusive(&self.0))).at(path, "lock")?;
        Ok(free.then_some(self))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Cannot fail on a descriptor that holds a lock; and if it did, the lock would go with the process.
        let _ = FileExt::unlock(&self.0);
    }
}

fn uninterrupted(mut call: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

fn contended(outcome: io::Result<()>) -> io::Result<bool> {
    match outcome {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == fs2::lock_contended_error().raw_os_error() => Ok(false),
        Err(error) => Err(error),
    }
}

/// The file of the writer lock, created like `model` where it does not exist.
pub(crate) fn lock_file(files: &Files, disk: &dyn Disk, model: Option<&Metadata>) -> Result<File> {
    loop {
        match OpenOptions::new().read(true).write(true).open(&files.lock) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            outcome => return outcome.at(&files.lock, "open"),
        }
        match files::create(disk, &files.lock, model) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            outcome => return outcome.at(&files.lock, "create"),
        }
    }
}

/// The file of the writer lock for a reader, who needs no more than to open it; `None` where there is none, and
/// so no writer either.
pub(crate) fn existing_lock_file(files: &Files) -> Result<Option<File>> {
    match File::open(&files.lock) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).at(&files.lock, "open"),
    }
}
