//! A whole copy of a filter, with a uuid of its own.

use std::fs::File;
use std::path::Path;

use super::writer::Writer;
use crate::error::{Error, IoContext, Result};
use crate::file::{Flush, LiveCopy, UnpublishedFile};
use crate::format::Identity;
use crate::options::Options;
use crate::read::{Attempts, InVain, Reader, View, copy_regions};
use crate::system::{Files, Rights, new_uuid};

impl Reader {
    /// Copies the filter, as of one commit, to a file that must not exist. The copy has its own uuid; seed,
    /// keys, counters and metadata are the same.
    ///
    /// `progress` is told the regions copied, and all there are. Fails with [`Error::Damaged`] at the first
    /// damaged page, with [`Error::Exists`] or [`Error::Locked`] where the destination is taken, and with
    /// [`Error::Busy`] if for a minute, and for five whole copies, commits have kept coming in between.
    pub fn copy_to(&self, destination: impl AsRef<Path>, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        self.copy(destination.as_ref(), false, progress)
    }

    /// Copies the filter, as [`copy_to`](Self::copy_to) does, over the filter at the destination, or to where there is
    /// none. Readers of that filter go on with the copy at once; until then they see the old one, whole.
    ///
    /// Fails with [`Error::Locked`] while a writer has that filter, and with whatever is wrong with its file: only a
    /// filter is replaced.
    pub fn copy_over(&self, destination: impl AsRef<Path>, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        self.copy(destination.as_ref(), true, progress)
    }

    fn copy(&self, destination: &Path, over: bool, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let mut attempts = Attempts::first();
        loop {
            let view = self.view()?;
            let failed = match self.try_copy(&view, destination, over, progress)? {
                Ok(writer) => {
                    let mut writer = writer;
                    writer.commit()?;
                    return writer.close();
                }
                Err(failed) => failed,
            };
            if failed == InVain::NotBegun {
                // The writer may have died. Opening the file anew recovers it.
                self.reopen(&view)?;
            }
            if !attempts.again(failed) {
                return Err(Error::Busy { path: self.path().to_owned(), op: "copied" });
            }
        }
    }

    fn try_copy(
        &self,
        view: &View,
        destination: &Path,
        over: bool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Result<Writer, InVain>> {
        let Some(copy) = view.settled_live_copy() else { return Ok(Err(InVain::NotBegun)) };
        let (before, metadata) = copy?;
        let superblock = &view.superblock;
        let identity = Identity { uuid: new_uuid(destination)?, ..superblock.identity };
        let options = Options::new();
        let files = Files::new(destination)?;
        let mut fill = |files: &Files, model: &Rights| {
            UnpublishedFile::fill(files, &options.disk, identity, Some(model), Flush::Meanwhile, |write| {
                let regions = 0..identity.geometry.regions();
                copy_regions(view, regions, &mut |region, words, _| write(region, words), progress)
            })
            .map(|file| (file, before.counts))
        };
        let policy = superblock.policy;
        let copied = if over && files.inode()?.is_some() {
            Writer::replace(files, &options, policy, metadata, fill)
        } else {
            let model =
                File::open(self.path()).and_then(|file| Rights::of(&file)).at(self.path(), "look at")?;
            Writer::create_filled(files, &options, policy, metadata, |files| fill(files, &model))
        };
        let unchanged = self.is_still(view, &before);
        match copied {
            Ok(writer) if unchanged => Ok(Ok(writer)),
            // What was read may be of two commits. A failure counts only if no commit came in between.
            Ok(_) | Err(Error::Busy { .. }) => Ok(Err(InVain::Torn)),
            Err(error) => Err(error),
        }
    }

    /// Whether nothing was committed since the view had this copy.
    pub(super) fn is_still(&self, view: &View, before: &LiveCopy) -> bool {
        let after = view.live_copy();
        matches!(after, Some(Ok((after, _))) if after == *before)
            && self.view().is_ok_and(|current| current.is_same_as(view))
    }
}
