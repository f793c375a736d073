//! Local copies of a bucket's sealed files, in one folder for all processes of a user.
//!
//! Invariants:
//!
//! 1. A file has its name only once it is whole.
//! 2. Any file may be removed at any time: who has it open goes on, and others fetch it again.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::error::{Error as FilterError, IoContext, Result as FilterResult};
use crate::system::new_uuid;

/// The folder of the cache, and the bytes that it may hold.
const FOLDER: &str = "GOWK_CACHE";
const SIZE: &str = "GOWK_CACHE_SIZE";
const DEFAULT_SIZE: u64 = 16 << 30;
/// The folder of files that are being fetched or made.
const WORK: &str = "work";
/// What a process that died has left there is removed after this time.
const LEFT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

#[derive(Debug)]
pub(super) struct Cache {
    root: PathBuf,
    /// The files of one store.
    own: PathBuf,
    most: u64,
}

fn wrong(path: &Path, told: &str) -> FilterError {
    let source = io::Error::new(io::ErrorKind::InvalidInput, told.to_owned());
    FilterError::Io { path: path.to_owned(), op: "find the cache for", source }
}

impl Cache {
    /// The cache of the store at an address of a server.
    pub(super) fn open(server: &str, address: &Path) -> FilterResult<Self> {
        let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let root = of(FOLDER)
            .or_else(|| of("XDG_CACHE_HOME").map(|folder| folder.join("gowk")))
            .or_else(|| of("HOME").map(|folder| folder.join(".cache/gowk")))
            .ok_or_else(|| wrong(address, "set GOWK_CACHE to a folder"))?;
        let most = match std::env::var(SIZE) {
            Ok(size) => {
                size.parse().map_err(|_| wrong(address, "GOWK_CACHE_SIZE is not a number of bytes"))?
            }
            Err(_) => DEFAULT_SIZE,
        };
        let place = format!("{server} {}", address.display());
        let own = root.join(format!("{:032x}", xxhash_rust::xxh3::xxh3_128(place.as_bytes())));
        Ok(Self { root, own, most })
    }

    fn make(folder: PathBuf) -> FilterResult<PathBuf> {
        fs::create_dir_all(&folder).at(&folder, "create the folder")?;
        Ok(folder)
    }

    pub(super) fn workplace(&self) -> FilterResult<PathBuf> {
        Self::make(self.root.join(WORK))
    }

    /// The file's own name is unique in its store.
    fn path(&self, name: &str) -> PathBuf {
        self.own.join(name.rsplit('/').next().unwrap_or(name))
    }

    /// The local copy of an object, which `fetch` makes if there is none.
    pub(super) fn get(
        &self,
        name: &str,
        fetch: impl FnOnce(&Path) -> FilterResult<()>,
    ) -> FilterResult<PathBuf> {
        let path = self.path(name);
        if let Ok(file) = File::open(&path) {
            // When it was used last.
            let _ = file.set_modified(SystemTime::now());
            return Ok(path);
        }
        let uuid = new_uuid(&path)?;
        let new = self.workplace()?.join(format!("{:032x}", u128::from_le_bytes(uuid)));
        let placed = fetch(&new).and_then(|()| {
            Self::make(self.own.clone())?;
            fs::rename(&new, &path).at(&path, "rename")
        });
        if placed.is_err() {
            let _ = fs::remove_file(&new);
        }
        placed?;
        self.trim(&path);
        Ok(path)
    }

    /// Takes a local file as the copy of an object. It is gone from its place then.
    pub(super) fn adopt(&self, name: &str, local: &Path) {
        let path = self.path(name);
        let placed = Self::make(self.own.clone()).is_ok() && fs::rename(local, &path).is_ok();
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
        let files = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
        let (now, mut found, mut bytes) = (SystemTime::now(), Vec::new(), 0_u64);
        for file in files(&self.root).flat_map(|folder| files(&folder.path())) {
            let Ok(metadata) = file.metadata() else { continue };
            let (path, used) = (file.path(), metadata.modified().unwrap_or(now));
            if path.parent().is_some_and(|folder| folder.ends_with(WORK)) {
                if now.duration_since(used).is_ok_and(|age| age > LEFT) {
                    let _ = fs::remove_file(path);
                }
            } else if metadata.is_file() {
                bytes += metadata.len();
                found.push((used, metadata.len(), path));
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
