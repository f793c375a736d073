//! The filled filters that are measured.

use std::collections::hash_map::DefaultHasher;
use std::path::Path;

use gowk::{Batches, Growth, Options, SlotsPerBucket};

use crate::Outcome;
use crate::keys::{Key, keys};

pub type Cuckoo = cuckoofilter::CuckooFilter<DefaultHasher>;

/// Keys of a batch.
pub const BATCH: u64 = 4 << 20;

/// Creates a filter of that size with four slots a bucket, filled to `load`. Returns the number of keys.
pub fn create(path: &Path, mebibytes: u64, load: f64) -> Outcome<u64> {
    let slots = mebibytes << 19;
    let count = (slots as f64 * load) as u64;
    // A capacity fills the filter to nearly 0.93.
    let capacity = (slots as f64 * 0.929) as u64;
    // Removals are measured, so it is a counting filter.
    let options = Options::new().counting().capacity(capacity).slots_per_bucket(SlotsPerBucket::Four);
    let mut writer = options.growth(Growth::Never).create(path)?;
    let mut from = 0;
    while from < count {
        let until = count.min(from + BATCH);
        writer.insert_batch(&keys(from..until))?.complete()?;
        from = until;
    }
    writer.commit()?;
    eprintln!("created {} with load {:.4}", path.display(), writer.info()?.load);
    writer.close()?;
    Ok(count)
}

/// The `cuckoofilter` crate's filter with as many keys.
pub fn cuckoofilter(count: u64) -> Outcome<Cuckoo> {
    let mut filter = Cuckoo::with_capacity(count as usize);
    let mut from = 0;
    while from < count {
        let until = count.min(from + BATCH);
        for key in keys(from..until) {
            insert_cuckoo(&mut filter, &key)?;
        }
        from = until;
    }
    Ok(filter)
}

pub fn insert_cuckoo(filter: &mut Cuckoo, key: &Key) -> Outcome<()> {
    filter.add(key).map_err(|error| format!("cuckoofilter: {error:?}").into())
}
