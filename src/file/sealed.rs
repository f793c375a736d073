//! Sealed files: filters at a checkpoint, closed, that nobody changes any more. They are opened without locks, and
//! nothing is written or synced.
//!
//! Invariants (`format-spec/README.md`, section 7.9):
//!
//! 1. The file is mapped before its state is looked at. If it is idle then, the map shows every commit, and whatever
//!    is applied later changes the epoch that lookups compare.
//! 2. A file that is in use, or has commits in a journal beside it, is refused: what it holds may not be whole.

use std::fs::File;

use super::journal;
use super::live::LiveHead;
use super::medium::check_live;
use super::published::read_superblocks;
use crate::error::{Error, IoContext, Result, Unsealed};
use crate::format::Superblocks;
use crate::system::{Disk, Files, Inode, Map, is_read_only};

/// A sealed file, mapped.
pub(super) struct Sealed {
    pub(super) map: Map,
    pub(super) superblocks: Superblocks,
    pub(super) inode: Inode,
}

/// Maps a file of a file system that is only read from here, if it may be taken for a sealed one. Whoever writes to it
/// elsewhere is noticed as ever, by the live area.
pub(super) fn map_where_read_only(files: &Files, disk: &dyn Disk, file: &File) -> Option<Sealed> {
    // The ordinary way says what is wrong, and knows of writers elsewhere.
    if is_read_only(file) { map_sealed(files, disk, file).ok() } else { None }
}

/// Maps a sealed file; [`Error::NotSealed`] where it is none.
pub(super) fn map_sealed(files: &Files, disk: &dyn Disk, file: &File) -> Result<Sealed> {
    let path = &files.data;
    let superblocks = read_superblocks(file, path)?.check(path)?;
    let map = Map::shared(file, superblocks.newest.identity.geometry).at(path, "map")?;
    // By a call, before it is read through the map.
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
