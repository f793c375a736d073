//! A filter file opened for writing: its pages, its superblocks, and how a transaction is applied to it.
//!
//! Invariants (`format-spec/README.md`, section 6):
//!
//! 1. Nothing of a transaction is applied before the journal that holds it is synced.
//! 2. The journal is retired only after the data that it covers is synced, and after both superblocks name that commit.
//! 3. A page is verified before it is first changed: damage is never sealed under a fresh checksum.
//!
//! Crash cases: dying while applying leaves regions half-written; the journal redoes them. Dying between the two
//! superblocks leaves them one checkpoint apart; the newer one counts, and the journal continues an older checkpoint.
//! Dying before the journal is reset leaves commits that the superblock already has; recovery retires them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use zerocopy::IntoBytes;

use super::journal::Journal;
use super::live::{Live, LiveCopy, LiveHead, LiveRead, first_epoch};
use super::medium::Medium;
use super::overlay::{Overlay, PageBits, RegionChange, changed_pages};
use super::pages::{Pages, Region, is_file_of};
use crate::cuckoo::{BUCKETS_PER_REGION, RegionId};
use crate::error::{Error, IoContext, Result};
use crate::format::frame::Header;
use crate::format::{
    BUCKETS_PER_PAGE, LIVE, LIVE_STATE, PAGES_PER_REGION, Page, PageId, RawSuperblocks, STATE_IDLE,
    STATE_IN_USE, SUPERBLOCK, Superblock,
};
use crate::options::Verify;
use crate::system::{Disk, Files, Map, Presence, random};

/// From this many changed pages in a region on, one write from the first to the last is cheaper than one write each.
const PAGES_WORTH_ONE_WRITE: usize = 4;

/// A page within the words of its region.
fn page_mut(words: &mut Region, id: PageId) -> &mut Page {
    let (pages, _) = words.as_chunks_mut();
    &mut pages[id.in_region() as usize]
}

/// The raw superblocks of an open file.
pub(crate) fn read_superblocks(file: &File, path: &std::path::Path) -> Result<RawSuperblocks> {
    let metadata = file.metadata().at(path, "look at")?;
    if metadata.is_dir() {
        return Err(std::io::Error::from(rustix::io::Errno::ISDIR)).at(path, "open");
    }
    Ok(RawSuperblocks::read(metadata.len(), |bytes, offset| file.read_exact_at(bytes, offset)))
}

/// A published file, mapped and open for writing. Its owner holds the writer lock.
#[derive(Debug)]
pub(crate) struct PublishedFile {
    pub(crate) files: Files,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) file: File,
    pub(crate) pages: Pages,
    pub(crate) live: Live,
    /// The newest superblock: the last checkpoint.
    pub(crate) checkpoint: Superblock,
    /// The slot of the newest superblock, 0 or 1.
    slot: usize,
    /// Whether the other slot was damaged at opening, and has not been written since.
    pub(crate) other_damaged: bool,
    /// Held by a writer; `None` in a process that only recovers the file.
    pub(super) presence: Option<Presence>,
    pub(crate) found: Found,
}

/// The defects of a file when it was opened. A repair reports and clears them.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Found {
    pub(crate) superblock: bool,
    pub(crate) live: bool,
}

impl PublishedFile {
    /// Checks and maps the file. Overwrites unreadable blocks of the live area, so the caller must hold the locks of a
    /// recovery. Changes nothing else.
    pub(crate) fn open(files: Files, disk: Arc<dyn Disk>, file: File, verify: Verify) -> Result<Self> {
        let path = &files.data;
        let superblocks = read_superblocks(&file, path)?.check(path)?;
        let bits = superblocks.read_only_features;
        if bits != 0 {
            return Err(Error::Features { path: path.clone(), bits, access: "writing" });
        }
        let other_damaged = superblocks.other_damaged;
        let medium = Medium { file: &file, disk: &*disk, geometry: superblocks.newest.identity.geometry };
        let mended = medium.mend_live(first_epoch(random(path)?), &files)?;
        let published = Self::assemble(files, disk, file, superblocks.newest, superblocks.slot, verify)?;
        let live = mended || published.pages.map.is_idle() && published.live_differs();
        let found = Found { superblock: other_damaged, live };
        Ok(Self { other_damaged, found, ..published })
    }

    /// Maps a file whose superblocks were already read, or were just written.
    pub(super) fn assemble(
        files: Files,
        disk: Arc<dyn Disk>,
        file: File,
        checkpoint: Superblock,
        slot: usize,
        verify: Verify,
    ) -> Result<Self> {
        let geometry = checkpoint.identity.geometry;
        let map = Map::shared(&file, geometry).at(&files.data, "map")?;
        let live = Live::map(&file, &files.data, geometry)?;
        let pages = Pages::new(map, &checkpoint.identity, verify, files.data.as_path().into())?;
        Ok(Self {
            files,
            disk,
            file,
            pages,
            live,
            checkpoint,
            slot,
            other_damaged: false,
            presence: None,
            found: Found::default(),
        })
    }

    /// Whether the file must be recovered before it is used.
    pub(super) fn needs_recovery(&self) -> Result<bool> {
        let differs = self.pages.map.needs_recovery() || self.live_differs() || self.found.live;
        Ok(differs || super::journal::holds_anything(&self.files)?)
    }

    /// Whether the live area names another commit or epoch than the superblock. In a file that is not in use, this shows
    /// a lost write.
    fn live_differs(&self) -> bool {
        let Superblock { identity, counts, .. } = &self.checkpoint;
        if identity.forgetting.is_some() && self.pages.map.now() != Some(counts.epoch as u32) {
            return true;
        }
        self.pages.map.live_copy().is_none_or(|copy| copy.commit != self.checkpoint.commit)
    }

    /// Overwrites unreadable pages of a region. They then count as damaged, and the region can be written.
    pub(super) fn make_readable(&self, region: RegionId) -> Result<()> {
        let medium = self.medium();
        let sums = medium.region(region, &mut [0; BUCKETS_PER_REGION as usize]);
        for (number, _) in (0..).zip(sums).filter(|(_, sum)| sum.is_none()) {
            medium.mend_page(PageId::new(region, number), &self.files)?;
        }
        Ok(())
    }

    fn medium(&self) -> Medium<'_> {
        let geometry = self.checkpoint.identity.geometry;
        Medium { file: &self.file, disk: &*self.disk, geometry }
    }

    /// Reads a page by a system call. Returns whether it matches its checksum. Overwrites a page that cannot be read.
    pub(crate) fn read_or_mend(&self, id: PageId, page: &mut Page) -> Result<bool> {
        let medium = self.medium();
        let mut sum = medium.page(id, page);
        if sum.is_none() {
            medium.mend_page(id, &self.files)?;
            sum = medium.page(id, page);
        }
        let intact = sum.is_some_and(|sum| self.pages.sealer.crc(id, page) == sum);
        if !intact {
            self.pages.forget(id);
        }
        Ok(intact)
    }

    /// Compares all pages with their checksums. Reads them by system calls: a page that the medium cannot read counts as
    /// damaged, while a load from the map would kill the process.
    pub(super) fn verify_all(&self) -> Result<()> {
        let (medium, mut words) = (self.medium(), [0; BUCKETS_PER_REGION as usize]);
        for region in (0..self.checkpoint.identity.geometry.regions()).map(|region| RegionId(region as u32)) {
            let sums = medium.region(region, &mut words);
            let (pages, _) = words.as_chunks::<{ BUCKETS_PER_PAGE as usize }>();
            for ((number, page), sum) in (0..).zip(pages).zip(sums) {
                let id = PageId::new(region, number);
                if sum.is_none_or(|sum| self.pages.sealer.crc(id, page) != sum) {
                    return Err(self.pages.damaged(id));
                }
                self.pages.found_intact(id);
            }
        }
        Ok(())
    }

    /// Reads a region and includes the changes. Its pages are verified, unless that was done before.
    pub(crate) fn read_region(
        &self,
        region: RegionId,
        changes: Option<&RegionChange>,
        into: &mut Region,
    ) -> Result<()> {
        self.pages.read_ahead(region);
        let (pages, _) = into.as_chunks_mut();
        for (number, page) in (0..PAGES_PER_REGION).zip(pages) {
            self.pages.read_verified(PageId::new(region, number), page)?;
        }
        if let Some(changes) = changes {
            changes.apply_to(into);
        }
        Ok(())
    }

    /// Computes the checksum of every changed page, and passes each changed page to `each`, ascending.
    pub(crate) fn seal(
        &self,
        overlay: &mut Overlay,
        mut each: impl FnMut(PageId, &PageBits, u32, &Page) -> Result<()>,
    ) -> Result<()> {
        let mut words: Region = [0; _];
        for (region, change) in overlay.ascending_mut() {
            let bits = change.changed();
            let changed = changed_pages(region, &bits);
            for id in &changed {
                self.pages.prefetch_page(PageId(id.0 + 1));
                self.pages.read(*id, page_mut(&mut words, *id));
            }
            change.apply_to(&mut words);
            let (bits, _) = bits.as_chunks();
            for id in changed {
                let page = page_mut(&mut words, id);
                let sum = self.pages.sealer.crc(id, page);
                change.set_sum(id.in_region(), sum);
                each(id, &bits[id.in_region() as usize], sum, page)?;
            }
        }
        Ok(())
    }

    /// Fails with [`Error::Replaced`] if another filter was written over this one in place: any write by this process
    /// would damage the other filter.
    pub(crate) fn check_own(&self) -> Result<()> {
        if is_file_of(&self.file, &self.checkpoint.identity) {
            return Ok(());
        }
        Err(Error::Replaced { path: self.files.data.clone() })
    }

    /// Reserves the live-area space for applying an overlay; fails on a full disk.
    pub(crate) fn reserve(&self, overlay: &Overlay, copy: &LiveCopy) -> Result<()> {
        self.live.reserve(overlay.ascending().map(|(region, _)| region), copy)
    }

    /// Applies a sealed overlay whose journal is synced. Readers see all changes of a region in one step.
    pub(crate) fn apply(&self, overlay: &Overlay, copy: &LiveCopy) -> Result<()> {
        self.check_own()?;
        let regions = overlay.ascending().map(|(region, _)| region);
        let mut words = [0; _];
        self.live.apply(regions, copy, |region| match overlay.region(region) {
            Some(change) => self.write_region(region, change, &mut words),
            None => Ok(()),
        })
    }

    /// Writes the changed pages of a region and their checksums. `words` is scratch memory.
    pub(super) fn write_region(
        &self,
        region: RegionId,
        change: &RegionChange,
        words: &mut Region,
    ) -> Result<()> {
        let changed = changed_pages(region, &change.changed());
        let (Some(first), Some(last)) = (changed.first(), changed.last()) else { return Ok(()) };
        let mut sums = [0; PAGES_PER_REGION as usize];
        let mut read = |id: PageId| {
            self.pages.prefetch_page(PageId(id.0 + 1));
            sums[id.in_region() as usize] = self.pages.read_with_sum(id, page_mut(words, id));
        };
        // Many changed pages are written together with the unchanged pages between them.
        let together = changed.len() >= PAGES_WORTH_ONE_WRITE;
        if together {
            (first.0..=last.0).map(PageId).for_each(&mut read);
        } else {
            changed.iter().copied().for_each(&mut read);
        }
        change.apply_to(words);
        for number in changed.iter().map(|id| id.in_region()) {
            sums[number as usize] = change.sum(number);
        }
        let write = |first: PageId, last: PageId| self.write_pages(words, &sums, first, last);
        if together { write(*first, *last) } else { changed.iter().try_for_each(|id| write(*id, *id)) }
    }

    /// Writes the pages from `first` to `last`, all of one region, and their checksums.
    fn write_pages(&self, words: &Region, sums: &[u32], first: PageId, last: PageId) -> Result<()> {
        let path = &self.files.data;
        let range = first.in_region() as usize..last.in_region() as usize + 1;
        let (pages, _) = words.as_chunks::<{ BUCKETS_PER_PAGE as usize }>();
        let data = 8 * self.pages.addresses.word_of(first) as u64;
        self.disk.write_at(&self.file, pages[range.clone()].as_bytes(), data).at(path, "write")?;
        let sums_at = 4 * self.pages.addresses.sum_of(first) as u64;
        self.disk.write_at(&self.file, sums[range].as_bytes(), sums_at).at(path, "write")
    }

    /// Syncs all applied commits into the file itself, and empties the journal.
    pub(crate) fn checkpoint(
        &mut self,
        journal: &mut Journal,
        copy: &LiveCopy,
        superblock: Superblock,
    ) -> Result<()> {
        debug_assert_eq!(superblock.commit, copy.commit);
        self.check_own()?;
        let salt = random(&self.files.data)?;
        // Protects: the pages, before a superblock says that they do not need the journal.
        self.sync()?;
        let superblock = Superblock { salt, ..superblock };
        self.write_superblocks(superblock)?;
        journal.reset(&self.files, &*self.disk, self.journal_header())
    }

    /// Writes the newest slot again, byte for byte. The next sync makes it durable before the other slot is touched. A
    /// slot that can be read need not be durable: its writer may have died before the sync, or after a failed one.
    pub(super) fn rewrite_superblock(&self) -> Result<()> {
        let path = &self.files.data;
        let (mut bytes, offset) = (vec![0; SUPERBLOCK as usize], self.slot as u64 * SUPERBLOCK);
        self.file.read_exact_at(&mut bytes, offset).at(path, "read")?;
        self.disk.write_at(&self.file, &bytes, offset).at(path, "write again")
    }

    /// Writes both slots, the older or damaged one first: at any moment one slot is whole.
    fn write_superblocks(&mut self, superblock: Superblock) -> Result<()> {
        let path = self.files.data.clone();
        for _ in 0..2 {
            let slot = 1 - self.slot;
            let id = self.checkpoint.id + 1;
            let next = Superblock { id, ..superblock.clone() };
            self.disk
                .write_at(&self.file, &next.encode(&path)?, slot as u64 * SUPERBLOCK)
                .at(&path, "write")?;
            // Protects: the slot just written, before the other slot is written.
            self.sync()?;
            (self.checkpoint, self.slot) = (next, slot);
        }
        self.other_damaged = false;
        Ok(())
    }

    /// The header of a journal that continues this checkpoint.
    pub(crate) fn journal_header(&self) -> Header {
        let Superblock { identity, commit, salt, .. } = &self.checkpoint;
        Header { uuid: identity.uuid, generation: identity.geometry.generation, salt: *salt, base: *commit }
    }

    /// Writes and syncs the state: in use, or idle.
    pub(crate) fn set_in_use(&self, in_use: bool) -> Result<()> {
        self.check_own()?;
        let state = if in_use { STATE_IN_USE } else { STATE_IDLE };
        let written = self.disk.write_at(&self.file, &state, LIVE + LIVE_STATE);
        written.at(&self.files.data, "write")?;
        // In use: the state reaches the medium before anything else changes. Idle: it reaches the medium after everything
        // else, together with the live area that the next reader trusts.
        self.sync()
    }

    pub(super) fn sync(&self) -> Result<()> {
        self.disk.sync(&self.file).at(&self.files.data, "sync")
    }
}
