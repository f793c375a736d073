//! An image: one folder as a power cut leaves it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use super::history::{Change, FILTER, FileId, LIVE, Piece, SECTOR, live_area};
use super::random::Random;

/// Length of the state, the first field of the live area. It is written and synced like the rest of the file.
const STATE: usize = 8;
const IDLE: &[u8] = b"gowkidle";

/// The fate of an operation that no sync has settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Lost,
    Kept,
    Torn(Tear),
}

/// Which part of a write reached the medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tear {
    /// Its first sectors. The missing rest does not lengthen the file.
    First(usize),
    /// All but its first sectors.
    Last(usize),
    /// Scattered sectors.
    Sectors(u64),
    /// Scattered bytes: no write of any size is assumed to be atomic.
    Bytes(u64),
}

/// The contents of the live area where they are unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fill {
    /// As last synced.
    Old,
    /// As in memory.
    New,
    Zeros,
    Ones,
    Noise(u64),
    /// Each sector that was stored to is old, new, or noise.
    Mixed(u64),
}

/// Files by name.
#[derive(Clone)]
pub(crate) struct Image(pub(crate) BTreeMap<String, (FileId, Arc<Vec<u8>>)>);

impl Image {
    /// Reads a real folder.
    pub(crate) fn read(dir: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        for entry in dir.read_dir()? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            files.insert(name, (files.len(), Arc::new(fs::read(entry.path())?)));
        }
        Ok(Self(files))
    }

    /// Writes the image into a real folder, as new files. Removes another image there.
    pub(crate) fn write(&self, dir: &Path) -> io::Result<()> {
        for entry in dir.read_dir()? {
            fs::remove_file(entry?.path())?;
        }
        self.0.iter().try_for_each(|(name, (_, content))| fs::write(dir.join(name), content.as_slice()))
    }

    /// Whether the filter says that no writer has it open; `None` without a filter.
    pub(crate) fn is_idle(&self) -> Option<bool> {
        let (_, content) = self.0.get(FILTER)?;
        Some(content.get(LIVE..)?.starts_with(IDLE))
    }

    /// A digest, equal for equal names and bytes.
    pub(crate) fn full_digest(&self) -> u128 {
        let mut hasher = Xxh3::new();
        for (name, (_, content)) in &self.0 {
            hasher.update(name.as_bytes());
            hasher.update(&content.len().to_le_bytes());
            hasher.update(content);
        }
        hasher.digest128()
    }

    /// A digest, equal for equal names and bytes. It excludes the live area after the state.
    pub(crate) fn digest(&self) -> u128 {
        let mut hasher = Xxh3::new();
        for (name, (_, content)) in &self.0 {
            hasher.update(name.as_bytes());
            hasher.update(&content.len().to_le_bytes());
            match live_area(content.len()).filter(|_| name == FILTER) {
                Some(live) => {
                    hasher.update(&content[..live.start + STATE]);
                    hasher.update(&content[live.end..]);
                }
                None => hasher.update(content),
            }
        }
        hasher.digest128()
    }
}

/// Applies as much of a change to a file as its fate says.
pub(crate) fn apply(change: &Change, content: &mut Vec<u8>, fate: Fate) {
    let before = content.len();
    match change {
        Change::Write((at, bytes)) => write(content, *at, bytes, fate),
        Change::Length(length) => content.resize(*length, 0),
        Change::Allocate(length) => content.resize((*length).max(content.len()), 0),
        Change::Stored(pieces) | Change::StoredLive(pieces) => {
            pieces.iter().for_each(|(at, bytes)| write(content, *at, bytes, fate));
        }
    }
    if let (Fate::Torn(Tear::Bytes(seed)), Change::Allocate(_)) = (fate, change) {
        // Only the part beyond the old end is allocated.
        Random::new(seed).fill(&mut content[before..]);
    }
}

fn write(content: &mut Vec<u8>, at: usize, bytes: &[u8], fate: Fate) {
    let end = at + bytes.len();
    let mut put = |range: Range<usize>| {
        if content.len() < range.end {
            content.resize(range.end, 0);
        }
        content[range.clone()].copy_from_slice(&bytes[range.start - at..range.end - at]);
    };
    // The part of the write that lies in one sector of the file.
    let sector = |number: usize| (at / SECTOR + number) * SECTOR;
    match fate {
        Fate::Lost => {}
        Fate::Kept => put(at..end),
        Fate::Torn(Tear::First(sectors)) => put(at..sector(sectors).clamp(at, end)),
        Fate::Torn(Tear::Last(sectors)) => put(sector(sectors).clamp(at, end)..end),
        Fate::Torn(Tear::Sectors(seed)) => {
            let mut random = Random::new(seed);
            for number in (0..).take_while(|number| sector(*number) < end) {
                if random.chance(2) {
                    put(sector(number).max(at)..sector(number + 1).min(end));
                }
            }
        }
        Fate::Torn(Tear::Bytes(seed)) => {
            let mut random = Random::new(seed);
            let mut from = at;
            while from < end {
                let to = (from + 1 + random.below(96)).min(end);
                if random.chance(2) {
                    put(from..to);
                }
                from = to;
            }
        }
    }
}

/// Fills the live area after the state. If the state says "idle", fills only the sectors stored to since the last sync;
/// otherwise all of it, as readers must then trust nothing in the area.
pub(crate) fn fill_live(content: &mut Arc<Vec<u8>>, live: Range<usize>, stored: &[&Piece], fill: Fill) {
    let idle = content[live.start..].starts_with(IDLE);
    if fill == Fill::Old || idle && stored.is_empty() {
        return;
    }
    let content = Arc::make_mut(content);
    let area = &mut content[live.clone()];
    let state: Vec<u8> = area[..STATE].to_vec();
    let old = area.to_vec();
    for (at, bytes) in stored {
        area[at - live.start..][..bytes.len()].copy_from_slice(bytes);
    }
    let new = area.to_vec();
    let dirty: BTreeSet<usize> = stored.iter().map(|(at, _)| (at - live.start) / SECTOR).collect();
    let sectors = (0..area.len() / SECTOR).filter(|sector| !idle || dirty.contains(sector));
    match fill {
        Fill::Old | Fill::New => {}
        Fill::Zeros => sectors.for_each(|sector| area[sector * SECTOR..][..SECTOR].fill(0)),
        Fill::Ones => sectors.for_each(|sector| area[sector * SECTOR..][..SECTOR].fill(0xff)),
        Fill::Noise(seed) => {
            let mut random = Random::new(seed);
            sectors.for_each(|sector| random.fill(&mut area[sector * SECTOR..][..SECTOR]));
        }
        Fill::Mixed(seed) => {
            let mut random = Random::new(seed);
            for sector in dirty {
                let range = sector * SECTOR..(sector + 1) * SECTOR;
                match random.below(3) {
                    0 => area[range.clone()].copy_from_slice(&old[range]),
                    1 => area[range.clone()].copy_from_slice(&new[range]),
                    _ => random.fill(&mut area[range]),
                }
            }
        }
    }
    area[..STATE].copy_from_slice(&state);
}
