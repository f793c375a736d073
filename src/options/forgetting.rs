//! How a filter forgets: the options for it, checked (`format-spec/README.md`, section 4.10).

use std::path::Path;
use std::time::Duration;

use super::{DEFAULT_CAPACITY, Options};
use crate::cuckoo::{AnyWidth, EpochClock, Forgetting, Kind};
use crate::error::{Error, Result};

/// The most keys for [`Options::keep_newest`]: more than fit into 2^32 regions.
const MOST_NEWEST: u64 = 1 << 50;

impl Options {
    pub(super) const fn is_to_forget(&self) -> bool {
        self.forget_after.is_some() || self.keep_newest.is_some()
    }

    /// The first width of forgetting filters with this rate and the requested slots and granularity. For the newest keys,
    /// the width that takes the least room.
    pub(super) fn forgetting_width(&self, rate: f64) -> Result<AnyWidth> {
        let mut fitting = AnyWidth::FORGETTING.to_vec();
        fitting.retain(|width| self.slots.is_none_or(|slots| slots == width.slots()));
        let refused = |option, found, expected| Err(Error::Option { option, found, expected });
        if let (Some(slots), []) = (self.slots, fitting.as_slice()) {
            let found = slots.get().to_string();
            return refused("slots per bucket", found, "2 to 4 in a filter that forgets");
        }
        fitting.retain(|width| width.false_positive_rate() <= rate);
        if fitting.is_empty() {
            let expected =
                "at least 1.5e-8, the narrowest reachable of a filter that forgets (2 slots per bucket)";
            return refused("false-positive rate", rate.to_string(), expected);
        }
        if let (Some(after), Some(within)) = (self.forget_after.map(millis), self.forget_within.map(millis)) {
            fitting.retain(|width| Forgetting::epoch_for(after, *width) <= within);
        }
        let best = match self.keep_newest {
            Some(keys) => {
                let room = |width: &AnyWidth| {
                    let most = of_newest(keys, *width).newest().map_or(0, |newest| newest.at_most);
                    most as f64 / f64::from(width.slots().get())
                };
                fitting.into_iter().min_by(|a, b| room(a).total_cmp(&room(b)))
            }
            None => fitting.first().copied(),
        };
        match best {
            Some(width) => Ok(width),
            None => refused(
                "forget within",
                format!("{} s", self.forget_within.unwrap_or_default().as_secs_f64()),
                "at least a 14th of the time that keys are kept, or a 6th with 4 slots per bucket",
            ),
        }
    }

    /// How a new filter of this width forgets; `None` if it does not forget.
    pub(super) fn forgetting(&self, width: AnyWidth) -> Result<Option<Forgetting>> {
        let wrong =
            |option, found| Error::Option { option, found, expected: "given with `forget_after` alone" };
        if let Some(keys) = self.keep_newest {
            return self.newest(keys, width).map(Some);
        }
        let Some(after) = self.forget_after.map(millis) else {
            return match (self.kind, self.forget_within, self.refresh) {
                (Some(Kind::Forgetting), ..) => Err(wrong("kind", "forgetting".to_owned())),
                (_, Some(within), _) => Err(wrong("forget within", format!("{within:?}"))),
                (.., Some(true)) => Err(wrong("refresh", "true".to_owned())),
                _ => Ok(None),
            };
        };
        if self.kind != Some(Kind::Forgetting) {
            return Err(wrong("forget after", format!("given for a {}", self.kind.unwrap_or_default())));
        }
        let epoch = Forgetting::epoch_for(after, width);
        let refresh = self.refresh.unwrap_or_default();
        let forgetting = Forgetting { after, epoch, refresh, clock: EpochClock::Time };
        if !forgetting.fits(width) {
            let expected = "at least 1 ms, and at most 2^53 ms";
            return Err(Error::Option { option: "forget after", found: format!("{after} ms"), expected });
        }
        Ok(Some(forgetting))
    }

    /// How a new filter of this width keeps the newest keys.
    fn newest(&self, keys: u64, width: AnyWidth) -> Result<Forgetting> {
        let refused = |option, found: String, expected| Err(Error::Option { option, found, expected });
        if self.kind != Some(Kind::Forgetting) {
            let found = format!("given for a {}", self.kind.unwrap_or_default());
            return refused("keep newest", found, "given for a filter that forgets");
        }
        if let Some(time) = self.forget_after.or(self.forget_within) {
            let found = format!("{time:?}, given beside the newest keys to keep");
            return refused(
                "forget after",
                found,
                "given alone: keys are kept for a time, or the newest are",
            );
        }
        if self.refresh == Some(true) {
            return refused("refresh", "true".to_owned(), "given with `forget_after` alone");
        }
        if self.regions.is_none()
            && let Some(capacity) = self.capacity
        {
            let found = format!("{capacity}, given beside the newest keys to keep");
            return refused("capacity", found, "left out: it follows from the newest keys");
        }
        if !(1..=MOST_NEWEST).contains(&keys) {
            return refused("keep newest", format!("{keys} keys"), "at least 1 key, and at most 2^50");
        }
        Ok(of_newest(keys, width))
    }

    /// How many distinct keys a new filter of this width must hold.
    pub(super) fn keys_to_hold(&self, width: AnyWidth) -> Result<u64> {
        let newest = self.forgetting(width)?.and_then(Forgetting::newest);
        let given = self.capacity.unwrap_or(DEFAULT_CAPACITY);
        // A filter that is made like another one keeps the other's number.
        Ok(newest.filter(|_| self.regions.is_none()).map_or(given, |newest| newest.at_most))
    }

    /// [`Error::Retention`] if an existing filter or store forgets differently than these options ask for.
    pub(crate) fn check_forgetting(&self, path: &Path, found: Forgetting) -> Result<()> {
        let Forgetting { after, epoch, refresh, clock } = found;
        if self.keep_newest.is_some() || clock == EpochClock::Keys {
            let fits = clock == EpochClock::Keys
                && self.keep_newest.is_none_or(|asked| asked == after)
                && self.forget_after.or(self.forget_within).is_none()
                && self.refresh != Some(true);
            return if fits { Ok(()) } else { Err(self.wrong_newest(path, found)) };
        }
        let fits = self.forget_after.is_none_or(|asked| millis(asked) == after)
            && self.forget_within.is_none_or(|asked| epoch <= millis(asked))
            && self.refresh.is_none_or(|asked| asked == refresh);
        if fits {
            return Ok(());
        }
        let tell = |after: Option<Duration>, within: Option<Duration>, refresh: bool| {
            let time = |time: Option<Duration>| {
                time.map_or_else(|| "any time".to_owned(), |time| format!("{time:?}"))
            };
            let since = if refresh { "last" } else { "first" };
            format!("forgets keys {} after they were {since} seen, within {} more", time(after), time(within))
        };
        let duration = |millis| Some(Duration::from_millis(millis));
        Err(Error::Retention {
            path: path.to_owned(),
            found: tell(duration(after), duration(epoch), refresh),
            wanted: tell(self.forget_after, self.forget_within, self.refresh.unwrap_or(refresh)),
        })
    }

    #[cold]
    fn wrong_newest(&self, path: &Path, found: Forgetting) -> Error {
        let found = match (found.newest(), found.retention()) {
            (Some(newest), _) => newest.to_string(),
            (None, time) => time.map_or_else(String::new, |time| time.to_string()),
        };
        let wanted = match self.keep_newest {
            Some(keys) => format!("the newest {keys}"),
            None => "each key for a time".to_owned(),
        };
        Error::Retention { path: path.to_owned(), found, wanted }
    }
}

/// How a filter of this width keeps the newest `keys` keys.
fn of_newest(keys: u64, width: AnyWidth) -> Forgetting {
    Forgetting {
        after: keys,
        epoch: Forgetting::epoch_for(keys, width).max(1),
        refresh: false,
        clock: EpochClock::Keys,
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
