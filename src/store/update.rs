//! Changing shards of a store: in working copies that nobody else sees, which are then sealed and committed
//! (`format-spec/STORE.md`, section 8).
//!
//! Crash cases: until the commit, all that an update leaves are files that no version names. A vacuum removes them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::Store;
use super::commit::{Change, Committed, Token};
use super::error::{Error, Result};
use super::files::{self, INCOMING, Name};
use super::partition::{Partition, divided};
use super::sealed::Sealed;
use super::version::Version;
#[cfg(doc)]
use crate::Options;
use crate::system::new_uuid;
use crate::{Batches as _, Error as FilterError, Info, Key, KeyHash, Writer};

/// Keys of a batch that are divided by shard at a time.
const BLOCK: usize = 1 << 22;
/// With fewer keys, starting a thread costs more than it saves.
const KEYS_WORTH_A_THREAD: usize = 8192;

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
    Remove,
}

/// What became of the keys of one shard, by their places among those.
struct Outcome {
    /// The index of each in the batch.
    indices: Vec<u32>,
    /// Those that are new, or were removed.
    done: Vec<usize>,
    refused: Vec<(usize, FilterError)>,
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

    /// Takes all keys, and tells `done` the indices of those that are new, or that were removed.
    pub(super) fn take_all<K: Key + Sync>(
        &mut self,
        keys: &[K],
        deed: Deed,
        mut done: impl FnMut(usize),
    ) -> Result<Vec<(usize, FilterError)>> {
        let mut refused = Vec::new();
        for (start, keys) in (0..).step_by(BLOCK).zip(keys.chunks(BLOCK)) {
            for Outcome { indices, done: of_shard, refused: none_for } in self.take_block(keys, deed)? {
                let index_of = |at: usize| start + indices.get(at).copied().unwrap_or_default() as usize;
                of_shard.into_iter().for_each(|at| done(index_of(at)));
                refused.extend(none_for.into_iter().map(|(at, error)| (index_of(at), error)));
            }
        }
        refused.sort_by_key(|(index, _)| *index);
        Ok(refused)
    }

    fn take_block<K: Key + Sync>(&mut self, keys: &[K], deed: Deed) -> Result<Vec<Outcome>> {
        let Self { store, base, scratch, drafts } = self;
        let threads = store.options.threads.min(keys.len() / KEYS_WORTH_A_THREAD).max(1);
        let part = keys.len().div_ceil(threads).max(1);
        // Where the keys of each part begin.
        let parts: Vec<_> = (0_u32..).step_by(part).zip(keys.chunks(part)).collect();
        let mut parts = divided(parts, threads, |(start, keys)| Ok((start, store.partition(keys)?)))?;
        parts.sort_by_key(|(start, _)| *start);
        let has_keys = |shard: u32| parts.iter().any(|(_, part)| !part.hashes_of(shard).is_empty());
        let touched: Vec<_> = (0..).zip(drafts.iter_mut()).filter(|(shard, _)| has_keys(*shard)).collect();
        divided(touched, threads, |(shard, place)| {
            let draft = match place {
                Some(draft) => draft,
                none => none.insert(Draft::open(store, base, scratch.as_deref(), shard)?),
            };
            let (hashes, indices) = gather(&parts, shard);
            let of = |mask: Vec<bool>| (0..).zip(mask).filter_map(|(at, is)| is.then_some(at)).collect();
            Ok(match deed {
                Deed::Insert => {
                    let inserted = draft.writer.insert_batch(&hashes)?;
                    Outcome { indices, done: of(inserted.mask()), refused: inserted.into_refused() }
                }
                Deed::Remove => {
                    let removed = draft.writer.remove_batch(&hashes)?;
                    Outcome { indices, done: of(removed), refused: Vec::new() }
                }
            })
        })
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
            let sealed =
                draft.seal(&store, &base, shard).map_err(|error| store.given_up(base.number, error))?;
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            *done += 1;
            progress(*done, all);
            Ok(sealed)
        })?;
        sealed.sort_by_key(Sealed::shard);
        Ok(sealed)
    }

    /// Seals the shards that were touched, and publishes a version with them, as [`Store::commit`] does. Without a
    /// touched shard and without a token there is nothing to publish. If a commit with the
    /// token was made before, no shard is sealed.
    pub fn commit(self, operation: &str, token: Option<Token>) -> Result<Committed> {
        if self.touched() == 0 && token.is_none() {
            return Ok(Committed::Unchanged);
        }
        let (store, base) = (self.store.clone(), self.base.number);
        let mut change = Change { base, operation: operation.to_owned(), token, sealed: Vec::new() };
        let newest = store.newest()?;
        if let Some(done) = change.already(&newest) {
            return Ok(Committed::Already(done));
        }
        // A token or word that cannot be published is told before any shard is sealed.
        if base <= newest.number {
            store.text_of(&change.on(&newest, newest.id))?;
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
        let incoming = store.path_of(INCOMING);
        let name = Name { base: base.number, uuid: new_uuid(&incoming)? };
        let path = scratch.unwrap_or(&incoming).join(name.filter());
        let file = base.shards.get(&shard);
        let own = &store.options;
        let mut options =
            store.description.options(shard).max_kicks(own.max_kicks).void_growth(own.void_growth);
        (options.progress, options.disk) = (own.progress.clone(), own.disk.clone());
        // Every page is compared with its checksum as it is copied.
        if let Some(copy) = file.and_then(|file| store.open_copy(shard, file)) {
            match options.working_copy(&path, name.uuid, Some(&copy)) {
                Ok(writer) => return Ok(Self { name, path, writer }),
                Err(error) => store.refuse_copy(copy.path(), &error.into()),
            }
        }
        let source = file.map(|file| store.open_shard(base, shard, file)).transpose()?;
        let writer = options.working_copy(&path, name.uuid, source.as_ref())?;
        Ok(Self { name, path, writer })
    }

    fn seal(self, store: &Store, base: &Version, shard: u32) -> Result<Sealed> {
        let Self { name, path, writer } = self;
        let info = writer.seal()?;
        debug_assert_eq!(name, Name { base: base.number, uuid: info.uuid });
        store.sealed(shard, name, &path, &info)
    }
}

impl Store {
    /// Why a file of an update is not there: because a vacuum has given the update up, and has perhaps removed its files,
    /// if one has.
    pub(super) fn given_up(&self, base: u64, error: Error) -> Error {
        match self.newest() {
            Ok(Version { fence, .. }) if fence > base => {
                Error::Expired { path: self.root.clone(), base, fence }
            }
            _ => error,
        }
    }

    /// Gives a finished file its place in the store; says what it is committed by.
    pub(super) fn sealed(&self, shard: u32, name: Name, path: &Path, info: &Info) -> Result<Sealed> {
        self.storage.put_file(&files::shard(shard, &name), path)?;
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
