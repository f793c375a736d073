//! The folder of `--scratch`. Each run makes a folder of its own in it, removes that folder at the end, and removes the
//! folders that killed runs have left.
//!
//! Invariants:
//!
//! 1. A run locks its folder until the run ends, however it ends. Another run removes a folder only while it holds the
//!    folder's lock itself.
//! 2. Only folders of the same user with this prefix, and their contents, are removed. Links are not followed.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use tempfile::{Builder, TempDir};

use super::failure::Failure;
use super::output::note;

const PREFIX: &str = "gowk-scratch-";

/// A folder for the working copies of one run.
pub(super) struct Scratch {
    folder: TempDir,
    /// `None` if the file system has no locks. Then no folder is removed there.
    _lock: Option<File>,
}

impl Scratch {
    pub(super) fn open(parent: &Path) -> Result<Self, Failure> {
        let failed = |op| Failure::of_file(parent, op);
        let make =
            || Builder::new().prefix(PREFIX).permissions(Permissions::from_mode(0o700)).tempdir_in(parent);
        loop {
            let folder = make().map_err(failed("make a folder in"))?;
            match lock(folder.path()) {
                Ok(Some(lock)) => {
                    remove_left(parent, lock.metadata().map_err(failed("look at a folder in"))?.uid());
                    return Ok(Self { folder, _lock: Some(lock) });
                }
                // Before this run locked it, another run took it for the folder of a killed run.
                Ok(None) => {}
                Err(_) => return Ok(Self { folder, _lock: None }),
            }
        }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders that killed runs of this user have left. Skips a folder that cannot be removed.
fn remove_left(parent: &Path, user: u32) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
            && let Ok(Some(lock)) = lock(&path)
            && lock.metadata().is_ok_and(|metadata| metadata.uid() == user)
            && fs::remove_dir_all(&path).is_ok()
        {
            note(format_args!("{}: was left by a run that was killed, and was removed", path.display()));
        }
    }
}

/// The lock of a folder. `None` if another run has it, or if this is no longer a folder.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(folder) = open(path, flags, Mode::empty()).map(File::from) else { return Ok(None) };
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return Ok(None),
        outcome => outcome?,
    }
    let (locked, named) = (folder.metadata()?, path.symlink_metadata());
    let is_there = named.is_ok_and(|named| (named.dev(), named.ino()) == (locked.dev(), locked.ino()));
    Ok(is_there.then_some(folder))
}
