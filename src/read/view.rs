//! One opening of the file for reading.
//!
//! Invariants (`format-spec/README.md`, section 7):
//!
//! 1. What can be seen is durable: a writer applies only what its journal holds for certain, and a reader that
//!    finds no writer recovers first.
//! 2. While a file says that it is superseded, the name is looked at before every answer.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::cuckoo::{BUCKETS_PER_REGION, KeyHasher, OFFSET_T6, RegionId};
use crate::error::{Error, IoContext, Result};
use crate::file::{
    Decision, LiveHead, LiveRead, Opened, Published, Redo, Touched, journal, judge, open_reader,
};
use crate::format::{
    BUCKETS_PER_PAGE, Metadata, PAGE, PAGES_PER_REGION, Page, PageId, Sealer, Superblock, check_counts,
};
use crate::options::{Options, Verify};
use crate::system::{Files, Inode, Map, MapMut, Paging, REGIONS_AHEAD};

/// One opening of the file.
#[derive(Debug)]
pub(crate) struct View {
    pub(super) path: Arc<Path>,
    inode: Inode,
    /// The number of the reader it belongs to; 0 if none.
    pub(super) reader: u64,
    /// The newest superblock at the opening.
    pub(crate) superblock: Superblock,
    pub(super) map: Map,
    /// The first word of the regions.
    data: usize,
    /// What is read in place of the map where the journal had to be replayed privately.
    replayed: Option<Replayed>,
    pub(super) sealer: Sealer,
    pub(super) touched: Touched,
    pub(super) shortcut: Shortcut,
    pub(super) other_superblock_damaged: bool,
    /// Whether pages have to be waited for.
    pub(super) paging: Paging,
}

/// What a view knows of its lookups.
#[derive(Debug)]
pub(super) struct Shortcut {
    /// The number of the reader that the view belongs to, once its keys and its hashes may take the shortcut; 0
    /// before. One number, as every condition of its own costs registers.
    pub(super) of_keys: AtomicU64,
    pub(super) of_hashes: AtomicU64,
    /// The last epoch found calm.
    pub(super) calm: AtomicU64,
    /// A copy: the address of the original would take a register.
    pub(super) offsets: [u16; 64],
}

impl Shortcut {
    const fn closed() -> Self {
        Self {
            of_keys: AtomicU64::new(0),
            of_hashes: AtomicU64::new(0),
            calm: AtomicU64::new(u64::MAX),
            offsets: OFFSET_T6,
        }
    }
}

/// A copy-on-write mapping with the journal's transactions in it, as good as long as nobody touches the file.
#[derive(Debug)]
struct Replayed {
    memory: Map,
    epoch: u64,
    published: Published,
}

impl View {
    pub(super) fn open(files: &Files, options: &Options) -> Result<Self> {
        let Opened { file, map, superblocks, inode, unrecovered } = open_reader(files, &options.disk)?;
        let superblock = superblocks.newest;
        let geometry = superblock.identity.geometry;
        let paging = Paging::new(geometry.file_length());
        if paging.larger_than_memory {
            map.expect_random_reads();
        }
        let mut view = Self {
            path: files.data.as_path().into(),
            inode,
            reader: 0,
            map,
            data: (geometry.data() / 8) as usize,
            replayed: None,
            sealer: Sealer::new(&superblock.identity),
            touched: match options.verify {
                Verify::Never => Touched::all(),
                Verify::FirstTouch | Verify::Eager => Touched::none(geometry.pages()),
            },
            shortcut: Shortcut::closed(),
            other_superblock_damaged: superblocks.other_damaged,
            superblock,
            paging,
        };
        if let Some(locks) = unrecovered {
            view.replayed = Some(view.replay(files, options, &file)?);
            drop(locks);
        }
        if options.verify == Verify::Eager {
            view.verify_all()?;
        }
        Ok(view)
    }

    /// The same in memory that nobody else can change, its pages verified.
    pub(super) fn moved_to(self, memory: Map, superblock: Superblock) -> Self {
        let (touched, paging) = (Touched::all(), Paging::none());
        Self { superblock, map: memory, replayed: None, touched, paging, ..self }
    }

    pub(super) fn of_reader(self, number: u64) -> Self {
        Self { reader: number, ..self }
    }

    #[inline]
    pub(super) const fn hasher(&self) -> KeyHasher {
        self.superblock.identity.hasher
    }

    /// Replays the journal into private memory, for a process that may not write.
    fn replay(&self, files: &Files, options: &Options, file: &File) -> Result<Replayed> {
        if self.map.poisoned() {
            return Err(Error::Unrecovered { path: files.data.clone() });
        }
        let epoch = self.map.epoch();
        let mut redo = Redo::nothing(&self.superblock);
        if let Some(journal) = journal::open(files, false)? {
            // Protects: what is about to be shown. Allowed on what was opened for reading only.
            options.disk.sync(&journal).at(&files.journal, "sync")?;
            let Superblock { salt, commit, .. } = self.superblock;
            let scan = journal::scan(&journal, &files.journal, salt, commit)?;
            if judge(&scan, &self.superblock, &files.journal)? == Decision::Replay {
                redo = Redo::read(&self.superblock, &journal, &files.journal, &scan, |_, _| Ok(()))?;
            }
        }
        let geometry = self.superblock.identity.geometry;
        let memory = MapMut::private(file, geometry.file_length()).at(&files.data, "map")?;
        let mut page = [0; BUCKETS_PER_PAGE as usize];
        for (id, change) in redo.overlay.pages() {
            memory.copy(self.word_of(id), &mut page);
            change.apply_to(&mut page);
            for (index, word) in (self.word_of(id)..).zip(page) {
                memory.set_word(index, word);
            }
            memory.set_half(self.sum_of(id), change.crc);
        }
        let memory = Map::of_memory(memory, geometry).at(&files.data, "map")?;
        Ok(Replayed { memory, epoch, published: redo.published(&files.data)? })
    }

    /// Whether the view still shows what it should; if not, the file is to be opened anew.
    #[inline]
    pub(super) fn is_current(&self, files: &Files) -> Result<bool> {
        if let Some(replayed) = &self.replayed
            && (self.map.epoch() != replayed.epoch || self.map.is_idle())
        {
            return Ok(false);
        }
        if !self.map.flagged() {
            return Ok(true);
        }
        Ok(!self.map.poisoned() && (!self.map.superseded() || files.inode()? == Some(self.inode)))
    }

    /// Whether what was read since `epoch` was holds for all of one commit.
    ///
    /// Of a private replay, this is the last moment to ask: what it has not replayed is read from the file as
    /// it is now, so that a lookup that began before a recovery would mix two commits.
    #[inline]
    pub(super) fn was_settled(&self, epoch: u64) -> bool {
        match &self.replayed {
            None => self.map.was_settled(epoch),
            Some(replayed) => self.map.is_still(replayed.epoch),
        }
    }

    /// Whether it is read from memory of this process.
    #[inline]
    pub(super) const fn is_replayed(&self) -> bool {
        self.replayed.is_some()
    }

    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        self.inode == other.inode && self.replayed.is_some() == other.replayed.is_some()
    }

    pub(super) fn busy(&self, op: &'static str) -> Error {
        Error::Busy { path: self.path.to_path_buf(), op }
    }

    #[inline]
    pub(super) fn word_of(&self, id: PageId) -> usize {
        self.data + (id.0 * PAGE / 8) as usize
    }

    pub(super) fn sum_of(&self, id: PageId) -> usize {
        (self.superblock.identity.geometry.sums() / 4 + id.0) as usize
    }

    /// Where pages and their checksums are read.
    #[inline]
    pub(super) fn contents(&self) -> &Map {
        self.replayed.as_ref().map_or(&self.map, |replayed| &replayed.memory)
    }

    /// To be told of each region where they are read in order: of a file larger than memory, the system reads
    /// nothing ahead by itself.
    pub(super) fn comes_to(&self, region: RegionId) {
        if self.paging.larger_than_memory {
            let ahead = RegionId(region.0.saturating_add(REGIONS_AHEAD));
            self.map.read_ahead(self.word_of(PageId::new(ahead, 0)), BUCKETS_PER_REGION as usize);
        }
    }

    /// A page and its checksum as they are, unverified.
    pub(super) fn read(&self, id: PageId, into: &mut Page) -> u32 {
        self.contents().copy(self.word_of(id), into);
        self.sum(id)
    }

    pub(super) fn sum(&self, id: PageId) -> u32 {
        self.contents().half(self.sum_of(id))
    }

    /// Counters and metadata as of the last commit; `None` while one is being applied.
    pub(crate) fn published(&self) -> Option<Result<(Published, Metadata)>> {
        let published = match &self.replayed {
            Some(replayed) => replayed.published.clone(),
            None => self.map.published()?,
        };
        let Superblock { commit, counts, metadata, .. } = &self.superblock;
        if published.commit == *commit {
            // The superblock has a checksum; the live area has none.
            return Some(Ok((Published { counts: *counts, ..published }, metadata.clone())));
        }
        let geometry = self.superblock.identity.geometry;
        let sound = check_counts(&self.path, &published.counts, geometry);
        let metadata = sound.and_then(|()| Metadata::decode(&self.path, &published.metadata));
        Some(metadata.map(|metadata| (published, metadata)))
    }
}

/// Hands over all regions, in order and verified.
pub(crate) fn copy_regions(
    view: &View,
    write: &mut dyn FnMut(RegionId, &[u64; BUCKETS_PER_REGION as usize]) -> Result<()>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    let regions = view.superblock.identity.geometry.regions();
    let mut words = [0; BUCKETS_PER_REGION as usize];
    for number in 0..regions {
        let region = RegionId(number as u32);
        view.comes_to(region);
        let (pages, _) = words.as_chunks_mut::<{ BUCKETS_PER_PAGE as usize }>();
        for (page, into) in (0..PAGES_PER_REGION).zip(pages) {
            match view.settled_page(PageId::new(region, page), into) {
                Some(outcome) => outcome?,
                None => return Err(view.busy("copied")),
            }
        }
        write(region, &words)?;
        progress(number + 1, regions);
    }
    Ok(())
}
