//! The shortcut of lookups: the few instructions that most lookups in most filters need, inlined into the caller.
//!
//! A lookup waits for memory. The processor works on several lookups meanwhile: the fewer instructions and registers
//! each one takes, the more lookups. A single instruction that does nothing, added to a lookup in 1 GiB, costs up to 1
//! ns. So conditions that hold for many lookups are checked once: every page is intact, n = 4, the filter takes every
//! key, and nothing is being applied.
//!
//! The invariant is that of `seqlock.rs`, in the form of `format-spec/README.md`, section 7.7. Applying a commit and
//! setting a flag both change the apply epoch, which never goes back. A lookup that finds an even epoch and no flag
//! notes that epoch. If a later lookup finds the noted epoch after its reads, no commit was applied and no flag was set
//! in between.

use std::sync::atomic::Ordering;

use super::view::{Shortcut, View};
use crate::cuckoo::{AnyWidth, Bucket, BucketId, Four, HashKind, Key, Place, Slot};
use crate::file::LiveHead;

impl View {
    /// Notes an even epoch at which a lookup has found no flag set.
    pub(super) fn note_epoch(&self, epoch: u64) {
        let Shortcut { of_keys, of_hashes, epoch: known, .. } = &self.shortcut;
        if known.load(Ordering::Relaxed) != epoch {
            known.store(epoch, Ordering::Release);
        }
        let is_open = of_hashes.load(Ordering::Relaxed) != 0;
        let geometry = self.superblock.identity.geometry;
        let plain = geometry.width == AnyWidth::Four && geometry.shard.is_whole();
        if !is_open && plain && self.pages.are_intact() {
            if self.hasher().kind == HashKind::Xxh3 {
                of_keys.store(self.reader, Ordering::SeqCst);
            }
            of_hashes.store(self.reader, Ordering::SeqCst);
            // `leave` may have run since the lookup began, and have closed the shortcut before this lookup opened it.
            if self.is_left() {
                self.leave();
            }
        }
    }

    /// Whether a key is present; `None` if the lookup needs more than the shortcut, or if the view does not belong to
    /// `reader`.
    #[inline(always)]
    pub(super) fn contains_in_line<K: Key>(&self, reader: u64, key: &K) -> Option<bool> {
        let ([first, second], query) = self.buckets_in_line(reader, key)?;
        Some(first.either_matches(second, query))
    }

    /// Like `contains_in_line`, for the number of copies that the filter holds.
    #[inline(always)]
    pub(super) fn count_in_line<K: Key>(&self, reader: u64, key: &K) -> Option<u32> {
        let ([first, second], query) = self.buckets_in_line(reader, key)?;
        first.copies_in_either(second, query).map(|copies| self.superblock.identity.kind.capped(copies))
    }

    /// Both buckets of a key, and its fingerprint; `None` unless the epoch is still the noted one.
    #[inline(always)]
    fn buckets_in_line<K: Key>(&self, reader: u64, key: &K) -> Option<([Bucket<Four>; 2], Slot<Four>)> {
        let open = if K::HASHED { &self.shortcut.of_hashes } else { &self.shortcut.of_keys };
        if open.load(Ordering::Acquire) != reader {
            return None;
        }
        let hash = key.xxh3(self.hasher());
        let epoch = self.shortcut.epoch.load(Ordering::Acquire);
        let (buckets, rem) = self.pages.map.region_of(hash);
        let place = Place::<Four>::new(hash.local(), rem);
        let second = BucketId(place.first.0 ^ self.shortcut.offsets[place.fingerprint.tag() as usize]);
        let both = [place.first, second].map(|id| Bucket::new(buckets.word(id.0.into())));
        self.pages.map.live_head().is_still(epoch).then_some((both, place.fingerprint))
    }
}

#[cfg(test)]
mod tests;
