//! The names of a store's folders and files, below the store (`format-spec/STORE.md`, section 2).

use std::fmt;

use super::text::{from_hex, hex};

/// How many digits version numbers are padded to, so that names sort as numbers do.
const DIGITS: usize = 12;
/// The highest number that a version can have: the highest that a TOML integer holds.
pub(super) const MAX_VERSION: u64 = i64::MAX as u64;

pub(super) const DESCRIPTION: &str = "store.toml";
pub(super) const VERSIONS: &str = "versions";
pub(super) const SHARDS: &str = "shards";
pub(super) const RUNS: &str = "runs";
pub(super) const INCOMING: &str = "incoming";

/// The name of a version in the folder of versions.
fn version_file(number: u64) -> String {
    format!("{number:0DIGITS$}.toml")
}

pub(super) fn version(number: u64) -> String {
    format!("{VERSIONS}/{}", version_file(number))
}

/// The name after which a listing of `versions` has this version and all later ones. Empty for numbers with more digits,
/// whose names do not sort as numbers do: the listing then has all versions.
pub(super) fn listed_from(number: u64) -> String {
    const LONGER: u64 = 10_u64.pow(DIGITS as u32);
    if number == 0 || number >= LONGER { String::new() } else { version_file(number - 1) }
}

pub(super) fn shard_folder(shard: u32) -> String {
    format!("{SHARDS}/{shard:04}")
}

pub(super) fn shard(shard: u32, name: &Name) -> String {
    format!("{}/{}", shard_folder(shard), name.filter())
}

pub(super) fn run(name: &Name) -> String {
    format!("{RUNS}/{}", name.run())
}

pub(super) fn incoming(file: &str) -> String {
    format!("{INCOMING}/{file}")
}

pub(super) fn version_number(name: &str) -> Option<u64> {
    let number = name.strip_suffix(".toml")?.parse().ok()?;
    (version_file(number) == name && number <= MAX_VERSION).then_some(number)
}

/// The name of a file that an update made: the number of the update's base, and a uuid. The number shows a vacuum whether
/// the update can still be committed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Name {
    pub(super) base: u64,
    pub(super) uuid: [u8; 16],
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0DIGITS$}-{}", self.base, hex(&self.uuid))
    }
}

impl Name {
    /// The name of a filter.
    pub(super) fn filter(&self) -> String {
        format!("{self}.gowk")
    }

    /// The name of a run.
    pub(super) fn run(&self) -> String {
        format!("{self}.run")
    }

    /// The name of the text of an unpublished version.
    pub(super) fn draft(&self) -> String {
        format!("{self}.toml")
    }

    /// The name at the beginning of a file name, and the rest.
    pub(super) fn begin_of(file: &str) -> Option<(Self, &str)> {
        let (base, rest) = file.split_once('-')?;
        let (uuid, rest) = rest.split_at_checked(32)?;
        let name = Self { base: base.parse().ok()?, uuid: from_hex(uuid)? };
        (file.strip_suffix(rest)? == name.to_string() && name.base <= MAX_VERSION).then_some((name, rest))
    }

    /// The name in a run's file name; `None` for any other file name.
    pub(super) fn of_run(file: &str) -> Option<Self> {
        Self::begin_of(file).and_then(|(name, rest)| (rest == ".run").then_some(name))
    }

    /// The name in a filter's file name; `None` for any other file name.
    pub(super) fn of_filter(file: &str) -> Option<Self> {
        Self::begin_of(file).and_then(|(name, rest)| (rest == ".gowk").then_some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_no_others_are() {
        for base in [0, 17, 999_999_999_999, 1_000_000_000_000, MAX_VERSION] {
            let name = Name { base, uuid: [0xab; 16] };
            assert_eq!(Name::of_filter(&name.filter()), Some(name));
            assert_eq!(Name::of_run(&name.run()), Some(name));
            assert_eq!((Name::of_run(&name.filter()), Name::of_filter(&name.run())), (None, None));
            let longer = format!("{name}.gowk-lock");
            assert_eq!(Name::begin_of(&longer), Some((name, ".gowk-lock")));
            assert_eq!(version_number(&version_file(base)), Some(base));
            assert!(listed_from(base) < version_file(base));
            assert!(base < 2 || listed_from(base) >= version_file(base - 1) || listed_from(base).is_empty());
        }
        let uuid = "abababababababababababababababab";
        for wrong in [
            "",
            "17",
            "17-",
            &format!("17-{uuid}.gowk"),
            &format!("+00000000017-{uuid}.gowk"),
            &format!("000000000017-{uuid}"),
            &format!("000000000017-{uuid}.gowk-lock"),
            &format!("000000000017-{}.gowk", uuid.to_uppercase()),
            "000000000017-ababababababababababababababab\u{e9}.gowk",
        ] {
            assert_eq!(Name::of_filter(wrong), None, "{wrong}");
        }
        for wrong in [
            "",
            "17.toml",
            "000000000017",
            "+00000000017.toml",
            "000000000017.toml.tmp",
            "99999999999999999999.toml",
        ] {
            assert_eq!(version_number(wrong), None, "{wrong}");
        }
    }
}
