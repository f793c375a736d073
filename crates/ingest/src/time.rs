//! The time at which a key was seen, or the lifetime that it has from now on, as text in its record.
//!
//! | text | read as |
//! |---|---|
//! | `2026-05-03T12:00:00Z`, `2026-05-03 14:00:00.25+02:00` | RFC 3339 |
//! | a number below 10^11: `1777809600`, `1777809600.25` | seconds since 1970; 10^11 s are in the year 5138 |
//! | from 10^11 on, and below 10^14: `1777809600000` | milliseconds since 1970; 10^11 ms are in March 1973 |
//! | from 10^14 on, and below 10^17 | microseconds since 1970, as ClickHouse and Parquet have them |
//! | from 10^17 on, and below 2^64 | nanoseconds since 1970, as OpenTelemetry has them |
//!
//! A number may have an exponent, as in `1.7778096e9`. An offset may also be `+0200` or `+02`. All other text is no time,
//! not even a date and time without its offset from UTC. A time before 1970 counts as the beginning of 1970: every filter
//! has forgotten both.
//!
//! A lifetime is a number of seconds, perhaps with a fraction or an exponent, or a whole number with a unit: `90d`, `12h`,
//! `5m`, `30s`. All other text is no lifetime.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::DateTime;

use super::creation::span;

/// Numbers below this are seconds, numbers below a thousand times as much are milliseconds, and so on.
pub(super) const SECONDS_BELOW: u64 = 100_000_000_000;

/// The time or lifetime in the record of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyTime {
    /// The key was seen at this time.
    Seen(SystemTime),
    /// The key is kept for this long from now on.
    Lifetime(Duration),
}

/// The kind of time in a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TimeKind {
    /// When the key was seen.
    Seen,
    /// How long the key is kept, at most this long. A longer lifetime is invalid.
    Lifetime(Duration),
}

impl TimeKind {
    /// The time in a text; `None` if the text is no time.
    pub(super) fn parse(self, text: &[u8]) -> Option<KeyTime> {
        match self {
            Self::Seen => parse(text).map(KeyTime::Seen),
            Self::Lifetime(most) => {
                lifetime(text).filter(|lifetime| *lifetime <= most).map(KeyTime::Lifetime)
            }
        }
    }

    /// A placeholder for a record without a time.
    pub(super) const fn none(self) -> KeyTime {
        match self {
            Self::Seen => KeyTime::Seen(UNIX_EPOCH),
            Self::Lifetime(_) => KeyTime::Lifetime(Duration::ZERO),
        }
    }
}

/// The lifetime in a text; `None` if the text is no lifetime.
fn lifetime(text: &[u8]) -> Option<Duration> {
    let text = text.trim_ascii();
    let seconds = number(text).or_else(|| with_exponent(text));
    seconds.map(|(seconds, nanos)| Duration::new(seconds, nanos)).or_else(|| span(str::from_utf8(text).ok()?))
}

/// The time in a text; `None` if the text is no time.
pub(super) fn parse(text: &[u8]) -> Option<SystemTime> {
    let text = text.trim_ascii();
    let since = match number(text).or_else(|| with_exponent(text)) {
        Some((seconds, nanos)) if seconds < SECONDS_BELOW => Duration::new(seconds, nanos),
        Some((whole, _)) => since(whole),
        None => return rfc3339(text),
    };
    UNIX_EPOCH.checked_add(since)
}

/// The time since 1970 that a number means. Its size determines the unit, from seconds to nanoseconds.
pub(super) const fn since(number: u64) -> Duration {
    match number {
        0..SECONDS_BELOW => Duration::from_secs(number),
        SECONDS_BELOW..MICROS_FROM => Duration::from_millis(number),
        MICROS_FROM..NANOS_FROM => Duration::from_micros(number),
        NANOS_FROM.. => Duration::from_nanos(number),
    }
}

const MICROS_FROM: u64 = 1000 * SECONDS_BELOW;
const NANOS_FROM: u64 = 1000 * MICROS_FROM;

/// Like [`number`], for a number with an exponent, as in `1.7778096e9`.
fn with_exponent(text: &[u8]) -> Option<(u64, u32)> {
    let [first, ..] = text else { return None };
    if !first.is_ascii_digit() || !text.iter().any(|byte| matches!(byte, b'e' | b'E')) {
        return None;
    }
    let number: f64 = str::from_utf8(text).ok()?.parse().ok()?;
    // Above this, a conversion would change the number.
    (number < u64::MAX as f64).then(|| (number as u64, (number.fract() * 1e9) as u32))
}

/// A whole number, and the nanoseconds of a fraction after a point.
fn number(text: &[u8]) -> Option<(u64, u32)> {
    let point = text.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = match point {
        Some(point) => (text.get(..point)?, nanos(text.get(point + 1..)?)?),
        None => (text, 0),
    };
    Some((digits(whole)?, fraction))
}

/// The number that these digits write; `None` for anything but digits, and for 2^64 and more.
fn digits(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| str::from_utf8(text).ok()?.parse().ok()).flatten()
}

/// The nanoseconds of a fraction of a second, without further digits.
fn nanos(fraction: &[u8]) -> Option<u32> {
    if fraction.is_empty() || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let nine = fraction.iter().copied().chain(std::iter::repeat(b'0')).take(9);
    Some(nine.fold(0, |sum, digit| 10 * sum + u32::from(digit - b'0')))
}

/// A date and time with its offset: `2026-05-03T14:00:00.25+02:00`. The T may be a t or a space, and Z a z. A leap second
/// counts as the first second of the next minute.
fn rfc3339(text: &[u8]) -> Option<SystemTime> {
    let text = str::from_utf8(text).ok()?;
    let time =
        DateTime::parse_from_rfc3339(text).or_else(|_| DateTime::parse_from_rfc3339(&whole_offset(text)));
    let time = time.ok()?;
    let since = u64::try_from(time.timestamp_millis()).map_or(Duration::ZERO, Duration::from_millis);
    UNIX_EPOCH.checked_add(since)
}

/// The text with its offset in the form of RFC 3339: `+0200` and `+02` become `+02:00`.
fn whole_offset(text: &str) -> String {
    let sign = text.len().saturating_sub(5);
    let (time, offset) =
        text.rfind(['+', '-']).filter(|at| *at >= sign).map_or((text, ""), |at| text.split_at(at));
    match (offset.get(..3), offset.get(3..)) {
        (Some(hours), Some("")) if time.contains(':') => format!("{time}{hours}:00"),
        (Some(hours), Some(minutes)) if time.contains(':') => format!("{time}{hours}:{minutes}"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(text: &str) -> Option<u128> {
        parse(text.as_bytes()).map(|time| time.duration_since(UNIX_EPOCH).unwrap().as_millis())
    }

    /// `date -d TEXT +%s` prints the expected numbers.
    #[test]
    fn times_are_read_as_documented() {
        for (text, expected) in [
            ("0", 0),
            ("1777809600", 1_777_809_600_000),
            (" 1777809600 ", 1_777_809_600_000),
            ("1777809600.25", 1_777_809_600_250),
            ("99999999999", 99_999_999_999_000),
            ("100000000000", 100_000_000_000),
            ("1777809600000", 1_777_809_600_000),
            ("1777809600000.75", 1_777_809_600_000),
            ("99999999999999", 99_999_999_999_999),
            ("100000000000000", 100_000_000_000),
            ("1777809600000000", 1_777_809_600_000),
            ("99999999999999999", 99_999_999_999_999),
            ("100000000000000000", 100_000_000_000),
            ("1777809600000000000", 1_777_809_600_000),
            ("18446744073709551615", 18_446_744_073_709),
            ("1.7778096e9", 1_777_809_600_000),
            ("1.7778096E+12", 1_777_809_600_000),
            ("1777809600.5e0", 1_777_809_600_500),
            ("1e9", 1_000_000_000_000),
            ("2026-05-03T12:00:00+0000", 1_777_809_600_000),
            ("2026-05-03T12:00:00+00", 1_777_809_600_000),
            ("2026-05-03 14:00:00.25+0200", 1_777_809_600_250),
            ("2026-05-03T06:30:00-0530", 1_777_809_600_000),
            ("2026-05-03T07:00:00-05", 1_777_809_600_000),
            ("1970-01-01T00:00:00Z", 0),
            ("1969-12-31T23:59:59Z", 0),
            ("0000-01-01T00:00:00Z", 0),
            ("1970-01-01T01:00:00+02:00", 0),
            ("2026-05-03T12:00:00Z", 1_777_809_600_000),
            ("2026-05-03t12:00:00z", 1_777_809_600_000),
            ("2026-05-03 14:00:00.2599999999+02:00", 1_777_809_600_259),
            ("2026-05-03T06:30:00-05:30", 1_777_809_600_000),
            ("2000-02-29T00:00:00Z", 951_782_400_000),
            ("2000-03-01T00:00:00Z", 951_868_800_000),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000),
            ("2100-03-01T00:00:00Z", 4_107_542_400_000),
            ("9999-12-31T23:59:59Z", 253_402_300_799_000),
        ] {
            assert_eq!(millis(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn lifetimes_are_read_as_documented() {
        let read = |text: &str| lifetime(text.as_bytes()).map(|lifetime| lifetime.as_millis());
        for (text, millis) in [
            ("0", 0),
            (" 90 ", 90_000),
            ("90s", 90_000),
            ("1.5", 1500),
            ("1e3", 1_000_000),
            ("5m", 300_000),
            ("12h", 43_200_000),
            ("90d", 7_776_000_000),
        ] {
            assert_eq!(read(text), Some(millis), "{text}");
        }
        for text in [
            "",
            "-1",
            "+1",
            "d",
            "1.5d",
            "1w",
            "1d 2h",
            "30D",
            "P30D",
            "2026-05-03T12:00:00Z",
            "99999999999999999999",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        let most = TimeKind::Lifetime(Duration::from_secs(60));
        assert_eq!(most.parse(b"60"), Some(KeyTime::Lifetime(Duration::from_secs(60))));
        assert_eq!(most.parse(b"60.001"), None);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "-1",
            "+1",
            "e9",
            "1e",
            "1e30",
            "-1e9",
            "0x10",
            "1.",
            ".5",
            "1.5.5",
            "1,777",
            "18446744073709551616",
            "99999999999999999999999",
            "yesterday",
            "2026-05-03",
            "2026-05-03T12:00:00",
            "2026-05-03T12:00:00.Z",
            "2026-05-03+02",
            "2026-05-03T12:00:00+2",
            "2026-05-03T12:00:00+020",
            "2026-05-03T12:00:00+02000",
            "2026-05-03T12:00:00+2:00",
            "2026-05-03T12:00:00+24:00",
            "2026-05-03T12:00:00+02:60",
            "2026-05-03T12:00:00Zulu",
            "2026-05-03_12:00:00Z",
            "2026/05/03T12:00:00Z",
            "2026-13-03T12:00:00Z",
            "2026-00-03T12:00:00Z",
            "2026-02-29T12:00:00Z",
            "2100-02-29T12:00:00Z",
            "2026-05-00T12:00:00Z",
            "2026-05-03T24:00:00Z",
            "2026-05-03T12:60:00Z",
            "2026-05-03T12:00:61Z",
            "2026-05-03T12:00:00Ä",
        ] {
            assert_eq!(millis(text), None, "{text}");
        }
    }
}
