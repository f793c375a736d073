//! Working copies of shards, and folding a shard's pending records into its working copy (`format-spec/STORE.md`,
//! sections 8 and 12.4).
//!
//! Crash cases: until its commit, a fold leaves a working copy or a file that no version names. A vacuum removes them.

use std::path::{Path, PathBuf};

use super::Store;
use super::error::{Error, Result};
use super::files::{self, Name};
use super::reader::StoreReader;
use super::run::RecordKey;
use super::sealed::Sealed;
use super::version::Version;
use crate::system::new_uuid;
use crate::write::{InTime as _, Told, by_index};
use crate::{Batches as _, Error as FilterError, KeyHash, Kind, Reader, Writer};

/// How many keys are folded together.
const BLOCK: usize = 1 << 16;
/// Even with the smallest file, this many records cost less than writing the file anew.
const FEW_RECORDS: u64 = 8192;

/// A shard with more pending records than this is cheaper to write anew.
pub(super) fn worth_rewriting(version: &Version, shard: u32) -> u64 {
    let entries = version.shards.get(&shard).map_or(0, |file| file.entries);
    FEW_RECORDS.max(entries / 16)
}

/// An update rewrites a shard with more records than this: 1 to 1.5 times [`worth_rewriting`], drawn for each shard.
pub(super) fn rewritten_at(store: &Store, version: &Version, shard: u32) -> u64 {
    let worth = worth_rewriting(version, shard);
    worth + drawn(store, version, shard, worth / 2)
}

/// A number below `end`, drawn by the number of the shard's file, so that shards that fill equally fast are not all
/// written anew at once.
pub(super) fn drawn(store: &Store, version: &Version, shard: u32, end: u64) -> u64 {
    let uuid = version.shards.get(&shard).map_or(store.description.uuid, |file| file.name.uuid);
    let bits = u128::from_le_bytes(uuid) as u64 ^ u64::from(shard).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(bits) * u128::from(end)) >> 64) as u64
}

/// The operation on each key of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// Insert it, and report the new or the known keys.
    Insert(Told),
    /// Insert it into a forgetting store, keep it until the later of the two expiries, and report the new keys.
    Prolong,
    /// Remove a copy of it, and report the keys that had a copy.
    Remove,
}

impl Operation {
    /// The places of the keys to report. `done` has the places of the keys that are new, or were removed, among `keys`
    /// keys.
    pub(super) fn reported(self, done: Vec<usize>, keys: usize) -> Vec<usize> {
        if self != Self::Insert(Told::Seen) {
            return done;
        }
        let mut is_new = vec![false; keys];
        done.into_iter().for_each(|at| is_new.get_mut(at).into_iter().for_each(|is| *is = true));
        (0..).zip(is_new).filter_map(|(at, is_new)| (!is_new).then_some(at)).collect()
    }
}

/// The places of the reported keys, in any order, and the refused keys.
pub(super) type BatchOutcome = (Vec<usize>, Vec<(usize, FilterError)>);

/// A working copy of a shard, which nobody else reads.
pub(super) struct WorkingCopy {
    name: Name,
    path: PathBuf,
    writer: Writer,
    kind: Kind,
}

impl WorkingCopy {
    /// A working copy of a shard as `base` shows it, with its pending records folded in. With `stays`, it lies on disk and
    /// not in memory: an update may have many working copies at once.
    ///
    /// Fails with [`Full`](crate::Error::Full) or [`Growth`](crate::Error::Growth) if the records do not fit.
    pub(super) fn open(base: &StoreReader, scratch: Option<&Path>, shard: u32, stays: bool) -> Result<Self> {
        let mut copy = Self::copy(base, scratch, shard, stays)?;
        copy.come_to(base.now)?;
        copy.fold(base.merged(shard)?)?;
        Ok(copy)
    }

    /// A working copy of a shard's file, or a new filter.
    fn copy(base: &StoreReader, scratch: Option<&Path>, shard: u32, stays: bool) -> Result<Self> {
        let (store, version) = (base.store(), base.version());
        let name = Name { base: version.number, uuid: new_uuid(store.path())? };
        let path = store.work_path(scratch, &name.filter())?;
        let (kind, file, own) = (store.description.kind, version.shards.get(&shard), &store.options);
        let mut options =
            store.description.options(shard).max_kicks(own.max_kicks).void_growth(own.void_growth);
        (options.progress, options.disk) = (own.progress.clone(), own.disk.clone());
        // The store's own epoch was checked when it was published.
        options = options.clock_is_right(true);
        let rights = store.storage.rights();
        let working_copy =
            |source: Option<&Reader>| options.working_copy(&path, name.uuid, source, rights.as_ref(), stays);
        // Copying compares every page with its checksum.
        if let Some(copy) = file.and_then(|file| store.open_copy(shard, file)) {
            match working_copy(Some(&copy)) {
                Ok(writer) => return Ok(Self { name, path, writer, kind }),
                Err(error) => store.refuse_copy(copy.path(), &error.into()),
            }
        }
        let own = || file.map(|file| store.open_shard(version, shard, file)).transpose();
        let writer = match (working_copy(own()?.as_ref()), file) {
            // The local file may have rotted.
            (Err(_), Some(file)) if store.storage.is_object_store() => {
                store.storage.forget(&files::shard(shard, &file.name));
                working_copy(own()?.as_ref())?
            }
            (outcome, _) => outcome?,
        };
        Ok(Self { name, path, writer, kind })
    }

    /// Advances to the epoch of a forgetting store.
    pub(super) fn come_to(&mut self, epoch: u64) -> Result<()> {
        if self.kind == Kind::Forgetting {
            self.writer.come_to(epoch)?;
        }
        Ok(())
    }

    /// Inserts the added copies first, then removes the removed ones: each of them was inserted before.
    pub(super) fn fold(&mut self, keys: impl Iterator<Item = Result<(RecordKey, i64)>>) -> Result<()> {
        if self.kind == Kind::Forgetting {
            return self.fold_in_time(keys);
        }
        let (mut came, mut gone) = (Vec::new(), Vec::new());
        for next in keys {
            let (key, copies) = next?;
            let copies = if self.kind == Kind::Set { copies.min(1) } else { copies };
            for _ in 0..copies.max(0) {
                came.push(key.hash());
                if came.len() == BLOCK {
                    self.store_all(&came)?;
                    came.clear();
                }
            }
            if copies < 0 {
                gone.push((key, copies));
            }
        }
        self.store_all(&came)?;
        let each = gone.into_iter().flat_map(|(key, copies)| (copies..0).map(move |_| key.hash()));
        let each: Vec<KeyHash> = each.collect();
        // From a saturated group, nothing is removed.
        each.chunks(BLOCK).try_for_each(|part| self.writer.remove_batch(part).map(drop))?;
        Ok(())
    }

    /// Inserts keys of a forgetting store, each with its expiry epoch. Refreshes each, as the entry that matches a key
    /// may belong to another key and expire earlier.
    fn fold_in_time(&mut self, keys: impl Iterator<Item = Result<(RecordKey, i64)>>) -> Result<()> {
        let now = self.writer.time()?.epoch;
        let (mut hashes, mut expiries) = (Vec::new(), Vec::new());
        for next in keys {
            let (key, expiry) = next?;
            if expiry as u64 > now {
                hashes.push(key.hash());
                expiries.push(expiry as u64);
            }
            if hashes.len() == BLOCK {
                self.store_until(&hashes, &expiries)?;
                hashes.clear();
                expiries.clear();
            }
        }
        self.store_until(&hashes, &expiries)
    }

    fn store_until(&mut self, hashes: &[KeyHash], expiries: &[u64]) -> Result<()> {
        let mut first = None;
        let all = (hashes, (0..hashes.len() as u32).collect(), expiries);
        self.writer.insert_refreshing(
            all,
            true,
            |_| {},
            |_, error| {
                first.get_or_insert(error);
            },
        )?;
        first.map_or(Ok(()), |error| Err(error.into()))
    }

    fn store_all(&mut self, hashes: &[KeyHash]) -> Result<()> {
        match self.writer.insert_batch(hashes)?.into_refused().into_iter().next() {
            None => Ok(()),
            Some((_, error)) => Err(error.into()),
        }
    }

    /// Inserts or removes keys; in a forgetting store, each expires in the epoch at its place.
    pub(super) fn take(
        &mut self,
        hashes: &[KeyHash],
        expiries: &[u64],
        operation: Operation,
    ) -> Result<BatchOutcome> {
        let (mut done, mut refused) = (Vec::new(), Vec::new());
        match operation {
            Operation::Insert(_) | Operation::Prolong if self.kind == Kind::Forgetting => {
                let all = (hashes, (0..hashes.len() as u32).collect(), expiries);
                let refresh = operation == Operation::Prolong || self.writer.time()?.forgetting.refresh;
                let refuse = |at, error| refused.push((at, error));
                self.writer.insert_until(all, refresh, |at| done.push(at), refuse)?;
                (done, refused) = (operation.reported(done, hashes.len()), by_index(refused));
            }
            Operation::Insert(reported) => {
                refused = self.writer.insert_reporting(hashes, reported, |at| done.push(at))?
            }
            // Only forgetting stores accept lifetimes.
            Operation::Prolong => {}
            Operation::Remove => self.writer.remove_each(hashes, |at| done.push(at))?,
        }
        Ok((done, refused))
    }

    pub(super) fn seal(self, base: &StoreReader, shard: u32) -> Result<Sealed> {
        let Self { name, path, writer, .. } = self;
        let info = writer.seal()?;
        debug_assert_eq!(name, Name { base: base.version().number, uuid: info.uuid });
        base.store().sealed(shard, name, &path, &info)
    }

    /// Seals it where it is, only for this process.
    pub(super) fn seal_here(self) -> Result<PathBuf, Error> {
        self.writer.seal()?;
        Ok(self.path)
    }
}
