//! Merging: stores everything that another filter holds in this one, without keys. One pass over both filters streams
//! them into a new file, as a doubling does, and the open transaction continues there. `format-spec/README.md`, section
//! 8.7.

use crate::cuckoo::{
    AnyWidth, BUCKETS_PER_REGION, Counts, Delta, HashKind, MAX_REGIONS, RegionId, Search, Taking, forgetting,
    mark, split, take_region, with_any_width,
};
use crate::error::{Difference, Error, GrowthRefusal, Result};
use crate::file::{Flush, Overlay, Region, UnpublishedFile};
use crate::format::{Geometry, Growth, Identity};
use crate::growth;
use crate::read::{Reader, Snapshot};
use crate::write::{Target, Writer};

impl Writer {
    /// Stores all entries of another filter, without the original keys: the union of two sets, or the sum of two counting
    /// filters. Both filters must have the same kind, seed and hash, slots per bucket, shard and key rules, and the
    /// quotient of their numbers of regions must be a power of two. [`Options::like`](crate::Options::like) gives the
    /// options for such a filter.
    ///
    /// Two forgetting filters need the same time and granularity. If the other filter's time is later, this filter
    /// advances to it. A key in both gets the later of the two expiries; no key expires sooner than in its own filter.
    ///
    /// The merge belongs to the transaction: a commit publishes it, a rollback undoes it. It takes the time of a doubling
    /// or a copy, and as much room on the disk, however little the other filter holds. This filter doubles if the other
    /// one has more regions, or for lack of room. The other filter is read as of one commit; its metadata is not merged.
    ///
    /// Fails with [`Error::Unlike`], which names the difference; with [`Error::Full`] and [`Error::Growth`] as
    /// [`insert`](Self::insert) does; and with the error of a damaged page or a failed read of either file. A failed
    /// merge changes nothing.
    pub fn merge(&mut self, other: &Reader) -> Result<()> {
        self.merge_with(other, &|_, _| {})
    }

    /// Like [`merge`](Self::merge). After each region, `progress` receives the number of regions done, and of all. It
    /// starts over each time the filter must double.
    pub fn merge_with(&mut self, other: &Reader, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<()> {
        let (file, counts) = other.at_one_commit("merged", |theirs| self.merged(theirs, progress))?;
        self.go_on_in(file, counts);
        Ok(())
    }

    /// The merged file and its counters. The transaction is not changed.
    fn merged(
        &mut self,
        theirs: &Snapshot<'_>,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<(UnpublishedFile, Counts)> {
        let (ours, our_counts, _) = self.facts()?;
        let other_rules = theirs.metadata().key_rules() != self.metadata()?.key_rules();
        ours.keeps_no_newest(self.path(), "a merge")?;
        let difference = difference(theirs.identity(), &ours);
        if let Some(difference) = difference.or(other_rules.then_some(Difference::KeyRules)) {
            let path = theirs.reader().path().to_owned();
            return Err(Error::Unlike { path, other: self.path().to_owned(), difference });
        }
        let their_geometry = theirs.identity().geometry;
        let regions = their_geometry.regions();
        // The outcome is unmarked only if neither filter is marked and neither is split for the merge.
        let marks = their_geometry.width.is_marked || regions != ours.geometry.regions();
        let mut geometry = ours.geometry.marked(marks);
        let mut crowded = None;
        loop {
            // Doubles to as many regions as the other filter has, and then once after each pass without room.
            while geometry.regions() < regions || crowded.is_some() {
                geometry = self.doubled_for(theirs, geometry, crowded.take())?;
            }
            let max_kicks = self.options().max_kicks;
            let identity = Identity { geometry, ..ours };
            let now = our_counts.epoch;
            let merged = Pass { theirs, target: self.source()?, identity, now, max_kicks }.run(progress);
            // If a commit came in during the pass, its outcome means nothing.
            theirs.check()?;
            match merged? {
                Merged::Whole(whole) => {
                    let (file, state) = *whole;
                    let mut counts = our_counts.totals();
                    counts.add_found(&state.found.in_a(ours.kind));
                    // A void entry is stored on both sides of a split, but its copies count once.
                    let stored = state.stored.min(theirs.counts().copies());
                    counts.inserted = counts.inserted.saturating_add(stored);
                    counts.removed = counts.removed.saturating_add(state.forgotten.removed_in_all());
                    counts.epoch = now.max(theirs.counts().epoch);
                    return Ok((file, counts));
                }
                Merged::NoRoom(region) => crowded = Some(region),
            }
        }
    }

    /// The shape after one more doubling, if this filter may double and may hold the contents of both.
    fn doubled_for(
        &self,
        theirs: &Snapshot<'_>,
        geometry: Geometry,
        crowded: Option<RegionId>,
    ) -> Result<Geometry> {
        let (ours, our_counts, policy) = self.facts()?;
        let path = self.path().to_owned();
        // Both filters as if doubled to this many regions: an upper bound of the entries to store.
        let doubled = |counts: &Counts, of: Geometry| {
            let doublings = (geometry.regions() / of.regions().min(geometry.regions())).ilog2();
            if doublings == 0 && geometry.width.is_marked && !of.width.is_marked {
                return counts.marked();
            }
            (0..doublings).fold(*counts, |counts, _| counts.doubled())
        };
        let mut all = doubled(&our_counts, ours.geometry);
        all.add_found(&doubled(theirs.counts(), theirs.identity().geometry));
        if let (Some(region), Growth::Never) = (crowded, policy.growth) {
            let load = all.used() as f64 / geometry.slots_in_all() as f64;
            return Err(Error::Full { path, region: region.0.into(), load });
        }
        let refused = |reason| Error::Growth { path, reason };
        let void_allowed = self.options().void_growth;
        if let Some(reason) = growth::refusal(geometry, &policy, &all, crowded, void_allowed) {
            return Err(refused(reason));
        }
        geometry.doubled().ok_or_else(|| refused(GrowthRefusal::Regions(MAX_REGIONS)))
    }
}

/// The property that prevents a merge of the other filter into ours; `None` if nothing does.
fn difference(theirs: &Identity, ours: &Identity) -> Option<Difference> {
    let (a, b) = (theirs.geometry, ours.geometry);
    let (more, fewer) = (a.regions().max(b.regions()), a.regions().min(b.regions()));
    if theirs.kind != ours.kind {
        Some(Difference::Kind(theirs.kind, ours.kind))
    } else if theirs.hasher.kind != ours.hasher.kind {
        Some(Difference::Hash)
    } else if theirs.hasher.seed != ours.hasher.seed && ours.hasher.kind == HashKind::Xxh3 {
        Some(Difference::Seed)
    } else if a.slots() != b.slots() {
        Some(Difference::Slots(a.slots().get(), b.slots().get()))
    } else if theirs.forgetting != ours.forgetting || a.width.shape != b.width.shape {
        Some(Difference::Retention)
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

/// The outcome of one pass over both filters.
enum Merged {
    Whole(Box<(UnpublishedFile, State)>),
    NoRoom(RegionId),
}

/// One pass over both filters into a new file.
struct Pass<'a> {
    theirs: &'a Snapshot<'a>,
    target: Target<'a, &'a Overlay>,
    /// The identity of the new file.
    identity: Identity,
    /// The current epoch of our filter, if it forgets.
    now: u64,
    max_kicks: u32,
}

/// A region of one of the two filters, if it was already read or split.
type Half = Option<Box<Region>>;

/// The two regions that a doubling makes of a region of this width.
fn halves(width: AnyWidth, region: &Region) -> [Half; 2] {
    let mut children = Box::new([[0; BUCKETS_PER_REGION as usize]; 2]);
    with_any_width!(width, W => split::<W>(region, &mut children));
    let [left, right] = *children;
    [Some(Box::new(left)), Some(Box::new(right))]
}

impl Pass<'_> {
    fn run(&self, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Merged> {
        let (files, disk) = self.target.surroundings();
        let (identity, model) = (self.identity, self.target.rights()?);
        let (mut state, model) = (State::new(), Some(&model));
        let regions = self.identity.geometry.regions();
        let filled = UnpublishedFile::fill(files, disk, identity, model, Flush::Meanwhile, &mut |write| {
            let (theirs, ours) = (self.their_regions(), self.our_regions());
            let mut write = |region: RegionId, words: &Region| {
                write(region, words)?;
                progress(u64::from(region.0) + 1, regions);
                Ok(())
            };
            (0..theirs.min(ours)).try_for_each(|index| {
                self.descend(theirs.min(ours), index, None, None, &mut state, &mut write)
            })
        });
        match (filled, state.full) {
            (_, Some(region)) => Ok(Merged::NoRoom(region)),
            (file, None) => Ok(Merged::Whole(Box::new((file?, state)))),
        }
    }

    fn their_regions(&self) -> u64 {
        self.theirs.identity().geometry.regions()
    }

    const fn our_regions(&self) -> u64 {
        self.target.identity().geometry.regions()
    }

    /// The width of the contents of `of` after splits to this many regions.
    fn width_at(&self, regions: u64, of: &Identity) -> AnyWidth {
        if regions == of.geometry.regions() { of.geometry.width } else { of.geometry.width.marked() }
    }

    /// Merges region `index` of `regions`, or the regions that it becomes in the new file. A filter with this many
    /// regions is read here; its region is split further down.
    fn descend(
        &self,
        regions: u64,
        index: u64,
        theirs: Half,
        ours: Half,
        state: &mut State,
        write: &mut dyn FnMut(RegionId, &Region) -> Result<()>,
    ) -> Result<()> {
        let region = RegionId(index as u32);
        let [their_width, our_width] =
            [self.theirs.identity(), self.target.identity()].map(|of| self.width_at(regions, of));
        let of_theirs = self.theirs.counts().epoch;
        let epoch = self.now.max(of_theirs);
        let theirs = if regions == self.their_regions() {
            let mut words = self.read_theirs(region)?;
            // Expired entries are not stored, and cover no other entry.
            with_any_width!(their_width, W => {
                forgetting::bring::<W>(&mut *words, of_theirs..epoch, &mut Delta::default());
            });
            Some(words)
        } else {
            theirs
        };
        let ours = if regions == self.our_regions() {
            let mut words = Box::new([0; BUCKETS_PER_REGION as usize]);
            self.target.read_region(region, &mut words)?;
            with_any_width!(our_width, W => {
                forgetting::bring::<W>(&mut *words, self.now..epoch, &mut state.forgotten);
            });
            Some(words)
        } else {
            ours
        };
        if regions < self.identity.geometry.regions() {
            let mut their_halves = theirs.map(|words| halves(their_width, &words));
            let mut our_halves = ours.map(|words| halves(our_width, &words));
            for half in 0..2 {
                let take =
                    |halves: &mut Option<[Half; 2]>| halves.as_mut().and_then(|halves| halves[half].take());
                let (theirs, ours) = (take(&mut their_halves), take(&mut our_halves));
                self.descend(2 * regions, 2 * index + half as u64, theirs, ours, state, write)?;
            }
            return Ok(());
        }
        let (Some(mut theirs), Some(mut ours)) = (theirs, ours) else { return Ok(()) };
        let width = self.identity.geometry.width;
        if width.is_marked {
            with_any_width!(their_width, W => mark::<W>(&mut *theirs));
            with_any_width!(our_width, W => mark::<W>(&mut *ours));
        }
        let State { found, stored, search, full, .. } = state;
        let rule = Taking { kind: self.identity.kind, now: epoch as u32, max_kicks: self.max_kicks };
        let taken = with_any_width!(width, W => take_region::<W>(&*theirs, &mut *ours, rule, search, stored));
        if taken.is_err() {
            *full = Some(region);
            // The file is dropped; the caller looks at `full` first.
            let path = self.target.surroundings().0.data.clone();
            return Err(Error::Full { path, region: index, load: 0.0 });
        }
        with_any_width!(width, W => found.tally_all::<W>(&*ours));
        write(region, &ours)
    }

    fn read_theirs(&self, region: RegionId) -> Result<Box<Region>> {
        let mut read = Box::new([0; BUCKETS_PER_REGION as usize]);
        let one = u64::from(region.0)..u64::from(region.0) + 1;
        self.theirs.regions(one, &mut |_, words, _| {
            read.copy_from_slice(words);
            Ok(())
        })?;
        Ok(read)
    }
}

/// The progress of a pass.
struct State {
    found: Counts,
    /// How many copies were stored.
    stored: u64,
    /// Our entries that had expired.
    forgotten: Delta,
    search: Search,
    /// The region without room.
    full: Option<RegionId>,
}

impl State {
    fn new() -> Self {
        let (found, forgotten) = (Counts::default(), Delta::default());
        Self { found, stored: 0, forgotten, search: Search::new(), full: None }
    }
}
