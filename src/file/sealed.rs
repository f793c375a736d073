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
use super::open::{OpenedToRead, open_data};
use super::published::read_superblocks;
use crate::error::{Error, IoContext, Result, Unsealed};
use crate::system::{Disk, Files, Inode, Map, is_read_only};

/// Opens a sealed file; [`Error::NotSealed`] where it is none.
pub(super) fn open_sealed(files: &Files, disk: &dyn Disk) -> Result<OpenedToRead> {
    open(files, disk, open_data(&files.data, false)?)
}

/// Opens a file of a file system that is only read from here, if it may be taken for a sealed one; else gives it back.
/// Whoever writes to it elsewhere is noticed as ever, by the live area.
pub(super) fn open_where_read_only(
    files: &Files,
    disk: &dyn Disk,
    file: File,
) -> Result<Result<OpenedToRead, File>> {
    if !is_read_only(&file) {
        return Ok(Err(file));
    }
    let again = file.try_clone().at(&files.data, "open")?;
    // The ordinary way says what is wrong, and knows of writers elsewhere.
    Ok(open(files, disk, file).map_err(|_| again))
}

fn open(files: &Files, disk: &dyn Disk, file: File) -> Result<OpenedToRead> {
    let path = &files.data;
    let superblocks = read_superblocks(&file, path)?.check(path)?;
    let map = Map::shared(&file, superblocks.newest.identity.geometry).at(path, "map")?;
    // By a call, before it is read through the map.
    check_live(&file, disk, path)?;
    let refused = |reason| Err(Error::NotSealed { path: path.clone(), reason });
    if map.is_unsettled() {
        return refused(Unsealed::InUse);
    }
    if journal::holds_anything(files)? {
        return refused(Unsealed::Journal);
    }
    let inode = Inode::of(&file.metadata().at(path, "look at")?);
    Ok(OpenedToRead { file, map, superblocks, inode, unrecovered: None })
}
