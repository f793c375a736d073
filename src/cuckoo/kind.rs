//! The kinds of filters: `format-spec/README.md`, section 4.4.

use std::fmt;

/// The kind of a filter: a set, a counting filter or a forgetting one. Fixed when the filter is created, and kept in its
/// file.
///
/// | kind | made by | `insert(key)` | `remove(key)` | `merge` |
/// |---|---|---|---|---|
/// | [`Set`](Self::Set) | nothing | stores it unless it is found | refused with [`Error::Kind`](crate::Error::Kind) | union |
/// | [`Counting`](Self::Counting) | [`Options::counting`](crate::Options::counting) | stores one more copy | takes one copy | sum |
/// | [`Forgetting`](Self::Forgetting) | [`Options::forget_after`](crate::Options::forget_after) | stores it unless it is found | refused | union, each key as long as either keeps it |
///
/// In all kinds, an insert returns whether the key was absent before.
///
/// In a set, a new key that matches the entry of another one counts as found, and is not stored. If the other key could
/// be removed, both would be lost. So a set refuses removals, and a counting filter stores every copy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Kind {
    /// Holds each key once, and removes none. Tells new keys from known ones.
    #[default]
    Set,
    /// Holds copies of keys. They can be counted and removed.
    Counting,
    /// Holds each key for some time, then forgets it. For endless streams.
    Forgetting,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Set, Self::Counting, Self::Forgetting];

    /// How many copies of a key the filter holds, if `copies` matching ones were counted: at most 1 in filters that do
    /// not count.
    /// count.
    #[inline(always)]
    pub(crate) const fn capped(self, copies: u32) -> u32 {
        match self {
            Self::Set | Self::Forgetting if copies > 1 => 1,
            _ => copies,
        }
    }

    /// The kind's name in version files, jobs and reports: `set`, `counting` or `forgetting`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Counting => "counting",
            Self::Forgetting => "forgetting",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Set => "set",
            Self::Counting => "counting filter",
            Self::Forgetting => "forgetting filter",
        })
    }
}
