//! A filter as of one commit, for operations that read all of it while a writer may commit. After a commit, the bytes
//! read may belong to two commits, so the operation starts over.

use std::ops::Range;
use std::slice;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::patience::Patience;
use super::reader::{DEADLINE, Reader};
use super::view::View;
use crate::cuckoo::{BUCKETS_PER_REGION, Counts, RegionId};
use crate::error::{Error, Result};
use crate::file::{LiveCopy, LiveHead, Region, Sums};
use crate::format::{Identity, Metadata, Policy};
use crate::system::Inode;

/// The work gives up once this many attempts were torn and [`DEADLINE`] has passed.
const TORN_ATTEMPTS: u32 = 5;
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The filter as a reader sees it at one commit. Valid until another commit comes in.
pub(crate) struct Snapshot<'a> {
    reader: &'a Reader,
    view: Arc<View>,
    copy: LiveCopy,
    metadata: Metadata,
}

impl<'a> Snapshot<'a> {
    /// Begins a snapshot. Returns the view instead if a commit was being applied for the whole wait.
    fn begin(reader: &'a Reader) -> Result<Result<Self, Arc<View>>> {
        let view = reader.view()?;
        Ok(match view.await_live_copy() {
            Some(copy) => copy.map(|(copy, metadata)| Ok(Self { reader, view, copy, metadata }))?,
            None => Err(view),
        })
    }

    pub(crate) const fn reader(&self) -> &'a Reader {
        self.reader
    }

    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// Whether the filter was read from a file, even if that file is gone.
    pub(crate) fn is_of_file(&self) -> bool {
        self.view.inode != Inode::OF_NO_FILE
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.view.superblock.identity
    }

    pub(crate) fn policy(&self) -> Policy {
        self.view.superblock.policy
    }

    pub(super) const fn commit(&self) -> u64 {
        self.copy.commit
    }

    pub(crate) const fn counts(&self) -> &Counts {
        &self.copy.counts
    }

    pub(crate) const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Passes regions to `each`, in order and verified, with their checksums.
    pub(crate) fn regions(
        &self,
        regions: Range<u64>,
        each: &mut dyn FnMut(RegionId, &Region, &Sums) -> Result<()>,
    ) -> Result<()> {
        let (mut words, mut sums) = ([0; BUCKETS_PER_REGION as usize], Sums::default());
        for number in regions {
            let region = RegionId(number as u32);
            self.view.comes_to(region);
            let Some(found) = self.view.consistent_region(region, &mut words) else {
                return Err(self.view.busy("copied"));
            };
            for (sum, found) in sums.iter_mut().zip(found) {
                *sum = found?;
            }
            each(region, &words, &sums)?;
        }
        Ok(())
    }

    /// Fails if a commit has come in since the snapshot began; [`Reader::at_one_commit`] then starts over.
    pub(crate) fn check(&self) -> Result<()> {
        let after = self.view.live_copy();
        let same = matches!(after, Some(Ok((after, _))) if after == self.copy)
            && self.reader.view().is_ok_and(|current| current.is_same_as(&self.view));
        if same { Ok(()) } else { Err(self.view.busy("copied")) }
    }
}

impl Reader {
    /// Runs `work` on the filter as of one commit. Starts over if another commit comes in. Fails with [`Error::Busy`] if
    /// commits keep coming in for a minute and for five whole attempts.
    pub(crate) fn at_one_commit<T>(
        &self,
        op: &'static str,
        mut work: impl FnMut(&Snapshot<'_>) -> Result<T>,
    ) -> Result<T> {
        Self::each_at_one_commit(slice::from_ref(self), op, |snapshots| match snapshots {
            [snapshot] => work(snapshot),
            _ => Err(self.busy(op)),
        })
    }

    /// Like [`at_one_commit`](Self::at_one_commit), for several filters, each as of a commit of its own.
    pub(crate) fn each_at_one_commit<T>(
        readers: &[Self],
        op: &'static str,
        mut work: impl FnMut(&[Snapshot<'_>]) -> Result<T>,
    ) -> Result<T> {
        let mut attempts = Attempts::first();
        loop {
            let (reader, failed) = match begin_all(readers)? {
                Ok(snapshots) => {
                    let outcome = work(&snapshots);
                    let torn = snapshots.iter().find(|snapshot| snapshot.check().is_err());
                    let torn = match (&outcome, torn) {
                        // The bytes may come from two commits.
                        (Ok(_) | Err(Error::Damaged { .. }), Some(torn)) => Some(torn),
                        (Err(Error::Busy { .. }), torn) => torn.or(snapshots.first()),
                        // No other failure can come from mixing two commits.
                        _ => None,
                    };
                    let Some(torn) = torn else { return outcome };
                    (torn.reader, InVain::Torn)
                }
                Err((reader, view)) => {
                    // The writer may have died. Opening the file anew recovers it.
                    reader.reopen(&view)?;
                    (reader, InVain::NotBegun)
                }
            };
            if !attempts.again(failed) {
                return Err(reader.busy(op));
            }
        }
    }
}

/// A reader without a snapshot, and its view.
type Torn<'a> = (&'a Reader, Arc<View>);

/// One snapshot for each reader; or the first reader without one, with its view.
fn begin_all(readers: &[Reader]) -> Result<Result<Vec<Snapshot<'_>>, Torn<'_>>> {
    let mut snapshots = Vec::with_capacity(readers.len());
    for reader in readers {
        match Snapshot::begin(reader)? {
            Ok(snapshot) => snapshots.push(snapshot),
            Err(view) => return Ok(Err((reader, view))),
        }
    }
    Ok(Ok(snapshots))
}

/// The attempts at one piece of work.
struct Attempts {
    start: Instant,
    torn: u32,
    pause: Duration,
}

impl Attempts {
    fn first() -> Self {
        Self { start: Instant::now(), torn: 0, pause: Duration::from_millis(1) }
    }

    /// Waits before the next attempt. Returns false to give up.
    ///
    /// Gives up only after [`DEADLINE`], and after a torn attempt only if [`TORN_ATTEMPTS`] were torn.
    fn again(&mut self, failed: InVain) -> bool {
        self.torn += u32::from(failed == InVain::Torn);
        if self.start.elapsed() > DEADLINE && (failed == InVain::NotBegun || self.torn >= TORN_ATTEMPTS) {
            return false;
        }
        thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}

/// Why an attempt has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum InVain {
    /// A commit was being applied for the whole wait, so its writer may be stopped or dead.
    NotBegun,
    /// A commit came in during the attempt.
    Torn,
}

impl View {
    /// Like [`live_copy`](Self::live_copy), but waits for a commit that is being applied, as long as a lookup would.
    pub(super) fn await_live_copy(&self) -> Option<Result<(LiveCopy, Metadata)>> {
        let mut patience = Patience::default();
        loop {
            let copy = self.live_copy();
            if copy.is_some() || self.pages.map.poisoned() || !patience.wait() {
                return copy;
            }
        }
    }
}
