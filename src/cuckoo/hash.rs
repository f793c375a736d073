//! From the bytes of a key to its hash, and from the hash to its region.
//!
//! No I/O. The rules stand in `format-spec/README.md`, section 3.

use std::fmt;

use xxhash_rust::xxh3::xxh3_128_with_seed;

/// The bytes whose hash under the file's seed is stored as the canary.
pub(crate) const CANARY_KEY: &[u8] = b"gowk";

/// The 128-bit hash of a key. A filter uses nothing else of the key.
///
/// [`Reader::hash`](crate::Reader::hash) and [`Writer::hash`](crate::Writer::hash) make it from a key. [`KeyHash::new`]
/// makes it from a hash that the caller computed, for filters created with [`HashKind::Caller`]. A hash may be looked up
/// many times, and in several filters of one seed. [`shard`](Self::shard) says which of several shards holds the key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeyHash(u128);

impl KeyHash {
    /// A hash that the caller computed. All 128 bits must be uniformly distributed: the filter takes the
    /// region and the tail from the high half and the bucket and the tag from the low half.
    pub const fn new(hash: u128) -> Self {
        Self(hash)
    }

    /// The hash as a number.
    pub const fn get(self) -> u128 {
        self.0
    }

    /// The shard that the key belongs to, from 0, of `shards` filters that divide all keys: the high half of
    /// the product of the hash's upper 64 bits and `shards`. 0 if `shards` is 0 or 1.
    ///
    /// The filter of a shard takes the same unchanged hashes as a filter of all keys.
    /// [`Options::shard`](crate::Options::shard) makes such a filter.
    pub const fn shard(self, shards: u64) -> u64 {
        ((self.position() as u128 * shards as u128) >> 64) as u64
    }

    /// The high half: the key's position on the line 0..2^64. The regions divide the line evenly.
    pub(crate) const fn position(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// The low half: where in its region the key belongs.
    pub(crate) const fn local(self) -> u64 {
        self.0 as u64
    }

    /// The region of the key among `regions`, and the 64-bit fraction that remains.
    ///
    /// With twice as many regions, region `k` becomes `2k` or `2k + 1` by the first bit of the fraction, and the fraction
    /// loses that bit. So a filter can double without its keys.
    ///
    /// A position of `0x14c1782b8cbf9708` is about 0.08 of 2^64. Among 3 regions it lies in region 0, with a fraction of
    /// `0x3e446882a63ec518` (about 0.24). Among 6 it also lies in region 0, with twice that fraction,
    /// `0x7c88d1054c7d8a30`.
    pub(crate) const fn region(self, regions: u64) -> (RegionId, u64) {
        let product = self.position() as u128 * regions as u128;
        (RegionId((product >> 64) as u32), product as u64)
    }
}

impl From<u128> for KeyHash {
    /// Like [`KeyHash::new`].
    fn from(hash: u128) -> Self {
        Self::new(hash)
    }
}

impl From<KeyHash> for u128 {
    /// Like [`KeyHash::get`].
    fn from(hash: KeyHash) -> Self {
        hash.get()
    }
}

/// A region's number, below the filter's number of regions (at most 2^32).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct RegionId(pub(crate) u32);

/// The most regions that a filter may have.
pub(crate) const MAX_REGIONS: u64 = 1 << 32;

/// Who hashes the keys of a filter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum HashKind {
    /// The filter, by XXH3-128 with the file's seed. Hash id 1.
    #[default]
    #[cfg_attr(feature = "serde", serde(rename = "xxh3-128"))]
    Xxh3,
    /// The caller, who passes [`KeyHash`]es. Bytes fail with [`Error::CallerHashes`](crate::Error::CallerHashes). Hash
    /// id 0.
    Caller,
}

/// The seed of a filter's hash. It lets an attacker craft keys that collide, so `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
pub struct Seed(u64);

impl Seed {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The seed as a number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(..)")
    }
}

/// The hash function of one file: its kind and its seed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyHasher {
    pub(crate) kind: HashKind,
    pub(crate) seed: u64,
    /// The hash of an eight-byte key begins with the exclusive or of the key and this number. The seed affects the hash
    /// of such keys only through this number.
    flip: u64,
}

/// Shows neither the seed nor `flip`, which follows from it.
impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyHasher").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl KeyHasher {
    pub(crate) const fn new(kind: HashKind, seed: u64) -> Self {
        // The 64-bit words at bytes 16 and 24 of XXH3's default secret.
        let secret = 0xDB97_9083_E96D_D4DE_u64 ^ 0x1F67_B3B7_A4A4_4072;
        let seeded = seed ^ ((seed as u32).swap_bytes() as u64) << 32;
        Self { kind, seed, flip: secret.wrapping_add(seeded) }
    }

    /// The hash of `key`; `None` if the caller hashes the keys.
    #[inline(always)]
    pub(crate) fn hash(self, key: &[u8]) -> Option<KeyHash> {
        match self.kind {
            HashKind::Xxh3 => Some(self.xxh3(key)),
            HashKind::Caller => None,
        }
    }

    /// The hash of `key`, for a filter of [`HashKind::Xxh3`].
    #[inline(always)]
    pub(crate) fn xxh3(self, key: &[u8]) -> KeyHash {
        KeyHash(match key.try_into() {
            Ok(eight) => self.xxh3_of_eight(eight),
            Err(_) => xxh3_of_any(key, self.seed),
        })
    }

    /// XXH3-128 of eight bytes, the length of a number or of a shorter hash. It is inlined into the lookup, and the part
    /// that depends only on the seed is computed once. The steps follow the XXH3 specification for 4 to 8 bytes. A test
    /// compares them with the crate that hashes all other lengths.
    #[inline(always)]
    const fn xxh3_of_eight(self, key: [u8; 8]) -> u128 {
        const PRIME: u64 = 0x9E37_79B1_85EB_CA87 + (8 << 2);
        let product = (u64::from_le_bytes(key) ^ self.flip) as u128 * PRIME as u128;
        let (low, high) = (product as u64, (product >> 64) as u64);
        let high = high.wrapping_add(low << 1);
        let low = low ^ high >> 3;
        let low = (low ^ low >> 35).wrapping_mul(0x9FB2_1C65_1E98_DF25);
        let high = (high ^ high >> 37).wrapping_mul(0x1656_6791_9E37_79F9);
        ((high ^ high >> 32) as u128) << 64 | (low ^ low >> 28) as u128
    }

    /// The hash of [`CANARY_KEY`], which shows whether a program hashes as the file's writer did; 0 if the caller hashes.
    pub(crate) fn canary(self) -> u128 {
        self.hash(CANARY_KEY).map_or(0, KeyHash::get)
    }
}

/// Not inlined: it is long, with a case for each range of lengths.
#[inline(never)]
fn xxh3_of_any(key: &[u8], seed: u64) -> u128 {
    xxh3_128_with_seed(key, seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bytes_are_hashed_as_the_crate_hashes_them() {
        let mut number = 1u64;
        let next = || {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            number ^ number >> 29
        };
        for seed in
            [0, 1, u64::MAX, 1 << 31, 1 << 32].into_iter().chain(std::iter::repeat_with(next).take(200))
        {
            let hasher = KeyHasher::new(HashKind::Xxh3, seed);
            for key in [0, u64::MAX].into_iter().chain((0..64).map(|bit| seed ^ 1 << bit)) {
                let expected = KeyHash(xxh3_128_with_seed(&key.to_le_bytes(), seed));
                assert_eq!(hasher.hash(&key.to_le_bytes()), Some(expected), "{seed:x} {key:x}");
            }
        }
    }

    #[test]
    fn doubling_sends_a_key_to_one_of_the_two_children_of_its_region() {
        let hasher = KeyHasher::new(HashKind::Xxh3, 7);
        for regions in [1u64, 3, 1000, 1 << 31] {
            for i in 0u32..2000 {
                let Some(hash) = hasher.hash(&i.to_le_bytes()) else { panic!("XXH3 hashes") };
                let (parent, rem) = hash.region(regions);
                let (child, rest) = hash.region(regions * 2);
                assert!(u64::from(parent.0) < regions);
                assert_eq!(u64::from(child.0), 2 * u64::from(parent.0) + (rem >> 63));
                assert_eq!(rest, rem << 1);
            }
        }
    }

    #[test]
    fn worked_values() {
        let hash = KeyHash::new(0x14c1_782b_8cbf_9708 << 64);
        assert_eq!(hash.region(3), (RegionId(0), 0x3e44_6882_a63e_c518));
        assert_eq!(hash.region(6), (RegionId(0), 0x7c88_d105_4c7d_8a30));
    }

    #[test]
    fn caller_hashed_filters_do_not_hash() {
        let hasher = KeyHasher::new(HashKind::Caller, 7);
        assert_eq!(hasher.hash(b"key"), None);
        assert_eq!(hasher.canary(), 0);
    }
}
