//! When to commit.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// Says when a commit is due: after a number of keys, or when some time has passed since the last commit.
#[derive(Clone, Debug)]
pub struct CommitClock {
    every_keys: Option<NonZeroU64>,
    every: Option<Duration>,
    taken: u64,
    committed: u64,
    last: Instant,
}

impl CommitClock {
    /// A clock that starts now. `None` instead of a number of keys, or of a time, sets no such limit.
    pub fn new(every_keys: Option<NonZeroU64>, every: Option<Duration>) -> Self {
        Self { every_keys, every, taken: 0, committed: 0, last: Instant::now() }
    }

    /// Notes that `keys` more keys were taken.
    pub const fn take(&mut self, keys: u64) {
        self.taken += keys;
    }

    /// Notes that all keys taken are committed now.
    pub fn commit(&mut self) {
        self.committed = self.taken;
        self.last = Instant::now();
    }

    /// Keys taken since the start.
    pub const fn taken(&self) -> u64 {
        self.taken
    }

    /// Keys taken and committed.
    pub const fn committed(&self) -> u64 {
        self.committed
    }

    /// Keys taken and not committed yet.
    pub const fn uncommitted(&self) -> u64 {
        self.taken - self.committed
    }

    /// Keys that can be taken before their number makes a commit due; 0 if it is due.
    pub const fn keys_left(&self) -> u64 {
        match self.every_keys {
            Some(every) => every.get().saturating_sub(self.uncommitted()),
            None => u64::MAX,
        }
    }

    /// When a commit becomes due by time; `None` if there is no time limit, or no key to commit.
    pub fn deadline(&self) -> Option<Instant> {
        self.every.filter(|_| self.uncommitted() > 0).and_then(|every| self.last.checked_add(every))
    }

    /// Whether the time set has passed since the last commit, even if no key was taken since.
    pub fn has_rung(&self) -> bool {
        self.every.is_some_and(|every| self.last.elapsed() >= every)
    }

    /// Whether a commit is due: there are keys to commit, and they are enough or have waited long enough.
    pub fn is_due(&self) -> bool {
        self.uncommitted() > 0 && (self.keys_left() == 0 || self.has_rung())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_due_by_keys_and_by_time_and_never_without_keys() {
        let mut clock = CommitClock::new(NonZeroU64::new(3), Some(Duration::MAX));
        assert_eq!((clock.is_due(), clock.deadline(), clock.keys_left()), (false, None, 3));
        clock.take(2);
        assert_eq!((clock.is_due(), clock.keys_left(), clock.uncommitted()), (false, 1, 2));
        // The deadline lies beyond the range of `Instant`.
        assert_eq!(clock.deadline(), None);
        clock.take(1);
        assert!(clock.is_due());
        clock.commit();
        assert_eq!((clock.is_due(), clock.keys_left()), (false, 3));
        assert_eq!((clock.taken(), clock.committed(), clock.uncommitted()), (3, 3, 0));

        let mut clock = CommitClock::new(None, Some(Duration::ZERO));
        assert!(clock.has_rung() && !clock.is_due() && clock.deadline().is_none());
        clock.take(1);
        assert!(clock.is_due() && clock.deadline().is_some_and(|deadline| deadline <= Instant::now()));

        let mut clock = CommitClock::new(None, None);
        clock.take(u64::MAX);
        assert!(!clock.is_due() && !clock.has_rung());
    }
}
