//! Filters that forget: those that must be read, and those that must be refused.
//!
//! Key i was seen on day `FIRST + i / 10`, unless a filter says otherwise.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gowk::{Options, Reader, Seen, Writer};

use crate::Outcome;
use crate::accepted::{Made, Make, closed, insert, key, made, options};
use crate::filter::Filter;
use crate::rejected::{Base, Reject};

const DAY: Duration = Duration::from_secs(86_400);
/// The days after 1970 on which the first keys were seen, and which the clock shows.
const FIRST: u32 = 20_000;
const TODAY: u32 = 20_060;

fn on(day: u32) -> SystemTime {
    UNIX_EPOCH + DAY * day
}

/// Keeps keys for 30 days, and at most `within` longer, which says how many expiry bits there are.
fn days(n: u32, within: u32) -> Options {
    let options = options(n).forget_after(30 * DAY).forget_within(within * DAY);
    options.clock_is_right(true).with_clock(|| on(TODAY))
}

/// Inserts keys, each on its day. Returns how many were new.
fn see(writer: &mut Writer, numbers: impl IntoIterator<Item = (u64, u32)>) -> Outcome<u64> {
    let mut new = 0;
    for (number, day) in numbers {
        new += u64::from(writer.insert_at(key(number), on(FIRST + day))? == Seen::New);
    }
    Ok(new)
}

/// The numbers of keys, each with its day.
fn aged(numbers: std::ops::Range<u64>) -> impl Iterator<Item = (u64, u32)> {
    numbers.map(|number| (number, (number / 10) as u32))
}

/// The first key that is kept when the last one has come, by section 4.10 of the specification.
fn first_kept(writer: &Writer, last: u64) -> Outcome<u64> {
    let epoch = writer.info()?.retention.ok_or("no times")?.forget_within;
    let millis = |number: u64, more: u32| DAY.as_millis() as u64 * (u64::from(FIRST + more) + number / 10);
    let now = millis(last, 0) / epoch;
    (0..=last).find(|number| millis(*number, 30).div_ceil(epoch) > now).ok_or("none is kept".into())
}

/// Keys of 45 days, of which the first are forgotten, and the last of these not swept yet.
fn of_width(dir: &Path, n: u32, within: u32) -> Outcome<Made> {
    let path = dir.join("f");
    let mut writer = days(n, within).open(&path)?;
    for commit in 0..3 {
        see(&mut writer, aged(150 * commit..150 * (commit + 1)))?;
        writer.commit()?;
    }
    let first = first_kept(&writer, 449)?;
    let made = closed(writer, &path, &format!("{first}-449"))?;
    Ok(Made { copies: format!("0=0 {}=0 {first}=1 449=1", first - 1), ..made })
}

pub(crate) const ACCEPTED: &[(&str, &str, Make)] = &[
    (
        "forgetting-4-2",
        "four slots a bucket, two expiry bits; keys of 45 days, some of them forgotten",
        |dir| of_width(dir, 4, 15),
    ),
    ("forgetting-4-3", "the same with three expiry bits", |dir| of_width(dir, 4, 5)),
    ("forgetting-3", "the same with three slots and four expiry bits", |dir| of_width(dir, 3, 3)),
    ("forgetting-2", "the same with two slots", |dir| of_width(dir, 2, 3)),
    ("forgetting-unswept", "eighteen regions, of which the last commit swept sixteen", |dir| {
        let path = dir.join("f");
        let mut writer = days(4, 5).capacity(524_288).open(&path)?;
        see(&mut writer, aged(0..449))?;
        see(&mut writer, aged(449..450))?;
        let first = first_kept(&writer, 449)?;
        writer.commit()?;
        let made = closed(writer, &path, &format!("{first}-449"))?;
        Ok(Made { copies: format!("0=0 {}=0 {first}=1", first - 1), ..made })
    }),
    ("forgetting-empty", "no key, and a kind", |dir| {
        let path = dir.join("f");
        let mut writer = days(4, 5).open(&path)?;
        writer.commit()?;
        closed(writer, &path, "")
    }),
    ("forgetting-grown", "doubled twice, keys of each generation", |dir| {
        let path = dir.join("f");
        let mut writer = days(3, 3).open(&path)?;
        for generation in 0..3 {
            if generation > 0 {
                writer.grow()?;
            }
            see(&mut writer, aged(100 * generation..100 * (generation + 1)))?;
            writer.commit()?;
        }
        closed(writer, &path, "0-299")
    }),
    (
        "forgetting-refresh",
        "seen again after two doublings, and so stored beside their older entries",
        |dir| {
            let path = dir.join("f");
            let mut writer = days(4, 15).refresh(true).open(&path)?;
            see(&mut writer, aged(0..200))?;
            writer.grow()?;
            writer.grow()?;
            let new = see(&mut writer, (0..100).map(|number| (number, 25)))?;
            assert_eq!(new, 0);
            see(&mut writer, aged(400..450))?;
            writer.commit()?;
            // Key 109, of day 10, was not seen again.
            let made = closed(writer, &path, "0-99 110-199 400-449")?;
            Ok(Made { copies: "0=1 109=0".to_owned(), ..made })
        },
    ),
    (
        "forgetting-replay",
        "three commits in the journal, none applied, of which each brings an epoch",
        |dir| {
            let path = dir.join("f");
            let mut writer = days(4, 5).open(&path)?;
            see(&mut writer, aged(0..200))?;
            writer.commit()?;
            writer.close()?;
            let mut writer = days(4, 5).open(&path)?;
            let before = Filter::read(&path)?;
            for hundred in 2..5 {
                see(&mut writer, aged(100 * hundred..100 * hundred + 100))?;
                writer.commit()?;
            }
            let (journal, first) = (Filter::read(&path)?.journal, first_kept(&writer, 499)?);
            drop(writer);
            let made = made(Filter { journal, ..before }, &format!("{first}-499"));
            Ok(Made { copies: format!("0=0 {}=0 {first}=1", first - 1), ..made })
        },
    ),
    ("forgetting-quarantined", "a damaged page, repaired: its buckets never forget", |dir| {
        let path = dir.join("f");
        let mut made = of_width(dir, 4, 5)?;
        let pages = made.filter.data.len() - 65_536;
        made.filter.data[pages + 2 * 4096 + 100] ^= 1;
        made.filter.write(&path)?;
        let mut writer = days(4, 5).open(&path)?;
        assert_eq!(writer.repair(&|_, _| {})?.quarantined.len(), 1);
        closed(writer, &path, &made.present)
    }),
    ("newest", "the newest 3000 of 4000 keys", |dir| {
        let path = dir.join("f");
        let options = Options::new().seed(3).keep_newest(3000).false_positive_rate(1e-7);
        let mut writer = options.open(&path)?;
        insert(&mut writer, 0..4000)?;
        writer.commit()?;
        let made = closed(writer, &path, "1100-3999")?;
        Ok(Made { copies: "0=0 700=0 3999=1".to_owned(), ..made })
    }),
];

/// How the filter forgets, and what expires when; `None` if it does not forget.
pub(crate) fn row(name: &str, made: &Made) -> Outcome<Option<String>> {
    let scratch = tempfile::tempdir()?;
    let path = scratch.path().join("f");
    made.filter.write(&path)?;
    let reader = Reader::open(&path)?;
    let info = reader.info()?;
    let Some(keeps) = (info.retention.map(|retention| retention.to_string()))
        .or_else(|| info.keep_newest.map(|newest| newest.to_string()))
    else {
        return Ok(None);
    };
    let report = reader.verify(&|_, _| {})?;
    let expiries: Vec<String> =
        report.expiries.iter().map(|expiry| format!("{}={}", expiry.at, expiry.entries)).collect();
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let time = or_dash(info.time.map_or_else(String::new, |time| time.to_string()));
    Ok(Some(format!("| {name} | {keeps} | {time} | {} |", or_dash(expiries.join(" ")))))
}

/// A field of both slots of a forgetting filter, n = 4 and a = 3, sealed again.
type Field = (&'static str, &'static str, &'static str, usize, usize, u64);

#[rustfmt::skip]
const FIELDS: &[Field] = &[
    ("forgetting-no-feature", "a forgetting filter without its feature", "field `kind` is 2, not 0 to 1", 16, 8, 0),
    ("forgetting-kind-set", "the feature of forgetting filters in a set", "field `incompatible` is 6, not the feature of forgetting filters in these alone", 12, 4, 0),
    ("expiry-bits-0", "no expiry bits", "field `expiry bits` is 0, not 2 to 4", 528, 4, 0),
    ("expiry-bits-1", "one expiry bit", "field `expiry bits` is 1, not those of a forgetting filter of this n", 528, 4, 1),
    ("expiry-bits-4", "expiry bits of another n", "field `expiry bits` is 4, not those of a forgetting filter of this n", 528, 4, 4),
    ("expiry-bits-all", "as many expiry bits as a number can say", "field `expiry bits` is 4294967295", 528, 4, u32::MAX as u64),
    ("forgetting-n-5", "a width that does not forget", "field `expiry bits` is 3, not those of a forgetting filter of this n", 76, 4, 5),
    ("epoch-length-0", "epochs without a length", "field `epoch length` is 0, not 1 to", 520, 8, 0),
    ("epoch-length-all", "the longest epochs that a number can say", "field `epoch length` is 18446744073709551615, not 1 to", 520, 8, u64::MAX),
    ("forget-after-0", "no time to forget after", "field `forget after` is 0, not from 1 on", 512, 8, 0),
    ("forget-after-long", "a millisecond more than its epochs last", "field `forget after` is 2592000001, not from 1 on", 512, 8, 2_592_000_001),
    ("refresh-2", "an unknown way to refresh", "field `refresh` is 2, not 0 to 1", 532, 4, 2),
    ("clock-2", "an unknown clock", "field `clock` is 2, not 0 to 1", 536, 4, 2),
    ("forgetting-reserved", "a reserved byte", "field `reserved` is 1, not 0", 540, 4, 1),
    ("epoch-0", "an epoch before the first", "field `epoch` is 0, not 1 to", 208 + 224, 8, 0),
    ("epoch-all", "the latest epoch that a number can say", "field `epoch` is 18446744073709551615, not 1 to", 208 + 224, 8, u64::MAX),
    ("swept-too-many", "more regions swept than there are", "field `swept regions` is 2, not 0 to 1", 208 + 232, 8, 2),
    ("forgetting-digits", "digits in the counts of a forgetting filter", "field `digits` is 1, not 0 in a forgetting filter", 208 + 24, 8, 1),
];

/// The good file from which the refused ones are made: 20 keys in one region.
pub(crate) fn plain(dir: &Path) -> Outcome<Filter> {
    let path = dir.join("forgetting");
    let mut writer = days(4, 5).open(&path)?;
    see(&mut writer, aged(0..20))?;
    writer.commit()?;
    Ok(closed(writer, &path, "")?.filter)
}

pub(crate) fn rejected() -> Vec<Reject> {
    let fields = FIELDS.iter().map(|&(name, what, message, at, size, value)| -> Reject {
        let make = move |base: &Base| {
            let mut filter = base.forgetting.clone();
            filter.superblocks(|slot| slot[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]));
            filter
        };
        (name, what, "open", "Field", message, Box::new(make))
    });
    let newest_refreshed = |base: &Base| {
        let mut filter = base.forgetting.clone();
        filter.superblocks(|slot| (slot[532], slot[536]) = (1, 1));
        filter
    };
    let refresh_differs = |base: &Base| Base::slot_of(&base.forgetting, true, |slot| slot[532] = 1);
    let clocks_differ = |base: &Base| Base::slot_of(&base.forgetting, false, |slot| slot[536] = 1);
    let fingerprintless =
        |base: &Base| Base::page_of(&base.forgetting, |page| page[..2].copy_from_slice(&[5, 0]));
    let more: [Reject; 4] = [
        (
            "newest-refreshed",
            "the newest keys, refreshed",
            "open",
            "Field",
            "field `refresh` is 1, not 0 to 0",
            Box::new(newest_refreshed),
        ),
        (
            "refresh-differs",
            "two slots of which one refreshes",
            "open",
            "Field",
            "field `refresh` is",
            Box::new(refresh_differs),
        ),
        (
            "clocks-differ",
            "two slots of two clocks",
            "open",
            "Field",
            "field `clock` is",
            Box::new(clocks_differ),
        ),
        ("expiry-alone", "an expiry without a fingerprint", "malformed", "-", "-", Box::new(fingerprintless)),
    ];
    fields.chain(more).collect()
}
