//! How programs that read keys from text change them before hashing. `format-spec/README.md`, section 5.3.2.

use std::borrow::Cow;
use std::fmt;

/// How the tool and ingest jobs change a key before they hash it: fixed when the filter is created.
///
/// They are stored in the filter so that all runs agree: a key that was inserted without regard to case is found only if
/// it is looked up in the same way. The library's own calls do not change keys. A program that shares a filter with the
/// tool first applies [`normal`](Self::normal) of [`Info::key_rules`](crate::Info::key_rules).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct KeyRules {
    /// Cut off ASCII white space at both ends of a key.
    pub trim: bool,
    /// Treat keys that differ only in upper and lower case as one key.
    pub ignore_case: Option<Case>,
}

/// The letters whose case is ignored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum Case {
    /// A to Z.
    Ascii,
    /// All letters of Unicode in keys that are UTF-8; A to Z in other keys.
    Unicode,
}

impl KeyRules {
    /// The key after these rules: the bytes to hash.
    ///
    /// ```
    /// use gowk::{Case, KeyRules};
    ///
    /// let rules = KeyRules { trim: true, ignore_case: Some(Case::Ascii) };
    /// assert_eq!(&*rules.normal(b" Spam\r"), b"spam");
    /// ```
    #[inline]
    pub fn normal<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        if self.is_plain() { key.into() } else { self.changed(key) }
    }

    #[inline(never)]
    fn changed<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        let key = if self.trim { key.trim_ascii() } else { key };
        let text = match self.ignore_case {
            None => return key.into(),
            Some(Case::Ascii) => None,
            Some(Case::Unicode) => str::from_utf8(key).ok(),
        };
        text.map_or_else(|| key.to_ascii_lowercase(), |text| text.to_lowercase().into_bytes()).into()
    }

    /// Whether the rules leave every key unchanged.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// The form in metadata and in stores: words with one space between; empty if keys are not changed.
    pub(crate) fn encode(self) -> String {
        let case = self.ignore_case.map(|case| match case {
            Case::Ascii => "ignore-case=ascii",
            Case::Unicode => "ignore-case=unicode",
        });
        let words: Vec<&str> = self.trim.then_some("trim").into_iter().chain(case).collect();
        words.join(" ")
    }

    /// The inverse of `encode`.
    pub(crate) fn decode(text: &[u8]) -> Option<Self> {
        let cases = [None, Some(Case::Ascii), Some(Case::Unicode)];
        let all =
            [false, true].into_iter().flat_map(|trim| cases.map(|ignore_case| Self { trim, ignore_case }));
        all.into_iter().find(|rules| rules.encode().as_bytes() == text)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for KeyRules {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.encode())
    }
}

impl fmt::Display for KeyRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let case = self.ignore_case.map(|case| match case {
            Case::Ascii => "without regard to the case of A to Z",
            Case::Unicode => "without regard to case",
        });
        match (self.trim, case) {
            (false, None) => f.write_str("as they are"),
            (true, None) => f.write_str("trimmed"),
            (false, Some(case)) => f.write_str(case),
            (true, Some(case)) => write!(f, "trimmed and {case}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_back_and_others_are_not_known() {
        let mut seen = std::collections::BTreeSet::new();
        for trim in [false, true] {
            for ignore_case in [None, Some(Case::Ascii), Some(Case::Unicode)] {
                let rules = KeyRules { trim, ignore_case };
                assert_eq!(KeyRules::decode(rules.encode().as_bytes()), Some(rules));
                assert!(seen.insert(rules.encode()) && rules.is_plain() == rules.encode().is_empty());
            }
        }
        for unknown in ["", "trim ", "ignore-case", "ignore-case=ascii trim", "Trim", "\u{e9}"] {
            let known = KeyRules::decode(unknown.as_bytes());
            assert_eq!(known.is_some(), unknown.is_empty(), "{unknown}");
        }
    }

    #[test]
    fn keys_that_are_one_have_one_form() {
        let form = |trim, ignore_case, key: &str| {
            String::from_utf8(KeyRules { trim, ignore_case }.normal(key.as_bytes()).into_owned()).unwrap()
        };
        assert_eq!(form(false, None, " A\r"), " A\r");
        assert_eq!(form(true, None, "\t A b \r\n"), "A b");
        assert_eq!(form(false, Some(Case::Ascii), "\u{c4}Bc"), "\u{c4}bc");
        assert_eq!(form(true, Some(Case::Unicode), " \u{c4}Bc"), "\u{e4}bc");
        let rules = KeyRules { trim: false, ignore_case: Some(Case::Unicode) };
        assert_eq!(&*rules.normal(b"\xffA"), b"\xffa");
    }
}
