//! Keys that are not the whole line: a field of a record, or the trimmed, case-folded line.

use std::borrow::Cow;
use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};
use gowk::keys::{Batch, LONGEST};
use gowk::{KeyRules, Options};
use serde_json::value::RawValue;

use super::failure::Failure;

#[derive(Args, Clone)]
pub(super) struct FieldArgs {
    /// Inputs are CSV, and the key is this column: its name in the first record, which is no record then, or its number
    /// from 1. Whole records are printed
    #[arg(long, value_name = "COLUMN", conflicts_with_all = ["keys", "null", "json_field"])]
    csv: Option<String>,

    /// What lies between the columns: one character, or \t
    #[arg(long, value_name = "C", requires = "csv", default_value = ",", value_parser = delimiter)]
    delimiter: u8,

    /// Each line is a JSON object, and the key is this field of it: the text of a string, or a number, true or false as it
    /// is written. Whole lines are printed
    #[arg(long, value_name = "NAME", conflicts_with_all = ["keys", "null"])]
    json_field: Option<String>,

    /// Those of the filter.
    #[arg(skip)]
    rules: KeyRules,
}

/// What a key is: fixed when a filter is created.
#[derive(Args, Clone)]
pub(super) struct RuleArgs {
    /// Keys are without the ASCII white space around them, a CR at the end of a line too. A filter keeps this from its
    /// creation on, as it does --ignore-case: later runs follow it, and contradicting it is an error
    #[arg(long)]
    trim: bool,

    /// Keys that differ in upper and lower case are one: of the letters A to Z, or of all that Unicode has
    #[arg(short, long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "ascii")]
    ignore_case: Option<Case>,
}

impl RuleArgs {
    /// Asks for a filter or store with these rules, if any are given.
    pub(super) fn apply(&self, options: Options) -> Options {
        let ignore_case = self.ignore_case.map(|case| match case {
            Case::Ascii => gowk::Case::Ascii,
            Case::Unicode => gowk::Case::Unicode,
        });
        let rules = KeyRules { trim: self.trim, ignore_case };
        if rules.is_plain() { options } else { options.key_rules(rules) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Case {
    Ascii,
    Unicode,
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] if !matches!(byte, b'"' | b'\r' | b'\n') => Ok(*byte),
        _ => Err("write one character, as in ; or \\t".to_owned()),
    }
}

/// Keys, the records that they are of, and the line on which each of these begins.
#[derive(Default)]
pub(super) struct Keyed {
    pub(super) keys: Batch,
    pub(super) records: Batch,
    pub(super) lines: Vec<u64>,
}

impl FieldArgs {
    /// For a filter with these rules.
    pub(super) fn with(self, rules: KeyRules) -> Self {
        Self { rules, ..self }
    }

    /// Whether keys are whole lines, as they are.
    pub(super) fn is_plain(&self) -> bool {
        self.csv.is_none() && self.json_field.is_none() && self.rules.is_plain()
    }
}

/// Finds the keys in the lines of one input.
pub(super) struct Fields<'a> {
    args: &'a FieldArgs,
    input: String,
    /// Lines taken.
    lines: u64,
    /// Records that have no such field, or no single value in it.
    pub(super) skipped: u64,
    csv: Option<Csv>,
}

struct Csv {
    reader: Reader,
    /// `None` until the header has told it.
    column: Option<usize>,
    /// The lines of a record that is not whole yet, and the first of them.
    record: Vec<u8>,
    begins: u64,
    text: Vec<u8>,
    ends: Vec<usize>,
    /// How many of these the record has so far.
    written: usize,
    fields: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn new(args: &'a FieldArgs, input: String) -> Result<Self, Failure> {
        let column = |name: &String| match name.parse::<usize>() {
            Ok(0) => Err(Failure::Column { input: input.clone(), column: name.clone() }),
            number => Ok(number.ok().map(|number| number - 1)),
        };
        let csv = match &args.csv {
            Some(name) => Some(Csv::new(args.delimiter, column(name)?)),
            None => None,
        };
        Ok(Self { args, input, lines: 0, skipped: 0, csv })
    }

    pub(super) fn take(&mut self, batch: &Batch) -> Result<Keyed, Failure> {
        let mut keyed = Keyed::default();
        for line in batch.iter() {
            self.lines += 1;
            // A byte order mark belongs to the encoding, and not to the first field.
            let first = self.lines == 1 && (self.csv.is_some() || self.args.json_field.is_some());
            let line = if first { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
            if self.csv.is_some() {
                self.csv(line, &mut keyed)?;
            } else if self.args.json_field.is_some() && line.trim_ascii().is_empty() {
                // No record, as in CSV.
            } else if let Some(name) = &self.args.json_field {
                match json_field(line, name).map_err(|error| self.malformed(error.to_string()))? {
                    Some(key) => self.push(&key, line, self.lines, &mut keyed),
                    None => self.skipped += 1,
                }
            } else {
                self.push(line, line, self.lines, &mut keyed);
            }
        }
        Ok(keyed)
    }

    /// Fails if the last record is not whole.
    pub(super) fn end(&self) -> Result<(), Failure> {
        match &self.csv {
            Some(csv) if !csv.record.is_empty() => Err(Failure::Record {
                input: self.input.clone(),
                line: csv.begins,
                problem: "a quoted field does not end; look for a missing quote".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    fn malformed(&self, problem: String) -> Failure {
        Failure::Record { input: self.input.clone(), line: self.lines, problem }
    }

    fn push(&self, key: &[u8], record: &[u8], line: u64, keyed: &mut Keyed) {
        keyed.keys.push(&self.args.rules.normal(key));
        keyed.records.push(record);
        keyed.lines.push(line);
    }

    /// Takes a line of a CSV file: a record, or a part of one.
    fn csv(&mut self, line: &[u8], keyed: &mut Keyed) -> Result<(), Failure> {
        let (lines, wanted) = (self.lines, self.args.csv.as_deref().unwrap_or_default());
        let Some(csv) = &mut self.csv else { return Ok(()) };
        if !csv.take(line, lines) {
            let too_long = csv.record.len() > LONGEST;
            return if too_long { self.end() } else { Ok(()) };
        }
        let (record, begins) = (std::mem::take(&mut csv.record), csv.begins);
        let Some(column) = csv.column else {
            let found = (0..csv.fields).position(|index| csv.field(index) == Some(wanted.as_bytes()));
            let missing = || Failure::Column { input: self.input.clone(), column: wanted.to_owned() };
            csv.column = Some(found.ok_or_else(missing)?);
            return Ok(());
        };
        let key = csv.field(column).map(<[u8]>::to_vec);
        match key {
            Some(key) => self.push(&key, &record, begins, keyed),
            // An empty line is no record.
            None if record.trim_ascii().is_empty() => {}
            None => self.skipped += 1,
        }
        Ok(())
    }
}

impl Csv {
    fn new(delimiter: u8, column: Option<usize>) -> Self {
        let reader = ReaderBuilder::new().delimiter(delimiter).terminator(Terminator::Any(b'\n')).build();
        let (text, ends) = (vec![0; 4096], vec![0; 64]);
        Self { reader, column, record: Vec::new(), begins: 1, text, ends, written: 0, fields: 0 }
    }

    fn field(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(..self.fields)?.get(index)?;
        let start = index.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        let field = self.text.get(start..end)?;
        // The CR before a newline ends the line too.
        let is_last = index + 1 == self.fields;
        Some(if is_last { field.strip_suffix(b"\r").unwrap_or(field) } else { field })
    }

    /// Adds a line; true if the record is whole with it.
    fn take(&mut self, line: &[u8], number: u64) -> bool {
        if self.record.is_empty() {
            (self.begins, self.written, self.fields) = (number, 0, 0);
        } else {
            self.record.push(b'\n');
        }
        self.record.extend_from_slice(line);
        let mut rest = [line, b"\n"].concat();
        loop {
            let (text, ends) = (self.text.get_mut(self.written..), self.ends.get_mut(self.fields..));
            let (Some(text), Some(ends)) = (text, ends) else { return false };
            let (result, read, written, fields) = self.reader.read_record(&rest, text, ends);
            self.written += written;
            self.fields += fields;
            rest.drain(..read);
            match result {
                ReadRecordResult::OutputFull => self.text.resize(2 * self.text.len(), 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(2 * self.ends.len(), 0),
                // An empty line has been passed over.
                ReadRecordResult::InputEmpty
                    if line.trim_ascii().is_empty() && self.fields == 0 && self.written == 0 =>
                {
                    return true;
                }
                ReadRecordResult::InputEmpty => return false,
                ReadRecordResult::Record | ReadRecordResult::End => return true,
            }
        }
    }
}

/// The value of a top-level field of an object; `None` if it is not there, or is no single value.
fn json_field(line: &[u8], name: &str) -> Result<Option<Vec<u8>>, serde_json::Error> {
    let object: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_slice(line)?;
    let Some(value) = object.get(name).map(|value| value.get()) else { return Ok(None) };
    match value.as_bytes() {
        [b'"', ..] => serde_json::from_str::<String>(value).map(|text| Some(text.into_bytes())),
        [b'{' | b'[' | b'n', ..] => Ok(None),
        plain => Ok(Some(plain.to_vec())),
    }
}
