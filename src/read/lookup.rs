//! The trait of lookups, which readers of filters and of stores share.

use crate::cuckoo::Key;
#[cfg(doc)]
use crate::options::Options;
#[cfg(doc)]
use crate::read::Reader;

/// Lookups of keys: in a filter through its [`Reader`], in a store through a [`StoreReader`](crate::store::StoreReader).
///
/// "No" is always right: the key was never inserted, or was removed. "Yes" is wrong at the rate that
/// [`Info::expected_false_positive_rate`](crate::Info::expected_false_positive_rate) gives.
pub trait Lookup {
    /// Why a call failed: [`crate::Error`], or [`crate::store::Error`].
    type Error: std::error::Error + Send + Sync + 'static;

    /// Whether the key is present.
    ///
    /// Fails with:
    /// * [`Error::CallerHashes`](crate::Error::CallerHashes) for bytes, if the filter's caller hashes the keys;
    /// * [`Error::Replaced`](crate::Error::Replaced) for a hash, if a filter of another seed has replaced this one;
    /// * [`Error::Damaged`](crate::Error::Damaged) at a damaged page, unless the options say to answer "present" there
    ///   ([`OnDamage`](crate::OnDamage));
    /// * [`Error::Busy`](crate::Error::Busy) if a writer stopped in the middle of a commit and does not continue;
    /// * the error of a file that has replaced this one, if that file cannot be opened.
    fn contains<K: Key>(&self, key: K) -> Result<bool, Self::Error>;

    /// How many copies of the key are stored, as [`Writer::count`](crate::Writer::count) describes. Errors as for
    /// [`contains`](Self::contains).
    fn count<K: Key>(&self, key: K) -> Result<u32, Self::Error>;

    /// Looks up many keys, several times as fast as one by one. Returns one answer for each key, in the order of the
    /// keys. Each answer is right as of some moment during the call. Uses up to [`Options::threads`] threads. Errors as
    /// for [`contains`](Self::contains).
    ///
    /// In a filter, a batch of more keys than the file has pages first verifies all pages, on at least two threads, if
    /// most pages are unverified.
    fn contains_batch<K: Key + Sync>(&self, keys: &[K]) -> Result<Vec<bool>, Self::Error>;
}
