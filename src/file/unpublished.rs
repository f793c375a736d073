//! A filter file that nobody else can see yet: a new one being filled, or one doubled into.
//!
//! It is a temporary file in the filter's folder. It is written without a journal, and sealed and synced once, when
//! it is published. The buckets of a small new one lie in memory until then. Dropping it removes it.
//! `format-spec/README.md`, section 8.
//!
//! Crash cases: until the rename is on the medium, the name leads to the old file, or to none; the temporary
//! file is removed by the next writer. The journal is reset after that: a power cut before may bring back the old file, which
//! needs it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};

use zerocopy::IntoBytes;

use super::live::{LiveCopy, of_new_file};
use super::pages::{Addresses, Region};
use super::published::PublishedFile;
use crate::cuckoo::{BUCKETS_PER_REGION, RegionId};
use crate::error::{Error, IoContext, Result};
use crate::format::{
    BUCKETS_PER_PAGE, Geometry, Identity, PAGES_PER_REGION, PageId, STATE_IDLE, STATE_IN_USE, Sealer,
    Superblock,
};
use crate::options::Verify;
use crate::system::{Disk, Files, MapMut, Presence, RegionsMut, Rights, WordsMut};

/// Whether the file system has room for a new file.
pub(crate) fn check_room(files: &Files, disk: &dyn Disk, geometry: Geometry) -> Result<()> {
    let needed = geometry.file_length();
    let available = disk.available(&files.dir).at(&files.dir, "ask for the free space of")?;
    if available >= needed {
        return Ok(());
    }
    Err(Error::NoSpace { path: files.data.clone(), needed, available })
}

/// The bytes after which a thread syncs the file, while more is written.
const FLUSH_AT: usize = 64 << 20;

/// Empty filters up to this length, in bytes, are written out. The page cache keeps a file that was written region by
/// region in larger units than a file whose pages came in one by one, by stores through a map: commits were 1.4 times
/// as fast. Writing a larger file would take too long.
///
/// Units of 64 KiB, and not larger: written by 2 MiB, a file lies in huge pages on ext4 (Linux 6.18), and lookups key by key
/// in 218 MB were 1.1 times as fast, but commits of 100, 1,000 and 10,000 keys took 1.5, 1.3 and 1.3 times as long. It looks
/// as if ext4 visits all blocks of a huge page for each page that is written.
const FILL: u64 = 2 << 30;

/// The longest file whose regions are kept in memory, in bytes.
const IN_MEMORY: u64 = 64 << 20;

/// The same for private files; several are filled at the same time.
const IN_MEMORY_EACH: u64 = 8 << 20;

/// A doubled file longer than this is kept in memory, if the transaction may take so much. Through a map, the system writes a
/// changed page after half a minute, or sooner if there are many, and again each time that it has changed since: a billion keys
/// wrote 27 and 111 GB to the disk, and 15 and 20 with the files of 1.5 and 3 GB in memory.
const WRITTEN_AGAIN: u64 = 1 << 30;

/// Whether a file is short enough to be kept in memory.
const fn may_be_kept(files: &Files, geometry: Geometry) -> bool {
    geometry.file_length() <= if files.private { IN_MEMORY_EACH } else { IN_MEMORY }
}

/// When the regions of a new file reach the medium, before the sync of the whole file that precedes its publication.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flush {
    /// They are kept in memory until the file is sealed, unless there are too many. They lie in huge pages there: single
    /// removals are 1.3 to 1.5 times as fast as in the file.
    Kept,
    /// Like `Kept`, however many there are.
    KeptLong,
    /// They are written, and only the sync of the whole file syncs them.
    Never,
    /// A thread syncs written bytes while more are written.
    Meanwhile,
    /// Like `Meanwhile`, but nobody waits for the thread to sync the rest. If it fails, the sync of the whole file
    /// fails.
    AndGoOn,
}

impl Flush {
    /// For an empty file that this number of threads will fill. Two filled memory at 32 to 43 M/s, and the file at 42 to
    /// 47 (10 million keys).
    pub(crate) const fn by(threads: usize) -> Self {
        if threads == 1 { Self::Kept } else { Self::Never }
    }

    /// For a file into which another one is doubled, in a transaction that may take `allowed` bytes of memory. A private one
    /// stays in memory. Others leave it unless they are long: with twice as many regions there, `gowk dedup` of 12.8 million
    /// lines took 1.07 times as long.
    pub(crate) fn of_doubled(is_kept: bool, files: &Files, doubled: Geometry, allowed: u64) -> Self {
        let length = doubled.file_length();
        match files.private {
            true if is_kept && may_be_kept(files, doubled) => Self::Kept,
            false if length > WRITTEN_AGAIN && length <= allowed => Self::KeptLong,
            _ => Self::Meanwhile,
        }
    }

    /// Memory for the regions of a file, if it should keep them there.
    fn memory(self, files: &Files, geometry: Geometry) -> Option<RegionsMut> {
        let is_kept = self == Self::KeptLong || self == Self::Kept && may_be_kept(files, geometry);
        if is_kept { RegionsMut::in_memory(geometry.regions()) } else { None }
    }
}

/// A thread that syncs the written bytes of a file.
#[derive(Debug)]
struct Flusher {
    /// `None` once everything is written.
    due: Option<mpsc::Sender<()>>,
    /// `None` once `wait` was called.
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Flusher {
    /// `None` if no thread can be started: the sync of the whole file does all the work later.
    fn start(disk: &Arc<dyn Disk>, file: &File) -> Option<Self> {
        let (disk, file) = (disk.clone(), file.try_clone().ok()?);
        let (due, flushes) = mpsc::channel();
        let sync = move || flushes.iter().try_for_each(|()| disk.sync(&file));
        let thread = Builder::new().name("gowk-flush".to_owned()).spawn(sync).ok()?;
        Some(Self { due: Some(due), thread: Some(thread) })
    }

    fn flush(&self) {
        // This fails if an earlier sync has failed; `wait` reports that.
        let _ = self.due.as_ref().map(|due| due.send(()));
    }

    /// Waits until all requested syncs are done, and returns their outcome, the first time it is called.
    fn wait(&mut self) -> io::Result<()> {
        self.due = None;
        let panicked = |_| Err(io::Error::other("a thread panicked"));
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap_or_else(panicked))
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        // The file is given up, so the outcome does not matter.
        let _ = self.wait();
    }
}

/// A file being filled region by region, ascending, before it is mapped.
struct Filling<'a> {
    files: &'a Files,
    disk: &'a Arc<dyn Disk>,
    file: &'a File,
    /// Takes the regions, if they are not to be written yet.
    kept: Option<&'a RegionsMut>,
    identity: Identity,
    sums: Vec<u32>,
    flush: Flush,
    /// Started at the first flush.
    flusher: Option<Flusher>,
    /// Bytes written since the last flush.
    written: usize,
}

impl Filling<'_> {
    fn region(&mut self, region: RegionId, words: &Region) -> Result<()> {
        match self.kept {
            Some(memory) => memory.map().set_words(Addresses::OF_REGIONS.bucket(region, 0), words),
            None => {
                let offset = self.identity.geometry.region_at(region);
                let written = self.disk.write_at(self.file, words.as_bytes(), offset);
                written.at(&self.files.data, "write the new file for")?;
            }
        }
        let sealer = Sealer::new(&self.identity);
        let (pages, _) = words.as_chunks::<{ BUCKETS_PER_PAGE as usize }>();
        let numbered = (0..).zip(pages).map(|(number, page)| (PageId::new(region, number), page));
        self.sums.extend(numbered.map(|(id, page)| sealer.crc(id, page)));
        self.written += words.as_bytes().len();
        if matches!(self.flush, Flush::Meanwhile | Flush::AndGoOn) && self.written >= FLUSH_AT {
            self.flush();
        }
        Ok(())
    }

    /// Requests a sync of the written bytes, without waiting for it.
    fn flush(&mut self) {
        self.written = 0;
        if self.flusher.is_none() {
            self.flusher = Flusher::start(self.disk, self.file);
        }
        self.flusher.iter().for_each(Flusher::flush);
    }

    /// Ends the filling, after the last region.
    fn finished(mut self) -> Result<Self> {
        if self.flush == Flush::AndGoOn {
            self.flush();
        }
        self.flusher.iter_mut().for_each(|flusher| flusher.due = None);
        if self.flush == Flush::Meanwhile {
            let flushed = self.flusher.take().map_or(Ok(()), |mut flusher| flusher.wait());
            flushed.at(&self.files.data, "sync the new file for")?;
        }
        Ok(self)
    }
}

/// The bytes of a new file up to the end of its metadata in the live area: both superblocks, then the live area.
fn head_of(state: [u8; 8], superblock: &Superblock, copy: &LiveCopy, path: &Path) -> Result<Vec<u8>> {
    let older = Superblock { id: superblock.id.saturating_sub(1), ..superblock.clone() };
    let mut head = superblock.encode(path)?;
    head.extend(older.encode(path)?);
    head.extend(of_new_file(copy, state, superblock.salt));
    Ok(head)
}

/// The bytes of a sealed file, whose regions `write` gives.
pub(crate) fn image_of(
    superblock: &Superblock,
    copy: &LiveCopy,
    path: &Path,
    write: &mut Fill<'_>,
) -> Result<Vec<u8>> {
    let identity = &superblock.identity;
    let (sealer, geometry) = (Sealer::new(identity), identity.geometry);
    let no_memory = |_| io::Error::from(io::ErrorKind::OutOfMemory);
    let length = usize::try_from(geometry.file_length()).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(no_memory).at(path, "take memory for a copy of")?;
    bytes.extend(head_of(STATE_IDLE, superblock, copy, path)?);
    bytes.resize(geometry.data() as usize, 0);
    let mut sums = Vec::new();
    write(&mut |region, words| {
        let (pages, _) = words.as_chunks::<{ BUCKETS_PER_PAGE as usize }>();
        sums.extend((0..).zip(pages).map(|(number, page)| sealer.crc(PageId::new(region, number), page)));
        bytes.extend_from_slice(words.as_bytes());
        Ok(())
    })?;
    let places = bytes.get_mut(geometry.sums() as usize..).unwrap_or_default();
    places.iter_mut().zip(sums.as_bytes()).for_each(|(place, byte)| *place = *byte);
    Ok(bytes)
}

/// The number of checksums that are written by one call.
const SUMS_A_WRITE: usize = 16_384;

/// An unpublished file, open for writing.
#[derive(Debug)]
pub(crate) struct UnpublishedFile {
    /// Declared before the file, so that its drop waits for the thread before the file is removed.
    flusher: Option<Flusher>,
    files: Files,
    disk: Arc<dyn Disk>,
    file: tempfile::NamedTempFile,
    /// Of the file, or memory for the regions alone.
    map: RegionsMut,
    addresses: Addresses,
    /// Whether the regions are in memory, and reach the file when it is sealed.
    in_memory: bool,
    /// The checksums of the pages that were filled, in order.
    sums: Vec<u32>,
    /// For each page, whether it was changed since it was filled.
    ///
    /// A byte each: to set a bit, a change would first load its neighbours, which a recent change may still be storing. With
    /// bytes, single removals are 1.12 times as fast.
    stale: Vec<Stale>,
    /// Claimed when the file is created, so that the file is never without it once it is published.
    presence: Option<Presence>,
    pub(crate) identity: Identity,
}

/// One region of an unpublished file; its pages need no verification.
pub(crate) struct UnpublishedRegion<'a> {
    words: WordsMut<'a, { BUCKETS_PER_REGION as usize }>,
    stale: &'a Stale,
}

/// For each page of a region, whether it was changed since it was filled.
type Stale = [AtomicBool; PAGES_PER_REGION as usize];

/// Notes that the page of a bucket is changed.
#[inline]
fn mark(stale: &Stale, bucket: u16) {
    stale[(u32::from(bucket) / BUCKETS_PER_PAGE % PAGES_PER_REGION) as usize].store(true, Ordering::Relaxed);
}

impl UnpublishedRegion<'_> {
    #[inline]
    pub(crate) fn bucket(&self, bucket: u16) -> u64 {
        self.words.word(bucket.into())
    }

    /// Like [`UnpublishedFile::set_bucket`].
    #[inline]
    pub(crate) fn set_bucket(&self, bucket: u16, word: u64) {
        self.words.set_word(bucket.into(), word);
        mark(self.stale, bucket);
    }
}

/// Gives all regions of a new file, ascending, to the function that writes one.
type Fill<'a> = dyn FnMut(&mut dyn FnMut(RegionId, &Region) -> Result<()>) -> Result<()> + 'a;

/// A file to make.
struct New<'a> {
    files: &'a Files,
    disk: &'a Arc<dyn Disk>,
    identity: Identity,
    model: Option<&'a Rights>,
    flush: Flush,
}

impl New<'_> {
    /// The file; with `memory`, its regions lie there until it is sealed.
    fn fill(self, memory: Option<RegionsMut>, write: &mut Fill<'_>) -> Result<UnpublishedFile> {
        let Self { files, disk, identity, model, flush } = self;
        let needed = identity.geometry.file_length();
        check_room(files, &**disk, identity.geometry)?;
        let file = files.temporary(&**disk, model)?;
        let path = file.path();
        let presence = if files.private { None } else { Presence::claim(file.as_file(), path)? };
        disk.allocate(file.as_file(), needed).at(&files.data, "allocate the new file for")?;
        let (handle, kept, sums) = (file.as_file(), memory.as_ref(), Vec::new());
        let mut filling =
            Filling { files, disk, file: handle, kept, identity, sums, flush, flusher: None, written: 0 };
        write(&mut |region, words| filling.region(region, words))?;
        let Filling { sums, flusher, .. } = filling.finished()?;
        let (in_memory, regions) = (memory.is_some(), identity.geometry.regions());
        let (map, addresses) = match memory {
            Some(memory) => (memory, Addresses::OF_REGIONS),
            None => {
                let map = MapMut::shared(file.as_file(), 0, needed).at(path, "map")?;
                let map = RegionsMut::new(map, identity.geometry.data(), regions).at(path, "map")?;
                (map, Addresses::new(identity.geometry))
            }
        };
        let stale = (0..regions).map(|_| Stale::default()).collect();
        Ok(UnpublishedFile {
            flusher,
            files: files.clone(),
            disk: disk.clone(),
            map,
            addresses,
            in_memory,
            sums,
            stale,
            presence,
            file,
            identity,
        })
    }
}

impl UnpublishedFile {
    /// Creates an empty file of its full length, with the permissions and the owner of `model`, if given.
    pub(crate) fn create(
        files: &Files,
        disk: &Arc<dyn Disk>,
        identity: Identity,
        model: Option<&Rights>,
        flush: Flush,
    ) -> Result<Self> {
        let (empty, geometry) = ([0; BUCKETS_PER_REGION as usize], identity.geometry);
        let memory = flush.memory(files, geometry);
        let to_fill = if memory.is_none() && geometry.file_length() <= FILL { geometry.regions() } else { 0 };
        New { files, disk, identity, model, flush }.fill(memory, &mut |write| {
            (0..to_fill).try_for_each(|region| write(RegionId(region as u32), &empty))
        })
    }

    /// Creates a file whose regions `write` writes before it is mapped, which is cheaper than storing every word
    /// through the map.
    pub(crate) fn fill(
        files: &Files,
        disk: &Arc<dyn Disk>,
        identity: Identity,
        model: Option<&Rights>,
        flush: Flush,
        write: &mut Fill<'_>,
    ) -> Result<Self> {
        New { files, disk, identity, model, flush }.fill(flush.memory(files, identity.geometry), write)
    }

    pub(crate) const fn is_in_memory(&self) -> bool {
        self.in_memory
    }

    #[inline]
    pub(crate) fn bucket(&self, region: RegionId, bucket: u16) -> u64 {
        self.map.map().word(self.addresses.bucket(region, bucket))
    }

    #[inline]
    pub(crate) fn prefetch(&self, region: RegionId, bucket: u16) {
        self.map.map().prefetch(self.addresses.bucket(region, bucket));
    }

    #[inline]
    pub(crate) fn set_bucket(&self, region: RegionId, bucket: u16, word: u64) {
        self.map.map().set_word(self.addresses.bucket(region, bucket), word);
        mark(&self.stale[region.0 as usize], bucket);
    }

    /// One region of the file; `None` beyond the last.
    #[inline]
    pub(crate) fn region(&self, region: RegionId) -> Option<UnpublishedRegion<'_>> {
        let words = self.map.region(region)?;
        Some(UnpublishedRegion { words, stale: self.stale.get(region.0 as usize)? })
    }

    /// The page's checksum when it was filled, unless the page has been changed since.
    fn known_sum(&self, id: PageId) -> Option<u32> {
        let stale = self.stale.get(id.region().0 as usize)?.get(id.in_region() as usize)?;
        if stale.load(Ordering::Relaxed) { None } else { self.sums.get(id.0 as usize).copied() }
    }

    pub(crate) fn read(&self, region: RegionId, into: &mut Region) {
        self.map.map().copy(self.addresses.bucket(region, 0), into);
    }

    fn write_regions(&self) -> Result<()> {
        let mut words = [0; BUCKETS_PER_REGION as usize];
        for region in (0..self.identity.geometry.regions()).map(|region| RegionId(region as u32)) {
            self.read(region, &mut words);
            self.write(words.as_bytes(), self.identity.geometry.region_at(region))?;
        }
        Ok(())
    }

    fn write_sums(&self) -> Result<()> {
        let geometry = self.identity.geometry;
        let sealer = Sealer::new(&self.identity);
        let mut page = [0; BUCKETS_PER_PAGE as usize];
        let mut sums = Vec::with_capacity(SUMS_A_WRITE);
        let mut offset = geometry.sums();
        for id in (0..geometry.pages()).map(PageId) {
            sums.push(self.known_sum(id).unwrap_or_else(|| {
                self.map.map().copy(self.addresses.word_of(id), &mut page);
                sealer.crc(id, &page)
            }));
            if sums.len() == SUMS_A_WRITE || id.0 + 1 == geometry.pages() {
                self.write(sums.as_bytes(), offset)?;
                offset += 4 * sums.len() as u64;
                sums.clear();
            }
        }
        Ok(())
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.disk.write_at(self.file.as_file(), bytes, offset).at(&self.files.data, "write the new file for")
    }

    /// Writes what is in memory, checksums, superblocks and live area, so that the file is whole under its temporary name.
    /// The caller then syncs it. May be repeated.
    pub(crate) fn seal(&self, superblock: &Superblock, copy: &LiveCopy) -> Result<()> {
        self.seal_in(STATE_IN_USE, superblock, copy)
    }

    /// Like `seal`, for a file that no writer will have open any more.
    #[cfg(feature = "store")]
    pub(crate) fn seal_idle(&self, superblock: &Superblock, copy: &LiveCopy) -> Result<()> {
        self.seal_in(STATE_IDLE, superblock, copy)
    }

    fn seal_in(&self, state: [u8; 8], superblock: &Superblock, copy: &LiveCopy) -> Result<()> {
        if self.in_memory {
            self.write_regions()?;
        }
        self.write_sums()?;
        self.write(&head_of(state, superblock, copy, &self.files.data)?, 0)
    }

    /// Lets go of the file after it was renamed.
    #[cfg(feature = "store")]
    pub(crate) fn into_sealed(self) {
        // Nothing has the temporary name any longer, so there is nothing to remove.
        let _ = self.file.into_temp_path().keep();
    }

    pub(crate) fn sync(&mut self) -> Result<()> {
        let flushed = self.flusher.take().map_or(Ok(()), |mut flusher| flusher.wait());
        flushed
            .and_then(|()| self.disk.sync(self.file.as_file()))
            .at(&self.files.data, "sync the new file for")
    }

    /// Gives a sealed file the filter's name. If this fails, the name is as it was.
    pub(crate) fn rename(&self, replace: bool) -> Result<()> {
        self.disk.rename(self.file.path(), &self.files.data, replace).at(&self.files.data, "publish")
    }

    /// The file as a published one, after it was renamed.
    pub(crate) fn into_published(self, superblock: Superblock) -> Result<PublishedFile> {
        let Self { files, disk, file, presence, .. } = self;
        let (file, temporary): (File, _) = file.into_parts();
        // Nothing has the temporary name any longer, so there is nothing to remove.
        let _ = temporary.keep();
        // All checksums were computed here, from these very pages.
        let mut published = PublishedFile::assemble(files, disk, file, superblock, 0, Verify::Never)?;
        published.presence = presence;
        Ok(published)
    }

    /// The files of the filter that it will be published as, and the disk that it is written through.
    pub(crate) const fn surroundings(&self) -> (&Files, &Arc<dyn Disk>) {
        (&self.files, &self.disk)
    }

    pub(crate) fn rights(&self) -> Result<Rights> {
        Rights::of(self.file.as_file()).at(self.file.path(), "look at")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::cuckoo::{Shard, SlotsPerBucket};
    use crate::format::{LIVE, LIVE_STATE};
    use crate::{Options, Reader};

    /// Seals a file of `regions` regions, with pages that were changed after it was filled.
    fn every_page_gets_the_checksum_of_what_is_in_it(regions: u64, in_memory: bool) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("small");
        let mut writer = Options::new().capacity(1).create(&path).unwrap();
        writer.commit().unwrap();
        writer.close().unwrap();
        let small = Reader::open(&path).unwrap().view().unwrap().superblock.clone();
        let geometry = Geometry::new(SlotsPerBucket::Four, regions, 0, Shard::WHOLE).unwrap();
        assert!(geometry.file_length() <= FILL);
        assert!(in_memory || geometry.pages() > SUMS_A_WRITE as u64);
        let identity = Identity { geometry, ..small.identity };
        let files = Files::new(&dir.path().join("f")).unwrap();
        let disk: Arc<dyn Disk> = Arc::new(crate::system::SystemDisk);
        let new = UnpublishedFile::create(&files, &disk, identity, None, Flush::Kept).unwrap();
        assert_eq!(new.in_memory, in_memory);
        // The first and the last, and some whose numbers are 64 times others.
        let pages = [0, 1, 3, 5, 63, 64, 130, 4096, 9000, SUMS_A_WRITE as u64 + 70, geometry.pages() - 1];
        let expected = |page: u64| {
            let mut expected = [0_u64; BUCKETS_PER_PAGE as usize];
            if pages.contains(&page) {
                expected[if page.is_multiple_of(2) { 3 } else { 511 }] = page + 1;
            }
            expected
        };
        for page in pages.into_iter().filter(|page| *page < geometry.pages()) {
            let (region, bucket) =
                (PageId(page).region(), (PageId(page).in_region() * BUCKETS_PER_PAGE) as u16);
            if page % 2 == 0 {
                new.set_bucket(region, bucket + 3, page + 1);
            } else {
                new.region(region).unwrap().set_bucket(bucket + 511, page + 1);
            }
        }
        let copy = LiveCopy { commit: small.commit, counts: small.counts, metadata: Vec::new() };
        let superblock = Superblock { identity, ..small };
        new.seal(&superblock, &copy).unwrap();
        let (file, sealer) = (new.file.as_file(), Sealer::new(&identity));
        let (mut page, mut sums) =
            ([0_u64; BUCKETS_PER_PAGE as usize], vec![0_u32; geometry.pages() as usize]);
        file.read_exact_at(sums.as_mut_bytes(), geometry.sums()).unwrap();
        for (id, sum) in (0..geometry.pages()).map(PageId).zip(sums) {
            file.read_exact_at(page.as_mut_bytes(), geometry.data() + id.0 * 4096).unwrap();
            assert_eq!(page, expected(id.0), "{id:?}");
            assert_eq!(sealer.crc(id, &page), sum, "{id:?}");
        }
        let written = super::super::published::read_superblocks(file, &path).unwrap().check(&path).unwrap();
        assert!(!written.other_damaged);
        assert_eq!((written.newest.commit, written.newest.identity), (superblock.commit, identity));
        let mut state = [0; 8];
        file.read_exact_at(&mut state, LIVE + LIVE_STATE).unwrap();
        assert_eq!(state, STATE_IN_USE);
    }

    #[test]
    fn a_new_file_whose_checksums_take_several_writes_is_sealed() {
        every_page_gets_the_checksum_of_what_is_in_it(1100, false);
    }

    #[test]
    fn a_new_file_in_memory_is_sealed() {
        every_page_gets_the_checksum_of_what_is_in_it(300, true);
    }

    #[test]
    fn a_long_doubled_file_stays_in_memory_if_as_much_is_allowed() {
        let files = || Files::new(std::path::Path::new("f")).unwrap();
        let private = Files { private: true, ..files() };
        let doubled = |regions| Geometry::new(SlotsPerBucket::Four, regions, 0, Shard::WHOLE).unwrap();
        let (long, short) = (doubled(17_000), doubled(16_000));
        let allowed = long.file_length();
        assert_eq!(Flush::of_doubled(false, &files(), long, allowed), Flush::KeptLong);
        assert_eq!(Flush::of_doubled(false, &files(), long, allowed - 1), Flush::Meanwhile);
        assert_eq!(Flush::of_doubled(false, &files(), short, allowed), Flush::Meanwhile);
        assert_eq!(Flush::of_doubled(true, &private, long, allowed), Flush::Meanwhile);
    }
}
