//! Filters in this process's memory, copied from a file or from bytes. Lookups in them never wait for a disk.

use std::path::Path;

use super::reader::Reader;
use super::snapshot::Snapshot;
use super::view::View;
use crate::error::{IoContext, Result};
use crate::file::{check_image, live};
use crate::format::{PageId, Superblock};
use crate::options::Options;
use crate::system::{Files, Map, MapMut};

impl Reader {
    /// Copies a filter into memory, with the default options: see [`Options::read_in_memory`].
    pub fn open_in_memory(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().read_in_memory(path)
    }

    /// Reads a filter from the bytes of its file, with the default options: see [`Options::read_bytes`].
    pub fn from_bytes(bytes: impl AsRef<[u8]>) -> Result<Self> {
        Options::new().read_bytes(bytes)
    }
}

impl Options {
    /// Copies the filter into memory, as of its last commit, for lookups that never wait for a disk or a network.
    ///
    /// Takes as much memory as the file is long, in huge pages where the system has them, and verifies all pages. The
    /// reader does not use the file afterwards: it does not see later commits, and the file may be removed. Clones of the
    /// reader share the copy. Fails as [`read`](Self::read) does. Also fails at a damaged page with [`Error::Damaged`],
    /// with [`Error::Io`] if the system refuses the memory, and with [`Error::Busy`] if the filter keeps changing during
    /// the copy.
    ///
    /// [`Error::Busy`]: crate::Error::Busy
    /// [`Error::Damaged`]: crate::Error::Damaged
    /// [`Error::Io`]: crate::Error::Io
    pub fn read_in_memory(&self, path: impl AsRef<Path>) -> Result<Reader> {
        let reader = self.read(path)?;
        let view = reader.at_one_commit("copied", copy_to_memory)?;
        Ok(reader.moved_to(view))
    }

    /// Reads a filter from the bytes of its file, for example embedded in a program or taken from an archive. The bytes need
    /// no alignment. They are copied: the caller may drop them afterwards.
    ///
    /// The bytes are checked as a file is: superblocks at once, and each page when it is first touched
    /// ([`verify`](Self::verify)). [`Reader::copy_to_bytes`] returns such bytes, and so does reading any file that its
    /// last writer has closed. If a writer still had the file open, or died with it open, the bytes are refused with
    /// [`Error::Unclosed`]: the journal beside the file may hold commits that the bytes lack.
    ///
    /// Fails with the error of a file that cannot be used, whose path is `<bytes>`. Fails with [`Error::Kind`] if the
    /// filter is not of the kind that these options ask for.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let mut writer = gowk::Options::new().create(dir.path().join("seen.gowk"))?;
    /// # writer.insert("a")?;
    /// # writer.commit()?;
    /// # writer.close()?;
    /// use gowk::{Lookup, Reader};
    ///
    /// let bytes = Reader::open(dir.path().join("seen.gowk"))?.copy_to_bytes()?;
    /// let embedded = Reader::from_bytes(&bytes)?;
    /// assert!(embedded.contains("a")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`Error::Kind`]: crate::Error::Kind
    /// [`Error::Unclosed`]: crate::Error::Unclosed
    pub fn read_bytes(&self, bytes: impl AsRef<[u8]>) -> Result<Reader> {
        let (bytes, files) = (bytes.as_ref(), Files::of_bytes());
        let superblocks = check_image(bytes, &files.data)?;
        let Superblock { identity, commit, counts, .. } = &superblocks.newest;
        let geometry = identity.geometry;
        let memory = MapMut::anonymous_huge(geometry.file_length()).at(&files.data, "take memory for")?;
        // The live area has no checksum, so it is not copied. For a closed file, its contents follow from the superblock.
        let first = geometry.sums() as usize / 8;
        let words = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
        (first..).zip(words.skip(first)).for_each(|(index, word)| memory.set_word(index, word));
        live::set_idle(&memory, *commit, counts.epoch);
        let memory = Map::of_memory(memory, geometry).at(&files.data, "take memory for")?;
        let view = View::of_bytes(memory, superblocks, self, &files)?;
        Reader::of_view(files, self, view)
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
