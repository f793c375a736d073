//! The one error type. Each message names the file, the place and the remedy.
//!
//! This file is long on purpose: its types are lists of messages, which are easier to keep alike in one place.

mod kind;

use std::fmt;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cuckoo::{KeyRules, Kind};

pub use kind::ErrorKind;

/// The result of every call that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed. Unless a variant says otherwise, nothing was changed, and the call may be repeated.
///
/// Clones are cheap, so that one failed commit can be reported to all who waited for it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("{}: cannot {op}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The operation, as a verb phrase: `open`.
        op: &'static str,
        /// The system's reason.
        source: IoError,
    },

    /// The file to open for reading does not exist.
    #[error("{}: no such filter; check the path, or create it", path.display())]
    NotFound {
        /// The filter file.
        path: PathBuf,
    },

    /// The filter cannot be created: a file already has its name.
    #[error("{}: exists already; choose another name, or force its replacement", path.display())]
    Exists {
        /// The filter file.
        path: PathBuf,
    },

    /// The file does not begin as a gowk filter does.
    #[error("{}: not a gowk filter: it does not begin as one; check the path", path.display())]
    NotGowk {
        /// The file.
        path: PathBuf,
    },

    /// The file is empty: it was created, and no filter was ever written to it.
    #[error(
        "{}: not a gowk filter: the file is empty; remove it and create the filter in its place, or check the path",
        path.display()
    )]
    Empty {
        /// The file.
        path: PathBuf,
    },

    /// The file was written in a format that this build cannot read.
    #[error(
        "{}: format version {}.{}, but this build reads {}.x; use a newer gowk",
        path.display(), found.0, found.1, supported.0
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Major and minor version of the file.
        found: (u16, u16),
        /// Major and minor version of this build.
        supported: (u16, u16),
    },

    /// The file uses features that this build does not know, but would need.
    #[error("{}: uses unknown features {bits:#x} needed for {access}; use a newer gowk", path.display())]
    Features {
        /// The file.
        path: PathBuf,
        /// The unknown bits of the feature mask.
        bits: u64,
        /// The access that needs them: `reading` or `writing`.
        access: &'static str,
    },

    /// Neither copy of the superblock is valid.
    #[error("{}: both superblocks are damaged; restore the file from a copy", path.display())]
    Superblocks {
        /// The file.
        path: PathBuf,
    },

    /// A superblock with a right checksum holds a forbidden value.
    #[error("{}: superblock field `{field}` is {found}, not {expected}; restore the file from a copy", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// The field's name in the specification.
        field: &'static str,
        /// The field's value.
        found: u64,
        /// The value it should have.
        expected: Expected,
    },

    /// The file has another length than its superblock says, or ends within its superblocks.
    #[error("{}: {found} bytes long, and not {expected}; restore the file from a copy", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// The length that the superblock states. If the file ends within its superblocks, at least the length of both.
        expected: Expected,
        /// The file's length in bytes.
        found: u64,
    },

    /// This build's hash function differs from that of the build that wrote the file.
    #[error("{}: its hash check value does not match this build's hash function; use the gowk that wrote it", path.display())]
    HashMismatch {
        /// The file.
        path: PathBuf,
    },

    /// A key was given to a filter whose keys the caller hashes.
    #[error("{}: the filter was created for keys hashed by the caller; give hashes instead of keys", path.display())]
    CallerHashes {
        /// The file.
        path: PathBuf,
    },

    /// A key was given to the filter of another shard.
    #[error(
        "{}: holds shard {shard} of {shards}, and the key belongs to shard {belongs}; use the filter of that shard",
        path.display()
    )]
    OtherShard {
        /// The file.
        path: PathBuf,
        /// The filter's shard, from 0.
        shard: u64,
        /// How many shards there are.
        shards: u64,
        /// The key's shard.
        belongs: u64,
    },

    /// A page does not match its checksum.
    #[error(
        "{}: page {page} (region {region}) is damaged; verify the whole filter, then restore a copy or repair it",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The page's region.
        region: u64,
        /// The page's number in the data section, counted in pages of 4096 bytes.
        page: u64,
    },

    /// The journal cannot be used: it is damaged, or it belongs to another filter or to another state of this one.
    #[error("{}: {defect}", path.display())]
    Journal {
        /// The journal file.
        path: PathBuf,
        /// What is wrong with it.
        defect: JournalDefect,
    },

    /// A file or folder has a name that gowk uses beside a filter or in a store, but gowk has not made it, or cannot know
    /// that it has. It is neither read nor changed.
    #[error("{}: {problem}", path.display())]
    Untrusted {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: Untrusted,
    },

    /// Another process writes to the filter.
    #[error("{}: locked by another writer; wait until it is done, or try again with a waiting time", path.display())]
    Locked {
        /// The filter file.
        path: PathBuf,
    },

    /// Something is mounted at the file's own path.
    #[error(
        "{}: is a mount point of its own, which would still show this file once the filter has doubled; \
         mount the folder that it lies in, or open it as sealed if nobody writes to it", path.display()
    )]
    MountPoint {
        /// The filter file.
        path: PathBuf,
    },

    /// The filter cannot be opened as sealed: it is not at a checkpoint, or not closed.
    #[error(
        "{}: {reason}, so it cannot be opened as sealed; close its writer, or open it once, not as sealed, where it may be \
         written; or open a copy of it",
        path.display()
    )]
    NotSealed {
        /// The filter file.
        path: PathBuf,
        /// Why the filter cannot be opened as sealed.
        reason: Unsealed,
    },

    /// The bytes of a filter were copied from its file while a writer had it open, or after the writer died.
    #[error(
        "{}: copied from a file that a writer had, or died with, and may lack commits; take the bytes of a \
         closed filter, or of a copy (`copy_to_bytes`, `copy_to`)", path.display()
    )]
    Unclosed {
        /// `<bytes>`, as there is no file.
        path: PathBuf,
    },

    /// Another process has held the filter's gate for too long. The gate is held only during opening.
    #[error(
        "{}: another process has been opening it for too long; continue that process if it is stopped, or end it, \
         and try again", path.display()
    )]
    Stalled {
        /// The filter file.
        path: PathBuf,
    },

    /// Another file has taken the filter's name while a writer had the filter open.
    #[error(
        "{}: another file has taken this name since the filter was opened; nothing was changed; \
         give the filter its name back and commit again, or open the other file and begin anew", path.display()
    )]
    NameTaken {
        /// The filter file.
        path: PathBuf,
    },

    /// The filter's name no longer leads to a file: somebody removed or renamed the file while a writer had it open. The
    /// transaction is lost.
    #[error(
        "{}: was removed or renamed since it was opened, so nothing was committed; give the file its name back and commit \
         again, or restore it from a copy (`copy_to`) and begin anew",
        path.display()
    )]
    Removed {
        /// The filter file.
        path: PathBuf,
    },

    /// The file has several names. Publishing a new file under one of them would leave the old file under the others.
    #[error("{}: has {links} hard links, and a writer needs a file with one name; remove the others", path.display())]
    HardLinks {
        /// The filter file.
        path: PathBuf,
        /// How many names the file has.
        links: u64,
    },

    /// No room for one more entry, and the filter must not grow.
    #[error("{}: no room in region {region} at load {load:.3}, and growth is off; create a larger filter, or one that grows", path.display())]
    Full {
        /// The filter file.
        path: PathBuf,
        /// The region without room.
        region: u64,
        /// Entries divided by slots, over the whole filter.
        load: f64,
    },

    /// No room for one more entry, and a rule or limit forbids doubling.
    #[error("{}: will not double: {reason}", path.display())]
    Growth {
        /// The filter file.
        path: PathBuf,
        /// Why the filter does not double.
        reason: GrowthRefusal,
    },

    /// The filter is not of the kind that the call, or the options, need.
    #[error(
        "{}: is a {found}, but {op} needs a {wanted}; create another filter for that, {}",
        path.display(), kind_option(*found, *wanted)
    )]
    Kind {
        /// The filter file.
        path: PathBuf,
        /// The filter's kind.
        found: Kind,
        /// The kind that is needed.
        wanted: Kind,
        /// The operation that needs that kind: `removing keys`, or `what was asked for`.
        op: &'static str,
    },

    /// A forgetting filter keeps keys for a different time than the options ask for.
    #[error(
        "{}: {found}, and not {wanted} as was asked for; leave that option out, or create another filter with it",
        path.display()
    )]
    Retention {
        /// The filter file.
        path: PathBuf,
        /// How the filter forgets, in words.
        found: String,
        /// How the options ask it to forget, in words.
        wanted: String,
    },

    /// A filter keeps the newest keys ([`Options::keep_newest`](crate::Options::keep_newest)), and does not support the
    /// operation.
    #[error(
        "{}: keeps the newest keys, and {op} is not for such filters, as only one sequence of keys has newest ones; \
         create a filter that keeps each key for a time, with the option `forget_after`", path.display()
    )]
    Newest {
        /// The filter file.
        path: PathBuf,
        /// The operation: `a merge`, `a join`, `a division`, `a store` or `a time of a key`.
        op: &'static str,
    },

    /// The clock, or the time of a key, seems wrong: a forgetting filter would forget all keys at once, or has already
    /// reached a later time. Nothing has changed.
    #[error(
        "{}: the time {} is {} the filter's time {}, {}; correct the clock, or say that it is right with \
         the option `clock_is_right`{}", path.display(), utc(*clock),
        if clock < filter { "before" } else { "more than a year after" }, utc(*filter),
        if clock < filter { "which never goes back" } else { "and all keys would be forgotten" },
        if clock < filter { "; if the filter's time is wrong, create it anew" } else { "" }
    )]
    Clock {
        /// The filter file.
        path: PathBuf,
        /// The clock's time, or the key's, in milliseconds since 1970.
        clock: u64,
        /// The filter's time, in milliseconds since 1970.
        filter: u64,
    },

    /// The filter or store was created with different rules for keys than the options ask for.
    #[error(
        "{}: takes keys {}, and {wanted} was asked for; leave that option out, or create another filter with it",
        path.display(), found.map_or_else(|| "by rules of a newer gowk".to_owned(), |rules| rules.to_string())
    )]
    KeyRules {
        /// The filter file, or the store's folder.
        path: PathBuf,
        /// The rules of the filter or store; `None` if this build does not know them.
        found: Option<KeyRules>,
        /// The rules that the options ask for.
        wanted: KeyRules,
    },

    /// A writer was closed with uncommitted changes. They are lost.
    #[error(
        "{}: closed with changes that were not committed, and are lost; call `commit` before `close` to keep \
         changes, or `rollback` to give them up",
        path.display()
    )]
    Uncommitted {
        /// The filter file.
        path: PathBuf,
    },

    /// An earlier write or sync failed, so the contents of the disk are unknown.
    #[error("{}: an earlier write failed and its outcome is unknown; open the filter again to recover", path.display())]
    Poisoned {
        /// The filter file.
        path: PathBuf,
    },

    /// A shared writer was closed, or its thread ended because a change panicked.
    #[error("{}: the shared writer is closed; open the filter again", path.display())]
    Closed {
        /// The filter file.
        path: PathBuf,
    },

    /// A commit failed, and it is unknown whether it is durable. The writer is poisoned.
    #[error(
        "{source}; whether commit {commit} of {} is durable is unknown; open the filter again: at \
         commit {commit} or higher it is, below that it is not",
        path.display()
    )]
    Unknown {
        /// The filter file.
        path: PathBuf,
        /// The commit's number.
        commit: u64,
        /// Why the commit failed.
        source: Box<Error>,
    },

    /// Every commit is durable, but a step after the last one failed: applying it to the filter file, a checkpoint, or
    /// closing.
    #[error("{source}; commit {commit} of {} is durable; open the filter again to go on", path.display())]
    AfterCommit {
        /// The filter file.
        path: PathBuf,
        /// The number of the last commit.
        commit: u64,
        /// What failed after the commit.
        source: Box<Error>,
    },

    /// The metadata is too long.
    #[error(
        "{}: metadata of {needed} bytes exceeds the {limit} that a filter holds; remove entries no longer needed",
        path.display()
    )]
    MetadataFull {
        /// The filter file.
        path: PathBuf,
        /// How many bytes all entries take, as encoded.
        needed: usize,
        /// How many bytes they may take.
        limit: usize,
    },

    /// The file system has too little room.
    #[error("{}: needs {needed} bytes, but the file system has {available} free; free some or move the filter", path.display())]
    NoSpace {
        /// The filter file.
        path: PathBuf,
        /// How many bytes the new file needs.
        needed: u64,
        /// How many bytes are free.
        available: u64,
    },

    /// The filter cannot be halved.
    #[error("{}: will not shrink: {reason}", path.display())]
    Shrink {
        /// The filter file.
        path: PathBuf,
        /// Why the filter cannot be halved.
        reason: ShrinkRefusal,
    },

    /// An option has a value outside its range.
    #[error("{option} is {found}, but must be {expected}")]
    Option {
        /// The option's name.
        option: &'static str,
        /// The option's value.
        found: String,
        /// The allowed values.
        expected: &'static str,
    },

    /// The filter's false-positive rate is higher than the requested one.
    #[error(
        "{}: made for a false-positive rate of {rate:.2e}, but {wanted:.2e} was asked for; create another filter",
        path.display()
    )]
    Rate {
        /// The filter file.
        path: PathBuf,
        /// The file's rate at full load.
        rate: f64,
        /// The requested rate.
        wanted: f64,
    },

    /// The filter cannot be divided into this number of equal shards.
    #[error(
        "{}: its {regions} regions cannot be divided into {parts} shards, not even after doublings; choose a number \
         that divides {regions}, or such a number times a power of two",
        path.display()
    )]
    Indivisible {
        /// The filter file.
        path: PathBuf,
        /// How many regions the filter has.
        regions: u64,
        /// The requested number of shards.
        parts: u64,
    },

    /// Two filters cannot be joined or merged: they differ in a property that must be equal.
    #[error("{}: {difference}, compared with {}; {}", path.display(), other.display(), difference.remedy())]
    Unlike {
        /// The filter file.
        path: PathBuf,
        /// The file that it was compared with.
        other: PathBuf,
        /// The property that differs.
        difference: Difference,
    },

    /// Another filter was written over the file in place, while a writer had it open, as by `cp other live`. Or the file
    /// was replaced by a filter with another seed, under which a reader's existing hashes find nothing. A writer is
    /// poisoned, and has written nothing into the other filter.
    #[error("{}: was replaced by another filter; open it again, and repeat what was not committed", path.display())]
    Replaced {
        /// The filter file.
        path: PathBuf,
    },

    /// A writer kept changing the file while a reader needed it unchanged.
    #[error("{}: kept changing while it was {op}; try again when no writer is busy", path.display())]
    Busy {
        /// The filter file.
        path: PathBuf,
        /// The operation, as a past participle: `opened`, `read` or `verified`, for example.
        op: &'static str,
    },
}

impl Error {
    /// Wraps the failure of a commit whose outcome is unknown.
    pub(crate) fn unknown(path: &Path, commit: u64) -> impl Fn(Self) -> Self {
        move |source| Self::Unknown { path: path.to_owned(), commit, source: Box::new(source) }
    }

    /// Wraps a failure after the commit was durable.
    pub(crate) fn after_commit(path: &Path, commit: u64) -> impl Fn(Self) -> Self {
        move |source| Self::AfterCommit { path: path.to_owned(), commit, source: Box::new(source) }
    }

    /// Whether an insert failed only for this key: there is no room for it, and the filter must not double. Other keys
    /// may still find room, and stored keys are untouched.
    pub fn refuses_one_key(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Growth { .. })
    }
}

/// The value that a superblock field should have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Expected {
    /// Exactly this value.
    Exactly(u64),
    /// This value or a greater one.
    AtLeast(u64),
    /// A value from the first to the second.
    Between(u64, u64),
    /// A value described in words.
    Words(&'static str),
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(value) => write!(f, "{value}"),
            Self::AtLeast(value) => write!(f, "{value} or more"),
            Self::Between(low, high) => write!(f, "{low} to {high}"),
            Self::Words(words) => f.write_str(words),
        }
    }
}

/// The property in which two filters differ. The value of the other filter comes second.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Difference {
    /// The kinds.
    #[error("one is a {0}, the other a {1}")]
    Kind(Kind, Kind),
    /// Who hashes the keys: one filter hashes them itself, the other one's caller does.
    #[error("one of the two hashes its keys itself, and the other takes hashes")]
    Hash,
    /// The seeds of the hash. No message shows them: an attacker who knows one can craft keys that collide.
    #[error("has another seed")]
    Seed,
    /// The slots per bucket.
    #[error("has {0} slots per bucket, not {1}")]
    Slots(u32, u32),
    /// The numbers of regions, which doublings do not make equal.
    #[error("has {0} regions, which is not {1} times or divided by a power of two")]
    Regions(u64, u64),
    /// The numbers of shards.
    #[error("is one of {0} shards, not of {1}")]
    Shards(u64, u64),
    /// The shard, and the expected one.
    #[error("holds shard {0}, not {1}")]
    Shard(u64, u64),
    /// The rules for keys.
    #[error("has other rules for keys")]
    KeyRules,
    /// How long forgetting filters keep a key, or how many bits of a slot say when it expires.
    #[error("forgets after another time, or keeps it otherwise")]
    Retention,
    /// An entry of the metadata.
    #[error("has another value for the metadata `{0}`")]
    Metadata(String),
}

impl Difference {
    const fn remedy(&self) -> &'static str {
        match self {
            Self::Kind(..)
            | Self::KeyRules
            | Self::Hash
            | Self::Seed
            | Self::Retention
            | Self::Slots(..)
            | Self::Regions(..) => "make the next filter like the other",
            Self::Shards(..) | Self::Shard(..) => "give the shards of one filter, in their order",
            Self::Metadata(_) => "make the two equal, or remove one",
        }
    }
}

/// Why a filter is not halved.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShrinkRefusal {
    /// The filter has as many regions as at its creation.
    #[error("it has not doubled since it was created; create a smaller filter for the next keys")]
    NeverDoubled,
    /// More than half of all slots are in use.
    #[error("its entries would take {load:.3} of the slots; remove keys first, or leave it as it is")]
    Load {
        /// Slots in use, divided by the slots of the halved filter.
        load: f64,
    },
    /// The entries of two regions do not fit into one.
    #[error(
        "region {region} would have no room for its entries, at a load of {load:.3}; remove keys first, or leave it as \
         it is"
    )]
    Region {
        /// The region without room, by its number after the halving.
        region: u64,
        /// Slots in use, divided by the slots of the halved filter.
        load: f64,
    },
}

/// Why a file cannot be opened as sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unsealed {
    /// A writer has the file open, or died with it open.
    #[error("a writer has it, or died with it")]
    InUse,
    /// The filter's journal holds commits.
    #[error("its journal holds commits that the file may not have yet")]
    Journal,
}

/// Why gowk does not use a file or folder, although it has a name that gowk uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Untrusted {
    /// It is a symbolic link.
    #[error(
        "is a symbolic link, and gowk follows none under this name; remove the link, or put what it leads to in its place"
    )]
    SymbolicLink,
    /// It is a pipe, a socket, a device or a folder.
    #[error("is not a regular file, and gowk makes only such files under this name; move it away")]
    NotAFile,
    /// It has other names, under which it may belong to somebody else.
    #[error(
        "has {links} hard links, so it may be another's file; remove the other names, or put a copy in its place"
    )]
    HardLinks {
        /// How many names it has.
        links: u64,
    },
    /// Its owner is not the filter's, and everybody may make files in its folder.
    #[error(
        "belongs to user {found}, not to the filter's owner, and everybody may write to the folder; if no process has the \
         filter open, remove this file, and use a folder that only the filter's users may write to (`chmod o-w`)"
    )]
    Owner {
        /// The numeric id of its actual owner.
        found: u32,
    },
    /// A folder of local copies belongs to another user, or everybody may write to it.
    #[error(
        "is a folder of another user, or one that everybody may write to, and copies of filters in it cannot be \
         trusted; set `GOWK_CACHE` to a folder of your own"
    )]
    Cache,
}

/// The defect of a journal that holds commits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalDefect {
    /// It belongs to a filter with another uuid.
    #[error(
        "the journal of another filter, with commits; move it away if the filter beside it is the one you want"
    )]
    Foreign,
    /// It belongs to another state of the filter, for example because an older copy of the file was restored beside it.
    #[error(
        "holds commits up to {last}, but the filter ends at commit {checkpoint} of another history; \
         if an older copy of the filter was restored, move the journal away to go on from that copy"
    )]
    OtherHistory {
        /// The last commit it holds.
        last: u64,
        /// The commit of the file's superblock.
        checkpoint: u64,
    },
    /// A frame is broken, and later commits follow it.
    #[error(
        "damaged at byte {offset}: commits {first} to {last} after it cannot be applied; \
         restore a copy, or move the journal away to lose those commits"
    )]
    Broken {
        /// The byte of the journal at which the broken frame begins.
        offset: u64,
        /// The first commit that is lost.
        first: u64,
        /// The last commit seen after it.
        last: u64,
    },
    /// A file that is not a journal has the journal's name.
    #[error(
        "has the name of the filter's journal, but is not a journal; move it away, or give the filter another name"
    )]
    NotAJournal,
    /// It was written in a format that this build cannot read.
    #[error("journal format version {0}.{1} is newer than this build's; use a newer gowk")]
    Version(u16, u16),
}

/// Why a filter does not double when an insert finds no room.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrowthRefusal {
    /// One region is full while the others are not: too many keys share one pair of buckets, as copies or hostile
    /// keys do.
    #[error(
        "region {region} has no room although the whole filter's load is {load:.3} (doubling starts at {threshold:.3}); \
         more keys collide there than by chance; look for copies or crafted keys, or create a filter with another seed"
    )]
    Crowded {
        /// The region without room.
        region: u64,
        /// Entries divided by slots, over the whole filter.
        load: f64,
        /// The lowest load at which the filter would double.
        threshold: f64,
    },
    /// The new file would exceed `max_file_size`.
    #[error(
        "the new file would have {needed} bytes, more than the limit of {limit}; raise the limit or create another filter"
    )]
    FileSize {
        /// Bytes of the new file.
        needed: u64,
        /// The limit in force.
        limit: u64,
    },
    /// The expected false-positive rate would exceed `max_false_positive_rate`.
    #[error(
        "once doubled and full again, its expected false-positive rate would be {expected:.2e}, over the limit \
         of {limit:.2e}; create another filter beside it, or one with fewer slots per bucket"
    )]
    Rate {
        /// The rate after the doubling, at full load.
        expected: f64,
        /// The limit in force.
        limit: f64,
    },
    /// More than half of the entries have no tail left. Doubling would copy them, and gain little room.
    #[error(
        "{void} of {entries} entries have no bits left that could divide them, and doubling would copy them; \
         create a new filter, or allow such growth"
    )]
    Void {
        /// Entries without a tail.
        void: u64,
        /// All entries.
        entries: u64,
    },
    /// The format allows no more regions.
    #[error(
        "the format has no more than {0} regions, in all shards of a filter together; create several filters"
    )]
    Regions(u64),
}

/// The option to give, or to omit, to create a filter of the wanted kind.
fn kind_option(found: Kind, wanted: Kind) -> &'static str {
    match (found, wanted) {
        (_, Kind::Counting) => "with the option `counting`",
        (_, Kind::Forgetting) => "with the option `forget_after`",
        (Kind::Forgetting, Kind::Set) => "without the option `forget_after`",
        (_, Kind::Set) => "without the option `counting`",
    }
}

/// A time in milliseconds since 1970, for people: `2026-03-01 12:00:00 UTC`.
fn utc(millis: u64) -> String {
    let (mut days, seconds) = (millis / 86_400_000, millis / 1000 % 86_400);
    let is_leap = |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    // 400 years have 146,097 days.
    let mut year = 1970 + days / 146_097 * 400;
    days %= 146_097;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year}-{month:02}-{:02} {hour:02}:{minute:02}:{second:02} UTC", days + 1)
}

/// An [`io::Error`] that can be cloned, so that everyone who waited for a call gets its error.
#[derive(Clone, Debug)]
pub struct IoError(Arc<io::Error>);

impl From<io::Error> for IoError {
    fn from(error: io::Error) -> Self {
        Self(Arc::new(error))
    }
}

impl Deref for IoError {
    type Target = io::Error;

    fn deref(&self) -> &io::Error {
        &self.0
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for IoError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

impl Error {
    pub(crate) fn io(path: &Path, op: &'static str, source: impl Into<IoError>) -> Self {
        Self::Io { path: path.to_owned(), op, source: source.into() }
    }
}

/// Adds the path and the operation to an I/O error.
pub(crate) trait IoContext<T> {
    fn at(self, path: &Path, op: &'static str) -> Result<T>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn at(self, path: &Path, op: &'static str) -> Result<T> {
        self.map_err(|source| Error::io(path, op, source))
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::{Error, utc};

    /// One failed commit, reported to everyone who waited for it. The system's error is in the chain of each clone.
    #[test]
    fn errors_are_cloned_with_their_sources_and_go_into_boxes() {
        fn passed_on<L: crate::Lookup>(
            outcome: Result<bool, L::Error>,
        ) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
            Ok(outcome?)
        }
        let source = Error::io(Path::new("f"), "sync", io::Error::from_raw_os_error(5));
        let error = Error::Unknown { path: "f".into(), commit: 7, source: Box::new(source) };
        let waiters = [error.clone(), error.clone(), error];
        for error in waiters {
            let chain = std::iter::successors(std::error::Error::source(&error), |error| error.source());
            let last = chain.last().and_then(|error| error.downcast_ref::<io::Error>()).unwrap();
            assert_eq!(last.raw_os_error(), Some(5));
            let boxed = passed_on::<crate::Reader>(Err(error)).unwrap_err();
            assert!(boxed.downcast_ref::<Error>().is_some());
        }
    }

    #[test]
    fn times_are_told_as_dates() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_200, "2024-03-01 00:00:00 UTC"),
            (1_735_689_599, "2024-12-31 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
            (13_574_563_200, "2400-02-29 00:00:00 UTC"),
        ] {
            assert_eq!(utc(seconds * 1000), expected);
        }
    }
}
