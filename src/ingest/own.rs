//! The files that belong to a job itself. The files of its filter cannot be its output, and none of its files can be
//! its input.
//!
//! A file may have several names, and one that is not there yet has no inode. So files that are there are compared by
//! inode, and all of them by what their names lead to.

use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::error::{Error, OutputProblem};
use super::job::Job;
use crate::store::Store;
use crate::system::{Files, Inode, TEMPORARY};

/// The most links that a name may lead through, as on Linux.
const MOST_LINKS: usize = 40;

pub(super) struct Own {
    /// `None` where the filter's folder is not there.
    filter: Option<Files>,
    inodes: Vec<Inode>,
    /// The folder of the job's store, if it has one in the place of a filter.
    store: Option<PathBuf>,
}

impl Own {
    /// The files of the job's filter.
    fn of_filter(job: &Job) -> Self {
        let filter = Files::new(&job.filter).ok();
        let inodes = filter.iter().flat_map(|Files { data, journal, lock, .. }| [data, journal, lock]);
        let inodes = inodes.filter_map(|path| inode(path)).collect();
        let store = Store::is_at(&job.filter).then(|| resolved(&job.filter));
        Self { filter, inodes, store }
    }

    /// All that a job reads and writes besides its inputs.
    pub(super) fn of(job: &Job) -> Self {
        let mut own = Self::of_filter(job);
        own.inodes.extend(
            [Some(job.path.clone()), job.output(), job.refused()]
                .into_iter()
                .flatten()
                .filter_map(|path| inode(&path)),
        );
        own
    }

    pub(super) fn has(&self, path: &Path, metadata: Option<&Metadata>) -> bool {
        metadata.is_some_and(|metadata| self.inodes.contains(&Inode::of(metadata)))
            || self.store.as_ref().is_some_and(|store| resolved(path).starts_with(store))
            || self.filter.as_ref().is_some_and(|filter| is_name_of(filter, &resolved(path)))
    }
}

/// Fails if an output is a file of the filter, or has a name that the filter uses while it doubles, or if both outputs
/// are one file.
pub(super) fn check_outputs(job: &Job) -> Result<(), Error> {
    let own = Own::of_filter(job);
    for path in [job.output(), job.refused()].into_iter().flatten() {
        if own.has(&path, path.metadata().ok().as_ref()) {
            return Err(Error::output(&path, OutputProblem::Own));
        }
    }
    let (Some(new), Some(refused)) = (job.output(), job.refused()) else { return Ok(()) };
    if resolved(&new) == resolved(&refused) || inode(&new).is_some_and(|new| Some(new) == inode(&refused)) {
        return Err(Error::output(&refused, OutputProblem::Twice));
    }
    Ok(())
}

fn inode(path: &Path) -> Option<Inode> {
    path.metadata().ok().as_ref().map(Inode::of)
}

/// Whether the name, in which no links are left, is that of a file of the filter, or of one into which it doubles.
fn is_name_of(filter: &Files, path: &Path) -> bool {
    if [&filter.data, &filter.journal, &filter.lock].iter().any(|own| *own == path) {
        return true;
    }
    let (Some(name), Some(data)) = (path.file_name(), filter.data.file_name()) else { return false };
    let Some(suffix) = name.as_bytes().strip_prefix(data.as_bytes()) else { return false };
    suffix.starts_with(TEMPORARY.as_bytes()) && path.parent() == Some(&filter.dir)
}

/// What the path leads to, through all links; the last name need not be there.
fn resolved(path: &Path) -> PathBuf {
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
