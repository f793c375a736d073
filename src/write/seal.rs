//! Filters that one process fills for itself and then seals, as the shards of a store are: without lock file, locks and
//! journal, and so on file systems that have no locks.
//!
//! Crash cases: until it is sealed, such a filter is a temporary file, which nobody reads. Who dies with one leaves it.

use std::path::Path;

use super::commit::{Committed, WriterState, live_copy};
use super::partition::Buffers;
use super::transaction::{Transaction, Work};
use super::writer::Writer;
use crate::cuckoo::Counts;
use crate::error::{Error, Result};
use crate::file::{Flush, UnpublishedFile};
use crate::format::{Identity, Metadata, Policy, Superblock, check_counts};
use crate::info::{Facts, Info};
use crate::options::Options;
use crate::read::{Reader, copy_regions};
use crate::system::{Files, random};

impl Options {
    /// A writer of a new filter, to be [sealed](Writer::seal) as a file that must not exist. It begins with all that
    /// `source` holds, if that is given; else it is empty.
    ///
    /// Nobody may choose the same path at the same time. The writer cannot be committed or rolled back.
    pub(crate) fn draft(&self, path: &Path, uuid: [u8; 16], source: Option<&Reader>) -> Result<Writer> {
        let files = Files::new(path)?.private();
        let Some(source) = source else {
            let (identity, policy) = self.design(path)?;
            let identity = Identity { uuid, ..identity };
            let file = UnpublishedFile::create(&files, &self.disk, identity, None)?;
            let work = Work::Unpublished(Box::new(file), None);
            let transaction = Transaction::new(work, Counts::default(), self.first_metadata());
            return Ok(Writer::private(files, self, transaction, policy));
        };
        let view = source.view()?;
        let busy = || Error::Busy { path: source.path().to_owned(), op: "copied" };
        let (copy, metadata) = view.settled_live_copy().ok_or_else(busy)??;
        let superblock = &view.superblock;
        let identity = Identity { uuid, ..superblock.identity };
        let file = UnpublishedFile::fill(&files, &self.disk, identity, None, Flush::Never, |write| {
            let regions = 0..identity.geometry.regions();
            copy_regions(&view, regions, &mut |region, words, _| write(region, words), &mut |_, _| {})
        })?;
        let transaction = Transaction::new(Work::Unpublished(Box::new(file), None), copy.counts, metadata);
        Ok(Writer::private(files, self, transaction, superblock.policy))
    }
}

impl Writer {
    fn private(files: Files, options: &Options, transaction: Transaction, policy: Policy) -> Self {
        let committed = Committed {
            commit: 0,
            counts: Counts::default(),
            metadata: Metadata::default(),
            identity: *transaction.work.identity(),
        };
        let open = WriterState { transaction, committed, policy, journal: None, lock: None, given_up: false };
        Self { files, options: options.clone(), open: Some(Box::new(open)), buffers: Buffers::default() }
    }

    /// Makes what a [draft](Options::draft) holds a sealed file under its path, synced, and describes it. The caller
    /// syncs the folder. If this fails, nothing has that name.
    pub(crate) fn seal(mut self) -> Result<Info> {
        let poisoned = || Error::Poisoned { path: self.files.data.clone() };
        let WriterState { transaction, policy, .. } = *self.open.take().ok_or_else(poisoned)?;
        let counts = transaction.counts();
        let Transaction { work, metadata, .. } = transaction;
        let Work::Unpublished(mut file, None) = work else { return Err(poisoned()) };
        let identity = file.identity;
        let key_rules = metadata.key_rules();
        check_counts(&self.files.data, &counts, &identity)?;
        let commit = 1;
        let copy = live_copy(commit, counts, &metadata, &self.files)?;
        let salt = random(&self.files.data)?;
        file.seal_idle(&Superblock { id: 2, identity, policy, commit, salt, counts, metadata }, &copy)?;
        // Protects: all of the file, before it has a name that a version may name.
        file.sync()?;
        file.rename(true)?;
        file.into_sealed();
        Ok(Info::from(Facts { identity, policy, counts, commit, journal_length: 0, key_rules }))
    }
}
