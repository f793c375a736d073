//! The outputs of a run, as a filter remembers them. Each commit holds how long they were, so that a run after a crash
//! can cut off what was written after the last commit.
//!
//! The entry `gowk/outputs` of the metadata has the filter's uuid, and for each output the hash of its canonical path, its
//! length, and the hash of its last 4096 bytes, all u64 in little-endian order. The hashes are XXH3-64 with seed 0.
//!
//! Invariants:
//!
//! 1. Nothing is written to an output before a commit names it and its length.
//! 2. The last commit of a run that ends well no longer names its outputs: what others append to them is never cut off.
//! 3. A copy of the filter, which has another uuid, cuts off nothing: its outputs may have grown since. Nor does a filter
//!    cut an output that a run into another filter has appended to since.

use gowk_ingest::Destination;

use crate::failure::Failure;
use crate::output::{Output, Written};

/// The entry of the metadata.
const ENTRY: &str = "gowk/outputs";
/// The most outputs that are remembered of runs that did not end well. Beyond that, the oldest is forgotten.
const MOST: usize = 64;
const UUID: usize = 16;
const LENGTH: usize = 24;

/// The outputs of runs that did not end well, the oldest first.
#[derive(Default)]
pub(super) struct Outputs(Vec<Written>);

impl Outputs {
    /// Makes these outputs continue where the last commit left them, and commits that this run writes to them. For a
    /// store, which is committed once and at the end, does neither.
    pub(super) fn claim<'a>(
        destination: &mut Destination,
        outputs: impl Iterator<Item = &'a mut Output>,
    ) -> Result<Self, Failure> {
        let (owner, mut all) = (destination.owner(ENTRY)?, Self::of(destination)?);
        let mut claimed: Vec<&mut Output> = outputs.collect();
        for output in &mut claimed {
            output.go_on(owner, output.place().and_then(|place| all.get(place)))?;
        }
        if all.remember(destination, claimed.into_iter(), false)? {
            destination.commit()?;
        }
        Ok(all)
    }

    /// Whether no output is remembered.
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The outputs that a filter remembers.
    fn of(destination: &Destination) -> Result<Self, Failure> {
        let Some(uuid) = destination.uuid()? else { return Ok(Self::default()) };
        let entry = destination.entry(ENTRY)?.unwrap_or_default();
        Ok(entry.strip_prefix(&uuid).and_then(decoded).unwrap_or_default())
    }

    /// The output at this path, if the run that wrote it did not end well.
    fn get(&self, path: u64) -> Option<Written> {
        self.0.iter().find(|output| output.path == path).copied()
    }

    /// Makes the next commit remember these outputs, or forget them at the end of a run. False if none of them is a file,
    /// and for a store.
    pub(super) fn remember<'a>(
        &mut self,
        destination: &mut Destination,
        outputs: impl Iterator<Item = &'a mut Output>,
        is_end: bool,
    ) -> Result<bool, Failure> {
        let Some(uuid) = destination.uuid()? else { return Ok(false) };
        let mut changed = false;
        for output in outputs {
            let Some(written) = output.written()? else { continue };
            self.0.retain(|other| other.path != written.path);
            self.0.extend((!is_end).then_some(written));
            changed = true;
        }
        if changed {
            let first = self.0.len().saturating_sub(MOST);
            self.0.drain(..first);
            destination.set_entry(ENTRY, (!self.0.is_empty()).then(|| encoded(uuid, &self.0)))?;
        }
        Ok(changed)
    }
}

fn encoded(uuid: [u8; UUID], outputs: &[Written]) -> Vec<u8> {
    let numbers = outputs.iter().flat_map(|Written { path, length, tail }| [path, length, tail]);
    uuid.into_iter().chain(numbers.flat_map(|number| number.to_le_bytes())).collect()
}

fn decoded(bytes: &[u8]) -> Option<Outputs> {
    let number = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.try_into().ok()?));
    let output = |bytes: &[u8]| {
        let (path, rest) = bytes.split_at_checked(8)?;
        let (length, tail) = rest.split_at_checked(8)?;
        Some(Written { path: number(path)?, length: number(length)?, tail: number(tail)? })
    };
    bytes.chunks(LENGTH).map(output).collect::<Option<_>>().map(Outputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_and_anything_else_names_no_outputs() {
        let outputs = [1, 2].map(|n| Written { path: n, length: n << 40, tail: !n });
        let bytes = encoded([7; UUID], &outputs);
        assert_eq!(bytes.len(), UUID + 2 * LENGTH);
        let entry = bytes.strip_prefix(&[7; UUID]).unwrap();
        assert_eq!(decoded(entry).unwrap().0, outputs);
        for cut in (0..entry.len()).filter(|cut| !cut.is_multiple_of(LENGTH)) {
            assert!(decoded(&entry[..cut]).is_none(), "{cut}");
        }
    }
}
