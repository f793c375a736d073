//! Further filters and stores that `gowk dedup` looks into: what any of them has is not new.
//!
//! They are only read. Each key goes into the first filter all the same, so that a window of several days forgets a key only
//! once it has not come for that long.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use gowk::ingest::Item;
use gowk::{KeyRules, Options};

use super::failure::Failure;
use super::refused::is_same;
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
    pub(super) fn check_rules(&self, rules: KeyRules, into: &Path) -> Result<(), Failure> {
        self.0.iter().try_for_each(|(file, reader)| match reader.key_rules(file)? == rules {
            true => Ok(()),
            false => Err(Failure::OtherRules { file: file.clone(), other: into.to_owned() }),
        })
    }

    /// Those of the keys that one of them has.
    pub(super) fn known(&self, keys: &[Item<'_>]) -> Result<HashSet<Vec<u8>>, Failure> {
        let mut known = HashSet::new();
        for (_, reader) in &self.0 {
            let left: Vec<Item<'_>> = keys.iter().copied().filter(|key| !known.contains(key.key)).collect();
            let found = left.iter().zip(reader.contains_batch(&left)?).filter(|(_, found)| *found);
            known.extend(found.map(|(key, _)| key.key.to_vec()));
        }
        Ok(known)
    }
}
