//! What a key is, for programs that take keys out of text. `format-spec/README.md`, section 5.3.2.

use std::borrow::Cow;
use std::fmt;

/// What the tool and ingest jobs make of a key before a filter sees it: fixed when the filter is created.
///
/// A filter has them so that all runs agree: a key that was inserted without regard to case is found only if it is looked
/// up so. The library's own calls take keys as they are given; a program that shares a filter with the tool applies
/// [`normal`](Self::normal) of [`Info::key_rules`](crate::Info::key_rules) first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct KeyRules {
    /// ASCII white space around a key does not belong to it.
    pub trim: bool,
    /// Keys that differ in upper and lower case are one.
    pub ignore_case: Option<Case>,
}

/// Which letters have upper and lower case.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Case {
    /// A to Z.
    Ascii,
    /// All that Unicode knows, in keys that are UTF-8; A to Z in others.
    Unicode,
}

impl KeyRules {
    /// The key as it counts.
    ///
    /// ```
    /// use gowk::{Case, KeyRules};
    ///
    /// let rules = KeyRules { trim: true, ignore_case: Some(Case::Ascii) };
    /// assert_eq!(&*rules.normal(b" Spam\r"), b"spam");
    /// ```
    pub fn normal<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        let key = if self.trim { key.trim_ascii() } else { key };
        match (self.ignore_case, str::from_utf8(key)) {
            (None, _) => key.into(),
            (Some(Case::Unicode), Ok(text)) => text.to_lowercase().into_bytes().into(),
            (Some(_), _) => key.to_ascii_lowercase().into(),
        }
    }

    /// Whether keys are taken as they are.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// As in metadata and version files: words with a space between; empty for keys as they are.
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
