//! The names of a filter's files, and what belongs to a file besides its bytes.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::disk::Disk;
use crate::error::{Error, IoContext, Result};

/// Characters that a temporary file's name adds at random.
const TEMPORARY_RANDOM: usize = 8;

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

    /// A new file beside the filter, to be renamed over it; removed when dropped.
    pub(crate) fn temporary(
        &self,
        disk: &dyn Disk,
        model: Option<&Metadata>,
    ) -> Result<tempfile::NamedTempFile> {
        tempfile::Builder::new()
            .prefix(&self.temporary_prefix())
            .suffix("")
            .rand_bytes(TEMPORARY_RANDOM)
            .make_in(&self.dir, |path| create(disk, path, model))
            .at(&self.dir, "create a temporary file in")
    }

    fn temporary_prefix(&self) -> OsString {
        let mut prefix = self.data.file_name().unwrap_or_default().to_owned();
        prefix.push("-new-");
        prefix
    }

    /// Removes the temporary files of writers that died. Only for the holder of the writer lock.
    pub(crate) fn remove_stale(&self, disk: &dyn Disk) -> Result<()> {
        let prefix = self.temporary_prefix();
        let prefix = prefix.as_encoded_bytes();
        for entry in self.dir.read_dir().at(&self.dir, "list")? {
            let entry = entry.at(&self.dir, "list")?;
            let name = entry.file_name();
            let random = name.as_encoded_bytes().strip_prefix(prefix);
            if random.is_some_and(|r| r.len() == TEMPORARY_RANDOM && r.iter().all(u8::is_ascii_alphanumeric))
            {
                disk.remove(&entry.path()).at(&entry.path(), "remove a stale temporary file")?;
            }
        }
        Ok(())
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Creates a file with the permissions of `model`, and its owner where the system lets us; without a model as
/// any new file, by the process's umask.
pub(crate) fn create(disk: &dyn Disk, path: &Path, model: Option<&Metadata>) -> io::Result<File> {
    let Some(model) = model else { return disk.create(path, 0o666) };
    let file = disk.create(path, model.permissions().mode() & 0o777)?;
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (model.uid(), model.gid()) {
        // Only root may give files away. A writer that may write to the old file but not own it goes on with
        // a file of its own; the permissions below are then what keeps others able to use it.
        let _ = std::os::unix::fs::fchown(&file, Some(model.uid()), Some(model.gid()));
    }
    // Again, as the umask may have taken some, and a change of owner others.
    file.set_permissions(model.permissions())?;
    Ok(file)
}

/// Writers need a file with one name: publishing replaces the name, and others would keep the old file.
pub(crate) fn check_single_name(path: &Path, metadata: &Metadata) -> Result<()> {
    match metadata.nlink() {
        0 | 1 => Ok(()),
        links => Err(Error::HardLinks { path: path.to_owned(), links }),
    }
}
