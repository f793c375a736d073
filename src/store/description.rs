//! `store.toml`: the description of a store, written once, when it is created (`format-spec/STORE.md`, section 4).

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::{Error, Result};
use super::text::{self, from_hex, hex};
use super::vacuum::Vacuum;
use crate::cuckoo::{AnyWidth, EpochClock, FIRST_EPOCH, Forgetting, KeyHasher, Seed};
use crate::{Growth, HashKind, Info, KeyHash, KeyRules, Kind, Options, Retention, SlotsPerBucket};

/// The most shards that a store may have.
pub(super) const MAX_SHARDS: u32 = 65_536;
/// The shortest grace of vacuums by commits, in milliseconds. Without grace, each would void the updates in progress.
const LEAST_GRACE: u64 = 1000;
/// The highest number in a text.
const MAX_NUMBER: u64 = i64::MAX as u64;

/// The properties of a store, fixed when it is created.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct Description {
    /// A random number that identifies the store.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::info::text::uuid"))]
    pub uuid: [u8; 16],
    /// How many shards divide all keys: 1 to 65536.
    pub shards: u32,
    /// The kind of all shards.
    pub kind: Kind,
    /// How the tool and jobs change a key before they hash it.
    pub key_rules: KeyRules,
    /// Who hashes the keys.
    pub hash: HashKind,
    /// The seed of the hash, in all shards. Secret if others choose the keys.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub seed: Seed,
    /// Slots in each bucket, in all shards.
    pub slots_per_bucket: SlotsPerBucket,
    /// When the store forgets a key; `None` if it does not forget.
    pub retention: Option<Retention>,
    /// How many bits of a slot say when its entry expires; 0 unless the store forgets.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(super) expiry_bits: u32,
    /// The false-positive rate requested at creation; `None` if slots per bucket were given instead.
    pub requested_false_positive_rate: Option<f64>,
    /// The number of keys requested at creation, in all shards together.
    pub capacity: u64,
    /// Whether shards double themselves.
    pub growth: Growth,
    /// The most bytes that the file of a shard may have; `None` for no limit.
    pub max_file_size: Option<u64>,
    /// The highest expected rate that a doubled shard may have once it is full again; `None` for no limit.
    pub max_false_positive_rate: Option<f64>,
    /// Whether the store was made by dividing a filter: see [`Store::create_from`](super::Store::create_from).
    pub divided: bool,
    /// The limits for vacuums by commits; `None` if commits do not vacuum.
    pub auto_vacuum: Option<Vacuum>,
}

/// The fields as read from the file, unchecked.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDescription {
    uuid: String,
    shards: u32,
    kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    keys: String,
    hash: String,
    seed: String,
    slots: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    forget_after: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expiry_bits: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<f64>,
    capacity: u64,
    growth: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_file_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    divided: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vacuum_keep: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vacuum_grace: Option<u64>,
}

impl Description {
    /// A new store of `shards` shards, which together hold as many keys as one filter of these options would.
    pub(super) fn design(path: &Path, shards: u32, options: &Options) -> Result<Self> {
        if shards == 0 || shards > MAX_SHARDS {
            let (found, expected) = (shards.to_string(), "from 1 to 65536");
            return Err(crate::Error::Option { option: "number of shards", found, expected }.into());
        }
        let (identity, policy) = options.design(path)?;
        identity.keeps_no_newest(path, "a store")?;
        let description = Self {
            uuid: identity.uuid,
            shards,
            kind: identity.kind,
            key_rules: options.new_key_rules(),
            hash: identity.hasher.kind,
            seed: Seed::new(identity.hasher.seed),
            slots_per_bucket: identity.geometry.slots(),
            retention: identity.forgetting.and_then(Forgetting::retention),
            expiry_bits: identity.geometry.width.expiry_bits(),
            requested_false_positive_rate: (policy.requested_rate != 0.0).then_some(policy.requested_rate),
            capacity: policy.capacity,
            growth: policy.growth,
            max_file_size: (policy.max_file_size != 0).then_some(policy.max_file_size),
            max_false_positive_rate: (policy.max_rate != 0.0).then_some(policy.max_rate),
            divided: false,
            auto_vacuum: auto_vacuum(options)?,
        };
        // Fails here if the options of a shard are wrong.
        description.check_shards(path)?;
        Ok(description)
    }

    pub(super) fn encode(&self, path: &Path) -> Result<String> {
        let raw = RawDescription {
            uuid: hex(&self.uuid),
            shards: self.shards,
            kind: self.kind.name().to_owned(),
            keys: self.key_rules.encode(),
            hash: hash_name(self.hash).to_owned(),
            seed: self.seed.get().to_string(),
            slots: self.slots_per_bucket.get(),
            forget_after: self.retention.map(|retention| retention.forget_after),
            epoch_length: self.retention.map(|retention| retention.forget_within),
            expiry_bits: self.retention.map(|_| self.expiry_bits),
            refresh: self.retention.map(|retention| retention.refresh),
            rate: self.requested_false_positive_rate,
            capacity: self.capacity,
            growth: growth_name(self.growth).to_owned(),
            max_file_size: self.max_file_size,
            max_rate: self.max_false_positive_rate,
            divided: self.divided.then_some(true),
            vacuum_keep: self.auto_vacuum.map(|vacuum| vacuum.keep),
            vacuum_grace: self.auto_vacuum.map(|vacuum| vacuum.grace.as_millis() as u64),
        };
        text::encode(path, &raw)
    }

    pub(super) fn decode(path: &Path, bytes: &[u8]) -> Result<Self> {
        text::decode::<RawDescription>(path, bytes, 4 * text::TOKENS_OF_TABLE)?.check(path)
    }

    /// The options for creating the first file of a shard.
    pub(super) fn options(&self, shard: u32) -> Options {
        let capacity = self.capacity.div_ceil(u64::from(self.shards)).max(1);
        let options =
            Options::new().capacity(capacity).seed(self.seed.get()).hash(self.hash).growth(self.growth);
        let options =
            options.kind(self.kind).key_rules(self.key_rules).shard(shard.into(), self.shards.into());
        let options = match self.requested_false_positive_rate {
            Some(rate) => options.false_positive_rate(rate),
            None => options.slots_per_bucket(self.slots_per_bucket),
        };
        let options = self.retention.into_iter().fold(options, |options, retention| {
            let [after, within] =
                [retention.forget_after, retention.forget_within].map(Duration::from_millis);
            options.forget_after(after).forget_within(within).refresh(retention.refresh)
        });
        let options = self.max_file_size.into_iter().fold(options, Options::max_file_size);
        self.max_false_positive_rate.into_iter().fold(options, Options::max_false_positive_rate)
    }

    /// How the shards forget, if they do.
    pub(super) fn forgetting(&self) -> Option<Forgetting> {
        self.retention.map(|Retention { forget_after: after, forget_within: epoch, refresh }| Forgetting {
            after,
            epoch,
            refresh,
            clock: EpochClock::Time,
        })
    }

    /// The epoch of an empty store; 0 unless it forgets.
    pub(super) const fn first_epoch(&self) -> u64 {
        if self.retention.is_some() { FIRST_EPOCH } else { 0 }
    }

    /// The epoch of a filter of this store; 0 unless it forgets.
    pub(super) fn epoch_of(&self, info: &Info) -> u64 {
        let Some(Retention { forget_within, .. }) = self.retention else { return 0 };
        info.time.map_or(FIRST_EPOCH, |time| time / forget_within.max(1))
    }

    /// Fails if a shard could not be created when its first key comes, or if it would differ from this description.
    fn check_shards(&self, path: &Path) -> Result<()> {
        let (identity, _) = self.options(0).design(path)?;
        let width = (identity.geometry.slots(), identity.geometry.width.expiry_bits());
        if width == (self.slots_per_bucket, self.expiry_bits) && identity.forgetting == self.forgetting() {
            return Ok(());
        }
        let found = format!("{} slots, {} expiry bits, {:?}", width.0.get(), width.1, identity.forgetting);
        Err(crate::Error::Option { option: "slots", found, expected: "those that the other fields give" }
            .into())
    }

    pub(super) const fn hasher(&self) -> KeyHasher {
        KeyHasher::new(self.hash, self.seed.get())
    }

    /// The shard that a key belongs to.
    pub const fn shard_of(&self, hash: KeyHash) -> u32 {
        hash.shard(self.shards as u64) as u32
    }
}

/// The limits for vacuums by commits.
fn auto_vacuum(options: &Options) -> Result<Option<Vacuum>> {
    let Some((keep, grace)) = options.auto_vacuum else { return Ok(None) };
    let wrong = |found, expected| crate::Error::Option { option: "auto_vacuum", found, expected };
    if !(1..=MAX_NUMBER).contains(&keep) {
        return Err(wrong(format!("keeping {keep} versions"), "at least 1").into());
    }
    match u64::try_from(grace.as_millis()) {
        Ok(millis @ LEAST_GRACE..=MAX_NUMBER) => {
            Ok(Some(Vacuum::default().keep(keep).grace(Duration::from_millis(millis))))
        }
        _ => Err(wrong(format!("a grace of {grace:?}"), "at least a second").into()),
    }
}

const fn hash_name(hash: HashKind) -> &'static str {
    match hash {
        HashKind::Xxh3 => "xxh3",
        HashKind::Caller => "caller",
    }
}

const fn growth_name(growth: Growth) -> &'static str {
    match growth {
        Growth::Auto => "auto",
        Growth::Never => "never",
    }
}

impl RawDescription {
    fn check(self, path: &Path) -> Result<Description> {
        let field = |field, found: String, expected: &str| Error::Field {
            path: path.to_owned(),
            field,
            found,
            expected: expected.to_owned(),
        };
        let rate_is_right = |rate: Option<f64>| rate.is_none_or(|rate| rate > 0.0 && rate < 1.0);
        let uuid = from_hex(&self.uuid)
            .ok_or_else(|| field("uuid", self.uuid.clone(), "32 hexadecimal digits in lower case"))?;
        if self.shards == 0 || self.shards > MAX_SHARDS {
            return Err(field("shards", self.shards.to_string(), "1 to 65536"));
        }
        let kind = Kind::from_name(&self.kind)
            .ok_or_else(|| field("kind", self.kind.clone(), "`set`, `counting` or `forgetting`"))?;
        let key_rules = KeyRules::decode(self.keys.as_bytes())
            .ok_or_else(|| field("keys", self.keys.clone(), "rules that this gowk knows"))?;
        let hash = [HashKind::Xxh3, HashKind::Caller].into_iter().find(|hash| hash_name(*hash) == self.hash);
        let hash = hash.ok_or_else(|| field("hash", self.hash.clone(), "`xxh3` or `caller`"))?;
        let seed = self.seed.parse::<u64>().ok().filter(|seed| seed.to_string() == self.seed);
        // No message shows a seed, not even a wrong one.
        let seed =
            seed.ok_or_else(|| field("seed", "something else".to_owned(), "a number from 0 to 2^64 - 1"))?;
        let slots = SlotsPerBucket::new(self.slots)
            .ok_or_else(|| field("slots", self.slots.to_string(), "2 to 7"))?;
        let fits = |rate| {
            rate > 0.0
                && rate < 1.0
                && (kind == Kind::Forgetting || SlotsPerBucket::for_rate_of(rate, kind) == Some(slots))
        };
        if let Some(rate) = self.rate.filter(|rate| !fits(*rate)) {
            return Err(field("rate", rate.to_string(), "one that the slots are right for"));
        }
        let (retention, expiry_bits) = self.check_forgetting(kind, slots, &field)?;
        if self.capacity == 0 {
            return Err(field("capacity", "0".to_owned(), "at least 1"));
        }
        let growth =
            [Growth::Auto, Growth::Never].into_iter().find(|growth| growth_name(*growth) == self.growth);
        let growth = growth.ok_or_else(|| field("growth", self.growth.clone(), "`auto` or `never`"))?;
        if self.max_file_size == Some(0) {
            return Err(field("max_file_size", "0".to_owned(), "at least 1"));
        }
        if let Some(rate) = self.max_rate.filter(|rate| !rate_is_right(Some(*rate))) {
            return Err(field("max_rate", rate.to_string(), "above 0 and below 1"));
        }
        if self.divided == Some(false) {
            return Err(field("divided", "false".to_owned(), "true, or absent"));
        }
        let auto_vacuum = match (self.vacuum_keep, self.vacuum_grace) {
            (None, None) => None,
            (Some(keep @ 1..=MAX_NUMBER), Some(grace @ LEAST_GRACE..=MAX_NUMBER)) => {
                Some(Vacuum::default().keep(keep).grace(Duration::from_millis(grace)))
            }
            found => {
                let expected = "with `vacuum_grace`, from 1 and from 1000 on";
                return Err(field("vacuum_keep", format!("{found:?}"), expected));
            }
        };
        let description = Description {
            uuid,
            shards: self.shards,
            kind,
            key_rules,
            hash,
            seed: Seed::new(seed),
            slots_per_bucket: slots,
            retention,
            expiry_bits,
            requested_false_positive_rate: self.rate,
            capacity: self.capacity,
            growth,
            max_file_size: self.max_file_size,
            max_false_positive_rate: self.max_rate,
            divided: self.divided.is_some(),
            auto_vacuum,
        };
        match description.check_shards(path) {
            Ok(()) => Ok(description),
            Err(Error::Filter(crate::Error::Option { option, found, .. })) => {
                Err(field(option, found, "one that a filter can have"))
            }
            Err(error) => Err(error),
        }
    }

    /// The fields of forgetting: a forgetting store has all of them, and other stores have none.
    fn check_forgetting(
        &self,
        kind: Kind,
        slots: SlotsPerBucket,
        field: &dyn Fn(&'static str, String, &str) -> Error,
    ) -> Result<(Option<Retention>, u32)> {
        let fields = (self.forget_after, self.epoch_length, self.expiry_bits, self.refresh);
        match (kind, fields) {
            (Kind::Set | Kind::Counting, (None, None, None, None)) => Ok((None, 0)),
            (Kind::Forgetting, (Some(after), Some(epoch), Some(bits), Some(refresh))) => {
                let width = AnyWidth::forgetting(slots, bits).ok_or_else(|| {
                    field("expiry_bits", bits.to_string(), "those of a filter of these slots")
                })?;
                let forgetting = Forgetting { after, epoch, refresh, clock: EpochClock::Time };
                if !forgetting.fits(width) {
                    let expected = "from 1 on, and no more than the whole epochs that an entry lives";
                    return Err(field("forget_after", after.to_string(), expected));
                }
                Ok((forgetting.retention(), bits))
            }
            _ => Err(field("kind", self.kind.clone(), "`forgetting` with its four fields, or without any")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path() -> &'static Path {
        Path::new("/tmp/store.toml")
    }

    #[test]
    fn what_was_designed_is_read_back() {
        for options in [
            Options::new().capacity(1000).false_positive_rate(1e-6).max_file_size(1 << 40),
            Options::new().capacity(1000).auto_vacuum(10, Duration::from_millis(1500)),
            Options::new().slots_per_bucket(SlotsPerBucket::Seven).seed(u64::MAX).growth(Growth::Never),
            Options::new().counting().hash(HashKind::Caller).max_false_positive_rate(0.5),
            Options::new().forget_after(Duration::from_secs(30 * 86_400)),
            Options::new().forget_after(Duration::from_millis(5)).refresh(true).false_positive_rate(1e-7),
            Options::new()
                .forget_after(Duration::from_secs(7))
                .forget_within(Duration::from_secs(2))
                .slots_per_bucket(SlotsPerBucket::Four),
        ] {
            for shards in [1, 3, 65_536] {
                let description = Description::design(path(), shards, &options).unwrap();
                for divided in [false, true] {
                    let description = Description { divided, ..description };
                    let text = description.encode(path()).unwrap();
                    assert_eq!(Description::decode(path(), text.as_bytes()).unwrap(), description);
                }
            }
        }
        for shards in [0, 65_537] {
            assert!(Description::design(path(), shards, &Options::new()).is_err());
        }
        for (keep, grace) in [(0, 1000), (u64::MAX, 1000), (1, 999), (1, u64::MAX)] {
            let options = Options::new().auto_vacuum(keep, Duration::from_millis(grace));
            assert!(Description::design(path(), 1, &options).is_err(), "{keep} {grace}");
        }
    }

    #[test]
    fn values_that_are_not_allowed_are_refused_by_name() {
        let raw = || RawDescription {
            uuid: hex(&[7; 16]),
            shards: 4,
            kind: "set".to_owned(),
            keys: String::new(),
            hash: "xxh3".to_owned(),
            seed: "1".to_owned(),
            slots: 4,
            forget_after: None,
            epoch_length: None,
            expiry_bits: None,
            refresh: None,
            rate: Some(0.001),
            capacity: 1000,
            growth: "auto".to_owned(),
            max_file_size: None,
            max_rate: None,
            divided: None,
            vacuum_keep: None,
            vacuum_grace: None,
        };
        assert!(raw().check(path()).is_ok());
        type Change = fn(&mut RawDescription);
        let wrong: [(&str, Change); 22] = [
            ("kind", |raw| raw.kind = "forgetting".to_owned()),
            ("kind", |raw| raw.refresh = Some(false)),
            ("keys", |raw| raw.keys = "upper".to_owned()),
            ("kind", |raw| raw.kind = "bag".to_owned()),
            ("uuid", |raw| raw.uuid.push('0')),
            ("shards", |raw| raw.shards = 0),
            ("shards", |raw| raw.shards = 65_537),
            ("hash", |raw| raw.hash.clear()),
            ("seed", |raw| raw.seed = "+1".to_owned()),
            ("slots", |raw| raw.slots = 8),
            ("rate", |raw| raw.rate = Some(f64::NAN)),
            ("rate", |raw| raw.rate = Some(0.5)),
            ("max_rate", |raw| raw.max_rate = Some(0.0)),
            ("max_rate", |raw| raw.max_rate = Some(-0.1)),
            ("capacity", |raw| raw.capacity = 0),
            ("growth", |raw| raw.growth = "AUTO".to_owned()),
            ("max_file_size", |raw| raw.max_file_size = Some(0)),
            ("max_rate", |raw| raw.max_rate = Some(1.0)),
            ("divided", |raw| raw.divided = Some(false)),
            ("vacuum_keep", |raw| raw.vacuum_keep = Some(1)),
            ("vacuum_keep", |raw| (raw.vacuum_keep, raw.vacuum_grace) = (Some(0), Some(1000))),
            ("vacuum_keep", |raw| (raw.vacuum_keep, raw.vacuum_grace) = (Some(1), Some(999))),
        ];
        for (name, change) in wrong {
            let mut raw = raw();
            change(&mut raw);
            match raw.check(path()) {
                Err(Error::Field { field, .. }) => assert_eq!(field, name),
                outcome => panic!("{name}: {outcome:?}"),
            }
        }
        let raw = RawDescription { capacity: u64::MAX, ..raw() };
        assert!(matches!(raw.check(path()), Err(Error::Field { field: "capacity", .. })));
    }

    /// The slots of a forgetting filter depend on more than its rate, so any rate above 0 and below 1 is accepted.
    #[test]
    fn a_forgetting_store_has_a_rate_and_the_expiry_bits_that_its_filters_would_get() {
        let options = Options::new().forget_after(Duration::from_secs(3600)).capacity(1000);
        let description = Description::design(path(), 4, &options).unwrap();
        let encoded = description.encode(path()).unwrap();
        let with_rate = |rate| {
            let raw = text::decode::<RawDescription>(path(), encoded.as_bytes(), 320).unwrap();
            RawDescription { rate: Some(rate), ..raw }.check(path())
        };
        with_rate(0.25).unwrap();
        for rate in [0.0, 1.0, -0.5] {
            let outcome = with_rate(rate);
            assert!(matches!(outcome, Err(Error::Field { field: "rate", .. })), "{rate}: {outcome:?}");
        }
        assert!(description.check_shards(path()).is_ok());
        let more_bits = Description { expiry_bits: description.expiry_bits + 1, ..description };
        let mut slots = [SlotsPerBucket::Two, SlotsPerBucket::Seven].into_iter();
        let slots = slots.find(|slots| *slots != description.slots_per_bucket).unwrap();
        let other_slots = Description { slots_per_bucket: slots, ..description };
        for wrong in [more_bits, other_slots] {
            assert!(wrong.check_shards(path()).is_err(), "{wrong:?}");
        }
    }
}
