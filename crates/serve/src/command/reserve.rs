//! The options for creating filters.

use std::time::Duration;

use gowk::{Growth, Options};

use super::{is, number, shown, wrong_number};
use crate::reply::Reply;
use crate::session::{Arguments, Session};

/// The rate of a set that is created by its first key, as in RedisBloom.
const BLOOM_RATE: f64 = 0.01;
/// The capacity of a set that is created by its first key, as in RedisBloom.
const BLOOM_CAPACITY: u64 = 100;
/// The capacity of a counting filter that is created by its first key.
const CUCKOO_CAPACITY: u64 = 1024;
/// The highest rate of a filter. RedisBloom accepts higher rates, but uses this one instead.
const HIGHEST_RATE: f64 = 0.25;
const MOST_EXPANSION: i64 = 32_768;
const MOST_ITERATIONS: i64 = 65_535;
const MOST_BUCKET: i64 = 255;

/// How to create a filter, and the other options of `INSERT`.
#[derive(Clone, Debug)]
pub(super) struct Creation {
    pub options: Options,
    /// Whether a missing filter is an error.
    pub no_create: bool,
    /// The index of the first item.
    pub items: usize,
}

fn set(rate: f64, capacity: u64, scales: bool) -> Options {
    let options = Options::new().false_positive_rate(rate.min(HIGHEST_RATE)).capacity(capacity);
    if scales { options } else { options.growth(Growth::Never) }
}

fn rate_of(argument: &[u8]) -> Result<f64, Reply> {
    let rate: f64 = number(argument).ok_or_else(|| Reply::error("bad error rate"))?;
    if rate > 0.0 && rate < 1.0 {
        return Ok(rate);
    }
    Err(Reply::error("error rate must be in the range (0.000000, 1.000000)"))
}

fn capacity_of(argument: &[u8]) -> Result<u64, Reply> {
    let capacity: i64 = number(argument).ok_or_else(|| Reply::error("bad capacity"))?;
    match u64::try_from(capacity) {
        Ok(capacity @ 1..) => Ok(capacity),
        _ => Err(Reply::error("capacity must be in the range [1, 9223372036854775807]")),
    }
}

/// An option's integer from `least` to `most`.
fn ranged(argument: &[u8], name: &str, least: i64, most: i64) -> Result<i64, Reply> {
    let value: i64 = number(argument).ok_or_else(|| Reply::error(format!("bad {name}")))?;
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(Reply::error(format!("{name} must be in the range [{least}, {most}]")))
}

fn unknown(argument: &[u8]) -> Reply {
    Reply::error(format!("Unknown argument received: '{}'", shown(argument)))
}

/// Whether a set scales. An expansion of 0 means `NONSCALING`; any other expansion means doubling here.
#[derive(Default)]
struct Scaling {
    expansion: Option<i64>,
    never: bool,
}

impl Scaling {
    fn scales(&self) -> Result<bool, Reply> {
        match (self.never, self.expansion) {
            (true, Some(1..)) => Err(Reply::error("Nonscaling filters cannot expand")),
            (never, expansion) => Ok(!never && expansion != Some(0)),
        }
    }
}

/// `BF.RESERVE key rate capacity [EXPANSION n] [NONSCALING]`.
pub(super) fn bloom_reserve(arguments: Arguments<'_>) -> Result<Options, Reply> {
    let (rate, capacity) = (rate_of(arguments.at(2))?, capacity_of(arguments.at(3))?);
    let (mut scaling, mut at) = (Scaling::default(), 4);
    while at < arguments.len() {
        let argument = arguments.at(at);
        if is(argument, "NONSCALING") {
            scaling.never = true;
        } else if is(argument, "EXPANSION") {
            at += 1;
            if at == arguments.len() {
                return Err(Reply::error("no expansion"));
            }
            scaling.expansion = Some(ranged(arguments.at(at), "expansion", 0, MOST_EXPANSION)?);
        } else {
            return Err(unknown(argument));
        }
        at += 1;
    }
    Ok(set(rate, capacity, scaling.scales()?))
}

/// The options of the set that `BF.ADD` creates.
pub(super) fn bloom_default() -> Options {
    set(BLOOM_RATE, BLOOM_CAPACITY, true)
}

/// `BF.INSERT key [CAPACITY n] [ERROR rate] [EXPANSION n] [NOCREATE] [NONSCALING] ITEMS item...`.
pub(super) fn bloom_insert(arguments: Arguments<'_>) -> Result<Creation, Reply> {
    let (mut rate, mut capacity, mut scaling) = (BLOOM_RATE, BLOOM_CAPACITY, Scaling::default());
    let (mut no_create, mut at) = (false, 2);
    let missing = || wrong_number("bf.insert");
    while at < arguments.len() {
        let argument = arguments.at(at);
        at += 1;
        if is(argument, "ITEMS") {
            return items(arguments, at, set(rate, capacity, scaling.scales()?), no_create, "bf.insert");
        }
        if is(argument, "NOCREATE") {
            no_create = true;
        } else if is(argument, "NONSCALING") {
            scaling.never = true;
        } else {
            if at == arguments.len() {
                return Err(missing());
            }
            let value = arguments.at(at);
            at += 1;
            if is(argument, "ERROR") {
                rate = rate_of(value)?;
            } else if is(argument, "CAPACITY") {
                capacity = capacity_of(value)?;
            } else if is(argument, "EXPANSION") {
                scaling.expansion = Some(ranged(value, "expansion", 0, MOST_EXPANSION)?);
            } else {
                return Err(unknown(argument));
            }
        }
    }
    Err(missing())
}

fn items(
    arguments: Arguments<'_>,
    items: usize,
    options: Options,
    no_create: bool,
    name: &str,
) -> Result<Creation, Reply> {
    if items == arguments.len() {
        return Err(wrong_number(name));
    }
    Ok(Creation { options, no_create, items })
}

/// A counting filter. Its fingerprints have gowk's default length, whatever the size of buckets.
fn counting(capacity: u64, bucket: i64) -> Result<Options, Reply> {
    if capacity < 2 * bucket.unsigned_abs() {
        return Err(Reply::error("Capacity must be in the range [2 * BUCKETSIZE, 9223372036854775807]"));
    }
    Ok(Options::new().counting().capacity(capacity))
}

/// `CF.RESERVE key capacity [BUCKETSIZE n] [MAXITERATIONS n] [EXPANSION n]`.
pub(super) fn cuckoo_reserve(arguments: Arguments<'_>) -> Result<Options, Reply> {
    let capacity = capacity_of(arguments.at(2))?;
    let (mut bucket, mut expansion, mut at) = (2, 1, 3);
    while at < arguments.len() {
        let argument = arguments.at(at);
        if at + 1 == arguments.len() {
            return Err(wrong_number("cf.reserve"));
        }
        let value = arguments.at(at + 1);
        if is(argument, "BUCKETSIZE") {
            bucket = ranged(value, "BUCKETSIZE", 1, MOST_BUCKET)?;
        } else if is(argument, "MAXITERATIONS") {
            ranged(value, "MAXITERATIONS", 1, MOST_ITERATIONS)?;
        } else if is(argument, "EXPANSION") {
            expansion = ranged(value, "EXPANSION", 0, MOST_EXPANSION)?;
        } else {
            return Err(unknown(argument));
        }
        at += 2;
    }
    let options = counting(capacity, bucket)?;
    Ok(if expansion == 0 { options.growth(Growth::Never) } else { options })
}

/// The options of the counting filter that `CF.ADD` creates.
pub(super) fn cuckoo_default() -> Options {
    Options::new().counting().capacity(CUCKOO_CAPACITY)
}

/// `CF.INSERT key [CAPACITY n] [NOCREATE] ITEMS item...`.
pub(super) fn cuckoo_insert(arguments: Arguments<'_>) -> Result<Creation, Reply> {
    let (mut capacity, mut no_create, mut at) = (CUCKOO_CAPACITY, false, 2);
    while at < arguments.len() {
        let argument = arguments.at(at);
        at += 1;
        if is(argument, "ITEMS") {
            return items(arguments, at, counting(capacity, 2)?, no_create, "cf.insert");
        }
        if is(argument, "NOCREATE") {
            no_create = true;
        } else if is(argument, "CAPACITY") {
            if at == arguments.len() {
                return Err(wrong_number("cf.insert"));
            }
            capacity = capacity_of(arguments.at(at))?;
            at += 1;
        } else {
            return Err(unknown(argument));
        }
    }
    Err(wrong_number("cf.insert"))
}

/// Creates a filter, which must not exist.
pub(super) async fn reserve(session: &mut Session, key: &[u8], options: Options) -> Result<(), Reply> {
    match session.server.folder.create(key, options).await? {
        Some(_) => {
            session.reply(Reply::OK);
            Ok(())
        }
        None => Err(Reply::error("item exists")),
    }
}

/// `GOWK.RESERVE key capacity rate [TTL seconds] [COUNTING]`.
pub(super) async fn gowk_reserve(session: &mut Session, arguments: Arguments<'_>) -> Result<(), Reply> {
    let (capacity, rate) = (capacity_of(arguments.at(2))?, rate_of(arguments.at(3))?);
    let mut options = Options::new().capacity(capacity).false_positive_rate(rate);
    let (mut lifetime, mut is_counting, mut at) = (None, false, 4);
    while at < arguments.len() {
        let argument = arguments.at(at);
        at += 1;
        if is(argument, "COUNTING") {
            is_counting = true;
        } else if is(argument, "TTL") && at < arguments.len() {
            let seconds = ranged(arguments.at(at), "TTL", 1, 1 << 43)?;
            lifetime = Some(Duration::from_secs(seconds.unsigned_abs()));
            at += 1;
        } else {
            return Err(unknown(argument));
        }
    }
    match (lifetime, is_counting) {
        (Some(_), true) => {
            return Err(Reply::error("TTL and COUNTING exclude each other: a filter is of one kind"));
        }
        (Some(lifetime), false) => options = options.forget_after(lifetime),
        (None, true) => options = options.counting(),
        (None, false) => {}
    }
    reserve(session, arguments.at(1), options).await
}
