//! The writer of a filter: the methods for users.

use std::fmt;
use std::path::Path;

use super::commit::{CommitFailure, Committed, WriterState};
use super::doubling;
use super::partition::Buffers;
use super::repair::{self, Repair, find_damage, quarantine};
use super::time::InTime;
use super::transaction::Transaction;
use super::work::Work;
use crate::cuckoo::{Key, KeyHash, KeyHasher, Kind, RegionId};
use crate::error::{Error, Result};
use crate::events;
use crate::file::{Found, Journal};
use crate::format::{Growth, Metadata};
use crate::growth;
use crate::info::{Facts, Info};
use crate::options::Options;
use crate::system::Files;

/// A filter open for writing. Over all processes, a filter has at most one writer.
///
/// All changes belong to a transaction: this writer sees them at once, and others see them after
/// [`commit`](Self::commit). Dropping the writer rolls the open transaction back and closes the file;
/// [`close`](Self::close) does the same and reports errors.
///
/// Until it is committed, a changed bucket of a published filter takes 10 to 20 bytes of memory. A region of 64 KiB with
/// a changed bucket takes 200 to 800 bytes more; from 17 changed buckets on, up to 1,900; with more than 4,096, 64 KiB in
/// all. A transaction that changes 40 buckets of each page of 4 KiB uses a copy of the file in memory instead, if that is
/// no longer than [`Options::memory`] allows. A new filter of up to 64 MiB that one thread fills lies in memory until its
/// first commit, and so does a file of more than 1 GiB that a doubling makes, if as much memory is allowed.
///
/// Keys are bytes or a [`KeyHash`]: see [`Key`]. Bytes fail with [`Error::CallerHashes`] on filters created with
/// [`HashKind::Caller`](crate::HashKind::Caller). All lookups and changes fail with [`Error::Damaged`] if they meet a
/// damaged page. They fail with [`Error::Poisoned`] after a failure whose outcome is unknown, or after a panic in the
/// middle of a change. A panic of the caller's own code, in `AsRef` or in a progress function, leaves the transaction
/// whole.
pub struct Writer {
    pub(super) files: Files,
    pub(super) options: Options,
    /// `None` after the writer was poisoned or closed.
    pub(super) open: Option<Box<WriterState>>,
    /// Memory to reuse for the next batch.
    pub(super) buffers: Buffers,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Writer");
        fields.field("path", &self.path());
        match &self.open {
            Some(open) => fields.field("commit", &open.committed.commit),
            None => fields.field("poisoned", &true),
        };
        fields.finish_non_exhaustive()
    }
}

impl Writer {
    #[inline]
    pub(super) fn state(&self) -> Result<&WriterState> {
        self.open.as_deref().ok_or_else(|| self.poisoned())
    }

    pub(super) fn state_mut(&mut self) -> Result<&mut WriterState> {
        self.open.as_deref_mut().ok_or_else(|| Error::Poisoned { path: self.files.data.clone() })
    }

    #[cold]
    fn poisoned(&self) -> Error {
        Error::Poisoned { path: self.files.data.clone() }
    }

    /// Changes the open transaction. If `change` panics, some of its changes may be lost or not counted. The state is
    /// then not restored, so that the writer is poisoned.
    #[inline]
    pub(super) fn change<T>(&mut self, change: impl FnOnce(&mut Transaction) -> T) -> Result<T> {
        let mut open = self.take()?;
        let outcome = change(&mut open.transaction);
        self.open = Some(open);
        Ok(outcome)
    }

    /// The filter's path: absolute, with all symbolic links resolved when it was opened.
    pub fn path(&self) -> &Path {
        &self.files.data
    }

    /// Copies of all keys including the open transaction: inserted copies minus removed ones. In a set these are the
    /// stored keys; a key that was already found, perhaps as a false positive, is not counted.
    pub fn len(&self) -> Result<u64> {
        Ok(self.state()?.transaction.counts().copies())
    }

    /// Whether [`len`](Self::len) is 0.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The hash of a key under this filter's seed.
    #[inline]
    pub fn hash(&self, key: impl Key) -> Result<KeyHash> {
        let open = self.open.as_deref();
        let hash = open.and_then(|open| key.hash(open.transaction.traits.hasher));
        hash.ok_or_else(|| self.no_hash())
    }

    #[cold]
    fn no_hash(&self) -> Error {
        let unhashed = |_: &WriterState| Error::CallerHashes { path: self.files.data.clone() };
        self.state().map_or_else(|poisoned| poisoned, unhashed)
    }

    pub(crate) fn hasher(&self) -> Result<KeyHasher> {
        Ok(self.state()?.transaction.traits.hasher)
    }

    /// Whether the key is present. False only if it was never inserted, or was removed. An absent key is reported present
    /// at the rate that [`Info::expected_false_positive_rate`] gives.
    #[inline]
    pub fn contains(&self, key: impl Key) -> Result<bool> {
        self.state()?.transaction.contains(self.hash(key)?)
    }

    /// How many copies of the key the filter holds: in a set 0 or 1; in a counting filter the copies inserted and not
    /// removed.
    ///
    /// Copies of other keys that match it are also counted, so the answer is never too low. The highest answer,
    /// [`SlotsPerBucket::highest_count`](crate::SlotsPerBucket::highest_count), stands for that many copies or more. It
    /// is also the answer if a bucket of the key is quarantined.
    #[inline]
    pub fn count(&self, key: impl Key) -> Result<u32> {
        self.state()?.transaction.count(self.hash(key)?)
    }

    /// Inserts the key, and returns whether it is new, that is, absent before.
    ///
    /// A set stores the key unless it finds it. It may find a new key by mistake, if the key matches the entry of another
    /// one: a false positive. A forgetting filter does the same, with the current time; see
    /// [`insert_at`](Self::insert_at) for other times, and for errors of the clock. A counting filter always stores one
    /// more copy. A key with more copies than can be counted, some thirty thousand with four slots per bucket, stays for
    /// good: further inserts and removals of it change nothing.
    ///
    /// Doubles the filter if it has no room. Fails with [`Error::Full`] or [`Error::Growth`] if the filter has no room
    /// and must not double; the transaction then stays whole.
    #[inline]
    pub fn insert(&mut self, key: impl Key) -> Result<bool> {
        let hash = self.hash(key)?;
        let quickly = self.open.as_deref_mut().and_then(|open| open.transaction.insert_quickly(hash));
        quickly.map_or_else(|| self.insert_slowly(hash), Ok)
    }

    #[inline(never)]
    fn insert_slowly(&mut self, hash: KeyHash) -> Result<bool> {
        let transaction = &self.state()?.transaction;
        if transaction.kind() == Kind::Forgetting {
            let expiry = self.expiry_now()?;
            return self.insert_one_until(hash, expiry);
        }
        let found = transaction.contains(hash)?;
        if found && transaction.kind() == Kind::Set {
            return Ok(false);
        }
        loop {
            let max_kicks = self.options.max_kicks;
            match self.change(|transaction| transaction.insert(hash, max_kicks))?? {
                Ok(()) => return Ok(!found),
                Err(region) => self.make_room(region)?,
            }
        }
    }

    /// Removes one copy of the key from a counting filter. Returns whether there was a copy.
    ///
    /// Remove only keys that were inserted. Removing any other key can take the entry of a stored key that it matches,
    /// and then the stored key is lost. On a filter of another kind, fails with [`Error::Kind`] and changes nothing.
    #[inline]
    pub fn remove(&mut self, key: impl Key) -> Result<bool> {
        let hash = self.hash(key)?;
        match self.open.as_deref_mut().and_then(|open| open.transaction.remove_quickly(hash)) {
            Some(()) => Ok(true),
            None => self.remove_slowly(hash),
        }
    }

    #[inline(never)]
    fn remove_slowly(&mut self, hash: KeyHash) -> Result<bool> {
        self.check_removals()?;
        self.change(|transaction| transaction.remove(hash))?
    }

    pub(super) fn check_removals(&self) -> Result<()> {
        if self.state()?.transaction.kind() == Kind::Counting { Ok(()) } else { Err(self.no_removal()) }
    }

    #[cold]
    fn no_removal(&self) -> Error {
        let path = self.files.data.clone();
        let found = self.state().map_or(Kind::Set, |open| open.transaction.kind());
        Error::Kind { path, found, wanted: Kind::Counting, op: "removing keys" }
    }

    /// The metadata including the transaction's changes.
    pub fn metadata(&self) -> Result<&Metadata> {
        Ok(&self.state()?.transaction.metadata)
    }

    /// The metadata, to change. It is committed and rolled back with the keys.
    pub fn metadata_mut(&mut self) -> Result<&mut Metadata> {
        Ok(&mut self.state_mut()?.transaction.metadata)
    }

    /// The filter including the open transaction.
    pub fn info(&self) -> Result<Info> {
        let WriterState { transaction, committed, policy, journal, .. } = self.state()?;
        Ok(Info::from(Facts {
            identity: *transaction.work.identity(),
            policy: *policy,
            counts: transaction.counts(),
            commit: committed.commit,
            journal_length: journal.as_ref().map_or(0, Journal::length),
            key_rules: transaction.metadata.key_rules(),
        }))
    }

    /// Whether the changes since the last commit take more memory than [`Options::memory`] allows, so that it is time to
    /// commit.
    ///
    /// Counts 20 bytes for each changed bucket. Pages of the mapped file belong to the system, and are not counted. False
    /// if there is a copy of the file (see [`Writer`]), which takes no more than is allowed, and for a writer that must be
    /// reopened.
    pub fn exceeds_memory(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.transaction.work.exceeds_memory())
    }

    /// Doubles the filter now. The doubling belongs to the transaction: a commit publishes it, a rollback undoes it.
    /// Fails with [`Error::Growth`] if a limit forbids it.
    pub fn grow(&mut self) -> Result<()> {
        self.grow_with(&|_, _| {})
    }

    /// Like [`grow`](Self::grow). After each region, `progress` receives the number of regions done, and of all.
    pub fn grow_with(&mut self, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<()> {
        self.double(None, progress)
    }

    /// Gives up damaged pages, so that the filter can be used again: see [`Repair`]. First rolls the open transaction
    /// back; then commits the repair.
    ///
    /// From then on, the slots of damaged pages match every key, through commits, doublings and reopenings.
    ///
    /// In a set or a forgetting filter that has never doubled, this first marks all entries ([`Repair::marked`]). That
    /// takes the time of a doubling, and room for a second file of the same length.
    ///
    /// Fails as [`commit`](Self::commit) does.
    pub fn repair(&mut self, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Repair> {
        self.rollback()?;
        let transaction = &mut self.state_mut()?.transaction;
        let before = transaction.counts();
        let Work::Published(published, pending) = &mut transaction.work else { return Ok(Repair::default()) };
        // `progress` may panic, so this changes nothing before the last call of `progress`.
        let (quarantined, counts) = find_damage(published, &before, progress)?;
        let geometry = published.checkpoint.identity.geometry;
        // Universal slots need markers.
        let marked = match !geometry.width.is_marked && !quarantined.is_empty() {
            true => Some(repair::marked(published, &quarantined, progress)?),
            false => None,
        };
        if marked.is_none() {
            quarantine(&quarantined, geometry.slots(), pending.sorted(published));
        }
        let recounted = quarantined.is_empty() && counts != before;
        let (Found { superblock, live }, unwritten) =
            (std::mem::take(&mut published.found), published.other_damaged);
        let is_marked = marked.is_some();
        match marked {
            Some(file) => self.go_on_in(file, counts.marked()),
            None => transaction.set_counts(counts),
        }
        self.commit()?;
        if unwritten {
            self.checkpoint()?;
        }
        events::repaired(&self.files.data, quarantined.len());
        Ok(Repair { quarantined, marked: is_marked, superblock, live, recounted })
    }

    /// Syncs all commits into the file itself, and empties the journal. Closing does this, and so does a commit once the
    /// journal exceeds 64 MiB. After a checkpoint, opening the filter after a crash is faster. Fails with
    /// [`Error::AfterCommit`], whose source is the disk's failure; the writer is then poisoned.
    pub fn checkpoint(&mut self) -> Result<()> {
        let mut open = self.take()?;
        match open.checkpoint(&self.files) {
            Ok(()) => {
                self.open = Some(open);
                Ok(())
            }
            Err(error) => {
                let error = Error::after_commit(&self.files.data, open.committed.commit)(error);
                let (left, outcome) = open.failed(CommitFailure::Poison(error));
                self.open = left;
                outcome
            }
        }
    }

    pub(super) fn make_room(&mut self, region: RegionId) -> Result<()> {
        let outcome = self.try_make_room(region);
        if let Err(error) = &outcome {
            events::refused(&self.files.data, error);
        }
        outcome
    }

    fn try_make_room(&mut self, region: RegionId) -> Result<()> {
        let path = &self.files.data;
        let WriterState { transaction, policy, .. } = self.state()?;
        if policy.growth == Growth::Never {
            let slots = transaction.work.identity().geometry.slots_in_all();
            let load = transaction.counts().used() as f64 / slots as f64;
            return Err(Error::Full { path: path.clone(), region: region.0.into(), load });
        }
        let progress = self.options.progress.clone();
        self.double(Some(region), &|done, all| progress.tell(done, all))
    }

    fn double(&mut self, crowded: Option<RegionId>, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<()> {
        let void_allowed = self.options.void_growth;
        let (identity, counts, policy) = self.facts()?;
        if let Some(reason) = growth::refusal(identity.geometry, &policy, &counts, crowded, void_allowed) {
            return Err(Error::Growth { path: self.files.data.clone(), reason });
        }
        let memory = self.options.memory_allowed();
        let (doubled, counts) = doubling::double(self.source()?, &counts, memory, progress)?;
        events::doubled(&self.files.data, doubled.identity.geometry.regions(), counts.entries());
        self.go_on_in(doubled, counts);
        Ok(())
    }

    /// Makes the transaction's keys and metadata durable and visible, all or nothing. Does nothing without changes.
    ///
    /// [`Error::Unknown`] means that the outcome is unknown until the filter is opened again, and [`Error::AfterCommit`]
    /// that the commit is durable but was not applied. Every later call then fails with [`Error::Poisoned`]. After any
    /// other error nothing was committed: the transaction is whole, and may be committed again or rolled back, unless
    /// later calls fail with [`Error::Poisoned`].
    pub fn commit(&mut self) -> Result<()> {
        let mut open = self.take()?;
        if open.is_changed() {
            open.transaction.sweep_some();
        }
        let before = open.committed.commit;
        let (open, outcome) = open.commit(&self.files, &self.options);
        match (&open, &outcome) {
            (Some(open), Ok(())) if open.committed.commit != before => {
                let Committed { commit, counts, .. } = &open.committed;
                events::committed(&self.files.data, *commit, counts.entries());
            }
            (None, Err(error)) => events::poisoned(&self.files.data, error),
            _ => {}
        }
        self.open = open;
        outcome
    }

    /// Drops all changes since the last commit. Fails only if a filter that is not published yet cannot be created anew;
    /// the writer is then closed.
    pub fn rollback(&mut self) -> Result<()> {
        self.open = Some(self.take()?.rolled_back(&self.files, &self.options)?);
        Ok(())
    }

    fn take(&mut self) -> Result<Box<WriterState>> {
        self.open.take().ok_or_else(|| Error::Poisoned { path: self.files.data.clone() })
    }

    /// Syncs all commits into the file, so that it needs no journal, and gives up the lock.
    ///
    /// Fails with [`Error::Uncommitted`] if there were changes since the last commit: they are rolled back, and the
    /// filter is closed with all commits. Fails with [`Error::AfterCommit`] if a write or sync failed; all commits are
    /// durable.
    pub fn close(mut self) -> Result<()> {
        let changed = self.open.as_deref().is_some_and(WriterState::is_changed);
        let closed = self.shut();
        if changed && closed.is_ok() {
            return Err(Error::Uncommitted { path: self.files.data.clone() });
        }
        closed
    }

    fn shut(&mut self) -> Result<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let after = Error::after_commit(&self.files.data, open.committed.commit);
        if open.journal.as_ref().is_some_and(|journal| journal.length() > 0) {
            open.checkpoint(&self.files).map_err(&after)?;
        }
        let WriterState { transaction, lock, .. } = *open;
        let closed = transaction.work.published().map_or(Ok(()), |published| published.set_in_use(false));
        // The temporary file is removed first: once the lock is free, the next writer would take it for a dead writer's.
        drop(transaction);
        drop(lock);
        closed.map_err(&after)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // If this fails, the next opening recovers the file. `close` reports the failure.
        let _ = self.shut();
    }
}

#[cfg(test)]
mod tests {
    use crate::options::Options;

    #[test]
    fn a_writer_shows_keys_and_metadata_as_the_transaction_has_them() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Options::new().capacity(1000).create(dir.path().join("f")).unwrap();
        assert!(writer.is_empty().unwrap());
        assert_eq!(writer.metadata().unwrap().iter().count(), 0);
        writer.insert("key").unwrap();
        writer.metadata_mut().unwrap().set("crawl", "page 17");
        assert!(!writer.is_empty().unwrap());
        assert_eq!(writer.metadata().unwrap().get("crawl"), Some(&b"page 17"[..]));
        writer.rollback().unwrap();
        assert!(writer.is_empty().unwrap());
        assert_eq!(writer.metadata().unwrap().get("crawl"), None);
    }
}
