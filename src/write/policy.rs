//! Changing how a filter may grow.

use super::writer::Writer;
use crate::error::{Error, Result};
use crate::format::Growth;
use crate::options::check_rate;

/// Whether a filter grows by itself, and how far it may.
///
/// ```no_run
/// let mut writer = gowk::Options::new().open_existing("seen.gowk")?;
/// let limits = writer.limits()?;
/// writer.set_limits(gowk::Limits { max_file_size: Some(8 << 30), ..limits })?;
/// # Ok::<(), gowk::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// Whether the filter doubles itself.
    pub growth: Growth,
    /// The most bytes that the file may have; `None` for no limit.
    pub max_file_size: Option<u64>,
    /// The highest expected rate that a doubled filter may have when it is full again, above 0 and below 1; `None` for
    /// no limit.
    pub max_false_positive_rate: Option<f64>,
}

impl Writer {
    /// How far the filter may grow.
    pub fn limits(&self) -> Result<Limits> {
        let policy = self.state()?.policy;
        Ok(Limits {
            growth: policy.growth,
            max_file_size: Some(policy.max_file_size).filter(|bytes| *bytes != 0),
            max_false_positive_rate: Some(policy.max_rate).filter(|rate| *rate != 0.0),
        })
    }

    /// Changes how far the filter may grow. This takes effect at once, and a rollback does not undo it. A filter without
    /// a first commit gets the limits with that commit. Readers that are already open show the old limits.
    ///
    /// Fails with [`Error::Option`] if a limit is out of range, or if the size limit is below the file's length.
    /// Otherwise fails as [`checkpoint`](Self::checkpoint) does.
    pub fn set_limits(&mut self, limits: Limits) -> Result<()> {
        let Limits { growth, max_file_size, max_false_positive_rate } = limits;
        max_false_positive_rate.map_or(Ok(()), |rate| check_rate("maximal false-positive rate", rate))?;
        let open = self.state_mut()?;
        let length = open.transaction.work.identity().geometry.file_length();
        if let Some(limit) = max_file_size
            && limit < length
        {
            let (option, found) = ("maximal file size", limit.to_string());
            return Err(Error::Option { option, found, expected: "no less than the file has already" });
        }
        open.policy.growth = growth;
        open.policy.max_file_size = max_file_size.unwrap_or(0);
        open.policy.max_rate = max_false_positive_rate.unwrap_or(0.0);
        self.checkpoint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn a_file_may_be_limited_to_the_size_that_it_has_but_to_no_less() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut writer = Options::new().capacity(1000).create(&path).unwrap();
        writer.commit().unwrap();
        let (limits, length) = (writer.limits().unwrap(), path.metadata().unwrap().len());
        let limited = |bytes| Limits { max_file_size: Some(bytes), ..limits };
        assert!(matches!(writer.set_limits(limited(length - 1)), Err(Error::Option { .. })));
        assert_eq!(writer.limits().unwrap(), limits);
        writer.set_limits(limited(length)).unwrap();
        assert_eq!(writer.limits().unwrap(), limited(length));
        assert!(matches!(writer.grow(), Err(Error::Growth { .. })));
    }
}
