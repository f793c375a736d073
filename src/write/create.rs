//! Opening a filter for writing, creating one, and replacing one by an empty one.

use std::path::Path;

use super::commit::{Committed, WriterState, journal_of, live_copy};
use super::partition::Buffers;
use super::pending::Pending;
use super::transaction::Transaction;
use super::work::Work;
use super::writer::Writer;
use crate::cuckoo::Counts;
use crate::error::{Error, IoContext, Result};
use crate::events;
use crate::file::{
    Flush, Journal, OpenedToWrite, PublishedFile, UnpublishedFile, check_room, lock_absent, open_writer,
};
use crate::format::{Metadata, Policy, Superblock};
use crate::options::Options;
use crate::system::{Files, Held, Rights};

impl Options {
    /// Opens the filter for writing, or creates a missing one.
    ///
    /// A new filter has its name from its first commit on. Fails with [`Error::Locked`] while another writer has the
    /// filter open. Fails with [`Error::Option`], [`Error::Kind`], [`Error::KeyRules`] or [`Error::Rate`] if the options
    /// are wrong or do not fit the filter, and with the error of a file that cannot be used.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Writer> {
        Writer::open_or_create(path.as_ref(), self)
    }

    /// Opens the filter for writing; [`Error::NotFound`] without a file.
    pub fn open_existing(&self, path: impl AsRef<Path>) -> Result<Writer> {
        Writer::open_existing(path.as_ref(), self)
    }

    /// Creates the filter; [`Error::Exists`] if the file exists, unless [`force`](Self::force) is set.
    pub fn create(&self, path: impl AsRef<Path>) -> Result<Writer> {
        Writer::create(path.as_ref(), self, self.force)
    }
}

impl Writer {
    /// Opens an existing filter for writing, with the default options; [`Error::NotFound`] without a file, which
    /// [`Options::open`] would create.
    ///
    /// Recovers the file first if its last writer died. Fails with [`Error::Locked`] while another writer has the filter
    /// open, and with the error of a file that cannot be used.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().open_existing(path)
    }

    fn open_or_create(path: &Path, options: &Options) -> Result<Self> {
        loop {
            match Self::open_existing(path, options) {
                Err(Error::NotFound { .. }) => {}
                outcome => return outcome,
            }
            match Self::create(path, options, false) {
                // Another process has just created it.
                Err(Error::Exists { .. }) => {}
                outcome => return outcome,
            }
        }
    }

    fn open_existing(path: &Path, options: &Options) -> Result<Self> {
        options.check_rates()?;
        let files = Files::new(path)?;
        let OpenedToWrite { published, journal, lock } =
            open_writer(&files, &options.disk, options.verify, options.wait)?;
        let writer = Self::over(files, options, published, journal, lock);
        let transaction = &writer.state()?.transaction;
        options.check_fits(&writer.files.data, transaction.work.identity(), &transaction.metadata)?;
        events::opened(&writer.files.data, "write");
        Ok(writer)
    }

    fn over(
        files: Files,
        options: &Options,
        published: PublishedFile,
        journal: Option<Journal>,
        lock: Held,
    ) -> Self {
        let Superblock { identity, policy, commit, counts, metadata, .. } = published.checkpoint.clone();
        let committed = Committed { commit, counts, metadata: metadata.clone(), identity };
        let work = Work::Published(Box::new(published), Pending::within(options.memory_allowed()));
        let transaction = Transaction::new(work, counts, metadata);
        let open = WriterState { transaction, committed, policy, journal, lock: Some(lock), given_up: false };
        Self { files, options: options.clone(), open: Some(Box::new(open)), buffers: Buffers::default() }
    }

    pub(super) fn create(path: &Path, options: &Options, force: bool) -> Result<Self> {
        let files = Files::new(path)?;
        let (identity, policy) = options.design(path)?;
        let empty = |files: &Files, model: Option<&Rights>| {
            let file =
                UnpublishedFile::create(files, &options.disk, identity, model, Flush::by(options.threads))?;
            Ok((file, Counts::new(identity.kind)))
        };
        if force && files.inode()?.is_some() {
            let fill = |files: &Files, model: &Rights| empty(files, Some(model));
            let mut writer = Self::replace(files, options, policy, options.first_metadata(), fill)?;
            writer.commit()?;
            return Ok(writer);
        }
        if files.inode()?.is_some() {
            return Err(Error::Exists { path: files.data });
        }
        // Checked here so that no lock file is made in vain, and again when the file is allocated.
        check_room(&files, &*options.disk, identity.geometry)?;
        let fill = |files: &Files| empty(files, None);
        Self::create_filled(files, options, policy, options.first_metadata(), None, fill)
    }

    /// Creates a filter whose first commit publishes the file that `fill` makes. `fill` also returns the file's counters.
    /// The file has the rights of `model`, if any.
    pub(crate) fn create_filled(
        files: Files,
        options: &Options,
        policy: Policy,
        metadata: Metadata,
        model: Option<&Rights>,
        fill: impl FnOnce(&Files) -> Result<(UnpublishedFile, Counts)>,
    ) -> Result<Self> {
        let lock = lock_absent(&files, &options.disk, model, options.wait)?;
        let (file, counts) = fill(&files)?;
        let identity = file.identity;
        events::created(&files.data, identity.geometry.regions());
        let committed =
            Committed { commit: 0, counts: Counts::new(identity.kind), metadata: metadata.clone(), identity };
        let transaction = Transaction::new(Work::Unpublished(Box::new(file), None), counts, metadata);
        let open =
            WriterState { transaction, committed, policy, journal: None, lock: Some(lock), given_up: false };
        Ok(Self { files, options: options.clone(), open: Some(Box::new(open)), buffers: Buffers::default() })
    }

    /// The writer of an existing filter, whose first commit replaces it by the file that `fill` makes. `fill` receives
    /// the rights of the existing file.
    pub(crate) fn replace(
        files: Files,
        options: &Options,
        policy: Policy,
        metadata: Metadata,
        fill: impl FnOnce(&Files, &Rights) -> Result<(UnpublishedFile, Counts)>,
    ) -> Result<Self> {
        let OpenedToWrite { mut published, journal, lock } =
            open_writer(&files, &options.disk, options.verify, options.wait)?;
        let mut journal = match journal {
            Some(journal) => journal,
            None => journal_of(&published)?,
        };
        let copy = live_copy(
            published.checkpoint.commit,
            published.checkpoint.counts,
            &published.checkpoint.metadata,
            &files,
        )?;
        let superblock = published.checkpoint.clone();
        published.checkpoint(&mut journal, &copy, superblock)?;
        let model = Rights::of(&published.file).at(&files.data, "look at")?;
        let (file, counts) = fill(&files, &model)?;
        let mut writer = Self::over(files, options, published, Some(journal), lock);
        if let Some(mut open) = writer.open.take() {
            open.transaction = open.transaction.moved_to(file, counts);
            open.transaction.metadata = metadata;
            open.policy = policy;
            writer.open = Some(open);
        }
        Ok(writer)
    }
}
