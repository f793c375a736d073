//! Filters that one process fills privately and then seals, like the shards of a store. They have no lock file, locks or
//! journal, and so work on file systems without locks.
//!
//! Crash cases: until it is sealed, such a filter is a temporary file that nobody reads. A process that dies leaves the
//! file behind.

use std::path::Path;

use crate::cuckoo::Counts;
use crate::error::Result;
use crate::file::{Flush, LiveCopy, UnpublishedFile};
use crate::format::{Identity, Superblock, check_counts};
use crate::info::{Facts, Info};
use crate::options::Options;
use crate::read::Reader;
use crate::system::{Files, Rights, random};
use crate::write::{Contents, Writer};

impl Options {
    /// A writer of a new filter, to be [sealed](Writer::seal) as a file that must not exist yet. The filter begins as a
    /// copy of `source`, if given, or empty.
    ///
    /// No other process may use the same path at the same time. The writer cannot commit or roll back. With `stays`, the
    /// filter is one of many and will not be sealed soon: it lies on disk, not in memory. The file gets the rights of
    /// `model`, if given.
    pub(crate) fn working_copy(
        &self,
        path: &Path,
        uuid: [u8; 16],
        source: Option<&Reader>,
        model: Option<&Rights>,
        stays: bool,
    ) -> Result<Writer> {
        let flush = if stays { Flush::Never } else { Flush::Kept };
        let files = Files::new(path)?.private();
        let Some(source) = source else {
            let (identity, policy) = self.design(path)?;
            let identity = Identity { uuid, ..identity };
            let file = UnpublishedFile::create(&files, &self.disk, identity, model, flush)?;
            return Ok(Writer::private(files, self, file, Counts::default(), self.first_metadata(), policy));
        };
        source.at_one_commit("copied", |snapshot| {
            let (identity, disk) = (Identity { uuid, ..*snapshot.identity() }, &self.disk);
            let file = UnpublishedFile::fill(&files, disk, identity, model, flush, &mut |write| {
                let regions = 0..identity.geometry.regions();
                snapshot.regions(regions, &mut |region, words, _| write(region, words))
            })?;
            let (counts, metadata) = (*snapshot.counts(), snapshot.metadata().clone());
            Ok(Writer::private(files.clone(), self, file, counts, metadata, snapshot.policy()))
        })
    }
}

impl Writer {
    /// Turns a [working copy](Options::working_copy) into a sealed, synced file under its path, and returns its
    /// description. The caller syncs the folder. After a failure, no file has that name.
    pub(crate) fn seal(self) -> Result<Info> {
        let files = self.files().clone();
        let Contents { mut file, counts, metadata, policy } = self.into_contents()?;
        let identity = file.identity;
        let key_rules = metadata.key_rules();
        check_counts(&files.data, &counts, &identity)?;
        let commit = 1;
        let copy = LiveCopy { commit, counts, metadata: metadata.encode(&files.data)? };
        let salt = random(&files.data)?;
        file.seal_idle(&Superblock { id: 2, identity, policy, commit, salt, counts, metadata }, &copy)?;
        // Protects: the whole file, before its name may appear in a version of a store.
        file.sync()?;
        file.rename(true)?;
        file.into_sealed();
        Ok(Info::from(Facts { identity, policy, counts, commit, journal_length: 0, key_rules }))
    }
}
