//! A whole copy of a filter, with a uuid of its own.

use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, IoContext, Result};
use crate::files::Files;
use crate::format::{BUCKETS_PER_REGION, Identity};
use crate::hash::RegionId;
use crate::live::{LiveHead, Published};
use crate::lookup::Patience;
use crate::medium::Sums;
use crate::metadata::Metadata;
use crate::options::{Options, new_uuid};
use crate::reader::{DEADLINE, Reader};
use crate::rights::Rights;
use crate::unpublished::{Region, Unpublished};
use crate::view::View;
use crate::writer::Writer;

/// How many whole copies are made in vain, at least, before commits that come in between are too many.
const TRIES: u32 = 5;
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The attempts at one copy: as long as lookups wait, and longer where a copy itself takes so long.
pub(crate) struct Attempts {
    start: Instant,
    torn: u32,
    pause: Duration,
}

impl Attempts {
    pub(crate) fn first() -> Self {
        Self { start: Instant::now(), torn: 0, pause: Duration::from_millis(1) }
    }

    /// Waits before another one; false if there have been enough.
    pub(crate) fn again(&mut self, failed: InVain) -> bool {
        self.torn += u32::from(failed == InVain::Torn);
        if self.start.elapsed() > DEADLINE && (failed == InVain::NotBegun || self.torn >= TRIES) {
            return false;
        }
        thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}

/// Why an attempt has copied nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InVain {
    /// A commit was being applied all the time: its writer is stopped, or dead.
    NotBegun,
    /// A commit came in between.
    Torn,
}

impl Reader {
    /// Copies the filter, as of one commit, to a file that must not exist. The copy has its own uuid; seed,
    /// keys, counters and metadata are the same.
    ///
    /// `progress` is told the regions copied, and all there are. Fails with [`Error::Damaged`] at the first
    /// damaged page, with [`Error::Exists`] or [`Error::Locked`] where the destination is taken, and with
    /// [`Error::Busy`] if for a minute, and for five whole copies, commits have kept coming in between.
    pub fn copy_to(&self, destination: impl AsRef<Path>, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let mut attempts = Attempts::first();
        loop {
            let view = self.view()?;
            let failed = match self.try_copy(&view, destination.as_ref(), progress)? {
                Ok(writer) => {
                    let mut writer = writer;
                    writer.commit()?;
                    return writer.close();
                }
                Err(failed) => failed,
            };
            if failed == InVain::NotBegun {
                // The writer may have died: opening recovers.
                self.reopen(&view)?;
            }
            if !attempts.again(failed) {
                return Err(Error::Busy { path: self.path().to_owned(), op: "copied" });
            }
        }
    }

    fn try_copy(
        &self,
        view: &View,
        destination: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Result<Writer, InVain>> {
        let Some(published) = view.settled_published() else { return Ok(Err(InVain::NotBegun)) };
        let (before, metadata) = published?;
        let superblock = &view.superblock;
        let identity = Identity { uuid: new_uuid(destination)?, ..superblock.identity };
        let options = Options::new();
        let files = Files::new(destination)?;
        let model = File::open(self.path()).and_then(|file| Rights::of(&file)).at(self.path(), "look at")?;
        let fill = |files: &Files| {
            Unpublished::fill(files, &options.disk, identity, Some(&model), true, |write| {
                copy_regions(view, &mut |region, words, _| write(region, words), progress)
            })
        };
        let copied = Writer::create_filled(files, &options, superblock.policy, before.counts, metadata, fill);
        let unchanged = match view.published() {
            Some(Ok((after, _))) => after == before && self.view()?.is_same_as(view),
            _ => false,
        };
        match copied {
            Ok(writer) if unchanged => Ok(Ok(writer)),
            // What was read may be torn between two commits; only an undisturbed failure is one.
            Ok(_) | Err(Error::Busy { .. }) => Ok(Err(InVain::Torn)),
            Err(error) => Err(error),
        }
    }
}

impl View {
    /// As `published`, but waits for a commit that is being applied as long as a lookup does.
    pub(crate) fn settled_published(&self) -> Option<Result<(Published, Metadata)>> {
        let mut patience = Patience::default();
        loop {
            let published = self.published();
            if published.is_some() || self.map.poisoned() || !patience.wait() {
                return published;
            }
        }
    }
}

/// Hands over all regions with their checksums, in order and verified.
pub(crate) fn copy_regions(
    view: &View,
    write: &mut dyn FnMut(RegionId, &Region, &Sums) -> Result<()>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    let regions = view.superblock.identity.geometry.regions();
    let (mut words, mut sums) = ([0; BUCKETS_PER_REGION as usize], Sums::default());
    for number in 0..regions {
        let region = RegionId(number as u32);
        view.comes_to(region);
        let Some(found) = view.settled_region(region, &mut words) else { return Err(view.busy("copied")) };
        for (sum, found) in sums.iter_mut().zip(found) {
            *sum = found?;
        }
        write(region, &words, &sums)?;
        progress(number + 1, regions);
    }
    Ok(())
}
