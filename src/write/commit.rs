//! Committing: through the journal into the published file, or by publishing the transaction's own file.
//!
//! Invariants (`format-spec/README.md`, section 6):
//!
//! 1. A commit returns when it is durable *and* all of it is visible; before that, readers see none of it.
//! 2. A failed append leaves the transaction whole, to be committed again or rolled back.
//! 3. After a failed sync, or a failed write while applying, the contents of the disk are unknown. The writer is
//!    *poisoned*: it sets the flag for readers, gives up its lock without a clean close, and refuses every later call. A
//!    sync is never repeated. The error says what is known: [`Error::Unknown`] if the commit may or may not be durable,
//!    [`Error::AfterCommit`] if it is durable, and any other error if the commit left no trace.
//!
//! Crash cases: dying before the journal is synced leaves the previous state; after the sync, recovery redoes the
//! transaction. Dying in a publication leaves the old file or the new one under the name, each whole.

use super::pending::Pending;
use super::transaction::Transaction;
use super::work::Work;
use crate::cuckoo::Counts;
use crate::error::{Error, IoContext, Result};
use crate::events;
use crate::file::{Flush, Journal, LiveCopy, PublishedFile, UnpublishedFile};
use crate::format::frame::Header;
use crate::format::{Identity, Metadata, Policy, Superblock, check_counts};
use crate::options::Options;
use crate::system::{Files, Held, Inode, Rights, random};

/// The state of a writer that is neither closed nor poisoned.
#[derive(Debug)]
pub(super) struct WriterState {
    pub(super) transaction: Transaction,
    /// The state that a rollback returns to.
    pub(super) committed: Committed,
    pub(super) policy: Policy,
    /// `None` until recovery or the first commit has opened the journal.
    pub(super) journal: Option<Journal>,
    /// `None` for a working copy of a store's shard, which nobody else can open.
    pub(super) lock: Option<Held>,
    /// Whether a rollback has abandoned the filter before its first commit.
    pub(super) given_up: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Committed {
    pub(super) commit: u64,
    pub(super) counts: Counts,
    pub(super) metadata: Metadata,
    /// The identity at creation, for a rollback before the first commit.
    pub(super) identity: Identity,
}

/// How a step of a commit failed.
pub(super) enum CommitFailure {
    /// Nothing was changed; the transaction is whole.
    Clean(Error),
    /// The contents of the disk are unknown.
    Poison(Error),
}

impl CommitFailure {
    /// The failure to open the journal. Nothing relies on the journal yet, but a failed sync must not be repeated.
    fn before_append(error: Error) -> Self {
        match error {
            Error::Io { op: "sync", .. } => Self::Poison(error),
            error => Self::Clean(error),
        }
    }
}

pub(super) fn live_copy(commit: u64, counts: Counts, metadata: &Metadata, files: &Files) -> Result<LiveCopy> {
    Ok(LiveCopy { commit, counts, metadata: metadata.encode(&files.data)? })
}

fn superblock(published: &PublishedFile, committed: &Committed, policy: Policy) -> Superblock {
    Superblock {
        policy,
        commit: committed.commit,
        counts: committed.counts,
        metadata: committed.metadata.clone(),
        ..published.checkpoint.clone()
    }
}

/// Opens the journal of a file that needed no recovery.
pub(super) fn journal_of(published: &PublishedFile) -> Result<Journal> {
    let model = Rights::of(&published.file).at(&published.files.data, "look at")?;
    Journal::create(&published.files, &*published.disk, &model, published.journal_header())
}

impl WriterState {
    /// Whether there are changes to commit that no rollback has dropped.
    pub(super) fn is_changed(&self) -> bool {
        let Transaction { work, metadata, .. } = &self.transaction;
        let in_file = match work {
            Work::Published(_, pending) => !pending.is_empty(),
            // A new or rebuilt filter.
            Work::Unpublished(file, _) => !self.given_up || file.identity != self.committed.identity,
        };
        in_file || self.transaction.counts() != self.committed.counts || *metadata != self.committed.metadata
    }

    /// Commits. Returns the outcome, and the writer's state, `None` if it is poisoned.
    pub(super) fn commit(
        mut self: Box<Self>,
        files: &Files,
        options: &Options,
    ) -> (Option<Box<Self>>, Result<()>) {
        let next = Committed {
            commit: self.committed.commit + 1,
            counts: self.transaction.counts(),
            metadata: self.transaction.metadata.clone(),
            identity: *self.transaction.work.identity(),
        };
        // If the counts were wrong before, changes may have made them impossible. A file with impossible counts could not
        // even be opened for repair.
        let checked = check_counts(&files.data, &next.counts, &next.identity);
        if let Err(error) = checked.and_then(|()| self.check_name(files)) {
            return (Some(self), Err(error));
        }
        if let Err(error) = self.check_own() {
            return self.failed(CommitFailure::Poison(error));
        }
        if matches!(self.transaction.work, Work::Unpublished(..)) {
            return self.publish(files, options, next);
        }
        match self.commit_journaled(files, next) {
            Ok(()) => (Some(self), Ok(())),
            Err(failure) => self.failed(failure),
        }
    }

    /// Fails if the filter's name leads to another file or to none. A publication would replace that other file, and no
    /// reader would find a journaled commit.
    fn check_name(&self, files: &Files) -> Result<()> {
        let Some(published) = self.transaction.work.published() else { return Ok(()) };
        let own = Inode::of(&published.file.metadata().at(&files.data, "look at")?);
        match files.inode()? {
            Some(found) if found == own => Ok(()),
            Some(_) => Err(Error::NameTaken { path: files.data.clone() }),
            None => Err(Error::Removed { path: files.data.clone() }),
        }
    }

    /// Fails if another filter was written over this one.
    fn check_own(&self) -> Result<()> {
        self.transaction.work.published().map_or(Ok(()), PublishedFile::check_own)
    }

    pub(super) fn failed(self: Box<Self>, failure: CommitFailure) -> (Option<Box<Self>>, Result<()>) {
        match failure {
            CommitFailure::Clean(error) => (Some(self), Err(error)),
            CommitFailure::Poison(error) => {
                if let Some(published) = self.transaction.work.published()
                    && published.check_own().is_ok()
                {
                    // If this fails too, readers are safe: they have seen nothing of the transaction, or the epoch stays
                    // odd.
                    let _ = published.live.set_poisoned(&published.file);
                }
                (None, Err(error))
            }
        }
    }

    /// Syncs all commits into the published file, if any, and empties the journal.
    pub(super) fn checkpoint(&mut self, files: &Files) -> Result<()> {
        let (Work::Published(published, _) | Work::Unpublished(_, Some(published))) =
            &mut self.transaction.work
        else {
            return Ok(());
        };
        let Committed { commit, counts, metadata, .. } = &self.committed;
        let copy = live_copy(*commit, *counts, metadata, files)?;
        let superblock = superblock(published, &self.committed, self.policy);
        let journal = match &mut self.journal {
            Some(journal) => journal,
            none => none.insert(journal_of(published)?),
        };
        published.checkpoint(journal, &copy, superblock)?;
        events::checkpointed(&files.data, *commit);
        Ok(())
    }

    /// Commits through the journal, then into the file.
    fn commit_journaled(&mut self, files: &Files, next: Committed) -> Result<(), CommitFailure> {
        if !self.is_changed() {
            return Ok(());
        }
        let Work::Published(published, pending) = &mut self.transaction.work else { return Ok(()) };
        let metadata_changed = next.metadata != self.committed.metadata;
        let copy =
            live_copy(next.commit, next.counts, &next.metadata, files).map_err(CommitFailure::Clean)?;
        let journal = match &mut self.journal {
            Some(journal) => journal,
            none => none.insert(journal_of(published).map_err(CommitFailure::before_append)?),
        };
        let disk = published.disk.clone();
        let overlay = pending.sorted(published);
        published.reserve(overlay, &copy).map_err(CommitFailure::Clean)?;
        let mut append = journal.begin(files, &*disk, next.commit);
        let appended = published
            .seal(overlay, |id, changed, sum, page| append.page(id, changed, sum, page))
            .and_then(|()| append.finish(&next.counts, metadata_changed.then_some(&copy.metadata)));
        let unknown = Error::unknown(&files.data, next.commit);
        if let Err(error) = appended {
            let cut = journal.cut_back(files, &*disk);
            return Err(if cut.is_ok() {
                CommitFailure::Clean(error)
            } else {
                CommitFailure::Poison(unknown(error))
            });
        }
        // Protects: the whole transaction, before any part of it reaches the data file.
        journal.sync(files, &*disk).map_err(|error| CommitFailure::Poison(unknown(error)))?;
        let after = Error::after_commit(&files.data, next.commit);
        let after = |error| CommitFailure::Poison(after(error));
        published.apply(overlay, &copy).map_err(after)?;
        pending.clear();
        self.committed = next;
        if journal.length() > disk.checkpoint_at() {
            self.checkpoint(files).map_err(after)?;
        }
        Ok(())
    }

    /// Commits by giving the transaction's own file the filter's name.
    fn publish(
        mut self: Box<Self>,
        files: &Files,
        options: &Options,
        next: Committed,
    ) -> (Option<Box<Self>>, Result<()>) {
        let superblock = match self.prepare(files, &next) {
            Ok(superblock) => superblock,
            Err(failure) => return self.failed(failure),
        };
        let Work::Unpublished(file, old) = self.transaction.work else { return (None, Ok(())) };
        let marked = old.as_ref().map_or(Ok(()), |old| old.live.set_superseded(&old.file, true));
        let renamed = marked.at(&files.data, "write").and_then(|()| file.rename(old.is_some()));
        if let Err(error) = renamed {
            if let Some(old) = &old {
                // If the flag stays set, readers look at the name before each answer, and find this file.
                let _ = old.live.set_superseded(&old.file, false);
            }
            self.transaction.work = Work::Unpublished(file, old);
            return self.failed(CommitFailure::Clean(error));
        }
        // Protects: the new file's name, before the old file's journal is emptied.
        let synced = options.disk.sync_dir(&files.dir).at(&files.dir, "sync");
        let synced = synced.map_err(Error::unknown(&files.data, next.commit));
        let after = Error::after_commit(&files.data, next.commit);
        let journal = synced.and_then(|()| match (self.journal.take(), &old) {
            (Some(journal), None) => Ok(journal),
            (journal, _) => continued(journal, files, &file, &superblock).map_err(&after),
        });
        match journal.and_then(|journal| Ok((journal, file.into_published(superblock).map_err(&after)?))) {
            Ok((journal, published)) => {
                self.committed = next;
                self.given_up = false;
                self.journal = Some(journal);
                self.transaction.work =
                    Work::Published(Box::new(published), Pending::within(options.memory_allowed()));
                (Some(self), Ok(()))
            }
            // The old file stays superseded: its readers follow the name to whichever file it leads to.
            Err(error) => (None, Err(error)),
        }
    }

    /// The steps of a publication before the rename.
    fn prepare(&mut self, files: &Files, next: &Committed) -> Result<Superblock, CommitFailure> {
        let Work::Unpublished(file, old) = &mut self.transaction.work else {
            return Err(CommitFailure::Clean(Error::Poisoned { path: files.data.clone() }));
        };
        let copy =
            live_copy(next.commit, next.counts, &next.metadata, files).map_err(CommitFailure::Clean)?;
        let superblock = Superblock {
            id: 2,
            identity: file.identity,
            policy: self.policy,
            commit: next.commit,
            salt: random(&files.data).map_err(CommitFailure::Clean)?,
            counts: next.counts,
            metadata: next.metadata.clone(),
        };
        file.seal(&superblock, &copy).map_err(CommitFailure::Clean)?;
        // Protects: the whole file, before it has the filter's name.
        file.sync().map_err(CommitFailure::Poison)?;
        if old.is_none() {
            // The journal of a removed filter may have this name. It must not count as the new filter's journal.
            let journal = continued(self.journal.take(), files, file, &superblock);
            self.journal = Some(journal.map_err(CommitFailure::Poison)?);
        }
        Ok(superblock)
    }

    /// Returns to the last commit.
    pub(super) fn rolled_back(mut self: Box<Self>, files: &Files, options: &Options) -> Result<Box<Self>> {
        let Committed { counts, metadata, identity, .. } = self.committed.clone();
        let work = match self.transaction.work {
            Work::Published(published, mut pending) => {
                pending.clear();
                Work::Published(published, pending)
            }
            Work::Unpublished(_, Some(published)) => {
                Work::Published(published, Pending::within(options.memory_allowed()))
            }
            Work::Unpublished(file, None) => {
                drop(file);
                let file = UnpublishedFile::create(
                    files,
                    &options.disk,
                    identity,
                    None,
                    Flush::by(options.threads),
                )?;
                Work::Unpublished(Box::new(file), None)
            }
        };
        self.given_up = matches!(work, Work::Unpublished(..));
        self.transaction = Transaction::new(work, counts, metadata);
        Ok(self)
    }
}

/// Empties or creates the journal for an unpublished file that is about to get the filter's name.
fn continued(
    journal: Option<Journal>,
    files: &Files,
    file: &UnpublishedFile,
    next: &Superblock,
) -> Result<Journal> {
    let (_, disk) = file.surroundings();
    let header = Header {
        uuid: next.identity.uuid,
        generation: next.identity.geometry.generation,
        salt: next.salt,
        base: next.commit,
    };
    if let Some(mut journal) = journal {
        journal.reset(files, &**disk, header)?;
        return Ok(journal);
    }
    let model = file.rights()?;
    Journal::create(files, &**disk, &model, header)
}
