//! A storage in memory, for tests: each call takes effect at once, for all threads. It is like a folder or like an
//! object store. One like an object store may have local copies, so that real files lie in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::error::Result;
use super::{Put, Requests, Storage, Upload};
use crate::error::{IoContext, Result as FilterResult};

#[derive(Debug, Default)]
struct Objects {
    now: BTreeMap<String, Vec<u8>>,
    /// All objects that ever existed.
    ever: BTreeMap<String, Vec<u8>>,
    /// Names that were given to two objects.
    reused: Vec<String>,
}

#[derive(Debug, Default)]
pub(in super::super) struct Memory {
    objects: Mutex<Objects>,
    /// Whether it puts as an object store does.
    pub(in super::super) has_no_drafts: bool,
    is_object_store: bool,
    /// The folder of local copies and working copies.
    pub(in super::super) copies: Option<tempfile::TempDir>,
    /// Uploads that were begun.
    pub(in super::super) uploads: Mutex<Vec<Upload>>,
}

impl Objects {
    fn put(&mut self, name: &str, bytes: &[u8]) {
        self.now.insert(name.to_owned(), bytes.to_owned());
        if self.ever.insert(name.to_owned(), bytes.to_owned()).is_some_and(|before| before != bytes) {
            self.reused.push(name.to_owned());
        }
    }
}

impl Memory {
    pub(in super::super) fn of_objects() -> Self {
        Self { has_no_drafts: true, is_object_store: true, ..Self::default() }
    }

    /// An object store whose objects are read through local copies.
    pub(in super::super) fn of_files() -> Self {
        Self { copies: Some(tempfile::tempdir().unwrap()), ..Self::of_objects() }
    }

    /// An object store that claims to be a folder, so that committers do not look after a put.
    pub(in super::super) fn unseen() -> Self {
        Self { has_no_drafts: true, ..Self::default() }
    }

    /// The path of the local copy of an object.
    pub(in super::super) fn copy(&self, name: &str) -> Option<PathBuf> {
        Some(self.copies.as_ref()?.path().join(name.replace('/', "-")))
    }

    fn lock(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an object.
    pub(in super::super) fn put(&self, name: &str, bytes: &[u8]) {
        self.lock().put(name, bytes);
    }

    /// Replaces an object, as if the new one had always been there.
    pub(in super::super) fn replace(&self, name: &str, bytes: &[u8]) {
        let mut all = self.lock();
        all.now.insert(name.to_owned(), bytes.to_owned());
        all.ever.insert(name.to_owned(), bytes.to_owned());
    }

    /// The names of all objects.
    pub(in super::super) fn names(&self) -> Vec<String> {
        self.lock().now.keys().cloned().collect()
    }

    /// Names that were given to two objects, one after the other.
    pub(in super::super) fn reused(&self) -> Vec<String> {
        self.lock().reused.clone()
    }

    /// Every object of a folder that ever existed, by its name.
    pub(in super::super) fn ever(&self, folder: &str) -> Vec<(String, Vec<u8>)> {
        let all = self.lock();
        let within = all.ever.iter().filter(|(name, _)| name.starts_with(folder));
        within.map(|(name, bytes)| (name.clone(), bytes.clone())).collect()
    }
}

impl Storage for Memory {
    fn is_object_store(&self) -> bool {
        self.is_object_store
    }

    fn put_if_absent(
        &self,
        name: &str,
        draft: &str,
        bytes: &[u8],
        due: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<Put> {
        if self.has_no_drafts {
            let mut all = self.lock();
            let is_free = !all.now.contains_key(name);
            if is_free {
                all.put(name, bytes);
            }
            return Ok(if is_free { Put::Done } else { Put::Taken });
        }
        self.put(draft, bytes);
        let is_due = due();
        let mut all = self.lock();
        let drafted = all.now.remove(draft);
        if !is_due? {
            return Ok(Put::Dropped);
        }
        match drafted {
            Some(bytes) if !all.now.contains_key(name) => {
                all.put(name, &bytes);
                Ok(Put::Done)
            }
            _ => Ok(Put::Taken),
        }
    }

    fn put_file(&self, name: &str, local: &Path) -> FilterResult<()> {
        let bytes = std::fs::read(local).at(local, "read")?;
        std::fs::remove_file(local).at(local, "remove")?;
        self.put(name, &bytes);
        Ok(())
    }

    fn local(&self, name: &str) -> FilterResult<PathBuf> {
        let not_found = || crate::Error::NotFound { path: name.into() };
        let path = self.copy(name).ok_or_else(not_found)?;
        if !path.exists() {
            let bytes = self.get(name)?.ok_or_else(not_found)?;
            std::fs::write(&path, bytes).at(&path, "write")?;
        }
        Ok(path)
    }

    fn forget(&self, name: &str) {
        let _ = self.copy(name).map(std::fs::remove_file);
    }

    fn workplace(&self) -> FilterResult<PathBuf> {
        Ok(self.copies.as_ref().map_or_else(std::env::temp_dir, |copies| copies.path().to_owned()))
    }

    fn get(&self, name: &str) -> FilterResult<Option<Vec<u8>>> {
        Ok(self.lock().now.get(name).cloned())
    }

    fn length(&self, name: &str) -> FilterResult<Option<u64>> {
        Ok(self.lock().now.get(name).map(|bytes| bytes.len() as u64))
    }

    fn list(&self, folder: &str, after: &str) -> FilterResult<Vec<String>> {
        let all = self.lock();
        let below = all.now.keys().filter_map(|name| name.strip_prefix(folder)?.strip_prefix('/'));
        Ok(below.filter(|name| !name.contains('/') && *name > after).map(str::to_owned).collect())
    }

    fn delete(&self, name: &str) -> FilterResult<Option<u64>> {
        Ok(self.lock().now.remove(name).map(|bytes| bytes.len() as u64))
    }

    fn settle(&self, _: &str) -> FilterResult<()> {
        Ok(())
    }

    fn uploads(&self) -> FilterResult<Option<Vec<Upload>>> {
        Ok(Some(self.uploads.lock().unwrap().clone()))
    }

    fn give_up(&self, upload: &Upload) -> FilterResult<()> {
        self.uploads.lock().unwrap().retain(|other| other != upload);
        Ok(())
    }

    fn requests(&self) -> Option<Requests> {
        self.is_object_store.then(|| Requests { put: self.lock().ever.len() as u64, ..Requests::default() })
    }
}
