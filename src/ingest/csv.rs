//! CSV: one column, by name or number. The csv library understands the quoting.

use std::path::Path;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::content::{Content, Position};
use super::error::{Error, InputProblem};
use super::lines::{Found, Skip};
use super::rules::Column;
use crate::keys::LONGEST;

/// Bytes of a header shown in a message.
const SHOWN: usize = 200;
/// The most fields in a record: each takes memory, even an empty one.
const MOST_FIELDS: usize = 1 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

pub(super) struct Csv {
    column: usize,
    record: Record,
}

impl Csv {
    /// Goes on at `position`, where `content` stands. At the start of the file it passes over the header.
    pub(super) fn new(
        column: usize,
        delimiter: u8,
        header: bool,
        content: &mut Content,
        position: Position,
    ) -> Result<Self, Error> {
        let is_start = position.base == 0 && position.offset == 0;
        let mut record = Record::new(delimiter);
        if is_start {
            if header {
                record.read(content)?;
            }
        } else {
            record.is_not_first(position.lines);
        }
        Ok(Self { column, record })
    }

    pub(super) fn next(&mut self, content: &mut Content) -> Result<Option<Found<'_>>, Error> {
        if !self.record.read(content)? {
            return Ok(None);
        }
        let record = self.record.raw();
        let found = self.record.field(self.column).map(|key| Found::Key { key, record });
        Ok(Some(found.unwrap_or(Found::Skipped(Skip::NoField))))
    }

    /// Lines that have ended.
    pub(super) fn lines(&self) -> u64 {
        self.record.lines()
    }
}

/// The index of a column, from the first record of the file.
pub(super) fn column(path: &Path, delimiter: u8, wanted: &Column) -> Result<usize, Error> {
    let mut record = Record::new(delimiter);
    let mut content = Content::open(path, 0)?;
    let any = record.read(&mut content)?;
    let fields = || (0..).map_while(|index| record.field(index));
    let found = match wanted {
        Column::Name(name) => fields().position(|field| field == name.as_bytes()),
        Column::Number(index) => (!any || record.field(*index).is_some()).then_some(*index),
    };
    found.ok_or_else(|| {
        let wanted = match wanted {
            Column::Name(name) => format!("{name:?}"),
            Column::Number(index) => (index + 1).to_string(),
        };
        Error::input(path, InputProblem::NoColumn { wanted, header: shown(fields()) })
    })
}

/// The first record as it is in the file, without its end; empty if there is none.
pub(super) fn header(path: &Path, delimiter: u8) -> Result<Vec<u8>, Error> {
    let mut record = Record::new(delimiter);
    record.read(&mut Content::open(path, 0)?)?;
    Ok(record.raw().to_vec())
}

/// On one line, whatever is in it.
fn shown<'a>(fields: impl Iterator<Item = &'a [u8]>) -> String {
    let mut header = String::new();
    for (index, field) in fields.enumerate() {
        if index > 0 {
            header += ", ";
        }
        // Enough to show that there is more.
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

/// The current record; the next one takes its place.
struct Record {
    reader: Reader,
    /// Its bytes as they are in the file, from the first one that ends no line, with its end.
    raw: Vec<u8>,
    text: Vec<u8>,
    ends: Vec<usize>,
    fields: usize,
    /// Nothing was read yet.
    is_first: bool,
}

const fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

impl Record {
    fn new(delimiter: u8) -> Self {
        let reader = ReaderBuilder::new().delimiter(delimiter).build();
        Self { reader, raw: Vec::new(), text: vec![0; 4096], ends: vec![0; 64], fields: 0, is_first: true }
    }

    /// Says that `lines` have ended before, so that a byte order mark is a part of its field.
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

    /// All of it, without its end.
    fn raw(&self) -> &[u8] {
        let end = self.raw.iter().rposition(|byte| !is_line_end(*byte)).map_or(0, |last| last + 1);
        self.raw.get(..end).unwrap_or_default()
    }

    /// False at the end.
    fn read(&mut self, content: &mut Content) -> Result<bool, Error> {
        let begins = self.reader.line();
        let (mut text, mut ended) = (0, false);
        self.fields = 0;
        self.raw.clear();
        // The csv library recognises a byte order mark only if it comes in one piece.
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
            // The end of the record before, and empty lines.
            let passed = if self.raw.is_empty() {
                taken.iter().take_while(|byte| is_line_end(**byte)).count()
            } else {
                0
            };
            self.raw.extend_from_slice(taken.get(passed..).unwrap_or_default());
            text += written;
            self.fields += fields;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::Record => {
                    // It belongs to the encoding of the file, and not to its first record.
                    self.raw.drain(..if marked { BYTE_ORDER_MARK.len() } else { 0 });
                    return Ok(true);
                }
                ReadRecordResult::End => return Ok(false),
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull if text > LONGEST => {
                    let problem =
                        InputProblem::RecordTooLong { place: content.place(begins), limit: LONGEST };
                    return Err(Error::input(content.path(), problem));
                }
                ReadRecordResult::OutputEndsFull if self.fields >= MOST_FIELDS => {
                    let problem =
                        InputProblem::TooManyFields { place: content.place(begins), limit: MOST_FIELDS };
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
    use crate::ingest::records::tests::{assert_keys, keys, records};

    const URL: &str = "format = 'csv'\nfield = 'url'";

    #[test]
    fn columns_are_found_by_name_and_by_number() {
        let text = b"id,url,x\r\n1,a,\r\n2,\"b\"\"\n,c\",z\r\n\r\n3,d\n4\n5,,\n6,\xef\xbb\xbf,e";
        assert_keys(URL, text, &["a", "b\"\n,c", "d", "<NoField>", "", "\u{feff}"]);
        let second = "format = 'csv'\nfield = 2";
        assert_keys(second, text, &["url", "a", "b\"\n,c", "d", "<NoField>", "", "\u{feff}"]);
        let headed = "format = 'csv'\nfield = 1\nheader = true\ndelimiter = ';'";
        assert_keys(headed, b"a;b\nc\n\xef\xbb\xbfd;e\n", &["c", "\u{feff}d"]);
        assert_keys("format = 'csv'\nfield = 3", b"", &[]);
        assert_keys(URL, b"\xef\xbb\xbfurl\na\n", &["a"]);
    }

    #[test]
    fn records_are_as_they_are_in_the_file_without_their_ends() {
        let text = b"\xef\xbb\xbfid,url\r\n1,a\r\n\r\n\n2,\"b\"\"\n,\r\nc\"\r\n3,\n4\n\"5\",\xef\xbb\xbf";
        let found = records("format = 'csv'\nfield = 'url'", text);
        assert_eq!(found, ["1,a", "2,\"b\"\"\n,\r\nc\"", "3,", "\"5\",\u{feff}"]);
        let found = records("format = 'csv'\nfield = 1", text);
        assert_eq!(found[..2], ["id,url", "1,a"]);
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
        let missing = keys("format = 'csv'\nfield = 3", b"1,a\n", None).unwrap_err();
        assert_eq!(missing, "a: has no column 3; its first record is: 1, a");
        assert!(keys(URL, b"", None).unwrap_err().contains("has no column \"url\""));
    }

    /// Found by fuzzing: empty fields took memory without bound.
    #[test]
    fn more_fields_than_any_table_has_are_an_error_in_bounded_memory() {
        let mut text = b"url\na\n".to_vec();
        text.resize(text.len() + MOST_FIELDS - 1, b',');
        let (found, _) = keys(URL, &text, None).unwrap();
        assert_eq!(found, ["a", ""]);
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
        text.resize(3 * LONGEST, b'x');
        let error = keys(URL, &text, None).unwrap_err();
        assert!(error.contains("the record that begins on line 3 is longer than"), "{error}");
    }
}
