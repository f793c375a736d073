//! Publishing a version (`format-spec/STORE.md`, section 7).
//!
//! Invariants:
//!
//! 1. A version gets its number by `link(2)`, which fails if the number is taken. So a version builds on the version with
//!    the number below it, and on no other.
//! 2. Before the link, the text of the version is synced, and so are the files that it names and their names.
//! 3. No version is published on top of one whose name could still be undone.
//! 4. In a folder, the number of a vacuumed version is never used again. A committer may be stopped for any time before
//!    its link. A vacuum removes drafts before versions. If it did so before this draft was made, the committer's second
//!    look at the newest number sees the vacuum's version. If it does so later, the link fails, as the draft is gone.
//! 5. An object store has no drafts, and a number n can be used again. The committer reports nothing before it has looked
//!    at the newest version L. If n was free because a vacuum had deleted it, the vacuum had first published a version
//!    with a `first` above n, and `first` never falls. So `first` of L is above n, and the look finds the stray. If n was
//!    free because no version had used it, this version continues n - 1, and counts.
//!
//! Strays harm nothing. Their numbers are below `first`, so none is the newest version, and readers, commits and folds do
//! not see it. The base of a token is not deleted, so no stray takes its number. A vacuum may meet a stray in place of a
//! version that must stay. Then the vacuum is no longer based on the newest version, and starts over. The next vacuum
//! deletes strays and their files.
//!
//! No base is deleted that a later version needs. A commit after a vacuum's version M continues M or a later version, so
//! its base is not below the `fence` of M, nor below `first` of M. M also names all other bases that the commit names.
//!
//! Crash cases: before the link, only a draft exists. From the link on, the version is whole. If the name was not synced,
//! a power cut removes the whole version or leaves it.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::io;
use std::time::SystemTime;

use super::Store;
use super::error::{Error, Result};
use super::files::{self, Name, VERSIONS};
use super::run::{MergedRecords, Run};
use super::sealed::Sealed;
use super::storage::{Unpublished, publish};
use super::text::LONGEST;
use super::version::{Done, FIRST, Version};
use crate::error::{Error as FilterError, IoContext};
use crate::events;
use crate::system::new_uuid;

/// How many runs may be open at the same time while several become one: a process may have 1024 files open.
const OPEN_RUNS: usize = 256;

/// An idempotency token: a commit with it happens once, however often it is attempted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    /// The name of the application that commits, of at most 1,024 bytes. An application uses its tokens one after the
    /// other.
    pub application: String,
    /// Higher than the number of the application's last token, or equal to it in a retry. A lower number is refused.
    pub number: u64,
    /// Data that the application stores with its last token, possibly empty: at most 2^20 bytes.
    pub state: String,
}

impl Token {
    /// The token of this application and number, without a state.
    pub fn new(application: impl Into<String>, number: u64) -> Self {
        Self { application: application.into(), number, state: String::new() }
    }
}

/// What a commit changes.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// The number of the version that the update was made on.
    pub base: u64,
    /// The kind of change, in a word, for the log: `insert`. At most 256 bytes.
    pub operation: String,
    /// With a token, the commit happens at most once.
    pub token: Option<Token>,
    /// The new files of rewritten shards, and runs.
    pub sealed: Vec<Sealed>,
}

/// The outcome of a commit that did not fail.
#[derive(Clone, PartialEq, Debug)]
pub enum Committed {
    /// The commit made this version.
    New(Version),
    /// An earlier commit had the same token. Nothing was changed.
    Already(Done),
    /// There was nothing to change.
    Unchanged,
}

impl Store {
    /// Publishes a version with these changes.
    ///
    /// The changes go on top of all versions since the base. Fails with [`Error::Conflict`] if one of these versions has
    /// changed a key of this commit's run, or anything in a shard that the commit rewrites. Several runs are first merged
    /// into one.
    ///
    /// Fails with [`Error::TokenBelow`] if the application has committed a later token, with [`Error::Expired`] if a
    /// vacuum has ruled out the base, and with [`Error::Invalid`] if readers would refuse the version. After
    /// [`Error::Unknown`] the version may exist; after any other error it does not.
    pub fn commit(&self, change: &Change) -> Result<Committed> {
        self.check_sealed(change)?;
        let joined;
        let change = if change.runs().count() > 1 {
            let newest = self.newest()?;
            if let Some(done) = self.already(change, &newest)? {
                return Ok(Committed::Already(done));
            }
            joined = self.with_one_run(change).map_err(|error| self.given_up(change.base, error))?;
            &joined
        } else {
            change
        };
        let (root, mut seen) = (&self.root, change.base);
        // The number of a version of this commit that was put, but that a vacuum had passed or has passed since.
        let mut passed = None;
        loop {
            let newest = self.newest().map_err(|error| match passed {
                Some(version) => self.in_doubt(version, error),
                None => error,
            })?;
            if let Some(done) = self.already(change, &newest)? {
                return Ok(Committed::Already(done));
            }
            passed = None;
            match self.check_base(change, &newest) {
                // A vacuum has removed files of that version, so there is a newer one.
                Err(Error::Vacuumed { .. }) if self.newest()?.number > newest.number => continue,
                outcome => outcome?,
            }
            if newest.number > seen {
                seen = newest.number;
                events::store_rebased(root, change.base, seen);
            }
            let id = new_uuid(root)?;
            match self.put_version(change.on(&newest, id), newest.number) {
                Ok(Some(version)) => {
                    events::store_committed(root, version.number, change.base);
                    self.keep_up(&version);
                    self.vacuum_after(&version);
                    return Ok(Committed::New(version));
                }
                Ok(None) => {}
                // If the version counts, the newest version has its token. If it does not, a vacuum has given up its
                // base.
                Err(Error::Overtaken { version, .. }) if change.token.is_some() => passed = Some(version),
                Err(error) => return Err(error),
            }
        }
    }

    /// The commit with this token, if the version has it. Fails with [`Error::TokenBelow`] if the version has a later
    /// token of the application: the caller must not mistake a dropped batch for a stored one.
    pub(super) fn done_in(&self, token: &Token, version: &Version) -> Result<Option<Done>> {
        let Some(done) = version.tokens.get(&token.application) else { return Ok(None) };
        match done.number.cmp(&token.number) {
            Ordering::Less => Ok(None),
            Ordering::Equal => Ok(Some(done.clone())),
            Ordering::Greater => Err(Error::TokenBelow {
                path: self.root.clone(),
                application: token.application.clone(),
                number: token.number,
                last: done.number,
            }),
        }
    }

    fn already(&self, change: &Change, newest: &Version) -> Result<Option<Done>> {
        change.token.as_ref().map_or(Ok(None), |token| self.done_in(token, newest))
    }

    /// The change with one run in place of several.
    pub(super) fn with_one_run(&self, change: &Change) -> Result<Change> {
        let base = Version { number: change.base, ..Version::first([0; 16], 0) };
        let mut sealed: Vec<Sealed> = change.runs().cloned().collect();
        while sealed.len() > 1 {
            let mut fewer = Vec::new();
            for part in sealed.chunks(OPEN_RUNS) {
                fewer.extend(self.one_run_of(&base, part)?);
            }
            sealed = fewer;
        }
        let shards = change.sealed.iter().filter(|sealed| sealed.shard.is_some()).cloned();
        Ok(Change { sealed: shards.chain(sealed).collect(), ..change.clone() })
    }

    /// One run with the records of several; `None` if no records remain.
    fn one_run_of(&self, base: &Version, sealed: &[Sealed]) -> Result<Option<Sealed>> {
        if let [one] = sealed {
            return Ok(Some(one.clone()));
        }
        let runs = sealed.iter().map(|sealed| self.open_sealed(base, sealed)).collect::<Result<Vec<_>>>()?;
        let at_most = runs.iter().map(Run::records).sum();
        let epoch = sealed.iter().map(|sealed| sealed.epoch).max().unwrap_or_default();
        let merged = MergedRecords::new(runs.iter().map(Run::all));
        self.write_run((base.number, epoch), None, at_most, merged)
    }

    /// Checks that each sealed file belongs to this commit, and that the file exists.
    pub(super) fn check_sealed(&self, change: &Change) -> Result<()> {
        let misfit = |what, found: String, expected: String| Error::Misfit {
            path: self.root.clone(),
            what,
            found,
            expected,
        };
        let (mut seen, mut files) = (vec![false; self.description.shards as usize], BTreeSet::new());
        for sealed in &change.sealed {
            let Sealed { store, shard, base, .. } = sealed;
            if *store != self.description.uuid {
                let [found, expected] = [*store, self.description.uuid].map(|uuid| super::text::hex(&uuid));
                return Err(misfit("store", found, expected));
            }
            if *base != change.base {
                return Err(misfit("base", base.to_string(), change.base.to_string()));
            }
            if sealed.fold {
                return Err(misfit("kind", "fold".to_owned(), "what updates sealed".to_owned()));
            }
            if !files.insert(sealed.name()) {
                return Err(misfit("file", sealed.file(), "each file once".to_owned()));
            }
            let Some(shard) = *shard else { continue };
            let Some(seen) = seen.get_mut(shard as usize) else {
                return Err(misfit("shard", shard.to_string(), format!("below {}", self.description.shards)));
            };
            if std::mem::replace(seen, true) {
                return Err(misfit("shard", shard.to_string(), "each shard once".to_owned()));
            }
        }
        Ok(())
    }

    fn check_base(&self, change: &Change, newest: &Version) -> Result<()> {
        let (path, base) = (self.root.clone(), change.base);
        if base < FIRST || base > newest.number {
            return Err(Error::NoSuchVersion { path, number: base, newest: newest.number });
        }
        let since = |shard| newest.shards.get(&shard).map_or(0, |file| file.since);
        let rewritten = || change.sealed.iter().filter_map(Sealed::shard);
        if let Some(shard) = rewritten().find(|shard| since(*shard) > base) {
            return Err(Error::Conflict { path, shard, keys: 0, base, version: since(shard) });
        }
        if base < newest.fence {
            return Err(Error::Expired { path, base, fence: newest.fence });
        }
        self.check_files(change)?;
        if base == newest.number {
            return Ok(());
        }
        self.check_judged(change, newest)
    }

    /// Checks that each sealed file exists and has its length.
    pub(super) fn check_files(&self, change: &Change) -> Result<()> {
        for sealed in &change.sealed {
            let name = sealed.file();
            let path = self.path_of(&name);
            let gone = || io::ErrorKind::NotFound.into();
            let length = self.storage.length(&name)?.ok_or_else(gone).at(&path, "look at");
            let length = length.map_err(|error| self.given_up(change.base, error.into()))?;
            if length != sealed.bytes {
                let (found, expected) = (length.to_string(), sealed.bytes.to_string());
                return Err(Error::WrongFile { path, what: "length", found, expected });
            }
        }
        Ok(())
    }

    /// The text of a version. Fails if a reader would refuse it: the text is read back.
    pub(super) fn text_of(&self, version: &Version) -> Result<String> {
        let path = self.path_of(&files::version(version.number));
        let invalid = |field, found, expected| {
            let path = self.root.clone();
            Error::Invalid { path, field, found, expected }
        };
        let refused = |error| match error {
            Error::Field { field, found, expected, .. } => invalid(field, found, expected),
            error => error,
        };
        version.check(&path, &self.description).map_err(refused)?;
        let text = version.encode(&path, self.description.uuid)?;
        if text.len() as u64 >= LONGEST {
            return Err(invalid(
                "text",
                format!("{} bytes long", text.len()),
                format!("below {LONGEST} bytes"),
            ));
        }
        let read = Version::decode(&path, text.as_bytes(), version.number, &self.description);
        let read = read.map_err(refused)?;
        if (Version { time: read.time, ..version.clone() }) != read {
            return Err(invalid("text", "another version".to_owned(), "read as it was written".to_owned()));
        }
        Ok(text)
    }

    /// Publishes a version on top of `newest`; `None` if another version got the number, or a vacuum has passed it.
    pub(super) fn try_publish(&self, version: Version, newest: u64) -> Result<Option<Version>> {
        match self.put_version(version, newest) {
            Err(Error::Overtaken { .. }) => Ok(None),
            outcome => outcome,
        }
    }

    /// Publishes a version on top of `newest`; `None` if another version got the number. Fails with [`Error::Overtaken`]
    /// if a vacuum has passed the number, so that the version may be a stray.
    pub(super) fn put_version(&self, version: Version, newest: u64) -> Result<Option<Version>> {
        let name = files::version(version.number);
        let text = self.text_of(&version)?;
        let draft = files::incoming(&Name { base: newest, uuid: version.id }.draft());
        let unknown = |source| Error::Unknown {
            path: self.root.clone(),
            version: version.number,
            source: Box::new(source),
        };
        // Lists again after the draft was made. This sees the version of a vacuum that removed versions before. A vacuum
        // that removes versions later removes the draft first.
        let mut due = || Ok(self.newest_number(newest)? == Some(newest));
        match publish(&*self.storage, &name, &draft, text.as_bytes(), &mut due) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(Unpublished::Failed(error)) => return Err(error),
            Err(Unpublished::Unknown(error)) => return Err(unknown(error)),
        }
        // Protects: the version's name, before the version is reported.
        self.storage.settle(VERSIONS).map_err(unknown)?;
        if self.storage.is_object_store() {
            self.check_counts(&version).map_err(|error| self.in_doubt(version.number, error))?;
        }
        Ok(Some(version))
    }

    /// The error of a call that failed before it was known whether the version that was put counts.
    fn in_doubt(&self, version: u64, error: Error) -> Error {
        let source = match error {
            Error::Overtaken { .. } | Error::Unknown { .. } => return error,
            Error::Filter(error) => error,
            // The error concerns another version, which cannot be read.
            error => FilterError::io(
                error.path().unwrap_or(&self.root),
                "look for the newest version",
                io::Error::other(error.to_string()),
            ),
        };
        Error::Unknown { path: self.root.clone(), version, source: Box::new(source) }
    }

    /// Checks that a published version does not reuse the number of a vacuumed version: it would have no predecessor.
    fn check_counts(&self, version: &Version) -> Result<()> {
        let number = version.number;
        if self.newest_number(number)? == Some(number) {
            return Ok(());
        }
        let newest = self.newest()?;
        if newest.first <= number || newest.has_file_of(version) {
            return Ok(());
        }
        Err(Error::Overtaken { path: self.root.clone(), version: number, first: newest.first })
    }
}

impl Change {
    pub(super) fn runs(&self) -> impl Iterator<Item = &Sealed> {
        self.sealed.iter().filter(|sealed| sealed.shard.is_none())
    }

    /// The version with these changes on top of `newest`.
    pub(super) fn on(&self, newest: &Version, id: [u8; 16]) -> Version {
        let number = newest.number + 1;
        let epoch = self.sealed.iter().map(|sealed| sealed.epoch).max().unwrap_or_default();
        let mut next = Version {
            epoch: newest.epoch.max(epoch),
            until: None,
            number,
            id,
            time: SystemTime::now(),
            operation: self.operation.clone(),
            base: self.base,
            ..newest.clone()
        };
        for sealed in &self.sealed {
            match sealed.shard {
                Some(shard) => {
                    next.shards.insert(shard, sealed.shard_file(number));
                }
                None => next.runs.push(sealed.run_file(number, number, number)),
            }
        }
        if let Some(Token { application, number: of, state }) = &self.token {
            // Without files, no key was new, whatever the epoch.
            let epoch = if epoch > 0 { epoch } else { newest.epoch };
            let (state, base) = (state.clone(), self.base);
            let done = Done { number: *of, version: number, base, state, epoch };
            next.tokens.insert(application.clone(), done);
        }
        next
    }
}
