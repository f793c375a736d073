//! A whole copy of a filter, with a uuid of its own.

use std::fs::File;
use std::path::Path;

#[cfg(doc)]
use crate::error::Error;
use crate::error::{IoContext, Result};
use crate::file::{Flush, UnpublishedFile};
use crate::format::Identity;
use crate::options::Options;
use crate::read::{Reader, Snapshot};
use crate::system::{Files, Rights, new_uuid};
use crate::write::Writer;

impl Reader {
    /// Copies the filter, as of one commit, to a file that must not exist. The copy has its own uuid; seed,
    /// keys, counters and metadata are the same.
    ///
    /// `progress` gets the number of regions copied, and of all regions. Fails with [`Error::Damaged`] at the first
    /// damaged page, with [`Error::Exists`] or [`Error::Locked`] where the destination is taken, and with
    /// [`Error::Busy`] if commits interrupt the copy for a minute and for five attempts.
    pub fn copy_to(&self, destination: impl AsRef<Path>, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        self.copy(destination.as_ref(), false, progress)
    }

    /// Copies the filter, as [`copy_to`](Self::copy_to) does, and replaces the filter at the destination, if there is
    /// one. Readers of that filter see the old filter until the copy is whole, and then go on with the copy at once.
    ///
    /// Fails with [`Error::Locked`] while a writer has that filter, and with the error of a file that is not a filter
    /// or cannot be used: only a filter is replaced.
    pub fn copy_over(&self, destination: impl AsRef<Path>, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        self.copy(destination.as_ref(), true, progress)
    }

    fn copy(&self, destination: &Path, over: bool, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let mut writer =
            self.at_one_commit("copied", |snapshot| copied(snapshot, destination, over, progress))?;
        writer.commit()?;
        writer.close()
    }
}

/// The writer of a copy that has no name yet.
fn copied(
    snapshot: &Snapshot<'_>,
    destination: &Path,
    over: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Writer> {
    let source = snapshot.reader().path();
    let identity = Identity { uuid: new_uuid(destination)?, ..*snapshot.identity() };
    let (options, files) = (Options::new(), Files::new(destination)?);
    let mut fill = |files: &Files, model: &Rights| {
        let (disk, regions) = (&options.disk, identity.geometry.regions());
        UnpublishedFile::fill(files, disk, identity, Some(model), Flush::Meanwhile, &mut |write| {
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
        return Writer::replace(files, &options, policy, metadata, fill);
    }
    let model = File::open(source).and_then(|file| Rights::of(&file)).at(source, "look at")?;
    Writer::create_filled(files, &options, policy, metadata, |files| fill(files, &model))
}
