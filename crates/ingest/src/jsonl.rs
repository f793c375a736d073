//! JSON Lines: the key is one field of the object on each line, or of an object within it.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::content::{BYTE_ORDER_MARK, Content};
use super::error::Error;
use super::lines::{Found, Malformed, Skip, record_line};
use super::time::TimeKind;

pub(super) struct Jsonl {
    path: Vec<String>,
    /// The names that lead to the time, and the kind of time in its field.
    time: Option<(Vec<String>, TimeKind)>,
    /// The key with its escapes resolved, if it has any. A key without escapes is a part of the line.
    key: String,
}

impl Jsonl {
    pub(super) const fn new(path: Vec<String>, time: Option<(Vec<String>, TimeKind)>) -> Self {
        Self { path, time, key: String::new() }
    }

    /// The next record. Its key is the text of a string, or a number, `true` or `false` as written. Skips an empty line,
    /// a line without such a value in the field, and a line without a time if the rules ask for one.
    pub(super) fn next<'a>(
        &'a mut self,
        content: &'a mut Content,
        number: u64,
    ) -> Result<Option<Found<'a>>, Error> {
        let is_first = content.offset() == 0;
        let Some(line) = record_line(content, number)? else { return Ok(None) };
        // A byte order mark belongs to the encoding of the file, not to its first record.
        let line = line.strip_prefix(BYTE_ORDER_MARK).filter(|_| is_first).unwrap_or(line);
        let skipped = |skip| Ok(Some(Found::Skipped { skip, record: line }));
        if line.trim_ascii().is_empty() {
            return skipped(Skip::Blank);
        }
        let both = value(&self.path, line).and_then(|key| {
            // The line is already known to be valid JSON: this only looks for the time.
            let Some((path, kind)) = &self.time else { return Ok((key, None)) };
            Ok((key, Some(value(path, line)?.and_then(|value| kind.parse(value.as_bytes())))))
        });
        match both {
            Ok((None, _)) => skipped(Skip::NoField),
            Ok((_, Some(None))) => skipped(Skip::NoTime),
            Ok((Some(value), time)) => {
                let key = match value {
                    Cow::Borrowed(text) => text,
                    Cow::Owned(text) => {
                        self.key = text;
                        &self.key
                    }
                };
                Ok(Some(Found::Key { key: key.as_bytes(), record: line, time: time.flatten() }))
            }
            Err(error) => {
                // The parser counts lines from the start of this text, so its line number is cut off.
                let text = error.to_string();
                let message = text.split(" at line ").next().unwrap_or(&text).to_owned();
                skipped(Skip::Malformed(Box::new(Malformed {
                    line: number,
                    column: error.column(),
                    message,
                })))
            }
        }
    }
}

/// The single value at a path of names in the object of a line; `None` without such a value.
fn value<'a>(path: &[String], line: &'a [u8]) -> serde_json::Result<Option<Cow<'a, str>>> {
    let mut parser = serde_json::Deserializer::from_slice(line);
    let raw = Pick(path).deserialize(&mut parser)?;
    parser.end()?;
    let Some(text) = raw.map(RawValue::get) else { return Ok(None) };
    match text.as_bytes() {
        [b'"', ..] if text.contains('\\') => serde_json::from_str(text).map(|text| Some(Cow::Owned(text))),
        [b'"', .., b'"'] => Ok(text.get(1..text.len() - 1).map(Cow::Borrowed)),
        [b'n' | b'{' | b'[', ..] => Ok(None),
        _ => Ok(Some(Cow::Borrowed(text))),
    }
}

/// Picks the value at a path of one or more names. Of an object's fields with one name, picks the last.
struct Pick<'a>(&'a [String]);

impl<'de> DeserializeSeed<'de> for Pick<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Self::Value, D::Error> {
        parser.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Pick<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let (name, inner) = self.0.split_first().map_or(("", &[][..]), |(name, inner)| (name, inner));
        let mut picked = None;
        while let Some(is_it) = map.next_key_seed(Is(name))? {
            if is_it {
                picked = Some(map.next_value::<&RawValue>()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        match picked {
            Some(object) if !inner.is_empty() => {
                let text = object.get();
                if !text.starts_with('{') {
                    return Ok(None);
                }
                let mut parser = serde_json::Deserializer::from_str(text);
                Pick(inner).deserialize(&mut parser).map_err(serde::de::Error::custom)
            }
            picked => Ok(picked),
        }
    }
}

/// Whether a field's name is this one.
struct Is<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<bool, D::Error> {
        parser.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field's name")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

#[cfg(test)]
mod tests {
    use crate::records::tests::{assert_keys, keys};

    const URL: &str = "format = 'jsonl'\nfield = 'url'";

    #[test]
    fn the_field_is_found_wherever_it_is() {
        let lines = r#"{"url":"a"}
{"n":[1,{"url":"no"}],"url" : "b\u00e9\"\n","z":null}

{"url":12.50}
{"url":true}
{"url":null}
{"other":"c"}
{"url":{"x":1}}
{"url":"first","url":"last"}
{"\u0075rl":""}"#;
        let expected = [
            "a",
            "bé\"\n",
            "<Blank>",
            "12.50",
            "true",
            "<NoField>",
            "<NoField>",
            "<NoField>",
            "last",
            "<NoField>",
        ];
        assert_keys(URL, lines.as_bytes(), &expected);
    }

    #[test]
    fn a_field_of_a_field_is_found_and_a_name_may_have_a_dot() {
        let lines = r#"{"user":{"name":"a","x":{"name":"no"}},"name":"no","user.name":"dot"}
{"user":"a"}
{"user":{"name":{"name":1}}}
{"user":{"n\u0061me":17}}
{"user":[{"name":1}]}
{"user":{"name":"first"},"user":{"name":"last"}}"#;
        let nested = "format = 'jsonl'\nfield = 'user.name'";
        assert_keys(nested, lines.as_bytes(), &["a", "<NoField>", "<NoField>", "17", "<NoField>", "last"]);
        let none = "<NoField>";
        let dotted = "format = 'jsonl'\nfield = 'user\\.name'";
        assert_keys(dotted, lines.as_bytes(), &["dot", none, none, none, none, none]);
    }

    #[test]
    fn a_record_without_a_valid_time_has_no_key() {
        let lines = r#"{"url":"a","at":{"ts":1777809600}}
{"at":{"ts":"2026-05-03T12:00:00Z"},"url":"b"}
{"url":"c","at":{"ts":"2026\u002d05-03T12:00:00Z"}}
{"url":"d","ts":1777809600}
{"url":"e","at":{"ts":"soon"}}
{"url":"f","at":{"ts":null}}
{"at":{"ts":1777809600}}"#;
        let timed = format!("{URL}\ntime = 'at.ts'");
        let (no_time, no_field) = ("<NoTime>", "<NoField>");
        assert_keys(&timed, lines.as_bytes(), &["a", "b", "c", no_time, no_time, no_time, no_field]);
    }

    #[test]
    fn what_is_not_an_object_is_named_with_its_line_and_column() {
        let before = "{\"url\":\"a\"}\n".repeat(16);
        for (line, problem) in [
            ("{\"url\":\"a\"", "line 17, column 10: EOF while parsing an object"),
            ("{\"url\":\"a\"} x", "line 17, column 13: trailing characters"),
            ("[1]", "line 17, column 0: invalid type: sequence, expected an object"),
            ("{\"a\":\"\x01\"}", "line 17, column 6: control character"),
            ("{\"a\":01}", "line 17, column"),
        ] {
            let error = keys(URL, format!("{before}{line}\n{before}").as_bytes(), None).unwrap_err();
            assert!(error.starts_with(&format!("a: invalid JSON on {problem}")), "{error}");
        }
        let error = keys(URL, b"{\"url\":\"\xff\"}", None).unwrap_err();
        assert!(error.contains("invalid JSON on line 1, column"), "{error}");
    }
}
