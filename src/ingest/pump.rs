//! Keys from a feed into a filter or store, with commits on the way: the one loop of jobs, and of the verbs of the tool
//! that write.
//!
//! Invariants:
//!
//! 1. What is written for a key is durable before that key is committed. So a crash can repeat it, and never loses it.
//! 2. A commit falls between two keys, in their order. Where a commit may be durable or not, [`Pump::in_doubt`] has its
//!    number.
//! 3. A key without room does not end a run. It counts as taken, as new, and as refused.
//! 4. Once a commit has failed, no other one is tried: it would most likely fail too.

use std::time::Instant;

use super::destination::Destination;
use super::error::Error;
use super::summary::Tally;
use crate::Batches;
use crate::keys::{Batch, CommitClock, Feed, Next};
use crate::store::Error as StoreError;

/// Records that were read one after the other, and their keys.
#[derive(Debug)]
pub struct Piece<P> {
    /// What is looked for, inserted or removed. Empty at the places in `keyless`.
    pub keys: Batch,
    /// What is written for each key; `None` where that is the key itself.
    pub records: Option<Batch>,
    /// The indices, rising, of records without a key that are written as new ones are.
    pub keyless: Vec<usize>,
    /// Whether a commit is to follow.
    pub commit: bool,
    /// Where they come from.
    pub place: P,
}

/// One of the records of a piece.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The key.
    pub key: &'a [u8],
    /// What is written for it.
    pub record: &'a [u8],
    has_key: bool,
}

impl Item<'_> {
    /// Whether it is a key.
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
    /// Keys from this place that are written as they are.
    pub const fn new(keys: Batch, place: P) -> Self {
        Self { keys, records: None, keyless: Vec::new(), commit: false, place }
    }

    /// Adds its records to others.
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

/// What is done with keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// Each is inserted; new ones are handed to [`Work::write`].
    Insert,
    /// One copy of each is removed; those that had one count as new.
    Remove,
}

/// What keys are taken for: a job, or a verb of the tool.
pub trait Work {
    /// Where pieces come from.
    type Place;
    /// Why it fails.
    type Error: From<Error>;

    /// Called when nothing is there to be taken yet.
    fn idle(&mut self) -> Result<(), Self::Error>;

    /// Until when to wait for something to take, if not for a commit.
    fn until(&self) -> Option<Instant>;

    /// Takes note of pieces that were read, before their keys are taken.
    fn read(&mut self, pieces: &[Piece<Self::Place>]) -> Result<(), Self::Error>;

    /// Whether to stop before the next key; asked between pieces, and between commits.
    fn is_stopped(&mut self, destination: &Destination, taken: u64) -> bool;

    /// Writes a new record, or one without a key.
    fn write(&mut self, item: Item<'_>) -> Result<(), Self::Error>;

    /// Takes note of a key without room: the one of this index among those of the pieces.
    fn refuse(
        &mut self,
        item: Item<'_>,
        pieces: &[Piece<Self::Place>],
        index: usize,
        cause: &crate::Error,
    ) -> Result<(), Self::Error>;

    /// Takes note of keys that were taken, all or some of those of the pieces.
    fn took(&mut self, pieces: &[Piece<Self::Place>], tally: Tally) -> Result<(), Self::Error>;

    /// Makes what was written durable, just before a commit.
    fn sync(&mut self, destination: &mut Destination) -> Result<(), Self::Error>;

    /// Takes note of a commit of the keys taken so far; one that is not certain may be durable or not.
    fn committed(&mut self, number: u64, keys: u64, is_certain: bool);
}

/// Takes keys into a destination.
#[derive(Debug)]
pub struct Pump {
    destination: Destination,
    deed: Deed,
    clock: CommitClock,
    /// Pieces that are taken together.
    together: usize,
    in_doubt: Option<u64>,
    commit_failed: bool,
    reading_failed: bool,
    within: Option<[u64; 2]>,
}

impl Pump {
    /// Commits into a filter when `clock` says so, into a store at the end alone. At most `together` pieces that are there
    /// already are taken at a time.
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
        }
    }

    /// Where the keys go.
    pub const fn destination(&self) -> &Destination {
        &self.destination
    }

    /// Where the keys have gone.
    pub fn into_destination(self) -> Destination {
        self.destination
    }

    /// Keys taken.
    pub const fn taken(&self) -> u64 {
        self.clock.taken()
    }

    /// Keys that are committed, from the first on.
    pub const fn committed(&self) -> u64 {
        self.clock.committed()
    }

    /// The number of a commit that may be durable or not.
    pub const fn in_doubt(&self) -> Option<u64> {
        self.in_doubt
    }

    /// Whether a commit has failed.
    pub const fn commit_failed(&self) -> bool {
        self.commit_failed
    }

    /// Whether it was reading that failed, so that all that was taken is whole.
    pub const fn reading_failed(&self) -> bool {
        self.reading_failed
    }

    /// Of the keys that were being taken when that failed, how many are in the filter, and how many they are. They are behind
    /// those [taken](Self::taken), and a commit includes them.
    pub const fn within(&self) -> Option<[u64; 2]> {
        self.within
    }

    /// Takes keys until the feed ends, or until the work says to stop; true if it ended. What is left to commit is not
    /// committed.
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
            if self.clock.is_due() && !self.destination.is_store() {
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
        // Once also without records: a job moves on past those that have no key.
        let mut taken = 0;
        while taken == 0 || taken < all.len() && !work.is_stopped(&self.destination, self.taken()) {
            let most = usize::try_from(self.clock.keys_left()).unwrap_or(usize::MAX);
            let left = all.get(taken..).unwrap_or_default();
            let now = left.get(..most.min(left.len())).unwrap_or_default();
            let tally = self.change(work, now, pieces, taken)?;
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

    /// Changes the destination by keys, the first of which has this index among those of the pieces, and writes those that
    /// are new. Where the destination fails, those that were stored before are written too.
    fn change<W: Work>(
        &mut self,
        work: &mut W,
        items: &[Item<'_>],
        pieces: &[Piece<W::Place>],
        first: usize,
    ) -> Result<Tally, W::Error> {
        // Where some items have no key, the places of the others.
        let has_keyless = pieces.iter().any(|piece| !piece.keyless.is_empty());
        let keyed: Option<Vec<usize>> = has_keyless.then(|| {
            items.iter().enumerate().filter(|(_, item)| item.has_key).map(|(index, _)| index).collect()
        });
        let of = |index: usize| match &keyed {
            Some(keyed) => keyed.get(index).copied().unwrap_or(usize::MAX),
            None => index,
        };
        let mut mask = vec![false; items.len()];
        if has_keyless {
            mask.iter_mut().zip(items).for_each(|(written, item)| *written = !item.has_key);
        }
        let done = |index| mask.get_mut(of(index)).into_iter().for_each(|done| *done = true);
        let chosen: Vec<Item<'_>>;
        let keys = match &keyed {
            None => items,
            Some(keyed) => {
                chosen = keyed.iter().filter_map(|index| items.get(*index).copied()).collect();
                &chosen
            }
        };
        let outcome = match self.deed {
            Deed::Insert => self.destination.insert_each(keys, done),
            Deed::Remove => self.destination.remove_each(keys, done).map(|()| Vec::new()),
        };
        let mut new = 0;
        for (item, _) in items.iter().zip(&mask).filter(|(_, done)| **done) {
            new += u64::from(item.has_key);
            if self.deed == Deed::Insert {
                work.write(*item)?;
            }
        }
        if outcome.is_err() && self.deed == Deed::Insert {
            self.within =
                self.destination.present(keys.iter().map(|item| item.key)).map(|n| [n, keys.len() as u64]);
        }
        let refused = outcome?;
        for (index, cause) in &refused {
            if let Some(item) = items.get(of(*index)) {
                work.refuse(*item, pieces, first + of(*index), cause)?;
            }
        }
        let (keys, refused) = (keys.len() as u64, refused.len() as u64);
        Ok(Tally { keys, new, refused, ..Tally::default() })
    }

    /// Commits what was taken, after what was written for it.
    pub fn commit<W: Work>(&mut self, work: &mut W) -> Result<(), W::Error> {
        work.sync(&mut self.destination)?;
        let has_new = self.clock.uncommitted() > 0;
        self.commit_failed = true;
        match self.destination.commit() {
            Err(
                Error::Filter(crate::Error::Unknown { commit, source, .. })
                | Error::Store(StoreError::Unknown { version: commit, source, .. }),
            ) if has_new => {
                self.in_doubt = Some(commit);
                work.committed(commit, self.clock.taken(), false);
                Err(Error::from(*source).into())
            }
            Err(Error::Filter(error @ crate::Error::AfterCommit { commit, .. })) => {
                self.clock.commit();
                work.committed(commit, self.clock.committed(), true);
                Err(Error::from(error).into())
            }
            Err(error) => Err(error.into()),
            Ok(number) => {
                self.commit_failed = false;
                self.clock.commit();
                if let Some(number) = number.filter(|_| has_new) {
                    work.committed(number, self.clock.committed(), true);
                }
                Ok(())
            }
        }
    }
}
