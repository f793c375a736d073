//! Changing how a filter may grow.

use super::writer::Writer;
use crate::error::{Error, Result};
use crate::format::Growth;
use crate::options::check_rate;

/// How far a filter may grow, and whether it does so by itself.
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
    /// The bytes the file may have at most; `None` for no limit.
    pub max_file_size: Option<u64>,
    /// The expected rate beyond which it does not double, above 0 and below 1; `None` for no limit.
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

    /// Changes how far the filter may grow: at once, whatever becomes of the open transaction. A filter that is not
    /// committed yet gets the limits with its first commit. Readers that are open already show the old ones.
    ///
    /// Fails with [`Error::Option`] where a limit is out of range or below what the file has already, and otherwise
    /// as [`checkpoint`](Self::checkpoint) does.
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
