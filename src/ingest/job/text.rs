//! Turns the text of a job file into a job: the structures that serde fills, and the checks that serde does not make.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::slice;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;
use toml::de::DeTable;

use super::{Job, Missing, known};
use crate::ingest::creation::{Creation, span};
use crate::ingest::error::{Error, JobProblem};
use crate::ingest::rules::{Column, Format, Rules, TimeField};
use crate::keys::LONGEST;
use crate::store::Store;
use crate::{Case, KeyRules, Kind, SlotsPerBucket};

/// The most bytes that a job file may have.
const LONGEST_JOB: u64 = 1 << 20;
/// The most bytes that a job's name may have.
const LONGEST_NAME: usize = 200;
const EVERY_KEYS: NonZeroU64 = NonZeroU64::new(1_000_000).unwrap();
const EVERY_SECONDS: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawJob {
    name: Option<Spanned<String>>,
    filter: Creation,
    input: RawInput,
    #[serde(default)]
    commit: RawCommit,
    #[serde(default)]
    output: RawOutput,
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
    time: Option<Spanned<RawColumn>>,
    #[serde(default)]
    trim: bool,
    ignore_case: Option<Case>,
    #[serde(default)]
    skip_empty: bool,
    max_key_length: Option<Spanned<u64>>,
    missing: Option<Spanned<Missing>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawFormat {
    Lines,
    Nul,
    Csv,
    Jsonl,
    /// Refused by name.
    Parquet,
}

fn lines() -> Spanned<RawFormat> {
    Spanned::new(0..0, RawFormat::Lines)
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawField {
    One(RawColumn),
    Several(Vec<RawColumn>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawColumn {
    Name(String),
    Number(u64),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCommit {
    every_keys: Option<Spanned<u64>>,
    every_seconds: Option<Spanned<f64>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOutput {
    new_keys: Option<PathBuf>,
    records: Option<Spanned<bool>>,
    refused: Option<PathBuf>,
    rejects: Option<PathBuf>,
}

/// A problem, and the byte of the text at which it is.
type Misfit = (JobProblem, Option<usize>);

fn wrong<T>(key: &'static str, value: &Spanned<T>, expected: &'static str) -> Misfit {
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

    /// Checks the text of a job file as if it were at `path`: paths in it are relative to the folder of `path`, and a
    /// job without a `name` has the file's name without the extension.
    pub fn parse(text: &str, path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        parse(text, path).map_err(|(problem, at)| {
            let line = at.and_then(|at| text.get(..at)).map(|before| 1 + before.matches('\n').count() as u64);
            Error::Job { path: path.to_owned(), line, problem }
        })
    }
}

fn toml_problem(error: &toml::de::Error) -> Misfit {
    let message = error.message().lines().collect::<Vec<_>>().join("; ");
    (JobProblem::Toml(message), error.span().map(|span| span.start))
}

/// The value of an option, or `default` if it is not given. `check` returns `None` for a value that is not as `expected`.
fn value<T, V>(
    (key, given): (&'static str, &Option<Spanned<T>>),
    default: V,
    expected: &'static str,
    check: impl FnOnce(&T) -> Option<V>,
) -> Result<V, Misfit> {
    match given {
        None => Ok(default),
        Some(given) => check(given.get_ref()).ok_or_else(|| wrong(key, given, expected)),
    }
}

/// That what a forgetting filter keeps is given for one, and in one way.
fn check_forgetting(filter: &Creation) -> Result<(), Misfit> {
    let Creation { kind, forget_after, forget_within, refresh, keep_newest, capacity, .. } = filter;
    for given in [("forget_after", forget_after), ("forget_within", forget_within)] {
        value(given, (), "a time, as in \"30d\", \"12h\", \"5m\" or \"90s\"", |text| span(text).map(drop))?;
    }
    let within = ("forget_within", start(forget_within));
    let (after, refresh) = (("forget_after", start(forget_after)), ("refresh", start(refresh)));
    let (newest, capacity) = (("keep_newest", start(keep_newest)), ("capacity", start(capacity)));
    let is_other = kind.is_some_and(|kind| kind != Kind::Forgetting);
    let has_newest = keep_newest.is_some();
    let not_both = "left out beside `keep_newest`";
    let needs_after = "given beside `forget_after`";
    let forgetting_alone = "given for a filter of the kind \"forgetting\" alone";
    // The first of these that is given although it must not be.
    let wrong = [
        (after, has_newest, not_both),
        (within, has_newest, not_both),
        (refresh, has_newest, not_both),
        (capacity, has_newest, "left out beside `keep_newest`, from which it follows"),
        (newest, is_other, forgetting_alone),
        (within, forget_after.is_none(), needs_after),
        (refresh, forget_after.is_none(), needs_after),
        (after, is_other, forgetting_alone),
    ];
    match wrong.into_iter().find(|((_, place), is_wrong, _)| place.is_some() && *is_wrong) {
        Some(((key, place), _, expected)) => Err((JobProblem::Value { key, expected }, place)),
        None => Ok(()),
    }
}

/// The byte at which a value is, if it is given.
fn start<T>(value: &Option<Spanned<T>>) -> Option<usize> {
    value.as_ref().map(|value| value.span().start)
}

fn parse(text: &str, path: &Path) -> Result<Job, Misfit> {
    let table = DeTable::parse(text).map_err(|error| toml_problem(&error))?;
    if let Some((problem, span)) = known::unknown(table.get_ref()) {
        return Err((problem, Some(span.start)));
    }
    let raw: RawJob = toml::from_str(text).map_err(|error| toml_problem(&error))?;
    let base = path.parent().unwrap_or(Path::new("")).to_owned();
    let name = name(raw.name, path)?;
    value(("slots_per_bucket", &raw.filter.slots_per_bucket), (), "a whole number from 2 to 7", |slots| {
        SlotsPerBucket::new(*slots).map(drop)
    })?;
    check_forgetting(&raw.filter)?;
    if raw.input.paths.get_ref().is_empty() {
        return Err(wrong("paths", &raw.input.paths, "a list of at least one path or pattern"));
    }
    let every_keys = ("every_keys", &raw.commit.every_keys);
    let every_keys = value(every_keys, EVERY_KEYS, "at least 1", |keys| NonZeroU64::new(*keys))?;
    let every = ("every_seconds", &raw.commit.every_seconds);
    let every = value(every, EVERY_SECONDS, "a number of seconds, or 0 to commit only by keys", |seconds| {
        Duration::try_from_secs_f64(*seconds).ok()
    })?;
    if let (Some(records), None) = (&raw.output.records, &raw.output.new_keys) {
        return Err(wrong("records", records, "given beside `new_keys`"));
    }
    let records = raw.output.records.is_some_and(Spanned::into_inner);
    let without_records = "`drop` or `fail`, unless `records` is true: kept are whole records";
    let missing = value(("missing", &raw.input.missing), Missing::Drop, without_records, |missing| {
        Some(*missing).filter(|missing| records || *missing != Missing::Keep)
    })?;
    Ok(Job {
        path: path.to_owned(),
        name,
        // A store in a bucket lies beside no file.
        filter: if Store::is_address(&raw.filter.path) {
            raw.filter.path.clone()
        } else {
            base.join(&raw.filter.path)
        },
        base,
        creation: raw.filter,
        patterns: raw.input.paths.get_ref().clone(),
        rules: raw.input.rules()?,
        every_keys,
        every,
        outputs: [raw.output.new_keys, raw.output.refused, raw.output.rejects],
        records,
        missing,
    })
}

fn name(given: Option<Spanned<String>>, path: &Path) -> Result<String, Misfit> {
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

impl RawColumn {
    /// `None` for the number 0: columns are counted from 1.
    fn column(&self) -> Option<Column> {
        match self {
            Self::Name(name) => Some(Column::Name(name.clone())),
            Self::Number(number) => usize::try_from(*number).ok()?.checked_sub(1).map(Column::Number),
        }
    }
}

impl RawInput {
    fn rules(&self) -> Result<Rules, Misfit> {
        let format = self.format()?;
        let longest = ("max_key_length", &self.max_key_length);
        let max_key_length = value(longest, LONGEST, "from 1 to 16_777_216", |length| {
            usize::try_from(*length).ok().filter(|length| (1..=LONGEST).contains(length))
        })?;
        let key = KeyRules { trim: self.trim, ignore_case: self.ignore_case };
        let mut rules = Rules { format, key, skip_empty: self.skip_empty, max_key_length, time: None };
        rules.time = self.time.as_ref().map(|time| self.time(time, &mut rules.format)).transpose()?;
        Ok(rules)
    }

    fn time(&self, time: &Spanned<RawColumn>, format: &mut Format) -> Result<TimeField, Misfit> {
        match (time.get_ref(), format) {
            (RawColumn::Name(_), Format::Csv { .. }) if self.header == Some(false) => {
                Err(wrong("time", time, "a number, from 1, where there is no header"))
            }
            (column, Format::Csv { header, .. }) => {
                *header |= matches!(column, RawColumn::Name(_));
                let column = column.column().map(TimeField::Column);
                column.ok_or_else(|| wrong("time", time, "a name, or a number from 1"))
            }
            (RawColumn::Name(path), Format::Jsonl { .. }) => Ok(TimeField::path(path)),
            (RawColumn::Number(_), Format::Jsonl { .. }) => {
                Err(wrong("time", time, "a name, for format `jsonl`"))
            }
            (_, Format::Lines(_) | Format::Parquet { .. }) => {
                Err(wrong("time", time, "given for formats `csv` and `jsonl` only"))
            }
        }
    }

    fn format(&self) -> Result<Format, Misfit> {
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
            // A cursor keeps a place in a stream of bytes, and the hash of all bytes before it.
            (RawFormat::Parquet, _) => Err(wrong(
                "format",
                &self.format,
                "`lines`, `nul`, `csv` or `jsonl`: a job does not read Parquet; write the column of keys as CSV",
            )),
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
                RawField::One(RawColumn::Name(path)) => Ok(Format::jsonl(path)),
                _ => Err(wrong("field", field, "a name, for format `jsonl`")),
            },
            (RawFormat::Csv, Some(field)) => self.csv(field),
        }
    }

    fn csv(&self, field: &Spanned<RawField>) -> Result<Format, Misfit> {
        let delimiter = ("delimiter", &self.delimiter);
        let delimiter =
            value(delimiter, b',', "a single byte, as `;` or `\\t`", |text| match text.as_bytes() {
                [byte] if !matches!(byte, b'"' | b'\r' | b'\n') => Some(*byte),
                _ => None,
            })?;
        let columns = match field.get_ref() {
            RawField::One(one) => slice::from_ref(one),
            RawField::Several(all) if all.is_empty() => {
                return Err(wrong("field", field, "at least one column"));
            }
            RawField::Several(all) => all,
        };
        let columns: Option<Vec<_>> = columns.iter().map(RawColumn::column).collect();
        let columns = columns.ok_or_else(|| wrong("field", field, "a name, or a number from 1"))?;
        let is_named = columns.iter().any(|column| matches!(column, Column::Name(_)));
        if is_named && self.header == Some(false) {
            return Err(wrong("field", field, "a number, from 1, where there is no header"));
        }
        let header = is_named || self.header.unwrap_or(false);
        Ok(Format::Csv { columns, header, delimiter })
    }
}
