//! Many filters under versions: a set too large for one file, one machine, or a file system with locks.
//!
//! A store is a folder of filters, the *shards*, that divide all keys among themselves. None of its files ever changes.
//! An update writes a *run*, a file of records that serves all shards, or new files for the shards that get many keys.
//! Then it publishes a *version*, which names the runs and a file for each shard. So readers see one whole version, any
//! number of processes on any number of machines may commit at the same time, and no locks are needed.
//! `format-spec/STORE.md` specifies the files and the steps.
//!
//! With the features `s3`, `gs` and `az`, a store may lie in a bucket: pass `s3://bucket/prefix`, `gs://bucket/prefix`
//! or `az://container/prefix` as its path.
//!
//! - The server must honor `If-None-Match: *`, as Amazon S3 and Azure do, or Google's condition in its place;
//!   [`Store::create`] proves it. No test has reached Google's server.
//! - Credentials, region and endpoint come from the environment: for S3 `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
//!   `AWS_REGION`, `AWS_ENDPOINT_URL`, `AWS_ALLOW_HTTP`; for Google `GOOGLE_APPLICATION_CREDENTIALS`; for Azure
//!   `AZURE_STORAGE_ACCOUNT_NAME`, `AZURE_STORAGE_ACCOUNT_KEY`; and all others that the crate `object_store` knows. No
//!   error and no event contains them.
//! - A request is tried up to 9 times, for at most a minute, and then fails. A commit that fails for this reason may be
//!   [`Error::Unknown`]: commit again with the same token.
//! - Files are read through a cache, which all processes of a user share: the folder `GOWK_CACHE`, or else
//!   `$XDG_CACHE_HOME/gowk` or `~/.cache/gowk`. It holds `GOWK_CACHE_SIZE` bytes, by default 16 GiB, of the most recently
//!   used files. You may remove it at any time.
//! - Calls block, and may come from any thread, even from tasks of an async runtime. Use few and large shards.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("seen.store");
//! use gowk::store::{Committed, Store, Token};
//! use gowk::{Batches, Lookup, Options};
//!
//! let store = Store::create(&path, 4, &Options::new().capacity(100_000))?;
//! let before = store.read()?;
//! for _ in 0..2 {
//!     // A retry with the same token is judged by the version before it, and commits once.
//!     let mut update = store.update_of(store.before("crawl", 118)?);
//!     let inserted = update.insert_batch(&["https://example.org/", "https://example.org/"])?;
//!     assert_eq!(inserted.mask(), [true, false]);
//!     match update.commit("dedup", Some(Token::new("crawl", 118)))? {
//!         Committed::New(version) => println!("version {}", version.number),
//!         Committed::Already(done) => println!("in version {} since the first time", done.version),
//!         Committed::Unchanged => println!("nothing to commit"),
//!     }
//! }
//! assert!(store.read()?.contains(b"https://example.org/")?);
//! assert!(!before.contains(b"https://example.org/")?); // a reader sees one version, until it refreshes
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants:
//!
//! 1. A version is published in one step, `link(2)` to its number or a conditional put; of two that want the same number,
//!    one gets it. It names only synced files, under synced names.
//! 2. A version has everything of the version with the number below, except for the shards and runs that it changes
//!    itself.
//! 3. Only a vacuum removes files that others may need. First it publishes a version that says below which numbers it
//!    removes. A process also removes its own sealed files that no version will name, as after a conflict.

mod batches;
mod buffer;
mod commit;
mod compact;
mod conflict;
mod create;
mod description;
mod divide;
mod error;
mod files;
mod fold;
mod forgetting;
mod history;
mod info;
#[cfg(test)]
mod interrupted;
mod join;
#[cfg(test)]
mod model;
mod partition;
mod pending;
mod reader;
mod rebase;
mod run;
mod seal;
mod sealed;
mod sieve;
mod storage;
mod text;
mod update;
mod vacuum;
mod version;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub use commit::{Change, Committed, Token};
pub use compact::Compacted;
pub use description::Description;
pub use error::{Error, Result};
pub use info::StoreInfo;
pub use reader::StoreReader;
pub use rebase::Rejudged;
pub use sealed::Sealed;
pub use update::Update;
pub use vacuum::{Vacuum, Vacuumed};
pub use version::{Done, RunFile, ShardFile, Version};

use crate::Options;
use reader::LeftOpen;
pub use storage::Requests;
use storage::Storage;

/// Filters under versions, in a folder or a bucket. Clones are cheap; all methods may be called from any thread.
///
/// The files that the last committed [`Update`] has opened stay open for the next one, until a later update or a vacuum
/// through this store or a clone. If another process vacuums, their disk space becomes free only then.
#[derive(Clone)]
pub struct Store {
    root: PathBuf,
    storage: Arc<dyn Storage>,
    description: Description,
    options: Options,
    copies: Option<Copies>,
    folds: bool,
    left_open: LeftOpen,
}

/// See [`Store::copies`].
#[derive(Clone)]
struct Copies {
    folder: PathBuf,
    /// Sorted, ascending. Shared by clones of the store.
    refused: Arc<Mutex<Vec<PathBuf>>>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, shards) = (self.path(), self.description.shards);
        f.debug_struct("Store").field("path", &path).field("shards", &shards).finish_non_exhaustive()
    }
}

impl Store {
    fn over(root: PathBuf, storage: Arc<dyn Storage>, description: Description, options: Options) -> Self {
        Self {
            root,
            storage,
            description,
            options,
            copies: None,
            folds: true,
            left_open: LeftOpen::default(),
        }
    }

    /// Opens a store, with [`Options::new`]: see [`open_with`](Self::open_with).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &Options::new())
    }

    /// Opens a store. Of the options, it uses those about reading and writing filters, such as
    /// [`threads`](Options::threads), [`verify`](Options::verify) and [`on_damage`](Options::on_damage).
    ///
    /// Fails with [`Error::NotAStore`] if the folder is not a store, with [`Error::Unfinished`] if
    /// [`create_from`](Self::create_from) has not finished, and with another error if `store.toml` is damaged or wrong.
    pub fn open_with(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        history::open(path.as_ref(), options)
    }

    /// Whether a folder looks like a store: checks only names. True for every address.
    pub fn is_at(path: impl AsRef<Path>) -> bool {
        storage::is_store(path.as_ref())
    }

    /// Whether a path is meant as the address of a store in a bucket, right or wrong. Any other path is of the file
    /// system.
    pub fn is_address(path: impl AsRef<Path>) -> bool {
        storage::is_address(path.as_ref())
    }

    /// The store's folder, as a canonical path, or its address.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// The store's properties, fixed at its creation.
    pub const fn description(&self) -> &Description {
        &self.description
    }

    /// The path of a shard's file that a version names.
    pub fn file_path(&self, shard: u32, file: &ShardFile) -> PathBuf {
        self.path_of(&files::shard(shard, &file.name))
    }

    /// Reads shards from copies of their files in this folder, for example on a local disk. A copy has the file's own
    /// name. A file without a copy is read from the store. A copy is never out of date, since no two files have the same
    /// name.
    ///
    /// Copies are a cache: after one fails, the store's own file is read. A copy fails if its length, uuid, commit or
    /// number of entries differs from the version's, if it cannot be read, or if a page does not match its checksum.
    /// Pages are verified as [`Options::verify`] says, with [`Verify::Never`](crate::Verify::Never) not at all.
    /// [`take_refused_copies`](Self::take_refused_copies) returns the copies that have failed.
    pub fn copies(mut self, folder: impl Into<PathBuf>) -> Self {
        self.copies = Some(Copies { folder: folder.into(), refused: Arc::default() });
        self.left_open = LeftOpen::default();
        self
    }

    /// Whether commits also fold the shards that are due; by default they do. Without folding, they only write and merge
    /// runs. A process that commits for many machines turns it off, and lets the machines fold:
    /// [`to_fold`](Self::to_fold).
    pub const fn folding(mut self, folds: bool) -> Self {
        self.folds = folds;
        self
    }

    /// How many requests this store and its clones have made to a server; `None` if it lies in a folder.
    pub fn requests(&self) -> Option<Requests> {
        self.storage.requests()
    }

    /// The path of an object, for errors.
    fn path_of(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The path of a file that is being made: in the caller's folder, or in the storage's folder for such files.
    fn work_path(&self, scratch: Option<&Path>, file: &str) -> Result<PathBuf> {
        Ok(scratch.map_or_else(|| self.storage.workplace(), |folder| Ok(folder.to_owned()))?.join(file))
    }

    /// The copies that failed since the last call, also in clones, readers and updates of this store. The files remain;
    /// the caller removes them.
    pub fn take_refused_copies(&self) -> Vec<PathBuf> {
        let Some(Copies { refused, .. }) = &self.copies else { return Vec::new() };
        std::mem::take(&mut *refused.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
