//! The job file, read and checked.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;
use toml::de::DeTable;
use xxhash_rust::xxh3::xxh3_64;

use super::error::{Error, JobProblem};
use super::keys;
use crate::{Growth, Options, SlotsPerBucket};

/// Bytes that a key, or a line, may have at most.
pub(super) const LONGEST: usize = 16 << 20;
const LONGEST_NAME: usize = 200;
/// Bytes that a job file may have.
const LONGEST_JOB: u64 = 1 << 20;
const EVERY_KEYS: NonZeroU64 = NonZeroU64::new(1_000_000).unwrap();
const EVERY_SECONDS: Duration = Duration::from_secs(10);

/// A job file, checked; nothing that it names has been looked at yet.
///
/// Paths in it are relative to the folder that it is in.
#[derive(Clone, Debug)]
pub struct Job {
    pub(super) path: PathBuf,
    pub(super) name: String,
    /// The folder of the job file; empty for the current one.
    pub(super) base: PathBuf,
    pub(super) filter: PathBuf,
    pub(super) creation: Creation,
    pub(super) patterns: Vec<String>,
    pub(super) records: RecordOptions,
    pub(super) every_keys: NonZeroU64,
    /// Zero: only by keys.
    pub(super) every: Duration,
    /// Relative to `base` where it is not absolute.
    pub(super) new_keys: Option<PathBuf>,
}

/// How keys are found in an input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RecordOptions {
    pub(super) format: Format,
    pub(super) trim: bool,
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

impl RecordOptions {
    /// Changes when records would be cut or understood otherwise.
    ///
    /// It is kept in files: what is hashed is fixed, and `ingest` has the table.
    pub(super) fn hash(&self) -> u64 {
        xxh3_64(&self.encode())
    }

    fn encode(&self) -> Vec<u8> {
        let Self { format, trim, skip_empty, max_key_length } = self;
        let mut bytes = vec![u8::from(*trim), u8::from(*skip_empty)];
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

#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Creation {
    path: PathBuf,
    capacity: Option<u64>,
    false_positive_rate: Option<f64>,
    slots_per_bucket: Option<Spanned<u32>>,
    seed: Option<u64>,
    #[serde(default)]
    growth: RawGrowth,
    max_file_size: Option<u64>,
    max_false_positive_rate: Option<f64>,
}

#[derive(Clone, Copy, Default, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
enum RawGrowth {
    #[default]
    Auto,
    Never,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawJob {
    name: Option<Spanned<String>>,
    filter: Creation,
    input: RawInput,
    #[serde(default)]
    commit: RawCommit,
    output: Option<RawOutput>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawInput {
    paths: Spanned<Vec<String>>,
    #[serde(default = "lines")]
    format: Spanned<RawFormat>,
    field: Option<Spanned<RawField>>,
    header: Option<bool>,
    delimiter: Option<Spanned<String>>,
    #[serde(default)]
    trim: bool,
    #[serde(default)]
    skip_empty: bool,
    max_key_length: Option<Spanned<u64>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawFormat {
    Lines,
    Nul,
    Csv,
    Jsonl,
}

fn lines() -> Spanned<RawFormat> {
    Spanned::new(0..0, RawFormat::Lines)
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawField {
    Name(String),
    Number(u64),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCommit {
    every_keys: Option<Spanned<u64>>,
    every_seconds: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOutput {
    new_keys: PathBuf,
}

/// A problem and where in the text it is.
type Refused = (JobProblem, Option<usize>);

fn wrong<T>(key: &'static str, value: &Spanned<T>, expected: &'static str) -> Refused {
    (JobProblem::Value { key, expected }, Some(value.span().start))
}

impl Job {
    /// Reads and checks a job file.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let refused = |problem| Error::Job { path: path.to_owned(), line: None, problem };
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(LONGEST_JOB + 1).read_to_string(&mut text));
        read.map_err(|source| refused(JobProblem::Read(source)))?;
        if text.len() as u64 > LONGEST_JOB {
            return Err(refused(JobProblem::TooLong { limit: LONGEST_JOB }));
        }
        Self::parse(&text, path)
    }

    /// Checks the text of a job file as if it were at `path`: its folder is the one to which the paths in it
    /// are relative, and without a `name` the job is called as the file is, without the extension.
    pub fn parse(text: &str, path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        parse(text, path).map_err(|(problem, at)| {
            let line = at.and_then(|at| text.get(..at)).map(|before| 1 + before.matches('\n').count() as u64);
            Error::Job { path: path.to_owned(), line, problem }
        })
    }

    /// The job's name, under which the filter remembers it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The job file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The filter.
    pub fn filter(&self) -> &Path {
        &self.filter
    }

    /// Where keys seen for the first time go.
    pub fn output(&self) -> Option<PathBuf> {
        self.new_keys.as_ref().map(|path| self.base.join(path))
    }

    /// What ends a key in the output.
    pub(super) const fn separator(&self) -> u8 {
        match self.records.format {
            Format::Lines(separator) => separator,
            Format::Csv { .. } | Format::Jsonl { .. } => b'\n',
        }
    }
}

fn toml_problem(error: &toml::de::Error) -> Refused {
    let message = error.message().lines().collect::<Vec<_>>().join("; ");
    (JobProblem::Toml(message), error.span().map(|span| span.start))
}

fn parse(text: &str, path: &Path) -> Result<Job, Refused> {
    let table = DeTable::parse(text).map_err(|error| toml_problem(&error))?;
    if let Some((problem, span)) = keys::unknown(table.get_ref()) {
        return Err((problem, Some(span.start)));
    }
    let raw: RawJob = toml::from_str(text).map_err(|error| toml_problem(&error))?;
    let base = path.parent().unwrap_or(Path::new("")).to_owned();
    let name = name(raw.name, path)?;
    if let Some(slots) = &raw.filter.slots_per_bucket
        && SlotsPerBucket::new(*slots.get_ref()).is_none()
    {
        return Err(wrong("slots_per_bucket", slots, "a whole number from 2 to 7"));
    }
    if raw.input.paths.get_ref().is_empty() {
        return Err(wrong("paths", &raw.input.paths, "a list of at least one path or pattern"));
    }
    let every_keys = match &raw.commit.every_keys {
        None => EVERY_KEYS,
        Some(keys) => NonZeroU64::new(*keys.get_ref()).ok_or(wrong("every_keys", keys, "at least 1"))?,
    };
    let every = match &raw.commit.every_seconds {
        None => EVERY_SECONDS,
        Some(seconds) => Duration::try_from_secs_f64(*seconds.get_ref()).map_err(|_| {
            wrong("every_seconds", seconds, "a number of seconds, or 0 to commit only by keys")
        })?,
    };
    Ok(Job {
        path: path.to_owned(),
        name,
        filter: base.join(&raw.filter.path),
        base,
        creation: raw.filter,
        patterns: raw.input.paths.get_ref().clone(),
        records: raw.input.options()?,
        every_keys,
        every,
        new_keys: raw.output.map(|output| output.new_keys),
    })
}

fn name(given: Option<Spanned<String>>, path: &Path) -> Result<String, Refused> {
    const EXPECTED: &str = "1 to 200 bytes without control characters";
    let fits =
        |name: &str| !name.is_empty() && name.len() <= LONGEST_NAME && !name.chars().any(char::is_control);
    if let Some(name) = given {
        return if fits(name.get_ref()) {
            Ok(name.into_inner())
        } else {
            Err(wrong("name", &name, EXPECTED))
        };
    }
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if fits(&name) { Ok(name) } else { Err((JobProblem::Value { key: "name", expected: EXPECTED }, None)) }
}

impl RawInput {
    fn options(&self) -> Result<RecordOptions, Refused> {
        let format = self.format()?;
        let max_key_length = match &self.max_key_length {
            None => LONGEST,
            Some(given) => usize::try_from(*given.get_ref())
                .ok()
                .filter(|length| (1..=LONGEST).contains(length))
                .ok_or(wrong("max_key_length", given, "from 1 to 16_777_216"))?,
        };
        Ok(RecordOptions { format, trim: self.trim, skip_empty: self.skip_empty, max_key_length })
    }

    fn format(&self) -> Result<Format, Refused> {
        let format = *self.format.get_ref();
        if format != RawFormat::Csv
            && let Some(delimiter) = &self.delimiter
        {
            return Err(wrong("delimiter", delimiter, "given for format `csv` only"));
        }
        if format != RawFormat::Csv && self.header.is_some() {
            let problem = JobProblem::Value { key: "header", expected: "given for format `csv` only" };
            return Err((problem, Some(self.format.span().start)));
        }
        match (format, &self.field) {
            (RawFormat::Lines, None) => Ok(Format::Lines(b'\n')),
            (RawFormat::Nul, None) => Ok(Format::Lines(0)),
            (RawFormat::Lines | RawFormat::Nul, Some(field)) => {
                Err(wrong("field", field, "given for formats `csv` and `jsonl` only"))
            }
            (RawFormat::Csv | RawFormat::Jsonl, None) => Err(wrong(
                "field",
                &self.format,
                "given for this format: the name or number of a CSV column, or a top-level field of JSON",
            )),
            (RawFormat::Jsonl, Some(field)) => match field.get_ref() {
                RawField::Name(name) => Ok(Format::Jsonl { field: name.clone() }),
                RawField::Number(_) => Err(wrong("field", field, "a name, for format `jsonl`")),
            },
            (RawFormat::Csv, Some(field)) => self.csv(field),
        }
    }

    fn csv(&self, field: &Spanned<RawField>) -> Result<Format, Refused> {
        let delimiter = match &self.delimiter {
            None => b',',
            Some(given) => match given.get_ref().as_bytes() {
                [byte] if !matches!(byte, b'"' | b'\r' | b'\n') => *byte,
                _ => return Err(wrong("delimiter", given, "a single byte, as `;` or `\\t`")),
            },
        };
        let (column, header) = match field.get_ref() {
            RawField::Name(_) if self.header == Some(false) => {
                return Err(wrong("field", field, "a number, from 1, where there is no header"));
            }
            RawField::Name(name) => (Column::Name(name.clone()), true),
            RawField::Number(number) => {
                let index = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1));
                let index = index.ok_or(wrong("field", field, "a name, or a number from 1"))?;
                (Column::Number(index), self.header.unwrap_or(false))
            }
        };
        Ok(Format::Csv { column, header, delimiter })
    }
}

impl Creation {
    /// How the filter is created, on top of how it is to be opened.
    pub(super) fn apply(&self, mut options: Options) -> Options {
        options = options.growth(match self.growth {
            RawGrowth::Auto => Growth::Auto,
            RawGrowth::Never => Growth::Never,
        });
        if let Some(keys) = self.capacity {
            options = options.capacity(keys);
        }
        if let Some(rate) = self.false_positive_rate {
            options = options.false_positive_rate(rate);
        }
        if let Some(slots) =
            self.slots_per_bucket.as_ref().and_then(|slots| SlotsPerBucket::new(*slots.get_ref()))
        {
            options = options.slots_per_bucket(slots);
        }
        if let Some(seed) = self.seed {
            options = options.seed(seed);
        }
        if let Some(bytes) = self.max_file_size {
            options = options.max_file_size(bytes);
        }
        if let Some(rate) = self.max_false_positive_rate {
            options = options.max_false_positive_rate(rate);
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = "[filter]\npath = 'f'\n[input]\npaths = ['a']\n";

    fn refused(text: &str) -> String {
        Job::parse(text, "jobs/nightly.toml").unwrap_err().to_string()
    }

    #[test]
    fn a_job_with_only_what_it_needs_has_the_documented_defaults() {
        let job = Job::parse(LEAST, "jobs/nightly.toml").unwrap();
        assert_eq!((job.name(), job.filter()), ("nightly", Path::new("jobs/f")));
        assert_eq!((job.every_keys.get(), job.every), (1_000_000, Duration::from_secs(10)));
        assert_eq!((job.separator(), job.output()), (b'\n', None));
        assert_eq!(job.records.max_key_length, LONGEST);
        assert!(!job.records.trim && !job.records.skip_empty);
        assert_eq!(Job::parse(LEAST, "nightly.toml").unwrap().filter(), Path::new("f"));
    }

    /// The list for suggestions and the structures that serde fills must not part.
    #[test]
    fn every_known_key_is_accepted() {
        let text = r#"
            name = "a"
            [filter]
            path = "f"
            capacity = 3_000_000
            false_positive_rate = 0.001
            slots_per_bucket = 4
            seed = 1
            growth = "never"
            max_file_size = 1_000_000
            max_false_positive_rate = 0.1
            [input]
            paths = ["a"]
            format = "csv"
            field = "url"
            header = true
            delimiter = ";"
            trim = true
            skip_empty = true
            max_key_length = 100
            [commit]
            every_keys = 1
            every_seconds = 0
            [output]
            new_keys = "n"
        "#;
        Job::parse(text, "j").unwrap();
        let mentioned =
            |key: &&&str| text.contains(&format!("{key} = ")) || text.contains(&format!("[{key}]"));
        let known = || keys::KNOWN.iter().flat_map(|(_, keys)| keys.iter());
        assert_eq!(known().filter(mentioned).count(), known().count());
    }

    #[test]
    fn the_options_are_hashed_as_documented() {
        let encoded = |input: &str| Job::parse(&format!("{LEAST}{input}"), "j").unwrap().records.encode();
        let most = [0, 0, 0, 1, 0, 0, 0, 0];
        for (input, flags, most, rest) in [
            ("", [0, 0], most, &b"\0\n"[..]),
            ("format = 'nul'\ntrim = true", [1, 0], most, b"\0\0"),
            ("skip_empty = true\nmax_key_length = 258", [0, 1], [2, 1, 0, 0, 0, 0, 0, 0], b"\0\n"),
            ("format = 'csv'\nfield = 'url'", [0, 0], most, b"\x01,\x01\x01url"),
            ("format = 'csv'\nfield = 3\ndelimiter = ';'", [0, 0], most, b"\x01;\0\0\x02\0\0\0\0\0\0\0"),
            ("format = 'csv'\nfield = 3\nheader = true", [0, 0], most, b"\x01,\x01\0\x02\0\0\0\0\0\0\0"),
            ("format = 'jsonl'\nfield = 'url'", [0, 0], most, b"\x02url"),
        ] {
            assert_eq!(encoded(input), [&flags, &most[..], rest].concat(), "{input}");
        }
        // Of the first row, by another implementation of XXH3.
        assert_eq!(Job::parse(LEAST, "j").unwrap().records.hash(), 0x5fe5_6fc8_d970_6655);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let cases = [
            (
                "[filter]\npath = 'f'\n[input]\npahts = ['a']\n",
                "line 4: unknown key `pahts` in [input]; did you mean `paths`?",
            ),
            (
                "[filter]\npath = 3\n[input]\npaths = ['a']\n",
                "line 2: invalid type: integer `3`, expected path string",
            ),
            ("[filter]\npath = 'f'\n", "missing field `input`"),
            ("[filter\n", "line 1: "),
            ("name = ''\n[filter]\npath = 'f'\n[input]\npaths = ['a']\n", "line 1: `name` must be 1 to 200"),
            ("[filter]\npath = 'f'\n[input]\npaths = []\n", "line 4: `paths` must be"),
            (
                "[filter]\npath = 'f'\n[input]\npaths = ['a']\nformat = 'cvs'\n",
                "line 5: unknown variant `cvs`, expected one of",
            ),
            (
                "[filter]\npath = 'f'\n[input]\npaths = ['a']\nformat = 'csv'\n",
                "line 5: `field` must be given",
            ),
            (
                "[filter]\npath = 'f'\n[input]\npaths = ['a']\nfield = 'x'\n",
                "line 5: `field` must be given for formats",
            ),
            (
                "[filter]\npath = 'f'\n[input]\npaths = ['a']\nformat = 'csv'\nfield = 0\n",
                "line 6: `field` must be a name, or a number from 1",
            ),
            (
                "[filter]\npath = 'f'\n[input]\npaths = ['a']\nformat = 'jsonl'\nfield = 1\n",
                "line 6: `field` must be a name",
            ),
            (
                "[filter]\npath = 'f'\n[input]\npaths = ['a']\ndelimiter = ';'\n",
                "line 5: `delimiter` must be",
            ),
            (
                "[filter]\npath = 'f'\n[input]\npaths = ['a']\nmax_key_length = 0\n",
                "line 5: `max_key_length` must be",
            ),
            (
                "[filter]\npath = 'f'\nslots_per_bucket = 8\n[input]\npaths = ['a']\n",
                "line 3: `slots_per_bucket` must be",
            ),
            (
                "[filter]\npath = 'f'\n[input]\npaths = ['a']\n[commit]\nevery_keys = 0\n",
                "line 6: `every_keys` must be at least 1",
            ),
            (
                "[filter]\npath = 'f'\n[input]\npaths = ['a']\n[commit]\nevery_seconds = -1\n",
                "line 6: `every_seconds` must be",
            ),
        ];
        for (text, message) in cases {
            let found = refused(text);
            assert!(found.starts_with("jobs/nightly.toml") && found.contains(message), "{found}");
            assert!(!found.contains('\n'), "{found}");
        }
    }
}
