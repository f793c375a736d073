//! One opening of the file for reading.
//!
//! Invariants (`format-spec/README.md`, section 7):
//!
//! 1. Readers see only durable commits: a writer applies a commit only after its journal is synced, and a reader that
//!    finds no writer recovers first.
//! 2. While a file says that it is superseded, the reader looks at the name before every answer.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::patience::Patience;
use crate::cuckoo::{KeyHasher, OFFSET_T6, RegionId, Width};
use crate::error::{Error, Expected, IoContext, Result};
use crate::file::{
    Decision, LiveCopy, LiveHead, LiveRead, Medium, OpenedToRead, Pages, Redo, changed_pages, is_file_of,
    journal, judge, live, needs_no_sync, open_reader,
};
use crate::format::{
    BUCKETS_PER_PAGE, LIVE, LIVE_EPOCH, LIVE_NOW, Metadata, PageId, Superblock, Superblocks, check_counts,
};
use crate::options::{Options, Verify};
use crate::system::{Disk, Files, Inode, Map, MapMut, REGIONS_AHEAD, is_layered};

/// One opening of the file.
#[derive(Debug)]
pub(crate) struct View {
    pub(super) inode: Inode,
    /// The newest superblock at the opening.
    pub(crate) superblock: Superblock,
    /// The file's pages and, through the same map, its live area.
    pub(super) pages: Pages,
    /// Where pages are read by system calls; `None` for a copy in memory.
    source: Option<Source>,
    /// Set if the file is idle and its live area names another commit than its superblock. As long as the epoch equals
    /// this value, readers use the superblock.
    outdated_at: Option<u64>,
    /// Pages and live copy to read instead of the file's, if the journal had to be replayed privately.
    replayed: Option<Replayed>,
    pub(super) shortcut: Shortcut,
    /// The last epoch at which the file was still the one that was opened; [`CLOSED`] before the first check.
    own_at: AtomicU64,
    /// Whether the name was found to lead to another file, or the file was opened anew.
    left: AtomicBool,
    pub(super) other_superblock_damaged: bool,
    /// The file, if it is on an overlay file system, where the map may show an older file.
    layered: Option<File>,
}

/// What slow lookups found out about a view, for the fast ones.
#[derive(Debug)]
pub(super) struct Shortcut {
    /// The last even epoch at which a lookup of a key found no flag set; [`CLOSED`] if lookups of keys must not take the
    /// shortcut.
    pub(super) of_keys: AtomicU64,
    /// Like `of_keys`, for lookups of hashes.
    pub(super) of_hashes: AtomicU64,
    /// Whether the filter is marked.
    pub(super) is_marked: bool,
    /// A copy of the OFFSET table: the address of the original would occupy a register.
    pub(super) offsets: [u16; 64],
}

/// A value that no noted epoch has, as it is odd.
pub(super) const CLOSED: u64 = u64::MAX;

impl Shortcut {
    const fn closed(superblock: &Superblock) -> Self {
        Self {
            of_keys: AtomicU64::new(CLOSED),
            of_hashes: AtomicU64::new(CLOSED),
            is_marked: superblock.identity.geometry.width.is_marked,
            offsets: OFFSET_T6,
        }
    }
}

/// An open file, and the disk that reads it.
#[derive(Debug)]
pub(super) struct Source {
    pub(crate) file: File,
    pub(crate) disk: Arc<dyn Disk>,
}

/// A copy-on-write mapping with the journal's transactions applied. It is valid while no process changes the file.
#[derive(Debug)]
struct Replayed {
    pages: Pages,
    /// The pages that differ from the file, ascending.
    changed: Vec<PageId>,
    epoch: u64,
    copy: LiveCopy,
}

impl View {
    pub(crate) fn open(files: &Files, options: &Options) -> Result<Self> {
        let OpenedToRead { file, map, superblocks, inode, unrecovered } =
            open_reader(files, &options.disk, options.wait, options.sealed)?;
        let superblock = superblocks.newest;
        let mut view = Self {
            inode,
            pages: Pages::new(map, &superblock.identity, options.verify, files.data.as_path().into())?,
            source: None,
            outdated_at: None,
            replayed: None,
            shortcut: Shortcut::closed(&superblock),
            own_at: AtomicU64::new(CLOSED),
            left: AtomicBool::new(false),
            other_superblock_damaged: superblocks.other_damaged,
            superblock,
            layered: (!options.sealed && is_layered(&file))
                .then(|| file.try_clone())
                .transpose()
                .at(&files.data, "open")?,
        };
        if let Some(locks) = unrecovered {
            view.replayed = Some(view.replay(files, options, &file)?);
            drop(locks);
        }
        view.source = Some(Source { file, disk: options.disk.clone() });
        if view.differs_from(&view.superblock)
            && let Some((epoch, newest)) = view.outdated()
            && newest.commit == view.superblock.commit
        {
            view.outdated_at = Some(epoch);
        }
        if options.verify == Verify::Eager {
            view.verify_all()?;
        }
        Ok(view)
    }

    /// The view of a filter that lies only in memory and never changes.
    pub(super) fn of_bytes(
        memory: Map,
        superblocks: Superblocks,
        options: &Options,
        files: &Files,
    ) -> Result<Self> {
        let Superblocks { newest: superblock, other_damaged, .. } = superblocks;
        let view = Self {
            inode: Inode::OF_NO_FILE,
            pages: Pages::in_memory(
                memory,
                &superblock.identity,
                options.verify,
                files.data.as_path().into(),
            )?,
            shortcut: Shortcut::closed(&superblock),
            superblock,
            source: None,
            outdated_at: None,
            replayed: None,
            own_at: AtomicU64::new(CLOSED),
            left: AtomicBool::new(false),
            other_superblock_damaged: other_damaged,
            layered: None,
        };
        if options.verify == Verify::Eager {
            view.verify_all()?;
        }
        Ok(view)
    }

    /// The view of a verified copy in memory, which never changes.
    pub(super) fn moved_to(&self, memory: Map, superblock: Superblock) -> Result<Self> {
        Ok(Self {
            inode: self.inode,
            shortcut: Shortcut::closed(&superblock),
            superblock,
            pages: self.pages.moved_to(memory, Verify::Never)?,
            source: None,
            outdated_at: None,
            replayed: None,
            own_at: AtomicU64::new(CLOSED),
            left: AtomicBool::new(false),
            other_superblock_damaged: self.other_superblock_damaged,
            layered: None,
        })
    }

    #[inline]
    pub(super) const fn hasher(&self) -> KeyHasher {
        self.superblock.identity.hasher
    }

    /// Replays the journal into private memory, for a process without permission to write.
    fn replay(&self, files: &Files, options: &Options, file: &File) -> Result<Replayed> {
        let epoch = self.pages.map.epoch();
        let mut redo = Redo::nothing(&self.superblock);
        if let Some(journal) = journal::open(files, false)? {
            // Protects: the answers of lookups, which a power cut must not undo. A file opened only for reading may be
            // synced, too.
            match options.disk.sync(&journal) {
                Err(error) if needs_no_sync(&error) => {}
                outcome => outcome.at(&files.journal, "sync")?,
            }
            let Superblock { salt, commit, .. } = self.superblock;
            let scan = journal::scan(&journal, &files.journal, salt, commit)?;
            if judge(&scan, &self.superblock, &files.journal)? == Decision::Replay {
                redo = Redo::read(&self.superblock, &journal, &files.journal, &scan, |_, _| Ok(()))?;
            }
        }
        let geometry = self.superblock.identity.geometry;
        let memory = MapMut::private(file, geometry.file_length()).at(&files.data, "map")?;
        let (mut page, addresses) = ([0; BUCKETS_PER_PAGE as usize], self.pages.addresses);
        let medium = Medium { file, disk: &*options.disk, geometry };
        let mut changed = Vec::new();
        for (region, change) in redo.overlay.ascending() {
            for id in changed_pages(region, &change.changed()) {
                changed.push(id);
                if medium.page(id, &mut page).is_none() {
                    return Err(self.pages.damaged(id));
                }
                memory.set_half(addresses.sum_of(id), change.sum(id.in_region()));
            }
            for (bucket, word) in change.words() {
                memory.set_word(addresses.bucket(region, bucket.0), word);
            }
        }
        live::set_now(&memory, redo.live_copy(&files.data)?.counts.epoch);
        let memory = Map::of_memory(memory, geometry).at(&files.data, "map")?;
        let pages = self.pages.moved_to(memory, options.verify)?;
        Ok(Replayed { pages, changed, epoch, copy: redo.live_copy(&files.data)? })
    }

    /// Where pages are read by system calls; `None` for a copy in memory.
    pub(super) const fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// Makes every later lookup open whichever file the name then leads to.
    pub(super) fn leave(&self) {
        self.left.store(true, Ordering::SeqCst);
        self.shortcut.of_keys.store(CLOSED, Ordering::SeqCst);
        self.shortcut.of_hashes.store(CLOSED, Ordering::SeqCst);
    }

    #[inline]
    pub(super) fn is_left(&self) -> bool {
        self.left.load(Ordering::SeqCst)
    }

    /// Whether the view is of a copy in memory.
    pub(super) fn is_in_memory(&self) -> bool {
        self.source().is_none()
    }

    /// Whether the name leads to another file than this one. False if it leads to no file, and for a copy in memory,
    /// which has no name.
    pub(super) fn is_elsewhere(&self, files: &Files) -> Result<bool> {
        Ok(self.source().is_some() && files.inode()?.is_some_and(|found| found != self.inode))
    }

    /// Whether the file is still the one that was opened. False if another filter was written over it in place, as by `cp
    /// other live`.
    #[cold]
    pub(super) fn shows_own(&self) -> bool {
        self.source().is_none_or(|source| is_file_of(&source.file, &self.superblock.identity))
    }

    /// Like `shows_own`, but reads nothing if the answer was true before at the current epoch: another filter has another
    /// epoch.
    #[inline]
    pub(super) fn is_own(&self) -> bool {
        let epoch = self.pages.map.epoch();
        if self.own_at.load(Ordering::Acquire) == epoch {
            return true;
        }
        let is_own = self.shows_own();
        if is_own {
            self.own_at.store(epoch, Ordering::Release);
        }
        is_own
    }

    /// Whether the view is current; if not, the file must be opened anew.
    #[inline]
    pub(super) fn is_current(&self, files: &Files) -> Result<bool> {
        if self.is_left() {
            return Ok(false);
        }
        if let Some(replayed) = &self.replayed {
            // The poisoned flag need not be looked at: setting or clearing it steps the epoch.
            let is_left =
                self.pages.map.epoch() != replayed.epoch || self.pages.map.is_idle() || self.is_left_behind();
            return Ok(!is_left && (!self.pages.map.superseded() || files.inode()? == Some(self.inode)));
        }
        if self.is_left_behind() {
            return Ok(false);
        }
        if !self.is_own() {
            return Ok(false);
        }
        if !self.pages.map.flagged() {
            return Ok(true);
        }
        Ok(!self.pages.map.poisoned() && (!self.pages.map.superseded() || files.inode()? == Some(self.inode)))
    }

    /// Whether the map shows an older file than the descriptor.
    ///
    /// On an overlay file system, a file of a lower layer is copied when it is first opened for writing. Reads from a
    /// descriptor then return the copy, and a map made before still shows the original. No epoch ever goes back, so a
    /// higher epoch in the copy shows that a writer has changed it.
    #[inline]
    fn is_left_behind(&self) -> bool {
        let Some(file) = &self.layered else { return false };
        let mut epoch = [0; 8];
        let read = file.read_exact_at(&mut epoch, LIVE + LIVE_EPOCH);
        read.is_ok() && u64::from_le_bytes(epoch) > self.pages.map.epoch()
    }

    /// Whether all reads since `epoch` was loaded belong to one commit.
    ///
    /// For a private replay, `epoch` must be the replay's. Pages that the replay did not change are read from the file,
    /// so a lookup that began before a recovery might mix two commits.
    #[inline]
    pub(super) fn is_consistent(&self, epoch: u64) -> bool {
        match &self.replayed {
            None => self.pages.map.is_consistent(epoch),
            Some(replayed) => self.pages.map.is_still(replayed.epoch),
        }
    }

    /// Whether the journal was replayed privately.
    #[inline]
    pub(super) const fn is_replayed(&self) -> bool {
        self.replayed.is_some()
    }

    /// Whether `is_current` needs only the flags in the map.
    pub(super) const fn is_plain(&self) -> bool {
        self.replayed.is_none() && self.layered.is_none()
    }

    /// Whether a private replay changed the page.
    pub(super) fn is_replaced(&self, id: PageId) -> bool {
        self.replayed.as_ref().is_some_and(|replayed| replayed.changed.binary_search(&id).is_ok())
    }

    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        let uuid = |view: &Self| view.superblock.identity.uuid;
        self.inode == other.inode
            && uuid(self) == uuid(other)
            && self.replayed.is_some() == other.replayed.is_some()
    }

    pub(super) fn busy(&self, op: &'static str) -> Error {
        Error::Busy { path: self.pages.path().to_path_buf(), op }
    }

    /// The map from which pages and their checksums are read.
    #[inline]
    pub(super) fn contents(&self) -> &Pages {
        self.replayed.as_ref().map_or(&self.pages, |replayed| &replayed.pages)
    }

    /// The epoch that lookups use to judge expiry, 0 if the filter does not forget; `None` if the live area is damaged
    /// there. Must be loaded with the buckets: after the apply epoch, or the region's sequence, was found even.
    #[inline]
    pub(super) fn now<W: Width>(&self) -> Option<u32> {
        if W::EXPIRY_BITS == 0 { Some(0) } else { self.now_of_forgetting() }
    }

    fn now_of_forgetting(&self) -> Option<u32> {
        if self.outdated_at.is_some_and(|epoch| self.pages.map.is_still(epoch)) {
            return Some(self.superblock.counts.epoch as u32);
        }
        self.contents().map.now()
    }

    #[cold]
    pub(super) fn no_epoch(&self) -> Error {
        let expected =
            Expected::Words("a number and its complement; open the filter for writing to recover it");
        let path = self.pages.path().to_path_buf();
        Error::Field { path, field: "live epoch", found: self.contents().map.live_word(LIVE_NOW), expected }
    }

    /// Prefetches the coming pages, when all regions are read in order and `region` is next.
    pub(super) fn comes_to(&self, region: RegionId) {
        self.pages.read_ahead(RegionId(region.0.saturating_add(REGIONS_AHEAD)));
    }

    /// Counters and metadata as of the last commit; `None` while a commit is being applied.
    pub(super) fn live_copy(&self) -> Option<Result<(LiveCopy, Metadata)>> {
        let copy = match &self.replayed {
            Some(replayed) => replayed.copy.clone(),
            None => self.pages.map.live_copy()?,
        };
        Some(self.checked(copy))
    }

    /// Like [`live_copy`](Self::live_copy), but also works while the next commit is being applied. `None` if the writer
    /// takes so long to store the copy that it may have died.
    pub(super) fn last_live_copy(&self) -> Option<Result<(LiveCopy, Metadata)>> {
        let mut patience = Patience::default();
        loop {
            let copy = match &self.replayed {
                Some(replayed) => Some(replayed.copy.clone()),
                None => self.pages.map.last_live_copy(),
            };
            match copy {
                Some(copy) => return Some(self.checked(copy)),
                None if patience.wait() => {}
                None => return None,
            }
        }
    }

    fn checked(&self, copy: LiveCopy) -> Result<(LiveCopy, Metadata)> {
        let Superblock { commit, counts, metadata, .. } = &self.superblock;
        if copy.commit == *commit || self.outdated_at.is_some_and(|epoch| self.pages.map.is_still(epoch)) {
            // The superblock has a checksum; the live area has none.
            return Ok((LiveCopy { commit: *commit, counts: *counts, ..copy }, metadata.clone()));
        }
        let sound = check_counts(self.pages.path(), &copy.counts, &self.superblock.identity);
        let metadata = sound.and_then(|()| Metadata::decode(self.pages.path(), &copy.metadata));
        metadata.map(|metadata| (copy, metadata))
    }
}
