//! A store in a folder of a file system with `link(2)`. All that changes the disk goes through [`Disk`].

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::error::{Error, Result};
use super::super::files::{DESCRIPTION, INCOMING, RUNS, SHARDS, VERSIONS, shard_folder, version};
use super::super::text::LONGEST;
use super::super::version::FIRST;
use super::{Put, Storage};
use crate::disk::Disk;
use crate::error::{Error as FilterError, IoContext, Result as FilterResult, Untrusted};
use crate::system::{Rights, length_of_regular, open_regular, rights};

/// Bytes that are copied at a time.
const PIECE: usize = 1 << 20;

#[derive(Debug)]
pub(in super::super) struct Folder {
    root: PathBuf,
    disk: Arc<dyn Disk>,
}

impl Folder {
    pub(in super::super) const fn new(root: PathBuf, disk: Arc<dyn Disk>) -> Self {
        Self { root, disk }
    }

    /// The canonical path of a folder that may be a store.
    pub(in super::super) fn find(path: &Path) -> Result<PathBuf> {
        match path.canonicalize() {
            Err(error) if is_absent(&error) => Err(Error::NotFound { path: path.to_owned() }),
            outcome => Ok(outcome.at(path, "open the folder")?),
        }
    }

    pub(in super::super) fn root(&self) -> &Path {
        &self.root
    }

    /// Makes the folders of a new store of `shards` shards (`format-spec/STORE.md`, section 6, steps 1 to 3). Fails with
    /// [`Error::Exists`] if there is anything except leftovers of an unfinished creation.
    pub(in super::super) fn prepare(path: &Path, shards: u32, disk: &Arc<dyn Disk>) -> Result<Self> {
        make_dir(&**disk, path)?;
        let root = path.canonicalize().at(path, "open the folder")?;
        let folder = Self::new(root, disk.clone());
        folder.check_unused()?;
        for own in [VERSIONS, SHARDS, RUNS, INCOMING] {
            make_dir(&**disk, &folder.folder(own)?)?;
        }
        for shard in 0..shards {
            make_dir(&**disk, &folder.folder(&shard_folder(shard))?)?;
        }
        // Protects: the folders. What is put into them later is synced with them alone.
        folder.settle(SHARDS)?;
        folder.settle("")?;
        if let Some(parent) = folder.root.parent() {
            disk.sync_dir(parent).at(parent, "sync")?;
        }
        Ok(folder)
    }

    fn check_unused(&self) -> Result<()> {
        let in_the_way = || Error::Exists { path: self.root.clone() };
        let present =
            |folder: &str| if self.folder(folder)?.is_dir() { self.list(folder, "") } else { Ok(Vec::new()) };
        if self.list("", "")?.iter().any(|name| ![VERSIONS, SHARDS, RUNS, INCOMING].contains(&&**name)) {
            return Err(in_the_way());
        }
        if present(VERSIONS)?.iter().any(|name| format!("{VERSIONS}/{name}") != version(FIRST)) {
            return Err(in_the_way());
        }
        if !present(RUNS)?.is_empty() {
            return Err(in_the_way());
        }
        for folder in present(SHARDS)? {
            if !present(&format!("{SHARDS}/{folder}"))?.is_empty() {
                return Err(in_the_way());
            }
        }
        Ok(())
    }

    /// Whether a folder has the names of a store.
    pub(in super::super) fn is_store(root: &Path) -> bool {
        root.join(DESCRIPTION).is_file() && root.join(VERSIONS).is_dir()
    }

    /// The path of an object. Fails if a folder on the way is a symbolic link: it may lead into another store, whose files
    /// would be removed.
    fn path(&self, name: &str) -> FilterResult<PathBuf> {
        let (folder, name) = name.rsplit_once('/').unwrap_or(("", name));
        Ok(self.folder(folder)?.join(name))
    }

    /// Like `path`, for a folder.
    fn folder(&self, name: &str) -> FilterResult<PathBuf> {
        let mut path = self.root.clone();
        for part in name.split('/').filter(|part| !part.is_empty()) {
            path.push(part);
            if path.is_symlink() {
                return Err(FilterError::Untrusted { path, problem: Untrusted::SymbolicLink });
            }
        }
        Ok(path)
    }

    /// Creates a file with the rights of the store.
    fn create(&self, path: &Path) -> FilterResult<File> {
        rights::create(&*self.disk, path, self.rights().as_ref()).at(path, "create")
    }

    /// Writes a new file and syncs it.
    fn write_draft(&self, draft: &Path, text: &[u8]) -> FilterResult<()> {
        let file = self.create(draft)?;
        let written = self.disk.write_at(&file, text, 0).at(draft, "write");
        // Protects: the text, before it has the name under which it is read.
        let synced = written.and_then(|()| self.disk.sync(&file).at(draft, "sync"));
        if synced.is_err() {
            let _ = self.disk.remove(draft);
        }
        synced
    }

    /// Copies a file from another file system, and syncs the copy.
    fn copy(&self, from: &Path, to: &Path) -> FilterResult<()> {
        let source = File::open(from).at(from, "open")?;
        let length = source.metadata().at(from, "look at")?.len();
        let target = self.create(to)?;
        let mut piece = vec![0; PIECE];
        let mut offset = 0;
        while offset < length {
            let size = usize::try_from(length - offset).unwrap_or(PIECE).min(PIECE);
            let piece = piece.get_mut(..size).unwrap_or_default();
            self.disk.read_at(&source, piece, offset).at(from, "read")?;
            self.disk.write_at(&target, piece, offset).at(to, "write")?;
            offset += size as u64;
        }
        // Protects: all of the copy, before it has its name in the store.
        self.disk.sync(&target).at(to, "sync")
    }
}

impl Storage for Folder {
    fn is_object_store(&self) -> bool {
        false
    }

    fn put_if_absent(
        &self,
        name: &str,
        draft: &str,
        bytes: &[u8],
        due: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<Put> {
        let (path, draft) = (self.path(name)?, self.path(draft)?);
        self.write_draft(&draft, bytes)?;
        let outcome = match due() {
            Ok(true) => self.disk.link(&draft, &path),
            not_due => {
                let _ = self.disk.remove(&draft);
                return not_due.map(|_| Put::Dropped);
            }
        };
        let removed = self.disk.remove(&draft);
        Ok(match outcome {
            Ok(()) => Put::Done,
            Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {
                Put::Taken
            }
            Err(source) => {
                let error = crate::Error::io(&path, "link", source);
                // Without its draft, a link that a network still carries cannot succeed.
                if is_removed(&removed) { Put::Failed(error) } else { Put::Unknown(error) }
            }
        })
    }

    fn put_file(&self, name: &str, local: &Path) -> FilterResult<()> {
        let place = self.path(name)?;
        match self.disk.rename(local, &place, true) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let near = self.folder(INCOMING)?.join(place.file_name().unwrap_or_default());
                self.copy(local, &near)?;
                let _ = self.disk.remove(local);
                self.disk.rename(&near, &place, true).at(&place, "rename")?;
            }
            outcome => outcome.at(&place, "rename")?,
        }
        // Protects: the name of the file, before a version names it.
        let folder = place.parent().unwrap_or(&self.root);
        self.disk.sync_dir(folder).at(folder, "sync")
    }

    fn local(&self, name: &str) -> FilterResult<PathBuf> {
        let path = self.path(name)?;
        length_of_regular(&path)?;
        Ok(path)
    }

    fn forget(&self, _: &str) {}

    fn workplace(&self) -> FilterResult<PathBuf> {
        self.folder(INCOMING)
    }

    fn rights(&self) -> Option<Rights> {
        let description = open_regular(&self.root.join(DESCRIPTION), false).ok()??;
        Rights::of(&description).ok()
    }

    fn get(&self, name: &str) -> FilterResult<Option<Vec<u8>>> {
        let path = self.path(name)?;
        let Some(file) = open_regular(&path, false).or_else(none_if_absent)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(LONGEST).read_to_end(&mut bytes).at(&path, "read")?;
        Ok(Some(bytes))
    }

    fn length(&self, name: &str) -> FilterResult<Option<u64>> {
        length_of_regular(&self.path(name)?).or_else(none_if_absent)
    }

    fn list(&self, folder: &str, after: &str) -> FilterResult<Vec<String>> {
        let path = self.folder(folder)?;
        let names = crate::system::names(&path).at(&path, "list")?;
        let mut names: Vec<String> = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
        names.retain(|name| **name > *after);
        names.sort_unstable();
        Ok(names)
    }

    fn delete(&self, name: &str) -> FilterResult<Option<u64>> {
        let path = self.path(name)?;
        let bytes = path.symlink_metadata().map_or(0, |metadata| metadata.len());
        match self.disk.remove(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            outcome => outcome.at(&path, "remove").map(|()| Some(bytes)),
        }
    }

    fn settle(&self, folder: &str) -> FilterResult<()> {
        let path = self.folder(folder)?;
        self.disk.sync_dir(&path).at(&path, "sync")
    }
}

fn is_removed(outcome: &io::Result<()>) -> bool {
    outcome.as_ref().map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |()| true)
}

/// `None` if a part of the path is missing.
fn none_if_absent<T>(error: FilterError) -> FilterResult<Option<T>> {
    match error {
        FilterError::Io { source, .. } if is_absent(&source) => Ok(None),
        error => Err(error),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn make_dir(disk: &dyn Disk, folder: &Path) -> Result<()> {
    match disk.create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(Error::Exists { path: folder.to_owned() })
        }
        outcome => Ok(outcome.at(folder, "create the folder")?),
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;
    use crate::disk::SystemDisk;

    /// A disk on which some calls fail.
    #[derive(Debug, Default)]
    struct Failing {
        link: Option<Errno>,
        remove: Option<Errno>,
        /// Of files that are not in `incoming`.
        rename: Option<Errno>,
    }

    fn failed(errno: Option<Errno>) -> io::Result<()> {
        errno.map_or(Ok(()), |errno| Err(errno.into()))
    }

    impl Disk for Failing {
        fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
            failed(self.link)?;
            SystemDisk.link(from, to)
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            failed(self.remove)?;
            SystemDisk.remove(path)
        }

        fn rename(&self, from: &Path, to: &Path, replace: bool) -> io::Result<()> {
            let is_incoming = from.parent().is_some_and(|folder| folder.ends_with(INCOMING));
            failed(self.rename.filter(|_| !is_incoming))?;
            SystemDisk.rename(from, to, replace)
        }
    }

    fn folder(dir: &Path, disk: Failing) -> Folder {
        let disk: Arc<dyn Disk> = Arc::new(disk);
        Folder::prepare(&dir.join("s"), 1, &disk).unwrap()
    }

    /// A store that took an unreadable version for an absent one would give its number again.
    #[test]
    fn what_cannot_be_looked_at_is_an_error_and_not_absent() {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(dir.path(), Failing::default());
        std::os::unix::fs::symlink("loop", folder.root.join("loop")).unwrap();
        assert!(folder.get("loop").is_err() && folder.length("loop").is_err());
        assert!(matches!(Folder::find(&folder.root.join("loop")), Err(Error::Filter(_))));
        assert!(folder.delete(SHARDS).is_err());
        for absent in ["none", "none/none", "file/none"] {
            std::fs::write(folder.root.join("file"), b"").unwrap();
            assert!(folder.get(absent).unwrap().is_none() && folder.length(absent).unwrap().is_none());
            assert!(matches!(Folder::find(&folder.root.join(absent)), Err(Error::NotFound { .. })));
        }
        assert!(folder.delete("none").unwrap().is_none());
    }

    #[test]
    fn a_link_that_fails_is_in_doubt_as_long_as_its_draft_may_be_there() {
        for (link, remove, expected) in [
            (None, None, "Done"),
            (Some(Errno::EXIST), None, "Taken"),
            (Some(Errno::NOENT), None, "Taken"),
            (Some(Errno::IO), None, "Failed"),
            (Some(Errno::IO), Some(Errno::NOENT), "Failed"),
            (Some(Errno::IO), Some(Errno::IO), "Unknown"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let folder = folder(dir.path(), Failing { link, remove, rename: None });
            let (name, draft) = (version(7), format!("{INCOMING}/draft"));
            let put = folder.put_if_absent(&name, &draft, b"text", &mut || Ok(true)).unwrap();
            let told = match put {
                Put::Done => "Done",
                Put::Dropped => "Dropped",
                Put::Taken => "Taken",
                Put::Failed(_) => "Failed",
                Put::Unknown(_) => "Unknown",
            };
            assert_eq!(told, expected, "{link:?} {remove:?}");
        }
    }

    #[test]
    fn a_file_of_another_file_system_is_copied_whole_and_any_other_failure_is_told() {
        for length in [0, 1, PIECE, PIECE + 10, 2 * PIECE] {
            let dir = tempfile::tempdir().unwrap();
            let folder = folder(dir.path(), Failing { rename: Some(Errno::XDEV), ..Failing::default() });
            let local = dir.path().join("local");
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            std::fs::write(&local, &bytes).unwrap();
            folder.put_file(&format!("{RUNS}/r"), &local).unwrap();
            assert!(std::fs::read(folder.root.join(RUNS).join("r")).unwrap() == bytes, "{length}");
            assert!(!local.exists() && folder.list(INCOMING, "").unwrap().is_empty());
        }
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(dir.path(), Failing { rename: Some(Errno::IO), ..Failing::default() });
        let local = dir.path().join("local");
        std::fs::write(&local, b"keys").unwrap();
        assert!(folder.put_file(&format!("{RUNS}/r"), &local).is_err());
        assert!(local.exists() && folder.list(RUNS, "").unwrap().is_empty());
    }

    #[test]
    fn a_store_is_made_where_there_is_nothing_but_an_unfinished_one() {
        let dir = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(SystemDisk);
        let prepare = |name: &str| Folder::prepare(&dir.path().join(name), 1, &disk);
        let is_store = |name: &str| Folder::is_store(&dir.path().join(name));
        prepare("a").unwrap();
        prepare("a").unwrap();
        assert!(!is_store("a"));
        std::fs::write(dir.path().join("a").join(DESCRIPTION), b"").unwrap();
        assert!(is_store("a"));
        assert!(matches!(prepare("a"), Err(Error::Exists { .. })));
        std::fs::write(dir.path().join("file"), b"").unwrap();
        assert!(matches!(prepare("file"), Err(Error::Exists { .. })));
        assert!(matches!(prepare("none/b"), Err(Error::Filter(_))));
        std::fs::create_dir(dir.path().join("c")).unwrap();
        std::fs::write(dir.path().join("c").join(DESCRIPTION), b"").unwrap();
        assert!(!is_store("c"));
        assert!(matches!(make_dir(&*disk, &dir.path().join("none/b")), Err(Error::Filter(_))));
    }
}
