//! A whole copy of a filter, with a uuid of its own.

use std::path::Path;

use super::writer::Writer;
use crate::error::{Error, IoContext, Result};
use crate::file::Unpublished;
use crate::format::Identity;
use crate::options::Options;
use crate::read::{Reader, copy_regions};
use crate::system::{Files, new_uuid};

/// How often a copy starts over because commits came in between.
const TRIES: u32 = 5;

impl Reader {
    /// Copies the filter, as of one commit, to a file that must not exist. The copy has its own uuid; seed,
    /// keys, counters and metadata are the same.
    ///
    /// `progress` is told the regions copied, and all there are. Fails with [`Error::Damaged`] at the first
    /// damaged page, with [`Error::Exists`] or [`Error::Locked`] where the destination is taken, and with
    /// [`Error::Busy`] if commits keep coming in between.
    pub fn copy_to(&self, destination: impl AsRef<Path>, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        for _ in 0..TRIES {
            if let Some(writer) = self.try_copy(destination.as_ref(), progress)? {
                let mut writer = writer;
                writer.commit()?;
                return writer.close();
            }
        }
        Err(Error::Busy { path: self.path().to_owned(), op: "copied" })
    }

    /// `None` if a commit came in between.
    fn try_copy(&self, destination: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Option<Writer>> {
        let view = self.view()?;
        let Some(published) = view.published() else { return Ok(None) };
        let (before, metadata) = published?;
        let superblock = &view.superblock;
        let identity = Identity { uuid: new_uuid(destination)?, ..superblock.identity };
        let options = Options::new();
        let files = Files::new(destination)?;
        let model = self.path().metadata().at(self.path(), "look at")?;
        let fill = |files: &Files| {
            Unpublished::fill(files, &options.disk, identity, Some(&model), true, |write| {
                copy_regions(&view, write, progress)
            })
        };
        let copied = Writer::create_filled(files, &options, superblock.policy, before.counts, metadata, fill);
        let unchanged = match view.published() {
            Some(Ok((after, _))) => after == before && self.view()?.is_same_as(&view),
            _ => false,
        };
        match copied {
            Ok(writer) if unchanged => Ok(Some(writer)),
            // What was read may be torn between two commits; only an undisturbed failure is one.
            Ok(_) => Ok(None),
            Err(Error::Busy { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
