//! Sealed files: filters at a checkpoint, closed, that never change again. They are opened without locks, and nothing is
//! written or synced.
//!
//! Invariants (`format-spec/README.md`, section 7.9):
//!
//! 1. The file is mapped before its state is read. If the state is then idle, the map shows every commit, and every
//!    commit applied later changes the epoch that lookups compare.
//! 2. A file that is in use, or has commits in a journal beside it, is refused: the file alone may lack commits.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::journal;
use super::live::LiveHead;
use super::medium::check_live;
use super::published::read_superblocks;
use crate::error::{Error, IoContext, Result, Unsealed};
use crate::format::{LIVE, RawSuperblocks, Superblocks};
use crate::system::{Disk, Files, Inode, Map, is_read_only};

/// A sealed file, mapped.
pub(super) struct Sealed {
    pub(super) map: Map,
    pub(super) superblocks: Superblocks,
    pub(super) inode: Inode,
}

/// Maps a file on a read-only mount as a sealed one, if it is at a checkpoint. If a writer reaches it through another
/// mount, the live area shows that, as always.
pub(super) fn map_where_read_only(files: &Files, disk: &dyn Disk, file: &File) -> Option<Sealed> {
    // If this fails, the ordinary opening reports the cause, and takes locks against writers elsewhere.
    if is_read_only(file) { map_sealed(files, disk, file).ok() } else { None }
}

/// Maps a sealed file; [`Error::NotSealed`] if it is in use or has commits in a journal.
pub(super) fn map_sealed(files: &Files, disk: &dyn Disk, file: &File) -> Result<Sealed> {
    let path = &files.data;
    let superblocks = read_superblocks(file, path)?.check(path)?;
    let map = Map::shared(file, superblocks.newest.identity.geometry).at(path, "map")?;
    // Read by a system call first: an unreadable block makes the call fail instead of killing the process.
    check_live(file, disk, path)?;
    let refused = |reason| Err(Error::NotSealed { path: path.clone(), reason });
    if map.needs_recovery() {
        return refused(Unsealed::InUse);
    }
    if journal::holds_anything(files)? {
        return refused(Unsealed::Journal);
    }
    let inode = Inode::of(&file.metadata().at(path, "look at")?);
    Ok(Sealed { map, superblocks, inode })
}

/// The bytes of a whole file, as copied by a program.
struct Image<'a>(&'a [u8]);

impl Image<'_> {
    fn at(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset).ok()?;
        self.0.get(start..start.checked_add(length)?)
    }
}

impl LiveHead for Image<'_> {
    fn live_word(&self, offset: u64) -> u64 {
        // Past the end, the state is not idle either.
        self.at(LIVE + offset, 8)
            .map_or(0, |word| word.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)))
    }

    fn fence(_: Ordering) {}
}

/// The superblocks of the bytes of a sealed file; [`Error::Unclosed`] if a writer had the file when they were copied.
pub(crate) fn check_image(bytes: &[u8], path: &Path) -> Result<Superblocks> {
    let image = Image(bytes);
    let read = |into: &mut [u8], offset| {
        // A short file has an empty slot past its end.
        if !into.is_empty() {
            into.copy_from_slice(image.at(offset, into.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        }
        Ok(())
    };
    let superblocks = RawSuperblocks::read(bytes.len() as u64, read).check(path)?;
    if image.needs_recovery() {
        return Err(Error::Unclosed { path: path.to_owned() });
    }
    Ok(superblocks)
}
