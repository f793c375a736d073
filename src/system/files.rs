//! The names of a filter's files, and the inodes that identify files under any name.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, IoContext, Result};

/// The most symbolic links followed for one name: Linux's limit.
const MOST_LINKS: usize = 40;

/// The files of one filter, by their canonical paths: a symbolic link and its target have one lock file.
///
/// A program that writes files beside filters asks [`Files::has`] first.
#[derive(Clone, Debug)]
pub struct Files {
    pub(crate) data: PathBuf,
    pub(crate) journal: PathBuf,
    pub(crate) lock: PathBuf,
    pub(crate) dir: PathBuf,
    /// No other process opens the filter, so its files are not locked.
    pub(crate) private: bool,
}

/// Device and inode: two files are the same if both agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Inode(u64, u64);

impl Inode {
    /// The inode of a filter that was read from bytes. No file system of Linux or macOS has a file 0.
    pub(crate) const OF_NO_FILE: Self = Self(0, 0);

    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self(metadata.dev(), metadata.ino())
    }
}

impl Files {
    /// The files of the filter at `path`. Its folder must exist; the filter need not.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the folder cannot be opened, [`Error::MountPoint`] if only the file is mounted there.
    pub fn new(path: &Path) -> Result<Self> {
        let files = Self::of_sealed(path)?;
        if is_mount_point(&files.data) {
            return Err(Error::MountPoint { path: files.data });
        }
        Ok(files)
    }

    /// Like `new`, for a filter that nobody writes to. The file itself may be a mount point.
    pub(crate) fn of_sealed(path: &Path) -> Result<Self> {
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
        let dir = data.parent().unwrap_or(Path::new("/")).to_owned();
        let (journal, lock) = (with_suffix(&data, "-journal"), with_suffix(&data, "-lock"));
        Ok(Self { journal, lock, dir, data, private: false })
    }

    /// The names that errors and paths show for a filter that was read from bytes. No file is opened by these names.
    pub(crate) fn of_bytes() -> Self {
        let data = PathBuf::from("<bytes>");
        let (journal, lock) = (with_suffix(&data, "-journal"), with_suffix(&data, "-lock"));
        Self { journal, lock, dir: PathBuf::new(), data, private: false }
    }

    /// The same files, of a filter that no other process opens.
    #[cfg(feature = "store")]
    pub(crate) fn private(self) -> Self {
        Self { private: true, ..self }
    }

    /// Whether `path` leads to a file of the filter, through links or under another name, or is a name that the filter
    /// uses while it doubles. The files need not exist yet.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("seen.gowk");
    /// let files = gowk::Files::new(&path)?;
    /// assert!(files.has(&dir.path().join("seen.gowk-journal")));
    /// assert!(!files.has(&dir.path().join("new.txt")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        let named = Self::resolved(path);
        if self.is_temporary(&named) {
            return true;
        }
        let inode = inode_of(path).unwrap_or_default();
        let is_same = |own: &Path| inode.is_some() && inode_of(own).unwrap_or_default() == inode;
        [&self.data, &self.journal, &self.lock].into_iter().any(|own| *own == named || is_same(own))
    }

    /// The path with all symbolic links resolved, even if no file has the last name yet. Two paths to one new file
    /// resolve to the same path.
    #[must_use]
    pub fn resolved(path: &Path) -> PathBuf {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            if let Ok(real) = path.canonicalize() {
                return real;
            }
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new(".")).canonicalize();
            let (Some(name), Ok(folder)) = (path.file_name(), folder) else { return path };
            let whole = folder.join(name);
            match whole.read_link() {
                Ok(target) => path = folder.join(target),
                Err(_) => return whole,
            }
        }
        path
    }

    /// The file that the name leads to now.
    pub(crate) fn inode(&self) -> Result<Option<Inode>> {
        inode_of(&self.data).at(&self.data, "look at")
    }
}

/// The file that a name leads to; `None` if it leads to no file.
pub(crate) fn inode_of(name: &Path) -> io::Result<Option<Inode>> {
    match name.metadata() {
        Ok(metadata) => Ok(Some(Inode::of(&metadata))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The names in a folder, in any order.
///
/// Does not use `std::fs::read_dir`, which panics if closing the folder fails, even though the names were read.
pub(crate) fn names(folder: &Path) -> io::Result<Vec<OsString>> {
    use rustix::fs::{Dir, Mode, OFlags, open};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut names = Vec::new();
    for entry in Dir::new(rustix::io::retry_on_intr(|| open(folder, flags, Mode::empty()))?)? {
        let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// Whether the path itself is a mount point, as `docker run -v FILE:FILE` makes it. After a doubling has published a new
/// file outside, such a mount still shows the old one. The journal and the lock file are not beside it, either.
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

/// Whether the file lies on a file system that is mounted read-only.
pub(crate) fn is_read_only(file: &File) -> bool {
    use rustix::fs::{StatVfsMountFlags, fstatvfs};
    fstatvfs(file).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// Whether the file lies on an overlay file system, which shows several folders as one.
#[cfg(target_os = "linux")]
pub(crate) fn is_layered(file: &File) -> bool {
    const OVERLAY: u64 = 0x794c_7630;
    // The field is signed on some targets and unsigned on others.
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn all_names_of_a_folder_are_listed_and_nothing_else_is_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let mut expected: Vec<OsString> = (0..1000).map(|number| format!("{number}").into()).collect();
        expected.push(OsStr::from_bytes(b"..\xff").to_owned());
        expected.iter().for_each(|name| drop(File::create_new(dir.path().join(name)).unwrap()));
        let mut found = names(dir.path()).unwrap();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
        assert_eq!(names(&dir.path().join("0")).unwrap_err().kind(), io::ErrorKind::NotADirectory);
        assert_eq!(names(&dir.path().join("absent")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn files_are_known_under_all_their_names_and_before_they_are_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let files = Files::new(&path("f")).unwrap();
        let own = ["f", "f-journal", "f-lock", "f-gowk-new-0000000000000001"];
        assert!(own.iter().all(|name| files.has(&path(name))));
        symlink("f-journal", path("link")).unwrap();
        symlink("link", path("link to a link")).unwrap();
        assert!(files.has(&path("link")) && files.has(&path("link to a link")));
        fs::write(path("f"), "").unwrap();
        fs::hard_link(path("f"), path("other name")).unwrap();
        fs::write(path("other file"), "").unwrap();
        symlink("loop", path("loop")).unwrap();
        assert!(files.has(&path("other name")) && files.has(&dir.path().join("./f")));
        let foreign = ["other file", "g", "f-new", "ff", "no folder/f", "loop"];
        assert!(!foreign.iter().any(|name| files.has(&path(name))));
        assert_eq!(Files::resolved(&path("link")), Files::resolved(&path("f-journal")));
    }
}
