//! Creating a store (`format-spec/STORE.md`, section 6).
//!
//! Crash cases: a folder without `store.toml` is not a store. A creation leaves the same files wherever it is cut short,
//! and the next creation continues from them. Of several creations at once, the first to link `store.toml` wins.

use std::path::Path;

use super::Store;
use super::description::Description;
use super::error::{Error, Result};
use super::files::{DESCRIPTION, Name, VERSIONS, incoming, version};
use super::storage::{self, Unpublished, publish};
use super::version::{FIRST, Version};
use crate::Options;
use crate::system::new_uuid;

impl Store {
    /// Creates a store of `shards` shards, 1 to 65536, in a folder that does not exist or is empty. The options describe
    /// one filter that holds all keys, except that [`Options::max_file_size`] limits each shard's file.
    ///
    /// All shards are empty, and have no files. Fails with [`Error::Exists`] if the folder is not empty.
    pub fn create(path: impl AsRef<Path>, shards: u32, options: &Options) -> Result<Self> {
        let path = path.as_ref();
        Self::create_described(path, Description::design(path, shards, options)?, options)
    }

    pub(super) fn create_described(path: &Path, description: Description, options: &Options) -> Result<Self> {
        let (root, storage) = storage::prepare(path, description.shards, options)?;
        Self::found(Self::over(root, storage, description, options.clone()))
    }

    /// Writes the texts of a new store (steps 4 to 7).
    pub(super) fn found(store: Self) -> Result<Self> {
        let put = |name: &str, draft: Name, text: &str| {
            let draft = incoming(&draft.draft());
            let published = publish(&*store.storage, name, &draft, text.as_bytes(), &mut || Ok(true));
            published.map_err(|unpublished| match unpublished {
                Unpublished::Failed(error) => error,
                // Creating the store again shows whether it exists.
                Unpublished::Unknown(error) => error.into(),
            })
        };
        let id = new_uuid(&store.root)?;
        let first = version(FIRST);
        let text = store.text_of(&Version::first(id, store.description.first_epoch()))?;
        // If another process creates the store at the same time, its version serves as well.
        put(&first, Name { base: 0, uuid: id }, &text)?;
        // Protects: the first version. A store without any version would be damaged.
        store.storage.settle(VERSIONS)?;
        let path = store.path_of(DESCRIPTION);
        let text = store.description.encode(&path)?;
        // Do not publish a text that a reader would refuse.
        Description::decode(&path, text.as_bytes())?;
        if !put(DESCRIPTION, Name { base: 0, uuid: store.description.uuid }, &text)? {
            return Err(Error::Exists { path: store.root });
        }
        // Protects: the store itself.
        store.storage.settle("")?;
        Ok(store)
    }
}
