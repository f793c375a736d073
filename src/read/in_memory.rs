//! A filter copied into memory of this process, for lookups that never wait for a file.

use std::path::Path;

use super::reader::Reader;
use super::view::{View, copy_regions};
use crate::error::{IoContext, Result};
use crate::file::live;
use crate::format::{PageId, Superblock};
use crate::options::Options;
use crate::system::{Files, Map, MapMut};

/// How often a copy starts over because commits came in between.
const TRIES: u32 = 5;

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
    /// The file as of one commit, in memory of its own.
    fn open_in_memory(files: &Files, options: &Options) -> Result<Self> {
        for _ in 0..TRIES {
            let view = Self::open(files, options)?;
            if let Some(copy) = view.copy_to_memory(files)? {
                return Ok(copy);
            }
        }
        Err(Self::open(files, options)?.busy("copied"))
    }

    /// `None` if a commit came in between.
    fn copy_to_memory(self, files: &Files) -> Result<Option<Self>> {
        let Some(published) = self.published() else { return Ok(None) };
        let (before, metadata) = published?;
        let geometry = self.superblock.identity.geometry;
        let memory = MapMut::anonymous(geometry.file_length()).at(&self.path, "take memory for")?;
        let copied = copy_regions(
            &self,
            &mut |region, words| {
                memory.set_words(self.word_of(PageId::new(region, 0)), words);
                Ok(())
            },
            &mut |_, _| (),
        );
        for id in (0..geometry.pages()).map(PageId) {
            memory.set_half(self.sum_of(id), self.sum(id));
        }
        let after = self.published().transpose()?;
        if after.is_none_or(|(after, _)| after != before) || !self.is_current(files)? {
            // What was read may be torn between two commits, and no reason to fail.
            return Ok(None);
        }
        copied?;
        live::set_idle(&memory, before.commit);
        let superblock =
            Superblock { commit: before.commit, counts: before.counts, metadata, ..self.superblock };
        let memory = Map::of_memory(memory, geometry).at(&self.path, "take memory for")?;
        Ok(Some(self.moved_to(memory, superblock)))
    }
}
