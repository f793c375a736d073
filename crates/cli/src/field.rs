//! What a record is, and which part of it is its key.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gowk::{Case, KeyRules, Options};
use gowk_ingest::{Destination, Format, TimeKind};

use super::failure::Failure;
use super::quantity;

#[derive(Args)]
pub(super) struct FieldArgs {
    /// Inputs are CSV, and the key is this column: its name in the first record, which is a header then, or its number
    /// from 1. Several with commas between them make one key: their fields, with the byte 0x1f between them. Whole records
    /// are printed, after the header of the first input
    #[arg(long, value_name = "COLUMNS", conflicts_with_all = ["keys", "null"], group = "records")]
    csv: Option<String>,

    /// What lies between the columns: one character, or \t. With \t a quote is a character like any other, unless --quotes
    /// is given
    #[arg(long, value_name = "C", requires = "csv", default_value = ",", value_parser = delimiter)]
    delimiter: u8,

    /// Fields may have quotes around them, as with every delimiter but \t
    #[arg(long, requires = "csv", conflicts_with = "no_quotes")]
    quotes: bool,

    /// A quote is a character like any other, as with the delimiter \t
    #[arg(long, requires = "csv")]
    no_quotes: bool,

    /// Each line is a JSON object, and the key is this field of it: the text of a string, or a number, true or false as it
    /// is written. user.name is the field `name` of the object in the field `user`; a name with a dot is written user\.name.
    /// Whole lines are printed
    #[arg(long, value_name = "NAME", conflicts_with_all = ["keys", "null"], group = "records")]
    json_field: Option<String>,

    /// Inputs are Parquet files, and the key is this column of strings, binary values, integers, booleans or UUIDs.
    /// user.name is the field `name` of the struct `user`, as in --json-field. The column's values are printed, not rows,
    /// each on a line (with -0, before a NUL, for values that hold newlines): no other column is read. A row that is null
    /// has no key. This needs a gowk built with the feature `parquet`, like the Python package's
    #[arg(long, value_name = "NAME", conflicts_with_all = ["keys", "plain"], group = "records")]
    column: Option<String>,

    /// What to do with records that lack the field, or whose field is empty or holds no single value: leave them out,
    /// print them like new records, or fail at the first. It is always an error if no record has the field
    #[arg(long, value_enum, default_value_t, requires = "records")]
    pub(super) missing: Missing,

    /// Append records without a key to this file. Malformed lines of JSON, otherwise an error, go there too
    #[arg(long, value_name = "PATH", requires = "records", conflicts_with = "column")]
    pub(super) rejects: Option<PathBuf>,
}

/// Where a record says when its key was seen, or how long it is kept.
#[derive(Args)]
pub(super) struct TimeArgs {
    /// Keys were seen at the time in this field of their lines, and not now: for forgetting filters, with --json-field,
    /// and named in the same form. A time is RFC 3339, as in 2026-05-03T12:00:00Z, or a number of seconds since 1970, or
    /// of milliseconds, microseconds or nanoseconds if it is 10^11, 10^14 or 10^17 or more. A record without one has no
    /// key. A key is late if the filter has forgotten that time, and early if it is more than five minutes ahead of the
    /// clock: both are counted, and neither printed nor stored
    #[arg(long, value_name = "NAME", requires = "json_field", conflicts_with_all = ["csv", "column"])]
    time_field: Option<String>,

    /// The same for --csv and --column: the column of the time, by its name, or in CSV by its number from 1. In Parquet a
    /// time may also be a TIMESTAMP or a DATE, in UTC unless it has a time zone
    #[arg(long, value_name = "COLUMN", requires = "records", conflicts_with = "json_field")]
    time_column: Option<String>,

    /// Keep each key for the lifetime in this field, from now on: a number of seconds, or a whole number with a
    /// unit, as in 90d, 12h, 5m or 30s. The longest lifetime is --forget-after. The field is named as the key's is in --csv,
    /// --json-field or --column. A record without a lifetime, or with a longer one, has no key. If a key comes again, the
    /// later expiry stays
    #[arg(long, value_name = "NAME", requires = "records", conflicts_with_all = ["time_field", "time_column"])]
    ttl_field: Option<String>,
}

impl TimeArgs {
    /// Whether records have lifetimes.
    pub(super) const fn is_lifetime(&self) -> bool {
        self.ttl_field.is_some()
    }

    /// The field and the kind of the time, if the options name one, for keys that go to `destination`. Fails unless the
    /// destination forgets keys by time.
    pub(super) fn of(&self, destination: &mut Destination) -> Result<Option<(&str, TimeKind)>, Failure> {
        if let Some(field) = &self.ttl_field {
            return Ok(Some((field, TimeKind::Lifetime(destination.longest_lifetime()?))));
        }
        let field = self.time_field.as_deref().or(self.time_column.as_deref());
        field.map_or(Ok(()), |_| destination.check_times())?;
        Ok(field.map(|field| (field, TimeKind::Seen)))
    }
}

/// The treatment of records without a key.
#[derive(Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum Missing {
    #[default]
    Drop,
    Keep,
    Fail,
}

/// What a key is: fixed when a filter is created.
#[derive(Args, Clone)]
pub(super) struct RuleArgs {
    /// Keys are without the ASCII white space around them, a CR at the end of a line too. A filter keeps this from its
    /// creation on, as it does --ignore-case: later runs follow it, and contradicting it is an error
    #[arg(long)]
    trim: bool,

    /// Keys that differ in upper and lower case are one: of the letters A to Z, or of all that Unicode has
    #[arg(short, long, num_args = 0..=1, require_equals = true, default_missing_value = "ascii")]
    #[arg(value_parser = quantity::word_of(&CASES))]
    ignore_case: Option<Case>,
}

impl RuleArgs {
    /// Requests a filter or store with these key rules, if any are given.
    pub(super) fn apply(&self, options: Options) -> Options {
        let rules = KeyRules { trim: self.trim, ignore_case: self.ignore_case };
        if rules.is_plain() { options } else { options.key_rules(rules) }
    }
}

const CASES: [(&str, Case); 2] = [("ascii", Case::Ascii), ("unicode", Case::Unicode)];

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] if !matches!(byte, b'"' | b'\r' | b'\n') => Ok(*byte),
        _ => Err("write one character, as in ; or \\t".to_owned()),
    }
}

impl FieldArgs {
    /// The format of records; `separator` ends them if they are lines.
    pub(super) fn format(&self, separator: u8) -> Format {
        match (&self.csv, &self.json_field, &self.column) {
            (Some(columns), _, _) => self.csv(columns),
            (None, Some(path), _) => Format::jsonl(path),
            (None, None, Some(path)) => Format::parquet(path),
            (None, None, None) => Format::Lines(separator),
        }
    }

    fn csv(&self, columns: &str) -> Format {
        let mut format = Format::csv(columns, self.delimiter);
        if let Format::Csv { quotes, .. } = &mut format {
            *quotes = self.quotes || *quotes && !self.no_quotes;
        }
        format
    }

    /// Fails if the inputs are Parquet and this build cannot read it.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.column.is_some() && !cfg!(feature = "parquet") {
            return Err(Failure::NoParquet);
        }
        Ok(())
    }

    /// Whether inputs are Parquet.
    pub(super) const fn is_parquet(&self) -> bool {
        self.column.is_some()
    }
}
