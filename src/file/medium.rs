//! Pages and checksums read by system calls. If the medium cannot read a block, a load through a map kills the process by
//! SIGBUS. A system call fails instead, so that the damage can be reported and mended.

use std::fs::File;

use zerocopy::IntoBytes;

use super::pages::Region;
use crate::cuckoo::RegionId;
use crate::error::{IoContext, Result};
use crate::format::{BUCKETS_PER_PAGE, Geometry, LIVE, LIVE_EPOCH, PAGE, PAGES_PER_REGION, Page, PageId};
use crate::system::{Disk, Files};

/// The checksums of a region's pages.
pub(crate) type Sums = [u32; PAGES_PER_REGION as usize];
/// One `T` for each page of a region.
pub(crate) type OfPages<T> = [T; PAGES_PER_REGION as usize];

/// How many bytes are overwritten together. A medium that cannot read a block can still overwrite all of it.
const BLOCK: usize = PAGE as usize;
/// How many bytes of the live area are read at a time.
const MANY: usize = 16 * BLOCK;

/// A filter's file, read from the medium.
#[derive(Clone, Copy)]
pub(crate) struct Medium<'a> {
    pub(crate) file: &'a File,
    pub(crate) disk: &'a dyn Disk,
    pub(crate) geometry: Geometry,
}

impl Medium<'_> {
    const fn page_at(self, id: PageId) -> u64 {
        self.geometry.data() + id.0 * PAGE
    }

    const fn sum_at(self, id: PageId) -> u64 {
        self.geometry.sums() + 4 * id.0
    }

    fn reads(self, into: &mut [u8], offset: u64) -> bool {
        self.disk.read_at(self.file, into, offset).is_ok()
    }

    /// A page, and its checksum; `None` if either cannot be read.
    pub(crate) fn page(self, id: PageId, into: &mut Page) -> Option<u32> {
        let mut sum = 0_u32;
        let reads = self.reads(sum.as_mut_bytes(), self.sum_at(id))
            && self.reads(into.as_mut_bytes(), self.page_at(id));
        reads.then_some(sum)
    }

    /// A region's pages, and the checksum of each that can be read.
    pub(crate) fn region(self, region: RegionId, into: &mut Region) -> OfPages<Option<u32>> {
        let (first, mut sums) = (PageId::new(region, 0), Sums::default());
        if self.reads(sums.as_mut_bytes(), self.sum_at(first))
            && self.reads(into.as_mut_bytes(), self.page_at(first))
        {
            return sums.map(Some);
        }
        let mut found = [None; PAGES_PER_REGION as usize];
        let (pages, _) = into.as_chunks_mut::<{ BUCKETS_PER_PAGE as usize }>();
        for ((number, page), sum) in (0..).zip(pages).zip(&mut found) {
            *sum = self.page(PageId::new(region, number), page);
        }
        found
    }

    /// Overwrites unreadable blocks of a page and of its checksum with zeros. The page becomes readable but damaged:
    /// zeros match neither a checksum of 0 nor the checksum of other contents.
    pub(super) fn mend_page(self, id: PageId, files: &Files) -> Result<()> {
        let sums = self.sum_at(id) / PAGE * PAGE;
        for offset in [sums, self.page_at(id)] {
            self.mend_block(offset, &[0; BLOCK], files)?;
        }
        Ok(())
    }

    /// Likewise overwrites unreadable blocks of the live area; recovery then writes it anew. Returns whether it overwrote
    /// any.
    ///
    /// The caller must hold the locks of a recovery. `epoch` must be even, and no reader may have seen it.
    pub(super) fn mend_live(self, epoch: u64, files: &Files) -> Result<bool> {
        let (mut mended, end) = (false, self.geometry.sums());
        let mut many = vec![0; MANY.min((end - LIVE) as usize)];
        for offset in (LIVE..end).step_by(MANY) {
            let many = many.get_mut(..MANY.min((end - offset) as usize)).unwrap_or_default();
            if self.reads(many, offset) {
                continue;
            }
            for offset in (offset..offset + many.len() as u64).step_by(BLOCK) {
                let mut block = [0; BLOCK];
                if offset == LIVE
                    && let Some(place) = block.get_mut(LIVE_EPOCH as usize..LIVE_EPOCH as usize + 8)
                {
                    place.copy_from_slice(&epoch.to_le_bytes());
                }
                mended |= self.mend_block(offset, &block, files)?;
            }
        }
        Ok(mended)
    }

    /// Whether the whole live area can be read.
    pub(crate) fn reads_live(self) -> bool {
        let end = self.geometry.sums();
        (LIVE..end)
            .step_by(MANY)
            .all(|offset| self.reads(&mut vec![0; MANY.min((end - offset) as usize)], offset))
    }

    /// Writes `block` over the block at `offset` if the latter cannot be read. Returns whether it wrote.
    fn mend_block(self, offset: u64, block: &[u8; BLOCK], files: &Files) -> Result<bool> {
        // Reads twice: a passing failure is no reason to overwrite the block.
        if (0..2).any(|_| self.reads(&mut [0; BLOCK], offset)) {
            return Ok(false);
        }
        self.disk.write_at(self.file, block, offset).at(&files.data, "write over an unreadable block of")?;
        Ok(true)
    }
}

/// Fails if the head of the live area cannot be read. Every opening reads the head.
pub(super) fn check_live(file: &File, disk: &dyn Disk, path: &std::path::Path) -> Result<()> {
    disk.read_at(file, &mut [0; BLOCK], LIVE).at(path, "read")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io;
    use std::sync::Mutex;

    use super::*;
    use crate::cuckoo::{Shard, SlotsPerBucket};
    use crate::system::SystemDisk;

    /// The numbers of blocks that cannot be read until they are overwritten.
    #[derive(Debug)]
    struct Unreadable(Mutex<BTreeSet<u64>>);

    impl Disk for Unreadable {
        fn read_at(&self, file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
            let blocks = offset / PAGE..=(offset + bytes.len() as u64 - 1) / PAGE;
            if self.0.lock().unwrap().range(blocks).next().is_some() {
                return Err(io::Error::other("unreadable"));
            }
            SystemDisk.read_at(file, bytes, offset)
        }

        fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
            let whole = offset.div_ceil(PAGE)..(offset + bytes.len() as u64) / PAGE;
            self.0.lock().unwrap().retain(|block| !whole.contains(block));
            SystemDisk.write_at(file, bytes, offset)
        }
    }

    #[test]
    fn exactly_the_unreadable_blocks_of_the_live_area_are_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let files = Files::new(&path).unwrap();
        // The live area takes two reads and a part of a third.
        let geometry = Geometry::new(SlotsPerBucket::Four, 21_000, 0, Shard::WHOLE).unwrap();
        let (first, end) = (LIVE / PAGE, geometry.sums() / PAGE);
        assert!(
            end - first > 2 * (MANY / BLOCK) as u64 && !(end - first).is_multiple_of((MANY / BLOCK) as u64)
        );
        let each = (first..end).map(|block| vec![block]);
        let some = [vec![], vec![first, first + 1, first + 17, end - 1], (first..end).collect()];
        for blocks in each.chain(some) {
            // One more block, which is not part of the live area.
            let before = vec![7; ((end + 1) * PAGE) as usize];
            std::fs::write(&path, &before).unwrap();
            let mut expected = before;
            for block in &blocks {
                expected[(block * PAGE) as usize..][..BLOCK].fill(0);
            }
            if blocks.contains(&first) {
                expected[(LIVE + LIVE_EPOCH) as usize..][..8].copy_from_slice(&0x1234_5678_u64.to_le_bytes());
            }
            let file = File::options().read(true).write(true).open(&path).unwrap();
            let disk = Unreadable(Mutex::new(blocks.iter().copied().collect()));
            let medium = Medium { file: &file, disk: &disk, geometry };
            assert_eq!(medium.reads_live(), blocks.is_empty());
            assert_eq!(medium.mend_live(0x1234_5678, &files).unwrap(), !blocks.is_empty());
            assert!(medium.reads_live());
            assert!(std::fs::read(&path).unwrap() == expected, "{blocks:?}");
        }
    }
}
