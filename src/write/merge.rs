//! Merging: all that another filter holds, stored in this one without keys. One pass over both streams them into a new
//! file, as a doubling does, and the open transaction goes on there. `format-spec/README.md`, section 8.7.

use super::doubling::{count_region, split};
use super::target::Target;
use super::writer::Writer;
use crate::cuckoo::{
    BUCKETS_PER_REGION, Counts, HashKind, MAX_REGIONS, RegionId, Search, Width, take_region, with_width,
};
use crate::error::{Difference, Error, GrowthRefusal, Result};
use crate::file::{Flush, Overlay, Region, UnpublishedFile};
use crate::format::{Geometry, Growth, Identity};
use crate::growth;
use crate::read::{Attempts, InVain, Reader, View, copy_regions};

impl Writer {
    /// Stores all that another filter holds, without its keys: the union of two sets, the sum of two counting filters. Both
    /// must have the same kind, seed and hash, slots per bucket and shard, and numbers of regions that are a power of two apart: a filter made with
    /// [`Options::like`](crate::Options::like) the other has.
    ///
    /// The merge belongs to the transaction: a commit publishes it, a rollback undoes it. It takes the time and the
    /// disk's room of a doubling or of a copy, however little the other filter holds. This filter doubles if the other
    /// has more regions, or if there is no room. The other one is read as of one commit; of its metadata nothing is
    /// taken.
    ///
    /// Fails with [`Error::Unlike`], which says what differs; with [`Error::Full`] and [`Error::Growth`] as
    /// [`insert`](Self::insert) does, and with what is wrong with either file. Nothing has changed then.
    pub fn merge(&mut self, other: &Reader) -> Result<()> {
        self.merge_with(other, &mut |_, _| {})
    }

    /// As [`merge`](Self::merge); `progress` is told the regions done, and all there are, after each. It begins anew
    /// where the filter has to double.
    pub fn merge_with(&mut self, other: &Reader, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let mut attempts = Attempts::first();
        loop {
            let view = other.view()?;
            let failed = match self.try_merge(other, &view, progress)? {
                Ok(()) => return Ok(()),
                Err(failed) => failed,
            };
            if failed == InVain::NotBegun {
                // Its writer may have died. Opening the file anew recovers it.
                other.reopen(&view)?;
            }
            if !attempts.again(failed) {
                return Err(Error::Busy { path: other.path().to_owned(), op: "merged" });
            }
        }
    }

    fn try_merge(
        &mut self,
        other: &Reader,
        view: &View,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Result<(), InVain>> {
        let Some(copy) = view.settled_live_copy() else { return Ok(Err(InVain::NotBegun)) };
        let (theirs, _) = copy?;
        let ours = *self.state()?.transaction.work.identity();
        let our_rules = self.state()?.transaction.metadata.key_rules();
        let other_rules = view.superblock.metadata.key_rules() != our_rules;
        let difference = difference(&view.superblock.identity, &ours);
        if let Some(difference) = difference.or(other_rules.then_some(Difference::KeyRules)) {
            let path = other.path().to_owned();
            return Err(Error::Unlike { path, other: self.files.data.clone(), difference });
        }
        let regions = view.superblock.identity.geometry.regions();
        let mut geometry = ours.geometry;
        let mut crowded = None;
        loop {
            // To as many regions as the other has, and then as often as there is no room.
            while geometry.regions() < regions || crowded.is_some() {
                geometry = self.doubled_for(&theirs.counts, regions, geometry, crowded.take())?;
            }
            let max_kicks = self.options.max_kicks;
            let target = self.state_mut()?.transaction.work.target_mut();
            let target = target.with(|pending, file| &*pending.sorted(file));
            let identity = Identity { geometry, ..ours };
            let pass = Pass { view, target, identity, max_kicks };
            let merged = pass.run(progress);
            if !other.is_still(view, &theirs) {
                return Ok(Err(InVain::Torn));
            }
            match merged {
                Ok(Merged::Whole(whole)) => {
                    let (file, found, stored) = *whole;
                    // A void entry is stored on both sides of a split, and stands for its copies once.
                    let inserted = stored.min(theirs.counts.copies());
                    self.go_on_in(file, &found, inserted);
                    return Ok(Ok(()));
                }
                Ok(Merged::NoRoom(region)) => crowded = Some(region),
                Err(Error::Busy { .. }) => return Ok(Err(InVain::Torn)),
                Err(error) => return Err(error),
            }
        }
    }

    /// The shape after one more doubling, if this filter may double, and may hold what both hold.
    fn doubled_for(
        &self,
        theirs: &Counts,
        their_regions: u64,
        geometry: Geometry,
        crowded: Option<RegionId>,
    ) -> Result<Geometry> {
        let state = self.state()?;
        let path = &self.files.data;
        let ours = state.transaction.work.identity().geometry.regions();
        // Both as if doubled to this many regions: the most that there can be to store.
        let doubled = |counts: &Counts, regions: u64| {
            (0..(geometry.regions() / regions.min(geometry.regions())).ilog2())
                .fold(*counts, |counts, _| counts.doubled())
        };
        let mut all = doubled(&state.transaction.counts(), ours);
        all.add_found(&doubled(theirs, their_regions));
        if let (Some(region), Growth::Never) = (crowded, state.policy.growth) {
            let load = all.used() as f64 / geometry.slots_in_all() as f64;
            return Err(Error::Full { path: path.clone(), region: region.0.into(), load });
        }
        let refused = |reason| Error::Growth { path: path.clone(), reason };
        if let Some(reason) =
            growth::refusal(geometry, &state.policy, &all, crowded, self.options.void_growth)
        {
            return Err(refused(reason));
        }
        geometry.doubled().ok_or_else(|| refused(GrowthRefusal::Regions(MAX_REGIONS)))
    }

    /// The transaction goes on in the merged file.
    fn go_on_in(&mut self, file: UnpublishedFile, found: &Counts, inserted: u64) {
        if let Some(mut open) = self.open.take() {
            let mut counts = open.transaction.counts().totals();
            counts.add_found(found);
            counts.inserted = counts.inserted.saturating_add(inserted);
            open.transaction = open.transaction.moved_to(file, counts);
            self.open = Some(open);
        }
    }
}

/// What keeps another filter from being merged into ours.
fn difference(theirs: &Identity, ours: &Identity) -> Option<Difference> {
    let (a, b) = (theirs.geometry, ours.geometry);
    let (more, fewer) = (a.regions().max(b.regions()), a.regions().min(b.regions()));
    if theirs.kind != ours.kind {
        Some(Difference::Kind(theirs.kind, ours.kind))
    } else if theirs.hasher.kind != ours.hasher.kind {
        Some(Difference::Hash)
    } else if theirs.hasher.seed != ours.hasher.seed && ours.hasher.kind == HashKind::Xxh3 {
        Some(Difference::Seed)
    } else if a.slots != b.slots {
        Some(Difference::Slots(a.slots.get(), b.slots.get()))
    } else if a.shard.of != b.shard.of {
        Some(Difference::Shards(a.shard.of, b.shard.of))
    } else if a.shard.number != b.shard.number {
        Some(Difference::Shard(a.shard.number, b.shard.number))
    } else if !(more.is_multiple_of(fewer) && (more / fewer).is_power_of_two()) {
        Some(Difference::Regions(a.regions(), b.regions()))
    } else {
        None
    }
}

/// How one pass over both filters ended.
enum Merged {
    /// With the copies stored.
    Whole(Box<(UnpublishedFile, Counts, u64)>),
    NoRoom(RegionId),
}

/// One pass over both filters into a new file.
struct Pass<'a> {
    view: &'a View,
    target: Target<'a, &'a Overlay>,
    /// Of the new file.
    identity: Identity,
    max_kicks: u32,
}

/// A region of one of the two filters, where it was read or split already.
type Half = Option<Box<Region>>;

impl Pass<'_> {
    fn run(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Merged> {
        let (files, disk) = self.target.surroundings();
        let (identity, model) = (self.identity, self.target.rights()?);
        let mut state = State { found: Counts::default(), stored: 0, search: Search::new(), full: None };
        let regions = self.identity.geometry.regions();
        let filled = UnpublishedFile::fill(files, disk, identity, Some(&model), Flush::Meanwhile, |write| {
            let (theirs, ours) = (self.their_regions(), self.our_regions());
            let mut write = |region: RegionId, words: &Region| {
                write(region, words)?;
                progress(u64::from(region.0) + 1, regions);
                Ok(())
            };
            (0..theirs.min(ours)).try_for_each(|index| {
                with_width!(self.identity.geometry.slots, W => {
                    self.descend::<W>(theirs.min(ours), index, None, None, &mut state, &mut write)
                })
            })
        });
        match (filled, state.full) {
            (_, Some(region)) => Ok(Merged::NoRoom(region)),
            (file, None) => {
                let found = state.found.in_a(identity.kind);
                Ok(Merged::Whole(Box::new((file?, found, state.stored))))
            }
        }
    }

    const fn their_regions(&self) -> u64 {
        self.view.superblock.identity.geometry.regions()
    }

    const fn our_regions(&self) -> u64 {
        self.target.identity().geometry.regions()
    }

    /// Merges the region `index` of `regions`, or those that it becomes in the new file. Each filter's region is read
    /// where it has so many, and split from there on.
    fn descend<W: Width>(
        &self,
        regions: u64,
        index: u64,
        theirs: Half,
        ours: Half,
        state: &mut State,
        write: &mut dyn FnMut(RegionId, &Region) -> Result<()>,
    ) -> Result<()> {
        let region = RegionId(index as u32);
        let theirs = if regions == self.their_regions() { Some(self.read_theirs(region)?) } else { theirs };
        let ours = if regions == self.our_regions() {
            let mut words = Box::new([0; BUCKETS_PER_REGION as usize]);
            self.target.read_region(region, &mut words)?;
            Some(words)
        } else {
            ours
        };
        if regions < self.identity.geometry.regions() {
            let [mut their_halves, mut our_halves] =
                [theirs, ours].map(|words| words.map(|words| split::<W>(&words)));
            for half in 0..2 {
                let take =
                    |halves: &mut Option<[Half; 2]>| halves.as_mut().and_then(|halves| halves[half].take());
                let (theirs, ours) = (take(&mut their_halves), take(&mut our_halves));
                self.descend::<W>(2 * regions, 2 * index + half as u64, theirs, ours, state, write)?;
            }
            return Ok(());
        }
        let (Some(theirs), Some(mut ours)) = (theirs, ours) else { return Ok(()) };
        let State { found, stored, search, full } = state;
        let kind = self.identity.kind;
        if take_region::<W>(&*theirs, &mut *ours, kind, self.max_kicks, search, stored).is_err() {
            *full = Some(region);
            // The file is given up; the caller looks at `full` first.
            let path = self.target.surroundings().0.data.clone();
            return Err(Error::Full { path, region: index, load: 0.0 });
        }
        count_region::<W>(&ours, found);
        write(region, &ours)
    }

    fn read_theirs(&self, region: RegionId) -> Result<Box<Region>> {
        let mut read = Box::new([0; BUCKETS_PER_REGION as usize]);
        let one = u64::from(region.0)..u64::from(region.0) + 1;
        copy_regions(
            self.view,
            one,
            &mut |_, words, _| {
                read.copy_from_slice(words);
                Ok(())
            },
            &mut |_, _| (),
        )?;
        Ok(read)
    }
}

/// What a pass has come to.
struct State {
    found: Counts,
    /// Copies stored.
    stored: u64,
    search: Search,
    /// The region that has no room.
    full: Option<RegionId>,
}
