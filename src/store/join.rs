//! One filter out of a store: the regions of all shards, one after the other.

use std::path::Path;

use super::error::Result;
use super::reader::StoreReader;
use crate::error::IoContext;
use crate::system::new_uuid;
use crate::{Options, Reader};

impl StoreReader {
    /// Joins all shards of this version into one filter at `destination`, where there must be none. It answers as the
    /// store does, false positives included: see [`Reader::join_to`]. [Copies](crate::store::Store::copies) are not read.
    ///
    /// `progress` is told the regions written, and all there are.
    pub fn join_to(&self, destination: impl AsRef<Path>, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        // Shards that have no file yet get one for as long as this takes.
        let folder = tempfile::tempdir().at(&std::env::temp_dir(), "create a folder in")?;
        let description = self.store().description();
        let reader = |shard| -> Result<Reader> {
            if let Some(filter) = self.own_shard(shard)? {
                return Ok(filter);
            }
            let path = folder.path().join(format!("{shard}.gowk"));
            description.options(shard).working_copy(&path, new_uuid(&path)?, None)?.seal()?;
            Ok(Options::new().sealed(true).read(&path)?)
        };
        let shards: Vec<Reader> = (0..description.shards).map(reader).collect::<Result<_>>()?;
        Ok(Reader::join_to(&shards, destination, progress)?)
    }
}
