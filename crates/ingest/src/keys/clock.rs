//! When to commit.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// An [amortized](CommitClock::amortized) clock waits this many times as long as the last commit took.
const SHARE: u32 = 10;
/// The longest that an amortized clock waits because the last commit took long.
const LONGEST: Duration = Duration::from_secs(300);

/// Says when a commit is due: after a number of keys, or when some time has passed since the last commit.
#[derive(Clone, Debug)]
pub struct CommitClock {
    every_keys: Option<NonZeroU64>,
    every: Option<Duration>,
    is_amortized: bool,
    taken: u64,
    committed: u64,
    last: Instant,
    /// How long the last commit took.
    cost: Duration,
    spent: Duration,
}

impl CommitClock {
    /// A clock that starts now. `None` instead of a number of keys, or of a time, sets no such limit.
    pub fn new(every_keys: Option<NonZeroU64>, every: Option<Duration>) -> Self {
        let (cost, spent) = (Duration::ZERO, Duration::ZERO);
        Self {
            every_keys,
            every,
            is_amortized: false,
            taken: 0,
            committed: 0,
            last: Instant::now(),
            cost,
            spent,
        }
    }

    /// The same clock, but it waits longer after a commit that took long: at least ten times as long as that commit, so
    /// that commits take at most an eleventh of the time. It never waits more than five minutes, or the time given to
    /// [`new`](Self::new) if that is longer. A commit of a large filter writes most of its pages, however few keys it
    /// has.
    pub const fn amortized(mut self) -> Self {
        self.is_amortized = true;
        self
    }

    /// Counts `keys` more keys as taken.
    pub const fn take(&mut self, keys: u64) {
        self.taken += keys;
    }

    /// Notes that all taken keys are now committed, by a commit that took this long.
    pub fn commit(&mut self, took: Duration) {
        self.committed = self.taken;
        self.last = Instant::now();
        self.cost = took;
        self.spent += took;
    }

    /// How long all commits took together.
    pub const fn spent(&self) -> Duration {
        self.spent
    }

    /// The time from one commit to the next.
    fn interval(&self) -> Option<Duration> {
        let every = self.every?;
        let amortized = self.cost.saturating_mul(SHARE).min(LONGEST);
        Some(if self.is_amortized { every.max(amortized) } else { every })
    }

    /// Keys taken since the start.
    pub const fn taken(&self) -> u64 {
        self.taken
    }

    /// Keys taken and committed.
    pub const fn committed(&self) -> u64 {
        self.committed
    }

    /// Keys taken but not committed.
    pub const fn uncommitted(&self) -> u64 {
        self.taken - self.committed
    }

    /// How many keys can still be taken before their number makes a commit due; 0 if it is due.
    pub const fn keys_left(&self) -> u64 {
        match self.every_keys {
            Some(every) => every.get().saturating_sub(self.uncommitted()),
            None => u64::MAX,
        }
    }

    /// When a commit becomes due by time; `None` without a time limit, or without a key to commit.
    pub fn deadline(&self) -> Option<Instant> {
        self.interval().filter(|_| self.uncommitted() > 0).and_then(|every| self.last.checked_add(every))
    }

    /// Whether the set time has passed since the last commit, even if no key was taken since.
    pub fn has_rung(&self) -> bool {
        self.interval().is_some_and(|every| self.last.elapsed() >= every)
    }

    /// Whether a commit is due: there are uncommitted keys, and they are enough or have waited long enough.
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
        // The deadline exceeds the range of `Instant`.
        assert_eq!(clock.deadline(), None);
        clock.take(1);
        assert!(clock.is_due());
        clock.commit(Duration::ZERO);
        assert_eq!((clock.is_due(), clock.keys_left()), (false, 3));
        assert_eq!((clock.taken(), clock.committed(), clock.uncommitted()), (3, 3, 0));

        let mut clock = CommitClock::new(None, Some(Duration::ZERO));
        assert!(clock.has_rung() && !clock.is_due() && clock.deadline().is_none());
        clock.take(1);
        assert!(clock.is_due() && clock.deadline().is_some_and(|deadline| deadline <= Instant::now()));

        let mut clock = CommitClock::new(None, None).amortized();
        clock.take(u64::MAX);
        assert!(!clock.is_due() && !clock.has_rung());
    }

    #[test]
    fn an_amortized_clock_waits_ten_times_what_the_last_commit_took() {
        const SECOND: Duration = Duration::from_secs(1);
        let clock = CommitClock::new(None, Some(10 * SECOND));
        for (took, exact, amortized) in [(0, 10, 10), (1, 10, 10), (4, 10, 40), (29, 10, 290), (31, 10, 300)]
        {
            let mut clock = [clock.clone(), clock.clone().amortized()];
            clock.iter_mut().for_each(|clock| clock.commit(took * SECOND));
            assert_eq!(clock.map(|clock| clock.interval()), [Some(exact * SECOND), Some(amortized * SECOND)]);
        }
        // The bound never shortens the requested time.
        let mut rare = CommitClock::new(None, Some(900 * SECOND)).amortized();
        rare.commit(60 * SECOND);
        rare.commit(31 * SECOND);
        assert_eq!((rare.interval(), rare.spent()), (Some(900 * SECOND), 91 * SECOND));
        // A commit that took long delays the next one.
        let mut clock = CommitClock::new(None, Some(Duration::ZERO)).amortized();
        clock.commit(3600 * SECOND);
        clock.take(1);
        assert!(!clock.is_due() && clock.deadline().is_some_and(|deadline| deadline > Instant::now()));
    }
}
