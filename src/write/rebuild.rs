//! The methods of [`Writer`] for operations that rebuild its filter: doubling, shrinking and merging. Such an operation
//! reads the open transaction as a source, and then continues the transaction in the new file.

#[cfg(feature = "store")]
use super::commit::{Committed, WriterState};
#[cfg(feature = "store")]
use super::partition::Buffers;
use super::target::Target;
#[cfg(feature = "store")]
use super::transaction::Transaction;
#[cfg(feature = "store")]
use super::work::Work;
use super::writer::Writer;
use crate::cuckoo::Counts;
#[cfg(feature = "store")]
use crate::error::Error;
use crate::error::Result;
use crate::file::{Overlay, UnpublishedFile};
#[cfg(feature = "store")]
use crate::format::Metadata;
use crate::format::{Identity, Policy};
use crate::options::Options;
#[cfg(feature = "store")]
use crate::system::Files;

impl Writer {
    /// Everything that the open transaction sees.
    pub(crate) fn source(&self) -> Result<Target<'_, &Overlay>> {
        Ok(self.state()?.transaction.work.source())
    }

    /// The identity, the counters and the policy of the open transaction.
    pub(crate) fn facts(&self) -> Result<(Identity, Counts, Policy)> {
        let state = self.state()?;
        Ok((*state.transaction.work.identity(), state.transaction.counts(), state.policy))
    }

    pub(crate) const fn options(&self) -> &Options {
        &self.options
    }

    /// Continues the transaction in `file`, which has these counters.
    pub(crate) fn go_on_in(&mut self, file: UnpublishedFile, counts: Counts) {
        if let Some(mut open) = self.open.take() {
            open.transaction = open.transaction.moved_to(file, counts);
            self.open = Some(open);
        }
    }

    #[cfg(feature = "store")]
    pub(crate) const fn files(&self) -> &Files {
        &self.files
    }

    /// A writer of a file that no other process knows: without lock and journal.
    #[cfg(feature = "store")]
    pub(crate) fn private(
        files: Files,
        options: &Options,
        file: UnpublishedFile,
        counts: Counts,
        metadata: Metadata,
        policy: Policy,
    ) -> Self {
        let (identity, work) = (file.identity, Work::Unpublished(Box::new(file), None));
        let transaction = Transaction::new(work, counts, metadata);
        let committed =
            Committed { commit: 0, counts: Counts::default(), metadata: Metadata::default(), identity };
        let open = WriterState { transaction, committed, policy, journal: None, lock: None, given_up: false };
        Self { files, options: options.clone(), open: Some(Box::new(open)), buffers: Buffers::default() }
    }

    /// The contents of a [private](Self::private) writer's file.
    #[cfg(feature = "store")]
    pub(crate) fn into_contents(mut self) -> Result<Contents> {
        let poisoned = || Error::Poisoned { path: self.files.data.clone() };
        let WriterState { transaction, policy, .. } = *self.open.take().ok_or_else(poisoned)?;
        let counts = transaction.counts();
        let Transaction { work, metadata, .. } = transaction;
        let Work::Unpublished(file, None) = work else { return Err(poisoned()) };
        Ok(Contents { file: *file, counts, metadata, policy })
    }
}

/// The file that a private writer has made, and its description.
#[cfg(feature = "store")]
pub(crate) struct Contents {
    pub(crate) file: UnpublishedFile,
    pub(crate) counts: Counts,
    pub(crate) metadata: Metadata,
    pub(crate) policy: Policy,
}
