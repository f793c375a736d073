//! The errors of jobs. Each message is one line that names the file, the place and the remedy.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::keys::Foreign;
use crate::summary::Summary;

/// Why a job did not run to its end. Its commits remain, and the next run continues from the last one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The filter failed.
    #[error(transparent)]
    Filter(#[from] gowk::Error),

    /// The store failed.
    #[error(transparent)]
    Store(#[from] gowk::store::Error),

    /// Another run of the same job has committed to the store since this run began.
    #[error(
        "{}: another run of this job is under way, or has just ended; run the job again when none is",
        store.display()
    )]
    Overtaken {
        /// The store.
        store: PathBuf,
    },

    /// Another process has committed to the store with the same token, but on top of another version.
    #[error(
        "{}: another process has committed with this token meanwhile, as version {version}, on another base; \
         run this again for what that one printed",
        store.display()
    )]
    TokenTaken {
        /// The store.
        store: PathBuf,
        /// The version that the other process made.
        version: u64,
    },

    /// The job file cannot be understood.
    #[error("{}{}: {problem}", path.display(), line.map(|line| format!(", line {line}")).unwrap_or_default())]
    Job {
        /// The job file.
        path: PathBuf,
        /// The line that is wrong, counted from 1; `None` if the problem is not on one line.
        line: Option<u64>,
        /// What is wrong.
        problem: JobProblem,
    },

    /// An input cannot be read, or not to its end.
    #[error("{}: {problem}", path.display())]
    Input {
        /// The input, or the pattern.
        path: PathBuf,
        /// What is wrong with it.
        problem: InputProblem,
    },

    /// Some inputs could not be read, or not to the end. All others were, and their keys are committed.
    #[error(
        "{}; so {} of {of} inputs could not be read to their ends; all others were",
        failed.first().map_or_else(String::new, Error::to_string), failed.len()
    )]
    Inputs {
        /// The error of each of them.
        failed: Vec<Error>,
        /// The number of all inputs.
        of: u64,
        /// The result of the job's run despite these errors.
        summary: Option<Box<Summary>>,
    },

    /// The output cannot be written, or differs from what this job wrote.
    #[error("{}: {problem}", path.display())]
    Output {
        /// The output.
        path: PathBuf,
        /// What is wrong with it.
        problem: OutputProblem,
    },

    /// The metadata of the filter has no room for the job's cursor.
    #[error(
        "{}: remembering the inputs of job `{job}` needs {needed} bytes of metadata, but there is room for {limit}; \
         {}; let it forget finished inputs that are gone, or a whole job",
        filter.display(), holders(jobs)
    )]
    CursorFull {
        /// The filter.
        filter: PathBuf,
        /// The job.
        job: String,
        /// The bytes of metadata that the job needs.
        needed: usize,
        /// The most bytes of metadata that a filter can have.
        limit: usize,
        /// The jobs that the filter remembers, and how many bytes each takes.
        jobs: Vec<(String, usize)>,
    },

    /// This build cannot read the cursor in the filter.
    #[error(
        "{}: what it remembers of job `{job}` is unreadable or written by a newer gowk; use that one, or begin the \
         job anew once that is forgotten",
        filter.display()
    )]
    Cursor {
        /// The filter.
        filter: PathBuf,
        /// The job.
        job: String,
    },

    /// The filter remembers no job of this name.
    #[error("{}: remembers no job `{job}`; {}", filter.display(), holders(jobs))]
    NoSuchJob {
        /// The filter.
        filter: PathBuf,
        /// The job to forget.
        job: String,
        /// The jobs that the filter remembers, and how many bytes each takes.
        jobs: Vec<(String, usize)>,
    },

    /// `cause` occurred after some keys of this run had been committed.
    #[error("{cause}; of this run's keys, the first {committed} are committed")]
    Partly {
        /// What went wrong.
        cause: Box<Error>,
        /// How many keys of this run are committed.
        committed: u64,
    },

    /// `cause` occurred during a commit, which may be durable or not. Earlier commits are durable. The next run continues
    /// from the last commit that it finds.
    #[error(
        "{cause}; of this run's keys, the first {committed} are committed for certain; whether keys {} to {taken} \
         are, commit {number}, is unknown: run the job again; it goes on from where the filter is",
        committed + 1
    )]
    InDoubt {
        /// What went wrong.
        cause: Box<Error>,
        /// The number of the commit in doubt.
        number: u64,
        /// How many keys of this run are certainly committed.
        committed: u64,
        /// How many keys of this run are committed if the commit is durable.
        taken: u64,
    },

    /// The reading thread could not be started.
    #[error("cannot start a thread: {source}; try again when the system has more to give")]
    Thread {
        /// The system's reason.
        source: io::Error,
    },
}

fn holders(jobs: &[(String, usize)]) -> String {
    if jobs.is_empty() {
        return "it remembers no jobs".to_owned();
    }
    let jobs: Vec<_> = jobs.iter().map(|(job, bytes)| format!("`{job}` {bytes} bytes")).collect();
    format!("it remembers {}", jobs.join(", "))
}

/// What is wrong with a job file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobProblem {
    /// It cannot be read.
    #[error("cannot read: {0}; check the path")]
    Read(#[source] io::Error),
    /// It is longer than a job file may be.
    #[error("longer than {limit} bytes: not a job file; check the path")]
    TooLong {
        /// How many bytes a job file may have at most.
        limit: u64,
    },
    /// It is not TOML, or a value is of the wrong type; the parser's message.
    #[error("{0}")]
    Toml(String),
    /// A key that no job has.
    #[error("unknown key `{}`{}; did you mean {suggestion}?", key.escape_debug(), within(table))]
    UnknownKey {
        /// The key.
        key: String,
        /// The table of the key; empty if it is in none.
        table: String,
        /// The nearest known key, with its table if that differs.
        suggestion: String,
    },
    /// The `[input]` table has other rules for keys than the earlier runs, which have read inputs to the end.
    #[error(
        "other [input] options than those by which {inputs} inputs were read to their ends, so that their keys would stay \
         what they were; change the options back, or begin the job anew: forget it"
    )]
    OtherOptions {
        /// The number of these inputs.
        inputs: u64,
    },
    /// A value outside its range.
    #[error("`{key}` must be {expected}")]
    Value {
        /// The key.
        key: &'static str,
        /// The values that it may have.
        expected: &'static str,
    },
}

fn within(table: &str) -> String {
    if table.is_empty() { String::new() } else { format!(" in [{table}]") }
}

/// What is wrong with an input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputProblem {
    /// There is no such file.
    #[error("no such input; check the path in the job file")]
    Missing,
    /// A pattern that matches nothing.
    #[error("no input matches; check the pattern in the job file")]
    NoMatch,
    /// Not a valid pattern; the parser's message.
    #[error("not a pattern: {0}; write `[*]` for a star as such")]
    Pattern(&'static str),
    /// A directory.
    #[error("is a directory; name its files, as in `{}`", _0.join("*").display())]
    Directory(PathBuf),
    /// A pipe, socket or device.
    #[error("not a regular file, so that reading could not go on after a crash; copy it to a file first")]
    NotRegular,
    /// One of the job's own files: the filter, its journal or its lock file, an output, or the job file.
    #[error("belongs to the job itself and cannot be its input; change the paths in the job file")]
    Own,
    /// The system refused.
    #[error("cannot {op}: {source}; check the file and its permissions")]
    Io {
        /// What the job tried to do.
        op: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// Data in a format that gowk does not read.
    #[error("is {format} data, which is not read; {}", unpack(*format))]
    Foreign {
        /// Its format.
        format: Foreign,
    },
    /// Compressed data that end too early.
    #[error(
        "truncated {format} data: they end within a member at byte {at}; get the whole file and run this again"
    )]
    Truncated {
        /// `gzip` or `zstd`.
        format: &'static str,
        /// How many bytes the file has.
        at: u64,
    },
    /// Other bytes than zeros after compressed data.
    #[error(
        "something else follows the {format} data near byte {at}; the records before it were read; cut it off, or get the \
         file anew"
    )]
    Trailing {
        /// `gzip`.
        format: &'static str,
        /// How many bytes of the file were read before.
        at: u64,
    },
    /// zstd data that need more memory than is usual.
    #[error(
        "zstd data with a long window, which takes up to 2 GiB of memory to read; allow that (`long = 31` under [input]), or \
         unpack the file first, as with `zstd -dc --long=31 FILE > NEW`"
    )]
    LongWindow,
    /// Compressed data that cannot be decompressed.
    #[error("damaged {format} data near byte {at}: {source}; get the file anew and run this again")]
    Corrupt {
        /// `gzip` or `zstd`.
        format: &'static str,
        /// How many bytes of the file were read before.
        at: u64,
        /// The decompressor's reason.
        source: io::Error,
    },
    /// The rules ask for Parquet, but this is not a Parquet file.
    #[error("is no Parquet file, of which a column could be read; name its format, or get the file anew")]
    NotParquet,
    /// Parquet that does not come from a file.
    #[error(
        "is no regular file: Parquet is read from its end, not from a pipe; write it to a file, and name that"
    )]
    NoFile,
    /// A Parquet file that cannot be decoded.
    #[error("damaged Parquet data, {place}: {message}; get the file anew and run this again")]
    Parquet {
        /// The footer or the rows.
        place: String,
        /// The decoder's message.
        message: String,
    },
    /// A Parquet file without the column.
    #[error("has no column {wanted}; its columns are: {columns}")]
    NoColumnOf {
        /// The column's name in quotes.
        wanted: String,
        /// The columns, shortened.
        columns: String,
    },
    /// A column of a Parquet file whose values have no single form as text.
    #[error(
        "its column {column} has {has}, which are no keys; write them as text first, as with \
         `duckdb -c \"copy (select {column}::text as key from 'FILE') to 'NEW' (format parquet)\"`"
    )]
    ColumnType {
        /// The column.
        column: String,
        /// Its type.
        has: String,
    },
    /// A column of a Parquet file whose values are no times.
    #[error(
        "its column {column} has {has}, which are no times; a time is a TIMESTAMP, a DATE, a text as in RFC 3339, or a \
         number since 1970, of seconds to nanoseconds"
    )]
    TimeType {
        /// The column.
        column: String,
        /// Its type.
        has: String,
    },
    /// A column of a Parquet file whose values are no lifetimes.
    #[error(
        "its column {column} has {has}, which are no lifetimes; a lifetime is a number of seconds, or a text as 90d or 12h"
    )]
    LifetimeType {
        /// The column.
        column: String,
        /// Its type.
        has: String,
    },
    /// A column of a Parquet file in a compression that is not read.
    #[error(
        "its column {column} is compressed as {codec}, which is not read; write the file anew with zstd or snappy"
    )]
    ColumnCodec {
        /// The column.
        column: String,
        /// The compression.
        codec: String,
    },
    /// A CSV file without the column.
    #[error("has no column {wanted}; its first record is: {header}")]
    NoColumn {
        /// The column's name in quotes, or its number.
        wanted: String,
        /// The first record, shortened.
        header: String,
    },
    /// A CSV file with another header than the first file of the job. Their records cannot go into one output.
    #[error("has another header than {}: {header}; read it by itself", first.display())]
    OtherHeader {
        /// The first file.
        first: PathBuf,
        /// The first record, shortened.
        header: String,
    },
    /// A line that is not a JSON object.
    #[error("invalid JSON on {place}, column {column}: {message}; correct the line and run this again")]
    Json {
        /// The line.
        place: String,
        /// Bytes into the line, from 1.
        column: usize,
        /// The parser's message.
        message: String,
    },
    /// A CSV record at whose end a quoted field is still open.
    #[error(
        "the record that begins on {place} is not whole: a quoted field does not end; look for a missing quote"
    )]
    Unclosed {
        /// The line.
        place: String,
    },
    /// A line, or a key that ends with another separator, longer than a key may be.
    #[error("{unit} {number} is longer than {limit} bytes, the most that a key may have; shorten it")]
    KeyTooLong {
        /// `line` or `key`.
        unit: &'static str,
        /// Counted from 1.
        number: u64,
        /// How many bytes a key may have.
        limit: usize,
    },
    /// A record without a key, although the rules say that each must have one.
    #[error(
        "the record on {place} has no single value in {field}; correct it, or let such records be left out"
    )]
    NoKey {
        /// The line.
        place: String,
        /// The column or field.
        field: String,
    },
    /// A record without a valid time, in a run that does not skip such records.
    #[error(
        "the record on {place} has no valid time in {field}; write RFC 3339 with an offset, or a number of seconds \
         since 1970, or let such records be left out"
    )]
    NoTime {
        /// The line.
        place: String,
        /// The column or field.
        field: String,
    },
    /// A record without a valid lifetime, in a run that does not skip such records.
    #[error(
        "the record on {place} has no valid lifetime in {field}; write a number of seconds, or a time as 90d or 12h, at \
         most the {most:?} that the filter keeps keys, or let such records be left out"
    )]
    NoLifetime {
        /// The line.
        place: String,
        /// The column or field.
        field: String,
        /// How long the filter keeps keys.
        most: Duration,
    },
    /// No record of the inputs has a valid lifetime.
    #[error(
        "has no valid lifetime in {field} of any of its {records} records; check the name of the field, and that it holds a \
         number of seconds, or a time as 90d or 12h, at most the {most:?} that the filter keeps keys"
    )]
    NoLifetimes {
        /// The column or field.
        field: String,
        /// The number of records, all without a lifetime.
        records: u64,
        /// How long the filter keeps keys.
        most: Duration,
    },
    /// No record of the inputs has a valid time.
    #[error(
        "has no valid time in {field} of any of its {records} records; check the name of the field, and that it holds \
         RFC 3339 with an offset, or seconds, milliseconds, microseconds or nanoseconds since 1970"
    )]
    NoTimes {
        /// The column or field.
        field: String,
        /// The number of records, all without a time.
        records: u64,
    },
    /// No record of the inputs has a key.
    #[error("has no {field} in any of its {records} records; check the name of the field")]
    NoField {
        /// The column or field.
        field: String,
        /// The number of records, all without the field.
        records: u64,
    },
    /// All records are malformed.
    #[error(
        "all of its {records} lines are malformed: each must be one JSON object; write an object a line first, as with \
         `jq -c . FILE > NEW`, or as with `jq -c '.[]'` if the file is one array"
    )]
    AllMalformed {
        /// The number of lines.
        records: u64,
    },
    /// All keys are too long.
    #[error("all of its {records} keys are longer than {limit} bytes; raise that limit, or check the format")]
    AllTooLong {
        /// The number of records.
        records: u64,
        /// How many bytes a key may have.
        limit: usize,
    },
    /// A record without an end.
    #[error(
        "the record that begins on {place} is longer than {limit} bytes; look for a missing quote or end of line"
    )]
    RecordTooLong {
        /// The line.
        place: String,
        /// How many bytes a record may have.
        limit: usize,
    },
    /// A CSV record with more fields than any real table has.
    #[error("the record that begins on {place} has more than {limit} fields; look for a missing end of line")]
    TooManyFields {
        /// The line.
        place: String,
        /// How many fields a record may have.
        limit: usize,
    },
    /// The input is shorter than the part of it that was already read.
    #[error(
        "{read} bytes were read, but {found} are there now: cut or replaced; \
         restore it, or read it from its start: restart it"
    )]
    Shrunken {
        /// How many bytes were read.
        read: u64,
        /// How many bytes there are.
        found: u64,
    },
    /// The part of the input that was already read has changed.
    #[error(
        "was replaced or changed within the first {read} bytes, which were read already; \
         restore it, or read it from its start: restart it"
    )]
    Changed {
        /// How many bytes were read.
        read: u64,
    },
    /// The input has grown, and the last record read before was incomplete.
    #[error("has grown, but ended within a record when it was read; read it from its start: restart it")]
    GrownWithinRecord,
    /// The input was read in part, and is no longer an input of the job.
    #[error(
        "was read up to byte {read} and is no longer among the inputs; put it back, or give it up: restart it"
    )]
    Gone {
        /// How many bytes were read.
        read: u64,
    },
    /// The input was read in part under other rules.
    #[error(
        "was read up to byte {read} under other [input] options; \
         change them back until it is finished, or read it from its start: restart it"
    )]
    OtherOptions {
        /// How many bytes were read.
        read: u64,
    },
    /// The caller asked to restart a file that is not an input.
    #[error("cannot be restarted: not an input of this job; give its path as messages show it")]
    Unknown,
}

/// What is wrong with an output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputProblem {
    /// The system refused.
    #[error("cannot {op}: {source}; {} and run the job again", remedy(source))]
    Io {
        /// What the job tried to do.
        op: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A file of the filter, or a name that the filter uses for its own files.
    #[error("belongs to the filter itself and cannot be the output; choose another name")]
    Own,
    /// The job names one file for both the new keys and the refused ones.
    #[error("is named as `new_keys` and as `refused`; give each a file of its own")]
    Twice,
    /// A file that the job did not write.
    #[error("exists already, and this job did not write it; move it away or choose another name")]
    InTheWay,
    /// The output is gone, or shorter than its committed part.
    #[error(
        "{committed} bytes were written, but {found} are there now; put the file back, or begin a new one"
    )]
    Short {
        /// How many bytes were committed.
        committed: u64,
        /// How many bytes there are.
        found: u64,
    },
    /// Another run writes to the output.
    #[error(
        "another run writes to it; run the job again when that has ended, or give the job a file of its own"
    )]
    Busy,
    /// Another run has appended to the output, so the job must not cut off the bytes after the committed ones.
    #[error(
        "another run has written behind the {committed} bytes that this job has committed; \
         move that part to another file, or move this file away and begin a new one"
    )]
    Appended {
        /// How many bytes were committed.
        committed: u64,
    },
    /// A file of some filter or store.
    #[error("is {is}; choose another name")]
    OfFilter {
        /// What it is.
        is: String,
    },
    /// The output differs from its committed part.
    #[error(
        "its first {committed} bytes are not what this job wrote; \
         put the file back, or move this one away and begin a new one"
    )]
    Changed {
        /// How many bytes were committed.
        committed: u64,
    },
    /// The output begins with another record than the header of the inputs.
    #[error("does not begin with the header of the inputs, {header}; move it away and begin a new one")]
    OtherHeader {
        /// The header, shortened.
        header: String,
    },
    /// The job file names another output than before.
    #[error(
        "the job began with another output and is not finished; \
         name that one again, or leave it as it is and begin this one as a new output"
    )]
    Other,
}

/// The remedy for an input in a foreign format.
fn unpack(format: Foreign) -> String {
    match format.unpacker() {
        None if format == Foreign::Filter => "its keys are not in it as text; `gowk merge` stores those of one filter in another".to_owned(),
        Some(command) if format == Foreign::Utf16 => {
            format!("write it as UTF-8 first, as with `{command} FILE > NEW`")
        }
        Some(command) => format!("unpack it first, as with `{command} FILE > NEW`"),
        None => "write its column of keys as CSV first, as with `duckdb -csv -c \"select COLUMN from 'FILE'\" > NEW`".to_owned(),
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room",
        io::ErrorKind::FileTooLarge => "raise the limit on the size of files",
        io::ErrorKind::PermissionDenied => "check the permissions of the file and its folder",
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "create its folder",
        _ => "check the path",
    }
}

impl Error {
    /// Whether only one input is damaged or unreadable, so that a run still reads all others. Wrong rules are not such an
    /// error.
    pub fn is_of_one_input(&self) -> bool {
        use InputProblem::{
            Changed, Corrupt, Foreign, Gone, GrownWithinRecord, Io, Json, LongWindow, Parquet, RecordTooLong,
            Shrunken, TooManyFields, Trailing, Truncated, Unclosed,
        };
        let Self::Input { problem, .. } = self else { return false };
        matches!(
            problem,
            Changed { .. }
                | Corrupt { .. }
                | Foreign { .. }
                | Gone { .. }
                | GrownWithinRecord
                | Io { .. }
                | Json { .. }
                | InputProblem::KeyTooLong { .. }
                | LongWindow
                | Parquet { .. }
                | RecordTooLong { .. }
                | Shrunken { .. }
                | TooManyFields { .. }
                | Trailing { .. }
                | Truncated { .. }
                | Unclosed { .. }
        )
    }

    /// Whether another file has taken an input's name, or the file was cut.
    pub(super) const fn is_rotation(&self) -> bool {
        let Self::Input { problem, .. } = self else { return false };
        matches!(problem, InputProblem::Changed { .. } | InputProblem::Shrunken { .. })
    }

    pub(super) fn input(path: &Path, problem: InputProblem) -> Self {
        Self::Input { path: path.to_owned(), problem }
    }

    /// A function that turns a system error into a failure to do `op` to an input.
    pub(super) fn of_input<'a>(path: &'a Path, op: &'static str) -> impl Fn(io::Error) -> Self + use<'a> {
        move |source| Self::input(path, InputProblem::Io { op, source })
    }

    /// Like `of_input`, for an output.
    pub(super) fn of_output<'a>(path: &'a Path, op: &'static str) -> impl Fn(io::Error) -> Self + use<'a> {
        move |source| Self::output(path, OutputProblem::Io { op, source })
    }

    pub(super) fn output(path: &Path, problem: OutputProblem) -> Self {
        Self::Output { path: path.to_owned(), problem }
    }
}
