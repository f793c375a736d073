//! Creating a store (`format-spec/STORE.md`, section 6).
//!
//! Crash cases: a folder without `store.toml` is no store. What an unfinished creation leaves is the same whoever
//! began it, so the next one goes on from there. Of several at once, the one that links `store.toml` wins.

use std::io;
use std::path::Path;

use super::Store;
use super::commit::publish;
use super::description::Description;
use super::error::{Error, Result};
use super::files::{Files, Name, names};
use super::version::{FIRST, Version};
use crate::Options;
use crate::disk::Disk;
use crate::error::IoContext;
use crate::system::new_uuid;

impl Store {
    /// Creates a store of so many shards, 1 to 65536, in a folder that is not there or empty. The options are those of
    /// one filter that holds all keys; [`Options::max_file_size`] is that of each shard's file.
    ///
    /// All shards are empty, and have no files. Fails with [`Error::Exists`] where something is in the way.
    pub fn create(path: impl AsRef<Path>, shards: u32, options: &Options) -> Result<Self> {
        let path = path.as_ref();
        Self::create_described(path, Description::design(path, shards, options)?, options)
    }

    pub(super) fn create_described(path: &Path, description: Description, options: &Options) -> Result<Self> {
        let disk = &*options.disk;
        make_dir(disk, path)?;
        let root = path.canonicalize().at(path, "open the folder")?;
        let files = Files::new(root);
        check_unused(&files)?;
        for folder in [&files.versions, &files.shards, &files.incoming] {
            make_dir(disk, folder)?;
        }
        for shard in 0..description.shards {
            make_dir(disk, &files.shard_folder(shard))?;
        }
        // Protects: the folders. What is put into them later is synced with them alone.
        sync_dir(disk, &files.shards)?;
        sync_dir(disk, &files.root)?;
        if let Some(parent) = files.root.parent() {
            sync_dir(disk, parent)?;
        }
        let id = new_uuid(&files.root)?;
        let first = files.version(FIRST);
        let text = Version::first(id).encode(&first, description.uuid)?;
        let draft = files.incoming.join(Name { base: 0, uuid: id }.draft());
        // If another process creates the store too, its version is as good.
        publish(disk, &text, &draft, &first)?;
        // Protects: the first version. A store without any version would be damaged.
        sync_dir(disk, &files.versions)?;
        let text = description.encode(&files.description)?;
        let draft = files.incoming.join(Name { base: 0, uuid: description.uuid }.draft());
        if !publish(disk, &text, &draft, &files.description)? {
            return Err(Error::Exists { path: files.root });
        }
        // Protects: the store itself.
        sync_dir(disk, &files.root)?;
        Ok(Self { files, description, options: options.clone(), copies: None })
    }
}

fn sync_dir(disk: &dyn Disk, folder: &Path) -> Result<()> {
    Ok(disk.sync_dir(folder).at(folder, "sync")?)
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

/// Fails unless there is nothing but what an unfinished creation leaves: folders, drafts, and the first version.
fn check_unused(files: &Files) -> Result<()> {
    let in_the_way = || Error::Exists { path: files.root.clone() };
    let own = [&files.versions, &files.shards, &files.incoming];
    for name in names(&files.root)? {
        if !own.contains(&&files.root.join(&name)) {
            return Err(in_the_way());
        }
    }
    let present = |folder: &Path| if folder.is_dir() { names(folder) } else { Ok(Vec::new()) };
    for name in present(&files.versions)? {
        if files.versions.join(name) != files.version(FIRST) {
            return Err(in_the_way());
        }
    }
    for folder in present(&files.shards)? {
        if !present(&files.shards.join(folder))?.is_empty() {
            return Err(in_the_way());
        }
    }
    Ok(())
}
