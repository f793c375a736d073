//! All regions of a filter as of one commit, for copies. They are read beside a writer, and read again if a commit
//! came in between.

use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use super::patience::Patience;
use super::reader::DEADLINE;
use super::view::View;
use crate::cuckoo::{BUCKETS_PER_REGION, RegionId};
use crate::error::Result;
use crate::file::{LiveCopy, LiveHead, Region, Sums};
use crate::format::Metadata;

/// At least so many whole copies are torn by commits before the attempts are given up.
const TORN_COPIES: u32 = 5;
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The attempts at one copy. They go on for as long as lookups wait, and until [`TORN_COPIES`] were torn.
pub(crate) struct Attempts {
    start: Instant,
    torn: u32,
    pause: Duration,
}

impl Attempts {
    pub(crate) fn first() -> Self {
        Self { start: Instant::now(), torn: 0, pause: Duration::from_millis(1) }
    }

    /// Waits before the next attempt; false if there were enough.
    pub(crate) fn again(&mut self, failed: InVain) -> bool {
        self.torn += u32::from(failed == InVain::Torn);
        if self.start.elapsed() > DEADLINE && (failed == InVain::NotBegun || self.torn >= TORN_COPIES) {
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
    /// A commit was being applied all the time, so its writer may be stopped or dead.
    NotBegun,
    /// A commit came in between.
    Torn,
}

impl View {
    /// As [`live_copy`](Self::live_copy), but waits as long as a lookup does for a commit that is being applied.
    pub(crate) fn settled_live_copy(&self) -> Option<Result<(LiveCopy, Metadata)>> {
        let mut patience = Patience::default();
        loop {
            let copy = self.live_copy();
            if copy.is_some() || self.pages.map.poisoned() || !patience.wait() {
                return copy;
            }
        }
    }
}

/// Hands regions to `write`, in order and verified, with their checksums.
pub(crate) fn copy_regions(
    view: &View,
    regions: Range<u64>,
    write: &mut dyn FnMut(RegionId, &Region, &Sums) -> Result<()>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    let (first, all) = (regions.start, regions.end - regions.start);
    let (mut words, mut sums) = ([0; BUCKETS_PER_REGION as usize], Sums::default());
    for number in regions {
        let region = RegionId(number as u32);
        view.comes_to(region);
        let Some(found) = view.settled_region(region, &mut words) else { return Err(view.busy("copied")) };
        for (sum, found) in sums.iter_mut().zip(found) {
            *sum = found?;
        }
        write(region, &words, &sums)?;
        progress(number - first + 1, all);
    }
    Ok(())
}
