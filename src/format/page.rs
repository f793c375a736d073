//! Pages: what their checksums are computed over, and which bits a well-formed page holds.

use crc32fast::Hasher;
use zerocopy::IntoBytes;

use super::layout::{BUCKETS_PER_PAGE, PageId};
use super::superblock::Identity;
use crate::cuckoo::{Bucket, Counts, Kind, Width};

#[cfg(not(target_endian = "little"))]
compile_error!("gowk keeps pages in memory as they are on the disk, and the format is little-endian");

/// The buckets of one page.
pub(crate) type Page = [u64; BUCKETS_PER_PAGE as usize];

/// Computes page checksums for one file in one generation.
///
/// The checksum covers the uuid, the generation and the page's number before the page's bytes. So a page does not pass in
/// another file, after a doubling, or in another place.
#[derive(Clone, Debug)]
pub(crate) struct Sealer(Hasher);

impl Sealer {
    pub(crate) fn new(identity: &Identity) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(&identity.uuid);
        hasher.update(&identity.geometry.generation.to_le_bytes());
        Self(hasher)
    }

    pub(crate) fn crc(&self, id: PageId, page: &Page) -> u32 {
        let mut hasher = self.0.clone();
        hasher.update(&id.0.to_le_bytes());
        hasher.update(page.as_bytes());
        hasher.finalize()
    }
}

/// A page of the data section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DamagedPage {
    /// The page's number, counted from the first region in pages of 4096 bytes.
    pub page: u64,
    /// The region of the page.
    pub region: u64,
}

/// Counts the slots of a page of a filter of this kind in `counts`. False if the page holds a slot or a bucket that no
/// writer stores there.
pub(crate) fn tally<W: Width>(page: &Page, kind: Kind, counts: &mut Counts) -> bool {
    let (mut sound, mut found) = (true, Counts::default());
    for word in page {
        sound &= found.tally(Bucket::<W>::new(*word));
    }
    let in_place = found.in_a(kind);
    sound &= in_place == found;
    counts.add_found(&in_place);
    sound
}
