//! The text of `store.toml` and of version files: TOML, with the number of the format in its first line and a checksum
//! in its last one (`format-spec/STORE.md`, section 3).

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml_parser::Source;

use super::error::{Error, Result};

/// The format of `store.toml` and of version files.
pub(super) const FORMAT: u64 = 1;

/// The most bytes in `store.toml` or a version file. No valid version is longer: a byte of a string takes at most six
/// bytes of text, a token's table takes 256 without its strings, a shard's 640, and a run's 320.
pub(super) const LONGEST: u64 = 1 << 28;
/// The most TOML tokens in a table of a version, including whitespace and newlines. A table has nine fields of seven
/// tokens. A parser takes some 50 bytes of memory for each token of any kind.
pub(super) const TOKENS_OF_TABLE: usize = 80;
/// The part of the last line before the checksum.
const SEAL: &str = "# crc32 = ";
/// The bytes of the last line: [`SEAL`], eight hexadecimal digits, and a newline.
const SEAL_LENGTH: usize = SEAL.len() + 8 + 1;

/// Whether the epoch is 0: the store does not forget.
pub(super) const fn is_zero(epoch: &u64) -> bool {
    *epoch == 0
}

/// The hexadecimal digits of a uuid, as names and texts of stores have them.
pub(super) fn hex(bytes: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*bytes))
}

pub(super) fn from_hex(text: &str) -> Option<[u8; 16]> {
    let number = u128::from_str_radix(text, 16).ok()?;
    (format!("{number:032x}") == text).then(|| number.to_be_bytes())
}

/// The text of `value`, with its first and its last line.
pub(super) fn encode(path: &Path, value: &impl Serialize) -> Result<String> {
    let body = toml::to_string(value).map_err(|error| problem(path, &error.to_string()))?;
    let mut text = format!("format = {FORMAT}\n{body}\n");
    let crc = crc32fast::hash(text.as_bytes());
    text.push_str(&format!("{SEAL}{crc:08x}\n"));
    Ok(text)
}

/// The value of a text with at most `most` tokens. Fails with [`Error::Damaged`] if its checksum is wrong, and with
/// [`Error::Format`] if it has another format.
pub(super) fn decode<T: DeserializeOwned>(path: &Path, bytes: &[u8], most: usize) -> Result<T> {
    let damaged = || Error::Damaged { path: path.to_owned() };
    let at = bytes.len().checked_sub(SEAL_LENGTH).ok_or_else(damaged)?;
    let (body, seal) = bytes.split_at_checked(at).ok_or_else(damaged)?;
    let expected = format!("{SEAL}{:08x}\n", crc32fast::hash(body));
    if seal != expected.as_bytes() {
        return Err(damaged());
    }
    let body = str::from_utf8(body).map_err(|error| problem(path, &error.to_string()))?;
    let (first, rest) = body.split_once('\n').unwrap_or((body, ""));
    let format = first.strip_prefix("format = ").and_then(|number| number.parse::<u64>().ok());
    match format {
        Some(FORMAT) if Source::new(rest).lex().nth(most).is_some() => {
            Err(problem(path, &format!("has more than {most} tokens")))
        }
        Some(FORMAT) => toml::from_str(rest).map_err(|error| problem(path, error.message())),
        Some(found) => Err(Error::Format { path: path.to_owned(), found, supported: FORMAT }),
        None => Err(problem(path, "its first line does not give the format")),
    }
}

fn problem(path: &Path, problem: &str) -> Error {
    Error::Text { path: path.to_owned(), problem: problem.split_whitespace().collect::<Vec<_>>().join(" ") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const MOST: usize = 100;

    fn text() -> String {
        encode(Path::new("x"), &BTreeMap::from([("a", "one\n\"two\"\u{7f}"), ("b", "")])).unwrap()
    }

    #[test]
    fn what_was_written_is_read() {
        let read: BTreeMap<String, String> = decode(Path::new("x"), text().as_bytes(), MOST).unwrap();
        assert_eq!(read["a"], "one\n\"two\"\u{7f}");
        assert_eq!(read.len(), 2);
    }

    #[test]
    fn a_text_that_was_cut_or_changed_anywhere_is_damaged() {
        let text = text().into_bytes();
        let is_damaged = |bytes: &[u8]| {
            let outcome = decode::<BTreeMap<String, String>>(Path::new("x"), bytes, MOST);
            assert!(matches!(outcome, Err(Error::Damaged { .. })), "{:?}", String::from_utf8_lossy(bytes));
        };
        (0..text.len()).for_each(|length| is_damaged(&text[..length]));
        for (at, bit) in (0..text.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut flipped = text.clone();
            flipped[at] ^= 1 << bit;
            is_damaged(&flipped);
        }
    }

    /// A parser takes 50 bytes for each newline.
    #[test]
    fn a_text_of_many_tokens_is_refused_before_it_is_parsed() {
        let with = |rest: &str| {
            let body = format!("format = {FORMAT}\na = \"one\"\n{rest}");
            format!("{body}{SEAL}{:08x}\n", crc32fast::hash(body.as_bytes()))
        };
        let read = |text: &str| decode::<BTreeMap<String, String>>(Path::new("x"), text.as_bytes(), MOST);
        let long = format!("b = \"{}\"\n", "[\\n,".repeat(1 << 20));
        assert_eq!(read(&with(&long)).unwrap().len(), 2);
        for many in ["\n", "#\n", "[1,1]"] {
            let outcome = read(&with(&many.repeat(1 << 20)));
            assert!(
                matches!(&outcome, Err(Error::Text { problem, .. }) if problem == "has more than 100 tokens")
            );
        }
    }

    #[test]
    fn another_format_is_named() {
        let body = "format = 7\nwhatever it says\n";
        let text = format!("{body}{SEAL}{:08x}\n", crc32fast::hash(body.as_bytes()));
        let outcome = decode::<BTreeMap<String, String>>(Path::new("x"), text.as_bytes(), MOST);
        assert!(matches!(outcome, Err(Error::Format { found: 7, supported: 1, .. })), "{outcome:?}");
    }

    #[test]
    fn uuids_have_one_way_to_be_written() {
        let uuid = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xff];
        assert_eq!(hex(&uuid), "000102030405060708090a0b0c0d0eff");
        assert_eq!(from_hex(&hex(&uuid)), Some(uuid));
        for wrong in ["", "00", "000102030405060708090A0b0c0d0eff", "+00102030405060708090a0b0c0d0eff"] {
            assert_eq!(from_hex(wrong), None, "{wrong}");
        }
    }
}
