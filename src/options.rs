//! How a filter is created and opened.

mod forgetting;
mod plan;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::cuckoo::{
    AnyWidth, Forgetting, HashKind, KeyHasher, KeyRules, Kind, MAX_REGIONS, Seed, Shard, SlotsPerBucket,
};
use crate::error::{Error, Result};
use crate::format::{Geometry, Growth, Identity, Metadata, Policy};
use crate::system::{Disk, SystemDisk, new_uuid, quarter, random};

pub use plan::Plan;

/// The default capacity of a new filter.
const DEFAULT_CAPACITY: u64 = 1_000_000;
/// The default false-positive rate of a new filter.
const DEFAULT_RATE: f64 = 0.001;
/// How many entries a search for a free slot examines at most. With fewer, a filter doubles at a lower load: with 500,
/// the load is 1 to 1.5 percentage points lower.
const DEFAULT_MAX_KICKS: u32 = 2000;

/// When a process verifies page checksums.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Verify {
    /// Each page before first use.
    #[default]
    FirstTouch,
    /// All pages during opening, which reads the whole file.
    Eager,
    /// Never, for measurements: a damaged page may then silently lose keys.
    Never,
}

/// What a lookup answers if it touches a damaged page.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum OnDamage {
    /// The error [`Error::Damaged`].
    #[default]
    Error,
    /// The answer "present". It may be a false positive, and is never a false negative. The copies of a store's files in a
    /// bucket give an error all the same, as the damage may be the copy's own.
    Present,
}

/// How to create a filter, or to open one.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("seen.gowk");
/// let mut seen = gowk::Options::new().capacity(100_000).false_positive_rate(1e-3).open(&path)?;
/// assert!(seen.insert(b"https://example.org/")?);
/// assert!(!seen.insert(b"https://example.org/")?);
/// seen.commit()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use = "options do nothing until a method such as `open` or `create` uses them"]
pub struct Options {
    capacity: Option<u64>,
    /// Regions at creation; `None` to compute them from the capacity.
    regions: Option<u64>,
    /// For a filter made like another one: the rate requested when that one was created.
    rate_of_like: Option<f64>,
    rate: Option<f64>,
    slots: Option<SlotsPerBucket>,
    seed: Option<Seed>,
    kind: Option<Kind>,
    forget_after: Option<Duration>,
    forget_within: Option<Duration>,
    refresh: Option<bool>,
    keep_newest: Option<u64>,
    #[cfg(feature = "store")]
    pub(crate) auto_vacuum: Option<(u64, Duration)>,
    pub(crate) clock_is_right: bool,
    clock: Clock,
    key_rules: Option<KeyRules>,
    hash: HashKind,
    shard: Shard,
    growth: Growth,
    max_file_size: Option<u64>,
    max_rate: Option<f64>,
    pub(crate) force: bool,
    pub(crate) max_kicks: u32,
    pub(crate) threads: usize,
    pub(crate) memory: Option<u64>,
    pub(crate) void_growth: bool,
    pub(crate) verify: Verify,
    pub(crate) on_damage: OnDamage,
    /// Whether a reader moves to another file that takes the name of its file.
    pub(crate) follow: bool,
    pub(crate) sealed: bool,
    pub(crate) wait: Duration,
    pub(crate) progress: ProgressCall,
    pub(crate) fetches: ProgressCall,
    pub(crate) disk: Arc<dyn Disk>,
}

/// The clock of forgetting filters: the system's, unless a test sets another one.
#[derive(Clone, Default)]
struct Clock(Option<Arc<dyn Fn() -> SystemTime + Send + Sync>>);

type Tell = dyn Fn(u64, u64) + Send + Sync;

/// The function to call with the progress of a doubling or of fetches, if any.
#[derive(Clone, Default)]
pub(crate) struct ProgressCall(Option<Arc<Tell>>);

impl ProgressCall {
    pub(crate) fn tell(&self, done: u64, all: u64) {
        if let Some(tell) = &self.0 {
            tell(done, all);
        }
    }
}

/// Shows the options that differ from the defaults, and never the seed.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Options");
        fields.field("capacity", &self.capacity.unwrap_or(DEFAULT_CAPACITY));
        let mut given = |name, value: Option<&dyn fmt::Debug>| {
            value.into_iter().for_each(|value| {
                fields.field(name, value);
            });
        };
        given("false_positive_rate", self.rate.as_ref().map(|rate| rate as _));
        given("kind", self.kind.as_ref().map(|kind| kind as _));
        given("forget_after", self.forget_after.as_ref().map(|after| after as _));
        given("forget_within", self.forget_within.as_ref().map(|within| within as _));
        given("refresh", self.refresh.as_ref().map(|refresh| refresh as _));
        given("keep_newest", self.keep_newest.as_ref().map(|keys| keys as _));
        given("slots_per_bucket", self.slots.as_ref().map(|slots| slots as _));
        given("shard", Some(&self.shard as _).filter(|_| !self.shard.is_whole()));
        given("growth", Some(&self.growth as _).filter(|_| self.growth != Growth::Auto));
        given("max_file_size", self.max_file_size.as_ref().map(|bytes| bytes as _));
        given("max_false_positive_rate", self.max_rate.as_ref().map(|rate| rate as _));
        given("threads", Some(&self.threads as _).filter(|_| self.threads > 1));
        given("sealed", Some(&self.sealed as _).filter(|_| self.sealed));
        fields.finish_non_exhaustive()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// A filter for a million keys that doubles itself when it is full. At most one in a thousand lookups of absent keys
    /// is a false positive.
    pub fn new() -> Self {
        Self {
            capacity: None,
            regions: None,
            rate_of_like: None,
            rate: None,
            slots: None,
            seed: None,
            kind: None,
            forget_after: None,
            forget_within: None,
            refresh: None,
            keep_newest: None,
            #[cfg(feature = "store")]
            auto_vacuum: None,
            clock_is_right: false,
            clock: Clock::default(),
            key_rules: None,
            hash: HashKind::Xxh3,
            shard: Shard::WHOLE,
            growth: Growth::Auto,
            max_file_size: None,
            max_rate: None,
            force: false,
            max_kicks: DEFAULT_MAX_KICKS,
            threads: 1,
            memory: None,
            void_growth: false,
            verify: Verify::FirstTouch,
            on_damage: OnDamage::Error,
            follow: true,
            sealed: false,
            wait: Duration::ZERO,
            progress: ProgressCall::default(),
            fetches: ProgressCall::default(),
            disk: Arc::new(SystemDisk),
        }
    }

    /// Creation: how many distinct keys fit into the filter before it must double, at least 1.
    pub fn capacity(mut self, keys: u64) -> Self {
        self.capacity = Some(keys);
        self
    }

    /// Creation: the chance that a key never inserted is found, at full load and before any doubling; above 0 and
    /// below 1. Determines the slots per bucket. An existing filter with a higher rate is refused with [`Error::Rate`].
    pub fn false_positive_rate(mut self, rate: f64) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Creation: the slots per bucket, instead of a false-positive rate.
    pub fn slots_per_bucket(mut self, slots: SlotsPerBucket) -> Self {
        self.slots = Some(slots);
        self
    }

    /// Creation: the seed of the hash; random by default. An attacker who knows the seed can craft keys that collide.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(Seed::new(seed));
        self
    }

    /// Creation: a filter that counts copies of keys, and can remove keys: [`Kind::Counting`]. By default, a new filter
    /// is a set. An existing filter of another kind is refused with [`Error::Kind`].
    pub fn counting(self) -> Self {
        self.kind(Kind::Counting)
    }

    /// Creation: the filter's kind; by default [`Kind::Set`]. An existing filter of another kind is refused with
    /// [`Error::Kind`].
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Creation: a filter that forgets. It keeps each key at least this long after the key was first seen, and somewhat
    /// longer ([`forget_within`](Self::forget_within)). At least 1 ms, and at most 2^53 ms. An existing filter of another
    /// kind is refused with [`Error::Kind`], and one with another time with [`Error::Retention`].
    ///
    /// The filter's time advances with its keys and commits: while nobody writes to it, it forgets nothing. See
    /// [`Writer::insert_at`](crate::Writer::insert_at) and [`Writer::sweep`](crate::Writer::sweep).
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use std::time::{Duration, SystemTime};
    ///
    /// const DAY: Duration = Duration::from_secs(86_400);
    /// let options = gowk::Options::new().forget_after(30 * DAY);
    /// let mut seen = options.open(dir.path().join("seen.gowk"))?;
    /// let now = SystemTime::now();
    /// assert_eq!(seen.insert_at("a", now - 60 * DAY)?, gowk::Seen::New);
    /// assert_eq!(seen.insert_at("a", now - 40 * DAY)?, gowk::Seen::Known);
    /// assert_eq!(seen.insert_at("b", now - 5 * DAY)?, gowk::Seen::New);
    /// assert!(seen.insert("a")?, "forgotten 30 to 45 days after it was first seen");
    /// seen.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn forget_after(mut self, time: Duration) -> Self {
        self.forget_after = Some(time);
        // If another kind was set, creation reports that both were given.
        self.kind.get_or_insert(Kind::Forgetting);
        self
    }

    /// Creation: the longest time that a key is kept beyond [`forget_after`](Self::forget_after); by default up to half
    /// of that time. Determines how many bits of each slot say when its key expires: 2 bits give a half, 3 a sixth, 4 a
    /// fourteenth. So a shorter time needs more slots, or brings a higher rate.
    pub fn forget_within(mut self, time: Duration) -> Self {
        self.forget_within = Some(time);
        self
    }

    /// Creation: whether the time of [`forget_after`](Self::forget_after) counts from when a key was last inserted,
    /// rather than first inserted; false by default.
    pub fn refresh(mut self, refresh: bool) -> Self {
        self.refresh = Some(refresh);
        self
    }

    /// Creation: a filter of bounded size that keeps the newest keys, however fast they come. It keeps each key until at
    /// least this many newer keys were stored, and somewhat longer. [`Info::keep_newest`](crate::Info::keep_newest) and
    /// [`plan`](Self::plan) say how many keys it keeps at most; the file has room for them, and need never double. So
    /// [`capacity`](Self::capacity) must not be set with it. At least 1, and at most 2^50. Keys that come again do not
    /// become newer. An existing filter of another kind is refused with [`Error::Kind`], and a filter that keeps another
    /// number with [`Error::Retention`].
    ///
    /// Such a filter reads no clock and accepts no times of keys. It cannot be divided, joined or merged:
    /// [`Error::Newest`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use gowk::Batches;
    ///
    /// // At a rate at which none of a million keys is taken for another one.
    /// let options = gowk::Options::new().keep_newest(1000).false_positive_rate(1e-7);
    /// let mut seen = options.open(dir.path().join("seen.gowk"))?;
    /// let told = options.plan()?.keep_newest.map(|newest| newest.to_string());
    /// assert_eq!(told.as_deref(), Some("keeps the newest 1000 to 1080 keys"));
    /// let keys: Vec<String> = (0..1_000_000).map(|key| key.to_string()).collect();
    /// seen.insert_batch(&keys)?;
    /// assert!(keys.iter().rev().take(1000).all(|key| seen.contains(key).unwrap_or(false)));
    /// assert!(!seen.contains("0")?);
    /// seen.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keep_newest(mut self, keys: u64) -> Self {
        self.keep_newest = Some(keys);
        // If another kind was set, creation reports that both were given.
        self.kind.get_or_insert(Kind::Forgetting);
        self
    }

    /// Writing to a forgetting filter: whether to trust a clock that is behind the filter's time, or so far ahead of it
    /// that all keys would be forgotten; false by default. See [`Error::Clock`].
    pub fn clock_is_right(mut self, right: bool) -> Self {
        self.clock_is_right = right;
        self
    }

    /// The clock that writers of forgetting filters read. For tests; not part of the stable interface.
    #[doc(hidden)]
    pub fn with_clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Clock(Some(Arc::new(clock)));
        self
    }

    #[inline]
    pub(crate) fn clock(&self) -> SystemTime {
        self.clock.0.as_ref().map_or_else(SystemTime::now, |clock| clock())
    }

    /// Creation: how the tool and ingest jobs change a key before they hash it; by default not at all. Stored in the
    /// filter's metadata. An existing filter with other rules is refused with [`Error::KeyRules`].
    pub fn key_rules(mut self, rules: KeyRules) -> Self {
        self.key_rules = Some(rules);
        self
    }

    /// Creation: who hashes the keys.
    pub fn hash(mut self, hash: HashKind) -> Self {
        self.hash = hash;
        self
    }

    /// Creation: the settings of another filter.
    pub(crate) fn designed_as(
        self,
        identity: &Identity,
        policy: &Policy,
        key_rules: Option<KeyRules>,
    ) -> Self {
        let Identity { kind, hasher, geometry, forgetting, .. } = identity;
        let retention = forgetting.and_then(Forgetting::retention);
        let limit = |rate: f64| (rate != 0.0).then_some(rate);
        Self {
            capacity: Some(policy.capacity),
            regions: Some(geometry.base_regions),
            slots: Some(geometry.slots()),
            rate_of_like: limit(policy.requested_rate),
            seed: Some(Seed::new(hasher.seed)),
            kind: Some(*kind),
            forget_after: retention.map(|time| Duration::from_millis(time.forget_after)),
            forget_within: retention.map(|time| Duration::from_millis(time.forget_within)),
            refresh: retention.map(|time| time.refresh),
            keep_newest: forgetting.and_then(Forgetting::newest).map(|newest| newest.at_least),
            key_rules,
            hash: hasher.kind,
            shard: geometry.shard,
            growth: policy.growth,
            max_file_size: (policy.max_file_size != 0).then_some(policy.max_file_size),
            max_rate: limit(policy.max_rate),
            ..self
        }
    }

    /// Creation: the filter holds shard `number`, from 0, of the `of` shards that divide all keys; by default shard 0
    /// of 1. [`capacity`](Self::capacity) counts only keys of this shard.
    ///
    /// [`KeyHash::shard`](crate::KeyHash::shard) says which shard a key belongs to; all shards need the same seed. The
    /// filter takes keys and hashes like any other filter, and refuses keys of another shard with [`Error::OtherShard`].
    pub fn shard(mut self, number: u64, of: u64) -> Self {
        self.shard = Shard { of, number };
        self
    }

    /// Creation: whether the filter doubles itself when it is full. Stored in the file.
    pub fn growth(mut self, growth: Growth) -> Self {
        self.growth = growth;
        self
    }

    /// Creation: the most bytes that the file may have. A doubling beyond it is refused. Stored in the file.
    pub fn max_file_size(mut self, bytes: u64) -> Self {
        self.max_file_size = Some(bytes);
        self
    }

    /// Creation: the highest expected false-positive rate that a doubled filter may have once it is full again. A
    /// doubling beyond it is refused. Above 0 and below 1. Stored in the file.
    pub fn max_false_positive_rate(mut self, rate: f64) -> Self {
        self.max_rate = Some(rate);
        self
    }

    /// Creation: replace an existing filter, with all its keys.
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// How many entries one search for a free slot examines at most; 2000 by default. If keys have several copies, one
    /// insert may make three such searches. Then it may examine eight times as many entries to displace groups, and as many
    /// again, twice at most, to let groups share an entry.
    pub fn max_kicks(mut self, entries: u32) -> Self {
        self.max_kicks = entries;
        self
    }

    /// How many threads share the work of a batch of keys, or of shrinking a filter, at least 1; 1 by default. A batch
    /// with fewer than some ten thousand keys a thread uses fewer threads. Up to three times as many threads write the
    /// files of a store's shards, as each mostly waits for the disk.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Makes commits of the store that these options create also [vacuum](crate::store::Store::vacuum). They remove all
    /// versions except the newest `keep` versions, at least 1, and the versions that were the newest within the last
    /// `grace`, at least a second. A commit vacuums once at least 16 versions can be removed, or `keep` if that is more.
    /// Off by default; filters ignore it.
    #[cfg(feature = "store")]
    pub fn auto_vacuum(mut self, keep: u64, grace: Duration) -> Self {
        self.auto_vacuum = Some((keep, grace));
        self
    }

    /// Whether the filter may double although more than half of its entries have no tail left, and would be copied to
    /// both sides; false by default.
    pub fn void_growth(mut self, allowed: bool) -> Self {
        self.void_growth = allowed;
        self
    }

    /// When pages are verified against their checksums; by default, each page when it is first touched.
    pub fn verify(mut self, verify: Verify) -> Self {
        self.verify = verify;
        self
    }

    /// What a reader's lookups answer if they touch a damaged page; by default an error.
    pub fn on_damage(mut self, on_damage: OnDamage) -> Self {
        self.on_damage = on_damage;
        self
    }

    /// Reading: opens the filter as sealed: its last writer has closed it, and it will never change again. False by
    /// default.
    ///
    /// The reader needs no lock file, journal, locks or write permission, and locks, writes and syncs nothing: the file
    /// may lie in an image or on a network share. A filter that a writer has open, or that needs recovery, is refused
    /// with [`Error::NotSealed`]. The reader follows a file that is replaced as a whole. It follows changes in place only
    /// if locks and maps work as on a local file system.
    ///
    /// On a file system that is mounted read-only, a reader opens a filter at a checkpoint as sealed even if this is
    /// false.
    pub fn sealed(mut self, sealed: bool) -> Self {
        self.sealed = sealed;
        self
    }

    /// How long to wait for another writer to finish; by default not at all.
    ///
    /// If another process is opening or recovering the filter, a writer also waits for that, at least a second, and a
    /// reader up to a minute. If the other process does not finish in time, the opening fails with [`Error::Stalled`].
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// How many bytes of memory the changes of a transaction should take at most; by default a quarter of the memory that
    /// the process may use. No call fails because of it: [`Writer::exceeds_memory`](crate::Writer::exceeds_memory) says
    /// when to commit.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// How much [`memory`](Self::memory) allows.
    pub(crate) fn memory_allowed(&self) -> u64 {
        self.memory.unwrap_or_else(quarter)
    }

    /// A function that a writer calls while an insert doubles the filter: after each region, with the number of finished
    /// regions and of all.
    pub fn growth_progress(mut self, tell: impl Fn(u64, u64) + Send + Sync + 'static) -> Self {
        self.progress = ProgressCall(Some(Arc::new(tell)));
        self
    }

    /// A function that a store in a bucket calls while it fetches files into the cache: when a fetch begins, and after
    /// each part of it, with the bytes fetched and the bytes of all files. Files fetched at the same time count together;
    /// once all have ended, the next fetch begins at 0. Several threads may call it at once.
    pub fn fetch_progress(mut self, tell: impl Fn(u64, u64) + Send + Sync + 'static) -> Self {
        self.fetches = ProgressCall(Some(Arc::new(tell)));
        self
    }

    /// The disk that receives changes: tests record, fail or lose them. Not part of the stable interface.
    #[doc(hidden)]
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = disk;
        self
    }

    /// [`Error::Option`] if a given rate is not above 0 and below 1.
    pub(crate) fn check_rates(&self) -> Result<()> {
        self.rate.map_or(Ok(()), |rate| check_rate("false-positive rate", rate))?;
        self.max_rate.map_or(Ok(()), |rate| check_rate("maximal false-positive rate", rate))
    }

    /// The width of a new filter.
    fn width(&self) -> Result<AnyWidth> {
        let kind = self.kind.unwrap_or_default();
        let rate = match (self.rate, self.slots) {
            (Some(_), Some(slots)) => {
                let found = format!("given beside {} slots per bucket", slots.get());
                return Err(Error::Option { option: "false-positive rate", found, expected: "given alone" });
            }
            (None, Some(slots)) if !self.is_to_forget() => return Ok(AnyWidth::of_new(slots, kind)),
            (None, Some(_)) => 1.0,
            (Some(rate), None) => rate,
            (None, None) => DEFAULT_RATE,
        };
        if self.is_to_forget() {
            return self.forgetting_width(rate);
        }
        let slots = SlotsPerBucket::for_rate_of(rate, kind).ok_or_else(|| Error::Option {
            option: "false-positive rate",
            found: rate.to_string(),
            expected: "at least 9.4e-10, the narrowest reachable (2 slots per bucket), or 1.9e-9 for a counting filter",
        })?;
        Ok(AnyWidth::of_new(slots, kind))
    }

    /// A new filter's shape, checked.
    fn geometry(&self) -> Result<Geometry> {
        self.check_rates()?;
        let width = self.width()?;
        let capacity = self.keys_to_hold(width)?;
        let too_large = || Error::Option {
            option: "capacity",
            found: capacity.to_string(),
            expected: "at least 1, and no more than 2^32 regions of 8192 buckets hold",
        };
        if capacity == 0 && self.regions.is_none() {
            return Err(too_large());
        }
        let base_regions =
            self.regions.or_else(|| width.slots().regions_for(capacity)).ok_or_else(too_large)?;
        let Shard { of, number } = self.shard;
        if of == 0 || of > MAX_REGIONS / base_regions {
            return Err(Error::Option {
                option: "number of shards",
                found: of.to_string(),
                expected: "at least 1, and no more than have 2^32 regions together",
            });
        }
        if number >= of {
            return Err(Error::Option {
                option: "shard",
                found: number.to_string(),
                expected: "from 0 on, and below the number of shards",
            });
        }
        let geometry = Geometry::new(width, base_regions, 0, self.shard).map_err(|_| too_large())?;
        if let Some(limit) = self.max_file_size
            && geometry.file_length() > limit
        {
            return Err(Error::Option {
                option: "maximal file size",
                found: limit.to_string(),
                expected: "no less than the new file needs for its capacity",
            });
        }
        Ok(geometry)
    }

    /// A new filter's identity and policy, all checked.
    pub(crate) fn design(&self, path: &Path) -> Result<(Identity, Policy)> {
        let geometry = self.geometry()?;
        let uuid = new_uuid(path)?;
        let seed = match self.seed {
            Some(seed) => seed.get(),
            None => random(path)?,
        };
        let kind = self.kind.unwrap_or_default();
        let forgetting = self.forgetting(geometry.width)?;
        let identity = Identity { uuid, kind, hasher: KeyHasher::new(self.hash, seed), geometry, forgetting };
        let policy = Policy {
            growth: self.growth,
            max_file_size: self.max_file_size.unwrap_or(0),
            requested_rate: match self.slots {
                Some(_) => self.rate_of_like.unwrap_or(0.0),
                None => self.rate.unwrap_or(DEFAULT_RATE),
            },
            max_rate: self.max_rate.unwrap_or(0.0),
            capacity: self.keys_to_hold(geometry.width)?,
        };
        Ok((identity, policy))
    }

    /// [`Error::Kind`] if an existing filter or store is of another kind than these options ask for.
    pub(crate) fn check_kind(&self, path: &Path, found: Kind) -> Result<()> {
        match self.kind {
            Some(wanted) if wanted != found => {
                Err(Error::Kind { path: path.to_owned(), found, wanted, op: "what was asked for" })
            }
            _ => Ok(()),
        }
    }

    /// [`Error::KeyRules`] if an existing filter or store has other rules than these options ask for.
    pub(crate) fn check_key_rules(&self, path: &Path, found: Option<KeyRules>) -> Result<()> {
        match self.key_rules {
            Some(wanted) if found != Some(wanted) => {
                Err(Error::KeyRules { path: path.to_owned(), found, wanted })
            }
            _ => Ok(()),
        }
    }

    /// The rules for keys that a new filter or store gets.
    pub(crate) fn new_key_rules(&self) -> KeyRules {
        self.key_rules.unwrap_or_default()
    }

    /// The metadata that a new filter begins with.
    pub(crate) fn first_metadata(&self) -> Metadata {
        let mut metadata = Metadata::default();
        metadata.set_key_rules(self.new_key_rules());
        metadata
    }

    /// [`Error::Kind`] if an existing filter is of another kind than these options ask for, [`Error::KeyRules`] if it has
    /// other rules for keys, and [`Error::Rate`] if it has a higher rate.
    pub(crate) fn check_fits(&self, path: &Path, identity: &Identity, metadata: &Metadata) -> Result<()> {
        self.check_kind(path, identity.kind)?;
        self.check_key_rules(path, metadata.key_rules())?;
        if let Some(forgetting) = identity.forgetting {
            self.check_forgetting(path, forgetting)?;
        }
        let rate = identity.geometry.width.false_positive_rate();
        match self.rate {
            Some(wanted) if wanted < rate => Err(Error::Rate { path: path.to_owned(), rate, wanted }),
            _ => Ok(()),
        }
    }
}

pub(crate) fn check_rate(option: &'static str, rate: f64) -> Result<()> {
    if rate > 0.0 && rate < 1.0 {
        return Ok(());
    }
    Err(Error::Option { option, found: rate.to_string(), expected: "above 0 and below 1" })
}
