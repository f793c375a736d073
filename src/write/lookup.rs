//! Lookups through a writer: they see its open transaction.

use super::writer::Writer;
use crate::cuckoo::Key;
use crate::error::{Error, Result};
use crate::read::Lookup;

/// Lookups see the open transaction.
impl Lookup for Writer {
    type Error = Error;

    #[inline]
    fn contains<K: Key>(&self, key: K) -> Result<bool> {
        Self::contains(self, key)
    }

    #[inline]
    fn count<K: Key>(&self, key: K) -> Result<u32> {
        Self::count(self, key)
    }

    fn contains_batch<K: Key + Sync>(&self, keys: &[K]) -> Result<Vec<bool>> {
        let hasher = self.hasher()?;
        let contains = |key: &K| match key.hash(hasher) {
            Some(hash) => Self::contains(self, hash),
            None => Err(Error::CallerHashes { path: self.path().to_owned() }),
        };
        keys.iter().map(contains).collect()
    }
}

#[cfg(test)]
mod tests {
    //! Invariant checked: code over any `Lookup` sees a writer's transaction, and a reader's commit.

    use super::*;
    use crate::{HashKind, Options, Reader};

    fn answers<L: Lookup>(filter: &L) -> (bool, u32, Vec<bool>) {
        let found = filter.contains("twice").unwrap();
        (found, filter.count("twice").unwrap(), filter.contains_batch(&["twice", "absent"]).unwrap())
    }

    #[test]
    fn a_writer_is_looked_up_as_a_reader_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut writer = Options::new().counting().capacity(100).open(&path).unwrap();
        writer.commit().unwrap();
        writer.insert("twice").unwrap();
        writer.insert("twice").unwrap();
        assert_eq!(answers(&writer), (true, 2, vec![true, false]));
        assert_eq!(answers(&Reader::open(&path).unwrap()), (false, 0, vec![false, false]));
        writer.commit().unwrap();
        assert_eq!(answers(&Reader::open(&path).unwrap()), (true, 2, vec![true, false]));
    }

    #[test]
    fn bytes_are_refused_where_the_caller_hashes() {
        let dir = tempfile::tempdir().unwrap();
        let writer = Options::new().hash(HashKind::Caller).capacity(100).open(dir.path().join("f")).unwrap();
        let refused = Lookup::contains_batch(&writer, &["key"]);
        assert!(matches!(refused, Err(Error::CallerHashes { .. })), "{refused:?}");
        assert!(writer.contains_batch::<&str>(&[]).unwrap().is_empty());
    }
}
