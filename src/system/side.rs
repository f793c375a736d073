//! Files that are opened by a name that gowk derives from another: the side files of a filter (journal and lock file),
//! and the files of a store.
//!
//! Anybody who may write to the folder can put something else under such a name. So such files are opened only here, by
//! the rules of `format-spec/README.md`, section 7.10:
//!
//! 1. No symbolic link is followed, and only a regular file is opened. Opening does not wait for the other end of a pipe.
//! 2. A side file that is opened for changes has one name.
//! 3. In a folder that everybody may write to, a side file belongs to the owner of the filter, to root, to this process'
//!    user, or to the group that shares the filter.
//! 4. Mode, owner and list are given only to files that this process has just created.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::disk::Disk;
use super::files::Files;
use super::rights::{self, Rights};
use crate::error::{Error, IoContext, Result, Untrusted};

const ROOT: u32 = 0;
const SETGID: u32 = 0o2000;
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

/// Opens a regular file of that name, and never a link; `None` if nothing has the name.
pub(crate) fn open_regular(path: &Path, write: bool) -> Result<Option<File>> {
    let untrusted = |problem| Error::Untrusted { path: path.to_owned(), problem };
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match OpenOptions::new().read(true).write(write).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::LOOP | Errno::MLINK) if path.is_symlink() => untrusted(Untrusted::SymbolicLink),
                Some(Errno::ISDIR | Errno::NXIO | Errno::NODEV) => untrusted(Untrusted::NotAFile),
                _ => Error::io(path, "open", error),
            });
        }
    };
    let is_file = file.metadata().at(path, "look at")?.is_file();
    if is_file { Ok(Some(file)) } else { Err(untrusted(Untrusted::NotAFile)) }
}

/// The length of the file of that name, without opening it; `None` if nothing has the name. The same rules apply.
pub(crate) fn length_of_regular(path: &Path) -> Result<Option<u64>> {
    let problem = match path.symlink_metadata() {
        Ok(metadata) if metadata.is_file() => return Ok(Some(metadata.len())),
        Ok(metadata) if metadata.is_symlink() => Untrusted::SymbolicLink,
        Ok(_) => Untrusted::NotAFile,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).at(path, "look at"),
    };
    Err(Error::Untrusted { path: path.to_owned(), problem })
}

impl Files {
    /// Opens a side file by all rules; `None` if it does not exist.
    pub(crate) fn open_side(&self, path: &Path, write: bool) -> Result<Option<File>> {
        let opened = match open_regular(path, write) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
                let op = "open, which needs the owner and the mode of the filter beside it,";
                Err(Error::Io { path: path.to_owned(), op, source })
            }
            opened => opened,
        };
        let Some(file) = opened? else { return Ok(None) };
        let metadata = file.metadata().at(path, "look at")?;
        if write && metadata.nlink() > 1 {
            let problem = Untrusted::HardLinks { links: metadata.nlink() };
            return Err(Error::Untrusted { path: path.to_owned(), problem });
        }
        self.check_owner(path, &metadata, Some(rustix::process::geteuid().as_raw()))?;
        Ok(Some(file))
    }

    /// Creates a side file with the rights of `model`; `None` if a file has the name.
    pub(crate) fn create_side(
        &self,
        disk: &dyn Disk,
        path: &Path,
        model: Option<&Rights>,
    ) -> Result<Option<File>> {
        let file = match rights::create(disk, path, model) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            outcome => outcome.at(path, "create")?,
        };
        let checked = self.check_created(path, &file);
        if checked.is_err() {
            let _ = disk.remove(path);
        }
        checked.map(|()| Some(file))
    }

    /// Whether the owner of the filter will trust a file that this process has just created.
    pub(super) fn check_created(&self, path: &Path, file: &File) -> Result<()> {
        self.check_owner(path, &file.metadata().at(path, "look at")?, None)
    }

    /// The third rule. `own` is the user of a process that opens the file, and `None` if the process has created it.
    fn check_owner(&self, path: &Path, side: &Metadata, own: Option<u32>) -> Result<()> {
        let folder = self.dir.metadata().at(&self.dir, "look at")?;
        if folder.mode() & OTHERS_WRITE == 0 || side.uid() == ROOT || own == Some(side.uid()) {
            return Ok(());
        }
        // In a folder with this bit all new files get its group, even strangers' files.
        let group_is_given = folder.mode() & SETGID != 0 && folder.gid() == side.gid();
        let trusts = |filter: &Metadata| {
            let shares = filter.mode() & GROUP_WRITES != 0 && filter.gid() == side.gid();
            filter.uid() == side.uid() || shares && !group_is_given
        };
        match self.data.symlink_metadata() {
            Ok(filter) if trusts(&filter) => Ok(()),
            // The creator of a filter becomes its owner.
            Err(error) if error.kind() == io::ErrorKind::NotFound && own.is_none() => Ok(()),
            _ => {
                let problem = Untrusted::Owner { found: side.uid() };
                Err(Error::Untrusted { path: path.to_owned(), problem })
            }
        }
    }
}

#[cfg(test)]
mod tests;
