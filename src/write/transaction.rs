//! The open transaction: its changes, which only its writer sees.

use super::partition;
use super::partition::{Buffers, Hashes, Manner, Outcomes};
use super::single::Shortcut;
use super::work::{Traits, Work};
use crate::cuckoo::{
    Counts, Delta, Inserted, KeyHash, Kind, Place, RegionId, Search, region, with_any_width, with_width,
};
use crate::error::Result;
use crate::file::UnpublishedFile;
use crate::format::Metadata;

/// All state that a transaction can change.
#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) work: Work,
    /// The counters when the transaction began, or when the file was last doubled.
    pub(super) counts: Counts,
    /// The changes of the counters since then.
    pub(super) delta: Delta,
    pub(super) metadata: Metadata,
    pub(super) search: Search,
    pub(super) traits: Traits,
    shortcut: Shortcut,
}

impl Transaction {
    pub(super) fn new(work: Work, counts: Counts, metadata: Metadata) -> Self {
        let identity = work.identity();
        let (traits, shortcut) = (Traits::of(identity), Shortcut::of(identity.geometry.width, identity.kind));
        Self { work, counts, delta: Delta::default(), metadata, search: Search::new(), traits, shortcut }
    }

    /// The counters with the changes of the transaction.
    pub(super) fn counts(&self) -> Counts {
        self.counts.with(&self.delta)
    }

    #[inline]
    pub(super) const fn kind(&self) -> Kind {
        self.traits.kind
    }

    pub(super) fn set_counts(&mut self, counts: Counts) {
        (self.counts, self.delta) = (counts, Delta::default());
    }

    pub(super) fn region_of(&self, hash: KeyHash) -> Result<(RegionId, u64)> {
        let target = self.work.target();
        target.identity().geometry.region_of(hash, &target.surroundings().0.data)
    }

    pub(super) fn contains(&self, hash: KeyHash) -> Result<bool> {
        let (id, rem) = self.region_of(hash)?;
        with_any_width!(self.work.identity().geometry.width, W => {
            let place = Place::<W>::new(hash.local(), rem).at(self.counts.epoch as u32);
            region::contains(&mut self.work.target().region(id), place)
        })
    }

    pub(super) fn count(&self, hash: KeyHash) -> Result<u32> {
        let (id, rem) = self.region_of(hash)?;
        let width = self.work.identity().geometry.width;
        let count = with_any_width!(width, W => {
            let place = Place::<W>::new(hash.local(), rem).at(self.counts.epoch as u32);
            region::count(&mut self.work.target().region(id), place)
        })?;
        Ok(self.kind().capped(count.unwrap_or(width.slots().highest_count())))
    }

    /// Inserts a key, and returns whether it is new. Returns `None` and changes nothing if the insert needs more than the
    /// shortcut, as in a forgetting filter.
    #[inline]
    pub(super) fn insert_quickly(&mut self, hash: KeyHash) -> Option<bool> {
        self.shortcut.insert(&mut self.work, &mut self.delta, &self.traits, hash)
    }

    /// Removes one copy. Returns `None` and changes nothing if the removal needs more than the shortcut.
    #[inline]
    pub(super) fn remove_quickly(&mut self, hash: KeyHash) -> Option<()> {
        self.shortcut.remove(&mut self.work, &mut self.delta, &self.traits, hash)
    }

    /// Inserts a key into a set or a counting filter; returns the region if it has no room.
    pub(super) fn insert(&mut self, hash: KeyHash, max_kicks: u32) -> Result<Result<(), RegionId>> {
        let (id, rem) = self.region_of(hash)?;
        let width = self.work.identity().geometry.width;
        Ok(with_any_width!(plain width, W => {
            let place = Place::<W>::new(hash.local(), rem);
            let buckets = &mut self.work.target_mut().region(id);
            let inserted = region::insert(buckets, place, max_kicks, &mut self.search)?;
            self.delta.inserted(&inserted);
            if inserted == Inserted::NoPath { Err(id) } else { Ok(()) }
        }, Err(id)))
    }

    /// Hashes the keys of these indices into `buffers`. Does not change the transaction.
    pub(super) fn hash_all(
        &self,
        indices: &[u32],
        hashes: &Hashes<'_>,
        manner: Manner<'_>,
        buffers: &mut Buffers,
    ) -> Result<()> {
        let target = self.work.target();
        let (geometry, path) = (target.identity().geometry, &*target.surroundings().0.data);
        partition::hash_all(geometry, path, indices, hashes, manner, buffers)
    }

    /// Inserts or removes the keys that `hash_all` has hashed; in case of an error, only some of them.
    pub(super) fn take_hashed(
        &mut self,
        manner: Manner<'_>,
        buffers: &mut Buffers,
    ) -> (Outcomes, Result<()>) {
        let (outcomes, outcome) = partition::take_hashed(self.work.target_for_batch(), manner, buffers);
        self.delta.add(&outcomes.delta);
        if let Work::Published(_, pending) = &mut self.work {
            pending.batched(outcomes.changes);
        }
        (outcomes, outcome)
    }

    /// Continues the transaction in `file`, which holds all its entries and has these counts.
    pub(super) fn moved_to(self, file: UnpublishedFile, counts: Counts) -> Self {
        let old = match self.work {
            Work::Published(published, _) => Some(published),
            Work::Unpublished(_, old) => old,
        };
        Self {
            search: self.search,
            ..Self::new(Work::Unpublished(Box::new(file), old), counts, self.metadata)
        }
    }

    /// Removes one copy of a key. Returns false if there was none.
    pub(super) fn remove(&mut self, hash: KeyHash) -> Result<bool> {
        let (id, rem) = self.region_of(hash)?;
        let removed = with_width!(self.work.identity().geometry.slots(), W => {
            let place = Place::<W>::new(hash.local(), rem);
            region::remove(&mut self.work.target_mut().region(id), place)?
        });
        if let Some(removed) = removed {
            self.delta.removed(removed);
        }
        Ok(removed.is_some())
    }
}
