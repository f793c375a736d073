//! The rules by which keys are found in an input.

use xxhash_rust::xxh3::xxh3_64;

use crate::{Case, KeyRules};

/// How keys are found in an input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Rules {
    pub(super) format: Format,
    /// Those of the filter, once it is opened; before, those that the job asks for.
    pub(super) key: KeyRules,
    pub(super) skip_empty: bool,
    pub(super) max_key_length: usize,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Format {
    /// With what a record ends.
    Lines(u8),
    Csv {
        column: Column,
        header: bool,
        delimiter: u8,
    },
    Jsonl {
        field: String,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Column {
    Name(String),
    /// Counted from 0.
    Number(usize),
}

impl Rules {
    /// Changes whenever records would be cut or understood in another way.
    ///
    /// The cursor keeps it: section 5.3.1 of the specification says what is hashed.
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
        match format {
            Format::Lines(separator) => bytes.extend([0, *separator]),
            Format::Csv { column, header, delimiter } => {
                bytes.extend([1, *delimiter, u8::from(*header)]);
                match column {
                    Column::Number(index) => {
                        bytes.push(0);
                        bytes.extend((*index as u64).to_le_bytes());
                    }
                    Column::Name(name) => {
                        bytes.push(1);
                        bytes.extend(name.as_bytes());
                    }
                }
            }
            Format::Jsonl { field } => {
                bytes.push(2);
                bytes.extend(field.as_bytes());
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use crate::ingest::job::Job;

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
            ("format = 'csv'\nfield = 'url'", [0, 0], most, b"\x01,\x01\x01url"),
            ("format = 'csv'\nfield = 3\ndelimiter = ';'", [0, 0], most, b"\x01;\0\0\x02\0\0\0\0\0\0\0"),
            ("format = 'csv'\nfield = 3\nheader = true", [0, 0], most, b"\x01,\x01\0\x02\0\0\0\0\0\0\0"),
            ("format = 'jsonl'\nfield = 'url'", [0, 0], most, b"\x02url"),
        ] {
            assert_eq!(encoded(input), [&flags, &most[..], rest].concat(), "{input}");
        }
        // Of the first row, by another implementation of XXH3.
        assert_eq!(Job::parse(LEAST, "j").unwrap().rules.hash(), 0x5fe5_6fc8_d970_6655);
    }
}
