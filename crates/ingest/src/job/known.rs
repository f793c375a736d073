//! The keys that a job file may have, and the nearest one to a misspelt key.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use crate::error::JobProblem;

/// The known keys, by table; the first table has no name.
pub(super) const KNOWN: [(&str, &str); 5] = [
    ("", "name filter input commit output"),
    (
        "filter",
        "path kind forget_after forget_within refresh keep_newest capacity false_positive_rate slots_per_bucket seed \
         growth max_file_size max_false_positive_rate",
    ),
    (
        "input",
        "paths format field time ttl header delimiter quotes long trim ignore_case skip_empty max_key_length missing settle rotated",
    ),
    ("commit", "every_keys every_seconds"),
    ("output", "new_keys records refused rejects"),
];

/// The first unknown key, in the order of the file, and its place.
pub(super) fn unknown(job: &DeTable<'_>) -> Option<(JobProblem, Range<usize>)> {
    let tables = job.iter().filter_map(|(name, value)| match value.get_ref() {
        DeValue::Table(table) => Some((name.get_ref().as_ref(), table)),
        _ => None,
    });
    let all = std::iter::once(("", job)).chain(tables);
    all.flat_map(|(table, keys)| keys.keys().map(move |key| (table, key)))
        .filter(|(table, key)| {
            of(table).is_some_and(|known| !known.split(' ').any(|known| known == key.get_ref()))
        })
        .min_by_key(|(_, key)| key.span().start)
        .map(|(table, key)| {
            let (span, key) = (key.span(), key.get_ref().to_string());
            let suggestion = nearest(table, &key);
            (JobProblem::UnknownKey { key, table: table.to_owned(), suggestion }, span)
        })
}

fn of(table: &str) -> Option<&'static str> {
    KNOWN.iter().find(|(name, _)| *name == table).map(|(_, keys)| *keys)
}

/// The nearest known key: one of the same table, unless a key of another table is nearer.
fn nearest(table: &str, key: &str) -> String {
    let all = KNOWN.iter().flat_map(|(name, keys)| keys.split(' ').map(move |known| (*name, known)));
    let best = all.min_by_key(|(name, known)| (strsim::damerau_levenshtein(key, known), *name != table));
    match best {
        Some((name, known)) if name == table => format!("`{known}`"),
        Some(("", known)) => format!("[{known}]"),
        Some((name, known)) => format!("`{known}` in [{name}]"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<(String, usize)> {
        let table = DeTable::parse(text).unwrap();
        unknown(table.get_ref()).map(|(problem, span)| (problem.to_string(), span.start))
    }

    #[test]
    fn the_first_unknown_key_is_named_with_the_nearest_one() {
        assert_eq!(found("name = 'a'\n[filter]\npath = 'f'\n[input]\npaths = []\ntrim = true\n"), None);
        let (message, at) = found("name = 'a'\n[filter]\ncapasity = 1\n[input]\nzzz = 1").unwrap();
        assert_eq!(message, "unknown key `capasity` in [filter]; did you mean `capacity`?");
        assert_eq!(at, "name = 'a'\n[filter]\n".len());
        let (message, _) = found("capacity = 1").unwrap();
        assert_eq!(message, "unknown key `capacity`; did you mean `capacity` in [filter]?");
        let (message, _) = found("[inputs]\npaths = []").unwrap();
        assert_eq!(message, "unknown key `inputs`; did you mean `input`?");
        let (message, _) = found("[input]\nevery_key = 1").unwrap();
        assert_eq!(message, "unknown key `every_key` in [input]; did you mean `every_keys` in [commit]?");
    }
}
