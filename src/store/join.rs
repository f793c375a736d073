//! Makes one filter out of a store: the regions of all shards, one after the other.

use std::path::Path;

use super::error::Result;
use super::fold::WorkingCopy;
use super::reader::StoreReader;
use crate::error::IoContext;
use crate::{Options, Reader};

impl StoreReader {
    /// Joins all shards of this version, with their pending records, into a new filter at `destination`. The filter
    /// answers as the store does, false positives included: see [`Reader::join_to`]. Does not read
    /// [copies](crate::store::Store::copies).
    ///
    /// `progress` receives the number of regions written, and of all.
    pub fn join_to(&self, destination: impl AsRef<Path>, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<()> {
        // A shard without a file, or with pending records, is folded into a temporary file.
        let folder = tempfile::tempdir().at(&std::env::temp_dir(), "create a folder in")?;
        let strict = self.store().read_strictly(self.version().clone());
        let reader = |shard| -> Result<Reader> {
            if self.pending(shard).next().is_none()
                && !self.is_past(shard)
                && let Some(filter) = self.own_shard(shard)?
            {
                return Ok(filter);
            }
            let path = WorkingCopy::open(&strict, Some(folder.path()), shard, false)?.seal_here()?;
            Ok(Options::new().sealed(true).read(&path)?)
        };
        let shards: Vec<Reader> =
            (0..self.store().description().shards).map(reader).collect::<Result<_>>()?;
        Ok(Reader::join_to(&shards, destination, progress)?)
    }
}
