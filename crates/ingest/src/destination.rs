//! Where keys go: into a filter, with commits during the run, or into a store, with one version at the end.
//!
//! A store remembers the cursor of a job as the state of the job's last token. So a run that dies anywhere starts again
//! from the last version, and of two simultaneous runs only one commits.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::claim::{Claim, Owner};
use super::cursor;
use super::error::{Error, OutputProblem};
use super::job::Job;
use super::output::Begin;
use super::time::KeyTime;
use gowk::Lookup;
use gowk::store::{Committed, Error as StoreError, Rejudged, Requests, Store, Token, Update, Version};
use gowk::{Batches, Info, Key, KeyHash, KeyRules, Kind, Metadata, Options, Seen, Writer};

/// The filter, or the update of a store, that keys are inserted into or removed from.
pub struct Destination(To);

enum To {
    Filter(Box<Writer>),
    Store(Box<InStore>),
}

/// An update of a store, and how it is committed.
struct InStore {
    store: Store,
    /// `None` after a failed commit; any other commit begins a new update.
    update: Option<Update>,
    operation: &'static str,
    token: Option<Token>,
    /// Whether the token belongs to a job: no other process may have committed it.
    is_job: bool,
    sealing: Box<dyn Fn(u64, u64) + Sync>,
    /// The folder for working copies.
    scratch: Option<PathBuf>,
}

/// The cursors of jobs that a store remembers, in the form of a filter's metadata.
fn metadata_of(version: &Version) -> Metadata {
    let mut metadata = Metadata::default();
    for (application, done) in &version.tokens {
        if cursor::job_of(application).is_some() && !done.state.is_empty() {
            metadata.set(application, decoded(&done.state).unwrap_or_default());
        }
    }
    metadata
}

fn encoded(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
    pairs.collect()
}

/// The metadata and the key rules of a job's filter or store; `None` if it does not exist.
pub(super) fn metadata(job: &Job, options: &Options) -> Result<Option<(Metadata, KeyRules)>, Error> {
    let options = &job.asked(options.clone());
    if Store::is_at(&job.filter) {
        let store = Store::open_with(&job.filter, options)?;
        return Ok(Some((metadata_of(&store.newest()?), store.description().key_rules)));
    }
    match options.read(&job.filter) {
        Ok(reader) => Ok(Some((reader.metadata()?, known(job, reader.info()?.key_rules)?))),
        Err(gowk::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The key rules of a job's filter; fails if this build does not know them.
pub(super) fn known(job: &Job, rules: Option<KeyRules>) -> Result<KeyRules, Error> {
    let (path, wanted) = (&job.filter, job.rules.key);
    Ok(rules.ok_or_else(|| gowk::Error::KeyRules { path: path.clone(), found: None, wanted })?)
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = match &self.0 {
            To::Filter(writer) => writer.path(),
            To::Store(to) => to.store.path(),
        };
        f.debug_tuple("Destination").field(&path).finish()
    }
}

impl From<Writer> for Destination {
    fn from(writer: Writer) -> Self {
        Self(To::Filter(Box::new(writer)))
    }
}

impl Destination {
    /// An update of a store. [`commit`](Self::commit) commits it as `operation`, with the token if one is given.
    pub fn store(store: Store, update: Update, operation: &'static str, token: Option<Token>) -> Self {
        let (scratch, sealing) = (update.scratch_folder().map(Path::to_owned), Box::new(|_, _| ()));
        let update = Some(update);
        Self(To::Store(Box::new(InStore {
            store,
            update,
            operation,
            token,
            is_job: false,
            sealing,
            scratch,
        })))
    }

    /// Makes each commit to a store call `told` with the number of sealed shards, and of all shards to seal.
    pub fn sealing(mut self, told: impl Fn(u64, u64) + Sync + 'static) -> Self {
        if let To::Store(to) = &mut self.0 {
            to.sealing = Box::new(told);
        }
        self
    }

    /// Opens the filter or the store of a job. Creates a filter if neither exists.
    pub(super) fn open(job: &Job, options: &Options) -> Result<Self, Error> {
        let options = &job.asked(options.clone());
        if Store::is_at(&job.filter) {
            let store = Store::open_with(&job.filter, options)?;
            let update = store.update()?;
            return Ok(Self::store(store, update, "ingest", None));
        }
        Ok(job.creation.apply(options.clone()).open(&job.filter)?.into())
    }

    /// Locks the job's outputs for as long as the caller keeps the returned files, so that no other run writes to them:
    /// they will be cut to the lengths in the cursor `entry`. Fails if another run has written past such a length.
    pub(super) fn claim<'a>(
        &self,
        entry: &str,
        outputs: impl Iterator<Item = &'a Begin>,
    ) -> Result<Vec<File>, Error> {
        let mut claimed = Vec::new();
        for output in outputs.filter(|output| output.is_file()) {
            let path = output.path();
            let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
            let file = opened.map_err(Error::of_output(path, "open"))?;
            let owner = self.owner(entry)?;
            match owner.claim(&file) {
                Claim::Busy => {
                    let To::Store(to) = &self.0 else { return Err(Error::output(path, OutputProblem::Busy)) };
                    return Err(to.overtaken());
                }
                Claim::Others => {
                    let found = file.metadata().map_err(Error::of_output(path, "look at"))?.len();
                    if found > output.length() {
                        return Err(Error::output(
                            path,
                            OutputProblem::Appended { committed: output.length() },
                        ));
                    }
                }
                Claim::Own => {}
            }
            owner.mark(&file);
            claimed.push(file);
        }
        self.check_not_overtaken(entry)?;
        Ok(claimed)
    }

    /// The name that runs called `name` mark their outputs with.
    pub fn owner(&self, name: &str) -> Result<Owner, Error> {
        let uuid = match &self.0 {
            To::Filter(writer) => writer.info()?.uuid,
            To::Store(to) => to.store.description().uuid,
        };
        Ok(Owner::new(uuid, name))
    }

    /// Fails if another run of the job has committed since this one began.
    pub(super) fn check_not_overtaken(&self, entry: &str) -> Result<(), Error> {
        let To::Store(to) = &self.0 else { return Ok(()) };
        let number = |version: &Version| version.tokens.get(entry).map(|done| done.number);
        let is_last = number(&to.store.newest()?) == number(to.update()?.base());
        if is_last { Ok(()) } else { Err(to.overtaken()) }
    }

    /// How many requests this run has made to a server; `None` for filters, and for stores in folders.
    pub fn requests(&self) -> Option<Requests> {
        match &self.0 {
            To::Filter(_) => None,
            To::Store(to) => to.store.requests(),
        }
    }

    /// Whether the destination is a store, so that keys are committed only at the end.
    pub const fn is_store(&self) -> bool {
        matches!(self.0, To::Store(_))
    }

    /// Whether a filter's uncommitted changes take more memory than its options allow. False for a store.
    pub fn exceeds_memory(&self) -> bool {
        match &self.0 {
            To::Filter(writer) => writer.exceeds_memory(),
            To::Store(_) => false,
        }
    }

    /// The key rules of the filter or store; `None` if this build does not know them.
    pub fn key_rules(&self) -> Result<Option<KeyRules>, Error> {
        match &self.0 {
            To::Filter(writer) => Ok(writer.info()?.key_rules),
            To::Store(to) => Ok(Some(to.store.description().key_rules)),
        }
    }

    /// Fails, with the error of the first removal, unless the destination counts copies.
    pub fn check_removals(&mut self) -> Result<(), Error> {
        self.remove_each::<KeyHash>(&[], |_| {})
    }

    /// Fails, with the error of the first key with a time, unless the destination forgets keys by time.
    pub fn check_times(&mut self) -> Result<(), Error> {
        self.insert_each_at::<KeyHash>(&[], &[], |_, _| {}).map(drop)
    }

    /// The longest lifetime that a key may have. Fails, with the error of the first key with a lifetime, unless the
    /// destination forgets keys by time.
    pub fn longest_lifetime(&mut self) -> Result<Duration, Error> {
        self.insert_each_for::<KeyHash>(&[], &[], |_| {})?;
        let retention = match &self.0 {
            To::Filter(writer) => writer.info()?.retention,
            To::Store(to) => to.store.description().retention,
        };
        Ok(Duration::from_millis(retention.map_or(0, |retention| retention.forget_after)))
    }

    /// The metadata, which holds the cursors of jobs.
    pub(super) fn metadata(&self) -> Result<Metadata, Error> {
        match &self.0 {
            To::Filter(writer) => Ok(writer.metadata()?.clone()),
            To::Store(to) => Ok(metadata_of(to.update()?.base())),
        }
    }

    /// Inserts keys that were seen at these times into a forgetting filter or store, as [`Writer::insert_each_at`] does.
    /// Fails with [`gowk::Error::Kind`] on other kinds.
    pub fn insert_each_at<K: Key + Sync>(
        &mut self,
        keys: &[K],
        times: &[SystemTime],
        told: impl FnMut(usize, Seen),
    ) -> Result<Vec<(usize, gowk::Error)>, Error> {
        match &mut self.0 {
            To::Filter(writer) => Ok(writer.insert_each_at(keys, times, told)?),
            To::Store(to) => Ok(to.update_mut()?.insert_each_at(keys, times, told)?),
        }
    }

    /// Inserts keys with these lifetimes into a forgetting filter or store, as [`Writer::insert_each_for`] does.
    pub fn insert_each_for<K: Key + Sync>(
        &mut self,
        keys: &[K],
        lifetimes: &[Duration],
        new: impl FnMut(usize),
    ) -> Result<Vec<(usize, gowk::Error)>, Error> {
        match &mut self.0 {
            To::Filter(writer) => Ok(writer.insert_each_for(keys, lifetimes, new)?),
            To::Store(to) => Ok(to.update_mut()?.insert_each_for(keys, lifetimes, new)?),
        }
    }

    /// Inserts keys with the times of their records, all of one kind.
    pub(super) fn insert_each_timed<K: Key + Sync>(
        &mut self,
        keys: &[K],
        times: &[KeyTime],
        mut told: impl FnMut(usize, Seen),
    ) -> Result<Vec<(usize, gowk::Error)>, Error> {
        let (mut seen, mut lifetimes) = (Vec::new(), Vec::new());
        for time in times {
            match time {
                KeyTime::Seen(time) => seen.push(*time),
                KeyTime::Lifetime(lifetime) => lifetimes.push(*lifetime),
            }
        }
        if lifetimes.is_empty() {
            self.insert_each_at(keys, &seen, told)
        } else {
            self.insert_each_for(keys, &lifetimes, |index| told(index, Seen::New))
        }
    }

    /// The uuid of a filter; `None` for a store.
    pub fn uuid(&self) -> Result<Option<[u8; 16]>, Error> {
        match &self.0 {
            To::Filter(writer) => Ok(Some(writer.info()?.uuid)),
            To::Store(_) => Ok(None),
        }
    }

    /// An entry of a filter's metadata; `None` for a store.
    pub fn entry(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        match &self.0 {
            To::Filter(writer) => Ok(writer.metadata()?.get(name).map(<[u8]>::to_vec)),
            To::Store(_) => Ok(None),
        }
    }

    /// Makes the next commit of a filter store this entry of the metadata, or remove it. Does nothing to a store.
    pub fn set_entry(&mut self, name: &str, value: Option<Vec<u8>>) -> Result<(), Error> {
        let To::Filter(writer) = &mut self.0 else { return Ok(()) };
        let metadata = writer.metadata_mut()?;
        match value {
            Some(value) => metadata.set(name, value),
            None => drop(metadata.remove(name)),
        }
        Ok(())
    }

    /// Makes the next commit store a job's cursor. In a store, a commit without any change makes no version.
    pub(super) fn remember(&mut self, entry: &str, state: Vec<u8>) -> Result<(), Error> {
        match &mut self.0 {
            To::Filter(writer) => writer.metadata_mut()?.set(entry, state),
            To::Store(to) => {
                to.is_job = true;
                let state = encoded(&state);
                let done = to.update()?.base().tokens.get(entry);
                let is_remembered = done.is_some_and(|done| done.state == state);
                let next = done.map_or(0, |done| done.number) + 1;
                to.token = (!is_remembered || to.update()?.touched() > 0)
                    .then(|| Token { state, ..Token::new(entry, next) });
            }
        }
        Ok(())
    }

    /// Makes all changes durable and visible. Returns the number of the commit or version; `None` if none was made,
    /// because there is nothing to commit or an earlier commit had this token.
    pub fn commit(&mut self) -> Result<Option<u64>, Error> {
        match &mut self.0 {
            To::Filter(writer) => {
                writer.commit()?;
                Ok(Some(writer.info()?.commit))
            }
            To::Store(to) => to.commit(),
        }
    }

    /// Like [`commit`](Self::commit), but judges keys again that other processes have committed to the store, as
    /// [`Update::commit_rebased`] says. Also returns the keys that are no longer new.
    pub(super) fn commit_rebased(&mut self) -> Result<(Option<u64>, Rejudged), Error> {
        match &mut self.0 {
            To::Filter(_) => Ok((self.commit()?, Rejudged::default())),
            To::Store(to) => to.commit_rebased(),
        }
    }

    /// Judges the keys of a store by its newest version. Returns the keys that are no longer new; none for a filter.
    pub(super) fn rebase(&mut self) -> Result<Rejudged, Error> {
        match &mut self.0 {
            To::Filter(_) => Ok(Rejudged::default()),
            To::Store(to) => Ok(to.update_mut()?.rebase()?),
        }
    }

    /// Whether the destination is a store, and a set.
    pub(super) fn is_set(&self) -> bool {
        matches!(&self.0, To::Store(to) if to.store.description().kind == Kind::Set)
    }

    /// Begins the update of a store again, on the newest version and without keys.
    pub(super) fn begin_again(&mut self) -> Result<(), Error> {
        let To::Store(to) = &mut self.0 else { return Ok(()) };
        let update = to.store.update()?;
        to.update = Some(match &to.scratch {
            Some(folder) => update.scratch(folder),
            None => update,
        });
        Ok(())
    }

    /// Whether the next commit has a token, so that the caller can find out later which keys were new.
    pub(super) const fn has_token(&self) -> bool {
        match &self.0 {
            To::Filter(_) => false,
            To::Store(to) => to.token.is_some(),
        }
    }

    /// How many of these keys have the highest count, which a removal does not change.
    pub(super) fn saturated<K: Key>(&self, keys: impl Iterator<Item = K>) -> Result<u64, Error> {
        let mut saturated = 0;
        match &self.0 {
            To::Filter(writer) => {
                let highest = writer.info()?.slots_per_bucket.highest_count();
                for key in keys {
                    saturated += u64::from(writer.count(key)? == highest);
                }
            }
            To::Store(to) => {
                let highest = to.store.description().slots_per_bucket.highest_count();
                let reader = to.store.read_version(to.update()?.base().clone());
                for key in keys {
                    saturated += u64::from(reader.count(key)? == highest);
                }
            }
        }
        Ok(saturated)
    }

    /// How many of these keys are in the filter, if it is a set; `None` for a store or a counting filter.
    pub(super) fn present<K: Key>(&self, keys: impl Iterator<Item = K>) -> Option<u64> {
        let To::Filter(writer) = &self.0 else { return None };
        if writer.info().ok()?.kind != Kind::Set {
            return None;
        }
        let mut present = 0;
        for key in keys {
            present += u64::from(writer.contains(key).ok()?);
        }
        Some(present)
    }

    /// The description of the filter, or of all shards together in the version on which the update is based. After a
    /// commit that is the new version.
    pub fn info(&self) -> Result<Info, Error> {
        match &self.0 {
            To::Filter(writer) => Ok(writer.info()?),
            To::Store(to) => Ok(to.store.read_version(to.update()?.base().clone()).filter_info()?),
        }
    }

    /// Closes a filter; does nothing for a store.
    pub fn close(self) -> Result<(), Error> {
        match self.0 {
            To::Filter(writer) => Ok(writer.close()?),
            To::Store(_) => Ok(()),
        }
    }
}

impl Batches for Destination {
    type Error = Error;

    fn hash<K: Key>(&self, key: K) -> Result<KeyHash, Error> {
        match &self.0 {
            To::Filter(writer) => Ok(writer.hash(key)?),
            To::Store(to) => Ok(to.store.hash(key)?),
        }
    }

    fn insert_each<K: Key + Sync>(
        &mut self,
        keys: &[K],
        new: impl FnMut(usize),
    ) -> Result<Vec<(usize, gowk::Error)>, Error> {
        match &mut self.0 {
            To::Filter(writer) => Ok(writer.insert_each(keys, new)?),
            To::Store(to) => Ok(to.update_mut()?.insert_each(keys, new)?),
        }
    }

    fn remove_each<K: Key + Sync>(&mut self, keys: &[K], removed: impl FnMut(usize)) -> Result<(), Error> {
        match &mut self.0 {
            To::Filter(writer) => Ok(writer.remove_each(keys, removed)?),
            To::Store(to) => Ok(to.update_mut()?.remove_each(keys, removed)?),
        }
    }
}

impl InStore {
    fn gone(&self) -> gowk::Error {
        gowk::Error::Poisoned { path: self.store.path().to_owned() }
    }

    fn overtaken(&self) -> Error {
        Error::Overtaken { store: self.store.path().to_owned() }
    }

    fn update(&self) -> Result<&Update, gowk::Error> {
        self.update.as_ref().ok_or_else(|| self.gone())
    }

    fn update_mut(&mut self) -> Result<&mut Update, gowk::Error> {
        let gone = self.gone();
        self.update.as_mut().ok_or(gone)
    }

    fn commit(&mut self) -> Result<Option<u64>, Error> {
        let token = self.token.take();
        if self.update()?.touched() == 0 && token.is_none() {
            return Ok(None);
        }
        let gone = self.gone();
        let update = self.update.take().ok_or(gone)?;
        let base = update.base().number;
        match update.commit_with(self.operation, token, &self.sealing) {
            Err(StoreError::TokenBelow { .. }) if self.is_job => Err(self.overtaken()),
            committed => self.after(committed?, base),
        }
    }

    fn commit_rebased(&mut self) -> Result<(Option<u64>, Rejudged), Error> {
        let gone = self.gone();
        let (update, token) = (self.update.take().ok_or(gone)?, self.token.take());
        let (committed, rejudged) = update.commit_rebased(self.operation, token, &self.sealing)?;
        Ok((self.after(committed, rejudged.base())?, rejudged))
    }

    /// The number of the new version, if one was made; `base` is the number of the version that judged the keys.
    fn after(&mut self, committed: Committed, base: u64) -> Result<Option<u64>, Error> {
        let (version, number) = match committed {
            Committed::New(version) => {
                let number = version.number;
                (version, Some(number))
            }
            Committed::Already(_) if self.is_job => return Err(self.overtaken()),
            Committed::Already(done) if done.base != base => {
                return Err(Error::TokenTaken { store: self.store.path().to_owned(), version: done.version });
            }
            Committed::Already(_) => (self.store.version(base)?, None),
            Committed::Unchanged => (self.store.newest()?, None),
        };
        self.update = Some(self.store.update_of(version));
        Ok(number)
    }
}

/// Makes the store or filter of `job` forget the job `name`; [`Error::NoSuchJob`] if it does not remember that job.
pub(super) fn forget(job: &Job, options: &Options, name: &str) -> Result<(), Error> {
    let entry = cursor::entry(name);
    let unknown = |metadata: &Metadata| {
        let jobs = cursor::jobs(metadata);
        Error::NoSuchJob { filter: job.filter.clone(), job: name.to_owned(), jobs }
    };
    if !Store::is_at(&job.filter) {
        let mut writer = options.open_existing(&job.filter)?;
        if writer.metadata_mut()?.remove(&entry).is_none() {
            return Err(unknown(writer.metadata()?));
        }
        writer.commit()?;
        return Ok(writer.close()?);
    }
    let store = Store::open_with(&job.filter, options)?;
    let newest = store.newest()?;
    match newest.tokens.get(&entry).filter(|done| !done.state.is_empty()) {
        None => Err(unknown(&metadata_of(&newest))),
        Some(done) => {
            let token = Token::new(entry, done.number + 1);
            store.update_of(newest).commit("forget", Some(token)).map(drop).map_err(Error::from)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A commit whose token was already committed, on the same base, makes no version. The store still answers after it.
    #[test]
    fn a_store_is_described_after_a_commit_that_was_made_before() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(dir.path().join("s"), 2, &Options::new().capacity(1000)).unwrap();
        let base = store.newest().unwrap();
        for number in [Some(base.number + 1), None] {
            let update = store.update_of(base.clone());
            let token = Some(Token::new("a", 1));
            let mut to = Destination::store(store.clone(), update, "insert", token);
            assert_eq!(to.insert_batch(&["a"]).unwrap().complete().unwrap(), 1);
            assert_eq!(to.commit().unwrap(), number);
            assert_eq!(to.info().unwrap().entries, u64::from(number.is_some()));
        }
    }

    #[test]
    fn a_cursor_in_hexadecimal_digits_is_read_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decoded(&encoded(&all)), Some(all));
        assert_eq!(decoded(""), Some(Vec::new()));
        for wrong in ["x", "0g", "\u{e9}"] {
            assert_eq!(decoded(wrong), None, "{wrong}");
        }
    }
}
