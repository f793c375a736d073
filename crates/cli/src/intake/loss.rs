//! How many new keys `dedup` probably loses: they look like other keys to the filter, and are not printed.

use gowk_ingest::Destination;

use crate::failure::Failure;

/// How many new keys come between two readings of the rate. The rate rises with the load, and only a little over this
/// number of keys.
const EVERY: u64 = 1 << 16;

/// The false-positive rate while keys come, and the expected number of keys lost.
pub(crate) struct Loss {
    /// The rate at the last reading, and the number of new keys until then; `None` if the user did not ask for the loss.
    last: Option<(f64, u64)>,
    lost: f64,
}

impl Loss {
    pub(crate) fn new(is_asked: bool, destination: &Destination) -> Result<Self, Failure> {
        let rate = is_asked.then(|| destination.info().map(|info| info.expected_false_positive_rate));
        Ok(Self { last: rate.transpose()?.map(|rate| (rate, 0)), lost: 0.0 })
    }

    /// Reads the rate, if enough new keys came since the last reading; `new` counts all new keys. The rate of a store is
    /// known only before and after its commit.
    pub(crate) fn look(&mut self, destination: &Destination, new: u64) {
        if self.last.is_some_and(|(_, before)| new - before >= EVERY) && !destination.is_store() {
            self.end(destination, new);
        }
    }

    /// Reads the rate now.
    pub(crate) fn end(&mut self, destination: &Destination, new: u64) {
        let Some((rate, before)) = self.last else { return };
        let now = destination.info().map_or(rate, |info| info.expected_false_positive_rate);
        // Of N new keys, N r are lost, and N (1 - r) are printed and counted as new.
        let mean = rate.midpoint(now).min(0.99);
        self.lost += (new - before) as f64 * mean / (1.0 - mean);
        self.last = Some((now, new));
    }

    /// The expected number of lost keys; `None` if the user did not ask for it.
    pub(crate) fn expected(&self) -> Option<f64> {
        self.last.map(|_| self.lost)
    }
}
