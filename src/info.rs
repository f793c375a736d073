//! A filter's description of itself: shape, contents and expectations.

use std::fmt;

use crate::cuckoo::{
    Counts, EpochClock, FIRST_EPOCH, Forgetting, HashKind, KeyRules, Kind, Newest, Retention, Seed,
    SlotsPerBucket,
};
use crate::format::{Geometry, Growth, Identity, Policy};

/// How many doublings [`Info::forecast`] lists at most.
const FORECAST: usize = 8;

/// A filter's shape, contents and expectations, as of its last commit. [`Writer::info`](crate::Writer::info) includes the
/// open transaction.
///
/// `Display` writes the most important fields on one line. With the feature `serde` it is `Serialize`, under the names of
/// its fields. Format, uuid, kind, key rules, hash and growth are text, such as `"1.0"`, `"xxh3-128"` and `"auto"`; the
/// seed is omitted.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Info {
    /// Major and minor version of the file's format.
    #[cfg_attr(feature = "serde", serde(serialize_with = "text::format"))]
    pub format: (u16, u16),
    /// A random number from the filter's creation, which identifies it.
    #[cfg_attr(feature = "serde", serde(serialize_with = "text::uuid"))]
    pub uuid: [u8; 16],
    /// The filter's kind.
    pub kind: Kind,
    /// How the tool and jobs change a key before they hash it; `None` if this build does not know these rules.
    pub key_rules: Option<KeyRules>,
    /// Who hashes the keys.
    pub hash: HashKind,
    /// The seed of the hash. Secret if others choose the keys.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub seed: Seed,
    /// Slots in each bucket.
    pub slots_per_bucket: SlotsPerBucket,
    /// Regions when the filter was created.
    pub base_regions: u64,
    /// How often the filter has doubled since.
    pub generation: u32,
    /// Regions now; each has 8192 buckets.
    pub regions: u64,
    /// How many shards divide all keys; 1 for a filter that takes every key.
    pub shards: u64,
    /// The number of the shard that the filter holds, from 0.
    pub shard: u64,
    /// The number of keys requested at creation.
    pub capacity: u64,
    /// The false-positive rate requested at creation; `None` if slots per bucket were given instead.
    pub requested_false_positive_rate: Option<f64>,
    /// Whether the filter doubles itself.
    pub growth: Growth,
    /// The most bytes that the file may have; `None` for no limit.
    pub max_file_size: Option<u64>,
    /// The highest expected rate that a doubled filter may have once it is full again; `None` for no limit.
    pub max_false_positive_rate: Option<f64>,
    /// When the filter forgets keys; `None` if it never does, or if it keeps a number of newest keys.
    pub retention: Option<Retention>,
    /// How many of the newest keys the filter keeps, if it was created so.
    pub keep_newest: Option<Newest>,
    /// The time of a forgetting filter: the beginning of its epoch, in milliseconds since 1970. `None` before its first
    /// key, and for other kinds.
    pub time: Option<u64>,
    /// Slots of all buckets.
    pub slots: u64,
    /// Slots that hold an entry: one for each distinct key, or more.
    pub entries: u64,
    /// Slots that hold a digit, which counts copies of an entry.
    pub digits: u64,
    /// Entries whose copies have reached the highest count. No removal changes them.
    pub saturated: u64,
    /// Copies of all keys: inserted minus removed. In a set, the stored keys. In a forgetting filter, without keys whose
    /// entries were swept. A saturated entry counts as the highest count.
    pub copies: u64,
    /// Copies ever inserted, except of keys whose entry was already saturated.
    pub inserted: u64,
    /// Copies removed, except of keys whose entry was saturated. In a forgetting filter, the expired entries that were
    /// swept.
    pub removed: u64,
    /// Entries by the bits of their tail: element t counts entries with t bits. A new entry has the most bits, and loses
    /// one with each doubling.
    pub entries_by_tail: Vec<u64>,
    /// Buckets that repair has filled with universal slots, which match everything.
    pub quarantined_buckets: u64,
    /// Slots in use, by entries, digits and quarantine, divided by all slots: 0 to 1.
    pub load: f64,
    /// Bits of the file per entry; `None` without entries.
    pub bits_per_key: Option<f64>,
    /// The chance that a key never inserted is found now. It follows from the entries by length of tail and the
    /// quarantined buckets (`format-spec/README.md`, section 4.9).
    pub expected_false_positive_rate: f64,
    /// The filter after each of its next doublings, up to eight. The list ends earlier if the format, a limit or the
    /// share of void entries forbids another doubling.
    pub forecast: Vec<Forecast>,
    /// The filter after [`Writer::shrink`](crate::Writer::shrink). `None` if it has never doubled, or if more slots are
    /// in use than it would have. At a high load, shrinking may still find no room.
    pub shrunk: Option<Forecast>,
    /// The number of the last commit.
    pub commit: u64,
    /// How many bytes the file has.
    pub file_length: u64,
    /// How many bytes of commits the journal has; the next checkpoint empties it.
    pub journal_length: u64,
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { copies, entries, load, generation, file_length, commit, .. } = self;
        let (slots, rate) = (self.slots_per_bucket.get(), self.expected_false_positive_rate);
        write!(
            f,
            "{copies} copies of keys in {entries} entries, load {load:.3}, {slots} slots per bucket, "
        )?;
        write!(
            f,
            "false-positive rate {rate:.2e}, generation {generation}, {file_length} bytes, commit {commit}"
        )
    }
}

/// The text forms of fields that are not plain numbers.
#[cfg(feature = "serde")]
pub(crate) mod text {
    use serde::Serializer;

    pub(super) fn format<S: Serializer>((major, minor): &(u16, u16), to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{major}.{minor}"))
    }

    /// Hexadecimal digits in groups of 8, 4, 4, 4 and 12, as RFC 9562 writes them.
    pub(crate) fn uuid<S: Serializer>(uuid: &[u8; 16], to: S) -> Result<S::Ok, S::Error> {
        let number = u128::from_be_bytes(*uuid);
        let group = |from: u32, digits: u32| number >> (4 * (32 - from - digits)) & ((1 << (4 * digits)) - 1);
        let [a, b, c, d, e] = [group(0, 8), group(8, 4), group(12, 4), group(16, 4), group(20, 12)];
        to.collect_str(&format_args!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}"))
    }
}

/// A filter in the future: after one of its next doublings, once it is full again; or after a halving, with its present
/// entries.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Forecast {
    /// The generation it would have.
    pub generation: u32,
    /// Entries it would hold.
    pub entries: u64,
    /// The expected false-positive rate then.
    pub expected_false_positive_rate: f64,
    /// Bits of the file per entry then.
    pub bits_per_key: f64,
    /// Entries with no tail left; a doubling copies them to both sides.
    pub void_entries: u64,
    /// The file's length then, in bytes.
    pub file_length: u64,
}

/// The values from which an [`Info`] is computed.
pub(crate) struct Facts {
    pub(crate) identity: Identity,
    pub(crate) policy: Policy,
    pub(crate) counts: Counts,
    pub(crate) commit: u64,
    pub(crate) journal_length: u64,
    pub(crate) key_rules: Option<KeyRules>,
}

fn limit<T: PartialEq + Default>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

impl From<Facts> for Info {
    fn from(facts: Facts) -> Self {
        let Facts { identity, policy, counts, commit, journal_length, key_rules } = facts;
        let geometry = identity.geometry;
        let width = geometry.slots();
        let slots = geometry.slots_in_all();
        let tails = geometry.width.fresh_tail_bits() as usize + 1;
        Self {
            format: crate::format::VERSION,
            uuid: identity.uuid,
            kind: identity.kind,
            key_rules,
            hash: identity.hasher.kind,
            seed: Seed::new(identity.hasher.seed),
            slots_per_bucket: width,
            base_regions: geometry.base_regions,
            generation: geometry.generation,
            regions: geometry.regions(),
            shards: geometry.shard.of,
            shard: geometry.shard.number,
            capacity: policy.capacity,
            requested_false_positive_rate: limit(policy.requested_rate),
            growth: policy.growth,
            max_file_size: limit(policy.max_file_size),
            max_false_positive_rate: limit(policy.max_rate),
            retention: identity.forgetting.and_then(Forgetting::retention),
            keep_newest: identity.forgetting.and_then(Forgetting::newest),
            time: identity
                .forgetting
                .filter(|of| of.clock == EpochClock::Time && counts.epoch > FIRST_EPOCH)
                .map(|of| counts.epoch * of.epoch),
            slots,
            entries: counts.entries(),
            digits: counts.digits,
            saturated: counts.saturated,
            copies: counts.copies(),
            inserted: counts.inserted,
            removed: counts.removed,
            entries_by_tail: counts.by_tail.iter().take(tails).copied().collect(),
            quarantined_buckets: counts.universal / u64::from(width.get()),
            load: counts.used() as f64 / slots as f64,
            bits_per_key: bits_per_key(geometry, &counts),
            expected_false_positive_rate: counts.expected_false_positive_rate(width, slots),
            forecast: forecast(geometry, policy, counts),
            shrunk: shrunk(geometry, &counts),
            commit,
            file_length: geometry.file_length(),
            journal_length,
        }
    }
}

fn bits_per_key(geometry: Geometry, counts: &Counts) -> Option<f64> {
    let entries = counts.entries();
    (entries != 0).then(|| geometry.file_length() as f64 * 8.0 / entries as f64)
}

fn shrunk(geometry: Geometry, counts: &Counts) -> Option<Forecast> {
    let halved = geometry.halved()?;
    (counts.used() <= halved.slots_in_all()).then(|| described(halved, &counts.halved(halved.width)))
}

fn described(geometry: Geometry, counts: &Counts) -> Forecast {
    Forecast {
        generation: geometry.generation,
        entries: counts.entries(),
        expected_false_positive_rate: counts
            .expected_false_positive_rate(geometry.slots(), geometry.slots_in_all()),
        bits_per_key: bits_per_key(geometry, counts).unwrap_or(f64::INFINITY),
        void_entries: counts.void(),
        file_length: geometry.file_length(),
    }
}

fn forecast(mut geometry: Geometry, policy: Policy, mut counts: Counts) -> Vec<Forecast> {
    let mut forecasts = Vec::new();
    while forecasts.len() < FORECAST
        && crate::growth::refusal(geometry, &policy, &counts, None, false).is_none()
    {
        let Some(doubled) = geometry.doubled() else { break };
        counts = counts.doubled_and_full(doubled.width, doubled.slots_in_all());
        geometry = doubled;
        forecasts.push(described(geometry, &counts));
    }
    forecasts
}
