//! The names of a filter's files, and what belongs to a file besides its bytes.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, IoContext, Result};

/// The files of one filter, by their canonical names: a symlink and its target share one lock.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) data: PathBuf,
    pub(crate) journal: PathBuf,
    pub(crate) lock: PathBuf,
    pub(crate) dir: PathBuf,
}

/// What tells one file from another, whatever their names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Inode(u64, u64);

impl Inode {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self(metadata.dev(), metadata.ino())
    }
}

impl Files {
    /// The files of the filter at `path`, which need not exist; its folder must.
    pub(crate) fn new(path: &Path) -> Result<Self> {
        let data = match path.canonicalize() {
            Ok(data) => data,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
                let name = path.file_name().ok_or(error).at(path, "open")?;
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                let parent = parent.unwrap_or(Path::new("."));
                parent.canonicalize().at(parent, "open the folder")?.join(name)
            }
            Err(error) => return Err(error).at(path, "open"),
        };
        if is_mount_point(&data) {
            return Err(Error::MountPoint { path: data });
        }
        let dir = data.parent().unwrap_or(Path::new("/")).to_owned();
        Ok(Self { journal: with_suffix(&data, "-journal"), lock: with_suffix(&data, "-lock"), dir, data })
    }

    /// The file that the name leads to now.
    pub(crate) fn inode(&self) -> Result<Option<Inode>> {
        match self.data.metadata() {
            Ok(metadata) => Ok(Some(Inode::of(&metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).at(&self.data, "look at"),
        }
    }
}

/// Whether something is mounted at the very path, as `docker run -v FILE:FILE` does. Such a mount stays with the file
/// that it was made of when another one takes the name, and hides the files beside it.
#[cfg(target_os = "linux")]
fn is_mount_point(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::empty());
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)) && path.is_file()
}

#[cfg(not(target_os = "linux"))]
const fn is_mount_point(_: &Path) -> bool {
    false
}

/// Whether the file lies on a file system that shows several others as one.
#[cfg(target_os = "linux")]
pub(crate) fn is_layered(file: &File) -> bool {
    const OVERLAY: u64 = 0x794c_7630;
    // Signed here, unsigned there.
    rustix::fs::fstatfs(file).is_ok_and(|found| u64::try_from(found.f_type) == Ok(OVERLAY))
}

#[cfg(not(target_os = "linux"))]
pub(crate) const fn is_layered(_: &File) -> bool {
    false
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
