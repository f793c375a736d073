//! The versions of a store: the newest, earlier ones, and the base of a token.
//!
//! No pointer leads to the newest version: it is the one with the highest number.

use std::io;
use std::path::Path;

use rustix::io::Errno;

use super::Store;
use super::description::Description;
use super::error::{Error, Result};
use super::files::{DESCRIPTION, VERSIONS, listed_from, version, version_number};
use super::storage;
use super::version::{FIRST, Version};
use crate::Options;
use crate::error::Error as FilterError;

/// How often to look for the newest version again if it was removed before it could be read.
const ATTEMPTS: u32 = 100;

pub(super) fn open(path: &Path, options: &Options) -> Result<Store> {
    let store = open_unfinished(path, options)?;
    if store.is_unfinished()? {
        return Err(Error::Unfinished { path: store.root });
    }
    Ok(store)
}

/// Like `open`, but also opens a store that is still being made out of a filter.
pub(super) fn open_unfinished(path: &Path, options: &Options) -> Result<Store> {
    let (root, storage) = storage::open(path, options)?;
    let Some(bytes) = storage.get(DESCRIPTION)? else { return Err(Error::NotAStore { path: root }) };
    let description = Description::decode(&root.join(DESCRIPTION), &bytes)?;
    options.check_kind(&root, description.kind)?;
    options.check_key_rules(&root, Some(description.key_rules))?;
    if let Some(forgetting) = description.forgetting() {
        options.check_forgetting(&root, forgetting)?;
    }
    Ok(Store::over(root, storage, description, options.clone()))
}

/// Whether a sync of a folder failed for lack of permission, or because the file system has no such call.
fn needs_no_sync(error: &FilterError) -> bool {
    let FilterError::Io { source: error, .. } = error else { return false };
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    error.kind() == io::ErrorKind::PermissionDenied
        || matches!(errno, Some(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::ROFS))
}

impl Store {
    /// Whether the store is being made out of a filter whose keys have not come into it yet.
    pub(super) fn is_unfinished(&self) -> Result<bool> {
        Ok(self.description.divided && self.newest_number(FIRST)? == Some(FIRST))
    }

    /// The numbers of all listed versions from this one on, ascending.
    pub(super) fn listed(&self, from: u64) -> Result<Vec<u64>> {
        let names = self.storage.list(VERSIONS, &listed_from(from))?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| version_number(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The highest number of a version, if it is at least `from`. A network file system may return an old listing, so the
    /// numbers above its highest are looked up by name.
    pub(super) fn newest_number(&self, from: u64) -> Result<Option<u64>> {
        let Some(mut newest) = self.listed(from)?.pop() else { return Ok(None) };
        while !self.storage.is_object_store()
            && self.storage.length(&version(newest.saturating_add(1)))?.is_some()
        {
            newest += 1;
        }
        Ok(Some(newest))
    }

    /// The version of this number; `None` if it does not exist.
    pub(super) fn load(&self, number: u64) -> Result<Option<Version>> {
        let name = version(number);
        let Some(bytes) = self.storage.get(&name)? else { return Ok(None) };
        Version::decode(&self.path_of(&name), &bytes, number, &self.description).map(Some)
    }

    /// The newest version. Fails with [`Error::NoVersions`] if the store has none, and with [`Error::Damaged`] or another
    /// error of its file if that file cannot be read.
    pub fn newest(&self) -> Result<Version> {
        for _ in 0..ATTEMPTS {
            let Some(number) = self.newest_number(FIRST)? else { continue };
            // If it is gone, a vacuum has removed it, and there is a newer version.
            let Some(version) = self.load(number)? else { continue };
            // Protects: the version's name. A power cut must not remove a version on which something is based.
            match self.storage.settle(VERSIONS) {
                Err(error) if needs_no_sync(&error) => {}
                outcome => outcome?,
            }
            return Ok(version);
        }
        let path = self.path_of(VERSIONS);
        Err(if self.newest_number(FIRST)?.is_none() {
            Error::NoVersions { path }
        } else {
            Error::Busy { path }
        })
    }

    /// The version of this number; [`Error::NoSuchVersion`] if it was vacuumed or never existed.
    pub fn version(&self, number: u64) -> Result<Version> {
        match self.load(number)? {
            // In an object store, another text can have the number of a vacuumed version.
            Some(version) if self.newest()?.keeps(number) => Ok(version),
            _ => Err(self.no_such_version(number)?),
        }
    }

    pub(super) fn no_such_version(&self, number: u64) -> Result<Error> {
        let newest = self.newest()?.number;
        Ok(Error::NoSuchVersion { path: self.root.clone(), number, newest })
    }

    /// All versions that exist, the oldest first, without the versions that a vacuum is removing.
    pub fn log(&self) -> Result<Vec<Version>> {
        let numbers = self.listed(FIRST)?;
        let loaded = numbers.into_iter().filter_map(|number| self.load(number).transpose());
        let mut versions = loaded.collect::<Result<Vec<_>>>()?;
        let newest = self.newest()?;
        versions.retain(|version| newest.keeps(version.number));
        Ok(versions)
    }

    /// The version on which the commit with this application's token was based; the newest version if there was no such
    /// commit.
    ///
    /// A retry that reads this version gets the first attempt's answers. If the application skipped the number, this is
    /// the version before its next token. The version before its last token always exists. Fails with
    /// [`Error::NoSuchVersion`] if the version before an earlier token was vacuumed.
    pub fn before(&self, application: &str, number: u64) -> Result<Version> {
        let at_or_after =
            |version: &Version| version.tokens.get(application).filter(|done| done.number >= number).cloned();
        let mut newest = self.newest()?;
        loop {
            let Some(mut done) = at_or_after(&newest) else { return Ok(newest) };
            while done.number > number {
                match at_or_after(&self.version(done.version - 1)?) {
                    Some(earlier) => done = earlier,
                    None => break,
                }
            }
            let base = self.load(done.base)?;
            let now = self.newest()?;
            if let Some(base) = base.filter(|base| now.keeps(base.number)) {
                let until = self.description.retention.map(|_| done.epoch);
                return Ok(Version { until, ..base });
            }
            // After a commit with a later token, a vacuum may have removed the base of this token.
            if now.number == newest.number {
                return Err(self.no_such_version(done.base)?);
            }
            newest = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::disk::Disk;

    /// A disk that fails, with this error, to sync folders.
    #[derive(Debug)]
    struct Unsynced(Errno);

    impl Disk for Unsynced {
        fn sync_dir(&self, _: &Path) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    /// Without the right to sync, or on a file system without that call, readers continue. On a disk that fails, they do
    /// not: a power cut could undo the version from which they answered.
    #[test]
    fn a_version_is_read_without_a_sync_for_a_lack_of_rights_and_not_where_the_disk_fails() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        Store::create(&path, 1, &Options::new().capacity(1000)).unwrap();
        let newest = |errno| open(&path, &Options::new().disk(Arc::new(Unsynced(errno)))).unwrap().newest();
        for errno in [Errno::ACCESS, Errno::PERM, Errno::INVAL, Errno::OPNOTSUPP, Errno::NOSYS, Errno::ROFS] {
            assert_eq!(newest(errno).unwrap().number, FIRST, "{errno:?}");
        }
        for errno in [Errno::IO, Errno::NOSPC, Errno::DQUOT] {
            match newest(errno) {
                Err(Error::Filter(FilterError::Io { source, .. })) => {
                    assert_eq!(source.raw_os_error(), Some(errno.raw_os_error()));
                }
                outcome => panic!("{errno:?}: {outcome:?}"),
            }
        }
    }
}
