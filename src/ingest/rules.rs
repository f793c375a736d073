//! The rules by which keys are found in an input.

use xxhash_rust::xxh3::xxh3_64;

use super::lines::{Found, Skip};
use crate::{Case, KeyRules};

/// The byte between the fields of a key that has several: the unit separator of ASCII.
pub const JOINT: u8 = 0x1f;

/// How keys are found in an input.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Rules {
    /// The format of records, and the part of a record that is the key.
    pub format: Format,
    /// The filter's key rules: how a key is changed before it is hashed.
    pub key: KeyRules,
    /// Whether a record with an empty key is skipped.
    pub skip_empty: bool,
    /// The most bytes that a key may have.
    pub max_key_length: usize,
}

/// The format of records, and the part of a record that is the key.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Format {
    /// Each key ends with this byte.
    Lines(u8),
    /// CSV as RFC 4180 describes it.
    Csv {
        /// The fields of the key, at least one. Several are joined by [`JOINT`].
        columns: Vec<Column>,
        /// Whether the first record is a header: the names of the columns.
        header: bool,
        /// The byte between two fields.
        delimiter: u8,
    },
    /// One JSON object on each line.
    Jsonl {
        /// The names that lead to the key: a field of the line's object, a field of the object in that field, and so
        /// on.
        path: Vec<String>,
    },
    /// A Parquet file. Each row is a record, and the key is its value in one column: the bytes of a string or binary
    /// value, an integer as decimal text, a boolean as `true` or `false`, a UUID as text. A record is its key: the other
    /// columns are not read. Needs the feature `parquet`; jobs do not read this format.
    Parquet {
        /// The name of the column, or the names of the structs around it and its own.
        path: Vec<String>,
    },
}

/// A column of CSV.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Column {
    /// By its name in the first record.
    Name(String),
    /// By its number, counted from 0.
    Number(usize),
}

impl Rules {
    /// Rules that take keys of this format unchanged.
    pub fn new(format: Format) -> Self {
        let (key, max_key_length) = (KeyRules::default(), crate::keys::LONGEST);
        Self { format, key, skip_empty: false, max_key_length }
    }

    /// Skips a record whose key is empty or too long by these rules. Changes no key: [`KeyRules::normal`] does.
    pub(super) fn judge<'a>(&self, found: Found<'a>) -> Found<'a> {
        let Found::Key { key, record } = found else { return found };
        let key = if self.key.trim { key.trim_ascii() } else { key };
        if self.skip_empty && key.is_empty() {
            Found::Skipped { skip: Skip::Empty, record }
        } else if key.len() > self.max_key_length {
            Found::Skipped { skip: Skip::TooLong, record }
        } else {
            Found::Key { key, record }
        }
    }

    /// A hash of the rules. Rules that find other records or keys have another hash.
    ///
    /// The cursor keeps the hash: section 5.3.1 of the specification says what is hashed.
    pub(super) fn hash(&self) -> u64 {
        xxh3_64(&self.encode())
    }

    fn encode(&self) -> Vec<u8> {
        let Self { format, key, skip_empty, max_key_length } = self;
        let case = match key.ignore_case {
            None => 0,
            Some(Case::Ascii) => 2,
            Some(Case::Unicode) => 4,
        };
        let mut bytes = vec![u8::from(key.trim) | case, u8::from(*skip_empty)];
        bytes.extend((*max_key_length as u64).to_le_bytes());
        let name = |bytes: &mut Vec<u8>, name: &str| {
            bytes.extend((name.len() as u64).to_le_bytes());
            bytes.extend(name.as_bytes());
        };
        match format {
            Format::Lines(separator) => bytes.extend([0, *separator]),
            Format::Csv { columns, header, delimiter } => {
                bytes.extend([1, *delimiter, u8::from(*header)]);
                for column in columns {
                    match column {
                        Column::Number(index) => {
                            bytes.push(0);
                            bytes.extend((*index as u64).to_le_bytes());
                        }
                        Column::Name(text) => {
                            bytes.push(1);
                            name(&mut bytes, text);
                        }
                    }
                }
            }
            Format::Jsonl { path } => {
                bytes.push(2);
                path.iter().for_each(|text| name(&mut bytes, text));
            }
            // No cursor keeps this: jobs refuse the format.
            Format::Parquet { path } => {
                bytes.push(3);
                path.iter().for_each(|text| name(&mut bytes, text));
            }
        }
        bytes
    }
}

/// The names in a path.
fn names(path: &str) -> Vec<String> {
    let (mut names, mut name, mut rest) = (Vec::new(), String::new(), path.chars().peekable());
    while let Some(c) = rest.next() {
        match c {
            '.' => names.push(std::mem::take(&mut name)),
            '\\' => name.push(rest.next_if(|next| matches!(next, '.' | '\\')).unwrap_or(c)),
            c => name.push(c),
        }
    }
    names.push(name);
    names
}

impl Format {
    /// JSON Lines whose key is at this path: names with dots between them. A dot or a backslash behind a backslash is a
    /// part of the name: `user\.name` is one name.
    pub fn jsonl(path: &str) -> Self {
        Self::Jsonl { path: names(path) }
    }

    /// Parquet whose key is the column at this path, which is written as for [`jsonl`](Self::jsonl).
    pub fn parquet(path: &str) -> Self {
        Self::Parquet { path: names(path) }
    }

    /// The byte that ends a record in outputs.
    pub const fn separator(&self) -> u8 {
        match self {
            Self::Lines(separator) => *separator,
            Self::Csv { .. } | Self::Jsonl { .. } | Self::Parquet { .. } => b'\n',
        }
    }

    /// What messages call a record's place: `line`, `key` or `row`.
    pub const fn unit(&self) -> &'static str {
        match self {
            Self::Lines(0) => "key",
            Self::Lines(_) | Self::Csv { .. } | Self::Jsonl { .. } => "line",
            Self::Parquet { .. } => "row",
        }
    }

    /// The columns or the field of the key, for messages; `None` for lines, which always have a key.
    pub fn field(&self) -> Option<String> {
        match self {
            Self::Lines(_) => None,
            Self::Csv { columns, .. } => {
                Some(columns.iter().map(Column::shown).collect::<Vec<_>>().join(", "))
            }
            Self::Jsonl { path } | Self::Parquet { path } => Some(format!("{:?}", path.join("."))),
        }
    }
}

impl Column {
    pub(super) fn of(text: String) -> Self {
        let number = text.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        number.map_or(Self::Name(text), Self::Number)
    }

    /// The index of a column given by its number.
    pub(super) const fn number(&self) -> usize {
        match self {
            Self::Number(index) => *index,
            Self::Name(_) => usize::MAX,
        }
    }

    /// The name in quotes, or the number from 1.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Name(name) => format!("{name:?}"),
            Self::Number(index) => (index + 1).to_string(),
        }
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::job::Job;

    #[test]
    fn paths_and_columns_are_understood_as_documented() {
        for (text, names) in [
            ("id", &["id"][..]),
            ("user.name", &["user", "name"]),
            (r"user\.name", &["user.name"]),
            (r"a\\.b\c", &["a\\", "b\\c"]),
            ("", &[""]),
            ("a.", &["a", ""]),
        ] {
            let path = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(Format::jsonl(text), Format::Jsonl { path }, "{text}");
        }
        let name = |text: &str| Column::Name(text.to_owned());
        for (text, expected, headed) in [
            ("url", vec![name("url")], true),
            ("2", vec![Column::Number(1)], false),
            ("url,id", vec![name("url"), name("id")], true),
            ("3,id", vec![Column::Number(2), name("id")], true),
            ("\"a,b\",\"say \"\"c\"\"\"", vec![name("a,b"), name("say \"c\"")], true),
            ("", vec![name("")], true),
            ("0", vec![name("0")], true),
        ] {
            let format = Format::Csv { columns: expected, header: headed, delimiter: b';' };
            assert_eq!(Format::csv(text, b';'), format, "{text}");
        }
    }

    const LEAST: &str = "[filter]\npath = 'f'\n[input]\npaths = ['a']\n";

    #[test]
    fn the_options_are_hashed_as_documented() {
        let encoded = |input: &str| Job::parse(&format!("{LEAST}{input}"), "j").unwrap().rules.encode();
        let most = [0, 0, 0, 1, 0, 0, 0, 0];
        for (input, flags, most, rest) in [
            ("", [0, 0], most, &b"\0\n"[..]),
            ("format = 'nul'\ntrim = true", [1, 0], most, b"\0\0"),
            ("trim = true\nignore_case = 'ascii'", [3, 0], most, b"\0\n"),
            ("ignore_case = 'unicode'", [4, 0], most, b"\0\n"),
            ("skip_empty = true\nmax_key_length = 258", [0, 1], [2, 1, 0, 0, 0, 0, 0, 0], b"\0\n"),
            ("format = 'csv'\nfield = 'url'", [0, 0], most, b"\x01,\x01\x01\x03\0\0\0\0\0\0\0url"),
            ("format = 'csv'\nfield = 3\ndelimiter = ';'", [0, 0], most, b"\x01;\0\0\x02\0\0\0\0\0\0\0"),
            ("format = 'csv'\nfield = 3\nheader = true", [0, 0], most, b"\x01,\x01\0\x02\0\0\0\0\0\0\0"),
            ("format = 'jsonl'\nfield = 'url'", [0, 0], most, b"\x02\x03\0\0\0\0\0\0\0url"),
            ("format = 'jsonl'\nfield = 'a.b'", [0, 0], most, b"\x02\x01\0\0\0\0\0\0\0a\x01\0\0\0\0\0\0\0b"),
        ] {
            assert_eq!(encoded(input), [&flags, &most[..], rest].concat(), "{input}");
        }
        // The hash of the first row, computed by another implementation of XXH3.
        assert_eq!(Job::parse(LEAST, "j").unwrap().rules.hash(), 0x5fe5_6fc8_d970_6655);
    }
}
