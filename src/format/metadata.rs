//! Names and bytes that a filter carries for its users, committed together with the keys.

use std::path::Path;

use super::layout::METADATA_LIMIT;
use crate::cuckoo::KeyRules;
use crate::error::{Error, Expected, Result};

/// How many bytes precede the name and the value of each entry: two lengths.
const ENTRY_HEADER: usize = 8;

/// The name of the entry that holds the rules for keys.
const KEY_RULES: &str = "gowk/key";

/// A small map from name to bytes, at most 48 KiB in all, opaque to the filter.
///
/// It is committed atomically with the keys, and survives doublings. Use it for data that must agree with the inserted
/// keys, such as the position in an input.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Metadata {
    /// Sorted by name.
    entries: Vec<(String, Vec<u8>)>,
}

impl Metadata {
    /// The largest [`encoded_length`](Self::encoded_length) that can be committed: 49,152 bytes.
    pub const LIMIT: usize = METADATA_LIMIT;

    /// The bytes stored under `name`.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.entries.get(self.find(name).ok()?).map(|(_, value)| value.as_slice())
    }

    /// Stores `value` under `name`, replacing an earlier value. The commit checks whether all entries fit.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) {
        let entry = (name.into(), value.into());
        match self.find(&entry.0) {
            Ok(place) => self.entries[place] = entry,
            Err(place) => self.entries.insert(place, entry),
        }
    }

    /// Removes `name`, and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<Vec<u8>> {
        Some(self.entries.remove(self.find(name).ok()?).1)
    }

    /// The index of `name`; or, as the error, the index at which to insert it.
    fn find(&self, name: &str) -> Result<usize, usize> {
        self.entries.binary_search_by(|(other, _)| other.as_str().cmp(name))
    }

    /// All entries, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.entries.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// The rules for keys that the filter was created with; `None` if this build does not know them.
    pub(crate) fn key_rules(&self) -> Option<KeyRules> {
        self.get(KEY_RULES).map_or(Some(KeyRules::default()), KeyRules::decode)
    }

    pub(crate) fn set_key_rules(&mut self, rules: KeyRules) {
        if !rules.is_plain() {
            self.set(KEY_RULES, rules.encode());
        }
    }

    /// The bytes that all entries take when encoded; at most 49,152 can be committed.
    pub fn encoded_length(&self) -> usize {
        self.entries.iter().map(|(name, value)| ENTRY_HEADER + name.len() + value.len()).sum()
    }

    /// The bytes of `format-spec/README.md`, section 5.3; [`Error::MetadataFull`] if they exceed the limit.
    pub(crate) fn encode(&self, path: &Path) -> Result<Vec<u8>> {
        let needed = self.encoded_length();
        let mut bytes = Vec::with_capacity(needed.min(METADATA_LIMIT));
        for (name, value) in &self.entries {
            let (Ok(name_length), Ok(value_length), true) =
                (u16::try_from(name.len()), u32::try_from(value.len()), needed <= METADATA_LIMIT)
            else {
                let limit = METADATA_LIMIT;
                return Err(Error::MetadataFull { path: path.to_owned(), needed, limit });
            };
            bytes.extend_from_slice(&name_length.to_le_bytes());
            bytes.extend_from_slice(&[0; 2]);
            bytes.extend_from_slice(&value_length.to_le_bytes());
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(value);
        }
        Ok(bytes)
    }

    /// The inverse of `encode`. The names must ascend, and the last entry must end where the bytes end.
    pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<Self> {
        let mut entries = Vec::<(String, Vec<u8>)>::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let found = (bytes.len() - rest.len()) as u64;
            let entry =
                take_entry(&mut rest).filter(|(name, _)| entries.last().is_none_or(|(last, _)| last < name));
            let Some(entry) = entry else {
                let expected = Expected::Words("the end of well-formed entries");
                return Err(Error::Field { path: path.to_owned(), field: "metadata", found, expected });
            };
            entries.push(entry);
        }
        Ok(Self { entries })
    }
}

fn take_entry(rest: &mut &[u8]) -> Option<(String, Vec<u8>)> {
    let (header, after) = rest.split_first_chunk::<ENTRY_HEADER>()?;
    let [n0, n1, 0, 0, v0, v1, v2, v3] = *header else { return None };
    let name_length = usize::from(u16::from_le_bytes([n0, n1]));
    let value_length = u32::from_le_bytes([v0, v1, v2, v3]) as usize;
    let (name, after) = after.split_at_checked(name_length)?;
    let (value, after) = after.split_at_checked(value_length)?;
    *rest = after;
    Some((std::str::from_utf8(name).ok()?.to_owned(), value.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut metadata = Metadata::default();
        for (name, value) in entries {
            metadata.set(*name, *value);
        }
        let bytes = metadata.encode(Path::new("f")).unwrap();
        assert_eq!(Metadata::decode(Path::new("f"), &bytes).unwrap(), metadata);
        assert_eq!(bytes.len(), metadata.encoded_length());
        bytes
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        encoded(&[]);
        encoded(&[("", b"")]);
        encoded(&[("job", b"\x00\xff"), ("a", b""), ("b", &[7; 40_000])]);
    }

    #[test]
    fn more_than_the_limit_is_refused_and_the_limit_itself_fits() {
        encoded(&[("a", &vec![1; METADATA_LIMIT - ENTRY_HEADER - 1])]);
        let mut metadata = Metadata::default();
        metadata.set("a", vec![1; METADATA_LIMIT - ENTRY_HEADER]);
        assert!(matches!(metadata.encode(Path::new("f")), Err(Error::MetadataFull { needed: 49_153, .. })));
        let mut metadata = Metadata::default();
        metadata.set("n".repeat(70_000), []);
        assert!(matches!(metadata.encode(Path::new("f")), Err(Error::MetadataFull { .. })));
    }

    #[test]
    fn every_cut_and_any_disorder_is_rejected() {
        let bytes = encoded(&[("a", b"1"), ("b", b"22")]);
        let first = ENTRY_HEADER + 2;
        for cut in (1..bytes.len()).filter(|cut| *cut != first) {
            assert!(Metadata::decode(Path::new("f"), &bytes[..cut]).is_err(), "{cut}");
        }
        let swapped = [&bytes[first..], &bytes[..first]].concat();
        assert!(Metadata::decode(Path::new("f"), &swapped).is_err());
        let doubled = [&bytes[..first], &bytes[..first]].concat();
        assert!(Metadata::decode(Path::new("f"), &doubled).is_err());
    }
}
