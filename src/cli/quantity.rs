//! Numbers, sizes and times as people write them.

use std::num::NonZeroU64;
use std::time::Duration;

/// `1_000_000`
pub(super) fn count(text: &str) -> Result<u64, String> {
    text.replace('_', "").parse().map_err(|error| format!("{error}; write a whole number, as in 1_000_000"))
}

/// As [`count`], but not 0.
pub(super) fn positive(text: &str) -> Result<NonZeroU64, String> {
    NonZeroU64::new(count(text)?).ok_or_else(|| "must be at least 1".to_owned())
}

/// Bytes: a whole number, and K, M, G or T for its multiples by powers of 1024.
pub(super) fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(char, u32); 4] = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let unit = UNITS.into_iter().find_map(|(unit, bits)| {
        text.strip_suffix([unit, unit.to_ascii_lowercase()]).map(|number| (number, bits))
    });
    let (number, bits) = unit.unwrap_or((text, 0));
    let number = count(number).map_err(|error| format!("{error} or 64G"))?;
    number.checked_mul(1 << bits).ok_or_else(|| "more than 64 bits hold".to_owned())
}

/// Seconds, perhaps with a fraction, or [`FOREVER`].
pub(super) fn wait(text: &str) -> Result<Duration, String> {
    if text == FOREVER {
        return Ok(Duration::MAX);
    }
    let seconds: f64 = text.parse().map_err(|error| format!("{error}; write seconds, as in 5 or 0.5"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

pub(super) const FOREVER: &str = "forever";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_documented() {
        assert_eq!(count("1_000"), Ok(1000));
        assert!(count("").is_err() && count("1.5").is_err() && count("-1").is_err() && count("1K").is_err());
        assert_eq!(positive("7"), Ok(NonZeroU64::new(7).unwrap()));
        assert!(positive("0").is_err());
        assert_eq!(size("512"), Ok(512));
        assert_eq!(size("4k"), Ok(4096));
        assert_eq!((size("3M"), size("2G"), size("1T")), (Ok(3 << 20), Ok(2 << 30), Ok(1 << 40)));
        assert!(size("K").is_err() && size("1KK").is_err() && size("16_777_216T").is_err());
        assert_eq!(wait("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(wait(FOREVER), Ok(Duration::MAX));
        assert!(wait("-1").is_err() && wait("soon").is_err() && wait("NaN").is_err());
    }
}
