//! Moves keys from a feed into a filter or store, with commits during the run. Jobs and the tool's writing verbs run this
//! loop.
//!
//! Invariants:
//!
//! 1. The record written for a key is durable before that key is committed. So a crash can repeat a record, but never
//!    loses one.
//! 2. A commit falls between two keys, in their order. If a commit may be durable or not, [`Pump::in_doubt`] has its
//!    number.
//! 3. A key without room does not end a run. It counts as taken, as new, and as refused.
//! 4. After a failed commit the pump tries no other one: it would most likely also fail.
//! 5. If it [rebases](Pump::rebasing), at most one committed run writes each key of a store and counts it as new. Records
//!    are held back until the store has judged their keys. With a token they are written after the commit: another run
//!    with the same token writes them again, in place of 1. Without a token they are written before it, and keys that
//!    others commit after that are [reported](Work::written_elsewhere), as both runs have written them.

use std::time::{Duration, Instant};

use super::destination::Destination;
use super::error::Error;
use super::held::Held;
use super::lines::{Found, Skip};
use super::rules::Rules;
use super::summary::Tally;
use super::time::KeyTime;
use crate::keys::{Batch, CommitClock, Feed, Next};
use gowk::store::{Error as StoreError, Rejudged};
use gowk::{Batches, ErrorKind, KeyHash, Seen};

/// Consecutive records of an input, and their keys.
#[derive(Debug)]
pub struct Piece<P> {
    /// The key of each record, to insert or remove; empty at the indices in `keyless`.
    pub keys: Batch,
    /// When each key was seen or how long it is kept, one time for each record; empty if the records have no times.
    pub times: Vec<KeyTime>,
    /// The bytes to write for each record if it is new; `None` to write the keys themselves.
    pub records: Option<Batch>,
    /// The ascending indices of records without a key that are written like new ones.
    pub keyless: Vec<usize>,
    /// Counts of the skipped records, by why they have no key.
    pub skipped: Tally,
    /// The records without a key that are not blank; `None` to drop them.
    pub rejects: Option<Batch>,
    /// Whether a commit must follow this piece.
    pub commit: bool,
    /// Where the records come from.
    pub place: P,
}

/// One of the records of a piece.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The bytes to write if the key is new.
    pub record: &'a [u8],
    has_key: bool,
}

impl Item<'_> {
    /// Whether the record has a key.
    pub const fn has_key(&self) -> bool {
        self.has_key
    }
}

impl AsRef<[u8]> for Item<'_> {
    fn as_ref(&self) -> &[u8] {
        self.key
    }
}

impl<P> Piece<P> {
    /// A piece of these keys, which are their own records.
    pub fn new(keys: Batch, place: P) -> Self {
        let (times, keyless, skipped) = (Vec::new(), Vec::new(), Tally::default());
        Self { keys, times, records: None, keyless, skipped, rejects: None, commit: false, place }
    }

    /// Adds a record that these rules found. A record without the field or a time is written if `keeps` is set; a record
    /// without a key for another reason is skipped. Both are counted. Returns why the record has no key.
    #[inline]
    pub fn add(&mut self, found: Found<'_>, rules: &Rules, keeps: bool) -> Option<Skip> {
        match found {
            Found::Key { key, record, time } => {
                self.keys.push(&rules.key.normal(key));
                self.times.extend(time);
                self.records.iter_mut().for_each(|records| records.push(record));
                None
            }
            Found::Skipped { skip, record } => {
                self.skip(&skip, record, rules, keeps);
                Some(skip)
            }
        }
    }

    /// Adds a record without a key. Separate from `add`, which is inlined and handles a key in few steps.
    fn skip(&mut self, skip: &Skip, record: &[u8], rules: &Rules, keeps: bool) {
        self.skipped.skip(skip);
        if keeps && matches!(skip, Skip::NoField | Skip::NoTime) {
            self.keyless.push(self.keys.len());
            self.keys.push(if self.records.is_none() { record } else { b"" });
            self.times.extend(rules.time.as_ref().map(|_| rules.time_kind.none()));
            self.records.iter_mut().for_each(|records| records.push(record));
        } else if !matches!(skip, Skip::Blank | Skip::Empty) && !record.is_empty() {
            // A record that is too long for memory is empty here.
            self.rejects.iter_mut().for_each(|rejects| rejects.push(record));
        }
    }

    /// Adds its records to `all`.
    pub fn add_to<'a>(&'a self, all: &mut Vec<Item<'a>>) {
        let before = all.len();
        match &self.records {
            None => all.extend(self.keys.iter().map(|key| Item { key, record: key, has_key: true })),
            Some(records) => {
                let both = self.keys.iter().zip(records.iter());
                all.extend(both.map(|(key, record)| Item { key, record, has_key: true }));
            }
        }
        for index in &self.keyless {
            all.get_mut(before + index).into_iter().for_each(|item| item.has_key = false);
        }
    }
}

/// The operation on each key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// Inserts each key; new ones go to [`Work::write`].
    Insert,
    /// Removes one copy of each key; keys that had a copy count as new.
    Remove,
}

/// The pump's caller, a job or a verb of the tool: writes records, and is notified of what the pump does.
pub trait Work {
    /// The type of a piece's place.
    type Place;
    /// The error of the work.
    type Error: From<Error>;

    /// Called before the pump waits for keys.
    fn idle(&mut self) -> Result<(), Self::Error>;

    /// When a wait for keys ends at the latest; a commit that becomes due ends it earlier.
    fn until(&self) -> Option<Instant>;

    /// Notifies of pieces that were read, before their keys are taken.
    fn read(&mut self, pieces: &[Piece<Self::Place>]) -> Result<(), Self::Error>;

    /// Which of these records, by index, count as seen even if the destination lacks their keys. The pump inserts such
    /// keys, but neither writes their records nor counts them as new. It inserts nothing if this fails. An empty list
    /// means none.
    fn seen_elsewhere(&mut self, _: &[Item<'_>]) -> Result<Vec<bool>, Self::Error> {
        Ok(Vec::new())
    }

    /// Whether to stop before the next key. Called between pieces, and between commits.
    fn is_stopped(&mut self, destination: &Destination, taken: u64) -> bool;

    /// Writes a new record, or one without a key.
    fn write(&mut self, item: Item<'_>) -> Result<(), Self::Error>;

    /// Notifies of a record whose key is not new, but neither late nor early.
    fn seen(&mut self, _: Item<'_>) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Notifies of a key without room; `index` is its index among all records of the pieces.
    fn refuse(
        &mut self,
        item: Item<'_>,
        pieces: &[Piece<Self::Place>],
        index: usize,
        cause: &gowk::Error,
    ) -> Result<(), Self::Error>;

    /// Notifies that keys of the pieces were taken: all keys, or the next ones.
    fn took(&mut self, pieces: &[Piece<Self::Place>], tally: Tally) -> Result<(), Self::Error>;

    /// Makes the written records durable, just before a commit.
    fn sync(&mut self, destination: &mut Destination) -> Result<(), Self::Error>;

    /// Notifies of a commit of all keys that were taken. Without `is_certain` it is unknown whether the commit is
    /// durable.
    fn committed(&mut self, number: u64, keys: u64, is_certain: bool);

    /// Notifies that this many keys that were [taken](Self::took) as new are not new: other processes have committed them
    /// first. Called only if the pump [rebases](Pump::rebasing).
    fn known(&mut self, _: u64) {}

    /// Notifies that the records of this many keys were written as new, but other processes committed the keys just
    /// before this commit. [`known`](Self::known) is also called.
    fn written_elsewhere(&mut self, _: u64) {}
}

/// How many held keys are inserted at a time.
const HELD_BLOCK: usize = 1 << 20;

/// The outcome for some items.
struct Applied {
    /// Whether to write the record of each: it has no key, or a new one.
    done: Vec<bool>,
    /// The indices of records that are neither new nor seen: their keys are late or early, or were not inserted.
    neither: Vec<usize>,
    /// Counts of the keys, except how many are new, and how many were refused.
    tally: Tally,
    /// The items whose keys were refused.
    outcome: Result<Vec<(usize, gowk::Error)>, <Destination as Batches>::Error>,
}

/// Takes keys into a destination.
#[derive(Debug)]
pub struct Pump {
    destination: Destination,
    deed: Deed,
    clock: CommitClock,
    /// How many pieces are processed together at most.
    together: usize,
    in_doubt: Option<u64>,
    commit_failed: bool,
    reading_failed: bool,
    within: Option<[u64; 2]>,
    saturated: u64,
    rebases: bool,
    /// Records that wait for the commit.
    held: Option<Held>,
}

impl Pump {
    /// A pump that commits to a filter when `clock` says so, and to a store only when [`commit`](Self::commit) is called.
    /// It takes at most `together` pieces at a time, and waits only for the first.
    pub const fn new(destination: Destination, deed: Deed, clock: CommitClock, together: usize) -> Self {
        Self {
            destination,
            deed,
            clock,
            together,
            in_doubt: None,
            commit_failed: false,
            reading_failed: false,
            within: None,
            saturated: 0,
            rebases: false,
            held: None,
        }
    }

    /// Keys that other processes commit to a store before this one does are then not new. If the work `writes` records,
    /// they are held back until that is known: the first 64 MiB in memory, all others in a temporary file. Changes
    /// nothing for a filter, nor for keys of shards that are rewritten.
    pub fn rebasing(mut self, writes: bool) -> Self {
        self.rebases = self.destination.is_store();
        self.held = (self.rebases && writes).then(Held::default);
        self
    }

    /// The destination of the keys.
    pub const fn destination(&self) -> &Destination {
        &self.destination
    }

    /// The destination, for use after the pump.
    pub fn into_destination(self) -> Destination {
        self.destination
    }

    /// Keys taken.
    pub const fn taken(&self) -> u64 {
        self.clock.taken()
    }

    /// How many of the keys are committed, counted from the first one.
    pub const fn committed(&self) -> u64 {
        self.clock.committed()
    }

    /// How long all commits took together.
    pub const fn committing(&self) -> Duration {
        self.clock.spent()
    }

    /// The number of a commit that may be durable or not.
    pub const fn in_doubt(&self) -> Option<u64> {
        self.in_doubt
    }

    /// Whether a commit has failed.
    pub const fn commit_failed(&self) -> bool {
        self.commit_failed
    }

    /// Whether reading failed. The keys taken before the failure are then complete.
    pub const fn reading_failed(&self) -> bool {
        self.reading_failed
    }

    /// How many removals left a key unchanged, because it had the highest count, which stands for any number of copies.
    pub const fn saturated(&self) -> u64 {
        self.saturated
    }

    /// If taking a batch of keys failed: how many of its keys are in the filter, and how many keys it has. They come
    /// after the keys [taken](Self::taken), and a commit includes them.
    pub const fn within(&self) -> Option<[u64; 2]> {
        self.within
    }

    /// Takes keys until the feed ends, or until the work says to stop. Returns true if the feed ended. Does not commit
    /// the last keys.
    pub fn run<W: Work>(
        &mut self,
        work: &mut W,
        feed: &mut Feed<Piece<W::Place>, Error>,
    ) -> Result<bool, W::Error> {
        loop {
            let next = self.next(work, feed)?;
            let ended = matches!(next, Next::End);
            if let Next::Message(piece) = next {
                let mut pieces = vec![piece];
                pieces.append(&mut feed.ready(self.together - 1));
                self.take(work, &pieces)?;
            }
            if work.is_stopped(&self.destination, self.taken()) {
                return Ok(false);
            }
            if ended {
                return Ok(true);
            }
            let is_due = self.clock.is_due() || self.destination.exceeds_memory();
            if is_due && !self.destination.is_store() {
                self.commit(work)?;
            }
        }
    }

    fn next<W: Work>(
        &mut self,
        work: &mut W,
        feed: &mut Feed<Piece<W::Place>, Error>,
    ) -> Result<Next<Piece<W::Place>>, W::Error> {
        let mut next = feed.try_next();
        if matches!(next, Ok(None)) {
            work.idle()?;
            let due = self.clock.deadline().filter(|_| !self.destination.is_store());
            next = feed.next(due.into_iter().chain(work.until()).min()).map(Some);
        }
        self.reading_failed = next.is_err();
        Ok(next?.unwrap_or(Next::Woken))
    }

    fn take<W: Work>(&mut self, work: &mut W, pieces: &[Piece<W::Place>]) -> Result<(), W::Error> {
        work.read(pieces)?;
        let mut all = Vec::with_capacity(pieces.iter().map(|piece| piece.keys.len()).sum());
        pieces.iter().for_each(|piece| piece.add_to(&mut all));
        let times: Vec<KeyTime> = pieces.iter().flat_map(|piece| &piece.times).copied().collect();
        // Runs at least once even without keys: a job's cursor moves past records without keys.
        let mut taken = 0;
        while taken == 0 || taken < all.len() && !work.is_stopped(&self.destination, self.taken()) {
            let most = usize::try_from(self.clock.keys_left()).unwrap_or(usize::MAX);
            let left = all.get(taken..).unwrap_or_default();
            let now = left.get(..most.min(left.len())).unwrap_or_default();
            let times = times.get(taken..taken + now.len()).unwrap_or_default();
            let tally = self.change(work, (now, times), pieces, taken)?;
            self.clock.take(tally.keys);
            work.took(pieces, tally)?;
            taken += now.len();
            let is_due = self.clock.keys_left() == 0 || pieces.iter().any(|piece| piece.commit);
            if is_due && !self.destination.is_store() {
                self.commit(work)?;
            }
            if now.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Inserts or removes the keys of `items`, which have these `times` if any, and writes the records of new ones.
    /// `first` is the index of the first item among all records of the pieces. If the destination fails, the records of
    /// keys stored before the failure are also written.
    fn change<W: Work>(
        &mut self,
        work: &mut W,
        (items, times): (&[Item<'_>], &[KeyTime]),
        pieces: &[Piece<W::Place>],
        first: usize,
    ) -> Result<Tally, W::Error> {
        let seen = work.seen_elsewhere(items)?;
        let Applied { done, mut neither, mut tally, outcome } = self.apply(items, times);
        neither.sort_unstable();
        let is_insert = self.deed == Deed::Insert && outcome.is_ok();
        for (index, (item, done)) in items.iter().zip(&done).enumerate() {
            if !done || item.has_key && seen.get(index) == Some(&true) {
                if is_insert && neither.binary_search(&index).is_err() {
                    work.seen(*item)?;
                }
                continue;
            }
            tally.new += u64::from(item.has_key);
            match &mut self.held {
                _ if self.deed == Deed::Remove => {}
                None => work.write(*item)?,
                Some(held) => {
                    let hash = item.has_key.then(|| self.destination.hash(item.key)).transpose()?;
                    held.push(hash, item.record)?;
                }
            }
        }
        let refused = outcome?;
        tally.refused = refused.len() as u64;
        for (index, cause) in &refused {
            if let Some(item) = items.get(*index) {
                work.refuse(*item, pieces, first + index, cause)?;
            }
        }
        Ok(tally)
    }

    /// Inserts or removes the keys of these items. Compiled once, and not for each type of work.
    fn apply(&mut self, items: &[Item<'_>], times: &[KeyTime]) -> Applied {
        // The indices of the items with a key, unless all have one.
        let keyed: Option<Vec<usize>> = items.iter().any(|item| !item.has_key).then(|| {
            items.iter().enumerate().filter(|(_, item)| item.has_key).map(|(index, _)| index).collect()
        });
        let of = |index: usize| match &keyed {
            Some(keyed) => keyed.get(index).copied().unwrap_or(usize::MAX),
            None => index,
        };
        let mut mask: Vec<bool> = items.iter().map(|item| !item.has_key).collect();
        let mut done = |index| mask.get_mut(of(index)).into_iter().for_each(|done| *done = true);
        let chosen: (Vec<Item<'_>>, Vec<KeyTime>);
        let (keys, times) = match &keyed {
            None => (items, times),
            Some(keyed) => {
                let times = keyed.iter().filter_map(|index| times.get(*index).copied());
                let keys = keyed.iter().filter_map(|index| items.get(*index).copied());
                chosen = (keys.collect(), times.collect());
                (chosen.0.as_slice(), chosen.1.as_slice())
            }
        };
        let (mut late, mut early, mut neither) = (0, 0, Vec::new());
        let outcome = match self.deed {
            // Without keys, do not even read the clock: records may have times.
            Deed::Insert if keys.is_empty() => Ok(Vec::new()),
            Deed::Insert if times.is_empty() => self.destination.insert_each(keys, done),
            Deed::Insert => self.destination.insert_each_timed(keys, times, |index, seen| match seen {
                Seen::New => done(index),
                Seen::Late => {
                    late += 1;
                    neither.push(index);
                }
                Seen::Early => {
                    early += 1;
                    neither.push(index);
                }
                Seen::Known => {}
            }),
            Deed::Remove => {
                let saturated = self.destination.saturated(keys.iter().map(|item| item.key));
                saturated.and_then(|saturated| {
                    self.saturated += saturated;
                    self.destination.remove_each(keys, done).map(|()| Vec::new())
                })
            }
        };
        if outcome.is_err() && self.deed == Deed::Insert {
            self.within =
                self.destination.present(keys.iter().map(|item| item.key)).map(|n| [n, keys.len() as u64]);
        }
        let tally = Tally { keys: keys.len() as u64, late, early, ..Tally::default() };
        let outcome = outcome.map(|mut refused| {
            refused.iter_mut().for_each(|(index, _)| *index = of(*index));
            refused
        });
        neither.iter_mut().for_each(|index| *index = of(*index));
        Applied { done: mask, neither, tally, outcome }
    }

    /// Makes the written records durable, then commits the taken keys.
    pub fn commit<W: Work>(&mut self, work: &mut W) -> Result<(), W::Error> {
        let begun = Instant::now();
        let writes_first = self.held.is_some() && !self.destination.has_token();
        if writes_first {
            let rejudged = self.destination.rebase()?;
            self.write_held(work, &rejudged)?;
        }
        work.sync(&mut self.destination)?;
        let has_new = self.clock.uncommitted() > 0;
        self.commit_failed = true;
        match self.commit_destination(writes_first) {
            Err(
                Error::Filter(gowk::Error::Unknown { commit, source, .. })
                | Error::Store(StoreError::Unknown { version: commit, source, .. }),
            ) if has_new => {
                self.in_doubt = Some(commit);
                work.committed(commit, self.clock.taken(), false);
                Err(Error::from(*source).into())
            }
            Err(Error::Filter(error @ gowk::Error::AfterCommit { commit, .. })) => {
                self.clock.commit(begun.elapsed());
                work.committed(commit, self.clock.committed(), true);
                Err(Error::from(error).into())
            }
            Err(error) => Err(error.into()),
            Ok((number, rejudged, again)) => {
                self.commit_failed = false;
                self.clock.commit(begun.elapsed());
                if let Some(number) = number.filter(|_| has_new) {
                    work.committed(number, self.clock.committed(), true);
                }
                if self.held.is_none() || writes_first {
                    let keys = rejudged.known() + again;
                    work.known(keys);
                    if writes_first && keys > 0 {
                        work.written_elsewhere(keys);
                    }
                    self.held = self.held.take().map(|_| Held::default());
                    return Ok(());
                }
                self.write_held(work, &rejudged)?;
                work.sync(&mut self.destination)
            }
        }
    }

    /// Commits. Also returns the keys that other commits inserted first, and, if the update had to be made again, how
    /// many more such keys there are. The update is made again only if records were `written`, as these are valid only
    /// with a commit.
    fn commit_destination(&mut self, written: bool) -> Result<(Option<u64>, Rejudged, u64), Error> {
        if !self.rebases {
            return Ok((self.destination.commit()?, Rejudged::default(), 0));
        }
        let mut known = 0;
        loop {
            match self.destination.commit_rebased() {
                Err(Error::Store(error))
                    if written && error.kind() == ErrorKind::Conflict && self.destination.is_set() =>
                {
                    known += self.insert_held()?;
                }
                outcome => return outcome.map(|(number, rejudged)| (number, rejudged, known)),
            }
        }
    }

    /// Begins the update of a store again, and inserts the keys whose records are held. Returns how many are no longer
    /// new.
    fn insert_held(&mut self) -> Result<u64, Error> {
        let Self { destination, held: Some(held), .. } = self else { return Ok(0) };
        destination.begin_again()?;
        let (mut known, mut block) = (0, Vec::new());
        let mut insert = |keys: &mut Vec<KeyHash>| {
            let (all, mut new) = (keys.len() as u64, 0);
            // A key without room had none before, or other processes' keys have taken it. Its record stays printed, like
            // that of any refused key.
            let refused = destination.insert_each(keys, |_| new += 1)?;
            known += all.saturating_sub(new + refused.len() as u64);
            keys.clear();
            Ok::<_, Error>(())
        };
        held.each(|hash, _| {
            block.extend(hash);
            if block.len() == HELD_BLOCK { insert(&mut block) } else { Ok(()) }
        })?;
        insert(&mut block)?;
        Ok(known)
    }

    /// Writes the held records, except of keys that are now known. Call it instead of [`commit`](Self::commit) if an
    /// earlier commit had this token.
    pub fn write_held<W: Work>(&mut self, work: &mut W, known: &Rejudged) -> Result<(), W::Error> {
        let Some(held) = &mut self.held else { return Ok(()) };
        let mut not_new = 0;
        held.each(|hash, record| {
            let item = Item { key: &[], record, has_key: hash.is_some() };
            if hash.is_some_and(|hash| known.has(hash)) {
                not_new += 1;
                return work.seen(item);
            }
            work.write(item)
        })?;
        work.known(not_new);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gowk::store::{Store, Vacuum};
    use gowk::{Lookup as _, Options};

    /// Another process commits just before this one, each time that this one has written its records.
    struct Raced<'a> {
        store: &'a Store,
        others: Vec<Vec<u32>>,
        vacuums: bool,
        written: Vec<Vec<u8>>,
        elsewhere: u64,
        new: u64,
    }

    impl Work for Raced<'_> {
        type Place = ();
        type Error = Error;

        fn idle(&mut self) -> Result<(), Error> {
            Ok(())
        }

        fn until(&self) -> Option<Instant> {
            None
        }

        fn read(&mut self, _: &[Piece<()>]) -> Result<(), Error> {
            Ok(())
        }

        fn is_stopped(&mut self, _: &Destination, _: u64) -> bool {
            false
        }

        fn write(&mut self, item: Item<'_>) -> Result<(), Error> {
            self.written.push(item.record.to_vec());
            Ok(())
        }

        fn refuse(&mut self, _: Item<'_>, _: &[Piece<()>], _: usize, _: &gowk::Error) -> Result<(), Error> {
            Ok(())
        }

        fn took(&mut self, _: &[Piece<()>], tally: Tally) -> Result<(), Error> {
            self.new += tally.new;
            Ok(())
        }

        fn sync(&mut self, _: &mut Destination) -> Result<(), Error> {
            for keys in self.others.drain(..) {
                let mut update = self.store.update()?;
                update
                    .insert_batch(&keys.iter().map(|key| key.to_string()).collect::<Vec<_>>())?
                    .complete()?;
                update.commit("insert", None)?;
            }
            if self.vacuums {
                self.store.vacuum(&Vacuum::default().grace(std::time::Duration::ZERO))?;
            }
            Ok(())
        }

        fn committed(&mut self, _: u64, _: u64, _: bool) {}

        fn known(&mut self, keys: u64) {
            self.new -= keys;
        }

        fn written_elsewhere(&mut self, keys: u64) {
            self.elsewhere += keys;
        }
    }

    /// The keys from 0 on. After this process has written them, other commits insert some of them: first a few, which
    /// become records, and then enough that their shards are rewritten.
    #[test]
    fn a_commit_without_a_token_goes_on_if_others_have_brought_keys_that_were_written() {
        for (keys, vacuums) in [(1000, false), (50_000, false), (50_000, true)] {
            let dir = tempfile::tempdir().unwrap();
            let options = Options::new().capacity(1000).seed(3).false_positive_rate(1e-6);
            let store = Store::create(dir.path().join("s"), 2, &options).unwrap();
            let to = Destination::store(store.clone(), store.update().unwrap(), "dedup", None);
            let clock = CommitClock::new(None, None);
            let mut pump = Pump::new(to, Deed::Insert, clock, 1).rebasing(true);
            let others = vec![(0..100).collect(), (keys - 10..keys + 10).collect()];
            let (written, elsewhere, new) = (Vec::new(), 0, 0);
            let mut work = Raced { store: &store, others, vacuums, written, elsewhere, new };
            let mut batch = Batch::default();
            (0..keys).for_each(|key| batch.push(key.to_string().as_bytes()));
            pump.take(&mut work, &[Piece::new(batch, ())]).unwrap();
            pump.commit(&mut work).unwrap();
            assert_eq!(work.written.len(), keys as usize);
            assert_eq!((work.elsewhere, work.new), (110, u64::from(keys) - 110), "{keys} keys");
            let reader = store.read().unwrap();
            assert!((0..keys + 10).all(|key| reader.contains(key.to_string()).unwrap()));
            let brought: u64 = reader.version().entries();
            assert!(brought >= u64::from(keys) + 10, "{brought}");
        }
    }
}
