//! Recovery: what a journal found at opening means, and how its transactions are redone.
//!
//! Invariants (`format-spec/README.md`, section 6):
//!
//! 1. Recovery holds the gate exclusively and the writer lock shared; no other process writes.
//! 2. It is idempotent: if a process dies during recovery, at any step, the next recovery makes the file whole.
//! 3. Frames found in the page cache prove nothing: their writer may have died before its sync, or after a failed one.
//!    They are written again and synced before they are redone. The same applies to the newest superblock.
//! 4. All pages that the journal names are written again, even if they already look right: bytes in the page cache need
//!    not be on the medium.
//!
//! Crash cases: a reset cut short leaves a journal without a valid header, and no frame in it has the superblock's salt.
//! A checkpoint cut short leaves commits that the superblock already has. A publication cut short leaves the journal of
//! the previous generation, whose commits the new file has.

use std::path::Path;

use super::journal;
use super::journal::{Content, FrameAt, Journal, Scan};
use super::live::LiveCopy;
use super::overlay::Overlay;
use super::published::PublishedFile;
use crate::cuckoo::{BucketId, Counts};
use crate::error::{Error, IoContext, JournalDefect, Result};
use crate::events;
use crate::format::{BUCKETS_PER_PAGE, Identity, Metadata, Superblock, check_counts};
use crate::system::Rights;

/// How a journal's header relates to the superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kin {
    /// The header is damaged or missing. Only frames under the superblock's salt count.
    NoHeader,
    /// The journal belongs to another filter.
    Foreign,
    /// The journal belongs to an earlier generation.
    Older,
    /// The journal belongs to a later generation.
    Newer,
    /// The journal belongs to this generation, and continues another checkpoint.
    OtherCheckpoint,
    /// The journal continues this checkpoint.
    Continues,
}

/// How commits in a journal relate to the superblock's commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Holds {
    Nothing,
    /// Only commits that the superblock has.
    Known,
    /// Commits later than the superblock's.
    Beyond,
}

/// What recovery does with a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    /// Empties the journal: the superblock has all its commits.
    Retire,
    /// Redoes the journal's transactions.
    Replay,
    /// Leaves the journal and the file alone.
    Refuse(Refusal),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    Foreign,
    OtherHistory,
    Broken,
}

/// The decision table of `format-spec/README.md`, section 6.7. `lost` describes the commits found after damage.
pub(super) const fn decide(kin: Kin, counted: Holds, lost: Holds) -> Decision {
    use Decision::{Refuse, Replay, Retire};
    match (kin, counted, lost) {
        (Kin::Foreign, Holds::Nothing, Holds::Nothing) => Retire,
        (Kin::Foreign, _, _) => Refuse(Refusal::Foreign),
        (Kin::NoHeader | Kin::Continues, _, Holds::Beyond) => Refuse(Refusal::Broken),
        (_, _, Holds::Beyond) => Refuse(Refusal::OtherHistory),
        (_, Holds::Nothing, _) => Retire,
        (Kin::Newer, _, _) => Refuse(Refusal::OtherHistory),
        (Kin::NoHeader | Kin::Continues, Holds::Beyond, _) => Replay,
        (_, Holds::Beyond, _) => Refuse(Refusal::OtherHistory),
        (_, Holds::Known, _) => Retire,
    }
}

/// Decides what to do with a journal, given the newest superblock.
pub(crate) fn judge(scan: &Scan, superblock: &Superblock, path: &Path) -> Result<Decision> {
    let Superblock { identity, commit: checkpoint, salt, .. } = superblock;
    let generation = identity.geometry.generation;
    let kin = match scan.header {
        None => Kin::NoHeader,
        Some(header) if header.uuid != identity.uuid => Kin::Foreign,
        Some(header) if header.generation < generation => Kin::Older,
        Some(header) if header.generation > generation => Kin::Newer,
        Some(header) if header.salt == *salt && header.base == *checkpoint => Kin::Continues,
        Some(_) => Kin::OtherCheckpoint,
    };
    let holds = |last: Option<u64>| match last {
        None => Holds::Nothing,
        Some(last) if last <= *checkpoint => Holds::Known,
        Some(_) => Holds::Beyond,
    };
    let decision = decide(kin, holds(scan.last), holds(scan.broken.map(|broken| broken.last)));
    let defect = match (decision, scan.broken) {
        (Decision::Refuse(Refusal::Foreign), _) => JournalDefect::Foreign,
        (Decision::Refuse(Refusal::Broken), Some(broken)) => {
            JournalDefect::Broken { offset: broken.offset, first: broken.first, last: broken.last }
        }
        (Decision::Refuse(_), broken) => {
            let last = scan.last.max(broken.map(|broken| broken.last)).unwrap_or(*checkpoint);
            JournalDefect::OtherHistory { last, checkpoint: *checkpoint }
        }
        _ => return Ok(decision),
    };
    Err(Error::Journal { path: path.to_owned(), defect })
}

/// All transactions of a journal, merged.
#[derive(Debug)]
pub(crate) struct Redo {
    pub(crate) overlay: Overlay,
    pub(super) commit: u64,
    pub(super) counts: Counts,
    pub(super) metadata: Metadata,
}

impl Redo {
    /// The state of the superblock, without any transaction.
    pub(crate) fn nothing(superblock: &Superblock) -> Self {
        let Superblock { commit, counts, metadata, .. } = superblock.clone();
        Self { overlay: Overlay::default(), commit, counts, metadata }
    }

    /// Reads the frames that count; `seen` receives the bytes of each.
    pub(crate) fn read(
        superblock: &Superblock,
        file: &std::fs::File,
        path: &Path,
        scan: &Scan,
        mut seen: impl FnMut(FrameAt, &[u8]) -> Result<()>,
    ) -> Result<Self> {
        let mut redo = Self::nothing(superblock);
        for at in &scan.frames {
            let bytes = journal::read_frame(file, *at).at(path, "read")?;
            seen(*at, &bytes)?;
            if redo.add(&bytes, *at, &superblock.identity, path).is_none() {
                let defect = JournalDefect::Broken {
                    offset: at.offset,
                    first: redo.commit.saturating_add(1),
                    last: scan.last.unwrap_or(redo.commit),
                };
                return Err(Error::Journal { path: path.to_owned(), defect });
            }
        }
        Ok(redo)
    }

    /// Adds a frame. `None` if its CRC is right but it holds impossible values.
    fn add(&mut self, bytes: &[u8], at: FrameAt, identity: &Identity, path: &Path) -> Option<()> {
        let content = Content::of_counted(bytes, at)?;
        for record in &content.records {
            if record.page.0 >= identity.geometry.pages() {
                return None;
            }
            let (change, page) = (self.overlay.region_mut(record.page.region()), record.page.in_region());
            change.set_sum(page, record.crc);
            for (index, word) in record.words() {
                change.set(BucketId((page * BUCKETS_PER_PAGE + index) as u16), word);
            }
        }
        if let Some(commit) = content.commit {
            check_counts(path, &commit.counts, identity).ok()?;
            self.counts = commit.counts;
            if let Some(metadata) = commit.metadata {
                self.metadata = Metadata::decode(path, metadata).ok()?;
            }
            self.commit = self.commit.checked_add(1)?;
        }
        Some(())
    }

    pub(crate) fn live_copy(&self, path: &Path) -> Result<LiveCopy> {
        Ok(LiveCopy { commit: self.commit, counts: self.counts, metadata: self.metadata.encode(path)? })
    }
}

/// Brings the file to its last commit. Leaves the journal empty, and the live area idle with even sequences.
pub(super) fn recover(published: &mut PublishedFile) -> Result<Journal> {
    let files = published.files.clone();
    // Protects: the names of the file and of the journal, before anything depends on them.
    published.disk.sync_dir(&files.dir).at(&files.dir, "sync")?;
    let mut redo = Redo::nothing(&published.checkpoint);
    if let Some(file) = journal::open(&files, true)? {
        let scan =
            journal::scan(&file, &files.journal, published.checkpoint.salt, published.checkpoint.commit)?;
        if judge(&scan, &published.checkpoint, &files.journal)? == Decision::Replay {
            let disk = published.disk.clone();
            redo = Redo::read(&published.checkpoint, &file, &files.journal, &scan, |at, bytes| {
                disk.write_at(&file, bytes, at.offset).at(&files.journal, "write again")
            })?;
            // Protects: the transactions that are redone next, if the power fails meanwhile.
            disk.sync(&file).at(&files.journal, "sync")?;
        }
    }
    let regions = published.checkpoint.identity.geometry.regions();
    let copy = redo.live_copy(&files.data)?;
    published.live.recover(regions, &copy, || redo_pages(published, &redo.overlay))?;
    let model = Rights::of(&published.file).at(&files.data, "look at")?;
    let mut journal = Journal::unread(&files, &*published.disk, &model)?;
    let Redo { commit, counts, metadata, .. } = redo;
    let checkpoint = published.checkpoint.commit;
    let superblock = Superblock { commit, counts, metadata, ..published.checkpoint.clone() };
    // The first sync of the checkpoint makes it durable, before the other slot is written.
    published.rewrite_superblock()?;
    published.checkpoint(&mut journal, &copy, superblock)?;
    events::recovered(&files.data, checkpoint, commit);
    Ok(journal)
}

/// Writes every page that the journal names, with the changed words, under the checksum that the journal names.
///
/// If page and checksum then do not match, the page was damaged outside these words. It remains damaged, and its first
/// use reports that. Recovery continues.
fn redo_pages(published: &PublishedFile, overlay: &Overlay) -> Result<()> {
    let mut words = [0; _];
    overlay.ascending().try_for_each(|(region, change)| {
        published.make_readable(region)?;
        published.write_region(region, change, &mut words)
    })
}

#[cfg(test)]
mod tests;
