//! Changing shards of a store: in working copies that nobody else sees, which are then sealed and committed
//! (`format-spec/STORE.md`, section 8).
//!
//! Crash cases: until the commit, all that an update leaves are files that no version names. A vacuum removes them.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::Store;
use super::commit::{Change, Committed, Transaction};
use super::error::{Error, Result};
use super::files::Name;
use super::partition::{Partition, divided};
use super::sealed::Sealed;
use super::version::Version;
#[cfg(doc)]
use crate::Options;
use crate::disk::Disk;
use crate::error::IoContext;
use crate::system::new_uuid;
use crate::{Error as FilterError, Info, KeyHash, Writer};

/// Keys of a batch that are divided by shard at a time.
const BLOCK: usize = 1 << 22;
/// With fewer keys, starting a thread costs more than it saves.
const KEYS_WORTH_A_THREAD: usize = 8192;
/// Bytes that are copied at a time.
const PIECE: usize = 1 << 20;

/// Changes to a store, made on one version of it: seen by nobody until they are [committed](Self::commit).
///
/// A shard that is touched gets a working copy of its own, into which keys go without a journal. Dropping the update
/// removes the working copies. Any number of updates may be made at the same time; of two that change the same shard,
/// the one that commits first wins.
pub struct Update {
    pub(super) store: Store,
    base: Version,
    scratch: Option<PathBuf>,
    /// Of each shard its working copy, once it was touched.
    drafts: Vec<Option<Draft>>,
}

impl fmt::Debug for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (base, touched) = (self.base.number, self.touched());
        let path = self.store.path();
        f.debug_struct("Update")
            .field("path", &path)
            .field("base", &base)
            .field("touched", &touched)
            .finish_non_exhaustive()
    }
}

struct Draft {
    name: Name,
    path: PathBuf,
    writer: Writer,
}

/// What is done with each key of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Insert,
    InsertUnique,
    Remove,
    RemoveUnchecked,
}

impl Store {
    /// Begins an update of the newest version.
    pub fn update(&self) -> Result<Update> {
        Ok(self.update_of(self.newest()?))
    }

    /// Begins an update of a version, such as the one that the keys were compared with. If a shard that it touches has
    /// been changed since, it cannot be committed.
    pub fn update_of(&self, base: Version) -> Update {
        let drafts = (0..self.description.shards).map(|_| None).collect();
        Update { store: self.clone(), base, scratch: None, drafts }
    }
}

impl Update {
    /// Makes working copies in this folder, as on a fast local disk, in place of the store's own. They move into the
    /// store when they are sealed.
    pub fn scratch(mut self, folder: impl Into<PathBuf>) -> Self {
        self.scratch = Some(folder.into());
        self
    }

    /// The version that the update is made on.
    pub const fn base(&self) -> &Version {
        &self.base
    }

    /// Shards that have a working copy.
    pub fn touched(&self) -> usize {
        self.drafts.iter().flatten().count()
    }

    pub(super) fn take_all<K: Sync>(
        &mut self,
        keys: &[K],
        hash: impl Fn(&K) -> Result<KeyHash> + Sync,
        deed: Deed,
        done: &mut Vec<bool>,
    ) -> Result<Vec<(usize, FilterError)>> {
        done.clear();
        done.resize(keys.len(), false);
        let mut refused = Vec::new();
        for (start, (keys, done)) in (0..).step_by(BLOCK).zip(keys.chunks(BLOCK).zip(done.chunks_mut(BLOCK)))
        {
            let block = self.take_block(keys, &hash, deed, done)?;
            refused.extend(block.into_iter().map(|(index, error)| (start + index as usize, error)));
        }
        refused.sort_by_key(|(index, _)| *index);
        Ok(refused)
    }

    fn take_block<K: Sync>(
        &mut self,
        keys: &[K],
        hash: &(impl Fn(&K) -> Result<KeyHash> + Sync),
        deed: Deed,
        done: &mut [bool],
    ) -> Result<Vec<(u32, FilterError)>> {
        let Self { store, base, scratch, drafts } = self;
        let threads = store.options.threads.min(keys.len() / KEYS_WORTH_A_THREAD).max(1);
        let part = keys.len().div_ceil(threads).max(1);
        // Where the keys of each part begin.
        let parts: Vec<_> = (0_u32..).step_by(part).zip(keys.chunks(part)).collect();
        let mut parts = divided(parts, threads, |(start, keys)| Ok((start, store.partition(keys, hash)?)))?;
        parts.sort_by_key(|(start, _)| *start);
        let has_keys = |shard: u32| parts.iter().any(|(_, part)| !part.hashes_of(shard).is_empty());
        let touched: Vec<_> = (0..).zip(drafts.iter_mut()).filter(|(shard, _)| has_keys(*shard)).collect();
        let outcomes = divided(touched, threads, |(shard, place)| {
            let draft = match place {
                Some(draft) => draft,
                none => none.insert(Draft::open(store, base, scratch.as_deref(), shard)?),
            };
            let (hashes, indices) = gather(&parts, shard);
            let mut done = Vec::new();
            let refused = match deed {
                Deed::Insert => draft.writer.insert_hash_batch(&hashes)?,
                Deed::InsertUnique => draft.writer.insert_unique_hash_batch_into(&hashes, &mut done)?,
                Deed::Remove => {
                    draft.writer.remove_hash_batch_into(&hashes, &mut done).map(|()| Vec::new())?
                }
                Deed::RemoveUnchecked => {
                    for hash in &hashes {
                        done.push(draft.writer.remove_unchecked_hash(*hash)?);
                    }
                    Vec::new()
                }
            };
            Ok((indices, done, refused))
        })?;
        let mut all_refused = Vec::new();
        for (indices, answers, refused) in outcomes {
            for (index, _) in indices.iter().zip(&answers).filter(|(_, answer)| **answer) {
                if let Some(place) = done.get_mut(*index as usize) {
                    *place = true;
                }
            }
            let index_of = |at: usize| indices.get(at).copied().unwrap_or_default();
            all_refused.extend(refused.into_iter().map(|(at, error)| (index_of(at), error)));
        }
        Ok(all_refused)
    }

    /// Makes a sealed file of each working copy, synced and in its place in the store. No version names them yet: a
    /// [`Change`] with them can be committed here, or by another process that they are sent to.
    ///
    /// If this fails, the update is lost; the store is as it was.
    pub fn seal(self) -> Result<Vec<Sealed>> {
        self.seal_with(&|_, _| {})
    }

    /// As [`seal`](Self::seal); `progress` is told the shards sealed, and all there are to seal.
    pub fn seal_with(self, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Vec<Sealed>> {
        let Self { store, base, drafts, .. } = self;
        let drafts: Vec<_> = (0..).zip(drafts).filter_map(|(shard, draft)| Some((shard, draft?))).collect();
        let (all, done) = (drafts.len() as u64, Mutex::new(0));
        let mut sealed = divided(drafts, store.options.threads, |(shard, draft)| {
            let sealed = draft.seal(&store, &base, shard).map_err(|error| store.given_up(&base, error))?;
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            *done += 1;
            progress(*done, all);
            Ok(sealed)
        })?;
        sealed.sort_by_key(Sealed::shard);
        Ok(sealed)
    }

    /// Seals the shards that were touched, and publishes a version with them, as [`Store::commit`] does. Without a
    /// touched shard and without a transaction there is nothing to publish. Of a transaction that was committed before,
    /// no shard is sealed.
    pub fn commit(self, operation: &str, transaction: Option<Transaction>) -> Result<Committed> {
        if self.touched() == 0 && transaction.is_none() {
            return Ok(Committed::Unchanged);
        }
        let (store, base) = (self.store.clone(), self.base.number);
        let mut change = Change { base, operation: operation.to_owned(), transaction, sealed: Vec::new() };
        if let Some(done) = change.already(&store.newest()?) {
            return Ok(Committed::Already(done));
        }
        change.sealed = self.seal()?;
        store.commit(&change)
    }
}

/// The hashes of a shard from all parts, in the order of their keys, and the indices of these.
fn gather(parts: &[(u32, Partition)], shard: u32) -> (Vec<KeyHash>, Vec<u32>) {
    let hashes = parts.iter().flat_map(|(_, part)| part.hashes_of(shard).iter().copied());
    let indices =
        parts.iter().flat_map(|(start, part)| part.indices_of(shard).iter().map(move |index| start + index));
    (hashes.collect(), indices.collect())
}

impl Draft {
    /// A working copy of a shard, as it is in a version.
    fn open(store: &Store, base: &Version, scratch: Option<&Path>, shard: u32) -> Result<Self> {
        let name = Name { base: base.number, uuid: new_uuid(&store.files.incoming)? };
        let path = scratch.unwrap_or(&store.files.incoming).join(name.filter());
        let file = base.shards.get(&shard);
        let own = &store.options;
        let mut options =
            store.description.options(shard).max_kicks(own.max_kicks).void_growth(own.void_growth);
        (options.progress, options.disk) = (own.progress.clone(), own.disk.clone());
        // Every page is compared with its checksum as it is copied.
        if let Some(copy) = file.and_then(|file| store.open_copy(shard, file)) {
            match options.draft(&path, name.uuid, Some(&copy)) {
                Ok(writer) => return Ok(Self { name, path, writer }),
                Err(error) => store.refuse_copy(copy.path(), &error.into()),
            }
        }
        let source = file.map(|file| store.open_shard(base, shard, file)).transpose()?;
        let writer = options.draft(&path, name.uuid, source.as_ref())?;
        Ok(Self { name, path, writer })
    }

    fn seal(self, store: &Store, base: &Version, shard: u32) -> Result<Sealed> {
        let Self { name, path, writer } = self;
        let info = writer.seal()?;
        let disk = &**store.disk();
        let place = store.files.shard(shard, &name);
        match disk.rename(&path, &place, true) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let near = store.files.incoming.join(name.filter());
                copy(disk, &path, &near)?;
                let _ = disk.remove(&path);
                disk.rename(&near, &place, true).at(&place, "rename")?;
            }
            outcome => outcome.at(&place, "rename")?,
        }
        debug_assert_eq!(name, Name { base: base.number, uuid: info.uuid });
        store.sealed(shard, name, &info)
    }
}

impl Store {
    /// Why an update failed to be sealed: because a vacuum has given it up, and has perhaps removed its working copies, if
    /// one has.
    fn given_up(&self, base: &Version, error: Error) -> Error {
        match self.newest() {
            Ok(Version { fence, .. }) if fence > base.number => {
                Error::Expired { path: self.files.root.clone(), base: base.number, fence }
            }
            _ => error,
        }
    }

    /// What a file that has got its place in the folder of its shard is committed by.
    pub(super) fn sealed(&self, shard: u32, name: Name, info: &Info) -> Result<Sealed> {
        let folder = self.files.shard_folder(shard);
        // Protects: the name of the file, before a version names it.
        self.disk().sync_dir(&folder).at(&folder, "sync")?;
        Ok(Sealed {
            store: self.description.uuid,
            shard,
            base: name.base,
            uuid: name.uuid,
            commit: info.commit,
            bytes: info.file_length,
            entries: info.entries,
            rate: info.expected_false_positive_rate,
        })
    }
}

/// Copies a file to another file system, and syncs the copy.
fn copy(disk: &dyn Disk, from: &Path, to: &Path) -> Result<()> {
    let source = File::open(from).at(from, "open")?;
    let length = source.metadata().at(from, "look at")?.len();
    let target = disk.create(to, 0o666).at(to, "create")?;
    let mut piece = vec![0; PIECE];
    let mut offset = 0;
    while offset < length {
        let size = usize::try_from(length - offset).unwrap_or(PIECE).min(PIECE);
        let piece = piece.get_mut(..size).unwrap_or_default();
        disk.read_at(&source, piece, offset).at(from, "read")?;
        disk.write_at(&target, piece, offset).at(to, "write")?;
        offset += size as u64;
    }
    // Protects: all of the copy, before it has its name in the store.
    Ok(disk.sync(&target).at(to, "sync")?)
}
