//! The keys that lookups and changes take: bytes, or hashes.

use super::hash::{KeyHash, KeyHasher};

/// A key: anything that is bytes (`&str`, `String`, `&[u8]`, `[u8; 8]`, ...), or a [`KeyHash`].
///
/// Calls that take a `Key` hash bytes under the filter's seed, and use a [`KeyHash`] unchanged. A hash comes from `hash`
/// of a filter or store with the same seed; or from the caller, if the filter was created with
/// [`HashKind::Caller`](super::HashKind::Caller). Such a filter refuses bytes with
/// [`Error::CallerHashes`](crate::Error::CallerHashes).
///
/// The empty key is a key. The trait is sealed: only bytes and hashes implement it.
pub trait Key: sealed::Key {}

impl<K: sealed::Key + ?Sized> Key for K {}

pub(crate) mod sealed {
    use super::{KeyHash, KeyHasher};

    pub trait Key {
        /// Whether the key is a hash already.
        const HASHED: bool;

        /// The hash; `None` for bytes if the filter's caller hashes the keys.
        fn hash(&self, hasher: KeyHasher) -> Option<KeyHash>;

        /// The hash, for a filter that hashes keys itself.
        fn xxh3(&self, hasher: KeyHasher) -> KeyHash;
    }

    impl<K: AsRef<[u8]> + ?Sized> Key for K {
        const HASHED: bool = false;

        #[inline(always)]
        fn hash(&self, hasher: KeyHasher) -> Option<KeyHash> {
            hasher.hash(self.as_ref())
        }

        #[inline(always)]
        fn xxh3(&self, hasher: KeyHasher) -> KeyHash {
            hasher.xxh3(self.as_ref())
        }
    }

    impl Key for KeyHash {
        const HASHED: bool = true;

        #[inline(always)]
        fn hash(&self, _: KeyHasher) -> Option<KeyHash> {
            Some(*self)
        }

        #[inline(always)]
        fn xxh3(&self, _: KeyHasher) -> KeyHash {
            *self
        }
    }

    impl Key for &KeyHash {
        const HASHED: bool = true;

        #[inline(always)]
        fn hash(&self, _: KeyHasher) -> Option<KeyHash> {
            Some(**self)
        }

        #[inline(always)]
        fn xxh3(&self, _: KeyHasher) -> KeyHash {
            **self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sealed::Key;
    use super::*;
    use crate::cuckoo::hash::HashKind;

    #[test]
    fn a_hash_and_a_reference_to_one_are_taken_as_they_are_whoever_hashes() {
        let hash = KeyHash::new(7 << 64 | 5);
        for kind in [HashKind::Xxh3, HashKind::Caller] {
            let hasher = KeyHasher::new(kind, 3);
            assert_eq!((hash.hash(hasher), hash.xxh3(hasher)), (Some(hash), hash));
            assert_eq!((Key::hash(&&hash, hasher), Key::xxh3(&&hash, hasher)), (Some(hash), hash));
        }
    }
}
