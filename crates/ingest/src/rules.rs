//! The rules for finding keys in an input.

use xxhash_rust::xxh3::xxh3_64;

use super::error::InputProblem;
use super::lines::{Found, Skip};
use super::summary::Tally;
use super::time::TimeKind;
use gowk::{Case, KeyRules};

/// The byte between the fields of a key with several fields: the unit separator of ASCII.
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
    /// The part of a record that says when its key was seen or how long it is kept, for a forgetting filter; `None` if
    /// the clock and the filter determine that.
    pub time: Option<TimeField>,
    /// The kind of time in that part.
    pub time_kind: TimeKind,
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
        /// Whether quotes around a field belong to the format, and not to the field. Tables with tabs between fields
        /// usually have no such quotes: there a quote is an ordinary character.
        quotes: bool,
    },
    /// One JSON object on each line.
    Jsonl {
        /// The names that lead to the key: a field of the line's object, a field of the object in that field, and so on.
        path: Vec<String>,
    },
    /// A Parquet file. Each row is a record, and the key is its value in one column: the bytes of a string or binary
    /// value, an integer as decimal text, a boolean as `true` or `false`, a UUID as text. A record consists of its key:
    /// the only other column that is read is [`Rules::time`]. Needs the feature `parquet`; jobs do not read this format.
    Parquet {
        /// The name of the column, or the names of the enclosing structs followed by its own.
        path: Vec<String>,
    },
}

/// The part of a record that says when its key was seen: RFC 3339, or a number since 1970. A number
/// below 10^11 counts seconds (10^11 s are in the year 5138), any other below 10^14 milliseconds (10^11 ms are in March
/// 1973), below 10^17 microseconds, above it nanoseconds. In Parquet also a timestamp, which counts as UTC if it has no time zone, or a date, which counts as its
/// first moment in UTC.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TimeField {
    /// A column of CSV.
    Column(Column),
    /// The names that lead to a field of JSON, or to a column of Parquet.
    Path(Vec<String>),
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
    /// Rules for this format that leave keys unchanged.
    pub fn new(format: Format) -> Self {
        let (key, max_key_length) = (KeyRules::default(), crate::keys::LONGEST);
        Self { format, key, skip_empty: false, max_key_length, time: None, time_kind: TimeKind::Seen }
    }

    /// The same rules, with times in this field: a field of JSON or a column of Parquet, written as for
    /// [`Format::jsonl`], or a column of CSV, by its name or its number from 1. `None` for lines, which have no fields.
    pub fn with_time(mut self, field: &str, kind: TimeKind) -> Option<Self> {
        self.time_kind = kind;
        self.time = match &mut self.format {
            Format::Lines(_) => return None,
            Format::Jsonl { .. } | Format::Parquet { .. } => Some(TimeField::path(field)),
            Format::Csv { header, .. } => {
                let column = Column::of(field.to_owned());
                *header |= matches!(column, Column::Name(_));
                Some(TimeField::Column(column))
            }
        };
        Some(self)
    }

    /// Skips a record whose field is empty, or whose key is too long by these rules. Trims other keys as the rules say;
    /// [`KeyRules::normal`] makes the other changes.
    #[inline]
    pub(super) fn judge(&self, found: &mut Found<'_>) {
        let Found::Key { key, record, .. } = found else { return };
        let judged = if self.key.trim { key.trim_ascii() } else { *key };
        if self.skip_empty && judged.is_empty() {
            *found = Found::Skipped { skip: Skip::Empty, record };
        } else if self.format.is_missing(judged) {
            *found = Found::Skipped { skip: Skip::NoField, record };
        } else if judged.len() > self.max_key_length {
            *found = Found::Skipped { skip: Skip::TooLong, record };
        } else {
            *key = judged;
        }
    }

    /// The problem of an input in which no record has a key. Probably the name of a field or the format is wrong. `None`
    /// if some records have a key, or if all records are empty.
    pub fn none_found(&self, records: &Tally) -> Option<InputProblem> {
        let Tally { keys: 0, no_field, no_time, malformed, too_long, .. } = *records else { return None };
        match (self.format.field(), &self.time) {
            _ if malformed > no_field => Some(InputProblem::AllMalformed { records: malformed }),
            (Some(field), _) if no_field > 0 => Some(InputProblem::NoField { field, records: no_field }),
            (_, Some(time)) if no_time > 0 => {
                let (field, records) = (time.shown(), no_time);
                Some(match self.time_kind {
                    TimeKind::Seen => InputProblem::NoTimes { field, records },
                    TimeKind::Lifetime(most) => InputProblem::NoLifetimes { field, records, most },
                })
            }
            _ if too_long > 0 => {
                Some(InputProblem::AllTooLong { records: too_long, limit: self.max_key_length })
            }
            _ => None,
        }
    }

    /// The error for a record on `place` that has no key although each must have one; `None` if that is no error.
    pub fn missing(&self, skip: &Skip, place: String) -> Option<InputProblem> {
        match (skip, &self.time) {
            (Skip::NoField, _) => {
                Some(InputProblem::NoKey { place, field: self.format.field().unwrap_or_default() })
            }
            (Skip::NoTime, Some(time)) => Some(match self.time_kind {
                TimeKind::Seen => InputProblem::NoTime { place, field: time.shown() },
                TimeKind::Lifetime(most) => InputProblem::NoLifetime { place, field: time.shown(), most },
            }),
            _ => None,
        }
    }

    /// What messages call the part of a record that has its time: `time` or `lifetime`.
    pub const fn time_name(&self) -> &'static str {
        match self.time_kind {
            TimeKind::Seen => "time",
            TimeKind::Lifetime(_) => "lifetime",
        }
    }

    /// A hash of the rules. Rules that find other records or keys have another hash.
    ///
    /// The cursor stores the hash. The head of `cursor.rs` says what is hashed.
    pub(super) fn hash(&self) -> u64 {
        xxh3_64(&self.encode())
    }

    fn encode(&self) -> Vec<u8> {
        let Self { format, key, skip_empty, max_key_length, time, time_kind } = self;
        let case = match key.ignore_case {
            None => 0,
            Some(Case::Ascii) => 2,
            Some(Case::Unicode) => 4,
        };
        let mut bytes = vec![u8::from(key.trim) | case, u8::from(*skip_empty)];
        bytes.extend((*max_key_length as u64).to_le_bytes());
        match format {
            Format::Lines(separator) => bytes.extend([0, *separator]),
            Format::Csv { columns, header, delimiter, quotes } => {
                bytes.extend([1, *delimiter, u8::from(*header) | if *quotes { 0 } else { 2 }]);
                columns.iter().for_each(|column| column.encode(0, &mut bytes));
            }
            Format::Jsonl { path } => {
                bytes.push(2);
                path.iter().for_each(|name| encode_name(name, &mut bytes));
            }
            // No cursor stores this: jobs refuse the format.
            Format::Parquet { path } => {
                bytes.push(3);
                path.iter().for_each(|name| encode_name(name, &mut bytes));
            }
        }
        // The longest lifetime belongs to the filter, and is no option of the job.
        let is_lifetime = matches!(time_kind, TimeKind::Lifetime(_));
        match time {
            None => {}
            Some(TimeField::Column(column)) => column.encode(if is_lifetime { 4 } else { 2 }, &mut bytes),
            Some(TimeField::Path(path)) => {
                // No name has this length.
                bytes.extend((u64::MAX - u64::from(is_lifetime)).to_le_bytes());
                path.iter().for_each(|name| encode_name(name, &mut bytes));
            }
        }
        bytes
    }
}

fn encode_name(name: &str, bytes: &mut Vec<u8>) {
    bytes.extend((name.len() as u64).to_le_bytes());
    bytes.extend(name.as_bytes());
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
    /// JSON Lines whose key is at this path: names separated by dots. A dot or a backslash after a backslash is a part of
    /// the name: `user\.name` is one name.
    pub fn jsonl(path: &str) -> Self {
        Self::Jsonl { path: names(path) }
    }

    /// Parquet whose key is the column at this path, written as for [`jsonl`](Self::jsonl).
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

    /// Whether a field with this text is missing: an empty field is. A key of several fields is missing if all of them
    /// are.
    fn is_missing(&self, key: &[u8]) -> bool {
        match self {
            Self::Lines(_) => false,
            Self::Csv { columns, .. } if columns.len() > 1 => key.iter().all(|byte| *byte == JOINT),
            Self::Csv { .. } | Self::Jsonl { .. } | Self::Parquet { .. } => key.is_empty(),
        }
    }

    /// What messages call a key by its place: `line`, or `the key on line`.
    pub const fn unit_of_key(&self) -> &'static str {
        match self {
            Self::Lines(_) => self.unit(),
            Self::Csv { .. } | Self::Jsonl { .. } => "the key on line",
            Self::Parquet { .. } => "the key in row",
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

impl TimeField {
    pub(super) fn path(path: &str) -> Self {
        Self::Path(names(path))
    }

    /// The field or column, in the form that messages show.
    pub fn shown(&self) -> String {
        match self {
            Self::Column(column) => column.shown(),
            Self::Path(path) => format!("{:?}", path.join(".")),
        }
    }
}

impl Column {
    pub(super) fn of(text: String) -> Self {
        let number = text.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        number.map_or(Self::Name(text), Self::Number)
    }

    /// Appends the column: its number after `tag`, or its name after the next tag.
    fn encode(&self, tag: u8, bytes: &mut Vec<u8>) {
        match self {
            Self::Number(index) => {
                bytes.push(tag);
                bytes.extend((*index as u64).to_le_bytes());
            }
            Self::Name(name) => {
                bytes.push(tag + 1);
                encode_name(name, bytes);
            }
        }
    }

    /// The index of a column that was given by number.
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
    use crate::job::Job;

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
            let format = Format::Csv { columns: expected, header: headed, delimiter: b';', quotes: true };
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
            ("format = 'csv'\nfield = 3\nquotes = false", [0, 0], most, b"\x01,\x02\0\x02\0\0\0\0\0\0\0"),
            (
                "format = 'csv'\nfield = 3\ndelimiter = \"\\t\"",
                [0, 0],
                most,
                b"\x01\t\x02\0\x02\0\0\0\0\0\0\0",
            ),
            (
                "format = 'csv'\nfield = 3\ndelimiter = \"\\t\"\nquotes = true",
                [0, 0],
                most,
                b"\x01\t\x00\0\x02\0\0\0\0\0\0\0",
            ),
            ("format = 'jsonl'\nfield = 'url'", [0, 0], most, b"\x02\x03\0\0\0\0\0\0\0url"),
            ("format = 'jsonl'\nfield = 'a.b'", [0, 0], most, b"\x02\x01\0\0\0\0\0\0\0a\x01\0\0\0\0\0\0\0b"),
            (
                "format = 'csv'\nfield = 3\ntime = 'ts'",
                [0, 0],
                most,
                b"\x01,\x01\0\x02\0\0\0\0\0\0\0\x03\x02\0\0\0\0\0\0\0ts",
            ),
            (
                "format = 'csv'\nfield = 3\ntime = 2",
                [0, 0],
                most,
                b"\x01,\0\0\x02\0\0\0\0\0\0\0\x02\x01\0\0\0\0\0\0\0",
            ),
            (
                "format = 'jsonl'\nfield = 'a'\ntime = 't'",
                [0, 0],
                most,
                b"\x02\x01\0\0\0\0\0\0\0a\xff\xff\xff\xff\xff\xff\xff\xff\x01\0\0\0\0\0\0\0t",
            ),
            (
                "format = 'csv'\nfield = 3\nttl = 'ts'",
                [0, 0],
                most,
                b"\x01,\x01\0\x02\0\0\0\0\0\0\0\x05\x02\0\0\0\0\0\0\0ts",
            ),
            (
                "format = 'csv'\nfield = 3\nttl = 2",
                [0, 0],
                most,
                b"\x01,\0\0\x02\0\0\0\0\0\0\0\x04\x01\0\0\0\0\0\0\0",
            ),
            (
                "format = 'jsonl'\nfield = 'a'\nttl = 't'",
                [0, 0],
                most,
                b"\x02\x01\0\0\0\0\0\0\0a\xfe\xff\xff\xff\xff\xff\xff\xff\x01\0\0\0\0\0\0\0t",
            ),
        ] {
            assert_eq!(encoded(input), [&flags, &most[..], rest].concat(), "{input}");
        }
        // The hash of the first row, computed by another implementation of XXH3.
        assert_eq!(Job::parse(LEAST, "j").unwrap().rules.hash(), 0x5fe5_6fc8_d970_6655);
    }
}
