//! What an update has taken of one shard: records first, and a working copy once they are so many that the shard is
//! rewritten (`format-spec/STORE.md`, section 8).
//!
//! Invariants:
//!
//! 1. A key that was told to be new is among the records, or in the working copy.
//! 2. There are never more records than are worth rewriting the shard, but where its filter has no room for them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use super::error::{Error, Result};
use super::fold::{Draft, worth_rewriting};
use super::reader::StoreReader;
use super::run::{Record, RecordKey};
use super::update::Deed;
use crate::{Error as FilterError, GrowthRefusal, KeyHash, Kind};

/// Records of one shard that are not sealed yet.
#[derive(Default)]
pub(super) struct Taken {
    /// Copies of each key that came, less those that went.
    copies: FxHashMap<RecordKey, i64>,
    /// How many records they take.
    records: u64,
    /// Why the shard takes no further key, once its filter was found to have no room for those that came.
    full: Option<Full>,
}

impl Taken {
    fn copies(&self, key: RecordKey) -> i64 {
        self.copies.get(&key).copied().unwrap_or(0)
    }

    fn add(&mut self, key: RecordKey, copies: i64) {
        let entry = self.copies.entry(key).or_insert(0);
        self.records -= Record::needed(*entry);
        *entry += copies;
        self.records += Record::needed(*entry);
        if *entry == 0 {
            self.copies.remove(&key);
        }
    }

    pub(super) const fn records(&self) -> u64 {
        self.records
    }

    /// All keys, ascending.
    pub(super) fn sorted(&self) -> Vec<(RecordKey, i64)> {
        let mut all: Vec<_> = self.copies.iter().map(|(key, copies)| (*key, *copies)).collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all
    }
}

/// What an update has of one shard.
pub(super) enum Held {
    Records(Taken),
    Rewritten(Box<Draft>),
}

impl Default for Held {
    fn default() -> Self {
        Self::Records(Taken::default())
    }
}

/// Which of the keys are new, or were removed, and which were refused; by their places among them.
pub(super) type Became = (Vec<usize>, Vec<(usize, FilterError)>);

impl Held {
    /// Whether anything came or went.
    pub(super) fn is_touched(&self) -> bool {
        match self {
            Self::Records(taken) => taken.records > 0,
            Self::Rewritten(_) => true,
        }
    }

    pub(super) fn take(
        &mut self,
        base: &StoreReader,
        scratch: Option<&Path>,
        shard: u32,
        hashes: &[KeyHash],
        deed: Deed,
    ) -> Result<Became> {
        let taken = match self {
            Self::Rewritten(draft) => return draft.take(hashes, deed),
            Self::Records(taken) => taken,
        };
        let before = taken.records;
        let kind = base.store().description().kind;
        let mut became = match (kind, deed) {
            (Kind::Set, _) => taken.take_new(base, shard, hashes)?,
            (Kind::Counting, Deed::Insert) => taken.take_copies(base, shard, hashes)?,
            (Kind::Counting, Deed::Remove) => taken.remove(base, shard, hashes)?,
        };
        let is_many = taken.records > worth_rewriting(base.version(), shard) && taken.records > before;
        if !is_many && taken.full.is_none() {
            return Ok(became);
        }
        if taken.full.is_none() {
            match Draft::open(base, scratch, shard).and_then(|mut draft| {
                draft.fold(taken.sorted().into_iter().map(Ok))?;
                Ok(draft)
            }) {
                Ok(draft) => {
                    *self = Self::Rewritten(Box::new(draft));
                    return Ok(became);
                }
                Err(error) => taken.full = Some(Full::of(error)?),
            }
        }
        if deed == Deed::Insert {
            taken.give_back(kind, hashes, &mut became);
        }
        Ok(became)
    }
}

impl Taken {
    /// Takes keys of a set that neither the base nor this one has.
    fn take_new(&mut self, base: &StoreReader, shard: u32, hashes: &[KeyHash]) -> Result<Became> {
        let found = base.contains_batch_in(shard, hashes)?;
        let mut new = Vec::new();
        for (at, (hash, found)) in hashes.iter().zip(found).enumerate() {
            let key = RecordKey::of(*hash);
            if !found && self.copies(key) == 0 {
                self.add(key, 1);
                new.push(at);
            }
        }
        Ok((new, Vec::new()))
    }

    fn take_copies(&mut self, base: &StoreReader, shard: u32, hashes: &[KeyHash]) -> Result<Became> {
        let mut new = Vec::new();
        for (at, hash) in hashes.iter().enumerate() {
            let key = RecordKey::of(*hash);
            if self.count(base, shard, *hash)? <= 0 {
                new.push(at);
            }
            self.add(key, 1);
        }
        Ok((new, Vec::new()))
    }

    fn remove(&mut self, base: &StoreReader, shard: u32, hashes: &[KeyHash]) -> Result<Became> {
        let mut removed = Vec::new();
        for (at, hash) in hashes.iter().enumerate() {
            if self.count(base, shard, *hash)? > 0 {
                removed.push(at);
                self.add(RecordKey::of(*hash), -1);
            }
        }
        Ok((removed, Vec::new()))
    }

    /// Copies of a key in the base and here. A count of the base that means "that many or more" does not fall.
    fn count(&self, base: &StoreReader, shard: u32, hash: KeyHash) -> Result<i64> {
        let highest = base.store().description().slots_per_bucket.highest_count();
        let found = base.count_in(shard, hash)?;
        let own = if found >= highest { 0 } else { self.copies(RecordKey::of(hash)) };
        Ok(i64::from(found) + own)
    }

    /// Refuses the keys that were taken last, as the shard is full. Of a counting store these are all that were given,
    /// as each would take room.
    fn give_back(&mut self, kind: Kind, hashes: &[KeyHash], (new, refused): &mut Became) {
        let key = |at: usize| hashes.get(at).map(|hash| RecordKey::of(*hash));
        let all = 0..hashes.len();
        let refuse: Vec<usize> = match kind {
            Kind::Counting => {
                hashes.iter().for_each(|hash| self.add(RecordKey::of(*hash), -1));
                all.collect()
            }
            Kind::Set => {
                let given: BTreeSet<RecordKey> = new.iter().filter_map(|at| key(*at)).collect();
                given.iter().for_each(|key| self.add(*key, -1));
                // A key that comes again in the batch is refused again.
                *new = all.filter(|at| key(*at).is_some_and(|key| given.contains(&key))).collect();
                new.clone()
            }
        };
        if let Some(full) = &self.full {
            refused.extend(refuse.into_iter().map(|at| (at, full.error())));
        }
    }
}

/// Why a shard has no room, to be told of each key that is refused.
enum Full {
    Region { path: PathBuf, region: u64, load: f64 },
    Growth { path: PathBuf, reason: GrowthRefusal },
}

impl Full {
    /// From the refusal of one key; the error itself, if it is another one.
    fn of(error: Error) -> Result<Self> {
        match error {
            Error::Filter(FilterError::Full { path, region, load }) => {
                Ok(Self::Region { path, region, load })
            }
            Error::Filter(FilterError::Growth { path, reason }) => Ok(Self::Growth { path, reason }),
            other => Err(other),
        }
    }

    fn error(&self) -> FilterError {
        match self {
            Self::Region { path, region, load } => {
                FilterError::Full { path: path.clone(), region: *region, load: *load }
            }
            Self::Growth { path, reason } => FilterError::Growth { path: path.clone(), reason: *reason },
        }
    }
}
