//! The shortcut of lookups: the few instructions that most lookups in most filters need, inlined into the caller.
//!
//! While a lookup waits for memory, the processor works on several others: the fewer instructions and registers each
//! takes, the more lookups fit. A single useless instruction, added to a lookup in 1 GiB, costs up to 1 ns. So conditions
//! that hold for many lookups are checked once: every page is intact, n = 4, the filter takes every key, and no commit is
//! being applied.
//!
//! The invariant is that of `seqlock.rs`, in the form of `format-spec/README.md`, section 7.7. Applying a commit and
//! setting a flag both change the apply epoch, which never goes back. A lookup that finds an even epoch and no flag notes
//! that epoch. If a later lookup finds the noted epoch after its reads, no commit was applied and no flag was set between
//! the two.

use std::sync::atomic::Ordering;

use super::view::{CLOSED, Shortcut, View};
use crate::cuckoo::{Bucket, BucketId, Four, HashKind, Key, KeyHasher, Place, Shape, Slot, Unmarked};
use crate::file::LiveHead;

impl View {
    /// Notes the epoch if it is even, no flag is set, and the shortcut serves this filter. Callers' hashes may take the
    /// shortcut if `hasher` made them.
    pub(super) fn open_shortcut(&self, hasher: KeyHasher) {
        let geometry = self.superblock.identity.geometry;
        let serves = geometry.width.shape == Shape::Four && geometry.shard.is_whole() && self.is_plain();
        if !serves || !self.pages.are_intact() {
            return;
        }
        let Some(epoch) = self.pages.map.quiet_epoch() else { return };
        // A new epoch may belong to another file that was written over this one.
        if !self.is_own() {
            return self.leave();
        }
        let note = |noted: &std::sync::atomic::AtomicU64| {
            if noted.load(Ordering::Relaxed) != epoch {
                noted.store(epoch, Ordering::SeqCst);
            }
        };
        if self.hasher().kind == HashKind::Xxh3 {
            note(&self.shortcut.of_keys);
        }
        if self.hasher() == hasher {
            note(&self.shortcut.of_hashes);
        }
        // `leave` may have closed the shortcut before these stores opened it.
        if self.is_left() {
            self.leave();
        }
    }

    /// Whether a key is present; `None` if the lookup needs more than the shortcut.
    #[inline(always)]
    pub(super) fn contains_fast<K: Key>(&self, key: &K) -> Option<bool> {
        let (both, query) = self.buckets_fast(key)?;
        // The branch is predictable: all lookups of a view take the same side.
        Some(if self.shortcut.is_marked {
            let [first, second] = both.map(Bucket::new);
            first.either_matches(second, query.marked())
        } else {
            let [first, second] = both.map(Bucket::new);
            first.either_matches(second, query)
        })
    }

    /// The number of copies that the filter holds; `None` if the lookup needs more than the shortcut.
    #[inline(always)]
    pub(super) fn count_fast<K: Key>(&self, key: &K) -> Option<u32> {
        let (both, query) = self.buckets_fast(key)?;
        let copies = if self.shortcut.is_marked {
            let [first, second] = both.map(Bucket::new);
            first.copies_in_either(second, query.marked())
        } else {
            let [first, second] = both.map(Bucket::new);
            first.copies_in_either(second, query)
        };
        copies.map(|copies| self.superblock.identity.kind.capped(copies))
    }

    /// Both buckets of a key, and its fingerprint; `None` unless the epoch is still the noted one.
    #[inline(always)]
    fn buckets_fast<K: Key>(&self, key: &K) -> Option<([u64; 2], Slot<Unmarked<Four>>)> {
        let Shortcut { of_keys, of_hashes, offsets, .. } = &self.shortcut;
        let epoch = if K::HASHED { of_hashes } else { of_keys }.load(Ordering::Acquire);
        if epoch == CLOSED {
            return None;
        }
        let hash = key.xxh3(self.hasher());
        let (buckets, rem) = self.pages.map.region_of(hash);
        let place = Place::<Unmarked<Four>>::new(hash.local(), rem);
        let second = BucketId(place.first.0 ^ offsets[place.fingerprint.tag() as usize]);
        let both = [place.first, second].map(|id| buckets.word(id.0.into()));
        self.pages.map.live_head().is_still(epoch).then_some((both, place.fingerprint))
    }
}

#[cfg(test)]
mod tests;
