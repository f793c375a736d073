//! The time at which a key was seen, as its record has it.
//!
//! | text | read as |
//! |---|---|
//! | `2026-05-03T12:00:00Z`, `2026-05-03 14:00:00.25+02:00` | RFC 3339 |
//! | a number below 10^11: `1777809600`, `1777809600.25` | seconds since 1970; 10^11 s are in the year 5138 |
//! | one from 10^11 on, and below 10^14: `1777809600000` | milliseconds since 1970; 10^11 ms are in March 1973 |
//!
//! All other text is no time: also a number from 10^14 on, which most likely counts microseconds, and a date and time
//! without its offset from UTC. A time before 1970 counts as the beginning of 1970: every filter has forgotten both.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Numbers below this are seconds, others milliseconds.
const SECONDS_BELOW: u64 = 100_000_000_000;
/// Numbers from here on are no time.
const NO_TIME_FROM: u64 = 1000 * SECONDS_BELOW;
const DAY: i64 = 86_400;

/// The time that a text gives; `None` if it gives none.
pub(super) fn parse(text: &[u8]) -> Option<SystemTime> {
    let text = text.trim_ascii();
    match number(text) {
        Some((seconds, nanos)) if seconds < SECONDS_BELOW => {
            UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))
        }
        Some((millis, _)) if millis < NO_TIME_FROM => UNIX_EPOCH.checked_add(Duration::from_millis(millis)),
        Some(_) => None,
        None => rfc3339(text),
    }
}

/// Digits, and the nanoseconds that digits behind a point make.
fn number(text: &[u8]) -> Option<(u64, u32)> {
    let point = text.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = match point {
        Some(point) => (text.get(..point)?, nanos(text.get(point + 1..)?)?),
        None => (text, 0),
    };
    Some((digits(whole)?, fraction))
}

/// The number that these digits write; `None` for anything but 1 to 18 digits.
fn digits(text: &[u8]) -> Option<u64> {
    let fits = (1..=18).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    fits.then(|| text.iter().fold(0, |sum, digit| 10 * sum + u64::from(digit - b'0')))
}

/// The nanoseconds of a fraction of a second; further digits are cut off.
fn nanos(fraction: &[u8]) -> Option<u32> {
    if fraction.is_empty() || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let nine = fraction.iter().copied().chain(std::iter::repeat(b'0')).take(9);
    Some(nine.fold(0, |sum, digit| 10 * sum + u32::from(digit - b'0')))
}

/// A date and time with its offset: `2026-05-03T14:00:00.25+02:00`. The T may be a t or a space, and Z a z.
fn rfc3339(text: &[u8]) -> Option<SystemTime> {
    let (date_time, mut rest) = text.split_at_checked(19)?;
    let [year, month, day, hour, minute, second] = [(0, 4), (5, 7), (8, 10), (11, 13), (14, 16), (17, 19)]
        .map(|(from, to)| {
            let field = date_time.get(from..to).and_then(digits);
            field.and_then(|field| i64::try_from(field).ok())
        });
    let marks = [(4, &b"-"[..]), (7, b"-"), (10, b"Tt "), (13, b":"), (16, b":")];
    let is_marked =
        |(at, marks): &(usize, &[u8])| date_time.get(*at).is_some_and(|byte| marks.contains(byte));
    if !marks.iter().all(is_marked) {
        return None;
    }
    let mut nanos_of_second = 0;
    if let [b'.', fraction @ ..] = rest {
        let length = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        nanos_of_second = nanos(fraction.get(..length)?)?;
        rest = fraction.get(length..)?;
    }
    let (month, day, hour, minute) = (month?, day?, hour?, minute?);
    // A leap second, 60, counts as the first second of the next minute.
    let is_valid = (1..=days_in(year?, month)?).contains(&day) && hour < 24 && minute < 60 && second? <= 60;
    let of_day = |hour, minute| 3600 * hour + 60 * minute;
    let seconds =
        DAY * days_before(year?, month, day) + of_day(hour, minute) + second? - offset(rest, of_day)?;
    let since =
        u64::try_from(seconds).map_or(Duration::ZERO, |seconds| Duration::new(seconds, nanos_of_second));
    is_valid.then(|| UNIX_EPOCH.checked_add(since)).flatten()
}

/// Seconds by which the local time is ahead of UTC: `Z`, or as in `+02:00`.
fn offset(text: &[u8], of_day: impl Fn(i64, i64) -> i64) -> Option<i64> {
    let [sign @ (b'+' | b'-'), hour @ .., b':', tens, ones] = text else {
        return matches!(text, b"Z" | b"z").then_some(0);
    };
    let (hour, minute) = (digits(hour).filter(|_| hour.len() == 2)?, digits(&[*tens, *ones])?);
    let ahead = of_day(i64::try_from(hour).ok()?, i64::try_from(minute).ok()?);
    (hour < 24 && minute < 60).then_some(if *sign == b'+' { ahead } else { -ahead })
}

fn days_in(year: i64, month: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => Some(if is_leap { 29 } else { 28 }),
        4 | 6 | 9 | 11 => Some(30),
        1..=12 => Some(31),
        _ => None,
    }
}

/// Days from 1970-01-01 to this day of the Gregorian calendar; negative before.
///
/// Years begin in March here, so that a leap day is the last of its year: the days before March, April, ... are
/// 0, 31, 61, 92, ..., which is (153 m + 2) / 5 for m = 0, 1, ....
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // 719,468 days lie between 0000-03-01 and 1970-01-01.
    365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(text: &str) -> Option<u128> {
        parse(text.as_bytes()).map(|time| time.duration_since(UNIX_EPOCH).unwrap().as_millis())
    }

    /// The expected numbers are those of `date -d TEXT +%s`.
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
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "-1",
            "+1",
            "1e9",
            "1.",
            ".5",
            "1.5.5",
            "1,777",
            "100000000000000",
            "1777809600000000",
            "99999999999999999999999",
            "yesterday",
            "2026-05-03",
            "2026-05-03T12:00:00",
            "2026-05-03T12:00:00.Z",
            "2026-05-03T12:00:00+0200",
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

    /// The calendar against counting day by day.
    #[test]
    fn every_day_follows_the_day_before() {
        let mut before = -1;
        for year in 1970..2801 {
            for month in 1..=12 {
                for day in 1..=days_in(year, month).unwrap() {
                    assert_eq!(days_before(year, month, day), before + 1, "{year}-{month}-{day}");
                    before += 1;
                }
            }
        }
    }
}
