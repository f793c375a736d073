//! Shrinking: streams a file, with the open transaction's changes, into a new one of half as many regions. Each entry
//! gets the bit of its region back, in front of its tail. `format-spec/README.md`, section 8.5.

use std::ops::Range;

use crate::cuckoo::{
    BUCKETS_PER_REGION, Counts, Delta, RegionId, Search, Width, forgetting, halve, with_any_width,
};
use crate::error::{Error, Result, ShrinkRefusal};
use crate::file::{Flush, Overlay, Region, UnpublishedFile};
use crate::format::Identity;
use crate::system::{REGIONS_AHEAD, on_threads};
use crate::write::{Target, Writer};

impl Writer {
    /// Halves the filter now: undoes one doubling, and loses no key. [`Info::shrunk`](crate::Info::shrunk) describes the
    /// filter after it.
    ///
    /// The shrinking belongs to the transaction: a commit publishes it, a rollback undoes it. The disk needs room for the
    /// new file beside the old one. Fails with [`Error::Shrink`], which has the reason, if the filter has not doubled or
    /// its entries do not fit into half of the buckets; nothing has changed then. First makes a
    /// [`checkpoint`](Self::checkpoint), as the new file cannot continue the journal, and fails as a checkpoint does.
    ///
    /// Expired entries of a forgetting filter are not copied into the new file.
    pub fn shrink(&mut self) -> Result<()> {
        self.shrink_with(&|_, _| {})
    }

    /// Like [`shrink`](Self::shrink). After each region, `progress` receives the number of regions done, and of all.
    pub fn shrink_with(&mut self, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<()> {
        let (identity, counts, _) = self.facts()?;
        let path = self.path().to_owned();
        let refused = |reason| Error::Shrink { path, reason };
        let Some(geometry) = identity.geometry.halved() else {
            return Err(refused(ShrinkRefusal::NeverDoubled));
        };
        let load = counts.used() as f64 / geometry.slots_in_all() as f64;
        // In a forgetting filter, some entries may have expired.
        if load > 1.0 && identity.forgetting.is_none() {
            return Err(refused(ShrinkRefusal::Load { load }));
        }
        // The journal is of a later generation than the new file. If the journal held a commit, the new file would be
        // refused beside it.
        self.checkpoint()?;
        let now = counts.epoch;
        let (file, state) = self.halve(Identity { geometry, ..identity }, now, progress)?;
        let file = match (file, state.full) {
            (_, Some(region)) => {
                return Err(refused(ShrinkRefusal::Region { region: region.0.into(), load }));
            }
            (file, None) => file?,
        };
        let mut counts = counts.totals();
        counts.add_found(&state.found.in_a(identity.kind));
        counts.removed = counts.removed.saturating_add(state.forgotten.removed_in_all());
        self.go_on_in(file, counts);
        Ok(())
    }

    /// The new file of a filter at this epoch, and what was counted on the way.
    fn halve(
        &mut self,
        identity: Identity,
        now: u64,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<(Result<UnpublishedFile>, State)> {
        let (max_kicks, threads) = (self.options().max_kicks, self.options().threads.min(MOST_THREADS));
        let source = self.source()?;
        let (files, disk) = source.surroundings();
        let model = source.rights()?;
        let (mut state, model) = (State::default(), Some(&model));
        let width = identity.geometry.width;
        let regions = identity.geometry.regions();
        // A single thread writes each region while it is in the cache.
        let piece = if threads == 1 { 1 } else { PIECE };
        let starts = |from: u64| (from..regions).step_by(piece as usize).take(threads);
        let file = UnpublishedFile::fill(files, disk, identity, model, Flush::Meanwhile, &mut |write| {
            let mut from = 0;
            while from < regions {
                let pieces = starts(from).map(|start| start..regions.min(start + piece)).collect();
                for (regions_of, half) in on_threads(pieces, |piece: Range<u64>| {
                    (
                        piece.clone(),
                        with_any_width!(marked width, W => Half::make::<W>(source, piece, now, max_kicks)),
                    )
                }) {
                    let Half { made, counts, forgotten, full } = half?;
                    state.found.add_found(&counts);
                    state.forgotten.add(&forgotten);
                    for (region, words) in regions_of.zip(&made) {
                        write(RegionId(region as u32), words)?;
                        from = region + 1;
                        progress(from, regions);
                    }
                    if let Some(region) = full {
                        state.full = Some(region);
                        // The file is dropped; the caller looks at `full` first.
                        return Err(Error::Full {
                            path: files.data.clone(),
                            region: region.0.into(),
                            load: 1.0,
                        });
                    }
                }
            }
            Ok(())
        });
        Ok((file, state))
    }
}

/// What is counted while regions are made.
#[derive(Default)]
struct State {
    /// The counters of the new regions.
    found: Counts,
    /// Entries that had expired.
    forgotten: Delta,
    /// A region without room, if any.
    full: Option<RegionId>,
}

/// How many regions each of several threads makes at a time: 32, or 2 MiB.
const PIECE: u64 = 32;
/// The most threads. Further threads would only wait for the thread that writes.
const MOST_THREADS: usize = 16;

/// Some regions of the new file.
struct Half {
    made: Vec<Box<Region>>,
    /// The counters of these regions.
    counts: Counts,
    /// Entries that had expired.
    forgotten: Delta,
    /// The next region, if its entries did not fit.
    full: Option<RegionId>,
}

impl Half {
    /// Makes each of these regions from two regions of the source.
    fn make<W: Width>(
        source: Target<'_, &Overlay>,
        regions: Range<u64>,
        now: u64,
        max_kicks: u32,
    ) -> Result<Self> {
        let (counts, forgotten) = (Counts::default(), Delta::default());
        let mut half = Self { made: Vec::new(), counts, forgotten, full: None };
        let (mut search, mut right) = (Search::new(), Box::new([0; BUCKETS_PER_REGION as usize]));
        for number in regions {
            let mut left = Box::new([0; BUCKETS_PER_REGION as usize]);
            for (region, words) in (2 * number..).zip([&mut left, &mut right]) {
                source.read_ahead(RegionId((region as u32).saturating_add(REGIONS_AHEAD)));
                source.read_region(RegionId(region as u32), words)?;
                forgetting::bring::<W>(&mut **words, now..now, &mut half.forgotten);
            }
            if halve::<W>(&mut *left, &mut *right, max_kicks, &mut search).is_err() {
                half.full = Some(RegionId(number as u32));
                break;
            }
            half.counts.tally_all::<W>(&*left);
            half.made.push(left);
        }
        Ok(half)
    }
}
