//! A filter copied into memory of this process, for lookups that never wait for a file.

use std::path::Path;

use super::reader::Reader;
use super::snapshot::Snapshot;
use super::view::View;
use crate::error::{IoContext, Result};
use crate::file::live;
use crate::format::{PageId, Superblock};
use crate::options::Options;
use crate::system::{Map, MapMut};

impl Reader {
    /// Copies a filter into memory, with the default options: see [`Options::read_in_memory`].
    pub fn open_in_memory(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().read_in_memory(path)
    }
}

impl Options {
    /// Copies the filter into memory, as of its last commit, for lookups that never wait for a disk or a network.
    ///
    /// Takes as much memory as the file is long, in huge pages where the system has them; all pages are verified
    /// meanwhile. The reader does not use the file afterwards: it does not see later commits, and the file may be
    /// removed. Clones of the reader share the copy. Fails as [`read`](Self::read) does, at a damaged page with
    /// [`Error::Damaged`], with [`Error::Io`] if the system refuses the memory, and with [`Error::Busy`] if commits
    /// keep coming in while it copies.
    ///
    /// [`Error::Busy`]: crate::Error::Busy
    /// [`Error::Damaged`]: crate::Error::Damaged
    /// [`Error::Io`]: crate::Error::Io
    pub fn read_in_memory(&self, path: impl AsRef<Path>) -> Result<Reader> {
        let reader = self.read(path)?;
        let view = reader.at_one_commit("copied", copy_to_memory)?;
        Ok(reader.moved_to(view))
    }
}

fn copy_to_memory(snapshot: &Snapshot<'_>) -> Result<View> {
    let view = snapshot.view();
    let geometry = snapshot.identity().geometry;
    let memory = MapMut::anonymous_huge(geometry.file_length()).at(view.pages.path(), "take memory for")?;
    let addresses = view.pages.addresses;
    snapshot.regions(0..geometry.regions(), &mut |region, words, sums| {
        let first = PageId::new(region, 0);
        memory.set_words(addresses.word_of(first), words);
        (addresses.sum_of(first)..).zip(sums).for_each(|(index, sum)| memory.set_half(index, *sum));
        Ok(())
    })?;
    live::set_idle(&memory, snapshot.commit(), snapshot.counts().epoch);
    let superblock = Superblock {
        commit: snapshot.commit(),
        counts: *snapshot.counts(),
        metadata: snapshot.metadata().clone(),
        ..view.superblock.clone()
    };
    let memory = Map::of_memory(memory, geometry).at(view.pages.path(), "take memory for")?;
    view.moved_to(memory, superblock)
}
