//! From a client's key to the name of a file, and back.

use std::path::Path;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// All other bytes of a key become `%XX`.
const KEPT: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

const SUFFIX: &str = ".gowk";

/// The longest name that file systems allow, minus what gowk appends for side files.
const LONGEST: usize = 255 - 32;

/// Why a key has no file name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum BadKey {
    #[error("the key is empty; give the filter a name")]
    Empty,
    #[error("the key is too long for the name of a file: at most {} bytes, of which each other than a letter, a digit, \
             '-', '_' and '.' counts as three", LONGEST - SUFFIX.len())]
    TooLong,
}

/// The name of the file of a key: `seen%3Aurls.gowk` for `seen:urls`.
pub(crate) fn file_of(key: &[u8]) -> Result<String, BadKey> {
    let encoded = percent_encode(key, &KEPT).to_string();
    // Neither a hidden file nor `..`.
    let encoded = match encoded.strip_prefix('.') {
        Some(rest) => format!("%2E{rest}"),
        None => encoded,
    };
    match encoded.len() + SUFFIX.len() {
        _ if encoded.is_empty() => Err(BadKey::Empty),
        0..=LONGEST => Ok(encoded + SUFFIX),
        _ => Err(BadKey::TooLong),
    }
}

/// The key of a file; `None` if no key has this name.
pub(crate) fn key_of(file: &Path) -> Option<Vec<u8>> {
    let name = file.file_name()?.to_str()?;
    let key: Vec<u8> = percent_decode_str(name.strip_suffix(SUFFIX)?).collect();
    // Refused: `a%41.gowk` would be a second name of `aA`.
    (file_of(&key).ok()? == name).then_some(key)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_have_readable_names_inside_the_folder() {
        assert_eq!(file_of(b"seen:urls").unwrap(), "seen%3Aurls.gowk");
        assert_eq!(file_of(b"../a").unwrap(), "%2E.%2Fa.gowk");
        assert_eq!(file_of(b""), Err(BadKey::Empty));
        assert_eq!(file_of(&[0; 100]), Err(BadKey::TooLong));
        for name in ["a%41.gowk", ".gowk", "a.gowk-lock", "a", "a%3a.gowk", "..gowk"] {
            assert_eq!(key_of(Path::new(name)), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_key_and_its_file_name_each_other(key in prop::collection::vec(any::<u8>(), 1..70)) {
            let file = file_of(&key).unwrap();
            prop_assert!(!file.starts_with('.') && !file.contains('/'));
            prop_assert_eq!(key_of(Path::new(&file)), Some(key));
        }
    }
}
