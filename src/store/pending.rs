//! Lookups in one shard of a version: in its file, and in the runs that are pending for it (`format-spec/STORE.md`,
//! section 12.2).

use std::path::Path;
use std::sync::PoisonError;

use super::Store;
use super::error::{Error, Result};
use super::files;
use super::reader::StoreReader;
use super::run::{MergedRecords, RecordKey, Records, Run};
use super::sieve::Sieve;
use super::text::hex;
use super::version::{RunFile, Version};
use crate::cuckoo::Expiries;
use crate::{KeyHash, Kind, Lookup as _, Report};

/// How many keys have their cache lines prefetched before the first of them is looked up.
const AHEAD: usize = 16;

impl Store {
    /// Opens the run that a version names, after comparing it with the version's description.
    pub(super) fn open_run(&self, version: &Version, file: &RunFile) -> Result<Run> {
        let name = files::run(&file.name);
        self.opened(&name, version, |path| self.open_run_at(path, file))
    }

    fn open_run_at(&self, path: &Path, file: &RunFile) -> Result<Run> {
        let run = Run::open(path, &self.options.disk)?;
        if self.storage.is_object_store() {
            // Verified before it is opened: an open copy that has rotted could not be replaced.
            run.verify()?;
        }
        let (head, own) = (run.head(), &self.description);
        let pairs = [
            ("store", hex(&head.store), hex(&own.uuid)),
            ("uuid", hex(&head.uuid), hex(&file.name.uuid)),
            ("kind", head.kind.name().to_owned(), own.kind.name().to_owned()),
            ("number of records", head.records.to_string(), file.records.to_string()),
            ("epoch", head.epoch.to_string(), file.epoch.to_string()),
            ("length", head.length().to_string(), file.bytes.to_string()),
        ];
        for (what, found, expected) in pairs {
            if found != expected {
                return Err(Error::WrongFile { path: path.to_owned(), what, found, expected });
            }
        }
        Ok(run)
    }
}

impl StoreReader {
    /// A run of the version, by its index there.
    pub(super) fn run(&self, place: usize) -> Result<Option<&Run>> {
        let snapshot = &*self.snapshot;
        let (Some(file), Some(opened)) = (snapshot.version.runs.get(place), snapshot.runs.get(place)) else {
            return Ok(None);
        };
        if opened.get().is_none() {
            let _one_at_a_time = snapshot.opening.lock().unwrap_or_else(PoisonError::into_inner);
            if opened.get().is_none() {
                let _ = opened.set(self.store.open_run(&snapshot.version, file)?);
            }
        }
        Ok(opened.get())
    }

    /// The runs that are pending for a shard, the oldest first.
    pub(super) fn pending(&self, shard: u32) -> impl Iterator<Item = Result<&Run>> {
        let version = self.version();
        let folded = version.folded(shard);
        let places = version.runs.iter().enumerate().filter(move |(_, run)| run.to > folded);
        places.filter_map(|(place, _)| self.run(place).transpose())
    }

    /// Like `pending`, for looking up many keys.
    fn all_pending(&self, shard: u32) -> Result<Vec<&Run>> {
        self.pending(shard).collect()
    }

    /// The pending records of a shard, added up by key.
    pub(super) fn merged(&self, shard: u32) -> Result<MergedRecords<'_>> {
        let shards = self.store.description.shards;
        let mut records: Vec<Records<'_>> = Vec::new();
        for run in self.pending(shard) {
            let run = run?;
            records.push(run.records_of([run.slice(shard, shards)?]));
        }
        Ok(MergedRecords::new(records))
    }

    /// How many records are pending for a shard.
    pub(super) fn count_pending(&self, shard: u32) -> Result<u64> {
        let shards = self.store.description.shards;
        self.pending(shard).try_fold(0, |sum, run| {
            let slice = run?.slice(shard, shards)?;
            Ok(sum + (slice.end - slice.start))
        })
    }

    /// Whether a later version has merged a shard's pending records with later records. The later ones may have cancelled
    /// the pending ones, and then no run of that version shows either.
    pub(super) fn is_merged_in(&self, later: &Version, shard: u32) -> Result<bool> {
        let (version, shards) = (self.version(), self.store.description.shards);
        let folded = version.folded(shard);
        for (place, file) in version.runs.iter().enumerate() {
            if file.to <= folded || later.keeps_apart(file, version.number) {
                continue;
            }
            if let Some(run) = self.run(place)?
                && !run.slice(shard, shards)?.is_empty()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How many records of a run are pending for their shards. Opens the run only if some shard has folded it.
    pub(super) fn count_unfolded(&self, place: usize) -> Result<u64> {
        let (version, shards) = (self.version(), self.store.description.shards);
        let Some(file) = version.runs.get(place) else { return Ok(0) };
        let mut records = file.records;
        for shard in version.shards.keys().filter(|shard| file.to <= version.folded(**shard)) {
            if let Some(run) = self.run(place)? {
                let slice = run.slice(*shard, shards)?;
                records = records.saturating_sub(slice.end - slice.start);
            }
        }
        Ok(records)
    }

    /// The records of a run that are pending for their shards.
    pub(super) fn unfolded(&self, place: usize) -> Result<Option<Records<'_>>> {
        let (version, shards) = (self.version(), self.store.description.shards);
        let (Some(file), Some(run)) = (version.runs.get(place), self.run(place)?) else { return Ok(None) };
        let pending = (0..shards).filter(|shard| file.to > version.folded(*shard));
        let slices = pending.map(|shard| run.slice(shard, shards)).collect::<Result<Vec<_>>>()?;
        Ok(Some(run.records_of(slices)))
    }

    /// Removes runs from a version if all their records are folded there. Looks only into runs that this reader's version
    /// also names.
    pub(super) fn drop_folded(&self, next: &mut Version) -> Result<()> {
        let (version, shards) = (self.version(), self.store.description.shards);
        let mut kept = Vec::with_capacity(next.runs.len());
        for file in &next.runs {
            let place = version.runs.iter().position(|known| known.name == file.name);
            let Some(run) = place.map(|place| self.run(place)).transpose()?.flatten() else {
                kept.push(file.clone());
                continue;
            };
            let mut is_needed = false;
            for shard in (0..shards).filter(|shard| file.to > next.folded(*shard)) {
                if !run.slice(shard, shards)?.is_empty() {
                    is_needed = true;
                    break;
                }
            }
            if is_needed {
                kept.push(file.clone());
            }
        }
        next.runs = kept;
        Ok(())
    }

    pub(super) fn contains_in(&self, shard: u32, hash: KeyHash) -> Result<bool> {
        if self.version().runs.is_empty() {
            return self.is_in_file(shard, hash);
        }
        match self.store.description.kind {
            Kind::Set | Kind::Forgetting if self.is_in_file(shard, hash)? => Ok(true),
            Kind::Set | Kind::Forgetting => {
                let key = RecordKey::of(hash);
                if !self.may_be_pending(shard, key) {
                    return Ok(false);
                }
                for run in self.pending(shard) {
                    if run?.value(key)?.is_some_and(|value| self.is_there(value)) {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Kind::Counting => Ok(self.count_in(shard, hash)? > 0),
        }
    }

    fn is_in_file(&self, shard: u32, hash: KeyHash) -> Result<bool> {
        let found = self.look(shard, |filter| filter.contains(hash))?.unwrap_or_default();
        Ok(found && (!self.is_past(shard) || self.expires_in_file(shard, hash)? > self.now))
    }

    /// Whether the store's epoch is later than the epoch of a shard's file.
    pub(super) fn is_past(&self, shard: u32) -> bool {
        self.version().shards.get(&shard).is_some_and(|file| file.epoch < self.now)
    }

    /// The expiry epoch of a key in a shard's file of a forgetting store; 0 if it has expired by the time of the file, or
    /// is absent.
    fn expires_in_file(&self, shard: u32, hash: KeyHash) -> Result<u64> {
        let epoch = self.version().shards.get(&shard).map_or(0, |file| file.epoch);
        Ok(match self.look(shard, |filter| filter.epochs_left(hash))? {
            None | Some(0) => 0,
            Some(u32::MAX) => u64::MAX,
            Some(left) => epoch + u64::from(left),
        })
    }

    /// The latest expiry epoch of a key in a forgetting store; 0 if it is absent.
    pub(super) fn expires_in(&self, shard: u32, hash: KeyHash) -> Result<u64> {
        let (key, mut last) = (RecordKey::of(hash), self.expires_in_file(shard, hash)?);
        if !self.version().runs.is_empty() && self.may_be_pending(shard, key) {
            for run in self.pending(shard) {
                last = last.max(run?.value(key)?.unwrap_or_default() as u64);
            }
        }
        Ok(if last > self.now { last } else { 0 })
    }

    /// Whether a record of this value means that its key is present; not for a counting store. In a set the value is 1.
    #[inline]
    const fn is_there(&self, value: i64) -> bool {
        value > self.now as i64
    }

    pub(super) fn count_in(&self, shard: u32, hash: KeyHash) -> Result<u32> {
        let own = &self.store.description;
        let highest = own.slots_per_bucket.highest_count();
        let most = if own.kind == Kind::Counting { highest } else { 1 };
        let copies = self.copies_in(shard, hash)?;
        Ok(copies.map_or(highest, |copies| copies.clamp(0, most.into()) as u32))
    }

    /// The copies of a key. With runs they may exceed the highest count. `None` if the shard's file answers the highest
    /// count: removals then change nothing.
    pub(super) fn copies_in(&self, shard: u32, hash: KeyHash) -> Result<Option<i64>> {
        let own = &self.store.description;
        if own.kind != Kind::Counting {
            return Ok(Some(self.contains_in(shard, hash)?.into()));
        }
        let found = self.look(shard, |filter| filter.count(hash))?.unwrap_or_default();
        if found >= own.slots_per_bucket.highest_count() {
            return Ok(None);
        }
        let (key, mut copies) = (RecordKey::of(hash), i64::from(found));
        if self.version().runs.is_empty() || !self.may_be_pending(shard, key) {
            return Ok(Some(copies));
        }
        for run in self.pending(shard) {
            copies += run?.value(key)?.unwrap_or(0);
        }
        Ok(Some(copies))
    }

    /// The answers for many keys of one shard, in their order.
    pub(super) fn contains_batch_in(&self, shard: u32, hashes: &[KeyHash]) -> Result<Vec<bool>> {
        let of_filter = self.look(shard, |filter| filter.contains_batch(hashes))?;
        let mut answers = of_filter.unwrap_or_else(|| vec![false; hashes.len()]);
        if self.is_past(shard) {
            for (hash, answer) in hashes.iter().zip(&mut answers).filter(|(_, answer)| **answer) {
                *answer = self.expires_in_file(shard, *hash)? > self.now;
            }
        }
        let runs = self.all_pending(shard)?;
        if runs.is_empty() {
            return Ok(answers);
        }
        let counts = self.store.description.kind == Kind::Counting;
        let sieve = self.sieve(shard, hashes.len());
        let asked: Vec<(usize, RecordKey)> = (hashes.iter().map(|hash| RecordKey::of(*hash)).enumerate())
            .filter(|(at, key)| {
                let is_known = !counts && answers.get(*at).copied().unwrap_or_default();
                !is_known && sieve.is_none_or(|sieve| sieve.may_have(*key))
            })
            .collect();
        for asked in asked.chunks(AHEAD) {
            for run in &runs {
                asked.iter().for_each(|(_, key)| run.prefetch(*key));
            }
            for (at, key) in asked {
                let (Some(hash), Some(answer)) = (hashes.get(*at), answers.get_mut(*at)) else { continue };
                let mut copies = None;
                // The last run is often the largest.
                for run in runs.iter().rev() {
                    let value = run.value(*key)?;
                    copies = value.map(|more| copies.unwrap_or(0) + more).or(copies);
                    if !counts && value.is_some_and(|value| self.is_there(value)) {
                        *answer = true;
                        break;
                    }
                }
                match copies.filter(|_| counts) {
                    None => {}
                    Some(1..) => *answer = true,
                    Some(_) if *answer => *answer = self.count_in(shard, *hash)? > 0,
                    Some(_) => {}
                }
            }
        }
        Ok(answers)
    }

    /// The sieve of a shard, for lookups of `keys` keys.
    #[inline]
    fn sieve(&self, shard: u32, keys: usize) -> Option<&Sieve> {
        let make = |pending| {
            let shards = self.store.description.shards;
            let mut slices = Vec::new();
            for run in self.pending(shard) {
                let run = run?;
                slices.push(run.records_of([run.slice(shard, shards)?]));
            }
            Sieve::of(pending, slices.into_iter().flatten())
        };
        self.snapshot.sieves.get(shard as usize)?.get(keys, || self.count_pending(shard), make)
    }

    /// Whether a run that is pending for a shard may have a key.
    #[inline]
    fn may_be_pending(&self, shard: u32, key: RecordKey) -> bool {
        self.sieve(shard, 1).is_none_or(|sieve| sieve.may_have(key))
    }

    /// Reads every page of a run. In a forgetting store, also reports when the pending records expire.
    pub(super) fn verify_run(&self, place: usize) -> Result<Report> {
        let pages = match self.version().runs.get(place) {
            // The open file is the local copy.
            Some(file) if self.store.storage.is_object_store() => {
                self.store.open_run(self.version(), file)?.verify()?
            }
            _ => self.run(place)?.map(Run::verify).transpose()?.unwrap_or_default(),
        };
        let mut report = Report { pages, ..Report::default() };
        if let (Some(forgetting), Some(run)) = (self.store.description.forgetting(), self.run(place)?) {
            let (mut expiries, epoch) = (Expiries::default(), run.head().epoch);
            for record in self.unfolded(place)?.into_iter().flatten() {
                expiries.count(record?.value.unsigned_abs().saturating_sub(epoch));
            }
            report.expiries = expiries.by_time(&forgetting, epoch);
        }
        Ok(report)
    }
}
