//! Makes a store out of one filter: cuts its regions apart, into one file for each shard.

use std::path::{Path, PathBuf};

use super::Store;
use super::commit::{Change, Committed};
use super::description::Description;
use super::error::{Error, Result};
use super::files::Name;
use super::history;
use super::sealed::Sealed;
use super::version::FIRST;
use crate::system::new_uuid;
use crate::{Options, Reader};

impl Store {
    /// Creates a store of `shards` shards that answers as `filter` does, false positives included: see
    /// [`Reader::divide_to`]. The filter must take every key: it must not be a shard.
    ///
    /// If this fails, or its process ends, after the folder was made, [`open`](Self::open) fails with
    /// [`Error::Unfinished`]; calling this again continues the work. A filter that cannot be divided in this way is
    /// refused before anything is created.
    pub fn create_from(
        path: impl AsRef<Path>,
        shards: u32,
        filter: &Reader,
        options: &Options,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Self> {
        let path = path.as_ref();
        let info = filter.info()?;
        if info.shards != 1 {
            let found = format!("shard {} of {}", info.shard, info.shards);
            let expected = "a filter of all keys";
            return Err(crate::Error::Option { option: "the filter to divide", found, expected }.into());
        }
        filter.check_divisible(shards.into())?;
        let mut like = Options::like(filter)?;
        like.disk = options.disk.clone();
        // Each file has its share of the filter's limit. No shard is ever created anew.
        let description = Description::design(path, shards, &like)?;
        let description = Description { max_file_size: None, divided: true, ..description };
        let store = match Self::create_described(path, description, options) {
            Err(Error::Exists { path }) => {
                let store = history::open_unfinished(&path, options)?;
                let found = store.description;
                let same = Description { uuid: found.uuid, ..description } == found;
                if !same || !store.is_unfinished()? {
                    return Err(Error::Exists { path });
                }
                store
            }
            outcome => outcome?,
        };
        store.fill_from(filter, progress)?;
        Ok(store)
    }

    /// Puts the parts of a filter into an empty store.
    fn fill_from(&self, filter: &Reader, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<()> {
        let base = FIRST;
        let shards = 0..self.description.shards;
        let path = |_| self.work_path(None, &Name { base, uuid: new_uuid(&self.root)? }.filter());
        let paths: Vec<PathBuf> = shards.clone().map(path).collect::<Result<_>>()?;
        filter.divide_to(&paths, progress)?;
        let sealed = shards.zip(&paths).map(|(shard, path)| self.take_in(shard, base, path));
        let sealed = sealed.collect::<Result<_>>()?;
        let change = Change { base, operation: "divide".to_owned(), token: None, sealed };
        match self.commit(&change)? {
            Committed::New(_) => Ok(()),
            // A commit without a token that changes every shard makes a new version.
            Committed::Already(_) | Committed::Unchanged => Ok(()),
        }
    }

    /// Moves a closed filter to its place in the store.
    fn take_in(&self, shard: u32, base: u64, path: &Path) -> Result<Sealed> {
        let info = self.options.clone().sealed(true).read(path)?.info()?;
        for suffix in ["-journal", "-lock"] {
            let mut beside = path.as_os_str().to_owned();
            beside.push(suffix);
            // A file that remains does no harm, and a vacuum removes it.
            let _ = self.options.disk.remove(Path::new(&beside));
        }
        let name = Name { base, uuid: info.uuid };
        self.sealed(shard, name, path, &info)
    }
}
