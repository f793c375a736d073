//! Several filters and stores into which `gowk check` and `gowk dedup` look: a key is known if any of them has it.
//!
//! They are only read. `dedup` also puts each key into its own filter, so a window of several days forgets a key only
//! when it has not come for that many days.

use std::path::{Path, PathBuf};

use gowk::store::Requests;
use gowk::{KeyRules, Options};
use gowk_ingest::Item;

use super::failure::Failure;
use super::store::AnyReader;

#[derive(Default)]
pub(super) struct Window(Vec<(PathBuf, AnyReader)>);

impl Window {
    /// Opens the filters and stores. Fails if one does not exist.
    pub(super) fn open<'a>(
        files: impl IntoIterator<Item = &'a PathBuf>,
        options: &Options,
    ) -> Result<Self, Failure> {
        let open = |file: &PathBuf| Ok((file.clone(), AnyReader::open(file, options)?));
        files.into_iter().map(open).collect::<Result<_, _>>().map(Self)
    }

    /// The key rules of the first filter or store.
    pub(super) fn rules(&self) -> Result<Option<KeyRules>, Failure> {
        self.0.first().map(|(file, reader)| reader.key_rules(file)).transpose()
    }

    /// The filters and stores.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> + Clone {
        self.0.iter().map(|(file, _)| file.as_path())
    }

    /// Fails if a filter or store has other key rules than `into`, whose rules are `rules`.
    pub(super) fn check_rules(&self, rules: Option<KeyRules>, into: &Path) -> Result<(), Failure> {
        self.0.iter().try_for_each(|(file, reader)| match Some(reader.key_rules(file)?) == rules {
            true => Ok(()),
            false => Err(Failure::OtherRules { file: file.clone(), other: into.to_owned() }),
        })
    }

    /// The requests to servers of stores in buckets; `None` without such a store.
    pub(super) fn requests(&self) -> Option<Requests> {
        let requests = self.0.iter().filter_map(|(_, reader)| reader.requests());
        requests.reduce(|one, other| one + other)
    }

    /// For each key, whether any of the filters and stores has it; empty if there are none.
    pub(super) fn known(&self, keys: &[Item<'_>]) -> Result<Vec<bool>, Failure> {
        let Some(((_, first), others)) = self.0.split_first() else { return Ok(Vec::new()) };
        let mut known = first.contains_batch(keys)?;
        for (_, reader) in others {
            let left = keys.iter().zip(&mut known).filter(|(_, known)| !**known);
            let (left, places): (Vec<Item<'_>>, Vec<&mut bool>) =
                left.map(|(key, known)| (*key, known)).unzip();
            let found = reader.contains_batch(&left)?;
            places.into_iter().zip(found).for_each(|(known, found)| *known = found);
        }
        Ok(known)
    }
}
