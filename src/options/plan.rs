//! The size and rate of a filter, before it is created.

use super::Options;
use crate::cuckoo::{Forgetting, Kind, Newest, Retention, SlotsPerBucket};
use crate::error::Result;

/// The filter that [`Options`] would create. Computing it creates and reads no file.
///
/// ```
/// let plan = gowk::Options::new().capacity(50_000_000).false_positive_rate(1e-3).plan()?;
/// assert_eq!(plan.slots_per_bucket.get(), 4);
/// assert!(plan.bytes_per_key > 2.1 && plan.bytes_per_key < 2.2);
/// # Ok::<(), gowk::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Plan {
    /// The filter's kind.
    pub kind: Kind,
    /// Slots in each bucket.
    pub slots_per_bucket: SlotsPerBucket,
    /// Regions; each has 8192 buckets.
    pub regions: u64,
    /// Slots of all buckets.
    pub slots: u64,
    /// How many bytes the file has. The journal beside it holds up to 64 MiB of commits, or one larger commit.
    pub file_length: u64,
    /// How many distinct keys fit into the filter before it must double.
    pub capacity: u64,
    /// Bytes of the file, divided by the capacity.
    pub bytes_per_key: f64,
    /// The expected false-positive rate at full load, before any doubling. It follows from the slots per bucket, and is
    /// at most the requested rate.
    pub false_positive_rate: f64,
    /// When the filter forgets keys; `None` if it never does, or if it keeps a number of newest keys.
    pub retention: Option<Retention>,
    /// How many of the newest keys the filter keeps, if it is created so.
    pub keep_newest: Option<Newest>,
}

impl Options {
    /// The filter that these options would create. Fails with [`Error::Option`](crate::Error::Option) as creating it
    /// would.
    pub fn plan(&self) -> Result<Plan> {
        let geometry = self.geometry()?;
        let (file_length, capacity) = (geometry.file_length(), self.keys_to_hold(geometry.width)?);
        let forgetting = self.forgetting(geometry.width)?;
        Ok(Plan {
            kind: self.kind.unwrap_or_default(),
            slots_per_bucket: geometry.slots(),
            regions: geometry.regions(),
            slots: geometry.slots_in_all(),
            file_length,
            capacity,
            bytes_per_key: file_length as f64 / capacity as f64,
            false_positive_rate: geometry.width.false_positive_rate(),
            retention: forgetting.and_then(Forgetting::retention),
            keep_newest: forgetting.and_then(Forgetting::newest),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_created_as_it_was_planned() {
        let dir = tempfile::tempdir().unwrap();
        for (number, rate) in [2e-9, 1e-5, 1e-3, 1e-2, 0.03, 0.1].into_iter().enumerate() {
            let options = Options::new().capacity(30_000 * (1 + number as u64)).false_positive_rate(rate);
            let plan = options.plan().unwrap();
            let path = dir.path().join(number.to_string());
            let mut writer = options.create(&path).unwrap();
            writer.commit().unwrap();
            let info = writer.info().unwrap();
            assert_eq!((plan.regions, plan.slots), (info.regions, info.slots));
            assert_eq!((plan.slots_per_bucket, plan.capacity), (info.slots_per_bucket, info.capacity));
            assert_eq!(plan.file_length, path.metadata().unwrap().len());
            assert!(plan.false_positive_rate <= rate);
        }
        assert!(Options::new().capacity(0).plan().is_err());
        assert!(Options::new().false_positive_rate(1.0).plan().is_err());
    }
}
