//! A filter copied into memory of this process, for lookups that never wait for a file.

use std::path::Path;

use super::reader::Reader;
use super::snapshot::{Attempts, InVain, copy_regions};
use super::view::View;
use crate::error::{Error, IoContext, Result};
use crate::file::live;
use crate::format::{PageId, Superblock};
use crate::options::Options;
use crate::system::{Files, Map, MapMut};

impl Reader {
    /// Copies a filter into memory, with [`Options::new`]: see [`Options::read_in_memory`].
    pub fn open_in_memory(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().read_in_memory(path)
    }
}

impl Options {
    /// Copies the filter into memory, as of its last commit, for lookups that never wait for a disk or a network.
    ///
    /// Takes as much memory as the file is long, in huge pages where the system has them; all pages are verified
    /// meanwhile. The file is left alone afterwards: later commits are not seen, and it may be removed. Clones of
    /// the reader share the copy. Fails as [`read`](Self::read) does, at a damaged page with [`Error::Damaged`],
    /// with [`Error::Io`] if the system refuses the memory, and with [`Error::Busy`] if commits keep coming in
    /// between.
    ///
    /// [`Error::Busy`]: crate::Error::Busy
    /// [`Error::Damaged`]: crate::Error::Damaged
    /// [`Error::Io`]: crate::Error::Io
    pub fn read_in_memory(&self, path: impl AsRef<Path>) -> Result<Reader> {
        Reader::open_with(path.as_ref(), self, View::open_in_memory)
    }
}

impl View {
    /// A copy of the file in memory, as of one commit.
    pub(super) fn open_in_memory(files: &Files, options: &Options) -> Result<Self> {
        let mut attempts = Attempts::first();
        loop {
            let failed = match Self::open(files, options)?.copy_to_memory(files)? {
                Ok(copy) => return Ok(copy),
                Err(failed) => failed,
            };
            if !attempts.again(failed) {
                return Err(Error::Busy { path: files.data.clone(), op: "copied" });
            }
        }
    }

    fn copy_to_memory(self, files: &Files) -> Result<Result<Self, InVain>> {
        let Some(copy) = self.settled_live_copy() else { return Ok(Err(InVain::NotBegun)) };
        let (before, metadata) = copy?;
        let geometry = self.superblock.identity.geometry;
        let memory =
            MapMut::anonymous_huge(geometry.file_length()).at(self.pages.path(), "take memory for")?;
        let addresses = self.pages.addresses;
        let copied = copy_regions(
            &self,
            0..geometry.regions(),
            &mut |region, words, sums| {
                let first = PageId::new(region, 0);
                memory.set_words(addresses.word_of(first), words);
                (addresses.sum_of(first)..).zip(sums).for_each(|(index, sum)| memory.set_half(index, *sum));
                Ok(())
            },
            &mut |_, _| (),
        );
        let after = self.live_copy().transpose()?;
        if after.is_none_or(|(after, _)| after != before) || !self.is_current(files)? {
            // What was read may be of two commits, so that what failed in it says nothing.
            return Ok(Err(InVain::Torn));
        }
        match copied {
            Err(Error::Busy { .. }) => return Ok(Err(InVain::Torn)),
            outcome => outcome?,
        }
        live::set_idle(&memory, before.commit);
        let superblock =
            Superblock { commit: before.commit, counts: before.counts, metadata, ..self.superblock };
        let memory = Map::of_memory(memory, geometry).at(self.pages.path(), "take memory for")?;
        self.moved_to(memory, superblock).map(Ok)
    }
}
