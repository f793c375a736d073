//! From the bytes of an input to keys.

use super::content::{Content, Position};
use super::csv::{self, Csv};
use super::error::Error;
use super::jsonl::Jsonl;
use super::lines::{Found, Skip, line};
use super::rules::{Format, Rules};
use crate::KeyRules;

/// Finds the records of one input.
pub(super) struct Records {
    kind: Kind,
    rules: KeyRules,
    skip_empty: bool,
    max_key_length: usize,
    lines: u64,
}

enum Kind {
    Lines(u8),
    Csv(Box<Csv>),
    Jsonl(Jsonl),
}

impl Records {
    /// Goes on in an input that was read up to `position`, where `content` stands.
    pub(super) fn new(rules: &Rules, content: &mut Content, position: Position) -> Result<Self, Error> {
        let kind = match &rules.format {
            Format::Lines(separator) => Kind::Lines(*separator),
            Format::Jsonl { field } => Kind::Jsonl(Jsonl::new(field.clone())),
            Format::Csv { column, header, delimiter } => {
                let column = csv::column(content.path(), *delimiter, column)?;
                Kind::Csv(Box::new(Csv::new(column, *delimiter, *header, content, position)?))
            }
        };
        let Rules { key, skip_empty, max_key_length, .. } = *rules;
        Ok(Self { kind, rules: key, skip_empty, max_key_length, lines: position.lines })
    }

    /// The next record; `None` at the end.
    pub(super) fn next<'a>(&'a mut self, content: &'a mut Content) -> Result<Option<Found<'a>>, Error> {
        let found = match &mut self.kind {
            Kind::Lines(separator) => {
                self.lines += 1;
                let found = |key| Found::Key { key, record: key };
                line(content, *separator)?.map(|line| line.map_or(Found::Skipped(Skip::TooLong), found))
            }
            Kind::Jsonl(jsonl) => {
                self.lines += 1;
                jsonl.next(content, self.lines)?
            }
            Kind::Csv(csv) => csv.next(content)?,
        };
        let Some(Found::Key { key, record }) = found else { return Ok(found) };
        let key = if self.rules.trim { key.trim_ascii() } else { key };
        Ok(Some(if self.skip_empty && key.is_empty() {
            Found::Skipped(Skip::Empty)
        } else if key.len() > self.max_key_length {
            Found::Skipped(Skip::TooLong)
        } else {
            Found::Key { key, record }
        }))
    }

    pub(super) fn lines(&self) -> u64 {
        match &self.kind {
            Kind::Csv(csv) => csv.lines(),
            Kind::Lines(_) | Kind::Jsonl(_) => self.lines,
        }
    }

    /// Whether the content, which is at its end, ended within a record.
    pub(super) fn ended_within(&self, content: &Content) -> bool {
        let Some(last) = content.last() else { return false };
        match self.kind {
            Kind::Lines(separator) => last != separator,
            Kind::Csv(_) | Kind::Jsonl(_) => !matches!(last, b'\n' | b'\r'),
        }
    }
}

/// The tests of this module and of the formats.
#[cfg(test)]
pub(super) mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::ingest::job::Job;
    use crate::keys::LONGEST;

    /// The keys, and why others are missing, from `from` on; and where that ended.
    pub(crate) fn keys(
        input: &str,
        content: &[u8],
        from: Option<Position>,
    ) -> Result<(Vec<String>, Vec<Position>), String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, content).unwrap();
        let text = format!("[filter]\npath = 'f'\n[input]\npaths = ['a']\n{input}");
        let job = Job::parse(&text, "j").unwrap();
        let read = || {
            let position = from.unwrap_or_default();
            let mut content = Content::open(&path, position.base)?;
            content.repeat(position, || false)?;
            let mut records = Records::new(&job.rules, &mut content, position)?;
            let (mut keys, mut positions) = (Vec::new(), Vec::new());
            loop {
                let key = match records.next(&mut content)? {
                    None => return Ok((keys, positions)),
                    Some(Found::Key { key, .. }) => String::from_utf8_lossy(key).into_owned(),
                    Some(Found::Skipped(skip)) => format!("<{skip:?}>"),
                };
                keys.push(key);
                positions.push(content.position(records.lines()));
            }
        };
        read().map_err(|error: Error| error.to_string().replace(&path.display().to_string(), "a"))
    }

    /// The records that have keys.
    pub(crate) fn records(input: &str, content: &[u8]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, content).unwrap();
        let job = Job::parse(&format!("[filter]\npath = 'f'\n[input]\npaths = ['a']\n{input}"), "j").unwrap();
        let mut content = Content::open(&path, 0).unwrap();
        let mut records = Records::new(&job.rules, &mut content, Position::default()).unwrap();
        let mut found = Vec::new();
        while let Some(next) = records.next(&mut content).unwrap() {
            if let Found::Key { record, .. } = next {
                found.push(String::from_utf8_lossy(record).into_owned());
            }
        }
        found
    }

    /// The keys are the same wherever reading is broken off and taken up.
    pub(crate) fn assert_keys(input: &str, content: &[u8], expected: &[&str]) {
        let (found, positions) = keys(input, content, None).unwrap();
        assert_eq!(found, expected);
        for (taken, position) in positions.iter().enumerate() {
            let (rest, later) = keys(input, content, Some(*position)).unwrap();
            assert_eq!(rest, expected[taken + 1..], "{position:?}");
            assert_eq!(later, positions[taken + 1..]);
        }
    }

    #[test]
    fn lines_are_cut_as_documented() {
        assert_keys("", b"", &[]);
        assert_keys("", b"a\n\nb\r\nc", &["a", "", "b\r", "c"]);
        assert_keys("trim = true", b" a\t\n \nb\r\n", &["a", "", "b"]);
        assert_keys("trim = true\nskip_empty = true", b" a\n \n\nb", &["a", "<Empty>", "<Empty>", "b"]);
        assert_keys("skip_empty = true", b"\n \n", &["<Empty>", " "]);
        assert_keys("format = 'nul'", b"a\nb\0\0c\0", &["a\nb", "", "c"]);
        assert_keys("max_key_length = 3", b"abc\nabcd\nab", &["abc", "<TooLong>", "ab"]);
        assert_keys("max_key_length = 3\ntrim = true", b" abc \nabcd", &["abc", "<TooLong>"]);
    }

    #[test]
    fn a_line_longer_than_any_key_is_passed_over_in_bounded_memory() {
        let mut content = b"a\n".to_vec();
        content.resize(2 + LONGEST, b'x');
        content.extend(b"\nb\n");
        let (found, _) = keys("", &content, None).unwrap();
        assert_eq!((found.len(), found[1].len(), found[2].as_str()), (3, LONGEST, "b"));
        let mut content = b"a\n".to_vec();
        content.resize(content.len() + LONGEST + 1, b'x');
        content.extend(b"\nb\n");
        content.resize(content.len() + 3 * LONGEST, b'x');
        assert_eq!(keys("", &content, None).unwrap().0, ["a", "<TooLong>", "b", "<TooLong>"]);
    }

    #[test]
    fn lines_longer_than_a_chunk_are_whole() {
        let mut content = String::new();
        for i in 0..20 {
            writeln!(content, "{}", i.to_string().repeat(50_000)).unwrap();
        }
        let expected: Vec<_> = content.lines().collect();
        let (found, _) = keys("", content.as_bytes(), None).unwrap();
        assert_eq!(found, expected);
    }
}
