//! A filter or a store, for lookups.

use std::path::Path;

use gowk::store::{Requests, Store, StoreReader};
use gowk::{Info, Key, KeyRules, Lookup, Options, Reader, SlotsPerBucket};

use super::super::failure::Failure;
use super::super::paths::is_store;

/// The filter or store where a verb looks keys up.
pub(in super::super) enum AnyReader {
    Filter(Reader),
    Store(Box<StoreReader>),
}

impl AnyReader {
    pub(in super::super) fn open(path: &Path, options: &Options) -> Result<Self, Failure> {
        if is_store(path) {
            return Ok(Self::Store(Box::new(Store::open_with(path, options)?.read()?)));
        }
        Ok(Self::Filter(options.read(path)?))
    }

    /// The description of a filter, or of a store as if it were one filter.
    pub(in super::super) fn info(&self) -> Result<Info, Failure> {
        match self {
            Self::Filter(reader) => Ok(reader.info()?),
            Self::Store(reader) => Ok(reader.filter_info()?),
        }
    }

    pub(in super::super) fn contains_batch<K: Key + Sync>(&self, keys: &[K]) -> Result<Vec<bool>, Failure> {
        match self {
            Self::Filter(reader) => Ok(reader.contains_batch(keys)?),
            Self::Store(reader) => Ok(reader.contains_batch(keys)?),
        }
    }

    /// The key rules of the filter or store.
    pub(in super::super) fn key_rules(&self, file: &Path) -> Result<KeyRules, Failure> {
        match self {
            Self::Filter(reader) => {
                reader.info()?.key_rules.ok_or_else(|| Failure::UnknownRules { file: file.to_owned() })
            }
            Self::Store(reader) => Ok(reader.store().description().key_rules),
        }
    }

    pub(in super::super) fn slots_per_bucket(&self) -> Result<SlotsPerBucket, Failure> {
        match self {
            Self::Filter(reader) => Ok(reader.info()?.slots_per_bucket),
            Self::Store(reader) => Ok(reader.store().description().slots_per_bucket),
        }
    }

    /// The requests to the server of a store in a bucket.
    pub(in super::super) fn requests(&self) -> Option<Requests> {
        match self {
            Self::Filter(_) => None,
            Self::Store(reader) => reader.store().requests(),
        }
    }

    pub(in super::super) fn count(&self, key: &[u8]) -> Result<u32, Failure> {
        match self {
            Self::Filter(reader) => Ok(reader.count(key)?),
            Self::Store(reader) => Ok(reader.count(key)?),
        }
    }
}
