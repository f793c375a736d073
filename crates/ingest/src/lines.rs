//! The lines of an input, and the content of records in any format. A line of any length takes bounded memory.

use memchr::memchr;

use super::content::Content;
use super::error::{Error, InputProblem};
use super::time::KeyTime;
use crate::keys::LONGEST;

/// How many bytes a record with fields may have. Keys are limited to [`LONGEST`]; this limit keeps a record without an
/// end from filling the memory.
pub(super) const LONGEST_RECORD: usize = 64 << 20;

/// The content of a record.
#[derive(Debug)]
#[non_exhaustive]
pub enum Found<'a> {
    /// A key.
    Key {
        /// The key.
        key: &'a [u8],
        /// The whole record, without the newline that ends it.
        record: &'a [u8],
        /// When the key was seen or how long it is kept, if the [rules](super::Rules::time) ask for that.
        time: Option<KeyTime>,
    },
    /// No key.
    Skipped {
        /// The reason.
        skip: Skip,
        /// The whole record; empty if it is too long.
        record: &'a [u8],
    },
}

/// Why a record has no key.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Skip {
    /// The line is empty, and the format does not have empty records.
    Blank,
    /// The record's key is empty.
    Empty,
    /// The record or its key is too long.
    TooLong,
    /// The record lacks the field, or the field holds no single value.
    NoField,
    /// The record has a key, but lacks the field of its time, or the field holds no valid time, or no valid lifetime.
    NoTime,
    /// The record is malformed. Boxed, so that all other records take fewer bytes.
    Malformed(Box<Malformed>),
}

/// Why a line is malformed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Malformed {
    /// The number of the line, counted from 1 where reading began.
    pub line: u64,
    /// The byte of the line, counted from 1.
    pub column: usize,
    /// The parser's message.
    pub message: String,
}

/// The next part of the content, which is already read.
enum Next {
    /// A line of this length, and how many bytes to consume, including its end.
    Line {
        length: usize,
        with_end: usize,
    },
    TooLong,
    End,
}

fn next(content: &mut Content, separator: u8, longest: usize) -> Result<Next, Error> {
    let mut searched = 0;
    loop {
        let waiting = content.waiting();
        if let Some(found) = memchr(separator, waiting.get(searched..).unwrap_or_default()) {
            let length = searched + found;
            let line = Next::Line { length, with_end: length + 1 };
            return Ok(if length > longest { Next::TooLong } else { line });
        }
        searched = waiting.len();
        if searched > longest {
            return Ok(Next::TooLong);
        }
        if !content.fill()? {
            let line = Next::Line { length: searched, with_end: searched };
            return Ok(if searched > 0 { line } else { Next::End });
        }
    }
}

/// The next line without its end; `None` at the end of the content, `Some(None)` for a line longer than [`LONGEST`],
/// which is skipped.
#[inline]
pub(super) fn line(content: &mut Content, separator: u8) -> Result<Option<Option<&[u8]>>, Error> {
    match next(content, separator, LONGEST)? {
        Next::Line { length, with_end } => Ok(Some(content.take(with_end).get(..length))),
        Next::TooLong => pass_over(content, separator).map(|()| Some(None)),
        Next::End => Ok(None),
    }
}

/// The next line as a record with fields, counted in `number`; `None` at the end of the content. Fails if it is longer
/// than [`LONGEST_RECORD`].
#[inline]
pub(super) fn record_line(content: &mut Content, number: u64) -> Result<Option<&[u8]>, Error> {
    match next(content, b'\n', LONGEST_RECORD)? {
        Next::Line { length, with_end } => Ok(content.take(with_end).get(..length)),
        Next::TooLong => {
            let problem = InputProblem::RecordTooLong { place: content.place(number), limit: LONGEST_RECORD };
            Err(Error::input(content.path(), problem))
        }
        Next::End => Ok(None),
    }
}

/// Consumes the rest of a line without storing it.
fn pass_over(content: &mut Content, separator: u8) -> Result<(), Error> {
    loop {
        let waiting = content.waiting();
        if let Some(found) = memchr(separator, waiting) {
            content.take(found + 1);
            return Ok(());
        }
        let all = waiting.len();
        content.take(all);
        if !content.fill()? {
            return Ok(());
        }
    }
}
