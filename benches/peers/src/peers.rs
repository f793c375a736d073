//! The candidates of the table, each behind the same few operations.

use std::path::{Path, PathBuf};

use fastbloom::BloomFilter;
use gowk::{Batches, Growth, Kind, Lookup, Options, Writer};
use scalable_cuckoo_filter::ScalableCuckooFilter;

use crate::Outcome;
use crate::filters::{Cuckoo, insert_cuckoo};
use crate::keys::Key;

pub trait Peer {
    fn insert(&mut self, keys: &[Key]) -> Outcome<()>;
    /// How many are found.
    fn find(&mut self, keys: &[Key]) -> Outcome<usize>;
    /// How many were removed; `None` if the candidate cannot remove.
    fn remove(&mut self, keys: &[Key]) -> Outcome<Option<usize>>;
    fn bytes(&self) -> Outcome<u64>;
}

pub type Make = fn(&Path, u64) -> Outcome<Box<dyn Peer>>;

/// Names and constructors. A constructor gets the number of keys.
pub const PEERS: [(&str, Make); 8] = [
    ("gowk set, batches", |dir, keys| Ok(Box::new(Gowk::new(dir, keys, Kind::Set, true)?))),
    ("gowk set, key by key", |dir, keys| Ok(Box::new(Gowk::new(dir, keys, Kind::Set, false)?))),
    ("gowk counting, batches", |dir, keys| Ok(Box::new(Gowk::new(dir, keys, Kind::Counting, true)?))),
    ("gowk counting, key by key", |dir, keys| Ok(Box::new(Gowk::new(dir, keys, Kind::Counting, false)?))),
    ("cuckoofilter", |_, keys| Ok(Box::new(Cuckoo::with_capacity(keys as usize)))),
    ("scalable_cuckoo_filter", |_, keys| {
        Ok(Box::new(Scalable(ScalableCuckooFilter::new(keys as usize, RATE))))
    }),
    ("qfilter", |_, keys| {
        let filter = qfilter::Filter::new(keys, RATE).map_err(|error| format!("qfilter: {error:?}"))?;
        Ok(Box::new(Quotient(filter)))
    }),
    ("fastbloom", |_, keys| {
        Ok(Box::new(Bloom(BloomFilter::with_false_pos(RATE).expected_items(keys as usize))))
    }),
];

/// The rate of a set of gowk at four slots a bucket and full load, asked of all candidates that take a rate.
const RATE: f64 = 1.15e-4;

/// gowk in its file. The commit is timed with the inserts.
struct Gowk {
    path: PathBuf,
    writer: Writer,
    kind: Kind,
    batches: bool,
}

impl Gowk {
    fn new(dir: &Path, keys: u64, kind: Kind, batches: bool) -> Outcome<Self> {
        let path = dir.join(if batches { "batches" } else { "single" });
        // A filter that replaces another one is published at once, and takes its keys through a journal.
        if path.exists() {
            std::fs::remove_file(&path)?;
        }
        let options = Options::new().capacity(keys).growth(Growth::Never);
        let options = if kind == Kind::Counting { options.counting() } else { options };
        Ok(Self { writer: options.create(&path)?, path, kind, batches })
    }
}

impl Peer for Gowk {
    fn insert(&mut self, keys: &[Key]) -> Outcome<()> {
        if self.batches {
            self.writer.insert_batch(keys)?.complete()?;
        } else {
            keys.iter().try_for_each(|key| self.writer.insert(key).map(drop))?;
        }
        Ok(self.writer.commit()?)
    }

    fn find(&mut self, keys: &[Key]) -> Outcome<usize> {
        // As any other process would.
        let reader = gowk::Reader::open(&self.path)?;
        if self.batches {
            return Ok(reader.contains_batch(keys)?.into_iter().filter(|found| *found).count());
        }
        let (lookups, mut count) = (reader.lookups(), 0);
        for key in keys {
            count += usize::from(lookups.contains(key)?);
        }
        Ok(count)
    }

    fn remove(&mut self, keys: &[Key]) -> Outcome<Option<usize>> {
        if self.kind == Kind::Set {
            return Ok(None);
        }
        let mut removed = 0;
        if self.batches {
            removed = self.writer.remove_batch(keys)?.into_iter().filter(|removed| *removed).count();
        } else {
            for key in keys {
                removed += usize::from(self.writer.remove(key)?);
            }
        }
        self.writer.commit()?;
        Ok(Some(removed))
    }

    fn bytes(&self) -> Outcome<u64> {
        Ok(std::fs::metadata(&self.path)?.len())
    }
}

impl Peer for Cuckoo {
    fn insert(&mut self, keys: &[Key]) -> Outcome<()> {
        keys.iter().try_for_each(|key| insert_cuckoo(self, key))
    }

    fn find(&mut self, keys: &[Key]) -> Outcome<usize> {
        Ok(keys.iter().filter(|key| self.contains(*key)).count())
    }

    fn remove(&mut self, keys: &[Key]) -> Outcome<Option<usize>> {
        Ok(Some(keys.iter().filter(|key| self.delete(*key)).count()))
    }

    fn bytes(&self) -> Outcome<u64> {
        Ok(self.memory_usage() as u64)
    }
}

struct Scalable(ScalableCuckooFilter<Key>);

impl Peer for Scalable {
    fn insert(&mut self, keys: &[Key]) -> Outcome<()> {
        keys.iter().for_each(|key| self.0.insert(key));
        Ok(())
    }

    fn find(&mut self, keys: &[Key]) -> Outcome<usize> {
        Ok(keys.iter().filter(|key| self.0.contains(*key)).count())
    }

    fn remove(&mut self, keys: &[Key]) -> Outcome<Option<usize>> {
        Ok(Some(keys.iter().filter(|key| self.0.remove(*key)).count()))
    }

    fn bytes(&self) -> Outcome<u64> {
        Ok(self.0.bits() / 8)
    }
}

struct Quotient(qfilter::Filter);

impl Peer for Quotient {
    fn insert(&mut self, keys: &[Key]) -> Outcome<()> {
        for key in keys {
            self.0.insert(key).map_err(|error| format!("qfilter: {error:?}"))?;
        }
        Ok(())
    }

    fn find(&mut self, keys: &[Key]) -> Outcome<usize> {
        Ok(keys.iter().filter(|key| self.0.contains(*key)).count())
    }

    fn remove(&mut self, keys: &[Key]) -> Outcome<Option<usize>> {
        Ok(Some(keys.iter().filter(|key| self.0.remove(*key)).count()))
    }

    fn bytes(&self) -> Outcome<u64> {
        Ok(self.0.memory_usage() as u64)
    }
}

struct Bloom(BloomFilter);

impl Peer for Bloom {
    fn insert(&mut self, keys: &[Key]) -> Outcome<()> {
        keys.iter().for_each(|key| {
            self.0.insert(key);
        });
        Ok(())
    }

    fn find(&mut self, keys: &[Key]) -> Outcome<usize> {
        Ok(keys.iter().filter(|key| self.0.contains(*key)).count())
    }

    fn remove(&mut self, _: &[Key]) -> Outcome<Option<usize>> {
        Ok(None)
    }

    fn bytes(&self) -> Outcome<u64> {
        Ok(self.0.num_bits() as u64 / 8)
    }
}
