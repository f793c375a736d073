//! Inserts and removals key by key, while the filter fills and empties, without the commit.
//!
//! The limit is what the memory must do for each key: a hash, loads of two random buckets of a page, and a store to one of
//! them.

use std::path::Path;

use gowk::{Growth, Kind, Options, Writer};
use xxhash_rust::xxh3::xxh3_128;

use crate::Outcome;
use crate::filters::{Cuckoo, insert_cuckoo};
use crate::keys::{Key, keys};
use crate::measure::{median, seconds};

/// When a rate is taken: at this many thousandths of the keys, over the next 50 thousandths.
const AT: [usize; 3] = [475, 725, 925];
const SPAN: usize = 50;

/// Keys go in and out one by one.
trait Singles {
    fn insert(&mut self, keys: &[Key]) -> Outcome<()>;
    /// How many were removed.
    fn remove(&mut self, keys: &[Key]) -> Outcome<usize>;
    /// Whether the candidate can remove keys.
    fn removes(&self) -> bool {
        true
    }
    /// Before the removals.
    fn filled(&mut self) -> Outcome<()> {
        Ok(())
    }
}

type Make = fn(&Path, u64) -> Outcome<Box<dyn Singles>>;

const CANDIDATES: [(&str, Make); 6] = [
    ("hash, two loads, a store", |_, keys| Ok(Box::new(Least(vec![0; keys as usize / 3])))),
    ("gowk, a new file", |dir, keys| Ok(Box::new(Gowk::new(dir, keys, Kind::Counting, false)?))),
    ("gowk, a published file", |dir, keys| Ok(Box::new(Gowk::new(dir, keys, Kind::Counting, true)?))),
    ("gowk, a set", |dir, keys| Ok(Box::new(Gowk::new(dir, keys, Kind::Set, false)?))),
    ("cuckoofilter", |_, keys| Ok(Box::new(Cuckoo::with_capacity(keys as usize)))),
    ("qfilter", |_, keys| {
        let filter = qfilter::Filter::new(keys, 2.3e-4).map_err(|error| format!("qfilter: {error:?}"))?;
        Ok(Box::new(filter))
    }),
];

pub fn run(count: u64, rounds: usize) -> Outcome<()> {
    let dir = tempfile::tempdir_in(".")?;
    let all = keys(0..count);
    // For each candidate and verb: the rates at those points, and over all keys.
    let mut rates = vec![[const { [const { Vec::new() }; AT.len() + 1] }; 2]; CANDIDATES.len()];
    for round in 0..=rounds {
        for ((name, make), rates) in CANDIDATES.iter().zip(&mut rates) {
            let mut candidate = make(dir.path(), count)?;
            for (verb, rates) in rates.iter_mut().enumerate() {
                if verb == 1 {
                    candidate.filled()?;
                    if !candidate.removes() {
                        continue;
                    }
                }
                let mut work = |keys: &[Key]| -> Outcome<f64> {
                    let mut outcome = Ok(keys.len());
                    let seconds = seconds(|| {
                        outcome = match verb {
                            0 => candidate.insert(keys).map(|()| keys.len()),
                            _ => candidate.remove(keys),
                        }
                    });
                    // Some candidates store two keys with the same fingerprint once.
                    if outcome? < keys.len() / 1000 * 999 {
                        return Err(format!("{name} has lost a key").into());
                    }
                    Ok(seconds)
                };
                let (mut done, mut in_all) = (0, 0.0);
                let mut figures = Vec::new();
                for at in AT {
                    let until = |permille| all.len() * permille / 1000;
                    in_all += work(&all[done..until(at)])?;
                    done = until(at + SPAN);
                    let took = work(&all[until(at)..done])?;
                    in_all += took;
                    figures.push((done - until(at)) as f64 / took / 1e6);
                }
                in_all += work(&all[done..])?;
                figures.push(count as f64 / in_all / 1e6);
                if round > 0 {
                    rates.iter_mut().zip(figures).for_each(|(rates, figure)| rates.push(figure));
                }
            }
        }
    }
    println!("{count} keys, one thread; millions a second, medians of {rounds} rounds, commits left out");
    println!("| | insert at 0.5 | 0.75 | 0.95 | all | remove at 0.5 | 0.75 | 0.95 | all |");
    println!("|---|---|---|---|---|---|---|---|---|");
    for ((name, _), rates) in CANDIDATES.iter().zip(&rates) {
        let figure = |rates: &Vec<f64>| {
            if rates.is_empty() { "-".to_owned() } else { format!("{:.1}", median(rates)) }
        };
        let figures: Vec<String> = rates.iter().flatten().map(figure).collect();
        println!("| {name} | {} |", figures.join(" | "));
    }
    Ok(())
}

struct Gowk {
    writer: Writer,
    kind: Kind,
    published: bool,
}

impl Gowk {
    fn new(dir: &Path, keys: u64, kind: Kind, published: bool) -> Outcome<Self> {
        let path = dir.join("single");
        if path.exists() {
            std::fs::remove_file(&path)?;
        }
        let mut writer = Options::new().kind(kind).capacity(keys).growth(Growth::Never).create(path)?;
        if published {
            writer.commit()?;
        }
        Ok(Self { writer, kind, published })
    }
}

impl Singles for Gowk {
    fn insert(&mut self, keys: &[Key]) -> Outcome<()> {
        Ok(keys.iter().try_for_each(|key| self.writer.insert(key).map(drop))?)
    }

    fn remove(&mut self, keys: &[Key]) -> Outcome<usize> {
        let mut removed = 0;
        for key in keys {
            removed += usize::from(self.writer.remove(key)?);
        }
        Ok(removed)
    }

    fn removes(&self) -> bool {
        self.kind == Kind::Counting
    }

    fn filled(&mut self) -> Outcome<()> {
        if self.published { Ok(self.writer.commit()?) } else { Ok(()) }
    }
}

impl Singles for Cuckoo {
    fn insert(&mut self, keys: &[Key]) -> Outcome<()> {
        keys.iter().try_for_each(|key| insert_cuckoo(self, key))
    }

    fn remove(&mut self, keys: &[Key]) -> Outcome<usize> {
        Ok(keys.iter().filter(|key| self.delete(*key)).count())
    }
}

impl Singles for qfilter::Filter {
    fn insert(&mut self, keys: &[Key]) -> Outcome<()> {
        for key in keys {
            qfilter::Filter::insert(self, key).map_err(|error| format!("qfilter: {error:?}"))?;
        }
        Ok(())
    }

    fn remove(&mut self, keys: &[Key]) -> Outcome<usize> {
        Ok(keys.iter().filter(|key| qfilter::Filter::remove(self, *key)).count())
    }
}

/// Buckets of eight bytes, as many as gowk has.
struct Least(Vec<u64>);

impl Least {
    fn work(&mut self, keys: &[Key]) {
        let pages = (self.0.len() / 512) as u64;
        for key in keys {
            let hash = xxh3_128(key);
            let page = (((hash >> 64) * u128::from(pages)) >> 64) as usize * 512;
            let (first, second) = (page + hash as usize % 512, page + (hash >> 16) as usize % 512);
            let sum = self.0[first].wrapping_add(self.0[second]);
            // Which of the two takes it cannot be known before.
            let into = if sum & 1 == 0 { first } else { second };
            self.0[std::hint::black_box(into)] = sum ^ hash as u64;
        }
    }
}

impl Singles for Least {
    fn insert(&mut self, keys: &[Key]) -> Outcome<()> {
        self.work(keys);
        Ok(())
    }

    fn remove(&mut self, keys: &[Key]) -> Outcome<usize> {
        self.work(keys);
        Ok(keys.len())
    }
}
