//! Ninety simulated days of a stream, of which each key shall be known for 30 days after it was first seen: forgetting
//! filters, rotating sets, and `cuckoo-clock`, which keeps its keys in memory.
//!
//! 40 of 100 events bring a new key. The others repeat one, and the more recent it is the more often: its place in the order
//! of keys is as far back as a number whose logarithm is evenly distributed. Each hour is a batch and a commit. What a
//! candidate has called new counts as stored at that hour.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cuckoo_clock::CuckooFilter;
use cuckoo_clock::config::{CuckooConfiguration, TtlConfig};
use gowk::{Batches, Growth, Lookup, Options, Reader, SlotsPerBucket, Writer};

use crate::Outcome;
use crate::measure::seconds;

const DAYS: u64 = 90;
const WINDOW: u64 = 30;
/// Keys that nobody inserts begin here.
const ABSENT: u64 = 1 << 60;
/// Keys that are looked up for the rate.
const ASKED: u64 = 2_000_000;
/// Ages in days that are looked at, on each of the last thirty days.
const OLDEST: usize = 60;
/// Keys of a day whose age is looked at.
const SAMPLE: usize = 200;

type Key = [u8; 8];

/// What keeps keys for a window of time.
trait Window {
    /// Takes the keys of an hour, and tells which are new.
    fn take(&mut self, hour: u64, keys: &[Key]) -> Outcome<Vec<bool>>;
    fn find(&mut self, keys: &[Key]) -> Outcome<Vec<bool>>;
    fn bytes(&self) -> Outcome<u64>;
}

type Make = fn(&Path, u64) -> Outcome<Box<dyn Window>>;

/// Names and constructors. A constructor gets the number of new keys in all ninety days.
const CANDIDATES: [(&str, Make); 6] = [
    ("gowk, 2 bits of expiry, 4 slots", |dir, new| Ok(Box::new(Forgetting::new(dir, new, 45, 15, 1e-3)?))),
    ("gowk, 3 bits of expiry, 4 slots", |dir, new| Ok(Box::new(Forgetting::new(dir, new, 35, 5, 2e-3)?))),
    ("gowk, 4 bits of expiry, 3 slots", |dir, new| Ok(Box::new(Forgetting::new(dir, new, 33, 3, 1e-4)?))),
    ("3 rotating sets of gowk, 4 slots", |dir, new| Ok(Box::new(Rotating::new(dir, new, 3)))),
    ("7 rotating sets of gowk, 4 slots", |dir, new| Ok(Box::new(Rotating::new(dir, new, 7)))),
    ("cuckoo-clock, 13 bits and 3 of TTL", |_, new| Ok(Box::new(Clock::new(new)?))),
];

/// How many of some keys of an age, in days, are still there.
#[derive(Clone, Copy, Default)]
struct Age {
    there: usize,
    asked: usize,
}

pub fn run(events: u64) -> Outcome<()> {
    let dir = tempfile::tempdir_in(".")?;
    let new = events * 2 / 5;
    println!("{events} events in {DAYS} days, {new} new keys, window of {WINDOW} days");
    println!(
        "| | forgets after, days | bytes on day 45, 60, 75, 90 | a key of the window | rate | wrong \"no\" | events a second, M | lookups a second, M |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (name, make) in CANDIDATES {
        let folder = dir.path().join(name.replace([' ', ','], "-"));
        std::fs::create_dir(&folder)?;
        let told = one(&mut *make(&folder, new)?, events)?;
        println!("| {name} | {told} |");
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

fn one(window: &mut dyn Window, events: u64) -> Outcome<String> {
    let per_hour = events / (DAYS * 24);
    let mut random = Random(7);
    // The hour at which each key was called new last.
    let mut stored: Vec<Option<u64>> = Vec::new();
    let (mut took, mut lost, mut sizes) = (0.0, 0_u64, Vec::new());
    let mut ages = [Age::default(); OLDEST];
    for hour in 0..DAYS * 24 {
        let mut numbers = Vec::with_capacity(per_hour as usize);
        for _ in 0..per_hour {
            if stored.is_empty() || random.below(1.0) < 0.4 {
                numbers.push(stored.len() as u64);
                stored.push(None);
            } else {
                let all = stored.len() as f64;
                let back = (random.below(1.0) * all.ln()).exp().min(all);
                numbers.push((all - back) as u64);
            }
        }
        let keys: Vec<Key> = numbers.iter().map(|number| number.to_le_bytes()).collect();
        let mut outcome = Ok(Vec::new());
        took += seconds(|| outcome = window.take(hour, &keys));
        for (number, is_new) in numbers.into_iter().zip(outcome?) {
            let last = &mut stored[number as usize];
            if is_new {
                lost += u64::from(last.is_some_and(|last| hour - last < WINDOW * 24));
                *last = Some(hour);
            }
        }
        let day = (hour + 1) / 24;
        if (hour + 1) % 24 == 0 {
            if [45, 60, 75, 90].contains(&day) {
                sizes.push(window.bytes()?);
            }
            if day >= 60 {
                look_at_ages(window, hour, &stored, &mut ages)?;
            }
        }
    }
    let kept = stored.iter().flatten().filter(|at| **at + WINDOW * 24 >= DAYS * 24).count();
    let absent: Vec<Key> = (ABSENT..ABSENT + ASKED).map(u64::to_le_bytes).collect();
    let mut found = Ok(Vec::new());
    let looked = seconds(|| found = window.find(&absent));
    let found = found?.into_iter().filter(|found| *found).count();
    // More than false positives.
    let is_gone = |age: &Age| age.there * 100 < age.asked * 99;
    let is_there = |age: &Age| age.there * 100 > age.asked;
    let first = ages.iter().position(|age| age.asked > 0 && is_gone(age)).unwrap_or_default();
    let last = ages.iter().rposition(|age| age.asked > 0 && is_there(age)).unwrap_or_default();
    let sizes: Vec<String> = sizes.iter().map(|bytes| format!("{:.2}", *bytes as f64 / 1e6)).collect();
    let size = window.bytes()? as f64 / kept as f64;
    Ok(format!(
        "{first} to {} | {} MB | {size:.2} | {:.1e} | {lost} | {:.2} | {:.1} |",
        last + 1,
        sizes.join(", "),
        found as f64 / ASKED as f64,
        events as f64 / took / 1e6,
        ASKED as f64 / looked / 1e6,
    )
    .trim_end_matches(" |")
    .to_owned())
}

/// Looks up some keys of each day before.
fn look_at_ages(window: &mut dyn Window, hour: u64, stored: &[Option<u64>], ages: &mut [Age]) -> Outcome<()> {
    let mut asked: Vec<Vec<Key>> = vec![Vec::new(); ages.len()];
    for (number, at) in stored.iter().enumerate() {
        let Some(at) = at else { continue };
        let Some(of_age) = asked.get_mut(((hour - at) / 24) as usize) else { continue };
        // Those of a day follow each other, so that every 97th is of any hour.
        if number % 97 == 0 && of_age.len() < SAMPLE {
            of_age.push((number as u64).to_le_bytes());
        }
    }
    for (keys, age) in asked.iter().zip(ages) {
        age.asked += keys.len();
        age.there += window.find(keys)?.into_iter().filter(|found| *found).count();
    }
    Ok(())
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: f64) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64 * end
    }
}

/// The begin of an hour, from the first of an epoch on.
fn on(hour: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(20_250 * 86_400 + hour * 3600)
}

const fn days(days: u64) -> Duration {
    Duration::from_secs(days * 86_400)
}

struct Forgetting {
    path: PathBuf,
    writer: Writer,
}

impl Forgetting {
    /// For as many new keys as come in `kept` days.
    fn new(dir: &Path, new: u64, kept: u64, within: u64, rate: f64) -> Outcome<Self> {
        let path = dir.join("f");
        let writer = Options::new()
            .capacity(new * kept / DAYS * 105 / 100)
            .false_positive_rate(rate)
            .forget_after(days(WINDOW))
            .forget_within(days(within))
            .create(&path)?;
        Ok(Self { path, writer })
    }
}

impl Window for Forgetting {
    fn take(&mut self, hour: u64, keys: &[Key]) -> Outcome<Vec<bool>> {
        let told = self.writer.insert_batch_at(keys, &vec![on(hour); keys.len()])?;
        let new = told.inserted.mask();
        told.inserted.complete()?;
        self.writer.commit()?;
        Ok(new)
    }

    fn find(&mut self, keys: &[Key]) -> Outcome<Vec<bool>> {
        Ok(Reader::open(&self.path)?.contains_batch(keys)?)
    }

    fn bytes(&self) -> Outcome<u64> {
        Ok(std::fs::metadata(&self.path)?.len())
    }
}

/// Sets of which the newest takes keys. Each is for a part of the window, so that all but the newest are the window.
struct Rotating {
    dir: PathBuf,
    new: u64,
    sets: u64,
    current: Option<(u64, Writer)>,
    older: Vec<(PathBuf, Reader)>,
}

impl Rotating {
    fn new(dir: &Path, new: u64, sets: u64) -> Self {
        Self { dir: dir.to_owned(), new, sets, current: None, older: Vec::new() }
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(number.to_string())
    }
}

impl Window for Rotating {
    fn take(&mut self, hour: u64, keys: &[Key]) -> Outcome<Vec<bool>> {
        let part = WINDOW / (self.sets - 1);
        let number = hour / 24 / part;
        if self.current.as_ref().is_none_or(|(current, _)| *current != number) {
            if let Some((before, mut writer)) = self.current.take() {
                writer.commit()?;
                writer.close()?;
                let path = self.path(before);
                self.older.push((path.clone(), Reader::open(path)?));
            }
            while self.older.len() as u64 >= self.sets {
                std::fs::remove_file(self.older.remove(0).0)?;
            }
            let writer = Options::new()
                .capacity(self.new * part / DAYS * 105 / 100)
                .slots_per_bucket(SlotsPerBucket::Four)
                .growth(Growth::Auto)
                .create(self.path(number))?;
            self.current = Some((number, writer));
        }
        let mut known = vec![false; keys.len()];
        for (_, reader) in &self.older {
            known.iter_mut().zip(reader.contains_batch(keys)?).for_each(|(known, found)| *known |= found);
        }
        let Some((_, writer)) = &mut self.current else { return Err("there is no set".into()) };
        let unknown: Vec<usize> = (0..keys.len()).filter(|at| !known[*at]).collect();
        let rest: Vec<Key> = unknown.iter().map(|at| keys[*at]).collect();
        let inserted = writer.insert_batch(&rest)?;
        let mut new = vec![false; keys.len()];
        unknown.iter().enumerate().for_each(|(place, at)| new[*at] = inserted.is_new(place));
        inserted.complete()?;
        writer.commit()?;
        Ok(new)
    }

    fn find(&mut self, keys: &[Key]) -> Outcome<Vec<bool>> {
        let mut found = vec![false; keys.len()];
        let newest = self.current.as_ref().map(|(number, _)| Reader::open(self.path(*number))).transpose()?;
        for reader in self.older.iter().map(|(_, reader)| reader).chain(&newest) {
            found.iter_mut().zip(reader.contains_batch(keys)?).for_each(|(any, found)| *any |= found);
        }
        Ok(found)
    }

    fn bytes(&self) -> Outcome<u64> {
        let current = self.current.iter().map(|(number, _)| self.path(*number));
        let all = self.older.iter().map(|(path, _)| path.clone()).chain(current);
        all.map(|path| Ok(std::fs::metadata(path)?.len())).sum()
    }
}

/// A filter in memory, of the rate of 3 bits of expiry. Every fifth day it is scanned, which takes one from each TTL.
struct Clock {
    filter: CuckooFilter<std::hash::RandomState>,
    bytes: u64,
    scanned: u64,
}

impl Clock {
    fn new(new: u64) -> Outcome<Self> {
        let wrong = |error| format!("cuckoo-clock: {error:?}");
        let configuration = CuckooConfiguration::builder((new * 35 / DAYS * 105 / 100) as usize)
            .fingerprint_bits(13.try_into().map_err(wrong)?)
            .bucket_size(4.try_into()?)
            .with_ttl(TtlConfig { ttl: 7.try_into()?, ttl_bits: 3.try_into().map_err(wrong)? })
            .build()
            .map_err(wrong)?;
        let bytes = configuration.get_configured_memory_usage() as u64;
        Ok(Self { filter: CuckooFilter::new_random(configuration), bytes, scanned: 0 })
    }
}

impl Window for Clock {
    fn take(&mut self, hour: u64, keys: &[Key]) -> Outcome<Vec<bool>> {
        while self.scanned < hour / 24 / 5 {
            self.filter.scan_and_update_ttl();
            self.scanned += 1;
        }
        let insert = |key: &Key| {
            let is_new = !self.filter.contains(key);
            if is_new {
                // It gives up another entry where there is no room.
                self.filter.insert(key);
            }
            is_new
        };
        Ok(keys.iter().map(insert).collect())
    }

    fn find(&mut self, keys: &[Key]) -> Outcome<Vec<bool>> {
        Ok(keys.iter().map(|key| self.filter.contains(key)).collect())
    }

    fn bytes(&self) -> Outcome<u64> {
        Ok(self.bytes)
    }
}
