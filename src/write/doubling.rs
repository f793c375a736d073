//! Doubling: streaming an old file, with the open transaction's changes, into a new one twice its size.
//!
//! No key is needed: the first bit of an entry's tail says which of the two child regions it belongs to, at the
//! same bucket index. Nothing is kicked, and nothing can overflow. `format-spec/README.md`, section 8.

use crate::bucket::{Bucket, Width, with_width};
use crate::counts::Counts;
use crate::error::{Error, GrowthRefusal, IoContext, Result};
use crate::format::{BUCKETS_PER_REGION, Geometry, Identity, MAX_REGIONS, Policy};
use crate::hash::RegionId;
use crate::overlay::Overlay;
use crate::store::Store;
use crate::unpublished::{Region, Unpublished};
use crate::view::REGIONS_AHEAD;

/// The part of the reachable load that must be reached before a filter doubles: below it, an insert that finds
/// no room has met colliding or hostile keys, which doubling would not help against.
pub(crate) const GROWTH_THRESHOLD: f64 = 0.8;
/// The part of entries without a tail above which growth is refused unless allowed.
const MOST_VOID: f64 = 0.5;

/// What may double: a published file under an open transaction, or one not yet published.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    Published(&'a Store, &'a Overlay),
    Unpublished(&'a Unpublished),
}

impl Source<'_> {
    fn identity(self) -> Identity {
        match self {
            Self::Published(store, _) => store.checkpoint.identity,
            Self::Unpublished(file) => file.identity,
        }
    }

    fn read_ahead(self, region: RegionId) {
        if let Self::Published(store, _) = self {
            store.read_ahead(region);
        }
    }

    /// One region with the transaction's changes, its pages verified.
    fn read(self, region: RegionId, into: &mut Region) -> Result<()> {
        match self {
            Self::Unpublished(file) => file.read(region, into),
            Self::Published(store, overlay) => store.read_region(region, overlay.region(region), into)?,
        }
        Ok(())
    }
}

/// Streams `source` into a new file of twice as many regions. The source is not changed.
pub(crate) fn double(source: Source<'_>, progress: &mut dyn FnMut(u64, u64)) -> Result<Unpublished> {
    let identity = source.identity();
    let regions = identity.geometry.regions();
    let (files, disk) = match source {
        Source::Published(store, _) => (&store.files, &store.disk),
        Source::Unpublished(file) => file.surroundings(),
    };
    let geometry = identity.geometry.doubled().ok_or_else(|| Error::Growth {
        path: files.data.clone(),
        reason: GrowthRefusal::Regions(MAX_REGIONS),
    })?;
    let model = match source {
        Source::Published(store, _) => store.file.metadata(),
        Source::Unpublished(file) => file.file_metadata(),
    };
    let model = model.at(&files.data, "look at")?;
    let identity = Identity { geometry, ..identity };
    Unpublished::fill(files, disk, identity, Some(&model), true, |write| {
        let mut parent = [0; BUCKETS_PER_REGION as usize];
        let mut children = [[0; BUCKETS_PER_REGION as usize]; 2];
        for region in 0..regions {
            source.read_ahead(RegionId((region as u32).saturating_add(REGIONS_AHEAD)));
            source.read(RegionId(region as u32), &mut parent)?;
            with_width!(geometry.slots, W => split_region::<W>(&parent, &mut children));
            for (child, words) in (2 * region..).zip(&children) {
                write(RegionId(child as u32), words)?;
            }
            progress(region + 1, regions);
        }
        Ok(())
    })
}

fn split_region<W: Width>(parent: &Region, children: &mut [Region; 2]) {
    let [left, right] = children;
    for ((word, left), right) in parent.iter().zip(left).zip(right) {
        let (a, b) = Bucket::<W>::new(*word).split();
        (*left, *right) = (a.0, b.0);
    }
}

/// Why a filter in this state must not double, if it must not. `crowded` is the region without room; `None`
/// where the user asked for a doubling.
pub(crate) fn refusal(
    geometry: Geometry,
    policy: &Policy,
    counts: &Counts,
    crowded: Option<RegionId>,
    void_allowed: bool,
) -> Option<GrowthRefusal> {
    let slots = geometry.slots_in_all();
    let load = (counts.entries() + counts.universal) as f64 / slots as f64;
    let threshold = GROWTH_THRESHOLD * geometry.slots.headroom();
    if let Some(region) = crowded
        && load < threshold
    {
        return Some(GrowthRefusal::Crowded { region: region.0.into(), load, threshold });
    }
    let Some(doubled) = geometry.doubled() else { return Some(GrowthRefusal::Regions(MAX_REGIONS)) };
    let (needed, limit) = (doubled.file_length(), policy.max_file_size);
    if limit != 0 && needed > limit {
        return Some(GrowthRefusal::FileSize { needed, limit });
    }
    let full = counts.doubled_and_full(geometry.slots, 2 * slots);
    let expected = full.expected_false_positive_rate(geometry.slots, 2 * slots);
    if policy.max_rate != 0.0 && expected > policy.max_rate {
        return Some(GrowthRefusal::Rate { expected, limit: policy.max_rate });
    }
    let (void, entries) = (counts.void(), counts.entries());
    if !void_allowed && void as f64 > MOST_VOID * entries as f64 {
        return Some(GrowthRefusal::Void { void, entries });
    }
    None
}
