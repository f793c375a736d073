//! Finds records and their keys in an input: lines, CSV and JSON Lines, plain, gzip or zstd; and Parquet.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use memchr::memchr;

use super::content::{Content, Position};
use super::csv::{Csv, Dialect};
use super::decode::{Decoder, Unpack};
use super::error::{Error, InputProblem};
use super::jsonl::Jsonl;
use super::lines::{Found, Malformed, Skip, line};
#[cfg(feature = "parquet")]
use super::parquet::Parquet;
use super::rules::{Format, Rules, TimeField};
#[cfg(not(feature = "parquet"))]
use crate::keys::Foreign;
use crate::keys::{self, Batch, LONGEST, Lines};

/// A stream whose compression is known from its first bytes.
pub struct Input {
    name: PathBuf,
    decoder: Decoder,
}

/// Finds the records of one input.
pub struct Records(Source);

enum Source {
    Stream(Box<StreamRecords>),
    #[cfg(feature = "parquet")]
    Parquet(Box<Parquet>),
}

/// Applies an expression to the records, for each kind of source.
macro_rules! of_source {
    ($source:expr, $records:ident => $does:expr) => {
        match $source {
            Source::Stream($records) => $does,
            #[cfg(feature = "parquet")]
            Source::Parquet($records) => $does,
        }
    };
}

/// Records that follow each other in a stream of bytes.
pub(super) struct StreamRecords {
    content: Content,
    kind: Kind,
    rules: Rules,
    lines: u64,
}

enum Kind {
    Lines(u8),
    Csv(Box<Csv>),
    Jsonl(Jsonl),
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records")
            .field("input", &of_source!(&self.0, source => source.path()))
            .finish_non_exhaustive()
    }
}

impl Input {
    /// Reads the first bytes of a stream that messages call `name`. `read` counts the bytes of the stream.
    pub fn new(
        name: impl Into<PathBuf>,
        stream: impl Read + Send + 'static,
        unpack: Unpack,
        read: Arc<AtomicU64>,
    ) -> Result<Self, Error> {
        let name = name.into();
        let decoder = Decoder::new(stream, unpack, read).map_err(|problem| Error::input(&name, problem))?;
        Ok(Self { name, decoder })
    }

    /// The keys that end with `separator`, unchanged: lines, if that is a newline. [`Lines`] cuts them without copying.
    /// Fails at a key that is longer than [`LONGEST`].
    pub fn lines(self, separator: u8) -> impl Iterator<Item = Result<Batch, Error>> {
        let Self { name, decoder } = self;
        let problems = decoder.problems();
        let unit = if separator == b'\n' { "line" } else { "key" };
        let failed = move |error| {
            let problem = match error {
                keys::Error::Read(source) => problems(source),
                keys::Error::TooLong { number } => InputProblem::KeyTooLong { unit, number, limit: LONGEST },
            };
            Error::input(&name, problem)
        };
        Lines::new(decoder, separator).map(move |batch| batch.map_err(&failed))
    }

    /// The records. Fails if the first record is a header that lacks a column of the key, or if the format is Parquet,
    /// which only [`Records::of_file`] reads.
    pub fn records(self, rules: &Rules) -> Result<Records, Error> {
        let content = Content::of(self.name, self.decoder);
        StreamRecords::new(rules, content, Position::default())
            .map(|stream| Records(Source::Stream(Box::new(stream))))
    }
}

impl Records {
    /// The records of a file in any format. The arguments are as for [`Input::new`]; for a Parquet file, `read` counts bytes
    /// in proportion to the rows read. Fails if the file lacks a column of the key.
    pub fn of_file(
        name: impl Into<PathBuf>,
        file: File,
        rules: &Rules,
        unpack: Unpack,
        read: Arc<AtomicU64>,
    ) -> Result<Self, Error> {
        if !matches!(rules.format, Format::Parquet { .. }) {
            return Input::new(name, file, unpack, read)?.records(rules);
        }
        #[cfg(feature = "parquet")]
        return Parquet::new(name.into(), file, rules, read)
            .map(|parquet| Self(Source::Parquet(Box::new(parquet))));
        #[cfg(not(feature = "parquet"))]
        Err(Error::Input { path: name.into(), problem: InputProblem::Foreign { format: Foreign::Parquet } })
    }

    /// The next record; `None` at the end.
    #[expect(clippy::should_implement_trait, reason = "what it returns borrows from it")]
    pub fn next(&mut self) -> Result<Option<Found<'_>>, Error> {
        of_source!(&mut self.0, source => source.next())
    }

    /// Whether [`next`](Self::next) may have to wait: the buffer contains no end of a record.
    pub fn may_wait(&self) -> bool {
        of_source!(&self.0, source => source.may_wait())
    }

    /// The line on which the last record began, or its row in a Parquet file; both from 1.
    pub fn line(&self) -> u64 {
        of_source!(&self.0, source => source.line())
    }

    /// The header of CSV as in the input, without the final newline; `None` if the input has no header.
    pub fn header(&self) -> Option<&[u8]> {
        of_source!(&self.0, source => source.header())
    }

    /// How many bytes of content were consumed, after decompression. For a Parquet file, the bytes of its keys.
    pub fn offset(&self) -> u64 {
        of_source!(&self.0, source => source.offset())
    }

    /// The error that names a malformed line.
    pub fn malformed(&self, malformed: Malformed) -> Error {
        of_source!(&self.0, source => source.malformed(malformed))
    }
}

impl StreamRecords {
    /// Continues an input that was read up to `position`, where `content` stands.
    pub(super) fn new(rules: &Rules, mut content: Content, position: Position) -> Result<Self, Error> {
        let kind = match &rules.format {
            Format::Lines(separator) => Kind::Lines(*separator),
            Format::Jsonl { path } => {
                let time = match &rules.time {
                    Some(TimeField::Path(path)) => Some((path.clone(), rules.time_kind)),
                    Some(TimeField::Column(_)) | None => None,
                };
                Kind::Jsonl(Jsonl::new(path.clone(), time))
            }
            Format::Csv { columns, header, delimiter, quotes } => {
                let dialect = Dialect { delimiter: *delimiter, quotes: *quotes };
                let csv = Csv::new((columns, rules), dialect, *header, &mut content, position)?;
                Kind::Csv(Box::new(csv))
            }
            Format::Parquet { .. } => return Err(Error::input(content.path(), InputProblem::NoFile)),
        };
        Ok(Self { content, kind, rules: rules.clone(), lines: position.lines })
    }

    pub(super) fn next(&mut self) -> Result<Option<Found<'_>>, Error> {
        let content = &mut self.content;
        let mut found = match &mut self.kind {
            Kind::Lines(separator) => {
                self.lines += 1;
                let found = |key| Found::Key { key, record: key, time: None };
                let too_long = Found::Skipped { skip: Skip::TooLong, record: b"" };
                line(content, *separator)?.map(|line| line.map_or(too_long, found))
            }
            Kind::Jsonl(jsonl) => {
                self.lines += 1;
                jsonl.next(content, self.lines)?
            }
            Kind::Csv(csv) => csv.next(content)?,
        };
        found.iter_mut().for_each(|found| self.rules.judge(found));
        Ok(found)
    }

    fn may_wait(&self) -> bool {
        let end = if let Kind::Lines(separator) = self.kind { separator } else { b'\n' };
        memchr(end, self.content.waiting()).is_none()
    }

    fn path(&self) -> &Path {
        self.content.path()
    }

    pub(super) const fn offset(&self) -> u64 {
        self.content.offset()
    }

    /// The line on which the last record began, from 1.
    pub(super) fn line(&self) -> u64 {
        if let Kind::Csv(csv) = &self.kind { csv.line() } else { self.lines }
    }

    fn header(&self) -> Option<&[u8]> {
        if let Kind::Csv(csv) = &self.kind { csv.header() } else { None }
    }

    pub(super) fn malformed(&self, Malformed { line, column, message }: Malformed) -> Error {
        let place = self.content.place(line);
        Error::input(self.content.path(), InputProblem::Json { place, column, message })
    }

    /// How far the input is read.
    pub(super) fn position(&mut self) -> Position {
        let lines = match &self.kind {
            Kind::Csv(csv) => csv.lines(),
            Kind::Lines(_) | Kind::Jsonl(_) => self.lines,
        };
        self.content.position(lines)
    }

    pub(super) const fn content(&self) -> &Content {
        &self.content
    }

    /// Whether the content, which is at its end, ended within a record.
    pub(super) fn ended_within(&self) -> bool {
        let Some(last) = self.content.last() else { return false };
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
    use crate::job::Job;
    use crate::keys::LONGEST;

    /// The keys from `from` on, with the reason in place of a missing key; and the position after each record.
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
            let mut content = Content::open(&path, position.base, Unpack::Usual)?;
            content.repeat(position, || false)?;
            let mut records = StreamRecords::new(&job.rules, content, position)?;
            let (mut keys, mut positions) = (Vec::new(), Vec::new());
            loop {
                let key = match records.next()? {
                    None => return Ok((keys, positions)),
                    Some(Found::Key { key, .. }) => String::from_utf8_lossy(key).into_owned(),
                    Some(Found::Skipped { skip: Skip::Malformed(malformed), .. }) => {
                        return Err(records.malformed(*malformed));
                    }
                    Some(Found::Skipped { skip, .. }) => format!("<{skip:?}>"),
                };
                keys.push(key);
                positions.push(records.position());
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
        let content = Content::open(&path, 0, Unpack::Usual).unwrap();
        let mut records = StreamRecords::new(&job.rules, content, Position::default()).unwrap();
        let mut found = Vec::new();
        while let Some(next) = records.next().unwrap() {
            if let Found::Key { record, .. } = next {
                found.push(String::from_utf8_lossy(record).into_owned());
            }
        }
        found
    }

    /// Checks that the keys are the same wherever reading is interrupted and continued.
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
