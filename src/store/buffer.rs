//! What an update holds of one shard: records, or a working copy once it is worthwhile to rewrite the shard
//! (`format-spec/STORE.md`, section 8).
//!
//! Invariants:
//!
//! 1. Every key that was reported as new is among the records, or in the working copy.
//! 2. There are never more records than make it worthwhile to rewrite the shard, unless the shard's filter has no room.

use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use super::conflict::Again;
use super::error::{Error, Result};
use super::fold::{BatchOutcome, Operation, WorkingCopy};
use super::reader::StoreReader;
use super::run::{Record, RecordKey};
use crate::{Error as FilterError, GrowthRefusal, KeyHash, Kind};

/// Records of one shard before they are sealed.
pub(super) struct RecordBuffer {
    kind: Kind,
    /// Copies of each key: inserted minus removed. In a forgetting store, the key's expiry epoch.
    copies: FxHashMap<RecordKey, i64>,
    /// How many records the keys take.
    records: u64,
    /// Whether the caller removed any key, found or not.
    removes: bool,
    /// Why the shard accepts no further key; `None` if its filter has room.
    full: Option<Full>,
}

impl RecordBuffer {
    fn new(kind: Kind) -> Self {
        Self { kind, copies: FxHashMap::default(), records: 0, removes: false, full: None }
    }

    /// How many records a key takes.
    const fn needed(&self, copies: i64) -> u64 {
        match self.kind {
            Kind::Counting => Record::needed(copies),
            Kind::Set | Kind::Forgetting => (copies != 0) as u64,
        }
    }

    fn copies(&self, key: RecordKey) -> i64 {
        self.copies.get(&key).copied().unwrap_or(0)
    }

    fn add(&mut self, key: RecordKey, copies: i64) {
        let before = self.copies(key);
        let after = before + copies;
        self.records = self.records - self.needed(before) + self.needed(after);
        if after == 0 {
            self.copies.remove(&key);
        } else {
            self.copies.insert(key, after);
        }
    }

    /// Whether no key was added yet.
    fn is_empty(&self) -> bool {
        self.copies.is_empty() && !self.removes && self.full.is_none()
    }

    pub(super) const fn records(&self) -> u64 {
        self.records
    }

    pub(super) const fn removes(&self) -> bool {
        self.removes
    }

    /// The keys that a later version answers differently from the base, each with the base's answer.
    pub(super) fn changed(&self, again: &Again<'_>, shard: u32) -> Result<Vec<(RecordKey, bool)>> {
        let mut changed = Vec::new();
        for key in self.copies.keys() {
            if let Some((was_there, is_there)) = again.changed(*key, shard)?
                && was_there != is_there
            {
                changed.push((*key, was_there));
            }
        }
        Ok(changed)
    }

    /// Drops the records of a key.
    pub(super) fn forget(&mut self, key: RecordKey) {
        self.add(key, -self.copies(key));
    }

    /// All keys, each once.
    fn all(&self) -> impl Iterator<Item = (RecordKey, i64)> {
        self.copies.iter().map(|(key, copies)| (*key, *copies))
    }

    /// All keys, ascending.
    pub(super) fn sorted(&self) -> Vec<(RecordKey, i64)> {
        let mut all: Vec<_> = self.all().collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all
    }

    /// A working copy of the shard, opened with [`WorkingCopy::open`], after folding these records into it.
    pub(super) fn rewritten(
        &self,
        base: &StoreReader,
        scratch: Option<&Path>,
        shard: u32,
        stays: bool,
    ) -> Result<WorkingCopy> {
        let mut copy = WorkingCopy::open(base, scratch, shard, stays)?;
        copy.fold(self.all().map(Ok))?;
        Ok(copy)
    }
}

/// What an update holds of one shard.
pub(super) enum ShardChanges {
    Records(RecordBuffer),
    Rewritten(Box<WorkingCopy>),
}

impl ShardChanges {
    /// No changes yet, for a shard of this kind.
    pub(super) fn new(kind: Kind) -> Self {
        Self::Records(RecordBuffer::new(kind))
    }

    /// Advances to the epoch of a forgetting store.
    pub(super) fn come_to(&mut self, epoch: u64) -> Result<()> {
        match self {
            Self::Records(_) => Ok(()),
            Self::Rewritten(copy) => copy.come_to(epoch),
        }
    }
}

/// The shard to which keys are added.
pub(super) struct TargetShard<'a> {
    pub(super) base: &'a StoreReader,
    pub(super) scratch: Option<&'a Path>,
    pub(super) shard: u32,
    /// With more records than this, the shard is rewritten.
    pub(super) most: u64,
    /// Whether to rewrite the shard at the first key.
    pub(super) rewrites: bool,
}

impl TargetShard<'_> {
    /// A working copy of the shard with these records folded in.
    fn rewritten(&self, taken: &RecordBuffer) -> Result<WorkingCopy> {
        taken.rewritten(self.base, self.scratch, self.shard, true)
    }
}

impl ShardChanges {
    /// Whether any key was added or removed.
    pub(super) fn is_touched(&self) -> bool {
        match self {
            Self::Records(taken) => taken.records > 0,
            Self::Rewritten(_) => true,
        }
    }

    /// Adds or removes keys; in a forgetting store, each expires in the epoch at its place. Once there are more than
    /// `most` records, a working copy replaces them, and then takes the keys.
    pub(super) fn take(
        &mut self,
        from: &TargetShard<'_>,
        hashes: &[KeyHash],
        expiries: &[u64],
        operation: Operation,
    ) -> Result<BatchOutcome> {
        let taken = match self {
            Self::Rewritten(copy) => return copy.take(hashes, expiries, operation),
            Self::Records(taken) => taken,
        };
        if from.rewrites
            && taken.is_empty()
            && let Ok(mut copy) = from.rewritten(taken)
        {
            let outcome = copy.take(hashes, expiries, operation);
            *self = Self::Rewritten(Box::new(copy));
            return outcome;
        }
        let kind = from.base.store().description().kind;
        let (mut done, undo) = match (kind, operation) {
            (Kind::Set, _) => taken.take_new(from, hashes)?,
            (Kind::Forgetting, _) => {
                taken.take_until(from, hashes, expiries, operation == Operation::Prolong)?
            }
            (Kind::Counting, Operation::Insert(_) | Operation::Prolong) => taken.take_copies(from, hashes)?,
            (Kind::Counting, Operation::Remove) => taken.remove(from, hashes)?,
        };
        let is_few = taken.records <= from.most && !from.rewrites;
        // A removal needs no room.
        if taken.full.is_none() && is_few || taken.full.is_some() && operation == Operation::Remove {
            return Ok((operation.reported(done, hashes.len()), Vec::new()));
        }
        undo.iter().for_each(|(key, copies)| taken.add(*key, -copies));
        if taken.full.is_none() {
            match from.rewritten(taken) {
                Ok(mut copy) => {
                    let outcome = copy.take(hashes, expiries, operation);
                    *self = Self::Rewritten(Box::new(copy));
                    return outcome;
                }
                Err(error) => taken.full = Some(Full::of(error)?),
            }
            if operation == Operation::Remove {
                undo.iter().for_each(|(key, copies)| taken.add(*key, *copies));
                return Ok((done, Vec::new()));
            }
        }
        let refuse: Vec<usize> = match kind {
            Kind::Counting => (0..hashes.len()).collect(),
            // A key that occurs again in the batch is refused again.
            Kind::Set | Kind::Forgetting => {
                let new = done.iter().filter_map(|at| hashes.get(*at));
                let new: FxHashMap<RecordKey, i64> = new.map(|hash| (RecordKey::of(*hash), 1)).collect();
                let refused: FxHashMap<RecordKey, i64> = undo.into_iter().collect();
                let all_of = |keys: &FxHashMap<RecordKey, i64>| {
                    let all = hashes.iter().enumerate();
                    let all = all.filter(|(_, hash)| keys.contains_key(&RecordKey::of(**hash)));
                    all.map(|(at, _)| at).collect()
                };
                done = all_of(&new);
                all_of(&refused)
            }
        };
        let refused = taken.full.iter().flat_map(|full| refuse.iter().map(|at| (*at, full.error())));
        Ok((operation.reported(done, hashes.len()), refused.collect()))
    }
}

/// The places of the keys that are new or were removed, and the records added for these keys.
type Changed = (Vec<usize>, Vec<(RecordKey, i64)>);

impl RecordBuffer {
    /// Adds keys of a set that are neither in the base nor in this buffer.
    fn take_new(&mut self, from: &TargetShard<'_>, hashes: &[KeyHash]) -> Result<Changed> {
        let found = from.base.contains_batch_in(from.shard, hashes)?;
        let (mut new, mut added) = (Vec::new(), Vec::new());
        for (at, (hash, found)) in hashes.iter().zip(found).enumerate() {
            let key = RecordKey::of(*hash);
            if !found && self.copies(key) == 0 {
                self.add(key, 1);
                new.push(at);
                added.push((key, 1));
            }
        }
        Ok((new, added))
    }

    /// Adds keys of a forgetting store that are neither in the base nor in this buffer. With refresh, or with `prolongs`,
    /// also adds keys that would expire earlier.
    fn take_until(
        &mut self,
        from: &TargetShard<'_>,
        hashes: &[KeyHash],
        expiries: &[u64],
        prolongs: bool,
    ) -> Result<Changed> {
        let retention = from.base.store().description().retention;
        let refresh = prolongs || retention.is_some_and(|retention| retention.refresh);
        let found = if refresh { Vec::new() } else { from.base.contains_batch_in(from.shard, hashes)? };
        let (mut new, mut added) = (Vec::new(), Vec::new());
        for (at, (hash, expiry)) in hashes.iter().zip(expiries).enumerate() {
            let key = RecordKey::of(*hash);
            let own = self.copies(key) as u64;
            let last = match found.get(at) {
                Some(true) => u64::MAX,
                Some(false) => 0,
                None => from.base.expires_in(from.shard, *hash)?,
            };
            let last = last.max(if own > from.base.now { own } else { 0 });
            if last == 0 {
                new.push(at);
            } else if !refresh || last >= *expiry {
                continue;
            }
            let more = *expiry as i64 - own as i64;
            self.add(key, more);
            added.push((key, more));
        }
        Ok((new, added))
    }

    fn take_copies(&mut self, from: &TargetShard<'_>, hashes: &[KeyHash]) -> Result<Changed> {
        let (mut new, mut added) = (Vec::new(), Vec::new());
        for (at, hash) in hashes.iter().enumerate() {
            let key = RecordKey::of(*hash);
            if self.count(from, *hash)? <= 0 {
                new.push(at);
            }
            self.add(key, 1);
            added.push((key, 1));
        }
        Ok((new, added))
    }

    fn remove(&mut self, from: &TargetShard<'_>, hashes: &[KeyHash]) -> Result<Changed> {
        self.removes = true;
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        for (at, hash) in hashes.iter().enumerate() {
            if self.count(from, *hash)? > 0 {
                let key = RecordKey::of(*hash);
                self.add(key, -1);
                removed.push(at);
                added.push((key, -1));
            }
        }
        Ok((removed, added))
    }

    /// Copies of a key in the base and here. If the base's file answers the highest count, removals remove nothing.
    fn count(&self, from: &TargetShard<'_>, hash: KeyHash) -> Result<i64> {
        let found = from.base.copies_in(from.shard, hash)?;
        Ok(found.map_or(i64::MAX, |found| found + self.copies(RecordKey::of(hash))))
    }
}

/// Why a shard has no room. Each refused key gets an error with this reason.
enum Full {
    Region { path: PathBuf, region: u64, load: f64 },
    Growth { path: PathBuf, reason: GrowthRefusal },
}

impl Full {
    /// From the error of a refused key. Any other error is returned.
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
