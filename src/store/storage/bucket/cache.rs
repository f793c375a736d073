//! Local copies of a bucket's sealed files, in one folder for all processes of a user.
//!
//! Invariants:
//!
//! 1. A file has its name only once it is whole.
//! 2. Any file or folder may be removed at any time. A process that has a file open keeps it. A call that finds its file
//!    gone fails with an error of that kind, and the caller, which opens the file, asks again (`reader.rs`).
//! 3. The folder belongs to the user or to root, and others cannot write to it: its names can be guessed, and nothing
//!    in a copy proves who made it.
//! 4. Nothing is removed but files with names that gowk gives: the folder may hold other things of its owner.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{Access, access};

use super::Name;
use crate::error::{Error as FilterError, IoContext, Result as FilterResult, Untrusted};
use crate::system::{names, new_uuid};

/// The variable that names the folder of the cache.
const FOLDER: &str = "GOWK_CACHE";
/// The variable with the bytes that the cache may hold.
const SIZE: &str = "GOWK_CACHE_SIZE";
const DEFAULT_SIZE: u64 = 16 << 30;
/// The operation that fails if the folder does not exist or cannot be written.
const USE: &str = "keep local copies of the bucket's files here (GOWK_CACHE names another folder)";
/// The bit of a folder's mode that lets everybody write to it.
const OTHERS_WRITE: u32 = 0o002;
/// The folder of files that are being fetched or made.
const WORK: &str = "work";
/// Files that a dead process has left there are removed after this time.
const LEFT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

#[derive(Debug)]
pub(super) struct Cache {
    root: PathBuf,
    /// The files of one store.
    own: PathBuf,
    most: u64,
}

fn wrong(path: &Path, problem: &str) -> FilterError {
    let source = io::Error::new(io::ErrorKind::InvalidInput, problem.to_owned());
    FilterError::io(path, "find the cache for", source)
}

/// Digits in the name of a store's folder, and of a file that is being fetched.
const HEX: usize = 32;

fn is_hex(name: &OsStr) -> bool {
    name.len() == HEX && name.as_encoded_bytes().iter().all(u8::is_ascii_hexdigit)
}

/// Whether a sealed file or a working copy has such a name.
fn is_named(name: &OsStr) -> bool {
    name.to_str().and_then(Name::begin_of).is_some()
}

impl Cache {
    /// The cache of the store at an address of a server.
    pub(super) fn open(server: &str, address: &Path) -> FilterResult<Self> {
        let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let root = of(FOLDER).unwrap_or_else(|| Self::usual(of));
        let most = match std::env::var(SIZE) {
            Ok(size) => {
                size.parse().map_err(|_| wrong(address, "GOWK_CACHE_SIZE is not a number of bytes"))?
            }
            Err(_) => DEFAULT_SIZE,
        };
        let place = format!("{server} {}", address.display());
        let own = root.join(format!("{:0HEX$x}", xxhash_rust::xxh3::xxh3_128(place.as_bytes())));
        Ok(Self { root, own, most })
    }

    /// The folder of a user who has given none. A user without a home, or with one that cannot be written, as in many
    /// containers, has it among the temporary files.
    fn usual(of: impl Fn(&str) -> Option<PathBuf>) -> PathBuf {
        let home = of("XDG_CACHE_HOME").or_else(|| of("HOME").map(|folder| folder.join(".cache")));
        let root = home.map(|folder| folder.join("gowk"));
        let is_writable = |root: &PathBuf| {
            Self::make(root.clone())
                .is_ok_and(|root| access(&root, Access::WRITE_OK | Access::EXEC_OK).is_ok())
        };
        root.filter(is_writable).unwrap_or_else(|| {
            std::env::temp_dir().join(format!("gowk-cache-{}", rustix::process::geteuid().as_raw()))
        })
    }

    /// Makes a folder that others cannot look into, as they perhaps cannot look into the bucket.
    fn make(folder: PathBuf) -> FilterResult<PathBuf> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.at(&folder, USE)?;
        Ok(folder)
    }

    /// Makes the folder, unless it is there; fails if others may have put copies of their own into it.
    fn check_root(&self) -> FilterResult<()> {
        let found = Self::make(self.root.clone())?.metadata().at(&self.root, "look at")?;
        let own = [0, rustix::process::geteuid().as_raw()];
        // The name too: in the folder of temporary files, others can make a link of it.
        let named = self.root.symlink_metadata().at(&self.root, "look at")?.uid();
        let is_own = own.contains(&found.uid()) && own.contains(&named) && found.mode() & OTHERS_WRITE == 0;
        if is_own {
            return Ok(());
        }
        Err(FilterError::Untrusted { path: self.root.clone(), problem: Untrusted::Cache })
    }

    pub(super) fn workplace(&self) -> FilterResult<PathBuf> {
        self.check_root()?;
        let folder = Self::make(self.root.join(WORK))?;
        let may = access(&folder, Access::WRITE_OK | Access::EXEC_OK).map_err(io::Error::from);
        may.at(&folder, USE)?;
        Ok(folder)
    }

    /// The file's own name is unique in its store.
    fn path(&self, name: &str) -> PathBuf {
        self.own.join(name.rsplit('/').next().unwrap_or(name))
    }

    /// The local copy of an object; `fetch` makes a missing one.
    pub(super) fn get(
        &self,
        name: &str,
        fetch: impl FnOnce(&Path) -> FilterResult<()>,
    ) -> FilterResult<PathBuf> {
        let path = self.path(name);
        self.check_root()?;
        match File::open(&path) {
            // The time of its last use.
            Ok(file) => drop(file.set_modified(SystemTime::now())),
            Err(_) => self.place(&path, fetch)?,
        }
        Ok(path)
    }

    /// Fetches an object under another name, and renames it.
    fn place(&self, path: &Path, fetch: impl FnOnce(&Path) -> FilterResult<()>) -> FilterResult<()> {
        let uuid = u128::from_le_bytes(new_uuid(path)?);
        let new = self.workplace()?.join(format!("{uuid:0HEX$x}"));
        let placed = fetch(&new).and_then(|()| {
            Self::make(self.own.clone())?;
            fs::rename(&new, path).at(path, "rename")
        });
        if placed.is_err() {
            let _ = fs::remove_file(&new);
        }
        placed?;
        self.trim(path);
        Ok(())
    }

    /// Takes a local file as the copy of an object. It is gone from its place then.
    pub(super) fn adopt(&self, name: &str, local: &Path) {
        let path = self.path(name);
        let made = self.check_root().and_then(|()| Self::make(self.own.clone()));
        let placed = made.is_ok() && fs::rename(local, &path).is_ok();
        if placed {
            self.trim(&path);
        } else {
            // The object is there, and is fetched when it is needed.
            let _ = fs::remove_file(local);
        }
    }

    pub(super) fn forget(&self, name: &str) {
        let _ = fs::remove_file(self.path(name));
    }

    /// Removes the files that were used least recently, until the cache is as large as it may be; but not this one.
    fn trim(&self, newest: &Path) {
        let files = |folder: &Path| names(folder).unwrap_or_default();
        let (now, mut found, mut bytes) = (SystemTime::now(), Vec::new(), 0_u64);
        for name in files(&self.root) {
            let is_work = name == WORK;
            let folder = self.root.join(&name);
            if !is_work && !is_hex(&name) || folder.is_symlink() {
                continue;
            }
            for name in files(&folder) {
                let path = folder.join(&name);
                let Ok(metadata) = path.symlink_metadata() else { continue };
                let used = metadata.modified().unwrap_or(now);
                if is_work {
                    let is_left = now.duration_since(used).is_ok_and(|age| age > LEFT);
                    if is_left && (is_hex(&name) || is_named(&name)) {
                        let _ = fs::remove_file(path);
                    }
                } else if metadata.is_file() && is_named(&name) {
                    bytes += metadata.len();
                    found.push((used, metadata.len(), path));
                }
            }
        }
        found.sort();
        for (_, length, path) in found {
            if bytes <= self.most {
                break;
            }
            if path != newest && fs::remove_file(&path).is_ok() {
                bytes -= length;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Invariants checked: the files that were used least recently go first, and no more than must; a fetch that fails
    //! leaves nothing; a fetch whose file others remove fails as a file that is not there does.

    use super::*;

    fn name(base: u64) -> String {
        let name = Name { base, uuid: [base as u8; 16] };
        format!("shards/0000/{}", name.filter())
    }

    fn cache(dir: &Path, most: u64) -> Cache {
        Cache { root: dir.to_owned(), own: dir.join("0".repeat(HEX)), most }
    }

    /// Writes a file, as the fetch of an object does.
    fn made(into: &Path, bytes: &[u8]) -> FilterResult<()> {
        fs::write(into, bytes).at(into, "write")
    }

    fn fetch(cache: &Cache, base: u64) {
        cache.get(&name(base), |into| made(into, &[0; 100])).unwrap();
    }

    /// The files that the cache has, of the first ten.
    fn kept(cache: &Cache) -> Vec<u64> {
        (0..10).filter(|base| cache.path(&name(*base)).exists()).collect()
    }

    #[test]
    fn the_files_that_were_used_least_recently_go_first() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(dir.path(), 450);
        for base in 0..4 {
            fetch(&cache, base);
            let long_ago = SystemTime::now() - Duration::from_secs(3600 * (10 - base));
            File::open(cache.path(&name(base))).unwrap().set_modified(long_ago).unwrap();
        }
        // It is there, and is used again.
        cache.get(&name(0), |_| unreachable!()).unwrap();
        fetch(&cache, 4);
        assert_eq!(kept(&cache), [0, 2, 3, 4]);
        fetch(&cache, 5);
        assert_eq!(kept(&cache), [0, 3, 4, 5]);
        // A cache with room for nothing keeps the file that was asked for.
        let small = Cache { most: 1, ..cache };
        fetch(&small, 6);
        assert_eq!(kept(&small), [6]);
    }

    #[test]
    fn a_cache_that_cannot_be_written_is_named_and_none_is_needed_at_home() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let error =
            cache(&file.join("cache"), 450).get(&name(0), |_| unreachable!()).unwrap_err().to_string();
        assert!(
            error.contains("file/cache: cannot keep local copies") && error.contains("GOWK_CACHE"),
            "{error}"
        );
        // A home that cannot be written, and none.
        for home in [Some(file), None] {
            let usual = Cache::usual(|name| home.clone().filter(|_| name == "HOME"));
            assert!(usual.starts_with(std::env::temp_dir()) && usual != std::env::temp_dir(), "{usual:?}");
        }
        let home = dir.path().to_owned();
        let usual = Cache::usual(|name| Some(home.clone()).filter(|_| name == "HOME"));
        assert_eq!(usual, dir.path().join(".cache/gowk"));
    }

    #[test]
    fn a_fetch_that_fails_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(dir.path(), 450);
        let failed = cache.get(&name(0), |into| {
            made(into, &[0; 50])?;
            assert_eq!(kept(&cache), [0; 0]);
            Err(wrong(into, "cut short"))
        });
        assert!(failed.is_err() && kept(&cache).is_empty());
        assert_eq!(fs::read_dir(cache.workplace().unwrap()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_is_removed_while_it_is_fetched_is_gone_and_the_next_fetch_succeeds() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(&dir.path().join("cache"), 450);
        let gone = cache.get(&name(0), |into| {
            made(into, b"whole")?;
            fs::remove_dir_all(&cache.root).at(&cache.root, "remove")
        });
        assert!(
            matches!(gone, Err(FilterError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound)
        );
        let path = cache.get(&name(0), |into| made(into, b"whole")).unwrap();
        assert_eq!(fs::read(path).unwrap(), b"whole");
    }
}
