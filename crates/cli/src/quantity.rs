//! Numbers, sizes, rates and times as people write them, and as they read them.

use std::num::NonZeroU64;
use std::time::{Duration, SystemTime};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use gowk::Newest;
use gowk::store::Requests;
use indicatif::{BinaryBytes, HumanCount};

/// A parser for one of these words. It returns the word's value.
pub(super) fn word_of<T: Copy + Send + Sync>(
    words: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let known = PossibleValuesParser::new(words.iter().map(|(word, _)| *word));
    let value = |given: String| words.iter().find(|(word, _)| *word == given).map(|(_, value)| *value);
    known.try_map(move |given| value(given).ok_or("unknown"))
}

/// A whole number, as in `1_000_000`.
pub(super) fn number(text: &str) -> Result<u64, String> {
    text.replace('_', "").parse().map_err(|error| format!("{error}; write a whole number, as in 1_000_000"))
}

/// Requests to a server, by kind.
pub(super) fn requests(requests: &Requests) -> String {
    let Requests { put, get, head, list, delete, post, failed, .. } = *requests;
    let [put, get, head, list, delete, post, failed] =
        [put, get, head, list, delete, post, failed].map(grouped);
    format!(
        "requests: GET {get}, HEAD {head}, LIST {list}, PUT {put}, POST {post}, DELETE {delete}; {failed} of them failed"
    )
}

/// The text before the unit, and the value of the unit. Without one of these units, the whole text and `one`.
pub(super) fn split<T: Copy>(text: &str, units: [(char, T); 4], one: T) -> (&str, T) {
    let unit = units.into_iter().find_map(|(unit, stands_for)| {
        Some((text.strip_suffix([unit, unit.to_ascii_lowercase()])?, stands_for))
    });
    unit.unwrap_or((text, one))
}

/// A count: like [`number`], or as in `50M` or `5e7`. K, M, G and T are powers of 1000.
pub(super) fn count(text: &str) -> Result<u64, String> {
    const UNITS: [(char, f64); 4] = [('K', 1e3), ('M', 1e6), ('G', 1e9), ('T', 1e12)];
    // Above this, some whole numbers have no float of their own.
    const MOST: f64 = (1_u64 << 53) as f64;
    if let Ok(number) = number(text) {
        return Ok(number);
    }
    let (digits, times) = split(text, UNITS, 1.0);
    let value = digits.replace('_', "").parse::<f64>().ok().map(|value| value * times);
    match value.filter(|value| value.fract() == 0.0 && (0.0..MOST).contains(value)) {
        Some(whole) => Ok(whole as u64),
        None => Err("write a whole number, as in 50_000_000, 50M or 5e7".to_owned()),
    }
}

/// Like [`count`], but not 0.
pub(super) fn positive(text: &str) -> Result<NonZeroU64, String> {
    NonZeroU64::new(count(text)?).ok_or_else(|| "must be at least 1".to_owned())
}

/// Bytes: a whole number, perhaps with K, M, G or T for multiples by powers of 1024.
pub(super) fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(char, u32); 4] = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let (digits, bits) = split(text, UNITS, 0);
    let value = number(digits).map_err(|error| format!("{error} or 64G"))?;
    value.checked_mul(1 << bits).ok_or_else(|| "more than 64 bits hold".to_owned())
}

/// An expected number, rounded for people.
pub(super) fn about(expected: f64) -> String {
    if expected < 10.0 { format!("{expected:.1}") } else { grouped(expected.round() as u64) }
}

/// A fraction of one: `0.001`, `1e-3` or `0.1%`.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    let (digits, parts) = text.strip_suffix('%').map_or((text, 1.0), |digits| (digits.trim_end(), 100.0));
    let value: f64 =
        digits.parse().map_err(|error| format!("{error}; write a rate, as in 0.001, 1e-3 or 0.1%"))?;
    Ok(value / parts)
}

/// Seconds, perhaps with a fraction, or [`FOREVER`].
pub(super) fn wait(text: &str) -> Result<Duration, String> {
    if text == FOREVER {
        return Ok(Duration::MAX);
    }
    let Ok(seconds) = text.parse::<f64>() else {
        return humantime::parse_duration(text)
            .map_err(|error| format!("{error}; write seconds, as in 5 or 0.5"));
    };
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// A length of time, as in `30d`, `12h` or `1h 30m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write a time, as in 30d, 12h or 90s"))
}

/// The logarithm of the longest zstd window to read.
pub(super) fn long_window(text: &str) -> Result<u8, String> {
    match text.parse() {
        Ok(log @ 27..=31) => Ok(log),
        _ => Err("write 31, the logarithm of the longest window that there is".to_owned()),
    }
}

pub(super) const FOREVER: &str = "forever";

/// `50,000,000`
pub(super) fn grouped(number: u64) -> String {
    HumanCount(number).to_string()
}

/// `103.10 MiB`
pub(super) fn bytes(number: u64) -> String {
    BinaryBytes(number).to_string()
}

/// `2.44e-4 (1 in 4,096)`
pub(super) fn chance(rate: f64) -> String {
    let one_in = 1.0 / rate;
    let rounded = if one_in < 100.0 { format!("{one_in:.1}") } else { grouped(one_in.round() as u64) };
    if rate > 0.0 { format!("{rate:.2e} (1 in {rounded})") } else { "0".to_owned() }
}

/// A time as RFC 3339 writes it, in UTC.
pub(super) fn utc(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

/// `2026-05-17 18:04:12 UTC`
pub(super) fn time(time: SystemTime) -> String {
    utc(time).replace('T', " ").replace('Z', " UTC")
}

/// A time in milliseconds since 1970, in the form of [`time`]; of the year 9999 at most.
pub(super) fn time_of(millis: u64) -> String {
    const LAST: u64 = 253_402_300_799_999;
    time(SystemTime::UNIX_EPOCH + Duration::from_millis(millis.min(LAST)))
}

/// `keeps the newest 100,000,000 to 107,142,870 keys`
pub(super) fn newest(newest: Newest) -> String {
    let Newest { at_least, at_most, .. } = newest;
    format!("keeps the newest {} to {} keys", grouped(at_least), grouped(at_most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_documented() {
        assert_eq!(number("1_000"), Ok(1000));
        assert_eq!(number(&u64::MAX.to_string()), Ok(u64::MAX));
        assert!(
            number("").is_err() && number("1.5").is_err() && number("-1").is_err() && number("1K").is_err()
        );
        for (text, value) in [
            ("1_000", 1000),
            ("50M", 50_000_000),
            ("50m", 50_000_000),
            ("1.5K", 1500),
            ("5e7", 50_000_000),
            ("2.5e1", 25),
            ("1_000G", 1_000_000_000_000),
            ("0", 0),
        ] {
            assert_eq!(count(text), Ok(value), "{text}");
        }
        assert_eq!(count(&u64::MAX.to_string()), Ok(u64::MAX));
        for text in ["", "1.5", "-1", "K", "1KK", "1KiB", "1e-1", "1e30", "inf", "NaN", "many"] {
            assert!(count(text).is_err(), "{text}");
        }
        assert_eq!(positive("7"), Ok(NonZeroU64::new(7).unwrap()));
        assert!(positive("0").is_err());
        assert_eq!(size("512"), Ok(512));
        assert_eq!(size("4k"), Ok(4096));
        assert_eq!((size("3M"), size("2G"), size("1T")), (Ok(3 << 20), Ok(2 << 30), Ok(1 << 40)));
        assert!(size("K").is_err() && size("1KK").is_err() && size("16_777_216T").is_err());
        assert_eq!(wait("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(wait(FOREVER), Ok(Duration::MAX));
        assert_eq!(duration("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert!(duration("30").is_err() && duration("").is_err() && duration("-1d").is_err());
        assert!(wait("-1").is_err() && wait("soon").is_err() && wait("NaN").is_err());
    }

    #[test]
    fn rates_are_read_as_parts_of_one_or_of_a_hundred() {
        assert_eq!(
            (rate("0.001"), rate("1e-3"), rate("0.1%"), rate("1 %")),
            (Ok(0.001), Ok(0.001), Ok(0.001), Ok(0.01))
        );
        assert!(rate("").is_err() && rate("%").is_err() && rate("1%%").is_err() && rate("one").is_err());
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!((grouped(50_000_000).as_str(), bytes(108_134_400).as_str()), ("50,000,000", "103.12 MiB"));
        assert_eq!(
            (chance(1.0 / 4096.0).as_str(), chance(0.0513).as_str()),
            ("2.44e-4 (1 in 4,096)", "5.13e-2 (1 in 19.5)")
        );
        assert_eq!(chance(0.0), "0");
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        assert_eq!(time(then), "2001-09-09 01:46:40 UTC");
        assert_eq!(time_of(1_000_000_000_000), "2001-09-09 01:46:40 UTC");
        assert_eq!(time_of(u64::MAX), "9999-12-31 23:59:59 UTC");
    }
}
