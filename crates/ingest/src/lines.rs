//! The lines of an input, and the content of records in any format. A line of any length takes bounded memory.

use std::time::SystemTime;

use memchr::memchr;

use super::content::Content;
use super::error::Error;
use crate::keys::LONGEST;

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
        /// When the key was seen, if the [rules](super::Rules::time) ask for that.
        time: Option<SystemTime>,
    },
    /// No key.
    Skipped {
        /// Why.
        skip: Skip,
        /// The whole record; empty if it is too long.
        record: &'a [u8],
    },
}

/// Why a record gives no key.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Skip {
    /// The line is empty, in a format in which that is no record.
    Blank,
    /// Its key is empty.
    Empty,
    /// The record or its key is too long.
    TooLong,
    /// The record lacks the field, or the field holds no single value.
    NoField,
    /// The record has a key, but lacks the field of its time, or the field holds no valid time.
    NoTime,
    /// The record is malformed. In a box, so that all other records are passed on in fewer bytes.
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

/// The next line without its end; `None` at the end of the content, `Some(None)` for a line longer than [`LONGEST`].
pub(super) fn line(content: &mut Content, separator: u8) -> Result<Option<Option<&[u8]>>, Error> {
    let mut searched = 0;
    loop {
        let waiting = content.waiting();
        if let Some(found) = memchr(separator, &waiting[searched..]) {
            let length = searched + found;
            return Ok(Some(content.take(length + 1).get(..length).filter(|line| line.len() <= LONGEST)));
        }
        searched = waiting.len();
        if searched > LONGEST {
            return pass_over(content, separator).map(|()| Some(None));
        }
        if !content.fill()? {
            return Ok((searched > 0).then(|| Some(content.take(searched))));
        }
    }
}

/// Takes the rest of a line without keeping it.
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
