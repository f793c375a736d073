//! Where the files of a store lie: put-if-absent, put a file, get, list from, delete. All steps of the protocols in
//! `format-spec/STORE.md` go through this trait, so that tests can run them over another storage and make each call
//! fail. A [`Folder`] is what stores lie in.
//!
//! A name is a path below the store, with `/` between its parts: `versions/000000000017.toml`. No two objects ever have
//! the same name, and no object changes.
//!
//! What every storage must do (`storage/tests.rs` checks it):
//!
//! 1. Of several puts of one name at most one is [`Put::Done`], and its bytes stay. The others leave nothing.
//! 2. While a put asks whether it is still due, its draft is listed. A put whose draft is deleted then is not done.
//! 3. An object that was put is got, measured and listed, whole, by everybody from then on. One that was deleted is not.
//! 4. A listing shows every name that was there before it began and is not deleted meanwhile, ascending. It may be that
//!    of a moment before (section 11), so that the newest version is also asked for by name.
//!
//! Protocol steps in which the storages of a folder and of objects differ are behind the same call: the draft of a
//! put-if-absent, which a storage with conditional puts does not need, and [`settle`](Storage::settle), which has
//! nothing to do where a put is durable when it returns.

mod folder;
#[cfg(test)]
pub(super) mod memory;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(super) mod watched;

use std::fmt::Debug;
use std::path::Path;

pub(super) use folder::Folder;

use super::error::Result;
use crate::error::{Error as FilterError, Result as FilterResult};

/// How a put-if-absent came out, as far as the storage can tell.
#[derive(Debug)]
pub(super) enum Put {
    /// The object has the name.
    Done,
    /// The caller did not want it any more; nothing was put.
    Dropped,
    /// The storage says that the name is taken or the draft gone. A network may repeat a call whose first try
    /// succeeded, so the object under the name may be this one.
    Taken,
    /// The put failed. If the object is not there now, it never will be.
    Failed(FilterError),
    /// The put failed, and may still be carried out after the caller has looked.
    Unknown(FilterError),
}

/// The files of a store.
pub(super) trait Storage: Debug + Send + Sync {
    /// Gives `bytes` this name unless it is taken. A storage that needs a draft makes it under the name `draft`. When
    /// only the last step is left, it asks `due` whether to take it.
    ///
    /// Fails if nothing has the name because of this call, and nothing will.
    fn put_if_absent(
        &self,
        name: &str,
        draft: &str,
        bytes: &[u8],
        due: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<Put>;

    /// Moves a finished local file, which is synced, to a name that is its own alone. The name is durable when this
    /// returns.
    fn put_file(&self, name: &str, local: &Path) -> FilterResult<()>;

    /// All bytes of an object, up to the longest that a text may have; `None` if it is not there.
    fn get(&self, name: &str) -> FilterResult<Option<Vec<u8>>>;

    /// The bytes that an object has; `None` if it is not there.
    fn length(&self, name: &str) -> FilterResult<Option<u64>>;

    /// The names in a folder that come after `after` in the order of their bytes, without the folder's, ascending.
    fn list(&self, folder: &str, after: &str) -> FilterResult<Vec<String>>;

    /// Deletes an object, and tells how many bytes it had; `None` if it is not there.
    fn delete(&self, name: &str) -> FilterResult<Option<u64>>;

    /// Returns once the names that were put in a folder, or deleted from it, are durable.
    fn settle(&self, folder: &str) -> FilterResult<()>;
}

/// Why a text that was to be published may not be there.
pub(super) enum Unpublished {
    /// It is not there, and never will be.
    Failed(super::Error),
    /// Nobody knows.
    Unknown(FilterError),
}

/// Why a put failed: a file system without hard links has several ways to say so.
fn failed(error: FilterError) -> super::Error {
    match error {
        FilterError::Io { path, op: "link", source } => super::Error::of_link(&path, source),
        error => error.into(),
    }
}

/// Publishes a text under a name: true if it is there, false if the caller must start over. A put that is not clear is
/// cleared up by a look at what has the name: texts hold a uuid of their own, so equal bytes are the same text.
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
