//! The versions of a store: the newest, those before it, and the one on which a token was based.
//!
//! There is no pointer to the newest version that would have to be kept true: it is the one with the highest number.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::io::Errno;

use super::Store;
use super::description::Description;
use super::error::{Error, Result};
use super::files::Files;
use super::version::{FIRST, Version};
use crate::Options;
use crate::error::IoContext;

/// How often the newest version is looked for again, where it was removed before it could be read.
const ATTEMPTS: u32 = 100;
/// Bytes that `store.toml` and version files may have.
const LONGEST: u64 = 1 << 28;

pub(super) fn open(path: &Path, options: &Options) -> Result<Store> {
    let store = open_unfinished(path, options)?;
    if store.is_unfinished()? {
        return Err(Error::Unfinished { path: store.files.root });
    }
    Ok(store)
}

/// The same, also of a store into which the filter that it is made of has not come.
pub(super) fn open_unfinished(path: &Path, options: &Options) -> Result<Store> {
    let root = match path.canonicalize() {
        Err(error) if is_absent(&error) => return Err(Error::NotFound { path: path.to_owned() }),
        outcome => outcome.at(path, "open the folder")?,
    };
    let files = Files::new(root);
    let Some(bytes) = read(&files.description)? else { return Err(Error::NotAStore { path: files.root }) };
    let description = Description::decode(&files.description, &bytes)?;
    options.check_kind(&files.root, description.kind)?;
    options.check_key_rules(&files.root, Some(description.key_rules))?;
    Ok(Store { files, description, options: options.clone(), copies: None })
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// All of a file; `None` if it is not there.
fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Err(error) if is_absent(&error) => return Ok(None),
        outcome => outcome.at(path, "open")?,
    };
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes).at(path, "read")?;
    Ok(Some(bytes))
}

/// Whether a sync of a folder failed because this process may not do it, or the file system knows no such call.
fn needs_no_sync(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    error.kind() == io::ErrorKind::PermissionDenied
        || matches!(errno, Some(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::ROFS))
}

impl Store {
    /// Whether the store is made out of a filter, whose keys have not come into it.
    pub(super) fn is_unfinished(&self) -> Result<bool> {
        Ok(self.description.divided && self.newest_number()? == Some(FIRST))
    }

    /// The highest number of a version. A network file system may show a listing of a while ago, so the numbers above
    /// it are asked for by name.
    pub(super) fn newest_number(&self) -> Result<Option<u64>> {
        let Some(mut newest) = self.files.version_numbers()?.into_iter().max() else { return Ok(None) };
        loop {
            let next = self.files.version(newest.saturating_add(1));
            if !next.try_exists().at(&next, "look for")? {
                return Ok(Some(newest));
            }
            newest += 1;
        }
    }

    /// The version of this number; `None` if it is not there.
    pub(super) fn load(&self, number: u64) -> Result<Option<Version>> {
        let path = self.files.version(number);
        let Some(bytes) = read(&path)? else { return Ok(None) };
        Version::decode(&path, &bytes, number, &self.description).map(Some)
    }

    /// The newest version. Fails with [`Error::NoVersions`] if there is none, and with whatever is wrong with the file
    /// of the newest one.
    pub fn newest(&self) -> Result<Version> {
        for _ in 0..ATTEMPTS {
            let Some(number) = self.newest_number()? else { continue };
            // Otherwise a vacuum has removed it, and then there is a newer one.
            let Some(version) = self.load(number)? else { continue };
            // Protects: the name of the version. What is done on its account must not find it undone by a power cut.
            match self.disk().sync_dir(&self.files.versions) {
                Err(error) if needs_no_sync(&error) => {}
                outcome => outcome.at(&self.files.versions, "sync")?,
            }
            return Ok(version);
        }
        let path = self.files.versions.clone();
        Err(if self.newest_number()?.is_none() { Error::NoVersions { path } } else { Error::Busy { path } })
    }

    /// The version of this number; [`Error::NoSuchVersion`] if it was vacuumed or never made.
    pub fn version(&self, number: u64) -> Result<Version> {
        match self.load(number)? {
            Some(version) => Ok(version),
            None => Err(self.no_such_version(number)?),
        }
    }

    pub(super) fn no_such_version(&self, number: u64) -> Result<Error> {
        let newest = self.newest()?.number;
        Ok(Error::NoSuchVersion { path: self.files.root.clone(), number, newest })
    }

    /// All versions that there are, the oldest first.
    pub fn log(&self) -> Result<Vec<Version>> {
        let mut numbers = self.files.version_numbers()?;
        numbers.sort_unstable();
        let versions = numbers.into_iter().filter_map(|number| self.load(number).transpose());
        versions.collect()
    }

    /// The store as it was before the commit with this application's token of this number: the version on which that
    /// commit was based, or the newest if it was not made.
    ///
    /// A retry that judges by this version gets the first attempt's answers. If the number was left out
    /// by the application, this is the version before its next token. Fails with [`Error::NoSuchVersion`] if
    /// the version was vacuumed.
    pub fn before(&self, application: &str, number: u64) -> Result<Version> {
        let newest = self.newest()?;
        let at_or_after =
            |version: &Version| version.tokens.get(application).filter(|done| done.number >= number).cloned();
        let Some(mut done) = at_or_after(&newest) else { return Ok(newest) };
        while done.number > number {
            match at_or_after(&self.version(done.version - 1)?) {
                Some(earlier) => done = earlier,
                None => break,
            }
        }
        self.version(done.base)
    }
}
