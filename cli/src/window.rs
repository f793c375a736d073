//! Further filters and stores that `gowk dedup` looks into: what any of them has is not new.
//!
//! They are only read. Each key goes into the first filter all the same, so that a window of several days forgets a key only
//! once it has not come for that long.

use std::path::{Path, PathBuf};

use gowk::ingest::Item;
use gowk::{KeyRules, Options};

use super::failure::Failure;
use super::paths::is_same;
use super::store::AnyReader;

#[derive(Default)]
pub(super) struct Window(Vec<(PathBuf, AnyReader)>);

impl Window {
    /// Fails if one is not there, or is the filter that keys go into.
    pub(super) fn open(files: &[PathBuf], into: &Path, options: &Options) -> Result<Self, Failure> {
        let open = |file: &PathBuf| match is_same(file, into) {
            true => Err(Failure::WindowOfItself { file: file.clone() }),
            false => Ok((file.clone(), AnyReader::open(file, options)?)),
        };
        files.iter().map(open).collect::<Result<_, _>>().map(Self)
    }

    /// Fails if one of them takes keys by other rules than the filter that they go into.
    pub(super) fn check_rules(&self, rules: Option<KeyRules>, into: &Path) -> Result<(), Failure> {
        self.0.iter().try_for_each(|(file, reader)| match Some(reader.key_rules(file)?) == rules {
            true => Ok(()),
            false => Err(Failure::OtherRules { file: file.clone(), other: into.to_owned() }),
        })
    }

    /// Which of the keys one of them has; empty if there are no others.
    pub(super) fn known(&self, keys: &[Item<'_>]) -> Result<Vec<bool>, Failure> {
        let mut known = if self.0.is_empty() { Vec::new() } else { vec![false; keys.len()] };
        for (_, reader) in &self.0 {
            let left = keys.iter().zip(&mut known).filter(|(_, known)| !**known);
            let (left, places): (Vec<Item<'_>>, Vec<&mut bool>) =
                left.map(|(key, known)| (*key, known)).unzip();
            let found = reader.contains_batch(&left)?;
            places.into_iter().zip(found).for_each(|(known, found)| *known = found);
        }
        Ok(known)
    }
}
