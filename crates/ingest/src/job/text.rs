//! Turns the text of a job file into a job: the structures that serde fills, and the checks that serde cannot make.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::slice;
use std::time::Duration;

use serde::Deserialize;
use toml::de::DeTable;

use super::{Job, Missing, Rotated, known};
use crate::creation::{Creation, span};
use crate::csv::has_quotes;
use crate::decode::Unpack;
use crate::error::{Error, JobProblem};
use crate::keys::LONGEST;
use crate::rules::{Column, Format, Rules, TimeField};
use crate::time::TimeKind;
use gowk::store::Store;
use gowk::{Case, KeyRules, Kind, SlotsPerBucket};

/// How many bytes a job file may have at most.
const LONGEST_JOB: u64 = 1 << 20;
/// How many bytes a job's name may have at most.
const LONGEST_NAME: usize = 200;
const SETTLE: Duration = Duration::from_secs(60);
const LONG: &str = "31, which reads the longest windows of zstd (up to 2 GiB of memory), or left out";
/// Used with `every_seconds = 0`, if the job sets no number of keys.
const EVERY_KEYS: NonZeroU64 = NonZeroU64::new(1_000_000).unwrap();

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawJob {
    name: Option<String>,
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
    paths: Vec<String>,
    #[serde(default)]
    format: RawFormat,
    field: Option<RawField>,
    header: Option<bool>,
    delimiter: Option<String>,
    quotes: Option<bool>,
    long: Option<u32>,
    time: Option<RawColumn>,
    ttl: Option<RawColumn>,
    #[serde(default)]
    trim: bool,
    ignore_case: Option<Case>,
    #[serde(default)]
    skip_empty: bool,
    max_key_length: Option<u64>,
    missing: Option<Missing>,
    settle: Option<String>,
    #[serde(default)]
    rotated: Rotated,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawFormat {
    #[default]
    Lines,
    Nul,
    Csv,
    Jsonl,
    /// Jobs do not read it: refused by name.
    Parquet,
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
    every_keys: Option<u64>,
    every_seconds: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOutput {
    new_keys: Option<PathBuf>,
    records: Option<bool>,
    refused: Option<PathBuf>,
    rejects: Option<PathBuf>,
}

/// A problem, and the byte of the text where it is.
type Misfit = (JobProblem, Option<usize>);

/// The places of values in a job file. No two tables have a key in common.
struct Places<'a>(&'a DeTable<'a>);

impl Places<'_> {
    /// The byte at which a value stands, if it is given.
    fn of(&self, key: &str) -> Option<usize> {
        let tables = self.0.values().filter_map(|value| value.get_ref().as_table());
        let value = std::iter::once(self.0).chain(tables).find_map(|table| table.get(key))?;
        Some(value.span().start)
    }

    fn wrong(&self, key: &'static str, expected: &'static str) -> Misfit {
        (JobProblem::Value { key, expected }, self.of(key))
    }

    /// The value of an option, or `default` if it is not given. `check` returns `None` for a value that does not fit
    /// `expected`.
    fn value<T, V>(
        &self,
        (key, given): (&'static str, Option<T>),
        default: V,
        expected: &'static str,
        check: impl FnOnce(T) -> Option<V>,
    ) -> Result<V, Misfit> {
        given.map_or(Ok(default), |given| check(given).ok_or_else(|| self.wrong(key, expected)))
    }
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

    /// Checks the text of a job file as if the file were at `path`: paths in it are relative to the folder of `path`, and
    /// a job without a `name` has the file's name without the extension.
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

/// Checks that the options of forgetting are given only for a forgetting filter, and only in one way.
fn check_forgetting(filter: &Creation, places: &Places<'_>) -> Result<(), Misfit> {
    let Creation { kind, forget_after, forget_within, keep_newest, .. } = filter;
    for (key, given) in [("forget_after", forget_after), ("forget_within", forget_within)] {
        let given = (key, given.as_deref());
        places.value(given, (), "a time, as in \"30d\", \"12h\", \"5m\" or \"90s\"", |text| {
            span(text).map(drop)
        })?;
    }
    let is_other = kind.is_some_and(|kind| kind != Kind::Forgetting);
    let has_newest = keep_newest.is_some();
    let not_both = "left out beside `keep_newest`";
    let needs_after = "given beside `forget_after`";
    let forgetting_alone = "given for a filter of the kind \"forgetting\" alone";
    // The first option that is given although it must not be.
    let wrong = [
        ("forget_after", has_newest, not_both),
        ("forget_within", has_newest, not_both),
        ("refresh", has_newest, not_both),
        ("capacity", has_newest, "left out beside `keep_newest`, from which it follows"),
        ("keep_newest", is_other, forgetting_alone),
        ("forget_within", forget_after.is_none(), needs_after),
        ("refresh", forget_after.is_none(), needs_after),
        ("forget_after", is_other, forgetting_alone),
    ];
    match wrong.into_iter().find(|(key, is_wrong, _)| *is_wrong && places.of(key).is_some()) {
        Some((key, _, expected)) => Err(places.wrong(key, expected)),
        None => Ok(()),
    }
}

fn parse(text: &str, path: &Path) -> Result<Job, Misfit> {
    let table = DeTable::parse(text).map_err(|error| toml_problem(&error))?;
    if let Some((problem, span)) = known::unknown(table.get_ref()) {
        return Err((problem, Some(span.start)));
    }
    let places = Places(table.get_ref());
    let raw: RawJob = toml::from_str(text).map_err(|error| toml_problem(&error))?;
    let base = path.parent().unwrap_or(Path::new("")).to_owned();
    let name = name(raw.name, path, &places)?;
    let slots = ("slots_per_bucket", raw.filter.slots_per_bucket);
    places.value(slots, (), "a whole number from 2 to 7", |slots| SlotsPerBucket::new(slots).map(drop))?;
    check_forgetting(&raw.filter, &places)?;
    if raw.input.paths.is_empty() {
        return Err(places.wrong("paths", "a list of at least one path or pattern"));
    }
    let every_keys = ("every_keys", raw.commit.every_keys);
    let every_keys = places.value(every_keys, None, "at least 1", |keys| NonZeroU64::new(keys).map(Some))?;
    let every = ("every_seconds", raw.commit.every_seconds);
    let expected = "a number of seconds, or 0 to commit only by keys";
    let every = places.value(every, None, expected, |seconds| {
        Some(Duration::try_from_secs_f64(seconds).ok()).filter(Option::is_some)
    })?;
    let by_keys_alone = every.is_some_and(|every| every.is_zero());
    let every_keys = every_keys.or(by_keys_alone.then_some(EVERY_KEYS));
    if raw.output.records.is_some() && raw.output.new_keys.is_none() {
        return Err(places.wrong("records", "given beside `new_keys`"));
    }
    let records = raw.output.records.unwrap_or(false);
    let without_records = "`drop` or `fail`, unless `records` is true: kept are whole records";
    let missing = ("missing", raw.input.missing);
    let missing = places.value(missing, Missing::Drop, without_records, |missing| {
        Some(missing).filter(|missing| records || *missing != Missing::Keep)
    })?;
    Ok(Job {
        path: path.to_owned(),
        name,
        // An address of a store in a bucket is not relative to the job file.
        filter: if Store::is_address(&raw.filter.path) {
            raw.filter.path.clone()
        } else {
            base.join(&raw.filter.path)
        },
        base,
        creation: raw.filter,
        rules: raw.input.rules(&places)?,
        settle: places.value(
            ("settle", raw.input.settle.as_deref()),
            SETTLE,
            "a time, as in \"90s\" or \"5m\"; \"0s\" takes a last line at once",
            span,
        )?,
        rotated: raw.input.rotated,
        unpack: places.value(("long", raw.input.long), Unpack::Usual, LONG, |long| {
            (long == 31).then_some(Unpack::Long)
        })?,
        patterns: raw.input.paths,
        every_keys,
        every,
        outputs: [raw.output.new_keys, raw.output.refused, raw.output.rejects],
        records,
        missing,
    })
}

fn name(given: Option<String>, path: &Path, places: &Places<'_>) -> Result<String, Misfit> {
    let fits =
        |name: &str| !name.is_empty() && name.len() <= LONGEST_NAME && !name.chars().any(char::is_control);
    let from_path = || path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = given.unwrap_or_else(from_path);
    if fits(&name) {
        return Ok(name);
    }
    Err(places.wrong("name", "1 to 200 bytes without control characters"))
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
    fn rules(&self, places: &Places<'_>) -> Result<Rules, Misfit> {
        let format = self.format(places)?;
        let longest = ("max_key_length", self.max_key_length);
        let max_key_length = places.value(longest, LONGEST, "from 1 to 16_777_216", |length| {
            usize::try_from(length).ok().filter(|length| (1..=LONGEST).contains(length))
        })?;
        let key = KeyRules { trim: self.trim, ignore_case: self.ignore_case };
        let mut rules = Rules {
            format,
            key,
            skip_empty: self.skip_empty,
            max_key_length,
            time: None,
            time_kind: TimeKind::Seen,
        };
        let format = &mut rules.format;
        let (key, time) = match (&self.time, &self.ttl) {
            (Some(_), Some(_)) => return Err(places.wrong("ttl", "left out where `time` is given")),
            (time, None) => ("time", time),
            (None, ttl) => ("ttl", ttl),
        };
        if self.ttl.is_some() {
            // How long the filter keeps keys becomes known later.
            rules.time_kind = TimeKind::Lifetime(Duration::MAX);
        }
        rules.time = time.as_ref().map(|time| self.time(key, time, format, places)).transpose()?;
        Ok(rules)
    }

    /// The part of a record that the job's entry `key` names.
    fn time(
        &self,
        key: &'static str,
        time: &RawColumn,
        format: &mut Format,
        places: &Places<'_>,
    ) -> Result<TimeField, Misfit> {
        match (time, format) {
            (RawColumn::Name(_), Format::Csv { .. }) if self.header == Some(false) => {
                Err(places.wrong(key, "a number, from 1, where there is no header"))
            }
            (column, Format::Csv { header, .. }) => {
                *header |= matches!(column, RawColumn::Name(_));
                let column = column.column().map(TimeField::Column);
                column.ok_or_else(|| places.wrong(key, "a name, or a number from 1"))
            }
            (RawColumn::Name(path), Format::Jsonl { .. }) => Ok(TimeField::path(path)),
            (RawColumn::Number(_), Format::Jsonl { .. }) => {
                Err(places.wrong(key, "a name, for format `jsonl`"))
            }
            (_, Format::Lines(_) | Format::Parquet { .. }) => {
                Err(places.wrong(key, "given for formats `csv` and `jsonl` only"))
            }
        }
    }

    fn format(&self, places: &Places<'_>) -> Result<Format, Misfit> {
        // A message about a format that is not given names the first line.
        let at_format = Some(places.of("format").unwrap_or_default());
        let is_csv = self.format == RawFormat::Csv;
        if !is_csv && self.delimiter.is_some() {
            return Err(places.wrong("delimiter", "given for format `csv` only"));
        }
        if !is_csv && self.quotes.is_some() {
            return Err(places.wrong("quotes", "given for format `csv` only"));
        }
        if !is_csv && self.header.is_some() {
            let problem = JobProblem::Value { key: "header", expected: "given for format `csv` only" };
            return Err((problem, at_format));
        }
        match (self.format, &self.field) {
            // A cursor stores a place in a stream of bytes, and the hash of all bytes before it.
            (RawFormat::Parquet, _) => Err(places.wrong(
                "format",
                "`lines`, `nul`, `csv` or `jsonl`: a job does not read Parquet; write the column of keys as CSV",
            )),
            (RawFormat::Lines, None) => Ok(Format::Lines(b'\n')),
            (RawFormat::Nul, None) => Ok(Format::Lines(0)),
            (RawFormat::Lines | RawFormat::Nul, Some(_)) => {
                Err(places.wrong("field", "given for formats `csv` and `jsonl` only"))
            }
            (RawFormat::Csv | RawFormat::Jsonl, None) => {
                let expected =
                    "given for this format: the name or number of a CSV column, or a top-level field of JSON";
                Err((JobProblem::Value { key: "field", expected }, at_format))
            }
            (RawFormat::Jsonl, Some(RawField::One(RawColumn::Name(path)))) => Ok(Format::jsonl(path)),
            (RawFormat::Jsonl, Some(_)) => Err(places.wrong("field", "a name, for format `jsonl`")),
            (RawFormat::Csv, Some(field)) => self.csv(field, places),
        }
    }

    fn csv(&self, field: &RawField, places: &Places<'_>) -> Result<Format, Misfit> {
        let delimiter = ("delimiter", self.delimiter.as_deref());
        let delimiter = places.value(delimiter, b',', "a single byte, as `;` or `\\t`", |text: &str| {
            match text.as_bytes() {
                [byte] if !matches!(byte, b'"' | b'\r' | b'\n') => Some(*byte),
                _ => None,
            }
        })?;
        let columns = match field {
            RawField::One(one) => slice::from_ref(one),
            RawField::Several(all) if all.is_empty() => {
                return Err(places.wrong("field", "at least one column"));
            }
            RawField::Several(all) => all,
        };
        let columns: Option<Vec<_>> = columns.iter().map(RawColumn::column).collect();
        let columns = columns.ok_or_else(|| places.wrong("field", "a name, or a number from 1"))?;
        let is_named = columns.iter().any(|column| matches!(column, Column::Name(_)));
        if is_named && self.header == Some(false) {
            return Err(places.wrong("field", "a number, from 1, where there is no header"));
        }
        let header = is_named || self.header.unwrap_or(false);
        let quotes = self.quotes.unwrap_or(has_quotes(delimiter));
        Ok(Format::Csv { columns, header, delimiter, quotes })
    }
}
