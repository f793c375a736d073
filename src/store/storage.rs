//! The storage for the files of a store: put-if-absent, put a file, get, list from, delete. All steps of the protocols
//! in `format-spec/STORE.md` go through this trait, so that tests can run them over another storage and make each call
//! fail. Real stores lie in a [`Folder`].
//!
//! A name is a path below the store, with `/` between its parts: `versions/000000000017.toml`. No two objects ever have
//! the same name, and no object changes.
//!
//! What every storage must do (`storage/tests.rs` checks it):
//!
//! 1. Of several puts of one name at most one is [`Put::Done`], and its bytes stay. The others leave nothing.
//! 2. While a put asks whether it is still due, listings show its draft. If the draft is deleted then, the put is not
//!    done.
//! 3. After a put, every process can get, measure and list the whole object. After a delete, no process can.
//! 4. A listing shows every name that was there before it began and is not deleted meanwhile, ascending. It may be out
//!    of date (section 11), so the newest version is also looked up by name.
//!
//! A folder and an object storage differ in two steps: the draft of a put-if-absent, which a storage with conditional
//! puts does not need, and [`settle`](Storage::settle), which does nothing if a put is durable when it returns. Both
//! steps are behind the same calls.

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

/// The outcome of a put-if-absent, as far as the storage can tell.
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

/// The files of a store.
pub(super) trait Storage: Debug + Send + Sync {
    /// Gives `bytes` this name unless it is taken. A storage that needs a draft makes it under the name `draft`. Before
    /// the last step, it asks `due` whether to take that step.
    ///
    /// Fails if this call has given the name to nothing, and never will.
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
}

/// Why a text was not published, or perhaps not.
pub(super) enum Unpublished {
    /// It is not published, and never will be.
    Failed(super::Error),
    /// It may or may not be published.
    Unknown(FilterError),
}

/// Why a put failed: a file system without hard links has several ways to say so.
fn failed(error: FilterError) -> super::Error {
    match error {
        FilterError::Io { path, op: "link", source } => super::Error::of_link(&path, source),
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
