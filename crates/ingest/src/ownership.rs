//! The files that belong to a job itself. A job's output cannot be a file of its filter, and its input cannot be any of
//! its own files. Nor can an output be a file of any other filter or store.
//!
//! A file may have several names, and a file that does not exist yet has no inode. So existing files are compared by
//! inode, and all files by their resolved paths.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::error::{Error, OutputProblem};
use super::job::{Job, OutputKind};
use super::keys::Foreign;
use gowk::Files;
use gowk::store::Store;

pub(super) struct Ownership {
    /// `None` if the filter's folder does not exist.
    filter: Option<Files>,
    inodes: Vec<Inode>,
    /// The folder of the job's store, if it has a store instead of a filter.
    store: Option<PathBuf>,
}

impl Ownership {
    /// The files of the job's filter.
    fn of_filter(job: &Job) -> Self {
        let store = Store::is_at(&job.filter).then(|| Files::resolved(&job.filter));
        Self { filter: Files::new(&job.filter).ok(), inodes: Vec::new(), store }
    }

    /// All files that a job reads and writes besides its inputs.
    pub(super) fn of(job: &Job) -> Self {
        let mut own = Self::of_filter(job);
        let outputs = OutputKind::ALL.map(|kind| job.path_of(kind));
        own.inodes.extend(inode(&job.path));
        own.inodes.extend(outputs.into_iter().flatten().filter_map(|path| inode(&path)));
        own
    }

    pub(super) fn has(&self, path: &Path, metadata: Option<&Metadata>) -> bool {
        metadata.is_some_and(|metadata| self.inodes.contains(&inode_of(metadata)))
            || self.store.as_ref().is_some_and(|store| Files::resolved(path).starts_with(store))
            || self.filter.as_ref().is_some_and(|filter| filter.has(path))
    }
}

/// Fails if an output is a file of the filter, if it has a name that the filter uses while it doubles, or if two outputs
/// are one file.
pub(super) fn check_outputs(job: &Job) -> Result<(), Error> {
    let own = Ownership::of_filter(job);
    let mut known: Vec<PathBuf> = Vec::new();
    for path in OutputKind::ALL.map(|kind| job.path_of(kind)).into_iter().flatten() {
        if own.has(&path, path.metadata().ok().as_ref()) {
            return Err(Error::output(&path, OutputProblem::Own));
        }
        if let Some(is) = of_any_filter(&path) {
            return Err(Error::output(&path, OutputProblem::OfFilter { is }));
        }
        let is_same = |other: &PathBuf| {
            Files::resolved(other) == Files::resolved(&path)
                || inode(other).is_some_and(|other| Some(other) == inode(&path))
        };
        if known.iter().any(is_same) {
            return Err(Error::output(&path, OutputProblem::Twice));
        }
        known.push(path);
    }
    Ok(())
}

/// The filter or store that a file belongs to, in words; `None` if it belongs to none. A file that belongs to one must
/// not be an output of any run.
pub fn of_any_filter(path: &Path) -> Option<String> {
    let real = Files::resolved(path);
    if is_filter(&real) {
        return Some("a filter".to_owned());
    }
    let name = real.as_os_str().as_bytes();
    let data = name.strip_suffix(b"-journal").or_else(|| name.strip_suffix(b"-lock"));
    if let Some(data) = data.map(|data| Path::new(OsStr::from_bytes(data))).filter(|data| is_filter(data)) {
        return Some(format!("a file of the filter {}", data.display()));
    }
    let store = real.ancestors().skip(1).find(|folder| Store::is_at(folder))?;
    Some(format!("in {}, the folder of a store", store.display()))
}

/// Whether a file is a filter, by its first bytes. Waits for no pipe, and follows no link: a filter's journal lies beside
/// the file itself.
fn is_filter(path: &Path) -> bool {
    let mut first = Vec::new();
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_file())
        && File::open(path).is_ok_and(|file| file.take(Foreign::BYTES as u64).read_to_end(&mut first).is_ok())
        && Foreign::of(&first) == Some(Foreign::Filter)
}

/// Device and inode: two files are the same if both agree.
type Inode = (u64, u64);

fn inode_of(metadata: &Metadata) -> Inode {
    (metadata.dev(), metadata.ino())
}

fn inode(path: &Path) -> Option<Inode> {
    path.metadata().ok().as_ref().map(inode_of)
}
