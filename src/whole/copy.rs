//! A whole copy of a filter, with a uuid of its own.

use std::fs::File;
use std::path::Path;

#[cfg(doc)]
use crate::error::Error;
use crate::error::{IoContext, Result};
use crate::file::{Flush, LiveCopy, UnpublishedFile, image_of};
use crate::format::{Identity, Superblock};
use crate::options::Options;
use crate::read::{Reader, Snapshot};
use crate::system::{Files, Rights, new_uuid, random};
use crate::write::Writer;

impl Reader {
    /// Copies the filter, as of one commit, to a file that must not exist. The copy has its own uuid, and the same seed,
    /// keys, counters and metadata.
    ///
    /// `progress` receives the number of regions copied, and of all regions. Fails with [`Error::Damaged`] at the first
    /// damaged page, with [`Error::Exists`] or [`Error::Locked`] if the destination is taken, and with [`Error::Busy`] if
    /// commits interrupt the copy for a minute and for five attempts.
    pub fn copy_to(&self, destination: impl AsRef<Path>, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<()> {
        self.copy(destination.as_ref(), false, progress)
    }

    /// Copies the filter like [`copy_to`](Self::copy_to), but replaces any filter at the destination. Readers of the
    /// replaced filter see it until the copy is whole, and then follow to the copy at once.
    ///
    /// Fails with [`Error::Locked`] while a writer has the replaced filter open, and with the error of a file that is not
    /// a filter or cannot be used: only a filter is replaced.
    pub fn copy_over(
        &self,
        destination: impl AsRef<Path>,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<()> {
        self.copy(destination.as_ref(), true, progress)
    }

    /// Copies the filter, as of one commit, to the bytes of a file like that of [`copy_to`](Self::copy_to). The copy has
    /// its own uuid and needs no journal. [`Reader::from_bytes`] reads the bytes; written to a file, they are a filter.
    ///
    /// Takes memory for the whole file. Fails as `copy_to` does, and with [`Error::Io`] if there is no memory.
    pub fn copy_to_bytes(&self) -> Result<Vec<u8>> {
        let path = self.path();
        let (id, commit, salt, uuid) = (2, 1, random(path)?, new_uuid(path)?);
        self.at_one_commit("copied", |snapshot| {
            let identity = Identity { uuid, ..*snapshot.identity() };
            let (counts, metadata) = (*snapshot.counts(), snapshot.metadata().clone());
            let copy = LiveCopy { commit, counts, metadata: metadata.encode(path)? };
            let policy = snapshot.policy();
            let superblock = Superblock { id, identity, policy, commit, salt, counts, metadata };
            image_of(&superblock, &copy, path, &mut |write| {
                snapshot.regions(0..identity.geometry.regions(), &mut |region, words, _| write(region, words))
            })
        })
    }

    fn copy(&self, destination: &Path, over: bool, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<()> {
        let mut writer =
            self.at_one_commit("copied", |snapshot| copied(snapshot, destination, over, progress))?;
        writer.commit()?;
        writer.close()
    }
}

/// The writer of a copy, which has no name yet.
fn copied(
    snapshot: &Snapshot<'_>,
    destination: &Path,
    over: bool,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Writer> {
    let source = snapshot.reader().path();
    let identity = Identity { uuid: new_uuid(destination)?, ..*snapshot.identity() };
    let (options, files) = (Options::new(), Files::new(destination)?);
    let fill = |files: &Files, model: Option<&Rights>| {
        let (disk, regions) = (&options.disk, identity.geometry.regions());
        UnpublishedFile::fill(files, disk, identity, model, Flush::Meanwhile, &mut |write| {
            snapshot.regions(0..regions, &mut |region, words, _| {
                write(region, words)?;
                progress(u64::from(region.0) + 1, regions);
                Ok(())
            })
        })
        .map(|file| (file, *snapshot.counts()))
    };
    let (policy, metadata) = (snapshot.policy(), snapshot.metadata().clone());
    if over && files.inode()?.is_some() {
        return Writer::replace(files, &options, policy, metadata, |files, model| fill(files, Some(model)));
    }
    let rights_of = |source| File::open(source).and_then(|file| Rights::of(&file)).at(source, "look at");
    let model = snapshot.is_of_file().then(|| rights_of(source)).transpose()?;
    let model = model.as_ref();
    Writer::create_filled(files, &options, policy, metadata, model, |files| fill(files, model))
}
