//! Lines of an input, of any length in bounded memory; and what a record of any format holds.

use memchr::memchr;

use super::error::Error;
use super::job::LONGEST;
use super::source::Source;

/// What a record holds.
#[derive(Debug)]
pub(super) enum Found<'a> {
    Key(&'a [u8]),
    Skipped(Skip),
}

/// Why a record gives no key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Skip {
    Empty,
    TooLong,
    NoField,
}

/// The next line without its end; `None` at the end of the source, `Some(None)` if it is longer than
/// [`LONGEST`].
pub(super) fn line(source: &mut Source, separator: u8) -> Result<Option<Option<&[u8]>>, Error> {
    let mut searched = 0;
    loop {
        let waiting = source.waiting();
        if let Some(found) = memchr(separator, &waiting[searched..]) {
            let length = searched + found;
            return Ok(Some(source.take(length + 1).get(..length).filter(|line| line.len() <= LONGEST)));
        }
        searched = waiting.len();
        if searched > LONGEST {
            return pass_over(source, separator).map(|()| Some(None));
        }
        if !source.fill()? {
            return Ok((searched > 0).then(|| Some(source.take(searched))));
        }
    }
}

/// Takes the rest of a line without keeping it.
fn pass_over(source: &mut Source, separator: u8) -> Result<(), Error> {
    loop {
        let waiting = source.waiting();
        if let Some(found) = memchr(separator, waiting) {
            source.take(found + 1);
            return Ok(());
        }
        let all = waiting.len();
        source.take(all);
        if !source.fill()? {
            return Ok(());
        }
    }
}
