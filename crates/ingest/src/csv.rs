//! CSV: the key is one column or several, by name or number. The csv library understands the quoting.

use std::path::{Path, PathBuf};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::content::{BYTE_ORDER_MARK, Content, Position};
use super::error::{Error, InputProblem};
use super::lines::{Found, LONGEST_RECORD, Skip};
use super::rules::{Column, Format, JOINT, Rules, TimeField};
use super::time::TimeKind;

/// The most bytes of a record shown in a message.
const SHOWN: usize = 200;
/// The most fields in a record: each takes memory, even an empty one.
const MOST_FIELDS: usize = 1 << 20;

/// How fields are separated.
#[derive(Clone, Copy)]
pub(super) struct Dialect {
    pub(super) delimiter: u8,
    pub(super) quotes: bool,
}

impl Dialect {
    fn reader(self) -> Reader {
        ReaderBuilder::new().delimiter(self.delimiter).quoting(self.quotes).build()
    }
}

/// Whether fields separated by this byte may be quoted, unless the user says otherwise.
pub(super) const fn has_quotes(delimiter: u8) -> bool {
    delimiter != b'\t'
}

pub(super) struct Csv {
    columns: Vec<usize>,
    /// The column of the time, and the kind of time in it.
    time: Option<(usize, TimeKind)>,
    record: Record,
    /// The header as it is in the file; `None` if the file has none.
    header: Option<Vec<u8>>,
    /// The joined key, if it has several columns.
    key: Vec<u8>,
}

impl Csv {
    /// Continues at `position`, where `content` stands. Looks for the columns of the `key` and the time in the first
    /// record, and skips that record if it is a header. In the middle of a file with a header, it reads the first record
    /// from the beginning of the file at the path of `content`.
    pub(super) fn new(
        (key, rules): (&[Column], &Rules),
        dialect: Dialect,
        header: bool,
        content: &mut Content,
        position: Position,
    ) -> Result<Self, Error> {
        let wanted = &wanted(key, rules);
        let mut record = Record::new(dialect);
        let is_start = position.base == 0 && position.offset == 0;
        let (mut columns, passed) = if is_start && header {
            let any = record.read(content)?;
            (columns(content.path(), &record, any, wanted)?, any.then(|| record.raw().to_vec()))
        } else if header {
            (found(&mut content.reopened()?, dialect, wanted)?, None)
        } else {
            (wanted.iter().map(Column::number).collect(), None)
        };
        if !is_start {
            record.is_not_first(position.lines);
        }
        let column = if columns.len() > key.len() { columns.pop() } else { None };
        let time = column.map(|column| (column, rules.time_kind));
        Ok(Self { columns, time, record, header: passed, key: Vec::new() })
    }

    pub(super) fn next(&mut self, content: &mut Content) -> Result<Option<Found<'_>>, Error> {
        if !self.record.read(content)? {
            return Ok(None);
        }
        let record = self.record.raw();
        let skipped = |skip| Ok(Some(Found::Skipped { skip, record }));
        let key = if let [column] = self.columns.as_slice() {
            let Some(field) = self.record.field(*column) else { return skipped(Skip::NoField) };
            field
        } else {
            self.key.clear();
            for (index, column) in self.columns.iter().enumerate() {
                if index > 0 {
                    self.key.push(JOINT);
                }
                let Some(field) = self.record.field(*column) else { return skipped(Skip::NoField) };
                self.key.extend_from_slice(field);
            }
            &self.key
        };
        let time =
            self.time.map(|(column, kind)| self.record.field(column).and_then(|text| kind.parse(text)));
        match time {
            Some(None) => skipped(Skip::NoTime),
            time => Ok(Some(Found::Key { key, record, time: time.flatten() })),
        }
    }

    /// How many lines have ended.
    pub(super) fn lines(&self) -> u64 {
        self.record.lines()
    }

    /// The line on which the last record began.
    pub(super) const fn line(&self) -> u64 {
        self.record.begins
    }

    pub(super) fn header(&self) -> Option<&[u8]> {
        self.header.as_deref()
    }
}

/// The columns of the key, and after them the column of the time, if the rules have one.
pub(super) fn wanted(key: &[Column], rules: &Rules) -> Vec<Column> {
    let time = rules.time.iter().filter_map(|time| match time {
        TimeField::Column(column) => Some(column),
        TimeField::Path(_) => None,
    });
    key.iter().chain(time).cloned().collect()
}

/// The indices of columns, from the first record. Without a first record there are no fields, so any indices will do.
fn columns(path: &Path, record: &Record, any: bool, wanted: &[Column]) -> Result<Vec<usize>, Error> {
    if !any {
        return Ok(wanted.iter().map(Column::number).collect());
    }
    let fields = || (0..).map_while(|index| record.field(index));
    let index = |column: &Column| {
        let found = match column {
            Column::Name(name) => fields().position(|field| field == name.as_bytes()),
            Column::Number(index) => record.field(*index).map(|_| *index),
        };
        let missing = || InputProblem::NoColumn { wanted: column.shown(), header: shown(fields()) };
        found.ok_or_else(|| Error::input(path, missing()))
    };
    wanted.iter().map(index).collect()
}

/// The indices of columns, from the first record of a file at whose beginning `content` stands. Fails if a column is
/// missing.
pub(super) fn found(content: &mut Content, dialect: Dialect, wanted: &[Column]) -> Result<Vec<usize>, Error> {
    let mut record = Record::new(dialect);
    let any = record.read(content)?;
    columns(content.path(), &record, any, wanted)
}

/// The first record as it is in the file; empty in an empty file.
pub(super) fn header(content: &mut Content, dialect: Dialect) -> Result<Vec<u8>, Error> {
    let mut record = Record::new(dialect);
    record.read(content)?;
    Ok(record.raw().to_vec())
}

/// Whether two headers differ at most in the end of their line.
pub(super) fn is_same_header(one: &[u8], other: &[u8]) -> bool {
    one.strip_suffix(b"\r").unwrap_or(one) == other.strip_suffix(b"\r").unwrap_or(other)
}

/// The header of the first of several inputs, which all others must share.
#[derive(Clone, Default, Debug)]
pub struct CommonHeader(Option<(PathBuf, Vec<u8>)>);

impl CommonHeader {
    /// Whether this is the first header. Fails if its columns differ from those of the first header, or their order does.
    pub fn admit(&mut self, path: &Path, header: &[u8]) -> Result<bool, Error> {
        let Some((first, known)) = &self.0 else {
            self.0 = Some((path.to_owned(), header.to_vec()));
            return Ok(true);
        };
        if is_same_header(known, header) {
            return Ok(false);
        }
        let (first, header) = (first.clone(), shown_record(header));
        Err(Error::input(path, InputProblem::OtherHeader { first, header }))
    }

    /// The header without its end of line.
    pub(super) fn into_header(self) -> Option<Vec<u8>> {
        self.0.map(|(_, header)| header.strip_suffix(b"\r").map(<[u8]>::to_vec).unwrap_or(header))
    }
}

impl Format {
    /// CSV whose key is made of these columns: names, or numbers from 1, separated by commas. A name that contains a
    /// comma is quoted as in CSV. There is a header if any column is given by name. Fields separated by tabs have no
    /// [`quotes`](Self::Csv::quotes); other fields have.
    pub fn csv(columns: &str, delimiter: u8) -> Self {
        let columns: Vec<Column> = fields(columns).into_iter().map(Column::of).collect();
        let header = columns.iter().any(|column| matches!(column, Column::Name(_)));
        Self::Csv { columns, header, delimiter, quotes: has_quotes(delimiter) }
    }
}

/// The fields of a record, separated by commas.
fn fields(text: &str) -> Vec<String> {
    let mut reader = ReaderBuilder::new().delimiter(b',').build();
    let (mut output, mut ends) = (vec![0; text.len() + 1], vec![0; text.len() + 1]);
    let (_, _, written, count) = reader.read_record(text.as_bytes(), &mut output, &mut ends);
    // The end of the input also ends the last field.
    let (rest, open) = (output.split_at_mut(written).1, ends.split_at_mut(count).1);
    let (_, _, _, last) = reader.read_record(&[], rest, open);
    let mut start = 0;
    let field = |end: &usize| {
        let field = output.get(start..*end).unwrap_or_default();
        start = *end;
        String::from_utf8_lossy(field).into_owned()
    };
    let fields: Vec<String> = ends.iter().take(count + last).map(field).collect();
    if fields.is_empty() { vec![String::new()] } else { fields }
}

/// Fields on one line, with control characters escaped.
fn shown<'a>(fields: impl Iterator<Item = &'a [u8]>) -> String {
    let mut header = String::new();
    for (index, field) in fields.enumerate() {
        if index > 0 {
            header += ", ";
        }
        // Long enough to show that the field continues.
        let start = field.get(..SHOWN + 4).unwrap_or(field);
        header.extend(String::from_utf8_lossy(start).chars().flat_map(char::escape_debug));
        if header.len() > SHOWN {
            let end = (0..=SHOWN).rev().find(|at| header.is_char_boundary(*at));
            header.truncate(end.unwrap_or_default());
            return header + "...";
        }
    }
    header
}

/// A record as it is in its file, shortened, on one line.
pub(super) fn shown_record(record: &[u8]) -> String {
    shown(std::iter::once(record))
}

/// The current record. The next one overwrites it.
struct Record {
    reader: Reader,
    /// The record's bytes as in the file, without line ends before it, with its own line end.
    raw: Vec<u8>,
    text: Vec<u8>,
    ends: Vec<usize>,
    fields: usize,
    /// Whether no record has been read yet.
    is_first: bool,
    dialect: Dialect,
    /// The line of the record's first byte, counted from 1.
    begins: u64,
}

const fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

impl Record {
    fn new(dialect: Dialect) -> Self {
        let (text, ends) = (vec![0; 4096], vec![0; 64]);
        let reader = dialect.reader();
        Self { reader, raw: Vec::new(), text, ends, fields: 0, is_first: true, dialect, begins: 1 }
    }

    /// Notes that `lines` lines came before. A byte order mark here is a part of its field.
    fn is_not_first(&mut self, lines: u64) {
        self.is_first = false;
        self.reader.read_record(b"\n", &mut self.text, &mut self.ends);
        self.reader.set_line(lines + 1);
    }

    fn lines(&self) -> u64 {
        self.reader.line() - 1
    }

    fn field(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(..self.fields)?.get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        self.text.get(start..end)
    }

    /// The record's bytes without the final newline; a CR before that newline stays.
    fn raw(&self) -> &[u8] {
        self.raw.strip_suffix(b"\n").unwrap_or(&self.raw)
    }

    /// Whether the content ended within a quoted field.
    fn is_open(&self) -> bool {
        let mut reader = self.dialect.reader();
        let (mut text, mut ends) = (vec![0; self.raw.len() + 1], vec![0; self.fields + 2]);
        let (result, ..) = reader.read_record(&[&self.raw, &b"\n"[..]].concat(), &mut text, &mut ends);
        result != ReadRecordResult::Record
    }

    /// Reads the next record. Returns false at the end.
    fn read(&mut self, content: &mut Content) -> Result<bool, Error> {
        self.begins = self.reader.line();
        let (mut text, mut ended) = (0, false);
        self.fields = 0;
        self.raw.clear();
        // The csv library recognizes a byte order mark only if it comes in one piece.
        while content.offset() == 0 && content.waiting().len() < 3 && content.fill()? {}
        let marked = self.is_first && content.waiting().starts_with(BYTE_ORDER_MARK);
        self.is_first = false;
        loop {
            if content.waiting().is_empty() && !ended {
                ended = !content.fill()?;
            }
            let (result, taken, written, fields) = self.reader.read_record(
                content.waiting(),
                &mut self.text[text..],
                &mut self.ends[self.fields..],
            );
            let taken = content.take(taken);
            // Skips the end of the previous record, and empty lines.
            let passed = if self.raw.is_empty() {
                taken.iter().take_while(|byte| is_line_end(**byte)).count()
            } else {
                0
            };
            self.begins += taken.iter().take(passed).filter(|byte| **byte == b'\n').count() as u64;
            self.raw.extend_from_slice(taken.get(passed..).unwrap_or_default());
            text += written;
            self.fields += fields;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::Record => {
                    if ended && self.is_open() {
                        let place = content.place(self.begins);
                        return Err(Error::input(content.path(), InputProblem::Unclosed { place }));
                    }
                    // A byte order mark belongs to the encoding of the file, not to its first record.
                    self.raw.drain(..if marked { BYTE_ORDER_MARK.len() } else { 0 });
                    return Ok(true);
                }
                ReadRecordResult::End => return Ok(false),
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull if text >= LONGEST_RECORD => {
                    let place = content.place(self.begins);
                    let problem = InputProblem::RecordTooLong { place, limit: LONGEST_RECORD };
                    return Err(Error::input(content.path(), problem));
                }
                ReadRecordResult::OutputEndsFull if self.fields >= MOST_FIELDS => {
                    let problem =
                        InputProblem::TooManyFields { place: content.place(self.begins), limit: MOST_FIELDS };
                    return Err(Error::input(content.path(), problem));
                }
                ReadRecordResult::OutputFull => self.text.resize(2 * self.text.len(), 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(2 * self.ends.len(), 0),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::tests::{assert_keys, keys, records};

    const URL: &str = "format = 'csv'\nfield = 'url'";

    #[test]
    fn columns_are_found_by_name_and_by_number() {
        let text = b"id,url,x\r\n1,a,\r\n2,\"b\"\"\n,c\",z\r\n\r\n3,d\n4\n5,,\n6,\xef\xbb\xbf,e";
        assert_keys(URL, text, &["a", "b\"\n,c", "d", "<NoField>", "<NoField>", "\u{feff}"]);
        let second = "format = 'csv'\nfield = 2";
        assert_keys(second, text, &["url", "a", "b\"\n,c", "d", "<NoField>", "<NoField>", "\u{feff}"]);
        let headed = "format = 'csv'\nfield = 1\nheader = true\ndelimiter = ';'";
        assert_keys(headed, b"a;b\nc\n\xef\xbb\xbfd;e\n", &["c", "\u{feff}d"]);
        assert_keys("format = 'csv'\nfield = 3", b"", &[]);
        assert_keys(URL, b"\xef\xbb\xbfurl\na\n", &["a"]);
    }

    #[test]
    fn a_quote_in_a_table_with_tabs_is_a_character() {
        let text = b"id\ttitle\n1\t\"Heroes\n2\tNew\n3\tThe \"Best\"\n4\tlast\n";
        let tabs = "format = 'csv'\ndelimiter = \"\\t\"\nfield =";
        assert_keys(&format!("{tabs} 'id'"), text, &["1", "2", "3", "4"]);
        assert_keys(&format!("{tabs} 'title'"), text, &["\"Heroes", "New", "The \"Best\"", "last"]);
        // Unless the user says that the quotes are meant as such.
        let quoted = format!("{tabs} 'title'\nquotes = true");
        assert_keys(&quoted, b"id\ttitle\n1\t\"a\tb\"\n2\tc\n", &["a\tb", "c"]);
        let plain = "format = 'csv'\nquotes = false\nfield = 2";
        assert_keys(plain, b"1,\"a\n2,b\"\n3,\"c\"", &["\"a", "b\"", "\"c\""]);
    }

    #[test]
    fn an_empty_field_is_missing_and_a_key_of_several_if_all_are_empty() {
        let text = b"id,url\n1,a\n2,\n,b\n,\n3,\"\"\n4, \n";
        assert_keys(URL, text, &["a", "<NoField>", "b", "<NoField>", "<NoField>", " "]);
        let none = "<NoField>";
        assert_keys(&format!("{URL}\ntrim = true"), text, &["a", none, "b", none, none, none]);
        let both = "format = 'csv'\nfield = ['id', 'url']";
        assert_keys(both, text, &["1\x1fa", "2\x1f", "\x1fb", none, "3\x1f", "4\x1f "]);
    }

    #[test]
    fn a_key_may_have_several_columns() {
        let text = b"id,url,x\n1,a,\n2,b\n3\n";
        assert_keys("format = 'csv'\nfield = ['url', 'id']", text, &["a\x1f1", "b\x1f2", "<NoField>"]);
        assert_keys("format = 'csv'\nfield = [3, 1]", text, &["x\x1fid", "\x1f1", "<NoField>", "<NoField>"]);
        let missing = keys("format = 'csv'\nfield = ['url', 'no']", text, None).unwrap_err();
        assert_eq!(missing, "a: has no column \"no\"; its first record is: id, url, x");
    }

    #[test]
    fn records_are_as_they_are_in_the_file_without_their_newline() {
        let text = b"\xef\xbb\xbfid,url\r\n1,a\r\n\r\n\n2,\"b\"\"\n,\r\nc\"\r\n3,\n4\n\"5\",\xef\xbb\xbf";
        let found = records("format = 'csv'\nfield = 'url'", text);
        assert_eq!(found, ["1,a\r", "2,\"b\"\"\n,\r\nc\"\r", "\"5\",\u{feff}"]);
        let found = records("format = 'csv'\nfield = 1", text);
        assert_eq!(found[..2], ["id,url\r", "1,a\r"]);
    }

    #[test]
    fn the_lines_of_a_quoted_field_count() {
        let (_, positions) = keys(URL, b"url\n\"a\n\n\"\nb\nc", None).unwrap();
        assert_eq!(positions.iter().map(|position| position.lines).collect::<Vec<_>>(), [4, 5, 5]);
    }

    #[test]
    fn a_missing_column_is_named_with_those_there_are() {
        let missing = keys(URL, b"id,link\n1,a\n", None).unwrap_err();
        assert_eq!(missing, "a: has no column \"url\"; its first record is: id, link");
        let headed = "format = 'csv'\nfield = 3\nheader = true";
        let missing = keys(headed, b"1,a\n", None).unwrap_err();
        assert_eq!(missing, "a: has no column 3; its first record is: 1, a");
        assert_keys(URL, b"", &[]);
    }

    /// Found by fuzzing: empty fields took memory without bound.
    #[test]
    fn more_fields_than_any_table_has_are_an_error_in_bounded_memory() {
        let mut text = b"url\na\n".to_vec();
        text.resize(text.len() + MOST_FIELDS - 1, b',');
        let (found, _) = keys(URL, &text, None).unwrap();
        assert_eq!(found, ["a", "<NoField>"]);
        text.resize(text.len() + 3 * MOST_FIELDS, b',');
        let error = keys(URL, &text, None).unwrap_err();
        assert!(error.contains("the record that begins on line 3 has more than 1048576 fields"), "{error}");
    }

    /// Found by fuzzing: messages of several lines.
    #[test]
    fn a_header_is_shown_on_one_line_and_not_too_long() {
        let missing = keys(URL, b"\"a\nb\",,\x1b\xff\n", None).unwrap_err();
        assert_eq!(missing, "a: has no column \"url\"; its first record is: a\\nb, , \\u{1b}\u{fffd}");
        let missing = keys(URL, "é".repeat(1000).as_bytes(), None).unwrap_err();
        assert_eq!(missing, format!("a: has no column \"url\"; its first record is: {}...", "é".repeat(100)));
    }

    #[test]
    fn a_quote_without_its_end_is_an_error_in_bounded_memory() {
        let mut text = b"url\na\n\"b\n".to_vec();
        text.resize(LONGEST_RECORD + (8 << 20), b'x');
        let error = keys(URL, &text, None).unwrap_err();
        assert!(error.contains("the record that begins on line 3 is longer than"), "{error}");
    }
}
