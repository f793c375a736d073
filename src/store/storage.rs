//! The storage for the files of a store: put-if-absent, put a file, get, list from, delete. All steps of the protocols
//! in `format-spec/STORE.md` go through this trait, so that tests can run them over another storage and make each call
//! fail.
//!
//! A name is a path below the store, with `/` between its parts: `versions/000000000017.toml`. No two objects ever have
//! the same name, and no object changes.
//!
//! What every storage must do (`storage/tests.rs` checks it):
//!
//! 1. Of several puts of one name at most one is [`Put::Done`], and its bytes stay. The others leave nothing.
//! 2. After a put, every process can get, measure and list the whole object. After a delete, no process can.
//! 3. A listing shows every name that was there from before it began to its end, ascending.
//!
//! Of a folder (section 7):
//!
//! 4. While a put asks whether it is still due, listings show its draft. If the draft is deleted then, the put is not
//!    done.
//! 5. A listing may be out of date (section 11), so the newest version is also looked up by name.
//!
//! An object store (section 13) has no drafts, and its puts do not ask: the committer looks afterwards whether its version
//! counts. Its listings are never out of date. A put is durable when it returns, so [`settle`](Storage::settle) does
//! nothing. Its objects are read through local copies.

#[cfg(any(feature = "s3", feature = "gs", feature = "az"))]
mod bucket;
mod folder;
#[cfg(test)]
pub(super) mod memory;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(super) mod watched;

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use folder::Folder;

use super::error::{Error, Result};
use crate::Options;
use crate::error::{Error as FilterError, Result as FilterResult};
use crate::system::Rights;

/// Requests to a server of objects. Each repetition of a request counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Requests {
    /// Objects put, or parts of them.
    pub put: u64,
    /// Objects read, or parts of them.
    pub get: u64,
    /// Objects measured.
    pub head: u64,
    /// Pages of listings, of at most 1,000 names each.
    pub list: u64,
    /// Objects deleted, or uploads given up.
    pub delete: u64,
    /// Uploads of several parts begun and ended.
    pub post: u64,
    /// Requests among these without an answer, or answered with 429 or 5xx. Most were repeated.
    pub failed: u64,
}

impl std::ops::Add for Requests {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            put: self.put + other.put,
            get: self.get + other.get,
            head: self.head + other.head,
            list: self.list + other.list,
            delete: self.delete + other.delete,
            post: self.post + other.post,
            failed: self.failed + other.failed,
        }
    }
}

/// The kinds of object stores, by the schemes of their addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scheme {
    /// A server of the S3 protocol.
    S3,
    /// Google Cloud Storage.
    Gs,
    /// Azure Blob Storage, whose buckets are called containers.
    Az,
}

impl Scheme {
    const ALL: [Self; 3] = [Self::S3, Self::Gs, Self::Az];

    /// The beginning of an address, and the feature that brings such stores.
    const fn name(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Gs => "gs",
            Self::Az => "az",
        }
    }
}

/// Where a store lies in an object store: `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(any(feature = "s3", feature = "gs", feature = "az")),
    allow(dead_code, reason = "no bucket is opened")
)]
pub(super) struct Address<'a> {
    scheme: Scheme,
    bucket: &'a str,
    prefix: &'a str,
}

impl<'a> Address<'a> {
    /// The address that a path is; `None` if it is a path of files. Fails if it is meant as an address, and is none.
    pub(super) fn of(path: &'a Path) -> Option<Result<Self>> {
        let wrong = |problem| Some(Err(Error::Address { path: path.to_owned(), problem }));
        let bytes = path.as_os_str().as_encoded_bytes();
        let name = bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let (name, rest) = bytes.split_at_checked(name).filter(|(name, _)| !name.is_empty())?;
        let scheme = Scheme::ALL.into_iter().find(|scheme| scheme.name().as_bytes() == name);
        if !rest.starts_with(b"://") {
            // `pathlib` in Python makes this of two slashes.
            return if scheme.is_some() && rest.starts_with(b":/") {
                wrong("has lost a slash; give the address as text, with `://`")
            } else {
                None
            };
        }
        let rest = path.to_str().and_then(|path| path.split_once("://"));
        let (Some(scheme), Some((_, rest))) = (scheme, rest) else {
            return wrong(
                "a store lies in a folder, or at `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`, \
                 of UTF-8 characters",
            );
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_named = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let begins = bucket.starts_with(|first: char| first.is_ascii_alphanumeric());
        if !begins || !bucket.bytes().all(is_named) {
            return wrong("has no name of a bucket; that is made of letters, digits, `-`, `.` and `_`");
        }
        let prefix = prefix.trim_matches('/');
        let is_part = |part: &str| !["", ".", ".."].contains(&part) && !part.contains(char::is_control);
        if !prefix.is_empty() && !prefix.split('/').all(is_part) {
            return wrong("a part of the prefix is empty, `.` or `..`, or has a control character");
        }
        Some(Ok(Self { scheme, bucket, prefix }))
    }

    /// The address without slashes at its end.
    #[cfg(any(feature = "s3", feature = "gs", feature = "az"))]
    fn root(self) -> PathBuf {
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        format!("{}://{}{slash}{}", self.scheme.name(), self.bucket, self.prefix).into()
    }

    /// The storage there, and the store's path. `is_new` says whether a store is created there.
    #[cfg_attr(
        not(any(feature = "s3", feature = "gs", feature = "az")),
        allow(unused_variables, reason = "no bucket is opened")
    )]
    fn storage(self, path: &Path, options: &Options, is_new: bool) -> Result<(PathBuf, Arc<dyn Storage>)> {
        #[cfg(any(feature = "s3", feature = "gs", feature = "az"))]
        if let Some(settings) = bucket::Settings::of_environment(self.scheme) {
            let open = if is_new { bucket::Bucket::prepare } else { bucket::Bucket::open };
            return Ok((self.root(), Arc::new(open(self, settings, options)?)));
        }
        Err(Error::NoObjectStores { path: path.to_owned(), feature: self.scheme.name() })
    }
}

/// The storage of a store that may exist, and the store's path.
pub(super) fn open(path: &Path, options: &Options) -> Result<(PathBuf, Arc<dyn Storage>)> {
    if let Some(address) = Address::of(path).transpose()? {
        return address.storage(path, options, false);
    }
    let root = Folder::find(path)?;
    Ok((root.clone(), Arc::new(Folder::new(root, options.disk.clone()))))
}

/// The storage for a new store of `shards` shards, and the store's path.
pub(super) fn prepare(path: &Path, shards: u32, options: &Options) -> Result<(PathBuf, Arc<dyn Storage>)> {
    if let Some(address) = Address::of(path).transpose()? {
        return address.storage(path, options, true);
    }
    let folder = Folder::prepare(path, shards, &options.disk)?;
    Ok((folder.root().to_owned(), Arc::new(folder)))
}

/// Whether a path is meant as an address.
pub(super) fn is_address(path: &Path) -> bool {
    Address::of(path).is_some()
}

/// Whether a path looks like a store: nothing but names is checked, of an object store not even that it exists.
pub(super) fn is_store(path: &Path) -> bool {
    is_address(path) || Folder::is_store(path)
}

/// The outcome of a put-if-absent.
#[derive(Debug)]
pub(super) enum Put {
    /// The object has the name.
    Done,
    /// The put was no longer due; nothing was put.
    Dropped,
    /// The storage says that the name is taken or the draft gone. A network may repeat a call whose first try
    /// succeeded, so the object under the name may be this one.
    Taken,
    /// The put failed. If the object does not exist now, this put will not make it.
    Failed(FilterError),
    /// The put failed, and may still be carried out after the caller has looked.
    Unknown(FilterError),
}

/// An upload in parts to an object store that is neither finished nor given up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Upload {
    /// The name that the object would have.
    pub(super) name: String,
    /// The server's name for the upload.
    pub(super) id: String,
}

/// The files of a store.
pub(super) trait Storage: Debug + Send + Sync {
    /// Whether it is an object store.
    fn is_object_store(&self) -> bool;

    /// Gives `bytes` this name unless it is taken. A folder makes a draft under the name `draft` first, and asks `due`
    /// whether to take the last step.
    ///
    /// An error means that this call has not given the name to `bytes`, and can no longer do so.
    fn put_if_absent(
        &self,
        name: &str,
        draft: &str,
        bytes: &[u8],
        due: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<Put>;

    /// Moves a finished local file, which is synced, to a name that no other file ever has. The name is durable when
    /// this returns.
    fn put_file(&self, name: &str, local: &Path) -> FilterResult<()>;

    /// The path of a local file that holds an object, to be mapped; an error of kind `NotFound` if it does not exist. In a
    /// folder that is the object. Otherwise it is a copy, which other processes may remove at any time.
    fn local(&self, name: &str) -> FilterResult<PathBuf>;

    /// Removes the local copy of an object, so that it is fetched again.
    fn forget(&self, name: &str);

    /// The folder for working copies.
    fn workplace(&self) -> FilterResult<PathBuf>;

    /// The rights of working copies, so that every reader of the store may read them once they are in it; `None` leaves them
    /// to the process's umask.
    fn rights(&self) -> Option<Rights> {
        None
    }

    /// All bytes of an object, up to the greatest length of a text; `None` if it does not exist.
    fn get(&self, name: &str) -> FilterResult<Option<Vec<u8>>>;

    /// The length of an object in bytes; `None` if it does not exist.
    fn length(&self, name: &str) -> FilterResult<Option<u64>>;

    /// The names in a folder that come after `after` in the order of their bytes, ascending, without the folder's own
    /// name.
    fn list(&self, folder: &str, after: &str) -> FilterResult<Vec<String>>;

    /// Deletes an object, and returns its length in bytes; `None` if it does not exist.
    fn delete(&self, name: &str) -> FilterResult<Option<u64>>;

    /// Returns once the names that were put in a folder, or deleted from it, are durable.
    fn settle(&self, folder: &str) -> FilterResult<()>;

    /// The uploads below the store that are neither finished nor aborted; `None` if they cannot be listed, so that some may
    /// stay. A folder has none.
    fn uploads(&self) -> FilterResult<Option<Vec<Upload>>> {
        Ok(Some(Vec::new()))
    }

    /// Gives up an upload, and frees the room that its parts take.
    fn give_up(&self, _upload: &Upload) -> FilterResult<()> {
        Ok(())
    }

    /// The requests that were made to a server; `None` for a storage without one.
    fn requests(&self) -> Option<Requests> {
        None
    }
}

/// Why a text was not published, or perhaps not.
pub(super) enum Unpublished {
    /// It is not published, and never will be.
    Failed(Error),
    /// It is unknown whether it is published.
    Unknown(FilterError),
}

/// Why a put failed: a file system without hard links has several ways to say so.
fn failed(error: FilterError) -> Error {
    match error {
        FilterError::Io { path, op: "link", source } => Error::of_link(&path, source),
        error => error.into(),
    }
}

/// Publishes a text under a name: true if it is there, false if the caller must start over. If the outcome of the put
/// is not clear, looks at the object of that name: each text holds a uuid of its own, so equal bytes are the same text.
pub(super) fn publish(
    storage: &dyn Storage,
    name: &str,
    draft: &str,
    text: &[u8],
    due: &mut dyn FnMut() -> Result<bool>,
) -> Result<bool, Unpublished> {
    let put = storage.put_if_absent(name, draft, text, due).map_err(Unpublished::Failed)?;
    match put {
        Put::Done => return Ok(true),
        Put::Dropped => return Ok(false),
        Put::Taken | Put::Failed(_) | Put::Unknown(_) => {}
    }
    match (storage.get(name), put) {
        (Ok(Some(found)), _) => Ok(found == text),
        (Ok(None), Put::Failed(error)) => Err(Unpublished::Failed(failed(error))),
        (Ok(None) | Err(_), Put::Unknown(error)) | (Err(_), Put::Failed(error)) => {
            Err(Unpublished::Unknown(error))
        }
        (Ok(None), _) => Ok(false),
        (Err(error), _) => Err(Unpublished::Unknown(error)),
    }
}
